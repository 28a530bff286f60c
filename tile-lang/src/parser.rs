//! Tokens to a syntax tree, with as many errors as there are broken statements and functions.

use lalrpop_util::ParseError;
use lalrpop_util::lalrpop_mod;

use crate::ast::{
    Aggregation, Alias, Argument, BinaryOp, Expr, ExprKind, File, Function, FunctionKind, Ident, Import, Input,
    MAX_BLOCKS, MAX_DEPTH, Statement, UnaryOp,
};
use crate::diagnostic::Diagnostic;
use crate::lexer::{Token, tokenize};
use crate::span::{LIBRARY_BASE, Span};
use crate::suggest::did_you_mean;

lalrpop_mod!(
    #[allow(clippy::all, dead_code, unused_imports)]
    grammar
);

/// What reading a file gave: always a tree, which lacks the functions and statements that `diagnostics` tells of.
pub struct Parsed {
    pub file: File,
    pub diagnostics: Vec<Diagnostic>,
    /// Each from its `//` to before the end of its line, in order.
    pub comments: Vec<Span>,
}

/// Reads a file.
pub fn parse(source: &str) -> Parsed {
    parse_at(source, 0)
}

/// Reads a text whose first byte is at position `base`.
pub(crate) fn parse_at(source: &str, base: u32) -> Parsed {
    if source.len() >= LIBRARY_BASE as usize {
        let error = Diagnostic::error("E0006", Span::default(), "this file is too long")
            .help("the files of a program must be shorter than 2 GiB, together");
        return Parsed { file: File::default(), diagnostics: vec![error], comments: Vec::new() };
    }
    let lexed = tokenize(source, base);
    let mut diagnostics = lexed.diagnostics;
    if let Some(place) = too_many_blocks(&lexed.tokens) {
        let message = format!("this block is in more than {MAX_BLOCKS} others");
        diagnostics.push(Diagnostic::error("E0004", place, message));
        return Parsed { file: File::default(), diagnostics, comments: lexed.comments };
    }
    let tokens = mark_aliases(lexed.tokens);
    let mut context = Context { source, base, tokens: &tokens, diagnostics, deep_reported: false };
    let located = tokens.iter().map(|(token, span)| Ok((span.start, *token, span.end)));
    let items = match grammar::ItemsParser::new().parse(&mut context, located) {
        Ok(items) => items,
        Err(error) => {
            context.syntax_error(error);
            Vec::new()
        }
    };
    let mut diagnostics = context.diagnostics;
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

/// The first block that is deeper than the tree may be: an `else if` is in the `else` of the `if` before it.
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
                    open.truncate(open.iter().rposition(|token| *token != ELSE).map_or(0, |last| last + 1));
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

/// The tokens with a mark before each alias: a name and `=` outside all blocks, after the end of something. So an alias is a
/// place where reading can go on after an error, which a name alone is not.
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

/// What a file holds.
pub(crate) enum Item {
    Import(Import),
    Alias(Alias),
    Function(Function),
}

/// An expression and the number of levels that it is high.
pub(crate) struct Tall {
    pub expr: Expr,
    height: u32,
}

impl Tall {
    pub fn leaf(kind: ExprKind, span: Span) -> Tall {
        Tall { expr: Expr { kind, span }, height: 1 }
    }

    /// The expressions, and the height of the highest.
    pub fn list(items: Vec<Tall>) -> (Vec<Expr>, u32) {
        let height = items.iter().map(|item| item.height).max().unwrap_or(0);
        (items.into_iter().map(|item| item.expr).collect(), height)
    }
}

/// What may follow the constraints of a contraction.
pub(crate) enum Suffix {
    Default(Ident, Span),
    NoDefract,
}

/// Makes the nodes that need a check, and collects the errors.
pub(crate) struct Context<'s> {
    source: &'s str,
    base: u32,
    tokens: &'s [(Token<'s>, Span)],
    diagnostics: Vec<Diagnostic>,
    /// One error about depth is enough.
    deep_reported: bool,
}

type SyntaxError<'s> = ParseError<u32, Token<'s>, ()>;

