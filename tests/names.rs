//! The library has what Keras 3 has: the lists in golden/ are of its public names, made by golden/layers/make.py.
//!
//! `cargo test --test names -- --nocapture` prints what is missing.

mod common;

use std::collections::HashSet;

use common::golden::text;

/// The most that may be missing, each with its reason.
const MOST: usize = 10;

/// What every program sees: the library's definitions, and the functions of the language.
fn known() -> HashSet<String> {
    let files = tile_lang::LIBRARY.iter().map(|file| tile_lang::parse(file.text).file);
    let (functions, aliases): (Vec<_>, Vec<_>) = files.map(|file| (file.functions, file.aliases)).unzip();
    let functions = functions.into_iter().flatten().filter_map(|function| Some(function.name?.name));
    let aliases = aliases.into_iter().flatten().map(|alias| alias.name.name);
    functions.chain(aliases).chain(tile_lang::builtin::builtin_names().map(String::from)).collect()
}

/// Prints which names of a list are missing, and gives what is wrong: those that lack a reason, and those that have one but
/// are there.
fn complaints(list: &str, most: usize) -> Vec<String> {
    let known = known();
    let file = text(list);
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    // `NAME`, `NAME = ANOTHER`, `NAME: reason`.
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
    let mut complaints: Vec<String> = present.map(|(name, _)| format!("{name} is there, and has a reason")).collect();
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
