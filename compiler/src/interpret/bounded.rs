//! [`Bounded`]: a value that the reference computes, and the maximum error of a correct device.
//!
//! The bound is propagated through every operation (running error analysis, Wilkinson 1963): errors
//! of the operands, through the operation, plus the device's own rounding. If all values are exact,
//! as small integers are, the bound is 0 and a device must give the same value. It is infinite
//! where a device may give any value.

use crate::dtype::{DType, Scalar};
use crate::graph::Aggregation;
use crate::scalar::{BinaryOp, UnaryOp};

use super::contraction::order;

/// A value of the reference, and the maximum error of a correct device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounded {
    /// The value.
    pub value: Scalar,
    /// Maximum difference of a device's value.
    pub error: f64,
}

/// Error of a device's division and square root, in roundings.
const QUOTIENT: f64 = 6.0;

/// Safety factor for the error of a sum in any order. The error of independent roundings grows with
/// the square root of their number (Higham and Mary 2019); more than this factor times that is most
/// unlikely.
const UNLIKELY: f64 = 8.0;

/// Returns the error that `roundings` add to a value of this magnitude.
fn rounding(dtype: DType, magnitude: f64, roundings: f64) -> f64 {
    if dtype.is_float() {
        roundings * (dtype.epsilon() * magnitude + dtype.smallest())
    } else {
        0.0
    }
}

/// Roundings of an elementary function: 4 units in the last place, and a rounding to the type.
const FUNCTION: f64 = 10.0;

/// Returns the maximum change of `f` within `error` of `x`, judging by the ends of the interval.
fn spread(x: f64, error: f64, f: impl Fn(f64) -> f64) -> f64 {
    if error == 0.0 {
        return 0.0;
    }
    let at = f(x);
    let most = (f(x + error) - at).abs().max((f(x - error) - at).abs());
    if most.is_nan() { f64::INFINITY } else { most }
}

impl Bounded {
    /// Returns a value without an error.
    pub fn exact(value: Scalar) -> Bounded {
        Bounded { value, error: 0.0 }
    }

    /// Returns whether the value of a correct device is known.
    pub fn is_decided(&self) -> bool {
        self.error.is_finite() && self.value.to_f64().is_finite()
    }

    /// Returns whether a correct device may give `other`.
    pub fn allows(&self, other: Scalar) -> bool {
        let (own, other) = (self.value.to_f64(), other.to_f64());
        !self.is_decided() || (own - other).abs() <= self.error
    }

    fn number(&self) -> f64 {
        self.value.to_f64()
    }

    pub(super) fn unary(op: UnaryOp, a: Bounded) -> Bounded {
        let value = op.evaluate(a.value);
        if !a.value.dtype.is_float() {
            return Bounded { value, error: if a.error > 0.0 { f64::INFINITY } else { 0.0 } };
        }
        let x = a.number();
        let inherited =
            spread(x, a.error, |x| op.evaluate(Scalar::from_f64(DType::F64, x)).to_f64());
        let (dtype, y) = (value.dtype, value.to_f64().abs());
        let own = match op {
            UnaryOp::Neg
            | UnaryOp::Abs
            | UnaryOp::Ceil
            | UnaryOp::Floor
            | UnaryOp::Rint
            | UnaryOp::Round
            | UnaryOp::BitNot => 0.0,
            UnaryOp::Recip | UnaryOp::Sqrt | UnaryOp::Rsqrt => rounding(dtype, y, QUOTIENT),
            // The exponential of a softmax is the device's own implementation.
            UnaryOp::Exp => rounding(dtype, y, 16.0 + 4.0 * x.abs()),
            _ => rounding(dtype, y, FUNCTION),
        };
        Bounded { value, error: inherited + own }
    }

