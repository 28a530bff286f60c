//! The canonical form of a fused group of graph nodes: one loop nest, not yet scheduled.
//!
//! ```text
//! outputs[free] = epilogue( aggregation over the reduction axes of body(free, reduction), free )
//! ```
//!
//! Axes are numbered variables that run over `0..extent`: the `free` axes first (their product is the number of places),
//! then the reduction axes, then the loops of the plan around the nest, which it does not run itself: each launch says at
//! which step of each it is. After the axes come the derived variables, each the floor of an affine expression of the
//! variables before it divided by a constant. Every address, guard and index value is an [`Affine`] over them: this is
//! what lets one set of templates serve matrix products, convolutions, pooling and copies alike.
//!
//! A point of the axes counts when every guard is at least 0 and the body's second result, where it has one, is true.
//!
//! Always true ([`Nest::verify`] holds it):
//! - extents are at least 1; no two places have one position in an output, but for those of a row in an output for each
//!   row, whose value is then the same in all of them; where the nest is in no loop, they fill the output;
//!   axes of extent 1 have been dropped and neighbours merged where every expression allows it, but for loops;
//! - without an aggregation there are no reduction axes and no guards, and the body is empty: the epilogue is all;
//! - wherever a load is executed (its point counts, its `when` holds), its address is within its operand;
//! - `when`, guards and loads of the epilogue mention no reduction axis, nor do positions in outputs;
//! - for the arg forms, and only for them, `position` is there;
//! - epilogues of nests without inner sums may have statistics, and bodies of nests with inner sums; only nests with
//!   statistics have columns.
//!
//! A nest may know *statistics* of its rows: the first `rows` free axes number rows, the free axes
//! after them are a row's columns, and a statistic is the aggregate of a value over all columns of its row. It lets values
//! that come before it in the epilogue be those of the whole row, and values after it those of a softmax or of a
//! normalisation, which read the row once:
//!
//! ```text
//! v0 = in0[1024*r + c]   v1 = max over columns of v0   v2 = sub v0 v1   v3 = exp v2   v4 = sum over columns of v3   v5 = div v3 v4
//! ```
//!
//! An output may then have one element for each row: the positions of such mention no column. A nest that also has
//! an aggregation is one whose rows are finished before they are stored.
//!
//! A nest with an aggregation may have *inner sums*: each is a sum over axes of its own, which follow the reduction axes, at a
//! point of the free and the reduction axes, and is read by the body alone. The body may then know statistics over the reduction
//! axes, which the epilogue may read, too. That is attention: scores, their softmax, and the mean that it weighs, without a score in memory
//! ([`Nest::attention`] says for which such nests there are kernels). Its columns are free axes on which no statistic depends:
//!
//! ```text
//! inner0 sum [d]  v0 = in0[64*t + d]   v1 = in1[64*s + d]   v2 = mul v0 v1   yield v2
//! body            v0 = inner0   v1 = max over points of v0   v2 = sub v0 v1   v3 = exp v2   v4 = in2[64*s + e]   v5 = mul v3 v4
//!                 v6 = sum over points of v3   yield v5
//! epilogue        v0 = accumulator   v1 = v6 of body   v2 = div v0 v1   yield v2
//! ```
//!
//! Nests know buffers only by position: which tensor an operand is, the plan says.

mod address;
mod attention;
mod build;
mod gather;
mod inline;
mod inner;
mod name;
mod roles;
mod rows;
mod simplify;
mod split;
mod stages;
#[cfg(test)]
mod tests;
mod text;
mod verify;
mod window;

pub(crate) use attention::loads_of;
pub use attention::{Attention, Score};
pub(crate) use build::is_view;
pub use build::{Members, NestError, build};
pub use roles::Roles;
pub(crate) use rows::row_form;
pub(crate) use simplify::{change_program, simplify};
pub use stages::Stages;
pub use verify::InvalidNest;
pub use window::Window;

use std::borrow::Borrow;

use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::Aggregation;
use crate::scalar::{Inst, Program, Value};
use crate::tensor::TensorType;

/// A loop of the nest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Axis {
    /// For readers: the source's index name where there is one.
    pub name: String,
    /// The number of values: the variable runs over `0..extent`.
    pub extent: usize,
}

/// `floor(numerator / denominator)`: a variable that strided and reshaped indices need.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Derived {
    pub numerator: Affine,
    /// At least 2.
    pub denominator: i64,
}