impl<'s> Context<'s> {
    pub fn unary(&mut self, op: UnaryOp, operand: Tall, span: Span) -> Tall {
        let height = operand.height;
        self.node(ExprKind::Unary { op, operand: Box::new(operand.expr) }, span, height)
    }

    pub fn binary(&mut self, op: BinaryOp, left: Tall, right: Tall, span: Span) -> Tall {
        let height = left.height.max(right.height);
        self.node(ExprKind::Binary { op, left: Box::new(left.expr), right: Box::new(right.expr) }, span, height)
    }

    /// `a < b < c`, of which `left` is `a < b`.
    pub fn chain(&mut self, op: BinaryOp, left: Tall, right: Tall, span: Span) -> Tall {
        self.diagnostics.push(
            Diagnostic::error("E0005", span, format!("comparisons cannot be chained with `{}`", op.symbol()))
                .help("join two comparisons with `&`, as in `(A < B) & (B < C)`, or add parentheses"),
        );
        self.binary(op, left, right, span)
    }

    pub fn conditional(&mut self, condition: Tall, then: Tall, otherwise: Option<Tall>, span: Span) -> Tall {
        let height = condition.height.max(then.height).max(otherwise.as_ref().map_or(0, |tall| tall.height));
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

    pub fn call(&mut self, callee: Tall, arguments: Vec<(Option<Ident>, Tall)>, span: Span) -> Tall {
        let height = arguments.iter().map(|(_, value)| value.height).fold(callee.height, u32::max);
        let arguments = arguments.into_iter().map(|(name, value)| Argument { name, value: value.expr }).collect();
        self.node(ExprKind::Call { callee: Box::new(callee.expr), arguments }, span, height)
    }

    pub fn pipe(&mut self, input: Tall, callee: Tall, span: Span) -> Tall {
        let height = input.height.max(callee.height);
        self.node(ExprKind::Pipe { input: Box::new(input.expr), callee: Box::new(callee.expr) }, span, height)
    }

    pub fn list(&mut self, items: Vec<Tall>, span: Span) -> Tall {
        let (items, height) = Tall::list(items);
        self.node(ExprKind::List(items), span, height)
    }

    /// A definition with one or two lists after its name: the inputs are the last.
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

    /// An expression over parts of height `below`; one that would be too deep is left out.
    fn node(&mut self, kind: ExprKind, span: Span, below: u32) -> Tall {
        if below < MAX_DEPTH {
            return Tall { expr: Expr { kind, span }, height: below + 1 };
        }
        if !self.deep_reported {
            self.deep_reported = true;
            let message = format!("this expression has more than {MAX_DEPTH} levels");
            self.diagnostics
                .push(Diagnostic::error("E0004", span, message).help("split it up into several statements"));
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
                    _ => did_you_mean(name, ["argmax", "argmin"])
                        .unwrap_or_else(|| "an aggregation is one of `+ * > < = argmax argmin`".to_string()),
                };
                self.diagnostics
                    .push(Diagnostic::error("E0003", span, format!("`{name}` is no aggregation")).help(help));
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
                    Diagnostic::error("E0003", second, "a contraction has one `default` at most")
                        .also(*first, "the first one"),
                ),
                (Suffix::Default(name, span), None) => default = Some((name, span)),
            }
        }
        (default.map(|(name, _)| name), no_defract)
    }

    /// Says in plain words what is wrong at a token.
    pub fn syntax_error(&mut self, error: SyntaxError<'s>) {
        let (found, expected) = match error {
            ParseError::UnrecognizedToken { token, expected } => (Some(token), expected),
            ParseError::UnrecognizedEof { expected, .. } => (None, expected),
            ParseError::ExtraToken { token } => (Some(token), Vec::new()),
            ParseError::InvalidToken { .. } | ParseError::User { .. } => (None, Vec::new()),
        };
        if let Some((_, Token::Invalid, _)) = found {
            return; // The lexer has told of it.
        }
        let end = self.base + self.source.len() as u32;
        let place = found.map_or(Span::new(end, end), |(start, _, end)| Span::new(start, end));
        let next = self.tokens.partition_point(|(_, span)| span.start < place.start);
        let before = next.checked_sub(1).and_then(|index| self.tokens.get(index)).map(|(_, span)| *span);
        let found = match found {
            Some(_) => format!("`{}`", self.text(place)),
            None => "the end of the file".to_string(),
        };
        let expects = |token: &str| expected.iter().any(|item| item.trim_matches('"') == token);
        let new_line = before.is_some_and(|before| self.text(Span::new(before.end, place.start)).contains('\n'));

        let ends = matches!(found.as_str(), "`}`" | "`function`" | "`layer`" | "`model`" | "`import`");
        let error = if expects(";") && (new_line || ends) {
            // Where it is missing, not where that was noticed.
            let place = before.map_or(place, Span::after);
            Diagnostic::error("E0003", place, "expected `;` after this statement")
        } else {
            let message = match expected_words(&expects) {
                Some(words) => format!("expected {words}, found {found}"),
                None => format!("{found} cannot stand here"),
            };
            Diagnostic::error("E0003", place, message)
        };
        let help = match found.as_str() {
            "`==`" if expects("=") => Some("put a space in between: `= =(…)` is the assign aggregation"),
            "`<=`" | "`>`" | "`>=`" if expects("<") && !expects("<=") => {
                Some("a constraint has the form `p < n`, and also says `0 <= p`")
            }
            "`=`" if expects("==") || expects("]") => Some("write `==` to compare"),
            "`=`" if expects("[") => {
                Some("the sizes of a weight come after its name, as in `param Bias[units] = zeros();`; `[]` is rank 0")
            }
            "`+`" | "`-`" | "`*`" | "`/`" if expects("|>") => {
                Some("`|>` binds more loosely than any operator: put it in parentheses, as in `(X |> f) + 1`")
            }
            _ if expects("+") && expects("=") && !expects("/") => {
                Some("an output with indices is aggregated, as in `O[i: N] = +(X[i, j])`; elementwise is `O = X + 1`")
            }
            _ => None,
        };
        let word = found.trim_matches('`');
        let help = help.map(str::to_string).or_else(|| {
            let definitions = expects("function").then_some(["function", "layer", "model", "import"])?;
            did_you_mean(word, definitions)
        });
        self.diagnostics.push(match help {
            Some(help) => error.help(help),
            None => error,
        });
    }

    fn text(&self, span: Span) -> &'s str {
        let range = span.start.saturating_sub(self.base) as usize..span.end.saturating_sub(self.base) as usize;
        self.source.get(range).unwrap_or_default()
    }
}

