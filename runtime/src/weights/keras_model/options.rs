//! Writes layers of Keras, with their options, as calls of the library's layers. Options with the
//! library's defaults are omitted.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde_json::Value;
use tile_compiler::names::snake_case;
use tile_lang::LIBRARY;
use tile_lang::ast::{Expr, ExprKind, Function, Input, UnaryOp};
use tile_lang::builtin::builtin_names;

use super::config::{is_of_keras, text};
use super::objects::LIMITS;

/// The library's functions and layers by name, with their files, without those for ONNX.
static LIBRARY_DEFINITIONS: LazyLock<HashMap<String, (&str, Function)>> = LazyLock::new(|| {
    let files = LIBRARY.iter().filter(|file| !file.name.starts_with("onnx_"));
    let mut found = HashMap::new();
    for entry in files {
        let file = tile_lang::parse(entry.text).file;
        for function in file.functions {
            if let Some(name) = function.name.as_ref().map(|name| name.name.clone()) {
                found.insert(name, (entry.name, function));
            }
        }
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
    LIBRARY_DEFINITIONS.get(name).map(|(_, function)| function)
}

/// The library's files of the functions for options, by the ends of the options' names.
const FILES: [(&str, &str); 4] = [
    ("activation", "activations.tile"),
    ("initializer", "initializers.tile"),
    ("regularizer", "regularizers.tile"),
    ("constraint", "constraints.tile"),
];

/// The activations that are not in the file for them.
const ACTIVATIONS: [&str; 2] = ["sigmoid", "tanh"];

/// Returns whether an option takes a name: one of the library's file for it, if there is one.
pub fn is_for_option(option: &str, name: &str) -> bool {
    FILES.iter().find(|(end, _)| option.ends_with(end)).is_none_or(|(end, file)| {
        LIBRARY_DEFINITIONS.get(name).is_some_and(|(found, _)| found == file)
            || (*end == "activation" && ACTIVATIONS.contains(&name))
    })
}

/// Returns the library's name for a function that is a class in Keras.
pub fn function_of(class: &str) -> String {
    if class == "L1L2" { "l1_l2".to_owned() } else { snake_case(class) }
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

/// The options of an object, those of the file borrowed.
type Options<'v> = BTreeMap<&'v str, Cow<'v, Value>>;

fn options(config: &Value) -> Options<'_> {
    let options = config.as_object().into_iter().flatten();
    options.map(|(name, value)| (name.as_str(), Cow::Borrowed(value))).collect()
}

/// Writes `Dense(10, activation = relu)`, with the arguments `more` at its end. The layer is an
/// option of one of the class `within`, which is empty for a layer of a model.
///
/// # Errors
/// Returns a sentence about a class or an option that the library lacks.
pub fn layer(
    class: &str,
    config: &Value,
    built: &Value,
    more: &[String],
    within: &str,
) -> Result<String, String> {
    let known = definition(class).filter(|_| class.starts_with(|c: char| c.is_ascii_uppercase()));
    let known = known.ok_or_else(|| format!("the library has no layer `{class}`"))?;
    let dtype = config["dtype"].as_str().or_else(|| config["dtype"]["config"]["name"].as_str());
    if let Some(dtype) = dtype.filter(|dtype| !FLOATS.contains(dtype)) {
        return Err(format!("it has the type `{dtype}`, and layers here compute in f32"));
    }
    if !config["lora_rank"].is_null() {
        return Err("its option `lora_rank` is not converted; help: leave it out in Keras, and load the weights there: the saved kernel has the product of the factors".into());
    }
    let mut config = options(config);
    simplify(class, &mut config, built, within);
    let arguments = arguments(known, &config)?.into_iter().chain(more.iter().cloned());
    Ok(format!("{class}({})", arguments.collect::<Vec<_>>().join(", ")))
}

/// Writes the options of a function, `axis = 1`.
///
/// # Errors
/// Returns a sentence about an option that the library lacks.
pub fn of_function(known: &Function, config: &Value) -> Result<String, String> {
    Ok(arguments(known, &options(config))?.join(", "))
}

/// Removes options that say what Keras derives from others.
fn simplify(class: &str, config: &mut Options, built: &Value, within: &str) {
    // The axes between the first and the last, which attention has by default.
    let between = |rank: usize| Value::from((1..rank.saturating_sub(1)).collect::<Vec<_>>());
    let query = built["shapes_dict"]["query_shape"].as_array();
    if class == "MultiHeadAttention"
        && query.is_some_and(|query| {
            config.get("attention_axes").is_some_and(|axes| **axes == between(query.len()))
        })
    {
        config.remove("attention_axes");
    }
    if config.get("value_dim").is_some() && config.get("value_dim") == config.get("key_dim") {
        config.remove("value_dim");
    }
    if let Some(Value::Object(limits)) = config.get("renorm_clipping").map(AsRef::as_ref) {
        let limits: Vec<Value> =
            LIMITS.map(|limit| limits.get(limit).cloned().unwrap_or_default()).to_vec();
        let has_limit = limits.iter().any(|limit| !limit.is_null());
        let limits = if has_limit { Value::Array(limits) } else { Value::Null };
        config.insert("renorm_clipping", Cow::Owned(limits));
    }
    if class.contains("Pooling") && config.get("strides") == config.get("pool_size") {
        config.remove("strides");
    }
    if within == "Bidirectional" {
        // Bidirectional layers set it here, too.
        config.remove("zero_output_for_mask");
    }
    if let (Some(layer), Some(backward)) = (config.get("layer"), config.get("backward_layer"))
        && class == "Bidirectional"
        && are_opposite(layer, backward)
    {
        config.remove("backward_layer");
    }
}

/// Returns whether two recurrent layers differ in their direction alone.
fn are_opposite(one: &Value, other: &Value) -> bool {
    const DIRECTED: [&str; 2] = ["go_backwards", "zero_output_for_mask"];
    let backwards = |layer: &Value| layer["config"]["go_backwards"] == true;
    backwards(one) != backwards(other)
        && are_equal(&one["config"], &other["config"], &DIRECTED)
        && are_equal(one, other, &["config"])
}

/// Returns whether two objects are equal, but for the options `but`, and for names, shapes and
/// numbers of objects, which differ between equal layers.
fn are_equal(one: &Value, other: &Value, but: &[&str]) -> bool {
    const NAMES: [&str; 5] = ["name", "seed", "build_config", "shared_object_id", "dtype"];
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let is_kept =
                |key: &&String| !NAMES.contains(&key.as_str()) && !but.contains(&key.as_str());
            let equal = |key: &String| match (one.get(key), other.get(key)) {
                (Some(one), Some(other)) => are_equal(one, other, &[]),
                _ => false,
            };
            one.keys().chain(other.keys()).filter(is_kept).all(equal)
        }
        (Value::Array(one), Value::Array(other)) => {
            let mut pairs = one.iter().zip(other);
            one.len() == other.len() && pairs.all(|(one, other)| are_equal(one, other, &[]))
        }
        _ => one == other,
    }
}

