//! The indices, sizes and constraints of a contraction.

use std::collections::HashSet;

use crate::ast::{BinaryOp, Contraction, Expr, ExprKind, Ident, UnaryOp};
use crate::check::function::{Checker, Within};
use crate::check::scope::Nature;
use crate::check::walk::walk;
use crate::diagnostic::Diagnostic;
use crate::span::Span;

/// What a part of an index is made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Degree {
    /// Integers, sizes and values known at compile time.
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

    /// Tells of an index variable that is compared, as if it were a name that stands for itself.
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

    /// What the body of a contraction accesses; the output starts with `...` if `leading`.
    pub fn accesses(&mut self, contraction: &Contraction, leading: bool) {
        let mut accesses = Vec::new();
        walk(&contraction.body, &mut |expr| {
            if let ExprKind::Access { tensor, indices } = &expr.kind
                && tensor.capital
            {
                accesses.push(indices.first());
            }
        });
        if accesses.is_empty() && !matches!(contraction.body.kind, ExprKind::Error) {
            let error = Diagnostic::error("E0112", contraction.body.span, "a contraction needs a tensor with indices");
            self.error(error.help("as in `+(X[i, j])`"));
            return;
        }
        let follows = accesses.into_iter().flatten().any(is_ellipsis);
        if let (Some(first), true, false) = (contraction.indices.first(), leading, follows) {
            let message = "no tensor inside starts with `...` as the output does";
            self.error(Diagnostic::error("E0113", first.span, message));
        }
    }

    /// A tensor and its indices.
    pub fn access(&mut self, tensor: &Ident, indices: &[Expr], span: Span) {
        let leading = self.leading(indices);
        self.indices(indices);
        let Some(value) = self.lookup(tensor) else { return };
        let given = indices.len() - usize::from(leading);
        if let Some(rank) = value.known.rank
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
                ExprKind::Access { tensor, indices } if tensor.capital => self.access(tensor, indices, index.span),
                ExprKind::Ellipsis => {}
                ExprKind::Name(name) if !name.capital && self.scope.get(&name.name).is_some() => {
                    self.scope.mark_used(&name.name);
                    let message = format!("`{}` is a value here, not an index variable", name.name);
                    let error = Diagnostic::error("E0125", name.span, message);
                    let error = match self.scope.get(&name.name) {
                        Some(value) => error.also(value.span, "the value"),
                        None => error,
                    };
                    let help =
                        format!("rename one of the two, or write `{} + 0` for the place of that number", name.name);
                    self.error(error.help(help));
                }
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
            ExprKind::Name(name) if !name.capital => {
                self.scope.mark_used(&name.name);
                let value = self.scope.get(&name.name).is_some();
                return Some(if value { Degree::Constant } else { Degree::Affine });
            }
            ExprKind::Access { tensor, indices } if !tensor.capital => {
                self.item(tensor, indices, expr);
                return Some(Degree::Constant);
            }
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
            ExprKind::Call { .. } | ExprKind::Pipe { .. } => "it calls a function",
            ExprKind::List(_) => "it has a list",
            ExprKind::Text(_) => "it has a text",
            ExprKind::Float(_) => "it has a number with a decimal point",
            ExprKind::Access { .. } => "a tensor in it must be the whole index",
            ExprKind::Ellipsis | ExprKind::Error => return None,
        };
        self.error(
            Diagnostic::error("E0108", expr.span, format!("this index is not affine: {problem}"))
                .help("an index is a sum of index variables with constant factors, as in `2*i + j/2 - 1`"),
        );
        None
    }

    /// A size: integers, sizes of inputs, scalar inputs, values known at compile time, and what is made of such.
    pub fn size(&mut self, expr: &Expr) {
        let no_size = |what: &str| Diagnostic::error("E0117", expr.span, what);
        match &expr.kind {
            ExprKind::Int(_) | ExprKind::Error | ExprKind::Ellipsis => {}
            ExprKind::Name(name) if !name.capital && self.scope.get(&name.name).is_some() => {
                self.scope.mark_used(&name.name);
            }
            ExprKind::Name(name) if !name.capital => {
                let message = format!("`{}` is an index variable, which cannot be part of a size", name.name);
                let suggestion = self.scope.suggest(&name.name);
                self.error_with(Diagnostic::error("E0117", name.span, message), suggestion, "");
            }
            ExprKind::Name(name) => {
                self.size_name(name, "a size is made of the sizes of inputs");
            }
            ExprKind::Unary { operand, .. } => self.size(operand),
            ExprKind::Binary { op: BinaryOp::Eq | BinaryOp::Ne, left, right } => {
                // Names can be compared, too.
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
                    let message = format!("`{}` is no function of sizes", name.name);
                    let help = "the functions of sizes are mod, ceil, floor, max, min, broadcast, match and assert_…";
                    self.error(Diagnostic::error("E0117", name.span, message).help(help));
                }
                _ => {
                    self.value(expr, Within::Statement);
                }
            },
            ExprKind::Float(_) => self.error(no_size("a size is an integer, without a decimal point")),
            ExprKind::List(_) => self.error(no_size("a list is no size")),
            ExprKind::Text(_) => self.error(no_size("a text is no size")),
            ExprKind::Pipe { .. } => self.error(no_size("a pipeline is no size")),
            ExprKind::Access { tensor, indices } if !tensor.capital => {
                self.item(tensor, indices, expr);
            }
            ExprKind::Access { tensor, .. } => {
                let message =
                    format!("an element of `{}` is known only at run time, so it cannot be a size", tensor.name);
                self.error(Diagnostic::error("E0117", expr.span, message));
            }
        }
    }

    /// Whether a name is that of a function of sizes.
    fn is_size_function(&self, name: &Ident) -> bool {
        self.scope.get(&name.name).is_none()
            && match self.callable(name) {
                Some(Nature::Builtin(builtin)) => builtin.is_size(),
                Some(_) => false,
                None => !self.all_read,
            }
    }

    /// Whether what a name calls may give a value known at compile time.
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

    /// A name where a size must be; gives whether it may be one.
    fn size_name(&mut self, name: &Ident, help: &str) -> bool {
        let Some(value) = self.lookup(name) else { return false };
        if value.may_be_size {
            return true;
        }
        let place = value.span;
        let message = format!("`{}` is a tensor, not a size", name.name);
        self.error(Diagnostic::error("E0117", name.span, message).also(place, "defined here").help(help));
        false
    }
}
