//! The locations of a graph's values in memory, while its steps are made.

use std::collections::HashSet;

use crate::fusion::Groups;
use crate::graph::{Graph, NodeId, NodeMap, NodeSet, Op};
use crate::nest::{Axis, Window};
use crate::tensor::Tensor;

use super::draft::{Draft, Source};
use super::{BufferId, Content, PlanError};

/// A graph that is being planned: the program's, or the body of a scan.
pub(super) struct Scope<'a, 'g> {
    pub graph: &'g Graph,
    pub groups: &'a Groups<'g>,
    /// The loops around its steps, the outermost first.
    pub loops: Vec<Axis>,
    /// The location of each node that is in memory.
    pub places: NodeMap<BufferPart>,
    /// The locations to which the surrounding loop wants values written.
    wanted: NodeMap<Vec<BufferPart>>,
    /// The nodes whose memory the graph's outputs are.
    outputs: NodeSet,
}

/// A part of a buffer.
#[derive(Clone)]
pub(super) struct BufferPart {
    pub buffer: BufferId,
    pub window: Window,
}

impl BufferPart {
    /// Returns the same elements in another shape.
    fn reshaped(self, shape: &[usize]) -> Result<BufferPart, PlanError> {
        let window = self.window.reshaped(shape);
        let window =
            window.ok_or_else(|| PlanError::Internal("a reshape of a part of a tensor".into()))?;
        Ok(BufferPart { window, ..self })
    }
}

impl<'a, 'g> Scope<'a, 'g> {
    pub fn new(groups: &'a Groups<'g>, loops: Vec<Axis>) -> Scope<'a, 'g> {
        let graph = groups.graph;
        let outputs = graph.outputs.iter().map(|(_, id)| graph.storage(*id)).collect();
        Scope { graph, groups, loops, places: NodeMap::new(), wanted: NodeMap::new(), outputs }
    }

    /// Requests that the value of `id`, or the value of which it is a reshape, is written to
    /// `place`.
    pub fn want(&mut self, id: NodeId, place: BufferPart) {
        self.wanted.slot(self.graph.storage(id)).get_or_insert_default().push(place);
    }

    pub fn source(&self, id: NodeId) -> Source<'g> {
        Source { graph: self.graph, id }
    }

    /// Returns the names of the values computed for `roots` that are not yet in memory.
    pub fn fused(&self, roots: &[NodeId]) -> Vec<String> {
        let (mut values, mut pending) = (Vec::new(), roots.to_vec());
        let mut seen: HashSet<NodeId> = roots.iter().copied().collect();
        while let Some(id) = pending.pop() {
            values.push(id);
            let unmet =
                |id: &NodeId| self.window(self.graph.storage(*id)).is_none() && seen.insert(*id);
            pending.extend(self.graph.operands(id).iter().copied().filter(unmet));
        }
        values.sort_unstable();
        let mut names: Vec<String> =
            values.into_iter().map(|id| self.graph.value_name(id)).collect();
        names.retain(|name| !name.starts_with('%'));
        names.dedup();
        names
    }

    /// Returns the window of memory with a node's value, if it is in memory.
    pub fn window(&self, id: NodeId) -> Option<Window> {
        let node = self.graph.node(id);
        let constant = || matches!(node.op, Op::Elements(_)).then(|| Window::whole(&node.ty));
        self.places.get(id).map(|place| place.window.clone()).or_else(constant)
    }
}

impl Draft<'_> {
    /// Returns the locations to which a group or a scan writes a value. Readers read one of them.
    pub(super) fn places(
        &mut self,
        scope: &mut Scope,
        id: NodeId,
    ) -> Result<Vec<BufferPart>, PlanError> {
        let mut places = scope.wanted.remove(id).unwrap_or_default();
        if places.is_empty() {
            let is_shown = scope.loops.is_empty() && scope.outputs.contains(id);
            let passing = Content::passing(&scope.graph.node(id).ty);
            places.push(self.add_place(
                scope,
                id,
                if is_shown { Content::Output } else { passing },
            )?);
        }
        let read =
            places.iter().find(|place| place.window.is_whole()).unwrap_or(&places[0]).clone();
        scope.places.insert(id, read.reshaped(scope.graph.shape(id))?);
        Ok(places)
    }

    /// Returns the location of a node that is a view of memory.
    pub(super) fn read(&mut self, scope: &mut Scope, id: NodeId) -> Result<BufferPart, PlanError> {
        self.stored(scope, scope.graph.storage(id))?.reshaped(scope.graph.shape(id))
    }

    /// Returns the location of a node that is in memory.
    pub(super) fn stored(
        &mut self,
        scope: &mut Scope,
        id: NodeId,
    ) -> Result<BufferPart, PlanError> {
        if let Some(place) = scope.places.get(id) {
            return Ok(place.clone());
        }
        let node = scope.graph.node(id);
        let Op::Elements(values) = &node.op else {
            return Err(PlanError::Internal("what is not in memory is read from there".into()));
        };
        let tensor = Tensor::from_scalars(node.ty.clone(), values.iter().copied());
        let tensor =
            tensor.ok_or_else(|| PlanError::Internal("a constant of another length".into()))?;
        self.add_place(scope, id, Content::Constant(tensor))
    }

    /// Adds a buffer for one node.
    pub(super) fn add_place(
        &mut self,
        scope: &mut Scope,
        id: NodeId,
        content: Content,
    ) -> Result<BufferPart, PlanError> {
        let ty = &scope.graph.node(id).ty;
        let place = BufferPart {
            buffer: self.add_buffer(scope.source(id), ty, content)?,
            window: Window::whole(ty),
        };
        scope.places.insert(id, place.clone());
        Ok(place)
    }
}
