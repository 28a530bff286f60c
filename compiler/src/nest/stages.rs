//! Divides an attention nest into three kinds of plain nests, for a device that runs them one after
//! the other on a block of rows whose scores stay in its cache.
//!
//! Example: `Y[h, t, e]` with scores over h, t and s, in blocks of 256 rows, has the stages scores
//! `[256, s] sum [d]`, weights `[256] columns [s]` with their statistics, and product
//! `[256, e] sum [s]`. Each runs in loops over h and the blocks of t.
//!
//! The nest is cut first: the outer row axes become loops, and the next axis runs over a block. The
//! rest of the nest is then computed in stages.
//!
//! If a [mask](super::mask) hides the last points of a block's rows, the block has stages over the
//! other points. A device uses them where the hidden points are known to add nothing, which it
//! checks by the rows' tops.
//!
//! Why it is sound: a cut only renames places, and each stage computes a part of the nest's
//! programs at the same axes.

use crate::affine::Affine;
use crate::dtype::{DType, Scalar};
use crate::graph::Aggregation;
use crate::scalar::{BinaryOp, Inst, Program, Value};
use crate::tensor::TensorType;

use super::attention::{Attention, needed, only_needed};
use super::mask::Mask;
use super::simplify::{change_program, programs, simplify};
use super::{Axis, Inner, Leaf, Load, Nest, Output};

/// The stages of a block. Their operands are those of the nest, followed by those listed here.
#[derive(Clone, Debug, PartialEq)]
pub struct Stages {
    /// One nest for each inner sum. It writes its scores as f32, in row-major order of the block's
    /// rows and points.
    pub scores: Vec<Nest>,
    /// Reads the scores. It writes the left factor as f32 in the same order, then the statistics
    /// that `product` reads (one f32 a row), then the outputs of the nest with one element a row.
    pub weights: Nest,
    /// Reads the left factor and the statistics, and writes the other outputs of the nest.
    pub product: Nest,
    /// The number of rows times the number of points.
    pub area: usize,
}

/// Blocks of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocks {
    /// The stages of each block, over all points.
    pub stages: Stages,
    /// Number of statistics that the product has as operands.
    pub statistics: usize,
    /// Number of rows of a block.
    pub rows: usize,
    /// Trip counts of the loops around the stages, except those around the nest: outermost first,
    /// the loop over the blocks last.
    pub turns: Vec<usize>,
    /// True if blocks divide row axes only, not batch axes. The blocks of one turn of the outer
    /// loops then share their right factors.
    pub of_rows: bool,
    /// The stages of blocks whose last points are hidden by a mask.
    pub shorter: Option<Shorter>,
}

/// Stages over the first points only, for blocks whose other points a mask hides. They compute the
/// same if exp(score - top) is 0 for every row of the block.
#[derive(Clone, Debug, PartialEq)]
pub struct Shorter {
    /// The stages, by ascending number of points.
    pub stages: Vec<Stages>,
    /// For each block the number of its stages. `stages.len()` stands for those over all points.
    pub choice: Vec<usize>,
    /// The statistic that is the top.
    pub top: usize,
    /// The score of hidden points, an f32.
    pub score: Scalar,
}

/// The most numbers of points for which there are stages, besides that of all points. Blocks have
/// at most that part of an axis of rows.
const MOST_SHORTER: usize = 8;

/// The fewest rows of a block with a mask. Smaller blocks hide more points, but are slower.
const LEAST_MASKED: usize = 64;

/// Rows for which the stages are computed in blocks: one batch or row axis is cut, and the axes
/// before it become loops.
struct Cut<'a> {
    outer: &'a [usize],
    axis: usize,
    /// First value of the axis.
    start: usize,
    /// Number of values of the axis in each block.
    size: usize,
    blocks: usize,
}

