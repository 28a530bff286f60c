//! Operators, conversions and functions on special values.

use super::*;

/// Evaluates expressions of one type and returns their words. `p` is an array of i32 and `f` one of
/// f32, both with the special values below.
fn evaluate(ty: &str, expressions: &[&str]) -> Vec<u8> {
    let stores: String =
        (0..).zip(expressions).map(|(i, e)| format!("out[{i}] = {e};\n")).collect();
    let source = format!(
        "enable f16;
        @group(0) @binding(0) var<storage, read> p: array<i32>;
        @group(0) @binding(1) var<storage, read> f: array<f32>;
        @group(0) @binding(2) var<storage, read_write> out: array<{ty}>;
        @compute @workgroup_size(1) fn main() {{ {stores} }}"
    );
    let p = bytes_of_u32([0, 1, -1_i32 as u32, i32::MIN as u32, i32::MAX as u32, 33, 0x1234_5678]);
    let f = bytes_of_f32([
        0.0,
        -0.0,
        f32::NAN,
        f32::INFINITY,
        2.5,
        -2.5,
        1e20,
        0.1,
        65519.9,
        -1e20,
        3.999,
    ]);
    let mut buffers = [p, f, vec![0; 16 * expressions.len()]];
    if let Err(fault) = run_wgsl(&source, [1, 1, 1], &mut buffers, &Options::default()) {
        panic!("{fault}\n{source}");
    }
    std::mem::take(&mut buffers[2])
}

#[track_caller]
fn assert_words<T: Into<i64> + Copy>(ty: &str, cases: &[(&str, T)]) {
    let expressions: Vec<&str> = cases.iter().map(|case| case.0).collect();
    let words = u32_of(&evaluate(ty, &expressions));
    for ((expression, expected), word) in cases.iter().zip(words) {
        assert_eq!(word, (*expected).into() as u32, "{expression}");
    }
}

#[test]
fn integers_wrap() {
    assert_words(
        "i32",
        &[
            ("p[4] + p[1]", i32::MIN),
            ("p[3] - p[1]", i32::MAX),
            ("-p[3]", i32::MIN),
            ("abs(p[3])", i32::MIN),
            ("p[3] / p[2]", i32::MIN),
            ("p[3] % p[2]", 0),
            ("-7 / (p[1] + p[1])", -3),
            ("-7 % (p[1] + 2)", -1),
            ("p[3] >> 31u", -1),
            ("p[1] << u32(p[5])", 2),
            ("p[6] * p[6]", 0x1234_5678_i32.wrapping_mul(0x1234_5678)),
            ("~p[0]", -1),
            ("clamp(p[4], -5, 5)", 5),
            ("sign(p[3])", -1),
        ],
    );
    assert_words(
        "u32",
        &[
            ("u32(p[3]) >> 31u", 1),
            ("u32(p[2]) / 3u", 0x5555_5555),
            ("select(1u, 2u, u32(p[2]) > u32(p[4]))", 2),
            ("select(1u, 2u, p[2] > p[4])", 1),
        ],
    );
}

#[test]
fn conversions_round_towards_zero_and_saturate() {
    assert_words(
        "i32",
        &[
            ("i32(f[10])", 3),
            ("i32(f[5])", -2),
            ("i32(f[6])", i32::MAX),
            ("i32(f[9])", i32::MIN),
            ("i32(f[3])", i32::MAX),
            ("i32(bool(f[2]))", 1),
            ("i32(bool(f[1]))", 0),
            ("bitcast<i32>(f[1])", i32::MIN),
        ],
    );
    assert_words("u32", &[("u32(f[5])", 0_u32), ("u32(f[6])", u32::MAX), ("u32(p[2])", u32::MAX)]);
    let floats =
        ["f32(p[4])", "f32(u32(p[2]))", "f32(f16(f[7]))", "f32(f16(f[8]))", "f32(f16(f[6]))"];
    let expected = [2_147_483_648.0, 4_294_967_296.0, 0.099_975_586, 65504.0, f32::INFINITY];
    assert_eq!(f32_of(&evaluate("f32", &floats))[..5], expected);
}

