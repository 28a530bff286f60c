//! Checks arguments of the library whose faults would only show inside it.

use crate::ast::{Argument, Expr, ExprKind, Function, FunctionKind, Input, UnaryOp};
use crate::builtin::{builtin, builtin_names};
use crate::check::arguments::{Given, title};
use crate::check::doubtful::{integer, text};
use crate::check::function::Checker;
use crate::check::scope::CONSTANTS;
use crate::diagnostic::Diagnostic;
use crate::library;
use crate::suggest::listed;

/// A kind of function that hyper-parameters take.
struct Kind {
    /// The end of the names of such hyper-parameters.
    name: &'static str,
    examples: &'static str,
    /// The file of the library that has such functions.
    file: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind { name: "activation", examples: "`relu`, `tanh` or `softmax`", file: "activations.tile" },
    Kind {
        name: "initializer",
        examples: "`glorot_uniform`, `he_normal` or `zeros`",
        file: "initializers.tile",
    },
    Kind { name: "regularizer", examples: "`l1(0.01)` or `l2(0.01)`", file: "regularizers.tile" },
    Kind { name: "constraint", examples: "`max_norm(2)` or `non_neg`", file: "constraints.tile" },
];

/// Factors of moving averages.
const FRACTIONS: [&str; 5] = ["momentum", "ema_momentum", "beta_1", "beta_2", "rho"];

/// The help for `Dense(2, 8)`, as in PyTorch.
const UNITS: &str =
    "write the number of outputs alone, as in `Dense(8)`: the layer finds the number of its inputs";

impl Checker<'_, '_> {
    /// Checks the hyper-parameters of a definition of the library.
    pub fn options(&mut self, given: &Given) {
        if !given.function.span.in_library() {
            return;
        }
        for (input, argument) in given.pairs() {
            let name = input.name.name.as_str();
            if let Some(kind) = KINDS.iter().find(|kind| name.ends_with(kind.name)) {
                self.function_option(given.function, input, argument, kind);
            }
            if given.function.kind == FunctionKind::Optimizer
                && ["lr", "learning_rate"].contains(&name)
            {
                self.learning_rate(given, &argument.value);
            }
            // `Adam(0,5)` has a decimal comma.
            let first = given.arguments.first().and_then(|first| integer(&first.value));
            if FRACTIONS.contains(&name) && first != Some(0) {
                self.fraction(name, &argument.value);
            }
            if ["decay_steps", "first_decay_steps"].contains(&name) {
                self.decay_steps(given, name, &argument.value);
            }
        }
        if let (Some(first), Some(second)) = (given.value("lr"), given.value("learning_rate")) {
            let message = "the learning rate is given twice: `lr` is short for `learning_rate`";
            let error = Diagnostic::error("E0127", second.span, message);
            self.error(error.also(first.span, "first given here").help("remove one of the two"));
        }
    }

    /// Reports a factor of a moving average that makes it grow without end.
    fn fraction(&mut self, name: &str, value: &Expr) {
        let Some(fraction) = number(value).filter(|number| !(0.0..=1.0).contains(number)) else {
            return;
        };
        let message = format!("`{name}` must be from 0 to 1, and is {fraction}");
        let error = Diagnostic::error("E0137", value.span, message);
        self.error(
            error.help(format!("write the share that is kept in a step, as in `{name} = 0.9`")),
        );
    }

    /// Reports a schedule of less than one step, whose arguments are mostly in another order.
    fn decay_steps(&mut self, given: &Given, name: &str, value: &Expr) {
        let Some(steps) = number(value).filter(|steps| *steps < 1.0) else { return };
        let message = format!("`{name}` must be at least 1, and is {steps}");
        let list = given.function.parameters.iter().flatten();
        let required = list.filter(|input| input.default.is_none());
        let names: Vec<&str> = required.map(|input| input.name.name.as_str()).collect();
        let help = format!(
            "the arguments of {} are {}, in this order",
            title(given.function),
            listed(&names)
        );
        self.error(Diagnostic::error("E0137", value.span, message).help(help));
    }

    /// Reports a number or an unknown name in place of a function.
    fn function_option(
        &mut self,
        function: &Function,
        input: &Input,
        argument: &Argument,
        kind: &Kind,
    ) {
        let (value, layer) = (&argument.value, title(function));
        let help = format!("`{}` takes a function, such as {}", input.name.name, kind.examples);
        if let Some(number) = number(value) {
            let name = &input.name.name;
            let message = format!("expected a function for `{name}` of {layer}, found {number}");
            let help = match argument.name.is_none() && layer == "`Dense`" {
                true => UNITS.to_owned(),
                false => help,
            };
            return self.error(Diagnostic::error("E0130", value.span, message).help(help));
        }
        let Some(name) = text(value) else { return };
        let is_known = match &value.kind {
            ExprKind::Name(name) => {
                let is_value = self.scope.get(&name.name).is_some();
                // An unknown capital name was already reported.
                is_value || name.capital || self.callable(name).is_some()
            }
            _ => builtin(name).is_some() || library::names().any(|known| known == name),
        };
        if is_known || CONSTANTS.contains(&name) || !self.all_read || !self.scope.is_complete() {
            return;
        }
        let message = format!("unknown {} `{name}`", kind.name);
        let error = Diagnostic::error("E0102", value.span, message);
        let written = self.program.written_functions().iter();
        let written = written.filter_map(|function| Some(function.name.as_ref()?.name.as_str()));
        let known = library::names_in(kind.file).chain(builtin_names());
        let known = known.map(|name| -> &str { name }).chain(written);
        let suggestion = self.suggestion(name, known);
        self.error_with(error, suggestion, &help);
    }

    /// Reports a learning rate below 0, and warns of 0.
    fn learning_rate(&mut self, given: &Given, value: &Expr) {
        let Some(rate) = number(value) else { return };
        if rate < 0.0 {
            let message = format!("the learning rate must be above 0, and is {rate}");
            let help = format!("write `{}`: a step goes against the gradient by itself", -rate);
            self.error(Diagnostic::error("E0137", value.span, message).help(help));
        } else if rate == 0.0 {
            let next = given.arguments.get(1).and_then(|next| integer(&next.value));
            let help = match next {
                Some(fraction) => format!("write a decimal point, as in `0.{fraction}`"),
                None => "write a small number, as in `0.001`".to_owned(),
            };
            let message = "the learning rate is 0, so training changes no weight";
            self.error(Diagnostic::warning("W0103", value.span, message).help(help));
        }
    }
}

/// Returns the number that an expression spells, with its sign.
fn number(expr: &Expr) -> Option<f64> {
    match &expr.kind {
        ExprKind::Int(value) => Some(*value as f64),
        ExprKind::Float(value) => Some(*value),
        ExprKind::Unary { op: UnaryOp::Neg, operand } => number(operand).map(|value| -value),
        _ => None,
    }
}
