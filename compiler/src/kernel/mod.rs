//! IR 2, the kernel: one scheduled loop nest as structured code for a grid of workgroups.
//!
//! Everything that scheduling decides is explicit here: the work of each invocation, loops,
//! unrolling, vector accesses, workgroup memory and barriers. Emission ([`crate::emit`]) only
//! translates a kernel to naga IR, so a listing of the kernel shows what a device runs.
//!
//! Types are those of shaders: bool, i32, u32, i64, u64, f16, f32 and f64, alone or in vectors of 2
//! or
//! 4. Narrower types are legalised before (see [`crate::schedule`]). Indices and loop counters are
//!    i32.
//!
//! Invariants, which [`Kernel::verify`] checks:
//! - Names consist of letters, digits and `_`, and start with a letter. They are distinct, and
//!   differ from the words of the text form.
//! - A variable is declared once, before its uses, in their block or an enclosing one. Variables
//!   are numbered in order of declaration. Only `Var`s are assigned.
//! - Operand types match as the variants state. Indices are i32 scalars, and conditions of
//!   statements are bool scalars.
//! - Shaders have every operation: [`is_native_unary`], [`is_native_binary`].
//! - A kernel reads only `Read` and `Update` buffers, and writes only `Write` and `Update` ones.
//! - Barriers, `Collect` and matrix operations occur in uniform control flow only: outside any
//!   `If`, and outside any loop whose bounds depend on the invocation.
//!
//! The text form ([`Kernel`]'s `Display`) has one statement a line and parses back to an equal
//! kernel ([`Kernel::parse`]). [`Builder`] and the constructors of [`Expr`] construct kernels.

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
pub use types::{is_native_binary, is_native_unary};
pub use verify::Invalid;

use crate::dense::{Dense, id};
use crate::dtype::{DType, Scalar};
use crate::scalar::{BinaryOp, UnaryOp};

/// A scalar or a short vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Type {
    /// The type of each lane.
    pub dtype: DType,
    /// 1, 2 or 4.
    pub lanes: u8,
}

impl Type {
    /// An i32.
    pub const I32: Type = Type::scalar(DType::I32);
    /// A bool.
    pub const BOOL: Type = Type::scalar(DType::Bool);

    /// Returns the type of a scalar.
    pub const fn scalar(dtype: DType) -> Type {
        Type { dtype, lanes: 1 }
    }

    /// Returns the type of a vector with this number of lanes.
    pub const fn vector(dtype: DType, lanes: u8) -> Type {
        Type { dtype, lanes }
    }
}

/// The use that a kernel makes of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The kernel reads elements alone.
    Read,
    /// The kernel writes elements alone.
    Write,
    /// Both. No two invocations access the same element.
    Update,
}

/// A storage buffer. Its binding number is its position in [`Kernel::buffers`], in group 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Buffer {
    /// The name, distinct from the other names of the kernel.
    pub name: String,
    /// The type of an element.
    pub ty: Type,
    /// Length in elements of `ty`, at least 1. Bools are stored as u32, so `ty` is never bool.
    pub length: usize,
    /// The use.
    pub access: Access,
}

/// An array in workgroup memory. It is undefined when the workgroup starts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shared {
    /// The name, distinct from the other names of the kernel.
    pub name: String,
    /// The type of an element.
    pub ty: Type,
    /// The number of elements.
    pub length: usize,
}

/// The role of a matrix in a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The left factor.
    Left,
    /// The right factor.
    Right,
    /// The accumulator of products.
    Sum,
}

/// A square matrix that the invocations of a subgroup hold together in registers. No invocation can
/// access its elements. It is undefined when the workgroup starts. A kernel with matrices requires
/// full subgroups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Matrix {
    /// The name, distinct from the other names of the kernel.
    pub name: String,
    /// The role in products.
    pub role: Role,
    /// f16 or f32. Always f32 for a sum.
    pub dtype: DType,
    /// Number of rows and columns: 8 or 16.
    pub size: u8,
}

/// The location of a matrix in an array of workgroup memory with scalars of its type. It starts at
/// element `first`, and each line starts `pitch` elements after the previous one. Lines are the
/// columns of a right matrix, and the rows of other matrices, so that terms of a sum are adjacent.
/// The location is the same for all invocations of a subgroup.
#[derive(Clone, Debug, PartialEq)]
pub struct MatrixAddress {
    /// The number of the array among [`Kernel::shared`].
    pub shared: usize,
    /// The number of the first element.
    pub first: Expr,
    /// Distance of lines in elements. Both `pitch` and `first` are multiples of 16 bytes.
    pub pitch: u32,
}

id! {
    /// A variable's number: its position in [`Kernel::variables`].
    VariableId
}

/// A `Let`, a `Var` or a loop counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Variable {
    /// Distinct from the other names of the kernel.
    pub name: String,
    /// The type.
    pub ty: Type,
}

/// Values that the launch passes to an invocation, all i32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Builtin {
    /// Position of the workgroup in the grid along an axis (0, 1, 2).
    WorkgroupId(u8),
    /// Position of the invocation in its workgroup along an axis (0, 1, 2).
    LocalId(u8),
    /// The step of this number in [`Kernel::steps`].
    Step(usize),
    /// The number of the invocation's subgroup in the workgroup. A subgroup has 4 to 128
    /// invocations; the last one may have fewer.
    Subgroup,
    /// The number of the invocation within its subgroup.
    SubgroupLane,
    /// The number of subgroups of the workgroup.
    Subgroups,
}

