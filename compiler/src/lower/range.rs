//! `with_range`: notes which numbers a program expects in an input or target.

use tile_lang::diagnostic::Diagnostic;

use super::constant::Constant;
use super::expression::{Lowered, Spans};
use super::network::InputRange;
use super::tensors::Tensors;
use super::value::Value;
use crate::dtype::DType;
use crate::graph::{Graph, NodeId, Op};

/// Returns the first of the arguments `X, low, high, ignored`, and notes the range if `X` is an
/// input, cast and reshaped at most.
pub(super) fn with_range<'p>(
    tensors: &mut Tensors,
    arguments: &[Value<'p, NodeId>],
    spans: &Spans,
) -> Lowered<Value<'p, NodeId>> {
    let number = |argument: usize| match &arguments[argument] {
        Value::Constant(constant) => Ok(Some(*constant)),
        value if value.is_symbol("none") => Ok(None),
        other => {
            let message = format!("expected a number or `none`, found {}", other.kind());
            Err(Diagnostic::error("E0208", spans.argument(argument), message))
        }
    };
    let (low, high, ignored) = (number(1)?, number(2)?, number(3)?);
    let whole = |constant: Constant| constant.cast(DType::I64).to_i64();
    if let Some(Value::Element(tensor)) = arguments.first()
        && !tensors.is_in_scan()
        && let Some((input, truncates)) = source(&tensors.graph, *tensor)
    {
        let ignored = ignored.map(|constant| constant.cast(DType::F64).to_f64());
        let range =
            InputRange { input, low: low.map(whole), high: high.map(whole), ignored, truncates };
        let ranges = &mut tensors.network.ranges;
        if !ranges.contains(&range) {
            ranges.push(range);
        }
    }
    Ok(arguments[0].clone())
}

/// Returns the name of the input whose elements a tensor has, and whether floats are truncated on
/// the way.
fn source(graph: &Graph, mut node: NodeId) -> Option<(String, bool)> {
    let mut truncates = false;
    loop {
        let from = match &graph.node(node).op {
            Op::Input(name) => return Some((name.clone(), truncates)),
            Op::Cast | Op::Reshape => *graph.operands(node).first()?,
            _ => return None,
        };
        truncates |= graph.dtype(from).is_float() && graph.dtype(node).is_integer();
        node = from;
    }
}
