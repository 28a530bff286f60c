//! Tokens and trees as text, for `--emit tokens` and `--emit ast`. Neither says anything about layout, so that two
//! programs with the same tree text are the same program.

use std::fmt::{self, Write};

use crate::ast::{
    Contraction, DimKind, Expr, ExprKind, File, Function, Ident, Input, Statement, StatementKind, UnaryOp,
};
use crate::lexer::{KEYWORDS, tokenize};

/// One token a line: its line and column, counted from 1, and its text.
pub fn tokens_text(source: &str) -> String {
    let mut text = String::new();
    let (mut line, mut column, mut seen) = (1, 1, 0);
    for (_, span) in tokenize(source, 0).tokens {
        let (start, end) = (span.start as usize, span.end as usize);
        for character in source[seen..start].chars() {
            (line, column) = if character == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        seen = start;
        text.push_str(&format!("{line}:{column} {}\n", &source[start..end]));
    }
    text
}

/// The tree as S-expressions, a statement a line.
pub fn ast_text(file: &File) -> String {
    file.functions.iter().map(|function| format!("{function}\n")).collect()
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(function")?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        for input in &self.inputs {
            write!(f, "\n  {input}")?;
        }
        for output in &self.outputs {
            write!(f, "\n  (output {output})")?;
        }
        for statement in &self.body {
            write!(f, "\n  {statement}")?;
        }
        f.write_char(')')
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(input {}", self.name)?;
        if let Some(dims) = &self.dims {
            let dims: Vec<String> = dims.iter().map(|dim| dim.kind.to_string()).collect();
            write!(f, " [{}]", dims.join(" "))?;
        }
        f.write_char(')')
    }
}

impl fmt::Display for DimKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DimKind::Name(name) => write_name(f, name, true),
            DimKind::Size(size) => write!(f, "{size}"),
            DimKind::Ellipsis => f.write_str("..."),
        }
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for attribute in &self.attributes {
            write!(f, "(attribute {}{}) ", attribute.name, Spaced(&attribute.parameters))?;
        }
        match &self.kind {
            StatementKind::Assign { targets, value } => write!(f, "(assign {} {value})", targets[0]),
            StatementKind::Contraction(contraction) => write!(f, "{contraction}"),
            _ => f.write_str("(error)"),
        }
    }
}

impl fmt::Display for Contraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "(contraction {} (indices{}) (sizes{}) ({} {})",
            self.output,
            Spaced(&self.indices),
            Spaced(&self.sizes),
            self.aggregation.symbol(),
            self.body
        )?;
        for constraint in &self.constraints {
            write!(f, " (constraint {} {})", constraint.poly, constraint.bound)?;
        }
        if let Some(default) = &self.default {
            write!(f, " (default {default})")?;
        }
        if self.no_defract {
            f.write_str(" no_defract")?;
        }
        f.write_char(')')
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Int(value) => write!(f, "{value}"),
            ExprKind::Float(value) => write!(f, "{value:?}"),
            ExprKind::Name(name) => write!(f, "{name}"),
            ExprKind::Access { tensor, indices } => write!(f, "(at {tensor}{})", Spaced(indices)),
            ExprKind::Call { callee, arguments } => {
                write!(f, "(call {callee}")?;
                for a in arguments {
                    write!(f, " {}", a.value)?;
                }
                f.write_char(')')
            }
            ExprKind::Pipe { input, callee } => write!(f, "(|> {input} {callee})"),
            ExprKind::List(items) => write!(f, "(list{})", Spaced(items)),
            ExprKind::Text(t) => write!(f, "{t:?}"),
            ExprKind::Unary { op: UnaryOp::Neg, operand } => write!(f, "(neg {operand})"),
            ExprKind::Unary { op: UnaryOp::Not, operand } => write!(f, "(not {operand})"),
            ExprKind::Binary { op, left, right } => write!(f, "({} {left} {right})", op.symbol()),
            ExprKind::Conditional { condition, then, otherwise } => {
                write!(f, "(? {condition} {then}")?;
                if let Some(otherwise) = otherwise {
                    write!(f, " {otherwise}")?;
                }
                f.write_char(')')
            }
            ExprKind::Ellipsis => f.write_str("..."),
            ExprKind::Error => f.write_str("(error)"),
        }
    }
}

impl fmt::Display for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(f, &self.name, self.capital)
    }
}

/// A name as a program has it: quoted where it would be a keyword or of the other class.
fn write_name(f: &mut fmt::Formatter<'_>, name: &str, capital: bool) -> fmt::Result {
    let starts_capital = name.starts_with(|c: char| c.is_ascii_uppercase());
    if starts_capital != capital || KEYWORDS.contains(&name) {
        f.write_char(if capital { '#' } else { '$' })?;
    }
    f.write_str(name)
}

struct Spaced<'a>(&'a [Expr]);

impl fmt::Display for Spaced<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|expr| write!(f, " {expr}"))
    }
}
