//! Loads files of weights into a session, and saves its weights.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use tile_compiler::tensor::TensorType;

use super::assign::{Assigned, Entries, assign, not_made};
use super::{LoadOptions, LoadReport, WeightsFile, converted, write_model};
use crate::error::Error;
use crate::session::Session;

impl Session {
    /// Loads all weights from a .safetensors or .npz file by their paths, from a .h5 file by its
    /// layers, or from a state_dict of PyTorch by its modules. Floats are converted to the weight's
    /// type. Returns the entries that no weight takes: PyTorch's `num_batches_tracked`.
    ///
    /// # Errors
    /// Returns [`Error::Weights`] with all entries that are missing, unknown to the program or of
    /// another shape. No weight has changed then. If reading fails later, the preceding weights
    /// have changed.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<Vec<String>, Error> {
        let report = self.load_with(&LoadOptions::file(path.as_ref()))?;
        Ok(report.unused.into_iter().flat_map(|(_, names)| names).collect())
    }

    /// Loads weights from several files, from parts of files or into parts of the program. Weights
    /// in no target keep their values, and so do those that the files lack, with
    /// [`LoadOptions::partial`].
    ///
    /// # Errors
    /// Fails like [`Session::load`], or if a target or a part of the options does not exist.
    pub fn load_with(&mut self, options: &LoadOptions) -> Result<LoadReport, Error> {
        let open = |source: &super::WeightsSource| WeightsFile::open(&source.file);
        let mut files = options
            .sources
            .iter()
            .map(open)
            .collect::<Result<Vec<_>, _>>()
            .map_err(Error::Weights)?;
        let entries: Vec<Entries> = options
            .sources
            .iter()
            .zip(&files)
            .map(|(source, file)| Entries::of(source, file))
            .collect();
        let expected: Vec<(String, TensorType)> =
            self.weights().map(|(path, ty)| (path.to_owned(), ty.clone())).collect();
        let Assigned { pairs, report } =
            assign(&expected, &entries, options, false).map_err(Error::Weights)?;
        let types: HashMap<&str, &TensorType> =
            expected.iter().map(|(path, ty)| (path.as_str(), ty)).collect();
        for pair in &pairs {
            let Some(ty) = types.get(pair.path.as_str()) else { continue };
            let file = &mut files[pair.file];
            let made = pair
                .recipe
                .tensor(|entry| file.read(entry).map(Cow::Owned))
                .map_err(Error::Weights)?;
            let made = made.and_then(|tensor| converted(tensor, ty.dtype));
            let tensor = made
                .ok_or_else(|| Error::Weights(not_made(&options.sources[pair.file], &pair.path)))?;
            self.set(&pair.path, &tensor)?;
        }
        Ok(report)
    }

    /// Saves all weights by path to a .safetensors or .npz file, or to a .weights.h5 file that
    /// Keras loads into a model of the same layers in the same order.
    ///
    /// # Errors
    /// Fails if the file cannot be written, or if it is one of Keras, which lacks a weight's layer.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let mut tensors = Vec::new();
        for name in self.weights().map(|(path, _)| path.to_owned()).collect::<Vec<_>>() {
            tensors.push((name.clone(), self.get(&name)?));
        }
        write_model(path.as_ref(), &self.layers, tensors)
    }
}