/// The number in `list` of `floor(numerator / denominator)`, which is added where it is not there.
fn derived_number(list: &mut Vec<Derived>, numerator: Affine, denominator: i64) -> usize {
    let derived = Derived { numerator, denominator };
    list.iter().position(|d| *d == derived).unwrap_or_else(|| {
        list.push(derived);
        list.len() - 1
    })
}

/// A read of an operand's element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Load {
    /// Which operand.
    pub operand: usize,
    /// The row-major position of the element.
    pub offset: Affine,
    /// Added to the position: an integer value, already clamped into its axis, times the axis' stride.
    pub dynamic: Vec<(Value, i64)>,
    /// Where any of these is negative the load is not executed and its value is 0.
    pub when: Vec<Affine>,
}

/// A sum over axes of its own, at a point of the free and the reduction axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inner {
    /// The variables of its axes.
    pub axes: std::ops::Range<usize>,
    /// One result, summed. Its loads are executed at all points.
    pub body: Program<Leaf>,
}

/// What the leaves of a nest's programs read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Leaf {
    Load(Load),
    /// The value of an affine expression, as i32.
    Index(Affine),
    /// Epilogue only: the aggregated value (the identity where no point counted); for the arg forms the position, i32
    /// (0 where no point counted).
    Accumulator,
    /// Epilogue only: whether any point counted, as bool.
    Written,
    /// The aggregate of a value before it: over the columns of its row, in the epilogue; over all reduction points, in a body
    /// with inner sums. Not of the arg forms, nor of assignments.
    Statistic(Aggregation, Value),
    /// Body only: the inner sum of this number.
    Inner(usize),
    /// Epilogue only: a statistic of the body, by its number there.
    OfBody(Value),
}

impl Leaf {
    /// The load, if it is one.
    pub fn load(&self) -> Option<&Load> {
        match self {
            Leaf::Load(load) => Some(load),
            _ => None,
        }
    }
}

/// The values that an instruction of a nest's program reads, those of a load's run-time indices among them.
pub(crate) fn operands(inst: &Inst<Leaf>) -> Vec<Value> {
    match inst {
        Inst::Leaf(Leaf::Load(load)) => load.dynamic.iter().map(|(value, _)| *value).collect(),
        Inst::Leaf(Leaf::Statistic(_, value)) => vec![*value],
        _ => inst.operands(),
    }
}

/// A tensor that the nest writes, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Output {
    pub ty: TensorType,
    /// The row-major position of a place's element.
    pub position: Affine,
    /// The operand whose memory it is written to, if it has none of its own.
    pub over: Option<usize>,
}

/// One fused loop nest: see the module's head.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nest {
    /// For readers and kernel listings: letters, digits, `_`.
    pub name: String,
    /// The free axes, then the reduction axes, then those of each inner sum, then the loops around the nest, the outermost first.
    pub axes: Vec<Axis>,
    /// How many of `axes` are free.
    pub free: usize,
    /// How many of the free axes number the rows: all of them where nothing is of rows.
    pub rows: usize,
    /// How many of `axes` are loops around the nest.
    pub loops: usize,
    pub derived: Vec<Derived>,
    pub guards: Vec<Affine>,
    /// The tensors read, in binding order.
    pub operands: Vec<TensorType>,
    pub aggregation: Option<Aggregation>,
    /// The arg forms: the i32 that stands for a point. Of equally good points the one with the least position wins.
    pub position: Option<Affine>,
    /// Results: the value to aggregate (f16 and bf16 are summed and multiplied in f32), then optionally a bool: whether
    /// the point counts.
    pub body: Program<Leaf>,
    /// The sums that the body reads.
    pub inner: Vec<Inner>,
    /// One result for each output, of its type.
    pub epilogue: Program<Leaf>,
    pub outputs: Vec<Output>,
}

impl Nest {
    /// The reduction axes' variables.
    pub fn reduction(&self) -> std::ops::Range<usize> {
        self.free..self.inner.first().map_or(self.loops().start, |inner| inner.axes.start)
    }

    /// Whether it knows statistics of rows of what it aggregates.
    pub fn aggregates_into_rows(&self) -> bool {
        self.aggregation.is_some() && self.inner.is_empty() && !self.columns().is_empty()
    }

    /// The variables of a row's columns.
    pub fn columns(&self) -> std::ops::Range<usize> {
        self.rows..self.free
    }

    /// The number of places in a row.
    pub fn row_length(&self) -> usize {
        self.points(self.columns())
    }

    /// Whether an output has an element for each row, instead of each place.
    pub fn is_of_rows(&self, output: usize) -> bool {
        let position = &self.outputs[output].position;
        !self.columns().is_empty() && !self.columns().any(|column| self.depends_on(position, column))
    }

