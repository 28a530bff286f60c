//! Random graphs give the same results on every device: the reference interpreter, the kernel
//! checker, the cpu, and each adapter that wgpu finds.

mod common;

use common::ADAPTERS;
use common::generate::{self, Case, config, difference};
use proptest::prelude::*;
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::Graph;
use tile_compiler::interpret;
use tile_compiler::pipeline;
use tile_compiler::plan::{Routine, Work};
use tile_compiler::profile::Profile;
use tile_compiler::tensor::{Tensor, TensorType};
use tile_runtime::{Device, Error, Model, Session};

/// Returns what is wrong with a case on a device. A device may refuse a type by its name.
fn fault(case: &Case, device: &Device) -> Option<String> {
    let expected = interpret::run(&case.graph, &case.inputs).unwrap();
    let run = |mut session: Session| {
        session.run(case.inputs.iter().map(|(name, tensor)| (name, tensor)))?;
        // A second run keeps the weights: values that depend only on them are not recomputed.
        let inputs: Vec<String> = session.inputs().map(|(name, _)| name.to_owned()).collect();
        let is_input = |(name, _): &&(String, Tensor)| inputs.contains(name);
        session.run(case.inputs.iter().filter(is_input).map(|(name, tensor)| (name, tensor)))
    };
    match Session::of_graph(case.graph.clone(), device).and_then(run) {
        Ok(outputs) => difference(case, &expected, &outputs.into_iter().collect::<Vec<_>>()),
        Err(Error::Program { diagnostics, .. })
            if diagnostics.iter().all(|d| matches!(d.code, "E0290" | "E0291")) =>
        {
            None
        }
        Err(error) => Some(error.to_string()),
    }
}

