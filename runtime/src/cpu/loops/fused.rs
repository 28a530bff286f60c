//! Execution of fused epilogues: one pass over accumulated values, in tiles of rows × columns.

use super::job::Job;
use super::machine::Machine;
use crate::cpu::vector::lanes::Lanes;
use crate::cpu::vector::level::{self, Level, level};
use crate::cpu::vector::register::Portable;
use tile_compiler::dtype::Scalar;
use tile_compiler::native::{self, Fused};

/// A nest's epilogue of the fused form, and the output that its results go to.
pub struct FusedEpilogue<'a> {
    /// The output's element of place 0.
    pub out: *mut f32,
    terms: [Option<Elements<'a>>; 4],
    low: f32,
    high: f32,
}

/// The elements of an operand, which repeat after `period` places.
#[derive(Clone, Copy)]
struct Elements<'a> {
    elements: &'a [f32],
    period: Option<usize>,
}

/// The epilogue at a tile: `min(max(((sum + a) · s + t) + u, low), high)`, as in [`Fused`].
#[derive(Clone, Copy)]
pub struct Finish {
    /// a, s, t and u.
    terms: [Option<Term>; 4],
    low: f32,
    high: f32,
}

/// An operand of an epilogue: its element at the first place of a tile, and the elements between
/// rows.
#[derive(Clone, Copy)]
struct Term {
    start: *const f32,
    step: usize,
}

impl<'a> FusedEpilogue<'a> {
    /// Returns whether [`FusedEpilogue::new`] may be called for tiles with rows of at most
    /// `columns` places that are `step` places apart: the job's epilogue has this form, repeats
    /// after `step` places, and is the only access to the output.
    pub fn suits(job: &Job, step: usize, columns: usize) -> bool {
        let Some((fused, _)) = job.fused() else { return false };
        fused.terms.iter().flatten().all(|term| match *term {
            native::Term::Kept { register, period } => {
                let room = job.epilogue.registers[register] / size_of::<f32>();
                step.is_multiple_of(period) && room + 1 >= period + columns
            }
            native::Term::AtPlace(operand) => {
                let operand = &job.launch.operands[operand];
                let is_plain = operand.over().is_none() && operand.first == 0;
                is_plain && operand.bytes.len() / size_of::<f32>() >= job.program.places()
            }
        })
    }

    /// Returns the epilogue with the operands that a thread's machine has.
    pub fn new(job: &Job<'a>, machine: &'a Machine) -> Option<Self> {
        let (&Fused { terms, low, high }, out) = job.fused()?;
        let terms = terms.map(|term| {
            term.map(|term| match term {
                native::Term::Kept { register, period } => {
                    Elements { elements: machine.kept(register), period: Some(period) }
                }
                native::Term::AtPlace(operand) => {
                    Elements { elements: job.launch.operands[operand].after(0), period: None }
                }
            })
        });
        let [low, high] = bounds(low, high);
        Some(Self { out, terms, low, high })
    }

    /// Returns whether rows that are so many places apart have the same elements of each operand
    /// that repeats.
    pub fn repeats_after(&self, step: usize) -> bool {
        let mut periods = self.terms.iter().flatten().filter_map(|term| term.period);
        periods.all(|period| step.is_multiple_of(period))
    }

    /// Returns the epilogue at a tile that begins at a place, with rows that are `step` places
    /// apart, after which it repeats, or with one row.
    pub fn at(&self, place: usize, step: usize) -> Finish {
        let terms = self.terms.map(|term| {
            term.map(|Elements { elements, period }| match period {
                Some(period) => Term { start: elements[place % period..].as_ptr(), step: 0 },
                None => Term { start: elements[place..].as_ptr(), step },
            })
        });
        Finish { terms, low: self.low, high: self.high }
    }

