//! Pairs the layers of a program with the modules of a file. Both are trees.
//!
//! 1. At each level, nodes with the same names are paired, and then their children. Numbers and
//!    automatic names such as `dense_1` count only if all names of the level are the same.
//! 2. The others are paired in order if each of them fits, with all that it contains.
//! 3. Otherwise all layers in them are paired in order, whatever their nesting, if each fits.
//! 4. Otherwise those that fit each other and no others are paired. Modules that fit the same
//!    layers must be numbered: `conv1`, `conv2`.
//!
//! The order of modules is that of the file, in which PyTorch has them as they were made. A
//! .safetensors file has no such order; numbered modules are in the order of their numbers there.
//! Nothing is guessed: what no rule pairs is left over.

use std::collections::{HashMap, HashSet};

use super::super::keras::automatic_class;
use super::layouts::{Fit, Layer};
use super::modules::Module;
use super::tree::{NodeId, Tree, numbered};

/// Layers with their modules, by number.
#[derive(Default)]
pub struct Matched {
    pub pairs: Vec<(usize, usize)>,
    pub layers: Vec<usize>,
    pub modules: Vec<usize>,
}

pub struct Matcher<'a> {
    pub layers: &'a [Layer],
    pub modules: &'a [Module],
    pub ours: &'a Tree,
    pub theirs: &'a Tree,
    /// Whether the modules are in the order in which they were made.
    pub is_ordered: bool,
}

