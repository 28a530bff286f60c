//! The pointwise template: an invocation computes one place, or four neighbours as a vector, and
//! loops over the reduction.

use crate::kernel::{Builder, Expr, Kernel};
use crate::nest::{Nest, Update};
use crate::profile::Profile;

use super::accumulate::Accumulator;
use super::lanes;
use super::point::{Point, declare};
use super::{ScheduleError, grid, group};

/// Writes the kernel. `width` is 1, or 4 if [`lanes::of_places`] allows it.
pub(super) fn pointwise(
    nest: &Nest,
    profile: &Profile,
    workgroup: u32,
    width: u8,
) -> Result<Kernel, ScheduleError> {
    let invocations = nest.places() / width as usize;
    let grid = grid(invocations.div_ceil(workgroup as usize), profile)?;
    let mut builder = Builder::new(&nest.name, [workgroup, 1, 1], grid);
    let b = &mut builder;
    let scalar = vec![1; nest.operands.len() + nest.outputs.len()];
    let last = nest.free.saturating_sub(1);
    let lanes = if width == 1 { Some(scalar) } else { lanes::of_places(nest, last, width) };
    let buffers =
        declare(nest, profile, b, lanes.ok_or(ScheduleError::Internal("unaligned vectors"))?)?;
    let mut point = Point::new(nest, profile, &buffers).vector(last, width);
    let id = b.let_("id", group(grid) * workgroup as i32 + Expr::local(0));
    let all = grid[0] as usize * grid[1] as usize * workgroup as usize == invocations;
    let inside: Expr = if all { true.into() } else { id.clone().lt(invocations as i32) };
    b.if_(inside, |b| -> Result<(), ScheduleError> {
        let place = b.let_("place", id * width as i32);
        point.set_position(b, &(0..nest.free).collect::<Vec<_>>(), &place);
        let accumulator = Accumulator::declare(b, &point)?;
        if let Some(accumulator) = &accumulator {
            reduce(b, &mut point, accumulator, nest.free)?;
        }
        let accumulated = accumulator.map(|a| a.read());
        let changes = changes(b, &point)?;
        b.if_(changes, |b| -> Result<(), ScheduleError> {
            let results =
                point.program(b, &nest.epilogue, accumulated.as_ref().map(|(v, w)| (v, w)))?;
            point.store(b, &place, results);
            Ok(())
        })
    })?;
    Ok(builder.finish()?)
}

/// Returns the condition under which the point's element must be written: always, unless its output
/// overwrites an operand and one condition decides for all lanes whether the old element stays.
fn changes(b: &mut Builder, point: &Point) -> Result<Expr, ScheduleError> {
    let nest = point.nest;
    let Some(Update { condition, when }) = nest.partial() else { return Ok(true.into()) };
    let axes = &nest.dependencies(&nest.epilogue)[condition];
    if point.lanes > 1 && axes[point.along] {
        return Ok(true.into());
    }
    let point = point.clone().vector(point.along, 1);
    let values = point.values(b, &nest.epilogue, &[condition], None)?;
    let changes = values[condition].clone();
    Ok(if when { changes } else { changes.not() })
}

/// Loops over the reduction axes from `axis` on.
fn reduce(
    b: &mut Builder,
    point: &mut Point,
    accumulator: &Accumulator,
    axis: usize,
) -> Result<(), ScheduleError> {
    if !point.nest.reduction().contains(&axis) {
        return Ok(accumulator.add(b, point)?);
    }
    let a = &point.nest.axes[axis];
    b.for_(&a.name, 0, a.extent as i32, 1, |b, counter| {
        point.set(b, axis, counter);
        reduce(b, point, accumulator, axis + 1)
    })
}
