//! Results of an import: a network, its Tile program, and the values of its weights.

use std::collections::HashMap;

use super::model::OnnxError;
use super::proto;
use super::recorder::Recorded;
use super::tensor::{self, Loader};
use super::text::{self, Stored};
use crate::graph::{NodeId, NodeMap, Op};
use crate::lower::Network;
use crate::tensor::{Tensor, TensorType};

/// A network, and the locations of its weights' values.
#[derive(Default)]
pub struct Imported {
    /// The network.
    pub network: Network,
    /// The values of inputs that the model does not have: results computed during the import.
    pub computed: HashMap<String, Tensor>,
    /// Whether shapes depend on values. The network is then valid for the given values only.
    pub by_values: bool,
    /// The number of parts of the model that were run during the import.
    pub parts: usize,
    pub(super) name: String,
    pub(super) steps: Vec<Recorded>,
    /// The names of values in the file.
    pub(super) values: NodeMap<String>,
    pub(super) outputs: Vec<(String, NodeId)>,
    pub(super) weights: HashMap<String, proto::Tensor>,
}

/// The tensors of the file that are the weights of a network, in the order of its graph.
pub struct Sources(Vec<Option<proto::Tensor>>);

impl Imported {
    /// Returns the tensors that are the network's weights.
    pub fn sources(&self) -> Sources {
        Sources(self.tensors().map(Option::<&proto::Tensor>::cloned).collect())
    }

    /// Returns whether the network's weights are these tensors. One path may be that of several: of
    /// each branch, for example.
    pub fn has_sources(&self, sources: &Sources) -> bool {
        let is_same = |(a, b): (Option<&proto::Tensor>, &Option<proto::Tensor>)| match (a, b) {
            (Some(a), Some(b)) => is_same(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        self.network.graph.weights.len() == sources.0.len()
            && self.tensors().zip(&sources.0).all(is_same)
    }

    fn tensors(&self) -> impl Iterator<Item = Option<&proto::Tensor>> {
        let graph = &self.network.graph;
        graph.weights.iter().map(|&id| match &graph.node(id).op {
            Op::Weight(path) => self.weights.get(path),
            _ => None,
        })
    }

    /// Returns names and types of the model's inputs. The network may lack some.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, &TensorType)> {
        self.steps.iter().filter_map(|step| match step {
            Recorded::Input { name, ty, .. } if !self.computed.contains_key(name) => {
                Some((name.as_str(), ty))
            }
            _ => None,
        })
    }

    /// Returns the Tile program for these inputs, and its weights by name.
    pub fn program(&self) -> (String, Vec<(String, Stored)>) {
        text::program(self)
    }

    /// Returns the value of a weight of the program.
    pub fn stored(&self, stored: &Stored, loader: Loader) -> Result<Tensor, OnnxError> {
        match stored {
            Stored::Path(path) => self.weight(path, loader),
            Stored::Tensor(tensor) => Ok(tensor.clone()),
            Stored::Arranged { of, order, shape } => {
                let unordered = || {
                    OnnxError::new(format!("a weight cannot have its axes in the order {order:?}"))
                };
                let tensor = self.stored(of, loader)?.transposed(order).ok_or_else(unordered)?;
                let ty = TensorType::new(tensor.dtype(), shape.as_slice());
                Tensor::from_bytes(ty, tensor.into_bytes())
                    .ok_or_else(|| OnnxError::new(format!("a weight has not the sizes {shape:?}")))
            }
        }
    }

    /// Returns the value of a weight by its path.
    pub fn weight(&self, path: &str, loader: Loader) -> Result<Tensor, OnnxError> {
        let found = self
            .weights
            .get(path)
            .ok_or_else(|| OnnxError::new(format!("there is no weight `{path}`")))?;
        tensor::tensor(found, loader).map_err(|what| OnnxError::new(format!("`{path}`: {what}")))
    }
}

/// Returns whether two tensors have the same value. The bytes of one file need not be compared.
fn is_same(a: &proto::Tensor, b: &proto::Tensor) -> bool {
    let place = |tensor: &proto::Tensor| (tensor.raw.as_ptr(), tensor.raw.len());
    (place(a) == place(b) || a.raw == b.raw)
        && (a.dtype, &a.dims, a.location, &a.external)
            == (b.dtype, &b.dims, b.location, &b.external)
        && (&a.floats, &a.doubles) == (&b.floats, &b.doubles)
        && (&a.ints32, &a.ints64, &a.uints64) == (&b.ints32, &b.ints64, &b.uints64)
}
