use super::super::testing::after;
use super::*;

#[test]
fn zero_points_become_sums() {
    insta::assert_snapshot!(after(&[bytes], "\
graph f(%0, %1, %2) -> (P = %8)
%0 = input X : u8[4, 300]
%1 = input Z : u8[]
%2 = input V : i8[5]
%3 = weight W : i8[300, 5]
%4 = cast %0 : i32[4, 300]
%5 = cast %1 : i32[]
%6 = sub %4 %5 : i32[4, 300]
%7 = cast %3 : i32[300, 5]
%8 = contract sum [n, u] (n: 0..4, u: 0..5, k: 0..300) { v0 = %6[n, k]; v1 = %7[k, u]; v2 = mul v0 v1; yield v2 } : i32[4, 5]
"), @"
        graph f(%0, %1, %2) -> (P = %11)
        %0 = input X : u8[4, 300]
        %1 = input Z : u8[]
        %2 = input V : i8[5]
        %3 = weight W : i8[300, 5]
        %4 = cast %0 : i32[4, 300]
        %5 = cast %1 : i32[]
        %6 = sub %4 %5 : i32[4, 300]
        %7 = cast %3 : i32[300, 5]
        %8 = contract sum [n, u] (n: 0..4, u: 0..5, k: 0..300) { v0 = %0[n, k]; v1 = %3[k, u]; v2 = cast v0 : i32; v3 = cast v1 : i32; v4 = mul v2 v3; yield v4 } : i32[4, 5]
        %9 = contract sum [0, u] (n: 0..1, u: 0..5, k: 0..300) { v0 = %3[k, u]; v1 = cast v0 : i32; yield v1 } : i32[1, 5]
        %10 = mul %5 %9 : i32[1, 5]
        %11 = sub %8 %10 : i32[4, 5]
        ");
}

#[test]
fn padding_is_the_zero_point() {
    insta::assert_snapshot!(after(&[bytes, super::super::dead], "\
graph f(%0) -> (P = %6)
%0 = input X : u8[9, 7]
%1 = weight W : u8[3, 7, 5]
%2 = cast %0 : i32[9, 7]
%3 = constant 3 : i32[]
%4 = sub %2 %3 : i32[9, 7]
%5 = cast %1 : i32[3, 7, 5]
%6 = contract sum [y, f] (y: 0..9, f: 0..5, i: 0..3, c: 0..7) { v0 = %4[y + i - 1, c]; v1 = %5[i, c, f]; v2 = mul v0 v1; yield v2 } : i32[9, 5]
"), @"
        graph f(%0) -> (P = %12)
        %0 = input X : u8[9, 7]
        %1 = weight W : u8[3, 7, 5]
        %2 = cast %0 : i32[9, 7]
        %3 = constant 3 : i32[]
        %4 = sub %2 %3 : i32[9, 7]
        %5 = constant -125 : i32[]
        %6 = contract assign [i0 + 1, i1] (i0: 0..9, i1: 0..7) { v0 = %4[i0, i1]; yield v0 } : i32[11, 7]
        %7 = add %6 %5 : i32[11, 7]
        %8 = cast %7 : i8[11, 7]
        %9 = contract sum [y, f] (y: 0..9, f: 0..5, i: 0..3, c: 0..7) { v0 = %8[y + i, c]; v1 = %1[i, c, f]; v2 = cast v0 : i32; v3 = cast v1 : i32; v4 = mul v2 v3; yield v4 } : i32[9, 5]
        %10 = contract sum [0, f] (y: 0..1, f: 0..5, i: 0..3, c: 0..7) { v0 = %1[i, c, f]; v1 = cast v0 : i32; yield v1 } : i32[1, 5]
        %11 = mul %5 %10 : i32[1, 5]
        %12 = sub %9 %11 : i32[9, 5]
        ");
}

/// Returns whether the sum of products of two inputs in i32 is rewritten.
fn is_rewritten(left: &str, right: &str, sum: &str, shape: &str) -> bool {
    let text = format!(
        "graph f(%0) -> (P = %5)\n%0 = input X : {left}\n%1 = weight W : {right}\n\
         %2 = constant 300 : i32[]\n%3 = cast %0 : i32{}\n%4 = cast %1 : i32{}\n\
         %5 = contract sum {sum} v2 = mul v0 v1; yield v2 }} : i32{shape}\n",
        left.trim_start_matches(char::is_alphanumeric),
        right.trim_start_matches(char::is_alphanumeric),
    );
    let mut graph = Graph::parse(&text).unwrap();
    let before = graph.to_string();
    bytes(&mut graph);
    graph.to_string() != before
}

#[test]
fn products_with_rows_and_columns_are_rewritten() {
    let matrices = "[n, u] (n: 0..4, u: 0..5, k: 0..6) { v0 = %3[n, k]; v1 = %4[k, u];";
    assert!(is_rewritten("u8[4, 6]", "i8[6, 5]", matrices, "[4, 5]"));
    assert!(is_rewritten("i8[4, 6]", "i8[6, 5]", matrices, "[4, 5]"));
    assert!(!is_rewritten("i16[4, 6]", "i8[6, 5]", matrices, "[4, 5]"));
    // A depthwise convolution.
    let depthwise = "[y, c] (y: 0..4, c: 0..5, i: 0..3) { v0 = %3[y + i, c]; v1 = %4[i, c];";
    assert!(!is_rewritten("u8[6, 5]", "i8[3, 5]", depthwise, "[4, 5]"));
    // Places of a transposed convolution have sums of different lengths.
    let transposed =
        "[2*y + i, f] (y: 0..4, f: 0..5, i: 0..3, c: 0..6) { v0 = %3[y, c]; v1 = %4[i, c, f];";
    assert!(!is_rewritten("u8[4, 6]", "i8[3, 6, 5]", transposed, "[9, 5]"));
}
