//! Bytes aligned to cache lines, seen as elements of whatever type a nest says.

use super::shared::Shared;

/// One cache line; the unit of allocation gives every buffer its alignment.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Line(pub [u8; 64]);

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

/// What a nest reads: a tensor, or the part of one that the nest's places need.
#[derive(Clone, Copy)]
pub struct Operand<'a> {
    pub bytes: &'a [u8],
    /// The number of the element that `bytes` starts with.
    pub first: usize,
    /// The output that is written over it: then it has no bytes of its own.
    pub over: Option<&'a Output<'a>>,
}

/// What a nest writes: a tensor, or the part of one that holds the places to be computed.
#[derive(Clone)]
pub struct Output<'a> {
    pub bytes: Shared<'a, u8>,
    /// The number of the element that `bytes` starts with.
    pub first: usize,
}

impl<'a> Output<'a> {
    /// The elements from number `first` on.
    pub fn new(bytes: &'a mut [u8], first: usize) -> Self {
        Self { bytes: Shared::new(bytes), first }
    }
}

/// What a launch gives a nest to read.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// In the nest's order.
    pub operands: &'a [Operand<'a>],
    /// At which step each of the loops around the nest is.
    pub steps: &'a [usize],
}

impl<'a> Operand<'a> {
    /// The elements from number `start` on.
    pub fn after<T: Plain>(&self, start: usize) -> &'a [T] {
        &elements(self.bytes)[start - self.first..]
    }
}

impl<'a> From<&'a [u8]> for Operand<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, first: 0, over: None }
    }
}

/// A buffer of elements whose type changes with its use.
#[derive(Clone, Default)]
pub struct Register(Vec<Line>);

impl Register {
    /// `bytes` zeros.
    pub fn zeroed(bytes: usize) -> Self {
        Self(vec![Line([0; 64]); bytes.div_ceil(64)])
    }

    /// Where it begins.
    pub fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }

    /// As many elements as it holds.
    pub fn elements<T: Plain>(&self) -> &[T] {
        // SAFETY: the lines are initialised and aligned for every `Plain`, of which any bits are a value.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), size_of_val(&*self.0) / size_of::<T>()) }
    }

    /// As many elements as it holds.
    pub fn elements_mut<T: Plain>(&mut self) -> &mut [T] {
        let count = size_of_val(&*self.0) / size_of::<T>();
        // SAFETY: as for `elements`.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), count) }
    }
}

/// The elements that a tensor's bytes are. They must be aligned: what does not fill an aligned element is left out.
pub fn elements<T: Plain>(bytes: &[u8]) -> &[T] {
    // SAFETY: any bytes are a `Plain`.
    unsafe { bytes.align_to().1 }
}

/// As [`elements`].
pub fn elements_mut<T: Plain>(bytes: &mut [u8]) -> &mut [T] {
    // SAFETY: any bytes are a `Plain`, and a `Plain` is bytes.
    unsafe { bytes.align_to_mut().1 }
}

/// The elements' bytes.
pub fn bytes_of<T: Plain>(elements: &[T]) -> &[u8] {
    // SAFETY: every byte of a plain number is initialised.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// Asks for elements that will be read soon. They follow a chunk that is about as long as a page, at whose end a processor's own
/// prefetching stops.
pub fn prefetch<T: Plain>(elements: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for line in elements.chunks(64 / size_of::<T>()) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch reads nothing, wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = elements;
}
