//! The tuned schedules of a [`Device`].

use std::path::PathBuf;
use std::sync::Arc;

use tile_compiler::plan::Plan;
use tile_compiler::schedule::{Key, Tuned};

use super::Timed;
use crate::device::Device;
#[cfg(feature = "wgpu")]
use {
    super::{Entry, Kept},
    crate::device::Kind,
    crate::wgpu::{Gpu, lock},
    std::sync::MutexGuard,
    tile_compiler::schedule::Choice,
};

#[cfg(feature = "wgpu")]
impl Device {
    fn kept(&self) -> Option<MutexGuard<'_, Kept>> {
        match &self.0 {
            Kind::Wgpu { gpu, .. } => Some(lock(&gpu.tuned)),
            _ => None,
        }
    }

    /// Returns the schedules that were tuned for this device, by this or an earlier process.
    /// Everything built for the device uses them.
    pub fn tuned(&self) -> Arc<Tuned> {
        self.kept().map_or_else(Arc::default, |kept| kept.table())
    }

    /// Returns the known result for a kernel: the seconds of its default schedule, the tuned one,
    /// and whether its search finished.
    pub(super) fn tuned_entry(&self, key: Key) -> Option<(f64, Timed, bool)> {
        let Entry { default_seconds, seconds, finished, schedule } = self.kept()?.get(key)?.clone();
        Some((default_seconds, Timed { schedule, seconds }, finished))
    }

    /// Keeps a schedule that was measured and checked.
    pub(super) fn keep_tuned(&self, key: Key, default_seconds: f64, tuned: &Timed, finished: bool) {
        if let Some(mut kept) = self.kept() {
            let (seconds, schedule) = (tuned.seconds, tuned.schedule.clone());
            kept.put(key, Entry { default_seconds, seconds, finished, schedule });
        }
    }

    /// Returns the file that the results are kept in.
    pub(super) fn tuned_file(&self) -> Option<PathBuf> {
        self.kept()?.path()
    }

    /// Warns about schedules that were tuned for a kernel but do not suit it.
    pub(crate) fn note_unsuited(&self, plan: &Plan) {
        if let Some(mut kept) = self.kept() {
            for routine in plan.routines.iter().filter(|routine| routine.choice == Choice::Unsuited) {
                kept.warn(format!(
                    "the tuned schedule of kernel {} is not used: it does not suit the kernel",
                    routine.name
                ));
            }
        }
    }

    /// Returns the same device without the files in which drivers keep compiled kernels: most
    /// candidates are never needed again.
    pub(super) fn for_tuning(&self) -> Device {
        match &self.0 {
            Kind::Wgpu { gpu, checked } => {
                let mut own = Gpu::shared(gpu.name.clone(), gpu.device.clone(), gpu.queue.clone());
                own.profile = gpu.profile.clone();
                Device(Kind::Wgpu { gpu: Arc::new(own), checked: *checked })
            }
            _ => self.clone(),
        }
    }
}

#[cfg(not(feature = "wgpu"))]
impl Device {
    /// Returns the schedules that were tuned for this device: none.
    pub fn tuned(&self) -> Arc<Tuned> {
        Arc::default()
    }

    pub(super) fn tuned_entry(&self, _: Key) -> Option<(f64, Timed, bool)> {
        None
    }

    pub(super) fn keep_tuned(&self, _: Key, _: f64, _: &Timed, _: bool) {}

    pub(super) fn tuned_file(&self) -> Option<PathBuf> {
        None
    }

    pub(crate) fn note_unsuited(&self, _: &Plan) {}

    pub(super) fn for_tuning(&self) -> Device {
        self.clone()
    }
}
