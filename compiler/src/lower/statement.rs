//! Statements, in order. Loops and conditions are decided here, but for `scan`, which is a loop at run time.

use tile_lang::ast::{Expr, FunctionKind, Ident, Statement, StatementKind};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::expression::{Evaluator, Lowered, Target};
use super::scope::Scope;
use super::value::Value;

impl<'p, T: Target> Evaluator<'p, T> {
    /// Runs statements in a scope.
    pub fn run(&mut self, scope: &mut Scope<'p, T::Element>, statements: &'p [Statement]) -> Lowered<()> {
        statements.iter().try_for_each(|statement| self.statement(scope, statement))
    }

    fn statement(&mut self, scope: &mut Scope<'p, T::Element>, statement: &'p Statement) -> Lowered<()> {
        let span = statement.span;
        self.count(span)?;
        match &statement.kind {
            StatementKind::Assign { targets, value } => {
                if let [target, ..] = targets.as_slice() {
                    self.target.begin(target, span);
                }
                let value = self.expression(scope, value)?;
                self.assign(scope, targets, value, span)
            }
            StatementKind::Contraction(contraction) => {
                self.target.begin(&contraction.output, span);
                let value = T::contraction(self, scope, contraction)?;
                self.assign(scope, std::slice::from_ref(&contraction.output), value, span)
            }
            StatementKind::Weight(weight) => {
                self.target.begin(&weight.name, span);
                T::weight(self, scope, weight)
            }
            StatementKind::Update { target, value } => {
                if self.updates && !self.is_frozen() {
                    self.target.begin(target, span);
                    let value = self.expression(scope, value)?;
                    T::update(self, scope, target, value)?;
                }
                Ok(())
            }
            StatementKind::For { variables, list, body } => self.unroll(scope, variables, list, body),
            StatementKind::If { condition, then, otherwise } => {
                let block = if self.decide(scope, condition)? { then } else { otherwise };
                self.run(scope, block)
            }
            StatementKind::Scan { sequences, body } => T::scan(self, scope, sequences, body, span),
            StatementKind::Yield { target, value } => {
                self.target.begin(target, span);
                let value = self.expression(scope, value)?;
                match self.yields.last_mut() {
                    Some(yields) => yields.push((target, value)),
                    None => return Err(Diagnostic::error("E0229", span, "`yield` stands in the body of a `scan`")),
                }
                Ok(())
            }
            StatementKind::Error => Err(Diagnostic::error("E0001", span, "this statement could not be read")),
        }
    }

    /// Gives names their values: one the whole, several the parts.
    fn assign(
        &mut self,
        scope: &mut Scope<'p, T::Element>,
        targets: &'p [Ident],
        value: Value<'p, T::Element>,
        span: Span,
    ) -> Lowered<()> {
        if let [target] = targets {
            if !target.capital && value.has_elements() {
                let capitalised = target.name[..1].to_ascii_uppercase() + &target.name[1..];
                let message = format!("`{}` is a tensor, so its name starts with a capital", target.name);
                let error = Diagnostic::error("E0225", target.span, message);
                return Err(error.help(format!("call it `{capitalised}`")));
            }
            // A function has no weights: a layer that it makes has its place where the caller puts it.
            if scope.function.kind != FunctionKind::Function {
                self.place_all(&value, &target.name);
            }
            scope.weights.remove(target.name.as_str());
            scope.names.insert(&target.name, value);
            return Ok(());
        }
        let parts = match value {
            Value::List(parts) if parts.len() == targets.len() => parts,
            Value::List(parts) => {
                let message = format!("{} names are given the parts of a list of {}", targets.len(), parts.len());
                return Err(Diagnostic::error("E0226", span, message));
            }
            value => {
                let message = format!("{} names are given the parts of {}", targets.len(), value.kind());
                return Err(Diagnostic::error("E0226", span, message));
            }
        };
        for (target, part) in targets.iter().zip(parts) {
            self.assign(scope, std::slice::from_ref(target), part, span)?;
        }
        Ok(())
    }

    fn unroll(
        &mut self,
        scope: &mut Scope<'p, T::Element>,
        variables: &'p [Ident],
        list: &'p Expr,
        body: &'p [Statement],
    ) -> Lowered<()> {
        let items = match self.expression(scope, list)? {
            Value::List(items) => items,
            value => {
                let message = format!("`for` goes through a list, and this is {}", value.kind());
                let error = Diagnostic::error("E0226", list.span, message);
                return Err(error.help("write `range(n)` for the numbers below n, and `scan` for an axis of a tensor"));
            }
        };
        for (number, item) in items.into_iter().enumerate() {
            if let Some(frame) = self.frames.last_mut() {
                frame.loops.push(number);
            }
            let done = self.assign(scope, variables, item, list.span).and_then(|()| self.run(scope, body));
            if let Some(frame) = self.frames.last_mut() {
                frame.loops.pop();
            }
            done?;
        }
        Ok(())
    }

    /// The value of an output of the scope's function, whose statements have run.
    pub fn output(&mut self, scope: &Scope<'p, T::Element>, output: &Ident) -> Lowered<Value<'p, T::Element>> {
        scope.lookup(&output.name).map_or_else(|| self.target.outer(output), Ok)
    }
}
