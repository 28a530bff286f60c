//! The text form of native programs: operands, the implementation, the epilogue, and the outputs.

use std::fmt;

use super::super::address::Address;
use super::super::attention::{Attention, Block, Shorter, Stages};
use super::super::direct::Direct;
use super::super::pieces::Piece;
use super::super::product::{Factor, Product};
use super::super::program::{Implementation, NativeOutput, NativeProgram, Position};
use super::super::reduction::Reduction;
use super::super::running::Running;
use super::super::scatter::Scatter;
use super::super::space::Space;
use super::super::update::Update;
use super::super::winograd::{Side, Winograd};
use super::{affine, conditions};

/// Returns the text with every line but the first indented by `depth` steps.
fn indented(text: impl fmt::Display, depth: usize) -> String {
    text.to_string().trim_end().replace('\n', &format!("\n{}", "    ".repeat(depth)))
}

/// Returns `word` after a space if it applies.
fn flag(applies: bool, word: &str) -> String {
    if applies { format!(" {word}") } else { String::new() }
}

fn space(space: &Space) -> String {
    format!("{} {:?}", space.first, space.extents)
}

impl fmt::Display for NativeProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "native {} {{", self.name)?;
        writeln!(
            f,
            "    axes {:?} {}{}",
            self.extents,
            self.variables,
            flag(self.bypass, "bypass")
        )?;
        for (number, operand) in self.operands.iter().enumerate() {
            writeln!(f, "    in{number}: {operand}")?;
        }
        write!(f, "    ")?;
        let axes = self.variables.axes;
        match &self.implementation {
            Implementation::Pointwise => writeln!(f, "pointwise")?,
            Implementation::Update(update) => writeln!(f, "{}", update.text())?,
            Implementation::Pieces(pieces) => {
                writeln!(f, "pieces {{")?;
                pieces
                    .iter()
                    .try_for_each(|piece| writeln!(f, "        {}", indented(piece, 2)))?;
                writeln!(f, "    }}")?;
            }
            Implementation::Winograd(winograd) => writeln!(f, "{}", winograd.text(axes))?,
            Implementation::Product(product) => writeln!(f, "{}", product.text(axes))?,
            Implementation::Direct(direct) => writeln!(f, "{}", direct.text(axes))?,
            Implementation::Scatter(scatter) => writeln!(f, "{}", scatter.text(axes))?,
            Implementation::Running(running) => writeln!(f, "{}", running.text())?,
            Implementation::Reduction(reduction) => writeln!(f, "{}", reduction.text(axes, 1))?,
            Implementation::Attention(attention) => writeln!(f, "{}", attention.text())?,
        }
        writeln!(f, "    epilogue {}", indented(&self.epilogue, 1))?;
        for (number, output) in self.outputs.iter().enumerate() {
            writeln!(f, "    out{number} {}", output.text(axes))?;
        }
        writeln!(f, "}}")
    }
}

impl NativeOutput {
    fn text(&self, axes: usize) -> String {
        let position = match &self.position {
            Position::InOrder(shift) => format!("in order from [{}]", affine(shift, axes)),
            Position::Lines(lines) => format!("at [{}]", affine(&lines.expressions[0], axes)),
            Position::Rows(lines, rows) => {
                format!("rows {} at [{}]", space(rows), affine(&lines.expressions[0], axes))
            }
        };
        let over = self.over.map_or_else(String::new, |operand| format!(" over in{operand}"));
        format!("{position}: {}{over}", self.ty)
    }
}

impl Address {
    fn text(&self, axes: usize) -> String {
        format!(
            "in{}[{}]{}",
            self.operand,
            affine(&self.offset, axes),
            conditions(&self.conditions, axes)
        )
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Side { extent, stride, place, within, reversed } = self;
        write!(
            f,
            "{extent} stride {stride} place {place} within {} .. {}",
            within.start, within.end
        )?;
        f.write_str(&flag(*reversed, "reversed"))
    }
}

impl Winograd {
    fn text(&self, axes: usize) -> String {
        let lines = [
            format!(
                "winograd window {} tile {}{} {{",
                self.taps,
                self.tile,
                flag(self.packs, "packs")
            ),
            format!(
                "image {} from {} images {:?}",
                self.image.text(axes),
                self.origin,
                self.images
            ),
            format!("lines {}", self.lines),
            format!("pixels {}", self.pixels),
            format!("channels {} filters {} along {}", self.channels, self.filters, self.filter),
            format!("kernel {} terms {:?}", self.kernel.text(axes), self.terms),
        ];
        lines.join("\n        ") + "\n    }"
    }
}

impl Factor {
    fn text(&self, axes: usize) -> String {
        match self {
            Factor::Gathered { address, whole } => {
                format!("gathered {}{}", address.text(axes), flag(*whole, "whole"))
            }
            Factor::Computed { tape, guards } => {
                format!(
                    "computed{} by {}",
                    conditions(&guards.expressions, axes),
                    indented(tape, 2)
                )
            }
        }
    }
}

