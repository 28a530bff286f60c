//! Checks the invariants of nests.

use std::fmt;
use std::ops::Range;

use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::Aggregation;
use crate::scalar::{Inst, Program, Value};

use super::simplify::expressions;
use super::{Inner, Leaf, Load, Nest, Output, Table};

/// A violated rule of [`crate::nest`], which is a bug in the pass that made the nest.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("nest `{nest}` is invalid: {reason}")]
pub struct InvalidNest {
    /// Name of the nest.
    pub nest: String,
    /// The broken rule, with the names of the values.
    pub reason: String,
}

impl Nest {
    /// Checks the invariants that the [module documentation](super) states. Addresses are checked
    /// as far as interval arithmetic can decide them.
    pub fn verify(&self) -> Result<(), InvalidNest> {
        self.check().map_err(|reason| InvalidNest { nest: self.name.clone(), reason })
    }

    fn check(&self) -> Result<(), String> {
        require(self.axes.iter().all(|a| a.extent >= 1), || "an axis is empty".into())?;
        let axes = self.free.checked_add(self.loops);
        require(axes.is_some_and(|axes| axes <= self.axes.len()), || {
            "more axes of a kind than there are".into()
        })?;
        self.check_numbers()?;
        for (number, output) in self.outputs.iter().enumerate() {
            self.check_output(number, output)?;
        }
        require(self.epilogue.results.len() == self.outputs.len(), || {
            "one epilogue result for each output".into()
        })?;
        require(self.rows <= self.free, || "more rows than free axes".into())?;
        let has_statistics = self.epilogue.leaves().any(|leaf| matches!(leaf, Leaf::Statistic(..)));
        require(!self.aggregates_into_rows() || has_statistics, || {
            "columns without statistics".into()
        })?;
        let mut end = self.reduction().end;
        for (number, Inner { axes, body }) in self.inner.iter().enumerate() {
            require(self.aggregation.is_some(), || "inner sums without an aggregation".into())?;
            require(axes.start == end && axes.end >= end, || {
                format!("the axes of inner{number} follow no others")
            })?;
            require(body.results.len() == 1, || format!("inner{number} has not one result"))?;
            end = axes.end;
        }
        require(self.inner.is_empty() || end == self.loops().start, || "axes of no kind".into())?;
        let dependencies = self.dependencies(&self.epilogue);
        for (number, &result) in
            self.epilogue.results.iter().enumerate().filter(|(n, _)| self.is_of_rows(*n))
        {
            let varies = self.columns().any(|column| dependencies[result][column]);
            require(!varies, || format!("output {number} is of rows, its value of places"))?;
        }
        for (&result, output) in self.epilogue.results.iter().zip(&self.outputs) {
            let dtype = self.epilogue.dtype(result);
            require(dtype == output.ty.dtype, || format!("{dtype} is stored in {}", output.ty))?;
        }
        match self.aggregation {
            None => {
                let bare = self.reduction().is_empty()
                    && self.guards.is_empty()
                    && self.body.insts.is_empty();
                require(bare, || "reduction axes, guards or a body without an aggregation".into())?;
            }
            Some(aggregation) => {
                let results: Vec<DType> =
                    self.body.results.iter().map(|&r| self.body.dtype(r)).collect();
                let typed = matches!(results[..], [_] | [_, DType::Bool]);
                require(typed, || "the body yields a value and optionally a bool".into())?;
                let arg = matches!(aggregation, Aggregation::ArgMax | Aggregation::ArgMin);
                require(self.position.is_some() == arg, || {
                    "a position belongs to the arg forms".into()
                })?;
            }
        }
        self.check_rank()?;
        for number in 0..self.inner.len() {
            self.check_program(&self.inner[number].body, Part::Inner(number))?;
        }
        self.check_program(&self.body, Part::Body)?;
        self.check_program(&self.epilogue, Part::Epilogue)
    }

    /// Checks that programs read earlier values, results are values, expressions mention known
    /// variables, and derived variables those before them. The other checks rely on this one.
    fn check_numbers(&self) -> Result<(), String> {
        for (number, derived) in self.derived.iter().enumerate() {
            let known = self.axes.len() + number;
            require(derived.denominator >= 2, || {
                format!("q{number} divides by {}", derived.denominator)
            })?;
            self.mentions_below(&derived.numerator, known)?;
        }
        let inner = self.inner.iter().map(|inner| &inner.body);
        for program in inner.chain([&self.body, &self.epilogue]) {
            for (value, (inst, _)) in program.insts.enumerate() {
                require(super::operands(inst).iter().all(|&operand| operand < value), || {
                    format!("v{value} reads a later value")
                })?;
            }
            let are_values = program.results.iter().all(|&r| program.insts.get(r).is_some());
            require(are_values, || "a result is no value".into())?;
        }
        let is_of_bytes = |&number: &usize| {
            let is_written = self.outputs.iter().any(|output| output.over == Some(number));
            let dtype = self.operands.get(number).map(|ty| ty.dtype);
            matches!(dtype, Some(DType::I8 | DType::U8)) && !is_written
        };
        let in_bytes = &self.in_bytes;
        let are_of_bytes = in_bytes.is_sorted_by(|a, b| a < b) && in_bytes.iter().all(is_of_bytes);
        require(are_of_bytes, || "operands in bytes that cannot be".into())?;
        let variables = self.axes.len() + self.derived.len();
        expressions(self).try_for_each(|affine| self.mentions_below(affine, variables))?;
        let tensors = self.operands.iter().chain(self.outputs.iter().map(|output| &output.ty));
        for ty in tensors {
            require(ty.checked_bytes().is_some(), || format!("{ty} is too large"))?;
        }
        let known = self.operands.len();
        let loads = self.loads().map(|load| load.operand);
        let over = self.outputs.iter().filter_map(|output| output.over);
        require(loads.chain(over).all(|operand| operand < known), || "an unknown operand".into())
    }

