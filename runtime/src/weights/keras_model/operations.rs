//! Writes calls of functions of `keras.ops`, which stand between the layers of Functional models.

use serde_json::Value;
use tile_compiler::names::snake_case;

use super::config::Layer;
use super::options::{self, shown};

/// A bound on the number of a tensor's axes.
const MOST_AXES: u64 = 64;

/// An operator or function of tensors.
struct Elementwise {
    class: &'static str,
    /// The text of a call, with `{0}` and `{1}` for its operands.
    text: &'static str,
    /// True if the result is a mask that calls take, or a part of one. Other results lose the masks
    /// of their operands in Keras, and keep them here.
    is_mask: bool,
}

const fn plain(class: &'static str, text: &'static str) -> Elementwise {
    Elementwise { class, text, is_mask: false }
}

const fn mask(class: &'static str, text: &'static str) -> Elementwise {
    Elementwise { class, text, is_mask: true }
}

const ELEMENTWISE: [Elementwise; 25] = [
    plain("Add", "{0} + {1}"),
    plain("Subtract", "{0} - {1}"),
    plain("Multiply", "{0} * {1}"),
    plain("TrueDivide", "{0} / {1}"),
    plain("Divide", "{0} / {1}"),
    plain("Power", "pow({0}, {1})"),
    plain("Maximum", "max({0}, {1})"),
    plain("Minimum", "min({0}, {1})"),
    plain("Negative", "-{0}"),
    plain("Absolute", "abs({0})"),
    plain("Exp", "exp({0})"),
    plain("Log", "log({0})"),
    plain("Square", "{0} * {0}"),
    plain("Sqrt", "sqrt({0})"),
    plain("Sigmoid", "sigmoid({0})"),
    plain("Tanh", "tanh({0})"),
    mask("Equal", "{0} == {1}"),
    mask("NotEqual", "{0} != {1}"),
    mask("Greater", "{0} > {1}"),
    mask("GreaterEqual", "{0} >= {1}"),
    mask("Less", "{0} < {1}"),
    mask("LessEqual", "{0} <= {1}"),
    mask("LogicalAnd", "{0} & {1}"),
    mask("LogicalOr", "{0} | {1}"),
    mask("LogicalNot", "{0} == 0"),
];

/// Reductions and the library's functions for them.
const REDUCTIONS: [(&str, &str); 4] =
    [("Max", "amax"), ("Mean", "mean"), ("Min", "amin"), ("Sum", "sum")];

/// Returns whether a layer is a function of `keras.ops`.
pub fn is_function(layer: &Layer) -> bool {
    layer.module.split('.').any(|part| part == "ops")
}

/// Writes a call of a function. `operands` has its operands, a list as `[A, B]`, and `place` the
/// value of its second argument, if that is no tensor. With `has_masks`, tensors may have masks.
///
/// # Errors
/// Returns a sentence about a function that is not converted.
pub fn call(
    layer: &Layer,
    operands: &[String],
    place: Option<&Value>,
    has_masks: bool,
) -> Result<String, String> {
    let (text, is_mask) = match ELEMENTWISE.iter().find(|known| known.class == layer.class) {
        Some(known) => (elementwise(known, operands)?, known.is_mask),
        None if layer.class == "Any" => (any(layer, operands)?, true),
        None if layer.class == "Cast" => (cast(layer, operands)?, layer.config["dtype"] == "bool"),
        None => (function(layer, operands, place)?, false),
    };
    Ok(if has_masks && !is_mask { format!("with_mask({text}, none)") } else { text })
}

fn elementwise(known: &Elementwise, operands: &[String]) -> Result<String, String> {
    let count = if known.text.contains("{1}") { 2 } else { 1 };
    if operands.len() != count {
        return Err(format!("expected {count} operands, found {}", operands.len()));
    }
    let place =
        |text: String, (at, operand): (usize, &String)| text.replace(&format!("{{{at}}}"), operand);
    Ok(operands.iter().enumerate().fold(known.text.to_owned(), place))
}

/// Writes whether any number along an axis, by default along all, is not 0.
fn any(layer: &Layer, operands: &[String]) -> Result<String, String> {
    let [operand] = operands else { return Err("expected one operand".into()) };
    let axis = match &layer.config["axis"] {
        Value::Null => "none".to_owned(),
        axis => axis.to_string(),
    };
    let keepdims = if layer.config["keepdims"] == true { ", true" } else { "" };
    Ok(format!("amax({axis}{keepdims})(as_int({operand} != 0, 32)) != 0"))
}

fn cast(layer: &Layer, operands: &[String]) -> Result<String, String> {
    let [operand] = operands else { return Err("expected one operand".into()) };
    match layer.config["dtype"].as_str() {
        Some("bool") => Ok(format!("as_bool({operand})")),
        Some("int32") => Ok(format!("as_int({operand}, 32)")),
        Some("float32") => Ok(format!("as_float({operand}, 32)")),
        _ => Err(format!(
            "expected a cast to bool, int32 or float32, found {}",
            shown(&layer.config["dtype"])
        )),
    }
}

