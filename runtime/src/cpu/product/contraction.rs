//! Nests that are a sum of products of two operands, run by the packed matrix product of
//! [`super::gemm`].
//!
//! [`Roles`] says which axes are rows, columns, batch and terms of the sum. A convolution is such a
//! product whose left operand is gathered. A factor that is a single load is packed from its
//! operand by tables of offsets, or read in place. Any other factor is computed while packing.
//! Guards become zeros in the packed operands. The epilogue runs on finished tiles.

use super::gemm::{
    Float, Frame, Gather, Layout, Pack, Packed, Panel, Places, Right, Size, Store, Tile, View, Window, product,
};
use super::places::{gathered, is_whole, locate, size};
use crate::cpu::loops::job::Job;
use crate::cpu::loops::machine::Machine;
use crate::cpu::loops::runner::Runner;
use crate::cpu::loops::walk::Guards;
use crate::cpu::memory::{Launch, Operand, Register, bytes_of, elements};
use crate::cpu::threads::idle::Idle;
use crate::cpu::vector::number::{Bool, Number};
use std::ops::Range;
use tile_compiler::affine::Affine;
use tile_compiler::dtype::DType;
use tile_compiler::native::{CHUNK, Space, Tape};
use tile_compiler::nest::{Leaf, Nest, Roles};
use tile_compiler::scalar::{Inst, Value};

/// Products with fewer multiply-adds, or fewer rows, run in the vector loops, which need no
/// packing.
const LEAST_WORK: usize = 4096;
const LEAST_ROWS: usize = 4;

/// A product, ready to run.
pub struct Contraction {
    /// The type of the sums: f32 or f64.
    dtype: DType,
    size: Size,
    left: Side,
    right: Side,
    /// For each batch, row and column, its part of the place's number.
    batch: Vec<usize>,
    rows: Vec<usize>,
    columns: Vec<usize>,
    /// For each column, the number of columns from there on (itself included) with consecutive
    /// places.
    runs: Vec<u32>,
}

/// A right operand packed ahead.
pub enum PackedRight {
    F32(Packed<f32>),
    F64(Packed<f64>),
}

impl PackedRight {
    /// Returns the memory, for [`Contraction::pack`].
    pub fn into_memory(self) -> Register {
        match self {
            PackedRight::F32(packed) => packed.into_memory(),
            PackedRight::F64(packed) => packed.into_memory(),
        }
    }
}

/// The source of an operand's elements.
enum Side {
    /// A load, as tables of places. `whole` if it reads every element of the operand once.
    Gathered {
        operand: usize,
        places: Box<Places>,
        whole: bool,
    },
    Computed(Box<Computed>),
}

/// An operand that a program computes, along the reduction.
struct Computed {
    tape: Runner,
    /// The guards. Elements where one fails are 0.
    guards: Vec<Affine>,
    batch: Vec<usize>,
    outer: Vec<usize>,
    /// The nest's operands that it reads.
    operands: Vec<usize>,
}

impl Contraction {
    /// Describes the nest as a product, if it is one that is worth packing for. `kept` says which
    /// operands change seldom.
    pub fn new(nest: &Nest, kept: &dyn Fn(usize) -> bool) -> Option<Self> {
        let dtype = nest.accumulator().filter(|dtype| matches!(dtype, DType::F32 | DType::F64))?;
        let mut roles = oriented(nest)?;
        let [batch, m, n] = [&roles.batch, &roles.rows, &roles.columns].map(|axes| size(nest, axes));
        let mut size = Size::new(batch, m, n, nest.reduction_points(), dtype.size());
        if nest.places().saturating_mul(size.k) < LEAST_WORK {
            return None;
        }
        let (mut left, mut right) = sides(nest, &mut roles);
        if size.m < LEAST_ROWS && !right.operands().iter().all(|&operand| kept(operand)) {
            return None;
        }
        if let (Side::Gathered { places, .. }, Side::Gathered { places: of_right, .. }) = (&mut left, &mut right)
            && let Some((window, _)) = &places.window
        {
            let extents: Vec<usize> = roles.reduction.iter().map(|&axis| nest.axes[axis].extent).collect();
            let (order, block) = window.order(&extents);
            size.block = block;
            if let Some(order) = order {
                **places = places.reordered(&order);
                **of_right = of_right.reordered(&order);
            }
        }
        let places = |axes: &[usize]| -> Vec<usize> {
            let mut point = vec![0; nest.axes.len()];
            let place = |position| {
                locate(nest, axes, position, &mut point);
                (0..nest.free).fold(0, |place, a| place * nest.axes[a].extent + point[a] as usize)
            };
            (0..self::size(nest, axes)).map(place).collect()
        };
        let columns = places(&roles.columns);
        let mut runs = vec![1u32; columns.len()];
        for i in (0..columns.len().saturating_sub(1)).rev() {
            runs[i] = if columns[i + 1] == columns[i] + 1 { runs[i + 1] + 1 } else { 1 };
        }
        Some(Self { dtype, size, left, right, batch: places(&roles.batch), rows: places(&roles.rows), columns, runs })
    }

