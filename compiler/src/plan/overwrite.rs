//! Next values of weights that are written over the weights themselves, so that nothing has to be copied after a run, and no
//! weight is in memory twice.
//!
//! Example: `W' = W - rate * G` reads each element of `W` where it writes that of `W'`; if no step after it reads `W`, the two
//! share their memory.
//!
//! Why it is sound: the step reads the weight nowhere but at the place that it writes ([`crate::nest::Nest::may_overwrite`]), and
//! no step after it, loop or output wants the old value. A step that comes too early for that is moved behind those that do, if
//! none of them needs what it computes, or writes what it reads. All other next values are in buffers of their own.

use super::planner::Planned;
use super::{Buffer, BufferId, Content, Loop, Port, Work};

/// Finds them. `loops` are in `steps`; `updates` are the buffers of weights, and of their next values.
pub(super) fn overwrite(
    steps: &mut [Planned],
    loops: &mut [Loop],
    outputs: &[Port],
    buffers: &mut [Buffer],
    updates: &[(BufferId, BufferId)],
) {
    for &(weight, next) in updates {
        let is_own = buffers[next].content == Content::Output && buffers[next].ty.elements() > 0;
        let is_shown = outputs.iter().any(|port| port.buffer == weight);
        if !is_own || is_shown || buffers[next].storage != buffers[weight].storage {
            continue;
        }
        let Some(step) = behind_readers(steps, loops, buffers, weight, next) else { continue };
        let step = &mut steps[step];
        let output = step.outputs.iter().position(|&output| output == next);
        let operand = step.operands.iter().position(|&operand| operand == weight);
        if let (Some(output), Some(operand), Work::Nest(nest)) = (output, operand, &mut step.work) {
            nest.outputs[output].over = Some(operand);
        }
        buffers[next].content = Content::Over { weight };
    }
}

/// The number of the step that computes `next`, once nothing after it reads `weight`; `None` where that cannot be.
fn behind_readers(
    steps: &mut [Planned],
    loops: &mut [Loop],
    buffers: &[Buffer],
    weight: BufferId,
    next: BufferId,
) -> Option<usize> {
    let writer = steps.iter().position(|step| step.outputs.contains(&next))?;
    let mut writes = steps[writer].outputs.iter().filter(|&&output| output == next);
    let is_in_loop = loops.iter().any(|around| around.steps.contains(&writer));
    if is_in_loop || writes.nth(1).is_some() || !is_in_place(&steps[writer], weight, next) {
        return None;
    }
    let reads = |step: &Planned, id: BufferId| step.operands.contains(&id);
    let mut last = steps.iter().rposition(|step| reads(step, weight)).map_or(writer, |last| last.max(writer));
    for around in loops.iter().filter(|around| around.steps.start > writer) {
        if begins_with(around, weight) || around.steps.contains(&last) {
            last = last.max(around.steps.end - 1);
        }
    }
    let overwrites = |&output: &BufferId| match buffers[output].content {
        Content::Over { weight } => reads(&steps[writer], weight),
        _ => false,
    };
    let mut between = steps[writer + 1..=last].iter();
    let mut loops_between = loops.iter().filter(|around| (writer..=last).contains(&around.steps.start));
    let written = |step: &Planned| steps[writer].outputs.iter().any(|&output| reads(step, output));
    if between.any(|step| written(step) || step.outputs.iter().any(overwrites))
        || loops_between.any(|around| steps[writer].outputs.iter().any(|&output| begins_with(around, output)))
    {
        return None;
    }
    steps[writer..=last].rotate_left(1);
    loops.iter_mut().filter(|around| (writer..=last).contains(&around.steps.start)).for_each(shift);
    Some(last)
}

/// Whether a step reads a weight, if it does, only where it writes.
fn is_in_place(step: &Planned, weight: BufferId, next: BufferId) -> bool {
    let (Work::Nest(nest), Some(output)) = (&step.work, step.outputs.iter().position(|&output| output == next)) else {
        return false;
    };
    let operands: Vec<usize> = (0..step.operands.len()).filter(|&operand| step.operands[operand] == weight).collect();
    match operands[..] {
        [] => true,
        [operand] => nest.may_overwrite(output, operand),
        _ => false,
    }
}

/// Whether a loop, or one within it, carries a value that is first what is in this buffer.
fn begins_with(around: &Loop, id: BufferId) -> bool {
    around.carries.iter().any(|carry| carry.first == id) || around.loops.iter().any(|inner| begins_with(inner, id))
}

/// Moves a loop one step ahead.
fn shift(around: &mut Loop) {
    around.steps = around.steps.start - 1..around.steps.end - 1;
    around.loops.iter_mut().for_each(shift);
}
