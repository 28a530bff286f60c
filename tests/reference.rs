//! The reference interpreter agrees with NumPy: see golden/reference.py, which makes the cases.

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::{Graph, NodeId};
use tile_compiler::interpret;
use tile_compiler::tensor::Tensor;

/// Parses the values of a line `input NAME VALUES`, in the type of a node.
fn tensor(graph: &Graph, node: NodeId, values: &str) -> Tensor {
    let ty = graph.node(node).ty.clone();
    let scalar = |text: &str| {
        Scalar::parse(ty.dtype, text).unwrap_or_else(|| panic!("{text} is not {}", ty.dtype))
    };
    Tensor::from_scalars(ty.clone(), values.split_whitespace().map(scalar).collect::<Vec<_>>())
        .unwrap()
}

/// Returns the tolerance. Sums are rounded once, and functions are exact to a unit in the last
/// place of f64, so at most half a unit of the type is lost, and as much in NumPy's value. Each
/// product is rounded before the sum.
fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-10),
        DType::F32 => 2f64.powi(-23),
        DType::F64 => 2f64.powi(-50),
        _ => 0.0,
    }
}

#[test]
fn the_interpreter_agrees_with_numpy() {
    for case in include_str!("golden/reference.txt").split("\n\n") {
        let values = case.find("\ninput ").unwrap() + 1;
        let graph = Graph::parse(&case[..values]).unwrap();
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for line in case[values..].lines() {
            let (kind, rest) = line.split_once(' ').unwrap();
            let (name, values) = rest.split_once(' ').unwrap();
            if kind == "input" {
                inputs.push((name, tensor(&graph, graph.inputs[inputs.len()], values)));
            } else {
                outputs.push((name, tensor(&graph, graph.outputs[outputs.len()].1, values)));
            }
        }
        let results = interpret::run(&graph, &inputs).unwrap();
        assert_eq!(results.len(), outputs.len());
        for ((name, result), (_, expected)) in results.iter().zip(&outputs) {
            let products = graph.to_string().contains(" = mul v0 v1");
            let greatest =
                expected.to_f64s().into_iter().fold(0.0f64, |greatest, x| greatest.max(x.abs()));
            for (x, y) in result.scalars().zip(expected.scalars()) {
                let (a, b) = (x.to_f64(), y.to_f64());
                let equal = x == y
                    || (a - b).abs()
                        <= epsilon(x.dtype) * if products { greatest } else { b.abs() };
                assert!(equal, "{}: {name} is {result:?}, not {expected:?}", graph.name);
            }
        }
    }
}
