//! Compiled steps, one for each size of a batch, and the weights that pass between them.
//!
//! Always true: at most [`MOST`] steps are kept. The weights are on the device, with the step whose turn it is, the last one, or in
//! the store; the host has values only of those that are to be given to the next step that has such a weight.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use tile_compiler::dtype::DType;
use tile_compiler::graph::Graph;
use tile_compiler::lower::{Binding, Network, Role, Targets, Weight, WeightKind, lower, train};
use tile_compiler::tensor::{Tensor, TensorType};

use super::dataset::{Column, ColumnRole};
use super::reading::Reading;
use super::trainer::Program;
use crate::error::Error;
use crate::model;
use crate::session::{Session, first_values};
use crate::store::Store;
use crate::weights::{self, Titles};

/// The most steps that are kept compiled.
const MOST: usize = 4;

/// What a step is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    Train,
    Evaluate,
    Predict,
}

/// What a step is compiled for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    mode: Mode,
    columns: Vec<Column>,
    batch: usize,
}

/// A step, ready on the device.
pub struct Step {
    key: Key,
    pub session: Session,
    /// The name of the graph's input for each column; none for a column that the step does not use.
    inputs: Vec<Option<String>>,
    weights: Vec<Weight>,
}

/// The value of a weight is in one place: `given` from when a file or a caller gives it until the first step that has such a weight
/// begins its turn; then with that step, on the device; and in `store`, on the device as well, while another step, which has no
/// such weight, has its turn, or none has.
#[derive(Default)]
pub struct Steps {
    /// The one that was used last is the last.
    steps: Vec<Step>,
    /// Those of training, or of evaluation where nothing was trained.
    pub weights: Vec<Weight>,
    /// Values that weights are to have: of a file, say.
    given: HashMap<String, Tensor>,
    /// The weights while it is no step's turn, and those that the step whose turn it is has not.
    store: Store,
    /// Whether it is the last step's turn.
    running: bool,
    /// The first values of what metrics count.
    zeros: HashMap<String, Tensor>,
    /// The file of which `given` is, until a step says whether they are the right ones.
    loaded: Option<Loaded>,
}

/// What a file of weights has.
struct Loaded {
    file: PathBuf,
    types: Vec<(String, TensorType)>,
    all: bool,
    /// Of a file of Keras, whose names are its own.
    titles: Option<Titles>,
}

impl Steps {
    /// The step for batches of this size, with the weights' values, which are made from `seed` where there are none.
    pub fn get(
        &mut self,
        program: &Program,
        mode: Mode,
        columns: &[Column],
        batch: usize,
        seed: u64,
    ) -> Result<&mut Step, Error> {
        let key = Key { mode, columns: columns.to_vec(), batch };
        if !self.running || self.steps.last().is_none_or(|last| last.key != key) {
            if let Some(last) = self.steps.last_mut().filter(|_| std::mem::take(&mut self.running)) {
                last.session.detach(&mut self.store)?;
            }
            let step = match self.steps.iter().position(|step| step.key == key) {
                Some(at) => self.steps.remove(at),
                None => {
                    if self.steps.len() == MOST {
                        self.steps.remove(0);
                    }
                    self.compile(program, key)?
                }
            };
            self.steps.push(step);
            self.begin(seed)?;
        }
        self.steps.last_mut().ok_or_else(|| Error::Internal { what: "there is no step".into() })
    }

    /// The step whose turn it is.
    pub fn last(&self) -> Option<&Step> {
        self.steps.last().filter(|_| self.running)
    }

    /// The session of the step whose turn it is.
    pub fn into_session(mut self) -> Option<Session> {
        self.steps.pop().filter(|_| self.running).map(|step| step.session)
    }

    /// Begins the last step's turn: gives it the weights.
    fn begin(&mut self, seed: u64) -> Result<(), Error> {
        let Steps { steps, given, store, running, .. } = self;
        let Some(step) = steps.last_mut() else { return Ok(()) };
        step.session.attach(store)?;
        *running = true;
        for weight in &step.weights {
            if let Some(value) = given.get(&weight.path) {
                step.session.set(&weight.path, value)?;
                given.remove(&weight.path);
            }
        }
        step.session.initialise(seed)
    }

