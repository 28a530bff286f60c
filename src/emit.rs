//! `tilec FILE --emit …`: shows the output of each compiler phase, down to the kernels in five
//! shading languages.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use tile_compiler::dtype::DType;
use tile_compiler::graph::Graph;
use tile_compiler::lower::{Binding, Bindings, Targets, lower, train};
use tile_compiler::passes::narrow;
use tile_compiler::pipeline::{self, Options};
use tile_compiler::plan::{Plan, Routine};
use tile_compiler::profile::Profile;
use tile_compiler::tensor::TensorType;
use tile_lang::ast::Function;
use tile_lang::diagnostic::Diagnostic;
use tile_runtime::{KernelListing, Target};

use crate::arguments::assume_sizes;
use crate::devices::open;
use crate::inputs::Inputs;
use crate::precision::Precision;
use crate::source::Source;
use crate::terminal::{Failure, Terminal, print, write_file};

#[derive(clap::Args)]
pub struct Emit {
    /// A Tile or ONNX file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The listings to show: phases of the compiler, or the kernels in a shading language
    #[arg(long, value_name = "KIND", value_delimiter = ',', required = true)]
    emit: Vec<Kind>,
    /// Write each listing to a file in DIR instead of standard output
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The target to schedule for: generic, the features of every browser and every adapter; the
    /// features and rates of a family of GPUs: apple, since the M1; amd-gcn, amd-rdna and
    /// amd-rdna3; intel-xe; nvidia, since Turing; mobile, Adreno and Mali; cpu, the embedded
    /// device; or a device of this machine, such as wgpu:0, with the schedules that `tilec tune`
    /// found for it. Listings for generic and for families do not depend on the machine
    #[arg(long, value_name = "NAME", default_value = "generic", value_parser = scheduled)]
    target: Scheduled,
    /// Show a training step of the `train` block: forward, backward, update. `--shape Y=i32:64`
    /// gives the target of the output Y
    #[arg(long, conflicts_with_all = ["factors", "storage", "weights_type"])]
    train: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Kind {
    /// The tokens of the file
    Tokens,
    /// The syntax tree
    Ast,
    /// The tensor graph, optimised
    Graph,
    /// The steps of a run, with their memory, operations and predicted least time
    Plan,
    /// The decisions behind the plan: for each step its fusions, its schedule and the reason, and
    /// its predicted time
    Explain,
    /// The loop nests of the steps, with their schedules
    Nests,
    /// The kernels that the nests become, or the native programs for the cpu
    Kernels,
    Wgsl,
    Msl,
    /// SPIR-V, disassembled on standard output, and as a binary module in a file
    Spirv,
    Hlsl,
    Glsl,
    /// The tensor graph in Graphviz's language
    Dot,
}

/// A value of `--target`.
#[derive(Clone)]
enum Scheduled {
    /// A profile that is the same on all machines.
    Fixed(Box<Profile>),
    /// A device of this machine.
    Device(String),
}

fn scheduled(text: &str) -> Result<Scheduled, String> {
    // The cpu device has the caches of the machine.
    if matches!(text, "cpu" | "wgpu") || text.starts_with("wgpu:") {
        return Ok(Scheduled::Device(text.into()));
    }
    let fixed = Profile::fixed(text).map(|profile| Scheduled::Fixed(Box::new(profile)));
    fixed.ok_or_else(|| {
        let names: Vec<&str> = Profile::fixed_names().collect();
        format!("the targets are {}, wgpu and wgpu:N", names.join(", "))
    })
}

/// The size of every dimension without one.
const ASSUMED: usize = 64;

/// A listing of one program, kernel or nest, printed or written as one file.
struct Listing {
    kind: &'static str,
    /// The file name under `-o`.
    file: String,
    text: String,
    /// The file's content if it differs from `text`.
    binary: Option<Vec<u8>>,
}

/// Prints or writes the listings, in the order of the command line.
pub fn emit(
    arguments: &Emit,
    inputs: &Inputs,
    precision: Precision,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let (source, inputs) = if arguments.train {
        let (source, sizes) = Source::load_trained(&arguments.file, &inputs.sizes, terminal)?;
        (source, &Inputs { sizes, ..inputs.clone() })
    } else {
        (Source::load(&arguments.file, inputs.sizes.entry.as_deref(), terminal)?, inputs)
    };
    let mut compiled = None;
    let mut listings = Vec::new();
    for &kind in &arguments.emit {
        if (kind == Kind::Tokens || kind == Kind::Ast) && !source.model.is_onnx() {
            listings.push(of_text(kind, &source));
        } else {
            if compiled.is_none() {
                compiled = Some(compile(arguments, inputs, precision, &source, terminal)?);
            }
            if let Some((graph, plan)) = &compiled {
                listings.extend(of_program(kind, graph, plan)?);
            }
        }
    }
    match &arguments.output {
        Some(folder) => write_files(folder, listings, terminal),
        None => print(listing(&listings, arguments.emit.len() > 1).as_bytes()),
    }
}

fn compile(
    arguments: &Emit,
    inputs: &Inputs,
    precision: Precision,
    source: &Source,
    terminal: &Terminal,
) -> Result<(Graph, Plan), Failure> {
    let (profile, tuned) = match &arguments.target {
        Scheduled::Fixed(profile) => (Profile::clone(profile), Arc::default()),
        Scheduled::Device(name) => {
            let device =
                open(Some(name), false, terminal).map_err(|error| source.failed(&error))?;
            (device.profile(), device.tuned())
        }
    };
    let options = Options {
        updates: arguments.train,
        tuned,
        storage: precision.storage,
        quantize_weights: precision.weights_type.is_some(),
    };
    if source.model.is_onnx() {
        let graph = onnx_graph(arguments, inputs, source)?;
        return planned(graph, precision.factors, &profile, &options, source);
    }
    let program = source.model.program();
    let entry = inputs.sizes.entry.as_deref();
    let mut bindings = inputs.bindings_with(&inputs.read(source)?);
    let function = program.entry(entry).map_err(|error| source.rejected(&[error]))?;
    let targets =
        if arguments.train { take_targets(function, &mut bindings) } else { BTreeMap::new() };
    let assumed = assume_sizes(function, &mut bindings, ASSUMED);
    if !assumed.is_empty() {
        let names = assumed.join(" = ");
        terminal.note(&format!(
            "{names} = {ASSUMED} is assumed; `--dim {}=…` gives another size",
            assumed[0]
        ));
    }
    let rejected = |errors: Vec<Diagnostic>| source.rejected(&errors);
    let mut graph = lower(program, entry, &bindings).map_err(rejected)?.graph;
    if arguments.train {
        bindings.training = true;
        graph = step(source, entry, &bindings, targets, &graph, terminal).map_err(rejected)?;
    }
    planned(graph, precision.factors, &profile, &options, source)
}

/// Optimises and plans the graph. `factors` narrows the operands of its contractions first.
fn planned(
    mut graph: Graph,
    factors: Option<DType>,
    profile: &Profile,
    options: &Options,
    source: &Source,
) -> Result<(Graph, Plan), Failure> {
    if let Some(dtype) = factors {
        narrow(&mut graph, dtype);
    }
    pipeline::optimise(&mut graph);
    let plan = pipeline::plan_with(&graph, profile, options).map_err(|error| {
        match error.diagnostic(&graph) {
            Some(diagnostic) => source.rejected(&[diagnostic]),
            None => Failure::machine(error.to_string()),
        }
    })?;
    Ok((graph, plan))
}

/// Returns the graph of an ONNX file.
fn onnx_graph(arguments: &Emit, inputs: &Inputs, source: &Source) -> Result<Graph, Failure> {
    if arguments.train {
        return Err(Failure::input(format!(
            "{} is an ONNX file, which cannot be trained",
            source.path.display()
        )));
    }
    Ok(source.onnx_network(inputs)?.graph)
}

/// Moves the shapes of outputs out of the bindings, and returns them as the targets' types.
fn take_targets(function: &Function, bindings: &mut Bindings) -> BTreeMap<String, TensorType> {
    let names = function.outputs.iter().map(|output| &output.name);
    let taken = names.filter_map(|name| match bindings.inputs.remove(name) {
        Some(Binding::Tensor(ty)) => Some((name.clone(), ty)),
        _ => None,
    });
    taken.collect()
}

/// Returns the graph of a training step, with a note for each target whose type is assumed.
fn step(
    source: &Source,
    entry: Option<&str>,
    bindings: &Bindings,
    targets: BTreeMap<String, TensorType>,
    model: &Graph,
    terminal: &Terminal,
) -> Result<Graph, Vec<Diagnostic>> {
    let (graph, types) = training_step(source, entry, bindings, &targets, model)?;
    for (name, ty) in types.iter().filter(|(name, _)| !targets.contains_key(*name)) {
        terminal.note(&format!(
            "the target of {name} is assumed to be {ty}; `--shape {name}=…` gives another"
        ));
    }
    Ok(graph)
}

/// Returns the graph of a training step, and the types of its targets. Outputs without a target
/// type are assumed to have targets of their own type, or, if that does not compile, class numbers
/// along their last axis.
pub fn training_step(
    source: &Source,
    entry: Option<&str>,
    bindings: &Bindings,
    targets: &BTreeMap<String, TensorType>,
    model: &Graph,
) -> Result<(Graph, BTreeMap<String, TensorType>), Vec<Diagnostic>> {
    let with = |assumed: &dyn Fn(&TensorType) -> TensorType| {
        let mut types = targets.clone();
        for (name, id) in &model.outputs {
            types.entry(name.clone()).or_insert_with(|| assumed(&model.node(*id).ty));
        }
        let given = Targets { types: types.clone(), ..Targets::default() };
        Ok((train(source.model.program(), entry, bindings, &given)?.graph, types))
    };
    let alike = |ty: &TensorType| ty.clone();
    let class =
        |ty: &TensorType| TensorType::new(DType::I32, &ty.shape[..ty.rank().saturating_sub(1)]);
    with(&alike).or_else(|errors: Vec<Diagnostic>| with(&class).map_err(|_| errors))
}

fn of_text(kind: Kind, source: &Source) -> Listing {
    let stem = source.path.file_stem().unwrap_or_default().to_string_lossy();
    let (kind, text) = match kind {
        Kind::Tokens => ("tokens", tile_lang::tokens_text(&source.text)),
        _ => ("ast", tile_lang::ast_text(&tile_lang::parse(&source.text).file)),
    };
    Listing { kind, file: format!("{stem}.{kind}"), text, binary: None }
}

fn of_program(kind: Kind, graph: &Graph, plan: &Plan) -> Result<Vec<Listing>, Failure> {
    let whole = |kind: &'static str, text: String| {
        Ok(vec![Listing { kind, file: format!("{}.{kind}", plan.name), text, binary: None }])
    };
    match kind {
        Kind::Graph => whole("graph", graph.to_string()),
        Kind::Dot => whole("dot", graph.dot()),
        Kind::Plan => whole("plan", plan.to_string()),
        Kind::Explain => whole("explain", plan.explain().to_string()),
        Kind::Nests => Ok(nests(plan)),
        Kind::Kernels => Ok(kernels(plan)),
        Kind::Wgsl => shaders(plan, Target::Wgsl),
        Kind::Msl => shaders(plan, Target::Msl),
        Kind::Spirv => shaders(plan, Target::Spirv),
        Kind::Hlsl => shaders(plan, Target::Hlsl),
        Kind::Glsl => shaders(plan, Target::Glsl),
        Kind::Tokens | Kind::Ast => Ok(Vec::new()),
    }
}

