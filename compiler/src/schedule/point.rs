//! A point of a nest inside a kernel. Its variables are expressions; addresses, guards and programs
//! become code.

use crate::affine::Affine;
use crate::dense::Dense;
use crate::dtype::{DType, Scalar};
use crate::kernel::{Builder, Expr, Type};
use crate::nest::{Leaf, Load, Nest, Output, operands};
use crate::profile::Profile;
use crate::scalar::{Inst, Program, UnaryOp, Value};

use super::address::{Prepared, ranges, term};
use super::in_bytes::BYTES;
use super::values::{Unsupported, Values};

/// The buffers of a nest's kernel: its operands, then the outputs that are not written over an
/// operand.
pub(super) struct Buffers {
    /// Lanes of each operand, then of each output: more than 1 if the kernel accesses it as
    /// vectors.
    pub lanes: Vec<u8>,
    /// For each operand, whether a buffer's word has four of its elements.
    pub in_bytes: Vec<bool>,
    /// Each output's buffer number.
    outputs: Vec<usize>,
}

/// Declares the nest's buffers, with the lanes of each operand, then of each output.
pub(super) fn declare(
    nest: &Nest,
    profile: &Profile,
    b: &mut Builder,
    lanes: Vec<u8>,
) -> Result<Buffers, Unsupported> {
    let tensors = nest.operands.iter().chain(nest.outputs.iter().map(|output| &output.ty));
    let mut outputs = Vec::with_capacity(nest.outputs.len());
    for (number, (tensor, &lanes)) in tensors.zip(&lanes).enumerate() {
        let storage = profile.storage(tensor.dtype);
        let storage = storage
            .ok_or_else(|| Unsupported { what: format!("tensors of type {}", tensor.dtype) })?;
        let (ty, in_element) = match nest.in_bytes.contains(&number) {
            true => (Type::scalar(DType::U32), BYTES),
            false => (Type::vector(storage, lanes), lanes),
        };
        let length = tensor.elements().max(1).div_ceil(in_element as usize);
        let is_over = || nest.outputs.iter().any(|output| output.over == Some(number));
        match number.checked_sub(nest.operands.len()) {
            None if is_over() => _ = b.update(&format!("in{number}"), ty, length),
            None => _ = b.read(&format!("in{number}"), ty, length),
            Some(output) => outputs.push(match nest.outputs[output].over {
                Some(operand) => operand,
                None => b.write(&format!("out{output}"), ty, length),
            }),
        }
    }
    if nest.depends_on_loops() {
        nest.axes[nest.loops()].iter().for_each(|axis| b.step(&axis.name));
    }
    let in_bytes = (0..nest.operands.len()).map(|n| nest.in_bytes.contains(&n)).collect();
    Ok(Buffers { lanes, in_bytes, outputs })
}

/// A point of the nest in a kernel under construction, or a vector of a few neighbours.
#[derive(Clone)]
pub(super) struct Point<'a> {
    pub nest: &'a Nest,
    pub profile: &'a Profile,
    pub buffers: &'a Buffers,
    /// The number of points that a value covers, and the axis along which they are neighbours.
    pub lanes: u8,
    pub along: usize,
    /// The variables whose values are known so far: axes, then derived variables.
    pub variables: Vec<Option<Expr>>,
    /// The statistics of the point's row known so far, keyed by their values in the epilogue, or in
    /// the body if that has statistics.
    pub statistics: Vec<(Value, Expr)>,
    /// The values of the body that are already computed.
    pub known: Dense<Value, Option<Expr>>,
    /// Use the device's own `exp`, which is off by up to 3 + 2·|x| units in the last place. The
    /// weights of a softmax have arguments of at most 0, for which that error is never more than
    /// the rounding of the largest weight.
    pub native_exp: bool,
    prepared: Vec<Prepared>,
    /// The axes along which blocks advance, if the point is one of a block, and the distance from
    /// the block's first point, as a row-major position in these axes.
    distance: Option<(&'a [usize], Expr)>,
    /// The position of the block's first point.
    start: Expr,
    /// Conditions that are known to hold.
    facts: Vec<Affine>,
}

