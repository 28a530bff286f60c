//! The launches of a run: its steps in order, with the steps of a loop once for each turn.

use std::ops::Range;

use super::{BufferId, Carry, Loop, Plan, Step};
use crate::dense::Dense;

/// A step at one turn of each loop around it.
pub struct Launch<'a> {
    /// The number of the step.
    pub number: usize,
    /// The step.
    pub step: &'a Step,
    /// The turns of the loops around the step, counted from 0, with the outermost loop first.
    pub turns: &'a [usize],
    /// The buffers of the step's operands and outputs. Carried buffers are resolved to the buffers
    /// that hold the value at this turn.
    pub operands: &'a [BufferId],
    /// The buffers of its outputs at this turn.
    pub outputs: &'a [BufferId],
}

/// The position in a run.
struct Walk<'p, F> {
    steps: &'p [Step],
    launch: F,
    turns: Vec<usize>,
    /// For each buffer: the buffer that it stands for.
    real: Dense<BufferId, BufferId>,
    /// The resolved buffers of the current launch.
    buffers: Vec<BufferId>,
}

impl Plan {
    /// Calls `launch` for every launch of a run, in order, up to the first error.
    pub fn launches<E>(&self, launch: impl FnMut(&Launch) -> Result<(), E>) -> Result<(), E> {
        self.launches_of(&self.loops, launch)
    }

    /// Calls `launch` for every launch of the prelude, in order, up to the first error.
    pub fn prelude_launches<E>(
        &self,
        launch: impl FnMut(&Launch) -> Result<(), E>,
    ) -> Result<(), E> {
        self.walk(&self.prelude, &[], launch)
    }

    /// Does the same for other loops than the plan's, which repeat the same steps.
    pub(super) fn launches_of<E>(
        &self,
        loops: &[Loop],
        launch: impl FnMut(&Launch) -> Result<(), E>,
    ) -> Result<(), E> {
        self.walk(&self.steps, loops, launch)
    }

    fn walk<'p, E, F>(
        &'p self,
        steps: &'p [Step],
        loops: &'p [Loop],
        mut launch: F,
    ) -> Result<(), E>
    where
        F: FnMut(&Launch) -> Result<(), E>,
    {
        // Without loops nothing is carried, and a run allocates nothing.
        if loops.is_empty() {
            return steps.iter().enumerate().try_for_each(|(number, step)| {
                let Step { operands, outputs, .. } = step;
                launch(&Launch { number, step, turns: &[], operands, outputs })
            });
        }
        let real = self.buffers.ids().collect();
        let mut walk = Walk { steps, launch, turns: Vec::new(), real, buffers: Vec::new() };
        walk.run(0..steps.len(), loops)
    }
}

impl<'p, E, F: FnMut(&Launch) -> Result<(), E>> Walk<'p, F> {
    /// Runs `steps`, which contain `loops`.
    fn run(&mut self, steps: Range<usize>, loops: &'p [Loop]) -> Result<(), E> {
        let mut at = steps.start;
        for around in loops {
            (at..around.steps.start).try_for_each(|number| self.step(number))?;
            for turn in 0..around.length {
                around.carries.iter().for_each(|carry| self.turn(carry, turn, around.length));
                self.turns.push(turn);
                self.run(around.steps.clone(), &around.loops)?;
                self.turns.pop();
            }
            at = around.steps.end;
        }
        (at..steps.end).try_for_each(|number| self.step(number))
    }

    /// Makes the buffers of a carry stand for those that hold its value at a turn.
    fn turn(&mut self, carry: &Carry, turn: usize, length: usize) {
        let after = |turn: usize| if (length - turn) % 2 == 1 { carry.last } else { carry.other };
        let before = if turn == 0 { carry.first } else { after(turn - 1) };
        self.real[carry.before] = self.real[before];
        self.real[carry.next] = self.real[after(turn)];
    }

    fn step(&mut self, number: usize) -> Result<(), E> {
        let step = &self.steps[number];
        self.buffers.clear();
        self.buffers
            .extend(step.operands.iter().chain(&step.outputs).map(|&buffer| self.real[buffer]));
        let (operands, outputs) = self.buffers.split_at(step.operands.len());
        (self.launch)(&Launch { number, step, turns: &self.turns, operands, outputs })
    }
}
