//! The statements of one function, in order, and the values in them.

use std::collections::HashSet;

use crate::ast::{BinaryOp, Contraction, DimKind, Expr, ExprKind, Function, Ident, StatementKind};
use crate::check::calls::Calls;
use crate::check::scope::{Origin, Scope, Value};
use crate::diagnostic::Diagnostic;
use crate::program::{Callee, Program};
use crate::suggest::did_you_mean;

/// Checks `function` and adds what is wrong to `diagnostics`. Unknown functions are passed over unless `all_read`.
pub(super) fn check(
    program: &Program,
    calls: &Calls,
    function: &Function,
    all_read: bool,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let scope = Scope::new(function, diagnostics);
    let mut checker = Checker { program, calls, function, all_read, scope, diagnostics };
    checker.inputs();
    for statement in &function.body {
        match &statement.kind {
            StatementKind::Assign { targets, value } => checker.assign(&targets[0], value),
            StatementKind::Contraction(contraction) => checker.contraction(contraction),
            _ => {}
        }
    }
    checker.outputs();
    checker.unused();
}

pub(super) struct Checker<'p, 'd> {
    program: &'p Program,
    calls: &'p Calls,
    function: &'p Function,
    all_read: bool,
    pub scope: Scope<'p>,
    pub diagnostics: &'d mut Vec<Diagnostic>,
}

/// Where a value stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    /// An elementwise statement: whole tensors.
    Statement,
    /// The parentheses of a contraction: the scalars at one place.
    Contraction,
}

