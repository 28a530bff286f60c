//! Assigns the entries of files to the weights of a program, and checks that they fit.

use std::collections::{HashMap, HashSet};

use tile_compiler::tensor::TensorType;
use tile_lang::did_you_mean;

use super::options::{LoadOptions, LoadReport, WeightsSource};
use super::state_dict::{self, Answer, Recipe, Request};
use super::{Titles, WeightsError, WeightsFile, check, error, keras};

/// The names and types of weights or of entries.
pub(super) type Tensors = Vec<(String, TensorType)>;

/// The entries of a source's file.
#[derive(Clone)]
pub(crate) struct Entries {
    pub source: WeightsSource,
    pub tensors: Tensors,
    pub naming: Naming,
}

/// The names that entries have.
#[derive(Clone)]
pub(crate) enum Naming {
    /// The paths of weights.
    Weights,
    /// Those of Keras, with its names of the layers.
    Keras(Titles),
    /// Those of PyTorch.
    Torch {
        /// Whether the entries are in the order in which PyTorch made them.
        is_ordered: bool,
    },
}

/// The entries of a file that make a weight, and its path.
pub(crate) struct Pair {
    /// The index of the source.
    pub file: usize,
    pub recipe: Recipe,
    pub path: String,
}

/// A weight that a file has.
struct Named {
    recipe: Recipe,
    path: String,
    ty: TensorType,
}

/// The result of [`assign`].
pub(crate) struct Assigned {
    /// The entries to load. Those of training that the program lacks are among them.
    pub pairs: Vec<Pair>,
    pub report: LoadReport,
}

impl Entries {
    pub fn of(source: &WeightsSource, file: &WeightsFile) -> Entries {
        let part = source.part.as_deref();
        let names = file
            .tensors()
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| below(name, part).is_some());
        let naming = match file.titles() {
            Some(titles) => Naming::Keras(titles.clone()),
            None if state_dict::is_state_dict(names) => {
                Naming::Torch { is_ordered: file.is_ordered() }
            }
            None => Naming::Weights,
        };
        Entries { source: source.clone(), tensors: file.tensors().to_vec(), naming }
    }

    /// Returns whether the entries have the paths of weights.
    pub fn is_plain(&self) -> bool {
        matches!(self.naming, Naming::Weights)
    }

    /// Returns the path of the part to load. A Keras file may name it by its layer.
    fn part(&self) -> Option<&str> {
        let part = self.source.part.as_deref()?;
        let Naming::Keras(titles) = &self.naming else { return Some(part) };
        let titled = titles.iter().find(|(_, title)| *title == part);
        Some(titled.map_or(part, |(group, _)| group))
    }
}

/// Returns the rest of `path` below `prefix`, such as `dense.Kernel` of `base.dense.Kernel`.
pub(super) fn below<'p>(path: &'p str, prefix: Option<&str>) -> Option<&'p str> {
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

/// Returns the error of a weight that could not be made of its entries.
pub(crate) fn not_made(source: &WeightsSource, path: &str) -> WeightsError {
    error(&source.file, format!("there is no memory for `{path}`, or the file has changed"))
}

