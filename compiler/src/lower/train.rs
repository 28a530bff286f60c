//! Training: lowers a model and its `train` block to the graph of one training or evaluation step.
//!
//! ```text
//! inputs, targets ─▶ model ─▶ loss (+ penalties) ─▶ gradients ─▶ optimizer, per trained weight
//!                        └──▶ metrics
//! ```
//!
//! A step leaves nothing behind but weights. Optimizers and metrics have states like layers, and
//! the mean of the loss is kept as a sum and a count. Over many steps, the host therefore only
//! needs to read whether the loss is finite: see [`super::guard`].

use std::collections::BTreeMap;

use tile_lang::Program;
use tile_lang::ast::{Function, FunctionKind, StatementKind};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;
use tile_lang::{Budget, Limits};

use super::call::Argument;
use super::constant::Constant;
use super::expression::{Evaluator, Lowered, Target, is_part_of};
use super::frame::Frame;
use super::guard::guard;
use super::list::Copies;
use super::network::{Network, Role, Weight, WeightKind};
use super::scope::Scope;
use super::tensors::Tensors;
use super::value::{Callable, Instance, Value};
use super::weights::{Collected, constrain};
use super::{Bindings, entry_inputs, entry_types, named, run_entry};
use crate::dtype::{DType, Scalar};
use crate::gradient;
use crate::graph::{NodeId, Op};
use crate::names::snake_case;
use crate::scalar::BinaryOp;
use crate::tensor::TensorType;

/// The settings of a `train` block that concern the runs of steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The number of samples in a step.
    pub batch_size: usize,
    /// The number of passes over the data.
    pub epochs: usize,
    /// The seed of all random choices.
    pub seed: u64,
    /// Whether the samples are shuffled anew in each epoch.
    pub shuffle: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { batch_size: 32, epochs: 1, seed: 0, shuffle: true }
    }
}

/// The inputs of a step besides the model's inputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Targets {
    /// The type of the target of each output, by the output's name. An output without a target has
    /// no loss.
    pub types: BTreeMap<String, TensorType>,
    /// Whether each sample has a weight, in an input [`Network::SAMPLE_WEIGHT`].
    pub weighted: bool,
    /// The paths of frozen layers and weights, in addition to those that the block names.
    pub frozen: Vec<String>,
}

/// Returns the settings in the `train` block of `entry`, or `None` if it has none.
pub fn settings(program: &Program, entry: Option<&str>) -> Result<Option<Settings>, Vec<Diagnostic>> {
    let function = program.entry(entry).map_err(|error| vec![error])?;
    let Some(block) = program.training(function) else { return Ok(None) };
    let mut evaluator = Evaluator::new(program, Tensors::new("settings", &Budget::new(Limits::default())), true);
    let scope = read(&mut evaluator, block).map_err(|error| vec![error])?;
    let mut settings = Settings::default();
    let number = |name: &str, least: i64| match scope.names.get(name) {
        None => Ok(None),
        Some(Value::Constant(Constant::Int(value))) if *value >= least => Ok(Some(value.unsigned_abs())),
        Some(value) => {
            let message = format!("`{name}` is a number of at least {least}, and this is {value}");
            Err(vec![Diagnostic::error("E0240", place_of(block, name), message)])
        }
    };
    let size = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    settings.batch_size = number("batch_size", 1)?.map_or(settings.batch_size, size);
    settings.epochs = number("epochs", 0)?.map_or(settings.epochs, size);
    settings.seed = number("seed", 0)?.unwrap_or(settings.seed);
    match scope.names.get("shuffle") {
        None => {}
        Some(Value::Constant(constant)) => settings.shuffle = constant.is_true(),
        Some(value) => {
            let message = format!("`shuffle` is true or false, and this is {value}");
            return Err(vec![Diagnostic::error("E0240", place_of(block, "shuffle"), message)]);
        }
    }
    Ok(Some(settings))
}

/// Returns the location of a setting's value, or of the block's name if no statement of the block
/// itself sets it.
pub(super) fn place_of(block: &Function, name: &str) -> Span {
    let set = block.body.iter().rev().find_map(|statement| match &statement.kind {
        StatementKind::Assign { targets, value } if targets.iter().any(|target| target.name == name) => {
            Some(value.span)
        }
        _ => None,
    });
    set.unwrap_or_else(|| block.name.as_ref().map_or(block.span, |name| name.span))
}

