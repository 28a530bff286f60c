//! The template of sums of an operand's elements times constants: an invocation computes a block of
//! places, all of whose sums read the same elements.
//!
//! Such a nest is `out[…] = +(T1[a, i] * T2[b, j] * … * x[…, i, j])` with constant tables
//! ([`crate::nest::Table`]) and an operand on whose address the place within the block has no
//! influence. The block is unrolled, and so is the sum, one reduction axis after the other, so that
//! a part of the sum that several places share is computed once. Elements of tables become
//! literals; terms with 0 vanish.

use std::collections::HashMap;

use crate::affine::Affine;
use crate::dtype::{DType, Scalar};
use crate::graph::Aggregation;
use crate::kernel::{Builder, Expr, Kernel};
use crate::nest::{Derived, Leaf, Load, Nest, Table};
use crate::profile::Profile;
use crate::scalar::{BinaryOp, Inst, Value};

use super::cost::of_transform;
use super::point::{Buffers, Point, declare};
use super::values::{Unsupported, Values};
use super::{Schedule, ScheduleError, grid, group, lanes};

/// The most places of a block, and elements that it reads.
const MOST: usize = 64;
/// The most numbers that vectors keep in registers.
const MOST_VALUES: usize = 96;
/// The most factors of a term.
const FACTORS: usize = 8;

/// A nest as a transform.
pub(crate) struct Transform<'a> {
    nest: &'a Nest,
    load: &'a Load,
    /// The tables by the reduction axis over which their product is summed: the innermost that they
    /// mention.
    tables: Vec<Vec<&'a Table>>,
    /// The places of a block along each free axis.
    sides: Vec<usize>,
    /// The axis whose blocks each derived variable numbers.
    numbers: Vec<Option<usize>>,
}