    /// The variables of the loops around the nest.
    pub fn loops(&self) -> std::ops::Range<usize> {
        self.axes.len() - self.loops..self.axes.len()
    }

    /// Whether what it does differs from step to step of a loop around it, but for what is in memory.
    pub fn depends_on_loops(&self) -> bool {
        simplify::expressions(self).any(|affine| affine.variables().any(|v| self.loops().contains(&v)))
    }

    /// A place's row-major position in the free axes.
    pub fn place(&self) -> Affine {
        self.row_major(0..self.free).unwrap_or_default()
    }

    /// The row-major position in these axes. `None`: it left the range of 64 bits.
    fn row_major(&self, axes: impl DoubleEndedIterator<Item = usize>) -> Option<Affine> {
        let mut stride = 1i64;
        let mut terms = Vec::new();
        for axis in axes.rev() {
            terms.push((axis, stride));
            stride = stride.checked_mul(i64::try_from(self.axes[axis].extent).ok()?)?;
        }
        Affine::new(terms, 0)
    }

    /// Whether an output may be written over an operand: it reads that only where it writes, and once it is all else.
    pub fn may_overwrite(&self, output: usize, operand: usize) -> bool {
        let Output { ty, position, .. } = &self.outputs[output];
        let of_operand = |leaf: &Leaf| matches!(leaf, Leaf::Load(load) if load.operand == operand);
        let is_here = |leaf: &Leaf| match leaf {
            Leaf::Load(load) => load.offset == *position && load.dynamic.is_empty() && load.when.is_empty(),
            _ => true,
        };
        self.loops == 0
            && !self.is_of_rows(output)
            && self.operands[operand] == *ty
            && self.body_loads().all(|load| load.operand != operand)
            && self.epilogue.leaves().filter(|leaf| of_operand(leaf)).all(is_here)
    }

    /// The same nest without names: equal for two nests only where they compute the same.
    pub fn anonymous(&self) -> Nest {
        let mut nest = self.clone();
        nest.name.clear();
        nest.axes.iter_mut().for_each(|axis| axis.name.clear());
        nest
    }

    /// The number of points of these axes.
    pub fn points(&self, axes: impl IntoIterator<Item: Borrow<usize>>) -> usize {
        axes.into_iter().map(|axis| self.axes[*axis.borrow()].extent).product()
    }

    /// Number of places in each output.
    pub fn places(&self) -> usize {
        self.points(0..self.free)
    }

    /// Number of reduction points for each place, valid or not.
    pub fn reduction_points(&self) -> usize {
        self.points(self.reduction())
    }

    /// The type in which values are aggregated.
    pub fn accumulator(&self) -> Option<DType> {
        self.aggregation.map(|_| self.body.dtype(self.body.results[0]))
    }

    /// Whether the epilogue asks which places were written.
    pub fn tracks_written(&self) -> bool {
        self.epilogue.leaves().any(|leaf| *leaf == Leaf::Written)
    }

    /// Inclusive bounds of every variable, derived ones included, for [`Affine::bounds`].
    pub fn variable_bounds(&self) -> Vec<(i64, i64)> {
        let mut bounds: Vec<(i64, i64)> = self.axes.iter().map(|a| (0, a.extent as i64 - 1)).collect();
        for derived in &self.derived {
            let (low, high) = derived.numerator.bounds(&bounds).unwrap_or((i64::MIN, i64::MAX));
            bounds.push((low.div_euclid(derived.denominator), high.div_euclid(derived.denominator)));
        }
        bounds
    }

    /// The name of a variable in listings.
    pub fn variable_name(&self, variable: usize) -> String {
        match self.axes.get(variable) {
            Some(axis) => axis.name.clone(),
            None => format!("q{}", variable - self.axes.len()),
        }
    }

    /// Loads of all programs, in order.
    pub fn loads(&self) -> impl Iterator<Item = &Load> {
        self.body_loads().chain(self.epilogue_loads())
    }

    /// Loads of what is aggregated, inner sums among it.
    pub fn body_loads(&self) -> impl Iterator<Item = &Load> {
        let inner = self.inner.iter().flat_map(|inner| inner.body.leaves());
        inner.chain(self.body.leaves()).filter_map(Leaf::load)
    }

    pub fn epilogue_loads(&self) -> impl Iterator<Item = &Load> {
        self.epilogue.leaves().filter_map(Leaf::load)
    }
}
