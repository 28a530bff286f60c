//! Files of tensors and folders of samples.

#[cfg(feature = "data")]
pub mod folder;
#[cfg(feature = "data")]
mod idx;
#[cfg(feature = "data")]
mod images;
#[cfg(feature = "data")]
mod mask;
#[cfg(feature = "data")]
mod named;
#[cfg(feature = "data")]
pub mod picture;
#[cfg(feature = "data")]
pub mod table;

pub use crate::files::npy;
#[cfg(feature = "write")]
pub use crate::files::{can_be_written, write_whole};

/// Returns the names of the 1,000 classes of ImageNet's challenge (ILSVRC 2012) in the order of
/// their WordNet numbers, in which Keras and torchvision number them. Two classes called "crane"
/// and two called "maillot" have longer names.
#[cfg(feature = "data")]
pub fn imagenet_classes() -> Vec<String> {
    include_str!("imagenet.txt").lines().map(str::to_owned).collect()
}
