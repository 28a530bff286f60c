//! [`Model`]: a checked program or an ONNX file, from which a [`Session`] is built.

use std::collections::BTreeMap;
#[cfg(not(target_arch = "wasm32"))]
use std::sync::Arc;

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::{Graph, NodeId};
use tile_compiler::interpret;
use tile_compiler::lower::{Binding, Bindings, Network, Setting, lower};
#[cfg(not(target_arch = "wasm32"))]
use tile_compiler::onnx::{Given, Imported};
use tile_compiler::pipeline::{self, Options};
use tile_compiler::plan::{Plan, Port};
use tile_compiler::tensor::{Tensor, TensorType};
#[cfg(not(target_arch = "wasm32"))]
use tile_lang::ast::{Dim, DimKind};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::{Budget, Checked, Limits, Loader, Program, Sources};

use crate::device::{Device, Kind};
use crate::error::Error;
use crate::executable::{Executable, ReferenceExecutable, given_name, narrow};
use crate::memory;
use crate::session::Session;
use crate::store::Store;
#[cfg(not(target_arch = "wasm32"))]
use crate::{
    onnx::{OnnxFile, TileProgram},
    staged::Staged,
    train::TrainerBuilder,
    tune::{self, Tune, Tuning},
};

/// A checked program, not yet bound to shapes or a device.
#[derive(Clone, Debug)]
pub struct Model {
    sources: Sources,
    /// The program. It is empty for an ONNX file.
    program: Program,
    warnings: Vec<Diagnostic>,
    /// The limits of its sessions, unless a session sets its own.
    pub(crate) limits: Limits,
    #[cfg(not(target_arch = "wasm32"))]
    onnx: Option<Arc<OnnxFile>>,
}

impl Model {
    /// Reads and checks the text of a Tile program.
    ///
    /// # Errors
    /// Returns [`Error::Program`] with all errors of the program.
    pub fn compile(source: &str) -> Result<Model, Error> {
        Model::of(tile_lang::check(source))
    }

    /// Reads and checks the Tile file `path` with the text `source`, and the files that it imports.
    /// `loader` returns the file at a path. Paths are relative to the same folder as `path`.
    /// [`crate::Imports`] reads files, but only below the program's folder.
    ///
    /// # Errors
    /// Returns [`Error::Program`] with all errors of these files.
    pub fn compile_file(path: &str, source: &str, loader: Loader) -> Result<Model, Error> {
        Model::of(tile_lang::check_file(path, source, loader))
    }

    /// Does the same as [`Model::compile_file`], within `limits`. The sessions of the model are
    /// compiled within the same limits, unless [`SessionBuilder::limits`] sets others.
    ///
    /// # Errors
    /// Returns [`Error::Program`] with all errors of these files. Exceeding a limit is the error
    /// `E0007`.
    pub fn compile_within(path: &str, source: &str, loader: Loader, limits: Limits) -> Result<Model, Error> {
        let checked = tile_lang::check_within(path, source, loader, &Budget::new(limits));
        Ok(Model { limits, ..Model::of(checked)? })
    }

    fn of(checked: Checked) -> Result<Model, Error> {
        let Checked { program, diagnostics, sources } = checked;
        match program {
            Some(program) => Ok(Model {
                sources,
                program,
                warnings: diagnostics,
                limits: Limits::default(),
                #[cfg(not(target_arch = "wasm32"))]
                onnx: None,
            }),
            None => Err(Error::Program { sources, diagnostics }),
        }
    }

