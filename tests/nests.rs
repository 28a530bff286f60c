//! The nests of a plan compute what its graph does. Tuning holds kernels to the reference for
//! nests; here random graphs hold that to the reference for graphs.

mod common;

use std::cell::Cell;
use std::collections::HashMap;

use common::generate::{self, Case, config, difference};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tile_compiler::dense::Dense;
use tile_compiler::dtype::DType;
use tile_compiler::graph::{Graph, Op};
use tile_compiler::interpret::{self, nest};
use tile_compiler::pipeline::{self, Options};
use tile_compiler::plan::{BufferId, Content, Launch, Plan, PlanError, Work};
use tile_compiler::profile::{Profile, Rates};
use tile_compiler::tensor::{Tensor, TensorType};

/// Runs a plan's nests on their reference.
fn run(plan: &Plan, case: &Case) -> Result<Vec<(String, Tensor)>, String> {
    let mut memory: Dense<BufferId, Tensor> = plan
        .buffers
        .iter()
        .map(|buffer| match &buffer.content {
            Content::Constant(tensor) => tensor.clone(),
            _ => Tensor::zeros(buffer.ty.clone()).unwrap(),
        })
        .collect();
    let mut taken: HashMap<&str, usize> = HashMap::new();
    for port in plan.given() {
        let name = port.whole.as_ref().map_or(port.name.as_str(), |(name, _)| name);
        let given = case.inputs.iter().find(|(given, _)| given == name);
        let given = given.ok_or_else(|| format!("{name} is missing"))?.1.bytes();
        let first = taken.entry(name).or_insert(0);
        let own = TensorType { dtype: port.tensor().1.dtype, ..port.ty.clone() };
        let part = *first..*first + own.elements() * own.dtype.size();
        *first = part.end;
        let own = Tensor::from_bytes(own, given[part].to_vec()).unwrap();
        let values = own.scalars().map(|value| value.cast(port.ty.dtype));
        memory[port.buffer] = Tensor::from_scalars(port.ty.clone(), values).unwrap();
    }
    let mut launch = |launch: &Launch| {
        let Work::Nest(of) = &plan.routines[launch.step.routine].work else {
            return Err("a generator".to_owned());
        };
        let reshaped = |(&id, ty): (&BufferId, _)| {
            Tensor::from_bytes(Clone::clone(ty), memory[id].bytes().to_vec()).unwrap()
        };
        let operands: Vec<Tensor> =
            launch.operands.iter().zip(&of.operands).map(reshaped).collect();
        for row in 0..nest::rows(of) {
            for written in
                nest::row(of, &operands, row, launch.turns).map_err(|error| error.to_string())?
            {
                let output = &mut memory[launch.outputs[written.output]];
                output.set(written.position, written.value.value);
            }
        }
        Ok(())
    };
    plan.prelude_launches(&mut launch)?;
    plan.launches(&mut launch)?;
    let mut outputs: Vec<(String, TensorType, Vec<u8>)> = Vec::new();
    for port in &plan.outputs {
        let own = || (port.name.clone(), port.ty.clone());
        let (name, ty) = port.whole.clone().unwrap_or_else(own);
        let bytes = memory[port.buffer].bytes();
        match outputs.last_mut().filter(|(last, ..)| *last == name) {
            Some((.., all)) => all.extend(bytes),
            None => outputs.push((name, ty, bytes.to_vec())),
        }
    }
    let tensor = |(name, ty, bytes)| (name, Tensor::from_bytes(ty, bytes).unwrap());
    Ok(outputs.into_iter().map(tensor).collect())
}

/// Compares a plan for buffers of a `share` of the largest tensor with the reference, if there is
/// one. Returns whether it has tensors in parts.
fn check_parts(case: &Case, share: u64) -> Result<bool, TestCaseError> {
    let sizes = case.inputs.iter().map(|(_, tensor)| tensor.bytes().len() as u64);
    let most = (sizes.max().unwrap_or(0) / share).max(8);
    let expected = interpret::run(&case.graph, &case.inputs).unwrap();
    let mut graph = case.graph.clone();
    pipeline::optimise(&mut graph);
    let profile = Profile { max_binding_bytes: most, int64: true, ..Profile::generic() };
    let plan = match pipeline::plan(&graph, &profile) {
        Ok(plan) => plan,
        Err(PlanError::TooLarge { .. }) => return Ok(false),
        Err(PlanError::Unsupported { what, .. }) if what.starts_with("tensors of type") => {
            return Ok(false);
        }
        Err(error) => return Err(TestCaseError::fail(format!("{error}\n{graph}"))),
    };
    let found =
        run(&plan, case).map_err(|fault| TestCaseError::fail(format!("{fault}: {plan}")))?;
    prop_assert_eq!(difference(case, &expected, &found), None, "{}", plan);
    Ok(plan.given().chain(&plan.outputs).any(|port| port.whole.is_some()))
}

