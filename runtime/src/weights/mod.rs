//! Files of weights: safetensors, several safetensors files with an index, NumPy's .npz, Keras' .h5
//! and .keras, and PyTorch's .pt.
//!
//! An entry's name is the path of the weight. A file of Keras has its own names, which `keras` maps
//! to paths. A state_dict of PyTorch, in any file, has its own names and layouts, which
//! `state_dict` maps to weights.
//!
//! A file is checked completely before a session changes, so a file that does not fit leaves the
//! session as it was. Its tensors are read one by one, so there is never a second copy of all of
//! them.

mod assign;
mod check;
#[cfg(feature = "keras")]
mod hdf5;
#[cfg(feature = "keras")]
mod hdf5_write;
mod keras;
#[cfg(feature = "keras")]
mod keras2;
#[cfg(feature = "keras")]
mod keras_model;
#[cfg(feature = "keras")]
mod keras_write;
mod load;
mod name_map;
mod open;
mod options;
mod state_dict;
mod torch;
mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use tile_compiler::dtype::DType;
use tile_compiler::tensor::{Tensor, TensorType};
use tile_lang::Limits;
use zip::ZipArchive;

use crate::error::Source;
use crate::files::npy;
use crate::files::{Allowance, open_file, reason_of_reading};

pub use crate::error::WeightsError;
#[cfg(feature = "train")]
pub(crate) use assign::{Assigned, Entries, Pair, assign, not_made};
#[cfg(feature = "keras")]
pub use keras_model::{ASSUMED_SIZES, KerasModel};
pub use name_map::NameMap;
pub use options::{LoadOptions, LoadReport, WeightsSource};
#[cfg(feature = "train")]
pub(crate) use state_dict::Recipe;
pub use write::write;
pub(crate) use write::{check_model, write_model};

/// The format that a file's extension implies.
enum Format {
    SafeTensors,
    Npz,
    /// An index that maps each tensor to one of several safetensors files beside it.
    Index,
    Torch,
    #[cfg(feature = "keras")]
    Keras,
    /// A whole model: an archive with its weights.
    #[cfg(feature = "keras")]
    KerasModel,
}

/// Returns whether a file's name is that of Keras' files of weights, `.weights.h5`.
pub fn is_of_keras(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "h5" || ending == "hdf5")
}

fn format(path: &Path) -> Result<Format, WeightsError> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("safetensors") => Ok(Format::SafeTensors),
        Some("npz") => Ok(Format::Npz),
        Some("json") => Ok(Format::Index),
        Some("pt" | "pth") => Ok(Format::Torch),
        #[cfg(feature = "keras")]
        Some("h5" | "hdf5") => Ok(Format::Keras),
        #[cfg(feature = "keras")]
        Some("keras") => Ok(Format::KerasModel),
        #[cfg(not(feature = "keras"))]
        Some("h5" | "hdf5" | "keras") => {
            Err(error(path, "this build is without the files of Keras"))
        }
        _ => Err(error(
            path,
            "the name of a file of weights ends in .safetensors, .safetensors.index.json, .npz, .pt, .pth, .h5, .hdf5 or .keras",
        )),
    }
}

pub(crate) fn error(path: &Path, what: impl fmt::Display) -> WeightsError {
    WeightsError { path: path.display().to_string(), what: what.to_string(), source: None }
}

/// Creates the error of a file from an underlying error.
pub(crate) fn caused(path: &Path, source: impl Into<Source>) -> WeightsError {
    let source = source.into();
    WeightsError { source: Some(source), ..error(path, "") }.named("")
}

impl WeightsError {
    /// Sets the message to that of the underlying error, with the name of the entry if it is not
    /// empty.
    fn named(mut self, name: &str) -> WeightsError {
        let reason = |source: &Source| reason_of_reading(Path::new(&self.path), source.as_ref());
        let source = self.source.as_ref().map_or(String::new(), reason);
        self.what = if name.is_empty() { source } else { format!("`{name}`: {source}") };
        self
    }
}

/// An open .safetensors, .npz, .pt, .h5 or .keras file, or an open index of several files. The
/// names and types of its tensors are known. Each tensor is read on demand.
///
/// ```
/// use tile_runtime::weights::WeightsFile;
/// use tile_runtime::{Device, Model};
///
/// let model = Model::compile("model M(X[N, 2]) -> (Y) { Y = X |> Dense(3); }")?;
/// let mut session = model.on(&Device::cpu()).dim("N", 1).build()?;
/// session.initialise(0)?;
/// let path = std::env::temp_dir().join(format!("tile-doc-{}.npz", std::process::id()));
/// session.save(&path)?;
/// let mut file = WeightsFile::open(&path)?;
/// let tensors: Vec<String> =
///     file.tensors().iter().map(|(name, ty)| format!("{name} {ty}")).collect();
/// assert_eq!(tensors, ["dense.Kernel f32[2, 3]", "dense.Bias f32[3]"]);
/// assert_eq!(file.read(1)?.to_f64s(), [0.0; 3]);
/// std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WeightsFile {
    path: PathBuf,
    tensors: Vec<(String, TensorType)>,
    content: Content,
    /// The memory allowance for reading one tensor.
    allowance: Allowance,
}

