//! Writes a Tile model of the library's layers as a model that Keras loads, `.keras`.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::Path;

use serde_json::json;
use tile_compiler::lower::Bindings;
use tile_compiler::names::snake_case;
use tile_compiler::tensor::Tensor;
use tile_lang::ast::{Dim, DimKind};
use tile_lang::diagnostic::Diagnostic;

use super::super::hdf5_write;
use super::super::keras_write;
use super::super::write::write_archive;
use super::config::{Network, Port};
use super::kinds::Kind;
use super::reader;
use super::writer::{self, Order};
use crate::error::Error;
use crate::files::write_whole;
use crate::model::Model;
use crate::session::Session;

/// The version of Keras whose format is written.
const VERSION: &str = "3.15.0";

/// A model of the library's layers, as Keras has it.
pub struct KerasModel {
    network: Network,
}

impl KerasModel {
    /// Reads a model, by default that of [`crate::SessionBuilder::entry`]. Its inputs have the
    /// sizes of the header and of `bindings`, which also give hyper-parameters; other sizes stay
    /// open.
    ///
    /// # Errors
    /// Returns [`Error::Program`] with the place of the first part that is not made of the
    /// library's layers.
    pub fn new(
        model: &Model,
        entry: Option<&str>,
        bindings: &Bindings,
    ) -> Result<KerasModel, Error> {
        let failed = |diagnostic: Diagnostic| Error::Program {
            sources: model.sources().clone(),
            diagnostics: vec![diagnostic],
        };
        if !model.is_program() {
            return Err(Error::Keras { what: vec!["an ONNX model has no layers of Keras".into()] });
        }
        let function = model.program().entry(entry).map_err(failed)?;
        let mut inputs = Vec::new();
        for input in &function.inputs {
            let declared = model.declared(entry, &input.name.name, bindings);
            let sizes = declared.map(|declared| declared.sizes).ok_or_else(|| {
                let what = "a model of Keras needs the number of axes of this input";
                failed(Diagnostic::error("E0304", input.span, what).help(format!(
                    "write its sizes in the header, such as `{}[N, 28]`",
                    input.name.name
                )))
            })?;
            let is_one =
                matches!(input.dims.as_deref(), Some([Dim { kind: DimKind::Size(_), .. }]));
            if sizes.is_empty() || is_one {
                let what = "a model of Keras needs a batch axis, the first, in each input";
                return Err(failed(Diagnostic::error("E0304", input.span, what).help(format!(
                    "write its sizes with the batch's, such as `{}[N, 28]`",
                    input.name.name
                ))));
            }
            let size = |(axis, size): (usize, &Option<usize>)| match size {
                // The batch has any size.
                _ if axis == 0 => None,
                size => size.map(|size| size as u64),
            };
            let shape = sizes.iter().enumerate().map(size).collect();
            let name = snake_case(&input.name.name);
            inputs.push(Port { name, shape, kind: Kind::Float });
        }
        let network = reader::read(model.program(), function, inputs, bindings).map_err(failed)?;
        Ok(KerasModel { network })
    }

    /// Writes the model with the weights of a session, which was built for the same entry.
    ///
    /// # Errors
    /// Fails if the file cannot be written, or if Keras has other weights in a layer.
    pub fn save(&self, session: &Session, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let paths = self.paths(&session.layers)?;
        let mut taken = HashSet::new();
        let mut unique = |name: &str| {
            let clean = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
            let mut name: String = name.chars().map(clean).collect();
            while !taken.insert(name.clone()) {
                name.push('_');
            }
            name
        };
        // Keras joins masks by an operation of its own, which is called `concatenate`, too.
        let has_masks = self.network.mask_maker().is_some();
        let named = paths.iter().zip(&self.network.layers);
        let names: Vec<String> = named
            .map(|(path, layer)| match has_masks && layer.class == "Concatenate" {
                true if path.starts_with("concatenate") => unique(&format!("joined_{path}")),
                _ => unique(path),
            })
            .collect();
        let inputs: Vec<String> =
            self.network.inputs.iter().map(|port| unique(&port.name)).collect();
        let order = Order::new(&self.network);
        let config = writer::config(&self.network, &order, (&inputs, &names));
        let ordered = order.layers.iter();
        let layers: Vec<(String, String)> =
            ordered.map(|&at| (paths[at].clone(), self.network.layers[at].class.clone())).collect();
        let owners: HashSet<&str> = layers.iter().map(|(path, _)| path.as_str()).collect();
        let mut tensors: Vec<(String, Tensor)> = Vec::new();
        for (weight, _) in session.weights() {
            let owner = weight.split('.').next().unwrap_or_default();
            if owners.contains(owner) {
                tensors.push((weight.to_owned(), session.get(weight)?));
            }
        }
        let tensors = keras_write::named(path, &layers, tensors)?;
        let metadata = json!({ "keras_version": VERSION });
        write_whole(path, |file| {
            write_archive(file, |archive| {
                archive.entry("metadata.json")?;
                archive.write_all(metadata.to_string().as_bytes())?;
                archive.entry("config.json")?;
                archive.write_all(config.to_string().as_bytes())?;
                archive.entry("model.weights.h5")?;
                hdf5_write::write(archive, &tensors)
            })
        })
        .map_err(|source| Error::Write { path: path.to_owned(), source })
    }

    /// Returns the path of each layer in the program, from the layers that a session applies in
    /// order. It is empty for a layer that is not applied.
    fn paths(&self, applied: &[(String, String)]) -> Result<Vec<String>, Error> {
        let mut paths = vec![String::new(); self.network.layers.len()];
        let mut known: HashMap<&str, usize> = HashMap::new();
        let mut applied = applied.iter();
        for call in &self.network.calls {
            let class = &self.network.layers[call.layer].class;
            let (path, _) = applied
                .next()
                .filter(|(path, found)| {
                    found == class && *known.entry(path).or_insert(call.layer) == call.layer
                })
                .ok_or_else(|| Error::internal("the session applies other layers"))?;
            paths[call.layer].clone_from(path);
        }
        Ok(paths)
    }
}
