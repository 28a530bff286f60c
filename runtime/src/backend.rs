//! [`Backend`]: a device as the rest of the runtime sees it, and [`Executable`]: a program that is
//! compiled for one, with its memory there.
//!
//! `backends` has the cpu device, the reference interpreter and the kernel checker, and `wgpu` the
//! GPUs. A [`crate::Device`] is one of them, and nothing else asks which.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

use tile_compiler::graph::{Graph, NodeId};
use tile_compiler::kernel::Kernel;
#[cfg(feature = "compile")]
use tile_compiler::pipeline::{self, Options};
use tile_compiler::plan::{Plan, Port, Routine};
use tile_compiler::profile::Profile;
use tile_compiler::schedule::{Key, Schedule, Tuned};
use tile_compiler::tensor::{Tensor, TensorType};
use tile_lang::Sources;

use crate::cpu::copy;
use crate::error::Error;
use crate::parts;
pub use crate::pending::{Pending, block_on, ready};
use crate::store::Store;
use crate::trace::Trace;
use crate::value::{Destination, Value};

/// A value that threads may share. In a browser a device belongs to its thread.
#[cfg(not(target_family = "wasm"))]
pub trait Shared: Send + Sync {}
#[cfg(not(target_family = "wasm"))]
impl<T: Send + Sync + ?Sized> Shared for T {}

/// Any value: in a browser a device belongs to its thread.
#[cfg(target_family = "wasm")]
pub trait Shared {}
#[cfg(target_family = "wasm")]
impl<T: ?Sized> Shared for T {}

/// A function that is told the number of kernels that are compiled, and that of all.
pub type Report = Arc<dyn Fn(usize, usize) + Send + Sync>;

/// A device that runs programs.
pub trait Backend: Any + Shared {
    /// Returns the name by which [`crate::Device::named`] finds the device.
    fn name(&self) -> &str;

    /// Returns the hardware's name: that of the processor for the devices that run on it.
    fn adapter(&self) -> String;

    /// Returns the profile that the compiler uses.
    fn profile(&self) -> Profile;

    /// Returns `Ok` if there are schedules to tune for the device, else a sentence with the reason.
    fn tuning(&self) -> Result<(), &'static str>;

    /// Compiles a plan for callers that see whole tensors where the plan has parts of them; see
    /// [`Backend::compile`].
    fn load<'a>(&'a self, plan: Plan, store: &'a mut Store) -> Pending<'a, Box<dyn Executable>> {
        if let Err(error) = parts::note(&plan, store) {
            return ready(Err(error));
        }
        match self.compile(plan, store) {
            Pending::Ready(executable) => {
                Pending::Ready(executable.map(|new| new.map(parts::joined)))
            }
            waiting => Pending::Waiting(Box::pin(async { Ok(parts::joined(waiting.await?)) })),
        }
    }

    /// Compiles a plan. Its weights may be in the store. A device whose executables share the
    /// memory of weights adds those that the store lacks.
    fn compile<'a>(&'a self, plan: Plan, store: &'a mut Store) -> Pending<'a, Box<dyn Executable>>;

    /// Compiles a graph that was made from `sources`.
    #[cfg(feature = "compile")]
    fn build<'a>(
        &'a self,
        mut graph: Graph,
        sources: &'a Sources,
        options: Options,
        store: &'a mut Store,
    ) -> Pending<'a, Box<dyn Executable>> {
        let options = Options { tuned: self.tuned(), ..options };
        match plan(&mut graph, &self.profile(), sources, &options) {
            Ok(plan) => {
                self.note_unsuited(&plan);
                self.load(plan, store)
            }
            Err(error) => ready(Err(error)),
        }
    }

    /// Returns the same device with convolutions by direct sums, if it has others.
    fn exact(&self) -> Option<Arc<dyn Backend>> {
        None
    }

    /// Returns the same device with kernels that check every access, if it can check them.
    fn checked(&self) -> Option<Arc<dyn Backend>> {
        None
    }

    /// Returns the same device that calls a function while it compiles kernels, if it does.
    fn reporting(&self, _: Report) -> Option<Arc<dyn Backend>> {
        None
    }

    /// Returns warnings that do not concern results.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns sentences about features that are not used, because they gave wrong results.
    fn refuted_features(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the same device for measurements of which nothing is kept, if that is another one.
    fn for_tuning(&self) -> Option<Arc<dyn Backend>> {
        None
    }

    /// Returns the schedules that were tuned for the device, by this or an earlier process.
    fn tuned(&self) -> Arc<Tuned> {
        Arc::default()
    }

    /// Returns the result of tuning for a kernel.
    fn tuned_entry(&self, _: Key) -> Option<TunedEntry> {
        None
    }

    /// Keeps a schedule that was measured and checked.
    fn keep_tuned(&self, _: Key, _: TunedEntry) {}

    /// Returns the file in which the results of tuning are kept.
    fn tuned_file(&self) -> Option<PathBuf> {
        None
    }

    /// Warns about schedules that were tuned for a kernel but do not suit it.
    fn note_unsuited(&self, _: &Plan) {}
}