/// Compares a plan whose tensors are stored as `dtype` with the reference, if that rounds none of
/// them. Returns whether it stores some.
fn check_stored_as(mut case: Case, dtype: DType) -> Result<bool, TestCaseError> {
    let graph = &mut case.graph;
    for id in graph.inputs.split_off(graph.inputs.len() / 2) {
        let Op::Input(name) = graph.node(id).op.clone() else { continue };
        graph.set(id, Op::Weight(name), &[]);
        graph.weights.push(id);
    }
    graph.weights.sort();
    graph.weights.dedup();
    pipeline::optimise(graph);
    let mut every = graph.clone();
    let values = every.ids().filter(|&id| every.dtype(id) == DType::F32);
    let values = values.filter(|&id| !matches!(every.node(id).op, Op::Scan(_)));
    every.outputs = values.map(|id| (format!("V{}", id.index()), id)).collect();
    let is_exact =
        |tensor: &Tensor| tensor.scalars().all(|value| value.cast(dtype).cast(DType::F32) == value);
    let every = interpret::run(&every, &case.inputs).unwrap();
    if !every.iter().all(|(_, tensor)| is_exact(tensor)) {
        return Ok(false);
    }
    let expected = interpret::run(&case.graph, &case.inputs).unwrap();
    let mut is_narrow = false;
    for profile in [Profile { int64: true, f16: true, ..Profile::generic() }, Profile::cpu()] {
        let options = Options { storage: Some(dtype), ..Options::default() };
        let plan = match pipeline::plan_with(&case.graph, &profile, &options) {
            Ok(plan) => plan,
            Err(PlanError::Internal(fault)) => return Err(TestCaseError::fail(fault)),
            // The device lacks a type.
            Err(_) => continue,
        };
        let found = run(&plan, &case).map_err(TestCaseError::fail)?;
        prop_assert_eq!(difference(&case, &expected, &found), None, "{}", plan);
        is_narrow |= plan.buffers.iter().any(|buffer| buffer.ty.dtype == dtype);
    }
    Ok(is_narrow)
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

#[test]
fn tensors_in_parts() {
    let with_parts = Cell::new(0);
    let config = config(128);
    let count = config.cases;
    let result = TestRunner::new(config).run(&(generate::any_case(), 2u64..6), |(case, share)| {
        with_parts.set(with_parts.get() + u32::from(check_parts(&case, share)?));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    // Many have types that the device lacks.
    assert!(with_parts.get() > count / 3, "{} of {count}", with_parts.get());
}

/// No run-time index is valid on an empty axis, so nothing is read and every place is zero.
#[test]
fn run_time_index_on_an_empty_axis() {
    let graph = "graph case(%0, %1) -> (Y0 = %2)
%0 = input X0 : i32[1]
%1 = input X1 : f32[0, 2]
%2 = contract assign [i0, i1] (i0: 0..1, i1: 0..2) where -i0 >= 0 { @0 = %0[0]; v0 = @0; v1 = %1[i0 + @0, i1]; yield v1 } : f32[2, 2]
";
    let graph = Graph::parse(graph).unwrap();
    let empty = Tensor::zeros(TensorType::new(DType::F32, [0, 2])).unwrap();
    let index = Tensor::zeros(TensorType::new(DType::I32, [1])).unwrap();
    let inputs = vec![("X0".to_owned(), index), ("X1".to_owned(), empty)];
    check(&Case { graph, inputs, tolerances: vec![0.0] }).unwrap();
}

/// Tensors that are stored as f16 or bf16 without rounding change nothing.
#[test]
fn tensors_stored_as_narrow_floats() {
    let narrow = Cell::new(0);
    let cases = config(512);
    TestRunner::new(cases.clone())
        .run(&(generate::any_case(), any::<bool>()), |(case, wide)| {
            let dtype = if wide { DType::BF16 } else { DType::F16 };
            narrow.set(narrow.get() + u32::from(check_stored_as(case, dtype)?));
            Ok(())
        })
        .unwrap();
    assert!(narrow.get() * 8 > cases.cases, "only {} cases were stored narrow", narrow.get());
}
