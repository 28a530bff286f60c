//! [`Store`]: the weights of a model on one device, shared by executables that are active in turns:
//! those of training for several batch sizes, of evaluation and of prediction.
//!
//! Invariant: a weight has one memory, or one for each of its parts. On a GPU all executables bind
//! the same buffers, so that activation costs nothing. In host memory the active executable owns
//! the weights' blocks, and returns them afterwards.

use std::any::Any;
use std::collections::HashMap;

use tile_compiler::dtype::DType;
use tile_compiler::tensor::{Tensor, TensorType};

use crate::backend::{Pending, Shared};
use crate::error::Error;
use crate::host::Block;
use crate::parts;
use crate::storage::from_storage;

/// Weights by path.
#[derive(Default)]
pub struct Store {
    weights: HashMap<String, Stored>,
    /// The weights that are in parts: the type of each, and the paths of its parts.
    parts: HashMap<String, (TensorType, Vec<String>)>,
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
    /// Memory of a device.
    Device(Box<dyn DeviceMemory>),
}

/// The memory of a weight on a device. Executables of the device know its type.
pub trait DeviceMemory: Any + Shared {
    /// Returns the weight, which is stored as `storage`. `None` if there is no memory for it.
    fn read<'a>(&'a self, storage: DType, ty: &'a TensorType) -> Pending<'a, Option<Tensor>>;
}

impl Store {
    /// Creates an empty store. `limit` is the memory limit of each of its executables in bytes.
    pub fn within(limit: Option<u64>) -> Store {
        Store { limit, ..Store::default() }
    }

    pub fn get(&self, path: &str) -> Option<&Stored> {
        self.weights.get(path)
    }

    pub fn get_mut(&mut self, path: &str) -> Option<&mut Stored> {
        self.weights.get_mut(path)
    }

    pub fn put(&mut self, path: &str, weight: Stored) {
        self.weights.insert(path.to_owned(), weight);
    }

    /// Notes that a weight is in parts with these paths.
    ///
    /// # Errors
    /// If it has other parts, or none.
    pub fn put_parts(
        &mut self,
        path: &str,
        ty: &TensorType,
        parts: Vec<String>,
    ) -> Result<(), Error> {
        let parts = (ty.clone(), parts);
        let known = self.parts.get(path);
        let is_whole = self.weights.contains_key(path) && known.is_none();
        if is_whole || known.is_some_and(|known| *known != parts) {
            return Err(Error::data(format!(
                "programs that share `{path}` would store it in different parts"
            )));
        }
        self.parts.insert(path.to_owned(), parts);
        Ok(())
    }

    pub fn take(&mut self, path: &str) -> Option<Stored> {
        self.weights.remove(path)
    }

    /// Returns whether a weight has a value here.
    pub fn has(&self, path: &str) -> bool {
        match self.parts.get(path) {
            Some((_, parts)) => parts.iter().all(|part| self.is_given(part)),
            None => self.is_given(path),
        }
    }

    /// Returns whether a weight, or one of the parts of a weight, has a value.
    fn is_given(&self, path: &str) -> bool {
        self.weights.get(path).is_some_and(|weight| weight.given)
    }

    /// Checks the type of a weight.
    ///
    /// # Errors
    /// Returns [`Error::WrongWeight`] if the stored weight has another type.
    pub fn check(&self, path: &str, ty: &TensorType) -> Result<(), Error> {
        match self.weights.get(path) {
            Some(weight) if weight.ty != *ty => Err(Error::WrongWeight {
                path: path.into(),
                expected: ty.clone(),
                given: weight.ty.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the value of a weight that no active executable owns.
    pub async fn read(&self, path: &str) -> Result<Option<Tensor>, Error> {
        let Some((ty, parts)) = self.parts.get(path) else { return self.read_whole(path).await };
        let mut tensors = Vec::with_capacity(parts.len());
        for part in parts {
            let Some(part) = self.read_whole(part).await? else { return Ok(None) };
            tensors.push(part);
        }
        parts::join(tensors, ty).map(Some)
    }

    async fn read_whole(&self, path: &str) -> Result<Option<Tensor>, Error> {
        let Some(weight) = self.weights.get(path).filter(|weight| weight.given) else {
            return Ok(None);
        };
        let Stored { ty, storage, memory, .. } = weight;
        let value = match memory {
            Memory::Tensor(tensor) => Some(tensor.clone()),
            Memory::Block(block) => from_storage(block.bytes(), *storage, ty),
            Memory::Device(memory) => memory.read(*storage, ty).await?,
        };
        value.map(Some).ok_or_else(|| Error::unstorable(ty, *storage))
    }
}
