//! Execution of a tape by one thread.

mod bind;
mod load;
mod state;

use super::fused;
use super::runner::Runner;
use super::walk::Walker;
use crate::cpu::memory::{Launch, Operand, Register, elements_mut};
use crate::cpu::vector;
use crate::cpu::vector::lanes::MOST_LANES;
use crate::cpu::vector::number::{Bits, Bool, Number, from_scalar, sized, typed};
use crate::cpu::vector::strip::{self, ChunkPointer, Code};
use bind::Bench;
use bytemuck::Pod;
pub use state::State;
use state::{At, Spread};
use tile_compiler::dense::Dense;
use tile_compiler::dtype::DType;
use tile_compiler::graph::Aggregation;
use tile_compiler::native::{ACCUMULATOR, Action, CHUNK, Fused, TapeStep, Term};
use tile_compiler::scalar::{BinaryOp, Value};

/// The memory of an output that receives a result's elements of the chunk directly.
pub struct Sink {
    pub output: usize,
    pub value: Value,
    pub place: ChunkPointer,
    pub bytes: usize,
    /// Whether the chunk reads the memory that the output overwrites.
    pub is_read: bool,
}

/// A thread's state while it runs a tape. The tape keeps it for the next machine.
pub struct Machine<'t> {
    tape: &'t Runner,
    operands: &'t [Operand<'t>],
    registers: Vec<Register>,
    at: Dense<Value, At>,
    moves: Vec<i64>,
    bench: Bench,
    /// The prefetches that the next chain is to issue.
    ahead: Vec<(Code, ChunkPointer)>,
    /// The sinks of the next chunk.
    sinks: Vec<Sink>,
    /// The walker. Variables outside the tape's space must be set in it.
    pub walker: Walker,
    /// The points of the chunk.
    length: usize,
    /// The rows of the chunk, if the tape has statistics of rows, or 1.
    rows: usize,
    /// Whether chains use non-temporal stores for aligned sinks. Other threads see the values after
    /// [`strip::fence`].
    pub past: bool,
    /// Whether chains do so for the current chunk.
    goes_past: bool,
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        let state = State {
            registers: std::mem::take(&mut self.registers),
            at: std::mem::take(&mut self.at),
            moves: std::mem::take(&mut self.moves),
            bench: std::mem::take(&mut self.bench),
            ahead: std::mem::take(&mut self.ahead),
            sinks: std::mem::take(&mut self.sinks),
            walker: std::mem::replace(&mut self.walker, Walker::new(0)),
        };
        self.tape.idle.give(state);
    }
}

impl<'t> Machine<'t> {
    /// Creates a machine for this launch.
    pub fn new(tape: &'t Runner, Launch { operands, steps }: Launch<'t>) -> Self {
        let State { registers, at, moves, bench, mut ahead, mut sinks, mut walker } =
            tape.idle.take(|| State::new(tape));
        ahead.clear();
        sinks.clear();
        walker.point[tape.variables.loops..]
            .iter_mut()
            .zip(steps)
            .for_each(|(variable, &step)| *variable = step as i64);
        let mut machine = Self {
            tape,
            operands,
            registers,
            at,
            moves,
            bench,
            ahead,
            sinks,
            walker,
            length: 0,
            rows: 1,
            past: false,
            goes_past: false,
        };
        for (step, period) in &tape.steady {
            machine.repeat(step, *period);
        }
        machine
    }

    /// Returns a register for the caller to fill.
    pub fn given<T: Pod>(&mut self, register: usize) -> &mut [T] {
        for (value, _) in self.tape.given.iter().filter(|(_, given)| *given == register) {
            self.at[*value] = At::Register(register);
        }
        self.registers[register].elements_mut()
    }

    /// Makes the next chunk store a result to memory of an output.
    ///
    /// # Safety
    /// Until the sinks are cleared:
    /// - the sink's place must be writable for `bytes` bytes;
    /// - nobody but this machine may access them.
    pub unsafe fn add_sink(&mut self, sink: Sink) {
        self.sinks.push(sink);
    }