impl Nest {
    /// Returns the stages of an attention nest in blocks of about `most` scores: those of the equal
    /// blocks, then those of the remainder. Returns `None` if the nest is not attention or index
    /// arithmetic overflows 64 bits.
    pub fn stages(&self, most: usize) -> Option<Vec<Blocks>> {
        let attention = self.attention()?;
        let mask = self.mask(&attention);
        let roles = attention.roles;
        let order = [&roles.batch[..], &roles.rows].concat();
        let extent = |axis: usize| self.axes[axis].extent;
        let is_masked = |axis: usize| {
            let mentions = |mask: &Mask| mask.condition.coefficient(axis) != 0;
            extent(axis) >= 2 * LEAST_MASKED
                && roles.rows.contains(&axis)
                && mask.as_ref().is_some_and(mentions)
        };
        let mut number = order.len() - 1;
        let mut inner = self.reduction_points();
        while number > 0
            && !is_masked(order[number])
            && inner.saturating_mul(extent(order[number])) <= most
        {
            inner *= extent(order[number]);
            number -= 1;
        }
        let axis = order[number];
        let mut size = (most / inner.max(1)).clamp(1, extent(axis));
        if is_masked(axis) {
            size = size.min((extent(axis) / MOST_SHORTER).max(LEAST_MASKED));
        }
        // A block of few rows would be slow, so the blocks are as equal as possible.
        let size = extent(axis).div_ceil(extent(axis).div_ceil(size));
        let (blocks, rest) = (extent(axis) / size, extent(axis) % size);
        let cut = Cut { outer: &order[..number], axis, start: 0, size, blocks };
        let of_rows = roles.rows.contains(&axis);
        let mask = mask.as_ref().filter(|_| is_masked(axis));
        let mut all = vec![self.blocks(&cut, of_rows, mask)?];
        if rest > 0 {
            let rest = Cut { start: blocks * size, size: rest, blocks: 1, ..cut };
            all.push(self.blocks(&rest, of_rows, mask)?);
        }
        Some(all)
    }

    /// Returns the blocks of a part of the nest's rows.
    fn blocks(&self, cut: &Cut, of_rows: bool, mask: Option<&Mask>) -> Option<Blocks> {
        let nest = self.cut(cut)?;
        let Attention { roles, top, .. } = nest.attention()?;
        let of_places: Vec<usize> =
            (0..nest.outputs.len()).filter(|&output| !nest.is_of_rows(output)).collect();
        let mut statistics = nest.statistics_of(&of_places);
        let shorter = mask.zip(top).and_then(|(mask, top)| {
            // Also the top is a statistic, for the check.
            let mut checked = statistics.clone();
            let place = statistics.iter().position(|&known| known == top).unwrap_or_else(|| {
                checked.push(top);
                statistics.len()
            });
            let shorter = self.shorter(cut, &nest, &checked, (place, mask))?;
            statistics = checked;
            Some(shorter)
        });
        let rows = nest.points(roles.batch.iter().chain(&roles.rows));
        let turns = nest.axes[nest.loops()][self.loops..].iter().map(|axis| axis.extent).collect();
        let stages = nest.in_stages(&statistics)?;
        let statistics = statistics.len();
        Some(Blocks { stages, statistics, rows, turns, of_rows, shorter })
    }

    /// Returns the stages of the blocks of a `cut` whose last points are hidden, if there are any.
    /// `nest` is a block, and `top` the number of the top among the statistics.
    fn shorter(
        &self,
        cut: &Cut,
        nest: &Nest,
        statistics: &[Value],
        (top, mask): (usize, &Mask),
    ) -> Option<Shorter> {
        let (here, point) = (self.reduction().start, nest.reduction().start);
        let all = self.axes[here].extent;
        let mut bounds = self.variable_bounds();
        let mut reach = Vec::with_capacity(cut.blocks);
        for block in 0..cut.blocks {
            let first = (cut.start + block * cut.size) as i64;
            bounds[cut.axis] = (first, first + cut.size as i64 - 1);
            // A row without any point is left to the stages over all points.
            reach.push(mask.reach(here, &bounds).filter(|&points| points > 0).unwrap_or(all));
        }
        let lengths = |unit: usize| {
            let rounded = reach.iter().map(|points| points.next_multiple_of(unit));
            let mut lengths: Vec<usize> = rounded.filter(|&points| points < all).collect();
            lengths.sort_unstable();
            lengths.dedup();
            lengths
        };
        let mut points = lengths(1);
        if points.len() > MOST_SHORTER {
            points = lengths(all.div_ceil(MOST_SHORTER));
        }
        let stages = points.iter().map(|&points| {
            let mut nest = nest.clone();
            nest.axes[point].extent = points;
            nest.in_stages(statistics)
        });
        let stages = stages.collect::<Option<Vec<Stages>>>()?;
        let choice = reach.iter().map(|&least| points.partition_point(|&points| points < least));
        let (choice, score) = (choice.collect(), mask.score);
        (!stages.is_empty()).then_some(Shorter { stages, choice, top, score })
    }

