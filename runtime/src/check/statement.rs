//! Execution of statements in lockstep: all lanes that reach a statement execute it before the next
//! one.
//!
//! A block takes the lanes that enter it and returns those that reach its end. The others have left
//! by `Break` or `Continue` and wait in the frame, or have returned. So all lanes of a workgroup
//! are at a statement together if and only if control flow is uniform there, as barriers require.

use naga::{AddressSpace, Barrier, Block, Expression, Handle, Statement, SwitchValue};

use super::fault::{Kind, Result};
use super::machine::{Frame, Machine};
use super::value::{Column, Lanes, Value, Word};

impl<'a> Machine<'a> {
    /// Executes a block and returns the lanes that reach its end.
    pub fn block(
        &mut self,
        frame: &mut Frame<'a>,
        block: &'a Block,
        mut lanes: Lanes,
    ) -> Result<Lanes> {
        for (index, statement) in block.iter().enumerate() {
            if lanes.is_empty() {
                break;
            }
            lanes = self.statement(frame, statement, lanes).map_err(|fault| fault.within(index))?;
        }
        Ok(lanes)
    }

    fn statement(
        &mut self,
        frame: &mut Frame<'a>,
        statement: &'a Statement,
        lanes: Lanes,
    ) -> Result<Lanes> {
        match *statement {
            Statement::Emit(ref range) => {
                for expression in range.clone() {
                    let value = self
                        .evaluate(frame, expression, &lanes)
                        .map_err(|fault| fault.at(expression))?;
                    frame.set(expression, value);
                }
            }
            Statement::Block(ref block) => return self.nested(frame, 0, block, lanes),
            Statement::If { condition, ref accept, ref reject } => {
                let (yes, no) = split(frame.data(condition)?, lanes);
                let accepted = self.nested(frame, 0, accept, yes)?;
                let rejected = self.nested(frame, 1, reject, no)?;
                return Ok(union(accepted, rejected));
            }
            Statement::Switch { selector, ref cases } => {
                return self.switch(frame, selector, cases, lanes);
            }
            Statement::Loop { ref body, ref continuing, break_if } => {
                return self.repeat(frame, body, continuing, break_if, lanes);
            }
            Statement::Break => {
                frame.breaks.extend(lanes);
                return Ok(Lanes::new());
            }
            Statement::Continue => {
                frame.continues.extend(lanes);
                return Ok(Lanes::new());
            }
            Statement::Return { value } => {
                if let Some(value) = value {
                    let value = frame.data(value)?.clone();
                    let empty = || Column::zero(self.lanes, value.components());
                    frame.result.get_or_insert_with(empty).merge(&value, &lanes);
                }
                return Ok(Lanes::new());
            }
            Statement::Store { pointer, value } => {
                let layout = frame.layout(pointer)?;
                self.store(frame.pointer(pointer)?, layout, frame.data(value)?, &lanes)?;
            }
            Statement::ControlBarrier(barrier) => self.barrier(barrier, &lanes)?,
            // A fence by itself does not order two invocations.
            Statement::MemoryBarrier(_) => {}
            Statement::WorkGroupUniformLoad { pointer, result } => {
                let value = self.uniform_load(frame, pointer, &lanes)?;
                frame.set(result, Value::Data(value));
            }
            Statement::Atomic { pointer, fun, value, result } => {
                let old = self.atomic(frame, pointer, fun, value, &lanes)?;
                if let Some(result) = result {
                    frame.set(result, Value::Data(old));
                }
            }
            Statement::Call { function, ref arguments, result } => {
                let values = arguments.iter().map(|&argument| frame.value(argument).cloned());
                let returned =
                    self.call(function, values.collect::<Result<_>>()?, lanes.clone())?;
                if let (Some(result), Some(value)) = (result, returned) {
                    frame.set(result, Value::Data(value));
                }
            }
            _ => self.collective_statement(frame, statement, &lanes)?,
        }
        Ok(lanes)
    }

    /// Executes a statement that the invocations of a subgroup execute together.
    fn collective_statement(
        &mut self,
        frame: &mut Frame<'a>,
        statement: &'a Statement,
        lanes: &Lanes,
    ) -> Result<()> {
        let (result, value) = match *statement {
            Statement::SubgroupBallot { result, predicate } => {
                (result, self.ballot(frame, predicate, lanes)?)
            }
            Statement::SubgroupGather { mode, argument, result } => {
                (result, self.gather(frame, mode, argument, lanes)?)
            }
            Statement::SubgroupCollectiveOperation { op, collective_op, argument, result } => {
                (result, self.collective(frame, op, collective_op, argument, lanes)?)
            }
            Statement::CooperativeStore { target, ref data } => {
                return self.store_matrix(frame, target, data, lanes);
            }
            _ => return Err(Kind::unsupported(statement).into()),
        };
        frame.set(result, Value::Data(value));
        Ok(())
    }

    /// Executes the block with number `index` of a statement.
    fn nested(
        &mut self,
        frame: &mut Frame<'a>,
        index: usize,
        block: &'a Block,
        lanes: Lanes,
    ) -> Result<Lanes> {
        self.block(frame, block, lanes).map_err(|fault| fault.within(index))
    }

