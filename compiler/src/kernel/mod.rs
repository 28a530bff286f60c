//! IR 2, the kernel: one scheduled loop nest as structured code for a grid of workgroups.
//!
//! Everything that scheduling decides is explicit here: which invocation computes what, loops, unrolling, vector
//! accesses, workgroup memory, barriers. Emission ([`crate::emit`]) only spells it in naga's terms: what a kernel says
//! is what a device runs and what `--emit` prints.
//!
//! Types are those that shaders have: bool, i32, u32, i64, u64, f16, f32, f64, alone or in vectors of 2 or 4; narrower
//! ones have been legalised (see [`crate::schedule`]). Indices and loop counters are i32.
//!
//! Always true ([`Kernel::verify`] holds it):
//! - names are letters, digits and `_`, start with a letter, differ from each other and from the words of the text form;
//! - a variable is declared once, before its uses, in their block or one around it; variables are numbered in the order
//!   of their declarations; only `Var`s are assigned;
//! - operand types match as the variants say; indices are i32 scalars; conditions are bool scalars;
//! - operations are those that shaders have: [`is_native_unary`], [`is_native_binary`];
//! - a kernel reads only `Read` and `Update` buffers, and writes only `Write` and `Update` ones;
//! - barriers, `Collect` and what is done to matrices stand where control flow is uniform: outside any `If` and any loop whose
//!   bounds depend on the invocation.
//!
//! The text form ([`Kernel`]'s `Display`) parses back to an equal kernel ([`Kernel::parse`]), one statement a line.
//! [`Builder`] and the constructors of [`Expr`] are how kernels are written.

#[cfg(test)]
pub(crate) mod arbitrary;
mod build;
mod expression;
mod parse;
#[cfg(test)]
mod tests;
mod text;
mod types;
mod verify;

pub use build::Builder;
pub use parse::ParseError;
pub use types::{is_native_binary, is_native_unary};
pub use verify::Invalid;

use crate::dtype::{DType, Scalar};
use crate::scalar::{BinaryOp, UnaryOp};

/// A scalar or a short vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Type {
    pub dtype: DType,
    /// 1, 2 or 4.
    pub lanes: u8,
}

impl Type {
    pub const I32: Type = Type::scalar(DType::I32);
    pub const BOOL: Type = Type::scalar(DType::Bool);

    pub const fn scalar(dtype: DType) -> Type {
        Type { dtype, lanes: 1 }
    }

    pub const fn vector(dtype: DType, lanes: u8) -> Type {
        Type { dtype, lanes }
    }
}

/// How a kernel uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    Read,
    Write,
    /// Both: no invocation touches an element that another one touches.
    Update,
}

/// A storage buffer: binding number = position in [`Kernel::buffers`], group 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Buffer {
    pub name: String,
    pub ty: Type,
    /// In elements of `ty`. Never 0. No bool: those are stored as u32.
    pub length: usize,
    pub access: Access,
}

/// An array in workgroup memory; undefined when the workgroup starts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shared {
    pub name: String,
    pub ty: Type,
    pub length: usize,
}

/// What a matrix is in a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    Left,
    Right,
    /// Of products: the accumulator.
    Sum,
}

/// A square matrix that the invocations of each subgroup hold together, in registers: none of them sees an element of it. It
/// is undefined when the workgroup starts. The subgroups of a kernel that has matrices must all be whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Matrix {
    pub name: String,
    pub role: Role,
    /// f16 or f32; a sum's is f32.
    pub dtype: DType,
    /// Rows, and columns: 8 or 16.
    pub size: u8,
}

/// Where a matrix lies in workgroup memory, in an array of scalars of its type: from `first` on, one line `pitch` elements after
/// the other. Lines are columns of a left matrix, and rows of the others. It is the same in all invocations of a subgroup.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    pub shared: usize,
    pub first: Expr,
    /// Both `pitch` and `first` are multiples of 16 bytes.
    pub pitch: u32,
}

/// A variable's number: its position in [`Kernel::variables`].
pub type VariableId = usize;

/// A `Let`, a `Var` or a loop counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Variable {
    /// Unique in the kernel.
    pub name: String,
    pub ty: Type,
}

