use tile_lang::{LIBRARY, check, format};

use crate::complaints;

/// Returns the `tile` code blocks of the language reference.
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

/// Checks that each library file passes on its own, given the rest of the library.
#[test]
fn the_library_is_programs_in_their_canonical_layout() {
    for file in LIBRARY {
        let checked = check(file.text);
        let errors: Vec<_> =
            checked.diagnostics.into_iter().filter(|diagnostic| diagnostic.is_error()).collect();
        assert_eq!(errors, [], "{}", file.name);
        assert_eq!(format(file.text).as_deref(), Ok(file.text), "{}", file.name);
    }
}

/// The programs come from the documentation of PlaidML 0.7.
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
        // A conditional on a tensor's elements gives a tensor, whatever its branches are.
        "function (X[N]) -> (Y) { A = floor(X > 0 ? 1.5 : 2); Y[] = +(A[n]); }",
        "function (X[N]) -> (Y) { Y = relu(X > 0 ? 1.5 : 0); }",
    ] {
        let errors: Vec<_> = check(source).diagnostics.into_iter().filter(|diagnostic| diagnostic.is_error()).collect();
        assert_eq!(errors, [], "{source}");
    }
}

#[test]
fn a_function_of_a_program_shadows_the_library() {
    let checked = check(
        "function relu(X, Limit) -> (Y) { Y = X < Limit ? 0 : X; } function (X) -> (Y) { Y = relu(X, 1); }",
    );
    assert_eq!(checked.diagnostics, []);
}

/// The default entry is the last model, or else the last function. A layer runs only on request.
#[test]
fn the_entry() {
    let entry = |source: &str, name: Option<&str>| {
        let program = check(source).program.expect("the program is in order");
        match program.entry(name) {
            Ok(function) => {
                function.name.as_ref().map_or("none".to_string(), |name| name.name.clone())
            }
            Err(error) => format!("{}; {}", error.message, error.help.unwrap_or_default()),
        }
    };
    let (f, m) = ("function f(X) -> (Y) { Y = X; } ", "model M(X) -> (Y) { Y = X; } ");
    let (l, n) = ("layer L(X) -> (Y) { Y = X; } ", "model N(X) -> (Y) { Y = X; } ");
    assert_eq!(entry(&[m, n, f, l].concat(), None), "N");
    assert_eq!(entry(&[f, "function (X) -> (Y) { Y = X; } ", l].concat(), None), "none");
    assert_eq!(entry(&[m, l].concat(), Some("L")), "L");
    assert_eq!(
        entry(l, None),
        "expected a model or a function, found only other definitions; choose a layer with `--entry`: L"
    );
    assert_eq!(entry(l, Some("Dense")), "unknown model or function `Dense`; the file has L");
    assert_eq!(entry("", None), "expected a model or a function, found none in this file; ");
}
