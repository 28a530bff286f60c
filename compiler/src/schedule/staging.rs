//! Staging: loads blocks of an operand of a tiled product into workgroup memory, as
//! `[reduction][row or column]`. Fused producers are evaluated on the way, and elements whose
//! guards fail are 0.
//!
//! An element of the staged tile is a vector of adjacent rows (or columns), which an invocation
//! multiplies at once. A *slot* is what an invocation reads and stores together. It is one such
//! vector. If the operand is contiguous along the reduction and can be read in vectors, it is a
//! vector for each of four reduction points, which the invocation transposes in registers. Slots of
//! consecutive invocations are adjacent in the operand's memory.
//!
//! Transposing takes a move of a register for each number. Tiles of which an invocation multiplies
//! few rows are therefore staged as `[row][reduction]`, in vectors of reduction points (*deep*
//! tiles): it holds all of its rows at four reduction points in registers then, instead of one.
//! Tiles for matrix units are deep, too, but arrays of scalars: an invocation's part of a matrix is
//! a row of the left operand, or a column of the right one.

mod slots;

pub(super) use slots::{Fetched, Slots};

use crate::affine::Affine;
use crate::dtype::DType;
use crate::kernel::{Builder, Expr, Type};
use crate::nest::{Leaf, Nest, Roles, loads_of};
use crate::scalar::{Program, Value};

use super::Tiling;
use super::lanes::{Wanted, is_still, reads, singly};

/// Reduction points that a slot reads as a vector.
const DEEP: u32 = 4;

/// The most own points of an invocation in a deep tile. More would take too many registers.
const MOST_DEEP: u32 = 4;

/// Bytes of padding of a line that matrix units read, which avoids bank conflicts.
pub(super) const LINE_PADDING: u32 = 16;

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
    /// Own points of an invocation.
    own: u32,
    /// Own points, and reduction points, of a block.
    block: u32,
    block_depth: u32,
    /// The number of reduction points is padded to a multiple of this.
    unit: u32,
    /// Blocks may advance in windows, which the kernel then iterates over: see [`Side::windows`].
    in_windows: bool,
    /// Lanes of an element of the staged tile.
    pub lanes: u32,
    /// The operand is contiguous along the reduction, rather than along its own axes.
    along_reduction: bool,
    /// The operand is read in vectors along its contiguous axis.
    vector: bool,
    /// The staged tile is for matrix units: `[row or column][reduction]`, in scalars.
    in_scalars: bool,
    /// Padding of a line of the staged tile, in elements: of one reduction point, or of one own
    /// point if the tile is in scalars. A deep tile has its own.
    padding: u32,
}

/// A staged block in workgroup memory, with the part that an invocation multiplies.
pub(super) struct Staged {
    pub array: usize,
    /// Adjacent rows or columns of an invocation.
    pub lanes: u32,
    /// Elements from one reduction point to the next, or of a deep tile from one own point to the
    /// next.
    pub pitch: u32,
    /// The invocation's first element.
    pub first: Expr,
    /// The invocation's rows or columns, and the distance between its vectors in elements.
    pub count: u32,
    pub stride: u32,
    /// The distance between own points of a vector, in own points, if the tile is deep.
    pub deep: Option<u32>,
}

impl Staged {
    /// Returns the number of reduction points of an element.
    pub fn depth(&self) -> u32 {
        if self.deep.is_some() { DEEP } else { 1 }
    }

    /// Reads the invocation's elements that begin with reduction point `k`, a multiple of
    /// [`Staged::depth`]. `base` is the invocation's first element.
    pub fn read(&self, b: &mut Builder, name: &str, base: &Expr, k: Expr) -> Vec<Expr> {
        let groups = 0..self.count / self.lanes;
        let offsets: Vec<u32> = match self.deep {
            None => groups.map(|group| group * self.stride).collect(),
            Some(apart) => groups
                .flat_map(|group| {
                    (0..self.lanes).map(move |lane| lane * apart + group * self.stride)
                })
                .map(|own| own * self.pitch)
                .collect(),
        };
        let first = match self.deep {
            None => k * self.pitch as i32 + base,
            Some(_) => k.quotient(DEEP) + base,
        };
        let read = |offset: u32| Expr::load_shared(self.array, first.clone() + offset as i32);
        offsets.into_iter().map(|offset| b.let_(name, read(offset))).collect()
    }

    /// Returns the invocation's own point `number` at a reduction point of elements that were read.
    pub fn number(&self, read: &[Expr], number: u32, k: u32) -> Expr {
        match self.deep {
            Some(_) => read[number as usize].clone().lane((k % DEEP) as u8),
            None if self.lanes == 1 => read[number as usize].clone(),
            None => read[(number / self.lanes) as usize].clone().lane((number % self.lanes) as u8),
        }
    }

