//! [`Device`]: the devices that run programs, by name.

use std::sync::Arc;

use tile_compiler::profile::Profile;
use tile_compiler::schedule::Tuned;

use crate::backend::{Backend, block_on};
#[cfg(feature = "check")]
use crate::backends::Check;
#[cfg(feature = "compile")]
use crate::backends::Reference;
use crate::backends::{Cpu, describe_cpu};
use crate::cpu::chosen_threads;
use crate::device_info::DeviceInfo;
use crate::error::Error;
#[cfg(feature = "wgpu")]
use crate::wgpu::{self, Gpu, WgpuBackend};

/// A device that runs programs. Clones are cheap, and the same device.
///
/// | name | |
/// |---|---|
/// | `cpu` | this processor, without any driver |
/// | `wgpu` | the best real GPU |
/// | `wgpu:N` | adapter number N of [`Device::list`], which may be a software one |
/// | `reference` | the reference interpreter on the program as written: slow, for comparison |
/// | `check` | GPU kernels for the generic profile under the kernel checker: slow, reports races |
///
/// ```
/// use tile_runtime::Device;
///
/// let device = Device::named("cpu")?;
/// assert_eq!(device.name(), "cpu");
/// assert!(Device::named("abacus").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Device(pub(crate) Arc<dyn Backend>);

impl Device {
    /// Returns this processor. It works with as many threads as this process may run at once, or
    /// with `TILE_THREADS`, an environment variable that is read at the first run; an invalid one
    /// is ignored here, and refused by [`Device::named`]. Results do not depend on the number.
    pub fn cpu() -> Device {
        Device::of(Cpu { exact: false })
    }

    /// Returns the reference interpreter.
    #[cfg(feature = "compile")]
    pub fn reference() -> Device {
        Device::of(Reference)
    }

    /// Returns the kernel checker for the kernels of a device with this shader profile.
    #[cfg(feature = "check")]
    pub fn check(profile: Profile) -> Device {
        Device::of(Check { profile })
    }

    fn of(backend: impl Backend) -> Device {
        Device(Arc::new(backend))
    }

    /// Returns the same device with convolutions by direct sums, and with sums of products in the
    /// type of their factors.
    ///
    /// Otherwise `cpu` and GPUs use Winograd's algorithm for convolutions with 3 × 3 and 5 × 5
    /// windows, where that is faster. Its rounding errors are two to three times as large, and a
    /// NaN or an infinity also reaches some results next to those that depend on it. `cpu` also
    /// computes sums of products of dequantized 8-bit integers in integers, with fewer roundings.
    pub fn exact(self) -> Device {
        self.0.exact().map_or(self, Device)
    }

    /// Returns the same device with kernels that check every access, at a cost in speed, if it is a
    /// GPU. The compiler has proven each access to be inside its buffer, so this is a safeguard
    /// against errors in the compiler.
    pub fn checked(self) -> Device {
        self.0.checked().map_or(self, Device)
    }

