//! Nests of attention, a block of rows at a time. Scores, weights and product of a block run one
//! after the other as plain nests. The tensors between them stay in the cache of the thread that
//! runs them.

use crate::nest::{Nest, Stages};
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

/// The stages of blocks of one size; see [`Stages`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The programs of the scores, one for each inner sum.
    pub scores: Vec<NativeProgram>,
    /// The program of the weights: see [`Stages::weights`].
    pub weights: NativeProgram,
    /// The program of the weighted sums.
    pub product: NativeProgram,
    /// The number of statistics that the product reads.
    pub statistics: usize,
    /// The number of rows of the block.
    pub rows: usize,
    /// The number of rows times the number of points.
    pub area: usize,
    /// The turns of the loops around the stages, except those around the nest: outermost first, the
    /// loop over the blocks last.
    pub turns: Vec<usize>,
    /// Whether the blocks of one turn of the outer loops share their right factors.
    pub shares_rights: bool,
}

impl Attention {
    /// Divides the nest into stages, if it is one of attention.
    pub fn new(nest: &Nest, profile: &Profile) -> Option<Self> {
        Self::in_blocks(nest, profile, BLOCK)
    }

    /// Divides the nest as [`Attention::new`] does, into blocks of about this many scores.
    pub fn in_blocks(nest: &Nest, profile: &Profile, scores: usize) -> Option<Self> {
        let compile = |nest: &Nest| NativeProgram::plain(nest, profile, &|_| false);
        let blocks = nest.stages(scores)?.into_iter().map(|stages| {
            let Stages { scores, weights, product, statistics, rows, area, turns, of_rows } =
                stages;
            Block {
                scores: scores.iter().map(compile).collect(),
                weights: compile(&weights),
                product: compile(&product),
                statistics,
                rows,
                area,
                turns,
                shares_rights: of_rows,
            }
        });
        let of_rows = (0..nest.outputs.len()).map(|output| nest.is_of_rows(output)).collect();
        Some(Self { blocks: blocks.collect(), of_rows })
    }
}
