//! The elementary functions of f32 are within [`BOUND`] units in the last place of `libm`'s in f64,
//! on every device, over all octaves. Devices may flush subnormal numbers to 0, so for these only
//! the absolute error counts.

mod common;

use common::ADAPTERS;
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::scalar::{BinaryOp, UnaryOp};
use tile_compiler::tensor::{Tensor, TensorType};
use tile_runtime::{Device, Model};

/// The bound in units in the last place. Square roots and quotients are the device's own: see
/// `schedule/elementary/mod.rs`.
const BOUND: f64 = 4.0;

/// Operations that are exact, or the device's own. All others are held to the bound.
const NATIVE: [UnaryOp; 10] = [
    UnaryOp::Neg,
    UnaryOp::BitNot,
    UnaryOp::Abs,
    UnaryOp::Ceil,
    UnaryOp::Floor,
    UnaryOp::Recip,
    UnaryOp::Rint,
    UnaryOp::Round,
    UnaryOp::Rsqrt,
    UnaryOp::Sqrt,
];

/// Returns floats of all signs and octaves, including NaN and infinity, and more of them around 1.
fn arguments(step: usize) -> Vec<f32> {
    let everywhere = (0..=u32::MAX).step_by(step).map(f32::from_bits);
    let around_one = (0x3d80_0000..0x4180_0000_u32).step_by(step / 64).map(f32::from_bits);
    let special = [
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::MAX,
        f32::MIN_POSITIVE,
    ];
    everywhere.chain(around_one.clone()).chain(around_one.map(|x| -x)).chain(special).collect()
}

fn run(device: &Device, program: &str, inputs: &[(&str, &[f32])]) -> Vec<f32> {
    let tensors: Vec<(&str, Tensor)> = inputs
        .iter()
        .map(|(name, values)| (*name, Tensor::from_f32([values.len()], values).unwrap()))
        .collect();
    let model = Model::compile(program).unwrap();
    let mut builder = model.on(device);
    for (name, tensor) in &tensors {
        builder = builder.input(*name, tensor.ty().clone());
    }
    let mut outputs =
        builder.build().unwrap().run(tensors.iter().map(|(name, tensor)| (name, tensor))).unwrap();
    outputs.remove("Y").unwrap().scalars().map(|scalar| scalar.to_f64() as f32).collect()
}

/// Returns the distance of `got` from `want`, in units in the last place of the nearest float.
fn error(got: f32, want: f64) -> f64 {
    let nearest = want as f32;
    if got.is_nan() || nearest.is_nan() || nearest.is_infinite() {
        let is_same = got == nearest || got.is_nan() && nearest.is_nan();
        return if is_same { 0.0 } else { f64::INFINITY };
    }
    // Infinity counts as one unit above the greatest float.
    let got = if got.is_infinite() { 2f64.powi(128).copysign(got.into()) } else { got.into() };
    let size = nearest.abs().max(f32::MIN_POSITIVE);
    let unit = f64::from(f32::from_bits(size.to_bits() + 1)) - f64::from(size);
    let off = (got - want).abs();
    // A subnormal result may be 0.
    if want.abs() < f64::from(f32::MIN_POSITIVE) && off <= f64::from(f32::MIN_POSITIVE) {
        0.0
    } else {
        off / unit
    }
}

fn devices() -> Vec<(Device, usize)> {
    let checker = Device::named("check").unwrap();
    let mut devices = vec![(Device::cpu(), 40_009), (checker, 400_009)];
    devices.extend(ADAPTERS.iter().map(|adapter| (adapter.clone(), 40_009)));
    devices
}

/// Holds a function of one number to its exact values, on every device.
fn hold(name: &str, bound: f64, exact: impl Fn(f64) -> f64) {
    for (device, step) in devices() {
        let arguments = arguments(step);
        let program = format!("function f(X) -> (Y) {{ Y = {name}(X); }}");
        let got = run(&device, &program, &[("X", &arguments)]);
        let mut worst = (0.0, 0.0, 0.0);
        for (&x, &got) in arguments.iter().zip(&got) {
            let mut off = error(got, exact(x.into()));
            if x.abs() < f32::MIN_POSITIVE {
                off = off.min(error(got, exact(0.0)));
            }
            if off > worst.0 {
                worst = (off, x, got);
            }
        }
        let (off, x, got) = worst;
        eprintln!("{name} on {}: {off:.2} units at {x:e}", device.name());
        assert!(off <= bound, "{name}({x:e}) = {got:e} on {}: {off} units off", device.name());
    }
}

