//! Adapters: which GPUs there are, what they can do, and opening one.

use tile_compiler::dtype::DType;
use tile_compiler::profile::{Execution, MatrixUnit, Profile, Rates};
use wgpu::{
    Adapter, AdapterInfo, Backend, Backends, CooperativeMatrixProperties, CooperativeScalarType, DeviceDescriptor,
    DeviceType, ExperimentalFeatures, Features, Instance, InstanceDescriptor, InstanceFlags, Limits,
};

use super::gpu::Gpu;
use crate::device::DeviceInfo;
use crate::error::Error;

/// The features that kernels make use of where they are there, by the name that users see.
const FEATURES: [(Features, &str); 6] = [
    (Features::SHADER_F16, "f16"),
    (Features::SHADER_INT64, "int64"),
    (Features::SUBGROUP, "subgroup"),
    (Features::EXPERIMENTAL_COOPERATIVE_MATRIX, "matrices"),
    (Features::TIMESTAMP_QUERY, "timestamp"),
    (Features::PIPELINE_CACHE, "pipeline-cache"),
];

/// Every adapter, in the order that numbers them.
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

/// How much an adapter is to be preferred to others; `None` for one that is no real GPU and must be asked for by number.
fn rank(device_type: DeviceType) -> Option<u32> {
    match device_type {
        DeviceType::DiscreteGpu => Some(3),
        DeviceType::IntegratedGpu => Some(2),
        DeviceType::VirtualGpu | DeviceType::Other => Some(1),
        DeviceType::Cpu => None,
    }
}

/// The number of the best real GPU: the first of the most preferred type.
fn best(adapters: &[Adapter]) -> Option<usize> {
    let ranked = adapters.iter().enumerate().filter_map(|(n, a)| Some((rank(a.get_info().device_type)?, n)));
    ranked.max_by_key(|&(rank, n)| (rank, std::cmp::Reverse(n))).map(|(_, n)| n)
}

/// What there is, for users to choose from; `default` marks the best real GPU.
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

/// Opens the adapter of this number, or the best real GPU, with all its limits.
pub async fn open(number: Option<usize>) -> Result<Gpu, Error> {
    let adapters = adapters().await;
    let Some(chosen) = number.or_else(|| best(&adapters)) else {
        let reason = match adapters.len() {
            0 => "no adapter was found".into(),
            n => format!("none of the {n} adapters is a real GPU; name one, such as `wgpu:0`, to use it all the same"),
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
        // SAFETY: of these features kernels use matrices alone, as `Kernel` says: whole subgroups, aligned lines within
        // their array.
        experimental_features: unsafe { ExperimentalFeatures::enabled() },
        ..DeviceDescriptor::default()
    };
    match adapter.request_device(&descriptor).await {
        Ok((device, queue)) => Ok(Gpu::own(name, device, queue, profile_of(adapter).matrices)),
        Err(error) => Err(Error::Device { device: name, doing: "to open".into(), source: Box::new(error) }),
    }
}

/// What the compiler is to know about a device with all of an adapter's limits and features.
fn profile_of(adapter: &Adapter) -> Profile {
    let info = adapter.get_info();
    let matrices = matrix_units(&info, &adapter.cooperative_matrix_properties());
    Profile { matrices, ..profile(&info, &adapter.limits(), adapter.features()) }
}

/// The products of matrices that kernels know: square, with sums in f32, where all subgroups have one size.
fn matrix_units(info: &AdapterInfo, all: &[CooperativeMatrixProperties]) -> Vec<MatrixUnit> {
    let subgroup = match info.backend {
        // What Metal does not say, Apple's manuals do.
        Backend::Metal => 32,
        _ if info.subgroup_min_size == info.subgroup_max_size => info.subgroup_min_size,
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
        (is_known && of.cr_type == CooperativeScalarType::F32 && !of.saturating_accumulation).then_some(unit)
    };
    all.iter().filter_map(unit).collect()
}

/// What the compiler is to know about a device of these limits and features, which multiplies no matrices.
pub fn profile(info: &AdapterInfo, limits: &Limits, features: Features) -> Profile {
    Profile {
        name: info.name.clone(),
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
        subgroups: features.contains(Features::SUBGROUP),
        matrices: Vec::new(),
        rates: rates(info.device_type),
    }
}

/// What devices of a kind reach, about: no adapter says it of itself.
fn rates(device_type: DeviceType) -> Rates {
    match device_type {
        DeviceType::DiscreteGpu | DeviceType::VirtualGpu => {
            Rates { cores: 64, flops: 2e13, memory: 7e11, cache: 3e12, cache_bytes: 3e7, ..Rates::GPU }
        }
        DeviceType::IntegratedGpu => Rates { cores: 12, flops: 3e12, memory: 1e11, cache: 5e11, ..Rates::GPU },
        DeviceType::Cpu | DeviceType::Other => Rates::GPU,
    }
}

/// The names of those features that kernels make use of.
fn feature_names(features: Features) -> Vec<&'static str> {
    FEATURES.iter().filter(|(feature, _)| features.contains(*feature)).map(|&(_, name)| name).collect()
}

/// Bytes of the largest memory of the device's own, where the driver says.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "windows"))]
fn memory(adapter: &Adapter) -> Option<u64> {
    /// `VK_MEMORY_HEAP_DEVICE_LOCAL_BIT`
    const DEVICE_LOCAL: u32 = 1;
    // SAFETY: the adapter's handles are only read, while it lives.
    let properties = unsafe {
        let hal = adapter.as_hal::<wgpu::hal::api::Vulkan>()?;
        hal.shared_instance().raw_instance().get_physical_device_memory_properties(hal.raw_physical_device())
    };
    let heaps = properties.memory_heaps.iter().take(properties.memory_heap_count as usize);
    heaps.filter(|heap| heap.flags.as_raw() & DEVICE_LOCAL != 0).map(|heap| heap.size).max()
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "windows")))]
fn memory(_: &Adapter) -> Option<u64> {
    None
}
