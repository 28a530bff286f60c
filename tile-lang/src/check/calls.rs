//! Who calls whom: no recursion, no chain of calls that is too long, and which functions work place by place.

use crate::ast::{Contraction, Expr, ExprKind, Function, MAX_DEPTH, StatementKind};
use crate::builtin::builtin;
use crate::check::walk;
use crate::diagnostic::Diagnostic;
use crate::program::Program;
use crate::span::Span;

/// One call of one function by another, both by their places in the program.
struct Call {
    callee: usize,
    span: Span,
}

pub(super) struct Calls {
    /// For each function of the program, whether all its statements are elementwise, so that it may be called inside a
    /// contraction.
    elementwise: Vec<bool>,
}

impl Calls {
    /// Follows the calls from the innermost functions outwards.
    pub fn new(program: &Program, diagnostics: &mut Vec<Diagnostic>) -> Calls {
        let functions = program.all_functions();
        let calls: Vec<Vec<Call>> = functions.iter().map(|function| calls_of(program, function)).collect();
        let mut callers: Vec<Vec<usize>> = vec![Vec::new(); functions.len()];
        for (caller, calls) in calls.iter().enumerate() {
            calls.iter().for_each(|call| callers[call.callee].push(caller));
        }
        let mut elementwise: Vec<bool> = functions.iter().map(is_elementwise).collect();
        // How many calls deep each function goes, and how many calls of it are not yet followed.
        let mut depth = vec![0u32; functions.len()];
        let mut open: Vec<usize> = calls.iter().map(Vec::len).collect();
        let mut ready: Vec<usize> = (0..functions.len()).filter(|index| open[*index] == 0).collect();
        while let Some(callee) = ready.pop() {
            for &caller in &callers[callee] {
                elementwise[caller] &= elementwise[callee];
                depth[caller] = depth[caller].max(depth[callee] + 1);
                open[caller] -= 1;
                if open[caller] == 0 {
                    ready.push(caller);
                }
            }
        }
        if let Some(start) = (0..functions.len()).find(|index| open[*index] > 0) {
            diagnostics.push(recursion(functions, &calls, &open, start));
        } else if let Some(deepest) = (0..functions.len()).find(|index| depth[*index] == MAX_DEPTH) {
            let message = format!("the calls in {} go more than {MAX_DEPTH} levels deep", title(&functions[deepest]));
            diagnostics.push(Diagnostic::error("E0111", functions[deepest].span, message));
        }
        for (index, open) in open.iter().enumerate() {
            elementwise[index] &= *open == 0;
        }
        Calls { elementwise }
    }

    pub fn is_elementwise(&self, function: usize) -> bool {
        self.elementwise.get(function).copied().unwrap_or(false)
    }
}

/// Every function that is left over calls another that is, so that following them from `start` leads into a ring.
fn recursion(functions: &[Function], calls: &[Vec<Call>], open: &[usize], start: usize) -> Diagnostic {
    let next = |index: usize| calls[index].iter().find(|call| open[call.callee] > 0);
    let mut path = vec![start];
    let mut spans = Vec::new();
    let mut current = start;
    while let Some(call) = next(current) {
        spans.push(call.span);
        if let Some(entry) = path.iter().position(|index| *index == call.callee) {
            let names: Vec<String> = path[entry..].iter().map(|index| title(&functions[*index])).collect();
            let message = match names.as_slice() {
                [name] => format!("{name} calls itself"),
                [name, through @ ..] => format!("{name} calls itself through {}", through.join(", ")),
                [] => "these calls recurse".to_string(),
            };
            let mut error = Diagnostic::error("E0111", spans[entry], message);
            for span in &spans[entry + 1..] {
                error = error.also(*span, "and this call leads back");
            }
            return error.help("Tile has no recursion: every call is written out at compile time");
        }
        path.push(call.callee);
        current = call.callee;
    }
    Diagnostic::error("E0111", functions[start].span, "these calls recurse")
}

fn title(function: &Function) -> String {
    match &function.name {
        Some(name) => format!("`{}`", name.name),
        None => "this function".to_string(),
    }
}

fn calls_of(program: &Program, function: &Function) -> Vec<Call> {
    let mut calls = Vec::new();
    for_each_call(function, &mut |name, span| {
        if let Some(callee) = program.callee_index(name, function) {
            calls.push(Call { callee, span });
        }
    });
    calls
}

/// As far as its own statements and the built-in functions go.
fn is_elementwise(function: &Function) -> bool {
    let mut elementwise = function.outputs.len() == 1
        && function.body.iter().all(|statement| matches!(statement.kind, StatementKind::Assign { .. }));
    for_each_call(function, &mut |name, _| {
        elementwise &= builtin(name).is_none_or(|builtin| builtin.is_elementwise());
    });
    elementwise
}

fn for_each_call<'f>(function: &'f Function, visit: &mut dyn FnMut(&'f str, Span)) {
    let mut in_expr = |expr: &'f Expr| {
        walk(expr, &mut |expr| {
            if let ExprKind::Call { callee, .. } = &expr.kind
                && let ExprKind::Name(function) = &callee.kind
            {
                visit(&function.name, function.span);
            }
        });
    };
    for statement in &function.body {
        match &statement.kind {
            StatementKind::Assign { value, .. } => in_expr(value),
            StatementKind::Contraction(Contraction { indices, sizes, body, constraints, .. }) => {
                indices.iter().chain(sizes).chain([body]).for_each(&mut in_expr);
                constraints.iter().flat_map(|constraint| [&constraint.poly, &constraint.bound]).for_each(&mut in_expr);
            }
            _ => {}
        }
    }
}