/// Lowers one step: a training step if `bindings.training`, else an evaluation step. The graph has
/// these outputs:
///
/// - `loss`, `f32[]`: the loss of this step;
/// - each metric of the block, by its name;
/// - the next value of each weight that the step changes, by its path.
pub fn train(
    program: &Program,
    entry: Option<&str>,
    bindings: &Bindings,
    targets: &Targets,
) -> Result<Network, Vec<Diagnostic>> {
    let program = &*program.with(&named(bindings));
    let (function, types) = entry_types(program, entry, bindings)?;
    let Some(block) = program.training(function) else {
        let name = function.name.as_ref().map_or("this function", |name| &name.name);
        let error = Diagnostic::error("E0241", function.span, format!("nothing says how `{name}` is trained"));
        return Err(vec![error.help(format!("add `train {name} {{ loss = …; optimizer = …; }}`"))]);
    };
    let step = || {
        let mut evaluator =
            Evaluator::new(program, Tensors::new("step", &Budget::new(bindings.limits)), bindings.training);
        evaluator.penalises = true;
        evaluator.frozen = frozen(program, block, targets)?.into();
        let scope = read(&mut evaluator, block)?;
        let mut inputs = entry_inputs(&mut evaluator, function, types)?;
        let mut step = Step { scope, evaluator, function, block, bindings, targets };
        let mut wanted = step.wanted()?;
        step.augment(&mut inputs, &mut wanted)?;
        let outputs = run_entry(&mut step.evaluator, function, bindings, inputs)?;
        step.add(&outputs, &wanted)
    };
    step().map_err(|error: Diagnostic| vec![error])
}

/// Returns the paths of frozen layers and weights.
fn frozen(program: &Program, block: &Function, targets: &Targets) -> Lowered<Vec<String>> {
    let mut evaluator = Evaluator::new(program, Tensors::new("settings", &Budget::new(Limits::default())), true);
    let scope = read(&mut evaluator, block)?;
    let named = match scope.names.get("frozen") {
        None => &[][..],
        Some(Value::List(items)) => items,
        Some(value) => std::slice::from_ref(value),
    };
    let path = |value: &Value<NodeId>| match value {
        Value::Symbol(path) => Ok(path.to_string()),
        value => {
            let message = format!("`frozen` is a list of paths, as `\"encoder.dense\"`, and this is {value}");
            Err(Diagnostic::error("E0240", place_of(block, "frozen"), message))
        }
    };
    let named: Lowered<Vec<String>> = named.iter().map(path).collect();
    Ok([named?, targets.frozen.clone()].concat())
}

/// Runs the statements of a `train` block.
fn read<'p>(evaluator: &mut Evaluator<'p, Tensors>, block: &'p Function) -> Lowered<Scope<'p, NodeId>> {
    let mut scope = Scope::new(block);
    evaluator.frames.push(Frame::new("train".to_owned()));
    let done = evaluator.run(&mut scope, &block.body);
    evaluator.frames.pop();
    done.map(|()| scope)
}

/// A step under construction.
pub(super) struct Step<'p, 'a> {
    pub(super) evaluator: Evaluator<'p, Tensors>,
    function: &'p Function,
    pub(super) block: &'p Function,
    /// The names that the block has set.
    pub(super) scope: Scope<'p, NodeId>,
    bindings: &'a Bindings,
    targets: &'a Targets,
}