impl<'a> Point<'a> {
    pub fn new(nest: &'a Nest, profile: &'a Profile, buffers: &'a Buffers) -> Point<'a> {
        let mut variables = vec![None; nest.axes.len() + nest.derived.len()];
        for (number, variable) in nest.loops().enumerate() {
            variables[variable] = Some(Expr::step(number));
        }
        let known = Dense::of(None, nest.body.insts.len());
        Point {
            nest,
            profile,
            buffers,
            lanes: 1,
            along: 0,
            variables,
            known,
            native_exp: false,
            prepared: Vec::new(),
            statistics: Vec::new(),
            distance: None,
            start: 0.into(),
            facts: Vec::new(),
        }
    }

    /// Returns the vector of `lanes` neighbours along `axis` that begins at this point.
    pub fn vector(self, axis: usize, lanes: u8) -> Point<'a> {
        Point { lanes, along: axis, ..self }
    }

    /// Makes the point one of a block along `axes`, at this distance from the block's first point.
    pub fn within(self, axes: &'a [usize], distance: Expr) -> Point<'a> {
        Point { distance: Some((axes, distance)), ..self }
    }

    /// Names the parts of addresses and conditions that are known by now, so that inner loops need
    /// not recompute them.
    pub fn prepare<'e>(
        &mut self,
        b: &mut Builder,
        loads: &[&'e Load],
        conditions: impl Iterator<Item = &'e Affine>,
    ) {
        let addresses = loads.iter().map(|load| (&load.offset, self.buffers.lanes[load.operand]));
        let ranges = ranges(conditions).into_iter().map(|(condition, _)| (condition, 1));
        for (affine, lanes) in addresses.chain(ranges).collect::<Vec<(&Affine, u8)>>() {
            let is_known = |&(variable, _): &(usize, i64)| self.variables[variable].is_some();
            let (known, rest): (Vec<_>, Vec<_>) = affine.terms().iter().partition(|t| is_known(t));
            let is_idle = known.is_empty() && self.distance.is_none();
            if is_idle || rest.is_empty() || self.prepared(affine, lanes).is_some() {
                continue;
            }
            let [part, mut rest] = [(known, affine.offset()), (rest, 0)]
                .map(|(terms, offset)| Affine::new(terms, offset).unwrap_or_default());
            let mut part = self.sum(&part, lanes);
            let stride = self.stride(&rest).unwrap_or(0);
            if let Some((axes, distance)) = self.distance.as_ref().filter(|_| stride != 0) {
                part = part + term(distance.clone(), stride, lanes);
                let others = rest.terms().iter().filter(|(axis, _)| !axes.contains(axis));
                rest = Affine::new(others.copied(), 0).unwrap_or_default();
            }
            let part = b.let_("base", part);
            self.prepared.push(Prepared { whole: affine.clone(), lanes, part, stride, rest });
        }
    }

    /// Returns whether the address of a load advances by a constant from block to block.
    pub fn has_stride(&self, load: &Load) -> bool {
        let prepared = self.prepared(&load.offset, self.buffers.lanes[load.operand]);
        prepared.is_some_and(|prepared| self.knows(&prepared.rest))
    }

    /// Returns how much an expression grows from one position in the block's axes to the next, if
    /// it grows by the same everywhere.
    fn stride(&self, affine: &Affine) -> Option<i64> {
        let (axes, _) = self.distance.as_ref()?;
        let stride = affine.coefficient(*axes.last()?);
        let mut expected = stride;
        for &axis in axes.iter().rev() {
            let extent = self.nest.axes[axis].extent as i64;
            if extent > 1 && affine.coefficient(axis) != expected {
                return None;
            }
            expected = expected.checked_mul(extent)?;
        }
        Some(stride)
    }

    fn prepared(&self, affine: &Affine, lanes: u8) -> Option<&Prepared> {
        self.prepared.iter().find(|p| p.whole == *affine && p.lanes == lanes)
    }

    /// Moves a point of a block to the block that starts at `start`.
    pub fn set_start(&mut self, b: &mut Builder, start: &Expr) {
        self.start = start.clone();
        if let Some(([axis], distance)) = &self.distance {
            let axis = *axis;
            self.variables[axis] = Some(start + distance);
            self.derive(b, vec![axis], None);
        }
    }

    /// Returns whether all variables of an expression are known.
    pub fn knows(&self, affine: &Affine) -> bool {
        affine.variables().all(|variable| self.variables[variable].is_some())
    }

    /// Returns whether a condition is among those that are known to hold.
    pub fn is_fact(&self, condition: &Affine) -> bool {
        self.facts.contains(condition)
    }

    /// Adds conditions to those that are known to hold.
    pub fn assume<'e>(&mut self, conditions: impl IntoIterator<Item = &'e Affine>) {
        self.facts.extend(conditions.into_iter().cloned());
    }

