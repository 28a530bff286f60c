//! Emulation of other processors' vectors and panels by [`Portable`](super::register::Portable)
//! vectors. Tests cover the widths of every instruction set, whatever machine they run on.

use std::cell::Cell;

/// An instruction set whose vector and panel sizes are emulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Emulated {
    /// Panels of 14 × 32 (f64: 14 × 16).
    Avx512,
    /// Panels of 6 × 16 (f64: 6 × 8).
    Avx2,
    /// Panels of 8 × 12 (f64: 8 × 6).
    Neon,
    /// Panels of 4 × 8 (f64: 4 × 4).
    Portable,
}

thread_local! {
    static CURRENT: Cell<Option<Emulated>> = const { Cell::new(None) };
}

impl Emulated {
    pub const ALL: [Emulated; 4] =
        [Emulated::Avx512, Emulated::Avx2, Emulated::Neon, Emulated::Portable];

    /// Returns the set that this thread emulates, if any.
    pub fn current() -> Option<Self> {
        CURRENT.get()
    }

    /// Calls `f` with this set emulated, also in the pool's threads that work for `f`.
    pub fn during<R>(self, f: impl FnOnce() -> R) -> R {
        with(Some(self), f)
    }

    /// Calls `f` with this machine's own instruction set, then with each set emulated.
    pub fn each(f: impl Fn()) {
        f();
        for set in Self::ALL {
            println!("as with {set:?}");
            set.during(&f);
        }
    }
}

fn with<R>(set: Option<Emulated>, f: impl FnOnce() -> R) -> R {
    /// Restores the previous set, even after a panic.
    struct Restore(Option<Emulated>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _restore = Restore(CURRENT.replace(set));
    f()
}

/// Wraps a task of the pool, so that it emulates the set of the thread that creates it.
pub fn inherited<F: Fn(usize) + Sync>(task: F) -> impl Fn(usize) + Sync {
    let set = CURRENT.get();
    move |number| with(set, || task(number))
}
