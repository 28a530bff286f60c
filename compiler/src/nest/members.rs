//! [`Members`]: the nodes that one nest computes, and the reasons why there may be no such nest.

use crate::graph::NodeId;

use super::Window;

/// The nodes of a graph that one nest computes.
#[derive(Clone, Copy, Debug)]
pub struct Members<'a> {
    /// The nodes that the nest writes, operands before their readers. All have one shape, or, with
    /// statistics, the shape of the places or of the rows. Each root is written to its windows,
    /// which have the same number of elements in the same row-major order.
    pub roots: &'a [(NodeId, Vec<Window>)],
    /// The node whose aggregation the nest performs. It is a root, or reaches the roots through
    /// elementwise nodes of the same shape.
    pub contraction: Option<NodeId>,
    /// Contractions that aggregate over the columns of a row or, with inner sums, over the
    /// reduction axes of `contraction`.
    pub statistics: &'a [NodeId],
    /// Contractions that the aggregated value reads at each of its points.
    pub inner: &'a [NodeId],
}

/// The reason that a group has no nest.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NestError {
    /// Addresses of the value overflow 64-bit arithmetic.
    #[error("the addresses of `{value}` do not fit 64-bit arithmetic")]
    Overflow {
        /// The name of the value.
        value: String,
    },
    /// The nest reads a value that it computes, at another place.
    #[error("internal error while building a loop nest: `{value}` is read away from its place")]
    Away {
        /// The name of the value.
        value: String,
    },
    /// The group breaks a rule of fusion, which is a bug in the compiler.
    #[error("internal error while building a loop nest: {0}")]
    Internal(&'static str),
}
