//! `tilec import FILE -o MODEL.tile`: converts an ONNX file or a Keras model to a Tile program with
//! a file of weights beside it.

use std::path::PathBuf;

use tile_runtime::{Device, TileProgram};

use crate::inputs::Inputs;
use crate::source::Source;
use crate::terminal::{Failure, Terminal, has_extension, is_same_file, print, write_file};

#[derive(clap::Args)]
pub struct Import {
    /// An ONNX file, or a model that Keras 3 saved
    #[arg(value_name = "FILE.onnx|FILE.keras")]
    file: PathBuf,
    /// Write the program to this file, and its weights beside it, as .safetensors [default: print
    /// the program]
    #[arg(short, long, value_name = "FILE.tile")]
    output: Option<PathBuf>,
    #[command(flatten)]
    inputs: Inputs,
}

/// Writes the program and its weights, or prints the program.
pub fn import(arguments: &Import, terminal: &Terminal) -> Result<(), Failure> {
    let imported = converted(arguments, terminal)?;
    let failed = |error| terminal.failure(&error, &arguments.file);
    let name = arguments
        .file
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .replace(char::is_control, "_");
    let Some(output) = &arguments.output else {
        return print(format!("// {name}\n\n{}", imported.text()).as_bytes());
    };
    let weights = output.with_extension("safetensors");
    if is_same_file(output, &arguments.file) || weights == *output {
        return Err(Failure::usage(format!(
            "{} would be written over: the program wants a name of its own, such as model.tile",
            output.display()
        )));
    }
    if output.is_dir() {
        let what = format!(
            "{} is a folder: the program wants a name, such as model.tile",
            output.display()
        );
        return Err(Failure::usage(what));
    }
    has_extension("--output", output, &["tile"])?;
    let has_weights = imported.has_weights();
    if has_weights && weights.exists() && !output.exists() {
        return Err(Failure::usage(format!(
            "{} is there already, and would be written over: name the program otherwise, or remove it",
            weights.display()
        )));
    }
    if let Some(folder) = output.parent() {
        std::fs::create_dir_all(folder).map_err(|error| Failure::writing(folder, &error))?;
    }
    let beside = weights.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let head = if has_weights {
        format!("// {name}; its weights are in {beside}.\n\n")
    } else {
        format!("// {name}\n\n")
    };
    // The weights come first: the program is useless without them.
    if has_weights {
        imported.save_weights(&weights).map_err(failed)?;
        terminal.note(&format!("wrote {}", weights.display()));
    }
    write_file(output, head + imported.text())?;
    terminal.note(&format!("wrote {}", output.display()));
    Ok(())
}

/// Converts the file.
fn converted(arguments: &Import, terminal: &Terminal) -> Result<TileProgram, Failure> {
    let file = &arguments.file;
    let has_ending =
        |ending: &str| file.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending));
    if has_ending("keras") {
        if !arguments.inputs.is_empty() {
            return Err(Failure::usage(
                "a Keras model has the sizes of its inputs: leave out the options about inputs",
            ));
        }
        return TileProgram::of_keras(file).map_err(|error| terminal.failure(&error, file));
    }
    if !has_ending("onnx") {
        let has_weights =
            ["pt", "pth", "safetensors", "h5", "npz", "bin"].into_iter().any(has_ending);
        let what = if has_weights {
            "is a file of weights without a program: write the program in Tile, and give the file to it by `--weights`"
        } else {
            "is no .onnx or .keras file"
        };
        let what = format!("{} {what}", file.display());
        return Err(Failure::input(what));
    }
    let source = Source::open(file, terminal)?;
    let device = Device::cpu();
    let inputs = arguments.inputs.with_assumed(&source.model, terminal);
    let builder = inputs.builder(&source, &device, &inputs.read(&source)?)?;
    builder.import().map_err(|error| source.failed(&error))
}
