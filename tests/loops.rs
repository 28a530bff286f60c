//! Products in loops. A factor that a loop does not change is prepared once for all its turns, so
//! the programs here change their factors in every way: never, in each turn, in each turn of an
//! outer loop, and after the loop, as training changes weights.

mod common;

use common::golden::{difference, hashed};
use tile_compiler::dtype::DType;
use tile_compiler::tensor::{Tensor, TensorType};
use tile_runtime::{Device, Model};

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
    let ty = |shape: &[usize]| TensorType::new(DType::F32, shape);
    let inputs: [(&str, Tensor); 3] = [
        ("First", hashed("First", &ty(&[rows, size]), -1.0, 1.0)),
        ("Factor", hashed("Factor", &ty(&[size, size]), -0.3, 0.3)),
        ("S", hashed("S", &ty(&[3]), 0.5, 1.5)),
    ];
    for (name, body) in PROGRAMS {
        let source = format!(
            "{TIMES} model Looped(First[N, K], Factor[K, K], S[T]) -> (Y) {{ H = First; A = Factor; {body} Y = H; }}"
        );
        let run = |device: &str| {
            let device = Device::named(device).unwrap();
            let model = Model::compile(&source).unwrap_or_else(|error| panic!("{name}: {error}"));
            let mut session = model.on(&device);
            for (name, value) in &inputs {
                session = session.input(*name, value.ty().clone());
            }
            let mut session = session.build().unwrap();
            // The second run must not use what the first one prepared.
            session.run(inputs.iter().map(|(name, value)| (*name, value))).unwrap();
            let other = hashed("Other", inputs[1].1.ty(), -0.3, 0.3);
            let again = [("First", &inputs[0].1), ("Factor", &other), ("S", &inputs[2].1)];
            session.run(again).unwrap().remove("Y").unwrap()
        };
        assert_eq!(difference(&run("cpu"), &run("reference")), None, "{name}");
    }
}
