//! [`Program`]: a model to train, and its networks for batches of a dataset's columns.

use tile_compiler::dtype::DType;
use tile_compiler::graph::Graph;
use tile_compiler::lower::{
    Binding, Bindings, Network, Setting, Targets, lower, place_of_setting, train,
};
use tile_compiler::tensor::TensorType;
use tile_lang::ast::Function;
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::dataset::{Column, ColumnRole};
use super::steps::{Key, Mode};
use crate::device::Device;
use crate::error::Error;
use crate::model::Model;

/// The hyper-parameter of a model that is the number of samples in a step.
const BATCH_SIZE: &str = "batch_size";

/// A model to train, and its device. Models trained in turn have a program each.
pub(super) struct Program {
    pub model: Model,
    pub device: Device,
    pub entry: Option<String>,
    pub bindings: Bindings,
    pub frozen: Vec<String>,
    /// The names of the model's inputs without a default or binding, and of its outputs.
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    /// The model's name, if the file has several models to train in turn: see
    /// [`Network::keep_apart`].
    pub turn: Option<String>,
    /// The names of the inputs and outputs of all models that the file trains in turn, also if only
    /// this one is trained. It ignores their data.
    pub common: [Vec<String>; 2],
    /// The number of steps on each batch.
    pub steps: u64,
    /// True if the model has a hyper-parameter for the number of samples, which is not set.
    takes_batch_size: bool,
}

impl Program {
    /// Creates a program of the model `function`, which makes one step on each batch.
    pub fn new(
        model: &Model,
        device: &Device,
        function: &Function,
        bindings: Bindings,
        frozen: Vec<String>,
    ) -> Program {
        let (inputs, outputs) = (inputs_of(function, &bindings), outputs_of(function));
        let takes_batch_size = !bindings.parameters.contains_key(BATCH_SIZE)
            && function.parameters.iter().flatten().any(|p| p.name.name == BATCH_SIZE);
        Program {
            model: model.clone(),
            device: device.clone(),
            entry: function.name.as_ref().map(|name| name.name.clone()),
            bindings,
            frozen,
            inputs,
            outputs,
            turn: None,
            common: Default::default(),
            steps: 1,
            takes_batch_size,
        }
    }

    /// Makes this one of the models that a file trains in turn.
    pub fn take_turns(&mut self, all: &[&Function]) {
        self.turn = self.entry.clone();
        let inputs: Vec<String> =
            all.iter().flat_map(|model| inputs_of(model, &self.bindings)).collect();
        let outputs: Vec<String> = all.iter().flat_map(|model| outputs_of(model)).collect();
        self.common = [inputs, outputs];
    }

    /// Returns the bindings for a step of `samples` samples.
    pub fn bindings_for(&self, samples: usize) -> Bindings {
        let mut bindings = self.bindings.clone();
        if self.takes_batch_size {
            let samples = i64::try_from(samples).unwrap_or(i64::MAX);
            bindings.parameters.insert(BATCH_SIZE.to_owned(), Setting::Int(samples));
        }
        bindings
    }

    /// Returns the path of a weight of training in this model's steps.
    pub fn path(&self, path: &str) -> String {
        let in_turn = |model| Network::in_turn(model, path);
        self.turn.as_deref().map_or_else(|| path.to_owned(), in_turn)
    }

    /// Checks that samples of an input have the sizes that the model declares.
    fn check_sizes(&self, name: &str, sample: &TensorType, known: &Bindings) -> Result<(), Error> {
        let Some(declared) = self.model.declared(self.entry.as_deref(), name, known) else {
            return Ok(());
        };
        if declared.fits_sample(&sample.shape) {
            return Ok(());
        }
        let wanted = declared.sizes.get(1..).unwrap_or_default();
        let shown = declared.sample_sizes();
        let mut what =
            format!("a sample of `{name}` is {sample}, and the model declares the sizes [{shown}]");
        if sample.rank() < wanted.len() {
            what += ": it lacks an axis";
        }
        let axes = order(&sample.shape, wanted);
        let elements =
            wanted.iter().try_fold(1usize, |product, size| product.checked_mul((*size)?));
        if let Some(axes) = axes {
            what += &format!(": `x.transpose(0, {axes})` in NumPy fits");
        } else if elements == Some(sample.elements()) {
            what += &format!(
                ": the same number of elements, so `x.reshape(-1, {shown})` in NumPy fits"
            );
        }
        Err(Error::data(what))
    }

