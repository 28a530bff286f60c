//! [`Session`]: a program compiled for given shapes on one device, to run any number of times.

use std::collections::HashSet;

use tile_compiler::bindings::{Bindings, SEED};
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::{Graph, NodeId};
use tile_compiler::plan::{Cost, Plan};
use tile_compiler::tensor::{Tensor, TensorType};
use tile_lang::Limits;

use crate::backend::{Executable, Ports, Watched, block_on};
use crate::device::Device;
use crate::error::Error;
use crate::model::Model;
use crate::store::Store;
use crate::trace::Trace;
use crate::value::Value;

#[cfg(feature = "wgpu")]
mod gpu;
mod lent;

/// The bytes of initial values computed together. The values of a larger weight are computed alone.
const INITIALISED_TOGETHER: usize = 8 << 20;

/// A program compiled for its shapes and its device, with its buffers.
///
/// ```
/// use tile_runtime::{Device, Model, Tensor};
///
/// let model = Model::compile(
///     "model Scale(X[N]) -> (Y) { param Factor[] = constant(3.0); Y = Factor * X; }",
/// )?;
/// let mut session = model.on(&Device::cpu()).dim("N", 2).build()?;
/// session.initialise(0)?;
/// let x = Tensor::from_f32([2], &[1.0, 2.0]).unwrap();
/// assert_eq!(session.run([("X", &x)])?.remove("Y")?.to_f64s(), [3.0, 6.0]);
///
/// session.set("Factor", &Tensor::from_f32([], &[5.0]).unwrap())?;
/// assert_eq!(session.run([("X", &x)])?.remove("Y")?.to_f64s(), [5.0, 10.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session {
    /// The inputs, then the weights.
    arguments: Vec<Argument>,
    /// The number of inputs in `arguments`.
    inputs: usize,
    outputs: Vec<Output>,
    /// The output that a view of a device's memory shows.
    viewed: Option<Tensor>,
    executable: Box<dyn Executable>,
    /// The graph of the weights' initial values. The outputs have the weights' paths.
    initial: Graph,
    /// The paths and classes of the program's layers, in the order of their application.
    pub(crate) layers: Vec<(String, String)>,
    /// The program that the session was made from.
    pub(crate) origin: Option<Origin>,
}

/// A program with what a session of it was built for.
#[derive(Clone)]
pub(crate) struct Origin {
    pub model: Model,
    pub device: Device,
    pub entry: Option<String>,
    pub bindings: Bindings,
    /// The limits that the session was given.
    pub limits: Option<Limits>,
}

/// An input or weight that the caller sets.
struct Argument {
    name: String,
    ty: TensorType,
    /// Whether the value persists for the next run: an input set by [`Session::set`], or any weight
    /// with a value.
    is_set: bool,
    /// Whether the value is in memory of the app on the device.
    is_bound: bool,
    /// Whether there is a value for the current run.
    is_given: bool,
}

/// An output.
struct Output {
    name: String,
    ty: TensorType,
    /// Whether the last run wrote it to memory of the app.
    is_lent: bool,
}

impl Session {
    pub(crate) fn new(executable: Box<dyn Executable>) -> Session {
        let Ports { inputs, weights, outputs } = executable.ports();
        let (count, all) = (inputs.len(), inputs.into_iter().chain(weights));
        let arguments = all
            .map(|(name, ty)| Argument {
                name,
                ty,
                is_set: false,
                is_bound: false,
                is_given: false,
            })
            .collect();
        let output = |(name, ty)| Output { name, ty, is_lent: false };
        Session {
            arguments,
            inputs: count,
            outputs: outputs.into_iter().map(output).collect(),
            viewed: None,
            executable,
            initial: Graph::default(),
            layers: Vec::new(),
            origin: None,
        }
    }

    pub(crate) fn keep_initial(&mut self, initial: Graph) {
        self.initial = initial;
    }

    /// Returns the plan. The reference interpreter has none, nor has an ONNX model with
    /// value-dependent shapes.
    pub fn plan(&self) -> Option<&Plan> {
        self.executable.plan()
    }

    /// Returns the cost of a run, from the plan.
    pub fn cost(&self) -> Option<Cost> {
        self.plan().map(Plan::cost)
    }

