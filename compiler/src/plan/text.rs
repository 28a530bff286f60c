//! The text form of a plan: what `--emit plan` prints.

use std::fmt;

use super::{Content, Plan, Port, Work};

/// Buffers with what they hold, then the steps in order, each with its loop nest and launch.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "plan {} for {}", self.name, self.profile.name)?;
        let ports = |ports: &[Port]| {
            ports.iter().map(|p| format!("{}: {} = b{}", p.name, p.ty, p.buffer)).collect::<Vec<_>>().join(", ")
        };
        writeln!(f, "inputs {}", ports(&self.inputs))?;
        if !self.weights.is_empty() {
            writeln!(f, "weights {}", ports(&self.weights))?;
        }
        writeln!(f, "outputs {}", ports(&self.outputs))?;
        for (number, buffer) in self.buffers.iter().enumerate() {
            let content = match &buffer.content {
                Content::Input => "input".to_string(),
                Content::Weight => "weight".to_string(),
                Content::Constant(_) => "constant".to_string(),
                Content::Temporary { slot } => format!("temporary in slot {slot}"),
                Content::Output => "output".to_string(),
            };
            let stored =
                if buffer.storage == buffer.ty.dtype { String::new() } else { format!(" as {}", buffer.storage) };
            writeln!(f, "b{number}: {}{stored}, {} bytes, {content}", buffer.ty, buffer.bytes())?;
        }
        for (number, bytes) in self.slots.iter().enumerate() {
            writeln!(f, "slot {number}: {bytes} bytes")?;
        }
        for (number, step) in self.steps.iter().enumerate() {
            let list = |ids: &[usize]| ids.iter().map(|b| format!("b{b}")).collect::<Vec<_>>().join(", ");
            writeln!(f, "\nstep {number} {}({}) -> {}", step.name, list(&step.operands), list(&step.outputs))?;
            if let Some(kernel) = &step.kernel {
                writeln!(f, "  launch {:?} workgroups of {:?}", kernel.grid, kernel.workgroup)?;
            }
            match &step.work {
                Work::Nest { nest, schedule } => {
                    writeln!(f, "  schedule {schedule}")?;
                    for line in nest.to_string().lines() {
                        writeln!(f, "  {line}")?;
                    }
                }
                Work::PrngValue { elements } => writeln!(f, "  generate {elements} numbers")?,
                Work::PrngState { elements } => writeln!(f, "  state after {elements} numbers")?,
            }
        }
        Ok(())
    }
}
