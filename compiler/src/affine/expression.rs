//! [`Affine`]: an integer affine expression over numbered variables.

use std::fmt;

/// `Σ coefficient * variable + constant`, exact in 64-bit integers.
///
/// The terms are sorted by variable and no coefficient is zero, so equal expressions are equal
/// values. Operations that may leave the range of `i64` return `None` in that case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "pack", serde(try_from = "Parts", into = "Parts"))]
pub struct Affine {
    terms: Vec<(usize, i64)>,
    constant: i64,
}

/// The terms and the constant of an expression.
#[cfg(feature = "pack")]
type Parts = (Vec<(usize, i64)>, i64);

#[cfg(feature = "pack")]
impl From<Affine> for Parts {
    fn from(affine: Affine) -> Parts {
        (affine.terms, affine.constant)
    }
}

#[cfg(feature = "pack")]
impl TryFrom<Parts> for Affine {
    type Error = &'static str;

    fn try_from((terms, constant): Parts) -> Result<Affine, &'static str> {
        Affine::new(terms, constant).ok_or("an affine expression overflows")
    }
}

impl Affine {
    /// Returns the constant expression `value`.
    pub fn constant(value: i64) -> Self {
        Self { terms: Vec::new(), constant: value }
    }

    /// Returns the expression that is variable number `variable`.
    pub fn var(variable: usize) -> Self {
        Self { terms: vec![(variable, 1)], constant: 0 }
    }

    /// Returns the sum of `constant` and `terms`, which may be in any order and repeat variables.
    pub fn new(terms: impl IntoIterator<Item = (usize, i64)>, constant: i64) -> Option<Self> {
        let mut terms: Vec<_> = terms.into_iter().collect();
        terms.sort_by_key(|&(variable, _)| variable);
        let mut merged: Vec<(usize, i64)> = Vec::with_capacity(terms.len());
        for (variable, coefficient) in terms {
            match merged.last_mut() {
                Some((last, sum)) if *last == variable => *sum = sum.checked_add(coefficient)?,
                _ => merged.push((variable, coefficient)),
            }
        }
        merged.retain(|&(_, coefficient)| coefficient != 0);
        Some(Self { terms: merged, constant })
    }

    /// Returns the terms, sorted by variable, with nonzero coefficients.
    #[inline]
    pub fn terms(&self) -> &[(usize, i64)] {
        &self.terms
    }

    /// Returns the constant term.
    #[inline]
    pub fn offset(&self) -> i64 {
        self.constant
    }

    /// Returns the coefficient of `variable`, or zero if it does not occur.
    pub fn coefficient(&self, variable: usize) -> i64 {
        match self.terms.binary_search_by_key(&variable, |&(v, _)| v) {
            Ok(at) => self.terms[at].1,
            Err(_) => 0,
        }
    }