/// The tokens that could stand there, summed up; None for too many.
fn expected_words(expects: &dyn Fn(&str) -> bool) -> Option<String> {
    let mut words: Vec<String> = Vec::new();
    if expects("function") {
        words.push("`function`, `layer`, `model` or `import`".to_string());
    }
    let statement = expects("}") && expects(";") && expects("Capital");
    if statement {
        words.push("a statement".to_string());
    } else if expects("Int") && expects("(") {
        words.push("an expression".to_string());
    } else if expects("Capital") && expects("Name") {
        words.push("a name".to_string());
    } else if expects("Capital") {
        words.push("a size name".to_string());
    } else if expects("(") && !expects("/") {
        words.push("`(`".to_string());
    }
    if expects("/") {
        words.push("an operator".to_string());
    } else if expects("+") && expects(">") {
        words.push("an aggregation (`+ * > < = argmax argmin`)".to_string());
    } else if expects("<") {
        words.push("`<`".to_string());
    }
    for token in ["=", "->", ",", ":", ")", "]", "{", "}", ";"] {
        let told = (token == "=" && expects("+")) || (token == ";" && statement);
        if expects(token) && !told {
            words.push(format!("`{token}`"));
        }
    }
    for word in ["in", "along"].into_iter().filter(|word| expects(word) && !expects("Name")) {
        words.push(format!("`{word}`"));
    }
    if words.is_empty() && expects("Text") {
        words.push("a file in quotes, as in `\"layers.tile\"`".to_string());
    } else if words.is_empty() && expects("[") {
        words.push("`[`".to_string());
    }
    let last = words.pop()?;
    match words.len() {
        0 => Some(last),
        1..4 => Some(format!("{} or {last}", words.join(", "))),
        _ => None,
    }
}