/// The result of tuning for one kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct TunedEntry {
    /// The seconds of a launch under the default schedule, and under the tuned one.
    pub default_seconds: f64,
    pub seconds: f64,
    /// Whether the search finished, so that another one is not expected to find anything better.
    pub finished: bool,
    pub schedule: Schedule,
}

/// The names and types of a program's inputs, weights and outputs.
#[derive(Default)]
pub struct Ports {
    pub inputs: Vec<(String, TensorType)>,
    pub weights: Vec<(String, TensorType)>,
    pub outputs: Vec<(String, TensorType)>,
}

impl Ports {
    /// Returns the ports of a plan, those in parts as the wholes.
    pub fn of(plan: &Plan) -> Ports {
        let ports = |ports: &[Port]| {
            let tensor = |parts: &[Port]| {
                let (name, ty) = parts[0].tensor();
                (name.to_owned(), ty.clone())
            };
            Port::tensors(ports).map(tensor).collect()
        };
        Ports {
            inputs: ports(&plan.inputs),
            weights: ports(&plan.weights),
            outputs: ports(&plan.outputs),
        }
    }
}

/// A program with its memory on a device. Its arguments (inputs, then weights) and outputs have the
/// numbers of its [`Ports`].
pub trait Executable: Any + Shared {
    fn ports(&self) -> Ports;

    /// Returns the plan that it runs.
    fn plan(&self) -> Option<&Plan> {
        None
    }

    /// Sets the input or weight with this number, to a copy of a value of its type. It stays until
    /// it is set again.
    fn set<'a>(&'a mut self, number: usize, value: &'a dyn Value) -> Pending<'a, ()>;

    /// Returns the input or weight with this number, which must have been set.
    fn get(&self, number: usize) -> Pending<'_, Tensor>;

    /// Runs the program `runs` times. All inputs must have been set. The outputs stay on the
    /// device. An asynchronous device receives all runs at once.
    fn repeat(&mut self, runs: u32) -> Pending<'_, ()>;

    /// Returns the output with this number of the last run.
    fn output(&self, number: usize) -> Pending<'_, Tensor>;

    /// Returns the outputs of the last run, in order.
    fn read(&self) -> Pending<'_, Vec<Tensor>>;

