//! f64 on GPUs that have it: arithmetic, comparisons and conversions, with the results of the cpu
//! device; and clear errors for what they lack.
#![cfg(feature = "compile")]

use tile_compiler::profile::Profile;
use tile_runtime::{DType, Device, Model, Scalar, Tensor, TensorType};

const MODEL: &str = "
    function f(X[M, K], W[K, N], B[N]) -> (P, Most, Least, At, Total, Rest, Back, Marks) {
        P[m, n: M, N] = +(X[m, k] * W[k, n]);
        Most[m: M] = >(X[m, k]);
        Least[k: K] = <(X[m, k]);
        At[m: M] = argmax(X[m, k]);
        Total[] = +(W[k, n]);
        Rest = round(B) + floor(B / 3) * 0.5 - 1 / (abs(B) + 1) + sqrt(abs(B)) - ceil(B) + max(B, 0.25);
        Back = as_int(B * 1000, 32);
        Marks = (B > 0 ? 1 : 0) + (B == B ? 2 : 0) + (B < 1e300 ? 4 : 0);
    }";

/// Returns the devices with kernels that have f64.
fn devices() -> Vec<Device> {
    #[cfg(feature = "check")]
    let checker = Some(Device::check(Profile { f64: true, int64: true, ..Profile::generic() }));
    #[cfg(not(feature = "check"))]
    let checker = None;
    let all = checker.into_iter().chain(Device::named("wgpu:0").ok());
    all.filter(|device| device.profile().f64).collect()
}

/// Values that f32 would round, with both signs.
fn values(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |at: usize| (at as f64 * 37.0 % 101.0 - 50.0) * (1.0 / 7.0) + 2f64.powi(-40);
    let scalars = (0..count).map(|at| Scalar::from_f64(DType::F64, value(at)));
    Tensor::from_scalars(TensorType::new(DType::F64, shape), scalars).unwrap()
}

#[test]
fn gpus_compute_in_f64() {
    let model = Model::compile(MODEL).unwrap();
    for device in devices() {
        for [m, k, n] in [[1, 1, 1], [3, 5, 7], [16, 129, 8], [2, 1000, 3]] {
            let mut special = values(&[n]).to_f64s();
            for (value, special) in special.iter_mut().zip([
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                1e300,
                -0.0,
                2.5,
                -2.5,
            ]) {
                *value = special;
            }
            let scalars = special.iter().map(|v| Scalar::from_f64(DType::F64, *v));
            let special = Tensor::from_scalars(TensorType::new(DType::F64, [n]), scalars).unwrap();
            let inputs = [("X", values(&[m, k])), ("W", values(&[k, n])), ("B", special)];
            let run = |device: &Device| {
                let mut builder = model.on(device);
                for (name, value) in &inputs {
                    builder = builder.input(*name, value.ty().clone());
                }
                let mut session = builder.build().unwrap();
                session.run(inputs.each_ref().map(|(name, value)| (*name, value))).unwrap()
            };
            let (found, expected) = (run(&device), run(&Device::cpu()));
            for (name, expected) in expected.iter() {
                let found = found.get(name).unwrap();
                assert_eq!(found.ty(), expected.ty(), "{name}");
                let pairs = found.to_f64s().into_iter().zip(expected.to_f64s());
                for (found, expected) in pairs {
                    let is_same = found == expected || found.is_nan() && expected.is_nan();
                    // Sums in another order; roots and quotients within units in the last place.
                    let close = (found - expected).abs() <= 1e-12 * (1.0 + expected.abs());
                    assert!(is_same || close, "{name} of {m}, {k}, {n}: {found} and {expected}");
                }
            }
        }
    }
}

#[test]
fn missing_functions_are_named() {
    let model = Model::compile("function f(X[N]) -> (Y) { Y = exp(X); }").unwrap();
    for device in devices() {
        let ty = TensorType::new(DType::F64, [3]);
        let error = model.on(&device).input("X", ty).build().err().unwrap().to_string();
        assert!(error.contains("`exp` of f64 (cast it to f32 first)"), "{error}");
    }
}
