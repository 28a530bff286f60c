//! Explains a plan, as `--emit explain` prints it. For each step: the fused values, its reads and
//! writes, the mapping of its axes to the device and the reason for it, and the time predicted from
//! the profile's rates.

use std::fmt;

use super::text::{bytes, counted, scaled, seconds};
use super::{BufferId, Plan, Routine, Step, Work};
use crate::dense::Dense;
use crate::kernel::Kernel;
use crate::nest::{Axis, Nest};
use crate::profile::Rates;
use crate::schedule::Choice;

/// The text form of a plan's explanation.
pub struct Explanation<'a>(&'a Plan);

impl Plan {
    /// Returns an explanation of the plan for a person.
    pub fn explain(&self) -> Explanation<'_> {
        Explanation(self)
    }
}

impl Plan {
    /// Returns a line for each step: its values, its kernel, and the schedule.
    pub fn placement(&self) -> impl Iterator<Item = String> + '_ {
        self.all_steps().map(|step| {
            let routine = &self.routines[step.routine];
            let schedule = routine
                .schedule
                .as_ref()
                .map_or_else(String::new, |schedule| format!(", {schedule}"));
            format!("{}: {}{schedule}", step.name(), routine.name)
        })
    }
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.0;
        let Rates { flops, memory, launch, .. } = plan.profile.rates;
        let (flops, memory) = (scaled(flops as u64, " "), scaled(memory as u64, " "));
        writeln!(
            f,
            "explain {} for {}: {flops}FLOP/s, {memory}B/s, {} a launch",
            plan.name,
            plan.profile.name,
            seconds(launch)
        )?;
        let mut first_step = Dense::of(None, plan.routines.len());
        let names = plan.buffer_names();
        for (number, step) in plan.all_steps().enumerate() {
            let known = *first_step[step.routine].get_or_insert(number);
            let when = if number < plan.prelude.len() { ", once" } else { "" };
            let routine = &plan.routines[step.routine];
            writeln!(f, "\nstep {number}  {}{when}", step.name())?;
            if step.fused.len() > 1 {
                writeln!(f, "    fused     {}", step.fused.join(", "))?;
            }
            let tensors = tensors(plan, &names, step);
            let width = |column: usize| {
                tensors.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
            };
            let widths = [0, 1].map(width);
            for (row, [name, ty, rest]) in tensors.iter().enumerate() {
                let head = match row {
                    _ if row == step.operands.len() => "writes",
                    0 => "reads",
                    _ => "",
                };
                writeln!(f, "    {head:<8}  {name:<0$}  {ty:<1$}  {rest}", widths[0], widths[1])?;
            }
            let reasons = match known == number {
                true => reasons(routine),
                false => vec![("kernel", format!("{}, as in step {known}", routine.name))],
            };
            for (head, reason) in reasons {
                writeln!(f, "    {head:<8}  {reason}")?;
            }
            let cost = plan.step_cost(step);
            let Rates { flops, memory, launch, .. } = plan.profile.rates;
            let (compute, traffic) = (cost.flops as f64 / flops, cost.bytes as f64 / memory);
            writeln!(
                f,
                "    time      {}: compute {} or traffic {}, then launch {}",
                seconds(cost.roofline(&plan.profile.rates) + launch),
                seconds(compute),
                seconds(traffic),
                seconds(launch)
            )?;
        }
        Ok(())
    }
}

/// Returns the name, the type and the traffic of each tensor that a step reads, and then of each
/// that it writes.
fn tensors(plan: &Plan, names: &Dense<BufferId, String>, step: &Step) -> Vec<[String; 3]> {
    let tensor = |(number, &id): (usize, &BufferId)| {
        let used = bytes(plan.used(step, number));
        let rest = match number < step.operands.len() {
            true => used,
            false => format!("{used} to {}", plan.place(id)),
        };
        [names[id].clone(), plan.stored_type(id), rest]
    };
    step.operands.iter().chain(&step.outputs).enumerate().map(tensor).collect()
}

/// Returns a line for each fact about a routine: its kernel, axes, schedule and reason.
fn reasons(routine: &Routine) -> Vec<(&'static str, String)> {
    let grid = |kernel: &Kernel| {
        let workgroups: u64 = kernel.grid.iter().map(|&count| u64::from(count)).product();
        let invocations: u64 = kernel.workgroup.iter().map(|&size| u64::from(size)).product();
        format!(
            "{}, {} of {invocations} invocations",
            routine.name,
            counted(workgroups as usize, "workgroup")
        )
    };
    let mut lines =
        vec![("kernel", routine.kernel.as_ref().map_or_else(|| routine.name.clone(), grid))];
    match &routine.work {
        Work::Nest(nest) => {
            lines.push(("axes", axes(nest)));
            if let Some(schedule) = &routine.schedule {
                let tuned = if routine.choice == Choice::Tuned { ", tuned" } else { "" };
                lines.extend([
                    ("schedule", format!("{schedule}{tuned}")),
                    ("because", schedule.reason(nest)),
                ]);
            }
        }
        Work::PrngValue { elements } => {
            lines.push(("is", format!("a generator of {elements} numbers")))
        }
        Work::PrngState { elements } => {
            lines.push(("is", format!("a generator's state after {elements} numbers")))
        }
    }
    lines
}

