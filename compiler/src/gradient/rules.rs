//! The derivative of each scalar operation, for whole tensors and for the values of a program.
//!
//! A rule multiplies the gradient `g` of `y = f(x)` by f'(x). It uses y where that is cheaper than
//! x (`exp`, `tanh`, `sigmoid`, `sqrt`), and avoids cancellation: `1 - x²` is `(1 - x)(1 + x)`.

use crate::dtype::{DType, Scalar};
use crate::scalar::{BinaryOp, UnaryOp};

/// Values that support scalar operations.
pub(super) trait Algebra {
    type Value: Copy;

    fn dtype(&self, value: Self::Value) -> DType;
    fn scalar(&mut self, scalar: Scalar) -> Self::Value;
    fn unary(&mut self, op: UnaryOp, a: Self::Value) -> Self::Value;
    fn binary(&mut self, op: BinaryOp, a: Self::Value, b: Self::Value) -> Self::Value;
    fn select(
        &mut self,
        condition: Self::Value,
        then: Self::Value,
        otherwise: Self::Value,
    ) -> Self::Value;

    /// Returns a constant of the type of `like`.
    fn number(&mut self, like: Self::Value, value: f64) -> Self::Value {
        let dtype = self.dtype(like);
        self.scalar(Scalar::from_f64(dtype, value))
    }

