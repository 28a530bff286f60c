//! Models that Keras saved become Tile programs that predict the same: golden/keras_import/make.py
//! made them.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::golden::{path, render, text};
use insta::assert_snapshot;
use tile_compiler::lower::Bindings;
use tile_lang::ast::DimKind;
use tile_runtime::weights::{KerasModel, WeightsFile};
use tile_runtime::{Device, Model, Outputs, Scalar, Session, Tensor, TileProgram};

const NAMES: [&str; 19] = [
    "mlp",
    "cnn",
    "lstm",
    "attention",
    "branches",
    "shared",
    "nested",
    "two",
    "shapes",
    "masked",
    "masks_pass",
    "operations",
    "masked_attention",
    "masked_states",
    "several",
    "cells",
    "booleans",
    "casts",
    "deep",
];

fn model(name: &str) -> PathBuf {
    path(&format!("keras_import/{name}.keras"))
}

fn import(name: &str) -> TileProgram {
    TileProgram::of_keras(model(name)).unwrap_or_else(|error| panic!("{name}: {}", render(&error)))
}

/// Returns the inputs or the outputs of a model in order.
fn arrays(name: &str, kind: &str) -> Vec<Tensor> {
    let mut file = WeightsFile::open(path(&format!("keras_import/{name}.npz"))).unwrap();
    let names: Vec<String> = file.tensors().iter().map(|(entry, _)| entry.clone()).collect();
    let place = |number: usize| names.iter().position(|name| *name == format!("{kind} {number}"));
    (0..).map_while(place).map(|entry| file.read(entry).unwrap()).collect()
}

#[test]
fn models_predict_the_same() {
    for name in NAMES {
        let program = import(name);
        let text = program.text();
        let model = Model::compile(text)
            .unwrap_or_else(|error| panic!("{name}: {}\n{text}", render(&error)));
        assert_eq!(model.warnings(), [], "{text}");
        let entry = model.program().entry(None).unwrap();
        let inputs: Vec<(String, Tensor)> = entry
            .inputs
            .iter()
            .map(|input| input.name.name.clone())
            .zip(arrays(name, "in"))
            .collect();
        let device = Device::cpu();
        let mut builder = model.on(&device);
        for (input, tensor) in &inputs {
            builder = builder.input(input, tensor.ty().clone());
        }
        let mut session =
            builder.build().unwrap_or_else(|error| panic!("{name}: {}\n{text}", render(&error)));
        for (path, weight) in program.weights().unwrap() {
            session.set(&path, &weight).unwrap();
        }
        let mut found = session.run(inputs).unwrap();
        let expected = arrays(name, "out");
        assert_eq!(entry.outputs.len(), expected.len(), "{name}");
        for (output, expected) in entry.outputs.iter().zip(expected) {
            let found = found.remove(&output.name).unwrap();
            assert_eq!(found.shape(), expected.shape(), "{name}");
            for (a, b) in found.to_f64s().iter().zip(expected.to_f64s()) {
                // Sums of some dozens of products in f32, several layers deep.
                assert!(
                    (a - b).abs() <= 4e-6 * f64::max(1.0, b.abs()),
                    "{name}: {a}, not {b}\n{text}"
                );
            }
        }
    }
}

/// A session saves what Keras saved: the same names and values. Models in models have no place in
/// such a file, since the program does not say of which class they are in Keras.
#[test]
fn sessions_save_the_files_of_keras() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("saved.weights.h5");
    let values = |file: &Path| {
        let mut file = WeightsFile::open(file).unwrap();
        let names: Vec<String> = file.tensors().iter().map(|(name, _)| name.clone()).collect();
        let values = names.into_iter().enumerate();
        values.map(|(at, name)| (name, file.read(at).unwrap())).collect::<BTreeMap<_, _>>()
    };
    for name in NAMES.iter().filter(|name| !["shared", "nested", "several"].contains(name)) {
        let program = import(name);
        let compiled = Model::compile(program.text()).unwrap();
        let device = Device::cpu();
        let mut builder = compiled.on(&device);
        let entry = compiled.program().entry(None).unwrap();
        for (input, tensor) in entry.inputs.iter().zip(arrays(name, "in")) {
            builder = builder.input(&input.name.name, tensor.ty().clone());
        }
        let mut session = builder.build().unwrap();
        for (path, weight) in program.weights().unwrap() {
            session.set(&path, &weight).unwrap();
        }
        session.save(&file).unwrap();
        assert_eq!(values(&file), values(&model(name)), "{name}");
        let path = program.weights().unwrap()[0].0.clone();
        let before = session.get(&path).unwrap();
        session.initialise(3).unwrap();
        session.load(&file).unwrap();
        assert_eq!(session.get(&path).unwrap(), before, "{name}");
    }
}

#[test]
fn programs() {
    let shown = NAMES.iter().filter(|name| **name != "deep");
    let all: Vec<String> = shown.map(|name| import(name).text().to_owned()).collect();
    assert_snapshot!(all.join("\n"));
}

