//! How a weight is made of the entries of a file.

use std::borrow::Cow;

use tile_compiler::dtype::Scalar;
use tile_compiler::tensor::{Tensor, TensorType};

/// A weight as a function of entries.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub sources: Vec<Source>,
    pub join: Join,
    /// The shape of the weight. `None` is that of the only source.
    pub shape: Option<Vec<usize>>,
}

/// The combination of several sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// There is one source.
    One,
    Sum,
    /// One source after the other.
    Stack,
}

/// An entry, or a part of its rows, in another layout.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub entry: usize,
    /// The part of the rows to take: its number, and the number of parts.
    pub rows: Option<(usize, usize)>,
    /// The permutation of a GRU's gates: exchanges the first two thirds of the rows.
    pub exchanges_gates: bool,
    /// The shape to give to the rows, and then the order of its axes.
    pub layout: Option<(Vec<usize>, Vec<usize>)>,
}

impl Source {
    pub fn new(entry: usize, rows: Option<(usize, usize)>) -> Source {
        Source { entry, rows, exchanges_gates: false, layout: None }
    }

    fn tensor(&self, entry: &Tensor) -> Option<Tensor> {
        let mut tensor = match self.rows {
            Some((part, parts)) => blocks(entry, parts, &[part])?,
            None => entry.clone(),
        };
        if self.exchanges_gates {
            tensor = blocks(&tensor, 3, &[1, 0, 2])?;
        }
        match &self.layout {
            Some((shape, order)) => shaped(tensor, shape)?.transposed(order),
            None => Some(tensor),
        }
    }
}

impl Recipe {
    /// Takes an entry as it is.
    pub fn whole(entry: usize) -> Recipe {
        Recipe { sources: vec![Source::new(entry, None)], join: Join::One, shape: None }
    }

    /// Returns the entry that is taken as it is.
    pub fn whole_entry(&self) -> Option<usize> {
        match (&self.sources[..], &self.shape) {
            ([Source { entry, rows: None, exchanges_gates: false, layout: None }], None) => {
                Some(*entry)
            }
            _ => None,
        }
    }

    /// Makes the weight. `read` returns an entry. `None` means that the entries are no longer what
    /// they were, or there is no memory.
    pub fn tensor<'t, E>(
        &self,
        mut read: impl FnMut(usize) -> Result<Cow<'t, Tensor>, E>,
    ) -> Result<Option<Tensor>, E> {
        let mut made = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            let entry = read(source.entry)?;
            let tensor = match source {
                Source { rows: None, exchanges_gates: false, layout: None, .. } => {
                    Some(entry.into_owned())
                }
                _ => source.tensor(&entry),
            };
            let Some(tensor) = tensor else { return Ok(None) };
            made.push(tensor);
        }
        let joined = match (self.join, &mut made[..]) {
            (Join::Sum, [a, b]) => sum(a, b),
            (Join::Stack, [a, b]) => stack(a, b),
            _ => made.pop(),
        };
        Ok(joined.and_then(|tensor| match &self.shape {
            Some(shape) => shaped(tensor, shape),
            None => Some(tensor),
        }))
    }
}

/// Returns the tensor with another shape of as many elements.
fn shaped(tensor: Tensor, shape: &[usize]) -> Option<Tensor> {
    Tensor::from_bytes(TensorType::new(tensor.dtype(), shape), tensor.into_bytes())
}

/// Divides the rows into `parts`, and returns those of `order`.
fn blocks(tensor: &Tensor, parts: usize, order: &[usize]) -> Option<Tensor> {
    let mut shape = tensor.shape().to_vec();
    let rows = shape.first_mut().filter(|rows| **rows % parts == 0)?;
    *rows = *rows / parts * order.len();
    let size = tensor.bytes().len() / parts;
    let bytes =
        order.iter().flat_map(|&part| &tensor.bytes()[part * size..][..size]).copied().collect();
    Tensor::from_bytes(TensorType::new(tensor.dtype(), shape), bytes)
}

fn sum(a: &Tensor, b: &Tensor) -> Option<Tensor> {
    let values = a.scalars().zip(b.scalars());
    let values = values.map(|(x, y)| Scalar::from_f64(a.dtype(), x.to_f64() + y.to_f64()));
    (a.ty() == b.ty()).then(|| Tensor::from_scalars(a.ty().clone(), values)).flatten()
}

fn stack(a: &Tensor, b: &Tensor) -> Option<Tensor> {
    let shape: Vec<usize> = [2].iter().chain(a.shape()).copied().collect();
    let bytes = [a.bytes(), b.bytes()].concat();
    (a.ty() == b.ty())
        .then(|| Tensor::from_bytes(TensorType::new(a.dtype(), shape), bytes))
        .flatten()
}
