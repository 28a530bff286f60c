//! Checks the invariants of kernels that [`crate::kernel`] states.

use std::collections::HashSet;

use super::text::{StmtText, is_reserved};
use super::types::{is_collective, is_native};
use super::{Access, Builtin, Expr, Kernel, MatrixAddress, Role, Stmt, Type, VariableId};
use crate::dtype::DType;

/// The reason that a kernel is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kernel `{kernel}`: {message}")]
pub struct Invalid {
    /// Name of the kernel.
    pub kernel: String,
    /// One sentence that quotes the offending statement.
    pub message: String,
}

impl Kernel {
    /// Checks the invariants that the [module documentation](super) states, in time linear in the
    /// kernel's size.
    pub fn verify(&self) -> Result<(), Invalid> {
        self.header().and_then(|()| self.statements()).map_err(|message| self.invalid(message))
    }

    pub(super) fn invalid(&self, message: String) -> Invalid {
        Invalid { kernel: self.name.clone(), message }
    }

    fn header(&self) -> Result<(), String> {
        if self.workgroup.contains(&0) || self.grid.contains(&0) {
            return Err("a launch has at least one invocation along every axis".into());
        }
        for buffer in &self.buffers {
            array(&buffer.name, buffer.ty, buffer.length)?;
            if buffer.ty.dtype == DType::Bool {
                return Err(format!("buffer `{}` is bool, which is stored as u32", buffer.name));
            }
        }
        for shared in &self.shared {
            array(&shared.name, shared.ty, shared.length)?;
        }
        for matrix in &self.matrices {
            let is_type = match matrix.role {
                Role::Sum => matrix.dtype == DType::F32,
                Role::Left | Role::Right => matches!(matrix.dtype, DType::F16 | DType::F32),
            };
            if !is_type || !matches!(matrix.size, 8 | 16) {
                let (role, dtype, size) = (matrix.role.name(), matrix.dtype, matrix.size);
                return Err(format!(
                    "shaders have no {role} matrix {dtype}[{size}], the type of `{}`",
                    matrix.name
                ));
            }
        }
        if !self.matrices.is_empty() && self.workgroup[1..] != [1, 1] {
            return Err(
                "matrices are held by subgroups of workgroups of one dimension alone".into()
            );
        }
        let buffers = self.buffers.iter().map(|b| &b.name);
        let arrays = buffers
            .chain(self.shared.iter().map(|s| &s.name))
            .chain(self.matrices.iter().map(|m| &m.name));
        let names = arrays.chain(&self.steps).chain(self.variables.iter().map(|v| &v.name));
        let mut taken = HashSet::new();
        for name in names {
            if !is_name(name) || is_reserved(name) {
                return Err(format!("`{name}` can't be a name"));
            }
            if !taken.insert(name) {
                return Err(format!("two things are called `{name}`"));
            }
        }
        if is_name(&self.name) {
            Ok(())
        } else {
            Err("its name is not letters, digits and `_`".into())
        }
    }

    fn statements(&self) -> Result<(), String> {
        let mut walk = Walk { kernel: self, declared: Vec::with_capacity(self.variables.len()) };
        walk.block(&self.body, true)?;
        match walk.declared.len() == self.variables.len() {
            true => Ok(()),
            false => {
                Err(format!("`{}` is never declared", self.variables[walk.declared.len()].name))
            }
        }
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn array(name: &str, ty: Type, length: usize) -> Result<(), String> {
    if !is_native(ty.dtype) || !matches!(ty.lanes, 1 | 2 | 4) {
        return Err(format!("shaders have no {ty}, the type of `{name}`"));
    }
    if length == 0 { Err(format!("`{name}` has no elements")) } else { Ok(()) }
}

/// State of a variable at some statement.
#[derive(Clone, Copy)]
struct Declared {
    in_scope: bool,
    assignable: bool,
    /// True if the value is the same in all invocations of a workgroup.
    uniform: bool,
}

struct Walk<'a> {
    kernel: &'a Kernel,
    /// The variables declared so far, by number.
    declared: Vec<Declared>,
}

impl Walk<'_> {
    /// Checks a block. `uniform`: all invocations of a workgroup reach it together.
    fn block(&mut self, block: &[Stmt], uniform: bool) -> Result<(), String> {
        let first = self.declared.len();
        for stmt in block {
            self.stmt(stmt, uniform)?;
        }
        self.declared[first..].iter_mut().for_each(|d| d.in_scope = false);
        Ok(())
    }

