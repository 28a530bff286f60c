//! Solves linear programs over the rationals exactly: the simplex method on a dictionary with
//! Bland's rule, which never cycles.

use super::rational::Rational;

/// A dictionary of non-negative variables `0..columns` and one slack variable a constraint,
/// `slack = a·x + b >= 0`.
///
/// Invariant: every variable is either in `nonbasic`, and zero at the current point, or in `basic`.
/// The row of a basic variable expresses it as an affine function of the nonbasic ones: `row[c]`
/// belongs to `nonbasic[c]`, and the last entry is the constant.
pub(super) struct Simplex {
    basic: Vec<usize>,
    nonbasic: Vec<usize>,
    rows: Vec<Vec<Rational>>,
}

pub(super) enum Maximum {
    Unbounded,
    At(Rational),
}

impl Simplex {
    /// Creates a dictionary. Each of `constraints` holds the `columns` entries of `a`, then `b`.
    pub fn new(columns: usize, constraints: Vec<Vec<Rational>>) -> Self {
        let basic = (columns..columns + constraints.len()).collect();
        Self { basic, nonbasic: (0..columns).collect(), rows: constraints }
    }

    /// Moves to a point that satisfies every constraint. Returns false if there is none, and `None`
    /// on overflow.
    ///
    /// This is the dual simplex method with a zero objective, for which every dictionary is dual
    /// feasible.
    pub fn make_feasible(&mut self) -> Option<bool> {
        loop {
            let violated = (0..self.rows.len()).filter(|&r| constant(&self.rows[r]).is_negative());
            let Some(row) = violated.min_by_key(|&r| self.basic[r]) else {
                return Some(true);
            };
            let eligible = (0..self.nonbasic.len()).filter(|&c| self.rows[row][c].is_positive());
            let Some(column) = eligible.min_by_key(|&c| self.nonbasic[c]) else {
                return Some(false);
            };
            self.pivot(row, column, None)?;
        }
    }

    /// Returns the maximum of `Σ factor * variable`. The dictionary must be feasible, and moves to
    /// the maximum. Returns `None` on overflow.
    pub fn maximum(&mut self, objective: &[(usize, Rational)]) -> Option<Maximum> {
        let mut goal = vec![Rational::ZERO; self.nonbasic.len() + 1];
        for &(variable, factor) in objective {
            if let Some(column) = self.nonbasic.iter().position(|&v| v == variable) {
                goal[column] = goal[column].add(factor)?;
            } else if let Some(row) = self.basic.iter().position(|&v| v == variable) {
                add_scaled(&mut goal, &self.rows[row], factor)?;
            }
        }
        loop {
            let rising = (0..self.nonbasic.len()).filter(|&c| goal[c].is_positive());
            let Some(column) = rising.min_by_key(|&c| self.nonbasic[c]) else {
                return Some(Maximum::At(constant(&goal)));
            };
            let mut tightest: Option<(Rational, usize)> = None;
            for (row, entries) in self.rows.iter().enumerate() {
                if entries[column].is_negative() {
                    let ratio = constant(entries).div(entries[column].neg()?)?;
                    let better = tightest
                        .is_none_or(|(least, r)| (ratio, self.basic[row]) < (least, self.basic[r]));
                    if better {
                        tightest = Some((ratio, row));
                    }
                }
            }
            let Some((_, row)) = tightest else {
                return Some(Maximum::Unbounded);
            };
            self.pivot(row, column, Some(&mut goal))?;
        }
    }

    /// Exchanges the basic variable of `row` with the nonbasic one of `column`, also in `goal`.
    fn pivot(&mut self, row: usize, column: usize, goal: Option<&mut Vec<Rational>>) -> Option<()> {
        let mut solved = std::mem::take(&mut self.rows[row]);
        let inverse = Rational::ONE.div(solved[column])?;
        let negated = inverse.neg()?;
        for entry in &mut solved {
            *entry = entry.mul(negated)?;
        }
        solved[column] = inverse;
        for entries in self.rows.iter_mut().chain(goal).filter(|entries| !entries.is_empty()) {
            let factor = std::mem::replace(&mut entries[column], Rational::ZERO);
            if !factor.is_zero() {
                add_scaled(entries, &solved, factor)?;
            }
        }
        self.rows[row] = solved;
        std::mem::swap(&mut self.basic[row], &mut self.nonbasic[column]);
        Some(())
    }
}

/// Returns the value of a row at the current point.
fn constant(row: &[Rational]) -> Rational {
    row.last().copied().unwrap_or(Rational::ZERO)
}

/// Computes `sum += factor * row`.
fn add_scaled(sum: &mut [Rational], row: &[Rational], factor: Rational) -> Option<()> {
    for (entry, value) in sum.iter_mut().zip(row) {
        if !value.is_zero() {
            *entry = entry.add(value.mul(factor)?)?;
        }
    }
    Some(())
}
