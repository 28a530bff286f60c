//! A thread at work on a [`Tape`].

mod bind;
mod load;

use super::fused::{Fused, Term};
use super::lanes::MOST_LANES;
use super::memory::{Launch, Operand, Plain, Register, bytes_of, elements_mut};
use super::number::{Bool, Number, from_scalar, typed};
use super::space::Walker;
use super::strip::{self, Code, Place};
use super::tape::{ACCUMULATOR, Action, CHUNK, Step, Tape};
use super::vector;
use bind::Bench;
use tile_compiler::dtype::DType;
use tile_compiler::graph::Aggregation;
use tile_compiler::scalar::{BinaryOp, Value};

/// Where the elements of a value are for the current chunk.
#[derive(Clone, Copy)]
enum At {
    Register(usize),
    /// The same for the whole chunk.
    Uniform(usize, Spread),
    /// The same all over each of the chunk's rows: the first elements of a register, one for each.
    OfRows(usize),
    /// In a register, from this element on.
    Steady(usize, usize),
    /// In an operand, from this element on.
    Operand(usize, usize),
    /// In memory that is this thread's own while it is at the chunk: sums that were lent, or the part of an output that the chunk makes.
    Own(Place),
}

#[derive(Clone, Copy, PartialEq)]
enum Spread {
    /// The first element of a register.
    First,
    /// All elements of a register.
    All,
    /// The same, and the register is its own: no other value ever comes there.
    Kept,
}

/// Memory of an output that a result's elements of the chunk go to as soon as they are known.
pub struct Sink {
    pub output: usize,
    pub value: Value,
    pub place: Place,
    pub bytes: usize,
    /// Whether the chunk reads what is written over there.
    pub is_read: bool,
}

/// What a machine keeps when it is not in use.
pub struct State {
    registers: Vec<Register>,
    at: Vec<At>,
    moves: Vec<i64>,
    bench: Bench,
    walker: Walker,
}

/// A thread's state while it runs a tape; for the next one, the tape keeps it.
pub struct Machine<'t> {
    tape: &'t Tape,
    operands: &'t [Operand<'t>],
    registers: Vec<Register>,
    at: Vec<At>,
    moves: Vec<i64>,
    bench: Bench,
    /// What the next chain is to ask for.
    ahead: Vec<(Code, Place)>,
    /// Of the next chunk.
    pub sinks: Vec<Sink>,
    /// The variables that the tape's space does not have are to be set in it.
    pub walker: Walker,
    /// Points of the chunk.
    length: usize,
    /// Rows of the chunk, where the tape has rows, or 1.
    rows: usize,
    /// Whether chains store past the caches what goes to a sink, where it is aligned. Others see it after [`strip::fence`].
    pub past: bool,
    /// Whether those of the chunk do.
    goes_past: bool,
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        let state = State {
            registers: std::mem::take(&mut self.registers),
            at: std::mem::take(&mut self.at),
            moves: std::mem::take(&mut self.moves),
            bench: std::mem::take(&mut self.bench),
            walker: std::mem::replace(&mut self.walker, Walker::new(0)),
        };
        self.tape.idle.give(state);
    }
}

