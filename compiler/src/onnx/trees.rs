//! Decision trees: converts the attributes of `TreeEnsemble`, `TreeEnsembleRegressor` and
//! `TreeEnsembleClassifier` to tables, which `onnx_trees` of the library traverses.
//!
//! The tables have the inner nodes first, in the file's order, and then the leaves. A leaf leads to
//! itself, so that all trees are traversed in as many steps as the deepest one. A node that tests
//! set membership becomes a chain of nodes that each test equality with one member.
//!
//! Invariants: each node leads to existing nodes, and never back to itself. Time and memory are
//! bounded by the file's size.

use std::collections::{HashMap, HashSet};

use super::proto::{self, Attribute};
use super::tensor::{self, Loader};
use crate::dtype::{DType, Scalar};
use crate::tensor::{Tensor, TensorType};

/// The comparisons of a value with a node's, in the order of their numbers in `nodes_modes` of
/// `TreeEnsemble`.
const MODES: [&str; 6] =
    ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"];
const EQUAL: usize = 4;
const MEMBER: usize = 6;

const AGGREGATES: [&str; 4] = ["AVERAGE", "SUM", "MIN", "MAX"];
const TRANSFORMS: [&str; 5] = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"];

/// The most elements of the table of scores, [leaf, target].
const MAX_SCORES: usize = 1 << 24;

/// The tables of some trees.
pub struct Trees {
    pub roots: Tensor,
    pub features: Tensor,
    pub splits: Tensor,
    /// The modes by number, if they differ.
    pub modes: Option<Tensor>,
    pub mode: usize,
    /// The nodes at which a NaN takes the true branch, if any.
    pub missing: Option<Tensor>,
    pub yes: Tensor,
    pub no: Tensor,
    /// The scores of [leaf, target]. A missing one is the neutral element of the aggregate.
    pub scores: Tensor,
    /// The scores that the file has, if they differ between leaves.
    pub has: Option<Tensor>,
    /// The targets with a score in the first leaf, and in all leaves unless `has` is set.
    pub all_have: Vec<bool>,
    pub depth: usize,
    pub largest_feature: usize,
    pub aggregate: &'static str,
    pub transform: String,
    pub base_values: Vec<f64>,
    /// Whether no score is negative.
    pub is_positive: bool,
    /// The number of targets with a score in any leaf.
    pub targets_with_scores: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Child {
    Node(usize),
    Leaf(usize),
}

struct Node {
    feature: usize,
    split: f64,
    mode: usize,
    missing: bool,
    yes: Child,
    no: Child,
}

#[derive(Default)]
struct Forest {
    nodes: Vec<Node>,
    roots: Vec<Child>,
    leaves: usize,
    /// Leaf, target and score.
    scores: Vec<(usize, usize, f64)>,
}

/// The attributes of a node by name.
pub struct Attributes<'a> {
    pub given: &'a [(String, &'a Attribute)],
    pub loader: Loader<'a>,
}

