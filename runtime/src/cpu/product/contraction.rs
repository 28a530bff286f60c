//! Nests that are a sum of products of two operands, run by the packed matrix product of
//! [`super::gemm`].
//!
//! The native program says which axes are rows, columns, batch and terms of the sum. A convolution
//! is such a product whose left operand is gathered. A factor that is a single load is packed from
//! its operand by tables of offsets, or read in place; f16 and bf16 are widened while packing. Any
//! other factor is computed while packing. Guards become zeros in the packed operands, and
//! [`GuardedTerms`] repairs what these make NaN. The epilogue runs on finished tiles (`store`).

mod store;

use super::gemm::{
    Element, Frame, Gather, Halves, Layout, Pack, Packed, Panel, Places, Quads, Right, Size, View,
    Window, product,
};
use super::guarded::GuardedTerms;
use super::places::{gathered, locate};
use crate::cpu::loops::job::Job;
use crate::cpu::loops::runner::Runner;
use crate::cpu::loops::walk::guards_hold;
use crate::cpu::memory::{Launch, Operand, Register, elements};
use crate::cpu::threads::idle::Idle;
use crate::cpu::vector::number::{Bool, Number};
use crate::cpu::vector::quad::{QUAD, Quad};
use std::ops::Range;
use store::Epilogue;
use tile_compiler::affine::Affine;
use tile_compiler::dtype::DType;
use tile_compiler::native::{CHUNK, Factor, Lines, NativeProgram, Product};

/// An epilogue that runs on fewer places takes longer to begin than to run.
const FEW_PLACES: usize = 256;

/// A product, ready to run.
pub struct Contraction {
    kind: Kind,
    size: Size,
    left: Side,
    right: Side,
    /// Repairs sums, where terms may not count.
    guarded: Option<GuardedTerms>,
    /// The operands that the right factor reads, and whether it can be packed ahead.
    operands: Vec<usize>,
    packs: bool,
    /// For each batch, row and column, its part of the place's number.
    batch: Vec<usize>,
    rows: Vec<usize>,
    columns: Vec<usize>,
    /// For each column, the number of columns from there on (itself included) with consecutive
    /// places.
    runs: Vec<u32>,
    /// Few consecutive places would be finished together: the epilogue should wait.
    is_scattered: bool,
}

/// The elements that the kernels multiply.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    F32,
    F64,
    /// 8-bit integers, the left ones unsigned and the right ones signed.
    UnsignedLeft,
    /// 8-bit integers, the left ones signed and the right ones unsigned.
    SignedLeft,
}

impl Kind {
    /// Returns the elements of a product of the program.
    fn new(program: &NativeProgram, product: &Product) -> Self {
        let is_signed = |operand: usize| program.operands[operand].dtype == DType::I8;
        match product.dtype {
            DType::I32 if product.left.operands().into_iter().all(is_signed) => Kind::SignedLeft,
            DType::I32 => Kind::UnsignedLeft,
            DType::F64 => Kind::F64,
            _ => Kind::F32,
        }
    }

    /// Returns the terms of a sum that an element holds.
    fn terms(self) -> usize {
        match self {
            Kind::F32 | Kind::F64 => 1,
            Kind::UnsignedLeft | Kind::SignedLeft => QUAD,
        }
    }

    /// Returns the bytes of an element.
    fn bytes(self) -> usize {
        if self == Kind::F64 { 8 } else { 4 }
    }
}

/// The source of an operand's elements.
enum Side {
    /// A load of this type, as tables of places. `whole` if it reads every element of the operand
    /// once.
    Gathered {
        operand: usize,
        dtype: DType,
        places: Box<Places>,
        whole: bool,
    },
    Computed(Box<Computed>),
}

/// An operand that a program computes, along the reduction.
struct Computed {
    tape: Runner,
    /// The guards. Elements where one fails are 0.
    guards: Lines,
    extents: Vec<usize>,
    batch: Vec<usize>,
    outer: Vec<usize>,
}

