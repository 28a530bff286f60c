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
            let given = self.evaluator.target.sample_weight;
            let weights = self.masked_weights(output, given, true)?;
            self.evaluator.target.sample_weight = weights;
            let value = self.applied(&Callable::Instance(instance), &arguments, "loss")?;
            self.evaluator.target.sample_weight = given;
            let value = self.evaluator.target.element(value, self.span())?;
            let mut loss = self.reduced(value, self.fitting(value, weights, given))?;
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
        total.map(|total| (total, parts)).ok_or_else(|| {
            let nothing =
                "there is nothing to minimize: no output has a loss, and there is no `with_loss`";
            let error = Diagnostic::error("E0245", place_of(self.block, "loss"), nothing);
            error.help("write `loss = mse`, say, or add `with_loss(X, L)` to the model")
        })
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
        let message = format!("the data have no targets, and `{setting}` needs them");
        let error = Diagnostic::error("E0242", place_of(self.block, setting), message);
        let output = &self.function.outputs[0].name;
        error.help(format!(
            "targets are an array called `y` or `{output}`; `targets = inputs` takes the model's inputs, as for an autoencoder"
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

    /// Returns the weights of the samples, times those that the mask of an output gives: 0 for what
    /// does not count, and for the rest 1. With `is_mean` the rest has the number for which the
    /// mean over all is the mean over what counts. The result has the mask.
    ///
    /// A mask of as many axes as the output has is not for the loss, which averages over the last.
    pub(super) fn masked_weights(
        &mut self,
        output: &Output,
        weights: Option<NodeId>,
        is_mean: bool,
    ) -> Lowered<Option<NodeId>> {
        let tensors = &mut self.evaluator.target;
        let Some(mask) = tensors.mask(output.value) else { return Ok(weights) };
        let sizes = tensors.shape(mask);
        if sizes.len() == tensors.shape(output.value).len() {
            return Ok(weights);
        }
        let span = self.span();
        let [zero, one] = [self.number(0.0), self.number(1.0)];
        let counted = if is_mean {
            let total = self.number(sizes.iter().product::<usize>() as f64);
            let tensors = &mut self.evaluator.target;
            let ones = tensors.cast_to(mask, DType::F32);
            let count = tensors.total(ones, span)?;
            let count = tensors.binary(BinaryOp::Max, [count, one], span)?;
            tensors.binary(BinaryOp::Div, [total, count], span)?
        } else {
            one
        };
        let tensors = &mut self.evaluator.target;
        let mut masked = tensors.select([mask, counted, zero], span)?;
        if let Some(weights) = weights {
            let given = tensors.shape(weights);
            if !given.starts_with(&sizes) && !sizes.starts_with(&given) {
                let message = format!(
                    "the weights of the samples have the shape {given:?}, and the mask of the output {sizes:?}"
                );
                return Err(self.error("E0242", message).help(
                    "a sample has one weight, or one for each part of it that the mask counts",
                ));
            }
            let rank = sizes.len().max(given.len());
            let aligned =
                [tensors.with_rank(masked, rank, span)?, tensors.with_rank(weights, rank, span)?];
            masked = tensors.binary(BinaryOp::Mul, aligned, span)?;
        }
        tensors.masked(masked, mask, span).map(Some)
    }

    /// Returns the weights for the values of a loss or metric: those with the mask if there is one
    /// for each value. Values for whole samples have left out themselves what does not count.
    pub(super) fn fitting(
        &self,
        values: NodeId,
        masked: Option<NodeId>,
        given: Option<NodeId>,
    ) -> Option<NodeId> {
        let tensors = &self.evaluator.target;
        let shape = tensors.shape(values);
        let fits = |weights: NodeId| shape.is_empty() || shape.starts_with(&tensors.shape(weights));
        if masked.is_some_and(fits) { masked } else { given }
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
        let (rank, span) = (shape.len(), self.span());
        let weight = self.evaluator.target.with_rank(weight, rank, span)?;
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
