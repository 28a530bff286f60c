//! The embedded device. It needs no driver, only this processor's vector units and threads.
//!
//! It executes native programs ([`tile_compiler::native`]). A program is prepared once
//! ([`Prepared`]) and then runs any number of times. Its implementation is one of these:
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
//! - `pieces`: a nest without a reduction whose parts read different operands.
//!
//! Every implementation ends with the nest's epilogue, which is a job of the vector loops.
//!
//! The rooms, from the ground up. Each uses only those before it:
//!
//! - `memory`: buffers, operands and outputs.
//! - `vector`: registers and loops over chunks, for each vector unit.
//! - `threads`: the pool.
//! - `loops`: nests of any kind, by vector loops.
//! - `product`: sums of products, in registers.
//!
//! Unsafe code is in the modules that expect it here and in the rooms. A function or trait with a
//! contract is `unsafe`, and states it as a list.
//!
//! Always true: results do not depend on the number of threads.

#[expect(unsafe_code, reason = "threads write parts of one output")]
mod attention;
#[expect(unsafe_code, reason = "threads write parts of new memory")]
pub(crate) mod copy;
mod loops;
mod memory;
pub(crate) mod needs;
#[expect(unsafe_code, reason = "functions compiled for a vector unit")]
pub mod peak;
#[expect(unsafe_code, reason = "threads write parts of one output")]
mod prepared;
mod product;
pub(crate) mod profile;
#[expect(unsafe_code, reason = "nests run on the plan's memory")]
mod steps;
mod threads;
mod vector;

pub use memory::{Operand, Output};
use memory::{Operands, Outputs};
pub use prepared::{Packed, Prepared, RunError, run};
pub use product::gemm;
pub(crate) use steps::PreparedSteps;
pub(crate) use threads::count::{chosen as chosen_threads, threads};
pub use threads::stopwatch::Stopwatch;

#[cfg(test)]
#[expect(unsafe_code, reason = "nests run on memory of the tests")]
mod tests;
