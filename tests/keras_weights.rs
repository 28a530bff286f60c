//! Weight files that Keras wrote give the network's results in Keras: see golden/keras_weights.py.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::golden::{path, render};
use insta::assert_snapshot;
use tile_runtime::train::Arrays;
use tile_runtime::weights::{LoadOptions, WeightsFile, WeightsSource};
use tile_runtime::{Device, Error, Model, Session, Tensor};

const SEQUENTIAL: &str = "
model Network(X[N, 6]) -> (Y) {
    for i in range(12) { X = X |> Dense(6, activation = tanh); }
    Y = X |> Dropout(0.1) |> Dense(2);
}";

const CNN: &str = "
model Network(X[N, 9, 8, 3]) -> (Y) {
    A = X |> Conv2D(4, 3, padding = same, name = first) |> BatchNormalization();
    B = A |> relu |> DepthwiseConv2D(3, padding = same, use_bias = false) |> BatchNormalization() |> Conv2D(4, 1, name = pointwise);
    Y = A + B |> SeparableConv2D(5, 3) |> Flatten() |> Dense(3);
}";

const BRANCHES: &str = "model Network(X[N, 4]) -> (Y) { Y = X |> Dense(4, name = first) |> relu |> Dense(4, name = last); }";

const RECURRENT: &str = "
model Network(X[N, T]) -> (Y) {
    A = X |> Embedding(11, 4)
        |> Bidirectional(LSTM(3, return_sequences = true))
        |> Bidirectional(GRU(3, return_sequences = true))
        |> GRU(4, return_sequences = true)
        |> LSTM(4, return_sequences = true);
    Y = A |> TimeDistributed(Dense(5)) |> SimpleRNN(4) |> Dense(3);
}";

const TRANSFORMER: &str = "
layer Block()(X) -> (Y) {
    A = X + MultiHeadAttention(2, 3, name = attention)(X, X) |> LayerNormalization(name = norm1);
    Y = A + (A |> Dense(7, activation = relu) |> Dense(6)) |> LayerNormalization(name = norm2);
}
model Network(X[N, T]) -> (Y) {
    A = X |> Embedding(11, 6);
    for i in range(3) { A = A |> Block(name = blocks); }
    Y = A |> Dense(2);
}";

const NESTED: &str = "
model Inner()(X[N, K]) -> (Y) { Y = X |> Dense(5, activation = tanh) |> Dense(5); }
model Network(X[N, 5]) -> (Y) { Y = X |> Inner(name = first) |> Inner(name = second) |> Dense(5) |> Dense(2); }";

const CLASSES: &str = "
model Network(X[N, 4]) -> (Y) {
    Y = X |> Dense(4, use_bias = false) |> LayerNormalization() |> BatchNormalization(scale = false, center = false) |> Dense(4, use_bias = false);
}";

const DENSE: &str = "model Network(X[N, 3]) -> (Y) { Y = X |> Dense(2); }";

const KERAS2_CNN: &str = "
model Network(X[N, 9, 8, 3]) -> (Y) {
    A = X |> Conv2D(4, 3, padding = same) |> BatchNormalization() |> relu |> Conv2D(4, 3, padding = same);
    B = A |> Conv2D(4, 3, padding = same) |> BatchNormalization();
    Y = A + B |> Flatten() |> Dense(3);
}";

const KERAS2_RECURRENT: &str = "
model Network(X[N, T, D]) -> (Y) {
    A = X |> Bidirectional(LSTM(3, return_sequences = true)) |> GRU(4, return_sequences = true);
    Y = A |> TimeDistributed(Dense(5)) |> LSTM(4) |> Dense(2);
}";

const KERAS2_NESTED: &str = "
model Inner()(X[N, K]) -> (Y) { Y = X |> Dense(5, activation = tanh) |> Dense(5); }
model Network(X[N, 5]) -> (Y) { Y = X |> Inner(name = first) |> Inner(name = second) |> Dense(2); }";

