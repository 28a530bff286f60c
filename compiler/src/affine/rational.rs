//! [`Rational`] numbers, and [`RationalAffine`]: an affine expression over a denominator.

use super::Affine;
use std::cmp::Ordering;

/// A fraction in lowest terms with a positive denominator. Operations answer `None` on overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Rational {
    numerator: i128,
    denominator: i128,
}

/// The greatest common divisor; of 0 and 0 it is 0. `None` only for 2¹²⁷.
pub(super) fn gcd(a: i128, b: i128) -> Option<i128> {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        // Division of 64-bit numbers is many times faster, and nearly all are.
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

    /// `numerator / denominator`; `None` also where the denominator is zero.
    pub fn new(numerator: i128, denominator: i128) -> Option<Self> {
        let divisor = gcd(numerator, denominator)?;
        let divisor = if denominator < 0 { -divisor } else { divisor };
        if denominator == 0 {
            return None;
        }
        Some(Self { numerator: numerator.checked_div(divisor)?, denominator: denominator.checked_div(divisor)? })
    }

    pub fn integer(value: i64) -> Self {
        Self { numerator: i128::from(value), denominator: 1 }
    }

    /// Always positive.
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
        if denominator == 1 { Some(Self { numerator, denominator }) } else { Self::new(numerator, denominator) }
    }

    /// `None` also where `other` is zero.
    pub fn div(self, other: Self) -> Option<Self> {
        self.mul(Self::new(other.denominator, other.numerator)?)
    }

    /// The largest integer that is not larger.
    pub fn floor(self) -> i128 {
        self.numerator.div_euclid(self.denominator)
    }

    /// The smallest integer that is not smaller.
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
    /// By the whole parts, and where these are equal by the reciprocals of the rests: nothing can overflow.
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

/// `numerator / denominator` in lowest terms, where the numerator is an integer affine expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RationalAffine {
    numerator: Affine,
    denominator: i64,
}

impl RationalAffine {
    /// `numerator / denominator`; `None` also where the denominator is zero.
    pub fn new(numerator: &Affine, denominator: i64) -> Option<Self> {
        let mut divisor = i128::from(denominator);
        for value in numerator.terms().iter().map(|&(_, c)| c).chain([numerator.offset()]) {
            divisor = gcd(divisor, i128::from(value))?;
        }
        let divisor = i64::try_from(divisor).ok()?.checked_mul(denominator.signum())?;
        let divided = numerator.terms().iter().map(|&(v, c)| Some((v, c.checked_div(divisor)?)));
        Some(Self {
            numerator: Affine::new(divided.collect::<Option<Vec<_>>>()?, numerator.offset().checked_div(divisor)?)?,
            denominator: denominator.checked_div(divisor)?,
        })
    }

    pub fn numerator(&self) -> &Affine {
        &self.numerator
    }

    /// Always positive.
    pub fn denominator(&self) -> i64 {
        self.denominator
    }

    /// The expression, where its coefficients are integers.
    pub fn as_affine(&self) -> Option<&Affine> {
        (self.denominator == 1).then_some(&self.numerator)
    }

    pub fn add(&self, other: &Self) -> Option<Self> {
        let (a, b) = (self.numerator.scale(other.denominator)?, other.numerator.scale(self.denominator)?);
        Self::new(&a.add(&b)?, self.denominator.checked_mul(other.denominator)?)
    }

    /// `self * numerator / denominator`.
    pub fn scale(&self, numerator: i64, denominator: i64) -> Option<Self> {
        Self::new(&self.numerator.scale(numerator)?, self.denominator.checked_mul(denominator)?)
    }

    /// `self` with `values[v]` in the place of every variable `v`; `None` also where `values` lacks one that occurs.
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
