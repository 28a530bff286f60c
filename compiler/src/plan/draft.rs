//! [`Draft`]: a plan under construction. Its steps have work and buffers, but no routines yet.

use std::collections::HashMap;

use tile_lang::budget::Exceeded;

use crate::dense::Dense;
use crate::graph::{Graph, NodeId};
use crate::profile::Profile;
use crate::tensor::TensorType;

use super::flow::{BoundWork, Flow};
use super::{Buffer, BufferId, Content, Loop, PlanError, Port, Work};

/// A plan under construction. Its parts are those of a [`Plan`](super::Plan).
pub(crate) struct Draft<'g> {
    pub(super) graph: &'g Graph,
    pub(super) profile: &'g Profile,
    pub(super) buffers: Dense<BufferId, Buffer>,
    pub(super) prelude: Vec<DraftStep<'g>>,
    pub(super) steps: Vec<DraftStep<'g>>,
    pub(super) loops: Vec<Loop>,
    pub(super) inputs: Vec<Port>,
    pub(super) weights: Vec<Port>,
    pub(super) outputs: Vec<Port>,
    pub(super) updates: Vec<(usize, usize)>,
    pub(super) value_names: Names,
}

/// A step without its routine.
pub(super) struct DraftStep<'g> {
    pub values: Vec<String>,
    pub fused: Vec<String>,
    /// The name for the routine, if a new one is made.
    pub routine: String,
    pub work: Work,
    pub operands: Vec<BufferId>,
    pub outputs: Vec<BufferId>,
    pub source: Source<'g>,
}

/// A node that a step or a buffer comes from, for messages.
#[derive(Clone, Copy)]
pub(super) struct Source<'g> {
    pub graph: &'g Graph,
    pub id: NodeId,
}

impl Source<'_> {
    pub fn name(&self) -> String {
        self.graph.value_name(self.id)
    }

    pub fn exceeded(&self, exceeded: Exceeded) -> PlanError {
        PlanError::Exceeded { value: self.name(), exceeded }
    }

    pub fn unsupported(&self, profile: &Profile, what: String) -> PlanError {
        PlanError::Unsupported { value: self.name(), what, device: profile.name.clone() }
    }
}

impl<'g> Draft<'g> {
    pub(super) fn new(graph: &'g Graph, profile: &'g Profile) -> Draft<'g> {
        Draft {
            graph,
            profile,
            buffers: Dense::default(),
            prelude: Vec::new(),
            steps: Vec::new(),
            loops: Vec::new(),
            inputs: Vec::new(),
            weights: Vec::new(),
            outputs: Vec::new(),
            updates: Vec::new(),
            value_names: Names::default(),
        }
    }

    /// Adds a buffer for a tensor that comes from `source`.
    pub(super) fn add_buffer(
        &mut self,
        source: Source,
        ty: &TensorType,
        content: Content,
    ) -> Result<BufferId, PlanError> {
        let Some(stored) = self.profile.storage(ty.dtype) else {
            return Err(source.unsupported(self.profile, format!("tensors of type {}", ty.dtype)));
        };
        let is_preloaded = matches!(content, Content::Weight | Content::Constant(_));
        let sizes = self.profile.bytes(ty, is_preloaded);
        if let Some((bytes, limit)) = sizes.filter(|(bytes, limit)| bytes > limit) {
            return Err(self.too_large(source.name(), ty, [bytes, limit]));
        }
        Ok(self.buffers.push(Buffer { ty: ty.clone(), storage: stored, content }))
    }

    /// Returns the error for a tensor that takes more bytes than a buffer can have.
    pub(super) fn too_large(&self, value: String, ty: &TensorType, sizes: [u64; 2]) -> PlanError {
        let [bytes, limit] = sizes;
        PlanError::TooLarge {
            value,
            bytes,
            ty: ty.clone(),
            limit,
            device: self.profile.name.clone(),
        }
    }

    /// Checks every nest, and the order in which steps read and write buffers.
    pub(crate) fn verify(&self) -> Result<(), String> {
        for step in self.prelude.iter().chain(&self.steps) {
            if let Work::Nest(nest) = &step.work {
                nest.verify().map_err(|invalid| invalid.to_string())?;
            }
        }
        fn binding<'a>(step: &'a DraftStep) -> BoundWork<'a> {
            BoundWork { work: &step.work, operands: &step.operands, outputs: &step.outputs }
        }
        let prelude: Vec<BoundWork> = self.prelude.iter().map(binding).collect();
        let steps: Vec<BoundWork> = self.steps.iter().map(binding).collect();
        Flow {
            execution: self.profile.execution,
            buffers: &self.buffers,
            prelude: &prelude,
            steps: &steps,
            loops: &self.loops,
            outputs: &self.outputs,
        }
        .verify()
    }
}

/// The names that are taken.
#[derive(Default)]
pub(super) struct Names {
    /// The number of times that each name was requested.
    uses: HashMap<String, usize>,
}

impl Names {
    /// Returns `name`, with a number if it is taken.
    pub fn unique(&mut self, name: &str) -> String {
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
