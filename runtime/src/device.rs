//! [`Device`]: where programs run, by name.

use std::sync::Arc;

use tile_compiler::profile::Profile;

use crate::error::Error;
#[cfg(feature = "wgpu")]
use crate::wgpu::{self, Gpu};

/// A place where programs run. Cheap to clone; clones are the same device.
///
/// | name | |
/// |---|---|
/// | `cpu` | this processor, without any driver |
/// | `wgpu` | the best real GPU |
/// | `wgpu:N` | adapter number N of [`Device::list`], which may be a software one |
/// | `reference` | the reference interpreter on the program as written: slow, and what the others are held to |
/// | `check` | every GPU kernel, for the generic profile, under the kernel checker: slow, and reports races and the like |
#[derive(Clone)]
pub struct Device(pub(crate) Kind);

#[derive(Clone)]
pub(crate) enum Kind {
    Cpu {
        /// Whether sums of products are computed term by term.
        exact: bool,
    },
    Reference,
    Check(Arc<Profile>),
    #[cfg(feature = "wgpu")]
    Wgpu {
        gpu: Arc<Gpu>,
        /// Whether kernels check their accesses as they run.
        checked: bool,
    },
}

impl Device {
    /// This processor.
    pub fn cpu() -> Device {
        Device(Kind::Cpu { exact: false })
    }

    /// The reference interpreter.
    pub fn reference() -> Device {
        Device(Kind::Reference)
    }

    /// The kernel checker, on the kernels that a device of this (shader) profile would be given.
    pub fn check(profile: Profile) -> Device {
        Device(Kind::Check(Arc::new(profile)))
    }

    /// The same device, but it computes every sum of products term by term. Otherwise `cpu` computes convolutions by windows of 3 × 3 and 5 × 5, where that is faster,
    /// by Winograd's way, of which the rounding is at most about twice as large, and a NaN or an infinity reaches some results beside those that meet it.
    /// The other devices are exact anyway.
    pub fn exact(mut self) -> Device {
        if let Kind::Cpu { exact } = &mut self.0 {
            *exact = true;
        }
        self
    }

    /// The async form of [`Device::best`], for where there is no waiting, as in a browser.
    pub async fn request_best() -> Result<Device, Error> {
        match open(None).await {
            Err(Error::NoDevice { .. }) => Ok(Device::cpu()),
            opened => opened,
        }
    }

    /// The async form of [`Device::named`], for where there is no waiting, as in a browser.
    pub async fn request(name: &str) -> Result<Device, Error> {
        match name {
            "cpu" => Ok(Device::cpu()),
            "reference" => Ok(Device::reference()),
            "check" => Ok(Device::check(Profile::generic())),
            "wgpu" => open(None).await,
            _ => match name.strip_prefix("wgpu:").and_then(|number| number.parse().ok()) {
                Some(number) => open(Some(number)).await,
                None => Err(Error::NoDevice {
                    name: name.into(),
                    reason: "the names are cpu, wgpu, wgpu:N, reference and check".into(),
                }),
            },
        }
    }

    /// The async form of [`Device::list`], for where there is no waiting, as in a browser.
    pub async fn request_list() -> Vec<DeviceInfo> {
        let mut devices = vec![DeviceInfo::cpu()];
        #[cfg(feature = "wgpu")]
        devices.extend(wgpu::list().await);
        devices[0].default = devices.iter().all(|device| !device.default);
        devices
    }

    /// The name by which [`Device::named`] finds it: `cpu`, `wgpu:0`.
    pub fn name(&self) -> &str {
        match &self.0 {
            Kind::Cpu { .. } => "cpu",
            Kind::Reference => "reference",
            Kind::Check(_) => "check",
            #[cfg(feature = "wgpu")]
            Kind::Wgpu { gpu, .. } => &gpu.name,
        }
    }

    /// What a user may want to know although it changes no result, such as that kernels compiled by an earlier process could not
    /// be used.
    pub fn warnings(&self) -> Vec<String> {
        match &self.0 {
            #[cfg(feature = "wgpu")]
            Kind::Wgpu { gpu, .. } => gpu.warnings(),
            _ => Vec::new(),
        }
    }

