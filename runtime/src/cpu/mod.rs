//! The embedded device: it needs no driver, only this processor's vector units and a thread pool.
//!
//! [`run`] executes one nest. A sum of products of two operands goes to the packed matrix product of [`gemm`]
//! (`contraction`); everything else to `loops`, which runs the nest's scalar programs over chunks of points, an
//! instruction at a time (`tape`), with the vector loops of `vector`.
//!
//! Always true: results do not depend on the number of threads.

mod contraction;
mod loops;
mod math;
mod memory;
mod narrow;
mod number;
mod scratch;
mod shared;
mod simd;
mod space;
mod tape;
mod vector;

pub mod gemm;
pub mod peak;

pub use loops::{RunError, run};

#[cfg(test)]
mod tests;
