//! Statements of kernels as statements of naga.

use naga::{
    Barrier, BinaryOperator, Block, CollectiveOperation, Expression, Handle, LocalVariable, Span, Statement,
    SubgroupOperation,
};

use super::EmitError;
use super::module::{Emitter, Variable};
use crate::dtype::DType;
use crate::kernel::{Expr, Stmt, Type, VariableId};
use crate::scalar::BinaryOp;

impl Emitter<'_> {
    /// The statements as a block, which is not put anywhere.
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
            Stmt::Collect(id, op, value) => {
                let argument = self.value(value)?;
                let ty = self.ty(self.kernel.variables[*id].ty);
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
                self.name(*id, Variable::Value(result));
            }
            Stmt::Assign(id, value) => {
                let value = self.value(value)?;
                if let Some(Variable::Local(pointer)) = self.variables.get(id).copied() {
                    self.store(pointer, value);
                }
            }
            Stmt::Store { buffer, index, value } => self.store_element(self.buffers[*buffer], index, value)?,
            Stmt::StoreShared { shared, index, value } => self.store_element(self.shared[*shared], index, value)?,
            Stmt::For { counter, from, to, step, body } => self.for_loop(*counter, from, to, *step, body)?,
            Stmt::If { condition, then, otherwise } => {
                let condition = self.value(condition)?;
                let accept = self.statements(then)?;
                let reject = self.statements(otherwise)?;
                self.push(Statement::If { condition, accept, reject });
            }
            Stmt::Barrier => self.push(Statement::ControlBarrier(Barrier::WORK_GROUP)),
        }
        Ok(())
    }

    /// `var counter = from; loop { if counter >= to { break; } body; counter = counter + step; }`: this form, with the
    /// test at the head and nothing in `continuing`, is a plain `while` in every language.
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
        let (from, to) = (self.unsigned(from)?, if is_signed { self.value(to)? } else { self.unsigned(to)? });
        self.store(pointer, from);

        let outer = std::mem::take(&mut self.block);
        let value = self.emit(Expression::Load { pointer });
        self.name(counter, Variable::Index(value));
        let left = if is_signed { self.cast(value, DType::I32) } else { value };
        let condition = self.emit(Expression::Binary { op: BinaryOperator::GreaterEqual, left, right: to });
        let accept = Block::from_vec(vec![Statement::Break]);
        self.push(Statement::If { condition, accept, reject: Block::new() });
        let body = self.statements(body)?;
        self.block.extend_block(body);
        let step = self.unsigned_literal(step);
        let next = self.emit(Expression::Binary { op: BinaryOperator::Add, left: value, right: step });
        self.store(pointer, next);

        let body = std::mem::replace(&mut self.block, outer);
        self.push(Statement::Loop { body, continuing: Block::new(), break_if: None });
        Ok(())
    }

    fn store_element(&mut self, array: Handle<Expression>, index: &Expr, value: &Expr) -> Result<(), EmitError> {
        let value = self.value(value)?;
        let pointer = self.element(array, index)?;
        self.store(pointer, value);
        Ok(())
    }

    /// Declares a variable; its value is known by its name, unless it has one already or is a literal.
    fn name(&mut self, id: VariableId, variable: Variable) {
        self.variables.insert(id, variable);
        let (Variable::Value(value) | Variable::Index(value) | Variable::Local(value)) = variable;
        if !self.function.expressions[value].needs_pre_emit() {
            let name = || self.kernel.variables[id].name.clone();
            self.function.named_expressions.entry(value).or_insert_with(name);
        }
    }

    /// A local variable of the function, and the pointer to it.
    pub fn local(&mut self, name: &str, ty: Type, init: Option<Handle<Expression>>) -> Handle<Expression> {
        let ty = self.ty(ty);
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
