//! Programs whose weights and intermediate results are stored as 16-bit floats.
#![cfg(feature = "compile")]

mod narrow;

use narrow::{bytes, devices, distance, inputs};
use tile_runtime::{DType, Device, Model, Scalar, Session, Tensor, TensorType};

/// Rows of a table, a loop, a convolution and products.
const MODEL: &str = "
    model Net(Words[N, L], Image[N, 9, 9, 5]) -> (Y, Picture) {
        Rows = Words |> Embedding(101, 24);
        State = Rows |> LSTM(16);
        Picture = Image |> Conv2D(12, 3, activation = \"relu\") |> LayerNormalization();
        Flat = Picture |> Flatten() |> Dense(16);
        Y = (State + Flat) |> Dense(7) |> Softmax();
    }";

fn build(model: &Model, device: &Device, storage: Option<DType>) -> Session {
    let builder = model.on(device).input("Words", TensorType::new(DType::I32, [3, 4]));
    let builder = builder.dim("N", 3);
    let builder = storage.into_iter().fold(builder, |builder, dtype| builder.storage(dtype));
    let mut session = builder.build().unwrap();
    session.initialise(5).unwrap();
    session
}

#[test]
fn results_are_rounded_a_little() {
    let model = Model::compile(MODEL).unwrap();
    let inputs = inputs();
    let run = |session: &mut Session| {
        session.run(inputs.each_ref().map(|(name, value)| (*name, value))).unwrap()
    };
    let expected = run(&mut build(&model, &Device::cpu(), None));
    for device in devices() {
        let wide = build(&model, &device, None);
        for (dtype, bits) in [(DType::F16, 11), (DType::BF16, 8)] {
            let mut session = build(&model, &device, Some(dtype));
            let found = run(&mut session);
            for name in ["Y", "Picture"] {
                let distance = distance(found.get(name).unwrap(), expected.get(name).unwrap());
                // A few roundings, none of which is more than half a unit in the last place.
                let unit = 0.5f64.powi(bits);
                assert!(distance < 4.0 * unit, "{name}: {distance} by {dtype}");
            }
            let (Some(plan), Some(whole)) = (session.plan(), wide.plan()) else { continue };
            if plan.profile.storage(dtype) == Some(dtype) {
                // Biases stay wide.
                assert!(bytes(plan) * 9 < bytes(whole) * 5, "{plan}\n{whole}");
                assert_ne!(found.get("Y").unwrap(), expected.get("Y").unwrap());
            }
        }
    }
}

#[test]
fn weights_are_set_and_read_in_f32() {
    let model = Model::compile(MODEL).unwrap();
    for device in devices() {
        let (mut wide, mut narrow) =
            (build(&model, &device, None), build(&model, &device, Some(DType::F16)));
        assert!(wide.weights().eq(narrow.weights()) && wide.outputs().eq(narrow.outputs()));
        let paths: Vec<String> = wide.weights().map(|(path, _)| path.to_owned()).collect();
        let plan_has_f16 =
            narrow.plan().is_some_and(|plan| plan.profile.storage(DType::F16) == Some(DType::F16));
        let mut rounded = 0;
        for path in &paths {
            let (exact, found) = (wide.get(path).unwrap(), narrow.get(path).unwrap());
            assert_eq!(found.ty(), exact.ty());
            let mut values = exact.scalars().zip(found.scalars());
            let is_rounded = |(exact, found): (Scalar, Scalar)| {
                found == exact || found == exact.cast(DType::F16).cast(DType::F32)
            };
            assert!(values.all(is_rounded), "{path}");
            rounded += usize::from(exact != found);
        }
        // The kernel of the convolution stays f32 on the cpu.
        let narrow_weights = if device.name() == "cpu" { 5 } else { 6 };
        let expected = if plan_has_f16 { narrow_weights } else { 0 };
        assert_eq!(rounded, expected, "the kernels and the table");
        // A session shares the weights of another in either form.
        for (from, to) in [(&narrow, None), (&wide, Some(DType::F16)), (&narrow, Some(DType::F16))]
        {
            let builder = model.on(&device).input("Words", TensorType::new(DType::I32, [3, 4]));
            let builder = to.into_iter().fold(builder.dim("N", 3), |b, dtype| b.storage(dtype));
            let session = builder.weights_of(from).build().unwrap();
            for path in &paths {
                assert_eq!(session.get(path).unwrap(), narrow.get(path).unwrap(), "{path}");
            }
        }
        let other = Tensor::from_f32([16, 7], &[0.1; 112]).unwrap();
        let path = narrow.weights().find(|(_, ty)| ty.shape == [16, 7]).unwrap().0.to_owned();
        for session in [&mut wide, &mut narrow] {
            session.set(&path, &other).unwrap();
        }
        assert_eq!(wide.get(&path).unwrap().to_f64s()[0] as f32, 0.1);
        let expected = if plan_has_f16 { 0.099_975_586 } else { 0.1 };
        assert_eq!(narrow.get(&path).unwrap().to_f64s()[0] as f32, expected);
    }
}
