//! The call graph: rejects recursion and chains of calls that are too long, and finds the
//! elementwise functions.

use std::collections::{HashMap, HashSet};

use crate::ast::{
    Expr, ExprKind, Function, FunctionKind, Ident, MAX_DEPTH, StatementKind, WeightKind,
};
use crate::budget::{Budget, Exceeded};
use crate::builtin::builtin;
use crate::check::walk::{definitions, expressions, statements, walk};
use crate::diagnostic::Diagnostic;
use crate::program::Program;
use crate::span::Span;
use crate::suggest::listed;

/// A call of one function by another. `callee` is the index of a function in the program.
struct Call {
    callee: usize,
    span: Span,
}

pub(super) struct Calls {
    /// For each function of the program, true if all its statements are elementwise. Such a
    /// function may be called inside a contraction.
    elementwise: Vec<bool>,
}

impl Calls {
    /// Propagates through the call graph from the innermost functions outwards.
    pub fn new(program: &Program, diagnostics: &mut Vec<Diagnostic>) -> Calls {
        let functions = program.all_functions();
        let calls: Vec<Vec<Call>> =
            functions.iter().map(|function| calls_of(program, function)).collect();
        let mut callers: Vec<Vec<usize>> = vec![Vec::new(); functions.len()];
        for (caller, calls) in calls.iter().enumerate() {
            calls.iter().for_each(|call| callers[call.callee].push(caller));
        }
        let mut elementwise: Vec<bool> = functions.iter().map(is_elementwise).collect();
        // The depth of calls below each function, and the number of its calls not yet visited.
        let mut depth = vec![0u32; functions.len()];
        let mut open: Vec<usize> = calls.iter().map(Vec::len).collect();
        let mut ready: Vec<usize> =
            (0..functions.len()).filter(|index| open[*index] == 0).collect();
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
        } else if let Some(deepest) = (0..functions.len()).find(|index| depth[*index] == MAX_DEPTH)
        {
            let message = format!(
                "the calls in {} nest more than {MAX_DEPTH} levels deep",
                title(&functions[deepest])
            );
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

/// Returns the error for a cycle. Every function with unvisited calls calls another such function,
/// so following these calls from `start` reaches a cycle.
fn recursion(
    functions: &[Function],
    calls: &[Vec<Call>],
    open: &[usize],
    start: usize,
) -> Diagnostic {
    /// The maximum number of calls of a cycle that the error shows.
    const SHOWN: usize = 10;
    let next = |index: usize| calls[index].iter().find(|call| open[call.callee] > 0);
    let mut path = vec![start];
    let mut places = HashMap::from([(start, 0)]);
    let mut spans = Vec::new();
    let mut current = start;
    while let Some(call) = next(current) {
        spans.push(call.span);
        if let Some(&entry) = places.get(&call.callee) {
            let names: Vec<String> =
                path[entry..].iter().map(|index| title(&functions[*index])).collect();
            let message = match names.as_slice() {
                [name] => format!("{name} calls itself"),
                [name, through @ ..] => format!("{name} calls itself through {}", listed(through)),
                [] => "these calls recurse".to_string(),
            };
            let mut error = Diagnostic::error("E0111", spans[entry], message);
            for span in spans[entry + 1..].iter().take(SHOWN) {
                error = error.also(*span, "and this call leads back");
            }
            return error.help("Tile has no recursion: every call is inlined at compile time");
        }
        places.insert(call.callee, path.len());
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
    for_each_callee(function, &mut |name| {
        if let Some(callee) = program.callee_index(&name.name, function) {
            calls.push(Call { callee, span: name.span });
        }
    });
    calls
}

impl Program {
    /// Returns whether a definition declares a `state`, or names another definition that does.
    ///
    /// # Errors
    /// Fails if the search exceeds the budget.
    pub fn has_states(&self, function: &Function, budget: &Budget) -> Result<bool, Exceeded> {
        let (mut seen, mut open) = (HashSet::new(), vec![function]);
        while let Some(function) = open.pop() {
            let inputs = function.parameters.iter().flatten().chain(&function.inputs);
            let mut outermost: Vec<&Expr> =
                inputs.filter_map(|input| input.default.as_ref()).collect();
            let mut has_state = false;
            statements(&function.body, &mut |statement| {
                has_state |= matches!(&statement.kind, StatementKind::Weight(weight) if weight.kind == WeightKind::State);
                outermost.extend(expressions(statement));
            });
            if has_state {
                return Ok(true);
            }
            for expr in outermost {
                let mut count = 0;
                walk(expr, &mut |expr| {
                    count += 1;
                    if let ExprKind::Name(name) = &expr.kind
                        && let Some(index) = self.callee_index(&name.name, function)
                        && seen.insert(index)
                    {
                        open.push(&self.all_functions()[index]);
                    }
                });
                budget.spend(count)?;
            }
        }
        Ok(false)
    }
}

/// Returns whether the statements and built-in calls of a function are elementwise. Ignores the
/// functions that it calls.
fn is_elementwise(function: &Function) -> bool {
    let mut elementwise = function.outputs.len() == 1 && function.kind == FunctionKind::Function;
    statements(&function.body, &mut |statement| {
        use StatementKind::{Assign, For, If};
        elementwise &= matches!(statement.kind, Assign { .. } | For { .. } | If { .. });
    });
    for_each_callee(function, &mut |name| {
        elementwise &= builtin(&name.name)
            .is_none_or(|builtin| builtin.is_elementwise() || builtin.is_compile_time());
    });
    elementwise
}

/// Calls `visit` with the names that a function applies, except small names of its own values. A
/// list applies its items.
fn for_each_callee<'f>(function: &'f Function, visit: &mut dyn FnMut(&'f Ident)) {
    let inputs = function.parameters.iter().flatten().chain(&function.inputs);
    let mut own: HashSet<&str> = inputs.clone().map(|input| input.name.name.as_str()).collect();
    let mut outermost: Vec<&Expr> =
        inputs.flat_map(|input| [&input.choices, &input.default]).flatten().collect();
    statements(&function.body, &mut |statement| {
        own.extend(definitions(statement).into_iter().map(|name| name.name.as_str()));
        if let StatementKind::For { variables, .. } = &statement.kind {
            own.extend(variables.iter().map(|name| name.name.as_str()));
        }
        outermost.extend(expressions(statement));
    });
    let mut callees = Vec::new();
    for expr in outermost {
        walk(expr, &mut |expr| {
            if let ExprKind::Call { callee, .. } | ExprKind::Pipe { callee, .. } = &expr.kind {
                callees.push(&**callee);
            }
        });
    }
    while let Some(callee) = callees.pop() {
        match &callee.kind {
            // A function may have the same name as a local tensor.
            ExprKind::Name(name) if name.capital || !own.contains(name.name.as_str()) => {
                visit(name)
            }
            ExprKind::List(items) => callees.extend(items),
            _ => {}
        }
    }
}
