//! Recognition of convolutions with windows of 3 × 3 or 5 × 5 at stride 1, and the addresses of
//! their elements.
//!
//! Such a nest is a sum of products ([`Roles`]). Two axes of the result, lines and pixels, are each
//! paired with an axis of taps: the image's address contains `stride · (y + i)`, or
//! `stride · (y - i)` as in a convolution's gradient, and every guard bounds such a sum. Channels
//! are contiguous. If no guard tells a line's taps from its channels, both are one axis, whose
//! extent is their product.

use crate::cpu::product::contraction::oriented;
use crate::cpu::product::gemm::Places;
use crate::cpu::product::places::{gathered, locate, size};
use std::ops::Range;
use tile_compiler::affine::Affine;
use tile_compiler::dtype::DType;
use tile_compiler::nest::{Leaf, Load, Nest, Roles};
use tile_compiler::scalar::{Inst, Value};

/// A convolution of this kind.
pub struct Shape {
    /// The side of the window.
    pub taps: usize,
    /// The operand that is the image.
    pub image: usize,
    /// The number of the image's element at the first coordinates, and what each loop around the
    /// nest adds to it.
    pub origin: isize,
    pub loops: Vec<isize>,
    /// For each image, its distance in elements from the first one, and its first place.
    pub images: Vec<(isize, usize)>,
    pub lines: Side,
    pub pixels: Side,
    pub channels: usize,
    pub filters: usize,
    /// The operand that is the kernel, and the places of its elements: filters × (taps, then
    /// channels).
    pub kernel: usize,
    pub places: Places,
}

/// Lines or pixels. Result number y reads coordinates y, y + 1 and so on.
pub struct Side {
    pub extent: usize,
    /// The image's elements per step of the coordinate.
    pub stride: isize,
    /// The places from one result to the next.
    pub place: usize,
    /// The coordinates within the image. Elsewhere there are zeros.
    pub within: Range<isize>,
    /// Whether the kernel's last tap comes first.
    pub reversed: bool,
}

/// The axes that make up a side.
struct Axes {
    row: usize,
    tap: usize,
    /// The image's elements per step of the coordinate.
    stride: i64,
    /// The change of the coordinate per step along `tap`, or 0 where the tap shares its axis with
    /// the channels.
    sign: i64,
}

impl Shape {
    /// Describes the nest as such a convolution, if it is one.
    pub fn of(nest: &Nest) -> Option<Self> {
        let roles = oriented(nest)?;
        let [filter] = roles.columns[..] else { return None };
        let (image, kernel) = (load(nest, roles.left)?, load(nest, roles.right)?);
        let simple = |affine: &Affine| affine.variables().all(|variable| variable < nest.axes.len());
        if !roles.batch.is_empty() || nest.accumulator() != Some(DType::F32) || !simple(&image.offset) {
            return None;
        }
        let conditions: Vec<&Affine> = roles.left_guards.iter().chain(&image.when).collect();
        let (lines, pixels, channel, channels) = axes(nest, &roles, &image.offset, &conditions)?;
        let taps = nest.axes[lines.tap].extent;
        let mut order = vec![lines.tap];
        order.extend((pixels.sign != 0).then_some(pixels.tap));
        order.extend(channel);
        if order.len() != roles.reduction.len() {
            return None;
        }
        let places = gathered(nest, [&[], &[filter], &order], kernel, &roles.right_guards)?;
        let mut shape = Self {
            taps,
            image: image.operand,
            origin: image.offset.offset() as isize,
            loops: nest.loops().map(|v| image.offset.coefficient(v) as isize).collect(),
            images: Vec::new(),
            lines: Side::new(nest, &lines, taps),
            pixels: Side::new(nest, &pixels, taps),
            channels,
            filters: nest.axes[filter].extent,
            kernel: kernel.operand,
            places,
        };
        for condition in conditions {
            if !shape.lines.bound(&lines, taps, condition) && !shape.pixels.bound(&pixels, taps, condition) {
                return None;
            }
        }
        for side in [&mut shape.lines, &mut shape.pixels].into_iter().filter(|side| side.reversed) {
            shape.origin -= (taps as isize - 1) * side.stride;
        }
        let others: Vec<usize> =
            roles.rows.iter().copied().filter(|&row| row != lines.row && row != pixels.row).collect();
        let (place, mut point) = (nest.place(), vec![0; nest.axes.len()]);
        shape.images = (0..size(nest, &others))
            .map(|number| {
                locate(nest, &others, number, &mut point);
                let sum =
                    |affine: &Affine| others.iter().map(|&axis| affine.coefficient(axis) * point[axis]).sum::<i64>();
                (sum(&image.offset) as isize, sum(&place) as usize)
            })
            .collect();
        Some(shape)
    }
}