/// Returns a session of a model, with the sizes that export.tile leaves open.
fn session(model: &Model, entry: Option<&str>) -> Session {
    let device = Device::cpu();
    let mut builder = model.on(&device);
    if let Some(entry) = entry {
        builder = builder.entry(entry);
    }
    let entry = model.program().entry(entry).unwrap();
    let dims = entry.inputs.iter().flat_map(|input| input.dims.iter().flatten());
    for dim in dims {
        if let DimKind::Name(name) = &dim.kind {
            builder = builder.dim(name, if name == "K" { 3 } else { 5 });
        }
    }
    builder.build().unwrap_or_else(|error| panic!("{}", render(&error)))
}

/// Runs a session on small whole numbers, which are tokens and masks, too.
fn run(session: &mut Session) -> Outputs {
    let inputs: Vec<(String, Tensor)> = session
        .inputs()
        .map(|(name, ty)| {
            let numbers =
                (0..ty.elements()).map(|at| Scalar::from_i64(ty.dtype, at as i64 * 5 % 3));
            (name.to_owned(), Tensor::from_scalars(ty.clone(), numbers).unwrap())
        })
        .collect();
    session.run(inputs).unwrap()
}

/// Exports a model with the weights of a session, and imports it again.
fn exported(name: &str, model: &Model, entry: Option<&str>, session: &Session) -> TileProgram {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("exported_{name}.keras"));
    let sizes = [("K".to_owned(), 3)].into_iter().collect();
    let bindings = Bindings { sizes, ..Bindings::default() };
    let keras = KerasModel::new(model, entry, &bindings)
        .unwrap_or_else(|error| panic!("{name}: {}", render(&error)));
    keras.save(session, &file).unwrap();
    TileProgram::of_keras(&file).unwrap_or_else(|error| panic!("{name}: {}", render(&error)))
}

/// golden/keras_import/export_check.py holds the same models to Keras.
#[test]
fn exported_models_predict_the_same() {
    let model = Model::compile(&text("keras_import/export.tile")).unwrap();
    let names = model.program().functions().iter().map(|model| &model.name.as_ref().unwrap().name);
    for name in names {
        let mut before = session(&model, Some(name));
        before.initialise(5).unwrap();
        let program = exported(name, &model, Some(name), &before);
        let again = Model::compile(program.text()).unwrap();
        let mut after = session(&again, None);
        for (path, weight) in program.weights().unwrap() {
            after.set(&path, &weight).unwrap();
        }
        let (expected, found) = (run(&mut before), run(&mut after));
        assert_eq!(expected.iter().count(), found.iter().count(), "{name}");
        for ((_, expected), (_, found)) in expected.iter().zip(found.iter()) {
            assert_eq!(expected.shape(), found.shape(), "{name}");
            for (a, b) in found.to_f64s().iter().zip(expected.to_f64s()) {
                assert!((a - b).abs() <= 2e-6 * f64::max(1.0, b.abs()), "{name}: {a}, not {b}");
            }
        }
    }
}

/// A model that is imported, exported and imported again has the layers and weights of before.
#[test]
fn imported_models_are_exported() {
    for name in ["mlp", "cnn", "lstm", "two", "shapes", "masks_pass", "masked_attention", "cells"] {
        let program = import(name);
        let compiled = Model::compile(program.text()).unwrap();
        let mut session = session(&compiled, None);
        for (path, weight) in program.weights().unwrap() {
            session.set(&path, &weight).unwrap();
        }
        let again = exported(name, &compiled, None, &session);
        // All inputs but the first are named in a file of Keras.
        assert_eq!(again.text().replace("Value = Value", "Value"), program.text());
        assert_eq!(again.weights().unwrap(), program.weights().unwrap(), "{name}");
    }
}

/// Each is refused at its place.
#[test]
fn models_that_keras_cannot_have() {
    let all = [
        ("Y = X + 1 |> Dense(2);", "an operator"),
        ("Y = -X |> Dense(2);", "an operator"),
        ("Y = relu(X);", "a function of a tensor"),
        ("Y = X |> Own();", "a definition of your own"),
        ("Y = X |> Dense(2, activation = own);", "a definition of your own"),
        ("Y = X |> Dense(2, activation = relu(0.1));", "a function with options"),
        ("Y = X |> Dense(2, activation = sin);", "`sin`, which is no activation of Keras"),
        ("Y = X |> Dense(2, activation = sum);", "`sum`, which is no activation of Keras"),
        ("Y = X |> Dense(2, kernel_regularizer = relu);", "`relu`, which is no regularizer"),
        ("Y = X |> Dense(2, kernel_regularizer = zeros());", "`zeros`, which is no regularizer"),
        ("Y = X |> Dense(2, lora_rank = 1);", "a layer with `lora_rank`"),
        ("d = Dense(2); Z = X |> d; Y = X |> TimeDistributed(d);", "used elsewhere, too"),
        ("d = Dense(2); Z = X |> TimeDistributed(d); Y = X |> d;", "used elsewhere, too"),
        ("d = LSTM(2); Y = X |> Bidirectional(d, backward_layer = d);", "used elsewhere, too"),
        ("Y = [X, 1] |> Add();", "a list of tensors and other values"),
        ("param W[3, 2] = zeros; Y = X |> Dense(2);", "another statement"),
        ("for i in range(2) { X = X |> Dense(2); } Y = X;", "another statement"),
        ("Y = X |> Lambda(own);", "a definition of your own"),
        ("Y = X |> Lora(2);", "`Lora`, a layer that a file of Keras cannot have"),
        ("Z = Embedding(3, 3, mask_zero = true)(X); Y = LSTM(2)(Z, Mask = none);", "Keras passes"),
        ("Z = Masking()(Embedding(3, 3)(X)); Y = LSTM(2)(Z, [X, X]);", "add `Mask = none`"),
    ];
    for (body, what) in all {
        let text = format!(
            "layer Own()(X) -> (Y) {{ Y = X |> Dense(2); }}\nfunction own(X) -> (Y) {{ Y = X; }}\nmodel M(X[N, 3]) -> (Y) {{ {body} }}\n"
        );
        let model = Model::compile(&text).unwrap_or_else(|error| panic!("{}", render(&error)));
        let error = KerasModel::new(&model, None, &Bindings::default()).err();
        let error = error.unwrap_or_else(|| panic!("{body} is exported"));
        assert!(error.to_string().contains(what), "{body}: {error}");
        assert!(render(&error).contains(":3:"), "{body}: {}", render(&error));
    }
}

