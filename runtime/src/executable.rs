//! [`Executable`]: a program compiled for a device, with one interface to all kinds of devices.

use tile_compiler::dtype::DType;
use tile_compiler::graph::{Graph, NodeId, Op};
use tile_compiler::interpret;
use tile_compiler::kernel::Kernel;
use tile_compiler::passes;
use tile_compiler::plan::{Plan, Routine};
use tile_compiler::tensor::{Tensor, TensorType};

use crate::device::{Device, Kind};
use crate::error::Error;
use crate::host::HostExecutable;
use crate::staged::Staged;
use crate::store::{Memory, Store, Stored};
use crate::trace::Trace;
#[cfg(feature = "wgpu")]
use crate::wgpu::{GpuExecutable, GpuWatched};

/// A program with its memory on a device. Its arguments (inputs, then weights) and outputs have the
/// numbers of the graph or plan that it was made from.
pub enum Executable {
    Reference(ReferenceExecutable),
    Host(Box<HostExecutable>),
    #[cfg(feature = "wgpu")]
    Gpu(Box<GpuExecutable>),
    /// A model compiled while it runs. Its inputs have the session's numbers.
    Staged {
        model: Box<Staged>,
        inputs: Vec<String>,
    },
}

impl Executable {
    /// Compiles a plan for the device. On a GPU it binds the weights in the store, and adds those
    /// that the store lacks.
    pub async fn new(device: &Device, plan: Plan, store: &mut Store) -> Result<Executable, Error> {
        match &device.0 {
            Kind::Cpu { exact } => {
                HostExecutable::cpu(plan, *exact, store).map(|host| Executable::Host(Box::new(host)))
            }
            Kind::Check(_) => HostExecutable::check(plan, store).map(|host| Executable::Host(Box::new(host))),
            Kind::Reference => Err(Error::internal("the reference device runs graphs, not plans")),
            #[cfg(feature = "wgpu")]
            Kind::Wgpu { gpu, checked } => {
                GpuExecutable::new(gpu.clone(), plan, *checked, store).await.map(|gpu| Executable::Gpu(Box::new(gpu)))
            }
        }
    }

    /// Sets the input or weight with this number, to a tensor of its type. It stays until it is set
    /// again.
    pub async fn set(&mut self, number: usize, tensor: &Tensor) -> Result<(), Error> {
        match self {
            Executable::Reference(reference) => {
                reference.given[number].1 = Some(tensor.clone());
                Ok(())
            }
            Executable::Host(host) => host.set(number, tensor),
            #[cfg(feature = "wgpu")]
            Executable::Gpu(gpu) => gpu.set(number, tensor).await,
            Executable::Staged { model, inputs } => {
                model.set(&inputs[number], tensor);
                Ok(())
            }
        }
    }

    /// Returns the input or weight with this number, which must have been set.
    pub async fn get(&self, number: usize) -> Result<Tensor, Error> {
        match self {
            Executable::Reference(reference) => reference.given.get(number).and_then(|(_, tensor)| tensor.clone()),
            Executable::Host(host) => host.get(number),
            #[cfg(feature = "wgpu")]
            Executable::Gpu(gpu) => return gpu.get(number).await,
            Executable::Staged { model, inputs } => inputs.get(number).and_then(|name| model.get(name)),
        }
        .ok_or_else(|| Error::internal(format!("there is no input or weight {number}")))
    }

    /// Runs the program once. All inputs must have been set. The outputs stay on the device.
    pub async fn execute(&mut self) -> Result<(), Error> {
        self.repeat(1).await
    }

    /// Runs the program `runs` times. An asynchronous device receives all runs at once.
    pub async fn repeat(&mut self, runs: u32) -> Result<(), Error> {
        match self {
            Executable::Reference(reference) => (0..runs).try_for_each(|_| reference.execute()),
            Executable::Host(host) => (0..runs).try_for_each(|_| host.execute()),
            #[cfg(feature = "wgpu")]
            Executable::Gpu(gpu) => gpu.repeat(runs).await,
            Executable::Staged { model, .. } => (0..runs).try_for_each(|_| model.execute()),
        }
    }

    /// Runs the program once, and returns the time of each launch. `None` if the device cannot time
    /// launches.
    pub async fn trace(&mut self) -> Result<Option<Trace>, Error> {
        match self {
            Executable::Reference(_) | Executable::Staged { .. } => Ok(None),
            Executable::Host(host) => host.trace(),
            #[cfg(feature = "wgpu")]
            Executable::Gpu(gpu) => gpu.trace().await,
        }
    }

