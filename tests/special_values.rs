//! NaN, infinities and zeros of both signs in comparisons, choices, minima and maxima. Every device
//! gives the reference's result to the bit, except the bits of a NaN. Shader compilers may assume
//! that such values do not occur.

mod common;

use common::ADAPTERS;
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType};
use tile_runtime::{Device, Model};

/// Returns special values of a type. The NaN of arithmetic on x86 has a sign.
fn values(dtype: DType) -> Vec<Scalar> {
    let nan = Scalar::from_f64(dtype, f64::NAN);
    let sign = 1 << (dtype.bits() - 1);
    let negative_nan = Scalar::from_bits(dtype, nan.bits() | sign);
    let numbers =
        [f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3e4, -3e4, 0.1];
    [nan, negative_nan].into_iter().chain(numbers.map(|x| Scalar::from_f64(dtype, x))).collect()
}

fn devices() -> Vec<Device> {
    let own = [Device::cpu(), Device::named("check").unwrap()];
    own.into_iter().chain(ADAPTERS.iter().cloned()).collect()
}

/// Asserts that all outputs of a program equal the reference's on each device.
fn agree(program: &str, inputs: &[(&str, Tensor)]) {
    agree_on(devices(), program, inputs);
}

/// As [`agree`] does, on some devices.
fn agree_on(devices: Vec<Device>, program: &str, inputs: &[(&str, Tensor)]) {
    let model = Model::compile(program).unwrap_or_else(|error| panic!("{error}: {program}"));
    let on = |device: &Device| {
        let mut builder = model.on(device);
        for (name, tensor) in inputs {
            builder = builder.input(*name, tensor.ty().clone());
        }
        let mut session = builder.build().unwrap_or_else(|error| panic!("{error}: {program}"));
        session.run(inputs.iter().map(|(name, tensor)| (name, tensor))).unwrap()
    };
    let expected: Vec<(String, Tensor)> =
        on(&Device::named("reference").unwrap()).into_iter().collect();
    for device in devices {
        let mut got = on(&device);
        for (name, expected) in &expected {
            let got = got.remove(name).unwrap();
            for (place, (got, expected)) in got.scalars().zip(expected.scalars()).enumerate() {
                let both_nan = got.to_f64().is_nan() && expected.to_f64().is_nan();
                let operands: Vec<String> = inputs
                    .iter()
                    .map(|(name, t)| format!("{name} = {}", t.get(place % t.ty().elements())))
                    .collect();
                assert!(
                    both_nan || got.bits() == expected.bits(),
                    "{name} is {got}, not {expected}, at {place} ({}) on {}: {program}",
                    operands.join(", "),
                    device.name()
                );
            }
        }
    }
}

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

#[test]
fn pairs() {
    for dtype in FLOATS {
        let values = values(dtype);
        let pairs: Vec<(Scalar, Scalar)> =
            values.iter().flat_map(|&x| values.iter().map(move |&y| (x, y))).collect();
        let ty = TensorType::new(dtype, [pairs.len()]);
        let x = Tensor::from_scalars(ty.clone(), pairs.iter().map(|pair| pair.0)).unwrap();
        let y = Tensor::from_scalars(ty, pairs.iter().map(|pair| pair.1)).unwrap();
        for program in [
            "function f(X, Y) -> (A, B, C, D) { A = X < Y; B = X <= Y; C = X > Y; D = X >= Y; }",
            "function f(X, Y) -> (A, B, C, D) { A = X == Y; B = X != Y; C = max(X, Y); D = min(X, Y); }",
            "function f(X, Y) -> (A, B, C, D) { A = X < Y ? X : Y; B = X == Y ? 1 : 0; C = X > Y ? Y : X; D = X != Y ? X : 0; }",
            "function f(X, Y) -> (A, B) { A = min(max(X, Y), 1); B = max(min(X, 1), Y); }",
        ] {
            agree(program, &[("X", x.clone()), ("Y", y.clone())]);
        }
    }
}

#[test]
fn single_values() {
    for dtype in FLOATS {
        let values = values(dtype);
        let x = Tensor::from_scalars(TensorType::new(dtype, [values.len()]), values).unwrap();
        for program in [
            "function f(X) -> (A, B, C, D) { A = X != X; B = X == X; C = X ? 1 : 0; D = X != X ? 0 : X; }",
            "function f(X) -> (A, B, C, D) { A = as_bool(X); B = X == 0; C = X != 0; D = X <= X; }",
            "function f(X) -> (A, B, C, D) { A = X < 0; B = X > 0; C = X < 0 ? 0 : X; D = max(X, 0); }",
            "function f(X) -> (A, B, C, D) { A = max(0, X); B = min(X, 0); C = min(0, X); D = min(max(X, -1), 1); }",
            "function f(X) -> (A, B, C, D) { A = X == 1 / 0.0; B = X == -1 / 0.0; C = X < 1 / 0.0; D = X > -1 / 0.0; }",
            "function f(X) -> (A, B, C, D) { A = X > 1 / 0.0; B = X <= -1 / 0.0; C = abs(X) == 1 / 0.0; D = X >= 1 / 0.0; }",
            "function f(X) -> (A, B, C, D) { A = -X; B = abs(X); C = abs(relu(X)); D = X < 0.5 ? -1 / 0.0 : X; }",
            "function f(X) -> (A, B, C, D) { A = floor(X); B = ceil(X); C = round(X); D = X > 0 ? 0.0 / 0 : X; }",
            "function f(X) -> (A, B, C) { A = as_int(X, 32); B = as_int(X, 8); C = as_uint(X, 16); }",
            "function f(X) -> (A, B, C) { A = OnnxIsNaN(X); B = OnnxIsInf()(X); C = OnnxSign(X); }",
            "function f(X) -> (A, B) { A = exp(X) != exp(X); B = sqrt(X) == sqrt(X); }",
        ] {
            agree(program, &[("X", x.clone())]);
        }
    }
}

