//! [`Bound`]: properties of every element of a value.

use tile_compiler::dtype::DType;
use tile_compiler::scalar::UnaryOp;

/// Properties that hold for every element of a value, on every correct device.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// The maximum absolute value.
    pub magnitude: f64,
    /// If set, all elements are multiples of `2^-grid`.
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

    /// Returns whether every device computes the same value.
    pub fn is_exact(self) -> bool {
        self.error == 0.0
    }

    /// Returns the bound of the value after rounding to `dtype`. Multiples of `2^-grid` that fit
    /// the significant bits stay. Integers wrap, and are exact.
    pub fn rounded(self, dtype: DType) -> Bound {
        if !dtype.is_float() {
            let most = 2f64.powi(dtype.bits() as i32);
            return Bound::exact(
                if self.magnitude < most / 2.0 { self.magnitude } else { most },
                0,
            );
        }
        let fits = |grid: i32| self.magnitude * 2f64.powi(grid) <= 1.0 / dtype.epsilon();
        match self.grid {
            Some(grid) if fits(grid) && self.is_exact() => self,
            _ => Bound::inexact(self.magnitude, self.error + dtype.epsilon() * self.magnitude),
        }
    }
}

/// Returns the error of a device's functions relative to their greatest value: see
/// `tests/elementary.rs`. The exponentials of a softmax may be the device's own.
pub fn function_error(op: UnaryOp, dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-12,
        DType::F32 if op == UnaryOp::Exp => 1e-5,
        _ => 4.0 * dtype.epsilon(),
    }
}
