//! Random nests and operands.

use proptest::prelude::RngExt as _;
use proptest::test_runner::TestRng;
use tile_compiler::affine::Affine;
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::Aggregation;
use tile_compiler::nest::{Axis, Derived, Leaf, Load, Nest, Output};
use tile_compiler::scalar::{BinaryOp, Inst, Program, UnaryOp, Value};
use tile_compiler::tensor::{Tensor, TensorType};

/// A source of random draws.
pub struct Draw<'a>(pub &'a mut TestRng);

impl Draw<'_> {
    pub fn below(&mut self, n: usize) -> usize {
        self.0.random_range(0..n)
    }

    pub fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// A generator of nests. It fills in their programs.
struct Generator<'a, 'b> {
    draw: &'b mut Draw<'a>,
    nest: Nest,
}

impl Generator<'_, '_> {
    fn affine(&mut self, variables: &[usize]) -> Affine {
        let terms: Vec<(usize, i64)> =
            variables.iter().map(|&v| (v, self.draw.of(&[0, 0, 1, 1, 2, -1, 3]))).collect();
        let constant = self.draw.below(5) as i64 - 2;
        Affine::new(terms, constant).unwrap()
    }

    /// Generates a load that is in range, by its address alone or by its conditions.
    fn load(&mut self, dtype: DType, variables: &[usize], dynamic: Option<Value>) -> Load {
        let bounds = self.nest.variable_bounds();
        let mut offset = self.affine(variables);
        let (low, high) = offset.bounds(&bounds).unwrap();
        let mut when = Vec::new();
        let size = if self.draw.chance(40) {
            let size = 1 + self.draw.below((high - low + 1) as usize) as i64;
            when = vec![offset.clone(), Affine::constant(size - 1).sub(&offset).unwrap()];
            size
        } else {
            offset = offset.sub(&Affine::constant(low)).unwrap();
            high - low + 1
        };
        // Dynamic values are in 0..4, times a stride of 2.
        let size = size + if dynamic.is_some() { 6 } else { 0 };
        self.nest.operands.push(TensorType::new(dtype, [size as usize]));
        let dynamic = dynamic.map(|value| (value, 2)).into_iter().collect();
        Load { operand: self.nest.operands.len() - 1, offset, dynamic, when }
    }

    fn program(&mut self, dtype: DType, variables: &[usize], epilogue: bool) -> Program<Leaf> {
        let mut program = Program::default();
        let mut values: Vec<Value> = Vec::new();
        if epilogue && let Some(accumulated) = self.nest.accumulated_type() {
            let value = program.push(Inst::Leaf(Leaf::Accumulator), accumulated);
            let value = program.cast(value, dtype);
            let written = program.push(Inst::Leaf(Leaf::Written), DType::Bool);
            let other = program.constant(Scalar::from_i64(dtype, 3));
            values.push(if self.draw.chance(50) {
                program.select(written, value, other)
            } else {
                value
            });
        }
        for _ in 0..1 + self.draw.below(2) {
            let load = self.load(dtype, variables, None);
            values.push(program.push(Inst::Leaf(Leaf::Load(load)), dtype));
        }
        if self.draw.chance(30) {
            let index = self.affine(variables);
            let value = program.push(Inst::Leaf(Leaf::Index(index)), DType::I32);
            values.push(program.cast(value, dtype));
            let three = program.constant(Scalar::i32(3));
            let clamped = program.binary(BinaryOp::BitAnd, value, three);
            let load = self.load(dtype, variables, Some(clamped));
            values.push(program.push(Inst::Leaf(Leaf::Load(load)), dtype));
        }
        for _ in 0..self.draw.below(4) {
            let (a, b) = (self.draw.of(&values), self.draw.of(&values));
            let value = match self.draw.below(8) {
                0 => {
                    let condition = program.binary(
                        self.draw.of(&[BinaryOp::Lt, BinaryOp::Eq, BinaryOp::Ge]),
                        a,
                        b,
                    );
                    program.select(condition, a, b)
                }
                1 => {
                    let other = self.draw.of(&DType::ALL);
                    let there = program.cast(a, other);
                    program.cast(there, dtype)
                }
                2 => program.unary(
                    self.draw.of(&[
                        UnaryOp::Neg,
                        UnaryOp::Abs,
                        UnaryOp::Floor,
                        UnaryOp::Rint,
                        UnaryOp::Round,
                    ]),
                    a,
                ),
                3 if !dtype.is_float() => {
                    let bits = [
                        BinaryOp::BitAnd,
                        BinaryOp::BitXor,
                        BinaryOp::ShiftLeft,
                        BinaryOp::ShiftRight,
                        BinaryOp::Pow,
                    ];
                    program.binary(self.draw.of(&bits), a, b)
                }
                _ => {
                    let ops = [
                        BinaryOp::Add,
                        BinaryOp::Sub,
                        BinaryOp::Mul,
                        BinaryOp::Div,
                        BinaryOp::Max,
                        BinaryOp::Min,
                    ];
                    program.binary(self.draw.of(&ops), a, b)
                }
            };
            values.push(value);
        }
        program.results = vec![values[values.len() - 1]];
        program
    }
}

