//! Stores 8-bit integers of weights and constants in bytes, where shaders have one in a word
//! otherwise: a quarter of the memory, and of the traffic to it.
//!
//! Kernels read words, and take the bytes from these (`schedule/in_bytes.rs`). What kernels write
//! keeps its words: invocations that write to one word would overwrite each other's bytes.

use crate::dtype::DType;
use crate::profile::Execution;

use super::draft::Draft;
use super::{BufferId, Content, Loop, PlanError, Work};

/// Stores the weights that no run changes, and the constants, in bytes. With `updates`, weights
/// have words: programs of a training share them, and some of these programs write them.
///
/// # Errors
/// If a tensor that must have words is too large for a buffer.
pub(crate) fn in_bytes(mut draft: Draft, updates: bool) -> Result<Draft, PlanError> {
    if draft.profile.execution == Execution::Native {
        return Ok(draft);
    }
    // The first turn of a loop reads what the other turns read from a buffer that kernels write.
    let carries = Loop::all(&draft.loops).flat_map(|around| &around.carries);
    let mut words: Vec<BufferId> = carries.map(|carry| carry.first).collect();
    words.extend(draft.updates.iter().map(|(weight, _)| draft.weights[*weight].buffer));
    for id in draft.buffers.ids() {
        let buffer = &mut draft.buffers[id];
        let is_read = match buffer.content {
            Content::Weight => !updates && !words.contains(&id),
            Content::Constant(_) => !words.contains(&id),
            _ => false,
        };
        if is_read && matches!(buffer.ty.dtype, DType::I8 | DType::U8) {
            buffer.storage = buffer.ty.dtype;
        }
    }
    for (id, buffer) in draft.buffers.enumerate() {
        let limit = draft.profile.most_bytes(buffer.storage);
        if buffer.bytes() > limit {
            let port = draft.weights.iter().find(|port| port.buffer == id);
            let name = port.map_or("a constant", |port| &port.name);
            return Err(draft.too_large(name.into(), &buffer.ty, [buffer.bytes(), limit]));
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
    Ok(draft)
}

#[cfg(test)]
mod tests {
    use crate::dtype::DType;
    use crate::graph::Graph;
    use crate::pipeline::{Options, plan_with};
    use crate::plan::Plan;
    use crate::profile::Profile;

    fn planned(text: &str, options: &Options) -> Plan {
        let graph = Graph::parse(text).unwrap();
        graph.verify().unwrap();
        plan_with(&graph, &Profile::generic(), options).unwrap()
    }

    /// Returns the types in which the weights are stored.
    fn stored(plan: &Plan) -> Vec<DType> {
        plan.weights.iter().map(|port| plan.buffers[port.buffer].storage).collect()
    }

    #[test]
    fn what_no_kernel_writes_is_in_bytes() {
        let text = "\
graph f(%0) -> (A = %4, Changed = %5, Last = %7)
%0 = input X : i8[2, 40]
%1 = weight Read : i8[2, 40]
%2 = weight Changed : i8[2, 40]
%3 = weight Carried : u8[2, 40]
%4 = add %0 %1 : i8[2, 40]
%5 = add %2 %0 : i8[2, 40]
%6 = scan 3 sequences () carries (%3) captures () yields () {
    graph step(%0) -> (w = %1)
    %0 = input w : u8[2, 40]
    %1 = add %0 %0 : u8[2, 40]
} : u8[2, 40]
%7 = result 0 %6 : u8[2, 40]
";
        let plan = planned(text, &Options::default());
        assert_eq!(stored(&plan), [DType::I8, DType::I32, DType::U32]);
        assert_eq!(plan.buffers[plan.inputs[0].buffer].storage, DType::I32);
        let training = planned(text, &Options { updates: true, ..Options::default() });
        assert_eq!(stored(&training), [DType::I32, DType::I32, DType::U32]);
    }

    #[test]
    fn the_limit_of_a_buffer_is_of_its_bytes() {
        let text = |rows: usize| {
            format!(
                "\
graph f(%0) -> (Y = %2)
%0 = input X : f32[{rows}]
%1 = weight W : f32[{rows}, 8192]
%2 = contract sum [u] (u: 0..8192, k: 0..{rows}) {{ v0 = %0[k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 }} : f32[8192]
"
            )
        };
        let options = Options { quantize_weights: true, ..Options::default() };
        let parts = |rows: usize| planned(&text(rows), &options).weights.len() - 1;
        assert_eq!([8192, 16384, 20000].map(parts), [1, 1, 2]);
    }
}
