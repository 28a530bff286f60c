//! Writes values that loops carry in place, where a turn changes only some of their elements.
//!
//! Example: a turn puts the keys of one token into a cache, `C' = index(C, 1) == Position ? K : C`.
//! With two buffers that alternate, each turn copies the whole cache. With one, the step writes the
//! new elements alone, as far as the device can leave the others out. Before, the carry has the
//! buffers `first`, `last` and `other`; after, all three are the same.
//!
//! Why it is sound: the step reads the old value only at the place that it writes
//! ([`crate::nest::Nest::update`]), and no later step of the loop reads the old value. The first
//! value is in the same memory because the step that makes it writes it there, if only earlier
//! steps read it, or because a new step copies it there.
//!
//! It runs after [`super::overwrite`], which moves steps: a step that reads a first value must not
//! move behind the loop.
//!
//! Only steps that compute each place by itself write in place, so that nothing reads a place that
//! another invocation writes. Only loops that are in no other loop are changed, and small values
//! that would have to be copied are left alone.

use super::draft::{Draft, DraftStep};
use super::overwrite::begins_with;
use super::{BufferId, Carry, Content, Loop, PlanError, Work};
use crate::nest::Nest;

/// The fewest elements for which copying the first value is worth it.
const FEWEST: usize = 1024;

/// The step of a loop that writes the next value of a carry, and which of its operands and outputs
/// are the old and the next value.
struct Writer {
    step: usize,
    output: usize,
    operand: usize,
}

/// Writes carries in place where possible.
///
/// # Errors
/// If there are too many steps and carries.
pub(crate) fn carry(mut draft: Draft) -> Result<Draft, PlanError> {
    // Each carry looks through all steps.
    let carries: usize = draft.loops.iter().map(|around| around.carries.len()).sum();
    let counted = draft.graph.budget.spend((carries * draft.steps.len()) as u64);
    let exceeded = |exceeded| PlanError::Exceeded { value: draft.graph.name.clone(), exceeded };
    counted.map_err(exceeded)?;
    for number in 0..draft.loops.len() {
        for carry in 0..draft.loops[number].carries.len() {
            let around = &draft.loops[number];
            let Some(writer) = writer(&draft, around, &around.carries[carry]) else { continue };
            let Carry { name, first, last, other, .. } = around.carries[carry].clone();
            let start = around.steps.start;
            let is_only_carried = is_only_carried(&draft, first, start);
            if !is_only_carried && draft.buffers[last].ty.elements() < FEWEST {
                continue;
            }
            let source = draft.steps[writer.step].source;
            if let Work::Nest(nest) = &mut draft.steps[writer.step].work {
                nest.outputs[writer.output].over = Some(writer.operand);
            }
            if is_only_carried {
                let before = draft.steps[..start].iter_mut();
                let bound =
                    before.flat_map(|step| step.operands.iter_mut().chain(&mut step.outputs));
                bound.filter(|id| **id == first).for_each(|id| *id = last);
                // No step names it any more, and it takes no memory.
                draft.buffers[first].content = Content::Carried;
            } else {
                let value = draft.value_names.unique(&format!("{name}.first"));
                let nest = Nest::copy(&draft.buffers[last].ty);
                let step = DraftStep {
                    values: vec![value],
                    fused: Vec::new(),
                    routine: nest.name.clone(),
                    work: Work::Nest(Box::new(nest)),
                    operands: vec![first],
                    outputs: vec![last],
                    source,
                };
                insert(&mut draft, start, step);
            }
            draft.buffers[other].content = Content::Carried;
            let carry = &mut draft.loops[number].carries[carry];
            (carry.first, carry.other) = (last, last);
        }
    }
    Ok(draft)
}

