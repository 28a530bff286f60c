//! Which points of an aggregation count: those where the guards hold and the body's second result,
//! if there is one, is true.

use super::machine::Machine;
use super::runner::Runner;
use super::walk::guards_hold;
use crate::cpu::vector::number::Bool;
use std::ops::Range;
use tile_compiler::native::{CHUNK, Lines};

/// The points of a chunk that count.
pub struct Counting<'a> {
    body: &'a Runner,
    guards: &'a Lines,
    counts: Vec<Bool>,
}

impl<'a> Counting<'a> {
    /// Prepares to count the points of chunks of an aggregation's `body`, under its guards.
    pub fn new(body: &'a Runner, guards: &'a Lines) -> Self {
        Self { body, guards, counts: vec![Bool(0); CHUNK] }
    }

    /// Returns which points of the last chunk, which `machine` has evaluated, count. `None` if all
    /// do.
    pub fn of(&mut self, machine: &mut Machine, chunk: &Range<usize>) -> Option<&[Bool]> {
        let Self { body, guards, .. } = *self;
        let all = guards_hold(&body.space, guards, &mut machine.walker, chunk, &mut self.counts);
        let counts = &mut self.counts[..chunk.len()];
        match (all, body.results.get(1)) {
            (true, None) => return None,
            (true, Some(&valid)) => counts.copy_from_slice(machine.value(valid)),
            (false, None) => {}
            (false, Some(&valid)) => {
                counts
                    .iter_mut()
                    .zip(machine.value::<Bool>(valid))
                    .for_each(|(c, valid)| c.0 &= (valid.0 != 0) as u8);
            }
        }
        Some(counts)
    }
}
