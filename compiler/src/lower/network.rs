//! The result of lowering a program: a graph, and the weights of its layers.

use crate::graph::{Graph, NodeId};
use crate::tensor::TensorType;

pub use tile_lang::ast::WeightKind;

/// A program lowered for given shapes.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// The graph. In training, it has outputs in addition to the entry's: the next value of each
    /// weight that an `update` changes, named by the weight's path, and the sum of all penalties as
    /// [`Network::PENALTY`], if there are any.
    pub graph: Graph,
    /// The weights in order of creation, which is the order of the graph's weights.
    pub weights: Vec<Weight>,
    /// The graph that computes the initial value of each weight, with outputs named by path. Its
    /// only input, if any, is [`SEED`](crate::bindings::SEED).
    pub initial: Graph,
    /// The layers that the entry itself applies, in order. A layer that is applied twice is listed
    /// twice.
    pub layers: Vec<Layer>,
    /// The paths of the layers with an `adapt` block, without frozen ones, in order of application.
    pub adapts: Vec<String>,
    /// The ranges that `with_range` and `with_bounds` give for inputs, without duplicates.
    pub ranges: Vec<InputRange>,
}

impl Network {
    /// The output with the sum of all regularizers and `with_loss` terms, `f32[]`.
    pub const PENALTY: &str = "penalty";
    /// The input with the number of the step, counted from 1, `f32[]`. It exists only if it is
    /// used.
    pub const STEP: &str = "step";
    /// The input with the factor for learning rates, `f32[]`. It exists only if it is used.
    pub const RATE: &str = "rate";
    /// The input of a step with the sample weights, `f32[N, …]`.
    pub const SAMPLE_WEIGHT: &str = "sample weight";
    /// The output of a step with its loss, `f32[]`.
    pub const LOSS: &str = "loss";
    /// The state of steps with the sum of the loss over all samples, `f32[]`.
    pub const LOSS_SUM: &str = "train.loss.Sum";
    /// The state of steps with the number of samples in [`Network::LOSS_SUM`], `f32[]`.
    pub const LOSS_COUNT: &str = "train.loss.Count";
    /// The largest magnitude of a loss that counts as finite. Not every shading language's compiler
    /// accepts the largest float in decimal form.
    pub const LARGEST_LOSS: f64 = 3e38;
    /// The state of training steps, `f32[]`, that becomes 1 with the first step whose loss is not
    /// finite. While it is 1, no weight changes; setting it to 0 resumes training.
    pub const FAILED: &str = "train.loss.Failed";

    /// Returns the paths and classes of the layers, in the order of their application.
    pub fn classes(&self) -> Vec<(String, String)> {
        self.layers.iter().map(|layer| (layer.path.clone(), layer.class.clone())).collect()
    }

    /// Returns the number of elements of the weights of one application of a layer.
    pub fn elements(&self, layer: &Layer) -> usize {
        let is_inside = |weight: &&Weight| {
            let rest = weight.path.strip_prefix(layer.path.as_str());
            rest.is_some_and(|rest| rest.starts_with('.'))
        };
        let inside = self.weights.iter().filter(is_inside);
        layer.elements.unwrap_or_else(|| inside.map(|weight| weight.ty.elements()).sum())
    }

    /// Returns the name of the input of a step with the target of an output.
    pub fn target(output: &str) -> String {
        format!("target {output}")
    }
}

/// A tensor that persists between runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// The unique path, such as `encoder[3].attention.query.Kernel`.
    pub path: String,
    /// The type.
    pub ty: TensorType,
    /// Whether training changes it.
    pub kind: WeightKind,
    /// The owner.
    pub role: Role,
    /// The node of its value, in the graph of the network.
    pub node: NodeId,
}

/// The owner of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The model.
    Model,
    /// A loss. The weight is stored with the model's, and used only in training and evaluation.
    Loss,
    /// An optimizer, which keeps the weight for a trained one.
    Optimizer,
    /// A metric, or the mean of the loss.
    Metric,
}

/// One application of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// The unique path of the instance, such as `encoder[3].attention`.
    pub path: String,
    /// The layer's name in the source.
    pub class: String,
    /// The types of its outputs.
    pub outputs: Vec<TensorType>,
    /// The number of elements of the weights that this layer reads first, if its path does not
    /// identify its own weights.
    pub elements: Option<usize>,
}

/// The numbers that the program expects in an input.
#[derive(Clone, Debug, PartialEq)]
pub struct InputRange {
    /// The name of the input; that of a target is [`Network::target`].
    pub input: String,
    /// The numbers.
    pub expected: Expected,
}

/// A set of numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// Whole numbers from `low` up to, but not including, `high`, and also `ignored`. `None` if
    /// there is no such bound.
    Whole {
        /// The least number.
        low: Option<i64>,
        /// The number after the largest.
        high: Option<i64>,
        /// A number that is expected besides, such as that of padding.
        ignored: Option<f64>,
    },
    /// Numbers from `low` to `high`, both included, but for rounding.
    Between {
        /// The least number.
        low: f64,
        /// The largest number.
        high: f64,
    },
}

impl Expected {
    /// Returns whether the program expects a number.
    pub fn contains(&self, number: f64) -> bool {
        match *self {
            Expected::Whole { low, high, ignored } => {
                let is_above = low.is_none_or(|low| number >= low as f64);
                let is_below = high.is_none_or(|high| number < high as f64);
                (number.fract() == 0.0 && is_above && is_below) || ignored == Some(number)
            }
            // Shares that were computed in f32 may be off by their rounding.
            Expected::Between { low, high } => {
                let margin = 1e-5 * (high - low);
                (low - margin..=high + margin).contains(&number)
            }
        }
    }
}