    fn stmt(&mut self, stmt: &Stmt, uniform: bool) -> Result<(), String> {
        let at = |message: String| format!("{message}, in `{}`", StmtText(self.kernel, stmt));
        match stmt {
            Stmt::Let(id, value) | Stmt::Var(id, value) => {
                let ty = self.ty(value).map_err(at)?;
                let assignable = matches!(stmt, Stmt::Var(..));
                let uniform = !assignable && self.is_uniform(value);
                self.check_declaration(*id, ty).map_err(at)?;
                self.declared.push(Declared { in_scope: true, assignable, uniform });
            }
            Stmt::Collect(..) if !uniform => {
                return Err(at("some invocations may not reach this".into()));
            }
            Stmt::Collect(id, op, value) => {
                let ty = self.ty(value).map_err(at)?;
                if !is_collective(*op, ty.dtype) {
                    return Err(at(format!("subgroups have no `{}` of {ty}", op.name())));
                }
                self.check_declaration(*id, ty).map_err(at)?;
                self.declared.push(Declared { in_scope: true, assignable: false, uniform: false });
            }
            Stmt::Assign(id, value) => {
                let ty = self.ty(&Expr::Variable(*id)).map_err(at)?;
                if !self.declared[*id].assignable {
                    return Err(at(format!("`{}` is no `var`", self.kernel.variables[*id].name)));
                }
                self.expect(value, ty).map_err(at)?;
            }
            Stmt::Store { buffer, index, value } => {
                self.expect(index, Type::I32).map_err(at)?;
                let ty = self.written_type(*buffer).map_err(at)?;
                self.expect(value, ty).map_err(at)?;
            }
            Stmt::StoreShared { shared, index, value } => {
                self.expect(index, Type::I32).map_err(at)?;
                match self.kernel.shared.get(*shared) {
                    Some(s) => self.expect(value, s.ty).map_err(at)?,
                    None => return Err(at(format!("there is no workgroup array number {shared}"))),
                }
            }
            Stmt::For { counter, from, to, step, body } => {
                self.expect(from, Type::I32).map_err(at)?;
                self.expect(to, Type::I32).map_err(at)?;
                if !(1..=0x7fff_ffff).contains(step) {
                    return Err(at(format!("the step {step} is not in 1..2^31")));
                }
                self.check_declaration(*counter, Type::I32).map_err(at)?;
                let together = self.is_uniform(from) && self.is_uniform(to);
                let (in_scope, assignable) = (true, false);
                self.declared.push(Declared { in_scope, assignable, uniform: together });
                self.block(body, uniform && together)?;
                self.declared[*counter].in_scope = false;
            }
            Stmt::If { condition, then, otherwise } => {
                self.expect(condition, Type::BOOL).map_err(at)?;
                self.block(then, false)?;
                self.block(otherwise, false)?;
            }
            Stmt::LoadMatrix { .. } | Stmt::StoreMatrix { .. } | Stmt::MultiplyAdd { .. }
                if !uniform =>
            {
                return Err(at("some invocations may not reach this".into()));
            }
            Stmt::LoadMatrix { matrix, from: place } | Stmt::StoreMatrix { matrix, to: place } => {
                self.check_place(*matrix, place).map_err(at)?;
            }
            Stmt::MultiplyAdd { sum, left, right } => {
                let fits = self.fit([*sum, *left, *right]).unwrap_or(false);
                let message =
                    "a sum of products of a left and a right matrix is wanted, of one size";
                fits.then_some(()).ok_or_else(|| at(message.into()))?;
            }
            Stmt::Barrier if !uniform => {
                return Err("a barrier that some invocations may not reach".into());
            }
            Stmt::Barrier => {}
        }
        Ok(())
    }

