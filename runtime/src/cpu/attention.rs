//! Nests of attention, a block of rows at a time: scores, weights and product of a block run one after the other as plain nests, and what
//! passes between them stays in the cache.

use super::memory::{Operand, Output};
use super::prepared::Prepared;
use super::scratch;
use tile_compiler::nest::{Nest, Stages};

/// Scores of a block, about: with the weights that are made of them they stay in the last cache, and there are rows enough for the other factors to
/// be packed seldom.
const BLOCK: usize = 1 << 20;

/// Bytes of a cache line.
const LINE: usize = 64;

/// A nest of attention, ready to run.
pub struct Attention {
    blocks: Vec<Block>,
    /// Which of the nest's outputs are of rows.
    of_rows: Vec<bool>,
}

/// The stages of blocks of one size.
struct Block {
    scores: Vec<Prepared>,
    weights: Prepared,
    product: Prepared,
    stages: Stages,
}

impl Attention {
    /// The nest as stages, if it is one of attention.
    pub fn new(nest: &Nest) -> Option<Self> {
        Self::in_blocks(nest, BLOCK)
    }

    /// The same in blocks of about so many scores.
    pub(super) fn in_blocks(nest: &Nest, scores: usize) -> Option<Self> {
        let blocks = nest.stages(scores)?.into_iter().map(|stages| {
            let prepare = |nest: &Nest| Prepared::new(nest, &|_| false, false);
            let scores = stages.scores.iter().map(prepare).collect();
            Block { scores, weights: prepare(&stages.weights), product: prepare(&stages.product), stages }
        });
        let of_rows = (0..nest.outputs.len()).map(|output| nest.is_of_rows(output)).collect();
        Some(Self { blocks: blocks.collect(), of_rows })
    }

    /// Computes every output, at `steps` of the loops around the nest.
    pub fn run(&self, steps: &[usize], operands: &[Operand], outputs: &[Output]) {
        for block in &self.blocks {
            let turns = &block.stages.turns;
            for number in 0..turns.iter().product() {
                let mut rest: usize = number;
                let mut own: Vec<usize> = Vec::with_capacity(turns.len());
                for extent in turns.iter().rev() {
                    own.push(rest % extent);
                    rest /= extent;
                }
                own.reverse();
                self.run_block(block, &[steps, &own].concat(), operands, outputs);
            }
        }
    }

    fn run_block(&self, block: &Block, steps: &[usize], operands: &[Operand], outputs: &[Output]) {
        let Block { scores, weights, product, stages } = block;
        // All begin a line, so that rows of one are not written by two threads.
        let [area, rows] = [stages.area, stages.rows].map(|count| (count * size_of::<f32>()).next_multiple_of(LINE));
        let (of_rows, others): (Vec<usize>, Vec<usize>) = (0..outputs.len()).partition(|&output| self.of_rows[output]);
        scratch::with((scores.len() + 1) * area + stages.statistics * rows, |memory: &mut [u8]| {
            let (of_scores, of_weights) = memory.split_at_mut(scores.len() * area);
            for (stage, memory) in scores.iter().zip(of_scores.chunks_exact_mut(area)) {
                stage.run(steps, operands, None, &[Output::new(memory, 0)]);
            }
            let mut read = operands.to_vec();
            read.extend(of_scores.chunks_exact(area).map(Operand::from));
            let (factor, of_statistics) = of_weights.split_at_mut(area);
            let own = [factor].into_iter().chain(of_statistics.chunks_exact_mut(rows));
            let mut written: Vec<Output> = own.map(|memory| Output::new(memory, 0)).collect();
            written.extend(of_rows.iter().map(|&output| outputs[output].clone()));
            weights.run(steps, &read, None, &written);
            drop(written);

            let (factor, of_statistics) = of_weights.split_at(area);
            read.truncate(operands.len());
            read.push(Operand::from(factor));
            read.extend(of_statistics.chunks_exact(rows).map(Operand::from));
            let written: Vec<Output> = others.iter().map(|&output| outputs[output].clone()).collect();
            product.run(steps, &read, None, &written);
        });
    }
}
