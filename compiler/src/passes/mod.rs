//! Graph passes, one a file. The order in which they run is in [`crate::pipeline`].

mod fuse;

pub use fuse::{Group, fuse, is_source, storage};
