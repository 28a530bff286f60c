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
use tile_lang::{Budget, Limits, listed};

use super::call::Argument;
use super::constant::Constant;
use super::expression::{Evaluator, Lowered, Target};
use super::frame::Frame;
use super::guard::guard;
use super::network::{Network, Role};
use super::scope::Scope;
use super::tensors::Tensors;
use super::value::{Callable, Instance, Value};
use super::{Bindings, entry_inputs, entry_types, named, run_entry};
use crate::dtype::{DType, Scalar};
use crate::graph::{NodeId, Op};
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
    let scope = read(&mut evaluator, block).map_err(|error| vec![error.user_first()])?;
    let mut settings = Settings::default();
    let number = |name: &str, least: i64| match scope.names.get(name) {
        None => Ok(None),
        Some(Value::Constant(Constant::Int(value))) if *value >= least => Ok(Some(value.unsigned_abs())),
        Some(value) => {
            let found = if let Value::Symbol(text) = value { format!("the text `{text}`") } else { value.to_string() };
            let message = format!("`{name}` must be a whole number of at least {least}, and is {found}");
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
        let error = Diagnostic::error("E0241", function.place(), format!("nothing says how `{name}` is trained"));
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
    step().map_err(|error: Diagnostic| vec![error.user_first()])
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
    pub(super) function: &'p Function,
    pub(super) block: &'p Function,
    /// The names that the block has set.
    pub(super) scope: Scope<'p, NodeId>,
    bindings: &'a Bindings,
    pub(super) targets: &'a Targets,
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

    pub(super) fn span(&self) -> Span {
        self.block.name.as_ref().map_or(self.block.span, |name| name.span)
    }

    pub(super) fn error(&self, code: &'static str, message: String) -> Diagnostic {
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
            return Err(error.help(format!("the outputs are {}", listed(&names))));
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

    /// Returns the instance that a value of the block stands for, which must suit this kind. A
    /// bare definition takes its default hyper-parameters.
    pub(super) fn instance(
        &mut self,
        value: &Value<'p, NodeId>,
        kind: FunctionKind,
        setting: &str,
    ) -> Lowered<std::rc::Rc<Instance<'p, NodeId>>> {
        let keyword = kind.keyword();
        let wanted = if kind == FunctionKind::Optimizer { "an optimizer".to_owned() } else { format!("a {keyword}") };
        let callable = self.evaluator.callable(value, self.block, place_of(self.block, setting))?;
        let instance = match callable {
            Callable::Instance(instance) => instance,
            Callable::Function(function) => Instance::new(function, Vec::new(), None),
            Callable::Builtin(..) => {
                return Err(self.wrong(setting, format!("expected {wanted}, found the function `{value}`")));
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
            let message = format!("expected {wanted}, found the {found} `{name}`");
            return Err(self.wrong(setting, message));
        }
        if kind == FunctionKind::Optimizer && instance.path.borrow().is_none() {
            *instance.path.borrow_mut() = Some("train.optimizer".to_owned());
        }
        Ok(instance)
    }

    /// Applies the callable of a setting to these tensors.
    pub(super) fn applied(
        &mut self,
        callable: &Callable<'p, NodeId>,
        arguments: &[NodeId],
        setting: &str,
    ) -> Lowered<Value<'p, NodeId>> {
        let span = place_of(self.block, setting);
        let argument = |node: &NodeId| Argument { name: None, value: Value::Element(*node), span };
        self.evaluator.apply(callable, arguments.iter().map(argument).collect(), span)
    }

    pub(super) fn number(&mut self, value: f64) -> NodeId {
        self.evaluator.target.constant(Scalar::from_f64(DType::F32, value))
    }

    pub(super) fn binary(&mut self, op: BinaryOp, left: NodeId, right: NodeId) -> Lowered<NodeId> {
        let span = self.span();
        self.evaluator.target.binary(op, [left, right], span)
    }
}