    /// Returns the same device that calls `report` while a session is built, if it compiles kernels
    /// for it: with the number of those that are compiled and that of all, at first and after each,
    /// from any thread, possibly out of order. A first session for a GPU may take seconds.
    ///
    /// ```
    /// use tile_runtime::{Device, Model};
    ///
    /// let device = Device::best()?
    ///     .on_compile(|compiled, all| println!("{compiled} of {all} kernels are compiled"));
    /// let model = Model::compile("function double(X[N]) -> (Y) { Y = 2 * X; }")?;
    /// let session = model.on(&device).dim("N", 4).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_compile(self, report: impl Fn(usize, usize) + Send + Sync + 'static) -> Device {
        self.0.reporting(Arc::new(report)).map_or(self, Device)
    }

    /// The async form of [`Device::best`], for platforms that cannot block, such as browsers.
    pub async fn request_best() -> Result<Device, Error> {
        match open(None).await {
            Err(Error::NoDevice { .. }) => chosen_cpu(),
            opened => opened,
        }
    }

    /// The async form of [`Device::named`], for platforms that cannot block, such as browsers.
    pub async fn request(name: &str) -> Result<Device, Error> {
        match name {
            "cpu" => chosen_cpu(),
            #[cfg(feature = "compile")]
            "reference" => Ok(Device::reference()),
            #[cfg(not(feature = "compile"))]
            "reference" => Err(Error::NoDevice {
                name: name.into(),
                reason: "this build is without the compiler".into(),
            }),
            #[cfg(feature = "check")]
            "check" => Ok(Device::check(Profile::generic())),
            #[cfg(not(feature = "check"))]
            "check" => Err(Error::NoDevice {
                name: name.into(),
                reason: "this build is without the kernel checker".into(),
            }),
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
        let mut devices = vec![describe_cpu()];
        #[cfg(feature = "wgpu")]
        devices.extend(wgpu::list().await);
        devices[0].default = devices.iter().all(|device| !device.default);
        devices
    }

    /// Returns the name by which [`Device::named`] finds the device: `cpu`, `wgpu:0`.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Returns the hardware's name: that of the processor for the devices that run on it.
    pub fn adapter(&self) -> String {
        self.0.adapter()
    }

    /// Returns warnings that do not concern results, for example that kernels compiled by an
    /// earlier process could not be used.
    pub fn warnings(&self) -> Vec<String> {
        self.0.warnings()
    }

    /// Returns sentences about the adapter's features that are not used, because a small kernel
    /// with them gave a wrong result.
    pub fn refuted_features(&self) -> Vec<String> {
        self.0.refuted_features()
    }

    /// Returns `Ok` if there are schedules to tune for the device, else a sentence with the reason.
    pub fn tuning(&self) -> Result<(), &'static str> {
        self.0.tuning()
    }

    /// Returns the schedules that were tuned for this device, by this or an earlier process.
    /// Everything built for the device uses them.
    pub fn tuned(&self) -> Arc<Tuned> {
        self.0.tuned()
    }

    /// Returns the profile that the compiler uses.
    pub fn profile(&self) -> Profile {
        self.0.profile()
    }
}

/// Returns the cpu device, with the threads that the user chose.
fn chosen_cpu() -> Result<Device, Error> {
    match chosen_threads() {
        Ok(_) => Ok(Device::cpu()),
        Err(reason) => Err(Error::NoDevice { name: "cpu".into(), reason }),
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
    /// Returns a device that an app has opened on an adapter, and that the app continues to use.
    /// Programs use the limits and features that the app has asked for: ask for those of the
    /// adapter, or at least for [`::wgpu::Limits::default`], for fast kernels.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if the device is not the adapter's or has no compute shaders, and
    /// [`Error::DeviceLost`] if it is lost.
    pub fn from_wgpu(
        adapter: ::wgpu::Adapter,
        device: ::wgpu::Device,
        queue: ::wgpu::Queue,
    ) -> Result<Device, Error> {
        wgpu::check_adapter(&adapter, &device)?;
        let mut gpu = Gpu::shared("wgpu".into(), device, queue);
        gpu.profile.matrices = wgpu::matrix_units(&adapter, &gpu.device);
        gpu.check_alive()?;
        #[cfg(not(target_family = "wasm"))]
        {
            gpu.refuted = block_on(wgpu::confirm(&mut gpu));
            // To measure would take time of the app's device.
            block_on(wgpu::apply_rates(&mut gpu, false));
        }
        gpu.check_alive()?;
        Ok(Device::from_gpu(gpu))
    }

    fn from_gpu(gpu: Gpu) -> Device {
        Device::of(WgpuBackend { gpu: Arc::new(gpu), exact: false, checked: false, report: None })
    }
}

impl Device {
    /// Returns adapter number `n` of [`Device::list`].
    pub fn wgpu(n: usize) -> Result<Device, Error> {
        block_on(open(Some(n)))
    }

    /// Returns the best real GPU, or `cpu` if there is none.
    ///
    /// # Errors
    /// If there is a GPU, but it cannot be opened.
    pub fn best() -> Result<Device, Error> {
        block_on(Device::request_best())
    }

    /// Returns the device with this name: see [`Device`].
    pub fn named(name: &str) -> Result<Device, Error> {
        block_on(Device::request(name))
    }

    /// Returns the devices of this machine, `cpu` first. Exactly one is the default.
    pub fn list() -> Vec<DeviceInfo> {
        block_on(Device::request_list())
    }
}
