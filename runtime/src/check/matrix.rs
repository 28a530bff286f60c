//! Matrices that a subgroup holds together. A matrix is a column of all its elements, by rows, the
//! same in each lane of the subgroup. Where memory is read or written, the first lane stands for
//! all of them.
//!
//! The checks are stricter than most devices: a subgroup must be whole, whatever
//! [`super::Options::divergent_subgroups`] says, and agree on the place; lines must start at
//! multiples of 16 bytes.

use std::ops::Range;

use naga::{CooperativeData, Expression, Handle, Scalar};

use super::fault::{Kind, Result};
use super::layout::Leaf;
use super::machine::{Frame, Machine};
use super::value::{Column, Number, Word};

/// The alignment of lines, in bytes.
const ALIGNMENT: usize = 16;

impl Machine<'_> {
    /// Reads a matrix with this many rows and columns.
    pub fn load_matrix(
        &mut self,
        frame: &Frame,
        [rows, columns]: [usize; 2],
        data: &CooperativeData,
        lanes: &[usize],
    ) -> Result<Column> {
        let mut column = Column::zero(self.lanes, rows * columns);
        let pointer = frame.pointer(data.pointer)?;
        for members in self.whole_subgroups("coopLoad", lanes)? {
            let members = &lanes[members];
            for (number, leaf) in
                self.places(frame, [rows, columns], data, members)?.into_iter().enumerate()
            {
                let word = self.memories[pointer.memory].read(pointer, leaf, members[0])?;
                members.iter().for_each(|&lane| column.component_mut(number)[lane] = word);
            }
        }
        Ok(column)
    }

    /// Writes a matrix.
    pub fn store_matrix(
        &mut self,
        frame: &Frame,
        target: Handle<Expression>,
        data: &CooperativeData,
        lanes: &[usize],
    ) -> Result<()> {
        let (value, pointer) = (frame.data(target)?, frame.pointer(data.pointer)?);
        let size = value.components().isqrt();
        for members in self.whole_subgroups("coopStore", lanes)? {
            let members = &lanes[members];
            for (number, leaf) in
                self.places(frame, [size; 2], data, members)?.into_iter().enumerate()
            {
                let word = value.component(number)[members[0]];
                self.memories[pointer.memory].write(pointer, leaf, members[0], word)?;
            }
        }
        Ok(())
    }

    /// Computes `a * b + c`, adding one term after the other to an f32 sum.
    pub fn multiply_add(
        &self,
        frame: &Frame,
        operands: [Handle<Expression>; 3],
        lanes: &[usize],
    ) -> Result<Column> {
        let [a, b, c] =
            [frame.data(operands[0])?, frame.data(operands[1])?, frame.data(operands[2])?];
        let scalars = [frame.scalar(operands[0])?, frame.scalar(operands[1])?];
        let size = c.components().isqrt();
        let mut product = Column::zero(self.lanes, size * size);
        for members in self.whole_subgroups("coopMultiplyAdd", lanes)? {
            let members = &lanes[members];
            let element = |of: &Column, row: usize, column: usize, scalar: Scalar| match Number::of(
                of.component(row * size + column)[members[0]],
                scalar,
            ) {
                Number::Float(value) => value as f32,
                Number::Integer(value) => value as f32,
            };
            for (row, column) in
                (0..size).flat_map(|row| (0..size).map(move |column| (row, column)))
            {
                let term =
                    |k: usize| (element(a, row, k, scalars[0]), element(b, k, column, scalars[1]));
                let sum = (0..size)
                    .map(term)
                    .fold(element(c, row, column, Scalar::F32), |sum, (x, y)| x.mul_add(y, sum));
                let target = product.component_mut(row * size + column);
                members.iter().for_each(|&lane| target[lane] = sum.word());
            }
        }
        Ok(product)
    }

    fn whole_subgroups(&self, operation: &str, lanes: &[usize]) -> Result<Vec<Range<usize>>> {
        let (subgroups, of) = (self.subgroups(operation, lanes)?, self.subgroup_size());
        match subgroups.iter().find(|members| members.len() != of) {
            Some(members) => Err(Kind::Invalid(format!(
                "{operation} by {} invocations, and subgroups have {of}",
                members.len()
            ))
            .into()),
            None => Ok(subgroups),
        }
    }

    /// Returns the places of a matrix' elements, by rows. All `members` must have the same pointer
    /// and stride.
    fn places(
        &self,
        frame: &Frame,
        [rows, columns]: [usize; 2],
        data: &CooperativeData,
        members: &[usize],
    ) -> Result<Vec<Leaf>> {
        let (pointer, strides) =
            (frame.pointer(data.pointer)?, frame.data(data.stride)?.component(0));
        let place = |lane: usize| (pointer.offsets[lane], strides[lane] as usize);
        let (offset, stride) = place(members[0]);
        if let Some(&invocation) = members.iter().find(|&&lane| place(lane) != (offset, stride)) {
            return Err(Kind::NotUniform {
                operation: "the place of a matrix".to_owned(),
                invocation,
            }
            .into());
        }
        let scalar = frame.scalar(data.pointer)?;
        let width = usize::from(scalar.width);
        if !(stride * width).is_multiple_of(ALIGNMENT) || !offset.is_multiple_of(ALIGNMENT) {
            let place = self.memories[pointer.memory].place(offset, None);
            return Err(Kind::Invalid(format!(
                "a matrix at {place}, in lines of {} bytes",
                stride * width
            ))
            .into());
        }
        let of = |row: usize, column: usize| {
            let at = if data.row_major { row * stride + column } else { column * stride + row };
            Leaf { offset: at * width, scalar, atomic: false }
        };
        Ok((0..rows).flat_map(|row| (0..columns).map(move |column| of(row, column))).collect())
    }
}