    /// Returns whether the left factor is read through a window.
    #[cfg(test)]
    pub fn has_window(&self) -> bool {
        matches!(&self.left, Side::Gathered { places, .. } if places.window.is_some())
    }

    /// Returns the operands that the right factor reads.
    pub fn right(&self) -> Vec<usize> {
        self.right.operands()
    }

    /// Returns the operands that the right factor reads, if nothing else reads them.
    pub fn packs(&self, nest: &Nest) -> Vec<usize> {
        let right = self.right.operands();
        let in_body =
            nest.body.leaves().filter(|leaf| matches!(leaf, Leaf::Load(load) if right.contains(&load.operand)));
        let in_all = nest.loads().filter(|load| right.contains(&load.operand));
        let of_right = self.right.loads();
        let alone = in_body.count() == of_right && in_all.count() == of_right;
        if alone && (nest.loops == 0 || self.right.is_steady()) { right } else { Vec::new() }
    }

    /// Returns the operand whose every element the right factor reads once, if there is one.
    pub fn holds(&self) -> Option<usize> {
        match &self.right {
            Side::Gathered { operand, whole: true, .. } => Some(*operand),
            _ => None,
        }
    }

    /// Restores the bytes of that operand.
    pub fn unpack(&self, packed: &PackedRight) -> Option<Vec<u8>> {
        let Side::Gathered { places, whole: true, .. } = &self.right else { return None };
        Some(match packed {
            PackedRight::F32(packed) => bytes_of(&packed.unpack(self.size, places)).to_vec(),
            PackedRight::F64(packed) => bytes_of(&packed.unpack(self.size, places)).to_vec(),
        })
    }

    /// Packs the right operand for any number of runs in which the operands of
    /// [`Contraction::packs`] do not change. The other operands may be empty.
    pub fn pack(&self, nest: &Nest, launch: Launch, room: Option<Register>) -> PackedRight {
        match self.dtype {
            DType::F64 => PackedRight::F64(Packed::new(self.size, &self.right.bind(nest, launch), room)),
            _ => PackedRight::F32(Packed::new(self.size, &self.right.bind(nest, launch), room)),
        }
    }

    /// Returns the bytes that [`Contraction::pack`] takes.
    pub fn packed_bytes(&self) -> u64 {
        self.size.packed_bytes(self.dtype.size())
    }

    /// Returns the bytes that a run keeps at most.
    pub fn working_bytes(&self, is_packed: bool) -> u64 {
        self.size.working_bytes(self.dtype.size(), is_packed)
    }

    /// Computes all places.
    pub fn run(&self, job: &Job, packed: Option<&PackedRight>) {
        match (self.dtype, packed) {
            (DType::F64, Some(PackedRight::F64(packed))) => self.run_typed(job, Some(packed)),
            (DType::F64, _) => self.run_typed::<f64>(job, None),
            (_, Some(PackedRight::F32(packed))) => self.run_typed(job, Some(packed)),
            _ => self.run_typed::<f32>(job, None),
        }
    }

    fn run_typed<T: Float + Number>(&self, job: &Job, packed: Option<&Packed<T>>) {
        let left = self.left.bind::<T>(job.nest, job.launch);
        let right = self.right.bind::<T>(job.nest, job.launch);
        let right = packed.map_or(Right::Now(&right), Right::Packed);
        let epilogue = Epilogue { job, contraction: self, idle: Idle::new() };
        product(self.size, &left, right, &epilogue);
    }
}

/// Returns the nest's roles with the last free axis as a column, so that places are consecutive
/// along columns.
pub fn oriented(nest: &Nest) -> Option<Roles> {
    let mut roles = nest.roles()?;
    let last = nest.free.checked_sub(1)?;
    if roles.rows.contains(&last) {
        std::mem::swap(&mut roles.rows, &mut roles.columns);
        std::mem::swap(&mut roles.left, &mut roles.right);
        std::mem::swap(&mut roles.left_guards, &mut roles.right_guards);
    }
    roles.columns.contains(&last).then_some(roles)
}

