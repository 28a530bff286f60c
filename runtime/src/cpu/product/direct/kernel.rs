//! The kernels: `out[t][v] (op)= Σ over taps of x[tap][t][v] · w[tap][v]`, for a tile of `T` rows ×
//! `U` vectors in registers.
//!
//! A tap is one point of the reduction: an offset into each operand. `x` moves with the rows, `w`
//! is the same for all of them. Each is a vector along `v`, or one number for all of `v`, or x one
//! number for each group of columns. A vector of x alone may be of every second element.

use crate::cpu::loops::fused::Finish;
#[cfg(test)]
use crate::cpu::vector::emulated::Emulated;
use crate::cpu::vector::lanes::{Lanes, MOST_LANES};
use crate::cpu::vector::level::{self, Level, level};
use crate::cpu::vector::register::{Portable, Vector};
use tile_compiler::native::Form;

/// The offsets of one tap into x and w.
pub type Tap = [isize; 2];

/// The addresses that a kernel reads and writes.
#[derive(Clone, Copy)]
pub struct Addresses<'a> {
    pub x: *const f32,
    /// The elements between rows of x.
    pub x_step: isize,
    /// For [`Form::OfGroups`], the elements from x to the number of each column, and the number of
    /// elements in which these are.
    pub groups: &'a [i32; MOST_LANES],
    pub span: usize,
    /// Unused by forms with one operand.
    pub w: *const f32,
    pub out: *mut f32,
    pub out_step: usize,
    /// The places from the epilogue's tile to this one, in whole rows of the nest.
    pub after: usize,
}

/// A kernel for one tile of rows × vectors. `first` overwrites the tile with the aggregate of the
/// taps; otherwise that is combined with the tile. If there is an epilogue, it is applied to the
/// result.
///
/// # Safety
/// For a kernel of T rows and N columns:
/// - x: at each tap and in each row, N elements must be readable: one for [`Form::OfNumber`],
///   `span` for [`Form::OfGroups`], and 2 N - 1 for kernels of every second element.
/// - groups: for [`Form::OfGroups`], the first N must be at least 0 and less than `span`, which
///   must be at most [`Kernels::most_span`].
/// - w: at each tap, N elements must be readable (one for [`Form::ByNumber`], none for forms with
///   one operand).
/// - out: T rows of N elements must be writable, and also readable unless `first`.
/// - terms: T rows of N elements must be readable, and not overlap those of `out`.
/// - Instructions: the kernel must be one of [`kernels`].
pub type Kernel = unsafe fn(taps: &[Tap], place: Addresses, first: bool, finish: Option<&Finish>);

/// The kernels of one instruction set, which the processor has.
#[derive(Clone, Copy)]
pub struct Kernels {
    pub lanes: usize,
    /// The most rows × vectors whose sums fit into the registers.
    pub most_sums: usize,
    /// The most elements in which the numbers of a vector's groups may be.
    pub most_span: usize,
    /// The kernels: `table[form][log2 of rows][log2 of vectors]`. After those of each form follow
    /// those of [`Form::Sum`], [`Form::Max`] and [`Form::Min`] of every second element.
    table: [[[Kernel; 3]; 4]; 10],
}

impl Kernels {
    /// Returns the kernel of 1, 2, 4 or 8 rows and 1, 2 or 4 vectors, at most
    /// [`Kernels::most_sums`] together and one vector for [`Form::OfGroups`]. `apart` takes every
    /// second element, for forms of x alone.
    pub fn get(&self, form: Form, apart: bool, rows: usize, vectors: usize) -> Kernel {
        let form = form as usize + if apart { (SUM_APART - SUM).into() } else { 0 };
        self.table[form][rows.ilog2() as usize][vectors.ilog2() as usize]
    }
}

/// How many taps ahead rows of w are prefetched.
const AHEAD: usize = 8;

const PRODUCTS: u8 = Form::Products as u8;
const BY_NUMBER: u8 = Form::ByNumber as u8;
const OF_NUMBER: u8 = Form::OfNumber as u8;
const OF_GROUPS: u8 = Form::OfGroups as u8;
const SUM: u8 = Form::Sum as u8;
const MAX: u8 = Form::Max as u8;
const MIN: u8 = Form::Min as u8;
// The forms of every second element.
const SUM_APART: u8 = SUM + 3;
const MAX_APART: u8 = MAX + 3;
const MIN_APART: u8 = MIN + 3;

/// Returns the aggregate of no values.
const fn identity(form: u8) -> f32 {
    match form {
        MAX | MAX_APART => f32::NEG_INFINITY,
        MIN | MIN_APART => f32::INFINITY,
        _ => 0.0,
    }
}

