//! Nests that read at most one point for each place, as nests without an aggregation.
//!
//! Example: `Y[n, d] = =(X[T[n], d])` copies a row where `T[n]` is in range:
//!
//! ```text
//! body      v0 = in0[n]   v1 = v0 clamped to 0..10   v2 = in1[4*v1 + d]   v3 = v1 == v0
//!           yield v2 v3
//! epilogue  v0 = accumulator   yield v0
//! ```
//!
//! Without the aggregation, the epilogue has the body's value, or 0 where the point does not count.

use crate::dtype::Scalar;
use crate::graph::Aggregation;
use crate::scalar::{Inst, Program};

use super::{Leaf, Nest};

impl Nest {
    /// Returns the nest without its aggregation, if that only decides whether a point counts.
    pub fn without_aggregation(&self) -> Option<Nest> {
        let is_choice = self.aggregation == Some(Aggregation::Assign)
            && self.reduction().is_empty()
            && self.inner.is_empty()
            && self.guards.is_empty()
            && self.columns().is_empty()
            && self.epilogue_loads().all(|load| load.dynamic.is_empty());
        if !is_choice {
            return None;
        }
        let mut program = self.body.clone();
        let (value, counts) = match self.body.results[..] {
            [value] => (value, None),
            [value, counts] => (value, Some(counts)),
            _ => return None,
        };
        program.results = program.append(&self.epilogue, |program, leaf, dtype| match leaf {
            Leaf::Accumulator => match counts {
                Some(counts) => {
                    let nothing = program.constant(Aggregation::Assign.identity(dtype));
                    program.select(counts, value, nothing)
                }
                None => value,
            },
            Leaf::Written => counts.unwrap_or_else(|| program.constant(Scalar::bool(true))),
            leaf => program.push(Inst::Leaf(leaf.clone()), dtype),
        });
        Some(Nest {
            aggregation: None,
            body: Program::default(),
            epilogue: program,
            ..self.clone()
        })
    }
}
