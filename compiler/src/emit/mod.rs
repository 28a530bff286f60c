//! Emits IR 2 for devices: a kernel becomes a naga module, and the module a listing in a shading
//! language.
//!
//! Emission decides nothing: every statement of a kernel becomes one of the module, in order.
//! Listings have no bounds checks, loop bounds or zeroing of workgroup memory, since kernels are
//! proven to need none. A kernel has the same listing on every machine, byte for byte.
//!
//! Invariants of a module:
//! - It passes naga's validator.
//! - Buffer n is binding n of group 0. The steps come after the buffers.
//! - The entry point has the name of the kernel.
//! - Values are evaluated at the statements of the kernel that evaluate them.

mod disassembly;
mod index;
mod module;
mod statement;
mod target;
#[cfg(test)]
mod tests;
mod value;

pub use module::module;
pub use target::{Listing, Target, write};

use crate::kernel::Kernel;

/// The reason that a kernel has no module, or no listing for a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kernel `{kernel}`: {message}")]
pub struct EmitError {
    /// Name of the kernel.
    pub kernel: String,
    /// One sentence.
    pub message: String,
}

impl EmitError {
    fn new(kernel: &Kernel, message: impl Into<String>) -> EmitError {
        EmitError { kernel: kernel.name.clone(), message: message.into() }
    }
}
