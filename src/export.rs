//! `tilec export FILE -o MODEL.keras`: writes a model of the library's layers as a model that Keras
//! loads.

use std::path::PathBuf;

use tile_compiler::lower::{Bindings, lower};
use tile_lang::ast::Function;
use tile_runtime::Device;
use tile_runtime::weights::{ASSUMED_SIZES, KerasModel};

use crate::arguments::assume_sizes;
use crate::inputs::Inputs;
use crate::source::Source;
use crate::terminal::{Failure, Terminal, can_be_written, has_extension, loses_nothing};
use crate::weights::WeightsOptions;

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
    check_open_sizes(&source, function, entry, &bindings)?;
    let device = Device::cpu();
    let build = |size: usize| {
        let mut assumed = bindings.clone();
        assume_sizes(function, &mut assumed, size);
        let builder = inputs.builder(&source, &device, &given)?;
        let sized = assumed.sizes.into_iter();
        let builder = sized.fold(builder, |builder, (name, size)| builder.dim(name, size));
        builder.build().map_err(failed)
    };
    // Windows must fit into the assumed sizes. `check_open_sizes` ensures that weights do not
    // depend on them.
    let mut session = build(ASSUMED_SIZES[0]);
    for size in &ASSUMED_SIZES[1..] {
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

/// Checks that no weight depends on a size that the model leaves open. Errors of the program itself
/// are reported later.
fn check_open_sizes(
    source: &Source,
    function: &Function,
    entry: Option<&str>,
    bindings: &Bindings,
) -> Result<(), Failure> {
    let weights = |sizes: &dyn Fn(&str) -> usize| {
        let mut assumed = bindings.clone();
        for name in assume_sizes(function, &mut assumed, ASSUMED_SIZES[0]) {
            let size = sizes(&name);
            assumed.sizes.insert(name, size);
        }
        let network = lower(source.model.program(), entry, &assumed).ok()?;
        Some(network.weights.into_iter().map(|weight| (weight.path, weight.ty)).collect::<Vec<_>>())
    };
    let first = ASSUMED_SIZES.iter().find_map(|&size| Some((size, weights(&|_| size)?)));
    let Some((size, expected)) = first else { return Ok(()) };
    for open in assume_sizes(function, &mut bindings.clone(), size) {
        let others = [size + 1].into_iter().chain(ASSUMED_SIZES).filter(|other| *other != size);
        let found = others
            .map(|other| weights(&|name: &str| if name == open { other } else { size }))
            .find_map(|found| found);
        let Some(found) = found else { continue };
        if let Some(((path, _), _)) = expected.iter().zip(&found).find(|(one, other)| one != other)
        {
            let what = format!(
                "the shape of the weight `{path}` depends on the size `{open}`, which is open: give it with `--dim {open}=SIZE`"
            );
            return Err(Failure::input(what));
        }
    }
    Ok(())
}