    /// Checks that a rank depends on free axes which decide nothing about the points.
    fn check_rank(&self) -> Result<(), String> {
        let Some(rank) = &self.rank else { return Ok(()) };
        require(self.position.is_some(), || "a rank belongs to the arg forms".into())?;
        require(rank.variables().all(|v| v < self.free), || {
            "a rank mentions something else than free axes".into()
        })?;
        let loads = self.body_loads().flat_map(|load| load.when.iter().chain([&load.offset]));
        let indices = self.body.leaves().filter_map(|leaf| match leaf {
            Leaf::Index(affine) | Leaf::Table(Table { offset: affine, .. }) => Some(affine),
            _ => None,
        });
        let mut of_points = loads.chain(indices).chain(&self.guards).chain(&self.position);
        let is_still = |affine: &Affine| rank.variables().all(|v| !self.depends_on(affine, v));
        require(of_points.all(is_still), || "a rank decides about the points".into())
    }

    fn check_output(&self, number: usize, output: &Output) -> Result<(), String> {
        let Output { ty, position, over } = output;
        let may = over.is_none_or(|operand| self.may_overwrite(number, operand));
        require(may, || format!("output {number} cannot be written over an operand"))?;
        let places =
            if self.is_of_rows(number) { self.places() / self.row_length() } else { self.places() };
        let fits = if self.loops == 0 { ty.elements() == places } else { ty.elements() >= places };
        require(fits, || format!("{ty} does not have {places} elements"))?;
        let reduces = position.variables().any(|v| self.depends_on_reduction(v));
        require(!reduces, || "a position in an output mentions a reduction axis".into())?;
        // Bounds of derived variables may be wider than their values: intervals ignore
        // correlations.
        if position.variables().all(|v| v < self.axes.len()) {
            let (low, high) = position
                .bounds(&self.variable_bounds())
                .ok_or("a position in an output overflows")?;
            let inside = low >= 0 && high < ty.elements() as i64;
            require(inside, || format!("writes positions {low}..={high} of {ty}"))?;
        }
        Ok(())
    }

    fn mentions_below(&self, affine: &Affine, limit: usize) -> Result<(), String> {
        require(affine.variables().all(|v| v < limit), || {
            "an expression mentions an unknown variable".into()
        })
    }

    /// Returns whether an expression depends on a variable, directly or through derived variables.
    pub fn depends_on(&self, affine: &Affine, variable: usize) -> bool {
        affine.variables().any(|v| {
            let derived = v.checked_sub(self.axes.len()).map(|number| &self.derived[number]);
            v == variable
                || derived.is_some_and(|derived| self.depends_on(&derived.numerator, variable))
        })
    }

    /// Returns whether a variable is an axis of the reduction or of an inner sum, or is derived
    /// from one.
    pub fn depends_on_reduction(&self, variable: usize) -> bool {
        self.depends_on_axes(variable, self.free..self.loops().start)
    }

    fn depends_on_axes(&self, variable: usize, axes: Range<usize>) -> bool {
        match variable.checked_sub(self.axes.len()) {
            None => axes.contains(&variable),
            Some(number) => self.derived[number]
                .numerator
                .variables()
                .any(|v| self.depends_on_axes(v, axes.clone())),
        }
    }

    /// Returns the axes that a part of the nest must not mention.
    fn unknown(&self, part: Part) -> [Range<usize>; 2] {
        let (inner, loops) = (self.reduction().end, self.loops().start);
        match part {
            Part::Inner(number) => {
                [inner..self.inner[number].axes.start, self.inner[number].axes.end..loops]
            }
            Part::Body => [inner..loops, 0..0],
            Part::Epilogue => [self.free..loops, 0..0],
        }
    }

