//! Memory aligned to cache lines, viewed as elements of the type that a nest demands.

/// A bool as tensors store it: true if not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
pub struct Bool(pub u8);

// SAFETY: every byte is a value, and the type is a transparent wrapper of a byte.
unsafe impl Plain for Bool {}

/// One cache line, the unit of allocation. It gives every buffer its alignment.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct CacheLine(pub [u8; 64]);

/// Types of which every bit pattern is a value.
///
/// # Safety
/// Implementors must:
/// - be plain numbers: no padding, and every bit pattern is a value, since buffers hold whatever
///   their last user left there;
/// - need an alignment of at most 64 bytes.
pub unsafe trait Plain: Copy + 'static {}
macro_rules! plain {
    ($($t:ty)*) => { $(
        // SAFETY: a number has no padding, any bits are a number, and its alignment is at most 8.
        unsafe impl Plain for $t {}
    )* };
}
plain!(u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 half::f16 half::bf16);

/// A buffer whose element type changes with its use.
#[derive(Clone, Default)]
pub struct Register(Vec<CacheLine>);

impl Register {
    /// Creates a buffer of at least `bytes` bytes, filled with zeros.
    pub fn zeroed(bytes: usize) -> Self {
        Self(vec![CacheLine([0; 64]); bytes.div_ceil(64)])
    }

    /// Returns a pointer to the first byte.
    pub fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }

    /// Returns the buffer as elements: as many as it holds.
    pub fn elements<T: Plain>(&self) -> &[T] {
        // SAFETY: the lines are initialised and aligned to 64 bytes, which is enough for every
        // `Plain`, and any bit pattern is a value of a `Plain`. The count does not exceed their
        // size.
        unsafe {
            std::slice::from_raw_parts(
                self.0.as_ptr().cast(),
                size_of_val(&*self.0) / size_of::<T>(),
            )
        }
    }

    /// Returns the buffer as mutable elements: as many as it holds.
    pub fn elements_mut<T: Plain>(&mut self) -> &mut [T] {
        let count = size_of_val(&*self.0) / size_of::<T>();
        // SAFETY: the lines are initialised and aligned to 64 bytes, and any bit pattern is a value
        // of a `Plain`. The count does not exceed their size, and the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), count) }
    }
}

/// Returns a tensor's bytes as elements. The bytes should be aligned: bytes before the first
/// aligned element, or after the last whole one, are left out.
pub fn elements<T: Plain>(bytes: &[u8]) -> &[T] {
    // SAFETY: any bit pattern is a value of a `Plain`.
    unsafe { bytes.align_to().1 }
}

/// Returns a tensor's bytes as mutable elements, as [`elements`] does.
pub fn elements_mut<T: Plain>(bytes: &mut [u8]) -> &mut [T] {
    // SAFETY: any bit pattern is a value of a `Plain`, and a `Plain` has no padding, so that it may
    // also be written as bytes.
    unsafe { bytes.align_to_mut().1 }
}

/// Returns the bytes of elements.
pub fn bytes_of<T: Plain>(elements: &[T]) -> &[u8] {
    // SAFETY: a `Plain` has no padding, so that each of its bytes is initialised.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// Prefetches elements that will be read soon. They follow a chunk of about one page, and the
/// hardware prefetcher stops at the end of a page.
pub fn prefetch<T: Plain>(elements: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for line in elements.chunks(64 / size_of::<T>()) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch has no effect on memory, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = elements;
}

/// Returns the bytes of `elements` of `size` bytes each, or the greatest number if they are more.
pub fn bytes(elements: &[usize], size: usize) -> u64 {
    elements.iter().fold(size as u64, |bytes, &count| bytes.saturating_mul(count as u64))
}
