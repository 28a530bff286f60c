//! Nests with row statistics, with inner sums, and with several outputs.

use super::nests;

/// Fuses four groups, two of which write tensors as large as X and two of which aggregate its rows.
#[test]
fn a_softmax_is_one_nest() {
    insta::assert_snapshot!(nests("\
graph softmax(%0) -> (Y = %5)
%0 = input X : f32[64, 6, 10]
%1 = contract max [i, j, 0] (i: 0..64, j: 0..6, k: 0..10) { v0 = %0[i, j, k]; yield v0 } : f32[64, 6, 1]
%2 = sub %0 %1 : f32[64, 6, 10]
%3 = exp %2 : f32[64, 6, 10]
%4 = contract sum [i, j, 0] (i: 0..64, j: 0..6, k: 0..10) { v0 = %3[i, j, k]; yield v0 } : f32[64, 6, 1]
%5 = div %3 %4 : f32[64, 6, 10]  # Y
"), @r"
    nest y [i0i1: 384] columns [i2: 10]
      in0: f32[64, 6, 10]
      out0: f32[64, 6, 10]
      each
        v0 = in0[10*i0i1 + i2] : f32
        v1 = max over columns of v0 : f32
        v2 = sub v0 v1 : f32
        v3 = exp v2 : f32
        v4 = sum over columns of v3 : f32
        v5 = div v3 v4 : f32
        yield v5
    ");
}

/// Attention is one nest without scores in memory. The softmax division is postponed to the
/// epilogue.
#[test]
fn attention_is_one_nest() {
    insta::assert_snapshot!(nests("\
graph attention(%0, %1, %2) -> (Y = %9)
%0 = input Q : f32[20, 2, 8]
%1 = input K : f32[30, 2, 8]
%2 = input V : f32[30, 2, 16]
%3 = contract sum [h, t, s] (h: 0..2, t: 0..20, s: 0..30, d: 0..8) { v0 = %0[t, h, d]; v1 = %1[s, h, d]; v2 = mul v0 v1; yield v2 } : f32[2, 20, 30]
%4 = contract max [h, t, 0] (h: 0..2, t: 0..20, s: 0..30) { v0 = %3[h, t, s]; yield v0 } : f32[2, 20, 1]
%5 = sub %3 %4 : f32[2, 20, 30]
%6 = exp %5 : f32[2, 20, 30]
%7 = contract sum [h, t, 0] (h: 0..2, t: 0..20, s: 0..30) { v0 = %6[h, t, s]; yield v0 } : f32[2, 20, 1]
%8 = div %6 %7 : f32[2, 20, 30]
%9 = contract sum [t, h, e] (t: 0..20, h: 0..2, e: 0..16, s: 0..30) { v0 = %8[h, t, s]; v1 = %2[s, h, e]; v2 = mul v0 v1; yield v2 } : f32[20, 2, 16]  # Y
"), @r"
    nest y [t: 20, h: 2, e: 16] sum [s: 30]
      in0: f32[20, 2, 8]
      in1: f32[30, 2, 8]
      in2: f32[30, 2, 16]
      out0: f32[20, 2, 16]
      inner0 sum [d: 8]
        v0 = in0[16*t + 8*h + d] : f32
        v1 = in1[8*h + 16*s + d] : f32
        v2 = mul v0 v1 : f32
        yield v2
      body
        v0 = inner0 : f32
        v1 = max over points of v0 : f32
        v2 = sub v0 v1 : f32
        v3 = exp v2 : f32
        v4 = sum over points of v3 : f32
        v5 = in2[16*h + e + 32*s] : f32
        v6 = mul v3 v5 : f32
        yield v6
      epilogue
        v0 = accumulator : f32
        v1 = v4 of body : f32
        v2 = div v0 v1 : f32
        yield v2
    ");
}

/// A value that depends on the top in another way than exp(-top) is unknown until all scores are.
/// So is the top itself if its argument depends on another statistic. The scores stay in memory.
#[test]
fn other_functions_of_the_top_are_no_attention() {
    let others = [
        // The difference itself; a sum of the scores; a value divided by the top; a top over
        // normalised scores.
        "%6 = contract sum [t, e] (t: 0..20, e: 0..16, s: 0..30) { v0 = %5[t, s]; v1 = %2[s, e]; v2 = mul v0 v1; yield v2 } : f32[20, 16]",
        "\
%7 = exp %5 : f32[20, 30]
%8 = contract sum [t, 0] (t: 0..20, s: 0..30) { v0 = %3[t, s]; yield v0 } : f32[20, 1]
%9 = contract sum [t, e] (t: 0..20, e: 0..16, s: 0..30) { v0 = %7[t, s]; v1 = %2[s, e]; v2 = mul v0 v1; yield v2 } : f32[20, 16]
%6 = add %9 %8 : f32[20, 16]",
        "\
%7 = abs %3 : f32[20, 30]
%8 = contract sum [t, e] (t: 0..20, e: 0..16, s: 0..30) { v0 = %7[t, s]; v1 = %2[s, e]; v2 = mul v0 v1; yield v2 } : f32[20, 16]
%6 = div %8 %4 : f32[20, 16]",
        "\
%7 = contract sum [t, 0] (t: 0..20, s: 0..30) { v0 = %3[t, s]; yield v0 } : f32[20, 1]
%8 = div %3 %7 : f32[20, 30]
%9 = contract max [t, 0] (t: 0..20, s: 0..30) { v0 = %8[t, s]; yield v0 } : f32[20, 1]
%10 = sub %8 %9 : f32[20, 30]
%11 = exp %10 : f32[20, 30]
%6 = contract sum [t, e] (t: 0..20, e: 0..16, s: 0..30) { v0 = %11[t, s]; v1 = %2[s, e]; v2 = mul v0 v1; yield v2 } : f32[20, 16]",
    ];
    for other in others {
        let nests = nests(&format!("\
graph other(%0, %1, %2) -> (Y = %6)
%0 = input Q : f32[20, 8]
%1 = input K : f32[30, 8]
%2 = input V : f32[30, 16]
%3 = contract sum [t, s] (t: 0..20, s: 0..30, d: 0..8) {{ v0 = %0[t, d]; v1 = %1[s, d]; v2 = mul v0 v1; yield v2 }} : f32[20, 30]
%4 = contract max [t, 0] (t: 0..20, s: 0..30) {{ v0 = %3[t, s]; yield v0 }} : f32[20, 1]
%5 = sub %3 %4 : f32[20, 30]
{other}
"));
        assert!(!nests.contains("inner"), "{nests}");
    }
}

/// A statistic that is an output has one element a row.
#[test]
fn outputs_of_rows() {
    insta::assert_snapshot!(nests("\
graph centred(%0) -> (Y = %2, Sum = %1)
%0 = input X : f32[64, 10]
%1 = contract sum [i, 0] (i: 0..64, k: 0..10) { v0 = %0[i, k]; yield v0 } : f32[64, 1]  # Sum
%2 = sub %0 %1 : f32[64, 10]  # Y
"), @r"
    nest y [i0: 64] columns [i1: 10]
      in0: f32[64, 10]
      out0[i0]: f32[64, 1]
      out1: f32[64, 10]
      each
        v0 = in0[10*i0 + i1] : f32
        v1 = sum over columns of v0 : f32
        v2 = sub v0 v1 : f32
        yield v1 v2
    ");
}

/// An optimizer's update is in the epilogue of the contraction that computes the gradient.
#[test]
fn an_update_is_part_of_its_gradient() {
    insta::assert_snapshot!(nests("\
graph step(%0, %1, %2, %3) -> (M = %6, W = %8)
%0 = input X : f32[5, 7]
%1 = input D : f32[5, 3]
%2 = input OldM : f32[7, 3]
%3 = input OldW : f32[7, 3]
%4 = contract sum [k, n] (k: 0..7, n: 0..3, m: 0..5) { v0 = %0[m, k]; v1 = %1[m, n]; v2 = mul v0 v1; yield v2 } : f32[7, 3]  # G
%9 = constant 0.5 : f32[]
%5 = mul %2 %9 : f32[7, 3]
%6 = add %5 %4 : f32[7, 3]  # M
%7 = mul %6 %9 : f32[7, 3]
%8 = sub %3 %7 : f32[7, 3]  # W
"), @r"
    nest w [k: 7, n: 3] sum [m: 5]
      in0: f32[5, 7]
      in1: f32[5, 3]
      in2: f32[7, 3]
      in3: f32[7, 3]
      out0: f32[7, 3]
      out1: f32[7, 3]
      body
        v0 = in0[k + 7*m] : f32
        v1 = in1[n + 3*m] : f32
        v2 = mul v0 v1 : f32
        yield v2
      epilogue
        v0 = in2[3*k + n] : f32
        v1 = 0.5 : f32
        v2 = mul v0 v1 : f32
        v3 = accumulator : f32
        v4 = add v2 v3 : f32
        v5 = in3[3*k + n] : f32
        v6 = mul v4 v1 : f32
        v7 = sub v5 v6 : f32
        yield v4 v7
    ");
}