    /// Sets an axis' value, and computes the derived variables that depend on it and are now known.
    pub fn set(&mut self, b: &mut Builder, axis: usize, value: Expr) {
        let name = self.nest.variable_name(axis);
        self.variables[axis] = Some(b.let_(&name, value));
        self.derive(b, vec![axis], None);
    }

    /// Copies the values of `axes`, and of variables derived from these alone, from another point.
    pub fn share(&mut self, b: &mut Builder, other: &Point, axes: &[usize]) {
        axes.iter().for_each(|&axis| self.variables[axis].clone_from(&other.variables[axis]));
        self.derive(b, axes.to_vec(), Some(other));
    }

    /// Computes the derived variables that depend on those that have `changed`.
    pub fn derive(&mut self, b: &mut Builder, mut changed: Vec<usize>, other: Option<&Point>) {
        let bounds = self.nest.variable_bounds();
        for (number, derived) in self.nest.derived.iter().enumerate() {
            let variable = self.nest.axes.len() + number;
            let stale = derived.numerator.variables().any(|v| changed.contains(&v));
            let known = derived.numerator.variables().all(|v| self.variables[v].is_some());
            if known && (stale || self.variables[variable].is_none()) {
                let same =
                    other.filter(|_| derived.numerator.variables().all(|v| changed.contains(&v)));
                self.variables[variable] =
                    same.and_then(|other| other.variables[variable].clone()).or_else(|| {
                        // An unsigned quotient needs a numerator of at least 0: shift by a multiple
                        // of the divisor.
                        let low = derived.numerator.bounds(&bounds).map_or(0, |(low, _)| low);
                        let shift = if low < 0 { -low.div_euclid(derived.denominator) } else { 0 };
                        let numerator =
                            self.affine(&derived.numerator) + (shift * derived.denominator) as i32;
                        let value = numerator.quotient(derived.denominator as u32) - shift as i32;
                        Some(b.let_(&format!("q{number}"), value))
                    });
                changed.push(variable);
            }
        }
    }

    /// Splits a row-major position in `axes` (outermost first) into the values of the axes.
    pub fn set_position(&mut self, b: &mut Builder, axes: &[usize], position: &Expr) {
        let mut rest = position.clone();
        for (number, &axis) in axes.iter().enumerate().rev() {
            let extent = self.nest.axes[axis].extent as u32;
            if number == 0 {
                self.set(b, axis, rest);
                return;
            }
            let value = rest.clone().remainder(extent);
            self.set(b, axis, value);
            rest = b.let_("rest", rest.quotient(extent));
        }
    }

    /// Returns the value of an affine expression of known variables.
    pub fn affine(&self, affine: &Affine) -> Expr {
        self.element(affine, 1)
    }

    /// Returns the quotient of an affine expression of known variables and the lanes of a buffer:
    /// the number of an element. Of a buffer of vectors, all coefficients are multiples of the
    /// lanes, except for that of the axis along which it is read, whose value is a multiple.
    fn element(&self, affine: &Affine, lanes: u8) -> Expr {
        match self.prepared(affine, lanes) {
            Some(Prepared { part, stride, rest, .. }) => {
                part.clone() + (self.sum(rest, lanes) + term(self.start.clone(), *stride, lanes))
            }
            None => self.sum(affine, lanes),
        }
    }

    fn sum(&self, affine: &Affine, lanes: u8) -> Expr {
        let terms = affine.terms().iter().map(|&(variable, coefficient)| {
            let value = self.variables[variable].clone().unwrap_or_else(|| 0.into());
            term(value, coefficient, lanes)
        });
        let offset = affine.offset().div_euclid(lanes as i64) as i32;
        terms.reduce(|sum, term| sum + term).unwrap_or_else(|| 0.into()) + offset
    }

