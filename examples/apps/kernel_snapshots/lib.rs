//! Sharpens pictures on the best device. `tests/kernels.rs` compares the kernels with snapshots, so
//! that a change of the program or of the compiler shows in a review.

use tile_runtime::{Device, Error, Model, Tensor};

/// The program of the filter.
pub const SHARPEN: &str = include_str!("sharpen.tile");

/// Returns a sharpened picture. `image` has the brightness of each pixel, from 0 to 1, as
/// `f32[H, W]`.
///
/// # Errors
/// Returns the errors of the device.
pub fn sharpened(image: &Tensor) -> Result<Tensor, Error> {
    let (model, device) = (Model::compile(SHARPEN)?, Device::best()?);
    let mut session = model.on(&device).input("Image", image.shape()).build()?;
    session.run([("Image", image)])?.remove("Sharp")
}
