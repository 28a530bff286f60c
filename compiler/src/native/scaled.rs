//! [`ScaledDots`]: sums of products of numbers and scaled 8-bit integers, along rows of both.

use crate::dtype::DType;
use crate::graph::Aggregation;
use crate::scalar::Value;

use super::chain::Move;
use super::code::Code;
use super::reduction::Reduction;
use super::step::{Action, Reader};

/// A sum over rows of `number * (integer - zero) * scale`, all f32 but the integers.
pub struct ScaledDots<'a> {
    /// The numbers, consecutive along a row.
    pub numbers: &'a Reader,
    /// The integers, consecutive along a row.
    pub integers: &'a Reader,
    /// True if they are i8, false if u8.
    pub is_signed: bool,
    /// The scale of each block.
    pub scale: &'a Reader,
    /// The zero of each block.
    pub zero: Zero<'a>,
    /// The points of a block, a multiple of [`ScaledDots::UNIT`].
    pub block: usize,
}

/// The number that is subtracted from each integer.
pub enum Zero<'a> {
    /// The same for all.
    Constant(f32),
    /// One for each block.
    Loaded(&'a Reader),
}

impl ScaledDots<'_> {
    /// Blocks consist of whole units of this many points.
    pub const UNIT: usize = 32;
}

impl Reduction {
    /// Returns the loads of a sum of products with scaled integers, which reads these where they
    /// are.
    pub fn scaled_dots(&self) -> Option<ScaledDots<'_>> {
        let suits = self.is_along() && !self.is_shared() && self.aggregation == Aggregation::Sum;
        if !suits || self.dtype != DType::F32 || !self.body.steady.is_empty() {
            return None;
        }
        let (last, loads) = self.body.steps.split_last()?;
        let Action::Chain(chain) = &last.action else { return None };
        let (zero, [a, b]) = match chain.moves[..] {
            [FROM_INTEGER, Move::Apply(Code::Mul, a), Move::Apply(Code::Mul, b), Move::Keep(_)] => {
                (None, [a[0]?, b[0]?])
            }
            [
                FROM_INTEGER,
                Move::Apply(Code::Sub, zero),
                Move::Apply(Code::Mul, a),
                Move::Apply(Code::Mul, b),
                Move::Keep(_),
            ] => (Some(zero[0]?), [a[0]?, b[0]?]),
            _ => return None,
        };
        let load = |value: Value| {
            let load = loads.iter().find(|load| load.value == value)?;
            let Action::Load(reader) = &load.action else { return None };
            self.is_static(reader).then_some(&**reader)
        };
        let row = |value: Value| load(value).filter(|reader| self.is_row(reader));
        let (numbers, scale) = match row(a) {
            Some(numbers) => (numbers, load(b)?),
            None => (row(b)?, load(a)?),
        };
        let block = scale.offset.run;
        let of_blocks = |reader: &&Reader| {
            let Reader { offset, .. } = reader;
            offset.steps[0] == 0
                && offset.run == block
                && (offset.outer <= 1 && offset.beside[0] >= 0)
        };
        let constant = |value: Value| {
            let constants = &self.body.constants;
            let (.., scalar) = constants.iter().find(|(constant, ..)| *constant == value)?;
            Some(Zero::Constant(scalar.to_f64() as f32))
        };
        let zero = match zero {
            None => Zero::Constant(0.0),
            Some(zero) => match constant(zero) {
                Some(zero) => zero,
                None => Zero::Loaded(load(zero).filter(of_blocks)?),
            },
        };
        let is_signed = match self.body.dtypes[chain.from] {
            DType::I8 => true,
            DType::U8 => false,
            _ => return None,
        };
        let count = 3 + usize::from(matches!(zero, Zero::Loaded(_)));
        let is_whole = loads.len() == count
            && self.body.results == [last.value]
            && block.is_multiple_of(ScaledDots::UNIT);
        let scale = Some(scale).filter(of_blocks).filter(|_| is_whole)?;
        Some(ScaledDots { numbers, integers: row(chain.from)?, is_signed, scale, zero, block })
    }
}

/// The conversion of an integer of at most 32 bits.
const FROM_INTEGER: Move = Move::Apply(Code::FromSigned, [None, None]);
