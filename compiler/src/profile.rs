//! Device profiles: the facts about a device that scheduling may use. The compiler branches on
//! these, never on a device's name.

mod families;
#[cfg(test)]
mod tests;

use crate::dtype::DType;
use crate::tensor::TensorType;

/// The template family that executes a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub enum Execution {
    /// Kernels in a shading language.
    Shader,
    /// The vector interpreter and packed matrix product of the embedded cpu device.
    Native,
}

/// The properties of a device.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct Profile {
    /// The name of the device.
    pub name: String,
    /// The name of the fixed profile whose kernels the device runs best. It runs those of
    /// `generic`, too, unless it is a processor.
    pub family: String,
    /// The form of code that the device runs.
    pub execution: Execution,
    /// Maximum number of invocations in a workgroup.
    pub max_invocations: u32,
    /// Maximum number of invocations in a workgroup along x, y, z.
    pub max_workgroup: [u32; 3],
    /// Maximum number of workgroups along one grid axis.
    pub max_grid: u32,
    /// Maximum bytes of workgroup memory.
    pub max_shared_bytes: u32,
    /// Maximum number of storage buffers of a kernel.
    pub max_buffers: u32,
    /// Maximum bytes of one binding.
    pub max_binding_bytes: u64,
    /// Maximum bytes of one buffer.
    pub max_buffer_bytes: u64,
    /// True if shaders support f16, in storage and in arithmetic.
    pub f16: bool,
    /// True if shaders support i64 and u64, in storage and in arithmetic.
    pub int64: bool,
    /// True if shaders support f64, in storage and in arithmetic.
    #[cfg_attr(feature = "pack", serde(default))]
    pub f64: bool,
    /// True if shaders support subgroup operations.
    pub subgroups: bool,
    /// The matrix products that subgroups can compute, with sums in f32.
    pub matrices: Vec<MatrixUnit>,
    /// True if sums of products are computed term by term.
    #[cfg_attr(feature = "pack", serde(default))]
    pub exact: bool,
    /// Rates that rank schedules.
    pub rates: Rates,
    /// The properties that decide native programs.
    pub processor: Processor,
}

/// The properties of a processor that decide native programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct Processor {
    /// Bytes of the first-level data cache of one core.
    pub first_cache: usize,
    /// Bytes of the second-level cache of one core.
    pub second_cache: usize,
    /// Bytes of the last-level cache.
    pub last_cache: usize,
}

impl Processor {
    /// The most terms and columns, in each group, of a sum of products that is faster without
    /// packing. Each number of a packed left factor is multiplied by every column: here by no more
    /// than a vector or two, in which a packed product would leave lanes empty.
    pub const MOST_NARROW_TERMS: usize = 512;
    /// The most columns of such a sum; see [`Processor::MOST_NARROW_TERMS`].
    pub const MOST_NARROW_COLUMNS: usize = 16;

    /// A usual processor.
    pub const USUAL: Processor =
        Processor { first_cache: 32 << 10, second_cache: 512 << 10, last_cache: 32 << 20 };
}

/// A product of square matrices that all invocations of a subgroup compute together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct MatrixUnit {
    /// Number of rows and columns of each matrix: 8 or 16.
    pub size: u32,
    /// Type of the factors: f16 or f32.
    pub factors: DType,
    /// Number of invocations of a subgroup, which is fixed.
    pub subgroup: u32,
}

/// Rough rates that rank schedules. They are not limits.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct Rates {
    /// Number of processors, each of which runs whole workgroups.
    pub cores: u32,
    /// f32 operations a second on all cores.
    pub flops: f64,
    /// The factor by which f16 matrix products are faster than f32 operations.
    pub matrix_gain: f64,
    /// Bytes a second from memory.
    pub memory: f64,
    /// Bytes a second from the cache that the cores share.
    pub cache: f64,
    /// The size of that cache in bytes.
    pub cache_bytes: f64,
    /// Minimum seconds of a launch.
    pub launch: f64,
    /// Each of the cores.
    pub core: Core,
}

