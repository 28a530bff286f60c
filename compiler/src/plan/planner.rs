//! Builds the plan of a graph: buffers, routines, steps and loops, group by group.

use std::collections::{HashMap, HashSet};

use crate::fusion::{Group, fuse};
use crate::graph::{Graph, NodeId, Op, Scan};
use crate::nest::{self, Axis, Nest, Window};
use crate::profile::{Execution, Profile};
use crate::schedule::{self, Choice, Divided, ScheduleError, Tuned};
use crate::tensor::{Tensor, TensorType};

use super::memory::{assign_slots, keep};
use super::overwrite::overwrite;
use super::{Buffer, BufferId, Carry, Content, Loop, Plan, PlanError, Port, Routine, RoutineId, Step, Work};

/// Units of work for a group, and for a new routine and each instruction of its nest.
const GROUP_UNITS: u64 = 200;
const ROUTINE_UNITS: u64 = 500;
const INSTRUCTION_UNITS: u64 = 20;

/// The state of the plan under construction.
pub(crate) struct Planner<'a> {
    profile: &'a Profile,
    tuned: &'a Tuned,
    /// Write next values of weights over the weights, if possible.
    overwrites: bool,
    buffers: Vec<Buffer>,
    routines: Vec<Routine>,
    /// The routine for each work. The keys have no names.
    of_work: HashMap<Work, RoutineId>,
    routine_names: Names,
    value_names: Names,
    steps: Vec<Planned<'a>>,
}

/// A step without its routine.
pub(super) struct Planned<'a> {
    values: Vec<String>,
    fused: Vec<String>,
    /// The name for the routine, if a new one is made.
    routine: String,
    pub work: Work,
    pub operands: Vec<BufferId>,
    pub outputs: Vec<BufferId>,
    /// The graph and the node that the step computes.
    graph: &'a Graph,
    root: NodeId,
}

/// A graph that is being planned: the program's, or the body of a scan.
struct Scope<'g> {
    graph: &'g Graph,
    /// The loops around its steps, the outermost first.
    loops: Vec<Axis>,
    /// The location of each node that is in memory.
    places: HashMap<NodeId, Place>,
    /// The locations to which the surrounding loop wants values written.
    wanted: HashMap<NodeId, Vec<Place>>,
    /// The nodes whose memory the graph's outputs are.
    outputs: HashSet<NodeId>,
}

/// A part of a buffer.
#[derive(Clone)]
struct Place {
    buffer: BufferId,
    window: Window,
}

