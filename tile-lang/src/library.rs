//! The shipped library: the files of `std/`. Their definitions are visible to every program.
//!
//! A definition is parsed only if a program reaches it. Definitions are located by scanning for
//! lines that start with `function NAME`, the same with another keyword, or `NAME = `. The
//! canonical layout of the library ensures that only definitions start such lines.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::ast::File;
use crate::budget::Budget;
use crate::lexer::{Token, tokenize};
use crate::parser::parse_at;
use crate::span::LIBRARY_BASE;

/// A file of the shipped library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LibraryFile {
    /// The file name without its folder, such as `core.tile`.
    pub name: &'static str,
    /// The text.
    pub text: &'static str,
}

/// All files of the library, sorted by name.
pub const LIBRARY: &[LibraryFile] = include!(concat!(env!("OUT_DIR"), "/library.rs"));

/// Returns the files with the positions of their first bytes. One unused byte position separates
/// two files.
pub(crate) fn files() -> impl Iterator<Item = (&'static LibraryFile, u32)> {
    let mut base = LIBRARY_BASE;
    LIBRARY.iter().map(move |file| {
        let start = base;
        base += file.text.len() as u32 + 1;
        (file, start)
    })
}

/// The text and the position of each definition. The text extends to the start of the next
/// definition.
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

/// Returns the name that a line starts to define.
fn defined_by(line: &str) -> Option<&str> {
    let keyword = ["function ", "layer ", "model ", "optimizer ", "loss ", "metric "]
        .iter()
        .find_map(|keyword| line.strip_prefix(keyword));
    let rest = keyword.unwrap_or(line);
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '\'')?;
    (end > 0 && (keyword.is_some() || rest[end..].starts_with(" = "))).then_some(&rest[..end])
}

/// Returns the names of all definitions, in no particular order.
pub fn names() -> impl Iterator<Item = &'static str> {
    DEFINITIONS.keys().copied()
}

/// Returns the names that a file of the library defines.
pub(crate) fn names_in(file: &str) -> impl Iterator<Item = &'static str> {
    let text = LIBRARY.iter().find(|known| known.name == file).map_or("", |file| file.text);
    text.lines().filter_map(defined_by)
}

/// Returns the definitions whose names occur in `texts`, and the definitions that these reach in
/// turn.
pub(crate) fn reached<'a>(texts: impl Iterator<Item = &'a str>) -> File {
    let (mut reached, mut seen) = (Vec::new(), HashSet::new());
    texts.for_each(|text| add_reached(text, &mut reached, &mut seen));
    let mut file = File::default();
    let mut next = 0;
    while let Some((text, base)) = reached.get(next).and_then(|name| DEFINITIONS.get(name)) {
        let parsed = parse_at(text, *base, &Budget::unlimited()).file;
        file.functions.extend(parsed.functions);
        file.aliases.extend(parsed.aliases);
        add_reached(text, &mut reached, &mut seen);
        next += 1;
    }
    file
}

/// Adds the definitions whose names occur in a text.
fn add_reached(text: &str, reached: &mut Vec<&'static str>, seen: &mut HashSet<&'static str>) {
    for (token, _) in tokenize(text, 0).tokens {
        // A string literal may name a definition, too.
        if let Token::Capital(name) | Token::Small(name) | Token::Word(name) | Token::Text(name) =
            token
            && let Some((name, _)) = DEFINITIONS.get_key_value(name)
            && seen.insert(name)
        {
            reached.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the line scan finds the same definitions as the parser, and that no name is
    /// defined twice.
    #[test]
    fn every_definition_is_found_by_its_line() {
        let mut parsed: Vec<String> = Vec::new();
        for (file, base) in files() {
            let whole = parse_at(file.text, base, &Budget::unlimited());
            assert_eq!(whole.diagnostics, [], "{}", file.name);
            for function in whole.file.functions {
                let name = function.name.as_ref().map(|name| name.name.clone()).unwrap_or_default();
                let (text, base) = DEFINITIONS[name.as_str()];
                let only = File { functions: vec![function], ..File::default() };
                assert_eq!(parse_at(text, base, &Budget::unlimited()).file, only, "{name}");
                parsed.push(name);
            }
            for alias in whole.file.aliases {
                let name = alias.name.name.clone();
                let (text, base) = DEFINITIONS[name.as_str()];
                assert_eq!(
                    parse_at(text, base, &Budget::unlimited()).file,
                    File { aliases: vec![alias], ..File::default() },
                    "{name}"
                );
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
        let file = reached(["Y = relu6(X)"].into_iter());
        let names: Vec<&str> =
            file.functions.iter().filter_map(|f| Some(f.name.as_ref()?.name.as_str())).collect();
        assert_eq!(names, ["relu6"]);
        assert_eq!(reached(["Y = X"].into_iter()), File::default());
    }
}
