//! Calls: arguments are matched to parameters, layers are instantiated, and bodies are inlined.

use std::rc::Rc;

use tile_lang::ast::{Expr, ExprKind, Function, FunctionKind, Ident, Input};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;
use tile_lang::{Callee, did_you_mean, listed};

use super::expression::{Evaluator, Lowered, Spans, Target};
use super::frame::Frame;
use super::scope::Scope;
use super::value::{Callable, Instance, List, Value};
use crate::names::snake_case;

/// An evaluated argument of a call.
pub(super) struct Argument<'p, E> {
    pub name: Option<&'p Ident>,
    pub value: Value<'p, E>,
    pub span: Span,
}

/// Units of work for a call and for a statement.
const CALL_UNITS: usize = 15;
pub(super) const STATEMENT_UNITS: usize = 5;

impl<'p, T: Target> Evaluator<'p, T> {
    /// Returns the callable that `name` refers to in the body of `caller`, if no value in its scope
    /// has that name.
    pub fn callee(&self, name: &str, caller: &'p Function) -> Option<Callable<'p, T::Element>> {
        Some(match self.program.callee(name, caller)? {
            Callee::Function(function) => Callable::Function(function),
            Callee::Builtin(builtin) => Callable::Builtin(builtin, name.into()),
        })
    }

    /// Converts a value to a callable. A symbol stands for the callable of its name.
    pub fn callable(
        &self,
        value: &Value<'p, T::Element>,
        caller: &'p Function,
        span: Span,
    ) -> Lowered<Callable<'p, T::Element>> {
        match value {
            Value::Callable(callable) => Ok(callable.clone()),
            Value::Symbol(name) => {
                self.callee(name, caller).ok_or_else(|| self.unknown(name, span))
            }
            _ => Err(Diagnostic::error(
                "E0221",
                span,
                format!("this is {}, which cannot be called", value.kind()),
            )),
        }
    }

    pub(super) fn unknown(&self, name: &str, span: Span) -> Diagnostic {
        let error = Diagnostic::error("E0102", span, format!("unknown function `{name}`"));
        match did_you_mean(name, self.program.callable_names()) {
            Some(help) => error.help(help),
            None => error,
        }
    }

