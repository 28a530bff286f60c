//! Nests of attention, a block of rows at a time. Scores, weights and product of a block run one
//! after the other as plain nests. The tensors between them stay in the cache of the thread that
//! runs them.

use crate::dtype::Scalar;
use crate::nest::{self, Nest};
use crate::profile::Profile;

use super::program::NativeProgram;

/// About the scores of a block. With the weights made from them, they take half a megabyte of L2.
const BLOCK: usize = 1 << 16;

/// A nest of attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attention {
    /// The equal blocks, then those of the remainder.
    pub blocks: Vec<Block>,
    /// For each of the nest's outputs, whether it has one element for each row.
    pub of_rows: Vec<bool>,
}

/// Blocks of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The stages of each block, over all points.
    pub stages: Stages,
    /// The number of statistics that the product has as operands.
    pub statistics: usize,
    /// The number of rows of the block.
    pub rows: usize,
    /// The turns of the loops around the stages, except those around the nest: outermost first, the
    /// loop over the blocks last.
    pub turns: Vec<usize>,
    /// Whether the blocks of one turn of the outer loops share their right factors.
    pub shares_rights: bool,
    /// The stages of blocks whose last points are hidden by a mask.
    pub shorter: Option<Shorter>,
}

/// The stages of a block; see [`nest::Stages`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stages {
    /// The programs of the scores, one for each inner sum.
    pub scores: Vec<NativeProgram>,
    /// The program of the weights: see [`nest::Stages::weights`].
    pub weights: NativeProgram,
    /// The program of the weighted sums.
    pub product: NativeProgram,
    /// The number of rows times the number of points.
    pub area: usize,
}

/// Stages over the first points only; see [`nest::Shorter`].
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl Attention {
    /// Divides the nest into stages, if it is one of attention.
    pub fn new(nest: &Nest, profile: &Profile) -> Option<Self> {
        Self::in_blocks(nest, profile, BLOCK)
    }

    /// Divides the nest as [`Attention::new`] does, into blocks of about this many scores.
    pub fn in_blocks(nest: &Nest, profile: &Profile, scores: usize) -> Option<Self> {
        let compile = |nest: &Nest| NativeProgram::plain(nest, profile, &|_| false);
        let stages = |stages: &nest::Stages| Stages {
            scores: stages.scores.iter().map(compile).collect(),
            weights: compile(&stages.weights),
            product: compile(&stages.product),
            area: stages.area,
        };
        let shorter = |shorter: nest::Shorter| Shorter {
            stages: shorter.stages.iter().map(stages).collect(),
            choice: shorter.choice,
            top: shorter.top,
            score: shorter.score,
        };
        let blocks = nest.stages(scores)?.into_iter().map(|blocks| Block {
            stages: stages(&blocks.stages),
            statistics: blocks.statistics,
            rows: blocks.rows,
            turns: blocks.turns,
            shares_rights: blocks.of_rows,
            shorter: blocks.shorter.map(shorter),
        });
        let of_rows = (0..nest.outputs.len()).map(|output| nest.is_of_rows(output)).collect();
        Some(Self { blocks: blocks.collect(), of_rows })
    }
}
