//! [`Session`]: a program compiled for given shapes on one device, run any number of times.

use std::borrow::Borrow;

use tile_compiler::tensor::{Tensor, TensorType};

use crate::error::Error;
use crate::executable::Executable;

/// A program made ready for its shapes and its device, with its buffers and compiled kernels.
pub struct Session {
    inputs: Vec<Input>,
    outputs: Vec<(String, TensorType)>,
    executable: Executable,
}

struct Input {
    name: String,
    ty: TensorType,
    /// Whether it was given by [`Session::set`], and so need not be given for each run.
    kept: bool,
}

impl Session {
    pub(crate) fn new(
        inputs: Vec<(String, TensorType)>,
        outputs: Vec<(String, TensorType)>,
        executable: Executable,
    ) -> Session {
        let inputs = inputs.into_iter().map(|(name, ty)| Input { name, ty, kept: false }).collect();
        Session { inputs, outputs, executable }
    }

    /// Names and types of the inputs, in the order of the program's header. Those bound to constants are not among them.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, &TensorType)> {
        self.inputs.iter().map(|input| (input.name.as_str(), &input.ty))
    }

    /// Names and types of the outputs, in the order of the program's header.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, &TensorType)> {
        self.outputs.iter().map(|(name, ty)| (name.as_str(), ty))
    }

    /// The number of the input of this name, after a look at the tensor that it is to be.
    fn input(&self, name: &str, tensor: &Tensor) -> Result<usize, Error> {
        let found = self.inputs.iter().position(|input| input.name == name);
        let number = found.ok_or_else(|| Error::UnknownInput {
            name: name.into(),
            inputs: self.inputs.iter().map(|input| input.name.clone()).collect(),
        })?;
        let expected = &self.inputs[number].ty;
        if tensor.ty() != expected {
            let (expected, given) = (expected.clone(), tensor.ty().clone());
            return Err(Error::WrongInput { name: name.into(), expected, given });
        }
        Ok(number)
    }

    /// Runs the program. `inputs` must give every input that [`Session::set`] has not, by name, in the type and shape
    /// for which the session was built. The async form of [`Session::run`].
    pub async fn run_async<N: AsRef<str>, T: Borrow<Tensor>>(
        &mut self,
        inputs: impl IntoIterator<Item = (N, T)>,
    ) -> Result<Outputs, Error> {
        let mut given: Vec<bool> = self.inputs.iter().map(|input| input.kept).collect();
        for (name, tensor) in inputs {
            let number = self.input(name.as_ref(), tensor.borrow())?;
            self.executable.set(number, tensor.borrow()).await?;
            given[number] = true;
        }
        self.all_given(&given)?;
        let tensors = self.executable.run().await?;
        Ok(self.named(tensors))
    }

    /// An error for the first input that is not `given`.
    fn all_given(&self, given: &[bool]) -> Result<(), Error> {
        match self.inputs.iter().zip(given).find(|(_, given)| !**given) {
            Some((Input { name, ty, .. }, _)) => Err(Error::MissingInput { name: name.clone(), expected: ty.clone() }),
            None => Ok(()),
        }
    }

    fn named(&self, tensors: Vec<Tensor>) -> Outputs {
        Outputs(self.outputs.iter().map(|(name, _)| name.clone()).zip(tensors).collect())
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl Session {
    /// Runs the program. `inputs` must give every input that [`Session::set`] has not, by name, in the type and shape
    /// for which the session was built.
    pub fn run<N: AsRef<str>, T: Borrow<Tensor>>(
        &mut self,
        inputs: impl IntoIterator<Item = (N, T)>,
    ) -> Result<Outputs, Error> {
        pollster::block_on(self.run_async(inputs))
    }

    /// Gives an input for all runs to come, as weights are: it is uploaded once and stays on the device. A run may still
    /// give another, which then stays instead.
    pub fn set(&mut self, name: &str, tensor: &Tensor) -> Result<(), Error> {
        let number = self.input(name, tensor)?;
        pollster::block_on(self.executable.set(number, tensor))?;
        self.inputs[number].kept = true;
        Ok(())
    }

    /// Runs the program on inputs that have all been given by [`Session::set`], and waits until it is done. The outputs
    /// stay on the device, for [`Session::read`].
    pub fn execute(&mut self) -> Result<(), Error> {
        let kept: Vec<bool> = self.inputs.iter().map(|input| input.kept).collect();
        self.all_given(&kept)?;
        pollster::block_on(self.executable.execute())
    }

    /// The outputs of the last [`Session::execute`].
    pub fn read(&self) -> Result<Outputs, Error> {
        pollster::block_on(self.executable.read()).map(|tensors| self.named(tensors))
    }
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

impl IntoIterator for Outputs {
    type Item = (String, Tensor);
    type IntoIter = std::vec::IntoIter<(String, Tensor)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
