//! Elementary functions of f32 that compile to vector code: straight-line, without calls. The only
//! tables are those that fit a register.
//!
//! `FUSED` says whether the processor has a fused multiply-add.
//!
//! Always true: NaN gives NaN, except where a function says otherwise. Errors are at most 2 units
//! in the last place; the tests measure them against f64.

use super::lanes::Lanes;
use tile_compiler::native::WordOp;

#[cfg(target_arch = "x86_64")]
mod erf_table;

#[cfg(target_arch = "x86_64")]
pub use erf_table::erf_by_table;

/// Returns `a * b + c`, rounded once if `FUSED`.
#[inline(always)]
fn fma<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// Evaluates the polynomial in `x` with these coefficients, highest power first.
#[inline(always)]
fn polynomial<const FUSED: bool, const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    coefficients.into_iter().reduce(|sum, next| fma::<FUSED>(sum, x, next)).unwrap_or(0.0)
}

/// Evaluates an expression for the number of each register of `x`.
macro_rules! each {
    ($k:ident in $x:expr => $e:expr) => {{
        let mut all = $x;
        for $k in 0..K {
            all[$k] = $e;
        }
        all
    }};
}

/// Evaluates [`polynomial`] in each lane.
///
/// Functions on [`Lanes`] in this module take several registers and apply each operation to all of
/// them before the next one. Within one register each operation waits for the one before, and a
/// processor looks ahead only so far for other work.
#[inline(always)]
fn series<L: Lanes, const K: usize, const N: usize>(x: [L; K], coefficients: [f32; N]) -> [L; K] {
    let proof = x[0].proof();
    let mut sum = [L::splat(proof, coefficients[0]); K];
    for coefficient in &coefficients[1..] {
        let coefficient = L::splat(proof, *coefficient);
        sum = each!(k in sum => coefficient.fma(sum[k], x[k]));
    }
    sum
}

/// Evaluates [`series`] by pairs of neighbouring coefficients, which are combined by powers of
/// x². That takes one operation more, but shortens the chain of dependent ones. `N` must be
/// odd. Where products are rounded it would be less accurate, so [`series`] is used.
#[inline(always)]
fn series_of_pairs<L: Lanes, const K: usize, const N: usize>(
    x: [L; K],
    coefficients: [f32; N],
) -> [L; K] {
    const { assert!(N % 2 == 1) };
    let proof = x[0].proof();
    if !L::FUSED {
        return series(x, coefficients);
    }
    let square = each!(k in x => x[k].mul(x[k]));
    let mut sum = [L::splat(proof, coefficients[0]); K];
    for pair in coefficients[1..].as_chunks::<2>().0 {
        let [slope, constant] = pair.map(|c| L::splat(proof, c));
        let pair = each!(k in x => constant.fma(slope, x[k]));
        sum = each!(k in pair => pair[k].fma(sum[k], square[k]));
    }
    sum
}

/// Returns 2ⁿ for n in -126..=127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}

/// Scales as [`Lanes::scale`] does: in two steps, so that subnormal results are rounded once and
/// the largest results do not overflow early.
#[inline(always)]
pub fn scale(x: f32, n: f32) -> f32 {
    let n = n as i32;
    let half = n >> 1;
    x * power_of_two(half) * power_of_two(n - half)
}

/// Adding this to a float of magnitude below 2²² leaves the nearest integer in the low bits of the
/// sum.
const ROUNDER: f32 = 12_582_912.0; // 1.5 · 2²³

/// 2^(k/16) for k in 0..16.
pub const SIXTEENTHS: [f32; 16] = [
    1.0,
    1.044_273_7,
    1.090_507_7,
    1.138_788_6,
    1.189_207_1,
    1.241_857_8,
    1.296_839_6,
    1.354_255_6,
    std::f32::consts::SQRT_2,
    1.476_826_2,
    1.542_210_8,
    1.610_490_3,
    1.681_792_9,
    1.756_252_2,
    1.834_008_1,
    1.915_206_6,
];

