use std::collections::HashMap;

use super::*;
use crate::fusion::fuse;
use crate::interpret;
use crate::tensor::Tensor;

/// Returns the graph with buffers of at most `most` bytes, and its whole tensors. `None` if some
/// tensor cannot be cut.
fn with_buffers(text: &str, most: u64) -> Option<(Graph, Wholes)> {
    let mut graph = Graph::parse(text).unwrap();
    graph.verify().unwrap();
    let profile = Profile { max_binding_bytes: most, ..Profile::generic() };
    let mut wholes = Wholes::new();
    loop {
        let large = fuse(&graph, &profile).larger_than_buffers(&profile);
        if large.is_empty() {
            return Some((graph, wholes));
        }
        (graph, wholes) = partition(&graph, &large, &profile, &wholes)?;
        graph.verify().unwrap_or_else(|fault| panic!("{fault}\n{graph}"));
    }
}

/// Returns small whole numbers of both signs, all different from their neighbours.
fn numbers(ty: &TensorType) -> Tensor {
    let number = |at: usize| Scalar::from_f64(ty.dtype, ((at * 37 + at / 11) % 17) as f64 - 6.0);
    Tensor::from_scalars(ty.clone(), (0..ty.elements()).map(number)).unwrap()
}

/// Compares the results of a graph with those of its parts. Inputs of integers are indices below
/// `below`.
fn check(text: &str, most: u64, below: usize) {
    let graph = Graph::parse(text).unwrap();
    let (parts, wholes) = with_buffers(text, most).expect("a graph that can be cut");
    assert!(!wholes.is_empty() || parts.ids().count() > graph.ids().count(), "{parts}");
    let given = |id: NodeId| {
        let ty = &graph.node(id).ty;
        let index = |at: usize| Scalar::from_f64(ty.dtype, ((at * 29 + 3) % below) as f64);
        let tensor = match ty.dtype.is_float() {
            true => numbers(ty),
            false => Tensor::from_scalars(ty.clone(), (0..ty.elements()).map(index)).unwrap(),
        };
        (graph.node(id).op.given_name().unwrap().to_owned(), tensor)
    };
    let inputs: Vec<(String, Tensor)> =
        graph.inputs.iter().chain(&graph.weights).map(|&id| given(id)).collect();
    let mut taken: HashMap<String, usize> = HashMap::new();
    let part = |&id: &NodeId| {
        let (ty, name) = (&parts.node(id).ty, parts.node(id).op.given_name().unwrap());
        let whole = wholes.get(name).map_or(name, |(name, _)| name);
        let (_, tensor) = inputs.iter().find(|(name, _)| name == whole).unwrap();
        let first = taken.entry(whole.to_owned()).or_insert(0);
        let own = *first..*first + ty.elements();
        *first = own.end;
        (name.to_owned(), Tensor::from_scalars(ty.clone(), own.map(|at| tensor.get(at))).unwrap())
    };
    let of_parts: Vec<(String, Tensor)> =
        parts.inputs.iter().chain(&parts.weights).map(part).collect();
    let mut found: Vec<(String, Vec<f64>)> = Vec::new();
    for (name, tensor) in interpret::run(&parts, &of_parts).unwrap() {
        let name = wholes.get(&name).map_or(name, |(name, _)| name.clone());
        match found.last_mut().filter(|(last, _)| *last == name) {
            Some((_, values)) => values.extend(tensor.to_f64s()),
            None => found.push((name, tensor.to_f64s())),
        }
    }
    let expected = interpret::run(&graph, &inputs).unwrap();
    let expected: Vec<(String, Vec<f64>)> =
        expected.into_iter().map(|(name, tensor)| (name, tensor.to_f64s())).collect();
    assert_eq!(found, expected, "{parts}");
}

#[test]
fn a_product_of_a_large_weight() {
    let (graph, wholes) = with_buffers("\
graph dense(%0) -> (Y = %2)
%0 = input X : f32[4, 60]
%1 = weight W : f32[60, 64]
%2 = contract sum [n, u] (n: 0..4, u: 0..64, k: 0..60) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 } : f32[4, 64]
", 8192).unwrap();
    insta::assert_snapshot!(graph, @"
    graph dense(%0) -> (Y = %5)
    %0 = input X : f32[4, 60]
    %1 = weight W[0..30] : f32[30, 64]
    %2 = weight W[30..60] : f32[30, 64]
    %3 = contract sum [n, u] (n: 0..4, u: 0..64, k: 0..30) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 } : f32[4, 64]
    %4 = contract sum [n, u] (n: 0..4, u: 0..64, k: 0..30) { v0 = %0[n, k + 30]; v1 = %2[k, u]; v2 = mul v0 v1; yield v2 } : f32[4, 64]
    %5 = add %3 %4 : f32[4, 64]
    ");
    let whole =
        |(part, (name, ty)): (&String, &(String, TensorType))| format!("{part} of {name} {ty}");
    let mut wholes: Vec<String> = wholes.iter().map(whole).collect();
    wholes.sort();
    assert_eq!(wholes, ["W[0..30] of W f32[60, 64]", "W[30..60] of W f32[60, 64]"]);
}

