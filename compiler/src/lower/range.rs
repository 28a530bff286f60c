//! `with_range` and `with_bounds`: note which numbers a program expects in an input or target.

use tile_lang::diagnostic::Diagnostic;

use super::constant::Constant;
use super::expression::{Lowered, Spans};
use super::network::{Expected, InputRange};
use super::tensors::Tensors;
use super::value::Value;
use crate::dtype::DType;
use crate::graph::{Graph, NodeId, Op};

/// Returns the first of the arguments `X, low, high, ignored` of `with_range`, and notes the range
/// of whole numbers if `X` is an input, cast and reshaped at most.
pub(super) fn with_range<'p>(
    tensors: &mut Tensors,
    arguments: &[Value<'p, NodeId>],
    spans: &Spans,
) -> Lowered<Value<'p, NodeId>> {
    let number = |argument: usize| match &arguments[argument] {
        value if value.is_symbol("none") => Ok(None),
        value => constant(value, "a number or `none`", spans, argument).map(Some),
    };
    let whole = |constant: Constant| constant.cast(DType::I64).to_i64();
    let (low, high, ignored) = (number(1)?.map(whole), number(2)?.map(whole), number(3)?);
    let ignored = ignored.map(float);
    note(tensors, &arguments[0], Expected::Whole { low, high, ignored });
    Ok(arguments[0].clone())
}

/// Returns the first of the arguments `X, low, high` of `with_bounds`, and notes the bounds as
/// [`with_range`] does.
pub(super) fn with_bounds<'p>(
    tensors: &mut Tensors,
    arguments: &[Value<'p, NodeId>],
    spans: &Spans,
) -> Lowered<Value<'p, NodeId>> {
    let number = |argument| constant(&arguments[argument], "a number", spans, argument).map(float);
    let (low, high) = (number(1)?, number(2)?);
    note(tensors, &arguments[0], Expected::Between { low, high });
    Ok(arguments[0].clone())
}

fn constant(
    value: &Value<'_, NodeId>,
    wanted: &str,
    spans: &Spans,
    argument: usize,
) -> Lowered<Constant> {
    match value {
        Value::Constant(constant) => Ok(*constant),
        other => {
            let message = format!("expected {wanted}, found {}", other.kind());
            Err(Diagnostic::error("E0208", spans.argument(argument), message))
        }
    }
}

fn float(constant: Constant) -> f64 {
    constant.cast(DType::F64).to_f64()
}

/// Notes what is expected in a value if it is an input.
fn note(tensors: &mut Tensors, value: &Value<'_, NodeId>, expected: Expected) {
    if let Value::Element(tensor) = value
        && !tensors.is_in_scan()
        && let Some(input) = source(&tensors.graph, *tensor)
    {
        let range = InputRange { input, expected };
        let ranges = &mut tensors.network.ranges;
        if !ranges.contains(&range) {
            ranges.push(range);
        }
    }
}

/// Returns the name of the input whose elements a tensor has.
fn source(graph: &Graph, mut node: NodeId) -> Option<String> {
    loop {
        node = match &graph.node(node).op {
            Op::Input(name) => return Some(name.clone()),
            Op::Cast | Op::Reshape => *graph.operands(node).first()?,
            _ => return None,
        };
    }
}
