//! What a user sees of `tilec`.

mod bench;
mod cache;
mod commands;
mod errors;
mod examples;
mod onnx;
mod pictures;
mod profile;
mod readme;
mod threads;
mod tilec;
mod train;
mod tune;
mod weights;