impl<'p> Step<'p, '_> {
    fn add(mut self, outputs: &[(String, NodeId)], wanted: &[(usize, NodeId)]) -> Lowered<Network> {
        self.evaluator.frames.push(Frame::new("train".to_owned()));
        self.reserved()?;
        let pairs: Vec<_> = wanted.iter().map(|&(number, target)| (number, outputs[number].1, target)).collect();
        self.evaluator.role = Role::Loss;
        let loss = self.loss(&pairs)?;
        // The weights of the loss are trained like the model's.
        let of_loss = self.evaluator.target.network.weights.len();
        self.evaluator.role = Role::Metric;
        self.mean(loss, &pairs)?;
        let mut results = vec![(Network::LOSS.to_owned(), loss)];
        self.evaluator.updates = true;
        self.metrics(&pairs, &mut results)?;
        self.evaluator.role = Role::Optimizer;
        if self.bindings.training {
            self.optimise(loss, of_loss)?;
        }
        if self.bindings.training {
            let span = self.span();
            guard(&mut self.evaluator.target, loss, &mut results, span)?;
        }
        self.evaluator.target.network.penalty = None;
        Ok(Network { adapts: self.evaluator.adapts, ..self.evaluator.target.into_network(results) })
    }

    fn span(&self) -> Span {
        self.block.name.as_ref().map_or(self.block.span, |name| name.span)
    }

    fn error(&self, code: &'static str, message: String) -> Diagnostic {
        Diagnostic::error(code, self.span(), message)
    }

    /// Returns an error at the value of a setting.
    pub(super) fn wrong(&self, setting: &str, message: String) -> Diagnostic {
        Diagnostic::error("E0240", place_of(self.block, setting), message)
    }

    /// Checks that the model has no weights under `train`, the prefix that training reserves, also
    /// in files.
    fn reserved(&self) -> Lowered<()> {
        let network = &self.evaluator.target.network;
        let Some(weight) = network.weights.iter().find(|weight| weight.path.starts_with("train.")) else {
            return Ok(());
        };
        let span = self.evaluator.target.graph.node(weight.node).span.unwrap_or_else(|| self.span());
        let message = format!("the weight `{}` is where training keeps its own", weight.path);
        Err(Diagnostic::error("E0240", span, message).help("give the layer another name than `train`"))
    }

    /// Adds the inputs for targets. Returns each with the number of its output.
    fn wanted(&mut self) -> Lowered<Vec<(usize, NodeId)>> {
        let outputs = &self.function.outputs;
        let is_output = |name: &String| outputs.iter().any(|output| output.name == *name);
        if let Some(unknown) = self.targets.types.keys().find(|name| !is_output(name)) {
            let names: Vec<&str> = outputs.iter().map(|output| output.name.as_str()).collect();
            let error = self.error("E0242", format!("there is a target for `{unknown}`, which is no output"));
            return Err(error.help(format!("the outputs are {}", names.join(", "))));
        }
        let mut wanted = Vec::new();
        for (number, output) in outputs.iter().enumerate() {
            if let Some(ty) = self.targets.types.get(&output.name) {
                let span = self.span();
                let op = Op::Input(Network::target(&output.name));
                wanted.push((number, self.evaluator.target.add(op, ty.clone(), &[], span)?));
            }
        }
        if wanted.is_empty() {
            return Err(self.error("E0242", "no output has a target".into()));
        }
        Ok(wanted)
    }

    /// Returns a setting for each output: one value for all of them, or a list with an item for
    /// each.
    fn each(&self, name: &str, outputs: usize) -> Lowered<Option<Vec<Value<'p, NodeId>>>> {
        let Some(value) = self.scope.names.get(name) else { return Ok(None) };
        Ok(Some(match value {
            Value::List(items) if items.len() == outputs => items.to_vec(),
            Value::List(items) => {
                let message = format!("`{name}` is a list of {}, and the number of outputs is {outputs}", items.len());
                return Err(self.wrong(name, message));
            }
            value => vec![value.clone(); outputs],
        }))
    }

    /// Adds the loss to minimise, penalties included.
    fn loss(&mut self, pairs: &[(usize, NodeId, NodeId)]) -> Lowered<NodeId> {
        let outputs = self.function.outputs.len();
        let Some(losses) = self.each("loss", outputs)? else {
            let help = "a loss of the library is `MeanSquaredError()`, say";
            return Err(self.error("E0241", "the `train` block sets no `loss`".into()).help(help));
        };
        let factors = self.each("loss_weights", outputs)?;
        let sample_weight = match self.targets.weighted {
            true => {
                let batch = self.batch(pairs);
                let ty = TensorType::new(DType::F32, [batch]);
                let span = self.span();
                Some(self.evaluator.target.add(Op::Input(Network::SAMPLE_WEIGHT.into()), ty, &[], span)?)
            }
            false => None,
        };
        // A single loss applies to the outputs with a target. In a list, each loss needs a target.
        let is_none = |loss: &Value<'p, NodeId>| *loss == Value::Symbol("none".into());
        let is_met = |number: usize| pairs.iter().any(|(other, ..)| *other == number);
        if matches!(self.scope.names.get("loss"), Some(Value::List(_)))
            && let Some(number) = (0..outputs).find(|&number| !is_none(&losses[number]) && !is_met(number))
        {
            let output = &self.function.outputs[number].name;
            let error =
                self.wrong("loss", format!("the output `{output}` has a loss, and the data have no target for it"));
            return Err(error.help("its loss may be `none`"));
        }
        let paths = self.paths_of_losses(&losses);
        let mut total: Option<NodeId> = None;
        for &(number, predicted, target) in pairs {
            if is_none(&losses[number]) {
                continue;
            }
            let instance = self.instance(&losses[number], FunctionKind::Loss)?;
            *instance.path.borrow_mut() = Some(paths[number].clone());
            let value = self.applied(&Callable::Instance(instance), &[predicted, target], "loss")?;
            let value = self.evaluator.target.element(value, self.span())?;
            let mut loss = self.reduced(value, sample_weight)?;
            if let Some(factor) = factors.as_ref().map(|factors| &factors[number]) {
                let Value::Constant(factor) = factor else {
                    return Err(
                        self.wrong("loss_weights", format!("a loss's weight is a number, and this is {factor}"))
                    );
                };
                let factor = self.number(factor.scalar().to_f64());
                loss = self.binary(BinaryOp::Mul, loss, factor)?;
            }
            total = Some(match total {
                Some(total) => self.binary(BinaryOp::Add, total, loss)?,
                None => loss,
            });
        }
        let Some(total) = total else { return Err(self.error("E0242", "no output has a loss".into())) };
        match self.evaluator.target.network.penalty {
            Some(penalty) => self.binary(BinaryOp::Add, total, penalty),
            None => Ok(total),
        }
    }

    /// Returns the path of each loss's weights: `loss`, or `loss[0]` and so on in a list of losses.
    /// A loss that occurs several times in the list has the path of its first position.
    fn paths_of_losses(&mut self, losses: &[Value<'p, NodeId>]) -> Vec<String> {
        let base = self.evaluator.frames.first_mut().map_or(String::new(), |entry| entry.place("loss", false));
        losses.iter().for_each(forget_paths);
        let is_list = matches!(self.scope.names.get("loss"), Some(Value::List(_)));
        let first = |loss: &Value<'p, NodeId>| match loss {
            Value::Callable(Callable::Instance(_)) => losses.iter().position(|other| other == loss),
            _ => None,
        };
        let path =
            |(number, loss)| if is_list { format!("{base}[{}]", first(loss).unwrap_or(number)) } else { base.clone() };
        losses.iter().enumerate().map(path).collect()
    }

    /// Returns the number of samples in the step.
    fn batch(&self, pairs: &[(usize, NodeId, NodeId)]) -> usize {
        let graph = &self.evaluator.target.graph;
        pairs.first().and_then(|(_, _, target)| graph.shape(*target).first().copied()).unwrap_or(1)
    }

    /// Averages a loss over its elements, each multiplied by its sample weight.
    fn reduced(&mut self, loss: NodeId, sample_weight: Option<NodeId>) -> Lowered<NodeId> {
        let shape = self.evaluator.target.graph.shape(loss).to_vec();
        let span = self.span();
        let mut loss = match self.evaluator.target.graph.dtype(loss) {
            DType::F32 => loss,
            _ => self.evaluator.target.cast(loss, DType::F32),
        };
        let Some((&samples, rest)) = shape.split_first() else {
            // As in Keras, a single number for the batch is multiplied by the mean sample weight.
            return match sample_weight {
                Some(weight) => {
                    let weight = self.reduced(weight, None)?;
                    self.binary(BinaryOp::Mul, loss, weight)
                }
                None => Ok(loss),
            };
        };
        if let Some(weight) = sample_weight {
            let mut aligned = vec![samples];
            aligned.extend(rest.iter().map(|_| 1));
            let ty = TensorType::new(DType::F32, aligned);
            let weight = self.evaluator.target.add(Op::Reshape, ty, &[weight], span)?;
            loss = self.binary(BinaryOp::Mul, loss, weight)?;
        }
        let sum = self.evaluator.target.total(loss, span)?;
        let count = self.number(shape.iter().product::<usize>() as f64);
        self.binary(BinaryOp::Div, sum, count)
    }

    /// Accumulates the sum of the loss over samples, and the number of samples.
    fn mean(&mut self, loss: NodeId, pairs: &[(usize, NodeId, NodeId)]) -> Lowered<()> {
        let samples = self.batch(pairs) as f64;
        let factor = self.number(samples);
        let weighted = self.binary(BinaryOp::Mul, loss, factor)?;
        self.counted(weighted, samples, Network::LOSS_SUM, Network::LOSS_COUNT).map(|_| ())
    }

    /// Adds to a sum and a count, which are kept as states. Returns both, including this step.
    fn counted(&mut self, sum: NodeId, count: f64, sum_path: &str, count_path: &str) -> Lowered<[NodeId; 2]> {
        let count = self.number(count);
        let mut kept = [sum, count];
        for (path, value) in [sum_path, count_path].into_iter().zip(&mut kept) {
            let before = self.evaluator.target.zero_state(path, self.span())?;
            *value = self.binary(BinaryOp::Add, before, *value)?;
            self.evaluator.target.network.updates.insert(path.to_owned(), *value);
        }
        Ok(kept)
    }

    /// Returns the running mean of a loss or function over all samples so far. A value of rank 0
    /// counts once for each sample of the batch.
    fn running_mean(&mut self, value: NodeId, name: &str, samples: usize) -> Lowered<NodeId> {
        let span = self.span();
        let value = match self.evaluator.target.graph.dtype(value) {
            DType::F32 => value,
            _ => self.evaluator.target.cast(value, DType::F32),
        };
        let shape = self.evaluator.target.graph.shape(value).to_vec();
        let (sum, count) = if shape.is_empty() {
            let factor = self.number(samples as f64);
            (self.binary(BinaryOp::Mul, value, factor)?, samples)
        } else {
            (self.evaluator.target.total(value, span)?, shape.iter().product())
        };
        let paths = [format!("train.metrics.{name}.Sum"), format!("train.metrics.{name}.Count")];
        let [sum, count] = self.counted(sum, count as f64, &paths[0], &paths[1])?;
        self.binary(BinaryOp::Div, sum, count)
    }

    fn metrics(&mut self, pairs: &[(usize, NodeId, NodeId)], results: &mut Vec<(String, NodeId)>) -> Lowered<()> {
        let metrics = match self.scope.names.get("metrics") {
            None => return Ok(()),
            Some(Value::List(items)) => items.to_vec(),
            Some(value) => vec![value.clone()],
        };
        let several = self.function.outputs.len() > 1;
        for &(number, predicted, target) in pairs {
            let of_output = match (several, metrics.get(number)) {
                (true, Some(Value::List(items))) => items.to_vec(),
                (true, Some(value)) if metrics.len() == self.function.outputs.len() => vec![value.clone()],
                (true, _) => {
                    let message = "the model has several outputs, and `metrics` is not a list with an item for each";
                    return Err(self.wrong("metrics", message.into()));
                }
                (false, _) => metrics.clone(),
            };
            for metric in of_output {
                let instance = self.instance(&metric, FunctionKind::Metric)?;
                let keeps = instance.function.kind == FunctionKind::Metric;
                let value = self.applied(&Callable::Instance(instance), &[predicted, target], "metrics")?;
                let mut value = self.evaluator.target.element(value, self.span())?;
                let mut name = metric_name(&metric);
                if several {
                    name = format!("{}.{name}", self.function.outputs[number].name);
                }
                if results.iter().any(|(other, _)| *other == name) {
                    let error = self.wrong("metrics", format!("two metrics are called `{name}`"));
                    return Err(error.help("give one a `name = …`"));
                }
                if !keeps {
                    value = self.running_mean(value, &name, self.batch(pairs))?;
                }
                results.push((name, value));
            }
        }
        Ok(())
    }

    /// Adds the next values of the trained weights, which are among the first `of_model` weights.
    fn optimise(&mut self, loss: NodeId, of_model: usize) -> Lowered<()> {
        let Some(optimizer) = self.scope.names.get("optimizer").cloned() else {
            let help = "an optimizer of the library is `Adam()`, say";
            return Err(self.error("E0241", "the `train` block sets no `optimizer`".into()).help(help));
        };
        let weights: Vec<Weight> = self.evaluator.target.network.weights[..of_model].to_vec();
        let frozen = self.evaluator.frozen.clone();
        for path in &*frozen {
            if !weights.iter().any(|weight| is_part_of(&weight.path, std::slice::from_ref(path))) {
                let paths: Vec<&str> = weights.iter().map(|weight| weight.path.as_str()).collect();
                let error =
                    self.wrong("frozen", format!("`{path}` is to be frozen, and there is no such layer or weight"));
                return Err(error.help(format!("the weights are {}", paths.join(", "))));
            }
        }
        let is_trained = |weight: &&Weight| weight.kind == WeightKind::Param && !is_part_of(&weight.path, &frozen);
        let trained: Vec<&Weight> = weights.iter().filter(is_trained).collect();
        // If a layer has replaced a weight in this step, the replacement is trained: a normalised
        // kernel, for example.
        let Collected { updates, replaced, .. } = &self.evaluator.target.network;
        let node = |weight: &&Weight| updates.get(&weight.path).copied().unwrap_or(weight.node);
        let seen = |weight: &&Weight| replaced.get(&weight.path).copied().unwrap_or(weight.node);
        let nodes: Vec<NodeId> = trained.iter().map(node).collect();
        let seen: Vec<NodeId> = trained.iter().map(seen).collect();
        let found = gradient::paths(&mut self.evaluator.target.graph, loss, &seen)
            .map_err(|error| self.error("E0244", error.to_string()))?;
        if found.iter().all(Option::is_none) {
            self.nothing_to_train(&trained, of_model)?;
        }
        let graph = &mut self.evaluator.target.graph;
        let gradients = nodes.iter().zip(found);
        let gradients =
            gradients.map(|(&node, found)| found.unwrap_or_else(|| gradient::zeros_like(graph, node))).collect();
        let gradients = self.transformed(gradients)?;
        let instance = self.instance(&optimizer, FunctionKind::Optimizer)?;
        let base = instance.path.borrow().clone().unwrap_or_default();
        let mut moves = trained.is_empty();
        for ((weight, node), gradient) in trained.iter().zip(nodes).zip(gradients) {
            // Each trained weight has an optimizer with its own states, nested optimizers included.
            let own = Copies::new(&self.evaluator.budget).instance(&instance);
            *own.path.borrow_mut() = Some(format!("{base}.{}", weight.path));
            self.applied(&Callable::Instance(own), &[node, gradient], "optimizer")?;
            moves |= self.evaluator.target.network.updates.get(&weight.path).is_some_and(|next| *next != node);
        }
        let paths: Vec<&str> = trained.iter().map(|weight| weight.path.as_str()).collect();
        constrain(&mut self.evaluator, &paths, place_of(self.block, "optimizer"))?;
        if !moves {
            let error = self.wrong("optimizer", "this optimizer changes no weight".into());
            return Err(error.help("it says what its first input is after the step: `update P = …;`"));
        }
        Ok(())
    }

    /// Handles a loss that depends on no trained weight. This is an error, unless there are no
    /// trained weights and the model updates states.
    fn nothing_to_train(&self, trained: &[&Weight], of_model: usize) -> Lowered<()> {
        let network = &self.evaluator.target.network;
        let counts = network.weights[..of_model].iter().any(|weight| network.updates.contains_key(&weight.path));
        if trained.is_empty() {
            return match counts {
                true => Ok(()),
                false => {
                    Err(self
                        .error("E0245", "there is nothing to train: the model has no weight that is not frozen".into()))
                }
            };
        }
        let paths: Vec<&str> = trained.iter().map(|weight| weight.path.as_str()).collect();
        let error = self.error("E0245", "the loss depends on no trained weight".into());
        Err(error
            .saying(format!("the trained weights are {}", paths.join(", ")))
            .help("what is rounded, compared, an integer, an `argmax` or in `stop_gradient` hands no gradient on"))
    }

    /// Applies the block's `gradients` function to the list of all gradients.
    fn transformed(&mut self, gradients: Vec<NodeId>) -> Lowered<Vec<NodeId>> {
        let Some(transform) = self.scope.names.get("gradients").cloned() else { return Ok(gradients) };
        let span = self.span();
        let list = Value::List(gradients.iter().map(|node| Value::Element(*node)).collect());
        let result = self.evaluator.pipe(list, &transform, self.block, span)?;
        let items = match result {
            Value::List(items) => items,
            value => vec![value].into(),
        };
        if items.len() != gradients.len() {
            let message = format!(
                "`gradients` gives {} tensors, and the number of gradients is {}",
                items.len(),
                gradients.len()
            );
            return Err(self.wrong("gradients", message));
        }
        let mut found = Vec::with_capacity(items.len());
        for (item, gradient) in items.into_iter().zip(gradients) {
            let node = self.evaluator.target.element(item, span)?;
            if self.evaluator.target.graph.node(node).ty != self.evaluator.target.graph.node(gradient).ty {
                return Err(self.wrong("gradients", "`gradients` changes the shape of a gradient".into()));
            }
            found.push(node);
        }
        Ok(found)
    }

    /// Returns the instance that a value of the block stands for, which must suit this kind. A
    /// bare definition takes its default hyper-parameters.
    fn instance(
        &mut self,
        value: &Value<'p, NodeId>,
        kind: FunctionKind,
    ) -> Lowered<std::rc::Rc<Instance<'p, NodeId>>> {
        let keyword = kind.keyword();
        let setting = if kind == FunctionKind::Metric { "metrics" } else { keyword };
        let wanted = if kind == FunctionKind::Optimizer { "an optimizer".to_owned() } else { format!("a {keyword}") };
        let callable = self.evaluator.callable(value, self.block, place_of(self.block, setting))?;
        let instance = match callable {
            Callable::Instance(instance) => instance,
            Callable::Function(function) => Instance::new(function, Vec::new(), None),
            Callable::Builtin(..) => {
                return Err(self.wrong(setting, format!("{wanted} is wanted here, and `{value}` is none")));
            }
        };
        // A function may serve as a loss, and a function or a loss as a metric.
        let fits = match instance.function.kind {
            FunctionKind::Function => kind != FunctionKind::Optimizer,
            FunctionKind::Loss => matches!(kind, FunctionKind::Loss | FunctionKind::Metric),
            other => other == kind,
        };
        if !fits {
            let found = instance.function.kind.keyword();
            let name = instance.function.name.as_ref().map_or("this", |name| &name.name);
            let message = format!("{wanted} is wanted here, and `{name}` is defined with `{found}`");
            return Err(self.wrong(setting, message));
        }
        if kind == FunctionKind::Optimizer && instance.path.borrow().is_none() {
            *instance.path.borrow_mut() = Some("train.optimizer".to_owned());
        }
        Ok(instance)
    }

    /// Applies the callable of a setting to these tensors.
    fn applied(
        &mut self,
        callable: &Callable<'p, NodeId>,
        arguments: &[NodeId],
        setting: &str,
    ) -> Lowered<Value<'p, NodeId>> {
        let span = place_of(self.block, setting);
        let argument = |node: &NodeId| Argument { name: None, value: Value::Element(*node), span };
        self.evaluator.apply(callable, arguments.iter().map(argument).collect(), span)
    }

    fn number(&mut self, value: f64) -> NodeId {
        self.evaluator.target.constant(Scalar::from_f64(DType::F32, value))
    }

    fn binary(&mut self, op: BinaryOp, left: NodeId, right: NodeId) -> Lowered<NodeId> {
        let span = self.span();
        self.evaluator.target.binary(op, [left, right], span)
    }
}

/// Clears the paths that the block assigned to instances.
fn forget_paths(value: &Value<'_, NodeId>) {
    match value {
        Value::Callable(Callable::Instance(instance)) => {
            instance.path.borrow_mut().take();
            instance.parameters.iter().flatten().for_each(forget_paths);
        }
        Value::List(items) => items.iter().for_each(forget_paths),
        _ => {}
    }
}

/// Returns a metric's name as in Keras: its `name = …`, or its class in snake case, or the symbol
/// that names it.
fn metric_name(value: &Value<'_, NodeId>) -> String {
    let (name, function) = match value {
        Value::Callable(Callable::Instance(instance)) => (instance.name.as_ref(), instance.function),
        Value::Callable(Callable::Function(function)) => (None, *function),
        value => return snake_case(&value.to_string()),
    };
    match (name, &function.name) {
        (Some(name), _) => name.to_string(),
        // Keras names this metric differently from its class.
        (None, Some(class)) if class.name == "FBetaScore" => "fbeta_score".to_owned(),
        (None, Some(class)) => snake_case(&class.name),
        (None, None) => "metric".to_owned(),
    }
}
