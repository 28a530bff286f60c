//! Calls: which argument is which parameter, instances of layers, and bodies, which are written out.

use std::rc::Rc;

use tile_lang::ast::{Expr, ExprKind, Function, FunctionKind, Ident, Input};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;
use tile_lang::{Callee, did_you_mean};

use super::expression::{Evaluator, Lowered, Spans, Target};
use super::frame::Frame;
use super::scope::Scope;
use super::value::{Callable, Instance, Value};
use crate::names::snake_case;

/// An argument of a call, evaluated.
pub(super) struct Argument<'p, E> {
    pub name: Option<&'p Ident>,
    pub value: Value<'p, E>,
    pub span: Span,
}

/// The most calls and statements that are written out.
const MAX_WORK: u32 = 300_000;

impl<'p, T: Target> Evaluator<'p, T> {
    /// The callable that a name in a function's body stands for, where nothing in its scope has the name.
    pub fn callee(&self, name: &str, caller: &'p Function) -> Option<Callable<'p, T::Element>> {
        Some(match self.program.callee(name, caller)? {
            Callee::Function(function) => Callable::Function(function),
            Callee::Builtin(builtin) => Callable::Builtin(builtin, name.into()),
        })
    }

    /// A value as something to call. A symbol is the callable of its name.
    pub fn callable(
        &self,
        value: &Value<'p, T::Element>,
        caller: &'p Function,
        span: Span,
    ) -> Lowered<Callable<'p, T::Element>> {
        match value {
            Value::Callable(callable) => Ok(callable.clone()),
            Value::Symbol(name) => self.callee(name, caller).ok_or_else(|| self.unknown(name, span)),
            _ => Err(Diagnostic::error("E0221", span, format!("this is {}, which cannot be called", value.kind()))),
        }
    }

    fn unknown(&self, name: &str, span: Span) -> Diagnostic {
        let error = Diagnostic::error("E0102", span, format!("there is no function `{name}`"));
        match did_you_mean(name, self.program.callable_names()) {
            Some(help) => error.help(help),
            None => error,
        }
    }

    /// What a call gives: an instance where hyper-parameters are given, else the outputs.
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