impl Matcher<'_> {
    /// Pairs two nodes and what they contain.
    pub fn pair(&self, our: NodeId, their: NodeId, matched: &mut Matched) {
        let (our, their) = (&self.ours.nodes[our], &self.theirs.nodes[their]);
        match (our.item, their.item) {
            (Some(layer), Some(module)) => matched.pairs.push((layer, module)),
            (layer, module) => {
                matched.layers.extend(layer);
                matched.modules.extend(module);
            }
        }
        self.level(our.children.clone(), their.children.clone(), matched);
    }

    /// Pairs the nodes of one level.
    fn level(&self, mut ours: Vec<NodeId>, mut theirs: Vec<NodeId>, matched: &mut Matched) {
        let named = self.named(&ours, &theirs);
        named.iter().for_each(|(our, their)| self.pair(*our, *their, matched));
        let (our_named, their_named): (HashSet<NodeId>, HashSet<NodeId>) =
            named.into_iter().unzip();
        ours.retain(|node| !our_named.contains(node));
        theirs.retain(|node| !their_named.contains(node));
        if ours.is_empty() && theirs.is_empty() {
            return;
        }
        ours.sort_by_cached_key(|node| self.ours.first(*node));
        let by_rule = self.in_order(&ours, &theirs).or_else(|| {
            let ours: Vec<NodeId> = ours.iter().flat_map(|node| self.ours.leaves(*node)).collect();
            let theirs: Vec<NodeId> =
                theirs.iter().flat_map(|node| self.theirs.leaves(*node)).collect();
            self.flat(&ours, &theirs)
        });
        match by_rule {
            Some(found) => matched.pairs.extend(found),
            None => {
                let items = |tree: &Tree, nodes: &[NodeId]| -> Vec<usize> {
                    nodes
                        .iter()
                        .flat_map(|node| tree.leaves(*node))
                        .filter_map(|leaf| tree.nodes[leaf].item)
                        .collect()
                };
                matched.layers.extend(items(self.ours, &ours));
                matched.modules.extend(items(self.theirs, &theirs));
            }
        }
    }

    /// Returns the nodes with a common name that no other node of the level has.
    fn named(&self, ours: &[NodeId], theirs: &[NodeId]) -> Vec<(NodeId, NodeId)> {
        let pairs = |is_name: &dyn Fn(&str) -> bool| {
            let mut by_name: HashMap<&str, (Vec<NodeId>, Vec<NodeId>)> = HashMap::new();
            for (tree, nodes, is_ours) in [(self.ours, ours, true), (self.theirs, theirs, false)] {
                for &node in nodes {
                    for name in tree.nodes[node].names.iter().filter(|name| is_name(name)) {
                        let (ours, theirs) = by_name.entry(name).or_default();
                        if is_ours { ours.push(node) } else { theirs.push(node) }
                    }
                }
            }
            let mut pairs: Vec<(NodeId, NodeId)> = by_name
                .into_values()
                .filter_map(|(ours, theirs)| match (&ours[..], &theirs[..]) {
                    (&[our], &[their]) => Some((our, their)),
                    _ => None,
                })
                .collect();
            pairs.sort_unstable();
            pairs.dedup();
            // A node with several names may have them in common with several nodes.
            let (mut our_pairs, mut their_pairs) = (HashMap::new(), HashMap::new());
            for (our, their) in &pairs {
                *our_pairs.entry(*our).or_insert(0) += 1;
                *their_pairs.entry(*their).or_insert(0) += 1;
            }
            let is_unique =
                |pair: &(NodeId, NodeId)| our_pairs[&pair.0] == 1 && their_pairs[&pair.1] == 1;
            pairs.iter().copied().filter(is_unique).collect::<Vec<_>>()
        };
        let all = pairs(&|_| true);
        if all.len() == ours.len() && all.len() == theirs.len() {
            return all;
        }
        let is_given = |name: &str| !numbered(name).0.is_empty() && automatic_class(name).is_none();
        pairs(&is_given)
    }

    /// Pairs nodes in order, if each fits completely.
    fn in_order(&self, ours: &[NodeId], theirs: &[NodeId]) -> Option<Vec<(usize, usize)>> {
        if ours.len() != theirs.len() {
            return None;
        }
        let mut matched = Matched::default();
        for (our, their) in ours.iter().zip(self.ordered(theirs)?) {
            self.pair(*our, their, &mut matched);
            let is_complete = matched.layers.is_empty() && matched.modules.is_empty();
            if !is_complete || !matched.pairs.iter().all(|pair| self.fits(pair.0, pair.1)) {
                return None;
            }
        }
        Some(matched.pairs)
    }

    fn fits(&self, layer: usize, module: usize) -> bool {
        Fit::new(&self.layers[layer], &self.modules[module]).is_complete()
    }

    /// Returns modules in the order in which they were made, if it is known.
    fn ordered(&self, nodes: &[NodeId]) -> Option<Vec<NodeId>> {
        let mut nodes = nodes.to_vec();
        if self.is_ordered {
            nodes.sort_by_cached_key(|node| self.theirs.first(*node));
            return Some(nodes);
        }
        let key = |node: NodeId| -> Vec<(&str, Option<u64>)> {
            self.theirs.nodes[node].labels.iter().map(|label| numbered(label)).collect()
        };
        nodes.sort_by_cached_key(|node| key(*node));
        let differ_by_number = |two: &[NodeId]| {
            let (a, b) = (key(two[0]), key(two[1]));
            a.iter()
                .zip(&b)
                .find(|(a, b)| a != b)
                .is_some_and(|(a, b)| a.0 == b.0 && a.1.is_some() && b.1.is_some())
        };
        nodes.windows(2).all(differ_by_number).then_some(nodes)
    }

    /// Pairs layers and modules whatever their nesting, in order or by their shapes.
    fn flat(&self, ours: &[NodeId], theirs: &[NodeId]) -> Option<Vec<(usize, usize)>> {
        if ours.len() != theirs.len() {
            return None;
        }
        let items = |tree: &Tree, nodes: &[NodeId]| -> Vec<usize> {
            nodes.iter().filter_map(|node| tree.nodes[*node].item).collect()
        };
        let layers = items(self.ours, ours);
        if let Some(theirs) = self.ordered(theirs) {
            let pairs: Vec<(usize, usize)> =
                layers.iter().copied().zip(items(self.theirs, &theirs)).collect();
            if pairs.iter().all(|pair| self.fits(pair.0, pair.1)) {
                return Some(pairs);
            }
        }
        self.by_shape(&layers, theirs)
    }

    /// Pairs modules of the same parameters with the layers that they fit, if these fit no others.
    fn by_shape(&self, layers: &[usize], theirs: &[NodeId]) -> Option<Vec<(usize, usize)>> {
        let mut alike: HashMap<Vec<(&str, &[usize])>, Vec<NodeId>> = HashMap::new();
        for &node in theirs {
            let module = &self.modules[self.theirs.nodes[node].item?];
            let mut form: Vec<(&str, &[usize])> = module
                .parameters
                .iter()
                .map(|found| (found.role.as_str(), &found.shape[..]))
                .collect();
            form.sort_unstable();
            alike.entry(form).or_default().push(node);
        }
        let mut pairs = Vec::with_capacity(layers.len());
        let mut taken = 0;
        let mut fitting: HashMap<usize, usize> = HashMap::new();
        for nodes in alike.values() {
            let numbered = Matcher { is_ordered: false, ..*self }.ordered(nodes)?;
            let first = self.theirs.nodes[nodes[0]].item?;
            let mut fits: Vec<usize> =
                layers.iter().copied().filter(|layer| self.fits(*layer, first)).collect();
            fits.sort_unstable();
            if fits.len() != numbered.len() {
                return None;
            }
            fits.iter().for_each(|layer| *fitting.entry(*layer).or_default() += 1);
            taken += fits.len();
            pairs.extend(
                fits.into_iter()
                    .zip(numbered.iter().filter_map(|node| self.theirs.nodes[*node].item)),
            );
        }
        (taken == layers.len() && fitting.values().all(|count| *count == 1)).then_some(pairs)
    }
}
