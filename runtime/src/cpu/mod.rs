//! The embedded device: it needs no driver, only this processor's vector units and threads.
//!
//! A nest is analysed once ([`Prepared`]) and then runs any number of times, in the way that its roles and sizes call for. A sum of
//! products of two operands goes to the packed matrix product of [`gemm`] (`contraction`), but for most convolutions by windows of 3 × 3 and 5 × 5, which take fewer
//! multiplications than that (`winograd`); a short reduction along whose last axis
//! elements lie side by side, to tiles of vector registers (`direct`); one whose points name their places themselves, to lists of points
//! (`scatter`); any other to vector loops (`reduction`), which run the nest's scalar
//! programs over chunks of points, an instruction at a time (`tape`, `machine`), with the loops of `vector`. So do epilogues, and
//! nests without a reduction (`job`).
//!
//! Always true: results do not depend on the number of threads.

mod attention;
mod caches;
mod chain;
mod contraction;
mod direct;
mod fused;
mod idle;
mod job;
mod lanes;
mod machine;
mod math;
mod memory;
mod narrow;
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
