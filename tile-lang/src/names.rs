//! Which definition each name of a file stands for.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use crate::ast::{Alias, Function, FunctionKind, Ident};
use crate::diagnostic::Diagnostic;
use crate::library;
use crate::span::Span;
use crate::suggest::did_you_mean;

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    /// The number of the definition among all of the program.
    pub function: usize,
    /// Where the name was given to it.
    place: Span,
}

pub(crate) type Names = HashMap<String, Named>;

/// The names of the definitions of a file, the first of which has the number `first`. A `train` block is no definition; a file has
/// one for a model at most.
pub(crate) fn names_of(functions: &[Function], first: usize, diagnostics: &mut Vec<Diagnostic>) -> Names {
    let mut names = Names::new();
    let mut trained: HashMap<&str, Span> = HashMap::new();
    for (number, function) in functions.iter().enumerate() {
        let Some(name) = &function.name else { continue };
        if function.kind == FunctionKind::Train {
            match trained.entry(&name.name) {
                Entry::Vacant(entry) => _ = entry.insert(name.span),
                Entry::Occupied(entry) => diagnostics.push(defined_twice("`train` block of", name, *entry.get())),
            }
            continue;
        }
        match names.entry(name.name.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(Named { function: first + number, place: name.span });
            }
            // The first one of a name counts.
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

/// Adds to the names of each file its aliases: what they name is in the same file, else in one that it imports, else in
/// the library, which is `shipped`; it may be an alias.
pub(crate) fn add_aliases(
    files: &mut [Names],
    imports: &[Vec<usize>],
    mut aliases: Vec<Vec<Alias>>,
    shipped: &Names,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut open: Vec<HashSet<String>> = Vec::new();
    for (aliases, names) in aliases.iter_mut().zip(&*files) {
        let mut seen: HashMap<String, Span> = HashMap::new();
        aliases.retain(|Alias { name, .. }| {
            let first = names.get(&name.name).map(|named| named.place).or(seen.get(&name.name).copied());
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
                match target(files, imports, &open, shipped, file, &alias.target.name) {
                    Target::Found(named) => {
                        open[file].remove(&alias.name.name);
                        files[file].insert(alias.name.name, Named { place: alias.name.span, ..named });
                    }
                    Target::Open | Target::None => aliases[file].push(alias),
                }
            }
        }
        if aliases.iter().map(Vec::len).sum::<usize>() == before {
            break;
        }
    }
    // What is left names nothing, or itself, or one of these.
    let left: Vec<(usize, &Alias)> =
        aliases.iter().enumerate().flat_map(|(file, aliases)| aliases.iter().map(move |alias| (file, alias))).collect();
    let nothing = left.iter().filter(|(file, alias)| {
        matches!(target(files, imports, &open, shipped, *file, &alias.target.name), Target::None)
    });
    let errors: Vec<Diagnostic> = nothing
        .map(|(_, Alias { target, .. })| {
            let message = format!("there is no function, layer or model `{}`", target.name);
            let error = Diagnostic::error("E0102", target.span, message);
            let names = files.iter().flat_map(Names::keys).map(String::as_str);
            match did_you_mean(&target.name, names.chain(library::names().map(|name| -> &str { name }))) {
                Some(help) => error.help(help),
                None => error.help("an alias is another name for one of these"),
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
    /// An alias of which it is not known yet what it names.
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

/// Adds to the names of each file those of the files that it imports, where it has none of its own.
pub(crate) fn add_imports(files: &mut [Names], imports: &[Vec<usize>], diagnostics: &mut Vec<Diagnostic>) {
    let own: Vec<Names> = files.to_vec();
    for ((names, own_names), imports) in files.iter_mut().zip(&own).zip(imports) {
        for imported in imports.iter().filter_map(|import| own.get(*import)) {
            // In the order of the texts, so that errors are.
            let mut imported: Vec<(&String, &Named)> =
                imported.iter().filter(|(name, _)| !own_names.contains_key(*name)).collect();
            imported.sort_by_key(|(_, named)| named.place);
            for (name, named) in imported {
                let first = *names.entry(name.clone()).or_insert(*named);
                if first.function != named.function {
                    let message = format!("`{name}` is defined in two files that one file imports");
                    let error = Diagnostic::error("E0121", named.place, message).also(first.place, "the first one");
                    let help = format!("rename one of them, or define `{name}` in the file that imports both");
                    diagnostics.push(error.help(help));
                }
            }
        }
    }
}
