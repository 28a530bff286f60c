//! The kernels of a model as text, for snapshot tests and for apps with a runtime of their own.

use std::sync::Arc;

use tile_compiler::emit::{EmitError, Target, write};
use tile_compiler::kernel::{Access, Kernel};
use tile_compiler::pipeline::Options;
use tile_compiler::plan::Plan;
use tile_compiler::profile::Profile;
use tile_compiler::schedule::Tuned;

use crate::builder::{Request, SessionBuilder};
use crate::device::Device;
use crate::error::Error;
use crate::model::Model;

/// A kernel in a shading language.
///
/// ```
/// use tile_runtime::{Model, Target};
///
/// let model = Model::compile("function double(X[N]) -> (Y) { Y = 2 * X; }")?;
/// let kernels = model.on_target("generic").dim("N", 1000).listing(Target::Wgsl)?;
/// let [kernel] = &kernels[..] else { panic!("expected one kernel") };
/// let [x, y] = &kernel.bindings[..] else { panic!("expected two buffers") };
/// assert_eq!((x.is_written, x.bytes), (false, 4000));
/// assert!(y.is_written && kernel.source.contains(&y.name));
/// assert!(kernel.source.contains("@compute"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelListing {
    /// The name of the kernel and of its entry point: letters, digits and `_`.
    pub name: String,
    /// The text, for SPIR-V disassembled.
    pub source: String,
    /// The content of a file: the text, or the words of a SPIR-V module in little-endian order.
    pub bytes: Vec<u8>,
    /// The number of invocations in a workgroup along x, y, z.
    pub workgroup: [u32; 3],
    /// The number of workgroups along x, y, z.
    pub grid: [u32; 3],
    /// The buffers, by binding number.
    pub bindings: Vec<KernelBinding>,
    /// The names of the step numbers that each launch passes. Each is a uniform u32, at the binding
    /// numbers after the buffers.
    pub steps: Vec<String>,
}

/// A buffer that a kernel binds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelBinding {
    /// The name of the variable in the source.
    pub name: String,
    /// Whether the kernel writes the buffer.
    pub is_written: bool,
    /// The number of bytes.
    pub bytes: u64,
}

/// Returns the listings of a plan's kernels, in the order of the plan's routines.
///
/// # Errors
/// Returns [`Error::Emit`] if the plan is for a processor, which has no kernels, or if the language
/// lacks a type that a kernel uses.
///
/// ```
/// use tile_runtime::{Model, Target, listing};
///
/// let model = Model::compile("function double(X[N]) -> (Y) { Y = 2 * X; }")?;
/// let plan = model.on_target("generic").dim("N", 8).plan()?;
/// assert_eq!(listing(&plan, Target::Msl)?.len(), 1);
/// assert!(listing(&model.on_target("cpu").dim("N", 8).plan()?, Target::Msl).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn listing(plan: &Plan, target: Target) -> Result<Vec<KernelListing>, Error> {
    if let Some(routine) = plan.routines.iter().find(|routine| routine.native.is_some()) {
        return Err(Error::Emit(EmitError {
            kernel: routine.name.clone(),
            message: format!("a plan for a processor has no kernels in {}", target.name()),
        }));
    }
    let kernels = plan.routines.iter().filter_map(|routine| routine.kernel.as_ref());
    kernels.map(|kernel| KernelListing::new(kernel, target).map_err(Error::Emit)).collect()
}

impl KernelListing {
    fn new(kernel: &Kernel, target: Target) -> Result<KernelListing, EmitError> {
        let listing = write(kernel, target)?;
        let bindings = kernel.buffers.iter().map(|buffer| KernelBinding {
            name: buffer.name.clone(),
            is_written: buffer.access != Access::Read,
            bytes: (buffer.length * usize::from(buffer.ty.lanes) * buffer.ty.dtype.size()) as u64,
        });
        Ok(KernelListing {
            name: kernel.name.clone(),
            source: listing.text(),
            bytes: listing.bytes(),
            workgroup: kernel.workgroup,
            grid: kernel.grid,
            bindings: bindings.collect(),
            steps: kernel.steps.clone(),
        })
    }
}

/// The name of a target that is the same on all machines: see [`Model::on_target`].
///
/// ```
/// use tile_runtime::Model;
///
/// let model = Model::compile("function double(X[N]) -> (Y) { Y = 2 * X; }")?;
/// assert_eq!(model.on_target("apple").dim("N", 8).plan()?.profile.name, "apple");
/// assert!(model.on_target("abacus").dim("N", 8).plan().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FixedTarget(String);

/// A device or a fixed target, for which a program is planned.
pub trait PlanFor {
    /// Returns the profile, and the schedules that were tuned for it.
    fn profile(&self) -> Result<(Profile, Arc<Tuned>), Error>;
}

impl PlanFor for &Device {
    fn profile(&self) -> Result<(Profile, Arc<Tuned>), Error> {
        Ok((Device::profile(self), self.tuned()))
    }
}

impl PlanFor for FixedTarget {
    fn profile(&self) -> Result<(Profile, Arc<Tuned>), Error> {
        let profile = Profile::fixed(&self.0).ok_or_else(|| Error::NoDevice {
            name: self.0.clone(),
            reason: format!(
                "the fixed targets are {}",
                Profile::fixed_names().collect::<Vec<_>>().join(", ")
            ),
        })?;
        Ok((profile, Arc::default()))
    }
}

impl Model {
    /// Starts to list the model's kernels for a fixed target: `generic`, the features of every
    /// browser and every adapter; a family of GPUs, `apple`, `amd-gcn`, `amd-rdna`, `amd-rdna3`,
    /// `intel-xe`, `nvidia` or `mobile`; or `cpu`. The listings are the same on all machines, so
    /// that tests can compare them with snapshots.
    ///
    /// ```
    /// # use tile_runtime::{Error, Model, Target};
    /// # fn main() -> Result<(), Error> {
    /// let model = Model::compile("function scale(X[N], Y[N]) -> (Z) { Z = X * Y; }")?;
    /// for kernel in model.on_target("generic").dim("N", 8).listing(Target::Msl)? {
    ///     // In a test: insta::assert_snapshot!(kernel.name, kernel.source);
    ///     assert!(kernel.source.contains(&kernel.name));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_target(&self, name: impl Into<String>) -> SessionBuilder<'_, FixedTarget> {
        SessionBuilder { request: Request::new(self), on: FixedTarget(name.into()) }
    }
}

impl<On: PlanFor> SessionBuilder<'_, On> {
    /// Returns the plan that [`SessionBuilder::build`] would run. [`Plan::explain`] tells the
    /// decisions behind it.
    ///
    /// # Errors
    /// Returns the errors of the program, or [`Error::NoDevice`] for an unknown fixed target.
    pub fn plan(&self) -> Result<Plan, Error> {
        let (profile, tuned) = self.on.profile()?;
        self.request.plan(&profile, Options { tuned, ..Options::default() })
    }

    /// Returns the kernels of the plan in a shading language.
    ///
    /// # Errors
    /// Returns the errors of [`SessionBuilder::plan`] and of [`listing`].
    pub fn listing(&self, target: Target) -> Result<Vec<KernelListing>, Error> {
        listing(&self.plan()?, target)
    }
}
