//! Reads the `.pt` and `.pth` files of PyTorch: zip archives with a pickle that describes tensors,
//! and an entry for the bytes of each storage.
//!
//! - Nested dicts and lists are flattened: an entry is `optimizer.state.0.exp_avg`. Values that are
//!   no tensors are left out.
//! - A tensor is a view of a storage: any strides are gathered, and tensors may share a storage.
//! - Storages are stored, not compressed, so that views are read without the rest.
//!
//! Format: `torch/serialization.py`.

mod pickle;
mod value;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use tile_compiler::dtype::DType;
use tile_compiler::tensor::{Tensor, TensorType};
use zip::{CompressionMethod, ZipArchive};

use self::pickle::Pickle;
use self::value::{Id, Type, Value, View};
use super::{WeightsError, caused, error};
use crate::files::Allowance;

/// The maximum length of a pickle in bytes. It suffices for some 200,000 tensors.
const MOST_PICKLE: u64 = 32 << 20;

/// The maximum number of dicts and lists around a tensor.
const DEEPEST: usize = 64;

/// The bytes of memory that a visit of a value is counted as.
const VISIT_BYTES: u64 = 64;

const ADVICE: &str =
    "help: save the weights in Python, with `torch.save(model.state_dict(), \"model.pt\")`";

type Zip = ZipArchive<BufReader<File>>;

/// An open archive.
pub struct Archive {
    zip: Zip,
    places: Vec<StoredTensor>,
    is_big_endian: bool,
}

/// The place of a tensor in an archive.
struct StoredTensor {
    /// The number of the entry with the storage.
    entry: usize,
    /// The first byte of the tensor in its storage.
    start: u64,
    /// The number of bytes from the first element to the last.
    extent: usize,
    strides: Vec<u64>,
}

/// Opens an archive. Returns the names and types of its tensors in the file's order.
pub fn open(
    path: &Path,
    file: File,
    allowance: &mut Allowance,
) -> Result<(Vec<(String, TensorType)>, Archive), WeightsError> {
    let (mut zip, root) = open_zip(path, file)?;
    let is_big_endian = match zip.by_name(&format!("{root}byteorder")) {
        Ok(entry) => {
            let mut order = String::new();
            entry.take(16).read_to_string(&mut order).map_err(|e| caused(path, e))?;
            order == "big"
        }
        Err(_) => false,
    };
    let mut headers = allowance.clone();
    let bytes = read_pickle(path, &mut zip, &root, &mut headers)?;
    let pickle = pickle::read(&bytes, &mut headers)
        .map_err(|what| error(path, format!("its pickle is not one of a state_dict: {what}")))?;
    let found = flatten(&pickle, &mut headers).map_err(|what| error(path, what))?;
    let (mut tensors, mut places) =
        (Vec::with_capacity(found.len()), Vec::with_capacity(found.len()));
    let mut storages = HashMap::new();
    for (name, view) in found {
        let named = |what: String| error(path, format!("`{name}`: {what}"));
        let (ty, place) = place(&mut zip, &root, view, &mut storages).map_err(named)?;
        allowance.claim(&ty).map_err(|e| caused(path, e).named(&name))?;
        // A view with gaps takes the memory of its part of the storage, too.
        if !is_contiguous(&ty, &place.strides) {
            let extent = TensorType::new(DType::U8, [place.extent]);
            allowance.claim(&extent).map_err(|e| caused(path, e).named(&name))?;
        }
        tensors.push((name, ty));
        places.push(place);
    }
    Ok((tensors, Archive { zip, places, is_big_endian }))
}

fn invalid(path: &Path, what: impl fmt::Display) -> WeightsError {
    error(path, format!("this is not a valid file of PyTorch: {what}"))
}

/// Opens a zip archive. Returns the folder in it with the pickle and the storages.
fn open_zip(path: &Path, mut file: File) -> Result<(Zip, String), WeightsError> {
    let mut start = Vec::new();
    let read = file.by_ref().take(16).read_to_end(&mut start).and_then(|_| file.rewind());
    read.map_err(|e| caused(path, e))?;
    if !start.starts_with(b"PK") {
        return Err(error(path, not_an_archive(&start)));
    }
    let zip = ZipArchive::new(BufReader::new(file))
        .map_err(|e| invalid(path, format!("it is damaged or cut off: {e}")))?;
    let root = zip
        .file_names()
        .find_map(|name| name.strip_suffix("data.pkl").filter(|root| is_root(root)));
    let Some(root) = root.map(str::to_owned) else {
        return Err(error(path, format!("it is a zip archive without a `data.pkl`; {ADVICE}")));
    };
    if zip
        .file_names()
        .any(|name| name.strip_prefix(&root).is_some_and(|name| name.starts_with("code/")))
    {
        const LOAD: &str = "`torch.save(torch.jit.load(FILE).state_dict(), \"model.pt\")`";
        let what = format!(
            "it is an archive of TorchScript, with code; help: save its weights in Python, with {LOAD}"
        );
        return Err(error(path, what));
    }
    Ok((zip, root))
}

