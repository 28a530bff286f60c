//! The results of training and evaluation, and predictions.

use std::collections::VecDeque;

use tile_compiler::lower::InputRange;
use tile_compiler::tensor::{Tensor, TensorType};

use super::checked::Checked;
use super::dataset::{Column, Dataset, numbers};
use super::program::names;
use super::reading::Reading;
use super::steps::Mode;
use super::trainer::{AHEAD, Trainer};
use crate::backend::block_on;
use crate::error::Error;
use crate::session::Outputs;

/// The loss and the metrics, by name.
type Results = Vec<(String, Reading)>;

impl Trainer {
    /// Returns the loss and the metrics of the epoch so far. Waits for the device.
    pub(super) fn results(&mut self) -> Result<Results, Error> {
        self.wait()?;
        let mut all = Vec::new();
        for program in 0..self.programs.len() {
            if let Some(step) = self.steps.recall(&self.programs, program, self.seed)? {
                let results = step.results()?;
                all.extend(self.named(program, results));
            }
        }
        Ok(all)
    }

    /// Gives the results of a program their names. Those of models trained in turn begin with the
    /// model's name, as in `Generate.loss`.
    fn named(&self, program: usize, mut results: Results) -> Results {
        if let Some(model) = self.in_turn().get(program) {
            for (name, _) in &mut results {
                *name = format!("{model}.{name}");
            }
        }
        results
    }

    /// Returns the loss and the metrics over the data, by name.
    ///
    /// # Errors
    /// The errors of [`Trainer::fit`].
    pub fn evaluate(&mut self, data: &dyn Dataset, batch_size: usize) -> Result<Results, Error> {
        self.wait()?;
        if data.is_empty() {
            return Ok(Vec::new());
        }
        let data = self.typed(data, batch_size);
        let ranges =
            self.ranges(Mode::Evaluate, &data.columns(), batch_size.max(1).min(data.len()))?;
        let data = self.checked(&data, &ranges, "")?;
        Ok(self.evaluate_until(&data, batch_size, &|| false)?.unwrap_or_default())
    }

    /// Returns the numbers that the program expects in the inputs of a step.
    pub(super) fn ranges(
        &mut self,
        mode: Mode,
        columns: &[Column],
        samples: usize,
    ) -> Result<Vec<InputRange>, Error> {
        let mut all = Vec::new();
        for program in 0..self.programs.len() {
            all.extend_from_slice(&self.step(program, mode.clone(), columns, samples)?.ranges);
        }
        Ok(all)
    }

    /// Checks labels and token ids: those in memory now, the others in each batch. `place` follows
    /// each place in messages.
    pub(super) fn checked<'a>(
        &self,
        data: &'a dyn Dataset,
        ranges: &[InputRange],
        place: &str,
    ) -> Result<Checked<'a>, Error> {
        Checked::new(data, &names(&self.programs, &data.columns())?, ranges, place)
    }

    /// Evaluates until `stops` returns true, which is asked after each batch. `None` if stopped.
    pub(super) fn evaluate_until(
        &mut self,
        data: &dyn Dataset,
        batch_size: usize,
        stops: &dyn Fn() -> bool,
    ) -> Result<Option<Results>, Error> {
        self.wait()?;
        let data = &self.typed(data, batch_size);
        let columns = data.columns();
        let samples = numbers(data.len())?;
        let mut results = Vec::new();
        if samples.is_empty() {
            return Ok(Some(results));
        }
        for program in 0..self.programs.len() {
            let mut running = VecDeque::new();
            for (number, part) in samples.chunks(batch_size.max(1)).enumerate() {
                let batch = data.batch(part)?;
                if number == 0 {
                    // The step receives the metrics' counts when it becomes active.
                    self.step(program, Mode::Evaluate, &columns, part.len())?;
                    self.steps.reset_metrics()?;
                }
                let seed = self.seed;
                let step = self.step(program, Mode::Evaluate, &columns, part.len())?;
                step.set(&batch)?;
                step.session.seed(seed, number as u32)?;
                running.push_back(step.session.step(&[])?);
                if running.len() > AHEAD {
                    running.pop_front().map_or(Ok(Vec::new()), |step| block_on(step.take()))?;
                }
                if stops() {
                    return Ok(None);
                }
            }
            let found = self.steps.last().map_or_else(|| Ok(Vec::new()), |step| step.results())?;
            results.extend(self.named(program, found));
        }
        Ok(Some(results))
    }

    /// Returns the model's outputs for the data, with batches joined along the first axis. Ignores
    /// targets. Of several models, the last one predicts.
    ///
    /// # Errors
    /// Those of the device, and [`Error::Data`] if a token id is out of the model's range.
    pub fn predict(&mut self, data: &dyn Dataset, batch_size: usize) -> Result<Outputs, Error> {
        self.wait()?;
        let last = self.programs.len().saturating_sub(1);
        let data = &self.typed_from(last, data, batch_size);
        let columns = data.columns();
        let samples = numbers(data.len())?;
        let first = batch_size.max(1).min(samples.len());
        let ranges = match first {
            0 => Vec::new(),
            _ => self.step(last, Mode::Predict, &columns, first)?.ranges.clone(),
        };
        let data = self.checked_inputs(data, &ranges)?;
        let mut found: Vec<(String, TensorType, Vec<u8>)> = Vec::new();
        for part in samples.chunks(batch_size.max(1)) {
            let batch = data.batch(part)?;
            let seed = self.seed;
            let step = self.step(last, Mode::Predict, &columns, part.len())?;
            step.set(&batch)?;
            step.session.seed(seed, 0)?;
            step.session.execute()?;
            for (number, (name, tensor)) in step.session.read()?.into_iter().enumerate() {
                let ty = tensor.ty().clone();
                if ty.shape.first() != Some(&part.len()) {
                    return Err(Error::data(format!(
                        "the output `{name}` is {ty}, and has no axis of samples"
                    )));
                }
                match found.get_mut(number) {
                    None => found.push((name, ty, tensor.into_bytes())),
                    Some((_, all, bytes)) => {
                        all.shape[0] += part.len();
                        let more = tensor.into_bytes();
                        let grown = bytes.try_reserve(more.len());
                        grown.map_err(|_| Error::data("the results are too large".to_owned()))?;
                        bytes.extend(more);
                    }
                }
            }
        }
        let whole = |(name, ty, bytes)| Some((name, Tensor::from_bytes(ty, bytes)?));
        let outputs: Option<Vec<_>> = found.into_iter().map(whole).collect();
        outputs
            .map(Outputs::from)
            .ok_or_else(|| Error::data("the results are too large".to_owned()))
    }
}
