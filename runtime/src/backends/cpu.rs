//! [`Cpu`]: this processor, with the nests of `crate::cpu`.

use std::sync::Arc;

use tile_compiler::plan::{BufferId, Plan};
use tile_compiler::profile::Profile;

use super::host::{Engine, HostExecutable};
use crate::backend::{Backend, Executable, Pending, ready};
use crate::cpu::profile::profile;
use crate::cpu::{PreparedSteps, needs, threads};
use crate::device_info::DeviceInfo;
use crate::error::Error;
use crate::host::{Block, Memory, RunMemory};
use crate::memory;
use crate::store::Store;
use crate::trace::Trace;

/// This processor.
pub struct Cpu {
    /// Whether convolutions are direct sums, without Winograd's algorithm, and sums of dequantized
    /// integers are of floats.
    pub exact: bool,
}

impl Backend for Cpu {
    fn name(&self) -> &str {
        "cpu"
    }

    fn adapter(&self) -> String {
        describe().adapter
    }

    fn profile(&self) -> Profile {
        profile(self.exact)
    }

    fn tuning(&self) -> Result<(), &'static str> {
        Err(
            "the cpu device has nothing to tune: how it divides its work follows from the sizes of its caches and registers",
        )
    }

    fn compile<'a>(&'a self, plan: Plan, store: &'a mut Store) -> Pending<'a, Box<dyn Executable>> {
        ready(compile(plan, store))
    }

    fn exact(&self) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(Cpu { exact: true }))
    }
}

/// Compiles a plan.
///
/// # Errors
/// Returns [`Error::OutOfMemory`] if the plan exceeds the store's limit or the available memory.
/// Nothing is allocated then.
fn compile(plan: Plan, store: &Store) -> Result<Box<dyn Executable>, Error> {
    // A buffer that exceeds the memory is reported before anything is allocated.
    let largest = plan.buffers.iter().max_by_key(|buffer| buffer.bytes());
    if let Some(buffer) = largest.filter(|buffer| !Block::fits(buffer.bytes())) {
        let what = format!("{}, {} bytes", buffer.ty, buffer.bytes());
        return Err(Error::OutOfMemory { device: "cpu".into(), what });
    }
    let programs = plan.routines.iter().filter_map(|routine| routine.native.as_deref());
    let tables = programs.map(needs::tables).fold(0, u64::saturating_add);
    memory::require("cpu", memory::of_plan(&plan, &[], store).saturating_add(tables), store.limit)?;
    let steps = PreparedSteps::new(&plan).map_err(Error::internal)?;
    let without = steps.without_memory();
    let beside = steps.bytes().saturating_add(tables);
    memory::require(
        "cpu",
        memory::of_plan(&plan, &without, store).saturating_add(beside),
        store.limit,
    )?;
    let memory = Memory::new(&plan, "cpu", &without)?;
    Ok(Box::new(HostExecutable::new(plan, memory, steps)?))
}

impl Engine for PreparedSteps {
    fn run(&mut self, plan: &Plan, memory: &mut RunMemory) -> Result<(), Error> {
        PreparedSteps::run(self, plan, memory).map_err(Error::internal)
    }

    fn trace(&mut self, plan: &Plan, memory: &mut RunMemory) -> Result<Option<Trace>, Error> {
        let launches = PreparedSteps::trace(self, plan, memory).map_err(Error::internal)?;
        Ok(Some(Trace { launches, handing_over: None }))
    }

    fn given(&mut self, id: BufferId, value: Option<&[u8]>) {
        PreparedSteps::given(self, id, value);
    }

    fn prepare(&mut self, plan: &Plan, memory: &mut RunMemory) -> Result<(), Error> {
        PreparedSteps::run_prelude(self, plan, memory).map_err(Error::internal)
    }

    fn share(&mut self, other: &PreparedSteps) {
        PreparedSteps::share(self, other);
    }

    fn unpacked(&self, id: BufferId) -> Option<Vec<u8>> {
        PreparedSteps::unpacked(self, id)
    }
}

/// Describes this processor for users.
pub fn describe() -> DeviceInfo {
    let threads = threads();
    let model =
        system("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.into());
    let memory = system("/proc/meminfo", "MemTotal")
        .and_then(|text| text.strip_suffix(" kB")?.parse::<u64>().ok());
    DeviceInfo {
        name: "cpu".into(),
        adapter: format!("{model}, {threads} thread{}", if threads == 1 { "" } else { "s" }),
        backend: "native".into(),
        kind: "processor",
        memory: memory.map(|kilobytes| kilobytes * 1024),
        features: vector_features(),
        profile: profile(false),
        default: false,
    }
}

/// Returns the first value of `key` in a Linux table of `key : value` lines. Other systems have
/// none.
fn system(path: &str, key: &str) -> Option<String> {
    let table = std::fs::read_to_string(path).ok()?;
    let line = table.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(target_arch = "x86_64")]
fn vector_features() -> Vec<&'static str> {
    let features = [
        ("avx2", std::is_x86_feature_detected!("avx2")),
        ("fma", std::is_x86_feature_detected!("fma")),
        ("f16c", std::is_x86_feature_detected!("f16c")),
        ("avx512f", std::is_x86_feature_detected!("avx512f")),
    ];
    features.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn vector_features() -> Vec<&'static str> {
    if cfg!(target_arch = "aarch64") { vec!["neon"] } else { Vec::new() }
}