    /// Returns the names and types of the inputs, in the order of the program's header, without
    /// those bound to constants.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, &TensorType)> {
        let inputs = self.arguments[..self.inputs].iter().filter(|input| input.name != SEED);
        inputs.map(|input| (input.name.as_str(), &input.ty))
    }

    /// Returns the paths and types of the weights, in the order in which the program creates them.
    pub fn weights(&self) -> impl Iterator<Item = (&str, &TensorType)> {
        self.arguments[self.inputs..].iter().map(|weight| (weight.name.as_str(), &weight.ty))
    }

    /// Returns the paths and types of the weights without a value.
    pub fn missing_weights(&self) -> impl Iterator<Item = (&str, &TensorType)> {
        let missing = self.arguments[self.inputs..].iter().filter(|weight| !weight.is_set);
        missing.map(|weight| (weight.name.as_str(), &weight.ty))
    }

    /// Returns the names and types of the outputs, in the order of the program's header. Shapes
    /// that depend on values are those for the values at the build.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, &TensorType)> {
        self.outputs.iter().map(|output| (output.name.as_str(), &output.ty))
    }

    fn unknown_input(&self, name: &str) -> Error {
        let names = |arguments: &[Argument]| {
            arguments.iter().map(|argument| argument.name.clone()).collect()
        };
        Error::UnknownInput {
            name: name.into(),
            inputs: names(&self.arguments[..self.inputs]),
            weights: names(&self.arguments[self.inputs..]),
        }
    }

    /// Runs the program without blocking the thread that polls: on threads of the cpu device, or of
    /// the GPU's driver. The inputs are those of [`Session::run`], which are copied first. A run
    /// that is dropped may continue, and the next call waits for it.
    pub async fn run_async<N: AsRef<str>, T: Value>(
        &mut self,
        inputs: impl IntoIterator<Item = (N, T)>,
    ) -> Result<Outputs, Error> {
        self.arguments.iter_mut().for_each(|argument| argument.is_given = argument.is_set);
        for (name, value) in inputs {
            let number = self.number(name.as_ref(), &value)?;
            self.executable.set(number, &value).await?;
            self.arguments[number].is_set |= number >= self.inputs;
            self.arguments[number].is_given = true;
        }
        self.all_given(|argument| argument.is_given)?;
        self.outputs.iter_mut().for_each(|output| output.is_lent = false);
        let tensors = self.executable.run_async().await?;
        Ok(self.named(tensors))
    }

    /// Returns an error for the first input or weight that is not given.
    fn all_given(&self, is_given: impl Fn(&Argument) -> bool) -> Result<(), Error> {
        let missing = self.arguments.iter().position(|argument| !is_given(argument));
        let Some(number) = missing else { return Ok(()) };
        let (name, expected) =
            (self.arguments[number].name.clone(), self.arguments[number].ty.clone());
        Err(match number < self.inputs {
            true => Error::MissingInput { name, expected },
            false => Error::MissingWeight { path: name, expected },
        })
    }

    /// Begins a run on the values of [`Session::set`].
    fn begin(&mut self) -> Result<(), Error> {
        self.all_given(|argument| argument.is_set)?;
        self.outputs.iter_mut().for_each(|output| output.is_lent = false);
        Ok(())
    }

    fn named(&self, tensors: Vec<Tensor>) -> Outputs {
        Outputs(self.outputs.iter().map(|output| output.name.clone()).zip(tensors).collect())
    }

    /// Runs the program. `inputs` must give every input not set by [`Session::set`], by name, in
    /// the type and shape of the session, and may give weights by their paths. They are tensors, or
    /// arrays of `ndarray`; see [`Value`].
    pub fn run<N: AsRef<str>, T: Value>(
        &mut self,
        inputs: impl IntoIterator<Item = (N, T)>,
    ) -> Result<Outputs, Error> {
        let values = self.take(inputs)?;
        let lent: lent::Values<&dyn Value> =
            values.iter().map(|(number, value)| (*number, value as &dyn Value)).collect();
        let tensors = block_on(self.executable.run(&lent))?;
        Ok(self.named(tensors))
    }

    /// Sets a weight by its path, or an input, for all later runs. It is uploaded once and stays on
    /// the device. A run can give another value, which then replaces it for later runs.
    pub fn set(&mut self, name: &str, value: &dyn Value) -> Result<(), Error> {
        block_on(self.set_async(name, value))
    }

    /// The async form of [`Session::set`].
    pub async fn set_async(&mut self, name: &str, value: &dyn Value) -> Result<(), Error> {
        let number = self.number(name, value)?;
        self.executable.set(number, value).await?;
        self.arguments[number].is_set = true;
        Ok(())
    }

    /// Returns a weight by its path, or an input, that has a value.
    pub fn get(&self, name: &str) -> Result<Tensor, Error> {
        let Some(number) = self.arguments.iter().position(|argument| argument.name == name) else {
            return Err(self.unknown_input(name));
        };
        let Argument { ty, is_set, .. } = &self.arguments[number];
        match is_set {
            true => block_on(self.executable.get(number)),
            false if number < self.inputs => {
                Err(Error::MissingInput { name: name.into(), expected: ty.clone() })
            }
            false => Err(Error::MissingWeight { path: name.into(), expected: ty.clone() }),
        }
    }

    /// Returns whether no weight has a value.
    pub(crate) fn has_no_weights(&self) -> bool {
        self.arguments[self.inputs..].iter().all(|argument| !argument.is_set)
    }

    /// Initialises every weight without a value. The same seed gives the same values on every
    /// device.
    ///
    /// # Errors
    /// Returns [`Error::MissingWeight`] for a pack whose weights have no values: it has no program
    /// for the first ones.
    #[cfg(feature = "compile")]
    pub fn initialise(&mut self, seed: u64) -> Result<(), Error> {
        let missing = self.arguments[self.inputs..].iter().filter(|argument| !argument.is_set);
        let missing: HashSet<&str> = missing.map(|argument| argument.name.as_str()).collect();
        let is_missing = |(path, _): &&(String, NodeId)| missing.contains(path.as_str());
        let mut wanted: Vec<(String, NodeId)> =
            self.initial.outputs.iter().filter(is_missing).cloned().collect();
        // Works in parts, so that there are never two copies of all weights.
        while !wanted.is_empty() {
            let mut bytes = 0;
            let fits = |(_, id): &&(String, NodeId)| {
                let ty = &self.initial.node(*id).ty;
                bytes += ty.elements().saturating_mul(ty.dtype.size());
                bytes <= INITIALISED_TOGETHER
            };
            let count = wanted.iter().take_while(fits).count().max(1);
            let part = self.initial.part(wanted.drain(..count).collect());
            for (path, value) in first_values(part, seed)? {
                self.set(&path, &value)?;
            }
        }
        // All weights have values now, so the graph is no longer needed.
        self.initial = Graph::default();
        match self.missing_weights().next() {
            None => Ok(()),
            Some((path, ty)) => {
                Err(Error::MissingWeight { path: path.into(), expected: ty.clone() })
            }
        }
    }

    /// Sets the seed of the program's random numbers for all later runs, and the number of the
    /// step, which should differ from run to run.
    pub fn seed(&mut self, seed: u64, step: u32) -> Result<(), Error> {
        block_on(self.seed_async(seed, step))
    }

    /// The async form of [`Session::seed`].
    pub async fn seed_async(&mut self, seed: u64, step: u32) -> Result<(), Error> {
        if self.arguments[..self.inputs].iter().any(|input| input.name == SEED) {
            let words = [seed as u32, ((seed >> 32) as u32).wrapping_add(step)];
            let words = words.map(|word| Scalar::from_i64(DType::U32, i64::from(word)));
            if let Some(tensor) = Tensor::from_scalars(TensorType::new(DType::U32, [2]), words) {
                self.set_async(SEED, &tensor).await?;
            }
        }
        Ok(())
    }

    /// Runs the program, with inputs and weights set by [`Session::set`], and waits. The outputs
    /// stay on the device, for [`Session::read`].
    pub fn execute(&mut self) -> Result<(), Error> {
        self.repeat(1)
    }

    /// Runs the program `runs` times. An asynchronous device gets all runs at once, so the elapsed
    /// time is the device's.
    pub fn repeat(&mut self, runs: u32) -> Result<(), Error> {
        self.begin()?;
        block_on(self.executable.repeat(runs))
    }

    /// Runs the program like [`Session::execute`], and returns the times of the plan's steps.
    /// Timing slows the run slightly. Returns `None` without a run on the reference interpreter,
    /// under the kernel checker, and on adapters without timestamps.
    pub fn trace(&mut self) -> Result<Option<Trace>, Error> {
        self.begin()?;
        block_on(self.executable.trace())
    }

    /// Runs a session made with a store. Then replaces each weight that the program changes by its
    /// next value. Does not wait for the device. `watched` names the outputs to return.
    pub(crate) fn step(&mut self, watched: &[&str]) -> Result<Watched, Error> {
        self.begin()?;
        let watched =
            watched.iter().map(|name| self.output_number(name)).collect::<Result<Vec<_>, _>>()?;
        block_on(self.executable.step(&watched))
    }

    /// Activates the session: takes the weights from the store.
    ///
    /// # Errors
    /// Returns [`Error::WrongWeight`] without changes if a weight has another type in the store.
    pub(crate) fn attach(&mut self, store: &mut Store) -> Result<(), Error> {
        self.arguments[self.inputs..]
            .iter_mut()
            .for_each(|weight| weight.is_set = store.has(&weight.name));
        self.executable.attach(store)
    }

    /// Deactivates the session: moves its weights to the store. All weights must have values.
    pub(crate) fn detach(&mut self, store: &mut Store) -> Result<(), Error> {
        self.executable.detach(store)
    }

    /// Returns the names of all inputs, including hidden ones, and the paths of the weights.
    pub(crate) fn given_names(&self) -> Vec<String> {
        self.arguments.iter().map(|argument| argument.name.clone()).collect()
    }

    /// Returns whether the program has an input with this name, possibly a hidden one.
    pub(crate) fn has_input(&self, name: &str) -> bool {
        self.arguments[..self.inputs].iter().any(|input| input.name == name)
    }

    /// Returns one output of the last run.
    pub(crate) fn output(&self, name: &str) -> Result<Tensor, Error> {
        block_on(self.executable.output(self.output_number(name)?))
    }

    fn known_output(&self, name: &str) -> Result<usize, Error> {
        let number = self.outputs.iter().position(|output| output.name == name);
        number.ok_or_else(|| Error::UnknownOutput {
            name: name.into(),
            outputs: self.outputs.iter().map(|output| output.name.clone()).collect(),
        })
    }

    /// Returns the number of an output that is in memory of the session.
    fn output_number(&self, name: &str) -> Result<usize, Error> {
        let number = self.known_output(name)?;
        self.outputs[number].check()?;
        Ok(number)
    }

    /// Returns the outputs of the last [`Session::execute`].
    ///
    /// # Errors
    /// Those of the device, and [`Error::LentOutput`] if the last run was [`Session::run_into`].
    pub fn read(&self) -> Result<Outputs, Error> {
        self.outputs.iter().try_for_each(Output::check)?;
        block_on(self.executable.read()).map(|tensors| self.named(tensors))
    }
}