/// The capacity of a core, which limits how many workgroups it runs at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct Core {
    /// Invocations of a subgroup, which issue together. A subgroup with fewer takes as long.
    pub subgroup: u32,
    /// Units that issue for one subgroup at a time.
    pub units: u32,
    /// Most invocations at a time.
    pub invocations: u32,
    /// 32-bit registers of these invocations.
    pub registers: u32,
    /// The most registers of one invocation that leave enough subgroups to hide latency.
    pub most_registers: u32,
    /// Bytes of workgroup memory.
    pub shared_bytes: u32,
    /// Bytes of workgroup memory that the core reads in the time of one f32 operation.
    pub shared_rate: f64,
    /// True if invocations that read the same word of workgroup memory share the access.
    pub broadcasts: bool,
    /// Issue slots of each turn of a product's loop, besides its operations and staging.
    pub turn_slots: f64,
}

impl Core {
    /// A core like most: AMD's before RDNA have 64 invocations a subgroup, some of Intel's 16.
    pub const GPU: Core = Core {
        subgroup: 32,
        units: 1,
        invocations: 1024,
        registers: 65536,
        most_registers: u32::MAX,
        shared_bytes: 65536,
        shared_rate: 0.5,
        broadcasts: true,
        turn_slots: 0.0,
    };
}

impl Rates {
    /// A mid-range GPU.
    pub const GPU: Rates = Rates {
        cores: 32,
        flops: 12e12,
        matrix_gain: 4.0,
        memory: 4e11,
        cache: 2e12,
        cache_bytes: 4e6,
        launch: 5e-6,
        core: Core::GPU,
    };
}

