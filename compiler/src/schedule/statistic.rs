//! Row statistics in a kernel under construction: the aggregate of an invocation's part of a row,
//! and the tree that combines these parts in workgroup memory.

use crate::dtype::DType;
use crate::graph::Aggregation;
use crate::kernel::{Builder, Expr, Type};
use crate::profile::Profile;
use crate::scalar::BinaryOp;

use super::ScheduleError;
use super::values::{Unsupported, Values, compute_type};

/// The aggregate of a value of type `dtype` over the columns of a row.
pub(super) struct Statistic<'a> {
    pub profile: &'a Profile,
    pub aggregation: Aggregation,
    pub dtype: DType,
}

impl Statistic<'_> {
    fn values<'b>(&'b self, b: &'b mut Builder, lanes: u8) -> Values<'b> {
        Values { b, profile: self.profile, lanes }
    }

    /// Returns the identity of the aggregation, in vectors of `lanes` lanes.
    pub fn identity(&self, b: &mut Builder, lanes: u8) -> Result<Expr, Unsupported> {
        self.values(b, lanes).constant(self.aggregation.identity(self.dtype))
    }

    /// Combines two aggregates, lane by lane.
    pub fn combine(&self, b: &mut Builder, x: Expr, y: Expr) -> Result<Expr, Unsupported> {
        let unsupported =
            || Unsupported { what: format!("statistics by `{}`", self.aggregation.name()) };
        let op = self.aggregation.operation().ok_or_else(unsupported)?;
        let lanes = b.ty(&x).map_or(1, |ty| ty.lanes);
        let mut values = self.values(b, lanes);
        match op {
            BinaryOp::Max | BinaryOp::Min => values.better(op, self.dtype, x, y),
            _ => values.binary(op, self.dtype, x, y),
        }
    }

    /// Aggregates an invocation's candidates, which are vectors of `lanes` lanes, each with whether
    /// it is inside of the row.
    pub fn of(
        &self,
        b: &mut Builder,
        candidates: impl Iterator<Item = (Expr, Expr)>,
        lanes: u8,
    ) -> Result<Expr, Unsupported> {
        let mut sum = self.identity(b, lanes)?;
        for (mut candidate, inside) in candidates {
            if inside.as_bool() != Some(true) {
                let identity = self.identity(b, lanes)?;
                candidate = inside.splat(lanes).select(candidate, identity);
            }
            let next = self.combine(b, sum, candidate)?;
            sum = b.let_("sum", next);
        }
        self.of_lanes(b, sum, lanes)
    }

    /// Aggregates the lanes of a vector.
    pub fn of_lanes(&self, b: &mut Builder, sum: Expr, lanes: u8) -> Result<Expr, Unsupported> {
        if lanes == 1 {
            return Ok(b.let_("own", sum));
        }
        let all = b.let_("all", sum);
        let mut own = all.clone().lane(0);
        for lane in 1..lanes {
            own = self.combine(b, own, all.clone().lane(lane))?;
        }
        Ok(b.let_("own", own))
    }

    /// Returns the type of aggregates in workgroup memory, or `None` if the device lacks it.
    pub fn stored(&self) -> Option<DType> {
        let compute = compute_type(self.dtype, self.profile)?;
        Some(if compute == DType::Bool { DType::U32 } else { compute })
    }

    /// Declares workgroup memory for `count` aggregates.
    pub fn declare(&self, b: &mut Builder, count: usize) -> Result<usize, ScheduleError> {
        let unsupported = || Unsupported { what: format!("values of type {}", self.dtype) };
        Ok(b.shared("partial", Type::scalar(self.stored().ok_or_else(unsupported)?), count))
    }

    pub fn write(&self, b: &mut Builder, array: usize, index: Expr, value: Expr) {
        let value = self.values(b, 1).stored(self.dtype, value);
        b.store_shared(array, index, value);
    }

    pub fn read(&self, b: &mut Builder, array: usize, index: Expr) -> Expr {
        self.values(b, 1).loaded(self.dtype, Expr::load_shared(array, &index))
    }

    /// Combines in a tree the parts of some rows, each of which `count` invocations share.
    ///
    /// - `places`: one address for each row, to which this invocation has written its part.
    /// - `lane`: the number of this invocation among the `count`. Their parts are adjacent.
    /// - The result of a row is at the address of the first invocation's part.
    /// - All invocations of the workgroup must reach this call, which has barriers.
    pub fn tree(
        &self,
        b: &mut Builder,
        array: usize,
        places: &[Expr],
        lane: &Expr,
        count: u32,
    ) -> Result<(), ScheduleError> {
        b.barrier();
        let mut left = count;
        while left > 1 {
            let half = left.div_ceil(2);
            b.if_(lane.clone().lt((left - half) as i32), |b| -> Result<(), ScheduleError> {
                for place in places {
                    let (x, y) = (
                        self.read(b, array, place.clone()),
                        self.read(b, array, place.clone() + half as i32),
                    );
                    let both = self.combine(b, x, y)?;
                    self.write(b, array, place.clone(), both);
                }
                Ok(())
            })?;
            b.barrier();
            left = half;
        }
        Ok(())
    }
}
