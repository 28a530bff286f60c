//! [`Bound`]: what is known of every element of a value.

use tile_compiler::dtype::DType;
use tile_compiler::scalar::UnaryOp;

/// Holds for every element of a value, on every correct device.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// The most that an absolute value is.
    pub magnitude: f64,
    /// All elements are multiples of `2^-grid`.
    pub grid: Option<i32>,
    /// The most by which an element may differ from the reference's.
    pub error: f64,
}

impl Bound {
    pub fn exact(magnitude: f64, grid: i32) -> Bound {
        Bound { magnitude, grid: Some(grid), error: 0.0 }
    }

    pub fn inexact(magnitude: f64, error: f64) -> Bound {
        Bound { magnitude, grid: None, error }
    }

    /// Every device has the same value here.
    pub fn is_exact(self) -> bool {
        self.error == 0.0
    }

    /// Of the value after it is rounded to `dtype`: nothing happens to multiples of `2^-grid` that the digits hold.
    /// Integers wrap, and are exact.
    pub fn rounded(self, dtype: DType) -> Bound {
        if !dtype.is_float() {
            let most = 2f64.powi(dtype.bits() as i32);
            return Bound::exact(if self.magnitude < most / 2.0 { self.magnitude } else { most }, 0);
        }
        let fits = |grid: i32| self.magnitude * 2f64.powi(grid) <= 1.0 / dtype.epsilon();
        match self.grid {
            Some(grid) if fits(grid) && self.is_exact() => self,
            _ => Bound::inexact(self.magnitude, self.error + dtype.epsilon() * self.magnitude),
        }
    }
}

/// How exact a device's functions are, relative to the greatest value they can take: shading languages promise little,
/// and least of the inverse functions of angles (4096 units in the last place).
pub fn function_error(op: UnaryOp, dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-12,
        DType::F32 if matches!(op, UnaryOp::Acos | UnaryOp::Asin | UnaryOp::Atan) => 4096.0 * dtype.epsilon(),
        DType::F32 => 1e-5,
        _ => 4.0 * dtype.epsilon(),
    }
}