/// A name with the profile that it stands for.
type Named = (&'static str, fn() -> Profile);

impl Profile {
    /// Returns the maximum bytes of a buffer whose elements have type `storage`.
    pub fn most_bytes(&self, storage: DType) -> u64 {
        // Shader indices are i32.
        let addressable = match self.execution {
            Execution::Shader => (i32::MAX as u64).saturating_mul(storage.size() as u64),
            Execution::Native => u64::MAX,
        };
        self.max_buffer_bytes.min(self.max_binding_bytes).min(addressable)
    }

    /// Returns the bytes that a tensor takes, and the most that a buffer for it can have. 8-bit
    /// integers are in bytes if the tensor `is_preloaded`. `None` if there are no tensors of its
    /// type.
    pub fn bytes(&self, ty: &TensorType, is_preloaded: bool) -> Option<(u64, u64)> {
        let storage = match ty.dtype {
            DType::I8 | DType::U8 if is_preloaded => ty.dtype,
            dtype => self.storage(dtype)?,
        };
        let bytes = (ty.elements() as u64).saturating_mul(storage.size() as u64);
        Some((bytes, self.most_bytes(storage)))
    }

    /// Returns whether a tensor is larger than a buffer can be. `false` if there are no tensors of
    /// its type.
    pub fn is_too_large(&self, ty: &TensorType, is_preloaded: bool) -> bool {
        self.bytes(ty, is_preloaded).is_some_and(|(bytes, most)| bytes > most)
    }

    /// Returns the profile of listings and snapshots: the capabilities of every browser and every
    /// wgpu adapter. It is the same on all machines.
    pub fn generic() -> Profile {
        Profile {
            name: "generic".into(),
            family: "generic".into(),
            execution: Execution::Shader,
            max_invocations: 256,
            max_workgroup: [256, 256, 64],
            max_grid: 65535,
            max_shared_bytes: 16384,
            max_buffers: 8,
            max_binding_bytes: 128 << 20,
            max_buffer_bytes: 256 << 20,
            f16: false,
            int64: false,
            f64: false,
            subgroups: false,
            matrices: Vec::new(),
            exact: false,
            rates: Rates::GPU,
            processor: Processor::USUAL,
        }
    }

    /// Returns the profile of the embedded cpu device.
    pub fn cpu() -> Profile {
        Profile {
            name: "cpu".into(),
            family: "cpu".into(),
            execution: Execution::Native,
            max_invocations: 1,
            max_workgroup: [1; 3],
            max_grid: u32::MAX,
            max_shared_bytes: 0,
            max_buffers: u32::MAX,
            max_binding_bytes: u64::MAX,
            max_buffer_bytes: u64::MAX,
            f16: true,
            int64: true,
            f64: true,
            subgroups: false,
            matrices: Vec::new(),
            exact: false,
            rates: Rates {
                cores: 1,
                flops: 1e11,
                matrix_gain: 1.0,
                memory: 3e10,
                cache: 1e11,
                cache_bytes: 1e6,
                launch: 0.0,
                core: Core::GPU,
            },
            processor: Processor::USUAL,
        }
    }

    /// The profiles that are the same on all machines.
    const FIXED: [Named; 9] = [
        ("generic", Profile::generic),
        ("apple", Profile::apple),
        ("amd-gcn", Profile::amd_gcn),
        ("amd-rdna", Profile::amd_rdna),
        ("amd-rdna3", Profile::amd_rdna3),
        ("intel-xe", Profile::intel_xe),
        ("nvidia", Profile::nvidia),
        ("mobile", Profile::mobile),
        ("cpu", Profile::cpu),
    ];

    /// Returns the names that [`Profile::fixed`] knows.
    pub fn fixed_names() -> impl Iterator<Item = &'static str> {
        Profile::FIXED.iter().map(|&(name, _)| name)
    }

    /// Returns the profile with this name that is the same on all machines.
    pub fn fixed(name: &str) -> Option<Profile> {
        let found = Profile::FIXED.iter().find(|(fixed, _)| *fixed == name);
        found.map(|(_, profile)| profile())
    }

    /// Returns whether the device runs every kernel that is made for `other`.
    pub fn covers(&self, other: &Profile) -> bool {
        let limits = |profile: &Profile| {
            let [x, y, z] = profile.max_workgroup;
            let Profile { max_invocations, max_grid, max_shared_bytes, max_buffers, .. } = *profile;
            [max_invocations, x, y, z, max_grid, max_shared_bytes, max_buffers]
        };
        let bytes = |profile: &Profile| [profile.max_binding_bytes, profile.max_buffer_bytes];
        let features =
            |profile: &Profile| [profile.f16, profile.int64, profile.f64, profile.subgroups];
        self.execution == other.execution
            && limits(self).iter().zip(limits(other)).all(|(&has, needs)| has >= needs)
            && bytes(self).iter().zip(bytes(other)).all(|(&has, needs)| has >= needs)
            && features(self).iter().zip(features(other)).all(|(&has, needs)| has >= needs)
            && other.matrices.iter().all(|unit| self.matrices.contains(unit))
    }

    /// Returns the type in which the device stores elements of `dtype`, or `None` if it has no
    /// exact one.
    ///
    /// Shaders store types narrower than 32 bits as wider ones: integers and bool as i32 or u32,
    /// bf16 and (without shader f16) f16 as f32. Arithmetic then wraps or rounds to the narrow type
    /// after each operation. A plan may have 8-bit weights in bytes nevertheless: see
    /// [`crate::plan::Buffer`].
    pub fn storage(&self, dtype: DType) -> Option<DType> {
        if self.execution == Execution::Native {
            return Some(dtype);
        }
        match dtype {
            DType::I8 | DType::I16 | DType::I32 => Some(DType::I32),
            DType::Bool | DType::U8 | DType::U16 | DType::U32 => Some(DType::U32),
            DType::F16 if self.f16 => Some(DType::F16),
            DType::F16 | DType::BF16 | DType::F32 => Some(DType::F32),
            DType::I64 | DType::U64 => self.int64.then_some(dtype),
            DType::F64 => self.f64.then_some(dtype),
        }
    }
}
