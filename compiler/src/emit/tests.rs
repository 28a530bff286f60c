use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::dtype::DType;
use crate::kernel::Expr;
use crate::kernel::arbitrary::{self, Printed};

/// A kernel with a loop, workgroup memory, a vector, an infinite value and a division.
const KERNEL: &str = "\
kernel sums workgroup(4, 1, 1) grid(2, 1, 1) {
    read x: f32x2[40];
    write out: f32[8];
    shared tile: f32[4];
    let place = workgroup.x * 4 + local.x;
    var total = -inf;
    for k in 0..5 {
        let pair = x[place * 5 + k];
        total = fma(pair.x, 2.0, total);
    }
    tile[local.x] = total;
    barrier;
    if local.x // 3 == 0 {
        out[place] = tile[local.x % 2];
    }
}
";

fn listing(target: Target) -> String {
    write(&Kernel::parse(KERNEL).unwrap(), target).unwrap().text()
}

#[test]
fn wgsl() {
    assert_snapshot!(listing(Target::Wgsl), @r"
    @group(0) @binding(0) 
    var<storage> x: array<vec2<f32>, 40>;
    @group(0) @binding(1) 
    var<storage, read_write> out: array<f32, 8>;
    var<workgroup> tile: array<f32, 4>;

    @compute @workgroup_size(4, 1, 1) 
    fn sums(@builtin(workgroup_id) workgroup_id: vec3<u32>, @builtin(local_invocation_id) local_id: vec3<u32>) {
        var total: f32;
        var bits: u32 = 4286578688u;
        var k_counter: u32;

        let place = ((workgroup_id.x * 4u) + local_id.x);
        let _e13 = bits;
        total = bitcast<f32>(_e13);
        k_counter = 0u;
        loop {
            let k = k_counter;
            if (k >= 5u) {
                break;
            }
            let pair = x[((place * 5u) + k)];
            let _e26 = total;
            total = fma(pair.x, 2f, _e26);
            k_counter = (k + 1u);
        }
        let _e30 = total;
        tile[local_id.x] = _e30;
        workgroupBarrier();
        if (i32((local_id.x / 3u)) == 0i) {
            let _e43 = tile[(local_id.x % 2u)];
            out[place] = _e43;
        }
    }
    ");
}

#[test]
fn msl() {
    assert_snapshot!(listing(Target::Msl), @r"
    // language: metal2.4
    #include <metal_stdlib>
    #include <simd/simd.h>

    using metal::uint;

    struct type_2 {
        metal::float2 inner[40];
    };
    struct type_4 {
        float inner[8];
    };
    struct type_5 {
        float inner[4];
    };

    struct sumsInput {
    };
    [[max_total_threads_per_threadgroup(4)]] kernel void sums(
      metal::uint3 workgroup_id [[threadgroup_position_in_grid]]
    , metal::uint3 local_id [[thread_position_in_threadgroup]]
    , device type_2 const& x [[buffer(0)]]
    , device type_4& out [[buffer(1)]]
    , threadgroup type_5& tile
    ) {
        float total = {};
        uint bits = 4286578688u;
        uint k_counter = {};
        uint place = (workgroup_id.x * 4u) + local_id.x;
        uint _e13 = bits;
        total = as_type<float>(_e13);
        k_counter = 0u;
        while(true) {
            uint k = k_counter;
            if (k >= 5u) {
                break;
            }
            metal::float2 pair = x.inner[(place * 5u) + k];
            float _e26 = total;
            total = metal::fma(pair.x, 2.0, _e26);
            k_counter = k + 1u;
        }
        float _e30 = total;
        tile.inner[local_id.x] = _e30;
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        if (static_cast<int>(local_id.x / 3u) == 0) {
            float _e43 = tile.inner[local_id.x % 2u];
            out.inner[place] = _e43;
        }
    }
    ");
}

#[test]
fn spirv() {
    let kernel = "kernel copy workgroup(4, 1, 1) grid(1, 1, 1) {
        read x: f32[4];
        write out: f32[4];
        out[local.x] = x[local.x];
    }";
    let listing = write(&Kernel::parse(kernel).unwrap(), Target::Spirv).unwrap();
    assert_snapshot!(listing.text(), @r#"
    ; SPIR-V 1.3, ids below 33
    OpCapability Shader
    %1 = OpExtInstImport "GLSL.std.450"
    OpMemoryModel 0 1
    OpEntryPoint 5 %20 "copy" %15 %18
    OpExecutionMode %20 LocalSize 4 1 1
    OpName %x "x"
    OpName %out "out"
    OpDecorate %6 ArrayStride 4
    OpDecorate %x NonWritable
    OpDecorate %x DescriptorSet 0
    OpDecorate %x Binding 0
    OpDecorate %9 Block
    OpMemberDecorate %9 0 Offset 0
    OpDecorate %out DescriptorSet 0
    OpDecorate %out Binding 1
    OpDecorate %12 Block
    OpMemberDecorate %12 0 Offset 0
    OpDecorate %15 BuiltIn WorkgroupId
    OpDecorate %18 BuiltIn LocalInvocationId
    %2 = OpTypeVoid
    %4 = OpTypeInt 32 0
    %3 = OpTypeVector %4 3
    %5 = OpTypeFloat 32
    %7 = OpConstant %4 0x00000004
    %6 = OpTypeArray %5 %7
    %9 = OpTypeStruct %6
    %10 = OpTypePointer StorageBuffer %9
    %x = OpVariable %10 StorageBuffer
    %12 = OpTypeStruct %6
    %13 = OpTypePointer StorageBuffer %12
    %out = OpVariable %13 StorageBuffer
    %16 = OpTypePointer Input %3
    %15 = OpVariable %16 Input
    %18 = OpVariable %16 Input
    %21 = OpTypeFunction %2
    %22 = OpTypePointer StorageBuffer %6
    %23 = OpConstant %4 0x00000000
    %28 = OpTypePointer StorageBuffer %5
    %20 = OpFunction %2 0 %21
    %14 = OpLabel
    %17 = OpLoad %3 %15
    %19 = OpLoad %3 %18
    %24 = OpAccessChain %22 %x %23
    %25 = OpAccessChain %22 %out %23
    OpBranch %26
    %26 = OpLabel
    %27 = OpCompositeExtract %4 %19 0
    %29 = OpAccessChain %28 %24 %27
    %30 = OpLoad %5 %29
    %31 = OpCompositeExtract %4 %19 0
    %32 = OpAccessChain %28 %25 %31
    OpStore %32 %30
    OpReturn
    OpFunctionEnd
    "#);
    assert_eq!(listing.bytes()[..4], [0x03, 0x02, 0x23, 0x07]);
}

#[test]
fn hlsl() {
    assert_snapshot!(listing(Target::Hlsl), @r"
    ByteAddressBuffer x : register(t0);
    RWByteAddressBuffer out_ : register(u1);
    groupshared float tile[4];

    uint naga_div(uint lhs, uint rhs) {
        return lhs / (rhs == 0u ? 1u : rhs);
    }

    uint naga_mod(uint lhs, uint rhs) {
        return lhs % (rhs == 0u ? 1u : rhs);
    }

    [numthreads(4, 1, 1)]
    void sums(uint3 workgroup_id : SV_GroupID, uint3 local_id : SV_GroupThreadID)
    {
        float total = (float)0;
        uint bits = 4286578688u;
        uint k_counter = (uint)0;

        uint place = ((workgroup_id.x * 4u) + local_id.x);
        uint _e13 = bits;
        total = asfloat(_e13);
        k_counter = 0u;
        while(true) {
            uint k = k_counter;
            if ((k >= 5u)) {
                break;
            }
            float2 pair = asfloat(x.Load2(((place * 5u) + k)*8));
            float _e26 = total;
            total = mad(pair.x, 2.0, _e26);
            k_counter = (k + 1u);
        }
        float _e30 = total;
        tile[local_id.x] = _e30;
        GroupMemoryBarrierWithGroupSync();
        if ((int(naga_div(local_id.x, 3u)) == int(0))) {
            float _e43 = tile[naga_mod(local_id.x, 2u)];
            out_.Store(place*4, asuint(_e43));
        }
    }
    ");
}

#[test]
fn glsl() {
    assert_snapshot!(listing(Target::Glsl), @r"
    #version 450 core
    #extension GL_ARB_compute_shader : require
    #extension GL_ARB_shader_storage_buffer_object : require
    layout(local_size_x = 4, local_size_y = 1, local_size_z = 1) in;

    layout(std430, binding = 0) readonly buffer type_2_block_0Compute { vec2 _group_0_binding_0_cs[40]; };

    layout(std430, binding = 1) buffer type_4_block_1Compute { float _group_0_binding_1_cs[8]; };

    shared float tile[4];


    void main() {
        uvec3 workgroup_id = gl_WorkGroupID;
        uvec3 local_id = gl_LocalInvocationID;
        float total = 0.0;
        uint bits = 4286578688u;
        uint k_counter = 0u;
        uint place = ((workgroup_id.x * 4u) + local_id.x);
        uint _e13 = bits;
        total = uintBitsToFloat(_e13);
        k_counter = 0u;
        while(true) {
            uint k = k_counter;
            if ((k >= 5u)) {
                break;
            }
            vec2 pair = _group_0_binding_0_cs[((place * 5u) + k)];
            float _e26 = total;
            total = fma(pair.x, 2.0, _e26);
            k_counter = (k + 1u);
        }
        float _e30 = total;
        tile[local_id.x] = _e30;
        memoryBarrierShared();
        barrier();
        if ((int((local_id.x / 3u)) == 0)) {
            float _e43 = tile[(local_id.x % 2u)];
            _group_0_binding_1_cs[place] = _e43;
        }
    }
    ");
}

#[test]
fn f16_is_enabled_wherever_it_is_used() {
    let kernel =
        Kernel::parse(&KERNEL.replace("total = fma(pair.x,", "total = fma(f32(f16(pair.x)),"))
            .unwrap();
    assert!(write(&kernel, Target::Wgsl).unwrap().text().starts_with("enable f16;"));
    assert_snapshot!(write(&kernel, Target::Glsl).unwrap_err(), @"kernel `sums`: glsl has no f16");
}

/// naga's decimals for the greatest f32 exceed it, and browsers reject them.
#[test]
fn the_greatest_floats_are_written_by_their_bits() {
    for (value, bits) in [(f32::MAX, 0x7f7f_ffffu32), (f32::MIN, 0xff7f_ffff)] {
        let mut b = crate::kernel::Builder::new("greatest", [64, 1, 1], [1; 3]);
        let ty = crate::kernel::Type::scalar(DType::F32);
        let (x, out) = (b.read("x", ty, 64), b.write("out", ty, 64));
        b.store(out, Expr::local(0), Expr::load(x, Expr::local(0)).max(value));
        let kernel = b.finish().unwrap();
        let text = write(&kernel, Target::Wgsl).unwrap().text();
        assert!(text.contains(&format!("{bits}u")) && !text.contains("3402823"), "{text}");
    }
}

#[test]
fn what_has_no_listing() {
    let error = |old, new| {
        let kernel = Kernel::parse(&KERNEL.replacen(old, new, 1)).unwrap();
        write(&kernel, Target::Wgsl).unwrap_err().to_string()
    };
    assert_snapshot!(error("x: f32x2[40]", "x: f32x2[400000000]"), @"kernel `sums`: `x` takes 3200000000 bytes; a shader's array has at most 2147483647");
    assert_snapshot!(error("let place", "let wide = 5_i64; let place"), @"kernel `sums`: wgsl has no i64");
    assert_snapshot!(error("barrier;", "if true { barrier; }"), @"kernel `sums`: a barrier that some invocations may not reach");
}

/// Emission time is linear in the number of statements: no statement requires a pass over the
/// kernel.
#[test]
fn long_kernels_are_emitted() {
    let mut b = crate::kernel::Builder::new("long", [64, 1, 1], [1; 3]);
    let ty = crate::kernel::Type::scalar(DType::F32);
    let (x, out) = (b.read("x", ty, 64), b.write("out", ty, 64));
    let total = b.var("total", 0.0);
    for at in 0..4000 {
        let value = b.let_("x_value", Expr::load(x, Expr::local(0) + at % 64));
        b.assign(&total, value.fma(2.0, &total));
    }
    b.store(out, Expr::local(0), &total);
    let kernel = b.finish().unwrap();
    for target in Target::ALL {
        write(&kernel, target).unwrap();
    }
}

proptest! {
    #[test]
    fn every_kernel_has_its_listings(Printed(kernel) in arbitrary::kernel(&[DType::F32, DType::U32])) {
        for target in Target::ALL {
            prop_assert_eq!(write(&kernel, target), write(&kernel.clone(), target));
            prop_assert!(write(&kernel, target).is_ok());
        }
    }

    #[test]
    fn rarer_types_have_their_listings(
        Printed(kernel) in arbitrary::kernel(&[DType::F16, DType::I64, DType::U64, DType::F64])
    ) {
        for target in [Target::Spirv, Target::Hlsl] {
            match write(&kernel, target) {
                Ok(_) => prop_assert!(target == Target::Spirv || kernel.matrices.is_empty()),
                Err(error) => prop_assert!(error.message.starts_with("hlsl has no matrices of "), "{error}"),
            }
        }
    }
}
