//! Binding of a tape's chains to the places of the current chunk's values.

use super::{At, Machine, Sink, Spread};
use crate::cpu::vector;
use crate::cpu::vector::lanes::MOST_LANES;
use crate::cpu::vector::number::{Bool, Number};
use crate::cpu::vector::strip::{self, ChunkPointer, Code, Op};
use tile_compiler::dtype::DType;
use tile_compiler::graph::Aggregation;
use tile_compiler::native::{Chain, Code as ChainCode, Move};
use tile_compiler::scalar::Value;

/// The numbers of a register.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Lane([f32; MOST_LANES]);

/// The operations of a chain's run, and memory for them.
#[derive(Default)]
pub struct Bench {
    ops: Vec<Op>,
    /// Row values, each repeated over a register, and registers for aggregates. Room for the whole
    /// chain is reserved first, so that they do not move.
    memory: Vec<Lane>,
}

impl Bench {
    /// Adds a register filled with each of these numbers, one number for each row.
    fn rows(&mut self, numbers: impl ExactSizeIterator<Item = f32>) -> ChunkPointer {
        let row = if numbers.len() > 1 { size_of::<Lane>() } else { 0 };
        let first = self.memory.len();
        self.memory.extend(numbers.map(|x| Lane([x; MOST_LANES])));
        ChunkPointer::rows(self.memory.as_mut_ptr().wrapping_add(first).cast(), row)
    }

    /// Adds a register.
    fn register(&mut self) -> ChunkPointer {
        let first = self.memory.len();
        self.memory.push(Lane([0.0; MOST_LANES]));
        ChunkPointer::rows(self.memory.as_mut_ptr().wrapping_add(first).cast(), 0)
    }

    fn push(&mut self, code: Code, a: ChunkPointer, b: ChunkPointer) {
        self.ops.push(Op::new(code, a, b));
    }

    /// Stores the current `x`.
    fn keep(&mut self, to: ChunkPointer) {
        match self.ops.last_mut() {
            Some(last) if last.keep.is_none() => last.keep = to,
            _ => self.ops.push(Op {
                keep: to,
                ..Op::new(Code::Nothing, ChunkPointer::NONE, ChunkPointer::NONE)
            }),
        }
    }
}

