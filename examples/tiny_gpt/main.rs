//! A small GPT learns to write like a text, byte by byte, and then writes. The network is
//! `examples/models/gpt.tile`.
//!
//!     cargo run --release --example tiny_gpt -- README.md ARCHITECTURE.md

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tile_runtime::train::{
    Callback, Checkpoint, Column, ColumnRole, Dataset, Epoch, Fit, Progress, Trainer,
    TrainerBuilder, Validation,
};
use tile_runtime::{DType, Device, Error, Model, Scalar, Setting, Tensor, TensorType};

const PROGRAM: &str = include_str!("../models/gpt.tile");

/// Learns to write like a text.
#[derive(Parser)]
struct Arguments {
    /// Text files, concatenated; the last tenth is kept to measure the loss on unseen text
    #[arg(required = true, value_name = "FILE")]
    texts: Vec<PathBuf>,
    #[arg(long, default_value_t = 5)]
    epochs: usize,
    /// How many bytes the network sees
    #[arg(long, default_value_t = 64)]
    context: usize,
    #[arg(long, default_value_t = 4)]
    layers: usize,
    /// Numbers for each byte: a multiple of the four heads
    #[arg(long, default_value_t = 128)]
    width: usize,
    /// Go on where the run that saved this file was
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Write the weights here after each epoch: .safetensors or .npz
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// How what is written begins
    #[arg(long, default_value = "\n")]
    prompt: String,
    /// How many bytes to write
    #[arg(long, default_value_t = 500)]
    length: usize,
    /// Below 1 what is likely is written more often, above 1 less
    #[arg(long, default_value_t = 0.7)]
    temperature: f64,
    #[arg(long, default_value_t = 0)]
    seed: u64,
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
    let mut bytes = Vec::new();
    for path in &arguments.texts {
        let text = std::fs::read(path)
            .map_err(|error| Error::Data { what: format!("{}: {error}", path.display()) })?;
        bytes.extend(text);
    }
    let device = arguments.device.as_deref().map_or_else(Device::best, Device::named)?;
    let mut trainer =
        gpt(&device, arguments.layers, arguments.width, arguments.context)?.build()?;
    trainer.seed(arguments.seed);
    if let Some(path) = &arguments.resume {
        trainer.resume(path)?;
    }
    let context = arguments.context;
    let (read, rest) = bytes.split_at(bytes.len() / 10 * 9);
    // Training reads every byte four times in an epoch, each time in another context.
    let (read, rest) = (
        Text { bytes: read, context, stride: context.div_ceil(4) },
        Text { bytes: rest, context, stride: context },
    );
    let mut fit = Fit::epochs(arguments.epochs).validation(Validation::Set(&rest)).callback(Lines);
    if let Some(path) = &arguments.save {
        fit = fit.callback(Checkpoint::last(path));
    }
    trainer.fit(&read, fit)?;
    let mut writer =
        Writer { trainer, context, temperature: arguments.temperature, random: arguments.seed };
    let written = writer.write(arguments.prompt.as_bytes(), arguments.length)?;
    println!("{}{}", arguments.prompt, String::from_utf8_lossy(&written));
    Ok(())
}

fn gpt(
    device: &Device,
    layers: usize,
    width: usize,
    context: usize,
) -> Result<TrainerBuilder, Error> {
    let size = |size: usize| Setting::Int(size as i64);
    let trainer = Model::compile(PROGRAM)?.trainer(device);
    Ok(trainer.set("layers", size(layers)).set("width", size(width)).set("context", size(context)))
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

/// Pieces of a text: the bytes of the context, and the next byte for each of them.
struct Text<'t> {
    bytes: &'t [u8],
    /// The number of bytes in a piece.
    context: usize,
    /// The distance from a piece to the next.
    stride: usize,
}

impl Dataset for Text<'_> {
    fn len(&self) -> usize {
        self.bytes.len().checked_sub(self.context + 1).map_or(0, |last| last / self.stride + 1)
    }

    fn columns(&self) -> Vec<Column> {
        let ty = TensorType::new(DType::I32, [self.context]);
        [ColumnRole::Input, ColumnRole::Target]
            .map(|role| Column { role, name: None, ty: ty.clone() })
            .into()
    }

    fn batch(&self, samples: &[usize]) -> Result<Vec<Tensor>, Error> {
        let piece = |sample: usize, shift: usize| {
            &self.bytes[sample * self.stride + shift..][..self.context]
        };
        let pieces = |shift| {
            samples.iter().flat_map(|&sample| piece(sample, shift)).copied().collect::<Vec<_>>()
        };
        Ok([0, 1]
            .into_iter()
            .filter_map(|shift| tokens(&pieces(shift), [samples.len(), self.context]))
            .collect())
    }
}

fn tokens(bytes: &[u8], shape: [usize; 2]) -> Option<Tensor> {
    Tensor::from_scalars(
        TensorType::new(DType::I32, shape),
        bytes.iter().map(|&byte| Scalar::i32(byte.into())),
    )
}

/// Writes text that the network predicts.
struct Writer {
    trainer: Trainer,
    context: usize,
    temperature: f64,
    /// The state of the random generator.
    random: u64,
}

impl Writer {
    /// Returns text that continues the prompt.
    fn write(&mut self, prompt: &[u8], length: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = if prompt.is_empty() { vec![b'\n'] } else { prompt.to_vec() };
        let begin = bytes.len();
        for _ in 0..length {
            let seen = &bytes[bytes.len().saturating_sub(self.context)..];
            let last = seen.len() - 1;
            // Bytes after the last one are ignored.
            let mut padded = seen.to_vec();
            padded.resize(self.context + 1, 0);
            let text = Text { bytes: &padded, context: self.context, stride: 1 };
            let logits = self.trainer.predict(&text, 1)?.remove("Logits")?;
            let logits: Vec<f64> =
                (last * 256..(last + 1) * 256).map(|place| logits.get(place).to_f64()).collect();
            bytes.push(self.draw(&logits));
        }
        Ok(bytes.split_off(begin))
    }

    /// Draws a byte by the predicted probabilities.
    fn draw(&mut self, logits: &[f64]) -> u8 {
        let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let shares: Vec<f64> = logits
            .iter()
            .map(|logit| ((logit - most) / self.temperature.max(1e-6)).exp())
            .collect();
        let mut left = self.uniform() * shares.iter().sum::<f64>();
        let drawn = shares.iter().position(|share| {
            left -= share;
            left < 0.0
        });
        drawn.unwrap_or(0) as u8
    }

    /// Draws from 0 to below 1. SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom
    /// number generators" (2014).
    fn uniform(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_learns_a_rhyme() {
        let rhyme = "one two three four five, once I caught a fish alive; ".repeat(16);
        let data = Text { bytes: rhyme.as_bytes(), context: 16, stride: 3 };
        let mut trainer = gpt(&Device::cpu(), 1, 32, 16).and_then(TrainerBuilder::build).unwrap();
        let history = trainer.fit(&data, Fit::epochs(8)).unwrap();
        let loss = |epoch: usize| history[epoch].get("loss").unwrap();
        assert!(loss(7) < 0.5 * loss(0), "{history:?}");
        let mut writer = Writer { trainer, context: 16, temperature: 0.5, random: 0 };
        let written = writer.write(b"one two three ", 8).unwrap();
        assert_eq!(written.len(), 8);
        assert!(written.iter().all(|byte| rhyme.as_bytes().contains(byte)), "{written:?}");
    }
}