impl<'a> Transform<'a> {
    /// Describes a nest as a transform, if it is one.
    pub fn new(nest: &'a Nest) -> Option<Transform<'a>> {
        let is_plain = nest.guards.is_empty()
            && nest.inner.is_empty()
            && nest.columns().is_empty()
            && nest.loops == 0
            && !nest.tracks_written();
        let is_sum =
            nest.aggregation == Some(Aggregation::Sum) && nest.accumulator() == Some(DType::F32);
        let [result] = nest.body.results[..] else { return None };
        if !is_plain || !is_sum || nest.tables().next().is_none() {
            return None;
        }
        let mut tables = vec![Vec::new(); nest.reduction().len()];
        let mut loads = Vec::new();
        for factor in factors(nest, result)? {
            match &nest.body.insts[factor].0 {
                Inst::Leaf(Leaf::Table(table)) => {
                    let is_mentioned = |axis: usize| table.offset.coefficient(axis) != 0;
                    tables[nest.reduction().rposition(is_mentioned)?].push(table);
                }
                Inst::Leaf(Leaf::Load(load)) => loads.push(load),
                _ => return None,
            }
        }
        let [load] = loads[..] else { return None };
        let number_of = |axis: usize| {
            let is_number = |d: &&Derived| d.numerator.as_variable() == Some(axis);
            nest.derived.iter().find(is_number)
        };
        let side = |axis: usize| match nest.tables().any(|t| t.offset.coefficient(axis) != 0) {
            true => {
                let extent = nest.axes[axis].extent;
                number_of(axis).map_or(extent, |d| usize::try_from(d.denominator).unwrap_or(extent))
            }
            false => 1,
        };
        let sides: Vec<usize> = (0..nest.free).map(side).collect();
        let numbers = nest.derived.iter().map(|derived| {
            let axis = derived.numerator.as_variable()?;
            (sides.get(axis).copied() == Some(derived.denominator as usize)).then_some(axis)
        });
        let numbers: Vec<Option<usize>> = numbers.collect();
        let transform = Transform { nest, load, tables, sides, numbers };
        let mut address = load.when.iter().chain([&load.offset]);
        let suits = load.dynamic.is_empty()
            && nest.operands[load.operand].dtype == DType::F32
            && address.all(|affine| transform.is_of_blocks(affine))
            && nest.tables().all(|table| transform.is_within_blocks(&table.offset))
            && load.when.iter().all(|condition| transform.axis_of(condition).is_some())
            && transform.places() <= MOST
            && nest.reduction_points() <= MOST;
        suits.then_some(transform)
    }

    /// Returns whether an expression is the same at all places of a block.
    fn is_of_blocks(&self, affine: &Affine) -> bool {
        affine.variables().all(|variable| match variable.checked_sub(self.nest.axes.len()) {
            None => self.sides.get(variable).is_none_or(|&side| side == 1),
            Some(number) => self.numbers[number].is_some(),
        })
    }

    /// Returns whether an expression depends on the place within a block alone: derived variables
    /// take the number of the block away from an axis.
    fn is_within_blocks(&self, affine: &Affine) -> bool {
        let first = self.nest.axes.len();
        let takes_away = |axis: usize, number: usize| {
            let expected = -i128::from(affine.coefficient(axis)) * self.sides[axis] as i128;
            i128::from(affine.coefficient(first + number)) == expected
        };
        let is_whole = |axis: usize| self.sides[axis] >= self.nest.axes[axis].extent;
        let mut axes = affine.variables().filter(|&variable| variable < self.nest.free);
        let mut numbers = affine.variables().filter_map(|variable| variable.checked_sub(first));
        let number_of = |axis: usize| self.numbers.iter().position(|n| *n == Some(axis));
        axes.all(|axis| is_whole(axis) || number_of(axis).is_some_and(|n| takes_away(axis, n)))
            && numbers.all(|n| self.numbers[n].is_some_and(|axis| takes_away(axis, n)))
    }

    /// Returns the reduction axis that a condition mentions, or the first if it mentions none.
    /// `None` if it mentions several.
    fn axis_of(&self, condition: &Affine) -> Option<usize> {
        let mut axes = self.nest.reduction().filter(|axis| condition.coefficient(*axis) != 0);
        let axis = axes.next().unwrap_or(self.nest.free);
        axes.next().is_none().then_some(axis)
    }

    /// Returns the places of a block.
    pub fn places(&self) -> usize {
        self.sides.iter().copied().fold(1, usize::saturating_mul)
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> usize {
        self.counts().iter().product()
    }

    /// Returns the number of blocks along each free axis.
    fn counts(&self) -> Vec<usize> {
        let extents = self.nest.axes[..self.nest.free].iter();
        extents.zip(&self.sides).map(|(axis, &side)| axis.extent.div_ceil(side)).collect()
    }

    /// Returns the multiply-adds of a block.
    pub fn multiply_adds(&self) -> usize {
        let mut sums = Sums::<()>::new(self);
        let mut count = 0;
        for place in self.block() {
            sums.sum(&place, &mut |_, _, _| count += 1, &mut |_| ());
        }
        count
    }

    /// Returns each place of a block, as the distances from its first along the free axes.
    fn block(&self) -> impl Iterator<Item = Vec<i64>> + '_ {
        (0..self.places()).map(|number| positions(&self.sides, number))
    }

    /// Returns the lanes of the buffers if blocks of `width` neighbours can be computed together.
    pub fn lanes(&self, width: u8) -> Option<Vec<u8>> {
        let last = self.nest.free.checked_sub(1)?;
        match width {
            1 => Some(vec![1; self.nest.operands.len() + self.nest.outputs.len()]),
            _ if self.sides[last] != 1 => None,
            _ => lanes::of_places(self.nest, last, width),
        }
    }
}

/// Returns the factors of a value of the body, if they are few.
fn factors(nest: &Nest, value: Value) -> Option<Vec<Value>> {
    let (mut factors, mut products) = (Vec::new(), vec![value]);
    while let Some(value) = products.pop() {
        match nest.body.insts[value].0 {
            Inst::Binary(BinaryOp::Mul, a, b) => products.extend([a, b]),
            _ => factors.push(value),
        }
        if factors.len() + products.len() > FACTORS {
            return None;
        }
    }
    Some(factors)
}

/// Returns the values of axes with these extents at a row-major position.
fn positions(extents: &[usize], mut position: usize) -> Vec<i64> {
    let mut values = vec![0; extents.len()];
    for (value, extent) in values.iter_mut().zip(extents).rev() {
        (*value, position) = ((position % extent) as i64, position / extent);
    }
    values
}

/// The sums of a block, and the parts that they share.
struct Sums<'t, T> {
    transform: &'t Transform<'t>,
    /// For each reduction axis, the free axes on which the sum over it and those after it depends.
    depends: Vec<Vec<usize>>,
    /// The parts so far, by the number of axes before them, the values of these, and those of the
    /// free axes.
    known: HashMap<(usize, Vec<i64>, Vec<i64>), Option<T>>,
}

