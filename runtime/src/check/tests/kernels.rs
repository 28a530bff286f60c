//! Kernels without faults.

use super::*;

/// C = A·B in tiles of 16×16, for any sizes: a, b, c at bindings 0, 1, 2 and [m, n, k] at 3.
pub(super) const MATMUL: &str = "
    @group(0) @binding(0) var<storage, read> a: array<f32>;
    @group(0) @binding(1) var<storage, read> b: array<f32>;
    @group(0) @binding(2) var<storage, read_write> c: array<f32>;
    @group(0) @binding(3) var<uniform> size: vec3<u32>;
    var<workgroup> tile_a: array<array<f32, 16>, 16>;
    var<workgroup> tile_b: array<array<f32, 16>, 16>;

    @compute @workgroup_size(16, 16)
    fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {
        var sum = 0.0;
        for (var start = 0u; start < size.z; start += 16u) {
            var x = 0.0;
            if id.y < size.x && start + local.x < size.z { x = a[id.y * size.z + start + local.x]; }
            tile_a[local.y][local.x] = x;
            var y = 0.0;
            if start + local.y < size.z && id.x < size.y { y = b[(start + local.y) * size.y + id.x]; }
            tile_b[local.y][local.x] = y;
            workgroupBarrier();
            for (var k = 0u; k < 16u; k++) {
                sum = fma(tile_a[local.y][k], tile_b[k][local.x], sum);
            }
            workgroupBarrier();
        }
        if id.y < size.x && id.x < size.y { c[id.y * size.y + id.x] = sum; }
    }";

/// The sum of a workgroup's 64 values, by a tree in workgroup memory.
pub(super) const REDUCTION: &str = "
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> sums: array<f32>;
    var<workgroup> part: array<f32, 64>;

    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32,
            @builtin(workgroup_id) group: vec3<u32>) {
        part[lane] = x[id.x];
        for (var half = 32u; half > 0u; half /= 2u) {
            workgroupBarrier();
            if lane < half { part[lane] += part[lane + half]; }
        }
        if lane == 0u { sums[group.x] = part[0]; }
    }";

fn integers(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i * 7 % 11) as f32 - 5.0).collect()
}

#[test]
fn tiled_matmul() {
    for (m, n, k) in [(64, 64, 64), (17, 5, 33)] {
        let (a, b) = (integers(m * k), integers(k * n));
        let size = bytes_of_u32([m as u32, n as u32, k as u32, 0]);
        let mut buffers =
            [bytes_of_f32(a.clone()), bytes_of_f32(b.clone()), vec![0; 4 * m * n], size];
        let workgroups = [n.div_ceil(16) as u32, m.div_ceil(16) as u32, 1];
        let options = Options { undefined: vec![2], ..Options::default() };
        let unwritten = run_wgsl(MATMUL, workgroups, &mut buffers, &options).unwrap();
        assert_eq!(unwritten, []);
        let expected: Vec<f32> =
            (0..m * n).map(|i| (0..k).map(|l| a[i / n * k + l] * b[l * n + i % n]).sum()).collect();
        assert_eq!(f32_of(&buffers[2]), expected);
    }
}

#[test]
fn tree_reduction() {
    let x = integers(256);
    let mut buffers = [bytes_of_f32(x.clone()), vec![0; 16]];
    run_wgsl(REDUCTION, [4, 1, 1], &mut buffers, &Options::default()).unwrap();
    let expected: Vec<f32> = x.chunks(64).map(|part| part.iter().sum()).collect();
    assert_eq!(f32_of(&buffers[1]), expected);
}

#[test]
fn what_is_never_written_is_reported() {
    let mut buffers = [bytes_of_f32(integers(64)), vec![0; 16]];
    let options = Options { undefined: vec![1], ..Options::default() };
    let unwritten = run_wgsl(REDUCTION, [1, 1, 1], &mut buffers, &options).unwrap();
    assert_eq!(unwritten, [Unwritten { binding: 1, bytes: 4..16 }]);
}

