//! Contractions: aggregation of a scalar program over the valid points of an index space.

use crate::affine::Affine;
use crate::dtype::{DType, Scalar};
use crate::scalar::{BinaryOp, Inst, Program, Value};

/// How the values that fall on one place are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Aggregation {
    Sum,
    Product,
    Max,
    Min,
    /// At most one value falls on each place: lowering has proven it.
    Assign,
    /// The position of the greatest value: see [`Contraction`].
    ArgMax,
    ArgMin,
}

impl Aggregation {
    pub const ALL: [Aggregation; 7] = [
        Aggregation::Sum,
        Aggregation::Product,
        Aggregation::Max,
        Aggregation::Min,
        Aggregation::Assign,
        Aggregation::ArgMax,
        Aggregation::ArgMin,
    ];

    /// The name in text forms.
    pub fn name(self) -> &'static str {
        match self {
            Aggregation::Sum => "sum",
            Aggregation::Product => "product",
            Aggregation::Max => "max",
            Aggregation::Min => "min",
            Aggregation::Assign => "assign",
            Aggregation::ArgMax => "argmax",
            Aggregation::ArgMin => "argmin",
        }
    }

    pub fn parse(name: &str) -> Option<Aggregation> {
        Aggregation::ALL.into_iter().find(|a| a.name() == name)
    }

    /// The operation that combines two values; `None` for assignments and the arg forms.
    pub fn operation(self) -> Option<BinaryOp> {
        match self {
            Aggregation::Sum => Some(BinaryOp::Add),
            Aggregation::Product => Some(BinaryOp::Mul),
            Aggregation::Max => Some(BinaryOp::Max),
            Aggregation::Min => Some(BinaryOp::Min),
            Aggregation::Assign | Aggregation::ArgMax | Aggregation::ArgMin => None,
        }
    }

    /// The value with which aggregation of `dtype` starts; for the arg forms, the best value so far.
    pub fn identity(self, dtype: DType) -> Scalar {
        match self {
            Aggregation::Sum | Aggregation::Assign => Scalar::zero(dtype),
            Aggregation::Product => Scalar::one(dtype),
            Aggregation::Max | Aggregation::ArgMax => Scalar::lowest(dtype),
            Aggregation::Min | Aggregation::ArgMin => Scalar::highest(dtype),
        }
    }
}

/// An index variable and the integers it runs over: `low..high`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexRange {
    pub name: String,
    pub low: i64,
    pub high: i64,
}

/// One coordinate of an access: `affine`, plus the value of an earlier access of an integer type where there is one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Index {
    pub affine: Affine,
    /// The number of an access before this one.
    pub access: Option<usize>,
}

/// A read of one element of an operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// The position of the tensor among the node's operands.
    pub operand: usize,
    /// One coordinate for each axis of the tensor.
    pub index: Vec<Index>,
}

impl Access {
    /// Of the element at an index without values that are known at run time.
    pub fn fixed(operand: usize, index: Vec<Affine>) -> Access {
        Access { operand, index: index.into_iter().map(|affine| Index { affine, access: None }).collect() }
    }

    /// Whether no coordinate depends on a value that is known at run time.
    pub fn is_fixed(&self) -> bool {
        self.index.iter().all(|index| index.access.is_none())
    }

    /// Whether a coordinate names the variable.
    pub fn mentions(&self, variable: usize) -> bool {
        self.index.iter().any(|index| index.affine.coefficient(variable) != 0)
    }
}

impl IndexRange {
    /// Variables that run from 0 to these extents.
    pub fn all(extents: &[usize]) -> Vec<IndexRange> {
        let range = |(number, &extent): (usize, &usize)| {
            let high = i64::try_from(extent).unwrap_or(i64::MAX);
            IndexRange { name: format!("i{number}"), low: 0, high }
        };
        extents.iter().enumerate().map(range).collect()
    }

    /// Whether the variable takes more than one value.
    pub fn varies(&self) -> bool {
        self.high - self.low > 1
    }
}

