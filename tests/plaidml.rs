//! Programs written for PlaidML 0.7 give the values that they gave there: golden/plaidml.py has
//! them from NumPy.
//!
//! `CASE=pool cargo test --test plaidml` runs the cases with `pool` in their names.

mod common;

use std::fmt::Write;

use common::ADAPTERS;
use common::golden::{difference, refused, render, tensor_type, text};
use tile_compiler::tensor::Tensor;
use tile_runtime::{Device, Model, Scalar};

/// Parses a tensor such as `f32[2] 1.0 2.0`.
fn tensor(written: &str) -> Tensor {
    let (ty, values) = written.split_once(']').unwrap();
    let ty = tensor_type(&format!("{ty}]"));
    let values = values.split_whitespace().map(|value| Scalar::parse(ty.dtype, value).unwrap());
    Tensor::from_scalars(ty.clone(), values.collect::<Vec<_>>()).unwrap()
}

/// Returns what is wrong with a case on a device.
fn check(program: &str, lines: &[(&str, &str, &str)], device: &Device) -> Result<(), String> {
    let model = Model::compile(program).map_err(|error| render(&error))?;
    let mut builder = model.on(device);
    let mut inputs = Vec::new();
    for (_, name, value) in lines.iter().filter(|line| line.0 == "input") {
        if value.contains('[') {
            inputs.push((*name, tensor(value)));
            builder = builder.input(*name, inputs[inputs.len() - 1].1.ty().clone());
        } else {
            let integer = value.parse().map(Scalar::i32);
            builder = builder
                .constant(*name, integer.unwrap_or_else(|_| Scalar::f32(value.parse().unwrap())));
        }
    }
    let mut session = match builder.build() {
        Err(error) if refused(&error) => return Ok(()),
        session => session.map_err(|error| render(&error))?,
    };
    let outputs = session
        .run(inputs.iter().map(|(name, tensor)| (*name, tensor)))
        .map_err(|error| render(&error))?;
    let mut faults = String::new();
    for (_, name, value) in lines.iter().filter(|line| line.0 == "output") {
        let found = outputs.get(name).ok_or(format!("there is no {name}"))?;
        if let Some(fault) = difference(found, &tensor(value)) {
            let _ = writeln!(faults, "{name} {fault}");
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

#[test]
fn programs_give_what_they_gave() {
    let only = std::env::var("CASE").unwrap_or_default();
    let devices = [vec![Device::reference(), Device::cpu()], ADAPTERS.clone()].concat();
    let mut faults = String::new();
    let file = text("plaidml.txt");
    for block in file.trim_end().split("\n\n") {
        let start = block.find("\ninput ").unwrap();
        let (name, program) = block[..start].split_once('\n').unwrap();
        let name = name.strip_prefix("case ").unwrap();
        let words = block[start + 1..].lines().map(|line| {
            let mut words = line.splitn(3, ' ');
            (words.next().unwrap(), words.next().unwrap(), words.next().unwrap())
        });
        let lines: Vec<(&str, &str, &str)> = words.collect();
        for device in devices.iter().filter(|_| name.contains(&only)) {
            if let Err(fault) = check(program, &lines, device) {
                let _ = writeln!(faults, "{name} on {}: {fault}", device.name());
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}
