//! Runs Tile programs.

pub mod cpu;
pub mod data;