    /// Returns the product, or one of the operands if the other is 1.
    fn product(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;

    fn sum(&mut self, a: Self::Value, b: Self::Value) -> Self::Value {
        self.binary(BinaryOp::Add, a, b)
    }
}

/// Returns the gradient of the operand of `y = op(x)`, or `None` if it is 0 everywhere.
pub(super) fn unary<A: Algebra>(
    on: &mut A,
    op: UnaryOp,
    x: A::Value,
    y: A::Value,
    g: A::Value,
) -> Option<A::Value> {
    use UnaryOp::*;
    Some(match op {
        BitNot | Ceil | Floor | Rint | Round => return None,
        Neg => on.unary(Neg, g),
        Abs => absolute(on, x, g),
        // ±1 / sqrt(1 - x²)
        Asin => times_rsqrt(on, g, |on| complement(on, x)),
        Acos => {
            let found = times_rsqrt(on, g, |on| complement(on, x));
            on.unary(Neg, found)
        }
        // 1 / sqrt(x² - 1)
        Acosh => times_rsqrt(on, g, |on| one_less(on, x)),
        // 1 / sqrt(x² + 1)
        Asinh => times_rsqrt(on, g, |on| one_more(on, x)),
        Atan => {
            let square = one_more(on, x);
            on.binary(BinaryOp::Div, g, square)
        }
        Atanh => {
            let square = complement(on, x);
            on.binary(BinaryOp::Div, g, square)
        }
        Cos => {
            let (sine, negated) = (on.unary(Sin, x), on.unary(Neg, g));
            on.product(negated, sine)
        }
        Sin => times(on, g, |on| on.unary(Cos, x)),
        // 1 + y²
        Tan => times(on, g, |on| one_more(on, y)),
        Cosh => times(on, g, |on| on.unary(Sinh, x)),
        Sinh => times(on, g, |on| on.unary(Cosh, x)),
        // 1 - y²
        Tanh => times(on, g, |on| complement(on, y)),
        // y sigmoid(-x)
        Sigmoid => {
            let negated = on.unary(Neg, x);
            let rest = on.unary(Sigmoid, negated);
            let slope = on.product(y, rest);
            on.product(g, slope)
        }
        Erf => error_function(on, x, g),
        Exp => on.product(g, y),
        Log => on.binary(BinaryOp::Div, g, x),
        // 1 / (1 + x)
        Log1p => {
            let one = on.number(x, 1.0);
            let sum = on.sum(one, x);
            on.binary(BinaryOp::Div, g, sum)
        }
        // -y²
        Recip => {
            let (negated, square) = (on.unary(Neg, g), on.product(y, y));
            on.product(negated, square)
        }
        // -y³ / 2
        Rsqrt => {
            let half = times(on, g, |on| on.number(x, -0.5));
            let (half, square) = (on.product(half, y), on.product(y, y));
            on.product(half, square)
        }
        // 1 / 2y
        Sqrt => {
            let half = times(on, g, |on| on.number(x, 0.5));
            on.binary(BinaryOp::Div, half, y)
        }
    })
}

/// Returns the product of a gradient and a factor.
fn times<A: Algebra>(on: &mut A, g: A::Value, factor: impl FnOnce(&mut A) -> A::Value) -> A::Value {
    let factor = factor(on);
    on.product(g, factor)
}

/// Returns the quotient of a gradient and the root of a square.
fn times_rsqrt<A: Algebra>(
    on: &mut A,
    g: A::Value,
    square: impl FnOnce(&mut A) -> A::Value,
) -> A::Value {
    let square = square(on);
    times(on, g, |on| on.unary(UnaryOp::Rsqrt, square))
}

/// Returns the gradient for `abs`, which is 0 at 0.
fn absolute<A: Algebra>(on: &mut A, x: A::Value, g: A::Value) -> A::Value {
    let (zero, negated) = (on.number(x, 0.0), on.unary(UnaryOp::Neg, g));
    let (below, above) = (on.binary(BinaryOp::Lt, x, zero), on.binary(BinaryOp::Gt, x, zero));
    let rest = on.select(above, g, zero);
    on.select(below, negated, rest)
}

/// Returns the gradient for `erf`: `2 / sqrt(π) exp(-x²)`.
fn error_function<A: Algebra>(on: &mut A, x: A::Value, g: A::Value) -> A::Value {
    let square = on.product(x, x);
    let square = on.unary(UnaryOp::Neg, square);
    let bell = on.unary(UnaryOp::Exp, square);
    let scaled = times(on, g, |on| on.number(x, std::f64::consts::FRAC_2_SQRT_PI));
    on.product(scaled, bell)
}

/// Returns `x² - 1` as `(x - 1)(x + 1)`.
fn one_less<A: Algebra>(on: &mut A, x: A::Value) -> A::Value {
    let one = on.number(x, 1.0);
    let (less, more) = (on.binary(BinaryOp::Sub, x, one), on.sum(x, one));
    on.product(less, more)
}

/// Returns `(1 - x)(1 + x)`.
fn complement<A: Algebra>(on: &mut A, x: A::Value) -> A::Value {
    let one = on.number(x, 1.0);
    let (less, more) = (on.binary(BinaryOp::Sub, one, x), on.sum(one, x));
    on.product(less, more)
}

/// Returns `x² + 1`.
fn one_more<A: Algebra>(on: &mut A, x: A::Value) -> A::Value {
    let (one, square) = (on.number(x, 1.0), on.product(x, x));
    on.sum(square, one)
}

/// Returns the gradients of the wanted operands of `y = op(a, b)`, or `None` for one that is 0
/// everywhere.
pub(super) fn binary<A: Algebra>(
    on: &mut A,
    op: BinaryOp,
    [a, b]: [A::Value; 2],
    y: A::Value,
    g: A::Value,
    wanted: [bool; 2],
) -> [Option<A::Value>; 2] {
    use BinaryOp::*;
    let mut found = [None, None];
    match op {
        Add => found = [Some(g), Some(g)],
        Sub => found = [Some(g), wanted[1].then(|| on.unary(UnaryOp::Neg, g))],
        Mul => {
            found[0] = wanted[0].then(|| on.product(g, b));
            found[1] = wanted[1].then(|| on.product(g, a));
        }
        // 1 / b, and -a / b² = -y / b
        Div => {
            let quotient = on.binary(Div, g, b);
            found[0] = Some(quotient);
            found[1] = wanted[1].then(|| {
                let negated = on.unary(UnaryOp::Neg, quotient);
                on.product(negated, y)
            });
        }
        // b a^(b-1), which is 0 if b is 0 (even if a is 0, too); and y log(a), which is 0 if a is 0
        // and b is not negative.
        Pow => {
            let zero = on.number(a, 0.0);
            found[0] = wanted[0].then(|| {
                let one = on.number(b, 1.0);
                let less = on.binary(Sub, b, one);
                let (power, factor) = (on.binary(Pow, a, less), on.product(g, b));
                let (full, none) = (on.product(factor, power), on.binary(Eq, b, zero));
                on.select(none, zero, full)
            });
            found[1] = wanted[1].then(|| {
                let (log, factor) = (on.unary(UnaryOp::Log, a), on.product(g, y));
                let full = on.product(factor, log);
                let (base, exponent) = (on.binary(Eq, a, zero), on.binary(Ge, b, zero));
                let none = on.binary(BitAnd, base, exponent);
                on.select(none, zero, full)
            });
        }
        // 1, and -trunc(a / b) = (y - a) / b
        Rem => {
            found[0] = Some(g);
            found[1] = wanted[1].then(|| {
                let multiple = on.binary(Sub, y, a);
                let whole = on.binary(Div, multiple, b);
                on.product(g, whole)
            });
        }
        // `max` is `a < b ? b : a`, and `min` is `a > b ? b : a`. Equal operands get half each.
        Max | Min => {
            let (zero, half) = (on.number(a, 0.0), on.number(a, 0.5));
            let half = on.product(g, half);
            let (other, equal) =
                (on.binary(if op == Max { Lt } else { Gt }, a, b), on.binary(Eq, a, b));
            found[0] = wanted[0].then(|| {
                let own = on.select(equal, half, g);
                on.select(other, zero, own)
            });
            found[1] = wanted[1].then(|| {
                let rest = on.select(equal, half, zero);
                on.select(other, g, rest)
            });
        }
        Eq | Ne | Lt | Le | Gt | Ge | BitAnd | BitOr | BitXor | ShiftLeft | ShiftRight => {}
    }
    [found[0].filter(|_| wanted[0]), found[1].filter(|_| wanted[1])]
}

/// Returns the gradients of the wanted ones of `then` and `otherwise` in
/// `condition ? then : otherwise`.
pub(super) fn select<A: Algebra>(
    on: &mut A,
    condition: A::Value,
    g: A::Value,
    wanted: [bool; 2],
) -> [Option<A::Value>; 2] {
    let zero = on.number(g, 0.0);
    let then = wanted[0].then(|| on.select(condition, g, zero));
    [then, wanted[1].then(|| on.select(condition, zero, g))]
}
