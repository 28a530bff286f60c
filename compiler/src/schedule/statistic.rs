//! Statistics of rows while a kernel is written: what an invocation has of a row, and how the invocations that share it combine that in
//! workgroup memory.

use crate::dtype::DType;
use crate::graph::Aggregation;
use crate::kernel::{Builder, Expr, Type};
use crate::profile::Profile;

use super::ScheduleError;
use super::values::{Unsupported, Values, compute_type};

/// The aggregate of a value of this type over the columns of a row.
pub(super) struct Statistic<'a> {
    pub profile: &'a Profile,
    pub aggregation: Aggregation,
    pub dtype: DType,
}

impl Statistic<'_> {
    fn values<'b>(&'b self, b: &'b mut Builder, lanes: u8) -> Values<'b> {
        Values { b, profile: self.profile, lanes }
    }

    /// What an aggregate begins with, in vectors of so many lanes.
    pub fn identity(&self, b: &mut Builder, lanes: u8) -> Result<Expr, Unsupported> {
        self.values(b, lanes).constant(self.aggregation.identity(self.dtype))
    }

    /// The aggregate of two values, lane by lane.
    pub fn combine(&self, b: &mut Builder, x: Expr, y: Expr) -> Result<Expr, Unsupported> {
        let unsupported = || Unsupported { what: format!("statistics by `{}`", self.aggregation.name()) };
        let op = self.aggregation.operation().ok_or_else(unsupported)?;
        let lanes = b.ty(&x).map_or(1, |ty| ty.lanes);
        self.values(b, lanes).binary(op, self.dtype, x, y)
    }

    /// The aggregate of an invocation's candidates, vectors of so many lanes, of those that are inside of the row.
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

    /// The aggregate of the lanes of a vector.
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

    /// The type of aggregates in workgroup memory, if the device has it.
    pub fn stored(&self) -> Option<DType> {
        let compute = compute_type(self.dtype, self.profile)?;
        Some(if compute == DType::Bool { DType::U32 } else { compute })
    }

    /// Workgroup memory for so many aggregates.
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

    /// Combines what `count` invocations have of each of some rows, in a tree. An invocation, the one of number `lane` of them, has written what
    /// it has at these `places`; those of the others are neighbours, and the first one's is where the whole is then. All invocations of the
    /// workgroup pass its barriers.
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
                    let (x, y) = (self.read(b, array, place.clone()), self.read(b, array, place.clone() + half as i32));
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