    /// Calls a function or applies a layer. Returns an instance if the arguments are
    /// hyper-parameters, else the outputs.
    pub fn apply(
        &mut self,
        callable: &Callable<'p, T::Element>,
        arguments: Vec<Argument<'p, T::Element>>,
        span: Span,
    ) -> Lowered<Value<'p, T::Element>> {
        match callable {
            Callable::Builtin(builtin, name) => {
                if let Some(argument) = arguments.iter().find_map(|argument| argument.name) {
                    let message = format!("the arguments of `{name}` have no names");
                    return Err(Diagnostic::error("E0208", argument.span, message));
                }
                let (spans, values) = arguments.into_iter().map(|a| (a.span, a.value)).unzip();
                self.builtin(*builtin, name, values, &Spans { call: span, arguments: spans })
            }
            Callable::Function(function) => {
                let of_tensors = arguments.iter().any(|argument| argument.value.has_elements());
                if let Some(parameters) = &function.parameters
                    && !of_tensors
                {
                    return instance(function, parameters, arguments, span);
                }
                self.apply_instance(&Instance::new(function, Vec::new(), None), arguments, span)
            }
            Callable::Instance(instance) => self.apply_instance(instance, arguments, span),
        }
    }

    /// Evaluates `input |> value`. A list of callables is applied in sequence.
    pub fn pipe(
        &mut self,
        input: Value<'p, T::Element>,
        value: &Value<'p, T::Element>,
        caller: &'p Function,
        span: Span,
    ) -> Lowered<Value<'p, T::Element>> {
        if let Value::List(callables) = value {
            return callables.iter().try_fold(input, |input, callable| {
                self.count(1, span)?;
                self.pipe(input, callable, caller, span)
            });
        }
        let callable = self.callable(value, caller, span)?;
        let callable = match callable {
            // A function takes its default hyper-parameters here, even if the input is known at
            // compile time.
            Callable::Function(function) => {
                Callable::Instance(Instance::new(function, Vec::new(), None))
            }
            callable => callable,
        };
        self.apply(&callable, vec![Argument { name: None, value: input, span }], span)
    }

    fn apply_instance(
        &mut self,
        instance: &Rc<Instance<'p, T::Element>>,
        arguments: Vec<Argument<'p, T::Element>>,
        span: Span,
    ) -> Lowered<Value<'p, T::Element>> {
        let function = instance.function;
        if function.kind == FunctionKind::Function {
            return self.call(function, &instance.parameters, arguments, span);
        }
        let class = function.name.as_ref().map_or("model", |name| &name.name);
        self.place(instance, &snake_case(class));
        let path = instance.path.borrow().clone().unwrap_or_default();
        let drawn = self.drawn.get(&path).copied().unwrap_or(0);
        self.frames.push(Frame::drawing(path.clone(), drawn));
        self.renewals
            .push(instance.renewals.iter().map(|renewal| (renewal.clone(), false)).collect());
        let outputs = self.call(function, &instance.parameters, arguments, span);
        if let Some(frame) = self.frames.pop() {
            self.drawn.insert(path.clone(), frame.drawn());
        }
        let missed = self.renewals.pop().and_then(|all| all.into_iter().find(|(_, done)| !done));
        if let (Some((renewal, _)), Ok(_)) = (missed, &outputs) {
            let message = format!("`{class}` has no weight `{}`", renewal.names.join("` or `"));
            return Err(Diagnostic::error("E0232", span, message));
        }
        if self.frames.len() == 1 {
            let outputs = outputs.as_ref().map_or(&[][..], |value| match value {
                Value::List(items) => items,
                value => std::slice::from_ref(value),
            });
            let elements = outputs.iter().filter_map(|value| match value {
                Value::Element(element) => Some(*element),
                _ => None,
            });
            self.target.applied(path, class, elements.collect());
        }
        outputs
    }

    /// Assigns a layer its path, unless it has one. The path is below the layer that is being
    /// applied, and ends in the instance's own name or else in `name`.
    fn place(&mut self, instance: &Instance<'p, T::Element>, name: &str) {
        let mut path = instance.path.borrow_mut();
        if let (None, Some(frame)) = (path.as_ref(), self.frames.last_mut()) {
            *path = Some(match &instance.name {
                Some(given) => frame.place(given, true),
                None => frame.place(name, false),
            });
            let length = path.as_ref().map_or(0, |path| path.len() + 4 * frame.loops.len()) as u64;
            // The caller that applies the layer checks the budget.
            let _ = self.budget.take_bytes(400 + 4 * length);
            let _ = self.budget.spend(length / 4);
        }
    }

    /// Assigns paths to the layers in a value that is bound to a name. Layers in a list are
    /// numbered.
    pub fn place_all(&mut self, value: &Value<'p, T::Element>, name: &str) {
        match value {
            Value::Callable(Callable::Instance(instance))
                if instance.function.kind != FunctionKind::Function =>
            {
                self.place(instance, name);
            }
            Value::List(items) if value.has_callables() => {
                let _ = self.budget.spend(4 * items.len() as u64);
                for (number, item) in items.iter().enumerate() {
                    if self.budget.check().is_err() {
                        return;
                    }
                    self.place_all(item, &format!("{name}[{number}]"));
                }
            }
            _ => {}
        }
    }

    /// Inlines `function`. Returns its output, or a list of its outputs.
    fn call(
        &mut self,
        function: &'p Function,
        parameters: &[Option<Value<'p, T::Element>>],
        arguments: Vec<Argument<'p, T::Element>>,
        span: Span,
    ) -> Lowered<Value<'p, T::Element>> {
        self.count(CALL_UNITS, span)?;
        let arguments = spread(function, arguments);
        let arguments = arrange(function, &function.inputs, arguments, span)?;
        let mut scope = Scope::new(function);
        let name = function.name.as_ref().map_or(function.kind.keyword(), |name| &name.name);
        let path = self.frames.last().map_or("", |frame| &frame.path);
        let label = self.target.enter(name, path, span);
        let inside = || -> Lowered<Value<'p, T::Element>> {
            self.bind_parameters(&mut scope, parameters)?;
            self.bind(&mut scope, arguments)?;
            if let (FunctionKind::Optimizer, Some(trained)) =
                (function.kind, function.inputs.first())
            {
                return self.optimise(&mut scope, &trained.name.name);
            }
            self.run(&mut scope, &function.body)?;
            if let [output] = function.outputs.as_slice() {
                return self.output(&scope, output);
            }
            let outputs = function.outputs.iter().map(|output| self.output(&scope, output));
            let outputs = outputs.collect::<Lowered<_>>()?;
            self.list(outputs, span)
        };
        let result = inside().map_err(|error| error.in_call(span));
        self.target.leave(label);
        result
    }

    /// Runs an optimizer on a trained weight, which its body calls `name`. Returns the weight's
    /// next value.
    fn optimise(
        &mut self,
        scope: &mut Scope<'p, T::Element>,
        name: &'p str,
    ) -> Lowered<Value<'p, T::Element>> {
        let before = scope.lookup(name);
        let path = match &before {
            Some(Value::Element(element)) => self.target.path(*element),
            _ => None,
        };
        if let Some(path) = path.clone() {
            scope.weights.insert(name, path);
        }
        self.run(scope, &scope.function.body)?;
        let after = path.and_then(|path| self.target.next(&path)).map(Value::Element);
        Ok(after.or(before).unwrap_or(Value::List(List::default())))
    }

    /// Counts the units of a call, a statement or a loop iteration.
    pub fn count(&self, units: usize, span: Span) -> Lowered<()> {
        let help = "`scan` is a loop that is not written out; or raise the limits";
        self.spend(units, span).map_err(|error| error.help(help))
    }

    /// Binds the hyper-parameters of the scope's function. Missing values, and those beyond the end
    /// of `given`, take the defaults.
    pub fn bind_parameters(
        &mut self,
        scope: &mut Scope<'p, T::Element>,
        given: &[Option<Value<'p, T::Element>>],
    ) -> Lowered<()> {
        let parameters = scope.function.parameters.as_deref().unwrap_or_default();
        for (number, parameter) in parameters.iter().enumerate() {
            let value = match (given.get(number).cloned().flatten(), &parameter.default) {
                (Some(value), _) => value,
                (None, Some(default)) => self.expression(scope, default)?,
                (None, None) => return Err(missing(scope.function, parameter, parameter.span)),
            };
            self.choose(scope, parameter, &value)?;
            self.place_all(&value, &parameter.name.name);
            scope.names.insert(&parameter.name.name, value);
        }
        Ok(())
    }

    /// Binds the inputs of the scope's function, and its size names.
    pub fn bind(
        &mut self,
        scope: &mut Scope<'p, T::Element>,
        arguments: Vec<Option<Value<'p, T::Element>>>,
    ) -> Lowered<()> {
        for (input, argument) in scope.function.inputs.iter().zip(arguments) {
            let value = match (argument, &input.default) {
                (Some(value), _) => value,
                (None, Some(default)) => self.expression(scope, default)?,
                (None, None) => return Err(missing(scope.function, input, input.span)),
            };
            let shape = match &value {
                Value::Element(element) => Some(self.target.shape(*element)),
                Value::Constant(_) => Some(Vec::new()),
                Value::List(_) | Value::Symbol(_) | Value::Callable(_) => None,
            };
            if !input.name.capital && value.has_elements() {
                let message = format!(
                    "`{}` is known at compile time, and a tensor is given",
                    input.name.name
                );
                return Err(Diagnostic::error("E0204", input.span, message));
            }
            self.choose(scope, input, &value)?;
            scope.bind_sizes(input, shape)?;
            scope.names.insert(&input.name.name, value);
        }
        Ok(())
    }

    /// Checks that a parameter with a list of choices has one of them.
    fn choose(
        &mut self,
        scope: &Scope<'p, T::Element>,
        parameter: &'p Input,
        value: &Value<'p, T::Element>,
    ) -> Lowered<()> {
        let Some(choices) = &parameter.choices else { return Ok(()) };
        let Value::List(choices) = self.expression(scope, choices)? else {
            return Err(Diagnostic::error("E0204", choices.span, "the choices must be a list"));
        };
        self.spend(choices.len() / 4, parameter.span)?;
        if choices.contains(value) {
            return Ok(());
        }
        let choices: Vec<String> = choices.iter().map(Value::to_string).collect();
        let message = format!(
            "`{}` must be one of {}, and is `{value}`",
            parameter.name.name,
            listed(&choices)
        );
        let error = Diagnostic::error("E0222", parameter.span, message);
        Err(match did_you_mean(&value.to_string(), choices.iter().map(String::as_str)) {
            Some(help) => error.help(help),
            None => error,
        })
    }

    /// Evaluates the arguments of a call.
    pub fn arguments(
        &mut self,
        scope: &Scope<'p, T::Element>,
        arguments: &'p [tile_lang::ast::Argument],
    ) -> Lowered<Vec<Argument<'p, T::Element>>> {
        let arguments = arguments.iter().map(|argument| {
            let is_name = argument.name.as_ref().is_some_and(|name| name.name == "name");
            let value = match &argument.value.kind {
                // The value of `name = …` is taken literally, even if a function has that name.
                ExprKind::Name(text)
                    if is_name && !text.capital && scope.lookup(&text.name).is_none() =>
                {
                    Value::Symbol(text.name.as_str().into())
                }
                _ => self.expression(scope, &argument.value)?,
            };
            Ok(Argument { name: argument.name.as_ref(), value, span: argument.value.span })
        });
        arguments.collect()
    }

    /// Evaluates a condition at compile time.
    pub fn decide(&mut self, scope: &Scope<'p, T::Element>, condition: &'p Expr) -> Lowered<bool> {
        match self.expression(scope, condition)? {
            Value::Constant(constant) => Ok(constant.is_true()),
            value => {
                let message = format!(
                    "a condition must be known at compile time, and this is {}",
                    value.kind()
                );
                Err(Diagnostic::error("E0223", condition.span, message)
                    .help("to choose between tensors place by place, write `C ? A : B`"))
            }
        }
    }
}

