//! [`Trainer::fit`]: epochs of steps, and what is told of them.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tile_compiler::tensor::Tensor;

use super::callback::Callback;
use super::class_weights::ClassWeighted;
use super::dataset::{Dataset, Part};
use super::reading::Reading;
use super::trainer::Trainer;
use crate::error::Error;

/// What is evaluated after each epoch.
pub enum Validation<'a> {
    /// The last samples of the data, this fraction of them, which are not trained on: [`Validation::kept_back`].
    Fraction(f64),
    Set(&'a dyn Dataset),
}

impl Validation<'_> {
    /// How many of so many samples a fraction is: Keras trains on `floor(samples * (1 - fraction))`.
    pub fn kept_back(fraction: f64, samples: usize) -> usize {
        samples - (samples as f64 * (1.0 - fraction)).floor() as usize
    }
}

/// How to train.
#[derive(Default)]
pub struct Fit<'a> {
    epochs: Option<usize>,
    batch_size: Option<usize>,
    shuffle: Option<bool>,
    validation: Option<Validation<'a>>,
    class_weights: BTreeMap<i64, f32>,
    callbacks: Vec<Box<dyn Callback + 'a>>,
}

/// Where training is.
pub struct Progress<'t> {
    /// The epoch, from 0, and how many there are to be.
    pub epoch: usize,
    pub epochs: usize,
    /// The steps of this epoch that are done, and how many there are.
    pub step: usize,
    pub steps: usize,
    /// Since the epoch began.
    pub elapsed: Duration,
    /// To set, to end training after this.
    pub stop: bool,
    trainer: &'t mut Trainer,
}

impl Progress<'_> {
    /// The mean loss and the metrics of the epoch so far: waits for the device.
    pub fn so_far(&mut self) -> Result<Vec<(String, Reading)>, Error> {
        self.trainer.results()
    }

    /// What is trained.
    pub fn trainer(&mut self) -> &mut Trainer {
        self.trainer
    }
}

/// What an epoch gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Epoch {
    /// From 0.
    pub epoch: usize,
    /// The loss and the metrics while training, by name.
    pub training: Vec<(String, Reading)>,
    /// The same after the epoch, on the validation data.
    pub validation: Vec<(String, Reading)>,
    /// 0 of an epoch of the run that is resumed.
    pub seconds: f64,
}

impl Epoch {
    /// All results; those of the validation begin with `val_`.
    pub fn results(&self) -> impl Iterator<Item = (String, Reading)> + '_ {
        let training = self.training.iter().cloned();
        training.chain(self.validation.iter().map(|(name, value)| (format!("val_{name}"), value.clone())))
    }

    /// A result by its name, where it is a number.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.results().find(|(other, _)| other == name).and_then(|(_, value)| value.number())
    }
}