    /// Returns a part of the nest's rows, with loops around it for the outer axes and the blocks.
    fn cut(&self, cut: &Cut) -> Option<Nest> {
        let outer = cut.outer.len();
        let own = (0..self.loops().start).filter(|axis| !cut.outer.contains(axis));
        let order: Vec<usize> = own.chain(self.loops()).chain(cut.outer.iter().copied()).collect();
        let mut nest = self.clone();
        nest.free -= outer;
        nest.rows -= cut.outer.iter().filter(|axis| **axis < self.rows).count();
        nest.loops += outer + 1;
        for inner in &mut nest.inner {
            inner.axes = inner.axes.start - outer..inner.axes.end - outer;
        }
        nest.axes = order.iter().map(|&axis| self.axes[axis].clone()).collect();
        nest.axes.push(Axis { name: "block".into(), extent: cut.blocks });
        let mut now = self.now(&order);
        let block = Affine::new([(order.len(), cut.size as i64)], cut.start as i64)?;
        now[cut.axis] = now[cut.axis].add(&block)?;
        let here = order.iter().position(|&axis| axis == cut.axis)?;
        nest.axes[here].extent = cut.size;
        substitute(&mut nest, &now)?;
        Some(nest)
    }

    /// Returns the stages of all rows of a nest that has been cut. The product has these
    /// `statistics` of the body as operands.
    fn in_stages(&self, statistics: &[Value]) -> Option<Stages> {
        let roles = self.attention()?.roles;
        let points: Vec<usize> = self.reduction().collect();
        let row_axes = [&roles.batch[..], &roles.rows].concat();
        let of_scores = [&row_axes[..], &points].concat();
        let (row, place) =
            (self.row_major(row_axes.iter().copied())?, self.row_major(of_scores.iter().copied())?);
        let rows = self.points(&row_axes);
        let area = self.points(&of_scores);
        let count = self.operands.len();
        let [of_area, of_row] =
            [area, rows].map(|elements| TensorType::new(DType::F32, [elements].as_slice()));
        let output = |ty: &TensorType, position: &Affine| Output {
            ty: ty.clone(),
            position: position.clone(),
            over: None,
        };
        let load = |operand: usize, offset: &Affine| {
            let (dynamic, when) = (Vec::new(), Vec::new());
            Inst::Leaf(Leaf::Load(Load { operand, offset: offset.clone(), dynamic, when }))
        };

        let scores = self.inner.iter().map(|Inner { axes, body }| {
            let mut nest = self.bare("scores", Some(Aggregation::Sum));
            nest.body = body.clone();
            let sum = nest.epilogue.push(Inst::Leaf(Leaf::Accumulator), DType::F32);
            nest.epilogue.results = vec![sum];
            nest.outputs = vec![output(&of_area, &place)];
            self.part(nest, &of_scores, of_scores.len(), &axes.clone().collect::<Vec<usize>>())
        });
        let scores = scores.collect::<Option<Vec<_>>>()?;

        let (of_row_outputs, others): (Vec<usize>, Vec<usize>) =
            (0..self.outputs.len()).partition(|&output| self.is_of_rows(output));
        let outputs = |numbers: &[usize]| {
            numbers.iter().map(|&output| self.outputs[output].clone()).collect::<Vec<_>>()
        };
        let mut nest = self.bare("weights", None);
        nest.operands.extend(self.inner.iter().map(|_| of_area.clone()));
        let mut weights = self.body.clone();
        for (inst, _) in &mut weights.insts {
            if let Inst::Leaf(Leaf::Inner(number)) = inst {
                *inst = load(count + *number, &place);
            }
        }
        let here =
            weights.append(&self.epilogue_of(&of_row_outputs), |weights, leaf, dtype| match leaf {
                Leaf::OfBody(value) => *value,
                leaf => weights.push(Inst::Leaf(leaf.clone()), dtype),
            });
        weights.results = [&[roles.left][..], statistics, &here].concat();
        nest.epilogue = weights;
        nest.outputs = vec![output(&of_area, &place)];
        nest.outputs.extend(statistics.iter().map(|_| output(&of_row, &row)));
        nest.outputs.extend(outputs(&of_row_outputs));
        let weights = self.part(nest, &of_scores, row_axes.len(), &[])?;

        let mut nest = self.bare("product", Some(Aggregation::Sum));
        nest.operands.push(of_area);
        nest.operands.extend(statistics.iter().map(|_| of_row.clone()));
        nest.body = self.body.clone();
        let left = nest.body.push(load(count, &place), DType::F32);
        nest.body.results = vec![nest.body.binary(BinaryOp::Mul, left, roles.right)];
        nest.epilogue = self.epilogue_of(&others);
        for (inst, _) in &mut nest.epilogue.insts {
            if let Inst::Leaf(Leaf::OfBody(statistic)) = inst {
                let number = statistics.iter().position(|known| known == statistic)?;
                *inst = load(count + 1 + number, &row);
            }
        }
        nest.outputs = outputs(&others);
        let free: Vec<usize> = (0..self.free).collect();
        let product = self.part(nest, &free, free.len(), &points)?;
        Some(Stages { scores, weights, product, area })
    }

