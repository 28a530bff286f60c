//! Exact index arithmetic.
//!
//! Everything here is over the integers or the rationals, without rounding, and answers `None` or an error where a
//! number would leave its range: nothing wraps and nothing panics.
//!
//! - [`Affine`] and [`RationalAffine`]: index expressions such as `2*i + j - 1` and `i/2`;
//! - [`ranges`]: the values that each variable takes under affine constraints;
//! - [`integral_points`]: the integer points where fractional expressions are integers;
//! - [`hermite`]: variables that number the places an index map writes, and those that reduce into one place;
//! - [`injective`]: whether an index map writes each place at most once.

mod expression;
mod hermite;
mod injective;
mod lattice;
mod ranges;
mod rational;
mod simplex;

pub use expression::Affine;
pub use hermite::{Hermite, hermite};
pub use injective::{Injectivity, injective};
pub use lattice::integral_points;
pub use ranges::{Ranges, ranges};
pub use rational::RationalAffine;