/// Returns a tensor whose axes are the nest's axes `order`, in this order.
pub fn output(dtype: DType, axes: &[Axis], order: impl IntoIterator<Item = usize>) -> Output {
    let order: Vec<usize> = order.into_iter().collect();
    let position = order.iter().fold(Affine::constant(0), |position, &axis| {
        position.scale(axes[axis].extent as i64).unwrap().add(&Affine::var(axis)).unwrap()
    });
    let shape: Vec<usize> = order.iter().map(|&axis| axes[axis].extent).collect();
    Output { ty: TensorType::new(dtype, shape), position, over: None }
}

/// Puts the nest into up to two loops, with which some of its loads move, and gives it one or two
/// outputs, of which each launch writes a part. Also returns the current steps of the loops.
pub fn in_loops(draw: &mut Draw, mut nest: Nest) -> (Nest, Vec<usize>) {
    let loops = draw.below(3);
    let first = nest.axes.len();
    let shift = |affine: &mut Affine| {
        *affine = affine.map_variables(|v| if v >= first { v + loops } else { v }).unwrap();
    };
    nest.derived.iter_mut().for_each(|derived| shift(&mut derived.numerator));
    nest.guards.iter_mut().chain(&mut nest.position).for_each(shift);
    nest.axes.extend((0..loops).map(|n| Axis { name: format!("t{n}"), extent: 1 + draw.below(4) }));
    nest.loops = loops;
    for (inst, _) in nest.body.insts.iter_mut().chain(&mut nest.epilogue.insts) {
        match inst {
            Inst::Leaf(Leaf::Index(affine)) => shift(affine),
            Inst::Leaf(Leaf::Load(load)) => {
                load.when.iter_mut().chain([&mut load.offset]).for_each(shift);
                for variable in first..first + loops {
                    let step = draw.of(&[0, 1, 3]);
                    load.offset =
                        load.offset.add(&Affine::var(variable).scale(step).unwrap()).unwrap();
                    let more = step as usize * (nest.axes[variable].extent - 1);
                    nest.operands[load.operand].shape[0] += more;
                }
            }
            _ => {}
        }
    }
    let dtype = nest.outputs[0].ty.dtype;
    nest.outputs.clear();
    for _ in 0..1 + draw.below(2) {
        let mut order: Vec<usize> = (0..nest.free).collect();
        for variable in first..first + loops {
            if draw.chance(60) {
                order.insert(draw.below(order.len() + 1), variable);
            }
        }
        if draw.chance(20) {
            order.reverse();
        }
        nest.outputs.push(output(dtype, &nest.axes, order));
    }
    nest.epilogue.results = vec![nest.epilogue.results[0]; nest.outputs.len()];
    let steps = nest.axes[nest.loops()].iter().map(|axis| draw.below(axis.extent)).collect();
    (nest, steps)
}

/// Returns a nest with one output in C order, without operands and programs.
fn bare(name: &str, dtype: DType, axes: Vec<Axis>, free: usize) -> Nest {
    let outputs = vec![output(dtype, &axes, 0..free)];
    Nest {
        name: name.into(),
        axes,
        free,
        rows: free,
        loops: 0,
        derived: Vec::new(),
        guards: Vec::new(),
        operands: Vec::new(),
        aggregation: None,
        in_bytes: Vec::new(),
        position: None,
        rank: None,
        body: Program::default(),
        inner: Vec::new(),
        epilogue: Program::default(),
        outputs,
    }
}

