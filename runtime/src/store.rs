//! [`Store`]: the weights of a model on one device, shared by executables that are active in turns:
//! those of training for several batch sizes, of evaluation and of prediction.
//!
//! Invariant: a weight has one memory. On a GPU all executables bind the same buffers, so that
//! activation costs nothing. In host memory the active executable owns the weights' blocks, and
//! returns them afterwards.

use std::collections::HashMap;
#[cfg(feature = "wgpu")]
use std::sync::Arc;

use tile_compiler::dtype::DType;
use tile_compiler::tensor::{Tensor, TensorType};

use crate::error::Error;
use crate::host::Block;
use crate::storage::from_storage;
#[cfg(feature = "wgpu")]
use crate::wgpu::Gpu;

/// Weights by path.
#[derive(Default)]
pub struct Store {
    weights: HashMap<String, Stored>,
    /// The memory limit of each executable in bytes, if there is one.
    pub limit: Option<u64>,
}

/// A stored weight.
pub struct Stored {
    pub ty: TensorType,
    /// The type in which the device stores the weight.
    pub storage: DType,
    pub memory: Memory,
    /// Whether the weight has a value.
    pub given: bool,
}

/// The memory of a weight.
pub enum Memory {
    /// A tensor of the reference interpreter.
    Tensor(Tensor),
    Block(Block),
    #[cfg(feature = "wgpu")]
    Buffer(Arc<Gpu>, wgpu::Buffer),
}

impl Store {
    /// Creates an empty store. `limit` is the memory limit of each of its executables in bytes.
    pub fn within(limit: Option<u64>) -> Store {
        Store { limit, ..Store::default() }
    }

    pub fn get(&self, path: &str) -> Option<&Stored> {
        self.weights.get(path)
    }

    #[cfg(feature = "wgpu")]
    pub fn get_mut(&mut self, path: &str) -> Option<&mut Stored> {
        self.weights.get_mut(path)
    }

    pub fn put(&mut self, path: &str, weight: Stored) {
        self.weights.insert(path.to_owned(), weight);
    }

    pub fn take(&mut self, path: &str) -> Option<Stored> {
        self.weights.remove(path)
    }

    /// Returns whether a weight has a value here.
    pub fn has(&self, path: &str) -> bool {
        self.weights.get(path).is_some_and(|weight| weight.given)
    }

    /// Checks the type of a weight.
    ///
    /// # Errors
    /// Returns [`Error::WrongWeight`] if the stored weight has another type.
    pub fn check(&self, path: &str, ty: &TensorType) -> Result<(), Error> {
        match self.weights.get(path) {
            Some(weight) if weight.ty != *ty => {
                Err(Error::WrongWeight { path: path.into(), expected: ty.clone(), given: weight.ty.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Returns the value of a weight that no active executable owns.
    pub async fn read(&self, path: &str) -> Result<Option<Tensor>, Error> {
        let Some(weight) = self.weights.get(path).filter(|weight| weight.given) else { return Ok(None) };
        let Stored { ty, storage, memory, .. } = weight;
        let value = match memory {
            Memory::Tensor(tensor) => Some(tensor.clone()),
            Memory::Block(block) => from_storage(block.bytes(), *storage, ty),
            #[cfg(feature = "wgpu")]
            Memory::Buffer(gpu, buffer) => from_storage(&gpu.download(buffer).await?, *storage, ty),
        };
        value.map(Some).ok_or_else(|| Error::unstorable(ty, *storage))
    }
}
