//! Reads the weights of Keras 3, `.weights.h5`. The format is HDF5. Each layer is a group, and its
//! variables are `vars/0`, `vars/1` in that group. Files of Keras 2 have another layout, which
//! `keras2` reads. A whole model, `.keras`, is a zip archive with such a file.
//!
//! Invariants:
//! - All tensors found are floats. Counters and seeds, which are integers, and optimizer state are
//!   not weights.
//! - All tensors together, and all bytes read to find them, fit the file's allowance.
//! - Memory for a tensor is allocated when it is read.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use hdf5_reader::group::Group;
use hdf5_reader::storage::{BytesStorage, FileStorage, Storage, StorageBuffer};
use hdf5_reader::{ByteOrder, Dataset, Datatype, Hdf5File};
use tile_compiler::dtype::DType;
use tile_compiler::tensor::TensorType;
use zip::{CompressionMethod, ZipArchive};

use super::{Content, WeightsError, caused, error, keras2};
use crate::files::Allowance;

/// The tensors of a file.
pub struct Contents {
    /// The names and types, such as `layers/dense/vars/0`.
    pub tensors: Vec<(String, TensorType)>,
    /// The dataset of each tensor.
    pub datasets: Vec<Dataset>,
    /// The Keras name of each layer, by the path of its group, such as `layers/dense`.
    pub titles: BTreeMap<String, String>,
}

impl From<Contents> for (Vec<(String, TensorType)>, Content) {
    fn from(Contents { tensors, datasets, titles }: Contents) -> Self {
        (tensors, Content::Keras(datasets, titles))
    }
}

/// The maximum nesting depth of groups. Models are less deep.
pub const DEEPEST: usize = 64;

/// The name of the file of weights in an archive.
const IN_ARCHIVE: &str = "model.weights.h5";

/// A file that counts its reads. While it is opened the counts add up. Later each read is counted
/// alone.
struct Counted {
    file: Box<dyn Storage>,
    /// The part of the file with the HDF5 file: its start and its length.
    part: (u64, u64),
    allowance: Mutex<Allowance>,
    is_open: AtomicBool,
}

impl Storage for Counted {
    fn len(&self) -> u64 {
        self.part.1
    }

    fn read_range(
        &self,
        offset: u64,
        length: usize,
    ) -> Result<StorageBuffer, hdf5_reader::error::Error> {
        let (start, whole) = self.part;
        let available = whole.saturating_sub(offset);
        if length as u64 > available {
            let needed = length as u64;
            return Err(hdf5_reader::error::Error::UnexpectedEof { offset, needed, available });
        }
        let mut allowance = self.allowance.lock().unwrap_or_else(PoisonError::into_inner);
        allowance.take(length as u64).map_err(std::io::Error::from)?;
        if self.is_open.load(Relaxed) {
            allowance.give(length as u64);
        }
        drop(allowance);
        self.file.read_range(start + offset, length)
    }
}

/// Opens a file and finds its tensors. Reads no values.
pub fn open(path: &Path, file: File, allowance: &Allowance) -> Result<Contents, WeightsError> {
    let file = FileStorage::from_file(file).map_err(|e| caused(path, e))?;
    let length = file.len();
    read_tree(path, Box::new(file), (0, length), allowance)
}

/// Does the same for the file of weights in an archive of Keras. It stays where it is unless it is
/// compressed.
pub fn open_archive(
    path: &Path,
    file: File,
    mut allowance: Allowance,
) -> Result<Contents, WeightsError> {
    let invalid = |e: zip::result::ZipError| {
        error(path, format!("this is not a valid model of Keras: `{IN_ARCHIVE}`: {e}"))
    };
    let again = file.try_clone().map_err(|e| caused(path, e))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(invalid)?;
    let entry = archive.by_name(IN_ARCHIVE).map_err(invalid)?;
    if entry.compression() == CompressionMethod::Stored {
        let file = FileStorage::from_file(again).map_err(|e| caused(path, e))?;
        let start = entry.data_start();
        let length = entry.size().min(file.len().saturating_sub(start));
        return read_tree(path, Box::new(file), (start, length), &allowance);
    }
    let size = entry.size();
    allowance.expect(size).map_err(|e| caused(path, e))?;
    let bytes = allowance.read_to_end(entry, size).map_err(|e| caused(path, e))?;
    let length = bytes.len() as u64;
    read_tree(path, Box::new(BytesStorage::new(bytes)), (0, length), &allowance)
}

