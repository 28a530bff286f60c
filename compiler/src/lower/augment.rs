//! The `augment` setting of a `train` block: layers that transform inputs and targets before the
//! model sees them.

use super::call::Argument;
use super::expression::{Lowered, Target};
use super::frame::Frame;
use super::train::{StepBuilder, place_of};
use super::value::{Callable, Value};
use crate::graph::NodeId;

impl<'p> StepBuilder<'p, '_> {
    /// Replaces inputs and targets by the outputs of the `augment` layers, which are applied one
    /// after another. Each layer takes the first tensors, as many as it has inputs: the model's
    /// inputs first, then the targets.
    pub(super) fn augment(
        &mut self,
        inputs: &mut [Option<Value<'p, NodeId>>],
        wanted: &mut [(usize, NodeId)],
    ) -> Lowered<()> {
        let layers = match self.scope.names.get("augment").cloned() {
            None => return Ok(()),
            Some(Value::List(layers)) => layers,
            Some(layer) => vec![layer].into(),
        };
        self.evaluator.frames.push(Frame::new("train.augment".to_owned()));
        let is_tensor = |input: &Option<Value<NodeId>>| matches!(input, Some(Value::Element(_)));
        let mut tensors: Vec<Value<'p, NodeId>> =
            inputs.iter().filter(|&input| is_tensor(input)).flatten().cloned().collect();
        let count = tensors.len();
        tensors.extend(wanted.iter().map(|&(_, target)| Value::Element(target)));
        let span = place_of(self.block, "augment");
        for layer in layers {
            let callable = self.evaluator.callable(&layer, self.block, span)?;
            let takes = match &callable {
                Callable::Function(function) => function.inputs.len(),
                Callable::Instance(instance) => instance.function.inputs.len(),
                Callable::Builtin(..) => 1,
            };
            let takes = takes.min(tensors.len());
            let given = tensors[..takes].iter().map(|tensor| Argument {
                name: None,
                value: tensor.clone(),
                span,
            });
            let found = match self.evaluator.apply(&callable, given.collect(), span)? {
                Value::List(items) => items,
                item => vec![item].into(),
            };
            if found.len() != takes {
                let message = format!(
                    "`augment` has a layer that is given {takes} tensors and gives {}",
                    found.len()
                );
                return Err(self
                    .wrong("augment", message)
                    .help("give back each tensor that is taken"));
            }
            tensors.splice(..takes, found);
        }
        self.evaluator.frames.pop();
        let mut tensors = tensors.into_iter();
        for (input, tensor) in
            inputs.iter_mut().filter(|input| is_tensor(input)).zip(tensors.by_ref().take(count))
        {
            *input = Some(tensor);
        }
        for ((_, target), tensor) in wanted.iter_mut().zip(tensors) {
            *target = self.evaluator.target.element(tensor, span)?;
        }
        Ok(())
    }
}