impl<'a> Planner<'a> {
    /// Returns a planner that prefers the schedules in `tuned`. With `overwrites`, it writes next
    /// values of weights over the weights.
    pub fn new(profile: &'a Profile, tuned: &'a Tuned, overwrites: bool) -> Planner<'a> {
        Planner {
            profile,
            tuned,
            overwrites,
            buffers: Vec::new(),
            routines: Vec::new(),
            of_work: HashMap::new(),
            routine_names: Names::default(),
            value_names: Names::default(),
            steps: Vec::new(),
        }
    }

    /// Returns the plan of a graph. Its scans must be settled (see [`crate::passes::settle`]).
    pub fn plan(mut self, graph: &'a Graph) -> Result<Plan, PlanError> {
        let mut scope = Scope::new(graph, Vec::new());
        let inputs = self.given(&mut scope, &graph.inputs, &Content::Input)?;
        let weights = self.given(&mut scope, &graph.weights, &Content::Weight)?;
        let time = |nest: &Nest| {
            graph.budget.spend(GROUP_UNITS + 2 * nest.epilogue.insts.len() as u64).ok()?;
            schedule::ranked(nest, self.profile).first().map(|(time, _)| *time)
        };
        let (once, each): (Vec<Group>, Vec<Group>) =
            fuse(graph, self.profile, Some(&time)).into_iter().partition(|group| group.once);
        self.groups(&mut scope, &once)?;
        let prelude = std::mem::take(&mut self.steps);
        let mut loops = self.groups(&mut scope, &each)?;
        let mut steps = std::mem::take(&mut self.steps);
        let outputs = graph.outputs.iter().map(|(name, id)| {
            let buffer = self.stored(&mut scope, graph.storage(*id))?.buffer;
            Ok(Port { name: name.clone(), ty: graph.node(*id).ty.clone(), buffer })
        });
        let outputs = outputs.collect::<Result<Vec<Port>, PlanError>>()?;
        let numbers: HashMap<&str, usize> =
            outputs.iter().enumerate().map(|(number, output)| (output.name.as_str(), number)).collect();
        let output = |weight: &Port| numbers.get(weight.name.as_str()).copied();
        let updates: Vec<(usize, usize)> =
            weights.iter().enumerate().filter_map(|(number, weight)| Some((number, output(weight)?))).collect();
        if self.overwrites {
            let next = updates.iter().map(|&(weight, output)| (weights[weight].buffer, outputs[output].buffer));
            let next: Vec<(BufferId, BufferId)> = next.collect();
            overwrite(&mut steps, &mut loops, &outputs, &mut self.buffers, &next);
        }
        let prelude = prelude.into_iter().map(|step| self.made(step)).collect::<Result<_, PlanError>>()?;
        let steps = steps.into_iter().map(|step| self.made(step)).collect::<Result<_, PlanError>>()?;
        let mut plan = Plan {
            name: graph.name.clone(),
            profile: self.profile.clone(),
            buffers: self.buffers,
            slots: Vec::new(),
            routines: self.routines,
            prelude,
            steps,
            loops,
            inputs,
            weights,
            outputs,
            updates,
        };
        let buffers = plan.buffers.len() as u64;
        // Each temporary looks for a free slot.
        let counted = graph.budget.spend(buffers * buffers / 128);
        counted.map_err(|exceeded| PlanError::Exceeded { value: graph.name.clone(), exceeded })?;
        keep(&mut plan);
        assign_slots(&mut plan);
        Ok(plan)
    }

    /// Adds a buffer for each input or weight that the caller gives.
    fn given(&mut self, scope: &mut Scope, nodes: &[NodeId], content: &Content) -> Result<Vec<Port>, PlanError> {
        let ports = nodes.iter().map(|&id| {
            let buffer = self.own(scope, id, content.clone())?.buffer;
            let name = scope.graph.value_name(id);
            self.value_names.unique(&name);
            Ok(Port { name, ty: scope.graph.node(id).ty.clone(), buffer })
        });
        ports.collect()
    }

    /// Adds the steps of groups. Returns the loops among them.
    fn groups(&mut self, scope: &mut Scope<'a>, groups: &[Group]) -> Result<Vec<Loop>, PlanError> {
        let mut loops = Vec::new();
        for group in groups {
            let root = group.main();
            let counted = scope.graph.budget.spend(GROUP_UNITS);
            counted.map_err(|exceeded| PlanError::Exceeded { value: scope.graph.value_name(root), exceeded })?;
            match &scope.graph.node(root).op {
                Op::Scan(scan) => loops.extend(self.scan(scope, root, scan)?),
                _ => self.step(scope, group)?,
            }
        }
        Ok(loops)
    }

    /// Adds the step that computes a group, unless it is empty.
    fn step(&mut self, scope: &mut Scope<'a>, group: &Group) -> Result<(), PlanError> {
        let graph = scope.graph;
        let root = group.main();
        let fused = scope.fused(&group.roots);
        let mut roots = Vec::with_capacity(group.roots.len());
        let mut places = Vec::new();
        let mut values = Vec::new();
        for &root in &group.roots {
            let own = self.places(scope, root)?;
            if graph.node(root).ty.elements() > 0 {
                let name = self.value_names.unique(&graph.value_name(root));
                values.resize(values.len() + own.len(), name);
            }
            roots.push((root, own.iter().map(|place| place.window.clone()).collect::<Vec<Window>>()));
            places.extend(own);
        }
        if graph.node(root).ty.elements() == 0 {
            return Ok(());
        }
        let (name, work, operands) = match &graph.node(root).op {
            op @ (Op::PrngValue | Op::PrngState { .. }) => {
                let work = match op {
                    Op::PrngState { elements } => Work::PrngState { elements: *elements },
                    _ => Work::PrngValue { elements: graph.node(root).ty.elements() },
                };
                let state = graph.storage(graph.operands(root)[0]);
                let reads_whole = scope.window(state).is_some_and(|window| window.is_whole());
                if !reads_whole || !matches!(&places[..], [place] if place.window.is_whole()) {
                    return Err(PlanError::Internal("a generator of a part of a tensor".into()));
                }
                ("prng".to_owned(), work, vec![state])
            }
            _ => {
                let memory = |id| scope.window(id);
                let (nest, operands) = nest::build(graph, group.members(&roots), &memory, &scope.loops)?;
                if !nest.inner.is_empty() && nest.attention().is_none() {
                    return Err(PlanError::Internal("a nest of products that has no kernel".into()));
                }
                (nest.name.clone(), Work::Nest(Box::new(nest)), operands)
            }
        };
        let operands = operands.into_iter().map(|id| Ok(self.stored(scope, id)?.buffer));
        let operands = operands.collect::<Result<Vec<BufferId>, PlanError>>()?;
        let outputs = places.iter().map(|place| place.buffer).collect();
        let divided = match &work {
            Work::Nest(nest) => schedule::divide(nest, self.profile),
            Work::PrngValue { .. } | Work::PrngState { .. } => None,
        };
        let Some(Divided { first, first_operands, second, second_operands, parts }) = divided else {
            self.steps.push(Planned { values, fused, routine: name, work, operands, outputs, graph, root });
            return Ok(());
        };
        let parts = self.buffer(graph, root, &parts, Content::passing(&parts))?;
        let of = |numbers: Vec<usize>| numbers.into_iter().map(|number| operands[number]).collect::<Vec<BufferId>>();
        self.steps.push(Planned {
            values: vec![self.value_names.unique(&format!("{}.parts", graph.value_name(root)))],
            fused: fused.clone(),
            routine: first.name.clone(),
            work: Work::Nest(Box::new(first)),
            operands: of(first_operands),
            outputs: vec![parts],
            graph,
            root,
        });
        let (operands, work) = ([of(second_operands), vec![parts]].concat(), Work::Nest(Box::new(second)));
        self.steps.push(Planned { values, fused, routine: name, work, operands, outputs, graph, root });
        Ok(())
    }

    /// Makes the step with its routine.
    fn made(&mut self, step: Planned) -> Result<Step, PlanError> {
        let Planned { values, fused, routine, work, operands, outputs, graph, root } = step;
        let routine = self.routine(graph, root, &routine, work)?;
        Ok(Step { values, fused, routine, operands, outputs })
    }

    /// Adds the steps of a scan. Returns their loop, or `None` if there is nothing to compute.
    fn scan(&mut self, scope: &mut Scope<'a>, id: NodeId, scan: &'a Scan) -> Result<Option<Loop>, PlanError> {
        let (graph, body) = (scope.graph, &scan.body);
        if scan.length == 0 {
            return Err(PlanError::Internal("a scan of no steps has not been folded".into()));
        }
        let mut operands = Vec::new();
        for operand in graph.operands(id) {
            operands.push(self.read(scope, operand)?);
        }
        let mut results: Vec<Vec<Place>> = vec![Vec::new(); body.outputs.len()];
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
        let mut inner = Scope::new(body, loops);
        let mut inputs = body.inputs.iter().copied().zip(operands);
        for (&axis, (input, whole)) in scan.sequences.iter().zip(inputs.by_ref()) {
            let window = whole.window.at_step(axis, depth);
            inner.places.insert(input, Place { window, ..whole });
        }
        let mut carries = Vec::with_capacity(scan.carries);
        for (number, (input, first)) in inputs.by_ref().take(scan.carries).enumerate() {
            let ty = &body.node(input).ty;
            let last = match &results[number][..] {
                [] => self.buffer(body, input, ty, Content::passing(ty))?,
                [place] if place.window.is_whole() => place.buffer,
                _ => return Err(PlanError::Internal("a carry whose last value is several or a part".into())),
            };
            if !first.window.is_whole() {
                return Err(PlanError::Internal("a carry whose first value is a part".into()));
            }
            let carry = Carry {
                name: body.value_name(input),
                first: first.buffer,
                before: self.buffer(body, input, ty, Content::Carried)?,
                next: self.buffer(body, input, ty, Content::Carried)?,
                last,
                other: if scan.length == 1 { last } else { self.buffer(body, input, ty, Content::passing(ty))? },
            };
            inner.places.insert(input, Place { buffer: carry.before, window: Window::whole(ty) });
            inner.want(body.outputs[number].1, Place { buffer: carry.next, window: Window::whole(ty) });
            carries.push(carry);
        }
        inner.places.extend(inputs);
        for (number, &axis) in scan.yields.iter().enumerate() {
            let number = scan.carries + number;
            for whole in std::mem::take(&mut results[number]) {
                let window = whole.window.at_step(axis, depth);
                inner.want(body.outputs[number].1, Place { window, ..whole });
            }
        }
        let loops = self.groups(&mut inner, &fuse(body, self.profile, None))?;
        let steps = first_step..self.steps.len();
        Ok((!steps.is_empty()).then_some(Loop { steps, length: scan.length, carries, loops }))
    }

    /// Returns the locations to which a group or a scan writes a value. Readers read one of them.
    fn places(&mut self, scope: &mut Scope, id: NodeId) -> Result<Vec<Place>, PlanError> {
        let mut places = scope.wanted.remove(&id).unwrap_or_default();
        if places.is_empty() {
            let graph = scope.graph;
            let shown = scope.loops.is_empty() && scope.outputs.contains(&id);
            places.push(self.own(
                scope,
                id,
                if shown { Content::Output } else { Content::passing(&graph.node(id).ty) },
            )?);
        }
        let read = places.iter().find(|place| place.window.is_whole()).unwrap_or(&places[0]).clone();
        scope.places.insert(id, reshaped(read, scope.graph.shape(id))?);
        Ok(places)
    }

    /// Returns the location of a node that is a view of memory.
    fn read(&mut self, scope: &mut Scope, id: NodeId) -> Result<Place, PlanError> {
        let stored = self.stored(scope, scope.graph.storage(id))?;
        reshaped(stored, scope.graph.shape(id))
    }

    /// Returns the location of a node that is in memory.
    fn stored(&mut self, scope: &mut Scope, id: NodeId) -> Result<Place, PlanError> {
        if let Some(place) = scope.places.get(&id) {
            return Ok(place.clone());
        }
        let node = scope.graph.node(id);
        let Op::Elements(values) = &node.op else {
            return Err(PlanError::Internal("what is not in memory is read from there".into()));
        };
        let tensor = Tensor::from_scalars(node.ty.clone(), values.iter().copied());
        let tensor = tensor.ok_or_else(|| PlanError::Internal("a constant of another length".into()))?;
        self.own(scope, id, Content::Constant(tensor))
    }

    /// Adds a buffer for one node.
    fn own(&mut self, scope: &mut Scope, id: NodeId, content: Content) -> Result<Place, PlanError> {
        let ty = &scope.graph.node(id).ty;
        let place = Place { buffer: self.buffer(scope.graph, id, ty, content)?, window: Window::whole(ty) };
        scope.places.insert(id, place.clone());
        Ok(place)
    }

    /// Adds a buffer for the value of a node.
    fn buffer(&mut self, graph: &Graph, id: NodeId, ty: &TensorType, content: Content) -> Result<BufferId, PlanError> {
        let Some(stored) = self.profile.storage(ty.dtype) else {
            return Err(self.unsupported(graph, id, format!("tensors of type {}", ty.dtype)));
        };
        let buffer = Buffer { ty: ty.clone(), storage: stored, content };
        let limit = self.profile.most_bytes(stored);
        if buffer.bytes() > limit {
            return Err(PlanError::TooLarge {
                value: graph.value_name(id),
                bytes: buffer.bytes(),
                ty: buffer.ty,
                limit,
                device: self.profile.name.clone(),
            });
        }
        self.buffers.push(buffer);
        Ok(self.buffers.len() - 1)
    }

    /// Returns a routine that does `work` for a step that computes `root`: an existing one, or else
    /// a new one with a name like `name`.
    fn routine(&mut self, graph: &Graph, root: NodeId, name: &str, mut work: Work) -> Result<RoutineId, PlanError> {
        let key = work.anonymous();
        if let Some(&known) = self.of_work.get(&key) {
            return Ok(known);
        }
        let instructions = match &work {
            Work::Nest(nest) => nest.body.insts.len() + nest.epilogue.insts.len(),
            Work::PrngValue { .. } | Work::PrngState { .. } => 0,
        };
        let counted = graph.budget.spend(ROUTINE_UNITS + INSTRUCTION_UNITS * instructions as u64);
        counted.map_err(|exceeded| PlanError::Exceeded { value: graph.value_name(root), exceeded })?;
        let name = self.routine_names.unique(name);
        let shader = self.profile.execution == Execution::Shader;
        let (mut schedule, mut choice) = (None, Choice::Predicted);
        let kernel = match &mut work {
            Work::PrngValue { elements } if shader => schedule::prng_value(&name, *elements).map(Some),
            Work::PrngState { elements } if shader => schedule::prng_state(&name, *elements).map(Some),
            Work::PrngValue { .. } | Work::PrngState { .. } => Ok(None),
            Work::Nest(nest) => {
                nest.name.clone_from(&name);
                nest.verify()?;
                self.check_limits(graph, root, nest)?;
                let (chosen, how) = self.tuned.choose(nest, self.profile);
                choice = how;
                schedule::kernel(nest, schedule.insert(chosen), self.profile)
            }
        };
        let kernel = kernel.map_err(|error| self.schedule_error(graph, root, error))?;
        self.routines.push(Routine { name, work, schedule, choice, kernel });
        self.of_work.insert(key, self.routines.len() - 1);
        Ok(self.routines.len() - 1)
    }

    /// Rejects a nest with types that the device lacks, or with more tensors than a kernel can
    /// bind.
    fn check_limits(&self, graph: &Graph, root: NodeId, nest: &Nest) -> Result<(), PlanError> {
        let tensors = nest.operands.len() + nest.outputs.len();
        if tensors > self.profile.max_buffers as usize {
            return Err(self.unsupported(graph, root, format!("kernel that binds {tensors} tensors")));
        }
        let programs = nest.body.insts.iter().chain(&nest.epilogue.insts);
        let missing = programs.map(|(_, dtype)| *dtype).find(|&d| self.profile.storage(d).is_none());
        match missing {
            Some(dtype) => Err(self.unsupported(graph, root, format!("values of type {dtype}"))),
            None => Ok(()),
        }
    }

    fn unsupported(&self, graph: &Graph, root: NodeId, what: String) -> PlanError {
        PlanError::Unsupported { value: graph.value_name(root), what, device: self.profile.name.clone() }
    }

    fn schedule_error(&self, graph: &Graph, root: NodeId, error: ScheduleError) -> PlanError {
        match error {
            ScheduleError::Unsupported(unsupported) => self.unsupported(graph, root, unsupported.what),
            ScheduleError::TooManyPlaces => {
                let elements = graph.node(root).ty.elements();
                self.unsupported(graph, root, format!("launch large enough for {elements} elements"))
            }
            ScheduleError::Invalid(_) | ScheduleError::Internal(_) => PlanError::Internal(error.to_string()),
        }
    }
}

