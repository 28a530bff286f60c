//! Nests of attention, a block of rows at a time. Scores, weights and product of a block run one
//! after the other as plain nests. The tensors between them stay in the cache of the thread that
//! runs them.
//!
//! If a mask hides the last points of a block, shorter stages leave these out. A hidden point has
//! the weight exp(score - top), so it adds nothing if that is 0 and the right factor is finite
//! there. Both are checked; if they do not hold, the stages over all points run.

use super::memory::{Operand, Output, bytes, elements, scratch};
use super::prepared::{Packed, Prepared};
use super::threads::pool;
use std::ops::Range;
use std::sync::Arc;
use tile_compiler::native::{self, NativeProgram};

/// The tasks for each thread, if the turns of the outer loops do not divide evenly among threads.
const TASKS: usize = 4;

/// The bytes of a cache line.
const LINE: usize = 64;

/// A nest of attention, ready to run.
pub struct Attention {
    blocks: Vec<Block>,
    /// For each of the nest's outputs, whether it has one element for each row.
    of_rows: Vec<bool>,
}

/// The exponential of an f32 below this is 0.
const LEAST_EXPONENT: f32 = -104.0;

/// Blocks of one size.
struct Block {
    stages: Stages,
    statistics: usize,
    rows: usize,
    turns: Vec<usize>,
    shares_rights: bool,
    shorter: Option<Shorter>,
}

/// The stages of a block.
struct Stages {
    scores: Vec<Prepared>,
    weights: Prepared,
    product: Prepared,
    area: usize,
}

/// The stages of blocks whose last points are hidden.
struct Shorter {
    stages: Vec<Stages>,
    choice: Vec<usize>,
    hidden: Hidden,
}

/// The score of hidden points, and the number of the statistic that is the top.
#[derive(Clone, Copy)]
struct Hidden {
    score: f32,
    top: usize,
}

impl Stages {
    fn new(stages: &native::Stages) -> Self {
        let prepare = |stage: &NativeProgram| Prepared::new(Arc::new(stage.clone()));
        Self {
            scores: stages.scores.iter().map(prepare).collect(),
            weights: prepare(&stages.weights),
            product: prepare(&stages.product),
            area: stages.area,
        }
    }

    fn all(&self) -> impl Iterator<Item = &Prepared> {
        self.scores.iter().chain([&self.weights, &self.product])
    }
}

impl Shorter {
    fn new(shorter: &native::Shorter) -> Self {
        let native::Shorter { stages, choice, top, score } = shorter;
        Self {
            stages: stages.iter().map(Stages::new).collect(),
            choice: choice.clone(),
            hidden: Hidden { score: score.to_f64() as f32, top: *top },
        }
    }

    /// Returns the stages of a block, if they are not those over all points.
    fn stages(&self, block: usize) -> Option<&Stages> {
        self.stages.get(*self.choice.get(block)?)
    }
}

/// The right factors of a block's products, packed for several blocks.
struct Rights {
    scores: Vec<Option<Packed>>,
    product: Option<Packed>,
}

impl Attention {
    /// Prepares the stages.
    pub fn new(attention: &native::Attention) -> Self {
        let block = |block: &native::Block| Block {
            stages: Stages::new(&block.stages),
            statistics: block.statistics,
            rows: block.rows,
            turns: block.turns.clone(),
            shares_rights: block.shares_rights,
            shorter: block.shorter.as_ref().map(Shorter::new),
        };
        Self {
            blocks: attention.blocks.iter().map(block).collect(),
            of_rows: attention.of_rows.clone(),
        }
    }

    /// Returns the bytes that a run keeps at most: on each thread the scores and the weights of a
    /// block, and the right factors of its products.
    pub fn working_bytes(&self) -> u64 {
        let of_block = |block: &Block| {
            let Block { stages, statistics, rows, shorter, .. } = block;
            let area = bytes(&[stages.scores.len() + 1, stages.area], size_of::<f32>());
            let rows = bytes(&[*statistics, *rows], size_of::<f32>());
            let rights = stages.all().map(Prepared::packed_bytes);
            let working = |stages: &Stages| {
                let nested = stages.all().map(|stage| stage.working_bytes(false));
                nested.fold(0, u64::saturating_add)
            };
            let shorter = shorter.iter().flat_map(|shorter| &shorter.stages);
            let working = [stages].into_iter().chain(shorter).map(working).max().unwrap_or(0);
            rights.chain([rows, working]).fold(area, u64::saturating_add)
        };
        self.blocks.iter().map(of_block).max().unwrap_or(0).saturating_mul(pool::threads() as u64)
    }

    /// Computes every output, at these `steps` of the loops around the nest.
    ///
    /// # Safety
    /// The contract of [`Prepared::run`].
    pub unsafe fn run(&self, steps: &[usize], operands: &[Operand], outputs: &[Output]) {
        for block in &self.blocks {
            let Some((&blocks, outer)) = block.turns.split_last() else { continue };
            let (turns, threads) = (outer.iter().product::<usize>(), pool::threads());
            // Each task packs the right factors for itself.
            let parts = if turns.is_multiple_of(threads) {
                1
            } else {
                (TASKS * threads).div_ceil(turns).min(blocks)
            };
            let task = |task: usize| {
                let (mut turn, part) = (task / parts, task % parts);
                let mut own = vec![0; outer.len()];
                for (own, extent) in own.iter_mut().zip(outer).rev() {
                    (*own, turn) = (turn % extent, turn / extent);
                }
                let some = part * blocks / parts..(part + 1) * blocks / parts;
                // SAFETY: the contract is the same, and each task has its own blocks of rows.
                unsafe { self.run_blocks(block, &[steps, &own].concat(), some, operands, outputs) };
            };
            // If there are fewer tasks than threads, the threads share the tasks of each stage
            // instead.
            if turns * parts < threads {
                (0..turns * parts).for_each(task)
            } else {
                pool::run(turns * parts, task)
            }
        }
    }

