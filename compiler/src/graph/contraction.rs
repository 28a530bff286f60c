//! Contractions: aggregation of a scalar program over the valid points of an index space.

use crate::affine::Affine;
use crate::dtype::{DType, Scalar};
use crate::scalar::{BinaryOp, Inst, Program, Value};

/// The combination of the values that fall on one place of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub enum Aggregation {
    /// The sum.
    Sum,
    /// The product.
    Product,
    /// The greatest value.
    Max,
    /// The least value.
    Min,
    /// At most one value falls on each place, which lowering has proven.
    Assign,
    /// The position of the greatest value; see [`Contraction`].
    ArgMax,
    /// The position of the least value.
    ArgMin,
}

impl Aggregation {
    /// All aggregations.
    pub const ALL: [Aggregation; 7] = [
        Aggregation::Sum,
        Aggregation::Product,
        Aggregation::Max,
        Aggregation::Min,
        Aggregation::Assign,
        Aggregation::ArgMax,
        Aggregation::ArgMin,
    ];

    /// Returns the name in text forms.
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

    /// Returns the aggregation of a name in text forms.
    pub fn parse(name: &str) -> Option<Aggregation> {
        Aggregation::ALL.into_iter().find(|a| a.name() == name)
    }

    /// Returns the operation that combines two values. `None` for assignments and the arg forms.
    pub fn operation(self) -> Option<BinaryOp> {
        match self {
            Aggregation::Sum => Some(BinaryOp::Add),
            Aggregation::Product => Some(BinaryOp::Mul),
            Aggregation::Max => Some(BinaryOp::Max),
            Aggregation::Min => Some(BinaryOp::Min),
            Aggregation::Assign | Aggregation::ArgMax | Aggregation::ArgMin => None,
        }
    }

    /// Returns the initial value of an aggregation of `dtype`: for the arg forms, the initial best
    /// value.
    pub fn identity(self, dtype: DType) -> Scalar {
        match self {
            Aggregation::Sum | Aggregation::Assign => Scalar::zero(dtype),
            Aggregation::Product => Scalar::one(dtype),
            Aggregation::Max | Aggregation::ArgMax => Scalar::lowest(dtype),
            Aggregation::Min | Aggregation::ArgMin => Scalar::highest(dtype),
        }
    }
}

/// An index variable and its range, `low..high`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexRange {
    /// The name, for readers.
    pub name: String,
    /// The first value.
    pub low: i64,
    /// The value after the last.
    pub high: i64,
}

/// One coordinate of an access: `affine`, plus the value of an earlier access of an integer type if
/// there is one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Index {
    /// The part that is known when the program is compiled.
    pub affine: Affine,
    /// Number of an earlier access.
    pub access: Option<usize>,
}

/// A read of one element of an operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Position of the tensor among the node's operands.
    pub operand: usize,
    /// One coordinate for each axis of the tensor.
    pub index: Vec<Index>,
}

impl Access {
    /// Creates an access at an index without run-time values.
    pub fn fixed(operand: usize, index: Vec<Affine>) -> Access {
        Access {
            operand,
            index: index.into_iter().map(|affine| Index { affine, access: None }).collect(),
        }
    }

    /// Returns whether no coordinate depends on a run-time value.
    pub fn is_fixed(&self) -> bool {
        self.index.iter().all(|index| index.access.is_none())
    }

    /// Returns whether a coordinate mentions the variable.
    pub fn mentions(&self, variable: usize) -> bool {
        self.index.iter().any(|index| index.affine.coefficient(variable) != 0)
    }
}

impl IndexRange {
    /// Returns variables that run from 0 to these extents.
    pub fn all(extents: &[usize]) -> Vec<IndexRange> {
        let range = |(number, &extent): (usize, &usize)| {
            let high = i64::try_from(extent).unwrap_or(i64::MAX);
            IndexRange { name: format!("i{number}"), low: 0, high }
        };
        extents.iter().enumerate().map(range).collect()
    }

    /// Returns the first and last value of each variable.
    pub fn bounds(indices: &[IndexRange]) -> Vec<(i64, i64)> {
        indices.iter().map(|range| (range.low, range.high - 1)).collect()
    }

    /// Returns whether the variable takes more than one value.
    pub fn varies(&self) -> bool {
        self.high - self.low > 1
    }
}

/// A leaf of a contraction's body.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ContractionLeaf {
    /// The element that the access of this number reads.
    Access(usize),
    /// The value of an affine expression over the index variables, as i32.
    Index(Affine),
}

