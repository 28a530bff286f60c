//! An LSTM learns the adding problem from generated sequences: an example of a custom dataset.
//!
//!     cargo run --release --example adding_problem

use std::process::ExitCode;

use clap::Parser;
use tile_runtime::train::{
    Callback, Column, ColumnRole, Dataset, Epoch, Fit, Progress, Trainer, Validation,
};
use tile_runtime::{DType, Device, Error, Model, Setting, Tensor, TensorType};

const PROGRAM: &str = include_str!("adding_problem.tile");

/// Teaches an LSTM to add the two numbers of a sequence that are marked.
#[derive(Parser)]
struct Arguments {
    /// The numbers in a sequence
    #[arg(long, default_value_t = 50)]
    length: usize,
    /// The sequences in an epoch
    #[arg(long, default_value_t = 10_000)]
    samples: usize,
    /// The LSTM's units
    #[arg(long, default_value_t = 64)]
    units: usize,
    #[arg(long, default_value_t = 10)]
    epochs: usize,
    /// Where to train: cpu, wgpu, wgpu:N [default: the best real GPU, else cpu]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Error> {
    let device = arguments.device.as_deref().map_or_else(Device::best, Device::named)?;
    let mut trainer = trainer(&device, arguments.units)?;
    let data = Sequences { first: 0, count: arguments.samples, length: arguments.length };
    let others = Sequences { first: arguments.samples, count: 1000, length: arguments.length };
    let fit = Fit::epochs(arguments.epochs).validation(Validation::Set(&others)).callback(Lines);
    trainer.fit(&data, fit)?;
    let few = Sequences { count: 5, ..others };
    let found = trainer.predict(&few, 5)?.remove("Sum")?;
    for number in 0..few.count {
        println!(
            "{:.3} is found, and {:.3} is the sum",
            found.get(number).to_f64(),
            few.sequence(number).1
        );
    }
    Ok(())
}

fn trainer(device: &Device, units: usize) -> Result<Trainer, Error> {
    Model::compile(PROGRAM)?.trainer(device).set("units", Setting::Int(units as i64)).build()
}

/// A callback that prints each epoch.
struct Lines;

impl Callback for Lines {
    fn epoch(&mut self, state: &mut Progress, epoch: &Epoch) -> Result<(), Error> {
        let results: String =
            epoch.results().map(|(name, value)| format!(" - {name}: {value:.4}")).collect();
        eprintln!("Epoch {}/{} {:.1}s{results}", state.epoch + 1, state.epochs, epoch.seconds);
        Ok(())
    }
}

/// Sequences and the sums of their marked numbers. A sequence depends only on its number.
#[derive(Clone, Copy)]
struct Sequences {
    first: usize,
    count: usize,
    /// The length of a sequence, at least 2.
    length: usize,
}

impl Sequences {
    /// Returns pairs of a number from 0 to 1 and a mark, 0 or 1, and the sum of the marked numbers.
    /// One number in each half is marked.
    fn sequence(&self, sample: usize) -> (Vec<f32>, f32) {
        let mut state = (self.first + sample) as u64 * self.length as u64 * 4;
        let mut random = || {
            // SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number
            // generators" (2014).
            state += 1;
            let z = state.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((z ^ (z >> 31)) >> 40) as f32 / (1 << 24) as f32
        };
        let half = self.length / 2;
        let mut below = |count: usize| ((random() * count as f32) as usize).min(count - 1);
        let marked = [below(half), half + below(self.length - half)];
        let numbers: Vec<f32> = (0..self.length).map(|_| random()).collect();
        let mark = |place| f32::from(u8::from(marked.contains(&place)));
        let pairs =
            numbers.iter().enumerate().flat_map(|(place, &number)| [number, mark(place)]).collect();
        (pairs, marked.iter().map(|&place| numbers[place]).sum())
    }
}

impl Dataset for Sequences {
    fn len(&self) -> usize {
        self.count
    }

    fn columns(&self) -> Vec<Column> {
        let column = |role, shape: &[usize]| Column {
            role,
            name: None,
            ty: TensorType::new(DType::F32, shape),
        };
        vec![column(ColumnRole::Input, &[self.length, 2]), column(ColumnRole::Target, &[1])]
    }

    fn batch(&self, samples: &[usize]) -> Result<Vec<Tensor>, Error> {
        let (sequences, sums): (Vec<_>, Vec<_>) =
            samples.iter().map(|&sample| self.sequence(sample)).unzip();
        let sequences = Tensor::from_f32([samples.len(), self.length, 2], &sequences.concat());
        let tensors = [sequences, Tensor::from_f32([samples.len(), 1], &sums)];
        Ok(tensors.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_learns_short_sequences() {
        let data = Sequences { first: 0, count: 1000, length: 4 };
        let mut trainer = trainer(&Device::cpu(), 32).unwrap();
        let history = trainer.fit(&data, Fit::epochs(14)).unwrap();
        assert!(history[13].get("loss").unwrap() < 0.03, "{history:?}");
    }

    #[test]
    fn two_are_marked() {
        let data = Sequences { first: 3, count: 10, length: 7 };
        for sample in 0..10 {
            let (pairs, sum) = data.sequence(sample);
            let marked: Vec<f32> =
                pairs.chunks(2).filter(|pair| pair[1] == 1.0).map(|pair| pair[0]).collect();
            assert_eq!((marked.len(), marked.iter().sum::<f32>()), (2, sum));
            assert_ne!(data.sequence(sample + 1).0, pairs);
        }
    }
}