impl Output {
    /// Checks that the output is in memory of the session.
    fn check(&self) -> Result<(), Error> {
        match self.is_lent {
            true => Err(Error::LentOutput { name: self.name.clone() }),
            false => Ok(()),
        }
    }
}

/// Returns the outputs of a graph whose only input is a seed.
#[cfg(feature = "compile")]
pub(crate) fn first_values(graph: Graph, seed: u64) -> Result<Outputs, Error> {
    let mut session = Session::of_graph(graph, &Device::cpu())?;
    session.seed(seed, 0)?;
    session.execute()?;
    session.read()
}

/// The results of a run, in the order of the program's header.
///
/// ```
/// use tile_runtime::{Device, Model, Tensor};
///
/// let model = Model::compile("function f(X[N]) -> (Y, Z) { Y = X + 1; Z = -X; }")?;
/// let mut session = model.on(&Device::cpu()).dim("N", 1).build()?;
/// let mut outputs = session.run([("X", Tensor::from_f32([1], &[4.0]).unwrap())])?;
/// assert_eq!(outputs.names().collect::<Vec<_>>(), ["Y", "Z"]);
/// assert_eq!(outputs.remove("Z")?.to_f64s(), [-4.0]);
/// assert!(outputs.get("Z").is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Outputs(Vec<(String, Tensor)>);

impl Outputs {
    /// Removes and returns the output with this name.
    ///
    /// # Errors
    /// [`Error::UnknownOutput`] if there is no such output, or it was already removed.
    pub fn remove(&mut self, name: &str) -> Result<Tensor, Error> {
        match self.0.iter().position(|(n, _)| n == name) {
            Some(position) => Ok(self.0.remove(position).1),
            None => Err(Error::UnknownOutput {
                name: name.into(),
                outputs: self.names().map(str::to_owned).collect(),
            }),
        }
    }

    /// Returns an output, if there is one of this name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.iter().find(|(n, _)| *n == name).map(|(_, tensor)| tensor)
    }

    /// Returns the names, in the order of the program's header.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    /// Returns the outputs with their names, in the order of the program's header.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.0.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }
}

impl From<Vec<(String, Tensor)>> for Outputs {
    fn from(outputs: Vec<(String, Tensor)>) -> Outputs {
        Outputs(outputs)
    }
}

impl IntoIterator for Outputs {
    type Item = (String, Tensor);
    type IntoIter = std::vec::IntoIter<(String, Tensor)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
