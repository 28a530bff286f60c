//! Parses tokens into a syntax tree. Reports an error for each broken statement and definition.

use lalrpop_util::ParseError;
use lalrpop_util::lalrpop_mod;

use crate::ast::{
    Aggregation, Alias, Argument, BinaryOp, Expr, ExprKind, File, Function, FunctionKind, Ident,
    Import, Input, MAX_BLOCKS, MAX_DEPTH, Statement, UnaryOp,
};
use crate::budget::{Budget, Limits};
use crate::diagnostic::Diagnostic;
use crate::foreign;
use crate::lexer::{Token, UNTERMINATED, tokenize};
use crate::span::{LIBRARY_BASE, Span};
use crate::suggest::did_you_mean;

mod braces;
mod complaint;

use complaint::{Complaint, statement_of};

lalrpop_mod!(
    #[allow(clippy::all, dead_code, unused_imports)]
    grammar
);

/// The result of parsing a file. There is always a tree. It lacks the definitions and statements
/// that `diagnostics` reports.
pub struct Parsed {
    /// The tree.
    pub file: File,
    /// The errors, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// The comments in order, each from its `//` up to the end of its line.
    pub comments: Vec<Span>,
}

/// Parses a file within the limits of [`Limits::default`].
///
/// ```
/// let parsed = tile_lang::parse("function f(X[N]) -> (Y) { Y = 2 * X; }");
/// assert_eq!(parsed.file.functions[0].outputs[0].name, "Y");
/// ```
pub fn parse(source: &str) -> Parsed {
    parse_at(source, 0, &Budget::new(Limits::default()))
}

/// The units of work and the bytes of the tree for each token.
const TOKEN_UNITS: u64 = 4;
const TOKEN_BYTES: u64 = 128;
/// The units of work for each error.
const ERROR_UNITS: u64 = 60;

/// Parses a text whose first byte is at position `base`.
pub(crate) fn parse_at(source: &str, base: u32, budget: &Budget) -> Parsed {
    if source.len() >= LIBRARY_BASE as usize {
        let error = Diagnostic::error("E0006", Span::default(), "this file is too long")
            .help("the files of a program must be shorter than 2 GiB, together");
        return Parsed { file: File::default(), diagnostics: vec![error], comments: Vec::new() };
    }
    let start = Span::new(base, base);
    let stopped = |diagnostic| Parsed {
        file: File::default(),
        diagnostics: vec![diagnostic],
        comments: Vec::new(),
    };
    if let Err(exceeded) = budget.spend(source.len() as u64 / 8) {
        return stopped(exceeded.at(start));
    }
    let lexed = tokenize(source, base);
    let tokens = lexed.tokens.len() as u64;
    let counted =
        budget.take_bytes(TOKEN_BYTES * tokens).and_then(|()| budget.spend(TOKEN_UNITS * tokens));
    if let Err(exceeded) = counted {
        return stopped(exceeded.at(start));
    }
    let mut diagnostics = lexed.diagnostics;
    let place = |error: &Diagnostic| error.labels.first().map(|label| label.span);
    let places = diagnostics.iter().filter_map(place).collect();
    if let Some(place) = too_many_blocks(&lexed.tokens) {
        let message = format!("expected at most {MAX_BLOCKS} nested blocks");
        diagnostics.push(Diagnostic::error("E0004", place, message));
        return Parsed { file: File::default(), diagnostics, comments: lexed.comments };
    }
    // A text without an end takes the braces of its line.
    let is_in_text = |error: &Diagnostic| {
        let place = error.labels.first().map(|label| label.span.of(source, base));
        error.message == UNTERMINATED && place.is_some_and(|text| text.contains(['{', '}']))
    };
    let mut of_braces = Vec::new();
    let tokens = mark_aliases(braces::balance(source, base, lexed.tokens, &mut of_braces));
    if !diagnostics.iter().any(is_in_text) {
        diagnostics.extend(of_braces);
    }
    let mut context = Context {
        source,
        base,
        tokens: &tokens,
        budget,
        diagnostics,
        deep_reported: false,
        lexed: places,
        last_error: None,
    };
    let located = tokens.iter().map(|(token, span)| Ok((span.start, *token, span.end)));
    let items = match grammar::ItemsParser::new().parse(&mut context, located) {
        Ok(items) => items,
        Err(error) => {
            context.syntax_error(error);
            Vec::new()
        }
    };
    let mut diagnostics = context.diagnostics;
    if let (false, Some(place)) = (diagnostics.is_empty(), foreign::python(source)) {
        let place = Span::new(base + place.start as u32, base + place.end as u32);
        diagnostics = vec![foreign::python_error(source, place)];
    }
    diagnostics.sort_by_key(|diagnostic| diagnostic.labels.first().map(|label| label.span));
    let mut file = File::default();
    for item in items {
        match item {
            Item::Import(import) => file.imports.push(import),
            Item::Alias(alias) => file.aliases.push(alias),
            Item::Function(function) => file.functions.push(function),
        }
    }
    Parsed { file, diagnostics, comments: lexed.comments }
}

