//! [`NativeProgram`]: all that a cpu needs to run a nest.

use crate::affine::Affine;
use crate::nest::{Axis, Leaf, Load, Nest};
use crate::profile::{Processor, Profile};
use crate::scalar::{Inst, Program};
use crate::tensor::TensorType;

use super::attention::Attention;
use super::direct::Direct;
use super::pieces::Piece;
use super::product::Product;
use super::reduction::Reduction;
use super::running::Running;
use super::scatter::Scatter;
use super::space::{Lines, Space, Variables};
use super::tape::Tape;
use super::update::Update;
use super::winograd::Winograd;

/// A nest as a native program; see the [module documentation](super).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeProgram {
    /// The name of the nest.
    pub name: String,
    /// The types of the operands.
    pub operands: Vec<TensorType>,
    /// The outputs.
    pub outputs: Vec<NativeOutput>,
    /// The variables of addresses.
    pub variables: Variables,
    /// The number of values of each axis.
    pub extents: Vec<usize>,
    /// Whether stores of an output that is larger than the caches bypass them.
    pub bypass: bool,
    /// The nest's epilogue over its places. Attention and pieces have none: their
    /// programs have their own.
    pub epilogue: Tape,
    /// The computation of the values that the epilogue reads.
    pub implementation: Implementation,
}

/// A tensor, or a part of one, that a program writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeOutput {
    /// The type of the tensor.
    pub ty: TensorType,
    /// The positions of the places' elements.
    pub position: Position,
    /// The operand whose memory the output overwrites.
    pub over: Option<usize>,
}

/// The positions of the places' elements in an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// In the order of the places, shifted by the expression, which only the loops around the nest
    /// decide.
    InOrder(Affine),
    /// At an expression over the places.
    Lines(Lines),
    /// One element for each row. The space numbers the rows.
    Rows(Lines, Space),
}

/// The way to compute the values that the epilogue reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// Nothing is aggregated.
    Pointwise,
    /// Nothing is aggregated, and only some rows of an operand are written over.
    Update(Box<Update>),
    /// The places are divided into pieces that copy different operands.
    Pieces(Vec<Piece>),
    /// A convolution with fewer multiplications, on transformed tiles.
    Winograd(Box<Winograd>),
    /// A packed matrix product.
    Product(Box<Product>),
    /// A reduction of few points, over contiguous elements.
    Direct(Box<Direct>),
    /// An aggregation to places that the points decide.
    Scatter(Box<Scatter>),
    /// An aggregate of all points up to each place.
    Running(Box<Running>),
    /// Any other aggregation.
    Reduction(Box<Reduction>),
    /// A product whose left operand is made of other products.
    Attention(Box<Attention>),
}

impl NativeProgram {
    /// Compiles a nest, which must be verified. `kept` says which operands change seldom, which may
    /// decide the implementation.
    pub fn new(nest: &Nest, profile: &Profile, kept: &dyn Fn(usize) -> bool) -> Self {
        let pointwise = nest.without_aggregation();
        let nest = pointwise.as_ref().unwrap_or(nest);
        match Attention::new(nest, profile) {
            Some(attention) => {
                Self::with(nest, profile, Implementation::Attention(Box::new(attention)))
            }
            None => Self::plain(nest, profile, kept),
        }
    }

    /// Compiles a nest without inner sums.
    pub(super) fn plain(nest: &Nest, profile: &Profile, kept: &dyn Fn(usize) -> bool) -> Self {
        Self::with(nest, profile, Implementation::choose(nest, profile, kept))
    }

    /// Returns the program with this implementation.
    pub fn with(nest: &Nest, profile: &Profile, implementation: Implementation) -> Self {
        let free = Space::new(nest, 0..nest.free);
        let epilogue = match implementation {
            Implementation::Attention(_) | Implementation::Pieces(_) => {
                Tape::new(nest, &Program::default(), &[], free, &[])
            }
            _ => Tape::new(nest, &nest.epilogue, &nest.epilogue.results, free, &[]),
        };
        let output = |(number, output): (usize, &crate::nest::Output)| NativeOutput {
            ty: output.ty.clone(),
            position: Position::new(nest, number),
            over: output.over,
        };
        let update = match implementation {
            Implementation::Pointwise => Update::new(nest, &epilogue).map(Box::new),
            _ => None,
        };
        let bytes = |ty: &TensorType| ty.elements().saturating_mul(ty.dtype.size());
        let Processor { last_cache, .. } = profile.processor;
        Self {
            name: nest.name.clone(),
            operands: nest.operands.clone(),
            outputs: nest.outputs.iter().enumerate().map(output).collect(),
            variables: Variables::new(nest),
            extents: nest.axes.iter().map(|axis: &Axis| axis.extent).collect(),
            // Most of an output this large would leave the caches before it is read.
            bypass: matches!(&nest.outputs[..], [output] if bytes(&output.ty) >= last_cache / 2),
            epilogue,
            implementation: update.map_or(implementation, Implementation::Update),
        }
    }

