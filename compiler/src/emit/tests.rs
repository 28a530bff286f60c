use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::dtype::DType;
use crate::kernel::Expr;
use crate::kernel::arbitrary::{self, Printed};

/// A kernel with a loop, workgroup memory, a vector, a value that is not finite, and a division.
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
        var k_counter: i32;

        let place = ((i32(workgroup_id.x) * 4i) + i32(local_id.x));
        let _e15 = bits;
        total = bitcast<f32>(_e15);
        k_counter = 0i;
        loop {
            let k = k_counter;
            if (k >= 5i) {
                break;
            }
            let pair = x[((place * 5i) + k)];
            let _e28 = total;
            total = fma(pair.x, 2f, _e28);
            k_counter = (k + 1i);
        }
        let _e32 = total;
        tile[i32(local_id.x)] = _e32;
        workgroupBarrier();
        if (i32((u32(i32(local_id.x)) / 3u)) == 0i) {
            let _e47 = tile[(i32(local_id.x) & 1i)];
            out[place] = _e47;
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
        int k_counter = {};
        int place = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(static_cast<int>(workgroup_id.x)) * as_type<uint>(4))) + as_type<uint>(static_cast<int>(local_id.x)));
        uint _e15 = bits;
        total = as_type<float>(_e15);
        k_counter = 0;
        while(true) {
            int k = k_counter;
            if (k >= 5) {
                break;
            }
            metal::float2 pair = x.inner[as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(place) * as_type<uint>(5))) + as_type<uint>(k))];
            float _e28 = total;
            total = metal::fma(pair.x, 2.0, _e28);
            k_counter = as_type<int>(as_type<uint>(k) + as_type<uint>(1));
        }
        float _e32 = total;
        tile.inner[static_cast<int>(local_id.x)] = _e32;
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        if (static_cast<int>(static_cast<uint>(static_cast<int>(local_id.x)) / 3u) == 0) {
            float _e47 = tile.inner[static_cast<int>(local_id.x) & 1];
            out.inner[place] = _e47;
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
    ; SPIR-V 1.3, ids below 36
    OpCapability Shader
    %1 = OpExtInstImport "GLSL.std.450"
    OpMemoryModel 0 1
    OpEntryPoint 5 %21 "copy" %16 %19
    OpExecutionMode %21 LocalSize 4 1 1
    OpName %x "x"
    OpName %out "out"
    OpDecorate %6 ArrayStride 4
    OpDecorate %x NonWritable
    OpDecorate %x DescriptorSet 0
    OpDecorate %x Binding 0
    OpDecorate %10 Block
    OpMemberDecorate %10 0 Offset 0
    OpDecorate %out DescriptorSet 0
    OpDecorate %out Binding 1
    OpDecorate %13 Block
    OpMemberDecorate %13 0 Offset 0
    OpDecorate %16 BuiltIn WorkgroupId
    OpDecorate %19 BuiltIn LocalInvocationId
    %2 = OpTypeVoid
    %4 = OpTypeInt 32 0
    %3 = OpTypeVector %4 3
    %5 = OpTypeFloat 32
    %7 = OpConstant %4 0x00000004
    %6 = OpTypeArray %5 %7
    %8 = OpTypeInt 32 1
    %10 = OpTypeStruct %6
    %11 = OpTypePointer StorageBuffer %10
    %x = OpVariable %11 StorageBuffer
    %13 = OpTypeStruct %6
    %14 = OpTypePointer StorageBuffer %13
    %out = OpVariable %14 StorageBuffer
    %17 = OpTypePointer Input %3
    %16 = OpVariable %17 Input
    %19 = OpVariable %17 Input
    %22 = OpTypeFunction %2
    %23 = OpTypePointer StorageBuffer %6
    %24 = OpConstant %4 0x00000000
    %30 = OpTypePointer StorageBuffer %5
    %21 = OpFunction %2 0 %22
    %15 = OpLabel
    %18 = OpLoad %3 %16
    %20 = OpLoad %3 %19
    %25 = OpAccessChain %23 %x %24
    %26 = OpAccessChain %23 %out %24
    OpBranch %27
    %27 = OpLabel
    %28 = OpCompositeExtract %4 %20 0
    %29 = OpBitcast %8 %28
    %31 = OpAccessChain %30 %25 %29
    %32 = OpLoad %5 %31
    %33 = OpCompositeExtract %4 %20 0
    %34 = OpBitcast %8 %33
    %35 = OpAccessChain %30 %26 %34
    OpStore %35 %32
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

    [numthreads(4, 1, 1)]
    void sums(uint3 workgroup_id : SV_GroupID, uint3 local_id : SV_GroupThreadID)
    {
        float total = (float)0;
        uint bits = 4286578688u;
        int k_counter = (int)0;

        int place = asint(asuint(asint(asuint(int(workgroup_id.x)) * asuint(int(4)))) + asuint(int(local_id.x)));
        uint _e15 = bits;
        total = asfloat(_e15);
        k_counter = int(0);
        while(true) {
            int k = k_counter;
            if ((k >= int(5))) {
                break;
            }
            float2 pair = asfloat(x.Load2(asint(asuint(asint(asuint(place) * asuint(int(5)))) + asuint(k))*8));
            float _e28 = total;
            total = mad(pair.x, 2.0, _e28);
            k_counter = asint(asuint(k) + asuint(int(1)));
        }
        float _e32 = total;
        tile[int(local_id.x)] = _e32;
        GroupMemoryBarrierWithGroupSync();
        if ((int(naga_div(uint(int(local_id.x)), 3u)) == int(0))) {
            float _e47 = tile[(int(local_id.x) & int(1))];
            out_.Store(place*4, asuint(_e47));
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
        int k_counter = 0;
        int place = ((int(workgroup_id.x) * 4) + int(local_id.x));
        uint _e15 = bits;
        total = uintBitsToFloat(_e15);
        k_counter = 0;
        while(true) {
            int k = k_counter;
            if ((k >= 5)) {
                break;
            }
            vec2 pair = _group_0_binding_0_cs[((place * 5) + k)];
            float _e28 = total;
            total = fma(pair.x, 2.0, _e28);
            k_counter = (k + 1);
        }
        float _e32 = total;
        tile[int(local_id.x)] = _e32;
        memoryBarrierShared();
        barrier();
        if ((int((uint(int(local_id.x)) / 3u)) == 0)) {
            float _e47 = tile[(int(local_id.x) & 1)];
            _group_0_binding_1_cs[place] = _e47;
        }
    }
    ");
}

#[test]
fn f16_is_enabled_wherever_it_is_used() {
    let kernel = Kernel::parse(&KERNEL.replace("total = fma(pair.x,", "total = fma(f32(f16(pair.x)),")).unwrap();
    assert!(write(&kernel, Target::Wgsl).unwrap().text().starts_with("enable f16;"));
    assert_snapshot!(write(&kernel, Target::Glsl).unwrap_err(), @"kernel `sums`: glsl has no f16");
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

/// Thousands of statements take time in proportion: nothing in emission looks at all of a kernel for one statement.
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
            let listing = write(&kernel, target);
            prop_assert!(listing.is_ok(), "{}", listing.unwrap_err());
        }
    }
}
