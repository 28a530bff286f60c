//! [`Model`]: a checked program or an ONNX file, and the way from there to a [`Session`].

use std::collections::BTreeMap;
#[cfg(not(target_arch = "wasm32"))]
use std::sync::Arc;

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::{Graph, NodeId};
use tile_compiler::lower::{Binding, Bindings, Network, Setting, lower};
#[cfg(not(target_arch = "wasm32"))]
use tile_compiler::onnx::{Given, Imported};
use tile_compiler::passes::narrow;
use tile_compiler::pipeline::{self, Options};
use tile_compiler::plan::{Plan, Port};
use tile_compiler::tensor::{Tensor, TensorType};
#[cfg(not(target_arch = "wasm32"))]
use tile_lang::ast::{Dim, DimKind};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::{Checked, Loader, Program, Sources};

use crate::device::{Device, Kind};
use crate::error::Error;
use crate::executable::{Executable, ReferenceExecutable, given_name};
use crate::session::Session;
use crate::store::Store;
#[cfg(not(target_arch = "wasm32"))]
use crate::{
    onnx::{OnnxFile, TileProgram},
    train::TrainerBuilder,
    tune::{self, Tune, Tuning},
};

/// A checked program, not yet bound to shapes or a device.
#[derive(Clone, Debug)]
pub struct Model {
    sources: Sources,
    /// Of an ONNX file, an empty one.
    program: Program,
    warnings: Vec<Diagnostic>,
    #[cfg(not(target_arch = "wasm32"))]
    onnx: Option<Arc<OnnxFile>>,
}

impl Model {
    /// Reads and checks the text of a Tile program.
    ///
    /// # Errors
    /// [`Error::Program`], with everything that is wrong with it.
    pub fn compile(source: &str) -> Result<Model, Error> {
        Model::of(tile_lang::check(source))
    }

    /// Reads and checks the text of the Tile file `path`, and what it imports: `loader` gives the text of the file of a
    /// path, which starts where `path` does, or none where there is no such file.
    ///
    /// # Errors
    /// [`Error::Program`], with everything that is wrong with these files.
    pub fn compile_file(path: &str, source: &str, loader: Loader) -> Result<Model, Error> {
        Model::of(tile_lang::check_file(path, source, loader))
    }

    fn of(checked: Checked) -> Result<Model, Error> {
        let Checked { program, diagnostics, sources } = checked;
        match program {
            Some(program) => Ok(Model {
                sources,
                program,
                warnings: diagnostics,
                #[cfg(not(target_arch = "wasm32"))]
                onnx: None,
            }),
            None => Err(Error::Program { sources, diagnostics }),
        }
    }

    /// Reads an ONNX file. Sessions of it have the names of its inputs and outputs, and its weights with their values.
    ///
    /// # Errors
    /// [`Error::Onnx`] where it cannot be read, is no ONNX file, or has operators that are not supported, which are all named.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open_onnx(path: impl AsRef<std::path::Path>) -> Result<Model, Error> {
        let onnx = OnnxFile::open(path.as_ref())?;
        Ok(Model { onnx: Some(Arc::new(onnx)), ..Model::compile("")? })
    }

    /// Whether it is an ONNX file, which has no program and cannot be trained.
    pub fn is_onnx(&self) -> bool {
        #[cfg(not(target_arch = "wasm32"))]
        return self.onnx.is_some();
        #[cfg(target_arch = "wasm32")]
        false
    }

    /// The names of the sizes of an ONNX file's inputs that the inputs of these names do not give.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn onnx_sizes(&self, given: &[&str]) -> Vec<&str> {
        self.onnx.as_ref().map_or(Vec::new(), |onnx| onnx.model.unknown_sizes(given))
    }

    /// What is known of an input before anything is given for it: by the header of the entry, and by what `bindings` has of sizes and of
    /// other inputs. None where the entry has no such input, or nothing says of which rank it is.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn declared(&self, entry: Option<&str>, input: &str, bindings: &Bindings) -> Option<Declared> {
        if let Some(Binding::Tensor(ty)) = bindings.inputs.get(input) {
            let sizes = ty.shape.iter().copied().map(Some).collect();
            return Some(Declared { dtype: ty.dtype, sizes, channels_last: !self.is_onnx() });
        }
        if let Some(onnx) = &self.onnx {
            let (dtype, sizes) = onnx.model.input(input, &bindings.sizes)?;
            return Some(Declared { dtype, sizes, channels_last: false });
        }
        let function = self.program.entry(entry).ok()?;
        let mut known = bindings.sizes.clone();
        for other in &function.inputs {
            if let (Some(Binding::Tensor(ty)), Some(dims)) = (bindings.inputs.get(&other.name.name), &other.dims) {
                for (dim, &size) in dims.iter().zip(&ty.shape).take_while(|(dim, _)| dim.kind != DimKind::Ellipsis) {
                    if let DimKind::Name(name) = &dim.kind {
                        known.insert(name.clone(), size);
                    }
                }
            }
        }
        let dims = function.inputs.iter().find(|other| other.name.name == input)?.dims.as_ref()?;
        let size = |dim: &Dim| match &dim.kind {
            DimKind::Name(name) => Some(known.get(name).copied()),
            DimKind::Size(size) => Some(usize::try_from(*size).ok()),
            DimKind::Ellipsis => None,
        };
        let sizes = dims.iter().map(size).collect::<Option<_>>()?;
        Some(Declared { dtype: DType::F32, sizes, channels_last: true })
    }

    /// The texts that it was read from.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// What is questionable in the program, though not wrong.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The checked program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Begins to make the program ready for a device: give the inputs' shapes, then [`SessionBuilder::build`].
    pub fn on<'a>(&'a self, device: &'a Device) -> SessionBuilder<'a> {
        let (bindings, values) = (Bindings::default(), BTreeMap::new());
        SessionBuilder { model: self, device, entry: None, bindings, values, factors: None }
    }
}