/// Returns the error of a path that contains nothing, with the nearest one that does.
fn no_such_part(file: &Entries, place: &str, path: &str, names: &Tensors) -> WeightsError {
    // A name of a file may have any number of parts.
    let ends = |name: &str| {
        name.match_indices(['.', '/', '[']).map(|(end, _)| end).take(64).collect::<Vec<_>>()
    };
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
        let others = (files.len() > 1).then_some(expected);
        let names = named(&wanted, others, file, &mapped[number], options)?;
        let is_wanted: HashSet<&str> = wanted.iter().map(|(path, _)| path.as_str()).collect();
        let mut found = Vec::new();
        for Named { recipe, path, ty } in names {
            let is_known = is_expected.contains(path.as_str());
            // A file for the whole program leaves parts of it to other files.
            if is_known && files.len() > 1 && !is_wanted.contains(path.as_str()) {
                continue;
            }
            if is_known || with_training || !check::is_of_training(&path) {
                found.push((path.clone(), ty));
            }
            assigned.pairs.push(Pair { file: number, recipe, path });
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        let unused = check::unused(&wanted, &found, options).map_err(|what| {
            error(&file.source.file, format!("it does not have the program's weights:\n  {what}"))
        })?;
        let is_unused: HashSet<&str> = unused.iter().map(String::as_str).collect();
        assigned
            .pairs
            .retain(|pair| pair.file != number || !is_unused.contains(pair.path.as_str()));
        filled.extend(found.into_iter().map(|(path, _)| path));
        assigned
            .report
            .unused
            .extend((!unused.is_empty()).then(|| (file.source.file.clone(), unused)));
    }
    let missing = expected.iter().map(|(path, _)| path).filter(|path| !filled.contains(*path));
    assigned.report.missing = missing.cloned().collect();
    Ok(assigned)
}

/// The paths that the map of names gives to a file.
struct Mapped {
    /// The path for each entry.
    entries: Vec<Option<String>>,
    /// The names and paths of modules of PyTorch.
    modules: Vec<(String, String)>,
}

/// Returns the paths that the map of names gives, for each file.
fn mapped(
    expected: &Tensors,
    files: &[Entries],
    options: &LoadOptions,
) -> Result<Vec<Mapped>, WeightsError> {
    let has_modules =
        |file: &Entries| matches!(file.naming, Naming::Torch { .. }) && !options.names.is_empty();
    let modules = |file: &Entries| {
        if has_modules(file) { state_dict::module_names(&file.tensors) } else { Vec::new() }
    };
    let modules: Vec<Vec<String>> = files.iter().map(modules).collect();
    let layers =
        if files.iter().any(has_modules) { state_dict::layer_names(expected) } else { Vec::new() };
    let both = |(file, modules): (&'_ Entries, &'_ Vec<String>)| -> Vec<String> {
        file.tensors.iter().map(|(name, _)| name).chain(modules).cloned().collect()
    };
    let names: Vec<String> = files.iter().zip(&modules).flat_map(both).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let weights: Vec<&str> =
        expected.iter().map(|(path, _)| path).chain(&layers).map(String::as_str).collect();
    let mut paths = options.names.apply(&names, &weights)?.into_iter();
    let of_file = |(file, modules): (&Entries, Vec<String>)| {
        let entries = paths.by_ref().take(file.tensors.len()).collect();
        let named = modules.into_iter().filter_map(|module| Some((module, paths.next()??)));
        Mapped { entries, modules: named.collect() }
    };
    Ok(files.iter().zip(modules).map(of_file).collect())
}

