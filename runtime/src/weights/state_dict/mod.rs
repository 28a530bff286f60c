//! Maps the entries of a PyTorch state_dict to the weights of a program: which module is which
//! layer, and how each weight is made of the module's parameters.

mod layouts;
mod matching;
mod modules;
mod recipe;
mod tree;

use std::collections::{HashMap, HashSet};

use tile_compiler::tensor::TensorType;

use self::layouts::{Fault, Fit, Layer, Misfit, Weight, mapped, recipe};
use self::matching::{Matched, Matcher};
use self::modules::{Module, modules, split};
use self::tree::{Lists, ROOT, Tree, module_labels, path_of};
use super::assign::{Tensors, below};

pub use modules::is_state_dict;
pub(crate) use recipe::Recipe;

/// A state_dict, and the weights that it may fill.
pub struct Request<'a> {
    /// The weights of the program, or of the part to fill.
    pub weights: &'a Tensors,
    /// The entries of the file.
    pub entries: &'a Tensors,
    /// The part of the file to take, and of the program to fill.
    pub part: Option<&'a str>,
    pub target: Option<&'a str>,
    /// Whether the entries are in the order in which PyTorch made them.
    pub is_ordered: bool,
    /// The paths that a map gives to entries.
    pub entry_paths: &'a [Option<String>],
    /// The paths that a map gives to modules, or to what contains modules.
    pub module_paths: &'a [(String, String)],
}

/// The weights that a state_dict gives.
#[derive(Default)]
pub struct Answer {
    pub recipes: Vec<(String, Recipe)>,
    /// The entries that no weight takes.
    pub unused: Vec<usize>,
    /// The reasons why parameters do not fit the weights that their names or a map give.
    pub faults: Vec<String>,
    /// The layers without a module, and the modules without a layer.
    pub layers: Vec<String>,
    pub modules: Vec<String>,
    /// The first of these in the file's order that do not fit each other.
    pub difference: Option<String>,
}

/// The keys under which checkpoints have a state_dict.
const STATE_DICTS: [&str; 5] = ["state_dict", "model_state_dict", "model", "module", "net"];

impl Answer {
    /// Returns whether layers or modules are left over on one side at most.
    pub fn is_complete(&self) -> bool {
        self.faults.is_empty() && (self.layers.is_empty() || self.modules.is_empty())
    }

    /// Explains why the file does not fit, with advice.
    pub fn explained(&self, entries: &Tensors, part: Option<&str>) -> String {
        const SHOWN: usize = 12;
        let listed = |lines: &[String], indent: &str| {
            let more = lines.len().saturating_sub(SHOWN);
            let shown = lines
                .iter()
                .take(SHOWN)
                .map(|line| format!("\n{indent}{line}"))
                .collect::<String>();
            if more > 0 { format!("{shown}\n{indent}and {more} more") } else { shown }
        };
        if !self.faults.is_empty() {
            let help =
                "\n  help: change the layer here, or give it another module with `--weights-map`";
            return format!(
                "its parameters do not fit the program's weights:{}{help}",
                listed(&self.faults, "  ")
            );
        }
        let inner = |name: &str| module_labels(name).first().cloned().unwrap_or_default();
        let keys = unique(entries.iter().map(|(name, _)| inner(name)));
        let key = keys.iter().find(|key| STATE_DICTS.contains(&key.as_str()));
        let help = match key.filter(|_| part.is_none() && keys.len() > 1) {
            Some(key) => format!("take a part of the file, with `FILE#{key}`"),
            None => "name the layers as the modules, or write a file for `--weights-map` with a line `MODULE = LAYER` for each".to_owned(),
        };
        format!(
            "neither names nor order and shapes tell which modules are the program's layers:\n  in the program:{}\n  in the file:{}{}\n  help: {help}",
            listed(&self.layers, "    "),
            listed(&self.modules, "    "),
            listed(self.difference.as_slice(), "  "),
        )
    }
}

/// Returns the paths of the modules of a file, and of what contains them.
pub fn module_names(entries: &Tensors) -> Vec<String> {
    let paths = modules(entries).into_iter().map(|module| module.path);
    unique(
        paths.flat_map(|path| {
            ends(&path, &['.']).map(|end| path[..end].to_owned()).collect::<Vec<_>>()
        }),
    )
}

