//! What a user sees of `tilec`.

mod bench;
mod commands;
mod errors;
mod examples;
mod readme;
mod threads;
mod tilec;
mod train;
mod weights;
