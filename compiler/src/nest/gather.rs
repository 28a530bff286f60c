//! From a contraction, which says where each point writes, to its gather form, which says for each place what it reads.
//!
//! Example: `O[2*i + k: N] = +(I[i] * W[k])` with `k` in `0..3` (a strided transposed convolution) becomes, over the
//! place `o` and a reduction axis `t` in `0..2`, with the derived variable `q = floor(o / 2)`:
//! `i = q - t`, `k = o - 2*q + 2*t`, and guards for what of `0 <= i`, `i < size`, `k < 3` the box does not prove.
//!
//! Why it is sound: the Hermite form of the output map is a bijection of the integer points. The first variables `z`
//! are determined by the place (divisions that leave a remainder are guarded), the others are free to reduce over. Every
//! condition of the contraction, the ranges of its variables among them, becomes a guard unless it follows from the new
//! axes' ranges and the other guards.

use crate::affine::{Affine, Ranges, hermite, ranges};
use crate::graph::{Contraction, Graph, NodeId};

use super::{Axis, Derived, derived_number};

/// A contraction in gather form. Variables: the places' coordinates, the reduction axes, the derived ones.
#[derive(Clone, Debug)]
pub(crate) struct Gather {
    pub reduction: Vec<Axis>,
    pub derived: Vec<Derived>,
    /// A point counts only where all are at least 0; what follows from the rest is left out.
    pub guards: Vec<Affine>,
    /// Each index variable of the contraction in terms of the variables here.
    pub indices: Vec<Affine>,
    /// No point counts anywhere.
    pub empty: bool,
}

impl Gather {
    /// The same with `more` variables from number `first` on, before the derived ones.
    pub fn with_axes(mut self, first: usize, more: usize) -> Option<Gather> {
        let derived = self.derived.iter_mut().map(|derived| &mut derived.numerator);
        for affine in derived.chain(&mut self.guards).chain(&mut self.indices) {
            *affine = affine.map_variables(|v| if v >= first { v + more } else { v })?;
        }
        Some(self)
    }
}

/// The gather form of a node that computes `op`.
pub(crate) fn gather_node(graph: &Graph, id: NodeId, op: &Contraction) -> Option<Gather> {
    let shapes: Vec<Vec<usize>> = graph.operands(id).iter().map(|&operand| graph.shape(operand).to_vec()).collect();
    gather(op, graph.shape(id), &shapes)
}

/// The gather form of `contraction`, which writes places of `shape` and whose operands have `operand_shapes`.
///
/// `None`: index arithmetic left the range of 64 bits.
pub(crate) fn gather(contraction: &Contraction, shape: &[usize], operand_shapes: &[Vec<usize>]) -> Option<Gather> {
    let count = contraction.indices.len();
    let extents: Vec<i64> = contraction.indices.iter().map(|r| r.high - r.low).collect();
    let form = hermite(&contraction.output, &extents)?;
    let places: Vec<Affine> = contraction.output.iter().map(|p| p.substitute_all(&form.old)).collect::<Option<_>>()?;

    // Every condition on a point, in the variables of the Hermite form, whose reduction variables it bounds.
    let mut conditions = Vec::new();
    for access in &contraction.accesses {
        for (axis, coordinate) in access.index.iter().enumerate().filter(|(_, c)| c.access.is_none()) {
            let value = coordinate.affine.substitute_all(&form.old)?;
            conditions.extend(within(value, operand_shapes[access.operand][axis])?);
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
        // The ranges of the contraction bound every variable.
        Ranges::Empty | Ranges::Unbounded { .. } => (vec![(0, 0); count], true),
    };

    let free = shape.len();
    let mut builder = Builder { free, reductions: count - form.rank, derived: Vec::new(), extents: Vec::new() };
    let mut z: Vec<Option<Affine>> = vec![None; count];
    for (axis, &(low, high)) in ranges.iter().enumerate().skip(form.rank) {
        builder.extents.push(usize::try_from(high.checked_sub(low)?.checked_add(1)?).ok()?);
        z[axis] = Some(Affine::var(free + axis - form.rank).add(&Affine::constant(low))?);
    }
    let mut guards = builder.solve(&places, &mut z)?;
    let z: Vec<Affine> = z.into_iter().collect::<Option<_>>()?;
    let mut indices: Vec<Affine> = form.old.iter().map(|old| old.substitute_all(&z)).collect::<Option<_>>()?;
    for condition in conditions {
        guards.push(condition.substitute_all(&z)?);
    }

    builder.tighten(&mut guards, &mut indices, shape)?;

    // Drop what the box proves; one guard that it refutes means that nothing counts.
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
    let reduction = (0..builder.reductions)
        .map(|r| Axis { name: axis_name(free + r, r, &indices, &names), extent: builder.extents[r] })
        .collect();
    Some(Gather { reduction, derived: builder.derived, guards: kept, indices, empty })
}

/// `value` lies in `0..size`.
fn within(value: Affine, size: usize) -> Option<[Affine; 2]> {
    let last = Affine::constant(i64::try_from(size).ok()? - 1);
    Some([last.sub(&value)?, value])
}

/// The name of the index variable that is this axis (shifted), or a made-up one.
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
    /// Of the reduction axes.
    extents: Vec<usize>,
}

