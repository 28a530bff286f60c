//! `run --compare`: how far outputs are from those in f32.

use std::fmt;

use serde::Serialize;
use tile_compiler::tensor::Tensor;

/// The distance of an output from the same in f32. Infinite or NaN if one of the two is.
#[derive(Serialize)]
pub struct Difference {
    /// The greatest difference of two elements.
    greatest: f64,
    /// That difference, as a share of the greatest magnitude in f32.
    share: f64,
    /// The root of the mean square of the differences, as a share of that of the values in f32.
    root_mean_square: f64,
}

impl Difference {
    /// Compares an output with `exact`, that in f32.
    pub fn of(output: &Tensor, exact: &Tensor) -> Difference {
        let (mut greatest, mut magnitude, mut squares, mut exact_squares) = (0.0, 0.0, 0.0, 0.0);
        for (output, exact) in output.scalars().zip(exact.scalars()) {
            let (output, exact) = (output.to_f64(), exact.to_f64());
            let is_same = output == exact || (output.is_nan() && exact.is_nan());
            let difference = if is_same { 0.0 } else { (output - exact).abs() };
            // Unlike `f64::max`, keeps NaNs.
            greatest = if difference <= greatest { greatest } else { difference };
            if exact.is_finite() {
                magnitude = exact.abs().max(magnitude);
                exact_squares += exact * exact;
            }
            squares += difference * difference;
        }
        let ratio = |part: f64, whole: f64| if part == 0.0 { 0.0 } else { part / whole };
        Difference {
            greatest,
            share: ratio(greatest, magnitude),
            root_mean_square: ratio(squares, exact_squares).sqrt(),
        }
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
