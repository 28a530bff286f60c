//! Convolutions of images and their gradients, as nests, for the windows of
//! [`crate::cpu::product::gemm`].

use super::*;
use crate::cpu::product::contraction::Contraction;
use std::sync::Arc;
use tile_compiler::native::{Form, Implementation};

/// The axes of a convolution: images, lines, pixels, channels, taps in both directions, filters.
const NAMES: [&str; 7] = ["n", "y", "x", "c", "i", "j", "f"];
const N: usize = 0;
const Y: usize = 1;
const X: usize = 2;
const C: usize = 3;
const I: usize = 4;
const J: usize = 5;
const F: usize = 6;

/// One coordinate of the image as a sum of a line and a tap, the size of the image, and whether
/// guards keep it inside.
fn coordinate(
    draw: &mut Draw,
    at: usize,
    tap: usize,
    extents: &[usize; 7],
) -> (Affine, usize, bool) {
    let (stride, dilation) = (draw.of(&[1, 1, 1, 2]), draw.of(&[1, 1, -1, 2]));
    let sum = Affine::new([(at, stride), (tap, dilation)], 0).unwrap();
    let bounds: Vec<(i64, i64)> = extents.iter().map(|&extent| (0, extent as i64 - 1)).collect();
    let (low, high) = sum.bounds(&bounds).unwrap();
    let (range, guarded) = ((high - low + 1) as usize, draw.chance(75));
    let (before, after) = if guarded { (draw.below(3) as i64, draw.below(3)) } else { (0, 0) };
    let size = range.saturating_sub(before as usize + after).max(1);
    (sum.sub(&Affine::constant(low + before)).unwrap(), size, guarded)
}

/// Returns a convolution of images by a kernel, or of images by the gradient of the results, which
/// gives the gradient of the kernel.
fn convolution(draw: &mut Draw) -> Nest {
    let of_kernel = draw.chance(40);
    let mut extents = [
        1 + draw.below(2),
        2 + draw.below(4),
        5 + draw.below(13),
        1 + draw.below(7),
        0,
        0,
        1 + draw.below(4),
    ];
    (extents[I], extents[J]) = (1 + draw.below(3), draw.of(&[1, 2, 3, 3]));
    if of_kernel {
        (extents[X], extents[C]) = (extents[X] / 2, extents[C] + 4);
    }
    let (u, height, u_guarded) = coordinate(draw, Y, I, &extents);
    let (v, width, v_guarded) = coordinate(draw, X, J, &extents);
    let (mut free, mut reduction) =
        if of_kernel { (vec![I, J, C], vec![N, Y, X]) } else { (vec![N, Y, X], vec![I, J, C]) };
    if draw.chance(30) {
        reduction.rotate_right(1);
    }
    free.push(F);
    let order: Vec<usize> = free.iter().chain(&reduction).copied().collect();
    let place = |axis: usize| order.iter().position(|&a| a == axis).unwrap();
    let renamed = |affine: &Affine| affine.map_variables(place).unwrap();
    let offset = |dims: &[(Affine, usize)]| {
        dims.iter().fold(Affine::constant(0), |sum, (coordinate, size)| {
            sum.scale(*size as i64).unwrap().add(&renamed(coordinate)).unwrap()
        })
    };
    let axes: Vec<Axis> =
        order.iter().map(|&a| Axis { name: NAMES[a].into(), extent: extents[a] }).collect();
    let plain = |axis: usize| (Affine::var(axis), extents[axis]);
    let image = [plain(N), (u.clone(), height), (v.clone(), width), plain(C)];
    let other = if of_kernel {
        [plain(N), plain(Y), plain(X), plain(F)]
    } else {
        [plain(I), plain(J), plain(C), plain(F)]
    };
    let elements = |dims: &[(Affine, usize)]| dims.iter().map(|(_, size)| size).product::<usize>();
    let mut guards = Vec::new();
    for (coordinate, size, _) in
        [(&u, height, u_guarded), (&v, width, v_guarded)].iter().filter(|(.., guarded)| *guarded)
    {
        guards.push(renamed(coordinate));
        guards.push(renamed(&Affine::constant(*size as i64 - 1).sub(coordinate).unwrap()));
    }
    let mut body = Program::default();
    let values = [&image, &other].map(|dims| {
        let operand = usize::from(std::ptr::eq(dims, &other));
        let load = Load { operand, offset: offset(dims), dynamic: vec![], when: vec![] };
        body.push(Inst::Leaf(Leaf::Load(load)), DType::F32)
    });
    body.results = vec![body.binary(BinaryOp::Mul, values[0], values[1])];
    let mut epilogue = Program::default();
    epilogue.results = vec![epilogue.push(Inst::Leaf(Leaf::Accumulator), DType::F32)];
    let outputs = vec![output(DType::F32, &axes, 0..4)];
    Nest {
        name: "convolution".into(),
        axes,
        free: 4,
        rows: 4,
        loops: 0,
        derived: Vec::new(),
        guards,
        operands: [&image, &other].map(|dims| TensorType::new(DType::F32, [elements(dims)])).into(),
        aggregation: Some(Aggregation::Sum),
        in_bytes: Vec::new(),
        position: None,
        rank: None,
        body,
        inner: Vec::new(),
        epilogue,
        outputs,
    }
}