/// Values that the launch gives to an invocation, all i32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Builtin {
    /// The workgroup's place in the grid along an axis (0, 1, 2).
    WorkgroupId(u8),
    /// The invocation's place in its workgroup along an axis (0, 1, 2).
    LocalId(u8),
    /// The number of [`Kernel::steps`] at this position.
    Step(usize),
    /// The number of the invocation's subgroup in the workgroup, its own in the subgroup, and how many subgroups there are.
    /// A subgroup has 4 to 128 invocations, the last one perhaps fewer.
    Subgroup,
    SubgroupLane,
    Subgroups,
}

/// A value without side effects.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    Literal(Scalar),
    Variable(VariableId),
    Builtin(Builtin),
    /// An element of a `Read` or `Update` buffer. Here and below an index is within its array: nothing checks it on the device.
    Load {
        buffer: usize,
        index: Box<Expr>,
    },
    /// An element of workgroup memory.
    LoadShared {
        shared: usize,
        index: Box<Expr>,
    },
    /// Lane by lane. Integer operations wrap.
    Unary(UnaryOp, Box<Expr>),
    /// Lane by lane, both of one type. Where an operand is NaN, `Max` and `Min` give either operand. Integer `Div` wants a
    /// divisor that is never 0, nor -1 under the least integer; shifts want counts in 0..width; `Pow` wants a base of at
    /// least 0.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `a * b + c` of floats, rounded once where the device has it.
    Fma(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `x / divisor` for an i32 `x >= 0`; the divisor is in `1..2^31`.
    Quotient(Box<Expr>, u32),
    /// `x mod divisor` for an i32 `x >= 0`; the divisor is in `1..2^31`.
    Remainder(Box<Expr>, u32),
    /// `condition ? then : otherwise`; both sides are evaluated. Conditions and sides have the same number of lanes.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Lane by lane to another element type, as [`Scalar::cast`]: but a float outside an integer type's range, or NaN,
    /// gives any value: clamp first.
    Cast(DType, Box<Expr>),
    /// The same bits as another type of the same size, lane by lane; not bool.
    Bitcast(DType, Box<Expr>),
    /// A vector of equal lanes.
    Splat(u8, Box<Expr>),
    /// A vector of the given scalars.
    Vector(Vec<Expr>),
    /// One lane of a vector.
    Lane(Box<Expr>, u8),
}

/// An action.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// A value that never changes.
    Let(VariableId, Expr),
    /// A variable and its first value.
    Var(VariableId, Expr),
    Assign(VariableId, Expr),
    /// A value that never changes: those of all invocations of the subgroup, combined by `Add`, `Mul`, `Max` or `Min`, of
    /// which the sum and the product are rounded in some order.
    Collect(VariableId, BinaryOp, Expr),
    /// To an element of a `Write` or `Update` buffer.
    Store {
        buffer: usize,
        index: Expr,
        value: Expr,
    },
    /// To an element of workgroup memory.
    StoreShared {
        shared: usize,
        index: Expr,
        value: Expr,
    },
    /// `for counter = from; counter < to; counter += step`, with bounds evaluated once, before the loop; `step` is at
    /// least 1, and `to + step` fits in i32.
    For {
        counter: VariableId,
        from: Expr,
        to: Expr,
        step: u32,
        body: Vec<Stmt>,
    },
    If {
        condition: Expr,
        then: Vec<Stmt>,
        otherwise: Vec<Stmt>,
    },
    /// Reads a matrix from workgroup memory.
    LoadMatrix {
        matrix: usize,
        from: Place,
    },
    /// Adds the product of a left and a right matrix to a sum, all of one size, the factors of one type. Sums are rounded in some order.
    MultiplyAdd {
        sum: usize,
        left: usize,
        right: usize,
    },
    /// Writes a matrix to workgroup memory.
    StoreMatrix {
        matrix: usize,
        to: Place,
    },
    /// Waits for the whole workgroup, and makes its writes to workgroup memory visible to it.
    Barrier,
}

/// One compute kernel with its launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    pub name: String,
    /// Invocations in a workgroup, along x, y, z.
    pub workgroup: [u32; 3],
    /// Workgroups to launch, along x, y, z.
    pub grid: [u32; 3],
    pub buffers: Vec<Buffer>,
    pub shared: Vec<Shared>,
    pub matrices: Vec<Matrix>,
    /// The names of numbers, at least 0, that each launch gives: at which step it is of the plan's loops around it, the
    /// outermost first. Binding number = the number of buffers + the position here, group 0: a uniform u32.
    pub steps: Vec<String>,
    pub variables: Vec<Variable>,
    pub body: Vec<Stmt>,
}
