use tile_compiler::dense::Id;
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::kernel::Kernel;
use tile_compiler::plan::{Buffer, BufferId, Content, Plan, Port, Routine, RoutineId, Step, Work};
use tile_compiler::profile::Profile;
use tile_compiler::schedule::Choice;
use tile_compiler::tensor::{Tensor, TensorType};

use crate::Device;
use crate::backend::block_on;
use crate::store::Store;
use crate::wgpu::Gpu;

/// The devices that run kernels: the checker, and whichever adapter is there.
fn devices() -> Vec<Device> {
    let adapter = Device::wgpu(0).into_iter().flat_map(|device| [device.clone(), device.checked()]);
    std::iter::once(Device::check(Profile::generic())).chain(adapter).collect()
}

fn tensor(dtype: DType, values: &[f64]) -> Tensor {
    Tensor::from_scalars(
        TensorType::new(dtype, [values.len()]),
        values.iter().map(|&v| Scalar::from_f64(dtype, v)),
    )
    .unwrap()
}

fn buffer(dtype: DType, storage: DType, content: Content) -> Buffer {
    Buffer { ty: TensorType::new(dtype, [5]), storage, content }
}

fn routine(kernel: &str) -> Routine {
    let kernel = Kernel::parse(kernel).unwrap();
    // The kernel decides the result, not this work.
    let work = Work::PrngState { elements: 0 };
    Routine {
        name: kernel.name.clone(),
        work,
        schedule: None,
        choice: Choice::Predicted,
        kernel: Some(kernel),
        native: None,
    }
}

fn step(operands: &[usize], routine: usize, outputs: &[usize]) -> Step {
    let values = vec!["step".into(); outputs.len()];
    let [operands, outputs] =
        [operands, outputs].map(|numbers| numbers.iter().copied().map(BufferId::new).collect());
    Step { values, fused: vec![], routine: RoutineId::new(routine), operands, outputs }
}

fn port(name: &str, dtype: DType, shape: &[usize], buffer: usize) -> Port {
    Port {
        name: name.into(),
        ty: TensorType::new(dtype, shape),
        whole: None,
        buffer: BufferId::new(buffer),
    }
}

/// `T = X * C; Y = T > 2; Z = T - X`, with X u8 and Y bool, both stored as u32. T lives in a slot
/// larger than itself.
fn plan() -> Plan {
    Plan {
        name: "test".into(),
        profile: Profile::generic(),
        buffers: vec![
            buffer(DType::U8, DType::U32, Content::Input),
            buffer(
                DType::F32,
                DType::F32,
                Content::Constant(tensor(DType::F32, &[0.5, 1.0, 1.5, 2.0, 2.5])),
            ),
            buffer(DType::F32, DType::F32, Content::Temporary { slot: 0 }),
            buffer(DType::Bool, DType::U32, Content::Output),
            buffer(DType::F32, DType::F32, Content::Output),
        ]
        .into(),
        slots: vec![32],
        routines: vec![
            routine(
                "kernel scale workgroup(8, 1, 1) grid(1, 1, 1) {
                    read x: u32[5];
                    read c: f32[5];
                    write t: f32[5];
                    let i = local.x;
                    if i < 5 {
                        t[i] = f32(x[i]) * c[i];
                    }
                }",
            ),
            routine(
                "kernel above workgroup(4, 1, 1) grid(2, 1, 1) {
                    read t: f32[5];
                    write y: u32[5];
                    let i = workgroup.x * 4 + local.x;
                    if i < 5 {
                        y[i] = u32(t[i] > 2.0);
                    }
                }",
            ),
            routine(
                "kernel difference workgroup(8, 1, 1) grid(1, 1, 1) {
                    read t: f32[5];
                    read x: u32[5];
                    write z: f32[5];
                    let i = local.x;
                    if i < 5 {
                        z[i] = t[i] - f32(x[i]);
                    }
                }",
            ),
        ]
        .into(),
        prelude: vec![],
        updates: vec![],
        loops: Vec::new(),
        steps: vec![step(&[0, 1], 0, &[2]), step(&[2], 1, &[3]), step(&[2, 0], 2, &[4])],
        inputs: vec![port("X", DType::U8, &[5], 0)],
        weights: vec![],
        // An output may be an input or a constant, and two may share a buffer, in different shapes.
        outputs: vec![
            port("Y", DType::Bool, &[5], 3),
            port("Z", DType::F32, &[5], 4),
            port("Column", DType::F32, &[5, 1], 4),
            port("Same", DType::U8, &[1, 5], 0),
            port("C", DType::F32, &[5], 1),
        ],
    }
}

