//! The kinds of the types of a Keras model's tensors, and the casts that Keras makes in calls.

use super::config::Layer;
use super::operations::is_function;

/// A kind of types. Keras computes with several in the last of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Bool,
    Int,
    Float,
}

/// The kinds in a call.
pub struct CallKinds {
    /// The kind to which Keras casts the tensors that the call computes with.
    pub operands: Kind,
    pub result: Kind,
}

/// Functions and layers that rearrange the numbers of a tensor.
const REARRANGING: [&str; 9] = [
    "ExpandDims",
    "Flatten",
    "GetItem",
    "Identity",
    "Permute",
    "RepeatVector",
    "Reshape",
    "Squeeze",
    "Transpose",
];

/// Functions whose results are true or false.
const LOGICAL: [&str; 10] = [
    "Any",
    "Equal",
    "Greater",
    "GreaterEqual",
    "Less",
    "LessEqual",
    "LogicalAnd",
    "LogicalNot",
    "LogicalOr",
    "NotEqual",
];

/// Functions that compute in floats.
const OF_FLOATS: [&str; 8] =
    ["Divide", "Exp", "Log", "Mean", "Sigmoid", "Sqrt", "Tanh", "TrueDivide"];

/// Operators that compute in the last kind of their operands.
const OPERATORS: [&str; 5] = ["Add", "Maximum", "Minimum", "Multiply", "Subtract"];

/// Layers that compute in floats with any tensor.
const LAYERS_OF_FLOATS: [&str; 4] =
    ["Dense", "GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D"];

impl Kind {
    /// Returns the kind of a type.
    pub fn of_dtype(dtype: &str) -> Kind {
        match dtype {
            "bool" => Kind::Bool,
            _ if dtype.starts_with("int") || dtype.starts_with("uint") => Kind::Int,
            _ => Kind::Float,
        }
    }

    /// Writes the cast of a tensor of this kind to the kind `to`.
    pub fn cast(self, text: String, to: Kind) -> String {
        match to {
            _ if self >= to => text,
            Kind::Float => format!("as_float({text}, 32)"),
            Kind::Bool | Kind::Int => format!("as_int({text}, 32)"),
        }
    }
}

/// Returns the kinds in a call with operands of these kinds.
///
/// # Errors
/// Returns a sentence about operands of which Keras makes other types than the program would.
pub fn of_call(layer: &Layer, operands: &[Kind]) -> Result<CallKinds, String> {
    let is_function = is_function(layer);
    let class = layer.class.as_str();
    let least = operands.iter().copied().min().unwrap_or(Kind::Float);
    let most = operands.iter().copied().max().unwrap_or(Kind::Float);
    let is_of_floats =
        if is_function { OF_FLOATS.contains(&class) } else { LAYERS_OF_FLOATS.contains(&class) };
    let (operands, result) = if REARRANGING.contains(&class) {
        (least, most)
    } else if layer.network.is_some() {
        (least, Kind::Float)
    } else if is_function && LOGICAL.contains(&class) {
        (least, Kind::Bool)
    } else if is_function && class == "Cast" {
        (least, Kind::of_dtype(layer.config["dtype"].as_str().unwrap_or_default()))
    } else if class == "Concatenate" {
        (most, most)
    } else if is_of_floats {
        (Kind::Float, Kind::Float)
    } else if is_function && class == "Sum" {
        (most.max(Kind::Int), most.max(Kind::Int))
    } else if is_function && OPERATORS.contains(&class) && most > Kind::Bool {
        (least, most)
    } else if least == Kind::Bool {
        return Err("it takes true and false as numbers, which is not converted; help: multiply them by 1.0 in Keras".into());
    } else {
        (least, if is_function { most } else { Kind::Float })
    };
    Ok(CallKinds { operands, result })
}
