//! Reads files of Keras 2, with weights or whole models. Each layer is a group with the layer's
//! Keras name. The group's attribute `weight_names` has the paths of its weights, such as
//! `dense/kernel:0`. The attribute `layer_names` has the order of the layers.
//!
//! The tensors get the names that Keras 3 would give them, such as `layers/dense/vars/0`, so that
//! [`super::keras`] can map them.

use std::collections::HashMap;

use hdf5_reader::group::Group;
use hdf5_reader::{Attribute, Dataset};
use tile_compiler::names::snake_case;

use super::hdf5::{DEEPEST, Walk};
use super::keras::{UNKNOWN_CLASS, automatic_class};

/// The attribute of a group with the names of its layers.
const LAYERS: &str = "layer_names";

/// The group of the weights that belong to no layer.
const TOP_LEVEL: &str = "top_level_model_weights";

/// Returns the group of the layers, if this is a file of Keras 2.
pub fn layers(root: &Group) -> Option<Group> {
    let has_layers =
        |group: &Group| [LAYERS, "layer_names0"].iter().any(|name| group.attribute(name).is_ok());
    if has_layers(root) {
        Some(root.clone())
    } else {
        root.group("model_weights").ok().filter(has_layers)
    }
}

/// A layer with weights.
struct Layer {
    name: String,
    group: Group,
    weights: Vec<String>,
}

/// Reads the names and types of the layers' tensors.
pub fn read(walk: &mut Walk, root: &Group, group: &Group) -> Result<(), String> {
    let mut layers = Vec::new();
    for name in texts(group, LAYERS)? {
        let inner = descend(group, &name)?;
        let weights = texts(&inner, "weight_names")?;
        if !weights.is_empty() {
            layers.push(Layer { name, group: inner, weights });
        }
    }
    let classes = classes(root, &layers);
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for (layer, class) in layers.iter().zip(&classes) {
        let count = counts.entry(class).or_default();
        let label =
            if *count == 0 { format!("layers/{class}") } else { format!("layers/{class}_{count}") };
        *count += 1;
        walk.found.titles.insert(label.clone(), layer.name.clone());
        add(walk, layer, &label)?;
    }
    if let Ok(top) = group.group(TOP_LEVEL) {
        let weights = texts(&top, "weight_names").unwrap_or_default();
        add(walk, &Layer { name: TOP_LEVEL.to_owned(), group: top, weights }, "")?;
    }
    Ok(())
}

/// Adds the tensors of a layer. Layers nested in it get their own groups.
fn add(walk: &mut Walk, layer: &Layer, label: &str) -> Result<(), String> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for weight in &layer.weights {
        let dataset = dataset(&layer.group, weight)?;
        let Some(ty) = walk.tensor_type(&dataset).map_err(|what| format!("`{weight}`: {what}"))?
        else {
            continue;
        };
        let mut parts: Vec<&str> = weight.split('/').collect();
        parts.pop();
        let own = parts.iter().position(|part| *part == layer.name).map_or(0, |at| at + 1);
        parts[own..].iter_mut().for_each(|part| *part = direction(part));
        let place = [label]
            .into_iter()
            .filter(|label| !label.is_empty())
            .chain(parts.drain(own..))
            .chain(["vars"]);
        let place = place.collect::<Vec<_>>().join("/");
        let number = counts.entry(place.clone()).or_default();
        walk.found.tensors.push((format!("{place}/{number}"), ty));
        walk.found.datasets.push(dataset);
        *number += 1;
    }
    Ok(())
}

/// Returns the Keras 3 name of a layer inside a bidirectional layer. Keras 2 has names such as
/// `forward_lstm`.
fn direction(name: &str) -> &str {
    let of_two = ["forward_", "backward_"].iter().zip(["forward_layer", "backward_layer"]);
    of_two.into_iter().find(|(start, _)| name.starts_with(**start)).map_or(name, |(_, layer)| layer)
}

/// Returns the classes of the layers, from the configuration of a whole model or else from their
/// names. If one class is unknown, all are [`UNKNOWN_CLASS`].
fn classes(root: &Group, layers: &[Layer]) -> Vec<String> {
    let config =
        root.attribute("model_config").and_then(|config| config.read_string()).unwrap_or_default();
    let config: serde_json::Value = serde_json::from_str(&config).unwrap_or_default();
    // Before 2.2 the configuration of a sequential model was the list itself.
    let listed = config["config"]["layers"].as_array().or_else(|| config["config"].as_array());
    let known: HashMap<&str, &str> = listed
        .into_iter()
        .flatten()
        .filter_map(|layer| {
            Some((layer["config"]["name"].as_str()?, layer["class_name"].as_str()?))
        })
        .collect();
    let class = |layer: &Layer| match known.get(layer.name.as_str()) {
        Some(class) => Some(snake_case(class)),
        None => automatic_class(&layer.name).map(str::to_owned),
    };
    let classes: Option<Vec<String>> = layers.iter().map(class).collect();
    classes.unwrap_or_else(|| vec![UNKNOWN_CLASS.to_owned(); layers.len()])
}

/// Returns the texts of an attribute. A long attribute is split into parts, such as `weight_names0`
/// and `weight_names1`.
fn texts(group: &Group, name: &str) -> Result<Vec<String>, String> {
    let read = |attribute: Attribute| match attribute.num_elements() {
        Ok(0) => Ok(Vec::new()),
        _ => attribute.read_strings().map_err(|e| format!("its attribute `{name}`: {e}")),
    };
    if let Ok(attribute) = group.attribute(name) {
        return read(attribute);
    }
    let parts = (0..).map_while(|part| group.attribute(&format!("{name}{part}")).ok());
    let parts = parts.map(read).collect::<Result<Vec<_>, _>>()?;
    if parts.is_empty() {
        Err(format!("a layer has no attribute `{name}`"))
    } else {
        Ok(parts.concat())
    }
}

fn descend(group: &Group, path: &str) -> Result<Group, String> {
    if path.split('/').count() > DEEPEST {
        return Err(format!("its groups at `{path}` are too deep"));
    }
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    parts
        .try_fold(group.clone(), |group, part| group.group(part))
        .map_err(|e| format!("`{path}`: {e}"))
}

fn dataset(group: &Group, path: &str) -> Result<Dataset, String> {
    let (groups, name) = path.rsplit_once('/').unwrap_or(("", path));
    descend(group, groups)?.dataset(name).map_err(|e| format!("`{path}`: {e}"))
}
