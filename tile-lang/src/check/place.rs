//! The indices, sizes and constraints of a contraction.

use crate::ast::{BinaryOp, Contraction, Expr, ExprKind, Ident, UnaryOp};
use crate::check::function::Checker;
use crate::check::walk;
use crate::diagnostic::Diagnostic;
use crate::span::Span;

/// What a part of an index is made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Degree {
    /// Integers and sizes.
    Constant,
    /// Index variables, too.
    Affine,
}

fn is_ellipsis(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Ellipsis)
}

impl Checker<'_, '_> {
    /// The indices and sizes of the output; gives whether they start with `...`.
    pub fn output_places(&mut self, contraction: &Contraction) -> bool {
        let Contraction { output, indices, sizes, .. } = contraction;
        let leading = self.leading(indices);
        self.leading(sizes);
        self.indices(indices);
        for size in sizes.iter().filter(|size| !is_ellipsis(size)) {
            self.size(size);
        }
        let span = indices.first().map_or(output.span, |first| first.span);
        let span = sizes.last().or(indices.last()).map_or(span, |last| span.to(last.span));
        if sizes.is_empty() && !indices.is_empty() {
            let error = Diagnostic::error("E0110", span, format!("the output `{}` lacks its sizes", output.name));
            self.error(error.help(format!("write them after a colon, as in `{}[i, j: M, N]`", output.name)));
        } else if indices.len() != sizes.len() {
            let count =
                |number: usize, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
            let (indices, sizes) = (count(indices.len(), "index", "indices"), count(sizes.len(), "size", "sizes"));
            let message = format!("`{}` has {indices}, but {sizes}", output.name);
            self.error(Diagnostic::error("E0110", span, message));
        } else if sizes.first().is_some_and(is_ellipsis) != leading {
            let error = Diagnostic::error("E0113", span, "`...` must start both the indices and the sizes, or neither");
            self.error(error.help("as in `O[..., i: ..., N]`"));
        }
        leading
    }

    /// Whether places start with `...`, which may stand nowhere else.
    fn leading(&mut self, places: &[Expr]) -> bool {
        for place in places.iter().skip(1).filter(|place| is_ellipsis(place)) {
            self.error(Diagnostic::error("E0113", place.span, "`...` stands for the first axes, so it comes first"));
        }
        places.first().is_some_and(is_ellipsis)
    }

    /// What the body of a contraction accesses; the output starts with `...` if `leading`.
    pub fn accesses(&mut self, contraction: &Contraction, leading: bool) {
        let mut accesses = Vec::new();
        walk(&contraction.body, &mut |expr| {
            if let ExprKind::Access { indices, .. } = &expr.kind {
                accesses.push(indices.first());
            }
        });
        if accesses.is_empty() && !matches!(contraction.body.kind, ExprKind::Error) {
            let error = Diagnostic::error("E0112", contraction.body.span, "a contraction needs a tensor with indices");
            self.error(error.help("as in `+(X[i, j])`"));
            return;
        }
        let follows = accesses.into_iter().flatten().filter(|first| is_ellipsis(first)).collect::<Vec<_>>();
        match (contraction.indices.first(), follows.as_slice()) {
            (Some(first), []) if leading => {
                self.error(Diagnostic::error(
                    "E0113",
                    first.span,
                    "no tensor inside starts with `...` as the output does",
                ));
            }
            (_, [first, ..]) if !leading => {
                let error = Diagnostic::error("E0113", first.span, "`...` stands here, but not in the output");
                self.error(error.help(format!("write `{}[..., …: ..., …]`", contraction.output.name)));
            }
            _ => {}
        }
    }

    /// A tensor and its indices.
    pub fn access(&mut self, tensor: &Ident, indices: &[Expr], span: Span) {
        let leading = self.leading(indices);
        self.indices(indices);
        let Some(value) = self.scope.lookup(tensor, self.diagnostics) else { return };
        let given = indices.len() - usize::from(leading);
        if let Some(rank) = value.rank
            && (if leading { given > rank } else { given != rank })
        {
            let least = if leading { "at least " } else { "" };
            let (indices, are) = if given == 1 { ("index", "is") } else { ("indices", "are") };
            let message = format!("`{}` has rank {rank}, but {least}{given} {indices} {are} given", tensor.name);
            self.error(Diagnostic::error("E0107", span, message).also(value.span, format!("rank {rank}, from here")));
        }
    }

