//! Assigns the entries of files to the weights of a program, and checks that they fit.

use std::collections::{HashMap, HashSet};

use tile_compiler::tensor::TensorType;
use tile_lang::did_you_mean;

use super::options::{LoadOptions, LoadReport, WeightsSource};
use super::{Titles, WeightsError, WeightsFile, check, error, keras};

/// The names and types of weights or of entries.
type Tensors = Vec<(String, TensorType)>;

/// The entries of a source's file.
#[derive(Clone)]
pub(crate) struct Entries {
    pub source: WeightsSource,
    pub tensors: Tensors,
    /// The Keras names of the layers, for a Keras file.
    pub titles: Option<Titles>,
}

/// An entry, and the path of the weight that it fills.
pub(crate) struct Pair {
    /// The index of the source.
    pub file: usize,
    /// The index of the entry in its file.
    pub entry: usize,
    pub path: String,
}

/// The result of [`assign`].
pub(crate) struct Assigned {
    /// The entries to load. Those of training that the program lacks are among them.
    pub pairs: Vec<Pair>,
    pub report: LoadReport,
}

impl Entries {
    pub fn of(source: &WeightsSource, file: &WeightsFile) -> Entries {
        Entries { source: source.clone(), tensors: file.tensors().to_vec(), titles: file.titles().cloned() }
    }

    /// Returns the path of the part to load. A Keras file may name it by its layer.
    fn part(&self) -> Option<&str> {
        let part = self.source.part.as_deref()?;
        let titled = self.titles.iter().flatten().find(|(_, title)| *title == part);
        Some(titled.map_or(part, |(group, _)| group))
    }
}

/// Returns the rest of `path` below `prefix`, such as `dense.Kernel` of `base.dense.Kernel`.
fn below<'p>(path: &'p str, prefix: Option<&str>) -> Option<&'p str> {
    let Some(prefix) = prefix else { return Some(path) };
    let rest = path.strip_prefix(prefix)?;
    if rest.starts_with('[') { Some(rest) } else { rest.strip_prefix(['.', '/']) }
}

/// Returns the path `rest` below `target`.
fn joined(target: Option<&str>, rest: &str) -> String {
    match target {
        Some(target) if rest.starts_with('[') => format!("{target}{rest}"),
        Some(target) => format!("{target}.{rest}"),
        None => rest.to_owned(),
    }
}

/// Returns the error of a path that contains nothing, with the nearest one that does.
fn no_such_part(file: &Entries, place: &str, path: &str, names: &Tensors) -> WeightsError {
    let ends = |name: &str| name.match_indices(['.', '/', '[']).map(|(end, _)| end).collect::<Vec<_>>();
    let known: HashSet<&str> =
        names.iter().flat_map(|(name, _)| ends(name).into_iter().map(|end| &name[..end])).collect();
    let guess = did_you_mean(path, known).map_or(String::new(), |guess| format!("; {guess}"));
    error(&file.source.file, format!("the {place} has no weights at `{path}`{guess}"))
}

