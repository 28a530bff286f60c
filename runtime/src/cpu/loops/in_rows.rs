//! Reductions along rows that are read where they are, without a tape.

use super::job::parallel;
use super::reduction::{Reduction, Run};
use super::walk::Walker;
use crate::cpu::vector::number::{Bool, Number};
use bytemuck::Pod;
use std::ops::Range;
use tile_compiler::native::{ACCUMULATOR, Space, WRITTEN};

impl<T: Number> Run<'_, T> {
    /// Returns the elements of an operand and the position of the first, to be read where they are.
    /// `None` if an output overwrites the operand.
    pub fn plain<E: Pod>(&self, operand: usize) -> Option<(&[E], usize)> {
        let operand = &self.job.launch.operands[operand];
        operand.over().is_none().then(|| (operand.after(operand.first), operand.first))
    }

    /// Aggregates rows of elements that are read where they are, and finishes their places. `fold`
    /// computes the values of a chunk of places, or for the arg forms the positions. Its walker is
    /// at the first point of the reduction.
    pub fn in_rows(
        &self,
        places: Range<usize>,
        work: usize,
        fold: impl Fn((&Space, &mut Walker), Range<usize>, (&mut [T], &mut [i32])) + Sync,
    ) {
        let Reduction { body, places: space, points, .. } = self.reduction;
        let worker = || (self.job.finisher(), body.machine(self.job.launch));
        parallel(places, work, worker, |(epilogue, machine), places| {
            for chunk in self.job.epilogue.chunks(places) {
                machine.walker.locate(points, 0);
                let length = chunk.len();
                epilogue.given::<Bool>(WRITTEN)[..length].fill(Bool((points.size > 0) as u8));
                let results = if self.arg() {
                    (&mut [][..], &mut epilogue.given::<i32>(ACCUMULATOR)[..length])
                } else {
                    (&mut epilogue.given::<T>(ACCUMULATOR)[..length], &mut [][..])
                };
                fold((space, &mut machine.walker), chunk.clone(), results);
                // SAFETY: `parallel` gives each place to one thread.
                unsafe { self.job.finish(epilogue, chunk) };
            }
        });
    }
}
