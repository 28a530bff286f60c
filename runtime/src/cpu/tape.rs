//! A scalar program made ready to run over chunks of points: one vector operation an instruction, each over all points of the chunk.
//!
//! Loads whose elements follow each other are read in place; the values of the other instructions lie in registers, buffers of
//! [`CHUNK`] elements that are few enough (a register is reused after its last reader) to stay in L1.

use super::loops::Job;
use super::memory::{Plain, Register, bytes_of, elements, elements_mut, prefetch};
use super::number::{Bool, Number, from_scalar, typed};
use super::space::{Lines, Piece, Space, Walker};
use super::vector;
use tile_compiler::affine::Affine;
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::nest::{Leaf, Load, Nest};
use tile_compiler::scalar::{BinaryOp, Inst, Program, UnaryOp, Value};

/// Most points evaluated at once.
pub const CHUNK: usize = 1024;

/// The register of [`Leaf::Accumulator`], which the caller fills, of CHUNK elements.
pub const ACCUMULATOR: usize = 0;
/// The register of [`Leaf::Written`], which the caller fills, of CHUNK bools.
pub const WRITTEN: usize = 1;

/// A load, as lines through the space.
struct Reader {
    operand: usize,
    offset: Lines,
    /// What must be at least 0.
    conditions: Lines,
    /// The offset and the conditions together.
    guarded: Lines,
    dynamic: Vec<(Value, DType, i64)>,
}

enum Action {
    Load(Box<Reader>),
    Index(Box<Lines>),
    Unary(UnaryOp, Value),
    Binary(BinaryOp, Value, Value),
    /// Of f32, with a constant: the right operand, or the left if swapped.
    BinaryScalar {
        op: BinaryOp,
        a: Value,
        b: f32,
        swapped: bool,
    },
    Compare(BinaryOp, Value, Value),
    Select(Value, Value, Value),
    Cast(Value),
}

struct Step {
    value: Value,
    register: usize,
    action: Action,
}

/// A program over one space of a nest.
pub struct Tape<'n> {
    nest: &'n Nest,
    space: Space,
    steps: Vec<Step>,
    dtypes: Vec<DType>,
    registers: usize,
    /// Registers that hold one scalar for good.
    constants: Vec<(Value, usize, Scalar)>,
    /// Values that the caller puts into registers.
    given: Vec<(Value, usize)>,
    /// The program's results, in the order asked for.
    pub results: Vec<Value>,
}

impl<'n> Tape<'n> {
    /// What of `program`, the nest's body or epilogue, `results` need. Loads are executed only where all of `guards` are at least 0 too.
    pub fn new(nest: &'n Nest, program: &Program<Leaf>, results: &[Value], space: Space, guards: &[Affine]) -> Self {
        let count = program.insts.len();
        let mut last_use: Vec<Option<usize>> = vec![None; count];
        results.iter().for_each(|&r| last_use[r] = Some(usize::MAX));
        let insts: Vec<Inst<Leaf>> = (0..count).map(|value| effective(program, value)).collect();
        for value in (0..count).rev() {
            if last_use[value].is_some() {
                reads(&insts[value]).for_each(|read| last_use[read] = last_use[read].max(Some(value)));
            }
        }
        let mut tape = Self {
            nest,
            dtypes: program.insts.iter().map(|(_, dtype)| *dtype).collect(),
            steps: Vec::new(),
            registers: 2,
            constants: Vec::new(),
            given: Vec::new(),
            results: results.to_vec(),
            space,
        };
        let mut free: Vec<usize> = Vec::new();
        let mut register_of = vec![usize::MAX; count];
        for (value, inst) in insts.iter().enumerate().filter(|(v, _)| last_use[*v].is_some()) {
            let action = match inst {
                Inst::Const(scalar) => {
                    tape.constants.push((value, tape.registers, *scalar));
                    tape.registers += 1;
                    continue;
                }
                Inst::Leaf(Leaf::Accumulator) => {
                    tape.given.push((value, ACCUMULATOR));
                    continue;
                }
                Inst::Leaf(Leaf::Written) => {
                    tape.given.push((value, WRITTEN));
                    continue;
                }
                Inst::Leaf(Leaf::Load(load)) => Action::Load(Box::new(tape.reader(load, guards))),
                Inst::Leaf(Leaf::Index(affine)) => Action::Index(Box::new(Lines::new(nest, &tape.space, [affine]))),
                Inst::Unary(op, a) => Action::Unary(*op, *a),
                Inst::Binary(op, a, b) if op.is_comparison() => Action::Compare(*op, *a, *b),
                Inst::Binary(op, a, b) => match (constant(program, *a), constant(program, *b)) {
                    (None, Some(b)) => Action::BinaryScalar { op: *op, a: *a, b, swapped: false },
                    (Some(a), None) => Action::BinaryScalar { op: *op, a: *b, b: a, swapped: true },
                    _ => Action::Binary(*op, *a, *b),
                },
                Inst::Select(c, a, b) => Action::Select(*c, *a, *b),
                Inst::Cast(a) => Action::Cast(*a),
            };
            let register = free.pop().unwrap_or_else(|| {
                tape.registers += 1;
                tape.registers - 1
            });
            register_of[value] = register;
            let mut done: Vec<Value> = reads(inst).filter(|&read| last_use[read] == Some(value)).collect();
            done.sort_unstable();
            done.dedup();
            free.extend(done.into_iter().map(|read| register_of[read]).filter(|r| *r != usize::MAX));
            tape.steps.push(Step { value, register, action });
        }
        tape
    }