    /// Returns the type of the elements of a buffer that is written.
    fn written_type(&self, buffer: usize) -> Result<Type, String> {
        match self.kernel.buffers.get(buffer) {
            Some(b) if b.access != Access::Read => Ok(b.ty),
            Some(b) => Err(format!("`{}` is read, so it can't be written", b.name)),
            None => Err(format!("there is no buffer number {buffer}")),
        }
    }

    /// Returns whether matrices are a sum, a left and a right factor of one size. `None` if one of
    /// them does not exist.
    fn fit(&self, numbers: [usize; 3]) -> Option<bool> {
        let [sum, left, right] = numbers.map(|number| self.kernel.matrices.get(number));
        let (sum, left, right) = (sum?, left?, right?);
        let are_roles = (sum.role, left.role, right.role) == (Role::Sum, Role::Left, Role::Right);
        let is_of_one_size = sum.size == left.size && left.size == right.size;
        Some(are_roles && is_of_one_size && left.dtype == right.dtype)
    }

    fn check_place(&self, matrix: usize, place: &MatrixAddress) -> Result<(), String> {
        self.expect(&place.first, Type::I32)?;
        let Some(matrix) = self.kernel.matrices.get(matrix) else {
            return Err(format!("there is no matrix number {matrix}"));
        };
        let unit = 16 / matrix.dtype.size() as u32;
        match self.kernel.shared.get(place.shared) {
            Some(shared) if shared.ty != Type::scalar(matrix.dtype) => Err(format!(
                "`{}` is {}, and `{}` {}",
                shared.name, shared.ty, matrix.name, matrix.dtype
            )),
            Some(_) if place.pitch < matrix.size.into() || !place.pitch.is_multiple_of(unit) => {
                Err(format!("lines of `{}` {} elements apart", matrix.name, place.pitch))
            }
            Some(_) => Ok(()),
            None => Err(format!("there is no workgroup array number {}", place.shared)),
        }
    }

    fn check_declaration(&self, id: VariableId, ty: Type) -> Result<(), String> {
        match self.kernel.variables.get(id) {
            None => Err(format!("there is no variable number {id}")),
            Some(variable) if id != self.declared.len() => Err(format!(
                "`{}` is declared twice, or not in the order of its number",
                variable.name
            )),
            Some(variable) if variable.ty != ty => {
                Err(format!("`{}` is {}, not {ty}", variable.name, variable.ty))
            }
            Some(_) => Ok(()),
        }
    }

    fn expect(&self, expr: &Expr, ty: Type) -> Result<(), String> {
        match self.ty(expr)? {
            found if found == ty => Ok(()),
            found => Err(format!("{found} where {ty} is wanted")),
        }
    }

    /// Returns the type of `expr` if its variables are in scope.
    fn ty(&self, expr: &Expr) -> Result<Type, String> {
        let ty = self.kernel.type_of(expr)?;
        let unknown = expr.find(&mut |e| match e {
            Expr::Variable(id) => !self.declared.get(*id).is_some_and(|d| d.in_scope),
            _ => false,
        });
        match unknown {
            Some(Expr::Variable(id)) => {
                Err(format!("`{}` is not in scope", self.kernel.variables[*id].name))
            }
            _ => Ok(ty),
        }
    }

    /// Returns whether all invocations of a workgroup compute the same value. A read of a `Read`
    /// buffer is uniform if its index is, since nothing writes the buffer meanwhile.
    fn is_uniform(&self, expr: &Expr) -> bool {
        let varies = expr.find(&mut |e| match e {
            Expr::Variable(id) => !self.declared[*id].uniform,
            Expr::Load { buffer, .. } => self.kernel.buffers[*buffer].access != Access::Read,
            Expr::Builtin(Builtin::LocalId(_) | Builtin::Subgroup | Builtin::SubgroupLane) => true,
            Expr::LoadShared { .. } => true,
            _ => false,
        });
        varies.is_none()
    }
}
