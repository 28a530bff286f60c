//! [`Device`]: the devices that run programs, by name.

use std::sync::Arc;

use tile_compiler::profile::Profile;

use crate::error::Error;
#[cfg(feature = "wgpu")]
use crate::wgpu::{self, Gpu};

/// A device that runs programs. Clones are cheap, and the same device.
///
/// | name | |
/// |---|---|
/// | `cpu` | this processor, without any driver |
/// | `wgpu` | the best real GPU |
/// | `wgpu:N` | adapter number N of [`Device::list`], which may be a software one |
/// | `reference` | the reference interpreter on the program as written: slow, for comparison |
/// | `check` | GPU kernels for the generic profile under the kernel checker: slow, reports races |
#[derive(Clone)]
pub struct Device(pub(crate) Kind);

#[derive(Clone)]
pub(crate) enum Kind {
    Cpu {
        /// Whether convolutions are direct sums, without Winograd's algorithm.
        exact: bool,
    },
    Reference,
    Check(Arc<Profile>),
    #[cfg(feature = "wgpu")]
    Wgpu {
        gpu: Arc<Gpu>,
        /// Whether kernels check their accesses.
        checked: bool,
    },
}

impl Device {
    /// Returns this processor.
    pub fn cpu() -> Device {
        Device(Kind::Cpu { exact: false })
    }

    /// Returns the reference interpreter.
    pub fn reference() -> Device {
        Device(Kind::Reference)
    }

    /// Returns the kernel checker for the kernels of a device with this shader profile.
    pub fn check(profile: Profile) -> Device {
        Device(Kind::Check(Arc::new(profile)))
    }

    /// Returns the same device with convolutions by direct sums.
    ///
    /// Otherwise `cpu` uses Winograd's algorithm for convolutions with 3 × 3 and 5 × 5 windows,
    /// where that is faster. Its rounding errors are at most about twice as large, and a NaN or an
    /// infinity also reaches some results next to those that depend on it. The other devices never
    /// use it.
    pub fn exact(mut self) -> Device {
        if let Kind::Cpu { exact } = &mut self.0 {
            *exact = true;
        }
        self
    }

    /// The async form of [`Device::best`], for platforms that cannot block, such as browsers.
    pub async fn request_best() -> Result<Device, Error> {
        match open(None).await {
            Err(Error::NoDevice { .. }) => Ok(Device::cpu()),
            opened => opened,
        }
    }

    /// The async form of [`Device::named`], for platforms that cannot block, such as browsers.
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

    /// The async form of [`Device::list`], for platforms that cannot block, such as browsers.
    pub async fn request_list() -> Vec<DeviceInfo> {
        let mut devices = vec![DeviceInfo::cpu()];
        #[cfg(feature = "wgpu")]
        devices.extend(wgpu::list().await);
        devices[0].default = devices.iter().all(|device| !device.default);
        devices
    }

    /// Returns the name by which [`Device::named`] finds the device: `cpu`, `wgpu:0`.
    pub fn name(&self) -> &str {
        match &self.0 {
            Kind::Cpu { .. } => "cpu",
            Kind::Reference => "reference",
            Kind::Check(_) => "check",
            #[cfg(feature = "wgpu")]
            Kind::Wgpu { gpu, .. } => &gpu.name,
        }
    }

    /// Returns the hardware's name: that of the processor for the devices that run on it.
    pub fn adapter(&self) -> String {
        match &self.0 {
            #[cfg(feature = "wgpu")]
            Kind::Wgpu { gpu, .. } => gpu.adapter(),
            _ => DeviceInfo::cpu().adapter,
        }
    }

    /// Returns warnings that do not concern results, for example that kernels compiled by an
    /// earlier process could not be used.
    pub fn warnings(&self) -> Vec<String> {
        match &self.0 {
            #[cfg(feature = "wgpu")]
            Kind::Wgpu { gpu, .. } => gpu.warnings(),
            _ => Vec::new(),
        }
    }

    /// Returns sentences about the adapter's features that are not used, because a small kernel
    /// with them gave a wrong result.
    pub fn refuted_features(&self) -> Vec<String> {
        match &self.0 {
            #[cfg(feature = "wgpu")]
            Kind::Wgpu { gpu, .. } => gpu.refuted.clone(),
            _ => Vec::new(),
        }
    }

    /// Returns `Ok` if there are schedules to tune for the device, else a sentence with the reason.
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

    /// Returns the profile that the compiler uses.
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
    /// Returns a device that an app has opened, and that the app continues to use.
    pub fn from_wgpu(device: ::wgpu::Device, queue: ::wgpu::Queue) -> Device {
        #[cfg_attr(target_family = "wasm", expect(unused_mut, reason = "there is no waiting for what it computes"))]
        let mut gpu = Gpu::shared("wgpu".into(), device, queue);
        #[cfg(not(target_family = "wasm"))]
        {
            gpu.refuted = pollster::block_on(wgpu::confirm(&mut gpu));
        }
        Device::from_gpu(gpu)
    }

    fn from_gpu(gpu: Gpu) -> Device {
        Device(Kind::Wgpu { gpu: Arc::new(gpu), checked: false })
    }

    /// Returns the same device with kernels that check every access, at a cost in speed. The
    /// compiler has proven each access to be inside its buffer, so this is a safeguard against
    /// errors in the compiler.
    pub fn checked(mut self) -> Device {
        if let Kind::Wgpu { checked, .. } = &mut self.0 {
            *checked = true;
        }
        self
    }
}

impl Device {
    /// Returns adapter number `n` of [`Device::list`].
    pub fn wgpu(n: usize) -> Result<Device, Error> {
        pollster::block_on(open(Some(n)))
    }

    /// Returns the best real GPU, or `cpu` if there is none.
    ///
    /// # Errors
    /// If there is a GPU, but it cannot be opened.
    pub fn best() -> Result<Device, Error> {
        pollster::block_on(Device::request_best())
    }

    /// Returns the device with this name: see [`Device`].
    pub fn named(name: &str) -> Result<Device, Error> {
        pollster::block_on(Device::request(name))
    }

    /// Returns the devices of this machine, `cpu` first. Exactly one is the default.
    pub fn list() -> Vec<DeviceInfo> {
        pollster::block_on(Device::request_list())
    }
}

/// A description of a device for users.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceInfo {
    /// The name for [`Device::named`].
    pub name: String,
    /// The hardware's name.
    pub adapter: String,
    /// `vulkan`, `metal`, `dx12`, `webgpu` or `native`.
    pub backend: String,
    /// `processor`, `discrete GPU`, `integrated GPU`, `virtual GPU`, `software` or `other`.
    pub kind: &'static str,
    /// The memory in bytes, if the driver reports it.
    pub memory: Option<u64>,
    /// The types and instructions that kernels use, beyond those of every device.
    pub features: Vec<&'static str>,
    /// The device's limits, as the compiler sees them.
    pub profile: Profile,
    /// Whether [`Device::best`] returns this device.
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
