use crate::dtype::{DType, Scalar};
use crate::graph::Graph;
use crate::tensor::{Tensor, TensorType};

use super::run;

/// Runs a graph given as text. Each input is a name, a type and its elements.
fn results(text: &str, inputs: &[(&str, DType, &[usize], &str)]) -> String {
    let graph = Graph::parse(text).unwrap();
    let tensor = |&(name, dtype, shape, values): &(&str, DType, &[usize], &str)| {
        let scalars = values.split_whitespace().map(|v| Scalar::parse(dtype, v).unwrap());
        (name.to_string(), Tensor::from_scalars(TensorType::new(dtype, shape), scalars).unwrap())
    };
    match run(&graph, &inputs.iter().map(tensor).collect::<Vec<_>>()) {
        Ok(outputs) => {
            outputs.iter().map(|(name, t)| format!("{name} = {t:?}")).collect::<Vec<_>>().join("\n")
        }
        Err(error) => error.to_string(),
    }
}

/// Runs one node, `%1`, over the input X.
fn over_x(dtype: DType, shape: &[usize], values: &str, node: &str) -> String {
    let ty = TensorType::new(dtype, shape);
    let text = format!("graph g(%0) -> (Y = %1)\n%0 = input X : {ty}\n%1 = {node}");
    results(&text, &[("X", dtype, shape, values)])
}

