//! The memory that kernels work on.
//!
//! `elements` views bytes as numbers, `operand` has the tensors of a nest, and `shared` a slice
//! that several threads write, each its own part. [`scratch`] keeps buffers from one use to the
//! next, `caches` tells how much memory is near, and `pages` asks for huge pages.

mod caches;
#[expect(unsafe_code, reason = "types of plain bytes")]
mod elements;
#[expect(unsafe_code, reason = "an operand may be memory that an output overwrites")]
mod operand;
#[cfg_attr(target_os = "linux", expect(unsafe_code, reason = "advice on the pages of memory"))]
mod pages;
pub mod scratch;
#[expect(unsafe_code, reason = "several threads write parts of one slice")]
mod shared;

pub use caches::CACHES;
pub use elements::{Bool, CacheLine, Register, bytes, elements, elements_mut};
pub use operand::{Launch, Operand, Operands, Output, Outputs};
pub use pages::prefer_huge_pages;
pub use shared::Shared;