/// What is known of an input before anything is given for it.
#[cfg(not(target_arch = "wasm32"))]
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    pub dtype: DType,
    /// None where any will do.
    pub sizes: Vec<Option<usize>>,
    /// Whether the channels of a picture are on the last axis where no size says it.
    pub channels_last: bool,
}

/// The shapes and constants for which a program is to be compiled.
#[derive(Clone)]
pub struct SessionBuilder<'a> {
    model: &'a Model,
    device: &'a Device,
    entry: Option<String>,
    bindings: Bindings,
    /// Of inputs of an ONNX file.
    values: BTreeMap<String, Tensor>,
    factors: Option<DType>,
}

impl SessionBuilder<'_> {
    /// The function to run. Otherwise it is the last one of the file.
    pub fn entry(mut self, name: impl Into<String>) -> Self {
        self.entry = Some(name.into());
        self
    }

    /// The type of an input: a [`TensorType`], or a shape alone for f32. An input whose sizes follow from other inputs
    /// and [`SessionBuilder::dim`]s need not be given: it is f32.
    pub fn input(mut self, name: impl Into<String>, ty: impl InputType) -> Self {
        self.bindings.inputs.insert(name.into(), Binding::Tensor(ty.tensor_type()));
        self
    }

    /// The value of an input of an ONNX file, for which its network is compiled where shapes depend on it. It is given to each run
    /// all the same, and another one there may give an error or a wrong result.
    pub fn value(mut self, name: impl Into<String>, value: Tensor) -> Self {
        self.values.insert(name.into(), value);
        self
    }

    /// Binds an input to a number, which the program is then compiled for.
    pub fn constant(mut self, name: impl Into<String>, value: Scalar) -> Self {
        let binding =
            if value.dtype.is_float() { Binding::Float(value.to_f64()) } else { Binding::Int(value.to_i64()) };
        self.bindings.inputs.insert(name.into(), binding);
        self
    }

    /// A size, by its name in the header.
    pub fn dim(mut self, name: impl Into<String>, size: usize) -> Self {
        self.bindings.sizes.insert(name.into(), size);
        self
    }

    /// The value of a hyper-parameter of the entry.
    pub fn set(mut self, name: impl Into<String>, value: Setting) -> Self {
        self.bindings.parameters.insert(name.into(), value);
        self
    }

    /// Whether to compile the program as in training: `training` is true in it, and what `update` changes, and the
    /// penalty of regularizers, are further outputs (see [`Network`]).
    pub fn training(mut self, training: bool) -> Self {
        self.bindings.training = training;
        self
    }

    /// Rounds the factors of products to a float of 16 bits, f16 or bf16: they take half the memory where the device has the
    /// type. Sums are f32 as before, and so are inputs, weights and outputs.
    pub fn factors(mut self, dtype: DType) -> Self {
        self.factors = Some(dtype);
        self
    }

    /// The network that the program is with these shapes: what [`SessionBuilder::build`] would compile.
    pub fn network(&self) -> Result<Network, Error> {
        #[cfg(not(target_arch = "wasm32"))]
        if let Some(imported) = self.imported()? {
            return Ok(imported.network);
        }
        self.lowered()
    }

    /// An ONNX file as a Tile program for these inputs.
    ///
    /// # Errors
    /// [`Error::Onnx`] as for [`SessionBuilder::build`], and for a model that is no ONNX file.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn import(&self) -> Result<TileProgram, Error> {
        match (&self.model.onnx, self.imported()?) {
            (Some(onnx), Some(imported)) => Ok(TileProgram::new(onnx.clone(), imported)),
            _ => Err(Error::Onnx { what: vec!["it is no ONNX file".into()] }),
        }
    }

    /// What the model is with these inputs, where it is an ONNX file.
    #[cfg(not(target_arch = "wasm32"))]
    fn imported(&self) -> Result<Option<Imported>, Error> {
        let Some(onnx) = &self.model.onnx else { return Ok(None) };
        let refuse = |what: String| Err(Error::Onnx { what: vec![what] });
        let mut given = Given { sizes: self.bindings.sizes.clone(), values: self.values.clone(), ..Given::default() };
        for (name, binding) in &self.bindings.inputs {
            match binding {
                Binding::Tensor(ty) => given.types.insert(name.clone(), ty.clone()),
                Binding::Int(_) | Binding::Float(_) => {
                    return refuse(format!("the input `{name}` of an ONNX file is an array, and a number is given"));
                }
            };
        }
        if let Some(entry) = &self.entry {
            return refuse(format!("an ONNX file has one graph, and no `{entry}`"));
        }
        if let Some(name) = self.bindings.parameters.keys().next() {
            return refuse(format!("an ONNX file has no hyper-parameters, and `{name}` is given"));
        }
        onnx.import(&given).map(Some)
    }

    fn lowered(&self) -> Result<Network, Error> {
        let faulty = |diagnostics| Error::Program { sources: self.model.sources.clone(), diagnostics };
        lower(&self.model.program, self.entry.as_deref(), &self.bindings).map_err(faulty)
    }

    /// The network, its factors rounded where that is wanted.
    fn narrowed(&self, mut network: Network) -> Network {
        if let Some(dtype) = self.factors.filter(|dtype| dtype.is_float() && dtype.bits() < 32) {
            narrow(&mut network.graph, dtype);
        }
        network
    }

    /// Measures schedules for the program's kernels, and keeps the best for the device: whatever is then built for it, here and in
    /// other processes, uses them. See [`crate::tune`]. On a device that has nothing to tune nothing happens.
    ///
    /// # Errors
    /// Those of [`SessionBuilder::build`]; what was found until an error is kept.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn tune(&self, tune: Tune) -> Result<Tuning, Error> {
        tuned(self.narrowed(self.network()?).graph, self.device, &self.model.sources, &Options::default(), tune)
    }

    /// Compiles the program and allocates its memory on the device.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn build(self) -> Result<Session, Error> {
        pollster::block_on(self.build_async())
    }

    /// The same model to train; the inputs' shapes are the data's.
    #[cfg(not(target_arch = "wasm32"))]
    fn into_trainer(self) -> TrainerBuilder {
        let mut bindings = self.bindings;
        bindings.inputs.retain(|_, binding| !matches!(binding, Binding::Tensor(_)));
        bindings.sizes.clear();
        TrainerBuilder::new(self.model.clone(), self.device.clone(), self.entry, bindings)
    }

    /// The async form of [`SessionBuilder::build`].
    pub async fn build_async(self) -> Result<Session, Error> {
        #[cfg(not(target_arch = "wasm32"))]
        if let (Some(onnx), Some(mut imported)) = (&self.model.onnx, self.imported()?) {
            let network = self.narrowed(std::mem::take(&mut imported.network));
            let mut session = session(network.graph, self.device, &self.model.sources).await?;
            session.seed(0, 0)?;
            onnx.load(&imported, &mut session)?;
            return Ok(session);
        }
        let network = self.narrowed(self.lowered()?);
        let mut session = session(network.graph, self.device, &self.model.sources).await?;
        session.keep_initial(network.initial);
        #[cfg(not(target_arch = "wasm32"))]
        {
            session.origin = Some(self.into_trainer());
        }
        session.seed(0, 0)?;
        Ok(session)
    }
}

