//! Vector loops: nests run over chunks of points, whatever their scalar program is.
//!
//! [`walk`] follows affine addresses through points. A [`runner`] has a tape of the compiler
//! ([`tile_compiler::native::Tape`]), and a [`machine`] is one thread that runs it. [`fused`] runs
//! epilogues that are one pass. On these stand the implementations: [`job`] is a nest without
//! aggregation, and the epilogue of every other; [`pieces`] has several of these; [`reduction`]
//! aggregates, and [`elements`], [`dots`] and [`scaled`] do so where there is nothing to compute
//! before, or only products, along rows by [`in_rows`]; [`ranks`] finds the best values in order;
//! [`running`] aggregates up to each place; [`scatter`] aggregates at places known only at run
//! time; [`updates`] write some rows over an operand.

mod counting;
pub mod dots;
pub mod elements;
#[expect(unsafe_code, reason = "functions compiled for a vector unit, which access tiles")]
pub mod fused;
#[expect(unsafe_code, reason = "threads write parts of one output")]
mod in_rows;
#[expect(unsafe_code, reason = "threads write parts of one output")]
pub mod job;
#[expect(unsafe_code, reason = "chains read and write at addresses, and results go to outputs")]
pub mod machine;
#[expect(unsafe_code, reason = "threads write parts of one output")]
pub mod pieces;
#[expect(unsafe_code, reason = "threads write parts of one list")]
pub mod ranks;
#[expect(unsafe_code, reason = "threads write parts of one output")]
pub mod reduction;
pub mod runner;
#[expect(unsafe_code, reason = "threads write parts of one output")]
pub mod running;
pub mod scaled;
#[expect(unsafe_code, reason = "threads write parts of one output")]
pub mod scatter;
#[expect(unsafe_code, reason = "threads write parts of one output")]
pub mod updates;
pub mod walk;
