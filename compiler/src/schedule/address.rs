//! Addresses and conditions of a point: what of them is named before loops, and how they are
//! computed.
//!
//! All values are i32, and their sums and products wrap. No buffer has 2^31 elements, so the number
//! of an element fits, and wrapping gives it in any order of its terms. Conditions are computed in
//! the same way: those whose values do not fit an i32 are wrong.

use crate::affine::Affine;
use crate::kernel::Expr;

/// The quotient of an expression and the lanes of a buffer: a named part, which includes the
/// distance from the first point of a block, a multiple of that point's position, and the rest.
#[derive(Clone)]
pub(super) struct Prepared {
    pub whole: Affine,
    pub lanes: u8,
    pub part: Expr,
    pub stride: i64,
    pub rest: Affine,
}

/// Returns the product of a variable and its coefficient, divided by the lanes of a buffer.
pub(super) fn term(value: Expr, coefficient: i64, lanes: u8) -> Expr {
    let width = lanes as i64;
    match coefficient % width {
        0 => value * (coefficient / width) as i32,
        _ => value.quotient(lanes as u32),
    }
}

/// Joins conditions `a >= 0` and `most - a >= 0`. Returns each with `most`, or none if it is alone.
pub(super) fn ranges<'c>(
    conditions: impl IntoIterator<Item = &'c Affine>,
) -> Vec<(&'c Affine, Option<i64>)> {
    let mut ranges: Vec<(&Affine, Option<i64>)> = Vec::new();
    for condition in conditions {
        let most = |other: &Affine| {
            let sum = other.add(condition)?.as_constant()?;
            (0..=i32::MAX as i64).contains(&sum).then_some(sum)
        };
        let joined = ranges
            .iter_mut()
            .filter(|(_, known)| known.is_none())
            .find_map(|(other, known)| Some((known, most(other)?)));
        match joined {
            Some((known, most)) => *known = Some(most),
            None => ranges.push((condition, None)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_hold_where_their_conditions_do(
            lines in prop::collection::vec((-2..=2i64, -2..=2i64, -5..=9i64), 0..6),
            point in [-6..=6i64, -6..=6i64],
        ) {
            let line = |(x, y, constant)| Affine::new([(0, x), (1, y)], constant).unwrap();
            let conditions: Vec<Affine> = lines.into_iter().map(line).collect();
            let at = |affine: &Affine| affine.evaluate(&point).unwrap();
            let hold = conditions.iter().all(|condition| at(condition) >= 0);
            let mut joined = ranges(&conditions).into_iter();
            let in_range = joined.all(|(a, most)| (0..=most.unwrap_or(i64::MAX)).contains(&at(a)));
            prop_assert_eq!(hold, in_range);
        }
    }
}
