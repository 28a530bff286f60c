//! The reduction template: a workgroup computes one place. Its invocations stride over the reduction points, then
//! combine their values in a tree through workgroup memory.

use crate::kernel::{Builder, Expr, Kernel, Type};
use crate::nest::Nest;
use crate::profile::Profile;

use super::accumulate::Accumulator;
use super::point::{Point, declare};
use super::values::{Unsupported, Values, compute_type};
use super::{ScheduleError, grid};
use crate::dtype::DType;

/// The kernel; `workgroup` is a power of two.
pub(super) fn reduction(nest: &Nest, profile: &Profile, workgroup: u32) -> Result<Kernel, ScheduleError> {
    let grid = grid(nest.places(), profile)?;
    if grid[0] as usize * grid[1] as usize != nest.places() {
        return Err(ScheduleError::Internal("a workgroup without a place"));
    }
    let mut builder = Builder::new(&nest.name, [workgroup, 1, 1], grid);
    let b = &mut builder;
    let buffers = declare(nest, profile, b, vec![1; nest.operands.len() + nest.outputs.len()])?;
    let mut point = Point::new(nest, profile, &buffers, 1);
    let place =
        if grid[1] == 1 { Expr::workgroup(0) } else { Expr::workgroup(1) * grid[0] as i32 + Expr::workgroup(0) };
    let place = b.let_("place", place);
    point.set_position(b, &(0..nest.free).collect::<Vec<_>>(), &place);
    let Some(accumulator) = Accumulator::declare(b, &point)? else {
        return Err(ScheduleError::Internal("a reduction without an aggregation"));
    };
    let axes: Vec<usize> = nest.reduction().collect();
    let mut inner = Point { variables: point.variables.clone(), ..Point::new(nest, profile, &buffers, 1) };
    b.for_("step", Expr::local(0), nest.reduction_points() as i32, workgroup, |b, step| {
        inner.set_position(b, &axes, &step);
        accumulator.add(b, &inner)
    })?;

    let tree = Tree::declare(b, &point, &accumulator, workgroup as usize)?;
    tree.store(b, &point, &accumulator);
    b.barrier();
    let mut half = workgroup / 2;
    while half >= 1 {
        b.if_(Expr::local(0).lt(half as i32), |b| -> Result<(), ScheduleError> {
            let (value, written, position) = tree.load(b, &point, Expr::local(0) + half as i32);
            accumulator.merge(b, &point, value, written, position)?;
            tree.store(b, &point, &accumulator);
            Ok(())
        })?;
        b.barrier();
        half /= 2;
    }
    b.if_(Expr::local(0).equals(0), |b| -> Result<(), ScheduleError> {
        let (value, written) = accumulator.read();
        let results = point.program(b, &nest.epilogue, Some((&value, &written)))?;
        point.store(b, &place, results);
        Ok(())
    })?;
    Ok(builder.finish()?)
}

/// Workgroup arrays that hold each invocation's accumulator; bools as u32.
struct Tree {
    dtype: DType,
    values: usize,
    written: Option<usize>,
    positions: Option<usize>,
}

impl Tree {
    fn declare(b: &mut Builder, point: &Point, acc: &Accumulator, length: usize) -> Result<Tree, Unsupported> {
        let dtype = point.nest.accumulator().unwrap_or(DType::F32);
        let compute = compute_type(dtype, point.profile)
            .ok_or_else(|| Unsupported { what: format!("values of type {dtype}") })?;
        let stored = if compute == DType::Bool { DType::U32 } else { compute };
        let values = b.shared("partial", Type::scalar(stored), length);
        let written = acc.written.is_some().then(|| b.shared("partial_written", Type::scalar(DType::U32), length));
        let positions = acc.position.is_some().then(|| b.shared("partial_position", Type::I32, length));
        Ok(Tree { dtype, values, written, positions })
    }

    fn store(&self, b: &mut Builder, point: &Point, acc: &Accumulator) {
        let value = Values { b, profile: point.profile, lanes: 1 }.stored(self.dtype, acc.value.clone());
        b.store_shared(self.values, Expr::local(0), value);
        if let (Some(array), Some(written)) = (self.written, &acc.written) {
            b.store_shared(array, Expr::local(0), written.clone().cast(DType::U32));
        }
        if let (Some(array), Some(position)) = (self.positions, &acc.position) {
            b.store_shared(array, Expr::local(0), position);
        }
    }

    fn load(&self, b: &mut Builder, point: &Point, index: Expr) -> (Expr, Option<Expr>, Option<Expr>) {
        let values = Values { b, profile: point.profile, lanes: 1 };
        let value = values.loaded(self.dtype, Expr::load_shared(self.values, &index));
        let written = self.written.map(|a| values.loaded(DType::Bool, Expr::load_shared(a, &index)));
        let position = self.positions.map(|a| Expr::load_shared(a, &index));
        (b.let_("other", value), written.map(|w| b.let_("other_written", w)), position)
    }
}
