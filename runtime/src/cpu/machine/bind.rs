//! Chains of a tape, told where the values of the current chunk are.

use super::{At, Machine, Spread};
use crate::cpu::chain::{Chain, Move};
use crate::cpu::number::{Bool, Number};
use crate::cpu::strip::{self, Code, Op, Place, STRIP};
use crate::cpu::vector::{self, EVEN_DIVISORS};
use tile_compiler::graph::Aggregation;
use tile_compiler::scalar::Value;

/// Numbers for a strip.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Strip([f32; STRIP]);

/// What a chain's run needs beside registers.
#[derive(Default)]
pub struct Bench {
    ops: Vec<Op>,
    /// Values that are the same all over the chunk, and aggregates.
    strips: Vec<Strip>,
    /// Of each aggregate its value, what it is, its identity, and its strip.
    aggregates: Vec<(Value, Aggregation, f32, usize)>,
}

impl Bench {
    /// A strip of this number.
    fn strip(&mut self, x: f32) -> Place {
        self.strips.push(Strip([x; STRIP]));
        // The vector has the room, so that strips stay where they are.
        let start = self.strips.as_mut_ptr().wrapping_add(self.strips.len() - 1);
        Place { start: start.cast(), mask: 0 }
    }

    fn push(&mut self, code: Code, a: Place, b: Place) {
        self.ops.push(Op { code, a, b });
    }
}

impl Machine<'_> {
    /// Runs a chain over the chunk; the value `last` goes to `sink`, if there is one. `asks` for what is ahead, too.
    pub(super) fn run_chain(&mut self, chain: &Chain, asks: bool, last: Value, sink: Option<&mut [u8]>) {
        let mut bench = std::mem::take(&mut self.bench);
        bench.ops.clear();
        bench.strips.clear();
        bench.strips.reserve(2 * chain.moves.len());
        let sink = sink.map(|sink| {
            assert!(sink.len() >= self.length * self.tape.dtypes[last].size(), "a chunk reaches past its output");
            sink.as_mut_ptr()
        });
        let mut aggregates = std::mem::take(&mut bench.aggregates);
        if asks {
            self.ahead.drain(..).for_each(|(code, place)| bench.push(code, place, Place::NONE));
        }
        for step in &chain.moves {
            match *step {
                Move::Apply(code, values) => {
                    let [a, b] = values.map(|value| value.map_or(Place::NONE, |v| self.place::<f32>(v, &mut bench)));
                    bench.push(code, a, b);
                }
                Move::Divide(by) => {
                    let divisor = self.value_if_uniform(by).filter(|by| EVEN_DIVISORS.contains(&by.abs()));
                    let divisor = divisor.filter(|_| vector::is_fused());
                    let a = self.place::<f32>(by, &mut bench);
                    match divisor {
                        Some(divisor) => {
                            let reciprocal = bench.strip(1.0 / divisor);
                            bench.push(Code::DivEvenly, a, reciprocal);
                        }
                        None => bench.push(Code::Div, a, Place::NONE),
                    }
                }
                Move::Replace { condition, when, by } => {
                    if self.is_uniform(condition) {
                        if (self.value::<Bool>(condition)[0].0 != 0) == when {
                            let by = self.place::<f32>(by, &mut bench);
                            bench.push(Code::Take, by, Place::NONE);
                        }
                        continue;
                    }
                    let by = self.place::<f32>(by, &mut bench);
                    let condition = self.place::<Bool>(condition, &mut bench);
                    bench.push(if when { Code::ReplaceWhere } else { Code::ReplaceElse }, condition, by);
                }
                Move::Compare(code, with, value) => {
                    let with = self.place::<f32>(with, &mut bench);
                    let to = self.target(chain, value, sink.filter(|_| value == last));
                    bench.push(code, with, to);
                }
                Move::Keep(value) => {
                    let to = self.target(chain, value, sink.filter(|_| value == last));
                    bench.push(Code::Keep, to, Place::NONE);
                }
                Move::Aggregate(aggregation, value) => {
                    let (code, identity) = match aggregation {
                        Aggregation::Max => (Code::Greatest, f32::NEG_INFINITY),
                        Aggregation::Min => (Code::Least, f32::INFINITY),
                        _ => (Code::Sum, 0.0),
                    };
                    let sums = bench.strip(identity);
                    aggregates.push((value, aggregation, identity, bench.strips.len() - 1));
                    bench.push(code, sums, Place::NONE);
                }
            }
        }
        // SAFETY: the places hold the chunk's elements, as `place` and `target` make sure, or are strips. Registers and the sink overlap nothing else; a register that
        // is both read and written holds values of one chunk, element for element.
        unsafe { strip::run(&bench.ops, self.length) };
        for (value, aggregation, identity, number) in aggregates.drain(..) {
            let whole = vector::fold(aggregation, identity, &bench.strips[number].0, None);
            let register = chain.register(value);
            self.registers[register].elements_mut::<f32>()[0] = whole;
            self.at[value] = At::Uniform(register, Spread::First);
        }
        bench.aggregates = aggregates;
        self.bench = bench;
    }

    fn value_if_uniform(&self, value: Value) -> Option<f32> {
        self.is_uniform(value).then(|| self.value::<f32>(value)[0])
    }

    /// Where the elements of a value are, of type `T`: f32, or Bool if it is not uniform.
    fn place<T: Number>(&mut self, value: Value, bench: &mut Bench) -> Place {
        match self.at[value] {
            At::Uniform(register, Spread::All) if self.length >= STRIP => {
                Place { start: self.registers[register].start(), mask: 0 }
            }
            At::Uniform(..) => bench.strip(self.value::<f32>(value)[0]),
            At::Register(register) => Place { start: self.registers[register].start(), mask: usize::MAX },
            At::Steady(register, start) => {
                Place { start: self.registers[register].start().wrapping_add(start * size_of::<T>()), mask: usize::MAX }
            }
            At::Operand(..) => {
                let elements = self.value::<T>(value);
                Place { start: elements.as_ptr().cast_mut().cast(), mask: usize::MAX }
            }
        }
    }

    /// Where to store a value: in its register, or in the sink.
    fn target(&mut self, chain: &Chain, value: Value, sink: Option<*mut u8>) -> Place {
        if let Some(start) = sink {
            return Place { start, mask: usize::MAX };
        }
        let register = chain.register(value);
        self.at[value] = At::Register(register);
        Place { start: self.registers[register].start(), mask: usize::MAX }
    }
}
