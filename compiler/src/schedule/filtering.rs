//! The matrices of Winograd's minimal filtering.
//!
//! A polynomial of degree `side - 1` is determined by its values at `side - 1` points and its
//! leading coefficient ("at infinity"). A product of polynomials of `taps` and `tile` coefficients
//! therefore takes `side = taps + tile - 1` multiplications, and so does its transposition, which
//! computes `tile` sums of `taps` terms each, from `side` neighbours. At point p of the others q:
//!
//! ```text
//! kernel  p^i / Π (p - q)              at infinity: the last tap
//! image   coefficients of Π (x - q)    at infinity: those of Π (x - p), over all points
//! result  p^y                          at infinity: 1 for the last result
//! ```
//!
//! Each transform rounds. The error grows with the points' distance from 1 and with their closeness
//! to each other: with 0, ±5/8 and ±3/2 it is less than half of that with the usual 0, ±1 and ±2.

use crate::dtype::Scalar;

/// The matrices of one side of a tile, row by row.
pub(super) struct Filtering {
    /// `side` rows of `taps`.
    pub kernel: Vec<Scalar>,
    /// `side` rows of `side`.
    pub image: Vec<Scalar>,
    /// `tile` rows of `side`.
    pub result: Vec<Scalar>,
}

impl Filtering {
    /// Returns the matrices for tiles with this side, and windows with this number of taps. Their
    /// sum is 5 or 7.
    pub fn new(taps: usize, tile: usize) -> Filtering {
        let side = taps + tile - 1;
        let points: &[f64] =
            if side == 4 { &[0.0, 1.0, -1.0] } else { &[0.0, 0.625, -0.625, 1.5, -1.5] };
        let others = |number: usize| {
            points.iter().enumerate().filter(move |(n, _)| *n != number).map(|(_, q)| *q)
        };
        let at_infinity = |length: usize, row: usize| f64::from(row + 1 == length);
        let mut kernel = Vec::new();
        let mut image = Vec::new();
        for (number, &p) in points.iter().enumerate() {
            let distance: f64 = others(number).map(|q| p - q).product();
            kernel.extend((0..taps).map(|tap| p.powi(tap as i32) / distance));
            image.extend(coefficients(others(number), side));
        }
        kernel.extend((0..taps).map(|tap| at_infinity(taps, tap)));
        image.extend(coefficients(points.iter().copied(), side));
        let row =
            |y: usize| points.iter().map(move |p| p.powi(y as i32)).chain([at_infinity(tile, y)]);
        let result = (0..tile).flat_map(row);
        let scalars =
            |values: Vec<f64>| values.into_iter().map(|value| Scalar::f32(value as f32)).collect();
        Filtering {
            kernel: scalars(kernel),
            image: scalars(image),
            result: scalars(result.collect()),
        }
    }
}

/// Returns so many coefficients of the product of `x - root` over the roots, the constant first.
fn coefficients(roots: impl Iterator<Item = f64>, count: usize) -> Vec<f64> {
    let mut all = vec![0.0; count];
    all[0] = 1.0;
    for root in roots {
        for power in (0..count).rev() {
            let below = if power == 0 { 0.0 } else { all[power - 1] };
            all[power] = below - root * all[power];
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn filtering_is_correlation(
            (taps, tile) in prop::sample::select(vec![(3, 2), (3, 4), (5, 2)]),
            numbers in prop::array::uniform16(-8i8..=8),
        ) {
            let side = taps + tile - 1;
            let Filtering { kernel, image, result } = Filtering::new(taps, tile);
            let numbers = numbers.map(f64::from);
            let (kernel_taps, pixels) = (&numbers[..taps], &numbers[taps..taps + side]);
            let times = |matrix: &[Scalar], vector: &[f64]| -> Vec<f64> {
                let row = |row: &[Scalar]| row.iter().zip(vector).map(|(m, v)| m.to_f64() * v).sum();
                matrix.chunks(vector.len()).map(row).collect()
            };
            let (u, v) = (times(&kernel, kernel_taps), times(&image, pixels));
            let points: Vec<f64> = u.iter().zip(&v).map(|(u, v)| u * v).collect();
            for (y, sum) in times(&result, &points).into_iter().enumerate() {
                let direct: f64 = (0..taps).map(|tap| kernel_taps[tap] * pixels[y + tap]).sum();
                // The matrices are rounded to f32.
                prop_assert!((sum - direct).abs() < 1e-3, "{sum} is not {direct}");
            }
        }
    }
}
