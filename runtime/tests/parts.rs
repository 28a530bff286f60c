//! Programs with tensors that are larger than a buffer which the device can bind: they run in
//! parts, and an app sees whole tensors.
#![cfg(all(feature = "wgpu", feature = "train"))]

mod adapter;

use tile_runtime::train::{Arrays, Fit};
use tile_runtime::{DType, Device, Error, Model, Scalar, Tensor, TensorType};

/// The most bytes of a buffer.
const MOST: u64 = 32768;

/// Opens the first adapter, with small buffers. Returns `None` if there is none.
fn open() -> Option<(Device, wgpu::Device)> {
    let (device, _, tile) = adapter::open(|limits| limits.max_storage_buffer_binding_size = MOST)?;
    Some((tile, device))
}

/// Rows of a table, their mean, and a dense layer with a large weight; a large input and output.
const MODEL: &str = "
    model Net(Words[N, L], X[N, D]) -> (Y, Z) {
        Rows = Words |> Embedding(3001, 12);
        Mean = Rows |> GlobalAveragePooling1D();
        Y = (Mean |> Dense(37)) + (X |> Dense(37));
        Z = 2 * X + 1;
    }";

fn words(shape: [usize; 2]) -> Tensor {
    let word = |at: usize| Scalar::i32((at as i32 * 7919 + 13) % 3001);
    let ty = TensorType::new(DType::I32, shape);
    Tensor::from_scalars(ty.clone(), (0..ty.elements()).map(word)).unwrap()
}

fn values(shape: [usize; 2]) -> Tensor {
    let value = |at: usize| ((at * 7919 + 13) % 101) as f32 / 50.0 - 1.0;
    let elements = shape[0] * shape[1];
    Tensor::from_f32(shape, &(0..elements).map(value).collect::<Vec<_>>()).unwrap()
}

fn assert_close(found: &Tensor, expected: &Tensor, tolerance: f64) {
    assert_eq!(found.ty(), expected.ty());
    for (a, b) in found.to_f64s().into_iter().zip(expected.to_f64s()) {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{a}, and expected {b}");
    }
}

#[test]
fn an_app_sees_whole_tensors() {
    let Some((device, raw)) = open() else { return };
    let model = Model::compile(MODEL).unwrap();
    let inputs = [("Words", words([5, 4])), ("X", values([5, 2003]))];
    let build = |device: &Device| {
        let builder = model.on(device).input("Words", TensorType::new(DType::I32, [5, 4]));
        let mut session = builder.input("X", [5, 2003]).build().unwrap();
        session.initialise(3).unwrap();
        session
    };
    let (mut session, mut cpu) = (build(&device), build(&Device::cpu()));
    let parts = session.plan().unwrap().given().filter(|port| port.whole.is_some()).count();
    assert_eq!(parts, 5 + 10 + 2, "{}", session.plan().unwrap());
    assert!(session.weights().eq(cpu.weights()) && session.inputs().eq(cpu.inputs()));
    let run = |session: &mut tile_runtime::Session| {
        session.run(inputs.each_ref().map(|(name, x)| (*name, x))).unwrap()
    };
    let (found, expected) = (run(&mut session), run(&mut cpu));
    for name in ["Y", "Z"] {
        assert_close(found.get(name).unwrap(), expected.get(name).unwrap(), 1e-5);
    }
    // Weights and inputs are set and read whole; the latter stay.
    let path = session.weights().find(|(_, ty)| ty.shape == [3001, 12]).unwrap().0.to_owned();
    assert_eq!(session.get(&path).unwrap(), cpu.get(&path).unwrap());
    let other = values([3001, 12]);
    for session in [&mut session, &mut cpu] {
        session.set(&path, &other).unwrap();
        inputs.iter().for_each(|(name, value)| session.set(name, value).unwrap());
        session.execute().unwrap();
    }
    assert_eq!(session.get(&path).unwrap(), other);
    assert_close(
        &session.read().unwrap().remove("Y").unwrap(),
        &cpu.read().unwrap().remove("Y").unwrap(),
        1e-5,
    );
    let later =
        pollster::block_on(session.run_async(inputs.each_ref().map(|(name, x)| (*name, x))));
    assert_close(later.unwrap().get("Z").unwrap(), expected.get("Z").unwrap(), 0.0);
    // Another session has the same weights.
    let builder = model.on(&device).input("Words", TensorType::new(DType::I32, [2, 4]));
    let mut shared = builder.input("X", [2, 2003]).weights_of(&session).build().unwrap();
    let less = [("Words", words([2, 4])), ("X", values([2, 2003]))];
    let found = shared.run(less.each_ref().map(|(name, x)| (*name, x))).unwrap();
    let rows = &cpu.read().unwrap().remove("Y").unwrap().to_f64s()[..37];
    for (a, b) in found.get("Y").unwrap().to_f64s().iter().zip(rows) {
        assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{a}, and expected {b}");
    }
    // No one buffer is an input in parts.
    let buffer = raw.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: 5 * 2003 * 4,
        usage: wgpu::BufferUsages::STORAGE,
        mapped_at_creation: false,
    });
    let refused = session.bind("X", buffer.slice(..)).unwrap_err();
    assert!(matches!(refused, Error::Bind { .. }));
    assert!(refused.to_string().contains("it is in several buffers"));
}

#[test]
fn training_changes_weights_in_parts() {
    let Some((device, _)) = open() else { return };
    let source = "
        model Net(Words[N, 4]) -> (Y) {
            Y = Words |> Embedding(3001, 12) |> Flatten() |> Dense(300, activation = relu) |> Dense(3);
        }
        train Net {
            loss = SparseCategoricalCrossentropy(from_logits = true);
            optimizer = Adam(0.01);
        }";
    let model = Model::compile(source).unwrap();
    let classes = (0..24).map(|at| Scalar::i32(at % 3));
    let classes = Tensor::from_scalars(TensorType::new(DType::I32, [24]), classes).unwrap();
    let samples = Arrays::new(words([24, 4]), classes).unwrap();
    let train = |device: &Device| {
        let mut trainer = model.trainer(device).build().unwrap();
        let history = trainer.fit(&samples, Fit::epochs(3).batch_size(10)).unwrap();
        let losses: Vec<f64> = history.iter().map(|epoch| epoch.get("loss").unwrap()).collect();
        (losses, trainer.weights().unwrap(), trainer.evaluate(&samples, 7).unwrap()[0].1.number())
    };
    let (cpu, gpu) = (train(&Device::cpu()), train(&device));
    assert!(gpu.0[2] < gpu.0[0]);
    for (a, b) in gpu.0.iter().chain(&gpu.2).zip(cpu.0.iter().chain(&cpu.2)) {
        assert!((a - b).abs() < 1e-4, "{a}, and expected {b}");
    }
    assert_eq!(gpu.1.len(), cpu.1.len());
    for ((path, found), (other, expected)) in gpu.1.iter().zip(&cpu.1) {
        assert_eq!(path, other);
        assert_close(found, expected, 1e-3);
    }
}