/// What the leaves of a contraction's body read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ContractionLeaf {
    /// The element that the access of this number reads.
    Access(usize),
    /// The value of an affine expression over the index variables, as i32.
    Index(Affine),
}

/// `output[place] = aggregation over the valid points of body`.
///
/// Variables are numbered as in `indices`; every affine expression is over them. A point (an integer for each
/// variable, within its range) is *valid* where the place and every access are in range, every constraint is at least
/// 0, and the body's second result, where it has one, is true. A place on which no valid point falls is 0, or the
/// element of the default tensor.
///
/// Operands: the tensors of `accesses` (each is read by one at least), then the default tensor (of the node's type and
/// shape) where `default` is set. The names of the variables are words, and distinct.
///
/// The body's first result has the node's type, except for the arg forms: there the body gives the values compared, and
/// the node (i32) the row-major position, within the ranges of the variables that `output` does not mention, of the
/// greatest (least) value among the valid points; of equals, the least; 0 (or the default) where nothing is valid. A NaN
/// is never better than a number, and any number is better than it.
///
/// Max and min leave NaNs out: they give the identity where every valid value is one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contraction {
    pub aggregation: Aggregation,
    pub indices: Vec<IndexRange>,
    /// The place written: one coordinate for each axis of the node's shape.
    pub output: Vec<Affine>,
    pub accesses: Vec<Access>,
    /// Each must be at least 0.
    pub constraints: Vec<Affine>,
    /// Results: the value, then optionally a bool: whether the point counts.
    pub body: Program<ContractionLeaf>,
    pub default: bool,
}

impl Contraction {
    /// The aggregate, at a place, of the elements at an index of one tensor, of type `dtype`: over variables that run to `extents`.
    pub fn of_tensor(
        aggregation: Aggregation,
        dtype: DType,
        extents: &[usize],
        place: Vec<Affine>,
        index: Vec<Affine>,
    ) -> Contraction {
        let mut body = Program::default();
        body.results = vec![body.push(Inst::Leaf(ContractionLeaf::Access(0)), dtype)];
        Contraction {
            aggregation,
            indices: IndexRange::all(extents),
            output: place,
            accesses: vec![Access::fixed(0, index)],
            constraints: Vec::new(),
            body,
            default: false,
        }
    }

    /// The elements of a tensor of type `dtype` at the places of `shape`, each at its own.
    pub fn copy(dtype: DType, shape: &[usize]) -> Contraction {
        let places: Vec<Affine> = (0..shape.len()).map(Affine::var).collect();
        Contraction::of_tensor(Aggregation::Assign, dtype, shape, places.clone(), places)
    }

    /// Whether it sums products of two values.
    pub fn is_sum_of_products(&self) -> bool {
        let is_product = |value: &Value| matches!(self.body.insts[*value].0, Inst::Binary(BinaryOp::Mul, ..));
        self.aggregation == Aggregation::Sum && self.body.results.len() == 1 && self.body.results.iter().all(is_product)
    }

    /// Whether what an access reads for one place it reads for others, too: along an axis of the result that has places.
    pub fn reads_again(&self, access: &Access) -> bool {
        let mut of_places = self.output.iter().flat_map(Affine::variables);
        of_places.any(|variable| self.indices[variable].varies() && !access.mentions(variable))
    }
}

/// Whether what an access of an integer type reads is the value of an affine expression, which is at least 0 where the type
/// is unsigned: a value of the body, for the second result of one whose place is known only at run time.
pub fn equals(body: &mut Program<ContractionLeaf>, access: usize, dtype: DType, affine: &Affine) -> Value {
    let value = body.push(Inst::Leaf(ContractionLeaf::Access(access)), dtype);
    let place = body.push(Inst::Leaf(ContractionLeaf::Index(affine.clone())), DType::I32);
    // Both are compared in a type that holds either exactly.
    let dtype = if dtype.bits() < 32 { DType::I32 } else { dtype };
    let (value, place) = (body.cast(value, dtype), body.cast(place, dtype));
    body.binary(BinaryOp::Eq, value, place)
}