impl<'p> Checker<'p, '_> {
    pub fn error(&mut self, error: Diagnostic) {
        self.diagnostics.push(error);
    }

    fn inputs(&mut self) {
        for dim in self.function.inputs.iter().flat_map(|input| input.dims.iter().flatten().skip(1)) {
            if dim.kind == DimKind::Ellipsis {
                self.error(Diagnostic::error("E0113", dim.span, "`...` stands for the first axes, so it comes first"));
            }
        }
    }

    fn assign(&mut self, target: &'p Ident, value: &Expr) {
        let rank = self.value(value, Within::Statement);
        let value = Value {
            span: target.span,
            origin: Origin::Statement,
            rank,
            may_be_size: self.may_be_size(value),
            used: false,
        };
        self.scope.define(target, value, self.diagnostics);
    }

    fn contraction(&mut self, contraction: &'p Contraction) {
        let leading = self.output_places(contraction);
        self.value(&contraction.body, Within::Contraction);
        self.accesses(contraction, leading);
        for constraint in &contraction.constraints {
            self.polynomial(&constraint.poly);
            self.size(&constraint.bound);
        }
        let rank = (!leading).then_some(contraction.indices.len());
        if let Some(default) = &contraction.default {
            let found = self.scope.lookup(default, self.diagnostics).and_then(|value| value.rank);
            if let (Some(rank), Some(found)) = (rank, found)
                && found != rank
            {
                let message =
                    format!("the default `{}` has rank {found}, but the output has rank {rank}", default.name);
                self.error(
                    Diagnostic::error("E0107", default.span, message).also(contraction.output.span, "the output"),
                );
            }
        }
        let output = &contraction.output;
        let value = Value { span: output.span, origin: Origin::Statement, rank, may_be_size: false, used: false };
        self.scope.define(output, value, self.diagnostics);
    }

    fn outputs(&mut self) {
        if self.function.outputs.is_empty() {
            self.error(Diagnostic::error("E0105", self.function.span, "this function has no output"));
        }
        let mut seen = HashSet::new();
        for output in &self.function.outputs {
            if !seen.insert(&output.name) {
                self.error(Diagnostic::error("E0106", output.span, format!("`{}` is an output twice", output.name)));
            } else if self.scope.get(&output.name).is_none() && self.scope.is_complete() {
                let error =
                    Diagnostic::error("E0105", output.span, format!("the output `{}` is never assigned", output.name));
                let error = match self.scope.suggest(&output.name) {
                    Some(help) => error.help(help),
                    None => error,
                };
                self.error(error);
            }
            self.scope.mark_used(&output.name);
        }
    }

    fn unused(&mut self) {
        if !self.scope.is_complete() {
            return;
        }
        for (name, value) in self.scope.unused() {
            self.diagnostics.push(match value.origin {
                Origin::Input => Diagnostic::warning("W0101", value.span, format!("the input `{name}` is not used")),
                _ => Diagnostic::warning("W0102", value.span, format!("`{name}` is assigned, but not used")),
            });
        }
    }

    /// Checks an expression; gives its rank, where that is known.
    fn value(&mut self, expr: &Expr, within: Within) -> Option<usize> {
        match &expr.kind {
            ExprKind::Int(_) | ExprKind::Float(_) => Some(0),
            ExprKind::Name(name) => self.name(name, within),
            ExprKind::Access { tensor, indices } => {
                if within == Within::Statement {
                    self.error(
                        Diagnostic::error(
                            "E0116",
                            expr.span,
                            format!("`{}` is indexed outside a contraction", tensor.name),
                        )
                        .help("write a contraction, as in `O[i: N] = +(X[i, j])`"),
                    );
                }
                self.access(tensor, indices, expr.span);
                Some(0)
            }
            ExprKind::Call { .. } | ExprKind::Pipe { .. } | ExprKind::List(_) | ExprKind::Text(_) => None,
            ExprKind::Unary { operand, .. } => self.value(operand, within),
            ExprKind::Binary { left, right, .. } => {
                let ranks = [self.value(left, within), self.value(right, within)];
                broadcast(&ranks)
            }
            ExprKind::Conditional { condition, then, otherwise } => {
                let mut ranks = vec![self.value(condition, within), self.value(then, within)];
                match otherwise {
                    Some(otherwise) => ranks.push(self.value(otherwise, within)),
                    None if matches!(condition.kind, ExprKind::Binary { op: BinaryOp::Eq, .. }) => {}
                    None => self.error(
                        Diagnostic::error("E0112", expr.span, "only `A == B ? C` can do without `:`")
                            .help("say what the value is otherwise, as in `… : 0`"),
                    ),
                }
                broadcast(&ranks)
            }
            ExprKind::Ellipsis | ExprKind::Error => None,
        }
    }

    fn name(&mut self, name: &Ident, within: Within) -> Option<usize> {
        if !name.capital && self.scope.get(&name.name).is_none() {
            let message =
                format!("`{}` starts with a small letter, so it is an index variable, not a value", name.name);
            let error = Diagnostic::error("E0109", name.span, message);
            self.error(match self.scope.suggest(&name.name) {
                Some(help) => error.help(help),
                None => error.help("`index(X, axis)` gives the index of each place of X along an axis"),
            });
            return None;
        }
        let rank = self.scope.lookup(name, self.diagnostics)?.rank;
        if let (Some(rank @ 1..), Within::Contraction) = (rank, within) {
            let message = format!("`{}` has rank {rank}, so it needs indices inside a contraction", name.name);
            self.error(Diagnostic::error("E0107", name.span, message));
        }
        rank
    }

    fn call(&mut self, name: &Ident, arguments: &[Expr], within: Within) -> Option<usize> {
        let ranks: Vec<Option<usize>> = arguments.iter().map(|argument| self.value(argument, within)).collect();
        let Some(callee) = self.program.callee(&name.name, self.function) else {
            if self.all_read {
                let error = Diagnostic::error("E0102", name.span, format!("there is no function `{}`", name.name));
                self.error(match did_you_mean(&name.name, self.program.callable_names()) {
                    Some(help) => error.help(help),
                    None => error,
                });
            }
            return None;
        };
        let (elementwise, least, most) = match callee {
            Callee::Builtin(builtin) => (builtin.is_elementwise(), builtin.arity.0, builtin.arity.1),
            Callee::Function(callee) => {
                let index = self.program.callee_index(&name.name, self.function);
                let count = callee.inputs.len();
                (index.is_some_and(|index| self.calls.is_elementwise(index)), count, count)
            }
        };
        if !(least..=most).contains(&arguments.len()) {
            let takes = match (least, most) {
                (1, 1) => "1 argument".to_string(),
                _ if least == most => format!("{least} arguments"),
                _ => format!("at least {least} argument{}", if least == 1 { "" } else { "s" }),
            };
            let are = if arguments.len() == 1 { "is" } else { "are" };
            let message = format!("`{}` takes {takes}, but {} {are} given", name.name, arguments.len());
            self.error(Diagnostic::error("E0103", name.span, message));
            return None;
        }
        if within == Within::Contraction && !elementwise {
            let message =
                format!("`{}` works on whole tensors, so it cannot be called inside a contraction", name.name);
            self.error(Diagnostic::error("E0112", name.span, message).help("call it in a statement before"));
        }
        match callee {
            Callee::Builtin(_) if elementwise => broadcast(&ranks),
            Callee::Builtin(_) => None,
            Callee::Function(callee) => {
                for ((input, argument), rank) in callee.inputs.iter().zip(arguments).zip(&ranks) {
                    let Some((dims, rank)) = input.dims.as_ref().zip(*rank) else { continue };
                    let leading = dims.iter().any(|dim| dim.kind == DimKind::Ellipsis);
                    if (leading && rank + 1 < dims.len()) || (!leading && rank != dims.len()) {
                        let wanted = dims.len() - usize::from(leading);
                        let least = if leading { "at least " } else { "" };
                        let message = format!(
                            "`{}` of `{}` has {least}rank {wanted}, but this has rank {rank}",
                            input.name.name, name.name
                        );
                        self.error(Diagnostic::error("E0107", argument.span, message).also(input.span, "the input"));
                    }
                }
                if elementwise { broadcast(&ranks) } else { None }
            }
        }
    }

    /// Whether an expression may turn out to be a size.
    fn may_be_size(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Int(_) => true,
            ExprKind::Name(name) => self.scope.get(&name.name).is_some_and(|value| value.may_be_size),
            ExprKind::Unary { operand, .. } => self.may_be_size(operand),
            ExprKind::Binary { left, right, .. } => self.may_be_size(left) && self.may_be_size(right),
            ExprKind::Conditional { condition, then, otherwise } => {
                self.may_be_size(condition)
                    && self.may_be_size(then)
                    && otherwise.as_ref().is_some_and(|otherwise| self.may_be_size(otherwise))
            }
            // What could not be checked is not complained of again.
            ExprKind::Error => true,
            _ => false,
        }
    }

    /// The size function of a name, as called here.
    pub fn is_size_function(&self, name: &str) -> bool {
        match self.program.callee(name, self.function) {
            Some(Callee::Builtin(builtin)) => builtin.is_size(),
            Some(Callee::Function(_)) => false,
            None => !self.all_read,
        }
    }
}

/// The rank of an elementwise result.
fn broadcast(ranks: &[Option<usize>]) -> Option<usize> {
    ranks.iter().copied().try_fold(0, |highest, rank| rank.map(|rank| highest.max(rank)))
}
