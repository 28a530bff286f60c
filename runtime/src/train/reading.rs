//! What an epoch or an evaluation gives under a name.

use std::fmt;

use tile_compiler::dtype::Scalar;
use tile_compiler::tensor::Tensor;

/// A number; or several, of a metric with a value for each of several thresholds or classes, in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    Number(f64),
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

    /// The number, where it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Reading::Number(value) => Some(*value),
            Reading::List(_) => None,
        }
    }

    /// The numbers.
    pub fn values(&self) -> &[f64] {
        match self {
            Reading::Number(value) => std::slice::from_ref(value),
            Reading::List(values) => values,
        }
    }
}

/// `0.25`, or `[0.25, 0.5]`; a precision is that of each number.
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