    /// Reads an ONNX file. Its sessions use the file's names of inputs and outputs, and have the
    /// weights with their values.
    ///
    /// # Errors
    /// Returns [`Error::Onnx`] if the file cannot be read, is not an ONNX file or uses unsupported
    /// operators. The error lists all unsupported operators.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open_onnx(path: impl AsRef<std::path::Path>) -> Result<Model, Error> {
        let onnx = OnnxFile::open(path.as_ref())?;
        Ok(Model { onnx: Some(Arc::new(onnx)), ..Model::compile("")? })
    }

    /// Returns whether the model is an ONNX file. An ONNX file has no program and cannot be
    /// trained.
    pub fn is_onnx(&self) -> bool {
        #[cfg(not(target_arch = "wasm32"))]
        return self.onnx.is_some();
        #[cfg(target_arch = "wasm32")]
        false
    }

    /// Returns the names of the required inputs of an ONNX file.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn onnx_inputs(&self) -> Vec<&str> {
        self.onnx.as_ref().map_or(Vec::new(), |onnx| onnx.model.inputs().collect())
    }

    /// Returns the names of the input sizes of an ONNX file that the inputs in `given` do not
    /// determine.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn onnx_sizes(&self, given: &[&str]) -> Vec<&str> {
        self.onnx.as_ref().map_or(Vec::new(), |onnx| onnx.model.unknown_sizes(given))
    }

    /// Returns the declared type of an input, as far as it is known. The sources are the header of
    /// the entry, and the sizes and other inputs in `bindings`. Returns `None` if the entry has no
    /// such input or its rank is unknown.
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

    /// Returns the source texts of the program.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Returns the warnings about the program.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Returns the checked program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Starts to build a session for a device. Set the inputs' shapes, then call
    /// [`SessionBuilder::build`].
    pub fn on<'a>(&'a self, device: &'a Device) -> SessionBuilder<'a> {
        let (bindings, values) = (Bindings { limits: self.limits, ..Bindings::default() }, BTreeMap::new());
        SessionBuilder { model: self, device, entry: None, bindings, values, factors: None, limits: None }
    }
}

/// The type of an input, as far as it is known before the input is given.
#[cfg(not(target_arch = "wasm32"))]
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    pub dtype: DType,
    /// The sizes. `None` stands for any size.
    pub sizes: Vec<Option<usize>>,
    /// True if the channels of an image are on the last axis, unless the sizes imply another order.
    pub channels_last: bool,
}

#[cfg(not(target_arch = "wasm32"))]
impl Declared {
    /// Formats the sizes as `[1, ?, ?, 3]`.
    pub fn shape(&self) -> String {
        let sizes = self.sizes.iter().map(|size| size.map_or("?".to_owned(), |size| size.to_string()));
        format!("[{}]", sizes.collect::<Vec<_>>().join(", "))
    }
}

/// A builder of sessions: the shapes and constants that a program is compiled for.
#[derive(Clone)]
pub struct SessionBuilder<'a> {
    model: &'a Model,
    device: &'a Device,
    entry: Option<String>,
    bindings: Bindings,
    /// The values of inputs of an ONNX file.
    values: BTreeMap<String, Tensor>,
    factors: Option<DType>,
    limits: Option<Limits>,
}