/// A value without side effects.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A constant.
    Literal(Scalar),
    /// The current value of a variable.
    Variable(VariableId),
    /// A value of the launch.
    Builtin(Builtin),
    /// An element of a `Read` or `Update` buffer. All indices must be within their array: devices
    /// do not check them.
    Load {
        /// The number of the buffer.
        buffer: usize,
        /// The number of the element.
        index: Box<Expr>,
    },
    /// An element of workgroup memory.
    LoadShared {
        /// The number of the array.
        shared: usize,
        /// The number of the element.
        index: Box<Expr>,
    },
    /// Lanewise. Integer operations wrap.
    Unary(UnaryOp, Box<Expr>),
    /// Lanewise, on two operands of one type:
    /// - `Max` and `Min` return either operand if one is NaN.
    /// - Integer `Div` requires a divisor other than 0, and other than -1 for the least integer.
    /// - Shifts require counts in `0..width`.
    /// - `Pow` requires a base of at least 0.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `a * b + c` of floats, with a single rounding where the device supports it.
    Fma(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `x / divisor` for an i32 `x >= 0` and a divisor in `1..2^31`.
    Quotient(Box<Expr>, u32),
    /// `x mod divisor` for an i32 `x >= 0` and a divisor in `1..2^31`.
    Remainder(Box<Expr>, u32),
    /// `condition ? then : otherwise`. Both sides are evaluated. The condition has as many lanes as
    /// the sides.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Lanewise conversion to another element type, as [`Scalar::cast`]. A float that is NaN or
    /// outside the range of an integer type gives an arbitrary value: clamp first.
    Cast(DType, Box<Expr>),
    /// Lanewise reinterpretation of the bits as another type of the same size; not bool.
    Bitcast(DType, Box<Expr>),
    /// A vector of equal lanes.
    Splat(u8, Box<Expr>),
    /// A vector of the given scalars.
    Vector(Vec<Expr>),
    /// One lane of a vector.
    Lane(Box<Expr>, u8),
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// Declares an immutable value.
    Let(VariableId, Expr),
    /// Declares a mutable variable with its first value.
    Var(VariableId, Expr),
    /// Gives a mutable variable a new value.
    Assign(VariableId, Expr),
    /// Declares an immutable value: the combination of the values of all invocations in the
    /// subgroup by `Add`, `Mul`, `Max` or `Min`. The order in which sums and products are rounded
    /// is unspecified.
    Collect(VariableId, BinaryOp, Expr),
    /// Writes an element of a `Write` or `Update` buffer.
    Store {
        /// The number of the buffer.
        buffer: usize,
        /// The number of the element.
        index: Expr,
        /// The value of the element.
        value: Expr,
    },
    /// Writes an element of workgroup memory.
    StoreShared {
        /// The number of the array.
        shared: usize,
        /// The number of the element.
        index: Expr,
        /// The value of the element.
        value: Expr,
    },
    /// `for counter = from; counter < to; counter += step`. The bounds are evaluated once, before
    /// the loop. `step` is at least 1, and `to + step` must fit i32.
    For {
        /// The counter, an i32.
        counter: VariableId,
        /// The first value of the counter.
        from: Expr,
        /// The bound of the counter, excluded.
        to: Expr,
        /// The step from one value of the counter to the next.
        step: u32,
        /// The statements of each turn.
        body: Vec<Stmt>,
    },
    /// `if condition { then } else { otherwise }`.
    If {
        /// The condition, a bool.
        condition: Expr,
        /// The statements if it is true.
        then: Vec<Stmt>,
        /// The statements if it is false.
        otherwise: Vec<Stmt>,
    },
    /// Reads a matrix from workgroup memory.
    LoadMatrix {
        /// The number of the matrix.
        matrix: usize,
        /// The location of its elements.
        from: MatrixAddress,
    },
    /// Adds the product of a left and a right matrix to a sum. All three have one size, and both
    /// factors have one type. The order of rounding is unspecified.
    MultiplyAdd {
        /// The number of the sum.
        sum: usize,
        /// The number of the left matrix.
        left: usize,
        /// The number of the right matrix.
        right: usize,
    },
    /// Writes a matrix to workgroup memory.
    StoreMatrix {
        /// The number of the matrix.
        matrix: usize,
        /// The location of its elements.
        to: MatrixAddress,
    },
    /// Waits for all invocations of the workgroup, and makes their writes to workgroup memory
    /// visible to each other.
    Barrier,
}

/// A compute kernel and its launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// The name: letters, digits and `_`.
    pub name: String,
    /// Number of invocations in a workgroup along x, y, z.
    pub workgroup: [u32; 3],
    /// Number of workgroups along x, y, z.
    pub grid: [u32; 3],
    /// The buffers, in the order of their bindings.
    pub buffers: Vec<Buffer>,
    /// The arrays in workgroup memory.
    pub shared: Vec<Shared>,
    /// The matrices in the registers of subgroups.
    pub matrices: Vec<Matrix>,
    /// Names of the step numbers, at least 0, that each launch passes: the current step of each
    /// loop of the plan around the kernel, outermost first. The binding number is the number of
    /// buffers plus the position here, in group 0; each is a uniform u32.
    pub steps: Vec<String>,
    /// The variables of the body.
    pub variables: Dense<VariableId, Variable>,
    /// The statements of each invocation.
    pub body: Vec<Stmt>,
}
