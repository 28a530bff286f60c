//! What the checker says of layers and models.

use insta::assert_snapshot;
use tile_lang::check;

use crate::brief;

/// Definitions that the programs below use.
const DEFINITIONS: &str = "
    function zeros()(shape) -> (W) { W = fill(shape, 0.0); }
    function linear(X) -> (Y) { Y = X; }
    function gelu(approximate = false)(X) -> (Y) { Y = approximate ? X : X / 2; }
    layer Dense(units, activation = linear, use_bias = true)(X[..., K]) -> (Y) {
        param Kernel[K, units] = zeros();
        param Bias[units] = zeros() if use_bias;
        Z[..., n: ..., units] = +(X[..., k] * Kernel[k, n]);
        Y = activation(Z + Bias);
    }
    layer Conv(filters, kernel_size, strides = 1, padding in [valid, same] = valid)(X[N, H, W, C]) -> (Y) {
        k = list(kernel_size, 2);
        s = list(strides, 2);
        param Kernel[k, C, filters] = zeros;
        Height = padding == same ? (H + s[0] - 1) / s[0] : (H - k[0]) / s[0] + 1;
        Width = padding == same ? (W + s[1] - 1) / s[1] : (W - k[1]) / s[1] + 1;
        Y[n, y, x, f: N, Height, Width, filters] =
            +(X[n, s[0]*y + i, s[1]*x + j, c] * Kernel[i, j, c, f]), i < k[0];
    }
    layer Attention(num_heads)(Query, Value, Key = Value, Mask = none) -> (Y, Weights) {
        Y = Query * num_heads + Key;
        Weights = Mask == none ? Value : Mask;
    }
";

/// What is wrong with a program that uses the definitions.
fn wrong(program: &str) -> String {
    brief(&format!("{program}{DEFINITIONS}"))
}

/// Programs without errors and warnings.
#[test]
fn layers_and_models_pass() {
    for program in [
        "",
        "model M(Image[N, 28, 28]) -> (L) { L = Image / 255 |> Dense(128, activation = gelu) |> Dense(10, name = head); }",
        "model M(depth = 2, blocks = [Dense(3), Dense(2)])(X) -> (Y) {
            for block in blocks { X = X |> block; }
            for n, act in [[1, relu], [2, gelu(true)]] { X = Dense(n, act)(X); }
            for i in range(depth) { X = X + i; }
            Y = X |> repeat(depth, Dense(4)) |> [clone(blocks[-1]), relu, gelu];
        }",
        "model M(X[N, T, D]) -> (Y) {
            H = 0;
            scan Xt in X along 1, St in X along rank(X) - 1 { H = H + Xt * St; yield All = H; }
            Y = All + H;
        }",
        "layer Norm(axis = -1, momentum = 0.99)(X[..., C]) -> (Y) {
            param Gamma[C] = zeros() regularizer = none;
            state Mean[C] = zeros();
            if training {
                Batch[c: C] = +(X[..., c]);
                update Mean = momentum * Mean + (1 - momentum) * Batch;
            } else {
                Batch = Mean;
            }
            Y = (X - Batch) * Gamma + axis;
        }",
        "layer Add()(A, B) -> (Y) { Y = A + B; }
         model M(X, Z) -> (Y) { Y = Add()([X, Z]) + ([X, Z] |> Add) + Add()(X, B = Z); }",
        "model M(X, Z) -> (Y) { Y, W = Attention(2)(X, Z, Mask = X); A, B = [Y, W]; Y = A + B; attend = Attention(num_heads = 3); Y, W = attend(Y, W, Key = Z); Y = Y + W; }",
        "layer Concat(axis = 0)(Inputs) -> (Y) {
            Y = Inputs[0];
            for X in slice(Inputs, 1, len(Inputs)) { Y = Y + X; }
            if axis < 0 { Y = -Y; } else if axis > rank(Y) { Y = error(\"there is no such axis\"); }
        }",
        "function fan(shape) -> (n) { n = product(slice(shape, 0, -1)); }
         function glorot(scale = 2.0, mode in [fan_in, fan_out] = fan_in)(shape) -> (W) {
             n = mode == fan_in ? fan(shape) : shape[-1];
             limit = sqrt(scale / n);
             W = fill(shape, limit);
         }
         layer L()(X[K]) -> (Y) { param A[fan(dims(X)), max(K, 2)] = glorot(mode = fan_out); Y[k: K] = +(X[k] * A[k, j]); }",
        // Functions, too, have blocks; a name keeps its value there but in loops.
        "function power(n = 2)(X) -> (Y) {
             Y = X;
             for i in range(1, n) { Y = Y * X; }
             if n < 0 { Z = 1 / Y; } else { Z = Y; }
             Y = gelu(Z);
         }
         ".replace("Y = gelu(Z);\n", "Out = Z;\n").replace("-> (Y)", "-> (Out)").as_str(),
        // The words of layers and the values of the language are names in a v0 function.
        "function f(X[N, M]) -> (Y) { Y[none, training: N, M] = =(X[none, training]); }",
    ] {
        let source = format!("{program}{DEFINITIONS}");
        let diagnostics = check(&source).diagnostics;
        let errors: Vec<_> = diagnostics.iter().map(|diagnostic| &diagnostic.message).collect();
        assert_eq!(errors, Vec::<&String>::new(), "{program}");
    }
}

