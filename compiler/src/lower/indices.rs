//! The value ranges of a contraction's index variables.

use tile_lang::Budget;
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::expression::Lowered;
use crate::affine::{
    Affine, Injectivity, Ranges, RationalAffine, injective, integral_points, ranges,
};
use crate::graph::IndexRange;

/// The index variables of a contraction, numbered in order of first occurrence.
#[derive(Default)]
pub(super) struct Variables {
    names: Vec<Variable>,
}

struct Variable {
    name: String,
    /// Whether lowering made the variable, rather than the program.
    own: bool,
    /// The first occurrence.
    span: Span,
}

impl Variables {
    /// Returns the number of a variable, which is added if it is new.
    pub fn number(&mut self, name: &str, span: Span, own: bool) -> usize {
        self.names.iter().position(|v| v.name == name && v.own == own).unwrap_or_else(|| {
            self.names.push(Variable { name: name.to_owned(), own, span });
            self.names.len() - 1
        })
    }

    /// Returns a distinct name for each variable.
    fn unique(&self) -> Vec<String> {
        let mut unique: Vec<String> = Vec::with_capacity(self.names.len());
        for variable in &self.names {
            let mut name = variable.name.clone();
            while variable.own && self.names.iter().any(|v| !v.own && v.name == name) {
                name.push('_');
            }
            unique.push(name);
        }
        unique
    }
}

/// The constraint `0 <= polynomial < bound`, which also requires that the polynomial is an integer.
pub(super) struct Constraint {
    polynomial: RationalAffine,
    /// The expressions that must be at least 0.
    conditions: [RationalAffine; 2],
}

impl Constraint {
    /// Returns `None` on overflow.
    pub fn new(polynomial: RationalAffine, bound: i64) -> Option<Constraint> {
        let conditions = within(&polynomial, bound)?;
        Some(Constraint { polynomial, conditions })
    }
}

/// The largest coefficient, offset or bound of an index. No tensor needs larger ones, and addresses
/// computed from these stay far from the limits of an i64.
const LARGEST: u64 = 1 << 40;

/// The integer points at which fractional indices are integers and all conditions hold.
pub(super) struct Points {
    names: Vec<String>,
    /// The variables of the program, as expressions of the graph's variables.
    old: Vec<Affine>,
    /// The expressions that must be at least 0.
    conditions: Vec<Affine>,
    /// The first and last value of each variable; `None` if no point satisfies the conditions.
    ranges: Option<Vec<(i64, i64)>>,
    span: Span,
}

impl Points {
    /// Finds the points of the contraction at `span`, at which `indices` are integers within axes
    /// of the given sizes and `constraints` hold.
    pub fn new(
        variables: &Variables,
        indices: &[(&RationalAffine, usize)],
        constraints: &[Constraint],
        budget: &Budget,
        span: Span,
    ) -> Lowered<Points> {
        let overflow = || overflow(span);
        let count = variables.names.len();
        let rows = indices.len() + constraints.len();
        // Elimination visits each variable of each row once for each variable.
        budget
            .spend(((count + 1) * (count + rows)) as u64)
            .map_err(|exceeded| exceeded.at(span))?;
        let mut integral: Vec<RationalAffine> =
            constraints.iter().map(|c| c.polynomial.clone()).collect();
        let mut conditions: Vec<RationalAffine> =
            constraints.iter().flat_map(|c| c.conditions.clone()).collect();
        for &(index, size) in indices {
            let size = i64::try_from(size).ok();
            conditions.extend(size.and_then(|size| within(index, size)).ok_or_else(overflow)?);
            integral.push(index.clone());
        }
        let Some(old) = integral_points(count, &integral).ok_or_else(overflow)? else {
            let message = "an index or constraint of this contraction is never an integer";
            let error = Diagnostic::error("E0218", span, message);
            return Err(
                error.help("division in an index is exact: to round a size, give it a name before, as in `H = N / 2;`")
            );
        };
        // A fraction has the sign of its numerator.
        let conditions = conditions
            .iter()
            .map(|c| c.numerator().substitute_all(&old))
            .collect::<Option<Vec<_>>>();
        let conditions = conditions.ok_or_else(overflow)?;
        let ranges = match ranges(count, &conditions).ok_or_else(overflow)? {
            Ranges::Empty => None,
            Ranges::Bounded(ranges) => Some(ranges),
            Ranges::Unbounded { variable, above } => {
                let Variable { name, span, .. } = &variables.names[variable];
                let (side, where_to) = if above { ("upper", "above") } else { ("lower", "below") };
                let message = format!("the index `{name}` has no {side} bound");
                return Err(Diagnostic::error("E0216", *span, message)
                    .saying(format!("nothing limits it from {where_to}"))
                    .help(format!(
                        "index a tensor with it, or add a constraint, as in `, {name} < 10`"
                    )));
            }
        };
        Ok(Points { names: variables.unique(), old, conditions, ranges, span })
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_none()
    }

