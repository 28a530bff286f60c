//! Laws for every library function that takes an axis or computes statistics, as tables of
//! expressions.

mod common;

use std::fmt::Write;

use common::ADAPTERS;
use common::golden::{refused, render};
use tile_compiler::tensor::{Tensor, TensorType};
use tile_runtime::{DType, Device, Model, Scalar};

/// Returns numbers between -1 and 1, at most two of which are equal.
fn numbers(ty: TensorType, shift: u64) -> Tensor {
    let value =
        |n: usize| ((n as u64 + shift).wrapping_mul(2654435761) % 100_003) as f64 / 50_001.5 - 1.0;
    let scalars: Vec<Scalar> =
        (0..ty.elements()).map(|n| Scalar::from_f64(ty.dtype, value(n))).collect();
    Tensor::from_scalars(ty, scalars).unwrap()
}

fn compile(source: &str) -> Model {
    Model::compile(source).unwrap_or_else(|error| panic!("{source}\n{}", render(&error)))
}

/// The fate of the axis.
#[derive(Clone, Copy, PartialEq)]
enum Axis {
    /// The axis stays, possibly with size 1.
    Stays,
    Goes,
}
use Axis::{Goes, Stays};

/// An expression of `{axis}` and of the tensors `{x}` and possibly `{t}`, the fate of the axis, and
/// the first axis allowed.
type Entry = (&'static str, Axis, usize);

const OF_ONE_AXIS: &[Entry] = &[
    ("sparsemax({axis})({x})", Stays, 0),
    ("glu({axis})({x})", Stays, 0),
    (
        "BatchNormalization({axis}, gamma_initializer = random_normal(seed = 1), beta_initializer = random_normal(seed = 2))({x})",
        Stays,
        0,
    ),
    (
        "GroupNormalization(2, {axis}, gamma_initializer = random_normal(seed = 1), beta_initializer = random_normal(seed = 2))({x})",
        Stays,
        1,
    ),
    ("[{x}, {t}] |> Concatenate({axis})", Stays, 0),
    ("OnnxHardmax_13({axis})({x})", Stays, 0),
    ("OnnxLpNormalization({axis}, 1)({x})", Stays, 0),
    ("OnnxLpNormalization({axis}, 2)({x})", Stays, 0),
    ("OnnxCumSum(exclusive = 1)({x}, {axis})", Stays, 0),
    ("OnnxCumSum(reverse = 1)({x}, {axis})", Stays, 0),
    ("OnnxCumProd()({x}, {axis})", Stays, 0),
    ("OnnxConcat({axis})([{x}, {t}])", Stays, 0),
    ("OnnxSoftmax_13({axis})({x})", Stays, 0),
    ("OnnxLogSoftmax_13({axis})({x})", Stays, 0),
    ("OnnxArgMax({axis}, 1)({x})", Stays, 0),
    ("OnnxArgMin({axis}, 0, 1)({x})", Goes, 0),
    ("element(OnnxTopK_10({axis})({x}, 2), 0)", Stays, 0),
    ("OnnxGather({axis})({x}, vector([1, 0]))", Stays, 0),
    ("OnnxGatherElements({axis})({x}, as_int({t} > 0, 32))", Stays, 0),
    ("categorical_crossentropy(true, 0.1, {axis})({x}, {t})", Goes, 0),
    ("categorical_crossentropy(false, 0.1, {axis})(abs({x}), {t})", Goes, 0),
    ("categorical_focal_crossentropy(0.3, 1.5, true, 0.1, {axis})({x}, {t})", Goes, 0),
    ("categorical_focal_crossentropy(0.3, 1.5, false, 0.1, {axis})(abs({x}), {t})", Goes, 0),
    ("binary_crossentropy(true, 0.1, {axis})({x}, {t})", Goes, 0),
    ("binary_focal_crossentropy(true, 0.3, 1.5, true, 0.1, {axis})({x}, {t})", Goes, 0),
    ("sparse_categorical_crossentropy(true, 1, {axis})({x}, OnnxArgMax({axis}, 0)({t}))", Goes, 0),
    (
        "sparse_categorical_crossentropy(false, none, {axis})(abs({x}), OnnxArgMax({axis}, 1)({t}))",
        Goes,
        0,
    ),
    ("cosine_similarity({axis})({x}, {t})", Goes, 0),
];

/// Functions of one axis or a list of axes.
const OF_AXES: &[Entry] = &[
    ("softmax({axis})({x})", Stays, 0),
    ("log_softmax({axis})({x})", Stays, 0),
    ("Softmax({axis})({x})", Stays, 0),
    ("Softmax({axis})({x}, {t} > -0.5)", Stays, 0),
    (
        "LayerNormalization({axis}, gamma_initializer = random_normal(seed = 1), beta_initializer = random_normal(seed = 2))({x})",
        Stays,
        0,
    ),
    ("RMSNormalization({axis})({x})", Stays, 0),
    ("UnitNormalization({axis})({x})", Stays, 0),
    ("Normalization({axis})({x})", Stays, 0),
    ("sum({axis})({x})", Goes, 0),
    ("sum({axis}, true)({x})", Stays, 0),
    ("mean({axis})({x})", Goes, 0),
    ("mean({axis}, true)({x})", Stays, 0),
    ("amax({axis})({x})", Goes, 0),
    ("amin({axis}, true)({x})", Stays, 0),
    ("element(moments({axis})({x}), 0)", Goes, 0),
    ("element(moments({axis})({x}), 1)", Goes, 0),
    ("element(moments({axis}, true)({x}), 1)", Stays, 0),
    ("dice({axis})(abs({x}), abs({t}))", Goes, 0),
    ("tversky(0.3, 0.6, {axis})(abs({x}), abs({t}))", Goes, 0),
    ("OnnxReduceL1_1({axis})({x})", Stays, 0),
    ("OnnxReduceL2_1({axis}, 0)({x})", Goes, 0),
    ("OnnxReduceLogSum_1({axis})(abs({x}))", Stays, 0),
    ("OnnxReduceLogSumExp_1({axis}, 0)({x})", Goes, 0),
    ("OnnxReduceMean_1({axis})({x})", Stays, 0),
    ("OnnxReduceMax_1({axis}, 0)({x})", Goes, 0),
    ("OnnxReduceProd_1({axis}, 0)({x})", Goes, 0),
    ("OnnxReduceSumSquare_1({axis}, 0)({x})", Goes, 0),
    ("OnnxMeanVarianceNormalization(list({axis}))({x})", Stays, 0),
];

/// An expression along some axes equals the expression along the last axes of the transposed
/// tensor.
#[test]
fn axes_may_be_moved() {
    let only = std::env::var("CASE").unwrap_or_default();
    let shape = [4usize, 2, 6];
    let mut faults = String::new();
    for (number, &(expression, result, first)) in OF_ONE_AXIS.iter().chain(OF_AXES).enumerate() {
        let singles = (first..3).flat_map(|axis| [vec![axis as i64], vec![axis as i64 - 3]]);
        let lists = [[0, 1], [0, 2], [1, 2]]
            .into_iter()
            .flat_map(|[a, b]| [vec![a, b], vec![a - 3, b - 3]]);
        let lists = lists.filter(|_| number >= OF_ONE_AXIS.len());
        let (mut body, mut outputs) = (String::new(), Vec::new());
        for axes in singles.chain(lists).filter(|_| expression.contains(&only)) {
            let moved: Vec<i64> = axes.iter().map(|axis| axis.rem_euclid(3)).collect();
            let order: Vec<i64> =
                (0..3).filter(|axis| !moved.contains(axis)).chain(moved.iter().copied()).collect();
            let last: Vec<i64> = (3 - axes.len() as i64..3).collect();
            let text = |axes: &[i64]| {
                if let [axis] = axes { axis.to_string() } else { format!("{axes:?}") }
            };
            let written = |axes: &[i64], x: &str, t: &str| {
                expression.replace("{axis}", &text(axes)).replace("{x}", x).replace("{t}", t)
            };
            let n = outputs.len();
            let there = if result == Stays {
                format!("transpose(A{n}, {order:?})")
            } else {
                format!("A{n}")
            };
            let (direct, expected) =
                (written(&axes, "X", "T"), written(&last, &format!("X{n}"), &format!("T{n}")));
            let _ = writeln!(
                body,
                "A{n} = {direct}; X{n} = transpose(X, {order:?}); T{n} = transpose(T, {order:?}); B{n} = {expected};
                 D{n} = amax()(abs({there} - of_sizes(\"{direct}\", dims({there}), B{n}))) + 0.0;"
            );
            outputs.push((format!("D{n}"), direct));
        }
        if outputs.is_empty() {
            continue;
        }
        let names: Vec<&str> = outputs.iter().map(|(name, _)| name.as_str()).collect();
        let model = compile(&format!("model Law(X, T) -> ({}) {{\n{body}}}", names.join(", ")));
        for device in [Device::reference(), Device::cpu()] {
            for training in [false, true] {
                let builder =
                    model.on(&device).training(training).input("X", shape).input("T", shape);
                let mut session = builder
                    .build()
                    .unwrap_or_else(|error| panic!("{expression}\n{}", render(&error)));
                session.initialise(0).unwrap();
                let tensor = |shift| numbers(TensorType::new(DType::F32, shape), shift);
                let found = session.run([("X", tensor(0)), ("T", tensor(1000))]).unwrap();
                for (name, direct) in &outputs {
                    let difference = found.get(name).unwrap().to_f64s()[0];
                    // Sums of up to 24 numbers in another order. `Normalization` divides by 1e-7.
                    let most = if direct.starts_with("Normalization") { 10.0 } else { 1e-5 };
                    if difference.is_nan() || difference > most {
                        let _ =
                            writeln!(faults, "{direct} on {}: off by {difference}", device.name());
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

/// Expressions of `X`, its shape, and the range of its elements.
const STATISTICS: &[(&str, &[usize], f64, f64)] = &[
    ("mean()(X)", &[70_000], 0.0, 500.0),
    ("mean()(X)", &[70_000], 7.0, 7.0),
    ("element(moments(0)(X), 1)", &[70_000, 2], 0.0, 250.0),
    ("softmax()(X)", &[2, 70_000], 0.0, 0.0),
    ("log_softmax()(X)", &[2, 70_000], 0.0, 1.0),
    ("Softmax()(X)", &[2, 70_000], 0.0, 0.0),
    ("builtin_softmax(X, 2, 70000)", &[2, 70_000], 0.0, 0.0),
    ("builtin_logsoftmax(X, 2, 70000)", &[2, 70_000], 0.0, 1.0),
    ("GlobalAveragePooling2D()(X)", &[1, 40, 50, 2], 0.0, 500.0),
    ("AveragePooling1D(400, padding = same)(X)", &[1, 900, 2], 0.0, 500.0),
    ("AveragePooling2D(20)(X)", &[1, 40, 40, 2], 0.0, 500.0),
    ("AveragePooling3D(8)(X)", &[1, 8, 8, 16, 2], 0.0, 500.0),
    ("AdaptiveAveragePooling1D(3)(X)", &[1, 900, 2], 0.0, 500.0),
    ("LayerNormalization(center = false, scale = false)(X)", &[3, 600], -30_000.0, 30_000.0),
    ("LayerNormalization()(X)", &[3, 600], -30_000.0, 30_000.0),
    ("GroupNormalization(2)(X)", &[2, 300, 4], -30_000.0, 30_000.0),
    ("BatchNormalization()(X)", &[600, 3], -30_000.0, 30_000.0),
    ("RMSNormalization()(X)", &[3, 600], -30_000.0, 30_000.0),
    ("UnitNormalization()(X)", &[3, 600], -30_000.0, 30_000.0),
    ("UnitNormalization()(X)", &[2, 3], 0.0, 0.0),
    ("mean_squared_error(X, 0 * X)", &[3, 600], 0.0, 600.0),
    ("mean_absolute_error(X, 0 * X)", &[3, 600], 0.0, 600.0),
    ("cosine_similarity(X, 2 * X)", &[3, 600], 0.0, 600.0),
    ("huber(300)(X, 0 * X)", &[3, 600], 0.0, 600.0),
    ("dice()(X, 1 + 0 * X)", &[3, 600], 0.0, 600.0),
    ("categorical_crossentropy(true)(X, X)", &[3, 6000], 0.0, 10.0),
    ("sparse_categorical_crossentropy(true)(X, vector([1, 2]))", &[2, 70_000], 0.0, 1.0),
    ("binary_crossentropy(false)(X, 1 - X)", &[3, 6], 0.0, 1.0),
    ("l1()(X)", &[3, 600], 0.0, 600.0),
    ("l2(0.0001)(X)", &[3, 600], 0.0, 600.0),
    ("element(clip_by_norm(2)([X]), 0)", &[3, 600], 0.0, 600.0),
    ("element(clip_by_global_norm(2)([X]), 0)", &[3, 600], 0.0, 600.0),
    ("grad(amax()(X), X)", &[70_000], 3.0, 3.0),
    ("grad(sum()(amax(-1)(X)), X)", &[2, 70_000], 3.0, 3.0),
    ("grad(mean()(X), X)", &[70_000], 3.0, 3.0),
    ("OnnxReduceMean_18()(X)", &[70_000], 0.0, 500.0),
    ("OnnxReduceL2_18()(X)", &[600], 0.0, 500.0),
    ("OnnxReduceLogSum_18()(X)", &[70_000], 0.0, 500.0),
    ("OnnxAveragePool(kernel_shape = [20])(X)", &[1, 1, 60], 0.0, 9000.0),
    ("OnnxGlobalAveragePool(X)", &[1, 2, 300], 0.0, 9000.0),
    ("OnnxGlobalLpPool()(X)", &[1, 2, 300], 0.0, 900.0),
    ("OnnxLpPool(kernel_shape = [20])(X)", &[1, 1, 60], 0.0, 900.0),
    ("[X, X, X] |> Average()", &[60], 0.0, 60_000.0),
    ("OnnxMean([X, X, X])", &[60], 0.0, 60_000.0),
    ("OnnxSum([X, X, -X])", &[60], 0.0, 60_000.0),
    ("OnnxCumSum()(X, 1)", &[2, 60], -30_000.0, 30_000.0),
    ("OnnxGemm_7(0.001)(X, X)", &[40, 40], 0.0, 500.0),
    (
        "element(OnnxLayerNormalization()(X, vector([1.0, 1.0, 1.0])), 0)",
        &[40, 3],
        -30_000.0,
        30_000.0,
    ),
    (
        "element(OnnxAttention()(as_type(fill([1, 1, 2, 4], 0), X), X, X), 0)",
        &[1, 1, 2000, 4],
        0.0,
        500.0,
    ),
];

/// Statistics of 16-bit floats equal those of the same numbers in f32, rounded.
#[test]
fn statistics_of_narrow_floats_are_those_of_f32() {
    let only = std::env::var("CASE").unwrap_or_default();
    let devices = [vec![Device::reference(), Device::cpu()], ADAPTERS.clone()].concat();
    let mut faults = String::new();
    for &(expression, shape, low, high) in STATISTICS.iter().filter(|entry| entry.0.contains(&only))
    {
        let model = compile(&format!("model Statistic(X) -> (Y) {{ Y = {expression}; }}"));
        for narrow in [DType::F16, DType::BF16] {
            let scaled = numbers(TensorType::new(DType::F64, shape), 0).to_f64s();
            let scaled = scaled
                .into_iter()
                .map(|x| Scalar::from_f64(narrow, low + (high - low) * (x + 1.0) / 2.0));
            let x =
                Tensor::from_scalars(TensorType::new(narrow, shape), scaled.collect::<Vec<_>>())
                    .unwrap();
            let wide = x.scalars().map(|scalar| scalar.cast(DType::F32)).collect::<Vec<_>>();
            let wide = Tensor::from_scalars(TensorType::new(DType::F32, shape), wide).unwrap();
            let on = |device: &Device, x: &Tensor| {
                let mut session =
                    model.on(device).training(true).input("X", x.ty().clone()).build()?;
                session.initialise(0)?;
                session.run([("X", x)])?.remove("Y")
            };
            let expected = on(&Device::cpu(), &wide)
                .unwrap_or_else(|error| panic!("{expression}\n{}", render(&error)));
            for device in &devices {
                let found = match on(device, &x) {
                    Err(error) if refused(&error) => continue,
                    found => {
                        found.unwrap_or_else(|error| panic!("{expression}\n{}", render(&error)))
                    }
                };
                // One or two roundings, and the smallest steps.
                let step = if narrow == DType::F16 { 2f64.powi(-10) } else { 2f64.powi(-7) };
                let is_close = |a: f64, b: f64| (a - b).abs() <= step * b.abs() + 6e-8;
                let dtype = found.dtype();
                let pairs = found.to_f64s().into_iter().zip(expected.to_f64s());
                let wrong = pairs
                    .map(|(found, expected)| (found, Scalar::from_f64(dtype, expected).to_f64()));
                let wrong = wrong.filter(|&(a, b)| a != b && !is_close(a, b)).collect::<Vec<_>>();
                if let Some((a, b)) = wrong.first() {
                    let count = wrong.len();
                    let _ = writeln!(
                        faults,
                        "{expression} of {narrow} on {}: {a}, not {b} ({count})",
                        device.name()
                    );
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}
