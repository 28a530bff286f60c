//! The Tile language. It turns text into a checked program or diagnostics. `README.md` is the
//! reference of the language.
//!
//! [`lexer`] splits the text into tokens, `parser` builds the tree ([`ast`]) with
//! `grammar.lalrpop`, and `check` produces a [`Program`]. All steps report errors in one form
//! ([`diagnostic`]) and continue after them. No text makes a step panic. This crate reads no files
//! and knows no shapes. The next phase adds the shapes.
//!
//! ```
//! let source = "function (A[N], B[N]) -> (C) { C = A + b; }";
//! let checked = tile_lang::check(source);
//! assert!(checked.program.is_none());
//! let text = tile_lang::render(&checked.diagnostics, &checked.sources, false);
//! assert!(text.contains("did you mean `B`?"));
//! ```

#![forbid(unsafe_code)]

pub mod ast;
pub mod budget;
pub mod builtin;
mod check;
pub mod diagnostic;
mod foreign;
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

pub use budget::{Budget, Limits};
pub use check::{CONSTANTS, Checked, check, check_file, check_within};
pub use format::format;
pub use import::{Imported, Loader, normal};
pub use library::{LIBRARY, LibraryFile, names as library_names};
pub use parser::{Parsed, parse};
pub use print::{ast_text, tokens_text};
pub use program::{Callee, Program};
pub use render::render;
pub use sources::{SourceFile, Sources};
pub use suggest::{did_you_mean, listed};
