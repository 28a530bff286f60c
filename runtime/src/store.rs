//! [`Store`]: the weights of a model on one device, for executables that take turns: those of training for several sizes of
//! batches, of evaluation and of prediction.
//!
//! Always true: a weight has one memory. On a GPU all executables bind the same buffers, so that a turn costs nothing; in host
//! memory the executable whose turn it is has the weights' blocks, and hands them back after it.

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
pub struct Store(HashMap<String, Stored>);

/// A weight.
pub struct Stored {
    pub ty: TensorType,
    /// The type that the device stores.
    pub storage: DType,
    pub memory: Memory,
    /// Whether it has a value.
    pub given: bool,
}

/// Where a weight is.
pub enum Memory {
    /// Of the reference interpreter.
    Tensor(Tensor),
    Block(Block),
    #[cfg(feature = "wgpu")]
    Buffer(Arc<Gpu>, wgpu::Buffer),
}

impl Store {
    pub fn get(&self, path: &str) -> Option<&Stored> {
        self.0.get(path)
    }

    pub fn get_mut(&mut self, path: &str) -> Option<&mut Stored> {
        self.0.get_mut(path)
    }

    pub fn put(&mut self, path: &str, weight: Stored) {
        self.0.insert(path.to_owned(), weight);
    }

    pub fn take(&mut self, path: &str) -> Option<Stored> {
        self.0.remove(path)
    }

    /// Whether it has a value for a weight.
    pub fn has(&self, path: &str) -> bool {
        self.0.get(path).is_some_and(|weight| weight.given)
    }

    /// # Errors
    /// Where it has the weight with another type.
    pub fn check(&self, path: &str, ty: &TensorType) -> Result<(), Error> {
        match self.0.get(path) {
            Some(weight) if weight.ty != *ty => {
                Err(Error::WrongWeight { path: path.into(), expected: ty.clone(), given: weight.ty.clone() })
            }
            _ => Ok(()),
        }
    }

    /// The value of a weight that no executable has at present.
    pub async fn read(&self, path: &str) -> Result<Option<Tensor>, Error> {
        let Some(weight) = self.0.get(path).filter(|weight| weight.given) else { return Ok(None) };
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
