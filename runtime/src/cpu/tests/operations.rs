//! Every operation on every type.

use super::*;

/// Returns a nest with one axis, whose epilogue is `program` over one load for each operand.
fn elementwise(program: Program<Leaf>, operands: &[&Tensor], result: DType) -> Nest {
    let places = operands[0].ty().elements();
    let axes = vec![Axis { name: "i".into(), extent: places }];
    Nest {
        name: "elementwise".into(),
        outputs: vec![output(result, &axes, [0])],
        axes,
        free: 1,
        rows: 1,
        loops: 0,
        derived: Vec::new(),
        guards: Vec::new(),
        operands: operands.iter().map(|t| t.ty().clone()).collect(),
        aggregation: None,
        in_bytes: Vec::new(),
        position: None,
        rank: None,
        body: Program::default(),
        inner: Vec::new(),
        epilogue: program,
    }
}

/// The operands that operations are tested with, each with each.
#[rustfmt::skip]
const VALUES: [f64; 17] = [
    0.0, 1.0, -1.0, 2.0, 0.5, -0.75, 3.0, 7.3, -8.0, 30.0, 100.0, -300.0,
    7e4, 3e9, -1e30, 1e-30, f64::NAN,
];

/// Tests every operation on every type, and every cast, at values near and far.
#[test]
fn every_operation_equals_its_definition() {
    let pairs = || VALUES.iter().flat_map(|a| VALUES.iter().map(move |b| (*a, *b)));
    let load = |program: &mut Program<Leaf>, operand, dtype| {
        let load = Load { operand, offset: Affine::var(0), dynamic: vec![], when: vec![] };
        program.push(Inst::Leaf(Leaf::Load(load)), dtype)
    };
    let check = |mut program: Program<Leaf>, operands: &[&Tensor], result: Value| {
        program.results = vec![result];
        let dtype = program.dtype(result);
        let nest = elementwise(program, operands, dtype);
        let operands: Vec<Tensor> = operands.iter().map(|t| (*t).clone()).collect();
        let (got, want) =
            (native(&nest, &[], &operands).remove(0), reference(&nest, &[], &operands).remove(0));
        for place in 0..nest.places() {
            let (got, want) = (got.get(place), want.get(place));
            let at: Vec<Scalar> = operands.iter().map(|t| t.get(place)).collect();
            assert!(alike(got, want), "{got:?}, not {want:?}, at {at:?}\n{nest}");
        }
    };
    for dtype in DType::ALL {
        let count = VALUES.len() * VALUES.len();
        let tensor = |scalars: Vec<f64>| {
            let scalars = scalars.into_iter().map(|v| Scalar::from_f64(dtype, v));
            Tensor::from_scalars(TensorType::new(dtype, [count]), scalars).unwrap()
        };
        let (left, right) =
            (tensor(pairs().map(|p| p.0).collect()), tensor(pairs().map(|p| p.1).collect()));
        for op in UnaryOp::ALL.into_iter().filter(|op| *op != UnaryOp::BitNot || !dtype.is_float())
        {
            let mut program = Program::default();
            let a = load(&mut program, 0, dtype);
            let result = program.unary(op, a);
            check(program, &[&left], result);
        }
        use BinaryOp::{BitAnd, BitOr, BitXor, ShiftLeft, ShiftRight};
        let of_bits = [BitAnd, BitOr, BitXor, ShiftLeft, ShiftRight];
        for op in BinaryOp::ALL.into_iter().filter(|op| !of_bits.contains(op) || !dtype.is_float())
        {
            let mut program = Program::default();
            let (a, b) = (load(&mut program, 0, dtype), load(&mut program, 1, dtype));
            let result = program.binary(op, a, b);
            check(program.clone(), &[&left, &right], result);
            // Tests with a constant on either side, and choices of compared values.
            let constant = program.constant(Scalar::from_i64(dtype, 3));
            for (a, b) in [(a, constant), (constant, a)] {
                let result = program.binary(op, a, b);
                check(program.clone(), &[&left, &right], result);
            }
            if op.is_comparison() {
                for (then, otherwise) in [(a, b), (b, a)] {
                    let result = program.select(result, then, otherwise);
                    check(program.clone(), &[&left, &right], result);
                }
            }
        }
        for to in DType::ALL {
            let mut program = Program::default();
            let a = load(&mut program, 0, dtype);
            let result = program.cast(a, to);
            check(program, &[&left], result);
        }
    }
}

