//! One seeded bug for each kind of fault, and the checker's report.

use super::kernels::{MATMUL, MATRICES, REDUCTION};
use super::*;
use insta::assert_snapshot;

/// Runs a kernel with a fault and returns the report.
fn fault(source: &str, workgroups: u32, buffers: &mut [Vec<u8>], options: &Options) -> String {
    run_wgsl(source, [workgroups, 1, 1], buffers, options).expect_err("a fault").to_string()
}

/// A kernel of 8 invocations.
const KERNEL: &str = "
    @group(0) @binding(0) var<storage, read_write> out: array<i32>;
    @group(0) @binding(1) var<storage, read> x: array<i32>;
    var<workgroup> tile: array<i32, 8>;
    @compute @workgroup_size(8)
    fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32) { BODY }";

/// Runs the body of a kernel of 8 invocations. `out` and `x` are buffers of 16 words, `tile` has
/// 8.
fn body_fault(body: &str) -> String {
    let source = KERNEL.replacen("BODY", body, 1);
    let options =
        Options { undefined: vec![0], loop_limit: 100, subgroup_size: 4, ..Options::default() };
    fault(&source, 2, &mut [vec![0; 64], vec![0; 64]], &options)
}

fn matmul_fault(correct: &str, seeded: &str) -> String {
    let source = MATMUL.replacen(correct, seeded, 1);
    assert_ne!(source, MATMUL);
    let size = bytes_of_u32([16, 16, 20, 0]);
    fault(
        &source,
        1,
        &mut [vec![0; 16 * 20 * 4], vec![0; 16 * 20 * 4], vec![0; 1024], size],
        &Options::default(),
    )
}