enum Content {
    SafeTensors {
        /// The open file. `None` if the index names too many files to keep all of them open.
        file: Option<File>,
        /// The position of each tensor's first byte.
        starts: Vec<u64>,
    },
    /// An archive with one entry for each tensor.
    Npz(ZipArchive<BufReader<File>>),
    /// The files, and for each tensor the indices of its file and of the tensor in that file.
    Shards(Vec<WeightsFile>, Vec<(usize, usize)>),
    Torch(torch::Archive),
    /// One dataset for each tensor, and the Keras names of the layers.
    #[cfg(feature = "keras")]
    Keras(Vec<hdf5_reader::Dataset>, Titles),
}

/// The Keras names of layers, by their paths in the file.
pub(crate) type Titles = BTreeMap<String, String>;

impl WeightsFile {
    /// Opens a file. All its tensors together may take up to 16 times the size of the file on disk,
    /// or 512 MiB if that is more.
    ///
    /// # Errors
    /// Fails if the file cannot be read, violates its format, differs from its declared length or
    /// has a tensor of a type that Tile lacks.
    pub fn open(path: impl Into<PathBuf>) -> Result<WeightsFile, WeightsError> {
        WeightsFile::open_within(path, None)
    }

    /// Does the same as [`WeightsFile::open`], with an explicit limit. All tensors together may
    /// take as much memory as `limits` allows.
    ///
    /// # Errors
    /// Fails like [`WeightsFile::open`].
    pub fn open_within(
        path: impl Into<PathBuf>,
        limits: Option<Limits>,
    ) -> Result<WeightsFile, WeightsError> {
        let path = path.into();
        let format = format(&path)?;
        let file = open_file(&path).map_err(|e| caused(&path, e))?;
        let allowance = Allowance::of(&file, limits).map_err(|e| caused(&path, e))?;
        let (tensors, content) = match format {
            Format::SafeTensors => open::safetensors(&path, file, allowance.clone())?,
            Format::Npz => open::npz(&path, file, allowance.clone())?,
            Format::Index => open::index(&path, file, limits)?,
            Format::Torch => {
                let (tensors, archive) = torch::open(&path, file, &mut allowance.clone())?;
                (tensors, Content::Torch(archive))
            }
            #[cfg(feature = "keras")]
            Format::Keras => hdf5::open(&path, file, &allowance)?.into(),
            #[cfg(feature = "keras")]
            Format::KerasModel => hdf5::open_archive(&path, file, allowance.clone())?.into(),
        };
        Ok(WeightsFile { path, tensors, content, allowance })
    }

    /// Returns the names and types of the tensors, in the file's order.
    pub fn tensors(&self) -> &[(String, TensorType)] {
        &self.tensors
    }

    /// Returns the Keras names of the layers, for a Keras file.
    pub(crate) fn titles(&self) -> Option<&Titles> {
        match &self.content {
            #[cfg(feature = "keras")]
            Content::Keras(_, titles) => Some(titles),
            _ => None,
        }
    }

    /// Returns whether the tensors are in the order in which they were written.
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(self.content, Content::Torch(_) | Content::Npz(_))
    }

    /// Reads the tensor with this index in [`WeightsFile::tensors`].
    pub fn read(&mut self, number: usize) -> Result<Tensor, WeightsError> {
        let WeightsFile { path, tensors, content, allowance } = self;
        let mut allowance = allowance.clone();
        let Some((name, ty)) = tensors.get(number) else {
            return Err(error(path, format!("there is no tensor {number}")));
        };
        let failed = |what: &dyn fmt::Display| error(path, format!("`{name}`: {what}"));
        let by = |source: Source| caused(path, source).named(name);
        let mut zeros = || allowance.clone().tensor(ty).and_then(|length| allowance.zeroed(length));
        match content {
            Content::SafeTensors { file, starts } => {
                let mut bytes = zeros().map_err(|e| by(e.into()))?;
                let mut reopened = None;
                let file = match file {
                    Some(file) => file,
                    None => reopened.insert(open_file(path).map_err(|e| by(e.into()))?),
                };
                let read = file
                    .seek(SeekFrom::Start(starts[number]))
                    .and_then(|_| file.read_exact(&mut bytes));
                read.map_err(|e| by(e.into()))?;
                Tensor::from_bytes(ty.clone(), bytes)
                    .ok_or_else(|| failed(&"it has not as many bytes as its shape says"))
            }
            #[cfg(feature = "keras")]
            Content::Keras(datasets, _) => {
                let mut bytes = zeros().map_err(|e| by(e.into()))?;
                hdf5::read(&datasets[number], ty.dtype.size(), &mut bytes)
                    .map_err(|e| failed(&e))?;
                Tensor::from_bytes(ty.clone(), bytes)
                    .ok_or_else(|| failed(&"it has not as many bytes as its shape says"))
            }
            Content::Torch(archive) => {
                archive.read(number, ty, &mut allowance).map_err(|e| failed(&e))
            }
            Content::Shards(files, places) => {
                let (file, number) = places[number];
                files[file].read(number)
            }
            Content::Npz(archive) => {
                let entry = archive.by_index(number).map_err(|e| by(e.into()))?;
                let tensor = npy::read_entry(entry, &mut allowance).map_err(|e| by(e.into()))?;
                // The file may have changed since it was opened.
                if tensor.ty() == ty {
                    Ok(tensor)
                } else {
                    Err(failed(&"it is no longer what it was"))
                }
            }
        }
    }
}

/// Converts a tensor to another type. Returns `None` if it is too large.
pub(crate) fn converted(tensor: Tensor, dtype: DType) -> Option<Tensor> {
    if tensor.dtype() == dtype {
        return Some(tensor);
    }
    Tensor::from_scalars(TensorType::new(dtype, tensor.shape()), tensor.scalars())
}