/// Returns the paths of the layers of a program, and of what contains them. The first of several
/// instances `blocks` is `blocks[0]`, too.
pub fn layer_names(weights: &Tensors) -> Vec<String> {
    let paths = || weights.iter().map(|(path, _)| split(path).0);
    let lists = Lists::new(paths());
    let whole = paths().flat_map(|path| ends(path, &['.', '[']).map(|end| path[..end].to_owned()));
    let numbered = paths().flat_map(|path| {
        let labels = lists.labels(path);
        (1..=labels.len()).map(|count| path_of(&labels[..count])).collect::<Vec<_>>()
    });
    unique(whole.chain(numbered))
}

/// Returns the positions at which parts of a path end.
fn ends<'p>(path: &'p str, separators: &'p [char]) -> impl Iterator<Item = usize> + use<'p> {
    let inner = path.match_indices(separators).map(|(end, _)| end);
    inner.take(64).chain([path.len()]).filter(|end| *end > 0)
}

fn unique(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut known = HashSet::new();
    names.filter(|name| known.insert(name.clone())).collect()
}

/// Matches the modules of a state_dict with the layers of a program.
pub fn answer(request: &Request) -> Answer {
    let mut answer = Answer::default();
    let mut all = modules(request.entries);
    let mapped = map_entries(request, &all, &mut answer);
    all.retain_mut(|module| {
        module.parameters.retain(|parameter| !mapped.contains(&parameter.entry));
        !module.parameters.is_empty()
    });
    let filled: HashSet<&str> = answer.recipes.iter().map(|(path, _)| path.as_str()).collect();
    let layers = layers(request.weights.iter().filter(|(path, _)| !filled.contains(path.as_str())));
    let found = matched(request, &layers, &all);
    for (layer, module) in found.pairs {
        let (layer, module) = (&layers[layer], &all[module]);
        let fit = Fit::new(layer, module);
        let weights = fit
            .recipes
            .into_iter()
            .map(|(weight, recipe)| (layer.weights[weight].path.clone(), recipe));
        answer.recipes.extend(weights);
        answer
            .faults
            .extend(fit.faults.iter().map(|fault| sentence(fault, layer, request.entries)));
        answer.unused.extend(fit.extra.iter().map(|extra| module.parameters[*extra].entry));
    }
    if request.is_ordered {
        let (mut ours, mut theirs) = (found.layers.clone(), found.modules.clone());
        ours.sort_unstable();
        theirs.sort_unstable();
        let pairs =
            ours.into_iter().zip(theirs).map(|(layer, module)| (&layers[layer], &all[module]));
        answer.difference = first_difference(pairs, request.entries);
    }
    answer.layers = found.layers.iter().map(|layer| described_layer(&layers[*layer])).collect();
    answer.modules = found.modules.iter().map(|module| described_module(&all[*module])).collect();
    let left = found.modules.iter().flat_map(|module| &all[*module].parameters);
    answer.unused.extend(left.map(|parameter| parameter.entry));
    let of_part = |name: &str| below(name, request.part).is_some();
    let counters =
        request.entries.iter().enumerate().filter(|(_, (name, _))| super::check::is_counter(name));
    answer.unused.extend(counters.filter(|(_, (name, _))| of_part(name)).map(|(entry, _)| entry));
    answer.unused.sort_unstable();
    answer.unused.dedup();
    answer
}

/// Describes the first layer and module in order that do not fit each other.
fn first_difference<'a>(
    mut pairs: impl Iterator<Item = (&'a Layer, &'a Module)>,
    entries: &Tensors,
) -> Option<String> {
    let unfit = |(layer, module): (&'a Layer, &'a Module)| {
        let fit = Fit::new(layer, module);
        let fault =
            fit.faults.first().map(|fault| format!(": {}", sentence(fault, layer, entries)));
        let places =
            format!("the first that differ are {} and {}", place(&layer.path), place(&module.path));
        (!fit.is_complete()).then(|| places + &fault.unwrap_or_default())
    };
    pairs.find_map(unfit)
}

/// Groups weights by their layers.
fn layers<'w>(weights: impl Iterator<Item = &'w (String, TensorType)>) -> Vec<Layer> {
    let mut layers: Vec<Layer> = Vec::new();
    let mut by_path: HashMap<&str, usize> = HashMap::new();
    for (path, ty) in weights {
        let (layer, name) = split(path);
        let number = *by_path.entry(layer).or_insert(layers.len());
        if number == layers.len() {
            layers.push(Layer { path: layer.to_owned(), weights: Vec::new() });
        }
        layers[number].weights.push(Weight {
            name: name.to_owned(),
            path: path.clone(),
            ty: ty.clone(),
        });
    }
    layers
}

