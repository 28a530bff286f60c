//! Opens files of weights: finds the names, types and positions of their tensors. All tensors of a
//! file together must fit its allowance.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use safetensors::tensor::{Metadata, TensorInfo};
use tile_compiler::dtype::DType;
use tile_compiler::tensor::TensorType;
use tile_lang::Limits;
use zip::ZipArchive;

use super::{Content, WeightsError, WeightsFile, caused, error};
use crate::files::npy;
use crate::files::{Allowance, MOST_AXES, read_file};
use crate::safetensors_types::dtype as dtype_of;

/// The maximum length of a safetensors header or an index in bytes. It suffices for some 300,000
/// tensors.
const MOST_HEADER: u64 = 32 << 20;

/// The maximum number of files in an index.
const MOST_SHARDS: usize = 10_000;

/// The maximum number of an index's files that stay open. Systems allow a process some hundreds.
const MOST_OPEN: usize = 64;

/// The names and types of a file's tensors, and the means to read them.
type Opened = (Vec<(String, TensorType)>, Content);

/// Opens a safetensors file. The format has the length of the header in 8 bytes, the header, and
/// the tensors' bytes without gaps.
///
/// Format: <https://github.com/huggingface/safetensors#format>
pub fn safetensors(
    path: &Path,
    mut file: File,
    mut allowance: Allowance,
) -> Result<Opened, WeightsError> {
    let io = |e: std::io::Error| caused(path, e);
    let invalid = |what: &dyn fmt::Display| {
        error(path, format!("this is not a valid safetensors file: {what}"))
    };
    let length = file.metadata().map_err(io)?.len();
    let mut header_length = [0; 8];
    file.read_exact(&mut header_length).map_err(|_| invalid(&"it has no header"))?;
    let header_length = u64::from_le_bytes(header_length);
    let begin = header_length.checked_add(8).filter(|begin| *begin <= length);
    let begin = begin.ok_or_else(|| invalid(&"its header is longer than the file"))?;
    if header_length > MOST_HEADER {
        return Err(invalid(&format!(
            "its header has {header_length} bytes, and at most {MOST_HEADER} are read"
        )));
    }
    let mut header =
        allowance.clone().zeroed(header_length as usize).map_err(|e| caused(path, e))?;
    file.read_exact(&mut header).map_err(io)?;
    let header: Metadata = serde_json::from_slice(&header).map_err(|e| invalid(&e))?;
    if begin.checked_add(header.data_len() as u64) != Some(length) {
        return Err(invalid(&"it is not as long as its header says"));
    }
    let (mut tensors, mut starts) = (Vec::new(), Vec::new());
    for name in header.offset_keys() {
        let Some(TensorInfo { dtype, shape, data_offsets }) = header.info(&name) else { continue };
        let dtype = dtype_of(*dtype).ok_or_else(|| {
            error(path, format!("`{name}` has the type {dtype:?}, which Tile has not"))
        })?;
        let ty = tensor_type(path, &name, dtype, shape)?;
        allowance.claim(&ty).map_err(|e| caused(path, e).named(&name))?;
        starts.push(begin + data_offsets.0 as u64);
        tensors.push((name, ty));
    }
    Ok((tensors, Content::SafeTensors { file: Some(file), starts }))
}

/// Returns a tensor's type. Fails if it has more than [`MOST_AXES`] axes.
fn tensor_type(
    path: &Path,
    name: &str,
    dtype: DType,
    shape: &[usize],
) -> Result<TensorType, WeightsError> {
    match shape.len() {
        ..=MOST_AXES => Ok(TensorType::new(dtype, shape)),
        axes => {
            Err(error(path, format!("`{name}` has {axes} axes, and a tensor may have {MOST_AXES}")))
        }
    }
}

/// Opens an index of safetensors files. The format is an object whose `weight_map` maps the name of
/// each tensor to its file.
///
/// Format: <https://huggingface.co/docs/safetensors/index>
pub fn index(path: &Path, file: File, limits: Option<Limits>) -> Result<Opened, WeightsError> {
    let invalid = |what: &dyn fmt::Display| {
        error(path, format!("this is not a valid index of safetensors files: {what}"))
    };
    let (bytes, _) = read_file(file, limits).map_err(|e| caused(path, e))?;
    if bytes.len() as u64 > MOST_HEADER {
        return Err(invalid(&format!(
            "it has {} bytes, and at most {MOST_HEADER} are read",
            bytes.len()
        )));
    }
    // Editors on Windows write a byte order mark at the start of a text.
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let mut index: serde_json::Value = serde_json::from_slice(text).map_err(|e| invalid(&e))?;
    let weight_map = index.get_mut("weight_map").map(serde_json::Value::take).unwrap_or_default();
    let weight_map: BTreeMap<String, String> =
        serde_json::from_value(weight_map).map_err(|e| invalid(&e))?;
    let shards: BTreeSet<&str> = weight_map.values().map(String::as_str).collect();
    if shards.len() > MOST_SHARDS {
        return Err(error(
            path,
            format!("it names {} files, and at most {MOST_SHARDS} are read", shards.len()),
        ));
    }
    let mut files: Vec<WeightsFile> = Vec::with_capacity(shards.len());
    let mut known: HashMap<(&str, String), (usize, usize)> = HashMap::new();
    for &shard in &shards {
        if !shard.ends_with(".safetensors") || shard.contains(['/', '\\']) {
            return Err(invalid(&format!("`{shard}` is no safetensors file beside it")));
        }
        let mut opened = WeightsFile::open_within(path.with_file_name(shard), limits)?;
        if let Content::SafeTensors { file, .. } = &mut opened.content
            && files.len() >= MOST_OPEN
        {
            *file = None;
        }
        let numbered = opened.tensors.iter().enumerate();
        known.extend(
            numbered.map(|(number, (name, _))| ((shard, name.clone()), (files.len(), number))),
        );
        files.push(opened);
    }
    let (mut tensors, mut places) = (Vec::new(), Vec::new());
    for (tensor, shard) in &weight_map {
        let found = known.get(&(shard.as_str(), tensor.clone()));
        let &(file, number) =
            found.ok_or_else(|| error(path, format!("`{shard}` has no tensor `{tensor}`")))?;
        tensors.push(files[file].tensors[number].clone());
        places.push((file, number));
    }
    Ok((tensors, Content::Shards(files, places)))
}

pub fn npz(path: &Path, file: File, mut allowance: Allowance) -> Result<Opened, WeightsError> {
    let invalid = |e| error(path, format!("this is not a valid .npz file: {e}"));
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(invalid)?;
    let mut tensors = Vec::with_capacity(archive.len());
    for number in 0..archive.len() {
        let entry = archive.by_index(number).map_err(invalid)?;
        let name = entry.name().strip_suffix(".npy").unwrap_or(entry.name()).to_owned();
        let ty = npy::read_type(entry).map_err(|e| caused(path, e).named(&name))?;
        // Entries may share bytes of the file, so each one is counted.
        allowance.claim(&ty).map_err(|e| caused(path, e).named(&name))?;
        tensors.push((name, ty));
    }
    Ok((tensors, Content::Npz(archive)))
}
