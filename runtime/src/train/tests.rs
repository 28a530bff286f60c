use std::sync::atomic::Ordering;

use tile_compiler::tensor::Tensor;

use super::dataset::{Arrays, Dataset};
use crate::device::Device;
use crate::model::Model;
use crate::wgpu::Gpu;

const PROGRAM: &str = "
model Network(X[N, 3]) -> (Y) { Y = X |> Dense(8, activation = tanh) |> BatchNormalization() |> Dense(2); }

train Network { loss = MeanSquaredError(); optimizer = Adam(0.01); metrics = [MeanAbsoluteError()]; }
";

/// A step is one submission even if the batch size changes: weights stay on the device.
#[test]
fn a_step_is_one_submission() {
    let Ok(device) = Device::wgpu(0) else { return };
    let Some(gpu) = Gpu::of(&device) else { return };
    let value = |n: usize| ((n * 7919 + 13) % 101) as f32 / 50.0 - 1.0;
    let tensor = |columns: usize| {
        Tensor::from_f32([12, columns], &(0..12 * columns).map(value).collect::<Vec<_>>()).unwrap()
    };
    let data = Arrays::new(tensor(3), tensor(2)).unwrap();
    let mut trainer = Model::compile(PROGRAM).unwrap().trainer(&device).build().unwrap();
    let (whole, part): (Vec<usize>, Vec<usize>) = ((0..8).collect(), (8..12).collect());
    // The first use compiles a step.
    for samples in [&whole, &part] {
        trainer.train_on(&data, data.batch(samples).unwrap()).unwrap();
    }
    let before = gpu.submissions.load(Ordering::Relaxed);
    for samples in [&whole, &whole, &part, &part, &whole, &part] {
        trainer.train_on(&data, data.batch(samples).unwrap()).unwrap();
    }
    trainer.wait().unwrap();
    assert_eq!(gpu.submissions.load(Ordering::Relaxed) - before, 6);
}
