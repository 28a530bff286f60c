//! One operation over a chunk of elements: the loops in which the cpu device spends its time
//! outside of matrix products.
//!
//! Each loop is written once, over slices of one length, and compiled for the baseline, for AVX2
//! and, where it pays, for AVX-512. The features that the processor reports decide which version
//! runs.

use super::math;
use super::number::{Bool, Number};
use tile_compiler::graph::Aggregation;
use tile_compiler::scalar::{BinaryOp, UnaryOp};

/// The vector units that loops are compiled for.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub enum Level {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// Returns the level of this processor, which is detected once.
pub fn level() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        static LEVEL: std::sync::OnceLock<Level> = std::sync::OnceLock::new();
        *LEVEL.get_or_init(|| {
            macro_rules! all { ($($feature:tt)*) => { $(is_x86_feature_detected!($feature))&&* } }
            if !all!("avx2" "fma" "bmi1" "bmi2" "lzcnt" "popcnt") {
                Level::Baseline
            } else if all!("avx512f" "avx512bw" "avx512dq" "avx512vl") {
                Level::Avx512
            } else {
                Level::Avx2
            }
        })
    }
    #[cfg(not(target_arch = "x86_64"))]
    Level::Baseline
}

/// Returns whether this processor has a fused multiply-add.
pub fn is_fused() -> bool {
    cfg!(target_arch = "aarch64") || level() > Level::Baseline
}