pub fn nest(draw: &mut Draw) -> Nest {
    let dtype = draw.of(&DType::ALL);
    let free = draw.below(4);
    let reduction = draw.below(3);
    let long = draw.below(8);
    let axes: Vec<Axis> = (0..free + reduction)
        .map(|i| Axis {
            name: format!("i{i}"),
            extent: if i == long { 2 + draw.below(3000) } else { 2 + draw.below(6) },
        })
        .collect();
    let aggregates = reduction > 0 || draw.chance(40);
    let mut nest = bare("random", dtype, axes, free);
    nest.aggregation = aggregates
        .then(|| if reduction == 0 { Aggregation::Assign } else { draw.of(&Aggregation::ALL) });
    // `Assign` allows at most one point for each place.
    if reduction > 0 && nest.aggregation == Some(Aggregation::Assign) {
        nest.aggregation = Some(Aggregation::Sum);
    }
    // A long product of floats overflows, and then depends on its order if a factor is 0.
    if dtype.is_float()
        && nest.aggregation == Some(Aggregation::Product)
        && nest.reduction_points() > 32
    {
        nest.aggregation = Some(Aggregation::Max);
    }
    let count = nest.axes.len();
    let mut generator = Generator { draw, nest };
    if count > 0 && generator.draw.chance(30) {
        let axis = generator.draw.below(count);
        let numerator = generator.affine(&[axis]);
        generator
            .nest
            .derived
            .push(Derived { numerator, denominator: 2 + generator.draw.below(2) as i64 });
    }
    let free_only: Vec<usize> = (0..count + generator.nest.derived.len())
        .filter(|&v| !generator.nest.depends_on_reduction(v))
        .collect();
    let all: Vec<usize> = (0..count + generator.nest.derived.len()).collect();
    if aggregates {
        for _ in 0..generator.draw.below(3) {
            let guard = generator.affine(&all);
            generator.nest.guards.push(guard);
        }
        let body = generator.program(dtype, &all, false);
        generator.nest.body = body;
        let body = &mut generator.nest.body;
        if dtype.is_half() && generator.nest.aggregation == Some(Aggregation::Sum) {
            let value = body.cast(body.results[0], DType::F32);
            body.results[0] = value;
        }
        if generator.draw.chance(25) {
            let zero = body.constant(Scalar::zero(dtype));
            let is_load =
                |(inst, _): &(Inst<Leaf>, DType)| matches!(inst, Inst::Leaf(Leaf::Load(_)));
            let first = body.insts.position(is_load).unwrap();
            let valid = body.binary(BinaryOp::Gt, first, zero);
            body.results.push(valid);
        }
        if matches!(generator.nest.aggregation, Some(Aggregation::ArgMax | Aggregation::ArgMin)) {
            let mut position = Affine::constant(0);
            for axis in free..count {
                let extent = generator.nest.axes[axis].extent as i64;
                position = position.scale(extent).unwrap().add(&Affine::var(axis)).unwrap();
            }
            generator.nest.position = Some(position);
        }
    }
    let epilogue = generator.program(dtype, &free_only, true);
    generator.nest.epilogue = epilogue;
    generator.nest
}

/// Returns small integers. `special` is the percentage of operands that have infinities and NaN,
/// too.
pub fn operands(draw: &mut Draw, nest: &Nest, special: usize) -> Vec<Tensor> {
    let fill = |ty: &TensorType, draw: &mut Draw| {
        let count = ty.elements();
        let special = draw.chance(special);
        let scalars: Vec<Scalar> = (0..count)
            .map(|_| match draw.below(if special { 12 } else { 10 }) {
                10 => Scalar::from_f64(ty.dtype, f64::NAN),
                11 => Scalar::from_f64(ty.dtype, f64::INFINITY),
                n => Scalar::from_i64(ty.dtype, n as i64 - 4),
            })
            .collect();
        Tensor::from_scalars(ty.clone(), scalars).unwrap()
    };
    nest.operands.iter().map(|ty| fill(ty, draw)).collect()
}

