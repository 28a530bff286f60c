//! Splits a convolution with a window of 3 × 3 or 5 × 5 at stride 1 into four nests, by Winograd's
//! minimal filtering, which takes fewer multiplications than the sums have terms. In this file the
//! kernel is the convolution's.
//!
//! Results are computed in tiles, each from a tile of the image that is larger by the window. Both
//! sides of a tile of the image, with `side` pixels each, are transformed to `side` *points*, and
//! so are those of the kernel. At each point, a product over the channels takes tiles to filters,
//! and a last transform takes the points to the tile's results:
//!
//! ```text
//! kernel   U[a, b, c, f] = +(G[a, i] * G[b, j] * kernel[i, j, c, f])
//! image    V[a, b, t, c] = +(B[a, i] * B[b, j] * image[tile * t + (i, j), c])
//! product  M[a, b, t, f] = +(V[a, b, t, c] * U[a, b, c, f])
//! result   epilogue(+(A[y, a] * A[x, b] * M[a, b, t, f])), for result (y, x) of tile t
//! ```
//!
//! For each channel, a result of a 4 × 4 tile takes 36 / 16 = 2.25 multiplications and one of a
//! 2 × 2 tile takes 4, instead of 9. With a window of 5 × 5 it takes 36 / 4 = 9, instead of 25. V
//! and M pass through memory, so that this pays where there are many channels.
//!
//! Rounding errors are those of the algorithm of the cpu device, which documents them. Zero
//! elements of tables are left out, and an infinity or a NaN reaches all results of the tiles that
//! contain it. An exact profile does not use this.

use tile_lang::Budget;

use crate::affine::Affine;
use crate::dtype::{DType, Scalar};
use crate::graph::Aggregation;
use crate::native::{Side, Winograd};
use crate::nest::{Axis, Derived, Leaf, Load, Nest, Output, Table, simplify};
use crate::profile::{Execution, Profile};
use crate::scalar::{BinaryOp, Inst, Program, Value};
use crate::tensor::TensorType;

use super::choose::{EQUAL, predict};
use super::divide::{divide, over_other_points};
use super::filtering::Filtering;

/// The fewest channels and filters for which it is tried.
const FEWEST: usize = 8;

/// A convolution as four nests.
pub struct Filtered {
    /// The transform of the kernel, its only operand.
    pub kernel: Nest,
    /// The transform of the image, its only operand.
    pub image: Nest,
    /// The products, of the transformed image and the transformed kernel.
    pub product: Nest,
    /// The transform of the products, its last operand, to the results.
    pub result: Nest,
    /// The operand of the whole nest that is the kernel.
    pub kernel_operand: usize,
    /// The operand of the whole nest that is the image.
    pub image_operand: usize,
    /// The operands of the whole nest that `result` reads.
    pub result_operands: Vec<usize>,
}

/// Splits a nest. `None` unless it is such a convolution, and the nests are predicted to be faster
/// by more than the error of the cost model. `is_kept` says which operands change seldom: the
/// transform of such a kernel is not counted.
pub fn winograd(
    nest: &Nest,
    profile: &Profile,
    budget: &Budget,
    is_kept: &dyn Fn(usize) -> bool,
) -> Option<Filtered> {
    let is_plain = nest.loops == 0 && nest.inner.is_empty() && nest.columns().is_empty();
    if profile.execution != Execution::Shader || profile.exact || !is_plain {
        return None;
    }
    let convolution = Winograd::recognise_anywhere(nest)?;
    if convolution.channels.min(convolution.filters) < FEWEST {
        return None;
    }
    let time = |nests: &[&Nest]| -> Option<f64> {
        nests.iter().map(|nest| predict(nest, profile, budget)).sum()
    };
    let forms = Winograd::FORMS.into_iter().filter(|(taps, _)| *taps == convolution.taps);
    let ways = forms.filter_map(|(_, tile)| {
        let filtered = Parts::new(nest, &convolution, tile)?.nests()?;
        let Filtered { kernel, image, product, result, .. } = &filtered;
        let is_held = |nest: &Nest| !profile.is_too_large(&nest.outputs[0].ty, false);
        let buffers = result.operands.len() + result.outputs.len();
        if buffers > profile.max_buffers as usize
            || [kernel, image, product].map(is_held).contains(&false)
        {
            return None;
        }
        let each_run = match is_kept(filtered.kernel_operand) {
            true => time(&[image, product, result]),
            false => time(&[kernel, image, product, result]),
        };
        Some((each_run?, filtered))
    });
    let (seconds, filtered) = ways.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let wins = |direct: f64| EQUAL * seconds < direct;
    // The convolution might be divided instead.
    let is_best = wins(time(&[nest])?)
        && divide(nest, profile)
            .is_none_or(|two| time(&[&two.first, &two.second]).is_none_or(wins));
    is_best.then_some(filtered)
}

