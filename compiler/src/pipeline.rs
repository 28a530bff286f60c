//! The whole compiler on one page: every pass is a call here, in the order in which it runs.

use std::collections::HashMap;

use crate::graph::{Graph, NodeId, Op};
use crate::nest::{self, Nest, Window};
use crate::passes::{Group, dead, fold, fuse, hoist, is_source, share, storage};
use crate::plan::{
    Buffer, BufferId, Content, Plan, PlanError, Port, Routine, RoutineId, Step, Work, assign_slots, keep,
};
use crate::profile::{Execution, Profile};
use crate::schedule::{self, ScheduleError};
use crate::tensor::Tensor;

/// Rewrites `graph` into an equal one that costs less.
pub fn optimise(graph: &mut Graph) {
    for pass in [fold, hoist, share, dead] {
        pass(graph);
        debug_assert_eq!(graph.verify(), Ok(()));
    }
}

/// The plan that runs `graph` on a device with `profile`.
pub fn plan(graph: &Graph, profile: &Profile) -> Result<Plan, PlanError> {
    let mut planner = Planner {
        graph,
        profile,
        buffers: Vec::new(),
        of_node: HashMap::new(),
        routines: Vec::new(),
        of_work: HashMap::new(),
        routine_names: Names::default(),
        value_names: Names::default(),
    };
    let inputs = planner.given(&graph.inputs, &Content::Input)?;
    let weights = planner.given(&graph.weights, &Content::Weight)?;
    let (once, each): (Vec<Group>, Vec<Group>) = fuse(graph, profile).into_iter().partition(|group| group.once);
    let prelude = planner.steps(&once)?;
    let steps = planner.steps(&each)?;
    let outputs = planner.outputs()?;
    keep(&mut planner.buffers, &prelude, &steps);
    let slots = assign_slots(&mut planner.buffers, prelude.iter().chain(&steps));
    Ok(Plan {
        name: graph.name.clone(),
        profile: profile.clone(),
        buffers: planner.buffers,
        slots,
        routines: planner.routines,
        prelude,
        steps,
        inputs,
        weights,
        outputs,
    })
}

struct Planner<'a> {
    graph: &'a Graph,
    profile: &'a Profile,
    buffers: Vec<Buffer>,
    of_node: HashMap<NodeId, BufferId>,
    routines: Vec<Routine>,
    /// The routine that does a work, which is here without names.
    of_work: HashMap<Work, RoutineId>,
    routine_names: Names,
    value_names: Names,
}

