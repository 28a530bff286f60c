//! The Tile language: text in, a checked program or diagnostics out.

pub mod ast;
pub mod builtin;
mod check;
pub mod diagnostic;
mod format;
pub mod lexer;
mod parser;
mod print;
mod program;
mod render;
pub mod span;
mod suggest;

pub use check::{Checked, check};
pub use format::format;
pub use parser::{Parsed, parse};
pub use print::{ast_text, tokens_text};
pub use program::{Callee, LIBRARY, Program};
pub use render::render;
pub use suggest::did_you_mean;
