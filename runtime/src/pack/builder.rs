//! [`PackBuilder`]: makes packs.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use tile_compiler::bindings::SEED;
use tile_compiler::dense::Id;
use tile_compiler::dtype::DType;
use tile_compiler::emit::Target;
use tile_compiler::lower::{Layer, Network};
use tile_compiler::pipeline::Options;
use tile_compiler::plan::{Content, Plan, Port};
use tile_compiler::profile::Profile;
use tile_compiler::tensor::{Tensor, TensorType};

use super::container::write;
use super::{Index, PackDevice, PackedLayer, PackedPlan, VERSION, scale_name, weight_name};
use crate::backend::{Ports, plan};
use crate::builder::{Request, SessionBuilder};
use crate::error::Error;
use crate::files::write_whole;
use crate::listing::{PlanFor, listing};
use crate::program::sizes_by_name;
use crate::scaled::quantized;
use crate::scores::Scores;
use crate::session::Session;
use crate::storage::rounded;

/// A target of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PackTarget {
    /// The embedded device, on any processor.
    Cpu,
    /// GPUs. The pack also has the kernels in this language, for other runtimes.
    Gpu(Target),
    /// GPUs of the family that the fixed profile with this name describes, such as `amd-rdna`.
    Family(&'static str),
}

impl PackTarget {
    /// Returns the names that [`PackTarget::parse`] reads.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ["cpu", "wgsl", "msl", "spirv", "hlsl", "glsl", "web"].into_iter().chain(families())
    }

    /// Returns the target with this name. `web` is `wgsl`.
    pub fn parse(name: &str) -> Option<PackTarget> {
        match name {
            "cpu" => Some(PackTarget::Cpu),
            "web" => Some(PackTarget::Gpu(Target::Wgsl)),
            name => Target::parse(name)
                .map(PackTarget::Gpu)
                .or_else(|| families().find(|family| *family == name).map(PackTarget::Family)),
        }
    }
}

/// Returns the names of the fixed profiles of GPUs.
fn families() -> impl Iterator<Item = &'static str> {
    Profile::fixed_names().filter(|name| *name != Profile::cpu().name)
}

/// A tensor of a pack, and its name.
type Part<'a> = (Cow<'a, str>, Cow<'a, Tensor>);

/// The form in which a plan has a weight.
#[derive(Clone, PartialEq)]
enum Form {
    /// Elements of this type.
    Elements(DType),
    /// 8-bit integers with scales of this shape.
    Scaled(Vec<usize>),
}

/// A pack in the making.
///
/// ```
/// # use tile_runtime::pack::{PackBuilder, PackTarget};
/// # use tile_runtime::{Device, Error, Model, Tensor};
/// # fn main() -> Result<(), Error> {
/// let model = Model::compile("function twice(X[N]) -> (Y) { Y = 2 * X; }")?;
/// let device = Device::cpu();
/// let mut pack = PackBuilder::new(&[PackTarget::Cpu]);
/// for size in [1, 8] {
///     pack.add(&model.on(&device).dim("N", size))?;
/// }
/// let model = Model::from_pack(pack.to_bytes()?)?;
/// let mut session = model.on(&device).dim("N", 8).build()?;
/// let x = Tensor::from_f32([8], &[1.0; 8]).unwrap();
/// assert_eq!(session.run([("X", x)])?.remove("Y")?.to_f64s(), [2.0; 8]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PackBuilder {
    targets: Vec<PackTarget>,
    index: Index,
    /// The plans and kernels, by their names in the pack.
    pub(super) parts: BTreeMap<String, Tensor>,
    weights: BTreeMap<String, Tensor>,
    /// The form in which all plans have each weight, or that of the program.
    stored: BTreeMap<String, Form>,
    /// The different constants of all plans.
    constants: Vec<Tensor>,
}

impl PackBuilder {
    /// Starts a pack for these targets.
    pub fn new(targets: &[PackTarget]) -> PackBuilder {
        PackBuilder {
            targets: targets.to_vec(),
            index: Index {
                entry: String::new(),
                layers: Vec::new(),
                plans: Vec::new(),
                channels_last: true,
                scores: Vec::new(),
            },
            parts: BTreeMap::new(),
            weights: BTreeMap::new(),
            stored: BTreeMap::new(),
            constants: Vec::new(),
        }
    }

