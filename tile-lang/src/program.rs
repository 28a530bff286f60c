//! A checked program: what later phases take.

use std::collections::HashMap;

use crate::ast::{File, Function};
use crate::builtin::{Builtin, builtin, builtin_names};
use crate::diagnostic::Diagnostic;
use crate::parser::parse_at;
use crate::span::{LIBRARY_BASE, Span};
use crate::suggest::did_you_mean;

/// The text of the library that every program sees; spans at [`LIBRARY_BASE`] and above lie in it.
pub const LIBRARY: &str = concat!(
    include_str!("../std/core.tile"),
    include_str!("../std/initializers.tile"),
    include_str!("../std/activations.tile"),
    include_str!("../std/dense.tile")
);

/// The functions of a file and those of the library. No function reaches itself by calls, and no chain of calls is
/// longer than [`crate::ast::MAX_DEPTH`].
#[derive(Clone, Debug)]
pub struct Program {
    /// The file's in its order, then the library's.
    functions: Vec<Function>,
    own: usize,
    by_name: HashMap<String, usize>,
    library_by_name: HashMap<String, usize>,
}

/// What a name in a call stands for.
#[derive(Clone, Copy, Debug)]
pub enum Callee<'p> {
    Function(&'p Function),
    Builtin(Builtin),
}

impl Program {
    pub(crate) fn new(file: File) -> Program {
        let mut functions = file.functions;
        let own = functions.len();
        functions.extend(parse_at(LIBRARY, LIBRARY_BASE).file.functions);
        let mut program = Program { functions, own, by_name: HashMap::new(), library_by_name: HashMap::new() };
        for (index, function) in program.functions.iter().enumerate() {
            if let Some(name) = &function.name {
                // The first one of a name counts: a file's before the library's.
                program.by_name.entry(name.name.clone()).or_insert(index);
                if index >= own {
                    program.library_by_name.insert(name.name.clone(), index);
                }
            }
        }
        program
    }

    /// The functions of the file, in its order.
    pub fn functions(&self) -> &[Function] {
        &self.functions[..self.own]
    }

    pub(crate) fn all_functions(&self) -> &[Function] {
        &self.functions
    }

    /// What `name` calls in the body of `caller`: a function of the file, else of the library, else of the language.
    /// The library itself never sees the functions of the file.
    pub fn callee(&self, name: &str, caller: &Function) -> Option<Callee<'_>> {
        let index = self.callee_index(name, caller);
        index.map(|index| Callee::Function(&self.functions[index])).or_else(|| builtin(name).map(Callee::Builtin))
    }

    pub(crate) fn callee_index(&self, name: &str, caller: &Function) -> Option<usize> {
        let names = if caller.span.in_library() { &self.library_by_name } else { &self.by_name };
        names.get(name).copied()
    }

    /// All names that can be called.
    pub fn callable_names(&self) -> impl Iterator<Item = &str> + '_ {
        let own = self.functions.iter().filter_map(|function| function.name.as_ref()).map(|name| name.name.as_str());
        own.chain(builtin_names().map(|name| -> &str { name }))
    }

    /// The function to run: the one of that name, else the last of the file.
    pub fn entry(&self, name: Option<&str>) -> Result<&Function, Diagnostic> {
        let named = || self.functions().iter().filter_map(|function| Some((function.name.as_ref()?, function)));
        let Some(wanted) = name else {
            return self
                .functions()
                .last()
                .ok_or_else(|| Diagnostic::error("E0119", Span::default(), "this file has no function"));
        };
        named().find(|(name, _)| name.name == wanted).map(|(_, function)| function).ok_or_else(|| {
            let error = Diagnostic::error("E0119", Span::default(), format!("this file has no function `{wanted}`"));
            let names: Vec<&str> = named().map(|(name, _)| name.name.as_str()).collect();
            match did_you_mean(wanted, names.iter().copied()) {
                Some(help) => error.help(help),
                None if names.is_empty() => error.help("its functions have no names"),
                None => error.help(format!("it has {}", names.join(", "))),
            }
        })
    }
}
