//! Slots of memory for temporaries, so that those which are never alive together share one.
//!
//! A temporary lives from the step that writes it to the last step that reads it. Steps are walked in order; a new
//! temporary takes the smallest free slot that holds it, else grows the largest free one, else opens a slot.

use super::{Buffer, Content, Step};

/// Keeps what steps of every run read of the prelude's results.
pub(crate) fn keep(buffers: &mut [Buffer], prelude: &[Step], steps: &[Step]) {
    let mut read = vec![false; buffers.len()];
    steps.iter().flat_map(|step| &step.operands).for_each(|&id| read[id] = true);
    for &id in prelude.iter().flat_map(|step| &step.outputs) {
        if read[id] && matches!(buffers[id].content, Content::Temporary { .. }) {
            buffers[id].content = Content::Kept;
        }
    }
}

/// Gives every temporary its slot; returns the bytes of each slot. The steps are those of a prelude and a run after it.
pub(crate) fn assign_slots<'a>(buffers: &mut [Buffer], steps: impl Iterator<Item = &'a Step> + Clone) -> Vec<u64> {
    let mut last_read = vec![0; buffers.len()];
    for (number, step) in steps.clone().enumerate() {
        for &buffer in step.operands.iter().chain(&step.outputs) {
            last_read[buffer] = number;
        }
    }
    let mut slots: Vec<u64> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    for (number, step) in steps.enumerate() {
        for &buffer in &step.outputs {
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
        let mut dying: Vec<usize> =
            step.operands.iter().chain(&step.outputs).copied().filter(|&b| last_read[b] == number).collect();
        dying.sort_unstable();
        dying.dedup();
        for buffer in dying {
            if let Content::Temporary { slot } = buffers[buffer].content {
                free.push(slot);
            }
        }
    }
    slots
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
        let slots = assign_slots(&mut buffers, [step(0, 1), step(1, 2), step(2, 3)].iter());
        assert_eq!(slots, [32, 8]);
        let of = |b: usize| buffers[b].content.clone();
        assert_eq!((of(1), of(3)), (Content::Temporary { slot: 0 }, Content::Temporary { slot: 0 }));
        assert_eq!(of(2), Content::Temporary { slot: 1 });
    }
}