/// A convolution in tiles of one size.
struct Parts<'a> {
    nest: &'a Nest,
    convolution: &'a Winograd,
    filtering: Filtering,
    tile: usize,
    /// The pixels of a side of a tile of the image, which is also the number of points.
    side: usize,
    /// The free axes that are the lines and the pixels of the results.
    lines: usize,
    pixels: usize,
    /// The numbers of images along each of their axes, then those of tiles down and across.
    tiles: Vec<usize>,
    /// True if channels are contiguous in the image, and therefore in V.
    channels_last: bool,
    /// True if filters are contiguous in the result, and therefore in M.
    filters_last: bool,
}

/// An element of an operand, and the conditions under which there is one.
struct Element {
    operand: TensorType,
    offset: Affine,
    when: Vec<Affine>,
}

impl<'a> Parts<'a> {
    fn new(nest: &'a Nest, convolution: &'a Winograd, tile: usize) -> Option<Parts<'a>> {
        let Winograd { taps, lines, pixels, images, image, filter, terms, .. } = convolution;
        let place = nest.place();
        let axis = |side: &Side| {
            let is_own = |axis: &usize| {
                let (stride, extent) = (place.coefficient(*axis), nest.axes[*axis].extent);
                (stride, extent) == (side.place as i64, side.extent)
            };
            (0..nest.free).find(is_own)
        };
        let mut tiles: Vec<usize> = images.iter().map(|&axis| nest.axes[axis].extent).collect();
        tiles.extend([lines, pixels].map(|side| side.extent.div_ceil(tile)));
        Some(Parts {
            nest,
            convolution,
            filtering: Filtering::new(*taps, tile),
            tile,
            side: taps + tile - 1,
            lines: axis(lines)?,
            pixels: axis(pixels)?,
            tiles,
            channels_last: image.offset.coefficient(*terms.last()?) == 1,
            filters_last: place.coefficient(*filter) == 1,
        })
    }

    fn nests(&self) -> Option<Filtered> {
        let (result, result_operands) = self.result()?;
        Some(Filtered {
            kernel: self.kernel()?,
            image: self.image()?,
            product: self.product()?,
            result,
            kernel_operand: self.convolution.kernel.operand,
            image_operand: self.convolution.image.operand,
            result_operands,
        })
    }

    fn points(&self) -> usize {
        self.side * self.side
    }

    fn all_tiles(&self) -> usize {
        self.tiles.iter().product()
    }

    /// Returns the strides of tiles and of so many channels or filters in V or M.
    fn strides(&self, channels: usize, are_last: bool) -> [i64; 2] {
        if are_last { [channels as i64, 1] } else { [1, self.all_tiles() as i64] }
    }

    /// Returns the transform of the kernel, with axes `[a, b, c, f]`.
    fn kernel(&self) -> Option<Nest> {
        let Winograd { channels, filters, filter, kernel, terms, .. } = self.convolution;
        let taps = self.convolution.taps as i64;
        let is_known = |v: usize| v == *filter || terms.contains(&v);
        if !kernel.offset.variables().all(is_known) || !kernel.conditions.is_empty() {
            return None;
        }
        let stride = |axis: &usize| kernel.offset.coefficient(*axis);
        let channel = stride(terms.last()?);
        // The pixels' taps have an axis of their own, or they share one with the channels.
        let pixel = match &terms[..] {
            [_, pixel, _] => stride(pixel),
            _ => channel.checked_mul(*channels as i64)?,
        };
        let [a, b, c, f, i, j] = [0, 1, 2, 3, 4, 5];
        let mut address = vec![(c, channel), (f, stride(filter))];
        let mut origin = kernel.offset.offset();
        let Winograd { lines, pixels, .. } = self.convolution;
        for (side, tap, stride) in [(lines, i, stride(terms.first()?)), (pixels, j, pixel)] {
            address.push((tap, if side.reversed { -stride } else { stride }));
            origin += if side.reversed { (taps - 1) * stride } else { 0 };
        }
        let load = Element {
            operand: self.nest.operands[kernel.operand].clone(),
            offset: Affine::new(address, origin)?,
            when: Vec::new(),
        };
        let free = [("a", self.side), ("b", self.side), ("c", *channels), ("f", *filters)];
        let axes = axes(&free, &[("i", taps as usize), ("j", taps as usize)]);
        let tables =
            [(a, i), (b, j)].map(|(row, column)| table(&self.filtering.kernel, taps, row, column));
        transform(format!("{}_kernel", self.nest.name), axes, 4, tables, load)
    }

    /// Returns the transform of the image, with axes `[a, b, images, down, across, c]`, or with `c`
    /// after `b`.
    fn image(&self) -> Option<Nest> {
        let Winograd { image, origin, images, lines, pixels, channels, terms, .. } =
            self.convolution;
        let (first, channel) = if self.channels_last { (2, 2 + self.tiles.len()) } else { (3, 2) };
        let down = first + images.len();
        let free = 3 + self.tiles.len();
        let (i, j) = (free, free + 1);
        let numbered = images.iter().zip(first..);
        let mut address: Vec<(usize, i64)> =
            numbered.map(|(&axis, number)| (number, image.offset.coefficient(axis))).collect();
        address.push((channel, image.offset.coefficient(*terms.last()?)));
        let mut when = Vec::new();
        for (side, tiles, pixel) in [(lines, down, i), (pixels, down + 1, j)] {
            let coordinate = Affine::new([(tiles, self.tile as i64), (pixel, 1)], 0)?;
            address.extend(coordinate.scale(side.stride as i64)?.terms());
            let last = (side.extent.div_ceil(self.tile) - 1) * self.tile + self.side - 1;
            let [low, high] = [side.within.start as i64, side.within.end as i64 - 1];
            if low > 0 {
                when.push(coordinate.add(&Affine::constant(-low))?);
            }
            if high < last as i64 {
                when.push(Affine::constant(high).sub(&coordinate)?);
            }
        }
        let load = Element {
            operand: self.nest.operands[image.operand].clone(),
            offset: Affine::new(address, *origin)?,
            when,
        };
        let names: Vec<String> = (0..images.len()).map(|number| format!("n{number}")).collect();
        let tile_names = names.iter().map(String::as_str).chain(["down", "across"]);
        let mut free_axes: Vec<(&str, usize)> =
            tile_names.zip(self.tiles.iter().copied()).collect();
        free_axes.insert(channel - 2, ("c", *channels));
        free_axes.splice(0..0, [("a", self.side), ("b", self.side)]);
        let axes = axes(&free_axes, &[("i", self.side), ("j", self.side)]);
        let side = self.side as i64;
        let tables =
            [(0, i), (1, j)].map(|(row, column)| table(&self.filtering.image, side, row, column));
        transform(format!("{}_image", self.nest.name), axes, free, tables, load)
    }

    /// Returns the products over the channels, with axes `[point, tile, f]` or `[point, f, tile]`.
    fn product(&self) -> Option<Nest> {
        let Winograd { channels, filters, .. } = *self.convolution;
        let (points, tiles) = (self.points(), self.all_tiles());
        let [point, channel] = [0, 3];
        let (tile, filter) = if self.filters_last { (1, 2) } else { (2, 1) };
        let [tile_stride, channel_stride] = self.strides(channels, self.channels_last);
        let left =
            [(point, (tiles * channels) as i64), (tile, tile_stride), (channel, channel_stride)];
        let right = [(point, (channels * filters) as i64), (channel, filters as i64), (filter, 1)];
        let mut body = Program::default();
        let [left, right] =
            [read(&mut body, 0, Affine::new(left, 0)?), read(&mut body, 1, Affine::new(right, 0)?)];
        body.results = vec![body.binary(BinaryOp::Mul, left, right)];
        let shapes = [[points, tiles, channels], [points, channels, filters]];
        let operands = shapes.map(|shape| TensorType::new(DType::F32, shape)).to_vec();
        let mut free = [("p", points), ("t", tiles), ("f", filters)];
        free.swap(2, filter);
        let axes = axes(&free, &[("c", channels)]);
        simplify(sum(format!("{}_points", self.nest.name), axes, 3, operands, body)?)
    }

    /// Returns the transform of the products to the results, with the places and the epilogue of
    /// the whole nest, and the operands of the whole nest that it reads.
    fn result(&self) -> Option<(Nest, Vec<usize>)> {
        let (nest, convolution) = (self.nest, self.convolution);
        let reduction = axes(&[], &[("a", self.side), ("b", self.side)]);
        let (mut result, operands) = over_other_points(nest, reduction)?;
        let [a, b] = [nest.free, nest.free + 1];
        let first = result.axes.len() + result.derived.len();
        let numerators = [self.lines, self.pixels].map(Affine::var);
        result.derived.extend(
            numerators.map(|numerator| Derived { numerator, denominator: self.tile as i64 }),
        );
        let side = self.side as i64;
        let mut factors = Vec::new();
        for (number, (line, point)) in [(self.lines, a), (self.pixels, b)].into_iter().enumerate() {
            let within = [(line, side), (first + number, -side * self.tile as i64), (point, 1)];
            let elements = self.filtering.result.clone();
            factors.push(Table { elements, offset: Affine::new(within, 0)? });
        }
        // Tiles are numbered in row-major order.
        let [mut tile_stride, filter_stride] = self.strides(convolution.filters, self.filters_last);
        let mut address = vec![(convolution.filter, filter_stride)];
        let variables: Vec<usize> =
            convolution.images.iter().copied().chain([first, first + 1]).collect();
        for (&variable, &extent) in variables.iter().zip(&self.tiles).rev() {
            address.push((variable, tile_stride));
            tile_stride = tile_stride.checked_mul(extent as i64)?;
        }
        let point_stride = (self.all_tiles() * convolution.filters) as i64;
        address.extend([(a, point_stride.checked_mul(side)?), (b, point_stride)]);
        let shape = [self.points(), self.all_tiles(), convolution.filters];
        let load = Load {
            operand: result.operands.len(),
            offset: Affine::new(address, 0)?,
            dynamic: Vec::new(),
            when: Vec::new(),
        };
        result.operands.push(TensorType::new(DType::F32, shape));
        result.body = products(factors.try_into().ok()?, load);
        Some((simplify(result)?, operands))
    }
}

