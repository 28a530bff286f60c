//! Files of weights that Keras 3 writes, `.weights.h5`: HDF5, in which each layer is a group, and its variables are `vars/0`, `vars/1` in that.
//!
//! Always true: what is found are floats; counters and seeds, which are integers, and what an optimizer keeps are no weights. Memory for a tensor is
//! taken when it is read, and then no more than deflated data in a file of that length could fill.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use hdf5_reader::group::Group;
use hdf5_reader::storage::FileStorage;
use hdf5_reader::{ByteOrder, Dataset, Datatype, Hdf5File};
use tile_compiler::dtype::DType;
use tile_compiler::tensor::TensorType;

use super::{WeightsError, error};

/// What a file has.
pub struct Contents {
    /// `layers/dense/vars/0`
    pub tensors: Vec<(String, TensorType)>,
    /// As many.
    pub datasets: Vec<Dataset>,
    /// What Keras calls a layer, by the path of its group: `layers/dense`.
    pub titles: BTreeMap<String, String>,
}

/// Groups within groups; models are no deeper.
const DEEPEST: usize = 64;
/// To how many bytes one can grow by deflate.
const INFLATED: u64 = 1032;

/// Reads what the file has, but for the tensors' values.
pub fn open(path: &Path, file: File) -> Result<Contents, WeightsError> {
    let failed = |what: &dyn std::fmt::Display| error(path, format!("this is not a valid HDF5 file: {what}"));
    let length = file.metadata().map_err(|e| error(path, e))?.len();
    let storage = FileStorage::from_file(file).map_err(|e| failed(&e))?;
    let file = Hdf5File::from_storage(Arc::new(storage)).map_err(|e| failed(&e))?;
    let root = file.root_group().map_err(|e| failed(&e))?;
    let mut found = Contents { tensors: Vec::new(), datasets: Vec::new(), titles: BTreeMap::new() };
    let mut walk = Walk { found: &mut found, seen: HashSet::new(), most: length.saturating_mul(INFLATED) };
    walk.group(&root, "", 0).map_err(|what| failed(&what))?;
    if root.attribute("layer_names").is_ok() || root.group("model_weights").is_ok() {
        return Err(error(
            path,
            "this is a file of Keras 2: load it with Keras 3, and `model.save_weights(\"m.weights.h5\")`",
        ));
    }
    if found.tensors.is_empty() {
        return Err(error(
            path,
            "it has no weights as Keras 3 writes them with `model.save_weights(\"m.weights.h5\")`",
        ));
    }
    Ok(found)
}

struct Walk<'c> {
    found: &'c mut Contents,
    /// The places of groups: a damaged file may have one within itself.
    seen: HashSet<u64>,
    /// Bytes of a tensor.
    most: u64,
}

impl Walk<'_> {
    fn group(&mut self, group: &Group, path: &str, depth: usize) -> Result<(), String> {
        if depth > DEEPEST || !self.seen.insert(group.address()) {
            return Err(format!("its groups at `{path}` have no end"));
        }
        let (groups, datasets) = group.members().map_err(|e| e.to_string())?;
        let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
        if let Some(layer) = path.strip_suffix("vars") {
            if let Ok(title) = group.attribute("name").and_then(|name| name.read_string()) {
                self.found.titles.insert(layer.trim_end_matches('/').to_owned(), title);
            }
            for dataset in datasets {
                let name = join(dataset.name());
                if let Some(ty) = self.tensor_type(&dataset).map_err(|what| format!("`{name}`: {what}"))? {
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

    /// Its type; none where it has integers.
    fn tensor_type(&self, dataset: &Dataset) -> Result<Option<TensorType>, String> {
        let dtype = match dataset.dtype() {
            Datatype::FixedPoint { .. } => return Ok(None),
            // The size of the exponent, in bits, tells the two floats of 16 bits apart.
            Datatype::FloatingPoint { size: 2, .. } => match dataset.raw_datatype().map_err(|e| e.to_string())?.get(13)
            {
                Some(8) => DType::BF16,
                _ => DType::F16,
            },
            Datatype::FloatingPoint { size: 4, .. } => DType::F32,
            Datatype::FloatingPoint { size: 8, .. } => DType::F64,
            // As h5py writes what NumPy does not know.
            Datatype::Opaque { size: 2, .. } if is_bfloat16(dataset) => DType::BF16,
            _ => return Err("it has a type that Tile has not".into()),
        };
        let shape: Option<Vec<usize>> = dataset.shape().iter().map(|&size| usize::try_from(size).ok()).collect();
        let ty = shape.map(|shape| TensorType::new(dtype, shape));
        let fits = |ty: &TensorType| {
            let bytes = ty.checked_elements().and_then(|elements| elements.checked_mul(dtype.size()));
            bytes.is_some_and(|bytes| bytes as u64 <= self.most)
        };
        ty.filter(fits).map(Some).ok_or_else(|| "it claims to be larger than the file can hold".into())
    }
}

fn is_bfloat16(dataset: &Dataset) -> bool {
    dataset.attribute("dtype").and_then(|dtype| dtype.read_string()).is_ok_and(|dtype| dtype == "bfloat16")
}

/// The bytes of a tensor, little-endian.
pub fn read(dataset: &Dataset, size: usize) -> Result<Vec<u8>, String> {
    let mut bytes = dataset.read_raw_bytes().map_err(|e| e.to_string())?;
    if matches!(dataset.dtype(), Datatype::FloatingPoint { byte_order: ByteOrder::BigEndian, .. }) {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    Ok(bytes)
}
