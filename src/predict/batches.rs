//! [`Predictor`]: runs samples in batches.

use std::collections::BTreeMap;
use std::rc::Rc;

use tile_compiler::graph::Graph;
use tile_compiler::lower::{InputRange, Network};
use tile_lang::listed;
use tile_runtime::train::{as_model_takes, check_input};
use tile_runtime::{DType, Device, Error, Session, SessionBuilder, Tensor, TensorType};

use super::Predict;
use super::samples::{Sample, Signature};
use crate::arguments::Sizes;
use crate::placement;
use crate::source::Source;
use crate::terminal::{Failure, Terminal};

/// A model, compiled for batches of one type with the first of them.
pub struct Predictor<'a> {
    arguments: &'a Predict,
    sizes: &'a Sizes,
    source: &'a Source<'a>,
    device: Device,
    signature: Signature,
    batch_size: usize,
    compiled: Option<Compiled>,
}

/// The outputs for one sample, in order, without those that have no axis of samples.
pub type Row = Vec<Values>;

/// One output for one sample.
#[derive(Clone)]
pub struct Values {
    /// The number of the output.
    pub number: usize,
    pub name: Rc<str>,
    /// True if a sample has several axes, and so is no list of classes, as in a segmentation.
    pub is_map: bool,
    /// False for integers and bools.
    pub is_float: bool,
    pub values: Vec<f64>,
}

/// A session, the types of its inputs, and the numbers that the program expects in them.
struct Compiled {
    session: Session,
    types: BTreeMap<String, TensorType>,
    ranges: Vec<InputRange>,
    /// For each output, whether its first axis counts samples.
    of_samples: Vec<bool>,
}

impl Compiled {
    /// Returns whether the session is for tensors of these shapes.
    fn suits(&self, batch: &BTreeMap<String, Tensor>) -> bool {
        batch.iter().all(|(name, tensor)| self.types[name].shape == tensor.shape())
    }
}

