//! Nests whose outputs overwrite operands, as an optimizer's updates do.

use super::*;

/// Removes the sums of a nest, and makes an axis long.
fn make_elementwise(draw: &mut Draw, nest: &mut Nest) {
    nest.operands.clear();
    nest.guards.clear();
    nest.axes.truncate(nest.free);
    nest.aggregation = None;
    nest.body = Program::default();
    let long = draw.below(nest.free);
    nest.axes[long].extent = 1 + draw.below(700);
}

/// Returns sums of products, or values of places, whose epilogue makes up to three outputs. Most
/// overwrite operands that it reads.
fn updates(draw: &mut Draw) -> Nest {
    let mut nest = product(draw);
    if draw.chance(50) {
        make_elementwise(draw, &mut nest);
    }
    let dtype = if nest.aggregation.is_some() {
        nest.outputs[0].ty.dtype
    } else {
        draw.of(&[DType::F32, DType::F32, DType::I32, DType::F16])
    };
    let free = 0..nest.free;
    let position = output(dtype, &nest.axes, free.clone()).position;
    nest.outputs.clear();
    for _ in 0..1 + draw.below(3) {
        let mut output = output(dtype, &nest.axes, free.clone());
        if draw.chance(80) {
            output.over = Some(nest.operands.len());
            nest.operands.push(output.ty.clone());
        }
        nest.outputs.push(output);
    }
    // A scalar, one number for each column, and a condition that selects between two values.
    let [scalar, of_columns, condition] = [0, 1, 2].map(|n| nest.operands.len() + n);
    let last = nest.free - 1;
    nest.operands.push(TensorType::new(dtype, [1]));
    nest.operands.push(TensorType::new(dtype, [nest.axes[last].extent]));
    nest.operands.push(TensorType::new(DType::Bool, [1]));
    let mut program = Program::default();
    let load = |program: &mut Program<Leaf>, operand: usize, offset: Affine, dtype: DType| {
        program.push(
            Inst::Leaf(Leaf::Load(Load { operand, offset, dynamic: Vec::new(), when: Vec::new() })),
            dtype,
        )
    };
    let mut values: Vec<Value> = Vec::new();
    if let Some(accumulated) = nest.accumulated_type() {
        values.push(program.push(Inst::Leaf(Leaf::Accumulator), accumulated));
    }
    values.push(load(&mut program, scalar, Affine::constant(0), dtype));
    values.push(load(&mut program, of_columns, Affine::var(last), dtype));
    // The overwritten operand may be read early, or only late.
    let (count, late) = (6 + draw.below(24), draw.chance(50));
    for number in 0..count {
        let (a, b) = (draw.of(&values[values.len().saturating_sub(3)..]), draw.of(&values));
        let value = match draw.below(10) {
            0..2 if !late || number > count / 2 => {
                let over: Vec<usize> =
                    nest.outputs.iter().filter_map(|output| output.over).collect();
                match over.is_empty() {
                    true => a,
                    false => load(&mut program, draw.of(&over), position.clone(), dtype),
                }
            }
            2 => {
                let condition = load(&mut program, condition, Affine::constant(0), DType::Bool);
                program.select(condition, a, b)
            }
            3 => {
                let condition = program.binary(BinaryOp::Lt, a, b);
                program.select(condition, b, a)
            }
            // Chains have no `floor`.
            4..6 => program.unary(draw.of(&[UnaryOp::Neg, UnaryOp::Floor]), a),
            _ => program.binary(
                draw.of(&[BinaryOp::Add, BinaryOp::Sub, BinaryOp::Max, BinaryOp::Min]),
                a,
                b,
            ),
        };
        values.push(value);
    }
    program.results = nest.outputs.iter().map(|_| draw.of(&values[values.len() / 3..])).collect();
    nest.epilogue = program;
    nest
}

#[test]
fn what_is_written_over_was_read_before() {
    let mut runner = TestRunner::deterministic();
    for case in 0..1500 {
        let mut draw = Draw(runner.rng());
        let nest = updates(&mut draw);
        nest.verify().unwrap();
        if nest.places() * nest.reduction_points() > 20_000 {
            continue;
        }
        // A guard may make a factor 0, but not its product with an infinite one.
        let special = if nest.aggregation.is_some() { 0 } else { 10 };
        let operands = operands(&mut draw, &nest, special);
        let want = reference(&nest, &[], &operands);
        let apart: Vec<Register> = operands.iter().map(|tensor| register(tensor.bytes())).collect();
        let written = |output: &Output| match output.over {
            Some(operand) => register(operands[operand].bytes()),
            None => Register::zeroed(output.ty.elements() * output.ty.dtype.size()),
        };
        let mut outputs: Vec<Register> = nest.outputs.iter().map(written).collect();
        let read: Vec<&[u8]> = apart.iter().map(Register::elements).collect();
        let mut written: Vec<&mut [u8]> = outputs.iter_mut().map(Register::elements_mut).collect();
        // SAFETY: the nest is verified, and its places have positions of their own.
        unsafe { run(&nest, &[], &read, &mut written) }.unwrap();
        drop(written);
        for (number, (output, want)) in nest.outputs.iter().zip(&want).enumerate() {
            let got = tensor(output, &outputs[number]);
            for (place, (got, want)) in got.scalars().zip(want.scalars()).enumerate() {
                assert!(
                    alike(got, want),
                    "case {case}: element {place} of output {number} is {got:?}, not {want:?}\n{nest}"
                );
            }
        }
    }
}