/// Returns a convolution of lines with several filters in each group of channels.
fn grouped(draw: &mut Draw) -> Nest {
    const NAMES: [&str; 6] = ["n", "x", "g", "f", "j", "c"];
    let [n, x, g, f, j, c] = [0, 1, 2, 3, 4, 5].map(Affine::var);
    // Some have more columns than are computed at once.
    let (most_places, most_groups) = draw.of(&[(21, 12), (21, 12), (21, 12), (3, 500)]);
    let extents = [
        1 + draw.below(2),
        1 + draw.below(most_places),
        1 + draw.below(most_groups),
        draw.of(&[1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 9, 12, 16, 17, 24]),
        1 + draw.below(3),
        draw.of(&[1, 1, 2, 3, 4, 8]),
    ];
    let (stride, padding) = (1 + draw.below(2) as i64, draw.below(3) as i64);
    let width = (extents[1] - 1) * stride as usize + extents[4];
    let width = width.saturating_sub(draw.below(3) + padding as usize).max(1) as i64;
    let sum = |terms: &[(&Affine, i64)]| {
        terms.iter().fold(Affine::constant(0), |sum, (affine, factor)| {
            sum.add(&affine.scale(*factor).unwrap()).unwrap()
        })
    };
    let [groups, filters, channels] = [extents[2], extents[3], extents[5]].map(|e| e as i64);
    let at = sum(&[(&x, stride), (&j, 1), (&Affine::constant(1), -padding)]);
    let image = sum(&[(&n, width), (&at, 1)]);
    let image = sum(&[(&image, groups * channels), (&g, channels), (&c, 1)]);
    let kernel = sum(&[(&j, channels), (&c, 1)]);
    let kernel = sum(&[(&kernel, groups * filters), (&g, filters), (&f, 1)]);
    let sizes = [
        extents[0] * width as usize * extents[2] * extents[5],
        extents[4] * extents[5] * extents[2] * extents[3],
    ];
    let axes: Vec<Axis> = NAMES
        .iter()
        .zip(extents)
        .map(|(name, extent)| Axis { name: (*name).into(), extent })
        .collect();
    let mut body = Program::default();
    let values = [image, kernel].into_iter().enumerate().map(|(operand, offset)| {
        let load = Load { operand, offset, dynamic: vec![], when: vec![] };
        body.push(Inst::Leaf(Leaf::Load(load)), DType::F32)
    });
    let values: Vec<_> = values.collect();
    body.results = vec![body.binary(BinaryOp::Mul, values[0], values[1])];
    let mut epilogue = Program::default();
    let mut result = epilogue.push(Inst::Leaf(Leaf::Accumulator), DType::F32);
    if draw.below(3) == 0 {
        let written = epilogue.push(Inst::Leaf(Leaf::Written), DType::Bool);
        let otherwise = epilogue.constant(Scalar::from_f64(DType::F32, 7.0));
        result = epilogue.select(written, result, otherwise);
    }
    epilogue.results = vec![result];
    let outputs = vec![output(DType::F32, &axes, 0..4)];
    Nest {
        name: "grouped".into(),
        free: 4,
        rows: 4,
        loops: 0,
        derived: Vec::new(),
        guards: vec![at.clone(), Affine::constant(width - 1).sub(&at).unwrap()],
        operands: sizes.map(|size| TensorType::new(DType::F32, [size])).into(),
        aggregation: Some(Aggregation::Sum),
        in_bytes: Vec::new(),
        position: None,
        rank: None,
        body,
        inner: Vec::new(),
        epilogue,
        outputs,
        axes,
    }
}

