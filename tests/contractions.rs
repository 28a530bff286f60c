//! Random contraction statements, and their gradients, mean the same on every device as the
//! language defines.
//!
//! `PROPTEST_CASES=10000 cargo test --test contractions` tries more of them.

mod common;

use common::ADAPTERS;
use common::generate::statement::Statement;
use common::generate::{config, statement};
use proptest::prelude::*;
use tile_runtime::{DType, Device, Error, Model, Scalar, Tensor, TensorType};

/// Returns what is wrong with a statement on a device.
fn fault(statement: &Statement, device: &Device) -> Option<String> {
    let meaning = statement.meaning();
    let model = match Model::compile(&statement.source) {
        Ok(model) => model,
        // A negative constant as an index leaves no points.
        Err(Error::Program { diagnostics, .. }) if diagnostics[0].code == "E0136" => {
            return (meaning.points > 0).then(|| diagnostics[0].message.clone());
        }
        Err(error) => return Some(error.to_string()),
    };
    let mut builder = model.on(device);
    for (name, tensor) in &statement.inputs {
        builder = builder.input(name, tensor.ty().clone());
    }
    let run = builder.build().and_then(|mut session| {
        session.run(statement.inputs.iter().map(|(name, tensor)| (name.as_str(), tensor)))
    });
    let outputs = match run {
        Ok(_) if !meaning.is_whole => return None,
        Ok(outputs) => outputs,
        Err(Error::Program { diagnostics, .. }) => {
            let error = &diagnostics[0];
            let is_true = !meaning.is_whole
                || match error.code {
                    // A statement without points is refused for either reason.
                    "E0216" => meaning.is_open || meaning.points == 0,
                    "E0217" => meaning.twice || error.message.starts_with("it cannot be shown"),
                    "E0218" => meaning.points == 0,
                    _ => false,
                };
            return (!is_true).then(|| format!("{}: {}", error.code, error.message));
        }
        Err(error) => return Some(error.to_string()),
    };
    for (name, expected) in &meaning.outputs {
        let Some(found) = outputs.get(name) else { return Some(format!("there is no {name}")) };
        let found = found.to_f64s();
        let tolerance = statement.tolerance(name);
        let is_near = |(x, y): (&f64, &f64)| (x - y).abs() <= tolerance;
        if found.len() != expected.len() || !found.iter().zip(expected).all(is_near) {
            return Some(format!("{name} is {found:?}, not {expected:?}"));
        }
    }
    None
}

fn check(statement: &Statement, devices: &[Device]) -> Result<(), TestCaseError> {
    for device in devices {
        prop_assert_eq!(fault(statement, device), None, "on {}", device.name());
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn statements_mean_what_the_language_says(statement in statement::statement()) {
        check(&statement, &[Device::named("reference").unwrap(), Device::cpu()])?;
    }
}

proptest! {
    #![proptest_config(config(48))]

    #[test]
    fn statements_on_the_gpu(statement in statement::statement()) {
        check(&statement, &[Device::named("check").unwrap()])?;
        check(&statement, &ADAPTERS)?;
    }
}

/// Returns a tensor of whole numbers, given by their positions.
fn whole(dtype: DType, shape: &[usize], value: impl Fn(i64) -> i64) -> Tensor {
    let positions = 0..shape.iter().product::<usize>() as i64;
    let scalars = positions.map(|i| Scalar::from_i64(dtype, value(i)));
    Tensor::from_scalars(TensorType::new(dtype, shape), scalars).unwrap()
}

/// Returns the first output of a model.
fn result(model: &Model, inputs: &[(&str, &Tensor)], device: &Device) -> Result<Tensor, Error> {
    let mut builder = model.on(device);
    for (name, value) in inputs {
        builder = builder.input(*name, value.ty().clone());
    }
    let outputs = builder.build()?.run(inputs.iter().copied())?;
    Ok(outputs.into_iter().next().expect("the model has an output").1)
}

proptest! {
    #![proptest_config(config(4096))]

    /// The index of one factor may be in range only because that of the other one is, whose guard
    /// mentions axes that the first does not have.
    #[test]
    fn strided_and_dilated_products(
        [y, x, k, l] in [1..5usize, 1..7usize, 1..6usize, 1..4usize],
        [stride, dilation] in [1..5i64, 1..5i64],
        [offset, rows, columns] in [-6..7i64, 1..10, 1..10],
    ) {
        let source = format!(
            "function f(D[Y, X, O], B[K, L, O, C]) -> (G) {{
                G[a, b, c: {rows}, {columns}, C] =
                    +(D[b - l, a/{stride} - {dilation}*k/{stride} + {offset}/{stride}, o] * B[k, l, o, c]);
            }}"
        );
        let model = Model::compile(&source).unwrap();
        let tensor = |shape: &[usize]| whole(DType::F32, shape, |i| i * 5 % 9 - 4);
        let (d, b) = (tensor(&[y, x, 4]), tensor(&[k, l, 4, 6]));
        let inputs = [("D", &d), ("B", &b)];
        // Sums of small integers are exact.
        let expected = result(&model, &inputs, &Device::reference());
        for device in [Device::cpu(), Device::named("check").unwrap()] {
            let found = result(&model, &inputs, &device);
            match (&expected, &found) {
                (Ok(expected), Ok(found)) => prop_assert_eq!(found.to_f64s(), expected.to_f64s()),
                (expected, found) => prop_assert!(
                    expected.is_err() && found.is_err(),
                    "{}: {found:?}, not {expected:?}", device.name()
                ),
            }
        }
    }
}

