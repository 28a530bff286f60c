//! [`PlanError`]: the reason why a graph has no plan.

use std::collections::HashMap;

use tile_lang::budget::Exceeded;
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use crate::graph::{Graph, Op};
use crate::nest::{InvalidNest, NestError};
use crate::schedule::ScheduleError;
use crate::tensor::TensorType;

/// The reason why a graph has no plan for a profile.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The device lacks a type or operation that `value` needs.
    #[error("`{value}` can't run on `{device}`: it has no {what}")]
    Unsupported {
        /// The name of the value.
        value: String,
        /// The type or feature that the device lacks.
        what: String,
        /// The name of the profile.
        device: String,
    },
    /// A tensor is larger than the device can hold or bind.
    #[error("`{value}` is {ty}, {bytes} bytes: `{device}` holds at most {limit} bytes in a buffer")]
    TooLarge {
        /// The name of the value.
        value: String,
        /// Its type.
        ty: TensorType,
        /// Its size.
        bytes: u64,
        /// The largest buffer of the device.
        limit: u64,
        /// The name of the profile.
        device: String,
    },
    /// A bug in the compiler.
    #[error("internal error: {0}")]
    Internal(String),
    /// A group has no nest, by a bug in the compiler.
    #[error("internal error: {0}")]
    Nest(#[from] NestError),
    /// A nest violates a rule, by a bug in the compiler.
    #[error("internal error: {0}")]
    InvalidNest(#[from] InvalidNest),
    /// A schedule does not suit its nest, by a bug in the compiler.
    #[error("internal error: {0}")]
    Schedule(#[source] ScheduleError),
    /// Planning from `value` on exceeds the budget of the graph.
    #[error("`{value}`: {exceeded}")]
    Exceeded {
        /// The name of the value.
        value: String,
        /// The limit.
        #[source]
        exceeded: Exceeded,
    },
}

impl PlanError {
    /// Returns the error about the whole tensor, instead of a part.
    pub(crate) fn of_whole(mut self, wholes: &HashMap<String, (String, TensorType)>) -> PlanError {
        if let PlanError::TooLarge { value, ty, bytes, .. } = &mut self
            && let Some((whole, whole_ty)) = wholes.get(value).cloned()
        {
            let size = *bytes / ty.elements().max(1) as u64;
            *bytes = (whole_ty.elements() as u64).saturating_mul(size);
            (*value, *ty) = (whole, whole_ty);
        }
        self
    }

    /// Returns the error at the source location that computes the value. `None` for a bug in the
    /// compiler.
    pub fn diagnostic(&self, graph: &Graph) -> Option<Diagnostic> {
        let (code, value, help) = match self {
            PlanError::TooLarge { value, .. } => {
                ("E0290", value, "use smaller sizes, or the device `cpu`")
            }
            PlanError::Unsupported { value, .. } => {
                ("E0291", value, "use the device `cpu`, which has every type")
            }
            PlanError::Exceeded { value, exceeded } => {
                return Some(exceeded.at(span(graph, value).unwrap_or_default()));
            }
            PlanError::Internal(_)
            | PlanError::Nest(_)
            | PlanError::InvalidNest(_)
            | PlanError::Schedule(_) => {
                return None;
            }
        };
        let span = span(graph, value);
        Some(Diagnostic::error(code, span.unwrap_or_default(), self.to_string()).help(help))
    }
}

/// Returns the source location that computes a value of the graph, or of a scan's body.
fn span(graph: &Graph, value: &str) -> Option<Span> {
    let own =
        graph.ids().find(|&id| graph.value_name(id) == value).and_then(|id| graph.node(id).span);
    own.or_else(|| {
        graph.ids().find_map(|id| match &graph.node(id).op {
            Op::Scan(scan) => span(&scan.body, value),
            _ => None,
        })
    })
}
