//! The Tile language: text in, a checked program or diagnostics out. `README.md` is the reference of the language.
//!
//! The way of a text: [`lexer`] to tokens, `parser` with `grammar.lalrpop` to a tree ([`ast`]), `check` to a [`Program`].
//! Every step tells of its errors in one form ([`diagnostic`]) and goes on after them; no text makes one panic.
//! Nothing here reads files, and nothing depends on shapes: those come with the next phase.
//!
//! ```
//! let source = "function (A[N], B[N]) -> (C) { C = A + b; }";
//! let checked = tile_lang::check(source);
//! assert!(checked.program.is_none());
//! let text = tile_lang::render(&checked.diagnostics, &checked.sources, false);
//! assert!(text.contains("did you mean `B`?"));
//! ```

pub mod ast;
pub mod builtin;
mod check;
pub mod diagnostic;
mod format;
mod import;
pub mod lexer;
mod library;
mod names;
mod parser;
mod print;
mod program;
mod render;
mod sources;
pub mod span;
mod suggest;

pub use check::{CONSTANTS, Checked, check, check_file};
pub use format::format;
pub use import::Loader;
pub use library::{LIBRARY, LibraryFile, names as library_names};
pub use parser::{Parsed, parse};
pub use print::{ast_text, tokens_text};
pub use program::{Callee, Program};
pub use render::render;
pub use sources::{SourceFile, Sources};
pub use suggest::did_you_mean;