    /// Adds the program for the sizes of a builder. All builders of a pack must be of one program.
    /// Sizes that the pack has already add nothing.
    ///
    /// # Errors
    /// Returns the errors of [`SessionBuilder::build`], or [`Error::Pack`] if the builder is for
    /// another program than those before, if its weights have other types, or if the pack has
    /// another plan for its sizes, such as with other hyper-parameters.
    pub fn add<On: PlanFor>(&mut self, builder: &SessionBuilder<On>) -> Result<(), Error> {
        let request = &builder.request;
        let network = match &request.model.foreign {
            Some(foreign) => foreign.network_of_shapes(request)?,
            None => request.network()?,
        };
        self.describe(request, &network)?;
        let exact = builder.on.profile()?.0.exact;
        let mut profiles = Vec::new();
        if self.targets.contains(&PackTarget::Cpu) {
            profiles.push(Profile::cpu());
        }
        let families = self.targets.iter().filter_map(|target| match target {
            PackTarget::Cpu => None,
            PackTarget::Gpu(_) => Some("generic"),
            PackTarget::Family(name) => Some(*name),
        });
        // Sorted, with each once.
        let families: BTreeSet<&str> = families.collect();
        profiles.extend(families.into_iter().filter_map(Profile::fixed));
        for profile in profiles {
            let profile = Profile { exact, ..profile };
            let mut graph = request.precision.rounded(network.graph.clone());
            let sources = request.model.sources();
            let options = request.precision.with(Options::default());
            self.add_plan(request, plan(&mut graph, &profile, sources, &options)?)?;
        }
        Ok(())
    }

    /// Keeps the name and the layers of the first network.
    fn describe(&mut self, request: &Request, network: &Network) -> Result<(), Error> {
        let entry = &network.graph.name;
        if self.index.plans.is_empty() {
            self.index.entry.clone_from(entry);
            let packed = |layer: &Layer| PackedLayer {
                path: layer.path.clone(),
                class: layer.class.clone(),
                outputs: layer.outputs.iter().map(|ty| ty.shape.clone()).collect(),
                elements: network.elements(layer),
            };
            self.index.layers = network.layers.iter().map(packed).collect();
            self.index.scores = Scores::of_outputs(request.model, request.entry.as_deref());
            let foreign = &request.model.foreign;
            self.index.channels_last =
                foreign.as_ref().is_none_or(|foreign| foreign.is_channels_last());
        } else if self.index.entry != *entry {
            let what =
                format!("a pack is of one program, and not of {} and {entry}", self.index.entry);
            return Err(Error::Pack { what });
        }
        Ok(())
    }

    fn add_plan(&mut self, request: &Request, plan: Plan) -> Result<(), Error> {
        let number = self.index.plans.len();
        self.note_storage(&plan);
        let Ports { mut inputs, weights, outputs } = Ports::of(&plan);
        inputs.retain(|(name, _)| name != SEED);
        let types = inputs.iter().map(|(name, ty)| (name.as_str(), ty));
        // A foreign model has an empty program.
        let sizes = match request.model.program().entry(request.entry.as_deref()) {
            Ok(function) => sizes_by_name(function, &request.bindings, types),
            Err(_) => request.bindings.sizes.clone(),
        };
        let mut constants = Vec::new();
        for (id, buffer) in plan.buffers.enumerate() {
            if let Content::Constant(tensor) = &buffer.content {
                constants.push((id.number(), self.constant(tensor)));
            }
        }
        let packed = PackedPlan {
            device: PackDevice::of(plan.profile.execution),
            family: plan.profile.family.clone(),
            sizes,
            inputs,
            outputs,
            weights,
            constants,
            memory: plan.memory(),
        };
        if let Some(first) = self.index.plans.first().filter(|plan| plan.weights != packed.weights)
        {
            let is_other = |(one, other): &(_, _)| one != other;
            let mut pairs = first.weights.iter().zip(&packed.weights);
            let what =
                pairs.find(is_other).map_or("their number".into(), |((path, ty), (_, other))| {
                    format!("`{path}` is {ty} and {other}")
                });
            let what = format!("the weights of a pack must not depend on its sizes: {what}");
            return Err(Error::Pack { what });
        }
        let json = serde_json::to_vec(&plan).map_err(|error| Error::internal(error.to_string()))?;
        let is_for_same = |known: &PackedPlan| {
            (&known.family, &known.sizes, &known.inputs)
                == (&packed.family, &packed.sizes, &packed.inputs)
        };
        if let Some(same) = self.index.plans.iter().position(is_for_same) {
            let name = format!("/plans/{same}");
            let is_equal = self.index.plans[same] == packed
                && self.parts.get(&name).is_some_and(|part| part.bytes() == json);
            let what = format!("the pack has another plan for {}", packed.described());
            return if is_equal { Ok(()) } else { Err(Error::Pack { what }) };
        }
        self.part(format!("/plans/{number}"), json);
        self.index.plans.push(packed);
        for target in self.targets.clone() {
            if let (PackTarget::Gpu(target), PackDevice::Gpu) =
                (target, PackDevice::of(plan.profile.execution))
            {
                for kernel in listing(&plan, target)? {
                    let name = format!("/kernels/{number}/{}/{}", target.name(), kernel.name);
                    self.part(name, kernel.bytes);
                }
            }
        }
        Ok(())
    }

