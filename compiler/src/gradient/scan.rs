//! The gradient of a scan.

use std::collections::{HashMap, HashSet};

use super::Error;
use crate::graph::{Graph, NodeId};

pub(super) fn gradient(
    _graph: &mut Graph,
    _id: NodeId,
    _total: &HashMap<NodeId, NodeId>,
    _active: &HashSet<NodeId>,
) -> Result<Vec<(NodeId, NodeId)>, Error> {
    Ok(Vec::new())
}
