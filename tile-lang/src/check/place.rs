//! Checks the indices, sizes and constraints of a contraction.

use std::collections::HashSet;

use crate::ast::{BinaryOp, Contraction, Expr, ExprKind, Ident, UnaryOp};
use crate::check::doubtful::integer;
use crate::check::function::{Checker, Within};
use crate::check::scope::Nature;
use crate::check::walk::walk;
use crate::diagnostic::Diagnostic;
use crate::span::Span;

/// The degree of a part of an index polynomial.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Degree {
    /// An expression over integers, sizes and values known at compile time.
    Constant,
    /// An expression that also has index variables.
    Affine,
}

fn is_ellipsis(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Ellipsis)
}

impl Checker<'_, '_> {
    /// Checks the indices and sizes of the output. Returns whether they start with `...`.
    pub fn output_places(&mut self, contraction: &Contraction) -> bool {
        let Contraction { output, indices, sizes, .. } = contraction;
        let leading = self.leading(indices);
        self.leading(sizes);
        self.indices(output, indices);
        for size in sizes.iter().filter(|size| !is_ellipsis(size)) {
            self.size(size);
        }
        let span = indices.first().map_or(output.span, |first| first.span);
        let span = sizes.last().or(indices.last()).map_or(span, |last| span.to(last.span));
        if sizes.is_empty() && !indices.is_empty() {
            let error = Diagnostic::error(
                "E0110",
                span,
                format!("missing sizes of the output `{}`", output.name),
            );
            self.error(
                error
                    .help(format!("write them after a colon, as in `{}[i, j: M, N]`", output.name)),
            );
        } else if indices.len() != sizes.len() {
            let count = |number: usize, one: &str, many: &str| {
                format!("{number} {}", if number == 1 { one } else { many })
            };
            let (indices, sizes) =
                (count(indices.len(), "index", "indices"), count(sizes.len(), "size", "sizes"));
            let message = format!(
                "expected as many sizes as indices of `{}`, found {indices} and {sizes}",
                output.name
            );
            self.error(Diagnostic::error("E0110", span, message));
        } else if sizes.first().is_some_and(is_ellipsis) != leading {
            let error = Diagnostic::error(
                "E0113",
                span,
                "expected `...` before both the indices and the sizes, or neither",
            );
            self.error(error.help("write `O[..., i: ..., N]`"));
        }
        leading
    }

    /// Returns whether `places` start with `...`. Reports an ellipsis at any other position.
    fn leading(&mut self, places: &[Expr]) -> bool {
        for place in places.iter().skip(1).filter(|place| is_ellipsis(place)) {
            self.error(Diagnostic::error(
                "E0113",
                place.span,
                "`...` stands for the first axes, so it comes first",
            ));
        }
        places.first().is_some_and(is_ellipsis)
    }

    /// Reports an index variable that is compared as if it were a symbol.
    pub fn compared_indices(&mut self, contraction: &Contraction) {
        let mut variables = HashSet::new();
        let mut compared = Vec::new();
        let add = |index: &Expr, variables: &mut HashSet<String>| {
            walk(index, &mut |part| {
                if let ExprKind::Name(name) = &part.kind
                    && !name.capital
                {
                    variables.insert(name.name.clone());
                }
            });
        };
        contraction.indices.iter().for_each(|index| add(index, &mut variables));
        walk(&contraction.body, &mut |expr| match &expr.kind {
            ExprKind::Access { tensor, indices } if tensor.capital => {
                indices.iter().for_each(|index| add(index, &mut variables));
            }
            ExprKind::Binary { op: BinaryOp::Eq | BinaryOp::Ne, left, right } => {
                compared.extend([left, right].into_iter().filter_map(|side| match &side.kind {
                    ExprKind::Name(name) if !name.capital => Some(name),
                    _ => None,
                }));
            }
            _ => {}
        });
        for name in compared {
            if variables.contains(&name.name) && self.scope.get(&name.name).is_none() {
                self.no_value(name, Within::Contraction);
            }
        }
    }

