//! 64-bit integers as words of 32 bits, which vector units compute several times as fast.
//!
//! Example: ONNX has indices in i64. In `Y[i] = X[k < 0 ? k + n : k]`, the index is shifted,
//! clamped to the axis and compared with the clamped one. Loads of such programs saturate to
//! `-LIMIT..=LIMIT`, and all else is computed in i32.
//!
//! Why it is sound: each word has an [`Image`]. It equals the integer where that lies within a
//! bound; elsewhere both have the same sign, and the word lies outside of the bound, too. So clamps
//! and comparisons within the bound have the same results. Any other program stays as it is.

use crate::dense::Dense;
use crate::dtype::{DType, Scalar};
use crate::nest::Leaf;
use crate::scalar::{BinaryOp, Inst, Program, Value};

use super::analysis::reads;

/// The greatest magnitude of a word that is loaded.
pub const LIMIT: i64 = 1 << 30;

/// The relation of a word to the integer for which it stands.
#[derive(Clone, Copy)]
struct Image {
    /// Bounds of the integer.
    low: i64,
    high: i64,
    /// The word equals the integer if its magnitude is less than this.
    bound: i64,
    /// The greatest magnitude of the word.
    most: i64,
}

impl Image {
    fn is_exact(&self) -> bool {
        self.low > -self.bound && self.high < self.bound
    }

    /// Returns the integer, if it is always the same.
    fn constant(&self) -> Option<i64> {
        (self.low == self.high && self.is_exact()).then_some(self.low)
    }

    /// Returns whether comparisons of the words equal those of the integers.
    fn compares_with(&self, other: &Image) -> bool {
        let within = |a: &Image, b: &Image| {
            a.is_exact() && a.low.saturating_abs().max(a.high.saturating_abs()) < b.bound
        };
        within(self, other) || within(other, self)
    }
}

/// Returns the program with words instead of 64-bit integers, if none of these is a result, and
/// each has an image that serves its readers.
pub fn in_words(program: &Program<Leaf>, results: &[Value]) -> Option<Program<Leaf>> {
    let is_long = |value: Value| program.dtype(value) == DType::I64;
    let any = program.insts.ids().any(is_long);
    if !any || results.iter().any(|&result| is_long(result)) {
        return None;
    }
    let mut words = program.clone();
    let mut images: Dense<Value, Option<Image>> = Dense::with_capacity(program.insts.len());
    for value in program.insts.ids() {
        let image = |value: Value| images[value];
        let inst = &program.insts[value].0;
        if !is_long(value) {
            let serves = match *inst {
                Inst::Binary(op, a, b) if op.is_comparison() && is_long(a) => {
                    image(a)?.compares_with(&image(b)?)
                }
                Inst::Cast(a) if is_long(a) => image(a)?.is_exact(),
                Inst::Leaf(Leaf::Load(_)) => reads(inst)
                    .filter(|&a| is_long(a))
                    .all(|a| image(a).is_some_and(|a| a.is_exact())),
                _ => !reads(inst).any(is_long),
            };
            images.push(None);
            if !serves {
                return None;
            }
            continue;
        }
        let image = match *inst {
            Inst::Const(scalar) => {
                let number = scalar.to_i64();
                words.insts[value].0 = Inst::Const(Scalar::i32(i32::try_from(number).ok()?));
                Image { low: number, high: number, bound: i64::MAX, most: number.abs() }
            }
            Inst::Leaf(Leaf::Load(ref load)) if load.dynamic.is_empty() => {
                Image { low: i64::MIN, high: i64::MAX, bound: LIMIT, most: LIMIT }
            }
            Inst::Binary(op @ (BinaryOp::Max | BinaryOp::Min), a, b) => {
                let (a, b) = (image(a)?, image(b)?);
                match b.constant() {
                    Some(by) => clamped(op, a, by)?,
                    None => clamped(op, b, a.constant()?)?,
                }
            }
            Inst::Select(condition, a, b) => {
                let then = match program.insts[a].0 {
                    Inst::Binary(BinaryOp::Add, x, by) => {
                        let condition = &program.insts[condition].0;
                        shifted_below_zero(
                            program,
                            condition,
                            x,
                            image(x)?,
                            image(by)?.constant()?,
                        )?
                    }
                    _ => image(a)?,
                };
                let otherwise = image(b)?;
                Image {
                    low: then.low.min(otherwise.low),
                    high: then.high.max(otherwise.high),
                    bound: then.bound.min(otherwise.bound),
                    most: then.most.max(otherwise.most),
                }
            }
            // Such a sum may wrap. A choice that reads it finds its image.
            Inst::Binary(BinaryOp::Add, ..) => {
                images.push(None);
                words.insts[value].1 = DType::I32;
                continue;
            }
            _ => return None,
        };
        words.insts[value].1 = DType::I32;
        images.push(Some(image));
    }
    Some(words)
}

/// Returns the image of the greater or lesser of an integer and a constant.
fn clamped(op: BinaryOp, Image { low, high, bound, most }: Image, by: i64) -> Option<Image> {
    let most = most.max(by.saturating_abs());
    let (low, high) = match op {
        BinaryOp::Max => (low.max(by), high.max(by)),
        _ => (low.min(by), high.min(by)),
    };
    (by.saturating_abs() < bound).then_some(Image { low, high, bound, most })
}

/// Returns the image of `x + by` where the condition says that `x` is negative. There, the sum with
/// a number that is not negative does not wrap.
fn shifted_below_zero(
    program: &Program<Leaf>,
    condition: &Inst<Leaf>,
    x: Value,
    image: Image,
    by: i64,
) -> Option<Image> {
    let Inst::Binary(BinaryOp::Lt, a, zero) = *condition else { return None };
    let is_zero =
        matches!(program.insts[zero].0, Inst::Const(scalar) if scalar.to_i64() == 0 && a == x);
    let (bound, most) = (image.bound.checked_sub(by)?, image.most.checked_add(by)?);
    let fits = is_zero && by >= 0 && bound > 0 && most <= i32::MAX.into();
    fits.then(|| Image {
        low: image.low.saturating_add(by),
        high: image.high.min(-1).saturating_add(by),
        bound,
        most,
    })
}