/// Returns free axes, then reduction axes.
fn axes(free: &[(&str, usize)], reduction: &[(&str, usize)]) -> Vec<Axis> {
    let all = free.iter().chain(reduction);
    all.map(|&(name, extent)| Axis { name: name.into(), extent }).collect()
}

/// Returns an element of a matrix with rows of this length.
fn table(elements: &[Scalar], length: i64, row: usize, column: usize) -> Table {
    let offset = Affine::new([(row, length), (column, 1)], 0).unwrap_or_default();
    Table { elements: elements.to_vec(), offset }
}

/// Reads an element of an operand.
fn read(body: &mut Program<Leaf>, operand: usize, offset: Affine) -> Value {
    let load = Load { operand, offset, dynamic: Vec::new(), when: Vec::new() };
    body.push(Inst::Leaf(Leaf::Load(load)), DType::F32)
}

/// Returns the product of elements of two tables and of an operand.
fn products([first, second]: [Table; 2], load: Load) -> Program<Leaf> {
    let mut body = Program::default();
    let [first, second, element] = [Leaf::Table(first), Leaf::Table(second), Leaf::Load(load)]
        .map(|leaf| body.push(Inst::Leaf(leaf), DType::F32));
    let inner = body.binary(BinaryOp::Mul, second, element);
    body.results = vec![body.binary(BinaryOp::Mul, first, inner)];
    body
}