    /// Returns the variables that occur, in ascending order.
    pub fn variables(&self) -> impl Iterator<Item = usize> + '_ {
        self.terms.iter().map(|&(variable, _)| variable)
    }

    /// Returns the value if no variable occurs.
    pub fn as_constant(&self) -> Option<i64> {
        self.is_constant().then_some(self.constant)
    }

    /// Returns the variable if the expression is a single variable with coefficient 1.
    pub fn as_variable(&self) -> Option<usize> {
        match (self.terms.as_slice(), self.constant) {
            ([(variable, 1)], 0) => Some(*variable),
            _ => None,
        }
    }

    /// Returns whether no variable occurs.
    pub fn is_constant(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns `self + other`.
    pub fn add(&self, other: &Self) -> Option<Self> {
        let constant = self.constant.checked_add(other.constant)?;
        Self::new(self.terms.iter().chain(&other.terms).copied(), constant)
    }

    /// Returns `self - other`.
    pub fn sub(&self, other: &Self) -> Option<Self> {
        self.add(&other.scale(-1)?)
    }

    /// Returns `factor * self`.
    pub fn scale(&self, factor: i64) -> Option<Self> {
        let mut terms = Vec::with_capacity(self.terms.len());
        if factor != 0 {
            for &(variable, coefficient) in &self.terms {
                terms.push((variable, coefficient.checked_mul(factor)?));
            }
        }
        Some(Self { terms, constant: self.constant.checked_mul(factor)? })
    }

    /// Replaces `variable` by `value`.
    pub fn substitute(&self, variable: usize, value: &Self) -> Option<Self> {
        let coefficient = self.coefficient(variable);
        if coefficient == 0 {
            return Some(self.clone());
        }
        let rest = self.terms.iter().copied().filter(|&(v, _)| v != variable);
        Self { terms: rest.collect(), constant: self.constant }.add(&value.scale(coefficient)?)
    }

    /// Replaces every variable `v` by `values[v]`. Returns `None` on overflow or if `values` lacks
    /// a variable.
    pub fn substitute_all(&self, values: &[Self]) -> Option<Self> {
        let mut sum = Self::constant(self.constant);
        for &(variable, coefficient) in &self.terms {
            sum = sum.add(&values.get(variable)?.scale(coefficient)?)?;
        }
        Some(sum)
    }

    /// Renames every variable `v` to `f(v)`. Terms with the same new variable are added.
    pub fn map_variables(&self, mut f: impl FnMut(usize) -> usize) -> Option<Self> {
        Self::new(self.terms.iter().map(|&(v, c)| (f(v), c)), self.constant)
    }

    /// Returns the value at `point`, where variable `v` is `point[v]`. Returns `None` on overflow
    /// or if `point` lacks a variable.
    pub fn evaluate(&self, point: &[i64]) -> Option<i64> {
        // A sum of fewer than 2⁶³ products fits 128 bits, so only the result needs a check.
        let mut sum = i128::from(self.constant);
        for &(variable, coefficient) in &self.terms {
            sum = sum.checked_add(i128::from(coefficient) * i128::from(*point.get(variable)?))?;
        }
        i64::try_from(sum).ok()
    }

    /// Returns the least and greatest value where variable `v` runs over the inclusive range
    /// `ranges[v]`.
    pub fn bounds(&self, ranges: &[(i64, i64)]) -> Option<(i64, i64)> {
        let (mut low, mut high) = (i128::from(self.constant), i128::from(self.constant));
        for &(variable, coefficient) in &self.terms {
            let &(first, last) = ranges.get(variable)?;
            let (a, b) = (
                i128::from(coefficient) * i128::from(first),
                i128::from(coefficient) * i128::from(last),
            );
            low = low.checked_add(a.min(b))?;
            high = high.checked_add(a.max(b))?;
        }
        Some((i64::try_from(low).ok()?, i64::try_from(high).ok()?))
    }

    /// Returns the text form, such as `2*i + j - 1`, with `name(v)` for variable `v`.
    pub fn display<N: fmt::Display>(&self, name: impl Fn(usize) -> N) -> impl fmt::Display {
        Text { affine: self, name }
    }

    /// Parses the text form, with terms in any order; `variable(name)` returns the number of a
    /// name. Errors are one sentence.
    pub fn parse(
        text: &str,
        mut variable: impl FnMut(&str) -> Option<usize>,
    ) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not an affine expression such as `2*i + j - 1`");
        let overflow = || format!("`{text}` does not fit 64-bit integers");
        let mut sum = Self::default();
        let mut rest = text.trim();
        let mut first = true;
        while first || !rest.is_empty() {
            let negative = rest.starts_with('-');
            if negative || (!first && rest.starts_with('+')) {
                rest = rest[1..].trim_start();
            } else if !first {
                return Err(wrong());
            }
            first = false;
            let end = rest.find(['+', '-']).unwrap_or(rest.len());
            let (term, after) = rest.split_at(end);
            rest = after;
            let (number, name) = match term.split_once('*') {
                Some((number, name)) => (number.trim(), name.trim()),
                None if term.trim().starts_with(|c: char| c.is_ascii_digit()) => (term.trim(), ""),
                None => ("1", term.trim()),
            };
            if !number.starts_with(|c: char| c.is_ascii_digit())
                || (name.is_empty() && term.trim() != number)
            {
                return Err(wrong());
            }
            let sign = if negative { "-" } else { "" };
            let number: i64 = format!("{sign}{number}").parse().map_err(|_| wrong())?;
            let term = if name.is_empty() {
                Self::constant(number)
            } else {
                let variable =
                    variable(name).ok_or_else(|| format!("`{name}` is not a variable here"))?;
                Self::new([(variable, number)], 0).ok_or_else(overflow)?
            };
            sum = sum.add(&term).ok_or_else(overflow)?;
        }
        Ok(sum)
    }
}