    /// Returns whether all `conditions` are at least 0.
    pub fn holds<'c>(&self, conditions: impl IntoIterator<Item = &'c Affine>) -> Expr {
        let unknown = conditions.into_iter().filter(|condition| !self.is_fact(condition));
        ranges(unknown).into_iter().fold(true.into(), |all, (condition, most)| {
            let value = self.affine(condition);
            all.and(match most {
                // A negative number is a large one as u32.
                Some(most) => value.cast(DType::U32).le(Scalar::from_i64(DType::U32, most)),
                None => value.ge(0),
            })
        })
    }

    /// Writes a program and returns its results. `accumulated` is the accumulator, and whether the
    /// place was written.
    pub fn program(
        &self,
        b: &mut Builder,
        program: &Program<Leaf>,
        accumulated: Option<(&Expr, &Expr)>,
    ) -> Result<Vec<Expr>, Unsupported> {
        let values = self.values(b, program, &program.results, accumulated)?;
        Ok(program.results.iter().map(|&r| values[r].clone()).collect())
    }

    /// Writes the instructions of a program that `wanted` depends on. The other values are
    /// meaningless.
    pub fn values(
        &self,
        b: &mut Builder,
        program: &Program<Leaf>,
        wanted: &[Value],
        accumulated: Option<(&Expr, &Expr)>,
    ) -> Result<Dense<Value, Expr>, Unsupported> {
        let is_body = std::ptr::eq(program, &self.nest.body);
        let known =
            |value: Value| self.known.get(value).and_then(Option::as_ref).filter(|_| is_body);
        let mut needed = Dense::of(false, program.insts.len());
        wanted.iter().for_each(|&w| needed[w] = true);
        for value in program.insts.ids().rev() {
            // A statistic is known too, so its operand is not needed.
            let is_statistic = matches!(program.insts[value].0, Inst::Leaf(Leaf::Statistic(..)));
            if needed[value] && known(value).is_none() && !is_statistic {
                operands(&program.insts[value].0).into_iter().for_each(|o| needed[o] = true);
            }
        }
        let mut done: Dense<Value, Expr> = Dense::with_capacity(program.insts.len());
        for (value, &needed) in needed.enumerate() {
            if let Some(known) = known(value) {
                done.push(known.clone());
                continue;
            }
            if !needed {
                done.push(0.into());
                continue;
            }
            let code = self.instruction(b, program, value, &|v| done[v].clone(), accumulated)?;
            done.push(b.let_(&format!("v{value}"), code));
        }
        Ok(done)
    }

    /// Writes one instruction of a program; `done` returns the values before it.
    pub fn instruction(
        &self,
        b: &mut Builder,
        program: &Program<Leaf>,
        value: Value,
        done: &dyn Fn(Value) -> Expr,
        accumulated: Option<(&Expr, &Expr)>,
    ) -> Result<Expr, Unsupported> {
        let (inst, dtype) = &program.insts[value];
        let mut values = Values { b, profile: self.profile, lanes: self.lanes };
        let missing = || Unsupported { what: "value of another point here".into() };
        Ok(match inst {
            Inst::Const(scalar) => values.constant(*scalar)?,
            Inst::Unary(UnaryOp::Exp, a) if self.native_exp && *dtype == DType::F32 => {
                done(*a).unary(UnaryOp::Exp)
            }
            Inst::Unary(op, a) => values.unary(*op, *dtype, done(*a))?,
            Inst::Binary(op, x, y) => values.binary(*op, program.dtype(*x), done(*x), done(*y))?,
            Inst::Select(c, x, y) => done(*c).select(done(*x), done(*y)),
            Inst::Cast(a) => values.cast(program.dtype(*a), *dtype, done(*a))?,
            Inst::Leaf(Leaf::Index(affine)) => self.index(affine),
            Inst::Leaf(Leaf::Load(load)) => self.load(b, load, *dtype, done)?,
            Inst::Leaf(Leaf::Accumulator) => accumulated.ok_or_else(missing)?.0.clone(),
            Inst::Leaf(Leaf::Written) => accumulated.ok_or_else(missing)?.1.clone(),
            Inst::Leaf(Leaf::Statistic(..)) => self.statistic(value).ok_or_else(missing)?,
            Inst::Leaf(Leaf::OfBody(statistic)) => {
                self.statistic(*statistic).ok_or_else(missing)?.splat(self.lanes)
            }
            // Schedules compute these themselves, and set inner sums in `known`.
            Inst::Leaf(Leaf::Inner(_) | Leaf::Table(_)) => return Err(missing()),
        })
    }

    fn statistic(&self, value: Value) -> Option<Expr> {
        self.statistics
            .iter()
            .find(|(statistic, _)| *statistic == value)
            .map(|(_, code)| code.clone())
    }

    /// Returns the value of an index expression in each lane.
    pub fn index(&self, affine: &Affine) -> Expr {
        let first = self.affine(affine);
        let step = affine.coefficient(self.along) as i32;
        if self.lanes == 1 || step == 0 {
            return first.splat(self.lanes);
        }
        Expr::vector((0..self.lanes as i32).map(|lane| first.clone() + lane * step).collect())
    }

    fn load(
        &self,
        b: &mut Builder,
        load: &Load,
        dtype: DType,
        done: &dyn Fn(Value) -> Expr,
    ) -> Result<Expr, Unsupported> {
        let values = Values { b, profile: self.profile, lanes: self.lanes };
        let zero = values.constant(Scalar::zero(dtype))?;
        let lanes = self.buffers.lanes[load.operand];
        let mut element = self.element(&load.offset, lanes);
        for (value, stride) in &load.dynamic {
            element = element + done(*value) * *stride as i32;
        }
        // Shading languages refuse a constant out of bounds, even where the conditions exclude it.
        let elements = self.nest.operands[load.operand].elements() / lanes as usize;
        let is_inside = |at: i32| usize::try_from(at).is_ok_and(|at| at < elements);
        if element.as_i32().is_some_and(|at| !is_inside(at)) {
            element = 0.into();
        }
        let splat = if lanes == 1 { self.lanes } else { 1 };
        if load.when.is_empty() {
            let stored = self.read(b, load, element).splat(splat);
            return Ok(Values { b, profile: self.profile, lanes: self.lanes }.loaded(dtype, stored));
        }
        let guarded = b.var("guarded", zero);
        b.if_(self.holds(&load.when), |b| {
            let stored = self.read(b, load, element).splat(splat);
            let stored = b.let_("stored", stored);
            let values = Values { b, profile: self.profile, lanes: self.lanes };
            let value = values.loaded(dtype, stored);
            b.assign(&guarded, value);
        });
        Ok(guarded)
    }

    /// Returns the value of a load of constant strides, or any other element where it does not
    /// count.
    pub fn load_if(
        &self,
        b: &mut Builder,
        load: &Load,
        dtype: DType,
        counts: &Expr,
    ) -> Result<Expr, Unsupported> {
        let lanes = self.buffers.lanes[load.operand];
        let element = counts.clone().select(self.element(&load.offset, lanes), 0);
        let value = self.read(b, load, element);
        let value = b.let_("loaded", value.splat(if lanes == 1 { self.lanes } else { 1 }));
        Ok(Values { b, profile: self.profile, lanes: self.lanes }.loaded(dtype, value))
    }

    /// Stores the results of an epilogue. `place` is the row-major position in the free axes.
    pub fn store(&self, b: &mut Builder, place: &Expr, results: Vec<Expr>) {
        for (output, result) in results.into_iter().enumerate() {
            self.store_one(b, output, place, result);
        }
    }

    /// Stores the results of an epilogue. Outputs with one element for each row are stored at the
    /// row's first `column` only.
    pub fn store_in_row(&self, b: &mut Builder, place: &Expr, column: &Expr, results: Vec<Expr>) {
        let (of_rows, of_places): (Vec<usize>, Vec<usize>) =
            (0..results.len()).partition(|&output| self.nest.is_of_rows(output));
        of_places
            .iter()
            .for_each(|&output| self.store_one(b, output, place, results[output].clone()));
        if !of_rows.is_empty() {
            b.if_(column.clone().equals(0), |b| {
                for &output in &of_rows {
                    let result = &results[output];
                    let first =
                        if self.lanes == 1 { result.clone() } else { result.clone().lane(0) };
                    self.store_one(b, output, place, first);
                }
            });
        }
    }

    /// Stores the result for one output.
    pub fn store_one(&self, b: &mut Builder, output: usize, place: &Expr, result: Expr) {
        let Output { ty, position, .. } = &self.nest.outputs[output];
        let lanes = self.buffers.lanes[self.nest.operands.len() + output];
        let stored = Values { b, profile: self.profile, lanes }.stored(ty.dtype, result);
        let position =
            if *position == self.nest.place() { place.clone() } else { self.affine(position) };
        b.store(self.buffers.outputs[output], position.quotient(lanes as u32), stored);
    }
}
