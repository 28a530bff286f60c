//! Loads a file and the files that it imports. Each file is read once.
//!
//! A path is resolved against the folder of the importing file. If that file is missing, the path
//! may name a file of the shipped library, whose definitions are visible anyway. Files may import
//! each other. A file sees its own definitions and those of the files that it imports directly.

use std::path::{Component, Path, PathBuf};

use crate::ast::{self, Alias, Function};
use crate::budget::Budget;
use crate::diagnostic::Diagnostic;
use crate::foreign::divisions;
use crate::library::LIBRARY;
use crate::parser::parse_at;
use crate::sources::Sources;

/// A callback that returns the file at a path.
pub type Loader<'a> = &'a dyn Fn(&str) -> Imported;

/// The result of looking up the path of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Imported {
    /// The text of a file.
    Text(String),
    /// There is no such file.
    Missing,
    /// The path must not be read. Has the reason and an instruction for fixing it.
    Refused {
        /// The reason, as part of a sentence.
        why: String,
        /// An instruction that mends the import.
        help: String,
    },
}

impl From<Option<String>> for Imported {
    fn from(text: Option<String>) -> Imported {
        text.map_or(Imported::Missing, Imported::Text)
    }
}

/// The parsed content of one file.
pub(crate) struct Loaded {
    pub functions: Vec<Function>,
    pub aliases: Vec<Alias>,
    /// The numbers of the files that it imports.
    pub imports: Vec<usize>,
}

/// Reads the file called `name` and all files that it reaches. Returns the files in the order of
/// the sources, and the diagnostics of all of them.
pub(crate) fn load(
    name: &str,
    text: &str,
    loader: Loader,
    budget: &Budget,
) -> (Sources, Vec<Loaded>, Vec<Diagnostic>) {
    let mut sources = Sources::new(name, text);
    let mut paths = vec![resolve("", name)];
    let mut files = Vec::new();
    let mut diagnostics = Vec::new();
    while let Some(source) = sources.files().get(files.len()) {
        let parsed = parse_at(&source.text, source.base, budget);
        diagnostics.extend(parsed.diagnostics);
        diagnostics.extend(divisions(&source.text, source.base, &parsed.comments));
        let mut imports = Vec::new();
        for import in &parsed.file.imports {
            let path = resolve(&paths[files.len()], &import.path);
            if let Err(exceeded) = budget.spend(10 + paths.len() as u64 / 8) {
                diagnostics.push(exceeded.at(import.span));
                break;
            }
            if let Some(known) = paths.iter().position(|known| *known == path) {
                imports.push(known);
                continue;
            }
            match loader(&path) {
                Imported::Text(text) => {
                    match sources.add(path.clone(), text) {
                        Some(_) => {
                            imports.push(paths.len());
                            paths.push(path);
                        }
                        None => {
                            let error = Diagnostic::error(
                                "E0006",
                                import.span,
                                format!("the file `{path}` is too long"),
                            );
                            diagnostics.push(error.help(
                                "the files of a program must be shorter than 2 GiB, together",
                            ));
                        }
                    }
                }
                Imported::Missing => diagnostics.extend(missing(import, &path)),
                Imported::Refused { why, help } => {
                    let error = Diagnostic::error(
                        "E0135",
                        import.span,
                        format!("cannot import `{path}`: {why}"),
                    );
                    diagnostics.push(error.help(help));
                }
            }
        }
        files.push(Loaded {
            functions: parsed.file.functions,
            aliases: parsed.file.aliases,
            imports,
        });
    }
    (sources, files, diagnostics)
}

/// Returns an error for a missing file, or `None` if the path names a file of the library.
fn missing(import: &ast::Import, path: &str) -> Option<Diagnostic> {
    if LIBRARY.iter().any(|file| file.name == import.path) {
        return None;
    }
    let error = Diagnostic::error("E0120", import.span, format!("cannot find the file `{path}`"));
    Some(error.help("a path starts from the folder of this file"))
}

/// Resolves `path` against the folder of the file `from`. Removes redundant `.` and `..`.
fn resolve(from: &str, path: &str) -> String {
    normal(&Path::new(from).parent().unwrap_or(Path::new("")).join(path))
        .to_string_lossy()
        .into_owned()
}

/// Removes redundant `.` and `..` from a path. A [`Loader`] gets paths in this form.
pub fn normal(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for component in path.components() {
        match (component, resolved.components().next_back()) {
            (Component::CurDir, _) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => {
                resolved.pop();
            }
            (component, _) => resolved.push(component),
        }
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::resolve;

    #[test]
    fn paths_are_relative_to_the_importing_file() {
        assert_eq!(resolve("", "./a/b.tile"), "a/b.tile");
        assert_eq!(resolve("a/b.tile", "c.tile"), "a/c.tile");
        assert_eq!(resolve("a/b.tile", "./d/../c.tile"), "a/c.tile");
        assert_eq!(resolve("a/b.tile", "../../c.tile"), "../c.tile");
        assert_eq!(resolve("a/b.tile", "/c/d.tile"), "/c/d.tile");
        assert_eq!(resolve("b.tile", "c.tile"), "c.tile");
    }
}
