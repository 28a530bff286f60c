//! Copies: from several operands in pieces, and of rows at run-time indices.

use super::*;

/// Returns the bits of all elements, to compare copies exactly.
fn bits(tensors: &[Tensor]) -> Vec<Vec<u64>> {
    tensors.iter().map(|tensor| tensor.scalars().map(Scalar::bits).collect()).collect()
}

/// Checks that a nest's native program computes exactly what its definition says.
fn check_exactly(nest: &Nest, operands: &[Tensor]) -> NativeProgram {
    nest.verify().unwrap();
    check_program(nest, false);
    let want = bits(&reference(nest, &[], operands));
    assert!(bits(&native(nest, &[], operands)) == want, "{nest}");
    let emulated = Emulated::ALL[0].during(|| native(nest, &[], operands));
    assert!(bits(&emulated) == want, "emulated: {nest}");
    NativeProgram::new(nest, &profile(false), &|_| false)
}

/// Returns an operand of numbers in order, negative zeros among them.
fn counted(ty: TensorType) -> Tensor {
    let scalar = |n: usize| {
        let number = Scalar::from_i64(ty.dtype, n as i64 % 120 - 50);
        let is_zero = n.is_multiple_of(7);
        if is_zero { Scalar::from_f64(ty.dtype, -0.0) } else { number }
    };
    Tensor::from_scalars(ty.clone(), (0..ty.elements()).map(scalar)).unwrap()
}

/// Returns a nest without aggregation.
fn pointwise(axes: &[(&str, usize)], operands: Vec<TensorType>, epilogue: Program<Leaf>) -> Nest {
    let axes: Vec<Axis> =
        axes.iter().map(|&(name, extent)| Axis { name: name.into(), extent }).collect();
    Nest {
        name: "moves".into(),
        outputs: vec![output(epilogue.dtype(epilogue.results[0]), &axes, 0..axes.len())],
        free: axes.len(),
        rows: axes.len(),
        axes,
        loops: 0,
        derived: Vec::new(),
        guards: Vec::new(),
        operands,
        aggregation: None,
        in_bytes: Vec::new(),
        position: None,
        rank: None,
        body: Program::default(),
        inner: Vec::new(),
        epilogue,
    }
}

/// Returns a concatenation along the middle axis of three: a sum of the parts with zeros around
/// them, or a choice of one part after the other.
fn concatenation(dtype: DType, sizes: &[usize], around: [usize; 2], sums: bool) -> Nest {
    let [before, after] = around;
    let total: usize = sizes.iter().sum();
    let affine = |terms: &[(usize, i64)], offset: i64| Affine::new(terms.to_vec(), offset).unwrap();
    let mut program = Program::default();
    let mut whole = program.constant(Scalar::zero(dtype));
    let (mut start, mut operands) = (0, Vec::new());
    for (operand, &size) in sizes.iter().enumerate() {
        let (row, from, end) = (after as i64, start as i64, (start + size) as i64);
        let when = [affine(&[(1, 1)], -from), affine(&[(1, -1)], end - 1)];
        let offset = affine(&[(0, size as i64 * row), (1, row), (2, 1)], -from * row);
        let load = Load { operand, offset, dynamic: vec![], when: when.to_vec() };
        let part = program.push(Inst::Leaf(Leaf::Load(load)), dtype);
        whole = if sums {
            program.binary(BinaryOp::Add, whole, part)
        } else {
            let [low, high] = when.map(|when| at_least_zero(&mut program, when));
            let inside = program.binary(BinaryOp::BitAnd, low, high);
            program.select(inside, part, whole)
        };
        operands.push(TensorType::new(dtype, [before, size, after]));
        start += size;
    }
    program.results = vec![whole];
    pointwise(&[("b", before), ("i", total), ("a", after)], operands, program)
}

/// Returns whether an expression is at least 0, as an instruction.
fn at_least_zero(program: &mut Program<Leaf>, affine: Affine) -> Value {
    let index = program.push(Inst::Leaf(Leaf::Index(affine)), DType::I32);
    let zero = program.constant(Scalar::i32(0));
    program.binary(BinaryOp::Ge, index, zero)
}

#[test]
fn concatenations_are_copies_of_pieces() {
    let many = [7; 61];
    let cases: [(&[usize], [usize; 2], usize); 6] = [
        (&[300, 200, 17], [5, 1], 3),
        (&[300, 200, 17], [1, 23], 3),
        // Small pieces are not divided again.
        (&[1, 2, 3, 257], [7, 13], 3),
        (&many, [13, 1], 4),
        // One part, and too few places.
        (&[521], [5, 1], 0),
        (&[1, 1, 1], [7, 1], 0),
    ];
    for (sizes, around, pieces) in cases {
        for (dtype, sums) in [
            (DType::F32, true),
            (DType::F32, false),
            (DType::F16, true),
            (DType::I64, true),
            (DType::U8, false),
        ] {
            let nest = concatenation(dtype, sizes, around, sums);
            let operands: Vec<Tensor> = nest.operands.iter().cloned().map(counted).collect();
            let program = check_exactly(&nest, &operands);
            let found = match &program.implementation {
                Implementation::Pieces(pieces) => pieces.len(),
                _ => 0,
            };
            assert_eq!(found, pieces, "{program}");
        }
    }
}