    /// Returns the mean seconds of `runs` consecutive runs on the device, without the prelude.
    ///
    /// # Errors
    /// The errors of the device, or if it has no clock.
    pub async fn time(&mut self, runs: u32) -> Result<f64, Error> {
        #[cfg(feature = "wgpu")]
        if let Executable::Gpu(gpu) = self {
            return gpu.time(runs).await;
        }
        Err(Error::internal(format!("{runs} runs of what has no clock")))
    }

    /// Returns the plan that it runs.
    pub fn plan(&self) -> Option<&Plan> {
        match self {
            Executable::Reference(_) => None,
            Executable::Host(host) => Some(&host.plan),
            #[cfg(feature = "wgpu")]
            Executable::Gpu(gpu) => Some(&gpu.plan),
            Executable::Staged { .. } => None,
        }
    }

    /// Runs the program once, and then replaces weights by their next values, the outputs of the
    /// same name, which must not be read after that. Does not wait for an asynchronous device.
    /// `watched` are the numbers of outputs to return.
    pub async fn step(&mut self, watched: &[usize]) -> Result<Watched, Error> {
        #[cfg(feature = "wgpu")]
        if let Executable::Gpu(gpu) = self {
            return gpu.step(watched).await.map(Watched::OnTheWay);
        }
        self.execute().await?;
        let mut outputs = Vec::with_capacity(watched.len());
        for &number in watched {
            outputs.push(self.output(number).await?);
        }
        match self {
            Executable::Reference(reference) => reference.adopt(),
            Executable::Host(host) => host.adopt(),
            #[cfg(feature = "wgpu")]
            Executable::Gpu(_) => {}
            Executable::Staged { .. } => {}
        }
        Ok(Watched::Here(outputs))
    }

    /// Activates this executable: takes the weights from the store.
    ///
    /// # Errors
    /// If a weight has another type there. Then nothing has changed.
    pub fn attach(&mut self, store: &mut Store) -> Result<(), Error> {
        match self {
            Executable::Reference(reference) => reference.attach(store),
            Executable::Host(host) => host.attach(store),
            #[cfg(feature = "wgpu")]
            Executable::Gpu(gpu) => gpu.attach(store),
            // It has no weights to set.
            Executable::Staged { .. } => Ok(()),
        }
    }

    /// Deactivates this executable: moves its weights, which all have values, to the store.
    pub fn detach(&mut self, store: &mut Store) -> Result<(), Error> {
        match self {
            Executable::Reference(reference) => reference.detach(store),
            Executable::Host(host) => host.detach(store)?,
            #[cfg(feature = "wgpu")]
            Executable::Gpu(gpu) => gpu.detach(store),
            Executable::Staged { .. } => {}
        }
        Ok(())
    }

    /// Returns the output with this number of the last run.
    pub async fn output(&self, number: usize) -> Result<Tensor, Error> {
        let not_run = || Error::internal(format!("there is no output {number} before a run"));
        match self {
            Executable::Reference(reference) => reference.outputs.get(number).cloned().ok_or_else(not_run),
            Executable::Host(host) => host.output(number),
            #[cfg(feature = "wgpu")]
            Executable::Gpu(gpu) => gpu.output(number).await,
            Executable::Staged { model, .. } => model.outputs().get(number).cloned().ok_or_else(not_run),
        }
    }

    /// Returns the outputs of the last run, in order.
    pub async fn read(&self) -> Result<Vec<Tensor>, Error> {
        match self {
            Executable::Reference(reference) => Ok(reference.outputs.clone()),
            Executable::Host(host) => host.read(),
            #[cfg(feature = "wgpu")]
            Executable::Gpu(gpu) => gpu.read().await,
            Executable::Staged { model, .. } => Ok(model.outputs().to_vec()),
        }
    }

    /// Returns the outputs of the last run, without a second copy in host memory.
    pub async fn into_outputs(self) -> Result<Vec<Tensor>, Error> {
        match self {
            Executable::Host(host) => host.into_outputs(),
            other => other.read().await,
        }
    }

