use super::*;
use std::fmt::Debug;

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| i as f32 + 1.0).collect()
}

#[test]
fn gathers_with_any_step() {
    let data = numbers(100);
    for step in -6..7_i64 {
        for length in [0, 1, 2, 5, 16] {
            let start = if step < 0 { 99 } else { 0 };
            let mut out = vec![0.0; length];
            gather_strided(&data, start, step, &mut out);
            let want: Vec<f32> =
                (0..length as i64).map(|i| data[(start + i * step) as usize]).collect();
            assert_eq!(out, want, "step {step}");
        }
    }
}

#[test]
fn tables_with_rows_and_columns_exchanged() {
    for columns in (1..20).chain([33, 64]) {
        for rows in [1, 2, 7, 8, 13, 16, 35] {
            let step = rows + 3;
            let data = numbers(5 + columns * step);
            for steps in
                [[1, step], [step, 1], [2, step]].map(|steps| steps.map(|step| step as i64))
            {
                let [rows, columns] =
                    if steps[0] == step as i64 { [columns, rows] } else { [rows, columns] };
                let rows = rows.div_ceil(steps[0].min(2) as usize);
                let mut out = vec![0.0; rows * columns];
                gather_table(&data, 5, steps, columns, &mut out);
                let at =
                    |i: usize, j: usize| data[5 + i * steps[0] as usize + j * steps[1] as usize];
                let want: Vec<f32> =
                    (0..rows * columns).map(|n| at(n / columns, n % columns)).collect();
                assert_eq!(out, want, "{rows} rows, {columns} columns, steps {steps:?}");
                let byte = |x: &f32| (*x as usize % 251) as u8;
                let bytes: Vec<u8> = data.iter().map(byte).collect();
                let mut out = vec![0; rows * columns];
                gather_table(&bytes, 5, steps, columns, &mut out);
                assert!(out.iter().zip(&want).all(|(out, want)| *out == byte(want)));
            }
        }
    }
}

#[test]
fn what_is_moved_out_of_the_data_is_zero() {
    let data = numbers(10);
    for moves in [
        vec![],
        vec![3],
        vec![-1],
        vec![2, 2, 2],
        vec![8, 8, 8],
        vec![-1, -1, -1],
        vec![4, -9, 2],
        vec![2, 5, 2],
        vec![0, 9, -1, i64::MAX - 40, i64::MIN, 1 << 32, 10, 3],
        (0..19).map(|i| i * 7 % 12 - 1).collect(),
    ] {
        for step in [-1, 0, 1, 2] {
            moved(&data, step, &moves);
            let words: Vec<i32> = moves.iter().map(|by| *by as i32).collect();
            moved(&data, step, &words);
            moved(&data.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>(), step, &words);
            moved(&data.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>(), step, &moves);
            moved(&data.iter().map(|x| *x as u8).collect::<Vec<u8>>(), step, &moves);
        }
    }
}

/// Compares [`gather_moved`] with its definition.
fn moved<T: Number + Debug, M: Number + Debug>(data: &[T], step: i64, moves: &[M]) {
    let mut out = vec![data[7]; moves.len()];
    gather_moved(data, 1, step, moves, &mut out);
    let at = |(i, by): (usize, &M)| {
        usize::try_from((1 + i as i64 * step).wrapping_add(by.to_i64())).ok()
    };
    let element = |place| at(place).and_then(|at| data.get(at)).copied().unwrap_or_default();
    let want: Vec<T> = moves.iter().enumerate().map(element).collect();
    assert_eq!(out, want, "{moves:?}, step {step}");
}

#[test]
fn rows_that_move_by_their_columns() {
    let data = numbers(200);
    for columns in [1, 3, 8, 21] {
        let by_column: Vec<i64> = (0..columns).map(|j| (j * 7 % 12) as i64 - 3).collect();
        for (moves, steps) in [(vec![], [3, 1]), (vec![2], [3, 1]), (vec![9, -4, 0, 300], [11, 2])]
        {
            let mut out = vec![data[7]; moves.len() * columns];
            gather_rows(&data, 1, steps, &moves, &by_column, &mut out);
            let at = |i: usize, j: usize| {
                1 + i as i64 * steps[0] + moves[i] + j as i64 * steps[1] + by_column[j]
            };
            let element = |n: usize| {
                let at = usize::try_from(at(n / columns, n % columns)).ok();
                at.and_then(|at| data.get(at)).copied().unwrap_or_default()
            };
            let want: Vec<f32> = (0..out.len()).map(element).collect();
            assert_eq!(out, want, "{columns} columns, {moves:?}, steps {steps:?}");
        }
    }
}
