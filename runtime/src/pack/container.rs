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

/// Returns the checksum of an index and of tensors, which are sorted by name.
pub fn checksum<'a>(
    index: &str,
    tensors: impl Iterator<Item = (&'a str, &'a TensorType, &'a [u8])>,
) -> String {
    let mut hasher = Hasher::new();
    hasher.update(index.as_bytes());
    for (name, ty, bytes) in tensors {
        hasher.update(format!("\0{name}\0{ty}\0").as_bytes());
        hasher.update(bytes);
    }
    format!("{:08x}", hasher.finalize())
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
        let mut sorted: Vec<_> = tensors.iter().collect();
        sorted.sort_by_key(|(name, _)| *name);
        let parts = sorted.iter().map(|(name, (ty, range))| (&***name, ty, &bytes[range.clone()]));
        if text("checksum") != Some(checksum(&index, parts).as_str()) {
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
        self.tensors.get(name).map(|(_, range)| &self.bytes[range.clone()])
    }

    /// Returns a copy of a tensor.
    pub fn tensor(&self, name: &str) -> Option<Tensor> {
        let (ty, range) = self.tensors.get(name)?;
        Tensor::from_bytes(ty.clone(), self.bytes[range.clone()].to_vec())
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
