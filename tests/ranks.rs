//! The positions of values in order (`argmax[k]`), against a sort, on rows of any length.

mod common;

use std::cmp::Ordering;

use common::generate::config;
use proptest::prelude::*;
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType};
use tile_runtime::{Device, Model};

/// Devices that sort in different ways: by a sort, by selection, and by kernels.
const DEVICES: [&str; 3] = ["reference", "cpu", "check"];

fn dtype() -> impl Strategy<Value = DType> {
    prop_oneof![
        3 => Just(DType::F32),
        1 => Just(DType::F16),
        1 => Just(DType::I32),
        1 => Just(DType::U8),
        1 => Just(DType::Bool),
    ]
}

/// Returns few different values, so that many are equal; of floats some are NaN or infinite.
fn values(dtype: DType, count: usize, seed: u64) -> Vec<Scalar> {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0];
    let mut value = || match next() % 16 {
        0 if dtype.is_float() => special[next() % special.len()],
        _ => {
            (next() % 100) as f64
                - if dtype.is_float() || dtype.is_signed_integer() { 50.0 } else { 0.0 }
        }
    };
    (0..count).map(|_| Scalar::from_f64(dtype, value())).collect()
}

/// Returns the positions of the first `count` values in order, with 0 for those that are missing.
fn expected(values: &[f64], greatest: bool, count: usize) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (values[a], values[b]);
        match (a.is_nan(), b.is_nan()) {
            (false, false) if greatest => b.partial_cmp(&a).unwrap_or(Ordering::Equal),
            (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            (a, b) => a.cmp(&b),
        }
    });
    (0..count).map(|rank| order.get(rank).map_or(0.0, |&position| position as f64)).collect()
}

proptest! {
    #![proptest_config(config(48))]

    #[test]
    fn positions_are_in_order(
        (rows, length, columns) in prop_oneof![
            4 => (1..4usize, 1..150usize, 1..4usize),
            1 => (1..2usize, 150..3000usize, 1..2usize),
        ],
        count in prop_oneof![3 => 1..9usize, 1 => 9..200usize],
        greatest in any::<bool>(),
        dtype in dtype(),
        seed in any::<u64>(),
    ) {
        let name = if greatest { "argmax" } else { "argmin" };
        let source = format!(
            "function f(X[B, N, A]) -> (Y) {{ Y[k, b, a: {count}, B, A] = {name}[k](X[b, n, a]); }}"
        );
        let given = values(dtype, rows * length * columns, seed);
        let ty = TensorType::new(dtype, [rows, length, columns]);
        let x = Tensor::from_scalars(ty, given.clone()).unwrap();
        let mut wanted = vec![0.0; count * rows * columns];
        for row in 0..rows * columns {
            let (b, a) = (row / columns, row % columns);
            let at = |n: usize| given[(b * length + n) * columns + a].to_f64();
            let of_row: Vec<f64> = (0..length).map(at).collect();
            for (rank, position) in expected(&of_row, greatest, count).into_iter().enumerate() {
                wanted[rank * rows * columns + row] = position;
            }
        }
        for device in DEVICES {
            let model = Model::compile(&source).unwrap();
            let device_of_name = Device::named(device).unwrap();
            let session = model.on(&device_of_name).input("X", x.ty().clone());
            let found = session.build().unwrap().run([("X", &x)]).unwrap();
            prop_assert_eq!(found.get("Y").unwrap().to_f64s(), &wanted[..], "{}", device);
        }
    }
}
