//! [`PlanError`]: why a graph has no plan.

use std::fmt;

use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use crate::graph::{Graph, Op};
use crate::nest::{InvalidNest, NestError};
use crate::tensor::TensorType;

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
        let span = span(graph, value);
        Some(Diagnostic::error(code, span.unwrap_or_default(), self.to_string()).help(help))
    }
}

/// Where the source computes a value of the graph or of a scan's body.
fn span(graph: &Graph, value: &str) -> Option<Span> {
    let own = graph.ids().find(|&id| graph.value_name(id) == value).and_then(|id| graph.node(id).span);
    own.or_else(|| {
        graph.ids().find_map(|id| match &graph.node(id).op {
            Op::Scan(scan) => span(&scan.body, value),
            _ => None,
        })
    })
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