    pub(super) fn binary(op: BinaryOp, a: Bounded, b: Bounded) -> Bounded {
        let value = op.evaluate(a.value, b.value);
        let (x, y, errors) = (a.number(), b.number(), a.error + b.error);
        let dtype = a.value.dtype;
        if op.is_comparison() {
            let undecided = errors > 0.0 && ((x - y).abs() <= errors || (x - y).is_nan());
            return Bounded { value, error: if undecided { 1.0 } else { 0.0 } };
        }
        if matches!(op, BinaryOp::Max | BinaryOp::Min) {
            return Bounded {
                value,
                error: if x.is_nan() || y.is_nan() { f64::INFINITY } else { a.error.max(b.error) },
            };
        }
        if !dtype.is_float() {
            return Bounded { value, error: if errors > 0.0 { f64::INFINITY } else { 0.0 } };
        }
        let z = value.to_f64().abs();
        // If the exact result is representable, no device rounds it.
        let rounded =
            |exact: f64| if exact == value.to_f64() { 0.0 } else { rounding(dtype, z, 1.0) };
        let error = match op {
            BinaryOp::Add => errors + rounded(x + y),
            BinaryOp::Sub => errors + rounded(x - y),
            BinaryOp::Mul => {
                x.abs() * b.error + y.abs() * a.error + a.error * b.error + rounded(x * y)
            }
            BinaryOp::Div if y.abs() <= b.error => f64::INFINITY,
            BinaryOp::Div => {
                (a.error + z * b.error) / (y.abs() - b.error) + rounding(dtype, z, QUOTIENT)
            }
            _ => {
                let at = |x: f64, y: f64| {
                    op.evaluate(Scalar::from_f64(DType::F64, x), Scalar::from_f64(DType::F64, y))
                        .to_f64()
                };
                let ends = [-1.0, 1.0].map(|side| {
                    let x = x + side * a.error;
                    (at(x, y) - at(a.number(), y)).abs() + spread(y, b.error, |y| at(x, y))
                });
                ends[0].max(ends[1]) + rounding(dtype, z, FUNCTION)
            }
        };
        Bounded { value, error: if error.is_nan() { f64::INFINITY } else { error } }
    }

    pub(super) fn select(condition: Bounded, then: Bounded, otherwise: Bounded) -> Bounded {
        let chosen = if condition.value.is_true() { then } else { otherwise };
        if condition.error == 0.0 {
            return chosen;
        }
        let apart = (then.number() - otherwise.number()).abs();
        let error = apart + then.error.max(otherwise.error);
        Bounded { error: if error.is_nan() { f64::INFINITY } else { error }, ..chosen }
    }

    pub(super) fn cast(a: Bounded, dtype: DType) -> Bounded {
        let value = a.value.cast(dtype);
        if dtype.is_float() {
            let own = if value.to_f64() == a.number() {
                0.0
            } else {
                rounding(dtype, value.to_f64().abs(), 1.0)
            };
            return Bounded { value, error: a.error + own };
        }
        let within = |x: f64| Scalar::from_f64(DType::F64, x).cast(dtype).to_f64();
        let error = match a.value.dtype.is_float() {
            true if dtype == DType::Bool && a.number().abs() <= a.error => {
                f64::from(u8::from(a.error > 0.0))
            }
            true => spread(a.number(), a.error, within),
            false => {
                if a.error > 0.0 {
                    f64::INFINITY
                } else {
                    0.0
                }
            }
        };
        Bounded { value, error }
    }
}

/// The state of an aggregation.
pub(super) struct Total {
    aggregation: Aggregation,
    count: f64,
    /// For floats, in f64: the sum or product of the terms, the sum or product of their maximum
    /// magnitudes, and the sum of their errors.
    total: f64,
    most: f64,
    error: f64,
    /// True if all terms are exact, and true if all are integers.
    exact: bool,
    whole: bool,
    /// For all other types and aggregations.
    best: Scalar,
    best_error: f64,
    position: i32,
    /// For the arg forms: the maximum that any value except the best may have. For argmin, values
    /// are negated.
    rival: f64,
}

impl Total {
    /// Returns an aggregation without terms, which have type `dtype`.
    pub fn new(aggregation: Aggregation, dtype: DType) -> Total {
        let start = if aggregation == Aggregation::Product { 1.0 } else { 0.0 };
        Total {
            aggregation,
            count: 0.0,
            total: start,
            most: start,
            error: 0.0,
            exact: true,
            whole: true,
            best: aggregation.identity(dtype),
            best_error: 0.0,
            position: 0,
            rival: f64::NEG_INFINITY,
        }
    }

    pub fn is_written(&self) -> bool {
        self.count > 0.0
    }