impl Builder {
    /// Solves `places[row](z) = coordinate of the place along row` for the variables `z` that are not known yet: the
    /// echelon form has, for each, a row with no other unknown. Returns guards for divisions that leave a remainder and
    /// for rows that follow from others.
    fn solve(&mut self, places: &[Affine], z: &mut [Option<Affine>]) -> Option<Vec<Affine>> {
        let mut guards = Vec::new();
        let mut rows: Vec<usize> = (0..places.len()).collect();
        while !rows.is_empty() {
            let unknown = |row: usize, z: &[Option<Affine>]| {
                places[row].terms().iter().filter(|(v, _)| z[*v].is_none()).copied().collect::<Vec<_>>()
            };
            let next = rows.iter().position(|&row| unknown(row, z).len() <= 1)?;
            let row = rows.remove(next);
            let mut rest = Affine::var(row).sub(&Affine::constant(places[row].offset()))?;
            for &(variable, coefficient) in places[row].terms() {
                if let Some(value) = &z[variable] {
                    rest = rest.sub(&value.scale(coefficient)?)?;
                }
            }
            match unknown(row, z)[..] {
                [(variable, 1)] => z[variable] = Some(rest),
                [(variable, coefficient)] => {
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

    /// The variable `floor(numerator / denominator)`, an existing one where there is one.
    fn derive(&mut self, numerator: Affine, denominator: i64) -> Option<Affine> {
        let number = derived_number(&mut self.derived, numerator, denominator);
        Some(Affine::var(self.free + self.reductions + number))
    }

    fn bounds(&self, shape: &[usize]) -> Option<Vec<(i64, i64)>> {
        let extents = shape.iter().chain(&self.extents);
        let mut bounds: Vec<(i64, i64)> = extents.map(|&e| (0, e.max(1) as i64 - 1)).collect();
        for derived in &self.derived {
            let (low, high) = derived.numerator.bounds(&bounds)?;
            bounds.push((low.div_euclid(derived.denominator), high.div_euclid(derived.denominator)));
        }
        Some(bounds)
    }

    /// `guards` without those that follow from the others, the box of the axes and what the derived variables are.
    fn independent(&self, mut guards: Vec<Affine>, shape: &[usize]) -> Option<Vec<Affine>> {
        let variables = self.free + self.reductions + self.derived.len();
        let mut known = Vec::new();
        for (variable, (low, high)) in self.bounds(shape)?.into_iter().enumerate() {
            known.push(Affine::var(variable).sub(&Affine::constant(low))?);
            known.push(Affine::constant(high).sub(&Affine::var(variable))?);
        }
        for (number, derived) in self.derived.iter().enumerate() {
            // 0 <= numerator - denominator * q < denominator
            let whole = Affine::var(self.free + self.reductions + number).scale(derived.denominator)?;
            let rest = derived.numerator.sub(&whole)?;
            known.push(Affine::constant(derived.denominator - 1).sub(&rest)?);
            known.push(rest);
        }
        for number in (0..guards.len()).rev() {
            let guard = guards.remove(number);
            let refuted = Affine::constant(-1).sub(&guard)?;
            let constraints: Vec<Affine> = known.iter().chain(&guards).chain([&refuted]).cloned().collect();
            if ranges(variables, &constraints)? != Ranges::Empty {
                guards.insert(number, guard);
            }
        }
        Some(guards)
    }

    /// Narrows reduction axes to windows that slide with the other variables.
    ///
    /// Two guards `f + a*t >= 0` and `g - a*t >= 0` whose sum is a constant `s` leave at most `s / a + 1` values of `t`,
    /// those from `-floor(f / a)` on. Where that is fewer than the axis has, `t` becomes `t' - floor(f / a)`.
    ///
    /// With `a` above 1 (the stride of a transposed convolution), unless the floor is the same everywhere, places then come in `a`
    /// kinds, and the floor should have more values than `t'`: a window as wide as all it slides over, that of a dilated kernel on
    /// a small image, leaves out padding alone.
    fn tighten(&mut self, guards: &mut [Affine], indices: &mut [Affine], shape: &[usize]) -> Option<()> {
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

    /// The axis that a pair of guards narrows by the greatest factor, the window's width, and the lower guard.
    #[allow(clippy::type_complexity)] // the three are explained above and used once
    fn window(&self, guards: &[Affine], shape: &[usize]) -> Option<Option<(usize, usize, Affine)>> {
        let mut best: Option<(usize, usize, Affine)> = None;
        let bounds = self.bounds(shape)?;
        for axis in 0..self.reductions {
            let variable = self.free + axis;
            for lower in guards {
                let a = lower.coefficient(variable);
                // With |a| > 1 the start is a derived variable, cheap only where it depends on the place alone.
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
                    let better = best.as_ref().is_none_or(|(b, w, _)| ratio(width, axis) < ratio(*w, *b));
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
