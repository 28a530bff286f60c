//! Elementary functions of f32 that compile to vector code: straight-line, no calls, no table.
//!
//! `FUSED` says whether the processor multiplies and adds in one operation.
//!
//! Always true: NaN gives NaN. Errors are at most 2 units in the last place, as the tests measure against f64.

/// `a * b + c`, rounded once if `FUSED`.
#[inline(always)]
fn fma<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// The polynomial in `x` of these coefficients, the one of the highest power first.
#[inline(always)]
fn polynomial<const FUSED: bool, const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    coefficients.into_iter().reduce(|sum, next| fma::<FUSED>(sum, x, next)).unwrap_or(0.0)
}

/// `x` between the bounds; NaN stays.
#[inline(always)]
fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// 2ⁿ for n in -126..=127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}

/// Adding this to a float of magnitude below 2²² leaves its nearest integer in the low bits.
const ROUNDER: f32 = 12_582_912.0; // 1.5 · 2²³

/// `x = n ln 2 + r` with |r| ≤ ln 2 / 2; ln 2 in two parts, the first short enough for exact multiples.
#[inline(always)]
fn reduce<const FUSED: bool>(x: f32) -> (i32, f32) {
    let shifted = fma::<FUSED>(x, std::f32::consts::LOG2_E, ROUNDER);
    let n = shifted - ROUNDER;
    let r = fma::<FUSED>(n, 2.121_944_4e-4, fma::<FUSED>(n, -0.693_359_4, x));
    (shifted.to_bits().wrapping_sub(ROUNDER.to_bits()) as i32, r)
}

