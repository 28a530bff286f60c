//! Checks statements in order, and blocks.

use crate::ast::{
    Contraction, Expr, ExprKind, FunctionKind, Ident, Sequence, Statement, StatementKind, Weight,
    WeightKind, WeightShape,
};
use crate::check::function::{Checker, Within};
use crate::check::scope::{Known, Nature, Origin, Values};
use crate::diagnostic::Diagnostic;
use crate::span::Span;

impl<'p> Checker<'p, '_> {
    /// Checks the statements of a body. `in_scan` says that it is the body of a scan.
    pub fn statements(&mut self, body: &'p [Statement], in_scan: bool) {
        for statement in body {
            let span = statement.span;
            if !self.spend(2, span) {
                return;
            }
            match &statement.kind {
                StatementKind::Assign { targets, value } => self.assign(targets, value),
                StatementKind::Contraction(contraction) => self.contraction(contraction),
                StatementKind::Weight(weight) => self.weight(weight, span),
                StatementKind::Update { target, value } => self.update(target, value, span),
                StatementKind::For { variables, list, body } => {
                    self.unrolled(variables, list, body)
                }
                StatementKind::If { condition, then, otherwise } => {
                    self.branches(condition, then, otherwise)
                }
                StatementKind::Scan { sequences, body } => self.scan(sequences, body, span),
                StatementKind::Call(call) => self.called(call),
                StatementKind::Adapt { body } => self.adapt(body, span),
                StatementKind::Yield { target, value } => {
                    self.yielded(target, value, span, in_scan)
                }
                StatementKind::Error => {}
            }
        }
    }

    fn assign(&mut self, targets: &'p [Ident], value: &'p Expr) {
        // A symbol or a function may be assigned to a name that is known at compile time.
        let known = if targets.iter().any(|target| target.capital) {
            self.value(value, Within::Statement)
        } else {
            self.open(value, Within::Statement)
        };
        if let [target] = targets {
            let may_be_size = !target.capital || self.may_be_size(value);
            return self.define(target, Origin::Statement, known, may_be_size);
        }
        let parts = match &value.kind {
            ExprKind::List(items) => Some(items.len()),
            ExprKind::Call { callee, .. } => self.outputs_of(callee),
            _ => None,
        };
        if let Some(parts) = parts
            && parts != targets.len()
        {
            let message = format!("expected {} values for {0} names, found {parts}", targets.len());
            self.error(Diagnostic::error("E0129", value.span, message));
        }
        for target in targets {
            let known = if target.capital { Known::ANY } else { Known::VALUE };
            self.define(target, Origin::Statement, known, true);
        }
    }

    fn contraction(&mut self, contraction: &'p Contraction) {
        let leading = self.output_places(contraction);
        self.value(&contraction.body, Within::Contraction);
        self.compared_indices(contraction);
        self.rank(contraction);
        self.accesses(contraction, leading);
        self.doubtful_sizes(contraction);
        for constraint in &contraction.constraints {
            self.polynomial(&constraint.poly);
            self.size(&constraint.bound);
        }
        let rank = (!leading).then_some(contraction.indices.len());
        if let Some(default) = &contraction.default {
            let found = self.lookup(default).and_then(|value| value.known.rank);
            if let (Some(rank), Some(found)) = (rank, found)
                && found != rank
            {
                let message = format!(
                    "expected rank {rank} for the default `{}`, found rank {found}",
                    default.name
                );
                self.error(
                    Diagnostic::error("E0107", default.span, message)
                        .also(contraction.output.span, "the output"),
                );
            }
        }
        self.define(&contraction.output, Origin::Statement, Known::tensor(rank), false);
    }

    /// Reports a statement that functions cannot have.
    fn needs_layer(&mut self, keyword: &str, span: Span) {
        if self.function.kind == FunctionKind::Function {
            let message = format!("unexpected `{keyword}`: a function has no weights");
            self.error(
                Diagnostic::error("E0122", span, message)
                    .help("write `layer` instead of `function`"),
            );
        }
    }

    /// Checks a call statement. Its callee has no outputs, or its value may be ignored.
    fn called(&mut self, call: &'p Expr) {
        self.value(call, Within::Statement);
        let mut callee = call;
        while let ExprKind::Call { callee: inner, .. } = &callee.kind {
            callee = inner;
        }
        let ExprKind::Name(name) = &callee.kind else { return };
        let nature = match self.scope.get(&name.name) {
            Some(value) => Some(value.known.nature),
            None => self.callable(name),
        };
        let is_wanted = match nature {
            Some(Nature::Builtin(builtin)) => !matches!(builtin.name, "error" | "assert_"),
            Some(Nature::Function { index, .. }) => {
                !self.program.all_functions()[index].outputs.is_empty()
            }
            _ => false,
        };
        if is_wanted {
            let message = format!("unused value of the call of `{}`", name.name);
            self.error(Diagnostic::warning("W0102", call.span, message));
        }
    }

    /// Checks an `adapt` block. Names that are assigned in the block are local to it.
    fn adapt(&mut self, body: &'p [Statement], span: Span) {
        if !matches!(self.function.kind, FunctionKind::Layer | FunctionKind::Model) {
            let message = format!("unexpected `adapt` in this {}", self.function.kind.keyword());
            let help = "only a layer or a model computes states from the training data";
            self.error(Diagnostic::error("E0122", span, message).help(help));
        }
        let before = self.copied_scope(span);
        self.statements(body, false);
        for (name, value) in self.scope.restart(before) {
            if self.scope.get(name).is_none() && !value.used && self.scope.is_complete() {
                self.unused(name, value);
            }
        }
    }

    fn weight(&mut self, weight: &'p Weight, span: Span) {
        self.needs_layer(weight.kind.keyword(), span);
        if let (WeightKind::Param, FunctionKind::Optimizer | FunctionKind::Metric) =
            (weight.kind, self.function.kind)
        {
            let (name, kind) = (&weight.name.name, self.function.kind.keyword());
            let message = format!("unexpected `param` in this {kind}: nothing trains it");
            let error = Diagnostic::error("E0122", span, message);
            self.error(error.help(format!(
                "write `state {name}` for a value that is kept, and changed by `update`"
            )));
        }
        match &weight.shape {
            WeightShape::Sizes(sizes) => sizes.iter().for_each(|size| self.weight_size(size)),
            WeightShape::Like(tensor) => _ = self.value(tensor, Within::Statement),
        }
        if let ExprKind::Int(_) | ExprKind::Float(_) = weight.initializer.kind {
            let span = weight.initializer.span;
            let error = Diagnostic::error("E0130", span, "expected an initializer, found a number");
            self.error(
                error.help("write `zeros()`, or `constant(0.5)` for this number everywhere"),
            );
        } else {
            self.applied(Known::VALUE, &weight.initializer, Within::Statement);
        }
        if let Some(regularizer) = &weight.regularizer {
            self.applied(Known::tensor(None), regularizer, Within::Statement);
        }
        if let Some(constraint) = &weight.constraint {
            self.applied(Known::tensor(None), constraint, Within::Statement);
            if weight.kind == WeightKind::State {
                let message =
                    format!("unexpected `constraint` of the state `{}`", weight.name.name);
                let error = Diagnostic::error("E0122", constraint.span, message);
                self.error(
                    error.help("no optimizer changes a state: constrain the value of its `update`"),
                );
            }
        }
        if let Some(condition) = &weight.condition {
            self.condition(condition);
        }
        if let Some(otherwise) = &weight.otherwise {
            self.value(otherwise, Within::Statement);
        }
        // An expression that may be a list stands for any number of sizes.
        let WeightShape::Sizes(sizes) = &weight.shape else {
            return self.define(
                &weight.name,
                Origin::Weight,
                Known::tensor(None),
                weight.condition.is_some(),
            );
        };
        let listed = sizes.iter().any(|size| {
            !matches!(&size.kind, ExprKind::Int(_) | ExprKind::Binary { .. })
                && !matches!(&size.kind, ExprKind::Name(name) if name.capital)
        });
        let rank = (!listed && weight.condition.is_none()).then_some(sizes.len());
        let nature = if weight.condition.is_none() { Nature::Tensor } else { Nature::Any };
        self.define(
            &weight.name,
            Origin::Weight,
            Known { rank, nature },
            weight.condition.is_some(),
        );
    }

    fn weight_size(&mut self, size: &'p Expr) {
        match &size.kind {
            ExprKind::List(items) => items.iter().for_each(|item| self.weight_size(item)),
            ExprKind::Name(name) if !name.capital => {
                self.value(size, Within::Statement);
            }
            _ => self.size(size),
        }
    }

    fn update(&mut self, target: &'p Ident, value: &'p Expr, span: Span) {
        self.needs_layer("update", span);
        self.value(value, Within::Statement);
        let is_trained = self.function.kind == FunctionKind::Optimizer
            && self.function.inputs.first().is_some_and(|input| input.name.name == target.name);
        if !is_trained
            && !self.scope.weights.contains(target.name.as_str())
            && self.scope.is_complete()
        {
            let message = format!("unknown state `{}`", target.name);
            let suggestion = self.suggestion(&target.name, self.scope.weights.iter().copied());
            let help = "declare it first, as in `state Mean[C] = zeros();`";
            self.error_with(Diagnostic::error("E0123", target.span, message), suggestion, help);
        }
        self.scope.mark_used(&target.name);
    }

    fn unrolled(&mut self, variables: &'p [Ident], list: &'p Expr, body: &'p [Statement]) {
        let known = self.value(list, Within::Statement);
        if known.nature == Nature::Tensor {
            let error = Diagnostic::error("E0131", list.span, "expected a list, found a tensor");
            self.error(
                error.help("to go along an axis of a tensor, write `scan X in T along 0 { … }`"),
            );
        }
        self.looped(variables.iter().map(|variable| (variable, None)), body, false);
    }

    /// Checks a body that runs any number of times and has its own loop variables.
    fn looped(
        &mut self,
        variables: impl Iterator<Item = (&'p Ident, Option<usize>)>,
        body: &'p [Statement],
        in_scan: bool,
    ) {
        let mut names = Vec::new();
        for (variable, rank) in variables {
            let known = match (in_scan, variable.capital) {
                (true, _) => Known::tensor(rank),
                (false, true) => Known::ANY,
                (false, false) => Known::VALUE,
            };
            let taken = self.scope.get(&variable.name).is_some();
            self.define(variable, Origin::Variable, known, !in_scan);
            if !taken {
                names.push(&variable.name);
            }
        }
        self.scope.loops += 1;
        let count = self.scope.forget(body);
        self.spend(2 * count, body.first().map_or(Span::default(), |first| first.span));
        self.statements(body, in_scan);
        self.scope.forget(body);
        self.scope.loops -= 1;
        for name in names {
            self.scope.values.remove(name.as_str());
        }
    }

    /// Returns a copy of the scope from before a block, to be restored after it.
    fn copied_scope(&mut self, span: Span) -> Values<'p> {
        // The cost covers the copy, and the comparison and join after the block.
        match self.spend(3 * self.scope.values.len(), span) {
            true => self.scope.values.clone(),
            false => Values::new(),
        }
    }

    fn branches(&mut self, condition: &'p Expr, then: &'p [Statement], otherwise: &'p [Statement]) {
        self.condition(condition);
        let before = self.copied_scope(condition.span);
        self.statements(then, false);
        let after = self.scope.restart(before);
        self.statements(otherwise, false);
        self.scope.join(after);
    }

    /// Checks a condition that is decided at compile time.
    fn condition(&mut self, condition: &'p Expr) {
        if self.value(condition, Within::Statement).nature == Nature::Tensor {
            let error = Diagnostic::error(
                "E0131",
                condition.span,
                "expected a condition known at compile time, found a tensor",
            );
            self.error(error.help("to choose between the elements of tensors, write `C ? A : B`"));
        }
    }

    /// Checks a scan. A name from outside that the body assigns is carried from step to step. Other
    /// names are local to the body.
    fn scan(&mut self, sequences: &'p [Sequence], body: &'p [Statement], span: Span) {
        let mut variables = Vec::new();
        for Sequence { variable, tensor, axis } in sequences {
            let rank = self.value(tensor, Within::Statement).rank;
            self.value(axis, Within::Statement);
            if rank == Some(0) {
                let message = "expected a tensor with an axis, found rank 0";
                self.error(Diagnostic::error("E0107", tensor.span, message));
            }
            variables.push((variable, rank.and_then(|rank| rank.checked_sub(1))));
        }
        let outer = std::mem::take(&mut self.yields);
        let before = self.copied_scope(span);
        self.looped(variables.into_iter(), body, true);
        let inside = self.scope.restart(before);
        for (name, value) in inside {
            if let Some(carried) = self.scope.values.get_mut(name) {
                *carried = value;
            } else if !value.used && self.scope.is_complete() {
                self.unused(name, value);
            }
        }
        for (target, known) in std::mem::replace(&mut self.yields, outer) {
            self.define(target, Origin::Statement, known, false);
        }
    }

    fn yielded(&mut self, target: &'p Ident, value: &'p Expr, span: Span, in_scan: bool) {
        let known = self.value(value, Within::Statement);
        if !in_scan {
            let error =
                Diagnostic::error("E0124", span, "unexpected `yield` outside the body of a `scan`");
            self.error(error.help(
                "a scan yields at every step: put it into the body itself, outside inner blocks",
            ));
            return;
        }
        self.spend(self.yields.len() / 8, span);
        if let Some((first, _)) = self.yields.iter().find(|(first, _)| first.name == target.name) {
            let error = Diagnostic::error(
                "E0104",
                target.span,
                format!("`{}` is yielded twice", target.name),
            );
            self.error(error.also(first.span, "first yielded here"));
            return;
        }
        self.yields.push((target, Known::tensor(known.rank.map(|rank| rank + 1))));
    }
}