fn check(case: &Case, devices: &[Device]) -> Result<(), TestCaseError> {
    for device in devices {
        prop_assert_eq!(fault(case, device), None, "on {}", device.name());
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn contractions_on_the_cpu(case in generate::contraction()) {
        check(&case, &[Device::cpu()])?;
    }

    #[test]
    fn elementwise_on_the_cpu(case in generate::elementwise()) {
        check(&case, &[Device::cpu()])?;
    }

    #[test]
    fn running_aggregations_on_the_cpu(case in generate::running()) {
        check(&case, &[Device::cpu()])?;
    }

    #[test]
    fn chains_on_the_cpu(case in generate::chain()) {
        check(&case, &[Device::cpu()])?;
    }

    #[test]
    fn networks_on_the_cpu(case in generate::network()) {
        check(&case, &[Device::cpu()])?;
    }

    #[test]
    fn rows_on_the_cpu(case in generate::rows()) {
        check(&case, &[Device::cpu()])?;
    }

    #[test]
    fn attention_on_the_cpu(case in generate::attention()) {
        check(&case, &[Device::cpu()])?;
    }

    #[test]
    fn quantized_on_the_cpu(case in generate::quantized()) {
        check(&case, &[Device::cpu()])?;
    }

    #[test]
    fn scans_on_the_cpu(case in generate::scan()) {
        check(&case, &[Device::cpu()])?;
    }
}

proptest! {
    #![proptest_config(config(48))]

    #[test]
    fn contractions_on_the_gpu(case in generate::contraction()) {
        check(&case, &[Device::named("check").unwrap()])?;
        check(&case, &ADAPTERS)?;
    }

    #[test]
    fn elementwise_on_the_gpu(case in generate::elementwise()) {
        check(&case, &[Device::named("check").unwrap()])?;
        check(&case, &ADAPTERS)?;
    }

    #[test]
    fn chains_on_the_gpu(case in generate::chain()) {
        check(&case, &[Device::named("check").unwrap()])?;
        check(&case, &ADAPTERS)?;
    }

    #[test]
    fn networks_on_the_gpu(case in generate::network()) {
        check(&case, &[Device::named("check").unwrap()])?;
        check(&case, &ADAPTERS)?;
    }

    #[test]
    fn rows_on_the_gpu(case in generate::rows()) {
        check(&case, &[Device::named("check").unwrap()])?;
        check(&case, &ADAPTERS)?;
    }

    #[test]
    fn attention_on_the_gpu(case in generate::attention()) {
        check(&case, &[Device::named("check").unwrap()])?;
        check(&case, &ADAPTERS)?;
    }

    #[test]
    fn scans_on_the_gpu(case in generate::scan()) {
        check(&case, &[Device::named("check").unwrap()])?;
        check(&case, &ADAPTERS)?;
    }
}

/// Products of booleans, where `+` is or, and `*` is and. No matrix unit supports them.
#[test]
fn a_product_of_truth_values() {
    let graph = Graph::parse(
        "\
graph g(%0, %1) -> (C = %2)
%0 = input A : bool[37, 70]
%1 = input B : bool[70, 41]
%2 = contract sum [i, j] (i: 0..37, j: 0..41, k: 0..70) { v0 = %0[i, k]; v1 = %1[k, j]; v2 = mul v0 v1; yield v2 } : bool[37, 41]
",
    )
    .unwrap();
    let seldom = |shape: [usize; 2]| {
        let elements = (0..shape[0] * shape[1])
            .map(|i| Scalar::from_i64(DType::Bool, i64::from(i * 37 % 101 < 9)));
        Tensor::from_scalars(TensorType::new(DType::Bool, shape), elements).unwrap()
    };
    let inputs = vec![("A".to_owned(), seldom([37, 70])), ("B".to_owned(), seldom([70, 41]))];
    let case = Case { graph, inputs, tolerances: vec![0.0] };
    for device in [Device::cpu(), Device::named("check").unwrap()].iter().chain(ADAPTERS.iter()) {
        assert_eq!(fault(&case, device), None, "on {}", device.name());
    }
}

/// Asserts that a program of rows X and one number U for each row gives on the cpu, to the bit,
/// what it gives by definition.
fn rows_with_numbers(
    program: &str,
    dtype: DType,
    x: impl Fn(usize) -> f64,
    u: impl Fn(usize) -> f64,
) {
    let model = Model::compile(program).unwrap();
    for (rows, length) in [(1, 1), (2, 17), (3, 100), (8, 1024), (2, 4099)] {
        let tensor = |shape: [usize; 2], value: &dyn Fn(usize) -> f64| {
            let values = (0..shape[0] * shape[1]).map(|i| Scalar::from_f64(dtype, value(i)));
            Tensor::from_scalars(TensorType::new(dtype, shape), values).unwrap()
        };
        let given = [("X", tensor([rows, length], &x)), ("U", tensor([rows, 1], &u))];
        let on = |device: &Device| {
            let builder = model
                .on(device)
                .input("X", given[0].1.ty().clone())
                .input("U", given[1].1.ty().clone());
            builder.build().unwrap().run(given.iter().map(|(name, tensor)| (name, tensor))).unwrap()
        };
        let (mut got, expected) = (on(&Device::cpu()), on(&Device::named("reference").unwrap()));
        for (name, expected) in expected {
            for (place, (got, expected)) in
                got.remove(&name).unwrap().scalars().zip(expected.scalars()).enumerate()
            {
                let (got, expected) = (got.to_f64(), expected.to_f64());
                let are_same =
                    got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan();
                assert!(
                    are_same,
                    "{got}, not {expected}, at {place} of {rows} rows of {length}, {name}: {program}"
                );
            }
        }
    }
}

/// Returns a small whole number, so that sums are exact.
fn small_integer(i: usize) -> f64 {
    (i * 37 % 101) as f64 - 50.0
}

/// A row's number stays readable to the end of the row, even if a value of the row takes its
/// register.
#[test]
fn numbers_of_rows_stay_to_the_end_of_the_row() {
    for program in [
        "function f(X[N, M], U[N, 1]) -> (Y) { D = X / U; Z = D * U; W = Z + X; Y = W / 7; }",
        "function f(X[N, M], U[N, 1]) -> (Y) { D = X - X / U * U; Z = D - U; W = Z ^ X; V = W << 2; Y = V / 11 + U; }",
        "function f(X[N, M], U[N, 1]) -> (Y) { T = max(X, U); D = T + U; Y = D + 1; }",
        "function f(X[N, M], U[N, 1]) -> (Y) { D = U + 1; Z = D * X; W = Z - X; Y = (W & 63) / 7 - W; }",
    ] {
        rows_with_numbers(program, DType::I32, small_integer, |i| (1 + i % 5) as f64);
    }
    let floor = "function f(X[N, M], U[N, 1]) -> (Y) { D = floor(X / U); Z = D - U; W = Z + X; Y = floor(W) * U; }";
    rows_with_numbers(floor, DType::F32, small_integer, |i| (1 << (i % 5)) as f64);
}

/// A value that waits for its row's number in the result's memory is read before the result is
/// written. All values are whole numbers, whose sums are exact.
#[test]
fn values_of_rows_wait_where_results_will_be() {
    for results in [
        "(Y) { RULE Y = D * U + S; }",
        "(Y, Z) { RULE Y = D * U; Z = Y + D + S; }",
        "(Y, Z) { RULE Z = S - D; Y = Z * D; }",
        "(Y, Z) { RULE Y = D + S; V = abs(D); R[n, 0: N, 1] = >(V[n, m]); Z = V - R; }",
        "(Y, D) { RULE Y = D - S; }",
        "(Y, Z) { RULE Y = S > D; Z = D - S; }",
    ] {
        let rule = "T[n, 0: N, 1] = >(X[n, m]); D = X - T; S[n, 0: N, 1] = +(D[n, m]);";
        let program = format!("function f(X[N, M], U[N, 1]) -> {}", results.replace("RULE", rule));
        rows_with_numbers(&program, DType::F32, small_integer, |i| (i % 5) as f64 - 1.0);
    }
}

/// Quotients by row-invariant values overflow exactly as IEEE 754 defines.
#[test]
fn quotients_overflow_as_defined() {
    let values =
        [1e38, -1e38, 3.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 2e-38, 88.0, -3.4e38];
    let far = |i: usize| values[i % values.len()];
    for program in [
        "function f(X[N, M], U[N, 1]) -> (Y) { Y = X / U; }",
        "function f(X[N, M], U[N, 1]) -> (Y) { Y = (X + 0.0) / 0.00001; }",
        "function f(X[N, M], U[N, 1]) -> (Y) { Y = -X / (U * 0.5); }",
    ] {
        rows_with_numbers(program, DType::F32, far, |i| [1e-5, 1e-17, -0.25, 1e17, 3e-18][i % 5]);
    }
}

/// Mesa 22.3 compares such operands as unsigned if an i32 with an extended sign is among them.
#[test]
fn widened_integers_are_compared_by_their_sign() {
    let graph = Graph::parse(
        "\
graph case(%0) -> (Less = %3, Atleast = %4, Most = %5, Least = %6)
%0 = input X : i32[6]
%1 = cast %0 : i64[6]
%2 = constant -7 : i64[]
%3 = cmp_lt %1 %2 : bool[6]
%4 = cmp_ge %1 %2 : bool[6]
%5 = max %1 %2 : i64[6]
%6 = min %1 %2 : i64[6]
",
    )
    .unwrap();
    let values = [i32::MIN, -8, -7, 0, 5, i32::MAX];
    let x =
        Tensor::from_scalars(TensorType::new(DType::I32, [6]), values.map(Scalar::i32)).unwrap();
    let case = Case { graph, inputs: vec![("X".to_owned(), x)], tolerances: vec![0.0; 4] };
    for device in [&[Device::named("check").unwrap(), Device::cpu()], &ADAPTERS[..]].concat() {
        assert_eq!(fault(&case, &device), None, "on {}", device.name());
    }
}

/// Gives each element of the inputs and weights a number with which the results are exact.
fn exactly(graph: Graph, number: impl Fn(usize) -> f64) -> Case {
    let given = graph.inputs.iter().chain(&graph.weights).map(|&id| {
        let ty = graph.node(id).ty.clone();
        let values = (0..ty.elements()).map(|i| Scalar::from_f64(ty.dtype, number(i)));
        (graph.value_name(id), Tensor::from_scalars(ty.clone(), values).unwrap())
    });
    let inputs = given.collect();
    Case { tolerances: vec![0.0; graph.outputs.len()], graph, inputs }
}

/// Reductions with few columns are computed in wider rows, if successive points fit side by side.
#[test]
fn aggregates_of_few_columns() {
    for (lines, length, columns, kernels) in [
        (300, 64, 3, 2),
        (1, 4096, 1, 1),
        (70, 211, 31, 2),
        (600, 2, 63, 2),
        (601, 1, 40, 1),
        (40, 96, 48, 2),
        (65, 128, 64, 1),
    ] {
        // Values for maxima and minima are distinct. Products of odd numbers, which wrap, are never
        // 0.
        let distinct: fn(usize) -> f64 = |i| (i * 7919 % 1_000_003) as f64;
        let odd: fn(usize) -> f64 = |i| 2.0 * small_integer(i) + 1.0;
        let kinds = [
            ("sum", "f32", small_integer as fn(usize) -> f64),
            ("sum", "i32", distinct),
            ("max", "f32", distinct),
            ("min", "i32", distinct),
            ("product", "i32", odd),
        ];
        for (aggregation, dtype, number) in kinds {
            let graph = format!(
                "\
graph case(%0) -> (Y = %3)
%0 = input X : {dtype}[{lines}, {length}, {columns}]
%1 = contract {aggregation} [c] (y: 0..{lines}, x: 0..{length}, c: 0..{columns}) {{ v0 = %0[y, x, c]; yield v0 }} : {dtype}[{columns}]
%2 = constant 1 : {dtype}[]
%3 = add %1 %2 : {dtype}[{columns}]
"
            );
            let case = exactly(Graph::parse(&graph).unwrap(), number);
            let plan = pipeline::plan(&case.graph, &Profile::cpu()).unwrap();
            assert_eq!(plan.steps.len(), kernels, "{graph}");
            assert_eq!(fault(&case, &Device::cpu()), None, "{graph}");
        }
    }
}

/// Convolutions with windows in the image or in the result. Winograd's algorithm would round values
/// that f32 holds.
#[test]
fn convolutions_of_small_integers() {
    for (shape, kernel, sum) in [
        (
            "1, 28, 28, 32",
            "3, 3, 32, 32",
            "[n, y, x, f] (n: 0..1, y: 0..26, x: 0..26, f: 0..32, i: 0..3, j: 0..3, c: 0..32) { v0 = %2[n, y + i, x + j, c]; v1 = %3[i, j, c, f];",
        ),
        (
            "1, 24, 24, 32",
            "3, 3, 32, 32",
            "[n, y + i, x + j, f] (n: 0..1, y: 0..24, x: 0..24, f: 0..32, i: 0..3, j: 0..3, c: 0..32) { v0 = %2[n, y, x, c]; v1 = %3[i, j, c, f];",
        ),
    ] {
        let graph = format!(
            "\
graph case(%0) -> (Y = %4)
%0 = input X : u8[{shape}]
%1 = weight K : i8[{kernel}]
%2 = cast %0 : i32[{shape}]
%3 = cast %1 : i32[{kernel}]
%4 = contract sum {sum} v2 = mul v0 v1; yield v2 }} : i32[1, 26, 26, 32]
"
        );
        let case = exactly(Graph::parse(&graph).unwrap(), |i| (i * 7919 % 257) as f64);
        assert_eq!(fault(&case, &Device::cpu()), None, "{graph}");
    }
}

