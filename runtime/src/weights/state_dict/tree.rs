//! A tree of modules or of layers, by the parts of their paths.

use std::collections::{BTreeSet, HashMap, HashSet};

/// The maximum number of parts of a path. The last part has the rest.
const DEEPEST: usize = 64;

/// The number of a node.
pub type NodeId = usize;

#[derive(Default)]
pub struct Tree {
    pub nodes: Vec<Node>,
    by_label: HashMap<(NodeId, String), NodeId>,
}

#[derive(Clone, Default)]
pub struct Node {
    /// The parts of its path.
    pub labels: Vec<String>,
    /// The names by which it may be matched: its label, and those of nodes merged with it.
    pub names: BTreeSet<String>,
    /// The number of the module or layer with this path.
    pub item: Option<usize>,
    parent: NodeId,
    pub children: Vec<NodeId>,
}

pub const ROOT: NodeId = 0;

impl Tree {
    /// Creates a tree of items by the labels of their paths.
    pub fn new(items: impl Iterator<Item = Vec<String>>) -> Tree {
        let mut tree = Tree { nodes: vec![Node::default()], by_label: HashMap::new() };
        for (number, labels) in items.enumerate() {
            let node = labels.into_iter().fold(ROOT, |node, label| tree.child(node, label));
            tree.nodes[node].item = Some(number);
        }
        tree
    }

    fn child(&mut self, node: NodeId, label: String) -> NodeId {
        if let Some(&child) = self.by_label.get(&(node, label.clone())) {
            return child;
        }
        let child = self.nodes.len();
        let mut labels = self.nodes[node].labels.clone();
        labels.push(label.clone());
        // TransformerEncoderLayer has this name for it, and PyTorch's the other.
        let alias = (label == "self_attn").then(|| "attention".to_owned());
        let names = alias.into_iter().chain([label.clone()]).collect();
        self.nodes.push(Node { labels, names, parent: node, ..Node::default() });
        self.nodes[node].children.push(child);
        self.by_label.insert((node, label), child);
        child
    }

    pub fn find(&self, labels: &[String]) -> Option<NodeId> {
        labels
            .iter()
            .try_fold(ROOT, |node, label| self.by_label.get(&(node, label.clone())).copied())
    }

    /// Removes a node from its parent. It stays the root of its own part.
    pub fn detach(&mut self, node: NodeId) {
        let parent = self.nodes[node].parent;
        self.nodes[parent].children.retain(|child| *child != node);
    }

    /// Merges each node that has one child and no item with the child, and removes nodes without
    /// items. Returns the node that replaces `node`, if it has any items.
    pub fn collapse(&mut self, node: NodeId) -> Option<NodeId> {
        let children: Vec<NodeId> = self.nodes[node]
            .children
            .clone()
            .into_iter()
            .filter_map(|child| self.collapse(child))
            .collect();
        match (self.nodes[node].item, &children[..]) {
            (None, []) => None,
            (None, &[child]) => {
                let names = self.nodes[node].names.clone();
                self.nodes[child].names.extend(names);
                Some(child)
            }
            _ => {
                self.nodes[node].children = children;
                Some(node)
            }
        }
    }

    /// Returns the nodes with items at and below `node`, in the order of the items.
    pub fn leaves(&self, node: NodeId) -> Vec<NodeId> {
        let mut found = Vec::new();
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            found.extend(self.nodes[node].item.map(|item| (item, node)));
            open.extend(&self.nodes[node].children);
        }
        found.sort_unstable();
        found.into_iter().map(|(_, node)| node).collect()
    }

    /// Returns the number of the first item at and below `node`.
    pub fn first(&self, node: NodeId) -> usize {
        self.leaves(node).first().and_then(|leaf| self.nodes[*leaf].item).unwrap_or(usize::MAX)
    }
}

/// Splits the path of a module.
pub fn module_labels(path: &str) -> Vec<String> {
    path.splitn(DEEPEST, '.').filter(|label| !label.is_empty()).map(str::to_owned).collect()
}

