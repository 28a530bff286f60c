//! Writes layers of Keras, with their options, as calls of the library's layers. Options with the
//! library's defaults are omitted.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};
use tile_compiler::names::snake_case;
use tile_lang::LIBRARY;
use tile_lang::ast::{Expr, ExprKind, Function, Input, UnaryOp};
use tile_lang::builtin::builtin_names;

use super::config::{is_of_keras, text};
use super::objects::LIMITS;

/// The library's functions and layers by name, without those for ONNX.
static LIBRARY_DEFINITIONS: LazyLock<HashMap<String, Function>> = LazyLock::new(|| {
    let files = LIBRARY.iter().filter(|file| !file.name.starts_with("onnx_"));
    let mut found = HashMap::new();
    for file in files {
        let file = tile_lang::parse(file.text).file;
        let functions = file.functions.into_iter();
        found.extend(functions.filter_map(|one| Some((one.name.as_ref()?.name.clone(), one))));
        for alias in file.aliases {
            if let Some(target) = found.get(&alias.target.name).cloned() {
                found.insert(alias.name.name, target);
            }
        }
    }
    found
});

/// The words of the language with small letters.
const WORDS: &str = "adapt along default else false for function if import in layer loss metric \
    model no_defract none optimizer param scan state train training true update yield";

/// Returns the library's definition of a name.
pub fn definition(name: &str) -> Option<&'static Function> {
    LIBRARY_DEFINITIONS.get(name)
}

/// Returns whether the library or the language has a function of this name.
fn is_function(name: &str) -> bool {
    definition(name).is_some() || builtin_names().any(|known| known == name)
}

/// Returns whether a name has a meaning in every program.
pub fn is_taken(name: &str) -> bool {
    is_function(name) || WORDS.split_whitespace().any(|word| word == name)
}

/// Options whose lists have an item for each axis. One number stands for equal items.
const BY_AXIS: [&str; 8] = [
    "axis",
    "cropping",
    "dilation_rate",
    "kernel_size",
    "output_padding",
    "padding",
    "pool_size",
    "strides",
];

/// Options that change no prediction, or that the program says in another way.
const IGNORED: [&str; 9] = [
    "autocast",
    "dtype",
    "flash_attention",
    "name",
    "seed",
    "synchronized",
    "trainable",
    "unroll",
    "batch_input_shape",
];

