//! [`SessionBuilder`]: the shapes and constants that a [`Session`] is compiled for.

use std::collections::BTreeMap;

use tile_compiler::bindings::{Binding, Bindings, Setting};
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType};
use tile_lang::Limits;
#[cfg(feature = "compile")]
use {
    crate::backend::plan,
    crate::session::Origin,
    crate::store::Store,
    tile_compiler::graph::Graph,
    tile_compiler::lower::{Network, lower},
    tile_compiler::passes,
    tile_compiler::pipeline::Options,
    tile_compiler::plan::Plan,
    tile_compiler::profile::Profile,
    tile_lang::Sources,
};

use crate::backend::block_on;
use crate::device::Device;
use crate::error::Error;
use crate::model::Model;
use crate::session::Session;

/// A builder of sessions: the shapes and constants that a program is compiled for.
///
/// `On` is the device, or the [`FixedTarget`](crate::FixedTarget) of a builder that only lists.
///
/// ```
/// use tile_runtime::{DType, Device, Model, Scalar, TensorType};
///
/// let model = Model::compile("function f(X[N], Y[N], S) -> (Z) { Z = S * X + Y; }")?;
/// let device = Device::cpu();
/// let session = model
///     .on(&device)
///     .input("X", [8]) // f32
///     .input("Y", TensorType::new(DType::F32, [8]))
///     .constant("S", Scalar::f32(2.0))
///     .build()?;
/// assert_eq!(session.outputs().next().unwrap().1.shape, [8]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SessionBuilder<'a, On = &'a Device> {
    pub(crate) request: Request<'a>,
    pub(crate) on: On,
}

/// The program, shapes and constants that a builder was given.
#[derive(Clone)]
pub(crate) struct Request<'a> {
    pub model: &'a Model,
    pub entry: Option<String>,
    pub bindings: Bindings,
    /// The values of inputs of an ONNX file.
    pub values: BTreeMap<String, Tensor>,
    pub precision: Precision,
    pub limits: Option<Limits>,
    /// The session whose weights it takes.
    pub shared: Option<&'a Session>,
}

impl Model {
    /// Starts to build a session for a device. Set the inputs' shapes, then call
    /// [`SessionBuilder::build`].
    pub fn on<'a>(&'a self, device: &'a Device) -> SessionBuilder<'a> {
        SessionBuilder { request: Request::new(self), on: device }
    }
}

impl Request<'_> {
    pub fn new(model: &Model) -> Request<'_> {
        Request {
            model,
            entry: None,
            bindings: Bindings { limits: model.limits, ..Bindings::default() },
            values: BTreeMap::new(),
            precision: Precision::default(),
            limits: None,
            shared: None,
        }
    }
}

impl<'a, On> SessionBuilder<'a, On> {
    /// Selects the function to run. The default is the last model of the file, or its last function
    /// if it has no model.
    pub fn entry(mut self, name: impl Into<String>) -> Self {
        self.request.entry = Some(name.into());
        self
    }

    /// Sets the type of an input: a [`TensorType`], or a shape alone for f32. An input may be left
    /// out if its sizes follow from other inputs and [`SessionBuilder::dim`]. It is f32 then.
    pub fn input(mut self, name: impl Into<String>, ty: impl InputType) -> Self {
        self.request.bindings.inputs.insert(name.into(), Binding::Tensor(ty.tensor_type()));
        self
    }

    /// Sets the value of an input of an ONNX file if shapes depend on it or on values computed from
    /// it. The input must still be given to each run. A run with another value compiles the model
    /// again.
    pub fn value(mut self, name: impl Into<String>, value: Tensor) -> Self {
        self.request.values.insert(name.into(), value);
        self
    }

    /// Binds an input to a number, and compiles the program for it. In an ONNX file the input must
    /// have one element. It has the type that the file declares.
    pub fn constant(mut self, name: impl Into<String>, value: Scalar) -> Self {
        self.request.bindings.inputs.insert(name.into(), value.into());
        self
    }

