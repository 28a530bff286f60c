//! Converts a contraction, which defines where each point writes, to its gather form, which defines
//! what each place reads.
//!
//! Example: `O[2*i + k: N] = +(I[i] * W[k])` with `k` in `0..3` (a strided transposed convolution)
//! becomes a sum at each place `o` over a reduction axis `t` in `0..2`. With the derived variable
//! `q = floor((2 - o) / 2)` it has `i = t - q` and `k = o - 2*t + 2*q`. Guards are those of
//! `0 <= i`, `i < size` and `0 <= k` that the box of the axes does not imply.
//!
//! Why it is sound: the Hermite form of the output map is a bijection of the integer points. A
//! place determines the first variables `z` (guards exclude divisions with a remainder); the others
//! are free and become reduction axes. Every condition of the contraction, including the ranges of
//! its variables, becomes a guard unless the ranges of the new axes and the other guards imply it.

use crate::affine::{Affine, Ranges, hermite, ranges};
use crate::graph::{Contraction, Graph, NodeId};

use super::{Axis, Derived, derived_number};

/// A contraction in gather form. Its variables are the coordinates of the place, the reduction
/// axes, then the derived variables.
#[derive(Clone, Debug)]
pub(crate) struct Gather {
    pub reduction: Vec<Axis>,
    pub derived: Vec<Derived>,
    /// A point counts only if all of these are at least 0. Implied guards are left out.
    pub guards: Vec<Affine>,
    /// Each index variable of the contraction in terms of the variables of this form.
    pub indices: Vec<Affine>,
    /// True if no point counts at any place.
    pub empty: bool,
}

impl Gather {
    /// Inserts `more` variables at number `first`, which must not be after the first derived one.
    pub fn with_axes(mut self, first: usize, more: usize) -> Option<Gather> {
        let derived = self.derived.iter_mut().map(|derived| &mut derived.numerator);
        for affine in derived.chain(&mut self.guards).chain(&mut self.indices) {
            *affine = affine.map_variables(|v| if v >= first { v + more } else { v })?;
        }
        Some(self)
    }
}

/// Returns the gather form of a node that computes `op`.
pub(crate) fn gather_node(graph: &Graph, id: NodeId, op: &Contraction) -> Option<Gather> {
    let shapes: Vec<Vec<usize>> =
        graph.operands(id).iter().map(|&operand| graph.shape(operand).to_vec()).collect();
    gather(op, graph.shape(id), &shapes)
}

/// Returns the gather form of `contraction`, which writes places of `shape` and reads operands of
/// `operand_shapes`. Returns `None` if index arithmetic overflows 64 bits.
pub(crate) fn gather(
    contraction: &Contraction,
    shape: &[usize],
    operand_shapes: &[Vec<usize>],
) -> Option<Gather> {
    let count = contraction.indices.len();
    let extents: Vec<i64> = contraction.indices.iter().map(|r| r.high - r.low).collect();
    let form = hermite(&contraction.output, &extents)?;
    let places: Vec<Affine> =
        contraction.output.iter().map(|p| p.substitute_all(&form.old)).collect::<Option<_>>()?;

    // All conditions on a point, in the variables of the Hermite form. They bound its reduction
    // variables.
    let mut conditions = Vec::new();
    for access in &contraction.accesses {
        for (coordinate, &size) in access.index.iter().zip(&operand_shapes[access.operand]) {
            match coordinate.access {
                None => {
                    conditions.extend(within(coordinate.affine.substitute_all(&form.old)?, size)?)
                }
                // A run-time index is checked when it is read, and an empty axis has no element to
                // clamp it to.
                Some(_) if size == 0 => conditions.push(Affine::constant(-1)),
                Some(_) => {}
            }
        }
    }
    for constraint in &contraction.constraints {
        conditions.push(constraint.substitute_all(&form.old)?);
    }
    for (range, old) in contraction.indices.iter().zip(&form.old) {
        conditions.push(old.sub(&Affine::constant(range.low))?);
        conditions.push(Affine::constant(range.high - 1).sub(old)?);
    }
    let mut bounding = conditions.clone();
    for (place, &size) in places.iter().zip(shape) {
        bounding.extend(within(place.clone(), size)?);
    }
    let (ranges, mut empty) = match ranges(count, &bounding)? {
        Ranges::Bounded(ranges) => (ranges, false),
        // Unbounded cannot occur: the contraction has a range for every variable.
        Ranges::Empty | Ranges::Unbounded { .. } => (vec![(0, 0); count], true),
    };

    let free = shape.len();
    let mut builder =
        Builder { free, reductions: count - form.rank, derived: Vec::new(), extents: Vec::new() };
    let mut z: Vec<Option<Affine>> = vec![None; count];
    for (axis, &(low, high)) in ranges.iter().enumerate().skip(form.rank) {
        builder.extents.push(usize::try_from(high.checked_sub(low)?.checked_add(1)?).ok()?);
        z[axis] = Some(Affine::var(free + axis - form.rank).add(&Affine::constant(low))?);
    }
    let mut guards = builder.solve(&places, &mut z)?;
    let z: Vec<Affine> = z.into_iter().collect::<Option<_>>()?;
    let mut indices: Vec<Affine> =
        form.old.iter().map(|old| old.substitute_all(&z)).collect::<Option<_>>()?;
    for condition in conditions {
        guards.push(condition.substitute_all(&z)?);
    }

    builder.tighten(&mut guards, &mut indices, shape)?;

    // Drop the guards that the box implies. A guard that the box refutes means that no point
    // counts.
    let bounds = builder.bounds(shape)?;
    let mut kept: Vec<Affine> = Vec::new();
    for guard in guards {
        let (low, high) = guard.bounds(&bounds)?;
        empty |= high < 0;
        if low < 0 && !kept.contains(&guard) {
            kept.push(guard);
        }
    }
    let kept = builder.independent(kept, shape)?;
    let names: Vec<&str> = contraction.indices.iter().map(|r| r.name.as_str()).collect();
    let axis = |(r, &extent)| Axis { name: axis_name(free + r, r, &indices, &names), extent };
    let reduction = builder.extents.iter().enumerate().map(axis).collect();
    Some(Gather { reduction, derived: builder.derived, guards: kept, indices, empty })
}

