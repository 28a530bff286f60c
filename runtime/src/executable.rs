//! [`Executable`]: what each kind of device makes of a program, behind one interface.

use tile_compiler::graph::{Graph, NodeId, Op};
use tile_compiler::interpret;
use tile_compiler::kernel::Kernel;
use tile_compiler::plan::{Plan, Routine};
use tile_compiler::tensor::{Tensor, TensorType};

use crate::device::{Device, Kind};
use crate::error::Error;
use crate::host::HostExecutable;
use crate::store::{Memory, Store, Stored};
#[cfg(not(target_arch = "wasm32"))]
use crate::trace::Trace;
#[cfg(feature = "wgpu")]
use crate::wgpu::{GpuExecutable, GpuWatched};

/// A program with its memory on a device. What it is given (inputs, then weights) and its outputs are numbered as in the graph
/// or plan it was made from.
pub enum Executable {
    Reference(ReferenceExecutable),
    Host(HostExecutable),
    #[cfg(feature = "wgpu")]
    Gpu(GpuExecutable),
}

impl Executable {
    /// Makes ready a plan for the device's profile. On a GPU it binds the weights that the store has, and this then has all of them.
    pub async fn new(device: &Device, plan: Plan, store: &mut Store) -> Result<Executable, Error> {
        match &device.0 {
            Kind::Cpu { exact } => HostExecutable::cpu(plan, *exact).map(Executable::Host),
            Kind::Check(_) => HostExecutable::check(plan).map(Executable::Host),
            Kind::Reference => Err(Error::Internal { what: "the reference device runs graphs, not plans".into() }),
            #[cfg(feature = "wgpu")]
            Kind::Wgpu { gpu, checked } => {
                GpuExecutable::new(gpu.clone(), plan, *checked, store).await.map(Executable::Gpu)
            }
        }
    }

    /// Gives the input or weight of this number, a tensor of its type. It stays until it is given again.
    pub async fn set(&mut self, number: usize, tensor: &Tensor) -> Result<(), Error> {
        match self {
            Executable::Reference(reference) => {
                reference.given[number].1 = Some(tensor.clone());
                Ok(())
            }
            Executable::Host(host) => host.set(number, tensor),
            #[cfg(feature = "wgpu")]
            Executable::Gpu(gpu) => gpu.set(number, tensor).await,
        }
    }

    /// The input or weight of this number, which has been given.
    pub async fn get(&self, number: usize) -> Result<Tensor, Error> {
        match self {
            Executable::Reference(reference) => reference.given.get(number).and_then(|(_, tensor)| tensor.clone()),
            Executable::Host(host) => host.get(number),
            #[cfg(feature = "wgpu")]
            Executable::Gpu(gpu) => return gpu.get(number).await,
        }
        .ok_or_else(|| Error::Internal { what: format!("there is no input or weight {number}") })
    }

    /// Runs the program once, on inputs that have all been given. The outputs stay on the device.
    pub async fn execute(&mut self) -> Result<(), Error> {
        self.repeat(1).await
    }

    /// The same so many times; a device that works beside the host is handed all runs at once.
    pub async fn repeat(&mut self, runs: u32) -> Result<(), Error> {
        match self {
            Executable::Reference(reference) => (0..runs).try_for_each(|_| reference.execute()),
            Executable::Host(host) => (0..runs).try_for_each(|_| host.execute()),
            #[cfg(feature = "wgpu")]
            Executable::Gpu(gpu) => gpu.repeat(runs).await,
        }
    }

    /// As [`Executable::execute`], with the time of each launch; `None` where there is no such thing.
    #[cfg(not(target_arch = "wasm32"))]
    pub async fn trace(&mut self) -> Result<Option<Trace>, Error> {
        match self {
            Executable::Reference(_) => Ok(None),
            Executable::Host(host) => host.trace(),
            #[cfg(feature = "wgpu")]
            Executable::Gpu(gpu) => gpu.trace().await,
        }
    }

    /// The seconds that a run takes on the device, of so many one after the other, without the prelude.
    ///
    /// # Errors
    /// Also where nobody looks at the time.
    #[cfg(not(target_arch = "wasm32"))]
    pub async fn time(&mut self, runs: u32) -> Result<f64, Error> {
        #[cfg(feature = "wgpu")]
        if let Executable::Gpu(gpu) = self {
            return gpu.time(runs).await;
        }
        Err(Error::Internal { what: format!("{runs} runs of what has no clock") })
    }

