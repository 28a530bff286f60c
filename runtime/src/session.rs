//! [`Session`]: a program compiled for given shapes on one device, run any number of times.

use std::borrow::Borrow;
use std::collections::HashSet;

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::{Graph, NodeId};
use tile_compiler::lower::Network;
use tile_compiler::plan::{Cost, Plan};
use tile_compiler::tensor::{Tensor, TensorType};

use crate::device::Device;
use crate::error::Error;
use crate::executable::Executable;
#[cfg(not(target_arch = "wasm32"))]
use crate::{executable::Watched, store::Store, trace::Trace, train::TrainerBuilder};

/// Bytes of first values that are computed together; a larger weight's are computed alone.
#[cfg(not(target_arch = "wasm32"))]
const INITIALISED_TOGETHER: usize = 8 << 20;

/// A program made ready for its shapes and its device, with its buffers and compiled kernels.
pub struct Session {
    /// The inputs, then the weights.
    given: Vec<Given>,
    /// How many of `given` are inputs.
    inputs: usize,
    outputs: Vec<(String, TensorType)>,
    executable: Executable,
    /// Computes the first values of the weights; see [`Network::initial`].
    initial: Graph,
    /// How its model would be trained.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) origin: Option<TrainerBuilder>,
}

/// A tensor that the caller gives.
struct Given {
    name: String,
    ty: TensorType,
    /// Whether it need not be given for the next run: an input given by [`Session::set`], a weight given at all.
    kept: bool,
}

impl Session {
    pub(crate) fn new(
        inputs: Vec<(String, TensorType)>,
        weights: Vec<(String, TensorType)>,
        outputs: Vec<(String, TensorType)>,
        executable: Executable,
    ) -> Session {
        let (count, all) = (inputs.len(), inputs.into_iter().chain(weights));
        let given = all.map(|(name, ty)| Given { name, ty, kept: false }).collect();
        Session {
            given,
            inputs: count,
            outputs,
            executable,
            initial: Graph::default(),
            #[cfg(not(target_arch = "wasm32"))]
            origin: None,
        }
    }

    pub(crate) fn keep_initial(&mut self, initial: Graph) {
        self.initial = initial;
    }

    /// What it runs; the reference interpreter has no plan.
    pub fn plan(&self) -> Option<&Plan> {
        self.executable.plan()
    }

    /// What a run costs by its plan.
    pub fn cost(&self) -> Option<Cost> {
        self.plan().map(Plan::cost)
    }

