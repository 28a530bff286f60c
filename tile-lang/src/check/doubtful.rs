//! Warns of valid expressions that are hardly meant as they are written.

use std::collections::HashMap;

use crate::ast::{
    Argument, BinaryOp, Contraction, DimKind, Expr, ExprKind, FunctionKind, Ident, Statement,
    StatementKind, UnaryOp, WeightKind,
};
use crate::check::arguments::Given;
use crate::check::function::Checker;
use crate::check::losses::End;
use crate::check::scope::Origin;
use crate::check::walk::{definitions, expressions, statements, walk};
use crate::diagnostic::Diagnostic;
use crate::span::Span;

/// The most indices of an output that are looked at.
const INDICES: usize = 8;

/// The smallest window that no picture is convolved with in steps of at most [`STRIDE`].
const WINDOW: i64 = 16;
const STRIDE: i64 = 7;

impl Checker<'_, '_> {
    fn doubt(&mut self, span: Span, message: String, help: String) {
        self.error(Diagnostic::warning("W0103", span, message).help(help));
    }

    /// Warns of an operator that gives something else than in other languages.
    pub fn doubtful_operator(&mut self, op: BinaryOp, left: &Expr, right: &Expr) {
        let span = left.span.to(right.span);
        match (op, integer(left), integer(right)) {
            (BinaryOp::Div, Some(a), Some(b)) if a.checked_rem(b).is_some_and(|rest| rest != 0) => {
                let message =
                    format!("`{a} / {b}` is {}: the quotient of two integers is truncated", a / b);
                self.doubt(span, message, format!("write `{a}.0 / {b}` for the fraction"));
            }
            (BinaryOp::Xor, _, Some(2 | 3)) => {
                let message = "`^` is bitwise exclusive or, and not a power".to_owned();
                self.doubt(span, message, "write `X * X`, or `pow(X, 2)`".to_owned());
            }
            _ => {}
        }
    }

    /// Warns of `X + X |> f`, which applies `f` to the sum, and of doubtful activations.
    pub fn doubtful_pipe(&mut self, input: &Expr, callee: &Expr, span: Span) {
        if let ExprKind::Binary { op: BinaryOp::Add, left, right } = &input.kind
            && let (ExprKind::Name(left), ExprKind::Name(right)) = (&left.kind, &right.kind)
            && left.name == right.name
            // Without parentheses around the sum.
            && span.start == input.span.start
        {
            let name = &left.name;
            let message = format!("`|>` is applied to the whole sum `{name} + {name}`");
            let help = format!("write `{name} + ({name} |> …)`, or `2 * {name} |> …` for the sum");
            self.doubt(input.span, message, help);
        }
        if let ExprKind::Pipe { callee: before, .. } = &input.kind {
            self.doubtful_activation(before, callee);
        }
    }

    /// Warns of a softmax of one number, and of a softmax or sigmoid of itself.
    fn doubtful_activation(&mut self, before: &Expr, callee: &Expr) {
        let Some((name, arguments)) = self.library_call(callee, self.function) else { return };
        // Along another axis, a softmax has other numbers.
        let is_along_last = arguments.iter().all(|argument| integer(&argument.value) == Some(-1));
        if name == "Dense" || name != "Activation" && !is_along_last {
            return;
        }
        let Some((end, place)) = self.end_of_layer(callee, &[], self.function) else { return };
        let name = match end {
            End::Softmax => "softmax",
            End::Sigmoid => "sigmoid",
            End::Linear | End::Other(_) => return,
        };
        if let Some((_, first)) =
            self.end_of_layer(before, &[], self.function).filter(|(earlier, _)| *earlier == end)
        {
            let message = format!("a {name} of a {name} has nearly equal numbers");
            let warning = Diagnostic::warning("W0103", place, message);
            let warning = warning.also(first, format!("the first {name}"));
            return self.error(warning.help("remove one of the two"));
        }
        if let (End::Softmax, Some(("Dense", [units, ..]))) =
            (end, self.library_call(before, self.function))
            && is_one(&units.value)
        {
            self.softmax_of_one(place);
        }
    }