#[test]
fn a_plan_runs_the_same_on_every_device() {
    for device in devices() {
        let mut executable = block_on(device.0.compile(plan(), &mut Store::default())).unwrap();
        for x in [[1.0, 2.0, 3.0, 4.0, 255.0], [9.0, 0.0, 1.0, 1.0, 1.0]] {
            block_on(executable.set(0, &tensor(DType::U8, &x))).unwrap();
            let outputs = block_on(executable.run(&[])).unwrap();
            let c = [0.5, 1.0, 1.5, 2.0, 2.5];
            let t = [0, 1, 2, 3, 4].map(|i| x[i] * c[i]);
            let z = [0, 1, 2, 3, 4].map(|i| t[i] - x[i]);
            assert_eq!(
                outputs[0],
                tensor(DType::Bool, &t.map(|t| f64::from(t > 2.0))),
                "{}",
                device.name()
            );
            assert_eq!(outputs[1], tensor(DType::F32, &z));
            assert_eq!(outputs[2].shape(), [5, 1]);
            assert_eq!(outputs[2].bytes(), outputs[1].bytes());
            assert_eq!(outputs[3].to_f64s(), x);
            assert_eq!(outputs[4].to_f64s(), c);
        }
    }
}

/// A failure of a device is an error that gives the reason.
#[test]
fn a_device_that_fails_says_why() {
    let error = |device: &Device, plan: Plan| {
        let executable = block_on(device.0.compile(plan, &mut Store::default()));
        executable.and_then(|mut executable| block_on(executable.run(&[]))).unwrap_err().to_string()
    };
    let first = RoutineId::new(0);
    let mut unwritten = plan();
    let scale = unwritten.routines[first].kernel.as_ref().unwrap().to_string();
    unwritten.routines[first].kernel =
        Some(Kernel::parse(&scale.replace("i < 5", "i < 4")).unwrap());
    insta::assert_snapshot!(error(&Device::check(Profile::generic()), unwritten), @"internal error, please report it: kernel scale: bytes 16 to 20 of binding 2 are never written");
    let Ok(device) = Device::wgpu(0) else { return };
    let mut large = plan();
    large.slots[0] = u64::MAX / 8;
    let error_of_large = error(&device, large);
    // The size of the host's memory is known.
    let is_refused =
        error_of_large.starts_with("wgpu:0 has too little memory left for a run that takes ");
    let text = "wgpu:0 failed to allocate the program's buffers: ";
    assert!(is_refused || error_of_large.starts_with(text), "{error_of_large}");
    let mut wide = plan();
    wide.routines[first].kernel.as_mut().unwrap().workgroup = [1 << 14, 1, 1];
    assert!(error(&device, wide).starts_with("wgpu:0 failed to compile the program's kernels: "));
}

/// The loss of a device during a session is an error of that run and of all that follow.
#[test]
fn a_lost_device_is_an_error() {
    let Ok(device) = Device::wgpu(0) else { return };
    let Some(gpu) = Gpu::of(&device) else { return };
    let mut executable = block_on(device.0.compile(plan(), &mut Store::default())).unwrap();
    gpu.device.destroy();
    for _ in 0..2 {
        let _ = block_on(executable.set(0, &tensor(DType::U8, &[0.0; 5])));
        assert!(block_on(executable.run(&[])).is_err());
    }
    assert!(block_on(device.0.compile(plan(), &mut Store::default())).is_err());
}
