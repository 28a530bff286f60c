//! Checks of labels, token ids and other targets before a step uses them.
//!
//! The program notes the numbers that it expects in an input or target ([`InputRange`]). Columns
//! that are in memory are checked in one pass when a [`Checked`] is made; the others batch by batch
//! when they are read.

use std::borrow::Cow;

use tile_compiler::dtype::Scalar;
use tile_compiler::lower::{Expected, InputRange, Network};
use tile_compiler::tensor::Tensor;

use super::dataset::{Column, ColumnRole, Dataset};
use super::program::names;
use super::trainer::Trainer;
use crate::error::Error;

/// A dataset whose batches have only numbers that the program expects.
pub(super) struct Checked<'a> {
    data: &'a dyn Dataset,
    /// The columns to check batch by batch.
    pending: Vec<Check>,
}

/// The range of a column.
struct Check {
    /// The number of the column.
    column: usize,
    expected: Expected,
    role: ColumnRole,
    /// The shape of a sample.
    shape: Vec<usize>,
    /// The column of a row in messages: ` of input `Ids``.
    of_column: String,
    /// The end of messages: where the targets are from.
    origin: String,
}

impl<'a> Checked<'a> {
    /// Checks the columns in memory. `names` has the name of the input or output for each column.
    /// `place` follows each place in messages.
    ///
    /// # Errors
    /// [`Error::Data`] with the first number that is out of range.
    pub fn new(
        data: &'a dyn Dataset,
        names: &[Option<String>],
        ranges: &[InputRange],
        place: &str,
    ) -> Result<Checked<'a>, Error> {
        let columns = data.columns();
        let targets = columns.iter().filter(|column| column.role == ColumnRole::Target).count();
        let mut pending = Vec::new();
        for (number, (column, name)) in columns.iter().zip(names).enumerate() {
            let Some(name) = name else { continue };
            let (input, of_column) = match column.role {
                ColumnRole::Target if targets > 1 => {
                    (Network::target(name), format!(" of target `{name}`{place}"))
                }
                ColumnRole::Target => (Network::target(name), place.to_owned()),
                _ => (name.clone(), format!(" of input `{name}`{place}")),
            };
            let (role, shape) = (column.role, &column.ty.shape);
            let origin = data.origin_of_targets().filter(|_| role == ColumnRole::Target);
            let origin = origin.map_or_else(String::new, |origin| format!("; {origin}"));
            let check = |range: &InputRange| Check {
                column: number,
                expected: range.expected.clone(),
                role,
                shape: shape.clone(),
                of_column: of_column.clone(),
                origin: origin.clone(),
            };
            let checks: Vec<Check> =
                ranges.iter().filter(|range| range.input == input).map(check).collect();
            if checks.is_empty() {
                continue;
            }
            match data.whole_column(number) {
                Some(values) => {
                    let place = |row| data.place(row);
                    checks.iter().try_for_each(|check| check.run(&values, &place))?
                }
                None => pending.extend(checks),
            }
        }
        Ok(Checked { data, pending })
    }
}

impl Trainer {
    /// Checks the inputs alone, as for a prediction, which has no targets.
    pub(super) fn checked_inputs<'a>(
        &self,
        data: &'a dyn Dataset,
        ranges: &[InputRange],
    ) -> Result<Checked<'a>, Error> {
        let columns = data.columns();
        let is_input = |column: &&Column| column.role == ColumnRole::Input;
        let inputs: Vec<Column> = columns.iter().filter(is_input).cloned().collect();
        let mut names = names(&self.programs, &inputs)?.into_iter();
        let name = |column: &Column| match column.role {
            ColumnRole::Input => names.next().flatten(),
            ColumnRole::Target | ColumnRole::Weight => None,
        };
        let names: Vec<Option<String>> = columns.iter().map(name).collect();
        Checked::new(data, &names, ranges, "")
    }
}

