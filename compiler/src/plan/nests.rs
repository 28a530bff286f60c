//! Makes a draft of the plan: a step with a nest for each group, the loops of scans, and the
//! buffers that these read and write.

use std::collections::HashMap;

use crate::fusion::{Group, Groups};
use crate::graph::{NodeId, Op, Scan};
use crate::nest::{self, Axis, Window};
use crate::passes::Wholes;
use crate::profile::Profile;

use super::draft::{Draft, DraftStep};
use super::scope::{BufferPart, Scope};
use super::{BufferId, Carry, Content, Loop, PlanError, Port, Work};

/// Units of work for a group.
const GROUP_UNITS: u64 = 200;

/// Returns the draft for the groups of a graph, whose scans must be settled (see
/// [`crate::passes::settle`]). `wholes` has the tensors of which its inputs, weights and outputs
/// are parts.
pub(crate) fn nests<'g>(
    groups: &Groups<'g>,
    profile: &'g Profile,
    wholes: &Wholes,
) -> Result<Draft<'g>, PlanError> {
    let graph = groups.graph;
    let mut draft = Draft::new(graph, profile);
    let mut scope = Scope::new(groups, Vec::new());
    draft.inputs = draft.given(&mut scope, &graph.inputs, &Content::Input, wholes)?;
    draft.weights = draft.given(&mut scope, &graph.weights, &Content::Weight, wholes)?;
    let (once, each): (Vec<&Group>, Vec<&Group>) = groups.list.iter().partition(|group| group.once);
    draft.add_groups(&mut scope, once)?;
    draft.prelude = std::mem::take(&mut draft.steps);
    draft.loops = draft.add_groups(&mut scope, each)?;
    let outputs = graph.outputs.iter().map(|(name, id)| {
        let buffer = draft.stored(&mut scope, graph.storage(*id))?.buffer;
        let (ty, whole) = (graph.node(*id).ty.clone(), wholes.get(name).cloned());
        Ok(Port { name: name.clone(), ty, whole, buffer })
    });
    draft.outputs = outputs.collect::<Result<Vec<Port>, PlanError>>()?;
    draft.updates = updates(&draft.weights, &draft.outputs);
    Ok(draft)
}

/// Returns the weights that have an output of their name, each with that output.
fn updates(weights: &[Port], outputs: &[Port]) -> Vec<(usize, usize)> {
    let numbers: HashMap<&str, usize> =
        outputs.iter().enumerate().map(|(number, output)| (output.name.as_str(), number)).collect();
    let output = |weight: &Port| numbers.get(weight.name.as_str()).copied();
    weights
        .iter()
        .enumerate()
        .filter_map(|(number, weight)| Some((number, output(weight)?)))
        .collect()
}

impl<'g> Draft<'g> {
    /// Adds a buffer for each input or weight that the caller gives.
    fn given(
        &mut self,
        scope: &mut Scope,
        nodes: &[NodeId],
        content: &Content,
        wholes: &Wholes,
    ) -> Result<Vec<Port>, PlanError> {
        let ports = nodes.iter().map(|&id| {
            let buffer = self.add_place(scope, id, content.clone())?.buffer;
            let name = scope.graph.value_name(id);
            self.value_names.unique(&name);
            let (ty, whole) = (scope.graph.node(id).ty.clone(), wholes.get(&name).cloned());
            Ok(Port { name, ty, whole, buffer })
        });
        ports.collect()
    }

