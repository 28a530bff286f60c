//! The tensors and sizes that a function has defined so far.

use std::collections::HashMap;

use crate::ast::{DimKind, Function, Ident, StatementKind};
use crate::diagnostic::Diagnostic;
use crate::span::Span;
use crate::suggest::did_you_mean;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Input,
    /// A size of an input.
    Size,
    Statement,
}

/// What is known of a name before shapes are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    pub span: Span,
    pub origin: Origin,
    /// None where it depends on the arguments.
    pub rank: Option<usize>,
    /// Whether it may turn out to be a size: a size of an input, a scalar input, or an expression over such.
    pub may_be_size: bool,
    pub used: bool,
}

pub(super) struct Scope<'f> {
    values: HashMap<&'f str, Value>,
    /// Where the statements of the function define each name, for what is used too early.
    later: HashMap<&'f str, Span>,
    /// False where a statement could not be read, which may have defined any name.
    complete: bool,
}

impl<'f> Scope<'f> {
    /// The inputs of a function and their sizes.
    pub fn new(function: &'f Function, diagnostics: &mut Vec<Diagnostic>) -> Scope<'f> {
        let mut scope = Scope { values: HashMap::new(), later: HashMap::new(), complete: true };
        for input in &function.inputs {
            let ranked = input.dims.as_ref().filter(|dims| dims.iter().all(|dim| dim.kind != DimKind::Ellipsis));
            let value = Value {
                span: input.name.span,
                origin: Origin::Input,
                rank: ranked.map(Vec::len),
                may_be_size: input.dims.as_ref().is_none_or(Vec::is_empty),
                used: false,
            };
            scope.define(&input.name, value, diagnostics);
        }
        for dim in function.inputs.iter().flat_map(|input| input.dims.iter().flatten()) {
            let DimKind::Name(name) = &dim.kind else { continue };
            match scope.values.get(name.as_str()) {
                Some(Value { origin: Origin::Size, .. }) => {}
                Some(other) => diagnostics.push(
                    Diagnostic::error("E0106", dim.span, format!("`{name}` is both an input and a size"))
                        .also(other.span, "the input"),
                ),
                None => {
                    let value =
                        Value { span: dim.span, origin: Origin::Size, rank: Some(0), may_be_size: true, used: true };
                    scope.values.insert(name, value);
                }
            }
        }
        for statement in &function.body {
            match &statement.kind {
                StatementKind::Assign { targets, .. } => scope.later.entry(&targets[0].name).or_insert(targets[0].span),
                StatementKind::Contraction(contraction) => {
                    scope.later.entry(&contraction.output.name).or_insert(contraction.output.span)
                }
                _ => {
                    scope.complete = false;
                    continue;
                }
            };
        }
        scope
    }

    /// Defines a name, if it is fit and free.
    pub fn define(&mut self, name: &'f Ident, value: Value, diagnostics: &mut Vec<Diagnostic>) {
        if !name.capital {
            let capitalised: String = name.name[..1].to_ascii_uppercase() + &name.name[1..];
            let message = format!("`{}` cannot name a tensor, because it starts with a small letter", name.name);
            diagnostics.push(Diagnostic::error("E0115", name.span, message).help(format!("call it `{capitalised}`")));
        }
        let Some(first) = self.values.get(name.name.as_str()) else {
            self.values.insert(&name.name, value);
            return;
        };
        let (code, what, first_text) = match (value.origin, first.origin) {
            (Origin::Input, _) => ("E0106", "is an input twice", "the first one"),
            (_, Origin::Input) => ("E0104", "is assigned, but it is an input", "the input"),
            (_, Origin::Size) => ("E0104", "is assigned, but it is a size", "the size"),
            (_, Origin::Statement) => ("E0104", "is assigned twice", "first assigned here"),
        };
        let error = Diagnostic::error(code, name.span, format!("`{}` {what}", name.name)).also(first.span, first_text);
        diagnostics.push(match value.origin {
            Origin::Statement => error.help("a name keeps its value: give the new one a name of its own"),
            _ => error,
        });
    }

    /// Looks a name up where it is used, and tells of one that is unknown.
    pub fn lookup(&mut self, name: &Ident, diagnostics: &mut Vec<Diagnostic>) -> Option<Value> {
        if let Some(value) = self.values.get_mut(name.name.as_str()) {
            value.used = true;
            return Some(*value);
        }
        if !self.complete {
            return None;
        }
        let error = Diagnostic::error("E0101", name.span, format!("there is no `{}` here", name.name));
        diagnostics.push(match self.later.get(name.name.as_str()) {
            // Its own statement, since what earlier ones define is known.
            Some(later) if later.start < name.span.start => error.help("a value cannot be made from itself"),
            Some(later) => error.also(*later, "it is defined here, later").help("move the definition up"),
            None => match self.suggest(&name.name) {
                Some(help) => error.help(help),
                None => error,
            },
        });
        None
    }

    /// Did-you-mean among the names defined so far.
    pub fn suggest(&self, name: &str) -> Option<String> {
        did_you_mean(name, self.values.keys().copied())
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    pub fn mark_used(&mut self, name: &str) {
        if let Some(value) = self.values.get_mut(name) {
            value.used = true;
        }
    }

    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The inputs and values that nothing looks at.
    pub fn unused(&self) -> impl Iterator<Item = (&'f str, &Value)> {
        self.values.iter().filter(|(_, value)| !value.used).map(|(name, value)| (*name, value))
    }
}
