//! Memory aligned to cache lines, viewed as elements of the type that a nest demands.

use bytemuck::{Pod, Zeroable};

/// A bool as tensors store it: true if not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
pub struct Bool(pub u8);

// SAFETY: it is a u8.
unsafe impl Zeroable for Bool {}
// SAFETY: as above.
unsafe impl Pod for Bool {}

/// One cache line, the unit of allocation. It gives every buffer its alignment.
#[derive(Clone, Copy, PartialEq)]
#[repr(C, align(64))]
pub struct CacheLine(pub [u8; 64]);

// SAFETY: it is 64 bytes, without padding: its size is its alignment.
unsafe impl Zeroable for CacheLine {}
// SAFETY: as above.
unsafe impl Pod for CacheLine {}

/// A buffer whose element type changes with its use.
#[derive(Clone, Default, PartialEq)]
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
    pub fn elements<T: Pod>(&self) -> &[T] {
        bytemuck::cast_slice(&self.0)
    }

    /// Returns the buffer as mutable elements: as many as it holds.
    pub fn elements_mut<T: Pod>(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

/// Returns a tensor's bytes as elements. The bytes should be aligned: bytes before the first
/// aligned element, or after the last whole one, are left out.
pub fn elements<T: Pod>(bytes: &[u8]) -> &[T] {
    bytemuck::pod_align_to(bytes).1
}

/// Returns a tensor's bytes as mutable elements, as [`elements`] does.
pub fn elements_mut<T: Pod>(bytes: &mut [u8]) -> &mut [T] {
    bytemuck::pod_align_to_mut(bytes).1
}

/// Returns the bytes of `elements` of `size` bytes each, or the greatest number if they are more.
pub fn bytes(elements: &[usize], size: usize) -> u64 {
    elements.iter().fold(size as u64, |bytes, &count| bytes.saturating_mul(count as u64))
}
