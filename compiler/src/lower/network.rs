//! What lowering makes of a program: the graph, and the weights that layers have made.

use crate::graph::{Graph, NodeId};
use crate::tensor::TensorType;

pub use tile_lang::ast::WeightKind;

/// A program for given shapes.
#[derive(Clone, Debug)]
pub struct Network {
    /// In training, it has more outputs than the entry: for each weight that an `update` changes its next value, named
    /// by its path; and where there are regularizers, their sum as [`Network::PENALTY`].
    pub graph: Graph,
    /// In the order in which they were made, which is that of the graph's weights.
    pub weights: Vec<Weight>,
    /// Computes the first value of each weight: outputs named by path. Its one input, if it has any, is
    /// [`Network::SEED`].
    pub initial: Graph,
    /// The layers applied by the entry itself, in order; a layer that is applied twice is there twice.
    pub layers: Vec<Layer>,
}

impl Network {
    /// The input from which random numbers are made, `u32[2]`: a seed that differs from step to step. Where nothing
    /// is random there is none.
    pub const SEED: &str = "seed";
    /// The output with the sum of all regularizers, `f32[]`.
    pub const PENALTY: &str = "penalty";
}

/// A tensor that stays between runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// `encoder[3].attention.query.Kernel`: unique.
    pub path: String,
    pub ty: TensorType,
    pub kind: WeightKind,
    pub node: NodeId,
}

/// A layer where it is applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    pub path: String,
    /// Its name in the source.
    pub class: String,
    pub outputs: Vec<TensorType>,
}