/// eˣ.
#[inline(always)]
pub fn exp<const FUSED: bool>(x: f32) -> f32 {
    // Beyond these the result is 0 or infinity whatever x is.
    let (n, r) = reduce::<FUSED>(clamp(x, -104.0, 89.0));
    // exp(r) - 1 - r by Taylor's series.
    let tail = polynomial::<FUSED, _>(r, [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5]);
    // In two steps, so that subnormal results are rounded once and the largest do not overflow early.
    let half = n >> 1;
    (1.0 + fma::<FUSED>(r * r, tail, r)) * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// ln x.
#[inline(always)]
pub fn log<const FUSED: bool>(x: f32) -> f32 {
    const SQRT_HALF: u32 = 0x3f35_04f3;
    let tiny = x < f32::MIN_POSITIVE;
    let bits = (if tiny { x * 8_388_608.0 } else { x }).to_bits().wrapping_sub(SQRT_HALF);
    let e = ((bits as i32) >> 23) as f32 - if tiny { 23.0 } else { 0.0 };
    // x = 2ᵉ (1 + f) with 1 + f in √½..√2; ln(1 + f) = 2 artanh(s).
    let f = f32::from_bits((bits & 0x007f_ffff).wrapping_add(SQRT_HALF)) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let series = z * polynomial::<FUSED, _>(z, [2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0]);
    let half_square = 0.5 * f * f;
    let near = e * 0.693_359_4 + (f - (half_square - (s * (half_square + series) + e * -2.121_944_4e-4)));
    let result = if x == f32::INFINITY { x } else { near };
    let result = if x == 0.0 { f32::NEG_INFINITY } else { result };
    if x >= 0.0 { result } else { f32::NAN }
}

/// The hyperbolic tangent.
#[inline(always)]
pub fn tanh<const FUSED: bool>(x: f32) -> f32 {
    let a = x.abs();
    // Below 0.55: a polynomial in x² fitted to (tanh(x) / x - 1) / x².
    let z = x * x;
    let p = polynomial::<FUSED, _>(z, [-0.006_615_756, 0.021_312_745, -0.053_910_066, 0.133_331_18, -0.333_333_3]);
    let small = fma::<FUSED>(x, z * p, x);
    let large = (1.0 - 2.0 / (exp::<FUSED>(a + a) + 1.0)).copysign(x);
    if a < 0.55 { small } else { large }
}

/// The error function.
#[inline(always)]
pub fn erf<const FUSED: bool>(x: f32) -> f32 {
    let a = x.abs();
    // Below 1: x times a polynomial in x² fitted to erf(x) / x.
    let z = x * x;
    let p = polynomial::<FUSED, _>(
        z,
        [7.882_497e-5, -8.018_855e-4, 0.005_189_312, -0.026_854_329, 0.112_835_97, -0.376_126_27, 0.128_379_17],
    );
    let small = fma::<FUSED>(x, p, x);
    // From 1 to 4: 1 - exp(-p), p fitted to -ln erfc; beyond, 1 is the nearest float.
    let b = if a > 4.0 { 4.0 } else { a };
    let p = polynomial::<FUSED, _>(
        b,
        [
            -1.615_045e-6,
            4.561_102e-5,
            -5.929_505_3e-4,
            4.741_118e-3,
            -0.026_367_415,
            0.109_983_3,
            0.631_931_34,
            1.130_170_3,
            -3.041_767_6e-4,
        ],
    );
    let large = (1.0 - exp::<FUSED>(-p)).copysign(x);
    if a < 1.0 {
        small
    } else if a >= 1.0 {
        large
    } else {
        x
    }
}

/// Arguments of [`sin`] and [`cos`] up to here are reduced accurately enough.
pub const TRIGONOMETRIC_LIMIT: f32 = 1e6;

/// Sine and cosine of `x - n π/2`, and n, for |x| ≤ [`TRIGONOMETRIC_LIMIT`]; in f64, which makes the reduction simple.
#[inline(always)]
fn quadrant(x: f32) -> (f64, f64, i64) {
    const ROUNDER: f64 = 6_755_399_441_055_744.0; // 1.5 · 2⁵²
    // π/2 in two parts, the first of 33 bits, so that its multiples are exact.
    const HIGH: f64 = f64::from_bits(std::f64::consts::FRAC_PI_2.to_bits() & !0xf_ffff);
    const LOW: f64 = (std::f64::consts::FRAC_PI_2 - HIGH) + 6.123_233_995_736_766e-17;
    let x = x as f64;
    let shifted = x * std::f64::consts::FRAC_2_PI + ROUNDER;
    let n = shifted - ROUNDER;
    let r = (x - n * HIGH) - n * LOW;
    let z = r * r;
    let sine = r * (1.0 + z * (-1.0 / 6.0 + z * (1.0 / 120.0 + z * (-1.0 / 5040.0 + z * (1.0 / 362_880.0)))));
    let p = 1.0 / 24.0 + z * (-1.0 / 720.0 + z * (1.0 / 40_320.0 + z * (-1.0 / 3_628_800.0)));
    (sine, 1.0 + z * (-0.5 + z * p), shifted.to_bits() as i64)
}

/// sin x, for |x| ≤ [`TRIGONOMETRIC_LIMIT`].
#[inline(always)]
pub fn sin(x: f32) -> f32 {
    let (sine, cosine, n) = quadrant(x);
    let y = if n & 1 == 0 { sine } else { cosine };
    let y = (if n & 2 == 0 { y } else { -y }) as f32;
    // Keeps -0.
    if x == 0.0 { x } else { y }
}

/// cos x, for |x| ≤ [`TRIGONOMETRIC_LIMIT`].
#[inline(always)]
pub fn cos(x: f32) -> f32 {
    let (sine, cosine, n) = quadrant(x);
    let y = if n & 1 == 0 { cosine } else { sine };
    (if (n + 1) & 2 == 0 { y } else { -y }) as f32
}

/// log₂ of a positive finite f64 that is no smaller than the least f32.
#[inline(always)]
fn log2(a: f64) -> f64 {
    const SQRT_HALF: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
    let bits = a.to_bits().wrapping_sub(SQRT_HALF);
    // As a float: of integers of 64 bits not every vector unit has conversions.
    let e = f64::from_bits(((bits as i64 >> 52) as u64).wrapping_add(6_755_399_441_055_744f64.to_bits()))
        - 6_755_399_441_055_744.0;
    // a = 2ᵉ (1 + f) with 1 + f in √½..√2; ln(1 + f) = 2 artanh(s).
    let f = f64::from_bits((bits & 0x000f_ffff_ffff_ffff).wrapping_add(SQRT_HALF)) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let p = 1.0 / 9.0 + z * (1.0 / 11.0 + z * (1.0 / 13.0 + z * (1.0 / 15.0)));
    let series = 1.0 + z * (1.0 / 3.0 + z * (1.0 / 5.0 + z * (1.0 / 7.0 + z * p)));
    e + 2.0 * std::f64::consts::LOG2_E * s * series
}

/// 2ᵗ for |t| < 1022.
#[inline(always)]
fn exp2(t: f64) -> f64 {
    const ROUNDER: f64 = 6_755_399_441_055_744.0; // 1.5 · 2⁵²
    let shifted = t + ROUNDER;
    let n = shifted.to_bits().wrapping_sub(ROUNDER.to_bits());
    let r = (t - (shifted - ROUNDER)) * std::f64::consts::LN_2;
    let p = 1.0 / 5040.0 + r * (1.0 / 40_320.0 + r * (1.0 / 362_880.0 + r * (1.0 / 3_628_800.0)));
    let p = 1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0 + r * p)));
    (1.0 + r * (1.0 + r * (0.5 + r * p))) * f64::from_bits(n.wrapping_add(1023) << 52)
}

