//! The values that a contraction's index variables take.

use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::expression::Lowered;
use crate::affine::{Affine, Injectivity, Ranges, RationalAffine, injective, integral_points, ranges};
use crate::graph::IndexRange;

/// The index variables of a contraction, numbered in the order in which they first occur.
#[derive(Default)]
pub(super) struct Variables {
    names: Vec<Variable>,
}

struct Variable {
    name: String,
    /// Made by lowering, not by the program.
    own: bool,
    /// Where it first occurs.
    span: Span,
}

impl Variables {
    /// The number of a variable.
    pub fn number(&mut self, name: &str, span: Span, own: bool) -> usize {
        self.names.iter().position(|v| v.name == name && v.own == own).unwrap_or_else(|| {
            self.names.push(Variable { name: name.to_owned(), own, span });
            self.names.len() - 1
        })
    }

    /// A name for each, all different.
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

/// The integer points at which fractional indices are integers and all conditions hold.
pub(super) struct Points {
    names: Vec<String>,
    /// The variables of the program in those of the graph.
    old: Vec<Affine>,
    /// Each is at least 0.
    conditions: Vec<Affine>,
    /// First and last values; none where no point satisfies the conditions.
    ranges: Option<Vec<(i64, i64)>>,
    span: Span,
}

impl Points {
    /// Of the contraction at `span`: `indices` are integers within axes of the given sizes, and `constraints` at least 0.
    pub fn new(
        variables: &Variables,
        indices: &[(&RationalAffine, usize)],
        constraints: &[RationalAffine],
        span: Span,
    ) -> Lowered<Points> {
        let overflow = || overflow(span);
        let count = variables.names.len();
        let mut integral = Vec::with_capacity(indices.len());
        let mut conditions = constraints.to_vec();
        for &(index, size) in indices {
            let size = i64::try_from(size).ok();
            conditions.extend(size.and_then(|size| within(index, size)).ok_or_else(overflow)?);
            integral.push(index.clone());
        }
        let Some(old) = integral_points(count, &integral).ok_or_else(overflow)? else {
            let error = Diagnostic::error("E0218", span, "an index of this contraction is never an integer");
            return Err(
                error.help("division in an index is exact: to round a size, give it a name before, as in `H = N / 2;`")
            );
        };
        // A fraction has the sign of its numerator.
        let conditions = conditions.iter().map(|c| c.numerator().substitute_all(&old)).collect::<Option<Vec<_>>>();
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
                    .help(format!("index a tensor with it, or add a constraint, as in `, {name} < 10`")));
            }
        };
        Ok(Points { names: variables.unique(), old, conditions, ranges, span })
    }

    /// A polynomial that is an integer at all points, over the graph's variables.
    pub fn affine(&self, polynomial: &RationalAffine) -> Lowered<Affine> {
        /// No tensor is so large that an index in it has larger parts, and addresses made of these are far from the ends of 64 bits.
        const LARGEST: u64 = 1 << 40;
        let here = polynomial.substitute_all(&self.old).and_then(|here| here.as_affine().cloned());
        let fits = |affine: &Affine| {
            let factors = affine.terms().iter().map(|(_, factor)| *factor);
            factors.chain([affine.offset()]).all(|part| part.unsigned_abs() <= LARGEST)
        };
        here.filter(fits).ok_or_else(|| overflow(self.span))
    }

    /// The variables and their ranges, for the graph.
    pub fn index_ranges(&self) -> Lowered<Vec<IndexRange>> {
        let mut found = Vec::with_capacity(self.names.len());
        for (number, name) in self.names.iter().enumerate() {
            let (low, last) = self.ranges.as_ref().map_or((0, -1), |ranges| ranges[number]);
            let high = last.checked_add(1).ok_or_else(|| overflow(self.span))?;
            found.push(IndexRange { name: name.clone(), low, high });
        }
        Ok(found)
    }

    /// The conditions among `polynomials` (at least 0) that the ranges do not imply.
    pub fn constraints(&self, polynomials: &[RationalAffine]) -> Lowered<Vec<Affine>> {
        let Some(ranges) = &self.ranges else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for polynomial in polynomials {
            let condition = polynomial.numerator().substitute_all(&self.old).ok_or_else(|| overflow(self.span))?;
            let implied = condition.bounds(ranges).is_some_and(|(least, _)| least >= 0);
            if !implied && !found.contains(&condition) {
                found.push(condition);
            }
        }
        Ok(found)
    }

    /// An error unless each place is proven to be written at most once.
    pub fn written_once(&self, output: &[Affine], name: &str) -> Lowered<()> {
        let Some(ranges) = &self.ranges else { return Ok(()) };
        let overflow = || overflow(self.span);
        let help = "aggregate with `+`, `*`, `>` or `<`, or add constraints";
        match injective(output, ranges, &self.conditions).ok_or_else(overflow)? {
            Injectivity::Yes => Ok(()),
            Injectivity::No(first, second) => {
                let place = output.iter().map(|axis| axis.evaluate(&first)).collect::<Option<Vec<_>>>();
                let place = place.ok_or_else(overflow)?;
                let (first, second) = (self.assignment(&first)?, self.assignment(&second)?);
                let message = format!("`=` writes `{name}{place:?}` more than once: where {first}, and where {second}");
                Err(Diagnostic::error("E0217", self.span, message).help(help))
            }
            Injectivity::Unknown => {
                let message = format!("it cannot be shown that `=` writes each place of `{name}` at most once");
                Err(Diagnostic::error("E0217", self.span, message).help(help))
            }
        }
    }

    /// `i = 0, j = 1`, of the program's variables.
    fn assignment(&self, point: &[i64]) -> Lowered<String> {
        let mut parts = Vec::with_capacity(point.len());
        for (name, old) in self.names.iter().zip(&self.old) {
            parts.push(format!("{name} = {}", old.evaluate(point).ok_or_else(|| overflow(self.span))?));
        }
        Ok(parts.join(", "))
    }
}

/// `0 <= polynomial < bound`, as expressions that are at least 0. The polynomial may be a fraction. `None`: overflow.
pub(super) fn within(polynomial: &RationalAffine, bound: i64) -> Option<[RationalAffine; 2]> {
    let numerator = polynomial.numerator();
    // p/d < b is p < d*b.
    let last = polynomial.denominator().checked_mul(bound)?.checked_sub(1)?;
    Some([numerator.clone().into(), Affine::constant(last).sub(numerator)?.into()])
}

pub(super) fn overflow(span: Span) -> Diagnostic {
    Diagnostic::error("E0219", span, "these indices do not fit 64-bit integers")
}
