//! The text form of kernels: pseudo-code, one statement a line. `parse.rs` reads it back.
//!
//! ```text
//! kernel sum workgroup(64, 1, 1) grid(4, 1, 1) {
//!     read a: f32x4[4096];
//!     write out: f32[256];
//!     shared tile: f32[64];
//!     matrix sum products: f32[8];
//!     step t;
//!     let row = workgroup.x * 64 + local.x;
//!     var total = 0.0;
//!     for k in 0..16 step 4 {
//!         total = total + a[row * 4 + k // 4].x;
//!     }
//!     barrier;
//!     if row < 256 {
//!         out[row] = total;
//!     }
//! }
//! ```
//!
//! `step` declares a number that each launch passes. `subgroup total = add(x);` is
//! [`Stmt::Collect`]. For matrices, `a = tile[first] by 24;` reads one from workgroup memory with
//! lines 24 elements apart, `tile[first] by 24 = a;` writes one, and `products += a * b;` is
//! [`Stmt::MultiplyAdd`].
//!
//! `//` and `%` are [`Expr::Quotient`] and [`Expr::Remainder`]. `f32(x)` is a cast. Operations
//! without an infix sign are calls by name. A literal that is neither i32, f32 nor bool has its
//! type as a suffix: `3_u32`, `inf_f16`.

use std::fmt::{self, Display, Formatter};

use super::{Access, Builtin, Expr, Kernel, MatrixAddress, Role, Stmt, Type};
use crate::dtype::{DType, Scalar};
use crate::scalar::BinaryOp;

/// Words that cannot be names.
const RESERVED: [&str; 19] = [
    "kernel",
    "read",
    "write",
    "update",
    "shared",
    "matrix",
    "let",
    "var",
    "for",
    "in",
    "step",
    "if",
    "else",
    "barrier",
    "workgroup",
    "local",
    "subgroup",
    "true",
    "false",
];

/// Returns whether the parser would read a name as something else.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || matches!(name.split('_').next(), Some("inf" | "NaN"))
}

/// Returns the infix sign of an operation and its binding power.
pub(super) fn infix(op: BinaryOp) -> Option<(&'static str, u8)> {
    Some(match op {
        BinaryOp::BitOr => ("|", 1),
        BinaryOp::BitXor => ("^", 2),
        BinaryOp::BitAnd => ("&", 3),
        BinaryOp::Eq => ("==", 4),
        BinaryOp::Ne => ("!=", 4),
        BinaryOp::Lt => ("<", 4),
        BinaryOp::Le => ("<=", 4),
        BinaryOp::Gt => (">", 4),
        BinaryOp::Ge => (">=", 4),
        BinaryOp::ShiftLeft => ("<<", 5),
        BinaryOp::ShiftRight => (">>", 5),
        BinaryOp::Add => ("+", 6),
        BinaryOp::Sub => ("-", 6),
        BinaryOp::Mul => ("*", MULTIPLICATIVE),
        BinaryOp::Div => ("/", MULTIPLICATIVE),
        BinaryOp::Max | BinaryOp::Min | BinaryOp::Pow | BinaryOp::Rem => return None,
    })
}

/// Binding power of `*`, `/`, `//` and `%`.
pub(super) const MULTIPLICATIVE: u8 = 7;
/// Binding power of `.x` and other lanes.
const POSTFIX: u8 = 8;

pub(super) const LANES: [&str; 4] = ["x", "y", "z", "w"];

impl Display for Type {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.lanes {
            1 => write!(f, "{}", self.dtype),
            lanes => write!(f, "{}x{lanes}", self.dtype),
        }
    }
}

impl Role {
    pub(super) const ALL: [Role; 3] = [Role::Left, Role::Right, Role::Sum];

    /// Returns the word for the role: `left`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Role::Left => "left",
            Role::Right => "right",
            Role::Sum => "sum",
        }
    }
}

