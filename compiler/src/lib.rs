//! The Tile compiler: a checked program and concrete shapes go in, a [`plan::Plan`] of kernels comes out.
//!
//! Pure: no files, no device, no clock, no randomness; the same input gives the same bytes.

pub mod affine;
pub mod dtype;
pub mod emit;
pub mod gradient;
pub mod graph;
pub mod interpret;
pub mod kernel;
pub mod lower;
pub mod names;
pub mod nest;
pub mod onnx;
pub mod passes;
pub mod pipeline;
pub mod plan;
pub mod profile;
pub mod scalar;
pub mod schedule;
pub mod tensor;
