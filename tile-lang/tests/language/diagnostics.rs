use insta::assert_snapshot;

use crate::{brief, complaints};

#[test]
fn rendered_with_the_source_and_a_way_out() {
    let source = "function f(Kernel[K, N], X[K]) -> (Y) {\n    Y[n: N] = +(Kernle[k, n] * X[k, 0]);\n}\n";
    assert_snapshot!(complaints(source), @"
    [E0101] Error: there is no `Kernle` here
       ╭─[ x.tile:2:17 ]
       │
     2 │     Y[n: N] = +(Kernle[k, n] * X[k, 0]);
       │                 ───┬──
       │                    ╰──── here
       │
       │ Help: did you mean `Kernel`?
    ───╯
    [E0107] Error: `X` has rank 1, but 2 indices are given
       ╭─[ x.tile:2:32 ]
       │
     2 │     Y[n: N] = +(Kernle[k, n] * X[k, 0]);
       │                                ───┬───
       │                                   ╰───── here
       │
       ├─[ x.tile:2:32 ]
       │
     1 │ function f(Kernel[K, N], X[K]) -> (Y) {
       │                          ┬
       │                          ╰── rank 1, from here
    ───╯
    ");
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
    assert_snapshot!(brief(source), @"
    E0003 expected an expression, found `;`: `;`
    E0003 expected an operator or `;`, found `A`: `A`
    E0001 `$` is no part of the Tile language: `$`
    E0003 expected `;` after this statement: ``
    E0003 expected `)`, found `;`: `;`
    E0003 expected `;` after this statement: ``
    E0003 expected a name or `)`, found `->`: `->`
    E0005 comparisons cannot be chained with `<`: `A < A < A`; help: join two comparisons with `&`, as in `(A < B) & (B < C)`, or add parentheses
    E0003 expected `function`, `layer`, `model` or `import`, found `nonsense`: `nonsense`
    ");
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
    assert_snapshot!(brief(source), @"
    E0003 expected an aggregation (`+ * > < = argmax argmin`), found `A`: `A`; help: an output with indices is aggregated, as in `O[i: N] = +(X[i, j])`; elementwise is `O = X + 1`
    E0003 expected `=`, found `==`: `==`; help: put a space in between: `= =(…)` is the assign aggregation
    E0003 expected `<`, found `<=`: `<=`; help: a constraint has the form `p < n`, and also says `0 <= p`
    E0003 `sum` is no aggregation: `sum`; help: write `+(…)` for a sum
    E0107 the default `A` has rank 2, but the output has rank 1: `A`, `S` (the output)
    E0003 a contraction has one `default` at most: `default A`, `default A` (the first one)
    E0003 expected `,` or `]`, found `=`: `=`; help: write `==` to compare
    ");
}

#[test]
fn syntax_of_layers() {
    let source = "import blocks;
        import \"a.tile\"
        layer A(units)(X) -> (Y) {
            param Kernel = zeros();
            param Kernel[units] = zeros() when use_bias;
            state Count[];
            for x of [1, 2] { Y = X; }
            for in [1, 2] { Y = X; }
            if units > 1 Y = X;
            Y = X;
        }
        layer B(units)(X) -> (Y) {
            scan X in Y { Y = X; }
            update = ;
            Y = X |> relu + 1;
            Y = X |> ;
            Y = Dense(units: 3)(X);
            Y = \"text;
        }
        modle C(X) -> (Y) { Y = X; }
        layer (X) -> (Y) { Y = X; }
        layer D(X)(Y)(Z) -> (Y) { Y = X; }
        model E(X in ) -> (Y) { else { Y = X; } }
        model F(X) -> (Y) { if a { Y = X; } else Y = X; }";
    assert_snapshot!(brief(source), @r#"
    E0003 expected a file in quotes, as in `"layers.tile"`, found `blocks`: `blocks`
    E0003 expected `;` after this statement: ``
    E0003 expected `[`, found `=`: `=`; help: the sizes of a weight come after its name, as in `param Bias[units] = zeros();`; `[]` is rank 0
    E0003 expected an operator or `;`, found `when`: `when`
    E0003 expected `=`, found `;`: `;`
    E0003 expected `,` or `in`, found `of`: `of`
    E0003 expected `,` or `in`, found `[`: `[`
    E0003 expected an operator or `{`, found `Y`: `Y`
    E0003 expected `along`, found `{`: `{`
    E0003 expected an expression, found `;`: `;`
    E0003 expected `;`, found `+`: `+`; help: `|>` binds more loosely than any operator: put it in parentheses, as in `(X |> f) + 1`
    E0003 expected an expression, found `;`: `;`
    E0003 expected an operator, `,` or `)`, found `:`: `:`
    E0001 this text does not end: `"text;`; help: put `"` after it, on the same line
    E0003 expected `function`, `layer`, `model` or `import`, found `modle`: `modle`; help: did you mean `model`?
    E0003 expected a name, found `(`: `(`
    E0003 expected `->`, found `(`: `(`
    E0003 expected an expression, found `)`: `)`
    E0003 expected `{`, found `Y`: `Y`
    "#);
}

#[test]
fn numbers() {
    let source = "function () -> (O) { A = 9223372036854775808; B = 1e999; C = 3.; O = ü; }";
    assert_snapshot!(brief(source), @"
    E0002 `9223372036854775808` is too large for an integer: `9223372036854775808`; help: the largest is 9223372036854775807
    E0002 `1e999` is too large for a float: `1e999`
    E0002 a decimal point needs a digit after it: `3.`; help: write `3.0`
    E0001 `ü` is no part of the Tile language: `ü`
    ");
}

#[test]
fn the_end_of_the_file() {
    assert_snapshot!(brief("function (A) -> (O) { O = A;"), @"E0003 expected a statement or `}`, found the end of the file: ``");
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
    assert_snapshot!(brief(source), @"
    E0106 `M` is both an input and a size: `M`, `M` (the input)
    E0106 `A` is an input twice: `A`, `A` (the first one)
    E0106 `O` is an output twice: `O`
    E0105 the output `Missing` is never assigned: `Missing`
    E0101 there is no `Late` here: `Late`, `Late` (it is defined here, later); help: move the definition up
    E0102 there is no function `sigmod`: `sigmod`; help: did you mean `sigmoid`?
    E0109 `a` starts with a small letter, so it is an index variable, not a value: `a`; help: did you mean `A`?
    E0101 there is no `Late2` here: `Late2`
    E0101 there is no `Late2` here: `Late2`
    E0104 `B` is assigned twice: `B`, `B` (first assigned here); help: a name keeps its value: give the new one a name of its own
    E0104 `N` is assigned, but it is a size: `N`, `N` (the size); help: a name keeps its value: give the new one a name of its own
    E0115 `x` cannot name a tensor, because it starts with a small letter: `x`; help: call it `X`
    E0103 `exp` takes 1 argument, but 2 are given: `exp`
    E0103 `gather` takes 2 arguments, but 1 is given: `gather`
    E0114 the function `f` is defined twice: `f`, `f` (the first one)
    ");
}

#[test]
fn recursion() {
    let source = "function f(X) -> (Y) { Y = g(X); }
        function g(X) -> (Y) { Y = h(X); }
        function h(X) -> (Y) { Y = g(X); }";
    assert_snapshot!(brief(source), @"E0111 `g` calls itself through `h`: `h`, `g` (and this call leads back); help: Tile has no recursion: every call is written out at compile time");
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
    assert_snapshot!(brief(source), @"
    E0108 this index is not affine: it multiplies index variables with each other: `i*j`; help: an index is a sum of index variables with constant factors, as in `2*i + j/2 - 1`
    E0108 this index is not affine: it divides by an index variable: `i/j`; help: an index is a sum of index variables with constant factors, as in `2*i + j/2 - 1`
    E0108 this index is not affine: it calls a function: `floor(i)`; help: an index is a sum of index variables with constant factors, as in `2*i + j/2 - 1`
    E0108 this index is not affine: it has a number with a decimal point: `1.5`; help: an index is a sum of index variables with constant factors, as in `2*i + j/2 - 1`
    E0117 `B` is a tensor, not a size: `B`, `B` (defined here); help: index it, as in `T[i]`, to use it as an index
    E0108 this index is not affine: it is made with other operators than `+ - * /`: `i < 2`; help: an index is a sum of index variables with constant factors, as in `2*i + j/2 - 1`
    E0108 this index is not affine: a tensor in it must be the whole index: `T[i]`; help: an index is a sum of index variables with constant factors, as in `2*i + j/2 - 1`
    E0108 this index is not affine: it multiplies index variables with each other: `i*i`; help: an index is a sum of index variables with constant factors, as in `2*i + j/2 - 1`
    E0117 a size is an integer, without a decimal point: `1.0`
    ");
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
    assert_snapshot!(brief(source), @"
    E0110 the output `B` lacks its sizes: `i`; help: write them after a colon, as in `B[i, j: M, N]`
    E0110 `C` has 1 index, but 2 sizes: `i: M, N`
    E0117 `i` is an index variable, which cannot be part of a size: `i`
    E0117 `A` is a tensor, not a size: `A`, `A` (defined here); help: a size is made of the sizes of inputs
    E0117 `sin` is no function of sizes: `sin`; help: the functions of sizes are mod, ceil, floor, max, min, broadcast, match and assert_…
    E0113 `...` must start both the indices and the sizes, or neither: `..., i: K, ...`; help: as in `O[..., i: ..., N]`
    E0113 `...` stands for the first axes, so it comes first: `...`
    E0113 no tensor inside starts with `...` as the output does: `...`
    E0107 the default `B` has rank 1, but the output has rank 2: `B`, `P` (the output)
    E0107 `A` has rank 2, but 1 index is given: `A[i]`, `A` (rank 2, from here)
    ");
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
    assert_snapshot!(brief(source), @"
    E0109 `i` starts with a small letter, so it is an index variable, not a value: `i`; help: `index(X, axis)` gives the index of each place of X along an axis
    E0107 `A` has rank 2, so it needs indices inside a contraction: `A`
    E0112 a contraction needs a tensor with indices: `A + 1`; help: as in `+(X[i, j])`
    E0112 `gather` works on whole tensors, so it cannot be called inside a contraction: `gather`; help: call it in a statement before
    E0112 only `A == B ? C` can do without `:`: `A[i, j] ? S`; help: say what the value is otherwise, as in `… : 0`
    E0116 `A` is indexed outside a contraction: `A[0, 0]`; help: write a contraction, as in `O[i: N] = +(X[i, j])`
    E0112 `g` works on whole tensors, so it cannot be called inside a contraction: `g`; help: call it in a statement before
    ");
}

#[test]
fn unused_values_are_warned_of() {
    let source = "function (A, B) -> (O) { C = A; O = A; }";
    assert_snapshot!(brief(source), @"
    W0101 the input `B` is not used: `B`
    W0102 `C` is assigned, but not used: `C`
    ");
}

#[test]
fn what_comes_with_a_used_value_is_not() {
    let pair = "function pair(X) -> (A, B) { A = X; B = X; }";
    assert_snapshot!(brief(&format!("{pair} model M(X) -> (Y) {{ Y, Other = pair(X); }}")), @"");
    assert_snapshot!(brief(&format!("{pair} model M(X) -> (Y) {{ Y = X; A, B = pair(X); }}")), @"
    W0102 `A` is assigned, but not used: `A`
    W0102 `B` is assigned, but not used: `B`
    ");
}