impl Attributes<'_> {
    fn find(&self, name: &str) -> Option<&Attribute> {
        self.given.iter().find(|(known, _)| known == name).map(|(_, attribute)| *attribute)
    }

    fn ints(&self, name: &str) -> &[i64] {
        self.find(name).map_or(&[], |attribute| &attribute.ints)
    }

    pub fn int(&self, name: &str, default: i64) -> i64 {
        self.find(name).map_or(default, |attribute| attribute.int)
    }

    fn text(&self, name: &str, default: &str) -> String {
        self.find(name).map_or(default.to_owned(), |attribute| {
            String::from_utf8_lossy(&attribute.text).into_owned()
        })
    }

    fn texts(&self, name: &str) -> Vec<String> {
        let texts = self.find(name).map_or(&[][..], |attribute| &attribute.texts);
        texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
    }

    fn tensor(&self, name: &str) -> Result<Option<Tensor>, String> {
        let found = self.find(name).and_then(|attribute| attribute.tensor.as_ref());
        let read = |found: &proto::Tensor| {
            tensor::tensor(found, self.loader)
                .map_err(|what| format!("its attribute `{name}`: {what}"))
        };
        found.map(read).transpose()
    }

    /// Returns the numbers of a list, or of the tensor `NAME_as_tensor`.
    fn floats(&self, name: &str) -> Result<Vec<f64>, String> {
        match self.tensor(&format!("{name}_as_tensor"))? {
            Some(tensor) => Ok(tensor.to_f64s()),
            None => Ok(self
                .find(name)
                .map_or(Vec::new(), |a| a.floats.iter().map(|&v| f64::from(v)).collect())),
        }
    }

    fn is_double(&self, names: &[&str]) -> Result<bool, String> {
        for name in names {
            if self.tensor(name)?.is_some_and(|tensor| tensor.dtype() == DType::F64) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Checks that a list has `count` items, or none if it is optional.
fn counted(name: &str, found: usize, count: usize, is_optional: bool) -> Result<(), String> {
    match found == count || (is_optional && found == 0) {
        true => Ok(()),
        false => Err(format!("expected {count} items of `{name}`, found {found}")),
    }
}

fn below(name: &str, value: i64, size: usize) -> Result<usize, String> {
    let number = usize::try_from(value).ok().filter(|&number| number < size);
    number.ok_or_else(|| format!("expected numbers below {size} in `{name}`, found {value}"))
}

/// Reads the trees of `TreeEnsembleRegressor` and `TreeEnsembleClassifier`. `prefix` starts the
/// names of the leaves' attributes.
pub fn by_ids(given: &Attributes, prefix: &str, targets: usize) -> Result<Trees, String> {
    let (tree_ids, node_ids) = (given.ints("nodes_treeids"), given.ints("nodes_nodeids"));
    let count = tree_ids.len();
    let names = ["nodes_nodeids", "nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids"];
    names.iter().try_for_each(|name| counted(name, given.ints(name).len(), count, false))?;
    let (modes, splits) = (given.texts("nodes_modes"), given.floats("nodes_values")?);
    counted("nodes_modes", modes.len(), count, false)?;
    counted("nodes_values", splits.len(), count, false)?;
    let missing = given.ints("nodes_missing_value_tracks_true");
    counted("nodes_missing_value_tracks_true", missing.len(), count, true)?;

    let mut children = HashMap::new();
    let (mut inner, mut forest) = (0, Forest::default());
    for number in 0..count {
        let next = if modes[number] == "LEAF" { &mut forest.leaves } else { &mut inner };
        let child = if modes[number] == "LEAF" { Child::Leaf(*next) } else { Child::Node(*next) };
        *next += 1;
        if children.insert((tree_ids[number], node_ids[number]), child).is_some() {
            return Err(format!(
                "tree {} has the node {} twice",
                tree_ids[number], node_ids[number]
            ));
        }
    }
    let child = |tree: i64, node: i64| {
        children
            .get(&(tree, node))
            .copied()
            .ok_or_else(|| format!("tree {tree} has no node {node}"))
    };
    for number in (0..count).filter(|&number| modes[number] != "LEAF") {
        let tree = tree_ids[number];
        let [yes, no] = ["nodes_truenodeids", "nodes_falsenodeids"]
            .map(|name| child(tree, given.ints(name)[number]));
        let (yes, no) = (yes?, no?);
        let mode = MODES.iter().position(|known| *known == modes[number]);
        forest.nodes.push(Node {
            feature: below(
                "nodes_featureids",
                given.ints("nodes_featureids")[number],
                i32::MAX as usize,
            )?,
            split: splits[number],
            mode: mode.ok_or_else(|| format!("there is no mode `{}`", modes[number]))?,
            missing: missing.get(number).is_some_and(|&missing| missing != 0),
            yes,
            no,
        });
    }
    // The first node of a tree is its root, as in ONNX Runtime.
    let mut trees = HashSet::new();
    for number in (0..count).filter(|&number| trees.insert(tree_ids[number])) {
        forest.roots.push(child(tree_ids[number], node_ids[number])?);
    }
    let [trees, nodes, ids] =
        ["treeids", "nodeids", "ids"].map(|end| given.ints(&format!("{prefix}_{end}")));
    let weights = given.floats(&format!("{prefix}_weights"))?;
    counted(&format!("{prefix}_treeids"), trees.len(), weights.len(), false)?;
    counted(&format!("{prefix}_nodeids"), nodes.len(), weights.len(), false)?;
    counted(&format!("{prefix}_ids"), ids.len(), weights.len(), false)?;
    for (number, &weight) in weights.iter().enumerate() {
        let Child::Leaf(leaf) = child(trees[number], nodes[number])? else {
            return Err(format!(
                "the node {} of tree {} has a score, and is no leaf",
                nodes[number], trees[number]
            ));
        };
        forest.scores.push((leaf, below(&format!("{prefix}_ids"), ids[number], targets)?, weight));
    }
    let aggregate = given.text("aggregate_function", "SUM");
    let aggregate = AGGREGATES.into_iter().find(|known| *known == aggregate);
    let aggregate = aggregate.ok_or("there is no such `aggregate_function`")?;
    let tensors =
        ["nodes_values_as_tensor", &format!("{prefix}_weights_as_tensor"), "base_values_as_tensor"];
    Ok(Trees {
        transform: given.text("post_transform", "NONE"),
        base_values: given.floats("base_values")?,
        ..forest.tables(targets, given.is_double(&tensors)?, aggregate)?
    })
}

/// Reads the trees of `TreeEnsemble`.
pub fn by_places(given: &Attributes, targets: usize) -> Result<Trees, String> {
    let count = given.ints("nodes_featureids").len();
    let tensor = |name: &str| given.tensor(name)?.ok_or_else(|| format!("it has no `{name}`"));
    let (splits, modes) = (tensor("nodes_splits")?.to_f64s(), tensor("nodes_modes")?);
    counted("nodes_splits", splits.len(), count, false)?;
    counted("nodes_modes", modes.ty().elements(), count, false)?;
    for name in ["nodes_trueleafs", "nodes_falseleafs", "nodes_truenodeids", "nodes_falsenodeids"] {
        counted(name, given.ints(name).len(), count, false)?;
    }
    let missing = given.ints("nodes_missing_value_tracks_true");
    counted("nodes_missing_value_tracks_true", missing.len(), count, true)?;
    let (ids, weights) = (given.ints("leaf_targetids"), tensor("leaf_weights")?.to_f64s());
    counted("leaf_targetids", ids.len(), weights.len(), false)?;
    let members = given.tensor("membership_values")?.map_or(Vec::new(), |tensor| tensor.to_f64s());
    let mut sets = members.split(|value| value.is_nan());

    let mut forest = Forest { leaves: weights.len(), ..Forest::default() };
    let child = |node: usize, way: &str| {
        let id = given.ints(&format!("nodes_{way}nodeids"))[node];
        match given.ints(&format!("nodes_{way}leafs"))[node] {
            0 => below(&format!("nodes_{way}nodeids"), id, count).map(Child::Node),
            _ => below(&format!("nodes_{way}nodeids"), id, weights.len()).map(Child::Leaf),
        }
    };
    let mut chains = Vec::new();
    for (node, &split) in splits.iter().enumerate() {
        let mode = modes.get(node).to_i64();
        let mode = below("nodes_modes", mode, MEMBER + 1)?;
        if mode == MEMBER {
            let set = sets.next().filter(|set| !set.is_empty());
            chains.push((node, set.ok_or("`membership_values` has too few sets")?));
        }
        forest.nodes.push(Node {
            feature: below(
                "nodes_featureids",
                given.ints("nodes_featureids")[node],
                i32::MAX as usize,
            )?,
            split,
            mode: if mode == MEMBER { EQUAL } else { mode },
            missing: missing.get(node).is_some_and(|&missing| missing != 0),
            yes: child(node, "true")?,
            no: child(node, "false")?,
        });
    }
    // The last node of a chain keeps the false branch. The first is the node itself.
    for (first, set) in chains {
        let Node { feature, missing, yes, no, .. } = forest.nodes[first];
        forest.nodes[first].split = set[0];
        let mut last = first;
        for &split in &set[1..] {
            let next = forest.nodes.len();
            forest.nodes[last].no = Child::Node(next);
            forest.nodes.push(Node { feature, split, mode: EQUAL, missing, yes, no });
            last = next;
        }
    }
    for &root in given.ints("tree_roots") {
        // A root with the same leaf on both branches is a tree of that leaf only.
        forest.roots.push(Child::Node(below("tree_roots", root, count)?));
    }
    for (leaf, (&id, &weight)) in ids.iter().zip(&weights).enumerate() {
        forest.scores.push((leaf, below("leaf_targetids", id, targets)?, weight));
    }
    let named = |name: &str, default: i64, names: &[&'static str]| {
        below(name, given.int(name, default), names.len()).map(|number| names[number])
    };
    let aggregate = named("aggregate_function", 1, &AGGREGATES)?;
    let is_double = given.is_double(&["nodes_splits", "leaf_weights"])?;
    Ok(Trees {
        transform: named("post_transform", 0, &TRANSFORMS)?.to_owned(),
        ..forest.tables(targets, is_double, aggregate)?
    })
}

impl Forest {
    fn tables(
        &self,
        targets: usize,
        is_double: bool,
        aggregate: &'static str,
    ) -> Result<Trees, String> {
        if self.roots.is_empty() || targets == 0 {
            return Err("it has no trees or no targets".into());
        }
        let depth = self.depth()?;
        let inner = self.nodes.len();
        let number = |child: &Child| match *child {
            Child::Node(number) => number,
            Child::Leaf(leaf) => inner + leaf,
        };
        let size = self.leaves.checked_mul(targets).filter(|&size| size <= MAX_SCORES);
        let size = size
            .ok_or_else(|| format!("{} leaves with {targets} targets are too many", self.leaves))?;
        let mut has = vec![false; size];
        let (none, join): (f64, fn(f64, f64) -> f64) = match aggregate {
            "MIN" => (f64::INFINITY, f64::min),
            "MAX" => (f64::NEG_INFINITY, f64::max),
            _ => (0.0, |a, b| a + b),
        };
        let mut scores = vec![none; size];
        for &(leaf, target, score) in &self.scores {
            let place = leaf * targets + target;
            scores[place] = join(scores[place], score);
            has[place] = true;
        }
        let all_have: Vec<bool> = has.iter().take(targets).copied().collect();
        let is_same = has.chunks(targets).all(|leaf| leaf == all_have);
        let mode = self.nodes.first().map_or(0, |node| node.mode);
        let is_one_mode = self.nodes.iter().all(|node| node.mode == mode);
        let ints = |values: Vec<usize>| {
            table([values.len()], DType::I32, values.iter().map(|&value| value as f64))
        };
        let floats = if is_double { DType::F64 } else { DType::F32 };
        let missing = self.nodes.iter().any(|node| node.missing);
        let of_nodes = |value: fn(&Node) -> usize| ints(self.nodes.iter().map(value).collect());
        let leaves = inner..inner + self.leaves;
        Ok(Trees {
            roots: ints(self.roots.iter().map(number).collect())?,
            features: of_nodes(|node| node.feature)?,
            splits: table([inner], floats, self.nodes.iter().map(|node| node.split))?,
            modes: if is_one_mode { None } else { Some(of_nodes(|node| node.mode)?) },
            mode,
            missing: if missing { Some(of_nodes(|node| usize::from(node.missing))?) } else { None },
            yes: ints(
                self.nodes.iter().map(|node| number(&node.yes)).chain(leaves.clone()).collect(),
            )?,
            no: ints(self.nodes.iter().map(|node| number(&node.no)).chain(leaves).collect())?,
            targets_with_scores: self
                .scores
                .iter()
                .map(|(_, target, _)| target)
                .collect::<HashSet<_>>()
                .len(),
            is_positive: self.scores.iter().all(|(.., score)| *score >= 0.0),
            scores: table([self.leaves, targets], floats, scores)?,
            has: match is_same {
                true => None,
                false => Some(table(
                    [self.leaves, targets],
                    DType::F32,
                    has.iter().map(|&has| f64::from(u8::from(has))),
                )?),
            },
            all_have,
            depth,
            largest_feature: self.nodes.iter().map(|node| node.feature).max().unwrap_or(0),
            aggregate,
            transform: String::new(),
            base_values: Vec::new(),
        })
    }

    /// Returns the maximum number of steps from a root to a leaf.
    fn depth(&self) -> Result<usize, String> {
        // The depth of each visited node. `None` while its children are being visited.
        let mut depths: Vec<Option<usize>> = vec![None; self.nodes.len()];
        let mut is_open = vec![false; self.nodes.len()];
        let mut way: Vec<usize> = (0..self.nodes.len()).collect();
        while let Some(&node) = way.last() {
            if depths[node].is_some() {
                way.pop();
                continue;
            }
            let children = [self.nodes[node].yes, self.nodes[node].no].map(|child| match child {
                Child::Node(number) => Some(number),
                Child::Leaf(_) => None,
            });
            let open: Vec<usize> =
                children.into_iter().flatten().filter(|&child| depths[child].is_none()).collect();
            if open.is_empty() {
                let below = children.into_iter().flatten().filter_map(|child| depths[child]).max();
                depths[node] = Some(1 + below.unwrap_or(0));
                is_open[node] = false;
                way.pop();
            } else if is_open[node] {
                return Err("a node of its trees leads back to itself".into());
            } else {
                is_open[node] = true;
                way.extend(open);
            }
        }
        let of_root = |root: &Child| match *root {
            Child::Node(node) => depths[node].unwrap_or(0),
            Child::Leaf(_) => 0,
        };
        Ok(self.roots.iter().map(of_root).max().unwrap_or(0))
    }
}

fn table(
    shape: impl Into<Vec<usize>>,
    dtype: DType,
    values: impl IntoIterator<Item = f64>,
) -> Result<Tensor, String> {
    let scalars = values.into_iter().map(|value| Scalar::from_f64(dtype, value));
    Tensor::from_scalars(TensorType::new(dtype, shape), scalars)
        .ok_or_else(|| "its trees are larger than memory".into())
}