proptest! {
    #![proptest_config(config(300))]

    /// Products whose batch lies within the rows of the result, as the heads of attention do, with
    /// epilogues of any form, some of which wait until all sums are made.
    #[test]
    fn products_of_heads(
        [rows, heads, columns, terms] in [0..70usize, 1..9usize, 1..40usize, 1..40usize],
        result in prop_oneof![
            Just("P"), Just("max(P + B, 0)"), Just("min(max((P + B) * B + R, 1), 9)"),
            Just("P > B ? P - R : R * P"), Just("as_int(P, 32) / 2"),
            Just("index([T, H, D], 0) > 1 ? P * P : R"),
        ],
        others in prop_oneof![Just(""), Just("Z = P > 3;"), Just("Z[t: T] = +(P[t, h, d]);")],
        transposed: bool,
        dtype in prop_oneof![4 => Just(DType::F32), 1 => Just(DType::F64), 1 => Just(DType::I32)],
    ) {
        let outputs = if others.is_empty() { "Y" } else { "Y, Z" };
        let w = if transposed { "W[h, d, k]" } else { "W[h, k, d]" };
        let source = format!(
            "function f(X[T, H, K], W, B[D], R[T, H, D]) -> ({outputs}) {{
                P[t, h, d: T, H, D] = +(X[t, h, k] * {w}); Y = {result}; {others}
            }}"
        );
        let model = Model::compile(&source).unwrap();
        let tensor = |shape: &[usize], by: i64| whole(dtype, shape, |i| i * by % 9 - 4);
        let of_w = if transposed { [heads, columns, terms] } else { [heads, terms, columns] };
        let (x, w) = (tensor(&[rows, heads, terms], 5), tensor(&of_w, 7));
        let (b, r) = (tensor(&[columns], 11), tensor(&[rows, heads, columns], 13));
        let inputs = [("X", &x), ("W", &w), ("B", &b), ("R", &r)];
        let run = |device: &Device| -> Result<Vec<Vec<f64>>, Error> {
            let mut builder = model.on(device);
            for (name, value) in inputs {
                builder = builder.input(name, value.ty().clone());
            }
            let outputs = builder.build()?.run(inputs)?;
            Ok(outputs.into_iter().map(|(_, output)| output.to_f64s()).collect())
        };
        // Sums of small integers are exact.
        prop_assert_eq!(run(&Device::cpu()).unwrap(), run(&Device::reference()).unwrap(), "{}", source);
    }
}

