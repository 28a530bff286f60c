//! What can be said of a program before any shape is known: names, arguments, ranks, and the form of indices and sizes.
//!
//! A program that passes has no [`crate::ast::ExprKind::Error`] and no [`crate::ast::StatementKind::Error`]; every call of a
//! name has a callee, and where that is a function of the program, as many arguments as it takes; every index is affine
//! in index variables, or an access; calls of names do not recurse. In a function of v0 every name is defined once, before its
//! use. Where a block defines a name, this may turn out to be missing after the block; and what is called may depend on
//! values, which are not known here.

mod call;
mod calls;
mod function;
mod place;
mod scope;
mod statement;
mod training;
mod value;
mod walk;

pub use scope::CONSTANTS;

use crate::diagnostic::Diagnostic;
use crate::import::{Loader, load};
use crate::program::Program;
use crate::sources::Sources;

/// The outcome of [`check`].
pub struct Checked {
    /// None where `diagnostics` has errors; it may have warnings beside a program.
    pub program: Option<Program>,
    /// In the order of the source.
    pub diagnostics: Vec<Diagnostic>,
    /// What was read, to show diagnostics with.
    pub sources: Sources,
}

/// Reads and checks a program of one text, which can import nothing but the library.
pub fn check(source: &str) -> Checked {
    check_file("program.tile", source, &|_| None)
}

/// Reads and checks a file of that path, and the files that it imports, which `loader` reads: it is given their paths,
/// from where the path of the file starts. Warnings are of the file alone.
pub fn check_file(path: &str, source: &str, loader: Loader) -> Checked {
    let (sources, loaded, mut diagnostics) = load(path, source, loader);
    // A function that could not be read may be the one that is called.
    let mut all_read = diagnostics.is_empty();
    let program = Program::new(&sources, loaded, &mut diagnostics);
    // So may an alias of nothing.
    all_read &= !diagnostics.iter().any(|diagnostic| matches!(diagnostic.code, "E0102" | "E0111"));
    let calls = calls::Calls::new(&program, &mut diagnostics);
    for function in program.written_functions() {
        function::check(&program, &calls, function, all_read, &mut diagnostics);
    }
    diagnostics.sort_by_key(|diagnostic| diagnostic.labels.first().map(|label| label.span));
    let failed = diagnostics.iter().any(Diagnostic::is_error);
    let end = source.len() as u32;
    // Where there are errors, what is unused may be so because of them.
    let in_file = |diagnostic: &Diagnostic| diagnostic.labels.iter().all(|label| label.span.start <= end);
    diagnostics.retain(|diagnostic| diagnostic.is_error() || (!failed && in_file(diagnostic)));
    Checked { program: (!failed).then_some(program), diagnostics, sources }
}
