//! Files that hold tensors.

pub mod npy;
