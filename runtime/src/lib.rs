//! Runs Tile programs.

pub mod check;
pub mod cpu;
pub mod data;
