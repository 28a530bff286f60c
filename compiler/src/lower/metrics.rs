//! The `metrics` and `weighted_metrics` settings of a `train` block, and the running means that a
//! step keeps.

use tile_lang::ast::FunctionKind;

use super::expression::{Lowered, Target};
use super::network::Network;
use super::train::{Output, StepBuilder};
use super::value::{Callable, Value};
use crate::dtype::DType;
use crate::graph::NodeId;
use crate::names::snake_case;
use crate::scalar::BinaryOp;

impl<'p> StepBuilder<'p, '_> {
    /// Adds to a sum and a count, which are kept as states. Returns both, including this step.
    pub(super) fn counted(
        &mut self,
        sum: NodeId,
        count: NodeId,
        sum_path: &str,
        count_path: &str,
    ) -> Lowered<[NodeId; 2]> {
        let mut kept = [sum, count];
        for (path, value) in [sum_path, count_path].into_iter().zip(&mut kept) {
            let before = self.evaluator.target.zero_state(path, self.span())?;
            *value = self.binary(BinaryOp::Add, before, *value)?;
            self.evaluator.target.network.updates.insert(path.to_owned(), *value);
        }
        Ok(kept)
    }

    /// Returns the running mean of a loss or function over all samples so far, with these weights.
    /// A value of rank 0 counts once for each sample of the batch.
    fn running_mean(
        &mut self,
        value: NodeId,
        name: &str,
        weights: Option<NodeId>,
    ) -> Lowered<NodeId> {
        let span = self.span();
        let mut value = match self.evaluator.target.graph.dtype(value) {
            DType::F32 => value,
            _ => self.evaluator.target.cast(value, DType::F32),
        };
        let shape = self.evaluator.target.graph.shape(value).to_vec();
        let elements = if shape.is_empty() { self.samples } else { shape.iter().product() };
        let mut count = self.number(elements as f64);
        if let Some(weight) = weights {
            let total = self.evaluator.target.total(weight, span)?;
            let weights: usize = self.evaluator.target.graph.shape(weight).iter().product();
            let each = self.number(elements as f64 / weights.max(1) as f64);
            count = self.binary(BinaryOp::Mul, total, each)?;
            if !shape.is_empty() {
                value = self.weighted(value, weight)?;
            }
        }
        let sum = match shape.is_empty() {
            true => self.binary(BinaryOp::Mul, value, count)?,
            false => self.evaluator.target.total(value, span)?,
        };
        let paths = [format!("train.metrics.{name}.Sum"), format!("train.metrics.{name}.Count")];
        let [sum, count] = self.counted(sum, count, &paths[0], &paths[1])?;
        let mean = self.binary(BinaryOp::Div, sum, count)?;
        if weights.is_none() {
            return Ok(mean);
        }
        // Weights may be 0 for all samples so far. As in Keras, the mean is 0 then.
        let zero = self.number(0.0);
        let is_zero = self.binary(BinaryOp::Eq, count, zero)?;
        self.evaluator.target.select([is_zero, zero, mean], span)
    }

    /// Adds the mean loss of each output to the results if several have one, as Keras does.
    pub(super) fn losses_of_outputs(
        &mut self,
        parts: &[(usize, NodeId)],
        results: &mut Vec<(String, NodeId)>,
    ) -> Lowered<()> {
        if parts.len() < 2 {
            return Ok(());
        }
        for &(number, loss) in parts {
            let name = format!("{}_{}", self.function.outputs[number].name, Network::LOSS);
            // The weights of the samples are in the loss already.
            let mean = self.running_mean(loss, &name, None)?;
            results.push((name, mean));
        }
        Ok(())
    }

    /// Adds the values of all metrics to the results. Only those of `weighted_metrics` see the
    /// weights of the samples.
    pub(super) fn metrics(
        &mut self,
        outputs: &[Output],
        results: &mut Vec<(String, NodeId)>,
    ) -> Lowered<()> {
        let weight = self.evaluator.target.sample_weight.take();
        self.metrics_of("metrics", outputs, results)?;
        self.evaluator.target.sample_weight = weight;
        self.metrics_of("weighted_metrics", outputs, results)?;
        self.evaluator.target.sample_weight = None;
        Ok(())
    }

    fn metrics_of(
        &mut self,
        setting: &str,
        outputs: &[Output],
        results: &mut Vec<(String, NodeId)>,
    ) -> Lowered<()> {
        let metrics = match self.scope.names.get(setting) {
            None => return Ok(()),
            Some(Value::List(items)) => items.to_vec(),
            Some(value) => vec![value.clone()],
        };
        let several = outputs.len() > 1;
        let has_target = outputs.iter().any(|output| output.target.is_some());
        for (number, output) in outputs.iter().enumerate() {
            let of_output = match (several, metrics.get(number)) {
                (true, Some(Value::List(items))) => items.to_vec(),
                (true, Some(value)) if value.is_symbol("none") => Vec::new(),
                (true, Some(value)) if metrics.len() == outputs.len() => vec![value.clone()],
                (true, _) => {
                    let message = format!(
                        "the model has several outputs, and `{setting}` is not a list with an item for each"
                    );
                    return Err(self.wrong(setting, message));
                }
                (false, _) => metrics.clone(),
            };
            let given = self.evaluator.target.sample_weight;
            let weights = self.masked_weights(output, given, false)?;
            for metric in of_output {
                let instance = self.instance(&metric, FunctionKind::Metric, setting)?;
                let keeps = instance.function.kind == FunctionKind::Metric;
                let Some(arguments) = output.arguments(&instance) else {
                    // Some outputs may have no target, but a metric must have some use.
                    if has_target {
                        continue;
                    }
                    return Err(self.without_targets(setting));
                };
                self.evaluator.target.sample_weight = weights;
                let value = self.applied(&Callable::Instance(instance), &arguments, setting)?;
                self.evaluator.target.sample_weight = given;
                let mut value = self.evaluator.target.element(value, self.span())?;
                let name = self.free_name(
                    metric_name(&metric),
                    setting,
                    several.then_some(number),
                    results,
                );
                if !keeps {
                    let weights = self.fitting(value, weights, given);
                    value = self.running_mean(value, &name, weights)?;
                }
                results.push((name, value));
            }
        }
        Ok(())
    }

    /// Returns the name of a metric's result, as in Keras: `NAME`, or `weighted_NAME` if another
    /// one has that name, else with a number. The name of an output of several comes before it:
    /// `OUTPUT_NAME`.
    fn free_name(
        &self,
        name: String,
        setting: &str,
        output: Option<usize>,
        results: &[(String, NodeId)],
    ) -> String {
        let of_output = |name: &str| match output {
            Some(number) => format!("{}_{name}", self.function.outputs[number].name),
            None => name.to_owned(),
        };
        let is_free = |name: &String| results.iter().all(|(other, _)| other != name);
        let weighted = (setting == "weighted_metrics").then(|| format!("weighted_{name}"));
        let base = weighted.clone().unwrap_or_else(|| name.clone());
        let numbered = (1..).map(|number| format!("{base}_{number}"));
        let mut names = std::iter::once(name.clone())
            .chain(weighted)
            .chain(numbered)
            .map(|name| of_output(&name));
        names.find(is_free).unwrap_or(name)
    }
}

/// Returns a metric's name as in Keras: its `name = …`, or its class in snake case, or the symbol
/// that names it.
fn metric_name(value: &Value<'_, NodeId>) -> String {
    let (name, function) = match value {
        Value::Callable(Callable::Instance(instance)) => {
            (instance.name.as_ref(), instance.function)
        }
        Value::Callable(Callable::Function(function)) => (None, *function),
        value => return snake_case(&value.to_string()),
    };
    match (name, &function.name) {
        (Some(name), _) => name.to_string(),
        // Keras names these metrics differently from their classes.
        (None, Some(class)) if class.name == "FBetaScore" => "fbeta_score".to_owned(),
        (None, Some(class)) if class.name == "LogCoshError" => "logcosh".to_owned(),
        (None, Some(class)) => snake_case(&class.name),
        (None, None) => "metric".to_owned(),
    }
}