    /// Returns the statistics of the body that some outputs read.
    fn statistics_of(&self, outputs: &[usize]) -> Vec<Value> {
        let of_body = |value: Value| match self.epilogue.insts[value].0 {
            Inst::Leaf(Leaf::OfBody(statistic)) => Some(statistic),
            _ => None,
        };
        let read = outputs
            .iter()
            .flat_map(|&output| needed(&self.epilogue, self.epilogue.results[output]));
        let mut statistics: Vec<Value> = read.filter_map(of_body).collect();
        statistics.sort_unstable();
        statistics.dedup();
        statistics
    }

    /// Returns the epilogue of some outputs.
    fn epilogue_of(&self, outputs: &[usize]) -> Program<Leaf> {
        let results = outputs.iter().map(|&output| self.epilogue.results[output]).collect();
        only_needed(&Program { insts: self.epilogue.insts.clone(), results }, &[]).0
    }

    /// Returns a nest with the same axes and operands that computes nothing yet.
    fn bare(&self, name: &str, aggregation: Option<Aggregation>) -> Nest {
        Nest {
            name: name.into(),
            aggregation,
            body: Program::default(),
            inner: Vec::new(),
            epilogue: Program::default(),
            outputs: Vec::new(),
            ..self.clone()
        }
    }

    /// Returns a stage: `nest`, whose expressions use the axes of `self`, over the axes `free` (the
    /// first `rows` of them are row axes) and `reduction`.
    fn part(
        &self,
        mut nest: Nest,
        free: &[usize],
        rows: usize,
        reduction: &[usize],
    ) -> Option<Nest> {
        let order: Vec<usize> = free.iter().chain(reduction).copied().chain(self.loops()).collect();
        nest.axes = order.iter().map(|&axis| self.axes[axis].clone()).collect();
        (nest.free, nest.rows) = (free.len(), rows);
        for program in [&mut nest.body, &mut nest.epilogue] {
            *program = only_needed(program, &[]).0;
        }
        substitute(&mut nest, &self.now(&order))?;
        simplify(nest)
    }

    /// Returns the new variable of each axis when they are numbered in this order. An axis that is
    /// not in `order`, on which nothing depends, becomes 0.
    fn now(&self, order: &[usize]) -> Vec<Affine> {
        let place = |axis: usize| order.iter().position(|&other| other == axis);
        (0..self.axes.len())
            .map(|axis| place(axis).map_or(Affine::constant(0), Affine::var))
            .collect()
    }
}

/// Replaces the axes by these expressions.
fn substitute(nest: &mut Nest, values: &[Affine]) -> Option<()> {
    let change = |affine: &mut Affine| -> Option<()> {
        *affine = affine.substitute_all(values)?;
        Some(())
    };
    nest.outputs.iter_mut().map(|output| &mut output.position).try_for_each(change)?;
    programs(nest).try_for_each(|program| change_program(program, change))
}
