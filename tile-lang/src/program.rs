//! A checked program: what later phases take.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::ast::{Function, FunctionKind};
use crate::builtin::{Builtin, builtin, builtin_names};
use crate::diagnostic::Diagnostic;
use crate::import::Loaded;
use crate::library;
use crate::sources::Sources;
use crate::span::Span;
use crate::suggest::did_you_mean;

/// The definitions of a file, of those that it imports, and what they reach of the library. No function reaches itself by
/// calls of names, and no chain of such calls is longer than [`crate::ast::MAX_DEPTH`].
#[derive(Clone, Debug)]
pub struct Program {
    /// The main file's in its order, then the imported files', then the library's.
    functions: Vec<Function>,
    /// How many are the main file's.
    own: usize,
    /// How many are the user's.
    written: usize,
    /// By the positions of the user's files.
    files: Vec<FileNames>,
    library: HashMap<String, usize>,
}

/// What a file of the user's sees, the library apart.
#[derive(Clone, Debug)]
struct FileNames {
    base: u32,
    names: HashMap<String, usize>,
}

/// What a name in a call stands for.
#[derive(Clone, Copy, Debug)]
pub enum Callee<'p> {
    Function(&'p Function),
    Builtin(Builtin),
}

impl Program {
    /// Of the user's files, the first of which is the main one, and what they reach of the library.
    pub(crate) fn new(sources: &Sources, loaded: Vec<Loaded>, diagnostics: &mut Vec<Diagnostic>) -> Program {
        let own = loaded.first().map_or(0, |file| file.functions.len());
        let mut functions: Vec<Function> = Vec::new();
        let mut imports = Vec::new();
        let mut files = Vec::new();
        for (file, source) in loaded.into_iter().zip(sources.files()) {
            let mut names = HashMap::new();
            for function in file.functions {
                if let Some(name) = &function.name {
                    match names.entry(name.name.clone()) {
                        Entry::Vacant(entry) => {
                            entry.insert(functions.len());
                        }
                        // The first one of a name counts.
                        Entry::Occupied(first) => diagnostics.push(defined_twice(&functions[*first.get()], &function)),
                    }
                }
                functions.push(function);
            }
            imports.push(file.imports);
            files.push(FileNames { base: source.base, names });
        }
        let written = functions.len();
        import_names(&mut files, &imports, &functions, diagnostics);
        functions.extend(library::reached(sources.files().iter().map(|source| source.text.as_str())));
        let library = functions.iter().enumerate().skip(written);
        let library = library.filter_map(|(index, function)| Some((function.name.as_ref()?.name.clone(), index)));
        Program { library: library.collect(), functions, own, written, files }
    }

    /// The functions, layers and models of the main file, in its order.
    pub fn functions(&self) -> &[Function] {
        &self.functions[..self.own]
    }

    /// Those of the files that it imports, too.
    pub(crate) fn written_functions(&self) -> &[Function] {
        &self.functions[..self.written]
    }

    pub(crate) fn all_functions(&self) -> &[Function] {
        &self.functions
    }

    /// What `name` calls in the body of `caller`: a function, layer or model of the caller's file, else of one that this
    /// imports, else of the library, else of the language. The library itself never sees those of the files.
    pub fn callee(&self, name: &str, caller: &Function) -> Option<Callee<'_>> {
        let index = self.callee_index(name, caller);
        index.map(|index| Callee::Function(&self.functions[index])).or_else(|| builtin(name).map(Callee::Builtin))
    }

    pub(crate) fn callee_index(&self, name: &str, caller: &Function) -> Option<usize> {
        let file = self.files.partition_point(|file| file.base <= caller.span.start);
        let file = file.checked_sub(1).filter(|_| !caller.span.in_library()).and_then(|file| self.files.get(file));
        file.and_then(|file| file.names.get(name)).or_else(|| self.library.get(name)).copied()
    }

    /// All names that can be called somewhere, those of the library that nothing reaches included.
    pub fn callable_names(&self) -> impl Iterator<Item = &str> + '_ {
        let written = self.written_functions().iter().filter_map(|function| function.name.as_ref());
        let library = library::names().chain(builtin_names()).map(|name| -> &str { name });
        written.map(|name| name.name.as_str()).chain(library)
    }

    /// What to run: what has that name in the main file or one that it imports; without a name, the main file's last
    /// model, or where there is none, its last function.
    pub fn entry(&self, name: Option<&str>) -> Result<&Function, Diagnostic> {
        let error = |message: String| Diagnostic::error("E0119", Span::default(), message);
        let names = || self.functions().iter().filter_map(|function| Some(function.name.as_ref()?.name.as_str()));
        let Some(wanted) = name else {
            let last = |kind| self.functions().iter().rfind(|function| function.kind == kind);
            return last(FunctionKind::Model).or_else(|| last(FunctionKind::Function)).ok_or_else(|| {
                let layers: Vec<&str> = names().collect();
                match layers.is_empty() {
                    true => error("this file has no function".to_string()),
                    false => error("this file has neither a model nor a function".to_string())
                        .help(format!("one of its layers runs where it is asked for: {}", layers.join(", "))),
                }
            });
        };
        let found = self.files.first().and_then(|main| main.names.get(wanted));
        found.map(|index| &self.functions[*index]).ok_or_else(|| {
            let error = error(format!("this file has no function `{wanted}`"));
            let names: Vec<&str> = names().collect();
            match did_you_mean(wanted, names.iter().copied()) {
                Some(help) => error.help(help),
                None if names.is_empty() => error.help("its functions have no names"),
                None => error.help(format!("it has {}", names.join(", "))),
            }
        })
    }
}

/// Adds to the names of each file those of the files that it imports, where it has none of its own.
fn import_names(
    files: &mut [FileNames],
    imports: &[Vec<usize>],
    functions: &[Function],
    diagnostics: &mut Vec<Diagnostic>,
) {
    let own: Vec<HashMap<String, usize>> = files.iter().map(|file| file.names.clone()).collect();
    for ((file, own_names), imports) in files.iter_mut().zip(&own).zip(imports) {
        for names in imports.iter().filter_map(|import| own.get(*import)) {
            // In the order of the texts, so that errors are.
            let mut names: Vec<(&String, &usize)> =
                names.iter().filter(|(name, _)| !own_names.contains_key(*name)).collect();
            names.sort_by_key(|(_, index)| **index);
            for (name, index) in names {
                let first = *file.names.entry(name.clone()).or_insert(*index);
                if first != *index {
                    let error = defined_twice(&functions[first], &functions[*index]);
                    diagnostics.push(Diagnostic {
                        code: "E0121",
                        message: format!("`{name}` is defined in two files that one file imports"),
                        help: Some(format!("rename one of them, or define `{name}` in the file that imports both")),
                        ..error
                    });
                }
            }
        }
    }
}

fn defined_twice(first: &Function, second: &Function) -> Diagnostic {
    let name = second.name.as_ref().map_or("", |name| &name.name);
    let place = |function: &Function| function.name.as_ref().map_or(function.span, |name| name.span);
    let message = format!("the {} `{name}` is defined twice", second.kind.keyword());
    Diagnostic::error("E0114", place(second), message).also(place(first), "the first one")
}
