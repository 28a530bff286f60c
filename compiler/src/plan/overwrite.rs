//! Writes next values of weights in place, over the weights, so that nothing is copied after a run
//! and no weight is in memory twice.
//!
//! Example: `W' = W - rate * G` reads each element of `W` at the place where it writes that of
//! `W'`. If no later step reads `W`, both share one buffer. Before, `W'` has an output buffer of
//! its own; after, its content is [`Content::Over`].
//!
//! Why it is sound: the step reads the weight only at the place that it writes
//! ([`crate::nest::Nest::may_overwrite`]), and no later step, loop or output needs the old value. A
//! step that would overwrite the weight too early is moved behind the readers, as long as none of
//! these needs its results, or overwrites what it reads. All other next values have buffers of
//! their own.

use super::draft::{Draft, DraftStep};
use super::{Buffer, BufferId, Content, Loop, Work};
use crate::dense::Dense;
use crate::profile::Execution;

/// Overwrites weights where possible.
pub(crate) fn overwrite(mut draft: Draft) -> Draft {
    let is_shader = draft.profile.execution == Execution::Shader;
    let Draft { steps, loops, outputs, buffers, weights, updates, .. } = &mut draft;
    for &(weight, output) in updates.iter() {
        let (weight, next) = (weights[weight].buffer, outputs[output].buffer);
        let is_own = buffers[next].content == Content::Output && buffers[next].ty.elements() > 0;
        let is_shown = outputs.iter().any(|port| port.buffer == weight);
        // In a kernel of rows, invocations beyond the last row read it while another one writes it.
        let has_rows =
            |step: &DraftStep| matches!(&step.work, Work::Nest(nest) if !nest.columns().is_empty());
        let races =
            is_shader && steps.iter().any(|step| step.outputs.contains(&next) && has_rows(step));
        if !is_own || is_shown || races || buffers[next].storage != buffers[weight].storage {
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
    draft
}

/// Moves the step that computes `next` behind all readers of `weight`. Returns its new number, or
/// `None` if it cannot be moved there.
fn behind_readers(
    steps: &mut [DraftStep],
    loops: &mut [Loop],
    buffers: &Dense<BufferId, Buffer>,
    weight: BufferId,
    next: BufferId,
) -> Option<usize> {
    let writer = steps.iter().position(|step| step.outputs.contains(&next))?;
    let mut writes = steps[writer].outputs.iter().filter(|&&output| output == next);
    let is_in_loop = loops.iter().any(|around| around.steps.contains(&writer));
    if is_in_loop || writes.nth(1).is_some() || !is_in_place(&steps[writer], weight, next) {
        return None;
    }
    let reads = |step: &DraftStep, id: BufferId| step.operands.contains(&id);
    let mut last =
        steps.iter().rposition(|step| reads(step, weight)).map_or(writer, |last| last.max(writer));
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
    let mut loops_between =
        loops.iter().filter(|around| (writer..=last).contains(&around.steps.start));
    let written =
        |step: &DraftStep| steps[writer].outputs.iter().any(|&output| reads(step, output));
    if between.any(|step| written(step) || step.outputs.iter().any(overwrites))
        || loops_between
            .any(|around| steps[writer].outputs.iter().any(|&output| begins_with(around, output)))
    {
        return None;
    }
    steps[writer..=last].rotate_left(1);
    loops.iter_mut().filter(|around| (writer..=last).contains(&around.steps.start)).for_each(shift);
    Some(last)
}

/// Returns whether a step reads a weight, if at all, only at the place that it writes.
fn is_in_place(step: &DraftStep, weight: BufferId, next: BufferId) -> bool {
    let (Work::Nest(nest), Some(output)) =
        (&step.work, step.outputs.iter().position(|&output| output == next))
    else {
        return false;
    };
    let operands: Vec<usize> =
        (0..step.operands.len()).filter(|&operand| step.operands[operand] == weight).collect();
    match operands[..] {
        [] => true,
        [operand] => nest.may_overwrite(output, operand),
        _ => false,
    }
}

/// Returns whether a loop, or one within it, carries a value whose first value is in this buffer.
pub(super) fn begins_with(around: &Loop, id: BufferId) -> bool {
    around.carries.iter().any(|carry| carry.first == id)
        || around.loops.iter().any(|inner| begins_with(inner, id))
}

/// Moves a loop one step ahead.
fn shift(around: &mut Loop) {
    around.steps = around.steps.start - 1..around.steps.end - 1;
    around.loops.iter_mut().for_each(shift);
}