fn read_pickle(
    path: &Path,
    zip: &mut Zip,
    root: &str,
    allowance: &mut Allowance,
) -> Result<Vec<u8>, WeightsError> {
    let entry = zip.by_name(&format!("{root}data.pkl")).map_err(|e| invalid(path, e))?;
    let size = entry.size();
    if size > MOST_PICKLE {
        return Err(invalid(
            path,
            format!("its pickle has {size} bytes, and at most {MOST_PICKLE} are read"),
        ));
    }
    // An entry that is longer than it claims fails at the end, by its checksum.
    allowance.read_to_end(entry.take(MOST_PICKLE), size).map_err(|e| caused(path, e))
}

/// Returns whether this is a folder at the top of an archive, or the top.
fn is_root(folder: &str) -> bool {
    folder.is_empty() || folder.find('/') == Some(folder.len() - 1)
}

/// Describes a file that is no zip archive by its first bytes.
fn not_an_archive(start: &[u8]) -> String {
    const OLD: &str =
        "help: save it again in Python, with `torch.save(torch.load(\"old.pt\"), \"new.pt\")`";
    match start {
        // The magic number of torch.save.
        [0x80, 2, 0x8a, 10, 0x6c, 0xfc, ..] => {
            format!("it is of a version before PyTorch 1.6, which wrote no zip archives; {OLD}")
        }
        [0x80, ..] => format!("it is a pickle of Python, and no archive of `torch.save`; {ADVICE}"),
        _ => format!("it is no archive of `torch.save`; {ADVICE}"),
    }
}

/// Returns the tensors of a pickle by the keys on the way to each.
fn flatten<'a, 'p>(
    pickle: &'a Pickle<'p>,
    allowance: &mut Allowance,
) -> Result<Vec<(String, &'a View<'p>)>, String> {
    let mut walk =
        Walk { values: &pickle.values, name: String::new(), found: Vec::new(), allowance };
    walk.value(pickle.root, 0)?;
    let found = walk.found;
    if matches!(pickle.values[pickle.root as usize], Value::Tensor(_)) {
        return Err(format!("it is one tensor, without a name; {ADVICE}"));
    }
    if found.is_empty() {
        return Err(format!("it has no tensors; {ADVICE}"));
    }
    let mut names = HashSet::new();
    match found.iter().find(|(name, _)| !names.insert(name.as_str())) {
        Some((name, _)) => Err(format!("two tensors have the name `{name}`")),
        None => Ok(found),
    }
}

/// A traversal of nested dicts and lists.
struct Walk<'a, 'p, 'm> {
    values: &'a [Value<'p>],
    /// The keys on the way to the value, joined by `.`.
    name: String,
    found: Vec<(String, &'a View<'p>)>,
    /// A value may be visited on many ways, so each visit is counted.
    allowance: &'m mut Allowance,
}

impl Walk<'_, '_, '_> {
    fn value(&mut self, id: Id, depth: usize) -> Result<(), String> {
        if depth > DEEPEST {
            return Err(format!("its dicts are nested more than {DEEPEST} deep"));
        }
        let values = self.values;
        let length = self.name.len();
        match &values[id as usize] {
            Value::Tensor(view) => self.found.push((self.name.clone(), view)),
            Value::Dict(items) => {
                for (key, value) in items {
                    match values[*key as usize] {
                        Value::Text(key) => self.name(length, key)?,
                        Value::Integer(key) => self.name(length, &key.to_string())?,
                        _ => continue,
                    }
                    self.value(*value, depth + 1)?;
                }
            }
            Value::List(items) | Value::Tuple(items) => {
                for (number, item) in items.iter().enumerate() {
                    self.name(length, &number.to_string())?;
                    self.value(*item, depth + 1)?;
                }
            }
            _ => {}
        }
        self.name.truncate(length);
        Ok(())
    }

    /// Appends a key to the first `length` bytes of the name.
    fn name(&mut self, length: usize, key: &str) -> Result<(), String> {
        let bytes = VISIT_BYTES.saturating_add((length + key.len()) as u64);
        self.allowance.take(bytes).map_err(|error| error.to_string())?;
        self.name.truncate(length);
        if length > 0 {
            self.name.push('.');
        }
        self.name.push_str(key);
        Ok(())
    }
}

