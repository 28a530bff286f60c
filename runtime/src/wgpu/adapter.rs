//! Adapters: listing, their capabilities, and opening.

use tile_compiler::dtype::DType;
use tile_compiler::profile::{Execution, MatrixUnit, Processor, Profile, Rates};
use wgpu::{
    Adapter, AdapterInfo, Backend, Backends, CooperativeMatrixProperties, CooperativeScalarType,
    Device, DeviceDescriptor, DeviceType, ExperimentalFeatures, Features, Instance,
    InstanceDescriptor, InstanceFlags, Limits,
};

#[cfg(test)]
mod tests;

use super::confirm::confirm;
use super::gpu::Gpu;
#[cfg(not(target_family = "wasm"))]
use super::rates;
use crate::device_info::DeviceInfo;
use crate::error::Error;

/// The optional features that kernels use, with the names that users see.
const FEATURES: [(Features, &str); 7] = [
    (Features::SHADER_F16, "f16"),
    (Features::SHADER_INT64, "int64"),
    (Features::SHADER_F64, "f64"),
    (Features::SUBGROUP, "subgroup"),
    (Features::EXPERIMENTAL_COOPERATIVE_MATRIX, "matrices"),
    (Features::TIMESTAMP_QUERY, "timestamp"),
    (Features::PIPELINE_CACHE, "pipeline-cache"),
];

/// Returns all adapters. Their positions are their numbers.
async fn adapters() -> Vec<Adapter> {
    if Instance::enabled_backend_features().is_empty() {
        return Vec::new();
    }
    let instance = Instance::new(InstanceDescriptor {
        backends: Backends::PRIMARY,
        flags: InstanceFlags::empty(),
        ..InstanceDescriptor::new_without_display_handle()
    });
    instance.enumerate_adapters(Backends::PRIMARY).await
}

/// Returns the preference of a device type. `None`: not a real GPU, used only on request by number.
fn rank(device_type: DeviceType) -> Option<u32> {
    match device_type {
        DeviceType::DiscreteGpu => Some(3),
        DeviceType::IntegratedGpu => Some(2),
        DeviceType::VirtualGpu | DeviceType::Other => Some(1),
        DeviceType::Cpu => None,
    }
}

/// Returns the number of the best real GPU: the first of the preferred type.
fn best(adapters: &[Adapter]) -> Option<usize> {
    let ranked =
        adapters.iter().enumerate().filter_map(|(n, a)| Some((rank(a.get_info().device_type)?, n)));
    ranked.max_by_key(|&(rank, n)| (rank, std::cmp::Reverse(n))).map(|(_, n)| n)
}

/// Describes all adapters for users. `default` marks the best real GPU.
pub async fn list() -> Vec<DeviceInfo> {
    let adapters = adapters().await;
    let best = best(&adapters);
    let describe = |(n, adapter): (usize, &Adapter)| {
        let info = adapter.get_info();
        DeviceInfo {
            name: format!("wgpu:{n}"),
            backend: info.backend.to_str().into(),
            kind: match info.device_type {
                DeviceType::DiscreteGpu => "discrete GPU",
                DeviceType::IntegratedGpu => "integrated GPU",
                DeviceType::VirtualGpu => "virtual GPU",
                DeviceType::Cpu => "software",
                DeviceType::Other => "other",
            },
            memory: memory(adapter),
            features: feature_names(adapter.features()),
            profile: profile_of(adapter),
            adapter: info.name,
            default: best == Some(n),
        }
    };
    adapters.iter().enumerate().map(describe).collect()
}

/// Opens the adapter with this number, or the best real GPU, with all its limits.
pub async fn open(number: Option<usize>) -> Result<Gpu, Error> {
    let adapters = adapters().await;
    let Some(chosen) = number.or_else(|| best(&adapters)) else {
        let reason = match adapters.len() {
            0 => "no adapter was found".into(),
            n => format!(
                "none of the {n} adapters is a real GPU; name one, such as `wgpu:0`, to use it all the same"
            ),
        };
        return Err(Error::NoDevice { name: "wgpu".into(), reason });
    };
    let name = format!("wgpu:{chosen}");
    let Some(adapter) = adapters.get(chosen) else {
        let reason = format!("{} adapters were found", adapters.len());
        return Err(Error::NoDevice { name, reason });
    };
    let wanted = FEATURES.iter().fold(Features::empty(), |all, &(feature, _)| all | feature);
    let descriptor = DeviceDescriptor {
        required_features: adapter.features() & wanted,
        required_limits: adapter.limits(),
        // SAFETY: among the experimental features, kernels use only cooperative matrices, and as
        // `Kernel` requires: by whole subgroups, with aligned rows inside their array.
        experimental_features: unsafe { ExperimentalFeatures::enabled() },
        ..DeviceDescriptor::default()
    };
    match adapter.request_device(&descriptor).await {
        Ok((device, queue)) => {
            let mut gpu = Gpu::own(name, device, queue, profile_of(adapter).matrices);
            gpu.refuted = confirm(&mut gpu).await;
            #[cfg(not(target_family = "wasm"))]
            rates::apply(&mut gpu, true).await;
            gpu.check_alive()?;
            Ok(gpu)
        }
        Err(error) => {
            Err(Error::Device { device: name, doing: "to open".into(), source: Box::new(error) })
        }
    }
}

