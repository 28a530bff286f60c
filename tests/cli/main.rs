//! Tests of `tilec` as users see it.

mod bench;
mod cache;
mod commands;
mod errors;
mod evaluate;
mod examples;
mod families;
mod files;
mod folders;
mod in_turn;
mod keras;
mod mistakes;
mod onnx;
mod packs;
mod pictures;
mod points;
mod predict;
mod profile;
mod readme;
mod setup;
mod threads;
mod tilec;
mod train;
mod tune;
mod weights;