    /// Names and types of the inputs, in the order of the program's header. Those bound to constants are not among them.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, &TensorType)> {
        let inputs = self.given[..self.inputs].iter().filter(|input| input.name != Network::SEED);
        inputs.map(|input| (input.name.as_str(), &input.ty))
    }

    /// Paths and types of the weights, in the order in which the program makes them.
    pub fn weights(&self) -> impl Iterator<Item = (&str, &TensorType)> {
        self.given[self.inputs..].iter().map(|weight| (weight.name.as_str(), &weight.ty))
    }

    /// Names and types of the outputs, in the order of the program's header.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, &TensorType)> {
        self.outputs.iter().map(|(name, ty)| (name.as_str(), ty))
    }

    /// The number in `given` of the input or, if there is none of this name, the weight, after a look at the tensor that
    /// it is to be.
    fn number(&self, name: &str, tensor: &Tensor) -> Result<usize, Error> {
        let found = self.given.iter().position(|given| given.name == name);
        let names = |given: &[Given]| given.iter().map(|given| given.name.clone()).collect();
        let number = found.ok_or_else(|| Error::UnknownInput {
            name: name.into(),
            inputs: names(&self.given[..self.inputs]),
            weights: names(&self.given[self.inputs..]),
        })?;
        let expected = &self.given[number].ty;
        if tensor.ty() == expected {
            return Ok(number);
        }
        let (name, expected, given) = (name.into(), expected.clone(), tensor.ty().clone());
        Err(match number < self.inputs {
            true => Error::WrongInput { name, expected, given },
            false => Error::WrongWeight { path: name, expected, given },
        })
    }

    /// Runs the program. `inputs` must give every input that [`Session::set`] has not, by name, in the type and shape
    /// for which the session was built, and may give weights by their paths. The async form of [`Session::run`].
    pub async fn run_async<N: AsRef<str>, T: Borrow<Tensor>>(
        &mut self,
        inputs: impl IntoIterator<Item = (N, T)>,
    ) -> Result<Outputs, Error> {
        let mut given: Vec<bool> = self.given.iter().map(|given| given.kept).collect();
        for (name, tensor) in inputs {
            let number = self.number(name.as_ref(), tensor.borrow())?;
            self.executable.set(number, tensor.borrow()).await?;
            self.given[number].kept |= number >= self.inputs;
            given[number] = true;
        }
        self.all_given(&given)?;
        let tensors = self.executable.run().await?;
        Ok(self.named(tensors))
    }

    /// An error for the first input or weight that is not `given`.
    fn all_given(&self, given: &[bool]) -> Result<(), Error> {
        let Some(number) = given.iter().position(|given| !given) else { return Ok(()) };
        let (name, expected) = (self.given[number].name.clone(), self.given[number].ty.clone());
        Err(match number < self.inputs {
            true => Error::MissingInput { name, expected },
            false => Error::MissingWeight { path: name, expected },
        })
    }

    fn named(&self, tensors: Vec<Tensor>) -> Outputs {
        Outputs(self.outputs.iter().map(|(name, _)| name.clone()).zip(tensors).collect())
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl Session {
    /// Runs the program. `inputs` must give every input that [`Session::set`] has not, by name, in the type and shape
    /// for which the session was built, and may give weights by their paths.
    pub fn run<N: AsRef<str>, T: Borrow<Tensor>>(
        &mut self,
        inputs: impl IntoIterator<Item = (N, T)>,
    ) -> Result<Outputs, Error> {
        pollster::block_on(self.run_async(inputs))
    }

    /// Gives a weight by its path, or an input, for all runs to come: it is uploaded once and stays on the device. A run
    /// may still give another, which then stays instead.
    pub fn set(&mut self, name: &str, tensor: &Tensor) -> Result<(), Error> {
        let number = self.number(name, tensor)?;
        pollster::block_on(self.executable.set(number, tensor))?;
        self.given[number].kept = true;
        Ok(())
    }

    /// A weight by its path, or an input, that has been given.
    pub fn get(&self, name: &str) -> Result<Tensor, Error> {
        let names = |given: &[Given]| given.iter().map(|given| given.name.clone()).collect();
        let Some(number) = self.given.iter().position(|given| given.name == name) else {
            let (inputs, weights) = (names(&self.given[..self.inputs]), names(&self.given[self.inputs..]));
            return Err(Error::UnknownInput { name: name.into(), inputs, weights });
        };
        let Given { ty, kept, .. } = &self.given[number];
        match kept {
            true => pollster::block_on(self.executable.get(number)),
            false if number < self.inputs => Err(Error::MissingInput { name: name.into(), expected: ty.clone() }),
            false => Err(Error::MissingWeight { path: name.into(), expected: ty.clone() }),
        }
    }

    /// Gives every weight that has no value yet its first value, from its initializer. The same seed gives the same values
    /// on every device.
    pub fn initialise(&mut self, seed: u64) -> Result<(), Error> {
        let missing = self.given[self.inputs..].iter().filter(|given| !given.kept);
        let missing: HashSet<&str> = missing.map(|given| given.name.as_str()).collect();
        let mut initial = std::mem::take(&mut self.initial);
        let mut wanted = std::mem::take(&mut initial.outputs);
        wanted.retain(|(path, _)| missing.contains(path.as_str()));
        // A part at a time, so that there are never two copies of all weights.
        while !wanted.is_empty() {
            let mut bytes = 0;
            let fits = |(_, id): &&(String, NodeId)| {
                let ty = &initial.node(*id).ty;
                bytes += ty.elements().saturating_mul(ty.dtype.size());
                bytes <= INITIALISED_TOGETHER
            };
            let count = wanted.iter().take_while(fits).count().max(1);
            let part = initial.part(wanted.drain(..count).collect());
            for (path, value) in first_values(part, seed)? {
                self.set(&path, &value)?;
            }
        }
        Ok(())
    }

    /// What the program's random numbers are made from, for all runs to come: a seed, and the number of the step, which is
    /// to differ from run to run.
    pub fn seed(&mut self, seed: u64, step: u32) -> Result<(), Error> {
        if self.given[..self.inputs].iter().any(|input| input.name == Network::SEED) {
            let words = [seed as u32, ((seed >> 32) as u32).wrapping_add(step)];
            let words = words.map(|word| Scalar::from_i64(DType::U32, i64::from(word)));
            if let Some(tensor) = Tensor::from_scalars(TensorType::new(DType::U32, [2]), words) {
                self.set(Network::SEED, &tensor)?;
            }
        }
        Ok(())
    }

    /// Runs the program on inputs and weights that have all been given by [`Session::set`], and waits until it is done. The outputs
    /// stay on the device, for [`Session::read`].
    pub fn execute(&mut self) -> Result<(), Error> {
        self.repeat(1)
    }

    /// The same so many times. A device that works beside the host is handed all runs at once: the time that they take is the
    /// device's.
    pub fn repeat(&mut self, runs: u32) -> Result<(), Error> {
        let kept: Vec<bool> = self.given.iter().map(|given| given.kept).collect();
        self.all_given(&kept)?;
        pollster::block_on(self.executable.repeat(runs))
    }

    /// As [`Session::execute`], and says when each of the plan's steps was at work; looking at the clock makes the run a little slower.
    /// `None`, and no run, where there is no such thing: on the reference interpreter, under the kernel checker, and on adapters
    /// without timestamps.
    pub fn trace(&mut self) -> Result<Option<Trace>, Error> {
        let kept: Vec<bool> = self.given.iter().map(|given| given.kept).collect();
        self.all_given(&kept)?;
        pollster::block_on(self.executable.trace())
    }

    /// Runs a session that was made with a store, after which each weight that the program changes has its next value. Does not
    /// wait for the device; `watched` are the outputs whose values are wanted.
    pub(crate) fn step(&mut self, watched: &[&str]) -> Result<Watched, Error> {
        let kept: Vec<bool> = self.given.iter().map(|given| given.kept).collect();
        self.all_given(&kept)?;
        let watched = watched.iter().map(|name| self.output_number(name)).collect::<Result<Vec<_>, _>>()?;
        pollster::block_on(self.executable.step(&watched))
    }

    /// Begins its turn with the weights that the store has.
    ///
    /// # Errors
    /// [`Error::WrongWeight`]; then nothing has changed.
    pub(crate) fn attach(&mut self, store: &mut Store) -> Result<(), Error> {
        self.given[self.inputs..].iter_mut().for_each(|weight| weight.kept = store.has(&weight.name));
        self.executable.attach(store)
    }

    /// Ends its turn: hands its weights, which all have values, to the store.
    pub(crate) fn detach(&mut self, store: &mut Store) -> Result<(), Error> {
        self.executable.detach(store)
    }

    /// The names of all inputs, hidden ones too, and the paths of the weights.
    pub(crate) fn given_names(&self) -> Vec<String> {
        self.given.iter().map(|given| given.name.clone()).collect()
    }

    /// Whether the program has an input of this name, be it one that it does not name itself.
    pub(crate) fn has_input(&self, name: &str) -> bool {
        self.given[..self.inputs].iter().any(|input| input.name == name)
    }

    /// One output of the last run.
    pub(crate) fn output(&self, name: &str) -> Result<Tensor, Error> {
        pollster::block_on(self.executable.output(self.output_number(name)?))
    }

    fn output_number(&self, name: &str) -> Result<usize, Error> {
        let number = self.outputs.iter().position(|(output, _)| output == name);
        number.ok_or_else(|| Error::Internal { what: format!("there is no output `{name}`") })
    }

    /// The outputs of the last [`Session::execute`].
    pub fn read(&self) -> Result<Outputs, Error> {
        pollster::block_on(self.executable.read()).map(|tensors| self.named(tensors))
    }
}

/// The outputs of a graph that needs nothing but a seed.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn first_values(graph: Graph, seed: u64) -> Result<Outputs, Error> {
    let mut session = Session::of_graph(graph, &Device::cpu())?;
    session.seed(seed, 0)?;
    session.execute()?;
    let tensors = pollster::block_on(session.executable.into_outputs())?;
    Ok(Outputs(session.outputs.into_iter().map(|(name, _)| name).zip(tensors).collect()))
}

/// The results of a run, in the order of the program's header.
#[derive(Clone, Debug, PartialEq)]
pub struct Outputs(Vec<(String, Tensor)>);

impl Outputs {
    /// Takes out the output of this name.
    ///
    /// # Panics
    /// Where there is no such output (any more), as indexing does. For a name that the source code does not know,
    /// [`Outputs::get`] or iterate.
    #[track_caller]
    pub fn remove(&mut self, name: &str) -> Tensor {
        match self.0.iter().position(|(n, _)| n == name) {
            Some(position) => self.0.remove(position).1,
            None => panic!("there is no output `{name}`; the outputs are {:?}", self.names().collect::<Vec<_>>()),
        }
    }

    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.iter().find(|(n, _)| *n == name).map(|(_, tensor)| tensor)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

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
