//! [`Rational`] numbers, and [`RationalAffine`]: an affine expression over a denominator.

use super::Affine;
use std::cmp::Ordering;

/// A fraction in lowest terms with a positive denominator. Operations return `None` on overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Rational {
    numerator: i128,
    denominator: i128,
}

/// Returns the greatest common divisor, or 0 for 0 and 0. `None` only if the result is 2¹²⁷.
pub(super) fn gcd(a: i128, b: i128) -> Option<i128> {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        // Division of 64-bit numbers is many times faster, and nearly all numbers fit.
        (a, b) = match (u64::try_from(a), u64::try_from(b)) {
            (Ok(x), Ok(y)) => (b, u128::from(x % y)),
            _ => (b, a % b),
        };
    }
    i128::try_from(a).ok()
}

impl Rational {
    pub const ZERO: Self = Self { numerator: 0, denominator: 1 };
    pub const ONE: Self = Self { numerator: 1, denominator: 1 };

    /// Returns `numerator / denominator`, or `None` on overflow or if the denominator is zero.
    pub fn new(numerator: i128, denominator: i128) -> Option<Self> {
        let divisor = gcd(numerator, denominator)?;
        let divisor = if denominator < 0 { -divisor } else { divisor };
        if denominator == 0 {
            return None;
        }
        Some(Self {
            numerator: numerator.checked_div(divisor)?,
            denominator: denominator.checked_div(divisor)?,
        })
    }

    pub fn integer(value: i64) -> Self {
        Self { numerator: i128::from(value), denominator: 1 }
    }

    /// Returns the denominator, which is positive.
    pub fn denominator(self) -> i128 {
        self.denominator
    }

    pub fn add(self, other: Self) -> Option<Self> {
        if self.denominator == other.denominator {
            let numerator = self.numerator.checked_add(other.numerator)?;
            if self.denominator == 1 {
                return Some(Self { numerator, denominator: 1 });
            }
            return Self::new(numerator, self.denominator);
        }
        let a = self.numerator.checked_mul(other.denominator)?;
        let b = other.numerator.checked_mul(self.denominator)?;
        Self::new(a.checked_add(b)?, self.denominator.checked_mul(other.denominator)?)
    }

    pub fn neg(self) -> Option<Self> {
        Some(Self { numerator: self.numerator.checked_neg()?, ..self })
    }

    pub fn sub(self, other: Self) -> Option<Self> {
        self.add(other.neg()?)
    }

    pub fn mul(self, other: Self) -> Option<Self> {
        let numerator = self.numerator.checked_mul(other.numerator)?;
        let denominator = self.denominator.checked_mul(other.denominator)?;
        if denominator == 1 {
            Some(Self { numerator, denominator })
        } else {
            Self::new(numerator, denominator)
        }
    }

    /// Returns `self / other`, or `None` on overflow or if `other` is zero.
    pub fn div(self, other: Self) -> Option<Self> {
        self.mul(Self::new(other.denominator, other.numerator)?)
    }

    /// Rounds towards negative infinity.
    pub fn floor(self) -> i128 {
        self.numerator.div_euclid(self.denominator)
    }

    /// Rounds towards positive infinity.
    pub fn ceil(self) -> i128 {
        self.floor() + i128::from(self.denominator != 1)
    }

    pub fn is_zero(self) -> bool {
        self.numerator == 0
    }

    pub fn is_negative(self) -> bool {
        self.numerator < 0
    }

    pub fn is_positive(self) -> bool {
        self.numerator > 0
    }
}