/// Computes eˣ.
#[inline(always)]
pub fn exp<L: Lanes, const K: usize>(x: [L; K]) -> [L; K] {
    let proof = x[0].proof();
    if L::SATURATES {
        return exp_by_table(x);
    }
    // Beyond these bounds the result is 0 or infinity.
    let x = each!(k in x => x[k].max(L::splat(proof, -104.0)).min(L::splat(proof, 89.0)));
    if L::EIGHTHS {
        let (sum, more) = exp_by_eighths(x);
        // The root without a power of two: [`Lanes::scale`] applies that in two steps.
        let eighths = each!(k in sum => sum[k].word(WordOp::And, word(proof, 7)).word(WordOp::ShiftLeft, word(proof, 20)));
        let root = each!(k in sum => sum[k].eighth().word(WordOp::Add, eighths[k]));
        // n is the floor of the sum. Subtracting 7/16 before rounding to nearest gives the
        // floor, since no multiple of 1/8 then lies halfway between two integers.
        let n = each!(k in sum => sum[k].sub(L::splat(proof, ROUNDER / 8.0)).sub(L::splat(proof, 0.4375)));
        let n = each!(k in n => n[k].add(L::splat(proof, ROUNDER)).sub(L::splat(proof, ROUNDER)));
        return each!(k in root => root[k].fma(root[k], more[k]).scale(n[k]));
    }
    let sum = each!(k in x => L::splat(proof, ROUNDER).fma(x[k], L::splat(proof, std::f32::consts::LOG2_E)));
    let power = exp_of_rest(x, sum);
    each!(k in power => power[k].scale(sum[k].sub(L::splat(proof, ROUNDER))))
}

/// The greatest |x| for which eˣ is known to be finite and not subnormal.
#[cfg(any(test, target_arch = "x86_64"))]
pub const NEAR: f32 = 87.0;

/// Computes eˣ for |x| up to [`NEAR`], with fewer operations. NaN gives NaN with
/// [`Lanes::SATURATES`] or [`Lanes::EIGHTHS`], and any value otherwise.
#[inline(always)]
pub fn exp_near<L: Lanes, const K: usize>(x: [L; K]) -> [L; K] {
    let proof = x[0].proof();
    if L::SATURATES {
        return exp_by_table(x);
    }
    if L::EIGHTHS {
        let (sum, more) = exp_by_eighths(x);
        // The sum's bits above the last three go to the exponent, which begins three bits above
        // bit 20. The table makes up for the last three.
        let root = each!(k in sum => sum[k].eighth().word(WordOp::Add, sum[k].word(WordOp::ShiftLeft, word(proof, 20))));
        return each!(k in root => root[k].fma(root[k], more[k]));
    }
    let sum = each!(k in x => L::splat(proof, ROUNDER).fma(x[k], L::splat(proof, std::f32::consts::LOG2_E)));
    times_power(exp_of_rest(x, sum), sum)
}

/// Returns a register with this word in every lane.
#[inline(always)]
fn word<L: Lanes>(proof: L::Proof, word: u32) -> L {
    L::splat(proof, f32::from_bits(word))
}

/// Splits x into n/8 · ln 2 + r. Returns n/8 plus an eighth of [`ROUNDER`], and exp(r) − 1.
#[inline(always)]
fn exp_by_eighths<L: Lanes, const K: usize>(x: [L; K]) -> ([L; K], [L; K]) {
    let proof = x[0].proof();
    let rounder = L::splat(proof, ROUNDER / 8.0);
    let sum = each!(k in x => rounder.fma(x[k], L::splat(proof, std::f32::consts::LOG2_E)));
    let n = each!(k in sum => sum[k].sub(rounder));
    // ln 2 is split in two parts, the first short enough for exact multiples. |r| ≤ ln 2 / 16.
    let r = each!(k in x => x[k].fma(n[k], L::splat(proof, -0.693_359_4)).fma(n[k], L::splat(proof, 2.121_944_4e-4)));
    // A polynomial fitted to (exp(r) − 1) / r.
    let quotient = series(r, [0.166_668_6, 0.500_064_55, 1.0]);
    (sum, each!(k in r => r[k].mul(quotient[k])))
}

/// Computes exp(r), where r = x − n·ln 2 is the reduced argument and `sum` is n plus [`ROUNDER`].
#[inline(always)]
fn exp_of_rest<L: Lanes, const K: usize>(x: [L; K], sum: [L; K]) -> [L; K] {
    let proof = x[0].proof();
    // |r| ≤ ln 2 / 2. ln 2 is split in two parts, the first short enough for exact multiples.
    let n = each!(k in sum => sum[k].sub(L::splat(proof, ROUNDER)));
    let r = each!(k in x => x[k].fma(n[k], L::splat(proof, -0.693_359_4)).fma(n[k], L::splat(proof, 2.121_944_4e-4)));
    // The coefficients above the powers 0 and 1 are fitted to (exp(r) − 1 − r) / r².
    series(r, [0.001_392_621_3, 0.008_363_203, 0.041_666_556, 0.166_665_77, 0.5, 1.0, 1.0])
}

