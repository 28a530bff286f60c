//! [`Program`]: a checked program, the input of later phases.

use std::borrow::Cow;

use crate::ast::{File, Function, FunctionKind, Ident};
use crate::budget::Budget;
use crate::builtin::{Builtin, builtin, builtin_names};
use crate::diagnostic::Diagnostic;
use crate::import::Loaded;
use crate::library;
use crate::names::{Names, add_aliases, add_imports, names_of};
use crate::sources::Sources;
use crate::span::Span;
use crate::suggest::{did_you_mean, listed};

/// The definitions of a file and of the files that it imports, with the library definitions that
/// they reach. Calls of names do not recurse, and no chain of them is longer than
/// [`crate::ast::MAX_DEPTH`].
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The main file's definitions in source order, then the imported files', then the library's.
    functions: Vec<Function>,
    /// The number of definitions in the main file.
    own: usize,
    /// The number of definitions in the user's files.
    written: usize,
    /// The visible names of each of the user's files, sorted by position.
    files: Vec<FileNames>,
    library: Names,
}

/// The names that are visible in one of the user's files, without the library's.
#[derive(Clone, Debug)]
struct FileNames {
    base: u32,
    names: Names,
}

/// The target of a call.
#[derive(Clone, Copy, Debug)]
pub enum Callee<'p> {
    /// A function, layer or model of the program or the library.
    Function(&'p Function),
    /// A function that the compiler implements.
    Builtin(Builtin),
}

impl Program {
    /// Creates a program from the user's files, the main file first, and the library definitions
    /// that they reach.
    pub(crate) fn new(
        sources: &Sources,
        loaded: Vec<Loaded>,
        budget: &Budget,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Program {
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
        add_aliases(&mut names, &imports, aliases, &library, budget, diagnostics);
        add_imports(&mut names, &imports, budget, diagnostics);
        let files = sources
            .files()
            .iter()
            .zip(names)
            .map(|(source, names)| FileNames { base: source.base, names });
        Program { files: files.collect(), library, functions, own, written }
    }

    /// Returns the definitions of the main file, in source order.
    pub fn functions(&self) -> &[Function] {
        &self.functions[..self.own]
    }

    /// Returns the definitions of the main file and of the files that it imports.
    pub(crate) fn written_functions(&self) -> &[Function] {
        &self.functions[..self.written]
    }

    pub(crate) fn all_functions(&self) -> &[Function] {
        &self.functions
    }

    /// Resolves `name` in the body of `caller`. The caller's file is searched first, then the files
    /// that it imports, then the library, then the built-in functions. Library functions never see
    /// definitions of the user's files.
    pub fn callee(&self, name: &str, caller: &Function) -> Option<Callee<'_>> {
        let index = self.callee_index(name, caller);
        index
            .map(|index| Callee::Function(&self.functions[index]))
            .or_else(|| builtin(name).map(Callee::Builtin))
    }

    pub(crate) fn callee_index(&self, name: &str, caller: &Function) -> Option<usize> {
        let file = self.files.partition_point(|file| file.base <= caller.span.start);
        let file = file
            .checked_sub(1)
            .filter(|_| !caller.span.in_library())
            .and_then(|file| self.files.get(file));
        let named = file.and_then(|file| file.names.get(name)).or_else(|| self.library.get(name));
        named.map(|named| named.function)
    }

    /// Returns the `train` block of `model`: the main file's, or else the first one of the imported
    /// files.
    pub fn training(&self, model: &Function) -> Option<&Function> {
        let is_of_model =
            |train: &&Function| self.model_of(train).is_some_and(|found| found.span == model.span);
        self.written_functions().iter().find(is_of_model)
    }

    /// Returns the model of a `train` block, or `None` if this is no such block.
    fn model_of(&self, train: &Function) -> Option<&Function> {
        let name = train.name.as_ref().filter(|_| train.kind == FunctionKind::Train)?;
        Some(&self.functions[self.callee_index(&name.name, train)?])
    }