/// Assigns the entries of `files` to the weights `expected`. Entries that serve only training are
/// ignored if the program lacks them, unless `with_training`.
///
/// # Errors
/// Fails if a path of the options contains nothing, or weights are missing, extra or of another
/// shape, with all of them.
pub(crate) fn assign(
    expected: &Tensors,
    files: &[Entries],
    options: &LoadOptions,
    with_training: bool,
) -> Result<Assigned, WeightsError> {
    let mapped = mapped(expected, files, options)?;
    check_sources(expected, files)?;
    let owners = owners(expected, files, &mapped);
    let is_expected: HashSet<&str> = expected.iter().map(|(path, _)| path.as_str()).collect();
    let mut assigned = Assigned { pairs: Vec::new(), report: LoadReport::default() };
    let mut filled: HashSet<String> = HashSet::new();
    for (number, file) in files.iter().enumerate() {
        let wanted = expected.iter().zip(&owners).filter(|(_, owner)| **owner == Some(number));
        let wanted: Tensors = wanted.map(|(weight, _)| weight.clone()).collect();
        let names = named(&wanted, file, &mapped[number])?;
        let is_wanted: HashSet<&str> = wanted.iter().map(|(path, _)| path.as_str()).collect();
        let mut found = Vec::new();
        for (entry, path) in names {
            let is_known = is_expected.contains(path.as_str());
            // A file for the whole program leaves parts of it to other files.
            if is_known && files.len() > 1 && !is_wanted.contains(path.as_str()) {
                continue;
            }
            if is_known || with_training || !check::is_of_training(&path) {
                found.push((path.clone(), file.tensors[entry].1.clone()));
            }
            assigned.pairs.push(Pair { file: number, entry, path });
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        let unused = check::unused(&wanted, &found, options)
            .map_err(|what| error(&file.source.file, format!("it does not have the program's weights:\n  {what}")))?;
        let is_unused: HashSet<&str> = unused.iter().map(String::as_str).collect();
        assigned.pairs.retain(|pair| pair.file != number || !is_unused.contains(pair.path.as_str()));
        filled.extend(found.into_iter().map(|(path, _)| path));
        assigned.report.unused.extend((!unused.is_empty()).then(|| (file.source.file.clone(), unused)));
    }
    let missing = expected.iter().map(|(path, _)| path).filter(|path| !filled.contains(*path));
    assigned.report.missing = missing.cloned().collect();
    Ok(assigned)
}

/// Returns the paths that the map of names gives, for each file and entry.
fn mapped(
    expected: &Tensors,
    files: &[Entries],
    options: &LoadOptions,
) -> Result<Vec<Vec<Option<String>>>, WeightsError> {
    let names: Vec<&str> = files.iter().flat_map(|file| &file.tensors).map(|(name, _)| name.as_str()).collect();
    let weights: Vec<&str> = expected.iter().map(|(path, _)| path.as_str()).collect();
    let mut paths = options.names.apply(&names, &weights)?.into_iter();
    Ok(files.iter().map(|file| paths.by_ref().take(file.tensors.len()).collect()).collect())
}

/// Checks that each source has a target of its own, and that its target and its part contain
/// something.
fn check_sources(expected: &Tensors, files: &[Entries]) -> Result<(), WeightsError> {
    let mut targets = HashSet::new();
    for file in files {
        let target = file.source.target.as_deref();
        if !targets.insert(target) {
            let place = target.map_or("the program".to_owned(), |target| format!("`{target}`"));
            let what = format!("expected one file for {place}, found several; help: give each a path with `PATH=FILE`");
            return Err(error(&file.source.file, what));
        }
        let sides = [("program", target, expected), ("file", file.part(), &file.tensors)];
        for (side, path, tensors) in sides {
            if let Some(path) = path
                && !tensors.iter().any(|(name, _)| below(name, Some(path)).is_some())
            {
                return Err(no_such_part(file, side, path, tensors));
            }
        }
    }
    Ok(())
}

/// Returns the index of the file that fills each weight: the one that maps an entry to it, or the
/// one with the longest target that contains it.
fn owners(expected: &Tensors, files: &[Entries], mapped: &[Vec<Option<String>>]) -> Vec<Option<usize>> {
    let by_map: HashMap<&str, usize> = mapped
        .iter()
        .enumerate()
        .flat_map(|(number, paths)| paths.iter().flatten().map(move |path| (path.as_str(), number)))
        .collect();
    let owner = |path: &str| {
        let containing = (0..files.len()).filter(|&file| below(path, files[file].source.target.as_deref()).is_some());
        let length = |&file: &usize| files[file].source.target.as_ref().map_or(0, |target| target.len() + 1);
        by_map.get(path).copied().or_else(|| containing.max_by_key(length))
    };
    expected.iter().map(|(path, _)| owner(path)).collect()
}

/// Returns the entries of a file to load, each with the program's path.
fn named(wanted: &Tensors, file: &Entries, mapped: &[Option<String>]) -> Result<Vec<(usize, String)>, WeightsError> {
    let target = file.source.target.as_deref();
    let part = file.part();
    let mut named = Vec::new();
    let mut rest: (Vec<usize>, Tensors) = Default::default();
    for (entry, (name, ty)) in file.tensors.iter().enumerate() {
        if let Some(path) = &mapped[entry] {
            named.push((entry, path.clone()));
        } else if let Some(inner) = below(name, part) {
            rest.0.push(entry);
            rest.1.push((inner.to_owned(), ty.clone()));
        }
    }
    let (numbers, entries) = rest;
    let inner: Vec<String> = match &file.titles {
        Some(titles) => {
            let is_mapped: HashSet<&str> = named.iter().map(|(_, path)| path.as_str()).collect();
            let ours = wanted.iter().filter(|(path, _)| !is_mapped.contains(path.as_str()));
            let ours = ours.filter_map(|(path, ty)| Some((below(path, target)?.to_owned(), ty.clone())));
            let titles =
                titles.iter().filter_map(|(group, title)| Some((below(group, part)?.to_owned(), title.clone())));
            keras::paths(&ours.collect::<Tensors>(), &entries, &titles.collect())
                .map_err(|what| error(&file.source.file, what))?
        }
        None => entries.into_iter().map(|(name, _)| name).collect(),
    };
    named.extend(numbers.into_iter().zip(inner.iter().map(|path| joined(target, path))));
    Ok(named)
}
