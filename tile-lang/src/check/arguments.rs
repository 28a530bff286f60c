//! Matches the arguments of a call with the list of parameters that it fills.

use crate::ast::{Argument, BinaryOp, Expr, ExprKind, Function, FunctionKind, Ident, Input};
use crate::check::function::{Checker, Within};
use crate::check::scope::{Known, Nature};
use crate::diagnostic::Diagnostic;
use crate::foreign::use_help;
use crate::span::Span;
use crate::suggest::listed;

/// The list of a function that a call fills.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Parameters,
    Inputs,
}

/// The arguments of a call by the parameters that they fill.
pub(super) struct Given<'c> {
    pub function: &'c Function,
    pub arguments: &'c [Argument],
    list: &'c [Input],
    /// The number of each parameter's argument.
    numbers: &'c [Option<usize>],
}

impl<'c> Given<'c> {
    /// Returns the parameters that are given, with their arguments.
    pub fn pairs(&self) -> impl Iterator<Item = (&'c Input, &'c Argument)> + use<'c> {
        let arguments = self.arguments;
        let pairs = self.list.iter().zip(self.numbers);
        pairs.filter_map(move |(input, number)| Some((input, &arguments[(*number)?])))
    }

    /// Returns the value of a parameter, if it is given.
    pub fn value(&self, name: &str) -> Option<&'c Expr> {
        let (_, argument) = self.pairs().find(|(input, _)| input.name.name == name)?;
        Some(&argument.value)
    }
}

impl Checker<'_, '_> {
    /// Checks the argument names of a call if it is unknown which list it fills. Each name must be
    /// in one of the two lists.
    pub(super) fn either_list(&mut self, function: &Function, arguments: &[Argument]) {
        let lists: Vec<&Input> =
            function.parameters.iter().flatten().chain(&function.inputs).collect();
        for name in arguments.iter().filter_map(|argument| argument.name.as_ref()) {
            let declared = lists.iter().any(|input| input.name.name == name.name);
            if !declared && !is_instance_name(function, name) {
                self.unknown_argument(function, &lists, name);
            }
        }
    }

    /// Reports a call without options that has more arguments than there are inputs: `sum(X, 1)`.
    /// Returns whether it is one.
    pub(super) fn has_options_among_inputs(
        &mut self,
        function: &Function,
        arguments: &[Argument],
        span: Span,
    ) -> bool {
        let (count, given) = (function.inputs.len(), arguments.len());
        let Some(option) = function.parameters.iter().flatten().next().filter(|_| given > count)
        else {
            return false;
        };
        let name = function.name.as_ref().map_or("", |name| &name.name);
        let option = &option.name.name;
        let error = wrong_count(name, span, function.required_inputs().count(), count, given);
        let help = format!(
            "options stand in a list of their own, before the tensor: `{name}({option} = …)(X)`"
        );
        self.error(error.help(help));
        true
    }

    fn unknown_argument(&mut self, function: &Function, list: &[&Input], name: &Ident) {
        let message = format!("unknown argument `{}` of {}", name.name, title(function));
        let names: Vec<&str> = list.iter().map(|input| input.name.name.as_str()).collect();
        let is_parameter =
            function.parameters.iter().flatten().any(|parameter| parameter.name.name == name.name);
        let help = match &function.name {
            Some(function) if is_parameter => {
                let (function, name) = (&function.name, &name.name);
                format!("it is a hyper-parameter: write `{function}({name} = …)(…)`")
            }
            _ if names.is_empty() => String::new(),
            _ => format!("the arguments are {}", listed(&names)),
        };
        let suggestion = self.suggestion(&name.name, names);
        self.error_with(Diagnostic::error("E0126", name.span, message), suggestion, &help);
    }

    /// Matches arguments with a list of parameters, and checks that each fits.
    #[expect(clippy::too_many_arguments, reason = "the parts of one call")]
    pub(super) fn arrange(
        &mut self,
        function: &Function,
        list: &[Input],
        kind: List,
        span: Span,
        arguments: &[Argument],
        known: &[Known],
        within: Within,
    ) {
        let name = function.name.as_ref().map_or("", |name| &name.name);
        let mut given: Vec<Option<usize>> = vec![None; list.len()];
        let positional = arguments.iter().filter(|argument| argument.name.is_none()).count();
        let simple =
            list.iter().all(|input| input.default.is_none()) && positional == arguments.len();
        for (number, argument) in arguments.iter().enumerate() {
            if argument.name.is_some() && !self.spend(list.len() / 8, argument.value.span) {
                return;
            }
            let slot = match &argument.name {
                None => number,
                Some(name) if kind == List::Parameters && is_instance_name(function, name) => {
                    continue;
                }
                Some(name) => match list.iter().position(|input| input.name.name == name.name) {
                    Some(slot) => slot,
                    None => {
                        self.unknown_argument(function, &list.iter().collect::<Vec<_>>(), name);
                        return;
                    }
                },
            };
            if argument.name.is_none() && self.is_compared_argument(list, argument) {
                return;
            }
            match given.get_mut(slot) {
                Some(place @ None) => *place = Some(number),
                Some(Some(first)) => {
                    let message = format!("`{}` is given twice", list[slot].name.name);
                    let error = Diagnostic::error("E0127", argument.value.span, message);
                    self.error(error.also(arguments[*first].value.span, "first given here"));
                }
                None => {
                    let least = list.iter().filter(|input| input.default.is_none()).count();
                    let place =
                        if simple && kind == List::Inputs { span } else { argument.value.span };
                    let error = wrong_count(name, place, least, list.len(), arguments.len());
                    return self.error(error);
                }
            }
        }
        self.missing(function, list, kind, span, &given, known, simple);
        for (input, argument) in
            list.iter().zip(&given).filter_map(|(input, number)| Some((input, (*number)?)))
        {
            let Argument { value, .. } = &arguments[argument];
            if input.name.capital {
                self.must_be_value(value, within);
            } else {
                self.choice(input, value, known[argument]);
            }
            self.rank_of_input(function, input, known[argument], value.span);
        }
        if kind == List::Parameters {
            let given = Given { function, arguments, list, numbers: &given };
            self.options(&given);
            self.doubtful_arguments(&given);
        }
    }