impl Planner<'_> {
    /// The buffer of a node, made with this content where it has none.
    fn buffer(&mut self, id: NodeId, content: Content) -> Result<BufferId, PlanError> {
        if let Some(&buffer) = self.of_node.get(&id) {
            return Ok(buffer);
        }
        let ty = self.graph.node(id).ty.clone();
        let Some(stored) = self.profile.storage(ty.dtype) else {
            let what = format!("tensors of type {}", ty.dtype);
            let device = self.profile.name.clone();
            return Err(PlanError::Unsupported { value: self.graph.value_name(id), what, device });
        };
        let buffer = Buffer { ty, storage: stored, content };
        // Shader indices are i32.
        let addressable = match self.profile.execution {
            Execution::Shader => (i32::MAX as u64).saturating_mul(stored.size() as u64),
            Execution::Native => u64::MAX,
        };
        let limit = self.profile.max_buffer_bytes.min(self.profile.max_binding_bytes).min(addressable);
        if buffer.bytes() > limit {
            return Err(PlanError::TooLarge {
                value: self.graph.value_name(id),
                bytes: buffer.bytes(),
                ty: buffer.ty,
                limit,
                device: self.profile.name.clone(),
            });
        }
        self.buffers.push(buffer);
        self.of_node.insert(id, self.buffers.len() - 1);
        Ok(self.buffers.len() - 1)
    }

    /// What the caller gives, inputs or weights, each in a buffer of its own.
    fn given(&mut self, nodes: &[NodeId], content: &Content) -> Result<Vec<Port>, PlanError> {
        let ports = nodes.iter().map(|&id| {
            let buffer = self.buffer(id, content.clone())?;
            let name = self.graph.value_name(id);
            self.value_names.unique(&name);
            Ok(Port { name, ty: self.graph.node(id).ty.clone(), buffer })
        });
        ports.collect()
    }

    fn outputs(&mut self) -> Result<Vec<Port>, PlanError> {
        let outputs = self.graph.outputs.iter().map(|(name, id)| {
            let buffer = self.read(storage(self.graph, *id))?;
            Ok(Port { name: name.clone(), ty: self.graph.node(*id).ty.clone(), buffer })
        });
        outputs.collect()
    }

    /// The buffer of a node that a step or the caller reads.
    fn read(&mut self, id: NodeId) -> Result<BufferId, PlanError> {
        match &self.graph.node(id).op {
            Op::Elements(values) => {
                let tensor = Tensor::from_scalars(self.graph.node(id).ty.clone(), values.iter().copied());
                let tensor = tensor.ok_or_else(|| PlanError::Internal("a constant of another length".into()))?;
                self.buffer(id, Content::Constant(tensor))
            }
            // Only empty tensors have no step that writes them.
            _ => self.buffer(id, Content::Output),
        }
    }

    /// The steps that compute the groups, in order.
    fn steps(&mut self, groups: &[Group]) -> Result<Vec<Step>, PlanError> {
        groups.iter().filter_map(|group| self.step(group).transpose()).collect()
    }

    /// The step that computes a group; `None` where there is nothing to compute.
    fn step(&mut self, group: &Group) -> Result<Option<Step>, PlanError> {
        let graph = self.graph;
        let root = group.root;
        let shown = graph.outputs.iter().any(|(_, id)| storage(graph, *id) == root);
        let content = if shown { Content::Output } else { Content::Temporary { slot: usize::MAX } };
        let ty = &graph.node(root).ty;
        if ty.elements() == 0 {
            self.buffer(root, Content::Output)?;
            return Ok(None);
        }
        let (name, work, operands) = match &graph.node(root).op {
            op @ (Op::PrngValue | Op::PrngState { .. }) => {
                let work = match op {
                    Op::PrngState { elements } => Work::PrngState { elements: *elements },
                    _ => Work::PrngValue { elements: ty.elements() },
                };
                ("prng".to_owned(), work, vec![storage(graph, graph.operands(root)[0])])
            }
            _ => {
                let whole = |id| Window::whole(&graph.node(id).ty);
                let memory = |id| self.is_in_memory(id).then(|| whole(id));
                let (nest, operands) = nest::build(graph, root, group.contraction, &memory, &[whole(root)], &[])?;
                (nest.name.clone(), Work::Nest(Box::new(nest)), operands)
            }
        };
        let routine = self.routine(root, &name, work)?;
        let operands = operands.into_iter().map(|id| self.read(id)).collect::<Result<_, _>>()?;
        let outputs = vec![self.buffer(root, content)?];
        let name = self.value_names.unique(&graph.value_name(root));
        Ok(Some(Step { name, routine, operands, outputs }))
    }

    /// The routine that does `work` for a step that computes `root`: one that does so already, else a new one with a name
    /// like `name`.
    fn routine(&mut self, root: NodeId, name: &str, mut work: Work) -> Result<RoutineId, PlanError> {
        let key = work.anonymous();
        if let Some(&known) = self.of_work.get(&key) {
            return Ok(known);
        }
        let name = self.routine_names.unique(name);
        let shader = self.profile.execution == Execution::Shader;
        let mut schedule = None;
        let kernel = match &mut work {
            Work::PrngValue { elements } if shader => schedule::prng_value(&name, *elements).map(Some),
            Work::PrngState { elements } if shader => schedule::prng_state(&name, *elements).map(Some),
            Work::PrngValue { .. } | Work::PrngState { .. } => Ok(None),
            Work::Nest(nest) => {
                nest.name.clone_from(&name);
                nest.verify()?;
                self.check_limits(root, nest)?;
                let chosen = schedule.insert(schedule::choose(nest, self.profile));
                schedule::kernel(nest, chosen, self.profile)
            }
        };
        let kernel = kernel.map_err(|error| self.schedule_error(root, error))?;
        self.routines.push(Routine { name, work, schedule, kernel });
        self.of_work.insert(key, self.routines.len() - 1);
        Ok(self.routines.len() - 1)
    }

    fn is_in_memory(&self, id: NodeId) -> bool {
        is_source(&self.graph.node(id).op) || self.of_node.contains_key(&id)
    }

    /// Refuses types that the device has not, anywhere in the nest, and more tensors than a kernel may bind.
    fn check_limits(&self, root: NodeId, nest: &Nest) -> Result<(), PlanError> {
        let tensors = nest.operands.len() + nest.outputs.len();
        if tensors > self.profile.max_buffers as usize {
            return Err(self.unsupported(root, format!("kernel that binds {tensors} tensors")));
        }
        let programs = nest.body.insts.iter().chain(&nest.epilogue.insts);
        let missing = programs.map(|(_, dtype)| *dtype).find(|&d| self.profile.storage(d).is_none());
        match missing {
            Some(dtype) => Err(self.unsupported(root, format!("values of type {dtype}"))),
            None => Ok(()),
        }
    }

    fn unsupported(&self, root: NodeId, what: String) -> PlanError {
        PlanError::Unsupported { value: self.graph.value_name(root), what, device: self.profile.name.clone() }
    }

    fn schedule_error(&self, root: NodeId, error: ScheduleError) -> PlanError {
        match error {
            ScheduleError::Unsupported(unsupported) => self.unsupported(root, unsupported.what),
            ScheduleError::TooManyPlaces => {
                let elements = self.graph.node(root).ty.elements();
                self.unsupported(root, format!("launch large enough for {elements} elements"))
            }
            ScheduleError::Invalid(_) | ScheduleError::Internal(_) => PlanError::Internal(error.to_string()),
        }
    }
}

/// Names that are taken.
#[derive(Default)]
struct Names {
    /// How often each was asked for.
    uses: HashMap<String, usize>,
}

impl Names {
    /// `name`, numbered where that is taken.
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
