//! [`Container`]: the file of a pack, a safetensors file with metadata and a checksum.
//!
//! Format: <https://github.com/huggingface/safetensors#format>

use std::collections::HashMap;
use std::ops::Range;

use crc32fast::Hasher;
use safetensors::SafeTensors;
use safetensors::tensor::Metadata;
use tile_compiler::tensor::{Tensor, TensorType};

use super::VERSION;
use crate::safetensors_types::dtype;
use crate::value::View;
#[cfg(feature = "build")]
use {
    crate::safetensors_types::stored,
    serde_json::{Map, json},
    std::borrow::Cow,
    std::cmp::Reverse,
    std::collections::BTreeMap,
};

/// A file in memory, whose checksum is right.
pub struct Container {
    bytes: Vec<u8>,
    tensors: HashMap<String, (TensorType, Range<usize>)>,
    index: String,
}

impl std::fmt::Debug for Container {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Container").field("tensors", &self.tensors).finish_non_exhaustive()
    }
}

/// The checksum of a file in which it is not known yet.
const UNKNOWN: &str = "00000000";

/// Returns the place of the checksum's digits in a file, and the checksum of the file with
/// [`UNKNOWN`] there. The place is found in the text of the header, so that every byte counts.
fn checksum(bytes: &[u8], header: usize) -> Option<(Range<usize>, String)> {
    const KEY: &[u8] = b"\"checksum\":\"";
    let header = bytes.get(8..8 + header)?;
    let start = 8 + header.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let digits = start..start + UNKNOWN.len();
    let mut hasher = Hasher::new();
    hasher.update(&bytes[..start]);
    hasher.update(UNKNOWN.as_bytes());
    hasher.update(bytes.get(digits.end..)?);
    Some((digits, format!("{:08x}", hasher.finalize())))
}

/// Returns the bytes of a file with these metadata, to which the checksum is added. The widest
/// elements come first, so that all are aligned.
///
/// # Errors
/// Fails if the header cannot be written as JSON.
#[cfg(feature = "build")]
pub fn write(
    metadata: &[(&str, &str)],
    tensors: &BTreeMap<Cow<str>, &Tensor>,
) -> Result<Vec<u8>, serde_json::Error> {
    let texts = metadata.iter().chain(&[("checksum", UNKNOWN)]);
    let texts: BTreeMap<&str, &str> = texts.copied().collect();
    let mut header = Map::from_iter([("__metadata__".to_owned(), json!(texts))]);
    let mut sorted: Vec<(&Cow<str>, &&Tensor)> = tensors.iter().collect();
    sorted.sort_by_key(|(_, tensor)| Reverse(tensor.dtype().size()));
    let mut end = 0;
    for (name, tensor) in &sorted {
        let start = end;
        end += tensor.bytes().len();
        let (dtype, shape) = (stored(tensor.dtype()), tensor.shape());
        let info = json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, end] });
        header.insert(name.to_string(), info);
    }
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut bytes = Vec::with_capacity(8 + header.len() + end);
    bytes.extend((header.len() as u64).to_le_bytes());
    bytes.extend(&header);
    sorted.iter().for_each(|(_, tensor)| bytes.extend(tensor.bytes()));
    if let Some((digits, sum)) = checksum(&bytes, header.len()) {
        bytes[digits].copy_from_slice(sum.as_bytes());
    }
    Ok(bytes)
}

impl Container {
    /// Reads a file.
    ///
    /// # Errors
    /// Fails with a sentence if the file is no pack, has another version or is damaged.
    pub fn read(bytes: Vec<u8>) -> Result<Container, String> {
        let not_valid = |what: &dyn std::fmt::Display| format!("this is not a valid pack: {what}");
        let (header, metadata) =
            SafeTensors::read_metadata(&bytes).map_err(|error| not_valid(&error))?;
        let texts = metadata.metadata().clone().unwrap_or_default();
        let text = |key: &str| texts.get(key).map(String::as_str);
        if text("format") != Some("tilepack") {
            return Err("this is a safetensors file, but not a pack".into());
        }
        match text("version") {
            Some(VERSION) => {}
            version => {
                let (version, maker) = (version.unwrap_or("?"), text("made_by").unwrap_or("?"));
                return Err(format!(
                    "the pack has version {version} of the format and was made by {maker}; this \
                     software reads version {VERSION}: build the pack again"
                ));
            }
        }
        let tensors = tensors(&metadata, 8 + header).map_err(|what| not_valid(&what))?;
        let index = text("index").ok_or_else(|| not_valid(&"it has no index"))?.to_owned();
        let sum = checksum(&bytes, header);
        if sum.is_none_or(|(digits, sum)| bytes[digits] != *sum.as_bytes()) {
            return Err("the pack is damaged: its checksum differs from its contents".into());
        }
        Ok(Container { bytes, tensors, index })
    }

    /// Returns the index as JSON.
    pub fn index(&self) -> &str {
        &self.index
    }

    /// Returns the names and types of the tensors, in no particular order.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, TensorType)> {
        self.tensors.iter().map(|(name, (ty, _))| (name.as_str(), ty.clone()))
    }

    /// Returns the bytes of a tensor.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.view(name).map(|view| view.bytes)
    }

    /// Returns a tensor where it lies in the file.
    pub fn view(&self, name: &str) -> Option<View<'_>> {
        let (ty, range) = self.tensors.get(name)?;
        Some(View { ty, bytes: &self.bytes[range.clone()] })
    }

    /// Returns a copy of a tensor.
    pub fn tensor(&self, name: &str) -> Option<Tensor> {
        self.view(name)?.to_tensor()
    }
}

/// Returns the types of tensors and their places in the file. The header has been validated: the
/// places are inside the file.
fn tensors(
    metadata: &Metadata,
    start: usize,
) -> Result<HashMap<String, (TensorType, Range<usize>)>, String> {
    let tensor = |(name, info): (String, &safetensors::tensor::TensorInfo)| {
        let dtype = dtype(info.dtype)
            .ok_or_else(|| format!("`{name}` has the type {:?}, which Tile has not", info.dtype))?;
        let ty = TensorType::new(dtype, info.shape.as_slice());
        let (from, to) = info.data_offsets;
        if ty.checked_bytes() != Some(to - from) {
            return Err(format!("`{name}` has {} bytes, and its type {ty} other ones", to - from));
        }
        Ok((name, (ty, start + from..start + to)))
    };
    metadata.tensors().into_iter().map(tensor).collect()
}
