use super::lowered;

#[test]
fn inputs_without_a_shape() {
    let errors = lowered("function (A[M, N], B[N, L]) -> (C) { C = A; }", "A = f32[2, 3]");
    insta::assert_snapshot!(errors, @r"
    E0202: the shape of input `B` is not known
      `B[N, L]` 
      help: give it an array, or a shape with `--shape B=…`, or the size with `--dim L=…`
    ");
    let errors = lowered("function (A) -> (C) { C = A; }", "B = f32[2]; K: 3");
    insta::assert_snapshot!(errors, @r"
    E0201: there is no input `B`
      `function (A) -> (C) { C = A; }` 
      help: it has A
    E0201: there is no size `K`
      `function (A) -> (C) { C = A; }` 
      help: it has no sizes
    ");
}

#[test]
fn sizes_that_conflict() {
    let errors =
        lowered("function (A[M, L], B[L, N]) -> (C) { C = A; }", "A = f32[2, 3]; B = f32[4, 5]");
    insta::assert_snapshot!(errors, @r"
    E0213: `L` is 4 in `B`, but 3 before
      `L` 4 here: [4, 5]
      `L` 3 here
    ");
    let errors = lowered("function (A[M, 3]) -> (C) { C = A; }", "A = f32[2, 4]");
    insta::assert_snapshot!(errors, @r"
    E0213: `A` must have the size 3 here, and 4 is given: [2, 4]
      `3` 
    ");
    let errors = lowered("function (A[M]) -> (C) { C = A; }", "A = f32[2]; M: 3");
    insta::assert_snapshot!(errors, @r"
    E0213: `M` is 2 in `A`, but 3 before
      `M` 2 here: [2]
      help: `--dim M=3` was given
    ");
    let errors = lowered(
        concat!(
            "function f(A[N], B[N]) -> (C) { C = A; }\n",
            "function (X[N], Y[M]) -> (Z) { Z = f(X, Y); }"
        ),
        "N: 2; M: 3",
    );
    insta::assert_snapshot!(errors, @r"
    E0213: `N` is 3 in `B`, but 2 before
      `N` 3 here: [3]
      `N` 2 here
      `f(X, Y)` in this call
    ");
    let errors = lowered("function (A[M, N]) -> (C) { C = A; }", "A = f32[2]");
    insta::assert_snapshot!(errors, @r"
    E0212: expected a tensor with 2 axes for `A`, found [2]
      `A[M, N]` 
    ");
    let errors =
        lowered("function (X[N], D) -> (O) { O[i: N] = +(X[i]) default D; }", "N: 3; D = f32[4]");
    insta::assert_snapshot!(errors, @r"
    E0213: the default `D` has the shape [4], and the output [3]
      `D` 
      `O` the output
    ");
    let errors = lowered(
        "function (X[..., K], W[..., K]) -> (O) { O[..., k: ..., K] = +(X[..., k] * W[..., k]); }",
        "X = f32[2, 3]; W = f32[4, 3]",
    );
    insta::assert_snapshot!(errors, @r"
    E0213: `...` stands for the sizes [2], but `W` has [4, 3]
      `W[..., k]` 
    ");
}

#[test]
fn ranks_that_do_not_fit() {
    let errors = lowered("function (A) -> (O) { O[i: 2] = +(A[i, k, 0]); }", "A = f32[2, 3]");
    insta::assert_snapshot!(errors, @r"
    E0212: `A` has 2 axes, and is given 3 indices
      `A[i, k, 0]` 
      help: its shape is [2, 3]
    ");
    let errors =
        lowered("function (A, B) -> (O) { O[i: 2] = +(A[i] * B); }", "A = f32[2]; B = f32[2]");
    insta::assert_snapshot!(errors, @r"
    E0212: `B` has 1 axis, and is given no indices
      `B` 
    ");
}

#[test]
fn shapes_that_do_not_broadcast() {
    let errors = lowered("function (A, B) -> (O) { O = A + B; }", "A = f32[2, 3]; B = f32[2]");
    insta::assert_snapshot!(errors, @r"
    E0215: the shapes [2, 3] and [2] do not broadcast
      `A + B` 
      help: aligned at the last axis, sizes must be equal, or one of them 1
    ");
}

#[test]
fn indices_without_a_range() {
    let errors = lowered("function (A[N]) -> (O) { O[i: N] = +(A[j + k]); }", "N: 3");
    insta::assert_snapshot!(errors, @r"
    E0216: the index `j` has no upper bound
      `j` nothing limits it from above
      help: index a tensor with it, or add a constraint, as in `, j < 10`
    ");
}

#[test]
fn places_written_twice() {
    let errors = lowered("function (A[N, M]) -> (O) { O[i: N] = =(A[i, j]); }", "N: 3; M: 2");
    insta::assert_snapshot!(errors, @r"
    E0217: `=` writes `O[0]` more than once: where i = 0, j = 0, and where i = 0, j = 1
      `O[i: N] = =(A[i, j]);` 
      help: aggregate with `+`, `*`, `>` or `<`, or add constraints
    ");
    let errors = lowered("function (A[N, 5]) -> (O) { O[4*i + j: 4*N] = =(A[i, j]); }", "N: 3");
    insta::assert_snapshot!(errors, @r"
    E0217: `=` writes `O[4]` more than once: where i = 0, j = 4, and where i = 1, j = 0
      `O[4*i + j: 4*N] = =(A[i, j]);` 
      help: aggregate with `+`, `*`, `>` or `<`, or add constraints
    ");
    let errors =
        lowered("function (A[N], T[N]) -> (O) { O[T[i]: N] = =(A[i]); }", "A = f32[3]; T = i32[3]");
    insta::assert_snapshot!(errors, @r"
    E0217: it cannot be shown that `=` writes each place of `O` at most once
      `O[T[i]: N] = =(A[i]);` 
      help: add up with `+`: the places are known only at run time
    ");
}

#[test]
fn sizes_and_indices_that_are_no_integers() {
    let errors = lowered("function (A[N], S) -> (O) { O[i: S] = +(A[i]); }", "N: 3; S = 2.5");
    insta::assert_snapshot!(errors, @r"
    E0209: a size must be an integer known at compile time, and this is 2.5
      `S` 
    ");
    let errors = lowered("function (A[N]) -> (O) { O[i: N - 4] = +(A[i]); }", "N: 3");
    insta::assert_snapshot!(errors, @r"
    E0209: a size cannot be negative, and this is -1
      `N - 4` 
    ");
    let errors = lowered("function (A[N], S) -> (O) { O[i: N] = +(A[S*i]); }", "N: 3; S = f32[]");
    insta::assert_snapshot!(errors, @r"
    E0209: a constant in an index must be an integer known at compile time, and this is a tensor
      `S` 
    ");
    let errors = lowered("function (A[N]) -> (O) { O[i: N] = +(A[i + N/2]); }", "N: 3");
    insta::assert_snapshot!(errors, @r"
    E0218: an index or constraint of this contraction is never an integer
      `O[i: N] = +(A[i + N/2]);` 
      help: division in an index is exact: to round a size, give it a name before, as in `H = N / 2;`
    ");
    let errors = lowered("function (A[N], F) -> (O) { O[i: N] = +(A[F[i]]); }", "N: 3; F = f32[3]");
    insta::assert_snapshot!(errors, @r"
    E0204: an index must be of an integer type, and this is f32
      `F[i]` 
      help: convert the tensor with `as_int(T, 32)` in a statement before
    ");
    let errors =
        lowered("function (A[N]) -> (O) { O[i: N] = +(A[2*(9223372036854775807*i)]); }", "N: 3");
    insta::assert_snapshot!(errors, @r"
    E0219: these indices do not fit 64-bit integers
      `2*(9223372036854775807*i)` 
    ");
    let errors =
        lowered("function (A[N]) -> (O) { O[i: N] = +(A[i + 9223372036854775807]); }", "N: 3");
    insta::assert_snapshot!(errors, @r"
    E0219: these indices do not fit 64-bit integers
      `O[i: N] = +(A[i + 9223372036854775807]);` 
    ");
    let errors = lowered("function (A[N]) -> (O) { H = N / 0; O = A; }", "N: 3");
    insta::assert_snapshot!(errors, @r"
    E0203: this divides the integer by zero
      `N / 0` 
    ");
    let errors = lowered("function (A[N]) -> (O) { H = 9223372036854775807 + N; O = A; }", "N: 3");
    insta::assert_snapshot!(errors, @r"
    E0203: this number does not fit a 64-bit integer
      `9223372036854775807 + N` 
    ");
}

#[test]
fn tensors_too_large() {
    let errors = lowered("function (A[N], B[N, 1]) -> (O) { O = A + B; }", "N: 5000000000");
    insta::assert_snapshot!(errors, @r"
    E0214: a tensor f32[5000000000, 5000000000] is larger than any memory
      `A + B` 
    ");
}

#[test]
fn positions_that_do_not_fit() {
    let indexed = lowered("function (A[N]) -> (O) { O = index(A, 0); }", "N: 4294967299");
    insta::assert_snapshot!(indexed, @r"
    E0214: an axis of 4294967299 has more places than an i32 can number
      `index(A, 0)` 
    ");
    let searched = lowered("function f(A[N]) -> (O) { O[] = argmax(A[i]); }", "N: 4294967299");
    insta::assert_snapshot!(searched, @r"
    E0214: this searches more places than an i32 can number
      `O[] = argmax(A[i]);` 
    ");
    let gathered =
        lowered("function (V[N], I) -> (O) { O = gather(V, I); }", "N: 4294967299; I = i32[2]");
    insta::assert_snapshot!(gathered, @r"
    E0214: an index known at run time reaches 1073741824 places, and this axis has 4294967299
      `gather(V, I)` 
    ");
    let scattered = lowered(
        "function (V[N], E[K], I) -> (O) { O = scatter(E, I, V); }",
        "N: 4294967299; K: 2; I = i32[2]",
    );
    insta::assert_snapshot!(scattered, @r"
    E0214: this computes with indices that an i32 cannot hold
      `scatter(E, I, V)` 
    ");
    let wide = lowered("function (A[N], B[N, 0]) -> (O) { O = B; }", "N: 4611686018427387904");
    insta::assert_snapshot!(wide, @r"
    E0214: a tensor f32[4611686018427387904] is larger than any memory
      `A[N]` 
    ");
}

#[test]
fn numbers_that_do_not_fit() {
    let shifted = lowered("function (A[N]) -> (O) { H = N << 62; O = A; }", "N: 3");
    insta::assert_snapshot!(shifted, @r"
    E0203: this number does not fit a 64-bit integer
      `N << 62` 
    ");
    let shifted = lowered("function (A[N]) -> (O) { H = bit_right(N, 64); O = A; }", "N: 3");
    insta::assert_snapshot!(shifted, @r"
    E0203: a 64-bit integer is shifted by 0 to 63 bits, not by 64
      `bit_right(N, 64)` 
    ");
    let size = lowered(
        "function (A[N]) -> (O) { T = mul(N, mul(N, N)); O[i: T] = +(A[i]); }",
        "N: 4294967299",
    );
    insta::assert_snapshot!(size, @r"
    E0203: this number does not fit a 64-bit integer
      `mul(N, N)` 
    ");
    let narrowed =
        lowered("function (A[N], S) -> (O) { O = A * as_int(S, 32); }", "N: 3; S = 4294967299");
    insta::assert_snapshot!(narrowed, @r"
    E0203: this number does not fit a 32-bit integer
      `as_int(S, 32)` 
    ");
    let wide =
        lowered("function (A[N]) -> (O) { O[i: N] = +(A[i]), j < 4611686018427387904; }", "N: 3");
    insta::assert_snapshot!(wide, @r"
    E0219: the index `j` runs from 0 to 4611686018427387903, over more values than any tensor has
      `O[i: N] = +(A[i]), j < 4611686018427387904;` 
    ");
    let never = lowered("function (A[N]) -> (O) { O[i: N] = +(A[i]), i + 1/2 < 3; }", "N: 3");
    insta::assert_snapshot!(never, @r"
    E0218: an index or constraint of this contraction is never an integer
      `O[i: N] = +(A[i]), i + 1/2 < 3;` 
      help: division in an index is exact: to round a size, give it a name before, as in `H = N / 2;`
    ");
}

#[test]
fn operations_that_do_not_take_a_type() {
    let errors = lowered("function (A) -> (O) { O = A << 1; }", "A = f32[3]");
    insta::assert_snapshot!(errors, @r"
    E0204: bit operations do not take floats
      `A << 1` 
      help: convert with `as_int(X, 32)` first; a power is `pow(X, 2)`, and not `X ^ 2`
    ");
    let errors = lowered("function (A) -> (O) { O = tuple(A, A) + 1; }", "A = f32[3]");
    insta::assert_snapshot!(errors, @"
    E0204: expected a tensor, found a list
      `tuple(A, A) + 1` 
      help: take one of its parts, as in `A, B = T;` or with `element(T, 0)`
    ");
    let errors = lowered("function (A) -> (O) { O = gather(A, A); }", "A = f32[3]");
    insta::assert_snapshot!(errors, @r"
    E0204: an index must be of an integer type, and this is f32
      `A` 
      help: convert it with `as_int(X, 32)`
    ");
    let errors = lowered("function (A) -> (O) { O = prng_value(prng_step(A, 3)); }", "A = f32[3]");
    insta::assert_snapshot!(errors, @r"
    E0204: the state of the generator is a u32[3, 2048], and this is a f32[3]
      `A` 
    ");
}

#[test]
fn arguments_that_do_not_fit() {
    let errors = lowered("function (A) -> (O) { O = index(A, 1); }", "A = f32[3]");
    insta::assert_snapshot!(errors, @r"
    E0208: there is no axis 1 in the shape [3]
      `1` 
      help: axes are counted from 0
    ");
    let errors = lowered("function (A) -> (O) { O = reshape(A, 2, 2); }", "A = f32[3]");
    insta::assert_snapshot!(errors, @r"
    E0213: the shape [3] has 3 elements, and [2, 2] has 4
      `reshape(A, 2, 2)` 
    ");
    let errors = lowered("function (A) -> (O) { O = simple_reduce(A, 2); }", "A = f32[3]");
    insta::assert_snapshot!(errors, @r"
    E0213: the shape [3] does not reduce to [2]
      `simple_reduce(A, 2)` 
    ");
    let errors = lowered("function (A) -> (O) { O = as_float(A, 8); }", "A = f32[3]");
    insta::assert_snapshot!(errors, @r"
    E0208: `as_float` makes 16, 32 or 64 bits, not 8
      `8` 
    ");
    let errors = lowered("function (A) -> (O) { O = element(tuple(A, A), 2); }", "A = f32[3]");
    insta::assert_snapshot!(errors, @r"
    E0208: there is no part 2 in a tuple of 2
      `2` 
      help: parts are counted from 0
    ");
    let errors = lowered("function (A) -> (O) { O = mod(A, 2); }", "A = f32[3]");
    insta::assert_snapshot!(errors, @r"
    E0207: `mod` takes sizes, not tensors
      `A` 
    ");
    let errors =
        lowered("function (A[N], B[M]) -> (O) { K = broadcast(N, M); O = A; }", "N: 2; M: 3");
    insta::assert_snapshot!(errors, @r"
    E0210: the sizes 2 and 3 differ
      `broadcast(N, M)` 
    ");
    let errors =
        lowered("function (A[N]) -> (O) { K = assert_even(mod(N, 2) == 0); O = A; }", "N: 3");
    insta::assert_snapshot!(errors, @r"
    E0211: the assertion `even` does not hold
      `assert_even(mod(N, 2) == 0)` 
    ");
}

/// Ten functions with 250 levels each that call each other give an error, not a stack overflow.
#[test]
fn calls_that_nest_too_deep() {
    let deep = |call: &str| format!("{}{call}{}", "(".repeat(250), " + 1)".repeat(250));
    let mut source = String::from("function f0(X) -> (Y) { Y = X; }\n");
    for number in 1..10 {
        let call = deep(&format!("f{}(X)", number - 1));
        source += &format!("function f{number}(X) -> (Y) {{ Y = {call}; }}\n");
    }
    let errors = lowered(&source, "X = f32[2]");
    insta::assert_snapshot!(errors.lines().next().unwrap_or_default(), @"E0205: calls and expressions are nested more than 600 levels deep here");
}

/// Programs that would take forever, or all memory.
#[test]
fn programs_that_are_too_much() {
    let first = |body: &str| {
        let errors = lowered(&format!("model M(X[N, 3]) -> (Y) {{ {body} }}"), "X = f32[2, 3]");
        errors.lines().next().unwrap_or_default().to_owned()
    };
    insta::assert_snapshot!(first("l = list(1, 1000000000000); Y = X + l[0];"), @"E0007: compiling this takes more memory than the limit of 1000000000 bytes");
    insta::assert_snapshot!(first("l = [1]; for i in range(60) { l = l + l; } Y = X;"), @"E0007: compiling this takes more memory than the limit of 1000000000 bytes");
    insta::assert_snapshot!(first("l = [1]; for i in range(60) { l = [l, l]; } b = l == [l]; Y = X;"), @"E0007: compiling this takes more work than the limit of 2 seconds allows");
    insta::assert_snapshot!(first("l = \"a\"; for i in range(60) { l = l + l; } Y = X;"), @"E0007: compiling this takes more memory than the limit of 1000000000 bytes");
    insta::assert_snapshot!(first("Y = X |> repeat(1000000000000, Identity());"), @"E0007: compiling this takes more memory than the limit of 1000000000 bytes");
    insta::assert_snapshot!(first("Y = X; for i in range(1000000) { Y = Y + 1; }"), @"E0007: compiling this takes more work than the limit of 2 seconds allows");
    insta::assert_snapshot!(first("Y = X * pow(10, 400);"), @"E0203: this number does not fit a 64-bit integer");
    insta::assert_snapshot!(first("H = 0; scan Xt in X along 1 { H = H + 0.5; } Y = H;"), @"E0229: `H` is i32 before the loop, and a float after a step");
    insta::assert_snapshot!(first("Y = X |> Dense(3, name = \"a.b\");"), @"E0208: `a.b` is no name for a layer");
    let own = lowered(
        "function f(g = 3)(X) -> (Y) { Y = g(X); } function h(X) -> (Y) { Y = X |> f(4); }",
        "X = f32[2]",
    );
    insta::assert_snapshot!(own.lines().next().unwrap_or_default(), @"E0221: `g` is a number, which cannot be called");
    insta::assert_snapshot!(first("Z = fill([0, 3], 0.0); I = as_int(X, 32); Y[n, m, k: N, 3, 3] = =(Z[I[n, m], k]);"), @"E0235: an index that is known at run time reads a tensor of the shape [0, 3], which has nothing to read");
}

#[test]
fn gradients_of_what_is_no_number() {
    let errors = lowered("function f(X[N]) -> (Y) { Y = grad(X * X, X); }", "X = f32[3]");
    insta::assert_snapshot!(errors, @"
    E0236: `grad` differentiates one float, and this is f32[3]
      `X * X` 
      help: add it up, as in `grad(sum(L), X)`
    ");
    let errors = lowered("function f(X[]) -> (Y) { Y = grad(X * X, X); }", "X = i32[]");
    insta::assert_snapshot!(errors, @"
    E0236: `grad` differentiates one float, and this is i32[]
      `X * X`
    ");
    let errors = lowered("function f(X[]) -> (Y) { Y = grad(X * X, [X, relu]); }", "X = f32[]");
    insta::assert_snapshot!(errors, @"
    E0204: expected a tensor, found a function
      `[X, relu]`
    ");
}
