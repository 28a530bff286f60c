//! Laws of the graph and of the passes over it, on random graphs.

mod common;

use common::generate::{self, Case, difference};
use proptest::prelude::*;
use tile_compiler::graph::Graph;
use tile_compiler::{interpret, passes};

fn any_case() -> impl Strategy<Value = Case> {
    prop_oneof![
        generate::contraction(),
        generate::elementwise(),
        generate::chain(),
        generate::network(),
        generate::scan()
    ]
}

proptest! {
    #![proptest_config(generate::config(256))]

    #[test]
    fn the_text_form_parses_back(case in any_case()) {
        let text = case.graph.to_string();
        let parsed = Graph::parse(&text);
        prop_assert_eq!(parsed.as_ref().map(Graph::to_string), Ok(text));
        prop_assert_eq!(parsed, Ok(case.graph));
    }

    #[test]
    fn passes_change_no_bit(case in any_case()) {
        let expected = interpret::run(&case.graph, &case.inputs).unwrap();
        let mut graph = case.graph.clone();
        let passes = [
            ("fold", passes::fold as fn(&mut Graph)),
            ("hoist", passes::hoist),
            ("share", passes::share),
            ("dead", passes::dead),
            ("settle", passes::settle),
        ];
        for (name, pass) in passes {
            pass(&mut graph);
            graph.verify().unwrap();
            let results = interpret::run(&graph, &case.inputs).unwrap();
            let exact = Case { tolerances: vec![0.0; expected.len()], ..case.clone() };
            prop_assert_eq!(difference(&exact, &expected, &results), None, "after {}:\n{}", name, graph);
        }
    }

    #[test]
    fn another_layout_changes_the_order_of_sums_alone(case in generate::network()) {
        let expected = interpret::run(&case.graph, &case.inputs).unwrap();
        let mut graph = case.graph.clone();
        passes::layout(&mut graph);
        graph.verify().unwrap();
        let results = interpret::run(&graph, &case.inputs).unwrap();
        prop_assert_eq!(difference(&case, &expected, &results), None, "{}", graph);
    }

    #[test]
    fn values_stay_within_their_bounds(case in any_case()) {
        // Results have no NaN and no infinity, in which the comparison of devices would see no
        // difference.
        for (name, tensor) in interpret::run(&case.graph, &case.inputs).unwrap() {
            prop_assert!(tensor.to_f64s().into_iter().all(f64::is_finite), "{}: {:?}", name, tensor);
        }
    }
}
