//! Training where a session is at hand: its weights go into training, and come back.

use super::dataset::Dataset;
use super::fit::{Epoch, Fit};
use super::reading::Reading;
use super::trainer::Trainer;
use crate::error::Error;
use crate::session::Session;

impl Session {
    /// Trains the session's model on the data, as its `train` block says, from the weights that the session has, or from their
    /// first values. Then the session has the trained weights. An optimizer begins afresh with each call: a [`Trainer`] keeps
    /// what it has learnt.
    ///
    /// # Errors
    /// Those of [`Trainer::fit`]; the weights are then what they were.
    pub fn fit(&mut self, data: &dyn Dataset, fit: Fit) -> Result<Vec<Epoch>, Error> {
        let mut trainer = self.trainer()?;
        let history = trainer.fit(data, fit)?;
        for (path, value) in trainer.weights()? {
            self.set(&path, &value)?;
        }
        Ok(history)
    }

    /// The loss and the metrics of the session's weights over the data: names and values.
    ///
    /// # Errors
    /// Those of [`Trainer::evaluate`].
    pub fn evaluate(&mut self, data: &dyn Dataset, batch_size: usize) -> Result<Vec<(String, Reading)>, Error> {
        self.trainer()?.evaluate(data, batch_size)
    }

    /// A trainer of the session's model that begins with the session's weights.
    fn trainer(&mut self) -> Result<Trainer, Error> {
        let missing = || Error::data("a session that was not made from a program has nothing to train".to_owned());
        let mut trainer = self.origin.clone().ok_or_else(missing)?.build()?;
        self.initialise(trainer.settings().seed)?;
        let paths: Vec<String> = self.weights().map(|(path, _)| path.to_owned()).collect();
        let values = paths.into_iter().map(|path| Ok((path.clone(), self.get(&path)?)));
        trainer.give(values.collect::<Result<_, Error>>()?);
        Ok(trainer)
    }
}