impl Session {
    /// A session for a graph that was not made from the text of a program. Inputs and outputs have the graph's names.
    ///
    /// # Errors
    /// [`Error::Program`] where the device cannot run it; its diagnostics point nowhere.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn of_graph(graph: Graph, device: &Device) -> Result<Session, Error> {
        pollster::block_on(session(graph, device, &Sources::new("", "")))
    }
}

/// The graph, which was made from `sources`, ready on the device.
pub(crate) async fn session(graph: Graph, device: &Device, sources: &Sources) -> Result<Session, Error> {
    planned(graph, device, sources, Options::default(), &mut Store::default()).await
}

/// The graph of a step, for [`Session::step`]: its weights are those of the store, which it has from [`Session::attach`] to
/// [`Session::detach`].
#[cfg(not(target_arch = "wasm32"))]
pub(crate) async fn step(
    graph: Graph,
    device: &Device,
    sources: &Sources,
    store: &mut Store,
) -> Result<Session, Error> {
    planned(graph, device, sources, Options { updates: true, ..Options::default() }, store).await
}

async fn planned(
    mut graph: Graph,
    device: &Device,
    sources: &Sources,
    options: Options,
    store: &mut Store,
) -> Result<Session, Error> {
    if let Kind::Reference = device.0 {
        let named = |id: NodeId| (given_name(&graph, id).to_owned(), graph.node(id).ty.clone());
        let inputs = graph.inputs.iter().map(|&id| named(id)).collect();
        let weights = graph.weights.iter().map(|&id| named(id)).collect();
        let outputs = graph.outputs.iter().map(|(name, id)| (name.clone(), graph.node(*id).ty.clone())).collect();
        return Ok(Session::new(inputs, weights, outputs, Executable::Reference(ReferenceExecutable::new(graph))));
    }
    #[cfg(not(target_arch = "wasm32"))]
    let options = Options { tuned: device.tuned(), ..options };
    let plan = plan(&mut graph, device, sources, &options)?;
    #[cfg(not(target_arch = "wasm32"))]
    device.note_unsuited(&plan);
    let ports = |ports: &[Port]| ports.iter().map(|p| (p.name.clone(), p.ty.clone())).collect();
    let (inputs, weights, outputs) = (ports(&plan.inputs), ports(&plan.weights), ports(&plan.outputs));
    Ok(Session::new(inputs, weights, outputs, Executable::new(device, plan, store).await?))
}

