//! Aggregations of elements as they are, over windows and rows of any size: on the cpu device as in
//! the reference. Elements are whole numbers, so that every sum is exact. And padding with elements
//! of the tensor itself.

mod common;

use common::generate::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::Graph;
use tile_compiler::tensor::{Tensor, TensorType};
use tile_runtime::{Device, Model, Session};

/// A window along one axis.
#[derive(Clone, Debug)]
struct Window {
    length: usize,
    places: usize,
    points: usize,
    stride: usize,
    dilation: usize,
    before: usize,
}

fn window() -> impl Strategy<Value = Window> {
    (1..24usize, 1..24usize, 1..12usize, 1..4usize, 1..3usize, 0..12usize).prop_map(
        |(length, places, points, stride, dilation, before)| Window {
            length,
            places,
            points,
            stride,
            dilation,
            before,
        },
    )
}

fn dtype() -> impl Strategy<Value = DType> {
    prop_oneof![
        3 => Just(DType::F32),
        1 => Just(DType::F16),
        1 => Just(DType::F64),
        1 => Just(DType::I32),
        1 => Just(DType::U8),
    ]
}

/// Returns the output of a program with these inputs on a device, or the error, as a statement
/// without valid points is refused.
fn run(source: &str, inputs: &[(&str, &Tensor)], device: &Device) -> Result<Vec<f64>, String> {
    let model = Model::compile(source).map_err(|error| error.to_string())?;
    let builder = model.on(device);
    let builder =
        inputs.iter().fold(builder, |builder, (name, x)| builder.input(*name, x.ty().clone()));
    let mut session = builder.build().map_err(|error| error.to_string())?;
    let first = session.run(inputs.iter().copied()).unwrap().get("Y").unwrap().to_f64s();
    // Later runs use what the first one has prepared.
    let again = session.run(inputs.iter().copied()).unwrap().get("Y").unwrap().to_f64s();
    let same = first.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits());
    assert!(same && first.len() == again.len(), "runs of {source} differ");
    Ok(first)
}

fn check(source: &str, inputs: &[(&str, &Tensor)]) -> Result<(), TestCaseError> {
    let expected = run(source, inputs, &Device::named("reference").unwrap());
    prop_assume!(expected.is_ok());
    let found = run(source, inputs, &Device::cpu());
    prop_assert_eq!(found, expected, "{}", source);
    Ok(())
}

/// Returns a tensor of small whole numbers, few enough that some are equal; of floats, one in 16 is
/// NaN if `nan`.
fn numbers(dtype: DType, shape: &[usize], seed: u64, nan: bool) -> Tensor {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    let count = shape.iter().product();
    let values: Vec<Scalar> = (0..count)
        .map(|_| match next() % 16 {
            0 if nan && dtype.is_float() => Scalar::from_f64(dtype, f64::NAN),
            _ => Scalar::from_f64(dtype, (next() % 4) as f64),
        })
        .collect();
    Tensor::from_scalars(TensorType::new(dtype, shape), values).unwrap()
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn windows(
        windows in vec(window(), 1..3),
        channels in 1..40usize,
        channels_last: bool,
        sign in prop_oneof![Just("+"), Just(">"), Just("<")],
        dtype in dtype(),
        seed: u64,
    ) {
        let of = |name: &str, f: &dyn Fn(usize, &Window) -> String| -> String {
            let parts = windows.iter().enumerate().map(|(n, window)| f(n, window));
            let parts = parts.collect::<Vec<_>>().join(", ");
            if channels_last { format!("{parts}, {name}") } else { format!("{name}, {parts}") }
        };
        let source = format!(
            "function f(X) -> (Y) {{ Y[{}: {}] = {sign}(X[{}]){}; }}",
            of("c", &|n, _| format!("y{n}")),
            of(&channels.to_string(), &|_, window| window.places.to_string()),
            of("c", &|n, Window { stride, dilation, before, .. }| {
                format!("{stride}*y{n} + {dilation}*i{n} - {before}")
            }),
            windows.iter().enumerate().map(|(n, w)| format!(", i{n} < {}", w.points)).collect::<String>(),
        );
        let mut shape: Vec<usize> = windows.iter().map(|window| window.length).collect();
        shape.insert(if channels_last { shape.len() } else { 0 }, channels);
        check(&source, &[("X", &numbers(dtype, &shape, seed, sign != "+"))])?;
    }

    #[test]
    fn rows(
        rows in 1..300usize,
        length in 1..200usize,
        sign in prop_oneof![Just("+("), Just(">("), Just("<("), Just("argmax("), Just("argmin(")],
        dtype in dtype(),
        last: bool,
        seed: u64,
    ) {
        let (shape, index) =
            if last { ([rows, length], "X[n, k]") } else { ([length, rows], "X[k, n]") };
        let source = format!("function f(X) -> (Y) {{ Y[n: {rows}] = {sign}{index}); }}");
        check(&source, &[("X", &numbers(dtype, &shape, seed, !sign.starts_with('+')))])?;
    }
    /// Depthwise convolutions with and without an epilogue that is applied to registers, of planes
    /// of several blocks and of single places.
    #[test]
    fn depthwise(
        [lines, rows] in [window(), window()],
        images in 1..3usize,
        channels in prop_oneof![1..40usize, 60..70usize, 126..146usize, Just(300)],
        channels_last: bool,
        result in prop_oneof![
            Just("S"), Just("max(S + B, 0)"), Just("min(max((S + B) * B + R, 1), 9)"),
            Just("S - R"), Just("S * max(S - B, 0)"),
        ],
        dtype in prop_oneof![4 => Just(DType::F32), 1 => Just(DType::F64)],
        seed: u64,
    ) {
        let position = |name: &str, window: &Window| {
            let Window { stride, dilation, before, .. } = window;
            format!("{stride}*{name} + {dilation}*{name}{name} - {before}")
        };
        let (y, x) = (position("y", &lines), position("x", &rows));
        let place = if channels_last { "n, y, x, c" } else { "n, c, y, x" };
        let (height, width) = (lines.places, rows.places);
        let extents = match channels_last {
            true => format!("{images}, {height}, {width}, {channels}"),
            false => format!("{images}, {channels}, {height}, {width}"),
        };
        let of_x = match channels_last {
            true => format!("n, {y}, {x}, c"),
            false => format!("n, c, {y}, {x}"),
        };
        let source = format!(
            "function f(X, K, B, R) -> (Y) {{ S[{place}: {extents}] = +(X[{of_x}] * K[yy, xx, c]); Y = {result}; }}"
        );
        let shape = |channels: usize, height: usize, width: usize| match channels_last {
            true => [images, height, width, channels],
            false => [images, channels, height, width],
        };
        let of_bias = if channels_last { vec![channels] } else { vec![channels, 1, 1] };
        let inputs = [
            ("X", numbers(dtype, &shape(channels, lines.length, rows.length), seed, false)),
            ("K", numbers(dtype, &[lines.points, rows.points, channels], seed + 1, false)),
            ("B", numbers(dtype, &of_bias, seed + 2, false)),
            ("R", numbers(dtype, &shape(channels, height, width), seed + 3, false)),
        ];
        check(&source, &inputs.each_ref().map(|(name, x)| (*name, x)))?;
    }
}