    /// Forgets the sinks of the last chunk.
    pub fn clear_sinks(&mut self) {
        self.sinks.clear();
    }

    /// Makes the next chunk read accumulated values where they are; at each place at least one
    /// point has counted.
    ///
    /// # Safety
    /// - `sums` must stay borrowed until the machine is lent or given other values. Only a machine
    ///   that is not used any more need not get others.
    pub unsafe fn lend<T: Pod>(&mut self, sums: &[T]) {
        for (value, register) in &self.tape.given {
            match *register {
                ACCUMULATOR => {
                    self.at[*value] =
                        At::Own(ChunkPointer::elements(sums.as_ptr().cast_mut().cast()))
                }
                register => self.registers[register].elements_mut::<u8>()[..sums.len()].fill(1),
            }
        }
    }

    /// Returns the elements of a value in the last chunk, or one for each row if it has only these.
    pub fn value<T: Bits>(&self, value: Value) -> &[T] {
        match self.at[value] {
            At::Register(register) | At::Uniform(register, _) => {
                &self.registers[register].elements()[..self.length]
            }
            At::OfRows(register) => &self.registers[register].elements()[..self.rows],
            At::Steady(register, start) => {
                &self.registers[register].elements()[start..start + self.length]
            }
            At::Operand(operand, start) => &self.operands[operand].after(start)[..self.length],
            // SAFETY: the memory holds the chunk's elements, by the contracts of `lend`, `add_sink`
            // and `Operand::overwritten`. Nobody writes it while the slice is in use: chains take
            // places, not slices, and a step that stores to a sink reads no part of it.
            At::Own(place) => unsafe {
                std::slice::from_raw_parts(place.start.cast(), self.length)
            },
        }
    }

    /// Returns the bytes of all elements of a result in the last chunk.
    pub fn bytes(&mut self, result: Value) -> &[u8] {
        self.widen(result, self.length);
        sized!(self.tape.dtypes[result], T => bytemuck::cast_slice(self.value::<T>(result)))
    }

    /// Returns the bytes of a result of the last chunk that is the same all over each row, and the
    /// number of elements there for each row.
    pub fn bytes_of_rows(&mut self, result: Value, row_length: usize) -> (&[u8], usize) {
        let length = if self.extent(result) == self.length { row_length } else { 1 };
        self.widen(result, self.rows);
        (
            sized!(self.tape.dtypes[result], T => bytemuck::cast_slice(self.value::<T>(result))),
            length,
        )
    }

    /// Evaluates `length` points from `start` on: one of the tape's chunks, or a part of it.
    pub fn run(&mut self, start: usize, length: usize) {
        self.run_into_sinks(start, length);
        let tape = self.tape;
        tape.results.iter().for_each(|result| self.widen(*result, length));
    }