#[test]
fn functions_of_one_number() {
    for op in UnaryOp::ALL.into_iter().filter(|op| !NATIVE.contains(op)) {
        hold(op.name(), BOUND, |x| op.evaluate(Scalar::from_f64(DType::F64, x)).to_f64());
    }
}

/// Near 0 it keeps what `exp(X) - 1` would round away. Elsewhere it is this, whose difference may
/// double the error.
#[test]
fn exponential_less_one() {
    hold("expm1", 2.0 * BOUND, f64::exp_m1);
}

#[test]
fn powers() {
    let exponents = [
        -3.7,
        -1.0,
        -0.5,
        0.01,
        1.0 / 3.0,
        0.75,
        2.2,
        3.0,
        10.5,
        100.0,
        1e4,
        -1e6,
        3e9,
        f32::INFINITY,
    ];
    for (device, step) in devices() {
        let mut pairs: Vec<(f32, f32)> = Vec::new();
        for y in exponents {
            pairs.extend(arguments(16 * step).into_iter().map(|x| (x, y)));
            // Around 1, where large exponents give neither 0 nor infinity.
            let spread = (60.0 / y.abs()).min(0.9);
            pairs.extend((-500..500).map(|i| (1.0 + spread * i as f32 / 500.0, y)));
        }
        let special = arguments(0x0fff_ffff);
        pairs.extend(special.iter().flat_map(|&x| special.iter().map(move |&y| (x, y))));
        let (x, y): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
        let got =
            run(&device, "function f(X, E) -> (Y) { Y = pow(X, E); }", &[("X", &x), ("E", &y)]);
        let mut worst = (0.0, (0.0, 0.0), 0.0);
        for (&(x, y), &got) in pairs.iter().zip(&got) {
            let exact = |x: f32, y: f32| libm(x, y);
            let mut off = error(got, exact(x, y));
            for (x, y) in [(x, 0.0 * y), (0f32.copysign(x), y)] {
                if x.abs() < f32::MIN_POSITIVE || y.abs() < f32::MIN_POSITIVE {
                    off = off.min(error(got, exact(x, y)));
                }
            }
            if off > worst.0 {
                worst = (off, (x, y), got);
            }
        }
        let (off, (x, y), got) = worst;
        eprintln!("pow on {}: {off:.2} units at {x:e}, {y:e}", device.name());
        assert!(off <= BOUND, "pow({x:e}, {y:e}) = {got:e} on {}: {off} units off", device.name());
    }
}

fn libm(x: f32, y: f32) -> f64 {
    let wide = |x: f32| Scalar::from_f64(DType::F64, x.into());
    BinaryOp::Pow.evaluate(wide(x), wide(y)).to_f64()
}

/// Remainders equal Rust's `%`, to the bit.
#[test]
fn remainders_are_exact() {
    let special = [1e-30f32, 55.0, 0.1, 3.0, 1e30, 6.0, 2.0, -7.5, 16_777_217.0, 0.3];
    let values: Vec<f32> = arguments(0x02ff_ffff).into_iter().chain(special).collect();
    let values: Vec<f32> =
        values.into_iter().filter(|x| *x == 0.0 || x.is_nan() || x.abs() >= 1e-30).collect();
    let pairs = values.iter().flat_map(|&x| values.iter().map(move |&y| (x, y)));
    let (x, y): (Vec<f32>, Vec<f32>) = pairs.unzip();
    for (device, _) in devices() {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let round = |x: &f32| Scalar::from_f64(dtype, (*x).into());
            let tensor = |values: &[f32]| {
                Tensor::from_scalars(
                    TensorType::new(dtype, [values.len()]),
                    values.iter().map(round),
                )
                .unwrap()
            };
            let (a, b) = (tensor(&x), tensor(&y));
            let model = Model::compile("function f(A, B) -> (Y) { Y = fmod(A, B); }").unwrap();
            let builder = model.on(&device).input("A", a.ty().clone()).input("B", b.ty().clone());
            let mut outputs = builder.build().unwrap().run([("A", &a), ("B", &b)]).unwrap();
            let got = outputs.remove("Y").unwrap();
            for ((a, b), got) in a.scalars().zip(b.scalars()).zip(got.scalars()) {
                let want = Scalar::from_f64(dtype, a.to_f64() % b.to_f64());
                let is_same = got == want || got.to_f64().is_nan() && want.to_f64().is_nan();
                let is_tiny = want.to_f64().abs() < 1.2e-38 && got.to_f64() == 0.0;
                assert!(
                    is_same || is_tiny,
                    "fmod({a}, {b}) = {got}, not {want}, in {dtype} on {}",
                    device.name()
                );
            }
        }
    }
}
