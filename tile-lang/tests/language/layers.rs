//! Tests of the checker on layers and models.

use insta::assert_snapshot;
use tile_lang::check;

use crate::brief;

/// The definitions that the programs below use.
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

/// Returns the diagnostics of a program that uses the definitions.
fn wrong(program: &str) -> String {
    brief(&format!("{program}{DEFINITIONS}"))
}

/// Checks programs without errors and warnings.
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
        // Functions have blocks, too. A name keeps its value there, except in loops.
        "function power(n = 2)(X) -> (Y) {
             Y = X;
             for i in range(1, n) { Y = Y * X; }
             if n < 0 { Z = 1 / Y; } else { Z = Y; }
             Y = gelu(Z);
         }
         ".replace("Y = gelu(Z);\n", "Out = Z;\n").replace("-> (Y)", "-> (Out)").as_str(),
        // Words of layers and values of the language are ordinary names in a Tile v0 function.
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
    E0115 the hyper-parameter `Units` starts with a capital: `Units`; help: capitals are for tensors and sizes: call it `units`
    E0106 every layer already has a hyper-parameter `name`: `name`; help: give this one another name
    E0106 `training` is a constant of the language: `training`; help: give this one another name
    E0115 `n` starts with a small letter, so it cannot be a tensor with sizes: `n`; help: call it `N`
    E0106 `n` is an input twice: `n`, `n` (the first one)
    E0104 `N` is assigned, but it is a size: `N`, `N` (the size); help: give the new value another name
    E0115 expected a tensor for `Head`, found a function or layer: `Head`; help: apply it to a tensor, as in `X |> …`, or call it `head`
    E0115 `x` starts with a small letter, so it cannot name a tensor: `x`; help: call it `X`
    ");
    assert_snapshot!(wrong("model M(X, units = 3) -> (Y) { if unts > 3 { A = X; } else { B = A; } Y = trainning + Missing + X * unit + B; }"), @"
    E0109 unknown value `unts`: `unts`; help: did you mean `units`?
    E0101 unknown name `A`: `A`, `A` (defined here, inside a block)
    E0109 unknown value `trainning`: `trainning`; help: did you mean `training`?
    E0101 unknown name `Missing`: `Missing`
    E0109 unknown value `unit`: `unit`; help: did you mean `units`?
    ");
    assert_snapshot!(wrong("model M(X) -> (Y) { for X in [1, 2] { Y = X; } for x in [1, 2] { Y = x; } Y = Y + x; }"), @"
    E0106 `X` is defined already, so it cannot be the variable of a loop: `X`, `X` (the other value)
    E0109 unknown value `x`: `x`; help: did you mean `X`?
    ");
    assert_snapshot!(wrong("function f(n)(X) -> (Y) { n = 2; Y = X; if n > 1 { Y = 2; } for i in range(n) { Y = i; i = 2; } Y = 3; }"), @"
    E0104 `n` is assigned, but it is a hyper-parameter: `n`, `n` (the hyper-parameter); help: give the new value another name
    E0104 `Y` is assigned twice: `Y`, `Y` (first assigned here); help: give the new value another name
    E0104 `i` is assigned, but it is the variable of a loop: `i`, `i` (the variable); help: give the new value another name
    E0104 `Y` is assigned twice: `Y`, `Y` (first assigned here); help: give the new value another name
    ");
    assert_snapshot!(wrong("model M(Out) -> (Y) { scan Z in Out along 0 { H = Z; Last = H; } Y = Last + Z; }"), @"
    E0101 unknown name `Last`: `Last`, `Last` (defined here, inside a block)
    E0101 unknown name `Z`: `Z`
    ");
    assert_snapshot!(wrong("model M(X) -> (Y) { Y = relu + 1; Z = X |> 3; f = Dense; Y = Dense; A = \"text\" + Y; B = X; B = B(X); C = none; }"), @r#"
    E0130 expected a value, found the function `relu`: `relu`; help: apply it, as in `relu(…)`
    E0130 expected a function or layer, found a number: `3`
    E0130 expected a value, found the function `Dense`: `Dense`; help: apply it, as in `Dense(…)`
    E0130 expected a number, tensor or list, found a text: `"text"`
    "#);
}

#[test]
fn weights() {
    assert_snapshot!(wrong("function f(X) -> (Y) { param K[3] = zeros(); update K = X; Y = X + K; }"), @"
    E0122 unexpected `param`: a function has no weights: `param K[3] = zeros();`; help: write `layer` instead of `function`
    E0122 unexpected `update`: a function has no weights: `update K = X;`; help: write `layer` instead of `function`
    ");
    assert_snapshot!(wrong("layer L(n)(X) -> (Y) { param K[n, k, [n, 2], 2.5, X[0]] = zeroes(); state Mean[] = Dense; update Maen = X; update Y = X; Y = X + K; }"), @"
    E0109 unknown value `k`: `k`; help: an undefined small name is a symbol, which can only be passed on or compared
    E0117 expected an integer size, found a number with a decimal point: `2.5`
    E0117 expected a size known at compile time, found an element of `X`: `X[0]`
    E0102 unknown function `zeroes`: `zeroes`; help: did you mean `zeros`?
    E0103 missing argument `units` of `Dense`: `Dense`, `units` (it has no default); help: write `X |> Dense(units = …)`
    E0123 unknown state `Maen`: `Maen`; help: did you mean `Mean`?
    E0123 unknown state `Y`: `Y`; help: declare it first, as in `state Mean[C] = zeros();`
    ");
    assert_snapshot!(wrong("layer L(n)(X) -> (Y) { state s[3] = zeros() if X + 1; Y = s + X; Y[i: n] = +(Y[i]); }"), @"E0115 `s` starts with a small letter, so it cannot name a tensor: `s`; help: call it `S`");
    assert_snapshot!(wrong("layer L(r)(X) -> (Y) { param K[3] = zeros regularizer = l3(2) if r == sme else 0; Y = X; }"), @"E0102 unknown function `l3`: `l3`");
}

#[test]
fn what_has_no_hyper_parameters_makes_no_layer() {
    assert_snapshot!(wrong("model Sub(X[N, 8]) -> (Y) { Y = X; } model M(X[N, 8]) -> (Y) { sub = Sub(); Y = sub(X); }"), @"E0103 `Sub()` is a call without inputs, because `Sub` has no list of hyper-parameters: `Sub`; help: write `X |> Sub`, or give it an empty list, as in `model Sub()(X)`");
    assert_snapshot!(wrong("layer Nothing(X = none) -> (Y) { Y = 1; } model M(X[N]) -> (Y) { Y = X + Nothing(); }"), @"W0101 unused input `X`: `X`");
}

#[test]
fn blocks() {
    assert_snapshot!(wrong("model M(X[N, M]) -> (Y) { yield Y = X; scan A in X along 0 { if training { yield B = A; } yield C = A; yield C = A; } Y = C; }"), @"
    E0124 unexpected `yield` outside the body of a `scan`: `yield Y = X;`; help: a scan yields at every step: put it into the body itself, outside inner blocks
    E0124 unexpected `yield` outside the body of a `scan`: `yield B = A;`; help: a scan yields at every step: put it into the body itself, outside inner blocks
    E0104 `C` is yielded twice: `C`, `C` (first yielded here)
    ");
    assert_snapshot!(wrong("model M(X[N, M]) -> (Y) { for A in X { Y = A; } if X > 0 { Y = X; } }"), @"
    E0131 expected a list, found a tensor: `X`; help: to go along an axis of a tensor, write `scan X in T along 0 { … }`
    E0131 expected a condition known at compile time, found a tensor: `X > 0`; help: to choose between the elements of tensors, write `C ? A : B`
    ");
    assert_snapshot!(wrong("model M(X[]) -> (Y) { scan a in X along same { Y = X; } A, B = Attention(2)(X, X); A, B, C = Attention(2)(X, X); D, E = [A, B, C]; Y = D + E; }"), @"
    E0115 `a` starts with a small letter, so it cannot name a tensor: `a`; help: call it `A`
    E0107 expected a tensor with an axis, found rank 0: `X`
    E0109 unknown value `same`: `same`; help: an undefined small name is a symbol, which can only be passed on or compared
    E0129 expected 3 values for 3 names, found 2: `Attention(2)(X, X)`
    E0129 expected 2 values for 2 names, found 3: `[A, B, C]`
    ");
}

#[test]
fn indices_and_values() {
    assert_snapshot!(wrong("layer L(k, l = [1, 2])(X[N, M]) -> (Y) { Y[k, i: N, M] = +(X[i, k] * X[2*k + i, l[0]*i] * l[1]); }"), @"
    E0125 expected an index variable, found the value `k`: `k`, `k` (the value); help: rename one of the two, or write `k + 0` for the position with that number
    E0125 expected an index variable, found the value `k`: `k`, `k` (the value); help: rename one of the two, or write `k + 0` for the position with that number
    ");
    assert_snapshot!(wrong("layer L(k, l = [1, 2])(X[N, M]) -> (Y) { Y[i: N] = +(X[i, l[X]*i + l[0, 1] + m[0]] * l * q), i < k; n = 3; Z = n[0] + X[0, 0]; Y = Y + Z; }"), @"
    E0130 expected an index known at compile time, found a tensor: `X`
    E0107 expected 1 index for the list `l`, found 2: `l[0, 1]`; help: give an item that is a list a name first
    E0101 unknown name `m`: `m`; help: did you mean `M`?
    E0109 expected a value, found the index variable `q`: `q`; help: names of tensors start with a capital; `index(X, axis)` has the index of each element along an axis
    E0130 expected a list, found the number `n`: `n`, `n` (defined here)
    E0116 `X` is indexed outside a contraction: `X[0, 0]`; help: a part of a tensor is a contraction: `Y[] = =(X[0, 0]);`
    ");
    assert_snapshot!(wrong("layer L(k)(X[N, M]) -> (Y) { Y[i, j, m: unts, [k], \"a\"] = +(X[i, j + m]), i < X |> relu; }"), @r#"
    E0117 expected a size, found the index variable `unts`: `unts`
    E0117 expected a size, found a list: `[k]`
    E0117 expected a size, found a text: `"a"`
    E0117 expected a size, found a pipeline: `X |> relu`
    "#);
    // An index variable is not a symbol.
    assert_snapshot!(wrong("layer L(mode)(X[N, M]) -> (Y) { Y[i: N] = +(i == j ? X[i, 2*j] : (mode != same ? 0 : 1)); }"), @"
    E0109 expected a value, found the index variable `i`: `i`; help: names of tensors start with a capital; `index(X, axis)` has the index of each element along an axis
    E0109 expected a value, found the index variable `j`: `j`; help: names of tensors start with a capital; `index(X, axis)` has the index of each element along an axis
    ");
}

#[test]
fn arguments() {
    assert_snapshot!(wrong("model M(X) -> (Y) { Y = X |> Dense(10, activatoin = relu) |> Dense() |> Dense |> Dense(1, relu, true, 4) |> Dense(1, units = 2) |> Dense(units = 1, units = 2); }"), @"
    E0126 unknown argument `activatoin` of `Dense`: `activatoin`; help: did you mean `activation`?
    E0103 missing argument `units` of `Dense`: `Dense`, `units` (it has no default)
    E0103 missing argument `units` of `Dense`: `Dense`, `units` (it has no default); help: write `X |> Dense(units = …)`
    E0103 expected 1 to 3 arguments for `Dense`, found 4: `4`
    E0127 `units` is given twice: `2`, `1` (first given here)
    E0127 `units` is given twice: `2`, `1` (first given here)
    ");
    assert_snapshot!(wrong("model M(X[N, H, W, C]) -> (Y) { Y = X |> Conv(3, 3, padding = smae) |> Conv(3, 3, padding = \"valid\") |> Conv(3, [3, 3], pading = same); Y = Y + Conv(1, 1)(X, X) + Conv(1, 1)(X[0, 0]); }"), @"
    E0128 expected one of valid, same for `padding`, found `smae`: `smae`; help: did you mean `same`?
    E0126 unknown argument `pading` of `Conv`: `pading`; help: did you mean `padding`?
    E0103 expected 1 argument for `Conv`, found 2: `Conv(1, 1)`
    E0116 `X` is indexed outside a contraction: `X[0, 0]`; help: a part of a tensor is a contraction: `Y[k, l: W, C] = =(X[0, 0, k, l]);`
    ");
    assert_snapshot!(wrong("model M(X[N], Z) -> (Y) { Y = Attention(X, Z); A = Attention(2)(X); B = Attention(2)(X, Z, Kye = X); C = Attention(2)(X, smae, Query = Z); D = gelu(X, X); E = gelu(fast = true); F = gelu(Z, fast = 1); G = exp(X = Z); Y = Y + A + B + C + D + E + F + G; }"), @"
    E0103 missing argument `num_heads` of `Attention`: `Attention`, `num_heads` (it has no default); help: write `X |> Attention(num_heads = …)`
    E0103 missing argument `Value` of `Attention`: `Attention(2)`, `Value` (it has no default)
    E0126 unknown argument `Kye` of `Attention`: `Kye`; help: did you mean `Key`?
    E0109 unknown value `smae`: `smae`; help: an undefined small name is a symbol, which can only be passed on or compared
    E0127 `Query` is given twice: `Z`, `X` (first given here)
    E0103 expected 1 argument for `gelu`, found 2: `gelu`; help: options stand in a list of their own, before the tensor: `gelu(approximate = …)(X)`
    E0126 unknown argument `fast` of `gelu`: `fast`; help: the arguments are approximate
    E0126 unknown argument `fast` of `gelu`: `fast`; help: the arguments are approximate, X
    E0126 `exp` takes its arguments by position only: `X`; help: remove `X =`
    ");
    assert_snapshot!(wrong("model M(X[N]) -> (Y) { Y = X |> Denze(3) |> [relu, rleu] |> exp |> max; head = 2; Y = Y |> haed |> zeros() |> dims(X, X) |> (true ? relu : linear); }"), @"
    E0102 unknown layer `Denze`: `Denze`; help: did you mean `Dense`?
    E0102 unknown function `rleu`: `rleu`; help: did you mean `relu`?
    E0103 expected 2 arguments for `max`, found 1: `max`; help: the maximum along an axis is `amax(axis = 1)(X)`
    E0102 unknown function `haed`: `haed`; help: did you mean `head`?
    E0103 expected 1 argument for `dims`, found 2: `dims`
    ");
    assert_snapshot!(wrong("function f(X) -> (Y) { Y[i: 3] = +(Dense(2)(X[i]) + gelu(X[i]) + zeros()(X[i])); } function g(A, B[N] = A) -> (Y) { Y = f(A, B) + g2(); } function g2()(n) -> (Y) { Y = n; }"), @"
    E0112 `Dense` works on whole tensors, so it cannot be called inside a contraction: `Dense(2)`; help: call it in a statement before this one
    E0107 expected a tensor with at least 1 axis for `X` of `Dense`, found one with 0 axes: `X[i]`, `X[..., K]` (the input)
    E0112 `zeros` works on whole tensors, so it cannot be called inside a contraction: `zeros()`; help: call it in a statement before this one
    E0103 expected 1 argument for `f`, found 2: `f`
    E0130 expected a tensor or a number, found the function `g2`: `g2()`; help: apply it with `|>`, as in `X |> g2(…)`
    ");
}

#[test]
fn recursion() {
    assert_snapshot!(wrong("layer A(n)(X) -> (Y) { if n > 1 { Y = X |> B(n); } else { Y = X; } } layer B(n)(X) -> (Y) { Y = A(n)(X); }"), @"E0111 `A` calls itself through `B`: `B`, `A` (and this call leads back); help: Tile has no recursion: every call is inlined at compile time");
    assert_snapshot!(wrong("layer A(n = 1)(X) -> (Y) { Y = X |> [relu, A]; }"), @"E0111 `A` calls itself: `A`; help: Tile has no recursion: every call is inlined at compile time");
    // A value with the name of a function is distinct from the function.
    assert_snapshot!(wrong("layer A(b)(X) -> (Y) { Y = b(X); } layer b(n)(X) -> (Y) { Y = A(n)(X); }"), @"");
}

#[test]
fn what_is_not_used() {
    assert_snapshot!(wrong("layer L(n, m = 1)(X, Z) -> (Y) { param K[m] = zeros(); state S[] = zeros(); update S = 1; a = 2; B = 3; for i in [1] { Y = X; } scan T in X along 0 { U = T; } }"), @"
    W0101 unused hyper-parameter `n`: `n`
    W0101 unused input `Z`: `Z`
    W0102 unused weight `K`: `K`
    W0102 unused value `a`: `a`
    W0102 unused value `B`: `B`
    W0102 unused value `U`: `U`
    ");
}