/// Tests sums of products whose factors depend on different axes, in any order, with guards and
/// prologues.
pub fn product(draw: &mut Draw) -> Nest {
    let dtype = draw.of(&[DType::F32, DType::F64]);
    // The roles of the axes: batch, row, column.
    let mut roles = vec![1, 2];
    for _ in 0..draw.below(3) {
        let at = draw.below(roles.len() + 1);
        roles.insert(at, draw.below(3));
    }
    if draw.chance(50) {
        roles.reverse();
    }
    let free = roles.len();
    let reduction = 1 + draw.below(2);
    let extent = |draw: &mut Draw, i: usize| match i {
        _ if i >= free => 2 + draw.below(12),
        _ if roles[i] == 0 => 2,
        _ => 2 + draw.below(17),
    };
    let axes: Vec<Axis> = (0..free + reduction)
        .map(|i| Axis { name: format!("i{i}"), extent: extent(draw, i) })
        .collect();
    let mut nest = bare("product", dtype, axes, free);
    nest.aggregation = Some(Aggregation::Sum);
    let mut generator = Generator { draw, nest };
    let side = |other: usize| -> Vec<usize> {
        (0..free).filter(|&a| roles[a] != other).chain(free..free + reduction).collect()
    };
    let mut body = Program::default();
    let mut values = Vec::new();
    for variables in [side(2), side(1)] {
        // Each factor must use every axis of its roles, or their roles would be others.
        let mut load = generator.load(dtype, &[], None);
        load.offset = variables.iter().fold(Affine::constant(0), |sum, &v| {
            let coefficient = generator.draw.of(&[1, 1, 2, 3, 7]);
            sum.add(&Affine::var(v).scale(coefficient).unwrap()).unwrap()
        });
        let (_, high) = load.offset.bounds(&generator.nest.variable_bounds()).unwrap();
        load.when.clear();
        let mut size = high + 1;
        if generator.draw.chance(50) {
            size = 1 + generator.draw.below(size as usize) as i64;
            let below = Affine::constant(size - 1).sub(&load.offset).unwrap();
            if generator.draw.chance(50) { &mut load.when } else { &mut generator.nest.guards }
                .push(below);
        }
        generator.nest.operands[load.operand] = TensorType::new(dtype, [size as usize]);
        let value = body.push(Inst::Leaf(Leaf::Load(load)), dtype);
        values.push(if generator.draw.chance(30) {
            body.unary(UnaryOp::Abs, value)
        } else {
            value
        });
        if generator.draw.chance(30) {
            let guard = generator.affine(&variables);
            generator.nest.guards.push(guard);
        }
    }
    body.results = vec![body.binary(BinaryOp::Mul, values[0], values[1])];
    generator.nest.body = body;
    let everywhere: Vec<usize> = (0..free).collect();
    let mut epilogue = generator.program(dtype, &everywhere, true);
    if generator.draw.chance(30) {
        epilogue.results = epilogue.insts.ids().take(1).collect();
    }
    generator.nest.epilogue = epilogue;
    generator.nest
}

/// Tests nests whose points select the index on a free axis at which they count.
pub fn scatter(draw: &mut Draw) -> Nest {
    let mut nest = self::nest(draw);
    while nest.free == 0 || nest.reduction().is_empty() {
        nest = self::nest(draw);
    }
    let (axis, points): (usize, Vec<usize>) = (draw.below(nest.free), nest.reduction().collect());
    let dtype = draw.of(&[DType::I32, DType::I64, DType::U8]);
    if draw.chance(70) {
        let free = nest.free;
        nest.guards.retain(|guard| guard.variables().all(|variable| variable >= free));
    }
    let mut generator = Generator { draw, nest };
    let load = generator.load(dtype, &points, None);
    let body = &mut generator.nest.body;
    let key = body.push(Inst::Leaf(Leaf::Load(load)), dtype);
    let place = body.push(Inst::Leaf(Leaf::Index(Affine::var(axis))), DType::I32);
    let wide = if dtype == DType::U8 { DType::I32 } else { dtype };
    let (key, place) = (body.cast(key, wide), body.cast(place, wide));
    let named = body.binary(BinaryOp::Eq, key, place);
    match body.results.get(1).copied() {
        Some(counts) => body.results[1] = body.binary(BinaryOp::BitAnd, counts, named),
        None => body.results.push(named),
    }
    generator.nest
}
