//! The reference for a single nest: computes one of its rows, point by point, as the documentation
//! of [`crate::nest`] specifies. It uses no schedule. Its time is proportional to the points of the
//! row, so tests check a kernel at as many places as time permits.

use crate::affine::Affine;
use crate::dense::Dense;
use crate::dtype::{DType, Scalar};
use crate::graph::Aggregation;
use crate::nest::{Inner, Leaf, Load, Nest};
use crate::scalar::{Inst, Program, Value};
use crate::tensor::Tensor;

use super::Error;
use super::bounded::{Bounded, Total};

/// An element that a row of a nest writes.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Number of the output.
    pub output: usize,
    /// Row-major position in the output.
    pub position: usize,
    /// The value that the reference writes.
    pub value: Bounded,
}

/// Returns the number of rows of a nest: of its places, if it has no row statistics.
pub fn rows(nest: &Nest) -> usize {
    nest.points(0..nest.rows)
}

/// Returns the elements that `nest` writes for row number `row`; `turns` are the steps of the loops
/// around it.
///
/// # Errors
/// [`Error::Malformed`] if the nest reads or writes out of bounds, or an operand has another type.
pub fn row(
    nest: &Nest,
    operands: &[Tensor],
    row: usize,
    turns: &[usize],
) -> Result<Vec<Written>, Error> {
    let malformed = |what: &str| Error::Malformed(format!("nest {}: {what}", nest.name));
    if !nest.operands.iter().eq(operands.iter().map(Tensor::ty))
        || turns.len() != nest.loops
        || row >= rows(nest)
    {
        return Err(malformed("it was given other tensors, turns or rows than it has"));
    }
    let mut point = Point { nest, operands, at: vec![0; nest.axes.len() + nest.derived.len()] };
    nest.loops().zip(turns).for_each(|(axis, &turn)| point.at[axis] = turn as i64);
    point.set(0..nest.rows, row);
    let run = |point: &mut Point| -> Option<Vec<Written>> {
        let columns = nest.row_length();
        let scores = point.scores()?;
        let mut totals = Vec::with_capacity(columns);
        for column in 0..columns {
            point.set(nest.columns(), column);
            totals.push(match nest.aggregation {
                Some(_) if !nest.inner.is_empty() => Some(point.total_of_sums(&scores)?),
                Some(_) => Some((point.total()?, Dense::default())),
                None => None,
            });
        }
        // Instruction by instruction, since statistics need a value in all columns.
        let epilogue = &nest.epilogue;
        let mut values: Dense<Value, Vec<Bounded>> = Dense::with_capacity(epilogue.insts.len());
        for (inst, dtype) in &epilogue.insts {
            if let Inst::Leaf(Leaf::Statistic(aggregation, a)) = inst {
                let mut total = Total::new(*aggregation, *dtype);
                values[*a].iter().for_each(|&value| total.add(value, 0));
                values.push(vec![total.result(); columns]);
                continue;
            }
            let mut of_columns = Vec::with_capacity(columns);
            for (column, total) in totals.iter().enumerate() {
                point.set(nest.columns(), column);
                let leaf = |leaf: &Leaf| match leaf {
                    Leaf::Accumulator => total.as_ref().map(|(total, _)| total.result()),
                    Leaf::Written => total
                        .as_ref()
                        .map(|(total, _)| Bounded::exact(Scalar::bool(total.is_written()))),
                    Leaf::OfBody(statistic) => {
                        total.as_ref().map(|(_, values)| values[*statistic][0])
                    }
                    leaf => point.read(leaf, |value| values[value][column]),
                };
                of_columns.push(instruction(inst, *dtype, |value| values[value][column], leaf)?);
            }
            values.push(of_columns);
        }
        let mut written = Vec::new();
        for (output, &result) in epilogue.results.iter().enumerate() {
            let columns = if nest.is_of_rows(output) { 1 } else { columns };
            for (column, &value) in values[result][..columns].iter().enumerate() {
                point.set(nest.columns(), column);
                let position =
                    usize::try_from(point.value(&nest.outputs[output].position)?).ok()?;
                written.push(Written { output, position, value });
            }
        }
        Some(written)
    };
    run(&mut point).ok_or_else(|| malformed("it reads or writes what is not there"))
}

