//! [`TileProgram`]: a model of another format, converted to a Tile program.

use std::fmt;

use tile_compiler::tensor::Tensor;

use crate::error::Error;

/// A model of ONNX or Keras converted to a Tile program, with its weights.
///
/// ```
/// use tile_runtime::{Error, TileProgram};
///
/// let error = TileProgram::of_keras("missing.keras").unwrap_err();
/// assert!(matches!(error, Error::Keras { .. } | Error::Read { .. } | Error::Weights(_)));
/// ```
pub struct TileProgram {
    pub(crate) text: String,
    /// The paths of the weights.
    pub(crate) paths: Vec<String>,
    /// Reads the weight whose path has an index.
    pub(crate) read: Box<Read>,
}

/// A function that reads a weight.
type Read = dyn Fn(usize) -> Result<Tensor, Error> + Send + Sync;

impl fmt::Debug for TileProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TileProgram").field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl TileProgram {
    /// Returns the text of the program, whose last definition is the model.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the program has weights.
    pub fn has_weights(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Reads the weights, by their names in the program.
    ///
    /// # Errors
    /// Fails if a weight cannot be read.
    pub fn weights(&self) -> Result<Vec<(String, Tensor)>, Error> {
        let read = |(number, path): (usize, &String)| Ok((path.clone(), (self.read)(number)?));
        self.paths.iter().enumerate().map(read).collect()
    }
}
