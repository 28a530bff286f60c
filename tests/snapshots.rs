//! Small programs through every stage, one construct each: the syntax tree, the optimised graph,
//! the plan, its kernels, and WGSL, as `--emit` shows them. `tests/snapshots/NAME.snap` holds them,
//! after the program.

use std::fmt::Write;

use tile_compiler::dtype::DType;
use tile_compiler::emit::{Target, write};
use tile_compiler::lower::{Binding, Bindings, lower};
use tile_compiler::pipeline;
use tile_compiler::profile::Profile;
use tile_compiler::tensor::TensorType;

mod common;

/// Returns every stage of a program, for inputs of these types: `X=f32:2x3`.
fn stages(source: &str, inputs: &str) -> String {
    let checked = tile_lang::check(source);
    let errors = tile_lang::render(&checked.diagnostics, &checked.sources, false);
    let program = checked.program.unwrap_or_else(|| panic!("{errors}"));
    let bindings = Bindings {
        inputs: inputs.split_whitespace().map(binding).collect(),
        ..Bindings::default()
    };
    let mut graph = lower(&program, None, &bindings)
        .unwrap_or_else(|errors| panic!("{}", tile_lang::render(&errors, &checked.sources, false)))
        .graph;
    pipeline::optimise(&mut graph);
    let plan =
        pipeline::plan(&graph, &Profile::generic()).unwrap_or_else(|error| panic!("{error:?}"));

    let mut text = format!("{source}\n// {inputs}\n");
    let mut section = |name: &str, stage: String| {
        let _ = write!(text, "\n======== {name}\n{}\n", stage.trim_end());
    };
    section("ast", tile_lang::ast_text(&tile_lang::parse(source).file));
    section("graph", graph.to_string());
    section("plan", plan.to_string());
    for routine in &plan.routines {
        section("nest", routine.to_string());
        let Some(kernel) = &routine.kernel else { continue };
        section("kernel", kernel.to_string());
        section(
            "wgsl",
            write(kernel, Target::Wgsl).unwrap_or_else(|error| panic!("{error}")).text(),
        );
    }
    let kernels = plan.routines.into_iter().filter_map(|routine| routine.kernel);
    common::tools::check(&common::tools::distinct(kernels));
    text
}

fn binding(text: &str) -> (String, Binding) {
    let (name, ty) = text.split_once('=').unwrap();
    let (dtype, sizes) = ty.split_once(':').unwrap();
    let shape: Vec<usize> =
        sizes.split('x').filter(|s| !s.is_empty()).map(|s| s.parse().unwrap()).collect();
    (name.to_string(), Binding::Tensor(TensorType::new(DType::parse(dtype).unwrap(), shape)))
}

macro_rules! programs {
    ($($name:ident($inputs:literal) $source:literal)*) => {
        $(#[test]
        fn $name() {
            insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
                insta::assert_snapshot!(stringify!($name), stages($source, $inputs));
            });
        })*
    };
}

