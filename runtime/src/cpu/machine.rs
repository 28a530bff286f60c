//! A thread at work on a [`Tape`].

mod bind;

use super::fused::{Fused, Term};
use super::memory::{Launch, Operand, Output, Plain, Register, bytes_of, elements, elements_mut, prefetch};
use super::number::{Bool, Number, from_scalar, typed};
use super::space::{Piece, Walker};
use super::strip::{Code, Place};
use super::tape::{Action, CHUNK, Reader, Step, Tape};
use super::vector;
use bind::Bench;
use tile_compiler::dtype::DType;
use tile_compiler::graph::Aggregation;
use tile_compiler::scalar::{BinaryOp, Value};

/// Where the elements of a value are for the current chunk.
#[derive(Clone, Copy)]
enum At {
    Register(usize),
    /// The same for the whole chunk: the first element of a register, the others of which are as well where it is a constant's.
    Uniform(usize, Spread),
    /// In a register, from this element on.
    Steady(usize, usize),
    /// In an operand, from this element on.
    Operand(usize, usize),
}

#[derive(Clone, Copy, PartialEq)]
enum Spread {
    First,
    All,
}

/// What a machine keeps when it is not in use.
pub struct State {
    registers: Vec<Register>,
    at: Vec<At>,
    addresses: Vec<i64>,
    bench: Bench,
    walker: Walker,
}

/// A thread's state while it runs a tape; for the next one, the tape keeps it.
pub struct Machine<'t> {
    tape: &'t Tape,
    operands: &'t [Operand<'t>],
    registers: Vec<Register>,
    at: Vec<At>,
    addresses: Vec<i64>,
    bench: Bench,
    /// What the next chain is to ask for.
    ahead: Vec<(Code, Place)>,
    /// The variables that the tape's space does not have are to be set in it.
    pub walker: Walker,
    length: usize,
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        let state = State {
            registers: std::mem::take(&mut self.registers),
            at: std::mem::take(&mut self.at),
            addresses: std::mem::take(&mut self.addresses),
            bench: std::mem::take(&mut self.bench),
            walker: std::mem::replace(&mut self.walker, Walker::new(0)),
        };
        if let Ok(mut idle) = self.tape.idle.lock() {
            idle.push(state);
        }
    }
}

impl<'t> Machine<'t> {
    /// A machine for this launch.
    pub fn new(tape: &'t Tape, Launch { operands, steps }: Launch<'t>) -> Self {
        let idle = tape.idle.lock().ok().and_then(|mut idle| idle.pop());
        let State { registers, at, addresses, bench, mut walker } = idle.unwrap_or_else(|| State::new(tape));
        walker.point[tape.loops..].iter_mut().zip(steps).for_each(|(variable, &step)| *variable = step as i64);
        let mut machine =
            Self { tape, operands, registers, at, addresses, bench, ahead: Vec::new(), walker, length: 0 };
        for (step, period) in &tape.steady {
            machine.repeat(step, *period);
        }
        machine
    }

    /// A register that the caller fills.
    pub fn given<T: Plain>(&mut self, register: usize) -> &mut [T] {
        self.registers[register].elements_mut()
    }

    /// The elements of a value in the last chunk.
    pub fn value<T: Number>(&self, value: Value) -> &[T] {
        match self.at[value] {
            At::Register(register) | At::Uniform(register, _) => &self.registers[register].elements()[..self.length],
            At::Steady(register, start) => &self.registers[register].elements()[start..start + self.length],
            At::Operand(operand, start) => &self.operands[operand].after(start)[..self.length],
        }
    }

    /// The bytes of the elements of a value in the last chunk.
    pub fn bytes(&self, value: Value) -> &[u8] {
        typed!(self.tape.dtypes[value], T => bytes_of(self.value::<T>(value)))
    }

    /// Evaluates `length` points, one of the tape's chunks or a part of it, from `start` on.
    pub fn run(&mut self, start: usize, length: usize) {
        self.run_into(start, length, None);
    }

