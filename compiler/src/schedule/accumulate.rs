//! The running state of an aggregation inside a kernel.

use crate::dtype::{DType, Scalar};
use crate::graph::Aggregation;
use crate::kernel::{Builder, Expr};
use crate::scalar::{BinaryOp, Inst};

use super::point::Point;
use super::values::{Unsupported, Values, compute_type};

/// The kernel variables of an aggregation: the aggregated value; if the nest needs it, whether any
/// point was written; and for argmax and argmin the position of the best point.
#[derive(Clone)]
pub(super) struct Accumulator {
    pub value: Expr,
    pub written: Option<Expr>,
    pub position: Option<Expr>,
}

/// The value of a body at a point, before it is aggregated.
pub(super) enum Term {
    /// The factors of a product that is summed.
    Product(Expr, Expr),
    /// A value and, if the body says so, whether it counts.
    Value(Expr, Option<Expr>),
}

impl Term {
    /// Writes the body at `point`.
    pub fn of(b: &mut Builder, point: &Point) -> Result<Term, Unsupported> {
        let body = &point.nest.body;
        let dtype = body.dtype(body.results[0]);
        if let (Some(Aggregation::Sum), DType::F32, [result]) =
            (point.nest.aggregation, dtype, &body.results[..])
            && let Inst::Binary(BinaryOp::Mul, x, y) = body.insts[*result].0
        {
            let values = point.values(b, body, &[x, y], None)?;
            return Ok(Term::Product(values[x].clone(), values[y].clone()));
        }
        let results = point.program(b, body, None)?;
        Ok(Term::Value(results[0].clone(), results.get(1).cloned()))
    }
}

impl Accumulator {
    /// Declares the variables, initialized to the aggregation's identity. Returns `None` for a nest
    /// without an aggregation.
    pub fn declare(b: &mut Builder, point: &Point) -> Result<Option<Accumulator>, Unsupported> {
        let nest = point.nest;
        let (Some(aggregation), Some(dtype)) = (nest.aggregation, nest.accumulator()) else {
            return Ok(None);
        };
        let values = Values { b, profile: point.profile, lanes: point.lanes };
        let identity = values.constant(aggregation.identity(dtype))?;
        let nothing = values.constant(Scalar::bool(false))?;
        let first = values.constant(Scalar::i32(0))?;
        let value = b.var("acc", identity);
        let written =
            (nest.tracks_written() || nest.position.is_some()).then(|| b.var("written", nothing));
        let position = nest.position.is_some().then(|| b.var("best", first));
        Ok(Some(Accumulator { value, written, position }))
    }

    /// Aggregates the value at `point`, if the nest's guards hold there.
    pub fn add(&self, b: &mut Builder, point: &Point) -> Result<(), Unsupported> {
        b.if_(point.holds(&point.nest.guards), |b| {
            let term = Term::of(b, point)?;
            self.add_term(b, point, term)
        })
    }

    /// Aggregates the value at `point`, where the nest's guards hold.
    pub fn add_term(&self, b: &mut Builder, point: &Point, term: Term) -> Result<(), Unsupported> {
        match term {
            Term::Product(x, y) => {
                b.assign(&self.value, x.fma(y, &self.value));
                self.mark(b, point, None)
            }
            Term::Value(value, counts) => {
                let position = point.nest.position.as_ref().map(|position| point.index(position));
                self.merge(b, point, value, counts, position)
            }
        }
    }

