//! The text form of a plan, as `--emit plan` and `--emit nests` print it.

use std::fmt;

use super::{Buffer, BufferId, Carry, Content, Loop, Plan, Port, Routine, Work};
use crate::dense::Dense;
use crate::dtype::DType;
use crate::profile::Rates;

/// Prints the totals, then a line for each step in order. The steps of a loop are indented below a
/// line for the loop. Bytes are those of whole tensors (in a loop, of the parts that a turn uses),
/// as the device stores them; 1 KB is 1000 bytes. Operations are counted as in [`super::Cost`]. The
/// time is the least that a device of the profile's rates needs for a launch.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (steps, routines) =
            (counted(self.all_steps().count(), "step"), counted(self.routines.len(), "kernel"));
        write!(f, "plan {} for {}: {steps} of {routines}", self.name, self.profile.name)?;
        if !self.prelude.is_empty() {
            write!(f, ", {} of them once", self.prelude.len())?;
        }
        f.write_str("\n")?;
        let tensor = |port: &Port| {
            let (name, ty) = port.tensor();
            format!("{name}: {ty}")
        };
        let ports = |ports: &[Port]| {
            Port::tensors(ports).map(|parts| tensor(&parts[0])).collect::<Vec<_>>().join(", ")
        };
        let total = |is_counted: fn(&Content) -> bool| {
            let buffers = || self.buffers.iter().filter(|buffer| is_counted(&buffer.content));
            (buffers().count(), bytes(buffers().map(|buffer| buffer.bytes()).sum()))
        };
        let (_, size) = total(|content| *content == Content::Input);
        writeln!(f, "    inputs       {size:>9}  {}", ports(&self.inputs))?;
        let (count, size) = total(|content| *content == Content::Weight);
        if count > 0 {
            let count = Port::tensors(&self.weights).count();
            write!(f, "    weights      {size:>9}  {}", counted(count, "tensor"))?;
            for dtype in [DType::F16, DType::BF16, DType::I8] {
                let is_narrow = |parts: &&[Port]| {
                    parts[0].ty.dtype == dtype && parts[0].tensor().1.dtype != dtype
                };
                let narrow = Port::tensors(&self.weights).filter(is_narrow).count();
                if narrow > 0 {
                    write!(f, ", {narrow} as {dtype}")?;
                }
            }
            f.write_str("\n")?;
        }
        let (count, size) = total(|content| matches!(content, Content::Constant(_)));
        if count > 0 {
            writeln!(f, "    constants    {size:>9}  {}", counted(count, "tensor"))?;
        }
        let (count, size) = total(|content| *content == Content::Kept);
        if count > 0 {
            writeln!(f, "    kept         {size:>9}  {}", counted(count, "tensor"))?;
        }
        let (count, _) = total(|content| matches!(content, Content::Temporary { .. }));
        if count > 0 {
            let (slots, size) = (counted(self.slots.len(), "slot"), bytes(self.slots.iter().sum()));
            writeln!(f, "    temporaries  {size:>9}  {} in {slots}", counted(count, "tensor"))?;
        }
        let (_, size) = total(|content| *content == Content::Output);
        writeln!(f, "    outputs      {size:>9}  {}", ports(&self.outputs))?;
        writeln!(f, "    memory       {:>9}  for all of these", bytes(self.memory()))?;
        for ports in [&self.inputs, &self.weights, &self.outputs] {
            let parts = Port::tensors(ports).map(|ports| Port::values_and_scales(ports).0);
            for parts in parts.filter(|parts| parts.len() > 1) {
                let storage = self.buffers[parts[0].buffer].storage;
                let most = bytes(self.profile.most_bytes(storage));
                let (tensor, count) = (tensor(&parts[0]), parts.len());
                writeln!(f, "    in {count} parts   {tensor}: a buffer has at most {most}")?;
            }
        }
        self.totals(f)?;
        f.write_str("\n")?;
        self.table(f)
    }
}