/// Whole rows, and parts of rows, at indices known only at run time, some of them out of range.
#[test]
fn rows_at_indices() {
    for (rows, columns, place) in
        [(7, 200, "[@0, d]"), (7, 1500, "[@0, d]"), (7, 131, "[@0, d - 3]"), (200, 7, "[d, @0]")]
    {
        let graph = format!(
            "\
graph case(%0, %1) -> (Y = %4)
%0 = input X : f32[{rows}, {columns}]
%1 = input I : i32[6]
%2 = constant 2 : i32[]
%3 = sub %1 %2 : i32[6]
%4 = contract assign [i, d] (i: 0..6, d: 0..{length}) {{ @0 = %3[i]; v0 = %0{place}; yield v0 }} : f32[6, {length}]
",
            length = rows.max(columns)
        );
        let indices = [-2, 0, 6, 7, 3, i32::MAX - 2].map(|index| f64::from(index + 2));
        let case =
            exactly(Graph::parse(&graph).unwrap(), |i| indices.get(i).copied().unwrap_or(i as f64));
        for device in [Device::named("check").unwrap(), Device::cpu()] {
            assert_eq!(fault(&case, &device), None, "on {}, {graph}", device.name());
        }
    }
}

/// Sums of products of the greatest numbers of few bits, some of which fit f64.
#[test]
fn products_of_small_integers() {
    for (left, right, to, terms) in [
        ("u8", "i8", "i32", 1),
        ("u8", "i8", "i32", 257),
        ("u8", "i8", "i32", 517),
        ("u8", "u8", "u32", 259),
        ("u8", "i8", "i32", 1031),
        ("i16", "i8", "i32", 511),
        ("i16", "i8", "i32", 512),
        ("i16", "i16", "i32", 37),
    ] {
        let graph = format!(
            "\
graph case(%0) -> (P = %4)
%0 = input X : {left}[37, {terms}]
%1 = weight W : {right}[{terms}, 13]
%2 = cast %0 : {to}[37, {terms}]
%3 = cast %1 : {to}[{terms}, 13]
%4 = contract sum [n, u] (n: 0..37, u: 0..13, k: 0..{terms}) {{ v0 = %2[n, k]; v1 = %3[k, u]; v2 = mul v0 v1; yield v2 }} : {to}[37, 13]
"
        );
        // Either saturated, so that sums are as great as they can be, or odd.
        let case = exactly(Graph::parse(&graph).unwrap(), |i| if i % 11 == 0 { 1.0 } else { 1e6 });
        assert_eq!(fault(&case, &Device::cpu()), None, "{graph}");
    }
}