impl<'a> Fit<'a> {
    /// Until so many epochs are made, those of a run that is resumed included.
    pub fn epochs(epochs: usize) -> Fit<'a> {
        Fit { epochs: Some(epochs), ..Fit::default() }
    }

    pub fn batch_size(mut self, samples: usize) -> Self {
        self.batch_size = Some(samples);
        self
    }

    /// Whether each epoch has the samples in an order of its own.
    pub fn shuffle(mut self, shuffle: bool) -> Self {
        self.shuffle = Some(shuffle);
        self
    }

    pub fn validation(mut self, validation: Validation<'a>) -> Self {
        self.validation = Some(validation);
        self
    }

    /// What a sample of a class counts in the loss, in training: as Keras' `class_weight`. A sample's own weight, where it has one, is
    /// multiplied by it. The data have one target, which is the number of the class or has a number for each class.
    pub fn class_weight(mut self, class: i64, weight: f32) -> Self {
        self.class_weights.insert(class, weight);
        self
    }

    /// Is told of each step and each epoch, after those that were added before.
    pub fn callback(mut self, callback: impl Callback + 'a) -> Self {
        self.callbacks.push(Box::new(callback));
        self
    }

    pub(super) fn run(mut self, trainer: &mut Trainer, data: &dyn Dataset) -> Result<Vec<Epoch>, Error> {
        let settings = trainer.settings();
        let epochs = self.epochs.unwrap_or(settings.epochs);
        let batch_size = self.batch_size.unwrap_or(settings.batch_size);
        let shuffle = self.shuffle.unwrap_or(settings.shuffle);
        if batch_size == 0 {
            return Err(Error::data("a batch has at least one sample".to_owned()));
        }
        let data: &dyn Dataset = &trainer.typed(data, batch_size);
        let kept_back = match self.validation {
            Some(Validation::Fraction(fraction)) if !(0.0..1.0).contains(&fraction) => {
                let message =
                    format!("a fraction of {fraction} is kept back for validation: it is at least 0, and below 1");
                return Err(Error::data(message));
            }
            Some(Validation::Fraction(fraction)) => Validation::kept_back(fraction, data.len()),
            _ => 0,
        };
        let part = Part::new(data, 0, data.len() - kept_back);
        let weighted;
        let trained: &dyn Dataset = if self.class_weights.is_empty() {
            &part
        } else {
            weighted = ClassWeighted::new(&part, &self.class_weights)?;
            &weighted
        };
        let rest = Part::new(data, data.len() - kept_back, kept_back);
        let validated: Option<&dyn Dataset> = match &self.validation {
            Some(Validation::Set(set)) => Some(*set),
            Some(Validation::Fraction(_)) if kept_back > 0 => Some(&rest),
            _ => None,
        };
        if trained.is_empty() {
            return Err(Error::data("there are no samples to train on".to_owned()));
        }
        let steps = trained.len().div_ceil(batch_size);
        let begun = (trained.len(), batch_size);
        for epoch in trainer.history.iter().take(trainer.epoch) {
            self.callbacks.iter_mut().for_each(|callback| callback.resumed(epoch));
        }
        let mut history = Vec::new();
        let mut stop = false;
        while trainer.epoch < epochs && !stop {
            let began = Instant::now();
            let epoch = trainer.epoch;
            let order = order(trained.len(), shuffle.then_some((trainer.seed, epoch as u64)));
            trainer.begin_epoch(trained, batch_size)?;
            let tell = |callbacks: &mut [Box<dyn Callback + 'a>],
                        trainer: &mut Trainer,
                        step: usize,
                        results: Option<&Epoch>|
             -> Result<bool, Error> {
                let elapsed = began.elapsed();
                let mut state = Progress { epoch, epochs, step, steps, elapsed, stop: false, trainer };
                for callback in callbacks.iter_mut() {
                    match results {
                        Some(results) => callback.epoch(&mut state, results)?,
                        None => callback.step(&mut state)?,
                    }
                }
                Ok(state.stop)
            };
            if trainer.seen > 0 && trainer.begun != begun {
                let ((samples, batch), (before, batch_before)) = (begun, trainer.begun);
                let message = format!(
                    "training was stopped within an epoch of {before} samples in batches of {batch_before}, and can go on with \
                     these alone: there are {samples} in batches of {batch}"
                );
                return Err(Error::data(message));
            }
            trainer.begun = begun;
            // A run that is resumed goes on within its epoch.
            let rest = order.get(trainer.seen..).unwrap_or_default();
            let mut done = trainer.seen.div_ceil(batch_size);
            with_batches(trained, rest.chunks(batch_size), |batch| {
                trainer.train_on(trained, batch)?;
                done += 1;
                stop = tell(&mut self.callbacks, trainer, done, None)?;
                Ok(!stop)
            })?;
            // After the last step the epoch is as good as made.
            if stop && done < steps {
                trainer.wait()?;
                break;
            }
            trainer.check_weights()?;
            // Of an epoch that was stopped in its validation the training is known.
            if trainer.history.get(epoch).is_none() {
                let training = trainer.results()?;
                trainer.history.push(Epoch { epoch, training, validation: Vec::new(), seconds: 0.0 });
            }
            let validation = match validated {
                Some(set) => trainer.evaluate_until(set, batch_size, &|| self.callbacks.iter().any(|c| c.stops()))?,
                None => Some(Vec::new()),
            };
            let Some(validation) = validation else { break };
            (trainer.epoch, trainer.seen) = (epoch + 1, 0);
            let Some(results) = trainer.history.last_mut() else { break };
            (results.validation, results.seconds) = (validation, began.elapsed().as_secs_f64());
            let results = results.clone();
            stop |= tell(&mut self.callbacks, trainer, steps, Some(&results))?;
            history.push(results);
        }
        Ok(history)
    }
}

/// The numbers below `count`; shuffled by a seed and the number of the epoch: Fisher and Yates, with SplitMix64's numbers.
fn order(count: usize, shuffled: Option<(u64, u64)>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    if let Some((seed, epoch)) = shuffled {
        let mix = |mut z: u64| {
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        // Mixed, so that the next seed or epoch does not have the same numbers a place further on.
        let mut state = mix(mix(seed.wrapping_add(STEP)) ^ epoch.wrapping_add(STEP));
        let mut next = || {
            state = state.wrapping_add(STEP);
            mix(state)
        };
        for last in (1..count).rev() {
            // The high bits of a product: below last + 1, and even enough.
            let at = (u128::from(next()) * (last as u128 + 1)) >> 64;
            order.swap(last, at as usize);
        }
    }
    order
}

/// Calls `use_batch` with each batch, as long as that gives true, while the next is prepared on another thread.
fn with_batches<'o>(
    data: &dyn Dataset,
    batches: impl Iterator<Item = &'o [usize]> + Send,
    mut use_batch: impl FnMut(Vec<Tensor>) -> Result<bool, Error>,
) -> Result<(), Error> {
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(1);
        scope.spawn(move || {
            // The receiver is gone where training has stopped.
            batches.map(|samples| data.batch(samples)).try_for_each(|batch| sender.send(batch))
        });
        for batch in receiver {
            if !use_batch(batch?)? {
                break;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn an_epoch_has_each_sample_once_and_an_order_of_its_own() {
        let (first, again, second) = (order(100, Some((7, 0))), order(100, Some((7, 0))), order(100, Some((7, 1))));
        assert_eq!(first, again);
        assert_ne!(first, second);
        for mut order in [first, second] {
            order.sort_unstable();
            assert_eq!(order, (0..100).collect::<Vec<_>>());
        }
        assert_eq!(order(3, None), [0, 1, 2]);
    }
}
