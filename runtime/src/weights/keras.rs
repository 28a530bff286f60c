//! Maps the tensors of a Keras checkpoint to the program's weights. The file has a tree of groups,
//! the program a tree of instances. The trees must be equal except for names:
//! `layers/bidirectional/forward_layer/cell/vars/0` is `bidirectional.forward.Kernel`.
//!
//! 1. A group that contains nothing but another group is merged with it (`cell`, `layers`). The
//!    same applies to instances.
//! 2. Two nodes are alike if their own weights have the same shapes in the same order, and their
//!    subtrees are alike in any order.
//! 3. At each level, nodes without a counterpart on the other side are opened, the largest first,
//!    until all nodes have one. For example, a list `blocks` of two layers is replaced by the two
//!    layers.
//! 4. Among several nodes that are alike, those with a common user-given name are paired. `dense_1`
//!    is an automatic name. The remaining nodes of a class are paired in the order of use, which is
//!    the order of Keras' numbers: `layers/dense`, `layers/dense_1`.
//!
//! Nothing is guessed. It is an error if neither names nor an order distinguish layers that are
//! alike. It is also an error if layers were created in another order than the file has them, as
//! may happen in a network with branches.
//!
//! The options may permit layers without a counterpart. Layers that are alike are then paired as
//! above if both sides have equally many. Otherwise names pair them, and those that are left must
//! be on one side: the order does not tell which of them the other side lacks.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::LazyLock;

use tile_compiler::names::snake_case;
use tile_compiler::tensor::TensorType;
#[cfg(feature = "compile")]
use tile_lang::library_names;

use super::options::LoadOptions;

/// A layer or a container of layers, of the program or of the file.
#[derive(Clone, Debug, Default)]
struct Node {
    /// The names on the path from the root.
    place: Vec<String>,
    /// The Keras name of the layer.
    title: Option<String>,
    /// The names that a user gave.
    names: BTreeSet<String>,
    /// The indices of its own weights, in order.
    weights: Vec<usize>,
    children: Vec<Node>,
}

impl Node {
    fn child(&mut self, label: &str) -> &mut Node {
        let is_it = |child: &Node| child.place.last().is_some_and(|last| last == label);
        let at = self.children.iter().position(is_it).unwrap_or_else(|| {
            let place = self.place.iter().cloned().chain([label.to_owned()]).collect();
            self.children.push(Node { place, ..Node::default() });
            self.children.len() - 1
        });
        &mut self.children[at]
    }

    /// Merges each node that has a single child and no weights with that child.
    fn collapsed(mut self) -> Node {
        self.children = self.children.into_iter().map(Node::collapsed).collect();
        if self.weights.is_empty() && self.children.len() == 1 {
            let inner = self.children.remove(0);
            self.names.extend(inner.names);
            (self.weights, self.children) = (inner.weights, inner.children);
            self.title = self.title.or(inner.title);
        }
        self
    }

    /// Returns the structure without names. Nodes with equal structures are alike.
    fn form(&self, types: &[(String, TensorType)]) -> String {
        let own: Vec<String> =
            self.weights.iter().map(|&weight| format!("{:?}", types[weight].1.shape)).collect();
        let mut inner: Vec<String> = self.children.iter().map(|child| child.form(types)).collect();
        inner.sort();
        format!("{}{{{}}}", own.join(""), inner.join(","))
    }

    /// Returns the number of weights in the tree.
    fn size(&self) -> usize {
        self.weights.len() + self.children.iter().map(Node::size).sum::<usize>()
    }

    /// Replaces a node by its children, and by itself without children if it has weights.
    fn opened(mut self) -> Vec<Node> {
        let children = std::mem::take(&mut self.children);
        let own = (!self.weights.is_empty()).then_some(self);
        own.into_iter().chain(children).collect()
    }

    /// Returns the index of the first weight in the tree.
    fn first(&self) -> usize {
        let inner = self.children.iter().map(Node::first);
        self.weights.iter().copied().chain(inner).min().unwrap_or(usize::MAX)
    }
}

/// Returns the program's path for each tensor `found` in a file, or `None` if the options permit
/// that the program lacks it. `titles` has the Keras names of the file's groups.
///
/// # Errors
/// Returns a sentence, with the layers of both sides that do not match.
pub fn paths(
    expected: &[(String, TensorType)],
    found: &[(String, TensorType)],
    titles: &BTreeMap<String, String>,
    options: &LoadOptions,
) -> Result<Vec<Option<String>>, String> {
    let mut match_ = Match { expected, found, options, paths: vec![None; found.len()] };
    match_.level(vec![of_program(expected)], vec![of_file(found, titles)])?;
    Ok(match_.paths)
}

