//! [`Budget`]: limits on the work and memory of compiling one program.
//!
//! A small text can ask for any amount of work, with nested loops, functions that call each other
//! twice or lists of lists. Each phase spends units of one budget before it works, and takes bytes
//! from it before it allocates. If the budget is exceeded, the phase reports an error at the
//! responsible place in the source.
//!
//! The count depends only on the input, so a program that compiles on one machine compiles on every
//! machine. The exception is a caller's [`Budget::interrupted_by`], which may depend on a clock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::diagnostic::Diagnostic;
use crate::span::Span;

/// The units of work per second. A unit is a small step, such as reading a token or visiting a
/// graph node. A release build takes less than 100 ns for one unit.
pub const UNITS_PER_SECOND: u64 = 10_000_000;

/// The number of units between two calls of the interrupt function.
const POLL: u64 = 1 << 14;

/// Limits on the work and memory of compiling a program.
///
/// ```
/// use tile_lang::Limits;
///
/// let limits = Limits { bytes: 1 << 30, ..Limits::default() };
/// assert!(limits.seconds > 0.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Processor time, counted in seconds of [`UNITS_PER_SECOND`] units each.
    pub seconds: f64,
    /// Memory, in bytes.
    pub bytes: u64,
}

impl Default for Limits {
    /// Returns two seconds and a gigabyte. That is more than ten times the cost of any network
    /// known to us.
    fn default() -> Limits {
        Limits { seconds: 2.0, bytes: 1_000_000_000 }
    }
}

/// The limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Exceeded {
    /// The work exceeds [`Limits::seconds`].
    #[error("compiling this takes more work than the limit of {seconds} seconds allows")]
    Work {
        /// The limit, in seconds.
        seconds: f64,
    },
    /// The memory exceeds [`Limits::bytes`].
    #[error("compiling this takes more memory than the limit of {bytes} bytes")]
    Memory {
        /// The limit, in bytes.
        bytes: u64,
    },
    /// The caller interrupted the compilation. See [`Budget::interrupted_by`].
    #[error("compiling was interrupted")]
    Interrupted,
}

impl Exceeded {
    /// Returns the error `E0007` at the place that asked for the work.
    pub fn at(self, span: Span) -> Diagnostic {
        let help = "write a smaller program, or raise the limits";
        Diagnostic::error("E0007", span, self.to_string()).help(help)
    }
}

/// The remainder of some [`Limits`]. Clones share one count.
///
/// Once a limit is exceeded, every later call fails too. Code that cannot return an error may
/// therefore ignore it and stop early. The enclosing phase then finds the error with
/// [`Budget::check`].
#[derive(Clone, Default)]
pub struct Budget(Option<Arc<Counts>>);

struct Counts {
    limits: Limits,
    /// `limits.seconds` in units.
    units: u64,
    spent: AtomicU64,
    taken: AtomicU64,
    interrupt: Option<Interrupt>,
    interrupted: AtomicU64,
}

type Interrupt = Box<dyn Fn() -> bool + Send + Sync>;

impl Budget {
    /// Creates an unspent budget.
    pub fn new(limits: Limits) -> Budget {
        Budget::of(limits, None)
    }