/// Every kind of control flow at once. The expected results are worked out by hand in Rust.
#[test]
fn divergent_control_flow() {
    let source = "
        @group(0) @binding(0) var<storage, read_write> out: array<u32>;
        fn steps(start: u32) -> u32 {
            var n = start;
            var count = 0u;
            loop {
                if n == 1u { break; }
                if count == 50u { return 999u; }
                count++;
                if n % 2u == 0u { n /= 2u; continue; }
                n = 3u * n + 1u;
                continuing { break if n == 4u; }
            }
            switch n {
                case 4u, 5u { count += 100u; }
                case 1u: { if start == 2u { break; } count += 200u; }
                default: { count = 0u; }
            }
            return count;
        }
        @compute @workgroup_size(32)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            if id.x % 8u == 7u { return; }
            out[id.x] = steps(id.x + 1u);
        }";
    fn steps(start: u32) -> u32 {
        let (mut n, mut count) = (start, 0);
        while n != 1 {
            if count == 50 {
                return 999;
            }
            count += 1;
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            if n == 4 {
                break;
            }
        }
        match n {
            4 => count + 100,
            _ if start == 2 => count,
            _ => count + 200,
        }
    }
    let mut buffers = [vec![0; 128]];
    run_wgsl(source, [1, 1, 1], &mut buffers, &Options::default()).unwrap();
    let expected: Vec<u32> = (0..32).map(|i| if i % 8 == 7 { 0 } else { steps(i + 1) }).collect();
    assert_eq!(u32_of(&buffers[0]), expected);
}

#[test]
fn structs_pointers_and_atomics() {
    let source = "
        struct Item { weight: f32, place: vec3<f32>, tag: u32 }
        @group(0) @binding(0) var<storage, read_write> items: array<Item, 4>;
        @group(0) @binding(1) var<storage, read_write> counts: array<atomic<u32>, 3>;
        var<workgroup> total: atomic<u32>;
        var<private> scale: f32 = 2.0;
        fn raise(item: ptr<function, Item>, by: f32) { (*item).place.y += by; }
        @compute @workgroup_size(4)
        fn main(@builtin(local_invocation_index) lane: u32) {
            var item = items[lane];
            var halves = array<vec2<f32>, 2>(vec2(0.25), vec2(0.5, 0.5));
            raise(&item, f32(lane) * scale * halves[lane / 4u + 1u].y);
            item.place = item.place.zyx;
            items[lane] = item;
            if lane == 0u { atomicStore(&total, 0u); }
            workgroupBarrier();
            atomicAdd(&total, lane);
            workgroupBarrier();
            atomicMax(&counts[0], atomicLoad(&total) + lane);
            let old = atomicCompareExchangeWeak(&counts[1], 7u, lane);
            if old.exchanged { atomicAdd(&counts[2], 1u + old.old_value); }
        }";
    let item =
        |i: u32| [f32::to_bits(i as f32), 0, 0, 0, 0, 1.0_f32.to_bits(), 2.0_f32.to_bits(), i];
    let mut buffers = [bytes_of_u32((0..4).flat_map(item)), bytes_of_u32([0, 7, 0])];
    run_wgsl(source, [1, 1, 1], &mut buffers, &Options::default()).unwrap();
    assert_eq!(u32_of(&buffers[1]), [9, 0, 8]);
    let places: Vec<f32> =
        f32_of(&buffers[0]).chunks(8).flat_map(|item| item[4..7].to_vec()).collect();
    assert_eq!(places, [2.0, 1.0, 0.0, 2.0, 2.0, 0.0, 2.0, 3.0, 0.0, 2.0, 4.0, 0.0]);
}

