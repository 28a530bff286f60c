//! Class weights.

use std::collections::BTreeMap;

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType};

use super::dataset::{Column, ColumnRole, Dataset};
use crate::error::Error;

/// A dataset whose sample weights are multiplied by the weights of their classes, as by Keras'
/// `class_weight`. The class is the rounded target, or for several numbers the index of the
/// largest. Classes without a weight have weight 1.
pub(super) struct ClassWeighted<'a> {
    data: &'a dyn Dataset,
    weights: &'a BTreeMap<i64, f32>,
    /// The column of the target, and that of the sample weights if there is one.
    target: usize,
    weight: Option<usize>,
}

impl<'a> ClassWeighted<'a> {
    pub fn new(data: &'a dyn Dataset, weights: &'a BTreeMap<i64, f32>) -> Result<ClassWeighted<'a>, Error> {
        let columns = data.columns();
        let of = |role: ColumnRole| -> Vec<usize> {
            (0..columns.len()).filter(|&number| columns[number].role == role).collect()
        };
        let (targets, weights_of_samples) = (of(ColumnRole::Target), of(ColumnRole::Weight));
        match targets[..] {
            [target] if columns[target].ty.rank() < 2 => {
                Ok(ClassWeighted { data, weights, target, weight: weights_of_samples.first().copied() })
            }
            [target] => {
                let ty = &columns[target].ty;
                Err(Error::data(format!("classes have weights, and a target is {ty}, which does not say one class")))
            }
            _ => Err(Error::data(format!("classes have weights, and a sample has {} targets", targets.len()))),
        }
    }
}

impl Dataset for ClassWeighted<'_> {
    fn len(&self) -> usize {
        self.data.len()
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = self.data.columns();
        if self.weight.is_none() {
            columns.push(Column { role: ColumnRole::Weight, name: None, ty: TensorType::new(DType::F32, []) });
        }
        columns
    }

    fn batch(&self, samples: &[usize]) -> Result<Vec<Tensor>, Error> {
        let mut tensors = self.data.batch(samples)?;
        let values: Vec<f64> = tensors[self.target].scalars().map(Scalar::to_f64).collect();
        let weight = |row: &[f64]| {
            let class = match row {
                [value] => value.round() as i64,
                // Takes the first of the largest.
                row => (0..row.len()).reduce(|best, next| if row[next] > row[best] { next } else { best }).unwrap_or(0)
                    as i64,
            };
            self.weights.get(&class).copied().unwrap_or(1.0)
        };
        let mut weights: Vec<f32> = values.chunks((values.len() / samples.len().max(1)).max(1)).map(weight).collect();
        if let Some(number) = self.weight {
            weights.iter_mut().zip(tensors[number].scalars()).for_each(|(weight, own)| *weight *= own.to_f64() as f32);
        }
        let weights = Tensor::from_f32([weights.len()], &weights);
        let weights = weights.ok_or_else(|| Error::data("a batch is too large".to_owned()))?;
        match self.weight {
            Some(number) => tensors[number] = weights,
            None => tensors.push(weights),
        }
        Ok(tensors)
    }
}
