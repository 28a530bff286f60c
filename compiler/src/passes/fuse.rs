//! Groups the graph's nodes into loop nests, so that values pass through registers instead of memory.
//!
//! Example: `C = A · B` (a contraction), `D = C + Bias`, `E = relu(D)` become one group with root `E`: the product's
//! tile gets its bias and activation before it is stored. Before: three writes and four reads of the output's size;
//! after: one write.
//!
//! The plan of a group: its *root* is stored in memory; at most one *contraction* with a reduction belongs to it, the
//! root itself or a node that reaches it through elementwise nodes of the same shape; every other node that only this
//! group reads is *inlined*: computed again at each place that needs it. What is inlined before a reduction is computed
//! once for each time it is read there, so only what is cheap, or read once, goes there; and not what can be stored by
//! the contraction that it is computed from, in the *epilogue*, as that takes no more memory than the contraction itself.
//!
//! Why it is sound: a nest built for a group computes exactly the root's elements whatever is inlined
//! ([`crate::nest::build`]); grouping only decides cost. Every node that a nest reads from memory is a root, an input
//! or a constant, and roots are listed in topological order.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::graph::{Graph, NodeId, Op};
use crate::nest::is_view;
use crate::profile::Profile;

/// One group: see the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub root: NodeId,
    pub contraction: Option<NodeId>,
}

/// Nodes that one group may hold: it bounds the size of a kernel, and the depth of recursion when it is built.
const MOST_NODES: usize = 192;

/// Evaluations for each element up to which a cheap node of one operand is computed again rather than stored.
const MOST_RECOMPUTATION: f64 = 32.0;

/// A tiled product reads an element from memory about this many times less often than it multiplies it.
const TILE_REUSE: f64 = 64.0;

/// The groups of `graph` in topological order.
pub fn fuse(graph: &Graph, profile: &Profile) -> Vec<Group> {
    let mut stored: HashSet<NodeId> = graph.outputs.iter().map(|(_, id)| storage(graph, *id)).collect();
    for id in graph.ids() {
        stored.extend(must_be_read_from_memory(graph, id));
    }
    let is_contraction = |id: &NodeId| matches!(graph.node(*id).op, Op::Contraction(_));
    let reductions = graph.ids().filter(|id| is_contraction(id) && !is_view(graph, *id)).collect();
    loop {
        let plan = Grouping::new(graph, &reductions, &stored);
        match plan.too_many_operands(profile.max_buffers as usize) {
            Some(id) => stored.insert(id),
            None => return plan.groups(),
        };
    }
}

/// The node whose memory a chain of reshapes shows.
pub fn storage(graph: &Graph, mut id: NodeId) -> NodeId {
    while matches!(graph.node(id).op, Op::Reshape) {
        id = graph.operands(id)[0];
    }
    id
}

/// Whether the node is in memory without a group of its own.
pub fn is_source(op: &Op) -> bool {
    matches!(op, Op::Input(_) | Op::Weight(_) | Op::Elements(_))
}

/// Operands that a node can only read from memory: behind a reshape, at an index known at run time, generator states.
fn must_be_read_from_memory(graph: &Graph, id: NodeId) -> Vec<NodeId> {
    let operands = graph.operands(id);
    match &graph.node(id).op {
        Op::Reshape => vec![storage(graph, id)],
        Op::PrngValue | Op::PrngState { .. } => operands.iter().map(|&o| storage(graph, o)).collect(),
        Op::Contraction(op) => {
            let dynamic = op.accesses.iter().filter(|a| a.index.iter().any(|i| i.access.is_some()));
            dynamic.map(|a| storage(graph, operands[a.operand])).collect()
        }
        _ => Vec::new(),
    }
}

/// Where a node that is not stored is computed.
#[derive(Clone, Debug)]
struct Inlined {
    roots: BTreeSet<NodeId>,
    /// Always at the place that the root's nest computes.
    at_place: bool,
}