impl PartialOrd for Rational {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rational {
    /// Compares the integer parts, and if they are equal the reciprocals of the fractional parts.
    /// This cannot overflow.
    fn cmp(&self, other: &Self) -> Ordering {
        let (mut a, mut b) = (*self, *other);
        let mut swapped = false;
        loop {
            let order = a.floor().cmp(&b.floor());
            let rest = |r: Self| r.numerator.rem_euclid(r.denominator);
            let order = match (order, rest(a), rest(b)) {
                (Ordering::Equal, 0, y) => 0.cmp(&y),
                (Ordering::Equal, x, 0) => x.cmp(&0),
                (Ordering::Equal, x, y) => {
                    a = Self { numerator: a.denominator, denominator: x };
                    b = Self { numerator: b.denominator, denominator: y };
                    swapped = !swapped;
                    continue;
                }
                (unequal, ..) => unequal,
            };
            return if swapped { order.reverse() } else { order };
        }
    }
}

/// `numerator / denominator` in lowest terms, with an integer affine expression as the numerator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RationalAffine {
    numerator: Affine,
    denominator: i64,
}

impl RationalAffine {
    /// Returns `numerator / denominator`, or `None` on overflow or if the denominator is zero.
    pub fn new(numerator: &Affine, denominator: i64) -> Option<Self> {
        let mut divisor = i128::from(denominator);
        for value in numerator.terms().iter().map(|&(_, c)| c).chain([numerator.offset()]) {
            divisor = gcd(divisor, i128::from(value))?;
        }
        let divisor = i64::try_from(divisor).ok()?.checked_mul(denominator.signum())?;
        let divided = numerator.terms().iter().map(|&(v, c)| Some((v, c.checked_div(divisor)?)));
        Some(Self {
            numerator: Affine::new(
                divided.collect::<Option<Vec<_>>>()?,
                numerator.offset().checked_div(divisor)?,
            )?,
            denominator: denominator.checked_div(divisor)?,
        })
    }

    /// Returns the expression times the denominator.
    pub fn numerator(&self) -> &Affine {
        &self.numerator
    }

    /// Returns the denominator, which is positive.
    pub fn denominator(&self) -> i64 {
        self.denominator
    }

    /// Returns the expression if its coefficients are integers.
    pub fn as_affine(&self) -> Option<&Affine> {
        (self.denominator == 1).then_some(&self.numerator)
    }

    /// Returns the sum, or `None` on overflow.
    pub fn add(&self, other: &Self) -> Option<Self> {
        let (a, b) =
            (self.numerator.scale(other.denominator)?, other.numerator.scale(self.denominator)?);
        Self::new(&a.add(&b)?, self.denominator.checked_mul(other.denominator)?)
    }

    /// Returns `self * numerator / denominator`.
    pub fn scale(&self, numerator: i64, denominator: i64) -> Option<Self> {
        Self::new(&self.numerator.scale(numerator)?, self.denominator.checked_mul(denominator)?)
    }

    /// Replaces every variable `v` by `values[v]`. Returns `None` on overflow or if `values` lacks
    /// a variable.
    pub fn substitute_all(&self, values: &[Affine]) -> Option<Self> {
        Self::new(&self.numerator.substitute_all(values)?, self.denominator)
    }
}

impl From<Affine> for RationalAffine {
    fn from(numerator: Affine) -> Self {
        Self { numerator, denominator: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_and_rounding(a in -99..99i128, b in 1..20i128, c in -99..99i128, d in 1..20i128) {
            let (x, y) = (Rational::new(a, b).unwrap(), Rational::new(-c, -d).unwrap());
            prop_assert_eq!(x.cmp(&y), (a * d).cmp(&(c * b)));
            prop_assert_eq!(x.sub(y).unwrap().is_negative(), x < y);
            prop_assert!(x.floor() * b <= a && a < (x.floor() + 1) * b);
            prop_assert!((x.ceil() - 1) * b < a && a <= x.ceil() * b);
        }
    }

    #[test]
    fn order_never_overflows() {
        let large = |n: i128, d: i128| Rational::new(n, d).unwrap();
        assert!(large(i128::MAX, i128::MAX - 1) < large(i128::MAX - 1, i128::MAX - 2));
        assert_eq!(large(i128::MAX, 2).mul(large(3, 1)), None);
        assert_eq!(Rational::new(1, 0), None);
    }
}