struct Text<'a, F> {
    affine: &'a Affine,
    name: F,
}

impl<N: fmt::Display, F: Fn(usize) -> N> fmt::Display for Text<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, &(variable, coefficient)) in self.affine.terms.iter().enumerate() {
            match (at, coefficient < 0) {
                (0, true) => write!(f, "-")?,
                (0, false) => {}
                (_, true) => write!(f, " - ")?,
                (_, false) => write!(f, " + ")?,
            }
            if coefficient.unsigned_abs() != 1 {
                write!(f, "{}*", coefficient.unsigned_abs())?;
            }
            write!(f, "{}", (self.name)(variable))?;
        }
        let constant = self.affine.constant;
        match (self.affine.terms.is_empty(), constant) {
            (true, _) => write!(f, "{constant}"),
            (false, 0) => Ok(()),
            (false, _) => {
                let sign = if constant < 0 { '-' } else { '+' };
                write!(f, " {sign} {}", constant.unsigned_abs())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAMES: [&str; 3] = ["i", "j", "k"];

    fn parse(text: &str) -> Result<Affine, String> {
        Affine::parse(text, |name| NAMES.iter().position(|n| *n == name))
    }

    fn round_trip(text: &str) -> String {
        match parse(text) {
            Ok(affine) => affine.display(|v| NAMES[v]).to_string(),
            Err(message) => message,
        }
    }

    #[test]
    fn the_text_form() {
        insta::assert_snapshot!(round_trip("2*i + j - 1"), @"2*i + j - 1");
        insta::assert_snapshot!(round_trip(" 3 - k- 2 * i"), @"-2*i - k + 3");
        insta::assert_snapshot!(round_trip("j - j"), @"0");
        insta::assert_snapshot!(round_trip("-9223372036854775808"), @"-9223372036854775808");
        insta::assert_snapshot!(round_trip("i*j"), @"`i*j` is not an affine expression such as `2*i + j - 1`");
        insta::assert_snapshot!(round_trip(""), @"`` is not an affine expression such as `2*i + j - 1`");
        insta::assert_snapshot!(round_trip("i + q"), @"`q` is not a variable here");
        insta::assert_snapshot!(round_trip("i j"), @"`i j` is not a variable here");
    }

    #[test]
    fn overflow_is_none() {
        let large = Affine::constant(i64::MAX);
        assert_eq!(large.add(&Affine::constant(1)), None);
        assert_eq!(large.scale(2), None);
        assert_eq!(Affine::constant(i64::MIN).scale(-1), None);
        assert_eq!(Affine::var(0).bounds(&[(i64::MIN, i64::MAX)]), Some((i64::MIN, i64::MAX)));
        assert_eq!(Affine::var(0).scale(2).and_then(|a| a.evaluate(&[i64::MAX])), None);
    }

    fn affine() -> impl Strategy<Value = Affine> {
        (prop::collection::vec((0..3usize, -9..10i64), 0..5), -9..10i64)
            .prop_map(|(terms, constant)| Affine::new(terms, constant).unwrap())
    }

    proptest! {
        #[test]
        fn text_parses_back(a in affine()) {
            prop_assert_eq!(parse(&a.display(|v| NAMES[v]).to_string()), Ok(a));
        }

        #[test]
        fn operations_commute_with_evaluation(a in affine(), b in affine(), p in prop::array::uniform3(-9..10i64)) {
            let (x, y) = (a.evaluate(&p).unwrap(), b.evaluate(&p).unwrap());
            prop_assert_eq!(a.add(&b).unwrap().evaluate(&p), Some(x + y));
            prop_assert_eq!(a.sub(&b).unwrap().evaluate(&p), Some(x - y));
            prop_assert_eq!(a.scale(y).unwrap().evaluate(&p), Some(x * y));
            let mut q = p;
            q[1] = y;
            prop_assert_eq!(a.substitute(1, &b).unwrap().evaluate(&p), a.evaluate(&q));
            let swap = [Affine::var(0), b, Affine::var(2)];
            prop_assert_eq!(a.substitute_all(&swap).unwrap().evaluate(&p), a.evaluate(&q));
            let ranges = [(p[0] - 1, p[0] + 2), (p[1], p[1]), (p[2] - 3, p[2])];
            let (low, high) = a.bounds(&ranges).unwrap();
            prop_assert!(low <= x && x <= high);
        }
    }
}
