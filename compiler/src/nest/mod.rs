//! The canonical form of a fused group of graph nodes: one loop nest, not yet scheduled.
//!
//! ```text
//! outputs[free] = epilogue( aggregation over the reduction axes of body(free, reduction), free )
//! ```
//!
//! Axes are numbered variables that run over `0..extent`. The `free` axes come first: a *place* is
//! a point of these, at which each output has an element. The reduction axes follow, then the loops
//! of the plan around the nest. The nest does not run these loops itself: each launch passes the
//! current step of each loop. After the axes come the derived variables, each of them the floor of
//! an affine expression of earlier variables divided by a constant. Every address, guard and index
//! value is an [`Affine`] over these variables. One set of templates therefore serves matrix
//! products, convolutions, pooling and copies alike.
//!
//! A point of the axes counts if every guard is at least 0 and the second result of the body, if
//! there is one, is true.
//!
//! Invariants, which [`Nest::verify`] checks:
//! - Extents are at least 1.
//! - Two places have different positions in an output. The exception is an output with one element
//!   a row: all places of a row share its position, and the value is the same at all of them.
//! - Outside loops, the places fill each output.
//! - Axes of extent 1 are dropped, and adjacent axes are merged where every expression allows it.
//!   Loops are exempt.
//! - Without an aggregation there are no reduction axes and no guards, and the body is empty.
//! - If a load is executed (its point counts and its `when` holds), its address is within its
//!   operand.
//! - `when`, guards and loads of the epilogue mention no reduction axis. Neither do output
//!   positions.
//! - `position` is set for the arg forms, and for no others. Only these have a `rank`, which
//!   depends on free axes on which the body and the guards do not.
//! - Only bodies have tables, and no body with inner sums.
//! - Epilogues of nests without inner sums may have statistics, and so may bodies of nests with
//!   inner sums. Only nests with statistics have columns.
//!
//! # Row statistics
//!
//! A nest may compute *statistics* of its rows: the first `rows` free axes are the row axes, the
//! other free axes are the columns, and a statistic aggregates a value over all columns of its row.
//! Epilogue values before the statistic are computed for the whole row, and values after it may use
//! the statistic. A softmax or a normalisation thus reads its row once:
//!
//! ```text
//! v0 = in0[1024*r + c]   v1 = max over columns of v0   v2 = sub v0 v1   v3 = exp v2
//! v4 = sum over columns of v3   v5 = div v3 v4
//! ```
//!
//! An output may then have one element for each row: its position mentions no column. If the nest
//! also has an aggregation, whole rows are finished before they are stored.
//!
//! # Inner sums
//!
//! A nest with an aggregation may have *inner sums*. Each one is evaluated at a point of the free
//! and reduction axes, over axes of its own, which follow the reduction axes. Only the body reads
//! inner sums. The body may then compute statistics over the reduction axes, which the epilogue may
//! read as well. This form expresses attention (scores, their softmax, and the weighted mean)
//! without scores in memory; [`Nest::attention`] recognises the nests that have kernels. The
//! columns of such a nest are free axes on which no statistic depends:
//!
//! ```text
//! inner0 sum [d]  v0 = in0[64*t + d]   v1 = in1[64*s + d]   v2 = mul v0 v1   yield v2
//! body            v0 = inner0   v1 = max over points of v0   v2 = sub v0 v1   v3 = exp v2
//!                 v4 = in2[64*s + e]   v5 = mul v3 v4   v6 = sum over points of v3   yield v5
//! epilogue        v0 = accumulator   v1 = v6 of body   v2 = div v0 v1   yield v2
//! ```
//!
//! Nests refer to buffers by position only: the plan maps operands to tensors.

mod address;
mod attention;
mod build;
mod builder;
mod element;
mod factor_guards;
mod gather;
mod inline;
mod inner;
mod mask;
mod members;
mod name;
mod pieces;
mod pointwise;
mod roles;
mod rows;
mod running;
mod simplify;
mod split;
mod stages;
#[cfg(test)]
mod tests;
mod text;
mod update;
mod verify;
mod window;

pub(crate) use attention::loads_of;
pub use attention::{Attention, Score};
pub use build::build;
pub(crate) use build::is_view;
pub use members::{Members, NestError};
pub use pieces::Piece;
pub use roles::Roles;
pub(crate) use rows::row_form;
pub(crate) use running::Running;
pub(crate) use simplify::{change_program, simplify};
pub use stages::{Blocks, Shorter, Stages};
pub use update::Update;
pub use verify::InvalidNest;
pub use window::Window;

use std::borrow::Borrow;

use crate::affine::Affine;
use crate::dtype::{DType, Scalar};
use crate::graph::Aggregation;
use crate::scalar::{Inst, Program, Value};
use crate::tensor::TensorType;

/// A loop of the nest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct Axis {
    /// Name for listings: the index name in the source, if there is one.
    pub name: String,
    /// Number of values: the variable runs over `0..extent`.
    pub extent: usize,
}

/// The variable `floor(numerator / denominator)`, which strided and reshaped indices need.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct Derived {
    /// The expression that is divided.
    pub numerator: Affine,
    /// At least 2.
    pub denominator: i64,
}

