//! The memory that kernels work on.
//!
//! `elements` views bytes as numbers, `operand` has the tensors of a nest, and `shared` a slice that
//! several threads write, each its own part. [`scratch`] keeps buffers from one use to the next, and
//! `caches` tells how much memory is near.

mod caches;
mod elements;
mod operand;
pub mod scratch;
mod shared;

pub use caches::CACHES;
pub use elements::{Line, Plain, Register, bytes, bytes_of, elements, elements_mut, prefetch};
pub use operand::{Launch, Operand, Output};
pub use shared::Shared;
