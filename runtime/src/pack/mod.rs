//! [`Pack`]: compiled programs with their weights in one file, which runs without the compiler.
//!
//! A pack is a safetensors file, so that any tool for that format lists it and reads its weights,
//! and so that a reader finds each part without reading the others. Its tensors are:
//!
//! | name | content |
//! |---|---|
//! | `dense.Kernel` | the weight at this path, after `//` if the path begins with `/` or `_` |
//! | `/plans/N` | plan number N of the index, as JSON |
//! | `/constants/N` | a constant that plans refer to by this number |
//! | `/kernels/N/LANGUAGE/NAME` | a kernel of plan N in a shading language, for other runtimes |
//!
//! Its metadata are:
//!
//! | key | value |
//! |---|---|
//! | `format` | `tilepack` |
//! | `version` | [`VERSION`]: a reader refuses any other |
//! | `made_by` | the name and version of the software that made the pack |
//! | `index` | the [`Index`] as JSON |
//! | `checksum` | the CRC-32 of the whole file with eight zeros in its own place, as eight digits |
//!
//! A plan for processors has loop nests. They become native programs when a session is built, for
//! the vector unit and the caches of the machine at hand, so that a pack made on one machine is
//! fast on another. A plan for GPUs has kernels for a fixed profile. Every adapter can run those
//! for `generic`; one of a family runs those for its family, if there are any and it has the
//! limits.
//!
//! The checksum finds damage. It is no signature: a pack is a program, and whoever runs one trusts
//! its maker as with any other program.

#[cfg(feature = "build")]
mod builder;
mod container;
mod model;
#[cfg(all(test, feature = "build", feature = "check"))]
mod tests;

pub use crate::scores::Scores;
#[cfg(feature = "build")]
pub use builder::{PackBuilder, PackTarget};

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tile_compiler::profile::Execution;
use tile_compiler::tensor::TensorType;

use container::Container;

use crate::error::Error;

/// The version of the format.
pub const VERSION: &str = "4";

/// A pack in memory.
///
/// ```
/// use tile_runtime::pack::{PackBuilder, PackTarget};
/// use tile_runtime::{Device, Model, Tensor};
///
/// let program = Model::compile("function double(X[N]) -> (Y) { Y = 2 * X; }")?;
/// let device = Device::cpu();
/// let mut builder = PackBuilder::new(&[PackTarget::Cpu]);
/// builder.add(&program.on(&device).dim("N", 2))?;
/// let model = Model::from_pack(builder.to_bytes()?)?;
/// assert_eq!(model.pack().unwrap().inputs().collect::<Vec<_>>(), ["X"]);
///
/// let mut session = model.on(&device).build()?;
/// let x = Tensor::from_f32([2], &[1.0, 2.0]).unwrap();
/// assert_eq!(session.run([("X", x)])?.remove("Y")?.to_f64s(), [2.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Pack {
    container: Container,
    index: Index,
}

/// The contents of a pack.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Index {
    /// The name of the program's entry.
    pub entry: String,
    /// The layers, in the order of their application.
    pub layers: Vec<PackedLayer>,
    /// The plans, each for some sizes and one kind of device.
    pub plans: Vec<PackedPlan>,
    /// The axis of an image's channels is the last one.
    pub channels_last: bool,
    /// The form of each output that has the scores of classes: see `Scores::of_outputs`.
    #[serde(default)]
    pub scores: Vec<Option<Scores>>,
}

/// A layer of a packed program, for people.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PackedLayer {
    /// The unique path of the instance, such as `encoder[3].attention`.
    pub path: String,
    /// The layer's name in the source.
    pub class: String,
    /// The shapes of its outputs in the first plan.
    pub outputs: Vec<Vec<usize>>,
    /// The number of its weights' elements.
    pub elements: usize,
}

/// A plan of a pack: the program, compiled for some sizes and one kind of device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PackedPlan {
    /// The kind of device that runs the plan.
    pub device: PackDevice,
    /// The name of the fixed profile of the plan. GPUs of other families than this run the plan for
    /// `generic`.
    pub family: String,
    /// The sizes by their names in the header.
    pub sizes: BTreeMap<String, usize>,
    /// The inputs in the order of the program's header.
    pub inputs: Vec<(String, TensorType)>,
    /// The outputs in the order of the program's header.
    pub outputs: Vec<(String, TensorType)>,
    /// The weights by path.
    pub weights: Vec<(String, TensorType)>,
    /// The numbers of the buffers with constants, and of the constants.
    pub constants: Vec<(usize, usize)>,
    /// The bytes that a session takes, without packed operands.
    pub memory: u64,
}

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PackDevice {
    /// A processor: the plan has loop nests.
    Cpu,
    /// A GPU: the plan has kernels.
    Gpu,
}

impl PackDevice {
    fn of(execution: Execution) -> PackDevice {
        match execution {
            Execution::Native => PackDevice::Cpu,
            Execution::Shader => PackDevice::Gpu,
        }
    }

    /// Returns the name, `cpu` or `gpu`.
    pub fn name(self) -> &'static str {
        match self {
            PackDevice::Cpu => "cpu",
            PackDevice::Gpu => "gpu",
        }
    }
}

impl Pack {
    /// Returns the contents.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Checks that an entry, if one is named, is that of the pack.
    ///
    /// # Errors
    /// Returns [`Error::Pack`] if it is another.
    pub fn check_entry(&self, entry: Option<&str>) -> Result<(), Error> {
        match entry {
            Some(name) if name != self.index.entry => Err(Error::Pack {
                what: format!("the pack has `{}`, and no `{name}`", self.index.entry),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the names of the inputs.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        let first = self.index.plans.first().into_iter();
        first.flat_map(|plan| plan.inputs.iter().map(|(name, _)| name.as_str()))
    }

    /// Returns the names of the outputs.
    pub fn outputs(&self) -> impl Iterator<Item = &str> {
        let first = self.index.plans.first().into_iter();
        first.flat_map(|plan| plan.outputs.iter().map(|(name, _)| name.as_str()))
    }

    /// Returns the sizes of the first axis of the first input, in plans with these sizes by name:
    /// the numbers of samples that run together, in ascending order.
    pub fn samples(&self, sizes: &BTreeMap<String, usize>) -> Vec<usize> {
        let size = |plan: &PackedPlan| plan.inputs.first()?.1.shape.first().copied();
        let plans = self.index.plans.iter().filter(|plan| plan.has(sizes));
        let mut sizes: Vec<usize> = plans.filter_map(size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Returns the paths and types of the weights in the pack.
    pub fn weights(&self) -> impl Iterator<Item = (&str, TensorType)> {
        self.container.tensors().filter_map(|(name, ty)| match name.strip_prefix("//") {
            Some(path) => Some((path, ty)),
            None => (!name.starts_with('/')).then_some((name, ty)),
        })
    }
}

/// Returns the name of a weight's scales in the file, if it is in 8-bit integers.
fn scale_name(path: &str) -> Cow<'_, str> {
    format!("/scales/{path}").into()
}

/// Returns the name of a weight in the file, which differs from the names of other parts and from
/// that of the metadata.
fn weight_name(path: &str) -> Cow<'_, str> {
    match path.starts_with(['/', '_']) {
        true => format!("//{path}").into(),
        false => path.into(),
    }
}
