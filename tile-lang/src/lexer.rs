//! Text to tokens. Comments are kept aside, for the formatter.
//!
//! Always true: spans lie on character boundaries, in order, without overlap; what is no token becomes
//! [`Token::Invalid`], with a diagnostic.

use logos::Logos;

use crate::diagnostic::Diagnostic;
use crate::span::Span;

/// The keywords of v0.
pub const KEYWORDS: [&str; 3] = ["function", "default", "no_defract"];

/// The words that are keywords in their places, and names anywhere else.
pub const WORDS: [&str; 19] = [
    "layer",
    "model",
    "import",
    "param",
    "state",
    "update",
    "for",
    "in",
    "if",
    "else",
    "scan",
    "along",
    "yield",
    "regularizer",
    "like",
    "optimizer",
    "loss",
    "metric",
    "train",
];

#[derive(Logos, Clone, Copy, Debug, PartialEq)]
#[logos(skip r"[ \t\r\n\f]+", error = LexError)]
pub enum Token<'s> {
    #[token("function")]
    Function,
    #[token("default")]
    Default,
    #[token("no_defract")]
    NoDefract,
    /// A tensor or a size.
    #[regex("[A-Z][A-Za-z0-9_]*'?")]
    #[regex("#[A-Za-z][A-Za-z0-9_]*'?", |lexer| &lexer.slice()[1..])]
    Capital(&'s str),
    /// An index variable or a function.
    #[regex("[a-z][A-Za-z0-9_]*'?")]
    #[regex("[$][A-Za-z][A-Za-z0-9_]*'?", |lexer| &lexer.slice()[1..])]
    Small(&'s str),
    /// One of [`WORDS`], unless a number stands right before it (`2in` is `2*in`): then it is a name.
    Word(&'s str),
    /// Stands before an alias, `name = target;`, and is empty: the parser puts it there.
    Alias,
    /// Without its quotes.
    #[regex("\"[^\"\n]*\"", |lexer| { let text = lexer.slice(); &text[1..text.len() - 1] })]
    Text(&'s str),
    #[regex("[0-9]+", |lexer| lexer.slice().parse().map_err(|_| LexError::Integer))]
    Int(i64),
    #[regex(r"[0-9]+\.[0-9]+", float)]
    #[regex(r"[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+", float)]
    Float(f64),
    #[token("(")]
    ParenOpen,
    #[token(")")]
    ParenClose,
    #[token("[")]
    BracketOpen,
    #[token("]")]
    BracketClose,
    #[token("{")]
    BraceOpen,
    #[token("}")]
    BraceClose,
    #[token(",")]
    Comma,
    #[token(";")]
    Semicolon,
    #[token(":")]
    Colon,
    #[token("?")]
    Question,
    #[token("->")]
    Arrow,
    #[token("...")]
    Ellipsis,
    #[token("=")]
    Assign,
    #[token("+")]
    Plus,
    #[token("-")]
    Minus,
    #[token("*")]
    Star,
    #[token("/")]
    Slash,
    #[token("~")]
    Tilde,
    #[token("^")]
    Caret,
    #[token("|>")]
    Pipe,
    #[token("|")]
    Bar,
    #[token("&")]
    Ampersand,
    #[token("==")]
    Eq,
    #[token("!=")]
    Ne,
    #[token("<")]
    Lt,
    #[token("<=")]
    Le,
    #[token(">")]
    Gt,
    #[token(">=")]
    Ge,
    #[token("<<")]
    Shl,
    #[token(">>")]
    Shr,
    #[regex("//[^\n]*", allow_greedy = true)]
    Comment,
    Invalid,
}

/// Why some text is no token.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum LexError {
    #[default]
    Character,
    Integer,
    Float,
}

fn float<'s>(lexer: &logos::Lexer<'s, Token<'s>>) -> Result<f64, LexError> {
    lexer.slice().parse().ok().filter(|value: &f64| value.is_finite()).ok_or(LexError::Float)
}

/// What a text consists of.
pub struct Tokens<'s> {
    /// Without comments.
    pub tokens: Vec<(Token<'s>, Span)>,
    /// Each from its `//` to before the end of its line.
    pub comments: Vec<Span>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Splits `source`, which must be shorter than 2 GiB, into tokens; `base` is the position of its first byte.
pub fn tokenize(source: &str, base: u32) -> Tokens<'_> {
    let mut found = Tokens { tokens: Vec::new(), comments: Vec::new(), diagnostics: Vec::new() };
    for (token, range) in Token::lexer(source).spanned() {
        let span = Span::new(base + range.start as u32, base + range.end as u32);
        match token {
            Ok(Token::Comment) => found.comments.push(span),
            Ok(Token::Small(name)) if WORDS.contains(&name) && source.as_bytes()[range.start] != b'$' => {
                let after_number =
                    matches!(found.tokens.last(), Some((Token::Int(_), number)) if number.end == span.start);
                found.tokens.push((if after_number { Token::Small(name) } else { Token::Word(name) }, span));
            }
            Ok(token) => found.tokens.push((token, span)),
            Err(error) => found.invalid(error, &source[range], span),
        }
    }
    found
}

impl Tokens<'_> {
    fn invalid(&mut self, error: LexError, text: &str, span: Span) {
        if let Some((previous, previous_span)) = self.tokens.last_mut()
            && previous_span.end == span.start
        {
            match previous {
                // One error for a run of such characters.
                Token::Invalid if error == LexError::Character => {
                    previous_span.end = span.end;
                    if let Some(label) = self.diagnostics.last_mut().and_then(|d| d.labels.first_mut()) {
                        label.span = *previous_span;
                    }
                    return;
                }
                Token::Int(value) if text == "." => {
                    let whole = previous_span.to(span);
                    self.diagnostics.push(
                        Diagnostic::error("E0002", whole, "a decimal point needs a digit after it")
                            .help(format!("write `{value}.0`")),
                    );
                    self.tokens.push((Token::Invalid, span));
                    return;
                }
                _ => {}
            }
        }
        self.diagnostics.push(match error {
            LexError::Character if text.starts_with('"') => {
                Diagnostic::error("E0001", span, "this text does not end").help("put `\"` after it, on the same line")
            }
            LexError::Character => {
                Diagnostic::error("E0001", span, format!("`{}` is no part of the Tile language", text.escape_debug()))
            }
            LexError::Integer => Diagnostic::error("E0002", span, format!("`{text}` is too large for an integer"))
                .help(format!("the largest is {}", i64::MAX)),
            LexError::Float => Diagnostic::error("E0002", span, format!("`{text}` is too large for a float")),
        });
        self.tokens.push((Token::Invalid, span));
    }
}