    /// Runs some of the blocks, at these `steps` of the loops around them.
    ///
    /// # Safety
    /// - The contract of [`Prepared::run`].
    /// - Nobody else runs these blocks.
    unsafe fn run_blocks(
        &self,
        block: &Block,
        steps: &[usize],
        blocks: Range<usize>,
        operands: &[Operand],
        outputs: &[Output],
    ) {
        let Block { stages, shorter, .. } = block;
        let hides = |shorter: &Shorter| blocks.clone().any(|b| shorter.stages(b).is_some());
        let shorter = shorter.as_ref().filter(|shorter| block.shares_rights && hides(shorter));
        let shared = block.shares_rights && (blocks.len() > 1 || shorter.is_some());
        let pack = |stage: &Prepared| {
            // An operand that another stage writes changes from block to block.
            let is_shared = shared && stage.right().iter().all(|operand| *operand < operands.len());
            if is_shared { stage.pack_at(&[steps, &[0]].concat(), operands, None) } else { None }
        };
        let rights = Rights {
            scores: stages.scores.iter().map(pack).collect(),
            product: pack(&stages.product),
        };
        // 0 times an infinite value is NaN.
        let is_finite = |right: &Packed| right.is_finite();
        let mut shorter = shorter.filter(|_| rights.product.as_ref().is_some_and(is_finite));
        for number in blocks {
            let steps = [steps, &[number]].concat();
            let run = |stages: &Stages, hidden: Option<Hidden>| {
                // SAFETY: the contract is the same.
                unsafe { self.run_block(block, stages, hidden, &steps, &rights, operands, outputs) }
            };
            let few = shorter.and_then(|s| s.stages(number).map(|stages| (stages, s.hidden)));
            let is_done = few.is_some_and(|(stages, hidden)| run(stages, Some(hidden)));
            if !is_done {
                if few.is_some() {
                    // The mask does not hide enough: so it will be in the next blocks.
                    shorter = None;
                }
                run(stages, None);
            }
        }
    }

    /// Runs the `stages` of one block, which may leave out `hidden` points. Returns false, with the
    /// product not computed, if one of these may have a weight.
    ///
    /// # Safety
    /// The contract of [`Attention::run_blocks`].
    #[expect(clippy::too_many_arguments, reason = "a block, its stages, and what they read")]
    unsafe fn run_block(
        &self,
        block: &Block,
        stages: &Stages,
        hidden: Option<Hidden>,
        steps: &[usize],
        rights: &Rights,
        operands: &[Operand],
        outputs: &[Output],
    ) -> bool {
        let Stages { scores, weights, product, area } = stages;
        // Each buffer starts on a cache line, so that no two threads write one line.
        let [area, rows] =
            [*area, block.rows].map(|count| (count * size_of::<f32>()).next_multiple_of(LINE));
        let (of_rows, others): (Vec<usize>, Vec<usize>) =
            (0..outputs.len()).partition(|&output| self.of_rows[output]);
        let size = (scores.len() + 1) * area + block.statistics * rows;
        scratch::with(size, |memory: &mut [u8]| {
            let (of_scores, of_weights) = memory.split_at_mut(scores.len() * area);
            for ((stage, memory), right) in
                scores.iter().zip(of_scores.chunks_exact_mut(area)).zip(&rights.scores)
            {
                // SAFETY: the stage writes memory of this block alone.
                unsafe { stage.run(steps, operands, right.as_ref(), &[Output::new(memory, 0)]) };
            }
            let mut read = operands.to_vec();
            read.extend(of_scores.chunks_exact(area).map(Operand::from));
            let (factor, of_statistics) = of_weights.split_at_mut(area);
            let own = [factor].into_iter().chain(of_statistics.chunks_exact_mut(rows));
            let mut written: Vec<Output> = own.map(|memory| Output::new(memory, 0)).collect();
            written.extend(of_rows.iter().map(|&output| outputs[output].clone()));
            // SAFETY: the stage writes memory of this block alone, and the rows of outputs that
            // belong to it.
            unsafe { weights.run(steps, &read, None, &written) };
            drop(written);

            let (factor, of_statistics) = of_weights.split_at(area);
            if let Some(Hidden { score, top }) = hidden {
                let tops = elements::<f32>(&of_statistics[top * rows..]);
                if !tops[..block.rows].iter().all(|top| score - top < LEAST_EXPONENT) {
                    return false;
                }
            }
            read.truncate(operands.len());
            read.push(Operand::from(factor));
            read.extend(of_statistics.chunks_exact(rows).map(Operand::from));
            let written: Vec<Output> =
                others.iter().map(|&output| outputs[output].clone()).collect();
            // SAFETY: the stage writes the rows of outputs that belong to this block.
            unsafe { product.run(steps, &read, rights.product.as_ref(), &written) };
            true
        })
    }
}
