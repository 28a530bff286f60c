//! Random graphs give the same on every device: the reference interpreter, the kernel checker, the cpu, and each adapter
//! that wgpu finds.

mod common;

use common::ADAPTERS;
use common::generate::{self, Case, config, difference};
use proptest::prelude::*;
use tile_compiler::interpret;
use tile_compiler::tensor::Tensor;
use tile_runtime::{Device, Error, Session};

/// What is wrong with a case on a device. A device may refuse a type by its name.
fn fault(case: &Case, device: &Device) -> Option<String> {
    let expected = interpret::run(&case.graph, &case.inputs).unwrap();
    let run = |mut session: Session| {
        session.run(case.inputs.iter().map(|(name, tensor)| (name, tensor)))?;
        // Again with weights as they are: what follows from them alone is not computed again.
        let inputs: Vec<String> = session.inputs().map(|(name, _)| name.to_owned()).collect();
        let is_input = |(name, _): &&(String, Tensor)| inputs.contains(name);
        session.run(case.inputs.iter().filter(is_input).map(|(name, tensor)| (name, tensor)))
    };
    match Session::of_graph(case.graph.clone(), device).and_then(run) {
        Ok(outputs) => difference(case, &expected, &outputs.into_iter().collect::<Vec<_>>()),
        Err(Error::Program { diagnostics, .. }) if diagnostics.iter().all(|d| matches!(d.code, "E0290" | "E0291")) => {
            None
        }
        Err(error) => Some(error.to_string()),
    }
}

fn check(case: &Case, devices: &[Device]) -> Result<(), TestCaseError> {
    for device in devices {
        prop_assert_eq!(fault(case, device), None, "on {}", device.name());
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn contractions_on_the_cpu(case in generate::contraction()) {
        check(&case, &[Device::cpu()])?;
    }

    #[test]
    fn elementwise_on_the_cpu(case in generate::elementwise()) {
        check(&case, &[Device::cpu()])?;
    }

    #[test]
    fn chains_on_the_cpu(case in generate::chain()) {
        check(&case, &[Device::cpu()])?;
    }

    #[test]
    fn networks_on_the_cpu(case in generate::network()) {
        check(&case, &[Device::cpu()])?;
    }

    #[test]
    fn rows_on_the_cpu(case in generate::rows()) {
        check(&case, &[Device::cpu()])?;
    }

    #[test]
    fn attention_on_the_cpu(case in generate::attention()) {
        check(&case, &[Device::cpu()])?;
    }

    #[test]
    fn scans_on_the_cpu(case in generate::scan()) {
        check(&case, &[Device::cpu()])?;
    }
}

proptest! {
    #![proptest_config(config(48))]

    #[test]
    fn contractions_on_the_gpu(case in generate::contraction()) {
        check(&case, &[Device::named("check").unwrap()])?;
        check(&case, &ADAPTERS)?;
    }

    #[test]
    fn elementwise_on_the_gpu(case in generate::elementwise()) {
        check(&case, &[Device::named("check").unwrap()])?;
        check(&case, &ADAPTERS)?;
    }

    #[test]
    fn chains_on_the_gpu(case in generate::chain()) {
        check(&case, &[Device::named("check").unwrap()])?;
        check(&case, &ADAPTERS)?;
    }

    #[test]
    fn networks_on_the_gpu(case in generate::network()) {
        check(&case, &[Device::named("check").unwrap()])?;
        check(&case, &ADAPTERS)?;
    }

    #[test]
    fn rows_on_the_gpu(case in generate::rows()) {
        check(&case, &[Device::named("check").unwrap()])?;
        check(&case, &ADAPTERS)?;
    }

    #[test]
    fn attention_on_the_gpu(case in generate::attention()) {
        check(&case, &[Device::named("check").unwrap()])?;
        check(&case, &ADAPTERS)?;
    }

    #[test]
    fn scans_on_the_gpu(case in generate::scan()) {
        check(&case, &[Device::named("check").unwrap()])?;
        check(&case, &ADAPTERS)?;
    }
}
