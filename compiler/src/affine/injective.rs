//! [`injective`]: decides whether an index map writes each place at most once.

use super::{Affine, Ranges, hermite, ranges};

/// The result of [`injective`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Injectivity {
    /// No two valid assignments write the same place.
    Yes,
    /// These two assignments write the same place.
    No(Vec<i64>, Vec<i64>),
    /// The search exceeded its budget.
    Unknown,
}

/// Maximum number of subproblems in the search for a collision.
const BUDGET: usize = 400;

/// Decides whether no two integer points of the box `extents` (inclusive ranges), at which all
/// `constraints` are `>= 0`, have equal values of all `outputs`. Returns `None` on overflow.
///
/// Independent coordinates prove it at once. Otherwise two such points p and p + d with d ≠ 0 are
/// searched exactly, as an integer program over p and d. For example, `4*i + j` with j in 0..4 has
/// none, because 4*di + dj = 0 has no other solution.
pub fn injective(
    outputs: &[Affine],
    extents: &[(i64, i64)],
    constraints: &[Affine],
) -> Option<Injectivity> {
    let variables = extents.len();
    // A variable with a single value is a constant.
    let fixed: Vec<Affine> = extents
        .iter()
        .enumerate()
        .map(|(v, &(low, high))| if low == high { Affine::constant(low) } else { Affine::var(v) })
        .collect();
    let moving = outputs.iter().map(|o| o.substitute_all(&fixed)).collect::<Option<Vec<_>>>()?;
    let sizes = vec![1; variables];
    if hermite(&moving, &sizes)?.rank == extents.iter().filter(|(low, high)| low != high).count() {
        return Some(Injectivity::Yes);
    }
    let second: Vec<Affine> = (0..variables)
        .map(|v| Affine::var(v).add(&Affine::var(variables + v)))
        .collect::<Option<_>>()?;
    let mut program = Vec::new();
    for (v, &(low, high)) in extents.iter().enumerate() {
        for point in [&Affine::var(v), &second[v]] {
            program.push(point.sub(&Affine::constant(low))?);
            program.push(Affine::constant(high).sub(point)?);
        }
    }
    for constraint in constraints {
        program.push(constraint.clone());
        program.push(constraint.substitute_all(&second)?);
    }
    for output in outputs {
        let difference = output.substitute_all(&second)?.sub(output)?;
        program.push(difference.scale(-1)?);
        program.push(difference);
    }
    let mut budget = BUDGET;
    let mut unknown = false;
    // `first` is the first coordinate in which the points differ. It is larger in the second point.
    for first in 0..variables {
        let mut case = program.clone();
        for equal in 0..first {
            case.push(Affine::new([(variables + equal, -1)], 0)?);
            case.push(Affine::var(variables + equal));
        }
        case.push(Affine::new([(variables + first, 1)], -1)?);
        match search(2 * variables, &mut case, &mut budget)? {
            Search::Point(point) => {
                let (p, d) = point.split_at(variables);
                let other =
                    p.iter().zip(d).map(|(p, d)| p.checked_add(*d)).collect::<Option<_>>()?;
                return Some(Injectivity::No(p.to_vec(), other));
            }
            Search::None => {}
            Search::GaveUp => unknown = true,
        }
    }
    Some(if unknown { Injectivity::Unknown } else { Injectivity::Yes })
}

enum Search {
    Point(Vec<i64>),
    None,
    GaveUp,
}

