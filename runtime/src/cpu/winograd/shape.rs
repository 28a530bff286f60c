//! Which nests are convolutions by a window of 3 × 3 or 5 × 5 at stride 1, and where their elements are.
//!
//! Such a nest is a sum of products ([`Roles`]) in whose image two axes of the result, lines and pixels, each meet a tap of as many: the image's address
//! has `stride · (y + i)`, or `stride · (y - i)` as in the gradient of one, and every guard bounds such a sum. Channels lie side by side. Where no guard tells
//! taps along a line from channels, these are one axis, so many times as long as there are channels.

use crate::cpu::contraction::oriented;
use crate::cpu::gemm::Places;
use crate::cpu::places::{gathered, locate, size};
use std::ops::Range;
use tile_compiler::affine::Affine;
use tile_compiler::dtype::DType;
use tile_compiler::nest::{Leaf, Load, Nest, Roles};
use tile_compiler::scalar::{Inst, Value};

/// A convolution of that kind.
pub struct Shape {
    /// The side of the window.
    pub taps: usize,
    /// The operand that the image is.
    pub image: usize,
    /// Its element at the first coordinates, and what each loop around the nest adds to it.
    pub origin: isize,
    pub loops: Vec<isize>,
    /// For each image its distance from the first one, and its first place.
    pub images: Vec<(isize, usize)>,
    pub lines: Side,
    pub pixels: Side,
    pub channels: usize,
    pub filters: usize,
    /// The operand that the kernel is, and where its elements are: filters × (taps, then channels).
    pub kernel: usize,
    pub places: Places,
}

/// Lines or pixels. Result number y meets coordinates y, y + 1 and so on.
pub struct Side {
    pub extent: usize,
    /// Elements of the image from one coordinate to the next.
    pub stride: isize,
    /// Places from one result to the next.
    pub place: usize,
    /// Where the image is; elsewhere there are zeros.
    pub within: Range<isize>,
    /// Whether the last of the kernel's taps is the first to be met.
    pub reversed: bool,
}

/// What a side is made of.
struct Axes {
    row: usize,
    tap: usize,
    /// Of the image, from coordinate to coordinate.
    stride: i64,
    /// What a step along `tap` does to the coordinate; 0 where the tap shares its axis with the channels.
    sign: i64,
}

impl Shape {
    /// The nest as such a convolution.
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

/// The plain load of f32 that a value is.
fn load(nest: &Nest, value: Value) -> Option<&Load> {
    match &nest.body.insts[value] {
        (Inst::Leaf(Leaf::Load(load)), DType::F32) if load.dynamic.is_empty() => Some(load),
        _ => None,
    }
}

/// Lines and pixels, the axis that the channels are (with the pixels' taps, where those have none of their own), if there is one, and how many they are.
fn axes(
    nest: &Nest,
    roles: &Roles,
    image: &Affine,
    conditions: &[&Affine],
) -> Option<(Axes, Axes, Option<usize>, usize)> {
    let extent = |axis: usize| nest.axes[axis].extent;
    // Of several rows of that stride, as where an image has one line only, the one that a condition names with the tap.
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

    /// Takes a condition into account, if it is one on the coordinate: `row + sign · tap` or its negative, plus a constant, is at least 0.
    fn bound(&mut self, axes: &Axes, taps: usize, condition: &Affine) -> bool {
        let (direction, constant) = (condition.coefficient(axes.row), condition.offset() as isize);
        if direction.abs() != 1
            || axes.sign == 0
            || condition.coefficient(axes.tap) != direction * axes.sign
            || condition.terms().len() != 2
        {
            return false;
        }
        // Backwards, the first coordinate that is met is as far before as the last tap.
        let first = if self.reversed { taps as isize - 1 } else { 0 };
        if direction == 1 {
            self.within.start = self.within.start.max(first - constant);
        } else {
            self.within.end = self.within.end.min(first + constant + 1);
        }
        true
    }
}
