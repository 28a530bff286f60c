//! Files of weights: safetensors, several safetensors files with an index, NumPy's .npz and Keras'
//! .h5. An entry's name is the path of the weight. A .h5 file has its own names, which `keras` maps
//! to paths.
//!
//! A file is checked completely before a session changes, so a file that does not fit leaves the
//! session as it was. Its tensors are read one by one, so there is never a second copy of all of
//! them.

#[cfg(feature = "keras")]
mod hdf5;
mod keras;
#[cfg(feature = "keras")]
mod keras2;
mod open;
mod write;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use safetensors::tensor::Dtype;
use tile_compiler::dtype::DType;
use tile_compiler::tensor::{Tensor, TensorType};
use tile_lang::{Limits, did_you_mean};
use zip::ZipArchive;

use crate::error::{Error, Source};
use crate::files::npy;
use crate::files::{Allowance, open_file};
use crate::session::Session;

pub use crate::error::WeightsError;
pub use write::write;

/// The format that a file's extension implies.
enum Format {
    SafeTensors,
    Npz,
    /// An index that maps each tensor to one of several safetensors files beside it.
    Index,
    #[cfg(feature = "keras")]
    Keras,
}

fn format(path: &Path) -> Result<Format, WeightsError> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("safetensors") => Ok(Format::SafeTensors),
        Some("npz") => Ok(Format::Npz),
        Some("json") => Ok(Format::Index),
        #[cfg(feature = "keras")]
        Some("h5" | "hdf5") => Ok(Format::Keras),
        #[cfg(not(feature = "keras"))]
        Some("h5" | "hdf5") => Err(error(path, "this build is without the files of Keras")),
        _ => Err(error(
            path,
            "the name of a file of weights ends in .safetensors, .safetensors.index.json, .npz, .h5 or .hdf5",
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
        let source = self.source.as_ref().map_or(String::new(), ToString::to_string);
        self.what = if name.is_empty() { source } else { format!("`{name}`: {source}") };
        self
    }
}

/// An open .safetensors, .npz or .h5 file, or an open index of several files. The names and types
/// of its tensors are known. Each tensor is read on demand.
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
    pub fn open_within(path: impl Into<PathBuf>, limits: Option<Limits>) -> Result<WeightsFile, WeightsError> {
        let path = path.into();
        let format = format(&path)?;
        let file = open_file(&path).map_err(|e| caused(&path, e))?;
        let allowance = Allowance::of(&file, limits).map_err(|e| caused(&path, e))?;
        let (tensors, content) = match format {
            Format::SafeTensors => open::safetensors(&path, file, allowance.clone())?,
            Format::Npz => open::npz(&path, file, allowance.clone())?,
            Format::Index => open::index(&path, file, limits)?,
            #[cfg(feature = "keras")]
            Format::Keras => {
                let hdf5::Contents { tensors, datasets, titles } = hdf5::open(&path, file, &allowance)?;
                (tensors, Content::Keras(datasets, titles))
            }
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
                let read = file.seek(SeekFrom::Start(starts[number])).and_then(|_| file.read_exact(&mut bytes));
                read.map_err(|e| by(e.into()))?;
                Tensor::from_bytes(ty.clone(), bytes)
                    .ok_or_else(|| failed(&"it has not as many bytes as its shape says"))
            }
            #[cfg(feature = "keras")]
            Content::Keras(datasets, _) => {
                let mut bytes = zeros().map_err(|e| by(e.into()))?;
                hdf5::read(&datasets[number], ty.dtype.size(), &mut bytes).map_err(|e| failed(&e))?;
                Tensor::from_bytes(ty.clone(), bytes)
                    .ok_or_else(|| failed(&"it has not as many bytes as its shape says"))
            }
            Content::Shards(files, places) => {
                let (file, number) = places[number];
                files[file].read(number)
            }
            Content::Npz(archive) => {
                let entry = archive.by_index(number).map_err(|e| by(e.into()))?;
                let tensor = npy::read_entry(entry, &mut allowance).map_err(|e| by(e.into()))?;
                // The file may have changed since it was opened.
                if tensor.ty() == ty { Ok(tensor) } else { Err(failed(&"it is no longer what it was")) }
            }
        }
    }
}

const DTYPES: [(DType, Dtype); 13] = [
    (DType::Bool, Dtype::BOOL),
    (DType::I8, Dtype::I8),
    (DType::I16, Dtype::I16),
    (DType::I32, Dtype::I32),
    (DType::I64, Dtype::I64),
    (DType::U8, Dtype::U8),
    (DType::U16, Dtype::U16),
    (DType::U32, Dtype::U32),
    (DType::U64, Dtype::U64),
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
];

/// Returns the program's paths of a file's tensors. They are the names in the file, except for a
/// Keras file.
pub(crate) fn paths(
    file: &Path,
    expected: &[(String, TensorType)],
    found: &[(String, TensorType)],
    titles: Option<&Titles>,
) -> Result<Vec<String>, WeightsError> {
    match titles {
        Some(titles) => keras::paths(expected, found, titles).map_err(|what| error(file, what)),
        None => Ok(found.iter().map(|(name, _)| name.clone()).collect()),
    }
}

