//! The error function by a table that fits the registers of AVX-512.

use super::ROUNDER;
use crate::cpu::vector::lanes::Lanes;
use crate::cpu::vector::register::{F32x16, Vector};

/// The number of pieces of the error function, of a quarter each, and the coefficients of a piece.
const PIECES: usize = 16;
const TERMS: usize = 6;

/// The table of [`erf_by_table`]. Column i has the coefficients, highest power first, of a
/// polynomial in t, from -½ to ½, that interpolates erf(a) at the Chebyshev points, where a = (i +
/// t) / 4. The last row is a multiple of a that is added. It is 0 except in the first piece: there
/// it leaves little for the polynomial, whose coefficients are rounded.
static ERF: std::sync::LazyLock<[[f32; PIECES]; TERMS + 1]> = std::sync::LazyLock::new(|| {
    let mut table = [[0.0; PIECES]; TERMS + 1];
    for i in 0..PIECES {
        let multiple = if i == 0 { 1.125 } else { 0.0 };
        let point = |n: usize| 0.5 * (std::f64::consts::PI * (n as f64 + 0.5) / TERMS as f64).cos();
        let rest = |t: f64| {
            let a = (i as f64 + t) / 4.0;
            libm::erf(a) - multiple * a
        };
        // Newton's divided differences, then the coefficients of the powers of t.
        let mut differences: [f64; TERMS] = std::array::from_fn(|n| rest(point(n)));
        for order in 1..TERMS {
            for n in (order..TERMS).rev() {
                differences[n] =
                    (differences[n] - differences[n - 1]) / (point(n) - point(n - order));
            }
        }
        let mut powers = [0.0; TERMS];
        for n in (0..TERMS).rev() {
            for power in (1..TERMS).rev() {
                powers[power] = powers[power - 1] - point(n) * powers[power];
            }
            powers[0] = differences[n] - point(n) * powers[0];
        }
        if i == 0 {
            powers[0] = 0.0;
        }
        powers
            .iter()
            .rev()
            .chain([&multiple])
            .zip(&mut table)
            .for_each(|(power, row)| row[i] = *power as f32);
    }
    table
});

/// Computes [`erf`] of each register by a table: one of 16 polynomials of degree 5, whose
/// coefficients one instruction looks up.
#[inline(always)]
pub fn erf_by_table(all: &mut [F32x16]) {
    let Some(proof) = all.first().map(|x| x.proof()) else { return };
    // All rows stay in registers.
    let [first, middle @ .., constant, multiple] =
        ERF.each_ref().map(|row| F32x16::from_array(proof, row));
    // Beyond the limit, the nearest float is 1 or the one before it.
    let [one, limit, rounder, four] = [1.0, 3.87, ROUNDER, 4.0].map(|x| F32x16::splat(proof, x));
    for x in all {
        let a = x.abs().min(limit);
        // The low bits of the rounded sum are the number of the piece.
        let piece = rounder.fma(a, four);
        let t = rounder.sub(piece).fma(a, four);
        let mut slope = piece.look_up(first);
        for row in middle {
            slope = piece.look_up(row).fma(slope, t);
        }
        let near = piece.look_up(constant).fma(a, piece.look_up(multiple));
        let near = near.fma(slope, t).min(one);
        *x = one.if_less(limit, x.abs(), near).copysign(*x);
    }
}