/// Instantiates a function with hyper-parameters.
fn instance<'p, E>(
    function: &'p Function,
    parameters: &'p [Input],
    mut arguments: Vec<Argument<'p, E>>,
    span: Span,
) -> Lowered<Value<'p, E>> {
    let declares = |name: &str| parameters.iter().any(|parameter| parameter.name.name == name);
    let mut name = None;
    if let Some(at) = arguments.iter().position(|a| a.name.is_some_and(|name| name.name == "name"))
        && !declares("name")
    {
        // `value.name()` also accepts the name of a function.
        let Argument { value, span, .. } = arguments.remove(at);
        let Some(text) = value.name() else {
            let message = format!("a layer's name is a name, and this is {}", value.kind());
            return Err(Diagnostic::error("E0208", span, message));
        };
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            || !text.chars().all(is_letter)
        {
            let message = format!("`{text}` is no name for a layer");
            let error = Diagnostic::error("E0208", span, message);
            return Err(error.help(
                "a name is made of letters, digits and `_`: it is a part of the paths of weights",
            ));
        }
        name = Some(Rc::from(text));
    }
    let given = arrange(function, parameters, arguments, span)?;
    Ok(Value::instance(Instance::new(function, given, name)))
}

/// Spreads a single list argument over the inputs of a function with several inputs. If only one of
/// them is required, the list must contain tensors.
fn spread<'p, E: Clone>(
    function: &Function,
    mut arguments: Vec<Argument<'p, E>>,
) -> Vec<Argument<'p, E>> {
    let required = function.required_inputs().count();
    match arguments.as_slice() {
        [Argument { name: None, value: value @ Value::List(_), .. }]
            if required > 1 || function.inputs.len() > 1 && value.has_elements() =>
        {
            let Some(Argument { value: Value::List(items), span, .. }) = arguments.pop() else {
                return arguments;
            };
            items.iter().map(|value| Argument { name: None, value: value.clone(), span }).collect()
        }
        _ => arguments,
    }
}