    /// Returns the invocation's vector `group` of own points in the same way.
    pub fn vector(&self, b: &mut Builder, read: &[Expr], group: u32, k: u32) -> Expr {
        if self.deep.is_none() {
            return read[group as usize].clone();
        }
        let numbers = group * self.lanes..(group + 1) * self.lanes;
        b.let_("r", Expr::vector(numbers.map(|number| self.number(read, number, k)).collect()))
    }
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
            own,
            block,
            block_depth,
            unit: block_depth,
            in_windows: true,
            lanes: vector_of(own),
            along_reduction,
            vector: false,
            in_scalars: false,
            // Consecutive invocations then store down a column of the tile. Padding by one element
            // avoids bank conflicts.
            padding: u32::from(along_reduction),
        }
    }

    /// Lays the tile out for matrix units, with elements of `dtype`.
    pub fn of_matrices(self, dtype: DType) -> Side<'a> {
        Side { in_scalars: true, padding: LINE_PADDING / dtype.size() as u32, ..self }
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

    /// Lets blocks advance along all reduction axes at once, for kernels without loops over
    /// windows.
    pub fn without_windows(self) -> Side<'a> {
        Side { in_windows: false, ..self }
    }

    /// Sets whether the operand is read in vectors.
    pub fn set_vector(&mut self, vector: bool) {
        self.vector = vector;
    }

    /// Returns whether the staged tile is deep, in vectors.
    fn is_deep(&self) -> bool {
        self.vector && self.along_reduction && !self.in_scalars && self.own <= MOST_DEEP
    }

    /// Returns the distance from one reduction point to the next, or of a deep tile from one own
    /// point to the next, in elements of the staged tile. An odd one avoids bank conflicts.
    pub fn pitch(&self) -> u32 {
        if self.in_scalars {
            self.block_depth + self.padding
        } else if self.is_deep() {
            (self.block_depth / DEEP) | 1
        } else {
            self.block / self.lanes + self.padding
        }
    }

    /// Returns the number of elements of the staged tile.
    pub fn words(&self) -> u32 {
        let is_deep = self.in_scalars || self.is_deep();
        self.pitch() * if is_deep { self.block } else { self.block_depth }
    }

    /// Returns the lanes of an element of the staged tile.
    fn element(&self) -> u32 {
        if self.in_scalars {
            1
        } else if self.is_deep() {
            DEEP
        } else {
            self.lanes
        }
    }

    /// Returns the number of reduction points of a slot.
    fn depth(&self) -> u32 {
        if self.vector && self.along_reduction { DEEP } else { 1 }
    }

    /// Returns the number of own points of a slot.
    fn width(&self) -> u32 {
        let is_deep = self.is_deep() || self.in_scalars && self.depth() > 1;
        if is_deep { 1 } else { self.lanes }
    }

    /// Returns the reduction axes that are constant in a block, and the one along which blocks
    /// advance. `None` if there are several and blocks do not divide the innermost one, or may not
    /// advance in windows.
    fn advance(&self) -> Option<(&'a [usize], &'a [usize])> {
        let (outer, inner) = self.reduction.split_at(self.reduction.len().checked_sub(1)?);
        let divides = self.nest.points(inner).is_multiple_of(self.block_depth as usize);
        (outer.is_empty() || self.in_windows && divides).then_some((outer, inner))
    }

    /// Returns the loops over blocks: the number of windows, in each of which only one reduction
    /// axis advances, and the reduction points of a window.
    pub fn windows(&self) -> [usize; 2] {
        match self.advance() {
            Some((outer, inner)) => [outer, inner].map(|axes| self.nest.points(axes)),
            None => [1, self.depth],
        }
    }

    /// Declares the array of the staged tile, for `buffers` buffers.
    pub fn declare(&self, b: &mut Builder, dtype: DType, buffers: u32) -> usize {
        let element = Type::vector(dtype, self.element() as u8);
        b.shared(self.name, element, (self.words() * buffers) as usize)
    }

    /// Describes the part of a block in workgroup memory that an invocation multiplies. See
    /// [`Staged`].
    pub fn staged(&self, array: usize, origin: Expr, at: &Expr, count: u32, stride: u32) -> Staged {
        let (pitch, deep) = (self.pitch(), self.is_deep().then_some(self.block / self.lanes));
        let first = origin + at.clone() * if deep.is_some() { pitch as i32 } else { 1 };
        Staged { array, lanes: self.lanes, pitch, first, count, stride, deep }
    }
}

/// Returns an upper bound of the numbers in a staged tile.
pub(super) fn most_numbers(block: u32, own: u32, depth: u32) -> u32 {
    let padding = if own <= MOST_DEEP { block.max(depth) } else { depth };
    block * depth + DEEP * padding
}

/// Returns the widest vector (4, 2 or 1 lanes) that divides `count` rows or columns.
pub(super) fn vector_of(count: u32) -> u32 {
    [4, 2].into_iter().find(|&lanes| count.is_multiple_of(lanes)).unwrap_or(1)
}
