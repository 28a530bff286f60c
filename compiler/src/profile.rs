//! Device profiles: the facts about a device that scheduling may use. The compiler branches on
//! these, never on a device's name.

use crate::dtype::DType;

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
    /// True if shaders support subgroup operations.
    pub subgroups: bool,
    /// The matrix products that subgroups can compute, with sums in f32.
    pub matrices: Vec<MatrixUnit>,
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
    /// True if sums of products are computed term by term.
    pub exact: bool,
}

impl Processor {
    /// The most terms and columns, in each group, of a sum of products that is faster without
    /// packing. Each number of a packed left factor is multiplied by every column: here by no more
    /// than a vector or two, in which a packed product would leave lanes empty.
    pub const MOST_NARROW_TERMS: usize = 512;
    /// The most columns of such a sum; see [`Processor::MOST_NARROW_TERMS`].
    pub const MOST_NARROW_COLUMNS: usize = 16;

    /// A usual processor.
    pub const USUAL: Processor = Processor {
        first_cache: 32 << 10,
        second_cache: 512 << 10,
        last_cache: 32 << 20,
        exact: false,
    };
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
    };
}

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

    /// Returns the profile of listings and snapshots: the capabilities of every browser and every
    /// wgpu adapter. It is the same on all machines.
    pub fn generic() -> Profile {
        Profile {
            name: "generic".into(),
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
            subgroups: false,
            matrices: Vec::new(),
            rates: Rates::GPU,
            processor: Processor::USUAL,
        }
    }

    /// Returns the profile of every Apple GPU since the M1: f16, and matrices of 8 rows. It is for
    /// listings made on other machines.
    pub fn apple() -> Profile {
        let unit = |factors| MatrixUnit { size: 8, factors, subgroup: 32 };
        Profile {
            name: "apple".into(),
            max_invocations: 1024,
            max_workgroup: [1024; 3],
            max_shared_bytes: 32768,
            max_buffers: 31,
            max_binding_bytes: 1 << 30,
            max_buffer_bytes: 1 << 30,
            f16: true,
            subgroups: true,
            matrices: vec![unit(DType::F16), unit(DType::F32)],
            rates: Rates {
                cores: 8,
                flops: 2.6e12,
                matrix_gain: 1.5,
                memory: 6e10,
                cache: 4e11,
                ..Rates::GPU
            },
            ..Profile::generic()
        }
    }

    /// Returns the profile of the embedded cpu device.
    pub fn cpu() -> Profile {
        Profile {
            name: "cpu".into(),
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
            subgroups: false,
            matrices: Vec::new(),
            rates: Rates {
                cores: 1,
                flops: 1e11,
                matrix_gain: 1.0,
                memory: 3e10,
                cache: 1e11,
                cache_bytes: 1e6,
                launch: 0.0,
            },
            processor: Processor::USUAL,
        }
    }

    /// The names of the profiles that are the same on all machines.
    pub const FIXED: [&str; 3] = ["generic", "apple", "cpu"];

    /// Returns the profile with this name that is the same on all machines.
    pub fn fixed(name: &str) -> Option<Profile> {
        match name {
            "generic" => Some(Profile::generic()),
            "apple" => Some(Profile::apple()),
            "cpu" => Some(Profile::cpu()),
            _ => None,
        }
    }

    /// Returns the type in which the device stores elements of `dtype`, or `None` if it has no
    /// exact one.
    ///
    /// Shaders store types narrower than 32 bits as wider ones: integers and bool as i32 or u32,
    /// bf16 and (without shader f16) f16 as f32. Arithmetic then wraps or rounds to the narrow type
    /// after each operation.
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
            DType::F64 => None,
        }
    }
}