/// Lists of lists double 40 times.
#[test]
fn lists_that_grow_exponentially() {
    let all =
        [("L", "[X, X]", "[_, _]"), ("l", "[1, 2]", "[_, _]"), ("l", "GRUCell(1)", "RNN([_, _])")];
    for (name, first, next) in all {
        let mut text = format!("model M(X[N, 3]) -> (Y) {{ {name}0 = {first};\n");
        for at in 0..40 {
            let next = next.replace('_', &format!("{name}{at}"));
            text += &format!("{name}{} = {next};\n", at + 1);
        }
        let model = Model::compile(&(text + "Y = X |> Dense(2); }")).unwrap();
        let error = KerasModel::new(&model, None, &Bindings::default()).err().unwrap();
        let error = error.to_string();
        let expected = ["the copies of items above 1000000", "used elsewhere, too"];
        assert!(expected.iter().any(|expected| error.contains(expected)), "{error}");
    }
}

/// All faults are reported at once.
#[test]
fn layers_and_options_that_the_library_lacks() {
    let refused = |name: &str| TileProgram::of_keras(model(name)).unwrap_err().to_string();
    let all = [
        "lambda",
        "mask",
        "attention",
        "options",
        "custom",
        "text",
        "axis",
        "long",
        "lora",
        "types",
    ]
    .map(|kind| refused(&format!("refused_{kind}")));
    assert_snapshot!(all.join("\n"), @r#"
    the layer `twice` (Lambda): `function`: it is Python code
    the layer `words` makes a mask, and the file does not say whether `inner` takes it; help: write the program by hand, and give it the file with `--weights`
    the layer `words` makes a mask, and the file does not say whether `heads` takes it; help: write the program by hand, and give it the file with `--weights`
    the layer `wide` (Embedding): it has the type `float64`, and layers here compute in f32
    the layer `lstm_6` (LSTM): it has the type `float64`, and layers here compute in f32
    the layer `lstm_5` (LSTM): the library's layer has no option `zero_output_for_mask`, which is true
    the layer `sin` (Sin): only layers and the usual functions, such as `x + y` and `keras.ops.mean`, are converted
    the layer `twice` is of the class `Dense`, which is no class of Keras itself; help: write the program by hand, and give it the file with `--weights`
    the layer `pool` (MaxPooling2D): `padding`: "valid\") |> Rescaling(9, name = \"x" has characters that a text here cannot have
    the layer `squeeze_3` (Squeeze): expected the number of an axis for `axis`, found 9223372036854775807
    the layer `each` (TimeDistributed): `layer`: the library's layer has no option `long`, which is [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1…
    the layer `tuned` (Dense): its option `lora_rank` is not converted; help: leave it out in Keras, and load the weights there: the saved kernel has the product of the factors
    the layer `add_6` (Add): it takes true and false as numbers, which is not converted; help: multiply them by 1.0 in Keras
    the layer `both` (Add): it takes true and false as numbers, which is not converted; help: multiply them by 1.0 in Keras
    "#);
}

/// Truncated archives, and archives with changed bytes, are read or refused.
#[test]
fn damaged_archives() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("damaged.keras");
    for name in ["mlp", "nested"] {
        let whole = fs::read(model(name)).unwrap();
        let open = |bytes: &[u8]| {
            fs::write(&file, bytes).unwrap();
            TileProgram::of_keras(&file).and_then(|program| program.weights())
        };
        open(&whole).unwrap();
        for length in (0..whole.len()).step_by(whole.len() / 50) {
            assert!(open(&whole[..length]).is_err(), "{length} bytes of {name}");
        }
        for at in (0..whole.len()).step_by(whole.len() / 200) {
            let mut damaged = whole.clone();
            damaged[at] ^= [0xff, 0x01, 0x80][at % 3];
            let _ = open(&damaged);
        }
    }
}
