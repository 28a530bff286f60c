//! Element types of a model's inputs and targets.
//!
//! As in Keras, integers, bools and f64 are converted to f32 for the model, so that `Image / 255`
//! is no integer division. An input that the program cannot take as f32, because it uses it as an
//! index or reads its bits, keeps its stored type. An input that is rounded only later, as in
//! `Embedding`, is converted, too: integers beyond 2^24 lose their last bits.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tile_compiler::dtype::DType;
use tile_compiler::lower::{Binding, Bindings, lower, settings};
use tile_compiler::tensor::{Tensor, TensorType};
use tile_lang::ast::FunctionKind;

use super::dataset::{Column, ColumnRole, Dataset};
use super::program::{Program, names_of};
use super::trainer::Trainer;
use crate::error::Error;
use crate::model::Model;

fn becomes_f32(dtype: DType) -> bool {
    !dtype.is_float() || dtype == DType::F64
}

/// Changes those of the inputs to f32 in `bindings` with which the program is still valid by
/// `takes`. The others keep their types.
fn choose(takes: &dyn Fn(&Bindings) -> bool, bindings: &mut Bindings, inputs: &[String]) {
    let as_f32 = |bindings: &mut Bindings, name: &str| {
        if let Some(Binding::Tensor(ty)) = bindings.inputs.get_mut(name) {
            ty.dtype = DType::F32;
        }
    };
    let mut all = bindings.clone();
    inputs.iter().for_each(|name| as_f32(&mut all, name));
    if takes(&all) {
        *bindings = all;
        return;
    }
    for name in inputs {
        let mut one = bindings.clone();
        as_f32(&mut one, name);
        if takes(&one) {
            *bindings = one;
        }
    }
}

/// Converts arrays, by the names of their inputs, to the types that a model takes:
///
/// - A model with a `train` block takes the types of training, so that it computes what was
///   trained.
/// - Any other model takes integers and bools as f32 if that keeps the types of its outputs. A
///   model that computes integers from integers keeps them.
/// - Functions and ONNX files take arrays as they are.
///
/// `bindings` has the other bindings. An input with a type there keeps it.
///
/// # Errors
/// [`Error::Data`] if an array is too large.
pub fn as_model_takes(
    model: &Model,
    entry: Option<&str>,
    bindings: &Bindings,
    arrays: &mut BTreeMap<String, Tensor>,
) -> Result<(), Error> {
    let program = model.program();
    let is_trained = matches!(settings(program, entry), Ok(Some(_)));
    let is_model = model.is_program()
        && program.entry(entry).is_ok_and(|entry| entry.kind == FunctionKind::Model);
    let is_meant = |dtype: DType| becomes_f32(dtype) && (is_trained || !dtype.is_float());
    let is_open =
        |name: &str, array: &Tensor| !bindings.inputs.contains_key(name) && is_meant(array.dtype());
    let inputs: Vec<String> = arrays
        .iter()
        .filter(|(name, array)| is_open(name, array))
        .map(|(name, _)| name.clone())
        .collect();
    if inputs.is_empty() || !(is_trained || is_model) {
        return Ok(());
    }
    let mut bindings = bindings.clone();
    for (name, array) in arrays.iter() {
        bindings.inputs.entry(name.clone()).or_insert(Binding::Tensor(array.ty().clone()));
    }
    let outputs = |bindings: &Bindings| -> Option<Vec<DType>> {
        let graph = lower(program, entry, bindings).ok()?.graph;
        Some(graph.outputs.iter().map(|(_, output)| graph.node(*output).ty.dtype).collect())
    };
    let stored = if is_trained { None } else { outputs(&bindings) };
    let takes = |bindings: &Bindings| {
        outputs(bindings)
            .is_some_and(|outputs| stored.as_ref().is_none_or(|stored| *stored == outputs))
    };
    choose(&takes, &mut bindings, &inputs);
    for name in inputs {
        if let (Some(Binding::Tensor(ty)), Some(array)) =
            (bindings.inputs.get(&name), arrays.get_mut(&name))
            && ty.dtype != array.dtype()
        {
            *array = to_f32(array)?;
        }
    }
    Ok(())
}

