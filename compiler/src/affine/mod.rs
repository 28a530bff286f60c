//! Exact index arithmetic over the integers and the rationals, without rounding. Functions return
//! `None` or an error if a number leaves its range: nothing wraps and nothing panics.
//!
//! - [`Affine`] and [`RationalAffine`]: index expressions such as `2*i + j - 1` and `i/2`.
//! - [`ranges`]: the range of each variable under affine constraints.
//! - [`integral_points`]: the integer points at which fractional expressions are integers.
//! - [`hermite`]: variables that number the places an index map writes, and variables that reduce
//!   into one place.
//! - [`injective`]: decides whether an index map writes each place at most once.

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