/// Orders the arguments like the parameters: first by position, then by name.
fn arrange<'p, E>(
    function: &Function,
    parameters: &[Input],
    arguments: Vec<Argument<'p, E>>,
    span: Span,
) -> Lowered<Vec<Option<Value<'p, E>>>> {
    let mut found: Vec<Option<Value<'p, E>>> = parameters.iter().map(|_| None).collect();
    let count = arguments.len();
    for (position, argument) in arguments.into_iter().enumerate() {
        let slot = match argument.name {
            None => position,
            Some(name) => {
                let slot = parameters.iter().position(|parameter| parameter.name.name == name.name);
                slot.ok_or_else(|| {
                    let message = format!("{} has no `{}`", title(function), name.name);
                    let error = Diagnostic::error("E0224", name.span, message);
                    let names = parameters.iter().map(|parameter| parameter.name.name.as_str());
                    match did_you_mean(&name.name, names) {
                        Some(help) => error.help(help),
                        None => error,
                    }
                })?
            }
        };
        match found.get_mut(slot) {
            Some(None) => found[slot] = Some(argument.value),
            Some(Some(_)) => {
                let message = format!("`{}` is given twice", parameters[slot].name.name);
                return Err(Diagnostic::error("E0224", argument.span, message));
            }
            None => {
                let message = format!(
                    "{} takes {} arguments here, not {count}",
                    title(function),
                    parameters.len()
                );
                return Err(Diagnostic::error("E0208", span, message));
            }
        }
    }
    if let Some(at) =
        (0..found.len()).find(|&at| found[at].is_none() && parameters[at].default.is_none())
    {
        return Err(missing(function, &parameters[at], span));
    }
    Ok(found)
}

fn missing(function: &Function, parameter: &Input, span: Span) -> Diagnostic {
    let message = format!("`{}` of {} is not given", parameter.name.name, title(function));
    Diagnostic::error("E0208", span, message).also(parameter.span, "it has no default")
}

fn title(function: &Function) -> String {
    match &function.name {
        Some(name) => format!("`{}`", name.name),
        None => format!("this {}", function.kind.keyword()),
    }
}
