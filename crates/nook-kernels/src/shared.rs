//! One buffer, written by several threads in pieces that do not overlap.

#![allow(unsafe_code, reason = "hands out pieces of one exclusive borrow")]

use std::marker::PhantomData;
use std::ops::Range;

/// An exclusive borrow, to be handed out piece by piece.
pub(crate) struct SharedOut<'a, T> {
    start: *mut T,
    length: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: it is a `&mut [T]` whose pieces go to several threads, each to one (`piece`).
unsafe impl<T: Send> Sync for SharedOut<'_, T> {}

impl<'a, T> SharedOut<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), length: slice.len(), borrow: PhantomData }
    }

    /// The numbers in `range`.
    ///
    /// # Safety
    ///
    /// No two ranges that are in use at the same time overlap.
    #[allow(clippy::mut_from_ref, reason = "pieces are disjoint, as the caller promises")]
    pub(crate) unsafe fn piece(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.length, "a piece of the buffer");
        // SAFETY: the range lies in the borrowed slice, which nobody else uses for as long as this
        // borrow lives; that pieces do not overlap is the caller's promise.
        unsafe {
            std::slice::from_raw_parts_mut(self.start.add(range.start), range.end - range.start)
        }
    }

    /// Where column `columns.start` of row `rows.start` lies, in a matrix of `width` columns. What
    /// may be written from there on are the columns of these rows.
    ///
    /// # Safety
    ///
    /// As [`Self::piece`], for these columns.
    pub(crate) unsafe fn columns(
        &self,
        rows: Range<usize>,
        width: usize,
        columns: Range<usize>,
    ) -> *mut T {
        assert!(
            columns.start <= columns.end
                && columns.end <= width
                && rows.start < rows.end
                && rows.end <= self.length / width,
            "columns of the buffer"
        );
        // SAFETY: the offset is below the length.
        unsafe { self.start.add(rows.start * width + columns.start) }
    }
}
