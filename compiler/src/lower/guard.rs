//! What keeps a step of training whose loss is no finite number, and all that follow it, from changing any weight.
//!
//! ```text
//! failed' = |loss| <= largest ? failed : 1        next' = failed' == 0 ? next : weight
//! ```
//!
//! A runtime may so begin further steps before it has looked at the loss of this one, with weights written over their old
//! values: when it sees what has happened, all weights but `failed` are what they were before the step.

use tile_lang::span::Span;

use super::expression::{Lowered, Target};
use super::network::Network;
use super::tensors::Tensors;
use crate::dtype::{DType, Scalar};
use crate::graph::NodeId;
use crate::scalar::{BinaryOp, UnaryOp};

/// Adds this to a step whose updates are all known; `loss` is `f32[]`. The state is [`Network::FAILED`].
pub(super) fn guard(tensors: &mut Tensors, loss: NodeId, span: Span) -> Lowered<()> {
    let number = |tensors: &mut Tensors, value: f64| tensors.constant(Scalar::from_f64(DType::F32, value));
    let before = tensors.zero_state(Network::FAILED, span)?;
    let (largest, zero, one) = (number(tensors, f64::from(f32::MAX)), number(tensors, 0.0), number(tensors, 1.0));
    let size = tensors.unary(UnaryOp::Abs, loss);
    let is_finite = tensors.binary(BinaryOp::Le, [size, largest], span)?;
    let failed = tensors.select([is_finite, before, one], span)?;
    let goes_on = tensors.binary(BinaryOp::Eq, [failed, zero], span)?;
    let weights: Vec<_> = tensors.network.weights.iter().map(|weight| (weight.path.clone(), weight.node)).collect();
    for (path, weight) in weights {
        if let Some(&next) = tensors.network.updates.get(&path) {
            let next = tensors.select([goes_on, next, weight], span)?;
            tensors.network.updates.insert(path, next);
        }
    }
    tensors.network.updates.insert(Network::FAILED.to_owned(), failed);
    Ok(())
}