/// Returns x · 2ⁿ, where `sum` is n plus [`ROUNDER`]. Both x and the result must be normal.
#[inline(always)]
fn times_power<L: Lanes, const K: usize>(x: [L; K], sum: [L; K]) -> [L; K] {
    let proof = x[0].proof();
    // The sum is added to the exponent: a float's exponent begins at bit 23, and the last bits of
    // the rounder are 0.
    each!(k in x => x[k].word(WordOp::Add, sum[k].word(WordOp::ShiftLeft, word(proof, 23))))
}

/// Computes eˣ where [`Lanes::SATURATES`], with fewer multiplications.
#[inline(always)]
fn exp_by_table<L: Lanes, const K: usize>(x: [L; K]) -> [L; K] {
    let proof = x[0].proof();
    // x = (n + k / 16) ln 2 + r with |r| ≤ ln 2 / 32, where k is the last four bits of the sum.
    let rounder = L::splat(proof, ROUNDER / 16.0);
    let sum = each!(k in x => rounder.fma(x[k], L::splat(proof, std::f32::consts::LOG2_E)));
    let n = each!(k in sum => sum[k].sub(rounder));
    let r = each!(k in x => x[k].fma(n[k], L::splat(proof, -0.693_359_4)).fma(n[k], L::splat(proof, 2.121_944_4e-4)));
    // If |x| is so large that n alone gives 0 or infinity, r may be anything; the limit keeps
    // the result positive.
    let r = each!(k in r => r[k].within(L::splat(proof, 0.03)));
    // exp(r) − 1 = r (1 + r / 2 + r² / 6), with an error of r⁴ / 24 < 2⁻²⁶.
    let root = each!(k in sum => sum[k].root());
    let quotient = series(r, [1.0 / 6.0, 0.5, 1.0]);
    each!(k in root => root[k].fma(root[k], r[k].mul(quotient[k])).scale(n[k]))
}

/// The bits of √½.
const SQRT_HALF: u32 = 0x3f35_04f3;

/// Computes ln x.
#[inline(always)]
pub fn log<const FUSED: bool>(x: f32) -> f32 {
    let tiny = x < f32::MIN_POSITIVE;
    let bits = (if tiny { x * 8_388_608.0 } else { x }).to_bits().wrapping_sub(SQRT_HALF);
    let e = ((bits as i32) >> 23) as f32 - if tiny { 23.0 } else { 0.0 };
    // x = 2ᵉ (1 + f) with 1 + f in √½..√2.
    let f = f32::from_bits((bits & 0x007f_ffff).wrapping_add(SQRT_HALF)) - 1.0;
    let near = log_of_parts::<FUSED>(e, f);
    let result = if x == f32::INFINITY { x } else { near };
    let result = if x == 0.0 { f32::NEG_INFINITY } else { result };
    if x >= 0.0 { result } else { f32::NAN }
}

/// Computes ln(2ᵉ (1 + f)) for 1 + f in √½..√2 or little beyond.
#[inline(always)]
fn log_of_parts<const FUSED: bool>(e: f32, f: f32) -> f32 {
    // ln(1 + f) = 2 artanh(s).
    let s = f / (2.0 + f);
    let z = s * s;
    let series = z * polynomial::<FUSED, _>(z, [2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0]);
    let half_square = 0.5 * f * f;
    e * 0.693_359_4 + (f - (half_square - (s * (half_square + series) + e * -2.121_944_4e-4)))
}

/// Computes ln(1 + x).
#[inline(always)]
pub fn log1p<const FUSED: bool>(x: f32) -> f32 {
    let bits = (1.0 + x).to_bits().wrapping_sub(SQRT_HALF);
    let e = (bits as i32) >> 23;
    // 1 + x = 2ᵉ (1 + f). The sum is rounded, so f is computed from x, as 2⁻ᵉ x + (2⁻ᵉ - 1): only
    // the last addition rounds, and f = x for e = 0. For large x, where 2⁻ᵉ may be out of range,
    // the sum is as good as x.
    let power = power_of_two(-e);
    let exact = fma::<FUSED>(x, power, power - 1.0);
    let rounded = f32::from_bits((bits & 0x007f_ffff).wrapping_add(SQRT_HALF)) - 1.0;
    let f = if x < 33_554_432.0 { exact } else { rounded };
    let near = log_of_parts::<FUSED>(e as f32, f).copysign(x);
    let result = if x == f32::INFINITY { x } else { near };
    let result = if x == -1.0 { f32::NEG_INFINITY } else { result };
    if x >= -1.0 { result } else { f32::NAN }
}

