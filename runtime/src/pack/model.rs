//! Packs as models: reading one, and building sessions of it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tile_compiler::bindings::{Binding, Bindings};
use tile_compiler::dense::Id;
use tile_compiler::dtype::DType;
#[cfg(feature = "compile")]
use tile_compiler::lower::Network;
use tile_compiler::plan::{BufferId, Content, Plan};
use tile_compiler::profile::{Execution, Profile};
use tile_compiler::tensor::TensorType;
use tile_lang::listed;

use super::container::Container;
use super::{Index, Pack, PackDevice, PackedPlan, scale_name, weight_name};
use crate::backend::block_on;
use crate::builder::{Precision, Request, SessionBuilder};
use crate::error::Error;
use crate::files::{open_file, read_file};
use crate::model::{Declared, Foreign, Model};
use crate::scaled::widened;
use crate::session::Session;
use crate::storage::to_storage;
use crate::store::Store;
use crate::value::View;

impl Model {
    /// Reads a pack. The inputs, outputs and weights of its sessions have the names of the program
    /// that it was made of.
    ///
    /// # Errors
    /// Returns [`Error::Read`] if the file cannot be read, and [`Error::Pack`] if it is no pack, is
    /// damaged or has another version of the format.
    pub fn open_pack(path: impl AsRef<Path>) -> Result<Model, Error> {
        let path = path.as_ref();
        let failed = |error| Error::read(path, error);
        let (bytes, _) = open_file(path).and_then(|file| read_file(file, None)).map_err(failed)?;
        Model::from_pack(bytes).map_err(|error| match error {
            Error::Pack { what } => Error::Pack { what: format!("{}: {what}", path.display()) },
            error => error,
        })
    }

    /// Reads a pack from memory.
    ///
    /// # Errors
    /// Returns [`Error::Pack`] if it is no pack, is damaged or has another version of the format.
    pub fn from_pack(bytes: impl Into<Vec<u8>>) -> Result<Model, Error> {
        let container = Container::read(bytes.into()).map_err(refused)?;
        let index: Index = serde_json::from_str(container.index())
            .map_err(|error| refused(format!("the index of the pack is not valid: {error}")))?;
        Ok(Model::of_foreign(Pack { container, index }))
    }

    /// Returns the pack if the model is one.
    pub fn pack(&self) -> Option<&Pack> {
        self.foreign()
    }
}

/// Returns the names of the fixed profiles whose plans a device runs, the best first.
fn usable_families(profile: &Profile) -> Vec<&str> {
    let others = match profile.execution {
        Execution::Native => None,
        Execution::Shader => Some("generic"),
    };
    let family = Some(profile.family.as_str());
    let covered = |name: &&str| Profile::fixed(name).is_some_and(|fixed| profile.covers(&fixed));
    family.into_iter().filter(covered).chain(others).collect()
}

fn refused(what: impl Into<String>) -> Error {
    Error::Pack { what: what.into() }
}