/// Returns the place of the first block that nests deeper than [`MAX_BLOCKS`]. An `else if` counts
/// as nested in the `else` of the preceding `if`.
fn too_many_blocks(tokens: &[(Token<'_>, Span)]) -> Option<Span> {
    const IF: Token<'_> = Token::Word("if");
    const ELSE: Token<'_> = Token::Word("else");
    let mut open = Vec::new();
    for (index, (token, span)) in tokens.iter().enumerate() {
        let next = tokens.get(index + 1).map(|(next, _)| *next);
        match token {
            Token::BraceOpen => open.push(Token::BraceOpen),
            token if *token == ELSE && next == Some(IF) => open.push(ELSE),
            Token::BraceClose => {
                while open.pop().is_some_and(|last| last == ELSE) {}
                if next != Some(ELSE) {
                    open.truncate(
                        open.iter().rposition(|token| *token != ELSE).map_or(0, |last| last + 1),
                    );
                }
            }
            _ => {}
        }
        if open.len() > MAX_BLOCKS {
            return Some(*span);
        }
    }
    None
}

/// Inserts [`Token::Alias`] before each alias: a name and `=` outside all blocks, after a `;` or
/// `}`. The mark lets the parser resume at an alias after an error. A name alone would not be
/// enough.
fn mark_aliases(tokens: Vec<(Token<'_>, Span)>) -> Vec<(Token<'_>, Span)> {
    let mut marked = Vec::with_capacity(tokens.len());
    let mut blocks = 0u32;
    let mut before = Token::Semicolon;
    for (index, &(token, span)) in tokens.iter().enumerate() {
        match token {
            Token::BraceOpen => blocks += 1,
            Token::BraceClose => blocks = blocks.saturating_sub(1),
            Token::Capital(_) | Token::Small(_) | Token::Word(_)
                if blocks == 0
                    && matches!(before, Token::Semicolon | Token::BraceClose)
                    && tokens.get(index + 1).is_some_and(|(next, _)| *next == Token::Assign) =>
            {
                marked.push((Token::Alias, Span::new(span.start, span.start)));
            }
            _ => {}
        }
        marked.push((token, span));
        before = token;
    }
    marked
}

/// A top-level item of a file.
pub(crate) enum Item {
    Import(Import),
    Alias(Alias),
    Function(Function),
}

/// An expression and its height in levels.
pub(crate) struct Tall {
    pub expr: Expr,
    height: u32,
}

impl Tall {
    pub fn leaf(kind: ExprKind, span: Span) -> Tall {
        Tall { expr: Expr { kind, span }, height: 1 }
    }

    /// Separates the expressions from their heights. Returns the maximum height.
    pub fn list(items: Vec<Tall>) -> (Vec<Expr>, u32) {
        let height = items.iter().map(|item| item.height).max().unwrap_or(0);
        (items.into_iter().map(|item| item.expr).collect(), height)
    }
}

/// A clause after the constraints of a contraction.
pub(crate) enum Suffix {
    Default(Ident, Span),
    NoDefract,
}

/// State of the grammar's actions. Builds the nodes that need a check, and collects the errors.
pub(crate) struct Context<'s> {
    source: &'s str,
    base: u32,
    tokens: &'s [(Token<'s>, Span)],
    budget: &'s Budget,
    diagnostics: Vec<Diagnostic>,
    /// True after the first error about depth. Only one is reported.
    deep_reported: bool,
    /// The places of the lexer's errors.
    lexed: Vec<Span>,
    /// The place of the last syntax error.
    last_error: Option<Span>,
}

type SyntaxError<'s> = ParseError<u32, Token<'s>, ()>;

impl<'s> Context<'s> {
    pub fn unary(&mut self, op: UnaryOp, operand: Tall, span: Span) -> Tall {
        let height = operand.height;
        self.node(ExprKind::Unary { op, operand: Box::new(operand.expr) }, span, height)
    }

    pub fn binary(&mut self, op: BinaryOp, left: Tall, right: Tall, span: Span) -> Tall {
        let height = left.height.max(right.height);
        self.node(
            ExprKind::Binary { op, left: Box::new(left.expr), right: Box::new(right.expr) },
            span,
            height,
        )
    }