fn weights(name: &str) -> PathBuf {
    let ending = if name.starts_with("keras2") { "h5" } else { "weights.h5" };
    path(&format!("keras_weights/{name}.{ending}"))
}

/// Returns `x` or `y` of a network.
fn array(name: &str, which: &str) -> Tensor {
    let mut file = WeightsFile::open(path(&format!("keras_weights/{name}.npz"))).unwrap();
    let number = file.tensors().iter().position(|(found, _)| found == which).unwrap();
    file.read(number).unwrap()
}

fn session(program: &str, x: &Tensor) -> Session {
    let model = Model::compile(program).unwrap_or_else(|error| panic!("{}", render(&error)));
    let session = model.on(&Device::cpu()).input("X", x.ty().clone()).build();
    session.unwrap_or_else(|error| panic!("{}", render(&error)))
}

#[test]
fn networks_give_what_they_gave_in_keras() {
    let networks = [
        ("sequential", SEQUENTIAL),
        ("cnn", CNN),
        ("branches", BRANCHES),
        ("branches", &BRANCHES.replace("first", "one").replace("last", "two")),
        ("recurrent", RECURRENT),
        ("transformer", TRANSFORMER),
        ("nested", NESTED),
        ("classes", CLASSES),
        ("float16", DENSE),
        ("bfloat16", DENSE),
        ("float64", DENSE),
        ("keras2_sequential", &SEQUENTIAL.replace("12", "11")),
        ("keras2_names", KERAS2_CNN),
        ("keras2_whole", KERAS2_CNN),
        ("keras2_saved", KERAS2_CNN),
        ("keras2_recurrent", KERAS2_RECURRENT),
        ("keras2_nested", KERAS2_NESTED),
    ];
    for (name, program) in networks {
        let (x, y) = (array(name, "x"), array(name, "y"));
        let mut session = session(program, &x);
        session.load(weights(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let found = session.run([("X", x)]).unwrap().remove("Y").unwrap();
        assert_eq!(found.shape(), y.shape(), "{name}");
        // Keras computes in the type of its weights: one network rounds to 2^-11, another to 2^-8.
        // The others sum a few dozen products in f32 on both sides.
        let rounding = match name {
            "float16" => 1e-3,
            "bfloat16" => 8e-3,
            // Sums of 288 products whose terms are ten times as large as the result.
            "keras2_names" | "keras2_whole" | "keras2_saved" => 2e-5,
            _ => 2e-6,
        };
        for (a, b) in found.to_f64s().iter().zip(y.to_f64s()) {
            assert!((a - b).abs() <= rounding * f64::max(1.0, b.abs()), "{name}: {a}, not {b}");
        }
    }
}

/// The files do not have LoRA's factors, whose product is 0 at first.
#[test]
fn layers_with_factors_take_the_kernels() {
    let dense = SEQUENTIAL.replace("activation = tanh", "activation = tanh, lora_rank = 2");
    let convolutions = CNN
        .replace("name = first", "name = first, lora_rank = 3")
        .replace("name = pointwise", "name = pointwise, lora_rank = 1");
    let embedding = RECURRENT.replace("Embedding(11, 4)", "Embedding(11, 4, lora_rank = 2)");
    for (name, program) in [("sequential", dense), ("cnn", convolutions), ("recurrent", embedding)]
    {
        let (x, y) = (array(name, "x"), array(name, "y"));
        let mut session = session(&program, &x);
        let report = session.load_with(&LoadOptions::file(weights(name)).partial(true)).unwrap();
        assert!(report.missing.iter().all(|path| path.contains(".Lora")), "{:?}", report.missing);
        session.initialise(1).unwrap();
        let found = session.run([("X", x)]).unwrap().remove("Y").unwrap();
        for (a, b) in found.to_f64s().iter().zip(y.to_f64s()) {
            assert!((a - b).abs() <= 2e-6 * f64::max(1.0, b.abs()), "{name}: {a}, not {b}");
        }
    }
}

const MLP: &str = "
model Mlp(X[N, 6]) -> (Y) {
    Y = X |> Dense(8, activation = relu)
        |> Dense(8, use_bias = false)
        |> LeakyReLU(0.1)
        |> Dense(8, activation = ELU(0.5))
        |> Dense(3, activation = softmax);
}";

const COMPRESSED: &str = "
model Network(X[N, T]) -> (Y) {
    A = X |> Embedding(11, 4)
        |> Bidirectional(LSTM(3, return_sequences = true))
        |> Bidirectional(GRU(3, return_sequences = true), merge_mode = \"sum\")
        |> TimeDistributed(Dense(4, activation = tanh));
    Y = A |> GRU(4, return_sequences = true, reset_after = false) |> SimpleRNN(3) |> Dense(2);
}";

/// Whole models, `.keras`: as Keras writes them, and compressed. golden/keras_import/make.py made
/// them.
#[test]
fn whole_models() {
    let base = MLP.replace("model Mlp(", "layer Mlp()(");
    let in_part =
        format!("{base} model Network(X[N, 6]) -> (Y) {{ base = Mlp(); Y = X |> base; }}");
    let file = |name: &str| path(&format!("keras_import/{name}.keras"));
    let arrays = |name: &str| {
        let mut file = WeightsFile::open(path(&format!("keras_import/{name}.npz"))).unwrap();
        (file.read(0).unwrap(), file.read(1).unwrap())
    };
    for (name, program, target) in
        [("mlp", MLP, None), ("mlp", &in_part, Some("base")), ("lstm", COMPRESSED, None)]
    {
        let (x, y) = arrays(name);
        let mut session = session(program, &x);
        let whole = WeightsSource::new(file(name));
        let source = match target {
            Some(target) => whole.target(target),
            None => whole,
        };
        session.load_with(&LoadOptions::new([source])).unwrap();
        let found = session.run([("X", x)]).unwrap().remove("Y").unwrap();
        assert!(found.to_f64s().iter().zip(y.to_f64s()).all(|(a, b)| (a - b).abs() < 2e-6));
    }
    let (x, y) = arrays("mlp");
    let program = MLP.to_owned() + " train Mlp { loss = MeanSquaredError(); optimizer = SGD(); }";
    let mut trainer = Model::compile(&program).unwrap().trainer(&Device::cpu()).build().unwrap();
    trainer.load(file("mlp")).unwrap();
    let data = Arrays::new(x, y.clone()).unwrap();
    let found = trainer.predict(&data, 2).unwrap().remove("Y").unwrap();
    assert!(found.to_f64s().iter().zip(y.to_f64s()).all(|(a, b)| (a - b).abs() < 2e-6));
}

/// Returns the missing weights and the unused entries of a file.
fn in_part(name: &str, program: &str, options: (bool, bool)) -> Result<String, Error> {
    let mut session = session(program, &array(name, "x"));
    let options = LoadOptions::file(weights(name)).partial(options.0).allow_extra(options.1);
    let report = session.load_with(&options)?;
    let unused: Vec<String> = report.unused.into_iter().flat_map(|(_, names)| names).collect();
    Ok(format!("missing {}; unused {}", report.missing.join(" "), unused.join(" ")))
}

const PARTIAL: (bool, bool) = (true, false);
const EXTRA: (bool, bool) = (false, true);
const BOTH: (bool, bool) = (true, true);

/// With `--partial` and `--allow-extra`, whole layers may have no counterpart: those of a shape
/// that the other side has not, and those that names tell from the others of their shape.
#[test]
fn layers_without_a_counterpart() {
    let longer = SEQUENTIAL.replace("Dense(2)", "Dense(2) |> Dense(3, use_bias = false)");
    let shorter = SEQUENTIAL.replace("|> Dense(2)", "");
    let wider = SEQUENTIAL.replace("Dense(2)", "Dense(3)");
    let named = BRANCHES.replace("|> relu", "|> Dense(4, name = middle)");
    let first = BRANCHES.replace("|> relu |> Dense(4, name = last)", "");
    let block = TRANSFORMER.replace("Dense(2)", "Dense(9) |> LayerNormalization() |> Dense(2)");
    let all = [
        ("sequential", &longer, PARTIAL),
        ("sequential", &shorter, EXTRA),
        ("sequential", &wider, BOTH),
        ("branches", &named, PARTIAL),
        ("branches", &first, EXTRA),
        ("transformer", &block, BOTH),
    ];
    let all = all.map(|(name, program, options)| in_part(name, program, options).unwrap());
    assert_snapshot!(all.join("\n"), @"
    missing dense_1.Kernel; unused 
    missing ; unused layers/dense_12/vars/0 layers/dense_12/vars/1
    missing dense.Kernel dense.Bias; unused layers/dense_12/vars/0 layers/dense_12/vars/1
    missing middle.Kernel middle.Bias; unused 
    missing ; unused layers/dense_1/vars/0 layers/dense_1/vars/1
    missing dense.Kernel dense.Bias layer_normalization.Gamma layer_normalization.Beta dense_1.Kernel dense_1.Bias; unused head/vars/0 head/vars/1
    ");
    // The layers that have a counterpart are loaded: the tail alone is missing.
    let (x, y) = (array("sequential", "x"), array("sequential", "y"));
    let headed = SEQUENTIAL
        .replace("-> (Y)", "-> (Y, Z)")
        .replace("Dense(2);", "Dense(2); Z = Y |> Dense(3);");
    let mut session = session(&headed, &x);
    session.load_with(&LoadOptions::file(weights("sequential")).partial(true)).unwrap();
    session.initialise(1).unwrap();
    let found = session.run([("X", x)]).unwrap().remove("Y").unwrap();
    assert!(found.to_f64s().iter().zip(y.to_f64s()).all(|(a, b)| (a - b).abs() < 2e-6));
}

/// Nothing is guessed: layers of the same shape without names, of which one side has more; and the
/// options are needed, each for its side.
#[test]
fn layers_that_may_be_missing() {
    let refused = |name: &str, program: &str, options: (bool, bool)| {
        in_part(name, program, options)
            .unwrap_err()
            .to_string()
            .replace(&weights(name).display().to_string(), "FILE")
    };
    let longer = SEQUENTIAL.replace("Dense(2)", "Dense(2) |> Dense(3)");
    let unnamed = BRANCHES.replace("|> relu", "|> Dense(4)").replace(", name = first", "");
    let all = [
        refused("sequential", &longer, (false, false)),
        refused("sequential", &longer, EXTRA),
        refused("sequential", &SEQUENTIAL.replace("|> Dense(2)", ""), PARTIAL),
        refused("sequential", &SEQUENTIAL.replace("Dense(2)", "Dense(3)"), PARTIAL),
        refused("branches", &unnamed, BOTH),
    ];
    assert_snapshot!(all.join("\n"), @"
    FILE: it does not have the program's layers, by the shapes of their weights:
      in the program:
        `dense_1`: f32[2, 3], f32[3]
      in the file:
        nothing
      help: pass `--partial` to initialise what the file lacks
    FILE: it does not have the program's layers, by the shapes of their weights:
      in the program:
        `dense_1`: f32[2, 3], f32[3]
      in the file:
        nothing
      help: pass `--partial` to initialise what the file lacks
    FILE: it does not have the program's layers, by the shapes of their weights:
      in the program:
        nothing
      in the file:
        `layers/dense_12`, `dense_12` in Keras: f32[6, 2], f32[2]
      help: pass `--allow-extra` to leave out what the program does not have
    FILE: it does not have the program's layers, by the shapes of their weights:
      in the program:
        `dense`: f32[6, 3], f32[3]
      in the file:
        `layers/dense_12`, `dense_12` in Keras: f32[6, 2], f32[2]
      help: pass `--allow-extra` to leave out what the program does not have
    FILE: these layers have weights of the same shapes, the file and the program have different numbers of them, and their names do not tell which are missing; give them the same names in Keras and here:
      in the program:
        `dense`: f32[4, 4], f32[4]
        `dense_1`: f32[4, 4], f32[4]
      in the file:
        `layers/dense`, `first` in Keras: f32[4, 4], f32[4]
    ");
}

fn refused(name: &str, program: &str) -> String {
    match session(program, &array(name, "x")).load(weights(name)) {
        Err(Error::Weights(error)) => error.what,
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("{name} was loaded"),
    }
}

/// Layers of equal shapes are matched in the order in which they are used. If they were created in
/// another order, nothing is guessed.
#[test]
fn layers_that_nothing_tells_apart() {
    let unnamed = "model Network(X[N, 4]) -> (Y) { Y = X |> Dense(4) |> relu |> Dense(4); }";
    assert_snapshot!(refused("unnamed", unnamed), @"
    these layers have weights of the same shapes, and neither their names nor an order tell which is which; give them the same names in Keras and here:
      in the program:
        `dense`: f32[4, 4], f32[4]
        `dense_1`: f32[4, 4], f32[4]
      in the file:
        `layers/dense`, `dense_15` in Keras: f32[4, 4], f32[4]
        `layers/dense_1`, `dense_14` in Keras: f32[4, 4], f32[4]
    ");
}

#[test]
fn other_networks() {
    let wider = SEQUENTIAL.replace("Dense(2)", "Dense(3)");
    let shorter = SEQUENTIAL.replace("range(12)", "range(11)");
    let without = NESTED.replace("|> Inner(name = second) ", "");
    let all = [
        refused("sequential", &wider),
        refused("sequential", &shorter),
        refused("nested", &without),
    ];
    assert_snapshot!(all.join("\n"), @"
    it does not have the program's layers, by the shapes of their weights:
      in the program:
        `dense`: f32[6, 3], f32[3]
      in the file:
        `layers/dense_12`, `dense_12` in Keras: f32[6, 2], f32[2]
    it does not have the program's layers, by the shapes of their weights:
      in the program:
        `dense[0]`: f32[6, 6], f32[6]
        `dense[1]`: f32[6, 6], f32[6]
        `dense[2]`: f32[6, 6], f32[6]
        `dense[3]`: f32[6, 6], f32[6]
        `dense[4]`: f32[6, 6], f32[6]
        `dense[5]`: f32[6, 6], f32[6]
        `dense[6]`: f32[6, 6], f32[6]
        `dense[7]`: f32[6, 6], f32[6]
        `dense[8]`: f32[6, 6], f32[6]
        `dense[9]`: f32[6, 6], f32[6]
        `dense[10]`: f32[6, 6], f32[6]
      in the file:
        `layers/dense`, `dense` in Keras: f32[6, 6], f32[6]
        `layers/dense_1`, `dense_1` in Keras: f32[6, 6], f32[6]
        `layers/dense_2`, `dense_2` in Keras: f32[6, 6], f32[6]
        `layers/dense_3`, `dense_3` in Keras: f32[6, 6], f32[6]
        `layers/dense_4`, `dense_4` in Keras: f32[6, 6], f32[6]
        `layers/dense_5`, `dense_5` in Keras: f32[6, 6], f32[6]
        `layers/dense_6`, `dense_6` in Keras: f32[6, 6], f32[6]
        `layers/dense_7`, `dense_7` in Keras: f32[6, 6], f32[6]
        `layers/dense_8`, `dense_8` in Keras: f32[6, 6], f32[6]
        `layers/dense_9`, `dense_9` in Keras: f32[6, 6], f32[6]
        `layers/dense_10`, `dense_10` in Keras: f32[6, 6], f32[6]
        `layers/dense_11`, `dense_11` in Keras: f32[6, 6], f32[6]
    it does not have the program's layers, by the shapes of their weights:
      in the program:
        `dense`: f32[5, 5], f32[5]
      in the file:
        `layers/dense`, `dense_30` in Keras: f32[5, 5], f32[5]
        `layers/sequential_1/layers/dense`, `dense_25` in Keras: f32[5, 5], f32[5]
        `layers/sequential_1/layers/dense_1`, `dense_26` in Keras: f32[5, 5], f32[5]
    ");
}

/// Training starts from the weights of such a file, whatever float type they have.
#[test]
fn a_trainer_loads_them() {
    for name in ["float64", "bfloat16"] {
        let program =
            DENSE.to_owned() + " train Network { loss = MeanSquaredError(); optimizer = SGD(); }";
        let mut trainer =
            Model::compile(&program).unwrap().trainer(&Device::cpu()).build().unwrap();
        trainer.load(weights(name)).unwrap();
        let data = Arrays::new(array(name, "x"), array(name, "y")).unwrap();
        assert!(trainer.predict(&data, 2).is_ok());
    }
    let program =
        SEQUENTIAL.to_owned() + " train Network { loss = MeanSquaredError(); optimizer = SGD(); }";
    let (x, y) = (array("sequential", "x"), array("sequential", "y"));
    let mut trainer = Model::compile(&program).unwrap().trainer(&Device::cpu()).build().unwrap();
    trainer.load(weights("sequential")).unwrap();
    let data = Arrays::new(x, y.clone()).unwrap();
    for again in [false, true] {
        if again {
            trainer.load(weights("sequential")).unwrap();
            let saved = Path::new(env!("CARGO_TARGET_TMPDIR")).join("keras.npz");
            trainer.save(&saved).unwrap();
            assert_eq!(WeightsFile::open(&saved).unwrap().tensors().len(), 26);
        }
        let found = trainer.predict(&data, 2).unwrap().remove("Y").unwrap();
        assert!(found.to_f64s().iter().zip(y.to_f64s()).all(|(a, b)| (a - b).abs() < 2e-6));
    }
    let error = trainer.resume(weights("sequential")).unwrap_err().to_string();
    assert!(error.contains("it has weights alone"), "{error}");
}

/// Truncated files, and files with changed bytes, are read or refused, and take no more memory than
/// a small file can need.
#[test]
fn damaged_files() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join("damaged.h5");
    for name in ["branches", "bfloat16", "keras2_nested"] {
        let whole = fs::read(weights(name)).unwrap();
        let open = |bytes: &[u8]| {
            fs::write(&file, bytes).unwrap();
            let mut found = WeightsFile::open(&file)?;
            (0..found.tensors().len()).try_for_each(|number| found.read(number).map(drop))
        };
        open(&whole).unwrap();
        for length in (0..whole.len()).step_by(whole.len() / 150) {
            assert!(open(&whole[..length]).is_err(), "{length} bytes of {name}");
        }
        for at in (0..whole.len()).step_by(7) {
            let mut damaged = whole.clone();
            damaged[at] ^= [0xff, 0x01, 0x80][at % 3];
            let _ = open(&damaged);
        }
    }
    let refused = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        WeightsFile::open(&file).err().unwrap().what
    };
    let cut = &fs::read(weights("cnn")).unwrap()[..2000];
    assert_snapshot!([refused(b""), refused(b"no such file"), refused(cut)].join("\n"), @"
    this is not a valid HDF5 file: invalid HDF5 magic bytes
    this is not a valid HDF5 file: invalid HDF5 magic bytes
    this is not a valid HDF5 file: unexpected end of data at offset 6688 (need 32 bytes, have 0)
    ");
}
