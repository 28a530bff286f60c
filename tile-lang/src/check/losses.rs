//! Warns of losses and metrics that do not fit the last layer of the model, or each other. Only
//! what is certain is reported: layers and losses of the library, with arguments that are literals.

use crate::ast::{Argument, Expr, ExprKind, Function, Statement, StatementKind};
use crate::check::doubtful::text;
use crate::check::function::Checker;
use crate::check::walk::{definitions, statements};
use crate::diagnostic::Diagnostic;
use crate::span::Span;

/// The function that makes the numbers of an output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// None: a layer without activation.
    Linear,
    Softmax,
    Sigmoid,
    /// An activation of this name, with numbers below 0 or above 1.
    Other(&'static str),
}

/// The activations with numbers below 0 or above 1.
const OTHERS: [&str; 16] = [
    "relu",
    "tanh",
    "relu6",
    "leaky_relu",
    "elu",
    "celu",
    "selu",
    "exponential",
    "gelu",
    "silu",
    "mish",
    "softplus",
    "softsign",
    "ReLU",
    "LeakyReLU",
    "ELU",
];

impl End {
    fn of_activation(name: &str) -> Option<End> {
        Some(match name {
            "linear" | "none" => End::Linear,
            "softmax" => End::Softmax,
            "sigmoid" => End::Sigmoid,
            _ => End::Other(OTHERS.iter().find(|other| **other == name)?),
        })
    }
}

/// Returns the activation before a cross-entropy of the library without `from_logits`.
fn activation_before(loss: &str) -> Option<(End, &'static str)> {
    Some(match loss {
        "BinaryCrossentropy" | "binary_crossentropy" | "BinaryFocalCrossentropy" => {
            (End::Sigmoid, "sigmoid")
        }
        "CategoricalFocalCrossentropy" => (End::Softmax, "softmax"),
        _ if other_targets(loss).is_some() && loss.to_ascii_lowercase().ends_with("entropy") => {
            (End::Softmax, "softmax")
        }
        _ => return None,
    })
}

/// Returns the name of the loss or metric for class numbers if `name` is one for one-hot targets,
/// and the reverse.
fn other_targets(name: &str) -> Option<String> {
    const ONE_HOT: [&str; 6] = [
        "CategoricalAccuracy",
        "CategoricalCrossentropy",
        "TopKCategoricalAccuracy",
        "categorical_accuracy",
        "categorical_crossentropy",
        "top_k_categorical_accuracy",
    ];
    let one_hot = name.strip_prefix("Sparse").or_else(|| name.strip_prefix("sparse_"));
    let is_known = ONE_HOT.contains(&one_hot.unwrap_or(name));
    is_known.then(|| match one_hot {
        Some(one_hot) => one_hot.to_owned(),
        None if name.contains('_') => format!("sparse_{name}"),
        None => format!("Sparse{name}"),
    })
}

fn takes_numbers(name: &str) -> bool {
    name.to_ascii_lowercase().starts_with("sparse")
}