    fn reader(&self, load: &Load, guards: &[Affine]) -> Reader {
        let conditions = || guards.iter().chain(load.when.iter().filter(|when| !guards.contains(when)));
        Reader {
            operand: load.operand,
            offset: Lines::new(self.nest, &self.space, [&load.offset]),
            conditions: Lines::new(self.nest, &self.space, conditions()),
            guarded: Lines::new(self.nest, &self.space, std::iter::once(&load.offset).chain(conditions())),
            dynamic: load.dynamic.iter().map(|&(value, stride)| (value, self.dtypes[value], stride)).collect(),
        }
    }

    /// The type of a value.
    pub fn dtype(&self, value: Value) -> DType {
        self.dtypes[value]
    }

    /// Instructions to run, for estimates of work.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// The number of points of its space.
    pub fn points(&self) -> usize {
        self.space.size
    }

    /// Whether a load finds its elements more or less side by side: for each, the elements between neighbours and the length of a piece.
    pub fn strides(&self) -> impl Iterator<Item = (i64, usize)> + '_ {
        self.steps.iter().filter_map(|step| match &step.action {
            Action::Load(reader) => Some((reader.offset.steps[0], reader.offset.run)),
            _ => None,
        })
    }
}

/// An instruction, or a cheaper one that computes the same: a choice of the greater or the lesser of what it compares.
fn effective(program: &Program<Leaf>, value: Value) -> Inst<Leaf> {
    let inst = &program.insts[value].0;
    if let Inst::Select(condition, then, otherwise) = *inst
        && let Inst::Binary(op @ (BinaryOp::Lt | BinaryOp::Gt), a, b) = program.insts[condition].0
    {
        // `a < b`, either way round.
        let (a, b) = if op == BinaryOp::Lt { (a, b) } else { (b, a) };
        if (then, otherwise) == (b, a) {
            return Inst::Binary(BinaryOp::Max, a, b);
        }
        if (then, otherwise) == (a, b) {
            return Inst::Binary(BinaryOp::Min, b, a);
        }
    }
    inst.clone()
}

/// The constant that an f32 value is, if it is one.
fn constant(program: &Program<Leaf>, value: Value) -> Option<f32> {
    match program.insts[value].0 {
        Inst::Const(scalar) if scalar.dtype == DType::F32 => Some(scalar.to_f64() as f32),
        _ => None,
    }
}

