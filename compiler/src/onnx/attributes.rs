//! The attributes of nodes as compile-time values.

use std::collections::HashMap;

use super::import::Importer;
use super::proto::{self, Attribute};
use super::tensor;
use crate::dtype::{DType, Scalar};
use crate::lower::Passed;
use crate::tensor::Tensor;

/// The attributes of a call of the file's function, by name.
pub(super) type Attributes = HashMap<String, Attribute>;

impl Importer<'_> {
    /// Converts an attribute to a compile-time value.
    pub fn attribute(&mut self, attribute: &Attribute) -> Result<Passed, String> {
        let text_of = |bytes: &[u8]| Passed::Text(String::from_utf8_lossy(bytes).into_owned());
        Ok(match kind(attribute) {
            1 => Passed::Float(f64_of(attribute.float)),
            2 => Passed::Int(attribute.int),
            3 => text_of(&attribute.text),
            6 => Passed::List(
                attribute.floats.iter().map(|&value| Passed::Float(f64_of(value))).collect(),
            ),
            7 => Passed::List(attribute.ints.iter().map(|&value| Passed::Int(value)).collect()),
            8 => Passed::List(attribute.texts.iter().map(|bytes| text_of(bytes)).collect()),
            4 => match &attribute.tensor {
                Some(tensor) => literal(&tensor::tensor(tensor, self.loader)?),
                None => return Err("it has no value".into()),
            },
            kind => return Err(format!("attributes of the kind {kind} are not supported")),
        })
    }
}

/// Returns the kind of an attribute's value. Old files lack it.
fn kind(attribute: &Attribute) -> i32 {
    match attribute {
        Attribute { kind: 0, tensor: Some(_), .. } => 4,
        Attribute { kind: 0, floats, .. } if !floats.is_empty() => 6,
        Attribute { kind: 0, ints, .. } if !ints.is_empty() => 7,
        Attribute { kind: 0, texts, .. } if !texts.is_empty() => 8,
        Attribute { kind: 0, text, .. } if !text.is_empty() => 3,
        Attribute { kind: 0, float, .. } if *float != 0.0 => 1,
        Attribute { kind: 0, .. } => 2,
        Attribute { kind, .. } => *kind,
    }
}

/// Returns the f64 with the shortest decimal representation of this f32.
fn f64_of(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

/// Converts a tensor to a compile-time value: a number, or nested lists.
pub(super) fn literal(tensor: &Tensor) -> Passed {
    fn nested(shape: &[usize], scalars: &[Scalar]) -> Passed {
        match shape.split_first() {
            None => scalars.first().map_or(Passed::Nothing, |scalar| match scalar.dtype {
                DType::Bool => Passed::Bool(scalar.is_true()),
                dtype if dtype.is_float() => Passed::Float(match dtype {
                    DType::F32 => f64_of(scalar.to_f64() as f32),
                    _ => scalar.to_f64(),
                }),
                _ => Passed::Int(scalar.to_i64()),
            }),
            Some((&size, rest)) => {
                let part = scalars.len().checked_div(size).unwrap_or(0);
                Passed::List(
                    (0..size).map(|n| nested(rest, &scalars[n * part..][..part])).collect(),
                )
            }
        }
    }
    nested(tensor.shape(), &tensor.scalars().collect::<Vec<_>>())
}

/// Attributes without effect on results: inputs that may be overwritten, and whether an output is
/// wanted.
const IGNORED: [&str; 2] = ["consumed_inputs", "output_sequence"];

/// Those of `MatMulNBits`: sizes that its inputs have, too, and the least accuracy.
const IGNORED_OF_N_BITS: [&str; 3] = ["K", "N", "accuracy_level"];

/// Returns the attributes of a node, without ignored ones. References to the enclosing function's
/// attributes are replaced by their values.
pub(super) fn resolved<'a>(
    node: &'a proto::Node,
    outer: &'a Attributes,
) -> Vec<(String, &'a Attribute)> {
    let of = |attribute: &'a Attribute| match attribute.reference.as_str() {
        "" => Some((attribute.name.clone(), attribute)),
        name => outer.get(name).map(|given| (attribute.name.clone(), given)),
    };
    node.attributes
        .iter()
        .filter(|attribute| {
            let name = attribute.name.as_str();
            let is_of_n_bits = node.op == "MatMulNBits" && IGNORED_OF_N_BITS.contains(&name);
            !is_of_n_bits && !IGNORED.contains(&name)
        })
        .filter_map(of)
        .collect()
}
