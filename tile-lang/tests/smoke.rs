use tile_lang::{LIBRARY, check};
#[test]
fn library() {
    let c = check(LIBRARY);
    assert_eq!(
        c.diagnostics.iter().filter(|d| d.is_error()).collect::<Vec<_>>(),
        Vec::<&tile_lang::diagnostic::Diagnostic>::new()
    );
}
#[test]
fn smoke() {
    for s in [
        "function (I[N]) -> (O) { O[i: (N + 1) / 2] = >(I[2*i + j]), j < 2; }",
        "function (I[N, LX, LY, CI], K[KX, KY, CI, CO]) -> (O) { O[n, x, y, co: N, LX - 2*(KX-1), LY - 3*(KY-1), CO] = +(I[n, x + 2*kx, y + 3*ky, ci] * K[kx, ky, ci, co]); }",
        "function (W[V, D], T[B, S], X[N, K]) -> (O) { O[..., d: ..., D] = +(relu(W[T[...], d]) * exp(S)); }",
        "function f(X) -> (Y) { Y = g(X); } function g(X) -> (Y) { Y = f(X); } function h(X) -> (Y) { Y = h(Y); }",
        "function f(A[M, N], B[M]) -> (O, P) { T[i: M] = +(A[i] * C[i] * b); T[i*j: N, M] = >(A[i, M*j]), i < j; U = gema(A); V = A[i]; W[i] = +(B[i]) default A; Z = Z + later; Y = sigmod(A); O = relu(A, B);}",
        "function f(A[M, N], a) -> (O) { O = A + a + b; X = exp(A[1]); Y = gather(A); Z = f(A, A, A); [[x]] Q[i, j: ..., 3] = +(A[i, ...]), floor(i) < 2.0;  }",
    ] {
        println!("{s}");
        for d in check(s).diagnostics {
            println!(
                "  {} {} {:?} {:?}",
                d.code,
                d.message,
                d.labels.iter().map(|l| (&s[l.span.start as usize..l.span.end as usize], &l.text)).collect::<Vec<_>>(),
                d.help
            );
        }
    }
}
#[test]
fn fmt() {
    for s in [
        LIBRARY,
        "// a\n\n\n\nfunction /*//x\n*/ f",
        "// a\n\n// b\nfunction (A, // first\n B[N,M ]) -> (O) { // c\n\n T=A+B ; // d\n// e\n\n\n U[i,2*j+3 : N, (M-1)/2]=+(A[i] * (B[j,i]+(A[i])) // inner\n), i-k<2*N, j<3 no_defract default B; O=(A?B:U)?T:((A+B)-(A-B))*-(~A+2.50e3); \n\n // end\n} // tail\nfunction g() -> (B, Ccccccccccccccccccccccccccccccccccccccc) { [[a(b),c]]B = Aaaaaaaaaaaaaaaaaaaaaaaaaaaaa + Bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb * Cccccccccccccccccccccc - exp(Ddddddddddddddddd + Eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee); } // last",
    ] {
        match tile_lang::format(s) {
            Ok(t) => {
                println!("{t}-----");
                assert_eq!(tile_lang::format(&t).unwrap(), t);
            }
            Err(d) => println!("{}", tile_lang::render(&d, "x.tile", s, false)),
        }
    }
    let s = "function f(A[M, N], a) -> (O) { O = A + a + b; X = exp(A[1]); Y = gather(A);\nZ = f(A, A, A); [[x]] Q[i, j: ..., 3] = +(A[i, ...]), floor(i) < 2.0;  }";
    println!("{}", tile_lang::render(&check(s).diagnostics, "x.tile", s, false));
}