    /// Runs the program once and returns its outputs, in one submission if the device can. `inputs`
    /// are values for this run, which may stay for later runs. They are inputs that no call of
    /// [`Executable::set`] has set, or weights.
    fn run<'a>(&'a mut self, inputs: &'a [(usize, &'a dyn Value)]) -> Pending<'a, Vec<Tensor>> {
        Pending::Waiting(Box::pin(async move {
            for (number, value) in inputs {
                self.set(*number, *value).await?;
            }
            self.repeat(1).await?;
            self.read().await
        }))
    }

    /// Runs the program once and returns its outputs, without blocking the thread that polls. All
    /// inputs must have been set. A run that is dropped may continue, and later calls wait for it.
    fn run_async(&mut self) -> Pending<'_, Vec<Tensor>> {
        self.run(&[])
    }

    /// Runs the program once on `inputs`, as [`Executable::run`] does, and writes outputs to memory
    /// of their types. Waits for the device.
    fn run_into(
        &mut self,
        inputs: &[(usize, &dyn Value)],
        outputs: &mut [(usize, &mut dyn Destination)],
    ) -> Result<(), Error> {
        fill_all(&block_on(self.run(inputs))?, outputs)
    }

    /// Returns the program as that of a GPU, for memory of an app there.
    #[cfg(feature = "wgpu")]
    fn gpu(&mut self) -> Option<&mut crate::wgpu::GpuExecutable> {
        None
    }

    /// Returns the bytes of the output with this number of the last run, if they are in host
    /// memory.
    fn view(&mut self, _: usize) -> Option<&[u8]> {
        None
    }

    /// Sets weights to those of another executable of the same device, and shares their memory
    /// until either is set again. `pairs` has the numbers of each weight here and there.
    fn share(&mut self, pairs: &[(usize, usize)], other: &dyn Executable) -> Result<(), Error> {
        for &(mine, theirs) in pairs {
            let value = block_on(other.get(theirs))?;
            block_on(self.set(mine, &value))?;
        }
        Ok(())
    }

    /// Runs the program once, and returns the time of each launch. `None` if the device cannot time
    /// launches.
    fn trace(&mut self) -> Pending<'_, Option<Trace>> {
        ready(Ok(None))
    }

    /// Returns the mean seconds of `runs` consecutive runs on the device, without the prelude.
    ///
    /// # Errors
    /// The errors of the device, or if it has no clock.
    fn time(&mut self, runs: u32) -> Pending<'_, f64> {
        let _ = runs;
        ready(Err(Error::internal("this device cannot time runs")))
    }

    /// Runs the program once, and then replaces weights by their next values, the outputs of the
    /// same name, which must not be read after that. Does not wait for an asynchronous device.
    /// `watched` are the numbers of outputs to return.
    fn step<'a>(&'a mut self, watched: &'a [usize]) -> Pending<'a, Watched> {
        Pending::Waiting(Box::pin(async move {
            self.repeat(1).await?;
            let mut outputs = Vec::with_capacity(watched.len());
            for &number in watched {
                outputs.push(self.output(number).await?);
            }
            self.adopt();
            Ok(Watched::Here(outputs))
        }))
    }

    /// Replaces weights by their next values after a run.
    fn adopt(&mut self) {}

    /// Activates this executable: takes the weights from the store.
    ///
    /// # Errors
    /// If a weight has another type there. Then nothing has changed.
    fn attach(&mut self, _: &mut Store) -> Result<(), Error> {
        Ok(())
    }

    /// Deactivates this executable: moves its weights, which all have values, to the store.
    fn detach(&mut self, _: &mut Store) -> Result<(), Error> {
        Ok(())
    }
}

/// Copies an output's bytes to memory of its type.
pub fn fill(target: &mut dyn Destination, bytes: &[u8]) {
    match target.dense() {
        Some(to) => copy::copy(bytes, to),
        None => target.copy_from(bytes),
    }
}

/// Copies outputs with these numbers to memory of their types.
pub fn fill_all(
    tensors: &[Tensor],
    outputs: &mut [(usize, &mut dyn Destination)],
) -> Result<(), Error> {
    for (number, target) in outputs {
        let missing = || Error::internal("an output is missing");
        fill(*target, tensors.get(*number).ok_or_else(missing)?.bytes());
    }
    Ok(())
}

/// Outputs of a step, possibly in transfer.
pub enum Watched {
    Here(Vec<Tensor>),
    OnTheWay(Box<dyn Transfer>),
}

/// Outputs in transfer to the host.
pub trait Transfer: Shared {
    /// Waits for the step, and returns the outputs.
    fn finish(self: Box<Self>) -> Pending<'static, Vec<Tensor>>;
}

impl Watched {
    /// Returns whether the outputs are ready.
    pub fn is_here(&self) -> bool {
        matches!(self, Watched::Here(_))
    }

    /// Waits for the step, and returns the outputs.
    pub async fn take(self) -> Result<Vec<Tensor>, Error> {
        match self {
            Watched::Here(outputs) => Ok(outputs),
            Watched::OnTheWay(transfer) => transfer.finish().await,
        }
    }
}

/// Plans a graph that was made from `sources`.
#[cfg(feature = "compile")]
pub fn plan(
    graph: &mut Graph,
    profile: &Profile,
    sources: &Sources,
    options: &Options,
) -> Result<Plan, Error> {
    pipeline::optimise(graph);
    pipeline::plan_with(graph, profile, options).map_err(|error| match error.diagnostic(graph) {
        Some(diagnostic) => {
            Error::Program { sources: sources.clone(), diagnostics: vec![diagnostic] }
        }
        None => Error::bug(error),
    })
}

/// Returns the name of an input or the path of a weight of the graph.
pub fn given_name(graph: &Graph, id: NodeId) -> &str {
    graph.node(id).op.given_name().unwrap_or_default()
}

/// Returns the kernel of a routine, in a plan for shaders.
pub fn kernel(routine: &Routine) -> Result<&Kernel, Error> {
    routine
        .kernel
        .as_ref()
        .ok_or_else(|| Error::internal(format!("{} has no kernel", routine.name)))
}

#[cfg(all(test, feature = "wgpu"))]
mod tests;
