//! Writes weights as Keras' `model.save_weights("m.weights.h5")` does, for a model of the same
//! layers in the same order: `dense.Kernel` is `layers/dense/vars/0`.
//!
//! A layer is known by its class and its number among those of its class. Layers that contain
//! layers have the names that Keras' classes give these. A layer of the program itself has no class
//! in Keras, so it is an error.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use tile_compiler::dtype::DType;
use tile_compiler::tensor::Tensor;
use tile_lang::library_names;

use super::keras::label;
use super::{WeightsError, converted, error, hdf5_write};
use crate::error::Error;
use crate::files::write_whole;

/// The ending of the names of such files, without which Keras expects another format.
const ENDING: &str = ".weights.h5";

/// The paths and classes of layers.
type Layers = [(String, String)];

/// Checks that the weights of a model can be written to a file of this name. `layers` has the paths
/// and classes of the model's layers, in the order of their application.
///
/// # Errors
/// Fails for a weight that no layer of Keras has, or if the file's name has another ending.
pub fn check<'w>(
    path: &Path,
    layers: &Layers,
    weights: impl Iterator<Item = (&'w str, &'w [usize])>,
) -> Result<(), WeightsError> {
    check_ending(path)?;
    names(path, layers, &weights.collect::<Vec<_>>()).map(drop)
}

fn check_ending(path: &Path) -> Result<(), WeightsError> {
    if path.to_string_lossy().ends_with(ENDING) {
        return Ok(());
    }
    let what = format!("expected a name that ends in `{ENDING}`, as Keras does for weights");
    Err(error(path, what))
}

/// Returns the name in a Keras file for each weight with its shape.
fn names(
    path: &Path,
    layers: &Layers,
    weights: &[(&str, &[usize])],
) -> Result<Vec<String>, WeightsError> {
    let labels = labels(layers);
    let cells = cells(weights);
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let name = |&(weight, _): &(&str, &[usize])| {
        let found = place(weight, &labels, &cells).ok_or_else(|| {
            error(
                path,
                format!(
                    "`{weight}` is no weight of a layer that Keras has; help: save to .safetensors"
                ),
            )
        })?;
        let number = numbers.entry(found.clone()).or_default();
        *number += 1;
        Ok(format!("{found}/vars/{}", *number - 1))
    };
    weights.iter().map(name).collect()
}

/// Writes the weights of a model.
pub fn write(path: &Path, layers: &Layers, tensors: Vec<(String, Tensor)>) -> Result<(), Error> {
    check_ending(path).map_err(Error::Weights)?;
    let named = named(path, layers, tensors)?;
    write_whole(path, |file| hdf5_write::write(file, &named))
        .map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Returns the tensors by their names in a Keras file, in f32.
///
/// # Errors
/// Fails for a weight that no layer of Keras has.
pub fn named(
    path: &Path,
    layers: &Layers,
    tensors: Vec<(String, Tensor)>,
) -> Result<Vec<(String, Tensor)>, Error> {
    let weights: Vec<(&str, &[usize])> =
        tensors.iter().map(|(path, tensor)| (path.as_str(), tensor.shape())).collect();
    let names = names(path, layers, &weights).map_err(Error::Weights)?;
    let mut named = Vec::with_capacity(names.len());
    for ((weight, tensor), name) in tensors.into_iter().zip(names) {
        let dtype = tensor.dtype();
        let tensor = Some(tensor).filter(|_| dtype.is_float());
        let tensor = tensor.and_then(|tensor| converted(tensor, DType::F32)).ok_or_else(|| {
            Error::Weights(error(
                path,
                format!("`{weight}` is {dtype}, and layers of Keras have f32"),
            ))
        })?;
        named.push((name, tensor));
    }
    Ok(named)
}

/// The class and the group of a layer, such as `Dense` and `layers/dense_1`.
type Label = (String, String);

/// Returns the labels of the layers by their paths. `None` is for a class that Keras lacks.
fn labels(layers: &Layers) -> HashMap<&str, Option<Label>> {
    let known: HashSet<&str> = library_names().collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut labels = HashMap::new();
    for (path, class) in layers {
        labels.entry(path.as_str()).or_insert_with(|| {
            let count = counts.entry(class).or_default();
            *count += 1;
            let number = if *count == 1 { String::new() } else { format!("_{}", *count - 1) };
            let group = format!("layers/{}{number}", label(class));
            known.contains(class.as_str()).then(|| (class.clone(), group))
        });
    }
    labels
}

/// Returns the groups below their layers of the instances with a recurrent kernel, which are cells
/// in Keras. The cells of a list have their classes' names there, which the sizes tell: the kernel
/// of a GRU has a matrix for each of 3 gates.
fn cells<'w>(weights: &[(&'w str, &[usize])]) -> HashMap<&'w str, String> {
    let mut counts: HashMap<(&str, &str), usize> = HashMap::new();
    let mut cells = HashMap::new();
    for (weight, shape) in weights {
        let Some(instance) = weight.strip_suffix(".RecurrentKernel") else { continue };
        let [units, columns] = shape[..] else {
            cells.insert(instance, "/cell".to_owned());
            continue;
        };
        let class = match columns / units.max(1) {
            1 => "simple_rnn_cell",
            3 => "gru_cell",
            _ => "lstm_cell",
        };
        let group = match instance.strip_suffix(']').and_then(|rest| rest.rsplit_once('[')) {
            Some((list, _)) => {
                let count = counts.entry((list, class)).or_default();
                *count += 1;
                let number = if *count == 1 { String::new() } else { format!("_{}", *count - 1) };
                format!("/cell/cells/{class}{number}")
            }
            None => "/cell".to_owned(),
        };
        cells.insert(instance, group);
    }
    cells
}

/// Returns the group of a weight.
fn place(
    weight: &str,
    labels: &HashMap<&str, Option<Label>>,
    cells: &HashMap<&str, String>,
) -> Option<String> {
    let (instance, _) = weight.rsplit_once('.')?;
    let ends = instance.match_indices('.').map(|(end, _)| end).chain([instance.len()]);
    let mut found = ends.filter_map(|end| Some((end, labels.get(&instance[..end])?)));
    let (end, label) = found.next()?;
    let (class, group) = label.as_ref()?;
    let part: Vec<&str> = instance[end..].split('.').skip(1).collect();
    let cell = cells.get(instance).map_or("", String::as_str);
    Some(format!("{group}{}{cell}", inside(class, &part)?))
}

/// Returns the group of a part of a layer below the layer's own, such as `/query_dense`.
fn inside(class: &str, part: &[&str]) -> Option<String> {
    match (class, part) {
        // They have other variables in Keras.
        ("Normalization" | "Discretization" | "SpectralNormalization", _) => None,
        // The group of a cell is in [`cells`].
        (_, []) | ("RNN", _) => Some(String::new()),
        ("Bidirectional", [side]) => Some(format!("/{side}_layer")),
        ("MultiHeadAttention", ["gate"]) => Some("/_gate_dense".into()),
        ("MultiHeadAttention", [part]) => Some(format!("/{part}_dense")),
        ("GroupQueryAttention", [part]) => Some(format!("/_{part}_dense")),
        ("TimeDistributed", ["layer"]) => Some("/layer".into()),
        _ => None,
    }
}
