//! Calls: what is called, which list of it a call fills, and which argument is which.

use crate::ast::{Argument, DimKind, Expr, ExprKind, Function, FunctionKind, Ident, Input};
use crate::builtin::Builtin;
use crate::check::function::{Checker, Within};
use crate::check::scope::{CONSTANTS, Known, Nature};
use crate::check::value::broadcast;
use crate::diagnostic::Diagnostic;
use crate::program::Callee;
use crate::span::Span;
use crate::suggest::did_you_mean;

/// The list of a function that a call fills.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    Parameters,
    Inputs,
}

impl<'p> Checker<'p, '_> {
    /// What a name stands for outside the scope, if that can be called.
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
        let known: Vec<Known> = arguments.iter().map(|argument| self.open(&argument.value, within)).collect();
        match nature {
            Some(Nature::Builtin(builtin)) => self.builtin(builtin, callee, arguments, &known, within),
            Some(Nature::Function { index, ready }) => {
                let function = &self.program.all_functions()[index];
                if self.makes_none(function, arguments, callee.span) {
                    return Known::ANY;
                }
                let list = match (&function.parameters, ready) {
                    (None, _) | (_, true) => Some(List::Inputs),
                    (Some(parameters), false) => filled(parameters, &function.inputs, arguments, &known),
                };
                match list {
                    Some(List::Parameters) => {
                        let parameters = function.parameters.as_deref().unwrap_or_default();
                        self.arrange(function, parameters, List::Parameters, callee.span, arguments, &known, within);
                        Known { rank: None, nature: Nature::Function { index, ready: true } }
                    }
                    Some(List::Inputs) => {
                        if !ready {
                            self.defaults(function, callee.span);
                        }
                        let inputs = &function.inputs;
                        self.arrange(function, inputs, List::Inputs, callee.span, arguments, &known, within);
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

    /// `input |> callee`; a list of callables is applied in sequence.
    pub fn applied(&mut self, input: Known, callee: &Expr, within: Within) -> Known {
        if let ExprKind::List(items) = &callee.kind {
            return items.iter().fold(input, |input, item| self.applied(input, item, within));
        }
        match self.callee(callee, within) {
            Some(Nature::Builtin(builtin)) => {
                let argument = [Argument { name: None, value: Expr { kind: ExprKind::Error, span: callee.span } }];
                self.builtin(builtin, callee, &argument, &[input], within)
            }
            Some(Nature::Function { index, ready }) => {
                let function = &self.program.all_functions()[index];
                if !ready {
                    self.defaults(function, callee.span);
                }
                let mut required = function.inputs.iter().filter(|input| input.default.is_none());
                match (function.inputs.first(), required.nth(1)) {
                    (None, _) => {
                        let message = format!("{} takes no input", title(function));
                        self.error(Diagnostic::error("E0103", callee.span, message));
                    }
                    // A list may be all the inputs.
                    (_, Some(second)) if input.nature == Nature::Tensor => {
                        let message = format!("{} needs `{}`, too", title(function), second.name.name);
                        let error = Diagnostic::error("E0103", callee.span, message);
                        let error = error.also(second.span, "it has no default");
                        self.error(error.help("several inputs are given as a list, as in `[A, B] |> …`"));
                    }
                    (Some(first), None) => self.rank_of_input(function, first, input, callee.span),
                    (Some(_), Some(_)) => {}
                }
                self.result(index, callee, &[input], within)
            }
            _ => Known::ANY,
        }
    }

    /// What a callee is, where that is known.
    fn callee(&mut self, callee: &Expr, within: Within) -> Option<Nature> {
        let known = match &callee.kind {
            ExprKind::Name(name) => {
                let local = self.scope.get(&name.name).is_some();
                match self.callable(name) {
                    // A function may be called like a tensor.
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
        self.error(Diagnostic::error("E0130", callee.span, format!("this is {what}, which cannot be applied")));
        None
    }

    fn unknown_callee(&mut self, name: &Ident) {
        if !self.all_read || !self.scope.is_complete() {
            return;
        }
        let error = Diagnostic::error("E0102", name.span, format!("there is no function `{}`", name.name));
        let mut written = self.program.written_functions().iter().filter_map(|function| function.name.as_ref());
        if written.any(|other| other.name == name.name) {
            return self.error(error.help("another file has it: files see what they import themselves"));
        }
        let locals = self.scope.values.keys().copied().filter(|local| local.starts_with(|c: char| c.is_lowercase()));
        let suggestion = did_you_mean(&name.name, self.program.callable_names().chain(locals));
        self.error_with(error, suggestion, "");
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
            let error = Diagnostic::error("E0126", keyword.span, format!("the arguments of `{name}` have no names"));
            self.error(error.help("give them by position"));
        }
        // The first of `einsum` is an equation, and these take anything.
        let names = match builtin.name {
            "list" | "is_list" | "letters" | "repeat" | "clone" | "with_weight" | "error" => arguments.len(),
            "einsum" => 1,
            _ => 0,
        };
        arguments.iter().skip(names).for_each(|argument| self.must_be_value(&argument.value, within));
        let (least, most) = builtin.arity;
        if !(least..=most).contains(&arguments.len()) {
            self.wrong_count(name, callee.span, least, most, arguments.len());
            return Known::ANY;
        }
        if builtin.is_compile_time() {
            // Of a list of tensors there may be a part.
            return if matches!(builtin.name, "list" | "slice" | "error") { Known::ANY } else { Known::VALUE };
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

    fn wrong_count(&mut self, name: &str, span: Span, least: usize, most: usize, given: usize) {
        let plural = |number: usize| if number == 1 { "" } else { "s" };
        let takes = match (least, most) {
            _ if least == most => format!("{least} argument{}", plural(least)),
            (_, usize::MAX) => format!("at least {least} argument{}", plural(least)),
            _ => format!("{least} to {most} arguments"),
        };
        let are = if given == 1 { "is" } else { "are" };
        let message = format!("`{name}` takes {takes}, but {given} {are} given");
        self.error(Diagnostic::error("E0103", span, message));
    }

    fn whole_tensors(&mut self, name: &str, span: Span) {
        let message = format!("`{name}` works on whole tensors, so it cannot be called inside a contraction");
        self.error(Diagnostic::error("E0112", span, message).help("call it in a statement before"));
    }

    /// What a function gives that has its inputs.
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

    /// Whether a layer or model is to be made of what has no hyper-parameters to be given first, and takes inputs.
    fn makes_none(&mut self, function: &Function, arguments: &[Argument], span: Span) -> bool {
        let is_made = arguments.is_empty() && function.kind != FunctionKind::Function && function.parameters.is_none();
        if !is_made || function.inputs.iter().all(|input| input.default.is_some()) {
            return false;
        }
        let (kind, name) = (function.kind.keyword(), function.name.as_ref().map_or("", |name| &name.name));
        let inputs: Vec<&str> = function.inputs.iter().map(|input| input.name.name.as_str()).collect();
        let message = format!("{} has no hyper-parameters: a call is of its inputs", title(function));
        let inputs = inputs.join(", ");
        let help = format!("to make one and call that, give it an empty list of them, `{kind} {name}()({inputs})`");
        self.error(Diagnostic::error("E0103", span, message).help(help));
        true
    }

    /// The hyper-parameters of a function that is applied without them.
    fn defaults(&mut self, function: &Function, span: Span) {
        let parameters = function.parameters.iter().flatten();
        if let Some(needed) = parameters.into_iter().find(|parameter| parameter.default.is_none()) {
            let name = function.name.as_ref().map_or("", |name| &name.name);
            let message = format!("{} is applied without its hyper-parameter `{}`", title(function), needed.name.name);
            let error = Diagnostic::error("E0103", span, message).also(needed.span, "it has no default");
            self.error(error.help(format!("write `{name}({} = …)`", needed.name.name)));
        }
    }

    /// Where it is not known which list a call fills: its names must be in one.
    fn either_list(&mut self, function: &Function, arguments: &[Argument]) {
        let lists: Vec<&Input> = function.parameters.iter().flatten().chain(&function.inputs).collect();
        for name in arguments.iter().filter_map(|argument| argument.name.as_ref()) {
            let declared = lists.iter().any(|input| input.name.name == name.name);
            if !declared && !is_instance_name(function, name) {
                self.unknown_argument(function, &lists, name);
            }
        }
    }

    fn unknown_argument(&mut self, function: &Function, list: &[&Input], name: &Ident) {
        let message = format!("{} has no argument `{}`", title(function), name.name);
        let names: Vec<&str> = list.iter().map(|input| input.name.name.as_str()).collect();
        let is_parameter = function.parameters.iter().flatten().any(|parameter| parameter.name.name == name.name);
        let help = match &function.name {
            Some(function) if is_parameter => {
                let (function, name) = (&function.name, &name.name);
                format!("it is a hyper-parameter, which stands before the inputs: `{function}({name} = …)(…)`")
            }
            _ if names.is_empty() => String::new(),
            _ => format!("it has {}", names.join(", ")),
        };
        let suggestion = did_you_mean(&name.name, names);
        self.error_with(Diagnostic::error("E0126", name.span, message), suggestion, &help);
    }

    /// Which argument is which of a list, and whether each fits.
    #[expect(clippy::too_many_arguments, reason = "the parts of one call")]
    fn arrange(
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
        let simple = list.iter().all(|input| input.default.is_none()) && positional == arguments.len();
        for (number, argument) in arguments.iter().enumerate() {
            let slot = match &argument.name {
                None => number,
                Some(name) if kind == List::Parameters && is_instance_name(function, name) => continue,
                Some(name) => match list.iter().position(|input| input.name.name == name.name) {
                    Some(slot) => slot,
                    None => {
                        self.unknown_argument(function, &list.iter().collect::<Vec<_>>(), name);
                        return;
                    }
                },
            };
            match given.get_mut(slot) {
                Some(place @ None) => *place = Some(number),
                Some(Some(first)) => {
                    let message = format!("`{}` is given twice", list[slot].name.name);
                    let error = Diagnostic::error("E0127", argument.value.span, message);
                    self.error(error.also(arguments[*first].value.span, "first given here"));
                }
                None => {
                    let least = list.iter().filter(|input| input.default.is_none()).count();
                    let what = if kind == List::Parameters { "hyper-parameters of " } else { "" };
                    return match simple && kind == List::Inputs {
                        true => self.wrong_count(name, span, least, list.len(), arguments.len()),
                        false => {
                            let message = format!("there are {} {what}`{name}`, but more are given", list.len());
                            self.error(Diagnostic::error("E0103", argument.value.span, message));
                        }
                    };
                }
            }
        }
        self.missing(function, list, kind, span, &given, known, simple);
        for (input, argument) in list.iter().zip(given).filter_map(|(input, number)| Some((input, number?))) {
            let Argument { value, .. } = &arguments[argument];
            if input.name.capital {
                self.must_be_value(value, within);
            } else {
                self.choice(input, value, known[argument]);
            }
            self.rank_of_input(function, input, known[argument], value.span);
        }
    }

    /// Tells of arguments that are needed and not given.
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
        // One list may be all the inputs.
        if let (List::Inputs, [only]) = (kind, known)
            && only.nature != Nature::Tensor
            && !self.is_v0()
        {
            return;
        }
        let missing = list.iter().zip(given).find(|(input, given)| given.is_none() && input.default.is_none());
        let Some((missing, _)) = missing else { return };
        let name = function.name.as_ref().map_or("", |name| &name.name);
        if simple && kind == List::Inputs {
            return self.wrong_count(name, span, list.len(), list.len(), known.len());
        }
        let message = format!("{} needs `{}`", title(function), missing.name.name);
        self.error(Diagnostic::error("E0103", span, message).also(missing.span, "it has no default"));
    }

    /// Whether a value is one of the choices, where that can be seen.
    pub fn choice(&mut self, input: &Input, value: &Expr, known: Known) {
        let Some(Expr { kind: ExprKind::List(choices), .. }) = &input.choices else { return };
        let literal = |expr: &Expr| match &expr.kind {
            ExprKind::Name(name) => Some(name.name.clone()),
            ExprKind::Text(text) => Some(text.clone()),
            ExprKind::Int(value) => Some(value.to_string()),
            _ => None,
        };
        let is_local = matches!(&value.kind, ExprKind::Name(name) if self.scope.get(&name.name).is_some());
        let Some(choices) = choices.iter().map(literal).collect::<Option<Vec<String>>>() else { return };
        let Some(value_text) = literal(value).filter(|_| !is_local && known.nature != Nature::Any) else { return };
        if !choices.contains(&value_text) {
            let message = format!("`{}` is one of {}, not `{value_text}`", input.name.name, choices.join(", "));
            let suggestion = did_you_mean(&value_text, choices.iter().map(String::as_str));
            self.error_with(Diagnostic::error("E0128", value.span, message), suggestion, "");
        }
    }

    /// Whether an argument has as many axes as an input.
    fn rank_of_input(&mut self, function: &Function, input: &Input, known: Known, span: Span) {
        let Some((dims, rank)) = input.dims.as_ref().zip(known.rank) else { return };
        let leading = dims.iter().any(|dim| dim.kind == DimKind::Ellipsis);
        if (leading && rank + 1 < dims.len()) || (!leading && rank != dims.len()) {
            let wanted = dims.len() - usize::from(leading);
            let least = if leading { "at least " } else { "" };
            let message = format!(
                "`{}` of {} has {least}rank {wanted}, but this has rank {rank}",
                input.name.name,
                title(function)
            );
            self.error(Diagnostic::error("E0107", span, message).also(input.span, "the input"));
        }
    }

    /// How many values a callee gives, where that is known.
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

/// The list that a call of a function with hyper-parameters fills: these, unless it is given tensors. None where that
/// cannot be seen.
fn filled(parameters: &[Input], inputs: &[Input], arguments: &[Argument], known: &[Known]) -> Option<List> {
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

/// `name = NAME`, which every layer and model takes with its hyper-parameters.
fn is_instance_name(function: &Function, name: &Ident) -> bool {
    function.kind != FunctionKind::Function && name.name == "name"
}

fn title(function: &Function) -> String {
    match &function.name {
        Some(name) => format!("`{}`", name.name),
        None => "this function".to_string(),
    }
}

/// The name of a callee, or of that whose call it is.
fn text_of(callee: &Expr) -> &str {
    match &callee.kind {
        ExprKind::Name(name) => &name.name,
        ExprKind::Access { tensor, .. } => &tensor.name,
        ExprKind::Call { callee, .. } => text_of(callee),
        _ => "this",
    }
}
