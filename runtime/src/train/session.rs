//! Training of a session's weights.

use std::collections::HashSet;

use tile_compiler::lower::Binding;

use super::builder::TrainerBuilder;
use super::dataset::Dataset;
use super::fit::{Epoch, Fit};
use super::reading::Reading;
use super::trainer::Trainer;
use crate::error::Error;
use crate::session::{Origin, Session};

impl Session {
    /// Trains the session's model by its `train` block, from the session's weights or their initial
    /// values, and sets the session's weights to the result. The state of an optimizer, and of a
    /// loss with weights, starts afresh with each call. A [`Trainer`] keeps it.
    ///
    /// # Errors
    /// The errors of [`Trainer::fit`]. The weights are then unchanged.
    pub fn fit(&mut self, data: &dyn Dataset, fit: Fit) -> Result<Vec<Epoch>, Error> {
        let mut trainer = self.trainer()?;
        let history = trainer.fit(data, fit)?;
        let own: HashSet<String> = self.weights().map(|(path, _)| path.to_owned()).collect();
        for (path, value) in trainer.weights()?.into_iter().filter(|(path, _)| own.contains(path)) {
            self.set(&path, &value)?;
        }
        Ok(history)
    }

    /// Returns the loss and the metrics of the session's weights over the data, by name.
    ///
    /// # Errors
    /// The errors of [`Trainer::evaluate`].
    pub fn evaluate(
        &mut self,
        data: &dyn Dataset,
        batch_size: usize,
    ) -> Result<Vec<(String, Reading)>, Error> {
        self.trainer()?.evaluate(data, batch_size)
    }

    /// Returns a trainer of the session's model that starts with the session's weights.
    fn trainer(&mut self) -> Result<Trainer, Error> {
        let missing = || {
            Error::data(
                "a session that was not made from a program has nothing to train".to_owned(),
            )
        };
        let Origin { model, device, entry, mut bindings, limits } =
            self.origin.clone().ok_or_else(missing)?;
        // A trainer without an entry would train all models of a file in turn.
        let program = model.program();
        let entry = match program.trained_in_turn().len() {
            0 | 1 => entry,
            _ => entry.or_else(|| Some(program.entry(None).ok()?.name.as_ref()?.name.clone())),
        };
        // A trainer takes the inputs' shapes from the data.
        bindings.inputs.retain(|_, binding| !matches!(binding, Binding::Tensor(_)));
        bindings.sizes.clear();
        let builder = TrainerBuilder::new(model, device, entry, bindings);
        let mut trainer = limits.into_iter().fold(builder, TrainerBuilder::limits).build()?;
        let first = self.has_no_weights();
        self.initialise(trainer.settings().seed)?;
        let paths: Vec<String> = self.weights().map(|(path, _)| path.to_owned()).collect();
        let values = paths.into_iter().map(|path| Ok((path.clone(), self.get(&path)?)));
        trainer.give(values.collect::<Result<_, Error>>()?, first);
        Ok(trainer)
    }
}
