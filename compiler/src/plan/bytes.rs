//! Stores 8-bit integers of weights and constants in bytes, where shaders have one in a word
//! otherwise: a quarter of the memory, and of the traffic to it.
//!
//! Kernels read words, and take the bytes from these (`schedule/in_bytes.rs`). What kernels write
//! keeps its words: invocations that write to one word would overwrite each other's bytes.

use crate::dtype::DType;
use crate::profile::Execution;

use super::draft::Draft;
use super::{BufferId, Content, Loop, Work};

/// Stores the weights that the run does not change, and the constants, in bytes.
pub(crate) fn in_bytes(mut draft: Draft) -> Draft {
    if draft.profile.execution == Execution::Native {
        return draft;
    }
    // The first turn of a loop reads what the other turns read from a buffer that kernels write.
    let carries = Loop::all(&draft.loops).flat_map(|around| &around.carries);
    let mut words: Vec<BufferId> = carries.map(|carry| carry.first).collect();
    words.extend(draft.updates.iter().map(|(weight, _)| draft.weights[*weight].buffer));
    for id in draft.buffers.ids() {
        let buffer = &mut draft.buffers[id];
        let is_given = matches!(buffer.content, Content::Weight | Content::Constant(_));
        let is_read = is_given && !words.contains(&id);
        if is_read && matches!(buffer.ty.dtype, DType::I8 | DType::U8) {
            buffer.storage = buffer.ty.dtype;
        }
    }
    let Draft { prelude, steps, buffers, .. } = &mut draft;
    for step in prelude.iter_mut().chain(steps) {
        if let Work::Nest(nest) = &mut step.work {
            let operands = step.operands.iter().map(|id| &buffers[*id]).enumerate();
            let in_bytes = operands.filter(|(_, operand)| operand.is_in_bytes());
            nest.in_bytes = in_bytes.map(|(number, _)| number).collect();
        }
    }
    draft
}
