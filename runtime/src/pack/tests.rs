//! Packs that were damaged, or made by someone else.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use super::{PackBuilder, PackTarget};
use crate::builder::SessionBuilder;
use crate::device::Device;
use crate::error::Error;
use crate::model::Model;
use tile_compiler::emit::Target;
use tile_compiler::profile::Profile;

const PROGRAM: &str = "
model Small(X[N, 6, 6, 2]) -> (Y, Z) {
    H = X |> Conv2D(3, [3, 3], activation = relu) |> MaxPool2D([2, 2]) |> Flatten;
    Y = H |> Dense(5, activation = softmax);
    Z[n: N] = argmax(Y[n, c]);
}
";

/// Returns a pack of this program, with its weights.
fn packed(source: &str, build: impl Fn(SessionBuilder) -> SessionBuilder) -> PackBuilder {
    let (model, device) = (Model::compile(source).unwrap(), Device::cpu());
    let mut pack = PackBuilder::new(&[PackTarget::Cpu, PackTarget::Gpu(Target::Wgsl)]);
    pack.add(&build(model.on(&device))).unwrap();
    let mut session = build(model.on(&device)).build().unwrap();
    session.initialise(1).unwrap();
    pack.add_weights(&session).unwrap();
    pack
}

fn small() -> PackBuilder {
    packed("function f(X[N], W[N]) -> (Y) { Y = exp(X) * W + 0.5; }", |b| b.dim("N", 7))
}

fn build(bytes: Vec<u8>, device: &Device) -> Result<(), Error> {
    Model::from_pack(bytes)?.on(device).build().map(drop)
}

#[test]
fn every_damaged_byte_is_found() {
    let bytes = small().to_bytes().unwrap();
    assert!(build(bytes.clone(), &Device::cpu()).is_ok());
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        let error = Model::from_pack(damaged).unwrap_err();
        assert!(matches!(error, Error::Pack { .. }), "byte {place}: {error}");
    }
    for length in (0..bytes.len()).step_by(97) {
        assert!(Model::from_pack(&bytes[..length]).is_err(), "the first {length} bytes");
    }
}

/// Calls `visit` with each number of a document, which it may change.
fn each_number(value: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    match value {
        Value::Number(_) => visit(value),
        Value::Array(items) => items.iter_mut().for_each(|item| each_number(item, visit)),
        Value::Object(items) => items.values_mut().for_each(|item| each_number(item, visit)),
        _ => {}
    }
}

/// Changes each number of each plan. The checksum is right, so that the plan is read. It must be
/// refused or accepted without a panic.
#[test]
fn changed_plans_do_not_panic() {
    let pack = packed(PROGRAM, |builder| builder.dim("N", 2));
    let devices = [Device::cpu(), Device::check(Profile::generic())];
    for (number, device) in devices.iter().enumerate() {
        change_each_number(&pack, number, device);
    }
}

fn change_each_number(pack: &PackBuilder, number: usize, device: &Device) {
    let name = format!("/plans/{number}");
    let plan: Value = serde_json::from_slice(pack.parts[&name].bytes()).unwrap();
    let mut count = 0;
    each_number(&mut plan.clone(), &mut |_| count += 1);
    assert!(count > 100);
    for changed in 0..count {
        for other in [0u64, 1, 3, u64::from(u32::MAX), 1 << 62] {
            let mut document = plan.clone();
            let mut number = 0;
            each_number(&mut document, &mut |value| {
                if number == changed {
                    *value = other.into();
                }
                number += 1;
            });
            let mut pack = pack.clone();
            pack.part(name.clone(), serde_json::to_vec(&document).unwrap());
            let bytes = pack.to_bytes().unwrap();
            let built = catch_unwind(AssertUnwindSafe(|| _ = build(bytes, device)));
            assert!(built.is_ok(), "number {changed} of plan {name} as {other}: {document}");
        }
    }
}

/// A GPU of a family runs the plan for it, and others that for `generic`.
#[test]
fn plans_for_families_are_chosen_by_the_device() {
    let source = "function f(X[N, K], W[K, M]) -> (Y) { Y[n, m: N, M] = +(X[n, k] * W[k, m]); }";
    let (model, device) = (Model::compile(source).unwrap(), Device::cpu());
    let sizes = [("N", 131), ("K", 67), ("M", 129)];
    let pack = |targets: &[&str]| {
        let targets: Vec<_> = targets.iter().map(|name| PackTarget::parse(name).unwrap()).collect();
        let mut pack = PackBuilder::new(&targets);
        let builder = sizes.iter().fold(model.on(&device), |on, &(name, size)| on.dim(name, size));
        pack.add(&builder).unwrap();
        Model::from_pack(pack.to_bytes().unwrap()).unwrap()
    };
    let both = pack(&["amd-gcn", "wgsl"]);
    let families: Vec<&str> =
        both.pack().unwrap().index().plans.iter().map(|plan| plan.family.as_str()).collect();
    assert_eq!(families, ["amd-gcn", "generic"]);
    let amd = Profile::amd_gcn();
    let smaller = Profile { max_shared_bytes: amd.max_shared_bytes / 2, ..amd.clone() };
    for (profile, family) in
        [(amd.clone(), "amd-gcn"), (Profile::nvidia(), "generic"), (smaller.clone(), "generic")]
    {
        let device = Device::check(profile);
        let session = both.on(&device).build().unwrap();
        assert_eq!(session.plan().unwrap().profile.name, family);
    }
    let lone = pack(&["amd-gcn"]);
    assert!(lone.on(&Device::check(amd)).build().is_ok());
    insta::assert_snapshot!(
        lone.on(&Device::check(smaller)).build().err().unwrap(),
        @"the pack has plans for other GPUs only: build it with `--target wgsl` for this device"
    );
}
