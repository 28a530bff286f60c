//! Compiled steps, one for each model and batch size, and the weights that they share.
//!
//! Invariants:
//!
//! - At most [`MOST`] steps for each model are kept, of all models together.
//! - The weights are on the device, in the active step, which is the last one, or in the store. The
//!   host has only the values that the next step with such a weight takes.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use tile_compiler::dtype::DType;
use tile_compiler::lower::{
    InputRange, Network, Role, Weight, WeightKind, check_shared, is_part_of,
};
use tile_compiler::pipeline::Options;
use tile_compiler::tensor::Tensor;

use super::dataset::Column;
use super::program::{Program, network};
use super::reading::Reading;
use crate::backend::block_on;
use crate::builder;
use crate::error::Error;
use crate::session::{Session, first_values};
use crate::store::Store;
use crate::weights::{self, Assigned, Entries, LoadOptions, LoadReport, Pair, Recipe};

/// The maximum number of compiled steps of a model.
const MOST: usize = 4;

/// The purpose of a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    Train,
    Evaluate,
    Predict,
    /// Adapts the states of the layer at this path to the data.
    Adapt(String),
}

/// The identity of a compiled step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The number of the program among those that are trained in turn.
    pub program: usize,
    pub mode: Mode,
    pub columns: Vec<Column>,
    pub batch: usize,
}

/// A step compiled for the device.
pub struct CompiledStep {
    key: Key,
    pub session: Session,
    /// The name of the graph's input for each column. `None` for an unused column.
    inputs: Vec<Option<String>>,
    weights: Vec<Weight>,
    /// The states with the sum of the loss over all samples, and their number.
    mean: [String; 2],
    /// The numbers that the program expects in inputs.
    pub ranges: Vec<InputRange>,
}

/// Compiled steps and weights. The value of a weight is in exactly one place:
///
/// - `given`, from when a file or a caller sets it until the first step with such a weight becomes
///   active;
/// - the active step, on the device;
/// - `store`, also on the device, while no step is active or the active step has no such weight.
#[derive(Default)]
pub struct CompiledSteps {
    /// The compiled steps, in order of their last use.
    steps: Vec<CompiledStep>,
    /// The weights of training of each program, or of evaluation if it was not trained.
    known: Vec<Vec<Weight>>,
    /// Values to set, for example from a file.
    given: HashMap<String, Tensor>,
    /// The paths and classes of the layers of the first program, in the order of their application.
    pub layers: Vec<(String, String)>,
    /// The weights that the active step lacks, or all if no step is active.
    store: Store,
    /// Whether the last step is active.
    running: bool,
    /// The initial counts of metrics.
    zeros: HashMap<String, Tensor>,
    /// The layers that adapt to the data, with the number of the first program that has them.
    /// Filled when steps of training are compiled.
    pub adapts: Vec<(usize, String)>,
    /// The values of files, until a compiled step has checked them.
    loaded: Option<Loaded>,
    /// The entries and weights without a counterpart, of the last files.
    pub report: LoadReport,
}

/// The values of loaded files, to be checked.
pub struct Loaded {
    pub files: Vec<LoadedFile>,
    pub options: LoadOptions,
    /// Whether the optimizer's weights are loaded, too.
    pub all: bool,
}

/// The entries of a file, and their values until a weight takes them.
pub struct LoadedFile {
    pub entries: Entries,
    pub values: Vec<Option<Tensor>>,
}

impl Loaded {
    /// Returns whether the entries of a file have the names of weights.
    fn is_plain(&self, file: &LoadedFile) -> bool {
        self.options.is_plain() && file.entries.is_plain()
    }

    /// Returns the values by the paths of their weights, if these are known without the program.
    fn values(&self) -> impl Iterator<Item = (&String, &Tensor)> {
        let plain = self.files.iter().filter(|file| self.is_plain(file));
        let named = plain.flat_map(|file| file.entries.tensors.iter().zip(&file.values));
        named.filter_map(|((name, _), value)| Some((name, value.as_ref()?)))
    }
}

/// Makes a weight of several values, or of one in another layout.
fn made(recipe: &Recipe, values: &[Option<Tensor>]) -> Option<Tensor> {
    recipe.tensor(|entry| values[entry].as_ref().map(Cow::Borrowed).ok_or(())).ok().flatten()
}

impl CompiledSteps {
    /// Creates a set without steps, whose steps may take `bytes` of memory each.
    pub fn within(bytes: Option<u64>) -> CompiledSteps {
        CompiledSteps { store: Store::within(bytes), ..CompiledSteps::default() }
    }

    /// Returns the weights of all programs, each once.
    pub fn weights(&self) -> Vec<&Weight> {
        let mut paths = HashSet::new();
        let mut all: Vec<&Weight> = self.known.iter().flatten().collect();
        all.retain(|weight| paths.insert(weight.path.as_str()));
        all
    }

