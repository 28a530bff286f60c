//! Staging: loads blocks of an operand of a tiled product into workgroup memory, as
//! `[reduction][row or column]`. Fused producers are evaluated on the way, and elements whose
//! guards fail are 0.
//!
//! An element of the staged tile is a vector of adjacent rows (or columns), which an invocation
//! multiplies at once. A *slot* is what an invocation reads and stores together. It is one such
//! vector. If the operand is contiguous along the reduction and can be read in vectors, it is a
//! vector for each of four reduction points, which the invocation transposes in registers. Slots of
//! consecutive invocations are adjacent in the operand's memory.

use crate::affine::Affine;
use crate::dtype::{DType, Scalar};
use crate::kernel::{Builder, Expr, Type};
use crate::nest::{Leaf, Load, Nest, Roles, loads_of};
use crate::scalar::{Program, Value};

use super::lanes::{Wanted, is_still, reads, singly};
use super::point::Point;
use super::values::Values;
use super::{ScheduleError, Tiling};

/// Reduction points that a slot reads as a vector.
const DEEP: u32 = 4;

/// An operand of a tiled product, with the layout of its staged tile. Its *own* axes are the rows
/// for the left operand, and the columns for the right one.
pub(super) struct Side<'a> {
    nest: &'a Nest,
    pub name: &'static str,
    /// The program of the nest that computes the operand, as the value `factor`.
    program: &'a Program<Leaf>,
    factor: Value,
    /// The operand's own free axes, and the number of their points.
    axes: &'a [usize],
    count: usize,
    reduction: &'a [usize],
    depth: usize,
    guards: &'a [Affine],
    /// Own points, and reduction points, of a block.
    block: u32,
    block_depth: u32,
    /// The number of reduction points is padded to a multiple of this.
    unit: u32,
    /// Lanes of an element of the staged tile.
    pub lanes: u32,
    /// The operand is contiguous along the reduction, rather than along its own axes.
    along_reduction: bool,
    /// The operand is read in vectors along its contiguous axis.
    vector: bool,
    /// The staged tile is an array of scalars, as matrix units read it. The lanes of an element are
    /// adjacent.
    in_scalars: bool,
    /// Padding of a line of the staged tile (one reduction point), in elements.
    padding: u32,
}

/// A staged block in workgroup memory, with the part that an invocation multiplies.
pub(super) struct Staged {
    pub array: usize,
    /// Rows or columns of an element.
    pub lanes: u32,
    /// Elements from one reduction point to the next.
    pub pitch: u32,
    /// The invocation's first element.
    pub first: Expr,
    /// The invocation's rows or columns, and the distance between its vectors in elements.
    pub count: u32,
    pub stride: u32,
}

/// The part of a block that an invocation stages in one turn.
struct Slot<'a> {
    /// Whether the slot is within the block.
    exists: Expr,
    /// The slot's first reduction point, relative to the block, and its first element in the staged
    /// tile.
    k: Expr,
    word: Expr,
    /// The own points that are read, and whether each is in bounds. Their reduction axes are not
    /// set. A vector of own points is one point.
    points: Vec<(Point<'a>, Expr)>,
}

/// All slots of an invocation.
pub(super) struct Slots<'a> {
    /// The variables that all points share.
    point: Point<'a>,
    slots: Vec<Slot<'a>>,
}

