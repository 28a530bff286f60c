//! The structure that ARCHITECTURE.md promises: no circle of imports between the folders of the
//! compiler, and files that can be read in one sitting.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The most lines of a source file.
const LINES: usize = 500;

/// The most lines of a function, with its header.
const LINES_OF_FUNCTION: usize = 80;

/// Adds the files in a folder and in the folders in it, except for build outputs, golden values and
/// snapshots.
fn add_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_skipped =
            ["target", "corpus", "golden", "snapshots"].iter().any(|name| path.ends_with(name));
        match path.is_dir() {
            true if is_skipped => {}
            true => add_files(&path, files),
            false => files.push(path),
        }
    }
}

/// Returns the sources in folders of the repository, by their paths from its root, with their text.
fn sources(folders: &[&str]) -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    folders.iter().for_each(|folder| add_files(&root.join(folder), &mut files));
    let is_source = |path: &PathBuf| {
        path.extension().is_some_and(|extension| {
            ["rs", "tile", "py", "lalrpop"].iter().any(|known| extension == *known)
        })
    };
    let name = |path: &Path| path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
    files
        .into_iter()
        .filter(is_source)
        .map(|path| (name(&path), fs::read_to_string(&path).unwrap()))
        .collect()
}

#[test]
fn files_can_be_read_in_one_sitting() {
    let all = sources(&[
        "benches",
        "compiler",
        "examples",
        "fuzz",
        "runtime",
        "src",
        "tests",
        "tile-lang",
    ]);
    assert!(all.len() > 400, "{} sources", all.len());
    let is_long = |(_, text): &(&String, &String)| text.lines().count() > LINES;
    let long: Vec<&str> = all.iter().filter(is_long).map(|(name, _)| name.as_str()).collect();
    assert!(long.is_empty(), "files over {LINES} lines: {long:?}");
}

/// Returns the functions of a formatted source with their lines. A function ends with the first
/// brace that is as far to the right as its header.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let header = |line: &str| {
        let before = line.split("fn ").next()?.trim();
        let is_header = before.split(' ').all(|word| {
            word.is_empty()
                || word.starts_with("pub")
                || ["const", "unsafe", "async", "extern", "\"C\""].contains(&word)
        });
        (is_header && line.contains("fn ")).then(|| line.len() - line.trim_start().len())
    };
    let function = |(number, line): (usize, &&'_ str)| {
        let end = format!("{}}}", " ".repeat(header(line)?));
        Some((number, lines[number..].iter().position(|line| *line == end)? + 1))
    };
    let found = lines.iter().enumerate().filter_map(function);
    found.map(|(number, length)| (lines[number].trim(), length)).collect()
}

#[test]
fn functions_fit_on_a_screen() {
    let mut long = Vec::new();
    for (name, text) in sources(&[
        "benches",
        "compiler",
        "examples",
        "fuzz",
        "runtime",
        "src",
        "tests",
        "tile-lang",
    ]) {
        let found = functions(&text).into_iter().filter(|_| name.ends_with(".rs"));
        long.extend(
            found
                .filter(|(_, lines)| *lines > LINES_OF_FUNCTION)
                .map(|(line, _)| format!("{name}: {line}")),
        );
    }
    assert!(long.is_empty(), "functions over {LINES_OF_FUNCTION} lines: {long:?}");
    let text = "impl A {\n    pub fn f() {\n        {\n        }\n    }\n\n    fn g() {}\n}\n";
    assert_eq!(functions(text), [("pub fn f() {", 4)]);
}

/// The modules that each module imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Returns the imports between the top modules of a crate: files and folders in its `src`. Tests
/// may import anything.
fn imports(sources: &BTreeMap<String, String>, src: &str) -> Imports {
    let module = |name: &str| {
        let inside = name.strip_prefix(src)?;
        let is_test =
            inside.contains("tests") || inside.ends_with("testing.rs") || inside == "lib.rs";
        let top = inside.split('/').next()?;
        (!is_test).then(|| top.trim_end_matches(".rs").to_owned())
    };
    let modules: BTreeSet<String> = sources.keys().filter_map(|name| module(name)).collect();
    let mut found = Imports::new();
    for (name, text) in sources {
        let Some(own) = module(name) else { continue };
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        for path in code.flat_map(|line| line.split("crate::").skip(1)) {
            assert!(!path.starts_with('{'), "{name} imports several modules in one statement");
            let end = path.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(path.len());
            if modules.contains(&path[..end]) && path[..end] != own {
                found.entry(own.clone()).or_default().insert(path[..end].to_owned());
            }
        }
    }
    found
}

/// Removes the modules that import none of the others, over and over. Those that remain are on
/// circles, or import a module that is.
fn circles(mut imports: Imports) -> Imports {
    loop {
        let count = imports.len();
        let left: BTreeSet<String> = imports.keys().cloned().collect();
        imports.values_mut().for_each(|imported| imported.retain(|module| left.contains(module)));
        imports.retain(|_, imported| !imported.is_empty());
        if imports.len() == count {
            return imports;
        }
    }
}

#[test]
fn folders_of_the_compiler_import_each_other_in_one_direction() {
    let found = imports(&sources(&["compiler/src"]), "compiler/src/");
    assert!(found["plan"].contains("schedule"), "{found:?}");
    let circles = circles(found);
    assert!(circles.is_empty(), "{circles:?}");
}

#[test]
fn circles_are_found() {
    let files = [
        ("src/a.rs", "use crate::b::B;\n// crate::c\n"),
        ("src/b/mod.rs", "use crate::c::D;\n#[cfg(test)]\nmod tests {\n use crate::a::A;\n}"),
        ("src/c.rs", "fn f() { crate::d::g() }"),
        ("src/d/tests.rs", "use crate::a::A;"),
        ("src/d/mod.rs", ""),
    ];
    let mut files: BTreeMap<String, String> =
        files.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
    let found = imports(&files, "src/");
    assert_eq!(format!("{found:?}"), r#"{"a": {"b"}, "b": {"c"}, "c": {"d"}}"#);
    assert_eq!(circles(found), Imports::new());
    files.insert("src/d/mod.rs".to_owned(), "use crate::b;".to_owned());
    let circles = circles(imports(&files, "src/"));
    assert_eq!(circles.keys().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
}
