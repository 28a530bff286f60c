use insta::assert_snapshot;
use tile_lang::tokens_text;

use crate::ast;

/// Returns the tree of a function's only statement.
fn statement(statement: &str) -> String {
    let tree = ast(&format!("function () -> (O) {{ {statement} }}"));
    let lines: Vec<&str> = tree.trim_end().lines().skip(2).collect();
    let lines = lines.join("\n").replace("\n  ", "\n");
    lines.trim_start().strip_suffix(')').unwrap_or_default().to_string()
}

#[test]
fn tokens() {
    let source = "[[pid(a)]] O[2i: N'] = >(A[I[i]]), i<<1 < 2.5e+1 // end\n default #default;";
    assert_snapshot!(tokens_text(source), @"
    1:1 [
    1:2 [
    1:3 pid
    1:6 (
    1:7 a
    1:8 )
    1:9 ]
    1:10 ]
    1:12 O
    1:13 [
    1:14 2
    1:15 i
    1:16 :
    1:18 N'
    1:20 ]
    1:22 =
    1:24 >
    1:25 (
    1:26 A
    1:27 [
    1:28 I
    1:29 [
    1:30 i
    1:31 ]
    1:32 ]
    1:33 )
    1:34 ,
    1:36 i
    1:37 <<
    1:39 1
    1:41 <
    1:43 2.5e+1
    2:2 default
    2:10 #default
    2:18 ;
    ");
}

#[test]
fn functions() {
    let source = "function (A, B[], C[N, 28], D[..., K]) -> (O, P) { O = A; P = D; } function named () -> (O) {}";
    assert_snapshot!(ast(source), @"
    (function
      (input A)
      (input B [])
      (input C [N 28])
      (input D [... K])
      (output O)
      (output P)
      (assign O A)
      (assign P D))
    (function named
      (output O))
    ");
}

#[test]
fn precedence() {
    assert_snapshot!(statement("O = A ^ B | C & D == E < F << G + H * -~I;"), @"(assign O (^ A (| B (& C (== D (< E (<< F (+ G (* H (neg (not I)))))))))))");
    assert_snapshot!(statement("O = A ? B : C ? D : E;"), @"(assign O (? (? A B C) D E))");
    assert_snapshot!(statement("O = A ? B ? C : D : E;"), @"(assign O (? A (? B C D) E))");
    assert_snapshot!(statement("O = A - B - C / D / E;"), @"(assign O (- (- A B) (/ (/ C D) E)))");
    assert_snapshot!(statement("O = A >> B >> 1 == (C != D);"), @"(assign O (== (>> (>> A B) 1) (!= C D)))");
}

#[test]
fn contractions() {
    assert_snapshot!(statement("O[i: (N + 1) / 2] = >(I[2i + j]), j < 2;"), @"(contraction O (indices i) (sizes (/ (+ N 1) 2)) (> (at I (+ (* 2 i) j))) (constraint j 2))");
    assert_snapshot!(statement("M[i, 0: R, 1] = =(A[i/2, -j] * B[j]) no_defract default C;"), @"(contraction M (indices i 0) (sizes R 1) (= (* (at A (/ i 2) (neg j)) (at B j))) (default C) no_defract)");
    assert_snapshot!(statement("O[] = +(A[i] == B[i] ? C[i]);"), @"(contraction O (indices) (sizes) (+ (? (== (at A i) (at B i)) (at C i))))");
    assert_snapshot!(statement("O[:] = *(A[]), i < N & 7, 0 < M;"), @"(contraction O (indices) (sizes) (* (at A)) (constraint i (& N 7)) (constraint 0 M))");
    assert_snapshot!(statement("O[..., i: ..., N] = argmax(exp(A[..., T[i, 2]] - 1.5));"), @"(contraction O (indices ... i) (sizes ... N) (argmax (call exp (- (at A ... (at T i 2)) 1.5))))");
    assert_snapshot!(statement("O[n, k: N, 5] = argmin[k](A[n, c]);"), @"(contraction O (indices n k) (sizes N 5) (argmin (at A n c)) (rank k))");
}

#[test]
fn definitions() {
    let source = "import \"a/b.tile\";
        layer Conv(filters, strides = 1, padding in [valid, same] = valid)(X[N, C], Mask = none) -> (Y) { Y = X; }
        function zeros()(shape) -> (W) {} model M(X) -> (Y) {}";
    assert_snapshot!(ast(source), @r#"
    (import "a/b.tile")
    (layer Conv
      (parameter filters)
      (parameter strides (default 1))
      (parameter padding (in (list valid same)) (default valid))
      (input X [N C])
      (input Mask (default none))
      (output Y)
      (assign Y X))
    (function zeros
      (parameters)
      (input shape)
      (output W))
    (model M
      (input X)
      (output Y))
    "#);
}

#[test]
fn weights() {
    assert_snapshot!(statement("param Kernel[K, units] = zeros() regularizer = l2(0.1) if use else 1;"), @"(param Kernel (sizes K units) (call zeros) (regularizer (call l2 0.1)) (if use) (else 1))");
    assert_snapshot!(statement("state S[] = ones; update S = S + 1;"), @"
    (state S (sizes) ones)
    (update S (+ S 1))
    ");
}

#[test]
fn blocks() {
    assert_snapshot!(statement("for f, s in [[64, 1], []] { A, b = f(s = \"t\")(X); }"), @r#"
    (for (variables f s) (list (list 64 1) (list))
      (assign A b (call (call f (= s "t")) X)))
    "#);
    assert_snapshot!(statement("if a { B = 1; if c { B = 2; } } else if b { B = 3; } else { B = 4; }"), @"
    (if a
      (assign B 1)
      (if c
        (assign B 2))
      (else
        (if b
          (assign B 3)
          (else
            (assign B 4)))))
    ");
    assert_snapshot!(statement("scan Xt in X along 1, Yt in f(Y) along k { H = Xt; yield All = H; }"), @"
    (scan (Xt X 1) (Yt (call f Y) k)
      (assign H Xt)
      (yield All H))
    ");
}

#[test]
fn pipes() {
    assert_snapshot!(statement("O = A ? B : C |> f(1) |> [g, h(2)];"), @"(assign O (|> (|> (? A B C) (call f 1)) (list g (call h 2))))");
    assert_snapshot!(statement("O = blocks[-1](X) + (A |> f)(B);".replace("(A |> f)(B)", "(A |> f)").as_str()), @"(assign O (+ (call (at blocks (neg 1)) X) (|> A f)))");
}

/// Contextual keywords are names wherever they cannot be keywords.
#[test]
fn words_as_names() {
    assert_snapshot!(statement("param = state; for, in = if(else); update[in: N] = +(A[in, along]); yield = 2in;"), @"
    (assign param state)
    (assign for in (call $if $else))
    (contraction update (indices in) (sizes N) (+ (at A in along)))
    (assign yield (* 2 in))
    ");
    assert_snapshot!(statement("for in in in { param if[else] = if if if else else; }"), @"
    (for (variables in) in
      (param $if (sizes $else) $if (if $if) (else $else)))
    ");
}

#[test]
fn quoted_names_and_attributes() {
    assert_snapshot!(statement("[[pid(a), fast]] [[hint(3, -X)]] #function[$I: $default] = +(#x[$function]);"), @"(attribute pid a) (attribute fast) (attribute hint 3 (neg X)) (contraction #function (indices $I) (sizes $default) (+ (at #x $function)))");
    assert_snapshot!(statement("O = Relu($X') + #A;"), @"(assign O (+ (call Relu $X') A))");
    // Only the keywords of Tile v0 are reserved.
    assert_snapshot!(statement("O[layer: N] = +(A[layer, polynomial, import]);"), @"(contraction O (indices layer) (sizes N) (+ (at A layer polynomial import)))");
}

/// Tile v0 has empty statements, and floats with a bare decimal point before the exponent.
#[test]
fn oddities_of_v0() {
    assert_snapshot!(statement("; O = 1.e3;; P = 2e0;"), @"
    (assign O 1000.0)
    (assign P 2.0)
    ");
}
