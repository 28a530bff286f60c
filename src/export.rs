//! `tilec export FILE -o MODEL.keras`: writes a model of the library's layers as a model that Keras
//! loads.

use std::path::PathBuf;

use tile_runtime::Device;
use tile_runtime::weights::KerasModel;

use crate::arguments::assume_sizes;
use crate::inputs::Inputs;
use crate::source::Source;
use crate::terminal::{Failure, Terminal, can_be_written, has_extension, loses_nothing};
use crate::weights::WeightsOptions;

/// The sizes to assume for the sizes that a model leaves open. Weights do not depend on them.
const ASSUMED: [usize; 3] = [64, 224, 7];

#[derive(clap::Args)]
pub struct Export {
    /// A Tile file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write the model to this file
    #[arg(short, long, value_name = "FILE.keras")]
    output: PathBuf,
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    weights: WeightsOptions,
    /// Initialise the weights that no file gives, with this seed
    #[arg(long, value_name = "SEED")]
    random: Option<u64>,
}

/// Writes the model.
pub fn export(arguments: &Export, terminal: &Terminal) -> Result<(), Failure> {
    let Export { file, output, inputs, weights, random } = arguments;
    has_extension("--output", output, &["keras"])?;
    let read: Vec<_> = [file.as_path()].into_iter().chain(weights.files()).collect();
    loses_nothing(&read, &[output])?;
    can_be_written(output)?;
    let entry = inputs.sizes.entry.as_deref();
    let source = Source::load(file, entry, terminal)?;
    let failed = |error| source.failed(&error);
    let given = inputs.read(&source)?;
    let bindings = inputs.bindings_with(&given);
    let model = KerasModel::new(&source.model, entry, &bindings).map_err(failed)?;
    let function =
        source.model.program().entry(entry).map_err(|error| source.rejected(&[error]))?;
    let device = Device::cpu();
    let build = |size: usize| {
        let mut assumed = bindings.clone();
        assume_sizes(function, &mut assumed, size);
        let builder = inputs.builder(&source, &device, &given)?;
        let sized = assumed.sizes.into_iter();
        let builder = sized.fold(builder, |builder, (name, size)| builder.dim(name, size));
        builder.build().map_err(failed)
    };
    // Windows must fit into the assumed sizes.
    let mut session = build(ASSUMED[0]);
    for size in &ASSUMED[1..] {
        session = session.or_else(|first| build(*size).map_err(|_| first));
    }
    let mut session = session?;
    let missing =
        weights.load(&mut session, random.unwrap_or_default(), terminal).map_err(failed)?;
    match random {
        Some(seed) => session.initialise(*seed).map_err(failed)?,
        None if missing.is_empty() => {}
        None => {
            let how = "give them with `--weights FILE`, or first values with `--random SEED`";
            let what = format!("the program's weights have no values: {how}");
            return Err(Failure::input(what));
        }
    }
    model.save(&session, output).map_err(failed)?;
    terminal.note(&format!("wrote {}", output.display()));
    Ok(())
}
