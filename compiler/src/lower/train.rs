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
    /// The number of steps on each batch.
    pub steps: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { batch_size: 32, epochs: 1, seed: 0, shuffle: true, steps: 1 }
    }
}

/// The inputs of a step besides the model's inputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Targets {
    /// The type of the target of each output, by the output's name. An output without a target has
    /// no loss.
    pub types: BTreeMap<String, TensorType>,
    /// The shape of the weights of the samples, an input [`Network::SAMPLE_WEIGHT`], if there are
    /// any: `[N]`, or more axes with a weight for each part of a sample, such as a step of a
    /// sequence.
    pub weights: Option<Vec<usize>>,
    /// The paths of frozen layers and weights, in addition to those that the block names.
    pub frozen: Vec<String>,
    /// True if a path of `frozen` may be one of another model, which is trained in turn.
    pub frozen_elsewhere: bool,
    /// The number of samples, for a step without inputs and targets.
    pub samples: Option<usize>,
}

/// Returns the settings in the `train` block of `entry`, or `None` if it has none.
pub fn settings(
    program: &Program,
    entry: Option<&str>,
) -> Result<Option<Settings>, Vec<Diagnostic>> {
    let function = program.entry(entry).map_err(|error| vec![error])?;
    let Some(block) = program.training(function) else { return Ok(None) };
    Ok(Some(Settings::of(&given(program, function, block)?)))
}

/// The values of those settings of a `train` block that are numbers. `shuffle` is 0 or 1.
pub(super) type Given = BTreeMap<&'static str, u64>;

impl Settings {
    /// Returns the settings with these values, and the defaults for all others.
    pub(super) fn of(given: &Given) -> Settings {
        let size = |name| Some(usize::try_from(*given.get(name)?).unwrap_or(usize::MAX));
        let default = Settings::default();
        Settings {
            batch_size: size("batch_size").unwrap_or(default.batch_size),
            epochs: size("epochs").unwrap_or(default.epochs),
            seed: given.get("seed").copied().unwrap_or(default.seed),
            shuffle: given.get("shuffle").map_or(default.shuffle, |value| *value != 0),
            steps: given.get("steps").copied().unwrap_or(default.steps),
        }
    }
}

/// Returns the numbers that the `train` block of `model` sets.
pub(super) fn given(
    program: &Program,
    model: &Function,
    block: &Function,
) -> Result<Given, Vec<Diagnostic>> {
    let mut evaluator =
        Evaluator::new(program, Tensors::new("settings", &Budget::new(Limits::default())), true);
    let scope = read(&mut evaluator, model, block).map_err(|error| vec![error.user_first()])?;
    let mut given = Given::new();
    let wrong = |name, message| vec![Diagnostic::error("E0240", place_of(block, name), message)];
    for (name, least) in [("batch_size", 1), ("epochs", 0), ("seed", 0), ("steps", 1)] {
        match scope.names.get(name) {
            None => {}
            Some(Value::Constant(Constant::Int(value))) if *value >= least => {
                given.insert(name, value.unsigned_abs());
            }
            Some(value) => {
                let found = if let Value::Symbol(text) = value {
                    format!("the text `{text}`")
                } else {
                    value.to_string()
                };
                let message =
                    format!("`{name}` must be a whole number of at least {least}, and is {found}");
                return Err(wrong(name, message));
            }
        }
    }
    match scope.names.get("shuffle") {
        None => {}
        Some(Value::Constant(constant)) => {
            given.insert("shuffle", u64::from(constant.is_true()));
        }
        Some(value) => {
            return Err(wrong(
                "shuffle",
                format!("`shuffle` is true or false, and this is {value}"),
            ));
        }
    }
    Ok(given)
}