    /// Returns whether another program is the same but for its name.
    pub fn equals(&self, other: &NativeProgram) -> bool {
        let renamed = NativeProgram { name: self.name.clone(), ..other.clone() };
        *self == renamed
    }

    /// Returns the number of places.
    pub fn places(&self) -> usize {
        self.epilogue.space.size
    }

    /// Returns the number of points of these axes.
    pub fn points(&self, axes: &[usize]) -> usize {
        axes.iter().map(|&axis| self.extents[axis]).fold(1, usize::saturating_mul)
    }

    /// Returns the variables of the loops around the nest.
    pub fn loops(&self) -> std::ops::Range<usize> {
        self.variables.loops..self.variables.axes
    }

    /// Returns the row-major position of a place in the free axes.
    pub fn place(&self) -> Affine {
        let mut stride = 1i64;
        let mut terms = Vec::new();
        for axis in self.epilogue.space.axes().rev() {
            terms.push((axis, stride));
            stride = stride.saturating_mul(self.extents[axis] as i64);
        }
        Affine::new(terms, 0).unwrap_or_default()
    }
}

/// Returns whether a nest reads 8-bit integers, and each for a single place.
fn reads_bytes_once(nest: &Nest) -> bool {
    let loads = nest.body.insts.iter().filter_map(|(inst, _)| match inst {
        Inst::Leaf(Leaf::Load(load)) => Some(load),
        _ => None,
    });
    let mut bytes = loads.filter(|load| nest.operands[load.operand].dtype.size() == 1).peekable();
    let is_of_place = |load: &Load, axis: usize| {
        nest.axes[axis].extent == 1 || load.offset.coefficient(axis) != 0
    };
    bytes.peek().is_some() && bytes.all(|load| (0..nest.free).all(|axis| is_of_place(load, axis)))
}

impl Implementation {
    /// Chooses the implementation of a nest without inner sums, from its roles and sizes.
    fn choose(nest: &Nest, profile: &Profile, kept: &dyn Fn(usize) -> bool) -> Self {
        let (Some(aggregation), Some(dtype)) = (nest.aggregation, nest.accumulator()) else {
            let pieces = Piece::all(nest, profile);
            return pieces.map_or(Implementation::Pointwise, Implementation::Pieces);
        };
        if let Some(running) = Running::new(nest, aggregation, dtype) {
            return Implementation::Running(Box::new(running));
        }
        let reduction = || Box::new(Reduction::new(nest, aggregation, dtype));
        let is_exact = profile.exact;
        if let Some(reduction) = (!is_exact && reads_bytes_once(nest)).then(reduction)
            && reduction.scaled_dots().is_some()
        {
            return Implementation::Reduction(reduction);
        }
        let winograd = if is_exact { None } else { Winograd::new(nest, kept) };
        let direct = Direct::new(nest);
        let is_narrow = direct.as_ref().is_some_and(|direct| direct.is_narrow(nest));
        let product = || Product::new(nest, &profile.processor, kept).filter(|_| !is_narrow);
        if let Some(winograd) = winograd {
            Implementation::Winograd(Box::new(winograd))
        } else if let Some(product) = product() {
            Implementation::Product(Box::new(product))
        } else if let Some(direct) = direct {
            Implementation::Direct(Box::new(direct))
        } else if let Some(scatter) = Scatter::new(nest, aggregation, dtype) {
            Implementation::Scatter(Box::new(scatter))
        } else {
            Implementation::Reduction(reduction())
        }
    }
}

impl Position {
    /// Finds the positions of the nest's output of this number.
    fn new(nest: &Nest, output: usize) -> Self {
        let position = &nest.outputs[output].position;
        if nest.is_of_rows(output) {
            let rows = Space::new(nest, 0..nest.rows);
            return Position::Rows(Lines::new(nest, &rows, [position]), rows);
        }
        let shift = position
            .sub(&nest.place())
            .filter(|shift| shift.variables().all(|v| nest.loops().contains(&v)));
        let lines = || Lines::new(nest, &Space::new(nest, 0..nest.free), [position]);
        shift.map_or_else(|| Position::Lines(lines()), Position::InOrder)
    }
}
