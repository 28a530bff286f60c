//! Checks calls: the callee, and the parameter list that the call fills.

use std::borrow::Cow;

use crate::ast::{Argument, DimKind, Expr, ExprKind, Function, FunctionKind, Ident, Input};
use crate::builtin::Builtin;
use crate::check::arguments::{List, filled, missing_argument, title, wrong_count};
use crate::check::function::{Checker, Within};
use crate::check::scope::{CONSTANTS, Known, Nature};
use crate::check::value::broadcast;
use crate::diagnostic::{Diagnostic, axes};
use crate::foreign::name_help;
use crate::program::Callee;
use crate::span::Span;
use crate::suggest::{SUGGESTIONS, listed};

impl<'p> Checker<'p, '_> {
    /// Returns the definition or built-in function that a name denotes outside the scope.
    pub fn callable(&self, name: &Ident) -> Option<Nature> {
        if let Some(index) = self.program.callee_index(&name.name, self.function) {
            let ready = self.program.all_functions()[index].parameters.is_none();
            return Some(Nature::Function { index, ready });
        }
        match self.program.callee(&name.name, self.function)? {
            Callee::Builtin(builtin) => Some(Nature::Builtin(builtin)),
            Callee::Function(_) => None,
        }
    }

    pub fn call(&mut self, callee: &Expr, arguments: &[Argument], within: Within) -> Known {
        let nature = self.callee(callee, within);
        let known: Vec<Known> =
            arguments.iter().map(|argument| self.open(&argument.value, within)).collect();
        match nature {
            Some(Nature::Builtin(builtin)) => {
                self.builtin(builtin, callee, arguments, &known, within)
            }
            Some(Nature::Function { index, ready }) => {
                let function = &self.program.all_functions()[index];
                if self.makes_none(function, arguments, callee.span) {
                    return Known::ANY;
                }
                let list = match (&function.parameters, ready) {
                    (None, _) | (_, true) => Some(List::Inputs),
                    (Some(parameters), false) => {
                        filled(parameters, &function.inputs, arguments, &known)
                    }
                };
                match list {
                    Some(List::Parameters) => {
                        let parameters = function.parameters.as_deref().unwrap_or_default();
                        let before = self.diagnostics.len();
                        self.arrange(
                            function,
                            parameters,
                            List::Parameters,
                            callee.span,
                            arguments,
                            &known,
                            within,
                        );
                        // Wrong arguments say nothing about the use of the result.
                        if self.diagnostics[before..].iter().any(Diagnostic::is_error) {
                            return Known::ANY;
                        }
                        Known { rank: None, nature: Nature::Function { index, ready: true } }
                    }
                    Some(List::Inputs) => {
                        let span = callee.span;
                        if !ready
                            && (!self.defaults(function, span)
                                || self.has_options_among_inputs(function, arguments, span))
                        {
                            return Known::ANY;
                        }
                        let inputs = &function.inputs;
                        self.arrange(
                            function,
                            inputs,
                            List::Inputs,
                            callee.span,
                            arguments,
                            &known,
                            within,
                        );
                        self.result(index, callee, &known, within)
                    }
                    None => {
                        self.either_list(function, arguments);
                        Known::ANY
                    }
                }
            }
            _ => Known::ANY,
        }
    }

    /// Checks `input |> callee`. A list of callables is applied in sequence.
    pub fn applied(&mut self, input: Known, callee: &Expr, within: Within) -> Known {
        if let ExprKind::List(items) = &callee.kind {
            return items.iter().fold(input, |input, item| self.applied(input, item, within));
        }
        match self.callee(callee, within) {
            Some(Nature::Builtin(builtin)) => {
                let argument = [Argument {
                    name: None,
                    value: Expr { kind: ExprKind::Error, span: callee.span },
                }];
                self.builtin(builtin, callee, &argument, &[input], within)
            }
            Some(Nature::Function { index, ready }) => {
                let function = &self.program.all_functions()[index];
                if !ready {
                    self.defaults(function, callee.span);
                }
                let mut required = function.required_inputs();
                match (function.inputs.first(), required.nth(1)) {
                    (None, _) => {
                        let message = format!("{} takes no input", title(function));
                        self.error(Diagnostic::error("E0103", callee.span, message));
                    }
                    // A list may provide all the inputs.
                    (_, Some(second)) if input.nature == Nature::Tensor => {
                        let message =
                            format!("missing input `{}` of {}", second.name.name, title(function));
                        let error = Diagnostic::error("E0103", callee.span, message);
                        let error = error.also(second.span, "it has no default");
                        self.error(
                            error.help("several inputs are given as a list, as in `[A, B] |> …`"),
                        );
                    }
                    (Some(first), None) => self.rank_of_input(function, first, input, callee.span),
                    (Some(_), Some(_)) => {}
                }
                self.result(index, callee, &[input], within)
            }
            _ => Known::ANY,
        }
    }

    /// Returns the nature of a callee, if it is known.
    fn callee(&mut self, callee: &Expr, within: Within) -> Option<Nature> {
        let known = match &callee.kind {
            ExprKind::Name(name) => {
                let local = self.scope.get(&name.name).is_some();
                match self.callable(name) {
                    // A function may have the same name as a local tensor.
                    Some(nature) if name.capital || !local => return Some(nature),
                    _ if local => {
                        self.scope.mark_used(&name.name);
                        self.scope.get(&name.name)?.known
                    }
                    _ if CONSTANTS.contains(&name.name.as_str()) => return None,
                    _ => {
                        self.unknown_callee(name);
                        return None;
                    }
                }
            }
            _ => self.open(callee, within),
        };
        let what = match known.nature {
            Nature::Tensor => "a tensor",
            Nature::Value if known.rank == Some(0) => "a number",
            nature => return Some(nature),
        };
        let message = format!("expected a function or layer, found {what}");
        let error = Diagnostic::error("E0130", callee.span, message);
        self.error(match &callee.kind {
            ExprKind::Name(name) if known.nature == Nature::Tensor => {
                error.help(format!("indices stand in brackets, as in `{}[i]`", name.name))
            }
            ExprKind::Call { callee, .. } if let Some(header) = self.header_of_layer(callee) => {
                error.help(format!("hyper-parameters have a list of their own: write `{header}`"))
            }
            _ => error,
        });
        None
    }

    /// Returns the start of the header with two lists that a layer with one should have:
    /// `layer Block(units)(X)`.
    fn header_of_layer(&self, callee: &Expr) -> Option<String> {
        let index = self.program.callee_index(text_of(callee), self.function)?;
        let function = &self.program.all_functions()[index];
        let (inputs, options): (Vec<&Input>, Vec<&Input>) =
            function.inputs.iter().partition(|input| input.name.capital);
        if function.parameters.is_some() || inputs.is_empty() || options.is_empty() {
            return None;
        }
        let names = |list: Vec<&Input>| -> String {
            list.iter().map(|input| input.name.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let (kind, name) = (function.kind.keyword(), text_of(callee));
        Some(format!("{kind} {name}({})({})", names(options), names(inputs)))
    }

    fn unknown_callee(&mut self, name: &Ident) {
        if !self.all_read || !self.scope.is_complete() {
            return;
        }
        let kind = match self.function.kind {
            FunctionKind::Train => "loss, metric or optimizer",
            _ if name.capital => "layer",
            _ => "function",
        };
        let error =
            Diagnostic::error("E0102", name.span, format!("unknown {kind} `{}`", name.name));
        if self.diagnostics.len() >= SUGGESTIONS {
            return self.error(error);
        }
        let mut written =
            self.program.written_functions().iter().filter_map(|function| function.name.as_ref());
        if written.any(|other| other.name == name.name) {
            return self.error(
                error.help(
                    "import the file that defines it: a file sees only what it imports itself",
                ),
            );
        }
        if let Some(later) = self.scope.defined_after(&name.name, name.span) {
            return self.error(
                error.also(later, "defined here, after its use").help("move the definition up"),
            );
        }
        let locals = self
            .scope
            .values
            .keys()
            .copied()
            .filter(|local| local.starts_with(|c: char| c.is_lowercase()));
        let near = || self.suggestion(&name.name, self.program.callable_names().chain(locals));
        let help = name_help(&name.name).map(str::to_owned).or_else(near);
        self.error_with(error, help, "");
    }

    fn builtin(
        &mut self,
        builtin: Builtin,
        callee: &Expr,
        arguments: &[Argument],
        known: &[Known],
        within: Within,
    ) -> Known {
        let name = text_of(callee);
        if let Some(keyword) = arguments.iter().find_map(|argument| argument.name.as_ref()) {
            let message = format!("`{name}` takes its arguments by position only");
            self.error(
                Diagnostic::error("E0126", keyword.span, message)
                    .help(format!("remove `{} =`", keyword.name)),
            );
        }
        // These built-in functions accept anything. The first argument of `einsum` is an equation.
        let names = match builtin.name {
            "list" | "is_list" | "has_states" | "letters" | "repeat" | "clone" | "with_weight"
            | "parametrized" | "error" | "matches" => arguments.len(),
            "einsum" => 1,
            _ => 0,
        };
        arguments
            .iter()
            .skip(names)
            .for_each(|argument| self.must_be_value(&argument.value, within));
        let (least, most) = builtin.arity;
        if !(least..=most).contains(&arguments.len()) {
            self.error(wrong_count(name, callee.span, least, most, arguments.len()));
            return Known::ANY;
        }
        if builtin.is_compile_time() {
            // The item or slice of a list of tensors may be a tensor.
            return if matches!(builtin.name, "list" | "slice" | "error") {
                Known::ANY
            } else {
                Known::VALUE
            };
        }
        if within == Within::Contraction && !builtin.is_elementwise() {
            self.whole_tensors(name, callee.span);
        }
        if builtin.is_elementwise() {
            broadcast(known)
        } else if builtin.is_size() {
            Known::NUMBER
        } else {
            Known::ANY
        }
    }

    fn whole_tensors(&mut self, name: &str, span: Span) {
        let message =
            format!("`{name}` works on whole tensors, so it cannot be called inside a contraction");
        self.error(
            Diagnostic::error("E0112", span, message)
                .help("call it in a statement before this one"),
        );
    }

    /// Returns the kind of value of a function that has all its inputs.
    fn result(&mut self, index: usize, callee: &Expr, known: &[Known], within: Within) -> Known {
        let function = &self.program.all_functions()[index];
        let elementwise = self.calls.is_elementwise(index);
        if within == Within::Contraction && !elementwise {
            self.whole_tensors(text_of(callee), callee.span);
        }
        match function.outputs.as_slice() {
            [output] if !output.capital => Known::VALUE,
            [_] if elementwise => broadcast(known),
            [_] if function.kind != FunctionKind::Function => Known::tensor(None),
            _ => Known::ANY,
        }
    }

    /// Reports a call with no arguments of a layer or model without hyper-parameters that has
    /// required inputs. Returns whether it was one.
    fn makes_none(&mut self, function: &Function, arguments: &[Argument], span: Span) -> bool {
        let is_made = arguments.is_empty()
            && function.kind != FunctionKind::Function
            && function.parameters.is_none();
        if !is_made || function.inputs.iter().all(|input| input.default.is_some()) {
            return false;
        }
        let (kind, name) =
            (function.kind.keyword(), function.name.as_ref().map_or("", |name| &name.name));
        let inputs: Vec<&str> =
            function.inputs.iter().map(|input| input.name.name.as_str()).collect();
        let inputs = inputs.join(", ");
        let message = format!(
            "`{name}()` is a call without inputs, because `{name}` has no list of hyper-parameters"
        );
        let help = format!(
            "write `X |> {name}`, or give it an empty list, as in `{kind} {name}()({inputs})`"
        );
        self.error(Diagnostic::error("E0103", span, message).help(help));
        true
    }

    /// Checks that a function applied without hyper-parameters has defaults for all of them.
    fn defaults(&mut self, function: &Function, span: Span) -> bool {
        let mut parameters = function.parameters.iter().flatten();
        let Some(needed) = parameters.find(|parameter| parameter.default.is_none()) else {
            return true;
        };
        let name = function.name.as_ref().map_or("", |name| &name.name);
        let error = missing_argument(function, needed, span);
        self.error(error.help(format!("write `X |> {name}({} = …)`", needed.name.name)));
        false
    }

    /// Checks that a value is one of the choices, if both are literals.
    pub fn choice(&mut self, input: &Input, value: &Expr, known: Known) {
        let Some(Expr { kind: ExprKind::List(choices), .. }) = &input.choices else { return };
        if !self.spend(choices.len(), value.span) {
            return;
        }
        fn literal(expr: &Expr) -> Option<Cow<'_, str>> {
            Some(match &expr.kind {
                ExprKind::Name(name) => name.name.as_str().into(),
                ExprKind::Text(text) => text.as_str().into(),
                ExprKind::Int(value) => value.to_string().into(),
                _ => return None,
            })
        }
        let is_local =
            matches!(&value.kind, ExprKind::Name(name) if self.scope.get(&name.name).is_some());
        let Some(choices) = choices.iter().map(literal).collect::<Option<Vec<_>>>() else { return };
        let Some(value_text) = literal(value).filter(|_| !is_local && known.nature != Nature::Any)
        else {
            return;
        };
        if !choices.contains(&value_text) {
            let message = format!(
                "expected one of {} for `{}`, found `{value_text}`",
                listed(&choices),
                input.name.name
            );
            let suggestion = self.suggestion(&value_text, choices.iter().map(AsRef::as_ref));
            self.error_with(Diagnostic::error("E0128", value.span, message), suggestion, "");
        }
    }

    /// Checks that the rank of an argument matches the input.
    pub(super) fn rank_of_input(
        &mut self,
        function: &Function,
        input: &Input,
        known: Known,
        span: Span,
    ) {
        let Some((dims, rank)) = input.dims.as_ref().zip(known.rank) else { return };
        let leading = dims.iter().any(|dim| dim.kind == DimKind::Ellipsis);
        if (leading && rank + 1 < dims.len()) || (!leading && rank != dims.len()) {
            let wanted = axes(dims.len() - usize::from(leading));
            let least = if leading { "at least " } else { "" };
            let (name, function) = (&input.name.name, title(function));
            let message = format!(
                "expected a tensor with {least}{wanted} for `{name}` of {function}, found one with {}",
                axes(rank)
            );
            let error = Diagnostic::error("E0107", span, message);
            self.error(match input.span.in_library() {
                true => error,
                false => error.also(input.span, "the input"),
            });
        }
    }

    /// Returns the number of values that a callee gives, if it is known and not 1.
    pub fn outputs_of(&mut self, callee: &Expr) -> Option<usize> {
        let callee = match &callee.kind {
            ExprKind::Call { callee, .. } => callee,
            _ => callee,
        };
        let ExprKind::Name(name) = &callee.kind else { return None };
        let local = self.scope.get(&name.name).map(|value| value.known.nature);
        match local.or_else(|| self.callable(name))? {
            Nature::Function { index, .. } => {
                Some(self.program.all_functions()[index].outputs.len()).filter(|count| *count > 1)
            }
            _ => None,
        }
    }
}

/// Returns the name of a callee. For a callee that is itself a call, this is the name of the inner
/// callee.
pub(super) fn text_of(callee: &Expr) -> &str {
    match &callee.kind {
        ExprKind::Name(name) => &name.name,
        ExprKind::Access { tensor, .. } => &tensor.name,
        ExprKind::Call { callee, .. } => text_of(callee),
        _ => "this",
    }
}
