//! Random graphs give the same on every device: the reference interpreter, the kernel checker, the cpu, and each adapter
//! that wgpu finds.

mod common;

use common::ADAPTERS;
use common::generate::{self, Case, config, difference};
use proptest::prelude::*;
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::Graph;
use tile_compiler::interpret;
use tile_compiler::tensor::{Tensor, TensorType};
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

/// Whether some point connects a row and a column: of truth values, `+` is or, `*` is and. No matrix unit knows these.
#[test]
fn a_product_of_truth_values() {
    let graph = Graph::parse(
        "\
graph g(%0, %1) -> (C = %2)
%0 = input A : bool[37, 70]
%1 = input B : bool[70, 41]
%2 = contract sum [i, j] (i: 0..37, j: 0..41, k: 0..70) { v0 = %0[i, k]; v1 = %1[k, j]; v2 = mul v0 v1; yield v2 } : bool[37, 41]
",
    )
    .unwrap();
    let seldom = |shape: [usize; 2]| {
        let elements = (0..shape[0] * shape[1]).map(|i| Scalar::from_i64(DType::Bool, i64::from(i * 37 % 101 < 9)));
        Tensor::from_scalars(TensorType::new(DType::Bool, shape), elements).unwrap()
    };
    let inputs = vec![("A".to_owned(), seldom([37, 70])), ("B".to_owned(), seldom([70, 41]))];
    let case = Case { graph, inputs, tolerances: vec![0.0] };
    for device in [Device::cpu(), Device::named("check").unwrap()].iter().chain(ADAPTERS.iter()) {
        assert_eq!(fault(&case, device), None, "on {}", device.name());
    }
}
