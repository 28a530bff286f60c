//! A slice that several threads write, each its own part.

use std::marker::PhantomData;
use std::ops::Range;

/// A mutable slice whose disjoint parts may be borrowed by several threads at once.
pub struct Shared<'a, T> {
    start: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: it stands for a `&mut [T]`, which is `Send`. Handing out parts is the unsafe operation,
// and its contract demands that they be disjoint.
unsafe impl<T: Send> Send for Shared<'_, T> {}
// SAFETY: a shared reference gives access to elements only through `slice`, whose contract demands
// disjoint parts, and through raw pointers.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

/// Shares the same slice once more.
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

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns a pointer to the first element.
    pub fn start(&self) -> *mut T {
        self.start
    }

    /// Returns a pointer to the start of a part. Panics if the part reaches past the end.
    pub fn part(&self, range: &Range<usize>) -> *mut T {
        assert!(range.start <= range.end && range.end <= self.len, "a part reaches past the end");
        self.start.wrapping_add(range.start)
    }

    /// Borrows one part. Panics if it reaches past the end.
    ///
    /// # Safety
    /// - No other borrowed part, of this slice or of a clone, may share an element with it.
    /// - Nobody may access its elements through a raw pointer while it is borrowed.
    #[expect(clippy::mut_from_ref, reason = "the parts are disjoint by the caller's promise")]
    pub unsafe fn slice(&self, range: Range<usize>) -> &mut [T] {
        // SAFETY: `part` checks that the range lies in the slice, which is borrowed for `'a`. The
        // caller guarantees that nobody else uses its elements.
        unsafe { std::slice::from_raw_parts_mut(self.part(&range), range.len()) }
    }
}
