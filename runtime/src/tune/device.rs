//! The tuned schedules of a [`Device`].

use std::path::PathBuf;

use tile_compiler::schedule::Key;

use super::Timed;
use crate::backend::TunedEntry;
use crate::device::Device;

impl Device {
    /// Returns the known result for a kernel: the seconds of its default schedule, the tuned one,
    /// and whether its search finished.
    pub(super) fn tuned_entry(&self, key: Key) -> Option<(f64, Timed, bool)> {
        let TunedEntry { default_seconds, seconds, finished, schedule } =
            self.0.tuned_entry(key)?;
        Some((default_seconds, Timed { schedule, seconds }, finished))
    }

    /// Keeps a schedule that was measured and checked.
    pub(super) fn keep_tuned(&self, key: Key, default_seconds: f64, tuned: &Timed, finished: bool) {
        let (seconds, schedule) = (tuned.seconds, tuned.schedule.clone());
        self.0.keep_tuned(key, TunedEntry { default_seconds, seconds, finished, schedule });
    }

    /// Returns the file that the results are kept in.
    pub(super) fn tuned_file(&self) -> Option<PathBuf> {
        self.0.tuned_file()
    }

    /// Returns the same device without the files in which drivers keep compiled kernels: most
    /// candidates are never needed again.
    pub(super) fn for_tuning(&self) -> Device {
        self.0.for_tuning().map_or_else(|| self.clone(), Device)
    }
}