    /// Returns the first names in the paths of the weights that several programs have, sorted.
    pub fn shared(&self) -> Vec<String> {
        let mut parts = BTreeSet::new();
        for (number, weights) in self.known.iter().enumerate() {
            let before = self.known[..number].iter().flatten();
            let paths: HashSet<&str> = before.map(|weight| weight.path.as_str()).collect();
            let of_model = weights.iter().filter(|weight| weight.role == Role::Model);
            for path in of_model.map(|weight| weight.path.as_str()) {
                if paths.contains(path) {
                    parts.insert(path.split(['.', '[']).next().unwrap_or(path).to_owned());
                }
            }
        }
        parts.into_iter().collect()
    }

    /// Returns the step for a key, now active and with its weights. Weights without a value are
    /// initialised from `seed`.
    pub fn get(
        &mut self,
        programs: &[Program],
        key: Key,
        seed: u64,
    ) -> Result<&mut CompiledStep, Error> {
        if !self.running || self.steps.last().is_none_or(|last| last.key != key) {
            if let Some(last) = self.steps.last_mut().filter(|_| std::mem::take(&mut self.running))
            {
                last.session.detach(&mut self.store)?;
            }
            let step = match self.steps.iter().position(|step| step.key == key) {
                Some(at) => self.steps.remove(at),
                None => {
                    if self.steps.len() == MOST * programs.len() {
                        self.steps.remove(0);
                    }
                    self.compile(programs, key)?
                }
            };
            self.steps.push(step);
            self.begin(seed)?;
        }
        self.steps.last_mut().ok_or_else(|| Error::internal("there is no step"))
    }

    /// Returns the last used training step of the program `number`, now active. `None` if it has
    /// none.
    pub fn recall(
        &mut self,
        programs: &[Program],
        number: usize,
        seed: u64,
    ) -> Result<Option<&mut CompiledStep>, Error> {
        let last = self
            .steps
            .iter()
            .rfind(|step| step.key.program == number && step.key.mode == Mode::Train);
        let key = last.map(|step| step.key.clone());
        key.map(|key| self.get(programs, key, seed)).transpose()
    }

    /// Returns the active step.
    pub fn last(&self) -> Option<&CompiledStep> {
        self.steps.last().filter(|_| self.running)
    }

    /// Returns the session of the active step.
    pub fn into_session(mut self) -> Option<Session> {
        let mut session = self.steps.pop().filter(|_| self.running)?.session;
        session.layers = self.layers;
        Some(session)
    }

