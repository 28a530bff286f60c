//! Sums of products of two operands, by a packed matrix product.
//!
//! [`Roles`] says which axes are rows, columns, batch and terms of the sum. A convolution is such a
//! product whose left operand is gathered. A factor that is a single load is packed from its
//! operand, or read in place, and f16 and bf16 are widened. Any other factor is computed while
//! packing. Guards become zeros in the packed operands. Zero times an infinite factor is NaN, so a
//! runtime computes sums that are NaN again, from the terms that count.

use crate::affine::Affine;
use crate::dtype::DType;
use crate::nest::{Leaf, Load, Nest, Roles};
use crate::profile::Processor;
use crate::scalar::{Inst, Value};

use super::address::Address;
use super::blocks::ProductBlocks;
use super::space::{Lines, Space};
use super::tape::Tape;

/// Products with fewer multiply-adds, or fewer rows, run in the vector loops, which need no
/// packing.
const LEAST_WORK: usize = 4096;
const LEAST_ROWS: usize = 4;

/// The terms that an element of packed 8-bit integers holds.
pub const QUAD: usize = 4;

/// A product. Places are consecutive along columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// The type of the sums: f32 or f64, which the factors have, too, or are widened to; or i32.
    /// Then both factors are gathered, one from u8 and the other from i8.
    pub dtype: DType,
    /// The axes of the batch.
    pub batch: Vec<usize>,
    /// The axes of the rows.
    pub rows: Vec<usize>,
    /// The axes of the columns.
    pub columns: Vec<usize>,
    /// The axes of the terms, in the order in which they are added up.
    pub terms: Vec<usize>,
    /// The left factor, which has the rows.
    pub left: Factor,
    /// The right factor, which has the columns.
    pub right: Factor,
    /// The guards of one factor alone. A term where one is negative does not count, even if the
    /// other factor is infinite or NaN there. Integers need none.
    pub guards: Vec<Affine>,
    /// Whether the right factor can be packed ahead: nothing else reads its operands, and its
    /// addresses are the same at every step of the loops around the nest.
    pub packs: bool,
    /// The sizes of the blocks.
    pub blocks: ProductBlocks,
}

/// The source of a factor's elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Factor {
    /// A load of elements of the product's type, or of f16 or bf16 where that is f32. Each of its
    /// expressions is a sum of one term for each group of axes. `whole` if it reads every element
    /// of an operand of the product's type once.
    Gathered {
        /// The elements.
        address: Address,
        /// Whether every element of the operand is read once.
        whole: bool,
    },
    /// A program over the terms.
    Computed {
        /// The program.
        tape: Box<Tape>,
        /// Elements where one of these is negative are 0.
        guards: Lines,
    },
}

impl Product {
    /// Describes the nest as a product, if it is one that is worth packing for. `kept` says which
    /// operands change seldom.
    pub(super) fn new(
        nest: &Nest,
        processor: &Processor,
        kept: &dyn Fn(usize) -> bool,
    ) -> Option<Self> {
        let dtype = nest.accumulator()?;
        let mut roles = oriented(nest)?;
        let terms_at_once = match dtype {
            DType::F32 | DType::F64 => 1,
            DType::I32 => {
                (roles.left, roles.right) = bytes(nest, roles.left, roles.right)?;
                QUAD
            }
            _ => return None,
        };
        if nest.places().saturating_mul(nest.reduction_points()) < LEAST_WORK {
            return None;
        }
        let is_lone = |guard: &&Affine| {
            roles.left_guards.contains(guard) != roles.right_guards.contains(guard)
        };
        let lone = nest.guards.iter().filter(is_lone).filter(|_| dtype != DType::I32);
        let guards = lone.cloned().collect();
        let (left, right) = factors(nest, &mut roles);
        let is_gathered = |factor: &Factor| matches!(factor, Factor::Gathered { .. });
        if dtype == DType::I32 && ![&left, &right].into_iter().all(is_gathered) {
            return None;
        }
        if nest.points(&roles.rows) < LEAST_ROWS
            && !right.operands().iter().all(|&operand| kept(operand))
        {
            return None;
        }
        let packs = right.is_alone(nest) && (nest.loops == 0 || right.is_steady(nest));
        let Roles { batch, rows, columns, reduction: terms, .. } = roles;
        let elements = nest.points(&terms).div_ceil(terms_at_once);
        let blocks = ProductBlocks::new(processor, elements, dtype.size());
        Some(Self { dtype, batch, rows, columns, terms, left, right, guards, packs, blocks })
    }
}