/// Tests words that are shifted both ways. They are rotated only if the counts, the type and the
/// other readers allow it.
#[test]
fn shifts_both_ways_equal_their_definition() {
    for dtype in [DType::U32, DType::I32, DType::U64] {
        let words = (0..100)
            .map(|i| Scalar::from_bits(dtype, 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(i + 1)));
        let words = Tensor::from_scalars(TensorType::new(dtype, [100]), words).unwrap();
        for (left, right) in [(13, 19), (31, 1), (13, 18), (0, 32), (32, 0), (40, -8)] {
            for (is_read_again, is_swapped) in [(false, false), (false, true), (true, false)] {
                let mut program = Program::default();
                let load =
                    Load { operand: 0, offset: Affine::var(0), dynamic: vec![], when: vec![] };
                let x = program.push(Inst::Leaf(Leaf::Load(load)), dtype);
                let three = program.constant(Scalar::from_i64(dtype, 3));
                let x = program.binary(BinaryOp::Add, x, three);
                let [left, right] =
                    [left, right].map(|count| program.constant(Scalar::from_i64(dtype, count)));
                let high = program.binary(BinaryOp::ShiftLeft, x, left);
                let low = program.binary(BinaryOp::ShiftRight, x, right);
                let (a, b) = if is_swapped { (low, high) } else { (high, low) };
                let both = program.binary(BinaryOp::BitOr, a, b);
                let with = if is_read_again { low } else { x };
                let result = program.binary(BinaryOp::Sub, with, both);
                program.results = vec![result];
                let nest = elementwise(program, &[&words], dtype);
                let operands = [words.clone()];
                assert_eq!(
                    native(&nest, &[], &operands),
                    reference(&nest, &[], &operands),
                    "{nest}"
                );
            }
        }
    }
}

/// Tests exchanged axes, which are read a table at a time: few and many columns, one row, more than
/// fit a chunk, reversed and repeated rows.
#[test]
fn copies_in_another_order_equal_their_definition() {
    for dtype in [DType::F32, DType::U8, DType::F64] {
        for columns in 1..=9 {
            for (outer, rows) in [(1, 1), (1, 7), (2, 256), (3, 1031), (5, 30)] {
                // The coefficients of row and column in the address, and the first element.
                for (row, column, first) in [
                    (1, rows, 0),
                    (2, 2 * rows, 1),
                    (-1, rows, rows - 1),
                    (0, 1, 3),
                    (1, -rows, rows * (columns - 1)),
                ] {
                    let extents = [("b", outer), ("i", rows), ("j", columns)];
                    let axes = extents
                        .map(|(name, extent)| Axis { name: name.into(), extent: extent as usize });
                    let offset =
                        Affine::new([(0, 2 * rows * columns), (1, row), (2, column)], first)
                            .unwrap();
                    let mut program = Program::default();
                    let load = Load { operand: 0, offset, dynamic: vec![], when: vec![] };
                    let value = program.push(Inst::Leaf(Leaf::Load(load)), dtype);
                    program.results = vec![value];
                    let elements = (2 * rows * columns * outer) as usize + 4;
                    let scalars = (0..elements).map(|i| Scalar::from_i64(dtype, i as i64 % 251));
                    let operand =
                        Tensor::from_scalars(TensorType::new(dtype, [elements]), scalars).unwrap();
                    let nest = Nest {
                        outputs: vec![output(dtype, &axes, 0..3)],
                        axes: axes.to_vec(),
                        free: 3,
                        ..elementwise(program, &[&operand], dtype)
                    };
                    let operands = [operand];
                    assert_eq!(
                        native(&nest, &[], &operands),
                        reference(&nest, &[], &operands),
                        "{nest}"
                    );
                }
            }
        }
    }
}

/// Division by a uniform divisor rounds like division, up to a millionth of a unit, and is exact
/// where the quotient is.
#[test]
fn quotients_by_one_number_are_rounded_right() {
    let mut runner = TestRunner::deterministic();
    let mut draw = Draw(runner.rng());
    let quotients = |x: &[f32], by: f32| {
        let mut out = vec![0.0; x.len()];
        assert!(vector::binary_scalar(BinaryOp::Div, x, by, false, &mut out));
        out
    };
    for _ in 0..20_000 {
        let mut magnitude = |below: usize| {
            let digits = (1 << 23) + draw.below(1 << 23);
            digits as f32 * f32::powi(2.0, draw.below(below) as i32 - below as i32 / 2 - 23)
        };
        let (x, by): (Vec<f32>, f32) = ((0..20).map(|_| magnitude(100)).collect(), magnitude(118));
        for (x, got) in x.iter().zip(quotients(&x, by)) {
            let want = f64::from(*x) / f64::from(by);
            let unit = f64::from(f32::from_bits(got.to_bits() + 1)) - f64::from(got);
            assert!(
                (f64::from(got) - want).abs() <= 0.500_001 * unit,
                "{x:e} / {by:e} = {want:e}, not {got:e}"
            );
        }
        let by = -by.trunc().clamp(1.0, 4095.0);
        let (wholes, far) =
            ([1.0, 2.0, 3.0, 41.0, 4095.0], [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 3e38]);
        assert_eq!(quotients(&wholes.map(|whole| whole * by), by), wholes, "{by}");
        for by in [by, 1.0 / by] {
            let bits = |x: &[f32]| -> Vec<u32> { x.iter().map(|x| x.to_bits()).collect() };
            assert_eq!(
                bits(&quotients(&far[..4], by)),
                bits(&far[..4].iter().map(|x| x / by).collect::<Vec<_>>()),
                "{by}"
            );
        }
        assert_eq!(quotients(&far[4..], 0.01), [f32::INFINITY]);
        assert!(quotients(&[f32::NAN], by)[0].is_nan());
    }
}