    /// Activates the last step, and sets its weights.
    fn begin(&mut self, seed: u64) -> Result<(), Error> {
        let CompiledSteps { steps, given, store, running, .. } = self;
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

    /// Returns the value of a weight, if it has one.
    pub fn value(&self, path: &str) -> Result<Option<Tensor>, Error> {
        let mut loaded = self.loaded.iter().flat_map(Loaded::values);
        let loaded = loaded.find(|(name, _)| *name == path).map(|(_, value)| value);
        if let Some(value) = loaded.or_else(|| self.given.get(path)) {
            return Ok(Some(value.clone()));
        }
        match self.last().filter(|step| step.weights.iter().any(|weight| weight.path == path)) {
            Some(step) => step.session.get(path).map(Some),
            None => block_on(self.store.read(path)),
        }
    }

    /// Returns the loaded values that no compiled step has taken: of models without steps, or of
    /// all before the first step. They are sorted by the paths of their weights.
    pub fn waiting(&self) -> Vec<(String, Tensor)> {
        let is_known = self.known.iter().any(|weights| !weights.is_empty());
        let loaded = self.loaded.iter().filter(|_| !is_known).flat_map(Loaded::values);
        let known: HashSet<&str> =
            self.weights().into_iter().map(|weight| weight.path.as_str()).collect();
        let given = self.given.iter().filter(|(path, _)| !known.contains(path.as_str()));
        let mut values: Vec<_> =
            loaded.chain(given).map(|(path, value)| (path.clone(), value.clone())).collect();
        values.sort_by(|(a, _), (b, _)| a.cmp(b));
        values
    }

    /// Sets the values that the next step takes.
    pub fn give(&mut self, values: HashMap<String, Tensor>) {
        self.given = values;
    }

    /// Replaces all weights with the values of files.
    pub fn load(&mut self, loaded: Loaded) -> Result<(), Error> {
        let (known, layers) = (std::mem::take(&mut self.known), std::mem::take(&mut self.layers));
        *self = CompiledSteps { known, layers, ..CompiledSteps::within(self.store.limit) };
        let weights: Vec<Weight> = self.weights().into_iter().cloned().collect();
        let is_plain = loaded.files.iter().all(|file| loaded.is_plain(file));
        self.loaded = Some(loaded);
        // Files with other names are checked now if the weights are known, so that saving before
        // the next step writes paths.
        if is_plain || weights.is_empty() {
            Ok(())
        } else {
            self.check_loaded(&weights, Mode::Predict)
        }
    }

    /// Checks that loaded files have the expected weights, and gives their values to these.
    fn check_loaded(&mut self, weights: &[Weight], mode: Mode) -> Result<(), Error> {
        let Some(Loaded { mut files, options, all }) = self.loaded.take() else { return Ok(()) };
        let with_optimizer = all && mode == Mode::Train;
        let names =
            files.iter().flat_map(|file| &file.entries.tensors).map(|(name, _)| name.clone());
        let names: HashSet<String> = names.collect();
        // A file of a run that stopped between epochs has no counts.
        let is_counted =
            |weight: &Weight| weight.role == Role::Metric && names.contains(&weight.path);
        let counted = weights.iter().any(is_counted);
        // The loss may be new in training, with weights that the file lacks.
        let wanted = |weight: &&Weight| match weight.role {
            Role::Model => true,
            Role::Loss => all || mode == Mode::Evaluate || names.contains(&weight.path),
            Role::Optimizer => with_optimizer,
            Role::Metric => with_optimizer && counted,
        };
        let expected = weights.iter().filter(wanted);
        let expected: Vec<_> =
            expected.map(|weight| (weight.path.clone(), weight.ty.clone())).collect();
        let entries: Vec<Entries> = files.iter().map(|file| file.entries.clone()).collect();
        let assigned = weights::assign(&expected, &entries, &options, with_optimizer);
        let Assigned { pairs, report } = assigned.map_err(Error::Weights)?;
        let types: HashMap<&str, DType> =
            expected.iter().map(|(path, ty)| (path.as_str(), ty.dtype)).collect();
        for Pair { file, recipe, path } in pairs {
            let values = &mut files[file].values;
            let value = match recipe.whole_entry() {
                Some(entry) => values[entry].take(),
                None => made(&recipe, values),
            };
            let dtype = types.get(path.as_str()).copied();
            let value = value.and_then(|value| {
                let dtype = dtype.unwrap_or(value.dtype());
                weights::converted(value, dtype)
            });
            let value = value
                .ok_or_else(|| Error::Weights(weights::not_made(&options.sources[file], &path)))?;
            self.given.insert(path, value);
        }
        if all && !with_optimizer {
            // They wait for the first step of training.
            for file in files {
                let entries = file.entries.tensors.into_iter().zip(file.values);
                let of_training = entries.filter(|((name, _), _)| name.starts_with("train."));
                let values = of_training.filter_map(|((name, _), value)| Some((name, value?)));
                self.given.extend(values);
            }
        }
        self.report = report;
        Ok(())
    }

    fn compile(&mut self, programs: &[Program], key: Key) -> Result<CompiledStep, Error> {
        let program = &programs[key.program];
        let (network, inputs) = network(programs, &key)?;
        self.check_shared(programs, key.program, &network.weights)?;
        check_frozen(programs, &key, &network.weights)?;
        if key.program == 0 {
            self.layers = network.classes();
        }
        let Network { graph, weights, initial, adapts, ranges, .. } = network;
        if let Some((name, _)) =
            graph.outputs.iter().find(|(name, _)| ["epoch", "seconds"].contains(&name.as_str()))
        {
            let what = format!(
                "a metric is called `{name}`, as what an epoch has beside its results: give it another name"
            );
            return Err(Error::data(what));
        }
        let mode = &key.mode;
        if self.loaded.is_some() {
            self.check_loaded(&all_weights(programs, &key, &weights)?, mode.clone())?;
        }
        if *mode == Mode::Train {
            for path in adapts {
                if self.adapts.iter().all(|(_, other)| *other != path) {
                    self.adapts.push((key.program, path));
                }
            }
        }
        // Training has the weights of evaluation and more, and evaluation those of the model and
        // more.
        self.known.resize_with(programs.len(), Vec::new);
        let known = &mut self.known[key.program];
        let has_more = weights.len() > known.len() && !matches!(mode, Mode::Adapt(_));
        if *mode == Mode::Train || has_more {
            known.clone_from(&weights);
        }
        let sources = program.model.sources();
        // The session owns the store's weights from `Session::attach` to `Session::detach`.
        let options = Options { updates: true, ..Options::default() };
        let mut session =
            block_on(builder::session(graph, &program.device, sources, options, &mut self.store))?;
        let metrics = weights
            .iter()
            .filter(|weight| weight.role == Role::Metric && !self.zeros.contains_key(&weight.path));
        let metrics: HashSet<&str> = metrics.map(|weight| weight.path.as_str()).collect();
        let counted =
            initial.outputs.iter().filter(|(path, _)| metrics.contains(path.as_str())).cloned();
        self.zeros.extend(first_values(initial.part(counted.collect()), 0)?);
        session.keep_initial(initial);
        let mean = [Network::LOSS_SUM, Network::LOSS_COUNT].map(|path| program.path(path));
        Ok(CompiledStep { key, session, inputs, weights, mean, ranges })
    }

    /// Checks that the weights of the program `number` suit those of the others.
    fn check_shared(
        &self,
        programs: &[Program],
        number: usize,
        weights: &[Weight],
    ) -> Result<(), Error> {
        let (program, others) = (&programs[number], programs.iter().zip(&self.known));
        for (other, known) in others.filter(|(other, _)| other.entry != program.entry) {
            let models = [other, program]
                .map(|program| program.model.program().entry(program.entry.as_deref()));
            if let [Ok(first), Ok(second)] = models {
                check_shared((first, known), (second, weights))
                    .map_err(|error| program.faulty(vec![error]))?;
            }
        }
        Ok(())
    }

    /// Resets the counts of the metrics.
    pub fn reset_metrics(&mut self) -> Result<(), Error> {
        let CompiledSteps { steps, zeros, .. } = self;
        let Some(step) = steps.last_mut() else { return Ok(()) };
        for weight in step.weights.iter().filter(|weight| weight.role == Role::Metric) {
            if let Some(zero) = zeros.get(&weight.path) {
                step.session.set(&weight.path, zero)?;
            }
        }
        Ok(())
    }
}

/// Checks that each path that is frozen is one of a model among several. A single model has checked
/// its own.
fn check_frozen(programs: &[Program], key: &Key, weights: &[Weight]) -> Result<(), Error> {
    let program = &programs[key.program];
    if key.mode != Mode::Train || programs.len() == 1 || program.frozen.is_empty() {
        return Ok(());
    }
    let weights = all_weights(programs, key, weights)?;
    let is_there = |path: &String| {
        weights.iter().any(|weight| is_part_of(&weight.path, std::slice::from_ref(path)))
    };
    match program.frozen.iter().find(|path| !is_there(path)) {
        Some(path) => Err(Error::data(format!(
            "cannot freeze `{path}`: no model that is trained has such a layer or weight"
        ))),
        None => Ok(()),
    }
}

/// Returns the weights of the steps of all programs for a key, each once. `weights` are those of
/// the key's own program.
fn all_weights(programs: &[Program], key: &Key, weights: &[Weight]) -> Result<Vec<Weight>, Error> {
    let mut all = weights.to_vec();
    for number in (0..programs.len()).filter(|number| *number != key.program) {
        let other = network(programs, &Key { program: number, ..key.clone() })?.0;
        let is_new = |weight: &Weight| all.iter().all(|known| known.path != weight.path);
        let new: Vec<Weight> = other.weights.into_iter().filter(is_new).collect();
        all.extend(new);
    }
    Ok(all)
}

impl CompiledStep {
    /// Returns the weights that the optimizer changes.
    pub fn trained(&self) -> impl Iterator<Item = &Weight> {
        let is_trained = |weight: &&Weight| {
            weight.kind == WeightKind::Param && matches!(weight.role, Role::Model | Role::Loss)
        };
        let changes = |path: &str| self.session.outputs().any(|(name, _)| name == path);
        self.weights.iter().filter(is_trained).filter(move |weight| changes(&weight.path))
    }

    /// Sets the tensors of a batch, one for each column.
    pub fn set(&mut self, batch: &[Tensor]) -> Result<(), Error> {
        for (name, tensor) in self.inputs.iter().zip(batch) {
            if let Some(name) = name {
                self.session.set(name, tensor)?;
            }
        }
        Ok(())
    }

    /// Returns the mean loss over all samples since the metrics were reset, and the metrics.
    pub fn results(&self) -> Result<Vec<(String, Reading)>, Error> {
        let number = |tensor: Tensor| tensor.get(0).to_f64();
        let [sum, count] = &self.mean;
        let (sum, count) = (self.session.get(sum)?, self.session.get(count)?);
        let mut results =
            vec![(Network::LOSS.to_owned(), Reading::Number(number(sum) / number(count)))];
        let is_weight = |name: &str| self.weights.iter().any(|weight| weight.path == name);
        let outputs: Vec<String> =
            self.session.outputs().map(|(name, _)| name.to_owned()).collect();
        for name in outputs.into_iter().filter(|name| name != Network::LOSS && !is_weight(name)) {
            results.push((name.clone(), Reading::of(&self.session.output(&name)?)));
        }
        Ok(results)
    }
}
