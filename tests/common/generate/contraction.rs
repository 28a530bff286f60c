//! Random contractions.

use tile_compiler::affine::Affine;
use tile_compiler::dense::Dense;
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::{
    Access, Aggregation, Contraction, ContractionLeaf, Index, IndexRange, Op,
};
use tile_compiler::scalar::{self, BinaryOp, Inst, Program};
use tile_compiler::tensor::TensorType;

use super::bound::Bound;
use super::choices::Choices;
use super::graph::{Builder, Value, binary_bound, cast_bound};

/// The maximum number of points of a contraction, valid or not.
const POINTS: usize = 30_000;

/// The maximum number of elements of an operand or a result.
const ELEMENTS: usize = 20_000;

/// A contraction under construction.
struct Draft {
    indices: Vec<IndexRange>,
    output: Vec<Affine>,
    shape: Vec<usize>,
    accesses: Vec<Access>,
    /// The values of the operands; the access with the same number reads each.
    operands: Vec<Value>,
    constraints: Vec<Affine>,
}

/// Adds a contraction of new inputs.
pub fn contraction(choices: &mut Choices, builder: &mut Builder) {
    let aggregation = choices.of(&Aggregation::ALL);
    let dtype = choices.dtype();
    let mut draft = Draft {
        indices: vec![],
        output: vec![],
        shape: vec![],
        accesses: vec![],
        operands: vec![],
        constraints: vec![],
    };
    draft.choose_place(choices, aggregation == Aggregation::Assign);
    for _ in 0..choices.of(&[1, 2, 2, 3, 1, 0]) {
        draft.choose_access(choices, builder, dtype);
    }
    for _ in 0..choices.of(&[0, 0, 1, 2]) {
        // The constraint holds for about half of the box.
        let form = draft.form(choices, 3);
        let (low, high) = draft.bounds(&form);
        let offset = choices.of(&[0, 0, 1, 2]) - (low + high).div_euclid(2);
        draft.constraints.push(form.add(&Affine::constant(offset)).expect("small"));
    }
    draft.bound_variables(choices, builder);
    draft.add_to(choices, builder, aggregation, dtype);
}

impl Draft {
    /// Chooses variables, and the position that they write.
    fn choose_place(&mut self, choices: &mut Choices, assign: bool) {
        let rank = choices.of(&[2, 1, 3, 0, 4, 2, 5, 6]);
        let reduced = if assign { 0 } else { choices.of(&[1, 2, 0, 3]) };
        let mut points = 1;
        for variable in 0..rank + reduced {
            let size = choices.size(POINTS / points).max(1);
            points *= size;
            let low = choices.of(&[0, 0, 0, -1, 2]);
            let high = low + size as i64 - i64::from(choices.once_in(80)) * size as i64;
            self.indices.push(IndexRange { name: format!("i{variable}"), low, high });
        }
        let mut elements = 1;
        for axis in 0..rank {
            let place = match choices.pick(10) {
                // Strided, reversed, or of two variables, where many points share a position.
                5 if axis > 0 => {
                    // A combination of the variables of several axes. Each position still has one
                    // point, unless this axis lacks its own variable.
                    let own =
                        if assign || choices.pick(3) > 0 { choices.of(&[1, -1, 2, -2]) } else { 0 };
                    let other = (choices.pick(axis), choices.of(&[1, -1, 2, -2, 3]));
                    let form = Affine::new([(axis, own), other], 0);
                    Some(self.from(choices, form.expect("small"), 0))
                }
                7 => Affine::new([(axis, 2)], choices.of(&[0, 1])),
                8 => Affine::new(
                    [(axis, choices.of(&[-1, -1, -2]))],
                    2 * self.indices[axis].high - 2,
                ),
                9 if reduced > 0 => Affine::new([(axis, 1), (rank + choices.pick(reduced), 1)], 0),
                6 if self.indices[axis].high - self.indices[axis].low > 2 => {
                    Affine::new([(axis, 1)], choices.of(&[-1, 1]) - self.indices[axis].low)
                }
                _ => Affine::new([(axis, 1)], -self.indices[axis].low),
            };
            let place = place.expect("small");
            let (_, last) = self.bounds(&place);
            let size = (last + 1 + choices.of(&[0, 0, 0, 1, -i64::from(last > 2)]))
                .max(i64::from(!choices.once_in(25))) as usize;
            let size = if elements * size > ELEMENTS { 1 + size % 3 } else { size };
            elements *= size;
            self.output.push(place);
            self.shape.push(size);
        }
    }

    /// Returns the least and the greatest value of a form over the box of the variables.
    fn bounds(&self, form: &Affine) -> (i64, i64) {
        let ranges: Vec<_> =
            self.indices.iter().map(|index| (index.low, (index.high - 1).max(index.low))).collect();
        form.bounds(&ranges).expect("small")
    }

