//! Vector loops: nests run over chunks of points, whatever their scalar program is.
//!
//! [`space`] numbers the points and follows affine addresses through them. A [`tape`] is a scalar
//! program prepared for one space: steps with registers, some of them joined to a [`chain`], and
//! [`fused`] where the whole program is one pass. A [`machine`] is one thread that runs it. On
//! these stand the implementations: [`job`] is a nest without aggregation, and the epilogue of
//! every other; [`reduction`] aggregates; [`scatter`] aggregates at places known only at run time.

pub mod chain;
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "functions compiled for a vector unit"))]
pub mod fused;
#[expect(unsafe_code, reason = "threads write parts of one output")]
pub mod job;
#[expect(unsafe_code, reason = "chains read and write at addresses, and results go to outputs")]
pub mod machine;
#[expect(unsafe_code, reason = "threads write parts of one output")]
pub mod reduction;
#[expect(unsafe_code, reason = "threads write parts of one output")]
pub mod scatter;
pub mod space;
pub mod tape;