/// Computes the hyperbolic tangent.
#[inline(always)]
pub fn tanh<L: Lanes, const K: usize>(x: [L; K]) -> [L; K] {
    let proof = x[0].proof();
    let a = each!(k in x => x[k].abs());
    // Below 0.55: a polynomial in x² fitted to (tanh(x) / x − 1) / x².
    let z = each!(k in x => x[k].mul(x[k]));
    let p = series(z, [-0.006_615_756, 0.021_312_745, -0.053_910_066, 0.133_331_18, -0.333_333_3]);
    let small = each!(k in x => x[k].fma(x[k], z[k].mul(p[k])));
    let one = L::splat(proof, 1.0);
    // From 10 on, 1 is the nearest float.
    let power = exp_near(each!(k in a => a[k].add(a[k]).min(L::splat(proof, 20.0))));
    let large =
        each!(k in power => one.sub(L::splat(proof, 2.0).div(power[k].add(one))).copysign(x[k]));
    each!(k in large => large[k].if_less(L::splat(proof, 0.55), a[k], small[k]))
}

/// Computes 1 / (1 + e⁻ˣ), without an exponential that overflows. Errors are at most 3 units in the
/// last place.
#[inline(always)]
pub fn sigmoid<L: Lanes, const K: usize>(x: [L; K]) -> [L; K] {
    let proof = x[0].proof();
    let [zero, one] = [0.0, 1.0].map(|number| L::splat(proof, number));
    let power = exp(each!(k in x => x[k].abs().neg()));
    each!(k in power => power[k].if_less(x[k], zero, one).div(power[k].add(one)))
}

/// Computes the error function.
#[inline(always)]
pub fn erf<L: Lanes, const K: usize>(x: [L; K]) -> [L; K] {
    let proof = x[0].proof();
    let a = each!(k in x => x[k].abs());
    // Up to 0.6: x times a polynomial in x² fitted to erf(x) / x.
    let z = each!(k in x => x[k].mul(x[k]));
    let p = series(z, [0.004_512_362_6, -0.026_646_99, 0.112_809_92, -0.376_125_13, 0.128_379_15]);
    let small = each!(k in x => x[k].fma(x[k], p[k]));
    // From there to 4: 1 − 2^p, with p fitted to log₂ erfc. Beyond 4, 1 is the nearest float.
    let p = series_of_pairs(
        each!(k in a => a[k].min(L::splat(proof, 4.0))),
        [
            3.188_234e-4,
            -0.004_724_716_3,
            0.033_318_15,
            -0.152_371_06,
            -0.916_677_83,
            -1.628_318,
            3.797_488_5e-5,
        ],
    );
    let sum = each!(k in p => L::splat(proof, ROUNDER).add(p[k]));
    let r = each!(k in p => p[k].sub(sum[k].sub(L::splat(proof, ROUNDER))));
    // A polynomial fitted to 2^r for |r| ≤ ½.
    let power = series_of_pairs(
        r,
        [
            1.535_336_2e-4,
            0.001_339_887_5,
            0.009_618_437,
            0.055_503_324,
            0.240_226_48,
            std::f32::consts::LN_2,
            1.0,
        ],
    );
    let power = times_power(power, sum);
    let large = each!(k in power => L::splat(proof, 1.0).sub(power[k]).copysign(x[k]));
    each!(k in large => large[k].if_less(L::splat(proof, 0.6), a[k], small[k]))
}

/// The greatest magnitude that [`sin`] and [`cos`] reduce accurately enough.
pub const TRIGONOMETRIC_LIMIT: f32 = 1e6;

/// Returns sine and cosine of `x - n π/2`, and n, for |x| ≤ [`TRIGONOMETRIC_LIMIT`]. Computes in
/// f64, which makes the reduction simple.
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
    let sine = r
        * (1.0
            + z * (-1.0 / 6.0 + z * (1.0 / 120.0 + z * (-1.0 / 5040.0 + z * (1.0 / 362_880.0)))));
    let p = 1.0 / 24.0 + z * (-1.0 / 720.0 + z * (1.0 / 40_320.0 + z * (-1.0 / 3_628_800.0)));
    (sine, 1.0 + z * (-0.5 + z * p), shifted.to_bits() as i64)
}

