//! Translates statements of kernels to naga.

use naga::{
    Barrier, BinaryOperator, Block, CollectiveOperation, CooperativeData, CooperativeRole,
    CooperativeSize, Expression, Handle, LocalVariable, Span, Statement, SubgroupOperation,
    TypeInner,
};

use super::EmitError;
use super::module::{Emitter, Variable, scalar};
use crate::dtype::DType;
use crate::kernel::{Expr, Matrix, MatrixAddress, Role, Stmt, Type, VariableId};
use crate::scalar::BinaryOp;

impl Emitter<'_> {
    /// Returns the statements as a block, without adding it anywhere.
    pub fn statements(&mut self, statements: &[Stmt]) -> Result<Block, EmitError> {
        let outer = std::mem::take(&mut self.block);
        for statement in statements {
            self.statement(statement)?;
        }
        Ok(std::mem::replace(&mut self.block, outer))
    }

    fn statement(&mut self, statement: &Stmt) -> Result<(), EmitError> {
        match statement {
            Stmt::Let(id, value) => {
                let variable = match self.is_index(value) {
                    true => Variable::Index(self.unsigned(value)?),
                    false => Variable::Value(self.value(value)?),
                };
                self.name(*id, variable);
            }
            Stmt::Var(id, value) => {
                let variable = &self.kernel.variables[*id];
                let pointer = self.local(&variable.name, variable.ty, None);
                let value = self.value(value)?;
                self.store(pointer, value);
                self.variables.insert(*id, Variable::Local(pointer));
            }
            Stmt::Collect(id, op, value) => self.collect(*id, *op, value)?,
            Stmt::Assign(id, value) => {
                let value = self.value(value)?;
                if let Some(Variable::Local(pointer)) = self.variables.get(id).copied() {
                    self.store(pointer, value);
                }
            }
            Stmt::Store { buffer, index, value } => {
                self.store_element(self.buffers[*buffer], index, value)?
            }
            Stmt::StoreShared { shared, index, value } => {
                self.store_element(self.shared[*shared], index, value)?
            }
            Stmt::For { counter, from, to, step, body } => {
                self.for_loop(*counter, from, to, *step, body)?
            }
            Stmt::If { condition, then, otherwise } => {
                let condition = self.value(condition)?;
                let accept = self.statements(then)?;
                let reject = self.statements(otherwise)?;
                self.push(Statement::If { condition, accept, reject });
            }
            Stmt::LoadMatrix { matrix, from } => {
                let data = self.matrix_data(*matrix, from)?;
                let Matrix { role, size, .. } = self.kernel.matrices[*matrix];
                let (columns, rows) = (matrix_size(size), matrix_size(size));
                let value = self.emit(Expression::CooperativeLoad {
                    columns,
                    rows,
                    role: matrix_role(role),
                    data,
                });
                self.store(self.matrices[*matrix], value);
            }
            Stmt::StoreMatrix { matrix, to } => {
                let data = self.matrix_data(*matrix, to)?;
                let target = self.emit(Expression::Load { pointer: self.matrices[*matrix] });
                self.push(Statement::CooperativeStore { target, data });
            }
            Stmt::MultiplyAdd { sum, left, right } => {
                let [a, b, c] = [left, right, sum]
                    .map(|&number| self.emit(Expression::Load { pointer: self.matrices[number] }));
                let value = self.emit(Expression::CooperativeMultiplyAdd { a, b, c });
                self.store(self.matrices[*sum], value);
            }
            Stmt::Barrier => self.push(Statement::ControlBarrier(Barrier::WORK_GROUP)),
        }
        Ok(())
    }

    /// Emits a reduction over the invocations of a subgroup.
    fn collect(&mut self, id: VariableId, op: BinaryOp, value: &Expr) -> Result<(), EmitError> {
        let argument = self.value(value)?;
        let ty = self.ty(self.kernel.variables[id].ty);
        let result = Expression::SubgroupOperationResult { ty };
        let result = self.function.expressions.append(result, Span::UNDEFINED);
        let op = match op {
            BinaryOp::Mul => SubgroupOperation::Mul,
            BinaryOp::Max => SubgroupOperation::Max,
            BinaryOp::Min => SubgroupOperation::Min,
            _ => SubgroupOperation::Add,
        };
        let collective_op = CollectiveOperation::Reduce;
        self.push(Statement::SubgroupCollectiveOperation { op, collective_op, argument, result });
        self.name(id, Variable::Value(result));
        Ok(())
    }

    /// Emits `var counter = from; loop { if counter >= to { break; } body; counter += step; }`.
    /// With the test first and an empty `continuing`, it is a plain `while` in every language.
    fn for_loop(
        &mut self,
        counter: VariableId,
        from: &Expr,
        to: &Expr,
        step: u32,
        body: &[Stmt],
    ) -> Result<(), EmitError> {
        let name = format!("{}_counter", self.kernel.variables[counter].name);
        let pointer = self.local(&name, Type::scalar(DType::U32), None);
        let is_signed = !(self.is_natural(from) && self.is_natural(to));
        let (from, to) =
            (self.unsigned(from)?, if is_signed { self.value(to)? } else { self.unsigned(to)? });
        self.store(pointer, from);

        let outer = std::mem::take(&mut self.block);
        let value = self.emit(Expression::Load { pointer });
        self.name(counter, Variable::Index(value));
        let left = if is_signed { self.cast(value, DType::I32) } else { value };
        let condition =
            self.emit(Expression::Binary { op: BinaryOperator::GreaterEqual, left, right: to });
        let accept = Block::from_vec(vec![Statement::Break]);
        self.push(Statement::If { condition, accept, reject: Block::new() });
        let body = self.statements(body)?;
        self.block.extend_block(body);
        let step = self.unsigned_literal(step);
        let next =
            self.emit(Expression::Binary { op: BinaryOperator::Add, left: value, right: step });
        self.store(pointer, next);

        let body = std::mem::replace(&mut self.block, outer);
        self.push(Statement::Loop { body, continuing: Block::new(), break_if: None });
        Ok(())
    }

    fn store_element(
        &mut self,
        array: Handle<Expression>,
        index: &Expr,
        value: &Expr,
    ) -> Result<(), EmitError> {
        let value = self.value(value)?;
        let pointer = self.element(array, index)?;
        self.store(pointer, value);
        Ok(())
    }

    fn matrix_data(
        &mut self,
        matrix: usize,
        place: &MatrixAddress,
    ) -> Result<CooperativeData, EmitError> {
        let row_major = self.kernel.matrices[matrix].role != Role::Right;
        let stride = self.unsigned_literal(place.pitch);
        Ok(CooperativeData {
            pointer: self.element(self.shared[place.shared], &place.first)?,
            stride,
            row_major,
        })
    }

    /// Returns the module's type for a matrix.
    pub fn matrix_type(&mut self, matrix: &Matrix) -> Handle<naga::Type> {
        self.ty(Type::scalar(matrix.dtype));
        let inner = TypeInner::CooperativeMatrix {
            columns: matrix_size(matrix.size),
            rows: matrix_size(matrix.size),
            scalar: scalar(matrix.dtype),
            role: matrix_role(matrix.role),
        };
        self.module.types.insert(naga::Type { name: None, inner }, Span::UNDEFINED)
    }

    /// Declares a variable. Its name becomes that of its value, unless the value has one already or
    /// is a literal.
    fn name(&mut self, id: VariableId, variable: Variable) {
        self.variables.insert(id, variable);
        let (Variable::Value(value) | Variable::Index(value) | Variable::Local(value)) = variable;
        if !self.function.expressions[value].needs_pre_emit() {
            let name = || self.kernel.variables[id].name.clone();
            self.function.named_expressions.entry(value).or_insert_with(name);
        }
    }

    /// Adds a local variable to the function and returns the pointer to it.
    pub fn local(
        &mut self,
        name: &str,
        ty: Type,
        init: Option<Handle<Expression>>,
    ) -> Handle<Expression> {
        let ty = self.ty(ty);
        self.local_of(name, ty, init)
    }

    /// Adds a local variable with a type of the module and returns the pointer to it.
    pub fn local_of(
        &mut self,
        name: &str,
        ty: Handle<naga::Type>,
        init: Option<Handle<Expression>>,
    ) -> Handle<Expression> {
        let local = LocalVariable { name: Some(name.into()), ty, init };
        let local = self.function.local_variables.append(local, Span::UNDEFINED);
        self.function.expressions.append(Expression::LocalVariable(local), Span::UNDEFINED)
    }

    fn store(&mut self, pointer: Handle<Expression>, value: Handle<Expression>) {
        self.push(Statement::Store { pointer, value });
    }

    pub fn push(&mut self, statement: Statement) {
        self.block.push(statement, Span::UNDEFINED);
    }
}

fn matrix_size(size: u8) -> CooperativeSize {
    if size == 8 { CooperativeSize::Eight } else { CooperativeSize::Sixteen }
}

fn matrix_role(role: Role) -> CooperativeRole {
    match role {
        Role::Left => CooperativeRole::A,
        Role::Right => CooperativeRole::B,
        Role::Sum => CooperativeRole::C,
    }
}
