//! Writes the options of the library's layers as Keras has them, the opposite of `options`: objects
//! have classes and modules. The names of arguments in calls are here for both directions.

use serde_json::{Map, Value, json};
use tile_compiler::names::snake_case;

use super::config::Layer;
use super::options::{capitalised, function_of, is_for_option};

/// The module of layers in Keras.
pub const LAYERS: &str = "keras.layers";

/// The layers that take a list of tensors as their one argument in Keras.
const OF_LISTS: [&str; 10] = [
    "Add",
    "AdditiveAttention",
    "Attention",
    "Average",
    "Concatenate",
    "Dot",
    "Maximum",
    "Minimum",
    "Multiply",
    "Subtract",
];

/// The layers of the library that Keras lacks, and those that are Python code there.
const LACKING: [&str; 17] = [
    "AspectCrop",
    "AspectPad",
    "BilinearResizing",
    "CenterPart",
    "ConvLSTMLoop",
    "FromHeads",
    "Lambda",
    "Lora",
    "MovingAverage",
    "NearestResizing",
    "RunningMean",
    "RunningSum",
    "SelfAttention",
    "SpectralNorm",
    "ToHeads",
    "TransformerEncoderLayer",
    "WeightNorm",
];

/// The kinds of objects in options by the ends of the options' names, and their modules.
const MODULES: [(&str, &str); 3] = [
    ("initializer", "keras.initializers"),
    ("regularizer", "keras.regularizers"),
    ("constraint", "keras.constraints"),
];

/// The options that are layers with weights.
pub const PARTS: [&str; 3] = ["backward_layer", "cell", "layer"];

/// The limits of a renormalization.
pub const LIMITS: [&str; 3] = ["rmin", "rmax", "dmax"];

/// Returns whether a layer takes a list of tensors as its one argument in Keras.
pub fn takes_list(class: &str) -> bool {
    OF_LISTS.contains(&class)
}

/// Returns whether an input of a layer here is a tensor that Keras has in such a list, and no mask
/// or flag.
pub fn is_listed(input: &str) -> bool {
    input.starts_with(|c: char| c.is_ascii_uppercase()) && !input.ends_with("Mask")
}

/// Returns the input of a layer here for an argument of a call in Keras.
pub fn input_of(argument: &str) -> String {
    if argument == "attention_mask" { "Mask".into() } else { capitalised(argument) }
}

/// Returns the argument of a call in Keras for an input of a layer here, if Keras has it.
pub fn argument_of(class: &str, input: &str) -> Option<String> {
    match (class, input) {
        // Other layers of the library give these to recurrent layers in them.
        (_, "backwards" | "zero_masked") => None,
        ("MultiHeadAttention" | "GroupQueryAttention", "Mask") => Some("attention_mask".into()),
        _ => Some(snake_case(input)),
    }
}

/// Returns an object such as `l2(0.01)`, without its module.
pub fn unplaced(function: &str, config: Map<String, Value>) -> Value {
    json!({ "class_name": capitalised(function), "config": config, "registered_name": null })
}

/// Returns a layer as a value in an option.
pub fn layer_object(layer: &Layer) -> Value {
    json!({
        "module": LAYERS,
        "class_name": layer.class,
        "config": layer.config,
        "registered_name": null,
    })
}

/// Returns the value of an option as Keras has it.
///
/// # Errors
/// Returns words for a value that Keras cannot have there.
pub fn placed(option: &str, mut value: Value) -> Result<Value, String> {
    match &mut value {
        Value::Object(object) if !object.contains_key("module") => {
            let class = object["class_name"].as_str().unwrap_or_default();
            let name = function_of(class);
            let module = MODULES.iter().find(|(end, _)| option.ends_with(end));
            if let Some((kind, _)) = module.filter(|_| !is_for_option(option, &name)) {
                return Err(format!("`{name}`, which is no {kind} of Keras"));
            }
            let (_, module) = module.ok_or(
                "a function with options, for which Keras has a layer, such as `LeakyReLU(0.1)`",
            )?;
            object.insert("module".into(), Value::from(*module));
        }
        Value::String(name) if !is_for_option(option, name) => {
            let kind = option.rsplit('_').next().unwrap_or_default();
            return Err(format!("`{name}`, which is no {kind} of Keras"));
        }
        _ => {}
    }
    Ok(value)
}

/// Completes the options of a layer.
///
/// # Errors
/// Returns words for a layer that Keras lacks.
pub fn complete(class: &str, config: &mut Map<String, Value>) -> Result<(), String> {
    if LACKING.contains(&class) {
        return Err(format!("`{class}`, a layer that a file of Keras cannot have"));
    }
    if config.get("lora_rank").is_some_and(|rank| !rank.is_null()) {
        return Err("a layer with `lora_rank`, whose factors a file of Keras lacks: leave the option out, and add their product to the kernel".into());
    }
    if class == "Rescaling" {
        // Keras does not load the layer without it.
        config.entry("offset").or_insert(Value::from(0.0));
    }
    if let Some(Value::Array(limits)) = config.get("renorm_clipping") {
        let limits = LIMITS.iter().zip(limits).map(|(name, limit)| (*name, limit.clone()));
        let limits: Map<String, Value> =
            limits.map(|(name, limit)| (name.to_owned(), limit)).collect();
        config.insert("renorm_clipping".into(), Value::Object(limits));
    }
    if let Some(cells @ Value::Array(_)) = config.get("cell") {
        let config_of_cells = json!({ "cells": cells });
        let stacked = json!({
            "module": LAYERS,
            "class_name": "StackedRNNCells",
            "config": config_of_cells,
            "registered_name": null,
        });
        config.insert("cell".into(), stacked);
    }
    Ok(())
}

/// The attention layers that take their masks as a list in Keras.
const OF_MASKS: [&str; 2] = ["Attention", "AdditiveAttention"];

/// The masks in that list.
const MASKS: [&str; 2] = ["query_mask", "value_mask"];

/// Returns the arguments of a call here for a list of masks in Keras, if the layer takes one.
pub fn split_masks(class: &str, argument: &str) -> Option<[&'static str; 2]> {
    (argument == "mask" && OF_MASKS.contains(&class)).then_some(MASKS)
}
