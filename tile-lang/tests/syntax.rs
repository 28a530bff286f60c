use tile_lang::{ast_text, parse};
fn ast(s: &str) -> String {
    let p = parse(s);
    let mut t = ast_text(&p.file);
    for d in p.diagnostics {
        t.push_str(&format!("{d:?}\n"));
    }
    t
}
#[test]
fn smoke() {
    for s in [
        "function (I[M, N]) -> (O) { O[n: N] = +(I[m, n]); }",
        "function (I[N]) -> (O) { O[i: (N + 1) / 2] = >(I[2*i + j]), j < 2; }",
        "function (I[N]) -> (O) { O[i: N] = +(I[k]), i - k < N; }",
        "function (I[N, M]) -> (O) { O[2*n: 2*N] = +(I[2n, m]) ; ; }",
        "function (I, K) -> (O) { O[n, x, y, co: N, LX - 2*(KX-1), LY - 3*(KY-1), CO] = +(I[n, x + 2*kx, y + 3*ky, ci] * K[kx, ky, ci, co]); }",
        "function (A[M, N], B) -> (O) { [[pid(foo)]] O[i, j: M, N] = =(A[i, j]) default B no_defract; }",
        "function (A[M, N], B) -> (O) { O[] = +(A[i, j] == B[i, j] ? A[j, i]); O[:] = >(A[I[i], j]); M[i, 0: R, 1] = argmax(A[..., j]); }",
        "function (A) -> (O) { O = A ? B : C ? D : E; Z = a < b < c; P = -~A * 2 + 1.5e3; }",
        "function f(A) -> (O) { O = A + ; Q = B C; R = 3 $ 4; S = f(A)\n T = 5 } function g( -> (O) { } function (X) -> (Y) { Y = X; } foo",
        "function (A) -> (O) { O = A;",
        "function (A) -> (O) { O[i: N] = A[i] + B[i]; O[i: N] ==(A[i]); O[i:N] = +(A[i]), i <= 3; O[i] = sum(A[i]); O = 3.;",
        "function (#function, A[#default]) -> (O) { O = A + #function + #a; P[$I: N] = +(A[$function]); }",
    ] {
        println!("{s}\n{}", ast(s));
    }
}
