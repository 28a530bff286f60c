use insta::assert_snapshot;

use crate::{brief, complaints};

#[test]
fn rendered_with_the_source_and_a_way_out() {
    let source =
        "function f(Kernel[K, N], X[K]) -> (Y) {\n    Y[n: N] = +(Kernle[k, n] * X[k, 0]);\n}\n";
    assert_snapshot!(complaints(source), @"
    [E0101] Error: unknown name `Kernle`
       ╭─[ x.tile:2:17 ]
       │
     2 │     Y[n: N] = +(Kernle[k, n] * X[k, 0]);
       │                 ───┬──
       │                    ╰──── here
       │
       │ Help: did you mean `Kernel`?
    ───╯
    [E0107] Error: expected 1 index for `X`, found 2
       ╭─[ x.tile:2:32 ]
       │
     1 │ function f(Kernel[K, N], X[K]) -> (Y) {
       │                          ┬
       │                          ╰── it has rank 1
     2 │     Y[n: N] = +(Kernle[k, n] * X[k, 0]);
       │                                ───┬───
       │                                   ╰───── here
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
    E0001 unexpected `$`: `$`
    E0003 expected `;` after this statement: ``
    E0003 missing `)`: `` (expected `)` here), `(` (this `(` is not closed)
    E0003 expected `;` after this statement: ``
    E0003 expected a name or `)`, found `->`: `->`
    E0005 comparisons cannot be chained with `<`: `A < A < A`; help: join two comparisons with `&`, as in `(A < B) & (B < C)`, or add parentheses
    E0003 expected a definition (`function`, `layer`, `model`, `train`, …), found `nonsense`: `nonsense`; help: a file has definitions, such as `model Net(X[N, 4]) -> (Y) { … }`
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
    E0003 unknown aggregation `sum`: `sum`; help: write `+(…)` for a sum
    E0107 expected rank 1 for the default `A`, found rank 2: `A`, `S` (the output)
    E0003 expected one `default`, found a second: `default A`, `default A` (the first one)
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
    E0003 expected a file in quotes, as in `"layers.tile"`, found `blocks`: `blocks`; help: `import` reads a Tile file; the names of the library are visible everywhere
    E0003 expected `;` after this statement: ``
    E0003 expected `[`, found `=`: `=`; help: the sizes of a weight come after its name, as in `param Bias[units] = zeros();`; `[]` is rank 0
    E0003 expected an operator or `;`, found `when`: `when`
    E0003 expected `=`, found `;`: `;`; help: give it an initial value, as in `param Kernel[K, units] = zeros();`
    E0003 expected `,` or `in`, found `of`: `of`
    E0003 expected `,` or `in`, found `[`: `[`
    E0003 expected an operator or `{`, found `Y`: `Y`
    E0003 expected `along`, found `{`: `{`
    E0003 expected an expression, found `;`: `;`
    E0003 expected `;`, found `+`: `+`; help: `|>` binds more loosely than any operator: put it in parentheses, as in `(X |> f) + 1`
    E0003 expected an expression, found `;`: `;`
    E0003 expected an operator, `,` or `)`, found `:`: `:`; help: an argument is given with `=`, as in `units = 3`
    E0001 unterminated text: `"text;`; help: put `"` after it, on the same line
    E0003 expected a definition (`function`, `layer`, `model`, `train`, …), found `modle`: `modle`; help: did you mean `model`?
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
    E0002 the integer `9223372036854775808` is too large: `9223372036854775808`; help: the largest integer is 9223372036854775807
    E0002 the number `1e999` is too large for a float: `1e999`
    E0002 a decimal point needs a digit after it: `3.`; help: write `3.0`
    E0001 unexpected `ü`: `ü`
    ");
}

#[test]
fn the_end_of_the_file() {
    assert_snapshot!(brief("function (A) -> (O) { O = A;"), @"E0003 missing `}`: `{` (this block begins here), `` (expected `}` after this)");
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
    E0105 the output `Missing` is never assigned: `Missing`; help: assign it, as in `Missing = …;`
    E0101 unknown name `Late`: `Late`, `Late` (defined here, after its use); help: move the definition up
    E0102 unknown function `sigmod`: `sigmod`; help: did you mean `sigmoid`?
    E0109 expected a value, found the index variable `a`: `a`; help: did you mean `A`?
    E0101 unknown name `Late2`: `Late2`
    E0104 `B` is assigned twice: `B`, `B` (first assigned here); help: give the new value another name
    E0104 `N` is assigned, but it is a size: `N`, `N` (the size); help: give the new value another name
    E0115 `x` starts with a small letter, so it cannot name a tensor: `x`; help: call it `X`
    E0103 expected 1 argument for `exp`, found 2: `exp`
    E0103 expected 2 arguments for `gather`, found 1: `gather`; help: it takes rows: `gather(X, Rows)` is `X[Rows[i], j]`
    E0114 the function `f` is defined twice: `f`, `f` (the first one)
    ");
}

#[test]
fn recursion() {
    let source = "function f(X) -> (Y) { Y = g(X); }
        function g(X) -> (Y) { Y = h(X); }
        function h(X) -> (Y) { Y = g(X); }";
    assert_snapshot!(brief(source), @"E0111 `g` calls itself through `h`: `h`, `g` (and this call leads back); help: Tile has no recursion: every call is inlined at compile time");
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
    E0108 this index is not affine: it multiplies index variables with each other: `i*j`; help: write a sum of index variables with constant factors, as in `2*i + j/2 - 1`
    E0108 this index is not affine: it divides by an index variable: `i/j`; help: write a sum of index variables with constant factors, as in `2*i + j/2 - 1`
    E0108 this index is not affine: it calls a function: `floor(i)`; help: write a sum of index variables with constant factors, as in `2*i + j/2 - 1`
    E0108 this index is not affine: it has a number with a decimal point: `1.5`; help: write a sum of index variables with constant factors, as in `2*i + j/2 - 1`
    E0117 expected a size, found the tensor `B`: `B`, `B` (defined here); help: to use its elements as indices, write `T[i]`
    E0108 this index is not affine: it has other operators than `+ - * /`: `i < 2`; help: write a sum of index variables with constant factors, as in `2*i + j/2 - 1`
    E0108 this index is not affine: a tensor is only a part of it: `T[i]`; help: write a sum of index variables with constant factors, as in `2*i + j/2 - 1`
    E0108 this index is not affine: it multiplies index variables with each other: `i*i`; help: write a sum of index variables with constant factors, as in `2*i + j/2 - 1`
    E0117 expected an integer size, found a number with a decimal point: `1.0`
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
    E0110 missing sizes of the output `B`: `i`; help: write them after a colon, as in `B[i, j: M, N]`
    E0110 expected as many sizes as indices of `C`, found 1 index and 2 sizes: `i: M, N`
    E0117 expected a size, found the index variable `i`: `i`
    E0117 expected a size, found the tensor `A`: `A`, `A` (defined here); help: sizes are those of the inputs, such as `N` of `X[N]`
    E0117 expected a function of sizes, found `sin`: `sin`; help: functions of sizes are those of the operators, such as `add`, and mod, ceil, floor, max, min, broadcast, match and assert_…
    E0113 expected `...` before both the indices and the sizes, or neither: `..., i: K, ...`; help: write `O[..., i: ..., N]`
    E0113 `...` stands for the first axes, so it comes first: `...`
    E0113 expected a tensor inside with `...`, as in the output: `...`
    E0107 expected rank 2 for the default `B`, found rank 1: `B`, `P` (the output)
    E0107 expected 2 indices for `A`, found 1: `A[i]`, `A` (it has rank 2)
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
    E0109 expected a value, found the index variable `i`: `i`; help: names of tensors start with a capital; `index(X, axis)` has the index of each element along an axis
    E0107 missing indices of `A`, which has rank 2: `A`; help: inside a contraction, write `A[i, j]`
    E0112 `gather` works on whole tensors, so it cannot be called inside a contraction: `gather`; help: call it in a statement before this one
    E0112 expected `:` and a value after `C ? A`: `A[i, j] ? S`; help: write `C ? A : 0`; only `A == B ? C` may leave it out
    E0116 `A` is indexed outside a contraction: `A[0, 0]`; help: a part of a tensor is a contraction: `Y[] = =(A[0, 0]);`
    E0112 `g` works on whole tensors, so it cannot be called inside a contraction: `g`; help: call it in a statement before this one
    ");
}

#[test]
fn unused_values_are_warned_of() {
    let source = "function (A, B) -> (O) { C = A; O = A; }";
    assert_snapshot!(brief(source), @"
    W0101 unused input `B`: `B`
    W0102 unused value `C`: `C`
    ");
}

#[test]
fn what_comes_with_a_used_value_is_not() {
    let pair = "function pair(X) -> (A, B) { A = X; B = X; }";
    assert_snapshot!(brief(&format!("{pair} model M(X) -> (Y) {{ Y, Other = pair(X); }}")), @"");
    assert_snapshot!(brief(&format!("{pair} model M(X) -> (Y) {{ Y = X; A, B = pair(X); }}")), @"
    W0102 unused value `A`: `A`
    W0102 unused value `B`: `B`
    ");
}