    /// Converts a polynomial that is an integer at all points to the graph's variables.
    pub fn affine(&self, polynomial: &RationalAffine) -> Lowered<Affine> {
        let here = polynomial.substitute_all(&self.old).and_then(|here| here.as_affine().cloned());
        let fits = |affine: &Affine| {
            let factors = affine.terms().iter().map(|(_, factor)| *factor);
            factors.chain([affine.offset()]).all(|part| part.unsigned_abs() <= LARGEST)
        };
        here.filter(fits).ok_or_else(|| overflow(self.span))
    }

    /// Returns the graph's variables and their ranges.
    pub fn index_ranges(&self) -> Lowered<Vec<IndexRange>> {
        let mut found = Vec::with_capacity(self.names.len());
        for (number, name) in self.names.iter().enumerate() {
            let (low, last) = self.ranges.as_ref().map_or((0, -1), |ranges| ranges[number]);
            if low.unsigned_abs().max(last.unsigned_abs()) > LARGEST {
                let message = format!(
                    "the index `{name}` runs from {low} to {last}, over more values than any tensor has"
                );
                return Err(Diagnostic::error("E0219", self.span, message));
            }
            found.push(IndexRange { name: name.clone(), low, high: last + 1 });
        }
        Ok(found)
    }

    /// Returns the expressions of `constraints` that must be at least 0 and that the ranges do not
    /// imply.
    pub fn constraints(&self, constraints: &[Constraint]) -> Lowered<Vec<Affine>> {
        let Some(ranges) = &self.ranges else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for condition in constraints.iter().flat_map(|constraint| &constraint.conditions) {
            let condition = condition
                .numerator()
                .substitute_all(&self.old)
                .ok_or_else(|| overflow(self.span))?;
            let (least, _) = condition.bounds(ranges).ok_or_else(|| overflow(self.span))?;
            if least < 0 && !found.contains(&condition) {
                found.push(condition);
            }
        }
        Ok(found)
    }

    /// Returns the number of the graph's variables.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// Checks that each element of the output is provably written at most once.
    pub fn written_once(&self, output: &[Affine], name: &str) -> Lowered<()> {
        let Some(ranges) = &self.ranges else { return Ok(()) };
        let overflow = || overflow(self.span);
        let help = "aggregate with `+`, `*`, `>` or `<`, or add constraints";
        match injective(output, ranges, &self.conditions).ok_or_else(overflow)? {
            Injectivity::Yes => Ok(()),
            Injectivity::No(first, second) => {
                let place =
                    output.iter().map(|axis| axis.evaluate(&first)).collect::<Option<Vec<_>>>();
                let place = place.ok_or_else(overflow)?;
                let (first, second) = (self.assignment(&first)?, self.assignment(&second)?);
                let message = format!(
                    "`=` writes `{name}{place:?}` more than once: where {first}, and where {second}"
                );
                Err(Diagnostic::error("E0217", self.span, message).help(help))
            }
            Injectivity::Unknown => {
                let message = format!(
                    "it cannot be shown that `=` writes each place of `{name}` at most once"
                );
                Err(Diagnostic::error("E0217", self.span, message).help(help))
            }
        }
    }

    /// Formats a point in the program's variables, as in `i = 0, j = 1`.
    fn assignment(&self, point: &[i64]) -> Lowered<String> {
        let mut parts = Vec::with_capacity(point.len());
        for (name, old) in self.names.iter().zip(&self.old) {
            parts.push(format!(
                "{name} = {}",
                old.evaluate(point).ok_or_else(|| overflow(self.span))?
            ));
        }
        Ok(parts.join(", "))
    }
}

/// Returns expressions that are at least 0 exactly if `0 <= polynomial < bound`. The polynomial may
/// be a fraction. Returns `None` on overflow.
fn within(polynomial: &RationalAffine, bound: i64) -> Option<[RationalAffine; 2]> {
    let numerator = polynomial.numerator();
    // p/d < b is p < d*b.
    let last = polynomial.denominator().checked_mul(bound)?.checked_sub(1)?;
    Some([numerator.clone().into(), Affine::constant(last).sub(numerator)?.into()])
}

pub(super) fn overflow(span: Span) -> Diagnostic {
    Diagnostic::error("E0219", span, "these indices do not fit 64-bit integers")
}
