//! A nest of attention as three kinds of plain nests, for a device that runs them one after the other on a block of rows whose scores
//! stay in its cache.
//!
//! Example: of `Y[h, t, e]` with scores of h, t and s, in blocks of 256 rows: scores `[256, s] sum [d]`, weights `[256] columns [s]` with
//! their statistics, product `[256, e] sum [s]`, each in loops over h and the blocks of t.
//!
//! Why it is sound: each computes a part of the nest's programs at the same axes; an axis that is cut in blocks of a size becomes
//! `size * block + axis + start`.

use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::Aggregation;
use crate::scalar::{Inst, Program, Value};
use crate::tensor::TensorType;

use super::simplify::{programs, simplify};
use super::{Attention, Axis, Inner, Leaf, Load, Nest, Output};

/// The stages of a block: their operands are the nest's, then those said here.
#[derive(Clone, Debug, PartialEq)]
pub struct Stages {
    /// The inner sums. Each gives its scores, f32, in order of the block's rows and points.
    pub scores: Vec<Nest>,
    /// Reads the scores. Gives the left factor in the same order, f32, then the statistics that `product` reads, an f32 for each row, then the
    /// nest's outputs of rows.
    pub weights: Nest,
    /// Reads what `weights` gives but for the outputs of rows, and gives the nest's other outputs.
    pub product: Nest,
    /// How many statistics the product reads.
    pub statistics: usize,
    /// Rows of the block, all its points, and rows times points.
    pub rows: usize,
    pub area: usize,
    /// The turns of the loops that the stages are in, besides those around the nest: outermost first.
    pub turns: Vec<usize>,
}

/// Which part of the rows the stages compute: the axes of batch and rows, outermost first, are loops up to the one that is cut, from
/// which on they are whole.
struct Cut<'a> {
    outer: &'a [usize],
    axis: usize,
    kept: &'a [usize],
    start: usize,
    size: usize,
    blocks: usize,
}

impl Nest {
    /// The stages of a nest of attention in blocks of about `most` scores: those of equal blocks, and those of what is left over.
    /// `None`: index arithmetic left the range of 64 bits.
    pub fn stages(&self, parts: &Attention, most: usize) -> Option<Vec<Stages>> {
        let order = [&parts.roles.batch[..], &parts.roles.rows].concat();
        let extent = |axis: usize| self.axes[axis].extent;
        let mut number = order.len() - 1;
        let mut inner = self.reduction_points();
        while number > 0 && inner.saturating_mul(extent(order[number])) <= most {
            inner *= extent(order[number]);
            number -= 1;
        }
        let axis = order[number];
        let size = (most / inner.max(1)).clamp(1, extent(axis));
        // A block of few rows would be slow: where not all are equal, the blocks are as equal as can be.
        let size = extent(axis).div_ceil(extent(axis).div_ceil(size));
        let (blocks, rest) = (extent(axis) / size, extent(axis) % size);
        let cut = Cut { outer: &order[..number], axis, kept: &order[number..], start: 0, size, blocks };
        let mut all = vec![self.block(parts, &cut)?];
        if rest > 0 {
            let start = blocks * size;
            all.push(self.block(parts, &Cut { start, size: rest, blocks: 1, ..cut })?);
        }
        Some(all)
    }