    /// Sets a size by its name in the header.
    pub fn dim(mut self, name: impl Into<String>, size: usize) -> Self {
        self.request.bindings.sizes.insert(name.into(), size);
        self
    }

    /// Sets a hyper-parameter of the entry.
    pub fn set(mut self, name: impl Into<String>, value: Setting) -> Self {
        self.request.bindings.parameters.insert(name.into(), value);
        self
    }

    /// Selects whether to compile the program for training. If so, `training` is true in the
    /// program, and the targets of `update` and the penalty of regularizers are additional outputs.
    /// See [`Network`].
    pub fn training(mut self, training: bool) -> Self {
        self.request.bindings.training = training;
        self
    }

    /// Rounds the operands of products to a 16-bit float, f16 or bf16. They take half the memory if
    /// the device has the type. Sums, inputs, weights and outputs stay f32.
    pub fn factors(mut self, dtype: DType) -> Self {
        self.request.precision.factors = Some(dtype);
        self
    }

    /// Stores f32 weights, and what passes between kernels, as f16 or bf16, and widens them when
    /// they are read. They take half the memory and traffic. Weights and masks beyond the range of
    /// the type become its greatest, and other values infinite. Sums, inputs, outputs, vectors,
    /// statistics and what loops carry stay f32, and all tensors do on a device without the type:
    /// only the cpu device has bf16. Training is not affected.
    pub fn storage(mut self, dtype: DType) -> Self {
        self.request.precision.storage = Some(dtype);
        self
    }

    /// Selects whether to store f32 weights of products as 8-bit integers, with an f32 scale for
    /// each column or channel. They take a quarter of the memory and traffic, and products and sums
    /// stay f32. Weights that a run changes are not affected, nor are those that anything but a sum
    /// of products or a lookup reads, such as all factors of [`SessionBuilder::factors`].
    pub fn quantize_weights(mut self, quantize: bool) -> Self {
        self.request.precision.quantize_weights = quantize;
        self
    }

    /// Limits the work and memory of compiling the session, instead of the model's limits. See
    /// [`Model::compile_within`]. A run is also limited to `limits.bytes` of memory. Without this
    /// call, runs may use all available memory.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.request.bindings.limits = limits;
        self.request.limits = Some(limits);
        self
    }

    /// Takes the weights of another session of the model on the same device, such as one for
    /// another batch size. They share memory until one of them is set again, which changes only the
    /// session where it is set.
    pub fn weights_of(mut self, other: &'a Session) -> Self {
        self.request.shared = Some(other);
        self
    }
}

impl SessionBuilder<'_> {
    /// Compiles the program and allocates its memory on the device.
    pub fn build(self) -> Result<Session, Error> {
        block_on(self.build_async())
    }

    /// The async form of [`SessionBuilder::build`].
    pub async fn build_async(self) -> Result<Session, Error> {
        match self.request.model.foreign.clone() {
            Some(foreign) => foreign.build(&self),
            #[cfg(feature = "compile")]
            None => self.build_program().await,
            #[cfg(not(feature = "compile"))]
            None => Err(Error::internal("this build is without the compiler")),
        }
    }
}

#[cfg(feature = "compile")]
impl<On> SessionBuilder<'_, On> {
    /// Returns the network for these shapes, which [`SessionBuilder::build`] would compile.
    pub fn network(&self) -> Result<Network, Error> {
        self.request.network()
    }
}

#[cfg(feature = "compile")]
impl Request<'_> {
    pub fn network(&self) -> Result<Network, Error> {
        match &self.model.foreign {
            Some(foreign) => foreign.network(self),
            None => self.lowered(),
        }
    }

    fn lowered(&self) -> Result<Network, Error> {
        let faulty =
            |diagnostics| Error::Program { sources: self.model.sources().clone(), diagnostics };
        lower(self.model.program(), self.entry.as_deref(), &self.bindings).map_err(faulty)
    }

    /// Returns the plan of the network for a device with this profile.
    pub fn plan(&self, profile: &Profile, options: Options) -> Result<Plan, Error> {
        let mut graph = self.precision.rounded(self.network()?.graph);
        plan(&mut graph, profile, self.model.sources(), &self.precision.with(options))
    }
}

