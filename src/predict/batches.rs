//! [`Predictor`]: runs samples in batches.

use std::collections::BTreeMap;
use std::rc::Rc;

use tile_compiler::lower::InputRange;
use tile_lang::listed;
use tile_runtime::train::{as_model_takes, check_input};
use tile_runtime::{DType, Device, Error, Session, Tensor, TensorType};

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
    /// True if the first output of a sample has several axes, and so is no list of classes, as in a
    /// segmentation.
    is_map: bool,
}

/// The elements of each output for one sample, in the order of the outputs.
pub type Row = Vec<(Rc<str>, Vec<f64>)>;

/// A session, the types of its inputs, and the numbers that the program expects in them.
struct Compiled {
    session: Session,
    types: BTreeMap<String, TensorType>,
    ranges: Vec<InputRange>,
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
        let (compiled, is_map) = (None, false);
        Predictor { arguments, sizes, source, device, signature, batch_size, compiled, is_map }
    }

    /// Returns whether the first output of a sample has several axes.
    pub fn is_map(&self) -> bool {
        self.is_map
    }

    /// Returns the elements of the outputs for each sample. The last sample is repeated to fill a
    /// batch. Outputs without an axis of samples are left out.
    pub fn run(&mut self, part: &[Sample], terminal: &Terminal) -> Result<Vec<Row>, Failure> {
        let batch = self.batch(part)?;
        if self.compiled.as_ref().is_none_or(|compiled| !compiled.suits(&batch)) {
            self.compiled = Some(self.compile(&batch, terminal)?);
        }
        let failed = |error: Error| self.source.failed(&error);
        let Compiled { session, types, ranges } =
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
        let mut rows = vec![Row::new(); part.len()];
        for (number, (name, output)) in outputs.iter().enumerate() {
            let (ty, length) = (output.ty(), self.batch_size);
            if ty.shape.first() != Some(&length) {
                let what =
                    format!("the output `{name}` is {ty}, and has no axis of {length} samples");
                if number == 0 {
                    return Err(Failure::input(what));
                }
                terminal.note_once(&format!("{what}: `tilec run` gives it"));
                continue;
            }
            if number == 0 {
                self.is_map = ty.shape[1..].iter().filter(|size| **size > 1).count() > 1;
            }
            let (name, elements, values) =
                (Rc::from(name), ty.elements() / length, output.to_f64s());
            for (number, row) in rows.iter_mut().enumerate() {
                row.push((Rc::clone(&name), values[number * elements..][..elements].to_vec()));
            }
        }
        match outputs.names().next().is_none() {
            true => Err(Failure::input("the model has no outputs")),
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
        let mut builder = sizes.apply(self.source.model.on(&self.device));
        for (name, ty) in &types {
            builder = builder.input(name, ty.clone());
        }
        let ranges = builder.network().map_err(failed)?.ranges;
        let mut session = builder.build().map_err(failed)?;
        placement::detail(session.plan(), &self.device, terminal);
        let missing = self.arguments.weights.load(&mut session, 0, terminal).map_err(failed)?;
        if !missing.is_empty() && !self.source.model.is_onnx() {
            let what =
                "the model's weights have no values: give them with `--weights FILE`. They are";
            return Err(Failure::input(format!("{what} {}", listed(&missing))));
        }
        Ok(Compiled { session, types, ranges })
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
