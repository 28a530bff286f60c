use insta::assert_snapshot;

use crate::{brief, complaints};

#[test]
fn rendered_with_the_source_and_a_way_out() {
    let source = "function f(Kernel[K, N], X[K]) -> (Y) {\n    Y[n: N] = +(Kernle[k, n] * X[k, 0]);\n}\n";
    assert_snapshot!(complaints(source), @"");
}

#[test]
fn several_syntax_errors_at_once() {
    let source = "function f(A) -> (O) {
            B = A + ;
            C = A A;
            D = 3 $ 4;
            E = f(A)
            F = A;
            G = (A;
            O = A
        }
        function g( -> (O) { O = 1; }
        function h(A) -> (O) { O = A < A < A; }
        nonsense";
    assert_snapshot!(brief(source), @"");
}

#[test]
fn contraction_syntax() {
    let source = "function (A[N, M]) -> (O) {
            O[i: N] = A[i, j];
            P[i: N] ==(A[i, j]);
            Q[i: N] = +(A[i, j]), i <= 3;
            R[i: N] = sum(A[i, j]);
            S[i: N] = +(A[i, j]) default A default A;
            T[i: N = +(A[i, j]);
        }";
    assert_snapshot!(brief(source), @"");
}

#[test]
fn numbers() {
    let source = "function () -> (O) { A = 9223372036854775808; B = 1e999; C = 3.; O = ü; }";
    assert_snapshot!(brief(source), @"");
}

#[test]
fn the_end_of_the_file() {
    assert_snapshot!(brief("function (A) -> (O) { O = A;"), @"");
}

#[test]
fn names() {
    let source = "function (A[M, N], A, M) -> (O, O, Missing) {
            B = Late + sigmod(A) + a;
            Late = Late2 + Late2;
            B = A;
            N = A;
            x = A;
            O = exp(A, A) + gather(A);
        }
        function f(X) -> (Y) { Y = X; }
        function f(X) -> (Y) { Y = X; }";
    assert_snapshot!(brief(source), @"");
}

#[test]
fn recursion() {
    let source = "function f(X) -> (Y) { Y = g(X); }
        function g(X) -> (Y) { Y = h(X); }
        function h(X) -> (Y) { Y = g(X); }";
    assert_snapshot!(brief(source), @"");
}

#[test]
fn indices() {
    let source = "function (A[M, N], T) -> (O) {
            B[i: M] = +(A[i*j, i/j]);
            C[i: M] = +(A[floor(i), 1.5]);
            D[i: M] = +(A[B, i < 2]);
            E[i: M] = +(A[T[i] + 1, i]);
            F[i: M] = +(A[M*i + 2/3, T[T[i], i]]), i*i < M, i < 1.0;
            O[i: M] = +(A[i, 2/(M - N)*i]);
        }";
    assert_snapshot!(brief(source), @"");
}

#[test]
fn places_of_the_output() {
    let source = "function (A[M, N], X[..., K]) -> (O) {
            B[i] = +(A[i, j]);
            C[i: M, N] = +(A[i, j]);
            D[i: i + A] = +(A[i, j]);
            E[i: sin(M)] = +(A[i, j]);
            F[..., i: K, ...] = +(X[..., i]);
            G[i: K] = +(X[..., i]);
            H[..., i: ..., K] = +(A[i, j]);
            P[i, j: M, N] = =(A[i, j]) default B;
            O[i: M] = +(A[i, j] * A[i] * X[]);
        }";
    assert_snapshot!(brief(source), @"");
}

#[test]
fn bodies() {
    let source = "function (A[M, N], S) -> (O) {
            B[i: M] = +(A[i, j] * i);
            C[i: M] = +(A + 1);
            D[i: M] = +(gather(A[i, j], 2));
            E[i: M] = +(A[i, j] ? S);
            F = A[0, 0];
            O[i: M] = +(relu(A[i, j]) * S * M + g(S)), i < max(M, 3) - N;
        }
        function g(X) -> (Y) { Y[] = +(X[]); }";
    assert_snapshot!(brief(source), @"");
}

#[test]
fn unused_values_are_warned_of() {
    let source = "function (A, B) -> (O) { C = A; O = A; }";
    assert_snapshot!(brief(source), @"");
}
