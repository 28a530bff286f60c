//! The names that a function has defined so far.

use std::collections::{HashMap, HashSet};

use crate::ast::{Function, FunctionKind, Ident, Statement, StatementKind};
use crate::builtin::Builtin;
use crate::check::walk::{definitions, statements};
use crate::diagnostic::Diagnostic;
use crate::span::Span;
use crate::suggest::did_you_mean;

/// The small names that are values of the language, wherever nothing else has the name.
pub const CONSTANTS: [&str; 4] = ["true", "false", "none", "training"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Parameter,
    Input,
    /// A size of an input.
    Size,
    /// Of a loop.
    Variable,
    Weight,
    Statement,
}

/// What an expression gives, as far as that is known before shapes are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Known {
    /// None where it depends on the arguments.
    pub rank: Option<usize>,
    pub nature: Nature,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Nature {
    Any,
    /// One tensor.
    Tensor,
    /// Known at compile time: a number, a list, a name, or something to call that depends on the arguments.
    Value,
    /// The function of that number in the program; `ready` where it takes inputs next, not hyper-parameters.
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

    /// What is known of a name whatever it is assigned.
    fn of_name(capital: bool) -> Known {
        if capital { Known::ANY } else { Known::VALUE }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    /// Where it was last defined.
    pub span: Span,
    pub origin: Origin,
    pub known: Known,
    /// Whether it may turn out to be a size: a size of an input, a value known at compile time, or an expression over such.
    pub may_be_size: bool,
    pub used: bool,
}

/// All that has a name at one place of a function.
pub(super) type Values<'f> = HashMap<&'f str, Value>;

pub(super) struct Scope<'f> {
    pub values: Values<'f>,
    /// Where the statements of the function first define each name, and whether only blocks do, for what is used where
    /// it is not defined.
    elsewhere: HashMap<&'f str, (Span, bool)>,
    /// False where a statement could not be read, which may have defined any name.
    complete: bool,
    /// Whether a name may be assigned again.
    free: bool,
    /// How many loops the statement is in.
    pub loops: usize,
    /// The names that stand for weights.
    pub weights: HashSet<&'f str>,
}

impl<'f> Scope<'f> {
    /// Without the inputs.
    pub fn new(function: &'f Function) -> Scope<'f> {
        let mut scope = Scope {
            values: HashMap::new(),
            elsewhere: HashMap::new(),
            complete: true,
            free: function.kind != FunctionKind::Function,
            loops: 0,
            weights: HashSet::new(),
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

    /// Defines a name, if that is free.
    pub fn define(&mut self, name: &'f Ident, value: Value, diagnostics: &mut Vec<Diagnostic>) {
        if !name.capital && CONSTANTS.contains(&name.name.as_str()) {
            let message = format!("`{}` is a value of the language", name.name);
            diagnostics.push(Diagnostic::error("E0106", name.span, message).help("give this one another name"));
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
        let again = self.free || (self.loops > 0 && matches!(first.origin, Origin::Statement | Origin::Weight));
        let (code, what, first_text) = match (value.origin, first.origin) {
            (Origin::Input | Origin::Parameter, _) => ("E0106", "is an input twice", "the first one"),
            (Origin::Variable, _) => ("E0106", "names the variable of a loop, but has a value", "the other value"),
            (_, Origin::Size) => ("E0104", "is assigned, but it is a size", "the size"),
            _ if again => {
                let used = first.used || value.used;
                self.values.insert(&name.name, Value { used, ..value });
                return;
            }
            (_, Origin::Input) => ("E0104", "is assigned, but it is an input", "the input"),
            (_, Origin::Parameter) => ("E0104", "is assigned, but it is a hyper-parameter", "the hyper-parameter"),
            (_, Origin::Variable) => ("E0104", "is assigned, but it is the variable of a loop", "the variable"),
            (_, Origin::Statement | Origin::Weight) => ("E0104", "is assigned twice", "first assigned here"),
        };
        let error = Diagnostic::error(code, name.span, format!("`{}` {what}", name.name)).also(first.span, first_text);
        diagnostics.push(match code {
            "E0104" => error.help("a name keeps its value: give the new one a name of its own"),
            _ => error,
        });
    }

    /// Looks a name up where it is used, and tells of one that is unknown; `others` are other names that it might be.
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
        let error = Diagnostic::error("E0101", name.span, format!("there is no `{}` here", name.name));
        diagnostics.push(match self.elsewhere.get(name.name.as_str()) {
            Some((later, _)) if name.span.start < later.start => {
                error.also(*later, "it is defined here, later").help("move the definition up")
            }
            Some((block, true)) => error.also(*block, "it is defined here, within a block"),
            // Its own statement, since what earlier ones define is known.
            Some((_, false)) => error.help("a value cannot be made from itself"),
            None => match did_you_mean(&name.name, self.values.keys().copied().chain(others)) {
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

    /// What a statement gives beside something that is used cannot be left out, so it counts as used.
    pub fn mark_beside_used(&mut self, body: &[Statement]) {
        statements(body, &mut |statement| {
            if let StatementKind::Assign { targets, .. } = &statement.kind
                && targets.iter().any(|target| self.get(&target.name).is_some_and(|value| value.used))
            {
                targets.iter().for_each(|target| self.mark_used(&target.name));
            }
        });
    }

    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Keeps of the names that a body assigns only what is true whether or not it has run.
    pub fn forget(&mut self, body: &'f [Statement]) {
        statements(body, &mut |statement| {
            for name in definitions(statement) {
                if let Some(value) = self.values.get_mut(name.name.as_str()) {
                    (value.known, value.may_be_size) = (Known::of_name(name.capital), true);
                }
            }
        });
    }

    /// Goes on from before a branch, which has left `branch`: what it used is used.
    pub fn restart(&mut self, mut before: Values<'f>) -> Values<'f> {
        for (name, value) in &mut before {
            value.used |= self.values.get(name).is_some_and(|after| after.used);
        }
        std::mem::replace(&mut self.values, before)
    }

    /// After two branches: a name is what it is in both.
    pub fn join(&mut self, other: Values<'f>) {
        for (name, theirs) in other {
            let ours = self.values.entry(name).or_insert(theirs);
            ours.used |= theirs.used;
            if ours.known != theirs.known || ours.may_be_size != theirs.may_be_size {
                let capital = [ours.known, theirs.known].iter().any(|known| known.nature != Nature::Value);
                (ours.known, ours.may_be_size) = (Known::of_name(capital), true);
            }
        }
    }

    /// The inputs and values that nothing looks at.
    pub fn unused(&self) -> impl Iterator<Item = (&'f str, &Value)> {
        self.values.iter().filter(|(_, value)| !value.used).map(|(name, value)| (*name, value))
    }
}
