//! A tape with the machines that run it.

use super::machine::{Machine, State};
use crate::cpu::memory::Launch;
use crate::cpu::threads::idle::Idle;
use std::ops::Deref;
use tile_compiler::native::Tape;

/// A tape, ready to run on any number of threads.
pub struct Runner {
    tape: Tape,
    pub idle: Idle<State>,
}

impl Runner {
    pub fn new(tape: Tape) -> Self {
        Self { tape, idle: Idle::new() }
    }

    /// Creates a thread's machine to run the tape in this launch.
    pub fn machine<'t>(&'t self, launch: Launch<'t>) -> Machine<'t> {
        Machine::new(self, launch)
    }
}

impl Deref for Runner {
    type Target = Tape;

    fn deref(&self) -> &Tape {
        &self.tape
    }
}