    /// Stores the results of a tile of rows × columns, from its sums. The first is at a place, and
    /// rows are `step` places apart, after which the epilogue repeats. With one row, `step` is
    /// ignored.
    ///
    /// # Safety
    /// - The sums must be readable for the tile.
    /// - All places must be those of the nest, and nobody else may compute them.
    pub unsafe fn finish(
        &self,
        place: usize,
        step: usize,
        tile: [usize; 2],
        sums: Rows<*const f32>,
    ) {
        let out = Rows { start: self.out.wrapping_add(place), step };
        // SAFETY: the caller guarantees the sums, and places of the nest, for which operands have
        // elements: those that repeat have some for a whole row after each place ([`Self::suits`]).
        // Outputs are other memory than operands.
        unsafe { self.at(place, step).apply(tile, sums, out) }
    }
}

fn bounds(low: Option<Scalar>, high: Option<Scalar>) -> [f32; 2] {
    let bound =
        |bound: Option<Scalar>, none: f32| bound.map_or(none, |bound| bound.to_f64() as f32);
    [bound(low, f32::NEG_INFINITY), bound(high, f32::INFINITY)]
}

/// Computes `out` from `x`, consecutive places. The terms are those of the form, each at least as
/// long as `out`.
pub fn apply(fused: &Fused, x: &[f32], terms: [Option<&[f32]>; 4], out: &mut [f32]) {
    let columns = out.len();
    let x = Rows { start: x[..columns].as_ptr(), step: 0 };
    let term = |term: &[f32]| Term { start: term[..columns].as_ptr(), step: 0 };
    let [low, high] = bounds(fused.low, fused.high);
    let finish = Finish { terms: terms.map(|terms| terms.map(term)), low, high };
    let out = Rows { start: out.as_mut_ptr(), step: 0 };
    // SAFETY: all have `columns` elements. `out` is borrowed alone.
    unsafe { finish.apply([1, columns], x, out) }
}

/// Rows of elements: the first of the first row, and the elements from one row to the next.
#[derive(Clone, Copy)]
pub struct Rows<P> {
    pub start: P,
    pub step: usize,
}

impl Finish {
    /// Returns the epilogue at a row of the tile.
    #[inline(always)]
    fn at_row(&self, row: usize) -> Self {
        let [a, s, t, u] = self.terms;
        let at = |term: Option<Term>| {
            term.map(|Term { start, step }| Term { start: start.wrapping_add(row * step), step })
        };
        Self { terms: [at(a), at(s), at(t), at(u)], ..*self }
    }

    /// Computes `out`, a tile of rows × columns, from the sums `x`.
    ///
    /// # Safety
    /// - The elements of `x` and of each term must be readable for the tile.
    /// - Those of `out` must be writable, and not overlap others unless they are those of `x`.
    pub unsafe fn apply(&self, tile: [usize; 2], x: Rows<*const f32>, out: Rows<*mut f32>) {
        // SAFETY: the contract is the same. The levels say that the processor has the features of
        // these functions.
        unsafe {
            match level() {
                Level::Baseline => baseline::<Portable<f32, 4>>(self, tile, x, out),
                #[cfg(target_arch = "aarch64")]
                Level::Neon(_) => neon::<crate::cpu::vector::register::F32x4>(self, tile, x, out),
                #[cfg(target_arch = "x86_64")]
                Level::Avx2(_) => avx2::<crate::cpu::vector::register::F32x8>(self, tile, x, out),
                #[cfg(target_arch = "x86_64")]
                Level::Avx512(_) => {
                    avx512::<crate::cpu::vector::register::F32x16>(self, tile, x, out)
                }
            }
        }
    }

