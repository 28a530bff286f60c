//! Checks everything that can be checked before shapes are known: names, arguments, ranks, and the
//! form of indices and sizes.
//!
//! Invariants of a program that passes:
//! - It has no [`crate::ast::ExprKind::Error`] and no [`crate::ast::StatementKind::Error`].
//! - Every call of a name has a callee. If that is a function of the program, it gets as many
//!   arguments as it takes.
//! - Every index is affine in index variables, or an access.
//! - Calls of names do not recurse.
//! - In a Tile v0 function every name is defined once, before its use.
//!
//! A later phase may still find that a name defined in a block is missing after the block. A callee
//! may depend on values that are not known here.

mod arguments;
mod call;
mod calls;
mod doubtful;
mod function;
mod losses;
mod options;
mod place;
mod scope;
mod statement;
mod training;
mod value;
mod walk;

pub use scope::CONSTANTS;

use crate::budget::{Budget, Limits};
use crate::diagnostic::Diagnostic;
use crate::import::{Imported, Loader, load};
use crate::program::Program;
use crate::sources::Sources;
use crate::span::Span;

/// The result of [`check`].
pub struct Checked {
    /// The program, or `None` if `diagnostics` has errors. It may be present along with warnings.
    pub program: Option<Program>,
    /// The diagnostics in source order.
    pub diagnostics: Vec<Diagnostic>,
    /// The source texts, needed to render diagnostics.
    pub sources: Sources,
}

/// Reads and checks a program of one text. It can import nothing but the library.
///
/// ```
/// let checked = tile_lang::check("function f(X[N]) -> (Y) { Y = 2 * X; }");
/// assert!(checked.diagnostics.is_empty());
/// assert!(checked.program.unwrap().entry(Some("f")).is_ok());
/// ```
pub fn check(source: &str) -> Checked {
    check_file("program.tile", source, &|_| Imported::Missing)
}

/// Reads and checks a file, and the files that it imports. `loader` gets paths that are relative to
/// the same folder as `path`. Warnings are about the file itself only.
pub fn check_file(path: &str, source: &str, loader: Loader) -> Checked {
    check_within(path, source, loader, &Budget::new(Limits::default()))
}

/// Does the same as [`check_file`], within a budget. Exceeding the budget is the error `E0007`.
pub fn check_within(path: &str, source: &str, loader: Loader, budget: &Budget) -> Checked {
    let (sources, loaded, mut diagnostics) = load(path, source, loader, budget);
    // An unknown callee may be a function that could not be read.
    let mut all_read = !diagnostics.iter().any(Diagnostic::is_error);
    let program = Program::new(&sources, loaded, budget, &mut diagnostics);
    // An unknown callee may also be an alias without a target.
    all_read &= !diagnostics.iter().any(|diagnostic| matches!(diagnostic.code, "E0102" | "E0111"));
    let calls = calls::Calls::new(&program, &mut diagnostics);
    for function in program.written_functions() {
        function::check(&program, &calls, function, all_read, budget, &mut diagnostics);
        if budget.check().is_err() {
            break;
        }
    }
    if let (Err(exceeded), false) =
        (budget.check(), diagnostics.iter().any(|diagnostic| diagnostic.code == "E0007"))
    {
        diagnostics.push(exceeded.at(Span::default()));
    }
    diagnostics.sort_by_key(|diagnostic| diagnostic.labels.first().map(|label| label.span));
    let failed = diagnostics.iter().any(Diagnostic::is_error);
    let end = source.len() as u32;
    // Warnings are dropped if there are errors, since the errors may cause them.
    let in_file =
        |diagnostic: &Diagnostic| diagnostic.labels.iter().all(|label| label.span.start <= end);
    diagnostics.retain(|diagnostic| diagnostic.is_error() || (!failed && in_file(diagnostic)));
    Checked { program: (!failed).then_some(program), diagnostics, sources }
}
