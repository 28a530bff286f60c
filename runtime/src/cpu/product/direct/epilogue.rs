//! Epilogues that are applied to tiles in registers: those of the fused form whose operands lie
//! beside the output's elements, or repeat within a row.

use super::kernel::{Finish, Term};
use crate::cpu::loops::job::Job;
use crate::cpu::loops::machine::Machine;
use crate::cpu::vector::lanes::MOST_LANES;
use tile_compiler::dtype::Scalar;
use tile_compiler::native::{self, Fused};

/// The most elements of a kernel's row.
const MOST_COLUMNS: usize = 4 * MOST_LANES;

/// An epilogue, and the output that its results go to.
pub struct Epilogue<'a> {
    /// The output's element of place 0.
    pub out: *mut f32,
    terms: [Option<Elements<'a>>; 4],
    low: f32,
    high: f32,
}

/// The elements of an operand, which repeat after `period` places.
#[derive(Clone, Copy)]
struct Elements<'a> {
    elements: &'a [f32],
    period: Option<usize>,
}

impl<'a> Epilogue<'a> {
    /// Returns whether [`Epilogue::new`] may be called: the job's epilogue has this form in rows of
    /// `length` places, and is the only access to the output.
    pub fn suits(job: &Job, length: usize) -> bool {
        let Some((fused, _)) = job.fused() else { return false };
        fused.terms.iter().flatten().all(|term| match *term {
            native::Term::Kept { register, period } => {
                let room = job.epilogue.registers[register] / size_of::<f32>();
                length.is_multiple_of(period) && room >= period + MOST_COLUMNS
            }
            native::Term::AtPlace(operand) => {
                let operand = &job.launch.operands[operand];
                let is_plain = operand.over().is_none() && operand.first == 0;
                is_plain && operand.bytes.len() / size_of::<f32>() >= job.program.places()
            }
        })
    }

    /// Returns the epilogue with the operands that a thread's machine has.
    pub fn new(job: &Job<'a>, machine: &'a Machine) -> Option<Self> {
        let (Fused { terms, low, high }, out) = job.fused()?;
        let terms = terms.map(|term| {
            term.map(|term| match term {
                native::Term::Kept { register, period } => {
                    Elements { elements: machine.kept(register), period: Some(period) }
                }
                native::Term::AtPlace(operand) => {
                    Elements { elements: job.launch.operands[operand].after(0), period: None }
                }
            })
        });
        let bound =
            |bound: &Option<Scalar>, none: f32| bound.map_or(none, |bound| bound.to_f64() as f32);
        let (low, high) = (bound(low, f32::NEG_INFINITY), bound(high, f32::INFINITY));
        Some(Self { out, terms, low, high })
    }

    /// Returns the epilogue at a tile that begins at a place, with rows that are `step` places
    /// apart: whole rows of the nest.
    pub fn at(&self, place: usize, step: usize) -> Finish {
        let terms = self.terms.map(|term| {
            term.map(|Elements { elements, period }| match period {
                Some(period) => Term { start: elements[place % period..].as_ptr(), step: 0 },
                None => Term { start: elements[place..].as_ptr(), step },
            })
        });
        Finish { terms, low: self.low, high: self.high }
    }
}

impl Finish {
    /// Returns the epilogue at a tile that begins so many whole rows of the nest later, which are
    /// `places` places.
    #[inline]
    pub fn later(&self, places: usize) -> Self {
        let mut terms = self.terms;
        for term in terms.iter_mut().flatten().filter(|term| term.step > 0) {
            term.start = term.start.wrapping_add(places);
        }
        Self { terms, ..*self }
    }
}
