//! `tilec build FILE -o PACK`: compiles a program ahead of time, to a pack that runs without the
//! compiler.

use std::path::{Path, PathBuf};

use tile_lang::listed;
use tile_runtime::pack::{PackBuilder, PackTarget};
use tile_runtime::{Device, Error, Target};

use crate::inputs::Inputs;
use crate::placement::bytes;
use crate::precision::Precision;
use crate::source::Source;
use crate::terminal::{Failure, Terminal, can_be_written, has_extension, loses_nothing};
use crate::weights::WeightsOptions;

#[derive(clap::Args)]
pub struct Build {
    /// A Tile or ONNX file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write the pack to this file
    #[arg(short, long, value_name = "FILE.tilepack")]
    output: PathBuf,
    /// The targets of the pack: cpu, the embedded device on any processor; wgsl, msl, spirv, hlsl
    /// or glsl, any GPU, with the kernels in this language for other runtimes; web, the same as
    /// wgsl; amd-rdna and the other families of `--emit --target`, GPUs of this family alone: name
    /// a language, too, for all others
    /// [default: cpu,wgsl, or cpu if GPUs lack what the program needs]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = target)]
    target: Vec<PackTarget>,
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    precision: Precision,
    #[command(flatten)]
    weights: WeightsOptions,
    /// Initialise the weights that no file gives, with this seed
    #[arg(long, value_name = "SEED")]
    random: Option<u64>,
    /// Compute convolutions by direct sums, without Winograd's algorithm, and sums of dequantized
    /// integers in floats
    #[arg(long)]
    exact: bool,
}

fn target(text: &str) -> Result<PackTarget, String> {
    PackTarget::parse(text).ok_or_else(|| {
        let names: Vec<&str> = PackTarget::names().collect();
        format!("the targets are {}", names.join(", "))
    })
}

/// Writes the pack. It has plans for each size of `--dim`.
pub fn build(arguments: &Build, terminal: &Terminal) -> Result<(), Failure> {
    let Build { file, output, inputs, .. } = arguments;
    has_extension("--output", output, &["tilepack"])?;
    let read: Vec<&Path> = [file.as_path()]
        .into_iter()
        .chain(arguments.weights.files())
        .chain(inputs.files())
        .collect();
    loses_nothing(&read, &[output])?;
    can_be_written(output)?;
    let source = Source::load(file, inputs.sizes.entry.as_deref(), terminal)?;
    let (cpu, gpu) = (PackTarget::Cpu, PackTarget::Gpu(Target::Wgsl));
    let pack = match &arguments.target[..] {
        [] => packed(arguments, &[cpu, gpu], &source, terminal).or_else(|failure| {
            let pack = packed(arguments, &[cpu], &source, terminal).map_err(|_| failure)?;
            terminal.note("the pack is for cpu only: `--target cpu,wgsl` says what GPUs lack");
            Ok(pack)
        }),
        targets => packed(arguments, targets, &source, terminal),
    }?;
    let missing: Vec<&str> = pack.missing_weights().map(|(path, _)| path.as_str()).collect();
    if !missing.is_empty() {
        let how = "give them to `build`, or to each `run`, with `--weights FILE`";
        terminal.note(&format!("the pack is without the weights {}: {how}", listed(&missing)));
    }
    let size = pack.write(output).map_err(|error| source.failed(&error))?;
    terminal.note(&format!("wrote {}, {}", output.display(), bytes(size)));
    Ok(())
}

/// Makes the pack for these targets.
fn packed(
    arguments: &Build,
    targets: &[PackTarget],
    source: &Source,
    terminal: &Terminal,
) -> Result<PackBuilder, Failure> {
    let inputs = &arguments.inputs;
    let failed = |error: Error| source.failed(&error);
    let device = if arguments.exact { Device::cpu().exact() } else { Device::cpu() };
    let mut pack = PackBuilder::new(targets);
    for (number, sizes) in inputs.sizes.sweep()?.into_iter().enumerate() {
        let inputs = Inputs { sizes, ..inputs.clone() };
        let plain = inputs.builder(source, &device, &inputs.read(source)?)?;
        let builder = arguments.precision.apply(plain.clone());
        pack.add(&builder).map_err(failed)?;
        if number == 0 && pack.missing_weights().next().is_some() {
            // The pack rounds the weights if all its plans have the same type for them.
            let mut session = plain.build().map_err(failed)?;
            let seed = arguments.random.unwrap_or_default();
            arguments.weights.load(&mut session, seed, terminal).map_err(failed)?;
            if let Some(seed) = arguments.random {
                session.initialise(seed).map_err(failed)?;
            }
            pack.add_weights(&session).map_err(failed)?;
        }
    }
    Ok(pack)
}
