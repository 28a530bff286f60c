//! The epilogue of most products and convolutions in one pass: bias, normalisation, residual and
//! activation, as `min(max(((x + a) · s + t) + u, low), high)`. Each part is optional.
//!
//! Always true: it computes what the program says, operation by operation, in its order.

use crate::dtype::{DType, Scalar};
use crate::scalar::{BinaryOp, Value};

use super::step::Action;
use super::tape::Tape;

/// An operand of the form, with one number for each place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// A constant or steady value in a register of the tape, with its period in places.
    Kept {
        /// The register of the tape.
        register: usize,
        /// The period of the value, in places.
        period: usize,
    },
    /// The element of an operand that has the place's number.
    AtPlace(usize),
}

/// An epilogue of this form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fused {
    /// The terms a, s, t and u.
    pub terms: [Option<Term>; 4],
    /// The lower bound, an f32.
    pub low: Option<Scalar>,
    /// The upper bound, an f32.
    pub high: Option<Scalar>,
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
    pub(super) fn of(tape: &mut Tape, x: Value) -> Option<Self> {
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
            let constant = tape
                .constants
                .iter()
                .find(|(value, ..)| *value == other)
                .map(|(_, _, scalar)| *scalar);
            let kept = tape.kept(other).map(|(register, period)| Term::Kept { register, period });
            let loaded = loads
                .iter()
                .find(|(value, _)| *value == other)
                .map(|(_, operand)| Term::AtPlace(*operand));
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
                LOW => fused.low = Some(constant?),
                HIGH => fused.high = Some(constant?),
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
}