/// x to the power of y, with the special cases of IEEE 754: by way of f64.
#[inline(always)]
pub fn pow(x: f32, y: f32) -> f32 {
    let a = x.abs() as f64;
    let positive = if a > 0.0 && a < f64::INFINITY { a } else { 1.0 };
    let log = if a == 0.0 { f64::NEG_INFINITY } else { log2(positive) };
    let log = if a == f64::INFINITY { a } else { log };
    let t = y as f64 * log;
    // Beyond these the result is 0 or infinity.
    let near = if t < -200.0 { -200.0 } else { t };
    let near = if near > 200.0 { 200.0 } else { near };
    let magnitude = exp2(near) as f32;
    let half = 0.5 * y;
    let whole = y == y.trunc();
    let odd = whole && half != half.trunc();
    let signed = if odd { magnitude.copysign(x) } else { magnitude };
    let result = if x < 0.0 && x > f32::NEG_INFINITY && !whole { f32::NAN } else { signed };
    let result = if x.is_nan() || y.is_nan() { f32::NAN } else { result };
    if y == 0.0 || x == 1.0 || (x == -1.0 && y.abs() == f32::INFINITY) { 1.0 } else { result }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The greatest error of `f` against `exact`, in units in the last place, over floats of all magnitudes in `low..=high`.
    fn error(f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64, low: f32, high: f32) -> f64 {
        let mut worst: f64 = 0.0;
        let mut try_at = |x: f32| {
            if !(low..=high).contains(&x) {
                return;
            }
            let (got, want) = (f(x), exact(x as f64));
            let nearest = want as f32;
            if nearest.is_infinite() || nearest.is_nan() || want == 0.0 {
                assert!(got == nearest || (got.is_nan() && nearest.is_nan()), "f({x:e}) = {got:e}, not {nearest:e}");
                return;
            }
            let ulp = (f32::from_bits(nearest.abs().to_bits() + 1) as f64 - nearest.abs() as f64).abs();
            let off = (got as f64 - want).abs() / ulp;
            assert!(off < 100.0, "f({x:e}) = {got:e}, not {want:e}");
            worst = worst.max(off);
        };
        (0..=u32::MAX).step_by(4099).for_each(|bits| try_at(f32::from_bits(bits)));
        (-200_000..=200_000).for_each(|i| try_at(i as f32 * 5.3e-4));
        worst
    }

    fn everywhere(f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64) -> f64 {
        assert!(f(f32::NAN).is_nan());
        error(f, exact, f32::NEG_INFINITY, f32::INFINITY)
    }

    #[test]
    fn powers() {
        let special = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -0.5,
            2.0,
            -2.0,
            3.0,
            -3.0,
            1e30,
            -1e30,
            1e-40,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
        ];
        for x in special {
            for y in special.into_iter().chain([16_777_215.0, -7.0, 0.3]) {
                let (got, want) = (pow(x, y), libm::pow(x as f64, y as f64) as f32);
                assert!(
                    got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
                    "{x} to {y} is {got}, not {want}"
                );
            }
        }
        for y in [-3.7f32, -1.0, -0.5, 0.01, 1.0 / 3.0, 0.75, 2.0, 2.2, 10.5, 100.0] {
            assert!(error(|x| pow(x, y), |x| x.powf(y as f64), 0.0, f32::INFINITY) < 0.51);
        }
    }

    #[test]
    fn within_two_units_in_the_last_place() {
        assert!(everywhere(exp::<false>, f64::exp) < 1.5);
        assert!(everywhere(log::<false>, f64::ln) < 1.5);
        assert!(everywhere(tanh::<false>, f64::tanh) < 2.0);
        assert!(everywhere(erf::<false>, libm::erf) < 2.0);
        assert!(everywhere(exp::<true>, f64::exp) < 1.5);
        assert!(everywhere(log::<true>, f64::ln) < 1.5);
        assert!(everywhere(tanh::<true>, f64::tanh) < 2.0);
        assert!(everywhere(erf::<true>, libm::erf) < 2.0);
        let limit = TRIGONOMETRIC_LIMIT;
        assert!(error(sin, f64::sin, -limit, limit) < 1.0);
        assert!(error(cos, f64::cos, -limit, limit) < 1.0);
    }
}