/// Returns the location of a setting's value, or of the block's name if no statement of the block
/// itself sets it.
pub fn place_of(block: &Function, name: &str) -> Span {
    let set = block.body.iter().rev().find_map(|statement| match &statement.kind {
        StatementKind::Assign { targets, value }
            if targets.iter().any(|target| target.name == name) =>
        {
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
/// - if several outputs have a loss, the mean of each, `OUTPUT_loss`;
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
        let error = Diagnostic::error(
            "E0241",
            function.place(),
            format!("nothing says how `{name}` is trained"),
        );
        return Err(vec![error.help(format!("add `train {name} {{ loss = …; optimizer = …; }}`"))]);
    };
    let step = || {
        let mut evaluator = Evaluator::new(
            program,
            Tensors::new("step", &Budget::new(bindings.limits)),
            bindings.training,
        );
        evaluator.penalises = true;
        let frozen = paths(program, function, block, "frozen")?.unwrap_or_default();
        evaluator.frozen = [frozen, targets.frozen.clone()].concat().into();
        if let Some(trained) = paths(program, function, block, "trained")? {
            evaluator.trained = trained.into();
        }
        let scope = read(&mut evaluator, function, block)?;
        let mut inputs = entry_inputs(&mut evaluator, function, types)?;
        let mut step =
            StepBuilder { scope, evaluator, function, block, bindings, targets, samples: 1 };
        let mut wanted = step.wanted(&inputs)?;
        step.augment(&mut inputs, &mut wanted)?;
        step.samples = step.samples(&inputs, &wanted);
        let outputs = run_entry(&mut step.evaluator, function, bindings, inputs)?;
        step.add(&outputs, &wanted)
    };
    step().map_err(|error: Diagnostic| vec![error.user_first()])
}

/// Returns the paths that a setting of the block lists, or `None` if it does not set them.
fn paths(
    program: &Program,
    function: &Function,
    block: &Function,
    setting: &str,
) -> Lowered<Option<Vec<String>>> {
    let mut evaluator =
        Evaluator::new(program, Tensors::new("settings", &Budget::new(Limits::default())), true);
    let scope = read(&mut evaluator, function, block)?;
    let named = match scope.names.get(setting) {
        None => return Ok(None),
        Some(Value::List(items)) => items,
        Some(value) => std::slice::from_ref(value),
    };
    let path = |value: &Value<NodeId>| match value {
        Value::Symbol(path) => Ok(path.to_string()),
        value => {
            let message = format!(
                "`{setting}` is a list of paths, as `\"encoder.dense\"`, and this is {value}"
            );
            Err(Diagnostic::error("E0240", place_of(block, setting), message))
        }
    };
    named.iter().map(path).collect::<Lowered<_>>().map(Some)
}

/// Runs the statements of a `train` block. The names of the model's inputs are symbols in it.
fn read<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    model: &'p Function,
    block: &'p Function,
) -> Lowered<Scope<'p, NodeId>> {
    let mut scope = Scope::new(block);
    let inputs = model.inputs.iter().map(|input| input.name.name.as_str());
    scope.names.extend(inputs.map(|name| (name, Value::Symbol(name.into()))));
    evaluator.frames.push(Frame::new("train".to_owned()));
    let done = evaluator.run(&mut scope, &block.body);
    evaluator.frames.pop();
    done.map(|()| scope)
}

/// A step under construction.
pub(super) struct StepBuilder<'p, 'a> {
    pub(super) evaluator: Evaluator<'p, Tensors>,
    pub(super) function: &'p Function,
    pub(super) block: &'p Function,
    /// The names that the block has set.
    pub(super) scope: Scope<'p, NodeId>,
    bindings: &'a Bindings,
    pub(super) targets: &'a Targets,
    /// The number of samples.
    pub(super) samples: usize,
}

/// The value of an output of the model and its target, if it has one.
pub(super) struct Output {
    pub(super) value: NodeId,
    pub(super) target: Option<NodeId>,
}

impl Output {
    /// Returns what a loss or metric is applied to: the value and the target, or the value alone if
    /// it has one input. `None` if it needs a target, and there is none.
    pub(super) fn arguments(&self, instance: &Instance<NodeId>) -> Option<Vec<NodeId>> {
        match (instance.function.inputs.len(), self.target) {
            (1, _) => Some(vec![self.value]),
            (_, target) => Some(vec![self.value, target?]),
        }
    }
}

