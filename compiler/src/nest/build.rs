//! Builds the nest of one fused group. Starting at the roots, it follows the elements that a place
//! needs through inlined nodes down to tensors in memory, and collects one scalar program.
//!
//! [`crate::fusion`] chooses the nodes to inline; any choice gives a correct nest. An
//! elementwise node becomes instructions. A contraction without reduction axes (a copy, slice,
//! transpose or padding) becomes loads at other addresses, executed only where its guards hold. The
//! group's own contraction becomes the body.

use std::collections::HashMap;
use std::fmt;

use crate::affine::Affine;
use crate::dtype::{DType, Scalar};
use crate::graph::{Access, Aggregation, Contraction, Graph, NodeId, Op};
use crate::scalar::{BinaryOp, Inst, Program, Value};
use crate::tensor::TensorType;

use super::gather::{Gather, gather_node};
use super::inner::InnerSum;
use super::name::kernel_name;
use super::rows;
use super::{Axis, Derived, Inner, Leaf, Nest, Output, Window};

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
#[derive(Clone, Debug, PartialEq)]
pub enum NestError {
    /// Addresses of the value overflow 64-bit arithmetic.
    Overflow { value: String },
    /// The nest reads a value that it computes, at another place.
    Away { value: String },
    /// The group breaks a rule of fusion, which is a bug in the compiler.
    Internal(&'static str),
}

impl fmt::Display for NestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NestError::Overflow { value } => write!(f, "the addresses of `{value}` do not fit 64-bit arithmetic"),
            NestError::Away { value } => {
                write!(f, "internal error while building a loop nest: `{value}` is read away from its place")
            }
            NestError::Internal(what) => write!(f, "internal error while building a loop nest: {what}"),
        }
    }
}

impl std::error::Error for NestError {}

/// Returns the nest that computes `members` within `loops` of the plan, and the node of each
/// operand. Other nodes are loaded if `memory` returns a window for them, and inlined otherwise.
pub fn build(
    graph: &Graph,
    members: Members,
    memory: &dyn Fn(NodeId) -> Option<Window>,
    loops: &[Axis],
) -> Result<(Nest, Vec<NodeId>), NestError> {
    let Members { roots, contraction, statistics, inner } = members;
    let &(main, _) = roots.last().ok_or(NestError::Internal("a nest that writes nothing"))?;
    // Whoever plans the graph looks at the budget.
    graph.budget.check().map_err(|_| NestError::Internal("the budget is exceeded"))?;
    let overflow = || NestError::Overflow { value: graph.value_name(main) };
    let (shape, rows) = match statistics {
        [_, ..] if inner.is_empty() => rows::space(graph, roots, contraction, statistics)
            .ok_or(NestError::Internal("statistics of different rows"))?,
        _ => (graph.shape(main).to_vec(), graph.shape(main).len()),
    };
    // The places of the contraction are those of the nest.
    if let Some(id) = contraction.filter(|&id| *graph.shape(id) != shape) {
        return Err(NestError::Away { value: graph.value_name(id) });
    }
    let mut builder = Builder {
        graph,
        roots: roots.iter().map(|(root, _)| *root).collect(),
        memory,
        first_loop: 0,
        axes: (0..shape.len()).map(|a| Axis { name: free_name(graph, contraction, a), extent: shape[a] }).collect(),
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
    };
    let mut guards = Vec::new();
    let mut position = None;
    let mut aggregation = None;
    let gathered = match contraction {
        Some(id) => {
            let op = builder.contraction_op(id)?;
            Some((id, op, gather_node(graph, id, op).ok_or_else(overflow)?))
        }
        None => None,
    };
    builder.axes.extend(gathered.iter().flat_map(|(_, _, form)| form.reduction.iter().cloned()));
    let reduction = builder.free..builder.axes.len();
    for &id in inner {
        let sum = builder.inner_sum(id)?;
        builder.sums.push(sum);
    }
    builder.first_loop = builder.axes.len();
    builder.axes.extend(loops.iter().cloned());
    let later = builder.axes.len() - reduction.end;
    if let Some((id, op, form)) = gathered {
        builder.empty = form.empty;
        builder.guarded = !form.empty && !always_written(&form, &shape);
        let form = form.with_axes(reduction.end, later).ok_or_else(overflow)?;
        builder.derived = form.derived;
        guards = form.guards;
        if !form.empty {
            let mut body = Program::default();
            let (value, valid) = builder.body(&mut body, id, op, &form.indices, &[])?;
            let dtype = accumulator_type(op.aggregation, body.dtype(value));
            let value = widened(&mut body, op, value, dtype);
            body.results = [Some(value), valid].into_iter().flatten().collect();
            builder.guarded |= valid.is_some();
            aggregation = Some(op.aggregation);
            position = position_of(op, &form.indices).ok_or_else(overflow)?;
            builder.of_body = Some((body, std::mem::take(&mut builder.memo)));
        }
    }
    let mut epilogue = Program::default();
    let mut written: Vec<Vec<(Output, Value)>> = vec![Vec::new(); roots.len()];
    let mut of_rows = None;
    // Statistics over points go last: their readers determine the index of each one.
    let (of_points, others): (Vec<usize>, Vec<usize>) =
        (0..roots.len()).partition(|&root| builder.is_of_points(roots[root].0));
    for number in others.into_iter().chain(of_points) {
        let (root, windows) = &roots[number];
        let place = match builder.point_of_statistic(*root) {
            Some(point) => {
                let last = point.iter().flat_map(|index| index.variables()).max();
                of_rows = of_rows.max(Some(last.map_or(0, |last| last + 1)));
                point
            }
            None => builder.place(*root)?,
        };
        let result = builder.element(&mut epilogue, *root, &place, &[])?;
        let place = builder.row_major(*root, &place)?;
        for window in windows {
            let position = builder.position_of(window, &place)?;
            written[number].push((Output { ty: window.tensor.clone(), position, over: None }, result));
        }
    }
    let outputs: Vec<Output>;
    (outputs, epilogue.results) = written.into_iter().flatten().unzip();
    let inner =
        builder.sums.iter_mut().map(|sum| Inner { axes: sum.axes.clone(), body: std::mem::take(&mut sum.body) });
    let inner: Vec<Inner> = inner.collect();
    let nest = Nest {
        name: kernel_name(graph, &builder.roots, contraction, &builder.computed),
        free: shape.len(),
        rows: of_rows.unwrap_or(rows),
        loops: loops.len(),
        axes: builder.axes,
        derived: builder.derived,
        guards: if aggregation.is_some() { guards } else { Vec::new() },
        operands: builder.operands.iter().map(|(_, tensor)| tensor.clone()).collect(),
        aggregation,
        position,
        body: builder.of_body.map(|(body, _)| body).unwrap_or_default(),
        inner,
        epilogue,
        outputs,
    };
    let nest = super::attention::postponed(nest);
    let operands = builder.operands.into_iter().map(|(id, _)| id).collect();
    let nest = super::split::split(nest).and_then(super::simplify::simplify);
    Ok((nest.ok_or_else(overflow)?, operands))
}