    fn indices(&mut self, indices: &[Expr]) {
        for index in indices {
            match &index.kind {
                // A run-time tensor as an index.
                ExprKind::Access { tensor, indices } => self.access(tensor, indices, index.span),
                ExprKind::Ellipsis => {}
                _ => self.polynomial(index),
            }
        }
    }

    /// An affine polynomial over index variables, with rational coefficients over sizes.
    pub fn polynomial(&mut self, expr: &Expr) {
        self.degree(expr);
    }

    /// Checks a part of a polynomial; None where an error was reported.
    fn degree(&mut self, expr: &Expr) -> Option<Degree> {
        let problem = match &expr.kind {
            ExprKind::Int(_) => return Some(Degree::Constant),
            ExprKind::Name(name) if !name.capital => return Some(Degree::Affine),
            ExprKind::Name(name) => {
                return self
                    .size_name(name, "index it, as in `T[i]`, to use it as an index")
                    .then_some(Degree::Constant);
            }
            ExprKind::Unary { op: UnaryOp::Neg, operand } => return self.degree(operand),
            ExprKind::Binary { op, left, right } if op.precedence() >= BinaryOp::Add.precedence() => {
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
                "it is made with other operators than `+ - * /`"
            }
            ExprKind::Call { .. } => "it calls a function",
            ExprKind::Float(_) => "it has a number with a decimal point",
            ExprKind::Access { .. } => "a tensor in it must be the whole index",
            _ => return None,
        };
        self.error(
            Diagnostic::error("E0108", expr.span, format!("this index is not affine: {problem}"))
                .help("an index is a sum of index variables with constant factors, as in `2*i + j/2 - 1`"),
        );
        None
    }

    /// A size: integers, sizes of inputs, scalar inputs, and what is made of such.
    pub fn size(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Int(_) | ExprKind::Error | ExprKind::Ellipsis => {}
            ExprKind::Name(name) if !name.capital => {
                let message = format!("`{}` is an index variable, which cannot be part of a size", name.name);
                let error = Diagnostic::error("E0117", name.span, message);
                self.error(match self.scope.suggest(&name.name) {
                    Some(help) => error.help(help),
                    None => error,
                });
            }
            ExprKind::Name(name) => {
                self.size_name(name, "a size is made of the sizes of inputs");
            }
            ExprKind::Unary { operand, .. } => self.size(operand),
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
            ExprKind::Call { callee, arguments: _ } => {
                let ExprKind::Name(function) = &callee.kind else { return };
                if !self.is_size_function(&function.name) {
                    let message = format!("`{}` is no function of sizes", function.name);
                    let help = "the functions of sizes are mod, ceil, floor, max, min, broadcast, match and assert_…";
                    self.error(Diagnostic::error("E0117", function.span, message).help(help));
                }
            }
            ExprKind::Float(_) => {
                self.error(Diagnostic::error("E0117", expr.span, "a size is an integer, without a decimal point"));
            }
            ExprKind::List(_) | ExprKind::Pipe { .. } | ExprKind::Text(_) => {}
            ExprKind::Access { tensor, .. } => {
                let message =
                    format!("an element of `{}` is known only at run time, so it cannot be a size", tensor.name);
                self.error(Diagnostic::error("E0117", expr.span, message));
            }
        }
    }

    /// A name where a size must be; gives whether it may be one.
    fn size_name(&mut self, name: &Ident, help: &str) -> bool {
        let Some(value) = self.scope.lookup(name, self.diagnostics) else { return false };
        if value.may_be_size {
            return true;
        }
        let place = value.span;
        let message = format!("`{}` is a tensor, not a size", name.name);
        self.error(Diagnostic::error("E0117", name.span, message).also(place, "defined here").help(help));
        false
    }
}