impl<'a> Side<'a> {
    pub fn new(nest: &'a Nest, roles: &'a Roles, left: bool, t: &Tiling) -> Side<'a> {
        let (name, factor, axes, guards, block, own) = match left {
            true => {
                ("left", roles.left, &roles.rows, &roles.left_guards, t.block_rows, t.thread_rows)
            }
            false => (
                "right",
                roles.right,
                &roles.columns,
                &roles.right_guards,
                t.block_columns,
                t.thread_columns,
            ),
        };
        Side::of(
            nest,
            &nest.body,
            factor,
            name,
            axes,
            &roles.reduction,
            [block, own, t.block_reduction],
        )
        .with_guards(guards)
    }

    /// Sets guards: the operand is 0 where one of them fails.
    pub fn with_guards(self, guards: &'a [Affine]) -> Side<'a> {
        Side { guards, ..self }
    }

    /// Describes an operand of a product in one of the nest's programs, by its own axes and by the
    /// axes that both operands share. The sizes are the block's own points, an invocation's own
    /// points, and the block's reduction points.
    pub fn of(
        nest: &'a Nest,
        program: &'a Program<Leaf>,
        factor: Value,
        name: &'static str,
        axes: &'a [usize],
        reduction: &'a [usize],
        [block, own, block_depth]: [u32; 3],
    ) -> Side<'a> {
        let runs = |axis: Option<&usize>| {
            axis.is_some_and(|&axis| {
                loads_of(program, factor).any(|load| load.offset.coefficient(axis) == 1)
            })
        };
        let along_reduction = runs(reduction.last()) && !runs(axes.last());
        Side {
            nest,
            name,
            program,
            factor,
            axes,
            count: nest.points(axes),
            reduction,
            depth: nest.points(reduction),
            guards: &[],
            block,
            block_depth,
            unit: block_depth,
            lanes: vector_of(own),
            along_reduction,
            vector: false,
            in_scalars: false,
            // Consecutive invocations then store down a column of the tile. Padding by one element
            // avoids bank conflicts.
            padding: u32::from(along_reduction),
        }
    }

    /// Lays the tile out for matrix units, with elements of `dtype`. Lines are padded by 16 bytes
    /// to avoid bank conflicts.
    pub fn of_matrices(self, dtype: DType) -> Side<'a> {
        Side { in_scalars: true, padding: 16 / (dtype.size() as u32 * self.lanes), ..self }
    }

    /// Returns the lanes that the operand's loads want in order to read vectors along its
    /// contiguous axis, or `None` if they cannot.
    pub fn wanted(&self) -> Option<Wanted> {
        let (&axis, width) = match self.along_reduction {
            true => (self.reduction.last()?, DEEP),
            false => (self.axes.last()?, self.lanes),
        };
        let still = self.guards.iter().all(|guard| is_still(guard, axis));
        let fits = still && width > 1 && self.block_depth.is_multiple_of(DEEP);
        let wanted = reads(self.nest, loads_of(self.program, self.factor), axis, width as u8)
            .filter(|_| fits)?;
        wanted.iter().any(|&(_, lanes)| lanes > 1).then_some(wanted)
    }

    /// Returns the lanes that the operand's loads want in order to read scalars.
    pub fn singly(&self) -> Wanted {
        singly(loads_of(self.program, self.factor))
    }

    /// Makes the blocks parts of longer blocks, of `unit` reduction points.
    pub fn in_units(self, unit: u32) -> Side<'a> {
        Side { unit, ..self }
    }

    /// Sets whether the operand is read in vectors.
    pub fn set_vector(&mut self, vector: bool) {
        self.vector = vector;
    }

    /// Returns the distance from one reduction point to the next, in elements of the staged tile.
    pub fn pitch(&self) -> u32 {
        self.block / self.lanes + self.padding
    }

    /// Returns the number of elements of the staged tile.
    pub fn words(&self) -> u32 {
        self.pitch() * self.block_depth
    }

    /// Returns the number of reduction points of a slot.
    fn deep(&self) -> u32 {
        if self.vector && self.along_reduction { DEEP } else { 1 }
    }

    /// Returns the slots of invocation `lane` of `threads`, in the block whose first own point is
    /// `start`.
    pub fn slots(
        &self,
        b: &mut Builder,
        point: &Point<'a>,
        lane: &Expr,
        threads: u32,
        start: &Expr,
    ) -> Slots<'a> {
        let (across, down) = (self.block / self.lanes, self.block_depth / self.deep());
        let count = across * down;
        let slots = (0..count.div_ceil(threads)).map(|turn| {
            let slot = b.let_("slot", lane.clone() + (turn * threads) as i32);
            let exists = if (turn + 1) * threads <= count {
                true.into()
            } else {
                slot.clone().lt(count as i32)
            };
            // Slots outside of the block need a valid address, too.
            let (k, own) = match self.along_reduction {
                true => (slot.clone().remainder(down), slot.quotient(down)),
                false => (slot.clone().quotient(across), slot.remainder(across)),
            };
            let (k, own) = (
                b.let_(&format!("{}_k", self.name), k * self.deep() as i32),
                b.let_(self.name, own),
            );
            let word = b.let_("word", k.clone() * self.pitch() as i32 + &own);
            let first = b.let_("index", start + own * self.lanes as i32);
            let whole = self.vector && !self.along_reduction;
            let points = (0..if whole { 1 } else { self.lanes }).map(|number| {
                let index = first.clone() + number as i32;
                let mut at = point.clone();
                at.set_position(b, self.axes, &index);
                let loads: Vec<&Load> = loads_of(self.program, self.factor).collect();
                let conditions = loads.iter().flat_map(|load| &load.when).chain(self.guards);
                at.prepare(b, loads.iter().map(|load| &load.offset).chain(conditions));
                let inside = match self.count.is_multiple_of(self.block as usize) {
                    true => true.into(),
                    false => index.lt(self.count as i32),
                };
                match (self.vector, self.axes.last(), self.reduction.last()) {
                    (true, Some(&axis), _) if !self.along_reduction => {
                        at = at.vector(axis, self.lanes as u8)
                    }
                    (true, _, Some(&axis)) => at = at.vector(axis, DEEP as u8),
                    _ => {}
                }
                (at, inside)
            });
            let points = points.collect();
            Slot { exists, k, word, points }
        });
        let slots = slots.collect();
        Slots { point: point.clone(), slots }
    }

    /// Declares the array of the staged tile, for `buffers` buffers.
    pub fn declare(&self, b: &mut Builder, dtype: DType, buffers: u32) -> usize {
        let (lanes, words) = if self.in_scalars {
            (1, self.words() * self.lanes)
        } else {
            (self.lanes, self.words())
        };
        b.shared(self.name, Type::vector(dtype, lanes as u8), (words * buffers) as usize)
    }

    /// Stores an element of the staged tile.
    pub fn store(&self, b: &mut Builder, array: usize, word: Expr, element: &Expr) {
        if !self.in_scalars || self.lanes == 1 {
            return b.store_shared(array, word, element);
        }
        let first = b.let_("first_lane", word * self.lanes as i32);
        for lane in 0..self.lanes as u8 {
            b.store_shared(array, first.clone() + lane as i32, element.clone().lane(lane));
        }
    }

    /// Reads the block whose first reduction point is `first`. Passes each slot's elements to
    /// `then`, with their positions in the staged tile.
    pub fn read(
        &self,
        b: &mut Builder,
        slots: &Slots<'a>,
        first: &Expr,
        mut then: impl FnMut(&mut Builder, usize, &[(Expr, Expr)]),
    ) -> Result<(), ScheduleError> {
        // If blocks divide the innermost axis, the other axes are constant within a block.
        let inner = self.reduction.last().map_or(1, |&axis| self.nest.axes[axis].extent);
        let split = self.reduction.len() > 1 && inner.is_multiple_of(self.block_depth as usize);
        let start = split.then(|| {
            let mut start = slots.point.clone();
            start.set_position(b, self.reduction, first);
            start
        });
        for (number, slot) in slots.slots.iter().enumerate() {
            b.if_(slot.exists.clone(), |b| -> Result<(), ScheduleError> {
                let reduced = b.let_("reduced", first + &slot.k);
                let below = match self.depth.is_multiple_of(self.unit as usize) {
                    true => true.into(),
                    false => reduced.clone().lt(self.depth as i32),
                };
                let mut values = Vec::new();
                let mut first_point: Option<Point> = None;
                for (point, inside) in &slot.points {
                    let mut at = point.clone();
                    match (&first_point, &start, self.reduction.last()) {
                        (Some(known), ..) => at.share(b, known, self.reduction),
                        (None, Some(start), Some(&axis)) => {
                            at.share(b, start, self.reduction);
                            let value =
                                start.variables[axis].clone().unwrap_or_else(|| 0.into()) + &slot.k;
                            at.set(b, axis, value);
                        }
                        _ => at.set_position(b, self.reduction, &reduced),
                    }
                    values.push(self.value(b, &at, inside.clone().and(&below))?);
                    first_point.get_or_insert(at);
                }
                let elements: Vec<(Expr, Expr)> = match self.deep() {
                    1 => vec![(slot.word.clone(), Expr::vector(values))],
                    deep => (0..deep)
                        .map(|k| {
                            let lanes =
                                values.iter().map(|value| value.clone().lane(k as u8)).collect();
                            (slot.word.clone() + (k * self.pitch()) as i32, Expr::vector(lanes))
                        })
                        .collect(),
                };
                then(b, number, &elements);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Stores the block whose first reduction point is `first` in workgroup memory.
    pub fn stage(
        &self,
        b: &mut Builder,
        slots: &Slots<'a>,
        array: usize,
        first: &Expr,
    ) -> Result<(), ScheduleError> {
        self.read(b, slots, first, |b, _, elements| {
            elements.iter().for_each(|(word, element)| self.store(b, array, word.clone(), element));
        })
    }

    /// Describes the part of a block in workgroup memory that an invocation multiplies. See
    /// [`Staged`].
    pub fn staged(&self, array: usize, first: Expr, count: u32, stride: u32) -> Staged {
        Staged { array, lanes: self.lanes, pitch: self.pitch(), first, count, stride }
    }

    /// Returns the type of the operand's values.
    pub fn dtype(&self) -> DType {
        self.program.dtype(self.factor)
    }

    /// Returns the number of elements of each slot.
    pub fn elements(&self, slots: &Slots) -> Vec<usize> {
        vec![self.deep() as usize; slots.slots.len()]
    }

    /// Returns whether a slot is within the block, and the positions of its elements.
    pub fn places(&self, slots: &Slots, number: usize) -> (Expr, Vec<Expr>) {
        let slot = &slots.slots[number];
        let words = (0..self.deep()).map(|k| slot.word.clone() + (k * self.pitch()) as i32);
        (slot.exists.clone(), words.collect())
    }

    /// Returns the operand at a point, or 0 unless `counts` and the guards hold.
    fn value(&self, b: &mut Builder, at: &Point, counts: Expr) -> Result<Expr, ScheduleError> {
        let body = self.program;
        let counts = counts.and(at.holds(self.guards));
        let factor = |b: &mut Builder| {
            at.values(b, body, &[self.factor], None).map(|v| v[self.factor].clone())
        };
        if counts.as_bool() == Some(true) {
            return Ok(factor(b)?);
        }
        let values = Values { b, profile: at.profile, lanes: at.lanes };
        let zero = values.constant(Scalar::zero(body.dtype(self.factor)))?;
        let value = b.var(self.name, zero);
        b.if_(counts, |b| -> Result<(), ScheduleError> {
            let factor = factor(b)?;
            b.assign(&value, factor);
            Ok(())
        })?;
        Ok(value)
    }
}

/// Returns the widest vector (4, 2 or 1 lanes) that divides `count` rows or columns.
pub(super) fn vector_of(count: u32) -> u32 {
    [4, 2].into_iter().find(|&lanes| count.is_multiple_of(lanes)).unwrap_or(1)
}