/// Returns whether a contraction has no reduction axes. Each place then reads at most one point, so
/// the contraction can be inlined.
pub(crate) fn is_view(graph: &Graph, id: NodeId) -> bool {
    let Op::Contraction(op) = &graph.node(id).op else { return false };
    !matches!(op.aggregation, Aggregation::ArgMax | Aggregation::ArgMin)
        && op.accesses.iter().all(Access::is_fixed)
        && op.body.results.len() == 1
        && gather_node(graph, id, op).is_some_and(|g| g.reduction.iter().all(|axis| axis.extent == 1))
}

/// Returns the accumulator type: f32 for sums and products of the 16-bit floats.
fn accumulator_type(aggregation: Aggregation, dtype: DType) -> DType {
    let narrow = matches!(dtype, DType::F16 | DType::BF16);
    if narrow && matches!(aggregation, Aggregation::Sum | Aggregation::Product) { DType::F32 } else { dtype }
}

/// Casts `value`, a term of `op`, to `dtype`. A product in the contraction's own body is computed
/// in `dtype` instead, which avoids rounding it first.
fn widened(body: &mut Program<Leaf>, op: &Contraction, value: Value, dtype: DType) -> Value {
    let is_product = matches!(op.body.insts[op.body.results[0]].0, Inst::Binary(BinaryOp::Mul, ..));
    match body.insts[value].0 {
        Inst::Binary(BinaryOp::Mul, a, b) if is_product && body.dtype(value) != dtype => {
            let (a, b) = (body.cast(a, dtype), body.cast(b, dtype));
            body.binary(BinaryOp::Mul, a, b)
        }
        _ => body.cast(value, dtype),
    }
}

