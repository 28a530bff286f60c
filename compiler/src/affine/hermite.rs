//! [`hermite`]: variables that number the places an index map writes, and variables that reduce
//! into one place.

use super::Affine;

/// A change of integer variables that separates places from reduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hermite {
    /// Each old variable in terms of as many new ones: a bijection of the integer points.
    pub old: Vec<Affine>,
    /// Number of leading new variables that determine the place, one-to-one. The other ones do not
    /// occur in it.
    pub rank: usize,
}

/// Returns the Hermite normal form of the index map `outputs` over the variables
/// `0..extents.len()`, or `None` on overflow.
///
/// - The first new variables belong to independent coordinates of `outputs`, in order. Each has a
///   positive coefficient in its coordinate. The coefficient is 1, and no other variable occurs, if
///   the coefficients left by the coordinates eliminated before (single variables come first) have
///   no common divisor.
/// - A coordinate that is a single variable with coefficient 1 keeps that variable.
/// - If there is a choice, variables with larger extents go to coordinates, so that the reduction
///   runs over smaller ones: for `i + j` with i in 0..100 and j in 0..3, it runs over `j`.
pub fn hermite(outputs: &[Affine], extents: &[i64]) -> Option<Hermite> {
    let variables = extents.len();
    // Each column is a new variable: its coefficients in the old variables, and in the coordinates.
    let mut columns = Vec::with_capacity(variables);
    for v in 0..variables {
        let mut old = vec![0; variables];
        old[v] = 1;
        columns.push(Column {
            old,
            places: outputs.iter().map(|output| output.coefficient(v)).collect(),
        });
    }
    let mut free: Vec<usize> = (0..variables).collect();
    let mut pivots: Vec<(usize, usize)> = Vec::new();
    // Coordinates with a single variable come first, before elimination mixes variables.
    let mut order: Vec<usize> = (0..outputs.len()).collect();
    order.sort_by_key(|&row| !matches!(outputs[row].terms(), [(_, 1 | -1)]));
    for row in order {
        let Some(pivot) = eliminate(&mut columns, &free, row, extents)? else {
            continue;
        };
        if columns[pivot].places[row] < 0 {
            columns[pivot].negate()?;
        }
        let pivoted = columns[pivot].clone();
        for &(_, earlier) in &pivots {
            let quotient = columns[earlier].places[row].div_euclid(pivoted.places[row]);
            columns[earlier].subtract(&pivoted, quotient)?;
        }
        free.retain(|&c| c != pivot);
        pivots.push((row, pivot));
    }
    pivots.sort_unstable();
    let order: Vec<usize> = pivots.iter().map(|&(_, column)| column).chain(free).collect();
    let old = (0..variables)
        .map(|v| Affine::new(order.iter().map(|&c| columns[c].old[v]).enumerate(), 0));
    Some(Hermite { old: old.collect::<Option<_>>()?, rank: pivots.len() })
}

#[derive(Clone)]
struct Column {
    old: Vec<i64>,
    places: Vec<i64>,
}

impl Column {
    fn subtract(&mut self, other: &Self, factor: i64) -> Option<()> {
        let entries = self.old.iter_mut().chain(&mut self.places);
        for (entry, value) in entries.zip(other.old.iter().chain(&other.places)) {
            *entry = entry.checked_sub(value.checked_mul(factor)?)?;
        }
        Some(())
    }

    fn negate(&mut self) -> Option<()> {
        for entry in self.old.iter_mut().chain(&mut self.places) {
            *entry = entry.checked_neg()?;
        }
        Some(())
    }
}