impl Check {
    /// Checks the values of some samples. `place` names the sample of a row of the tensor.
    fn run(&self, values: &Tensor, place: &dyn Fn(usize) -> String) -> Result<(), Error> {
        let is_outside = |value: Scalar| !self.expected.contains(value.to_f64());
        let Some(outside) = values.scalars().position(is_outside) else { return Ok(()) };
        let elements = self.shape.iter().product::<usize>().max(1);
        let (place, position) = (place(outside / elements), self.position(outside % elements));
        let is_target = self.role == ColumnRole::Target;
        let (what, rule) = match &self.expected {
            Expected::Whole { low, high, ignored } => {
                let (one, all) = if is_target { ("label", "classes") } else { ("token", "tokens") };
                let low = low.unwrap_or(0);
                if is_target && *high == Some(low + 1) {
                    let value = shown(values.get(outside));
                    return Err(Error::data(format!(
                        "label {value} in {place}{position}{}: the model has one number for a sample, and so \
                         one class, {low}: N classes need N numbers, `Dense(N)`; for yes and no, 1 and 0, \
                         use `Dense(1)` with BinaryCrossentropy",
                        self.of_column
                    )));
                }
                let bounds = match high {
                    Some(high) => format!("{low} to {}", high - 1),
                    None => format!("from {low}"),
                };
                let ignored =
                    ignored.map_or_else(String::new, |ignored| format!(", and ignores {ignored}"));
                (one, format!("the model has {all} {bounds}{ignored}"))
            }
            Expected::Between { low, high } if is_target => (
                "target",
                format!(
                    "the loss or a metric takes targets from {low} to {high}, and `from_logits` is about predictions"
                ),
            ),
            Expected::Between { low, high } => {
                ("number", format!("the program takes numbers from {low} to {high}"))
            }
        };
        let value = shown(values.get(outside));
        let (of_column, origin) = (&self.of_column, &self.origin);
        Err(Error::data(format!("{what} {value} in {place}{position}{of_column}: {rule}{origin}")))
    }

    /// Formats the position of an element in its sample, if the sample has several.
    fn position(&self, element: usize) -> String {
        match self.shape[..] {
            _ if self.shape.iter().product::<usize>() <= 1 => String::new(),
            [_] => format!(", position {element}"),
            _ => {
                let mut rest = element;
                let mut place: Vec<usize> = self
                    .shape
                    .iter()
                    .rev()
                    .map(|&size| {
                        let index = rest % size.max(1);
                        rest /= size.max(1);
                        index
                    })
                    .collect();
                place.reverse();
                format!(", position {place:?}")
            }
        }
    }
}

/// Checks the values of the input `name` of some samples. `place` names the sample of a row.
///
/// # Errors
/// [`Error::Data`] with the first number that is out of range.
pub fn check_input(
    ranges: &[InputRange],
    name: &str,
    values: &Tensor,
    place: &dyn Fn(usize) -> String,
) -> Result<(), Error> {
    ranges.iter().filter(|range| range.input == name).try_for_each(|range| {
        let shape = values.shape().get(1..).unwrap_or_default().into();
        let (expected, of_column) = (range.expected.clone(), format!(" of input `{name}`"));
        let (role, origin) = (ColumnRole::Input, String::new());
        Check { column: 0, expected, role, shape, of_column, origin }.run(values, place)
    })
}

/// Formats a number of data. A whole float has no decimal point.
fn shown(value: Scalar) -> String {
    if value.dtype.is_float() { value.to_f64().to_string() } else { value.to_string() }
}

impl Dataset for Checked<'_> {
    fn len(&self) -> usize {
        self.data.len()
    }

    fn columns(&self) -> Vec<Column> {
        self.data.columns()
    }

    fn batch(&self, samples: &[usize]) -> Result<Vec<Tensor>, Error> {
        let batch = self.data.batch(samples)?;
        let place = |row: usize| self.data.place(samples.get(row).copied().unwrap_or(row));
        for check in &self.pending {
            batch.get(check.column).map_or(Ok(()), |values| check.run(values, &place))?;
        }
        Ok(batch)
    }

    fn whole_column(&self, column: usize) -> Option<Cow<'_, Tensor>> {
        self.data.whole_column(column)
    }

    fn place(&self, sample: usize) -> String {
        self.data.place(sample)
    }
}
