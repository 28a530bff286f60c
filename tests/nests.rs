//! The nests of a plan compute what its graph does. Tuning holds kernels to the reference for
//! nests; here random graphs hold that to the reference for graphs.

mod common;

use common::generate::{self, Case, config, difference};
use proptest::prelude::*;
use tile_compiler::interpret::{self, nest};
use tile_compiler::pipeline;
use tile_compiler::plan::{Content, Launch, Plan, PlanError, Work};
use tile_compiler::profile::{Profile, Rates};
use tile_compiler::tensor::Tensor;

/// Runs a plan's nests on their reference.
fn run(plan: &Plan, case: &Case) -> Result<Vec<(String, Tensor)>, String> {
    let mut memory: Vec<Tensor> = plan
        .buffers
        .iter()
        .map(|buffer| match &buffer.content {
            Content::Constant(tensor) => tensor.clone(),
            _ => Tensor::zeros(buffer.ty.clone()).unwrap(),
        })
        .collect();
    for port in plan.given() {
        let given = case.inputs.iter().find(|(name, _)| *name == port.name);
        memory[port.buffer] = given.ok_or_else(|| format!("{} is missing", port.name))?.1.clone();
    }
    let mut launch = |launch: &Launch| {
        let Work::Nest(of) = &plan.routines[launch.step.routine].work else { return Err("a generator".to_owned()) };
        let reshaped =
            |(&id, ty): (&usize, _)| Tensor::from_bytes(Clone::clone(ty), memory[id].bytes().to_vec()).unwrap();
        let operands: Vec<Tensor> = launch.operands.iter().zip(&of.operands).map(reshaped).collect();
        for row in 0..nest::rows(of) {
            for written in nest::row(of, &operands, row, launch.turns).map_err(|error| error.to_string())? {
                let output = &mut memory[launch.outputs[written.output]];
                output.set(written.position, written.value.value);
            }
        }
        Ok(())
    };
    plan.prelude_launches(&mut launch)?;
    plan.launches(&mut launch)?;
    let output = |port: &tile_compiler::plan::Port| {
        let tensor = Tensor::from_bytes(port.ty.clone(), memory[port.buffer].bytes().to_vec()).unwrap();
        (port.name.clone(), tensor)
    };
    Ok(plan.outputs.iter().map(output).collect())
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    let expected = interpret::run(&case.graph, &case.inputs).unwrap();
    let mut graph = case.graph.clone();
    pipeline::optimise(&mut graph);
    // Free launches, so that reductions are divided; and every type.
    let rates = Rates { launch: 0.0, ..Rates::GPU };
    for profile in [Profile { rates, int64: true, ..Profile::generic() }, Profile::cpu()] {
        let plan = match pipeline::plan(&graph, &profile) {
            Ok(plan) => plan,
            Err(PlanError::Internal(fault)) => return Err(TestCaseError::fail(fault)),
            // The device lacks a type.
            Err(_) => continue,
        };
        let found = run(&plan, case).map_err(TestCaseError::fail)?;
        prop_assert_eq!(difference(case, &expected, &found), None, "{}", plan);
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(128))]

    #[test]
    fn contractions(case in generate::contraction()) {
        check(&case)?;
    }

    #[test]
    fn elementwise(case in generate::elementwise()) {
        check(&case)?;
    }

    #[test]
    fn chains(case in generate::chain()) {
        check(&case)?;
    }

    #[test]
    fn networks(case in generate::network()) {
        check(&case)?;
    }

    #[test]
    fn rows(case in generate::rows()) {
        check(&case)?;
    }

    #[test]
    fn attention(case in generate::attention()) {
        check(&case)?;
    }

    #[test]
    fn heads(case in generate::heads()) {
        check(&case)?;
    }

    #[test]
    fn scans(case in generate::scan()) {
        check(&case)?;
    }
}