    /// Reports a required argument that is missing.
    #[expect(clippy::too_many_arguments, reason = "the parts of one call")]
    fn missing(
        &mut self,
        function: &Function,
        list: &[Input],
        kind: List,
        span: Span,
        given: &[Option<usize>],
        known: &[Known],
        simple: bool,
    ) {
        // A single list may provide all the inputs.
        if let (List::Inputs, [only]) = (kind, known)
            && only.nature != Nature::Tensor
            && !self.is_v0()
        {
            return;
        }
        let missing = list
            .iter()
            .zip(given)
            .find(|(input, given)| given.is_none() && input.default.is_none());
        let Some((missing, _)) = missing else { return };
        let name = function.name.as_ref().map_or("", |name| &name.name);
        if simple && kind == List::Inputs {
            return self.error(wrong_count(name, span, list.len(), list.len(), known.len()));
        }
        self.error(missing_argument(function, missing, span));
    }

    /// Reports `f(name == value)`, if `name` is a parameter and nothing else. Returns whether it is
    /// one.
    fn is_compared_argument(&mut self, list: &[Input], argument: &Argument) -> bool {
        let ExprKind::Binary { op: BinaryOp::Eq, left, .. } = &argument.value.kind else {
            return false;
        };
        let ExprKind::Name(name) = &left.kind else { return false };
        let is_parameter = list.iter().any(|input| input.name.name == name.name);
        if !is_parameter || self.scope.get(&name.name).is_some() {
            return false;
        }
        let message = format!("expected `=` after the argument `{}`, found `==`", name.name);
        self.error(
            Diagnostic::error("E0126", argument.value.span, message)
                .help(format!("write `{} = …`", name.name)),
        );
        true
    }
}

/// Returns the list that a call of a function with hyper-parameters fills: the inputs if there is a
/// tensor among the arguments, else the hyper-parameters. Returns `None` if this cannot be decided.
pub(super) fn filled(
    parameters: &[Input],
    inputs: &[Input],
    arguments: &[Argument],
    known: &[Known],
) -> Option<List> {
    if known.iter().any(|known| known.nature == Nature::Tensor) {
        return Some(List::Inputs);
    }
    if known.iter().all(|known| known.nature != Nature::Any) {
        return Some(List::Parameters);
    }
    let has = |list: &[Input], name: &Ident| list.iter().any(|input| input.name.name == name.name);
    arguments.iter().filter_map(|argument| argument.name.as_ref()).find_map(|name| {
        match (has(parameters, name), has(inputs, name)) {
            (true, false) => Some(List::Parameters),
            (false, true) => Some(List::Inputs),
            _ => None,
        }
    })
}

/// Returns whether the argument is `name = NAME`. Every layer and model takes it along with its
/// hyper-parameters.
fn is_instance_name(function: &Function, name: &Ident) -> bool {
    function.kind != FunctionKind::Function && name.name == "name"
}

pub(super) fn missing_argument(function: &Function, argument: &Input, span: Span) -> Diagnostic {
    let message = format!("missing argument `{}` of {}", argument.name.name, title(function));
    Diagnostic::error("E0103", span, message).also(argument.span, "it has no default")
}

pub(super) fn title(function: &Function) -> String {
    match &function.name {
        Some(name) => format!("`{}`", name.name),
        None => "this function".to_string(),
    }
}

/// Returns the error for a call with another number of arguments than from `least` to `most`.
pub(super) fn wrong_count(
    name: &str,
    span: Span,
    least: usize,
    most: usize,
    given: usize,
) -> Diagnostic {
    let plural = |number: usize| if number == 1 { "" } else { "s" };
    let takes = match (least, most) {
        _ if least == most => format!("{least} argument{}", plural(least)),
        (_, usize::MAX) => format!("at least {least} argument{}", plural(least)),
        _ => format!("{least} to {most} arguments"),
    };
    let message = format!("expected {takes} for `{name}`, found {given}");
    let error = Diagnostic::error("E0103", span, message);
    match use_help(name) {
        Some(help) => error.help(help),
        None => error,
    }
}