/// Returns the profile of a device with all limits and features of an adapter.
fn profile_of(adapter: &Adapter) -> Profile {
    let info = adapter.get_info();
    let matrices = units(&info, &adapter.cooperative_matrix_properties());
    Profile { matrices, ..profile(&info, &adapter.limits(), adapter.features()) }
}

/// Returns the matrix units that kernels support on an app's device.
pub fn matrix_units(adapter: &Adapter, device: &Device) -> Vec<MatrixUnit> {
    match device.features().contains(Features::EXPERIMENTAL_COOPERATIVE_MATRIX) {
        true => units(&adapter.get_info(), &adapter.cooperative_matrix_properties()),
        false => Vec::new(),
    }
}

/// Checks that programs can run on an app's device, and that it is the adapter's.
///
/// # Errors
/// [`Error::NoDevice`] with the reason.
pub fn check_adapter(adapter: &Adapter, device: &Device) -> Result<(), Error> {
    let (info, other) = (adapter.get_info(), device.adapter_info());
    let refused = |reason| Err(Error::NoDevice { name: "wgpu".into(), reason });
    if (&info.name, info.backend, info.device) != (&other.name, other.backend, other.device) {
        return refused(format!("the device is of `{}`, not of `{}`", other.name, info.name));
    }
    let limits = device.limits();
    if limits.max_compute_invocations_per_workgroup == 0
        || limits.max_storage_buffers_per_shader_stage == 0
    {
        return refused("the app has opened it without compute shaders".into());
    }
    Ok(())
}

/// The PCI vendor number of AMD.
const AMD: u32 = 0x1002;

/// Returns the matrix units that kernels support: square, with f32 accumulators, on GPUs whose
/// pipelines have one subgroup size.
fn units(info: &AdapterInfo, all: &[CooperativeMatrixProperties]) -> Vec<MatrixUnit> {
    let subgroup = match info.backend {
        // Metal does not report the subgroup size; Apple documents it. wgpu also claims matrices
        // for the GPUs of AMD and Intel in Macs.
        Backend::Metal if info.name.starts_with("Apple") => 32,
        Backend::Metal => return Vec::new(),
        _ if info.subgroup_min_size == info.subgroup_max_size => info.subgroup_min_size,
        // Without flags that wgpu does not set, a pipeline has the device's own size, which wgpu
        // does not report. It is the larger of two with AMD's drivers; a small product confirms it.
        Backend::Vulkan if info.vendor == AMD => info.subgroup_max_size,
        _ => return Vec::new(),
    };
    let unit = |of: &CooperativeMatrixProperties| {
        let factors = match of.ab_type {
            CooperativeScalarType::F16 => DType::F16,
            CooperativeScalarType::F32 => DType::F32,
            _ => return None,
        };
        let size = of.m_size;
        let is_known = matches!(size, 8 | 16) && of.n_size == size && of.k_size == size;
        let unit = MatrixUnit { size, factors, subgroup };
        (is_known && of.cr_type == CooperativeScalarType::F32 && !of.saturating_accumulation)
            .then_some(unit)
    };
    all.iter().filter_map(unit).collect()
}

