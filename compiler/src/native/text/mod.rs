//! The text form of tapes. `parse` reads it back.
//!
//! ```text
//! tape {
//!     space 0 [32, 64]
//!     variables 3 loops from 3
//!     types f32*4
//!     registers [8192, 1024, 4096, 4096]
//!     chunk 1024
//!     given v0 in r0
//!     v1 in r2 = load in1[a1] by 1 for 64
//!     v3 in r3 = chain v0 { add v1; max v2; keep v3 in r3 }
//!     yield v3 direct
//!     operations 3
//! }
//! ```
//!
//! Axes are named `a0`, `a1` and so on, and derived variables `q0`, `q1`. An address says its step
//! from point to point (`by`) and the points of a piece (`for`).

mod program;

use std::fmt;

use crate::affine::Affine;
use crate::dense::Dense;
use crate::dtype::DType;
use crate::scalar::Value;

use super::chain::{Chain, Move};
use super::fused::Term;
use super::space::{Lines, Variables};
use super::step::{Action, Reader};
use super::tape::Tape;

/// The names of a fused form's terms.
pub(super) const TERMS: [&str; 4] = ["before", "scale", "after", "last"];

/// Returns the text of an expression over a nest's variables.
pub(super) fn affine(affine: &Affine, axes: usize) -> String {
    let name = |variable: usize| match variable.checked_sub(axes) {
        None => format!("a{variable}"),
        Some(derived) => format!("q{derived}"),
    };
    affine.display(name).to_string()
}

/// Returns the conjunction of conditions, after `where`.
pub(super) fn conditions<'a>(
    conditions: impl IntoIterator<Item = &'a Affine>,
    axes: usize,
) -> String {
    let all: Vec<String> =
        conditions.into_iter().map(|c| format!("{} >= 0", affine(c, axes))).collect();
    if all.is_empty() { String::new() } else { format!(" where {}", all.join(", ")) }
}

/// Returns the step and the length of a piece of one expression.
fn pace(lines: &Lines) -> String {
    format!(" by {} for {}", lines.steps.first().copied().unwrap_or(0), lines.run)
}

/// Returns types as `f32*4 bool`.
fn types(all: &Dense<Value, DType>) -> String {
    let of_run = |run: &[DType]| match run {
        [one] => format!(" {one}"),
        run => format!(" {}*{}", run[0], run.len()),
    };
    all.iter().as_slice().chunk_by(|a, b| a == b).map(of_run).collect()
}

impl fmt::Display for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "variables {} loops from {}", self.axes, self.loops)?;
        for (number, derived) in self.derived.iter().enumerate() {
            write!(
                f,
                ", q{number} = [{}] / {}",
                affine(&derived.numerator, self.axes),
                derived.denominator
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes = self.offset.axes;
        write!(f, "load in{}[{}]", self.operand, affine(&self.offset.expressions[0], axes))?;
        for (value, dtype, stride) in &self.dynamic {
            write!(f, " + {stride} * v{value}: {dtype}")?;
        }
        write!(f, "{}{}", pace(&self.offset), if self.in_place { " in place" } else { "" })?;
        f.write_str(if self.saturates { " saturated" } else { "" })?;
        f.write_str(&conditions(&self.conditions.expressions, axes))
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let to = |value: Value| format!("v{value} in r{}", self.register(value));
        let moves = self.moves.iter().map(|step| match *step {
            Move::Apply(code, operands) => {
                let operands: String =
                    operands.iter().flatten().map(|operand| format!(" v{operand}")).collect();
                format!("{}{operands}", code.name())
            }
            Move::Divide(by) => format!("divide v{by}"),
            Move::Replace { condition, when, by } => {
                format!("replace v{by} {} v{condition}", if when { "where" } else { "unless" })
            }
            Move::Compare(relation, with, value) => {
                format!("{} v{with} as {}", relation.name(), to(value))
            }
            Move::Keep(value) => format!("keep {}", to(value)),
            Move::Aggregate(aggregation, value) => {
                format!("aggregate {} as {}", aggregation.name(), to(value))
            }
        });
        write!(f, "chain v{} {{ {} }}", self.from, moves.collect::<Vec<String>>().join("; "))
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Load(reader) => reader.fmt(f),
            Action::Index(lines) => {
                write!(f, "index [{}]{}", affine(&lines.expressions[0], lines.axes), pace(lines))
            }
            Action::Unary(op, a) => write!(f, "{} v{a}", op.name()),
            Action::Binary(op, a, b) | Action::Compare(op, a, b) => {
                write!(f, "{} v{a} v{b}", op.name())
            }
            Action::Select(c, a, b) => write!(f, "select v{c} v{a} v{b}"),
            Action::Cast(a) => write!(f, "cast v{a}"),
            Action::Statistic(aggregation, a) => write!(f, "statistic {} v{a}", aggregation.name()),
            Action::Chain(chain) => chain.fmt(f),
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Kept { register, period } => write!(f, "r{register} every {period}"),
            Term::AtPlace(operand) => write!(f, "in{operand}"),
        }
    }
}

impl fmt::Display for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "tape {{")?;
        writeln!(f, "    space {} {:?}", self.space.first, self.space.extents)?;
        writeln!(f, "    {}", self.variables)?;
        writeln!(f, "    types{}", types(&self.dtypes))?;
        writeln!(f, "    registers {:?}", self.registers)?;
        write!(f, "    chunk {}", self.longest)?;
        if let Some(length) = self.row_length {
            write!(f, " of rows of {length}")?;
        }
        if let Some(row) = self.row {
            write!(f, " up to multiples of {row}")?;
        }
        writeln!(f)?;
        for (value, register, scalar) in &self.constants {
            writeln!(f, "    const v{value} in r{register} = {scalar}")?;
        }
        for (value, register) in &self.given {
            writeln!(f, "    given v{value} in r{register}")?;
        }
        for (step, period) in &self.steady {
            writeln!(
                f,
                "    steady v{} in r{} every {period} = {}",
                step.value, step.register, step.action
            )?;
        }
        for step in &self.steps {
            writeln!(f, "    v{} in r{} = {}", step.value, step.register, step.action)?;
        }
        self.ending(f)?;
        writeln!(f, "}}")
    }
}

impl Tape {
    /// Prints what follows the steps.
    fn ending(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (result, direct) in self.results.iter().zip(&self.direct) {
            writeln!(f, "    yield v{result}{}", if *direct { " direct" } else { "" })?;
        }
        for (lodger, result) in &self.lodgers {
            writeln!(f, "    lodge v{lodger} with v{result}")?;
        }
        if let Some(number) = self.longest_chain {
            writeln!(f, "    prefetch at {number}")?;
        }
        if let Some(fused) = &self.fused {
            write!(f, "    fused")?;
            for (name, term) in TERMS.iter().zip(&fused.terms) {
                if let Some(term) = term {
                    write!(f, " {name} {term}")?;
                }
            }
            for (name, bound) in [("low", fused.low), ("high", fused.high)] {
                if let Some(bound) = bound {
                    write!(f, " {name} {bound}")?;
                }
            }
            writeln!(f)?;
        }
        writeln!(f, "    operations {}", self.operations)
    }
}