    /// Aggregates another value. `valid` says whether it counts (`None`: always); `position` is its
    /// position, for argmax and argmin.
    pub fn merge(
        &self,
        b: &mut Builder,
        point: &Point,
        candidate: Expr,
        valid: Option<Expr>,
        position: Option<Expr>,
    ) -> Result<(), Unsupported> {
        let (Some(aggregation), Some(dtype)) = (point.nest.aggregation, point.nest.accumulator())
        else {
            return Ok(());
        };
        let candidate = b.let_("candidate", candidate);
        let best = self.value.clone();
        let mut values = Values { b, profile: point.profile, lanes: point.lanes };
        let combined = match (aggregation, position, &self.position, &self.written) {
            (
                Aggregation::ArgMax | Aggregation::ArgMin,
                Some(position),
                Some(best_position),
                Some(written),
            ) => {
                let op =
                    if aggregation == Aggregation::ArgMax { BinaryOp::Gt } else { BinaryOp::Lt };
                let position = values.b.let_("position", position);
                // For floats, NaN is told apart below.
                let mut greater = match dtype.is_float() {
                    true => candidate.clone().binary(op, &best),
                    false => values.binary(op, dtype, candidate.clone(), best.clone())?,
                };
                let mut equal = candidate.clone().equals(&best);
                if dtype.is_float() {
                    // A number beats NaN, and NaN equals NaN.
                    let number = values.b.let_("number", values.is_number(&candidate));
                    let was_number = values.b.let_("was_number", values.is_number(&best));
                    greater = number.clone().and(greater.or(was_number.clone().not()));
                    equal = equal.and(&number).and(&was_number).or(number.or(was_number).not());
                }
                let earlier = equal.and(position.clone().lt(best_position));
                let mut better = greater.or(earlier).or(written.clone().not());
                if let Some(valid) = &valid {
                    better = better.and(valid);
                }
                let better = values.b.let_("better", better);
                values.b.assign(best_position, better.clone().select(position, best_position));
                values.b.assign(&self.value, better.select(candidate, best));
                return self.mark(b, point, valid);
            }
            (Aggregation::Sum, ..) => {
                values.binary(BinaryOp::Add, dtype, best.clone(), candidate)?
            }
            (Aggregation::Product, ..) => {
                values.binary(BinaryOp::Mul, dtype, best.clone(), candidate)?
            }
            (Aggregation::Max, ..) => {
                values.better(BinaryOp::Max, dtype, best.clone(), candidate)?
            }
            (Aggregation::Min, ..) => {
                values.better(BinaryOp::Min, dtype, best.clone(), candidate)?
            }
            _ => candidate,
        };
        let combined = match &valid {
            Some(valid) => valid.clone().select(combined, best),
            None => combined,
        };
        b.assign(&self.value, combined);
        self.mark(b, point, valid)
    }

    /// Returns the operation with which a subgroup can combine accumulators. `None` if there is
    /// more to combine than the value, or if subgroups do not support its type.
    pub fn collects(&self, point: &Point) -> Option<BinaryOp> {
        let dtype = compute_type(point.nest.accumulator()?, point.profile)?;
        let op = point.nest.aggregation?.operation()?;
        let exact = dtype == point.nest.accumulator()?
            && matches!(dtype, DType::I32 | DType::U32 | DType::F32);
        // Subgroup minimum and maximum do not define their result for NaN. A sum or product is NaN
        // in any case.
        let ordered = !dtype.is_float() || matches!(op, BinaryOp::Add | BinaryOp::Mul);
        (exact && ordered && self.written.is_none()).then_some(op)
    }

    /// Returns the aggregate of the `width` lanes of a vector accumulator.
    pub fn joined(
        &self,
        b: &mut Builder,
        point: &Point,
        width: u8,
    ) -> Result<Accumulator, Unsupported> {
        let lane = |vector: &Option<Expr>, lane: u8| {
            vector.as_ref().map(|vector| vector.clone().lane(lane))
        };
        let value = b.var("acc", self.value.clone().lane(0));
        let written = lane(&self.written, 0).map(|written| b.var("written", written));
        let position = lane(&self.position, 0).map(|position| b.var("best", position));
        let joined = Accumulator { value, written, position };
        for n in 1..width {
            joined.merge(
                b,
                point,
                self.value.clone().lane(n),
                lane(&self.written, n),
                lane(&self.position, n),
            )?;
        }
        Ok(joined)
    }

    fn mark(&self, b: &mut Builder, point: &Point, valid: Option<Expr>) -> Result<(), Unsupported> {
        if let Some(written) = &self.written {
            let always = Values { b, profile: point.profile, lanes: point.lanes }
                .constant(Scalar::bool(true))?;
            let now = valid.map_or(always, |valid| written.clone().or(valid));
            b.assign(written, now);
        }
        Ok(())
    }

    /// Returns what the epilogue reads: the value (for argmax and argmin the position), and whether
    /// any point was written.
    pub fn read(&self) -> (Expr, Expr) {
        let value = self.position.clone().unwrap_or_else(|| self.value.clone());
        (value, self.written.clone().unwrap_or_else(|| true.into()))
    }
}
