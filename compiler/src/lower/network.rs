//! What lowering makes of a program: the graph, and the weights that layers have made.

use crate::graph::{Graph, NodeId};
use crate::tensor::TensorType;

pub use tile_lang::ast::WeightKind;

/// A program for given shapes.
#[derive(Clone, Debug, Default)]
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
    /// The input with the number of the step, from 1, `f32[]`; only where something asks for it.
    pub const STEP: &str = "step";
    /// The input with the factor for learning rates, `f32[]`; only where something asks for it.
    pub const RATE: &str = "rate";
    /// The input of a step with the weights of samples, `f32[N]`.
    pub const SAMPLE_WEIGHT: &str = "sample weight";
    /// The output of a step with its loss, `f32[]`.
    pub const LOSS: &str = "loss";
    /// The states of steps, `f32[]`, with the sum of the loss over all samples, and their number.
    pub const LOSS_SUM: &str = "train.loss.Sum";
    pub const LOSS_COUNT: &str = "train.loss.Count";
    /// A loss up to here, either way, is a finite number. (The largest float has no decimal form that the compilers of all
    /// shading languages take.)
    pub const LARGEST_LOSS: f64 = 3e38;
    /// The state of steps of training, `f32[]`, that is 1 from the first step on whose loss was no finite number, and else 0:
    /// no weight changes any more until it is set to 0.
    pub const FAILED: &str = "train.loss.Failed";

    /// The input of a step with what an output should be.
    pub fn target(output: &str) -> String {
        format!("target {output}")
    }
}

/// A tensor that stays between runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// `encoder[3].attention.query.Kernel`: unique.
    pub path: String,
    pub ty: TensorType,
    pub kind: WeightKind,
    pub role: Role,
    pub node: NodeId,
}

/// Whose a weight is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The model's own.
    Model,
    /// Kept by an optimizer for a trained weight.
    Optimizer,
    /// What metrics, and the mean of the loss, have counted.
    Metric,
}

/// A layer where it is applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    pub path: String,
    /// Its name in the source.
    pub class: String,
    pub outputs: Vec<TensorType>,
    /// The elements of the weights that it reads first, where its path does not say which are its own.
    pub elements: Option<usize>,
}
