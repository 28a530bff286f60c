//! The reference interpreter: executes a graph directly and slowly, node by node and point by
//! point, as the documentation of [`Op`] and [`Contraction`](crate::graph::Contraction) specifies.
//! Every back end is checked against it.
//!
//! Invariants:
//! - Values follow the definitions in [`crate::scalar`] only.
//! - Sums and products of floats are accumulated in f64 and rounded once. Each term is rounded as
//!   it is computed, except for products of 16-bit floats that are summed or multiplied.
//! - A failed memory allocation is an error.

mod bounded;
mod contraction;
pub mod nest;
mod random;
mod scan;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::HashSet;

use crate::dtype::{DType, Scalar};
use crate::graph::{Graph, NodeId, NodeMap, Op};
use crate::tensor::{Tensor, TensorType};

pub use bounded::Bounded;
pub use random::prng_step;
use walk::Walk;

/// The reason that a graph has no results.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The graph does not verify, which is a bug in the code that built it.
    #[error("the graph is malformed: {0}")]
    Malformed(String),
    /// An input or a weight is missing.
    #[error("{name} is missing")]
    Missing {
        /// The name of the input or weight.
        name: String,
    },
    /// The graph has no input or weight with the name of a given tensor.
    #[error("there is no input or weight {name}")]
    Unknown {
        /// The given name.
        name: String,
    },
    /// A given tensor has the wrong element type or shape.
    #[error("{name} is {given}, but must be {expected}")]
    WrongType {
        /// The name of the input or weight.
        name: String,
        /// The type in the graph.
        expected: TensorType,
        /// The type of the given tensor.
        given: TensorType,
    },
    /// The allocation of a tensor, or of the state to aggregate it, failed.
    #[error("there is no memory for {bytes} bytes")]
    OutOfMemory {
        /// The size of the tensor.
        bytes: usize,
    },
}

/// Returns the outputs of the graph, in its order. `given` has the inputs by name and the weights
/// by path, in any order, each with the type of its node.
///
/// ```
/// use tile_compiler::bindings::Bindings;
/// use tile_compiler::{interpret, lower, tensor::Tensor};
///
/// let checked = tile_lang::check("function f(X[N]) -> (Y) { Y[] = +(X[n]); }");
/// let mut bindings = Bindings::default();
/// bindings.sizes.insert("N".to_owned(), 3);
/// let graph = lower::lower(&checked.program.unwrap(), None, &bindings).unwrap().graph;
/// let x = Tensor::from_f32([3], &[1.0, 2.0, 3.0]).unwrap();
/// let outputs = interpret::run(&graph, &[("X", x)]).unwrap();
/// assert_eq!(outputs[0].1.to_f64s(), [6.0]);
/// ```
pub fn run<N: AsRef<str>>(
    graph: &Graph,
    given: &[(N, Tensor)],
) -> Result<Vec<(String, Tensor)>, Error> {
    graph.verify().map_err(Error::Malformed)?;
    let known: HashSet<&str> =
        graph.ids().filter_map(|id| graph.node(id).op.given_name()).collect();
    if let Some((name, _)) = given.iter().find(|(name, _)| !known.contains(name.as_ref())) {
        return Err(Error::Unknown { name: name.as_ref().to_string() });
    }
    let mut values: NodeMap<Tensor> = NodeMap::new();
    for id in graph.topological() {
        if matches!(graph.node(id).op, Op::Result { .. }) {
            continue; // the scan inserted its value
        }
        let operands = graph.operands(id);
        let operands: Vec<&Tensor> = operands.iter().map(|operand| &values[*operand]).collect();
        if let Op::Scan(scan) = &graph.node(id).op {
            let results = scan::results(scan, &operands)?;
            for user in graph.users(id) {
                if let Op::Result { number } = graph.node(user).op {
                    values.insert(user, copy(&results[number], &graph.node(user).ty)?);
                }
            }
            continue;
        }
        let value = node(&graph.node(id).op, &graph.node(id).ty, &operands, given)?;
        values.insert(id, value);
    }
    graph
        .outputs
        .iter()
        .map(|(name, id)| Ok((name.clone(), copy(&values[*id], &graph.node(*id).ty)?)))
        .collect()
}