#[test]
fn elementwise_operations_broadcast() {
    let text = "\
graph g(%0, %1) -> (Sum = %2, Row = %3, Which = %6)
%0 = input X : f32[2, 1]
%1 = input Y : f32[3]
%2 = add %0 %1 : f32[2, 3]
%3 = index 1 : i32[2, 3]
%4 = constant 1 : i32[]
%5 = cmp_eq %3 %4 : bool[2, 3]
%6 = select %5 %0 %1 : f32[2, 3]
";
    let inputs = [("Y", DType::F32, &[3][..], "1 2 3"), ("X", DType::F32, &[2, 1], "10 20")];
    insta::assert_snapshot!(results(text, &inputs), @"
    Sum = f32[2, 3] [11.0, 12.0, 13.0, 21.0, 22.0, 23.0]
    Row = i32[2, 3] [0, 1, 2, 0, 1, 2]
    Which = f32[2, 3] [1.0, 10.0, 3.0, 1.0, 20.0, 3.0]
    ");
}

#[test]
fn every_aggregation_of_the_rows_of_a_matrix() {
    for aggregation in ["sum", "product", "max", "min", "argmax", "argmin"] {
        let ty = if aggregation.starts_with("arg") { "i32" } else { "i8" };
        let node = format!(
            "contract {aggregation} [i] (i: 0..2, j: 0..3) {{ v0 = %0[i, j]; yield v0 }} : {ty}[2]"
        );
        let result = over_x(DType::I8, &[2, 3], "3 -2 3 100 100 -2", &node);
        match aggregation {
            "sum" => insta::assert_snapshot!(result, @"Y = i8[2] [4, -58]"),
            "product" => insta::assert_snapshot!(result, @"Y = i8[2] [-18, -32]"),
            "max" => insta::assert_snapshot!(result, @"Y = i8[2] [3, 100]"),
            "min" => insta::assert_snapshot!(result, @"Y = i8[2] [-2, -2]"),
            "argmax" => insta::assert_snapshot!(result, @"Y = i32[2] [0, 0]"),
            _ => insta::assert_snapshot!(result, @"Y = i32[2] [1, 2]"),
        }
    }
}

#[test]
fn a_sum_rounds_once() {
    let node = "contract sum [] (i: 0..4) { v0 = %0[i]; yield v0 } : f16[]";
    insta::assert_snapshot!(over_x(DType::F16, &[4], "2048 1 1 -2048", node), @"Y = f16[] [2.0]");
}

#[test]
fn places_on_which_nothing_falls() {
    // Unwritten places; windows over the end; a maximum of -inf counts as written.
    let node = "contract assign [2*i] (i: 0..2) { v0 = %0[i]; yield v0 } : f32[4]";
    insta::assert_snapshot!(over_x(DType::F32, &[2], "5 6", node), @"Y = f32[4] [5.0, 0.0, 6.0, 0.0]");
    let node = "contract max [i] (i: 0..3, j: 0..2) where j - 1 >= 0 { v0 = %0[i + j]; yield v0 } : f32[3]";
    insta::assert_snapshot!(over_x(DType::F32, &[3], "1 -inf -3", node), @"Y = f32[3] [-inf, -3.0, 0.0]");
    let node = "contract sum [i] (i: 0..3) default %0 { v0 = %0[i + 1]; v1 = -1.0 : f32; v2 = cmp_gt v0 v1; yield v0 v2 } : f32[3]";
    insta::assert_snapshot!(over_x(DType::F32, &[3], "7 8 -9", node), @"Y = f32[3] [8.0, 8.0, -9.0]");
    let node = "contract argmax [] (i: 0..3) where i - 1 >= 0 { v0 = %0[i]; yield v0 } : i32[]";
    insta::assert_snapshot!(over_x(DType::F32, &[3], "1 -inf -inf", node), @"Y = i32[] [1]");
    insta::assert_snapshot!(over_x(DType::F32, &[3], "1 NaN -inf", node), @"Y = i32[] [2]");
}

#[test]
fn a_tensor_as_an_index() {
    let text = "\
graph g(%0, %1) -> (Gathered = %2, Scattered = %3)
%0 = input W : f32[3, 2]
%1 = input T : u8[4]
%2 = contract assign [t, d] (t: 0..4, d: 0..2) { @0 = %1[t]; v0 = %0[@0, d]; yield v0 } : f32[4, 2]
%3 = contract sum [v] (t: 0..4, v: 0..3) { v0 = %1[t]; v1 = index v; v2 = cast v1 : u8; v3 = cmp_eq v0 v2; v4 = index t; v5 = cast v4 : f32; yield v5 v3 } : f32[3]
";
    let inputs =
        [("W", DType::F32, &[3, 2][..], "1 2 3 4 5 6"), ("T", DType::U8, &[4], "2 0 200 2")];
    insta::assert_snapshot!(results(text, &inputs), @"
    Gathered = f32[4, 2] [5.0, 6.0, 1.0, 2.0, 0.0, 0.0, 5.0, 6.0]
    Scattered = f32[3] [1.0, 0.0, 3.0]
    ");
}

#[test]
fn empty_tensors() {
    let node = "contract sum [i] (i: 0..2, j: 0..0) { v0 = %0[i, j]; yield v0 } : f32[2]";
    insta::assert_snapshot!(over_x(DType::F32, &[2, 0], "", node), @"Y = f32[2] [0.0, 0.0]");
    insta::assert_snapshot!(over_x(DType::F32, &[2, 0], "", "neg %0 : f32[2, 0]"), @"Y = f32[2, 0] []");
    insta::assert_snapshot!(over_x(DType::F32, &[2, 0], "", "reshape %0 : f32[0]"), @"Y = f32[0] []");
}

#[test]
fn the_random_generator_continues_from_its_state() {
    let text = "\
graph g(%0) -> (Same = %8)
%0 = input S : u32[3, 2048]
%1 = prng_value %0 : f32[2, 2500]
%2 = prng_state 2048 %0 : u32[3, 2048]
%3 = prng_value %2 : f32[2952]
%4 = reshape %1 : f32[5000]
%5 = contract assign [i] (i: 0..2952) { v0 = %4[i + 2048]; yield v0 } : f32[2952]
%6 = cmp_eq %3 %5 : bool[2952]
%7 = contract product [] (i: 0..2952) { v0 = %6[i]; yield v0 } : bool[]
%8 = cast %7 : i32[]
";
    let words = (1..=3 * 2048u32)
        .map(|i| i.wrapping_mul(2_654_435_769).to_string())
        .collect::<Vec<_>>()
        .join(" ");
    insta::assert_snapshot!(results(text, &[("S", DType::U32, &[3, 2048], &words)]), @"Same = i32[] [1]");
    let first = "graph g(%0) -> (Y = %1)\n%0 = input S : u32[3, 2048]\n%1 = prng_value %0 : f32[3]";
    insta::assert_snapshot!(results(first, &[("S", DType::U32, &[3, 2048], &words)]), @"Y = f32[3] [0.7684477, 0.4145203, 0.98355067]");
}

#[test]
fn errors_name_the_input() {
    let text = "graph g(%0) -> (Y = %0)\n%0 = input X : f32[2]";
    insta::assert_snapshot!(results(text, &[]), @"X is missing");
    insta::assert_snapshot!(results(text, &[("X", DType::F32, &[1], "1")]), @"X is f32[1], but must be f32[2]");
    insta::assert_snapshot!(results(text, &[("X", DType::F32, &[2], "1 2"), ("Z", DType::F32, &[], "1")]), @"there is no input or weight Z");
    let text = "graph g() -> (Y = %0)\n%0 = index 0 : i32[1073741824, 1073741824]";
    insta::assert_snapshot!(results(text, &[]), @"there is no memory for 4611686018427387904 bytes");
}
