//! Values in loops. A factor of products that a loop does not change is prepared once for all its
//! turns, so the programs here change their factors in every way: never, in each turn, in each turn
//! of an outer loop, and after the loop, as training changes weights. What a turn changes in part
//! is written in place, so other programs read such values in every way.

mod common;

use common::golden::{difference, hashed};
use tile_compiler::dtype::DType;
use tile_compiler::tensor::{Tensor, TensorType};
use tile_runtime::{Device, Model};

type Input = (&'static str, Tensor);

fn input(name: &'static str, shape: &[usize], low: f64, high: f64) -> Input {
    (name, hashed(name, &TensorType::new(DType::F32, shape), low, high))
}

/// Runs a program twice, with `again` the second time, and returns the outputs of the second run:
/// it must not use what the first run left.
fn second_run(source: &str, device: &str, inputs: &[Input], again: &[Input]) -> Vec<Tensor> {
    let device = Device::named(device).unwrap();
    let model = Model::compile(source).unwrap_or_else(|error| panic!("{error}\n{source}"));
    let mut session = model.on(&device);
    for (name, value) in inputs {
        session = session.input(*name, value.ty().clone());
    }
    let mut session = session.build().unwrap();
    let mut run = |inputs: &[Input]| session.run(inputs.iter().map(|(name, value)| (*name, value)));
    run(inputs).unwrap();
    let outputs = run(again).unwrap();
    outputs.iter().map(|(_, value)| value.clone()).collect()
}

/// `H · A` of the matrices H[N, K] and A[K, K].
const TIMES: &str =
    "function times(H[N, K], A[K, K]) -> (Y) { Y[n, j: N, K] = +(H[n, k] * A[k, j]); }";

const PROGRAMS: [(&str, &str); 5] = [
    ("never changed", "scan P in S along 0 { H = times(H, A) + P; H = times(H, A); }"),
    ("changed in each turn", "scan P in S along 0 { A = A * P; H = times(H, A) + P; }"),
    (
        "changed in an outer loop",
        "scan P in S along 0 { A = A * P; scan Q in S along 0 { H = times(H, A) + Q; } }",
    ),
    (
        "computed in an outer loop from what an inner one carries",
        "scan P in S along 0 { scan Q in S along 0 { A = A * Q; } B = A + P; scan Q in S along 0 { H = times(H, B) + Q; } }",
    ),
    (
        "of two loops",
        "scan P in S along 0 { H = times(H, A) + P; } A = 0.5 * A; scan P in S along 0 { H = times(H, A) + P; }",
    ),
];

#[test]
fn factors_are_those_of_the_turn() {
    // The products are large enough to be packed.
    let (rows, size) = (24, 33);
    let inputs = [
        input("First", &[rows, size], -1.0, 1.0),
        input("Factor", &[size, size], -0.3, 0.3),
        input("S", &[3], 0.5, 1.5),
    ];
    let mut again = inputs.clone();
    again[1].1 = hashed("Other", inputs[1].1.ty(), -0.3, 0.3);
    for (name, body) in PROGRAMS {
        let source = format!(
            "{TIMES} model Looped(First[N, K], Factor[K, K], S[T]) -> (Y) {{ H = First; A = Factor; {body} Y = H; }}"
        );
        let [got, want] = ["cpu", "reference"].map(|on| second_run(&source, on, &inputs, &again));
        assert_eq!(difference(&got[0], &want[0]), None, "{name}");
    }
}

/// Changes of a part of `C`, at each turn another, by a row `K` and the turn's number `P`.
const CHANGES: [(&str, &str); 7] = [
    ("a row", "C = index([S, 1], 0) == P ? K : C;"),
    ("all rows but one", "C = index([S, 1], 0) == P ? C : K;"),
    ("some rows", "C = index([S, 1], 0) < P ? K * P : C;"),
    ("all rows or none", "C = P > 1.0 ? C + K : C;"),
    ("columns", "C = index([1, D], 1) == P ? K : C;"),
    ("what is small", "C = C < 0.1 * P ? K : C;"),
    ("a row that is read twice", "C = index([S, 1], 0) == P ? K + C : C;"),
];

/// Other uses of the value that `CHANGE` changes.
const USES: [(&str, &str); 10] = [
    ("made before", "C = 2.0 * Given; scan P in Turns along 0 { CHANGE } Y = C;"),
    ("given", "C = Given; scan P in Turns along 0 { CHANGE } Y = C;"),
    ("constant", "C = fill([S, D], 0.5); scan P in Turns along 0 { CHANGE } Y = C;"),
    (
        "made before, read in the loop",
        "A = 2.0 * Given; C = A; scan P in Turns along 0 { CHANGE yield B = C + A; } Y = C; Z = B;",
    ),
    (
        "made before, read after the loop",
        "A = 2.0 * Given; C = A; scan P in Turns along 0 { CHANGE } Y = C; Z = 3.0 * A;",
    ),
    (
        "read before it is changed, and after",
        "C = Given + 1.0; scan P in Turns along 0 { A = C * 0.5; CHANGE yield B = A + C; } Y = B;",
    ),
    (
        "kept for the next turn",
        "C = Given + 1.0; A = C; scan P in Turns along 0 { yield B = A; A = C; CHANGE } Y = C + A; Z = B;",
    ),
    (
        "two of the same first value",
        "A = Given * Given; B = A; C = A; scan P in Turns along 0 { CHANGE B = index([S, 1], 0) == S - 1 - P ? K : B; } Y = C; Z = B;",
    ),
    (
        "changed by two loops",
        "C = Given + 1.0; scan P in Turns along 0 { CHANGE } Y = C; scan P in Turns along 0 { C = C + 1.0; CHANGE } Z = C;",
    ),
    (
        "changed in an outer loop, and in loops within it",
        "C = Given + 1.0; scan Q in Turns along 0 { C = C + Q; scan P in Turns along 0 { CHANGE } scan P in Turns along 0 { CHANGE } } Y = C;",
    ),
];

/// Carries in place give bit for bit what two buffers would.
#[test]
fn what_a_turn_changes_in_part_is_that_of_the_turn() {
    // The first size is that of a value which is copied before a loop, the others are odd.
    for (size, turns) in [([24, 65], 3), ([5, 3], 2), ([1, 2000], 1), ([7, 17], 8)] {
        let [rows, columns] = size;
        let numbers: Vec<f32> = (0..turns).map(|turn| turn as f32).collect();
        let inputs = [
            input("Given", &size, -1.0, 1.0),
            input("K", &[columns], -1.0, 1.0),
            ("Turns", Tensor::from_f32([turns], &numbers).unwrap()),
        ];
        for (changed, change) in CHANGES {
            for (used, body) in USES {
                let body = body.replace("CHANGE", change);
                let outputs = if body.contains("Z =") { "Y, Z" } else { "Y" };
                let source = format!(
                    "model Looped(Given[S, D], K[D], Turns[T]) -> ({outputs}) {{ {body} }}"
                );
                let run = |device| second_run(&source, device, &inputs, &inputs);
                let want = run("reference");
                for device in ["cpu", "check"] {
                    assert_eq!(run(device), want, "{changed}, {used}, {rows} rows on `{device}`");
                }
            }
        }
    }
}
