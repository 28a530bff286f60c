//! Runs Tile programs.

pub mod data;
