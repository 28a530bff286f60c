//! [`WgpuBackend`]: a GPU as a [`Backend`], and its executables.

use std::sync::Arc;

use tile_compiler::plan::Plan;
use tile_compiler::profile::Profile;
use tile_compiler::tensor::Tensor;
#[cfg(not(target_family = "wasm"))]
use {
    super::gpu::lock,
    crate::backend::TunedEntry,
    crate::trace::Trace,
    std::path::PathBuf,
    tile_compiler::schedule::{Choice, Key, Tuned},
};

use super::executable::GpuExecutable;
use super::gpu::Gpu;
use super::watched::GpuWatched;
use crate::backend::{Backend, Executable, Pending, Ports, Report, Transfer, Watched};
use crate::error::Error;
use crate::store::Store;
use crate::value::Value;

/// A GPU.
#[derive(Clone)]
pub struct WgpuBackend {
    pub gpu: Arc<Gpu>,
    /// True if sums of products are computed term by term.
    pub exact: bool,
    /// Whether kernels check their accesses.
    pub checked: bool,
    /// The function that is told how many kernels are compiled.
    pub report: Option<Report>,
}

impl Backend for WgpuBackend {
    fn name(&self) -> &str {
        &self.gpu.name
    }

    fn adapter(&self) -> String {
        self.gpu.adapter()
    }

    fn profile(&self) -> Profile {
        Profile { exact: self.exact, ..self.gpu.profile.clone() }
    }

    fn tuning(&self) -> Result<(), &'static str> {
        Ok(())
    }

    fn compile<'a>(&'a self, plan: Plan, store: &'a mut Store) -> Pending<'a, Box<dyn Executable>> {
        Pending::Waiting(Box::pin(async move {
            let (gpu, report) = (self.gpu.clone(), self.report.as_ref());
            let executable = GpuExecutable::new(gpu, plan, self.checked, report, store).await?;
            Ok(Box::new(executable) as Box<dyn Executable>)
        }))
    }

    fn exact(&self) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(WgpuBackend { exact: true, ..self.clone() }))
    }

    fn checked(&self) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(WgpuBackend { checked: true, ..self.clone() }))
    }

    fn reporting(&self, report: Report) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(WgpuBackend { report: Some(report), ..self.clone() }))
    }

    fn warnings(&self) -> Vec<String> {
        self.gpu.warnings()
    }

    fn refuted_features(&self) -> Vec<String> {
        self.gpu.refuted.clone()
    }

    /// Returns the device without the files in which drivers keep compiled kernels: most candidates
    /// are never needed again.
    fn for_tuning(&self) -> Option<Arc<dyn Backend>> {
        let Gpu { name, device, queue, profile, .. } = &*self.gpu;
        let mut gpu = Gpu::shared(name.clone(), device.clone(), queue.clone());
        gpu.profile = profile.clone();
        let gpu = Arc::new(gpu);
        Some(Arc::new(WgpuBackend { gpu, report: None, ..self.clone() }))
    }

    #[cfg(not(target_family = "wasm"))]
    fn tuned(&self) -> Arc<Tuned> {
        lock(&self.gpu.tuned).table()
    }

    #[cfg(not(target_family = "wasm"))]
    fn tuned_entry(&self, key: Key) -> Option<TunedEntry> {
        lock(&self.gpu.tuned).get(key).cloned()
    }

    #[cfg(not(target_family = "wasm"))]
    fn keep_tuned(&self, key: Key, entry: TunedEntry) {
        lock(&self.gpu.tuned).put(key, entry);
    }

    #[cfg(not(target_family = "wasm"))]
    fn tuned_file(&self) -> Option<PathBuf> {
        lock(&self.gpu.tuned).path()
    }

    #[cfg(not(target_family = "wasm"))]
    fn note_unsuited(&self, plan: &Plan) {
        let mut kept = lock(&self.gpu.tuned);
        for routine in plan.routines.iter().filter(|routine| routine.choice == Choice::Unsuited) {
            let name = &routine.name;
            kept.warn(format!(
                "the tuned schedule of kernel {name} is not used: it does not suit the kernel"
            ));
        }
    }
}