    /// Adds a term. The arg forms also use its position.
    pub fn add(&mut self, term: Bounded, position: i32) {
        let Bounded { value, error } = term;
        let x = value.to_f64();
        match self.aggregation {
            Aggregation::Sum if value.dtype.is_float() => {
                self.total += x;
                self.most += x.abs();
                self.error += error;
            }
            Aggregation::Product if value.dtype.is_float() => {
                self.total *= x;
                self.most *= x.abs() + error;
            }
            Aggregation::Assign => (self.best, self.best_error) = (value, error),
            aggregation => match aggregation.operation() {
                Some(op) => {
                    let sum = Bounded::binary(
                        op,
                        Bounded { value: self.best, error: self.best_error },
                        term,
                    );
                    (self.best, self.best_error) = (sum.value, sum.error);
                }
                None => self.challenge(term, position),
            },
        }
        self.exact &= error == 0.0;
        self.whole &= x.fract() == 0.0;
        self.count += 1.0;
    }

    /// Adds one of the terms, which have positions: that with `rank` better ones before it.
    pub fn choose(&mut self, mut terms: Vec<(Bounded, i32)>, rank: usize) {
        let aggregation = self.aggregation;
        terms.sort_by(|(a, p), (b, q)| order(aggregation, a.value, b.value).then(p.cmp(q)));
        if rank >= terms.len() {
            return;
        }
        let (chosen, position) = terms.remove(rank);
        self.add(chosen, position);
        for (term, _) in terms {
            let distance = (term.number() - chosen.number()).abs();
            self.exact &= term.error == 0.0;
            if distance.is_nan() || distance <= term.error + chosen.error {
                self.rival = f64::INFINITY;
            }
        }
    }

    fn challenge(&mut self, term: Bounded, position: i32) {
        let sign = if self.aggregation == Aggregation::ArgMax { 1.0 } else { -1.0 };
        let (new, old) = (sign * term.number(), sign * self.best.to_f64());
        if new.is_nan() {
            self.error = f64::INFINITY;
        }
        // Compares the values themselves: large integers may differ where their floats do not.
        let holds = |op: BinaryOp| op.evaluate(term.value, self.best).to_f64() != 0.0;
        let better =
            if self.aggregation == Aggregation::ArgMax { BinaryOp::Gt } else { BinaryOp::Lt };
        let wins = holds(better) || holds(BinaryOp::Eq) && position < self.position;
        let loser = if self.count == 0.0 || wins {
            let loser = if self.count == 0.0 { f64::NEG_INFINITY } else { old + self.best_error };
            (self.best, self.best_error, self.position) = (term.value, term.error, position);
            loser
        } else {
            new + term.error
        };
        self.rival = self.rival.max(loser);
    }

    /// Returns the aggregate, or its position for the arg forms.
    pub fn result(&self) -> Bounded {
        let dtype = self.best.dtype;
        // Devices accumulate f16 and bf16 in f32.
        let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let of_floats = |inherited: f64, roundings: f64| {
            let value = Scalar::from_f64(dtype, self.total);
            let exact = self.exact && self.whole && self.most <= 1.0 / wide.epsilon();
            let own = if exact { 0.0 } else { rounding(wide, self.most, roundings) };
            let last = if value.to_f64() == self.total {
                0.0
            } else {
                rounding(dtype, value.to_f64().abs(), 1.0)
            };
            let error = if exact { last } else { inherited + own + last };
            Bounded { value, error: if error.is_nan() { f64::INFINITY } else { error } }
        };
        match self.aggregation {
            Aggregation::Sum if dtype.is_float() => {
                of_floats(self.error, UNLIKELY * self.count.sqrt())
            }
            Aggregation::Product if dtype.is_float() => {
                of_floats(self.most - self.total.abs(), self.count)
            }
            Aggregation::ArgMax | Aggregation::ArgMin => {
                let sign = if self.aggregation == Aggregation::ArgMax { 1.0 } else { -1.0 };
                let undecided =
                    !self.exact && self.rival >= sign * self.best.to_f64() - self.best_error;
                let error = if undecided { f64::INFINITY } else { self.error };
                Bounded { value: Scalar::i32(self.position), error }
            }
            _ => Bounded { value: self.best, error: self.best_error },
        }
    }
}
