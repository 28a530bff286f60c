//! Converts models that Keras saved, `.keras`, to Tile programs: `config` reads the layers,
//! `options`, `operations` and `program` write them in Tile. In the other direction, `reader` reads
//! a Tile program as the same layers, `objects` has their options, and `writer` and `export` write
//! the file.
//!
//! A weight gets its path from the program: the layers of the program that have weights are in the
//! order of their first application on both sides, and [`super::keras`] maps each layer's tensors.

mod config;
mod export;
mod items;
mod kinds;
mod names;
mod objects;
mod operations;
mod options;
mod program;
mod reader;
mod writer;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use tile_compiler::dtype::DType;
use tile_compiler::lower::{Bindings, lower};
use tile_compiler::tensor::TensorType;
use tile_lang::ast::DimKind;
use zip::ZipArchive;

pub use self::export::KerasModel;
use self::program::Written;
use super::{LoadOptions, Titles, WeightsError, WeightsFile, caused, converted, error, keras};
use crate::error::Error;
use crate::files::{Allowance, open_file};
use crate::model::Model;
use crate::tile_program::TileProgram;

/// The sizes to assume, one after the other, for the sizes that a model leaves open. Its weights do
/// not depend on them, but windows must fit, and some models halve their images several times.
pub const ASSUMED_SIZES: [usize; 3] = [64, 224, 7];

/// The maximum length of a configuration in bytes.
const MOST_CONFIG: u64 = 32 << 20;

impl TileProgram {
    /// Converts a model in Keras' format, `.keras`: a Sequential or Functional model of layers that
    /// the library has. Its weights are read from the file when they are needed.
    ///
    /// # Errors
    /// Returns [`Error::Keras`] with all layers and options that the library lacks, and
    /// [`Error::Weights`] if the file cannot be read.
    pub fn of_keras(path: impl AsRef<Path>) -> Result<TileProgram, Error> {
        let path = path.as_ref();
        let refuse = |what: String| Error::Keras { what: vec![what] };
        let mut config = config_of(path).map_err(Error::Weights)?;
        let network = config::network(&mut config).map_err(refuse)?;
        let Written { text, layers } =
            program::write(&network).map_err(|what| Error::Keras { what })?;
        let text = tile_lang::format(&text).unwrap_or(text);
        let expected = weights_of(&text)?;
        if expected.is_empty() {
            let read = |_| Err(Error::internal("the program has no weights"));
            return Ok(TileProgram { text, paths: Vec::new(), read: Box::new(read) });
        }
        let file = WeightsFile::open(path).map_err(Error::Weights)?;
        let titles = file.titles().cloned().unwrap_or_default();
        let found = assigned(&layers, &expected, file.tensors(), &titles).map_err(refuse)?;
        let (paths, entries): (Vec<String>, Vec<(usize, DType)>) =
            found.into_iter().map(|(path, entry, dtype)| (path, (entry, dtype))).unzip();
        let (file, name) = (Mutex::new(file), path.to_owned());
        let read = move |number: usize| {
            let (entry, dtype) = entries[number];
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            let tensor = file.read(entry).map_err(Error::Weights)?;
            converted(tensor, dtype)
                .ok_or_else(|| Error::Weights(error(&name, "there is no memory for its weights")))
        };
        Ok(TileProgram { text, paths, read: Box::new(read) })
    }
}

/// Reads the configuration of a model.
fn config_of(path: &Path) -> Result<Value, WeightsError> {
    let invalid = |what: &dyn std::fmt::Display| {
        error(path, format!("this is not a valid model of Keras: `config.json`: {what}"))
    };
    let file: File = open_file(path).map_err(|e| caused(path, e))?;
    let mut allowance = Allowance::of(&file, None).map_err(|e| caused(path, e))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|e| invalid(&e))?;
    let entry = archive.by_name("config.json").map_err(|e| invalid(&e))?;
    let size = entry.size();
    if size > MOST_CONFIG {
        return Err(invalid(&format!("it has {size} bytes, and at most {MOST_CONFIG} are read")));
    }
    let bytes = allowance.read_to_end(entry, size).map_err(|e| caused(path, e))?;
    serde_json::from_slice(&bytes).map_err(|e| invalid(&e))
}

/// Returns the weights of a program in the order of their creation.
fn weights_of(text: &str) -> Result<Vec<(String, TensorType)>, Error> {
    let model = Model::compile(text)?;
    let entry =
        model.program().entry(None).map_err(|error| Error::Keras { what: vec![error.message] })?;
    let dims = entry.inputs.iter().flat_map(|input| input.dims.iter().flatten());
    let names: Vec<&String> = dims
        .filter_map(|dim| match &dim.kind {
            DimKind::Name(name) => Some(name),
            DimKind::Size(_) | DimKind::Ellipsis => None,
        })
        .collect();
    let mut failed = None;
    for size in ASSUMED_SIZES {
        let sizes = names.iter().map(|&name| (name.clone(), size)).collect();
        let bindings = Bindings { sizes, ..Bindings::default() };
        match lower(model.program(), None, &bindings) {
            Ok(network) => {
                let weights = network.weights.into_iter();
                return Ok(weights.map(|weight| (weight.path, weight.ty)).collect());
            }
            Err(diagnostics) => _ = failed.get_or_insert(diagnostics),
        }
    }
    let diagnostics = failed.unwrap_or_default();
    Err(Error::Program { sources: model.sources().clone(), diagnostics })
}

/// Returns the path and the type of each weight, and its index in the file.
fn assigned(
    layers: &[(String, String)],
    expected: &[(String, TensorType)],
    found: &[(String, TensorType)],
    titles: &Titles,
) -> Result<Vec<(String, usize, DType)>, String> {
    let mut assigned = Vec::with_capacity(expected.len());
    let numbered = found.iter().enumerate();
    let mut sorted: Vec<(&str, usize)> =
        numbered.map(|(entry, (name, _))| (name.as_str(), entry)).collect();
    sorted.sort_unstable();
    let mut rest = expected;
    for (group, layer) in layers {
        let below = format!("{group}/");
        let start = sorted.partition_point(|(name, _)| *name < below.as_str());
        let inside = sorted[start..].iter().map_while(|(name, entry)| {
            Some((*entry, (name.strip_prefix(&below)?.to_owned(), found[*entry].1.clone())))
        });
        let (numbers, theirs): (Vec<usize>, Vec<_>) = inside.unzip();
        let (ours, others) = rest.split_at(theirs.len().min(rest.len()));
        rest = others;
        let titles: BTreeMap<String, String> = titles
            .range(below.clone()..)
            .map_while(|(name, title)| Some((name.strip_prefix(&below)?.to_owned(), title.clone())))
            .collect();
        let paths = keras::paths(ours, &theirs, &titles, &LoadOptions::default())
            .map_err(|what| format!("the weights of the layer `{layer}`: {what}"))?;
        for (entry, path) in numbers.into_iter().zip(paths) {
            let ours = ours.iter().find(|(ours, _)| Some(ours) == path.as_ref());
            assigned.extend(ours.map(|(path, ty)| (path.clone(), entry, ty.dtype)));
        }
    }
    match rest.first() {
        Some((path, ty)) => Err(format!("the file has no weight for `{path}`, {ty}")),
        None => Ok(assigned),
    }
}