impl Contraction {
    /// Prepares a product of the program.
    pub fn new(program: &NativeProgram, product: &Product) -> Self {
        let Product { batch, rows, columns, terms, guards, packs, blocks, .. } = product;
        let kind = Kind::new(program, product);
        let [b, m, n, k] = [batch, rows, columns, terms].map(|axes| program.points(axes));
        let k = k.div_ceil(kind.terms());
        let mut size = Size { batch: b, m, n, k, blocks: *blocks };
        let mut left = Side::new(program, [batch, rows, terms], &product.left, guards);
        let mut right = Side::new(program, [batch, columns, terms], &product.right, guards);
        let mut terms_order = None;
        if let (Side::Gathered { places, .. }, Side::Gathered { places: of_right, .. }) =
            (&mut left, &mut right)
            && kind.terms() == 1
            && let Some((window, _)) = &places.window
        {
            let extents: Vec<usize> = terms.iter().map(|&axis| program.extents[axis]).collect();
            let (order, block) = window.order(&extents);
            size.blocks.terms = block;
            if let Some(order) = order {
                **places = places.reordered(&order);
                **of_right = of_right.reordered(&order);
                terms_order = Some(order);
            }
        }
        let guarded = GuardedTerms::new(program, product, terms_order.as_deref());
        let place = program.place();
        let places = |axes: &[usize]| -> Vec<usize> {
            let mut point = vec![0; program.extents.len()];
            let of_point = |position| {
                locate(&program.extents, axes, position, &mut point);
                place
                    .terms()
                    .iter()
                    .fold(0, |place, (axis, stride)| place + (stride * point[*axis]) as usize)
            };
            (0..program.points(axes)).map(of_point).collect()
        };
        let column_places = places(columns);
        let mut runs = vec![1u32; column_places.len()];
        for i in (0..column_places.len().saturating_sub(1)).rev() {
            runs[i] =
                if column_places[i + 1] == column_places[i] + 1 { runs[i + 1] + 1 } else { 1 };
        }
        let (batch, rows) = (places(batch), places(rows));
        let (operands, packs) = (product.right.operands(), *packs);
        let columns = column_places;
        let run = runs.first().map_or(0, |&run| (run as usize).min(n));
        let are_consecutive = run == n && rows.get(1).is_none_or(|&second| second == n);
        let is_scattered = !are_consecutive && run < FEW_PLACES;
        Self {
            kind,
            size,
            left,
            right,
            guarded,
            operands,
            packs,
            batch,
            rows,
            columns,
            runs,
            is_scattered,
        }
    }

    /// Returns whether the left factor is read through a window.
    #[cfg(test)]
    pub fn has_window(&self) -> bool {
        matches!(&self.left, Side::Gathered { places, .. } if places.window.is_some())
    }

    /// Returns the operands that the right factor reads.
    pub fn right(&self) -> Vec<usize> {
        self.operands.clone()
    }

    /// Returns the operands that the right factor reads, if nothing else reads them.
    pub fn packs(&self) -> Vec<usize> {
        if self.packs { self.operands.clone() } else { Vec::new() }
    }

    /// Returns the operand whose every element the right factor reads once, if there is one.
    pub fn holds(&self) -> Option<usize> {
        match &self.right {
            Side::Gathered { operand, whole: true, .. } if self.kind.terms() == 1 => Some(*operand),
            _ => None,
        }
    }

    /// Restores the bytes of that operand.
    pub fn unpack(&self, packed: &Packed) -> Option<Vec<u8>> {
        let Side::Gathered { places, whole: true, .. } = &self.right else { return None };
        match self.kind {
            Kind::F32 => {
                Some(bytemuck::cast_slice(&packed.unpack::<f32>(self.size, places)).to_vec())
            }
            Kind::F64 => {
                Some(bytemuck::cast_slice(&packed.unpack::<f64>(self.size, places)).to_vec())
            }
            Kind::UnsignedLeft | Kind::SignedLeft => None,
        }
    }

