//! The names that a function has defined so far.

use std::collections::{HashMap, HashSet};

use crate::ast::{Function, FunctionKind, Ident, Statement, StatementKind};
use crate::builtin::Builtin;
use crate::check::walk::{definitions, statements};
use crate::diagnostic::Diagnostic;
use crate::foreign::{constant_help, name_help};
use crate::span::Span;
use crate::suggest::{SUGGESTIONS, did_you_mean};

/// The small names that denote values of the language, unless something else has the name.
pub const CONSTANTS: [&str; 4] = ["true", "false", "none", "training"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Parameter,
    Input,
    /// The size of an input.
    Size,
    /// The variable of a loop.
    Variable,
    Weight,
    Statement,
}

/// The static knowledge about a value before shapes are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Known {
    /// The rank, or `None` if it depends on the arguments.
    pub rank: Option<usize>,
    pub nature: Nature,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Nature {
    Any,
    /// A single tensor.
    Tensor,
    /// A value known at compile time: a number, a list, a symbol, or a callable that depends on the
    /// arguments.
    Value,
    /// The function with this index in the program. `ready` is true if it takes inputs next, and
    /// false if it takes hyper-parameters.
    Function {
        index: usize,
        ready: bool,
    },
    Builtin(Builtin),
}

impl Known {
    pub const ANY: Known = Known { rank: None, nature: Nature::Any };
    pub const VALUE: Known = Known { rank: None, nature: Nature::Value };
    pub const NUMBER: Known = Known { rank: Some(0), nature: Nature::Value };

    pub fn tensor(rank: Option<usize>) -> Known {
        Known { rank, nature: Nature::Tensor }
    }

    /// Returns the knowledge about a name that may be assigned anything.
    fn of_name(capital: bool) -> Known {
        if capital { Known::ANY } else { Known::VALUE }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    /// The place of the latest definition.
    pub span: Span,
    pub origin: Origin,
    pub known: Known,
    /// True if it may turn out to be a size: a size of an input, a value known at compile time, or
    /// an expression over these.
    pub may_be_size: bool,
    pub used: bool,
}

/// The named values at one point of a function.
pub(super) type Values<'f> = HashMap<&'f str, Value>;

pub(super) struct Scope<'f> {
    pub values: Values<'f>,
    /// The first definition of each name in the function, and true if only blocks define it. Used
    /// for errors about undefined names.
    elsewhere: HashMap<&'f str, (Span, bool)>,
    /// False if some statement could not be read. That statement may have defined any name.
    complete: bool,
    /// True if a name may be assigned again.
    free: bool,
    /// The number of loops around the current statement.
    pub loops: usize,
    /// The names that currently denote weights.
    pub weights: HashSet<&'f str>,
    /// The unknown names that were reported.
    unknown: HashSet<String>,
}

