//! Nests of attention, a block of rows at a time. Scores, weights and product of a block run one
//! after the other as plain nests. The tensors between them stay in the cache of the thread that
//! runs them.

use super::memory::{Operand, Output, bytes, scratch};
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

/// The stages of blocks of one size.
struct Block {
    scores: Vec<Prepared>,
    weights: Prepared,
    product: Prepared,
    statistics: usize,
    rows: usize,
    area: usize,
    turns: Vec<usize>,
    shares_rights: bool,
}

/// The right factors of a block's products, packed for several blocks.
struct Rights {
    scores: Vec<Option<Packed>>,
    product: Option<Packed>,
}

impl Attention {
    /// Prepares the stages.
    pub fn new(attention: &native::Attention) -> Self {
        let prepare = |stage: &NativeProgram| Prepared::new(Arc::new(stage.clone()));
        let block = |block: &native::Block| Block {
            scores: block.scores.iter().map(prepare).collect(),
            weights: prepare(&block.weights),
            product: prepare(&block.product),
            statistics: block.statistics,
            rows: block.rows,
            area: block.area,
            turns: block.turns.clone(),
            shares_rights: block.shares_rights,
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
            let Block { scores, weights, product, .. } = block;
            let area = bytes(&[scores.len() + 1, block.area], size_of::<f32>());
            let rows = bytes(&[block.statistics, block.rows], size_of::<f32>());
            let stages = scores.iter().chain([weights, product]);
            let nested =
                stages.map(|stage| stage.packed_bytes().saturating_add(stage.working_bytes(false)));
            nested.fold(area.saturating_add(rows), u64::saturating_add)
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
        let shared = block.shares_rights && blocks.len() > 1;
        let pack = |stage: &Prepared| {
            // An operand that another stage writes changes from block to block.
            let is_shared = shared && stage.right().iter().all(|operand| *operand < operands.len());
            if is_shared { stage.pack_at(&[steps, &[0]].concat(), operands, None) } else { None }
        };
        let rights = Rights {
            scores: block.scores.iter().map(pack).collect(),
            product: pack(&block.product),
        };
        for number in blocks {
            // SAFETY: the contract is the same.
            unsafe {
                self.run_block(block, &[steps, &[number]].concat(), &rights, operands, outputs)
            };
        }
    }

    /// Runs one block.
    ///
    /// # Safety
    /// The contract of [`Attention::run_blocks`].
    unsafe fn run_block(
        &self,
        block: &Block,
        steps: &[usize],
        rights: &Rights,
        operands: &[Operand],
        outputs: &[Output],
    ) {
        let Block { scores, weights, product, statistics, .. } = block;
        // Each buffer starts on a cache line, so that no two threads write one line.
        let [area, rows] =
            [block.area, block.rows].map(|count| (count * size_of::<f32>()).next_multiple_of(LINE));
        let (of_rows, others): (Vec<usize>, Vec<usize>) =
            (0..outputs.len()).partition(|&output| self.of_rows[output]);
        scratch::with((scores.len() + 1) * area + statistics * rows, |memory: &mut [u8]| {
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
            read.truncate(operands.len());
            read.push(Operand::from(factor));
            read.extend(of_statistics.chunks_exact(rows).map(Operand::from));
            let written: Vec<Output> =
                others.iter().map(|&output| outputs[output].clone()).collect();
            // SAFETY: the stage writes the rows of outputs that belong to this block.
            unsafe { product.run(steps, &read, rights.product.as_ref(), &written) };
        });
    }
}
