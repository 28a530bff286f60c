//! Statements, run in order. Loops and conditions are resolved at compile time, except `scan`,
//! which is a run-time loop.

use tile_lang::ast::{Expr, FunctionKind, Ident, Statement, StatementKind};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::call::STATEMENT_UNITS;
use super::expression::{Evaluator, Lowered, Target};
use super::scope::Scope;
use super::value::Value;

/// The deepest nesting of lists, and of layers given to layers. A stack of 2 MiB suffices for it.
const DEEPEST: u32 = 256;

impl<'p, T: Target> Evaluator<'p, T> {
    /// Runs statements in a scope.
    pub fn run(
        &mut self,
        scope: &mut Scope<'p, T::Element>,
        statements: &'p [Statement],
    ) -> Lowered<()> {
        statements.iter().try_for_each(|statement| self.statement(scope, statement))
    }

    fn statement(
        &mut self,
        scope: &mut Scope<'p, T::Element>,
        statement: &'p Statement,
    ) -> Lowered<()> {
        let span = statement.span;
        self.count(STATEMENT_UNITS, span)?;
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
            StatementKind::For { variables, list, body } => {
                self.unroll(scope, variables, list, body)
            }
            StatementKind::If { condition, then, otherwise } => {
                let block = if self.decide(scope, condition)? { then } else { otherwise };
                self.run(scope, block)
            }
            StatementKind::Call(call) => self.expression(scope, call).map(drop),
            StatementKind::Adapt { body } => self.adapt(scope, body, span),
            StatementKind::Scan { sequences, body } => T::scan(self, scope, sequences, body, span),
            StatementKind::Yield { target, value } => {
                self.target.begin(target, span);
                let value = self.expression(scope, value)?;
                match self.yields.last_mut() {
                    Some(yields) => yields.push((target, value)),
                    None => {
                        return Err(Diagnostic::error(
                            "E0229",
                            span,
                            "`yield` stands in the body of a `scan`",
                        ));
                    }
                }
                Ok(())
            }
            StatementKind::Error => {
                Err(Diagnostic::error("E0001", span, "this statement could not be read"))
            }
        }
    }

    /// Runs an `adapt` block in a scope of its own, if its layer is the one that adapts.
    fn adapt(
        &mut self,
        scope: &Scope<'p, T::Element>,
        body: &'p [Statement],
        span: Span,
    ) -> Lowered<()> {
        if self.is_frozen() {
            return Ok(());
        }
        let path = self.frames.last().map_or(String::new(), |frame| frame.path.clone());
        let again = self.adapts.contains(&path);
        if self.adapting == Some(&path) {
            if again {
                let message =
                    format!("`{path}` is applied twice, so that it is not clear what it adapts to");
                return Err(Diagnostic::error("E0230", span, message).help(
                    "give it what it would take from the data, or a layer of its own to each input",
                ));
            }
            let updates = std::mem::replace(&mut self.updates, true);
            let done = self.run(&mut scope.map(Value::clone), body);
            self.updates = updates;
            done?;
        }
        if !again {
            self.adapts.push(path);
        }
        Ok(())
    }

    /// Assigns a value to one name, or the items of a list to several.
    fn assign(
        &mut self,
        scope: &mut Scope<'p, T::Element>,
        targets: &'p [Ident],
        value: Value<'p, T::Element>,
        span: Span,
    ) -> Lowered<()> {
        if value.depth() > DEEPEST {
            let message = format!("lists and layers are nested more than {DEEPEST} levels deep");
            return Err(Diagnostic::error("E0205", span, message));
        }
        if let [target] = targets {
            if !target.capital && value.has_elements() {
                let capitalised = target.name[..1].to_ascii_uppercase() + &target.name[1..];
                let what = if matches!(value, Value::List(_)) {
                    "a list with tensors"
                } else {
                    "a tensor"
                };
                let message =
                    format!("`{}` is {what}, so its name starts with a capital", target.name);
                let error = Diagnostic::error("E0225", target.span, message);
                return Err(error.help(format!("call it `{capitalised}`")));
            }
            // A function has no weights. The caller assigns the path of a layer that a function
            // makes.
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
                let message = format!(
                    "expected {} values for {0} names, found a list of {}",
                    targets.len(),
                    parts.len()
                );
                return Err(Diagnostic::error("E0226", span, message));
            }
            value => {
                let message = format!(
                    "expected {} values for {0} names, found {}",
                    targets.len(),
                    value.kind()
                );
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
                return Err(error.help(
                    "write `range(n)` for the numbers below n, and `scan` for an axis of a tensor",
                ));
            }
        };
        for (number, item) in items.iter().cloned().enumerate() {
            self.count(2, list.span)?;
            if let Some(frame) = self.frames.last_mut() {
                frame.loops.push(number);
            }
            let done =
                self.assign(scope, variables, item, list.span).and_then(|()| self.run(scope, body));
            if let Some(frame) = self.frames.last_mut() {
                frame.loops.pop();
            }
            done?;
        }
        Ok(())
    }

    /// Returns the value of an output of the scope's function, after its statements have run.
    pub fn output(
        &mut self,
        scope: &Scope<'p, T::Element>,
        output: &Ident,
    ) -> Lowered<Value<'p, T::Element>> {
        scope.lookup(&output.name).map_or_else(|| self.target.outer(output), Ok)
    }
}