    /// Applies the epilogue to the sums of T rows × U vectors. They are `column` columns and
    /// `after` places, in whole rows, after the tile's start; operands that repeat in each row move
    /// by the columns alone. Of a vector with only a part, the first elements count.
    ///
    /// # Safety
    /// - The elements of each term must be readable there.
    #[inline(always)]
    pub unsafe fn of_sums<V: Lanes, const T: usize, const U: usize>(
        &self,
        sums: &mut [[V; U]; T],
        [column, after]: [usize; 2],
        part: Option<usize>,
    ) {
        let ([a, s, t, u], proof) = (self.terms, sums[0][0].proof());
        // A loop over the terms would keep the sums in memory.
        macro_rules! apply {
            ($term:expr, $op:ident) => {
                if let Some(Term { start, step }) = $term {
                    let column = if step > 0 { column + after } else { column };
                    for (t, sums) in sums.iter_mut().enumerate() {
                        for (u, sum) in sums.iter_mut().enumerate() {
                            let at = column + t * step + u * V::LANES;
                            let at = start.wrapping_add(at);
                            // SAFETY: the caller guarantees that the elements are readable.
                            let term = unsafe { load::<V>(proof, at, part) };
                            *sum = sum.$op(term);
                        }
                    }
                }
            };
        }
        apply!(a, add);
        apply!(s, mul);
        apply!(t, add);
        apply!(u, add);
        let (low, high) = (V::splat(proof, self.low), V::splat(proof, self.high));
        // Tests whether there are bounds would make the code of each kernel several times as long.
        for sums in sums {
            for sum in sums {
                *sum = sum.max(low).min(high);
            }
        }
    }
}

/// Loads a vector, or its first elements.
///
/// # Safety
/// - They must be readable.
#[inline(always)]
unsafe fn load<V: Lanes>(proof: V::Proof, p: *const f32, part: Option<usize>) -> V {
    // SAFETY: the contract is the same.
    unsafe {
        match part {
            Some(length) => V::load_part(proof, p, length),
            None => V::load(proof, p),
        }
    }
}

/// The body of [`Finish::apply`].
///
/// # Safety
/// The contract of [`Finish::apply`].
#[inline(always)]
unsafe fn body<V: Lanes>(
    proof: V::Proof,
    finish: &Finish,
    [rows, columns]: [usize; 2],
    x: Rows<*const f32>,
    out: Rows<*mut f32>,
) {
    for row in 0..rows {
        let finish = finish.at_row(row);
        let (x, out) = (x.start.wrapping_add(row * x.step), out.start.wrapping_add(row * out.step));
        let mut column = 0;
        // SAFETY: the caller guarantees that all elements of the rows are accessible. None beyond
        // `columns` is accessed.
        unsafe {
            macro_rules! vectors {
                ($count:expr, $part:expr) => {{
                    let mut sums = [[V::splat(proof, 0.0); $count]; 1];
                    for (u, sum) in sums[0].iter_mut().enumerate() {
                        *sum = load::<V>(proof, x.add(column + u * V::LANES), $part);
                    }
                    finish.of_sums(&mut sums, [column, 0], $part);
                    for (u, sum) in sums[0].iter().enumerate() {
                        let out = out.add(column + u * V::LANES);
                        match $part {
                            Some(length) => sum.store_part(out, length),
                            None => sum.store(out),
                        }
                    }
                }};
            }
            while column + 2 * V::LANES <= columns {
                vectors!(2, None::<usize>);
                column += 2 * V::LANES;
            }
            if column + V::LANES <= columns {
                vectors!(1, None::<usize>);
                column += V::LANES;
            }
            if column < columns {
                vectors!(1, Some(columns - column));
            }
        }
    }
}

/// Defines a function that compiles [`body`] with the features that a proof needs.
macro_rules! compiled {
    ($run:ident, $proof:ty, $here:expr) => {
        level::$run! {
            /// # Safety
            /// The contract of [`Finish::apply`].
            unsafe fn $run<V: Lanes<Proof = $proof>>(
                finish: &Finish,
                tile: [usize; 2],
                x: Rows<*const f32>,
                out: Rows<*mut f32>,
            ) {
                // SAFETY: the contract is the same.
                unsafe { body::<V>($here, finish, tile, x, out) }
            }
        }
    };
}
compiled!(baseline, (), ());
#[cfg(target_arch = "x86_64")]
compiled!(avx512, crate::cpu::vector::Avx512, crate::cpu::vector::Avx512::here());
#[cfg(target_arch = "x86_64")]
compiled!(avx2, crate::cpu::vector::Avx2, crate::cpu::vector::Avx2::here());
#[cfg(target_arch = "aarch64")]
compiled!(neon, crate::cpu::vector::Neon, crate::cpu::vector::Neon::here());