#[test]
fn missing_barrier() {
    assert_snapshot!(matmul_fault("workgroupBarrier();", ""), @"
    race: `tile_a[0][0]` is written by invocation (0, 0, 0) and read by invocation (1, 0, 0) with no barrier between, in workgroup (0, 0, 0)
      at line 76: let _e93 = tile_a[local.y][_e91];
    ");
    // The second barrier of the loop, between the last reads of a tile and the writes of the next.
    assert_snapshot!(matmul_fault("}\n            workgroupBarrier();", "}"), @"
    race: `tile_a[0][0]` is read by invocation (1, 0, 0) and written by invocation (0, 0, 0) with no barrier between, in workgroup (0, 0, 0)
      at line 48: tile_a[local.y][local.x] = _e46;
    ");
    let barrier = "workgroupBarrier();\n            if";
    let source = REDUCTION.replace(barrier, "if");
    assert_ne!(source, REDUCTION);
    assert_snapshot!(fault(&source, 1, &mut [vec![0; 256], vec![0; 4]], &Options::default()), @"
    race: `part[32]` is written by invocation (32, 0, 0) and read by invocation (0, 0, 0) with no barrier between, in workgroup (0, 0, 0)
      at line 24: let _e23 = part[(lane + _e20)];
    ");
}

#[test]
fn off_by_one() {
    assert_snapshot!(matmul_fault("k < 16u", "k <= 16u"), @"
    out of bounds: invocation (0, 0, 0) indexes `tile_a[0]`, of length 16, at 16, in workgroup (0, 0, 0)
      at line 77: let _e93 = tile_a[local.y][_e91];
    ");
    assert_snapshot!(matmul_fault("start + local.x < size.z", "start + local.x <= size.z"), @"
    out of bounds: invocation (4, 15, 0) indexes `a`, of length 320, at 320, in workgroup (0, 0, 0)
      at line 44: let _e40 = a[(((id.y * _e33) + _e35) + local.x)];
    ");
    assert_snapshot!(body_fault("out[id.x] = x[i32(id.x) - 1];"), @"
    out of bounds: invocation (0, 0, 0) indexes `x`, of length 16, at -1, in workgroup (0, 0, 0)
      at line 9: let _e11 = x[(i32(id.x) - 1i)];
    ");
}

#[test]
fn uninitialised_reads() {
    assert_snapshot!(body_fault("if lane < 7u { tile[lane] = 1; } workgroupBarrier(); out[id.x] = tile[7u - lane];"), @"
    uninitialised: invocation (0, 0, 0) reads `tile[7]`, which nothing has written, in workgroup (0, 0, 0)
      at line 13: let _e14 = tile[(7u - lane)];
    ");
    assert_snapshot!(body_fault("var part: array<i32, 4>; part[lane % 3u] = 1; out[id.x] = part[0];"), @"
    uninitialised: invocation (1, 0, 0) reads `part[0]`, which nothing has written, in workgroup (0, 0, 0)
      at line 12: let _e11 = part[0];
    ");
    assert_snapshot!(body_fault("out[id.x] += 1;"), @"
    uninitialised: invocation (0, 0, 0) reads `out[0]`, which nothing has written, in workgroup (0, 0, 0)
      at line 9: let _e5 = out[id.x];
    ");
}

#[test]
fn workgroup_memory_may_be_zeroed() {
    let source =
        REDUCTION.replace("part[lane] = x[id.x];", "if lane < 9u { part[lane] = x[id.x]; }");
    let mut buffers = [bytes_of_f32([1.0; 64]), vec![0; 4]];
    let options = Options { zeroed_workgroup_memory: true, ..Options::default() };
    run_wgsl(&source, [1, 1, 1], &mut buffers, &options).unwrap();
    assert_eq!(f32_of(&buffers[1]), [9.0]);
}

#[test]
fn divergence() {
    assert_snapshot!(body_fault("if lane < 4u { workgroupBarrier(); }"), @"
    divergent: workgroupBarrier is reached by 4 of 8 invocations, and not by invocation (4, 0, 0), in workgroup (0, 0, 0)
      at line 10: workgroupBarrier();
    ");
    assert_snapshot!(body_fault("if lane == 2u { return; } storageBarrier();"), @"
    divergent: storageBarrier is reached by 7 of 8 invocations, and not by invocation (2, 0, 0), in workgroup (0, 0, 0)
      at line 12: storageBarrier();
    ");
    assert_snapshot!(body_fault("for (var i = 0u; i < lane; i++) { workgroupBarrier(); }"), @"
    divergent: workgroupBarrier is reached by 7 of 8 invocations, and not by invocation (0, 0, 0), in workgroup (0, 0, 0)
      at line 18: workgroupBarrier();
    ");
    assert_snapshot!(body_fault("if lane % 4u != 1u { out[id.x] = subgroupAdd(1); }"), @"
    divergent: a subgroup operation is reached by 3 of 4 invocations, and not by invocation (1, 0, 0), in workgroup (0, 0, 0)
      at line 10: let _e10 = subgroupAdd(1i);
    ");
    assert_snapshot!(body_fault("tile[lane] = 1; out[id.x] = workgroupUniformLoad(&tile[lane]);"), @"
    not uniform: the operand of workgroupUniformLoad differs in invocation (1, 0, 0), in workgroup (0, 0, 0)
      at line 10: let _e10 = workgroupUniformLoad((&tile[lane]));
    ");
}

#[test]
fn races() {
    // Both write the same value, which is still a race.
    assert_snapshot!(body_fault("tile[lane / 2u] = 1;"), @"
    race: `tile[0]` is written by invocation (0, 0, 0) and written by invocation (1, 0, 0) with no barrier between, in workgroup (0, 0, 0)
      at line 9: tile[(lane / 2u)] = 1i;
    ");
    assert_snapshot!(body_fault("out[lane] = 1;"), @"
    race: `out[0]` is written by workgroup (0, 0, 0) and written by workgroup (1, 0, 0) in one dispatch
      at line 9: out[lane] = 1i;
    ");
    assert_snapshot!(body_fault("out[id.x] = 1; workgroupBarrier(); if lane == 0u { out[id.x + 15u] = out[id.x + 1u]; }"), @"
    race: `out[1]` is written by invocation (1, 0, 0) and read by invocation (0, 0, 0) with no barrier between, in workgroup (0, 0, 0)
      at line 12: let _e18 = out[(id.x + 1u)];
    ");
    assert_snapshot!(body_fault("out[id.x] = 1; storageBarrier(); if id.x == 8u { out[9] = out[7]; }"), @"
    race: `out[7]` is written by workgroup (0, 0, 0) and read by workgroup (1, 0, 0) in one dispatch
      at line 12: let _e13 = out[7];
    ");
}

#[test]
fn arithmetic_and_loops() {
    assert_snapshot!(body_fault("out[id.x] = 7 / x[id.x];"), @"
    division by zero: invocation (0, 0, 0) divides an integer by 0, in workgroup (0, 0, 0)
      at line 10: out[id.x] = (7i / _e8);
    ");
    assert_snapshot!(body_fault("while x[id.x] == 0 { out[id.x] = 1; }"), @"
    endless: a loop is not done after 100 iterations, in workgroup (0, 0, 0)
      at line 9: loop {
    ");
}

#[test]
fn a_fault_in_a_function_is_shown_there() {
    let source = "
        @group(0) @binding(0) var<storage, read_write> out: array<vec4<f32>, 4>;
        fn put(at: u32, value: f32) {
            switch at % 2u {
                case 0u: { out[at].x = value; }
                default: { let next = at + 1u; out[next].y = value; }
            }
        }
        @compute @workgroup_size(4)
        fn main(@builtin(local_invocation_index) lane: u32) { put(lane, 1.0); }";
    assert_snapshot!(fault(source, 1, &mut [vec![0; 64]], &Options::default()), @"
    out of bounds: invocation (3, 0, 0) indexes `out`, of length 4, at 4, in workgroup (0, 0, 0)
      at line 12: out[next].y = value;
    ");
}

#[test]
fn what_cannot_be_run() {
    let copy = "
        @group(0) @binding(1) var<storage, read_write> out: array<f32, 4>;
        @compute @workgroup_size(1) fn main() { let e = frexp(out[0]); out[0] = e.fract; }";
    let run = |buffers: &mut [Vec<u8>]| fault(copy, 1, buffers, &Options::default());
    assert_snapshot!(run(&mut [vec![], vec![0; 16]]), @"
    not supported by the checker: Frexp, in workgroup (0, 0, 0)
      at line 7: let e = frexp(_e2);
    ");
    assert_snapshot!(run(&mut [vec![], vec![0; 12]]), @"invalid: the buffer of `out` has 12 bytes, and needs 16");
    assert_snapshot!(run(&mut []), @"invalid: no buffer at binding 1");
    let mut module = naga::front::wgsl::parse_str(copy).unwrap();
    assert_snapshot!(super::run(&module, "other", [1; 3], &mut [], &Options::default()).unwrap_err(), @"invalid: there is no entry point `other`");
    module.entry_points[0].workgroup_size = [0; 3];
    assert_snapshot!(super::run(&module, "main", [1; 3], &mut [], &Options::default()).unwrap_err(), @"invalid: Entry point main at Compute is invalid: Workgroup size is out of range");
}

#[test]
fn matrices() {
    let seeded = |correct: &str, seeded: &str| {
        let source = MATRICES.replacen(correct, seeded, 1);
        assert_ne!(source, MATRICES);
        fault(&source, 1, &mut [vec![0; 256]], &Options::default())
    };
    let faults = [
        // A subgroup that is not whole, one of which a part arrives, and one that disagrees on the
        // place.
        fault(
            &MATRICES.replace("32u", "48u").replace("(32)", "(48)"),
            1,
            &mut [vec![0; 256]],
            &Options::default(),
        ),
        seeded("coopStoreT(sum, &c[0], 8u);", "if lane < 16u { coopStoreT(sum, &c[0], 8u); }"),
        seeded("coopStoreT(sum, &c[0], 8u);", "coopStoreT(sum, &c[lane / 16u * 8u], 8u);"),
        // Lines that are not aligned, and one that ends beyond the array.
        seeded("(&a[8], 24u)", "(&a[9], 24u)"),
        seeded("(&a[8], 24u)", "(&a[8], 20u)"),
        seeded("(&a[8], 24u)", "(&a[24], 24u)"),
        // Reads of memory that others write, or that was never written.
        seeded("workgroupBarrier();\n        let left", "let left"),
        seeded("i < 192u", "i < 100u"),
    ];
    assert_snapshot!(faults.join("\n"), @"
    invalid: coopLoad by 16 invocations, and subgroups have 32, in workgroup (0, 0, 0)
      at line 53: let left = coopLoad<coop_mat8x8<f16,A>>((&a[8]), 24u);
    divergent: coopStore is reached by 16 of 32 invocations, and not by invocation (16, 0, 0), in workgroup (0, 0, 0)
      at line 58: coopStoreT(sum, (&c[0]), 8u);
    not uniform: the operand of the place of a matrix differs in invocation (16, 0, 0), in workgroup (0, 0, 0)
      at line 57: coopStoreT(sum, (&c[((lane / 16u) * 8u)]), 8u);
    invalid: a matrix at a[9], in lines of 48 bytes, in workgroup (0, 0, 0)
      at line 53: let left = coopLoad<coop_mat8x8<f16,A>>((&a[9]), 24u);
    invalid: a matrix at a[8], in lines of 40 bytes, in workgroup (0, 0, 0)
      at line 53: let left = coopLoad<coop_mat8x8<f16,A>>((&a[8]), 20u);
    out of bounds: invocation (0, 0, 0) indexes `a`, of length 384, at 384, in workgroup (0, 0, 0)
      at line 53: let left = coopLoad<coop_mat8x8<f16,A>>((&a[24]), 24u);
    race: `a[8]` is written by invocation (8, 0, 0) and read by invocation (0, 0, 0) with no barrier between, in workgroup (0, 0, 0)
      at line 52: let left = coopLoad<coop_mat8x8<f16,A>>((&a[8]), 24u);
    uninitialised: invocation (0, 0, 0) reads `a[104]`, which nothing has written, in workgroup (0, 0, 0)
      at line 53: let left = coopLoad<coop_mat8x8<f16,A>>((&a[8]), 24u);
    ");
}
