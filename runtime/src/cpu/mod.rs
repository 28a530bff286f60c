//! The embedded device: it needs no driver, only this processor's vector units and a thread pool.

pub mod gemm;
mod scratch;
mod shared;
