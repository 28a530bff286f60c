//! What an import gives: a network, the same as a program, and the values of its weights.

use std::collections::HashMap;

use super::model::OnnxError;
use super::proto;
use super::tensor::{self, Loader};
use super::text::{self, Step, Stored};
use crate::graph::NodeId;
use crate::lower::Network;
use crate::tensor::{Tensor, TensorType};

/// A network, and where its weights have their values.
pub struct Imported {
    pub network: Network,
    pub(super) name: String,
    pub(super) steps: Vec<Step>,
    /// What the file calls values.
    pub(super) values: HashMap<NodeId, String>,
    pub(super) outputs: Vec<(String, NodeId)>,
    pub(super) weights: HashMap<String, proto::Tensor>,
}

impl Imported {
    /// The same as a Tile program, for these inputs, and its weights by their names there.
    pub fn program(&self) -> (String, Vec<(String, Stored)>) {
        text::program(self)
    }

    /// The value of a weight of the program.
    pub fn stored(&self, stored: &Stored, loader: Loader) -> Result<Tensor, OnnxError> {
        match stored {
            Stored::Path(path) => self.weight(path, loader),
            Stored::Tensor(tensor) => Ok(tensor.clone()),
            Stored::Arranged { of, order, shape } => {
                let tensor = self.stored(of, loader)?.transposed(order);
                let ty = TensorType::new(tensor.dtype(), shape.as_slice());
                Tensor::from_bytes(ty, tensor.into_bytes())
                    .ok_or_else(|| OnnxError::new(format!("a weight has not the sizes {shape:?}")))
            }
        }
    }

    /// The value of a weight by its path.
    pub fn weight(&self, path: &str, loader: Loader) -> Result<Tensor, OnnxError> {
        let found = self.weights.get(path).ok_or_else(|| OnnxError::new(format!("there is no weight `{path}`")))?;
        tensor::tensor(found, loader).map_err(|what| OnnxError::new(format!("`{path}`: {what}")))
    }
}
