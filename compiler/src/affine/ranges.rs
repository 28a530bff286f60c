//! [`ranges`]: the range of each variable under affine constraints.

use super::Affine;
use super::rational::{Rational, gcd};
use super::simplex::{Maximum, Simplex};

/// The result of [`ranges`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// No integer point satisfies the constraints.
    Empty,
    /// The constraints do not bound this variable from above, or from below.
    Unbounded {
        /// The variable without the bound.
        variable: usize,
        /// Whether the missing bound is the upper one.
        above: bool,
    },
    /// The first and last value of every variable. They are exact over the rationals, and rounded
    /// inwards until no range shrinks further. Rarely, the first or last value occurs in no integer
    /// point.
    Bounded(Vec<(i64, i64)>),
}

/// Maximum number of rounds. Rounding inwards shrinks the polytope, which may activate other
/// bounds. One round nearly always suffices. Thin polytopes may reach the limit; their ranges are
/// then wider than necessary, which is sound.
const ROUNDS: usize = 16;

/// Returns the range of each variable `0..variables` over the integer points where every constraint
/// is `>= 0`, or `None` on overflow.
pub fn ranges(variables: usize, constraints: &[Affine]) -> Option<Ranges> {
    let mut bounds = vec![Bounds { low: None, high: None }; variables];
    let mut rows = Vec::new();
    for constraint in constraints {
        let row = tighten(constraint)?;
        match *row.terms() {
            [] if row.offset() < 0 => return Some(Ranges::Empty),
            [] => {}
            [(variable, coefficient)] => {
                let bound = bounds.get_mut(variable)?;
                if coefficient > 0 {
                    bound.raise(row.offset().checked_neg()?);
                } else {
                    bound.lower(row.offset());
                }
            }
            _ if row.variables().any(|v| v >= variables) => return None,
            _ => rows.push(row),
        }
    }
    for _ in 0..ROUNDS {
        if bounds.iter().any(Bounds::is_empty) {
            return Some(Ranges::Empty);
        }
        // Drop constraints that the bounds imply. The others split into independent programs.
        rows.retain(|row| !implied(row, &bounds));
        let mut rounded = false;
        for (members, rows) in components(variables, &rows) {
            match refine(&members, &rows, &mut bounds)? {
                Refined::Empty => return Some(Ranges::Empty),
                Refined::Exact => {}
                Refined::Rounded => rounded = true,
            }
        }
        if !rounded {
            break;
        }
    }
    if bounds.iter().any(Bounds::is_empty) {
        return Some(Ranges::Empty);
    }
    let mut found = Vec::with_capacity(variables);
    for (variable, bound) in bounds.iter().enumerate() {
        match (bound.low, bound.high) {
            (Some(low), Some(high)) => found.push((low, high)),
            (_, high) => {
                return Some(Ranges::Unbounded { variable, above: high.is_none() });
            }
        }
    }
    Some(Ranges::Bounded(found))
}

#[derive(Clone)]
struct Bounds {
    low: Option<i64>,
    high: Option<i64>,
}

impl Bounds {
    fn raise(&mut self, low: i64) {
        self.low = Some(self.low.map_or(low, |old| old.max(low)));
    }

    fn lower(&mut self, high: i64) {
        self.high = Some(self.high.map_or(high, |old| old.min(high)));
    }

    fn is_empty(&self) -> bool {
        matches!((self.low, self.high), (Some(low), Some(high)) if low > high)
    }
}

/// Divides the constraint by the common divisor of its coefficients and rounds the constant down,
/// which keeps the integer points: `2*i - 1 >= 0` becomes `i - 1 >= 0`.
fn tighten(constraint: &Affine) -> Option<Affine> {
    let mut divisor = 0;
    for &(_, coefficient) in constraint.terms() {
        divisor = gcd(divisor, i128::from(coefficient))?;
    }
    let Ok(divisor @ 2..) = i64::try_from(divisor) else {
        return Some(constraint.clone());
    };
    let terms = constraint.terms().iter().map(|&(v, c)| (v, c / divisor));
    Affine::new(terms, constraint.offset().div_euclid(divisor))
}