    /// The same, but the first result may go straight to `sink`, the bytes of `length` elements of its type: true if it
    /// did; it is then in no register.
    pub fn run_into(&mut self, start: usize, length: usize, mut sink: Option<&mut [u8]>) -> bool {
        self.length = length;
        let tape = self.tape;
        self.ahead.clear();
        if let Some(sink) = &mut sink
            && tape.longest_chain.is_some()
            && sink.len() == length * size_of::<f32>()
        {
            self.ahead.push((Code::FetchToWrite, Place { start: sink.as_mut_ptr(), mask: usize::MAX }));
        }
        for (step, period) in &tape.steady {
            self.at[step.value] = match period {
                1 => At::Uniform(step.register, Spread::All),
                _ => At::Steady(step.register, start % period),
            };
        }
        for (number, step) in tape.steps.iter().enumerate() {
            let last = number + 1 == tape.steps.len() && step.value == tape.results[0];
            if let Action::Chain(chain) = &step.action {
                let to = if last { sink.take() } else { None };
                let is_sunk = to.is_some();
                self.run_chain(chain, tape.longest_chain <= Some(number), step.value, to);
                if is_sunk {
                    return true;
                }
                continue;
            }
            if let Action::Select(c, a, b) = step.action
                && self.is_uniform(c)
                && !(last && sink.is_some())
            {
                // What is chosen for the whole chunk stays where it is: the tape keeps it there as long.
                self.at[step.value] = self.at[if self.value::<Bool>(c)[0].0 != 0 { a } else { b }];
                continue;
            }
            if last
                && !matches!(step.action, Action::Load(_))
                && let Some(out) = sink.take()
            {
                if self.step(step, start, out) < length {
                    spread(tape.dtypes[step.value], out, length);
                }
                return true;
            }
            // An instruction's own register is none of those that it reads.
            let mut register = std::mem::take(&mut self.registers[step.register]);
            self.at[step.value] = At::Register(step.register);
            if self.step(step, start, register.elements_mut()) < length {
                self.at[step.value] = At::Uniform(step.register, Spread::First);
            }
            self.registers[step.register] = register;
        }
        for &result in &tape.results {
            self.spread(result);
        }
        false
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
                self.spread(*a);
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
                    for (i, out) in out[piece.at..][..piece.length].iter_mut().enumerate() {
                        *out = (piece.values[0] + i as i64 * lines.steps[0]) as i32;
                    }
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
        let row = self.tape.row_length.unwrap_or(self.length);
        let identity = from_scalar(aggregation.identity(self.tape.dtypes[a]));
        let rows = self.value::<T>(a).chunks(row).map(|row| vector::fold(aggregation, identity, row, None));
        if row == self.length {
            out[..1].iter_mut().zip(rows).for_each(|(out, whole)| *out = whole);
            return 1;
        }
        out.chunks_mut(row).zip(rows).for_each(|(out, whole)| out.fill(whole));
        self.length
    }

    fn is_uniform(&self, value: Value) -> bool {
        matches!(self.at[value], At::Uniform(..))
    }

    /// The number of elements to compute of what is made of `values`: 1 where each is the same for the whole chunk; else all, and all
    /// elements of each are there to be read.
    fn together(&mut self, values: &[Value]) -> usize {
        if values.iter().all(|&value| self.is_uniform(value)) {
            return 1;
        }
        values.iter().for_each(|&value| self.spread(value));
        self.length
    }

