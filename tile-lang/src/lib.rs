//! The Tile language: text in, a checked program or diagnostics out.

pub mod ast;
pub mod diagnostic;
pub mod lexer;
mod parser;
mod print;
pub mod span;
mod suggest;

pub use parser::{Parsed, parse};
pub use print::{ast_text, tokens_text};
pub use suggest::did_you_mean;