/// Returns two expressions that are at least 0 exactly if `value` is in `0..size`.
fn within(value: Affine, size: usize) -> Option<[Affine; 2]> {
    let last = Affine::constant(i64::try_from(size).ok()? - 1);
    Some([last.sub(&value)?, value])
}

/// Returns the name of the index variable that equals this axis up to an offset, or a generic name.
fn axis_name(variable: usize, number: usize, indices: &[Affine], names: &[&str]) -> String {
    let same = indices.iter().position(|i| i.coefficient(variable) == 1 && i.terms().len() == 1);
    match same {
        Some(index) => names[index].trim_end_matches('\'').to_string(),
        None => format!("r{number}"),
    }
}

struct Builder {
    free: usize,
    reductions: usize,
    derived: Vec<Derived>,
    /// Extents of the reduction axes.
    extents: Vec<usize>,
}

impl Builder {
    /// Solves `places[row](z) = coordinate of the place along row` for the unknown variables `z`.
    /// In the echelon form, each unknown has a row in which it is the only one; rows that need no
    /// division are solved first. Returns guards that exclude divisions with a remainder and
    /// inconsistent redundant rows.
    fn solve(&mut self, places: &[Affine], z: &mut [Option<Affine>]) -> Option<Vec<Affine>> {
        let mut guards = Vec::new();
        let mut rows: Vec<usize> = (0..places.len()).collect();
        while !rows.is_empty() {
            let unknown = |row: usize, z: &[Option<Affine>]| {
                places[row]
                    .terms()
                    .iter()
                    .filter(|(v, _)| z[*v].is_none())
                    .copied()
                    .collect::<Vec<_>>()
            };
            let factor = |row: usize| match unknown(row, z)[..] {
                [] => Some(0),
                [(_, coefficient)] => Some(coefficient.unsigned_abs()),
                _ => None,
            };
            let (_, next) = (0..rows.len()).filter_map(|at| Some((factor(rows[at])?, at))).min()?;
            let row = rows.remove(next);
            let mut rest = Affine::var(row).sub(&Affine::constant(places[row].offset()))?;
            for &(variable, coefficient) in places[row].terms() {
                if let Some(value) = &z[variable] {
                    rest = rest.sub(&value.scale(coefficient)?)?;
                }
            }
            match unknown(row, z)[..] {
                [(variable, 1)] => z[variable] = Some(rest),
                [(variable, -1)] => z[variable] = Some(rest.scale(-1)?),
                [(variable, coefficient)] => {
                    // Denominators are positive.
                    let (rest, coefficient) = if coefficient < 0 {
                        (rest.scale(-1)?, coefficient.checked_neg()?)
                    } else {
                        (rest, coefficient)
                    };
                    let quotient = self.derive(rest.clone(), coefficient)?;
                    guards.push(quotient.scale(coefficient)?.sub(&rest)?);
                    z[variable] = Some(quotient);
                }
                _ => {
                    guards.push(rest.scale(-1)?);
                    guards.push(rest);
                }
            }
        }
        Some(guards)
    }

    /// Returns the variable `floor(numerator / denominator)`, reusing an existing one.
    fn derive(&mut self, numerator: Affine, denominator: i64) -> Option<Affine> {
        let number = derived_number(&mut self.derived, numerator, denominator);
        Some(Affine::var(self.free + self.reductions + number))
    }

    fn bounds(&self, shape: &[usize]) -> Option<Vec<(i64, i64)>> {
        let extents = shape.iter().chain(&self.extents);
        let mut bounds: Vec<(i64, i64)> = extents.map(|&e| (0, e.max(1) as i64 - 1)).collect();
        for derived in &self.derived {
            let (low, high) = derived.numerator.bounds(&bounds)?;
            bounds
                .push((low.div_euclid(derived.denominator), high.div_euclid(derived.denominator)));
        }
        Some(bounds)
    }

