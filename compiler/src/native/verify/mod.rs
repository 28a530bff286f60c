//! Checks the invariants of tapes.

mod program;

use crate::dense::Dense;
use crate::dtype::DType;
use crate::scalar::Value;
use crate::tensor::TensorType;

use super::chain::{Chain, Known, Move};
use super::code::Code;
use super::fused::Term;
use super::space::Lines;
use super::step::{Action, Reader, TapeStep};
use super::tape::{ACCUMULATOR, Tape, WRITTEN};

pub(super) type Checked = Result<(), String>;

/// Returns the message if a condition does not hold.
pub(super) fn ensure(holds: bool, message: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(message()) }
}

/// The place of a value while a tape is followed.
#[derive(Clone, PartialEq)]
enum Home {
    /// Not made yet.
    Nowhere,
    /// In a register that no step uses again.
    Kept,
    /// In a register, or the same as one of the values.
    In(usize, Vec<Value>),
}

/// The values of a tape, followed step by step.
struct Walk<'a> {
    tape: &'a Tape,
    operands: &'a [TensorType],
    homes: Dense<Value, Home>,
    /// The value that each register has.
    holds: Vec<Option<Value>>,
}

impl Tape {
    /// Checks the invariants that the [module documentation](super) states, for a nest with these
    /// operands.
    pub fn verify(&self, operands: &[TensorType]) -> Checked {
        let mut walk = Walk {
            tape: self,
            operands,
            homes: Dense::of(Home::Nowhere, self.dtypes.len()),
            holds: vec![None; self.registers.len()],
        };
        ensure(self.longest > 0 && self.registers.len() > WRITTEN, || {
            "a tape without room for a chunk".into()
        })?;
        ensure(self.space.axes().end <= self.variables.axes, || {
            "a space of axes that there are not".into()
        })?;
        for &(value, register, scalar) in &self.constants {
            walk.has_room(value, register, 0)?;
            ensure(scalar.dtype == self.dtypes[value], || {
                format!("v{value} is a constant of another type")
            })?;
            walk.homes[value] = Home::Kept;
        }
        for (number, (step, period)) in self.steady.iter().enumerate() {
            walk.has_room(step.value, step.register, *period)?;
            walk.types(step)?;
            let is_kept = |read: &Value| {
                let earlier = self.steady[..number].iter().any(|(other, _)| other.value == *read);
                earlier || self.constants.iter().any(|(constant, ..)| constant == read)
            };
            ensure(step.action.reads().iter().all(is_kept), || {
                format!("v{} is not steady", step.value)
            })?;
            walk.homes[step.value] = Home::Kept;
        }
        for &(value, register) in &self.given {
            walk.has_room(value, register, 0)?;
            ensure([ACCUMULATOR, WRITTEN].contains(&register), || {
                format!("v{value} is given in r{register}")
            })?;
            walk.homes[value] = Home::Kept;
        }
        self.steps.iter().try_for_each(|step| walk.step(step))?;
        for &result in &self.results {
            walk.read(result)?;
        }
        walk.ending()
    }
}

