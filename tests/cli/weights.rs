//! Weights from files, and the table of layers.

use insta::assert_snapshot;
use tile_runtime::{Device, Model, Tensor};

use crate::tilec::{devices, empty_folder, program, tilec};

const NETWORK: &str = "
model Network(X[N, 3]) -> (Y) {
    hidden = Dense(5, activation = relu);
    head = Dense(2, use_bias = false);
    Y = X |> hidden |> head;
}";

fn array(path: impl AsRef<std::path::Path>) -> Tensor {
    tile_runtime::data::npy::read(std::fs::File::open(path).unwrap()).unwrap()
}

/// golden/weights.py made the files.
#[test]
fn weights_from_files_of_numpy_and_safetensors() {
    let network = program("weights", NETWORK);
    let out = empty_folder("weights-out");
    let expected = array("tests/golden/weights/Y.npy");
    for device in devices() {
        for file in [
            "network.safetensors",
            "network.safetensors.index.json",
            "network.npz",
            "compressed.npz",
        ] {
            let weights = format!("tests/golden/weights/{file}");
            let arguments = [
                "run",
                network.to_str().unwrap(),
                "--input",
                "X=tests/golden/weights/X.npy",
                "--weights",
            ];
            let output = [&weights, "--device", device, "--output-dir", out.to_str().unwrap()];
            tilec(arguments.into_iter().chain(output)).ok();
            for (a, b) in array(out.join("Y.npy")).to_f64s().iter().zip(expected.to_f64s()) {
                // Two sums of a few products of about 1, each rounded to f32.
                assert!((a - b).abs() < 1e-5, "{device} {file}: {a}, not {b}");
            }
        }
    }
}

/// An index saved by an editor on Windows: with a byte order mark and CR LF.
#[test]
fn an_index_may_have_a_byte_order_mark() {
    let (network, folder) = (program("weights-mark", NETWORK), empty_folder("weights-marked"));
    std::fs::create_dir_all(&folder).unwrap();
    for file in ["part-1.safetensors", "part-2.safetensors"] {
        std::fs::copy(format!("tests/golden/weights/{file}"), folder.join(file)).unwrap();
    }
    let index =
        std::fs::read_to_string("tests/golden/weights/network.safetensors.index.json").unwrap();
    let path = folder.join("network.safetensors.index.json");
    std::fs::write(&path, format!("{}{}\r\n", '\u{feff}', index.trim_end().replace(", ", ",\r\n")))
        .unwrap();
    let arguments =
        ["run", network.to_str().unwrap(), "--input", "X=tests/golden/weights/X.npy", "--weights"];
    let output =
        [path.to_str().unwrap(), "--device", "cpu", "--output-dir", folder.to_str().unwrap()];
    tilec(arguments.into_iter().chain(output)).ok();
    for (a, b) in array(folder.join("Y.npy"))
        .to_f64s()
        .iter()
        .zip(array("tests/golden/weights/Y.npy").to_f64s())
    {
        // Two sums of a few products of about 1, each rounded to f32.
        assert!((a - b).abs() < 1e-5, "{a}, not {b}");
    }
}