fn function(layer: &Layer, operands: &[String], place: Option<&Value>) -> Result<String, String> {
    let config = &layer.config;
    let [operand] = operands else {
        return Err("this function of several operands is not converted".into());
    };
    if let Some((_, name)) = REDUCTIONS.iter().find(|(class, _)| *class == layer.class) {
        if !config["initial"].is_null() {
            return Err("the option `initial` is not converted".into());
        }
        let keepdims = if config["keepdims"] == true { "true" } else { "false" };
        let axis = match &config["axis"] {
            Value::Null => "none".to_owned(),
            axis => axis.to_string(),
        };
        return Ok(format!("{name}({axis}, {keepdims})({operand})"));
    }
    let before = |end: i64| format!("slice(dims({operand}), 0, {end})");
    let from = |start: i64| format!("slice(dims({operand}), {start})");
    let axis = || {
        let axis = config["axis"].as_i64().filter(|axis| axis.unsigned_abs() < MOST_AXES);
        axis.ok_or_else(|| {
            format!("expected the number of an axis for `axis`, found {}", shown(&config["axis"]))
        })
    };
    match layer.class.as_str() {
        "GetItem" => items(operand, place.unwrap_or(&Value::Null)),
        "Reshape" => reshape(operand, &config["newshape"]),
        "Transpose" if config["axes"].is_array() => {
            Ok(format!("transpose({operand}, {})", config["axes"]))
        }
        "Transpose" => Ok(format!("OnnxTranspose()({operand})")),
        "Concatenate" => Ok(format!("{operand} |> Concatenate({})", axis()?)),
        "ExpandDims" if config["axis"].is_array() => {
            Ok(format!("OnnxUnsqueeze_13({operand}, {})", config["axis"]))
        }
        "ExpandDims" => Ok(match axis()? {
            -1 => format!("reshape({operand}, dims({operand}) + [1])"),
            axis => {
                let at = axis + i64::from(axis < 0);
                format!("reshape({operand}, {} + [1] + {})", before(at), from(at))
            }
        }),
        "Squeeze" if config["axis"].is_null() => Ok(format!("OnnxSqueeze_13({operand})")),
        "Squeeze" if config["axis"].is_array() => {
            Ok(format!("OnnxSqueeze_13({operand}, {})", config["axis"]))
        }
        "Squeeze" => Ok(match axis()? {
            -1 => format!("reshape({operand}, {})", before(-1)),
            axis => format!("reshape({operand}, {} + {})", before(axis), from(axis + 1)),
        }),
        class => {
            let known = options::definition(&snake_case(class)).filter(|_| {
                // Functions of keras.ops.nn are the library's activations.
                layer.module.ends_with(".nn")
            });
            let known = known.ok_or("only layers and the usual functions, such as `x + y` and `keras.ops.mean`, are converted")?;
            let arguments = options::of_function(known, config)?;
            let arguments = if arguments.is_empty() { arguments } else { format!("({arguments})") };
            Ok(format!("{}{arguments}({operand})", snake_case(class)))
        }
    }
}

/// Writes a reshape. One size may be -1, and is inferred.
fn reshape(operand: &str, shape: &Value) -> Result<String, String> {
    let sizes: Option<Vec<i64>> =
        shape.as_array().and_then(|sizes| sizes.iter().map(Value::as_i64).collect());
    let sizes = sizes.ok_or("expected a list of numbers for `newshape`")?;
    let known: Option<i64> = sizes
        .iter()
        .filter(|&&size| size != -1)
        .try_fold(1, |product: i64, &size| product.checked_mul(size));
    let known = known.filter(|known| *known > 0).ok_or("a size of `newshape` is 0")?;
    let size = |size: &i64| match size {
        -1 => format!("product(dims({operand})) / {known}"),
        size => size.to_string(),
    };
    let sizes: Vec<String> = sizes.iter().map(size).collect();
    Ok(format!("reshape({operand}, {})", sizes.join(", ")))
}

/// Writes the part of a tensor that a list of numbers and slices names, such as `x[:, -1, 2:]`.
fn items(operand: &str, place: &Value) -> Result<String, String> {
    let single = [place.clone()];
    let places = place.as_array().map_or(&single[..], Vec::as_slice);
    let rest = places.iter().position(|place| place["class_name"] == "__ellipsis__");
    let (before, after) = match rest {
        Some(rest) => (&places[..rest], &places[rest + 1..]),
        None => (places, &places[..0]),
    };
    let mut text = operand.to_owned();
    // An axis that is left out moves those before it that count from the end, and those after it
    // that count from the start.
    for (at, place) in after.iter().enumerate() {
        let axis = at as i64 - after.len() as i64;
        text = item(text, axis, place)?;
    }
    for (at, place) in before.iter().enumerate().rev() {
        text = item(text, at as i64, place)?;
    }
    Ok(text)
}

/// Writes the part of a tensor along an axis that a number or a slice names.
fn item(tensor: String, axis: i64, place: &Value) -> Result<String, String> {
    if let Some(at) = place.as_i64() {
        return Ok(format!("item_along({axis}, {at})({tensor})"));
    }
    if place["class_name"] != "__slice__" {
        return Err("only numbers and slices are converted as indices".into());
    }
    let [start, stop, step] = ["start", "stop", "step"].map(|part| &place["config"][part]);
    let number = |part: &Value, default: &str| match part {
        Value::Null => Ok(default.to_owned()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err("a tensor as the bound of a slice is not converted".to_owned()),
    };
    if step.as_i64().is_some_and(|step| step < 1) {
        return Err("a slice backwards is not converted".into());
    }
    if start.is_null() && stop.is_null() && step.is_null() {
        return Ok(tensor);
    }
    let (start, stop, step) = (number(start, "0")?, number(stop, "none")?, number(step, "1")?);
    Ok(format!("slice_along({axis}, {start}, {stop}, {step})({tensor})"))
}
