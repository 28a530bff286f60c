//! Describes syntax errors in plain words, with a way out.

use crate::diagnostic::Diagnostic;
use crate::foreign::word_help;
use crate::lexer::Token;
use crate::span::Span;
use crate::suggest::did_you_mean;

/// A place where parsing stopped.
pub(super) struct Complaint<'a, 's> {
    pub source: &'s str,
    pub base: u32,
    /// The tokens of the statement or header before the place.
    pub statement: &'a [(Token<'s>, Span)],
    /// The token at the place. `None` at the end of the file.
    pub found: Option<Token<'s>>,
    /// The token after it.
    pub next: Option<Token<'s>>,
    pub place: Span,
    /// The tokens that could stand at the place, as the grammar spells them. Some may be missing.
    pub expected: Vec<String>,
}

/// Returns the tokens since the last `;`, `{` or `}`.
pub(super) fn statement_of<'a, 's>(tokens: &'a [(Token<'s>, Span)]) -> &'a [(Token<'s>, Span)] {
    let is_end =
        |token: &Token| matches!(token, Token::Semicolon | Token::BraceOpen | Token::BraceClose);
    let start = tokens.iter().rposition(|(token, _)| is_end(token)).map_or(0, |last| last + 1);
    &tokens[start..]
}

impl Complaint<'_, '_> {
    pub fn diagnostic(&self) -> Diagnostic {
        let (error, is_explained) = self.error();
        let help = if is_explained { self.word() } else { self.word().or_else(|| self.help()) };
        match help {
            Some(help) => error.help(help),
            None => error,
        }
    }

    /// Returns the error without a help, and whether it says it all.
    fn error(&self) -> (Diagnostic, bool) {
        let found = self
            .found
            .map_or("the end of the file".to_owned(), |_| format!("`{}`", self.text(self.place)));
        let end = self.before().map_or(self.place, |(_, before)| before.after());
        if let Some((open, span)) = self.unclosed().filter(|_| self.ends_brackets()) {
            let (open, close) = if open == Token::ParenOpen { ('(', ')') } else { ('[', ']') };
            let error = Diagnostic::error("E0003", end, format!("missing `{close}`"));
            let error = error.saying(format!("expected `{close}` here"));
            return (error.also(span, format!("this `{open}` is not closed")), true);
        }
        if let Some((number, span)) = self.missing_comma() {
            let message = format!("expected `,` after `{number}`");
            return (Diagnostic::error("E0003", span.after(), message), true);
        }
        let ends = matches!(self.found, None | Some(Token::BraceClose | Token::Function))
            || matches!(self.found, Some(Token::Word("layer" | "model" | "import" | "train")));
        if self.expects(";") && (self.is_on_new_line() || ends) {
            // Point at the end of the statement, not at the token where the error was noticed.
            return (Diagnostic::error("E0003", end, "expected `;` after this statement"), false);
        }
        let message = match self.expected_words() {
            Some(words) => format!("expected {words}, found {found}"),
            None => format!("unexpected {found}"),
        };
        (Diagnostic::error("E0003", self.place, message), false)
    }

    /// Returns the help for a keyword of another language at the place, before it, or at the start
    /// of the statement.
    fn word(&self) -> Option<String> {
        let first = self.statement.first().map(|(token, _)| *token);
        let words = [self.found, self.before().map(|(token, _)| token), first];
        let help = words.into_iter().flatten().find_map(|token| match token {
            Token::Small(word) => word_help(word),
            _ => None,
        });
        help.map(str::to_owned)
    }

    fn help(&self) -> Option<String> {
        if let Some(help) = self.habit() {
            return Some(help.to_owned());
        }
        let help = match self.found {
            Some(Token::Eq) if self.expects("=") => self.double_equals(),
            Some(Token::Assign) if self.expects("[") => {
                "the sizes of a weight come after its name, as in `param Bias[units] = zeros();`; `[]` is rank 0"
            }
            Some(Token::Assign) if self.expects("{") || self.expects("==") || self.expects("]") => {
                "write `==` to compare"
            }
            Some(Token::Le | Token::Gt | Token::Ge) if self.expects("<") && !self.expects("<=") => {
                "a constraint has the form `p < n`, and also says `0 <= p`"
            }
            Some(Token::Comma) if self.is_tuple() => "a list stands in brackets, as in `[3, 3]`",
            Some(Token::Colon) => self.colon()?,
            Some(Token::BraceOpen) if self.expects("->") => {
                "name the outputs, as in `model Net(X[N, 4]) -> (Y) { … }`"
            }
            Some(Token::BraceOpen) if self.expects("Int") => {
                "Tile has lists, `[1, 2]`, and no dictionaries"
            }
            Some(Token::Capital(_)) if self.is_after(Token::Arrow) => {
                "outputs stand in parentheses, as in `-> (Y)`"
            }
            Some(Token::Small(_) | Token::Word(_))
                if self.expects("Capital") && !self.expects("Name") =>
            {
                "the name of a size starts with a capital, as in `X[N, 28]`"
            }
            Some(Token::Word("if")) if self.expects(";") => {
                "write `C ? A : B` to choose between values"
            }
            Some(Token::Plus | Token::Minus | Token::Star | Token::Slash) if self.expects("|>") => {
                "`|>` binds more loosely than any operator: put it in parentheses, as in `(X |> f) + 1`"
            }
            _ if self.is_division_comment() => {
                "`//` starts a comment: `X / 2` divides, and `floor(X / 2)` rounds down"
            }
            _ if self.has_hash() => {
                "a comment starts with `//`; `#Name` stands for the tensor `Name`"
            }
            _ if self.is_after(Token::Word("import")) => {
                "`import` reads a Tile file; the names of the library are visible everywhere"
            }
            _ if self.expects("+") && self.expects("=") && !self.expects("/") => {
                "an output with indices is aggregated, as in `O[i: N] = +(X[i, j])`; elementwise is `O = X + 1`"
            }
            _ if self.expects("function") => return self.definition(),
            _ => return None,
        };
        Some(help.to_owned())
    }