/// The types in which layers may compute in Keras. Here they compute in f32.
const FLOATS: [&str; 5] = ["float32", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16"];

/// Writes `Dense(10, activation = relu)`, with the arguments `more` at its end.
///
/// # Errors
/// Returns a sentence about a class or an option that the library lacks.
pub fn layer(
    class: &str,
    config: &Value,
    built: &Value,
    more: &[String],
) -> Result<String, String> {
    let known = definition(class).filter(|_| class.starts_with(|c: char| c.is_ascii_uppercase()));
    let known = known.ok_or_else(|| format!("the library has no layer `{class}`"))?;
    let dtype = config["dtype"].as_str().or_else(|| config["dtype"]["config"]["name"].as_str());
    if let Some(dtype) = dtype.filter(|dtype| !FLOATS.contains(dtype)) {
        return Err(format!("it has the type `{dtype}`, and layers here compute in f32"));
    }
    let mut config = config.as_object().cloned().unwrap_or_default();
    simplify(class, &mut config, built);
    let arguments = arguments(known, &config)?.into_iter().chain(more.iter().cloned());
    Ok(format!("{class}({})", arguments.collect::<Vec<_>>().join(", ")))
}

/// Writes the options of a function, `axis = 1`.
///
/// # Errors
/// Returns a sentence about an option that the library lacks.
pub fn of_function(known: &Function, config: &Value) -> Result<String, String> {
    let config = config.as_object().cloned().unwrap_or_default();
    Ok(arguments(known, &config)?.join(", "))
}

/// Removes options that say what Keras derives from others.
fn simplify(class: &str, config: &mut Map<String, Value>, built: &Value) {
    // The axes between the first and the last, which attention has by default.
    let between = |rank: usize| Value::from((1..rank.saturating_sub(1)).collect::<Vec<_>>());
    let query = built["shapes_dict"]["query_shape"].as_array();
    if class == "MultiHeadAttention"
        && query.is_some_and(|query| config.get("attention_axes") == Some(&between(query.len())))
    {
        config.remove("attention_axes");
    }
    if config.get("value_dim").is_some() && config.get("value_dim") == config.get("key_dim") {
        config.remove("value_dim");
    }
    if let Some(Value::Object(limits)) = config.get("renorm_clipping") {
        let limits: Vec<Value> =
            LIMITS.map(|limit| limits.get(limit).cloned().unwrap_or_default()).to_vec();
        let has_limit = limits.iter().any(|limit| !limit.is_null());
        let limits = if has_limit { Value::Array(limits) } else { Value::Null };
        config.insert("renorm_clipping".into(), limits);
    }
    if class.contains("Pooling") && config.get("strides") == config.get("pool_size") {
        config.remove("strides");
    }
    if class == "Bidirectional" {
        // Bidirectional layers set it here, too.
        for layer in ["layer", "backward_layer"] {
            let layer = config.get_mut(layer).and_then(|layer| layer.get_mut("config"));
            let layer = layer.and_then(Value::as_object_mut);
            layer.and_then(|layer| layer.remove("zero_output_for_mask"));
        }
        let opposite = |layer: &Value| {
            let mut layer = plain(layer);
            let backwards = layer["config"]["go_backwards"] != true;
            if let Some(Value::Object(config)) = layer.get_mut("config") {
                config.insert("go_backwards".into(), Value::from(backwards));
            }
            layer
        };
        if config.get("layer").map(opposite) == config.get("backward_layer").map(plain) {
            config.remove("backward_layer");
        }
    }
}

/// Removes names, shapes and numbers of objects, which differ between equal layers.
fn plain(value: &Value) -> Value {
    const NAMES: [&str; 5] = ["name", "seed", "build_config", "shared_object_id", "dtype"];
    match value {
        Value::Object(items) => {
            let kept = items.iter().filter(|(key, _)| !NAMES.contains(&key.as_str()));
            Value::Object(kept.map(|(key, value)| (key.clone(), plain(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(plain).collect()),
        _ => value.clone(),
    }
}

/// Writes the options that a definition takes.
fn arguments(known: &Function, config: &Map<String, Value>) -> Result<Vec<String>, String> {
    let parameters = known.parameters.as_deref().unwrap_or_default();
    let mut written = Vec::new();
    // The first option is written by position, and so are those after it that have no default.
    let mut by_position = true;
    for (number, parameter) in parameters.iter().enumerate() {
        let name = parameter.name.name.as_str();
        let Some(value) = config.get(name).filter(|_| name != "seed") else {
            by_position = false;
            continue;
        };
        let value = if BY_AXIS.contains(&name) { collapsed(value) } else { value.clone() };
        let given = argument(parameter, &value).map_err(|what| format!("`{name}`: {what}"))?;
        let default = parameter.default.as_ref();
        if default.is_some_and(|default| is_same(&given, &default_text(name, default))) {
            by_position = false;
            continue;
        }
        by_position &= default.is_none() || (number == 0 && name != "axis");
        written.push(if by_position { given } else { format!("{name} = {given}") });
    }
    let is_extra = |(name, value): &(&String, &Value)| {
        let is_known = parameters.iter().any(|parameter| parameter.name.name == **name);
        let is_off = value.is_null() || **value == false || **value == "channels_last";
        !is_known && !is_off && !IGNORED.contains(&name.as_str())
    };
    match config.iter().find(is_extra) {
        Some((name, value)) => {
            Err(format!("the library's layer has no option `{name}`, which is {value}"))
        }
        None => Ok(written),
    }
}

/// Returns the number of a list whose numbers are all equal, or the value itself. A list of equal
/// lists stays: `[[0, 1], [0, 1]]` is not `[0, 1]`.
fn collapsed(value: &Value) -> Value {
    match value.as_array().map(|items| items.iter().map(collapsed).collect::<Vec<_>>()) {
        Some(items) if !items.is_empty() && items.iter().all(|item| *item == items[0]) => {
            if items[0].is_number() { items[0].clone() } else { value.clone() }
        }
        _ => value.clone(),
    }
}

/// Writes the value of a parameter.
fn argument(parameter: &Input, value: &Value) -> Result<String, String> {
    let name = parameter.name.name.as_str();
    let Value::String(text) = value else { return written(value) };
    let kinds = ["activation", "initializer", "regularizer", "constraint"];
    if !kinds.iter().any(|kind| name.ends_with(kind)) {
        return written(value);
    }
    if is_function(text) {
        Ok(text.clone())
    } else {
        Err(format!("the library has no function `{text}`"))
    }
}

/// Converts a name to one of a tensor or a model, such as `LeftImage`.
pub fn capitalised(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let word = |word: &str| match word.split_at_checked(1) {
        Some((first, rest)) => first.to_ascii_uppercase() + rest,
        None => String::new(),
    };
    let name: String = words.map(word).collect();
    if name.starts_with(|c: char| c.is_ascii_uppercase()) { name } else { format!("X{name}") }
}

/// Writes a text as a name if that stands for itself.
pub fn name_or_text(text: &str) -> String {
    let is_name = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_name && !is_taken(text) { text.to_owned() } else { format!("\"{text}\"") }
}

/// Writes a value.
fn written(value: &Value) -> Result<String, String> {
    match value {
        Value::Null => Ok("none".into()),
        Value::Number(number) => Ok(number.to_string()),
        Value::String(text) if text.contains(['"', '\\', '\n']) => {
            Err(format!("{value} has characters that a text here cannot have"))
        }
        Value::String(text) => Ok(name_or_text(text)),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Array(items) => {
            let items = items.iter().map(written).collect::<Result<Vec<_>, _>>()?;
            Ok(format!("[{}]", items.join(", ")))
        }
        Value::Object(_) => object(value),
    }
}

/// Writes an object of Keras, such as an initializer or a layer that another one contains.
fn object(value: &Value) -> Result<String, String> {
    let class = text(value, "class_name");
    let module = text(value, "module");
    let config = value["config"].as_object().filter(|_| module != "builtins");
    let Some(config) = config.filter(|_| !class.starts_with("__")) else {
        return Err("it is Python code".into());
    };
    if !is_of_keras(value) {
        return Err(format!("`{class}` is no class of Keras itself"));
    }
    if module == "keras.layers" {
        if config.get("mask_zero") == Some(&Value::Bool(true)) || class == "Masking" {
            return Err(format!("`{class}` makes a mask inside it, which is not converted"));
        }
        return layer(class, &value["config"], &value["build_config"], &[]);
    }
    let name = if class == "L1L2" { "l1_l2".to_owned() } else { snake_case(class) };
    let known = definition(&name).ok_or_else(|| format!("the library has no `{class}`"))?;
    let arguments = arguments(known, config)?;
    Ok(if arguments.is_empty() { name } else { format!("{name}({})", arguments.join(", ")) })
}

/// Writes the default of a parameter as [`argument`] writes values.
fn default_text(name: &str, default: &Expr) -> String {
    match &default.kind {
        ExprKind::Int(value) => value.to_string(),
        ExprKind::Float(value) => value.to_string(),
        ExprKind::Name(name) => name.name.clone(),
        ExprKind::Text(text) => name_or_text(text),
        ExprKind::Unary { op: UnaryOp::Neg, operand } => {
            format!("-{}", default_text(name, operand))
        }
        ExprKind::List(items) => {
            let items: Vec<String> = items.iter().map(|item| default_text(name, item)).collect();
            let equal = items.iter().all(|item| *item == items[0]);
            if equal && BY_AXIS.contains(&name) && !items.is_empty() {
                return items[0].clone();
            }
            format!("[{}]", items.join(", "))
        }
        _ => String::new(),
    }
}

/// Returns whether two texts are the same value.
fn is_same(given: &str, default: &str) -> bool {
    match (given.parse::<f64>(), default.parse::<f64>()) {
        (Ok(given), Ok(default)) => given == default,
        // A layer without an activation is linear.
        _ if given == "linear" => ["linear", "none"].contains(&default),
        _ => given.trim_matches('"') == default.trim_matches('"'),
    }
}
