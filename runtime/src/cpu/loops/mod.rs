//! Vector loops: nests run over chunks of points, whatever their scalar program is.
//!
//! [`space`] numbers the points and follows affine addresses through them. A [`tape`] is a scalar
//! program prepared for one space: steps with registers, some of them joined to a [`chain`], and
//! [`fused`] where the whole program is one pass. A [`machine`] is one thread that runs it. On these
//! stand the implementations: [`job`] is a nest without aggregation, and the epilogue of every
//! other; [`reduction`] aggregates; [`scatter`] aggregates at places known only at run time.

pub mod chain;
pub mod fused;
pub mod job;
pub mod machine;
pub mod reduction;
pub mod scatter;
pub mod space;
pub mod tape;
