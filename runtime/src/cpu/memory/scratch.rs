//! Scratch memory that a thread keeps and reuses, so that a kernel's buffers are not paged in anew
//! on every call.

use super::CacheLine;
use bytemuck::Pod;
use std::cell::RefCell;

thread_local! {
    /// This thread's unused buffers. It is a stack because uses nest.
    static IDLE: RefCell<Vec<Vec<CacheLine>>> = const { RefCell::new(Vec::new()) };
}

/// The largest buffer kept after use, in lines (32 MiB). Larger ones go back to the system.
const KEEP_LINES: usize = 1 << 19;

/// Calls `f` with a buffer of `len` elements, aligned to 64 bytes. The content is *unspecified*:
/// write before reading.
pub fn with<T: Pod, R>(len: usize, f: impl FnOnce(&mut [T]) -> R) -> R {
    let bytes = len.checked_mul(size_of::<T>()).expect("a buffer within the address space");
    let lines = bytes.div_ceil(size_of::<CacheLine>());
    let mut buffer = IDLE.with_borrow_mut(Vec::pop).unwrap_or_default();
    if buffer.len() < lines {
        buffer = vec![CacheLine([0; 64]); lines];
    }
    let result = f(&mut bytemuck::cast_slice_mut(&mut buffer)[..len]);
    if buffer.len() <= KEEP_LINES {
        IDLE.with_borrow_mut(|idle| idle.push(buffer));
    }
    result
}

/// Calls `f` with three such buffers.
pub fn with3<T: Pod, R>(lens: [usize; 3], f: impl FnOnce([&mut [T]; 3]) -> R) -> R {
    // Each buffer starts on a cache line.
    let padded = lens.map(|len| len.next_multiple_of(size_of::<CacheLine>() / size_of::<T>()));
    let all = padded.iter().try_fold(0usize, |sum, len| sum.checked_add(*len));
    with(all.expect("buffers within the address space"), |all: &mut [T]| {
        let (a, rest) = all.split_at_mut(padded[0]);
        let (b, c) = rest.split_at_mut(padded[1]);
        f([&mut a[..lens[0]], &mut b[..lens[1]], &mut c[..lens[2]]])
    })
}
