//! An output that several threads write, each its own part.

use std::marker::PhantomData;
use std::ops::Range;

/// A mutable slice whose disjoint parts may be borrowed from several threads at once.
pub struct Shared<'a, T> {
    start: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: it is a `&mut [T]`, and handing out parts of it is the unsafe act.
unsafe impl<T: Send> Send for Shared<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

/// The same slice, lent on: parts that are borrowed of both must be disjoint, too.
impl<T> Clone for Shared<'_, T> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<'a, T> Shared<'a, T> {
    /// Shares `data` for as long as it is borrowed.
    pub fn new(data: &'a mut [T]) -> Self {
        Self { start: data.as_mut_ptr(), len: data.len(), borrow: PhantomData }
    }

    /// Asks for the memory of a part that will be written soon.
    pub fn prefetch(&self, range: Range<usize>) {
        #[cfg(target_arch = "x86_64")]
        for at in range.step_by(64 / size_of::<T>()) {
            use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            // SAFETY: a prefetch changes nothing, wherever it points.
            unsafe { _mm_prefetch::<_MM_HINT_ET0>(self.start.wrapping_add(at).cast_const().cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = range;
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Where they start.
    pub fn start(&self) -> *mut T {
        self.start
    }

    /// Where a part starts; panics if it reaches past the end.
    pub fn part(&self, range: &Range<usize>) -> *mut T {
        assert!(range.start <= range.end && range.end <= self.len, "a part reaches past the end");
        self.start.wrapping_add(range.start)
    }

    /// One part; panics if it reaches past the end.
    ///
    /// # Safety
    /// No other part that is in use may share an element with it.
    #[expect(clippy::mut_from_ref, reason = "the parts are disjoint by the caller's promise")]
    pub unsafe fn slice(&self, range: Range<usize>) -> &mut [T] {
        // SAFETY: inside the slice, and unshared by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.part(&range), range.len()) }
    }
}
