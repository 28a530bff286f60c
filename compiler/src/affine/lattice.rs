//! [`integral_points`]: the integer points at which fractional expressions are integers.

use super::{Affine, RationalAffine};

/// Returns the old variables as affine expressions of as many new ones that run over all integers.
/// The old variables then run over exactly the integer points at which all of `expressions` are
/// integers: for `i/2`, `i = 2*y`. Returns `Some(None)` if there is no such point, and `None` on
/// overflow.
///
/// A variable stays the same, under its number, if possible.
pub fn integral_points(
    variables: usize,
    expressions: &[RationalAffine],
) -> Option<Option<Vec<Affine>>> {
    let mut points: Vec<Affine> = (0..variables).map(Affine::var).collect();
    for expression in expressions {
        // The condition is `numerator ≡ 0` modulo the denominator, in the current variables.
        let condition = expression.substitute_all(&points)?;
        let Some(solution) = solve(variables, condition.numerator(), condition.denominator())?
        else {
            return Some(None);
        };
        points =
            points.iter().map(|point| point.substitute_all(&solution)).collect::<Option<_>>()?;
    }
    Some(Some(points))
}

/// Returns all solutions of `condition ≡ 0` modulo `modulus`, in the form of [`integral_points`].
fn solve(variables: usize, condition: &Affine, modulus: i64) -> Option<Option<Vec<Affine>>> {
    let mut solution: Vec<Affine> = (0..variables).map(Affine::var).collect();
    if modulus == 1 {
        return Some(Some(solution));
    }
    // With a coefficient of 1 or -1, the new variable is the quotient itself: for `(i + j)/2`,
    // `i = 2*y - j`.
    if let Some(&(variable, sign)) = condition.terms().iter().find(|(_, c)| matches!(c, 1 | -1)) {
        let quotient = Affine::new([(variable, modulus)], 0)?;
        let rest = condition.substitute(variable, &Affine::constant(0))?;
        solution[variable] = quotient.sub(&rest)?.scale(sign)?;
        return Some(Some(solution));
    }
    let mut condition = reduce(condition, modulus)?;
    // Euclid's algorithm on pairs of coefficients, until one has an inverse or only one is left:
    // substituting `j = j' - q*i`, where `j` has the smaller coefficient, subtracts q times it from
    // the coefficient of `i`.
    loop {
        let unit = condition.terms().iter().find(|&&(_, c)| inverse(c, modulus).is_some());
        if let Some(&(variable, coefficient)) = unit {
            let inverse = i128::from(inverse(coefficient, modulus)?);
            let negated =
                |c: i64| symmetric(i128::from(c) * -inverse % i128::from(modulus), modulus);
            let mut terms = vec![(variable, modulus)];
            for &(other, c) in condition.terms().iter().filter(|&&(v, _)| v != variable) {
                terms.push((other, negated(c)?));
            }
            let value = Affine::new(terms, negated(condition.offset())?)?;
            let solution =
                solution.iter().map(|s| s.substitute(variable, &value)).collect::<Option<_>>()?;
            return Some(Some(solution));
        }
        match *condition.terms() {
            [] => return Some((condition.offset() % modulus == 0).then_some(solution)),
            [(variable, coefficient)] => {
                // It is not a unit: divide by the common divisor with the modulus, which must
                // divide the constant.
                let divisor = gcd(coefficient, modulus);
                if condition.offset() % divisor != 0 {
                    return Some(None);
                }
                let one =
                    Affine::new([(variable, coefficient / divisor)], condition.offset() / divisor)?;
                let Some(inner) = solve(variables, &one, modulus / divisor)? else {
                    return Some(None);
                };
                let solution =
                    solution.iter().map(|s| s.substitute_all(&inner)).collect::<Option<_>>()?;
                return Some(Some(solution));
            }
            [(a, x), (b, y), ..] => {
                let (large, small, quotient) =
                    if x.abs() >= y.abs() { (a, b, x / y) } else { (b, a, y / x) };
                let step = Affine::new([(small, 1), (large, quotient.checked_neg()?)], 0)?;
                condition = reduce(&condition.substitute(small, &step)?, modulus)?;
                solution =
                    solution.iter().map(|s| s.substitute(small, &step)).collect::<Option<_>>()?;
            }
        }
    }
}

/// Returns an equivalent condition modulo `modulus` with the least coefficients.
fn reduce(condition: &Affine, modulus: i64) -> Option<Affine> {
    let small = |c: i64| symmetric(i128::from(c), modulus);
    let terms = condition.terms().iter().map(|&(v, c)| Some((v, small(c)?)));
    Affine::new(terms.collect::<Option<Vec<_>>>()?, small(condition.offset())?)
}

