//! Slots of memory for temporaries, so that those which are never alive together share one.
//!
//! A temporary lives from the step that writes it to the last step that reads it. What a loop reads of outside lives to its
//! end, what outside reads of a loop lives from its start, and what holds a carry lives all the time: the next turn comes
//! back to it. Steps are walked in order; a new temporary takes the smallest free slot that holds it, else grows the
//! largest free one, else opens a slot.

use super::{Buffer, Content, Loop, Step};

/// Gives every temporary its slot; returns the bytes of each slot.
pub(crate) fn assign_slots(buffers: &mut [Buffer], steps: &[Step], loops: &[Loop]) -> Vec<u64> {
    let mut lives: Vec<Option<Life>> = vec![None; buffers.len()];
    for (number, step) in steps.iter().enumerate() {
        step.operands.iter().chain(&step.outputs).for_each(|&buffer| meet(&mut lives, buffer, number));
    }
    loops.iter().for_each(|around| extend(&mut lives, steps, around));
    let mut slots: Vec<u64> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut begin = vec![Vec::new(); steps.len()];
    let mut end = vec![Vec::new(); steps.len()];
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
    slots
}

/// The steps at which a buffer is first and last needed.
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

/// Makes lives reach as far as the turns of a loop need.
fn extend(lives: &mut [Option<Life>], steps: &[Step], around: &Loop) {
    around.loops.iter().for_each(|inner| extend(lives, steps, inner));
    let (start, end) = (around.steps.start, around.steps.end - 1);
    for carry in &around.carries {
        for buffer in [carry.last, carry.other] {
            meet(lives, buffer, start);
            meet(lives, buffer, end);
        }
        meet(lives, carry.first, end);
    }
    for step in &steps[around.steps.clone()] {
        for &buffer in step.operands.iter().chain(&step.outputs) {
            let Some(Life { first, last }) = lives[buffer] else { continue };
            if first < start {
                meet(lives, buffer, end);
            }
            if last > end {
                meet(lives, buffer, start);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::tensor::TensorType;

    #[test]
    fn a_chain_of_temporaries_needs_two_slots() {
        let temporary = |n: usize| Buffer {
            ty: TensorType::new(DType::F32, [n]),
            storage: DType::F32,
            content: Content::Temporary { slot: usize::MAX },
        };
        let step =
            |from: usize, to: usize| Step { name: String::new(), routine: 0, operands: vec![from], outputs: vec![to] };
        let mut buffers = vec![temporary(4), temporary(8), temporary(2), temporary(6)];
        buffers[0].content = Content::Input;
        let slots = assign_slots(&mut buffers, &[step(0, 1), step(1, 2), step(2, 3)], &[]);
        assert_eq!(slots, [32, 8]);
        let of = |b: usize| buffers[b].content.clone();
        assert_eq!((of(1), of(3)), (Content::Temporary { slot: 0 }, Content::Temporary { slot: 0 }));
        assert_eq!(of(2), Content::Temporary { slot: 1 });
    }
}