struct Grouping<'g> {
    graph: &'g Graph,
    /// Contractions that are not mere views.
    reductions: &'g HashSet<NodeId>,
    order: Vec<NodeId>,
    inlined: HashMap<NodeId, Inlined>,
    /// The contraction of a root's group; roots without one are absent.
    contractions: HashMap<NodeId, NodeId>,
    /// How often a node is evaluated in all.
    evaluations: HashMap<NodeId, f64>,
    /// Nodes in a root's group.
    sizes: HashMap<NodeId, usize>,
    /// For elementwise nodes that could end a contraction's epilogue: that contraction.
    epilogues: HashMap<NodeId, NodeId>,
}

impl<'g> Grouping<'g> {
    fn new(graph: &'g Graph, reductions: &'g HashSet<NodeId>, stored: &HashSet<NodeId>) -> Grouping<'g> {
        let mut grouping = Grouping {
            graph,
            reductions,
            order: graph.topological(),
            inlined: HashMap::new(),
            contractions: HashMap::new(),
            evaluations: HashMap::new(),
            sizes: HashMap::new(),
            epilogues: HashMap::new(),
        };
        grouping.find_epilogues(stored);
        for id in grouping.order.clone().into_iter().rev() {
            let op = &graph.node(id).op;
            if is_source(op) || matches!(op, Op::Reshape) {
                continue;
            }
            let elements = graph.node(id).ty.elements() as f64;
            let needed: f64 = graph.users(id).into_iter().map(|user| grouping.reads(user, id)).sum();
            let home = if stored.contains(&id) { None } else { grouping.inline(id, needed) };
            let evaluations = if home.is_some() { needed } else { elements };
            grouping.evaluations.insert(id, evaluations);
            match home {
                Some(home) => {
                    for root in &home.roots {
                        *grouping.sizes.entry(*root).or_insert(1) += 1;
                    }
                    grouping.inlined.insert(id, home);
                }
                None => {
                    if reductions.contains(&id) {
                        grouping.contractions.insert(id, id);
                    }
                }
            }
        }
        grouping
    }

    /// Follows each contraction through elementwise nodes of its shape, as long as each is read by the next alone.
    fn find_epilogues(&mut self, stored: &HashSet<NodeId>) {
        for &id in &self.order {
            if !is_elementwise(&self.graph.node(id).op) {
                continue;
            }
            let carried = self.graph.operands(id).into_iter().find_map(|operand| {
                let joins = self.graph.shape(operand) == self.graph.shape(id)
                    && !stored.contains(&operand)
                    && self.graph.users(operand).len() == 1;
                let contraction =
                    if self.reductions.contains(&operand) { operand } else { *self.epilogues.get(&operand)? };
                joins.then_some(contraction)
            });
            if let Some(contraction) = carried {
                self.epilogues.insert(id, contraction);
            }
        }
    }

    /// How often evaluating all of `user` reads one of `id`'s elements.
    fn reads(&self, user: NodeId, id: NodeId) -> f64 {
        let evaluations = self.evaluations.get(&user).copied().unwrap_or(0.0);
        let Op::Contraction(op) = &self.graph.node(user).op else { return evaluations };
        let operands = self.graph.operands(user);
        let accesses = op.accesses.iter().filter(|a| operands[a.operand] == id).count() as f64;
        let default = f64::from(op.default && operands.last() == Some(&id));
        let elements = (self.graph.node(user).ty.elements() as f64).max(1.0);
        let points: f64 = op.indices.iter().map(|r| (r.high - r.low).max(0) as f64).product();
        let tiled = if op.accesses.len() >= 2 { (points / TILE_REUSE).max(elements.min(points)) } else { points };
        evaluations / elements * (accesses * tiled + default * elements)
    }

    /// The groups into which `id`, evaluated `needed` times, should be inlined; `None` to store it.
    fn inline(&mut self, id: NodeId, needed: f64) -> Option<Inlined> {
        let node = self.graph.node(id);
        let users = self.graph.users(id);
        let mut roots = BTreeSet::new();
        let mut at_place = true;
        for &user in &users {
            match self.inlined.get(&user) {
                Some(home) => {
                    roots.extend(&home.roots);
                    at_place &= home.at_place;
                }
                None => {
                    roots.insert(user);
                }
            }
            at_place &= is_elementwise(&self.graph.node(user).op) && self.graph.shape(user) == node.ty.shape;
        }
        at_place &= roots.len() == 1;
        let root = *roots.first()?;
        if matches!(node.op, Op::Constant(_) | Op::Index { .. }) {
            return Some(Inlined { roots, at_place });
        }
        if roots.iter().any(|r| self.sizes.get(r).is_some_and(|&n| n >= MOST_NODES)) {
            return None;
        }
        if self.reductions.contains(&id) {
            // A second aggregation does not fit the nest.
            let joins = at_place && users.len() == 1 && !self.contractions.contains_key(&root);
            return joins.then(|| {
                self.contractions.insert(root, id);
                Inlined { roots, at_place }
            });
        }
        if matches!(node.op, Op::PrngValue | Op::PrngState { .. }) {
            return None;
        }
        let bytes = |id: NodeId| self.graph.node(id).ty.elements() * self.graph.dtype(id).size();
        if !at_place && self.epilogues.get(&id).is_some_and(|contraction| bytes(id) <= bytes(*contraction)) {
            return None;
        }
        let repeats = needed / (node.ty.elements() as f64).max(1.0);
        let operands = self.graph.operands(id);
        let tensors = operands.iter().filter(|&&o| self.graph.node(o).ty.elements() > 1).count();
        let cheap = !is_expensive(&node.op) && tensors <= 1 && repeats <= MOST_RECOMPUTATION;
        (at_place || repeats <= 1.0 || cheap).then_some(Inlined { roots, at_place })
    }

    fn is_stored(&self, id: NodeId) -> bool {
        !self.inlined.contains_key(&id) && !matches!(self.graph.node(id).op, Op::Reshape)
    }

    /// The tensors that each root's nest reads from memory.
    fn operands(&self) -> HashMap<NodeId, BTreeSet<NodeId>> {
        let mut read: HashMap<NodeId, BTreeSet<NodeId>> = HashMap::new();
        for &id in &self.order {
            let roots = match self.inlined.get(&id) {
                Some(home) => home.roots.clone(),
                None => BTreeSet::from([id]),
            };
            for operand in self.graph.operands(id).into_iter().map(|o| storage(self.graph, o)) {
                if self.is_stored(operand) && !matches!(self.graph.node(id).op, Op::Reshape) {
                    for root in &roots {
                        read.entry(*root).or_default().insert(operand);
                    }
                }
            }
        }
        read
    }

    /// Where a group reads more tensors than a kernel may bind: an inlined node of it to store instead.
    fn too_many_operands(&self, most_buffers: usize) -> Option<NodeId> {
        let read = self.operands();
        let root = self.order.iter().find(|id| read.get(id).is_some_and(|r| r.len() + 1 > most_buffers))?;
        // The first node in order whose own operands, gathered through the group, are half of what is allowed.
        let mut below: HashMap<NodeId, BTreeSet<NodeId>> = HashMap::new();
        let mut best = None;
        for &id in &self.order {
            let Some(home) = self.inlined.get(&id).filter(|h| h.roots.contains(root)) else { continue };
            let mut own = BTreeSet::new();
            for operand in self.graph.operands(id).into_iter().map(|o| storage(self.graph, o)) {
                match below.get(&operand) {
                    Some(set) => own.extend(set),
                    None if self.is_stored(operand) => {
                        own.insert(operand);
                    }
                    None => {}
                }
            }
            if home.at_place || !self.reductions.contains(&id) {
                let score = own.len();
                if score >= 2 && score < most_buffers && best.is_none_or(|(s, _)| score > s) {
                    best = Some((score, id));
                }
            }
            below.insert(id, own);
        }
        best.map(|(_, id)| id)
    }

    fn groups(&self) -> Vec<Group> {
        let stored = self.order.iter().filter(|id| self.is_stored(**id) && !is_source(&self.graph.node(**id).op));
        stored.map(|&root| Group { root, contraction: self.contractions.get(&root).copied() }).collect()
    }
}

fn is_elementwise(op: &Op) -> bool {
    matches!(op, Op::Constant(_) | Op::Index { .. } | Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Cast)
}

fn is_expensive(op: &Op) -> bool {
    match op {
        Op::Unary(op) => op.is_expensive(),
        Op::Binary(op) => *op == crate::scalar::BinaryOp::Pow,
        _ => false,
    }
}