    /// Fills in the elements of a value that is the same for the whole chunk.
    fn spread(&mut self, value: Value) {
        if let At::Uniform(register, Spread::First) = self.at[value] {
            spread(self.tape.dtypes[value], self.registers[register].elements_mut(), self.length);
            self.at[value] = At::Uniform(register, Spread::All);
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
        let out = &mut elements_mut(out)[..self.length];
        vector::binary_scalar(op, self.value(vector), scalar, swapped, out).then_some(self.length)
    }

    /// Runs a step over one period of its value, which is repeated as far as chunks reach.
    fn repeat(&mut self, step: &Step, period: usize) {
        let dtype = self.tape.dtypes[step.value];
        let size = dtype.size();
        let mut register = std::mem::take(&mut self.registers[step.register]);
        let bytes: &mut [u8] = register.elements_mut();
        for start in (0..period).step_by(CHUNK) {
            self.length = CHUNK.min(period - start);
            for (other, period) in self.tape.steady.iter().filter(|(other, _)| other.value < step.value) {
                self.at[other.value] = At::Steady(other.register, start % period);
            }
            self.at[step.value] = At::Register(step.register);
            let to = &mut bytes[start * size..];
            let made = self.step(step, start, to);
            if made < self.length {
                spread(dtype, to, self.length);
            }
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

    /// Reads a chunk of what will be written over it: of the same places, as [`tile_compiler::nest::Nest::may_overwrite`] says.
    fn load_own<T: Number>(&mut self, reader: &Reader, output: &Output, start: usize, out: &mut [T]) -> usize {
        let lines = &reader.offset;
        let step = if lines.steps[0] == 1 { usize::MAX } else { 1 };
        lines.walk(&self.tape.space, &mut self.walker, start, out.len(), |piece| {
            for (number, out) in out[piece.at..][..piece.length].chunks_mut(step).enumerate() {
                let at = (piece.values[0] + number as i64 * lines.steps[0]) as usize - output.first;
                // SAFETY: these places are this thread's to compute, and it writes none of them before it has read them.
                let own = unsafe { output.bytes.slice(at * size_of::<T>()..(at + out.len()) * size_of::<T>()) };
                out.copy_from_slice(elements(own));
            }
        });
        out.len()
    }

    /// Reads a chunk: in place if its elements follow each other, else into `out`. Returns how many elements that made.
    fn load<T: Number>(&mut self, reader: &Reader, start: usize, value: Value, out: &mut [T]) -> usize {
        let (space, length) = (&self.tape.space, out.len());
        let operand = self.operands[reader.operand];
        if let Some(output) = operand.over {
            return self.load_own(reader, output, start, out);
        }
        let data: &[T] = elements(operand.bytes);
        let first = operand.first as i64;
        let whole = reader.conditions.all_hold(space, &mut self.walker, start, length);
        let lines = if whole { &reader.offset } else { &reader.guarded };
        let step = lines.steps[0];
        let in_one_piece = lines.run - start % lines.run >= length && whole && reader.dynamic.is_empty();
        // Where every condition holds.
        let holds = |piece: &Piece| piece.where_at_least_zero(1, &lines.steps);
        if in_one_piece && matches!(step, 0 | 1) {
            let mut place = 0;
            lines.walk(space, &mut self.walker, start, length, |piece| place = piece.values[0] as usize);
            let local = place - operand.first;
            if step == 0 {
                out[0] = data[local];
                return 1;
            }
            let next = data.get(local + length..(local + 2 * length).min(data.len())).unwrap_or_default();
            // A chain asks for one element after the other, as it goes.
            if self.tape.longest_chain.is_some() && next.len() == length && size_of::<T>() == size_of::<f32>() {
                let start = next.as_ptr().cast_mut().cast();
                self.ahead.push((Code::Fetch, Place { start, mask: usize::MAX }));
            } else {
                prefetch(next);
            }
            self.at[value] = At::Operand(reader.operand, place);
            return length;
        }
        if reader.dynamic.is_empty() && whole {
            lines.walk_tables(space, &mut self.walker, start, length, usize::MAX, |piece, pieces| {
                let out = &mut out[piece.at..][..pieces * piece.length];
                vector::gather_table(data, piece.values[0] - first, [lines.beside[0], step], piece.length, out);
            });
            return length;
        }
        if reader.dynamic.is_empty() {
            lines.walk(space, &mut self.walker, start, length, |piece| {
                let part = holds(&piece);
                let out = &mut out[piece.at..][..piece.length];
                if part.len() < out.len() {
                    out.fill(T::default());
                }
                if !part.is_empty() {
                    let from = piece.values[0] + part.start as i64 * step - first;
                    vector::gather_strided(data, from, step, &mut out[part]);
                }
            });
            return length;
        }
        // Addresses first; -1 where nothing is read.
        let mut addresses = std::mem::take(&mut self.addresses);
        addresses.clear();
        addresses.resize(length, -1);
        lines.walk(space, &mut self.walker, start, length, |piece| {
            for i in holds(&piece) {
                addresses[piece.at + i] = piece.values[0] + i as i64 * step - first;
            }
        });
        for (index, dtype, stride) in &reader.dynamic {
            self.spread(*index);
            typed!(*dtype, D => {
                for (address, index) in addresses.iter_mut().zip(self.value::<D>(*index)).filter(|(a, _)| **a != -1) {
                    *address += index.to_i64() * stride;
                }
            });
        }
        for (out, address) in out.iter_mut().zip(&addresses) {
            *out = usize::try_from(*address).ok().and_then(|a| data.get(a)).copied().unwrap_or_default();
        }
        self.addresses = addresses;
        length
    }
}

impl State {
    fn new(tape: &Tape) -> Self {
        let mut registers: Vec<Register> = tape.registers.iter().map(|&bytes| Register::zeroed(bytes)).collect();
        let mut at = vec![At::Register(0); tape.dtypes.len()];
        for &(value, register, scalar) in &tape.constants {
            typed!(scalar.dtype, T => registers[register].elements_mut::<T>().fill(from_scalar(scalar)));
            at[value] = At::Uniform(register, Spread::All);
        }
        for &(value, register) in &tape.given {
            at[value] = At::Register(register);
        }
        Self { registers, at, addresses: Vec::new(), bench: Bench::default(), walker: Walker::new(tape.variables) }
    }
}

/// The first element of type `dtype` in each of `length` places.
fn spread(dtype: DType, bytes: &mut [u8], length: usize) {
    typed!(dtype, T => {
        let elements = &mut elements_mut::<T>(bytes)[..length];
        elements.fill(elements[0]);
    });
}