/// Returns the loads of two factors of a product in i32, if one loads u8 and the other i8.
fn bytes(nest: &Nest, left: Value, right: Value) -> Option<(Value, Value)> {
    let insts = &nest.body.insts;
    let load = |factor: Value| match insts[factor].0 {
        Inst::Cast(value) if matches!(insts[value].0, Inst::Leaf(Leaf::Load(_))) => Some(value),
        _ => None,
    };
    let (left, right) = (load(left)?, load(right)?);
    let dtypes = [insts[left].1, insts[right].1];
    matches!(dtypes, [DType::U8, DType::I8] | [DType::I8, DType::U8]).then_some((left, right))
}

/// Returns the nest's roles with the last free axis as a column, so that places are consecutive
/// along columns.
pub(super) fn oriented(nest: &Nest) -> Option<Roles> {
    let roles = nest.roles()?;
    let last = nest.free.checked_sub(1)?;
    let roles = if roles.rows.contains(&last) { roles.swapped() } else { roles };
    roles.columns.contains(&last).then_some(roles)
}

/// Creates the two factors. If both are gathered, the terms are ordered so that neighbours are
/// contiguous in the left one.
fn factors(nest: &Nest, roles: &mut Roles) -> (Factor, Factor) {
    let of = |outer: &[usize], value, guards| {
        Factor::new(nest, [&roles.batch, outer, &roles.reduction], value, guards)
    };
    let left = of(&roles.rows, roles.left, &roles.left_guards);
    let right = of(&roles.columns, roles.right, &roles.right_guards);
    if let (Factor::Gathered { address, .. }, Factor::Gathered { .. }) = (&left, &right) {
        let is_neighbour = |axis: &usize| {
            nest.axes[*axis].extent > 1 && address.offset.coefficient(*axis).abs() == 1
        };
        if let Some(neighbours) = roles.reduction.iter().position(is_neighbour) {
            roles.reduction[neighbours..].rotate_left(1);
        }
    }
    (left, right)
}

/// Returns the value of f16 or bf16 that is widened to this f32, or the value itself.
fn widened(nest: &Nest, value: Value) -> Value {
    let insts = &nest.body.insts;
    match insts[value] {
        (Inst::Cast(from), DType::F32) if insts[from].1.is_half() => from,
        _ => value,
    }
}

impl Factor {
    /// Creates the factor with the elements `value` of the body, or 0 where a guard fails. `axes`
    /// are its batch, outer and reduction axes.
    fn new(nest: &Nest, axes: [&[usize]; 3], value: Value, guards: &[Affine]) -> Self {
        let loaded = widened(nest, value);
        if let Inst::Leaf(Leaf::Load(load)) = &nest.body.insts[loaded].0
            && load.dynamic.is_empty()
        {
            let address = Address::new(load, guards);
            if address.is_separable(nest, axes) {
                let is_unchanged = loaded == value && guards.is_empty();
                return Factor::Gathered {
                    address,
                    whole: is_unchanged && is_whole(nest, load, axes),
                };
            }
        }
        let space = Space::new(nest, nest.reduction());
        let tape = Tape::new(nest, &nest.body, &[value], space, guards);
        let guards = Lines::new(nest, &tape.space, guards);
        Factor::Computed { tape: Box::new(tape), guards }
    }

    /// Returns the operands that it reads, once for each load.
    pub fn operands(&self) -> Vec<usize> {
        match self {
            Factor::Gathered { address, .. } => vec![address.operand],
            Factor::Computed { tape, .. } => tape.operands().collect(),
        }
    }

    /// Returns whether nothing else in the nest reads its operands.
    fn is_alone(&self, nest: &Nest) -> bool {
        let operands = self.operands();
        let reads = |load: &&Load| operands.contains(&load.operand);
        let in_body = nest.body.leaves().filter_map(Leaf::load).filter(reads).count();
        in_body == operands.len() && nest.loads().filter(reads).count() == operands.len()
    }

    fn is_steady(&self, nest: &Nest) -> bool {
        match self {
            Factor::Gathered { address, .. } => address.is_steady(nest),
            Factor::Computed { .. } => false,
        }
    }
}

/// Returns whether the load, over all points of `axes`, reads every element of its operand once.
fn is_whole(nest: &Nest, load: &Load, axes: [&[usize]; 3]) -> bool {
    let mut strides: Vec<(i64, usize)> = Vec::new();
    for &axis in axes.into_iter().flatten() {
        strides.push((load.offset.coefficient(axis), nest.axes[axis].extent));
    }
    strides.sort_unstable();
    let dense = strides.iter().try_fold(1, |expected, (stride, extent)| {
        (*stride == expected).then_some(expected * *extent as i64)
    });
    let elements = nest.operands[load.operand].elements() as i64;
    let simple = load.when.is_empty()
        && load.dynamic.is_empty()
        && load.offset.terms().len() == strides.len();
    simple && load.offset.offset() == 0 && dense == Some(elements)
}