    /// Builds `a < b < c`, where `left` is `a < b`, and reports the error.
    pub fn chain(&mut self, op: BinaryOp, left: Tall, right: Tall, span: Span) -> Tall {
        self.diagnostics.push(
            Diagnostic::error(
                "E0005",
                span,
                format!("comparisons cannot be chained with `{}`", op.symbol()),
            )
            .help("join two comparisons with `&`, as in `(A < B) & (B < C)`, or add parentheses"),
        );
        self.binary(op, left, right, span)
    }

    pub fn conditional(
        &mut self,
        condition: Tall,
        then: Tall,
        otherwise: Option<Tall>,
        span: Span,
    ) -> Tall {
        let height =
            condition.height.max(then.height).max(otherwise.as_ref().map_or(0, |tall| tall.height));
        let kind = ExprKind::Conditional {
            condition: Box::new(condition.expr),
            then: Box::new(then.expr),
            otherwise: otherwise.map(|tall| Box::new(tall.expr)),
        };
        self.node(kind, span, height)
    }

    pub fn access(&mut self, tensor: Ident, indices: Vec<Tall>, span: Span) -> Tall {
        let (indices, height) = Tall::list(indices);
        self.node(ExprKind::Access { tensor, indices }, span, height)
    }

    pub fn call(
        &mut self,
        callee: Tall,
        arguments: Vec<(Option<Ident>, Tall)>,
        span: Span,
    ) -> Tall {
        let arguments = self.without_decimal_commas(arguments);
        let height = arguments.iter().map(|(_, value)| value.height).fold(callee.height, u32::max);
        let arguments = arguments
            .into_iter()
            .map(|(name, value)| Argument { name, value: value.expr })
            .collect();
        self.node(ExprKind::Call { callee: Box::new(callee.expr), arguments }, span, height)
    }

    /// Reports `0,01` among arguments, and replaces it with the number that is meant.
    fn without_decimal_commas(
        &mut self,
        arguments: Vec<(Option<Ident>, Tall)>,
    ) -> Vec<(Option<Ident>, Tall)> {
        let mut kept: Vec<(Option<Ident>, Tall)> = Vec::with_capacity(arguments.len());
        for (name, value) in arguments {
            let place = value.expr.span;
            let fraction = self.text(place);
            let before = kept.last_mut().filter(|(_, before)| {
                let is_whole = matches!(before.expr.kind, ExprKind::Int(_));
                is_whole && name.is_none() && before.expr.span.end + 1 == place.start
            });
            let is_digits = fraction.len() > 1
                && fraction.starts_with('0')
                && fraction.bytes().all(|digit| digit.is_ascii_digit());
            match before {
                Some((_, whole)) if is_digits => {
                    let span = whole.expr.span.to(place);
                    let number = span.of(self.source, self.base).replace(',', ".");
                    let message = format!("`{}` is two numbers", span.of(self.source, self.base));
                    let error = Diagnostic::error("E0002", span, message);
                    let help = format!("write a decimal point, `{number}`");
                    self.diagnostics.push(error.help(help));
                    let kind = number.parse().map_or(ExprKind::Error, ExprKind::Float);
                    *whole = Tall::leaf(kind, span);
                }
                _ => kept.push((name, value)),
            }
        }
        kept
    }

    pub fn pipe(&mut self, input: Tall, callee: Tall, span: Span) -> Tall {
        let height = input.height.max(callee.height);
        self.node(
            ExprKind::Pipe { input: Box::new(input.expr), callee: Box::new(callee.expr) },
            span,
            height,
        )
    }

    pub fn list(&mut self, items: Vec<Tall>, span: Span) -> Tall {
        let (items, height) = Tall::list(items);
        self.node(ExprKind::List(items), span, height)
    }

    /// Builds a definition. If it has two lists after its name, the second one has the inputs.
    #[expect(clippy::too_many_arguments, reason = "the parts of one rule of the grammar")]
    pub fn function(
        &mut self,
        kind: FunctionKind,
        name: Option<Ident>,
        first: Vec<Input>,
        second: Option<Vec<Input>>,
        outputs: Vec<Ident>,
        body: Vec<Statement>,
        span: Span,
    ) -> Function {
        let (parameters, inputs) = match second {
            Some(inputs) => (Some(first), inputs),
            None => (None, first),
        };
        Function { kind, name, parameters, inputs, outputs, body, span }
    }