    /// Notes the types in which the plan has the weights.
    fn note_storage(&mut self, plan: &Plan) {
        for parts in Port::tensors(&plan.weights) {
            let (path, ty) = parts[0].tensor();
            let own = match Port::values_and_scales(parts) {
                (_, Some(scales)) => Form::Scaled(scales.ty.shape.clone()),
                (values, None) => Form::Elements(values[0].ty.dtype),
            };
            let stored = self.stored.entry(path.to_owned()).or_insert_with(|| own.clone());
            if *stored != own {
                *stored = Form::Elements(ty.dtype);
            }
        }
    }

    /// Returns a weight in the form that the pack has, by the names of its parts.
    fn stored<'a>(&self, path: &'a str, weight: &'a Tensor) -> Option<Vec<Part<'a>>> {
        let tensor = |dtype: DType, shape: &[usize], bytes: Vec<u8>| {
            Tensor::from_bytes(TensorType::new(dtype, shape), bytes).map(Cow::Owned)
        };
        let (name, shape) = (weight_name(path), weight.shape());
        match self.stored.get(path) {
            Some(Form::Elements(dtype)) if *dtype != weight.dtype() => {
                let bytes = rounded(weight, *dtype)?.into_owned();
                Some(vec![(name, tensor(*dtype, shape, bytes)?)])
            }
            Some(Form::Scaled(of_scales)) => {
                let (values, scales) = quantized(weight.bytes(), shape, of_scales)?;
                let values = tensor(DType::I8, shape, values)?;
                Some(vec![
                    (name, values),
                    (scale_name(path), tensor(DType::F32, of_scales, scales)?),
                ])
            }
            _ => Some(vec![(name, Cow::Borrowed(weight))]),
        }
    }

    pub(super) fn part(&mut self, name: String, bytes: Vec<u8>) {
        let ty = TensorType::new(tile_compiler::dtype::DType::U8, [bytes.len()]);
        self.parts.extend(Tensor::from_bytes(ty, bytes).map(|tensor| (name, tensor)));
    }

    /// Returns the number of a constant, which is in the pack once.
    fn constant(&mut self, tensor: &Tensor) -> usize {
        let known = self.constants.iter().position(|constant| constant == tensor);
        known.unwrap_or_else(|| {
            self.constants.push(tensor.clone());
            self.constants.len() - 1
        })
    }

    /// Adds the weights of a session that have values. Without them, each session of the pack must
    /// be given the weights.
    ///
    /// # Errors
    /// Returns the errors of the session's device.
    pub fn add_weights(&mut self, session: &Session) -> Result<(), Error> {
        for (path, _) in session.weights() {
            match session.get(path) {
                Ok(tensor) => _ = self.weights.insert(path.to_owned(), tensor),
                Err(Error::MissingWeight { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the paths and types of the program's weights that the pack does not have.
    pub fn missing_weights(&self) -> impl Iterator<Item = &(String, TensorType)> {
        let weights = self.index.plans.first().into_iter().flat_map(|plan| &plan.weights);
        weights.filter(|(path, _)| !self.weights.contains_key(path))
    }

    /// Returns the pack.
    ///
    /// # Errors
    /// Returns [`Error::Pack`] for a pack without plans.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        if self.index.plans.is_empty() {
            return Err(Error::Pack { what: "a pack without plans cannot run".into() });
        }
        let no_memory = || Error::internal("a weight cannot be converted");
        let mut weights = Vec::with_capacity(self.weights.len());
        for (path, weight) in &self.weights {
            let stored = self.stored(path, weight).ok_or_else(no_memory)?;
            weights.extend(stored);
        }
        let weights = weights.iter().map(|(name, weight)| (name.clone(), &**weight));
        let parts = self.parts.iter().map(|(name, part)| (Cow::from(name), part));
        let constants = self.constants.iter().enumerate();
        let constants =
            constants.map(|(number, constant)| (format!("/constants/{number}").into(), constant));
        let all: BTreeMap<Cow<str>, &Tensor> = parts.chain(constants).chain(weights).collect();
        let internal = |error: serde_json::Error| Error::internal(error.to_string());
        let index = serde_json::to_string(&self.index).map_err(internal)?;
        let metadata = [
            ("format", "tilepack"),
            ("version", VERSION),
            ("made_by", concat!("tile-runtime ", env!("CARGO_PKG_VERSION"))),
            ("index", &index),
        ];
        write(&metadata, &all).map_err(internal)
    }

    /// Writes the pack to a file, which appears whole or not at all. Returns its size in bytes.
    ///
    /// # Errors
    /// Returns the errors of [`PackBuilder::to_bytes`], or [`Error::Write`].
    pub fn write(&self, path: impl AsRef<Path>) -> Result<u64, Error> {
        let (path, bytes) = (path.as_ref(), self.to_bytes()?);
        write_whole(path, |file| file.write_all(&bytes))
            .map_err(|source| Error::Write { path: path.to_owned(), source })?;
        Ok(bytes.len() as u64)
    }
}
