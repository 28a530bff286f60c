//! Device profiles: what the scheduler may know about a device. The compiler branches on these, never on a name.

use crate::dtype::DType;

/// Which template family executes the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Execution {
    /// Kernels in a shading language.
    Shader,
    /// The embedded vector interpreter and packed matrix product of the cpu device.
    Native,
}

/// Plain data about a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    pub name: String,
    pub execution: Execution,
    /// Most invocations in a workgroup, in all and along x, y, z.
    pub max_invocations: u32,
    pub max_workgroup: [u32; 3],
    /// Most workgroups along one grid axis.
    pub max_grid: u32,
    /// Bytes of workgroup memory.
    pub max_shared_bytes: u32,
    /// Storage buffers that a kernel may bind.
    pub max_buffers: u32,
    /// Bytes that one binding may span.
    pub max_binding_bytes: u64,
    /// Bytes that one buffer may have.
    pub max_buffer_bytes: u64,
    /// Whether shaders have the type, as storage and in arithmetic.
    pub f16: bool,
    pub int64: bool,
    /// Whether shaders have operations of subgroups.
    pub subgroups: bool,
    /// The products of matrices that subgroups compute together, with sums in f32.
    pub matrices: Vec<MatrixUnit>,
    pub rates: Rates,
}

/// A product of square matrices that all invocations of a subgroup compute together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixUnit {
    /// Rows and columns of each matrix: 8 or 16.
    pub size: u32,
    /// The type of the factors: f16 or f32.
    pub factors: DType,
    /// Invocations of a subgroup, always.
    pub subgroup: u32,
}

/// What schedules are ranked by: no limits, and rough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Processors, each of which runs whole workgroups.
    pub cores: u32,
    /// Operations on f32 a second, of all cores, and how many times as many products of matrices of f16 are.
    pub flops: f64,
    pub matrix_gain: f64,
    /// Bytes a second from memory, and from the cache that the cores share, and how many that holds.
    pub memory: f64,
    pub cache: f64,
    pub cache_bytes: f64,
    /// Seconds that a launch takes at least.
    pub launch: f64,
}

impl Rates {
    /// A GPU of the middle.
    pub const GPU: Rates =
        Rates { cores: 32, flops: 12e12, matrix_gain: 4.0, memory: 4e11, cache: 2e12, cache_bytes: 4e6, launch: 5e-6 };
}

impl Profile {
    /// The most bytes that a buffer of elements of type `storage` may have.
    pub fn most_bytes(&self, storage: DType) -> u64 {
        // Shader indices are i32.
        let addressable = match self.execution {
            Execution::Shader => (i32::MAX as u64).saturating_mul(storage.size() as u64),
            Execution::Native => u64::MAX,
        };
        self.max_buffer_bytes.min(self.max_binding_bytes).min(addressable)
    }

    /// The fixed profile of listings and snapshots: what every browser and every wgpu adapter has. Never changes with
    /// the machine.
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
        }
    }

    /// The fixed profile of what every Apple GPU has since the M1: f16, and matrices of 8 rows. For listings made elsewhere.
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
            rates: Rates { cores: 8, flops: 2.6e12, matrix_gain: 1.5, memory: 6e10, cache: 4e11, ..Rates::GPU },
            ..Profile::generic()
        }
    }

    /// The embedded cpu device.
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
        }
    }

    /// The type in which the device stores elements of `dtype`, or `None` where it has none that is exact.
    ///
    /// Shaders store types narrower than 32 bits widened: integers and bool to i32 or u32, f16 (without shader f16) and
    /// bf16 to f32; arithmetic then wraps or rounds to the narrow type after each operation.
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
