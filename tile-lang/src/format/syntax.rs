//! The parts of a program as layouts, with no more parentheses than they need.

use crate::ast::{Attribute, BinaryOp, Constraint, Contraction, Expr, ExprKind, Function, Statement, StatementKind};
use crate::format::layout::Layout;

/// How tightly unary operators bind; see [`BinaryOp::precedence`].
const UNARY: u8 = 9;
/// The loosest that may stand before the `<` of a constraint.
const SHIFT: u8 = 6;

/// Makes layouts for the parts of one source text.
pub(super) struct Syntax<'s> {
    pub source: &'s str,
}

/// Where an expression stands: in an index, `*` and `/` are written without spaces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Value,
    Index,
}

impl Syntax<'_> {
    /// `function name(inputs) -> (outputs)`
    pub fn header(&self, function: &Function) -> Layout {
        let name = function.name.as_ref().map_or(" ".to_string(), |name| format!(" {name}"));
        let inputs = function.inputs.iter().map(|input| {
            let Some(dims) = &input.dims else { return Layout::text(input.name.to_string()) };
            let dims: Vec<String> = dims.iter().map(|dim| dim.kind.to_string()).collect();
            Layout::text(format!("{}[{}]", input.name, dims.join(", ")))
        });
        let mut inputs = Layout::list(inputs.collect());
        inputs.insert(0, Layout::Break);
        let outputs = function.outputs.iter().map(|output| Layout::text(output.to_string())).collect();
        // Where it is too long, the inputs are what breaks first.
        Layout::Group(vec![
            Layout::text(format!("function{name}(")),
            Layout::Nested(inputs),
            Layout::Break,
            Layout::bracketed(") -> (", Layout::list(outputs), ")"),
        ])
    }

    /// With its attributes and its `;`.
    pub fn statement(&self, statement: &Statement) -> Layout {
        let body = match &statement.kind {
            StatementKind::Assign { targets, value } => {
                let target = &targets[0];
                Layout::Joined(vec![Layout::text(format!("{target} = ")), self.expr(value, Within::Value)])
            }
            StatementKind::Contraction(contraction) => self.contraction(contraction),
            _ => Layout::text(""),
        };
        let body = Layout::Joined(vec![body, Layout::text(";")]);
        if statement.attributes.is_empty() {
            return body;
        }
        let attributes = statement.attributes.iter().map(|attribute| self.attribute(attribute)).collect();
        Layout::Group(vec![Layout::bracketed("[[", Layout::list(attributes), "]]"), Layout::Line, body])
    }

    fn attribute(&self, attribute: &Attribute) -> Layout {
        if attribute.parameters.is_empty() {
            return Layout::text(attribute.name.to_string());
        }
        let parameters = self.list(&attribute.parameters, Within::Value);
        Layout::bracketed(format!("{}(", attribute.name), parameters, ")")
    }

    fn contraction(&self, contraction: &Contraction) -> Layout {
        let Contraction { output, indices, sizes, aggregation, body, constraints, default, no_defract } = contraction;
        let mut places = vec![Layout::Group(self.list(indices, Within::Index))];
        if !sizes.is_empty() {
            places.extend([Layout::text(":"), Layout::Line, Layout::Group(self.list(sizes, Within::Value))]);
        }
        let constraints = constraints.iter().map(|Constraint { poly, bound }| {
            let (poly, bound) = (self.operand(poly, SHIFT, Within::Index), self.expr(bound, Within::Value));
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
        let aggregation = format!("{}(", aggregation.symbol());
        let body = Layout::bracketed(aggregation, vec![self.expr(body, Within::Value)], ")");
        let output = Layout::bracketed(format!("{output}["), places, "]");
        let main = Layout::Group(vec![output, Layout::text(" ="), Layout::Nested(vec![Layout::Line, body])]);
        if tail.is_empty() {
            return main;
        }
        Layout::Group(vec![main, comma, Layout::Nested(vec![Layout::Line, Layout::Group(tail)])])
    }

    fn list(&self, items: &[Expr], within: Within) -> Vec<Layout> {
        Layout::list(items.iter().map(|item| self.expr(item, within)).collect())
    }

    fn expr(&self, expr: &Expr, within: Within) -> Layout {
        match &expr.kind {
            // As written, since digits say more than the value does (`1e-3`).
            ExprKind::Float(_) => Layout::text(&self.source[expr.span.start as usize..expr.span.end as usize]),
            ExprKind::Access { tensor, indices } => {
                Layout::bracketed(format!("{tensor}["), self.list(indices, Within::Index), "]")
            }
            ExprKind::Call { callee, arguments } => {
                let a: Vec<Expr> = arguments.iter().map(|a| a.value.clone()).collect();
                Layout::bracketed(format!("{callee}("), self.list(&a, within), ")")
            }
            ExprKind::Unary { op, operand } => {
                Layout::Joined(vec![Layout::text(op.symbol()), self.operand(operand, UNARY, within)])
            }
            ExprKind::Binary { op, left, right } => self.binary(*op, left, right, within),
            ExprKind::Conditional { condition, then, otherwise } => {
                let part = |sign: &str, expr: &Expr| {
                    Layout::Joined(vec![Layout::Line, Layout::text(sign), self.operand(expr, 1, within)])
                };
                let mut parts = vec![part("? ", then)];
                parts.extend(otherwise.as_ref().map(|otherwise| part(": ", otherwise)));
                Layout::Group(vec![self.operand(condition, 1, within), Layout::Nested(parts)])
            }
            _ => Layout::text(expr.to_string()),
        }
    }

    /// A chain of operators of one precedence, `a + b - c`, breaks before each of them.
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

    /// An expression in parentheses unless it binds at least as tightly as `least`.
    fn operand(&self, expr: &Expr, least: u8, within: Within) -> Layout {
        let precedence = match &expr.kind {
            ExprKind::Conditional { .. } => 0,
            ExprKind::Binary { op, .. } => op.precedence(),
            _ => UNARY,
        };
        let layout = self.expr(expr, within);
        if precedence >= least {
            return layout;
        }
        Layout::Joined(vec![Layout::text("("), layout, Layout::text(")")])
    }
}