/// Each method is the one of the same name in `executable`, `trace` and `clock`.
impl Executable for GpuExecutable {
    fn ports(&self) -> Ports {
        Ports::of(&self.plan)
    }

    fn plan(&self) -> Option<&Plan> {
        Some(&self.plan)
    }

    fn set<'a>(&'a mut self, number: usize, value: &'a dyn Value) -> Pending<'a, ()> {
        Pending::Waiting(Box::pin(GpuExecutable::set(self, number, value)))
    }

    fn get(&self, number: usize) -> Pending<'_, Tensor> {
        Pending::Waiting(Box::pin(GpuExecutable::get(self, number)))
    }

    fn repeat(&mut self, runs: u32) -> Pending<'_, ()> {
        Pending::Waiting(Box::pin(GpuExecutable::repeat(self, runs)))
    }

    fn output(&self, number: usize) -> Pending<'_, Tensor> {
        Pending::Waiting(Box::pin(GpuExecutable::output(self, number)))
    }

    fn read(&self) -> Pending<'_, Vec<Tensor>> {
        Pending::Waiting(Box::pin(GpuExecutable::read(self)))
    }

    fn run<'a>(&'a mut self, inputs: &'a [(usize, &'a dyn Value)]) -> Pending<'a, Vec<Tensor>> {
        Pending::Waiting(Box::pin(async move {
            for (number, value) in inputs {
                GpuExecutable::set(self, *number, *value).await?;
            }
            GpuExecutable::run(self).await
        }))
    }

    #[cfg(not(target_family = "wasm"))]
    fn run_async(&mut self) -> Pending<'_, Vec<Tensor>> {
        Pending::Waiting(Box::pin(GpuExecutable::run_async(self)))
    }

    fn gpu(&mut self) -> Option<&mut GpuExecutable> {
        Some(self)
    }

    #[cfg(not(target_family = "wasm"))]
    fn trace(&mut self) -> Pending<'_, Option<Trace>> {
        Pending::Waiting(Box::pin(GpuExecutable::trace(self)))
    }

    #[cfg(not(target_family = "wasm"))]
    fn time(&mut self, runs: u32) -> Pending<'_, f64> {
        Pending::Waiting(Box::pin(GpuExecutable::time(self, runs)))
    }

    fn step<'a>(&'a mut self, watched: &'a [usize]) -> Pending<'a, Watched> {
        Pending::Waiting(Box::pin(async move {
            Ok(Watched::OnTheWay(Box::new(GpuExecutable::step(self, watched).await?)))
        }))
    }

    fn share(&mut self, pairs: &[(usize, usize)], other: &dyn Executable) -> Result<(), Error> {
        let other: &dyn std::any::Any = other;
        match other.downcast_ref() {
            Some(other) => GpuExecutable::share(self, pairs, other),
            None => Err(Error::data("weights are shared by sessions of one device".into())),
        }
    }

    fn attach(&mut self, store: &mut Store) -> Result<(), Error> {
        GpuExecutable::attach(self, store)
    }

    fn detach(&mut self, store: &mut Store) -> Result<(), Error> {
        GpuExecutable::detach(self, store);
        Ok(())
    }
}

impl Transfer for GpuWatched {
    fn finish(self: Box<Self>) -> Pending<'static, Vec<Tensor>> {
        Pending::Waiting(Box::pin(self.take()))
    }
}

#[cfg(test)]
impl Gpu {
    /// Returns the GPU of a device, if it is one.
    pub fn of(device: &crate::device::Device) -> Option<&Arc<Gpu>> {
        let backend: &dyn std::any::Any = &*device.0;
        backend.downcast_ref::<WgpuBackend>().map(|backend| &backend.gpu)
    }
}