    fn softmax_of_one(&mut self, span: Span) {
        let message = "the softmax of one number is always 1".to_owned();
        let help =
            "write `sigmoid` for a yes or no, or give `Dense` as many units as there are classes";
        self.doubt(span, message, help.to_owned());
    }

    /// Warns of a name that two layers of a body are given.
    pub fn same_names(&mut self, body: &[Statement]) {
        let mut places: HashMap<&str, Span> = HashMap::new();
        for expr in body.iter().flat_map(expressions) {
            walk(expr, &mut |part| {
                let Some((name, place)) = self.given_name(part) else { return };
                let Some(first) = places.insert(name, place) else { return };
                let message = format!("two layers are called `{name}`");
                let warning = Diagnostic::warning("W0103", place, message);
                let warning = warning.also(first, "the first one");
                let help = format!(
                    "give each a name of its own: this one is `{name}_1` in files of weights"
                );
                self.diagnostics.push(warning.help(help));
            });
        }
    }

    /// Returns the name that an expression gives to the layer that it makes.
    fn given_name<'e>(&self, expr: &'e Expr) -> Option<(&'e str, Span)> {
        let ExprKind::Call { callee, arguments } = &expr.kind else { return None };
        let index = self.program.callee_index(text(callee)?, self.function)?;
        let kind = self.program.all_functions()[index].kind;
        let is_name = |name: &Ident| name.name == "name";
        let name = arguments.iter().find(|argument| argument.name.as_ref().is_some_and(is_name))?;
        let name = &name.value;
        matches!(kind, FunctionKind::Layer | FunctionKind::Model)
            .then_some((text(name)?, name.span))
            .filter(|(text, _)| self.scope.get(text).is_none())
    }

    /// Warns of `W = W + 1` for a state that nothing updates.
    pub fn unchanged_states(&mut self, body: &[Statement]) {
        let mut updated: Vec<&str> = Vec::new();
        statements(body, &mut |statement| match &statement.kind {
            StatementKind::Update { target, .. } => updated.push(&target.name),
            StatementKind::Adapt { body } => updated.extend(body.iter().flat_map(|statement| {
                definitions(statement).into_iter().map(|target| target.name.as_str())
            })),
            _ => {}
        });
        for statement in body {
            let StatementKind::Weight(weight) = &statement.kind else { continue };
            let name = weight.name.name.as_str();
            if weight.kind != WeightKind::State || updated.contains(&name) {
                continue;
            }
            statements(body, &mut |statement| {
                let StatementKind::Assign { targets, value } = &statement.kind else { return };
                let ExprKind::Binary { left, right, .. } = &value.kind else { return };
                let is_state =
                    |expr: &Expr| matches!(&expr.kind, ExprKind::Name(other) if other.name == name);
                if let [target] = targets.as_slice()
                    && target.name == name
                    && (is_state(left) || is_state(right))
                {
                    let message = format!(
                        "the state `{name}` keeps its value: `=` makes a new one of this name"
                    );
                    let warning = Diagnostic::warning("W0103", statement.span, message);
                    let warning = warning.also(weight.name.span, "the state");
                    let help = format!("write `update {name} = …` for the value in the next step");
                    self.diagnostics.push(warning.help(help));
                }
            });
        }
    }

    /// Warns of arguments of a layer of the library that are hardly meant.
    pub fn doubtful_arguments(&mut self, given: &Given) {
        let name = given.function.name.as_ref().map_or("", |name| name.name.as_str());
        match name {
            _ if !given.function.span.in_library() => {}
            "Dense" => {
                let activation =
                    given.value("activation").filter(|value| text(value) == Some("softmax"));
                if let Some(activation) = activation
                    && given.value("units").is_some_and(is_one)
                {
                    self.softmax_of_one(activation.span);
                }
            }
            "Conv2D" | "Conv3D" => self.channels_first_argument(name, given.arguments),
            _ => {}
        }
    }

    /// Warns of `Conv2D(3, 64, 3)`, where PyTorch has the channels of the input first.
    fn channels_first_argument(&mut self, layer: &str, arguments: &[Argument]) {
        let numbers = arguments.iter().take_while(|argument| argument.name.is_none());
        let numbers: Vec<Option<i64>> = numbers.map(|argument| integer(&argument.value)).collect();
        let [Some(filters), Some(window), Some(strides), ..] = numbers[..] else { return };
        if window < WINDOW || strides > STRIDE {
            return;
        }
        let span = arguments[0].value.span.to(arguments[2].value.span);
        let message = format!(
            "`{layer}` has {filters} filters here, with windows of {window} positions and strides of {strides}"
        );
        let help = format!(
            "the channels of the input are not an argument: write `{layer}({window}, {strides})` for {window} filters with windows of {strides}"
        );
        self.doubt(span, message, help);
    }

    /// Warns of an output whose size is that of another axis than the one that its index runs
    /// along.
    pub fn doubtful_sizes(&mut self, contraction: &Contraction) {
        for (index, size) in contraction.indices.iter().zip(&contraction.sizes).take(INDICES) {
            let (ExprKind::Name(index), ExprKind::Name(size)) = (&index.kind, &size.kind) else {
                continue;
            };
            let is_size =
                self.scope.get(&size.name).is_some_and(|value| value.origin == Origin::Size);
            if !is_size || self.scope.get(&index.name).is_some() {
                continue;
            }
            let Some(axes) = self.axes_along(index, contraction) else { continue };
            let Some(first) = axes.first() else { continue };
            if axes.contains(&size.name) {
                continue;
            }
            let (index, output) = (&index.name, &contraction.output.name);
            let message = format!(
                "`{index}` runs along an axis of size {first}, and `{output}` has the size `{}` there",
                size.name
            );
            let help = format!(
                "write the size {first}; with another one positions are left out, or stay 0"
            );
            self.doubt(size.span, message, help);
        }
    }

    /// Returns the sizes of the axes of inputs that an index variable runs along, as the header
    /// spells them. `None` if it stands anywhere else, so that its range may be narrower.
    fn axes_along(&self, index: &Ident, contraction: &Contraction) -> Option<Vec<String>> {
        let has_index = |expr: &Expr| {
            let mut found = false;
            walk(expr, &mut |part| {
                found |= matches!(&part.kind, ExprKind::Name(name) if name.name == index.name);
            });
            found
        };
        if contraction.constraints.iter().any(|constraint| has_index(&constraint.poly)) {
            return None;
        }
        let mut axes = Some(Vec::new());
        walk(&contraction.body, &mut |expr| {
            let ExprKind::Access { tensor, indices } = &expr.kind else { return };
            for (number, place) in indices.iter().enumerate().filter(|(_, place)| has_index(place))
            {
                let is_alone = matches!(place.kind, ExprKind::Name(_));
                match self.size_of_axis(tensor, number).filter(|_| is_alone) {
                    Some(size) => axes.iter_mut().for_each(|axes| axes.push(size.clone())),
                    None => axes = None,
                }
            }
        });
        axes
    }

    /// Returns the size of an axis of an input, as the header spells it.
    pub fn size_of_axis(&self, tensor: &Ident, axis: usize) -> Option<String> {
        self.scope.get(&tensor.name).filter(|value| value.origin == Origin::Input)?;
        let input = self.function.inputs.iter().find(|input| input.name.name == tensor.name)?;
        let dims = input.dims.as_ref()?;
        if dims.iter().any(|dim| dim.kind == DimKind::Ellipsis) {
            return None;
        }
        match &dims.get(axis)?.kind {
            DimKind::Name(name) => Some(name.clone()),
            DimKind::Size(size) => Some(size.to_string()),
            DimKind::Ellipsis => None,
        }
    }
}

/// Returns the integer that an expression spells, with its sign.
pub(super) fn integer(expr: &Expr) -> Option<i64> {
    match &expr.kind {
        ExprKind::Int(value) => Some(*value),
        ExprKind::Unary { op: UnaryOp::Neg, operand } => integer(operand)?.checked_neg(),
        _ => None,
    }
}

/// Returns the name or text that an expression is.
pub(super) fn text(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Name(name) => Some(&name.name),
        ExprKind::Text(text) => Some(text),
        _ => None,
    }
}

fn is_one(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Int(1))
}