impl<'p> Checker<'p, '_> {
    /// Checks the losses and metrics of a `train` block of `model`.
    pub fn losses(&mut self, model: &'p Function) {
        let outputs = model.outputs.len();
        let body = &self.function.body;
        let losses =
            assigned("loss", body).map_or_else(Vec::new, |(value, _)| each(value, outputs));
        for (number, loss) in losses.into_iter().enumerate() {
            let Some((name, arguments)) = self.library_call(loss, self.function) else { continue };
            let end = model.outputs.get(number).and_then(|output| {
                let (value, before) = assigned(&output.name, &model.body)?;
                Some((output.name.as_str(), self.end_of(value, before, model)?))
            });
            if let Some((output, (end, place))) = end {
                self.logits(loss, (name, arguments), output, end, place);
            }
            for setting in ["metrics", "weighted_metrics"] {
                let Some((value, _)) = assigned(setting, body) else { continue };
                let metrics = match outputs {
                    1 => Some(value),
                    _ => each(value, outputs).get(number).copied(),
                };
                self.targets(loss, name, metrics);
            }
        }
    }

    /// Warns of a loss that expects other numbers than the output has.
    fn logits(
        &mut self,
        loss: &Expr,
        (name, arguments): (&str, &[Argument]),
        output: &str,
        end: End,
        place: Span,
    ) {
        let Some((fitting, activation)) = activation_before(name) else { return };
        let index = self.program.callee_index(name, self.function);
        let parameters =
            index.and_then(|index| self.program.all_functions()[index].parameters.as_ref());
        let position = parameters
            .and_then(|list| list.iter().position(|input| input.name.name == "from_logits"));
        let by_name = |argument: &&Argument| {
            argument.name.as_ref().is_some_and(|name| name.name == "from_logits")
        };
        let by_position = position.and_then(|position| arguments.get(position));
        let given =
            arguments.iter().find(by_name).or(by_position.filter(|given| given.name.is_none()));
        let warning = |message| Diagnostic::warning("W0104", loss.span, message);
        let warning = match given.map_or(Some("false"), |argument| text(&argument.value)) {
            Some("true") if end == fitting => warning(format!(
                "`from_logits = true` is for an output without {activation}, and `{output}` ends with one"
            ))
            .also(place, format!("the {activation}"))
            .help(format!("remove `from_logits = true`, or the {activation}")),
            Some("false") if end == End::Linear => warning(format!(
                "`{name}` expects probabilities, and `{output}` ends without {activation}"
            ))
            .also(place, "it may give any numbers")
            .help(format!(
                "write `from_logits = true` in the loss, or `activation = {activation}` in the last layer"
            )),
            // The losses for several classes divide by the sum.
            Some("false") if let (End::Sigmoid, End::Other(other)) = (fitting, end) => warning(format!(
                "`{name}` expects probabilities, and `{output}` ends with {other}"
            ))
            .also(place, "it gives numbers outside 0 to 1")
            .help(format!("write `activation = {activation}` in the last layer")),
            _ => return,
        };
        self.error(warning);
    }

    /// Warns of metrics that take class numbers if the loss takes one-hot targets, and the reverse.
    fn targets(&mut self, loss: &Expr, name: &str, metrics: Option<&'p Expr>) {
        if other_targets(name).is_none() {
            return;
        }
        let metrics = metrics.map_or_else(Vec::new, |metrics| match &metrics.kind {
            ExprKind::List(items) => items.iter().collect(),
            _ => vec![metrics],
        });
        for metric in metrics {
            let Some((other, _)) = self.library_call(metric, self.function) else { continue };
            let Some(fitting) = other_targets(other) else { continue };
            if takes_numbers(name) == takes_numbers(other) {
                continue;
            }
            let (ours, theirs) = match takes_numbers(other) {
                true => ("class numbers", "one-hot targets"),
                false => ("one-hot targets", "class numbers"),
            };
            let message = format!("`{other}` takes {ours}, and the loss {theirs}");
            let warning = Diagnostic::warning("W0104", metric.span, message);
            let help = match other_targets(name) {
                Some(loss) => {
                    format!("write `{fitting}` here, or `{loss}` in the loss, by the targets")
                }
                None => format!("write `{fitting}`"),
            };
            self.error(warning.also(loss.span, "the loss").help(help));
        }
    }

    /// Returns the definition of the library that an expression names or instantiates, with the
    /// arguments.
    pub fn library_call<'e>(
        &self,
        expr: &'e Expr,
        caller: &Function,
    ) -> Option<(&'p str, &'e [Argument])> {
        let (name, arguments) = match &expr.kind {
            ExprKind::Call { callee, arguments } => (text(callee)?, arguments.as_slice()),
            _ => (text(expr)?, [].as_slice()),
        };
        let function = &self.program.all_functions()[self.program.callee_index(name, caller)?];
        let name = function.name.as_ref().filter(|_| function.span.in_library())?;
        Some((&name.name, arguments))
    }

    /// Returns the last step that made a value, and its place. `before` are the statements before.
    fn end_of<'e>(
        &self,
        value: &'e Expr,
        before: &'e [Statement],
        model: &Function,
    ) -> Option<(End, Span)> {
        match &value.kind {
            ExprKind::Name(name) => {
                let (value, before) = assigned(&name.name, before)?;
                self.end_of(value, before, model)
            }
            ExprKind::Pipe { callee, .. } => self.end_of_layer(callee, before, model),
            ExprKind::Call { callee, .. } => self.end_of_layer(callee, before, model),
            _ => None,
        }
    }

    /// Returns the activation of a layer, and its place. `before` are the statements before.
    pub fn end_of_layer<'e>(
        &self,
        layer: &'e Expr,
        before: &'e [Statement],
        model: &Function,
    ) -> Option<(End, Span)> {
        if let ExprKind::List(layers) = &layer.kind {
            return self.end_of_layer(layers.last()?, before, model);
        }
        if let ExprKind::Name(name) = &layer.kind
            && let Some((instance, before)) = assigned(&name.name, before)
        {
            return self.end_of_layer(instance, before, model);
        }
        let (name, arguments) = self.library_call(layer, model)?;
        let activation = |position: usize| {
            let by_name = |argument: &&Argument| {
                argument.name.as_ref().is_some_and(|name| name.name == "activation")
            };
            let by_position = arguments.get(position).filter(|argument| argument.name.is_none());
            arguments.iter().find(by_name).or(by_position).map(|argument| &argument.value)
        };
        let end = match name {
            "Dense" => {
                activation(1).map_or(Some(End::Linear), |value| End::of_activation(text(value)?))
            }
            "Activation" => End::of_activation(text(activation(0)?)?),
            "Softmax" => Some(End::Softmax),
            _ => End::of_activation(name).filter(|end| *end != End::Linear),
        };
        Some((end?, layer.span))
    }
}

/// Returns the value that the last assignment gives to a name, and the statements before it. `None`
/// if a block or another kind of statement assigns it later.
fn assigned<'s>(name: &str, body: &'s [Statement]) -> Option<(&'s Expr, &'s [Statement])> {
    for (number, statement) in body.iter().enumerate().rev() {
        if let StatementKind::Assign { targets, value } = &statement.kind
            && let [target] = targets.as_slice()
            && target.name == name
        {
            return Some((value, &body[..number]));
        }
        let mut is_defined = false;
        statements(std::slice::from_ref(statement), &mut |inner| {
            is_defined |= definitions(inner).iter().any(|target| target.name == name);
        });
        if is_defined {
            return None;
        }
    }
    None
}

/// Returns the items of a setting for each output: those of a list, or one for all.
fn each(value: &Expr, outputs: usize) -> Vec<&Expr> {
    match &value.kind {
        ExprKind::List(items) if items.len() == outputs => items.iter().collect(),
        ExprKind::List(_) => Vec::new(),
        _ => vec![value; outputs],
    }
}