    /// Returns the help for what other languages and libraries write here.
    fn habit(&self) -> Option<&'static str> {
        let before = self.before().map(|(token, _)| token);
        let is_call = self.next == Some(Token::ParenOpen);
        Some(match self.found? {
            Token::Arrow if self.expects(";") => {
                "layers are joined with `|>`, as in `Y = X |> Dense(8);`"
            }
            Token::Int(_) | Token::Float(_)
                if matches!(before, Some(Token::Capital(_))) && self.expects("(") =>
            {
                "arguments stand in parentheses, as in `Dense(8)`"
            }
            Token::Capital(_) if self.expects(";") && self.is_on_new_line() && is_call => {
                "write `;` after the statement, or `|>` before the layer, as in `X |> Dense(8)`"
            }
            Token::Colon
                if self.expects("in") && matches!(self.unclosed(), Some((Token::ParenOpen, _))) =>
            {
                "sizes stand right after the name, as in `X[N, 4]`, and a default after `=`"
            }
            Token::Semicolon if self.expects("=") && self.starts_with_weight() => {
                "give it an initial value, as in `param Kernel[K, units] = zeros();`"
            }
            Token::Assign if self.expects(";") && !self.expects("==") => {
                "a statement assigns once: `B = X; A = B;`"
            }
            Token::Word("for") if matches!(self.unclosed(), Some((Token::BracketOpen, _))) => {
                "write the items out, as in `[1, 2, 3]`; `for i in range(3) { … }` repeats statements"
            }
            Token::BracketOpen if before == Some(Token::ParenClose) && self.expects(";") => {
                "give the list a name first, as in `sizes = dims(X);`, and then write `sizes[0]`"
            }
            Token::BracketOpen if self.expects(",") && self.expects(")") && !self.expects("/") => {
                "the sizes of outputs follow from the body: write the names alone, as in `-> (Y)`"
            }
            _ => return None,
        })
    }

    fn starts_with_weight(&self) -> bool {
        matches!(self.statement.first(), Some((Token::Word("param" | "state"), _)))
    }

    fn definition(&self) -> Option<String> {
        const KEYWORDS: [&str; 8] =
            ["function", "layer", "model", "loss", "metric", "optimizer", "train", "import"];
        let statement = "statements stand in the block of a `function`, `layer` or `model`";
        let suggestion = did_you_mean(self.text(self.place), KEYWORDS);
        let is_statement = matches!(self.found, Some(Token::Capital(_)));
        let help = if matches!(self.text(self.place), "fit" | "compile") {
            "training is a block of the file, `train Net { loss = …; optimizer = …; }`, which `tilec train FILE --data DIR` runs"
        } else if is_statement {
            statement
        } else {
            "a file has definitions, such as `model Net(X[N, 4]) -> (Y) { … }`"
        };
        suggestion.or_else(|| Some(help.to_owned()))
    }

    fn double_equals(&self) -> &'static str {
        match self.is_after(Token::BracketClose) && self.next == Some(Token::ParenOpen) {
            true => "put a space in between: `= =(…)` is the assign aggregation",
            false => "write `=` to assign",
        }
    }

    fn colon(&self) -> Option<&'static str> {
        let first = self.statement.first().map(|(token, _)| *token);
        Some(match self.unclosed() {
            Some((Token::ParenOpen, _))
                if self.statement.len() > 1
                    && matches!(first, Some(Token::Capital(_)))
                    && self.statement[1].0 == Token::ParenOpen =>
            {
                "indices stand in brackets, as in `Y[i, j: M, N] = +(X[i, j]);`"
            }
            Some((Token::ParenOpen, _)) => "an argument is given with `=`, as in `units = 3`",
            Some(_) => {
                "a part of a tensor is a contraction: `Y[i: 2] = =(X[i + 1]);` is `X[1:3]`, and `Y[i: N] = =(X[i, 0]);` is `X[:, 0]`"
            }
            None if first == Some(Token::Word("for")) => {
                "a block stands in braces, as in `for i in range(3) { … }`"
            }
            None if matches!(first, Some(Token::Word("if" | "else" | "scan" | "adapt"))) => {
                "a block stands in braces, as in `if deep { … }`"
            }
            None if self.statement.len() == 1 => "write `=`",
            None => return None,
        })
    }

    /// Returns whether `//` was meant as a division: a comment after an operand that ends with `;`.
    fn is_division_comment(&self) -> bool {
        let Some((_, before)) = self.before() else { return false };
        let rest =
            self.text(Span::new(before.end, self.place.start)).lines().next().unwrap_or_default();
        self.expects(";") && rest.trim_start().starts_with("//") && rest.trim_end().ends_with(';')
    }

    /// Returns whether the line has a name that starts with `#` before the place, or there.
    fn has_hash(&self) -> bool {
        let line =
            self.text(Span::new(self.base, self.place.end)).rsplit('\n').next().unwrap_or_default();
        line.trim_start().starts_with('#')
    }

    /// Returns whether the place is in parentheses that are not those of a call.
    fn is_tuple(&self) -> bool {
        let Some((Token::ParenOpen, span)) = self.unclosed() else { return false };
        let at = self.statement.partition_point(|(_, other)| other.start < span.start);
        let before = at.checked_sub(1).map(|before| self.statement[before].0);
        !matches!(
            before,
            Some(Token::Capital(_) | Token::Small(_) | Token::Word(_) | Token::ParenClose)
        )
    }

    /// Returns a number whose name without a comma after it was read as `2*name`, before `=`.
    fn missing_comma(&self) -> Option<(i64, Span)> {
        let [.., (Token::Int(number), span), (Token::Small(_) | Token::Word(_), _)] =
            self.statement
        else {
            return None;
        };
        (self.found == Some(Token::Assign)).then_some((*number, *span))
    }

    /// Returns whether the token at the place shows that a bracket before it should be closed.
    fn ends_brackets(&self) -> bool {
        match self.found {
            None | Some(Token::Semicolon | Token::BraceOpen | Token::BraceClose) => true,
            Some(Token::ParenClose | Token::BracketClose) => true,
            Some(Token::Capital(_)) => {
                self.is_on_new_line()
                    && matches!(self.next, Some(Token::Assign | Token::BracketOpen))
            }
            _ => false,
        }
    }

    /// Returns the innermost bracket of the statement that is open at the place, unless the place
    /// closes it.
    fn unclosed(&self) -> Option<(Token<'_>, Span)> {
        let mut open = Vec::new();
        for (token, span) in self.statement {
            match token {
                Token::ParenOpen | Token::BracketOpen => open.push((*token, *span)),
                Token::ParenClose | Token::BracketClose => _ = open.pop(),
                _ => {}
            }
        }
        let closes = |open: &Token| {
            matches!(
                (open, self.found),
                (Token::ParenOpen, Some(Token::ParenClose))
                    | (Token::BracketOpen, Some(Token::BracketClose))
            )
        };
        open.pop().filter(|(token, _)| !closes(token))
    }

    fn before(&self) -> Option<(Token<'_>, Span)> {
        self.statement.last().copied()
    }

    fn is_after(&self, token: Token) -> bool {
        self.before().is_some_and(|(before, _)| before == token)
    }

    fn is_on_new_line(&self) -> bool {
        self.before().is_some_and(|(_, before)| {
            self.text(Span::new(before.end, self.place.start)).contains('\n')
        })
    }

    fn expects(&self, token: &str) -> bool {
        self.expected.iter().any(|item| item.trim_matches('"') == token)
    }

    fn text(&self, span: Span) -> &str {
        span.of(self.source, self.base)
    }

    /// Summarizes the expected tokens in words. Returns `None` if there are too many.
    fn expected_words(&self) -> Option<String> {
        let expects = |token: &str| self.expects(token);
        let mut words: Vec<String> = Vec::new();
        if expects("function") {
            words.push("a definition (`function`, `layer`, `model`, `train`, …)".to_string());
        }
        let statement = expects("}") && expects(";") && expects("Capital");
        if statement {
            words.push("a statement".to_string());
        } else if expects("Int") && expects("(") {
            words.push("an expression".to_string());
        } else if expects("Capital") && expects("Name") {
            words.push("a name".to_string());
        } else if expects("Capital") {
            words.push("a size".to_string());
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
}