    /// Checks that a rank is one index of the output, and stands nowhere else.
    pub fn rank(&mut self, contraction: &Contraction) {
        let Some(rank) = &contraction.rank else { return };
        let is_rank =
            |expr: &Expr| matches!(&expr.kind, ExprKind::Name(name) if name.name == rank.name);
        let mut others = 0;
        let mut count = |expr: &Expr| others += usize::from(is_rank(expr));
        contraction.indices.iter().for_each(|index| walk(index, &mut count));
        walk(&contraction.body, &mut count);
        contraction.constraints.iter().for_each(|bound| walk(&bound.poly, &mut count));
        let problem = if !contraction.indices.iter().any(is_rank) {
            "a rank is an index of the output"
        } else if others > 1 {
            "a rank stands in one place of the output, and nowhere else"
        } else {
            return;
        };
        let help =
            "write `Places[n, k: N, 5] = argmax[k](X[n, c])` for the positions of the 5 greatest";
        self.error(Diagnostic::error("E0138", rank.span, problem).help(help));
    }

    /// Checks the accesses in the body of a contraction. `leading` says that the output starts with
    /// `...`.
    pub fn accesses(&mut self, contraction: &Contraction, leading: bool) {
        let mut accesses = Vec::new();
        // A tensor without indices was already reported.
        let mut is_reported = matches!(contraction.body.kind, ExprKind::Error);
        walk(&contraction.body, &mut |expr| match &expr.kind {
            ExprKind::Access { tensor, indices } if tensor.capital => {
                accesses.push(indices.first())
            }
            ExprKind::Name(name) => {
                is_reported |=
                    self.scope.get(&name.name).is_some_and(|value| value.known.rank > Some(0));
            }
            _ => {}
        });
        if accesses.is_empty() && !is_reported {
            let error = Diagnostic::error(
                "E0112",
                contraction.body.span,
                "expected a tensor with indices inside a contraction",
            );
            self.error(error.help("write `+(X[i, j])`"));
            return;
        }
        let follows = accesses.into_iter().flatten().any(is_ellipsis);
        if let (Some(first), true, false) = (contraction.indices.first(), leading, follows) {
            let message = "expected a tensor inside with `...`, as in the output";
            self.error(Diagnostic::error("E0113", first.span, message));
        }
    }

    /// Checks a tensor and its indices.
    pub fn access(&mut self, tensor: &Ident, indices: &[Expr], span: Span) {
        let leading = self.leading(indices);
        self.indices(tensor, indices);
        let Some(value) = self.lookup(tensor) else { return };
        let given = indices.len() - usize::from(leading);
        if let Some(rank) = value.known.rank
            && (if leading { given > rank } else { given != rank })
        {
            let most = if leading { "at most " } else { "" };
            let indices = if rank == 1 { "index" } else { "indices" };
            let message =
                format!("expected {most}{rank} {indices} for `{}`, found {given}", tensor.name);
            self.error(
                Diagnostic::error("E0107", span, message)
                    .also(value.span, format!("it has rank {rank}")),
            );
        }
    }

    fn indices(&mut self, tensor: &Ident, indices: &[Expr]) {
        for (axis, index) in indices.iter().enumerate() {
            match &index.kind {
                _ if integer(index).is_some_and(|place| place < 0) => {
                    self.negative_index(tensor, axis, index)
                }
                // A run-time tensor may be an index.
                ExprKind::Access { tensor, indices } if tensor.capital => {
                    self.access(tensor, indices, index.span)
                }
                ExprKind::Ellipsis => {}
                ExprKind::Name(name) if !name.capital && self.scope.get(&name.name).is_some() => {
                    self.scope.mark_used(&name.name);
                    let message =
                        format!("expected an index variable, found the value `{}`", name.name);
                    let error = Diagnostic::error("E0125", name.span, message);
                    let error = match self.scope.get(&name.name) {
                        Some(value) => error.also(value.span, "the value"),
                        None => error,
                    };
                    let help = format!(
                        "rename one of the two, or write `{} + 0` for the position with that number",
                        name.name
                    );
                    self.error(error.help(help));
                }
                _ => self.polynomial(index),
            }
        }
    }

