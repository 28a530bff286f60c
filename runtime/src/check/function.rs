//! Calls of WGSL's built-in functions: the componentwise ones, and the few that mix components.

use naga::{BinaryOperator, Expression, Handle, MathFunction, Scalar};

use super::arithmetic;
use super::fault::{Kind, Result};
use super::machine::{Frame, Machine};
use super::math::componentwise;
use super::packing::{dot_bytes, packing};
use super::value::Column;

impl Machine<'_> {
    pub fn math(
        &self,
        frame: &Frame,
        fun: MathFunction,
        first: Handle<Expression>,
        others: [Option<Handle<Expression>>; 3],
        lanes: &[usize],
    ) -> Result<Column> {
        let scalar = frame.scalar(first)?;
        let argument = frame.data(first)?;
        let mut arguments = [argument; 4];
        for (slot, other) in arguments[1..].iter_mut().zip(others) {
            if let Some(other) = other {
                *slot = frame.data(other)?;
            }
        }
        if let Some(f) = componentwise(fun, scalar) {
            return Ok(Column::map(lanes, arguments, f));
        }
        if let Some(column) = packing(fun, argument, lanes, self.lanes) {
            return Ok(column);
        }
        let vectors = Vectors { lanes, scalar };
        let other = arguments[1];
        match fun {
            MathFunction::Dot => vectors.dot(argument, other),
            MathFunction::Cross => vectors.cross(argument, other),
            MathFunction::Length => vectors.length(argument),
            MathFunction::Distance => {
                vectors.length(&vectors.binary(BinaryOperator::Subtract, argument, other)?)
            }
            MathFunction::Normalize => {
                vectors.binary(BinaryOperator::Divide, argument, &vectors.length(argument)?)
            }
            MathFunction::Dot4I8Packed => {
                Ok(Column::map(lanes, [argument, other], |[a, b]| dot_bytes(a, b, true)))
            }
            MathFunction::Dot4U8Packed => {
                Ok(Column::map(lanes, [argument, other], |[a, b]| dot_bytes(a, b, false)))
            }
            _ => Err(Kind::unsupported(&fun).into()),
        }
    }
}

/// Operations on vectors of a scalar type.
struct Vectors<'a> {
    lanes: &'a [usize],
    scalar: Scalar,
}

impl Vectors<'_> {
    fn binary(&self, op: BinaryOperator, a: &Column, b: &Column) -> Result<Column> {
        let f = arithmetic::binary(op, self.scalar).ok_or_else(|| Kind::unsupported(&op))?;
        Ok(Column::map(self.lanes, [a, b], |[a, b]| f(a, b)))
    }

    fn dot(&self, a: &Column, b: &Column) -> Result<Column> {
        let products = self.binary(BinaryOperator::Multiply, a, b)?;
        let first = products.slice(0, 1);
        (1..products.components()).try_fold(first, |sum, index| {
            self.binary(BinaryOperator::Add, &sum, &products.slice(index, 1))
        })
    }

    fn length(&self, a: &Column) -> Result<Column> {
        let root = componentwise(MathFunction::Sqrt, self.scalar);
        let root = root.ok_or_else(|| Kind::unsupported(&MathFunction::Sqrt))?;
        Ok(Column::map(self.lanes, [&self.dot(a, a)?], |[square]| root([square; 4])))
    }

    fn cross(&self, a: &Column, b: &Column) -> Result<Column> {
        let rotated = |v: &Column, by: usize| {
            let parts = [0, 1, 2].map(|index| v.slice((index + by) % 3, 1));
            Column::concatenate(v.component(0).len(), parts.iter())
        };
        let product = |i: usize, j: usize| {
            self.binary(BinaryOperator::Multiply, &rotated(a, i), &rotated(b, j))
        };
        self.binary(BinaryOperator::Subtract, &product(1, 2)?, &product(2, 1)?)
    }
}