fn implied(row: &Affine, bounds: &[Bounds]) -> bool {
    let mut low = i128::from(row.offset());
    for &(variable, coefficient) in row.terms() {
        let bound = &bounds[variable];
        let Some(least) = (if coefficient > 0 { bound.low } else { bound.high }) else {
            return false;
        };
        low = low.saturating_add(i128::from(coefficient) * i128::from(least));
    }
    low >= 0
}

/// Returns the sets of variables that constraints connect, each with its constraints.
fn components(variables: usize, rows: &[Affine]) -> Vec<(Vec<usize>, Vec<&Affine>)> {
    let mut label: Vec<usize> = (0..variables).collect();
    for row in rows {
        let joined: Vec<usize> = row.variables().map(|v| label[v]).collect();
        let least = joined.iter().copied().min().unwrap_or(0);
        for entry in label.iter_mut().filter(|entry| joined.contains(entry)) {
            *entry = least;
        }
    }
    let mut found = Vec::new();
    for component in 0..variables {
        let members: Vec<usize> = (0..variables).filter(|&v| label[v] == component).collect();
        let rows: Vec<&Affine> =
            rows.iter().filter(|row| row.variables().any(|v| members.contains(&v))).collect();
        if !rows.is_empty() {
            found.push((members, rows));
        }
    }
    found
}

enum Refined {
    Empty,
    Exact,
    /// A bound was fractional.
    Rounded,
}