    /// Reports a place that no tensor has.
    fn negative_index(&mut self, tensor: &Ident, axis: usize, index: &Expr) {
        let place = integer(index).unwrap_or_default();
        let name = &tensor.name;
        let message = format!("`{name}` has no position {place}: positions count from 0");
        let help = match self.size_of_axis(tensor, axis) {
            Some(size) => {
                format!("write `{size} - {}` to count from the end", place.unsigned_abs())
            }
            None => {
                "to count from the end, start with the size of the axis, as in `N - 1`".to_owned()
            }
        };
        self.error(Diagnostic::error("E0136", index.span, message).help(help));
    }

    /// Checks an index: an affine polynomial in index variables, with rational coefficients over
    /// sizes.
    pub fn polynomial(&mut self, expr: &Expr) {
        self.degree(expr);
    }

    /// Returns the degree of a part of a polynomial, or `None` if an error was reported.
    fn degree(&mut self, expr: &Expr) -> Option<Degree> {
        let problem = match &expr.kind {
            ExprKind::Int(_) => return Some(Degree::Constant),
            ExprKind::Name(name) if !name.capital => {
                self.scope.mark_used(&name.name);
                let value = self.scope.get(&name.name).is_some();
                return Some(if value { Degree::Constant } else { Degree::Affine });
            }
            ExprKind::Access { tensor, indices } if !tensor.capital => {
                self.item(tensor, indices, expr);
                return Some(Degree::Constant);
            }
            ExprKind::Name(name) if self.is_capital_index(name) => return Some(Degree::Affine),
            ExprKind::Name(name) => {
                return self
                    .size_name(name, "to use its elements as indices, write `T[i]`")
                    .then_some(Degree::Constant);
            }
            ExprKind::Unary { op: UnaryOp::Neg, operand } => return self.degree(operand),
            ExprKind::Binary { op, left, right }
                if op.precedence() >= BinaryOp::Add.precedence() =>
            {
                let (left, right) = (self.degree(left), self.degree(right));
                let (left, right) = left.zip(right)?;
                match op {
                    BinaryOp::Mul if left == Degree::Affine && right == Degree::Affine => {
                        "it multiplies index variables with each other"
                    }
                    BinaryOp::Div if right == Degree::Affine => "it divides by an index variable",
                    _ => return Some(left.max(right)),
                }
            }
            ExprKind::Binary { .. } | ExprKind::Unary { .. } | ExprKind::Conditional { .. } => {
                "it has other operators than `+ - * /`"
            }
            ExprKind::Call { .. } | ExprKind::Pipe { .. } => "it calls a function",
            ExprKind::List(_) => "it has a list",
            ExprKind::Text(_) => "it has a text",
            ExprKind::Float(_) => "it has a number with a decimal point",
            ExprKind::Access { .. } => "a tensor is only a part of it",
            ExprKind::Ellipsis | ExprKind::Error => return None,
        };
        self.error(
            Diagnostic::error("E0108", expr.span, format!("this index is not affine: {problem}"))
                .help(
                    "write a sum of index variables with constant factors, as in `2*i + j/2 - 1`",
                ),
        );
        None
    }

    /// Reports an unknown capital name in an index, which is meant as an index variable.
    fn is_capital_index(&mut self, name: &Ident) -> bool {
        if !self.scope.is_complete() || self.scope.is_defined(&name.name) {
            return false;
        }
        if self.scope.is_new_unknown(&name.name) {
            let message =
                format!("`{}` starts with a capital, so it cannot be an index variable", name.name);
            let error = Diagnostic::error("E0101", name.span, message);
            let known: Vec<&str> = self.scope.values.keys().copied().collect();
            let suggestion = self.suggestion(&name.name, known);
            self.error_with(
                error,
                suggestion,
                &format!("call it `{}`", name.name.to_ascii_lowercase()),
            );
        }
        true
    }