/// Returns the load that a value is, if it is an f32 load without run-time indices.
fn load(nest: &Nest, value: Value) -> Option<&Load> {
    match &nest.body.insts[value] {
        (Inst::Leaf(Leaf::Load(load)), DType::F32) if load.dynamic.is_empty() => Some(load),
        _ => None,
    }
}

/// Finds the axes of lines and pixels, the axis of the channels, if there is one, and the number of
/// channels. The axis of the channels also has the pixels' taps, if these have no axis of their
/// own.
fn axes(
    nest: &Nest,
    roles: &Roles,
    image: &Affine,
    conditions: &[&Affine],
) -> Option<(Axes, Axes, Option<usize>, usize)> {
    let extent = |axis: usize| nest.axes[axis].extent;
    // Several rows may have that stride, as in an image of one line. The one that a condition names
    // together with the tap is preferred.
    let row = |stride: i64, tap: usize| {
        let named = |row: usize| conditions.iter().any(|c| c.coefficient(row) != 0 && c.coefficient(tap) != 0);
        let rows = roles.rows.iter().copied().filter(|&row| image.coefficient(row) == stride);
        rows.max_by_key(|&row| named(row))
    };
    let tap = |tap: usize| -> Option<Axes> {
        let coefficient = image.coefficient(tap);
        let row = row(coefficient.abs(), tap).filter(|_| matches!(extent(tap), 3 | 5))?;
        Some(Axes { row, tap, stride: coefficient.abs(), sign: coefficient.signum() })
    };
    let mut taps: Vec<Axes> = roles.reduction.iter().filter_map(|&axis| tap(axis)).collect();
    let mut rest = roles.reduction.iter().copied().filter(|axis| taps.iter().all(|found| found.tap != *axis));
    let (channel, none_left) = (rest.next(), rest.next().is_none());
    if !none_left || channel.is_some_and(|axis| image.coefficient(axis) != 1) {
        return None;
    }
    let mut channels = channel.map_or(1, extent);
    if let ([Axes { tap, .. }], Some(axis)) = (&taps[..], channel)
        && channels.is_multiple_of(extent(*tap))
    {
        channels /= extent(*tap);
        let stride = channels as i64;
        taps.push(Axes { row: row(stride, axis)?, tap: axis, stride, sign: 0 });
    }
    taps.sort_by_key(|axes| std::cmp::Reverse(axes.stride));
    let [lines, pixels]: [Axes; 2] = taps.try_into().ok()?;
    let is_square = pixels.sign == 0 || extent(pixels.tap) == extent(lines.tap);
    (is_square && lines.row != pixels.row && lines.sign != 0).then_some((lines, pixels, channel, channels))
}

impl Side {
    fn new(nest: &Nest, axes: &Axes, taps: usize) -> Self {
        let extent = nest.axes[axes.row].extent;
        Self {
            extent,
            stride: axes.stride as isize,
            place: nest.place().coefficient(axes.row) as usize,
            within: 0..(extent + taps - 1) as isize,
            reversed: axes.sign < 0,
        }
    }

    /// Applies a condition to the range within the image. Returns false unless it bounds the
    /// coordinate: `row + sign · tap` or its negative, plus a constant, is at least 0.
    fn bound(&mut self, axes: &Axes, taps: usize, condition: &Affine) -> bool {
        let (direction, constant) = (condition.coefficient(axes.row), condition.offset() as isize);
        if direction.abs() != 1
            || axes.sign == 0
            || condition.coefficient(axes.tap) != direction * axes.sign
            || condition.terms().len() != 2
        {
            return false;
        }
        // If reversed, the first coordinate belongs to the last tap.
        let first = if self.reversed { taps as isize - 1 } else { 0 };
        if direction == 1 {
            self.within.start = self.within.start.max(first - constant);
        } else {
            self.within.end = self.within.end.min(first + constant + 1);
        }
        true
    }
}