    /// Evaluates as [`Machine::run`] does, but writes results directly to their sinks where
    /// possible. Results may still have one element for each row.
    pub fn run_into_sinks(&mut self, start: usize, length: usize) {
        let tape = self.tape;
        self.length = length;
        self.rows = tape.row_length.map_or(1, |row| length / row.max(1)).max(1);
        self.ahead.clear();
        let whole_registers = self.rows == 1 || (length / self.rows).is_multiple_of(MOST_LANES);
        let is_aligned = |sink: &Sink| sink.place.start.addr().is_multiple_of(strip::ALIGNED);
        self.goes_past = self.past && whole_registers && self.sinks.iter().all(is_aligned);
        if !self.goes_past && tape.longest_chain.is_some() {
            let asked = self
                .sinks
                .iter()
                .filter(|sink| !sink.is_read && sink.bytes == length * size_of::<f32>());
            self.ahead.extend(asked.map(|sink| (Code::FetchToWrite, sink.place)));
        }
        for (step, period) in &tape.steady {
            self.at[step.value] = match period {
                1 => At::Uniform(step.register, Spread::Kept),
                _ => At::Steady(step.register, start % period),
            };
        }
        for (number, step) in tape.steps.iter().enumerate() {
            if let Action::Chain(chain) = &step.action {
                // Only the last chain may bypass the caches, since nothing reads its results
                // afterwards.
                let past = self.goes_past && number + 1 == tape.steps.len();
                self.run_chain(chain, tape.longest_chain <= Some(number), past);
                continue;
            }
            // Only the last step may write to its sink: earlier results may be uniform, and later
            // steps need to know that.
            let stores = number + 1 == tape.steps.len();
            let sink = self.sink(step.value).filter(|sink| stores && !sink.is_read);
            let sink = sink.or_else(|| self.lodging(step.value));
            if let Some(&Sink { place, bytes, .. }) = sink {
                // SAFETY: the sink has `bytes` bytes, which only this machine uses, by the contract
                // of `add_sink`. The step reads none of them: the overwritten operand is not read
                // (`is_read`), and values stored there before the result are read by chains only.
                let out = unsafe { std::slice::from_raw_parts_mut(place.start, bytes) };
                self.at[step.value] = At::Own(place);
                let made = self.step(step, start, out);
                // A load may be read in place instead.
                if matches!(self.at[step.value], At::Own(_)) {
                    spread(tape.dtypes[step.value], out, made, length);
                }
                continue;
            }
            if let Action::Select(c, a, b) = step.action
                && let Some(holds) = self.decided(c)
            {
                // A choice for the whole chunk aliases the chosen value, whose register the tape
                // keeps for as long.
                let chosen = self.at[if holds { a } else { b }];
                if !matches!(chosen, At::OfRows(_)) {
                    self.at[step.value] = chosen;
                    continue;
                }
            }
            // The register of an instruction is none of those that it reads.
            let mut register = std::mem::take(&mut self.registers[step.register]);
            self.at[step.value] = At::Register(step.register);
            let made = self.step(step, start, register.elements_mut());
            if made < length {
                let whole = At::Uniform(step.register, Spread::First);
                self.at[step.value] =
                    if made == 1 { whole } else { self.whole_rows(step.register) };
            }
            self.registers[step.register] = register;
        }
    }

    /// Returns the sink of a value, if it has one.
    fn sink(&self, value: Value) -> Option<&Sink> {
        self.sinks.iter().find(|sink| sink.value == value)
    }

    /// Returns whether the elements of an output are in its sink after the chunk.
    pub fn is_in_sink(&self, output: usize) -> bool {
        let is_there = |sink: &Sink| matches!(self.at[sink.value], At::Own(place) if place.start == sink.place.start);
        self.sinks.iter().any(|sink| sink.output == output && is_there(sink))
    }

