//! Execution of fused epilogues: one pass over the accumulated values of a chunk.

use crate::cpu::vector::level::{self, Level, level};
use tile_compiler::dtype::Scalar;
use tile_compiler::native::Fused;

/// Computes `out` from `x`. The terms are those of the form, each at least as long as `out`.
pub fn apply(fused: &Fused, x: &[f32], terms: [Option<&[f32]>; 4], out: &mut [f32]) {
    let clamps = fused.low.is_some() || fused.high.is_some();
    let form = terms
        .iter()
        .enumerate()
        .fold(usize::from(clamps) << 4, |form, (i, t)| form | usize::from(t.is_some()) << i);
    let n = out.len();
    let x = &x[..n];
    let terms = terms.map(|term| term.map_or(x, |term| &term[..n]));
    let bound =
        |bound: Option<Scalar>, none: f32| bound.map_or(none, |bound| bound.to_f64() as f32);
    let bounds = [bound(fused.low, f32::NEG_INFINITY), bound(fused.high, f32::INFINITY)];
    match level() {
        Level::Baseline => BASELINE[form](x, terms, bounds, out),
        #[cfg(target_arch = "aarch64")]
        Level::Neon(_) => BASELINE[form](x, terms, bounds, out),
        // SAFETY: the proof says that the processor has the features of these functions.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2(_) => unsafe { AVX2[form](x, terms, bounds, out) },
        // SAFETY: the proof says that the processor has the features of these functions.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512(_) => unsafe { AVX512[form](x, terms, bounds, out) },
    }
}

/// An instance of [`pass`], compiled for any processor.
type Pass = fn(x: &[f32], terms: [&[f32]; 4], bounds: [f32; 2], out: &mut [f32]);

/// An instance of [`pass`], compiled for an instruction set.
///
/// # Safety
/// - The processor must have that instruction set.
#[cfg(target_arch = "x86_64")]
type PassOf = unsafe fn(x: &[f32], terms: [&[f32]; 4], bounds: [f32; 2], out: &mut [f32]);

/// One pass. The bits of `FORM` say which terms there are, and the fifth bit whether there are
/// bounds. All slices have at least the length of `out`.
#[inline(always)]
fn pass<const FORM: usize>(
    x: &[f32],
    [a, s, t, u]: [&[f32]; 4],
    [low, high]: [f32; 2],
    out: &mut [f32],
) {
    let n = out.len();
    let (x, a, s, t, u) = (&x[..n], &a[..n], &s[..n], &t[..n], &u[..n]);
    for i in 0..n {
        let mut y = x[i];
        if FORM & 1 != 0 {
            y += a[i];
        }
        if FORM & 2 != 0 {
            y *= s[i];
        }
        if FORM & 4 != 0 {
            y += t[i];
        }
        if FORM & 8 != 0 {
            y += u[i];
        }
        if FORM & 16 != 0 {
            y = if y < low { low } else { y };
            y = if high < y { high } else { y };
        }
        out[i] = y;
    }
}

macro_rules! passes {
    ($run:ident) => {
        [
            $run::<0>, $run::<1>, $run::<2>, $run::<3>, $run::<4>, $run::<5>, $run::<6>, $run::<7>,
            $run::<8>, $run::<9>, $run::<10>, $run::<11>, $run::<12>, $run::<13>, $run::<14>,
            $run::<15>, $run::<16>, $run::<17>, $run::<18>, $run::<19>, $run::<20>, $run::<21>,
            $run::<22>, $run::<23>, $run::<24>, $run::<25>, $run::<26>, $run::<27>, $run::<28>,
            $run::<29>, $run::<30>, $run::<31>,
        ]
    };
}

static BASELINE: [Pass; 32] = passes!(pass);

#[cfg(target_arch = "x86_64")]
level::avx2! {
    fn avx2<const FORM: usize>(x: &[f32], terms: [&[f32]; 4], bounds: [f32; 2], out: &mut [f32]) {
        pass::<FORM>(x, terms, bounds, out)
    }
}

#[cfg(target_arch = "x86_64")]
level::avx512! {
    fn avx512<const FORM: usize>(x: &[f32], terms: [&[f32]; 4], bounds: [f32; 2], out: &mut [f32]) {
        pass::<FORM>(x, terms, bounds, out)
    }
}

#[cfg(target_arch = "x86_64")]
static AVX2: [PassOf; 32] = passes!(avx2);
#[cfg(target_arch = "x86_64")]
static AVX512: [PassOf; 32] = passes!(avx512);
