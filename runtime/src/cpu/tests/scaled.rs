//! Sums of products with scaled 8-bit integers, which are read where they are.

use super::*;
use tile_compiler::native::ScaledDots;

/// The zero of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Zero {
    None,
    Constant,
    Loaded,
}

/// Returns `Y[n] = +(X[b, j] * ((Q[n, b, j] - Z[n, b]) * S[n, b]))`, over sizes of n, b and j.
fn vector_product(sizes: [usize; 3], integers: DType, zero: Zero) -> Nest {
    let [n, b, j] = sizes;
    let affine = |terms: &[(usize, i64)]| Affine::new(terms.to_vec(), 0).unwrap();
    let (row, block) = ((b * j) as i64, j as i64);
    let mut body = Program::default();
    let mut load = |operand: usize, dtype, offset: Affine| {
        let load = Load { operand, offset, dynamic: vec![], when: vec![] };
        body.push(Inst::Leaf(Leaf::Load(load)), dtype)
    };
    let x = load(0, DType::F32, affine(&[(1, block), (2, 1)]));
    let q = load(1, integers, affine(&[(0, row), (1, block), (2, 1)]));
    let of_blocks = affine(&[(0, b as i64), (1, 1)]);
    let s = load(2, DType::F32, of_blocks.clone());
    let z = (zero == Zero::Loaded).then(|| load(3, DType::F32, of_blocks));
    let mut steps = body.cast(q, DType::F32);
    let z = z.or_else(|| (zero == Zero::Constant).then(|| body.constant(Scalar::f32(8.0))));
    if let Some(z) = z {
        steps = body.binary(BinaryOp::Sub, steps, z);
    }
    let weight = body.binary(BinaryOp::Mul, steps, s);
    body.results = vec![body.binary(BinaryOp::Mul, x, weight)];
    let mut epilogue = Program::default();
    let sum = epilogue.push(Inst::Leaf(Leaf::Accumulator), DType::F32);
    epilogue.results = vec![sum];
    let axes: Vec<Axis> = [("n", n), ("b", b), ("j", j)]
        .map(|(name, extent)| Axis { name: name.into(), extent })
        .to_vec();
    let f32 = |shape: &[usize]| TensorType::new(DType::F32, shape);
    let scales = f32(&[n, b]);
    let mut operands = vec![f32(&[b, j]), TensorType::new(integers, [n, b, j]), scales.clone()];
    operands.extend((zero == Zero::Loaded).then_some(scales));
    Nest {
        name: "scaled".into(),
        outputs: vec![output(DType::F32, &axes, 0..1)],
        free: 1,
        rows: 1,
        axes,
        loops: 0,
        derived: Vec::new(),
        guards: Vec::new(),
        operands,
        aggregation: Some(Aggregation::Sum),
        in_bytes: Vec::new(),
        position: None,
        rank: None,
        body,
        inner: Vec::new(),
        epilogue,
    }
}

#[test]
fn rows_of_scaled_integers() {
    for sizes in [[64, 3, 32], [65, 1, 96], [131, 5, 64], [64, 2, 48], [3, 4, 32], [64, 1, 32]] {
        for (integers, zero) in [
            (DType::U8, Zero::None),
            (DType::U8, Zero::Constant),
            (DType::I8, Zero::Constant),
            (DType::I8, Zero::Loaded),
        ] {
            let nest = vector_product(sizes, integers, zero);
            nest.verify().unwrap();
            check_program(&nest, true);
            // Sums of these numbers are exact, in any order.
            let operands: Vec<Tensor> = (nest.operands.iter().enumerate())
                .map(|(number, ty)| {
                    let scalar =
                        |i: usize| Scalar::from_i64(ty.dtype, (i * 7 + number) as i64 % 11 - 5);
                    Tensor::from_scalars(ty.clone(), (0..ty.elements()).map(scalar)).unwrap()
                })
                .collect();
            let program = NativeProgram::new(&nest, &profile(false), &|_| true);
            let reads_in_place = matches!(&program.implementation,
                Implementation::Reduction(sum) if sum.scaled_dots().is_some());
            let suits = sizes[0] >= 64 && sizes[2].is_multiple_of(ScaledDots::UNIT);
            assert_eq!(reads_in_place, suits, "{program}");
            let want = reference(&nest, &[], &operands);
            assert!(native(&nest, &[], &operands) == want, "{sizes:?} {integers} {zero:?}");
        }
    }
}
