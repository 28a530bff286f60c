"""Makes plaidml.txt: programs as PlaidML 0.7 writes them (its Keras backend, its library of operations and the programs that it
composes of these), and what they give, by NumPy.

    python3 tests/golden/plaidml.py > tests/golden/plaidml.txt
"""

import numpy as np

rng = np.random.default_rng(7)
cases = []


def quarters(*shape):
    """Multiples of 1/4 from -2 to 2: sums of products of these are exact."""
    return (rng.integers(-8, 9, shape) / 4).astype(np.float32)


def ints(*shape, low=0, high=5):
    return rng.integers(low, high, shape).astype(np.int32)


def case(name, program, inputs, **outputs):
    cases.append((name, program, inputs, outputs))


def f32(x):
    return np.asarray(x, np.float32)


def i32(x):
    return np.asarray(x, np.int32)


def padded(x, *widths):
    return np.pad(x, widths)


# --- Sizes by functions, as composed programs have them.
X = quarters(3, 4)
case("size_add", "function (I[N0, N1]) -> (O) { T = add(N0, 4); O[i, j: T, N1] = +(I[i, j]); }", {"I": X}, O=padded(X, (0, 4), (0, 0)))
case("size_sub_mul_div", """function (X_I_0[X_I_0_0, X_I_0_1]) -> (X_T7) {
  X_T1 = 2;
  X_T2 = mul(X_I_0_0, X_T1);
  X_T3 = 1;
  X_T4 = sub(X_T2, X_T3);
  X_T5 = div(X_I_0_1, X_T1);
  X_T6 = add(X_T5, X_T3);
  [[pid(pad)]] X_T7[2*x0, x1 : X_T4, X_T6] = =(X_I_0[x0, x1]);
}""", {"X_I_0": X}, X_T7=np.stack([X[0, :3], 0 * X[0, :3], X[1, :3], 0 * X[0, :3], X[2, :3]]))
case("size_mixed", """function (I[N, M]) -> (O, Mean) {
  T = add(N * 2, sub(M, 1)) / 3;
  U = max(mod(mul(N, 5), M), min(T, 2)) + ceil(div(M, 3)) - floor(1);
  O[i, j: T, U] = +(I[i, j]);
  Total[] = +(I[i, j]);
  Mean = Total / mul(N, M) + 0 * T;
}""", {"I": X}, O=X[:, :3], Mean=f32(X.sum() / 12))
case("size_neg_cond", """function (I[N, M]) -> (O) {
  T = neg(sub(N, M));
  U = cond(cmp_lt(N, M), M, N);
  V = cond(cmp_eq(N, M), 1, broadcast(1, N));
  O[i, j, 0: U, V, T] = +(I[j, i]);
}""", {"I": X}, O=X.T[:, :, None])
case("size_ident_match", """function (A[N, K], B[L, M]) -> (O) {
  T = match(K, L); U = ident(N); Ok = assert_sizes(cmp_eq(K, L));
  O[i, j: U, M] = +(A[i, k] * B[k, j]), k < T;
}""", {"A": X, "B": (Y := quarters(4, 5))}, O=X @ Y)
case("size_as_value", """function (I[N, M]) -> (O) {
  T = add(N, M); S[n: N] = +(I[n, m]);
  O = div(mul(S, 8), add(T, 1)) + mul(S, sub(T, 7)) + cond(cmp_gt(T, 5), T, 0);
}""", {"I": X}, O=X.sum(1) + 7)
case("size_from_scalar", "function (I[N], Count) -> (O) { T = add(N, mul(Count, 2)); O[i + Count: T] = =(I[i]); }", {"I": X[0], "Count": 3}, O=padded(X[0], (3, 3)))
case("size_in_constraint", "function (I[N]) -> (O) { W = div(N, 2); O[i: N] = +(I[i + j]), j < add(W, 1); }", {"I": (Z := quarters(7))}, O=[Z[i:i + 4].sum() for i in range(7)])
case("size_in_polynomial", "function (I[N]) -> (O) { T = sub(N, 1); O[i: N] = =(I[T - i]); }", {"I": Z}, O=Z[::-1])
case("size_reshape", """function (I[A, B, C]) -> (O) {
  T1 = mul(A, B); T2 = div(mul(T1, C), 6);
  O = reshape(I, 6, T2);
}""", {"I": (V := quarters(2, 3, 4))}, O=V.reshape(6, 4))

# --- Constraints with fractions hold where their left sides are integers.
case("fraction_constraint", "function (I[N, M]) -> (O) { O[i: N] = +(I[i, j]), i/2 + j/2 < 3; }", {"I": (W := quarters(5, 6))},
     O=[sum(W[i, j] for j in range(6) if (i + j) % 2 == 0 and i + j < 6) for i in range(5)])