impl<'t, T: Clone> Sums<'t, T> {
    fn new(transform: &'t Transform<'t>) -> Sums<'t, T> {
        let after = |level: usize| {
            let tables = transform.tables[level..].iter().flatten();
            let offsets: Vec<&Affine> = tables.map(|table| &table.offset).collect();
            let occurs = |axis: &usize| offsets.iter().any(|o| o.coefficient(*axis) != 0);
            (0..transform.nest.free).filter(occurs).collect()
        };
        let depends = (0..transform.tables.len()).map(after).collect();
        Sums { transform, depends, known: HashMap::new() }
    }

    /// Returns the sum of a place of the block. `add` returns a sum, if there is one already, plus
    /// a value times a constant; `element` returns the operand's element at these values of the
    /// reduction axes.
    fn sum(
        &mut self,
        place: &[i64],
        add: &mut impl FnMut(Option<T>, T, Scalar) -> T,
        element: &mut impl FnMut(&[i64]) -> T,
    ) -> Option<T> {
        self.part(place, &mut Vec::new(), add, element)
    }

    /// Returns the part of the sum with these values of the outer reduction axes. `None` if all of
    /// its constants are 0.
    fn part(
        &mut self,
        place: &[i64],
        outer: &mut Vec<i64>,
        add: &mut impl FnMut(Option<T>, T, Scalar) -> T,
        element: &mut impl FnMut(&[i64]) -> T,
    ) -> Option<T> {
        let level = outer.len();
        let Some(depends) = self.depends.get(level) else { return Some(element(outer)) };
        let places = depends.iter().map(|&axis| place[axis]).collect();
        let key = (level, outer.clone(), places);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let nest = self.transform.nest;
        let axis = nest.free + level;
        let mut sum = None;
        for value in 0..nest.axes[axis].extent as i64 {
            outer.push(value);
            let mut point = vec![0; nest.axes.len() + nest.derived.len()];
            point[..nest.free].copy_from_slice(place);
            point[nest.free..nest.free + outer.len()].copy_from_slice(outer);
            let elements = self.transform.tables[level].iter().map(|table| table.element(&point));
            let elements = elements.map(|element| element.map_or(0.0, Scalar::to_f64));
            let factor = Scalar::f32(elements.product::<f64>() as f32);
            if factor.to_f64() != 0.0
                && let Some(value) = self.part(place, outer, add, element)
            {
                sum = Some(add(sum, value, factor));
            }
            outer.pop();
        }
        self.known.insert(key, sum.clone());
        sum
    }
}

/// Returns the schedules of a sum with constant tables, with their predicted seconds.
pub(super) fn schedules(nest: &Nest, profile: &Profile) -> Vec<(f64, Schedule)> {
    let Some(transform) = Transform::new(nest) else { return Vec::new() };
    let limit = profile.max_invocations.min(profile.max_workgroup[0]);
    let operations = transform.multiply_adds();
    let values = transform.places().max(nest.reduction_points());
    let suits = |width: &u8| {
        let is_light = *width == 1 || values * *width as usize <= MOST_VALUES;
        is_light && transform.lanes(*width).is_some()
    };
    let mut all = Vec::new();
    for width in [1, 4].into_iter().filter(suits) {
        for workgroup in [64, 128, 256].map(|workgroup| limit.min(workgroup)) {
            let time = of_transform(nest, profile, &transform, operations, workgroup, width);
            all.push((time, Schedule::Transform { workgroup, width }));
        }
    }
    all
}

/// Writes the kernel. `width` blocks along the last axis are computed as vectors.
pub(super) fn transform(
    nest: &Nest,
    profile: &Profile,
    workgroup: u32,
    width: u8,
) -> Result<Kernel, ScheduleError> {
    let transform =
        Transform::new(nest).ok_or(ScheduleError::Internal("a transform without tables"))?;
    let lanes = transform.lanes(width).ok_or(ScheduleError::Internal("unaligned vectors"))?;
    let invocations = transform.blocks() / width as usize;
    let grid = grid(invocations.div_ceil(workgroup as usize), profile)?;
    let mut builder = Builder::new(&nest.name, [workgroup, 1, 1], grid);
    let b = &mut builder;
    let buffers = declare(nest, profile, b, lanes)?;
    let id = b.let_("id", group(grid) * workgroup as i32 + Expr::local(0));
    let all = grid[0] as usize * grid[1] as usize * workgroup as usize == invocations;
    let inside: Expr = if all { true.into() } else { id.clone().lt(invocations as i32) };
    b.if_(inside, |b| {
        let block = b.let_("block", id * width as i32);
        transform.write(b, profile, &buffers, &block, width)
    })?;
    Ok(builder.finish()?)
}

