//! `tilec predict` on arrays by the names of a model's inputs.

use std::fs::{self, File};

use tile_runtime::Tensor;
use tile_runtime::data::npy;
use tile_runtime::weights;

use crate::points::Points;

/// Returns points with this program.
fn with_program(name: &str, program: &str) -> Points {
    let case = Points::new(name);
    fs::write(case.folder.join("points.tile"), program).unwrap();
    case
}

fn array(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_f32(shape, values).unwrap()
}

/// Packs arrays into an .npz file.
fn pack(case: &Points, name: &str, arrays: &[(&str, &Tensor)]) {
    let arrays: Vec<(String, Tensor)> =
        arrays.iter().map(|(name, array)| ((*name).to_owned(), (*array).clone())).collect();
    weights::write(&case.folder.join(name), &arrays).unwrap();
}

/// The results of arrays in an .npz file and in a folder are those of the arithmetic, in the order
/// of the rows.
#[test]
fn several_inputs_come_by_their_names() {
    let two = "model Two(Left[N, 2], Right[N, 1]) -> (Y) { Y = 10 * Left - Right; }";
    let case = with_program("several_inputs", two);
    let left = array(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let right = array(&[3, 1], &[1.0, 2.0, 3.0]);
    pack(&case, "all.npz", &[("Right", &right), ("Left", &left)]);
    fs::create_dir(case.folder.join("all")).unwrap();
    for (name, array) in [("Left", &left), ("Right", &right)] {
        let file = File::create(case.folder.join(format!("all/{name}.npy"))).unwrap();
        npy::write(array, file).unwrap();
    }
    let rows = ["[0]  9.000000 19.000000", "[1]  28.000000 38.000000", "[2]  47.000000 57.000000"];
    for (input, options) in [("all", ""), ("all.npz", ""), ("all.npz", "--batch-size 2")] {
        let found = case.run("predict", &format!("@{input} {options}")).ok();
        let expected: Vec<String> = rows.iter().map(|row| case.path(input) + row).collect();
        assert_eq!(found.text().lines().collect::<Vec<_>>(), expected, "{input} {options}");
    }
    // The part for tests is taken, as by `evaluate`.
    let (one_left, one_right) = (array(&[1, 2], &[0.0, 1.0]), array(&[1, 1], &[5.0]));
    let train = [("Left_train", &left), ("Right_train", &right)];
    let test = [("Left_test", &one_left), ("Right_test", &one_right)];
    pack(&case, "parts.npz", &[train, test].concat());
    let found = case.run("predict", "@parts.npz").ok();
    assert_eq!(found.text(), format!("{}[0]  -5.000000 5.000000\n", case.path("parts.npz")));
    pack(&case, "lacking.npz", &[("Left", &left), ("right", &right)]);
    pack(&case, "other.npz", &[("Left", &left), ("Right", &one_right)]);
    pack(&case, "wide.npz", &[("Left", &right), ("Right", &right)]);
    for (input, said) in [
        ("lacking.npz", "there is no array `Right` for an input: there are Left, right; did"),
        ("other.npz", "`Right` has 1 samples, and"),
        ("wide.npz", "[0] is f32[1], and a sample of `Left` has the sizes [2]"),
        ("all/Left.npy", "the model has the inputs `Left`, `Right`: give an .npz file"),
        ("points.csv", "the model has the inputs `Left`, `Right`: give an .npz file"),
    ] {
        let refused = case.run("predict", &format!("@{input}"));
        assert!(refused.code == 1 && refused.err.contains(said), "{input}: {}", refused.err);
    }
}

/// A model with one input takes an .npz file with an array of its name, or `x`.
#[test]
fn one_input_comes_by_its_name() {
    let case = with_program("one_input", "model One(Point[N, 2]) -> (Y) { Y = 2 * Point; }");
    let points = array(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    for name in ["Point", "x"] {
        pack(&case, "one.npz", &[(name, &points)]);
        let found = case.run("predict", "@one.npz").ok();
        let path = case.path("one.npz");
        let expected = format!("{path}[0]  2.000000 4.000000\n{path}[1]  6.000000 8.000000\n");
        assert_eq!(found.text(), expected);
    }
    pack(&case, "wrong.npz", &[("Points", &points)]);
    let refused = case.run("predict", "@wrong.npz");
    assert!(refused.err.contains("or `Point`; there are Points"), "{}", refused.err);
}

/// Token ids are whole numbers below the table's size, in each form of data.
#[test]
fn tokens_out_of_range_are_refused() {
    let tagger = "model Tagger(Ids[N, 2], Scale[N]) -> (Y) {
        Y = (Ids |> Embedding(5, 1) |> Flatten()) * reshape(Scale, [4, 1]);
    }";
    let case = with_program("tokens", tagger);
    let scale = array(&[4], &[1.0, 2.0, 3.0, 4.0]);
    for (id, is_right) in [(4.0, true), (5.0, false), (-1.0, false), (0.5, false)] {
        let ids = array(&[4, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, id, 0.0, 0.0]);
        pack(&case, "ids.npz", &[("Ids", &ids), ("Scale", &scale)]);
        pack(&case, "w.npz", &[("embedding.Embeddings", &array(&[5, 1], &[1.0; 5]))]);
        let run = case.run("predict", "@ids.npz --weights @w.npz");
        if is_right {
            let last = format!("{}[3]  4.000000 4.000000\n", case.path("ids.npz"));
            assert!(run.ok().text().ends_with(&last));
            continue;
        }
        let rule = "of input `Ids`: the model has tokens 0 to 4";
        let said = format!("token {id} in {}[2], position 1 {rule}", case.path("ids.npz"));
        assert!(run.code == 1 && run.err.contains(&said), "{}", run.err);
    }
}
