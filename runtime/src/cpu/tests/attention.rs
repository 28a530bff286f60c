//! Nests of attention in blocks of any size, also with remainders, against the reference for nests.

use proptest::test_runner::TestRng;
use tile_compiler::interpret::nest;
use tile_compiler::native;
use tile_compiler::pipeline;
use tile_compiler::plan::Work;
use tile_compiler::profile::Profile;

use super::*;
use crate::Model;
use crate::cpu::attention::Attention;
use crate::cpu::memory;

const FORWARD: &str = "
    Z[b, h, t, s: B, H, T, N] = +(Q[b, t, h, d] * K[b, s, h, d]);
    A = Z * 0.25 + Mask;
    Top[b, h, t, 0: B, H, T, 1] = >(A[b, h, t, s]);
    W = exp(A - stop_gradient(Top));
    Sum[b, h, t, 0: B, H, T, 1] = +(W[b, h, t, s]);
    P = W / Sum;
    Y[b, t, h, e: B, T, H, E] = +(P[b, h, t, s] * V[b, s, h, e]);";

const GRADIENTS: &str = "
    L[] = +(Y[b, t, h, e] * Y[b, t, h, e]);
    DQ = grad(L, Q);
    DK = grad(L, K);
    DV = grad(L, V);";

/// Returns the nests of attention in a program of two batches and three heads, with this many rows
/// and points.
fn nests(outputs: &str, statements: &str, rows: usize, points: usize) -> Vec<Nest> {
    let source = format!(
        "function f(Q[B, T, H, D], K[B, N, H, D], V[B, N, H, E], Mask[T, N]) -> ({outputs}) {{ {FORWARD} {statements} }}"
    );
    let model =
        Model::compile(&source).unwrap_or_else(|error| panic!("{}", error.render(&source, false)));
    let device = crate::Device::cpu();
    let shapes =
        [("Q", vec![2, rows, 3, 5]), ("K", vec![2, points, 3, 5]), ("V", vec![2, points, 3, 7])];
    let mut builder = model.on(&device).input("Mask", TensorType::new(DType::F32, [rows, points]));
    for (name, shape) in shapes {
        builder = builder.input(name, TensorType::new(DType::F32, shape));
    }
    let mut graph = builder.network().unwrap().graph;
    pipeline::optimise(&mut graph);
    // A profile under which gradients compute their scores again even for this few rows.
    let profile = Profile { max_buffers: 16, ..Profile::generic() };
    let plan = pipeline::plan(&graph, &profile).unwrap();
    let nest = |work: &Work| match work {
        Work::Nest(nest) if nest.attention().is_some() => Some((**nest).clone()),
        _ => None,
    };
    plan.routines.iter().filter_map(|routine| nest(&routine.work)).collect()
}

#[test]
fn attention_in_blocks() {
    Emulated::each(in_blocks);
}

fn in_blocks() {
    let mut rng = TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
    let mut draw = Draw(&mut rng);
    let mut seen = 0;
    for (rows, points) in [(16, 17), (33, 20), (37, 130)] {
        let turned = "U[b, h, e, t: B, H, E, T] = +(P[b, h, t, s] * V[b, s, h, e]);";
        let forward = [nests("Y", "", rows, points), nests("U", turned, rows, points)].concat();
        for nest in [forward, nests("DQ, DK, DV", GRADIENTS, rows, points)].concat() {
            seen += 1;
            check_program(&nest, false);
            let operands = operands(&mut draw, &nest, 0);
            let aligned: Vec<Register> =
                operands.iter().map(|tensor| register(tensor.bytes())).collect();
            let read: Vec<memory::Operand> =
                aligned.iter().map(|r| memory::Operand::from(r.elements())).collect();
            let rows_of_nest = 0..nest::rows(&nest);
            let expected: Vec<_> = rows_of_nest
                .flat_map(|row| nest::row(&nest, &operands, row, &[]).unwrap())
                .collect();
            for scores in [
                1,
                3 * points,
                5 * points + 1,
                12 * points,
                rows * points,
                4 * rows * points,
                1 << 20,
            ] {
                let attention =
                    native::Attention::in_blocks(&nest, &profile(false), scores).unwrap();
                let attention = Attention::new(&attention);
                let mut written: Vec<Register> = nest
                    .outputs
                    .iter()
                    .map(|o| Register::zeroed(o.ty.elements() * size_of::<f32>()))
                    .collect();
                let into: Vec<memory::Output> =
                    written.iter_mut().map(|r| memory::Output::new(r.elements_mut(), 0)).collect();
                // SAFETY: the plan has verified the nest, and the outputs are borrowed here alone.
                unsafe { attention.run(&[], &read, &into) };
                drop(into);
                let found = nest
                    .outputs
                    .iter()
                    .zip(&written)
                    .map(|(output, register)| tensor(output, register));
                let found: Vec<Tensor> = found.collect();
                for element in &expected {
                    let (value, expected) =
                        (found[element.output].get(element.position), element.value.value);
                    assert!(
                        alike(value, expected),
                        "{value:?}, not {expected:?}, in blocks of {scores}:\n{nest}"
                    );
                }
            }
        }
    }
    assert_eq!(seen, 18, "nests of attention");
}