/// Returns the profile of a device with these limits and features, without matrix units.
pub fn profile(info: &AdapterInfo, limits: &Limits, features: Features) -> Profile {
    let family = family(info, features);
    Profile {
        name: info.name.clone(),
        family: family.as_ref().map_or("generic".into(), |(family, _)| family.name.clone()),
        execution: Execution::Shader,
        max_invocations: limits.max_compute_invocations_per_workgroup,
        max_workgroup: [
            limits.max_compute_workgroup_size_x,
            limits.max_compute_workgroup_size_y,
            limits.max_compute_workgroup_size_z,
        ],
        max_grid: limits.max_compute_workgroups_per_dimension,
        max_shared_bytes: limits.max_compute_workgroup_storage_size,
        max_buffers: limits.max_storage_buffers_per_shader_stage,
        max_binding_bytes: limits.max_storage_buffer_binding_size,
        max_buffer_bytes: limits.max_buffer_size,
        f16: features.contains(Features::SHADER_F16),
        int64: features.contains(Features::SHADER_INT64),
        f64: features.contains(Features::SHADER_F64),
        subgroups: features.contains(Features::SUBGROUP),
        matrices: Vec::new(),
        exact: false,
        rates: rates(info.device_type, family),
        processor: Processor::USUAL,
    }
}

/// Returns the rates of an adapter, which does not report them: those of its family's usual card,
/// or typical ones of its type where this is another than the card's.
fn rates(device_type: DeviceType, family: Option<(Profile, DeviceType)>) -> Rates {
    let typical = match device_type {
        DeviceType::DiscreteGpu | DeviceType::VirtualGpu => Rates {
            cores: 64,
            flops: 2e13,
            memory: 7e11,
            cache: 3e12,
            cache_bytes: 3e7,
            ..Rates::GPU
        },
        DeviceType::IntegratedGpu => {
            Rates { cores: 12, flops: 3e12, memory: 1e11, cache: 5e11, ..Rates::GPU }
        }
        DeviceType::Cpu | DeviceType::Other => Rates::GPU,
    };
    match family {
        Some((family, usual)) if usual == device_type => family.rates,
        Some((family, _)) => Rates { core: family.rates.core, ..typical },
        None => typical,
    }
}

/// Returns the profile of an adapter's family, with the type of the card whose rates it has.
fn family(info: &AdapterInfo, features: Features) -> Option<(Profile, DeviceType)> {
    /// Numbers of vendors on PCI. Phones have Qualcomm's and Arm's, too.
    const NVIDIA: u32 = 0x10de;
    const INTEL: u32 = 0x8086;
    const QUALCOMM: u32 = 0x5143;
    const ARM: u32 = 0x13b5;

    // A software adapter is of no family, whoever made the processor.
    if matches!(info.device_type, DeviceType::Cpu | DeviceType::Other) {
        return None;
    }
    Some(match info.vendor {
        // GCN has subgroups of 64 only. RDNA 3 was the first with matrix units.
        AMD if info.subgroup_min_size == 64 => (Profile::amd_gcn(), DeviceType::DiscreteGpu),
        AMD if features.contains(Features::EXPERIMENTAL_COOPERATIVE_MATRIX) => {
            (Profile::amd_rdna3(), DeviceType::DiscreteGpu)
        }
        AMD => (Profile::amd_rdna(), DeviceType::DiscreteGpu),
        NVIDIA => (Profile::nvidia(), DeviceType::DiscreteGpu),
        INTEL => (Profile::intel_xe(), DeviceType::IntegratedGpu),
        QUALCOMM | ARM => (Profile::mobile(), DeviceType::IntegratedGpu),
        // Metal reports no vendor.
        _ if info.backend == Backend::Metal && info.name.starts_with("Apple") => {
            (Profile::apple(), DeviceType::IntegratedGpu)
        }
        _ => return None,
    })
}

/// Returns the names of the features that kernels use.
fn feature_names(features: Features) -> Vec<&'static str> {
    FEATURES
        .iter()
        .filter(|(feature, _)| features.contains(*feature))
        .map(|&(_, name)| name)
        .collect()
}

/// Returns the bytes of the largest device-local memory heap, if the driver reports it.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "windows"))]
fn memory(adapter: &Adapter) -> Option<u64> {
    /// `VK_MEMORY_HEAP_DEVICE_LOCAL_BIT`
    const DEVICE_LOCAL: u32 = 1;
    // SAFETY: the adapter's handles are only read, while it lives.
    let properties = unsafe {
        let hal = adapter.as_hal::<wgpu::hal::api::Vulkan>()?;
        hal.shared_instance()
            .raw_instance()
            .get_physical_device_memory_properties(hal.raw_physical_device())
    };
    let heaps = properties.memory_heaps.iter().take(properties.memory_heap_count as usize);
    heaps.filter(|heap| heap.flags.as_raw() & DEVICE_LOCAL != 0).map(|heap| heap.size).max()
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "windows")))]
fn memory(_: &Adapter) -> Option<u64> {
    None
}
