//! Memory of the app that a session reads or writes in its runs.

use std::ffi::c_void;
use std::ops::Range;

use tile_runtime::{DType, TensorType, Value};

use crate::arguments::slice;
use crate::status::Failure;

/// A dense, row-major value in memory of the app.
pub struct Source {
    ty: TensorType,
    data: *const u8,
    bytes: usize,
}

// SAFETY: the memory is only read, and its owner does not write it during a run.
unsafe impl Sync for Source {}
// SAFETY: as above; no thread owns the memory.
unsafe impl Send for Source {}

impl Source {
    /// Describes a value of this type.
    ///
    /// # Safety
    /// - `data` is null or points to the elements.
    /// - It stays valid, and unchanged during runs, as long as the source is used.
    pub unsafe fn new(ty: TensorType, data: *const c_void) -> Result<Source, Failure> {
        let bytes = ty.checked_bytes();
        let bytes = bytes.ok_or_else(|| Failure::Usage(format!("{ty} is too large")))?;
        // SAFETY: the caller's contract.
        let data = unsafe { slice(data.cast::<u8>(), bytes, "data") }?;
        Ok(Source { ty, data: data.as_ptr(), bytes })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the contract of `new`.
        unsafe { std::slice::from_raw_parts(self.data, self.bytes) }
    }

    /// Returns the addresses of its bytes.
    pub fn range(&self) -> Range<usize> {
        self.data.addr()..self.data.addr() + self.bytes
    }
}

impl Value for Source {
    fn dtype(&self) -> DType {
        self.ty.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.ty.shape
    }

    fn dense(&self) -> Option<&[u8]> {
        Some(self.bytes())
    }

    fn copy_to(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(self.bytes());
    }
}

/// Memory of the app for an output, dense and row-major.
pub struct Destination {
    ty: TensorType,
    data: *mut u8,
    bytes: usize,
    /// Whether the last run wrote it.
    pub is_written: bool,
}

// SAFETY: nobody else uses the memory during a run.
unsafe impl Send for Destination {}

impl Destination {
    /// Describes memory for an output.
    ///
    /// # Safety
    /// - `data` is valid for the bytes of `ty`, which may be uninitialised, as long as the
    ///   destination is used.
    /// - Nobody else uses it during runs.
    pub unsafe fn new(ty: TensorType, data: *mut u8) -> Destination {
        let bytes = ty.checked_bytes().unwrap_or(0);
        Destination { ty, data, bytes, is_written: false }
    }

    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// Returns the memory if the last run wrote it.
    pub fn written(&self) -> Option<*const u8> {
        self.is_written.then_some(self.data.cast_const())
    }

    /// Returns the addresses of its bytes.
    pub fn range(&self) -> Range<usize> {
        self.data.addr()..self.data.addr() + self.bytes
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the contract of `new`.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.bytes) }
    }
}

impl tile_runtime::Destination for Destination {
    fn dtype(&self) -> DType {
        self.ty.dtype
    }

    fn shape(&self) -> Option<&[usize]> {
        Some(&self.ty.shape)
    }

    fn elements(&self) -> usize {
        self.ty.elements()
    }

    fn dense(&mut self) -> Option<&mut [u8]> {
        Some(self.bytes_mut())
    }

    fn copy_from(&mut self, bytes: &[u8]) {
        self.bytes_mut().copy_from_slice(bytes);
    }
}