    /// Checks a size. It may have integers, sizes of inputs, scalar inputs, values known at compile
    /// time, and operations on these.
    pub fn size(&mut self, expr: &Expr) {
        let no_size = |what: &str| Diagnostic::error("E0117", expr.span, what);
        match &expr.kind {
            ExprKind::Int(_) | ExprKind::Error | ExprKind::Ellipsis => {}
            ExprKind::Name(name) if !name.capital && self.scope.get(&name.name).is_some() => {
                self.scope.mark_used(&name.name);
            }
            ExprKind::Name(name) if !name.capital => {
                let message = format!("expected a size, found the index variable `{}`", name.name);
                let suggestion = self.suggestion(&name.name, self.scope.values.keys().copied());
                self.error_with(Diagnostic::error("E0117", name.span, message), suggestion, "");
            }
            ExprKind::Name(name) => {
                self.size_name(name, "sizes are those of the inputs, such as `N` of `X[N]`");
            }
            ExprKind::Unary { operand, .. } => self.size(operand),
            ExprKind::Binary { op: BinaryOp::Eq | BinaryOp::Ne, left, right } => {
                // Symbols can be compared, too.
                for side in [left, right] {
                    match &side.kind {
                        ExprKind::Text(_) => {}
                        ExprKind::Name(name) if !name.capital => {
                            self.open(side, Within::Statement);
                        }
                        _ => self.size(side),
                    }
                }
            }
            ExprKind::Binary { left, right, .. } => {
                self.size(left);
                self.size(right);
            }
            ExprKind::Conditional { condition, then, otherwise } => {
                self.size(condition);
                self.size(then);
                if let Some(otherwise) = otherwise {
                    self.size(otherwise);
                }
            }
            ExprKind::Call { callee, arguments } => match &callee.kind {
                ExprKind::Name(name) if self.is_size_function(name) => {
                    arguments.iter().for_each(|argument| self.size(&argument.value));
                }
                ExprKind::Name(name) if !self.is_compile_time_function(name) => {
                    let message = format!("expected a function of sizes, found `{}`", name.name);
                    let help = "functions of sizes are those of the operators, such as `add`, and mod, ceil, floor, max, min, \
                                broadcast, match and assert_…";
                    self.error(Diagnostic::error("E0117", name.span, message).help(help));
                }
                _ => {
                    self.value(expr, Within::Statement);
                }
            },
            ExprKind::Float(_) => {
                self.error(no_size("expected an integer size, found a number with a decimal point"))
            }
            ExprKind::List(_) => self.error(no_size("expected a size, found a list")),
            ExprKind::Text(_) => self.error(no_size("expected a size, found a text")),
            ExprKind::Pipe { .. } => self.error(no_size("expected a size, found a pipeline")),
            ExprKind::Access { tensor, indices } if !tensor.capital => {
                self.item(tensor, indices, expr);
            }
            ExprKind::Access { tensor, .. } => {
                let message = format!(
                    "expected a size known at compile time, found an element of `{}`",
                    tensor.name
                );
                self.error(Diagnostic::error("E0117", expr.span, message));
            }
        }
    }

    /// Returns whether a name denotes a function of sizes.
    fn is_size_function(&self, name: &Ident) -> bool {
        self.scope.get(&name.name).is_none()
            && match self.callable(name) {
                Some(Nature::Builtin(builtin)) => builtin.is_size(),
                Some(_) => false,
                None => !self.all_read,
            }
    }

    /// Returns whether a call of `name` may give a value known at compile time.
    fn is_compile_time_function(&self, name: &Ident) -> bool {
        match self.callable(name) {
            _ if self.scope.get(&name.name).is_some() => true,
            Some(Nature::Builtin(builtin)) => builtin.is_compile_time(),
            Some(Nature::Function { index, .. }) => {
                self.program.all_functions()[index].outputs.iter().all(|output| !output.capital)
            }
            _ => false,
        }
    }

    /// Checks a name that must be a size. Returns whether it may be one.
    fn size_name(&mut self, name: &Ident, help: &str) -> bool {
        let Some(value) = self.lookup(name) else { return false };
        if value.may_be_size {
            return true;
        }
        let place = value.span;
        let message = format!("expected a size, found the tensor `{}`", name.name);
        self.error(
            Diagnostic::error("E0117", name.span, message).also(place, "defined here").help(help),
        );
        false
    }
}