    /// Returns `guards` without those implied by the others, the ranges of the axes and the
    /// definitions of the derived variables.
    fn independent(&self, mut guards: Vec<Affine>, shape: &[usize]) -> Option<Vec<Affine>> {
        let variables = self.free + self.reductions + self.derived.len();
        let mut known = Vec::new();
        for (variable, (low, high)) in self.bounds(shape)?.into_iter().enumerate() {
            known.push(Affine::var(variable).sub(&Affine::constant(low))?);
            known.push(Affine::constant(high).sub(&Affine::var(variable))?);
        }
        for (number, derived) in self.derived.iter().enumerate() {
            // 0 <= numerator - denominator * q < denominator
            let whole =
                Affine::var(self.free + self.reductions + number).scale(derived.denominator)?;
            let rest = derived.numerator.sub(&whole)?;
            known.push(Affine::constant(derived.denominator - 1).sub(&rest)?);
            known.push(rest);
        }
        for number in (0..guards.len()).rev() {
            let guard = guards.remove(number);
            let refuted = Affine::constant(-1).sub(&guard)?;
            let constraints: Vec<Affine> =
                known.iter().chain(&guards).chain([&refuted]).cloned().collect();
            if ranges(variables, &constraints)? != Ranges::Empty {
                guards.insert(number, guard);
            }
        }
        Some(guards)
    }

    /// Narrows reduction axes to windows that slide with the other variables.
    ///
    /// Two guards `f + a*t >= 0` and `g - a*t >= 0` whose sum is a constant `s` leave at most
    /// `s / a + 1` values of `t`, starting at `-floor(f / a)`. If that is fewer than the extent of
    /// the axis, `t` becomes `t' - floor(f / a)`.
    ///
    /// With `a` above 1 (the stride of a transposed convolution) and a floor that varies, the
    /// places fall into `a` classes. This pays only if the floor takes more values than `t'`: a
    /// window as wide as the range over which it slides, as that of a dilated kernel on a small
    /// image, would skip padding only.
    fn tighten(
        &mut self,
        guards: &mut [Affine],
        indices: &mut [Affine],
        shape: &[usize],
    ) -> Option<()> {
        while let Some((axis, width, start)) = self.window(guards, shape)? {
            let variable = self.free + axis;
            let a = start.coefficient(variable);
            let rest = start.sub(&Affine::var(variable).scale(a)?)?;
            let floor = if a == 1 { rest } else { self.derive(rest, a)? };
            let value = Affine::var(variable).sub(&floor)?;
            self.extents[axis] = width;
            for expression in guards.iter_mut().chain(indices.iter_mut()) {
                *expression = expression.substitute(variable, &value)?;
            }
        }
        Some(())
    }

    /// Returns the axis that a pair of guards narrows by the greatest factor, the width of the
    /// window and the lower guard. The inner `None` means that there is no such axis.
    // the doc comment explains the three parts, and there is one caller
    #[allow(clippy::type_complexity)]
    fn window(&self, guards: &[Affine], shape: &[usize]) -> Option<Option<(usize, usize, Affine)>> {
        let mut best: Option<(usize, usize, Affine)> = None;
        let bounds = self.bounds(shape)?;
        for axis in 0..self.reductions {
            let variable = self.free + axis;
            for lower in guards {
                let a = lower.coefficient(variable);
                // With |a| > 1 the start is a derived variable, which is cheap only if it depends
                // on the place alone.
                let simple = a == 1 || lower.variables().all(|v| v < self.free || v == variable);
                if a <= 0 || !simple || self.mentioned_by_derived(variable) {
                    continue;
                }
                let (low, high) = lower.sub(&Affine::var(variable).scale(a)?)?.bounds(&bounds)?;
                let stands = low.div_euclid(a) == high.div_euclid(a);
                let places = (high.checked_sub(low)? / a).checked_add(1)?;
                for upper in guards.iter().filter(|g| g.coefficient(variable) == -a) {
                    let Some(span) = lower.add(upper)?.as_constant() else { continue };
                    let width = usize::try_from((span.max(0) / a).checked_add(1)?).ok()?;
                    let ratio = |w: usize, axis: usize| w as f64 / self.extents[axis] as f64;
                    let better =
                        best.as_ref().is_none_or(|(b, w, _)| ratio(width, axis) < ratio(*w, *b));
                    let pays = a == 1 || stands || places > width as i64;
                    if width < self.extents[axis] && pays && better {
                        best = Some((axis, width, lower.clone()));
                    }
                }
            }
        }
        Some(best)
    }

    fn mentioned_by_derived(&self, variable: usize) -> bool {
        self.derived.iter().any(|d| d.numerator.coefficient(variable) != 0)
    }
}
