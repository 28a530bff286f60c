//! `tilec summary FILE`: prints a table of layers like Keras'.

use std::collections::BTreeMap;
use std::path::PathBuf;

use comfy_table::presets::UTF8_FULL;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use tile_compiler::graph::Graph;
use tile_compiler::lower::{Bindings, Network, WeightKind, lower, settings};
use tile_compiler::pipeline::{self, Options};
use tile_compiler::profile::Profile;
use tile_compiler::tensor::TensorType;
use tile_runtime::pack::Pack;

use crate::arguments::assume_sizes;
use crate::emit::training_step;
use crate::inputs::Inputs;
use crate::placement::{bytes, grouped};
use crate::source::Source;
use crate::terminal::{Failure, Terminal, print};

/// The two values assumed for unknown sizes. An output size that differs between them depends on an
/// unknown size.
const ASSUMED: [usize; 2] = [64, 96];

#[derive(clap::Args)]
pub struct Summary {
    /// A Tile file, an ONNX file or a pack
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    inputs: Inputs,
}

/// Prints the entry's layers with the shapes of their outputs and their numbers of weights.
pub fn summary(arguments: &Summary, terminal: &Terminal) -> Result<(), Failure> {
    let entry = arguments.inputs.sizes.entry.as_deref();
    let source = Source::load_packed(&arguments.file, entry, terminal)?;
    if let Some(pack) = source.model.pack() {
        pack.check_entry(entry).map_err(|error| source.failed(&error))?;
        return print(of_pack(pack).as_bytes());
    }
    if source.model.is_onnx() {
        let network = source.onnx_network(&arguments.inputs)?;
        return print(
            (text(&network, &network) + &memory(&network.graph, "run", false, "")).as_bytes(),
        );
    }
    let program = source.model.program();
    let function = program.entry(entry).map_err(|error| source.rejected(&[error]))?;
    let given = arguments.inputs.read(&source)?;
    let with = |size: usize| {
        let mut bindings = arguments.inputs.bindings_with(&given);
        let names = assume_sizes(function, &mut bindings, size);
        (names, bindings)
    };
    let network = |bindings: &Bindings| lower(program, entry, bindings);
    let (names, mut bindings) = with(ASSUMED[0]);
    let first = network(&bindings).map_err(|errors| source.rejected(&errors))?;
    // If the second size does not fit the program, all sizes are shown as numbers.
    let second = network(&with(ASSUMED[1]).1).unwrap_or_else(|_| first.clone());
    let sizes = match names.is_empty() {
        true => String::new(),
        false => format!(" with {} = {}", names.join(" = "), ASSUMED[0]),
    };
    let mut text = text(&first, &second) + &memory(&first.graph, "run", false, &sizes);
    bindings.training = true;
    if settings(program, entry).is_ok_and(|settings| settings.is_some())
        && let Ok((step, _)) =
            training_step(&source, entry, &bindings, &BTreeMap::new(), &first.graph)
    {
        text += &memory(&step, "training step", true, &sizes);
    }
    print(text.as_bytes())
}

/// Formats a line with the memory that a run of the graph takes on the cpu device. Empty if the
/// graph has no plan.
fn memory(graph: &Graph, what: &str, updates: bool, sizes: &str) -> String {
    let mut graph = graph.clone();
    pipeline::optimise(&mut graph);
    let plan =
        pipeline::plan_with(&graph, &Profile::cpu(), &Options { updates, ..Options::default() });
    plan.map_or_else(
        |_| String::new(),
        |plan| format!(" Memory of a {what}{sizes}: {}\n", bytes(plan.memory())),
    )
}

/// Formats the layers, the weights and the plans of a pack.
fn of_pack(pack: &Pack) -> String {
    let index = pack.index();
    let mut table = table(["Layer (type)", "Output Shape", "Param #"]);
    for layer in &index.layers {
        let shapes: Vec<String> = layer.outputs.iter().map(|shape| format!("{shape:?}")).collect();
        let name = format!("{} ({})", layer.path, layer.class);
        table.add_row([name, shapes.join(", "), grouped(layer.elements)]);
    }
    let layers = if index.layers.is_empty() { String::new() } else { format!("{table}\n") };
    let weights: usize = pack.weights().map(|(_, ty)| ty.elements()).sum();
    let mut text = format!("{layers} Weights in the pack: {}\n", grouped(weights));
    for plan in &index.plans {
        let family = Some(plan.family.as_str()).filter(|family| *family != "generic");
        text += &format!(
            " Plan for {} with {}: {}\n",
            family.unwrap_or(plan.device.name()),
            plan.described(),
            bytes(plan.memory)
        );
    }
    text
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    if let Some(column) = table.column_mut(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn text(network: &Network, other: &Network) -> String {
    let mut table = table(["Layer (type)", "Output Shape", "Param #"]);
    let mut shown: Vec<&str> = Vec::new();
    for (layer, again) in network.layers.iter().zip(&other.layers) {
        // A layer that is applied twice is listed once.
        if layer.elements.is_none() && shown.contains(&layer.path.as_str()) {
            continue;
        }
        shown.push(&layer.path);
        let shapes: Vec<String> =
            layer.outputs.iter().zip(&again.outputs).map(|(a, b)| shape(a, b)).collect();
        let name = format!("{} ({})", layer.path, layer.class);
        table.add_row([name, shapes.join(", "), grouped(network.elements(layer))]);
    }
    let is_own = |path: &str| {
        !path.contains('.') && network.layers.iter().all(|layer| layer.elements.is_none())
    };
    let own = network.weights.iter().filter(|weight| is_own(&weight.path));
    for weight in own {
        let name = format!("{} ({})", weight.path, weight.kind.keyword());
        table.add_row([name, format!("{:?}", weight.ty.shape), grouped(weight.ty.elements())]);
    }

    let total = |kinds: &[WeightKind]| {
        let weights = network.weights.iter().filter(|weight| kinds.contains(&weight.kind));
        let (mut elements, mut stored) = (0, 0);
        for weight in weights {
            elements += weight.ty.elements();
            stored += weight.ty.elements() * weight.ty.dtype.size();
        }
        format!("{} ({})", grouped(elements), bytes(stored as u64))
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
