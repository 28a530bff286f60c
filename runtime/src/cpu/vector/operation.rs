//! One operation over a chunk of elements: the loops in which the cpu device spends its time
//! outside of matrix products.
//!
//! Each loop is written once, over slices of one length, and compiled for the baseline, for AVX2
//! and, where it pays, for AVX-512. The features that the processor reports decide which version
//! runs.

use super::elementary;
use super::level::{vectorised, widest};
use super::number::{Bits, Bool, Number};
use tile_compiler::native::LIMIT;
use tile_compiler::scalar::{BinaryOp, UnaryOp};

widest! {
    /// Converts numbers to words, saturated to [`LIMIT`].
    pub fn saturate(numbers: &[i64], out: &mut [i32]) {
        map(numbers, out, |x| x.clamp(-LIMIT, LIMIT) as i32);
    }
}

#[inline(always)]
fn map<A: Copy, B>(a: &[A], out: &mut [B], f: impl Fn(A) -> B) {
    for (out, a) in out.iter_mut().zip(a) {
        *out = f(*a);
    }
}

#[inline(always)]
fn zip<A: Copy, B>(a: &[A], b: &[A], out: &mut [B], f: impl Fn(A, A) -> B) {
    for (out, (a, b)) in out.iter_mut().zip(a.iter().zip(b)) {
        *out = f(*a, *b);
    }
}

vectorised! {
    /// Computes `out = op(a)` elementwise.
    pub fn unary<T: Number>(op: UnaryOp, a: &[T], out: &mut [T]) {
        macro_rules! each {
            ($($name:ident)*) => { match op { $(UnaryOp::$name => map(a, out, |x| T::unary(UnaryOp::$name, x))),* } };
        }
        if T::unary_chunk(op, a, out) {
            return;
        }
        each!(Neg BitNot Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Log1p Recip Rint Round Rsqrt Sigmoid Sin Sinh Sqrt Tan Tanh)
    }
}

widest! {
    /// Computes `out = op(a)` for operations without branches. Returns false for others and leaves
    /// `out` unchanged.
    pub fn unary_f32(op: UnaryOp, a: &[f32], out: &mut [f32]) -> bool {
        macro_rules! simple {
            ($($name:ident)*) => { match op {
                UnaryOp::Log => map(a, out, elementary::log::<FUSED>),
                UnaryOp::Log1p => map(a, out, elementary::log1p::<FUSED>),
                UnaryOp::Acos => map(a, out, elementary::acos),
                UnaryOp::Asin => map(a, out, elementary::asin),
                UnaryOp::Atan => map(a, out, elementary::atan),
                UnaryOp::Sin => map(a, out, elementary::sin),
                UnaryOp::Cos => map(a, out, elementary::cos),
                $(UnaryOp::$name => map(a, out, |x| f32::unary(UnaryOp::$name, x)),)*
                _ => return false,
            } };
        }
        simple!(Neg Abs Recip Sqrt Rsqrt);
        true
    }
}

/// The magnitudes of divisors whose two-part reciprocals neither overflow nor lose digits.
const EVEN_DIVISORS: std::ops::RangeInclusive<f32> = 1e-18..=1e18;

/// Returns the reciprocal of a divisor as a sum of two parts, or `None` if the divisor is too large
/// or too small. The first part is rounded towards 0. The second has the same sign and is never 0.
///
/// Then `x * high + x * low`, where the product with `high` is not rounded, is within 0.500001
/// units in the last place of `x / by`. It is the quotient itself where that is a float, infinite
/// where the quotient is infinite, and 0 with the quotient's sign. Quotients below 1e-32, for which
/// `x * low` loses digits, may be one unit off.
pub fn reciprocal(by: f32) -> Option<[f32; 2]> {
    let exact = 1.0 / f64::from(by);
    let near = exact as f32;
    let high =
        if f64::from(near.abs()) > exact.abs() { f32::from_bits(near.to_bits() - 1) } else { near };
    let low = (exact - f64::from(high)) as f32;
    let low = if low == 0.0 { high * f32::powi(0.5, 60) } else { low };
    EVEN_DIVISORS.contains(&by.abs()).then_some([high, low])
}

widest! {
    /// Computes `out = op(a, b)` with one operand the same for all elements: `b`, or the left one
    /// if `swapped`. Covers the f32 operations that matter most. Returns false for others and
    /// leaves `out` unchanged.
    pub fn binary_scalar(op: BinaryOp, a: &[f32], b: f32, swapped: bool, out: &mut [f32]) -> bool {
        if FUSED && op == BinaryOp::Div && !swapped && let Some([high, low]) = reciprocal(b) {
            map(a, out, |x| x.mul_add(high, x * low));
            return true;
        }
        macro_rules! each {
            ($($name:ident)*) => { match (op, swapped) {
                $((BinaryOp::$name, false) => map(a, out, |x| f32::binary(BinaryOp::$name, x, b)),
                (BinaryOp::$name, true) => map(a, out, |x| f32::binary(BinaryOp::$name, b, x)),)*
                _ => return false,
            } };
        }
        each!(Add Sub Mul Div Max Min);
        true
    }
}

widest! {
    /// Computes `out = op(a, b)` of f32s. Returns false for operations that are not arithmetic and
    /// leaves `out` unchanged.
    pub fn binary_f32(op: BinaryOp, a: &[f32], b: &[f32], out: &mut [f32]) -> bool {
        macro_rules! each {
            ($($name:ident)*) => { match op {
                $(BinaryOp::$name => zip(a, b, out, |x, y| f32::binary(BinaryOp::$name, x, y)),)*
                // A large function that is passed to `zip` is compiled for the baseline.
                BinaryOp::Pow => {
                    for (out, (a, b)) in out.iter_mut().zip(a.iter().zip(b)) {
                        *out = elementary::pow(*a, *b);
                    }
                }
                _ => return false,
            } };
        }
        each!(Add Sub Mul Div Max Min);
        true
    }
}