/// Applies Euclid's algorithm to the entries of `row` until at most one of the `free` columns has a
/// nonzero entry. Returns that column.
fn eliminate(
    columns: &mut [Column],
    free: &[usize],
    row: usize,
    extents: &[i64],
) -> Option<Option<usize>> {
    loop {
        let nonzero: Vec<usize> =
            free.iter().copied().filter(|&c| columns[c].places[row] != 0).collect();
        let size = |&c: &usize| (columns[c].places[row].unsigned_abs(), -i128::from(extents[c]));
        let Some(pivot) = nonzero.iter().copied().min_by_key(size) else {
            return Some(None);
        };
        if nonzero.len() == 1 {
            return Some(Some(pivot));
        }
        let pivoted = columns[pivot].clone();
        for column in nonzero.into_iter().filter(|&c| c != pivot) {
            let quotient = columns[column].places[row].checked_div(pivoted.places[row])?;
            columns[column].subtract(&pivoted, quotient)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAMES: [&str; 4] = ["i", "j", "k", "l"];

    fn found(outputs: &[&str], extents: &[i64]) -> String {
        let parse = |text: &&str| {
            Affine::parse(text, |name| NAMES.iter().position(|n| *n == name)).unwrap()
        };
        let outputs: Vec<Affine> = outputs.iter().map(parse).collect();
        let form = hermite(&outputs, extents).unwrap();
        let new = |v: usize| {
            if v < form.rank { format!("x{v}") } else { format!("r{}", v - form.rank) }
        };
        let old =
            form.old.iter().enumerate().map(|(v, a)| format!("{} = {}", NAMES[v], a.display(new)));
        let places =
            outputs.iter().map(|o| o.substitute_all(&form.old).unwrap().display(new).to_string());
        format!(
            "{} -> {}",
            old.collect::<Vec<_>>().join(", "),
            places.collect::<Vec<_>>().join(", ")
        )
    }

    #[test]
    fn what_is_found() {
        insta::assert_snapshot!(found(&["i", "k"], &[4, 4, 4]), @"i = x0, j = r0, k = x1 -> x0, x1");
        insta::assert_snapshot!(found(&["i + j"], &[100, 3]), @"i = x0 - r0, j = r0 -> x0");
        insta::assert_snapshot!(found(&["i + j", "j"], &[8, 8]), @"i = x0 - x1, j = x1 -> x0, x1");
        insta::assert_snapshot!(found(&["2*i + j"], &[8, 8]), @"i = r0, j = x0 - 2*r0 -> x0");
        insta::assert_snapshot!(found(&["2*i", "0", "i + 3*j"], &[8, 8]), @"i = x0, j = x1 -> 2*x0, 0, x0 + 3*x1");
        insta::assert_snapshot!(found(&["6*i + 10*j + 15*k"], &[8, 8, 8]), @"i = x0 + 5*r0 - 5*r1, j = x0 - 3*r1, k = -x0 - 2*r0 + 4*r1 -> x0");
        insta::assert_snapshot!(found(&["3 - i"], &[8]), @"i = -x0 -> x0 + 3");
    }

    proptest! {
        #[test]
        fn laws(rows in prop::collection::vec(prop::array::uniform4(-4..5i64), 0..4)) {
            let affine = |a: &[i64; 4]| Affine::new(a.iter().copied().enumerate(), 0).unwrap();
            let outputs: Vec<Affine> = rows.iter().map(affine).collect();
            let form = hermite(&outputs, &[9, 8, 7, 6]).unwrap();
            // A bijection of the integer points has determinant 1 or -1.
            let m: Vec<Vec<i64>> = form.old.iter().map(|a| (0..4).map(|v| a.coefficient(v)).collect()).collect();
            prop_assert_eq!(determinant(&m).abs(), 1);
            // Reduction variables do not occur in the place, and the others have full column rank.
            let places: Vec<Affine> = outputs.iter().map(|o| o.substitute_all(&form.old).unwrap()).collect();
            prop_assert!(places.iter().all(|p| p.variables().all(|v| v < form.rank)));
            prop_assert_eq!(form.rank, rank(&rows));
        }
    }

    fn determinant(m: &[Vec<i64>]) -> i64 {
        if m.is_empty() {
            return 1;
        }
        let minor = |c: usize| -> Vec<Vec<i64>> {
            m[1..]
                .iter()
                .map(|row| {
                    row.iter().enumerate().filter(|(at, _)| *at != c).map(|(_, x)| *x).collect()
                })
                .collect()
        };
        (0..m.len())
            .map(|c| m[0][c] * determinant(&minor(c)) * if c % 2 == 0 { 1 } else { -1 })
            .sum()
    }

    /// Returns the rank by elimination over the integers, without division.
    fn rank(rows: &[[i64; 4]]) -> usize {
        let mut rows: Vec<[i128; 4]> = rows.iter().map(|r| r.map(i128::from)).collect();
        let mut rank = 0;
        for c in 0..4 {
            let Some(at) = (rank..rows.len()).find(|&r| rows[r][c] != 0) else {
                continue;
            };
            rows.swap(rank, at);
            let pivot = rows[rank];
            for row in &mut rows[rank + 1..] {
                let factor = row[c];
                *row = std::array::from_fn(|v| row[v] * pivot[c] - pivot[v] * factor);
            }
            rank += 1;
        }
        rank
    }
}
