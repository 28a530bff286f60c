//! The derivative of every function is that of central differences.

use crate::dtype::{DType, Scalar};
use crate::gradient::gradient;
use crate::graph::Graph;
use crate::interpret;
use crate::scalar::UnaryOp;
use crate::tensor::{Tensor, TensorType};

const POINTS: [f64; 5] = [-1.3, -0.6, 0.3, 1.7, 4.2];

#[test]
fn derivatives_are_those_of_differences() {
    for op in UnaryOp::ALL.into_iter().filter(|op| *op != UnaryOp::BitNot) {
        let text = format!(
            "graph f(%0) -> (Y = %1)\n%0 = input X : f64[]\n%1 = {} %0 : f64[]\n",
            op.name()
        );
        let mut graph = Graph::parse(&text).unwrap();
        let (y, x) = (graph.outputs[0].1, graph.inputs[0]);
        let slope = gradient(&mut graph, y, &[x]).unwrap()[0];
        graph.outputs = vec![("dX".into(), slope)];
        graph.verify().unwrap();
        let f = |x: f64| op.evaluate(Scalar::from_f64(DType::F64, x)).to_f64();
        let mut compared = 0;
        for x in POINTS {
            let expected = (f(x + 1e-5) - f(x - 1e-5)) / 2e-5;
            if !expected.is_finite() {
                continue;
            }
            let scalar = Scalar::from_f64(DType::F64, x);
            let tensor = Tensor::from_scalars(TensorType::scalar(DType::F64), [scalar]).unwrap();
            let results = interpret::run(&graph, &[("X", tensor)]).unwrap();
            let found = results[0].1.to_f64s()[0];
            let is_near = (found - expected).abs() <= 1e-7 * expected.abs().max(1.0);
            assert!(is_near, "{} has the slope {found} at {x}, not {expected}", op.name());
            compared += 1;
        }
        assert!(compared > 1, "{} is defined at {compared} points", op.name());
    }
}
