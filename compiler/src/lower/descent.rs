//! [`Descent`]: the step as an optimizer sees it, with its weight and the gradients of all weights.

use std::rc::Rc;

use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::expression::{Lowered, Target};
use super::tensors::Tensors;
use crate::dtype::{DType, Scalar};
use crate::graph::NodeId;
use crate::scalar::{BinaryOp, UnaryOp};

/// The trained weight that an optimizer is applied to, and the gradients of all trained weights.
pub(super) struct Descent {
    pub path: Rc<str>,
    pub gradients: Rc<[NodeId]>,
    /// The norm of all elements of the gradients, once it is known.
    pub norm: Option<NodeId>,
    /// The value that the step's model has in place of the weight.
    pub stand_in: Option<NodeId>,
}

impl Tensors {
    /// Returns the current descent, or an error outside an optimizer.
    pub fn descent(&mut self, span: Span) -> Lowered<&mut Descent> {
        let outside =
            || Diagnostic::error("E0237", span, "only an optimizer has a weight and gradients");
        self.descent.as_mut().ok_or_else(outside)
    }

    /// Returns the root of the sum of the squares of all elements of all gradients, `f32[]`.
    pub fn gradient_norm(&mut self, span: Span) -> Lowered<NodeId> {
        let Descent { gradients, norm, .. } = self.descent(span)?;
        if let Some(norm) = norm {
            return Ok(*norm);
        }
        let gradients = gradients.clone();
        let mut sum = self.constant(Scalar::zero(DType::F32));
        for &gradient in &*gradients {
            let wide = self.cast_to(gradient, DType::F32);
            let square = self.binary(BinaryOp::Mul, [wide, wide], span)?;
            let square = self.total(square, span)?;
            sum = self.binary(BinaryOp::Add, [sum, square], span)?;
        }
        let norm = self.unary(UnaryOp::Sqrt, sum);
        self.descent(span)?.norm = Some(norm);
        Ok(norm)
    }
}
