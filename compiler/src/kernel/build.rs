//! [`Builder`]: writes a kernel statement by statement.

use std::collections::HashMap;

use super::text::is_reserved;
use super::{
    Access, Buffer, Expr, Invalid, Kernel, Matrix, MatrixAddress, Role, Shared, Stmt, Type,
    Variable, VariableId,
};
use crate::dense::Dense;
use crate::dtype::DType;
use crate::scalar::BinaryOp;

/// Builds a kernel. Statements go to the innermost open block, and names are made unique. The first
/// mistake, such as an ill-typed value or an assignment to no variable, is kept, and
/// [`Builder::finish`] returns it.
///
/// ```
/// use tile_compiler::{dtype::DType, kernel::*};
/// let mut b = Builder::new("double", [64, 1, 1], [4, 1, 1]);
/// let (a, out) = (b.read("a", Type::scalar(DType::F32), 200), b.write("out", Type::scalar(DType::F32), 200));
/// let i = b.let_("i", Expr::workgroup(0) * 64 + Expr::local(0));
/// b.if_(i.clone().lt(200), |b| {
///     let value = b.let_("value", Expr::load(a, &i));
///     b.store(out, &i, &value + &value);
/// });
/// let kernel = b.finish()?;
/// assert_eq!(Kernel::parse(&kernel.to_string()).as_ref(), Ok(&kernel));
/// # Ok::<(), Invalid>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    /// The kernel so far. Its body is empty until `finish`.
    kernel: Kernel,
    /// The open block. Enclosing blocks are on the stack, in the callers of [`Builder::block`].
    block: Vec<Stmt>,
    /// Names in use, each with the number that the next duplicate gets.
    names: HashMap<String, usize>,
    mistake: Option<Invalid>,
}

impl Builder {
    /// Creates an empty kernel with its launch: invocations in a workgroup, and workgroups, along
    /// x, y, z.
    pub fn new(name: &str, workgroup: [u32; 3], grid: [u32; 3]) -> Builder {
        let kernel = Kernel {
            name: name.to_string(),
            workgroup,
            grid,
            buffers: Vec::new(),
            shared: Vec::new(),
            matrices: Vec::new(),
            steps: Vec::new(),
            variables: Dense::default(),
            body: Vec::new(),
        };
        Builder { kernel, block: Vec::new(), names: HashMap::new(), mistake: None }
    }

    /// Adds a buffer of `length` elements of `ty` for reading and returns its number.
    pub fn read(&mut self, name: &str, ty: Type, length: usize) -> usize {
        self.buffer(name, ty, length, Access::Read)
    }

    /// Adds a buffer of `length` elements of `ty` for writing and returns its number.
    pub fn write(&mut self, name: &str, ty: Type, length: usize) -> usize {
        self.buffer(name, ty, length, Access::Write)
    }

    /// Adds a buffer of `length` elements of `ty` for reading and writing and returns its number.
    pub fn update(&mut self, name: &str, ty: Type, length: usize) -> usize {
        self.buffer(name, ty, length, Access::Update)
    }

    fn buffer(&mut self, name: &str, ty: Type, length: usize, access: Access) -> usize {
        let name = self.unique(name);
        self.kernel.buffers.push(Buffer { name, ty, length, access });
        self.kernel.buffers.len() - 1
    }

    /// Adds an array of `length` elements of `ty` in workgroup memory and returns its number.
    pub fn shared(&mut self, name: &str, ty: Type, length: usize) -> usize {
        let name = self.unique(name);
        self.kernel.shared.push(Shared { name, ty, length });
        self.kernel.shared.len() - 1
    }

    /// Adds a matrix of `size` rows and columns and returns its number.
    pub fn matrix(&mut self, name: &str, role: Role, dtype: DType, size: u8) -> usize {
        let name = self.unique(name);
        self.kernel.matrices.push(Matrix { name, role, dtype, size });
        self.kernel.matrices.len() - 1
    }

    /// Adds a step number that each launch passes. [`Expr::step`] n reads the n-th one.
    pub fn step(&mut self, name: &str) {
        let name = self.unique(name);
        self.kernel.steps.push(name);
    }

    /// Returns the type of an expression over what is declared so far.
    pub fn ty(&self, expr: &Expr) -> Result<Type, Invalid> {
        self.kernel.ty(expr)
    }

    /// Declares an immutable value and returns it. A literal is returned as it is.
    pub fn let_(&mut self, name: &str, value: impl Into<Expr>) -> Expr {
        let value = value.into();
        if matches!(value, Expr::Literal(_)) {
            return value;
        }
        let id = self.declare(name, &value);
        self.block.push(Stmt::Let(id, value));
        Expr::Variable(id)
    }

    /// Declares a mutable variable with its first value.
    pub fn var(&mut self, name: &str, value: impl Into<Expr>) -> Expr {
        let value = value.into();
        let id = self.declare(name, &value);
        self.block.push(Stmt::Var(id, value));
        Expr::Variable(id)
    }

