//! Random contraction statements, and their gradients, mean the same on every device as the
//! language defines.
//!
//! `PROPTEST_CASES=10000 cargo test --test contractions` tries more of them.

mod common;

use common::ADAPTERS;
use common::generate::statement::Statement;
use common::generate::{config, statement};
use proptest::prelude::*;
use tile_runtime::{DType, Device, Error, Model, Scalar, Tensor, TensorType};

/// Returns what is wrong with a statement on a device.
fn fault(statement: &Statement, device: &Device) -> Option<String> {
    let meaning = statement.meaning();
    let model = match Model::compile(&statement.source) {
        Ok(model) => model,
        // A negative constant as an index leaves no points.
        Err(Error::Program { diagnostics, .. }) if diagnostics[0].code == "E0136" => {
            return (meaning.points > 0).then(|| diagnostics[0].message.clone());
        }
        Err(error) => return Some(error.to_string()),
    };
    let mut builder = model.on(device);
    for (name, tensor) in &statement.inputs {
        builder = builder.input(name, tensor.ty().clone());
    }
    let run = builder.build().and_then(|mut session| {
        session.run(statement.inputs.iter().map(|(name, tensor)| (name.as_str(), tensor)))
    });
    let outputs = match run {
        Ok(_) if !meaning.is_whole => return None,
        Ok(outputs) => outputs,
        Err(Error::Program { diagnostics, .. }) => {
            let error = &diagnostics[0];
            let is_true = !meaning.is_whole
                || match error.code {
                    // A statement without points is refused for either reason.
                    "E0216" => meaning.is_open || meaning.points == 0,
                    "E0217" => meaning.twice || error.message.starts_with("it cannot be shown"),
                    "E0218" => meaning.points == 0,
                    _ => false,
                };
            return (!is_true).then(|| format!("{}: {}", error.code, error.message));
        }
        Err(error) => return Some(error.to_string()),
    };
    for (name, expected) in &meaning.outputs {
        let Some(found) = outputs.get(name) else { return Some(format!("there is no {name}")) };
        let found = found.to_f64s();
        let tolerance = statement.tolerance(name);
        let is_near = |(x, y): (&f64, &f64)| (x - y).abs() <= tolerance;
        if found.len() != expected.len() || !found.iter().zip(expected).all(is_near) {
            return Some(format!("{name} is {found:?}, not {expected:?}"));
        }
    }
    None
}

fn check(statement: &Statement, devices: &[Device]) -> Result<(), TestCaseError> {
    for device in devices {
        prop_assert_eq!(fault(statement, device), None, "on {}", device.name());
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn statements_mean_what_the_language_says(statement in statement::statement()) {
        check(&statement, &[Device::named("reference").unwrap(), Device::cpu()])?;
    }
}

proptest! {
    #![proptest_config(config(48))]

    #[test]
    fn statements_on_the_gpu(statement in statement::statement()) {
        check(&statement, &[Device::named("check").unwrap()])?;
        check(&statement, &ADAPTERS)?;
    }
}

#[test]
fn rows_of_any_length_are_scattered() {
    let kinds = [(DType::F32, '+'), (DType::I32, '+'), (DType::U8, '>'), (DType::F64, '<')];
    for (length, read) in [1, 1024, 1025, 2049, 5000]
        .into_iter()
        .flat_map(|length| ["Z[q, c]", "Z[J[q], c]"].map(|read| (length, read)))
    {
        for (dtype, aggregation) in kinds {
            let source = format!(
                "function f(Z[Q, M], I[Q], J[Q]) -> (Y) {{ Y[I[q], c: 3, M] = {aggregation}({read}); }}"
            );
            let model = Model::compile(&source).unwrap();
            let values = |dtype, shape: &[usize], values: &mut dyn Iterator<Item = i64>| {
                let scalars = values.map(|value| Scalar::from_i64(dtype, value));
                Tensor::from_scalars(TensorType::new(dtype, shape), scalars).unwrap()
            };
            let z = values(dtype, &[4, length], &mut (0..4 * length as i64).map(|i| i * 7 % 61));
            let i = values(DType::I32, &[4], &mut [2, 0, 2, 7].into_iter());
            let j = values(DType::I32, &[4], &mut [3, 1, 0, 9].into_iter());
            let inputs = [("Z", &z), ("I", &i), ("J", &j)];
            let run = |device: Device| {
                let mut builder = model.on(&device);
                for (name, value) in inputs {
                    builder = builder.input(name, value.ty().clone());
                }
                builder.build().unwrap().run(inputs).unwrap().remove("Y").unwrap()
            };
            let found = run(Device::cpu());
            assert_eq!(found, run(Device::reference()), "{source} of {length} {dtype}");
        }
    }
}