impl Walk<'_> {
    fn dtype(&self, value: Value) -> Result<DType, String> {
        self.tape.dtypes.get(value).copied().ok_or_else(|| format!("v{value} has no type"))
    }

    /// Checks that a register has room for a chunk of a value, and for a period of it.
    fn has_room(&self, value: Value, register: usize, period: usize) -> Checked {
        let bytes =
            self.tape.longest.saturating_add(period).saturating_mul(self.dtype(value)?.size());
        let has = self.tape.registers.get(register).copied().unwrap_or(0);
        ensure(has >= bytes, || {
            format!("v{value} needs {bytes} bytes in r{register}, which has {has}")
        })
    }

    /// Checks that a value is made, and still where it was.
    fn read(&self, value: Value) -> Checked {
        match self.homes.get(value).unwrap_or(&Home::Nowhere) {
            Home::Nowhere => Err(format!("v{value} is read before it is made")),
            Home::Kept => Ok(()),
            Home::In(register, others) => {
                ensure(self.holds[*register] == Some(value), || {
                    format!("r{register} is reused while v{value} is read")
                })?;
                others.iter().try_for_each(|other| self.read(*other))
            }
        }
    }

    fn make(&mut self, value: Value, register: usize, others: Vec<Value>) -> Checked {
        self.has_room(value, register, 0)?;
        ensure(register > WRITTEN, || {
            format!("v{value} is made in r{register}, which the caller fills")
        })?;
        let kept = self.tape.constants.iter().map(|(_, register, _)| *register);
        let mut kept = kept.chain(self.tape.steady.iter().map(|(step, _)| step.register));
        ensure(!kept.any(|other| other == register), || {
            format!("v{value} is made in r{register}, which is kept")
        })?;
        self.holds[register] = Some(value);
        self.homes[value] = Home::In(register, others);
        Ok(())
    }

    fn step(&mut self, step: &TapeStep) -> Checked {
        if let Action::Chain(chain) = &step.action {
            return self.chain(chain);
        }
        let reads = step.action.reads();
        reads.iter().try_for_each(|read| self.read(*read))?;
        let shares = |read: &Value| matches!(self.homes[*read], Home::In(register, _) if register == step.register);
        ensure(!reads.iter().any(shares), || {
            format!("v{} is made in a register that it reads", step.value)
        })?;
        self.types(step)?;
        let others = match step.action {
            // It may be an alias of either.
            Action::Select(_, a, b) => vec![a, b],
            _ => Vec::new(),
        };
        self.make(step.value, step.register, others)
    }

    fn chain(&mut self, chain: &Chain) -> Checked {
        self.read(chain.from)?;
        let word = |dtype: DType| matches!(dtype, DType::F32 | DType::I32 | DType::U32);
        let is_word = |walk: &Self, value: Value| {
            let dtype = walk.dtype(value)?;
            ensure(word(dtype), || format!("v{value} is {dtype} in a chain"))
        };
        // Bytes are words only while they are the current value.
        let is_current = |walk: &Self, value: Value| match walk.dtype(value)? {
            DType::I8 | DType::U8 => Ok(()),
            _ => is_word(walk, value),
        };
        is_current(self, chain.from)?;
        for step in &chain.moves {
            step.reads().try_for_each(|read| self.read(read))?;
            match *step {
                Move::Apply(Code::Take, [Some(value), None]) => is_current(self, value)?,
                Move::Apply(code, operands) => {
                    let count = operands.iter().flatten().count();
                    ensure(count == code.operands(), || {
                        format!("`{}` has {count} operands", code.name())
                    })?;
                    operands
                        .into_iter()
                        .flatten()
                        .try_for_each(|operand| is_word(self, operand))?;
                    self.operands(code, operands)?;
                }
                Move::Divide(by) => is_word(self, by)?,
                Move::Replace { condition, by, .. } => {
                    is_word(self, by)?;
                    let is_bool = self.dtype(condition)? == DType::Bool;
                    ensure(is_bool, || format!("v{condition} is a condition, and not bool"))?;
                }
                Move::Compare(_, with, value) => {
                    is_word(self, with)?;
                    ensure(self.dtype(value)? == DType::Bool, || {
                        format!("v{value} is a comparison, and not bool")
                    })?;
                }
                Move::Keep(value) => is_current(self, value)?,
                Move::Aggregate(_, value) => is_word(self, value)?,
            }
            if let Some(value) = step.stored() {
                let known = chain.registers.iter().any(|(stored, _)| *stored == value);
                ensure(known, || format!("v{value} is stored in no register"))?;
                self.make(value, chain.register(value), Vec::new())?;
            }
        }
        Ok(())
    }

    /// Checks what an operation of a chain demands of its operands, which are words.
    fn operands(&self, code: Code, operands: [Option<Value>; 2]) -> Checked {
        let is_float = operands.map(|value| value.map(|v| self.tape.dtypes[v] == DType::F32));
        let (types, kind) = match code {
            Code::Word(_) => (is_float[0] != Some(true), "a float"),
            Code::ScaleSum | Code::ScaleDifference => {
                (is_float == [Some(false), Some(true)], "other types")
            }
            Code::ScaleAdd => (is_float == [Some(true); 2], "an integer"),
            Code::NearSignedByte | Code::NearUnsignedByte => {
                let Tape { dtypes, constants, .. } = self.tape;
                let known = Known { dtypes, constants };
                (operands[0].is_some_and(|a| known.is_offset(a, code)), "another offset")
            }
            _ => (true, ""),
        };
        ensure(types, || format!("`{}` of {kind}", code.name()))
    }

    /// Checks the types of a step that is no chain.
    fn types(&self, step: &TapeStep) -> Checked {
        let dtype = self.dtype(step.value)?;
        let of = |value: Value| self.dtype(value);
        let fits = match &step.action {
            Action::Load(reader) => return self.reader(step.value, reader),
            Action::Index(lines) => {
                self.lines(lines)?;
                lines.expressions.len() == 1 && dtype == DType::I32
            }
            Action::Unary(_, a) | Action::Statistic(_, a) => of(*a)? == dtype,
            Action::Binary(_, a, b) => of(*a)? == dtype && of(*b)? == dtype,
            Action::Compare(op, a, b) => {
                op.is_comparison() && of(*a)? == of(*b)? && dtype == DType::Bool
            }
            Action::Select(c, a, b) => {
                of(*c)? == DType::Bool && of(*a)? == dtype && of(*b)? == dtype
            }
            Action::Cast(a) => of(*a).is_ok(),
            Action::Chain(_) => false,
        };
        ensure(fits, || format!("v{} = {} has other types", step.value, step.action))
    }

    fn reader(&self, value: Value, reader: &Reader) -> Checked {
        let operand = self.operands.get(reader.operand);
        let operand = operand
            .ok_or_else(|| format!("v{value} reads in{}, which there is not", reader.operand))?;
        let dtype = match (operand.dtype, reader.saturates) {
            (DType::I64, true) => DType::I32,
            (dtype, _) => dtype,
        };
        ensure(dtype == self.dtype(value)?, || format!("v{value} reads {operand}"))?;
        [&reader.offset, &reader.conditions, &reader.guarded]
            .into_iter()
            .try_for_each(|lines| self.lines(lines))?;
        let joined = reader.offset.expressions.iter().chain(&reader.conditions.expressions);
        let joins = reader.offset.expressions.len() == 1 && joined.eq(&reader.guarded.expressions);
        ensure(joins, || format!("v{value} reads with other conditions than it has"))?;
        let is_typed = |(index, dtype, _): &(Value, DType, i64)| {
            self.dtype(*index) == Ok(*dtype) && dtype.is_integer()
        };
        ensure(reader.dynamic.iter().all(is_typed), || {
            format!("v{value} has an index of another type")
        })
    }

    /// Checks that lines are those of their expressions.
    fn lines(&self, lines: &Lines) -> Checked {
        let variables = &self.tape.variables;
        let known =
            lines.expressions.iter().flat_map(|e| e.variables()).all(|v| v < variables.count());
        ensure(known, || "an address names a variable that there is not".into())?;
        let through = |expressions| {
            Lines::through(&self.tape.space, variables.axes, &variables.derived, expressions)
        };
        let same = *lines == through(lines.expressions.clone());
        ensure(same, || "an address has another pace than its expressions".into())
    }

    /// Checks what follows the steps.
    fn ending(&self) -> Checked {
        let tape = self.tape;
        ensure(tape.direct.len() == tape.results.len(), || {
            "results without an order of stores".into()
        })?;
        for &(lodger, result) in &tape.lodgers {
            let fits = self.dtype(lodger)?.size() == self.dtype(result)?.size()
                && tape.results.contains(&result);
            ensure(fits, || format!("v{lodger} is stored with v{result}"))?;
        }
        let is_chain = |number: usize| {
            matches!(tape.steps.get(number), Some(TapeStep { action: Action::Chain(_), .. }))
        };
        ensure(tape.longest_chain.is_none_or(is_chain), || {
            "prefetches in a step that is no chain".into()
        })?;
        ensure(tape.fused.is_none() || tape.results.len() == 1, || {
            "a fused epilogue of several results".into()
        })?;
        for term in tape.fused.iter().flat_map(|fused| fused.terms).flatten() {
            let fits = match term {
                Term::Kept { register, period } => {
                    let bytes = tape.longest.saturating_add(if period == 1 { 0 } else { period });
                    let has = tape.registers.get(register);
                    period > 0
                        && has.is_some_and(|has| *has >= bytes.saturating_mul(size_of::<f32>()))
                }
                Term::AtPlace(operand) => {
                    self.operands.get(operand).is_some_and(|ty| ty.dtype == DType::F32)
                }
            };
            ensure(fits, || format!("a fused term {term}"))?;
        }
        Ok(())
    }
}