impl Product {
    fn text(&self, axes: usize) -> String {
        let Product { batch, rows, columns, terms, blocks, .. } = self;
        let mut lines = vec![
            format!("product {}{} {{", self.dtype, flag(self.packs, "packs")),
            format!(
                "blocks of {} terms {} columns {} rows finished {} window {}",
                blocks.terms,
                blocks.columns,
                blocks.rows,
                blocks.finished_bytes,
                blocks.window_bytes
            ),
            format!("batch {batch:?} rows {rows:?} columns {columns:?} terms {terms:?}"),
            format!("left {}", self.left.text(axes)),
            format!("right {}", self.right.text(axes)),
        ];
        if !self.guards.is_empty() {
            lines.push(format!("counts{}", conditions(&self.guards, axes)));
        }
        lines.join("\n        ") + "\n    }"
    }
}

impl Direct {
    fn text(&self, axes: usize) -> String {
        let rows = self.rows.map_or_else(String::new, |axis| format!(" rows along {axis}"));
        let mut lines =
            vec![format!("direct {}{rows} taps {} {{", self.form.name(), space(&self.taps))];
        lines.push(format!("x {}", self.x.text(axes)));
        lines.extend(self.w.as_ref().map(|w| format!("w {}", w.text(axes))));
        if !self.conditions.is_empty() {
            lines.push(format!("counts{}", conditions(&self.conditions, axes)));
        }
        lines.join("\n        ") + "\n    }"
    }
}

impl Reduction {
    /// Returns the text, whose lines after the first are indented by `depth` steps and more.
    fn text(&self, axes: usize, depth: usize) -> String {
        let order = if self.across { "across" } else { "along" };
        let mut lines = vec![
            format!("reduction {} {} {order} {{", self.aggregation.name(), self.dtype),
            format!("places {} points {}", space(&self.places), space(&self.points)),
        ];
        lines.extend(
            self.position.expressions.iter().map(|p| format!("position [{}]", affine(p, axes))),
        );
        lines.extend(self.rank.as_ref().map(|rank| format!("rank [{}]", affine(rank, axes))));
        if !self.guards.is_empty() {
            lines.push(conditions(&self.guards.expressions, axes).trim_start().to_owned());
        }
        lines.push(format!("body {}", indented(&self.body, 1)));
        indented(lines.join("\n    ") + "\n}", depth)
    }
}

impl Scatter {
    fn text(&self, axes: usize) -> String {
        let lines = [
            format!("scatter {} rows of {} {{", self.rows, self.row),
            format!("key {}", indented(&self.key, 2)),
            self.reduction.text(axes, 2),
        ];
        lines.join("\n        ") + "\n    }"
    }
}

impl Update {
    fn text(&self) -> String {
        format!("update rows of {} where {}", self.row, indented(&self.changes, 1))
    }
}

impl Running {
    fn text(&self) -> String {
        let Self { aggregation, dtype, axis, reversed, added, terms } = self;
        let lines = [
            format!(
                "running {} {dtype} along {axis}{} {{",
                aggregation.name(),
                flag(*reversed, "reversed")
            ),
            format!("added {} .. {}", added.start, added.end),
            format!("terms {}", indented(terms, 2)),
        ];
        lines.join("\n        ") + "\n    }"
    }
}

impl Attention {
    fn text(&self) -> String {
        let of_rows: Vec<&str> =
            self.of_rows.iter().map(|&of_rows| if of_rows { "rows" } else { "places" }).collect();
        let mut lines = vec![format!("attention [{}] {{", of_rows.join(", "))];
        lines.extend(self.blocks.iter().map(|block| indented(block, 2)));
        lines.join("\n        ") + "\n    }"
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of {:?} {}", self.operands, self.program)
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Block { stages, statistics, rows, turns, .. } = self;
        let shares = flag(self.shares_rights, "shares");
        writeln!(f, "block rows {rows} statistics {statistics} turns {turns:?}{shares} {{")?;
        writeln!(f, "    {}", indented(stages, 1))?;
        if let Some(Shorter { stages, choice, top, score }) = &self.shorter {
            writeln!(f, "    shorter {choice:?} top {top} score {score} {{")?;
            stages.iter().try_for_each(|stages| writeln!(f, "        {}", indented(stages, 2)))?;
            writeln!(f, "    }}")?;
        }
        writeln!(f, "}}")
    }
}

impl fmt::Display for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "stages area {} {{", self.area)?;
        for scores in &self.scores {
            writeln!(f, "    {}", indented(scores, 1))?;
        }
        writeln!(f, "    weights {}", indented(&self.weights, 1))?;
        writeln!(f, "    product {}", indented(&self.product, 1))?;
        writeln!(f, "}}")
    }
}