    fn switch(
        &mut self,
        frame: &mut Frame<'a>,
        selector: Handle<Expression>,
        cases: &'a [naga::SwitchCase],
        lanes: Lanes,
    ) -> Result<Lanes> {
        let outer = std::mem::take(&mut frame.breaks);
        let words = frame.data(selector)?.component(0);
        let matches = |case: &naga::SwitchCase, word: u64| match case.value {
            SwitchValue::I32(value) => value.word() == word,
            SwitchValue::U32(value) => value.word() == word,
            SwitchValue::Default => false,
        };
        let mut entering = vec![Lanes::new(); cases.len()];
        let default = cases.iter().position(|case| case.value == SwitchValue::Default);
        let mut done = Lanes::new();
        for &lane in &lanes {
            match cases.iter().position(|case| matches(case, words[lane])).or(default) {
                Some(case) => entering[case].push(lane),
                None => done.push(lane),
            }
        }
        let mut falling = Lanes::new();
        for (index, (case, entering)) in cases.iter().zip(entering).enumerate() {
            let through = self.nested(frame, index, &case.body, union(entering, falling))?;
            falling = Lanes::new();
            if case.fall_through {
                falling = through;
            } else {
                done.extend(through);
            }
        }
        let breaks = std::mem::replace(&mut frame.breaks, outer);
        Ok(union(union(done, falling), breaks))
    }

    fn repeat(
        &mut self,
        frame: &mut Frame<'a>,
        body: &'a Block,
        continuing: &'a Block,
        break_if: Option<Handle<Expression>>,
        lanes: Lanes,
    ) -> Result<Lanes> {
        let outer_breaks = std::mem::take(&mut frame.breaks);
        let outer_continues = std::mem::take(&mut frame.continues);
        let mut running = lanes;
        for iteration in 0.. {
            if iteration == self.options.loop_limit {
                return Err(Kind::EndlessLoop { limit: iteration }.into());
            }
            let through = self.nested(frame, 0, body, running)?;
            let continued = std::mem::take(&mut frame.continues);
            running = self.nested(frame, 1, continuing, union(through, continued))?;
            if let Some(condition) = break_if.filter(|_| !running.is_empty()) {
                let (leaving, staying) = split(frame.data(condition)?, running);
                frame.breaks.extend(leaving);
                running = staying;
            }
            if running.is_empty() {
                break;
            }
        }
        frame.continues = outer_continues;
        let breaks = std::mem::replace(&mut frame.breaks, outer_breaks);
        Ok(union(breaks, Lanes::new()))
    }

    /// Checks that all lanes reach a barrier, and orders the memory that it names.
    fn barrier(&mut self, barrier: Barrier, lanes: &[usize]) -> Result<()> {
        let operation = match () {
            () if barrier.contains(Barrier::WORK_GROUP) => "workgroupBarrier",
            () if barrier.contains(Barrier::STORAGE) => "storageBarrier",
            () => return Err(Kind::Unsupported(format!("{barrier:?}")).into()),
        };
        self.meet(operation, lanes)?;
        self.order(barrier);
        Ok(())
    }

    fn order(&mut self, barrier: Barrier) {
        for memory in &mut self.memories {
            let named = match memory.space {
                AddressSpace::WorkGroup => barrier.contains(Barrier::WORK_GROUP),
                AddressSpace::Storage { .. } => barrier.contains(Barrier::STORAGE),
                _ => false,
            };
            if named {
                memory.barrier();
            }
        }
    }

    fn meet(&self, operation: &str, lanes: &[usize]) -> Result<()> {
        let absent = (0..self.lanes).find(|&lane| lanes.get(lane) != Some(&lane));
        match absent {
            Some(absent) => {
                let (active, of) = (lanes.len(), self.lanes);
                Err(Kind::Divergence { operation: operation.to_owned(), active, of, absent }.into())
            }
            None => Ok(()),
        }
    }

    /// Executes a load by all lanes from one place, between two implied barriers.
    fn uniform_load(
        &mut self,
        frame: &Frame<'a>,
        pointer: Handle<Expression>,
        lanes: &[usize],
    ) -> Result<Column> {
        let operation = "workgroupUniformLoad";
        self.meet(operation, lanes)?;
        let layout = frame.layout(pointer)?;
        let pointer = frame.pointer(pointer)?;
        let stray = lanes.iter().find(|&&lane| pointer.offsets[lane] != pointer.offsets[0]);
        if let Some(&invocation) = stray {
            return Err(Kind::NotUniform { operation: operation.to_owned(), invocation }.into());
        }
        self.order(Barrier::WORK_GROUP);
        let value = self.load(pointer, layout, lanes)?;
        self.order(Barrier::WORK_GROUP);
        Ok(value)
    }
}

/// Splits lanes by a condition: those where it holds, and the others.
fn split(condition: &Column, lanes: Lanes) -> (Lanes, Lanes) {
    let words = condition.component(0);
    lanes.into_iter().partition(|&lane| words[lane] != 0)
}

/// Returns the union of two disjoint sets of lanes, ascending.
fn union(mut some: Lanes, others: Lanes) -> Lanes {
    some.extend(others);
    some.sort_unstable();
    some
}
