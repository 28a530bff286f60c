//! Aligned working memory that a thread keeps and reuses, so that a kernel's buffers are not paged in anew on every call.

use std::cell::RefCell;

/// One cache line; the unit of allocation gives every buffer its alignment.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

thread_local! {
    /// Buffers that nobody on this thread is using. A stack, because uses nest.
    static IDLE: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer larger than this many lines (32 MiB) goes back to the system after use.
const KEEP_LINES: usize = 1 << 19;

/// Types of which every bit pattern is a value.
///
/// # Safety
/// Implement it only for plain numbers: the buffers hold whatever their last user left there.
pub unsafe trait Plain: Copy + 'static {}
macro_rules! plain {
    ($($t:ty)*) => { $(
        // SAFETY: every bit pattern of a number is a number.
        unsafe impl Plain for $t {}
    )* };
}
plain!(u8 u16 u32 u64 i8 i16 i32 i64 usize isize f32 f64 half::f16 half::bf16);

/// Calls `f` with `len` elements, 64-byte aligned, of *unspecified content*: write before reading.
pub fn with<T: Plain, R>(len: usize, f: impl FnOnce(&mut [T]) -> R) -> R {
    let lines = (len * size_of::<T>()).div_ceil(size_of::<Line>());
    let mut buffer = IDLE.with_borrow_mut(Vec::pop).unwrap_or_default();
    if buffer.len() < lines {
        buffer = vec![Line([0; 64]); lines];
    }
    // SAFETY: the buffer holds at least `len` initialised elements, is aligned for every `Plain`, of which any bytes are a value.
    let slice = unsafe { std::slice::from_raw_parts_mut(buffer.as_mut_ptr().cast::<T>(), len) };
    let result = f(slice);
    if buffer.len() <= KEEP_LINES {
        IDLE.with_borrow_mut(|idle| idle.push(buffer));
    }
    result
}
