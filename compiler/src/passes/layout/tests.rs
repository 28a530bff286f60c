use super::layout;
use crate::passes::testing::after;

#[test]
fn channels_come_last_between_convolutions() {
    insta::assert_snapshot!(after(&[layout], "\
graph g(%0) -> (Y = %12)
%0 = input X : f32[2, 3, 9, 8]
%1 = weight K : f32[6, 3, 3, 3]
%2 = weight B : f32[6]
%3 = weight D : f32[6, 1, 3, 3]
%4 = weight P : f32[4, 6, 1, 1]
%5 = contract sum [n, f, y, x] (n: 0..2, f: 0..6, y: 0..7, x: 0..6, c: 0..3, i: 0..3, j: 0..3) { v0 = %0[n, c, y + i, x + j]; v1 = %1[f, c, i, j]; v2 = mul v0 v1; yield v2 } : f32[2, 6, 7, 6]
%6 = reshape %2 : f32[6, 1, 1]
%7 = add %5 %6 : f32[2, 6, 7, 6]
%8 = contract sum [n, g + f, y, x] (n: 0..2, g: 0..6, f: 0..1, y: 0..7, x: 0..6, c: 0..1, i: 0..3, j: 0..3) { v0 = %7[n, g + c, y + i - 1, x + j - 1]; v1 = %3[g + f, c, i, j]; v2 = mul v0 v1; yield v2 } : f32[2, 6, 7, 6]
%9 = contract max [n, c, 0, 0] (n: 0..2, c: 0..6, y: 0..7, x: 0..6) { v0 = %8[n, c, y, x]; yield v0 } : f32[2, 6, 1, 1]
%10 = mul %8 %9 : f32[2, 6, 7, 6]
%11 = contract sum [n, f, y, x] (n: 0..2, f: 0..4, y: 0..7, x: 0..6, c: 0..6) { v0 = %10[n, c, y, x]; v1 = %4[f, c, 0, 0]; v2 = mul v0 v1; yield v2 } : f32[2, 4, 7, 6]
%12 = reshape %11 : f32[2, 168]
"), @"
    graph g(%0) -> (Y = %18)
    %0 = input X : f32[2, 3, 9, 8]
    %1 = weight K : f32[6, 3, 3, 3]
    %2 = weight B : f32[6]
    %3 = weight D : f32[6, 1, 3, 3]
    %4 = weight P : f32[4, 6, 1, 1]
    %5 = reshape %2 : f32[6, 1, 1]
    %6 = contract assign [i0, i1, i2, i3] (i0: 0..2, i1: 0..9, i2: 0..8, i3: 0..3) { v0 = %0[i0, i3, i1, i2]; yield v0 } : f32[2, 9, 8, 3]
    %7 = contract assign [i0, i1, i2, i3] (i0: 0..3, i1: 0..3, i2: 0..3, i3: 0..6) { v0 = %1[i3, i0, i1, i2]; yield v0 } : f32[3, 3, 3, 6]
    %8 = contract sum [n, y, x, f] (n: 0..2, y: 0..7, x: 0..6, f: 0..6, i: 0..3, j: 0..3, c: 0..3) { v0 = %6[n, y + i, x + j, c]; v1 = %7[c, i, j, f]; v2 = mul v0 v1; yield v2 } : f32[2, 7, 6, 6]
    %9 = reshape %2 : f32[1, 1, 6]
    %10 = add %8 %9 : f32[2, 7, 6, 6]
    %11 = contract assign [i0, i1, i2, i3] (i0: 0..1, i1: 0..3, i2: 0..3, i3: 0..6) { v0 = %3[i3, i0, i1, i2]; yield v0 } : f32[1, 3, 3, 6]
    %12 = contract sum [n, y, x, g + f] (n: 0..2, y: 0..7, x: 0..6, g: 0..6, f: 0..1, i: 0..3, j: 0..3, c: 0..1) { v0 = %10[n, y + i - 1, x + j - 1, g + c]; v1 = %11[c, i, j, g + f]; v2 = mul v0 v1; yield v2 } : f32[2, 7, 6, 6]
    %13 = contract max [n, c, 0, 0] (n: 0..2, c: 0..6, y: 0..7, x: 0..6) { v0 = %12[n, y, x, c]; yield v0 } : f32[2, 6, 1, 1]
    %14 = reshape %13 : f32[2, 1, 1, 6]
    %15 = mul %12 %14 : f32[2, 7, 6, 6]
    %16 = contract sum [n, y, x, f] (n: 0..2, y: 0..7, x: 0..6, f: 0..4, c: 0..6) { v0 = %15[n, y, x, c]; v1 = %4[f, c, 0, 0]; v2 = mul v0 v1; yield v2 } : f32[2, 7, 6, 4]
    %17 = contract assign [i0, i1, i2, i3] (i0: 0..2, i1: 0..4, i2: 0..7, i3: 0..6) { v0 = %16[i0, i2, i3, i1]; yield v0 } : f32[2, 4, 7, 6]
    %18 = reshape %17 : f32[2, 168]
    ");
}

#[test]
fn groups_of_channels_stay_together() {
    insta::assert_snapshot!(after(&[layout], "\
graph g(%0) -> (Y = %6)
%0 = input X : f32[1, 3, 9, 8]
%1 = weight K : f32[6, 3, 3, 3]
%2 = contract sum [n, f, y, x] (n: 0..1, f: 0..6, y: 0..7, x: 0..6, c: 0..3, i: 0..3, j: 0..3) { v0 = %0[n, c, y + i, x + j]; v1 = %1[f, c, i, j]; v2 = mul v0 v1; yield v2 } : f32[1, 6, 7, 6]
%3 = reshape %2 : f32[1, 2, 3, 7, 6]
%4 = contract assign [n, c, g, y, x] (n: 0..1, g: 0..2, c: 0..3, y: 0..7, x: 0..6) { v0 = %3[n, g, c, y, x]; yield v0 } : f32[1, 3, 2, 7, 6]
%5 = reshape %4 : f32[1, 6, 7, 6]
%6 = contract max [n, c] (n: 0..1, c: 0..6, y: 0..7, x: 0..6) { v0 = %5[n, c, y, x]; yield v0 } : f32[1, 6]
"), @"
    graph g(%0) -> (Y = %8)
    %0 = input X : f32[1, 3, 9, 8]
    %1 = weight K : f32[6, 3, 3, 3]
    %2 = contract assign [i0, i1, i2, i3] (i0: 0..1, i1: 0..9, i2: 0..8, i3: 0..3) { v0 = %0[i0, i3, i1, i2]; yield v0 } : f32[1, 9, 8, 3]
    %3 = contract assign [i0, i1, i2, i3] (i0: 0..3, i1: 0..3, i2: 0..3, i3: 0..6) { v0 = %1[i3, i0, i1, i2]; yield v0 } : f32[3, 3, 3, 6]
    %4 = contract sum [n, y, x, f] (n: 0..1, y: 0..7, x: 0..6, f: 0..6, i: 0..3, j: 0..3, c: 0..3) { v0 = %2[n, y + i, x + j, c]; v1 = %3[c, i, j, f]; v2 = mul v0 v1; yield v2 } : f32[1, 7, 6, 6]
    %5 = reshape %4 : f32[1, 7, 6, 2, 3]
    %6 = contract assign [n, y, x, c, g] (n: 0..1, y: 0..7, x: 0..6, c: 0..3, g: 0..2) { v0 = %5[n, y, x, g, c]; yield v0 } : f32[1, 7, 6, 3, 2]
    %7 = reshape %6 : f32[1, 7, 6, 6]
    %8 = contract max [n, c] (n: 0..1, c: 0..6, y: 0..7, x: 0..6) { v0 = %7[n, y, x, c]; yield v0 } : f32[1, 6]
    ");
}

/// As where a group normalisation lies beside a residual: `%5` has channels and places in one axis.
#[test]
fn a_reshape_that_flattens_images_relates_no_axes() {
    insta::assert_snapshot!(after(&[layout], "\
graph g(%0) -> (Y = %8)
%0 = input X : f32[1, 3, 9, 8]
%1 = weight K : f32[6, 3, 3, 3]
%2 = weight L : f32[6, 6, 3, 3]
%3 = contract sum [n, f, y, x] (n: 0..1, f: 0..6, y: 0..7, x: 0..6, c: 0..3, i: 0..3, j: 0..3) { v0 = %0[n, c, y + i, x + j]; v1 = %1[f, c, i, j]; v2 = mul v0 v1; yield v2 } : f32[1, 6, 7, 6]
%4 = reshape %3 : f32[1, 252]
%5 = exp %4 : f32[1, 252]
%6 = reshape %5 : f32[1, 6, 7, 6]
%7 = add %3 %6 : f32[1, 6, 7, 6]
%8 = contract sum [n, f] (n: 0..1, f: 0..6, y: 0..5, x: 0..4, c: 0..6, i: 0..3, j: 0..3) { v0 = %7[n, c, y + i, x + j]; v1 = %2[f, c, i, j]; v2 = mul v0 v1; yield v2 } : f32[1, 6]
"), @"
    graph g(%0) -> (Y = %12)
    %0 = input X : f32[1, 3, 9, 8]
    %1 = weight K : f32[6, 3, 3, 3]
    %2 = weight L : f32[6, 6, 3, 3]
    %3 = contract assign [i0, i1, i2, i3] (i0: 0..1, i1: 0..9, i2: 0..8, i3: 0..3) { v0 = %0[i0, i3, i1, i2]; yield v0 } : f32[1, 9, 8, 3]
    %4 = contract assign [i0, i1, i2, i3] (i0: 0..3, i1: 0..3, i2: 0..3, i3: 0..6) { v0 = %1[i3, i0, i1, i2]; yield v0 } : f32[3, 3, 3, 6]
    %5 = contract sum [n, y, x, f] (n: 0..1, y: 0..7, x: 0..6, f: 0..6, i: 0..3, j: 0..3, c: 0..3) { v0 = %3[n, y + i, x + j, c]; v1 = %4[c, i, j, f]; v2 = mul v0 v1; yield v2 } : f32[1, 7, 6, 6]
    %6 = contract assign [i0, i1, i2, i3] (i0: 0..1, i1: 0..6, i2: 0..7, i3: 0..6) { v0 = %5[i0, i2, i3, i1]; yield v0 } : f32[1, 6, 7, 6]
    %7 = reshape %6 : f32[1, 252]
    %8 = exp %7 : f32[1, 252]
    %9 = reshape %8 : f32[1, 6, 7, 6]
    %10 = contract assign [i0, i1, i2, i3] (i0: 0..1, i1: 0..7, i2: 0..6, i3: 0..6) { v0 = %9[i0, i3, i1, i2]; yield v0 } : f32[1, 7, 6, 6]
    %11 = add %5 %10 : f32[1, 7, 6, 6]
    %12 = contract sum [n, f] (n: 0..1, f: 0..6, y: 0..5, i: 0..3, x: 0..4, j: 0..3, c: 0..6) { v0 = %11[n, y + i, x + j, c]; v1 = %2[f, c, i, j]; v2 = mul v0 v1; yield v2 } : f32[1, 6]
    ");
}

#[test]
fn outputs_that_a_transposed_convolution_interleaves_are_copies() {
    insta::assert_snapshot!(after(&[layout], "\
graph g(%0) -> (Y = %2)
%0 = input X : f32[4, 7]
%1 = weight K : f32[4, 5, 2]
%2 = contract sum [f, 2*x + i] (f: 0..5, x: 0..7, i: 0..2, c: 0..4) { v0 = %0[c, x]; v1 = %1[c, f, i]; v2 = mul v0 v1; yield v2 } : f32[5, 14]
"), @"
    graph g(%0) -> (Y = %4)
    %0 = input X : f32[4, 7]
    %1 = weight K : f32[4, 5, 2]
    %2 = contract assign [i0, i1] (i0: 0..7, i1: 0..4) { v0 = %0[i1, i0]; yield v0 } : f32[7, 4]
    %3 = contract sum [2*x + i, f] (x: 0..7, i: 0..2, f: 0..5, c: 0..4) { v0 = %2[x, c]; v1 = %1[c, f, i]; v2 = mul v0 v1; yield v2 } : f32[14, 5]
    %4 = contract assign [i0, i1] (i0: 0..5, i1: 0..14) { v0 = %3[i1, i0]; yield v0 } : f32[5, 14]
    ");
}