impl Transform<'_> {
    /// Writes a block.
    fn write(
        &self,
        b: &mut Builder,
        profile: &Profile,
        buffers: &Buffers,
        block: &Expr,
        width: u8,
    ) -> Result<(), Unsupported> {
        let nest = self.nest;
        let starts = self.starts(b, block);
        let mut point = Point::new(nest, profile, buffers).vector(nest.free - 1, width);
        for (axis, start) in starts.iter().enumerate().filter(|(axis, _)| self.sides[*axis] == 1) {
            point.variables[axis] = Some(start.clone());
        }
        for (number, axis) in self.numbers.iter().enumerate() {
            point.variables[nest.axes.len() + number] = axis.map(|axis| starts[axis].clone());
        }
        let loaded = self.elements(b, &mut point.clone())?;
        let extents: Vec<usize> = nest.reduction().map(|axis| nest.axes[axis].extent).collect();
        let mut element = |indices: &[i64]| {
            let number = indices
                .iter()
                .zip(&extents)
                .fold(0, |n, (&index, extent)| n * extent + index as usize);
            loaded[number].clone()
        };
        let mut sums = Sums::new(self);
        for place in self.block() {
            let sum = sums.sum(
                &place,
                &mut |sum, value, factor| self.add(b, &point, sum, value, factor),
                &mut element,
            );
            let zero = Values { b, profile, lanes: width }.f32(0.0);
            self.finish(b, &point, &starts, &place, &sum.unwrap_or(zero))?;
        }
        Ok(())
    }

    /// Returns the block's number along each free axis.
    fn starts(&self, b: &mut Builder, block: &Expr) -> Vec<Expr> {
        let counts = self.counts();
        let mut rest = block.clone();
        let mut starts = vec![0.into(); counts.len()];
        for axis in (0..counts.len()).rev() {
            let name = &self.nest.axes[axis].name;
            let outer: usize = counts[..axis].iter().product();
            let (value, next) = match outer {
                1 => (rest, 0.into()),
                _ => (
                    rest.clone().remainder(counts[axis] as u32),
                    rest.quotient(counts[axis] as u32),
                ),
            };
            starts[axis] = b.let_(name, value);
            rest = b.let_("rest", next);
        }
        starts
    }

    /// Reads the elements of a block, in the order of the reduction points.
    fn elements(&self, b: &mut Builder, point: &mut Point) -> Result<Vec<Expr>, Unsupported> {
        let nest = self.nest;
        point.prepare(b, &[self.load], self.load.when.iter());
        let extents: Vec<usize> = nest.reduction().map(|axis| nest.axes[axis].extent).collect();
        // The conditions that depend on one axis alone, for each of its values.
        let mut known: HashMap<(usize, i64), Expr> = HashMap::new();
        let mut elements = Vec::new();
        for number in 0..nest.reduction_points() {
            let indices = positions(&extents, number);
            for (axis, value) in nest.reduction().zip(&indices) {
                point.variables[axis] = Some((*value as i32).into());
            }
            let mut counts: Expr = true.into();
            for (axis, &value) in nest.reduction().zip(&indices) {
                let mine = self.load.when.iter().filter(|w| self.axis_of(w) == Some(axis));
                let holds = known.entry((axis, value)).or_insert_with(|| {
                    let holds = point.holds(mine);
                    b.let_("is_inside", holds)
                });
                counts = counts.and(holds.clone());
            }
            let zero = Values { b, profile: point.profile, lanes: point.lanes }.f32(0.0);
            let value = point.load_if(b, self.load, DType::F32, &counts)?;
            elements.push(b.let_("x", counts.splat(point.lanes).select(value, zero)));
        }
        Ok(elements)
    }

    /// Adds a value times a constant to a sum.
    fn add(
        &self,
        b: &mut Builder,
        point: &Point,
        sum: Option<Expr>,
        value: Expr,
        factor: Scalar,
    ) -> Expr {
        let factor = factor.to_f64() as f32;
        let times = Values { b, profile: point.profile, lanes: point.lanes }.f32(factor);
        let sum = match (sum, factor) {
            (None, 1.0) => return value,
            (None, _) => value * times,
            (Some(sum), 1.0) => sum + value,
            (Some(sum), -1.0) => sum - value,
            (Some(sum), _) => value.fma(times, sum),
        };
        b.let_("sum", sum)
    }

    /// Writes the epilogue at a place of the block, if there is such a place.
    fn finish(
        &self,
        b: &mut Builder,
        point: &Point,
        starts: &[Expr],
        place: &[i64],
        sum: &Expr,
    ) -> Result<(), Unsupported> {
        let nest = self.nest;
        let mut point = point.clone();
        let mut exists: Expr = true.into();
        for (axis, &side) in self.sides.iter().enumerate().filter(|(_, side)| **side > 1) {
            let extent = nest.axes[axis].extent;
            let index = starts[axis].clone() * side as i32 + place[axis] as i32;
            let index = b.let_(&nest.axes[axis].name, index);
            let rest = extent % side;
            if rest > 0 && place[axis] as usize >= rest {
                exists = exists.and(index.clone().lt(extent as i32));
            }
            point.variables[axis] = Some(index);
        }
        b.if_(exists, |b| {
            point.derive(b, Vec::new(), None);
            let results = point.program(b, &nest.epilogue, Some((sum, &true.into())))?;
            let place = point.affine(&nest.place());
            let place = b.let_("place", place);
            point.store(b, &place, results);
            Ok(())
        })
    }
}
