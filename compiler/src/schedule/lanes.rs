//! Chooses which buffers a kernel accesses as vectors along an axis. A buffer has one type in a
//! kernel, so all its uses must agree.

use crate::affine::Affine;
use crate::nest::{Load, Nest, Output};
use crate::tensor::TensorType;

/// The lanes that uses want, as pairs: the number of an operand (outputs are numbered after
/// operands), and its lanes.
pub(super) type Wanted = Vec<(usize, u8)>;

/// Returns the lanes that the loads of one part of a nest want. `None` unless each load reads a
/// vector of `width` neighbours along `axis`, or is the same at all of them.
pub(super) fn reads<'a>(
    nest: &Nest,
    loads: impl Iterator<Item = &'a Load>,
    axis: usize,
    width: u8,
) -> Option<Wanted> {
    if !spans(nest, axis, width) {
        return None;
    }
    let wanted = loads.map(|load| {
        if !load.dynamic.is_empty() || !load.when.iter().all(|condition| is_still(condition, axis))
        {
            return None;
        }
        let lanes = if is_still(&load.offset, axis) { 1 } else { width };
        let fits = lanes == 1 || is_vector(&load.offset, &nest.operands[load.operand], axis, width);
        fits.then_some((load.operand, lanes))
    });
    wanted.collect()
}

/// Returns the lanes that the outputs want, as [`reads`] does. Outputs with one element for each
/// row stay scalar.
pub(super) fn writes(nest: &Nest, axis: usize, width: u8) -> Option<Wanted> {
    let fits = |(number, output): (usize, &Output)| {
        nest.is_of_rows(number) || is_vector(&output.position, &output.ty, axis, width)
    };
    (spans(nest, axis, width) && nest.outputs.iter().enumerate().all(fits))
        .then(|| stores(nest, width))
}

/// Wants all outputs in vectors of `width`, except those with one element for each row. An output
/// over an operand shares its buffer, which gets the same lanes.
pub(super) fn stores(nest: &Nest, width: u8) -> Wanted {
    let of = |(number, output): (usize, &Output)| {
        let lanes = if nest.is_of_rows(number) { 1 } else { width };
        let number = nest.operands.len() + number;
        [(number, lanes), (output.over.unwrap_or(number), lanes)]
    };
    nest.outputs.iter().enumerate().flat_map(of).collect()
}

/// Returns the lanes of the buffers if every access of a nest can be a vector of `width` neighbours
/// along a free axis.
pub(super) fn of_places(nest: &Nest, axis: usize, width: u8) -> Option<Vec<u8>> {
    if !nest.guards.iter().chain(&nest.position).all(|affine| is_still(affine, axis)) {
        return None;
    }
    agree(nest, [&reads(nest, nest.loads(), axis, width)?, &writes(nest, axis, width)?])
}

/// Returns the lanes of the buffers if every access of the body can be a vector of `width`
/// neighbours along the last reduction axis.
pub(super) fn of_points(nest: &Nest, width: u8) -> Option<Vec<u8>> {
    let axis = nest.reduction().last()?;
    if !nest.guards.iter().all(|guard| is_still(guard, axis)) {
        return None;
    }
    let (body, rest) =
        (reads(nest, nest.body_loads(), axis, width)?, singly(nest.epilogue_loads()));
    let lanes = agree(nest, [&body, &rest, &stores(nest, 1)])?;
    lanes.iter().any(|&lanes| lanes > 1).then_some(lanes)
}

/// Wants scalar loads.
pub(super) fn singly<'a>(loads: impl Iterator<Item = &'a Load>) -> Wanted {
    loads.map(|load| (load.operand, 1)).collect()
}

/// Returns the lanes of each operand, then of each output, if all uses agree. A buffer without uses
/// has 1 lane.
pub(super) fn agree<'a>(
    nest: &Nest,
    wishes: impl IntoIterator<Item = &'a Wanted>,
) -> Option<Vec<u8>> {
    let mut lanes: Vec<Option<u8>> = vec![None; nest.operands.len() + nest.outputs.len()];
    for &(number, wanted) in wishes.into_iter().flatten() {
        if lanes[number].replace(wanted).is_some_and(|before| before != wanted) {
            return None;
        }
    }
    Some(lanes.into_iter().map(|lanes| lanes.unwrap_or(1)).collect())
}

/// Returns whether the axis consists of whole vectors, and no derived variable differs within one.
fn spans(nest: &Nest, axis: usize, width: u8) -> bool {
    nest.axes[axis].extent.is_multiple_of(width as usize)
        && nest.derived.iter().all(|derived| is_still(&derived.numerator, axis))
}

/// Returns whether an expression is the same along the axis, as long as derived variables are.
pub(super) fn is_still(affine: &Affine, axis: usize) -> bool {
    affine.coefficient(axis) == 0
}

/// Returns whether the neighbours at `position` are one aligned vector of the tensor.
fn is_vector(position: &Affine, tensor: &TensorType, axis: usize, width: u8) -> bool {
    let width = width as i64;
    position.coefficient(axis) == 1
        && position
            .terms()
            .iter()
            .all(|&(variable, coefficient)| variable == axis || coefficient % width == 0)
        && position.offset() % width == 0
        && tensor.elements().is_multiple_of(width as usize)
}