    /// Returns a sum of up to `most` variables with small coefficients.
    fn form(&self, choices: &mut Choices, most: usize) -> Affine {
        let count = if self.indices.is_empty() { 0 } else { choices.pick(most + 1) };
        let mut term =
            || (choices.pick(self.indices.len()), choices.of(&[1, 1, 1, 2, -1, 3, -2, -3]));
        let terms: Vec<_> = (0..count).map(|_| term()).collect();
        Affine::new(terms, 0).expect("small")
    }

    /// Adds a constant to the form, so that it is at least about `low`; a constant form is never
    /// below it.
    fn from(&self, choices: &mut Choices, form: Affine, low: i64) -> Affine {
        if form.is_constant() {
            return Affine::constant(low + choices.of(&[0, 0, 1, 2]));
        }
        let offset = low - self.bounds(&form).0 + choices.of(&[0, 0, 0, 1, -1, 2, -3]);
        form.add(&Affine::constant(offset)).expect("small")
    }

    /// Adds a read of a new input; rarely at an index from another input.
    fn choose_access(&mut self, choices: &mut Choices, builder: &mut Builder, dtype: DType) {
        let dtype = if choices.once_in(4) { choices.dtype() } else { dtype };
        let rank = choices.of(&[2, 1, 3, 2, 0, 4]);
        let mut index = Vec::new();
        let mut shape = Vec::new();
        // Variables in turn: from the last of the position, from the first that is only reduced, or
        // from the first.
        let places = self.output.len();
        let first = choices.of(&[places.saturating_sub(1), places, 0]);
        let dynamic = (rank > 0 && choices.once_in(6)).then(|| choices.pick(rank));
        for axis in 0..rank {
            let form = match choices.pick(3) {
                0 | 1 if !self.indices.is_empty() => {
                    let variable = (first + axis) % self.indices.len();
                    Affine::new([(variable, 1)], -self.indices[variable].low).expect("small")
                }
                _ => {
                    let form = self.form(choices, 2);
                    self.from(choices, form, 0)
                }
            };
            let (_, last) = self.bounds(&form);
            let size = (last + 1 + choices.of(&[0, 0, 0, 0, 1, -1]))
                .clamp(i64::from(!choices.once_in(30)), 300) as usize;
            let elements: usize = shape.iter().product();
            shape.push(if elements * size > ELEMENTS { 1 + size % 3 } else { size });
            if dynamic == Some(axis) {
                let steps = self.choose_steps(choices, builder);
                index.push(Index { affine: form, access: Some(steps) });
            } else {
                index.push(Index { affine: form, access: None });
            }
        }
        self.accesses.push(Access { operand: self.operands.len(), index });
        self.operands.push(builder.input(choices, dtype, &shape));
    }

    /// Adds a read of an integer input of small values, and returns its access's number.
    fn choose_steps(&mut self, choices: &mut Choices, builder: &mut Builder) -> usize {
        let form = self.form(choices, 1);
        let form = self.from(choices, form, 0);
        let size = (self.bounds(&form).1 + 1).clamp(1, 200) as usize;
        let dtype = choices.of(&[DType::I32, DType::I32, DType::U8, DType::I64]);
        let low = if dtype.is_signed_integer() { -2.0 } else { 0.0 };
        self.accesses.push(Access {
            operand: self.operands.len(),
            index: vec![Index { affine: form, access: None }],
        });
        self.operands.push(builder.input_of(choices, dtype, &[size], low, 4.0, 0));
        self.accesses.len() - 1
    }

    /// Narrows each variable's range to what the conditions on it alone allow, and adds conditions
    /// if those allow more than the range: a contraction's ranges contain every point whose
    /// conditions hold.
    fn bound_variables(&mut self, choices: &mut Choices, builder: &Builder) {
        // Each condition as `form >= 0`.
        let mut conditions = self.constraints.clone();
        let mut within = |form: &Affine, size: usize| {
            conditions.push(form.clone());
            conditions.push(Affine::constant(size as i64 - 1).sub(form).expect("small"));
        };
        self.output.iter().zip(&self.shape).for_each(|(form, &size)| within(form, size));
        for access in &self.accesses {
            let fixed = access.index.iter().zip(builder.shape(self.operands[access.operand]));
            fixed
                .filter(|(index, _)| index.access.is_none())
                .for_each(|(index, size)| within(&index.affine, size));
        }
        for (variable, range) in self.indices.iter_mut().enumerate() {
            let (mut first, mut last) = (i64::MIN, i64::MAX);
            for condition in &conditions {
                match *condition.terms() {
                    [(v, c)] if v == variable && c > 0 => {
                        first = first.max(-condition.offset().div_euclid(c))
                    }
                    [(v, c)] if v == variable => last = last.min(condition.offset().div_euclid(-c)),
                    _ => {}
                }
            }
            // Rarely, a condition that is not needed.
            if first < range.low || choices.once_in(20) {
                self.constraints.push(Affine::new([(variable, 1)], -range.low).expect("small"));
            }
            if last >= range.high || choices.once_in(20) {
                self.constraints
                    .push(Affine::new([(variable, -1)], range.high - 1).expect("small"));
            }
            range.low = first.clamp(range.low, range.high);
            range.high = last.clamp(range.low - 1, range.high - 1) + 1;
        }
    }