/// Checks that each source has a target of its own, and that its target and its part contain
/// something.
fn check_sources(expected: &Tensors, files: &[Entries]) -> Result<(), WeightsError> {
    let mut targets = HashSet::new();
    for file in files {
        let target = file.source.target.as_deref();
        if !targets.insert(target) {
            let place = target.map_or("the program".to_owned(), |target| format!("`{target}`"));
            let what = format!(
                "expected one file for {place}, found several; help: give each a path with `PATH=FILE`"
            );
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
fn owners(expected: &Tensors, files: &[Entries], mapped: &[Mapped]) -> Vec<Option<usize>> {
    let by_map: HashMap<&str, usize> = mapped
        .iter()
        .enumerate()
        .flat_map(|(number, mapped)| {
            mapped.entries.iter().flatten().map(move |path| (path.as_str(), number))
        })
        .collect();
    let owner = |path: &str| {
        let containing = (0..files.len())
            .filter(|&file| below(path, files[file].source.target.as_deref()).is_some());
        let length =
            |&file: &usize| files[file].source.target.as_ref().map_or(0, |target| target.len() + 1);
        by_map.get(path).copied().or_else(|| containing.max_by_key(length))
    };
    expected.iter().map(|(path, _)| owner(path)).collect()
}

/// Returns the weights that a file has, with the program's paths. `others` has the weights of all
/// files, if there are several.
fn named(
    wanted: &Tensors,
    others: Option<&Tensors>,
    file: &Entries,
    mapped: &Mapped,
    options: &LoadOptions,
) -> Result<Vec<Named>, WeightsError> {
    if let Naming::Torch { is_ordered } = file.naming {
        return torch_named(wanted, others, file, mapped, is_ordered, options);
    }
    let target = file.source.target.as_deref();
    let part = file.part();
    let mut named = Vec::new();
    let mut rest: (Vec<usize>, Tensors) = Default::default();
    for (entry, (name, ty)) in file.tensors.iter().enumerate() {
        if let Some(path) = &mapped.entries[entry] {
            named.push((entry, path.clone()));
        } else if let Some(inner) = below(name, part) {
            rest.0.push(entry);
            rest.1.push((inner.to_owned(), ty.clone()));
        }
    }
    let (numbers, entries) = rest;
    let inner: Vec<Option<String>> = match &file.naming {
        Naming::Keras(titles) => {
            let is_mapped: HashSet<&str> = named.iter().map(|(_, path)| path.as_str()).collect();
            let ours = wanted.iter().filter(|(path, _)| !is_mapped.contains(path.as_str()));
            let ours =
                ours.filter_map(|(path, ty)| Some((below(path, target)?.to_owned(), ty.clone())));
            let titles = titles
                .iter()
                .filter_map(|(group, title)| Some((below(group, part)?.to_owned(), title.clone())));
            keras::paths(&ours.collect::<Tensors>(), &entries, &titles.collect(), options)
                .map_err(|what| error(&file.source.file, what))?
        }
        _ => entries.into_iter().map(|(name, _)| Some(name)).collect(),
    };
    for (entry, path) in numbers.into_iter().zip(inner) {
        let unused = || file.tensors[entry].0.clone();
        named.push((entry, path.map_or_else(unused, |path| joined(target, &path))));
    }
    let whole = |(entry, path)| Named {
        recipe: Recipe::whole(entry),
        path,
        ty: file.tensors[entry].1.clone(),
    };
    Ok(named.into_iter().map(whole).collect())
}

/// Does the same for a file with names of PyTorch.
fn torch_named(
    wanted: &Tensors,
    others: Option<&Tensors>,
    file: &Entries,
    mapped: &Mapped,
    is_ordered: bool,
    options: &LoadOptions,
) -> Result<Vec<Named>, WeightsError> {
    let answer = |weights: &Tensors| {
        let request = Request {
            weights,
            entries: &file.tensors,
            part: file.part(),
            target: file.source.target.as_deref(),
            is_ordered,
            entry_paths: &mapped.entries,
            module_paths: &mapped.modules,
        };
        state_dict::answer(&request)
    };
    let mut found = answer(wanted);
    if !found.is_complete() {
        // A file for the whole program may have what other files fill.
        found = others.map(answer).filter(Answer::is_complete).unwrap_or(found);
    }
    if !found.faults.is_empty()
        || (!found.is_complete() && !options.partial && !options.allow_extra)
    {
        return Err(error(&file.source.file, found.explained(&file.tensors, file.part())));
    }
    let types: HashMap<&str, &TensorType> =
        others.unwrap_or(wanted).iter().map(|(path, ty)| (path.as_str(), ty)).collect();
    let made = found.recipes.into_iter().filter_map(|(path, recipe)| {
        let dtype = file.tensors[recipe.sources.first()?.entry].1.dtype;
        let ty = TensorType::new(dtype, types.get(path.as_str())?.shape.clone());
        Some(Named { recipe, path, ty })
    });
    let unused = found.unused.into_iter().map(|entry| {
        let (path, ty) = file.tensors[entry].clone();
        Named { recipe: Recipe::whole(entry), path, ty }
    });
    Ok(made.chain(unused).collect())
}