/// Returns the number of `floor(numerator / denominator)` in `list`, and appends it if it is new.
fn derived_number(list: &mut Vec<Derived>, numerator: Affine, denominator: i64) -> usize {
    let derived = Derived { numerator, denominator };
    list.iter().position(|d| *d == derived).unwrap_or_else(|| {
        list.push(derived);
        list.len() - 1
    })
}

/// A read of an operand's element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct Load {
    /// Number of the operand.
    pub operand: usize,
    /// Row-major position of the element.
    pub offset: Affine,
    /// Terms added to the position: an integer value, already clamped to its axis, times the stride
    /// of the axis.
    pub dynamic: Vec<(Value, i64)>,
    /// Conditions: if any of these is negative, the load is not executed and its value is 0.
    pub when: Vec<Affine>,
}

/// A sum over its own axes, evaluated at each point of the free and reduction axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct Inner {
    /// The variables of its axes.
    pub axes: std::ops::Range<usize>,
    /// The term as its only result. Its loads are executed at all points.
    pub body: Program<Leaf>,
}

/// An element of a constant table. [`crate::schedule::winograd`] makes nests with tables, which
/// only shaders run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct Table {
    /// The elements: at least one.
    pub elements: Vec<Scalar>,
    /// The number of the element.
    pub offset: Affine,
}

impl Table {
    /// Returns the element at a point of the axes and derived variables.
    pub fn element(&self, point: &[i64]) -> Option<Scalar> {
        self.elements.get(usize::try_from(self.offset.evaluate(point)?).ok()?).copied()
    }
}

/// A leaf of a program in a nest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub enum Leaf {
    /// An element of an operand.
    Load(Load),
    /// An element of a constant table.
    Table(Table),
    /// The value of an affine expression, as i32.
    Index(Affine),
    /// Epilogue only: the aggregated value, or the identity if no point counted. For the arg forms
    /// it is the position as i32, or 0 if no point counted.
    Accumulator,
    /// Epilogue only: a bool that is true if any point counted.
    Written,
    /// The aggregate of an earlier value: over the columns of the row in the epilogue, over all
    /// reduction points in a body with inner sums. Never one of the arg forms or an assignment.
    Statistic(Aggregation, Value),
    /// Body only: the inner sum with this number.
    Inner(usize),
    /// Epilogue only: the statistic of the body with this value number.
    OfBody(Value),
}

impl Leaf {
    /// Returns the load if the leaf is one.
    pub fn load(&self) -> Option<&Load> {
        match self {
            Leaf::Load(load) => Some(load),
            _ => None,
        }
    }
}

/// Returns the values that an instruction reads, including those of a load's run-time indices.
pub(crate) fn operands(inst: &Inst<Leaf>) -> Vec<Value> {
    match inst {
        Inst::Leaf(Leaf::Load(load)) => load.dynamic.iter().map(|(value, _)| *value).collect(),
        Inst::Leaf(Leaf::Statistic(_, value)) => vec![*value],
        _ => inst.operands(),
    }
}

/// A tensor, or a part of one, that the nest writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct Output {
    /// The type of the tensor.
    pub ty: TensorType,
    /// Row-major position of the place's element.
    pub position: Affine,
    /// The operand whose memory the output overwrites. `None` if the output has its own memory.
    pub over: Option<usize>,
}

/// A fused loop nest; see the [module documentation](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct Nest {
    /// Name for listings and kernels: letters, digits and `_`.
    pub name: String,
    /// The free axes, the reduction axes, the axes of each inner sum, then the loops around the
    /// nest, outermost first.
    pub axes: Vec<Axis>,
    /// Number of free axes.
    pub free: usize,
    /// Number of row axes among the free axes. All free axes if the nest has no columns.
    pub rows: usize,
    /// Number of loops around the nest.
    pub loops: usize,
    /// The variables derived from the axes.
    pub derived: Vec<Derived>,
    /// The expressions that must be at least 0 where a point counts.
    pub guards: Vec<Affine>,
    /// Types of the tensors read, in binding order.
    pub operands: Vec<TensorType>,
    /// The operands of 8-bit integers, in order, of which a buffer for shaders has four in a word.
    /// Others have one in a word.
    #[cfg_attr(feature = "pack", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub in_bytes: Vec<usize>,
    /// The aggregation over the reduction axes, if there are any.
    pub aggregation: Option<Aggregation>,
    /// For the arg forms: the i32 that identifies a point. Ties go to the point with the least
    /// position.
    pub position: Option<Affine>,
    /// Arg forms only: the number of points that are better than the one whose position is the
    /// accumulator. Otherwise it is the position of the best.
    pub rank: Option<Affine>,
    /// Results: the value to aggregate, then optionally a bool that is true if the point counts.
    /// Sums and products of f16 and bf16 values are accumulated in f32.
    pub body: Program<Leaf>,
    /// The sums that the body reads.
    pub inner: Vec<Inner>,
    /// One result for each output, with the output's type.
    pub epilogue: Program<Leaf>,
    /// The tensors that the nest writes.
    pub outputs: Vec<Output>,
}