/// Writes the options that a definition takes.
fn arguments(known: &Function, config: &Options) -> Result<Vec<String>, String> {
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
        let value = if BY_AXIS.contains(&name) { collapsed(value) } else { value };
        let within = known.name.as_ref().map_or("", |name| &name.name);
        let given =
            argument(parameter, value, within).map_err(|what| format!("`{name}`: {what}"))?;
        let default = parameter.default.as_ref();
        if default.is_some_and(|default| is_same(&given, &default_text(name, default))) {
            by_position = false;
            continue;
        }
        by_position &= default.is_none() || (number == 0 && name != "axis");
        written.push(if by_position { given } else { format!("{name} = {given}") });
    }
    let is_extra = |(name, value): &(&&str, &Cow<Value>)| {
        let is_known = parameters.iter().any(|parameter| parameter.name.name == **name);
        let is_off = value.is_null() || ***value == false || ***value == "channels_last";
        !is_known && !is_off && !IGNORED.contains(*name)
    };
    match config.iter().find(is_extra) {
        Some((name, value)) => {
            let value = shown(value);
            Err(format!("the library's layer has no option `{name}`, which is {value}"))
        }
        None => Ok(written),
    }
}

/// Writes the start of a value for an error.
pub fn shown(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Returns the number of a list whose numbers are all equal, or the value itself. A list of equal
/// lists stays: `[[0, 1], [0, 1]]` is not `[0, 1]`.
fn collapsed(value: &Value) -> &Value {
    let Some(items) = value.as_array() else { return value };
    let mut numbers = items.iter().map(collapsed);
    match numbers.next() {
        Some(first) if first.is_number() && numbers.all(|number| number == first) => first,
        _ => value,
    }
}

/// Writes the value of a parameter.
fn argument(parameter: &Input, value: &Value, within: &str) -> Result<String, String> {
    let name = parameter.name.name.as_str();
    let Value::String(text) = value else { return written(value, within) };
    let kinds = ["activation", "initializer", "regularizer", "constraint"];
    if !kinds.iter().any(|kind| name.ends_with(kind)) {
        return written(value, within);
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

/// Writes a value of an option of `within`.
fn written(value: &Value, within: &str) -> Result<String, String> {
    match value {
        Value::Null => Ok("none".into()),
        Value::Number(number) => Ok(number.to_string()),
        Value::String(text) if text.contains(['"', '\\', '\n']) => {
            Err(format!("{} has characters that a text here cannot have", shown(value)))
        }
        Value::String(text) => Ok(name_or_text(text)),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Array(items) => {
            let mut list = "[".to_owned();
            for (at, item) in items.iter().enumerate() {
                list += if at == 0 { "" } else { ", " };
                list += &written(item, within)?;
            }
            Ok(list + "]")
        }
        Value::Object(_) => object(value, within),
    }
}

/// Writes an object of Keras, such as an initializer or a layer that one of the class `within`
/// contains.
fn object(value: &Value, within: &str) -> Result<String, String> {
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
        return layer(class, &value["config"], &value["build_config"], &[], within);
    }
    let name = function_of(class);
    let known = definition(&name).ok_or_else(|| format!("the library has no `{class}`"))?;
    let arguments = arguments(known, &options(&value["config"]))?;
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