    /// Returns the place of a setting in the model's `train` block.
    pub fn place_of_setting(&self, name: &str) -> Option<Span> {
        let program = self.model.program();
        let block = program.training(program.entry(self.entry.as_deref()).ok()?)?;
        Some(place_of_setting(block, name))
    }

    /// Converts the diagnostics of the program.
    pub fn faulty(&self, diagnostics: Vec<Diagnostic>) -> Error {
        Error::Program { sources: self.model.sources().clone(), diagnostics }
    }

    /// Returns the names of the model's inputs or outputs.
    fn names(&self, role: ColumnRole) -> &[String] {
        match role {
            ColumnRole::Input => &self.inputs,
            ColumnRole::Target => &self.outputs,
            ColumnRole::Weight => &[],
        }
    }

    /// Returns the names of the inputs or outputs of all models that the file trains in turn.
    fn common_names(&self, role: ColumnRole) -> &[String] {
        let [inputs, outputs] = &self.common;
        match role {
            ColumnRole::Input => inputs,
            ColumnRole::Target => outputs,
            ColumnRole::Weight => &[],
        }
    }
}

/// Returns the axes of a batch, `2, 3, 1`, whose sizes are the wanted ones in their order.
fn order(sizes: &[usize], wanted: &[Option<usize>]) -> Option<String> {
    let mut left: Vec<Option<usize>> = sizes.iter().copied().map(Some).collect();
    let axis = |size: &Option<usize>| {
        let axis = left.iter().position(|other| other.is_some() && other == size)?;
        left[axis] = None;
        Some((axis + 1).to_string())
    };
    let axes: Vec<String> = wanted.iter().map(axis).collect::<Option<_>>()?;
    (axes.len() == sizes.len()).then(|| axes.join(", "))
}

/// Returns the names of a model's inputs without a default or binding.
fn inputs_of(model: &Function, bindings: &Bindings) -> Vec<String> {
    let is_open = |name: &str| !bindings.inputs.contains_key(name);
    let names = model.required_inputs().map(|input| &input.name.name);
    names.filter(|name| is_open(name)).cloned().collect()
}

fn outputs_of(model: &Function) -> Vec<String> {
    model.outputs.iter().map(|output| output.name.clone()).collect()
}

/// Returns the names of the inputs or outputs of all programs, each once.
pub(super) fn all_names(programs: &[Program], role: ColumnRole) -> Vec<String> {
    unique(programs.iter().flat_map(|program| program.names(role)))
}

fn unique<'n>(names: impl Iterator<Item = &'n String>) -> Vec<String> {
    let mut unique: Vec<String> = Vec::new();
    for name in names {
        if !unique.contains(name) {
            unique.push(name.clone());
        }
    }
    unique
}

/// Returns the name of the input or output for each column. Columns without a name are those of
/// all programs in order, and then those of models that the file trains in turn with them. `None`
/// for sample weights.
pub(super) fn names(
    programs: &[Program],
    columns: &[Column],
) -> Result<Vec<Option<String>>, Error> {
    let of_all = |role| {
        let own = programs.iter().flat_map(move |program| program.names(role));
        unique(own.chain(programs.iter().flat_map(move |program| program.common_names(role))))
            .into_iter()
    };
    let (mut inputs, mut outputs) = (of_all(ColumnRole::Input), of_all(ColumnRole::Target));
    let name = |Column { role, name, .. }: &Column| {
        let (names, what) = match role {
            ColumnRole::Input => (&mut inputs, "inputs"),
            ColumnRole::Target => (&mut outputs, "targets"),
            ColumnRole::Weight => return Ok(None),
        };
        let missing = || Error::data(format!("the data have more {what} than the model"));
        name.clone().map_or_else(|| names.next().ok_or_else(missing), Ok).map(Some)
    };
    columns.iter().map(name).collect()
}