fn read_tree(
    path: &Path,
    file: Box<dyn Storage>,
    part: (u64, u64),
    allowance: &Allowance,
) -> Result<Contents, WeightsError> {
    let failed = |what: &dyn std::fmt::Display| {
        error(path, format!("this is not a valid HDF5 file: {what}"))
    };
    let allowance_of_reads = Mutex::new(allowance.clone());
    let storage = Arc::new(Counted {
        file,
        part,
        allowance: allowance_of_reads,
        is_open: AtomicBool::new(false),
    });
    let file = Hdf5File::from_storage(storage.clone()).map_err(|e| failed(&e))?;
    let root = file.root_group().map_err(|e| failed(&e))?;
    let mut found = Contents { tensors: Vec::new(), datasets: Vec::new(), titles: BTreeMap::new() };
    let mut walk = Walk { found: &mut found, seen: HashSet::new(), allowance: allowance.clone() };
    let read = match keras2::layers(&root) {
        Some(layers) => keras2::read(&mut walk, &root, &layers),
        None => walk.group(&root, "", 0),
    };
    read.map_err(|what| failed(&what))?;
    storage.is_open.store(true, Relaxed);
    if found.tensors.is_empty() {
        return Err(error(
            path,
            "it has no weights as Keras writes them with `model.save_weights(\"m.weights.h5\")`",
        ));
    }
    Ok(found)
}

/// The state of a traversal.
pub struct Walk<'c> {
    pub found: &'c mut Contents,
    /// The addresses of visited groups. A damaged file may contain a cycle.
    seen: HashSet<u64>,
    /// The remaining allowance for tensors.
    allowance: Allowance,
}

impl Walk<'_> {
    fn group(&mut self, group: &Group, path: &str, depth: usize) -> Result<(), String> {
        if depth > DEEPEST || !self.seen.insert(group.address()) {
            return Err(format!("its groups at `{path}` have no end"));
        }
        let (groups, datasets) = group.members().map_err(|e| e.to_string())?;
        let join =
            |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
        if let Some(layer) = path.strip_suffix("vars") {
            if let Ok(title) = group.attribute("name").and_then(|name| name.read_string()) {
                self.found.titles.insert(layer.trim_end_matches('/').to_owned(), title);
            }
            // A SpectralNormalization has its layer's kernel among its own variables, too.
            let class = layer.trim_end_matches(|c: char| "/_".contains(c) || c.is_ascii_digit());
            let doubled = class.ends_with("spectral_normalization") && datasets.len() == 2;
            for dataset in datasets.into_iter().filter(|one| !doubled || one.name() != "0") {
                let name = join(dataset.name());
                if let Some(ty) =
                    self.tensor_type(&dataset).map_err(|what| format!("`{name}`: {what}"))?
                {
                    self.found.tensors.push((name, ty));
                    self.found.datasets.push(dataset);
                }
            }
        }
        for inner in groups.iter().filter(|inner| depth > 0 || inner.name() != "optimizer") {
            self.group(inner, &join(inner.name()), depth + 1)?;
        }
        Ok(())
    }

    /// Returns a tensor's type, or `None` for integers.
    pub fn tensor_type(&mut self, dataset: &Dataset) -> Result<Option<TensorType>, String> {
        let dtype = match dataset.dtype() {
            Datatype::FixedPoint { .. } => return Ok(None),
            // The size of the exponent in bits distinguishes f16 and bf16.
            Datatype::FloatingPoint { size: 2, .. } => {
                match dataset.raw_datatype().map_err(|e| e.to_string())?.get(13) {
                    Some(8) => DType::BF16,
                    _ => DType::F16,
                }
            }
            Datatype::FloatingPoint { size: 4, .. } => DType::F32,
            Datatype::FloatingPoint { size: 8, .. } => DType::F64,
            // h5py writes types that NumPy lacks as opaque.
            Datatype::Opaque { size: 2, .. } if is_bfloat16(dataset) => DType::BF16,
            _ => return Err("it has a type that Tile has not".into()),
        };
        let shape: Option<Vec<usize>> =
            dataset.shape().iter().map(|&size| usize::try_from(size).ok()).collect();
        let ty =
            TensorType::new(dtype, shape.ok_or("it claims to be larger than the file can hold")?);
        self.allowance.claim(&ty).map_err(|error| error.to_string())?;
        Ok(Some(ty))
    }
}

fn is_bfloat16(dataset: &Dataset) -> bool {
    dataset
        .attribute("dtype")
        .and_then(|dtype| dtype.read_string())
        .is_ok_and(|dtype| dtype == "bfloat16")
}

/// Reads a tensor into `bytes`, little-endian. `bytes` must have the tensor's length.
pub fn read(dataset: &Dataset, size: usize, bytes: &mut [u8]) -> Result<(), String> {
    dataset.read_raw_bytes_into(bytes).map_err(|e| e.to_string())?;
    if matches!(dataset.dtype(), Datatype::FloatingPoint { byte_order: ByteOrder::BigEndian, .. }) {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    Ok(())
}
