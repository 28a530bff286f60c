//! Exact index arithmetic.
//!
//! Everything here is over the integers or the rationals, without rounding, and answers `None` or an error where a
//! number would leave its range: nothing wraps and nothing panics.

mod expression;

pub use expression::Affine;