fn nests(plan: &Plan) -> Vec<Listing> {
    let nest = |routine: &Routine| Listing {
        kind: "nests",
        file: format!("{}.nest", routine.name),
        text: routine.to_string(),
        binary: None,
    };
    plan.routines.iter().map(nest).collect()
}

/// Lists every kernel or native program. A generator of random numbers on a processor has neither,
/// and is listed as itself.
fn kernels(plan: &Plan) -> Vec<Listing> {
    let kernel = |routine: &Routine| Listing {
        kind: "kernels",
        file: format!("{}.kernel", routine.name),
        text: match (&routine.kernel, &routine.native) {
            (Some(kernel), _) => kernel.to_string(),
            (None, Some(program)) => program.to_string(),
            (None, None) => routine.to_string(),
        },
        binary: None,
    };
    plan.routines.iter().map(kernel).collect()
}

fn shaders(plan: &Plan, target: Target) -> Result<Vec<Listing>, Failure> {
    if plan.routines.iter().all(|routine| routine.kernel.is_none()) {
        return Ok(Vec::new());
    }
    let kernels =
        tile_runtime::listing(plan, target).map_err(|error| Failure::input(error.to_string()))?;
    let listing = |kernel: KernelListing| Listing {
        kind: target.name(),
        file: format!("{}.{}", kernel.name, target.extension()),
        text: kernel.source,
        binary: Some(kernel.bytes),
    };
    Ok(kernels.into_iter().map(listing).collect())
}

/// Joins the listings into one text. `headed` puts the kind above the listings of each kind.
fn listing(listings: &[Listing], headed: bool) -> String {
    let mut text = String::new();
    let mut kind = "";
    for listing in listings {
        if !text.is_empty() {
            text.push('\n');
        }
        if headed && kind != listing.kind {
            kind = listing.kind;
            text += &format!("// {kind}\n\n");
        }
        text += listing.text.trim_end();
        text.push('\n');
    }
    text
}

fn write_files(folder: &Path, listings: Vec<Listing>, terminal: &Terminal) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| Failure::writing(folder, &error))?;
    for listing in listings {
        let path = folder.join(&listing.file);
        let bytes = listing.binary.unwrap_or_else(|| listing.text.into_bytes());
        write_file(&path, bytes)?;
        terminal.detail(&format!("wrote {}", path.display()));
    }
    Ok(())
}
