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
            let sizes = [
                1,
                3 * points,
                5 * points + 1,
                12 * points,
                rows * points,
                4 * rows * points,
                1 << 20,
            ];
            equals_the_reference(&nest, &operands, &sizes);
        }
    }
    assert_eq!(seen, 18, "nests of attention");
}

/// Checks a nest in blocks of about so many scores.
fn equals_the_reference(nest: &Nest, operands: &[Tensor], sizes: &[usize]) {
    let aligned: Vec<Register> = operands.iter().map(|tensor| register(tensor.bytes())).collect();
    let read: Vec<memory::Operand> =
        aligned.iter().map(|r| memory::Operand::from(r.elements())).collect();
    let rows = 0..nest::rows(nest);
    let expected: Vec<_> =
        rows.flat_map(|row| nest::row(nest, operands, row, &[]).unwrap()).collect();
    for &scores in sizes {
        let attention = native::Attention::in_blocks(nest, &profile(false), scores).unwrap();
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
        let found =
            nest.outputs.iter().zip(&written).map(|(output, register)| tensor(output, register));
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

/// Returns the nest of one head's attention with this mask, an expression of the row `T0` and the
/// point `S0`, and this score of hidden points.
fn masked(mask: &str, score: &str, rows: usize, points: usize) -> Nest {
    let source = format!(
        "function f(Q[T, D], K[N, D], V[N, E], Given[T, N]) -> (Y) {{
            Z[t, s: T, N] = +(Q[t, d] * K[s, d]);
            T0 = index([T, N], 0);
            S0 = index([T, N], 1);
            A = {mask} ? Z : {score};
            Top[t, 0: T, 1] = >(A[t, s]);
            W = exp(A - Top);
            Sum[t, 0: T, 1] = +(W[t, s]);
            P = W / Sum;
            Y[t, e: T, E] = +(P[t, s] * V[s, e]);
        }}"
    );
    let model =
        Model::compile(&source).unwrap_or_else(|error| panic!("{}", error.render(&source, false)));
    let device = crate::Device::cpu();
    let mut builder =
        model.on(&device).input("Given", TensorType::new(DType::Bool, [rows, points]));
    for (name, shape) in [("Q", [rows, 5]), ("K", [points, 5]), ("V", [points, 7])] {
        builder = builder.input(name, TensorType::new(DType::F32, shape));
    }
    let mut graph = builder.network().unwrap().graph;
    pipeline::optimise(&mut graph);
    let plan = pipeline::plan(&graph, &Profile::cpu()).unwrap();
    let nest = |work: &Work| match work {
        Work::Nest(nest) if nest.attention().is_some() => Some((**nest).clone()),
        _ => None,
    };
    plan.routines.iter().find_map(|routine| nest(&routine.work)).unwrap()
}

/// Masks that hide the last points of rows. Blocks leave them out where they add nothing.
#[test]
fn hidden_points() {
    let masks = [
        "T0 >= S0",
        "S0 <= T0 + 13",
        "S0 - T0 < 20 & T0 - S0 <= 9",
        "(S0 <= T0) & Given",
        "2 * T0 > S0",
        // The first rows have no point that counts.
        "S0 < T0 - 3",
    ];
    // The last score is greater than others, so that hidden points count.
    for (number, score) in ["-1000000000.0", "-1.0 / 0.0", "-2.0"].into_iter().enumerate() {
        for mask in masks {
            for (rows, points) in [(150, 163), (139, 131)] {
                let nest = masked(mask, score, rows, points);
                let attention = native::Attention::in_blocks(&nest, &profile(false), 1 << 16);
                let is_shorter = |block: &native::Block| block.shorter.is_some();
                assert!(attention.unwrap().blocks.iter().any(is_shorter), "{nest}");
                check_program(&nest, false);
                let mut rng =
                    TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
                let mut operands = operands(&mut Draw(&mut rng), &nest, 0);
                equals_the_reference(&nest, &operands, &[17 * points, 1 << 16]);
                if number == 0 {
                    // An infinite value at a point that most rows do not see.
                    let value = &mut operands[value_operand(&nest)];
                    let mut scalars: Vec<Scalar> = value.scalars().collect();
                    scalars[points * 7 - 3] = Scalar::f32(f32::INFINITY);
                    *value = Tensor::from_scalars(value.ty().clone(), scalars).unwrap();
                    equals_the_reference(&nest, &operands, &[1 << 16]);
                }
            }
        }
    }
}

/// Returns the number of the operand with the values.
fn value_operand(nest: &Nest) -> usize {
    nest.operands.iter().position(|ty| ty.shape.last() == Some(&7)).unwrap()
}

/// Other masks leave nothing out.
#[test]
fn points_that_are_not_hidden() {
    for (mask, score) in
        [("T0 <= S0", "-1000.0"), ("T0 >= S0 | Given", "-1000.0"), ("Given", "-1000.0")]
    {
        let nest = masked(mask, score, 140, 140);
        let attention = native::Attention::in_blocks(&nest, &profile(false), 1 << 16).unwrap();
        assert!(attention.blocks.iter().all(|block| block.shorter.is_none()), "{nest}");
    }
    let added = masked("T0 >= S0", "(0.0 - 1000.0) * Z", 140, 140);
    let attention = native::Attention::in_blocks(&added, &profile(false), 1 << 16).unwrap();
    assert!(attention.blocks.iter().all(|block| block.shorter.is_none()), "{added}");
}
