//! [`DeviceInfo`]: the properties of a device that a user chooses by.

use tile_compiler::profile::Profile;

/// A description of a device for users.
///
/// ```
/// use tile_runtime::Device;
///
/// let devices = Device::list();
/// let cpu = devices.iter().find(|device| device.name == "cpu").unwrap();
/// assert_eq!((cpu.backend.as_str(), cpu.kind), ("native", "processor"));
/// assert_eq!(devices.iter().filter(|device| device.default).count(), 1);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The name for [`crate::Device::named`].
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
    /// Whether [`crate::Device::best`] returns this device.
    pub default: bool,
}
