//! Devices, inputs and measures for programs whose weights are stored in narrower types.

use tile_compiler::plan::Plan;
use tile_runtime::{DType, Device, Scalar, Tensor, TensorType};

/// Returns every device: also the kernel checker, if it is compiled.
pub fn devices() -> Vec<Device> {
    let names = ["cpu", "check", "wgpu:0"];
    names.iter().filter_map(|name| Device::named(name).ok()).collect()
}

/// Returns three rows of words below 101, and three pictures.
pub fn inputs() -> [(&'static str, Tensor); 2] {
    let words = TensorType::new(DType::I32, [3, 4]);
    let words = Tensor::from_scalars(words, (0..12).map(|at| Scalar::i32(at * 7 % 101))).unwrap();
    let values: Vec<f32> = (0..3 * 9 * 9 * 5).map(|at| (at % 17) as f32 / 8.0 - 1.0).collect();
    [("Words", words), ("Image", Tensor::from_f32([3, 9, 9, 5], &values).unwrap())]
}

/// Returns the greatest difference, as a share of the greatest value.
pub fn distance(found: &Tensor, expected: &Tensor) -> f64 {
    assert_eq!(found.ty(), expected.ty());
    let greatest = expected.to_f64s().into_iter().map(f64::abs).fold(0.0, f64::max);
    let pairs = found.to_f64s().into_iter().zip(expected.to_f64s());
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / greatest
}

/// Returns the bytes of the weights on the device.
pub fn bytes(plan: &Plan) -> u64 {
    plan.weights.iter().map(|weight| plan.buffers[weight.buffer].bytes()).sum()
}
