//! Random contraction statements, and their gradients, mean the same on every device as the
//! language defines.
//!
//! `PROPTEST_CASES=10000 cargo test --test contractions` tries more of them.

mod common;

use common::ADAPTERS;
use common::generate::statement::Statement;
use common::generate::{config, statement};
use proptest::prelude::*;
use tile_runtime::{Device, Error, Model};

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
