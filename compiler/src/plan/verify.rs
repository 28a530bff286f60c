//! Checks the invariants of plans.

use std::collections::{HashMap, HashSet};

use crate::dtype::DType;
use crate::profile::Execution;

use super::flow::{BoundWork, Flow};
use super::{BufferId, Content, Launch, Loop, Plan, Port, Routine, Step, Work};

impl Plan {
    /// Checks the invariants that the [module documentation](super) states, and every nest and
    /// kernel.
    pub fn verify(&self) -> Result<(), String> {
        self.verify_kernels()?;
        self.verify_slots()
    }

    /// Checks all but kernels and slots.
    pub(super) fn verify_routines(&self) -> Result<(), String> {
        self.verify_steps()?;
        let mut names = HashSet::new();
        let mut works: HashMap<Work, Vec<&Routine>> = HashMap::new();
        for routine in &self.routines {
            let same_work = works.entry(routine.work.anonymous()).or_default();
            let is_same = |other: &&Routine| match (&other.native, &routine.native) {
                (Some(other), Some(own)) => other.equals(own),
                _ => true,
            };
            if !names.insert(&routine.name) || same_work.iter().any(is_same) {
                return Err(format!(
                    "two routines have the name or the work of `{}`",
                    routine.name
                ));
            }
            same_work.push(routine);
        }
        Ok(())
    }

    /// Checks the nests, and that the steps read what is in memory.
    pub(super) fn verify_steps(&self) -> Result<(), String> {
        self.verify_numbers()?;
        for routine in &self.routines {
            if let Work::Nest(nest) = &routine.work {
                nest.verify().map_err(|invalid| invalid.to_string())?;
                if self.profile.execution == Execution::Native && nest.tables().next().is_some() {
                    return Err(format!(
                        "nest `{}` has tables, which only shaders have",
                        nest.name
                    ));
                }
            }
        }
        if self.all_steps().any(|step| self.routines.get(step.routine).is_none()) {
            return Err("a step has an unknown routine".into());
        }
        let binding = |step| self.binding(step);
        let prelude: Vec<BoundWork> = self.prelude.iter().map(binding).collect();
        let steps: Vec<BoundWork> = self.steps.iter().map(binding).collect();
        let (loops, outputs) = (&self.loops, &self.outputs);
        let (buffers, execution) = (&self.buffers, self.profile.execution);
        let (prelude, steps) = (&prelude[..], &steps[..]);
        Flow { execution, buffers, prelude, steps, loops, outputs }.verify()
    }

    /// Checks that every number of a buffer, a weight or an output is one, and that ports have the
    /// elements of their buffers.
    fn verify_numbers(&self) -> Result<(), String> {
        let is_buffer = |id: &BufferId| self.buffers.get(*id).is_some();
        let carries = self.all_loops().flat_map(|around| &around.carries);
        let in_carries = carries.flat_map(|c| [&c.first, &c.before, &c.next, &c.last, &c.other]);
        let in_steps = self.all_steps().flat_map(|step| step.operands.iter().chain(&step.outputs));
        let overwritten = self.buffers.iter().filter_map(|buffer| match &buffer.content {
            Content::Over { weight } => Some(weight),
            _ => None,
        });
        if let Some(id) = in_steps.chain(in_carries).chain(overwritten).find(|id| !is_buffer(id)) {
            return Err(format!("there is no buffer {id}"));
        }
        for port in self.given().chain(&self.outputs) {
            let buffer = self.buffers.get(port.buffer);
            let fits = buffer.is_some_and(|buffer| {
                buffer.ty.checked_bytes().is_some()
                    && (buffer.ty.dtype, buffer.ty.checked_elements())
                        == (port.ty.dtype, port.ty.checked_elements())
            });
            if !fits {
                return Err(format!("`{}` does not fit buffer {}", port.name, port.buffer));
            }
        }
        for ports in [&self.inputs, &self.weights, &self.outputs] {
            for parts in Port::tensors(ports) {
                let (name, ty) = parts[0].tensor();
                let (parts, scales) = Port::values_and_scales(parts);
                let elements: Option<usize> =
                    parts.iter().map(|part| part.ty.checked_elements()).sum();
                let is_part = |part: &Port| {
                    let own = part.ty.dtype;
                    match scales {
                        Some(_) => own == DType::I8,
                        None if own.is_float() && own.bits() == 16 => {
                            [own, DType::F32].contains(&ty.dtype)
                        }
                        None => own == ty.dtype,
                    }
                };
                let is_weight = std::ptr::eq(ports, &self.weights);
                let is_scaled = scales.is_none_or(|scales| {
                    let mut axes = scales.ty.shape.iter().zip(&ty.shape);
                    is_weight
                        && scales.ty.rank() == ty.rank()
                        && axes.all(|(&own, &size)| own == 1 || own == size)
                });
                if elements != ty.checked_elements() || !parts.iter().all(is_part) || !is_scaled {
                    return Err(format!("the parts of `{name}` do not make up {ty}"));
                }
            }
        }
        let is_update = |&(weight, output): &(usize, usize)| {
            weight < self.weights.len() && output < self.outputs.len()
        };
        match self.updates.iter().all(is_update) {
            true => Ok(()),
            false => Err("an update of an unknown weight or output".into()),
        }
    }

