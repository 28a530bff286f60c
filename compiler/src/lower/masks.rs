//! Masks: a tensor may have one, which says what of it counts, such as the steps of a sequence that
//! are no padding. A mask is a tensor of bools whose shape is the first axes of the tensor's.
//!
//! `with_mask` gives a mask, and `mask_of` returns it. Elementwise operations keep masks; any other
//! operation's result has none, because its axes may mean something else.

use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::expression::{Lowered, Spans, Target};
use super::tensors::Tensors;
use super::value::Value;
use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::{Aggregation, Contraction, NodeId, Op};
use crate::scalar::BinaryOp;
use crate::tensor::TensorType;

/// Returns the tensor `X` of `with_mask(X, mask)` with the mask, or without one if that is `none`.
pub(super) fn with_mask<'p>(
    tensors: &mut Tensors,
    arguments: &[Value<'p, NodeId>],
    spans: &Spans,
) -> Lowered<Value<'p, NodeId>> {
    if arguments[1].is_symbol("none") {
        let Value::Element(node) = arguments[0] else { return Ok(arguments[0].clone()) };
        if tensors.mask(node).is_none() {
            return Ok(arguments[0].clone());
        }
        return tensors.same(node, spans.call).map(Value::Element);
    }
    let mut tensor =
        |number: usize| tensors.element(arguments[number].clone(), spans.argument(number));
    let (node, mask) = (tensor(0)?, tensor(1)?);
    let (shape, sizes) = (tensors.shape(node), tensors.shape(mask));
    if !shape.starts_with(&sizes) {
        let message = format!("the mask has the shape {sizes:?}, and the tensor {shape:?}");
        return Err(Diagnostic::error("E0208", spans.argument(1), message)
            .help("the shape of a mask is the first axes of the tensor's"));
    }
    let mask = tensors.cast_to(mask, DType::Bool);
    tensors.masked(node, mask, spans.call).map(Value::Element)
}

/// Returns the mask of a tensor, or `none`.
pub(super) fn mask_of<'p>(tensors: &Tensors, value: &Value<'p, NodeId>) -> Value<'p, NodeId> {
    let mask = match value {
        Value::Element(node) => tensors.mask(*node),
        _ => None,
    };
    mask.map_or(Value::Symbol("none".into()), Value::Element)
}

impl Tensors {
    /// Returns the mask of a tensor, if it has one.
    pub fn mask(&self, node: NodeId) -> Option<NodeId> {
        self.masks.get(&node).copied()
    }

    /// Returns another tensor with the elements of `node`. A simplification removes it.
    fn same(&mut self, node: NodeId, span: Span) -> Lowered<NodeId> {
        let ty = self.graph.node(node).ty.clone();
        self.add(Op::Reshape, ty, &[node], span)
    }

    /// Returns a tensor with the elements of `node` and this mask of bools. It is a node of its
    /// own, because `node` itself may have another mask or none.
    pub(super) fn masked(&mut self, node: NodeId, mask: NodeId, span: Span) -> Lowered<NodeId> {
        let masked = self.same(node, span)?;
        self.masks.insert(masked, mask);
        Ok(masked)
    }

    /// Gives the result of an elementwise operation the mask of its operand.
    pub(super) fn keep_mask(&mut self, result: NodeId, operand: NodeId) {
        if let Some(mask) = self.mask(operand) {
            self.masks.insert(result, mask);
        }
    }

    /// Gives the result of an elementwise operation the masks of its operands, and returns it. What
    /// one of them counts counts.
    pub(super) fn keep_masks(
        &mut self,
        result: NodeId,
        operands: &[NodeId],
        span: Span,
    ) -> Lowered<NodeId> {
        let mut kept = None;
        for &operand in operands {
            let Some(mask) = self.mask(operand) else { continue };
            let shape = self.graph.shape(result).to_vec();
            if self.graph.shape(operand).len() != shape.len() {
                continue;
            }
            let mask = self.repeated(mask, &shape, span)?;
            kept = Some(match kept {
                Some(other) if other != mask => self.either(other, mask, span)?,
                _ => mask,
            });
        }
        if let Some(mask) = kept {
            self.masks.insert(result, mask);
        }
        Ok(result)
    }

    /// Returns a mask that counts the same along those first axes of `shape` where it has size 1.
    fn repeated(&mut self, mask: NodeId, shape: &[usize], span: Span) -> Lowered<NodeId> {
        let own = self.shape(mask);
        let sizes = &shape[..own.len()];
        if own == sizes {
            return Ok(mask);
        }
        let index = |(axis, &size)| if size == 1 { Affine::constant(0) } else { Affine::var(axis) };
        let index = own.iter().enumerate().map(index).collect();
        let places = (0..sizes.len()).map(Affine::var).collect();
        let copy = Contraction::of_tensor(Aggregation::Assign, DType::Bool, sizes, places, index);
        let ty = TensorType::new(DType::Bool, sizes);
        self.add(Op::Contraction(Box::new(copy)), ty, &[mask], span)
    }

    /// Returns the mask of what one of two masks counts.
    fn either(&mut self, first: NodeId, second: NodeId, span: Span) -> Lowered<NodeId> {
        let rank = self.graph.shape(first).len().max(self.graph.shape(second).len());
        let masks = [self.with_rank(first, rank, span)?, self.with_rank(second, rank, span)?];
        self.binary(BinaryOp::BitOr, masks, span)
    }

    /// Appends axes of size 1 up to this rank.
    pub(super) fn with_rank(&mut self, node: NodeId, rank: usize, span: Span) -> Lowered<NodeId> {
        let mut ty = self.graph.node(node).ty.clone();
        if ty.shape.len() == rank {
            return Ok(node);
        }
        ty.shape.resize(rank, 1);
        self.add(Op::Reshape, ty, &[node], span)
    }
}
