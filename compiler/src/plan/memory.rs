//! Slots of memory for temporaries, so that those which are never alive together share one.
//!
//! A temporary lives from the step that writes it to the last step that reads it. What a loop reads of outside lives to its
//! end, what outside reads of a loop lives from its start, and what holds a carry lives all the time: the next turn comes
//! back to it. Steps are walked in order; a new temporary takes the smallest free slot that holds it, else grows the
//! largest free one, else opens a slot.

use super::{Content, Loop, Plan};

/// Keeps what every run reads of the prelude's results.
pub(super) fn keep(plan: &mut Plan) {
    let mut read = vec![false; plan.buffers.len()];
    plan.steps.iter().flat_map(|step| &step.operands).for_each(|&id| read[id] = true);
    plan.all_loops().flat_map(|around| &around.carries).for_each(|carry| read[carry.first] = true);
    for &id in plan.prelude.iter().flat_map(|step| &step.outputs) {
        if read[id] && matches!(plan.buffers[id].content, Content::Temporary { .. }) {
            plan.buffers[id].content = Content::Kept;
        }
    }
}

/// Gives every temporary its slot, and the plan the bytes of each slot.
pub(super) fn assign_slots(plan: &mut Plan) {
    let mut lives: Vec<Option<Life>> = vec![None; plan.buffers.len()];
    for (number, step) in plan.all_steps().enumerate() {
        step.operands.iter().chain(&step.outputs).for_each(|&buffer| meet(&mut lives, buffer, number));
    }
    let ahead = plan.prelude.len();
    for around in plan.all_loops() {
        let (start, end) = (ahead + around.steps.start, ahead + around.steps.end - 1);
        for carry in &around.carries {
            for buffer in [carry.first, carry.last, carry.other] {
                meet(&mut lives, buffer, start);
                meet(&mut lives, buffer, end);
            }
        }
    }
    plan.loops.iter().for_each(|around| extend(&mut lives, ahead, around));
    let count = plan.all_steps().count();
    let buffers = &mut plan.buffers;
    let mut slots: Vec<u64> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut begin = vec![Vec::new(); count];
    let mut end = vec![Vec::new(); count];
    for (buffer, life) in lives.iter().enumerate() {
        if let Some(Life { first, last }) = *life {
            begin[first].push(buffer);
            end[last].push(buffer);
        }
    }
    for (begin, end) in begin.into_iter().zip(end) {
        for buffer in begin {
            let bytes = buffers[buffer].bytes();
            let Content::Temporary { slot } = &mut buffers[buffer].content else { continue };
            let fitting = free.iter().copied().filter(|&s| slots[s] >= bytes).min_by_key(|&s| slots[s]);
            let chosen = fitting.or_else(|| free.iter().copied().max_by_key(|&s| slots[s]));
            *slot = match chosen {
                Some(chosen) => {
                    free.retain(|&s| s != chosen);
                    slots[chosen] = slots[chosen].max(bytes);
                    chosen
                }
                None => {
                    slots.push(bytes);
                    slots.len() - 1
                }
            };
        }
        for buffer in end {
            if let Content::Temporary { slot } = buffers[buffer].content {
                free.push(slot);
            }
        }
    }
    plan.slots = slots;
}

/// The steps at which a buffer is first and last needed, by their numbers in [`Plan::all_steps`].
#[derive(Clone)]
struct Life {
    first: usize,
    last: usize,
}

/// Makes a buffer live at a step, too.
fn meet(lives: &mut [Option<Life>], buffer: usize, step: usize) {
    let life = lives[buffer].get_or_insert(Life { first: step, last: step });
    (life.first, life.last) = (life.first.min(step), life.last.max(step));
}

/// Makes lives that reach into a loop, or out of one, as long as its turns need. `ahead` steps precede [`Plan::steps`].
fn extend(lives: &mut [Option<Life>], ahead: usize, around: &Loop) {
    around.loops.iter().for_each(|inner| extend(lives, ahead, inner));
    let (start, end) = (ahead + around.steps.start, ahead + around.steps.end - 1);
    for Life { first, last } in lives.iter_mut().flatten() {
        if *first < start && *last >= start {
            *last = end.max(*last);
        }
        if *last > end && *first <= end {
            *first = start.min(*first);
        }
    }
}
