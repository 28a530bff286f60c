//! Runs on memory of the app: inputs are borrowed, and outputs go where the app wants them, or are
//! lent to it.

use smallvec::SmallVec;

use super::{Argument, Session};
use crate::backend::block_on;
use crate::error::Error;
use crate::parts;
use crate::value::{Destination, Value, View, type_of};

/// The values of a run, each with the number of its input, weight or output. Up to four need no
/// allocation.
pub(super) type Values<T> = SmallVec<[(usize, T); 4]>;

impl Session {
    /// Runs the program as [`Session::run`] does, and writes outputs, by name, to memory of the
    /// app. Other outputs stay on the device, for [`Session::view`] and [`Session::read`].
    ///
    /// On the cpu device nothing is copied if inputs and outputs are dense, row-major, and aligned
    /// to their elements.
    ///
    /// # Errors
    /// The errors of [`Session::run`]; [`Error::UnknownOutput`], [`Error::WrongOutput`] if an
    /// output has another type or size, and [`Error::RepeatedOutput`].
    pub fn run_into<N: AsRef<str>, T: Value, M: AsRef<str>, O: Destination>(
        &mut self,
        inputs: impl IntoIterator<Item = (N, T)>,
        outputs: impl IntoIterator<Item = (M, O)>,
    ) -> Result<(), Error> {
        let mut targets = Values::<O>::new();
        for (name, target) in outputs {
            let number = self.target_number(name.as_ref(), &target)?;
            if targets.iter().any(|(other, _)| *other == number) {
                return Err(Error::RepeatedOutput { name: name.as_ref().into() });
            }
            targets.push((number, target));
        }
        let values = self.take(inputs)?;
        let lent: Values<&dyn Value> =
            values.iter().map(|(number, value)| (*number, value as &dyn Value)).collect();
        let mut into: Values<&mut dyn Destination> = targets
            .iter_mut()
            .map(|(number, target)| (*number, target as &mut dyn Destination))
            .collect();
        self.executable.run_into(&lent, &mut into)?;
        drop(into);
        for (number, _) in &targets {
            self.outputs[*number].is_lent = true;
        }
        Ok(())
    }

    /// Returns an output of the last run in the memory of the session, without a copy if that is
    /// host memory. It is valid until the next call that changes the session.
    ///
    /// # Errors
    /// [`Error::UnknownOutput`]; [`Error::LentOutput`] if the last run wrote the output to memory
    /// of the app; errors of the device.
    pub fn view(&mut self, name: &str) -> Result<View<'_>, Error> {
        let number = self.output_number(name)?;
        if self.executable.view(number).is_none() {
            let tensor = block_on(self.executable.output(number))?;
            let tensor = self.viewed.insert(tensor);
            return Ok(View { ty: tensor.ty(), bytes: tensor.bytes() });
        }
        let bytes = self.executable.view(number).unwrap_or_default();
        Ok(View { ty: &self.outputs[number].ty, bytes })
    }

    /// Takes the weights of another session that have values, and shares their memory.
    ///
    /// # Errors
    /// [`Error::WrongWeight`] if a weight has another type there.
    pub(crate) fn share(&mut self, other: &Session) -> Result<(), Error> {
        let mut pairs = Vec::new();
        for number in self.inputs..self.arguments.len() {
            let Argument { name, ty, .. } = &self.arguments[number];
            let theirs =
                other.arguments[other.inputs..].iter().position(|argument| argument.name == *name);
            let Some(theirs) = theirs.map(|theirs| theirs + other.inputs) else { continue };
            let Argument { ty: given, is_set, .. } = &other.arguments[theirs];
            if given != ty {
                let (path, expected, given) = (name.clone(), ty.clone(), given.clone());
                return Err(Error::WrongWeight { path, expected, given });
            }
            if *is_set {
                pairs.push((number, theirs));
            }
        }
        parts::share(&mut *self.executable, &pairs, &*other.executable)?;
        pairs.iter().for_each(|&(number, _)| self.arguments[number].is_set = true);
        Ok(())
    }

    /// Begins a run: checks the values that it is given, and that all are there. Sets those that
    /// stay for later runs, and returns the others.
    pub(super) fn take<N: AsRef<str>, T: Value>(
        &mut self,
        inputs: impl IntoIterator<Item = (N, T)>,
    ) -> Result<Values<T>, Error> {
        let mut values = Values::new();
        self.arguments.iter_mut().for_each(|argument| argument.is_given = argument.is_set);
        for (name, value) in inputs {
            let number = self.number(name.as_ref(), &value)?;
            self.arguments[number].is_given = true;
            if self.arguments[number].is_set || number >= self.inputs {
                block_on(self.executable.set(number, &value))?;
                self.arguments[number].is_set = true;
                continue;
            }
            values.retain(|(other, _)| *other != number);
            values.push((number, value));
        }
        self.all_given(|argument| argument.is_given)?;
        self.outputs.iter_mut().for_each(|output| output.is_lent = false);
        Ok(values)
    }

    /// Returns the number of an output, after a check of the memory that it is to go to.
    fn target_number(&self, name: &str, target: &dyn Destination) -> Result<usize, Error> {
        let number = self.known_output(name)?;
        let expected = &self.outputs[number].ty;
        let fits = match target.shape() {
            Some(shape) => shape == expected.shape,
            None => target.elements() == expected.elements(),
        };
        if fits && target.dtype() == expected.dtype {
            return Ok(number);
        }
        let shape = target.shape().map_or_else(|| vec![target.elements()], <[usize]>::to_vec);
        let given = tile_compiler::tensor::TensorType::new(target.dtype(), shape);
        Err(Error::WrongOutput { name: name.into(), expected: expected.clone(), given })
    }

    /// Returns the index in `given` of the input or weight with this name. Inputs take precedence.
    /// Checks that `value` has its type.
    pub(super) fn number(&self, name: &str, value: &dyn Value) -> Result<usize, Error> {
        let found = self.arguments.iter().position(|argument| argument.name == name);
        let number = found.ok_or_else(|| self.unknown_input(name))?;
        if self.arguments[number].is_bound {
            let what = "it has memory of the app; unbind it before it is given a value".into();
            return Err(Error::Bind { name: name.into(), what });
        }
        let expected = &self.arguments[number].ty;
        if value.dtype() == expected.dtype && value.shape() == expected.shape {
            return Ok(number);
        }
        let (name, expected, given) = (name.into(), expected.clone(), type_of(value));
        Err(match number < self.inputs {
            true => Error::WrongInput { name, expected, given },
            false => Error::WrongWeight { path: name, expected, given },
        })
    }
}