/// Products and padded convolutions of 8-bit integers less zero points of any shape.
#[test]
fn products_less_zero_points() {
    let product = "[n, u] (n: 0..37, u: 0..13, k: 0..91) { v0 = %8[n, k]; v1 = %9[k, u];";
    let convolution = "[n, f, y, x] (n: 0..2, f: 0..13, y: 0..9, x: 0..11, c: 0..7, i: 0..3, j: 0..3) { v0 = %8[n, c, y + i - 1, x + j - 1]; v1 = %9[f, c, i, j];";
    let cases = [
        (product, "[37, 91]", "[91, 13]", ["[37, 1]", "[13]"], "[37, 13]"),
        (convolution, "[2, 7, 9, 11]", "[13, 7, 3, 3]", ["[1]", "[13, 1, 1, 1]"], "[2, 13, 9, 11]"),
    ];
    let types = [("u8", "i8"), ("i8", "u8"), ("u8", "u8"), ("i8", "i8")];
    for (left, right) in types {
        for (sum, x, w, zeros, y) in cases {
            for [of_x, of_w] in [["[]", "[]"], zeros] {
                let graph = format!(
                    "\
graph case(%0, %1) -> (P = %10)
%0 = input X : {left}{x}
%1 = input A : {left}{of_x}
%2 = weight W : {right}{w}
%3 = weight B : {right}{of_w}
%4 = cast %0 : i32{x}
%5 = cast %1 : i32{of_x}
%6 = cast %2 : i32{w}
%7 = cast %3 : i32{of_w}
%8 = sub %4 %5 : i32{x}
%9 = sub %6 %7 : i32{w}
%10 = contract sum {sum} v2 = mul v0 v1; yield v2 }} : i32{y}
"
                );
                let number = |i: usize| ((i * 7919 + 13) % 401) as f64 - 140.0;
                let case = exactly(Graph::parse(&graph).unwrap(), number);
                assert_eq!(fault(&case, &Device::cpu()), None, "{graph}");
            }
        }
    }
}

