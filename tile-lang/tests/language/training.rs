//! What the checker says of optimizers, losses, metrics and `train` blocks, and their layout.

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

/// The words are names where they cannot be meant as words.
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
        loss C()(Predicted) -> (L) { L = Predicted; }
        metric D()(Predicted) -> (Value) { Value = Predicted; }";
    assert_snapshot!(brief(source), @"
    E0132 this optimizer has 1 input: `A`; help: its inputs are a trained weight and its gradient, as in `optimizer Sgd(lr = 0.01)(P, G) { … }`
    E0132 this optimizer has 3 inputs: `B`; help: its inputs are a trained weight and its gradient, as in `optimizer Sgd(lr = 0.01)(P, G) { … }`
    E0132 this loss has 1 input: `C`; help: its inputs are what is given and what should be, as in `loss Error()(Predicted, Target) -> (L) { … }`
    E0132 this metric has 1 input: `D`; help: its inputs are what is given and what should be, as in `metric Error()(Predicted, Target) -> (Value) { … }`
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
    E0133 there is no model `Lin`: `Lin`; help: did you mean `Line`?
    E0133 there is no model `line`: `line`; help: did you mean `Line`?
    E0134 `train` has no setting `sed`: `sed`; help: did you mean `seed`?
    E0134 `train` has no setting `learning_rate`: `learning_rate`; help: its settings are loss, loss_weights, optimizer, gradients, frozen, metrics, batch_size, epochs, seed, shuffle
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
    E0123 `G` is updated, but it is no state of this layer: `G`; help: a state is defined before, as in `state Mean[C] = zeros();`
    E0123 `Q` is updated, but it is no state of this layer: `Q`; help: a state is defined before, as in `state Mean[C] = zeros();`
    E0123 `Predicted` is updated, but it is no state of this layer: `Predicted`; help: a state is defined before, as in `state Mean[C] = zeros();`
    ");
}
