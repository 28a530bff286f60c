//! The text form of nests, for `--emit plan` and for tests.

use std::fmt;

use crate::affine::Affine;
use crate::dtype::Scalar;
use crate::scalar::{Inst, Program};

use super::{Leaf, Load, Nest, Table};

impl Nest {
    fn affine(&self, affine: &Affine) -> String {
        affine.display(|v| self.variable_name(v)).to_string()
    }

    fn load(&self, load: &Load) -> String {
        let mut text = format!("in{}[{}", load.operand, self.affine(&load.offset));
        for (value, stride) in &load.dynamic {
            text += &format!(" + {stride}*v{value}");
        }
        text.push(']');
        if !load.when.is_empty() {
            let conditions: Vec<String> =
                load.when.iter().map(|w| format!("{} >= 0", self.affine(w))).collect();
            text += &format!(" if {}", conditions.join(" and "));
        }
        text
    }

    fn table(&self, table: &Table) -> String {
        let elements: Vec<String> = table.elements.iter().map(Scalar::to_string).collect();
        format!("table({})[{}]", elements.join(" "), self.affine(&table.offset))
    }

    fn program(&self, f: &mut fmt::Formatter<'_>, program: &Program<Leaf>) -> fmt::Result {
        for (value, (inst, dtype)) in program.insts.enumerate() {
            let text = match inst {
                Inst::Leaf(Leaf::Load(load)) => self.load(load),
                Inst::Leaf(Leaf::Index(affine)) => format!("index {}", self.affine(affine)),
                Inst::Leaf(Leaf::Table(table)) => self.table(table),
                Inst::Leaf(Leaf::Accumulator) => "accumulator".into(),
                Inst::Leaf(Leaf::Written) => "written".into(),
                Inst::Leaf(Leaf::Statistic(aggregation, a)) => {
                    let over = if self.inner.is_empty() { "columns" } else { "points" };
                    format!("{} over {over} of v{a}", aggregation.name())
                }
                Inst::Leaf(Leaf::Inner(number)) => format!("inner{number}"),
                Inst::Leaf(Leaf::OfBody(a)) => format!("v{a} of body"),
                Inst::Const(s) => s.to_string(),
                Inst::Unary(op, a) => format!("{} v{a}", op.name()),
                Inst::Binary(op, a, b) => format!("{} v{a} v{b}", op.name()),
                Inst::Select(c, a, b) => format!("select v{c} v{a} v{b}"),
                Inst::Cast(a) => format!("cast v{a}"),
            };
            writeln!(f, "    v{value} = {text} : {dtype}")?;
        }
        let results: Vec<String> = program.results.iter().map(|r| format!("v{r}")).collect();
        writeln!(f, "    yield {}", results.join(" "))
    }
}

/// Writes the axes, operands, outputs, derived variables and guards, then the programs. The tests
/// of [`crate::nest`] show examples.
impl fmt::Display for Nest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |axes: &[super::Axis]| {
            axes.iter().map(|a| format!("{}: {}", a.name, a.extent)).collect::<Vec<_>>().join(", ")
        };
        write!(f, "nest {} [{}]", self.name, list(&self.axes[..self.rows]))?;
        if !self.columns().is_empty() {
            write!(f, " columns [{}]", list(&self.axes[self.columns()]))?;
        }
        if let Some(aggregation) = self.aggregation {
            write!(f, " {} [{}]", aggregation.name(), list(&self.axes[self.reduction()]))?;
        }
        if self.loops > 0 {
            write!(f, " in loops [{}]", list(&self.axes[self.loops()]))?;
        }
        writeln!(f)?;
        for (number, operand) in self.operands.iter().enumerate() {
            let in_bytes = if self.in_bytes.contains(&number) { " in bytes" } else { "" };
            writeln!(f, "  in{number}: {operand}{in_bytes}")?;
        }
        for (number, output) in self.outputs.iter().enumerate() {
            write!(f, "  out{number}")?;
            if output.position != self.place() {
                write!(f, "[{}]", self.affine(&output.position))?;
            }
            write!(f, ": {}", output.ty)?;
            match output.over {
                Some(operand) => writeln!(f, " over in{operand}")?,
                None => writeln!(f)?,
            }
        }
        for (number, derived) in self.derived.iter().enumerate() {
            writeln!(
                f,
                "  q{number} = floor(({}) / {})",
                self.affine(&derived.numerator),
                derived.denominator
            )?;
        }
        for guard in &self.guards {
            writeln!(f, "  where {} >= 0", self.affine(guard))?;
        }
        if let Some(position) = &self.position {
            writeln!(f, "  position {}", self.affine(position))?;
        }
        if let Some(rank) = &self.rank {
            writeln!(f, "  rank {}", self.affine(rank))?;
        }
        for (number, inner) in self.inner.iter().enumerate() {
            writeln!(f, "  inner{number} sum [{}]", list(&self.axes[inner.axes.clone()]))?;
            self.program(f, &inner.body)?;
        }
        if self.aggregation.is_some() {
            writeln!(f, "  body")?;
            self.program(f, &self.body)?;
            writeln!(f, "  epilogue")?;
        } else {
            writeln!(f, "  each")?;
        }
        self.program(f, &self.epilogue)
    }
}