    /// The value of a weight, if it has one.
    pub fn value(&self, path: &str) -> Result<Option<Tensor>, Error> {
        if let Some(value) = self.given.get(path) {
            return Ok(Some(value.clone()));
        }
        match self.last().filter(|step| step.weights.iter().any(|weight| weight.path == path)) {
            Some(step) => step.session.get(path).map(Some),
            None => pollster::block_on(self.store.read(path)),
        }
    }

    /// Gives the next step these values.
    pub fn give(&mut self, values: HashMap<String, Tensor>) {
        self.given = values;
    }

    /// Begins anew with these values, of a file: those of the model, or if `all` those of its optimizer, too. `titles` are those of a file of Keras.
    pub fn load(
        &mut self,
        file: &Path,
        values: HashMap<String, Tensor>,
        all: bool,
        titles: Option<Titles>,
    ) -> Result<(), Error> {
        let types = values.iter().map(|(path, tensor)| (path.clone(), tensor.ty().clone())).collect();
        let weights = std::mem::take(&mut self.weights);
        *self = Steps { weights: weights.clone(), given: values, ..Steps::default() };
        let is_known = titles.is_none() || weights.is_empty();
        self.loaded = Some(Loaded { file: file.to_owned(), types, all, titles });
        // Names of Keras mean nothing to whom the values may be saved for before there is a step.
        if is_known { Ok(()) } else { self.check_loaded(&weights, Mode::Predict) }
    }

    /// Sees that a file that was loaded has just the weights that it should have.
    fn check_loaded(&mut self, weights: &[Weight], mode: Mode) -> Result<(), Error> {
        let Some(loaded) = self.loaded.take() else { return Ok(()) };
        let with_optimizer = loaded.all && mode == Mode::Train;
        let counted = loaded.types.iter().any(|(path, _)| path == Network::LOSS_SUM);
        let wanted = |role: Role| role == Role::Model || with_optimizer && (role == Role::Optimizer || counted);
        let expected = weights.iter().filter(|weight| wanted(weight.role));
        let expected: Vec<_> = expected.map(|weight| (weight.path.clone(), weight.ty.clone())).collect();
        let paths = weights::paths(&loaded.file, &expected, &loaded.types, loaded.titles.as_ref());
        let mut found = Vec::new();
        for (path, (name, ty)) in paths.map_err(Error::Weights)?.into_iter().zip(loaded.types) {
            let wanted = expected.iter().find(|(wanted, _)| *wanted == path).map_or(ty.dtype, |(_, ty)| ty.dtype);
            let value = self.given.remove(&name).and_then(|value| weights::converted(value, wanted));
            self.given.extend(value.map(|value| (path.clone(), value)));
            found.push((path, ty));
        }
        found.retain(|(path, _)| with_optimizer || !path.starts_with("train."));
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        match weights::mismatch(&expected, &found) {
            Some(what) => {
                let what = format!("it does not have the program's weights:\n  {what}");
                Err(Error::Weights(weights::error(&loaded.file, what)))
            }
            None => Ok(()),
        }
    }

    /// The network of a step, and the name of its input for each column; none for a column that it does not use.
    fn network(program: &Program, key: &Key) -> Result<(Network, Vec<Option<String>>), Error> {
        let Key { mode, columns, batch } = key;
        let mut bindings = program.bindings.clone();
        bindings.training = *mode == Mode::Train;
        let mut targets = Targets { frozen: program.frozen.clone(), ..Targets::default() };
        let mut inputs = Vec::with_capacity(columns.len());
        let (mut given, mut wanted) = (program.inputs.iter(), program.outputs.iter());
        for Column { role, name, ty } in columns {
            let shape: Vec<usize> = [*batch].into_iter().chain(ty.shape.iter().copied()).collect();
            let ty = TensorType::new(ty.dtype, shape);
            let by_position = |names: &mut dyn Iterator<Item = &String>, what: &str| {
                let missing = || Error::data(format!("the data have more {what}s than the model"));
                name.clone().map_or_else(|| names.next().cloned().ok_or_else(missing), Ok)
            };
            inputs.push(match role {
                ColumnRole::Input => {
                    let name = by_position(&mut given, "input")?;
                    bindings.inputs.insert(name.clone(), Binding::Tensor(ty));
                    Some(name)
                }
                _ if *mode == Mode::Predict => None,
                ColumnRole::Target => {
                    let name = by_position(&mut wanted, "target")?;
                    targets.types.insert(name.clone(), ty);
                    Some(Network::target(&name))
                }
                ColumnRole::Weight if ty != TensorType::new(DType::F32, [*batch]) => {
                    return Err(Error::data(format!(
                        "the weights of {batch} samples are {ty}: one f32 for each is wanted"
                    )));
                }
                ColumnRole::Weight => {
                    targets.weighted = true;
                    Some(Network::SAMPLE_WEIGHT.to_owned())
                }
            });
        }
        let entry = program.entry.as_deref();
        let checked = program.model.program();
        let network = match mode {
            Mode::Predict => lower(checked, entry, &bindings),
            Mode::Train | Mode::Evaluate => train(checked, entry, &bindings, &targets),
        };
        let faulty = |diagnostics| Error::Program { sources: program.model.sources().clone(), diagnostics };
        Ok((network.map_err(faulty)?, inputs))
    }