#[test]
fn subgroups_of_any_size() {
    let source = "
        @group(0) @binding(0) var<storage, read_write> out: array<vec4<u32>>;
        @compute @workgroup_size(12)
        fn main(@builtin(local_invocation_index) lane: u32, @builtin(subgroup_invocation_id) own: u32) {
            let ballot = subgroupBallot(lane % 3u == 0u);
            out[lane] = vec4(subgroupAdd(lane), subgroupExclusiveAdd(lane), subgroupShuffleXor(lane, 1u), ballot.x);
            out[lane].y += subgroupShuffleUp(lane, 1u) & 256u;
        }";
    for size in [4, 8] {
        let mut buffers = [vec![0; 12 * 16]];
        let options = Options { subgroup_size: size as u32, ..Options::default() };
        run_wgsl(source, [1, 1, 1], &mut buffers, &options).unwrap();
        let out = u32_of(&buffers[0]);
        for lane in 0..12 {
            let first = lane / size * size;
            let members = first..(first + size).min(12);
            let ballot = members.clone().filter(|i| i % 3 == 0).map(|i| 1 << (i - first)).sum();
            let undefined = if lane == first { 256 } else { 0 };
            let before = (first..lane).sum::<usize>() as u32 + undefined;
            let expected = [members.sum::<usize>() as u32, before, lane as u32 ^ 1, ballot];
            assert_eq!(out[4 * lane..][..4], expected, "lane {lane} of subgroups of {size}");
        }
    }
}

#[test]
fn immediates() {
    let source = "
        var<immediate> step: u32;
        @group(0) @binding(0) var<storage, read_write> out: array<u32>;
        @compute @workgroup_size(1) fn main() { out[0] = step + arrayLength(&out); }";
    let mut buffers = [vec![0; 12]];
    let options = Options { immediates: vec![40, 0, 0, 0], ..Options::default() };
    run_wgsl(source, [1, 1, 1], &mut buffers, &options).unwrap();
    assert_eq!(u32_of(&buffers[0])[0], 43);
}

/// A product of matrices in workgroup memory, out of an array of 3 × 24 × 8.
pub(super) const MATRICES: &str = "
    enable f16;
    enable wgpu_cooperative_matrix;
    @group(0) @binding(0) var<storage, read_write> out: array<f32>;
    var<workgroup> a: array<f16, 192>;
    var<workgroup> b: array<f16, 64>;
    var<workgroup> c: array<f32, 64>;

    @compute @workgroup_size(32)
    fn main(@builtin(local_invocation_index) lane: u32) {
        for (var i = lane; i < 192u; i += 32u) { a[i] = f16(i % 5u) - 2h; }
        for (var i = lane; i < 64u; i += 32u) {
            b[i] = f16(i % 7u) - 3h;
            c[i] = f32(i % 3u);
        }
        workgroupBarrier();
        let left = coopLoad<coop_mat8x8<f16, A>>(&a[8], 24u);
        let right = coopLoadT<coop_mat8x8<f16, B>>(&b[0], 8u);
        let sum = coopMultiplyAdd(left, right, coopLoadT<coop_mat8x8<f32, C>>(&c[0], 8u));
        workgroupBarrier();
        coopStoreT(sum, &c[0], 8u);
        workgroupBarrier();
        for (var i = lane; i < 64u; i += 32u) { out[i] = c[i]; }
    }";

#[test]
fn matrices_are_multiplied_as_they_lie() {
    let mut buffers = [vec![0; 256]];
    let unwritten = run_wgsl(
        MATRICES,
        [1; 3],
        &mut buffers,
        &Options { undefined: vec![0], ..Options::default() },
    );
    assert_eq!(unwritten.unwrap(), []);
    let expected = (0..64).map(|place: usize| {
        let (row, column) = (place / 8, place % 8);
        // The left matrix lies by columns, 24 apart, from 8 on.
        let term = |k: usize| ((8 + k * 24 + row) % 5) as f32 - 2.0;
        let of_right = |k: usize| ((k * 8 + column) % 7) as f32 - 3.0;
        (place % 3) as f32 + (0..8).map(|k| term(k) * of_right(k)).sum::<f32>()
    });
    assert_eq!(f32_of(&buffers[0]), expected.collect::<Vec<f32>>());
}