impl<'p> StepBuilder<'p, '_> {
    fn add(mut self, outputs: &[(String, NodeId)], wanted: &[(usize, NodeId)]) -> Lowered<Network> {
        self.evaluator.frames.push(Frame::new("train".to_owned()));
        self.reserved()?;
        let target = |number: usize| {
            wanted.iter().find(|(other, _)| *other == number).map(|&(_, target)| target)
        };
        let outputs = outputs.iter().enumerate();
        let outputs: Vec<Output> =
            outputs.map(|(number, &(_, value))| Output { value, target: target(number) }).collect();
        self.evaluator.role = Role::Loss;
        let (loss, parts) = self.loss(&outputs)?;
        // The weights of the loss are trained like the model's.
        let of_loss = self.evaluator.target.network.weights.len();
        self.evaluator.role = Role::Metric;
        self.mean(loss)?;
        let mut results = vec![(Network::LOSS.to_owned(), loss)];
        self.losses_of_outputs(&parts, &mut results)?;
        self.evaluator.updates = true;
        self.metrics(&outputs, &mut results)?;
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
        let Some(weight) = network.weights.iter().find(|weight| weight.path.starts_with("train."))
        else {
            return Ok(());
        };
        let span =
            self.evaluator.target.graph.node(weight.node).span.unwrap_or_else(|| self.span());
        let message = format!("the weight `{}` is where training keeps its own", weight.path);
        Err(Diagnostic::error("E0240", span, message)
            .help("give the layer another name than `train`"))
    }

    /// Returns the targets with the numbers of their outputs: inputs of the model that the block
    /// takes as `targets`, and new inputs for the others.
    fn wanted(&mut self, inputs: &[Option<Value<'p, NodeId>>]) -> Lowered<Vec<(usize, NodeId)>> {
        let outputs = &self.function.outputs;
        let is_output = |name: &String| outputs.iter().any(|output| output.name == *name);
        if let Some(unknown) = self.targets.types.keys().find(|name| !is_output(name)) {
            let names: Vec<&str> = outputs.iter().map(|output| output.name.as_str()).collect();
            let error = self
                .error("E0242", format!("there is a target for `{unknown}`, which is no output"));
            return Err(error.help(format!("the outputs are {}", listed(&names))));
        }
        let taken = self.inputs_as_targets()?;
        let mut wanted = Vec::new();
        for (number, output) in outputs.iter().enumerate() {
            if let Some(input) = taken.get(number).copied().flatten() {
                if let Some(Value::Element(node)) = inputs.get(input).and_then(Option::as_ref) {
                    wanted.push((number, *node));
                }
            } else if let Some(ty) = self.targets.types.get(&output.name) {
                let span = self.span();
                let op = Op::Input(Network::target(&output.name));
                wanted.push((number, self.evaluator.target.add(op, ty.clone(), &[], span)?));
            }
        }
        Ok(wanted)
    }

    /// Returns for each output the number of the input that the block's `targets` takes as its
    /// target, if any.
    fn inputs_as_targets(&self) -> Lowered<Vec<Option<usize>>> {
        let (inputs, outputs) = (&self.function.inputs, &self.function.outputs);
        let named: &[Value<NodeId>] = match self.scope.names.get("targets") {
            None => return Ok(Vec::new()),
            Some(value) if value.is_symbol("inputs") => {
                return Ok((0..outputs.len())
                    .map(|number| (number < inputs.len()).then_some(number))
                    .collect());
            }
            Some(Value::List(items)) => items,
            Some(value) => std::slice::from_ref(value),
        };
        if named.len() != outputs.len() {
            let message = format!(
                "`targets` is a list of {}, and the number of outputs is {}",
                named.len(),
                outputs.len()
            );
            return Err(self.wrong("targets", message));
        }
        let number = |value: &Value<'p, NodeId>| {
            let found = inputs.iter().position(|input| value.is_symbol(&input.name.name));
            if found.is_some() || value.is_symbol("none") {
                return Ok(found);
            }
            let names: Vec<&str> = inputs.iter().map(|input| input.name.name.as_str()).collect();
            let message =
                format!("a target is the name of an input or `none`, and this is {value}");
            Err(self.wrong("targets", message).help(format!("the inputs are {}", listed(&names))))
        };
        named.iter().map(number).collect()
    }

    /// Returns the number of samples: the first axis of the first target, else of the first input,
    /// else what the caller says.
    fn samples(&self, inputs: &[Option<Value<'p, NodeId>>], wanted: &[(usize, NodeId)]) -> usize {
        let input = |value: &Option<Value<NodeId>>| match value {
            Some(Value::Element(node)) => Some(*node),
            _ => None,
        };
        let first =
            wanted.first().map(|(_, target)| *target).or_else(|| inputs.iter().find_map(input));
        let first = first.and_then(|node| self.evaluator.target.graph.shape(node).first().copied());
        first.or(self.targets.samples).unwrap_or(1)
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
        let wanted = if kind == FunctionKind::Optimizer {
            "an optimizer".to_owned()
        } else {
            format!("a {keyword}")
        };
        let callable = self.evaluator.callable(value, self.block, place_of(self.block, setting))?;
        let instance = match callable {
            Callable::Instance(instance) => instance,
            Callable::Function(function) => Instance::new(function, Vec::new(), None),
            Callable::Builtin(..) => {
                return Err(
                    self.wrong(setting, format!("expected {wanted}, found the function `{value}`"))
                );
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
