//! Training samples.

use std::borrow::Cow;

use tile_compiler::tensor::{Tensor, TensorType, with_room};

use crate::error::Error;

/// The purpose of a column of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ColumnRole {
    /// An input of the model.
    Input,
    /// A target of an output of the model.
    Target,
    /// The weight of a sample in the loss: one f32, or one for each part of the sample, such as a
    /// step of a sequence.
    Weight,
}

/// A column: one tensor for each sample.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    /// The use of the column.
    pub role: ColumnRole,
    /// The name of the input or output. `None`: given by its position among the columns of its
    /// role.
    pub name: Option<String>,
    /// The type of one sample.
    pub ty: TensorType,
}

/// A dataset with random access. Another thread may read it while a step runs.
pub trait Dataset: Sync {
    /// The number of samples.
    fn len(&self) -> usize;

    /// Returns whether there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the columns of each sample.
    fn columns(&self) -> Vec<Column>;

    /// Returns the samples with these numbers, each below [`Dataset::len`]: for each column a
    /// tensor with the samples along its first axis.
    ///
    /// # Errors
    /// [`Error::Data`] if a sample cannot be read.
    fn batch(&self, samples: &[usize]) -> Result<Vec<Tensor>, Error>;

    /// Returns a column of all samples, as [`Dataset::batch`] would, if it is known without reading
    /// or computing samples. Its labels and token ids are then checked before the first step, and
    /// otherwise batch by batch.
    fn whole_column(&self, column: usize) -> Option<Cow<'_, Tensor>> {
        let _ = column;
        None
    }

    /// Says in messages about targets where they are from, if others may be meant.
    fn origin_of_targets(&self) -> Option<String> {
        None
    }

    /// Names a sample in messages: by its file, or as `row 3`.
    fn place(&self, sample: usize) -> String {
        format!("row {sample}")
    }
}

/// Returns the numbers below `count`, which is as large as a dataset says.
pub(super) fn numbers(count: usize) -> Result<Vec<usize>, Error> {
    let mut numbers =
        with_room(count).ok_or_else(|| Error::data(format!("{count} samples are too many")))?;
    numbers.extend(0..count);
    Ok(numbers)
}

/// Samples in memory: tensors whose first axis counts samples.
///
/// ```
/// use tile_runtime::Tensor;
/// use tile_runtime::train::{Arrays, ColumnRole, Dataset};
///
/// let tensor = |shape: &[usize]| {
///     Tensor::from_f32(shape, &vec![1.0; shape.iter().product()]).unwrap()
/// };
/// let data = Arrays::new(tensor(&[10, 28, 28]), tensor(&[10, 1]))?
///     .with(ColumnRole::Weight, None, tensor(&[10]))?;
/// assert_eq!((data.len(), data.columns().len()), (10, 3));
/// assert!(Arrays::new(tensor(&[10, 2]), tensor(&[9, 1])).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Arrays {
    columns: Vec<(Column, Tensor)>,
}

impl Arrays {
    /// Makes a dataset of inputs `x` and targets `y`.
    ///
    /// # Errors
    /// [`Error::Data`] if their numbers of samples differ.
    pub fn new(x: Tensor, y: Tensor) -> Result<Arrays, Error> {
        Arrays::default().with(ColumnRole::Input, None, x)?.with(ColumnRole::Target, None, y)
    }

    /// Adds a column.
    ///
    /// # Errors
    /// [`Error::Data`] if the tensor has rank 0, or a different number of samples.
    pub fn with(
        mut self,
        role: ColumnRole,
        name: Option<&str>,
        tensor: Tensor,
    ) -> Result<Arrays, Error> {
        let called =
            name.map_or_else(|| format!("{role:?}").to_lowercase(), |name| format!("`{name}`"));
        let Some((&samples, shape)) = tensor.shape().split_first() else {
            return Err(Error::data(format!("{called} is one number, and has no axis of samples")));
        };
        if !self.columns.is_empty() && samples != self.len() {
            let others = self.len();
            return Err(Error::data(format!(
                "{called} has {samples} samples, and the others have {others}"
            )));
        }
        let ty = TensorType::new(tensor.dtype(), shape);
        self.columns.push((Column { role, name: name.map(str::to_owned), ty }, tensor));
        Ok(self)
    }
}

impl Dataset for Arrays {
    fn len(&self) -> usize {
        self.columns.first().and_then(|(_, tensor)| tensor.shape().first().copied()).unwrap_or(0)
    }

    fn columns(&self) -> Vec<Column> {
        self.columns.iter().map(|(column, _)| column.clone()).collect()
    }

    fn batch(&self, samples: &[usize]) -> Result<Vec<Tensor>, Error> {
        let rows = |(column, tensor): &(Column, Tensor)| {
            let too_large = || Error::data("a batch is too large".to_owned());
            let row = column.ty.elements().saturating_mul(tensor.dtype().size());
            let mut bytes: Vec<u8> =
                row.checked_mul(samples.len()).and_then(with_room).ok_or_else(too_large)?;
            for &sample in samples {
                if sample >= self.len() {
                    return Err(Error::data(format!(
                        "there is no sample {sample}: there are {}",
                        self.len()
                    )));
                }
                bytes.extend_from_slice(&tensor.bytes()[sample * row..][..row]);
            }
            let shape: Vec<usize> =
                [samples.len()].into_iter().chain(column.ty.shape.iter().copied()).collect();
            let rows = Tensor::from_bytes(TensorType::new(column.ty.dtype, shape), bytes);
            rows.ok_or_else(too_large)
        };
        self.columns.iter().map(rows).collect()
    }

    fn whole_column(&self, column: usize) -> Option<Cow<'_, Tensor>> {
        self.columns.get(column).map(|(_, tensor)| Cow::Borrowed(tensor))
    }
}

/// Some samples of a dataset.
pub struct Part<'a> {
    data: &'a dyn Dataset,
    samples: Vec<usize>,
}

impl<'a> Part<'a> {
    /// Returns the samples with these numbers, which must exist, in this order.
    pub fn new(data: &'a dyn Dataset, samples: Vec<usize>) -> Part<'a> {
        Part { data, samples }
    }
}

impl Dataset for Part<'_> {
    fn len(&self) -> usize {
        self.samples.len()
    }

    fn columns(&self) -> Vec<Column> {
        self.data.columns()
    }

    fn batch(&self, samples: &[usize]) -> Result<Vec<Tensor>, Error> {
        let number = |&sample: &usize| {
            let missing =
                || Error::data(format!("there is no sample {sample}: there are {}", self.len()));
            self.samples.get(sample).copied().ok_or_else(missing)
        };
        self.data.batch(&samples.iter().map(number).collect::<Result<Vec<usize>, Error>>()?)
    }

    fn origin_of_targets(&self) -> Option<String> {
        self.data.origin_of_targets()
    }

    fn place(&self, sample: usize) -> String {
        self.data.place(self.samples.get(sample).copied().unwrap_or(sample))
    }
}
