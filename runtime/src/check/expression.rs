//! Evaluation of one expression for all active lanes, from the values of its operands.

use naga::{BinaryOperator, Expression, Handle, RelationalFunction, ScalarKind};

use super::arithmetic;
use super::fault::{Kind, Result};
use super::layout::{Layout, Shape, Typed};
use super::machine::{Frame, Machine};
use super::value::{Column, Number, Pointer, Value, Word, literal};

impl<'a> Machine<'a> {
    /// Returns the value of an expression, from those of its operands.
    pub fn evaluate(
        &mut self,
        frame: &Frame<'a>,
        handle: Handle<Expression>,
        lanes: &[usize],
    ) -> Result<Value> {
        let expression = &frame.body.expressions[handle];
        let pointer = |memory: usize, lanes: usize| {
            Value::Pointer(Pointer { memory, offsets: vec![0; lanes] })
        };
        match *expression {
            Expression::Constant(constant) => {
                let init = self.module.constants[constant].init;
                let value = self.constants.get(init.index()).cloned();
                Ok(value.ok_or_else(|| Kind::unsupported(expression))?)
            }
            Expression::FunctionArgument(index) => Ok(frame.arguments[index as usize].clone()),
            Expression::GlobalVariable(global) => {
                let memory = self.bound(global).ok_or_else(|| Kind::unsupported(expression))?;
                Ok(pointer(memory, self.lanes))
            }
            Expression::LocalVariable(local) => {
                Ok(pointer(frame.locals[local.index()], self.lanes))
            }
            Expression::Access { base, index } => {
                let scalar = frame.scalar(index)?;
                let indices = frame.data(index)?.component(0);
                let index = |lane: usize| match Number::of(indices[lane], scalar) {
                    Number::Integer(index) => index,
                    Number::Float(index) => index as i128,
                };
                self.access(frame, base, index, lanes)
            }
            Expression::AccessIndex { base, index } => match &frame.layout(base)?.shape {
                Shape::Struct(members) => member(frame, base, members, index as usize, lanes),
                _ => self.access(frame, base, |_| i128::from(index), lanes),
            },
            _ => self.compute(frame, handle, lanes).map(Value::Data),
        }
    }

    /// Returns the value of an expression that is neither a pointer nor a part of a value.
    fn compute(
        &mut self,
        frame: &Frame<'a>,
        handle: Handle<Expression>,
        lanes: &[usize],
    ) -> Result<Column> {
        let expression = &frame.body.expressions[handle];
        Ok(match *expression {
            Expression::Literal(value) => Column::splat(self.lanes, &[literal(value)]),
            Expression::ZeroValue(_) => {
                Column::zero(self.lanes, frame.layout(handle)?.leaves().len())
            }
            Expression::Compose { ref components, .. } => {
                let parts =
                    components.iter().map(|&part| frame.data(part)).collect::<Result<Vec<_>>>()?;
                Column::concatenate(self.lanes, parts.into_iter())
            }
            Expression::Splat { size, value } => {
                let value = frame.data(value)?;
                Column::concatenate(self.lanes, (0..size as usize).map(|_| value))
            }
            Expression::Swizzle { size, vector, pattern } => {
                let vector = frame.data(vector)?;
                let parts =
                    pattern[..size as usize].iter().map(|&part| vector.slice(part as usize, 1));
                Column::concatenate(self.lanes, parts.collect::<Vec<_>>().iter())
            }
            Expression::Load { pointer } => {
                let layout = frame.layout(pointer)?;
                self.load(frame.pointer(pointer)?, layout, lanes)?
            }
            Expression::Unary { op, expr } => {
                let f = arithmetic::unary(op, frame.scalar(expr)?)
                    .ok_or_else(|| Kind::unsupported(&op))?;
                Column::map(lanes, [frame.data(expr)?], |[word]| f(word))
            }
            Expression::Binary { op, left, right } => self.binary(frame, op, left, right, lanes)?,
            Expression::Select { condition, accept, reject } => {
                let operands = [frame.data(condition)?, frame.data(accept)?, frame.data(reject)?];
                Column::map(
                    lanes,
                    operands,
                    |[condition, accept, reject]| if condition != 0 { accept } else { reject },
                )
            }
            Expression::Relational { fun, argument } => relational(frame, fun, argument, lanes)?,
            Expression::Math { fun, arg, arg1, arg2, arg3 } => {
                self.math(frame, fun, arg, [arg1, arg2, arg3], lanes)?
            }
            // A bit cast between scalars of one width.
            Expression::As { expr, convert: None, .. } => frame.data(expr)?.clone(),
            Expression::As { expr, kind, convert: Some(width) } => {
                let (from, to) = (frame.scalar(expr)?, naga::Scalar { kind, width });
                Column::map(lanes, [frame.data(expr)?], |[word]| Number::of(word, from).word(to))
            }
            Expression::ArrayLength(pointer) => self.array_length(frame, pointer, lanes)?,
            Expression::CooperativeLoad { columns, rows, ref data, .. } => {
                self.load_matrix(frame, [rows as usize, columns as usize], data, lanes)?
            }
            Expression::CooperativeMultiplyAdd { a, b, c } => {
                self.multiply_add(frame, [a, b, c], lanes)?
            }
            _ => return Err(Kind::unsupported(expression).into()),
        })
    }