/// Finds the step that may write the next value of a carry over its old value, and changes only
/// some of its elements.
fn writer(draft: &Draft, around: &Loop, carry: &Carry) -> Option<Writer> {
    let Carry { before, next, last, .. } = *carry;
    let is_inner = |step: &usize| around.loops.iter().any(|inner| inner.steps.contains(step));
    let mut writers =
        around.steps.clone().filter(|&step| draft.steps[step].outputs.contains(&next));
    let step = writers.next().filter(|step| writers.next().is_none() && !is_inner(step))?;
    let mut later = draft.steps[step + 1..around.steps.end].iter();
    if around.loops.iter().any(|inner| begins_with(inner, before))
        || around.length == 1
        || draft.buffers[last].content == Content::Carried
        || later.any(|step| step.operands.contains(&before))
    {
        return None;
    }
    let DraftStep { work: Work::Nest(nest), operands, outputs, .. } = &draft.steps[step] else {
        return None;
    };
    let only = |ids: &[BufferId], wanted: BufferId| {
        let mut found = ids.iter().enumerate().filter(|(_, id)| **id == wanted);
        found.next().filter(|_| found.next().is_none()).map(|(number, _)| number)
    };
    let (output, operand) = (only(outputs, next)?, only(operands, before)?);
    nest.update(output, operand).map(|_| Writer { step, output, operand })
}

/// Returns whether a buffer is written by one step before the step `start`, which begins a loop,
/// and read only by such steps and as the first value of one carry.
fn is_only_carried(draft: &Draft, id: BufferId, start: usize) -> bool {
    let in_loops = draft.loops.iter().flat_map(|around| around.steps.clone());
    let writers: Vec<usize> =
        (0..draft.steps.len()).filter(|&step| draft.steps[step].outputs.contains(&id)).collect();
    let carries = Loop::all(&draft.loops).flat_map(|around| &around.carries);
    let firsts = carries.filter(|carry| carry.first == id).count();
    matches!(draft.buffers[id].content, Content::Temporary { .. })
        && matches!(writers[..], [writer] if writer < start && !in_loops.into_iter().any(|s| s == writer))
        && !draft.steps[start..].iter().any(|step| step.operands.contains(&id))
        && !draft.outputs.iter().any(|port| port.buffer == id)
        && firsts == 1
}

/// Inserts a step before the first step of a loop.
fn insert<'g>(draft: &mut Draft<'g>, before: usize, step: DraftStep<'g>) {
    fn shift(around: &mut Loop) {
        around.steps = around.steps.start + 1..around.steps.end + 1;
        around.loops.iter_mut().for_each(shift);
    }
    draft.steps.insert(before, step);
    draft.loops.iter_mut().filter(|around| around.steps.start >= before).for_each(shift);
}

#[cfg(test)]
mod tests {
    use crate::native::Implementation;
    use crate::plan::Plan;
    use crate::plan::tests::{plan, updates};
    use crate::profile::Profile;

    /// Returns the plan of a loop of 3 turns, which changes the row `t` of a carry. `first` is its
    /// first value, and the body adds up `terms` at each row i and column j.
    fn changes_a_row(first: &str, terms: &str) -> Plan {
        let text = format!(
            "\
graph rows(%0, %1) -> (Last = %5, All = %6)
%0 = input X : f32[3, 512]
%1 = input Start : f32[8, 512]
%2 = neg %1 : f32[8, 512]  # Made
%3 = index 0 : i32[3]
%4 = scan 3 sequences (%0 along 0, %3 along 0) carries ({first}) captures () yields (along 0) {{
    graph step(%0, %1, %2) -> (C = %5, All = %6)
    %0 = input Row : f32[512]
    %1 = input t : i32[]
    %2 = input C : f32[8, 512]
    %3 = index 0 : i32[8, 1]
    %4 = cmp_eq %3 %1 : bool[8, 1]
    %5 = select %4 %0 %2 : f32[8, 512]  # Next
    %6 = contract sum [j] (i: 0..8, j: 0..512) {{ {terms} }} : f32[512]  # Sum
}} : f32[8, 512]
%5 = result 0 %4 : f32[8, 512]
%6 = result 1 %4 : f32[3, 512]
"
        );
        plan(&text, &Profile::cpu())
    }