/// Returns the bytes that [`run`] allocates at most at once: the values of all nodes, and what one
/// contraction or one step of a scan takes while it is computed.
pub fn memory(graph: &Graph) -> u64 {
    let sum = |bytes: u64, more: u64| bytes.saturating_add(more);
    let of_type = |ty: &TensorType| (ty.elements() as u64).saturating_mul(ty.dtype.size() as u64);
    let value = |id: NodeId| of_type(&graph.node(id).ty);
    let while_computed = |id: NodeId| match &graph.node(id).op {
        Op::Contraction(_) => {
            (graph.node(id).ty.elements() as u64).saturating_mul(contraction::PLACE_BYTES)
        }
        Op::Scan(scan) => {
            let body = &scan.body;
            let inputs = body.inputs.iter().map(|&id| of_type(&body.node(id).ty));
            let results = scan.results().map(|ty| of_type(&ty));
            inputs.chain(results).fold(memory(body), sum)
        }
        _ => 0,
    };
    let values =
        graph.ids().map(value).chain(graph.outputs.iter().map(|(_, id)| value(*id))).fold(0, sum);
    values.saturating_add(graph.ids().map(while_computed).max().unwrap_or(0))
}

/// Returns the value of a node that depends on no input and no weight, if neither the node nor its
/// operands, direct or indirect, have more than `most` elements. `known` caches the values of
/// nodes, and `None` for nodes without one.
pub fn constant(
    graph: &Graph,
    id: NodeId,
    most: usize,
    known: &mut NodeMap<Option<Tensor>>,
) -> Option<Tensor> {
    // Operands first, without recursion, since chains may be long.
    let mut open = vec![id];
    while let Some(&next) = open.last() {
        if known.contains(next) {
            open.pop();
            continue;
        }
        let (operands, ty, op) = (graph.operands(next), &graph.node(next).ty, &graph.node(next).op);
        let is_given = matches!(op, Op::Input(_) | Op::Weight(_) | Op::Scan(_) | Op::Result { .. });
        if is_given
            || ty.elements() > most
            || operands.iter().any(|operand| known.get(*operand) == Some(&None))
        {
            known.insert(next, None);
            continue;
        }
        let unknown: Vec<NodeId> =
            operands.iter().copied().filter(|operand| !known.contains(*operand)).collect();
        if !unknown.is_empty() {
            open.extend(unknown);
            continue;
        }
        let operands: Option<Vec<&Tensor>> =
            operands.iter().map(|operand| known[*operand].as_ref()).collect();
        let nothing: &[(&str, Tensor)] = &[];
        let ranges = if let Op::Contraction(op) = op { op.indices.as_slice() } else { &[] };
        let extents = ranges.iter().map(|range| u64::try_from(range.high - range.low).unwrap_or(0));
        let points = extents.fold(1, u64::saturating_mul).max(ty.elements() as u64);
        let counted = graph.budget.take_bytes((ty.elements() * ty.dtype.size()) as u64);
        let counted = counted.and_then(|()| graph.budget.spend(1 + points));
        let value = operands
            .filter(|_| counted.is_ok())
            .and_then(|operands| node(op, ty, &operands, nothing).ok());
        known.insert(next, value);
    }
    known[id].clone()
}