#[test]
fn products() {
    // The weight is cut along the terms, along the columns, and within a row.
    let product = "\
graph dense(%0) -> (Y = %2)
%0 = input X : f32[3, 7]
%1 = weight W : f32[7, 10]
%2 = contract sum [n, u] (n: 0..3, u: 0..10, k: 0..7) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 } : f32[3, 10]
";
    [200, 120, 90, 30].into_iter().for_each(|most| check(product, most, 1));
    let transposed = product.replace("[7, 10]", "[10, 7]").replace("%1[k, u]", "%1[u, k]");
    [200, 120, 84, 20].into_iter().for_each(|most| check(&transposed, most, 1));
    // Two large tensors, cut at different rows; and one with itself.
    check("\
graph pairs(%0, %1) -> (Y = %2, Z = %3)
%0 = input A : f32[14, 3]
%1 = input B : f32[9, 3]
%2 = contract sum [i] (i: 0..14, j: 0..9, k: 0..3) { v0 = %0[i, k]; v1 = %1[j, k]; v2 = mul v0 v1; yield v2 } : f32[14]
%3 = contract sum [] (i: 0..14, j: 0..14, k: 0..3) { v0 = %0[i, k]; v1 = %0[j, k]; v2 = mul v0 v1; yield v2 } : f32[]
", 60, 1);
}

