//! Random well-formed graphs with inputs, and the distance that each output may have from the
//! reference interpreter's.
//!
//! Graphs are made by ordinary code that draws from [`Choices`], a list of random numbers. After
//! the end of the list draws are 0, the simplest choice, so that proptest shrinks a graph by
//! shrinking the list.
//!
//! Each value carries a [`Bound`] on its magnitude and on the difference between two correct
//! devices. Inputs are small multiples of a quarter, and as long as everything is exact in its type
//! the bound is 0: wrong addresses and guards cannot hide behind a tolerance. Discontinuous
//! operations (rounding, comparisons, positions) take exact values only.

mod attention;
mod bound;
mod chain;
mod choices;
mod contraction;
mod elementwise;
mod graph;
mod heads;
mod network;
mod quantized;
mod rows;
mod running;
mod scan;
pub mod statement;
mod windows;

use std::fmt;

use proptest::prelude::*;
use tile_compiler::graph::Graph;
use tile_compiler::tensor::Tensor;

use choices::Choices;
use graph::Builder;

/// A graph, its inputs, and the required accuracy of each output.
#[derive(Clone)]
pub struct Case {
    pub graph: Graph,
    pub inputs: Vec<(String, Tensor)>,
    /// For each output, in order: the most by which an element may differ from the reference. 0
    /// requires equal bits, except for the sign of zero.
    pub tolerances: Vec<f64>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.graph)?;
        self.inputs.iter().try_for_each(|(name, tensor)| writeln!(f, "{name} = {tensor:?}"))?;
        writeln!(f, "tolerances {:?}", self.tolerances)
    }
}

/// Runs this number of cases, or `PROPTEST_CASES`. A failure is not written to a file, as its
/// message says everything.
pub fn config(cases: u32) -> ProptestConfig {
    let wanted = std::env::var("PROPTEST_CASES").ok().and_then(|wanted| wanted.parse().ok());
    ProptestConfig {
        cases: wanted.unwrap_or(cases),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// A case of any kind.
pub fn any_case() -> impl Strategy<Value = Case> {
    prop_oneof![
        contraction(),
        elementwise(),
        chain(),
        network(),
        rows(),
        windows(),
        running(),
        attention(),
        heads(),
        quantized(),
        scan()
    ]
}

/// A contraction: ranks 0 to 6, every aggregation and type, any index pattern.
pub fn contraction() -> impl Strategy<Value = Case> {
    cases(120, contraction::contraction)
}

/// A few elementwise operations on broadcast operands, of every type and operation.
pub fn elementwise() -> impl Strategy<Value = Case> {
    cases(80, |choices, builder| {
        elementwise::inputs(choices, builder);
        for _ in 0..1 + choices.pick(12) {
            elementwise::operation(choices, builder);
        }
    })
}

/// Convolutions, products, pooling, softmax, normalisation and elementwise operations, each on the
/// result of the last.
pub fn chain() -> impl Strategy<Value = Case> {
    cases(60, chain::chain)
}

/// Channels-first networks: convolutions, also in groups, pooling, and operations that move,
/// concatenate and mix channels.
pub fn network() -> impl Strategy<Value = Case> {
    cases(80, network::network)
}

/// Row statistics and operations on them, in rows of 0 to some thousand elements.
pub fn rows() -> impl Strategy<Value = Case> {
    cases(60, rows::rows)
}

/// Aggregations over windows along two axes.
pub fn windows() -> impl Strategy<Value = Case> {
    cases(20, windows::windows)
}

/// Running aggregations, such as cumulative sums.
pub fn running() -> impl Strategy<Value = Case> {
    cases(20, running::running)
}

/// Products of products, with softmax, masks and gradients.
pub fn attention() -> impl Strategy<Value = Case> {
    cases(60, attention::attention)
}

/// Products of one tensor with several weights, transposed convolutions, and products of integers.
pub fn heads() -> impl Strategy<Value = Case> {
    cases(40, heads::heads)
}

/// Bias, scales, rounding and zero points of networks of 8-bit integers.
pub fn quantized() -> impl Strategy<Value = Case> {
    cases(60, quantized::quantized)
}

/// Scans over steps, of integers and of floats that stay exact.
pub fn scan() -> impl Strategy<Value = Case> {
    cases(160, scan::scan)
}

fn cases(length: usize, make: impl Fn(&mut Choices, &mut Builder)) -> impl Strategy<Value = Case> {
    prop::collection::vec(any::<u32>(), 1..length).prop_map(move |numbers| {
        let mut choices = Choices::new(numbers);
        let mut builder = Builder::new();
        make(&mut choices, &mut builder);
        builder.case(&mut choices)
    })
}

/// Returns the first difference from the reference's results that the tolerances do not allow.
pub fn difference(
    case: &Case,
    expected: &[(String, Tensor)],
    given: &[(String, Tensor)],
) -> Option<String> {
    for (((name, expected), (given_name, given)), tolerance) in
        expected.iter().zip(given).zip(&case.tolerances)
    {
        if (name, expected.ty()) != (given_name, given.ty()) {
            return Some(format!(
                "{given_name}: {} instead of {name}: {}",
                given.ty(),
                expected.ty()
            ));
        }
        // Subnormal numbers may be flushed to 0.
        let tolerance =
            if *tolerance > 0.0 { tolerance + expected.dtype().smallest() } else { 0.0 };
        for (position, (x, y)) in expected.scalars().zip(given.scalars()).enumerate() {
            let equal = x == y || x.to_f64() == y.to_f64() && expected.dtype().is_float();
            let near = (x.to_f64() - y.to_f64()).abs() <= tolerance
                || x.to_f64().is_nan() && y.to_f64().is_nan();
            if !(equal || near) {
                return Some(format!(
                    "{name}, element {position}: {y} instead of {x} (± {tolerance:e})"
                ));
            }
        }
    }
    (expected.len() != given.len())
        .then(|| format!("{} outputs instead of {}", given.len(), expected.len()))
}