/// Transposed convolutions of any stride and length with channels-first results.
#[test]
fn transposed_convolutions() {
    for (stride, taps, before, length) in [
        (2, 4, 1, 24),
        (2, 3, 0, 25),
        (2, 3, 1, 23),
        (3, 3, 0, 36),
        (3, 5, 2, 34),
        (2, 2, 0, 23),
        (1, 3, 1, 12),
        (4, 2, 0, 46),
    ] {
        let graph = format!(
            "\
graph case(%0) -> (Y = %2)
%0 = input X : f32[2, 9, 7, 12]
%1 = weight K : f32[9, 10, {taps}, {taps}]
%2 = contract sum [n, f, {stride}*y + i - {before}, {stride}*x + j - {before}] (n: 0..2, f: 0..10, y: 0..7, i: 0..{taps}, x: 0..12, j: 0..{taps}, c: 0..9) {{ v0 = %0[n, c, y, x]; v1 = %1[c, f, i, j]; v2 = mul v0 v1; yield v2 }} : f32[2, 10, {}, {length}]
",
            7 * stride + 1
        );
        let case = exactly(Graph::parse(&graph).unwrap(), small_integer);
        assert_eq!(fault(&case, &Device::cpu()), None, "{graph}");
        let plan = pipeline::plan(&case.graph, &Profile::cpu()).unwrap();
        let is_product = |routine: &Routine| {
            let Work::Nest(nest) = &routine.work else { return false };
            nest.roles().is_some_and(|roles| !roles.batch.contains(&(nest.free - 1)))
        };
        assert!(plan.routines.iter().any(is_product), "{graph}");
    }
}