    /// Packs the right operand for any number of runs in which the operands of
    /// [`Contraction::packs`] do not change. The other operands may be empty.
    pub fn pack(&self, launch: Launch, room: Option<Register>) -> Packed {
        let (size, right) = (self.size, &self.right);
        match self.kind {
            Kind::F32 => Packed::new::<f32>(size, &right.bind(launch), room),
            Kind::F64 => Packed::new::<f64>(size, &right.bind(launch), room),
            Kind::UnsignedLeft => Packed::new::<Quad<false>>(size, &right.bind(launch), room),
            Kind::SignedLeft => Packed::new::<Quad<true>>(size, &right.bind(launch), room),
        }
    }

    /// Returns whether so many runs with a packed operand take less time than packing it and
    /// reading it where it is, which few rows do. A run of many rows packs for itself.
    pub fn pays_to_pack(&self, runs: usize) -> bool {
        const FEWEST_RUNS: usize = 16;
        const FEWEST_ROWS: usize = 256;
        runs >= FEWEST_RUNS && runs.saturating_mul(self.size.m) >= FEWEST_ROWS
    }

    /// Returns the bytes that [`Contraction::pack`] takes.
    pub fn packed_bytes(&self) -> u64 {
        self.size.packed_bytes(self.kind.bytes())
    }

    /// Returns the bytes that a run keeps at most.
    pub fn working_bytes(&self, is_packed: bool) -> u64 {
        self.size.working_bytes(self.kind.bytes(), is_packed)
    }

    /// Computes all places.
    pub fn run(&self, job: &Job, packed: Option<&Packed>) {
        match self.kind {
            Kind::F32 => self.multiply::<f32>(job, packed),
            Kind::F64 => self.multiply::<f64>(job, packed),
            Kind::UnsignedLeft => self.multiply::<Quad<false>>(job, packed),
            Kind::SignedLeft => self.multiply::<Quad<true>>(job, packed),
        }
    }

    fn multiply<T: Element>(&self, job: &Job, packed: Option<&Packed>) {
        let left = self.left.bind::<T>(job.launch);
        let right = self.right.bind::<T>(job.launch);
        let right = packed.map_or(Right::Now(&right), Right::Packed);
        let waiting = if self.is_scattered { job.waiting::<T>() } else { None };
        let epilogue =
            Epilogue { job, contraction: self, left: &left, right, waiting, idle: Idle::new() };
        product(self.size, &left, right, &epilogue);
        if let Some(sums) = waiting {
            // SAFETY: the product is over, and has stored the sums of all places.
            unsafe { job.complete_waiting::<T::Sum>(sums) };
        }
    }
}

impl Side {
    /// Creates the operand of a factor. `axes` are its batch, outer and reduction axes.
    /// A term counts only where the `guards` hold.
    fn new(
        program: &NativeProgram,
        axes: [&[usize]; 3],
        factor: &Factor,
        guards: &[Affine],
    ) -> Self {
        match factor {
            Factor::Gathered { address, whole } => {
                let operand = address.operand;
                let dtype = program.operands[operand].dtype;
                let mut places = Box::new(gathered(program, axes, address, guards));
                if dtype.is_half() {
                    // It is widened into packed panels.
                    places.window = None;
                }
                Side::Gathered { operand, dtype, places, whole: *whole }
            }
            Factor::Computed { tape, guards } => {
                let (tape, guards, extents) =
                    (Runner::new((**tape).clone()), guards.clone(), program.extents.clone());
                let [batch, outer, _] = axes.map(<[usize]>::to_vec);
                Side::Computed(Box::new(Computed { tape, guards, extents, batch, outer }))
            }
        }
    }

