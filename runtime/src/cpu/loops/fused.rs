//! The epilogue of most products and convolutions in one pass: bias, normalisation, residual and
//! activation, as `min(max(((x + a) · s + t) + u, low), high)`. Each part is optional.
//!
//! Always true: it computes what the program says, operation by operation, in its order.

use super::tape::{Action, Tape};
use crate::cpu::vector::level::{self, Level, level};
use tile_compiler::dtype::DType;
use tile_compiler::scalar::{BinaryOp, Value};

/// An operand of the form, with one number for each place.
#[derive(Clone, Copy, Debug)]
pub enum Term {
    /// A constant or steady value in a register of the tape, with its period in places.
    Kept { register: usize, period: usize },
    /// The element of an operand that has the place's number.
    AtPlace(usize),
}

/// An epilogue of this form.
#[derive(Clone, Debug, Default)]
pub struct Fused {
    /// The terms a, s, t and u.
    pub terms: [Option<Term>; 4],
    pub low: Option<f32>,
    pub high: Option<f32>,
}

/// The positions in the form, in order.
const BEFORE: usize = 0;
const SCALE: usize = 1;
const AFTER: usize = 2;
const LAST: usize = 3;
const LOW: usize = 4;
const HIGH: usize = 5;

impl Fused {
    /// Recognises the form in a tape whose given value is `x`. The tape may gain steady steps, for
    /// negated terms.
    pub fn of(tape: &mut Tape, x: Value) -> Option<Self> {
        let [result] = tape.results[..] else { return None };
        let mut fused = Self::default();
        let (mut value, mut next) = (x, BEFORE);
        let mut loads: Vec<(Value, usize)> = Vec::new();
        let mut negated: Vec<(usize, Value)> = Vec::new();
        for step in &tape.steps {
            let (op, a, b) = match step.action {
                Action::Binary(op, a, b) => (op, a, b),
                Action::Load(ref reader) => {
                    loads.push((step.value, reader.at_place(&tape.space)?));
                    continue;
                }
                _ => return None,
            };
            if tape.dtypes[step.value] != DType::F32 || (a == value) == (b == value) {
                return None;
            }
            let other = if a == value { b } else { a };
            let constant = tape.constants.iter().find(|(value, ..)| *value == other).map(|(_, _, scalar)| *scalar);
            let kept = tape.kept(other).map(|(register, period)| Term::Kept { register, period });
            let loaded = loads.iter().find(|(value, _)| *value == other).map(|(_, operand)| Term::AtPlace(*operand));
            let place = match op {
                BinaryOp::Add if next == BEFORE && fused.scales_later(tape, step.value) => BEFORE,
                BinaryOp::Sub if next == BEFORE && a == value && kept.is_some() => BEFORE,
                BinaryOp::Mul if next <= SCALE => SCALE,
                BinaryOp::Add if next <= LAST => next.max(AFTER),
                BinaryOp::Sub if next <= LAST && a == value && kept.is_some() => next.max(AFTER),
                BinaryOp::Max if next <= LOW && a == value => LOW,
                BinaryOp::Min if next <= HIGH && a == value => HIGH,
                _ => return None,
            };
            match place {
                LOW => fused.low = Some(constant?.to_f64() as f32),
                HIGH => fused.high = Some(constant?.to_f64() as f32),
                _ => fused.terms[place] = Some(kept.or(loaded)?),
            }
            if op == BinaryOp::Sub {
                negated.push((place, other));
            }
            (value, next) = (step.value, place + 1);
        }
        if value != result || tape.dtypes[x] != DType::F32 {
            return None;
        }
        for (place, value) in negated {
            let negative = tape.negative(value);
            let (register, period) = tape.kept(negative)?;
            fused.terms[place] = Some(Term::Kept { register, period });
        }
        Some(fused)
    }

    /// Returns whether `value`, or a value made from it, is multiplied.
    fn scales_later(&self, tape: &Tape, value: Value) -> bool {
        let mut value = value;
        for step in &tape.steps {
            match step.action {
                Action::Binary(BinaryOp::Mul, a, b) if a == value || b == value => return true,
                Action::Binary(_, a, b) if a == value || b == value => value = step.value,
                _ => {}
            }
        }
        false
    }

