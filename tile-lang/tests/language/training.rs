//! Tests of the checker on optimizers, losses, metrics and `train` blocks, and of their layout.

use insta::assert_snapshot;

use crate::{ast, brief};

#[test]
fn definitions() {
    let source = "
        optimizer Sgd(lr = 0.01)(P, G) { state V like P = zeros; update V = V - lr * G; update P = P + V; }
        loss Squares()(Predicted, Target) -> (L) { L = (Predicted - Target) * (Predicted - Target); }
        metric Count()(Predicted, Target) -> (Value) {
            state Sum[] = zeros;
            S[] = +(Predicted[...] == Target[...] ? 1.0 : 0.0);
            update Sum = Sum + S;
            Value = Sum + S;
        }
        model Line(X[N, K]) -> (Y) { param W[K] = zeros; Y[n: N] = +(X[n, k] * W[k]); }
        train Line { loss = Squares(); optimizer = Sgd(lr = 0.1); metrics = [Count()]; seed = 1; }";
    assert_eq!(brief(source), "");
}

/// Contextual keywords are names wherever they cannot be keywords.
#[test]
fn words_are_names() {
    let source = "
        function optimizer(loss)(X) -> (Y) { Y = X * loss; }
        function f(X) -> (Y) { metric = 3; train = metric; like = train; Y = optimizer(like)(X); }";
    assert_eq!(brief(source), "");
    ast(source);
}