    fn block(&self, parts: &Attention, cut: &Cut) -> Option<Stages> {
        let roles = &parts.roles;
        let points: Vec<usize> = self.reduction().collect();
        let kept = |axes: &[usize]| axes.iter().copied().filter(|axis| cut.kept.contains(axis)).collect::<Vec<usize>>();
        let of_rows = [kept(&roles.batch), kept(&roles.rows)].concat();
        let of_scores = [&of_rows[..], &points].concat();
        let extent = |axis: &usize| if *axis == cut.axis { cut.size } else { self.axes[*axis].extent };
        let rows: usize = of_rows.iter().map(extent).product();
        let area = rows * self.reduction_points();
        let count = self.operands.len();
        let [of_area, of_row] = [area, rows].map(|elements| TensorType::new(DType::F32, [elements].as_slice()));

        let mut scores = Vec::new();
        for Inner { axes, body } in &self.inner {
            let mut epilogue = Program::default();
            epilogue.results = vec![epilogue.push(Inst::Leaf(Leaf::Accumulator), DType::F32)];
            let axes: Vec<usize> = axes.clone().collect();
            let nest =
                Nest { name: "scores".into(), body: body.clone(), epilogue, ..self.bare(Some(Aggregation::Sum)) };
            scores.push(self.part(nest, cut, &of_scores, of_scores.len(), &axes, vec![of_area.clone()])?);
        }

        let of_place = |axes: &[usize]| {
            let mut stride = 1i64;
            let mut terms = Vec::new();
            for axis in axes.iter().rev() {
                terms.push((*axis, stride));
                stride = stride.checked_mul(i64::try_from(extent(axis)).ok()?)?;
            }
            Affine::new(terms, 0)
        };
        // Of the cut axis' own variable, not of what it stands for.
        let (place, row) = (of_place(&of_scores)?, of_place(&of_rows)?);
        let load = |operand: usize, offset: &Affine| {
            Inst::Leaf(Leaf::Load(Load { operand, offset: offset.clone(), dynamic: Vec::new(), when: Vec::new() }))
        };
        let mut weights = self.body.clone();
        for (inst, _) in &mut weights.insts {
            if let Inst::Leaf(Leaf::Inner(number)) = inst {
                *inst = load(count + *number, &place);
            }
        }
        let (outputs_of_rows, outputs): (Vec<usize>, Vec<usize>) =
            (0..self.outputs.len()).partition(|&output| self.is_of_rows(output));
        let read = |results: &[usize]| {
            let results = results.iter().map(|&output| self.epilogue.results[output]);
            let mut statistics: Vec<Value> = results
                .flat_map(|result| super::attention::needed(&self.epilogue, result))
                .filter_map(|v| match self.epilogue.insts[v].0 {
                    Inst::Leaf(Leaf::OfBody(statistic)) => Some(statistic),
                    _ => None,
                })
                .collect();
            statistics.sort_unstable();
            statistics.dedup();
            statistics
        };
        let statistics = read(&outputs);
        let of_body = weights.insts.len();
        let here = weights.append(&self.epilogue_of(&outputs_of_rows), |weights, leaf, dtype| match leaf {
            Leaf::OfBody(value) => {
                debug_assert!(*value < of_body);
                *value
            }
            leaf => weights.push(Inst::Leaf(leaf.clone()), dtype),
        });
        weights.results = [&[roles.left][..], &statistics, &here].concat();
        let mut results = vec![of_area.clone()];
        results.extend(statistics.iter().map(|_| of_row.clone()));
        let mut nest = Nest { name: "weights".into(), epilogue: weights, ..self.bare(None) };
        nest.operands.extend(self.inner.iter().map(|_| of_area.clone()));
        nest.outputs = outputs_of_rows.iter().map(|&output| self.outputs[output].clone()).collect();
        let weights = self.part(nest, cut, &of_scores, of_rows.len(), &[], results)?;

        let mut body = self.body.clone();
        let left = body.push(load(count, &place), DType::F32);
        let product = body.binary(crate::scalar::BinaryOp::Mul, left, roles.right);
        body.results = vec![product];
        let mut epilogue = self.epilogue_of(&outputs);
        for (inst, _) in &mut epilogue.insts {
            if let Inst::Leaf(Leaf::OfBody(statistic)) = inst {
                let number = statistics.iter().position(|known| known == statistic)?;
                *inst = load(count + 1 + number, &row);
            }
        }
        let mut nest = Nest { name: "product".into(), body, epilogue, ..self.bare(Some(Aggregation::Sum)) };
        nest.operands.push(of_area);
        nest.operands.extend(statistics.iter().map(|_| of_row.clone()));
        nest.outputs = outputs.iter().map(|&output| self.outputs[output].clone()).collect();
        let free: Vec<usize> =
            (0..self.free).filter(|axis| of_rows.contains(axis) || roles.columns.contains(axis)).collect();
        let product = self.part(nest, cut, &free, free.len(), &points, Vec::new())?;
        let turns = cut.outer.iter().map(|&axis| self.axes[axis].extent).chain([cut.blocks]).collect();
        Some(Stages { scores, weights, product, statistics: statistics.len(), rows, area, turns })
    }

    /// The epilogue of some outputs.
    fn epilogue_of(&self, outputs: &[usize]) -> Program<Leaf> {
        let results = outputs.iter().map(|&output| self.epilogue.results[output]).collect();
        super::attention::only_needed(&Program { insts: self.epilogue.insts.clone(), results }, &[]).0
    }