    /// Declares the combination of a value over the invocations of the subgroup.
    pub fn collect(&mut self, name: &str, op: BinaryOp, value: impl Into<Expr>) -> Expr {
        let value = value.into();
        let id = self.declare(name, &value);
        self.block.push(Stmt::Collect(id, op, value));
        Expr::Variable(id)
    }

    /// Assigns to `variable`, which [`Builder::var`] returned.
    pub fn assign(&mut self, variable: &Expr, value: impl Into<Expr>) {
        match variable {
            Expr::Variable(id) => self.block.push(Stmt::Assign(*id, value.into())),
            _ => self.mistake(self.kernel.invalid("an assignment to no variable".into())),
        }
    }

    /// Writes an element of a buffer.
    pub fn store(&mut self, buffer: usize, index: impl Into<Expr>, value: impl Into<Expr>) {
        self.block.push(Stmt::Store { buffer, index: index.into(), value: value.into() });
    }

    /// Writes an element of workgroup memory.
    pub fn store_shared(&mut self, shared: usize, index: impl Into<Expr>, value: impl Into<Expr>) {
        self.block.push(Stmt::StoreShared { shared, index: index.into(), value: value.into() });
    }

    /// Reads a matrix from workgroup memory.
    pub fn load_matrix(&mut self, matrix: usize, from: MatrixAddress) {
        self.block.push(Stmt::LoadMatrix { matrix, from });
    }

    /// Writes a matrix to workgroup memory.
    pub fn store_matrix(&mut self, matrix: usize, to: MatrixAddress) {
        self.block.push(Stmt::StoreMatrix { matrix, to });
    }

    /// Adds the product of two matrices to a third.
    pub fn multiply_add(&mut self, sum: usize, left: usize, right: usize) {
        self.block.push(Stmt::MultiplyAdd { sum, left, right });
    }

    /// Adds a barrier.
    pub fn barrier(&mut self) {
        self.block.push(Stmt::Barrier);
    }

    /// Adds a loop over `from, from + step, …` below `to`; `body` gets the counter. A loop known to
    /// run once becomes its body.
    pub fn for_<R>(
        &mut self,
        counter: &str,
        from: impl Into<Expr>,
        to: impl Into<Expr>,
        step: u32,
        body: impl FnOnce(&mut Builder, Expr) -> R,
    ) -> R {
        let (from, to) = (from.into(), to.into());
        if let (Some(first), Some(end)) = (from.as_i32(), to.as_i32())
            && (first as i64 + 1..=first as i64 + step as i64).contains(&(end as i64))
        {
            return body(self, from);
        }
        let counter = self.declare(counter, &0.into());
        let (body, result) = self.block(|b| body(b, Expr::Variable(counter)));
        self.block.push(Stmt::For { counter, from, to, step, body });
        result
    }

    /// Adds `then` under a condition. If the condition is known to hold, adds `then` alone.
    pub fn if_<R>(
        &mut self,
        condition: impl Into<Expr>,
        then: impl FnOnce(&mut Builder) -> R,
    ) -> R {
        let condition = condition.into();
        if condition.as_bool() == Some(true) {
            return then(self);
        }
        let (then, result) = self.block(then);
        self.block.push(Stmt::If { condition, then, otherwise: Vec::new() });
        result
    }

    /// Adds `then` under a condition, and `otherwise` under its negation.
    pub fn if_else<R, S>(
        &mut self,
        condition: impl Into<Expr>,
        then: impl FnOnce(&mut Builder) -> R,
        otherwise: impl FnOnce(&mut Builder) -> S,
    ) -> (R, S) {
        let (then, first) = self.block(then);
        let (otherwise, second) = self.block(otherwise);
        self.block.push(Stmt::If { condition: condition.into(), then, otherwise });
        (first, second)
    }

    /// Returns the kernel after verifying it.
    pub fn finish(mut self) -> Result<Kernel, Invalid> {
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        self.kernel.body = self.block;
        self.kernel.verify()?;
        Ok(self.kernel)
    }

    /// Collects the statements that `write` adds, without adding them to the open block.
    fn block<R>(&mut self, write: impl FnOnce(&mut Builder) -> R) -> (Vec<Stmt>, R) {
        let outer = std::mem::take(&mut self.block);
        let result = write(self);
        (std::mem::replace(&mut self.block, outer), result)
    }

    fn declare(&mut self, name: &str, value: &Expr) -> VariableId {
        let ty = self.kernel.ty(value).unwrap_or_else(|invalid| {
            self.mistake(invalid);
            Type::I32
        });
        let name = self.unique(name);
        self.kernel.variables.push(Variable { name, ty })
    }

    fn mistake(&mut self, mistake: Invalid) {
        self.mistake.get_or_insert(mistake);
    }

    /// Returns `name` as a valid name, with a number appended if it is taken.
    fn unique(&mut self, name: &str) -> String {
        let mut base: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if !base.starts_with(|c: char| c.is_ascii_alphabetic()) {
            base.insert(0, 'v');
        }
        let mut name = base.clone();
        while is_reserved(&name) || self.names.contains_key(&name) {
            let number = self.names.entry(base.clone()).or_insert(2);
            name = format!("{base}_{number}");
            *number += 1;
        }
        self.names.insert(name.clone(), 2);
        name
    }
}