/// Returns whether an entry serves only training and evaluation: training state or a weight of a
/// loss. Such an entry is ignored if the model has no weight of this name.
pub(crate) fn is_of_training(path: &str) -> bool {
    let first = path.split(['.', '[']).next().unwrap_or_default();
    let number = first.strip_prefix("loss").map(|rest| rest.strip_prefix('_').unwrap_or(rest));
    first == "train" || number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns whether an entry is the counter that PyTorch writes beside the statistics of each batch
/// normalization.
fn is_counter(name: &str) -> bool {
    name.rsplit('.').next() == Some("num_batches_tracked")
}

/// Returns the entries of a file that no weight takes.
///
/// # Errors
/// Returns a text with the weights that are missing or have another shape or type, and the entries
/// that the program lacks, except PyTorch's counters. With `allow_extra` such entries are no error.
pub(crate) fn unused(
    expected: &[(String, TensorType)],
    found: &[(String, TensorType)],
    allow_extra: bool,
) -> Result<Vec<String>, String> {
    let (mut lines, mut unknown, mut unused) = (Vec::new(), Vec::new(), Vec::new());
    let by_name: HashMap<&str, &TensorType> = found.iter().rev().map(|(name, ty)| (name.as_str(), ty)).collect();
    const SHOWN: usize = 12;
    let paths_in_order = || expected.iter().map(|(path, _)| path.as_str());
    let paths: HashSet<&str> = expected.iter().map(|(path, _)| path.as_str()).collect();
    for (path, ty) in expected {
        match by_name.get(path.as_str()) {
            None => lines.push(format!("`{path}`, {ty}, is missing")),
            Some(found) if !fits(ty, found) => {
                lines.push(format!("`{path}` must be {ty}, and is {found}"));
            }
            Some(_) => {}
        }
    }
    let is_missing = !lines.is_empty();
    for (name, ty) in found {
        if paths.contains(name.as_str()) {
            continue;
        }
        unused.push(name.clone());
        // If weights are missing, an extra entry may be one of them under another name, so it is
        // shown.
        if is_counter(name) || (allow_extra && !is_missing) {
            continue;
        }
        // Only the shown entries need a suggestion.
        let is_shown = unknown.len() < SHOWN;
        let guess = did_you_mean(name, paths_in_order().filter(|_| is_shown));
        let guess = guess.map_or(String::new(), |guess| format!("; {guess}"));
        unknown.push(format!("`{name}`, {ty}, is no weight of the program{guess}"));
    }
    let has_extra_alone = lines.is_empty() && !unknown.is_empty();
    for lines in [&mut lines, &mut unknown] {
        let more = lines.len().saturating_sub(SHOWN);
        lines.truncate(SHOWN);
        if more > 0 {
            lines.push(format!("and {more} more like these"));
        }
    }
    lines.extend(unknown);
    if has_extra_alone {
        lines.push("help: pass `--allow-extra` to leave out what the program does not have".into());
    }
    if lines.is_empty() { Ok(unused) } else { Err(lines.join("\n  ")) }
}

/// Returns whether a weight can take an entry. Float types are converted to each other.
fn fits(expected: &TensorType, found: &TensorType) -> bool {
    expected.shape == found.shape
        && (expected.dtype == found.dtype || (expected.dtype.is_float() && found.dtype.is_float()))
}

/// Converts a tensor to another type. Returns `None` if it is too large.
pub(crate) fn converted(tensor: Tensor, dtype: DType) -> Option<Tensor> {
    if tensor.dtype() == dtype {
        return Some(tensor);
    }
    Tensor::from_scalars(TensorType::new(dtype, tensor.shape()), tensor.scalars())
}

impl Session {
    /// Loads all weights from a .safetensors or .npz file by their paths, or from a .h5 file by its
    /// layers. Floats are converted to the weight's type. Returns the entries that no weight takes:
    /// PyTorch's `num_batches_tracked`.
    ///
    /// # Errors
    /// Returns [`Error::Weights`] with all entries that are missing, unknown to the program or of
    /// another shape. No weight has changed then. If reading fails later, the preceding weights
    /// have changed.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<Vec<String>, Error> {
        self.load_from(path.as_ref(), false)
    }

    /// Does the same, but allows extra entries, except in a Keras file.
    pub fn load_allowing_extra(&mut self, path: impl AsRef<Path>) -> Result<Vec<String>, Error> {
        self.load_from(path.as_ref(), true)
    }

    fn load_from(&mut self, path: &Path, allow_extra: bool) -> Result<Vec<String>, Error> {
        let mut file = WeightsFile::open(path).map_err(Error::Weights)?;
        let expected: Vec<(String, TensorType)> =
            self.weights().map(|(path, ty)| (path.to_owned(), ty.clone())).collect();
        let paths = paths(path, &expected, file.tensors(), file.titles()).map_err(Error::Weights)?;
        // Entries that serve only training are ignored.
        let types = file.tensors().iter().map(|(_, ty)| ty.clone());
        let expected_types: HashMap<&str, &TensorType> =
            expected.iter().map(|(path, ty)| (path.as_str(), ty)).collect();
        let is_left_out = |name: &str| is_of_training(name) && !expected_types.contains_key(name);
        let found: Vec<_> = paths.iter().cloned().zip(types).filter(|(name, _)| !is_left_out(name)).collect();
        let unused = unused(&expected, &found, allow_extra).map_err(|what| {
            Error::Weights(error(path, format!("it does not have the program's weights:\n  {what}")))
        })?;
        for (number, name) in paths.iter().enumerate() {
            let Some(ty) = expected_types.get(name.as_str()) else { continue };
            let tensor = file.read(number).map_err(Error::Weights)?;
            if let Some(tensor) = converted(tensor, ty.dtype) {
                self.set(name, &tensor)?;
            }
        }
        Ok(unused)
    }

    /// Saves all weights by path to a .safetensors or .npz file.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let mut tensors = Vec::new();
        for name in self.weights().map(|(path, _)| path.to_owned()).collect::<Vec<_>>() {
            tensors.push((name.clone(), self.get(&name)?));
        }
        write(path.as_ref(), &tensors)
    }
}