vectorised! {
    /// Computes `out = op(a, b)` elementwise for an `op` that is not a comparison.
    pub fn binary<T: Number>(op: BinaryOp, a: &[T], b: &[T], out: &mut [T]) {
        if T::binary_chunk(op, a, b, out) {
            return;
        }
        macro_rules! each {
            ($($name:ident)*) => { match op {
                $(BinaryOp::$name => zip(a, b, out, |x, y| T::binary(BinaryOp::$name, x, y)),)*
                BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {}
            } };
        }
        each!(Add Sub Mul Div Max Min Pow Rem BitAnd BitOr BitXor ShiftLeft ShiftRight)
    }
}

vectorised! {
    /// Computes `out = op(a, b)` elementwise for a comparison.
    pub fn compare<T: Number>(op: BinaryOp, a: &[T], b: &[T], out: &mut [Bool]) {
        match op {
            BinaryOp::Eq => zip(a, b, out, |a, b| Bool(T::equal(a, b) as u8)),
            BinaryOp::Ne => zip(a, b, out, |a, b| Bool(!T::equal(a, b) as u8)),
            BinaryOp::Lt => zip(a, b, out, |a, b| Bool(T::less(a, b) as u8)),
            BinaryOp::Le => zip(a, b, out, |a, b| Bool((T::less(a, b) | T::equal(a, b)) as u8)),
            BinaryOp::Gt => zip(a, b, out, |a, b| Bool(T::less(b, a) as u8)),
            _ => zip(a, b, out, |a, b| Bool((T::less(b, a) | T::equal(a, b)) as u8)),
        }
    }
}

vectorised! {
    /// Writes `out[i] = first + i * step` as i32, which wraps.
    pub fn count<>(first: i64, step: i64, out: &mut [i32]) {
        for (i, out) in out.iter_mut().enumerate() {
            *out = (first as i32).wrapping_add((i as i32).wrapping_mul(step as i32));
        }
    }
}

vectorised! {
    /// Computes `out = condition ? a : b` elementwise.
    pub fn select<T: Bits>(condition: &[Bool], a: &[T], b: &[T], out: &mut [T]) {
        for ((out, condition), (a, b)) in out.iter_mut().zip(condition).zip(a.iter().zip(b)) {
            *out = if condition.0 != 0 { *a } else { *b };
        }
    }
}

vectorised! {
    /// Repeats each of the first `made` elements as often as fills `elements`, in place.
    pub fn spread<T: Bits>(made: usize, elements: &mut [T]) {
        /// Repeats each element `N` times.
        #[inline(always)]
        fn short<T: Bits, const N: usize>(made: usize, elements: &mut [T]) {
            // From the last to the first: each element is read before it is overwritten.
            for number in (0..made).rev() {
                let element = elements[number];
                elements.as_chunks_mut::<N>().0[number] = [element; N];
            }
        }
        let row = elements.len() / made.max(1);
        match row {
            0 | 1 => {}
            2 => short::<T, 2>(made, elements),
            3 => short::<T, 3>(made, elements),
            4 => short::<T, 4>(made, elements),
            8 => short::<T, 8>(made, elements),
            16 => short::<T, 16>(made, elements),
            32 => short::<T, 32>(made, elements),
            _ => {
                for number in (0..made).rev() {
                    let element = elements[number];
                    elements[number * row..(number + 1) * row].fill(element);
                }
            }
        }
    }
}

macro_rules! conversions {
    ($($name:ident: $from:ident -> $to:ident, $method:expr, $chunk:expr;)*) => { $(
        vectorised! {
            /// Converts `a` to `out`, up to the shorter length, as [`Number`] does.
            pub fn $name<T: Number>(a: &[$from], out: &mut [$to]) {
                if !$chunk(a, &mut *out) {
                    map(a, out, $method);
                }
            }
        }
    )* };
}
conversions! {
    to_f32: T -> f32, |x| x.to_f32(), T::to_f32_chunk;
    to_f64: T -> f64, |x| x.to_f64(), |_, _| false;
    to_i64: T -> i64, |x| x.to_i64(), |_, _| false;
    from_f32: f32 -> T, T::from_f32, T::from_f32_chunk;
    from_f64: f64 -> T, T::from_f64, |_, _| false;
    from_i64: i64 -> T, T::from_i64, |_, _| false;
}

/// Converts `a` to another type, as [`tile_compiler::dtype::Scalar::cast`] does: by way of a type
/// that holds every value of the first one.
pub fn cast<A: Number, B: Number>(a: &[A], out: &mut [B]) {
    const fn is_f32<T: Number>() -> bool {
        T::NARROW_FLOAT && size_of::<T>() == size_of::<f32>()
    }
    let fits_f32 = A::NARROW_FLOAT || (B::FLOAT && size_of::<A>() <= 2);
    if fits_f32 && is_f32::<B>() {
        return to_f32(a, bytemuck::cast_slice_mut(out));
    }
    if is_f32::<A>() {
        return from_f32(bytemuck::cast_slice(a), out);
    }
    for (a, out) in a.chunks(256).zip(out.chunks_mut(256)) {
        if fits_f32 {
            let mut wide = [0.0; 256];
            to_f32(a, &mut wide);
            from_f32(&wide, out);
        } else if A::FLOAT || (A::U64 && B::FLOAT) {
            let mut wide = [0.0; 256];
            to_f64(a, &mut wide);
            from_f64(&wide, out);
        } else {
            let mut wide = [0; 256];
            to_i64(a, &mut wide);
            from_i64(&wide, out);
        }
    }
}
