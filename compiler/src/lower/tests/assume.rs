//! Definitions that nobody calls: what is certainly wrong is found, and nothing valid is refused.

use super::{check_assuming, message};

fn checked(source: &str) -> String {
    let checked = tile_lang::check(source);
    let program = checked.program.unwrap_or_else(|| panic!("{:?}", checked.diagnostics));
    check_assuming(&program)
        .iter()
        .map(|error| message(source, error))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn a_train_block_lacks_what_it_must_set() {
    let lacks = |setting: &str, block: &str| {
        let model = "model M(X[N, 4]) -> (Y) { Y = X |> Dense(2); }";
        let found = checked(&format!("{model} train M {{ {block} }}"));
        let expected = format!("E0241: the `train` block sets no `{setting}`\n");
        assert!(found.starts_with(&expected), "{found}");
    };
    lacks("loss", "optimizer = SGD(0.1);");
    lacks("optimizer", "loss = MeanSquaredError();");
}

#[test]
fn misspelt_names_are_found_at_the_users_line() {
    let part = "layer Part(act)(X) -> (Y) { Y = X |> Dense(8, activation = act); }";
    let model = "model M(X[N, 4]) -> (Y) { Y = X |> Part(rleu) |> Dense(2); }";
    insta::assert_snapshot!(checked(&format!("{part} {model}")), @"
    E0102: unknown function `rleu`
      `Dense(8, activation = act)` 
      `Part(rleu)` in this call
      help: did you mean `relu`?
    ");
    let own = "layer Part(act)(X) -> (Y) { Y = act(X); }";
    insta::assert_snapshot!(checked(&format!("{own} {model}")), @"
    E0102: unknown function `rleu`
      `act` `act` is `rleu` here
      `Part(rleu)` in this call
      help: did you mean `relu`?
    ");
    let block = "model M(X[N, 4]) -> (Y) { Y = X |> Dense(2); }
        train M { loss = MeanSquaredError(); optimizer = SGD(0.1); metrics = [acuracy]; }";
    insta::assert_snapshot!(checked(block), @"
    E0102: unknown function `acuracy`
      `[acuracy]` 
      help: did you mean `accuracy`?
    ");
}

#[test]
fn errors_of_models_with_known_sizes_are_found() {
    let ranks = "model M(Image[N, 28, 28]) -> (Y) { Y = Image |> Conv2D(8, 3); }";
    insta::assert_snapshot!(checked(ranks), @"
    E0228: expected a tensor with 4 axes, found [64, 28, 28]
      `Conv2D(8, 3)` 
      `N` `N` is taken to be 64 for this check
    ");
    let units = "model M(X[N, 4]) -> (Y) { Y = X |> Dense(-8); }";
    insta::assert_snapshot!(checked(units), @"
    E0228: `units` must be a positive integer, and is -8
      `Dense(-8)` 
    ");
    let list = "model M(X[N, 4]) -> (Y) { levels = [X, X]; Y = levels |> Concatenate(); }";
    insta::assert_snapshot!(checked(list), @"
    E0225: `levels` is a list with tensors, so its name starts with a capital
      `levels` 
      help: call it `Levels`
    ");
}

#[test]
fn what_depends_on_assumptions_is_not_reported() {
    for source in [
        // Another number of samples, another size, another rank, another type.
        "model M(X[N, 4]) -> (Y) { Y = reshape(X, 2, 14); }",
        "model M(X[N, 4]) -> (Y) { assert_seven(N == 7); Y = X; }",
        "model M(X[N, 4]) -> (Y) { if N > 1000000 { error(\"many\"); } Y = X + fill([7, 4], 1.0); }",
        "model M(X[N, C]) -> (Y) { Y = reshape(X, N, 13, 17); }",
        "layer L()(X) -> (Y) { if rank(X) != 7 { error(\"seven\"); } Y = X; }",
        "model M(Tokens[N, T], W[V, D]) -> (Y) { Y[n, t, d: N, T, D] = =(W[Tokens[n, t], d]); }",
        // A caller gives the called function, the items of a list, and a choice.
        "layer L(block)(X) -> (Y) { Y = X |> block |> block(3); }",
        "layer L(sizes)(X) -> (Y) { Y = X; for size in sizes { Y = Y |> Dense(size); } }",
        "layer L(mode in [a, b])(X) -> (Y) { Y = X; }",
        "layer L()(Xs) -> (Y) { A, B = Xs; Y = A + B; }",
        // Targets of another form.
        "model M(X[N, 4]) -> (Y) { Y = X |> Dense(4); }
         loss L()(P, T[N, 3, 5]) -> (E) { E[n: N] = +(P[n, c] * T[n, i, j]); }
         train M { loss = L(); optimizer = SGD(); }",
    ] {
        assert_eq!(checked(source), "", "{source}");
    }
}