    fn check_program(&self, program: &Program<Leaf>, part: Part) -> Result<(), String> {
        let epilogue = part == Part::Epilogue;
        for (value, (inst, dtype)) in program.insts.enumerate() {
            let place = || format!("v{value} of the {part}");
            let type_of = |v: Value| program.insts[v].1;
            let typed = match inst {
                Inst::Const(s) => s.dtype == *dtype,
                Inst::Unary(_, a) => type_of(*a) == *dtype,
                Inst::Binary(op, a, b) => {
                    let result = if op.is_comparison() { DType::Bool } else { type_of(*a) };
                    type_of(*a) == type_of(*b) && result == *dtype
                }
                Inst::Select(c, a, b) => {
                    type_of(*c) == DType::Bool && type_of(*a) == *dtype && type_of(*b) == *dtype
                }
                Inst::Cast(_) => true,
                Inst::Leaf(Leaf::Index(_)) => *dtype == DType::I32,
                Inst::Leaf(Leaf::Table(table)) => {
                    let is_inside = self.is_inside(&table.offset, table.elements.len());
                    require(is_inside, || format!("{} is outside its table", place()))?;
                    part == Part::Body
                        && self.inner.is_empty()
                        && table.elements.iter().all(|element| element.dtype == *dtype)
                }
                Inst::Leaf(Leaf::Written) => {
                    epilogue && *dtype == DType::Bool && self.aggregation.is_some()
                }
                Inst::Leaf(Leaf::Statistic(aggregation, a)) => {
                    let may = match part {
                        Part::Inner(_) => false,
                        Part::Body => !self.inner.is_empty(),
                        Part::Epilogue => self.inner.is_empty(),
                    };
                    may && aggregation.operation().is_some() && *a < value && type_of(*a) == *dtype
                }
                Inst::Leaf(Leaf::Inner(number)) => {
                    let sum = self
                        .inner
                        .get(*number)
                        .map(|inner| inner.body.dtype(inner.body.results[0]));
                    part == Part::Body && sum == Some(*dtype)
                }
                Inst::Leaf(Leaf::OfBody(value)) => {
                    let statistic = self.body.insts.get(*value);
                    let is_statistic = |(inst, of): &(Inst<Leaf>, DType)| {
                        matches!(inst, Inst::Leaf(Leaf::Statistic(..))) && of == dtype
                    };
                    epilogue && statistic.is_some_and(is_statistic)
                }
                Inst::Leaf(Leaf::Accumulator) => {
                    epilogue && self.accumulated_type() == Some(*dtype)
                }
                Inst::Leaf(Leaf::Load(load)) => {
                    self.check_load(load, part).map_err(|e| format!("{}: {e}", place()))?;
                    self.operands[load.operand].dtype == *dtype
                }
            };
            require(typed, || format!("{} is ill-typed", place()))?;
            if let Inst::Leaf(Leaf::Index(affine)) = inst {
                require(self.knows(affine, part), || {
                    format!("{} mentions a reduction axis", place())
                })?;
            }
        }
        Ok(())
    }

    /// Returns the type of [`Leaf::Accumulator`].
    pub fn accumulated_type(&self) -> Option<DType> {
        if self.position.is_some() { Some(DType::I32) } else { self.accumulator() }
    }

    /// Returns whether an expression mentions only axes in scope for a part of the nest.
    fn knows(&self, affine: &Affine, part: Part) -> bool {
        let unknown =
            |v: usize| self.unknown(part).into_iter().any(|axes| self.depends_on_axes(v, axes));
        !affine.variables().any(unknown)
    }

    /// Returns whether an expression is in `0..elements` everywhere, as far as interval arithmetic
    /// can decide it.
    fn is_inside(&self, offset: &Affine, elements: usize) -> bool {
        let bounds = offset.bounds(&self.variable_bounds());
        let fits = |(low, high)| low >= 0 && high < elements as i64;
        elements > 0 && (!self.derived.is_empty() || bounds.is_some_and(fits))
    }

    fn check_load(&self, load: &Load, part: Part) -> Result<(), String> {
        let epilogue = part == Part::Epilogue;
        let operand = &self.operands[load.operand];
        for affine in load.when.iter().chain([&load.offset]) {
            require(self.knows(affine, part), || format!("the {part} mentions a reduction axis"))?;
        }
        // A guard may bound a guarded address in ways that interval arithmetic cannot show.
        if load.when.is_empty() && (epilogue || self.guards.is_empty()) && self.derived.is_empty() {
            let (low, high) =
                load.offset.bounds(&self.variable_bounds()).ok_or("its address overflows")?;
            let dynamic: i64 = if load.dynamic.is_empty() { 0 } else { operand.elements() as i64 };
            require(low >= 0 && (high < operand.elements() as i64 || dynamic > 0), || {
                format!("positions {low}..={high} of {operand}")
            })?;
        }
        Ok(())
    }
}

/// A program of the nest.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Inner(usize),
    Body,
    Epilogue,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Inner(number) => write!(f, "inner sum {number}"),
            Part::Body => write!(f, "body"),
            Part::Epilogue => write!(f, "epilogue"),
        }
    }
}

fn require(holds: bool, reason: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(reason()) }
}