    /// Returns the main file's models with a `train` block, which may be in an imported file, and
    /// imported models whose block is in the main file, in the order of the blocks. They are
    /// trained in turn.
    pub fn trained_in_turn(&self) -> Vec<&Function> {
        let functions = self.functions();
        let own = functions.iter().filter(|model| model.kind == FunctionKind::Model);
        let is_imported = |model: &&Function| !functions.iter().any(|own| own.span == model.span);
        let imported =
            functions.iter().filter_map(|train| self.model_of(train)).filter(is_imported);
        let models = own.chain(imported);
        let block = |model| Some((self.training(model)?.span.start, model));
        let mut models: Vec<(u32, &Function)> = models.filter_map(block).collect();
        models.sort_by_key(|(start, _)| *start);
        models.into_iter().map(|(_, model)| model).collect()
    }

    /// Returns the model to train. A given name is looked up as by [`Program::entry`]. Without a
    /// name, the result is the main file's last model with a `train` block, or else the model of
    /// its last block.
    pub fn trained(&self, name: Option<&str>) -> Result<&Function, Diagnostic> {
        let is_trained = |function: &&Function| {
            function.kind == FunctionKind::Model && self.training(function).is_some()
        };
        let found = if name.is_none() { self.functions().iter().rfind(is_trained) } else { None };
        found.map_or_else(|| self.entry(name), Ok)
    }

    /// Returns the library's definition of `name`, if the program reaches it.
    pub fn library_function(&self, name: &str) -> Option<&Function> {
        Some(&self.functions[self.library.get(name)?.function])
    }

    /// Returns the program with the given library definitions added, if they are missing.
    pub fn with<'p>(&'p self, names: &[&str]) -> Cow<'p, Program> {
        let missing = names.iter().filter(|name| !self.library.contains_key(**name)).copied();
        let reached = library::reached(missing);
        if reached == File::default() {
            return Cow::Borrowed(self);
        }
        let mut program = self.clone();
        let library = std::mem::take(&mut program.library);
        // The library is free of errors, so there are no diagnostics.
        program.library = add_library(&mut program.functions, library, reached, &mut Vec::new());
        Cow::Owned(program)
    }

    /// Returns all names that can be called somewhere. Includes library definitions that nothing
    /// reaches.
    pub fn callable_names(&self) -> impl Iterator<Item = &str> + '_ {
        let written = self.files.iter().flat_map(|file| file.names.keys().map(String::as_str));
        let library = library::names().chain(builtin_names()).map(|name| -> &str { name });
        written.chain(library)
    }

    /// Returns the definition to run. A given name is looked up in the main file and the files that
    /// it imports. Without a name, the result is the main file's last model, or else the model of
    /// its last `train` block, or else its last function.
    pub fn entry(&self, name: Option<&str>) -> Result<&Function, Diagnostic> {
        let error = |message: String| Diagnostic::error("E0119", Span::default(), message);
        let names = || {
            self.functions()
                .iter()
                .filter_map(|function| Some(function.name.as_ref()?.name.as_str()))
        };
        let Some(wanted) = name else {
            let last = |kind| self.functions().iter().rfind(|function| function.kind == kind);
            let trained = || self.functions().iter().rev().find_map(|train| self.model_of(train));
            return last(FunctionKind::Model)
                .or_else(trained)
                .or_else(|| last(FunctionKind::Function))
                .ok_or_else(|| {
                    let layers: Vec<&str> = names().collect();
                    match layers.is_empty() {
                        true => error(
                            "expected a model or a function, found none in this file".to_string(),
                        ),
                        false => error(
                            "expected a model or a function, found only other definitions"
                                .to_string(),
                        )
                        .help(format!("choose a layer with `--entry`: {}", listed(&layers))),
                    }
                });
        };
        let found = self.files.first().and_then(|main| main.names.get(wanted));
        found.map(|named| &self.functions[named.function]).ok_or_else(|| {
            let error = error(format!("unknown model or function `{wanted}`"));
            let names: Vec<&str> = names().collect();
            match did_you_mean(wanted, names.iter().copied()) {
                Some(help) => error.help(help),
                None if names.is_empty() => error.help("the functions of this file have no names"),
                None => error.help(format!("the file has {}", listed(&names))),
            }
        })
    }
}

/// Adds the library definitions in `reached` that `library` lacks. Returns the names of all library
/// definitions.
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
    let budget = Budget::unlimited();
    add_aliases(&mut names, &[Vec::new()], vec![aliases], &Names::new(), &budget, diagnostics);
    let [library] = names;
    library
}