    /// Adds the steps of groups. Returns the loops among them.
    fn add_groups<'a>(
        &mut self,
        scope: &mut Scope<'a, 'g>,
        groups: impl IntoIterator<Item = &'a Group>,
    ) -> Result<Vec<Loop>, PlanError> {
        let mut loops = Vec::new();
        for group in groups {
            let root = scope.source(group.main());
            scope.graph.budget.spend(GROUP_UNITS).map_err(|exceeded| root.exceeded(exceeded))?;
            match &scope.graph.node(root.id).op {
                Op::Scan(scan) => loops.extend(self.add_scan(scope, root.id, scan)?),
                _ => self.add_step(scope, group)?,
            }
        }
        Ok(loops)
    }

    /// Adds the step that computes a group, unless it is empty.
    fn add_step(&mut self, scope: &mut Scope<'_, 'g>, group: &Group) -> Result<(), PlanError> {
        let graph = scope.graph;
        let root = group.main();
        let fused = scope.fused(&group.roots);
        let mut roots = Vec::with_capacity(group.roots.len());
        let (mut places, mut values) = (Vec::new(), Vec::new());
        for &root in &group.roots {
            let own = self.places(scope, root)?;
            if graph.node(root).ty.elements() > 0 {
                let name = self.value_names.unique(&graph.value_name(root));
                values.resize(values.len() + own.len(), name);
            }
            roots.push((
                root,
                own.iter().map(|place| place.window.clone()).collect::<Vec<Window>>(),
            ));
            places.extend(own);
        }
        if graph.node(root).ty.elements() == 0 {
            return Ok(());
        }
        let (routine, work, operands) = match &graph.node(root).op {
            Op::PrngValue | Op::PrngState { .. } => generator(scope, root, &places)?,
            _ => {
                let memory = |id| scope.window(id);
                let (nest, operands) =
                    nest::build(graph, group.members(&roots), &memory, &scope.loops)?;
                if !nest.inner.is_empty() && nest.attention().is_none() {
                    return Err(PlanError::Internal(
                        "a nest of products that has no kernel".into(),
                    ));
                }
                (nest.name.clone(), Work::Nest(Box::new(nest)), operands)
            }
        };
        let operands = operands.into_iter().map(|id| Ok(self.stored(scope, id)?.buffer));
        let operands = operands.collect::<Result<Vec<BufferId>, PlanError>>()?;
        let outputs = places.iter().map(|place| place.buffer).collect();
        self.steps.push(DraftStep {
            values,
            fused,
            routine,
            work,
            operands,
            outputs,
            source: scope.source(root),
        });
        Ok(())
    }

    /// Adds the steps of a scan. Returns their loop, or `None` if there is nothing to compute.
    fn add_scan(
        &mut self,
        scope: &mut Scope<'_, 'g>,
        id: NodeId,
        scan: &'g Scan,
    ) -> Result<Option<Loop>, PlanError> {
        let (graph, body) = (scope.graph, &scan.body);
        if scan.length == 0 {
            return Err(PlanError::Internal("a scan of no steps has not been folded".into()));
        }
        let groups = scope.groups.bodies.get(id);
        let groups =
            groups.ok_or_else(|| PlanError::Internal("the body of a scan has no groups".into()))?;
        let operands = graph.operands(id).iter().map(|&operand| self.read(scope, operand));
        let operands = operands.collect::<Result<Vec<BufferPart>, PlanError>>()?;
        let mut results: Vec<Vec<BufferPart>> = vec![Vec::new(); body.outputs.len()];
        for user in graph.users(id) {
            let is_read = !graph.users(user).is_empty() || graph.is_output(user);
            if let (Op::Result { number }, true) = (&graph.node(user).op, is_read) {
                results[*number].extend(self.places(scope, user)?);
            }
        }
        let first_step = self.steps.len();
        let mut loops = scope.loops.clone();
        loops.push(Axis { name: "t".into(), extent: scan.length });
        let depth = loops.len();
        let mut inner = Scope::new(groups, loops);
        let mut inputs = body.inputs.iter().copied().zip(operands);
        for (&axis, (input, whole)) in scan.sequences.iter().zip(inputs.by_ref()) {
            let window = whole.window.at_step(axis, depth);
            inner.places.insert(input, BufferPart { window, ..whole });
        }
        let mut carries = Vec::with_capacity(scan.carries);
        for (number, (input, first)) in inputs.by_ref().take(scan.carries).enumerate() {
            carries.push(self.add_carry(
                &mut inner,
                scan,
                number,
                input,
                first,
                &results[number],
            )?);
        }
        inner.places.extend(inputs);
        for (number, &axis) in scan.yields.iter().enumerate() {
            let number = scan.carries + number;
            for whole in std::mem::take(&mut results[number]) {
                let window = whole.window.at_step(axis, depth);
                inner.want(body.outputs[number].1, BufferPart { window, ..whole });
            }
        }
        let loops = self.add_groups(&mut inner, &groups.list)?;
        let steps = first_step..self.steps.len();
        Ok((!steps.is_empty()).then_some(Loop { steps, length: scan.length, carries, loops }))
    }

    /// Adds the buffers of a carry, which is `input` in the body. `first` has its first value, and
    /// its last one goes to `results`.
    fn add_carry(
        &mut self,
        inner: &mut Scope<'_, 'g>,
        scan: &Scan,
        number: usize,
        input: NodeId,
        first: BufferPart,
        results: &[BufferPart],
    ) -> Result<Carry, PlanError> {
        let source = inner.source(input);
        let ty = &inner.graph.node(input).ty;
        let last = match results {
            [] => self.add_buffer(source, ty, Content::passing(ty))?,
            [place] if place.window.is_whole() => place.buffer,
            _ => {
                return Err(PlanError::Internal(
                    "a carry whose last value is several or a part".into(),
                ));
            }
        };
        if !first.window.is_whole() {
            return Err(PlanError::Internal("a carry whose first value is a part".into()));
        }
        let carry = Carry {
            name: source.name(),
            first: first.buffer,
            before: self.add_buffer(source, ty, Content::Carried)?,
            next: self.add_buffer(source, ty, Content::Carried)?,
            last,
            other: if scan.length == 1 {
                last
            } else {
                self.add_buffer(source, ty, Content::passing(ty))?
            },
        };
        inner.places.insert(input, BufferPart { buffer: carry.before, window: Window::whole(ty) });
        inner.want(
            inner.graph.outputs[number].1,
            BufferPart { buffer: carry.next, window: Window::whole(ty) },
        );
        Ok(carry)
    }
}

/// Returns the work of a random number generator, its name, and the node with its state.
fn generator(
    scope: &Scope,
    root: NodeId,
    places: &[BufferPart],
) -> Result<(String, Work, Vec<NodeId>), PlanError> {
    let graph = scope.graph;
    let work = match graph.node(root).op {
        Op::PrngState { elements } => Work::PrngState { elements },
        _ => Work::PrngValue { elements: graph.node(root).ty.elements() },
    };
    let state = graph.storage(graph.operands(root)[0]);
    let reads_whole = scope.window(state).is_some_and(|window| window.is_whole());
    if !reads_whole || !matches!(places, [place] if place.window.is_whole()) {
        return Err(PlanError::Internal("a generator of a part of a tensor".into()));
    }
    Ok(("prng".to_owned(), work, vec![state]))
}
