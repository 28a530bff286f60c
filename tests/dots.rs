//! Sums of products along rows that lie anywhere in memory, such as the scores of attention for one
//! query, against sums in f64 and, for products of bytes, against exact ones.

mod common;

use common::generate::config;
use common::golden::hashed;
use proptest::prelude::*;
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType};
use tile_runtime::{Device, Model};

proptest! {
    #![proptest_config(config(48))]

    /// Products of bytes whose last columns fill no register, with the right factor along its rows.
    #[test]
    fn products_of_bytes(
        rows in 1..20usize,
        columns in prop_oneof![
            Just(1usize), Just(17), Just(33), Just(65), Just(97), 1..140usize,
        ],
        size in 1..80usize,
        (left, right) in prop_oneof![
            Just((DType::U8, DType::I8)), Just((DType::I8, DType::U8)), Just((DType::I8, DType::I8)),
        ],
    ) {
        let source = "function f(A[N, K], B[M, K]) -> (Y) {
            Left = as_int(A, 32);
            Right = as_int(B, 32);
            Y[n, m: N, M] = +(Left[n, k] * Right[m, k]);
        }";
        let of = |name: &str, dtype: DType, shape: [usize; 2]| {
            let low = if dtype == DType::U8 { 0.0 } else { -128.0 };
            let values = hashed(name, &TensorType::new(DType::F32, shape), low, low + 256.0);
            let values: Vec<i64> = values.to_f64s().iter().map(|value| value.floor() as i64).collect();
            let scalars = values.iter().map(|&value| Scalar::from_i64(dtype, value));
            (Tensor::from_scalars(TensorType::new(dtype, shape), scalars).unwrap(), values)
        };
        let (a, of_a) = of("A", left, [rows, size]);
        let (b, of_b) = of("B", right, [columns, size]);
        let mut expected = Vec::new();
        for (n, m) in (0..rows).flat_map(|n| (0..columns).map(move |m| (n, m))) {
            let term = |k: usize| of_a[n * size + k] * of_b[m * size + k];
            expected.push((0..size).map(term).sum::<i64>() as f64);
        }
        let model = Model::compile(source).unwrap();
        let device = Device::cpu();
        let session = model.on(&device).input("A", a.ty().clone()).input("B", b.ty().clone());
        let found = session.build().unwrap().run([("A", &a), ("B", &b)]).unwrap();
        prop_assert_eq!(found.get("Y").unwrap().to_f64s(), expected);
    }

    /// Products of f16 and bf16 in f32, with each factor along its rows or across them, and the
    /// left one at places shifted past its end.
    #[test]
    fn products_of_halves(
        rows in 1..40usize,
        columns in prop_oneof![Just(16usize), Just(33), Just(64), 1..140usize],
        size in prop_oneof![4 => 1..80usize, 1 => 80..600usize],
        types in [0..3usize, 0..3usize],
        across in [any::<bool>(), any::<bool>()],
        shift in 0..3usize,
    ) {
        let index = |across: bool, outer: &str| {
            if across { format!("k, {outer}") } else { format!("{outer}, k") }
        };
        let left = index(across[0], &format!("n + {shift}"));
        let right = index(across[1], "m");
        let source = format!(
            "function f(A{of_a}, B{of_b}) -> (Y) {{
                Left = as_float(A, 32);
                Right = as_float(B, 32);
                Y[n, m: N, M] = +(Left[{left}] * Right[{right}]);
            }}",
            of_a = if across[0] { "[K, N]" } else { "[N, K]" },
            of_b = if across[1] { "[K, M]" } else { "[M, K]" },
        );
        let of = |name: &str, number: usize, outer: usize| {
            let shape = if across[number] { [size, outer] } else { [outer, size] };
            let dtype = [DType::F16, DType::BF16, DType::F32][types[number]];
            let values = hashed(name, &TensorType::new(DType::F32, shape), -1.0, 1.0).to_f64s();
            let values = values.into_iter().map(|value| Scalar::from_f64(dtype, value));
            Tensor::from_scalars(TensorType::new(dtype, shape), values).unwrap()
        };
        let (a, b) = (of("A", 0, rows), of("B", 1, columns));
        let (of_a, of_b) = (a.to_f64s(), b.to_f64s());
        let at = |across: bool, values: &[f64], outer: usize, count: usize, k: usize| {
            values[if across { k * count + outer } else { outer * size + k }]
        };
        let mut expected = Vec::new();
        for (n, m) in (0..rows).flat_map(|n| (0..columns).map(move |m| (n + shift, m))) {
            let term = |k: usize| {
                at(across[0], &of_a, n, rows, k) * at(across[1], &of_b, m, columns, k)
            };
            expected.push(if n < rows { (0..size).map(term).sum::<f64>() } else { 0.0 });
        }
        let model = Model::compile(&source).unwrap();
        let device = Device::cpu();
        let session = model.on(&device).input("A", a.ty().clone()).input("B", b.ty().clone());
        let found = session.build().unwrap().run([("A", &a), ("B", &b)]).unwrap();
        // Each of at most `size` terms is below 1.
        let tolerance = size as f64 * 0.5f64.powi(22);
        for (found, expected) in found.get("Y").unwrap().to_f64s().iter().zip(&expected) {
            prop_assert!((found - expected).abs() <= tolerance, "{found}, not {expected}");
        }
    }

    #[test]
    fn scores_of_one_query(
        (heads, places) in prop_oneof![(1..4usize, 1..200usize), (8..20usize, 8..20usize)],
        size in prop_oneof![4 => 1..150usize, 1 => 150..1500usize],
        dtype in prop_oneof![3 => Just(DType::F32), 1 => Just(DType::F64), 1 => Just(DType::F16)],
        squares in any::<bool>(),
    ) {
        let body = if squares { "K[s, h, d] * K[s, h, d]" } else { "Q[h, d] * K[s, h, d]" };
        let source = format!("function f(Q[H, D], K[S, H, D]) -> (Y) {{ Y[h, s: H, S] = +({body}); }}");
        let of = |name: &str, shape: &[usize]| {
            let ty = TensorType::new(DType::F32, shape);
            let values = hashed(name, &ty, -1.0, 1.0).to_f64s();
            let values = values.into_iter().map(|value| Scalar::from_f64(dtype, value));
            Tensor::from_scalars(TensorType::new(dtype, shape), values).unwrap()
        };
        let (q, k) = (of("Q", &[heads, size]), of("K", &[places, heads, size]));
        let (of_q, of_k) = (q.to_f64s(), k.to_f64s());
        let mut expected = Vec::new();
        for (h, s) in (0..heads).flat_map(|h| (0..places).map(move |s| (h, s))) {
            let at = |d: usize| of_k[(s * heads + h) * size + d];
            let left = |d: usize| if squares { at(d) } else { of_q[h * size + d] };
            expected.push((0..size).map(|d| left(d) * at(d)).sum::<f64>());
        }
        let model = Model::compile(&source).unwrap();
        let device = Device::cpu();
        let session = model.on(&device).input("Q", q.ty().clone()).input("K", k.ty().clone());
        let found = session.build().unwrap().run([("Q", &q), ("K", &k)]).unwrap();
        // Each of at most `size` terms is below 1, and the sum is rounded to the type.
        let bits = match dtype { DType::F16 => 10, DType::F64 => 40, _ => 22 };
        let tolerance = size as f64 * 0.5f64.powi(bits);
        for (found, expected) in found.get("Y").unwrap().to_f64s().iter().zip(&expected) {
            prop_assert!((found - expected).abs() <= tolerance, "{found}, not {expected}");
        }
    }
}
