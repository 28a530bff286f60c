//! Class weights.

use std::collections::{BTreeMap, BTreeSet};

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType};
use tile_lang::listed;

use super::dataset::{Column, ColumnRole, Dataset};
use crate::error::Error;

/// A dataset whose sample weights are multiplied by the weights of their classes, as by Keras'
/// `class_weight`. Classes without a weight have weight 1. The class of a sample is its target:
///
/// - one number, rounded;
/// - for a vector, the index of the largest element;
/// - for a map of integers, such as a mask, each element, which then has a weight of its own.
pub(super) struct ClassWeighted<'a> {
    data: &'a dyn Dataset,
    weights: &'a BTreeMap<i64, f32>,
    /// The column of the target, and that of the sample weights if there is one.
    target: usize,
    weight: Option<usize>,
    /// The shape of the weights of a sample.
    shape: Vec<usize>,
}

impl<'a> ClassWeighted<'a> {
    pub fn new(
        data: &'a dyn Dataset,
        weights: &'a BTreeMap<i64, f32>,
    ) -> Result<ClassWeighted<'a>, Error> {
        let columns = data.columns();
        let of = |role: ColumnRole| -> Vec<usize> {
            (0..columns.len()).filter(|&number| columns[number].role == role).collect()
        };
        let (targets, weight) = (of(ColumnRole::Target), of(ColumnRole::Weight).first().copied());
        let [target] = targets[..] else {
            return Err(Error::data(format!(
                "classes have weights, and a sample has {} targets",
                targets.len()
            )));
        };
        let ty = &columns[target].ty;
        let shape = match ty.rank() {
            0 | 1 => Vec::new(),
            _ if !ty.dtype.is_float() => ty.shape.to_vec(),
            _ => {
                return Err(Error::data(format!(
                    "classes have weights, and a target is {ty}, which does not say one class"
                )));
            }
        };
        // The sample's own weights are multiplied with those of the classes.
        let own = weight.map_or(&[][..], |weight| &columns[weight].ty.shape);
        if !shape.starts_with(own) && !own.is_empty() && !shape.is_empty() {
            let what = "a sample has weights of the shape";
            return Err(Error::data(format!("{what} {own:?}, and its classes have {shape:?}")));
        }
        let shape = if shape.is_empty() { own.to_vec() } else { shape };
        Ok(ClassWeighted { data, weights, target, weight, shape })
    }

    /// Checks that samples have the classes that have weights, if the targets are known without
    /// reading samples.
    pub fn check(&self) -> Result<(), Error> {
        let columns = self.data.columns();
        let absent = match (&columns[self.target].ty, self.data.whole_column(self.target)) {
            (TensorType { shape, .. }, _) if shape.len() == 1 && shape[0] > 1 => {
                let classes = shape[0] as i64;
                let absent = self.weights.keys().find(|class| !(0..classes).contains(*class));
                absent.map(|class| (class, format!("a target has {classes} classes")))
            }
            (_, Some(targets)) => {
                let rounded = |value: Scalar| value.to_f64().round() as i64;
                let classes: BTreeSet<i64> = targets.scalars().map(rounded).collect();
                let absent = self.weights.keys().find(|class| !classes.contains(class));
                let names = || classes.iter().map(i64::to_string).collect::<Vec<_>>();
                absent.map(|class| (class, format!("the classes are {}", listed(&names()))))
            }
            (_, None) => None,
        };
        match absent {
            Some((class, classes)) => Err(Error::data(format!(
                "no sample has the class {class}, which has a weight: {classes}"
            ))),
            None => Ok(()),
        }
    }

    /// Returns the weights of the classes in a batch of targets: one for a sample, or one for each
    /// element of a map.
    fn of_classes(&self, targets: &Tensor) -> Vec<f32> {
        let values: Vec<f64> = targets.scalars().map(Scalar::to_f64).collect();
        let row = match targets.shape() {
            [_, classes] => *classes,
            _ => 1,
        };
        let weight = |row: &[f64]| {
            let class = match row {
                [value] => value.round() as i64,
                // Takes the first of the largest.
                row => (0..row.len())
                    .reduce(|best, next| if row[next] > row[best] { next } else { best })
                    .unwrap_or(0) as i64,
            };
            self.weights.get(&class).copied().unwrap_or(1.0)
        };
        values.chunks(row.max(1)).map(weight).collect()
    }
}

impl Dataset for ClassWeighted<'_> {
    fn len(&self) -> usize {
        self.data.len()
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = self.data.columns();
        let ty = TensorType::new(DType::F32, self.shape.as_slice());
        match self.weight {
            Some(number) => columns[number].ty = ty,
            None => columns.push(Column { role: ColumnRole::Weight, name: None, ty }),
        }
        columns
    }

    fn batch(&self, samples: &[usize]) -> Result<Vec<Tensor>, Error> {
        let mut tensors = self.data.batch(samples)?;
        let of_classes = self.of_classes(&tensors[self.target]);
        let own: Vec<f32> = match self.weight {
            Some(number) => tensors[number].scalars().map(|own| own.to_f64() as f32).collect(),
            None => vec![1.0; samples.len()],
        };
        // One of the two has the shape of the result, and the other its first axes.
        let count = samples.len() * self.shape.iter().product::<usize>();
        let each = |weights: &[f32], number: usize| {
            // A dataset may give fewer values than its columns say.
            weights.get(number / (count / weights.len().max(1)).max(1)).copied().unwrap_or(1.0)
        };
        let weights: Vec<f32> =
            (0..count).map(|number| each(&of_classes, number) * each(&own, number)).collect();
        let shape: Vec<usize> =
            [samples.len()].into_iter().chain(self.shape.iter().copied()).collect();
        let weights = Tensor::from_f32(shape, &weights)
            .ok_or_else(|| Error::data("a batch is too large".to_owned()))?;
        match self.weight {
            Some(number) => tensors[number] = weights,
            None => tensors.push(weights),
        }
        Ok(tensors)
    }

    fn origin_of_targets(&self) -> Option<String> {
        self.data.origin_of_targets()
    }

    fn place(&self, sample: usize) -> String {
        self.data.place(sample)
    }
}