    /// `input |> value`. A list of callables is applied in sequence.
    pub fn pipe(
        &mut self,
        input: Value<'p, T::Element>,
        value: &Value<'p, T::Element>,
        caller: &'p Function,
        span: Span,
    ) -> Lowered<Value<'p, T::Element>> {
        if let Value::List(callables) = value {
            return callables.iter().try_fold(input, |input, callable| self.pipe(input, callable, caller, span));
        }
        let callable = self.callable(value, caller, span)?;
        let callable = match callable {
            // With its defaults, even where the input is known at compile time.
            Callable::Function(function) => Callable::Instance(Instance::new(function, Vec::new(), None)),
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
        self.frames.push(Frame::new(path.clone()));
        self.renewals.push(instance.renewal.clone().map(|renewal| (renewal, false)));
        let outputs = self.call(function, &instance.parameters, arguments, span);
        self.frames.pop();
        if let (Some(Some((renewal, false))), Ok(_)) = (self.renewals.pop(), &outputs) {
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

    /// Gives a layer its path, unless it has one: under the layer that is being applied, by its own or the given name.
    fn place(&mut self, instance: &Instance<'p, T::Element>, name: &str) {
        let mut path = instance.path.borrow_mut();
        if let (None, Some(frame)) = (path.as_ref(), self.frames.last_mut()) {
            *path = Some(match &instance.name {
                Some(given) => frame.place(given, true),
                None => frame.place(name, false),
            });
        }
    }

    /// Gives the layers in a value that is bound to a name their paths; those in a list are numbered.
    pub fn place_all(&mut self, value: &Value<'p, T::Element>, name: &str) {
        match value {
            Value::Callable(Callable::Instance(instance)) if instance.function.kind != FunctionKind::Function => {
                self.place(instance, name);
            }
            Value::List(items) => {
                for (number, item) in items.iter().enumerate() {
                    self.place_all(item, &format!("{name}[{number}]"));
                }
            }
            _ => {}
        }
    }

    /// What `function` makes of the arguments: its output, or a list of its outputs.
    fn call(
        &mut self,
        function: &'p Function,
        parameters: &[Option<Value<'p, T::Element>>],
        arguments: Vec<Argument<'p, T::Element>>,
        span: Span,
    ) -> Lowered<Value<'p, T::Element>> {
        self.count(span)?;
        let arguments = spread(function, arguments);
        let arguments = arrange(function, &function.inputs, arguments, span)?;
        let mut scope = Scope::new(function);
        let name = function.name.as_ref().map_or(function.kind.keyword(), |name| &name.name);
        let path = self.frames.last().map_or("", |frame| &frame.path);
        let label = self.target.enter(name, path);
        let inside = || -> Lowered<Value<'p, T::Element>> {
            self.bind_parameters(&mut scope, parameters)?;
            self.bind(&mut scope, arguments)?;
            if let (FunctionKind::Optimizer, Some(trained)) = (function.kind, function.inputs.first())
                && let Some(Value::Element(element)) = scope.names.get(trained.name.name.as_str())
                && let Some(path) = self.target.path(*element)
            {
                scope.weights.insert(&trained.name.name, path);
            }
            self.run(&mut scope, &function.body)?;
            if let [output] = function.outputs.as_slice() {
                return self.output(&scope, output);
            }
            let outputs = function.outputs.iter().map(|output| self.output(&scope, output));
            Ok(Value::List(outputs.collect::<Lowered<_>>()?))
        };
        let result = inside().map_err(|error| error.also(span, "in this call"));
        self.target.leave(label);
        result
    }

    /// Counts a call or a statement.
    pub fn count(&mut self, span: Span) -> Lowered<()> {
        self.calls += 1;
        if self.calls > MAX_WORK {
            let message =
                format!("this program has more than {MAX_WORK} calls and statements when loops are written out");
            return Err(Diagnostic::error("E0205", span, message).help("`scan` is a loop that is not written out"));
        }
        Ok(())
    }

    /// Gives the hyper-parameters of the scope's function their values, which may be fewer than there are.
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

    /// Gives the inputs of the scope's function their values, and its size names theirs.
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
                let message = format!("`{}` is known at compile time, and a tensor is given", input.name.name);
                return Err(Diagnostic::error("E0204", input.span, message));
            }
            self.choose(scope, input, &value)?;
            scope.bind_sizes(input, shape)?;
            scope.names.insert(&input.name.name, value);
        }
        Ok(())
    }

    /// An error where a parameter must be one of a list, and is not.
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
        if choices.contains(value) {
            return Ok(());
        }
        let choices: Vec<String> = choices.iter().map(Value::to_string).collect();
        let message = format!("`{}` must be one of {}, and is `{value}`", parameter.name.name, choices.join(", "));
        let error = Diagnostic::error("E0222", parameter.span, message);
        Err(match did_you_mean(&value.to_string(), choices.iter().map(String::as_str)) {
            Some(help) => error.help(help),
            None => error,
        })
    }

    /// The arguments of a call, evaluated.
    pub fn arguments(
        &mut self,
        scope: &Scope<'p, T::Element>,
        arguments: &'p [tile_lang::ast::Argument],
    ) -> Lowered<Vec<Argument<'p, T::Element>>> {
        let arguments = arguments.iter().map(|argument| {
            let is_name = argument.name.as_ref().is_some_and(|name| name.name == "name");
            let value = match &argument.value.kind {
                // The name that something is given is as it is written, whatever else has that name.
                ExprKind::Name(text) if is_name && !text.capital && scope.lookup(&text.name).is_none() => {
                    Value::Symbol(text.name.as_str().into())
                }
                _ => self.expression(scope, &argument.value)?,
            };
            Ok(Argument { name: argument.name.as_ref(), value, span: argument.value.span })
        });
        arguments.collect()
    }

    /// `condition`, decided at compile time.
    pub fn decide(&mut self, scope: &Scope<'p, T::Element>, condition: &'p Expr) -> Lowered<bool> {
        match self.expression(scope, condition)? {
            Value::Constant(constant) => Ok(constant.is_true()),
            value => {
                let message = format!("a condition must be known at compile time, and this is {}", value.kind());
                Err(Diagnostic::error("E0223", condition.span, message)
                    .help("to choose between tensors place by place, write `C ? A : B`"))
            }
        }
    }
}

/// A function with hyper-parameters.
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
        // It may be that of a function, too.
        let Argument { value, span, .. } = arguments.remove(at);
        let Some(text) = value.name() else {
            let message = format!("a layer's name is a name, and this is {}", value.kind());
            return Err(Diagnostic::error("E0208", span, message));
        };
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') || !text.chars().all(is_letter) {
            let message = format!("`{text}` is no name for a layer");
            let error = Diagnostic::error("E0208", span, message);
            return Err(error.help("a name is made of letters, digits and `_`: it is a part of the paths of weights"));
        }
        name = Some(Rc::from(text));
    }
    let given = arrange(function, parameters, arguments, span)?;
    Ok(Value::instance(Instance::new(function, given, name)))
}

/// Where a function of several inputs is given one list, its items are the inputs.
fn spread<'p, E>(function: &Function, mut arguments: Vec<Argument<'p, E>>) -> Vec<Argument<'p, E>> {
    let required = function.inputs.iter().filter(|input| input.default.is_none()).count();
    match arguments.as_slice() {
        [Argument { name: None, value: Value::List(_), .. }] if required > 1 => {
            let Some(Argument { value: Value::List(items), span, .. }) = arguments.pop() else { return arguments };
            items.into_iter().map(|value| Argument { name: None, value, span }).collect()
        }
        _ => arguments,
    }
}

/// The arguments in the order of the parameters: by position, then by name.
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
                let message = format!("{} takes {} arguments here, not {count}", title(function), parameters.len());
                return Err(Diagnostic::error("E0208", span, message));
            }
        }
    }
    if let Some(at) = (0..found.len()).find(|&at| found[at].is_none() && parameters[at].default.is_none()) {
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
