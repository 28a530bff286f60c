//! The most probable classes of a classifier.

/// Returns the `count` most probable classes with their probabilities, in descending order. Among
/// equal ones the smaller class number comes first. NaN comes last.
pub fn most_probable(probabilities: &[f64], count: usize) -> Vec<(usize, f64)> {
    let mut classes: Vec<(usize, f64)> = probabilities.iter().copied().enumerate().collect();
    let key = |p: f64| if p.is_nan() { f64::NEG_INFINITY } else { p };
    classes.sort_by(|(_, a), (_, b)| key(*b).total_cmp(&key(*a)));
    classes.truncate(count);
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order() {
        assert_eq!(
            most_probable(&[0.25, f64::NAN, 0.5, 0.25], 3),
            [(2, 0.5), (0, 0.25), (3, 0.25)]
        );
    }
}
