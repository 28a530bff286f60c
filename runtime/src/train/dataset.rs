//! Samples to train with.

use tile_compiler::tensor::{Tensor, TensorType};

use crate::error::Error;

/// What a column of samples is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnRole {
    /// An input of the model.
    Input,
    /// What an output of the model should be.
    Target,
    /// The weight of a sample in the loss: f32, one number.
    Weight,
}

/// One tensor of each sample.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    pub role: ColumnRole,
    /// The input, or the output, that it is for. None: by its position among the columns of its role.
    pub name: Option<String>,
    /// Of one sample.
    pub ty: TensorType,
}

/// Samples, any of which can be had at any time. It may be asked from another thread while a step runs.
pub trait Dataset: Sync {
    /// The number of samples.
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What each sample has.
    fn columns(&self) -> Vec<Column>;

    /// The samples of these numbers, each below [`Dataset::len`], one after the other along the first axis: a tensor for each
    /// column.
    ///
    /// # Errors
    /// Where a sample cannot be read: [`Error::Data`].
    fn batch(&self, samples: &[usize]) -> Result<Vec<Tensor>, Error>;
}

/// Samples in memory: tensors whose first axis counts them.
#[derive(Clone, Debug, Default)]
pub struct Arrays {
    columns: Vec<(Column, Tensor)>,
}

impl Arrays {
    /// Inputs `x` and targets `y`.
    ///
    /// # Errors
    /// [`Error::Data`] where they have not the same number of samples.
    pub fn new(x: Tensor, y: Tensor) -> Result<Arrays, Error> {
        Arrays::default().with(ColumnRole::Input, None, x)?.with(ColumnRole::Target, None, y)
    }

    /// Adds a column.
    ///
    /// # Errors
    /// [`Error::Data`] where it has no first axis, or not as many samples as those before.
    pub fn with(mut self, role: ColumnRole, name: Option<&str>, tensor: Tensor) -> Result<Arrays, Error> {
        let called = name.map_or_else(|| format!("{role:?}").to_lowercase(), |name| format!("`{name}`"));
        let Some((&samples, shape)) = tensor.shape().split_first() else {
            return Err(Error::data(format!("{called} is one number, and has no axis of samples")));
        };
        if !self.columns.is_empty() && samples != self.len() {
            let others = self.len();
            return Err(Error::data(format!("{called} has {samples} samples, and the others have {others}")));
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
            let row = column.ty.elements() * tensor.dtype().size();
            let rows = samples.iter().map(|sample| &tensor.bytes()[sample * row..][..row]);
            let mut bytes = Vec::with_capacity(row * samples.len());
            rows.for_each(|row| bytes.extend_from_slice(row));
            let shape: Vec<usize> = [samples.len()].into_iter().chain(column.ty.shape.iter().copied()).collect();
            let rows = Tensor::from_bytes(TensorType::new(column.ty.dtype, shape), bytes);
            rows.ok_or_else(|| Error::data("a batch is too large".to_owned()))
        };
        self.columns.iter().map(rows).collect()
    }
}

/// Some consecutive samples of a dataset.
pub struct Part<'a> {
    data: &'a dyn Dataset,
    first: usize,
    count: usize,
}

impl<'a> Part<'a> {
    /// The samples `first..first + count`, which must be there.
    pub fn new(data: &'a dyn Dataset, first: usize, count: usize) -> Part<'a> {
        Part { data, first, count }
    }
}

impl Dataset for Part<'_> {
    fn len(&self) -> usize {
        self.count
    }

    fn columns(&self) -> Vec<Column> {
        self.data.columns()
    }

    fn batch(&self, samples: &[usize]) -> Result<Vec<Tensor>, Error> {
        let samples: Vec<usize> = samples.iter().map(|sample| sample + self.first).collect();
        self.data.batch(&samples)
    }
}
