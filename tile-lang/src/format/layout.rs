//! Text that is laid out on one line, or on several if it is too long.

/// The target width of a line. Text that cannot be broken may exceed it.
pub(super) const WIDTH: usize = 100;
pub(super) const INDENT: usize = 4;

pub(super) enum Layout {
    Text(String),
    /// A space, or the end of a line.
    Line,
    /// Nothing, or the end of a line.
    Break,
    Joined(Vec<Layout>),
    /// Parts that are indented one level more if they break.
    Nested(Vec<Layout>),
    /// Parts on one line if they fit. Otherwise every `Line` and `Break` directly in the group ends
    /// a line.
    Group(Vec<Layout>),
}

impl Layout {
    pub fn text(text: impl Into<String>) -> Layout {
        Layout::Text(text.into())
    }

    /// Joins items with commas, for use between two brackets.
    pub fn list(items: Vec<Layout>) -> Vec<Layout> {
        let mut parts = Vec::new();
        for item in items {
            if !parts.is_empty() {
                parts.extend([Layout::text(","), Layout::Line]);
            }
            parts.push(item);
        }
        parts
    }

    /// Returns `open content close`, with the content indented if it breaks.
    pub fn bracketed(open: impl Into<String>, mut content: Vec<Layout>, close: &str) -> Layout {
        content.insert(0, Layout::Break);
        Layout::Group(vec![
            Layout::text(open),
            Layout::Nested(content),
            Layout::Break,
            Layout::text(close),
        ])
    }

    /// Returns the text on one line.
    pub fn flat(&self) -> String {
        let mut text = String::new();
        self.write_flat(&mut text);
        text
    }

    fn write_flat(&self, text: &mut String) {
        match self {
            Layout::Text(part) => text.push_str(part),
            Layout::Line => text.push(' '),
            Layout::Break => {}
            Layout::Joined(parts) | Layout::Nested(parts) | Layout::Group(parts) => {
                parts.iter().for_each(|part| part.write_flat(text));
            }
        }
    }

    fn width(&self) -> usize {
        match self {
            Layout::Text(part) => part.len(),
            Layout::Line => 1,
            Layout::Break => 0,
            Layout::Joined(parts) | Layout::Nested(parts) | Layout::Group(parts) => {
                parts.iter().map(Layout::width).sum()
            }
        }
    }

    /// Appends the layout to the last line of `text`, with an indentation of `indent` columns.
    pub fn write(&self, text: &mut String, indent: usize) {
        self.write_broken(text, indent, true);
    }

    fn write_broken(&self, text: &mut String, indent: usize, broken: bool) {
        match self {
            Layout::Line | Layout::Break if broken => {
                text.push('\n');
                text.push_str(&" ".repeat(indent));
            }
            Layout::Text(_) | Layout::Line | Layout::Break => self.write_flat(text),
            Layout::Joined(parts) => {
                parts.iter().for_each(|part| part.write_broken(text, indent, broken))
            }
            Layout::Nested(parts) => {
                parts.iter().for_each(|part| part.write_broken(text, indent + INDENT, broken))
            }
            Layout::Group(parts) => {
                let column = text.len() - text.rfind('\n').map_or(0, |end| end + 1);
                // Leaves one column for the `;` or `,` that usually follows.
                if column + self.width() < WIDTH {
                    self.write_flat(text);
                } else {
                    parts.iter().for_each(|part| part.write_broken(text, indent, true));
                }
            }
        }
    }
}