    /// A nest of these operands that computes nothing yet.
    fn bare(&self, aggregation: Option<Aggregation>) -> Nest {
        Nest {
            name: String::new(),
            axes: Vec::new(),
            free: 0,
            rows: 0,
            loops: 0,
            derived: Vec::new(),
            guards: Vec::new(),
            operands: self.operands.clone(),
            aggregation,
            position: None,
            body: Program::default(),
            inner: Vec::new(),
            epilogue: Program::default(),
            outputs: Vec::new(),
        }
    }

    /// A stage: `nest`, whose expressions are of this nest's axes, over the axes `free`, of which `rows` number rows, and `reduction`,
    /// with outputs of the block's places or rows, in order, before its own.
    fn part(
        &self,
        mut nest: Nest,
        cut: &Cut,
        free: &[usize],
        rows: usize,
        reduction: &[usize],
        results: Vec<TensorType>,
    ) -> Option<Nest> {
        let own = free.len() + reduction.len();
        let around: Vec<usize> = self.loops().chain(cut.outer.iter().copied()).collect();
        let mut axes: Vec<Axis> =
            free.iter().chain(reduction).chain(&around).map(|&axis| self.axes[axis].clone()).collect();
        axes.push(Axis { name: "block".into(), extent: cut.blocks });
        // What the axes are now; in what the block reads and writes of its own, the cut one is its own variable alone.
        let now = |whole: bool| {
            let of = |axis: usize| -> Option<Affine> {
                if let Some(at) = around.iter().position(|&other| other == axis) {
                    return Some(Affine::var(own + at));
                }
                let Some(at) = free.iter().chain(reduction).position(|&other| other == axis) else {
                    return Some(Affine::constant(0));
                };
                match axis == cut.axis && whole {
                    true => Affine::new([(at, 1), (own + around.len(), cut.size as i64)], cut.start as i64),
                    false => Some(Affine::var(at)),
                }
            };
            (0..self.axes.len()).map(of).collect::<Option<Vec<Affine>>>()
        };
        let (whole, within) = (now(true)?, now(false)?);
        if let Some(at) = free.iter().position(|&axis| axis == cut.axis) {
            axes[at].extent = cut.size;
        }
        for program in programs(&mut nest) {
            for (inst, _) in &mut program.insts {
                if let Inst::Leaf(Leaf::Load(load)) = inst {
                    let is_own = load.operand >= self.operands.len();
                    load.offset = load.offset.substitute_all(if is_own { &within } else { &whole })?;
                    for when in &mut load.when {
                        *when = when.substitute_all(&whole)?;
                    }
                }
            }
            for (inst, _) in &mut program.insts {
                if let Inst::Leaf(Leaf::Index(affine)) = inst {
                    *affine = affine.substitute_all(&whole)?;
                }
            }
        }
        for output in &mut nest.outputs {
            output.position = output.position.substitute_all(&whole)?;
        }
        nest.axes = axes;
        (nest.free, nest.rows, nest.loops) = (free.len(), rows, around.len() + 1);
        let place = nest.place();
        let columns = nest.points(rows..free.len());
        let of_row = place.sub(&(rows..free.len()).try_fold(Affine::constant(0), |sum, axis| {
            sum.add(&Affine::var(axis).scale(place.coefficient(axis))?)
        })?)?;
        let own = results.into_iter().map(|ty| {
            let is_of_rows = rows < free.len() && ty.elements() * columns == nest.places();
            let position = if is_of_rows { quotient(&of_row, columns)? } else { place.clone() };
            Some(Output { ty, position, over: None })
        });
        let own = own.collect::<Option<Vec<Output>>>()?;
        nest.outputs.splice(0..0, own);
        for program in [&mut nest.body, &mut nest.epilogue] {
            *program = super::attention::only_needed(program, &[]).0;
        }
        simplify(nest)
    }
}

/// The quotient of an expression whose coefficients are all multiples of the divisor.
fn quotient(affine: &Affine, divisor: usize) -> Option<Affine> {
    let divisor = i64::try_from(divisor).ok()?;
    Affine::new(affine.terms().iter().map(|&(variable, coefficient)| (variable, coefficient / divisor)), 0)
}