    /// Runs [`Executable::execute`], then [`Executable::read`], in one submission if the device
    /// can.
    pub async fn run(&mut self) -> Result<Vec<Tensor>, Error> {
        #[cfg(feature = "wgpu")]
        if let Executable::Gpu(gpu) = self {
            return gpu.run().await;
        }
        self.execute().await?;
        self.read().await
    }
}

/// Outputs of a step, possibly in transfer.
pub enum Watched {
    Here(Vec<Tensor>),
    #[cfg(feature = "wgpu")]
    OnTheWay(GpuWatched),
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
            #[cfg(feature = "wgpu")]
            Watched::OnTheWay(watched) => watched.take().await,
        }
    }
}

/// A graph run by the reference interpreter.
pub struct ReferenceExecutable {
    graph: Graph,
    given: Vec<(String, Option<Tensor>)>,
    outputs: Vec<Tensor>,
}

impl ReferenceExecutable {
    pub fn new(graph: Graph) -> ReferenceExecutable {
        let sources = graph.inputs.iter().chain(&graph.weights);
        let given = sources.map(|&id| (given_name(&graph, id).to_owned(), None)).collect();
        ReferenceExecutable { graph, given, outputs: Vec::new() }
    }

    fn execute(&mut self) -> Result<(), Error> {
        let given = self.given.iter().filter_map(|(name, tensor)| Some((name, tensor.clone()?)));
        let outputs = interpret::run(&self.graph, &given.collect::<Vec<_>>()).map_err(|error| match error {
            interpret::Error::OutOfMemory { bytes } => {
                Error::OutOfMemory { device: "reference".into(), what: format!("{bytes} bytes") }
            }
            error => Error::bug(error),
        })?;
        self.outputs = outputs.into_iter().map(|(_, tensor)| tensor).collect();
        Ok(())
    }

    /// Returns each weight's position in `given`, name and type.
    fn weights(&self) -> impl Iterator<Item = (usize, &str, &TensorType)> {
        let (graph, first) = (&self.graph, self.graph.inputs.len());
        (first..).zip(&graph.weights).map(|(at, &id)| (at, given_name(graph, id), &graph.node(id).ty))
    }

    fn attach(&mut self, store: &mut Store) -> Result<(), Error> {
        self.weights().try_for_each(|(_, name, ty)| store.check(name, ty))?;
        for (name, tensor) in &mut self.given[self.graph.inputs.len()..] {
            if let Some(Stored { memory: Memory::Tensor(value), .. }) = store.take(name) {
                *tensor = Some(value);
            }
        }
        Ok(())
    }

    fn detach(&mut self, store: &mut Store) {
        for (name, tensor) in &mut self.given[self.graph.inputs.len()..] {
            if let Some(tensor) = tensor.take() {
                let (ty, storage) = (tensor.ty().clone(), tensor.dtype());
                store.put(name, Stored { ty, storage, memory: Memory::Tensor(tensor), given: true });
            }
        }
    }

    fn adopt(&mut self) {
        for ((name, _), tensor) in self.graph.outputs.iter().zip(&self.outputs) {
            let is_weight = |id: &NodeId| matches!(&self.graph.node(*id).op, Op::Weight(path) if path == name);
            if let Some(number) = self.graph.weights.iter().position(is_weight) {
                self.given[self.graph.inputs.len() + number].1 = Some(tensor.clone());
            }
        }
    }
}

/// Returns the name of an input or the path of a weight of the graph.
pub fn given_name(graph: &Graph, id: NodeId) -> &str {
    graph.node(id).op.given_name().unwrap_or_default()
}

/// Rounds the operands of the graph's contractions to a 16-bit float, if `factors` is one.
pub fn narrow(mut graph: Graph, factors: Option<DType>) -> Graph {
    if let Some(dtype) = factors.filter(|dtype| dtype.is_float() && dtype.bits() < 32) {
        passes::narrow(&mut graph, dtype);
    }
    graph
}

/// Returns the kernel of a routine, in a plan for shaders.
pub fn kernel(routine: &Routine) -> Result<&Kernel, Error> {
    routine.kernel.as_ref().ok_or_else(|| Error::internal(format!("{} has no kernel", routine.name)))
}

/// Emits a kernel's module for the device.
pub fn emit(kernel: &Kernel) -> Result<naga::Module, Error> {
    tile_compiler::emit::module(kernel).map_err(Error::bug)
}

#[cfg(all(test, feature = "wgpu"))]
mod tests;