/// `output[place] = aggregation over the valid points of body`.
///
/// Variables are numbered as in `indices`, and all affine expressions are over them. A point
/// assigns each variable an integer in its range. It is *valid* if the place and every access are
/// in bounds, every constraint is at least 0, and the body's second result, if there is one, is
/// true. A place without valid points is 0, or the element of the default tensor.
///
/// Operands are the tensors of `accesses`, each of which is read at least once. If `default` is
/// set, the default tensor, of the node's type and shape, is the last operand. Variable names are
/// words, and distinct.
///
/// The body's first result has the node's type, except for the arg forms. There the body computes
/// the values to compare, and the node (i32) is the position of the greatest (least) value among
/// the valid points: row-major in the ranges of the variables that `output` does not mention. Ties
/// go to the least position. Without valid points it is 0, or the default. Any number is better
/// than a NaN.
///
/// The arg forms may have a `rank`: a variable of the output, from 0, which nothing else mentions.
/// The node is then the position of the value with that many better ones before it, in order of
/// their positions where they are equal. A point's place and position tell it from all others.
/// Places whose rank is no less than the number of valid points have none.
///
/// Max and min ignore NaNs: if every valid value is NaN, the result is the identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contraction {
    /// The aggregation.
    pub aggregation: Aggregation,
    /// Arg forms only: the variable that is the rank of the value.
    pub rank: Option<usize>,
    /// The index variables.
    pub indices: Vec<IndexRange>,
    /// The place written: one coordinate for each axis of the node's shape.
    pub output: Vec<Affine>,
    /// The reads of operands, in an order in which each reads only what earlier ones read.
    pub accesses: Vec<Access>,
    /// Expressions that must be at least 0.
    pub constraints: Vec<Affine>,
    /// Results: the value, then optionally a bool that is true if the point counts.
    pub body: Program<ContractionLeaf>,
    /// Whether the last operand has the values of places that no point has.
    pub default: bool,
}

impl Contraction {
    /// Returns how many points the index variables have, those that constraints exclude included.
    /// `None` if that does not fit an `isize`.
    pub fn points(&self) -> Option<usize> {
        let extents = self
            .indices
            .iter()
            .map(|range| usize::try_from(range.high.checked_sub(range.low)?.max(1)).ok());
        let points =
            extents.into_iter().try_fold(1usize, |points, extent| points.checked_mul(extent?))?;
        isize::try_from(points).ok().map(|_| points)
    }

    /// Returns the aggregation of one tensor's elements: reads `index` and writes `place`, over
    /// variables that run to `extents`.
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
            rank: None,
            indices: IndexRange::all(extents),
            output: place,
            accesses: vec![Access::fixed(0, index)],
            constraints: Vec::new(),
            body,
            default: false,
        }
    }

    /// Returns a copy of a tensor of type `dtype` and `shape`.
    pub fn copy(dtype: DType, shape: &[usize]) -> Contraction {
        let places: Vec<Affine> = (0..shape.len()).map(Affine::var).collect();
        Contraction::of_tensor(Aggregation::Assign, dtype, shape, places.clone(), places)
    }

    /// Returns whether the contraction sums products of two values.
    pub fn is_sum_of_products(&self) -> bool {
        let is_product =
            |value: &Value| matches!(self.body.insts[*value].0, Inst::Binary(BinaryOp::Mul, ..));
        self.aggregation == Aggregation::Sum
            && self.body.results.len() == 1
            && self.body.results.iter().all(is_product)
    }

    /// Returns whether an operand is read through a window: at a sum of several indices.
    pub fn has_window(&self) -> bool {
        let mut indices = self.accesses.iter().flat_map(|access| &access.index);
        indices.any(|index| self.is_of_several_indices(&index.affine))
    }

    /// Returns whether an expression is a sum of several indices that vary, such as a place and a
    /// tap.
    pub fn is_of_several_indices(&self, expression: &Affine) -> bool {
        expression.variables().filter(|&variable| self.indices[variable].varies()).count() > 1
    }

    /// Returns whether an access reads the same element for several places: some variable of the
    /// output that varies does not occur in the access.
    pub fn reads_again(&self, access: &Access) -> bool {
        let mut of_places = self.output.iter().flat_map(Affine::variables);
        of_places.any(|variable| self.indices[variable].varies() && !access.mentions(variable))
    }
}

/// Appends a comparison: whether the value of an integer access equals an affine expression. The
/// expression must be at least 0 if the type is unsigned. As the second result of a body, it
/// selects points whose place is known only at run time.
pub fn equals(
    body: &mut Program<ContractionLeaf>,
    access: usize,
    dtype: DType,
    affine: &Affine,
) -> Value {
    let value = body.push(Inst::Leaf(ContractionLeaf::Access(access)), dtype);
    let place = body.push(Inst::Leaf(ContractionLeaf::Index(affine.clone())), DType::I32);
    // Compares in a type that represents both exactly.
    let dtype = if dtype.bits() < 32 { DType::I32 } else { dtype };
    let (value, place) = (body.cast(value, dtype), body.cast(place, dtype));
    body.binary(BinaryOp::Eq, value, place)
}