/// Taps so far apart that most read no pixel: these do not count. The zeros of a padded image do,
/// and give NaN times an infinite weight.
#[test]
fn taps_beside_the_image() {
    let implicit = "Y[y, x, f: 10, 10, 32] = +(X[y + 8*i - 8, x + 8*j - 8, c] * K[i, j, c, f]);";
    let padded = "P[y, x, c: 26, 26, 16] = =(X[y - 8, x - 8, c]);
        Y[y, x, f: 10, 10, 32] = +(P[y + 8*i, x + 8*j, c] * K[i, j, c, f]);";
    let x = whole(DType::F32, &[10, 10, 16], |i| i * 5 % 9 - 4);
    let weights = |infinite: bool| {
        let mut k: Vec<f32> = (0..9 * 16 * 32).map(|i| (i * 7 % 9) as f32 - 4.0).collect();
        if infinite {
            k[3] = f32::INFINITY;
        }
        Tensor::from_f32([3, 3, 16, 32], &k).unwrap()
    };
    for (statements, infinite, nans) in
        [(implicit, false, 0), (implicit, true, 0), (padded, false, 0), (padded, true, 96)]
    {
        let source = format!("function f(X, K) -> (Y) {{ {statements} }}");
        let (model, k) = (Model::compile(&source).unwrap(), weights(infinite));
        let run = |device: Device| {
            let builder = model.on(&device).input("X", x.ty().clone()).input("K", k.ty().clone());
            let mut session = builder.build().unwrap();
            session.run([("X", &x), ("K", &k)]).unwrap().get("Y").unwrap().to_f64s()
        };
        let (found, expected) = (run(Device::cpu()), run(Device::reference()));
        let alike = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
        assert!(found.iter().zip(&expected).all(alike), "infinite weight: {infinite}, {source}");
        assert_eq!(expected.iter().filter(|y| y.is_nan()).count(), nans, "{source}");
    }
}

#[test]
fn rows_of_any_length_are_scattered() {
    let kinds = [(DType::F32, '+'), (DType::I32, '+'), (DType::U8, '>'), (DType::F64, '<')];
    for (length, read) in [1, 1024, 1025, 2049, 5000]
        .into_iter()
        .flat_map(|length| ["Z[q, c]", "Z[J[q], c]"].map(|read| (length, read)))
    {
        for (dtype, aggregation) in kinds {
            let source = format!(
                "function f(Z[Q, M], I[Q], J[Q]) -> (Y) {{ Y[I[q], c: 3, M] = {aggregation}({read}); }}"
            );
            let model = Model::compile(&source).unwrap();
            let z = whole(dtype, &[4, length], |i| i * 7 % 61);
            let i = whole(DType::I32, &[4], |i| [2, 0, 2, 7][i as usize]);
            let j = whole(DType::I32, &[4], |i| [3, 1, 0, 9][i as usize]);
            let inputs = [("Z", &z), ("I", &i), ("J", &j)];
            let run = |device: Device| result(&model, &inputs, &device).unwrap();
            let found = run(Device::cpu());
            assert_eq!(found, run(Device::reference()), "{source} of {length} {dtype}");
        }
    }
}

#[test]
fn rows_and_columns_are_gathered() {
    let source = "function f(Z[A, B, C], I[N], J[M]) -> (Y) {
        Y[a, n, m: A, N, M] = =(Z[a, I[n], J[m]]);
    }";
    let model = Model::compile(source).unwrap();
    for (n, m) in [(1, 1), (6, 63), (3, 64), (6, 149), (7, 1000), (2, 2049), (1, 5000)] {
        for dtype in [DType::F32, DType::U8, DType::F64] {
            let z = whole(dtype, &[3, 5, 24], |i| i * 7 % 61);
            // The last indices of 6 and of 25 are out of range.
            let i = whole(DType::I32, &[n], |i| i * 5 % 6);
            let j = whole(DType::I32, &[m], |i| i * 11 % 25);
            let inputs = [("Z", &z), ("I", &i), ("J", &j)];
            let [found, expected] = [Device::cpu(), Device::reference()]
                .map(|device| result(&model, &inputs, &device).unwrap());
            assert_eq!(found, expected, "{n} rows and {m} columns of {dtype}");
        }
    }
}
