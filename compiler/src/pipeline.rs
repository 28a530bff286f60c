//! The whole compiler on one page: every pass is a call here, in the order in which it runs.

use std::collections::HashMap;
use std::fmt;

use tile_lang::diagnostic::Diagnostic;

use crate::graph::{Graph, NodeId, Op};
use crate::nest::{self, InvalidNest, Nest, NestError};
use crate::passes::{Group, dead, fold, fuse, is_source, share, storage};
use crate::plan::{Buffer, BufferId, Content, Plan, Port, Step, Work, assign_slots};
use crate::profile::{Execution, Profile};
use crate::schedule::{self, ScheduleError};
use crate::tensor::{Tensor, TensorType};

/// Why a graph has no plan for a profile.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanError {
    /// The device lacks a type or operation that `value` needs.
    Unsupported { value: String, what: String, device: String },
    /// A tensor is larger than the device can hold or bind.
    TooLarge { value: String, ty: TensorType, bytes: u64, limit: u64, device: String },
    /// A bug of ours.
    Internal(String),
}

impl PlanError {
    /// The error at the place where the source of `graph` computes the value; `None` for a bug of ours.
    pub fn diagnostic(&self, graph: &Graph) -> Option<Diagnostic> {
        let (code, value, help) = match self {
            PlanError::TooLarge { value, .. } => ("E0290", value, "use smaller sizes, or the device `cpu`"),
            PlanError::Unsupported { value, .. } => ("E0291", value, "use the device `cpu`, which has every type"),
            PlanError::Internal(_) => return None,
        };
        let span = graph.ids().find(|&id| value_name(graph, id) == *value).and_then(|id| graph.node(id).span);
        Some(Diagnostic::error(code, span.unwrap_or_default(), self.to_string()).help(help))
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Unsupported { value, what, device } => {
                write!(f, "`{value}` can't run on `{device}`: it has no {what}")
            }
            PlanError::TooLarge { value, ty, bytes, limit, device } => {
                write!(f, "`{value}` is {ty}, {bytes} bytes: `{device}` holds at most {limit} bytes in a buffer")
            }
            PlanError::Internal(what) => write!(f, "internal error: {what}"),
        }
    }
}

impl std::error::Error for PlanError {}

impl From<NestError> for PlanError {
    fn from(error: NestError) -> PlanError {
        PlanError::Internal(error.to_string())
    }
}

impl From<InvalidNest> for PlanError {
    fn from(error: InvalidNest) -> PlanError {
        PlanError::Internal(error.to_string())
    }
}

/// Rewrites `graph` into an equal one that costs less.
pub fn optimise(graph: &mut Graph) {
    for pass in [fold, share, dead] {
        pass(graph);
        debug_assert_eq!(graph.verify(), Ok(()));
    }
}

/// The plan that runs `graph` on a device with `profile`.
pub fn plan(graph: &Graph, profile: &Profile) -> Result<Plan, PlanError> {
    let mut planner = Planner { graph, profile, buffers: Vec::new(), of_node: HashMap::new(), names: HashMap::new() };
    let inputs = planner.given(&graph.inputs, &Content::Input)?;
    let weights = planner.given(&graph.weights, &Content::Weight)?;
    let mut steps = Vec::new();
    for group in fuse(graph, profile) {
        if let Some(step) = planner.step(&group)? {
            steps.push(step);
        }
    }
    let outputs = planner.outputs()?;
    let slots = assign_slots(&mut planner.buffers, &steps);
    Ok(Plan {
        name: graph.name.clone(),
        profile: profile.clone(),
        buffers: planner.buffers,
        slots,
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
    /// How often a step's name was used.
    names: HashMap<String, usize>,
}

impl Planner<'_> {
    fn value_name(&self, id: NodeId) -> String {
        value_name(self.graph, id)
    }

    /// The buffer of a node, made with this content where it has none.
    fn buffer(&mut self, id: NodeId, content: Content) -> Result<BufferId, PlanError> {
        if let Some(&buffer) = self.of_node.get(&id) {
            return Ok(buffer);
        }
        let ty = self.graph.node(id).ty.clone();
        let Some(stored) = self.profile.storage(ty.dtype) else {
            let what = format!("tensors of type {}", ty.dtype);
            let device = self.profile.name.clone();
            return Err(PlanError::Unsupported { value: self.value_name(id), what, device });
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
                value: self.value_name(id),
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
            Ok(Port { name: self.value_name(id), ty: self.graph.node(id).ty.clone(), buffer })
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
        let (name, operands, work, kernel) = match &graph.node(root).op {
            op @ (Op::PrngValue | Op::PrngState { .. }) => {
                let state = storage(graph, graph.operands(root)[0]);
                let name = self.unique("prng");
                let (work, kernel) = match op {
                    Op::PrngState { elements } => {
                        (Work::PrngState { elements: *elements }, schedule::prng_state(&name, *elements))
                    }
                    _ => {
                        let elements = ty.elements();
                        (Work::PrngValue { elements }, schedule::prng_value(&name, elements))
                    }
                };
                let kernel = kernel.map_err(|e| self.schedule_error(root, e))?;
                let kernel = (self.profile.execution == Execution::Shader).then_some(kernel);
                (name, vec![state], work, kernel)
            }
            _ => {
                let (mut nest, operands) = nest::build(graph, root, group.contraction, &|id| self.is_in_memory(id))?;
                nest.name = self.unique(&nest.name);
                nest.verify()?;
                self.check_limits(root, &nest)?;
                let schedule = schedule::choose(&nest, self.profile);
                let kernel = schedule::kernel(&nest, &schedule, self.profile);
                let kernel = kernel.map_err(|e| self.schedule_error(root, e))?;
                (nest.name.clone(), operands, Work::Nest { nest: Box::new(nest), schedule }, kernel)
            }
        };
        let operands = operands.into_iter().map(|id| self.read(id)).collect::<Result<_, _>>()?;
        let output = self.buffer(root, content)?;
        Ok(Some(Step { name, work, kernel, operands, outputs: vec![output] }))
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
        PlanError::Unsupported { value: self.value_name(root), what, device: self.profile.name.clone() }
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

    /// `name`, numbered from its second use on.
    fn unique(&mut self, name: &str) -> String {
        let uses = self.names.entry(name.to_string()).or_insert(0);
        *uses += 1;
        if *uses == 1 { name.to_string() } else { format!("{name}_{uses}") }
    }
}

/// What messages call a node.
fn value_name(graph: &Graph, id: NodeId) -> String {
    let node = graph.node(id);
    let name = node.op.given_name().or(node.name.as_deref());
    name.map_or_else(|| format!("%{}", id.index()), str::to_owned)
}
