//! Arguments of C: pointers, strings and shapes.

use std::ffi::{CStr, c_char};

use tile_runtime::TensorType;

use crate::dtype::from_number;
use crate::status::Failure;

/// Returns the error for a null pointer.
pub fn null(name: &str) -> Failure {
    Failure::Usage(format!("`{name}` is a null pointer"))
}

/// Returns a string.
///
/// # Safety
/// - `text` is null, or points to bytes that end with a zero and stay valid and unchanged for `'a`.
pub unsafe fn string<'a>(text: *const c_char, name: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(null(name));
    }
    // SAFETY: the caller's contract.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::Usage(format!("`{name}` is not UTF-8")))
}

/// Returns the items of an array, which may be null if it is empty.
///
/// # Safety
/// - `items` is null, or points to `count` items that stay valid and unchanged for `'a`.
pub unsafe fn slice<'a, T>(items: *const T, count: usize, name: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if items.is_null() {
        return Err(null(name));
    }
    if count.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > isize::MAX as usize) {
        return Err(Failure::Usage(format!("`{name}` has more items than memory holds")));
    }
    // SAFETY: not null, at most isize::MAX bytes, and otherwise the caller's contract.
    Ok(unsafe { std::slice::from_raw_parts(items, count) })
}

/// Returns a tensor's type.
///
/// # Safety
/// - `shape` is null, or points to `rank` sizes.
pub unsafe fn tensor_type(
    dtype: u32,
    shape: *const usize,
    rank: usize,
) -> Result<TensorType, Failure> {
    const MOST_AXES: usize = 64;
    if rank > MOST_AXES {
        return Err(Failure::Usage(format!("`rank` is {rank}, and at most {MOST_AXES}")));
    }
    // SAFETY: the caller's contract.
    let shape = unsafe { slice(shape, rank, "shape") }?;
    Ok(TensorType::new(from_number(dtype)?, shape))
}

/// Stores a result of a call. A null pointer is an error.
///
/// # Safety
/// - `to` is null, or valid for a write.
pub unsafe fn store<T>(to: *mut T, value: T, name: &str) -> Result<(), Failure> {
    if to.is_null() {
        return Err(null(name));
    }
    // SAFETY: the caller's contract.
    unsafe { to.write(value) };
    Ok(())
}

/// Stores a result that the caller may not want.
///
/// # Safety
/// - `to` is null or valid for a write.
pub unsafe fn store_if<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller's contract.
        unsafe { to.write(value) };
    }
}