    /// Runs one step into `out`, which is like its register. Returns the number of elements
    /// written: 1 if they are all the same.
    fn step(&mut self, step: &TapeStep, start: usize, out: &mut [u8]) -> usize {
        let tape = self.tape;
        let dtype = tape.dtypes[step.value];
        if let Action::Select(c, a, b) = &step.action
            && let Some(holds) = self.decided(*c)
        {
            let chosen = if holds { *a } else { *b };
            let length = self.together(&[chosen]);
            sized!(dtype, T => elements_mut::<T>(out)[..length].copy_from_slice(&self.value(chosen)[..length]));
            return length;
        }
        let length = match &step.action {
            Action::Load(reader) if reader.saturates => {
                return self.load_saturated(reader, start, step, elements_mut(out));
            }
            Action::Load(reader) => {
                let length = self.length;
                return sized!(dtype, T => self.load::<T>(reader, start, step.value, &mut elements_mut(out)[..length]));
            }
            Action::Statistic(aggregation, a) => {
                self.widen(*a, self.length);
                return typed!(dtype, T => self.statistic::<T>(*aggregation, *a, elements_mut(out)));
            }
            Action::Index(_) | Action::Chain(_) => self.length,
            Action::Unary(_, a) | Action::Cast(a) => self.together(&[*a]),
            Action::Binary(op, a, b) => {
                if let Some(length) = self.with_scalar(*op, *a, *b, dtype, out) {
                    return length;
                }
                self.together(&[*a, *b])
            }
            Action::Compare(_, a, b) => self.together(&[*a, *b]),
            Action::Select(c, a, b) => self.together(&[*c, *a, *b]),
        };
        macro_rules! value {
            ($value:expr) => {
                &self.value(*$value)[..length]
            };
        }
        match &step.action {
            Action::Load(_) | Action::Statistic(..) | Action::Chain(_) => {}
            Action::Index(lines) => {
                let out = &mut elements_mut::<i32>(out)[..length];
                self.walker.walk(&tape.space, lines, start, length, |piece| {
                    vector::count(
                        piece.values[0],
                        lines.steps[0],
                        &mut out[piece.at..][..piece.length],
                    );
                });
            }
            Action::Unary(op, a) => {
                typed!(dtype, T => vector::unary::<T>(*op, value!(a), elements_mut(out)))
            }
            Action::Binary(op, a, b) => {
                typed!(dtype, T => vector::binary::<T>(*op, value!(a), value!(b), elements_mut(out)));
            }
            Action::Compare(op, a, b) => {
                typed!(tape.dtypes[*a], T => vector::compare::<T>(*op, value!(a), value!(b), elements_mut(out)));
            }
            Action::Select(c, a, b) => {
                sized!(dtype, T => vector::select::<T>(value!(c), value!(a), value!(b), elements_mut(out)));
            }
            Action::Cast(a) => typed!(tape.dtypes[*a], A => typed!(dtype, B => {
                vector::cast::<A, B>(value!(a), &mut elements_mut(out)[..length])
            })),
        }
        length
    }

    /// Aggregates a value over each row of the chunk. Returns the number of elements written.
    fn statistic<T: Number>(&self, aggregation: Aggregation, a: Value, out: &mut [T]) -> usize {
        let identity = from_scalar(aggregation.identity(self.tape.dtypes[a]));
        let row = self.length / self.rows;
        let out = &mut out[..self.rows];
        vector::fold_rows(aggregation, identity, self.value::<T>(a), row, row, out);
        self.rows
    }

    /// Returns the place of a value whose register holds one element for each row.
    fn whole_rows(&self, register: usize) -> At {
        match self.rows {
            1 => At::Uniform(register, Spread::First),
            rows if rows == self.length => At::Register(register),
            _ => At::OfRows(register),
        }
    }

    fn is_uniform(&self, value: Value) -> bool {
        matches!(self.at[value], At::Uniform(..))
    }

    /// Returns a condition's value if it is known to be the same for the whole chunk.
    fn decided(&self, condition: Value) -> Option<bool> {
        if !matches!(self.at[condition], At::Uniform(..) | At::OfRows(_)) {
            return None;
        }
        let (first, others) = self.distinct::<Bool>(condition).split_first()?;
        others.iter().all(|other| other == first).then_some(first.0 != 0)
    }

    /// Returns the number of a value's elements: 1, one for each row, or one for each point.
    fn extent(&self, value: Value) -> usize {
        match self.at[value] {
            At::Uniform(..) => 1,
            At::OfRows(_) => self.rows,
            At::Register(_) | At::Steady(..) | At::Operand(..) | At::Own(_) => self.length,
        }
    }

    /// Returns the elements that [`Machine::extent`] counts.
    fn distinct<T: Bits>(&self, value: Value) -> &[T] {
        &self.value(value)[..self.extent(value)]
    }

    /// Returns the number of elements of a result made from `values`: the most that any of them
    /// has. Makes at least as many of each readable.
    fn together(&mut self, values: &[Value]) -> usize {
        let most = values.iter().map(|value| self.extent(*value)).max().unwrap_or(1);
        if most > 1 {
            values.iter().for_each(|&value| self.widen(value, most));
        }
        most
    }

