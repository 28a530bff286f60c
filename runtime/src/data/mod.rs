//! Files that hold tensors, and folders that hold samples.

#[cfg(not(target_arch = "wasm32"))]
pub mod folder;
#[cfg(not(target_arch = "wasm32"))]
mod idx;
#[cfg(not(target_arch = "wasm32"))]
mod images;
pub mod npy;
#[cfg(not(target_arch = "wasm32"))]
pub mod picture;
#[cfg(not(target_arch = "wasm32"))]
mod table;
mod whole;

pub use whole::write_whole;