/// Creates the two factors. If both are gathered, the terms are ordered so that neighbours are
/// contiguous in the left one.
fn sides(nest: &Nest, roles: &mut Roles) -> (Side, Side) {
    let both = |reduction: &[usize]| {
        let left = Side::new(nest, [&roles.batch, &roles.rows, reduction], roles.left, &roles.left_guards);
        (left, Side::new(nest, [&roles.batch, &roles.columns, reduction], roles.right, &roles.right_guards))
    };
    let step = |&axis: &usize| match &nest.body.insts[roles.left].0 {
        Inst::Leaf(Leaf::Load(load)) => load.offset.coefficient(axis).abs(),
        _ => 0,
    };
    if let Some(neighbours) = roles.reduction.iter().position(|axis| nest.axes[*axis].extent > 1 && step(axis) == 1) {
        let mut reduction = roles.reduction.clone();
        reduction[neighbours..].rotate_left(1);
        if let sides @ (Side::Gathered { .. }, Side::Gathered { .. }) = both(&reduction) {
            roles.reduction = reduction;
            return sides;
        }
    }
    both(&roles.reduction)
}

impl Side {
    /// Creates the operand with the elements `value` of the body, or 0 where a guard fails. `axes`
    /// are its batch, outer and reduction axes.
    fn new(nest: &Nest, axes: [&[usize]; 3], value: Value, guards: &[Affine]) -> Self {
        if let Inst::Leaf(Leaf::Load(load)) = &nest.body.insts[value].0
            && let Some(places) = gathered(nest, axes, load, guards)
        {
            let whole = guards.is_empty() && is_whole(nest, load, axes);
            return Side::Gathered { operand: load.operand, places: Box::new(places), whole };
        }
        let space = Space::new(nest, nest.reduction());
        let tape = Runner::new(Tape::new(nest, &nest.body, &[value], space, guards));
        let [batch, outer, _] = axes.map(<[usize]>::to_vec);
        let operands = tape.operands().collect();
        Side::Computed(Box::new(Computed { tape, guards: guards.to_vec(), batch, outer, operands }))
    }

    fn operands(&self) -> Vec<usize> {
        match self {
            Side::Gathered { operand, .. } => vec![*operand],
            Side::Computed(computed) => computed.operands.clone(),
        }
    }

    /// Returns the number of loads in its program.
    fn loads(&self) -> usize {
        match self {
            Side::Gathered { .. } => 1,
            Side::Computed(computed) => computed.operands.len(),
        }
    }

    fn bind<'a, T: Number>(&'a self, nest: &'a Nest, launch: Launch<'a>) -> Bound<'a, T> {
        match self {
            Side::Gathered { operand, places, .. } => {
                let Operand { bytes, first, .. } = launch.operands[*operand];
                Bound::Gathered(Gather::new(elements(bytes), first, places, launch.steps))
            }
            Side::Computed(computed) => Bound::Computed { nest, computed, launch },
        }
    }

    /// Returns whether its addresses and guards are the same at every step of the loops around the
    /// nest.
    fn is_steady(&self) -> bool {
        match self {
            Side::Gathered { places, .. } => places.is_steady(),
            Side::Computed(_) => false,
        }
    }
}

/// A side, bound to the memory of its operands.
enum Bound<'a, T> {
    Gathered(Gather<'a, T>),
    Computed { nest: &'a Nest, computed: &'a Computed, launch: Launch<'a> },
}

impl<T: Float + Number> Pack<T> for Bound<'_, T> {
    fn layout(&self) -> Layout {
        match self {
            Bound::Gathered(gather) => gather.layout(),
            Bound::Computed { .. } => Layout::KContiguous,
        }
    }

    fn k_step(&self) -> usize {
        match self {
            Bound::Gathered(gather) => gather.k_step(),
            Bound::Computed { .. } => usize::MAX,
        }
    }

    fn pack(&self, batch: usize, outer: Range<usize>, ks: Range<usize>, panel: Panel<T>) {
        match self {
            Bound::Gathered(gather) => gather.pack(batch, outer, ks, panel),
            Bound::Computed { nest, computed, launch } => computed.pack(nest, *launch, batch, outer, ks, panel),
        }
    }

    fn window(&self) -> Option<&Window> {
        match self {
            Bound::Gathered(gather) => gather.window(),
            Bound::Computed { .. } => None,
        }
    }

    fn fill(&self, frame: &Frame, to: &mut [T]) {
        if let Bound::Gathered(gather) = self {
            gather.fill(frame, to);
        }
    }

    fn view(&self, batch: usize, outer: Range<usize>, ks: Range<usize>) -> Option<View<'_, T>> {
        match self {
            Bound::Gathered(gather) => gather.view(batch, outer, ks),
            Bound::Computed { .. } => None,
        }
    }
}