    /// Computes `out` from `x`. The terms are those of the form, each at least as long as `out`.
    pub fn apply(&self, x: &[f32], terms: [Option<&[f32]>; 4], out: &mut [f32]) {
        let clamps = self.low.is_some() || self.high.is_some();
        let form = terms
            .iter()
            .enumerate()
            .fold(usize::from(clamps) << 4, |form, (i, t)| form | usize::from(t.is_some()) << i);
        let n = out.len();
        let x = &x[..n];
        let terms = terms.map(|term| term.map_or(x, |term| &term[..n]));
        let bounds = [self.low.unwrap_or(f32::NEG_INFINITY), self.high.unwrap_or(f32::INFINITY)];
        match level() {
            Level::Baseline => BASELINE[form](x, terms, bounds, out),
            #[cfg(target_arch = "aarch64")]
            Level::Neon(_) => BASELINE[form](x, terms, bounds, out),
            // SAFETY: the proof says that the processor has the features of these functions.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(_) => unsafe { AVX2[form](x, terms, bounds, out) },
            // SAFETY: the proof says that the processor has the features of these functions.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(_) => unsafe { AVX512[form](x, terms, bounds, out) },
        }
    }
}

/// An instance of [`pass`], compiled for any processor.
type Pass = fn(x: &[f32], terms: [&[f32]; 4], bounds: [f32; 2], out: &mut [f32]);

/// An instance of [`pass`], compiled for an instruction set.
///
/// # Safety
/// - The processor must have that instruction set.
#[cfg(target_arch = "x86_64")]
type PassOf = unsafe fn(x: &[f32], terms: [&[f32]; 4], bounds: [f32; 2], out: &mut [f32]);

/// One pass. The bits of `FORM` say which terms there are, and the fifth bit whether there are
/// bounds. All slices have at least the length of `out`.
#[inline(always)]
fn pass<const FORM: usize>(x: &[f32], [a, s, t, u]: [&[f32]; 4], [low, high]: [f32; 2], out: &mut [f32]) {
    let n = out.len();
    let (x, a, s, t, u) = (&x[..n], &a[..n], &s[..n], &t[..n], &u[..n]);
    for i in 0..n {
        let mut y = x[i];
        if FORM & 1 != 0 {
            y += a[i];
        }
        if FORM & 2 != 0 {
            y *= s[i];
        }
        if FORM & 4 != 0 {
            y += t[i];
        }
        if FORM & 8 != 0 {
            y += u[i];
        }
        if FORM & 16 != 0 {
            y = if y < low { low } else { y };
            y = if high < y { high } else { y };
        }
        out[i] = y;
    }
}

macro_rules! passes {
    ($run:ident) => {
        [
            $run::<0>, $run::<1>, $run::<2>, $run::<3>, $run::<4>, $run::<5>, $run::<6>, $run::<7>, $run::<8>,
            $run::<9>, $run::<10>, $run::<11>, $run::<12>, $run::<13>, $run::<14>, $run::<15>, $run::<16>, $run::<17>,
            $run::<18>, $run::<19>, $run::<20>, $run::<21>, $run::<22>, $run::<23>, $run::<24>, $run::<25>, $run::<26>,
            $run::<27>, $run::<28>, $run::<29>, $run::<30>, $run::<31>,
        ]
    };
}

static BASELINE: [Pass; 32] = passes!(pass);

#[cfg(target_arch = "x86_64")]
level::avx2! {
    fn avx2<const FORM: usize>(x: &[f32], terms: [&[f32]; 4], bounds: [f32; 2], out: &mut [f32]) {
        pass::<FORM>(x, terms, bounds, out)
    }
}

#[cfg(target_arch = "x86_64")]
level::avx512! {
    fn avx512<const FORM: usize>(x: &[f32], terms: [&[f32]; 4], bounds: [f32; 2], out: &mut [f32]) {
        pass::<FORM>(x, terms, bounds, out)
    }
}

#[cfg(target_arch = "x86_64")]
static AVX2: [PassOf; 32] = passes!(avx2);
#[cfg(target_arch = "x86_64")]
static AVX512: [PassOf; 32] = passes!(avx512);
