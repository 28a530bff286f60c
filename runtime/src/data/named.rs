//! Samples in arrays that have names: the entries of an .npz file, or the .npy files of a folder.
//!
//! An array belongs to the input or output of the model with its name; `x` is the first input, `y`
//! the first output, and `sample_weight` the weights of the samples. A name that ends in `_train`
//! or `_test` is of that part of the samples.

use std::collections::BTreeSet;

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType};
use tile_lang::{did_you_mean, listed};

use super::folder::{Samples, Wanted};
use crate::error::Error;
use crate::files::Allowance;
use crate::train::{Arrays, ColumnRole, Dataset};

/// A tensor and its name in messages.
pub struct Array {
    pub tensor: Tensor,
    pub name: String,
    /// The remaining allowance of its file.
    pub allowance: Allowance,
}

impl Array {
    /// Converts the elements to another type.
    fn cast(mut self, dtype: DType) -> Result<Tensor, Error> {
        let failed = |what: &dyn std::fmt::Display| Error::data(format!("{}: {what}", self.name));
        let ty = TensorType::new(dtype, self.tensor.shape());
        self.allowance.tensor(&ty).map_err(|error| failed(&error))?;
        Tensor::from_scalars(ty, self.tensor.scalars()).ok_or_else(|| failed(&"it is too large"))
    }
}

/// An array of samples.
pub struct Column {
    pub role: ColumnRole,
    /// The name of the input or output. `None`: given by its position.
    pub name: Option<String>,
    pub array: Array,
}

/// The two words that end the names of arrays for training and for tests.
const PARTS: [&str; 2] = ["_train", "_test"];

/// Returns whether an array of this name may have samples.
pub fn is_wanted(name: &str, wanted: &Wanted) -> bool {
    let name = PARTS.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
    let names = wanted.inputs.iter().map(|(name, _)| name).chain(&wanted.outputs);
    names.into_iter().any(|other| other == name) || ["x", "y", "sample_weight"].contains(&name)
}

/// Reads the samples for training and for tests from the arrays with these names. `place` opens the
/// messages.
///
/// # Errors
/// [`Error::Data`] if there are no inputs, or an input or its counterpart for tests is missing.
pub fn read(
    place: &str,
    names: &[String],
    wanted: &Wanted,
    read: &mut dyn FnMut(&str) -> Result<Array, Error>,
) -> Result<Samples, Error> {
    let mut arrays = Named { place, names, wanted, read, used: BTreeSet::new() };
    let train = match arrays.part("_train")? {
        Some(train) => Some(train),
        None => arrays.part("")?,
    };
    let test = arrays.part("_test")?;
    let train = train.ok_or_else(|| Error::data(format!("{place}: {}", arrays.expected())))?;
    let unused = names.iter().filter(|name| !arrays.used.contains(*name)).cloned().collect();
    Ok(Samples { unused, ..Samples::new(train, test) })
}

struct Named<'a> {
    place: &'a str,
    names: &'a [String],
    wanted: &'a Wanted,
    read: &'a mut dyn FnMut(&str) -> Result<Array, Error>,
    used: BTreeSet<String>,
}

impl Named<'_> {
    /// Reads the array of this name, if there is one.
    fn array(&mut self, name: &str) -> Result<Option<Array>, Error> {
        if !self.names.iter().any(|other| other == name) {
            return Ok(None);
        }
        self.used.insert(name.to_owned());
        (self.read)(name).map(Some)
    }

    /// Reads the samples of a part. `None` if it has no inputs.
    fn part(&mut self, part: &str) -> Result<Option<Box<dyn Dataset>>, Error> {
        let wanted = self.wanted;
        let names = wanted.inputs.iter().map(|(name, _)| name);
        let inputs = self.columns(ColumnRole::Input, names, "x", part)?;
        let targets = self.columns(ColumnRole::Target, wanted.outputs.iter(), "y", part)?;
        if inputs.is_empty() {
            return match targets.first() {
                Some(target) => Err(Error::data(format!(
                    "{} is a target, and there is no input for it: {}",
                    target.array.name,
                    self.expected()
                ))),
                None => Ok(None),
            };
        }
        self.check_inputs(&inputs, part)?;
        let weights = self.array(&format!("sample_weight{part}"))?;
        let weights = weights.map(|array| Column { role: ColumnRole::Weight, name: None, array });
        samples(inputs.into_iter().chain(targets).chain(weights).collect()).map(Some)
    }

    /// Reads the arrays of a role by their names, or the one that is called `short`.
    fn columns<'n>(
        &mut self,
        role: ColumnRole,
        names: impl Iterator<Item = &'n String>,
        short: &str,
        part: &str,
    ) -> Result<Vec<Column>, Error> {
        let mut columns = Vec::new();
        for name in names {
            if let Some(array) = self.array(&format!("{name}{part}"))? {
                columns.push(Column { role, name: Some(name.clone()), array });
            }
        }
        if columns.is_empty()
            && let Some(array) = self.array(&format!("{short}{part}"))?
        {
            columns.push(Column { role, name: None, array });
        }
        Ok(columns)
    }

    /// Checks that each input has an array.
    fn check_inputs(&self, inputs: &[Column], part: &str) -> Result<(), Error> {
        let is_there =
            |name: &&String| inputs.iter().any(|column| column.name.as_ref() == Some(*name));
        // A single `x` is the first input.
        let missing = self
            .wanted
            .inputs
            .iter()
            .map(|(name, _)| name)
            .skip(usize::from(inputs[0].name.is_none()))
            .find(|name| !is_there(name));
        let Some(missing) = missing else { return Ok(()) };
        let name = format!("{missing}{part}");
        let near = did_you_mean(&name, self.names.iter().map(String::as_str));
        let near = near.map_or(String::new(), |near| format!("; {near}"));
        let found = listed(self.names);
        Err(Error::data(format!(
            "{}: there is no array `{name}` for an input: there are {found}{near}",
            self.place
        )))
    }

    /// Lists the names that an input's array may have, and those that there are.
    fn expected(&self) -> String {
        let inputs: Vec<String> =
            self.wanted.inputs.iter().map(|(name, _)| format!("`{name}`")).collect();
        let inputs =
            if inputs.is_empty() { String::new() } else { format!(", or {}", listed(&inputs)) };
        let found = if self.names.is_empty() { "none".to_owned() } else { listed(self.names) };
        format!("expected arrays called `x_train` or `x`{inputs}; there are {found}")
    }
}

