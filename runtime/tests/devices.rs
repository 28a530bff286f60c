//! Tests of programs through the public API, on every device of this machine.
#![cfg(feature = "check")]

use tile_runtime::{Blame, DType, Device, Error, Model, Scalar, Tensor, TensorType};

/// Returns all devices, including the first adapter if there is one, perhaps a software adapter.
fn devices() -> Vec<Device> {
    let named = ["reference", "cpu", "check", "wgpu:0"]
        .into_iter()
        .filter_map(|name| Device::named(name).ok());
    named.collect()
}

/// Returns unstructured values, small enough that sums of their products are exact.
fn values(ty: &TensorType, seed: u64) -> Tensor {
    let value = |i: u64| ((i + seed).wrapping_mul(0x9e3779b97f4a7c15) >> 60) as i64 - 7;
    let scalars = (0..ty.elements() as u64).map(|i| Scalar::from_i64(DType::I64, value(i)));
    Tensor::from_scalars(ty.clone(), scalars).unwrap()
}

/// Runs the program on every device that has the inputs' types. Returns the common results.
fn run(source: &str, shapes: &[(&str, TensorType)]) -> Vec<(String, Tensor)> {
    let model = Model::compile(source).unwrap();
    let mut results: Vec<Vec<(String, Tensor)>> = Vec::new();
    for device in devices() {
        if shapes.iter().any(|(_, ty)| device.profile().storage(ty.dtype).is_none()) {
            continue;
        }
        let mut builder = model.on(&device);
        for (name, ty) in shapes {
            builder = builder.input(*name, ty.clone());
        }
        let mut session = builder
            .build()
            .unwrap_or_else(|e| panic!("{}: {}", device.name(), e.render("test", false)));
        let inputs: Vec<_> =
            shapes.iter().zip(0..).map(|((name, ty), seed)| (*name, values(ty, seed))).collect();
        let outputs =
            session.run(inputs).unwrap_or_else(|error| panic!("{}: {error}", device.name()));
        let outputs: Vec<_> = outputs.into_iter().collect();
        if let Some(reference) = results.first() {
            assert_eq!(&outputs, reference, "{}", device.name());
        }
        results.push(outputs);
    }
    results.swap_remove(0)
}

#[test]
fn a_matrix_product_is_the_same_everywhere() {
    let source =
        "function matmul(A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";
    for (m, l, n) in [(4, 4, 4), (64, 64, 64), (1, 7, 1), (37, 41, 29), (130, 70, 5)] {
        let f32 = |shape: [usize; 2]| TensorType::new(DType::F32, shape);
        let outputs = run(source, &[("A", f32([m, l])), ("B", f32([l, n]))]);
        assert_eq!(outputs[0].1.shape(), [m, n]);
    }
}

#[test]
fn every_element_type_is_the_same_everywhere() {
    let source = "function f(X[N], Y[N]) -> (Sum, Big, Z) { Sum[: ] = +(X[i]); Big = X > Y; Z = X * Y + X; }";
    for dtype in DType::ALL {
        let ty = TensorType::new(dtype, [100]);
        run(source, &[("X", ty.clone()), ("Y", ty)]);
    }
}

#[test]
fn empty_tensors_run() {
    let outputs = run(
        "function f(X[N, M]) -> (Sum, Y) { Sum[j: M] = +(X[i, j]); Y = X + 1.0; }",
        &[("X", TensorType::new(DType::F32, [0, 3]))],
    );
    assert_eq!(outputs[0].1, Tensor::from_f32([3], &[0.0; 3]).unwrap());
    assert_eq!(outputs[1].1.shape(), [0, 3]);
}