/// Describes the axes by their roles, if the nest has roles.
fn axes(nest: &Nest) -> String {
    let list = |name: &str, axes: &mut dyn Iterator<Item = &Axis>| {
        let axes: Vec<String> =
            axes.map(|axis| format!("{}: {}", axis.name, axis.extent)).collect();
        (!axes.is_empty()).then(|| format!("{name} {}", axes.join(", ")))
    };
    let of = |name: &str, numbers: &[usize]| {
        list(name, &mut numbers.iter().map(|&axis| &nest.axes[axis]))
    };
    let parts = match nest.roles() {
        Some(roles) => vec![
            of("batch", &roles.batch),
            of("rows", &roles.rows),
            of("columns", &roles.columns),
            of("reduction", &roles.reduction),
        ],
        None => vec![
            list("places", &mut nest.axes[..nest.free].iter()),
            list("reduction", &mut nest.axes[nest.reduction()].iter()),
        ],
    };
    let loops = list("in loops", &mut nest.axes[nest.loops()].iter());
    let parts: Vec<String> = parts.into_iter().chain([loops]).flatten().collect();
    if parts.is_empty() { "one place".to_owned() } else { parts.join("; ") }
}

#[cfg(test)]
mod tests {
    use crate::graph::Graph;
    use crate::pipeline;
    use crate::profile::Profile;

    #[test]
    fn products_sums_and_what_is_around_them() {
        let text = "\
graph model(%0) -> (Y = %9, Loss = %10)
%0 = input X : f32[40, 16]
%1 = weight a.Kernel : f32[16, 16]
%2 = weight a.Bias : f32[16]
%3 = weight b.Kernel : f32[16, 16]
%4 = contract sum [n, u] (n: 0..40, u: 0..16, k: 0..16) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 } : f32[40, 16]  # Z in Dense at a
%5 = add %4 %2 : f32[40, 16]  # Y in Dense at a
%6 = tanh %5 : f32[40, 16]  # Y in tanh at a
%7 = contract sum [m, v] (m: 0..40, v: 0..16, k: 0..16) { v0 = %6[m, k]; v1 = %3[k, v]; v2 = mul v0 v1; yield v2 } : f32[40, 16]  # Z in Dense at b
%8 = add %7 %2 : f32[40, 16]  # Y in Dense at b
%9 = tanh %8 : f32[40, 16]  # Y in tanh at b
%10 = contract sum [] (n: 0..40, u: 0..16) { v0 = %9[n, u]; yield v0 } : f32[]  # Loss
";
        let mut graph = Graph::parse(text).unwrap();
        pipeline::optimise(&mut graph);
        let plan = pipeline::plan(&graph, &Profile::generic()).unwrap();
        insta::assert_snapshot!(plan.explain(), @"
        explain model for generic: 12.0 TFLOP/s, 400.0 GB/s, 5.0 µs a launch

        step 0  a.Y
            fused     a.Z, a.Y
            reads     X         f32[40, 16]  2.6 KB
                      a.Kernel  f32[16, 16]  1.0 KB
                      a.Bias    f32[16]      64 B
            writes    a.Y       f32[40, 16]  2.6 KB to slot 0
            kernel    dense_tanh, 1 workgroup of 256 invocations
            axes      rows n: 40; columns u: 16; reduction k: 16
            schedule  contraction block 64x16x16 thread 2x2 warp 8 buffers 1 band 1
            because   40 rows times 16 columns, in tiles that are 62% full, with 1.00 loads from workgroup memory a multiply-add
            time      5.0 µs: compute 1.8 ns or traffic 15.5 ns, then launch 5.0 µs

        step 1  b.Y
            fused     b.Z, b.Y
            reads     a.Y       f32[40, 16]  2.6 KB
                      b.Kernel  f32[16, 16]  1.0 KB
                      a.Bias    f32[16]      64 B
            writes    b.Y       f32[40, 16]  2.6 KB to output
            kernel    dense_tanh, as in step 0
            time      5.0 µs: compute 1.8 ns or traffic 15.5 ns, then launch 5.0 µs

        step 2  Loss
            reads     b.Y   f32[40, 16]  2.6 KB
            writes    Loss  f32[]        4 B to output
            kernel    loss, 1 workgroup of 256 invocations
            axes      reduction nu: 640
            schedule  reduction places 1 slices 256 along points width 4
            because   640 points for 1 place: 256 invocations for each place combine them in a tree
            time      5.0 µs: compute 0.1 ns or traffic 6.4 ns, then launch 5.0 µs
        ");
    }

    #[test]
    fn native_programs() {
        let text = "\
graph model(%0) -> (Y = %2)
%0 = input X : f32[40, 16]
%1 = weight Kernel : f32[16, 32]
%2 = contract sum [n, u] (n: 0..40, u: 0..32, k: 0..16) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 } : f32[40, 32]
";
        let plan = pipeline::plan(&Graph::parse(text).unwrap(), &Profile::cpu()).unwrap();
        insta::assert_snapshot!(plan.explain(), @"
        explain model for cpu: 100.0 GFLOP/s, 30.0 GB/s, 0.0 ns a launch

        step 0  %2
            reads     X       f32[40, 16]  2.6 KB
                      Kernel  f32[16, 32]  2.0 KB
            writes    %2      f32[40, 32]  5.1 KB to output
            kernel    value
            axes      rows n: 40; columns u: 32; reduction k: 16
            schedule  native product 40 by 32 of 16
            because   40 rows times 32 columns: panels of both factors are packed for registers
            time      409.6 ns: compute 409.6 ns or traffic 324.3 ns, then launch 0.0 ns
        ");
    }
}