/// The paths that several instances share but for a number.
pub struct Lists<'p> {
    /// `blocks`, if there is a `blocks[1]`.
    all: HashSet<&'p str>,
    /// `blocks`, if there is a `blocks[0]`.
    from_zero: HashSet<&'p str>,
    /// `blocks`, if there is one without a number.
    single: HashSet<&'p str>,
}

impl<'p> Lists<'p> {
    pub fn new(paths: impl Iterator<Item = &'p str>) -> Lists<'p> {
        let mut lists =
            Lists { all: HashSet::new(), from_zero: HashSet::new(), single: HashSet::new() };
        for path in paths {
            for (end, separator) in path.match_indices(['[', '.']).chain([(path.len(), ".")]) {
                let (start, rest) = path.split_at(end);
                match separator {
                    "[" => _ = lists.all.insert(start),
                    _ if !start.ends_with(']') => _ = lists.single.insert(start),
                    _ => {}
                }
                if rest.starts_with("[0]") {
                    lists.from_zero.insert(start);
                }
            }
        }
        lists
    }

    /// Splits the path of a layer: `encoder[3].output` has the labels `encoder`, `3` and `output`.
    ///
    /// - `blocks` is `blocks[0]` if there is a `blocks[1]` and no `blocks[0]`.
    /// - `dense[0]` is one label if there is another layer `dense`.
    pub fn labels(&self, path: &str) -> Vec<String> {
        let mut labels = Vec::new();
        let mut start = 0;
        for part in path.splitn(DEEPEST, '.') {
            let (name, numbers) = part.split_at(part.find('[').unwrap_or(part.len()));
            let whole = &path[..start + name.len()];
            start += part.len() + 1;
            if self.from_zero.contains(whole) && self.single.contains(whole) {
                labels.push(part.to_owned());
                continue;
            }
            let is_first = numbers.is_empty() && self.all.contains(whole);
            let numbers = if is_first { "0" } else { numbers };
            let parts = [name].into_iter().chain(numbers.split(['[', ']']));
            labels.extend(parts.filter(|part| !part.is_empty()).map(str::to_owned));
        }
        labels
    }
}

/// Returns the path with these labels.
pub fn path_of(labels: &[String]) -> String {
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    labels.iter().fold(String::new(), |path, label| match (path.is_empty(), is_number(label)) {
        (true, _) => label.clone(),
        (false, true) => format!("{path}[{label}]"),
        (false, false) => format!("{path}.{label}"),
    })
}

/// Splits `conv10` into `conv` and 10. The number is `None` if there is none.
pub fn numbered(label: &str) -> (&str, Option<u64>) {
    let stem = label.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem, label[stem.len()..].parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split() {
        let lists = Lists::new(["blocks.a", "blocks[1].a", "encoder[0].b"].into_iter());
        assert_eq!(lists.labels("blocks.a"), ["blocks", "0", "a"]);
        assert_eq!(lists.labels("blocks[1].a"), ["blocks", "1", "a"]);
        assert_eq!(lists.labels("encoder[0].b"), ["encoder", "0", "b"]);
        assert_eq!(lists.labels("other"), ["other"]);
        let lists = Lists::new(["dense", "dense[0]", "dense[1]"].into_iter());
        assert_eq!(lists.labels("dense[1]"), ["dense[1]"]);
        assert_eq!(lists.labels("dense"), ["dense"]);
        let lists = Lists::new(["blocks.a", "blocks[1].a", "encoder[0].b"].into_iter());
        assert_eq!(path_of(&lists.labels("blocks.a")), "blocks[0].a");
        assert!(lists.labels("").is_empty());
        assert_eq!(module_labels("layers.0.fc"), ["layers", "0", "fc"]);
        assert_eq!(module_labels(&"a.".repeat(1000)).len(), 64);
        assert_eq!(numbered("conv10"), ("conv", Some(10)));
        assert_eq!(numbered("7"), ("", Some(7)));
        assert_eq!(numbered("head"), ("head", None));
    }
}
