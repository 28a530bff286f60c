//! [`Walk`]: the points of a box in order, with affine forms updated by one addition a step.

/// Visits the points of the box `0..extents[0], 0..extents[1], …`, the last variable fastest, and
/// keeps the value of each form at the current point. Values wrap at 64 bits, but a value that fits
/// is exact.
pub(super) struct Walk {
    extents: Vec<usize>,
    point: Vec<usize>,
    /// Indexed as `coefficients[variable][form]`.
    coefficients: Vec<Vec<i64>>,
    values: Vec<i64>,
}

impl Walk {
    /// Returns a walk at its first point, without forms.
    pub fn new(extents: Vec<usize>) -> Walk {
        let variables = extents.len();
        Walk {
            extents,
            point: vec![0; variables],
            coefficients: vec![vec![]; variables],
            values: vec![],
        }
    }

    /// Adds the form `Σ coefficients[v] * v + constant` and returns its number. The walk must be at
    /// its first point.
    pub fn add_form(&mut self, coefficients: Vec<i64>, constant: i64) -> usize {
        self.coefficients
            .iter_mut()
            .zip(coefficients)
            .for_each(|(forms, coefficient)| forms.push(coefficient));
        self.values.push(constant);
        self.values.len() - 1
    }

    /// Returns the values of the forms at the current point.
    pub fn values(&self) -> &[i64] {
        &self.values
    }

    pub fn is_empty(&self) -> bool {
        self.extents.contains(&0)
    }

    /// Moves to the next point. After the last one, returns false and moves back to the first.
    pub fn advance(&mut self) -> bool {
        for variable in (0..self.extents.len()).rev() {
            let steps = if self.point[variable] + 1 < self.extents[variable] {
                1
            } else {
                -(self.point[variable] as i64)
            };
            for (value, coefficient) in self.values.iter_mut().zip(&self.coefficients[variable]) {
                *value = value.wrapping_add(coefficient.wrapping_mul(steps));
            }
            self.point[variable] = self.point[variable].wrapping_add_signed(steps as isize);
            if steps == 1 {
                return true;
            }
        }
        false
    }
}