/// Returns the type and the place of a view. `storages` has the entries that are known, with their
/// sizes.
fn place<'p>(
    zip: &mut Zip,
    root: &str,
    view: &View<'p>,
    storages: &mut HashMap<&'p str, (usize, u64)>,
) -> Result<(TensorType, StoredTensor), String> {
    let dtype = match view.ty {
        Type::Known(dtype) => dtype,
        Type::Other(name) => {
            return Err(format!("it has the type `torch.{name}`, which Tile has not"));
        }
        Type::Bytes => return Err("it has no type".into()),
    };
    let (entry, size) = match storages.get(view.storage.key) {
        Some(known) => *known,
        None => {
            let name = format!("{root}data/{}", view.storage.key);
            let number = zip
                .index_for_name(&name)
                .ok_or_else(|| format!("the archive has no entry `{name}`"))?;
            let entry = zip.by_index(number).map_err(|e| e.to_string())?;
            if entry.compression() != CompressionMethod::Stored {
                return Err(
                    "its data are compressed; help: save the file again with `torch.save`".into()
                );
            }
            *storages.entry(view.storage.key).or_insert((number, entry.size()))
        }
    };
    let width = dtype.size() as u64;
    let ty = TensorType::new(dtype, view.shape.clone());
    let reach = |length: u64, (&size, &stride): (&usize, &u64)| {
        length.checked_add((size as u64).saturating_sub(1).checked_mul(stride)?)
    };
    let is_empty = view.shape.contains(&0);
    let length =
        view.shape.iter().zip(&view.strides).try_fold(u64::from(!is_empty), |length, axis| {
            match is_empty {
                true => Some(0),
                false => reach(length, axis),
            }
        });
    let start = view.offset.checked_mul(width);
    let extent = length.and_then(|length| length.checked_mul(width));
    let end = start.zip(extent).and_then(|(start, extent)| start.checked_add(extent));
    match (start, extent.and_then(|extent| usize::try_from(extent).ok()), end) {
        (Some(start), Some(extent), Some(end)) if end <= size || is_empty => {
            Ok((ty, StoredTensor { entry, start, extent, strides: view.strides.clone() }))
        }
        _ => Err(format!(
            "it is {ty} from element {} on, and its storage has {size} bytes",
            view.offset
        )),
    }
}

impl Archive {
    /// Reads the tensor `number`, which has the type `ty`.
    pub fn read(
        &mut self,
        number: usize,
        ty: &TensorType,
        allowance: &mut Allowance,
    ) -> Result<Tensor, String> {
        let StoredTensor { entry, start, extent, strides } = &self.places[number];
        let width = ty.dtype.size();
        let mut bytes = allowance.zeroed(*extent).map_err(|e| e.to_string())?;
        if *extent > 0 {
            let mut storage = self.zip.by_index_seek(*entry).map_err(|e| e.to_string())?;
            let read =
                storage.seek(SeekFrom::Start(*start)).and_then(|_| storage.read_exact(&mut bytes));
            read.map_err(|e| e.to_string())?;
        }
        if !is_contiguous(ty, strides) {
            let length = ty.checked_bytes().unwrap_or(usize::MAX);
            let mut gathered = allowance.zeroed(length).map_err(|e| e.to_string())?;
            gather(&bytes, &ty.shape, strides, width, &mut gathered);
            bytes = gathered;
        }
        if self.is_big_endian {
            bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
        }
        if ty.dtype == DType::Bool {
            bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
        Tensor::from_bytes(ty.clone(), bytes)
            .ok_or_else(|| "it has not as many bytes as its shape says".to_owned())
    }
}

/// Returns whether the elements lie one after the other, in row-major order. The stride of an axis
/// of size 1 does not matter.
fn is_contiguous(ty: &TensorType, strides: &[u64]) -> bool {
    let mut next = 1u64;
    let mut axes = ty.shape.iter().zip(strides).rev();
    ty.shape.contains(&0)
        || axes.all(|(&size, &stride)| {
            let is_next = size == 1 || stride == next;
            next = next.saturating_mul(size as u64);
            is_next
        })
}

/// Copies the elements of a view, `width` bytes each, in row-major order. `source` reaches from the
/// first element to the last.
fn gather(source: &[u8], shape: &[usize], strides: &[u64], width: usize, result: &mut [u8]) {
    let mut index = vec![0; shape.len()];
    let mut at = 0;
    // The stride of an axis of size 1 may be any number.
    let step =
        |(&size, &stride): (&usize, &u64)| if size > 1 { stride as usize * width } else { 0 };
    let steps: Vec<usize> = shape.iter().zip(strides).map(step).collect();
    for element in result.chunks_exact_mut(width) {
        element.copy_from_slice(&source[at..at + width]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                at += steps[axis];
                break;
            }
            at -= (shape[axis] - 1) * steps[axis];
            index[axis] = 0;
        }
    }
}