/// A sum that reads its operand at a constant address for each row, and beside it for the first.
#[test]
fn constant_addresses_beside_a_tensor() {
    let graph = Graph::parse(
        "\
graph g(%0) -> (S = %3)
%0 = input B : f32[2, 4]
%1 = contract assign [i + 1, j] (i: 0..2, j: 0..4) { v0 = %0[i, j]; yield v0 } : f32[3, 4]
%2 = abs %1 : f32[3, 4]
%3 = contract sum [] (i: 0..3, j: 0..4) { v0 = %2[i, j]; yield v0 } : f32[]
",
    )
    .unwrap();
    for device in ["cpu", "check", "wgpu:0"].iter().filter_map(|name| Device::named(name).ok()) {
        let mut session = Session::of_graph(graph.clone(), &device).unwrap();
        let b = Tensor::from_f32([2, 4], &[-0.5; 8]).unwrap();
        let outputs = session.run([("B", b)]).unwrap();
        assert_eq!(outputs.get("S").unwrap().to_f64s(), [4.0], "on {}", device.name());
    }
}

/// Longer than the rows of one task, and than the places of a block.
#[test]
fn long_axes() {
    let agree = |source: &str, inputs: &[(&str, &Tensor)]| {
        let [expected, found] =
            ["reference", "cpu"].map(|name| run(source, inputs, &Device::named(name).unwrap()));
        assert!(expected.is_ok() && found == expected, "{source}");
    };
    for (length, stride) in [(1025, 1), (2503, 1), (5000, 2)] {
        let image = numbers(DType::F32, &[length, 16], 1, false);
        let kernel = numbers(DType::F32, &[24, 16, 3], 2, false);
        let source = format!(
            "function f(X[N, C], K[F, C, J]) -> (Y) {{
                Y[n, f: {}, F] = +(X[{stride}*n + j - 1, c] * K[f, c, j]);
            }}",
            length / stride
        );
        agree(&source, &[("X", &image), ("K", &kernel)]);
    }
    for dtype in [DType::F32, DType::U8] {
        let [left, right] =
            [3, 29].map(|columns| numbers(dtype, &[4507, columns], columns as u64, false));
        let source = "function f(A[R, I], B[R, J]) -> (Y) {
            Left[r, i: R, I + J] = =(A[r, i]);
            Y[r, I + j: R, I + J] = =(B[r, j]) default Left;
        }";
        agree(source, &[("A", &left), ("B", &right)]);
    }
}

/// Padding with elements of the other end, or in reverse, after negative padding has cropped: as
/// ONNX Runtime wraps, and as NumPy reflects what is left.
#[test]
fn cropped_elements_do_not_come_back() {
    for (mode, pads, expected) in [
        ("wrap", [1, -1], vec![1.0, 0.0, 1.0]),
        ("wrap", [-1, 1], vec![1.0, 2.0, 1.0]),
        ("wrap", [2, -1], vec![0.0, 1.0, 0.0, 1.0]),
        ("wrap", [-1, 2], vec![1.0, 2.0, 1.0, 2.0]),
        ("reflect", [-1, 2], vec![1.0, 2.0, 1.0, 2.0]),
    ] {
        let source = format!(
            "function f(X[N]) -> (Y) {{ Y = OnnxPad_2(mode = \"{mode}\", pads = {pads:?})(X); }}"
        );
        let x = Tensor::from_f32([3], &[0.0, 1.0, 2.0]).unwrap();
        assert_eq!(run(&source, &[("X", &x)], &Device::cpu()), Ok(expected), "{mode} {pads:?}");
    }
}
