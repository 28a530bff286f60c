//! The `optimizer` and `gradients` settings of a `train` block: the next values of the trained
//! weights.

use std::collections::BTreeSet;
use std::rc::Rc;

use tile_lang::ast::FunctionKind;
use tile_lang::diagnostic::Diagnostic;
use tile_lang::{did_you_mean, listed};

use super::descent::Descent;
use super::expression::{Lowered, Target, is_part_of};
use super::list::Copies;
use super::network::{Weight, WeightKind};
use super::train::{StepBuilder, place_of};
use super::value::{Callable, Value};
use super::weights::{Collected, constrain};
use crate::gradient;
use crate::graph::NodeId;

impl<'p> StepBuilder<'p, '_> {
    /// Adds the next values of the trained weights, which are among the first `of_model` weights.
    pub(super) fn optimise(&mut self, loss: NodeId, of_model: usize) -> Lowered<()> {
        let Some(optimizer) = self.scope.names.get("optimizer").cloned() else {
            let help = "an optimizer of the library is `Adam()`, say";
            return Err(self
                .error("E0241", "the `train` block sets no `optimizer`".into())
                .help(help));
        };
        let weights: Vec<Weight> = self.evaluator.target.network.weights[..of_model].to_vec();
        let frozen = &self.evaluator.frozen;
        let elsewhere = if self.targets.frozen_elsewhere { self.targets.frozen.len() } else { 0 };
        self.check_paths("frozen", &frozen[..frozen.len() - elsewhere], &weights)?;
        self.check_paths("trained", &self.evaluator.trained, &weights)?;
        let is_trained = |weight: &&Weight| {
            weight.kind == WeightKind::Param && !self.evaluator.stays(&weight.path)
        };
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
        let gradients = gradients
            .map(|(&node, found)| found.unwrap_or_else(|| gradient::zeros_like(graph, node)))
            .collect();
        let gradients: Rc<[NodeId]> = self.transformed(gradients)?.into();
        let instance = self.instance(&optimizer, FunctionKind::Optimizer, "optimizer")?;
        let base = instance.path.borrow().clone().unwrap_or_default();
        let mut moves = trained.is_empty();
        let readers: Vec<Vec<NodeId>> =
            trained.iter().map(|weight| self.evaluator.target.graph.users(weight.node)).collect();
        let (mut norm, mut stand_ins) = (None, Vec::new());
        for ((weight, node), &gradient) in trained.iter().zip(nodes).zip(&*gradients) {
            // Each trained weight has an optimizer with its own states, nested optimizers included.
            let own = Copies::new(&self.evaluator.budget).instance(&instance);
            *own.path.borrow_mut() = Some(format!("{base}.{}", weight.path));
            let (path, gradients) = (weight.path.as_str().into(), gradients.clone());
            self.evaluator.target.descent = Some(Descent { path, gradients, norm, stand_in: None });
            self.applied(&Callable::Instance(own), &[node, gradient], "optimizer")?;
            let descent = self.evaluator.target.descent.take();
            norm = descent.as_ref().and_then(|descent| descent.norm);
            stand_ins.push(descent.and_then(|descent| descent.stand_in));
            moves |= self
                .evaluator
                .target
                .network
                .updates
                .get(&weight.path)
                .is_some_and(|next| *next != node);
        }
        for ((weight, readers), stand_in) in trained.iter().zip(readers).zip(stand_ins) {
            if let Some(stand_in) = stand_in {
                self.stand_in(weight, &readers, stand_in)?;
            }
        }
        let paths: Vec<&str> = trained.iter().map(|weight| weight.path.as_str()).collect();
        constrain(&mut self.evaluator, &paths, place_of(self.block, "optimizer"))?;
        if !moves {
            let error = self.wrong("optimizer", "this optimizer changes no weight".into());
            return Err(
                error.help("it says what its first input is after the step: `update P = …;`")
            );
        }
        Ok(())
    }

    /// Checks that each path or pattern of a setting is that of a layer or weight.
    fn check_paths(&self, setting: &str, paths: &[String], weights: &[Weight]) -> Lowered<()> {
        let is_there = |path| {
            weights.iter().any(|weight| is_part_of(&weight.path, std::slice::from_ref(path)))
        };
        // All weights are trained by default, of which there may be none.
        match paths.iter().find(|path| *path != "*" && !is_there(path)) {
            Some(unknown) => Err(self.no_such_part(setting, unknown, weights)),
            None => Ok(()),
        }
    }

    /// Returns the error for a path of a setting that no weight has.
    fn no_such_part(&self, setting: &str, unknown: &str, weights: &[Weight]) -> Diagnostic {
        let verb = if setting == "frozen" { "freeze" } else { "train" };
        let message = format!("cannot {verb} `{unknown}`: there is no such layer or weight");
        let error = self.wrong(setting, message);
        let mut paths: Vec<&str> = Vec::new();
        for Weight { path, .. } in weights {
            let ends = path.match_indices('.').map(|(end, _)| end).chain([path.len()]);
            paths.extend(ends.map(|end| &path[..end]));
        }
        let layers: BTreeSet<&str> =
            paths.iter().copied().filter(|path| !path.contains('.')).collect();
        let layers: Vec<&str> = layers.into_iter().collect();
        match did_you_mean(unknown, paths) {
            Some(help) => error.help(help),
            None => error.help(format!("the model has {}", listed(&layers))),
        }
    }

    /// Lets the readers of a weight, all made before the optimizer, read another node instead.
    fn stand_in(&mut self, weight: &Weight, readers: &[NodeId], stand_in: NodeId) -> Lowered<()> {
        let network = &self.evaluator.target.network;
        if network.replaced.contains_key(&weight.path) {
            let message = format!(
                "`{}` is replaced by its layer in each step, and cannot be averaged",
                weight.path
            );
            return Err(self.wrong("optimizer", message));
        }
        let graph = &mut self.evaluator.target.graph;
        for &reader in readers {
            let operands = graph.operands(reader).iter();
            let operands: Vec<NodeId> =
                operands.map(|&o| if o == weight.node { stand_in } else { o }).collect();
            let op = graph.node(reader).op.clone();
            graph.set(reader, op, &operands);
        }
        Ok(())
    }

    /// Handles a loss that depends on no trained weight. This is an error, unless there are no
    /// trained weights and the model updates states.
    fn nothing_to_train(&self, trained: &[&Weight], of_model: usize) -> Lowered<()> {
        let network = &self.evaluator.target.network;
        let counts = network.weights[..of_model]
            .iter()
            .any(|weight| network.updates.contains_key(&weight.path));
        if trained.is_empty() {
            return match counts {
                true => Ok(()),
                false => Err(self
                    .error(
                        "E0245",
                        "there is nothing to train: the model has no weight that is not frozen"
                            .into(),
                    )
                    .help("a layer with weights is `Dense(8)`, say; `frozen` and `trained` choose among them")),
            };
        }
        let paths: Vec<&str> = trained.iter().map(|weight| weight.path.as_str()).collect();
        let error = self.error("E0245", "the loss depends on no trained weight".into());
        Err(error
            .saying(format!("the trained weights are {}", listed(&paths)))
            .help("what is rounded, compared, an integer, an `argmax` or in `stop_gradient` hands no gradient on"))
    }

    /// Applies the block's `gradients` function to the list of all gradients.
    fn transformed(&mut self, gradients: Vec<NodeId>) -> Lowered<Vec<NodeId>> {
        let Some(transform) = self.scope.names.get("gradients").cloned() else {
            return Ok(gradients);
        };
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
            if self.evaluator.target.graph.node(node).ty
                != self.evaluator.target.graph.node(gradient).ty
            {
                return Err(
                    self.wrong("gradients", "`gradients` changes the shape of a gradient".into())
                );
            }
            found.push(node);
        }
        Ok(found)
    }
}