/// Returns the inputs of the program `number` among the columns, with the types that it takes.
fn taken(
    programs: &[Program],
    number: usize,
    columns: &[Column],
    samples: usize,
) -> Vec<(usize, DType)> {
    let program = &programs[number];
    let mut bindings = program.bindings_for(samples);
    let names = names_of(programs, number, columns).unwrap_or_default();
    let mut inputs = Vec::new();
    for (column, (Column { role, ty, .. }, name)) in columns.iter().zip(names).enumerate() {
        let Some(name) = name.filter(|_| *role == ColumnRole::Input) else { continue };
        let shape: Vec<usize> = [samples].into_iter().chain(ty.shape.iter().copied()).collect();
        let stored = Binding::Tensor(TensorType::new(ty.dtype, shape));
        bindings.inputs.insert(name.clone(), stored);
        inputs.push((column, name));
    }
    let open = inputs.iter().filter(|(column, _)| becomes_f32(columns[*column].ty.dtype));
    let open: Vec<String> = open.map(|(_, name)| name.clone()).collect();
    if !open.is_empty() {
        let takes = |bindings: &Bindings| {
            lower(program.model.program(), program.entry.as_deref(), bindings).is_ok()
        };
        choose(&takes, &mut bindings, &open);
    }
    let chosen = |(column, name): (usize, String)| match bindings.inputs.get(&name) {
        Some(Binding::Tensor(ty)) => Some((column, ty.dtype)),
        _ => None,
    };
    inputs.into_iter().filter_map(chosen).collect()
}

/// A dataset with some columns converted to f32.
pub(super) struct Typed<'a> {
    data: &'a dyn Dataset,
    columns: Vec<Column>,
}

impl Trainer {
    /// Returns the data with the column types that the program takes, for batches of `batch_size`
    /// samples.
    pub(super) fn typed<'a>(&mut self, data: &'a dyn Dataset, batch_size: usize) -> Typed<'a> {
        self.typed_from(0, data, batch_size)
    }

    /// Returns the data with the column types that the programs from the number `first` on take.
    pub(super) fn typed_from<'a>(
        &mut self,
        first: usize,
        data: &'a dyn Dataset,
        batch_size: usize,
    ) -> Typed<'a> {
        let stored = (first, data.columns());
        if let Some(columns) = self.types.get(&stored) {
            return Typed { data, columns: columns.clone() };
        }
        let samples = batch_size.min(data.len());
        let mut columns = stored.1.clone();
        for column in &mut columns {
            if column.role == ColumnRole::Target && column.ty.dtype == DType::F64 {
                column.ty.dtype = DType::F32;
            }
        }
        // A column of several programs is f32 if all of them take it so.
        let mut keeps = vec![false; columns.len()];
        for number in first..self.programs.len() {
            for (column, dtype) in taken(&self.programs, number, &stored.1, samples) {
                keeps[column] |= dtype != DType::F32;
                columns[column].ty.dtype = dtype;
            }
        }
        for (number, _) in keeps.into_iter().enumerate().filter(|(_, keeps)| *keeps) {
            columns[number].ty.dtype = stored.1[number].ty.dtype;
        }
        self.types.insert(stored, columns.clone());
        Typed { data, columns }
    }
}

impl Dataset for Typed<'_> {
    fn len(&self) -> usize {
        self.data.len()
    }

    fn columns(&self) -> Vec<Column> {
        self.columns.clone()
    }

    fn batch(&self, samples: &[usize]) -> Result<Vec<Tensor>, Error> {
        let mut batch = self.data.batch(samples)?;
        for (tensor, column) in batch.iter_mut().zip(&self.columns) {
            if tensor.dtype() != column.ty.dtype && column.ty.dtype == DType::F32 {
                *tensor = to_f32(tensor)?;
            }
        }
        Ok(batch)
    }

    /// Returns the stored values, which are exact.
    fn whole_column(&self, column: usize) -> Option<Cow<'_, Tensor>> {
        self.data.whole_column(column)
    }

    fn origin_of_targets(&self) -> Option<String> {
        self.data.origin_of_targets()
    }

    fn place(&self, sample: usize) -> String {
        self.data.place(sample)
    }
}

fn to_f32(tensor: &Tensor) -> Result<Tensor, Error> {
    let values: Vec<f32> = match tensor.dtype() {
        DType::U8 => tensor.bytes().iter().map(|byte| f32::from(*byte)).collect(),
        DType::F64 => tensor
            .bytes()
            .as_chunks::<8>()
            .0
            .iter()
            .map(|b| f64::from_le_bytes(*b) as f32)
            .collect(),
        DType::I64 => tensor
            .bytes()
            .as_chunks::<8>()
            .0
            .iter()
            .map(|b| i64::from_le_bytes(*b) as f32)
            .collect(),
        _ => tensor.scalars().map(|value| value.to_f64() as f32).collect(),
    };
    Tensor::from_f32(tensor.shape(), &values)
        .ok_or_else(|| Error::data("an array is too large".to_owned()))
}
