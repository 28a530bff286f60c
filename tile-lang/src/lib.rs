//! The Tile language: text in, a checked program or diagnostics out.

pub mod ast;
pub mod diagnostic;
pub mod lexer;
pub mod span;