impl SessionBuilder<'_> {
    /// Selects the function to run. The default is the last model of the file, or its last function
    /// if it has no model.
    pub fn entry(mut self, name: impl Into<String>) -> Self {
        self.entry = Some(name.into());
        self
    }

    /// Sets the type of an input: a [`TensorType`], or a shape alone for f32. An input may be left
    /// out if its sizes follow from other inputs and [`SessionBuilder::dim`]. It is f32 then.
    pub fn input(mut self, name: impl Into<String>, ty: impl InputType) -> Self {
        self.bindings.inputs.insert(name.into(), Binding::Tensor(ty.tensor_type()));
        self
    }

    /// Sets the value of an input of an ONNX file if shapes depend on it or on values computed from
    /// it. The input must still be given to each run. A run with another value compiles the model
    /// again.
    pub fn value(mut self, name: impl Into<String>, value: Tensor) -> Self {
        self.values.insert(name.into(), value);
        self
    }

    /// Binds an input to a number, and compiles the program for it. In an ONNX file the input must
    /// have one element. It has the type that the file declares.
    pub fn constant(mut self, name: impl Into<String>, value: Scalar) -> Self {
        let binding =
            if value.dtype.is_float() { Binding::Float(value.to_f64()) } else { Binding::Int(value.to_i64()) };
        self.bindings.inputs.insert(name.into(), binding);
        self
    }

    /// Sets a size by its name in the header.
    pub fn dim(mut self, name: impl Into<String>, size: usize) -> Self {
        self.bindings.sizes.insert(name.into(), size);
        self
    }

    /// Sets a hyper-parameter of the entry.
    pub fn set(mut self, name: impl Into<String>, value: Setting) -> Self {
        self.bindings.parameters.insert(name.into(), value);
        self
    }

    /// Selects whether to compile the program for training. If so, `training` is true in the
    /// program, and the targets of `update` and the penalty of regularizers are additional outputs.
    /// See [`Network`].
    pub fn training(mut self, training: bool) -> Self {
        self.bindings.training = training;
        self
    }

    /// Rounds the operands of products to a 16-bit float, f16 or bf16. They take half the memory if
    /// the device has the type. Sums, inputs, weights and outputs stay f32.
    pub fn factors(mut self, dtype: DType) -> Self {
        self.factors = Some(dtype);
        self
    }

    /// Limits the work and memory of compiling the session, instead of the model's limits. See
    /// [`Model::compile_within`]. A run is also limited to `limits.bytes` of memory. Without this
    /// call, runs may use all available memory.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.bindings.limits = limits;
        self.limits = Some(limits);
        self
    }

    /// Returns the network for these shapes, which [`SessionBuilder::build`] would compile.
    pub fn network(&self) -> Result<Network, Error> {
        #[cfg(not(target_arch = "wasm32"))]
        if let Some(imported) = self.imported()? {
            return Ok(imported.network);
        }
        self.lowered()
    }

    /// Returns the ONNX file as a Tile program for these inputs.
    ///
    /// # Errors
    /// Returns [`Error::Onnx`] for the same reasons as [`SessionBuilder::build`], and for a model
    /// that is not an ONNX file.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn import(&self) -> Result<TileProgram, Error> {
        match (&self.model.onnx, self.imported()?) {
            (Some(onnx), Some(imported)) => Ok(TileProgram::new(onnx.clone(), imported)),
            _ => Err(Error::Onnx { what: vec!["it is no ONNX file".into()] }),
        }
    }

    /// Imports the ONNX file with these inputs, if the model is one.
    #[cfg(not(target_arch = "wasm32"))]
    fn imported(&self) -> Result<Option<Imported>, Error> {
        let Some(onnx) = &self.model.onnx else { return Ok(None) };
        onnx.import(&self.given()?, None).map(Some)
    }

    /// Returns the known properties of the inputs of an ONNX file.
    #[cfg(not(target_arch = "wasm32"))]
    fn given(&self) -> Result<Given, Error> {
        let refuse = |what: String| Err(Error::Onnx { what: vec![what] });
        let mut given = Given {
            sizes: self.bindings.sizes.clone(),
            values: self.values.clone(),
            limits: self.bindings.limits,
            ..Given::default()
        };
        for (name, binding) in &self.bindings.inputs {
            match binding {
                Binding::Tensor(ty) => _ = given.types.insert(name.clone(), ty.clone()),
                Binding::Int(value) => {
                    _ = given.numbers.insert(name.clone(), Scalar::from_i64(DType::I64, *value));
                }
                Binding::Float(value) => {
                    _ = given.numbers.insert(name.clone(), Scalar::from_f64(DType::F64, *value));
                }
            };
        }
        if let Some(entry) = &self.entry {
            return refuse(format!("an ONNX file has one graph, and no `{entry}`"));
        }
        if let Some(name) = self.bindings.parameters.keys().next() {
            return refuse(format!("an ONNX file has no hyper-parameters, and `{name}` is given"));
        }
        Ok(given)
    }

    fn lowered(&self) -> Result<Network, Error> {
        let faulty = |diagnostics| Error::Program { sources: self.model.sources.clone(), diagnostics };
        lower(&self.model.program, self.entry.as_deref(), &self.bindings).map_err(faulty)
    }

    /// Rounds the operands of the network's products, if this was requested.
    fn narrowed(&self, network: Network) -> Network {
        Network { graph: narrow(network.graph, self.factors), ..network }
    }

    /// Measures schedules for the program's kernels, and keeps the best ones for the device. Later
    /// builds for the device use them, in this and in other processes. See [`crate::tune`]. Does
    /// nothing on a device that has nothing to tune.
    ///
    /// # Errors
    /// Returns the errors of [`SessionBuilder::build`]. Results measured before an error are kept.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn tune(&self, tune: Tune) -> Result<Tuning, Error> {
        tuned(self.narrowed(self.network()?).graph, self.device, &self.model.sources, &Options::default(), tune)
    }

    /// Compiles the program and allocates its memory on the device.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn build(self) -> Result<Session, Error> {
        pollster::block_on(self.build_async())
    }

    /// Returns a trainer for the same model. It takes the inputs' shapes from the data.
    #[cfg(not(target_arch = "wasm32"))]
    fn into_trainer(self) -> TrainerBuilder {
        let mut bindings = self.bindings;
        bindings.inputs.retain(|_, binding| !matches!(binding, Binding::Tensor(_)));
        bindings.sizes.clear();
        let trainer = TrainerBuilder::new(self.model.clone(), self.device.clone(), self.entry, bindings);
        match self.limits {
            Some(limits) => trainer.limits(limits),
            None => trainer,
        }
    }

    /// The async form of [`SessionBuilder::build`].
    pub async fn build_async(self) -> Result<Session, Error> {
        let limit = self.limits.map(|limits| limits.bytes);
        #[cfg(not(target_arch = "wasm32"))]
        if let Some(onnx) = &self.model.onnx {
            let mut staged = Staged::new(onnx.clone(), self.device.clone(), self.factors, self.given()?);
            let mut imported = staged.import()?;
            if imported.by_values {
                return Ok(Session::staged(staged.with(imported)));
            }
            let network = self.narrowed(std::mem::take(&mut imported.network));
            let mut session = session(network.graph, self.device, &self.model.sources, limit).await?;
            session.seed(0, 0)?;
            onnx.load(&imported, &mut session)?;
            return Ok(session);
        }
        let network = self.narrowed(self.lowered()?);
        let mut session = session(network.graph, self.device, &self.model.sources, limit).await?;
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
    /// Creates a session for a graph that was not made from the text of a program. Inputs and
    /// outputs have the graph's names.
    ///
    /// # Errors
    /// Returns [`Error::Program`] if the device cannot run the graph. Its diagnostics have no
    /// places.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn of_graph(graph: Graph, device: &Device) -> Result<Session, Error> {
        pollster::block_on(session(graph, device, &Sources::new("", ""), None))
    }
}

/// Builds a session on the device for a graph made from `sources`.
pub(crate) async fn session(
    graph: Graph,
    device: &Device,
    sources: &Sources,
    limit: Option<u64>,
) -> Result<Session, Error> {
    planned(graph, device, sources, Options::default(), &mut Store::within(limit)).await
}

/// Builds a session for [`Session::step`] from the graph of a training step. It shares the weights
/// of `store`: it owns them from [`Session::attach`] to [`Session::detach`], the store otherwise.
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
        memory::require(device.name(), interpret::memory(&graph), store.limit)?;
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

/// Plans the graph for the device.
fn plan(graph: &mut Graph, device: &Device, sources: &Sources, options: &Options) -> Result<Plan, Error> {
    pipeline::optimise(graph);
    pipeline::plan_with(graph, &device.profile(), options).map_err(|error| match error.diagnostic(graph) {
        Some(diagnostic) => Error::Program { sources: sources.clone(), diagnostics: vec![diagnostic] },
        None => Error::bug(error),
    })
}

/// Tunes the kernels of the graph's plan. See [`SessionBuilder::tune`].
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

/// A type that describes an input: a [`TensorType`], or a shape with f32 elements.
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