/// The start of the names of LoRA's factors. Keras' files have the sum of a kernel and the product
/// of its factors instead.
const FACTORS: &str = "Lora";

fn of_program(weights: &[(String, TensorType)]) -> Node {
    let mut root = Node::default();
    for (number, (path, _)) in weights.iter().enumerate() {
        let (instances, name) = path.rsplit_once('.').unwrap_or_default();
        if name.starts_with(FACTORS) {
            continue;
        }
        let mut node = &mut root;
        for label in instances.split('.').filter(|label| !label.is_empty()) {
            node = node.child(label);
            node.names.extend((!is_automatic(label)).then(|| label.to_owned()));
        }
        node.weights.push(number);
    }
    root.collapsed()
}

fn of_file(tensors: &[(String, TensorType)], titles: &BTreeMap<String, String>) -> Node {
    let mut root = Node::default();
    let mut numbered: Vec<(usize, usize)> = Vec::with_capacity(tensors.len());
    for (number, (name, _)) in tensors.iter().enumerate() {
        let variable = name.rsplit('/').next().and_then(|variable| variable.parse().ok());
        numbered.push((variable.unwrap_or(usize::MAX), number));
    }
    numbered.sort_unstable();
    for (_, number) in numbered {
        let group = tensors[number].0.rsplit_once('/').map_or("", |(group, _)| group);
        let mut node = &mut root;
        for label in group.split('/').filter(|label| *label != "vars") {
            node = node.child(label);
            if node.names.is_empty() && node.title.is_none() {
                node.title = titles.get(&node.place.join("/")).cloned();
                node.names = given_names(label, node.title.as_deref());
            }
        }
        node.weights.push(number);
    }
    root.collapsed()
}

/// Returns the user-given names of a group in a file. These are its title unless that is a class
/// name, and the name of an attribute, such as `query_dense`.
fn given_names(label: &str, title: Option<&str>) -> BTreeSet<String> {
    let of_class = |name: &str| {
        is_automatic(name)
            || numbered(name).0 == UNKNOWN_CLASS
            || title.is_some_and(|title| {
                numbered(title).0 == numbered(name).0 && numbered(label).0 == numbered(name).0
            })
    };
    // `_key_dense` is the attribute of the layer `key`.
    let public = label.trim_start_matches('_');
    let short = public.strip_suffix("_dense").or_else(|| public.strip_suffix("_layer"));
    let names = title.into_iter().chain([label]).filter(|name| !of_class(name)).chain(short);
    names.map(str::to_owned).collect()
}

/// Splits `dense_1` into `dense` and 1. The number is 0 if there is none.
fn numbered(name: &str) -> (&str, usize) {
    let parts = name.rsplit_once('_').and_then(|(stem, number)| Some((stem, number.parse().ok()?)));
    parts.unwrap_or((name, 0))
}

/// Returns the class in snake case as the groups of files have it.
pub fn label(class: &str) -> String {
    // Keras exports this class by another name than it has.
    let class = if class == "GroupQueryAttention" { "GroupedQueryAttention" } else { class };
    snake_case(class)
}

/// The class of layers whose class is unknown.
pub const UNKNOWN_CLASS: &str = "layer";

/// Returns the class in snake case if `name` is an automatic layer name.
pub fn automatic_class(name: &str) -> Option<&str> {
    is_automatic(name).then(|| numbered(name).0)
}

/// Returns no names: a build without the compiler has no library.
#[cfg(not(feature = "compile"))]
fn library_names() -> impl Iterator<Item = &'static str> {
    std::iter::empty()
}

/// Returns whether `name` is an automatic name of a library layer.
fn is_automatic(name: &str) -> bool {
    static CLASSES: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let classes =
            library_names().filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()));
        classes.map(snake_case).collect()
    });
    CLASSES.contains(numbered(name).0)
}

struct Match<'a> {
    expected: &'a [(String, TensorType)],
    found: &'a [(String, TensorType)],
    options: &'a LoadOptions,
    /// The path for each tensor in `found`.
    paths: Vec<Option<String>>,
}

/// Layers that are alike: those of the program, and those of the file.
type Alike = (Vec<Node>, Vec<Node>);

