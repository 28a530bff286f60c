//! The `loss` setting of a `train` block: the value that a step minimizes.

use tile_lang::ast::FunctionKind;
use tile_lang::diagnostic::Diagnostic;

use super::expression::{Lowered, Target};
use super::network::Network;
use super::train::{Output, StepBuilder, place_of};
use super::value::{Callable, Value};
use crate::dtype::DType;
use crate::graph::{NodeId, Op};
use crate::scalar::BinaryOp;
use crate::tensor::TensorType;

impl<'p> StepBuilder<'p, '_> {
    /// Returns a setting for each output: one value for all of them, or a list with an item for
    /// each.
    fn each(&self, name: &str, outputs: usize) -> Lowered<Option<Vec<Value<'p, NodeId>>>> {
        let Some(value) = self.scope.names.get(name) else { return Ok(None) };
        Ok(Some(match value {
            Value::List(items) if items.len() == outputs => items.to_vec(),
            Value::List(items) => {
                let message = format!(
                    "`{name}` is a list of {}, and the number of outputs is {outputs}",
                    items.len()
                );
                return Err(self.wrong(name, message));
            }
            value => vec![value.clone(); outputs],
        }))
    }

    /// Adds the loss to minimise, penalties included. Returns it, and the losses of the outputs
    /// with the outputs' numbers, without their factors.
    pub(super) fn loss(&mut self, outputs: &[Output]) -> Lowered<(NodeId, Vec<(usize, NodeId)>)> {
        let Some(losses) = self.each("loss", outputs.len())? else {
            let help = "a loss of the library is `MeanSquaredError()`, say; `loss = none` minimizes what `with_loss` adds";
            return Err(self.error("E0241", "the `train` block sets no `loss`".into()).help(help));
        };
        let factors = self.each("loss_weights", outputs.len())?;
        if let Some(shape) = &self.targets.weights {
            let ty = TensorType::new(DType::F32, shape.as_slice());
            let span = self.span();
            let weight = self.evaluator.target.add(
                Op::Input(Network::SAMPLE_WEIGHT.into()),
                ty,
                &[],
                span,
            )?;
            self.evaluator.target.sample_weight = Some(weight);
        }
        let is_none = |loss: &Value<'p, NodeId>| loss.is_symbol("none");
        let is_list = matches!(self.scope.names.get("loss"), Some(Value::List(_)));
        let paths = self.paths_of_losses(&losses);
        let (mut parts, mut terms) = (Vec::new(), Vec::new());
        for (number, output) in outputs.iter().enumerate() {
            if is_none(&losses[number]) {
                continue;
            }
            let instance = self.instance(&losses[number], FunctionKind::Loss, "loss")?;
            let Some(arguments) = output.arguments(&instance) else {
                // A single loss applies to the outputs with a target. In a list, each needs one.
                if is_list {
                    return Err(self.without_target(number));
                }
                continue;
            };
            *instance.path.borrow_mut() = Some(paths[number].clone());
            let value = self.applied(&Callable::Instance(instance), &arguments, "loss")?;
            let value = self.evaluator.target.element(value, self.span())?;
            let mut loss = self.reduced(value, self.evaluator.target.sample_weight)?;
            parts.push((number, loss));
            if let Some(factor) = factors.as_ref().map(|factors| &factors[number]) {
                let Value::Constant(factor) = factor else {
                    return Err(self.wrong(
                        "loss_weights",
                        format!("a loss's weight is a number, and this is {factor}"),
                    ));
                };
                let factor = self.number(factor.scalar().to_f64());
                loss = self.binary(BinaryOp::Mul, loss, factor)?;
            }
            terms.push(loss);
        }
        let mut total: Option<NodeId> = None;
        let penalty = self.evaluator.target.network.penalty;
        for term in terms.into_iter().chain(penalty) {
            total = Some(match total {
                Some(total) => self.binary(BinaryOp::Add, total, term)?,
                None => term,
            });
        }
        if parts.is_empty() && !losses.iter().all(is_none) {
            return Err(self.without_targets("loss"));
        }
        let nothing = "no output has a loss, and there is no `with_loss`";
        total.map(|total| (total, parts)).ok_or_else(|| self.error("E0242", nothing.into()))
    }

    /// Returns the error for a loss in a list whose output has no target.
    fn without_target(&self, number: usize) -> Diagnostic {
        let output = &self.function.outputs[number].name;
        let error = self.wrong(
            "loss",
            format!("the output `{output}` has a loss, and the data have no target for it"),
        );
        error.help("its loss may be `none`")
    }

    /// Returns the error for a loss or metric in a setting that needs a target when there is none.
    pub(super) fn without_targets(&self, setting: &str) -> Diagnostic {
        let message = format!("no output has a target for the `{setting}`");
        let error = Diagnostic::error("E0242", place_of(self.block, setting), message);
        let output = &self.function.outputs[0].name;
        error.help(format!(
            "the data call it `y` or `{output}`; `targets = inputs` takes the model's inputs, as for an autoencoder"
        ))
    }

    /// Returns the path of each loss's weights: `loss`, or `loss[0]` and so on in a list of losses.
    /// A loss that occurs several times in the list has the path of its first position.
    fn paths_of_losses(&mut self, losses: &[Value<'p, NodeId>]) -> Vec<String> {
        let base = self
            .evaluator
            .frames
            .first_mut()
            .map_or(String::new(), |entry| entry.place("loss", false));
        losses.iter().for_each(forget_paths);
        let is_list = matches!(self.scope.names.get("loss"), Some(Value::List(_)));
        let first = |loss: &Value<'p, NodeId>| match loss {
            Value::Callable(Callable::Instance(_)) => losses.iter().position(|other| other == loss),
            _ => None,
        };
        let path = |(number, loss)| {
            if is_list {
                format!("{base}[{}]", first(loss).unwrap_or(number))
            } else {
                base.clone()
            }
        };
        losses.iter().enumerate().map(path).collect()
    }

    /// Averages a loss over its elements, each multiplied by its sample weight.
    fn reduced(&mut self, loss: NodeId, sample_weight: Option<NodeId>) -> Lowered<NodeId> {
        let shape = self.evaluator.target.graph.shape(loss).to_vec();
        let span = self.span();
        let mut loss = match self.evaluator.target.graph.dtype(loss) {
            DType::F32 => loss,
            _ => self.evaluator.target.cast(loss, DType::F32),
        };
        if shape.is_empty() {
            // As in Keras, a single number for the batch is multiplied by the mean sample weight.
            return match sample_weight {
                Some(weight) => {
                    let weight = self.reduced(weight, None)?;
                    self.binary(BinaryOp::Mul, loss, weight)
                }
                None => Ok(loss),
            };
        }
        if let Some(weight) = sample_weight {
            loss = self.weighted(loss, weight)?;
        }
        let sum = self.evaluator.target.total(loss, span)?;
        let count = self.number(shape.iter().product::<usize>() as f64);
        self.binary(BinaryOp::Div, sum, count)
    }

    /// Multiplies values of samples, `[N, …]`, by the weights of the samples, whose shape is the
    /// first axes of the values.
    pub(super) fn weighted(&mut self, values: NodeId, weight: NodeId) -> Lowered<NodeId> {
        let graph = &self.evaluator.target.graph;
        let (shape, weights) = (graph.shape(values), graph.shape(weight));
        if !shape.starts_with(weights) {
            let what = "the weights of the samples have the shape";
            let message = format!("{what} {weights:?}, and what they weight has {shape:?}");
            return Err(self
                .error("E0242", message)
                .help("a sample has one weight, or one for each number of its loss"));
        }
        let aligned: Vec<usize> =
            weights.iter().copied().chain(shape[weights.len()..].iter().map(|_| 1)).collect();
        let span = self.span();
        let ty = TensorType::new(DType::F32, aligned);
        let weight = self.evaluator.target.add(Op::Reshape, ty, &[weight], span)?;
        self.binary(BinaryOp::Mul, values, weight)
    }

    /// Accumulates the sum of the loss over samples, and the number of samples.
    pub(super) fn mean(&mut self, loss: NodeId) -> Lowered<()> {
        let samples = self.samples as f64;
        let factor = self.number(samples);
        let weighted = self.binary(BinaryOp::Mul, loss, factor)?;
        let samples = self.number(samples);
        self.counted(weighted, samples, Network::LOSS_SUM, Network::LOSS_COUNT).map(|_| ())
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