    /// The graph of a step.
    pub fn graph(&self, program: &Program, mode: Mode, columns: &[Column], batch: usize) -> Result<Graph, Error> {
        let key = Key { mode, columns: columns.to_vec(), batch };
        Ok(Steps::network(program, &key)?.0.graph)
    }

    fn compile(&mut self, program: &Program, key: Key) -> Result<Step, Error> {
        let (network, inputs) = Steps::network(program, &key)?;
        let Network { graph, weights, initial, .. } = network;
        if let Some((name, _)) = graph.outputs.iter().find(|(name, _)| ["epoch", "seconds"].contains(&name.as_str())) {
            let what =
                format!("a metric is called `{name}`, as what an epoch has beside its results: give it another name");
            return Err(Error::data(what));
        }
        let mode = &key.mode;
        self.check_loaded(&weights, *mode)?;
        if *mode == Mode::Train || self.weights.is_empty() {
            self.weights.clone_from(&weights);
        }
        let sources = program.model.sources();
        let mut session = pollster::block_on(model::step(graph, &program.device, sources, &mut self.store))?;
        let metrics =
            weights.iter().filter(|weight| weight.role == Role::Metric && !self.zeros.contains_key(&weight.path));
        let metrics: HashSet<&str> = metrics.map(|weight| weight.path.as_str()).collect();
        let counted = initial.outputs.iter().filter(|(path, _)| metrics.contains(path.as_str())).cloned();
        self.zeros.extend(first_values(initial.part(counted.collect()), 0)?);
        session.keep_initial(initial);
        Ok(Step { key, session, inputs, weights })
    }

    /// Sets what metrics count to what it is before the first sample.
    pub fn reset_metrics(&mut self) -> Result<(), Error> {
        let Steps { steps, zeros, .. } = self;
        let Some(step) = steps.last_mut() else { return Ok(()) };
        for weight in step.weights.iter().filter(|weight| weight.role == Role::Metric) {
            if let Some(zero) = zeros.get(&weight.path) {
                step.session.set(&weight.path, zero)?;
            }
        }
        Ok(())
    }
}

impl Step {
    /// The weights that an optimizer changes.
    pub fn trained(&self) -> impl Iterator<Item = &Weight> {
        let is_trained = |weight: &&Weight| weight.kind == WeightKind::Param && weight.role == Role::Model;
        let changes = |path: &str| self.session.outputs().any(|(name, _)| name == path);
        self.weights.iter().filter(is_trained).filter(move |weight| changes(&weight.path))
    }

    /// Gives the tensors of a batch, one for each column.
    pub fn set(&mut self, batch: &[Tensor]) -> Result<(), Error> {
        for (name, tensor) in self.inputs.iter().zip(batch) {
            if let Some(name) = name {
                self.session.set(name, tensor)?;
            }
        }
        Ok(())
    }

    /// The mean of the loss over all samples since the metrics were reset, and what the metrics give.
    pub fn results(&self) -> Result<Vec<(String, Reading)>, Error> {
        let number = |tensor: Tensor| tensor.get(0).to_f64();
        let (sum, count) = (self.session.get(Network::LOSS_SUM)?, self.session.get(Network::LOSS_COUNT)?);
        let mut results = vec![(Network::LOSS.to_owned(), Reading::Number(number(sum) / number(count)))];
        let is_weight = |name: &str| self.weights.iter().any(|weight| weight.path == name);
        let outputs: Vec<String> = self.session.outputs().map(|(name, _)| name.to_owned()).collect();
        for name in outputs.into_iter().filter(|name| name != Network::LOSS && !is_weight(name)) {
            results.push((name.clone(), Reading::of(&self.session.output(&name)?)));
        }
        Ok(results)
    }
}