/// Computes sin x for |x| ≤ [`TRIGONOMETRIC_LIMIT`].
#[inline(always)]
pub fn sin(x: f32) -> f32 {
    let (sine, cosine, n) = quadrant(x);
    let y = if n & 1 == 0 { sine } else { cosine };
    let y = (if n & 2 == 0 { y } else { -y }) as f32;
    // Keeps the sign of -0.
    if x == 0.0 { x } else { y }
}

/// Computes cos x for |x| ≤ [`TRIGONOMETRIC_LIMIT`].
#[inline(always)]
pub fn cos(x: f32) -> f32 {
    let (sine, cosine, n) = quadrant(x);
    let y = if n & 1 == 0 { cosine } else { sine };
    (if (n + 1) & 2 == 0 { y } else { -y }) as f32
}

/// Computes the angle between the x axis and the line from the origin to (x, y), for x and y of at
/// least 0.
#[inline(always)]
fn angle(x: f64, y: f64) -> f64 {
    // Angles are taken from the nearest of 0, π/4 and π/2: the tangent of the rest is at most that
    // of π/8.
    const LIMIT: f64 = std::f64::consts::SQRT_2 - 1.0;
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4};
    let [low, high] = [y <= LIMIT * x, x <= LIMIT * y];
    let (y, x, from) = (
        if low {
            y
        } else if high {
            -x
        } else {
            y - x
        },
        if low {
            x
        } else if high {
            y
        } else {
            x + y
        },
        if low {
            0.0
        } else if high {
            FRAC_PI_2
        } else {
            FRAC_PI_4
        },
    );
    let t = y / x;
    let z = t * t;
    // The series of the arctangent. What is left out is below 1e-9.
    let p = 1.0 / 13.0 - z * (1.0 / 15.0 - z * (1.0 / 17.0 - z * (1.0 / 19.0)));
    let p = 1.0 / 7.0 - z * (1.0 / 9.0 - z * (1.0 / 11.0 - z * p));
    from + t * (1.0 - z * (1.0 / 3.0 - z * (1.0 / 5.0 - z * p)))
}

/// Computes the arctangent.
#[inline(always)]
pub fn atan(x: f32) -> f32 {
    (angle(1.0, x.abs() as f64) as f32).copysign(x)
}

/// Computes the arcsine: NaN for |x| > 1.
#[inline(always)]
pub fn asin(x: f32) -> f32 {
    let a = x.abs() as f64;
    (angle(((1.0 - a) * (1.0 + a)).sqrt(), a) as f32).copysign(x)
}

/// Computes the arccosine: NaN for |x| > 1.
#[inline(always)]
pub fn acos(x: f32) -> f32 {
    let a = x.abs() as f64;
    let near = angle(a, ((1.0 - a) * (1.0 + a)).sqrt());
    (if x < 0.0 { std::f64::consts::PI - near } else { near }) as f32
}

/// Computes log₂ of a positive finite f64 that is no smaller than the least f32.
#[inline(always)]
fn log2(a: f64) -> f64 {
    const SQRT_HALF: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
    let bits = a.to_bits().wrapping_sub(SQRT_HALF);
    // The exponent becomes a float by adding to the bits of one: not every vector unit converts
    // 64-bit integers.
    let e = f64::from_bits(
        ((bits as i64 >> 52) as u64).wrapping_add(6_755_399_441_055_744f64.to_bits()),
    ) - 6_755_399_441_055_744.0;
    // a = 2ᵉ (1 + f) with 1 + f in √½..√2; ln(1 + f) = 2 artanh(s).
    let f = f64::from_bits((bits & 0x000f_ffff_ffff_ffff).wrapping_add(SQRT_HALF)) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let p = 1.0 / 9.0 + z * (1.0 / 11.0 + z * (1.0 / 13.0 + z * (1.0 / 15.0)));
    let series = 1.0 + z * (1.0 / 3.0 + z * (1.0 / 5.0 + z * (1.0 / 7.0 + z * p)));
    e + 2.0 * std::f64::consts::LOG2_E * s * series
}

/// Computes 2ᵗ for |t| < 1022.
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

/// Computes x to the power of y in f64, with the special cases of IEEE 754.
#[inline(always)]
pub fn pow(x: f32, y: f32) -> f32 {
    let a = x.abs() as f64;
    let positive = if a > 0.0 && a < f64::INFINITY { a } else { 1.0 };
    let log = if a == 0.0 { f64::NEG_INFINITY } else { log2(positive) };
    let log = if a == f64::INFINITY { a } else { log };
    let t = y as f64 * log;
    // Beyond these bounds the result is 0 or infinity.
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
#[expect(unsafe_code, reason = "registers are stored to be looked at")]
mod tests;
