//! Traversals of the statements and expressions of a body.

use crate::ast::{Contraction, Expr, ExprKind, Ident, Statement, StatementKind, Weight};

/// Calls `visit` with an expression and all expressions in it, outermost first.
pub(super) fn walk<'e>(expr: &'e Expr, visit: &mut dyn FnMut(&'e Expr)) {
    visit(expr);
    match &expr.kind {
        ExprKind::Access { indices: parts, .. } | ExprKind::List(parts) => {
            parts.iter().for_each(|part| walk(part, visit));
        }
        ExprKind::Call { callee, arguments } => {
            walk(callee, visit);
            arguments.iter().for_each(|argument| walk(&argument.value, visit));
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
        ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Name(_)
        | ExprKind::Text(_)
        | ExprKind::Ellipsis
        | ExprKind::Error => {}
    }
}

/// Calls `visit` with every statement of a body, including those in blocks.
pub(super) fn statements<'s>(body: &'s [Statement], visit: &mut dyn FnMut(&'s Statement)) {
    for statement in body {
        visit(statement);
        match &statement.kind {
            StatementKind::For { body, .. }
            | StatementKind::Scan { body, .. }
            | StatementKind::Adapt { body } => statements(body, visit),
            StatementKind::If { then, otherwise, .. } => {
                statements(then, visit);
                statements(otherwise, visit);
            }
            _ => {}
        }
    }
}

/// Returns the outermost expressions of a statement, without those in its blocks.
pub(super) fn expressions(statement: &Statement) -> Vec<&Expr> {
    match &statement.kind {
        StatementKind::Assign { value, .. }
        | StatementKind::Update { value, .. }
        | StatementKind::Call(value)
        | StatementKind::Yield { value, .. }
        | StatementKind::For { list: value, .. }
        | StatementKind::If { condition: value, .. } => vec![value],
        StatementKind::Contraction(Contraction { indices, sizes, body, constraints, .. }) => {
            let constraints =
                constraints.iter().flat_map(|constraint| [&constraint.poly, &constraint.bound]);
            indices.iter().chain(sizes).chain([body]).chain(constraints).collect()
        }
        StatementKind::Weight(weight) => {
            let Weight {
                shape, initializer, regularizer, constraint, condition, otherwise, ..
            } = &**weight;
            let rest = [regularizer, constraint, condition, otherwise].into_iter().flatten();
            shape.exprs().iter().chain([initializer]).chain(rest).collect()
        }
        StatementKind::Scan { sequences, .. } => {
            sequences.iter().flat_map(|sequence| [&sequence.tensor, &sequence.axis]).collect()
        }
        StatementKind::Adapt { .. } | StatementKind::Error => Vec::new(),
    }
}

/// Returns the names that a statement itself defines. Names that its blocks define and loop
/// variables are not included.
pub(super) fn definitions(statement: &Statement) -> Vec<&Ident> {
    match &statement.kind {
        StatementKind::Assign { targets, .. } => targets.iter().collect(),
        StatementKind::Contraction(contraction) => vec![&contraction.output],
        StatementKind::Weight(weight) => vec![&weight.name],
        StatementKind::Yield { target, .. } => vec![target],
        StatementKind::Update { .. }
        | StatementKind::Call(_)
        | StatementKind::Adapt { .. }
        | StatementKind::For { .. }
        | StatementKind::If { .. }
        | StatementKind::Scan { .. }
        | StatementKind::Error => Vec::new(),
    }
}