/// Returns `Y[n, m, d] = X[T[n], d]` or `X[T[n], m, d]`, and 0 where `T[n]` is not in range.
fn gather(dtype: DType, sizes: [usize; 4], reads_middle: bool) -> Nest {
    let [count, rows, middle, columns] = sizes;
    let mut body = Program::default();
    let index = Load { operand: 0, offset: Affine::var(0), dynamic: vec![], when: vec![] };
    let index = body.push(Inst::Leaf(Leaf::Load(index)), DType::I32);
    let zero = body.constant(Scalar::i32(0));
    let last = body.constant(Scalar::i32(rows as i32 - 1));
    let (low, high) =
        (body.binary(BinaryOp::Ge, index, zero), body.binary(BinaryOp::Le, index, last));
    let counts = body.binary(BinaryOp::BitAnd, low, high);
    let clamped = body.binary(BinaryOp::Max, index, zero);
    let clamped = body.binary(BinaryOp::Min, clamped, last);
    let stride = if reads_middle { columns } else { 0 };
    let offset = Affine::new([(1, stride as i64), (2, 1)], 0).unwrap();
    let row = if reads_middle { middle * columns } else { columns };
    let dynamic = vec![(clamped, row as i64)];
    let value = Leaf::Load(Load { operand: 1, offset, dynamic, when: vec![] });
    let value = body.push(Inst::Leaf(value), dtype);
    body.results = vec![value, counts];
    let mut epilogue = Program::default();
    let sum = epilogue.push(Inst::Leaf(Leaf::Accumulator), dtype);
    epilogue.results = vec![sum];
    let operands = vec![TensorType::new(DType::I32, [count]), TensorType::new(dtype, [rows * row])];
    let axes = [("n", count), ("m", middle), ("d", columns)];
    Nest { aggregation: Some(Aggregation::Assign), body, ..pointwise(&axes, operands, epilogue) }
}

#[test]
fn gathers_of_rows_are_copies() {
    for columns in [1, 2, 3, 4, 7, 8, 16, 31, 129, 5000] {
        for dtype in [DType::F32, DType::I8, DType::F64] {
            for (middle, reads_middle) in [(1, true), (3, true), (3, false)] {
                let nest = gather(dtype, [67, 11, middle, columns], reads_middle);
                let index = |n: usize| Scalar::i32((n as i32 * 5) % 13 - 1);
                for valid in [true, false] {
                    let limit =
                        |n: usize| if valid { Scalar::i32(n as i32 * 3 % 11) } else { index(n) };
                    let indices =
                        Tensor::from_scalars(nest.operands[0].clone(), (0..67).map(limit)).unwrap();
                    let program =
                        check_exactly(&nest, &[indices, counted(nest.operands[1].clone())]);
                    let is_pointwise = matches!(program.implementation, Implementation::Pointwise);
                    assert!(is_pointwise, "{program}");
                }
            }
        }
    }
}

/// Returns `Y[n, i] = X[n, k < 0 ? k + size : k]`, or 0 outside of X, for `k = K[n, i]` in i64.
fn gathered_by_long_indices([rows, size, count]: [usize; 3]) -> Nest {
    let affine = |terms: &[(usize, i64)]| Affine::new(terms.to_vec(), 0).unwrap();
    let mut program = Program::default();
    let offset = affine(&[(0, count as i64), (1, 1)]);
    let load = Load { operand: 0, offset, dynamic: vec![], when: vec![] };
    let k = program.push(Inst::Leaf(Leaf::Load(load)), DType::I64);
    let [zero, length, last] = [0, size as i64, size as i64 - 1]
        .map(|number| program.constant(Scalar::from_i64(DType::I64, number)));
    let is_negative = program.binary(BinaryOp::Lt, k, zero);
    let sum = program.binary(BinaryOp::Add, k, length);
    let index = program.select(is_negative, sum, k);
    let above = program.binary(BinaryOp::Max, index, zero);
    let clamped = program.binary(BinaryOp::Min, above, last);
    let is_within = program.binary(BinaryOp::Eq, clamped, index);
    let at = program.cast(clamped, DType::I32);
    let load = Load {
        operand: 1,
        offset: affine(&[(0, size as i64)]),
        dynamic: vec![(at, 1)],
        when: vec![],
    };
    let value = program.push(Inst::Leaf(Leaf::Load(load)), DType::F32);
    let none = program.constant(Scalar::f32(0.0));
    program.results = vec![program.select(is_within, value, none)];
    let operands =
        vec![TensorType::new(DType::I64, [rows, count]), TensorType::new(DType::F32, [rows, size])];
    pointwise(&[("n", rows), ("i", count)], operands, program)
}

#[test]
fn long_indices_are_words() {
    let far =
        [i64::MIN, i64::MAX, 1 << 30, -(1 << 30), 1 << 31, -(1 << 31), (1 << 32) + 3, -(1 << 40)];
    for sizes in [[1, 1, 16], [3, 17, 40], [5, 200, 1025], [40, 3, 100]] {
        let nest = gathered_by_long_indices(sizes);
        let (ty, size) = (nest.operands[0].clone(), sizes[1] as i64);
        let index = |i: usize| match i % 9 {
            8 => far[i / 9 % far.len()],
            _ => (i as i64 * 31) % (4 * size + 3) - 2 * size - 1,
        };
        let indices = (0..ty.elements()).map(|i| Scalar::from_i64(DType::I64, index(i)));
        let indices = Tensor::from_scalars(ty.clone(), indices).unwrap();
        let program = check_exactly(&nest, &[indices, counted(nest.operands[1].clone())]);
        let is_long = |dtype: &DType| *dtype == DType::I64;
        assert!(!program.epilogue.dtypes.iter().any(is_long), "{program}");
    }
}