impl Plan {
    /// Prints the cost of a run.
    fn totals(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (traffic, least) = (self.traffic(), self.least_traffic());
        let times = traffic as f64 / least.max(1) as f64;
        writeln!(
            f,
            "    traffic      {:>9}  {times:.2} times the least, {}",
            bytes(traffic),
            bytes(least)
        )?;
        writeln!(f, "    operations   {:>9}", scaled(self.cost().flops, ""))?;
        let Rates { flops, memory, .. } = self.profile.rates;
        let speed =
            format!("{}FLOP/s and {}B/s", scaled(flops as u64, " "), scaled(memory as u64, " "));
        writeln!(f, "    time         {:>9}  at least, with {speed}", seconds(self.roofline()))
    }

    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.buffer_names();
        let mut rows = vec![
            [
                "step",
                "value",
                "kernel",
                "type",
                "in",
                "reads",
                "writes",
                "operations",
                "time",
                "operands",
            ]
            .map(String::from),
        ];
        let ahead = self.prelude.len();
        let mut headings = vec![Vec::new(); self.all_steps().count()];
        self.loops.iter().for_each(|around| head(around, ahead, 0, &mut headings));
        for (number, step) in self.all_steps().enumerate() {
            let list = |of: &dyn Fn(BufferId) -> String, ids: &[BufferId]| {
                ids.iter().map(|&id| of(id)).collect::<Vec<_>>().join(", ")
            };
            let tensors: Vec<u64> =
                (0..step.operands.len() + step.outputs.len()).map(|n| self.used(step, n)).collect();
            let (read, written) = tensors.split_at(step.operands.len());
            let is_within = |around: &&Loop| {
                number.checked_sub(ahead).is_some_and(|n| around.steps.contains(&n))
            };
            let cost = self.step_cost(step);
            let depth = self.all_loops().filter(is_within).count();
            rows.push([
                number.to_string(),
                "  ".repeat(depth) + &step.name(),
                self.routines[step.routine].name.clone(),
                list(&|id| self.stored_type(id), &step.outputs),
                list(&|id| self.place(id), &step.outputs),
                bytes(read.iter().sum()),
                bytes(written.iter().sum()),
                scaled(cost.flops, ""),
                seconds(cost.roofline(&self.profile.rates)),
                list(&|id| names[id].clone(), &step.operands),
            ]);
        }
        let width =
            |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 10] = std::array::from_fn(width);
        for (number, row) in rows.iter().enumerate() {
            match ahead {
                0 => {}
                _ if number == 1 => writeln!(f, "once, and when weights change:")?,
                _ if number == ahead + 1 => writeln!(f, "in each run:")?,
                _ => {}
            }
            for heading in number.checked_sub(1).into_iter().flat_map(|number| &headings[number]) {
                writeln!(f, "{:width$}  {heading}", "", width = widths[0])?;
            }
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
                let cell = if matches!(column, 0 | 5..=8) {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:width$}")
                };
                line += &format!("{cell}  ");
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// Returns the name for readers of each buffer.
    pub(super) fn buffer_names(&self) -> Dense<BufferId, String> {
        let constant = |buffer: &Buffer| format!("constant {}", buffer.ty);
        let mut names: Dense<BufferId, String> = self.buffers.iter().map(constant).collect();
        for port in self.outputs.iter().chain(self.given()) {
            names[port.buffer].clone_from(&port.name);
        }
        for step in self.all_steps() {
            step.outputs
                .iter()
                .zip(&step.values)
                .for_each(|(&id, value)| names[id].clone_from(value));
        }
        for carry in self.all_loops().flat_map(|around| &around.carries) {
            names[carry.before].clone_from(&carry.name);
            names[carry.last].clone_from(&carry.name);
        }
        names
    }

    /// Returns `f16[3]`, or `u8[3] as u32` if the device stores another type.
    pub(super) fn stored_type(&self, id: BufferId) -> String {
        let buffer = &self.buffers[id];
        match buffer.storage == buffer.ty.dtype {
            true => buffer.ty.to_string(),
            false => format!("{} as {}", buffer.ty, buffer.storage),
        }
    }

    /// Returns the destination of a step's result.
    pub(super) fn place(&self, id: BufferId) -> String {
        match &self.buffers[id].content {
            Content::Temporary { slot } => format!("slot {slot}"),
            Content::Kept => "kept".to_owned(),
            Content::Carried => "carry".to_owned(),
            Content::Over { .. } => "weight".to_owned(),
            _ => "output".to_owned(),
        }
    }
}