programs! {
    sum("X=f32:5x7")
    "function f(X[M, N]) -> (Y) { Y[m: M] = +(X[m, n]); }"

    sum_of_everything("X=f32:1000x70")
    "function f(X[M, N]) -> (Y) { Y[] = +(X[m, n]); }"

    max("X=i32:5x7")
    "function f(X[M, N]) -> (Y) { Y[n: N] = >(X[m, n]); }"

    argmax("X=f32:5x7")
    "function f(X[M, N]) -> (Y) { Y[m: M] = argmax(X[m, n]); }"

    matmul("A=f32:64x64 B=f32:64x64")
    "function f(A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"

    matmul_with_remainders("A=f32:37x53 B=f32:53x29")
    "function f(A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"

    dense_layer("X=f32:32x48 W=f32:48x64 B=f32:64")
    "function f(X[N, K], W[K, U], B[U]) -> (Y) { P[n, u: N, U] = +(X[n, k] * W[k, u]); Y = relu(P + B); }"

    rows_of_a_product("X=f32:32x16 W=f32:16x24")
    "function f(X[N, K], W[K, U]) -> (Y) {
        P[n, u: N, U] = +(X[n, k] * W[k, u]);
        M[n, 0: N, 1] = >(P[n, u]);
        Y = P - M;
    }"

    convolution("X=f32:1x9x9x4 K=f32:3x3x4x8")
    "function f(X[N, H, W, CI], K[KH, KW, CI, CO]) -> (Y) {
        Y[n, y, x, co: N, H, W, CO] = +(X[n, y + j - 1, x + i - 1, ci] * K[j, i, ci, co]);
    }"

    convolution_gradient("X=f32:1x9x9x4 K=f32:3x3x4x8 G=f32:1x9x9x8")
    "function f(X[N, H, W, CI], K[KH, KW, CI, CO], G) -> (DX, DK) {
        Y[n, y, x, co: N, H, W, CO] = +(X[n, y + j - 1, x + i - 1, ci] * K[j, i, ci, co]);
        DX, DK = grad(sum(Y * G), [X, K]);
    }"

    strided_and_dilated("X=f32:20 K=f32:3")
    "function f(X[N], K[M]) -> (Y) { Y[i: (N - 5)/3 + 1] = +(X[3*i + 2*j] * K[j]); }"

    transposed("X=f32:5 K=f32:3")
    "function f(X[N], K[M]) -> (Y) { Y[2*i + j: 2*N + 1] = +(X[i] * K[j]); }"

    fractional_index("X=f32:4")
    "function f(X[N]) -> (Y) { Y[i: 2*N] = =(X[i/2]); }"

    cumulative_sum("X=f32:8")
    "function f(X[N]) -> (Y) { Y[i: N] = +(X[k]), i - k < N; }"

    pooling("X=f32:1x7x5x3")
    "function f(X[N, H, W, C]) -> (Y) {
        Y[n, y, x, c: N, (H + 1)/2, (W + 1)/2, C] = >(X[n, 2*y + j, 2*x + i, c]), j < 2, i < 2;
    }"

    diagonal("X=f32:6x6")
    "function f(X[N, N]) -> (Y) { Y[i: N] = =(X[i, i]); }"

    skipped_places_have_a_default("X=f32:4 D=f32:8")
    "function f(X[N], D[M]) -> (Y) { Y[2*i: M] = =(X[i]) default D; }"

    selection("K=i32:9 Q=i32:4 V=f32:9")
    "function f(K[N], Q[M], V[N]) -> (Y) { Y[m: M] = +(K[n] == Q[m] ? V[n]); }"

    expression_inside("A=f32:5x3 B=f32:7x3")
    "function f(A[M, D], B[N, D]) -> (Y) { Y[m, n: M, N] = +(abs(A[m, d] - B[n, d])); }"

    gather("V=f32:10x4 I=i32:3")
    "function f(V[N, D], I[M]) -> (Y) { Y = gather(V, I); }"

    elementwise_chain("A=f32:16x64 B=f32:64")
    "function f(A[M, N], B[N]) -> (Y) { S = A * B + 1; T = tanh(S); Y = S > 0 ? T : -T; }"

    shared_and_dead("X=f32:8")
    "function f(X[N]) -> (Y) { A = exp(X + 1); B = exp(X + 1); Dead = sin(X); Y = A * B * (2 * 3); }"

    integer_division("X=i32:8")
    "function f(X[N]) -> (Y) { Y = X / 3 + (X >> 1); }"

    narrow_types("A=u8:8 B=f16:8")
    "function f(A[N], B[N]) -> (Y, Z) { Y = A + A; Z = B * B; }"

    comparison("X=f32:8")
    "function f(X[N]) -> (Y) { Y = X < 1.5; }"

    reshape_and_index("X=f32:2x6")
    "function f(X[M, N]) -> (Y) { Y = reshape(X, N, M) + index(reshape(X, N, M), 0); }"

    functions("X=f32:8")
    "function square(X) -> (Y) { Y = X * X; }
    function f(X[N]) -> (Y) { Y = square(square(X) + 1); }"

    softmax("X=f32:4x10")
    "function f(X[N, C]) -> (Y) {
        Max[n, 0: N, 1] = >(X[n, c]);
        E = exp(X - Max);
        Sum[n, 0: N, 1] = +(E[n, c]);
        Y = E / Sum;
    }"
}