/// Returns whether some point certainly counts at every place. It tries the ends and the middle of
/// every reduction axis.
fn always_written(form: &Gather, shape: &[usize]) -> bool {
    if form.guards.is_empty() {
        return true;
    }
    if form.reduction.len() > 5 {
        return false;
    }
    (0..3usize.pow(form.reduction.len() as u32)).any(|choice| {
        let point = form.reduction.iter().enumerate().map(|(axis, a)| {
            let last = a.extent as i64 - 1;
            [last / 2, 0, last][choice / 3usize.pow(axis as u32) % 3]
        });
        let mut bounds: Vec<(i64, i64)> = shape.iter().map(|&e| (0, e as i64 - 1)).collect();
        bounds.extend(point.map(|p| (p, p)));
        for derived in &form.derived {
            let Some((low, high)) = derived.numerator.bounds(&bounds) else { return false };
            bounds.push((low.div_euclid(derived.denominator), high.div_euclid(derived.denominator)));
        }
        form.guards.iter().all(|g| g.bounds(&bounds).is_some_and(|(low, _)| low >= 0))
    })
}

/// Returns the position for the arg forms: row-major in the ranges of the variables that the output
/// does not mention.
fn position_of(op: &Contraction, indices: &[Affine]) -> Option<Option<Affine>> {
    if !matches!(op.aggregation, Aggregation::ArgMax | Aggregation::ArgMin) {
        return Some(None);
    }
    let mut position = Affine::constant(0);
    for (variable, range) in op.indices.iter().enumerate() {
        if op.output.iter().all(|place| place.coefficient(variable) == 0) {
            let digit = indices[variable].sub(&Affine::constant(range.low))?;
            position = position.scale(range.high - range.low)?.add(&digit)?;
        }
    }
    Some(Some(position))
}

fn free_name(graph: &Graph, contraction: Option<NodeId>, axis: usize) -> String {
    if let Some(Op::Contraction(op)) = contraction.map(|id| &graph.node(id).op)
        && let Some(variable) = op.output[axis].as_variable()
    {
        return op.indices[variable].name.trim_end_matches('\'').to_string();
    }
    format!("i{axis}")
}

pub(super) type MemoKey = (NodeId, Vec<Affine>, Vec<Affine>);

/// State while a nest is built.
pub(super) struct Builder<'a> {
    pub graph: &'a Graph,
    /// The nodes that the nest writes.
    roots: Vec<NodeId>,
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
    guarded: bool,
    /// True if no point counts at any place of the contraction.
    empty: bool,
    /// Elements that the current program already computes.
    pub memo: HashMap<MemoKey, Value>,
    /// Nodes computed so far, operands before their readers, without constants.
    computed: Vec<NodeId>,
}

impl<'a> Builder<'a> {
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
    fn is_inlined(&self, id: NodeId) -> bool {
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
        let indices: Option<Vec<Affine>> = form.indices.iter().map(|index| index.substitute_all(values)).collect();
        let (value, _) = self.body(program, id, op, &indices.ok_or_else(|| self.overflow())?, &[])?;
        let dtype = accumulator_type(op.aggregation, program.dtype(value));
        Ok(widened(program, op, value, dtype))
    }

