//! A function, layer or model: its header, and what of it is not used.

use std::collections::HashSet;

use crate::ast::{DimKind, Function, FunctionKind, Ident, Input};
use crate::check::calls::Calls;
use crate::check::scope::{Known, Nature, Origin, Scope, Value};
use crate::diagnostic::Diagnostic;
use crate::program::Program;

/// Checks `function` and adds what is wrong to `diagnostics`. Unknown functions are passed over unless `all_read`.
pub(super) fn check(
    program: &Program,
    calls: &Calls,
    function: &Function,
    all_read: bool,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let scope = Scope::new(function);
    let mut checker = Checker { program, calls, function, all_read, scope, yields: Vec::new(), diagnostics };
    checker.header();
    checker.statements(&function.body, false);
    checker.outputs();
    checker.training();
    if checker.scope.is_complete() {
        checker.scope.mark_beside_used(&function.body);
        let unused: Vec<(&str, Value)> = checker.scope.unused().map(|(name, value)| (name, *value)).collect();
        unused.into_iter().for_each(|(name, value)| checker.unused(name, value));
    }
}

pub(super) struct Checker<'p, 'd> {
    pub program: &'p Program,
    pub calls: &'p Calls,
    pub function: &'p Function,
    pub all_read: bool,
    pub scope: Scope<'p>,
    /// What the scan that is being checked yields.
    pub yields: Vec<(&'p Ident, Known)>,
    pub diagnostics: &'d mut Vec<Diagnostic>,
}

/// Where a value stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    /// A statement: whole tensors.
    Statement,
    /// The parentheses of a contraction: the scalars at one place.
    Contraction,
}

impl<'p> Checker<'p, '_> {
    pub fn error(&mut self, error: Diagnostic) {
        self.diagnostics.push(error);
    }

    /// An error with what a wrong name could have been, or else with `help`.
    pub fn error_with(&mut self, error: Diagnostic, suggestion: Option<String>, help: &str) {
        self.error(match suggestion {
            Some(suggestion) => error.help(suggestion),
            None if help.is_empty() => error,
            None => error.help(help),
        });
    }

    /// Defines a name that is assigned; one of a tensor starts with a capital.
    pub fn define(&mut self, name: &'p Ident, origin: Origin, known: Known, may_be_size: bool) {
        if !name.capital && (known.nature == Nature::Tensor || origin == Origin::Weight) {
            let message = format!("`{}` cannot name a tensor, because it starts with a small letter", name.name);
            self.error(Diagnostic::error("E0115", name.span, message).help(format!("call it `{}`", capitalised(name))));
        } else if name.capital && matches!(known.nature, Nature::Function { .. } | Nature::Builtin(_)) {
            let message = format!("`{}` starts with a capital, so it names a tensor or a size", name.name);
            let error = Diagnostic::error("E0115", name.span, message).saying("this is a function or layer");
            self.error(error.help(format!("call it `{}`", name.name[..1].to_ascii_lowercase() + &name.name[1..])));
        }
        let value = Value { span: name.span, origin, known, may_be_size, used: false };
        self.scope.define(name, value, self.diagnostics);
    }

    /// Hyper-parameters and inputs, whose defaults may name those before.
    fn header(&mut self) {
        for parameter in self.function.parameters.iter().flatten() {
            if parameter.name.capital {
                let name = &parameter.name;
                let small = name.name[..1].to_ascii_lowercase() + &name.name[1..];
                let message = format!("the hyper-parameter `{}` starts with a capital", name.name);
                let error = Diagnostic::error("E0115", name.span, message);
                self.error(error.help(format!("it is a value known at compile time: call it `{small}`")));
            }
            if parameter.name.name == "name" && self.function.kind != FunctionKind::Function {
                let message = format!("every {} has `name` besides", self.function.kind.keyword());
                self.error(Diagnostic::error("E0106", parameter.name.span, message).help("give this one another name"));
            }
            self.input(parameter, Origin::Parameter);
        }
        for input in &self.function.inputs {
            self.input(input, Origin::Input);
            for dim in input.dims.iter().flatten().skip(1).filter(|dim| dim.kind == DimKind::Ellipsis) {
                self.error(Diagnostic::error("E0113", dim.span, "`...` stands for the first axes, so it comes first"));
            }
        }
    }

    fn input(&mut self, input: &'p Input, origin: Origin) {
        let name = &input.name;
        if let (Some(_), false) = (&input.dims, name.capital) {
            let message = format!("`{}` starts with a small letter, so it is no tensor, and has no sizes", name.name);
            self.error(Diagnostic::error("E0115", name.span, message).help(format!("call it `{}`", capitalised(name))));
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
        let dims = input.dims.as_ref().filter(|dims| dims.iter().all(|dim| dim.kind != DimKind::Ellipsis));
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

    fn size_of_input(&mut self, dim: &'p crate::ast::Dim) {
        let DimKind::Name(name) = &dim.kind else { return };
        let inputs = self.function.parameters.iter().flatten().chain(&self.function.inputs);
        if let Some(input) = inputs.into_iter().find(|input| input.name.name == *name) {
            let error = Diagnostic::error("E0106", dim.span, format!("`{name}` is both an input and a size"));
            self.error(error.also(input.name.span, "the input"));
        } else if self.scope.get(name).is_none() {
            let value =
                Value { span: dim.span, origin: Origin::Size, known: Known::NUMBER, may_be_size: true, used: true };
            self.scope.values.insert(name, value);
        }
    }

    fn outputs(&mut self) {
        let has_outputs = !matches!(self.function.kind, FunctionKind::Optimizer | FunctionKind::Train);
        if has_outputs && self.function.outputs.is_empty() {
            let message = format!("this {} has no output", self.function.kind.keyword());
            self.error(Diagnostic::error("E0105", self.function.span, message));
        }
        let mut seen = HashSet::new();
        for output in &self.function.outputs {
            if !seen.insert(&output.name) {
                self.error(Diagnostic::error("E0106", output.span, format!("`{}` is an output twice", output.name)));
            } else if self.scope.get(&output.name).is_none() && self.scope.is_complete() {
                let error =
                    Diagnostic::error("E0105", output.span, format!("the output `{}` is never assigned", output.name));
                let suggestion = self.scope.suggest(&output.name);
                self.error_with(error, suggestion, "");
            }
            self.scope.mark_used(&output.name);
        }
    }

    /// Warns of a name that nothing looks at.
    pub fn unused(&mut self, name: &str, value: Value) {
        let (code, message) = match value.origin {
            Origin::Input => ("W0101", format!("the input `{name}` is not used")),
            Origin::Parameter => ("W0101", format!("the hyper-parameter `{name}` is not used")),
            Origin::Weight => ("W0102", format!("the weight `{name}` is not used")),
            Origin::Statement => ("W0102", format!("`{name}` is assigned, but not used")),
            Origin::Size | Origin::Variable => return,
        };
        self.diagnostics.push(Diagnostic::warning(code, value.span, message));
    }
}

fn capitalised(name: &Ident) -> String {
    name.name[..1].to_ascii_uppercase() + &name.name[1..]
}
