//! [`Check`]: the kernels of a shader profile under the kernel checker.

use std::sync::Arc;

use tile_compiler::plan::{BufferId, Launch, Plan, Step};
use tile_compiler::profile::Profile;

use super::host::{Engine, HostExecutable};
use super::launch;
use crate::backend::{Backend, Executable, Pending, ready};
use crate::error::Error;
use crate::host::{Memory, RunMemory};
use crate::memory;
use crate::store::Store;

/// The kernel checker's memory for each byte of a buffer: the byte itself, and up to two marks of
/// 12 bytes for each element of 4 bytes.
const MARKED: u64 = 8;

/// The kernel checker for the kernels of a device with this profile.
pub struct Check {
    pub profile: Profile,
}

impl Backend for Check {
    fn name(&self) -> &str {
        "check"
    }

    fn adapter(&self) -> String {
        super::describe_cpu().adapter
    }

    fn profile(&self) -> Profile {
        self.profile.clone()
    }

    fn exact(&self) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(Check { profile: Profile { exact: true, ..self.profile.clone() } }))
    }

    fn tuning(&self) -> Result<(), &'static str> {
        Err("the kernel checker has nothing to tune: it has no clock for kernels")
    }

    fn compile<'a>(&'a self, plan: Plan, store: &'a mut Store) -> Pending<'a, Box<dyn Executable>> {
        ready(compile(plan, store))
    }
}

/// Prepares a plan's kernels for the kernel checker.
///
/// # Errors
/// Returns [`Error::OutOfMemory`] if the plan exceeds the store's limit or the available memory.
/// Fails, too, if a kernel cannot be emitted.
fn compile(plan: Plan, store: &Store) -> Result<Box<dyn Executable>, Error> {
    // A launch copies its buffers, with marks of the readers and writers of each element.
    let of_step = |step: &Step| {
        let buffers = step.operands.iter().chain(&step.outputs).map(|&id| plan.buffers[id].bytes());
        buffers.fold(0, u64::saturating_add).saturating_mul(MARKED)
    };
    let launch = plan.all_steps().map(of_step).max().unwrap_or(0);
    memory::require(
        "check",
        memory::of_plan(&plan, &[], store).saturating_add(launch),
        store.limit,
    )?;
    let memory = Memory::new(&plan, "check", &[])?;
    let modules = launch::modules(&plan)?;
    Ok(Box::new(HostExecutable::new(plan, memory, Checker { modules, stale: true })?))
}

struct Checker {
    /// The modules of the plan's kernels.
    modules: launch::Modules,
    /// Whether the prelude must run before the next run.
    stale: bool,
}

impl Engine for Checker {
    fn run(&mut self, plan: &Plan, memory: &mut RunMemory) -> Result<(), Error> {
        let Checker { modules, stale } = self;
        let mut launch = |launch: &Launch| launch::run(plan, modules, launch, memory);
        if *stale {
            plan.prelude_launches(&mut launch)?;
        }
        *stale = false;
        plan.launches(launch)
    }

    fn given(&mut self, _: BufferId, _: Option<&[u8]>) {
        self.stale = true;
    }
}