    /// Whether there are schedules to tune for it, or a sentence why not.
    pub fn tuning(&self) -> Result<(), &'static str> {
        match &self.0 {
            Kind::Cpu { .. } => Err(
                "the cpu device has nothing to tune: how it divides its work follows from the sizes of its caches and registers",
            ),
            Kind::Reference => Err("the reference interpreter has nothing to tune: it runs no kernels"),
            Kind::Check(_) => Err("the kernel checker has nothing to tune: it has no clock for kernels"),
            #[cfg(feature = "wgpu")]
            Kind::Wgpu { .. } => Ok(()),
        }
    }

    /// What the compiler knows of it.
    pub fn profile(&self) -> Profile {
        match &self.0 {
            Kind::Cpu { .. } | Kind::Reference => Profile::cpu(),
            Kind::Check(profile) => (**profile).clone(),
            #[cfg(feature = "wgpu")]
            Kind::Wgpu { gpu, .. } => gpu.profile.clone(),
        }
    }
}

#[cfg(feature = "wgpu")]
async fn open(number: Option<usize>) -> Result<Device, Error> {
    wgpu::open(number).await.map(Device::from_gpu)
}

#[cfg(not(feature = "wgpu"))]
async fn open(number: Option<usize>) -> Result<Device, Error> {
    let name = number.map_or("wgpu".into(), |number| format!("wgpu:{number}"));
    Err(Error::NoDevice { name, reason: "this build is without wgpu".into() })
}

#[cfg(feature = "wgpu")]
impl Device {
    /// A device that an app has already opened, and goes on using.
    pub fn from_wgpu(device: ::wgpu::Device, queue: ::wgpu::Queue) -> Device {
        Device::from_gpu(Gpu::shared("wgpu".into(), device, queue))
    }

    fn from_gpu(gpu: Gpu) -> Device {
        Device(Kind::Wgpu { gpu: Arc::new(gpu), checked: false })
    }

    /// The same device, but its kernels check every access as they run, at a cost in speed. The compiler has proven each
    /// to be within its buffer, so this is for those who doubt that.
    pub fn checked(mut self) -> Device {
        if let Kind::Wgpu { checked, .. } = &mut self.0 {
            *checked = true;
        }
        self
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl Device {
    /// Adapter number `n` of [`Device::list`].
    pub fn wgpu(n: usize) -> Result<Device, Error> {
        pollster::block_on(open(Some(n)))
    }

    /// The best real GPU; where there is none, `cpu`.
    ///
    /// # Errors
    /// When there is a GPU, but it cannot be opened.
    pub fn best() -> Result<Device, Error> {
        pollster::block_on(Device::request_best())
    }

    /// The device of this name: see [`Device`].
    pub fn named(name: &str) -> Result<Device, Error> {
        pollster::block_on(Device::request(name))
    }

    /// The devices of this machine, `cpu` first; exactly one is the default.
    pub fn list() -> Vec<DeviceInfo> {
        pollster::block_on(Device::request_list())
    }
}

/// What users want to know of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceInfo {
    /// As [`Device::named`] takes it.
    pub name: String,
    /// The hardware's name.
    pub adapter: String,
    /// `vulkan`, `metal`, `dx12`, `webgpu` or `native`.
    pub backend: String,
    /// `processor`, `discrete GPU`, `integrated GPU`, `virtual GPU`, `software` or `other`.
    pub kind: &'static str,
    /// Bytes, where the driver says.
    pub memory: Option<u64>,
    /// The types and instructions that kernels make use of, beyond what every device has.
    pub features: Vec<&'static str>,
    /// Its limits, as the compiler sees them.
    pub profile: Profile,
    /// Whether [`Device::best`] gives this one.
    pub default: bool,
}

impl DeviceInfo {
    fn cpu() -> DeviceInfo {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        let model = system("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.into());
        let memory = system("/proc/meminfo", "MemTotal").and_then(|text| text.strip_suffix(" kB")?.parse::<u64>().ok());
        DeviceInfo {
            name: "cpu".into(),
            adapter: format!("{model}, {threads} threads"),
            backend: "native".into(),
            kind: "processor",
            memory: memory.map(|kilobytes| kilobytes * 1024),
            features: vector_features(),
            profile: Profile::cpu(),
            default: false,
        }
    }
}

/// The first value of `key` in one of Linux' tables of `key : value` lines; elsewhere there is none.
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