#[test]
fn floats_follow_ieee() {
    let cases = [
        ("f[4] / f[1]", f32::NEG_INFINITY),
        ("f[3] - f[3]", f32::NAN),
        ("-f[0]", -0.0),
        ("min(f[2], f[4])", 2.5),
        ("max(f[4], f[2])", 2.5),
        ("round(f[4])", 2.0),
        ("round(f[5])", -2.0),
        ("trunc(f[5])", -2.0),
        ("fract(f[5])", 0.5),
        ("f[5] % 2.0", -0.5),
        ("sign(f[5])", -1.0),
        ("sign(f[1])", 0.0),
        ("pow(f[5], 2.0)", f32::NAN),
        ("sqrt(f[5])", f32::NAN),
        ("log(f[0])", f32::NEG_INFINITY),
        ("exp(-f[3])", 0.0),
        ("fma(f[7], 10.0, -1.0)", 0.1_f32.mul_add(10.0, -1.0)),
        ("saturate(f[3])", 1.0),
        ("select(0.0, 1.0, f[2] == f[2])", 0.0),
        ("select(0.0, 1.0, f[2] != f[2])", 1.0),
        ("mix(2.0, 4.0, f[4])", 7.0),
        ("smoothstep(0.0, 5.0, f[4])", 0.5),
        ("ldexp(f[4], p[1])", 5.0),
        ("dot(vec3(f[4], 1.0, 2.0), vec3(2.0, f[4], 1.0))", 9.5),
        ("length(vec2(3.0 * f[4], 4.0 * f[4]))", 12.5),
        ("cross(vec3(f[4], 0.0, 0.0), vec3(0.0, 2.0, 0.0)).z", 5.0),
        ("normalize(vec2(0.0, f[5])).y", -1.0),
    ];
    let expressions = cases.map(|case| case.0);
    let values = f32_of(&evaluate("f32", &expressions));
    for ((expression, expected), value) in cases.into_iter().zip(values) {
        let same = value.to_bits() == expected.to_bits() || value.is_nan() && expected.is_nan();
        assert!(same, "{expression} is {value}, not {expected}");
    }
}

#[test]
fn f16_rounds_after_each_operation() {
    let halves = ["f16(f[8]) + 16h", "f16(f[7]) * 3h", "sqrt(f16(f[4]))", "-f16(f[0])"];
    let bytes = evaluate("f16", &halves);
    let words: Vec<u16> =
        bytes.chunks(2).take(4).map(|word| u16::from_le_bytes([word[0], word[1]])).collect();
    assert_eq!(words, [0x7c00, 0x34cc, 0x3e53, 0x8000]);
}

#[test]
fn bits_and_packing() {
    assert_words(
        "u32",
        &[
            ("countOneBits(u32(p[6]))", 13_u32),
            ("countLeadingZeros(u32(p[6]))", 3),
            ("countTrailingZeros(u32(p[0]))", 32),
            ("firstLeadingBit(u32(p[6]))", 28),
            ("bitcast<u32>(firstTrailingBit(p[0]))", u32::MAX),
            ("reverseBits(u32(p[1]))", 0x8000_0000),
            ("extractBits(u32(p[6]), 8u, 8u)", 0x56),
            ("bitcast<u32>(extractBits(p[2], 30u, 8u))", u32::MAX),
            ("insertBits(u32(p[6]), 0u, 4u, 8u)", 0x1234_5008),
            ("pack2x16float(vec2(f[4], f[5]))", 0xc100_4100),
            ("pack4x8snorm(vec4(f[4], f[5], f[0], 0.5))", 0x4000_817f),
            ("pack4x8unorm(vec4(f[4], f[5], f[0], 0.5))", 0x8000_00ff),
            ("pack4xU8Clamp(vec4(300u, 2u, u32(p[1]), 4u))", 0x0401_02ff),
            ("bitcast<u32>(unpack2x16float(0xc1004100u).y)", (-2.5_f32).to_bits()),
            ("bitcast<u32>(unpack4xI8(u32(p[2])).z)", u32::MAX),
            ("dot4U8Packed(u32(p[6]), 0x01010101u)", 0x12 + 0x34 + 0x56 + 0x78),
        ],
    );
}

#[test]
fn wide_integers() {
    let source = "
        @group(0) @binding(0) var<storage, read_write> out: array<u64>;
        @compute @workgroup_size(1) fn main() {
            let big = u64(out[0]) * 4294967296lu + 5lu;
            out[0] = big;
            out[1] = u64(i64(-1) >> 3u) / 2lu;
            out[2] = u64(f32(big));
        }";
    let mut buffers = [[3_u64, 0, 0].map(u64::to_le_bytes).concat()];
    run_wgsl(source, [1, 1, 1], &mut buffers, &Options::default()).unwrap();
    let expected = [(3_u64 << 32) + 5, u64::MAX / 2, 3 << 32];
    assert_eq!(buffers[0], expected.map(u64::to_le_bytes).concat());
}
