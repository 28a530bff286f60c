//! Every operation on every type.

use super::*;

/// A nest without axes but one, whose epilogue is `program` over as many loads as it has operands.
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
        position: None,
        body: Program::default(),
        inner: Vec::new(),
        epilogue: program,
    }
}

/// Every operation on every type, and every cast, at values near and far.
#[test]
fn every_operation_equals_its_definition() {
    let values =
        [0.0, 1.0, -1.0, 2.0, 0.5, -0.75, 3.0, 7.3, -8.0, 30.0, 100.0, -300.0, 7e4, 3e9, -1e30, 1e-30, f64::NAN];
    let pairs = || values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b)));
    let load = |program: &mut Program<Leaf>, operand, dtype| {
        let load = Load { operand, offset: Affine::var(0), dynamic: vec![], when: vec![] };
        program.push(Inst::Leaf(Leaf::Load(load)), dtype)
    };
    let check = |mut program: Program<Leaf>, operands: &[&Tensor], result: Value| {
        program.results = vec![result];
        let dtype = program.dtype(result);
        let nest = elementwise(program, operands, dtype);
        let operands: Vec<Tensor> = operands.iter().map(|t| (*t).clone()).collect();
        let (got, want) = (native(&nest, &[], &operands).remove(0), reference(&nest, &[], &operands).remove(0));
        for place in 0..nest.places() {
            let (got, want) = (got.get(place), want.get(place));
            let at: Vec<Scalar> = operands.iter().map(|t| t.get(place)).collect();
            assert!(alike(got, want), "{got:?}, not {want:?}, at {at:?}\n{nest}");
        }
    };
    for dtype in DType::ALL {
        let count = values.len() * values.len();
        let tensor = |scalars: Vec<f64>| {
            let scalars = scalars.into_iter().map(|v| Scalar::from_f64(dtype, v));
            Tensor::from_scalars(TensorType::new(dtype, [count]), scalars).unwrap()
        };
        let (left, right) = (tensor(pairs().map(|p| p.0).collect()), tensor(pairs().map(|p| p.1).collect()));
        for op in UnaryOp::ALL.into_iter().filter(|op| *op != UnaryOp::BitNot || !dtype.is_float()) {
            let mut program = Program::default();
            let a = load(&mut program, 0, dtype);
            let result = program.unary(op, a);
            check(program, &[&left], result);
        }
        use BinaryOp::{BitAnd, BitOr, BitXor, ShiftLeft, ShiftRight};
        let of_bits = [BitAnd, BitOr, BitXor, ShiftLeft, ShiftRight];
        for op in BinaryOp::ALL.into_iter().filter(|op| !of_bits.contains(op) || !dtype.is_float()) {
            let mut program = Program::default();
            let (a, b) = (load(&mut program, 0, dtype), load(&mut program, 1, dtype));
            let result = program.binary(op, a, b);
            check(program.clone(), &[&left, &right], result);
            // With a constant on either side, and choices of what is compared.
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