impl<'t> Machine<'t> {
    /// A machine for this launch.
    pub fn new(tape: &'t Tape, Launch { operands, steps }: Launch<'t>) -> Self {
        let State { registers, at, moves, bench, mut walker } = tape.idle.take(|| State::new(tape));
        walker.point[tape.loops..].iter_mut().zip(steps).for_each(|(variable, &step)| *variable = step as i64);
        let mut machine = Self {
            tape,
            operands,
            registers,
            at,
            moves,
            bench,
            ahead: Vec::new(),
            sinks: Vec::new(),
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

    /// A register that the caller fills.
    pub fn given<T: Plain>(&mut self, register: usize) -> &mut [T] {
        for (value, _) in self.tape.given.iter().filter(|(_, given)| *given == register) {
            self.at[*value] = At::Register(register);
        }
        self.registers[register].elements_mut()
    }

    /// Has the next chunk find what was accumulated, all of it written, where it is.
    pub fn lend<T: Plain>(&mut self, sums: &[T]) {
        for (value, register) in &self.tape.given {
            match *register {
                ACCUMULATOR => self.at[*value] = At::Own(Place::elements(sums.as_ptr().cast_mut().cast())),
                register => self.registers[register].elements_mut::<u8>()[..sums.len()].fill(1),
            }
        }
    }

    /// The elements of a value in the last chunk, or those of its rows if it is of rows.
    pub fn value<T: Number>(&self, value: Value) -> &[T] {
        match self.at[value] {
            At::Register(register) | At::Uniform(register, _) => &self.registers[register].elements()[..self.length],
            At::OfRows(register) => &self.registers[register].elements()[..self.rows],
            At::Steady(register, start) => &self.registers[register].elements()[start..start + self.length],
            At::Operand(operand, start) => &self.operands[operand].after(start)[..self.length],
            // SAFETY: it holds the chunk's elements. Nobody writes there while the slice is in use: chains take places, not slices, and a step that stores
            // to a sink reads no part of it.
            At::Own(place) => unsafe { std::slice::from_raw_parts(place.start.cast(), self.length) },
        }
    }

    /// The bytes of all elements of a result in the last chunk.
    pub fn bytes(&mut self, result: Value) -> &[u8] {
        self.widen(result, self.length);
        typed!(self.tape.dtypes[result], T => bytes_of(self.value::<T>(result)))
    }

    /// The bytes of a result in the last chunk, of which each row's elements are the same, and how many elements there are for each row.
    pub fn bytes_of_rows(&mut self, result: Value, row_length: usize) -> (&[u8], usize) {
        let length = if self.extent(result) == self.length { row_length } else { 1 };
        self.widen(result, self.rows);
        (typed!(self.tape.dtypes[result], T => bytes_of(self.value::<T>(result))), length)
    }

    /// Evaluates `length` points, one of the tape's chunks or a part of it, from `start` on.
    pub fn run(&mut self, start: usize, length: usize) {
        self.run_into_sinks(start, length);
        let tape = self.tape;
        tape.results.iter().for_each(|result| self.widen(*result, length));
    }

    /// The same, but the results may still be of rows, and go straight to their sinks where they can.
    pub fn run_into_sinks(&mut self, start: usize, length: usize) {
        let tape = self.tape;
        self.length = length;
        self.rows = tape.row_length.map_or(1, |row| length / row.max(1)).max(1);
        self.ahead.clear();
        let whole_registers = self.rows == 1 || (length / self.rows).is_multiple_of(MOST_LANES);
        let is_aligned = |sink: &Sink| sink.place.start.addr().is_multiple_of(strip::ALIGNED);
        self.goes_past = self.past && whole_registers && self.sinks.iter().all(is_aligned);
        if !self.goes_past && tape.longest_chain.is_some() {
            let asked = self.sinks.iter().filter(|sink| !sink.is_read && sink.bytes == length * size_of::<f32>());
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
                // Nothing reads what went past the caches.
                let past = self.goes_past && number + 1 == tape.steps.len();
                self.run_chain(chain, tape.longest_chain <= Some(number), past);
                continue;
            }
            // Those before the last may be the same all over the chunk, which others want to know.
            // A load may be read where it lies, or be one element for all, unless it is of elements that lie apart.
            let makes_all = match &step.action {
                Action::Load(reader) => reader.dynamic.is_empty() && !matches!(reader.offset.steps[0], 0 | 1),
                _ => true,
            };
            let stores = number + 1 == tape.steps.len() && makes_all;
            let sink = self.sink(step.value).filter(|sink| stores && !sink.is_read);
            if let Some(&Sink { place, bytes, .. }) = sink {
                // SAFETY: it is memory of this thread's own while it is at the chunk, where only results are read that were stored there before.
                let out = unsafe { std::slice::from_raw_parts_mut(place.start, bytes) };
                let made = self.step(step, start, out);
                spread(tape.dtypes[step.value], out, made, length);
                self.at[step.value] = At::Own(place);
                continue;
            }
            if let Action::Select(c, a, b) = step.action
                && self.is_uniform(c)
            {
                // What is chosen for the whole chunk stays where it is: the tape keeps it there as long.
                let chosen = self.at[if self.value::<Bool>(c)[0].0 != 0 { a } else { b }];
                if !matches!(chosen, At::OfRows(_)) {
                    self.at[step.value] = chosen;
                    continue;
                }
            }
            // An instruction's own register is none of those that it reads.
            let mut register = std::mem::take(&mut self.registers[step.register]);
            self.at[step.value] = At::Register(step.register);
            let made = self.step(step, start, register.elements_mut());
            if made < length {
                let whole = At::Uniform(step.register, Spread::First);
                self.at[step.value] = if made == 1 { whole } else { self.whole_rows(step.register) };
            }
            self.registers[step.register] = register;
        }
    }

    /// Where a result goes at once.
    fn sink(&self, value: Value) -> Option<&Sink> {
        self.sinks.iter().find(|sink| sink.value == value)
    }

    /// Whether the elements of an output are in its sink, after the chunk.
    pub fn is_in_sink(&self, output: usize) -> bool {
        let is_there = |sink: &Sink| matches!(self.at[sink.value], At::Own(place) if place.start == sink.place.start);
        self.sinks.iter().any(|sink| sink.output == output && is_there(sink))
    }

    /// Runs one step into `out`, memory like its register. Returns how many elements that made: 1 where they are all the same.
    fn step(&mut self, step: &Step, start: usize, out: &mut [u8]) -> usize {
        let tape = self.tape;
        let dtype = tape.dtypes[step.value];
        let length = match &step.action {
            Action::Load(reader) => {
                let length = self.length;
                return typed!(dtype, T => self.load::<T>(reader, start, step.value, &mut elements_mut(out)[..length]));
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
            Action::Select(c, a, b) if self.is_uniform(*c) => {
                let chosen = if self.value::<Bool>(*c)[0].0 != 0 { *a } else { *b };
                let length = self.together(&[chosen]);
                typed!(dtype, T => elements_mut::<T>(out)[..length].copy_from_slice(&self.value(chosen)[..length]));
                return length;
            }
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
                lines.walk(&tape.space, &mut self.walker, start, length, |piece| {
                    vector::count(piece.values[0], lines.steps[0], &mut out[piece.at..][..piece.length]);
                });
            }
            Action::Unary(op, a) => typed!(dtype, T => vector::unary::<T>(*op, value!(a), elements_mut(out))),
            Action::Binary(op, a, b) => {
                typed!(dtype, T => vector::binary::<T>(*op, value!(a), value!(b), elements_mut(out)));
            }
            Action::Compare(op, a, b) => {
                typed!(tape.dtypes[*a], T => vector::compare::<T>(*op, value!(a), value!(b), elements_mut(out)));
            }
            Action::Select(c, a, b) => {
                typed!(dtype, T => vector::select::<T>(value!(c), value!(a), value!(b), elements_mut(out)));
            }
            Action::Cast(a) => typed!(tape.dtypes[*a], A => typed!(dtype, B => {
                vector::cast::<A, B>(value!(a), &mut elements_mut(out)[..length])
            })),
        }
        length
    }

    /// The aggregate of a value over each row of the chunk. Returns how many elements that made.
    fn statistic<T: Number>(&self, aggregation: Aggregation, a: Value, out: &mut [T]) -> usize {
        let identity = from_scalar(aggregation.identity(self.tape.dtypes[a]));
        let rows = self.value::<T>(a).chunks(self.length / self.rows);
        out.iter_mut().zip(rows).for_each(|(out, row)| *out = vector::fold(aggregation, identity, row, None));
        self.rows
    }

    /// Where the elements of a value are of which the register holds one for each row.
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

    /// How many elements a value has: one for the whole chunk, one for each row, or one for each point.
    fn extent(&self, value: Value) -> usize {
        match self.at[value] {
            At::Uniform(..) => 1,
            At::OfRows(_) => self.rows,
            At::Register(_) | At::Steady(..) | At::Operand(..) | At::Own(_) => self.length,
        }
    }

    /// So many elements of a value.
    fn distinct<T: Number>(&self, value: Value) -> &[T] {
        &self.value(value)[..self.extent(value)]
    }

    /// The number of elements to compute of what is made of `values`: as many as the one of most has, which are there of each to be read.
    fn together(&mut self, values: &[Value]) -> usize {
        let most = values.iter().map(|value| self.extent(*value)).max().unwrap_or(1);
        if most > 1 {
            values.iter().for_each(|&value| self.widen(value, most));
        }
        most
    }

    /// Fills in the elements of a value that is the same for the whole chunk, or of rows where `length` elements are wanted, more than those.
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

    /// An operation of f32 with one operand that is the same for the whole chunk, where there are loops for that.
    fn with_scalar(&self, op: BinaryOp, a: Value, b: Value, dtype: DType, out: &mut [u8]) -> Option<usize> {
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

    /// Runs a step over one period of its value, which is repeated as far as chunks reach.
    fn repeat(&mut self, step: &Step, period: usize) {
        let dtype = self.tape.dtypes[step.value];
        let size = dtype.size();
        let mut register = std::mem::take(&mut self.registers[step.register]);
        let bytes: &mut [u8] = register.elements_mut();
        self.rows = 1;
        for start in (0..period).step_by(CHUNK) {
            self.length = CHUNK.min(period - start);
            for (other, period) in self.tape.steady.iter().filter(|(other, _)| other.value < step.value) {
                self.at[other.value] = At::Steady(other.register, start % period);
            }
            self.at[step.value] = At::Register(step.register);
            let to = &mut bytes[start * size..];
            let made = self.step(step, start, to);
            spread(dtype, to, made, self.length);
            if let At::Operand(operand, place) = self.at[step.value] {
                let Operand { bytes: from, first, .. } = self.operands[operand];
                to[..self.length * size].copy_from_slice(&from[(place - first) * size..][..self.length * size]);
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

    /// The epilogue in one pass, where the tape has that form: of `given`, the accumulated values of at most [`CHUNK`] places from `place` on.
    pub fn run_fused(&self, fused: &Fused, place: usize, given: &[f32], out: &mut [f32]) {
        let n = given.len();
        let terms = fused.terms.map(|term| {
            term.map(|term| match term {
                Term::Kept { register, period } => &self.registers[register].elements()[place % period..][..n],
                Term::AtPlace(operand) => &self.operands[operand].after(place)[..n],
            })
        });
        fused.apply(given, terms, out);
    }
}

impl State {
    fn new(tape: &Tape) -> Self {
        let mut registers: Vec<Register> = tape.registers.iter().map(|&bytes| Register::zeroed(bytes)).collect();
        let mut at = vec![At::Register(0); tape.dtypes.len()];
        for &(value, register, scalar) in &tape.constants {
            typed!(scalar.dtype, T => registers[register].elements_mut::<T>().fill(from_scalar(scalar)));
            at[value] = At::Uniform(register, Spread::Kept);
        }
        for &(value, register) in &tape.given {
            at[value] = At::Register(register);
        }
        Self { registers, at, moves: Vec::new(), bench: Bench::default(), walker: Walker::new(tape.variables) }
    }
}

/// Each of the first `made` elements of type `dtype` as often as makes it `length`.
fn spread(dtype: DType, bytes: &mut [u8], made: usize, length: usize) {
    typed!(dtype, T => {
        let elements = &mut elements_mut::<T>(bytes)[..length];
        let row = length / made.max(1);
        // The last first: each is read before it is written over.
        for number in (0..if row > 1 { made } else { 0 }).rev() {
            let element = elements[number];
            elements[number * row..(number + 1) * row].fill(element);
        }
    });
}