/// Puts the line for a loop, and for the loops within it, before its first step.
fn head(around: &Loop, ahead: usize, depth: usize, headings: &mut [Vec<String>]) {
    let named = |carry: &Carry| {
        let place = if carry.is_in_place() { " in place" } else { "" };
        format!("{}{place}", carry.name)
    };
    let carries: Vec<String> = around.carries.iter().map(named).collect();
    let carried = if carries.is_empty() {
        String::new()
    } else {
        format!(", carrying {}", carries.join(", "))
    };
    let line = format!("{}{}{carried}:", "  ".repeat(depth), counted(around.length, "time"));
    headings[ahead + around.steps.start].push(line);
    around.loops.iter().for_each(|inner| head(inner, ahead, depth + 1, headings));
}

/// Prints the loop nest below its schedule and launch.
impl fmt::Display for Routine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schedule) = &self.schedule {
            writeln!(f, "schedule {schedule}")?;
        }
        if let Some(kernel) = &self.kernel {
            writeln!(f, "launch {:?} workgroups of {:?}", kernel.grid, kernel.workgroup)?;
        }
        match &self.work {
            Work::Nest(nest) => write!(f, "{nest}"),
            Work::PrngValue { elements } => {
                writeln!(f, "generator {}: {elements} numbers", self.name)
            }
            Work::PrngState { elements } => {
                writeln!(f, "generator {}: the state after {elements} numbers", self.name)
            }
        }
    }
}

/// Returns `1 step`, `2 steps`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Returns `999 B`, `1.5 KB`, `12.0 GB`.
pub(super) fn bytes(count: u64) -> String {
    scaled(count, " ") + "B"
}

/// Returns `999`, `1.5K`, `12.0G`: a number with a letter for thousands. `space` stands before the
/// letter.
pub(super) fn scaled(count: u64, space: &str) -> String {
    if count < 1000 {
        return format!("{count}{space}");
    }
    let units = ["K", "M", "G", "T", "P", "E"];
    let mut size = count as f64 / 1000.0;
    let mut unit = 0;
    while size >= 999.95 && unit + 1 < units.len() {
        size /= 1000.0;
        unit += 1;
    }
    format!("{size:.1}{space}{}", units[unit])
}

/// Returns `0.2 ns`, `1.5 µs`, `12.0 s`.
pub(super) fn seconds(time: f64) -> String {
    let units = ["ns", "µs", "ms"];
    let mut time = time * 1e9;
    for unit in units {
        if time < 999.95 {
            return format!("{time:.1} {unit}");
        }
        time /= 1000.0;
    }
    format!("{time:.1} s")
}

#[cfg(test)]
mod tests {
    use super::{bytes, scaled, seconds};

    #[test]
    fn bytes_for_a_person() {
        let sizes = [0, 999, 1000, 1549, 999_949, 999_950, 12_000_000_000, u64::MAX];
        assert_eq!(
            sizes.map(bytes),
            ["0 B", "999 B", "1.0 KB", "1.5 KB", "999.9 KB", "1.0 MB", "12.0 GB", "18.4 EB"]
        );
        assert_eq!([7, 1_500, 2_000_000].map(|count| scaled(count, "")), ["7", "1.5K", "2.0M"]);
    }

    #[test]
    fn times_for_a_person() {
        let times = [0.0, 2e-10, 1.5e-6, 0.999949e-3, 0.99996, 12345.0];
        assert_eq!(
            times.map(seconds),
            ["0.0 ns", "0.2 ns", "1.5 µs", "999.9 µs", "1.0 s", "12345.0 s"]
        );
    }
}