/// A maximum or minimum leaves NaN out. Either of two zeros with different signs may be the result,
/// so only one occurs here.
#[test]
fn aggregates() {
    for dtype in FLOATS {
        let values = values(dtype);
        let kept: Vec<Scalar> =
            values.into_iter().filter(|x| x.bits() != 1 << (dtype.bits() - 1)).collect();
        let count = kept.len();
        // Every rotation, and rows of only NaN, and rows of infinities and NaN.
        let mut rows: Vec<Scalar> = (0..count)
            .flat_map(|by| kept.iter().cycle().skip(by).take(count).copied().collect::<Vec<_>>())
            .collect();
        for [odd, even] in [[0, 1], [0, 2], [3, 0], [3, 3], [4, 0]] {
            rows.extend((0..count).map(|i| kept[if i % 2 == 0 { odd } else { even }]));
        }
        for length in [count, 2 * count, rows.len()] {
            let whole = rows.len() / length * length;
            let ty = TensorType::new(dtype, [whole / length, length]);
            let x = Tensor::from_scalars(ty, rows[..whole].iter().copied()).unwrap();
            for program in [
                "function f(X[N, M]) -> (A, B) { A[n: N] = >(X[n, m]); B[n: N] = <(X[n, m]); }",
                "function f(X[N, M]) -> (A, B) { A[m: M] = >(X[n, m]); B[m: M] = <(X[n, m]); }",
                "function f(X[N, M]) -> (A, B) { A[n: N] = argmax(X[n, m]); B[n: N] = argmin(X[n, m]); }",
                "function f(X[N, M]) -> (A) { A[n, m: N, M - 2] = >(X[n, m + i]), i < 3; }",
                "function f(X[N, M]) -> (Y) { A[n, 0: N, 1] = >(X[n, m]); B[n, 0: N, 1] = <(X[n, m]); Y = X == A ? 2 : (X == B ? 1 : 0); }",
            ] {
                agree(program, &[("X", x.clone())]);
            }
        }
    }
}

/// The greatest and least of values that are stored as well: on the cpu in one pass over a row.
#[test]
fn extremes_of_what_is_stored() {
    let (rows, columns) = (130, 131);
    for dtype in FLOATS {
        // A NaN in each place, and beside it one element unlike all others.
        let element = |number: usize| {
            let (row, column) = (number / columns, number % columns);
            if column == row || row % 5 == 0 && column != row * 37 % columns {
                f64::NAN
            } else if column == row * 37 % columns {
                9.0 - row as f64
            } else {
                0.0
            }
        };
        let ty = TensorType::new(dtype, [rows, columns]);
        let elements = (0..rows * columns).map(|n| Scalar::from_f64(dtype, element(n)));
        let x = Tensor::from_scalars(ty, elements).unwrap();
        for stored in ["X * 2.0", "max(X, 0.0)", "-X"] {
            let program = format!(
                "function f(X[N, D]) -> (P, A, B) {{ P = {stored}; A[n: N] = >(P[n, d]); B[n: N] = <(P[n, d]); }}"
            );
            agree(&program, &[("X", x.clone())]);
        }
    }
}

/// A softmax of a fully masked row is NaN; a value chosen in its place is unaffected.
#[test]
fn masked_attention() {
    let masks = ["X < 0 ? -1 / 0.0 : X", "0 * X - 1 / 0.0"];
    for mask in masks {
        let program = format!(
            "function f(X[N, M], V[M, D]) -> (Y) {{
                S = {mask};
                P = builtin_softmax(S, N, M);
                Q = P != P ? 0 : P;
                Y[n, d: N, D] = +(Q[n, m] * V[m, d]);
            }}"
        );
        let x: Vec<f32> = (0..7 * 33)
            .map(|i| if i / 33 % 2 == 0 { -1.0 } else { (i % 5) as f32 - 1.0 })
            .collect();
        let v = vec![0.0; 33 * 4];
        let (x, v) =
            (Tensor::from_f32([7, 33], &x).unwrap(), Tensor::from_f32([33, 4], &v).unwrap());
        agree(&program, &[("X", x), ("V", v)]);
    }
}

