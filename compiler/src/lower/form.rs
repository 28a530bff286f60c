//! A builder of contractions for the builtin functions.

use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::{Access, Aggregation, Contraction, ContractionLeaf, Index, IndexRange, Op};
use crate::scalar::{Inst, Program, Value};

/// A builder of contractions.
pub(super) struct Form {
    pub contraction: Contraction,
}

pub(super) fn fixed(affine: &Affine) -> Index {
    Index { affine: affine.clone(), access: None }
}

impl Form {
    pub fn new(aggregation: Aggregation) -> Form {
        Form {
            contraction: Contraction {
                aggregation,
                rank: None,
                indices: Vec::new(),
                output: Vec::new(),
                accesses: Vec::new(),
                constraints: Vec::new(),
                body: Program::default(),
                default: false,
            },
        }
    }

    /// Adds variables `name0`, `name1`, … over axes of these sizes. The sizes of a graph fit an
    /// i64, since its tensors fit memory.
    pub fn variables(&mut self, name: &str, sizes: &[usize]) -> Vec<Affine> {
        let first = self.contraction.indices.len();
        for (number, &size) in sizes.iter().enumerate() {
            let high = i64::try_from(size).unwrap_or(i64::MAX);
            self.contraction.indices.push(IndexRange {
                name: format!("{name}{number}"),
                low: 0,
                high,
            });
        }
        (first..self.contraction.indices.len()).map(Affine::var).collect()
    }

    pub fn access(&mut self, operand: usize, index: impl Iterator<Item = Index>) {
        self.contraction.accesses.push(Access { operand, index: index.collect() });
    }

    pub fn leaf(&mut self, access: usize, dtype: DType) -> Value {
        self.contraction.body.push(Inst::Leaf(ContractionLeaf::Access(access)), dtype)
    }

    pub fn op(self) -> Op {
        Op::Contraction(Box::new(self.contraction))
    }
}