/// Defines a function whose body is also compiled with AVX2. That version runs where the processor
/// has it.
macro_rules! vectorised {
    (
        $(#[$doc:meta])*
        pub fn $name:ident<$($g:ident: $bound:ident),*>($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block
    ) => {
        $(#[$doc])*
        pub fn $name<$($g: $bound),*>($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body<$($g: $bound),*>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
                fn wide<$($g: $bound),*>($($arg: $ty),*) $(-> $ret)? {
                    body::<$($g),*>($($arg),*)
                }
                if level() >= Level::Avx2 {
                    // SAFETY: `level` detected these features.
                    return unsafe { wide::<$($g),*>($($arg),*) };
                }
            }
            body::<$($g),*>($($arg),*)
        }
    };
}

/// Defines a function of f32s like `vectorised`, also compiled with AVX-512. In its body, `FUSED`
/// says whether the processor has a fused multiply-add.
macro_rules! widest {
    ($(#[$doc:meta])* pub fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$doc])*
        pub fn $name($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body<const FUSED: bool>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
                fn widest($($arg: $ty),*) $(-> $ret)? {
                    body::<true>($($arg),*)
                }
                #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
                fn wide($($arg: $ty),*) $(-> $ret)? {
                    body::<true>($($arg),*)
                }
                match level() {
                    // SAFETY: `level` detected these features.
                    Level::Avx512 => return unsafe { widest($($arg),*) },
                    // SAFETY: `level` detected these features.
                    Level::Avx2 => return unsafe { wide($($arg),*) },
                    Level::Baseline => {}
                }
            }
            body::<{ cfg!(target_arch = "aarch64") }>($($arg),*)
        }
    };
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

/// Combines two aggregated values; for `Assign` the later one wins. For the arg forms it combines
/// the values only.
#[inline(always)]
pub fn combine<T: Number>(aggregation: Aggregation, a: T, b: T) -> T {
    match aggregation {
        Aggregation::Sum => T::binary(BinaryOp::Add, a, b),
        Aggregation::Product => T::binary(BinaryOp::Mul, a, b),
        Aggregation::Max | Aggregation::ArgMax => T::binary(BinaryOp::Max, a, b),
        Aggregation::Min | Aggregation::ArgMin => T::binary(BinaryOp::Min, a, b),
        Aggregation::Assign => b,
    }
}

/// Evaluates an expression with `$constant` as the aggregation `$name`, so that its loops are
/// compiled for each aggregation.
macro_rules! each_aggregation {
    ($name:ident, $constant:ident => $e:expr) => {
        match $name {
            Aggregation::Sum => {
                const $constant: Aggregation = Aggregation::Sum;
                $e
            }
            Aggregation::Product => {
                const $constant: Aggregation = Aggregation::Product;
                $e
            }
            Aggregation::Max | Aggregation::ArgMax => {
                const $constant: Aggregation = Aggregation::Max;
                $e
            }
            Aggregation::Min | Aggregation::ArgMin => {
                const $constant: Aggregation = Aggregation::Min;
                $e
            }
            Aggregation::Assign => {
                const $constant: Aggregation = Aggregation::Assign;
                $e
            }
        }
    };
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
        each!(Neg BitNot Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Recip Round Rsqrt Sin Sinh Sqrt Tan Tanh)
    }
}

widest! {
    /// Computes `out = op(a)` for operations without branches. Returns false for others and leaves
    /// `out` unchanged.
    pub fn unary_f32(op: UnaryOp, a: &[f32], out: &mut [f32]) -> bool {
        macro_rules! simple {
            ($($name:ident)*) => { match op {
                UnaryOp::Log => map(a, out, math::log::<FUSED>),
                UnaryOp::Sin => map(a, out, math::sin),
                UnaryOp::Cos => map(a, out, math::cos),
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
    let high = if f64::from(near.abs()) > exact.abs() { f32::from_bits(near.to_bits() - 1) } else { near };
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
                BinaryOp::Pow => zip(a, b, out, math::pow),
                _ => return false,
            } };
        }
        each!(Add Sub Mul Div Max Min);
        true
    }
}

widest! {
    /// Accumulates f32s as [`accumulate`] does, where all values count.
    pub fn accumulate_f32(aggregation: Aggregation, sums: &mut [f32], values: &[f32]) {
        each_aggregation!(aggregation, A => sums.iter_mut().zip(values).for_each(|(sum, x)| *sum = combine(A, *sum, *x)))
    }
}

widest! {
    /// Folds f32s as [`fold`] does, where all values count.
    pub fn fold_f32(aggregation: Aggregation, identity: f32, values: &[f32]) -> f32 {
        each_aggregation!(aggregation, A => in_parts(identity, values, |a, b| combine(A, a, b)))
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
    pub fn select<T: Number>(condition: &[Bool], a: &[T], b: &[T], out: &mut [T]) {
        for ((out, condition), (a, b)) in out.iter_mut().zip(condition).zip(a.iter().zip(b)) {
            *out = if condition.0 != 0 { *a } else { *b };
        }
    }
}

macro_rules! conversions {
    ($($name:ident: $from:ident -> $to:ident, $method:expr;)*) => { $(
        vectorised! {
            /// Converts `a` to `out`, up to the shorter length, as [`Number`] does.
            pub fn $name<T: Number>(a: &[$from], out: &mut [$to]) {
                map(a, out, $method);
            }
        }
    )* };
}
conversions! {
    to_f32: T -> f32, |x| x.to_f32();
    to_f64: T -> f64, |x| x.to_f64();
    to_i64: T -> i64, |x| x.to_i64();
    from_f32: f32 -> T, T::from_f32;
    from_f64: f64 -> T, T::from_f64;
    from_i64: i64 -> T, T::from_i64;
}

/// Converts `a` to another type, as [`tile_compiler::dtype::Scalar::cast`] does: by way of a type
/// that holds every value of the first one.
pub fn cast<A: Number, B: Number>(a: &[A], out: &mut [B]) {
    for (a, out) in a.chunks(256).zip(out.chunks_mut(256)) {
        if A::NARROW_FLOAT {
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

vectorised! {
    /// Gathers `out[i] = data[start + i * step]`.
    pub fn gather_strided<T: Number>(data: &[T], start: i64, step: i64, out: &mut [T]) {
        /// Takes the first of every `N` elements, which the compiler turns into shuffles of
        /// registers.
        #[inline(always)]
        fn first_of<T: Number, const N: usize>(data: &[T], out: &mut [T]) {
            let (groups, rest) = data.as_chunks::<N>();
            for (out, group) in out.iter_mut().zip(groups) {
                *out = group[0];
            }
            // The last group may be incomplete.
            if let Some(last) = out.get_mut(groups.len()) {
                *last = rest[0];
            }
        }
        match step {
            0 => out.fill(data[start as usize]),
            1 => out.copy_from_slice(&data[start as usize..][..out.len()]),
            2 => first_of::<T, 2>(&data[start as usize..], out),
            3 => first_of::<T, 3>(&data[start as usize..], out),
            4 => first_of::<T, 4>(&data[start as usize..], out),
            5.. => {
                let from = data[start as usize..].iter().step_by(step as usize);
                for (out, from) in out.iter_mut().zip(from) {
                    *out = *from;
                }
            }
            _ => {
                for (i, out) in out.iter_mut().enumerate() {
                    *out = data[(start + i as i64 * step) as usize];
                }
            }
        }
    }
}

vectorised! {
    /// Gathers `out[i] = data[start + i * step + moves[i]]`, or 0 if there is no such element.
    pub fn gather_moved<T: Number>(data: &[T], start: i64, step: i64, moves: &[i64], out: &mut [T]) {
        let (Some(first), Some(last)) = (moves.first(), moves.last()) else { return };
        // Run-time indices may have any value. An address that wraps is not in the data.
        let begin = start.wrapping_add(*first);
        let ends = [begin, begin.wrapping_add(step * (out.len() as i64 - 1))];
        let is_within = ends.iter().all(|end| (0..data.len() as i64).contains(end));
        if first == last && is_within && moves.iter().all(|by| by == first) {
            return gather_strided(data, ends[0], step, out);
        }
        for (i, (out, by)) in out.iter_mut().zip(moves).enumerate() {
            // A negative address becomes greater than any length.
            *out = data.get((start + i as i64 * step).wrapping_add(*by) as usize).copied().unwrap_or_default();
        }
    }
}

vectorised! {
    /// Gathers `out[i * columns + j] = data[start + i + j * step]`, in whole rows. A few columns
    /// are read at a time: caches hold only few lines whose distance is a power of 2.
    pub fn exchange<T: Number>(data: &[T], start: usize, step: usize, columns: usize, out: &mut [T]) {
        /// Gathers `N` columns from `j` on.
        #[inline(always)]
        fn some<T: Number, const N: usize>(data: &[T], start: usize, step: usize, j: usize, columns: usize, out: &mut [T]) {
            let rows = out.len() / columns;
            let from: [&[T]; N] = std::array::from_fn(|k| &data[start + (j + k) * step..][..rows]);
            for (i, out) in out.chunks_exact_mut(columns).enumerate() {
                out[j..][..N].copy_from_slice(&std::array::from_fn::<T, N, _>(|k| from[k][i]));
            }
        }
        let mut j = 0;
        for width in [8, 4, 2, 1] {
            while columns - j >= width {
                match width {
                    8 => some::<T, 8>(data, start, step, j, columns, out),
                    4 => some::<T, 4>(data, start, step, j, columns, out),
                    2 => some::<T, 2>(data, start, step, j, columns, out),
                    _ => some::<T, 1>(data, start, step, j, columns, out),
                }
                j += width;
            }
        }
    }
}

vectorised! {
    /// Gathers `out[i * columns + j] = data[start + i * steps[0] + j * steps[1]]`.
    pub fn gather_table<T: Number>(data: &[T], start: i64, steps: [i64; 2], columns: usize, out: &mut [T]) {
        /// Gathers few columns that are contiguous in the source, as where two axes are exchanged.
        #[inline(always)]
        fn transpose<T: Number, const N: usize>(data: &[T], start: usize, step: usize, out: &mut [T]) {
            let (rows, _) = out.as_chunks_mut::<N>();
            let columns: [&[T]; N] = std::array::from_fn(|j| &data[start + j * step..][..rows.len()]);
            for (i, out) in rows.iter_mut().enumerate() {
                *out = std::array::from_fn(|j| columns[j][i]);
            }
        }
        if steps[0] == 1 && steps[1] >= 0 {
            let (start, step) = (start as usize, steps[1] as usize);
            match columns {
                2 => return transpose::<T, 2>(data, start, step, out),
                3 => return transpose::<T, 3>(data, start, step, out),
                4 => return transpose::<T, 4>(data, start, step, out),
                5 => return transpose::<T, 5>(data, start, step, out),
                6 => return transpose::<T, 6>(data, start, step, out),
                7 => return transpose::<T, 7>(data, start, step, out),
                8 => return transpose::<T, 8>(data, start, step, out),
                _ if out.len() > columns => return exchange(data, start, step, columns, out),
                _ => {}
            }
        }
        for (i, out) in out.chunks_mut(columns).enumerate() {
            gather_strided(data, start + i as i64 * steps[0], steps[1], out);
        }
    }
}

vectorised! {
    /// Combines each of `values` that counts into its place in `sums`. All count if `counts` is
    /// `None`.
    pub fn accumulate<T: Number>(aggregation: Aggregation, sums: &mut [T], values: &[T], counts: Option<&[Bool]>) {
        #[inline(always)]
        fn with<T: Number>(sums: &mut [T], values: &[T], counts: Option<&[Bool]>, f: impl Fn(T, T) -> T) {
            let pairs = sums.iter_mut().zip(values);
            match counts {
                None => pairs.for_each(|(sum, x)| *sum = f(*sum, *x)),
                Some(counts) => pairs.zip(counts).for_each(|((sum, x), counts)| {
                    let next = f(*sum, *x);
                    *sum = if counts.0 != 0 { next } else { *sum };
                }),
            }
        }
        if counts.is_none() && T::accumulate_chunk(aggregation, sums, values) {
            return;
        }
        each_aggregation!(aggregation, A => with(sums, values, counts, |a, b| combine(A, a, b)))
    }
}

/// The number of partial aggregates that are combined at the end.
const PARTS: usize = 64;

/// Folds all values: in interleaved partial aggregates, then these in a tree.
#[inline(always)]
fn in_parts<T: Number>(identity: T, values: &[T], f: impl Fn(T, T) -> T) -> T {
    let mut parts = [identity; PARTS];
    let (whole, rest) = values.as_chunks::<PARTS>();
    for chunk in whole {
        for (part, x) in parts.iter_mut().zip(chunk) {
            *part = f(*part, *x);
        }
    }
    for (part, x) in parts.iter_mut().zip(rest) {
        *part = f(*part, *x);
    }
    tree(parts, f)
}

#[inline(always)]
fn tree<T: Number>(mut parts: [T; PARTS], f: impl Fn(T, T) -> T) -> T {
    let mut half = PARTS / 2;
    while half > 0 {
        for i in 0..half {
            parts[i] = f(parts[i], parts[i + half]);
        }
        half /= 2;
    }
    parts[0]
}

vectorised! {
    /// Folds all values that count into one. All count if `counts` is `None`.
    pub fn fold<T: Number>(aggregation: Aggregation, identity: T, values: &[T], counts: Option<&[Bool]>) -> T {
        #[inline(always)]
        fn with<T: Number>(identity: T, values: &[T], counts: Option<&[Bool]>, f: impl Fn(T, T) -> T) -> T {
            let Some(counts) = counts else { return in_parts(identity, values, f) };
            let mut parts = [identity; PARTS];
            for (values, counts) in values.chunks(PARTS).zip(counts.chunks(PARTS)) {
                for ((part, x), counts) in parts.iter_mut().zip(values).zip(counts) {
                    let next = f(*part, *x);
                    *part = if counts.0 != 0 { next } else { *part };
                }
            }
            tree(parts, f)
        }
        if counts.is_none() && let Some(whole) = T::fold_chunk(aggregation, identity, values) {
            return whole;
        }
        each_aggregation!(aggregation, A => with(identity, values, counts, |a, b| combine(A, a, b)))
    }
}

/// The best value so far and its position, for the arg forms.
#[derive(Clone, Copy, Debug)]
pub struct Best<T> {
    pub value: T,
    pub position: i32,
    /// Whether any value was seen.
    pub found: bool,
}

impl<T: Number> Best<T> {
    /// Keeps the better of two values, and of equal ones the one at the lesser position. All NaNs
    /// are equal, and a NaN is never better than a number.
    pub fn take(&mut self, other: Best<T>, greatest: bool) {
        let (a, b) = (self.value, other.value);
        let better = if greatest { T::less(a, b) } else { T::less(b, a) };
        let (a_number, b_number) = (T::equal(a, a), T::equal(b, b));
        let equal = T::equal(a, b) || (!a_number && !b_number);
        let wins = better || (b_number && !a_number) || (equal && other.position < self.position);
        if other.found && (!self.found || wins) {
            *self = other;
        }
    }
}

#[cfg(test)]
mod tests;