/// Combines the arrays of samples.
///
/// # Errors
/// [`Error::Data`] if an array has no samples or another number of them, or a value that is not
/// finite.
pub fn samples(columns: Vec<Column>) -> Result<Box<dyn Dataset>, Error> {
    let first = columns
        .first()
        .map(|column| (column.array.name.clone(), column.array.tensor.shape().first().copied()));
    let (first, samples) = first.unwrap_or_default();
    let mut arrays = Arrays::default();
    for Column { role, name, array } in columns {
        match array.tensor.shape().first() {
            None => {
                return Err(Error::data(format!(
                    "{} is one number, and has no axis of samples",
                    array.name
                )));
            }
            Some(0) => return Err(Error::data(format!("{} has no samples", array.name))),
            Some(&count) if samples.is_some_and(|samples| samples != count) => {
                let others = samples.unwrap_or(0);
                return Err(Error::data(format!(
                    "{} has {count} samples, and {first} has {others}",
                    array.name
                )));
            }
            Some(_) => {}
        }
        if let Some((sample, value)) = first_infinite(&array.tensor) {
            let message =
                format!("{}: there is {value} in sample {sample}, counted from 0", array.name);
            return Err(Error::data(message));
        }
        let tensor = match role {
            ColumnRole::Input => array.tensor,
            ColumnRole::Target => target(array)?,
            ColumnRole::Weight => flat(array.cast(DType::F32)?)?,
        };
        let name = if role == ColumnRole::Weight { Some("sample_weight") } else { name.as_deref() };
        arrays = arrays.with(role, name, tensor)?;
    }
    Ok(Box::new(arrays))
}

/// Converts integer targets to i32 if they fit, and a column of them to rank 1.
fn target(array: Array) -> Result<Tensor, Error> {
    let fits = |value: Scalar| i32::try_from(value.to_i64()).is_ok();
    let tensor = match array.tensor.dtype() {
        dtype if dtype.is_float() => return Ok(array.tensor),
        DType::I32 | DType::U64 => array.tensor,
        DType::U32 | DType::I64 if !array.tensor.scalars().all(fits) => array.tensor,
        _ => array.cast(DType::I32)?,
    };
    flat(tensor)
}

/// Reshapes a column to rank 1. Returns other tensors unchanged.
fn flat(tensor: Tensor) -> Result<Tensor, Error> {
    let &[samples, 1] = tensor.shape() else { return Ok(tensor) };
    let ty = TensorType::new(tensor.dtype(), [samples]);
    Tensor::from_bytes(ty, tensor.into_bytes())
        .ok_or_else(|| Error::data("an array is too large".to_owned()))
}

/// Returns the first sample with a NaN or infinite value, and that value.
fn first_infinite(tensor: &Tensor) -> Option<(usize, f64)> {
    let at = match tensor.dtype() {
        DType::F32 => tensor
            .bytes()
            .as_chunks::<4>()
            .0
            .iter()
            .position(|bytes| !f32::from_le_bytes(*bytes).is_finite()),
        dtype if dtype.is_float() => tensor.scalars().position(|value| !value.to_f64().is_finite()),
        _ => None,
    }?;
    Some((at / tensor.shape().iter().skip(1).product::<usize>().max(1), tensor.get(at).to_f64()))
}