#[test]
fn names() {
    assert_snapshot!(wrong("layer L(Units, name, training, n[3])(X[N], n) -> (Y) { N = 3; Head = Dense(1); x = X; Y = X; Y = Y + Units + x; head = Head; }"), @"
    E0115 the hyper-parameter `Units` starts with a capital: `Units`; help: it is a value known at compile time: call it `units`
    E0106 every layer has `name` besides: `name`; help: give this one another name
    E0106 `training` is a value of the language: `training`; help: give this one another name
    E0115 `n` starts with a small letter, so it is no tensor, and has no sizes: `n`; help: call it `N`
    E0106 `n` is an input twice: `n`, `n` (the first one)
    E0104 `N` is assigned, but it is a size: `N`, `N` (the size); help: a name keeps its value: give the new one a name of its own
    E0115 `Head` starts with a capital, so it names a tensor or a size: `Head` (this is a function or layer); help: call it `head`
    E0115 `x` cannot name a tensor, because it starts with a small letter: `x`; help: call it `X`
    ");
    assert_snapshot!(wrong("model M(X, units = 3) -> (Y) { if unts > 3 { A = X; } else { B = A; } Y = trainning + Missing + X * unit + B; }"), @"
    E0109 `unts` has no value here: `unts`; help: did you mean `units`?
    E0101 there is no `A` here: `A`, `A` (it is defined here, within a block)
    E0109 `trainning` has no value here: `trainning`; help: did you mean `training`?
    E0101 there is no `Missing` here: `Missing`
    E0109 `unit` has no value here: `unit`; help: did you mean `units`?
    ");
    assert_snapshot!(wrong("model M(X) -> (Y) { for X in [1, 2] { Y = X; } for x in [1, 2] { Y = x; } Y = Y + x; }"), @"
    E0106 `X` names the variable of a loop, but has a value: `X`, `X` (the other value)
    E0109 `x` has no value here: `x`; help: did you mean `X`?
    ");
    assert_snapshot!(wrong("function f(n)(X) -> (Y) { n = 2; Y = X; if n > 1 { Y = 2; } for i in range(n) { Y = i; i = 2; } Y = 3; }"), @"
    E0104 `n` is assigned, but it is a hyper-parameter: `n`, `n` (the hyper-parameter); help: a name keeps its value: give the new one a name of its own
    E0104 `Y` is assigned twice: `Y`, `Y` (first assigned here); help: a name keeps its value: give the new one a name of its own
    E0104 `i` is assigned, but it is the variable of a loop: `i`, `i` (the variable); help: a name keeps its value: give the new one a name of its own
    E0104 `Y` is assigned twice: `Y`, `Y` (first assigned here); help: a name keeps its value: give the new one a name of its own
    ");
    assert_snapshot!(wrong("model M(Out) -> (Y) { scan Z in Out along 0 { H = Z; Last = H; } Y = Last + Z; }"), @"
    E0101 there is no `Last` here: `Last`, `Last` (it is defined here, within a block)
    E0101 there is no `Z` here: `Z`
    ");
    assert_snapshot!(wrong("model M(X) -> (Y) { Y = relu + 1; Z = X |> 3; f = Dense; Y = Dense; A = \"text\" + Y; B = X; B = B(X); C = none; }"), @r#"
    E0130 `relu` is a function, not a value: `relu`; help: apply it, as in `relu(…)`
    E0130 this is a number, which cannot be applied: `3`
    E0130 `Dense` is a function, not a value: `Dense`; help: apply it, as in `Dense(…)`
    E0130 a text is no number, tensor or list: `"text"`
    "#);
}

#[test]
fn weights() {
    assert_snapshot!(wrong("function f(X) -> (Y) { param K[3] = zeros(); update K = X; Y = X + K; }"), @"
    E0122 `param` stands in a function, which has no weights: `param K[3] = zeros();`; help: write `layer` instead of `function`
    E0122 `update` stands in a function, which has no weights: `update K = X;`; help: write `layer` instead of `function`
    ");
    assert_snapshot!(wrong("layer L(n)(X) -> (Y) { param K[n, k, [n, 2], 2.5, X[0]] = zeroes(); state Mean[] = Dense; update Maen = X; update Y = X; Y = X + K; }"), @"
    E0109 `k` has no value here: `k`; help: a name that nothing defines stands for itself, which can only be handed on or compared
    E0117 a size is an integer, without a decimal point: `2.5`
    E0117 an element of `X` is known only at run time, so it cannot be a size: `X[0]`
    E0102 there is no function `zeroes`: `zeroes`; help: did you mean `zeros`?
    E0103 `Dense` is applied without its hyper-parameter `units`: `Dense`, `units` (it has no default); help: write `Dense(units = …)`
    E0123 `Maen` is updated, but it is no state of this layer: `Maen`; help: did you mean `Mean`?
    E0123 `Y` is updated, but it is no state of this layer: `Y`; help: a state is defined before, as in `state Mean[C] = zeros();`
    ");
    assert_snapshot!(wrong("layer L(n)(X) -> (Y) { state s[3] = zeros() if X + 1; Y = s + X; Y[i: n] = +(Y[i]); }"), @"E0115 `s` cannot name a tensor, because it starts with a small letter: `s`; help: call it `S`");
    assert_snapshot!(wrong("layer L(r)(X) -> (Y) { param K[3] = zeros regularizer = l3(2) if r == sme else 0; Y = X; }"), @"E0102 there is no function `l3`: `l3`");
}

#[test]
fn what_has_no_hyper_parameters_makes_no_layer() {
    assert_snapshot!(wrong("model Sub(X[N, 8]) -> (Y) { Y = X; } model M(X[N, 8]) -> (Y) { sub = Sub(); Y = sub(X); }"), @"E0103 `Sub` has no hyper-parameters: a call is of its inputs: `Sub`; help: to make one and call that, give it an empty list of them, `model Sub()(X)`");
    assert_snapshot!(wrong("layer Nothing(X = none) -> (Y) { Y = 1; } model M(X[N]) -> (Y) { Y = X + Nothing(); }"), @"W0101 the input `X` is not used: `X`");
}

#[test]
fn blocks() {
    assert_snapshot!(wrong("model M(X[N, M]) -> (Y) { yield Y = X; scan A in X along 0 { if training { yield B = A; } yield C = A; yield C = A; } Y = C; }"), @"
    E0124 `yield` stands in no `scan`, or in a block within one: `yield Y = X;`; help: a scan yields at every step: put it directly into the body of the `scan`
    E0124 `yield` stands in no `scan`, or in a block within one: `yield B = A;`; help: a scan yields at every step: put it directly into the body of the `scan`
    E0104 `C` is yielded twice: `C`, `C` (first yielded here)
    ");
    assert_snapshot!(wrong("model M(X[N, M]) -> (Y) { for A in X { Y = A; } if X > 0 { Y = X; } }"), @"
    E0131 `for` goes through a list, and this is a tensor: `X`; help: write `scan X in T along 0 { … }` to go along an axis of a tensor
    E0131 this condition is a tensor, which only a run knows: `X > 0`; help: to choose between tensors place by place, write `C ? A : B`
    ");
    assert_snapshot!(wrong("model M(X[]) -> (Y) { scan a in X along same { Y = X; } A, B = Attention(2)(X, X); A, B, C = Attention(2)(X, X); D, E = [A, B, C]; Y = D + E; }"), @"
    E0115 `a` cannot name a tensor, because it starts with a small letter: `a`; help: call it `A`
    E0107 this has rank 0, so there is no axis to go along: `X`
    E0109 `same` has no value here: `same`; help: a name that nothing defines stands for itself, which can only be handed on or compared
    E0129 3 names are given the parts of 2: `Attention(2)(X, X)`
    E0129 2 names are given the parts of 3: `[A, B, C]`
    ");
}

#[test]
fn indices_and_values() {
    assert_snapshot!(wrong("layer L(k, l = [1, 2])(X[N, M]) -> (Y) { Y[k, i: N, M] = +(X[i, k] * X[2*k + i, l[0]*i] * l[1]); }"), @"
    E0125 `k` is a value here, not an index variable: `k`, `k` (the value); help: rename one of the two, or write `k + 0` for the place of that number
    E0125 `k` is a value here, not an index variable: `k`, `k` (the value); help: rename one of the two, or write `k + 0` for the place of that number
    ");
    assert_snapshot!(wrong("layer L(k, l = [1, 2])(X[N, M]) -> (Y) { Y[i: N] = +(X[i, l[X]*i + l[0, 1] + m[0]] * l * q), i < k; n = 3; Z = n[0] + X[0, 0]; Y = Y + Z; }"), @"
    E0130 the number of an item must be known at compile time, and this is a tensor: `X`
    E0107 `l` is a list, which has one index: `l[0, 1]`; help: an item that is a list needs a name first
    E0101 there is no `m` here: `m`; help: did you mean `M`?
    E0109 `q` starts with a small letter, so it is an index variable, not a value: `q`; help: `index(X, axis)` gives the index of each place of X along an axis
    E0130 `n` is a number, not a list: `n`, `n` (defined here)
    E0116 `X` is indexed outside a contraction: `X[0, 0]`; help: write a contraction, as in `O[i: N] = +(X[i, j])`
    ");
    assert_snapshot!(wrong("layer L(k)(X[N, M]) -> (Y) { Y[i, j, m: unts, [k], \"a\"] = +(X[i, j + m]), i < X |> relu; }"), @r#"
    E0117 `unts` is an index variable, which cannot be part of a size: `unts`
    E0117 a list is no size: `[k]`
    E0117 a text is no size: `"a"`
    E0117 a pipeline is no size: `X |> relu`
    "#);
    // An index variable is no name that stands for itself.
    assert_snapshot!(wrong("layer L(mode)(X[N, M]) -> (Y) { Y[i: N] = +(i == j ? X[i, 2*j] : (mode != same ? 0 : 1)); }"), @"
    E0109 `i` starts with a small letter, so it is an index variable, not a value: `i`; help: `index(X, axis)` gives the index of each place of X along an axis
    E0109 `j` starts with a small letter, so it is an index variable, not a value: `j`; help: `index(X, axis)` gives the index of each place of X along an axis
    ");
}

#[test]
fn arguments() {
    assert_snapshot!(wrong("model M(X) -> (Y) { Y = X |> Dense(10, activatoin = relu) |> Dense() |> Dense |> Dense(1, relu, true, 4) |> Dense(1, units = 2) |> Dense(units = 1, units = 2); }"), @"
    E0126 `Dense` has no argument `activatoin`: `activatoin`; help: did you mean `activation`?
    E0103 `Dense` needs `units`: `Dense`, `units` (it has no default)
    E0103 `Dense` is applied without its hyper-parameter `units`: `Dense`, `units` (it has no default); help: write `Dense(units = …)`
    E0103 there are 3 hyper-parameters of `Dense`, but more are given: `4`
    E0127 `units` is given twice: `2`, `1` (first given here)
    E0127 `units` is given twice: `2`, `1` (first given here)
    ");
    assert_snapshot!(wrong("model M(X[N, H, W, C]) -> (Y) { Y = X |> Conv(3, 3, padding = smae) |> Conv(3, 3, padding = \"valid\") |> Conv(3, [3, 3], pading = same); Y = Y + Conv(1, 1)(X, X) + Conv(1, 1)(X[0, 0]); }"), @"
    E0128 `padding` is one of valid, same, not `smae`: `smae`; help: did you mean `same`?
    E0126 `Conv` has no argument `pading`: `pading`; help: did you mean `padding`?
    E0103 `Conv` takes 1 argument, but 2 are given: `Conv(1, 1)`
    E0116 `X` is indexed outside a contraction: `X[0, 0]`; help: write a contraction, as in `O[i: N] = +(X[i, j])`
    E0107 `X` has rank 4, but 2 indices are given: `X[0, 0]`, `X` (rank 4, from here)
    E0107 `X` of `Conv` has rank 4, but this has rank 0: `X[0, 0]`, `X[N, H, W, C]` (the input)
    ");
    assert_snapshot!(wrong("model M(X[N], Z) -> (Y) { Y = Attention(X, Z); A = Attention(2)(X); B = Attention(2)(X, Z, Kye = X); C = Attention(2)(X, smae, Query = Z); D = gelu(X, X); E = gelu(fast = true); F = gelu(Z, fast = 1); G = exp(X = Z); Y = Y + A + B + C + D + E + F + G; }"), @"
    E0103 `Attention` is applied without its hyper-parameter `num_heads`: `Attention`, `num_heads` (it has no default); help: write `Attention(num_heads = …)`
    E0103 `Attention` needs `Value`: `Attention(2)`, `Value` (it has no default)
    E0126 `Attention` has no argument `Kye`: `Kye`; help: did you mean `Key`?
    E0109 `smae` has no value here: `smae`; help: a name that nothing defines stands for itself, which can only be handed on or compared
    E0127 `Query` is given twice: `Z`, `X` (first given here)
    E0103 `gelu` takes 1 argument, but 2 are given: `gelu`
    E0115 `E` starts with a capital, so it names a tensor or a size: `E` (this is a function or layer); help: call it `e`
    E0126 `gelu` has no argument `fast`: `fast`; help: it has approximate
    E0126 `gelu` has no argument `fast`: `fast`; help: it has approximate, X
    E0126 the arguments of `exp` have no names: `X`; help: give them by position
    ");
    assert_snapshot!(wrong("model M(X[N]) -> (Y) { Y = X |> Denze(3) |> [relu, rleu] |> exp |> max; head = 2; Y = Y |> haed |> zeros() |> dims(X, X) |> (true ? relu : linear); }"), @"
    E0102 there is no function `Denze`: `Denze`; help: did you mean `Dense`?
    E0102 there is no function `rleu`: `rleu`; help: did you mean `relu`?
    E0103 `max` takes 2 arguments, but 1 is given: `max`
    E0102 there is no function `haed`: `haed`; help: did you mean `head`?
    E0103 `dims` takes 1 argument, but 2 are given: `dims`
    ");
    assert_snapshot!(wrong("function f(X) -> (Y) { Y[i: 3] = +(Dense(2)(X[i]) + gelu(X[i]) + zeros()(X[i])); } function g(A, B[N] = A) -> (Y) { Y = f(A, B) + g2(); } function g2()(n) -> (Y) { Y = n; }"), @"
    E0112 `Dense` works on whole tensors, so it cannot be called inside a contraction: `Dense(2)`; help: call it in a statement before
    E0107 `X` of `Dense` has at least rank 1, but this has rank 0: `X[i]`, `X[..., K]` (the input)
    E0112 `zeros` works on whole tensors, so it cannot be called inside a contraction: `zeros()`; help: call it in a statement before
    E0103 `f` takes 1 argument, but 2 are given: `f`
    ");
}

#[test]
fn recursion() {
    assert_snapshot!(wrong("layer A(n)(X) -> (Y) { if n > 1 { Y = X |> B(n); } else { Y = X; } } layer B(n)(X) -> (Y) { Y = A(n)(X); }"), @"E0111 `A` calls itself through `B`: `B`, `A` (and this call leads back); help: Tile has no recursion: every call is written out at compile time");
    assert_snapshot!(wrong("layer A(n = 1)(X) -> (Y) { Y = X |> [relu, A]; }"), @"E0111 `A` calls itself: `A`; help: Tile has no recursion: every call is written out at compile time");
    // A value of that name is another thing.
    assert_snapshot!(wrong("layer A(b)(X) -> (Y) { Y = b(X); } layer b(n)(X) -> (Y) { Y = A(n)(X); }"), @"");
}

#[test]
fn what_is_not_used() {
    assert_snapshot!(wrong("layer L(n, m = 1)(X, Z) -> (Y) { param K[m] = zeros(); state S[] = zeros(); update S = 1; a = 2; B = 3; for i in [1] { Y = X; } scan T in X along 0 { U = T; } }"), @"
    W0101 the hyper-parameter `n` is not used: `n`
    W0101 the input `Z` is not used: `Z`
    W0102 the weight `K` is not used: `K`
    W0102 `a` is assigned, but not used: `a`
    W0102 `B` is assigned, but not used: `B`
    W0102 `U` is assigned, but not used: `U`
    ");
}
