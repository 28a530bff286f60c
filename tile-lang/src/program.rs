//! A checked program: what later phases take.

use std::borrow::Cow;

use crate::ast::{File, Function, FunctionKind, Ident};
use crate::builtin::{Builtin, builtin, builtin_names};
use crate::diagnostic::Diagnostic;
use crate::import::Loaded;
use crate::library;
use crate::names::{Names, add_aliases, add_imports, names_of};
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
    library: Names,
}

/// What a file of the user's sees, the library apart.
#[derive(Clone, Debug)]
struct FileNames {
    base: u32,
    names: Names,
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
        let reached = library::reached(sources.files().iter().map(|source| source.text.as_str()));
        let mut functions = Vec::new();
        let (mut names, mut aliases, mut imports) = (Vec::new(), Vec::new(), Vec::new());
        for file in loaded {
            names.push(names_of(&file.functions, functions.len(), diagnostics));
            functions.extend(file.functions);
            aliases.push(file.aliases);
            imports.push(file.imports);
        }
        let written = functions.len();
        let library = add_library(&mut functions, Names::new(), reached, diagnostics);
        add_aliases(&mut names, &imports, aliases, &library, diagnostics);
        add_imports(&mut names, &imports, diagnostics);
        let files = sources.files().iter().zip(names).map(|(source, names)| FileNames { base: source.base, names });
        Program { files: files.collect(), library, functions, own, written }
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
        let named = file.and_then(|file| file.names.get(name)).or_else(|| self.library.get(name));
        named.map(|named| named.function)
    }

    /// How `model` is trained: the main file's `train` block of it, else that of the first imported file with one.
    pub fn training(&self, model: &Function) -> Option<&Function> {
        let is_of_model = |train: &&Function| {
            let name = train.name.as_ref().filter(|_| train.kind == FunctionKind::Train);
            let index = name.and_then(|name| self.callee_index(&name.name, train));
            index.is_some_and(|index| self.functions[index].span == model.span)
        };
        self.written_functions().iter().find(is_of_model)
    }

    /// What the library defines by this name, of what the program has of it.
    pub fn library_function(&self, name: &str) -> Option<&Function> {
        Some(&self.functions[self.library.get(name)?.function])
    }

    /// The program that also has these definitions of the library, if it has them not.
    pub fn with<'p>(&'p self, names: &[&str]) -> Cow<'p, Program> {
        let missing = names.iter().filter(|name| !self.library.contains_key(**name)).copied();
        let reached = library::reached(missing);
        if reached == File::default() {
            return Cow::Borrowed(self);
        }
        let mut program = self.clone();
        let library = std::mem::take(&mut program.library);
        // The library is in order, so nothing is told.
        program.library = add_library(&mut program.functions, library, reached, &mut Vec::new());
        Cow::Owned(program)
    }

    /// All names that can be called somewhere, those of the library that nothing reaches included.
    pub fn callable_names(&self) -> impl Iterator<Item = &str> + '_ {
        let written = self.files.iter().flat_map(|file| file.names.keys().map(String::as_str));
        let library = library::names().chain(builtin_names()).map(|name| -> &str { name });
        written.chain(library)
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
        found.map(|named| &self.functions[named.function]).ok_or_else(|| {
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

/// Adds those definitions of the library to `functions` that `library` does not name yet; gives the names of all.
fn add_library(
    functions: &mut Vec<Function>,
    library: Names,
    reached: File,
    diagnostics: &mut Vec<Diagnostic>,
) -> Names {
    let is_new = |name: &Ident| !library.contains_key(&name.name);
    let mut new = reached.functions;
    new.retain(|function| function.name.as_ref().is_some_and(is_new));
    let mut aliases = reached.aliases;
    aliases.retain(|alias| is_new(&alias.name));
    let mut names = [library];
    names[0].extend(names_of(&new, functions.len(), diagnostics));
    functions.extend(new);
    add_aliases(&mut names, &[Vec::new()], vec![aliases], &Names::new(), diagnostics);
    let [library] = names;
    library
}