#[test]
fn rows_by_number_and_their_gradient() {
    check("\
graph rows(%1) -> (Y = %2)
%0 = weight T : f32[11, 5]
%1 = input I : i32[4, 2]
%2 = contract assign [n, m, d] (n: 0..4, m: 0..2, d: 0..5) { @0 = %1[n, m]; v0 = %0[@0, d]; yield v0 } : f32[4, 2, 5]
", 170, 13);
    check(
        "\
graph sums(%1) -> (Y = %2)
%0 = weight T : f32[11, 5]
%1 = input I : i32[8]
%2 = contract sum [d] (n: 0..8, d: 0..5) { @0 = %1[n]; v0 = %0[1 + @0, d]; yield v0 } : f32[5]
",
        60,
        13,
    );
    check("\
graph scattered(%0, %1) -> (Y = %2)
%0 = input G : f32[8, 5]
%1 = input I : i32[8]
%2 = contract sum [v, d] (v: 0..11, n: 0..8, d: 0..5) { @0 = %1[n]; v0 = @0; v1 = index v; v2 = cmp_eq v0 v1; v3 = %0[n, d]; yield v3 v2 } : f32[11, 5]
", 180, 11);
}

#[test]
fn windows() {
    // Some read two parts.
    check("\
graph windows(%0, %1) -> (Y = %2)
%0 = input X : f32[1, 19, 6]
%1 = input K : f32[3]
%2 = contract sum [n, y, x] (n: 0..1, y: 0..9, x: 0..6, i: 0..3) where 2*y + i - 1 >= 0 { v0 = %0[n, 2*y + i - 1, x]; v1 = %1[i]; v2 = mul v0 v1; yield v2 } : f32[1, 9, 6]
", 220, 1);
    // Some lie side by side; and one row of several.
    check("\
graph pooled(%0) -> (Y = %1, Z = %2)
%0 = input X : f32[1, 101, 6]
%1 = contract max [n, y, x] (n: 0..1, y: 0..50, x: 0..6, i: 0..2) { v0 = %0[n, 2*y + i, x]; yield v0 } : f32[1, 50, 6]
%2 = contract min [] (j: 0..6) { v0 = %0[0, 40, j]; yield v0 } : f32[]
", 900, 1);
}

#[test]
fn weights_and_their_next_values() {
    // Elementwise and through another shape.
    check("\
graph update(%0, %1, %2) -> (W = %8, N = %9)
%0 = input X : f32[3, 12]
%1 = input G : f32[3, 10]
%2 = input R : f32[10]
%3 = weight W : f32[12, 10]
%4 = contract sum [k, u] (n: 0..3, u: 0..10, k: 0..12) { v0 = %0[n, k]; v1 = %1[n, u]; v2 = mul v0 v1; yield v2 } : f32[12, 10]
%5 = mul %4 %2 : f32[12, 10]
%6 = reshape %3 : f32[1, 24, 5]
%7 = reshape %6 : f32[12, 10]
%8 = sub %7 %5 : f32[12, 10]
%9 = contract max [u] (u: 0..10, k: 0..12) { v0 = %8[k, u]; yield v0 } : f32[10]
", 170, 1);
    // Computed from other tensors.
    check(
        "\
graph replaced(%0, %2) -> (W = %3, Y = %4)
%0 = input X : f32[12, 1]
%1 = weight W : f32[12, 10]
%2 = input R : f32[10]
%3 = mul %0 %2 : f32[12, 10]
%4 = contract sum [u] (u: 0..10, k: 0..12) { v0 = %1[k, u]; yield v0 } : f32[10]
",
        170,
        1,
    );
}

#[test]
fn elements() {
    // A column that broadcasts, coordinates, and a row by row choice.
    check(
        "\
graph table(%0, %1) -> (Y = %5, P = %6)
%0 = input C : f32[9, 1]
%1 = input R : f32[8]
%2 = index 0 : i32[9, 8]
%3 = cast %2 : f32[9, 8]
%4 = mul %0 %1 : f32[9, 8]
%5 = add %3 %4 : f32[9, 8]
%6 = contract argmax [i] (i: 0..9, j: 0..8) { v0 = %5[i, j]; yield v0 } : i32[9]
",
        128,
        1,
    );
    // A part of a tensor replaced, and constants.
    check("\
graph replaced(%0, %1) -> (Y = %2, Z = %4)
%0 = input X : f32[9, 4]
%1 = input V : f32[3, 4]
%2 = contract assign [i + 4, j] (i: 0..3, j: 0..4) default %0 { v0 = %1[i, j]; yield v0 } : f32[9, 4]
%3 = elements [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0] : f32[17]
%4 = contract sum [i] (i: 0..16) { v0 = %3[i]; v1 = %3[i + 1]; v2 = mul v0 v1; yield v2 } : f32[16]
", 64, 1);
}

#[test]
fn sums_of_16_bit_floats_are_rounded_once() {
    let text = "\
graph sum(%0) -> (Y = %1)
%0 = input X : f16[4, 30000]
%1 = contract sum [] (i: 0..4, j: 0..30000) { v0 = %0[i, j]; yield v0 } : f16[]
";
    let (parts, _) = with_buffers(text, 120_000).unwrap();
    let row = |sign: f64| {
        let scalars = (0..30000).map(move |_| Scalar::from_f64(DType::F16, sign * 100.0));
        Tensor::from_scalars(TensorType::new(DType::F16, [1, 30000]), scalars).unwrap()
    };
    let rows = parts.inputs.iter().zip([100.0, -100.0, 1.0, -1.0]);
    let given: Vec<(&str, Tensor)> =
        rows.map(|(id, sign)| (parts.node(*id).op.given_name().unwrap(), row(sign))).collect();
    assert_eq!(interpret::run(&parts, &given).unwrap()[0].1.to_f64s(), [0.0]);
    // The terms of a product are not rounded before.
    let product =
        text.replace("v0 = %0[i, j]; yield v0", "v0 = %0[i, j]; v1 = mul v0 v0; yield v1");
    let (parts, _) = with_buffers(&product, 120_000).unwrap();
    let is_f32 = |op: &Contraction| {
        op.is_sum_of_products() && op.body.dtype(op.body.results[0]) == DType::F32
    };
    assert!(parts.ids().all(|id| match &parts.node(id).op {
        Op::Contraction(op) => is_f32(op),
        _ => true,
    }));
}

#[test]
fn random_numbers_are_those_of_the_whole() {
    let text = "\
graph random(%0) -> (Y = %1, S = %3)
%0 = input S0 : u32[3, 2048]
%1 = prng_value %0 : f32[96, 128]
%2 = prng_state 12288 %0 : u32[3, 2048]
%3 = contract sum [i] (i: 0..3, j: 0..2048) { v0 = %2[i, j]; yield v0 } : u32[3]
";
    check(text, 24576, 1 << 20);
    // Parts that begin at other lanes than the first.
    check(&text.replace("96, 128", "3072, 5").replace("12288", "15360"), 24576, 1 << 20);
}

#[test]
fn what_has_no_parts_stays_whole() {
    for operation in [
        "contract max [y] (y: 0..17, i: 0..3) where y + i - 1 >= 0 { v0 = %0[y + i - 1]; yield v0 } : f32[17]",
        "contract argmax [] (y: 0..17) { v0 = %0[y]; yield v0 } : i32[]",
    ] {
        let text = format!("graph g(%0) -> (Y = %1)\n%0 = input X : f32[17]\n%1 = {operation}\n");
        assert!(with_buffers(&text, 40).is_none(), "{operation}");
    }
}
