//! Tokens, words and names of other languages and libraries, with the way to write them in Tile.
//!
//! Most beginners' mistakes are habits from Python, Keras or PyTorch. The lexer, the parser and the
//! checker look a mistake up here for the help of their error. Nothing here is valid Tile.

use std::ops::Range;

use crate::diagnostic::Diagnostic;
use crate::lexer::Token;
use crate::span::Span;

mod names;

pub(crate) use names::{name_help, use_help};

/// A piece of text that is no Tile token.
pub(crate) struct Foreign<'s> {
    pub message: String,
    pub help: String,
    /// The Tile token that it stands for, or `None` for a comment. [`Token::Invalid`] if there is
    /// no such token.
    pub meant: Option<Token<'s>>,
}

/// Operators and punctuation of other languages: the text, the help, and the Tile token.
const MARKS: &[(&str, &str, Token<'static>)] = &[
    ("**", "write `pow(X, 2)` for a power", Token::Star),
    ("&&", "write `&`", Token::Ampersand),
    ("||", "write `|`", Token::Bar),
    (
        "@",
        "a product of matrices is a contraction, as in `C[i, j: M, N] = +(A[i, k] * B[k, j]);`",
        Token::Star,
    ),
    ("..", "write `range(3)` for the numbers 0, 1 and 2, or `range(a, b)`", Token::Invalid),
    ("%", "write `fmod(X, Y)`, or `mod(N, 2)` for sizes", Token::Slash),
    ("!", "write `x == 0` or `x == false`; `~` inverts bits", Token::Tilde),
    ("−", "write `-`", Token::Minus),
    ("–", "write `-`", Token::Minus),
    ("×", "write `*`", Token::Star),
    ("·", "write `*`", Token::Star),
    ("÷", "write `/`", Token::Slash),
    ("≤", "write `<=`", Token::Le),
    ("≥", "write `>=`", Token::Ge),
    ("≠", "write `!=`", Token::Ne),
    ("→", "write `->`", Token::Arrow),
    ("…", "write `...`", Token::Ellipsis),
];

/// Returns the meaning of a text that no rule of the lexer accepts, or only its rule for foreign
/// text. `last` is the token before it, and `before` the same with its text, if it ends where the
/// text starts.
pub(crate) fn meaning<'s>(
    text: &'s str,
    last: Option<Token<'s>>,
    before: Option<(Token<'s>, &'s str)>,
) -> Option<Foreign<'s>> {
    let foreign = |message: String, help: &str, meant| {
        Some(Foreign { message, help: help.to_owned(), meant })
    };
    if let Some((mark, help, token)) = MARKS.iter().find(|(mark, ..)| *mark == text) {
        return foreign(format!("unknown operator `{mark}`"), help, Some(*token));
    }
    let operator =
        text.strip_suffix('=').filter(|operator| ["+", "-", "*", "/"].contains(operator));
    if let Some(operator) = operator {
        let help = match (last, operator) {
            (Some(Token::BracketClose), "+" | "*") => format!(
                "`{operator}(…)` aggregates along the other indices, as in `Y[i: N] = {operator}(X[i, j]);`"
            ),
            _ => format!("write `Z = Y {operator} …`, with a name of its own for the new value"),
        };
        return foreign(format!("unknown operator `{text}`"), &help, Some(Token::Assign));
    }
    match text.chars().next()? {
        '#' => foreign("unexpected `#`".into(), "a comment starts with `//`", None),
        '/' => foreign(
            "unexpected `/*`".into(),
            "a comment starts with `//`, and ends with its line",
            None,
        ),
        '"' if text.starts_with("\"\"\"") => foreign(
            "unexpected `\"\"\"`".into(),
            "a comment starts with `//`; Tile has no docstrings",
            None,
        ),
        quote @ ('\'' | '“' | '”' | '„') => {
            let content = text.trim_matches(['\'', '“', '”', '„']);
            let is_name = content.starts_with(|c: char| c.is_ascii_lowercase())
                && content.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let help = match is_name {
                true => format!("write the name alone, `{content}`, or a text, `\"{content}\"`"),
                false => "a text stands in `\"…\"`".to_owned(),
            };
            foreign(format!("unexpected `{quote}`"), &help, Some(Token::Text(content)))
        }
        '.' if text[1..].starts_with(|c: char| c.is_ascii_digit()) => {
            let value = text.parse().ok().filter(|value: &f64| value.is_finite())?;
            let message = "a decimal point needs a digit before it".into();
            foreign(message, &format!("write `0{text}`"), Some(Token::Float(value)))
        }
        '.' if text.len() > 1 => attribute(text, before),
        digit if digit.is_ascii_digit() => {
            let digits = text.replace('_', "");
            let value = digits.parse().ok()?;
            foreign(
                format!("unexpected `_` in the number `{text}`"),
                &format!("write `{digits}`"),
                Some(Token::Int(value)),
            )
        }
        '_' => foreign(
            format!("`{text}` starts with `_`"),
            "a name starts with a letter",
            Some(Token::Invalid),
        ),
        _ => None,
    }
}