impl Match<'_> {
    /// Pairs the nodes of one level.
    fn level(&mut self, mut ours: Vec<Node>, mut theirs: Vec<Node>) -> Result<(), String> {
        loop {
            let (our_forms, their_forms) =
                (forms(&ours, self.expected), forms(&theirs, self.found));
            let open = |nodes: &[Node], forms: &[String], others: &[String]| {
                let count = |forms: &[String], form: &String| {
                    forms.iter().filter(|other| *other == form).count()
                };
                let is_odd = |at: &usize| count(forms, &forms[*at]) != count(others, &forms[*at]);
                let with_children = (0..nodes.len()).filter(|&at| !nodes[at].children.is_empty());
                with_children.filter(is_odd).max_by_key(|&at| nodes[at].size())
            };
            let ours_to_open = open(&ours, &our_forms, &their_forms);
            let theirs_to_open = open(&theirs, &their_forms, &our_forms);
            let size = |nodes: &[Node], at: Option<usize>| at.map_or(0, |at| nodes[at].size());
            let (nodes, at) = match (ours_to_open, theirs_to_open) {
                (None, None) => break,
                (Some(at), _) if size(&ours, Some(at)) > size(&theirs, theirs_to_open) => {
                    (&mut ours, at)
                }
                (_, Some(at)) => (&mut theirs, at),
                (Some(at), None) => (&mut ours, at),
            };
            let inner = nodes[at].clone().opened();
            nodes.splice(at..=at, inner);
        }
        let mut alike: BTreeMap<String, Alike> = BTreeMap::new();
        for node in ours {
            alike.entry(node.form(self.expected)).or_default().0.push(node);
        }
        for node in theirs {
            alike.entry(node.form(self.found)).or_default().1.push(node);
        }
        let (even, odd): (Vec<Alike>, Vec<Alike>) =
            alike.into_values().partition(|(ours, theirs)| ours.len() == theirs.len());
        if odd.iter().any(|(ours, theirs)| !self.permits(ours.len(), theirs.len())) {
            return Err(self.refusal(odd));
        }
        even.into_iter().try_for_each(|(ours, theirs)| self.alike(ours, theirs))?;
        odd.into_iter().try_for_each(|(ours, theirs)| self.alike_in_part(ours, theirs))
    }

    /// Returns whether the options permit these different numbers of layers.
    fn permits(&self, ours: usize, theirs: usize) -> bool {
        if ours > theirs { self.options.partial } else { self.options.allow_extra }
    }

    /// Returns the error of layers of which the two sides have different numbers.
    fn refusal(&self, odd: Vec<Alike>) -> String {
        let refused =
            || odd.iter().filter(|(ours, theirs)| !self.permits(ours.len(), theirs.len()));
        let help = if refused().all(|(_, theirs)| theirs.is_empty()) {
            "\n  help: pass `--partial` to initialise what the file lacks"
        } else if refused().all(|(ours, _)| ours.is_empty()) {
            "\n  help: pass `--allow-extra` to leave out what the program does not have"
        } else {
            ""
        };
        let (ours, theirs): (Vec<_>, Vec<_>) = odd.into_iter().unzip();
        let what = "it does not have the program's layers, by the shapes of their weights";
        self.sides(what, &ours.concat(), theirs.concat()) + help
    }

    /// Returns an error with the layers of both sides.
    fn sides(&self, what: &str, ours: &[Node], mut theirs: Vec<Node>) -> String {
        theirs.sort_by_cached_key(numbered_place);
        format!(
            "{what}:\n  in the program:{}\n  in the file:{}",
            listed(ours, self.expected, "."),
            listed(&theirs, self.found, "/"),
        )
    }

    /// Pairs nodes that are all alike, equally many on both sides.
    fn alike(&mut self, mut ours: Vec<Node>, mut theirs: Vec<Node>) -> Result<(), String> {
        let mut pairs = named_pairs(&mut ours, &mut theirs);
        for (mut ours, mut theirs) in by_class(ours, theirs) {
            ours.sort_by_key(Node::first);
            theirs.sort_by_cached_key(numbered_place);
            if !is_in_order(&theirs) {
                let what = "these layers have weights of the same shapes, and neither their names nor an order tell which is which; give them the same names in Keras and here";
                return Err(self.sides(what, &ours, theirs));
            }
            pairs.extend(ours.into_iter().zip(theirs));
        }
        self.join(pairs)
    }

    /// Pairs nodes that are all alike, of which one side has more. Only names tell which.
    fn alike_in_part(&mut self, mut ours: Vec<Node>, mut theirs: Vec<Node>) -> Result<(), String> {
        let pairs = named_pairs(&mut ours, &mut theirs);
        if !ours.is_empty() && !theirs.is_empty() {
            let what = "these layers have weights of the same shapes, the file and the program have different numbers of them, and their names do not tell which are missing; give them the same names in Keras and here";
            return Err(self.sides(what, &ours, theirs));
        }
        self.join(pairs)
    }

    /// Assigns the paths of paired nodes.
    fn join(&mut self, pairs: Vec<(Node, Node)>) -> Result<(), String> {
        for (our, their) in pairs {
            for (&our, &their) in our.weights.iter().zip(&their.weights) {
                self.paths[their] = Some(self.expected[our].0.clone());
            }
            if !our.children.is_empty() {
                self.level(our.children, their.children)?;
            }
        }
        Ok(())
    }
}