/// The values that an instruction reads, those in a load's address included.
fn reads(inst: &Inst<Leaf>) -> impl Iterator<Item = Value> + '_ {
    let dynamic = match inst {
        Inst::Leaf(Leaf::Load(load)) => load.dynamic.as_slice(),
        _ => &[],
    };
    inst.operands().into_iter().chain(dynamic.iter().map(|(value, _)| *value))
}

/// Where the elements of a value are for the current chunk.
#[derive(Clone, Copy)]
enum At {
    Register(usize),
    /// In an operand, from this element on.
    Operand(usize, usize),
}

/// A thread's state while it runs a tape.
pub struct Machine<'t, 'n> {
    tape: &'t Tape<'n>,
    operands: &'t [&'t [u8]],
    registers: Vec<Register>,
    at: Vec<At>,
    addresses: Vec<i64>,
    /// The variables that the tape's space does not have are to be set in it.
    pub walker: Walker,
    length: usize,
}

impl<'t, 'n> Machine<'t, 'n> {
    /// A machine over the job's operands.
    pub fn new(tape: &'t Tape<'n>, job: &Job<'t>) -> Self {
        let mut registers = vec![Register::zeroed(CHUNK * 8); tape.registers];
        let mut at = vec![At::Register(0); tape.dtypes.len()];
        for &(value, register, scalar) in &tape.constants {
            typed!(scalar.dtype, T => registers[register].elements_mut::<T>().fill(from_scalar(scalar)));
            at[value] = At::Register(register);
        }
        for &(value, register) in &tape.given {
            at[value] = At::Register(register);
        }
        let walker = Walker::new(tape.nest, job.steps);
        Self { tape, operands: job.operands, registers, at, addresses: Vec::new(), walker, length: 0 }
    }

    /// A register that the caller fills.
    pub fn given<T: Plain>(&mut self, register: usize) -> &mut [T] {
        self.registers[register].elements_mut()
    }

    /// The elements of a value in the last chunk.
    pub fn value<T: Number>(&self, value: Value) -> &[T] {
        match self.at[value] {
            At::Register(register) => &self.registers[register].elements()[..self.length],
            At::Operand(operand, start) => &elements(self.operands[operand])[start..start + self.length],
        }
    }

    /// The bytes of the elements of a value in the last chunk.
    pub fn bytes(&self, value: Value) -> &[u8] {
        typed!(self.tape.dtypes[value], T => bytes_of(self.value::<T>(value)))
    }

    /// Evaluates `length` (at most [`CHUNK`]) points from `start` on.
    pub fn run(&mut self, start: usize, length: usize) {
        self.run_into(start, length, None);
    }

    /// The same, but the first result may go straight to `sink`, the bytes of `length` elements of its type: true if it
    /// did; it is then in no register.
    pub fn run_into(&mut self, start: usize, length: usize, mut sink: Option<&mut [u8]>) -> bool {
        self.length = length;
        let tape = self.tape;
        for (number, step) in tape.steps.iter().enumerate() {
            let last = number + 1 == tape.steps.len() && step.value == tape.results[0];
            let direct = if last && !matches!(step.action, Action::Load(_)) { sink.take() } else { None };
            let done = direct.is_some();
            // An instruction's own register is none of those that it reads.
            let mut register = std::mem::take(&mut self.registers[step.register]);
            let out = direct.unwrap_or_else(|| register.elements_mut());
            self.at[step.value] = At::Register(step.register);
            let dtype = tape.dtypes[step.value];
            match &step.action {
                Action::Load(reader) => {
                    typed!(dtype, T => self.load::<T>(reader, start, step.value, &mut elements_mut(out)[..length]));
                }
                Action::Index(lines) => {
                    let out = &mut elements_mut::<i32>(out)[..length];
                    lines.walk(&tape.space, &mut self.walker, start, length, |piece| {
                        for (i, out) in out[piece.at..][..piece.length].iter_mut().enumerate() {
                            *out = (piece.values[0] + i as i64 * lines.steps[0]) as i32;
                        }
                    });
                }
                Action::Unary(op, a) => {
                    typed!(dtype, T => vector::unary(*op, self.value::<T>(*a), &mut elements_mut(out)[..length]));
                }
                Action::Binary(op, a, b) => typed!(dtype, T => {
                    vector::binary(*op, self.value::<T>(*a), self.value::<T>(*b), &mut elements_mut(out)[..length])
                }),
                Action::BinaryScalar { op, a, b, swapped } => {
                    let a = self.value::<f32>(*a);
                    let out = &mut elements_mut(out)[..length];
                    if !vector::binary_scalar(*op, a, *b, *swapped, out) {
                        let b = [*b; CHUNK];
                        let (a, b) = if *swapped { (&b[..length], a) } else { (a, &b[..length]) };
                        vector::binary(*op, a, b, out);
                    }
                }
                Action::Compare(op, a, b) => typed!(tape.dtypes[*a], T => {
                    vector::compare(*op, self.value::<T>(*a), self.value::<T>(*b), &mut elements_mut(out)[..length])
                }),
                Action::Select(c, a, b) => typed!(dtype, T => {
                    let (a, b) = (self.value::<T>(*a), self.value::<T>(*b));
                    vector::select(self.value::<Bool>(*c), a, b, &mut elements_mut(out)[..length])
                }),
                Action::Cast(a) => typed!(tape.dtypes[*a], A => typed!(dtype, B => {
                    vector::cast::<A, B>(self.value::<A>(*a), &mut elements_mut(out)[..length])
                })),
            }
            self.registers[step.register] = register;
            if done {
                return true;
            }
        }
        false
    }