impl<'g> Scope<'g> {
    fn new(graph: &'g Graph, loops: Vec<Axis>) -> Scope<'g> {
        let outputs = graph.outputs.iter().map(|(_, id)| graph.storage(*id)).collect();
        Scope { graph, loops, places: HashMap::new(), wanted: HashMap::new(), outputs }
    }

    /// Requests that the value of `id`, or the value of which it is a reshape, is written to
    /// `place`.
    fn want(&mut self, id: NodeId, place: Place) {
        self.wanted.entry(self.graph.storage(id)).or_default().push(place);
    }

    /// Returns the names of the values computed for `roots` that are not yet in memory.
    fn fused(&self, roots: &[NodeId]) -> Vec<String> {
        let (mut values, mut pending) = (Vec::new(), roots.to_vec());
        let mut seen: HashSet<NodeId> = roots.iter().copied().collect();
        while let Some(id) = pending.pop() {
            values.push(id);
            let unmet = |id: &NodeId| self.window(self.graph.storage(*id)).is_none() && seen.insert(*id);
            pending.extend(self.graph.operands(id).into_iter().filter(unmet));
        }
        values.sort_unstable();
        let mut names: Vec<String> = values.into_iter().map(|id| self.graph.value_name(id)).collect();
        names.retain(|name| !name.starts_with('%'));
        names.dedup();
        names
    }

    /// Returns the window of memory with a node's value, if it is in memory.
    fn window(&self, id: NodeId) -> Option<Window> {
        let node = self.graph.node(id);
        let constant = || matches!(node.op, Op::Elements(_)).then(|| Window::whole(&node.ty));
        self.places.get(&id).map(|place| place.window.clone()).or_else(constant)
    }
}

/// Returns the same elements in another shape.
fn reshaped(place: Place, shape: &[usize]) -> Result<Place, PlanError> {
    let window = place.window.reshaped(shape);
    let window = window.ok_or_else(|| PlanError::Internal("a reshape of a part of a tensor".into()))?;
    Ok(Place { window, ..place })
}

/// The names that are taken.
#[derive(Default)]
struct Names {
    /// The number of times that each name was requested.
    uses: HashMap<String, usize>,
}

impl Names {
    /// Returns `name`, with a number if it is taken.
    fn unique(&mut self, name: &str) -> String {
        loop {
            let uses = self.uses.entry(name.to_owned()).or_insert(0);
            *uses += 1;
            if *uses == 1 {
                return name.to_owned();
            }
            let numbered = format!("{name}_{uses}");
            if self.uses.insert(numbered.clone(), 1).is_none() {
                return numbered;
            }
        }
    }
}
