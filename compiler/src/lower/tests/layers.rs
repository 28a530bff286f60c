//! Layers, weights and compile-time decisions.

use super::super::{Setting, lower};
use super::{bindings, lowered};

/// Formats the network of a program with hyper-parameters: its weights by path, shape and kind, the
/// layers of the entry, and the graph's outputs.
fn network(source: &str, inputs: &str, parameters: &[(&str, Setting)], training: bool) -> String {
    let checked = tile_lang::check(source);
    let Some(program) = checked.program else {
        return format!("unchecked: {:?}", checked.diagnostics);
    };
    let mut bindings = bindings(inputs);
    bindings.parameters =
        parameters.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
    bindings.training = training;
    let network = match lower(&program, None, &bindings) {
        Ok(network) => network,
        Err(errors) => {
            return errors
                .iter()
                .map(|error| super::message(source, error))
                .collect::<Vec<_>>()
                .join("\n");
        }
    };
    network.graph.verify().unwrap();
    network.initial.verify().unwrap();
    let mut text = String::new();
    for weight in &network.weights {
        text += &format!("{} {} {}\n", weight.kind.keyword(), weight.path, weight.ty);
        assert!(network.initial.outputs.iter().any(|(path, _)| *path == weight.path));
    }
    for layer in &network.layers {
        text += &format!("layer {} {} {:?}\n", layer.path, layer.class, layer.outputs[0].shape);
    }
    let outputs: Vec<&str> = network.graph.outputs.iter().map(|(name, _)| name.as_str()).collect();
    text + &format!("outputs {}", outputs.join(", "))
}

/// A layer with one weight.
const SCALE: &str = "
function ones_of()(shape) -> (W) { W = fill(shape, 1.0); }
layer Scale(times = 1)(X[..., K]) -> (Y) { param Gamma[K] = ones_of; Y = times * Gamma * X; }
";