    /// Checks all but slots.
    pub(crate) fn verify_kernels(&self) -> Result<(), String> {
        self.verify_routines()?;
        for routine in &self.routines {
            let is_nest = matches!(routine.work, Work::Nest(_));
            match (&routine.kernel, &routine.native) {
                (Some(kernel), _) => kernel.verify().map_err(|invalid| invalid.to_string())?,
                (None, Some(program)) => program.verify()?,
                (None, None) if is_nest || self.profile.execution == Execution::Shader => {
                    return Err(format!("`{}` has no kernel", routine.name));
                }
                (None, None) => {}
            }
        }
        Ok(())
    }

    fn binding<'a>(&'a self, step: &'a Step) -> BoundWork<'a> {
        BoundWork {
            work: &self.routines[step.routine].work,
            operands: &step.operands,
            outputs: &step.outputs,
        }
    }

    /// Checks that no temporary is written over while its value is still needed, by following the
    /// first turns of all loops.
    pub(super) fn verify_slots(&self) -> Result<(), String> {
        let mut slots = Slots { plan: self, holds: HashMap::new(), written: HashSet::new() };
        self.prelude_launches(|launch| slots.launch(launch))?;
        self.launches_of(&self.loops.iter().map(shortened).collect::<Vec<Loop>>(), |launch| {
            slots.launch(launch)
        })
    }
}

/// Returns the loop with a few turns: an odd number of turns stays odd, because carries alternate
/// between two buffers.
fn shortened(around: &Loop) -> Loop {
    let length = if around.length <= 3 { around.length } else { 2 + around.length % 2 };
    Loop { length, loops: around.loops.iter().map(shortened).collect(), ..around.clone() }
}

/// The contents of slots after the launches so far.
struct Slots<'a> {
    plan: &'a Plan,
    /// The buffer in each slot.
    holds: HashMap<usize, BufferId>,
    /// The buffers that have been written.
    written: HashSet<BufferId>,
}