impl Pack {
    /// Returns the number of the plan for a session.
    fn choose(&self, request: &Request, profile: &Profile) -> Result<usize, Error> {
        self.check(request)?;
        let device = PackDevice::of(profile.execution);
        let families = usable_families(profile);
        let plans =
            || self.index.plans.iter().filter(|plan| families.contains(&plan.family.as_str()));
        let Some(first) = plans().next() else {
            let (there, target) = match device {
                PackDevice::Cpu => ("GPUs", "cpu"),
                PackDevice::Gpu if self.index.plans.iter().any(|plan| plan.device == device) => {
                    ("other GPUs", "wgsl")
                }
                PackDevice::Gpu => ("processors", "wgsl"),
            };
            let how = format!("build it with `--target {target}` for this device");
            return Err(refused(format!("the pack has plans for {there} only: {how}")));
        };
        let Bindings { inputs, sizes, .. } = &request.bindings;
        for (name, binding) in inputs {
            let known = first.inputs.iter().any(|(input, _)| input == name);
            if !known {
                let names = first.inputs.iter().map(|(name, _)| name.clone()).collect();
                return Err(Error::UnknownInput {
                    name: name.clone(),
                    inputs: names,
                    weights: Vec::new(),
                });
            }
            if !matches!(binding, Binding::Tensor(_)) {
                return Err(refused(format!("`{name}` of a pack is a tensor, not a constant")));
            }
        }
        let fits = |plan: &PackedPlan| {
            let typed = inputs.iter().all(|(name, binding)| {
                plan.inputs.iter().any(|(input, ty)| {
                    input == name && matches!(binding, Binding::Tensor(given) if given == ty)
                })
            });
            typed && plan.has(sizes)
        };
        let chosen = families.iter().find_map(|family| {
            self.index.plans.iter().position(|plan| plan.family == *family && fits(plan))
        });
        chosen.ok_or_else(|| {
            let given = inputs.iter().filter_map(|(name, binding)| match binding {
                Binding::Tensor(ty) => Some(format!("{name} = {ty}")),
                _ => None,
            });
            let given: Vec<String> =
                given.chain(sizes.iter().map(|(name, size)| format!("{name} = {size}"))).collect();
            // The sizes alone would hide that the type of an input does not fit.
            let described = match inputs.is_empty() {
                true => PackedPlan::described,
                false => PackedPlan::types,
            };
            let mut there: Vec<String> = plans().map(described).collect();
            there.dedup();
            let (given, there) = (given.join(", "), there.join("; "));
            refused(format!("the pack has no plan for {given}; it has plans for {there}"))
        })
    }

    /// Rejects what is fixed when a pack is made.
    fn check(&self, request: &Request) -> Result<(), Error> {
        let Request { entry, bindings, values, precision, .. } = request;
        self.check_entry(entry.as_deref())?;
        if let Some(name) = bindings.parameters.keys().next() {
            let what = format!("`{name}` was fixed when the pack was built");
            return Err(refused(format!("{what}: build it with `--set {name}=…`")));
        }
        if bindings.training || *precision != Precision::default() || !values.is_empty() {
            return Err(refused("a pack computes results of fixed shapes and types only"));
        }
        Ok(())
    }

    /// Returns plan number `number`, for a device with this profile.
    fn plan(&self, number: usize, builder: &SessionBuilder) -> Result<Plan, String> {
        let bytes = self.container.bytes(&format!("/plans/{number}")).ok_or("it is missing")?;
        let mut plan: Plan = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        for &(buffer, constant) in &self.index.plans[number].constants {
            let tensor = self.container.tensor(&format!("/constants/{constant}"));
            let (Some(tensor), true) = (tensor, buffer < plan.buffers.len()) else {
                return Err(format!("constant {constant} is missing"));
            };
            let buffer = &mut plan.buffers[BufferId::new(buffer)];
            if !matches!(buffer.content, Content::Constant(_)) || buffer.ty != *tensor.ty() {
                return Err(format!("constant {constant} does not fit"));
            }
            buffer.content = Content::Constant(tensor);
        }
        let is_filled = plan.buffers.iter().all(|buffer| match &buffer.content {
            Content::Constant(tensor) => *tensor.ty() == buffer.ty,
            _ => true,
        });
        if !is_filled {
            return Err("a constant is missing".into());
        }
        let profile = builder.on.profile();
        match profile.execution {
            Execution::Native => plan.make_native(&profile)?,
            Execution::Shader => plan.verify()?,
        }
        Ok(plan)
    }
}

impl PackedPlan {
    /// Returns the sizes, for people, or the types of the inputs if there are no sizes.
    pub fn described(&self) -> String {
        let sizes = self.sizes.iter().map(|(name, size)| format!("{name} = {size}"));
        let sizes: Vec<String> = sizes.collect();
        if sizes.is_empty() { self.types() } else { listed(&sizes) }
    }