/// Shaders have no order of booleans.
#[test]
fn best_booleans() {
    let values = [false, true, true, true, true, true, true, false, false, false, false, false];
    let tensor =
        Tensor::from_scalars(TensorType::new(DType::Bool, [4, 3]), values.map(Scalar::bool))
            .unwrap();
    let program = "function f(X[I, K]) -> (Most, Least) { Most[i: I] = argmax(X[i, k]); Least[i: I] = argmin(X[i, k]); }";
    agree(program, &[("X", tensor)]);
}

/// A reciprocal of integers is a division, and that by 0 gives 0.
#[test]
fn reciprocals_of_integers() {
    for dtype in [DType::I8, DType::I16, DType::I32, DType::U8, DType::U32] {
        let numbers = [0, 1, -1, 2, -128].map(|number| Scalar::from_i64(dtype, number));
        let tensor = Tensor::from_scalars(TensorType::new(dtype, [5]), numbers).unwrap();
        agree("function f(X[N]) -> (Y) { Y = recip(X); }", &[("X", tensor)]);
    }
}

/// A term of a convolution beyond the image does not count, even if the kernel is infinite or NaN
/// there.
#[test]
fn terms_beyond_an_image() {
    let [reference, cpu] = [Device::named("reference").unwrap(), Device::cpu().exact()];
    let places = "P = I / 2; Q = J / 2;";
    let lines = "X[N, H, W, C], K[I, J, C, F]";
    let planes = "X[N, C, H, W], K[F, C, I, J]";
    for (program, is_lines) in [
        (
            format!(
                "function f({lines}) -> (Y) {{ {places} Y[n, y, x, f: N, H, W, F] = +(X[n, y + i - P, x + j - Q, c] * K[i, j, c, f]); }}"
            ),
            true,
        ),
        (
            format!(
                "function f({lines}) -> (Y) {{ {places} Y[n, y, x, f: N, H, W, F] = +(sin(X[n, y + i - P, x + j - Q, c]) * K[i, j, c, f]); }}"
            ),
            true,
        ),
        (
            format!(
                "function f({planes}) -> (Y) {{ {places} Y[n, f, y, x: N, F, H, W] = +(X[n, c, y + i - P, x + j - Q] * K[f, c, i, j]); }}"
            ),
            false,
        ),
    ] {
        let model = Model::compile(&program).unwrap();
        for (size, channels, filters, taps) in
            [(8, 4, 16, 9), (13, 16, 31, 3), (7, 5, 16, 5), (1, 7, 64, 3), (17, 3, 32, 3)]
        {
            let image = [1, size, size, channels];
            let kernel = [taps, taps, channels, filters];
            let shapes = match is_lines {
                true => [image, kernel],
                false => [[1, channels, size, size], [filters, channels, taps, taps]],
            };
            let tensor = |shape: [usize; 4]| {
                let values: Vec<f32> =
                    (0..shape.iter().product()).map(|i| (i * 37 % 11) as f32 - 5.0).collect();
                Tensor::from_f32(shape, &values).unwrap()
            };
            let [x, mut k] = shapes.map(tensor);
            let last = k.ty().elements() - 1;
            for (place, value) in [(0, f32::INFINITY), (last / 3, f32::NAN), (last, -f32::INFINITY)]
            {
                k.set(place, Scalar::f32(value));
            }
            let run = |device: &Device| {
                let builder =
                    model.on(device).input("X", x.ty().clone()).input("K", k.ty().clone());
                let mut session = builder.build().unwrap();
                session.run([("X", &x), ("K", &k)]).unwrap().remove("Y").unwrap().to_f64s()
            };
            for (place, (got, want)) in run(&cpu).into_iter().zip(run(&reference)).enumerate() {
                let is_near = got.is_finite() && (got - want).abs() <= 1e-4 * want.abs().max(10.0);
                assert!(
                    got == want || is_near || (got.is_nan() && want.is_nan()),
                    "{got}, not {want}, at {place} for {shapes:?}: {program}"
                );
            }
        }
    }
}

/// A row with infinite elements of both signs, and a kernel that is infinite beyond the row.
#[test]
fn infinite_rows_beside_infinite_kernels() {
    let program = "function f(X[N, C], K[J, C, F]) -> (Y) {
        Y[x, f: N, F] = +(as_float(X[x + j - 1, c], 32) * K[j, c, f]);
    }";
    for (dtype, filters) in FLOATS.into_iter().flat_map(|dtype| [(dtype, 4), (dtype, 33)]) {
        let (rows, channels) = (16, 16);
        let tensor = |dtype: DType, shape: &[usize], value: &dyn Fn(usize) -> f64| {
            let count = shape.iter().product();
            let scalars = (0..count).map(|i| Scalar::from_f64(dtype, value(i)));
            Tensor::from_scalars(TensorType::new(dtype, shape), scalars).unwrap()
        };
        let x = tensor(dtype, &[rows, channels], &|i| match i / channels {
            0 => f64::INFINITY,
            1 => -f64::INFINITY,
            _ => 1.0,
        });
        let kernel = tensor(DType::F32, &[3, channels, filters], &|i| {
            [f64::INFINITY, 1.0, -1.0][i / (channels * filters)]
        });
        agree_on(vec![Device::cpu()], program, &[("X", x), ("K", kernel)]);
    }
}