#[test]
fn a_weight_is_named_by_the_path_to_it() {
    let source = format!(
        "{SCALE}
        layer Block(inner)(X) -> (Y) {{ first = Scale(); Y = X |> first |> inner; }}
        model M(X[N, 3]) -> (Y) {{
            shared = Scale();
            A = shared(X) + shared(2 * X);
            tower = repeat(2, Block(Scale(2)));
            B = A |> tower |> Scale() |> Scale(name = head) |> Scale();
            for times in [1, 2] {{ B = B |> Scale(times); each = Block(Scale(times)); B = B |> each; }}
            Y = B;
        }}"
    );
    insta::assert_snapshot!(network(&source, "X = f32[2, 3]", &[], false), @"
    param shared.Gamma f32[3]
    param tower[0].first.Gamma f32[3]
    param tower[0].inner.Gamma f32[3]
    param tower[1].first.Gamma f32[3]
    param tower[1].inner.Gamma f32[3]
    param scale.Gamma f32[3]
    param head.Gamma f32[3]
    param scale_1.Gamma f32[3]
    param scale[0].Gamma f32[3]
    param each[0].first.Gamma f32[3]
    param each[0].inner.Gamma f32[3]
    param scale[1].Gamma f32[3]
    param each[1].first.Gamma f32[3]
    param each[1].inner.Gamma f32[3]
    layer shared Scale [2, 3]
    layer shared Scale [2, 3]
    layer tower[0] Block [2, 3]
    layer tower[1] Block [2, 3]
    layer scale Scale [2, 3]
    layer head Scale [2, 3]
    layer scale_1 Scale [2, 3]
    layer scale[0] Scale [2, 3]
    layer each[0] Block [2, 3]
    layer scale[1] Scale [2, 3]
    layer each[1] Block [2, 3]
    outputs Y
    ");
}

#[test]
fn an_absent_weight_is_zero_or_what_is_said() {
    let source = "
        layer L(use_bias = true, scale = true)(X[N, K]) -> (Y) {
            param Gamma[K] = fill_ones if scale else 1;
            param Bias[K] = fill_ones if use_bias;
            Y = Gamma * X + Bias;
        }
        function fill_ones()(shape) -> (W) { W = fill(shape, 1.0); }
        model M(use_bias = false)(X[N, K]) -> (Y) { Y = X |> L(use_bias, scale = false, name = l); }";
    insta::assert_snapshot!(network(source, "X = f32[2, 3]", &[], false), @"
    layer l L [2, 3]
    outputs Y
    ");
    let set = [("use_bias", Setting::Bool(true))];
    insta::assert_snapshot!(network(source, "X = f32[2, 3]", &set, false), @"
    param l.Bias f32[3]
    layer l L [2, 3]
    outputs Y
    ");
}

#[test]
fn states_change_in_training_alone() {
    let source = "
        function zero()(shape) -> (W) { W = fill(shape, 0.0); }
        function square_sum(X[K]) -> (L) { L[] = +(X[k] * X[k]); }
        layer Mean()(X[N, K]) -> (Y) {
            state Moving[K] = zero;
            param Shift[K] = zero regularizer = square_sum;
            if training {
                Sum[k: K] = +(X[n, k]);
                update Moving = 0.9 * Moving + 0.1 * (Sum / N);
                Y = X - Sum / N + Shift;
            } else {
                Y = X - Moving + Shift;
            }
        }
        model M(X[N, K]) -> (Y) { Y = X |> Mean(); }";
    insta::assert_snapshot!(network(source, "X = f32[2, 3]", &[], false), @"
    state mean.Moving f32[3]
    param mean.Shift f32[3]
    layer mean Mean [2, 3]
    outputs Y
    ");
    insta::assert_snapshot!(network(source, "X = f32[2, 3]", &[], true), @"
    state mean.Moving f32[3]
    param mean.Shift f32[3]
    layer mean Mean [2, 3]
    outputs Y, mean.Moving, penalty
    ");
}

#[test]
fn random_numbers_have_streams_of_their_own() {
    let source = "
        layer Stream()(X) -> (Y) { A = random_stream(); B = random_stream(); Y = X + 0 * A + (A == B ? 1 : 0); }
        model M(X) -> (Y) { a = Stream(); Y = a(a(X)); }";
    // The two random streams differ.
    insta::assert_snapshot!(lowered(source, "X = i32[2]"), @"
    graph M(%0) -> (Y = %8)
    %0 = input X : i32[2]  # X
    %1 = constant 0 : i32[]  # Y in Stream at a
    %2 = add %0 %1 : i32[2]  # Y in Stream at a
    %3 = constant 0 : i32[]  # Y in Stream at a
    %4 = add %2 %3 : i32[2]  # Y in Stream at a
    %5 = constant 0 : i32[]  # Y in Stream at a
    %6 = add %4 %5 : i32[2]  # Y in Stream at a
    %7 = constant 0 : i32[]  # Y in Stream at a
    %8 = add %6 %7 : i32[2]  # Y in Stream at a
    ");
}

#[test]
fn a_layer_that_is_applied_again_draws_other_numbers() {
    let source = "
        layer Stream()(X) -> (Y) { A = random_stream(); Y = X + A; }
        model M(X) -> (Y) { a = Stream(); Y = a(a(X)); }";
    let text = lowered(source, "X = i32[2]");
    let constant =
        |line: &str| Some(line.split_once(" = constant ")?.1.split_once(' ')?.0.to_owned());
    let streams: Vec<String> = text.lines().filter_map(constant).collect();
    assert!(streams.len() == 2 && streams[0] != streams[1], "{text}");
}

#[test]
fn lists_loops_and_conditions() {
    let source = "
        layer L(sizes, mode in [sum, mul] = sum)(X[N, K]) -> (Y) {
            d = dims(X);
            total = 0;
            for a, b in [[1, 2], [3, 4]] { total = total + a * b; }
            for i in range(1, 3) { total = total + sizes[i] * sizes[-1]; }
            if mode == sum & len(sizes) == 3 { Y = X + total + product(d); } else if mode == mul { Y = X * total; } else { Y = error(\"never\"); }
        }
        model M(X[N, K]) -> (Y) { Y = X |> L([5, 6, 7]); }";
    insta::assert_snapshot!(lowered(source, "X = i32[2, 3]"), @"
    graph M(%0) -> (Y = %4)
    %0 = input X : i32[2, 3]  # X
    %1 = constant 105 : i32[]  # Y in L at l
    %2 = add %0 %1 : i32[2, 3]  # Y in L at l
    %3 = constant 6 : i32[]  # Y in L at l
    %4 = add %2 %3 : i32[2, 3]  # Y in L at l
    ");
    let wrong = source.replace("L([5, 6, 7])", "L([5, 6, 7], mode = summ)");
    insta::assert_snapshot!(lowered(&wrong, "X = i32[2, 3]"), @r#"unchecked: [Diagnostic { code: "E0128", severity: Error, message: "expected one of sum, mul for `mode`, found `summ`", labels: [Label { span: Span { start: 477, end: 481 }, text: "" }], help: Some("did you mean `sum`?") }]"#);
    let wrong = source.replace("L([5, 6, 7])", "L([5, 6])");
    insta::assert_snapshot!(lowered(&wrong, "X = i32[2, 3]"), @"
    E0227: there is no item 2 in a list of 2
      `sizes[i]` 
      `L([5, 6])` in this call
      help: items are counted from 0, and from the end as -1, -2, …
    ");
}

#[test]
fn a_scan_carries_what_its_body_assigns() {
    let source = format!(
        "{SCALE}
        model M(X[N, T, K]) -> (Last, All) {{
            H = fill([N, K], 0.0);
            Factor = 0.5;
            scan Xt in X along 1 {{
                H = Xt + Factor * H |> Scale(name = cell);
                yield All = H;
            }}
            Last = H;
        }}"
    );
    insta::assert_snapshot!(lowered(&source, "X = f32[2, 5, 3]"), @"
    graph M(%0) -> (Last = %5, All = %6)
    %0 = input X : f32[2, 5, 3]  # X
    %1 = constant 0.0 : f32[]  # H
    %2 = contract assign [i0, i1] (i0: 0..2, i1: 0..3) { v0 = %1[]; yield v0 } : f32[2, 3]  # H
    %3 = weight cell.Gamma : f32[3]  # Gamma in Scale at cell
    %4 = scan 5 sequences (%0 along 1) carries (%2) captures (%3) yields (along 1) {
        graph step(%0, %1, %5) -> (H = %8, All = %8)
        %0 = input Xt : f32[2, 3]
        %1 = input H : f32[2, 3]
        %2 = constant 0.5 : f32[]  # H
        %3 = mul %2 %1 : f32[2, 3]  # H
        %4 = add %0 %3 : f32[2, 3]  # H
        %5 = input captured2 : f32[3]  # Gamma
        %6 = constant 1.0 : f32[]  # Y in Scale at cell
        %7 = mul %6 %5 : f32[3]  # Y in Scale at cell
        %8 = mul %7 %4 : f32[2, 3]  # Y in Scale at cell
    } : f32[2, 3]
    %5 = result 0 %4 : f32[2, 3]  # H
    %6 = result 1 %4 : f32[2, 5, 3]  # All
    ");
    let wrong = source.replace("fill([N, K], 0.0)", "0.0");
    insta::assert_snapshot!(lowered(&wrong, "X = f32[2, 5, 3]"), @"
    E0229: `H` has the shape [] before the loop, and [2, 3] after a step
      `H` 
      help: what is carried keeps its shape; `fill(shape, 0.0)` makes a tensor to begin with
    ");
    let wrong = source.replace("along 1", "along 3");
    insta::assert_snapshot!(lowered(&wrong, "X = f32[2, 5, 3]"), @"
    E0229: there is no axis 3 in the shape [2, 5, 3]
      `3`
    ");
}

#[test]
fn a_scan_carries_the_tensors_of_lists() {
    let source = "
        model M(X[N, T, K]) -> (Sum, Count) {
            States = [[fill([N, K], 0.0)], 0];
            scan Xt in X along 1 {
                Sum, Count = States;
                States = [[Sum[0] + Xt], Count + 1];
            }
            Sum, Count = States;
            Sum = Sum[0];
        }";
    insta::assert_snapshot!(lowered(source, "X = f32[2, 5, 3]"), @"
    graph M(%0) -> (Sum = %5, Count = %6)
    %0 = input X : f32[2, 5, 3]  # X
    %1 = constant 0.0 : f32[]  # States
    %2 = contract assign [i0, i1] (i0: 0..2, i1: 0..3) { v0 = %1[]; yield v0 } : f32[2, 3]  # States
    %3 = constant 0 : i32[]  # States
    %4 = scan 5 sequences (%0 along 1) carries (%2, %3) captures () yields () {
        graph step(%0, %1, %2) -> (States.0.0 = %3, States.1 = %5)
        %0 = input Xt : f32[2, 3]
        %1 = input States.0.0 : f32[2, 3]
        %2 = input States.1 : i32[]
        %3 = add %1 %0 : f32[2, 3]  # States
        %4 = constant 1 : i32[]  # States
        %5 = add %2 %4 : i32[]  # States
    } : f32[2, 3]
    %5 = result 0 %4 : f32[2, 3]  # States.0.0
    %6 = result 1 %4 : i32[]  # States.1
    ");
    let wrong = source.replace("Count + 1]", "Count, 1]");
    insta::assert_snapshot!(lowered(&wrong, "X = f32[2, 5, 3]"), @"
    E0229: `States` is a list of 2 before the loop, and a list of 3 after a step
      `States`
    ");
}

#[test]
fn a_weight_is_made_into_another() {
    let source = format!(
        "{SCALE}
        layer Half()(W) -> (Y) {{ state Count[] = ones_of; update Count = Count + 1; Y = W / 2; }}
        layer Halved(layer)(X) -> (Y) {{ half = Half(); again = with_weight(layer, \"Gamma\", half); Y = again(X); }}
        model M(X[N, 3]) -> (Y) {{ Y = X |> Halved(Scale()); }}"
    );
    insta::assert_snapshot!(network(&source, "X = f32[2, 3]", &[], false), @"
    param halved.layer.Gamma f32[3]
    state halved.half.Count f32[]
    layer halved Halved [2, 3]
    outputs Y
    ");
    insta::assert_snapshot!(network(&source, "X = f32[2, 3]", &[], true), @"
    param halved.layer.Gamma f32[3]
    state halved.half.Count f32[]
    layer halved Halved [2, 3]
    outputs Y, halved.half.Count, halved.layer.Gamma
    ");
    let wrong = source.replace("\"Gamma\"", "[\"Delta\", \"Eta\"]");
    insta::assert_snapshot!(lowered(&wrong, "X = f32[2, 3]"), @"
    E0232: `Scale` has no weight `Delta` or `Eta`
      `again(X)` 
      `Halved(Scale())` in this call
    ");
}

#[test]
fn weights_that_do_not_fit() {
    let model = |body: &str| format!("{SCALE} model M(X[N, 3], Z[N, 4]) -> (Y) {{ {body} }}");
    let inputs = "X = f32[2, 3]; Z = f32[2, 4]";
    let shared = model("shared = Scale(); A = shared(X); Y = shared(Z);");
    insta::assert_snapshot!(lowered(&shared, inputs), @"
    E0230: `shared.Gamma` has the shape [3] elsewhere, and [4] here
      `Gamma` 
      `shared(Z)` in this call
      help: a layer that is applied twice has the same weights each time; `clone(layer)` has its own
    ");
    let shape = "
        function wrong()(shape) -> (W) { W = fill([7], 0.0); }
        model M(X[N]) -> (Y) { param W[N] = wrong; Y = X + W; }";
    insta::assert_snapshot!(lowered(shape, "X = f32[2]"), @"
    E0231: this makes a tensor of the shape [7], and `W` has [2]
      `wrong`
    ");
}

/// Library functions are also found if only a text or a setting names them.
#[test]
fn functions_by_text_and_setting() {
    let model = "model M(act = relu)(X[N, 3]) -> (Y) { Y = X |> Dense(2, activation = act, kernel_initializer = \"he_normal\"); }";
    let gelu = ("act", Setting::Name("gelu".into()));
    let leaky = ("act", Setting::Name("leaky_relu".into()));
    for parameters in [&[gelu][..], &[leaky], &[]] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(network(model, "X = f32[4, 3]", parameters, false), @"
            param dense.Kernel f32[3, 2]
            param dense.Bias f32[2]
            layer dense Dense [4, 2]
            outputs Y
            ");
        }
    }
    let unknown = ("act", Setting::Name("gelo".into()));
    let error = network(model, "X = f32[4, 3]", &[unknown], false);
    assert!(error.starts_with("E0102: unknown function `gelo`"), "{error}");
}
