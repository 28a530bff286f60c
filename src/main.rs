//! `tilec`, the command line: arguments, files and printing, with one module a command. Functions
//! that an app could use are in the libraries.

#![forbid(unsafe_code)]

mod arguments;
mod bench;
mod build;
mod check;
mod compare;
mod devices;
mod emit;
mod evaluate;
mod export;
mod fmt;
mod import;
mod inputs;
mod interrupt;
mod json;
mod placement;
mod precision;
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

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use tile_lang::{did_you_mean, listed};

use crate::inputs::Inputs;
use crate::precision::Precision;
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
    precision: Precision,
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
    /// Convert an ONNX file or a Keras model to a Tile program with a file of weights
    Import(import::Import),
    /// Write a model of the library's layers as a model that Keras loads
    Export(export::Export),
    /// Compile a program to a pack, which runs without the compiler
    Build(Box<build::Build>),
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
    let matches = match arguments::with_negative_numbers(Arguments::command()).try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return wrong_usage(error),
    };
    let arguments = Arguments::from_arg_matches(&matches)
        .unwrap_or_else(|error| error.format(&mut Arguments::command()).exit());
    let result = arguments::once(&matches).and_then(|()| carry_out(arguments, started));
    terminal::exit(result)
}

/// Prints an error of the command line, or help or the version, which clap returns as errors.
fn wrong_usage(error: clap::Error) -> ExitCode {
    if let Some(failure) = arguments::not_a_whole_number(&error) {
        return terminal::exit(Err(failure));
    }
    if let (ErrorKind::MissingRequiredArgument, Some(file)) = (error.kind(), only_a_file()) {
        let what =
            format!("{file} is not enough: say what to do with it, as in `tilec check {file}`");
        let commands = "`tilec --help` lists the commands, and `--emit KIND` prints a listing";
        return terminal::exit(Err(Failure::usage(format!("{what}; {commands}"))));
    }
    if let Some(misspelt) = error.use_stderr().then(no_such_command).flatten() {
        misspelt.exit();
    }
    match unknown_option(&error) {
        Some(failure) => terminal::exit(Err(failure)),
        None => error.exit(),
    }
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
        (Some(Command::Export(arguments)), _) => export::export(&arguments, &terminal),
        (Some(Command::Build(arguments)), _) => build::build(&arguments, &terminal),
        (Some(Command::Summary(arguments)), _) => summary::summary(&arguments, &terminal),
        (Some(Command::Bench(arguments)), _) => bench::bench(&arguments, started, &terminal),
        (Some(Command::Devices(arguments)), _) => devices::devices(&arguments, &terminal),
        (Some(Command::Setup(arguments)), _) => setup::setup(&arguments, &terminal),
        (None, Some(emit)) => emit::emit(&emit, &arguments.inputs, arguments.precision, &terminal),
        (None, None) => Arguments::command()
            .error(
                ErrorKind::MissingRequiredArgument,
                "<FILE> with --emit is missing, or a command",
            )
            .exit(),
    }
}

/// Returns the failure for an option that its command does not have: suggests a similar one, or the
/// commands that have it.
fn unknown_option(error: &clap::Error) -> Option<Failure> {
    let option = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) if error.kind() == ErrorKind::UnknownArgument => option,
        _ => return None,
    };
    let command = Arguments::command();
    let word = std::env::args_os().nth(1)?.into_string().ok()?;
    let current = command.find_subcommand(&word).unwrap_or(&command);
    let name_of_command = if std::ptr::eq(current, &command) { "tilec" } else { word.as_str() };
    let options = |command: &clap::Command| -> Vec<String> {
        command.get_arguments().filter_map(|known| known.get_long()).map(str::to_owned).collect()
    };
    let Some(name) = option.strip_prefix("--") else {
        let message = match option.starts_with('-') {
            true => one_dash(name_of_command, &options(current)),
            false => extra_file(&word, option),
        };
        return message.map(Failure::usage);
    };
    let others =
        command.get_subcommands().filter(|other| options(other).iter().any(|known| known == name));
    let others: Vec<String> = others.map(|other| format!("`tilec {}`", other.get_name())).collect();
    let own: Vec<String> = options(current).iter().map(|known| format!("--{known}")).collect();
    let help = match did_you_mean(option, own.iter().map(String::as_str)) {
        _ if word == "train" && of_training(name).is_some() => of_training(name)?.to_owned(),
        _ if !others.is_empty() => format!("it is an option of {}", listed(&others)),
        Some(help) => help,
        None => "`--help` lists the options".to_owned(),
    };
    Some(Failure::usage(format!("`{name_of_command}` has no option `{option}`: {help}")))
}

/// Returns the error for an option with one dash: `-data`. clap sees the letter `d` in it.
fn one_dash(command: &str, options: &[String]) -> Option<String> {
    let mut words = std::env::args_os().filter_map(|word| word.into_string().ok());
    let name = words.find_map(|word| {
        let name = word.strip_prefix('-')?.split('=').next()?.to_owned();
        options.contains(&name).then_some(name)
    })?;
    Some(format!("`{command}` has no option `-{name}`: write `--{name}`"))
}

/// Returns the error for a file that is one too many, such as data that want an option.
fn extra_file(command: &str, file: &str) -> Option<String> {
    let meant = match command {
        "train" | "evaluate" => format!("`--data {file}` names the data"),
        "run" => format!("`--input NAME={file}` gives an input its array or picture"),
        _ => return None,
    };
    let is_meant = !file.starts_with('-') && source::is_meant_as_a_file(Path::new(file));
    is_meant
        .then(|| format!("`{command}` takes one program, and `{file}` is another file: {meant}"))
}

/// Returns what there is instead of an option of other programs that train.
fn of_training(option: &str) -> Option<&'static str> {
    Some(match option {
        "lr" | "learning-rate" | "optimizer" => {
            "it is in the program's `train` block, as in `optimizer = Adam(0.01);`"
        }
        "loss" => "it is in the program's `train` block, as in `loss = MeanSquaredError();`",
        "metric" | "metrics" => {
            "they are in the program's `train` block, as in `metrics = [MeanAbsoluteError()];`"
        }
        "batch" | "bs" => "did you mean `--batch-size`?",
        "output" | "out" | "checkpoint" => "`--save FILE` writes the weights",
        "gpu" | "cuda" | "cpu" => "`--device NAME` chooses one; `tilec devices` lists them",
        _ => return None,
    })
}

/// Returns the first word of the command line if it names a file.
fn only_a_file() -> Option<String> {
    let word = std::env::args_os().nth(1)?.into_string().ok()?;
    let is_command = Arguments::command().get_subcommands().any(|known| known.get_name() == word);
    (!is_command && source::is_meant_as_a_file(Path::new(&word))).then_some(word)
}

/// Returns the error for a first word that is neither a command nor a file.
fn no_such_command() -> Option<clap::Error> {
    let word = std::env::args_os().nth(1)?.into_string().ok()?;
    let mut command = Arguments::command();
    let is_known =
        command.get_subcommands().any(|known| known.get_name() == word) || word == "help";
    if is_known || word.starts_with('-') || source::is_meant_as_a_file(Path::new(&word)) {
        return None;
    }
    let guess = did_you_mean(&word, command.get_subcommands().map(clap::Command::get_name));
    let what = format!("`{word}` is neither a command nor a file");
    let what = guess.map_or(what.clone(), |guess| format!("{what}: {guess}"));
    Some(command.error(ErrorKind::InvalidSubcommand, what))
}