impl Computed {
    fn pack<T: Number>(
        &self,
        nest: &Nest,
        launch: Launch,
        batch: usize,
        outer: Range<usize>,
        ks: Range<usize>,
        panel: Panel<T>,
    ) {
        let mut machine = self.tape.machine(launch);
        let guards = Guards::new(nest, self.tape.space.clone(), &self.guards);
        let mut counts = [Bool(0); CHUNK];
        locate(nest, &self.batch, batch, &mut machine.walker.point);
        for (row, o) in outer.enumerate() {
            locate(nest, &self.outer, o, &mut machine.walker.point);
            for chunk in self.tape.chunks(ks.clone()) {
                machine.run(chunk.start, chunk.len());
                let all = guards.hold(&mut machine.walker, &chunk, &mut counts);
                let values = machine.value::<T>(self.tape.results[0]);
                let to = &mut panel.data[row * panel.outer_stride + (chunk.start - ks.start) * panel.k_stride..];
                if all && panel.k_stride == 1 {
                    to[..values.len()].copy_from_slice(values);
                    continue;
                }
                let to = to.iter_mut().step_by(panel.k_stride).zip(values);
                if all {
                    to.for_each(|(to, x)| *to = *x);
                } else {
                    to.zip(&counts).for_each(|((to, x), c)| *to = if c.0 != 0 { *x } else { T::default() });
                }
            }
        }
    }
}

/// The store that runs the nest's epilogue on finished tiles.
struct Epilogue<'a> {
    job: &'a Job<'a>,
    contraction: &'a Contraction,
    idle: Idle<Box<Machine<'a>>>,
}

// SAFETY: `Job::direct` returns memory for all the places of these rows × columns. Nobody else
// computes these places, since a product stores each element once, and each is another place.
unsafe impl<'a, T: Float + Number> Store<T> for Epilogue<'a> {
    type Worker = Box<Machine<'a>>;

    fn worker(&self) -> Self::Worker {
        self.idle.take(|| Box::new(self.job.finisher()))
    }

    fn done(&self, machine: Self::Worker) {
        self.idle.give(machine);
    }

    fn store(&self, machine: &mut Self::Worker, tile: Tile<T>) {
        let Contraction { batch, rows, columns, runs, .. } = self.contraction;
        let width = tile.columns.len();
        let place = |row: usize, column: usize| batch[tile.batch] + rows[row] + columns[column];
        let consecutive = runs[tile.columns.start] as usize >= width;
        if consecutive {
            // Rows with consecutive places are finished together.
            let mut first = tile.rows.start;
            while first < tile.rows.end {
                let follows = |row: &usize| rows[*row] == rows[row - 1] + width;
                let count = 1 + (first + 1..tile.rows.end).take_while(follows).count();
                let place = place(first, tile.columns.start);
                // SAFETY: a product stores each element once, and each is another place.
                tile.together(first..first + count, |sums| unsafe { self.job.complete(machine, place, sums) });
                first += count;
            }
            return;
        }
        for (row, sums) in tile.iter() {
            let mut done = 0;
            while done < sums.len() {
                let column = tile.columns.start + done;
                let run = (runs[column] as usize).min(sums.len() - done);
                // SAFETY: a product stores each element once, and each is another place.
                unsafe { self.job.complete(machine, place(row, column), &sums[done..done + run]) };
                done += run;
            }
        }
    }

    fn place(&self, batch: usize, of_rows: Range<usize>, of_columns: Range<usize>) -> Option<(*mut T, usize)> {
        let Contraction { batch: batches, rows, columns, runs, .. } = self.contraction;
        let (rows, first_column) = (&rows[of_rows], of_columns.start);
        let stride = rows.get(1).map_or(0, |second| second.wrapping_sub(rows[0]));
        let is_even = rows.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == stride);
        if (runs[first_column] as usize) < of_columns.len() || !is_even || rows.last() < rows.first() {
            return None;
        }
        let place = |row: usize| batches[batch] + row + columns[first_column];
        let places = place(rows[0])..place(rows[rows.len() - 1]) + of_columns.len();
        self.job.direct(places).map(|start| (start, stride))
    }
}