    /// Reports a `train` block without the name of a model. `span` is the keyword's.
    pub fn nameless_train(&mut self, span: Span) {
        let error =
            Diagnostic::error("E0003", span.after(), "expected the name of a model after `train`");
        self.diagnostics
            .push(error.help("name the model that is trained, as in `train Net { … }`"));
    }

    /// Builds an expression over parts of height `below`. An expression that would be too deep
    /// becomes [`ExprKind::Error`].
    fn node(&mut self, kind: ExprKind, span: Span, below: u32) -> Tall {
        if below < MAX_DEPTH {
            return Tall { expr: Expr { kind, span }, height: below + 1 };
        }
        if !self.deep_reported {
            self.deep_reported = true;
            let message = format!("this expression nests more than {MAX_DEPTH} levels deep");
            self.diagnostics.push(
                Diagnostic::error("E0004", span, message).help("split it into several statements"),
            );
        }
        Tall::leaf(ExprKind::Error, span)
    }

    pub fn aggregation(&mut self, name: &str, span: Span) -> Aggregation {
        match name {
            "argmax" => Aggregation::ArgMax,
            "argmin" => Aggregation::ArgMin,
            _ => {
                let help = match name {
                    "sum" | "add" => "write `+(…)` for a sum".to_string(),
                    "product" | "prod" | "mul" => "write `*(…)` for a product".to_string(),
                    "max" => "write `>(…)` for a maximum".to_string(),
                    "min" => "write `<(…)` for a minimum".to_string(),
                    _ => did_you_mean(name, ["argmax", "argmin"]).unwrap_or_else(|| {
                        "an aggregation is one of `+ * > < = argmax argmin`".to_string()
                    }),
                };
                self.diagnostics.push(
                    Diagnostic::error("E0003", span, format!("unknown aggregation `{name}`"))
                        .help(help),
                );
                Aggregation::Sum
            }
        }
    }

    pub fn suffixes(&mut self, suffixes: Vec<Suffix>) -> (Option<Ident>, bool) {
        let mut default: Option<(Ident, Span)> = None;
        let mut no_defract = false;
        for suffix in suffixes {
            match (suffix, &default) {
                (Suffix::NoDefract, _) => no_defract = true,
                (Suffix::Default(_, second), Some((_, first))) => self.diagnostics.push(
                    Diagnostic::error("E0003", second, "expected one `default`, found a second")
                        .also(*first, "the first one"),
                ),
                (Suffix::Default(name, span), None) => default = Some((name, span)),
            }
        }
        (default.map(|(name, _)| name), no_defract)
    }

    /// Reports a syntax error at a token in plain words.
    pub fn syntax_error(&mut self, error: SyntaxError<'s>) {
        let (found, expected) = match error {
            ParseError::UnrecognizedToken { token, expected } => (Some(token), expected),
            ParseError::UnrecognizedEof { expected, .. } => (None, expected),
            ParseError::ExtraToken { token } => (Some(token), Vec::new()),
            ParseError::InvalidToken { .. } | ParseError::User { .. } => (None, Vec::new()),
        };
        if let Some((_, Token::Invalid, _)) = found {
            return; // The lexer reported it.
        }
        if self.budget.check().is_err() {
            return;
        }
        let end = self.base + self.source.len() as u32;
        let place = found.map_or(Span::new(end, end), |(start, _, end)| Span::new(start, end));
        if let Err(exceeded) = self.budget.spend(ERROR_UNITS) {
            return self.diagnostics.push(exceeded.at(place));
        }
        let at = self.tokens.partition_point(|(_, span)| span.start < place.start);
        let statement = statement_of(&self.tokens[..at]);
        // A second error in one line of a statement mostly follows from the first.
        let start = at - statement.len();
        let start = start.checked_sub(1).map_or(self.base, |before| self.tokens[before].1.start);
        let foreign = self.lexed.partition_point(|lexed| lexed.start < place.start);
        let foreign = foreign.checked_sub(1).map(|foreign| self.lexed[foreign]);
        let last = self.last_error.replace(place).max(foreign);
        let last = last.filter(|last| last.start >= start);
        if last.is_some_and(|last| !self.text(last.to(place)).contains('\n')) {
            return;
        }
        let complaint = Complaint {
            source: self.source,
            base: self.base,
            statement,
            found: found.map(|(_, token, _)| token),
            next: self.tokens.get(at + 1).map(|(token, _)| *token),
            place,
            expected,
        };
        self.diagnostics.push(complaint.diagnostic());
    }

    fn text(&self, span: Span) -> &'s str {
        span.of(self.source, self.base)
    }
}