case("fraction_constraint_alone", "function (I[N]) -> (O) { O[i: N] = =(I[i]), i/3 < 2; }", {"I": Z}, O=[Z[i] if i in (0, 3) else 0 for i in range(7)])
case("fraction_index", "function (I[N]) -> (O) { O[i: mul(N, 2)] = =(I[i/2]); }", {"I": Z}, O=[Z[i // 2] if i % 2 == 0 else 0 for i in range(14)])
case("fraction_constraint_minus", "function (I[N]) -> (O) { O[2*j, 4 - j: 9, 5] = +(I[i + j]), i/2 - j/2 + 1 < 3; }", {"I": Z},
     O=[[sum(Z[i + j] for i in range(-9, 9) if (i - j) % 2 == 0 and 0 <= i - j + 2 < 6 and 0 <= i + j < 7) if a == 2 * j and b == 4 - j else 0
         for b in range(5) for j in [4 - b]] for a in range(9)])

# --- Keras' backend.
case("argmax", """function (I[X0, X1], One[]) -> (O) {
  T[x0, x1: X0, X1] = =(One[]);
  IX = index(T, 1);
  Max[x0, 0: X0, 1] = >(I[x0, x1]);
  IsMax = (I == Max ? IX : -1);
  Best[x0: X0] = >(IsMax[x0, x1]);
  O = as_uint(Best, 32);
}""", {"I": (D := f32(rng.permutation(20).reshape(4, 5))), "One": f32(1)}, O=D.argmax(1).astype(np.uint32))
case("all", "function (I[X0, X1]) -> (O) { T = cond(cmp_eq(I, 0), 0, 1); P[x0: X0] = *(T[x0, x1]); O = as_uint(P, 8); }", {"I": (A := ints(4, 3, high=4))}, O=A.all(1).astype(np.uint8))
case("any", "function (I[X0, X1]) -> (O) { T = cond(I == 0, 0, 1); P[x0: X0] = >(T[x0, x1]); O = as_uint(P, 8); }", {"I": (A := ints(5, 2, high=2))}, O=A.any(1).astype(np.uint8))
P4 = quarters(2, 6, 7, 3)
case("average_pool", """function (I[N, L0, L1, C]) -> (O) {
  One = 1;
  S[n, x0, x1, c: N, (L0 - 2 + 2) / 2, (L1 - 3 + 2) / 2, C] = +(I[n, 2*x0 + k0, 2*x1 + k1, c]), k0 < 2, k1 < 3;
  O = S / (2 * 3);
}""", {"I": P4}, O=np.array([[[P4[n, 2*i:2*i+2, 2*j:2*j+3].mean((0, 1)) for j in range(3)] for i in range(3)] for n in range(2)]))
case("average_pool_same", """function (I[N, L0]) -> (O) {
  S[n, x: N, (L0 + 1) / 2] = +(I[n, 2*x + k - 1]), k < 3;
  Ones = cond(I < 0, 1.0, 1.0);
  C[n, x: N, (L0 + 1) / 2] = +(Ones[n, 2*x + k - 1]), k < 3;
  O = S / C;
}""", {"I": (Q := quarters(2, 5))}, O=np.stack([Q[:, 0:2].mean(1), Q[:, 1:4].mean(1), Q[:, 3:5].mean(1)], 1))
case("max_pool", "function (I[N, L0, C]) -> (O) { O[n, x0, c: N, (L0 + 1) / 2, C] = >(I[n, 2*x0 + a0, c]), a0 < 2; }", {"I": (Q := quarters(2, 7, 3))},
     O=np.stack([Q[:, 2*i:2*i+2].max(1) for i in range(4)], 1))
case("batch_normalization", "function (X, M, V, B, G, E) -> (O) { O = (X - M) * G / (sqrt(V + E)) + B; }",
     {"X": X, "M": (M := quarters(4)), "V": (VV := f32([0.25, 1, 4, 2.25])), "B": (B := quarters(4)), "G": (G := quarters(4)), "E": 0.5},
     O=(X - M) * G / np.sqrt(VV + 0.5) + B)
Prob = f32([[0.25, 0.5, 0.125], [0.75, 0.0625, 0.5]])
Target = f32([[1, 0, 0], [0.5, 1, 0]])
case("binary_crossentropy", "function (O[I0, I1], T[I0, I1]) -> (R) { R = builtin_binary_crossentropy(O, T, I0*I1); }", {"O": Prob, "T": Target},
     R=-Target * np.log(Prob) - (1 - Target) * np.log(1 - Prob))
case("cast", "function (I) -> (O, P, R) { O = as_float(I, 32); P = as_int(I * 2, 16); R = as_uint(I + 2, 8); }", {"I": (c := f32([[-1.5, 2.75], [0, 1]]))},
     O=c, P=(2 * c).astype(np.int16), R=(c + 2).astype(np.uint8))
case("clip", "function (X, Min, Max) -> (O) { T = (X < Min ? Min : X); O = (T > Max ? Max : T); }", {"X": X, "Min": -0.5, "Max": 1.25}, O=X.clip(-0.5, 1.25))
case("clip_functions", "function (X, Min, Max) -> (O) { M = max(X, Min); O = min(M, Max); }", {"X": X, "Min": f32(-0.5), "Max": f32(1.25)}, O=X.clip(-0.5, 1.25))
A, B = quarters(2, 3), quarters(2, 2)
case("concatenate", """function (I0[N0, A0], I1[N0, A1]) -> (O) {
  C0 = A0; C1 = add(C0, A1);
  T0[n0, a: N0, C1] = =(I0[n0, a]);
  T1[n0, a + C0: N0, C1] = =(I1[n0, a]);
  O = T0 + T1;
}""", {"I0": A, "I1": B}, O=np.concatenate([A, B], 1))
I4, K4 = quarters(2, 6, 5, 3), quarters(3, 2, 3, 4)


def conv(x, k, stride=(1, 1), dilation=(1, 1), before=(0, 0), out=None):
    n, h, w, c = x.shape
    result = np.zeros((n, *out, k.shape[3]), np.float32)
    for y in range(out[0]):
        for z in range(out[1]):
            for i in range(k.shape[0]):
                for j in range(k.shape[1]):
                    a, b = y * stride[0] + i * dilation[0] - before[0], z * stride[1] + j * dilation[1] - before[1]
                    if 0 <= a < h and 0 <= b < w:
                        result[:, y, z] += x[:, a, b] @ k[i, j]
    return result


case("convolution", """function (I[N, L0, L1, CI], K[LK0, LK1, CI, CO]) -> (O) {
  O[n, x0, x1, co: N, (L0 + 1) / 2, (L1 + 1) / 2, CO] = +(I[n, 2*x0 + k0 - 1, 2*x1 + k1, ci] * K[k0, k1, ci, co]);
}""", {"I": I4, "K": K4}, O=conv(I4, K4, (2, 2), before=(1, 0), out=(3, 3)))
case("convolution_dilated", """function (I[N, L0, L1, CI], K[LK0, LK1, CI, CO]) -> (O) {
  O[n, x0, x1, co: N, L0 - 2 * (LK0 - 1), L1 - 3 * (LK1 - 1), CO] = +(I[n, x0 + 2*k0, x1 + 3*k1, ci] * K[k0, k1, ci, co]);
}""", {"I": I4, "K": K4}, O=conv(I4, K4, dilation=(2, 3), out=(2, 2)))
I1, K1 = quarters(2, 5, 3), quarters(3, 3, 4)


def transposed(x, k, stride, before, length):
    result = np.zeros((x.shape[0], length, k.shape[1]), np.float32)
    for y in range(x.shape[1]):
        for i in range(k.shape[0]):
            if 0 <= stride * y + i - before < length:
                result[:, stride * y + i - before] += x[:, y] @ k[i].T
    return result


K1t = quarters(3, 4, 3)
case("convolution_transposed", """function (O[N, X0, CO], K[LK0, CI, CO], D0) -> (I) {
  I[n, 2*x0 + k0 - 1, ci: N, D0, CI] = +(O[n, x0, co] * K[k0, ci, co]);
}""", {"O": I1, "K": K1t, "D0": 10}, I=transposed(I1, K1t, 2, 1, 10))
case("convolution_transposed_by_fraction", """function (O[N, X0, CO], K[LK0, CI, CO]) -> (I) {
  I[n, x, ci: N, mul(X0, 2), CI] = +(O[n, (x - k0 + 1)/2, co] * K[k0, ci, co]);
}""", {"O": I1, "K": K1t}, I=transposed(I1, K1t, 2, 1, 10))
Ig, Kg = quarters(2, 5, 4), quarters(2, 2, 2, 3)
case("convolution_grouped", """function (I[N, L, CI], K[LK, G, GCI, GCO]) -> (O) {
  O[n, x, 3*g + gco: N, sub(L, sub(LK, 1)), mul(G, GCO)] = +(I[n, x + k, 2*g + gci] * K[k, g, gci, gco]);
}""", {"I": Ig, "K": Kg}, O=np.concatenate([np.stack([sum(Ig[:, x + k, 2*g:2*g+2] @ Kg[k, g] for k in range(2)) for x in range(4)], 1) for g in range(2)], 2))
case("convolution_depthwise", """function (I[N, L, C], K[LK, C, M]) -> (O) {
  O[n, x, 2*c + m: N, L, C * M] = +(I[n, x + k - 1, c] * K[k, c, m]);
}""", {"I": I1, "K": (Kd := quarters(3, 3, 2))}, O=np.stack([sum((I1[:, x+k-1, :, None] * Kd[k]).reshape(2, 6) for k in range(3) if 0 <= x+k-1 < 5) for x in range(5)], 1))
case("cumulative_sum", "function (I[N, M]) -> (O) { O[i, m: N, M] = +(I[k, m]), i - k < N; }", {"I": X}, O=X.cumsum(0))
case("cumulative_product", "function (I[N]) -> (O) { O[i: N] = *(I[k]), i - k < N; }", {"I": (Z2 := f32([1, 2, -0.5, 4, -1]))}, O=Z2.cumprod())
case("dot", "function (X[I, J, K], Y[A, K, B]) -> (O) { O[i, j, a, b: I, J, A, B] = +(X[i, j, k] * Y[a, k, b]); }", {"X": (a := quarters(2, 3, 4)), "Y": (b := quarters(2, 4, 3))}, O=np.tensordot(a, b, (2, 1)))
case("batch_dot", "function (X[N, I, K], Y[N, K, J]) -> (O) { O[n, i, j: N, I, J] = +(X[n, i, k] * Y[n, k, j]); }", {"X": (a := quarters(3, 2, 4)), "Y": (b := quarters(3, 4, 5))}, O=a @ b)
case("gemm", "function (A[K, M], B[N, K], C, Alpha, Beta) -> (O) { P[m, n: M, N] = +(A[k, m] * B[n, k]); O = P * Alpha + C * Beta; }",
     {"A": (a := quarters(4, 3)), "B": (b := quarters(5, 4)), "C": (c := quarters(5)), "Alpha": 0.5, "Beta": 2.0}, O=0.5 * (a.T @ b.T) + 2 * c)
case("elu", "function (X, Alpha) -> (O) { O = (X < 0 ? Alpha * (exp(X) - 1) : X); }", {"X": X, "Alpha": 0.75}, O=np.where(X < 0, 0.75 * (np.exp(X) - 1), X))
for op, fn in [("eq", np.equal), ("ne", np.not_equal), ("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal)]:
    case("cmp_" + op, f"function (L, R) -> (O) {{ O = cmp_{op}(L, R); }}", {"L": X, "R": X[:1]}, O=fn(X, X[:1]))
case("expand_dims", "function (I[N0, N1]) -> (O) { O[n0, 0, n1: N0, 1, N1] = =(I[n0, n1]); }", {"I": X}, O=X[:, None])
case("flatten", "function (I[N, D0, D1]) -> (O) { O = reshape(I, N, D0 * D1); }", {"I": V}, O=V.reshape(2, 12))
case("flatten_by_polynomial", "function (I[A, B, C]) -> (O) { O[12*a + 4*b + c : mul(A, mul(B, C))] = +(I[a, b, c]); }", {"I": V}, O=V.reshape(24))
case("gather", "function (V, I) -> (O) { O = gather(V, as_int(I, 32)); }", {"V": W, "I": f32([[0, 4], [2, 9]])}, O=W[[[0, 4], [2, 4]]])
case("scatter", "function (E, I, V) -> (O) { O = scatter(E, I, V); }", {"E": X, "I": i32([1, 0, 1]), "V": f32(np.zeros((4, 4)))}, O=np.stack([X[1], X[0] + X[2], 0 * X[0], 0 * X[0]]))
case("hard_sigmoid", "function (X) -> (O) { O = (X < -2.5 ? 0 : (X > 2.5 ? 1 : 0.2 * X + 0.5)); }", {"X": 2 * X}, O=(0.2 * (2 * X) + 0.5).clip(0, 1))
case("is_max", "function (I[N, C]) -> (O) { Max[n, 0: N, 1] = >(I[n, c]); O = (I == Max ? 1.0 : 0.0); }", {"I": D}, O=f32(D == D.max(1, keepdims=True)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


case("softmax", "function (I[R, C]) -> (O) { O = builtin_softmax(I, R, C); }", {"I": X}, O=softmax(X))
case("softmax_reshaped", """function (I[X0, X1, X2]) -> (O) {
  R = mul(X0, X1);
  Flat = reshape(I, R, X2);
  S = builtin_softmax(Flat, R, X2);
  O = reshape(S, X0, X1, X2);
}""", {"I": V}, O=softmax(V))
case("log_softmax", "function (I[R, C]) -> (O) { O = builtin_logsoftmax(I, R, C); }", {"I": X}, O=np.log(softmax(X)))
case("mnist_mlp", """function (X_I_0[X_I_0_0, X_I_0_1], X_I_1[X_I_1_0, X_I_1_1], X_I_2[X_I_2_0]) -> (X_T12) {
  [[pid(dot)]] X_T2[x0, x2 : X_I_0_0, X_I_1_1] = +(X_I_0[x0, x1] * X_I_1[x1, x2]);
  [[pid(add)]] X_T4 = add(X_T2, X_I_2);
  X_T5 = 0.000000;
  [[pid(relu)]] X_T6 = cmp_lt(X_T4, X_T5);
  [[pid(relu)]] X_T7 = cond(X_T6, X_T5, X_T4);
  [[pid(softmax, outer)]] [[inner]] X_T8[x0, 0 : X_I_0_0, 1] = >(X_T7[x0, x1]);
  X_T9 = sub(X_T7, X_T8);
  X_T10 = exp(X_T9);
  X_T11[x0, 0 : X_I_0_0, 1] = +(X_T10[x0, x1]);
  X_T12 = div(X_T10, X_T11);
}""", {"X_I_0": X, "X_I_1": Y, "X_I_2": (b := quarters(5))}, X_T12=softmax(np.maximum(X @ Y + b, 0)))
case("mean", "function (I[N, M]) -> (O) { S[n: N] = +(I[n, m]); O = S / M; }", {"I": X}, O=X.mean(1))
case("mean_generated", "function (A[A_0, A_1]) -> (X_T4) { X_T0[] = +(A[x0, x1]); X_T3 = mul(A_0, A_1); X_T4 = div(X_T0, X_T3); }", {"A": X}, X_T4=f32(X.mean()))
case("variance", """function (I[N, M]) -> (O) {
  S[n, 0: N, 1] = +(I[n, m]);
  D = I - S / M; Sq = D * D;
  T[n: N] = +(Sq[n, m]);
  O = T / M;
}""", {"I": X}, O=X.var(1))
for op, fn in [("+", np.sum), ("*", np.prod), (">", np.max), ("<", np.min)]:
    case("reduce_" + {"+": "sum", "*": "prod", ">": "max", "<": "min"}[op], f"function (I[X0, X1, X2]) -> (O) {{ O[x0, 0, x2: X0, 1, X2] = {op}(I[x0, x1, x2]); }}", {"I": V}, O=fn(V, 1, keepdims=True))
case("maximum_minimum", "function (X, Y) -> (O, P) { O = max(X, Y); P = (X < Y ? X : Y); }", {"X": X, "Y": X[::-1].copy()}, O=np.maximum(X, X[::-1]), P=np.minimum(X, X[::-1]))
case("not", "function (I) -> (O) { O = (I ? 0 : 1); }", {"I": (a := ints(3, 3, high=2))}, O=i32(a == 0))
case("one_hot", "function (Idx[B, T], Count[C]) -> (O) { O[b, t, c: B, T, C] = =(Idx[b, t] == Count[c]); }", {"Idx": (a := ints(2, 3)), "Count": i32(range(5))}, O=a[..., None] == np.arange(5))
case("pad", "function (I[N, X, C]) -> (O) { O[n, x + 2, c: N, add(X, 3), C] = =(I[n, x, c]); }", {"I": I1}, O=padded(I1, (0, 0), (2, 1), (0, 0)))
case("pow", "function (X, P) -> (O) { O = pow(X, P); }", {"X": f32([0.5, 2, 3]), "P": f32([2, 3, -1])}, O=f32([0.25, 8, 1 / 3]))
case("repeat", "function (I[N0, N1]) -> (O) { O[n0, 3*n1 + k: N0, 3*N1] = =(I[n0, n1]), k < 3 no_defract; }", {"I": X}, O=X.repeat(3, 1))
case("relu", "function (X, Alpha, Most) -> (O) { M = (X < 0.0 ? Alpha * X : X); O = (M < Most ? M : Most); }", {"X": X, "Alpha": 0.25, "Most": 1.0}, O=np.minimum(np.where(X < 0, 0.25 * X, X), 1))
case("reverse", "function (I[N, M]) -> (O) { O[N - 1 - n, m: N, M] = =(I[n, m]); }", {"I": X}, O=X[::-1])
case("slice", "function (I[N, M]) -> (O) { O[i, j: div(N + 1, 2), 2] = =(I[2*i, j + 1]); }", {"I": W}, O=W[::2, 1:3])
case("slice_backwards", "function (I[N]) -> (O) { O[i: 3] = =(I[-2*i + N - 1]); }", {"I": Z}, O=Z[[6, 4, 2]])
case("spatial_padding", "function (I[N, C, H, W]) -> (O) { O[n, c, y + 1, x + 2: N, C, H + 1 + 0, W + 2 + 1] = =(I[n, c, y, x]); }", {"I": (a := quarters(1, 2, 3, 2))}, O=padded(a, (0, 0), (0, 0), (1, 0), (2, 1)))
case("squeeze", "function (I[A, B, C]) -> (O) { O = reshape(I, A, C); }", {"I": (a := quarters(2, 1, 3))}, O=a[:, 0])
case("stack", "function (A[N], B[N]) -> (O) { T0[0, n: 2, N] = =(A[n]); T1[1, n: 2, N] = =(B[n]); O = T0 + T1; }", {"A": X[0], "B": X[1]}, O=X[:2])
case("tile", "function (I[N, M]) -> (O) { O[n + a*N, m + b*M: 2 * N, 3 * M] = =(I[n, m]), a < 2, b < 3 no_defract; }", {"I": X}, O=np.tile(X, (2, 3)))
case("transpose", "function (I[A, B, C]) -> (O) { O[c, a, b: C, A, B] = =(I[a, b, c]); }", {"I": V}, O=V.transpose(2, 0, 1))
case("switch", "function (C, T, E) -> (O) { O = cond(C, T, E); }", {"C": (a := ints(3, 4, high=2)), "T": X, "E": 0.5}, O=np.where(a, X, f32(0.5)))
case("default", "function (P[B, C, N], I[B, N]) -> (O) { O[b, 3, n: B, C, N] = =(I[b, n]) default P; }", {"P": (a := quarters(2, 5, 3)), "I": (b := quarters(2, 3))}, O=np.concatenate([a[:, :3], b[:, None], a[:, 4:]], 1))
case("conditional_contraction", "function (A[N], B[M], C[M]) -> (O) { O[n: N] = +(A[n] == B[m] ? C[m]); }", {"A": i32([3, 1, 7]), "B": i32([1, 3, 3, 2]), "C": f32([1, 2, 4, 8])}, O=f32([6, 1, 0]))
case("sum_of_contraction", "function (A[N], B[M]) -> (O) { O[n: N] = >(A[n] + B[m]); }", {"A": X[0], "B": X[1]}, O=X[0] + X[1].max())
case("primes_and_quotes", "function (A[N'], B') -> (#function) { A'[$default: N'] = +(A[$default]); #function = A' * B'; }", {"A": Z, "B'": 2.0}, **{"function": 2 * Z})
case("shape", "function (I) -> (O) { O = shape(I); }", {"I": V}, O=i32([2, 3, 4]))
case("index", "function (I[N, M]) -> (O) { O = add(mul(index(I, 0), M), index(I, 1)); }", {"I": X}, O=i32(np.arange(12).reshape(3, 4)))
case("simple_reduce", "function (I[A, B, C]) -> (O, P) { O = simple_reduce(I, B, 1); P = simple_reduce(I, C); }", {"I": V}, O=V.sum((0, 2))[:, None], P=V.sum((0, 1)))
case("tuple", "function (A, B) -> (O) { T = tuple(A, B, A * B); O = element(T, 2) - element(T, 0); }", {"A": X, "B": X[:, :1]}, O=X * X[:, :1] - X)
case("reverse_gradient", "function (I) -> (O) { O = reverse_grad(I, 0.5); }", {"I": X}, O=X)
case("bits", "function (A, B) -> (O) { T = bit_or(bit_and(A, 12), bit_left(B, 4)); O = bit_xor(bit_right(T, 1), bit_not(A)); }", {"A": (a := ints(6, high=64)), "B": (b := ints(6))}, O=(((a & 12) | (b << 4)) >> 1) ^ ~a)
case("unary", "function (X) -> (A, B, C, D, E, F) { A = abs(X); B = floor(X); C = ceil(X); D = round(X); E = recip(X + 8); F = ident(neg(X)); }", {"X": X},
     A=abs(X), B=np.floor(X), C=np.ceil(X), D=np.trunc(X + np.copysign(f32(0.5), X)), E=1 / (X + 8), F=-X)
case("functions", "function (X) -> (A, B, C, D, E) { A = sigmoid(X); B = tanh(X) + sin(X); C = log(exp(X) + 1.0); D = rsqrt(X * X + 1); E = sqrt(abs(X)) * cos(X); }", {"X": X},
     A=1 / (1 + np.exp(-X)), B=np.tanh(X) + np.sin(X), C=np.log(np.exp(X) + 1), D=1 / np.sqrt(X * X + 1), E=np.sqrt(abs(X)) * np.cos(X))
case("left_associative_condition", "function (A, B) -> (O) { O = A ? B : 0 ? 5 : 7; }", {"A": i32([0, 1, 1]), "B": i32([1, 0, 2])}, O=i32([7, 7, 5]))
case("lstm_step", """function (X[B, D], H[B, U], C[B, U], W[D, U4], R[U, U4], Bias[U4]) -> (Hn, Cn) {
  U1 = div(U4, 4);
  Ok = assert_units(cmp_eq(U1, U));
  XW[b, u: B, U4] = +(X[b, d] * W[d, u]);
  HR[b, u: B, U4] = +(H[b, v] * R[v, u]);
  Z = XW + HR + Bias;
  Zi[b, u: B, U1] = =(Z[b, u]);
  Zf[b, u: B, U1] = =(Z[b, u + U1]);
  Zc[b, u: B, U1] = =(Z[b, u + 2*U1]);
  Zo[b, u: B, U1] = =(Z[b, u + 3*U1]);
  Cn = sigmoid(Zf) * C + sigmoid(Zi) * tanh(Zc);
  Hn = sigmoid(Zo) * tanh(Cn);
}""", {"X": (x := quarters(2, 3)), "H": (h := quarters(2, 2)), "C": (c := quarters(2, 2)), "W": (w := quarters(3, 8)), "R": (r := quarters(2, 8)), "Bias": (b := quarters(8))})
z = x @ w + h @ r + b
s = lambda v: 1 / (1 + np.exp(-v))
cn = s(z[:, 2:4]) * c + s(z[:, :2]) * np.tanh(z[:, 4:6])
cases[-1][3].update(Hn=s(z[:, 6:]) * np.tanh(cn), Cn=cn)
case("image_resize_nearest", "function (I[N, X, C]) -> (O) { O[n, 2*x + i, c: N, 2*X, C] = =(I[n, x, c]), i < 2 no_defract; }", {"I": I1}, O=I1.repeat(2, 1))
case("image_resize_bilinear", """function (I[N, X, C], K[L]) -> (O) {
  O[n, 2*x + j - 1, c: N, 2*X, C] = +(I[n, x, c] * K[j]);
}""", {"I": I1, "K": f32([0.5, 1, 0.5])}, O=np.stack([sum((f32([0.5, 1, 0.5])[p + 1 - 2 * x] * I1[:, x] for x in range(5) if 0 <= p + 1 - 2 * x < 3), np.zeros((2, 3), np.float32)) for p in range(10)], 1))
case("global_min", "function (I[A, B, C]) -> (O) { Neg = -I; O_Neg[] = >(Neg[a, b, c]); O = -O_Neg; }", {"I": V}, O=V.min())
case("diagonal", "function (A[N, N]) -> (O) { O[i: N] = =(A[i, i]); }", {"A": (a := quarters(4, 4))}, O=np.diag(a))
case("skipped", "function (I[N, M]) -> (O) { O[2*n: 2*N] = +(I[2*n, m]); }", {"I": (a := quarters(6, 2))}, O=[a[i].sum() if i < 6 and i % 2 == 0 else 0 for i in range(12)])
case("constant_output", "function (I[N]) -> (O) { One = 1.0; O[i: add(N, N)] = =(One[]); }", {"I": Z}, O=np.ones(14))
case("functions_of_constants", "function (I[N]) -> (O) { A = 2; B = 0.5; C = mul(add(A, N), B); D = recip(C); O = I * C + cond(A, D, 1.0); }", {"I": X[0]}, O=X[0] * 3 + 1 / 3)

# --- The library of operations, as it writes padding, patches and Winograd's convolutions.
Q = quarters(2, 5, 3)
case("pool_same_upper", """function (I[N, L0, C], One[]) -> (O) {
    Pad0 = (max(0, ((L0 + 2 - 1) / 2 - 1) * 2 + 3 - L0)) / 2;
    Ones[n, o0, c : N, L0, C] = =(One[]);
    Count[n, x0, c : N, (L0 + 2 - 1) / 2, C] = +(Ones[n, 2*x0 + k0 - Pad0, c]), k0 < 3;
    S[n, x0, c : N, (L0 + 2 - 1) / 2, C] = +(I[n, 2*x0 + k0 - Pad0, c]), k0 < 3;
    O = S / Count;
}""", {"I": Q, "One": f32(1)}, O=np.stack([Q[:, 0:2].mean(1), Q[:, 1:4].mean(1), Q[:, 3:5].mean(1)], 1))
case("convolution_same_lower", """function (I[N, L0, CI], K[LK0, CI, CO]) -> (O) {
    Pad0 = ((max(0, ((L0 + 2 - 1) / 2 - 1) * 2 + 4 - L0)) + 1) / 2;
    O[n, x0, co : N, (L0 + 2 - 1) / 2, CO] = +(I[n, 2*x0 + 1*k0 - Pad0, ci]*K[k0, ci, co]);
}""", {"I": Q, "K": (k := quarters(4, 3, 2))}, O=conv(Q[:, :, None], k[:, None], (2, 1), before=(2, 0), out=(3, 1))[:, :, 0])
Iw, Kw = quarters(1, 5, 6, 2), quarters(3, 3, 2, 3)
case("winograd", """function (I[N, X, Y, CI], K[S, S, CI, CO], A[BI, BO], B[BI, BI], G[BI, S] ) -> (O) {
    Assert = assert_winograd_valid(BI - S + 1 == BO);
    XO = (X - 3 + 1) / 1;
    YO = (Y - 3 + 1) / 1;
    XB = (XO + BO - 1) / BO;
    YB = (YO + BO - 1) / BO;
    XP = 0;
    YP = 0;
    U1[i, j, ci, co : BI, S, CI, CO] = +(G[i, k] * K[k, j, ci, co]);
    U[i, j, ci, co : BI, BI, CI, CO] = +(U1[i, k, ci, co] * G[j, k]);
    V1[n, i, j, x, y, ci : N, BI, BI, XB, YB, CI] = +(B[k, i] * I[n, BO*x + k - XP, BO*y + j - YP, ci]);
    V[n, i, j, x, y, ci : N, BI, BI, XB, YB, CI] = +(V1[n, i, k, x, y, ci] * B[k, j]);
    M[n, i, j, x, y, co : N, BI, BI, XB, YB, CO] = +(V[n, i, j, x, y, ci] * U[i, j, ci, co]);
    O1[n, i, j, x, y, co : N, BO, BI, XB, YB, CO] = +(A[k, i] * M[n, k, j, x, y, co]);
    O[n, BO*x + i, BO*y + j, co : N, XO, YO, CO] = +(O1[n, i, k, x, y, co] * A[k, j]) no_defract;
}""", {"I": Iw, "K": Kw, "A": f32([[1, 0], [1, 1], [1, -1], [0, -1]]), "B": f32([[1, 0, 0, 0], [0, 1, -1, 1], [-1, 1, 1, 0], [0, 0, 0, -1]]),
       "G": f32([[1, 0, 0], [.5, .5, .5], [.5, -.5, .5], [0, 0, 1]])}, O=conv(Iw, Kw, out=(3, 4)))
case("reflection_padding", """function (I[N0,N1]) -> (O) {
    TS1[n0,n1 : N0,N1 + 3] = =(I[n0,2 - n1]), n1 < 2;
    TE1[n0,n1 + N1 + 3 - 1 : N0,N1 + 3] = =(I[n0,N1 - n1 - 2]), n1 < 1;
    TA1[n0,2 + n1 : N0,N1 + 3] = =(I[n0,n1]), n1 < N1 + 3 - 1;
    TC1 = TA1 + TS1 + TE1;
    O = TC1;
}""", {"I": X}, O=np.pad(X, ((0, 0), (2, 1)), "reflect"))
case("image_patches", """function (I[B,Y,X,D]) -> (O) {
    PAD[b, y, x, d : B, Y + 1 * 2 + 1, X + 0 * 2 + 1, D] =
    =(I[b, y - 1, x - 0, d]);
    TMP[b, ny, nx, y, x, d: B, 3, 2, 3, 2, D] =
    =(PAD[b, ny * 2 + y * 1, nx * 2 + x * 1, d]);
    O = reshape(TMP, B, 3, 2, 3 * 2 * D);
}""", {"I": (a := quarters(2, 5, 4, 2))}, O=np.stack([np.stack([padded(a, (0, 0), (1, 2), (0, 1), (0, 0))[:, 2*y:2*y+3, 2*x:2*x+2].reshape(2, 12) for x in range(2)], 1) for y in range(3)], 1))
case("hardmax", """function (I[X, Y]) -> (O) {
    MAXX[x : X] = >(I[x, y]);
    MAX[x, y : X, Y] = =(MAXX[x]);
    O = (MAX == I ? 1.0 : 0.0);
}""", {"I": D}, O=f32(D == D.max(1, keepdims=True)))
case("repeat_rows", "function (I[N0, N1]) -> (O) { O[i0, r, i1: N0, 3, N1] = =(I[i0, i1]); }", {"I": X}, O=np.repeat(X[:, None], 3, 1))
case("cumulative_by_offset", "function (I[N0, N1]) -> (O) { O[i0, i1: N0, N1] = +(I[i0, i1 - k]), k < N1; }", {"I": X}, O=X.cumsum(1))
case("vector_dot", "function(X[I], Y[I]) -> (R) { R[i:I] = +(X[i] * Y[i]); }", {"X": X[0], "Y": X[1]}, R=X[0] * X[1])
case("sqrt", "function (I) -> (O) { IC = (I < 0 ? 0 : I); O = sqrt(IC); }", {"I": X}, O=np.sqrt(np.maximum(X, 0)))
case("awkward_flatten", "function (X_I_0[A, B, C, D]) -> (X_T10) { X_T10[24*n0 + 8*n1 + 4*n2 + n3 : 72] = +(X_I_0[n0, n1, n2, n3]); }", {"X_I_0": (a := quarters(3, 3, 2, 4))}, X_T10=a.reshape(72))
case("subdivision", "function (I[N], K[M]) -> (O) { O[i : mul(N, 2)] = +(I[i/2 + k/2] * K[k]); }", {"I": Z, "K": (k := quarters(3))},
     O=[sum(Z[(i + j) // 2] * k[j] for j in range(3) if (i + j) % 2 == 0 and i + j < 14) for i in range(14)])


def show(value):
    if np.isscalar(value) and not isinstance(value, np.generic):
        return repr(value)
    value = np.asarray(value)
    if value.dtype == np.float64:
        value = value.astype(np.float32)
    name = {"float32": "f32", "int32": "i32", "uint32": "u32", "uint8": "u8", "int16": "i16", "bool": "bool"}[value.dtype.name]
    text = [repr(int(v)) if value.dtype.kind in "iub" else repr(float(v)) for v in value.flat]
    if value.dtype.kind == "b":
        text = ["true" if v else "false" for v in value.flat]
    return f"{name}[{', '.join(map(str, value.shape))}] {' '.join(text)}".rstrip()


if __name__ == "__main__":
    blocks = []
    for name, program, inputs, outputs in cases:
        lines = [f"case {name}", program]
        lines += [f"input {key} {show(value)}" for key, value in inputs.items()]
        lines += [f"output {key} {show(value)}" for key, value in outputs.items()]
        blocks.append("\n".join(lines))
    print("\n\n".join(blocks))
