//! The fixed profiles of families of GPUs, for listings made on other machines, and as what is
//! known of a device besides its limits. Each has the features and limits that all drivers of the
//! family offer, and the rates of one usual card.
//!
//! Sources:
//! - limits: the reports of drivers at vulkan.gpuinfo.org; 32 KiB of workgroup memory is the limit
//!   of Direct3D 12
//! - compute units, clocks, bandwidths: the product pages of amd.com, nvidia.com and intel.com
//! - caches, registers, subgroups: as listed with each family
//! - issue slots of a turn on AMD: counted in what AMD's compiler makes of products, by
//!   `benches/amd.py`

use super::{Core, MatrixUnit, Profile, Rates};
use crate::dtype::DType;

/// Limits of the drivers of desktop GPUs.
fn desktop(name: &str, rates: Rates) -> Profile {
    Profile {
        name: name.into(),
        family: name.into(),
        max_invocations: 1024,
        max_workgroup: [1024, 1024, 64],
        max_shared_bytes: 32768,
        max_buffers: 16,
        max_binding_bytes: 1 << 30,
        max_buffer_bytes: 1 << 30,
        f16: true,
        subgroups: true,
        rates,
        ..Profile::generic()
    }
}

impl Profile {
    /// Returns the profile of every Apple GPU since the M1: f16, and matrices of 8 rows. It is for
    /// listings made on other machines.
    pub fn apple() -> Profile {
        let unit = |factors| MatrixUnit { size: 8, factors, subgroup: 32 };
        Profile {
            name: "apple".into(),
            family: "apple".into(),
            max_invocations: 1024,
            max_workgroup: [1024; 3],
            max_shared_bytes: 32768,
            // 31, of which wgpu takes two for sizes and vertices.
            max_buffers: 29,
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

    /// Returns the profile of AMD's GPUs of the GCN architecture, with the rates of the RX 570: 32
    /// compute units at 1.244 GHz.
    ///
    /// AMD's "GCN3 Instruction Set Architecture": 4 SIMDs of 16 lanes for subgroups of 64, each
    /// with 10 subgroups at most and 64 KiB of registers, and 64 KiB of workgroup memory, of which
    /// 32 banks of 4 bytes are read each clock. L2 cache: 2 MiB, 64 bytes a clock from each of 16
    /// channels. The first GPUs of the family have no f16.
    pub fn amd_gcn() -> Profile {
        let rates = Rates {
            cores: 32,
            flops: 5.1e12,
            memory: 2.24e11,
            cache: 1.2e12,
            cache_bytes: 2e6,
            core: Core {
                subgroup: 64,
                units: 4,
                invocations: 2560,
                // 128 leave two subgroups for each SIMD. The estimate of a kernel's registers has
                // addresses that are in scalar registers.
                most_registers: 136,
                shared_rate: 1.0,
                broadcasts: false,
                turn_slots: 24.0,
                ..Core::GPU
            },
            ..Rates::GPU
        };
        Profile { f16: false, ..desktop("amd-gcn", rates) }
    }

    /// Returns the profile of AMD's GPUs of the RDNA and RDNA 2 architectures, with the rates of
    /// the RX 5700 XT: 40 compute units at 1.905 GHz.
    ///
    /// AMD's "RDNA Architecture" white paper: 2 SIMDs of 32 lanes, each with 128 KiB of registers
    /// and 20 subgroups of 32 at most, of which a subgroup of 64 takes two; 64 KiB of workgroup
    /// memory for each compute unit, 128 bytes a clock; 4 MiB of L2 cache, 64 bytes a clock from
    /// each of 16 channels.
    pub fn amd_rdna() -> Profile {
        let rates = Rates {
            cores: 40,
            flops: 9.75e12,
            memory: 4.48e11,
            cache: 1.9e12,
            core: Core {
                subgroup: 64,
                units: 2,
                invocations: 1280,
                shared_rate: 1.0,
                broadcasts: false,
                turn_slots: 24.0,
                ..Core::GPU
            },
            ..Rates::GPU
        };
        desktop("amd-rdna", rates)
    }

    /// Returns the profile of AMD's GPUs of the RDNA 3 architecture and later ones, with the rates
    /// of the RX 7900 XTX: 96 compute units at 2.5 GHz.
    ///
    /// AMD's "RDNA3 Instruction Set Architecture": as RDNA, with two operations at once for a lane,
    /// half as many registers again in large GPUs, and 16 subgroups of 32 for each SIMD. Chips and
    /// Cheese, "Microbenchmarking AMD's RDNA 3": 6 MiB of L2 cache, about 5.5 TB/s.
    ///
    /// It multiplies matrices of 16 rows of f16 at twice the rate of f32. Drivers have subgroups of
    /// 64 unless they are asked for others.
    pub fn amd_rdna3() -> Profile {
        let rates = Rates {
            cores: 96,
            flops: 6.1e13,
            matrix_gain: 2.0,
            memory: 9.6e11,
            cache: 5e12,
            cache_bytes: 6e6,
            core: Core {
                subgroup: 32,
                units: 2,
                invocations: 1024,
                registers: 98304,
                shared_rate: 0.5,
                broadcasts: false,
                turn_slots: 24.0,
                ..Core::GPU
            },
            ..Rates::GPU
        };
        let matrices = vec![MatrixUnit { size: 16, factors: DType::F16, subgroup: 64 }];
        Profile { matrices, ..desktop("amd-rdna3", rates) }
    }

    /// Returns the profile of Intel's GPUs of the Xe architecture, with the rates of Iris Xe with
    /// 96 execution units at 1.35 GHz, and LPDDR4X-4266.
    ///
    /// Intel's "oneAPI GPU Optimization Guide", Xe-LP: a dual subslice has 16 execution units of 8
    /// lanes, each with 7 threads of 128 registers of 32 bytes, and 128 KiB of workgroup memory,
    /// 128 bytes a clock. The compiler selects subgroups of 8, 16 or 32. An invocation has all
    /// registers of its lane in subgroups of 8.
    pub fn intel_xe() -> Profile {
        let rates = Rates {
            cores: 6,
            flops: 2.07e12,
            memory: 6.8e10,
            cache: 5e11,
            cache_bytes: 3.8e6,
            core: Core {
                subgroup: 16,
                units: 16,
                invocations: 1792,
                registers: 114_688,
                most_registers: 128,
                shared_bytes: 131_072,
                ..Core::GPU
            },
            ..Rates::GPU
        };
        desktop("intel-xe", rates)
    }

    /// Returns the profile of NVIDIA's GPUs since Turing, with the rates of the RTX 3060: 28
    /// multiprocessors at 1.78 GHz.
    ///
    /// NVIDIA's "CUDA C++ Programming Guide", compute capability 8.6: subgroups of 32, 1,536
    /// invocations, 65,536 registers, at most 255 of them for one invocation, and 100 KiB of
    /// workgroup memory for each multiprocessor; its 4 schedulers each issue for one subgroup.
    /// NVIDIA's "Ampere GA102 GPU Architecture": 128 bytes of workgroup memory a clock; 3 MiB of L2
    /// cache, 1,536 bytes a clock.
    pub fn nvidia() -> Profile {
        let rates = Rates {
            cores: 28,
            flops: 1.27e13,
            memory: 3.6e11,
            cache: 2e12,
            cache_bytes: 3e6,
            core: Core {
                subgroup: 32,
                units: 4,
                invocations: 1536,
                most_registers: 255,
                shared_bytes: 102_400,
                ..Core::GPU
            },
            ..Rates::GPU
        };
        let matrices = vec![MatrixUnit { size: 16, factors: DType::F16, subgroup: 32 }];
        Profile { matrices, ..desktop("nvidia", rates) }
    }

    /// Returns the profile of the GPUs of phones, Qualcomm's Adreno since the 600 series and Arm's
    /// Mali of the Valhall architecture, with the rates of the Mali-G710 with 10 cores at 0.85 GHz,
    /// and LPDDR5X.
    ///
    /// Arm's "Mali GPU OpenCL Developer Guide", Bifrost and Valhall: 64 registers of an invocation,
    /// half as many invocations with more than 32 of them. Qualcomm's "Snapdragon OpenCL General
    /// Programming and Optimization Guide": subgroups of 64 or 128, 32 KiB of workgroup memory.
    /// Mali has workgroup memory in its cache, of which a core reads 64 bytes a clock.
    pub fn mobile() -> Profile {
        let rates = Rates {
            cores: 10,
            flops: 2.2e12,
            memory: 6e10,
            cache: 3e11,
            cache_bytes: 1e6,
            launch: 2e-5,
            core: Core {
                subgroup: 64,
                units: 1,
                invocations: 2048,
                most_registers: 64,
                shared_bytes: 32768,
                shared_rate: 0.25,
                ..Core::GPU
            },
            ..Rates::GPU
        };
        Profile {
            name: "mobile".into(),
            family: "mobile".into(),
            max_invocations: 512,
            max_workgroup: [512, 512, 64],
            max_shared_bytes: 32768,
            max_buffers: 16,
            f16: true,
            rates,
            ..Profile::generic()
        }
    }
}