    /// Creates a budget that also ends when `interrupt` returns true. `interrupt` is called from
    /// time to time, and is the hook for a clock or for a user who cancels.
    pub fn interrupted_by(
        limits: Limits,
        interrupt: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Budget {
        Budget::of(limits, Some(Box::new(interrupt)))
    }

    /// Creates a budget without limits. It counts nothing.
    pub const fn unlimited() -> Budget {
        Budget(None)
    }

    fn of(limits: Limits, interrupt: Option<Interrupt>) -> Budget {
        // The cast saturates, and NaN becomes 0.
        let units = (limits.seconds * UNITS_PER_SECOND as f64) as u64;
        let zero = || AtomicU64::new(0);
        Budget(Some(Arc::new(Counts {
            limits,
            units,
            spent: zero(),
            taken: zero(),
            interrupt,
            interrupted: zero(),
        })))
    }

    /// Counts work that is about to be done.
    ///
    /// # Errors
    /// Fails if the work exceeds the budget, or if a limit was exceeded before. In the second case
    /// nothing is counted.
    #[inline]
    pub fn spend(&self, units: u64) -> Result<(), Exceeded> {
        let Some(counts) = &self.0 else { return Ok(()) };
        self.check()?;
        let before = add(&counts.spent, units);
        if before / POLL != before.saturating_add(units) / POLL {
            counts.poll();
        }
        self.check()
    }

    /// Counts memory that is about to be allocated, and the work of filling it: one unit for each
    /// 64 bytes.
    ///
    /// # Errors
    /// Fails if the memory or the work exceeds the budget, or if a limit was exceeded before.
    pub fn take_bytes(&self, bytes: u64) -> Result<(), Exceeded> {
        let Some(counts) = &self.0 else { return Ok(()) };
        self.check()?;
        add(&counts.taken, bytes);
        self.spend(bytes / 64)
    }

    /// Returns memory to the budget after it was freed.
    pub fn return_bytes(&self, bytes: u64) {
        if let Some(counts) = &self.0
            && self.check().is_ok()
        {
            let left = counts.taken.load(Relaxed).saturating_sub(bytes);
            counts.taken.store(left, Relaxed);
        }
    }

    /// Checks that no limit was exceeded so far.
    ///
    /// # Errors
    /// Fails if a limit was exceeded.
    #[inline]
    pub fn check(&self) -> Result<(), Exceeded> {
        let Some(counts) = &self.0 else { return Ok(()) };
        if counts.taken.load(Relaxed) > counts.limits.bytes {
            return Err(Exceeded::Memory { bytes: counts.limits.bytes });
        }
        if counts.spent.load(Relaxed) > counts.units {
            return Err(Exceeded::Work { seconds: counts.limits.seconds });
        }
        if counts.interrupted.load(Relaxed) != 0 {
            return Err(Exceeded::Interrupted);
        }
        Ok(())
    }

    /// Returns the units spent so far, or 0 for a budget without limits.
    pub fn spent(&self) -> u64 {
        self.0.as_ref().map_or(0, |counts| counts.spent.load(Relaxed))
    }

    /// Returns the bytes currently taken, or 0 for a budget without limits.
    pub fn taken(&self) -> u64 {
        self.0.as_ref().map_or(0, |counts| counts.taken.load(Relaxed))
    }

    /// Returns the limits, or `None` for a budget without limits.
    pub fn limits(&self) -> Option<Limits> {
        self.0.as_ref().map(|counts| counts.limits)
    }
}

impl Counts {
    fn poll(&self) {
        if self.interrupt.as_ref().is_some_and(|interrupt| interrupt()) {
            self.interrupted.store(1, Relaxed);
        }
    }
}

/// Adds to a saturating counter. Returns the previous value.
fn add(count: &AtomicU64, more: u64) -> u64 {
    let before = count.fetch_add(more, Relaxed);
    if before.checked_add(more).is_none() {
        count.store(u64::MAX, Relaxed);
    }
    before
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Budget");
        shown
            .field("limits", &self.limits())
            .field("spent", &self.spent())
            .field("taken", &self.taken())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: Limits = Limits { seconds: 1e-5, bytes: 1000 };

    #[test]
    fn what_exceeds_a_limit_is_an_error_from_then_on() {
        let budget = Budget::new(FEW);
        assert_eq!(budget.spend(100), Ok(()));
        assert_eq!(budget.clone().spend(1), Err(Exceeded::Work { seconds: 1e-5 }));
        assert_eq!(budget.check(), Err(Exceeded::Work { seconds: 1e-5 }));
        assert!(budget.spend(u64::MAX).is_err() && budget.spend(u64::MAX).is_err());
    }

    #[test]
    fn memory_that_is_given_back_can_be_taken_again() {
        let budget = Budget::new(FEW);
        assert_eq!(budget.take_bytes(900), Ok(()));
        budget.return_bytes(500);
        assert_eq!(budget.take_bytes(600), Ok(()));
        assert_eq!(budget.take_bytes(1), Err(Exceeded::Memory { bytes: 1000 }));
        budget.return_bytes(1000);
        assert!(budget.check().is_err());
    }

    #[test]
    fn no_limits_are_never_exceeded() {
        let budget = Budget::unlimited();
        assert_eq!(budget.spend(u64::MAX).and(budget.take_bytes(u64::MAX)), Ok(()));
        assert!(Budget::new(Limits { seconds: f64::NAN, bytes: 0 }).spend(1).is_err());
        assert!(Budget::new(Limits { seconds: f64::INFINITY, bytes: 0 }).spend(1 << 60).is_ok());
    }

    #[test]
    fn a_caller_can_interrupt() {
        let budget = Budget::interrupted_by(Limits::default(), || true);
        assert_eq!(budget.spend(1), Ok(()));
        assert_eq!(budget.spend(POLL), Err(Exceeded::Interrupted));
    }
}
