//! Resolves the names of each file to definitions.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use crate::ast::{Alias, Function, FunctionKind, Ident};
use crate::budget::Budget;
use crate::diagnostic::Diagnostic;
use crate::library;
use crate::span::Span;
use crate::suggest::{SUGGESTIONS, did_you_mean};

/// A resolved name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    /// The index of the definition among all definitions of the program.
    pub function: usize,
    /// The place where the name was defined.
    place: Span,
}

pub(crate) type Names = HashMap<String, Named>;

/// Returns the names of the definitions of a file. `first` is the index of the file's first
/// definition. A `train` block is not a definition. A file has at most one for each model.
pub(crate) fn names_of(
    functions: &[Function],
    first: usize,
    diagnostics: &mut Vec<Diagnostic>,
) -> Names {
    let mut names = Names::new();
    let mut trained: HashMap<&str, Span> = HashMap::new();
    for (number, function) in functions.iter().enumerate() {
        let Some(name) = &function.name else { continue };
        if function.kind == FunctionKind::Train {
            match trained.entry(&name.name) {
                Entry::Vacant(entry) => _ = entry.insert(name.span),
                Entry::Occupied(entry) => {
                    diagnostics.push(defined_twice("`train` block of", name, *entry.get()))
                }
            }
            continue;
        }
        match names.entry(name.name.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(Named { function: first + number, place: name.span });
            }
            // The first definition of a name counts.
            Entry::Occupied(entry) => {
                diagnostics.push(defined_twice(function.kind.keyword(), name, entry.get().place));
            }
        }
    }
    names
}

fn defined_twice(what: &str, name: &Ident, first: Span) -> Diagnostic {
    let message = format!("the {what} `{}` is defined twice", name.name);
    Diagnostic::error("E0114", name.span, message).also(first, "the first one")
}

/// Adds the aliases of each file to its names. A target is looked up in the same file, then in the
/// files that it imports, then in the library's names `shipped`. The target may itself be an alias.
pub(crate) fn add_aliases(
    files: &mut [Names],
    imports: &[Vec<usize>],
    mut aliases: Vec<Vec<Alias>>,
    shipped: &Names,
    budget: &Budget,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut open: Vec<HashSet<String>> = Vec::new();
    for (aliases, names) in aliases.iter_mut().zip(&*files) {
        let mut seen: HashMap<String, Span> = HashMap::new();
        aliases.retain(|Alias { name, .. }| {
            let first =
                names.get(&name.name).map(|named| named.place).or(seen.get(&name.name).copied());
            match first {
                Some(first) => diagnostics.push(defined_twice("alias", name, first)),
                None => _ = seen.insert(name.name.clone(), name.span),
            }
            first.is_none()
        });
        open.push(seen.into_keys().collect());
    }
    loop {
        let before: usize = aliases.iter().map(Vec::len).sum();
        for file in 0..files.len() {
            for alias in std::mem::take(&mut aliases[file]) {
                if let Err(exceeded) = budget.spend(3 + imports[file].len() as u64) {
                    return diagnostics.push(exceeded.at(alias.name.span));
                }
                match target(files, imports, &open, shipped, file, &alias.target.name) {
                    Target::Found(named) => {
                        open[file].remove(&alias.name.name);
                        files[file]
                            .insert(alias.name.name, Named { place: alias.name.span, ..named });
                    }
                    Target::Open | Target::None => aliases[file].push(alias),
                }
            }
        }
        if aliases.iter().map(Vec::len).sum::<usize>() == before {
            break;
        }
    }
    // The remaining aliases have an unknown target, or form a cycle, or depend on such an alias.
    let left: Vec<(usize, &Alias)> = aliases
        .iter()
        .enumerate()
        .flat_map(|(file, aliases)| aliases.iter().map(move |alias| (file, alias)))
        .collect();
    let nothing = left.iter().filter(|(file, alias)| {
        matches!(target(files, imports, &open, shipped, *file, &alias.target.name), Target::None)
    });
    let errors: Vec<Diagnostic> = nothing
        .enumerate()
        .map(|(number, (_, Alias { target, .. }))| {
            let message = format!("unknown function, layer or model `{}`", target.name);
            let error = Diagnostic::error("E0102", target.span, message);
            let names = files.iter().flat_map(Names::keys).map(String::as_str);
            let names = names
                .chain(library::names().map(|name| -> &str { name }))
                .filter(|_| number < SUGGESTIONS);
            match did_you_mean(&target.name, names) {
                Some(help) => error.help(help),
                None => error.help("an alias is another name of a function, layer or model"),
            }
        })
        .collect();
    if let (true, Some((_, alias))) = (errors.is_empty(), left.first()) {
        let message = format!("`{}` is an alias of itself", alias.name.name);
        diagnostics.push(Diagnostic::error("E0111", alias.target.span, message));
    }
    diagnostics.extend(errors);
}

enum Target {
    Found(Named),
    /// An alias that is not resolved yet.
    Open,
    None,
}

fn target(
    files: &[Names],
    imports: &[Vec<usize>],
    open: &[HashSet<String>],
    shipped: &Names,
    file: usize,
    name: &str,
) -> Target {
    for place in [&[file], imports[file].as_slice()].concat() {
        if open[place].contains(name) {
            return Target::Open;
        }
        if let Some(named) = files[place].get(name) {
            return Target::Found(*named);
        }
    }
    shipped.get(name).map_or(Target::None, |named| Target::Found(*named))
}

/// Adds the names of imported files to each file. A file's own definitions take precedence.
pub(crate) fn add_imports(
    files: &mut [Names],
    imports: &[Vec<usize>],
    budget: &Budget,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let own: Vec<Names> = files.to_vec();
    for ((names, own_names), imports) in files.iter_mut().zip(&own).zip(imports) {
        for imported in imports.iter().filter_map(|import| own.get(*import)) {
            // The caller checks the budget after all names are known.
            let count = imported.len() as u64;
            if budget.spend(3 * count).and_then(|()| budget.take_bytes(100 * count)).is_err() {
                return;
            }
            // Sorted by place in the source, so that errors are, too.
            let mut imported: Vec<(&String, &Named)> =
                imported.iter().filter(|(name, _)| !own_names.contains_key(*name)).collect();
            imported.sort_by_key(|(_, named)| named.place);
            for (name, named) in imported {
                let first = *names.entry(name.clone()).or_insert(*named);
                if first.function != named.function {
                    let message = format!("`{name}` is defined in two imported files");
                    let error = Diagnostic::error("E0121", named.place, message)
                        .also(first.place, "the first one");
                    let help = format!(
                        "rename one of them, or define `{name}` in the file that imports both"
                    );
                    diagnostics.push(error.help(help));
                }
            }
        }
    }
}