/// The body of every kernel, of T rows and U vectors.
///
/// # Safety
/// The contract of [`Kernel`].
#[inline(always)]
unsafe fn body<V: Lanes, const FORM: u8, const T: usize, const U: usize>(
    proof: V::Proof,
    taps: &[Tap],
    place: Addresses,
    first: bool,
    finish: Option<&Finish>,
) {
    let Addresses { x, x_step, groups, span, w, out, out_step, after } = place;
    // SAFETY: the caller guarantees that the elements at all taps are readable, and that the tile
    // is accessible.
    unsafe {
        let combine = |a: V, b: V| match FORM {
            MAX | MAX_APART => a.max(b),
            MIN | MIN_APART => a.min(b),
            _ => a.add(b),
        };
        // A maximum ignores NaN, even as its first value.
        let mut sums = [[V::splat(proof, identity(FORM)); U]; T];
        for (number, &[to_x, to_w]) in taps.iter().enumerate() {
            // A row of w that is read for a single row of x comes from memory, in steps that
            // processors do not foresee.
            if FORM == OF_NUMBER
                && T == 1
                && let Some([_, to_w]) = taps.get(number + AHEAD)
            {
                for u in 0..U {
                    V::prefetch(w.wrapping_offset(*to_w).wrapping_add(u * V::LANES));
                }
            }
            let (x, w) = (x.offset(to_x), w.wrapping_offset(to_w));
            let mut ws = [V::splat(proof, 0.0); U];
            match FORM {
                PRODUCTS | OF_NUMBER | OF_GROUPS => ws
                    .iter_mut()
                    .enumerate()
                    .for_each(|(u, to)| *to = V::load(proof, w.add(u * V::LANES))),
                BY_NUMBER => ws = [V::splat(proof, *w); U],
                _ => {}
            }
            for (t, sums) in sums.iter_mut().enumerate() {
                let x = x.offset(t as isize * x_step);
                let number_x =
                    if FORM == OF_NUMBER { V::splat(proof, *x) } else { V::splat(proof, 0.0) };
                for (u, sum) in sums.iter_mut().enumerate() {
                    let x = match FORM {
                        OF_NUMBER => number_x,
                        OF_GROUPS => V::pick(proof, x, groups, span),
                        SUM_APART | MAX_APART | MIN_APART => {
                            V::load_apart(proof, x.add(u * 2 * V::LANES))
                        }
                        _ => V::load(proof, x.add(u * V::LANES)),
                    };
                    *sum = match FORM {
                        PRODUCTS | BY_NUMBER | OF_NUMBER | OF_GROUPS => sum.fma(x, ws[u]),
                        SUM | SUM_APART if number == 0 => x,
                        _ => combine(*sum, x),
                    };
                }
            }
        }
        if !first {
            for (t, sums) in sums.iter_mut().enumerate() {
                for (u, sum) in sums.iter_mut().enumerate() {
                    *sum = combine(V::load(proof, out.add(t * out_step + u * V::LANES)), *sum);
                }
            }
        }
        if let Some(finish) = finish {
            finish.of_sums(&mut sums, [0, after], None);
        }
        for (t, sums) in sums.iter().enumerate() {
            for (u, sum) in sums.iter().enumerate() {
                sum.store(out.add(t * out_step + u * V::LANES));
            }
        }
    }
}

/// Lists the kernels `$run` over vector `$v`, with 8 or 16 sums in registers.
macro_rules! kernels {
    // The most vectors of 4 rows and of 8 rows follow from the sums.
    ($run:ident, $v:ty, 8) => {
        kernels!(@all $run, $v, 8, 2, 1)
    };
    ($run:ident, $v:ty, 16) => {
        kernels!(@all $run, $v, 16, 4, 2)
    };
    (@all $run:ident, $v:ty, $sums:literal, $of_4:literal, $of_8:literal) => {
        Kernels {
            lanes: <$v as Vector>::LANES,
            most_sums: $sums,
            most_span: <$v as Lanes>::MOST_SPAN,
            table: [
                kernels!(@form $run, $v, { Form::Products as u8 }, 2, 4, $of_4, $of_8),
                kernels!(@form $run, $v, { Form::ByNumber as u8 }, 2, 4, $of_4, $of_8),
                kernels!(@form $run, $v, { Form::OfNumber as u8 }, 2, 4, $of_4, $of_8),
                kernels!(@form $run, $v, { Form::OfGroups as u8 }, 1, 1, 1, 1),
                kernels!(@form $run, $v, { Form::Sum as u8 }, 2, 4, $of_4, $of_8),
                kernels!(@form $run, $v, { Form::Max as u8 }, 2, 4, $of_4, $of_8),
                kernels!(@form $run, $v, { Form::Min as u8 }, 2, 4, $of_4, $of_8),
                kernels!(@form $run, $v, { SUM_APART }, 2, 4, $of_4, $of_8),
                kernels!(@form $run, $v, { MAX_APART }, 2, 4, $of_4, $of_8),
                kernels!(@form $run, $v, { MIN_APART }, 2, 4, $of_4, $of_8),
            ],
        }
    };
    (
        @form $run:ident, $v:ty, $form:tt,
        $b:literal, $c:literal, $of_4:literal, $of_8:literal
    ) => {
        [
            [$run::<$v, $form, 1, 1>, $run::<$v, $form, 1, $b>, $run::<$v, $form, 1, $c>],
            [$run::<$v, $form, 2, 1>, $run::<$v, $form, 2, $b>, $run::<$v, $form, 2, $c>],
            [$run::<$v, $form, 4, 1>, $run::<$v, $form, 4, $b>, $run::<$v, $form, 4, $of_4>],
            [$run::<$v, $form, 8, 1>, $run::<$v, $form, 8, $of_8>, $run::<$v, $form, 8, $of_8>],
        ]
    };
}