#[test]
fn layout() {
    let source = "optimizer   Sgd(lr=0.01)(P,G){state V like P=zeros;update P=P-lr*G;}
        train M{loss=L();optimizer=Sgd();}";
    assert_snapshot!(tile_lang::format(source).unwrap(), @"
    optimizer Sgd(lr = 0.01)(P, G) {
        state V like P = zeros;
        update P = P - lr * G;
    }

    train M {
        loss = L();
        optimizer = Sgd();
    }
    ");
}

#[test]
fn headers() {
    let source = "
        optimizer A()(P) { update P = 0 * P; }
        optimizer B()(P, G, H) { update P = P - G - H; }
        loss C()() -> (L) { L = 1.0; }
        metric D()() -> (Value) { Value = 1.0; }
        loss E()(Predicted) -> (L) { L = Predicted; }
        metric F()(Predicted) -> (Value) { Value = Predicted; }";
    assert_snapshot!(brief(source), @"
    E0132 expected 2 inputs of this optimizer, found 1: `A`; help: the inputs are a trained weight and its gradient, as in `optimizer Sgd(lr = 0.01)(P, G) { … }`
    E0132 expected 2 inputs of this optimizer, found 3: `B`; help: the inputs are a trained weight and its gradient, as in `optimizer Sgd(lr = 0.01)(P, G) { … }`
    E0132 expected 2 inputs of this loss, found 0: `C`; help: the inputs are the predictions and the targets, as in `loss Error()(Predicted, Target) -> (L) { … }`, or the predictions alone
    E0132 expected 2 inputs of this metric, found 0: `D`; help: the inputs are the predictions and the targets, as in `metric Error()(Predicted, Target) -> (Value) { … }`, or the predictions alone
    ");
}

#[test]
fn settings() {
    let source = "
        model Line(X[N, K]) -> (Y) { param W[K] = zeros; Y[n: N] = +(X[n, k] * W[k]); }
        function line(X) -> (Y) { Y = X; }
        train Lin { seed = 1; }
        train line { seed = 1; }
        train Line { sed = 1; learning_rate = 0.1; }";
    assert_snapshot!(brief(source), @"
    E0133 unknown model `Lin`: `Lin`; help: did you mean `Line`?
    E0133 unknown model `line`: `line`; help: did you mean `Line`?
    E0134 unknown setting `sed`: `sed`; help: did you mean `seed`?
    E0134 unknown setting `learning_rate`: `learning_rate`; help: it is an argument of the optimizer, as in `Adam(learning_rate = 0.001)`
    ");
}

#[test]
fn one_block_for_a_model() {
    let source = "
        model Line(X[N, K]) -> (Y) { param W[K] = zeros; Y[n: N] = +(X[n, k] * W[k]); }
        train Line { seed = 1; }
        train Line { seed = 2; }";
    assert_snapshot!(brief(source), @"E0114 the `train` block of `Line` is defined twice: `Line`, `Line` (the first one)");
}

#[test]
fn weights_of_optimizers() {
    let source = "
        optimizer A()(P, G) { update G = P; update Q = P; }
        loss B()(Predicted, Target) -> (L) { update Predicted = Target; L = Predicted; }";
    assert_snapshot!(brief(source), @"
    E0123 unknown state `G`: `G`; help: declare it first, as in `state Mean[C] = zeros();`
    E0123 unknown state `Q`: `Q`; help: declare it first, as in `state Mean[C] = zeros();`
    E0123 unknown state `Predicted`: `Predicted`; help: declare it first, as in `state Mean[C] = zeros();`
    ");
}

/// The result of an optimizer may be ignored. Ignoring other results gives a warning.
#[test]
fn calls_that_are_statements() {
    let source = "
        optimizer Wrap(inner, others = [])(P, G) {
            inner(P, G);
            for other in others { other(P, G); }
            if rank(P) > 4 { error(\"too many axes\"); }
        }
        optimizer Plain()(P, G) { Wrap(Wrap(Plainest()))(P, G); }
        optimizer Plainest()(P, G) { update P = P - G; }
        function size(N) -> (M) { assert_even(N == N / 2 * 2); M = N; }
        layer Odd()(X) -> (Y) { Y = X + size(4); }";
    assert_eq!(brief(source), "");
    assert_snapshot!(tile_lang::format("optimizer   A(b)(P,G){[[slow]] b ( P,G ) ;\n}").unwrap(), @"
    optimizer A(b)(P, G) {
        [[slow]] b(P, G);
    }
    ");
    let lost = "function f(X) -> (Y) { exp(X); g(X); Y = X; } function g(X) -> (Y) { Y = X; }";
    assert_snapshot!(brief(lost), @"
    W0102 unused value of the call of `exp`: `exp(X)`
    W0102 unused value of the call of `g`: `g(X)`
    ");
}

#[test]
fn constraints_and_adapt_blocks() {
    let source = "
        layer A(constraint = none, adapt = 3)(X[N, C]) -> (Y) {
            param W[C] = zeros regularizer = none constraint = constraint if adapt > 2 else 1;
            state Mean[C] = zeros;
            adapt {
                state Count[] = zeros;
                Sum[c: C] = +(X[n, c]);
                update Count = Count + N;
                update Mean = Mean + (Sum - Mean) / (Count + N);
            }
            Y = (X - Mean) * W;
        }";
    assert_eq!(brief(source), "");
    let layout = "layer A(f)(X)->(Y){param W[] = zeros constraint=f;state S[]=zeros;adapt{update S=X;}Y=X*W*S;}";
    assert_snapshot!(tile_lang::format(layout).unwrap(), @"
    layer A(f)(X) -> (Y) {
        param W[] = zeros constraint = f;
        state S[] = zeros;
        adapt { update S = X; }
        Y = X * W * S;
    }
    ");
    let wrong = "
        layer A()(X) -> (Y) { state S[] = zeros constraint = abs; adapt { Z = X; update S = Z; } Y = X * S; }
        function f(X) -> (Y) { adapt { Z = X; } Y = X; }
        optimizer O()(P, G) { param W[] = zeros; update P = P - W * G; }
        metric M()(P, T) -> (V) { param W[] = zeros; V = sum(P - T) * W; }
        layer B()(X) -> (Y) { state S[] = zeros; adapt { state C[] = zeros; update S = C; } Y = X * C * S; }";
    let found = brief(wrong);
    for expected in [
        "E0122 unexpected `constraint` of the state `S`",
        "E0122 unexpected `adapt` in this function",
        "E0122 unexpected `param` in this optimizer: nothing trains it",
        "help: write `state W` for a value that is kept, and changed by `update`",
        "E0122 unexpected `param` in this metric: nothing trains it",
        "E0101 unknown name `C`",
    ] {
        assert!(found.contains(expected), "{expected}\n{found}");
    }
}