impl Display for Kernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ([a, b, c], [x, y, z]) = (self.workgroup, self.grid);
        writeln!(f, "kernel {} workgroup({a}, {b}, {c}) grid({x}, {y}, {z}) {{", self.name)?;
        for buffer in &self.buffers {
            let access = match buffer.access {
                Access::Read => "read",
                Access::Write => "write",
                Access::Update => "update",
            };
            writeln!(f, "    {access} {}: {}[{}];", buffer.name, buffer.ty, buffer.length)?;
        }
        for shared in &self.shared {
            writeln!(f, "    shared {}: {}[{}];", shared.name, shared.ty, shared.length)?;
        }
        for matrix in &self.matrices {
            let (role, dtype) = (matrix.role.name(), matrix.dtype);
            writeln!(f, "    matrix {role} {}: {dtype}[{}];", matrix.name, matrix.size)?;
        }
        self.steps.iter().try_for_each(|step| writeln!(f, "    step {step};"))?;
        self.block(f, &self.body, 1)?;
        writeln!(f, "}}")
    }
}

/// Displays an expression of a kernel.
pub(super) struct ExprText<'a>(pub &'a Kernel, pub &'a Expr);

impl Display for ExprText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.expr(f, self.1, 0)
    }
}

/// Displays a statement of a kernel, or the first line of a compound one.
pub(super) struct StmtText<'a>(pub &'a Kernel, pub &'a Stmt);

impl Display for StmtText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let StmtText(kernel, stmt) = *self;
        let variable = |id| name(&kernel.variables, id, |v| &v.name);
        let text = |expr| ExprText(kernel, expr);
        let matrix = |number| name(&kernel.matrices, number, |m| &m.name);
        let place = |place: &MatrixAddress| {
            let array = name(&kernel.shared, place.shared, |s| &s.name);
            format!("{array}[{}] by {}", ExprText(kernel, &place.first), place.pitch)
        };
        match stmt {
            Stmt::Let(id, value) => write!(f, "let {} = {};", variable(*id), text(value)),
            Stmt::Var(id, value) => write!(f, "var {} = {};", variable(*id), text(value)),
            Stmt::Collect(id, op, value) => {
                write!(f, "subgroup {} = {}({});", variable(*id), op.name(), text(value))
            }
            Stmt::Assign(id, value) => write!(f, "{} = {};", variable(*id), text(value)),
            Stmt::Store { buffer, index, value } => {
                write!(
                    f,
                    "{}[{}] = {};",
                    name(&kernel.buffers, *buffer, |b| &b.name),
                    text(index),
                    text(value)
                )
            }
            Stmt::StoreShared { shared, index, value } => {
                write!(
                    f,
                    "{}[{}] = {};",
                    name(&kernel.shared, *shared, |s| &s.name),
                    text(index),
                    text(value)
                )
            }
            Stmt::For { counter, from, to, step, .. } => {
                write!(f, "for {} in {}..{}", variable(*counter), text(from), text(to))?;
                if *step != 1 {
                    write!(f, " step {step}")?;
                }
                write!(f, " {{")
            }
            Stmt::If { condition, .. } => write!(f, "if {} {{", text(condition)),
            Stmt::LoadMatrix { matrix: number, from } => {
                write!(f, "{} = {};", matrix(*number), place(from))
            }
            Stmt::StoreMatrix { matrix: number, to } => {
                write!(f, "{} = {};", place(to), matrix(*number))
            }
            Stmt::MultiplyAdd { sum, left, right } => {
                write!(f, "{} += {} * {};", matrix(*sum), matrix(*left), matrix(*right))
            }
            Stmt::Barrier => write!(f, "barrier;"),
        }
    }
}

/// Returns the name of item `at`, or `?` if there is none, so that invalid kernels print in
/// messages.
fn name<T>(items: &[T], at: usize, name: impl Fn(&T) -> &String) -> &str {
    items.get(at).map_or("?", |item| name(item))
}

impl Kernel {
    fn block(&self, f: &mut Formatter<'_>, block: &[Stmt], depth: usize) -> fmt::Result {
        for stmt in block {
            indent(f, depth)?;
            writeln!(f, "{}", StmtText(self, stmt))?;
            match stmt {
                Stmt::For { body, .. } => self.block(f, body, depth + 1)?,
                Stmt::If { then, otherwise, .. } => {
                    self.block(f, then, depth + 1)?;
                    if !otherwise.is_empty() {
                        indent(f, depth)?;
                        writeln!(f, "}} else {{")?;
                        self.block(f, otherwise, depth + 1)?;
                    }
                }
                _ => continue,
            }
            indent(f, depth)?;
            writeln!(f, "}}")?;
        }
        Ok(())
    }