impl Machine<'_> {
    /// Runs a chain over the chunk. Results go to their sinks. With `asks`, the chain issues the
    /// pending prefetches. With `past`, it uses non-temporal stores: sinks must be aligned to
    /// [`strip::ALIGNED`], and a row must have whole registers.
    pub(super) fn run_chain(&mut self, chain: &Chain, asks: bool, past: bool) {
        let mut bench = std::mem::take(&mut self.bench);
        bench.ops.clear();
        bench.memory.clear();
        // Goes row by row only if a value has one element for each row.
        let is_of_rows = |value: Value| matches!(self.at[value], At::OfRows(_));
        let by_row = |step: &Move| match step {
            Move::Aggregate(..) => true,
            // The condition is expanded to all points.
            Move::Replace { by, .. } => is_of_rows(*by),
            _ => step.reads().any(is_of_rows),
        };
        let rows =
            if is_of_rows(chain.from) || chain.moves.iter().any(by_row) { self.rows } else { 1 };
        // A move has at most two places here. Their addresses are handed out while more are added.
        bench.memory.reserve((1 + chain.moves.len() * 2) * self.rows);
        let (take, first) = self.taken(chain.from, &mut bench);
        // Prefetching costs a short chain more than it gains, except where results bypass the
        // caches because they are larger.
        if asks && (self.past || !chain.is_short()) {
            self.ahead
                .drain(..)
                .for_each(|(code, place)| bench.push(code, place, ChunkPointer::NONE));
        }
        let from = match take {
            Code::Take => first,
            _ => {
                bench.push(take, first, ChunkPointer::NONE);
                ChunkPointer::NONE
            }
        };
        for step in &chain.moves {
            self.bind(chain, *step, past, &mut bench);
        }
        let is_stored =
            |op: &Op| op.code == Code::Nothing && op.keep.start == from.start && from.row < 0;
        if bench.ops.iter().all(is_stored) {
            self.bench = bench;
            return;
        }
        // SAFETY: the contract of `strip::run` holds:
        // - Elementwise places: `place` and `target` return memory that holds the chunk's elements.
        // - Row operands: registers in the bench, one for each row, or one of a register that
        //   belongs to that value alone (`Spread::Kept`). The chain writes neither.
        // - Aggregates: a register in the bench, and one f32 for each row in the value's register.
        //   Both are aligned.
        // - The bench has room reserved for the whole chain, so that its registers do not move.
        // - Aliasing: registers and sinks overlap only operands that are read in place, before they
        //   are overwritten. A register or sink that is both read and written has the same elements
        //   for both, or the rows' aggregates.
        // - Non-temporal stores: sinks are aligned and rows have whole registers, as the caller of
        //   `run_chain` checks, and the chain is the last of the chunk.
        unsafe { strip::run(from, &mut bench.ops, self.length / rows, rows) };
        self.bench = bench;
    }

    /// Adds the operations of one step of a chain.
    fn bind(&mut self, chain: &Chain, step: Move, past: bool, bench: &mut Bench) {
        match step {
            Move::Apply(ChainCode::Take, [Some(value), _]) => {
                let (take, place) = self.taken(value, bench);
                bench.push(take, place, ChunkPointer::NONE);
            }
            Move::Apply(code, values) => {
                let [a, b] = values
                    .map(|value| value.map_or(ChunkPointer::NONE, |v| self.place::<f32>(v, bench)));
                bench.push(code.into(), a, b);
            }
            Move::Divide(by) => match self.reciprocals(by, bench) {
                Some([high, low]) => bench.push(Code::DivEvenly, high, low),
                None => {
                    let a = self.place::<f32>(by, bench);
                    bench.push(Code::Div, a, ChunkPointer::NONE);
                }
            },
            Move::Replace { condition, when, by } => {
                if let Some(holds) = self.decided(condition) {
                    if holds == when {
                        let by = self.place::<f32>(by, bench);
                        bench.push(Code::Take, by, ChunkPointer::NONE);
                    }
                    return;
                }
                self.widen(condition, self.length);
                let by = self.place::<f32>(by, bench);
                let condition = self.place::<Bool>(condition, bench);
                bench.push(
                    if when { Code::ReplaceWhere } else { Code::ReplaceElse },
                    condition,
                    by,
                );
            }
            Move::Compare(relation, with, value) => {
                let is_word = self.tape.dtypes[with] == DType::I32;
                let code = if is_word { Code::of_words(relation) } else { relation.into() };
                let with = self.place::<f32>(with, bench);
                let to = self.target(chain, value);
                bench.push(code, with, to);
            }
            Move::Keep(value) => {
                let past = past && self.sink(value).is_some();
                let to = self.target(chain, value);
                if self.tape.dtypes[value].size() == 1 {
                    bench.push(Code::KeepBytes, to, ChunkPointer::NONE)
                } else if past {
                    bench.push(Code::KeepPast, to, ChunkPointer::NONE)
                } else {
                    bench.keep(to)
                }
            }
            Move::Aggregate(aggregation, value) => {
                let code = match aggregation {
                    Aggregation::Max => Code::Greatest,
                    Aggregation::Min => Code::Least,
                    _ => Code::Sum,
                };
                let register = chain.register(value);
                self.at[value] = self.whole_rows(register);
                let to = ChunkPointer::rows(self.registers[register].start(), size_of::<f32>());
                let sums = bench.register();
                bench.push(code, sums, to);
            }
        }
    }

    /// Returns the reciprocals, in two parts, of a divisor that is the same all over a row, if
    /// division by them is as accurate.
    fn reciprocals(&self, by: Value, bench: &mut Bench) -> Option<[ChunkPointer; 2]> {
        if !matches!(self.at[by], At::Uniform(..) | At::OfRows(_)) || !vector::is_fused() {
            return None;
        }
        let by = self.distinct::<f32>(by);
        let first = bench.memory.len();
        for by in by {
            let Some(parts) = vector::reciprocal(*by) else {
                bench.memory.truncate(first);
                return None;
            };
            bench.memory.extend(parts.map(|x| Lane([x; MOST_LANES])));
        }
        let row = if by.len() > 1 { 2 * size_of::<Lane>() } else { 0 };
        let start = bench.memory.as_mut_ptr();
        Some([0, 1].map(|part| ChunkPointer::rows(start.wrapping_add(first + part).cast(), row)))
    }

    /// Returns the operation that makes a value the current one, and the value's place.
    fn taken(&mut self, value: Value, bench: &mut Bench) -> (Code, ChunkPointer) {
        let dtype = self.tape.dtypes[value];
        if !matches!(dtype, DType::I8 | DType::U8) {
            return (Code::Take, self.place::<f32>(value, bench));
        }
        let signed = dtype == DType::I8;
        if matches!(self.at[value], At::Uniform(..) | At::OfRows(_)) {
            let word = |byte: &u8| if signed { *byte as i8 as u32 } else { u32::from(*byte) };
            let words = self.distinct::<u8>(value).iter().map(word);
            return (Code::Take, bench.rows(words.map(f32::from_bits)));
        }
        let take = if signed { Code::TakeSignedBytes } else { Code::TakeUnsignedBytes };
        (take, self.place::<u8>(value, bench))
    }

    /// Returns the place of a value with elements of type `T`: f32, or bytes if it is not the same
    /// all over a row.
    fn place<T: Number>(&mut self, value: Value, bench: &mut Bench) -> ChunkPointer {
        match self.at[value] {
            // Any other register may be reused within the chain after the last read of its value.
            At::Uniform(register, Spread::Kept) if self.length >= MOST_LANES => {
                ChunkPointer::rows(self.registers[register].start(), 0)
            }
            At::Uniform(..) | At::OfRows(_) => {
                bench.rows(self.distinct::<f32>(value).iter().copied())
            }
            At::Register(register) => ChunkPointer::elements(self.registers[register].start()),
            At::Steady(register, start) => ChunkPointer::elements(
                self.registers[register].start().wrapping_add(start * size_of::<T>()),
            ),
            At::Operand(..) => {
                ChunkPointer::elements(self.value::<T>(value).as_ptr().cast_mut().cast())
            }
            At::Own(place) => place,
        }
    }

    /// Returns the place to store a value: its sink, a sink that lodges it, or its register.
    fn target(&mut self, chain: &Chain, value: Value) -> ChunkPointer {
        if let Some(&Sink { place, bytes, .. }) = self.sink(value).or_else(|| self.lodging(value)) {
            assert!(
                bytes >= self.length * self.tape.dtypes[value].size(),
                "a chunk reaches past its output"
            );
            self.at[value] = At::Own(place);
            return place;
        }
        let register = chain.register(value);
        self.at[value] = At::Register(register);
        ChunkPointer::elements(self.registers[register].start())
    }

    /// Returns the sink of a result whose memory may hold this value until the result is stored.
    pub(super) fn lodging(&self, value: Value) -> Option<&Sink> {
        let (_, result) = self.tape.lodgers.iter().find(|(lodger, _)| *lodger == value)?;
        let bytes = self.length * self.tape.dtypes[value].size();
        self.sink(*result).filter(|sink| !self.goes_past && !sink.is_read && sink.bytes == bytes)
    }
}