impl Nest {
    /// Returns the variables of the reduction axes.
    pub fn reduction(&self) -> std::ops::Range<usize> {
        self.free..self.inner.first().map_or(self.loops().start, |inner| inner.axes.start)
    }

    /// Returns whether the nest computes row statistics of aggregated values.
    pub fn aggregates_into_rows(&self) -> bool {
        self.aggregation.is_some() && self.inner.is_empty() && !self.columns().is_empty()
    }

    /// Returns the variables of the columns.
    pub fn columns(&self) -> std::ops::Range<usize> {
        self.rows..self.free
    }

    /// Returns the number of places in a row.
    pub fn row_length(&self) -> usize {
        self.points(self.columns())
    }

    /// Returns whether an output has one element a row instead of one a place.
    pub fn is_of_rows(&self, output: usize) -> bool {
        let position = &self.outputs[output].position;
        !self.columns().is_empty()
            && !self.columns().any(|column| self.depends_on(position, column))
    }

    /// Returns the variables of the loops around the nest.
    pub fn loops(&self) -> std::ops::Range<usize> {
        self.axes.len() - self.loops..self.axes.len()
    }

    /// Returns whether any expression of the nest depends on a surrounding loop. If not, its steps
    /// differ only in the contents of memory.
    pub fn depends_on_loops(&self) -> bool {
        simplify::expressions(self)
            .any(|affine| affine.variables().any(|v| self.loops().contains(&v)))
    }

    /// Returns the row-major position of a place in the free axes.
    pub fn place(&self) -> Affine {
        self.row_major(0..self.free).unwrap_or_default()
    }

    /// Returns the row-major position in these axes, or `None` if it overflows 64 bits.
    fn row_major(&self, axes: impl DoubleEndedIterator<Item = usize>) -> Option<Affine> {
        let mut stride = 1i64;
        let mut terms = Vec::new();
        for axis in axes.rev() {
            terms.push((axis, stride));
            stride = stride.checked_mul(i64::try_from(self.axes[axis].extent).ok()?)?;
        }
        Affine::new(terms, 0)
    }

    /// Returns the nest without names. Two equal results imply that both nests compute the same.
    pub fn anonymous(&self) -> Nest {
        let mut nest = self.clone();
        nest.name.clear();
        nest.axes.iter_mut().for_each(|axis| axis.name.clear());
        nest
    }

    /// Returns the number of points of these axes.
    pub fn points(&self, axes: impl IntoIterator<Item: Borrow<usize>>) -> usize {
        axes.into_iter().map(|axis| self.axes[*axis.borrow()].extent).fold(1, usize::saturating_mul)
    }

    /// Returns the number of places, in all rows.
    pub fn places(&self) -> usize {
        self.points(0..self.free)
    }

    /// Returns the number of reduction points of a place, whether or not they count.
    pub fn reduction_points(&self) -> usize {
        self.points(self.reduction())
    }

    /// Returns the type in which values are aggregated.
    pub fn accumulator(&self) -> Option<DType> {
        self.aggregation.map(|_| self.body.dtype(self.body.results[0]))
    }

    /// Returns the constant tables that the body reads.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.body.leaves().filter_map(|leaf| match leaf {
            Leaf::Table(table) => Some(table),
            _ => None,
        })
    }

    /// Returns whether the epilogue reads [`Leaf::Written`].
    pub fn tracks_written(&self) -> bool {
        self.epilogue.leaves().any(|leaf| *leaf == Leaf::Written)
    }

    /// Returns inclusive bounds of every variable, derived ones included, for [`Affine::bounds`].
    pub fn variable_bounds(&self) -> Vec<(i64, i64)> {
        let mut bounds: Vec<(i64, i64)> =
            self.axes.iter().map(|a| (0, a.extent as i64 - 1)).collect();
        for derived in &self.derived {
            let (low, high) = derived.numerator.bounds(&bounds).unwrap_or((i64::MIN, i64::MAX));
            bounds
                .push((low.div_euclid(derived.denominator), high.div_euclid(derived.denominator)));
        }
        bounds
    }

    /// Returns the name of a variable in listings.
    pub fn variable_name(&self, variable: usize) -> String {
        match self.axes.get(variable) {
            Some(axis) => axis.name.clone(),
            None => format!("q{}", variable - self.axes.len()),
        }
    }

    /// Returns the loads of all programs, in order.
    pub fn loads(&self) -> impl Iterator<Item = &Load> {
        self.body_loads().chain(self.epilogue_loads())
    }

    /// Returns the loads of the inner sums and the body.
    pub fn body_loads(&self) -> impl Iterator<Item = &Load> {
        let inner = self.inner.iter().flat_map(|inner| inner.body.leaves());
        inner.chain(self.body.leaves()).filter_map(Leaf::load)
    }

    /// Returns the loads of the epilogue.
    pub fn epilogue_loads(&self) -> impl Iterator<Item = &Load> {
        self.epilogue.leaves().filter_map(Leaf::load)
    }
}
