//! From IR 2 to what devices take: a kernel becomes a naga module, and the module a listing in a shading language.
//!
//! Nothing is decided here: every statement of a kernel is one of the module, in order. Listings are written without
//! bounds checks, loop bounds, or zeroing of workgroup memory, as kernels are proven to need none; they are the same
//! bytes for the same kernel, everywhere.
//!
//! Always true of a module: it passes naga's validator; buffer number n is binding n of group 0, and the steps come after
//! the buffers; the entry point has the kernel's name; a value evaluated by a statement of the kernel is evaluated there.

mod disassembly;
mod index;
mod module;
mod statement;
mod target;
#[cfg(test)]
mod tests;
mod value;

use std::fmt;

pub use module::module;
pub use target::{Listing, Target, write};

use crate::kernel::Kernel;

/// Why a kernel has no module, or no listing for a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmitError {
    /// The kernel's name.
    pub kernel: String,
    /// One sentence.
    pub message: String,
}

impl EmitError {
    fn new(kernel: &Kernel, message: impl Into<String>) -> EmitError {
        EmitError { kernel: kernel.name.clone(), message: message.into() }
    }
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}`: {}", self.kernel, self.message)
    }
}

impl std::error::Error for EmitError {}
