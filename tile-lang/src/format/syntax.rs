//! Builds the layouts of the parts of a program, with minimal parentheses.

use crate::ast::{
    Argument, Attribute, BinaryOp, Constraint, Contraction, Expr, ExprKind, Function, FunctionKind,
    Ident, Input, Sequence, Statement, StatementKind, Weight, WeightShape,
};
use crate::format::layout::Layout;

/// The precedence of unary operators and of atoms; see [`BinaryOp::precedence`].
const UNARY: u8 = 9;
const ATOM: u8 = 10;
/// The loosest precedence allowed before the `<` of a constraint.
const SHIFT: u8 = 6;

/// Builds layouts for the parts of one source text.
pub(super) struct Syntax<'s> {
    pub source: &'s str,
}

/// The context of an expression. In an index, `*` and `/` have no spaces around them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Value,
    Index,
}

impl Syntax<'_> {
    /// Lays out `layer name(parameters)(inputs) -> (outputs)`.
    pub fn header(&self, function: &Function) -> Layout {
        let name = function.name.as_ref().map_or(" ".to_string(), |name| format!(" {name}"));
        if function.kind == FunctionKind::Train {
            return Layout::text(format!("train{name}"));
        }
        let start = format!("{}{name}(", function.kind.keyword());
        let outputs = match function.kind {
            FunctionKind::Optimizer => Layout::text(")"),
            _ => Layout::bracketed(") -> (", names(&function.outputs), ")"),
        };
        // The first list breaks first if the header is too long.
        match &function.parameters {
            None => self.inputs(start, &function.inputs, outputs),
            Some(parameters) => self.inputs(
                start,
                parameters,
                self.inputs(")(".to_string(), &function.inputs, outputs),
            ),
        }
    }

    /// Lays out `open inputs close`.
    fn inputs(&self, open: String, inputs: &[Input], close: Layout) -> Layout {
        let mut inputs = Layout::list(inputs.iter().map(|input| self.input(input)).collect());
        inputs.insert(0, Layout::Break);
        Layout::Group(vec![Layout::text(open), Layout::Nested(inputs), Layout::Break, close])
    }

    fn input(&self, input: &Input) -> Layout {
        let mut parts = vec![Layout::text(input.name.to_string())];
        if let Some(dims) = &input.dims {
            let dims: Vec<String> = dims.iter().map(|dim| dim.kind.to_string()).collect();
            parts.push(Layout::text(format!("[{}]", dims.join(", "))));
        }
        for (word, value) in [(" in ", &input.choices), (" = ", &input.default)] {
            let value = value.iter().flat_map(|value| [Layout::text(word), self.value(value)]);
            parts.extend(value);
        }
        Layout::Joined(parts)
    }

    /// Lays out a statement without a block, with its attributes and its `;`.
    pub fn statement(&self, statement: &Statement) -> Layout {
        let body = match &statement.kind {
            StatementKind::Assign { targets, value } => {
                let targets = Layout::Group(vec![Layout::Nested(names(targets))]);
                Layout::Joined(vec![targets, Layout::text(" = "), self.value(value)])
            }
            StatementKind::Contraction(contraction) => self.contraction(contraction),
            StatementKind::Weight(weight) => self.weight(weight),
            StatementKind::Update { target, value } => {
                Layout::Joined(vec![Layout::text(format!("update {target} = ")), self.value(value)])
            }
            StatementKind::Call(call) => self.value(call),
            StatementKind::Yield { target, value } => {
                Layout::Joined(vec![Layout::text(format!("yield {target} = ")), self.value(value)])
            }
            // A program with errors is not laid out, and the printer handles blocks.
            StatementKind::For { .. }
            | StatementKind::If { .. }
            | StatementKind::Scan { .. }
            | StatementKind::Adapt { .. }
            | StatementKind::Error => Layout::text(""),
        };
        let body = Layout::Joined(vec![body, Layout::text(";")]);
        if statement.attributes.is_empty() {
            return body;
        }
        let attributes =
            statement.attributes.iter().map(|attribute| self.attribute(attribute)).collect();
        Layout::Group(vec![
            Layout::bracketed("[[", Layout::list(attributes), "]]"),
            Layout::Line,
            body,
        ])
    }

    /// Lays out `for x in list`.
    pub fn for_header(&self, variables: &[Ident], list: &Expr) -> Layout {
        let variables = Layout::Group(vec![Layout::Nested(names(variables))]);
        Layout::Joined(vec![
            Layout::text("for "),
            variables,
            Layout::text(" in "),
            self.value(list),
        ])
    }

    /// Lays out `if condition`.
    pub fn if_header(&self, condition: &Expr) -> Layout {
        Layout::Joined(vec![Layout::text("if "), self.value(condition)])
    }

    /// Lays out `scan X in T along axis, …`.
    pub fn scan_header(&self, sequences: &[Sequence]) -> Layout {
        let sequences = sequences.iter().map(|Sequence { variable, tensor, axis }| {
            let (tensor, axis) = (self.value(tensor), self.value(axis));
            Layout::Joined(vec![
                Layout::text(format!("{variable} in ")),
                tensor,
                Layout::text(" along "),
                axis,
            ])
        });
        Layout::Group(vec![
            Layout::text("scan "),
            Layout::Nested(Layout::list(sequences.collect())),
        ])
    }

    /// Lays out a weight without its `;`:
    /// `param name[sizes] = initializer regularizer = … constraint = … if condition else otherwise`
    fn weight(&self, weight: &Weight) -> Layout {
        let Weight {
            kind,
            name,
            shape,
            initializer,
            regularizer,
            constraint,
            condition,
            otherwise,
        } = weight;
        let name = match shape {
            WeightShape::Sizes(sizes) => Layout::bracketed(
                format!("{} {name}[", kind.keyword()),
                self.list(sizes, Within::Value),
                "]",
            ),
            WeightShape::Like(tensor) => Layout::Joined(vec![
                Layout::text(format!("{} {name} like ", kind.keyword())),
                self.value(tensor),
            ]),
        };
        let initializer = Layout::Nested(vec![Layout::Line, self.value(initializer)]);
        let main = Layout::Group(vec![name, Layout::text(" ="), initializer]);
        let mut tail = Vec::new();
        let suffixes = [
            ("regularizer = ", regularizer),
            ("constraint = ", constraint),
            ("if ", condition),
            ("else ", otherwise),
        ];
        for (word, value) in
            suffixes.into_iter().filter_map(|(word, value)| Some((word, value.as_ref()?)))
        {
            tail.extend([Layout::Line, Layout::text(word), self.value(value)]);
        }
        Layout::Group(vec![main, Layout::Nested(tail)])
    }

    fn attribute(&self, attribute: &Attribute) -> Layout {
        if attribute.parameters.is_empty() {
            return Layout::text(attribute.name.to_string());
        }
        let parameters = self.list(&attribute.parameters, Within::Value);
        Layout::bracketed(format!("{}(", attribute.name), parameters, ")")
    }

    fn contraction(&self, contraction: &Contraction) -> Layout {
        let Contraction {
            output,
            indices,
            sizes,
            aggregation,
            rank,
            body,
            constraints,
            default,
            no_defract,
        } = contraction;
        let mut places = vec![Layout::Group(self.list(indices, Within::Index))];
        if !sizes.is_empty() {
            places.extend([
                Layout::text(":"),
                Layout::Line,
                Layout::Group(self.list(sizes, Within::Value)),
            ]);
        }
        let constraints = constraints.iter().map(|Constraint { poly, bound }| {
            let (poly, bound) =
                (self.operand(poly, SHIFT, Within::Index), self.expr(bound, Within::Value));
            Layout::Joined(vec![poly, Layout::text(" < "), bound])
        });
        let constraints: Vec<Layout> = constraints.collect();
        let comma = Layout::text(if constraints.is_empty() { "" } else { "," });
        let mut tail = Layout::list(constraints);
        let mut suffix = |text: String| {
            if !tail.is_empty() {
                tail.push(Layout::Line);
            }
            tail.push(Layout::text(text));
        };
        if let Some(default) = default {
            suffix(format!("default {default}"));
        }
        if *no_defract {
            suffix("no_defract".to_string());
        }
        let rank = rank.as_ref().map(|rank| format!("[{rank}]")).unwrap_or_default();
        let aggregation = format!("{}{rank}(", aggregation.symbol());
        let body = Layout::bracketed(aggregation, vec![self.expr(body, Within::Value)], ")");
        let output = Layout::bracketed(format!("{output}["), places, "]");
        let main = Layout::Group(vec![
            output,
            Layout::text(" ="),
            Layout::Nested(vec![Layout::Line, body]),
        ]);
        if tail.is_empty() {
            return main;
        }
        Layout::Group(vec![main, comma, Layout::Nested(vec![Layout::Line, Layout::Group(tail)])])
    }

    fn list(&self, items: &[Expr], within: Within) -> Vec<Layout> {
        Layout::list(items.iter().map(|item| self.expr(item, within)).collect())
    }

    fn value(&self, expr: &Expr) -> Layout {
        self.expr(expr, Within::Value)
    }

    fn expr(&self, expr: &Expr, within: Within) -> Layout {
        match &expr.kind {
            // Kept as written, since the digits carry information (`1e-3`).
            ExprKind::Float(_) => {
                Layout::text(&self.source[expr.span.start as usize..expr.span.end as usize])
            }
            ExprKind::Access { tensor, indices } => {
                Layout::bracketed(format!("{tensor}["), self.list(indices, Within::Index), "]")
            }
            ExprKind::Call { callee, arguments } => {
                let arguments = arguments.iter().map(|Argument { name, value }| match name {
                    Some(name) => Layout::Joined(vec![
                        Layout::text(format!("{name} = ")),
                        self.expr(value, within),
                    ]),
                    None => self.expr(value, within),
                });
                let arguments = Layout::list(arguments.collect());
                Layout::Joined(vec![
                    self.expr(callee, within),
                    Layout::bracketed("(", arguments, ")"),
                ])
            }
            ExprKind::Pipe { input, callee } => self.pipe(input, callee, within),
            ExprKind::List(items) => Layout::bracketed("[", self.list(items, within), "]"),
            ExprKind::Unary { op, operand } => Layout::Joined(vec![
                Layout::text(op.symbol()),
                self.operand(operand, UNARY, within),
            ]),
            ExprKind::Binary { op, left, right } => self.binary(*op, left, right, within),
            ExprKind::Conditional { condition, then, otherwise } => {
                let part = |sign: &str, expr: &Expr| {
                    Layout::Joined(vec![
                        Layout::Line,
                        Layout::text(sign),
                        self.operand(expr, 1, within),
                    ])
                };
                let mut parts = vec![part("? ", then)];
                parts.extend(otherwise.as_ref().map(|otherwise| part(": ", otherwise)));
                Layout::Group(vec![self.operand(condition, 1, within), Layout::Nested(parts)])
            }
            ExprKind::Int(_)
            | ExprKind::Name(_)
            | ExprKind::Text(_)
            | ExprKind::Ellipsis
            | ExprKind::Error => Layout::text(expr.to_string()),
        }
    }

    /// Lays out a pipeline, `X |> f |> g`, with breaks before each `|>`.
    fn pipe(&self, input: &Expr, callee: &Expr, within: Within) -> Layout {
        let mut callees = vec![callee];
        let mut first = input;
        while let ExprKind::Pipe { input, callee } = &first.kind {
            callees.push(callee);
            first = input;
        }
        let steps = callees.into_iter().rev();
        let steps = steps
            .flat_map(|callee| {
                [Layout::Line, Layout::text("|> "), self.operand(callee, ATOM, within)]
            })
            .collect();
        Layout::Group(vec![self.operand(first, 1, within), Layout::Nested(steps)])
    }

    /// Lays out a chain of operators of one precedence, `a + b - c`, with breaks before each
    /// operator.
    fn binary(&self, op: BinaryOp, left: &Expr, right: &Expr, within: Within) -> Layout {
        let precedence = op.precedence();
        let tight = within == Within::Index && precedence == BinaryOp::Mul.precedence();
        let mut links = vec![(op, right)];
        let mut first = left;
        while let ExprKind::Binary { op, left, right } = &first.kind
            && op.precedence() == precedence
            && !op.is_comparison()
        {
            links.push((*op, right));
            first = left;
        }
        let mut parts = Vec::new();
        for (op, operand) in links.into_iter().rev() {
            let sign = if tight { op.symbol().to_string() } else { format!("{} ", op.symbol()) };
            parts.push(if tight { Layout::Break } else { Layout::Line });
            parts.push(Layout::text(sign));
            parts.push(self.operand(operand, precedence + 1, within));
        }
        let least = if op.is_comparison() { precedence + 1 } else { precedence };
        Layout::Group(vec![self.operand(first, least, within), Layout::Nested(parts)])
    }

    /// Lays out an expression, in parentheses unless it binds at least as tightly as `least`.
    fn operand(&self, expr: &Expr, least: u8, within: Within) -> Layout {
        let precedence = match &expr.kind {
            ExprKind::Pipe { .. } | ExprKind::Conditional { .. } => 0,
            ExprKind::Binary { op, .. } => op.precedence(),
            ExprKind::Unary { .. } => UNARY,
            _ => ATOM,
        };
        let layout = self.expr(expr, within);
        if precedence >= least {
            return layout;
        }
        Layout::Joined(vec![Layout::text("("), layout, Layout::text(")")])
    }
}

fn names(idents: &[Ident]) -> Vec<Layout> {
    Layout::list(idents.iter().map(|ident| Layout::text(ident.to_string())).collect())
}
