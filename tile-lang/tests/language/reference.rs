use tile_lang::{LIBRARY, check, format};

use crate::complaints;

/// The ```tile blocks of the language reference.
fn blocks() -> Vec<&'static str> {
    let parts = include_str!("../../README.md").split("```");
    parts.filter_map(|part| part.strip_prefix("tile\n")).collect()
}

#[test]
fn the_examples_of_the_reference_are_programs_in_their_canonical_layout() {
    assert!(blocks().len() >= 4);
    for block in blocks() {
        assert_eq!(complaints(block), "", "{block}");
        assert_eq!(format(block).as_deref(), Ok(block));
    }
}

/// Every file of the library stands on its own, with the rest of the library.
#[test]
fn the_library_is_programs_in_their_canonical_layout() {
    for file in LIBRARY {
        let checked = check(file.text);
        let errors: Vec<_> = checked.diagnostics.into_iter().filter(|diagnostic| diagnostic.is_error()).collect();
        assert_eq!(errors, [], "{}", file.name);
        assert_eq!(format(file.text).as_deref(), Ok(file.text), "{}", file.name);
    }
}

/// From the documentation of PlaidML 0.7.
#[test]
fn programs_of_v0_pass() {
    for source in [
        "function (I[M, N]) -> (O) { O[n: N] = +(I[m, n]); }",
        "function (I[N]) -> (O) { O[i: (N + 1) / 2] = >(I[2*i + j]), j < 2; }",
        "function (I[N, H, W]) -> (O) { T[n: N] = +(I[n, i, j]); O = T / (H * W); }",
        "function (I[N]) -> (O) { O[i: N] = +(I[k]), i - k < N; }",
        "function (I[N, M]) -> (O) { O[2*n: 2*N] = +(I[2*n, m]); }",
        "function (I[N, LX, LY, CI], K[KX, KY, CI, CO]) -> (O) { O[n, x, y, co: N, LX - 2*(KX-1), LY - 3*(KY-1), CO] =
            +(I[n, x + 2*kx, y + 3*ky, ci] * K[kx, ky, ci, co]); }",
        "function (A[M, N], B) -> (O) { [[pid(foo)]] O[i, j: M, N] = =(A[i, j]) default B no_defract; }",
        "function (X[N], K) -> (Y) { Y = X * K; }",
        "function (X[N], K) -> (Y) { L = N / K; Y[i: L] = +(X[K*i + j]), j < K; }",
        "function (X[R, C]) -> (Y) { Y = builtin_softmax(X, R, C); }",
    ] {
        let errors: Vec<_> = check(source).diagnostics.into_iter().filter(|diagnostic| diagnostic.is_error()).collect();
        assert_eq!(errors, [], "{source}");
    }
}

#[test]
fn a_function_of_a_program_shadows_the_library() {
    let checked =
        check("function relu(X, Limit) -> (Y) { Y = X < Limit ? 0 : X; } function (X) -> (Y) { Y = relu(X, 1); }");
    assert_eq!(checked.diagnostics, []);
}
