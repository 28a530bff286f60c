//! The Tile language. It turns text into a checked program or diagnostics. `README.md` is the
//! reference of the language.
//!
//! [`lexer`] splits the text into tokens, `parser` builds the tree ([`ast`]) with
//! `grammar.lalrpop`, and `check` produces a [`Program`]. All steps report errors in one form
//! ([`diagnostic`]) and continue after them. No text makes a step panic. This crate reads no files
//! and knows no shapes. The next phase adds the shapes.
//!
//! Without the feature `parse`, only the types remain that compiled programs need: diagnostics,
//! limits, and suggestions for misspelt names.
//!
//! ```
//! # #[cfg(feature = "parse")] {
//! let source = "function (A[N], B[N]) -> (C) { C = A + b; }";
//! let checked = tile_lang::check(source);
//! assert!(checked.program.is_none());
//! let text = tile_lang::render(&checked.diagnostics, &checked.sources, false);
//! assert!(text.contains("did you mean `B`?"));
//! # }
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]
// The parser uses parts of the modules that all builds share.
#![cfg_attr(not(feature = "parse"), allow(dead_code))]

#[cfg(feature = "parse")]
pub mod ast;
pub mod budget;
#[cfg(feature = "parse")]
pub mod builtin;
#[cfg(feature = "parse")]
mod check;
pub mod diagnostic;
#[cfg(feature = "parse")]
mod foreign;
#[cfg(feature = "parse")]
mod format;
#[cfg(feature = "parse")]
mod import;
#[cfg(feature = "parse")]
pub mod lexer;
#[cfg(feature = "parse")]
mod library;
#[cfg(feature = "parse")]
mod names;
#[cfg(feature = "parse")]
mod parser;
#[cfg(feature = "parse")]
mod print;
#[cfg(feature = "parse")]
mod program;
#[cfg(feature = "parse")]
mod render;
mod sources;
pub mod span;
mod suggest;

pub use budget::{Budget, Limits};
#[cfg(feature = "parse")]
pub use check::{CONSTANTS, Checked, check, check_file, check_within};
#[cfg(feature = "parse")]
pub use format::format;
#[cfg(feature = "parse")]
pub use import::{Imported, Loader, normal};
#[cfg(feature = "parse")]
pub use library::{LIBRARY, LibraryFile, names as library_names};
#[cfg(feature = "parse")]
pub use parser::{Parsed, parse};
#[cfg(feature = "parse")]
pub use print::{ast_text, tokens_text};
#[cfg(feature = "parse")]
pub use program::{Callee, Program};
#[cfg(feature = "parse")]
pub use render::render;
pub use sources::{SourceFile, Sources};
pub use suggest::{did_you_mean, listed};