/// Returns the representative of `value` in `-modulus/2 < r <= modulus/2`.
fn symmetric(value: i128, modulus: i64) -> Option<i64> {
    let modulus = i128::from(modulus);
    let rest = value.rem_euclid(modulus);
    i64::try_from(if rest > modulus / 2 { rest - modulus } else { rest }).ok()
}

fn gcd(a: i64, b: i64) -> i64 {
    // Both are at most `modulus` in absolute value, so the result fits.
    super::rational::gcd(i128::from(a), i128::from(b))
        .and_then(|g| i64::try_from(g).ok())
        .unwrap_or(1)
}

/// Returns the inverse of `value` modulo `modulus` if they are coprime.
fn inverse(value: i64, modulus: i64) -> Option<i64> {
    let modulus = i128::from(modulus);
    let (mut old, mut new) = ((modulus, 0), (i128::from(value).rem_euclid(modulus), 1));
    while new.0 != 0 {
        let quotient = old.0 / new.0;
        (old, new) = (new, (old.0 - quotient * new.0, old.1 - quotient * new.1));
    }
    if old.0 == 1 { i64::try_from(old.1.rem_euclid(modulus)).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const NAMES: [&str; 3] = ["i", "j", "k"];

    fn found(expressions: &[(&str, i64)]) -> String {
        let parse =
            |text: &str| Affine::parse(text, |name| NAMES.iter().position(|n| *n == name)).unwrap();
        let expressions: Vec<_> =
            expressions.iter().map(|&(n, d)| RationalAffine::new(&parse(n), d).unwrap()).collect();
        match integral_points(3, &expressions).unwrap() {
            Some(points) => {
                let one = |(v, p): (usize, &Affine)| {
                    format!("{} = {}", NAMES[v], p.display(|v| NAMES[v]))
                };
                points.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
            }
            None => "none".to_owned(),
        }
    }

    #[test]
    fn what_is_found() {
        insta::assert_snapshot!(found(&[("i", 2)]), @"i = 2*i, j = j, k = k");
        insta::assert_snapshot!(found(&[("i - j + 1", 2)]), @"i = 2*i + j - 1, j = j, k = k");
        insta::assert_snapshot!(found(&[("i", 2), ("i", 3)]), @"i = 6*i, j = j, k = k");
        insta::assert_snapshot!(found(&[("2*i + 3*j", 6)]), @"i = 3*i - 6*j, j = -2*i + 6*j, k = k");
        insta::assert_snapshot!(found(&[("2*i + 1", 4)]), @"none");
        insta::assert_snapshot!(found(&[("i", 2), ("i + 1", 2)]), @"none");
    }

    proptest! {
        #[test]
        fn the_points_are_the_integral_ones(
            expressions in prop::collection::vec((prop::array::uniform3(-6..7i64), -6..7i64, 1..7i64), 1..3),
        ) {
            let numerators: Vec<_> = expressions.iter().map(|(a, c, d)| {
                (Affine::new(a.iter().copied().enumerate(), *c).unwrap(), *d)
            }).collect();
            let conditions: Vec<_> = numerators.iter().map(|(n, d)| RationalAffine::new(n, *d).unwrap()).collect();
            let points = integral_points(3, &conditions).unwrap();
            let cube = |r: i64| (-r..=r).flat_map(move |i| (-r..=r).flat_map(move |j| (-r..=r).map(move |k| [i, j, k])));
            let wanted: BTreeSet<[i64; 3]> = cube(3)
                .filter(|p| numerators.iter().all(|(n, d)| n.evaluate(p).unwrap() % d == 0)).collect();
            let Some(points) = points else {
                prop_assert!(wanted.is_empty());
                return Ok(());
            };
            // Sound: the expressions are integers at every point reached.
            for new in cube(3) {
                let old: Vec<i64> = points.iter().map(|p| p.evaluate(&new).unwrap()).collect();
                prop_assert!(numerators.iter().all(|(n, d)| n.evaluate(&old).unwrap() % d == 0));
            }
            // Complete and one-to-one: the density of the lattice, one in `determinant` points, is
            // that of the solutions.
            let period = numerators.iter().map(|(_, d)| *d).product::<i64>();
            let residues = (0..period.pow(3)).filter(|at| {
                let p = [at % period, at / period % period, at / period / period];
                numerators.iter().all(|(n, d)| n.evaluate(&p).unwrap() % d == 0)
            }).count();
            let m: Vec<[i64; 3]> = points.iter().map(|p| [0, 1, 2].map(|v| p.coefficient(v))).collect();
            let determinant = m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1])
                - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
                + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
            prop_assert_eq!(determinant.unsigned_abs() as usize * residues, (period as usize).pow(3));
        }
    }
}