    /// Generates a value of the accesses, mostly their product. `None` if none is a factor.
    fn of_accesses(
        &self,
        choices: &mut Choices,
        builder: &Builder,
        body: &mut Body,
        dtype: DType,
    ) -> Option<scalar::Value> {
        use BinaryOp::{Add, Max, Mul, Sub};
        let mut value = None;
        for (number, access) in self.accesses.iter().enumerate() {
            let operand = self.operands[access.operand];
            let leaf =
                body.leaf(ContractionLeaf::Access(number), builder.dtype(operand), operand.bound);
            // An access that is only an index need not be a factor too.
            let mut indices = self.accesses.iter().flat_map(|a| &a.index);
            if indices.any(|index| index.access == Some(number)) && !choices.once_in(3) {
                continue;
            }
            let leaf = body.cast(leaf, dtype);
            value = Some(match value {
                None => leaf,
                Some(value) => {
                    let op = choices.of(&[Mul, Mul, Mul, Add, Sub, Max]);
                    body.binary(op, value, leaf)
                }
            });
        }
        value
    }

    /// Returns whether the coordinates of the output are different variables, or fixed.
    fn is_plain(&self) -> bool {
        let variables: Vec<usize> = self.output.iter().flat_map(Affine::variables).collect();
        let is_short = |place: &Affine| place.variables().count() <= 1;
        let is_new = |(n, variable): (usize, &usize)| !variables[..n].contains(variable);
        self.output.iter().all(is_short) && variables.iter().enumerate().all(is_new)
    }

    /// Adds an axis of ranks, perhaps more than there are points, and returns their variable.
    fn add_rank(&mut self, choices: &mut Choices) -> usize {
        let (rank, axis) = (self.indices.len(), choices.pick(self.output.len() + 1));
        let count = choices.of(&[1, 2, 3, 7, 90]);
        self.indices.push(IndexRange { name: "rank".into(), low: 0, high: count as i64 });
        self.output.insert(axis, Affine::var(rank));
        self.shape.insert(axis, count);
        rank
    }

    fn add_to(
        mut self,
        choices: &mut Choices,
        builder: &mut Builder,
        aggregation: Aggregation,
        dtype: DType,
    ) {
        let arg = matches!(aggregation, Aggregation::ArgMax | Aggregation::ArgMin);
        let reduced = |v: &usize| self.output.iter().all(|place| place.as_variable() != Some(*v));
        let extent = |v: usize| (self.indices[v].high - self.indices[v].low).max(1) as f64;
        let points: f64 = (0..self.indices.len()).filter(reduced).map(extent).product();
        let mut body = Body { program: Program::default(), bounds: Dense::default() };
        let mut value = self.of_accesses(choices, builder, &mut body, dtype);
        if value.is_none() || choices.once_in(8) {
            let form = self.form(choices, 2);
            let form = self.from(choices, form, 0);
            let (low, high) = self.bounds(&form);
            let bound = Bound::exact(low.abs().max(high.abs()) as f64, 0);
            let leaf = body.leaf(ContractionLeaf::Index(form), DType::I32, bound);
            let leaf = body.cast(leaf, dtype);
            value = Some(value.map_or(leaf, |value| body.binary(BinaryOp::Add, value, leaf)));
        }
        let mut value = value.expect("there is one");
        let product = aggregation == Aggregation::Product;
        if dtype.is_float() && (product || body.bounds[value].magnitude * points > 3e4) {
            // Products of many factors would overflow, and so would sums of f16.
            value = body
                .clamp(value, if product { 1.0 } else { (3e4 / points).clamp(1.0, 8.0).floor() });
        }
        let exact = body.bounds[value].is_exact();
        let aggregation = if arg && !exact { Aggregation::Max } else { aggregation };
        body.program.results = vec![value];
        if choices.once_in(6) && exact {
            let limit = body.constant(Scalar::from_f64(dtype, choices.of(&[0.0, 1.0, -1.0])));
            let counts = body.binary(choices.of(&[BinaryOp::Gt, BinaryOp::Ne]), value, limit);
            body.program.results.push(counts);
        }
        let bound = aggregated(aggregation, dtype, body.bounds[value], points);
        let arg = matches!(aggregation, Aggregation::ArgMax | Aggregation::ArgMin);
        let rank = (arg && self.is_plain() && choices.once_in(2)).then(|| self.add_rank(choices));
        let ty = TensorType::new(if arg { DType::I32 } else { dtype }, self.shape);
        let mut operands: Vec<_> = self.operands.iter().map(|operand| operand.id).collect();
        let mut bound = bound;
        let default = choices.once_in(5);
        if default {
            let value = builder.input(choices, ty.dtype, &ty.shape);
            operands.push(value.id);
            bound.magnitude = bound.magnitude.max(value.bound.magnitude);
            bound.grid = bound.grid.zip(value.bound.grid).map(|(a, b)| a.max(b));
        }
        let (indices, output, accesses, constraints) =
            (self.indices, self.output, self.accesses, self.constraints);
        let body = body.program;
        let contraction = Contraction {
            aggregation,
            rank,
            indices,
            output,
            accesses,
            constraints,
            body,
            default,
        };
        builder.add(Op::Contraction(Box::new(contraction)), ty, &operands, bound);
    }
}

