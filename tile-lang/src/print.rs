//! Prints tokens and trees as text, for `--emit tokens` and `--emit ast`. The text of a tree has no
//! layout, so programs with equal text are equal.

use std::fmt::{self, Write};

use crate::ast::{
    Alias, Argument, Contraction, DimKind, Expr, ExprKind, File, Function, Ident, Import, Input,
    Sequence, Statement, StatementKind, UnaryOp, Weight, WeightShape,
};
use crate::lexer::{KEYWORDS, tokenize};

/// Prints one token per line: its line and column, counted from 1, and its text.
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

/// Prints the tree as S-expressions, one statement per line.
pub fn ast_text(file: &File) -> String {
    let imports = file.imports.iter().map(|import| format!("{import}\n"));
    let aliases = file.aliases.iter().map(|alias| format!("{alias}\n"));
    imports
        .chain(aliases)
        .chain(file.functions.iter().map(|function| format!("{function}\n")))
        .collect()
}

impl fmt::Display for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(import \"{}\")", self.path)
    }
}

impl fmt::Display for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(alias {} {})", self.name, self.target)
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}", self.kind.keyword())?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        // An empty list differs from no list.
        if self.parameters.as_ref().is_some_and(Vec::is_empty) {
            f.write_str("\n  (parameters)")?;
        }
        for parameter in self.parameters.iter().flatten() {
            write!(f, "\n  (parameter {parameter})")?;
        }
        for input in &self.inputs {
            write!(f, "\n  (input {input})")?;
        }
        for output in &self.outputs {
            write!(f, "\n  (output {output})")?;
        }
        write!(f, "{})", Block(&self.body))
    }
}

/// Prints the name, dimensions, choices and default.
impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if let Some(dims) = &self.dims {
            let dims: Vec<String> = dims.iter().map(|dim| dim.kind.to_string()).collect();
            write!(f, " [{}]", dims.join(" "))?;
        }
        write_part(f, "in", self.choices.as_ref())?;
        write_part(f, "default", self.default.as_ref())
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
            StatementKind::Assign { targets, value } => {
                write!(f, "(assign{} {value})", Spaced(targets))
            }
            StatementKind::Contraction(contraction) => write!(f, "{contraction}"),
            StatementKind::Weight(weight) => write!(f, "{weight}"),
            StatementKind::Update { target, value } => write!(f, "(update {target} {value})"),
            StatementKind::For { variables, list, body } => {
                write!(f, "(for (variables{}) {list}{})", Spaced(variables), Block(body))
            }
            StatementKind::If { condition, then, otherwise } => {
                write!(f, "(if {condition}{}", Block(then))?;
                if !otherwise.is_empty() {
                    write!(f, "\n  (else{})", Block(otherwise).to_string().replace('\n', "\n  "))?;
                }
                f.write_char(')')
            }
            StatementKind::Scan { sequences, body } => {
                write!(f, "(scan{}{})", Spaced(sequences), Block(body))
            }
            StatementKind::Call(call) => write!(f, "(statement {call})"),
            StatementKind::Adapt { body } => write!(f, "(adapt{})", Block(body)),
            StatementKind::Yield { target, value } => write!(f, "(yield {target} {value})"),
            StatementKind::Error => f.write_str("(error)"),
        }
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Weight {
            kind,
            name,
            shape,
            initializer,
            regularizer,
            constraint,
            condition,
            otherwise,
        } = self;
        match shape {
            WeightShape::Sizes(sizes) => {
                write!(f, "({} {name} (sizes{})", kind.keyword(), Spaced(sizes))?
            }
            WeightShape::Like(tensor) => write!(f, "({} {name} (like {tensor})", kind.keyword())?,
        }
        write!(f, " {initializer}")?;
        write_part(f, "regularizer", regularizer.as_ref())?;
        write_part(f, "constraint", constraint.as_ref())?;
        write_part(f, "if", condition.as_ref())?;
        write_part(f, "else", otherwise.as_ref())?;
        f.write_char(')')
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} {} {})", self.variable, self.tensor, self.axis)
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
        if let Some(rank) = &self.rank {
            write!(f, " (rank {rank})")?;
        }
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
                write!(f, "(call {callee}{})", Spaced(arguments))
            }
            ExprKind::Pipe { input, callee } => write!(f, "(|> {input} {callee})"),
            ExprKind::List(items) => write!(f, "(list{})", Spaced(items)),
            ExprKind::Text(text) => write!(f, "\"{text}\""),
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

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "(= {name} {})", self.value),
            None => write!(f, "{}", self.value),
        }
    }
}

impl fmt::Display for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(f, &self.name, self.capital)
    }
}

/// Writes a name as it must appear in a program. It is quoted if it would be a keyword, belong to
/// the other letter class or start an `if` or `else`.
fn write_name(f: &mut fmt::Formatter<'_>, name: &str, capital: bool) -> fmt::Result {
    let starts_capital = name.starts_with(|c: char| c.is_ascii_uppercase());
    if starts_capital != capital || KEYWORDS.contains(&name) || matches!(name, "if" | "else") {
        f.write_char(if capital { '#' } else { '$' })?;
    }
    f.write_str(name)
}

/// Writes ` (name expr)` if the expression is present.
fn write_part(f: &mut fmt::Formatter<'_>, name: &str, expr: Option<&Expr>) -> fmt::Result {
    expr.map_or(Ok(()), |expr| write!(f, " ({name} {expr})"))
}

/// Prints each item after a space.
struct Spaced<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for Spaced<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|item| write!(f, " {item}"))
    }
}

/// Prints each statement on its own line, indented.
struct Block<'a>(&'a [Statement]);

impl fmt::Display for Block<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|statement| {
            write!(f, "\n  {}", statement.to_string().replace('\n', "\n  "))
        })
    }
}
