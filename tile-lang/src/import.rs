//! A file and those that it imports, each read once.
//!
//! A path is looked for beside the file that imports it, then in the shipped library, whose names are visible anyway. Files may
//! import each other: what a file sees are its own definitions and those of the files that it imports itself.

use std::path::{Component, Path, PathBuf};

use crate::ast::{Alias, Function};
use crate::diagnostic::Diagnostic;
use crate::library::LIBRARY;
use crate::parser::parse_at;
use crate::sources::Sources;
use crate::suggest::did_you_mean;

/// The text of the file of a path, or none where there is none.
pub type Loader<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What one file has.
pub(crate) struct Loaded {
    pub functions: Vec<Function>,
    pub aliases: Vec<Alias>,
    /// The files that it imports.
    pub imports: Vec<usize>,
}

/// Reads the file called `name` and all that it reaches: the files in the order of `sources`, and what is wrong in them.
pub(crate) fn load(name: &str, text: &str, loader: Loader) -> (Sources, Vec<Loaded>, Vec<Diagnostic>) {
    let mut sources = Sources::new(name, text);
    let mut paths = vec![resolve("", name)];
    let mut files = Vec::new();
    let mut diagnostics = Vec::new();
    while let Some(source) = sources.files().get(files.len()) {
        let parsed = parse_at(&source.text, source.base);
        diagnostics.extend(parsed.diagnostics);
        let mut imports = Vec::new();
        for import in &parsed.file.imports {
            let path = resolve(&paths[files.len()], &import.path);
            if let Some(known) = paths.iter().position(|known| *known == path) {
                imports.push(known);
            } else if let Some(text) = loader(&path) {
                if sources.add(path.clone(), text).is_some() {
                    imports.push(paths.len());
                    paths.push(path);
                } else {
                    let error = Diagnostic::error("E0006", import.span, format!("the file `{path}` is too long"));
                    diagnostics.push(error.help("the files of a program must be shorter than 2 GiB, together"));
                }
            } else if !LIBRARY.iter().any(|file| file.name == import.path) {
                let message = format!("there is no file `{path}`, and none of that name in the library");
                let error = Diagnostic::error("E0120", import.span, message);
                diagnostics.push(match did_you_mean(&import.path, LIBRARY.iter().map(|file| file.name)) {
                    Some(help) => error.help(help),
                    None => error.help("the path is that from the folder of this file"),
                });
            }
        }
        files.push(Loaded { functions: parsed.file.functions, aliases: parsed.file.aliases, imports });
    }
    (sources, files, diagnostics)
}

/// The path that the file `from` means by `path`, without needless `.` and `..`.
fn resolve(from: &str, path: &str) -> String {
    let mut resolved = PathBuf::new();
    for component in Path::new(from).parent().unwrap_or(Path::new("")).join(path).components() {
        match (component, resolved.components().next_back()) {
            (Component::CurDir, _) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => {
                resolved.pop();
            }
            (component, _) => resolved.push(component),
        }
    }
    resolved.to_string_lossy().into_owned()
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
