//! Convolutions with windows of 3 × 3 or 5 × 5 at stride 1, by Winograd's minimal filtering, which
//! takes fewer multiplications than the sums have terms. A runtime's executor explains it.
//!
//! Such a nest is a sum of products ([`Roles`]). Two axes of the result, lines and pixels, are each
//! paired with an axis of taps: the image's address contains `stride · (y + i)`, or
//! `stride · (y - i)` as in a convolution's gradient, and every guard bounds such a sum. Channels
//! are contiguous, except where shaders read them. If no guard tells a line's taps from its
//! channels, both are one axis, whose extent is their product.

use std::ops::Range;

use crate::affine::Affine;
use crate::dtype::DType;
use crate::nest::{Leaf, Load, Nest, Roles};
use crate::scalar::{Inst, Value};

use super::address::Address;
use super::product::oriented;

/// A convolution of this kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Winograd {
    /// The side of the window.
    pub taps: usize,
    /// The side of the tiles of results that are computed together.
    pub tile: usize,
    /// The image. The conditions of its address are the ranges of lines and pixels.
    pub image: Address,
    /// The number of the image's element at the first coordinates.
    pub origin: i64,
    /// The other axes of the rows. Each of their points is an image.
    pub images: Vec<usize>,
    /// The lines of the image.
    pub lines: Side,
    /// The pixels of a line.
    pub pixels: Side,
    /// The number of channels.
    pub channels: usize,
    /// The axis of the filters.
    pub filter: usize,
    /// The number of filters.
    pub filters: usize,
    /// The kernel.
    pub kernel: Address,
    /// The axes of a filter's elements: taps, then channels.
    pub terms: Vec<usize>,
    /// Whether the kernel can be transformed ahead: nothing else reads its operand, and its address
    /// is the same at every step of the loops around the nest.
    pub packs: bool,
}

/// Lines or pixels. Result number y reads coordinates y, y + 1 and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// The number of results.
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

/// The cost of an implementation, in multiply-adds of one number at full speed.
struct Cost;

impl Cost {
    /// Reading an element of a kernel from beyond the caches.
    const READ: usize = 13;
    /// Transforming a point of the image or of the results, in one channel or filter.
    const POINT: usize = 11;
    /// Transforming a point of the kernel.
    const KERNEL_POINT: usize = 20;

    /// Returns the cost of computing term by term.
    fn direct(shape: &Winograd, images: usize) -> usize {
        let places = images * shape.lines.extent * shape.pixels.extent;
        shape.taps * shape.taps * shape.channels * shape.filters * (places + Self::READ)
    }

    /// Returns the cost of computing in tiles with this side.
    fn with(shape: &Winograd, images: usize, tile: usize, kept: bool) -> usize {
        let tiles = images * shape.lines.extent.div_ceil(tile) * shape.pixels.extent.div_ceil(tile);
        let once = if kept { Self::READ } else { Self::READ + Self::KERNEL_POINT };
        let side = tile + shape.taps - 1;
        let points = side * side;
        let products = shape.channels * shape.filters * (tiles + once);
        points * (products + Self::POINT * tiles * (shape.channels + shape.filters))
    }
}

impl Winograd {
    /// The forms that there are: the side of the window and that of a tile of results.
    pub const FORMS: [(usize, usize); 3] = [(3, 2), (3, 4), (5, 2)];

    /// Compiles the nest, if it is such a convolution and fastest this way. `kept` says which
    /// operands change seldom.
    pub(super) fn new(nest: &Nest, kept: &dyn Fn(usize) -> bool) -> Option<Self> {
        let shape = Self::recognise(nest)?;
        let (kept, images) = (kept(shape.kernel.operand), nest.points(&shape.images));
        let tiles =
            Self::FORMS.into_iter().filter(|(taps, _)| *taps == shape.taps).map(|(_, tile)| tile);
        let costs = tiles.map(|tile| (Cost::with(&shape, images, tile, kept), tile));
        let (cost, tile) = costs.min_by_key(|(cost, _)| *cost)?;
        // A small gain is not worth the rounding.
        (10 * cost < 9 * Cost::direct(&shape, images)).then_some(Self { tile, ..shape })
    }

    /// Describes the nest as such a convolution, if it is one, in tiles of one side that there is.
    pub fn recognise(nest: &Nest) -> Option<Self> {
        Self::with(nest, &oriented(nest)?, true)
    }