    /// Returns the value of `id`'s element at `index`. The value matters only where all of `when`
    /// are at least 0.
    pub fn element(
        &mut self,
        program: &mut Program<Leaf>,
        id: NodeId,
        index: &[Affine],
        when: &[Affine],
    ) -> Result<Value, NestError> {
        // The only index along an axis of size 1 is 0.
        let sizes = self.graph.shape(id).iter();
        let index = sizes.zip(index).map(|(&size, i)| if size == 1 { Affine::constant(0) } else { i.clone() });
        let index = &index.collect::<Vec<Affine>>()[..];
        let key = (id, index.to_vec(), when.to_vec());
        if let Some(&value) = self.memo.get(&key) {
            return Ok(value);
        }
        // A new instruction is compared with all others.
        let counted = self.graph.budget.spend(3 + program.insts.len() as u64 / 16);
        counted.map_err(|_| NestError::Internal("the budget is exceeded"))?;
        let node = self.graph.node(id);
        let dtype = node.ty.dtype;
        let operands = self.graph.operands(id);
        let is_member = self.is_member(id);
        if is_member && !self.is_of_points(id) && !self.is_place(id, index) {
            return Err(NestError::Away { value: self.graph.value_name(id) });
        }
        let window = if is_member { None } else { (self.memory)(id) };
        let is_given = window.is_some();
        let value = if let Some(window) = window {
            let offset = window.position(index, self.first_loop).ok_or_else(|| self.overflow())?;
            self.load(program, id, &window, offset, when)
        } else if Some(id) == self.contraction {
            self.accumulated(program, id, index, when)?
        } else if self.inner.contains(&id) {
            self.inner_value(program, id, index, when)?
        } else if self.is_of_points(id) {
            self.statistic_of_points(program, id, index, when)?
        } else if self.statistics.contains(&id) {
            self.statistic(program, id)?
        } else {
            match &node.op {
                Op::Constant(scalar) => program.constant(*scalar),
                Op::Index { axis } => program.push(Inst::Leaf(Leaf::Index(index[*axis].clone())), DType::I32),
                Op::Reshape if self.is_inlined(self.shown(id)) => {
                    let index = self.index_of(operands[0], &self.row_major(id, index)?)?;
                    self.element(program, operands[0], &index, when)?
                }
                Op::Reshape => {
                    let (storage, window) = self.stored(id)?;
                    let row_major = self.row_major(id, index)?;
                    let offset = self.position_of(&window, &row_major)?;
                    self.load(program, storage, &window, offset, when)
                }
                Op::Unary(op) => {
                    let a = self.operand(program, operands[0], index, when)?;
                    program.push(Inst::Unary(*op, a), dtype)
                }
                Op::Binary(op) => {
                    let a = self.operand(program, operands[0], index, when)?;
                    let b = self.operand(program, operands[1], index, when)?;
                    program.push(Inst::Binary(*op, a, b), dtype)
                }
                Op::Select => {
                    let c = self.operand(program, operands[0], index, when)?;
                    let a = self.operand(program, operands[1], index, when)?;
                    let b = self.operand(program, operands[2], index, when)?;
                    program.push(Inst::Select(c, a, b), dtype)
                }
                Op::Cast => {
                    let a = self.operand(program, operands[0], index, when)?;
                    program.cast(a, dtype)
                }
                Op::StopGradient => self.operand(program, operands[0], index, when)?,
                Op::Contraction(op) => self.view(program, id, op, index, when)?,
                Op::Input(_)
                | Op::Weight(_)
                | Op::Elements(_)
                | Op::PrngValue
                | Op::PrngState { .. }
                | Op::Scan(_)
                | Op::Result { .. } => {
                    return Err(NestError::Internal("an operation that must be materialised is not"));
                }
            }
        };
        if !is_given && !matches!(node.op, Op::Constant(_) | Op::Index { .. } | Op::Reshape) {
            self.computed.push(id);
        }
        self.memo.insert(key, value);
        Ok(value)
    }

    /// Returns an elementwise operand at the reader's index. Shapes are aligned at the last axis,
    /// and axes of size 1 are broadcast.
    fn operand(
        &mut self,
        program: &mut Program<Leaf>,
        id: NodeId,
        index: &[Affine],
        when: &[Affine],
    ) -> Result<Value, NestError> {
        let shape = self.graph.shape(id);
        let aligned = &index[index.len() - shape.len()..];
        let zero = Affine::constant(0);
        let index: Vec<Affine> =
            shape.iter().zip(aligned).map(|(&size, i)| if size == 1 { zero.clone() } else { i.clone() }).collect();
        self.element(program, id, &index, when)
    }

    /// Returns the value of a contraction at a place that no point writes.
    pub fn unwritten(
        &mut self,
        program: &mut Program<Leaf>,
        id: NodeId,
        index: &[Affine],
        when: &[Affine],
    ) -> Result<Value, NestError> {
        let op = self.contraction_op(id)?;
        if op.default {
            let default = self.graph.operands(id).last().copied();
            let default = default.ok_or(NestError::Internal("a default without an operand"))?;
            self.element(program, default, index, when)
        } else {
            Ok(program.constant(Scalar::zero(self.graph.dtype(id))))
        }
    }

    /// Returns the group's own contraction at the nest's place, in the epilogue.
    fn accumulated(
        &mut self,
        program: &mut Program<Leaf>,
        id: NodeId,
        index: &[Affine],
        when: &[Affine],
    ) -> Result<Value, NestError> {
        if self.empty {
            return self.unwritten(program, id, index, when);
        }
        let op = self.contraction_op(id)?;
        let dtype = self.graph.dtype(id);
        let arg = matches!(op.aggregation, Aggregation::ArgMax | Aggregation::ArgMin);
        let carried = if arg { DType::I32 } else { accumulator_type(op.aggregation, dtype) };
        let value = program.push(Inst::Leaf(Leaf::Accumulator), carried);
        let value = program.cast(value, dtype);
        let zero_is_identity = arg || op.aggregation.identity(dtype) == Scalar::zero(dtype);
        if !self.guarded || (zero_is_identity && !op.default) {
            return Ok(value);
        }
        let written = program.push(Inst::Leaf(Leaf::Written), DType::Bool);
        let otherwise = self.unwritten(program, id, index, when)?;
        Ok(program.select(written, value, otherwise))
    }
}
