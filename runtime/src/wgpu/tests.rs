//! Tests with devices that an app destroys between the calls of a run.

use std::sync::atomic::Ordering;

use tile_compiler::tensor::Tensor;

use super::executable::GpuExecutable;
use super::gpu::Gpu;
use crate::backend::block_on;
use crate::device::Device;
use crate::error::Error;
use crate::model::Model;
use crate::store::Store;

/// Returns a program on an app's device without an error handler. `None` without an adapter.
fn executable() -> Option<(wgpu::Device, GpuExecutable)> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends: wgpu::Backends::PRIMARY,
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    let adapter =
        block_on(instance.enumerate_adapters(wgpu::Backends::PRIMARY)).into_iter().next()?;
    let (raw, queue) = block_on(adapter.request_device(&wgpu::DeviceDescriptor::default())).ok()?;
    let device = Device::from_wgpu(adapter, raw.clone(), queue).ok()?;
    let model = Model::compile("function f(X[N]) -> (Y) { Y = X + 1; }").unwrap();
    let plan = model.on(&device).input("X", [64]).build().unwrap().plan()?.clone();
    let gpu = Gpu::of(&device)?;
    let mut executable =
        block_on(GpuExecutable::new(gpu.clone(), plan, false, None, &mut Store::default()))
            .unwrap();
    block_on(executable.set(0, &Tensor::from_f32([64], &[1.0; 64]).unwrap())).unwrap();
    Some((raw, executable))
}

#[track_caller]
fn lost<T>(result: Result<T, Error>) -> String {
    match result {
        Err(error @ Error::DeviceLost { .. }) => error.to_string(),
        Err(error) => panic!("a lost device failed otherwise: {error}"),
        Ok(_) => panic!("a lost device gave a result"),
    }
}

#[test]
fn a_device_may_be_lost_at_any_moment_of_a_run() {
    if executable().is_none() {
        return println!("note: there is no adapter");
    }
    // The device is lost before commands are recorded, between their submission and the mapping of
    // results, and before a run whose results are not read.
    let moments: [fn(&wgpu::Device, &mut GpuExecutable) -> String; 3] = [
        |raw, executable| {
            raw.destroy();
            lost(block_on(executable.run()))
        },
        |raw, executable| {
            let targets = executable.take_readbacks().unwrap();
            let submission = block_on(executable.submit(true, &targets)).unwrap();
            raw.destroy();
            let mappings = executable.map(&targets);
            let waited = executable.gpu.wait(submission);
            lost(block_on(executable.collect(targets, mappings, waited)))
        },
        |raw, executable| {
            raw.destroy();
            // Nothing is read: only a query finds the loss.
            lost(block_on(executable.repeat(1)))
        },
    ];
    for moment in moments {
        let (raw, mut executable) = executable().unwrap();
        let error = moment(&raw, &mut executable);
        assert_eq!(lost(block_on(executable.run())), error);
        assert_eq!(lost(block_on(executable.step(&[0]))), error);
        assert_eq!(lost(block_on(executable.get(0))), error);
    }
    // A mapping made before the loss may still succeed.
    let (raw, mut executable) = executable().unwrap();
    let watched = block_on(executable.step(&[0])).unwrap();
    raw.destroy();
    match block_on(watched.take()) {
        Ok(outputs) => assert_eq!(outputs[0].to_f64s(), [2.0; 64]),
        error => _ = lost(error),
    }
    lost(block_on(executable.run()));
}

/// Commands that an app submits itself are neither submitted nor waited for here.
#[test]
fn encode_neither_submits_nor_waits() {
    let Some((raw, mut executable)) = executable() else {
        return println!("note: there is no adapter");
    };
    let counts = |executable: &GpuExecutable| {
        let Gpu { submissions, waits, .. } = &*executable.gpu;
        [submissions, waits].map(|count| count.load(Ordering::Relaxed))
    };
    let before = counts(&executable);
    let mut encoder = raw.create_command_encoder(&Default::default());
    for _ in 0..10 {
        executable.encode(&mut encoder).unwrap();
    }
    assert_eq!(counts(&executable), before);
    let submission = executable.gpu.queue.submit([encoder.finish()]);
    executable.gpu.wait(submission).unwrap();
    assert_eq!(block_on(executable.read()).unwrap()[0].to_f64s(), [2.0; 64]);
    // The read, and both waits.
    assert_eq!(counts(&executable), [before[0] + 1, before[1] + 2]);
}