/// Returns the name of the input or output of the program `number` for each column. `None` for
/// sample weights and for columns of other programs.
pub(super) fn names_of(
    programs: &[Program],
    number: usize,
    columns: &[Column],
) -> Result<Vec<Option<String>>, Error> {
    let mut names = names(programs, columns)?;
    for (name, Column { role, .. }) in names.iter_mut().zip(columns) {
        let is_among = |names: &[String]| name.iter().any(|name| names.contains(name));
        let is_own = programs.get(number).is_some_and(|own| is_among(own.names(*role)));
        let is_known = programs.iter().any(|program| is_among(program.common_names(*role)));
        if is_known && !is_own {
            *name = None;
        }
    }
    Ok(names)
}

/// Returns the network of a step, and the name of its input for each column. `None` for an unused
/// column.
pub(super) fn network(
    programs: &[Program],
    key: &Key,
) -> Result<(Network, Vec<Option<String>>), Error> {
    let Key { program: number, mode, columns, batch } = key;
    let program = programs.get(*number).ok_or_else(|| Error::internal("there is no program"))?;
    let mut bindings = program.bindings_for(*batch);
    bindings.training = *mode == Mode::Train;
    if let Mode::Adapt(path) = mode {
        bindings.adapting = Some(path.clone());
    }
    let predicts = matches!(mode, Mode::Predict | Mode::Adapt(_));
    let is_used = |column: &&Column| !predicts || column.role == ColumnRole::Input;
    let used: Vec<Column> = columns.iter().filter(is_used).cloned().collect();
    let mut names = names_of(programs, *number, &used)?.into_iter();
    let mut targets = Targets {
        frozen: program.frozen.clone(),
        frozen_elsewhere: programs.len() > 1,
        samples: Some(*batch),
        ..Targets::default()
    };
    let mut inputs = Vec::with_capacity(columns.len());
    for column in columns {
        let Column { role, ty, .. } = column;
        let name = if is_used(&column) { names.next().flatten() } else { None };
        if let (ColumnRole::Input, Some(name)) = (role, &name) {
            program.check_sizes(name, ty, &bindings)?;
        }
        let shape: Vec<usize> = [*batch].into_iter().chain(ty.shape.iter().copied()).collect();
        let ty = TensorType::new(ty.dtype, shape);
        inputs.push(match role {
            ColumnRole::Input => name.inspect(|name| {
                bindings.inputs.insert(name.clone(), Binding::Tensor(ty));
            }),
            _ if predicts => None,
            ColumnRole::Target => name.map(|name| {
                targets.types.insert(name.clone(), ty);
                Network::target(&name)
            }),
            ColumnRole::Weight if ty.dtype != DType::F32 => {
                return Err(Error::data(format!(
                    "the weights of {batch} samples are {ty}, and should be f32"
                )));
            }
            ColumnRole::Weight => {
                targets.weights = Some(ty.shape.to_vec());
                Some(Network::SAMPLE_WEIGHT.to_owned())
            }
        });
    }
    let entry = program.entry.as_deref();
    let checked = program.model.program();
    let network = match mode {
        Mode::Predict | Mode::Adapt(_) => lower(checked, entry, &bindings),
        Mode::Train | Mode::Evaluate => train(checked, entry, &bindings, &targets),
    };
    let mut network = network.map_err(|diagnostics| program.faulty(diagnostics))?;
    if let Some(model) = &program.turn {
        network.keep_apart(model);
    }
    // A program that takes its inputs as targets does not use those of the data.
    let graph = &network.graph;
    let is_used = |name: &String| {
        graph.inputs.iter().any(|&input| graph.node(input).op.given_name() == Some(name))
    };
    let inputs = inputs.into_iter().map(|name| name.filter(is_used)).collect();
    Ok((network, inputs))
}

/// Returns the graph of a training step of the program `number`.
pub(super) fn training_graph(
    programs: &[Program],
    number: usize,
    columns: &[Column],
    batch: usize,
) -> Result<Graph, Error> {
    let key = Key { program: number, mode: Mode::Train, columns: columns.to_vec(), batch };
    Ok(network(programs, &key)?.0.graph)
}