/// Removes the pairs of nodes that share a user-given name with each other alone.
fn named_pairs(ours: &mut Vec<Node>, theirs: &mut Vec<Node>) -> Vec<(Node, Node)> {
    let shared = |a: &Node, b: &Node| a.names.intersection(&b.names).next().is_some();
    let mut pairs = Vec::new();
    let mut at = 0;
    while at < ours.len() {
        let named: Vec<usize> =
            (0..theirs.len()).filter(|&their| shared(&ours[at], &theirs[their])).collect();
        match named[..] {
            [their] if ours.iter().filter(|our| shared(our, &theirs[their])).count() == 1 => {
                pairs.push((ours.remove(at), theirs.remove(their)));
            }
            _ => at += 1,
        }
    }
    pairs
}

fn forms(nodes: &[Node], types: &[(String, TensorType)]) -> Vec<String> {
    nodes.iter().map(|node| node.form(types)).collect()
}

/// Groups nodes by the classes in their names, if both sides have equally many of each class.
/// Otherwise returns a single group.
fn by_class(ours: Vec<Node>, theirs: Vec<Node>) -> Vec<Alike> {
    let class = |node: &Node| {
        let label = node.place.last().map_or("", String::as_str);
        numbered(label.split('[').next().unwrap_or_default()).0.to_owned()
    };
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    ours.iter().for_each(|node| counts.entry(class(node)).or_default().0 += 1);
    theirs.iter().for_each(|node| counts.entry(class(node)).or_default().1 += 1);
    if counts.values().any(|(ours, theirs)| ours != theirs) {
        return vec![(ours, theirs)];
    }
    let mut classes: BTreeMap<String, Alike> = BTreeMap::new();
    ours.into_iter().for_each(|node| classes.entry(class(&node)).or_default().0.push(node));
    theirs.into_iter().for_each(|node| classes.entry(class(&node)).or_default().1.push(node));
    classes.into_values().collect()
}

/// Splits `layers/dense_1` into (`layers`, 0) and (`dense`, 1).
fn numbered_place(node: &Node) -> Vec<(String, usize)> {
    node.place
        .iter()
        .map(|label| numbered(label))
        .map(|(stem, number)| (stem.to_owned(), number))
        .collect()
}

/// Returns whether sorted groups of a file differ from each other only by numbers. If Keras named
/// all of them automatically, the order in which it created them must agree.
fn is_in_order(nodes: &[Node]) -> bool {
    let places: Vec<_> = nodes.iter().map(numbered_place).collect();
    let by_number = |a: &[(String, usize)], b: &[(String, usize)]| {
        a.iter().zip(b).find(|(a, b)| a != b).is_some_and(|(a, b)| a.0 == b.0)
    };
    let all =
        places.iter().enumerate().all(|(at, a)| places[at + 1..].iter().all(|b| by_number(a, b)));
    let automatic = |node: &Node| node.title.clone().filter(|title| is_automatic(title));
    let made: Option<Vec<String>> = nodes.iter().map(automatic).collect();
    let grows = |two: &[String]| {
        let ((a, first), (b, second)) = (numbered(&two[0]), numbered(&two[1]));
        a != b || first < second
    };
    all && made.is_none_or(|made| made.windows(2).all(grows))
}

/// Lists the layers, one per line, with the shapes of their weights and their Keras names.
fn listed(nodes: &[Node], types: &[(String, TensorType)], separator: &str) -> String {
    const SHOWN: usize = 12;
    let line = |node: &Node| {
        let shapes: Vec<String> =
            all_weights(node).iter().map(|&weight| types[weight].1.to_string()).collect();
        let title =
            node.title.as_ref().map_or(String::new(), |title| format!(", `{title}` in Keras"));
        let place = if node.place.is_empty() {
            "itself".to_owned()
        } else {
            format!("`{}`", node.place.join(separator))
        };
        format!("\n    {place}{title}: {}", shapes.join(", "))
    };
    let more = nodes.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("\n    and {more} more") } else { String::new() };
    let none = if nodes.is_empty() { "\n    nothing" } else { "" };
    nodes.iter().take(SHOWN).map(line).collect::<String>() + none + &more
}

fn all_weights(node: &Node) -> Vec<usize> {
    node.weights.iter().copied().chain(node.children.iter().flat_map(all_weights)).collect()
}