/// Searches an integer point where every constraint is `>= 0`, by branch and bound over the ranges.
fn search(variables: usize, constraints: &mut Vec<Affine>, budget: &mut usize) -> Option<Search> {
    if *budget == 0 {
        return Some(Search::GaveUp);
    }
    *budget -= 1;
    let found = match ranges(variables, constraints)? {
        Ranges::Empty => return Some(Search::None),
        Ranges::Unbounded { .. } => return Some(Search::GaveUp),
        Ranges::Bounded(found) => found,
    };
    let Some(variable) = found.iter().position(|(low, high)| low < high) else {
        let point: Vec<i64> = found.iter().map(|&(low, _)| low).collect();
        for constraint in constraints.iter() {
            if constraint.evaluate(&point)? < 0 {
                return Some(Search::None);
            }
        }
        return Some(Search::Point(point));
    };
    // One branch takes the lowest value, the other one all larger values.
    let (low, _) = found[variable];
    for branch in [
        Affine::new([(variable, -1)], low)?,
        Affine::new([(variable, 1)], low.checked_add(1)?.checked_neg()?)?,
    ] {
        constraints.push(branch);
        let outcome = search(variables, constraints, budget)?;
        constraints.pop();
        if !matches!(outcome, Search::None) {
            return Some(outcome);
        }
    }
    Some(Search::None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn found(outputs: &[&str], sizes: &[i64], constraints: &[&str]) -> String {
        let names = ["i", "j", "k"];
        let parse = |text: &&str| {
            Affine::parse(text, |name| names.iter().position(|n| *n == name)).unwrap()
        };
        let outputs: Vec<Affine> = outputs.iter().map(parse).collect();
        let constraints: Vec<Affine> = constraints.iter().map(parse).collect();
        let extents: Vec<_> = sizes.iter().map(|n| (0, n - 1)).collect();
        format!("{:?}", injective(&outputs, &extents, &constraints).unwrap())
    }

    #[test]
    fn what_is_found() {
        insta::assert_snapshot!(found(&["j", "i + j"], &[9, 9], &[]), @"Yes");
        insta::assert_snapshot!(found(&["4*i + j"], &[1000, 4], &[]), @"Yes");
        insta::assert_snapshot!(found(&["4*i + j"], &[1000, 5], &[]), @"No([0, 4], [1, 0])");
        insta::assert_snapshot!(found(&["k + 30*i + 6*j"], &[1000, 5, 6], &[]), @"Yes");
        insta::assert_snapshot!(found(&["i"], &[9, 2], &[]), @"No([0, 0], [0, 1])");
        insta::assert_snapshot!(found(&["i"], &[9, 1], &[]), @"Yes");
        // The constraint allows j = 4 only at the last i.
        insta::assert_snapshot!(found(&["4*i + j"], &[3, 5], &["i - 2*j + 6"]), @"Yes");
    }

    proptest! {
        #[test]
        fn agrees_with_enumeration(
            rows in prop::collection::vec((prop::array::uniform3(-4..5i64), -2..3i64), 0..3),
            limit in (prop::array::uniform3(-2..3i64), 0..6i64),
            sizes in prop::array::uniform3(1..5i64),
        ) {
            let affine = |(a, c): &([i64; 3], i64)| Affine::new(a.iter().copied().enumerate(), *c).unwrap();
            let outputs: Vec<Affine> = rows.iter().map(affine).collect();
            let limit = affine(&limit);
            let mut places: BTreeMap<Vec<i64>, u32> = BTreeMap::new();
            for at in 0..sizes.iter().product::<i64>() {
                let point = [at % sizes[0], at / sizes[0] % sizes[1], at / sizes[0] / sizes[1]];
                if limit.evaluate(&point).unwrap() >= 0 {
                    *places.entry(outputs.iter().map(|o| o.evaluate(&point).unwrap()).collect()).or_default() += 1;
                }
            }
            let once = places.values().all(|&n| n == 1);
            match injective(&outputs, &sizes.map(|n| (0, n - 1)), std::slice::from_ref(&limit)).unwrap() {
                Injectivity::Yes => prop_assert!(once),
                Injectivity::No(p, q) => {
                    prop_assert!(p != q && limit.evaluate(&p).unwrap() >= 0 && limit.evaluate(&q).unwrap() >= 0);
                    prop_assert!(outputs.iter().all(|o| o.evaluate(&p) == o.evaluate(&q)));
                    for point in [p, q] {
                        prop_assert!(point.iter().zip(sizes).all(|(x, n)| (0..n).contains(x)));
                    }
                }
                Injectivity::Unknown => prop_assert!(false, "these are small"),
            }
        }
    }
}