/// Returns the meaning of `.name.name` after a token.
fn attribute<'s>(text: &'s str, before: Option<(Token<'s>, &'s str)>) -> Option<Foreign<'s>> {
    let last = text.rsplit('.').next().unwrap_or_default();
    let (token, base) = before?;
    let help = match (last, token) {
        ("add", _) => {
            "layers are joined with `|>`, as in `Y = X |> Dense(8) |> Dense(3);`".to_owned()
        }
        ("compile" | "fit", _) => {
            "training is described in a `train` block: `train Net { loss = …; optimizer = …; }`"
                .to_owned()
        }
        ("shape" | "size" | "ndim", Token::Capital(_)) => {
            format!("name the sizes in the header, as in `{base}[N, K]`, or write `dims({base})`")
        }
        ("T", Token::Capital(_)) => format!("write `transpose({base}, [1, 0])`"),
        ("sum" | "mean" | "argmax" | "argmin", Token::Capital(_)) => {
            format!("write `{last}(axis = 1)({base})`")
        }
        ("reshape" | "view", Token::Capital(_)) => format!("write `reshape({base}, N, 8)`"),
        _ if let Some(help) = name_help(last) => help.to_owned(),
        (_, Token::Capital(_) | Token::ParenClose | Token::BracketClose) => {
            "a method is a function here, `relu(X)`, and a layer is applied with `|>`, `X |> Dense(8)`"
                .to_owned()
        }
        (_, Token::Small(_) | Token::Word(_)) if last.starts_with(char::is_uppercase) => {
            format!("write `{last}` alone: the names of the library are visible everywhere")
        }
        (_, Token::Small(_) | Token::Word(_)) => {
            format!("names of the library stand alone, without `{base}.`")
        }
        _ => return None,
    };
    let base = if matches!(token, Token::ParenClose | Token::BracketClose) { "" } else { base };
    Some(Foreign {
        message: format!("unexpected `.` in `{base}{text}`"),
        help,
        meant: Some(Token::Invalid),
    })
}

/// Returns the first line that imports a module of Python, in a text without a definition of Tile.
pub(crate) fn python(source: &str) -> Option<Range<usize>> {
    let is_import = |line: &str| {
        if line.trim_end().ends_with(';') {
            return false;
        }
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("import"), Some(module), _) => module.starts_with(|c: char| c.is_alphabetic()),
            (Some("from"), Some(_), third) => third == Some("import"),
            _ => false,
        }
    };
    let keywords = ["function", "layer", "model", "optimizer", "loss", "metric", "train"];
    let is_definition = |line: &str| {
        let line = line.trim_start();
        let rest = keywords.iter().find_map(|keyword| line.strip_prefix(keyword));
        let name = rest.and_then(|rest| rest.strip_prefix(' '));
        name.is_some_and(|name| name.starts_with(|c: char| c.is_alphabetic() || c == '('))
    };
    let start = |line: &str| line.as_ptr() as usize - source.as_ptr() as usize;
    let first = source.lines().find(|line| is_import(line))?;
    let place = start(first)..start(first) + first.len();
    (!source.lines().any(is_definition)).then_some(place)
}

/// Returns the error for a program of Python, whose import stands at `place`.
pub(crate) fn python_error(source: &str, place: Span) -> Diagnostic {
    let help = match source.contains("torch") {
        true => {
            "write the network as `model Net(X[N, 4]) -> (Y) { Y = X |> Dense(3); }`; `torch.onnx.export` makes a file of it that `tilec run` takes as it is"
        }
        false => {
            "write the network as `model Net(X[N, 4]) -> (Y) { Y = X |> Dense(3); }`; `tilec import model.keras -o net.tile` converts a model that Keras has saved"
        }
    };
    Diagnostic::error("E0003", place, "this is a program in Python, not in Tile").help(help)
}

