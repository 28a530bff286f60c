//! Checks expressions: the kind of value that they give, and the names that they may use.

use crate::ast::{BinaryOp, Expr, ExprKind, Ident};
use crate::check::call::text_of;
use crate::check::doubtful::integer;
use crate::check::function::{Checker, Within};
use crate::check::scope::{CONSTANTS, Known, Nature, Value};
use crate::diagnostic::Diagnostic;
use crate::program::Callee;

impl<'p> Checker<'p, '_> {
    /// Looks up a name. Reports an unknown one.
    pub fn lookup(&mut self, name: &Ident) -> Option<Value> {
        self.scope.lookup(name, std::iter::empty(), self.diagnostics)
    }

    /// Checks an expression in which an undefined small name is a symbol, which stands for itself
    /// (`padding = same`), and a function may be a value.
    pub fn open(&mut self, expr: &Expr, within: Within) -> Known {
        match &expr.kind {
            ExprKind::Name(name) if self.scope.get(&name.name).is_none() => {
                match self.callable(name) {
                    Some(nature) => Known { rank: None, nature },
                    None if name.capital => {
                        let names = self.program.callable_names();
                        self.scope.lookup(name, names, self.diagnostics);
                        Known::ANY
                    }
                    None => Known::VALUE,
                }
            }
            ExprKind::Text(_) => Known::VALUE,
            ExprKind::Conditional { condition, then, otherwise: Some(otherwise) } => {
                let condition = self.value(condition, within);
                let (then, otherwise) = (self.open(then, within), self.open(otherwise, within));
                self.chosen(condition, then, otherwise)
            }
            _ => self.value(expr, within),
        }
    }

    /// Checks an expression that must be a number, a tensor or a list.
    pub fn value(&mut self, expr: &Expr, within: Within) -> Known {
        match &expr.kind {
            ExprKind::Int(_) | ExprKind::Float(_) => Known::NUMBER,
            ExprKind::Text(_) => {
                self.error(Diagnostic::error(
                    "E0130",
                    expr.span,
                    "expected a number, tensor or list, found a text",
                ));
                Known::VALUE
            }
            ExprKind::Name(name) => self.name(name, within),
            ExprKind::Access { tensor, indices } => self.element(tensor, indices, expr, within),
            ExprKind::Call { callee, arguments } => self.call(callee, arguments, within),
            ExprKind::Pipe { input, callee } => {
                self.doubtful_pipe(input, callee, expr.span);
                let input = self.value(input, within);
                self.applied(input, callee, within)
            }
            ExprKind::List(items) => {
                let natures = items.iter().map(|item| self.open(item, within).nature);
                let natures: Vec<Nature> = natures.collect();
                let known =
                    natures.iter().all(|nature| !matches!(nature, Nature::Any | Nature::Tensor));
                if known { Known::VALUE } else { Known::ANY }
            }
            ExprKind::Unary { operand, .. } => {
                let known = self.value(operand, within);
                broadcast(&[known])
            }
            ExprKind::Binary { op: BinaryOp::Eq | BinaryOp::Ne, left, right } => {
                // Symbols can be compared, too.
                let known = [self.open(left, within), self.open(right, within)];
                broadcast(&known)
            }
            // Texts can be concatenated with each other and with numbers.
            ExprKind::Binary { op: BinaryOp::Add, left, right } if is_text(expr) => {
                for (side, other) in [(left, right), (right, left)] {
                    if self.open(side, within).nature != Nature::Value {
                        self.value(other, within);
                    }
                }
                Known::VALUE
            }
            ExprKind::Binary { op, left, right } => {
                self.doubtful_operator(*op, left, right);
                let known = [self.value(left, within), self.value(right, within)];
                for (side, known) in [left, right].into_iter().zip(known) {
                    self.layer_as_operand(side, known);
                }
                broadcast(&known)
            }
            ExprKind::Conditional { condition, then, otherwise } => {
                let is_equality =
                    matches!(condition.kind, ExprKind::Binary { op: BinaryOp::Eq, .. });
                let (condition, then) = (self.value(condition, within), self.value(then, within));
                let Some(otherwise) = otherwise else {
                    if !is_equality {
                        let message = "expected `:` and a value after `C ? A`";
                        let help = "write `C ? A : 0`; only `A == B ? C` may leave it out";
                        self.error(Diagnostic::error("E0112", expr.span, message).help(help));
                    }
                    return broadcast(&[condition, then]);
                };
                let otherwise = self.value(otherwise, within);
                self.chosen(condition, then, otherwise)
            }
            ExprKind::Ellipsis | ExprKind::Error => Known::ANY,
        }
    }

    /// Reports a layer that is made, but not applied, beside an operator: `X >> Dense(2)`.
    fn layer_as_operand(&mut self, operand: &Expr, known: Known) {
        let (Nature::Function { index, .. }, ExprKind::Call { callee, .. }) =
            (known.nature, &operand.kind)
        else {
            return;
        };
        let kind = self.program.all_functions()[index].kind.keyword();
        let name = text_of(callee);
        let message = format!("expected a tensor or a number, found the {kind} `{name}`");
        let help = format!("apply it with `|>`, as in `X |> {name}(…)`");
        self.error(Diagnostic::error("E0130", operand.span, message).help(help));
    }

    /// Returns the kind of `condition ? then : otherwise`.
    fn chosen(&self, condition: Known, then: Known, otherwise: Known) -> Known {
        match condition.nature {
            // The condition is known at compile time, so the result is one of the two branches.
            Nature::Value if !self.is_v0() && then == otherwise => then,
            Nature::Value if !self.is_v0() => Known::ANY,
            _ => broadcast(&[condition, then, otherwise]),
        }
    }

    /// Reports an argument that `open` accepted, but that must be a value.
    pub fn must_be_value(&mut self, expr: &Expr, within: Within) {
        match &expr.kind {
            // An unknown capital name was already reported.
            ExprKind::Name(name)
                if self.scope.get(&name.name).is_none()
                    && (!name.capital || self.callable(name).is_some()) =>
            {
                self.name(name, within);
            }
            ExprKind::Text(_) => {
                self.value(expr, within);
            }
            _ => {}
        }
    }

    fn name(&mut self, name: &Ident, within: Within) -> Known {
        if self.scope.get(&name.name).is_none() {
            if !name.capital && CONSTANTS.contains(&name.name.as_str()) {
                return Known::VALUE;
            }
            if let (Some(_), true) = (self.callable(name), within == Within::Statement) {
                let message = format!("expected a value, found the function `{}`", name.name);
                let error = Diagnostic::error("E0130", name.span, message);
                self.error(error.help(format!("apply it, as in `{}(…)`", name.name)));
                return Known::ANY;
            }
            if !name.capital {
                self.no_value(name, within);
                return Known::VALUE;
            }
        }
        let Some(value) = self.lookup(name) else { return Known::ANY };
        if let (Some(rank @ 1..), Within::Contraction) = (value.known.rank, within) {
            let message = format!("missing indices of `{}`, which has rank {rank}", name.name);
            let indices = ["i", "j", "k", "l", "m", "n"]
                .get(..rank)
                .map_or("i, …".to_owned(), |names| names.join(", "));
            let help = format!("inside a contraction, write `{}[{indices}]`", name.name);
            self.error(Diagnostic::error("E0107", name.span, message).help(help));
        }
        value.known
    }

    /// Reports an undefined small name in place of a value.
    pub fn no_value(&mut self, name: &Ident, within: Within) {
        if !self.scope.is_complete() {
            return;
        }
        let suggestion =
            self.suggestion(&name.name, self.scope.values.keys().copied().chain(CONSTANTS));
        if self.is_v0() || within == Within::Contraction {
            let message = format!("expected a value, found the index variable `{}`", name.name);
            let help = "names of tensors start with a capital; `index(X, axis)` has the index of each element along an axis";
            self.error_with(Diagnostic::error("E0109", name.span, message), suggestion, help);
        } else {
            let message = format!("unknown value `{}`", name.name);
            let help =
                "an undefined small name is a symbol, which can only be passed on or compared";
            self.error_with(Diagnostic::error("E0109", name.span, message), suggestion, help);
        }
    }

    /// Checks `T[i]`: an element of a tensor inside a contraction, or an item of a list anywhere.
    fn element(&mut self, tensor: &Ident, indices: &[Expr], expr: &Expr, within: Within) -> Known {
        let known = self.scope.get(&tensor.name).map(|value| value.known);
        let listed = match known {
            Some(known) => {
                within == Within::Statement && known.nature == Nature::Any && known.rank.is_none()
            }
            None => false,
        };
        if !tensor.capital || (listed && !self.is_v0()) {
            return self.item(tensor, indices, expr);
        }
        if within == Within::Statement {
            let message = format!("`{}` is indexed outside a contraction", tensor.name);
            let part = self.part_of(tensor, indices, known.and_then(|known| known.rank));
            let help = match part {
                Some(part) => format!("a part of a tensor is a contraction: `{part}`"),
                None => {
                    "a part of a tensor is a contraction, as in `Y[j: N] = =(X[0, j]);`".to_owned()
                }
            };
            self.error(Diagnostic::error("E0116", expr.span, message).help(help));
            self.scope.mark_used(&tensor.name);
            return Known::ANY;
        }
        self.access(tensor, indices, expr.span);
        Known::tensor(Some(0))
    }

    /// Returns the contraction for the part of an input that `indices` select, as in NumPy.
    fn part_of(&self, tensor: &Ident, indices: &[Expr], rank: Option<usize>) -> Option<String> {
        const NAMES: [&str; 6] = ["i", "j", "k", "l", "m", "n"];
        let rank = rank.filter(|rank| (indices.len()..=NAMES.len()).contains(rank))?;
        let (mut sizes, mut places) = (Vec::new(), Vec::new());
        for (axis, name) in NAMES.iter().enumerate().take(rank) {
            let size = self.size_of_axis(tensor, axis)?;
            places.push(match indices.get(axis) {
                None => {
                    sizes.push(size);
                    (*name).to_owned()
                }
                Some(index) => match (integer(index)?, size.parse::<i64>()) {
                    (index @ 0.., _) => index.to_string(),
                    (index, Ok(size)) => (size + index).to_string(),
                    (index, Err(_)) => format!("{size} - {}", index.unsigned_abs()),
                },
            });
        }
        let rest = match NAMES.get(indices.len()..rank)? {
            [] => String::new(),
            names => format!("{}: {}", names.join(", "), sizes.join(", ")),
        };
        Some(format!("Y[{rest}] = =({}[{}]);", tensor.name, places.join(", ")))
    }

    /// Checks an item of a list that is known at compile time.
    pub fn item(&mut self, list: &Ident, indices: &[Expr], expr: &Expr) -> Known {
        if let Some(value) = self.lookup(list)
            && value.known.nature == Nature::Value
            && value.known.rank.is_some()
        {
            let error = Diagnostic::error(
                "E0130",
                list.span,
                format!("expected a list, found the number `{}`", list.name),
            );
            self.error(error.also(value.span, "defined here"));
        }
        if indices.len() != 1 {
            let message =
                format!("expected 1 index for the list `{}`, found {}", list.name, indices.len());
            self.error(
                Diagnostic::error("E0107", expr.span, message)
                    .help("give an item that is a list a name first"),
            );
        }
        for index in indices {
            if self.value(index, Within::Statement).nature == Nature::Tensor {
                let message = "expected an index known at compile time, found a tensor";
                self.error(Diagnostic::error("E0130", index.span, message));
            }
        }
        Known::ANY
    }

    /// Returns whether the current function is a Tile v0 function.
    pub fn is_v0(&self) -> bool {
        self.function.is_v0()
    }

    /// Returns whether an expression may turn out to be a size.
    pub fn may_be_size(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Int(_) => true,
            ExprKind::Name(name) => match self.scope.get(&name.name) {
                Some(value) => value.may_be_size,
                None => !name.capital && CONSTANTS.contains(&name.name.as_str()),
            },
            ExprKind::Unary { operand, .. } => self.may_be_size(operand),
            ExprKind::Binary { op: BinaryOp::Eq | BinaryOp::Ne, left, right } => {
                let symbol =
                    |expr: &Expr| matches!(expr.kind, ExprKind::Text(_) | ExprKind::Name(_));
                [left, right].iter().all(|side| self.may_be_size(side) || symbol(side))
            }
            ExprKind::Binary { left, right, .. } => {
                self.may_be_size(left) && self.may_be_size(right)
            }
            ExprKind::Conditional { condition, then, otherwise } => {
                self.may_be_size(condition)
                    && self.may_be_size(then)
                    && otherwise.as_ref().is_some_and(|otherwise| self.may_be_size(otherwise))
            }
            ExprKind::Access { tensor, .. } => !tensor.capital,
            ExprKind::Call { callee, arguments } => match &callee.kind {
                ExprKind::Name(name) if self.scope.get(&name.name).is_none() => {
                    match self.program.callee(&name.name, self.function) {
                        Some(Callee::Builtin(builtin)) if builtin.is_compile_time() => true,
                        Some(Callee::Builtin(builtin)) => {
                            builtin.is_size()
                                && arguments
                                    .iter()
                                    .all(|argument| self.may_be_size(&argument.value))
                        }
                        Some(Callee::Function(function)) => {
                            function.outputs.iter().all(|output| !output.capital)
                        }
                        None => false,
                    }
                }
                _ => !self.is_v0(),
            },
            // The error was already reported.
            ExprKind::Error => true,
            ExprKind::Pipe { .. } => !self.is_v0(),
            ExprKind::Float(_) | ExprKind::Text(_) | ExprKind::List(_) | ExprKind::Ellipsis => {
                false
            }
        }
    }
}

/// Returns whether the expression is a text or a concatenation with one.
fn is_text(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Text(_) => true,
        ExprKind::Binary { op: BinaryOp::Add, left, right } => is_text(left) || is_text(right),
        _ => false,
    }
}

/// Returns the kind of an elementwise operation on `operands`.
pub(super) fn broadcast(operands: &[Known]) -> Known {
    let compile_time = |known: &Known| known.nature == Nature::Value;
    if operands.iter().all(compile_time) {
        let number = operands.iter().all(|known| known.rank == Some(0));
        return if number { Known::NUMBER } else { Known::VALUE };
    }
    // A list cannot be an operand beside a tensor, so a value known at compile time is a number
    // here.
    let ranks = operands.iter().filter(|known| !compile_time(known)).map(|known| known.rank);
    let rank = ranks.into_iter().try_fold(0, |highest, rank| rank.map(|rank| highest.max(rank)));
    let tensor = operands.iter().any(|known| known.nature == Nature::Tensor);
    Known { rank, nature: if tensor { Nature::Tensor } else { Nature::Any } }
}
