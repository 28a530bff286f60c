//! Splits text into tokens. Comments are kept separately, for the formatter.
//!
//! Invariants:
//! - Spans lie on character boundaries, in order and without overlap.
//! - Text that is not a token becomes [`Token::Invalid`] with a diagnostic.

use logos::Logos;

use crate::diagnostic::Diagnostic;
use crate::foreign::{self, Foreign};
use crate::span::Span;
use crate::suggest::SUGGESTIONS;

/// The keywords of Tile v0.
pub const KEYWORDS: [&str; 3] = ["function", "default", "no_defract"];

/// The contextual keywords. They are names wherever the grammar does not expect the keyword.
pub const WORDS: [&str; 21] = [
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
    "constraint",
    "adapt",
    "like",
    "optimizer",
    "loss",
    "metric",
    "train",
];

/// A token of the language.
#[derive(Logos, Clone, Copy, Debug, PartialEq)]
#[logos(skip r"[ \t\r\n\f]+", error = LexError)]
pub enum Token<'s> {
    /// `function`
    #[token("function")]
    Function,
    /// `default`
    #[token("default")]
    Default,
    /// `no_defract`
    #[token("no_defract")]
    NoDefract,
    /// The name of a tensor or a size.
    #[regex("[A-Z][A-Za-z0-9_]*'?")]
    #[regex("#[A-Za-z][A-Za-z0-9_]*'?", |lexer| &lexer.slice()[1..])]
    Capital(&'s str),
    /// The name of an index variable, a function or a value known at compile time.
    #[regex("[a-z][A-Za-z0-9_]*'?")]
    #[regex("[$][A-Za-z][A-Za-z0-9_]*'?", |lexer| &lexer.slice()[1..])]
    Small(&'s str),
    /// One of [`WORDS`]. Directly after an integer such a word is a name, so `2in` is `2*in`.
    Word(&'s str),
    /// An empty mark that the parser inserts before an alias, `name = target;`.
    Alias,
    /// A text without its quotes.
    #[regex("\"[^\"\n]*\"", |lexer| { let text = lexer.slice(); &text[1..text.len() - 1] })]
    Text(&'s str),
    /// An integer.
    #[regex("[0-9]+", |lexer| lexer.slice().parse().map_err(|_| LexError::Integer))]
    Int(i64),
    /// A number with a decimal point or an exponent.
    #[regex(r"[0-9]+\.[0-9]+", float)]
    #[regex(r"[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+", float)]
    Float(f64),
    /// `(`
    #[token("(")]
    ParenOpen,
    /// `)`
    #[token(")")]
    ParenClose,
    /// `[`
    #[token("[")]
    BracketOpen,
    /// `]`
    #[token("]")]
    BracketClose,
    /// `{`
    #[token("{")]
    BraceOpen,
    /// `}`
    #[token("}")]
    BraceClose,
    /// `,`
    #[token(",")]
    Comma,
    /// `;`
    #[token(";")]
    Semicolon,
    /// `:`
    #[token(":")]
    Colon,
    /// `?`
    #[token("?")]
    Question,
    /// `->`
    #[token("->")]
    Arrow,
    /// `...`
    #[token("...")]
    Ellipsis,
    /// `=`
    #[token("=")]
    Assign,
    /// `+`
    #[token("+")]
    Plus,
    /// `-`
    #[token("-")]
    Minus,
    /// `*`
    #[token("*")]
    Star,
    /// `/`
    #[token("/")]
    Slash,
    /// `~`
    #[token("~")]
    Tilde,
    /// `^`
    #[token("^")]
    Caret,
    /// `|>`
    #[token("|>")]
    Pipe,
    /// `|`
    #[token("|")]
    Bar,
    /// `&`
    #[token("&")]
    Ampersand,
    /// `==`
    #[token("==")]
    Eq,
    /// `!=`
    #[token("!=")]
    Ne,
    /// `<`
    #[token("<")]
    Lt,
    /// `<=`
    #[token("<=")]
    Le,
    /// `>`
    #[token(">")]
    Gt,
    /// `>=`
    #[token(">=")]
    Ge,
    /// `<<`
    #[token("<<")]
    Shl,
    /// `>>`
    #[token(">>")]
    Shr,
    /// A comment, from its marker to the end of the line.
    #[regex("//[^\n]*", allow_greedy = true)]
    Comment,
    /// Text of another language, for which the lexer reports an error. The parser does not see it.
    #[regex(r"\*\*|&&|\|\||\.\.|[-+*/]=|[@%!−–×·÷≤≥≠→…]")]
    #[regex(r"'[^'\n]*'|[“”„][^“”\x22\n]*[“”]", allow_greedy = true)]
    #[regex(r"(\.[A-Za-z_][A-Za-z0-9_]*)+|\.[0-9]+|[0-9]+(_[0-9]+)+|_[A-Za-z0-9_]*")]
    #[regex(r"#([^A-Za-z\n][^\n]*)?", allow_greedy = true)]
    #[token("/*", |lexer| bump_through(lexer, "*/"))]
    #[token("\"\"\"", |lexer| bump_through(lexer, "\"\"\""))]
    Foreign(&'s str),
    /// Text that is no token; [`LexError`] has the reason.
    Invalid,
}

/// The reason why some text is not a token.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum LexError {
    /// An unknown character.
    #[default]
    Character,
    /// An integer that does not fit 64 bits.
    Integer,
    /// A number that is no finite f64.
    Float,
}

fn float<'s>(lexer: &logos::Lexer<'s, Token<'s>>) -> Result<f64, LexError> {
    lexer.slice().parse().ok().filter(|value: &f64| value.is_finite()).ok_or(LexError::Float)
}

/// Extends the token up to the end of the next `end`, or of the text.
fn bump_through<'s>(lexer: &mut logos::Lexer<'s, Token<'s>>, end: &str) -> &'s str {
    let rest = lexer.remainder();
    lexer.bump(rest.find(end).map_or(rest.len(), |start| start + end.len()));
    lexer.slice()
}

/// The tokens, comments and diagnostics of a text.
pub struct Tokens<'s> {
    /// The tokens, without comments.
    pub tokens: Vec<(Token<'s>, Span)>,
    /// The comments, each from its `//` up to the end of its line.
    pub comments: Vec<Span>,
    /// The errors, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

/// The byte order mark, which editors on Windows write at the start of a text.
pub const BYTE_ORDER_MARK: char = '\u{feff}';

/// The error of a text without an end, which goes up to the end of its line.
pub(crate) const UNTERMINATED: &str = "unterminated text";

/// Splits `source` into tokens. `source` must be shorter than 2 GiB, and `base` is the position of
/// its first byte.
pub fn tokenize(source: &str, base: u32) -> Tokens<'_> {
    let mut found = Tokens { tokens: Vec::new(), comments: Vec::new(), diagnostics: Vec::new() };
    let mut lexer = Token::lexer(source);
    if source.starts_with(BYTE_ORDER_MARK) {
        lexer.bump(BYTE_ORDER_MARK.len_utf8());
    }
    for (token, range) in lexer.spanned() {
        // A token that runs to the end of its line does not include the CR of CR LF.
        let range = range.start..range.start + source[range.clone()].trim_end_matches('\r').len();
        let span = Span::new(base + range.start as u32, base + range.end as u32);
        match token {
            Ok(Token::Comment) => found.comments.push(span),
            Ok(Token::Small(name))
                if WORDS.contains(&name) && source.as_bytes()[range.start] != b'$' =>
            {
                let after_number = matches!(found.tokens.last(), Some((Token::Int(_), number)) if number.end == span.start);
                found.tokens.push((
                    if after_number { Token::Small(name) } else { Token::Word(name) },
                    span,
                ));
            }
            Ok(Token::Foreign(_)) => found.foreign(source, base, &source[range], span),
            Ok(token) => found.tokens.push((token, span)),
            Err(error) => found.invalid(error, &source[range], span),
        }
    }
    found
}

impl<'s> Tokens<'s> {
    /// Reports a text of another language, and goes on with the token that it stands for.
    fn foreign(&mut self, source: &'s str, base: u32, text: &'s str, span: Span) {
        let last = self.tokens.last();
        let before = last.filter(|(_, before)| before.end == span.start);
        let before = before.map(|(token, place)| (*token, place.of(source, base)));
        let last = last.map(|(token, _)| *token);
        let Some(Foreign { message, help, meant }) = foreign::meaning(text, last, before) else {
            return self.invalid(LexError::Character, text, span);
        };
        // Only the first one of many comments is reported.
        let is_known = meant.is_none()
            && self.diagnostics.iter().take(SUGGESTIONS).any(|known| known.message == message);
        if !is_known {
            self.diagnostics.push(Diagnostic::error("E0001", span, message).help(help));
        }
        self.tokens.extend(meant.map(|token| (token, span)));
    }

    fn invalid(&mut self, error: LexError, text: &str, span: Span) {
        if let Some((previous, previous_span)) = self.tokens.last_mut()
            && previous_span.end == span.start
        {
            match previous {
                // A run of invalid characters gives one error.
                Token::Invalid if error == LexError::Character => {
                    previous_span.end = span.end;
                    if let Some(label) =
                        self.diagnostics.last_mut().and_then(|d| d.labels.first_mut())
                    {
                        label.span = *previous_span;
                    }
                    return;
                }
                Token::Int(value) if text.starts_with('.') => {
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
                Diagnostic::error("E0001", span, UNTERMINATED)
                    .help("put `\"` after it, on the same line")
            }
            LexError::Character if text.starts_with(['\'', '“', '„']) && text.len() > 3 => {
                Diagnostic::error("E0001", span, UNTERMINATED)
                    .help("a text stands in `\"…\"`, on one line")
            }
            LexError::Character => {
                Diagnostic::error("E0001", span, format!("unexpected `{}`", text.escape_debug()))
            }
            LexError::Integer => {
                Diagnostic::error("E0002", span, format!("the integer `{text}` is too large"))
                    .help(format!("the largest integer is {}", i64::MAX))
            }
            LexError::Float => Diagnostic::error(
                "E0002",
                span,
                format!("the number `{text}` is too large for a float"),
            ),
        });
        self.tokens.push((Token::Invalid, span));
    }
}