/// Returns the result of an instruction. `value` returns earlier values, and `leaf` reads leaves.
fn instruction(
    inst: &Inst<Leaf>,
    dtype: DType,
    value: impl Fn(Value) -> Bounded,
    leaf: impl Fn(&Leaf) -> Option<Bounded>,
) -> Option<Bounded> {
    Some(match inst {
        Inst::Const(scalar) => Bounded::exact(*scalar),
        Inst::Leaf(read) => leaf(read)?,
        Inst::Unary(op, a) => Bounded::unary(*op, value(*a)),
        Inst::Binary(op, a, b) => Bounded::binary(*op, value(*a), value(*b)),
        Inst::Select(c, a, b) => Bounded::select(value(*c), value(*a), value(*b)),
        Inst::Cast(a) => Bounded::cast(value(*a), dtype),
    })
}

/// A point of a nest's axes.
struct Point<'a> {
    nest: &'a Nest,
    operands: &'a [Tensor],
    /// Values of the axes, then of the derived variables.
    at: Vec<i64>,
}

impl Point<'_> {
    /// Moves to point `number` of these axes, in row-major order.
    fn set(&mut self, axes: std::ops::Range<usize>, mut number: usize) {
        for axis in axes.rev() {
            let extent = self.nest.axes[axis].extent;
            self.at[axis] = (number % extent) as i64;
            number /= extent;
        }
        for (number, derived) in self.nest.derived.iter().enumerate() {
            let numerator = self.value(&derived.numerator).unwrap_or_default();
            self.at[self.nest.axes.len() + number] = numerator.div_euclid(derived.denominator);
        }
    }

    fn value(&self, affine: &Affine) -> Option<i64> {
        affine.evaluate(&self.at)
    }

    /// Returns the aggregate over all points at this place.
    fn total(&mut self) -> Option<Total> {
        let nest = self.nest;
        let body = &nest.body;
        let mut total = Total::new(nest.aggregation?, nest.accumulator()?);
        let mut ranked = Vec::new();
        let mut values = Dense::with_capacity(body.insts.len());
        for number in 0..nest.reduction_points() {
            self.set(nest.reduction(), number);
            if !nest.guards.iter().all(|guard| self.value(guard).is_some_and(|value| value >= 0)) {
                continue;
            }
            self.evaluate(body, &mut values)?;
            let mut term = values[body.results[0]];
            if let Some(&counts) = body.results.get(1) {
                if !values[counts].value.is_true() && values[counts].error == 0.0 {
                    continue;
                }
                if values[counts].error > 0.0 {
                    term.error = f64::INFINITY;
                }
            }
            let position =
                nest.position.as_ref().map_or(Some(0), |position| self.value(position))?;
            match &nest.rank {
                Some(_) => ranked.push((term, position as i32)),
                None => total.add(term, position as i32),
            }
        }
        if let Some(rank) = &nest.rank {
            total.choose(ranked, usize::try_from(self.value(rank)?).ok()?);
        }
        Some(total)
    }

    /// Returns the aggregate at this place for a body with inner sums, and the values of the body's
    /// instructions at all points.
    fn total_of_sums(
        &mut self,
        scores: &[Vec<Bounded>],
    ) -> Option<(Total, Dense<Value, Vec<Bounded>>)> {
        let nest = self.nest;
        let points = nest.reduction_points();
        let mut values: Dense<Value, Vec<Bounded>> = Dense::with_capacity(nest.body.insts.len());
        for (inst, dtype) in &nest.body.insts {
            if let Inst::Leaf(Leaf::Statistic(aggregation, a)) = inst {
                let mut total = Total::new(*aggregation, *dtype);
                values[*a].iter().for_each(|&value| total.add(value, 0));
                values.push(vec![total.result(); points]);
                continue;
            }
            let of_point = |number: usize| {
                self.set(nest.reduction(), number);
                let known = |value: Value| values[value][number];
                match inst {
                    Inst::Leaf(Leaf::Inner(sum)) => Some(scores[*sum][number]),
                    _ => instruction(inst, *dtype, known, |leaf| self.read(leaf, known)),
                }
            };
            let of_points = (0..points).map(of_point).collect::<Option<Vec<Bounded>>>()?;
            values.push(of_points);
        }
        let mut total = Total::new(nest.aggregation?, nest.accumulator()?);
        values[nest.body.results[0]].iter().for_each(|&value| total.add(value, 0));
        Some((total, values))
    }

    /// Returns the inner sums at all points. They do not depend on columns.
    fn scores(&mut self) -> Option<Vec<Vec<Bounded>>> {
        let nest = self.nest;
        let of_sum = |sum: &Inner| {
            let of_point = |number: usize| {
                self.set(nest.reduction(), number);
                self.inner_sum(sum)
            };
            (0..nest.reduction_points()).map(of_point).collect::<Option<Vec<Bounded>>>()
        };
        nest.inner.iter().map(of_sum).collect()
    }

    /// Returns an inner sum at this point.
    fn inner_sum(&mut self, Inner { axes, body }: &Inner) -> Option<Bounded> {
        let dtype = body.dtype(body.results[0]);
        let mut total = Total::new(Aggregation::Sum, dtype);
        let mut values = Dense::default();
        for term in 0..self.nest.points(axes.clone()) {
            self.set(axes.clone(), term);
            self.evaluate(body, &mut values)?;
            total.add(values[body.results[0]], 0);
        }
        Some(total.result())
    }

    /// Computes the values of a program's instructions at this point.
    fn evaluate(&self, program: &Program<Leaf>, values: &mut Dense<Value, Bounded>) -> Option<()> {
        values.clear();
        for (inst, dtype) in &program.insts {
            let known = &*values;
            let value =
                instruction(inst, *dtype, |v| known[v], |leaf| self.read(leaf, |v| known[v]))?;
            values.push(value);
        }
        Some(())
    }

    /// Reads a leaf at this point, if it depends only on operands and axes.
    fn read(&self, leaf: &Leaf, value: impl Fn(Value) -> Bounded) -> Option<Bounded> {
        match leaf {
            Leaf::Load(load) => self.load(load, value),
            Leaf::Table(table) => table.element(&self.at).map(Bounded::exact),
            Leaf::Index(affine) => Some(Bounded::exact(Scalar::i32(self.value(affine)? as i32))),
            Leaf::Accumulator
            | Leaf::Written
            | Leaf::Statistic(..)
            | Leaf::Inner(_)
            | Leaf::OfBody(_) => None,
        }
    }

    fn load(&self, load: &Load, value: impl Fn(Value) -> Bounded) -> Option<Bounded> {
        let operand = &self.operands[load.operand];
        if load.when.iter().any(|condition| self.value(condition).is_none_or(|value| value < 0)) {
            return Some(Bounded::exact(Scalar::zero(operand.dtype())));
        }
        let mut offset = self.value(&load.offset)?;
        let mut error = 0.0;
        for &(index, stride) in &load.dynamic {
            let index = value(index);
            offset = offset.checked_add(index.value.to_i64().checked_mul(stride)?)?;
            if index.error > 0.0 {
                error = f64::INFINITY;
            }
        }
        let position =
            usize::try_from(offset).ok().filter(|&position| position < operand.ty().elements())?;
        Some(Bounded { value: operand.get(position), error })
    }
}