/// Tightens the bounds of the `members` to the polytope of `rows` and the bounds themselves.
fn refine(members: &[usize], rows: &[&Affine], bounds: &mut [Bounds]) -> Option<Refined> {
    // Represent every member by non-negative columns: `low + x`, else `high - x`, else `x - x'`.
    let mut columns: Vec<(usize, Rational)> = Vec::new();
    let mut origin = vec![Rational::ZERO; bounds.len()];
    for &member in members {
        let minus = Rational::integer(-1);
        match bounds[member] {
            Bounds { low: Some(low), .. } => {
                columns.push((member, Rational::ONE));
                origin[member] = Rational::integer(low);
            }
            Bounds { low: None, high: Some(high) } => {
                columns.push((member, minus));
                origin[member] = Rational::integer(high);
            }
            _ => columns.extend([(member, Rational::ONE), (member, minus)]),
        }
    }
    let mut table = Vec::with_capacity(rows.len() + members.len());
    for row in rows {
        let mut entries = Vec::with_capacity(columns.len() + 1);
        for &(member, sign) in &columns {
            entries.push(Rational::integer(row.coefficient(member)).mul(sign)?);
        }
        let mut constant = Rational::integer(row.offset());
        for &(variable, coefficient) in row.terms() {
            constant = constant.add(Rational::integer(coefficient).mul(origin[variable])?)?;
        }
        entries.push(constant);
        table.push(entries);
    }
    for (at, &(member, _)) in columns.iter().enumerate() {
        if let Bounds { low: Some(_), high: Some(high) } = bounds[member] {
            let mut entries = vec![Rational::ZERO; columns.len()];
            entries[at] = Rational::integer(-1);
            entries.push(Rational::integer(high).sub(origin[member])?);
            table.push(entries);
        }
    }
    let mut program = Simplex::new(columns.len(), table);
    if !program.make_feasible()? {
        return Some(Refined::Empty);
    }
    let mut refined = Refined::Exact;
    for &member in members {
        for direction in [Rational::integer(-1), Rational::ONE] {
            let own = columns.iter().enumerate().filter(|(_, (m, _))| *m == member);
            let objective: Option<Vec<_>> =
                own.map(|(at, (_, sign))| Some((at, sign.mul(direction)?))).collect();
            if let Maximum::At(most) = program.maximum(&objective?)? {
                let extreme = origin[member].add(most.mul(direction)?)?;
                if extreme.denominator() != 1 {
                    refined = Refined::Rounded;
                }
                if direction.is_negative() {
                    bounds[member].raise(i64::try_from(extreme.ceil()).ok()?);
                } else {
                    bounds[member].lower(i64::try_from(extreme.floor()).ok()?);
                }
            }
        }
    }
    Some(refined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAMES: [&str; 4] = ["i", "j", "k", "l"];

    /// Returns the ranges under constraints written without `>= 0`.
    fn found(variables: usize, constraints: &[&str]) -> String {
        let parse = |text: &&str| {
            Affine::parse(text, |name| NAMES.iter().position(|n| *n == name)).unwrap()
        };
        let constraints: Vec<Affine> = constraints.iter().map(parse).collect();
        match ranges(variables, &constraints).unwrap() {
            Ranges::Bounded(ranges) => {
                let one =
                    |(v, (low, high)): (usize, &(i64, i64))| format!("{} {low}..={high}", NAMES[v]);
                ranges.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn what_is_found() {
        // A strided window, `I[2*i + j]` over 10 elements with j in 0..3. The last full window is i
        // = 3.
        insta::assert_snapshot!(found(2, &["2*i + j", "9 - 2*i - j", "j", "2 - j", "i", "3 - i"]), @"i 0..=3, j 0..=2");
        // Bounded only jointly: 0 <= i + j < 4 and 0 <= i - j < 3.
        insta::assert_snapshot!(found(2, &["i + j", "3 - i - j", "i - j", "2 - i + j"]), @"i 0..=2, j -1..=1");
        insta::assert_snapshot!(found(2, &["i + j", "3 - i - j", "i"]), @"Unbounded { variable: 0, above: true }");
        insta::assert_snapshot!(found(2, &["i", "3 - i", "7 - j"]), @"Unbounded { variable: 1, above: false }");
        insta::assert_snapshot!(found(2, &["i - j - 1", "j - i"]), @"Empty");
        // 2*i = 2*j + 1 has rational points but no integer ones, although both variables are
        // unbounded.
        insta::assert_snapshot!(found(2, &["2*i - 2*j - 1", "2*j - 2*i + 1"]), @"Empty");
        // 3*i = 2*j + 1 with 0 <= j < 7.
        insta::assert_snapshot!(found(2, &["3*i - 2*j - 1", "2*j + 1 - 3*i", "j", "6 - j"]), @"i 1..=3, j 1..=4");
        insta::assert_snapshot!(found(1, &["i - 9223372036854775807", "i"]), @"Unbounded { variable: 0, above: true }");
    }

    proptest! {
        /// Compares with all points of a box: no point is lost, and the ends are within the
        /// rational polytope.
        #[test]
        fn ranges_hold_every_point(
            rows in prop::collection::vec((prop::array::uniform3(-3..4i64), -6..7i64), 0..5),
            size in prop::array::uniform3(1..6i64),
        ) {
            let mut constraints = Vec::new();
            for (v, size) in size.iter().enumerate() {
                constraints.push(Affine::var(v));
                constraints.push(Affine::new([(v, -1)], size - 1).unwrap());
            }
            constraints.extend(rows.iter().map(|(a, c)| Affine::new(a.iter().copied().enumerate(), *c).unwrap()));
            let mut hull: Option<[(i64, i64); 3]> = None;
            for at in 0..size.iter().product::<i64>() {
                let point = [at % size[0], at / size[0] % size[1], at / size[0] / size[1]];
                if constraints.iter().all(|c| c.evaluate(&point).unwrap() >= 0) {
                    let grown = hull.unwrap_or(point.map(|x| (x, x)));
                    hull = Some(std::array::from_fn(|v| (grown[v].0.min(point[v]), grown[v].1.max(point[v]))));
                }
            }
            match (ranges(3, &constraints).unwrap(), hull) {
                (Ranges::Empty, hull) => prop_assert_eq!(hull, None),
                (Ranges::Bounded(found), Some(hull)) => {
                    for v in 0..3 {
                        prop_assert!(found[v].0 <= hull[v].0 && hull[v].1 <= found[v].1);
                        prop_assert!(0 <= found[v].0 && found[v].1 < size[v]);
                    }
                }
                (Ranges::Bounded(_), None) => {} // only rational points
                (unbounded, _) => prop_assert!(false, "{:?}", unbounded),
            }
        }
    }
}