/// Defines a function that compiles [`body`] with the features that a proof needs.
macro_rules! compiled {
    ($run:ident, $enable:ident, $proof:ty, $here:expr) => {
        level::$enable! {
            /// # Safety
            /// The contract of [`Kernel`].
            unsafe fn $run<
                V: Lanes<Proof = $proof>,
                const FORM: u8,
                const T: usize,
                const U: usize,
            >(
                taps: &[Tap],
                place: Addresses,
                first: bool,
                finish: Option<&Finish>,
            ) {
                // SAFETY: the contract is the same.
                unsafe { body::<V, FORM, T, U>($here, taps, place, first, finish) }
            }
        }
    };
}
compiled!(portable, baseline, (), ());

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use crate::cpu::vector::register::{F32x8, F32x16};
    use crate::cpu::vector::{Avx2, Avx512};
    compiled!(avx512, avx512, Avx512, Avx512::here());
    compiled!(avx2, avx2, Avx2, Avx2::here());
    pub const AVX512: Kernels = kernels!(avx512, F32x16, 16);
    pub const AVX2: Kernels = kernels!(avx2, F32x8, 8);
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::*;
    use crate::cpu::vector::Neon;
    use crate::cpu::vector::register::F32x4;
    compiled!(neon, neon, Neon, Neon::here());
    pub const NEON: Kernels = kernels!(neon, F32x4, 16);
}

const SCALAR: Kernels = kernels!(portable, Portable<f32, 1>, 8);
const PORTABLE: Kernels = kernels!(portable, Portable<f32, 4>, 8);
#[cfg(test)]
const PORTABLE8: Kernels = kernels!(portable, Portable<f32, 8>, 8);
#[cfg(test)]
const PORTABLE16: Kernels = kernels!(portable, Portable<f32, 16>, 16);

/// Returns the kernels of this machine, those with the widest vectors first.
fn available() -> &'static [Kernels] {
    #[cfg(test)]
    if let Some(set) = Emulated::current() {
        return match set {
            Emulated::Avx512 => const { &[PORTABLE16, PORTABLE8, PORTABLE, SCALAR] },
            Emulated::Avx2 => const { &[PORTABLE8, PORTABLE, SCALAR] },
            _ => const { &[PORTABLE, SCALAR] },
        };
    }
    match level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512(_) => const { &[x86::AVX512, x86::AVX2, PORTABLE, SCALAR] },
        #[cfg(target_arch = "x86_64")]
        Level::Avx2(_) => const { &[x86::AVX2, PORTABLE, SCALAR] },
        #[cfg(target_arch = "aarch64")]
        Level::Neon(_) => const { &[arm::NEON, SCALAR] },
        _ => const { &[PORTABLE, SCALAR] },
    }
}

/// Returns the kernels for rows of this length, at least 1: the widest of this machine whose vector
/// is no longer than such a row.
pub fn kernels(length: usize) -> &'static Kernels {
    group_kernels(length, |_| 0)
}

/// Returns the kernels for rows of this length that can read the groups of a vector. `span` returns
/// the elements in which these are, for a number of lanes.
pub fn group_kernels(length: usize, span: impl Fn(usize) -> usize) -> &'static Kernels {
    let reads =
        |kernels: &&Kernels| kernels.lanes <= length && span(kernels.lanes) <= kernels.most_span;
    available().iter().find(reads).unwrap_or(const { &SCALAR })
}
