//! The library has the public names of Keras 3: golden/layers/make.py made the lists in golden/.
//!
//! `cargo test --test names -- --nocapture` prints what is missing.

mod common;

use std::collections::HashSet;

use common::golden::text;

/// The number of names that may be missing, each with a reason.
const MOST: usize = 10;

/// Returns the names of the library's definitions.
fn library() -> Vec<String> {
    let files = tile_lang::LIBRARY.iter().map(|file| tile_lang::parse(file.text).file);
    let (functions, aliases): (Vec<_>, Vec<_>) =
        files.map(|file| (file.functions, file.aliases)).unzip();
    let functions =
        functions.into_iter().flatten().filter_map(|function| Some(function.name?.name));
    let aliases = aliases.into_iter().flatten().map(|alias| alias.name.name);
    functions.chain(aliases).collect()
}

/// Returns all names that every program sees: the library's definitions, and the functions of the
/// language.
fn known() -> HashSet<String> {
    library().into_iter().chain(tile_lang::builtin::builtin_names().map(String::from)).collect()
}

/// Its files share one list of names. Of two definitions of a name, one would be hidden.
#[test]
fn names_of_the_library_are_distinct() {
    let mut names = HashSet::new();
    let twice: Vec<String> =
        library().into_iter().filter(|name| !names.insert(name.clone())).collect();
    assert_eq!(twice, Vec::<String>::new());
}

/// Prints which names of a list are missing, and returns the faults: missing names without a
/// reason, and reasons for names that exist.
fn complaints(list: &str, most: usize) -> Vec<String> {
    let known = known();
    let file = text(list);
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    // A line is `NAME`, `NAME = ANOTHER`, or `NAME: reason`.
    let entries: Vec<(&str, Option<&str>)> = lines
        .map(|line| match line.split_once(": ") {
            Some((name, reason)) => (name, Some(reason)),
            None => (line.split(' ').next().unwrap_or(line), None),
        })
        .collect();
    let missing: Vec<_> = entries.iter().filter(|(name, _)| !known.contains(*name)).collect();
    println!("{list}: the library has {} of {}, not", entries.len() - missing.len(), entries.len());
    for (name, reason) in &missing {
        println!("    {name}: {}", reason.unwrap_or("no reason is given"));
    }
    let present = entries.iter().filter(|(name, reason)| reason.is_some() && known.contains(*name));
    let mut complaints: Vec<String> =
        present.map(|(name, _)| format!("{name} is there, and has a reason")).collect();
    if missing.len() > most {
        complaints.push(format!("{} are missing, more than {most}", missing.len()));
    }
    let unexplained = missing.iter().filter(|(_, reason)| reason.is_none());
    complaints.extend(unexplained.map(|(name, _)| format!("{name} is missing without a reason")));
    complaints
}

#[test]
fn layers() {
    assert_eq!(complaints("keras_layers.txt", MOST), Vec::<String>::new());
}

#[test]
fn functions() {
    assert_eq!(complaints("keras_functions.txt", 0), Vec::<String>::new());
}
