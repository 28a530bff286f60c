//! Text that can be laid out on one line or, where that is too long, on several.

/// The longest line, as far as breaking can make it so.
pub(super) const WIDTH: usize = 100;
pub(super) const INDENT: usize = 4;

pub(super) enum Layout {
    Text(String),
    /// A space, or the end of a line.
    Line,
    /// Nothing, or the end of a line.
    Break,
    Joined(Vec<Layout>),
    /// Indented once more where it breaks.
    Nested(Vec<Layout>),
    /// On one line if it fits; else every `Line` and `Break` directly in it ends a line.
    Group(Vec<Layout>),
}

impl Layout {
    pub fn text(text: impl Into<String>) -> Layout {
        Layout::Text(text.into())
    }

    /// Parts with commas in between, as they stand between two brackets.
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

    /// `open content close`, indented where it breaks.
    pub fn bracketed(open: impl Into<String>, mut content: Vec<Layout>, close: &str) -> Layout {
        content.insert(0, Layout::Break);
        Layout::Group(vec![Layout::text(open), Layout::Nested(content), Layout::Break, Layout::text(close)])
    }

    /// As one line.
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

    /// Adds it to `text`, whose last line it goes on with, at an indentation of `indent` columns.
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
            Layout::Joined(parts) => parts.iter().for_each(|part| part.write_broken(text, indent, broken)),
            Layout::Nested(parts) => parts.iter().for_each(|part| part.write_broken(text, indent + INDENT, broken)),
            Layout::Group(parts) => {
                let column = text.len() - text.rfind('\n').map_or(0, |end| end + 1);
                // One column for the `;` or `,` that most often follows.
                if column + self.width() < WIDTH {
                    self.write_flat(text);
                } else {
                    parts.iter().for_each(|part| part.write_broken(text, indent, true));
                }
            }
        }
    }
}