impl<'f> Scope<'f> {
    /// Creates the scope of a function, without its inputs.
    pub fn new(function: &'f Function) -> Scope<'f> {
        let mut scope = Scope {
            values: HashMap::new(),
            elsewhere: HashMap::new(),
            complete: true,
            free: function.kind != FunctionKind::Function,
            loops: 0,
            weights: HashSet::new(),
            unknown: HashSet::new(),
        };
        for name in function.body.iter().flat_map(definitions) {
            scope.elsewhere.entry(&name.name).or_insert((name.span, false));
        }
        statements(&function.body, &mut |statement| {
            scope.complete &= statement.kind != StatementKind::Error;
            for name in definitions(statement) {
                scope.elsewhere.entry(&name.name).or_insert((name.span, true));
            }
        });
        scope
    }

    /// Defines a name, or reports that it is taken.
    pub fn define(&mut self, name: &'f Ident, value: Value, diagnostics: &mut Vec<Diagnostic>) {
        if !name.capital && CONSTANTS.contains(&name.name.as_str()) {
            let message = format!("`{}` is a constant of the language", name.name);
            diagnostics.push(
                Diagnostic::error("E0106", name.span, message).help("give this one another name"),
            );
        }
        if value.origin == Origin::Weight {
            self.weights.insert(&name.name);
        } else {
            self.weights.remove(name.name.as_str());
        }
        let Some(first) = self.values.get(name.name.as_str()) else {
            self.values.insert(&name.name, value);
            return;
        };
        let again = self.free
            || (self.loops > 0 && matches!(first.origin, Origin::Statement | Origin::Weight));
        let (code, what, first_text) = match (value.origin, first.origin) {
            (Origin::Input | Origin::Parameter, _) => {
                ("E0106", "is an input twice", "the first one")
            }
            (Origin::Variable, _) => (
                "E0106",
                "is defined already, so it cannot be the variable of a loop",
                "the other value",
            ),
            (_, Origin::Size) => ("E0104", "is assigned, but it is a size", "the size"),
            _ if again => {
                let used = first.used || value.used;
                self.values.insert(&name.name, Value { used, ..value });
                return;
            }
            (_, Origin::Input) => ("E0104", "is assigned, but it is an input", "the input"),
            (_, Origin::Parameter) => {
                ("E0104", "is assigned, but it is a hyper-parameter", "the hyper-parameter")
            }
            (_, Origin::Variable) => {
                ("E0104", "is assigned, but it is the variable of a loop", "the variable")
            }
            (_, Origin::Statement | Origin::Weight) => {
                ("E0104", "is assigned twice", "first assigned here")
            }
        };
        let error = Diagnostic::error(code, name.span, format!("`{}` {what}", name.name))
            .also(first.span, first_text);
        diagnostics.push(match code {
            "E0104" => error.help("give the new value another name"),
            _ => error,
        });
    }

    /// Looks up a name at a use. Reports an unknown one, with a suggestion from the scope or
    /// `others`.
    pub fn lookup(
        &mut self,
        name: &Ident,
        others: impl Iterator<Item = &'f str>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Value> {
        if let Some(value) = self.values.get_mut(name.name.as_str()) {
            value.used = true;
            return Some(*value);
        }
        if !self.complete {
            return None;
        }
        if !self.is_new_unknown(&name.name) {
            return None;
        }
        let error = Diagnostic::error("E0101", name.span, format!("unknown name `{}`", name.name));
        diagnostics.push(match self.elsewhere.get(name.name.as_str()) {
            Some((later, _)) if name.span.start < later.start => {
                error.also(*later, "defined here, after its use").help("move the definition up")
            }
            Some((block, true)) => error.also(*block, "defined here, inside a block"),
            // Names that earlier statements define are in the scope, so the name is used in its own
            // statement.
            Some((_, false)) => error.help("a value cannot depend on itself"),
            None if diagnostics.len() >= SUGGESTIONS => error,
            None => {
                let known = self.values.keys().copied().chain(others);
                let of_others = || name_help(&name.name).map(str::to_owned);
                let help = constant_help(&name.name).or_else(of_others);
                match help.or_else(|| did_you_mean(&name.name, known)) {
                    Some(help) => error.help(help),
                    None => error,
                }
            }
        });
        None
    }

    /// Returns the place of a name's first definition if it comes after `span`.
    pub fn defined_after(&self, name: &str, span: Span) -> Option<Span> {
        self.elsewhere.get(name).map(|(later, _)| *later).filter(|later| span.start < later.start)
    }

    /// Marks an unknown name as reported. Returns whether it was not: further uses of the name
    /// would repeat the error.
    pub fn is_new_unknown(&mut self, name: &str) -> bool {
        self.unknown.insert(name.to_owned())
    }

    /// Returns whether some statement of the function defines a name, or has defined it.
    pub fn is_defined(&self, name: &str) -> bool {
        self.values.contains_key(name) || self.elsewhere.contains_key(name)
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    pub fn mark_used(&mut self, name: &str) {
        if let Some(value) = self.values.get_mut(name) {
            value.used = true;
        }
    }

    /// Marks all targets of an assignment as used if one of them is used. The unused ones cannot be
    /// left out.
    pub fn mark_beside_used(&mut self, body: &[Statement]) {
        statements(body, &mut |statement| {
            if let StatementKind::Assign { targets, .. } = &statement.kind
                && targets
                    .iter()
                    .any(|target| self.get(&target.name).is_some_and(|value| value.used))
            {
                targets.iter().for_each(|target| self.mark_used(&target.name));
            }
        });
    }

    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Keeps only what is true of the names assigned in a body whether or not the body has run.
    /// Returns the number of statements in the body.
    pub fn forget(&mut self, body: &'f [Statement]) -> usize {
        let mut count = 0;
        statements(body, &mut |statement| {
            count += 1;
            for name in definitions(statement) {
                if let Some(value) = self.values.get_mut(name.name.as_str()) {
                    (value.known, value.may_be_size) = (Known::of_name(name.capital), true);
                }
            }
        });
        count
    }

    /// Restores the scope from before a branch. Returns the scope at the end of the branch. Names
    /// used in the branch stay marked as used.
    pub fn restart(&mut self, mut before: Values<'f>) -> Values<'f> {
        for (name, value) in &mut before {
            value.used |= self.values.get(name).is_some_and(|after| after.used);
        }
        std::mem::replace(&mut self.values, before)
    }

    /// Joins the scopes of two branches. A name keeps the knowledge that both branches share.
    pub fn join(&mut self, other: Values<'f>) {
        for (name, theirs) in other {
            let ours = self.values.entry(name).or_insert(theirs);
            ours.used |= theirs.used;
            if ours.known != theirs.known || ours.may_be_size != theirs.may_be_size {
                let capital =
                    [ours.known, theirs.known].iter().any(|known| known.nature != Nature::Value);
                (ours.known, ours.may_be_size) = (Known::of_name(capital), true);
            }
        }
    }

    /// Returns the inputs and values that are never used.
    pub fn unused(&self) -> impl Iterator<Item = (&'f str, &Value)> {
        self.values.iter().filter(|(_, value)| !value.used).map(|(name, value)| (*name, value))
    }
}