    /// Prints `expr`, in parentheses if its binding power is below `outer`.
    fn expr(&self, f: &mut Formatter<'_>, expr: &Expr, outer: u8) -> fmt::Result {
        let text = |expr| ExprText(self, expr);
        match expr {
            Expr::Literal(scalar) => literal(f, *scalar),
            Expr::Variable(id) => f.write_str(name(&self.variables, *id, |v| &v.name)),
            Expr::Builtin(Builtin::WorkgroupId(axis)) => write!(f, "workgroup.{}", lane(*axis)),
            Expr::Builtin(Builtin::LocalId(axis)) => write!(f, "local.{}", lane(*axis)),
            Expr::Builtin(Builtin::Subgroup) => write!(f, "subgroup.id"),
            Expr::Builtin(Builtin::SubgroupLane) => write!(f, "subgroup.lane"),
            Expr::Builtin(Builtin::Subgroups) => write!(f, "subgroup.count"),
            Expr::Builtin(Builtin::Step(number)) => {
                f.write_str(name(&self.steps, *number, |step| step))
            }
            Expr::Load { buffer, index } => {
                write!(f, "{}[{}]", name(&self.buffers, *buffer, |b| &b.name), text(index))
            }
            Expr::LoadShared { shared, index } => {
                write!(f, "{}[{}]", name(&self.shared, *shared, |s| &s.name), text(index))
            }
            Expr::Unary(op, a) => write!(f, "{}({})", op.name(), text(a)),
            Expr::Binary(op, a, b) => match infix(*op) {
                Some((sign, binds)) => {
                    self.infix(f, outer, binds, a, sign, |f| self.expr(f, b, binds + 1))
                }
                None => write!(f, "{}({}, {})", op.name(), text(a), text(b)),
            },
            Expr::Quotient(a, n) => {
                self.infix(f, outer, MULTIPLICATIVE, a, "//", |f| write!(f, "{n}"))
            }
            Expr::Remainder(a, n) => {
                self.infix(f, outer, MULTIPLICATIVE, a, "%", |f| write!(f, "{n}"))
            }
            Expr::Fma(a, b, c) => write!(f, "fma({}, {}, {})", text(a), text(b), text(c)),
            Expr::Select(c, a, b) => write!(f, "select({}, {}, {})", text(c), text(a), text(b)),
            Expr::Cast(dtype, a) => write!(f, "{dtype}({})", text(a)),
            Expr::Bitcast(dtype, a) => write!(f, "bitcast_{dtype}({})", text(a)),
            Expr::Splat(lanes, a) => write!(f, "splat{lanes}({})", text(a)),
            Expr::Vector(parts) => {
                f.write_str("[")?;
                for (at, part) in parts.iter().enumerate() {
                    write!(f, "{}{}", if at == 0 { "" } else { ", " }, text(part))?;
                }
                f.write_str("]")
            }
            Expr::Lane(a, at) => {
                self.expr(f, a, POSTFIX)?;
                write!(f, ".{}", lane(*at))
            }
        }
    }

    fn infix(
        &self,
        f: &mut Formatter<'_>,
        outer: u8,
        binds: u8,
        left: &Expr,
        sign: &str,
        right: impl Fn(&mut Formatter<'_>) -> fmt::Result,
    ) -> fmt::Result {
        f.write_str(if binds < outer { "(" } else { "" })?;
        self.expr(f, left, binds)?;
        write!(f, " {sign} ")?;
        right(f)?;
        f.write_str(if binds < outer { ")" } else { "" })
    }
}

fn lane(at: u8) -> &'static str {
    LANES.get(at as usize).unwrap_or(&"?")
}

fn literal(f: &mut Formatter<'_>, scalar: Scalar) -> fmt::Result {
    match scalar.dtype {
        DType::I32 | DType::F32 | DType::Bool => write!(f, "{scalar}"),
        dtype => write!(f, "{scalar}_{dtype}"),
    }
}

fn indent(f: &mut Formatter<'_>, depth: usize) -> fmt::Result {
    write!(f, "{:1$}", "", 4 * depth)
}
