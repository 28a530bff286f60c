//! The Tile compiler: turns a checked program and concrete shapes into a [`plan::Plan`] of kernels.
//!
//! It is pure: no files, devices, clocks or randomness. The same input gives the same bytes.

#![forbid(unsafe_code)]

pub mod affine;
pub mod cursor;
pub mod dense;
pub mod dtype;
#[cfg(feature = "emit")]
pub mod emit;
pub mod fusion;
pub mod gradient;
pub mod graph;
pub mod interpret;
pub mod kernel;
pub mod lower;
pub mod names;
pub mod native;
pub mod nest;
#[cfg(feature = "onnx")]
pub mod onnx;
pub mod passes;
pub mod pipeline;
pub mod plan;
pub mod profile;
pub mod scalar;
pub mod schedule;
pub mod tensor;
