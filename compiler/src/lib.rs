//! The Tile compiler: turns a checked program and concrete shapes into a [`plan::Plan`] of kernels.
//!
//! It is pure: no files, devices, clocks or randomness. The same input gives the same bytes.

#![forbid(unsafe_code)]
#![deny(missing_docs)]
// The stages above plans use parts of the modules that all builds share.
#![cfg_attr(not(feature = "compile"), allow(dead_code, unused_imports))]

pub mod affine;
pub mod bindings;
pub mod cursor;
pub mod dense;
pub mod dtype;
#[cfg(feature = "emit")]
pub mod emit;
#[cfg(feature = "compile")]
pub mod fusion;
#[cfg(feature = "compile")]
pub mod gradient;
pub mod graph;
pub mod interpret;
pub mod kernel;
#[cfg(feature = "compile")]
pub mod lower;
pub mod names;
pub mod native;
pub mod nest;
#[cfg(feature = "onnx")]
pub mod onnx;
#[cfg(feature = "compile")]
pub mod passes;
#[cfg(feature = "compile")]
pub mod pipeline;
pub mod plan;
pub mod profile;
pub mod scalar;
pub mod schedule;
pub mod tensor;
