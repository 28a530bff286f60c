use super::*;
#[cfg(target_arch = "x86_64")]
use crate::cpu::vector::register::F32x16;

/// Returns the greatest error of `f` against `exact`, in units in the last place, over floats of
/// all magnitudes in `low..=high`.
fn error(f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64, low: f32, high: f32) -> f64 {
    let mut worst: f64 = 0.0;
    let mut try_at = |x: f32| {
        if !(low..=high).contains(&x) {
            return;
        }
        let (got, want) = (f(x), exact(x as f64));
        let nearest = want as f32;
        if nearest.is_infinite() || nearest.is_nan() || want == 0.0 {
            assert!(
                got == nearest || (got.is_nan() && nearest.is_nan()),
                "f({x:e}) = {got:e}, not {nearest:e}"
            );
            return;
        }
        let ulp = (f32::from_bits(nearest.abs().to_bits() + 1) as f64 - nearest.abs() as f64).abs();
        let off = (got as f64 - want).abs() / ulp;
        assert!(off < 100.0, "f({x:e}) = {got:e}, not {want:e}");
        worst = worst.max(off);
    };
    (0..=u32::MAX).step_by(4099).for_each(|bits| try_at(f32::from_bits(bits)));
    (-200_000..=200_000).for_each(|i| try_at(i as f32 * 5.3e-4));
    // More arguments from 1/16 to 16, where functions change from one formula to another.
    (0x3d80_0000..0x4180_0000_u32).step_by(61).for_each(|bits| try_at(f32::from_bits(bits)));
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

/// Evaluates `f` on one number, in the lanes of a register `L`.
fn lane<L: Lanes>(proof: L::Proof, f: fn([L; 1]) -> [L; 1]) -> impl Fn(f32) -> f32 {
    move |x| {
        let mut out = [0.0; crate::cpu::vector::lanes::MOST_LANES];
        // SAFETY: the array has room for the lanes of any register.
        unsafe { f([L::splat(proof, x)])[0].store(out.as_mut_ptr()) };
        out[L::LANES - 1]
    }
}

fn functions_of_lanes<L: Lanes>(proof: L::Proof) {
    assert!(everywhere(lane::<L>(proof, exp), f64::exp) < 1.5);
    assert!(error(lane::<L>(proof, exp_near), f64::exp, -NEAR, NEAR) < 1.5);
    let one_of_two = lane::<L>(proof, |[x]| {
        let mut all = [x; 2];
        L::exp_each(&mut all);
        [all[1]]
    });
    assert!(everywhere(one_of_two, f64::exp) < 1.5);
    assert!(everywhere(lane::<L>(proof, tanh), f64::tanh) < 2.0);
    assert!(everywhere(lane::<L>(proof, erf), libm::erf) < 2.0);
    assert_eq!(lane::<L>(proof, erf)(-4.0), -1.0);
    let logistic = lane::<L>(proof, sigmoid);
    assert!(everywhere(&logistic, |x| 1.0 / (1.0 + (-x).exp())) < 3.0);
    let ends = [f32::NEG_INFINITY, f32::INFINITY, 0.0].map(logistic);
    assert_eq!(ends, [0.0, 1.0, 0.5]);
}

#[test]
fn within_units_in_the_last_place() {
    functions_of_lanes::<crate::cpu::vector::register::Portable<f32, 4>>(());
    #[cfg(target_arch = "x86_64")]
    {
        use crate::cpu::vector::register::F32x8;
        use crate::cpu::vector::{Level, level};
        if let Some(proof) = level().avx2() {
            functions_of_lanes::<F32x8>(proof);
        }
        if let Level::Avx512(proof) = level() {
            functions_of_lanes::<F32x16>(proof);
            let by_table = lane::<F32x16>(proof, |mut x| {
                erf_by_table(&mut x);
                x
            });
            assert!(everywhere(&by_table, libm::erf) < 2.0);
            // Exactly -1, so that gelu is 0 far below 0.
            assert_eq!(by_table(-4.0), -1.0);
        }
    }
    #[cfg(target_arch = "aarch64")]
    if let crate::cpu::vector::Level::Neon(proof) = crate::cpu::vector::level() {
        functions_of_lanes::<crate::cpu::vector::register::F32x4>(proof);
    }
    assert!(everywhere(log::<false>, f64::ln) < 1.5);
    assert!(everywhere(log::<true>, f64::ln) < 1.5);
    assert!(everywhere(log1p::<false>, f64::ln_1p) < 1.5);
    assert!(everywhere(log1p::<true>, f64::ln_1p) < 1.5);
    assert!(log1p::<true>(-0.0).is_sign_negative());
    assert!(everywhere(atan, f64::atan) < 1.0);
    assert!(everywhere(asin, f64::asin) < 1.0);
    assert!(everywhere(acos, f64::acos) < 1.0);
    assert!([atan(-0.0), asin(-0.0)].iter().all(|x| x.is_sign_negative()));
    let limit = TRIGONOMETRIC_LIMIT;
    assert!(error(sin, f64::sin, -limit, limit) < 1.0);
    assert!(error(cos, f64::cos, -limit, limit) < 1.0);
}
