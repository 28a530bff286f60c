//! The embedded device. It needs no driver, only this processor's vector units and threads.
//!
//! A nest is analysed once ([`Prepared`]) and then runs any number of times. Its roles and sizes
//! decide which implementation runs it:
//!
//! - `contraction`: a sum of products of two operands, by the packed matrix product of [`gemm`].
//! - `winograd`: most convolutions with windows of 3 × 3 and 5 × 5, with fewer multiplications.
//! - `direct`: a short reduction whose elements are contiguous along the last axis, in tiles of
//!   vector registers.
//! - `scatter`: a reduction whose points compute the place that they contribute to, by lists of
//!   points.
//! - `attention`: a nest with inner sums, in stages over blocks of rows.
//! - `reduction`: any other reduction, by vector loops.
//! - `job`: a nest without a reduction.
//!
//! The vector loops run the nest's scalar programs over chunks of points, one instruction at a time
//! (`tape`, `machine`), with the loops of `vector`. Every implementation ends with the nest's
//! epilogue, which runs in the same way (`job`).
//!
//! Always true: results do not depend on the number of threads.

mod attention;
mod caches;
mod chain;
mod contraction;
mod direct;
#[cfg(test)]
mod emulated;
mod fused;
mod idle;
mod job;
mod lanes;
mod machine;
mod math;
mod memory;
mod narrow;
pub(crate) mod needs;
mod number;
mod pool;
mod prepared;
mod reduction;
mod scatter;
mod scratch;
mod shared;
mod simd;
mod space;
mod steps;
mod strip;
mod tape;
mod vector;
mod winograd;

pub mod gemm;
pub mod peak;
mod places;

pub use memory::{Operand, Output};
pub use prepared::{Packed, Prepared, RunError, run};
pub(crate) use steps::Steps;

#[cfg(test)]
mod tests;
