//! `run --compare`: how far outputs are from those in f32.

use std::fmt;

use serde::{Serialize, Serializer};
use tile_compiler::tensor::Tensor;

/// How far an output is from that of the run in f32: infinite or NaN if an element is so in one of
/// the two only.
#[derive(Serialize)]
pub struct Difference {
    /// The greatest difference of two elements.
    #[serde(serialize_with = "number")]
    greatest: f64,
    /// That difference, as a share of the greatest magnitude in f32.
    #[serde(serialize_with = "number")]
    share: f64,
    /// The root of the mean square of the differences, as a share of that of the values in f32.
    #[serde(serialize_with = "number")]
    root_mean_square: f64,
}

/// Writes a number, or as a string what JSON has no number for.
fn number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    match value.is_finite() {
        true => serializer.serialize_f64(*value),
        false => serializer.serialize_str(&value.to_string()),
    }
}

impl Difference {
    /// Compares an output with `exact`, that in f32. `None` if they have different shapes.
    pub fn of(output: &Tensor, exact: &Tensor) -> Option<Difference> {
        if output.ty() != exact.ty() {
            return None;
        }
        let mut greatest: f64 = 0.0;
        let (mut magnitude, mut squares, mut exact_squares) = (0.0f64, 0.0, 0.0);
        for (output, exact) in output.scalars().zip(exact.scalars()) {
            let (output, exact) = (output.to_f64(), exact.to_f64());
            let is_same = output == exact || (output.is_nan() && exact.is_nan());
            let difference = if is_same { 0.0 } else { (output - exact).abs() };
            // Unlike `f64::max`, keeps NaNs.
            let is_less = greatest.is_nan() || difference <= greatest;
            greatest = if is_less { greatest } else { difference };
            if exact.is_finite() {
                magnitude = exact.abs().max(magnitude);
                exact_squares += exact * exact;
            }
            squares += difference * difference;
        }
        let ratio = |part: f64, whole: f64| if part == 0.0 { 0.0 } else { part / whole };
        Some(Difference {
            greatest,
            share: ratio(greatest, magnitude),
            root_mean_square: ratio(squares, exact_squares).sqrt(),
        })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { greatest, share, root_mean_square } = self;
        write!(
            f,
            "differs from f32 by at most {greatest:.2e}, {:.2}% of the greatest value; root mean square {:.3}%",
            share * 100.0,
            root_mean_square * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(output: &[f32], exact: &[f32]) -> String {
        let tensor = |values: &[f32]| Tensor::from_f32([values.len()], values).unwrap();
        let difference = Difference::of(&tensor(output), &tensor(exact));
        difference.map_or_else(|| "other shapes".into(), |difference| difference.to_string())
    }

    #[test]
    fn differences() {
        insta::assert_snapshot!(of(&[1.0, -3.0], &[1.0, -4.0]), @"differs from f32 by at most 1.00e0, 25.00% of the greatest value; root mean square 24.254%");
        let special = [f32::NAN, f32::INFINITY, 2.0];
        insta::assert_snapshot!(of(&special, &special), @"differs from f32 by at most 0.00e0, 0.00% of the greatest value; root mean square 0.000%");
        insta::assert_snapshot!(of(&[1.0, f32::NAN, 2.0], &[1.0, 1.0, 2.0]), @"differs from f32 by at most NaN, NaN% of the greatest value; root mean square NaN%");
        insta::assert_snapshot!(of(&[f32::INFINITY, 1.0], &[1.0, 1.0]), @"differs from f32 by at most inf, inf% of the greatest value; root mean square inf%");
        insta::assert_snapshot!(of(&[], &[]), @"differs from f32 by at most 0.00e0, 0.00% of the greatest value; root mean square 0.000%");
        assert_eq!(of(&[1.0], &[1.0, 2.0]), "other shapes");
    }
}
