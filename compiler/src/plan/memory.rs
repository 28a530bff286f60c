//! Assigns temporaries to slots of memory. Temporaries with disjoint lifetimes share a slot.
//!
//! A temporary lives from the step that writes it to the last step that reads it. Loops extend
//! lifetimes: a buffer that a loop reads from outside lives to the end of the loop; a buffer that
//! is read after the loop that writes it lives from the start of the loop; and the buffers of a
//! carry live during the whole loop, because the next turn reads them. The assignment walks the
//! steps in order: a new temporary takes the smallest free slot that holds it, or else grows the
//! largest free slot, or else opens a new one.

use tile_lang::Budget;

use super::{BufferId, Content, Loop, Plan, PlanError};
use crate::dense::Dense;

/// Assigns memory to the tensors of a plan that pass between its steps.
pub(crate) fn memory(mut plan: Plan, budget: &Budget) -> Result<Plan, PlanError> {
    let buffers = plan.buffers.len() as u64;
    // Each temporary looks for a free slot.
    let counted = budget.spend(buffers * buffers / 128);
    counted.map_err(|exceeded| PlanError::Exceeded { value: plan.name.clone(), exceeded })?;
    assign_slots(&mut plan);
    Ok(plan)
}

/// Assigns a slot to every temporary, and sets the plan's slot sizes.
fn assign_slots(plan: &mut Plan) {
    let mut lives: Lives = Dense::of(None, plan.buffers.len());
    for (number, step) in plan.all_steps().enumerate() {
        step.operands
            .iter()
            .chain(&step.outputs)
            .for_each(|&buffer| meet(&mut lives, buffer, number));
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
    for (buffer, life) in lives.enumerate() {
        if let Some(Life { first, last }) = *life {
            begin[first].push(buffer);
            end[last].push(buffer);
        }
    }
    for (begin, end) in begin.into_iter().zip(end) {
        for buffer in begin {
            let bytes = buffers[buffer].bytes();
            let Content::Temporary { slot } = &mut buffers[buffer].content else { continue };
            let fitting =
                free.iter().copied().filter(|&s| slots[s] >= bytes).min_by_key(|&s| slots[s]);
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

/// The steps at which a buffer is first and last needed, numbered as in [`Plan::all_steps`].
#[derive(Clone)]
struct Life {
    first: usize,
    last: usize,
}

/// The lifetime of each buffer that steps use.
type Lives = Dense<BufferId, Option<Life>>;

/// Extends a buffer's lifetime to a step.
fn meet(lives: &mut Lives, buffer: BufferId, step: usize) {
    let life = lives[buffer].get_or_insert(Life { first: step, last: step });
    (life.first, life.last) = (life.first.min(step), life.last.max(step));
}

/// Extends lifetimes that reach into a loop or out of one, so that all its turns are covered.
/// `ahead` steps precede [`Plan::steps`].
fn extend(lives: &mut Lives, ahead: usize, around: &Loop) {
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
