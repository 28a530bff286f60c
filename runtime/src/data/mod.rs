//! Files of tensors and folders of samples.

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
pub mod table;
mod whole;

/// Returns the names of the 1,000 classes of ImageNet's challenge (ILSVRC 2012) in the order of
/// their WordNet numbers, in which Keras and torchvision number them. Two classes called "crane"
/// and two called "maillot" have longer names.
pub fn imagenet_classes() -> Vec<String> {
    include_str!("imagenet.txt").lines().map(str::to_owned).collect()
}

pub(crate) use whole::special;
pub use whole::{can_be_written, write_whole};
