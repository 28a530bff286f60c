//! `tilec summary FILE`: prints a table of layers like Keras'.

use std::path::PathBuf;

use comfy_table::presets::UTF8_FULL;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use tile_compiler::lower::{Network, WeightKind, lower};
use tile_compiler::tensor::TensorType;

use crate::arguments::assume_sizes;
use crate::inputs::Inputs;
use crate::source::Source;
use crate::terminal::{Failure, Terminal, print};

/// The two values assumed for unknown sizes. An output size that differs between them depends on an
/// unknown size.
const ASSUMED: [usize; 2] = [64, 96];

#[derive(clap::Args)]
pub struct Summary {
    /// A Tile or ONNX file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    inputs: Inputs,
}

/// Prints the entry's layers with the shapes of their outputs and their numbers of weights.
pub fn summary(arguments: &Summary, terminal: &Terminal) -> Result<(), Failure> {
    let source = Source::load(&arguments.file, arguments.inputs.sizes.entry.as_deref(), terminal)?;
    if source.model.is_onnx() {
        let network = source.onnx_network(&arguments.inputs)?;
        return print(text(&network, &network).as_bytes());
    }
    let program = source.model.program();
    let entry = arguments.inputs.sizes.entry.as_deref();
    let function = program.entry(entry).map_err(|error| source.rejected(&[error]))?;
    let given = arguments.inputs.read(&source)?;
    let network = |size: usize| {
        let mut bindings = arguments.inputs.bindings_with(&given);
        assume_sizes(function, &mut bindings, size);
        lower(program, entry, &bindings)
    };
    let first = network(ASSUMED[0]).map_err(|errors| source.rejected(&errors))?;
    // If the second size does not fit the program, all sizes are shown as numbers.
    let second = network(ASSUMED[1]).unwrap_or_else(|_| first.clone());
    print(text(&first, &second).as_bytes())
}

fn text(network: &Network, other: &Network) -> String {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["Layer (type)", "Output Shape", "Param #"]);
    let count = |path: &str| -> usize {
        let inside = |weight: &&tile_compiler::lower::Weight| {
            weight.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'))
        };
        network.weights.iter().filter(inside).map(|weight| weight.ty.elements()).sum()
    };
    let mut shown: Vec<&str> = Vec::new();
    for (layer, again) in network.layers.iter().zip(&other.layers) {
        // A layer that is applied twice is listed once.
        if layer.elements.is_none() && shown.contains(&layer.path.as_str()) {
            continue;
        }
        shown.push(&layer.path);
        let shapes: Vec<String> = layer.outputs.iter().zip(&again.outputs).map(|(a, b)| shape(a, b)).collect();
        let name = format!("{} ({})", layer.path, layer.class);
        table.add_row([name, shapes.join(", "), grouped(layer.elements.unwrap_or_else(|| count(&layer.path)))]);
    }
    let is_own = |path: &str| !path.contains('.') && network.layers.iter().all(|layer| layer.elements.is_none());
    let own = network.weights.iter().filter(|weight| is_own(&weight.path));
    for weight in own {
        let name = format!("{} ({})", weight.path, weight.kind.keyword());
        table.add_row([name, format!("{:?}", weight.ty.shape), grouped(weight.ty.elements())]);
    }
    if let Some(column) = table.column_mut(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }

    let total = |kinds: &[WeightKind]| {
        let weights = network.weights.iter().filter(|weight| kinds.contains(&weight.kind));
        let (mut elements, mut bytes) = (0, 0);
        for weight in weights {
            elements += weight.ty.elements();
            bytes += weight.ty.elements() * weight.ty.dtype.size();
        }
        format!("{} ({})", grouped(elements), size(bytes))
    };
    let mut text = format!(
        "Model: \"{}\"\n{table}\n Total params: {}\n",
        network.graph.name,
        total(&[WeightKind::Param, WeightKind::State])
    );
    // In an ONNX file the layers count their weights. It does not say which of them are trained.
    if network.layers.iter().all(|layer| layer.elements.is_none()) {
        text += &format!(" Trainable params: {}\n", total(&[WeightKind::Param]));
        text += &format!(" Non-trainable params: {}\n", total(&[WeightKind::State]));
    }
    text
}

/// Formats `(None, 28, 28, 32)`. Unknown sizes are `None`.
fn shape(ty: &TensorType, other: &TensorType) -> String {
    let sizes = ty.shape.iter().enumerate().map(|(axis, size)| match other.shape.get(axis) {
        Some(same) if same == size => size.to_string(),
        _ => "None".to_string(),
    });
    match sizes.collect::<Vec<_>>().as_slice() {
        [one] => format!("({one},)"),
        sizes => format!("({})", sizes.join(", ")),
    }
}

/// Formats `1,234,567`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned());
    groups.collect::<Vec<_>>().join(",")
}

/// Formats `16.23 MB`, in units of 1,024, as Keras does.
fn size(bytes: usize) -> String {
    let mut size = bytes as f64;
    let mut units = ["B", "KB", "MB", "GB", "TB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    while size >= 1024.0
        && let Some(next) = units.next()
    {
        (size, unit) = (size / 1024.0, next);
    }
    format!("{size:.2} {unit}")
}
