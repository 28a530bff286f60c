//! The modules of a state_dict: the parameters of each, with one name for each role.
//!
//! A module that is several layers here is divided:
//!
//! - `lstm.weight_ih_l1_reverse` belongs to `lstm.l1.backward`, as `weight_ih`. The level `l1` is
//!   left out if there is one, and `backward` if there is one direction.
//! - The thirds of `attention.in_proj_weight` belong to `attention.query`, `attention.key` and
//!   `attention.value`, as `weight`. `attention.out_proj` is `attention.output`.

use std::collections::{HashMap, HashSet};

use tile_compiler::tensor::TensorType;

use super::super::check::is_counter;

/// A module with parameters of its own.
pub struct Module {
    pub path: String,
    pub parameters: Vec<Parameter>,
}

/// A parameter or a buffer.
pub struct Parameter {
    /// The last part of its name, such as `weight`, without the number of a layer.
    pub role: String,
    pub entry: usize,
    /// The part of the entry's rows: its number, and the number of parts.
    pub rows: Option<(usize, usize)>,
    pub shape: Vec<usize>,
}

impl Module {
    pub fn parameter(&self, role: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.role == role)
    }
}

/// The parameters that tell a state_dict from other files.
const PARAMETERS: [&str; 7] = [
    "weight",
    "bias",
    "running_mean",
    "running_var",
    "in_proj_weight",
    "weight_ih_l0",
    "weight_ih",
];

/// Splits a name at the last `.`.
pub fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or(("", name))
}

/// Returns whether entries have names of PyTorch. Weights of a program begin with a capital.
pub fn is_state_dict<'a>(names: impl Iterator<Item = &'a str> + Clone) -> bool {
    let is_weight = |name: &str| split(name).1.starts_with(|first: char| first.is_uppercase());
    names.clone().any(|name| PARAMETERS.contains(&split(name).1)) && !names.clone().any(is_weight)
}

/// The recurrent layers of a module.
#[derive(Default)]
struct Recurrent {
    levels: usize,
    has_reverse: bool,
}

/// Splits `weight_ih_l1_reverse` into `weight_ih`, 1 and whether it is reverse.
fn recurrent(role: &str) -> Option<(&str, usize, bool)> {
    let (forward, reverse) =
        role.strip_suffix("_reverse").map_or((role, false), |forward| (forward, true));
    let (kind, level) = match forward.rsplit_once("_l") {
        Some((kind, level)) => (kind, level.parse().ok()?),
        None => (forward, 0),
    };
    ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]
        .contains(&kind)
        .then_some((kind, level, reverse))
}

/// The layers that the thirds of `in_proj_weight` are.
const PROJECTIONS: [&str; 3] = ["query", "key", "value"];

/// Returns the modules of a file in the order of their first entries. The counters of batch
/// normalizations are left out.
pub fn modules(entries: &[(String, TensorType)]) -> Vec<Module> {
    let mut composites: HashMap<&str, Recurrent> = HashMap::new();
    let mut attentions: HashSet<&str> = HashSet::new();
    for (name, ty) in entries {
        let (module, role) = split(name);
        if let Some((_, level, reverse)) = recurrent(role) {
            let known = composites.entry(module).or_default();
            known.levels = known.levels.max(level + 1);
            known.has_reverse |= reverse;
        }
        let is_thirds =
            role == "in_proj_weight" && ty.shape.first().is_some_and(|rows| rows % 3 == 0);
        if is_thirds || role == "q_proj_weight" {
            attentions.insert(module);
        }
    }
    let mut found = Found::default();
    for (entry, (name, ty)) in entries.iter().enumerate() {
        let (module, role) = split(name);
        let (outer, inner) = split(module);
        if is_counter(name) {
            continue;
        }
        if let (Some((kind, level, reverse)), Some(layers)) =
            (recurrent(role), composites.get(module))
        {
            let level = if layers.levels > 1 { format!("l{level}") } else { String::new() };
            let direction = match (layers.has_reverse, reverse) {
                (false, _) => "",
                (true, false) => "forward",
                (true, true) => "backward",
            };
            found.add(joined(&joined(module, &level), direction), kind, entry, None, &ty.shape);
        } else if inner == "out_proj" && attentions.contains(outer) {
            found.add(joined(outer, "output"), role, entry, None, &ty.shape);
        } else if attentions.contains(module) {
            found.attention(module, role, entry, &ty.shape);
        } else {
            found.add(module.to_owned(), role, entry, None, &ty.shape);
        }
    }
    found.modules
}

fn joined(path: &str, name: &str) -> String {
    match (path.is_empty(), name.is_empty()) {
        (_, true) => path.to_owned(),
        (true, _) => name.to_owned(),
        _ => format!("{path}.{name}"),
    }
}

#[derive(Default)]
struct Found {
    modules: Vec<Module>,
    by_path: HashMap<String, usize>,
}

impl Found {
    fn add(
        &mut self,
        path: String,
        role: &str,
        entry: usize,
        rows: Option<(usize, usize)>,
        shape: &[usize],
    ) {
        let next = self.modules.len();
        let number = *self.by_path.entry(path.clone()).or_insert(next);
        if number == next {
            self.modules.push(Module { path, parameters: Vec::new() });
        }
        let mut shape = shape.to_vec();
        if let (Some((_, parts)), Some(first)) = (rows, shape.first_mut()) {
            *first /= parts;
        }
        self.modules[number].parameters.push(Parameter {
            role: role.to_owned(),
            entry,
            rows,
            shape,
        });
    }

    /// Adds an entry of a `MultiheadAttention`.
    fn attention(&mut self, module: &str, role: &str, entry: usize, shape: &[usize]) {
        let divided = match role {
            "in_proj_weight" => Some("weight"),
            "in_proj_bias" if shape.first().is_some_and(|rows| rows % 3 == 0) => Some("bias"),
            _ => None,
        };
        let own =
            ["q_proj_weight", "k_proj_weight", "v_proj_weight"].iter().position(|own| *own == role);
        match (divided, own) {
            (Some(role), _) => {
                for (part, name) in PROJECTIONS.iter().enumerate() {
                    self.add(joined(module, name), role, entry, Some((part, 3)), shape);
                }
            }
            (None, Some(part)) => {
                self.add(joined(module, PROJECTIONS[part]), "weight", entry, None, shape)
            }
            (None, None) => self.add(module.to_owned(), role, entry, None, shape),
        }
    }
}
