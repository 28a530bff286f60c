//! Errors and warnings as data. All phases report errors in this form.

use crate::span::Span;

/// The note of a call in whose callee a fault is.
const CALL: &str = "in this call";

/// The codes of errors whose message says all to a caller of the library: an unknown or unsuitable
/// value of an argument, and what the library reports by `error`.
const OF_ARGUMENTS: [&str; 6] = ["E0102", "E0206", "E0221", "E0222", "E0224", "E0228"];

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program has no meaning.
    Error,
    /// The program has a meaning, but hardly the intended one.
    Warning,
}

/// A place in the source, with a note about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The position in the sources.
    pub span: Span,
    /// The note, a phrase without a full stop.
    pub text: String,
}

/// One error or warning.
///
/// ```
/// let checked = tile_lang::check("function f(X[N]) -> (Y) { Y = 2 * x; }");
/// let diagnostic = &checked.diagnostics[0];
/// assert!(diagnostic.is_error());
/// assert_eq!(diagnostic.help.as_deref(), Some("did you mean `X`?"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The code, stable across releases: `E` or `W` and four digits. `E00xx` is syntax, `E01xx` the
    /// checker, `E02xx` shapes, types and index ranges.
    pub code: &'static str,
    /// An error or a warning.
    pub severity: Severity,
    /// One plain sentence with the actual sizes, types or names, without a full stop.
    pub message: String,
    /// The places. The first is the fault, or the user's call in which it is. The others conflict
    /// with it, or are the calls around it.
    pub labels: Vec<Label>,
    /// An instruction for fixing the fault.
    pub help: Option<String>,
}

impl Diagnostic {
    /// Creates an error at `span`.
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: Severity::Error,
            message: message.into(),
            labels: vec![Label { span, text: String::new() }],
            help: None,
        }
    }

    /// Creates a warning at `span`.
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// Sets the text of the first label.
    pub fn saying(mut self, text: impl Into<String>) -> Diagnostic {
        if let Some(label) = self.labels.first_mut() {
            label.text = text.into();
        }
        self
    }

    /// Adds another place with a note.
    pub fn also(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.labels.push(Label { span, text: text.into() });
        self
    }

    /// Adds the call in whose callee the fault is. Inner calls are added first.
    pub fn in_call(self, span: Span) -> Diagnostic {
        self.also(span, CALL)
    }

    /// Moves the user's own places before a fault in the library, and leaves out the calls between
    /// them, which the library makes.
    pub fn user_first(mut self) -> Diagnostic {
        let is_users = |label: &Label| !label.span.in_library();
        if self.labels.first().is_some_and(is_users) || !self.labels.iter().any(is_users) {
            return self;
        }
        let (mut users, mut library): (Vec<Label>, Vec<Label>) =
            self.labels.into_iter().partition(is_users);
        library.retain(|label| label.text != CALL && !OF_ARGUMENTS.contains(&self.code));
        if let ([], Some(first)) = (&library[..], users.first_mut()) {
            first.text.clear();
        }
        users.extend(library);
        self.labels = users;
        self
    }

    /// Adds an instruction that mends the program.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Returns whether it is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Formats a number of axes: `1 axis`, `2 axes`.
pub fn axes(count: usize) -> String {
    format!("{count} {}", if count == 1 { "axis" } else { "axes" })
}
