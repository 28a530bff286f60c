//! The cpu device's memory: bytes aligned to cache lines, seen as elements of whatever type the nest says.

/// One cache line; the unit of allocation gives every buffer its alignment.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [u8; 64]);

/// Types of which every bit pattern is a value.
///
/// # Safety
/// Implement it only for plain numbers of at most 64-byte alignment: buffers hold whatever their last user left there.
pub unsafe trait Plain: Copy + 'static {}
macro_rules! plain {
    ($($t:ty)*) => { $(
        // SAFETY: every bit pattern of a number is a number.
        unsafe impl Plain for $t {}
    )* };
}
plain!(u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 half::f16 half::bf16);

/// Aligned memory for the elements of a tensor.
#[derive(Clone, Default)]
pub struct Buffer {
    lines: Vec<Line>,
    bytes: usize,
}

impl Buffer {
    /// `bytes` zeros.
    pub fn zeroed(bytes: usize) -> Self {
        Self { lines: vec![Line([0; 64]); bytes.div_ceil(64)], bytes }
    }

    /// A copy of `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut buffer = Self::zeroed(bytes.len());
        buffer.bytes_mut().copy_from_slice(bytes);
        buffer
    }

    /// Its content.
    pub fn bytes(&self) -> &[u8] {
        self.elements()
    }

    /// Its content.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.elements_mut()
    }

    /// As many whole elements as it holds.
    pub(super) fn elements<T: Plain>(&self) -> &[T] {
        // SAFETY: the lines hold at least `bytes` initialised bytes, aligned for every `Plain`, of which any bits are a value.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.bytes / size_of::<T>()) }
    }

    /// As many whole elements as it holds.
    pub(super) fn elements_mut<T: Plain>(&mut self) -> &mut [T] {
        // SAFETY: as for `elements`.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.bytes / size_of::<T>()) }
    }
}

/// The elements' bytes.
pub(super) fn bytes_of<T: Plain>(elements: &[T]) -> &[u8] {
    // SAFETY: every byte of a plain number is initialised.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}