/// Gives the entries of a map to their weights. Returns the entries of the map.
fn map_entries(request: &Request, all: &[Module], answer: &mut Answer) -> HashSet<usize> {
    let types: HashMap<&str, &TensorType> =
        request.weights.iter().map(|(path, ty)| (path.as_str(), ty)).collect();
    let mut used = HashSet::new();
    let mut filled = HashSet::new();
    for module in all {
        for parameter in &module.parameters {
            let Some(path) = &request.entry_paths[parameter.entry] else { continue };
            used.insert(parameter.entry);
            let Some(ty) = types.get(path.as_str()) else { continue };
            let name = split(path).1;
            // The weight may be made of several entries, such as a bias that is a sum.
            let recipe = recipe(name, &ty.shape, module).ok().filter(|recipe| {
                recipe.sources.iter().any(|source| source.entry == parameter.entry)
            });
            match recipe.map_or_else(|| mapped(name, &ty.shape, parameter), Ok) {
                Ok(recipe) if filled.insert(path) => answer.recipes.push((path.clone(), recipe)),
                Ok(_) | Err(Misfit::Missing) => {}
                Err(Misfit::Wrong(entry, reason)) => {
                    filled.insert(path);
                    answer.faults.push(unfit(path, ty, &request.entries[entry], &reason));
                }
            }
        }
    }
    used
}

/// Pairs the layers below the target with the modules below the part, and those of a map.
fn matched(request: &Request, layers: &[Layer], all: &[Module]) -> Matched {
    let lists = Lists::new(request.weights.iter().map(|(path, _)| split(path).0));
    let mut ours = Tree::new(layers.iter().map(|layer| lists.labels(&layer.path)));
    let mut theirs = Tree::new(all.iter().map(|module| module_labels(&module.path)));
    let mut roots = Vec::new();
    // The innermost first, so that each is detached from the one around it.
    let mut maps: Vec<(Vec<String>, Vec<String>)> = request
        .module_paths
        .iter()
        .map(|(module, layer)| (module_labels(module), lists.labels(layer)))
        .collect();
    maps.sort_by_key(|(module, _)| std::cmp::Reverse(module.len()));
    maps.dedup();
    for (module, layer) in maps {
        if let (Some(their), Some(our)) = (theirs.find(&module), ours.find(&layer)) {
            theirs.detach(their);
            ours.detach(our);
            roots.push((our, their));
        }
    }
    // A path that is divided into several modules has none of its own.
    let part = request.part.map_or(Some(ROOT), |part| theirs.find(&module_labels(part)));
    let target = request.target.map_or(Some(ROOT), |target| ours.find(&lists.labels(target)));
    let mut collapsed: Vec<_> =
        roots.iter().map(|(our, their)| (ours.collapse(*our), theirs.collapse(*their))).collect();
    collapsed.push((
        target.and_then(|node| ours.collapse(node)),
        part.and_then(|node| theirs.collapse(node)),
    ));
    let mut matched = Matched::default();
    let matcher = Matcher {
        layers,
        modules: all,
        ours: &ours,
        theirs: &theirs,
        is_ordered: request.is_ordered,
    };
    for (our, their) in collapsed {
        match (our, their) {
            (Some(our), Some(their)) => matcher.pair(our, their, &mut matched),
            (our, their) => {
                let items = |tree: &Tree, node: Option<usize>| -> Vec<usize> {
                    let leaves = node.map_or(Vec::new(), |node| tree.leaves(node));
                    leaves.into_iter().filter_map(|leaf| tree.nodes[leaf].item).collect()
                };
                matched.layers.extend(items(&ours, our));
                matched.modules.extend(items(&theirs, their));
            }
        }
    }
    matched
}

fn sentence(fault: &Fault, layer: &Layer, entries: &Tensors) -> String {
    let weight = &layer.weights[fault.weight];
    unfit(&weight.path, &weight.ty, &entries[fault.entry], &fault.reason)
}

fn unfit(path: &str, ty: &TensorType, entry: &(String, TensorType), reason: &str) -> String {
    let (name, found) = entry;
    format!("`{path}` must be {ty}, and `{name}`, {found}, {reason}")
}

fn described_layer(layer: &Layer) -> String {
    let weights: Vec<String> = layer
        .weights
        .iter()
        .map(|weight| format!("{} {:?}", weight.name, weight.ty.shape))
        .collect();
    format!("{}: {}", place(&layer.path), weights.join(", "))
}

fn described_module(module: &Module) -> String {
    let parameters: Vec<String> = module
        .parameters
        .iter()
        .map(|parameter| format!("{} {:?}", parameter.role, parameter.shape))
        .collect();
    format!("{}: {}", place(&module.path), parameters.join(", "))
}

fn place(path: &str) -> String {
    if path.is_empty() { "itself".to_owned() } else { format!("`{path}`") }
}