    /// The plan that it runs.
    pub fn plan(&self) -> Option<&Plan> {
        match self {
            Executable::Reference(_) => None,
            Executable::Host(host) => Some(&host.plan),
            #[cfg(feature = "wgpu")]
            Executable::Gpu(gpu) => Some(&gpu.plan),
        }
    }

    /// Runs the program once, after which the next values of weights, the outputs with their names, are their values. Those
    /// outputs are not to be read after that. A device that works beside the host need not be done; `watched` are numbers of
    /// outputs whose values the caller wants.
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
        }
        Ok(Watched::Here(outputs))
    }

    /// Begins its turn with the weights that the store has.
    ///
    /// # Errors
    /// Where one has another type there; then nothing has changed.
    pub fn attach(&mut self, store: &mut Store) -> Result<(), Error> {
        match self {
            Executable::Reference(reference) => reference.attach(store),
            Executable::Host(host) => host.attach(store),
            #[cfg(feature = "wgpu")]
            Executable::Gpu(gpu) => gpu.attach(store),
        }
    }

    /// Ends its turn: hands its weights, which all have values, to the store.
    pub fn detach(&mut self, store: &mut Store) -> Result<(), Error> {
        match self {
            Executable::Reference(reference) => reference.detach(store),
            Executable::Host(host) => host.detach(store)?,
            #[cfg(feature = "wgpu")]
            Executable::Gpu(gpu) => gpu.detach(store),
        }
        Ok(())
    }

    /// The output of this number of the last run.
    pub async fn output(&self, number: usize) -> Result<Tensor, Error> {
        match self {
            Executable::Reference(reference) => Ok(reference.outputs[number].clone()),
            Executable::Host(host) => host.output(number),
            #[cfg(feature = "wgpu")]
            Executable::Gpu(gpu) => gpu.output(number).await,
        }
    }

    /// The outputs of the last run, in their order.
    pub async fn read(&self) -> Result<Vec<Tensor>, Error> {
        match self {
            Executable::Reference(reference) => Ok(reference.outputs.clone()),
            Executable::Host(host) => host.read(),
            #[cfg(feature = "wgpu")]
            Executable::Gpu(gpu) => gpu.read().await,
        }
    }

    /// The same, of a program that is not run again: the host makes no second copy.
    #[cfg(not(target_arch = "wasm32"))]
    pub async fn into_outputs(self) -> Result<Vec<Tensor>, Error> {
        match self {
            Executable::Host(host) => host.into_outputs(),
            other => other.read().await,
        }
    }

    /// [`Executable::execute`], then [`Executable::read`], in one go where the device can.
    pub async fn run(&mut self) -> Result<Vec<Tensor>, Error> {
        #[cfg(feature = "wgpu")]
        if let Executable::Gpu(gpu) = self {
            return gpu.run().await;
        }
        self.execute().await?;
        self.read().await
    }
}

/// Outputs of a step.
pub enum Watched {
    Here(Vec<Tensor>),
    #[cfg(feature = "wgpu")]
    OnTheWay(GpuWatched),
}

impl Watched {
    /// Whether there is nothing to wait for.
    pub fn is_here(&self) -> bool {
        matches!(self, Watched::Here(_))
    }

    /// The outputs, once the step is done.
    pub async fn take(self) -> Result<Vec<Tensor>, Error> {
        match self {
            Watched::Here(outputs) => Ok(outputs),
            #[cfg(feature = "wgpu")]
            Watched::OnTheWay(watched) => watched.take().await,
        }
    }
}

/// A graph under the reference interpreter.
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
            error => Error::Internal { what: error.to_string() },
        })?;
        self.outputs = outputs.into_iter().map(|(_, tensor)| tensor).collect();
        Ok(())
    }

    /// Names and types of its weights, each with its place in `given`.
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

/// The name of an input or the path of a weight of the graph.
pub fn given_name(graph: &Graph, id: NodeId) -> &str {
    graph.node(id).op.given_name().unwrap_or_default()
}

/// The kernel of a routine, in a plan for shaders.
pub fn kernel(routine: &Routine) -> Result<&Kernel, Error> {
    routine.kernel.as_ref().ok_or_else(|| Error::Internal { what: format!("{} has no kernel", routine.name) })
}

/// The module that a device is given for a kernel.
pub fn emit(kernel: &Kernel) -> Result<naga::Module, Error> {
    tile_compiler::emit::module(kernel).map_err(|error| Error::Internal { what: error.to_string() })
}

#[cfg(all(test, feature = "wgpu"))]
mod tests;