/// Returns the value of one node.
fn node<N: AsRef<str>>(
    op: &Op,
    ty: &TensorType,
    operands: &[&Tensor],
    given: &[(N, Tensor)],
) -> Result<Tensor, Error> {
    match op {
        Op::Input(name) | Op::Weight(name) => {
            match given.iter().find(|(given, _)| given.as_ref() == name) {
                None => Err(Error::Missing { name: name.clone() }),
                Some((_, tensor)) if tensor.ty() != ty => {
                    let (name, expected, given) = (name.clone(), ty.clone(), tensor.ty().clone());
                    Err(Error::WrongType { name, expected, given })
                }
                Some((_, tensor)) => copy(tensor, ty),
            }
        }
        Op::Constant(scalar) => elementwise(ty, operands, |_| *scalar),
        Op::Elements(scalars) => {
            let mut result = blank(ty)?;
            result.elements_mut().zip(scalars).for_each(|(to, scalar)| scalar.write_to(to));
            Ok(result)
        }
        Op::Index { axis } => index(ty, *axis),
        Op::Unary(op) => elementwise(ty, operands, |v| op.evaluate(v[0])),
        Op::Binary(op) => elementwise(ty, operands, |v| op.evaluate(v[0], v[1])),
        Op::Select => elementwise(ty, operands, |v| if v[0].is_true() { v[1] } else { v[2] }),
        Op::Cast => elementwise(ty, operands, |v| v[0].cast(ty.dtype)),
        Op::Reshape | Op::StopGradient => copy(operands[0], ty),
        Op::Contraction(contraction) => contraction::run(contraction, ty, operands),
        Op::PrngValue => random::values(operands[0], ty),
        Op::PrngState { elements } => random::state(operands[0], *elements),
        Op::Scan(_) | Op::Result { .. } => {
            Err(Error::Malformed("a scan is no single value".into()))
        }
    }
}

/// Returns a tensor of zeros.
fn blank(ty: &TensorType) -> Result<Tensor, Error> {
    let zeros = filled(ty.elements().saturating_mul(ty.dtype.size()), 0)?;
    Tensor::from_bytes(ty.clone(), zeros).ok_or(Error::OutOfMemory { bytes: usize::MAX })
}

/// Returns the elements of `tensor` as a tensor of type `ty`, which has the same size in bytes.
fn copy(tensor: &Tensor, ty: &TensorType) -> Result<Tensor, Error> {
    let mut result = blank(ty)?;
    result.bytes_mut().copy_from_slice(tensor.bytes());
    Ok(result)
}

/// Returns `count` copies of `value`.
fn filled<T: Clone>(count: usize, value: T) -> Result<Vec<T>, Error> {
    let mut items = Vec::new();
    let bytes = count.saturating_mul(size_of::<T>());
    items.try_reserve_exact(count).map_err(|_| Error::OutOfMemory { bytes })?;
    items.resize(count, value);
    Ok(items)
}

/// Applies `f` to the elements of the broadcast operands at each place.
fn elementwise(
    ty: &TensorType,
    operands: &[&Tensor],
    f: impl Fn(&[Scalar]) -> Scalar,
) -> Result<Tensor, Error> {
    let mut result = blank(ty)?;
    let mut walk = Walk::new(ty.shape.clone());
    for operand in operands {
        let strides = operand.ty().strides();
        let stretched = ty.rank() - operand.shape().len();
        let along = |axis: usize| match axis.checked_sub(stretched) {
            Some(axis) if operand.shape()[axis] != 1 => strides[axis] as i64,
            _ => 0,
        };
        walk.add_form((0..ty.rank()).map(along).collect(), 0);
    }
    let mut elements = vec![Scalar::zero(DType::Bool); operands.len()];
    for to in result.elements_mut() {
        for (element, (operand, &offset)) in
            elements.iter_mut().zip(operands.iter().zip(walk.values()))
        {
            *element = operand.get(offset as usize);
        }
        f(&elements).cast(ty.dtype).write_to(to);
        walk.advance();
    }
    Ok(result)
}

fn index(ty: &TensorType, axis: usize) -> Result<Tensor, Error> {
    let mut result = blank(ty)?;
    let stride = ty.strides()[axis];
    for (position, to) in result.elements_mut().enumerate() {
        let index = (position / stride % ty.shape[axis]) as i64;
        Scalar::from_i64(DType::I32, index).write_to(to);
    }
    Ok(result)
}
