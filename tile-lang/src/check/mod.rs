//! What can be said of a program before any shape is known: names, arguments, ranks, and the form of indices and sizes.
//!
//! A program that passes has no [`ExprKind::Error`] and no [`crate::ast::StatementKind::Error`]; every name in it is
//! defined once, before its use; every call has a callee and as many arguments as that takes; every index is affine
//! in index variables, or an access; calls do not recurse.

mod calls;
mod function;
mod place;
mod scope;

use std::collections::HashMap;

use crate::ast::{Expr, ExprKind};
use crate::diagnostic::Diagnostic;
use crate::parser::parse;
use crate::program::Program;
use crate::span::Span;

/// The outcome of [`check`].
pub struct Checked {
    /// None where `diagnostics` has errors; it may have warnings beside a program.
    pub program: Option<Program>,
    /// In the order of the source.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads and checks a file.
pub fn check(source: &str) -> Checked {
    let parsed = parse(source);
    let mut diagnostics = parsed.diagnostics;
    // A function that could not be read may be the one that is called.
    let all_read = diagnostics.is_empty();
    let program = Program::new(parsed.file);
    duplicate_functions(&program, &mut diagnostics);
    let calls = calls::Calls::new(&program, &mut diagnostics);
    for function in program.functions() {
        if function.span.start < u32::MAX {
            continue;
        }
        function::check(&program, &calls, function, all_read, &mut diagnostics);
    }
    diagnostics.sort_by_key(|diagnostic| diagnostic.labels.first().map(|label| label.span));
    let failed = diagnostics.iter().any(Diagnostic::is_error);
    if failed {
        // What is unused may be so because of the errors.
        diagnostics.retain(Diagnostic::is_error);
    }
    Checked { program: (!failed).then_some(program), diagnostics }
}

fn duplicate_functions(program: &Program, diagnostics: &mut Vec<Diagnostic>) {
    let mut seen: HashMap<&str, Span> = HashMap::new();
    for name in program.functions().iter().filter_map(|function| function.name.as_ref()) {
        if let Some(first) = seen.get(name.name.as_str()) {
            let message = format!("the function `{}` is defined twice", name.name);
            diagnostics.push(Diagnostic::error("E0114", name.span, message).also(*first, "the first one"));
        } else {
            seen.insert(&name.name, name.span);
        }
    }
}

/// Calls `visit` with an expression and all in it, outermost first.
fn walk<'e>(expr: &'e Expr, visit: &mut dyn FnMut(&'e Expr)) {
    visit(expr);
    match &expr.kind {
        ExprKind::Access { indices: parts, .. } | ExprKind::List(parts) => {
            parts.iter().for_each(|part| walk(part, visit));
        }
        ExprKind::Call { callee, arguments } => {
            walk(callee, visit);
            arguments.iter().for_each(|a| walk(&a.value, visit));
        }
        ExprKind::Pipe { input, callee } => {
            walk(input, visit);
            walk(callee, visit);
        }
        ExprKind::Unary { operand, .. } => walk(operand, visit),
        ExprKind::Binary { left, right, .. } => {
            walk(left, visit);
            walk(right, visit);
        }
        ExprKind::Conditional { condition, then, otherwise } => {
            walk(condition, visit);
            walk(then, visit);
            if let Some(otherwise) = otherwise {
                walk(otherwise, visit);
            }
        }
        ExprKind::Text(_)
        | ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Name(_)
        | ExprKind::Ellipsis
        | ExprKind::Error => {}
    }
}
