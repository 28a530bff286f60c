//! Checks of labels and token ids before a step uses them.
//!
//! The program notes the numbers that it expects in an input or target ([`InputRange`]). Columns
//! that are in memory are checked in one pass when a [`Checked`] is made; the others batch by batch
//! when they are read.

use std::borrow::Cow;

use tile_compiler::dtype::Scalar;
use tile_compiler::lower::{InputRange, Network};
use tile_compiler::tensor::Tensor;

use super::dataset::{Column, ColumnRole, Dataset};
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
    range: InputRange,
    role: ColumnRole,
    /// The shape of a sample.
    shape: Vec<usize>,
    /// The place of a row in messages: ` of input `Ids``.
    place: String,
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
            let (input, place) = match column.role {
                ColumnRole::Target if targets > 1 => {
                    (Network::target(name), format!(" of target `{name}`{place}"))
                }
                ColumnRole::Target => (Network::target(name), place.to_owned()),
                _ => (name.clone(), format!(" of input `{name}`{place}")),
            };
            let of_column = ranges.iter().filter(|range| range.input == input).cloned();
            let (role, shape) = (column.role, &column.ty.shape);
            let check = |range| Check {
                column: number,
                range,
                role,
                shape: shape.clone(),
                place: place.clone(),
            };
            let checks: Vec<Check> = of_column.map(check).collect();
            if checks.is_empty() {
                continue;
            }
            match data.whole_column(number) {
                Some(values) => {
                    checks.iter().try_for_each(|check| check.run(&values, &|row| row))?
                }
                None => pending.extend(checks),
            }
        }
        Ok(Checked { data, pending })
    }
}

impl Check {
    /// Checks the values of some samples. `row_of` maps a row of the tensor to the row of the data.
    fn run(&self, values: &Tensor, row_of: &dyn Fn(usize) -> usize) -> Result<(), Error> {
        let is_outside = |value: Scalar| !self.range.contains(value.to_f64());
        let Some(outside) = values.scalars().position(is_outside) else { return Ok(()) };
        let elements = self.shape.iter().product::<usize>().max(1);
        let (row, position) = (row_of(outside / elements), self.position(outside % elements));
        let (one, all) = if self.role == ColumnRole::Target {
            ("label", "classes")
        } else {
            ("token", "tokens")
        };
        let InputRange { low, high, ignored, .. } = &self.range;
        let low = low.unwrap_or(0);
        let bounds =
            high.map_or_else(|| format!("from {low}"), |high| format!("{low} to {}", high - 1));
        let ignored =
            ignored.map_or_else(String::new, |ignored| format!(", and ignores {ignored}"));
        Err(Error::data(format!(
            "{one} {} in row {row}{position}{}: the model has {all} {bounds}{ignored}",
            shown(values.get(outside)),
            self.place
        )))
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
        let row_of = |row: usize| samples.get(row).copied().unwrap_or(row);
        for check in &self.pending {
            batch.get(check.column).map_or(Ok(()), |values| check.run(values, &row_of))?;
        }
        Ok(batch)
    }

    fn whole_column(&self, column: usize) -> Option<Cow<'_, Tensor>> {
        self.data.whole_column(column)
    }
}