    /// Expands a value that has one element for the chunk, or one for each row, to at least
    /// `length` elements.
    fn widen(&mut self, value: Value, length: usize) {
        let dtype = self.tape.dtypes[value];
        match self.at[value] {
            At::Uniform(register, Spread::First) if length > 1 => {
                spread(dtype, self.registers[register].elements_mut(), 1, self.length);
                self.at[value] = At::Uniform(register, Spread::All);
            }
            At::OfRows(register) if length > self.rows => {
                spread(dtype, self.registers[register].elements_mut(), self.rows, length);
                self.at[value] = At::Register(register);
            }
            _ => {}
        }
    }

    /// Applies an f32 operation with one operand that is the same for the whole chunk, if there is
    /// a loop for that.
    fn with_scalar(
        &self,
        op: BinaryOp,
        a: Value,
        b: Value,
        dtype: DType,
        out: &mut [u8],
    ) -> Option<usize> {
        let swapped = match (self.is_uniform(a), self.is_uniform(b)) {
            _ if dtype != DType::F32 => return None,
            (false, true) => false,
            (true, false) => true,
            _ => return None,
        };
        let (vector, scalar) = if swapped { (b, a) } else { (a, b) };
        let scalar = self.value::<f32>(scalar)[0];
        let vector = self.value(vector);
        let out = &mut elements_mut(out)[..vector.len()];
        vector::binary_scalar(op, vector, scalar, swapped, out).then_some(vector.len())
    }

    /// Runs a step over one period of its value, and repeats that as far as chunks reach.
    fn repeat(&mut self, step: &TapeStep, period: usize) {
        let dtype = self.tape.dtypes[step.value];
        let size = dtype.size();
        let mut register = std::mem::take(&mut self.registers[step.register]);
        let bytes: &mut [u8] = register.elements_mut();
        self.rows = 1;
        for start in (0..period).step_by(CHUNK) {
            self.length = CHUNK.min(period - start);
            for (other, period) in
                self.tape.steady.iter().filter(|(other, _)| other.value < step.value)
            {
                self.at[other.value] = At::Steady(other.register, start % period);
            }
            self.at[step.value] = At::Register(step.register);
            let to = &mut bytes[start * size..];
            let made = self.step(step, start, to);
            spread(dtype, to, made, self.length);
            if let At::Operand(operand, place) = self.at[step.value] {
                let Operand { bytes: from, first, .. } = self.operands[operand];
                to[..self.length * size]
                    .copy_from_slice(&from[(place - first) * size..][..self.length * size]);
            }
        }
        let (mut done, all) = (period * size, (period + self.tape.longest) * size);
        while done < all {
            let more = done.min(all - done);
            bytes.copy_within(..more, done);
            done += more;
        }
        self.registers[step.register] = register;
    }

    /// Returns the elements of a register of the fused epilogue.
    pub fn kept(&self, register: usize) -> &[f32] {
        self.registers[register].elements()
    }

    /// Runs the fused epilogue on `given`, the accumulated values of at most [`CHUNK`] places from
    /// `place` on.
    pub fn run_fused(&self, fused: &Fused, place: usize, given: &[f32], out: &mut [f32]) {
        let n = given.len();
        let terms = fused.terms.map(|term| {
            term.map(|term| match term {
                Term::Kept { register, period } => &self.kept(register)[place % period..][..n],
                Term::AtPlace(operand) => &self.operands[operand].after(place)[..n],
            })
        });
        fused::apply(fused, given, terms, out);
    }
}

/// Repeats each of the first `made` elements of type `dtype`, in place, so that there are `length`.
fn spread(dtype: DType, bytes: &mut [u8], made: usize, length: usize) {
    sized!(dtype, T => vector::spread(made, &mut elements_mut::<T>(bytes)[..length]));
}
