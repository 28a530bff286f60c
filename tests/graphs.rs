//! Laws of the graph and of the passes over it, on random graphs.

mod common;

use common::generate::{self, Case, difference};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tile_compiler::dtype::DType;
use tile_compiler::graph::{Aggregation, Graph, NodeId, Op};
use tile_compiler::pipeline::{FOR_CPUS, FOR_SHADERS, Pass, QUANTIZED, SIMPLIFY};
use tile_compiler::tensor::Tensor;
use tile_compiler::{interpret, passes};

/// The passes that change the order of sums, or the type in which they are rounded first. All
/// others change no bit.
const REORDER: [&str; 7] =
    ["exchange", "join", "layout", "quantized", "running", "separate", "widen"];

/// Returns every pass of the pipeline, once.
fn all_passes() -> Vec<Pass> {
    let mut all: Vec<Pass> = Vec::new();
    for pass in SIMPLIFY.iter().chain(&FOR_SHADERS).chain(&QUANTIZED).chain(&FOR_CPUS) {
        if all.iter().all(|(name, _)| *name != pass.0) {
            all.push(*pass);
        }
    }
    all
}

/// Runs passes one after the other, and holds the results after each to those of the case.
fn check(case: &Case, expected: &[(String, Tensor)], passes: &[Pass]) -> Result<(), TestCaseError> {
    let mut graph = case.graph.clone();
    let mut case = case.clone();
    let tolerances = std::mem::replace(&mut case.tolerances, vec![0.0; expected.len()]);
    for (name, pass) in passes {
        pass(&mut graph);
        prop_assert_eq!(graph.verify(), Ok(()), "after {}:\n{}", name, graph);
        if REORDER.contains(name) {
            case.tolerances.clone_from(&tolerances);
        }
        let results = interpret::run(&graph, &case.inputs).unwrap();
        prop_assert_eq!(difference(&case, expected, &results), None, "after {}:\n{}", name, graph);
    }
    Ok(())
}

/// Returns the operands of products of f32, which `narrow` rounds.
fn factors(graph: &Graph) -> Vec<NodeId> {
    let products = graph.ids().filter(|&id| match &graph.node(id).op {
        Op::Contraction(op) => op.aggregation == Aggregation::Sum && graph.dtype(id) == DType::F32,
        _ => false,
    });
    products
        .flat_map(|id| graph.operands(id))
        .copied()
        .filter(|&operand| graph.dtype(operand) == DType::F32)
        .collect()
}

/// Returns whether rounding to `dtype` changes no operand of a product.
fn has_exact_factors(case: &Case, dtype: DType) -> bool {
    let mut graph = case.graph.clone();
    graph.outputs =
        factors(&graph).into_iter().enumerate().map(|(n, id)| (format!("F{n}"), id)).collect();
    let values = interpret::run(&graph, &case.inputs).unwrap();
    values.iter().all(|(_, tensor)| {
        tensor.scalars().all(|value| value.cast(dtype).cast(DType::F32) == value)
    })
}

proptest! {
    #![proptest_config(generate::config(256))]

    #[test]
    fn the_text_form_parses_back(case in generate::any_case()) {
        let text = case.graph.to_string();
        let parsed = Graph::parse(&text);
        prop_assert_eq!(parsed.as_ref().map(Graph::to_string), Ok(text));
        prop_assert_eq!(parsed, Ok(case.graph));
    }

    #[test]
    fn passes_keep_results(case in generate::any_case()) {
        let expected = interpret::run(&case.graph, &case.inputs).unwrap();
        for pass in all_passes() {
            check(&case, &expected, &[pass])?;
        }
        check(&case, &expected, &[&SIMPLIFY[..], &FOR_SHADERS].concat())?;
        check(&case, &expected, &[&SIMPLIFY[..], &QUANTIZED, &FOR_CPUS].concat())?;
    }

    /// Scans are left out: the operands of products in their bodies are not outputs.
    #[test]
    fn narrow_rounds_operands_of_products_alone(case in prop_oneof![
        generate::contraction(), generate::network(), generate::heads(), generate::chain()
    ]) {
        let expected = interpret::run(&case.graph, &case.inputs).unwrap();
        for dtype in [DType::F16, DType::BF16] {
            let mut graph = case.graph.clone();
            passes::narrow(&mut graph, dtype);
            prop_assert_eq!(graph.verify(), Ok(()), "{}", graph);
            if has_exact_factors(&case, dtype) {
                let exact = Case { tolerances: vec![0.0; expected.len()], ..case.clone() };
                let results = interpret::run(&graph, &case.inputs).unwrap();
                prop_assert_eq!(difference(&exact, &expected, &results), None, "{}", graph);
            }
        }
    }

    #[test]
    fn values_stay_within_their_bounds(case in generate::any_case()) {
        // Results have no NaN and no infinity, in which the comparison of devices would see no
        // difference.
        for (name, tensor) in interpret::run(&case.graph, &case.inputs).unwrap() {
            prop_assert!(tensor.to_f64s().into_iter().all(f64::is_finite), "{}: {:?}", name, tensor);
        }
    }
}

/// Laws on graphs that a pass leaves alone say nothing of it. Some passes want graphs without
/// needless constraints.
#[test]
fn every_pass_changes_some_graph() {
    let mut idle = all_passes();
    idle.push(("narrow", |graph| passes::narrow(graph, DType::F16)));
    let mut runner = TestRunner::deterministic();
    for _ in 0..2000 {
        let case = generate::any_case().new_tree(&mut runner).unwrap().current();
        let mut folded = case.graph.clone();
        passes::fold(&mut folded);
        idle.retain(|(_, pass)| {
            [&case.graph, &folded].into_iter().all(|before| {
                let mut graph = before.clone();
                pass(&mut graph);
                graph == *before
            })
        });
        if idle.is_empty() {
            return;
        }
    }
    panic!("no graph was changed by {:?}", idle.iter().map(|(name, _)| name).collect::<Vec<_>>());
}