/// Returns the bound of a position that aggregates up to `points` values.
pub fn aggregated(aggregation: Aggregation, dtype: DType, value: Bound, points: f64) -> Bound {
    match aggregation {
        Aggregation::Sum => {
            // Narrow types are summed in f32 at least.
            let kept = if dtype == DType::F64 || !dtype.is_float() { dtype } else { DType::F32 };
            let sum =
                Bound { magnitude: points * value.magnitude, error: points * value.error, ..value };
            let rounding = if sum.rounded(kept).is_exact() {
                0.0
            } else {
                points * kept.epsilon() * sum.magnitude
            };
            let grid = if rounding == 0.0 { sum.grid } else { None };
            Bound { error: sum.error + rounding, grid, ..sum }.rounded(dtype)
        }
        // Factors are at most 1.
        Aggregation::Product if dtype.is_float() => {
            Bound::inexact(1.0, points * (value.error + dtype.epsilon())).rounded(dtype)
        }
        Aggregation::Product => Bound::exact(f64::INFINITY, 0).rounded(dtype),
        Aggregation::Max | Aggregation::Min | Aggregation::Assign => value,
        Aggregation::ArgMax | Aggregation::ArgMin => Bound::exact(1e9, 0),
    }
}

/// A body under construction, with the bound of each instruction.
struct Body {
    program: Program<ContractionLeaf>,
    bounds: Dense<scalar::Value, Bound>,
}

impl Body {
    /// Returns the number of an instruction, which has just been pushed or existed before, and
    /// stores its bound.
    fn bounded(&mut self, value: scalar::Value, bound: Bound) -> scalar::Value {
        if value == self.bounds.next_id() {
            self.bounds.push(bound);
        }
        value
    }

    fn leaf(&mut self, leaf: ContractionLeaf, dtype: DType, bound: Bound) -> scalar::Value {
        let value = self.program.push(Inst::Leaf(leaf), dtype);
        self.bounded(value, bound)
    }

    fn constant(&mut self, scalar: Scalar) -> scalar::Value {
        let value = self.program.constant(scalar);
        self.bounded(
            value,
            Bound::exact(scalar.to_f64().abs(), if scalar.dtype.is_float() { 2 } else { 0 }),
        )
    }

    fn binary(&mut self, op: BinaryOp, a: scalar::Value, b: scalar::Value) -> scalar::Value {
        let bound = binary_bound(op, self.program.dtype(a), self.bounds[a], self.bounds[b]);
        let value = self.program.binary(op, a, b);
        self.bounded(value, bound)
    }

    /// Clamps the value between `-most` and `most`, a whole number.
    fn clamp(&mut self, value: scalar::Value, most: f64) -> scalar::Value {
        let dtype = self.program.dtype(value);
        let low = self.constant(Scalar::from_f64(dtype, -most));
        let high = self.constant(Scalar::from_f64(dtype, most));
        let bound = self.bounds[value];
        let bound = Bound {
            magnitude: bound.magnitude.min(most),
            error: bound.error.min(2.0 * most),
            ..bound
        };
        let value = self.program.binary(BinaryOp::Max, value, low);
        let value = self.bounded(value, bound);
        let value = self.program.binary(BinaryOp::Min, value, high);
        self.bounded(value, bound)
    }

    fn cast(&mut self, mut value: scalar::Value, dtype: DType) -> scalar::Value {
        if self.program.dtype(value) == dtype {
            return value;
        }
        if dtype.is_float() && self.bounds[value].magnitude > 1.0 / dtype.epsilon() {
            value = self.clamp(value, 8.0);
        }
        let bound = cast_bound(self.bounds[value], dtype);
        let value = self.program.cast(value, dtype);
        self.bounded(value, bound)
    }
}
