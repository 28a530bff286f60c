use insta::assert_snapshot;
use tile_lang::tokens_text;

use crate::ast;

/// The one statement of a function.
fn statement(statement: &str) -> String {
    let tree = ast(&format!("function () -> (O) {{ {statement} }}"));
    let lines: Vec<&str> = tree.trim_end().lines().skip(2).collect();
    let lines = lines.join("\n").replace("\n  ", "\n");
    lines.trim_start().strip_suffix(')').unwrap_or_default().to_string()
}

#[test]
fn tokens() {
    let source = "[[pid(a)]] O[2i: N'] = >(A[I[i]]), i<<1 < 2.5e+1 // end\n default #default;";
    assert_snapshot!(tokens_text(source), @"");
}

#[test]
fn functions() {
    let source = "function (A, B[], C[N, 28], D[..., K]) -> (O, P) { O = A; P = D; } function named () -> (O) {}";
    assert_snapshot!(ast(source), @"");
}

#[test]
fn precedence() {
    assert_snapshot!(statement("O = A ^ B | C & D == E < F << G + H * -~I;"), @"");
    assert_snapshot!(statement("O = A ? B : C ? D : E;"), @"");
    assert_snapshot!(statement("O = A ? B ? C : D : E;"), @"");
    assert_snapshot!(statement("O = A - B - C / D / E;"), @"");
    assert_snapshot!(statement("O = A >> B >> 1 == (C != D);"), @"");
}

#[test]
fn contractions() {
    assert_snapshot!(statement("O[i: (N + 1) / 2] = >(I[2i + j]), j < 2;"), @"");
    assert_snapshot!(statement("M[i, 0: R, 1] = =(A[i/2, -j] * B[j]) no_defract default C;"), @"");
    assert_snapshot!(statement("O[] = +(A[i] == B[i] ? C[i]);"), @"");
    assert_snapshot!(statement("O[:] = *(A[]), i < N & 7, 0 < M;"), @"");
    assert_snapshot!(statement("O[..., i: ..., N] = argmax(exp(A[..., T[i, 2]] - 1.5));"), @"");
}

#[test]
fn quoted_names_and_attributes() {
    assert_snapshot!(statement("[[pid(a), fast]] [[hint(3, -X)]] #function[$I: $default] = +(#x[$function]);"), @"");
    assert_snapshot!(statement("O = Relu($X') + #A;"), @"");
    // Only v0's keywords are reserved.
    assert_snapshot!(statement("O[layer: N] = +(A[layer, polynomial, import]);"), @"");
}

/// v0 has empty statements, and floats with a bare point before the exponent.
#[test]
fn oddities_of_v0() {
    assert_snapshot!(statement("; O = 1.e3;; P = 2e0;"), @"");
}