    /// Returns the types of the inputs, for people.
    fn types(&self) -> String {
        let inputs = self.inputs.iter().map(|(name, ty)| format!("{name} = {ty}"));
        let inputs: Vec<String> = inputs.collect();
        if inputs.is_empty() { "no inputs".into() } else { listed(&inputs) }
    }

    /// Returns whether the plan has these sizes.
    pub(super) fn has(&self, sizes: &BTreeMap<String, usize>) -> bool {
        sizes.iter().all(|(name, size)| self.sizes.get(name) == Some(size))
    }

    fn input(&self, name: &str) -> Option<&TensorType> {
        self.inputs.iter().find(|(input, _)| input == name).map(|(_, ty)| ty)
    }
}

impl Foreign for Pack {
    fn declared(&self, input: &str, bindings: &Bindings) -> Option<Declared> {
        let is_wanted = |plan: &&PackedPlan| plan.has(&bindings.sizes);
        let mut types =
            self.index.plans.iter().filter(is_wanted).filter_map(|plan| plan.input(input));
        let first = types.next()?;
        let mut sizes: Vec<Option<usize>> = first.shape.iter().copied().map(Some).collect();
        for other in types {
            for (size, other) in sizes.iter_mut().zip(&other.shape) {
                *size = size.filter(|size| size == other);
            }
        }
        Some(Declared { dtype: first.dtype, sizes, channels_last: self.index.channels_last })
    }

    fn is_channels_last(&self) -> bool {
        self.index.channels_last
    }

    #[cfg(feature = "compile")]
    fn network(&self, _: &Request) -> Result<Network, Error> {
        Err(refused("a pack has plans, and no program any more"))
    }

    fn build(self: Arc<Self>, builder: &SessionBuilder) -> Result<Session, Error> {
        if builder.on.name() == "reference" {
            return Err(refused("the reference interpreter runs programs, and a pack has plans"));
        }
        let number = self.choose(&builder.request, &builder.on.profile())?;
        let plan = self
            .plan(number, builder)
            .map_err(|what| refused(format!("plan {number} of the pack is not valid: {what}")))?;
        if builder.on.profile().exact && plan.uses_winograd() {
            let what = "the pack's kernels for GPUs compute convolutions by Winograd's algorithm";
            return Err(refused(format!("{what}: build it with `--exact` for direct sums")));
        }
        let mut store = Store::within(builder.request.limits.map(|limits| limits.bytes));
        let executable = block_on(builder.on.0.load(plan, &mut store))?;
        let mut session = Session::new(executable);
        let layer = |layer: &super::PackedLayer| (layer.path.clone(), layer.class.clone());
        session.layers = self.index.layers.iter().map(layer).collect();
        session.seed(0, 0)?;
        if let Some(other) = builder.request.shared {
            session.share(other)?;
        }
        let missing: Vec<String> =
            session.missing_weights().map(|(path, _)| path.to_owned()).collect();
        for path in missing {
            let Some(weight) = self.container.view(&weight_name(&path)) else { continue };
            let wanted = session.weights().find(|(known, _)| *known == path);
            let dtype = wanted.map_or(weight.ty().dtype, |(_, ty)| ty.dtype);
            // Weights that every plan stores in a narrower type are in that type.
            let ty = TensorType { dtype, ..weight.ty().clone() };
            let scales = self.container.view(&scale_name(&path)).filter(|scales| {
                [weight.ty.dtype, scales.ty.dtype, dtype] == [DType::I8, DType::F32, DType::F32]
            });
            let bytes = match scales {
                Some(scales) => {
                    let shapes = [&weight.ty.shape, &scales.ty.shape];
                    widened(weight.bytes, scales.bytes, shapes[0], shapes[1]).map(Cow::Owned)
                }
                None => to_storage(&weight, dtype),
            };
            let bytes = &bytes.ok_or_else(|| Error::unstorable(weight.ty(), dtype))?;
            session.set(&path, &View { ty: &ty, bytes })?;
        }
        Ok(session)
    }
}