    /// Reads a chunk: in place if its elements follow each other, else into `out`.
    fn load<T: Number>(&mut self, reader: &Reader, start: usize, value: Value, out: &mut [T]) {
        let (space, length) = (&self.tape.space, out.len());
        let data: &[T] = elements(self.operands[reader.operand]);
        let whole = reader.conditions.all_hold(space, &mut self.walker, start, length);
        let lines = if whole { &reader.offset } else { &reader.guarded };
        let step = lines.steps[0];
        let in_one_piece = lines.run - start % lines.run >= length;
        let in_place = whole && step == 1 && in_one_piece && reader.dynamic.is_empty();
        let mut place = None;
        // Where every condition holds.
        let holds = |piece: &Piece| piece.where_at_least_zero(1, &lines.steps);
        if reader.dynamic.is_empty() {
            lines.walk(space, &mut self.walker, start, length, |piece| {
                if in_place {
                    place = usize::try_from(piece.values[0]).ok();
                    return;
                }
                let part = holds(&piece);
                let out = &mut out[piece.at..][..piece.length];
                if part.len() < out.len() {
                    out.fill(T::default());
                }
                if !part.is_empty() {
                    let first = piece.values[0] + part.start as i64 * step;
                    vector::gather_strided(data, first, step, &mut out[part]);
                }
            });
        } else {
            // Addresses first; -1 where nothing is read.
            let mut addresses = std::mem::take(&mut self.addresses);
            addresses.clear();
            addresses.resize(length, -1);
            lines.walk(space, &mut self.walker, start, length, |piece| {
                for i in holds(&piece) {
                    let mut address = piece.values[0] + i as i64 * step;
                    let at = piece.at + i;
                    for (index, dtype, stride) in &reader.dynamic {
                        let index = match self.at[*index] {
                            At::Register(register) => {
                                typed!(*dtype, D => self.registers[register].elements::<D>()[at].to_i64())
                            }
                            At::Operand(operand, start) => {
                                typed!(*dtype, D => elements::<D>(self.operands[operand])[start + at].to_i64())
                            }
                        };
                        address += index * stride;
                    }
                    addresses[at] = address;
                }
            });
            for (out, address) in out.iter_mut().zip(&addresses) {
                *out = usize::try_from(*address).ok().and_then(|a| data.get(a)).copied().unwrap_or_default();
            }
            self.addresses = addresses;
        }
        if let Some(start) = place {
            prefetch(data.get(start + length..(start + 2 * length).min(data.len())).unwrap_or_default());
            self.at[value] = At::Operand(reader.operand, start);
        }
    }
}