    /// Describes the nest like [`Winograd::recognise`], whatever the axes along which channels and
    /// filters are contiguous.
    pub fn recognise_anywhere(nest: &Nest) -> Option<Self> {
        let roles = nest.roles()?;
        Self::with(nest, &roles, false).or_else(|| Self::with(nest, &roles.swapped(), false))
    }

    /// Describes the nest with the image as the left factor.
    fn with(nest: &Nest, roles: &Roles, is_contiguous: bool) -> Option<Self> {
        let [filter] = roles.columns[..] else { return None };
        let (image, kernel) = (load(nest, roles.left)?, load(nest, roles.right)?);
        let simple =
            |affine: &Affine| affine.variables().all(|variable| variable < nest.axes.len());
        if !roles.batch.is_empty()
            || nest.accumulator() != Some(DType::F32)
            || !simple(&image.offset)
        {
            return None;
        }
        let conditions: Vec<&Affine> = roles.left_guards.iter().chain(&image.when).collect();
        let (lines, pixels, channel, channels) = axes(nest, roles, &image.offset, &conditions)?;
        if is_contiguous && channel.is_some_and(|axis| image.offset.coefficient(axis) != 1) {
            return None;
        }
        let taps = nest.axes[lines.tap].extent;
        let mut order = vec![lines.tap];
        order.extend((pixels.sign != 0).then_some(pixels.tap));
        order.extend(channel);
        if order.len() != roles.reduction.len() {
            return None;
        }
        let kernel = Address::new(kernel, &roles.right_guards);
        if !kernel.is_separable(nest, [&[], &[filter], &order]) {
            return None;
        }
        let is_alone = nest.loads().filter(|load| load.operand == kernel.operand).count() == 1;
        let is_image = |row: &usize| ![lines.row, pixels.row].contains(row);
        let mut shape = Self {
            taps,
            tile: Self::FORMS.into_iter().find(|(side, _)| *side == taps)?.1,
            image: Address {
                operand: image.operand,
                offset: image.offset.clone(),
                conditions: Vec::new(),
            },
            origin: image.offset.offset(),
            images: roles.rows.iter().copied().filter(is_image).collect(),
            lines: Side::new(nest, &lines, taps),
            pixels: Side::new(nest, &pixels, taps),
            channels,
            filter,
            filters: nest.axes[filter].extent,
            packs: is_alone && kernel.is_steady(nest),
            kernel,
            terms: order,
        };
        for condition in conditions {
            if !shape.lines.bound(&lines, taps, condition)
                && !shape.pixels.bound(&pixels, taps, condition)
            {
                return None;
            }
        }
        for side in [&mut shape.lines, &mut shape.pixels].into_iter().filter(|side| side.reversed) {
            shape.origin -= (taps as i64 - 1) * side.stride as i64;
        }
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
        let named = |row: usize| {
            conditions.iter().any(|c| c.coefficient(row) != 0 && c.coefficient(tap) != 0)
        };
        let rows = roles.rows.iter().copied().filter(|&row| image.coefficient(row) == stride);
        rows.max_by_key(|&row| named(row))
    };
    let tap = |tap: usize| -> Option<Axes> {
        let coefficient = image.coefficient(tap);
        let row = row(coefficient.abs(), tap).filter(|_| matches!(extent(tap), 3 | 5))?;
        Some(Axes { row, tap, stride: coefficient.abs(), sign: coefficient.signum() })
    };
    let mut taps: Vec<Axes> = roles.reduction.iter().filter_map(|&axis| tap(axis)).collect();
    let mut rest =
        roles.reduction.iter().copied().filter(|axis| taps.iter().all(|found| found.tap != *axis));
    let (channel, none_left) = (rest.next(), rest.next().is_none());
    if !none_left {
        return None;
    }
    let mut channels = channel.map_or(1, extent);
    if let ([Axes { tap, .. }], Some(axis)) = (&taps[..], &channel)
        && channels.is_multiple_of(extent(*tap))
        && image.coefficient(*axis) == 1
    {
        channels /= extent(*tap);
        let stride = channels as i64;
        taps.push(Axes { row: row(stride, *axis)?, tap: *axis, stride, sign: 0 });
    }
    taps.sort_by_key(|axes| std::cmp::Reverse(axes.stride));
    let [lines, pixels]: [Axes; 2] = taps.try_into().ok()?;
    let is_square = pixels.sign == 0 || extent(pixels.tap) == extent(lines.tap);
    (is_square && lines.row != pixels.row && lines.sign != 0)
        .then_some((lines, pixels, channel, channels))
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