    fn array_length(
        &self,
        frame: &Frame,
        pointer: Handle<Expression>,
        lanes: &[usize],
    ) -> Result<Column> {
        let layout = frame.layout(pointer)?;
        let pointer = frame.pointer(pointer)?;
        let memory = &self.memories[pointer.memory];
        let mut column = Column::zero(self.lanes, 1);
        for &lane in lanes {
            let length = layout.length(memory.bytes_after(pointer.offsets[lane]));
            column.component_mut(0)[lane] = length.unwrap_or(0) as u64;
        }
        Ok(column)
    }

    /// Returns an element of a vector, matrix or array, or a pointer to it. Checks that the index
    /// is in range.
    fn access(
        &self,
        frame: &Frame,
        base: Handle<Expression>,
        index: impl Fn(usize) -> i128,
        lanes: &[usize],
    ) -> Result<Value> {
        let layout = frame.layout(base)?;
        let Shape::Sequence { element, stride, .. } = &layout.shape else {
            return Err(Kind::unsupported(&frame.body.expressions[base]).into());
        };
        // Returns the index as a number within `bytes` bytes, or the fault.
        let check = |lane: usize, bytes: usize, place: &dyn Fn() -> String| {
            let (index, length) = (index(lane), layout.length(bytes).unwrap_or(0));
            match usize::try_from(index) {
                Ok(index) if index < length => Ok(index),
                _ => Err(Kind::OutOfBounds { place: place(), index, length, invocation: lane }),
            }
        };
        Ok(match frame.value(base)? {
            Value::Pointer(pointer) => {
                let memory = &self.memories[pointer.memory];
                let mut offsets = vec![0; self.lanes];
                for &lane in lanes {
                    let start = pointer.offsets[lane];
                    let place = || memory.place(start, Some(layout));
                    offsets[lane] =
                        start + check(lane, memory.bytes_after(start), &place)? * stride;
                }
                Value::Pointer(Pointer { memory: pointer.memory, offsets })
            }
            Value::Data(data) => {
                let count = element.leaves().len();
                let mut column = Column::zero(self.lanes, count);
                for &lane in lanes {
                    let first = count * check(lane, layout.size, &|| "a value".to_owned())?;
                    for leaf in 0..count {
                        column.component_mut(leaf)[lane] = data.component(first + leaf)[lane];
                    }
                }
                Value::Data(column)
            }
        })
    }

    fn binary(
        &self,
        frame: &Frame,
        op: BinaryOperator,
        left: Handle<Expression>,
        right: Handle<Expression>,
        lanes: &[usize],
    ) -> Result<Column> {
        let is_matrix = |operand: Handle<Expression>| match &frame.body.typed[operand.index()] {
            Typed::Data(layout) => matches!(&layout.shape,
                Shape::Sequence { element, .. } if matches!(element.shape, Shape::Sequence { .. })),
            _ => false,
        };
        if op == BinaryOperator::Multiply && (is_matrix(left) || is_matrix(right)) {
            return Err(Kind::Unsupported("a product of matrices".to_owned()).into());
        }
        let scalar = frame.scalar(left)?;
        let f = arithmetic::binary(op, scalar).ok_or_else(|| Kind::unsupported(&op))?;
        let (left, right) = (frame.data(left)?, frame.data(right)?);
        let is_integer = matches!(scalar.kind, ScalarKind::Sint | ScalarKind::Uint);
        if is_integer && matches!(op, BinaryOperator::Divide | BinaryOperator::Modulo) {
            for divisors in (0..right.components()).map(|index| right.component(index)) {
                if let Some(&invocation) = lanes.iter().find(|&&lane| divisors[lane] == 0) {
                    return Err(Kind::DivisionByZero { invocation }.into());
                }
            }
        }
        Ok(Column::map(lanes, [left, right], |[a, b]| f(a, b)))
    }
}

/// Returns whether all, or any, components of a vector are true, or which are NaN or infinite.
fn relational(
    frame: &Frame,
    function: RelationalFunction,
    argument: Handle<Expression>,
    lanes: &[usize],
) -> Result<Column> {
    let scalar = frame.scalar(argument)?;
    let argument = frame.data(argument)?;
    let float = |word: u64| match Number::of(word, scalar) {
        Number::Float(value) => value,
        Number::Integer(value) => value as f64,
    };
    let fold = |f: fn(u64, u64) -> u64| {
        (1..argument.components()).fold(argument.slice(0, 1), |folded, index| {
            Column::map(lanes, [&folded, &argument.slice(index, 1)], |[a, b]| f(a, b))
        })
    };
    Ok(match function {
        RelationalFunction::All => fold(|a, b| a & b),
        RelationalFunction::Any => fold(|a, b| a | b),
        RelationalFunction::IsNan => {
            Column::map(lanes, [argument], |[word]| float(word).is_nan().word())
        }
        RelationalFunction::IsInf => {
            Column::map(lanes, [argument], |[word]| float(word).is_infinite().word())
        }
    })
}

/// Returns a member of a struct, or a pointer to it.
fn member(
    frame: &Frame,
    base: Handle<Expression>,
    members: &[(String, usize, std::rc::Rc<Layout>)],
    index: usize,
    lanes: &[usize],
) -> Result<Value> {
    let Some((_, offset, layout)) = members.get(index) else {
        return Err(Kind::unsupported(&frame.body.expressions[base]).into());
    };
    Ok(match frame.value(base)? {
        Value::Pointer(pointer) => {
            let mut pointer = pointer.clone();
            for &lane in lanes {
                pointer.offsets[lane] += offset;
            }
            Value::Pointer(pointer)
        }
        Value::Data(data) => {
            let first = members[..index].iter().map(|(.., member)| member.leaves().len()).sum();
            Value::Data(data.slice(first, layout.leaves().len()))
        }
    })
}