/// Returns the transform by two tables of what is at an address.
fn transform(
    name: String,
    axes: Vec<Axis>,
    free: usize,
    tables: [Table; 2],
    Element { operand, offset, when }: Element,
) -> Option<Nest> {
    let body = products(tables, Load { operand: 0, offset, dynamic: Vec::new(), when });
    simplify(sum(name, axes, free, vec![operand], body)?)
}

/// Returns a nest that sums its body, and writes all its places to one tensor.
fn sum(
    name: String,
    axes: Vec<Axis>,
    free: usize,
    operands: Vec<TensorType>,
    body: Program<Leaf>,
) -> Option<Nest> {
    let places = axes[..free].iter().try_fold(1usize, |all, axis| all.checked_mul(axis.extent))?;
    let mut epilogue = Program::default();
    let accumulator = epilogue.push(Inst::Leaf(Leaf::Accumulator), DType::F32);
    epilogue.results.push(accumulator);
    let mut nest = Nest {
        name,
        axes,
        free,
        rows: free,
        loops: 0,
        derived: Vec::new(),
        guards: Vec::new(),
        operands,
        in_bytes: Vec::new(),
        aggregation: Some(Aggregation::Sum),
        position: None,
        rank: None,
        body,
        inner: Vec::new(),
        epilogue,
        outputs: Vec::new(),
    };
    let position = nest.place();
    nest.outputs = vec![Output { ty: TensorType::new(DType::F32, [places]), position, over: None }];
    Some(nest)
}
