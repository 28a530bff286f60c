//! Checks a definition: its header, its outputs and its unused names.

use std::collections::HashSet;

use crate::ast::{DimKind, Function, FunctionKind, Ident, Input};
use crate::budget::Budget;
use crate::check::calls::Calls;
use crate::check::scope::{Known, Nature, Origin, Scope, Value};
use crate::diagnostic::Diagnostic;
use crate::program::Program;
use crate::span::Span;
use crate::suggest::{SUGGESTIONS, did_you_mean};

/// Checks `function` and adds its diagnostics. Unknown callees are ignored unless `all_read` is
/// true.
pub(super) fn check(
    program: &Program,
    calls: &Calls,
    function: &Function,
    all_read: bool,
    budget: &Budget,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let scope = Scope::new(function);
    let mut checker = Checker {
        program,
        calls,
        function,
        all_read,
        budget,
        stopped: false,
        scope,
        yields: Vec::new(),
        diagnostics,
    };
    checker.header();
    checker.statements(&function.body, false);
    if checker.stopped {
        return;
    }
    checker.outputs();
    checker.same_names(&function.body);
    checker.unchanged_states(&function.body);
    checker.training();
    if checker.scope.is_complete() {
        checker.scope.mark_beside_used(&function.body);
        let unused: Vec<(&str, Value)> =
            checker.scope.unused().map(|(name, value)| (name, *value)).collect();
        unused.into_iter().for_each(|(name, value)| checker.unused(name, value));
    }
}

pub(super) struct Checker<'p, 'd> {
    pub program: &'p Program,
    pub calls: &'p Calls,
    pub function: &'p Function,
    pub all_read: bool,
    pub budget: &'p Budget,
    /// True after the budget was exceeded and the error was reported.
    pub stopped: bool,
    pub scope: Scope<'p>,
    /// The values that the current scan yields.
    pub yields: Vec<(&'p Ident, Known)>,
    pub diagnostics: &'d mut Vec<Diagnostic>,
}

/// The context of an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    /// A statement. Names denote whole tensors.
    Statement,
    /// The body of a contraction. Tensors are accessed element by element.
    Contraction,
}

