//! [`Builder`]: the state while a nest is built.

use std::collections::HashMap;

use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::{Aggregation, Contraction, Graph, NodeId, Op};
use crate::scalar::{BinaryOp, Inst, Program, Value};
use crate::tensor::TensorType;

use super::gather::Gather;
use super::inner::InnerSum;
use super::{Axis, Derived, Leaf, Members, NestError, Window, rows};

pub(super) type MemoKey = (NodeId, Vec<Affine>, Vec<Affine>);

/// State while a nest is built.
pub(super) struct Builder<'a> {
    pub graph: &'a Graph,
    /// The nodes that the nest writes.
    pub roots: Vec<NodeId>,
    pub memory: &'a dyn Fn(NodeId) -> Option<Window>,
    pub axes: Vec<Axis>,
    /// Number of free axes, and number of row axes among them.
    pub free: usize,
    pub rows: usize,
    /// The variable of the outermost loop around the nest.
    pub first_loop: usize,
    pub derived: Vec<Derived>,
    /// Nodes loaded from memory, and the tensors that hold them.
    pub operands: Vec<(NodeId, TensorType)>,
    /// The node whose aggregation the nest performs.
    pub contraction: Option<NodeId>,
    pub statistics: &'a [NodeId],
    pub inner: &'a [NodeId],
    /// Inner sums built so far.
    pub sums: Vec<InnerSum>,
    /// The body and the memo of its elements, once it is built.
    pub of_body: Option<(Program<Leaf>, HashMap<MemoKey, Value>)>,
    /// True if the contraction may have a place at which no point counts.
    pub guarded: bool,
    /// True if no point counts at any place of the contraction.
    pub empty: bool,
    /// Elements that the current program already computes.
    pub memo: HashMap<MemoKey, Value>,
    /// Nodes computed so far, operands before their readers, without constants.
    pub computed: Vec<NodeId>,
}

impl<'a> Builder<'a> {
    /// Returns a builder of the nest of `members`, whose free axes are those of its places.
    pub fn new(
        graph: &'a Graph,
        members: &Members<'a>,
        memory: &'a dyn Fn(NodeId) -> Option<Window>,
    ) -> Result<Builder<'a>, NestError> {
        let Members { roots, contraction, statistics, inner } = *members;
        let &(main, _) = roots.last().ok_or(NestError::Internal("a nest that writes nothing"))?;
        let (shape, rows) = match statistics {
            [_, ..] if inner.is_empty() => rows::space(graph, roots, contraction, statistics)
                .ok_or(NestError::Internal("statistics of different rows"))?,
            _ => (graph.shape(main).to_vec(), graph.shape(main).len()),
        };
        // The places of the contraction are those of the nest.
        if let Some(id) = contraction.filter(|&id| *graph.shape(id) != shape) {
            return Err(NestError::Away { value: graph.value_name(id) });
        }
        Ok(Builder {
            graph,
            roots: roots.iter().map(|(root, _)| *root).collect(),
            memory,
            first_loop: 0,
            axes: (0..shape.len())
                .map(|a| Axis { name: free_name(graph, contraction, a), extent: shape[a] })
                .collect(),
            free: shape.len(),
            rows,
            derived: Vec::new(),
            operands: Vec::new(),
            contraction,
            statistics,
            inner,
            sums: Vec::new(),
            of_body: None,
            guarded: false,
            empty: false,
            memo: HashMap::new(),
            computed: Vec::new(),
        })
    }

    pub fn overflow(&self) -> NestError {
        NestError::Overflow { value: self.graph.value_name(self.main()) }
    }

    /// Returns the root that names the nest.
    fn main(&self) -> NodeId {
        *self.roots.last().expect("a nest writes something")
    }

    /// Returns whether the nest computes a node and thus cannot read it from memory.
    pub fn is_member(&self, id: NodeId) -> bool {
        self.roots.contains(&id)
            || self.is_of_points(id)
            || self.statistics.contains(&id)
            || self.contraction == Some(id)
    }

    /// Returns whether a node is computed where it is read.
    pub fn is_inlined(&self, id: NodeId) -> bool {
        self.is_of_points(id) || (!self.is_member(id) && (self.memory)(id).is_none())
    }

    /// Returns whether a node is an inner sum, or a statistic over the reduction points.
    pub fn is_of_points(&self, id: NodeId) -> bool {
        self.inner.contains(&id) || (!self.inner.is_empty() && self.statistics.contains(&id))
    }

    pub fn contraction_op(&self, id: NodeId) -> Result<&'a Contraction, NestError> {
        match &self.graph.node(id).op {
            Op::Contraction(op) => Ok(op),
            _ => Err(NestError::Internal("the group's contraction is another operation")),
        }
    }

    /// Returns the term that a contraction aggregates, in the type of its accumulator, where
    /// `values` are the values of the variables of its gather form.
    pub fn term(
        &mut self,
        program: &mut Program<Leaf>,
        id: NodeId,
        form: &Gather,
        values: &[Affine],
    ) -> Result<Value, NestError> {
        let op = self.contraction_op(id)?;
        let indices: Option<Vec<Affine>> =
            form.indices.iter().map(|index| index.substitute_all(values)).collect();
        let (value, _) =
            self.body(program, id, op, &indices.ok_or_else(|| self.overflow())?, &[])?;
        let dtype = accumulator_type(op.aggregation, program.dtype(value));
        Ok(widened(program, op, value, dtype))
    }
}

/// Returns the accumulator type: f32 for sums and products of the 16-bit floats.
pub(super) fn accumulator_type(aggregation: Aggregation, dtype: DType) -> DType {
    let narrow = dtype.is_half();
    if narrow && matches!(aggregation, Aggregation::Sum | Aggregation::Product) {
        DType::F32
    } else {
        dtype
    }
}

/// Casts `value`, a term of `op`, to `dtype`. A product in the contraction's own body is computed
/// in `dtype` instead, which avoids rounding it first.
pub(super) fn widened(
    body: &mut Program<Leaf>,
    op: &Contraction,
    value: Value,
    dtype: DType,
) -> Value {
    let is_product = matches!(op.body.insts[op.body.results[0]].0, Inst::Binary(BinaryOp::Mul, ..));
    match body.insts[value].0 {
        Inst::Binary(BinaryOp::Mul, a, b) if is_product && body.dtype(value) != dtype => {
            let (a, b) = (body.cast(a, dtype), body.cast(b, dtype));
            body.binary(BinaryOp::Mul, a, b)
        }
        _ => body.cast(value, dtype),
    }
}

fn free_name(graph: &Graph, contraction: Option<NodeId>, axis: usize) -> String {
    if let Some(Op::Contraction(op)) = contraction.map(|id| &graph.node(id).op)
        && let Some(variable) = op.output[axis].as_variable()
    {
        return op.indices[variable].name.trim_end_matches('\'').to_string();
    }
    format!("i{axis}")
}