/// Returns a warning for each comment that is a number after an operand in its line: `X // 2`.
pub(crate) fn divisions(source: &str, base: u32, comments: &[Span]) -> Vec<Diagnostic> {
    let is_division = |comment: &&Span| {
        let text = comment.of(source, base).trim_start_matches('/').trim().trim_end_matches(';');
        let before = Span::new(base, comment.start).of(source, base);
        let operand = before.rsplit('\n').next().unwrap_or_default().trim_end();
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && operand.ends_with(|last: char| last.is_alphanumeric() || [')', ']'].contains(&last))
    };
    let warning = |comment: &Span| {
        let message = format!("`{}` is a comment, not a division", comment.of(source, base));
        Diagnostic::warning("W0103", *comment, message)
            .help("write `X / 2` to divide, and `floor(X / 2)` to round down")
    };
    comments.iter().filter(is_division).map(warning).collect()
}

/// Keywords of Python and of languages like C.
const WORDS: &[(&str, &str)] = &[
    ("def", "a function is written `function f(X) -> (Y) { Y = …; }`"),
    (
        "class",
        "a layer is written `layer Name(units)(X) -> (Y) { … }`, and a network `model Name(X[N, 4]) -> (Y) { … }`",
    ),
    (
        "from",
        "remove the line: the library needs no import, and `import \"file.tile\";` reads another Tile file",
    ),
    ("return", "assign to the names of the outputs in the header, as in `-> (Y) { Y = …; }`"),
    ("elif", "write `else if`"),
    (
        "while",
        "`for i in range(3) { … }` repeats a known number of times, and `scan` goes along an axis",
    ),
    ("lambda", "write a `function`, and give its name"),
    ("and", "write `&`"),
    ("or", "write `|`"),
    ("not", "write `x == 0` or `x == false`"),
    ("is", "write `==`"),
    ("pass", "a block may be empty: `{ }`"),
    ("print", "a model has no output but its tensors: add one to `-> (…)`, or run `tilec summary`"),
    ("with", "Tile has no `with`"),
    ("try", "Tile has no exceptions"),
    ("assert", "write `assert_positive(N > 0)` in a function, or `error(\"…\")` in an `if`"),
    ("del", "values need no deletion: memory is planned by the compiler"),
    ("let", "write `Y = …;` without `let`"),
    ("var", "write `Y = …;` without `var`"),
    ("const", "write `Y = …;` without `const`"),
    ("fn", "a function is written `function f(X) -> (Y) { Y = …; }`"),
];

/// Returns the help for a keyword of another language.
pub(crate) fn word_help(word: &str) -> Option<&'static str> {
    WORDS.iter().find(|(foreign, _)| *foreign == word).map(|(_, help)| *help)
}

/// Returns the help for a constant of Python.
pub(crate) fn constant_help(name: &str) -> Option<String> {
    let constant = ["None", "True", "False"].contains(&name).then(|| name.to_ascii_lowercase())?;
    Some(format!("did you mean `{constant}`?"))
}

/// Arguments of Keras' `compile` and `fit` that are no settings of a `train` block.
const SETTINGS: &[(&str, &str)] = &[
    ("learning_rate", "it is an argument of the optimizer, as in `Adam(learning_rate = 0.001)`"),
    ("lr", "it is an argument of the optimizer, as in `Adam(learning_rate = 0.001)`"),
    ("validation_split", "it is an option of the command line, `--validation 0.1`"),
    ("validation_data", "it is an option of the command line, `--validation DIR`"),
    ("class_weight", "it is an option of the command line, `--class-weight 3=0.5`"),
    (
        "callbacks",
        "options of `tilec train` take their place, such as `--patience`, `--save-best` and `--log`",
    ),
];

/// Returns the help for a setting that Keras has elsewhere.
pub(crate) fn setting_help(name: &str) -> Option<&'static str> {
    SETTINGS.iter().find(|(foreign, _)| *foreign == name).map(|(_, help)| *help)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::SETTINGS as KNOWN;
    use crate::builtin::builtin;
    use crate::library;

    fn library(name: &str) -> bool {
        library::names().any(|known| known == name)
    }

    #[test]
    fn nothing_here_is_valid_tile() {
        for (name, _) in names::NAMES {
            assert!(builtin(name).is_none() && !library(name), "{name}");
        }
        for (name, _) in names::USES {
            assert!(builtin(name).is_some() || library(name), "{name}");
        }
        assert!(SETTINGS.iter().all(|(name, _)| !KNOWN.contains(name)));
        assert!(WORDS.iter().all(|(word, _)| !crate::lexer::WORDS.contains(word)));
    }
}