#[test]
fn inputs_stay_once_they_are_set() {
    let model = Model::compile("function f(X[N], W[N]) -> (Y) { Y = X * W; }").unwrap();
    let vector = |values: [f32; 2]| Tensor::from_f32([2], &values).unwrap();
    for device in devices() {
        let mut session = model.on(&device).dim("N", 2).build().unwrap();
        session.set("W", &vector([2.0, 3.0])).unwrap();
        assert_eq!(
            session.run([("X", vector([1.0, 1.0]))]).unwrap().remove("Y").unwrap(),
            vector([2.0, 3.0])
        );
        assert_eq!(
            session.run([("X", vector([5.0, 1.0]))]).unwrap().remove("Y").unwrap(),
            vector([10.0, 3.0])
        );
        assert!(matches!(session.execute(), Err(Error::MissingInput { name, .. }) if name == "X"));
        session.set("X", &vector([0.5, 0.5])).unwrap();
        session.execute().unwrap();
        assert_eq!(session.read().unwrap().remove("Y").unwrap(), vector([1.0, 1.5]));
    }
}

#[test]
fn what_is_given_wrongly_is_said_by_name() {
    let model = Model::compile("function f(X[N], W[N]) -> (Y) { Y = X * W; }").unwrap();
    let mut session = model.on(&Device::cpu()).dim("N", 2).build().unwrap();
    let x = Tensor::from_f32([2], &[1.0, 2.0]).unwrap();
    let wrong = Tensor::from_f32([3], &[1.0, 2.0, 3.0]).unwrap();
    let mut error = |inputs: &[(&str, &Tensor)]| {
        let error = session.run(inputs.iter().copied()).unwrap_err();
        assert_eq!(error.blame(), Blame::Input);
        error.to_string()
    };
    insta::assert_snapshot!(error(&[("X", &x)]), @"input `W` is missing; it is f32[2]");
    insta::assert_snapshot!(error(&[("X", &x), ("V", &x)]), @"there is no input `V`; the inputs are X, W");
    insta::assert_snapshot!(error(&[("X", &x), ("W", &wrong)]), @"input `W` must be f32[2], but is f32[3]");
}

#[test]
fn a_program_that_the_device_cannot_hold_is_refused_where_it_stands() {
    let model = Model::compile("function f(X[N]) -> (Y) { Y[] = argmax(X[i]); }").unwrap();
    let device = Device::named("check").unwrap();
    let error = model.on(&device).dim("N", 1 << 26).build().map(|_| ()).unwrap_err();
    assert_eq!(error.blame(), Blame::Input);
    insta::assert_snapshot!(error.render("big.tile", false), @"
    [E0290] Error: `X` is f32[67108864], 268435456 bytes: `generic` holds at most 134217728 bytes in a buffer
       ╭─[ big.tile:1:12 ]
       │
     1 │ function f(X[N]) -> (Y) { Y[] = argmax(X[i]); }
       │            ──┬─
       │              ╰─── here
       │
       │ Help: use smaller sizes, or the device `cpu`
    ───╯
    ");
    let error = model
        .on(&device)
        .input("X", TensorType::new(DType::F64, [4]))
        .build()
        .map(|_| ())
        .unwrap_err();
    insta::assert_snapshot!(error.render("big.tile", false), @"
    [E0291] Error: `X` can't run on `generic`: it has no tensors of type f64
       ╭─[ big.tile:1:12 ]
       │
     1 │ function f(X[N]) -> (Y) { Y[] = argmax(X[i]); }
       │            ──┬─
       │              ╰─── here
       │
       │ Help: use the device `cpu`, which has every type
    ───╯
    ");
}

#[test]
fn devices_have_names() {
    let list = Device::list();
    assert_eq!(list[0].name, "cpu");
    assert_eq!(list.iter().filter(|device| device.default).count(), 1);
    // A software adapter is never the default.
    assert!(list.iter().all(|device| !(device.default && device.kind == "software")));
    for info in &list {
        assert_eq!(Device::named(&info.name).unwrap().name(), info.name);
    }
    let error = |name: &str| Device::named(name).map(|_| ()).unwrap_err().to_string();
    insta::assert_snapshot!(error("gpu"), @"there is no device `gpu`: the names are cpu, wgpu, wgpu:N, reference and check");
    assert!(error("wgpu:999").starts_with("there is no device `wgpu:999`: "));
}