impl<'a> Predictor<'a> {
    pub fn new(
        arguments: &'a Predict,
        sizes: &'a Sizes,
        source: &'a Source<'a>,
        device: Device,
        signature: Signature,
        batch_size: usize,
    ) -> Predictor<'a> {
        Predictor { arguments, sizes, source, device, signature, batch_size, compiled: None }
    }

    /// Returns the outputs for each sample. The last sample is repeated to fill a batch.
    pub fn run(&mut self, part: &[Sample], terminal: &Terminal) -> Result<Vec<Row>, Failure> {
        let batch = self.batch(part)?;
        if self.compiled.as_ref().is_none_or(|compiled| !compiled.suits(&batch)) {
            self.compiled = Some(self.compile(&batch, terminal)?);
        }
        let failed = |error: Error| self.source.failed(&error);
        let Compiled { session, types, ranges, of_samples } =
            self.compiled.as_mut().unwrap_or_else(|| unreachable!("it was compiled"));
        let mut inputs = Vec::with_capacity(batch.len());
        for (name, tensor) in batch {
            // The last sample is repeated to fill a batch.
            let place = |row: usize| part[row.min(part.len() - 1)].name.clone();
            check_input(ranges, &name, &tensor, &place).map_err(failed)?;
            let dtype = types[&name].dtype;
            inputs.push((name, converted(tensor, dtype)?));
        }
        let outputs = session.run(inputs).map_err(failed)?;
        let mut rows: Vec<Row> = vec![Vec::new(); part.len()];
        for (number, (name, output)) in outputs.iter().enumerate() {
            if !of_samples[number] {
                let ty = output.ty();
                terminal.note_once(&format!(
                    "`{name}`, {ty}, has no axis of samples: `tilec run` gives it"
                ));
                continue;
            }
            let shape = &output.shape()[1..];
            let (name, is_map) =
                (Rc::from(name), shape.iter().filter(|size| **size > 1).count() > 1);
            let elements: usize = shape.iter().product();
            let (values, is_float) = (output.to_f64s(), output.dtype().is_float());
            for (row, sample) in rows.iter_mut().zip(0..) {
                let values = values[sample * elements..][..elements].to_vec();
                row.push(Values { number, name: Rc::clone(&name), is_map, is_float, values });
            }
        }
        match rows.iter().any(Vec::is_empty) {
            true => Err(Failure::input("no output of the model has an axis of samples")),
            false => Ok(rows),
        }
    }

    /// Compiles the model for a batch, with the types that the model takes for it.
    fn compile(
        &self,
        batch: &BTreeMap<String, Tensor>,
        terminal: &Terminal,
    ) -> Result<Compiled, Failure> {
        let failed = |error: Error| self.source.failed(&error);
        let sizes = self.sizes;
        let mut given = batch.clone();
        let bindings = sizes.bindings();
        as_model_takes(&self.source.model, sizes.entry.as_deref(), &bindings, &mut given)
            .map_err(failed)?;
        let types: BTreeMap<String, TensorType> =
            given.into_iter().map(|(name, tensor)| (name, tensor.ty().clone())).collect();
        let builder = |samples: usize| {
            let on_device = sizes.apply(self.source.model.on(&self.device));
            types.iter().fold(on_device, |builder, (name, ty)| {
                let mut ty = ty.clone();
                ty.shape[0] = samples;
                builder.input(name, ty)
            })
        };
        let mut session = builder(self.batch_size).build().map_err(failed)?;
        placement::detail(session.plan(), &self.device, terminal);
        let (ranges, of_samples) = if self.source.model.pack().is_some() {
            let counts = |(_, ty): (&str, &TensorType)| ty.shape.first() == Some(&self.batch_size);
            (Vec::new(), session.outputs().map(counts).collect())
        } else {
            self.samples_of(&builder)?
        };
        let missing = self.arguments.weights.load(&mut session, 0, terminal).map_err(failed)?;
        if !missing.is_empty() {
            let what =
                "the model's weights have no values: give them with `--weights FILE`. They are";
            return Err(Failure::input(format!("{what} {}", listed(&missing))));
        }
        Ok(Compiled { session, types, ranges, of_samples })
    }

    /// Returns the ranges of the inputs, and for each output whether its first axis counts samples.
    fn samples_of(
        &self,
        builder: &dyn Fn(usize) -> SessionBuilder<'a>,
    ) -> Result<(Vec<InputRange>, Vec<bool>), Failure> {
        let failed = |error: Error| self.source.failed(&error);
        let counts = |graph: &Graph, samples: usize| -> Vec<bool> {
            let outputs = graph.outputs.iter();
            outputs.map(|(_, id)| graph.shape(*id).first() == Some(&samples)).collect()
        };
        let Network { graph, ranges, .. } = builder(self.batch_size).network().map_err(failed)?;
        let mut of_samples = counts(&graph, self.batch_size);
        // An axis counts samples if it has as many elements, also with another number of samples. A
        // model may be for this number only.
        let more = self.batch_size + 1;
        if let Ok(network) = builder(more).network() {
            let of_more = counts(&network.graph, more);
            of_samples.iter_mut().zip(of_more).for_each(|(is_count, also)| *is_count &= also);
        }
        Ok((ranges, of_samples))
    }

    /// Joins the tensors of samples along their first axes, by input. The last sample is repeated
    /// to fill the batch.
    fn batch(&self, part: &[Sample]) -> Result<BTreeMap<String, Tensor>, Failure> {
        let mut joined: Vec<(TensorType, Vec<u8>)> = Vec::new();
        for sample in part {
            let tensors = sample.read(&self.signature)?;
            for (number, tensor) in tensors.into_iter().enumerate() {
                let Some((before, bytes)) = joined.get_mut(number) else {
                    joined.push((tensor.ty().clone(), tensor.into_bytes()));
                    continue;
                };
                if before != tensor.ty() {
                    let of_sample = |ty: &TensorType| TensorType::new(ty.dtype, &ty.shape[1..]);
                    let (name, ty) = (&sample.name, of_sample(tensor.ty()));
                    let before = of_sample(before);
                    return Err(Failure::input(format!(
                        "{name} is {ty}, and the samples before it are {before}"
                    )));
                }
                bytes.extend(tensor.into_bytes());
            }
        }
        let mut batch = BTreeMap::new();
        for ((name, _), (mut ty, mut bytes)) in self.signature.inputs.iter().zip(joined) {
            let last = bytes.len() - bytes.len() / part.len()..bytes.len();
            (part.len()..self.batch_size).for_each(|_| bytes.extend_from_within(last.clone()));
            ty.shape[0] = self.batch_size;
            let tensor = Tensor::from_bytes(ty, bytes)
                .ok_or_else(|| Failure::input("a batch is too large"))?;
            batch.insert(name.clone(), tensor);
        }
        Ok(batch)
    }
}

fn converted(tensor: Tensor, dtype: DType) -> Result<Tensor, Failure> {
    if tensor.dtype() == dtype {
        return Ok(tensor);
    }
    let ty = TensorType::new(dtype, tensor.shape());
    Tensor::from_scalars(ty, tensor.scalars()).ok_or_else(|| Failure::input("a batch is too large"))
}
