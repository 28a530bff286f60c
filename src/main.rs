//! `tilec`, the command line: arguments, files and printing, with one module a command. Functions
//! that an app could use are in the libraries.

#![forbid(unsafe_code)]

mod arguments;
mod bench;
mod check;
mod devices;
mod emit;
mod evaluate;
mod fmt;
mod import;
mod inputs;
mod interrupt;
mod json;
mod predict;
mod preview;
mod random;
mod run;
mod setup;
mod source;
mod summary;
mod terminal;
mod trace;
mod train;
mod tune;
mod weights;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::inputs::Inputs;
use crate::terminal::{Failure, Terminal};

/// A small, fast tensor compiler: Tile programs to GPU kernels and results.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true, arg_required_else_help = true)]
#[command(override_usage = "tilec <FILE> --emit <KIND>... [-o <DIR>]\n       tilec <COMMAND>")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    emit: Option<emit::Emit>,
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct Output {
    /// Print results and errors only
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Print more details
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    verbose: bool,
    /// Let programs import files below this folder, and not only below their own
    #[arg(long, global = true, value_name = "DIR")]
    allow_import: Vec<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Parse and check files
    Check(check::Check),
    /// Format files in place
    Fmt(fmt::Fmt),
    /// Run a program
    Run(run::Run),
    /// Train a model
    Train(Box<train::Train>),
    /// Compute the loss and the metrics of a model on samples
    Evaluate(evaluate::Evaluate),
    /// Predict the outputs of a model for pictures, arrays or rows of a table
    Predict(predict::Predict),
    /// Find the fastest schedules for a program's kernels on a device by measuring
    Tune(tune::Tune),
    /// Convert an ONNX file to a Tile program with a file of weights
    Import(import::Import),
    /// Show a model's layers and count its weights
    Summary(summary::Summary),
    /// Measure how fast programs run
    Bench(bench::Bench),
    /// List the devices of this machine
    Devices(devices::Devices),
    /// Choose the default device
    Setup(setup::Setup),
}

fn main() -> ExitCode {
    let started = Instant::now();
    interrupt::outlive_file_limit();
    // Wrong usage exits here with code 2.
    let matches = Arguments::command().try_get_matches().unwrap_or_else(|error| {
        // Help and the version are not errors.
        let misspelt = if error.use_stderr() { no_such_command() } else { None };
        misspelt.unwrap_or(error).exit()
    });
    let arguments =
        Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut Arguments::command()).exit());
    let result = arguments::once(&matches).and_then(|()| carry_out(arguments, started));
    terminal::exit(result)
}

/// Runs the command.
fn carry_out(arguments: Arguments, started: Instant) -> Result<(), Failure> {
    let Output { quiet, verbose, allow_import } = arguments.output;
    let terminal = Terminal::new(quiet, verbose, allow_import);
    match (arguments.command, arguments.emit) {
        (Some(Command::Check(arguments)), _) => check::check(&arguments, &terminal),
        (Some(Command::Fmt(arguments)), _) => fmt::fmt(&arguments, &terminal),
        (Some(Command::Run(arguments)), _) => run::run(&arguments, &terminal),
        (Some(Command::Train(arguments)), _) => train::train(&arguments, &terminal),
        (Some(Command::Evaluate(arguments)), _) => evaluate::evaluate(&arguments, &terminal),
        (Some(Command::Predict(arguments)), _) => predict::predict(&arguments, &terminal),
        (Some(Command::Tune(arguments)), _) => tune::tune(&arguments, &terminal),
        (Some(Command::Import(arguments)), _) => import::import(&arguments, &terminal),
        (Some(Command::Summary(arguments)), _) => summary::summary(&arguments, &terminal),
        (Some(Command::Bench(arguments)), _) => bench::bench(&arguments, started, &terminal),
        (Some(Command::Devices(arguments)), _) => devices::devices(&arguments, &terminal),
        (Some(Command::Setup(arguments)), _) => setup::setup(&arguments, &terminal),
        (None, Some(emit)) => emit::emit(&emit, &arguments.inputs, &terminal),
        (None, None) => Arguments::command()
            .error(ErrorKind::MissingRequiredArgument, "<FILE> with --emit is missing, or a command")
            .exit(),
    }
}

/// Returns the error for a first word that is neither a command nor a file.
fn no_such_command() -> Option<clap::Error> {
    let word = std::env::args_os().nth(1)?.into_string().ok()?;
    let mut command = Arguments::command();
    let is_known = command.get_subcommands().any(|known| known.get_name() == word) || word == "help";
    if is_known || word.starts_with('-') || source::is_meant_as_a_file(Path::new(&word)) {
        return None;
    }
    let guess = tile_lang::did_you_mean(&word, command.get_subcommands().map(clap::Command::get_name));
    let what = format!("`{word}` is neither a command nor a file");
    let what = guess.map_or(what.clone(), |guess| format!("{what}: {guess}"));
    Some(command.error(ErrorKind::InvalidSubcommand, what))
}