#[cfg(feature = "compile")]
impl SessionBuilder<'_> {
    async fn build_program(self) -> Result<Session, Error> {
        let network = self.request.lowered()?;
        let layers = network.classes();
        let mut session = self.session(network.graph).await?;
        session.layers = layers;
        session.keep_initial(network.initial);
        let Request { model, entry, bindings, limits, shared, .. } = self.request;
        shared.map_or(Ok(()), |other| session.share(other))?;
        let (model, device) = (model.clone(), self.on.clone());
        session.origin = Some(Origin { model, device, entry, bindings, limits });
        session.seed_async(0, 0).await?;
        Ok(session)
    }

    /// Builds a session for a graph of the model.
    pub(crate) async fn session(&self, graph: Graph) -> Result<Session, Error> {
        let mut store = Store::within(self.request.limits.map(|limits| limits.bytes));
        let Request { model, precision, .. } = &self.request;
        let (graph, options) = (precision.rounded(graph), precision.with(Options::default()));
        session(graph, self.on, model.sources(), options, &mut store).await
    }
}

#[cfg(feature = "compile")]
impl Session {
    /// Creates a session for a graph that was not made from the text of a program. Inputs and
    /// outputs have the graph's names.
    ///
    /// # Errors
    /// Returns [`Error::Program`] if the device cannot run the graph. Its diagnostics have no
    /// places.
    pub fn of_graph(graph: Graph, device: &Device) -> Result<Session, Error> {
        Session::with_precision(graph, device, Precision::default())
    }

    /// Creates a session like [`Session::of_graph`], with narrower types.
    pub(crate) fn with_precision(
        graph: Graph,
        device: &Device,
        precision: Precision,
    ) -> Result<Session, Error> {
        let mut store = Store::default();
        let (graph, options) = (precision.rounded(graph), precision.with(Options::default()));
        block_on(session(graph, device, &Sources::new("", ""), options, &mut store))
    }
}

/// Builds a session on the device for a graph made from `sources`. It shares the weights of
/// `store`: it owns them from [`Session::attach`] to [`Session::detach`], the store otherwise.
#[cfg(feature = "compile")]
pub(crate) async fn session(
    graph: Graph,
    device: &Device,
    sources: &Sources,
    options: Options,
    store: &mut Store,
) -> Result<Session, Error> {
    device.0.build(graph, sources, options, store).await.map(Session::new)
}

/// The narrower types that a program has instead of f32.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) struct Precision {
    /// The type of the operands of products: see [`SessionBuilder::factors`].
    pub factors: Option<DType>,
    /// The type of tensors in memory: see [`SessionBuilder::storage`].
    pub storage: Option<DType>,
    /// True if weights have 8 bits: see [`SessionBuilder::quantize_weights`].
    pub quantize_weights: bool,
}

#[cfg(feature = "compile")]
impl Precision {
    /// Rounds the operands of the graph's products.
    pub fn rounded(self, mut graph: Graph) -> Graph {
        if let Some(dtype) = narrow_float(self.factors) {
            passes::narrow(&mut graph, dtype);
        }
        graph
    }

    /// Adds the types of tensors and weights in memory to the options of a plan.
    pub fn with(self, options: Options) -> Options {
        let (storage, quantize_weights) = (narrow_float(self.storage), self.quantize_weights);
        Options { storage, quantize_weights, ..options }
    }
}

/// Returns the type if it is a 16-bit float. Others change nothing.
#[cfg(feature = "compile")]
fn narrow_float(dtype: Option<DType>) -> Option<DType> {
    dtype.filter(|dtype| dtype.is_float() && dtype.bits() < 32)
}

/// A type that describes an input: a [`TensorType`], or a shape with f32 elements.
///
/// ```
/// use tile_runtime::{DType, InputType, TensorType};
///
/// assert_eq!([2, 3].tensor_type(), TensorType::new(DType::F32, [2, 3]));
/// ```
pub trait InputType {
    /// Returns the type of the input.
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
