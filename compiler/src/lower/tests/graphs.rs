use super::lowered;

#[test]
fn a_matrix_product() {
    let graph = lowered(
        "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
        "A = f32[2, 3]; N: 5",
    );
    insta::assert_snapshot!(graph, @r"
    graph main(%0, %1) -> (C = %2)
    %0 = input A : f32[2, 3]  # A
    %1 = input B : f32[3, 5]  # B
    %2 = contract sum [i, j] (i: 0..2, j: 0..5, k: 0..3) { v0 = %0[i, k]; v1 = %1[k, j]; v2 = mul v0 v1; yield v2 } : f32[2, 5]  # C
    ");
}

#[test]
fn ranges_follow_from_accesses_and_constraints() {
    let graph =
        lowered("function (I[N]) -> (O) { O[i: (N + 1) / 2] = >(I[2*i + j]), j < 2; }", "N: 5");
    insta::assert_snapshot!(graph, @r"
    graph main(%0) -> (O = %1)
    %0 = input I : f32[5]  # I
    %1 = contract max [i] (i: 0..3, j: 0..2) { v0 = %0[2*i + j]; yield v0 } : f32[3]  # O
    ");
    let graph = lowered("function (I[N]) -> (O) { O[i: N] = +(I[k]), i - k < N; }", "N: 5");
    insta::assert_snapshot!(graph, @r"
    graph main(%0) -> (O = %1)
    %0 = input I : f32[5]  # I
    %1 = contract sum [i] (i: 0..5, k: 0..5) where i - k >= 0 { v0 = %0[k]; yield v0 } : f32[5]  # O
    ");
    let graph = lowered(
        "function (I[N], K[M]) -> (O) { O[x: N] = +(I[x + 2*k - 1] * K[k]); }",
        "N: 8; M: 3",
    );
    insta::assert_snapshot!(graph, @r"
    graph main(%0, %1) -> (O = %2)
    %0 = input I : f32[8]  # I
    %1 = input K : f32[3]  # K
    %2 = contract sum [x] (x: 0..8, k: 0..3) { v0 = %0[x + 2*k - 1]; v1 = %1[k]; v2 = mul v0 v1; yield v2 } : f32[8]  # O
    ");
    let graph = lowered("function (I[N]) -> (O) { O[i: N] = +(I[i + 7]); }", "N: 5");
    insta::assert_snapshot!(graph, @r"
    graph main(%0) -> (O = %1)
    %0 = input I : f32[5]  # I
    %1 = contract sum [i] (i: 0..0) { v0 = %0[i + 7]; yield v0 } : f32[5]  # O
    ");
    let graph =
        lowered("function (One) -> (O) { O[i: 4] = +(One[]), i + j - 1 < 4, j < 3; }", "One = 1");
    insta::assert_snapshot!(graph, @r"
    graph main() -> (O = %0)
    %0 = contract sum [i] (i: 0..4, j: 0..3) where i + j - 1 >= 0, -i - j + 4 >= 0 { v0 = 1 : i32; yield v0 } : i32[4]  # O
    ");
}

#[test]
fn fractional_indices_become_lattices() {
    let graph = lowered("function (I[N]) -> (O) { O[i: 2*N] = =(I[i/2]); }", "N: 5");
    insta::assert_snapshot!(graph, @r"
    graph main(%0) -> (O = %1)
    %0 = input I : f32[5]  # I
    %1 = contract assign [2*i] (i: 0..5) { v0 = %0[i]; yield v0 } : f32[10]  # O
    ");
    let graph = lowered(
        "function (I[N], K[M]) -> (O) { O[x: 2*N] = +(I[(x - k)/2] * K[k]); }",
        "N: 5; M: 3",
    );
    insta::assert_snapshot!(graph, @r"
    graph main(%0, %1) -> (O = %2)
    %0 = input I : f32[5]  # I
    %1 = input K : f32[3]  # K
    %2 = contract sum [2*x + k] (x: 0..5, k: 0..3) { v0 = %0[x]; v1 = %1[k]; v2 = mul v0 v1; yield v2 } : f32[10]  # O
    ");
}

#[test]
fn assignments() {
    let graph = lowered("function (I[N]) -> (O) { O[2*i: N] = =(I[i]); }", "N: 5");
    insta::assert_snapshot!(graph, @r"
    graph main(%0) -> (O = %1)
    %0 = input I : f32[5]  # I
    %1 = contract assign [2*i] (i: 0..3) { v0 = %0[i]; yield v0 } : f32[5]  # O
    ");
    let graph = lowered("function (I[M, 4]) -> (O) { O[4*i + j: 4*M] = =(I[i, j]); }", "M: 3");
    insta::assert_snapshot!(graph, @r"
    graph main(%0) -> (O = %1)
    %0 = input I : f32[3, 4]  # I
    %1 = contract assign [4*i + j] (i: 0..3, j: 0..4) { v0 = %0[i, j]; yield v0 } : f32[12]  # O
    ");
    let graph = lowered(
        "function (I[N], D) -> (O) { O[i: N] = =(I[i]), i - 1 < 2 default D; }",
        "N: 5; D = i32[5]",
    );
    insta::assert_snapshot!(graph, @r"
    graph main(%0, %1) -> (O = %3)
    %0 = input I : f32[5]  # I
    %1 = input D : i32[5]  # D
    %2 = cast %1 : f32[5]  # O
    %3 = contract assign [i] (i: 1..3) default %2 { v0 = %0[i]; yield v0 } : f32[5]  # O
    ");
}

/// `relu` has hyper-parameters in the library, but v0 has no hyper-parameters.
#[test]
fn a_constant_is_an_input_in_v0() {
    let graph = lowered("function (X[N], S) -> (Y) { Y = X + relu(S); }", "X = f32[5]; S = -2.5");
    insta::assert_snapshot!(graph, @r"
    graph main(%0) -> (Y = %2)
    %0 = input X : f32[5]  # X
    %1 = constant 0.0 : f32[]  # Y
    %2 = add %0 %1 : f32[5]  # Y
    ");
}

#[test]
fn types_meet() {
    let graph = lowered(
        "function (X[N], S) -> (Y) { Y = S * X + 1 / 2 > 0 ? X : 0; }",
        "X = f16[5]; S = 3",
    );
    insta::assert_snapshot!(graph, @r"
    graph main(%0) -> (Y = %8)
    %0 = input X : f16[5]  # X
    %1 = constant 3.0 : f16[]  # Y
    %2 = mul %1 %0 : f16[5]  # Y
    %3 = constant 0.0 : f16[]  # Y
    %4 = add %2 %3 : f16[5]  # Y
    %5 = constant 0.0 : f16[]  # Y
    %6 = cmp_gt %4 %5 : bool[5]  # Y
    %7 = constant 0.0 : f16[]  # Y
    %8 = select %6 %0 %7 : f16[5]  # Y
    ");
    let graph = lowered(
        "function (A[N], B[N]) -> (C, D) { C = A * B; D = ~(A == 0.1); }",
        "A = i8[4]; B = bool[4]",
    );
    insta::assert_snapshot!(graph, @r"
    graph main(%0, %1) -> (C = %3, D = %7)
    %0 = input A : i8[4]  # A
    %1 = input B : bool[4]  # B
    %2 = cast %1 : i8[4]  # C
    %3 = mul %0 %2 : i8[4]  # C
    %4 = cast %0 : f32[4]  # D
    %5 = constant 0.1 : f32[]  # D
    %6 = cmp_eq %4 %5 : bool[4]  # D
    %7 = bit_not %6 : bool[4]  # D
    ");
    let graph = lowered(
        "function (A[N], B[N], C[N]) -> (O) { O[i: N] = +(A[i] == B[j] ? C[j]); }",
        "A = i8[4]; B = u8[4]; C = f16[4]",
    );
    insta::assert_snapshot!(graph, @r"
    graph main(%0, %1, %2) -> (O = %3)
    %0 = input A : i8[4]  # A
    %1 = input B : u8[4]  # B
    %2 = input C : f16[4]  # C
    %3 = contract sum [i] (i: 0..4, j: 0..4) { v0 = %0[i]; v1 = %1[j]; v2 = %2[j]; v3 = cast v1 : i8; v4 = cmp_eq v0 v3; v5 = 0.0 : f16; v6 = select v4 v2 v5; yield v6 } : f16[4]  # O
    ");
    let graph = lowered(
        "function (A[N], B[N]) -> (O) { O[i: N] = >(A[i] == B[j]); }",
        "A = i8[4]; B = f32[4]",
    );
    insta::assert_snapshot!(graph, @r"
    graph main(%0, %1) -> (O = %2)
    %0 = input A : i8[4]  # A
    %1 = input B : f32[4]  # B
    %2 = contract max [i] (i: 0..4, j: 0..4) { v0 = %0[i]; v1 = %1[j]; v2 = cast v0 : f32; v3 = cmp_eq v2 v1; yield v3 } : bool[4]  # O
    ");
    let graph = lowered("function (X) -> (Y) { Y = 0.1 * X + 3000000000; }", "X = f64[2]");
    insta::assert_snapshot!(graph, @r"
    graph main(%0) -> (Y = %4)
    %0 = input X : f64[2]  # X
    %1 = constant 0.1 : f64[]  # Y
    %2 = mul %1 %0 : f64[2]  # Y
    %3 = constant 3000000000.0 : f64[]  # Y
    %4 = add %2 %3 : f64[2]  # Y
    ");
}

#[test]
fn constants_are_computed() {
    let graph = lowered(
        "function (X[N]) -> (A, B, C) { H = -N / 2; A = H; M = max(N, 3) * mod(N, 4); B[i: M] = +(X[i]); C = sqrt(2.0) + pow(2, 10); }",
        "N: 7",
    );
    insta::assert_snapshot!(graph, @r"
    graph main(%0) -> (A = %2, B = %1, C = %3)
    %0 = input X : f32[7]  # X
    %1 = contract sum [i] (i: 0..7) { v0 = %0[i]; yield v0 } : f32[21]  # B
    %2 = constant -3 : i32[]  # A
    %3 = constant 1025.4142 : f32[]  # C
    ");
    let graph = lowered(
        "function (X[N], Y[M]) -> (Z) { K = broadcast(N, M); U = assert_positive(K > 0); Z[i: ceil(K / 2)] = +(X[i]); }",
        "N: 7; M: 1",
    );
    insta::assert_snapshot!(graph, @r"
    graph main(%0, %1) -> (Z = %2)
    %0 = input X : f32[7]  # X
    %1 = input Y : f32[1]  # Y
    %2 = contract sum [i] (i: 0..3) { v0 = %0[i]; yield v0 } : f32[3]  # Z
    ");
}

#[test]
fn any_number_of_leading_axes() {
    let graph = lowered(
        "function (X[..., K], W[K, N]) -> (Y) { Y[..., n: ..., N] = +(X[..., k] * W[k, n]); }",
        "X = f32[2, 7, 3]; N: 5",
    );
    insta::assert_snapshot!(graph, @r"
    graph main(%0, %1) -> (Y = %2)
    %0 = input X : f32[2, 7, 3]  # X
    %1 = input W : f32[3, 5]  # W
    %2 = contract sum [axis0, axis1, n] (axis0: 0..2, axis1: 0..7, n: 0..5, k: 0..3) { v0 = %0[axis0, axis1, k]; v1 = %1[k, n]; v2 = mul v0 v1; yield v2 } : f32[2, 7, 5]  # Y
    ");
}

#[test]
fn positions_of_the_best() {
    let graph = lowered("function (X[N, M]) -> (Y) { Y[i: N] = argmax(X[i, j]); }", "N: 5; M: 3");
    insta::assert_snapshot!(graph, @r"
    graph main(%0) -> (Y = %1)
    %0 = input X : f32[5, 3]  # X
    %1 = contract argmax [i] (i: 0..5, j: 0..3) { v0 = %0[i, j]; yield v0 } : i32[5]  # Y
    ");
}

#[test]
fn run_time_indices() {
    let graph = lowered(
        "function (W[V, D], T[B, N]) -> (O) { O[b, t, d: B, N, D] = =(W[T[b, t], d]); }",
        "T = i32[4, 6]; V: 10; D: 4",
    );
    insta::assert_snapshot!(graph, @r"
    graph main(%0, %1) -> (O = %2)
    %0 = input W : f32[10, 4]  # W
    %1 = input T : i32[4, 6]  # T
    %2 = contract assign [b, t, d] (b: 0..4, t: 0..6, d: 0..4) { @0 = %1[b, t]; v0 = %0[@0, d]; yield v0 } : f32[4, 6, 4]  # O
    ");
    let graph = lowered(
        "function (G[B, D], T[B]) -> (O) { O[T[b], d: 10, D] = +(G[b, d]); }",
        "T = i64[4]; D: 4",
    );
    insta::assert_snapshot!(graph, @r"
    graph main(%0, %1) -> (O = %2)
    %0 = input G : f32[4, 4]  # G
    %1 = input T : i64[4]  # T
    %2 = contract sum [place0, d] (b: 0..4, d: 0..4, place0: 0..10) { @0 = %1[b]; v0 = %0[b, d]; v1 = @0; v2 = index place0; v3 = cast v2 : i64; v4 = cmp_eq v1 v3; yield v0 v4 } : f32[10, 4]  # O
    ");
    let graph = lowered(
        "function (V[A, B], I) -> (G, S) { G = gather(V, I); S = scatter(G, I, V); }",
        "V = f32[10, 4]; I = i8[3]",
    );
    insta::assert_snapshot!(graph, @r"
    graph main(%0, %1) -> (G = %6, S = %7)
    %0 = input V : f32[10, 4]  # V
    %1 = input I : i8[3]  # I
    %2 = constant 0 : i8[]  # G
    %3 = max %1 %2 : i8[3]  # G
    %4 = constant 9 : i8[]  # G
    %5 = min %3 %4 : i8[3]  # G
    %6 = contract assign [i0, d0] (i0: 0..3, d0: 0..4) { @0 = %5[i0]; v0 = %0[@0, d0]; yield v0 } : f32[3, 4]  # G
    %7 = contract sum [v0, d0] (v0: 0..10, d0: 0..4, i0: 0..3) { @0 = %1[i0]; v0 = %6[i0, d0]; v1 = @0; v2 = index v0; v3 = cast v1 : i32; v4 = cmp_eq v3 v2; yield v0 v4 } : f32[10, 4]  # S
    ");
}

#[test]
fn functions_are_written_out() {
    let graph = lowered(
        concat!(
            "function two(X[N, M]) -> (Y, Z) { Y = X + N; Z = X * 2; }\n",
            "function (X[N, M]) -> (A) { T = two(X); A = element(T, 0) + element(T, 1); }"
        ),
        "X = f32[2, 4]",
    );
    insta::assert_snapshot!(graph, @"
    graph main(%0) -> (A = %5)
    %0 = input X : f32[2, 4]  # X
    %1 = constant 2.0 : f32[]  # Y in two
    %2 = add %0 %1 : f32[2, 4]  # Y in two
    %3 = constant 2.0 : f32[]  # Z in two
    %4 = mul %0 %3 : f32[2, 4]  # Z in two
    %5 = add %2 %4 : f32[2, 4]  # A
    ");
    let graph = lowered(
        "function (X[N, M]) -> (Y) { Y[i: N] = +(sigmoid(X[i, j]) * 2); }",
        "X = f32[2, 2]",
    );
    insta::assert_snapshot!(graph, @r"
    graph main(%0) -> (Y = %1)
    %0 = input X : f32[2, 2]  # X
    %1 = contract sum [i] (i: 0..2, j: 0..2) { v0 = %0[i, j]; v1 = sigmoid v0; v2 = 2.0 : f32; v3 = mul v1 v2; yield v3 } : f32[2]  # Y
    ");
    let graph =
        lowered("function (X[N, M]) -> (Y) { Y = builtin_softmax(X, N, M); }", "X = f32[2, 4]");
    insta::assert_snapshot!(graph, @"
    graph main(%0) -> (Y = %6)
    %0 = input X : f32[2, 4]  # X
    %1 = contract max [i, 0] (i: 0..2, j: 0..4) { v0 = %0[i, j]; yield v0 } : f32[2, 1]  # M in builtin_softmax
    %2 = stop_gradient %1 : f32[2, 1]  # E in builtin_softmax
    %3 = sub %0 %2 : f32[2, 4]  # E in builtin_softmax
    %4 = exp %3 : f32[2, 4]  # E in builtin_softmax
    %5 = contract sum [i, 0] (i: 0..2, j: 0..4) { v0 = %4[i, j]; yield v0 } : f32[2, 1]  # N in builtin_softmax
    %6 = div %4 %5 : f32[2, 4]  # Y in builtin_softmax
    ");
}

#[test]
fn functions_on_tensors() {
    let graph = lowered(
        "function (S) -> (R, State) { T = prng_step(S, 4, 5); State = prng_state(T); V = prng_value(T); R = simple_reduce(V, 1, 5) + index(V, 1); }",
        "S = u32[3, 2048]",
    );
    insta::assert_snapshot!(graph, @r"
    graph main(%0) -> (R = %6, State = %2)
    %0 = input S : u32[3, 2048]  # S
    %1 = prng_value %0 : f32[4, 5]  # T
    %2 = prng_state 20 %0 : u32[3, 2048]  # T
    %3 = contract sum [0, i1] (i0: 0..4, i1: 0..5) { v0 = %1[i0, i1]; yield v0 } : f32[1, 5]  # R
    %4 = index 1 : i32[4, 5]  # R
    %5 = cast %4 : f32[4, 5]  # R
    %6 = add %3 %5 : f32[4, 5]  # R
    ");
    let graph = lowered(
        "function (X) -> (Y, Z) { Y = shape(X); Z = as_float(reshape(X, 3, 1, 2), 16); }",
        "X = f32[2, 3]",
    );
    insta::assert_snapshot!(graph, @r"
    graph main(%0) -> (Y = %1, Z = %3)
    %0 = input X : f32[2, 3]  # X
    %1 = elements [2, 3] : i32[2]  # Y
    %2 = reshape %0 : f32[3, 1, 2]  # Z
    %3 = cast %2 : f16[3, 1, 2]  # Z
    ");
}

/// Functions such as `sqrt` of integers known at compile time are not truncated.
#[test]
fn functions_of_integer_constants() {
    for (value, expected) in [
        ("sqrt(6)", "2.4494898"),
        ("exp(1)", "2.7182817"),
        ("recip(4)", "0.25"),
        ("pow(2, -1)", "0.5"),
        ("pow(2, 3)", "8"),
        ("abs(-3)", "3"),
        ("round(3)", "3"),
    ] {
        let graph = lowered(&format!("function f(X[N]) -> (Y) {{ Y = X * {value}; }}"), "N: 2");
        assert!(graph.contains(&format!(" {expected}")), "{value}: {graph}");
    }
}