impl<'p> Checker<'p, '_> {
    pub fn error(&mut self, error: Diagnostic) {
        self.diagnostics.push(error);
    }

    /// Counts work that is about to be done at `span`. Returns false if the check must stop.
    pub fn spend(&mut self, units: usize, span: Span) -> bool {
        if let (Err(exceeded), false) = (self.budget.spend(units as u64), self.stopped) {
            self.stopped = true;
            self.error(exceeded.at(span));
        }
        !self.stopped
    }

    /// Returns a suggestion for a wrong name. Only the first errors of a check get one.
    pub fn suggestion<'a>(
        &self,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Option<String> {
        if self.diagnostics.len() < SUGGESTIONS { did_you_mean(name, known) } else { None }
    }

    /// Reports an error with `suggestion`, or else with `help`.
    pub fn error_with(&mut self, error: Diagnostic, suggestion: Option<String>, help: &str) {
        self.error(match suggestion {
            Some(suggestion) => error.help(suggestion),
            None if help.is_empty() => error,
            None => error.help(help),
        });
    }

    /// Defines a name that is assigned. The name of a tensor must start with a capital letter.
    pub fn define(&mut self, name: &'p Ident, origin: Origin, known: Known, may_be_size: bool) {
        if !name.capital && (known.nature == Nature::Tensor || origin == Origin::Weight) {
            let message =
                format!("`{}` starts with a small letter, so it cannot name a tensor", name.name);
            self.error(
                Diagnostic::error("E0115", name.span, message)
                    .help(format!("call it `{}`", capitalised(name))),
            );
        } else if name.capital
            && matches!(known.nature, Nature::Function { .. } | Nature::Builtin(_))
        {
            let small = name.name[..1].to_ascii_lowercase() + &name.name[1..];
            let message =
                format!("expected a tensor for `{}`, found a function or layer", name.name);
            let error = Diagnostic::error("E0115", name.span, message);
            self.error(
                error.help(format!("apply it to a tensor, as in `X |> …`, or call it `{small}`")),
            );
        }
        let value = Value { span: name.span, origin, known, may_be_size, used: false };
        self.scope.define(name, value, self.diagnostics);
    }

    /// Checks hyper-parameters and inputs. Their defaults may use the names before them.
    fn header(&mut self) {
        for parameter in self.function.parameters.iter().flatten() {
            if parameter.name.capital {
                let name = &parameter.name;
                let small = name.name[..1].to_ascii_lowercase() + &name.name[1..];
                let message = format!("the hyper-parameter `{}` starts with a capital", name.name);
                let error = Diagnostic::error("E0115", name.span, message);
                self.error(
                    error.help(format!("capitals are for tensors and sizes: call it `{small}`")),
                );
            }
            if parameter.name.name == "name" && self.function.kind != FunctionKind::Function {
                let message = format!(
                    "every {} already has a hyper-parameter `name`",
                    self.function.kind.keyword()
                );
                self.error(
                    Diagnostic::error("E0106", parameter.name.span, message)
                        .help("give this one another name"),
                );
            }
            self.input(parameter, Origin::Parameter);
        }
        if self.function.kind == FunctionKind::Train {
            self.inputs_of_model();
        }
        for input in &self.function.inputs {
            self.input(input, Origin::Input);
            for dim in
                input.dims.iter().flatten().skip(1).filter(|dim| dim.kind == DimKind::Ellipsis)
            {
                self.error(Diagnostic::error(
                    "E0113",
                    dim.span,
                    "`...` stands for the first axes, so it comes first",
                ));
            }
        }
    }

    fn input(&mut self, input: &'p Input, origin: Origin) {
        let name = &input.name;
        if let (Some(_), false) = (&input.dims, name.capital) {
            let message = format!(
                "`{}` starts with a small letter, so it cannot be a tensor with sizes",
                name.name
            );
            self.error(
                Diagnostic::error("E0115", name.span, message)
                    .help(format!("call it `{}`", capitalised(name))),
            );
        }
        if let Some(choices) = &input.choices {
            self.open(choices, Within::Statement);
        }
        match &input.default {
            Some(default) if name.capital => {
                self.value(default, Within::Statement);
            }
            Some(default) => {
                let known = self.open(default, Within::Statement);
                self.choice(input, default, known);
            }
            None => {}
        }
        let dims =
            input.dims.as_ref().filter(|dims| dims.iter().all(|dim| dim.kind != DimKind::Ellipsis));
        let nature = match name.capital {
            false => Nature::Value,
            true if input.dims.is_some() && input.default.is_none() => Nature::Tensor,
            true => Nature::Any,
        };
        let known = Known { rank: dims.map(Vec::len), nature };
        let may_be_size = input.dims.as_ref().is_none_or(Vec::is_empty);
        let value = Value { span: name.span, origin, known, may_be_size, used: false };
        self.scope.define(name, value, self.diagnostics);
        for dim in input.dims.iter().flatten() {
            self.size_of_input(dim);
        }
    }

    /// Defines the inputs of the model of a `train` block, which its `targets` may name.
    fn inputs_of_model(&mut self) {
        let Some(name) = &self.function.name else { return };
        let Some(model) = self.program.callee_index(&name.name, self.function) else { return };
        for input in &self.program.all_functions()[model].inputs {
            let (span, origin) = (input.name.span, Origin::Input);
            let value = Value { span, origin, known: Known::VALUE, may_be_size: false, used: true };
            self.scope.values.insert(&input.name.name, value);
        }
    }

    fn size_of_input(&mut self, dim: &'p crate::ast::Dim) {
        let DimKind::Name(name) = &dim.kind else { return };
        self.spend(self.function.inputs.len() / 8, dim.span);
        let inputs = self.function.parameters.iter().flatten().chain(&self.function.inputs);
        if let Some(input) = inputs.into_iter().find(|input| input.name.name == *name) {
            let error = Diagnostic::error(
                "E0106",
                dim.span,
                format!("`{name}` is both an input and a size"),
            );
            self.error(error.also(input.name.span, "the input"));
        } else if self.scope.get(name).is_none() {
            let value = Value {
                span: dim.span,
                origin: Origin::Size,
                known: Known::NUMBER,
                may_be_size: true,
                used: false,
            };
            self.scope.values.insert(name, value);
        }
    }

    /// Returns whether an input gives a size that is used, and that no input that is used gives.
    fn gives_size(&self, name: &str) -> bool {
        let is_used = |name: &str| self.scope.get(name).is_some_and(|value| value.used);
        let has = |input: &Input, size: &str| {
            let mut dims = input.dims.iter().flatten();
            dims.any(|dim| matches!(&dim.kind, DimKind::Name(name) if name == size))
        };
        let inputs = &self.function.inputs;
        let sizes = inputs.iter().filter(|input| input.name.name == name);
        sizes.flat_map(|input| input.dims.iter().flatten()).any(|dim| {
            let DimKind::Name(size) = &dim.kind else { return false };
            let is_given = |input: &Input| is_used(&input.name.name) && has(input, size);
            is_used(size) && !inputs.iter().any(is_given)
        })
    }

    fn outputs(&mut self) {
        let has_outputs =
            !matches!(self.function.kind, FunctionKind::Optimizer | FunctionKind::Train);
        if has_outputs && self.function.outputs.is_empty() {
            let message = format!("this {} has no output", self.function.kind.keyword());
            self.error(Diagnostic::error("E0105", self.function.span, message));
        }
        let mut seen = HashSet::new();
        for output in &self.function.outputs {
            if !seen.insert(&output.name) {
                self.error(Diagnostic::error(
                    "E0106",
                    output.span,
                    format!("`{}` is an output twice", output.name),
                ));
            } else if self.scope.get(&output.name).is_none() && self.scope.is_complete() {
                let error = Diagnostic::error(
                    "E0105",
                    output.span,
                    format!("the output `{}` is never assigned", output.name),
                );
                let suggestion = self.suggestion(&output.name, self.scope.values.keys().copied());
                self.error_with(
                    error,
                    suggestion,
                    &format!("assign it, as in `{} = …;`", output.name),
                );
            }
            self.scope.mark_used(&output.name);
        }
    }

    /// Warns of an unused name. A loss or metric need not use its target.
    pub fn unused(&mut self, name: &str, value: Value) {
        let takes_target = matches!(self.function.kind, FunctionKind::Loss | FunctionKind::Metric);
        let is_target = takes_target
            && self.function.inputs.get(1).is_some_and(|target| target.name.name == name);
        let (code, message) = match value.origin {
            Origin::Input if is_target || self.gives_size(name) => return,
            Origin::Input => ("W0101", format!("unused input `{name}`")),
            Origin::Parameter => ("W0101", format!("unused hyper-parameter `{name}`")),
            Origin::Weight => ("W0102", format!("unused weight `{name}`")),
            Origin::Statement => ("W0102", format!("unused value `{name}`")),
            Origin::Size | Origin::Variable => return,
        };
        self.diagnostics.push(Diagnostic::warning(code, value.span, message));
    }
}

fn capitalised(name: &Ident) -> String {
    name.name[..1].to_ascii_uppercase() + &name.name[1..]
}
