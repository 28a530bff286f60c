//! [`SessionBuilder`]: the shapes and constants that a [`Session`] is compiled for.

use std::collections::BTreeMap;

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::Graph;
use tile_compiler::lower::{Binding, Bindings, Network, Setting, lower};
use tile_compiler::passes;
use tile_compiler::pipeline::Options;
use tile_compiler::tensor::{Tensor, TensorType};
use tile_lang::{Limits, Sources};

use crate::device::Device;
use crate::error::Error;
use crate::model::Model;
use crate::session::{Origin, Session};
use crate::store::Store;

/// A builder of sessions: the shapes and constants that a program is compiled for.
#[derive(Clone)]
pub struct SessionBuilder<'a> {
    pub(crate) model: &'a Model,
    pub(crate) device: &'a Device,
    pub(crate) entry: Option<String>,
    pub(crate) bindings: Bindings,
    /// The values of inputs of an ONNX file.
    pub(crate) values: BTreeMap<String, Tensor>,
    pub(crate) factors: Option<DType>,
    limits: Option<Limits>,
    shared: Option<&'a Session>,
}

impl Model {
    /// Starts to build a session for a device. Set the inputs' shapes, then call
    /// [`SessionBuilder::build`].
    pub fn on<'a>(&'a self, device: &'a Device) -> SessionBuilder<'a> {
        let (bindings, values) =
            (Bindings { limits: self.limits, ..Bindings::default() }, BTreeMap::new());
        SessionBuilder {
            model: self,
            device,
            entry: None,
            bindings,
            values,
            factors: None,
            limits: None,
            shared: None,
        }
    }
}

impl<'a> SessionBuilder<'a> {
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
        self.bindings.inputs.insert(name.into(), value.into());
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

    /// Takes the weights of another session of the model on the same device, such as one for
    /// another batch size. They share memory until one of them is set again, which changes only the
    /// session where it is set.
    pub fn weights_of(mut self, other: &'a Session) -> Self {
        self.shared = Some(other);
        self
    }

    /// Returns the network for these shapes, which [`SessionBuilder::build`] would compile.
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

    /// Rounds the operands of the graph's products, if this was requested.
    pub(crate) fn rounded(&self, graph: Graph) -> Graph {
        narrow(graph, self.factors)
    }

    /// Compiles the program and allocates its memory on the device.
    pub fn build(self) -> Result<Session, Error> {
        pollster::block_on(self.build_async())
    }

    /// The async form of [`SessionBuilder::build`].
    pub async fn build_async(self) -> Result<Session, Error> {
        if let Some(foreign) = self.model.foreign.clone() {
            return foreign.build(&self);
        }
        let network = self.lowered()?;
        let layers = network.classes();
        let mut session = self.session(network.graph).await?;
        session.layers = layers;
        session.keep_initial(network.initial);
        let SessionBuilder { model, device, entry, bindings, limits, shared, .. } = self;
        shared.map_or(Ok(()), |other| session.share(other))?;
        session.origin =
            Some(Origin { model: model.clone(), device: device.clone(), entry, bindings, limits });
        session.seed_async(0, 0).await?;
        Ok(session)
    }

    /// Builds a session for a graph of the model.
    pub(crate) async fn session(&self, graph: Graph) -> Result<Session, Error> {
        let mut store = Store::within(self.limits.map(|limits| limits.bytes));
        session(
            self.rounded(graph),
            self.device,
            self.model.sources(),
            Options::default(),
            &mut store,
        )
        .await
    }
}

impl Session {
    /// Creates a session for a graph that was not made from the text of a program. Inputs and
    /// outputs have the graph's names.
    ///
    /// # Errors
    /// Returns [`Error::Program`] if the device cannot run the graph. Its diagnostics have no
    /// places.
    pub fn of_graph(graph: Graph, device: &Device) -> Result<Session, Error> {
        let mut store = Store::default();
        pollster::block_on(session(
            graph,
            device,
            &Sources::new("", ""),
            Options::default(),
            &mut store,
        ))
    }
}

/// Builds a session on the device for a graph made from `sources`. It shares the weights of
/// `store`: it owns them from [`Session::attach`] to [`Session::detach`], the store otherwise.
pub(crate) async fn session(
    graph: Graph,
    device: &Device,
    sources: &Sources,
    options: Options,
    store: &mut Store,
) -> Result<Session, Error> {
    device.0.build(graph, sources, options, store).await.map(Session::new)
}

/// Rounds the operands of the graph's contractions to a 16-bit float, if `factors` is one.
pub(crate) fn narrow(mut graph: Graph, factors: Option<DType>) -> Graph {
    if let Some(dtype) = factors.filter(|dtype| dtype.is_float() && dtype.bits() < 32) {
        passes::narrow(&mut graph, dtype);
    }
    graph
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