    #[test]
    fn a_carry_that_changes_in_part_is_written_in_place() {
        for (first, copies) in [("%2", false), ("%1", true)] {
            let plan = changes_a_row(first, "v0 = %5[i, j]; yield v0");
            let [around] = &plan.loops[..] else { panic!("one loop") };
            let [carry] = &around.carries[..] else { panic!("one carry") };
            assert!(carry.is_in_place() && carry.other == carry.last);
            let named = |name: &str| plan.steps.iter().position(|step| step.name() == name);
            assert_eq!(named("C.first").is_some(), copies);
            let [next, sum] = ["Next", "Sum"].map(|name| named(name).unwrap());
            let routine = &plan.routines[plan.steps[next].routine];
            assert_eq!(plan.steps[next].operands[routine.over(0).unwrap()], carry.before);
            let native = routine.native.as_ref().unwrap();
            assert!(matches!(native.implementation, Implementation::Update(_)), "{native}");
            // The old value is gone once the next one is written.
            let mut late = plan.clone();
            let read = late.steps[sum].operands.iter().position(|id| *id == carry.next).unwrap();
            late.steps[sum].operands[read] = carry.before;
            let fault = late.verify().unwrap_err();
            assert!(fault.ends_with(&format!("buffer {} is overwritten", carry.before)), "{fault}");
            // Alternating buffers would not be in place.
            let mut apart = plan.clone();
            apart.loops[0].carries[0].first = carry.before;
            assert!(apart.verify().is_err());
        }
    }

    #[test]
    fn a_carry_whose_old_value_is_needed_later_is_not_written_in_place() {
        let plan =
            changes_a_row("%2", "v0 = %5[i, j]; v1 = %2[7 - i, j]; v2 = mul v0 v1; yield v2");
        assert!(!plan.loops[0].carries[0].is_in_place(), "{plan}");
    }

    #[test]
    fn a_first_value_that_a_moved_step_reads_is_copied() {
        // The next W is computed behind the loop, which reads the old one. It reads A.
        let text = "\
graph step(%0, %1) -> (W = %6, Last = %9)
%0 = input X : f32[8, 4]
%1 = input Rows : f32[3, 512]
%2 = weight V : f32[4, 512]
%3 = weight W : f32[512]
%4 = contract sum [i, j] (i: 0..8, j: 0..512, k: 0..4) { v0 = %0[i, k]; v1 = %2[k, j]; v2 = mul v0 v1; yield v2 } : f32[8, 512]  # A
%5 = contract sum [j] (j: 0..512, i: 0..8) { v0 = %4[i, j]; yield v0 } : f32[512]
%6 = sub %3 %5 : f32[512]  # Next
%7 = index 0 : i32[3]
%8 = scan 3 sequences (%1 along 0, %7 along 0) carries (%4) captures (%3) yields () {
    graph step(%0, %1, %2, %3) -> (C = %7)
    %0 = input Row : f32[512]
    %1 = input t : i32[]
    %2 = input C : f32[8, 512]
    %3 = input W : f32[512]
    %4 = index 0 : i32[8, 1]
    %5 = cmp_eq %4 %1 : bool[8, 1]
    %6 = mul %0 %3 : f32[512]
    %7 = select %5 %6 %2 : f32[8, 512]
} : f32[8, 512]
%9 = result 0 %8 : f32[8, 512]
";
        let (plan, over) = updates(text);
        assert_eq!(over, [true]);
        assert!(plan.loops[0].carries[0].is_in_place(), "{plan}");
        let named = |name: &str| plan.steps.iter().position(|step| step.name() == name);
        assert!(named("Next") >= Some(plan.loops[0].steps.end), "{plan}");
        assert!(named("C.first").is_some(), "{plan}");
    }
}