#[test]
fn a_file_that_does_not_fit_is_told_of_as_a_whole() {
    let network = program("weights-wrong", NETWORK);
    let run = |weights: &str| {
        let arguments = [
            "run",
            network.to_str().unwrap(),
            "--input",
            "X=tests/golden/weights/X.npy",
            "--weights",
        ];
        let run = tilec(arguments.into_iter().chain([weights]));
        assert_eq!(run.code, 1);
        run.err
    };
    assert_snapshot!(run("tests/golden/weights/wrong.safetensors"), @"
    error: tests/golden/weights/wrong.safetensors: it does not have the program's weights:
      `hidden.Kernel` must be f32[3, 5], and is f32[5, 3]
      `head.Kernel`, f32[5, 2], is missing
      `haed.Kernel`, f32[4, 3], is no weight of the program; did you mean `head.Kernel`?
    ");
    assert_snapshot!(run("tests/golden/weights/X.npy"), @"error: tests/golden/weights/X.npy: the name of a file of weights ends in .safetensors, .safetensors.index.json, .npz, .pt, .pth, .h5, .hdf5 or .keras");
    assert_snapshot!(run("tests/golden/weights/outside.safetensors.index.json"), @"error: tests/golden/weights/outside.safetensors.index.json: this is not a valid index of safetensors files: `../network.safetensors` is no safetensors file beside it");
    let broken = empty_folder("weights-broken").join("broken.safetensors");
    let broken_as = |bytes: &[u8]| {
        std::fs::write(&broken, bytes).unwrap();
        run(broken.to_str().unwrap()).replace(broken.to_str().unwrap(), "broken.safetensors")
    };
    let whole = std::fs::read("tests/golden/weights/network.safetensors").unwrap();
    assert_snapshot!(broken_as(&whole[..whole.len() - 1]), @"error: broken.safetensors: this is not a valid safetensors file: it is not as long as its header says");
    assert_snapshot!(broken_as(&[&whole[..], b"."].concat()), @"error: broken.safetensors: this is not a valid safetensors file: it is not as long as its header says");
    assert_snapshot!(broken_as(&whole[..20]), @"error: broken.safetensors: this is not a valid safetensors file: its header is longer than the file");
    assert_snapshot!(broken_as(b"no such file"), @"error: broken.safetensors: this is not a valid safetensors file: its header is longer than the file");
    assert_snapshot!(broken_as(b""), @"error: broken.safetensors: this is not a valid safetensors file: it has no header");
    std::fs::rename(&broken, broken.with_extension("npz")).unwrap();
    assert!(run(broken.with_extension("npz").to_str().unwrap()).contains("not a valid .npz file"));
}

/// PyTorch's counters are ignored, and other unknown entries only if that is allowed.
#[test]
fn entries_that_the_program_does_not_have() {
    let network = program("weights-extra", NETWORK);
    let folder = empty_folder("weights-extra-files");
    let mut file =
        tile_runtime::weights::WeightsFile::open("tests/golden/weights/network.npz").unwrap();
    let names: Vec<String> = file.tensors().iter().map(|(name, _)| name.clone()).collect();
    let mut tensors: Vec<(String, Tensor)> = names
        .into_iter()
        .enumerate()
        .map(|(number, name)| (name, file.read(number).unwrap()))
        .collect();
    let run = |tensors: &[(String, Tensor)], options: &[&str]| {
        let weights = folder.join("weights.safetensors");
        tile_runtime::weights::write(&weights, tensors).unwrap();
        let arguments = [
            "run",
            network.to_str().unwrap(),
            "--input",
            "X=tests/golden/weights/X.npy",
            "--device",
            "cpu",
        ];
        let weights = ["--weights", weights.to_str().unwrap()];
        let mut run = tilec(arguments.into_iter().chain(weights).chain(options.iter().copied()));
        run.err = run.err.replace(weights[1], "weights.safetensors");
        run
    };
    let whole = run(&tensors, &[]).ok().text().to_owned();
    let extra = |name: &str| (name.to_owned(), Tensor::from_f32([1], &[1.0]).unwrap());
    tensors.push(extra("norm.num_batches_tracked"));
    let counted = run(&tensors, &[]).ok();
    assert_eq!(counted.text(), whole);
    assert_eq!(
        counted.notes(),
        ["note: weights.safetensors: no weight takes `norm.num_batches_tracked`"]
    );
    tensors.push(extra("head.Scale"));
    assert_snapshot!(run(&tensors, &[]).err, @"
    error: weights.safetensors: it does not have the program's weights:
      `head.Scale`, f32[1], is no weight of the program
      help: pass `--allow-extra` to leave out what the program does not have
    ");
    let allowed = run(&tensors, &["--allow-extra"]).ok();
    assert_eq!(allowed.text(), whole);
    assert!(allowed.notes().concat().contains("`head.Scale`"), "{:?}", allowed.notes());
    tensors.remove(0);
    let missing = run(&tensors, &["--allow-extra"]);
    assert!(missing.code == 1 && missing.err.contains("is missing"), "{}", missing.err);
}

const PARTS: &str = "
layer Part()(X[N, K]) -> (Y) { hidden = Dense(5, activation = relu); head = Dense(2, use_bias = false); Y = X |> hidden |> head; }
model Network(X[N, 3]) -> (Y) { base = Part(); Y = X |> base; Z = Y |> Dense(2, name = last); }";

/// Runs a network in which the golden one is the layer `base`.
fn run_base(name: &str, options: &[&str]) -> crate::tilec::Run {
    let network = program(name, &PARTS.replace("-> (Y) { base", "-> (Y, Z) { base"));
    let out = empty_folder(&format!("{name}-out"));
    let arguments = [
        "run",
        network.to_str().unwrap(),
        "--input",
        "X=tests/golden/weights/X.npy",
        "--device",
        "cpu",
    ];
    let output = ["--output-dir", out.to_str().unwrap()];
    let run = tilec(arguments.into_iter().chain(output).chain(options.iter().copied()));
    if run.code == 0 {
        for (a, b) in array(out.join("Y.npy"))
            .to_f64s()
            .iter()
            .zip(array("tests/golden/weights/Y.npy").to_f64s())
        {
            // Two sums of a few products of about 1, each rounded to f32.
            assert!((a - b).abs() < 1e-5, "{a}, not {b}");
        }
    }
    run
}

#[test]
fn a_file_fills_a_part_of_the_program() {
    let base = "base=tests/golden/weights/network.npz";
    let run = run_base("weights-base", &["--weights", base, "--partial"]).ok();
    assert_eq!(run.notes(), ["note: no file has `last.Kernel`, `last.Bias`: initialised"]);
    run_base("weights-base", &["--weights", base, "--random", "1"]).ok();
    let fails = |options: &[&str]| {
        let run = run_base("weights-base", options);
        assert_eq!(run.code, 1);
        run.err
    };
    assert_snapshot!(fails(&["--weights", base]), @"
    error: the program's weights have no values: give them with `--weights FILE`, or first values with `--random SEED`. They are
      last.Kernel  f32[2, 2]
      last.Bias  f32[2]
    ");
    assert_snapshot!(fails(&["--weights", "bsae=tests/golden/weights/network.npz"]), @"error: tests/golden/weights/network.npz: the program has no weights at `bsae`; did you mean `base`?");
    assert_snapshot!(fails(&["--weights", "tests/golden/weights/network.npz#hiden"]), @"error: tests/golden/weights/network.npz: the file has no weights at `hiden`; did you mean `hidden`?");
    assert_snapshot!(fails(&["--weights", base, "--weights", base]), @"error: tests/golden/weights/network.npz: expected one file for `base`, found several; help: give each a path with `PATH=FILE`");
    assert_snapshot!(fails(&["--weights", "base.head=tests/golden/weights/network.npz#hidden", "--partial"]), @"
    error: tests/golden/weights/network.npz: it does not have the program's weights:
      `base.head.Kernel` must be f32[5, 2], and is f64[3, 5]
      `base.head.Bias`, f64[5], is no weight of the program
    ");
}

#[test]
fn parts_of_files_fill_parts_of_the_program() {
    let hidden = "base.hidden=tests/golden/weights/network.npz#hidden";
    let head = "base.head=tests/golden/weights/compressed.npz#head";
    run_base("weights-parts", &["--weights", hidden, "--weights", head, "--partial"]).ok();
    // A longer path takes its weights from the file for a shorter one, which may lack them.
    let part = "base=tests/golden/weights/part-1.safetensors";
    let bias = "base.hidden=tests/golden/weights/network.npz#hidden";
    run_base(
        "weights-parts",
        &["--weights", part, "--weights", bias, "--weights", head, "--random", "1"],
    )
    .ok();
}

#[test]
fn a_map_gives_entries_the_paths_of_weights() {
    let folder = empty_folder("weights-map-files");
    std::fs::create_dir_all(&folder).unwrap();
    let map = folder.join("names.txt");
    let run = |text: &str| {
        std::fs::write(&map, text).unwrap();
        let file = "tests/golden/weights/network.npz";
        let options = ["--weights", file, "--partial", "--weights-map", map.to_str().unwrap()];
        let mut run = run_base("weights-map", &options);
        run.err = run.err.replace(map.to_str().unwrap(), "names.txt");
        run
    };
    let text = "# the golden network\nhidden.* = base.hidden.*\nhead.Kernel = base.head.Kernel\n";
    assert_eq!(
        run(text).ok().notes(),
        ["note: no file has `last.Kernel`, `last.Bias`: initialised"]
    );
    assert_snapshot!(run("hidden.* = base.hidden.*\nhed.Kernel = base.head.Kernel").err, @"error: names.txt: line 2: the file has no `hed.Kernel`; did you mean `head.Kernel`?");
    assert_snapshot!(run("head.Kernel = base.head.Kernal").err, @"error: names.txt: line 1: the program has no `base.head.Kernal`; did you mean `base.head.Kernel`?");
    assert_snapshot!(run("head.Kernel").err, @"error: names.txt: line 1: expected `NAME IN THE FILE = NAME IN THE PROGRAM`, found `head.Kernel`");
}

/// Training begins with the file's weights in `base`, and reports the others as initialised.
#[test]
fn training_begins_with_a_part_and_evaluation_lacks_nothing() {
    let train = "\ntrain Network { loss = MeanSquaredError(); optimizer = SGD(0.0); epochs = 1; }";
    let network = program("weights-train", &format!("{}{train}", PARTS.replace("Z = Y", "Y = Y")));
    let folder = empty_folder("weights-train-files");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy("tests/golden/weights/X.npy", folder.join("x.npy")).unwrap();
    std::fs::copy("tests/golden/weights/Y.npy", folder.join("y.npy")).unwrap();
    let saved = empty_folder("weights-train-saved");
    std::fs::create_dir_all(&saved).unwrap();
    let saved = saved.join("trained.npz");
    let (network, saved) = (network.to_str().unwrap(), saved.to_str().unwrap());
    let data = ["--data", folder.to_str().unwrap(), "--device", "cpu", "--weights"];
    let train = ["train", network, "--save", saved]
        .into_iter()
        .chain(data)
        .chain(["base=tests/golden/weights/network.npz"]);
    let notes = tilec(train).ok().notes().concat();
    assert!(notes.contains("no file has `last.Kernel`, `last.Bias`: initialised"), "{notes}");
    let mut files = ["tests/golden/weights/network.npz", saved]
        .map(|file| tile_runtime::weights::WeightsFile::open(file).unwrap());
    for number in 0..files[0].tensors().len() {
        let path = format!("base.{}", files[0].tensors()[number].0);
        let trained = files[1].tensors().iter().position(|(name, _)| *name == path).unwrap();
        let (before, after) = (files[0].read(number).unwrap(), files[1].read(trained).unwrap());
        // The file has f64, and the program f32.
        assert!(
            before.to_f64s().iter().zip(after.to_f64s()).all(|(a, b)| (a - b).abs() < 1e-6),
            "{path}"
        );
    }
    let evaluate = ["evaluate", network].into_iter().chain(data).chain([saved]);
    assert!(!tilec(evaluate).ok().notes().concat().contains("initialised"));
}

#[test]
fn what_is_saved_can_be_loaded() {
    let model = Model::compile(NETWORK).unwrap();
    let device = Device::cpu();
    let session = || model.on(&device).dim("N", 2).build().unwrap();
    let x = Tensor::from_f32([2, 3], &[1.0, -2.0, 3.0, 0.5, 0.25, -1.0]).unwrap();
    let mut first = session();
    first.initialise(7).unwrap();
    let expected = first.run([("X", &x)]).unwrap().remove("Y").unwrap();
    for file in ["w.safetensors", "w.npz"] {
        let path = empty_folder("weights-saved").join(file);
        first.save(&path).unwrap();
        let mut second = session();
        second.load(&path).unwrap();
        assert_eq!(second.run([("X", &x)]).unwrap().remove("Y").unwrap(), expected);
    }
}

#[test]
fn summary_counts_as_keras_does() {
    let network = program("summary", NETWORK);
    assert_snapshot!(tilec(["summary", network.to_str().unwrap()]).ok().text(), @r#"
    Model: "Network"
    ┌────────────────┬──────────────┬─────────┐
    │ Layer (type)   ┆ Output Shape ┆ Param # │
    ╞════════════════╪══════════════╪═════════╡
    │ hidden (Dense) ┆ (None, 5)    ┆      20 │
    ├╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌┤
    │ head (Dense)   ┆ (None, 2)    ┆      10 │
    └────────────────┴──────────────┴─────────┘
     Total params: 30 (120.00 B)
     Trainable params: 30 (120.00 B)
     Non-trainable params: 0 (0.00 B)
     Memory of a run with N = 64: 2.62 KB
    "#);
}