    fn bind<'a, T: Element>(&'a self, launch: Launch<'a>) -> Bound<'a, T> {
        match self {
            Side::Gathered { operand, dtype, places, .. } => {
                let Operand { bytes, first, .. } = launch.operands[*operand];
                if T::TERMS == QUAD {
                    return Bound::Quads(Quads::new(bytes, first, places, launch.steps));
                }
                if dtype.is_half() {
                    let bits = elements(bytes);
                    return Bound::Halves(Halves::new(*dtype, bits, first, places, launch.steps));
                }
                Bound::Gathered(Gather::new(elements(bytes), first, places, launch.steps))
            }
            Side::Computed(computed) => Bound::Computed { computed, launch },
        }
    }
}

/// A side, bound to the memory of its operands.
enum Bound<'a, T> {
    Gathered(Gather<'a, T>),
    /// A load of 8-bit integers.
    Quads(Quads<'a>),
    /// A load of f16 or bf16.
    Halves(Halves<'a>),
    Computed {
        computed: &'a Computed,
        launch: Launch<'a>,
    },
}

impl<T: Element> Pack<T> for Bound<'_, T> {
    fn layout(&self) -> Layout {
        match self {
            Bound::Gathered(gather) => gather.layout(),
            Bound::Halves(halves) => Pack::<T>::layout(halves),
            Bound::Quads(_) | Bound::Computed { .. } => Layout::KContiguous,
        }
    }

    fn k_step(&self) -> usize {
        match self {
            Bound::Gathered(gather) => gather.k_step(),
            Bound::Quads(quads) => Pack::<T>::k_step(quads),
            Bound::Halves(halves) => Pack::<T>::k_step(halves),
            Bound::Computed { .. } => usize::MAX,
        }
    }

    fn pack(&self, batch: usize, outer: Range<usize>, ks: Range<usize>, panel: Panel<T>) {
        match self {
            Bound::Gathered(gather) => gather.pack(batch, outer, ks, panel),
            Bound::Quads(quads) => quads.pack(batch, outer, ks, panel),
            Bound::Halves(halves) => halves.pack(batch, outer, ks, panel),
            Bound::Computed { computed, launch } => {
                let Panel { data, outer_stride, k_stride } = panel;
                let data = bytemuck::cast_slice_mut::<T, T::Sum>(data);
                computed.pack(*launch, batch, outer, ks, Panel { data, outer_stride, k_stride })
            }
        }
    }

    fn window(&self) -> Option<&Window> {
        match self {
            Bound::Gathered(gather) => gather.window(),
            Bound::Quads(_) | Bound::Halves(_) | Bound::Computed { .. } => None,
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
            Bound::Quads(quads) => quads.view(batch, outer, ks),
            Bound::Halves(_) | Bound::Computed { .. } => None,
        }
    }
}

impl Computed {
    fn pack<T: Number>(
        &self,
        launch: Launch,
        batch: usize,
        outer: Range<usize>,
        ks: Range<usize>,
        panel: Panel<T>,
    ) {
        let mut machine = self.tape.machine(launch);
        let mut counts = [Bool(0); CHUNK];
        locate(&self.extents, &self.batch, batch, &mut machine.walker.point);
        for (row, o) in outer.enumerate() {
            locate(&self.extents, &self.outer, o, &mut machine.walker.point);
            for chunk in self.tape.chunks(ks.clone()) {
                machine.run(chunk.start, chunk.len());
                let all = guards_hold(
                    &self.tape.space,
                    &self.guards,
                    &mut machine.walker,
                    &chunk,
                    &mut counts,
                );
                let values = machine.value::<T>(self.tape.results[0]);
                let to = &mut panel.data
                    [row * panel.outer_stride + (chunk.start - ks.start) * panel.k_stride..];
                if all && panel.k_stride == 1 {
                    to[..values.len()].copy_from_slice(values);
                    continue;
                }
                let to = to.iter_mut().step_by(panel.k_stride).zip(values);
                if all {
                    to.for_each(|(to, x)| *to = *x);
                } else {
                    to.zip(&counts)
                        .for_each(|((to, x), c)| *to = if c.0 != 0 { *x } else { T::default() });
                }
            }
        }
    }
}