/// The graph's plan for the device.
fn plan(graph: &mut Graph, device: &Device, sources: &Sources, options: &Options) -> Result<Plan, Error> {
    pipeline::optimise(graph);
    pipeline::plan_with(graph, &device.profile(), options).map_err(|error| match error.diagnostic(graph) {
        Some(diagnostic) => Error::Program { sources: sources.clone(), diagnostics: vec![diagnostic] },
        None => Error::Internal { what: error.to_string() },
    })
}

/// Tunes the kernels of the graph's plan: see [`SessionBuilder::tune`].
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn tuned(
    mut graph: Graph,
    device: &Device,
    sources: &Sources,
    options: &Options,
    tune: Tune,
) -> Result<Tuning, Error> {
    let plan = plan(&mut graph, device, sources, options)?;
    tune::tune(&plan, device, tune)
}

/// What says the type of an input: a [`TensorType`], or a shape, whose elements are then f32.
pub trait InputType {
    fn tensor_type(self) -> TensorType;
}

impl InputType for TensorType {
    fn tensor_type(self) -> TensorType {
        self
    }
}

impl InputType for Vec<usize> {
    fn tensor_type(self) -> TensorType {
        TensorType::new(DType::F32, self)
    }
}

impl InputType for &[usize] {
    fn tensor_type(self) -> TensorType {
        TensorType::new(DType::F32, self)
    }
}

impl<const N: usize> InputType for [usize; N] {
    fn tensor_type(self) -> TensorType {
        TensorType::new(DType::F32, self)
    }
}
