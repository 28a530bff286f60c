//! `tilec evaluate FILE --data DIR`: the loss and every metric of a `train` block on samples.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Map, Value};
use tile_runtime::Error;
use tile_runtime::data::folder::{self, Wanted};
use tile_runtime::data::picture::Pixels;
use tile_runtime::train::{Dataset, Reading};

use crate::arguments::{Sizes, pixels};
use crate::devices::DeviceOptions;
use crate::placement;
use crate::source::Source;
use crate::terminal::{Failure, Terminal, print};
use crate::weights::{WeightsOptions, pixels_as_trained};

#[derive(clap::Args)]
pub struct Evaluate {
    /// A Tile file with a `train` block
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The samples: a folder or file as for `train`; its test set, if it has one
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    #[command(flatten)]
    weights: WeightsOptions,
    /// Samples in a step [default: the program's]
    #[arg(long, value_name = "N")]
    batch_size: Option<usize>,
    /// The scale of a picture's pixel values, as for `run` [default: that of the training, which is
    /// saved with the weights, or raw]
    #[arg(long, value_name = "VALUES", value_parser = pixels)]
    pictures: Option<Pixels>,
    #[command(flatten)]
    device: DeviceOptions,
    /// Print one JSON object: samples, loss, metrics, seconds
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sizes: Sizes,
}

pub fn evaluate(arguments: &Evaluate, terminal: &Terminal) -> Result<(), Failure> {
    let (source, sizes) = Source::load_in_turn(&arguments.file, &arguments.sizes, terminal)?;
    if source.model.is_onnx() {
        let what = "is an ONNX file, which has no loss and no metrics: `tilec import` makes a program of it";
        return Err(Failure::input(format!("{} {what}", arguments.file.display())));
    }
    let failed = |error: Error| source.failed(&error);
    sizes.refuse_shapes("evaluate")?;
    let device = arguments.device.open(terminal).map_err(failed)?;
    let mut trainer =
        sizes.apply_to_trainer(source.model.trainer(&device)).build().map_err(failed)?;
    if !arguments.weights.load_into_trainer(&mut trainer).map_err(failed)? {
        terminal.note("without `--weights`, the weights have their initial values");
    }
    let trained = trainer.data_description();
    let pixels = pixels_as_trained(arguments.pictures, trained, terminal);
    let wanted = Wanted { pixels, columns: trained.columns.clone(), ..trainer.wanted() };
    let samples = folder::open_for(&arguments.data, &wanted).map_err(failed)?;
    terminal.note_unused_data(&samples);
    let data: Box<dyn Dataset> = samples.test.unwrap_or(samples.train);
    let batch_size = arguments.batch_size.unwrap_or(trainer.settings().batch_size);
    let started = Instant::now();
    let results = trainer.evaluate(&*data, batch_size).map_err(failed)?;
    let seconds = started.elapsed().as_secs_f64();
    placement::detail(trainer.plan(), &device, terminal);
    terminal.note_unused(trainer.load_report());
    terminal.note_initialised(&trainer.load_report().missing);
    match arguments.json {
        true => print(format!("{}\n", json(&results, data.len(), seconds)).as_bytes()),
        false => {
            print(table(&results).as_bytes())?;
            terminal.note(&format!(
                "{} samples in {seconds:.1} s on {}",
                data.len(),
                device.name()
            ));
            Ok(())
        }
    }
}

/// Formats a line for the loss and for each metric.
fn table(results: &[(String, Reading)]) -> String {
    let width = results.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    results.iter().map(|(name, value)| format!("{name:<width$}  {value:.6}\n")).collect()
}

/// Formats a JSON object. Numbers that are not finite are null: JSON has none.
fn json(results: &[(String, Reading)], samples: usize, seconds: f64) -> Value {
    let mut object = Map::new();
    object.insert("samples".into(), samples.into());
    for (name, value) in results {
        object.insert(name.clone(), value.into());
    }
    object.insert("seconds".into(), seconds.into());
    Value::Object(object)
}
