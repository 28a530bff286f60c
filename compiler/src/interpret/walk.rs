//! [`Walk`]: the points of a box in order, with affine forms kept up to date by one addition a step.

/// Visits the points of the box `0..extents[0], 0..extents[1], …`, the last variable fastest, and knows the value of
/// each form at the point. Values wrap at 64 bits; one that fits is exact whatever the others do.
pub(super) struct Walk {
    extents: Vec<usize>,
    point: Vec<usize>,
    /// `coefficients[variable][form]`
    coefficients: Vec<Vec<i64>>,
    values: Vec<i64>,
}

impl Walk {
    /// At the first point, without forms.
    pub fn new(extents: Vec<usize>) -> Walk {
        let variables = extents.len();
        Walk { extents, point: vec![0; variables], coefficients: vec![vec![]; variables], values: vec![] }
    }

    /// Adds the form `Σ coefficients[v] * v + constant`, and returns its number. The walk is at its first point.
    pub fn add_form(&mut self, coefficients: Vec<i64>, constant: i64) -> usize {
        self.coefficients.iter_mut().zip(coefficients).for_each(|(forms, coefficient)| forms.push(coefficient));
        self.values.push(constant);
        self.values.len() - 1
    }

    /// The values of the forms at this point.
    pub fn values(&self) -> &[i64] {
        &self.values
    }

    pub fn is_empty(&self) -> bool {
        self.extents.contains(&0)
    }

    /// Goes to the next point; false, and back at the first one, after the last.
    pub fn advance(&mut self) -> bool {
        for variable in (0..self.extents.len()).rev() {
            let steps =
                if self.point[variable] + 1 < self.extents[variable] { 1 } else { -(self.point[variable] as i64) };
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