impl Slots<'_> {
    fn launch(&mut self, launch: &Launch) -> Result<(), String> {
        let slot_of = |buffer: BufferId| match self.plan.buffers[buffer].content {
            Content::Temporary { slot } => Some(slot),
            _ => None,
        };
        for &operand in launch.operands {
            let is_there =
                slot_of(operand).is_none_or(|slot| self.holds.get(&slot) == Some(&operand));
            if !is_there && self.plan.buffers[operand].ty.elements() > 0 {
                return Err(format!(
                    "step `{}` reads buffer {operand} after its slot was reused",
                    launch.step.name()
                ));
            }
        }
        for (number, &output) in launch.outputs.iter().enumerate() {
            let Some(slot) = slot_of(output) else { continue };
            if self
                .plan
                .slots
                .get(slot)
                .is_none_or(|&bytes| bytes < self.plan.buffers[output].bytes())
            {
                return Err(format!("buffer {output} does not fit in its slot"));
            }
            let mut others = launch.operands.iter().chain(&launch.outputs[..number]);
            if others.any(|&other| other != output && slot_of(other) == Some(slot)) {
                let step = launch.step.name();
                return Err(format!(
                    "step `{step}` has buffer {output} and another one in slot {slot}"
                ));
            }
            let is_lost =
                self.holds.insert(slot, output) != Some(output) && self.written.contains(&output);
            if is_lost && self.is_part(launch.step, number) {
                return Err(format!(
                    "step `{}` completes buffer {output}, whose slot was reused",
                    launch.step.name()
                ));
            }
            self.written.insert(output);
        }
        Ok(())
    }

    /// Returns whether a step writes only a part of an output.
    fn is_part(&self, step: &Step, output: usize) -> bool {
        match &self.plan.routines[step.routine].work {
            Work::Nest(nest) => {
                !nest.is_of_rows(output) && nest.places() < nest.outputs[output].ty.elements()
            }
            Work::PrngValue { .. } | Work::PrngState { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::RoutineId;
    use super::*;
    use crate::dense::Id;
    use crate::graph::Graph;
    use crate::pipeline;
    use crate::profile::Profile;

    /// Four kernels, each of which reads the results of the last ones; then a loop.
    const TEXT: &str = "\
graph g(%0) -> (Y = %4, H = %6)
%0 = input X : f32[4, 8]
%1 = contract sum [i] (i: 0..4, k: 0..8) { v0 = %0[i, k]; yield v0 } : f32[4]  # A
%2 = contract max [i, j] (i: 0..4, j: 0..8, k: 0..4) { v0 = %1[k]; v1 = %0[i, j]; v2 = mul v0 v1; yield v2 } : f32[4, 8]  # B
%3 = contract min [i] (i: 0..2, j: 0..8, k: 0..4) { v0 = %2[k, j]; v1 = %2[i, j]; v2 = mul v0 v1; yield v2 } : f32[2]  # C
%4 = contract sum [i] (i: 0..3, k: 0..2) { v0 = %3[k]; v1 = exp v0; yield v1 } : f32[3]
%5 = scan 5 sequences () carries (%1) captures () yields () {
    graph step(%0) -> (h = %1)
    %0 = input h : f32[4]
    %1 = neg %0 : f32[4]
} : f32[4]
%6 = result 0 %5 : f32[4]
";

    #[test]
    fn broken_plans_are_refused() {
        let graph = Graph::parse(TEXT).unwrap();
        graph.verify().unwrap();
        let plan = pipeline::plan(&graph, &Profile::generic()).unwrap();
        assert_eq!(plan.verify(), Ok(()));
        let fault = |change: &dyn Fn(&mut Plan)| {
            let mut plan = plan.clone();
            change(&mut plan);
            plan.verify().unwrap_err()
        };
        let number = |name: &str| plan.steps.iter().position(|step| step.name() == name).unwrap();
        let [a, b, c] = ["A", "B", "C"].map(number);
        let buffer = |step: usize| plan.steps[step].outputs[0];
        let late = fault(&|plan| plan.steps.swap(a, b));
        assert_eq!(late, format!("step {a}: buffer {} is not in memory", buffer(a)));
        let other = fault(&|plan| plan.steps[c].outputs[0] = buffer(a));
        assert_eq!(
            other,
            format!("step {c}: buffer {} is f32[4], and f32[2] in the nest", buffer(a))
        );
        let own = fault(&|plan| plan.steps[b].outputs[0] = plan.steps[b].operands[0]);
        assert_eq!(
            own,
            format!("step {b}: it reads and writes buffer {}", plan.steps[b].operands[0])
        );
        let first = fault(&|plan| plan.loops[0].carries[0].first = plan.loops[0].carries[0].next);
        assert!(
            first.contains("the first value of `h`: buffer") && first.ends_with("is not in memory"),
            "{first}"
        );
        let next = fault(&|plan| {
            let step = plan.loops[0].steps.start;
            plan.steps[step].outputs[0] = plan.loops[0].carries[0].other;
        });
        assert!(
            next.contains("the next value of `h`: buffer") && next.ends_with("is not in memory"),
            "{next}"
        );
        let endless = fault(&|plan| plan.loops[0].length = 0);
        assert!(endless.starts_with("a loop of 0 turns"), "{endless}");
        let [first, second] = [0, 1].map(RoutineId::new);
        let bare = fault(&|plan| plan.routines[first].kernel = None);
        assert_eq!(bare, format!("`{}` has no kernel", plan.routines[first].name));
        let same = fault(&|plan| plan.routines[second].name = plan.routines[first].name.clone());
        assert!(same.starts_with("two routines have the name or the work of"), "{same}");
        let shared = fault(&|plan| {
            let slots = plan.buffers.iter_mut().filter_map(|buffer| match &mut buffer.content {
                Content::Temporary { slot } => Some(slot),
                _ => None,
            });
            slots.for_each(|slot| *slot = 0);
            plan.slots = vec![1 << 20];
        });
        assert!(shared.ends_with("another one in slot 0"), "{shared}");
        let small = fault(&|plan| plan.slots.fill(1));
        assert!(small.ends_with("does not fit in its slot"), "{small}");
    }
}