#[test]
fn random_groups_equal_their_definition() {
    check(1000, 0, grouped);
}

/// Most of the groups are summed without packing.
#[test]
fn groups_are_not_packed() {
    let mut runner = TestRunner::deterministic();
    let is_direct = |_: &usize| {
        let nest = grouped(&mut Draw(runner.rng()));
        let program = NativeProgram::new(&nest, &profile(false), &|_| false);
        let Implementation::Direct(direct) = &program.implementation else { return false };
        direct.form == Form::OfGroups
    };
    let count = (0..400).filter(is_direct).count();
    assert!((250..400).contains(&count), "{count}");
}

#[test]
fn random_convolutions_equal_their_definition() {
    check(1500, 0, convolution);
}

/// Terms that do not count are left out, even if a factor is infinite or NaN, with the kernel
/// packed in the run or ahead.
#[test]
fn convolutions_of_special_values_equal_their_definition() {
    let mut runner = TestRunner::deterministic();
    for case in 0..500 {
        let mut draw = Draw(runner.rng());
        let nest = convolution(&mut draw);
        let (nest, steps) = in_loops(&mut draw, nest);
        if nest.places() * nest.reduction_points() > 40_000 {
            continue;
        }
        let mut operands = operands(&mut draw, &nest, 0);
        for operand in &mut operands {
            let place = draw.below(operand.ty().elements());
            let value = draw.of(&[f64::INFINITY, f64::NEG_INFINITY, f64::NAN]);
            operand.set(place, Scalar::from_f64(DType::F32, value));
        }
        let want = reference(&nest, &steps, &operands);
        for packs in [false, true] {
            let got = exact(&nest, &steps, &operands, packs);
            let pairs = got.iter().zip(&want).flat_map(|(a, b)| a.scalars().zip(b.scalars()));
            for (place, (got, want)) in pairs.enumerate() {
                assert!(
                    alike(got, want),
                    "case {case}, packs {packs}: element {place} is {got:?}, not {want:?} at {steps:?}\n{nest}"
                );
            }
        }
    }
}

/// Runs a nest without Winograd's algorithm, with its right factor packed ahead if it `packs`.
fn exact(nest: &Nest, steps: &[usize], operands: &[Tensor], packs: bool) -> Vec<Tensor> {
    let program = NativeProgram::new(nest, &profile(true), &|_| packs);
    let prepared = Prepared::new(Arc::new(program));
    let registers: Vec<Register> = operands.iter().map(|t| register(t.bytes())).collect();
    let mut operands: Vec<Operand> =
        registers.iter().map(|register| Operand::from(register.elements())).collect();
    let mut packed = None;
    if packs && !prepared.packs().is_empty() {
        packed = prepared.pack_at(steps, &operands, None);
        prepared.packs().into_iter().for_each(|operand| operands[operand] = Operand::from(&[][..]));
    }
    let bytes = |ty: &TensorType| ty.elements() * ty.dtype.size();
    let mut outputs: Vec<Register> =
        nest.outputs.iter().map(|output| Register::zeroed(bytes(&output.ty))).collect();
    let written: Vec<crate::cpu::Output> = outputs
        .iter_mut()
        .map(|output| crate::cpu::Output::new(output.elements_mut(), 0))
        .collect();
    // SAFETY: the nest is verified, and its places have positions of their own.
    unsafe { prepared.run(steps, &operands, packed.as_ref(), &written) };
    nest.outputs.iter().zip(&outputs).map(|(output, register)| tensor(output, register)).collect()
}

/// Enough of the convolutions are computed through a window.
#[test]
fn convolutions_have_windows() {
    let mut runner = TestRunner::deterministic();
    let has_window = |_: &usize| {
        let nest = convolution(&mut Draw(runner.rng()));
        let program = NativeProgram::new(&nest, &profile(false), &|_| false);
        match &program.implementation {
            Implementation::Product(product) => Contraction::new(&program, product).has_window(),
            _ => false,
        }
    };
    let count = (0..400).filter(has_window).count();
    assert!((40..400).contains(&count), "{count}");
}
