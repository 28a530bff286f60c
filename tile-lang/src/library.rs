//! The shipped library: the files of `std/`, whose definitions every program sees.
//!
//! A definition is read only where a program reaches it. So that one can be found without reading the others, a line of
//! the library starts with `function NAME` or another kind's, or `NAME = ` only where a definition does, which
//! its canonical layout sees to.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::ast::File;
use crate::lexer::{Token, tokenize};
use crate::parser::parse_at;
use crate::span::LIBRARY_BASE;

/// A file of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LibraryFile {
    /// Without its folder: `core.tile`.
    pub name: &'static str,
    pub text: &'static str,
}

/// Every file of the library, by name.
pub const LIBRARY: &[LibraryFile] = include!(concat!(env!("OUT_DIR"), "/library.rs"));

/// The files with the positions of their first bytes. Between two lies one byte that is in none.
pub(crate) fn files() -> impl Iterator<Item = (&'static LibraryFile, u32)> {
    let mut base = LIBRARY_BASE;
    LIBRARY.iter().map(move |file| {
        let start = base;
        base += file.text.len() as u32 + 1;
        (file, start)
    })
}

/// The text of each definition, from its first line to before the next definition, and its position.
static DEFINITIONS: LazyLock<HashMap<&'static str, (&'static str, u32)>> = LazyLock::new(|| {
    let mut found = HashMap::new();
    for (file, base) in files() {
        let mut starts: Vec<(usize, Option<&str>)> = Vec::new();
        let mut position = 0;
        for line in file.text.split_inclusive('\n') {
            if let Some(name) = defined_by(line) {
                starts.push((position, Some(name)));
            }
            position += line.len();
        }
        starts.push((position, None));
        for pair in starts.windows(2) {
            if let [(start, Some(name)), (end, _)] = pair {
                found.insert(*name, (&file.text[*start..*end], base + *start as u32));
            }
        }
    }
    found
});

/// The name that a line starts to define.
fn defined_by(line: &str) -> Option<&str> {
    let keyword = ["function ", "layer ", "model ", "optimizer ", "loss ", "metric "]
        .iter()
        .find_map(|keyword| line.strip_prefix(keyword));
    let rest = keyword.unwrap_or(line);
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '\'')?;
    (end > 0 && (keyword.is_some() || rest[end..].starts_with(" = "))).then_some(&rest[..end])
}

/// The names of all definitions, in no order.
pub fn names() -> impl Iterator<Item = &'static str> {
    DEFINITIONS.keys().copied()
}

/// The definitions that `texts` reach by their names, and those that these reach.
pub(crate) fn reached<'a>(texts: impl Iterator<Item = &'a str>) -> File {
    let mut reached: Vec<&str> = Vec::new();
    texts.for_each(|text| add_reached(text, &mut reached));
    let mut file = File::default();
    let mut next = 0;
    while let Some((text, base)) = reached.get(next).and_then(|name| DEFINITIONS.get(name)) {
        let parsed = parse_at(text, *base).file;
        file.functions.extend(parsed.functions);
        file.aliases.extend(parsed.aliases);
        add_reached(text, &mut reached);
        next += 1;
    }
    file
}

/// Adds the definitions whose names are in a text.
fn add_reached(text: &str, reached: &mut Vec<&'static str>) {
    for (token, _) in tokenize(text, 0).tokens {
        // A text may name what is called.
        if let Token::Capital(name) | Token::Small(name) | Token::Word(name) | Token::Text(name) = token
            && let Some((name, _)) = DEFINITIONS.get_key_value(name)
            && !reached.contains(name)
        {
            reached.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the scan finds is what the parser finds, and no name has two definitions.
    #[test]
    fn every_definition_is_found_by_its_line() {
        let mut parsed: Vec<String> = Vec::new();
        for (file, base) in files() {
            let whole = parse_at(file.text, base);
            assert_eq!(whole.diagnostics, [], "{}", file.name);
            for function in whole.file.functions {
                let name = function.name.as_ref().map(|name| name.name.clone()).unwrap_or_default();
                let (text, base) = DEFINITIONS[name.as_str()];
                let only = File { functions: vec![function], ..File::default() };
                assert_eq!(parse_at(text, base).file, only, "{name}");
                parsed.push(name);
            }
            for alias in whole.file.aliases {
                let name = alias.name.name.clone();
                let (text, base) = DEFINITIONS[name.as_str()];
                assert_eq!(parse_at(text, base).file, File { aliases: vec![alias], ..File::default() }, "{name}");
                parsed.push(name);
            }
        }
        let mut found: Vec<&str> = names().collect();
        found.sort_unstable();
        parsed.sort_unstable();
        assert_eq!(found, parsed);
    }

    #[test]
    fn what_is_not_reached_is_not_read() {
        let file = reached(["Y = sigmoid(X)"].into_iter());
        let names: Vec<&str> = file.functions.iter().filter_map(|f| Some(f.name.as_ref()?.name.as_str())).collect();
        assert_eq!(names, ["sigmoid"]);
        assert_eq!(reached(["Y = X"].into_iter()), File::default());
    }
}
