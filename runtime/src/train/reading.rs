//! Results of an epoch or an evaluation.

use std::fmt;

use tile_compiler::dtype::Scalar;
use tile_compiler::tensor::Tensor;

/// A number, or several for a metric with several thresholds or classes, in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// One number.
    Number(f64),
    /// Several numbers.
    List(Vec<f64>),
}

impl Reading {
    pub(super) fn of(tensor: &Tensor) -> Reading {
        let values: Vec<f64> = tensor.scalars().map(Scalar::to_f64).collect();
        match values[..] {
            [value] => Reading::Number(value),
            _ => Reading::List(values),
        }
    }

    /// Returns the number, unless this is a list.
    pub fn number(&self) -> Option<f64> {
        match self {
            Reading::Number(value) => Some(*value),
            Reading::List(_) => None,
        }
    }

    /// Returns all numbers.
    pub fn values(&self) -> &[f64] {
        match self {
            Reading::Number(value) => std::slice::from_ref(value),
            Reading::List(values) => values,
        }
    }
}

/// A number that is not finite becomes null, because JSON has none.
impl From<&Reading> for serde_json::Value {
    fn from(reading: &Reading) -> serde_json::Value {
        match reading {
            Reading::Number(value) => (*value).into(),
            Reading::List(values) => values.as_slice().into(),
        }
    }
}

/// Formats `0.25` or `[0.25, 0.5]`. A precision applies to each number.
impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reading::Number(value) => fmt::Display::fmt(value, f),
            Reading::List(values) => {
                f.write_str("[")?;
                for (number, value) in values.iter().enumerate() {
                    f.write_str(if number == 0 { "" } else { ", " })?;
                    fmt::Display::fmt(value, f)?;
                }
                f.write_str("]")
            }
        }
    }
}
