//! Files of weights that PyTorch wrote: see golden/torch_weights.py.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::golden::{path, render};
use insta::assert_snapshot;
use tile_runtime::train::{Arrays, Fit};
use tile_runtime::weights::{self, LoadOptions, NameMap, WeightsFile, WeightsSource};
use tile_runtime::{Device, Error, Model, Session, Tensor};

const NUMBERED: &str = "
model Network(X[N, 6]) -> (Y) {
    for i in range(3) { X = X |> Dense(6, activation = tanh); }
    Y = X |> Dense(3);
}";

const CNN: &str = "
function normalized(X) -> (Y) { Y = X |> BatchNormalization(axis = 1, epsilon = 1e-5); }
model Network(X[N, C, H, W]) -> (Y) {
    first = channels_first;
    A = X |> Conv2D(4, 3, data_format = first) |> normalized |> relu;
    A = A |> DepthwiseConv2D(3, depth_multiplier = 2, data_format = first, use_bias = false) |> normalized;
    A = A |> Conv2D(6, [1, 2], data_format = first) |> Conv2D(6, 3, groups = 2, data_format = first);
    Z = A |> Conv2DTranspose(2, 3, strides = 2, data_format = first);
    Y = Z |> GlobalAveragePooling2D(data_format = first) |> Dense(3);
}";

const NAMES: &str = "model Network(X[N, 4]) -> (Y) { Y = X |> Dense(4, name = first) |> relu |> Dense(4, name = last); }";

const RECURRENT: &str = "
model Network(X[N, T]) -> (Y) {
    A = X |> Embedding(11, 4);
    for i in range(2) { A = A |> Bidirectional(LSTM(3, return_sequences = true)); }
    A = A |> GRU(3, return_sequences = true) |> Bidirectional(GRU(3, return_sequences = true));
    Y = A |> SimpleRNN(4, use_bias = false) |> Dense(3);
}";

const ENCODER: &str = "
model Network(X[N, T, D]) -> (Y) {
    encoder = repeat(2, TransformerEncoderLayer(6, 2, dim_feedforward = 6));
    Y = X |> encoder;
}";

const ATTENTION: &str = "
layer Block()(X) -> (Y) {
    norm1 = LayerNormalization(epsilon = 1e-5);
    norm2 = LayerNormalization(epsilon = 1e-5);
    attn = MultiHeadAttention(2, 3);
    fc1 = Dense(6);
    fc2 = Dense(6);
    act = PReLU(shared_axes = [1, 2]);
    A = norm1(X);
    Z = X + attn(A, A);
    Y = Z + (norm2(Z) |> fc1 |> act |> fc2);
}
model Network(X[N, T, 6]) -> (Y) {
    param ClsToken[1, 1, 6] = zeros;
    param PosEmbed[1, T + 1, 6] = zeros;
    blocks = repeat(2, Block());
    A = [fill([N, 1, 6], 0.0) + ClsToken, X] |> Concatenate(1);
    Z = A + PosEmbed |> blocks |> RMSNormalization(name = norm);
    Y[n, d: N, 6] = =(Z[n, 0, d]);
}";

const NORMALIZATIONS: &str = "
model Network(X[N, C, T]) -> (Y) {
    first = channels_first;
    A = X |> Conv1D(4, 2, data_format = first) |> GroupNormalization(2, axis = 1, epsilon = 1e-5);
    A = A |> Conv1DTranspose(4, 2, data_format = first) |> PReLU(shared_axes = [2]);
    Y = A |> GroupNormalization(4, axis = 1, epsilon = 1e-5);
}";

fn file(name: &str) -> PathBuf {
    path(&format!("torch_weights/{name}"))
}

/// Returns all tensors of a file.
fn tensors(name: &str) -> BTreeMap<String, Tensor> {
    let mut file = WeightsFile::open(file(name)).unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<String> = file.tensors().iter().map(|(name, _)| name.clone()).collect();
    let read = |(number, name)| (name, file.read(number).unwrap_or_else(|error| panic!("{error}")));
    names.into_iter().enumerate().map(read).collect()
}

#[test]
fn archives_of_each_version_have_the_same_tensors() {
    let expected = tensors("values.npz");
    for name in ["values.pt", "protocol4.pth", "big_endian.pt"] {
        let found = tensors(name);
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{name}");
        for (entry, tensor) in &found {
            assert_eq!(tensor.shape(), expected[entry].shape(), "{name}: {entry}");
            assert_eq!(tensor.to_f64s(), expected[entry].to_f64s(), "{name}: {entry}");
            if let Some(ty) = entry.strip_prefix("types.") {
                let short = ty
                    .replace("bfloat", "bf")
                    .replace("float", "f")
                    .replace("uint", "u")
                    .replace("int", "i");
                assert_eq!(tensor.dtype().to_string(), short, "{name}");
            }
        }
    }
    let order = WeightsFile::open(file("values.pt")).unwrap();
    let model: Vec<&str> =
        order.tensors().iter().filter_map(|(name, _)| name.strip_prefix("model.")).collect();
    assert_eq!(model, ["weight", "bias"], "the order of the file");
}

fn session(program: &str, x: &Tensor) -> Session {
    let model = Model::compile(program).unwrap_or_else(|error| panic!("{}", render(&error)));
    let session = model.on(&Device::cpu()).input("X", x.ty().clone()).build();
    session.unwrap_or_else(|error| panic!("{}", render(&error)))
}

/// Loads weights, and compares the result with PyTorch's.
fn check(name: &str, program: &str, options: &LoadOptions) {
    let arrays = tensors(&format!("{name}.npz"));
    let (x, y) = (&arrays["x"], &arrays["y"]);
    let mut session = session(program, x);
    let report = session.load_with(options).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(report.missing, [""; 0], "{name}");
    let found = session.run([("X", x.clone())]).unwrap().remove("Y").unwrap();
    assert_eq!(found.shape(), y.shape(), "{name}");
    for (a, b) in found.to_f64s().iter().zip(y.to_f64s()) {
        assert!((a - b).abs() <= 5e-6 * f64::max(1.0, b.abs()), "{name}: {a}, not {b}");
    }
}

fn whole(name: &str) -> LoadOptions {
    LoadOptions::file(file(name))
}

#[test]
fn networks_give_what_they_gave_in_pytorch() {
    let networks = [
        ("numbered", NUMBERED),
        ("cnn", CNN),
        ("names", NAMES),
        ("recurrent", RECURRENT),
        ("encoder", ENCODER),
        ("attention", ATTENTION),
        ("normalizations", NORMALIZATIONS),
    ];
    for (name, program) in networks {
        check(name, program, &whole(&format!("{name}.pt")));
    }
}

#[test]
fn other_files_are_refused_with_advice() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("torch_weights");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("pickle.pt"), b"\x80\x04N.").unwrap();
    fs::write(folder.join("empty.pt"), b"").unwrap();
    fs::write(folder.join("cut.pt"), &fs::read(file("values.pt")).unwrap()[..2000]).unwrap();
    let golden = [
        "before_1_6",
        "script",
        "module",
        "tensor",
        "no_tensors",
        "complex",
        "float8",
        "sparse",
        "negated",
    ];
    let damaged = ["twice", "no_pickle", "no_data", "short", "compressed"];
    let golden = golden.iter().chain(&damaged).map(|name| file(&format!("{name}.pt")));
    let written = ["pickle.pt", "empty.pt", "cut.pt"].map(|name| folder.join(name));
    let refused = |path: PathBuf| {
        let error = WeightsFile::open(&path).map(|_| ()).unwrap_err();
        format!("{}: {}", path.file_name().unwrap().display(), error.what)
    };
    let errors: Vec<String> = golden.chain(written).map(refused).collect();
    assert_snapshot!(errors.join("\n"), @r#"
    before_1_6.pt: it is of a version before PyTorch 1.6, which wrote no zip archives; help: save it again in Python, with `torch.save(torch.load("old.pt"), "new.pt")`
    script.pt: it is an archive of TorchScript, with code; help: save its weights in Python, with `torch.save(torch.jit.load(FILE).state_dict(), "model.pt")`
    module.pt: its pickle is not one of a state_dict: it needs `torch.nn.modules.linear.Linear`, and no code of a file is run; help: save the weights alone, with `torch.save(model.state_dict(), "model.pt")`
    tensor.pt: it is one tensor, without a name; help: save the weights in Python, with `torch.save(model.state_dict(), "model.pt")`
    no_tensors.pt: it has no tensors; help: save the weights in Python, with `torch.save(model.state_dict(), "model.pt")`
    complex.pt: `a`: it has the type `torch.ComplexFloatStorage`, which Tile has not
    float8.pt: `a`: it has the type `torch.float8_e5m2`, which Tile has not
    sparse.pt: its pickle is not one of a state_dict: it needs `torch._utils._rebuild_sparse_tensor`, and no code of a file is run; help: save the weights alone, with `torch.save(model.state_dict(), "model.pt")`
    negated.pt: its pickle is not one of a state_dict: it has a negated or a conjugated view; help: save `tensor.resolve_neg().resolve_conj()`
    twice.pt: two tensors have the name `a.b`
    no_pickle.pt: it is a zip archive without a `data.pkl`; help: save the weights in Python, with `torch.save(model.state_dict(), "model.pt")`
    no_data.pt: `types.bool`: the archive has no entry `values/data/0`
    short.pt: `types.bool`: it is bool[4] from element 0 on, and its storage has 3 bytes
    compressed.pt: `types.bool`: its data are compressed; help: save the file again with `torch.save`
    pickle.pt: it is a pickle of Python, and no archive of `torch.save`; help: save the weights in Python, with `torch.save(model.state_dict(), "model.pt")`
    empty.pt: it is no archive of `torch.save`; help: save the weights in Python, with `torch.save(model.state_dict(), "model.pt")`
    cut.pt: this is not a valid file of PyTorch: it is damaged or cut off: invalid Zip archive: Could not find EOCD
    "#);
}

/// A .safetensors file sorts its entries, so names and numbers say which module is which.
#[test]
fn state_dicts_in_safetensors() {
    for (name, program) in [
        ("numbered", NUMBERED),
        ("names", NAMES),
        ("encoder", ENCODER),
        ("attention", ATTENTION),
        ("cnn", CNN),
    ] {
        check(name, program, &whole(&format!("{name}.safetensors")));
    }
    check("recurrent", &named_recurrent(), &whole("recurrent.safetensors"));
}

/// An .npz file keeps the order of its entries.
#[test]
fn a_state_dict_in_npz() {
    let mut weights = WeightsFile::open(file("numbered.pt")).unwrap();
    let names: Vec<String> =
        weights.tensors().iter().map(|(name, _)| name.replace("0.", "begin.")).collect();
    let entries =
        names.into_iter().enumerate().map(|(number, name)| (name, weights.read(number).unwrap()));
    let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join("torch.npz");
    weights::write(&written, &entries.collect::<Vec<_>>()).unwrap();
    check("numbered", NUMBERED, &LoadOptions::file(&written));
}

/// Returns the recurrent network with PyTorch's names.
fn named_recurrent() -> String {
    RECURRENT
        .replace("Embedding(11, 4)", "Embedding(11, 4, name = embedding)")
        .replace("return_sequences = true)); }", "return_sequences = true), name = lstm); }")
        .replace(
            "|> GRU(3, return_sequences = true)",
            "|> GRU(3, return_sequences = true, name = gru)",
        )
        .replace(
            "Bidirectional(GRU(3, return_sequences = true))",
            "Bidirectional(GRU(3, return_sequences = true), name = both)",
        )
        .replace("use_bias = false", "use_bias = false, name = rnn")
        .replace("Dense(3)", "Dense(3, name = head)")
}

fn sources(text: &str) -> LoadOptions {
    let sources = text.split(' ').map(|source| {
        let (target, name) =
            source.split_once('=').map_or((None, source), |(target, name)| (Some(target), name));
        let (name, part) =
            name.split_once('#').map_or((name, None), |(name, part)| (name, Some(part)));
        let source = WeightsSource::new(file(name));
        let source = target.into_iter().fold(source, |source, target| source.target(target));
        part.into_iter().fold(source, |source, part| source.part(part))
    });
    LoadOptions::new(sources)
}

/// A part of a checkpoint, a network within the program, and layers from several files.
#[test]
fn parts_of_files_and_programs() {
    check("checkpoint", NAMES, &sources("checkpoint.pt#model_state_dict"));
    check("checkpoint", NAMES, &sources("checkpoint.pt#model_state_dict.module"));
    let inner = NAMES.replace("model Network(", "model Inner()(");
    let outer =
        format!("{inner}\nmodel Network(X[N, 4]) -> (Y) {{ Y = X |> Inner(name = base); }}");
    check("names", &outer, &sources("base=names.pt"));
    check("names", &outer, &sources("base.first=names.pt#first base.last=names.safetensors#last"));
    check("names", &outer, &whole("names.pt"));
    // An attention's layers are in the file as one, so a part has none of them.
    let refused = refused(
        "encoder",
        ENCODER,
        &sources("encoder[0].attention.output=encoder.pt#layers.0.self_attn.out_proj"),
    );
    assert!(refused.contains("is missing"), "{refused}");
    // One file has what another fills, too.
    check("names", NAMES, &sources("names.pt last=names.pt#last"));
}

fn map(name: &str, lines: &str) -> LoadOptions {
    whole(name).names(NameMap::parse("names.txt", lines).unwrap())
}

#[test]
fn a_map_names_modules_or_entries() {
    let renamed = NAMES.replace("first", "one").replace("last", "two");
    check("names", &renamed, &map("names.pt", "first = one\nlast = two"));
    check(
        "names",
        &renamed,
        &map("names.safetensors", "first.weight = one.Kernel\nfirst.bias = one.Bias"),
    );
    let twice = "A = A + PosEmbed; for i in range(2) { A = A |> Block(name = part); } Z = A";
    let blocks = ATTENTION
        .replace("blocks = repeat(2, Block());", "")
        .replace("Z = A + PosEmbed |> blocks", twice);
    check("attention", &blocks, &map("attention.safetensors", "blocks.* = part[*]"));
    // A layer that is two modules.
    let separable = "model Network(X[N, C, H, W]) -> (Y) { Y = X |> SeparableConv2D(4, 3, depth_multiplier = 2, data_format = channels_first, name = layer); }";
    let lines =
        "0.weight = layer.DepthwiseKernel\n1.weight = layer.PointwiseKernel\n1.bias = layer.Bias";
    check("separable", separable, &map("separable.pt", lines));
    // The sum of two entries.
    let lines = "lstm.l0.forward = bidirectional[0].forward\nhead.weight = dense.Kernel\nhead.bias = dense.Bias
        rnn.weight_ih_l0 = simple_rnn.Kernel\ngru.bias_ih_l0 = gru.Bias\ngru.bias_hh_l0 = gru.Bias";
    check("recurrent", RECURRENT, &map("recurrent.pt", lines));
}

fn refused(name: &str, program: &str, options: &LoadOptions) -> String {
    match session(program, &tensors(&format!("{name}.npz"))["x"]).load_with(options) {
        Err(Error::Weights(error)) => error.what,
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("{name} was loaded"),
    }
}

#[test]
fn faults_name_the_layer_the_entry_and_both_shapes() {
    let wide = NAMES.replace("Dense(4, name = last)", "Dense(5, name = last)");
    assert_snapshot!(refused("names", &wide, &whole("names.pt")), @"
    its parameters do not fit the program's weights:
      `last.Kernel` must be f32[4, 5], and `last.weight`, f32[4, 4], gives [4, 4]
      `last.Bias` must be f32[5], and `last.bias`, f32[4], gives [4]
      help: change the layer here, or give it another module with `--weights-map`
    ");
    assert_snapshot!(refused("names", &wide, &map("names.pt", "last.weight = last.Kernel\nlast.bias = last.Bias")), @"
    its parameters do not fit the program's weights:
      `last.Kernel` must be f32[4, 5], and `last.weight`, f32[4, 4], gives [4, 4]
      `last.Bias` must be f32[5], and `last.bias`, f32[4], gives [4]
      help: change the layer here, or give it another module with `--weights-map`
    ");
    assert_snapshot!(refused("names", NAMES, &map("names.pt", "lats = last")), @"line 1: the file has no `lats`; did you mean `last`?");
    assert_snapshot!(refused("names", NAMES, &map("names.pt", "last = lats")), @"line 1: the program has no `lats`; did you mean `last`?");
    assert_snapshot!(refused("names", NAMES, &sources("names.pt#lats")), @"the file has no weights at `lats`; did you mean `last`?");
}

/// Modules that match by neither names nor order are listed beside the layers.
#[test]
fn modules_without_a_layer_are_listed() {
    let fewer = NUMBERED.replace("range(3)", "range(2)");
    assert_snapshot!(refused("numbered", &fewer, &whole("numbered.pt")), @"
    neither names nor order and shapes tell which modules are the program's layers:
      in the program:
        `dense[0]`: Kernel [6, 6], Bias [6]
        `dense[1]`: Kernel [6, 6], Bias [6]
        `dense`: Kernel [6, 3], Bias [3]
      in the file:
        `0`: weight [6, 6], bias [6]
        `2`: weight [6, 6], bias [6]
        `4`: weight [6, 6], bias [6]
        `6`: weight [3, 6], bias [3]
      the first that differ are `dense` and `4`: `dense.Kernel` must be f32[6, 3], and `4.weight`, f32[6, 6], gives [6, 6]
      help: name the layers as the modules, or write a file for `--weights-map` with a line `MODULE = LAYER` for each
    ");
    let renamed = NAMES.replace("first", "one").replace("last", "two");
    assert_snapshot!(refused("names", &renamed, &whole("names.safetensors")), @"
    neither names nor order and shapes tell which modules are the program's layers:
      in the program:
        `one`: Kernel [4, 4], Bias [4]
        `two`: Kernel [4, 4], Bias [4]
      in the file:
        `first`: bias [4], weight [4, 4]
        `last`: bias [4], weight [4, 4]
      help: name the layers as the modules, or write a file for `--weights-map` with a line `MODULE = LAYER` for each
    ");
    assert_snapshot!(refused("names", &renamed, &whole("checkpoint.pt")), @"
    neither names nor order and shapes tell which modules are the program's layers:
      in the program:
        `one`: Kernel [4, 4], Bias [4]
        `two`: Kernel [4, 4], Bias [4]
      in the file:
        `model_state_dict.module.last`: weight [4, 4], bias [4]
        `model_state_dict.module.first`: weight [4, 4], bias [4]
        `optimizer_state_dict.state.0`: step [], exp_avg [4, 4], exp_avg_sq [4, 4]
        `optimizer_state_dict.state.1`: step [], exp_avg [4], exp_avg_sq [4]
        `optimizer_state_dict.state.2`: step [], exp_avg [4, 4], exp_avg_sq [4, 4]
        `optimizer_state_dict.state.3`: step [], exp_avg [4], exp_avg_sq [4]
      help: take a part of the file, with `FILE#model_state_dict`
    ");
}

/// A GRU of PyTorch has two biases, as Keras' with `reset_after`.
#[test]
fn layers_of_another_kind_are_listed() {
    let before =
        RECURRENT.replace("Bidirectional(GRU(3,", "Bidirectional(GRU(3, reset_after = false,");
    assert_snapshot!(refused("recurrent", &before, &whole("recurrent.pt")), @"
    neither names nor order and shapes tell which modules are the program's layers:
      in the program:
        `embedding`: Embeddings [11, 4]
        `bidirectional[0].forward`: Kernel [4, 12], RecurrentKernel [3, 12], Bias [12]
        `bidirectional[0].backward`: Kernel [4, 12], RecurrentKernel [3, 12], Bias [12]
        `bidirectional[1].forward`: Kernel [6, 12], RecurrentKernel [3, 12], Bias [12]
        `bidirectional[1].backward`: Kernel [6, 12], RecurrentKernel [3, 12], Bias [12]
        `gru`: Kernel [6, 9], RecurrentKernel [3, 9], Bias [2, 9]
        `bidirectional.forward`: Kernel [3, 9], RecurrentKernel [3, 9], Bias [9]
        `bidirectional.backward`: Kernel [3, 9], RecurrentKernel [3, 9], Bias [9]
        `simple_rnn`: Kernel [6, 4], RecurrentKernel [4, 4]
        `dense`: Kernel [4, 3], Bias [3]
      in the file:
        `embedding`: weight [11, 4]
        `lstm.l0.forward`: weight_ih [12, 4], weight_hh [12, 3], bias_ih [12], bias_hh [12]
        `lstm.l0.backward`: weight_ih [12, 4], weight_hh [12, 3], bias_ih [12], bias_hh [12]
        `lstm.l1.forward`: weight_ih [12, 6], weight_hh [12, 3], bias_ih [12], bias_hh [12]
        `lstm.l1.backward`: weight_ih [12, 6], weight_hh [12, 3], bias_ih [12], bias_hh [12]
        `gru`: weight_ih [9, 6], weight_hh [9, 3], bias_ih [9], bias_hh [9]
        `both.forward`: weight_ih [9, 3], weight_hh [9, 3], bias_ih [9], bias_hh [9]
        `both.backward`: weight_ih [9, 3], weight_hh [9, 3], bias_ih [9], bias_hh [9]
        `rnn`: weight_ih [4, 6], weight_hh [4, 4]
        `head`: weight [3, 4], bias [3]
      the first that differ are `bidirectional.forward` and `both.forward`: `bidirectional.forward.Bias` must be f32[9], and `both.bias_ih_l0`, f32[9], is for a layer with `reset_after = true`
      help: name the layers as the modules, or write a file for `--weights-map` with a line `MODULE = LAYER` for each
    ");
    let lines = "both = bidirectional";
    assert_snapshot!(refused("recurrent", &before, &map("recurrent.pt", lines)), @"
    its parameters do not fit the program's weights:
      `bidirectional.forward.Bias` must be f32[9], and `both.bias_ih_l0`, f32[9], is for a layer with `reset_after = true`
      `bidirectional.backward.Bias` must be f32[9], and `both.bias_ih_l0_reverse`, f32[9], is for a layer with `reset_after = true`
      help: change the layer here, or give it another module with `--weights-map`
    ");
}

/// Missing and extra parameters are reported as for other files, and permitted in the same way.
#[test]
fn networks_that_differ_by_a_layer() {
    let x = &tensors("names.npz")["x"];
    let plain = NAMES.replace("Dense(4, name = last)", "Dense(4, use_bias = false, name = last)");
    assert_snapshot!(refused("names", &plain, &whole("names.pt")), @"
    it does not have the program's weights:
      `last.bias`, f32[4], is no weight of the program; did you mean `first.Bias`?
      help: pass `--allow-extra` to leave out what the program does not have
    ");
    let report = session(&plain, x).load_with(&whole("names.pt").allow_extra(true)).unwrap();
    assert_eq!(report.unused[0].1, ["last.bias"]);
    let longer = NAMES.replace("name = last)", "name = last) |> Dense(3, name = head)");
    assert_snapshot!(refused("names", &longer, &whole("names.pt")), @"
    it does not have the program's weights:
      `head.Kernel`, f32[4, 3], is missing
      `head.Bias`, f32[3], is missing
      help: pass `--partial` to initialise what the file lacks
    ");
    let report = session(&longer, x).load_with(&whole("names.pt").partial(true)).unwrap();
    assert_eq!(report.missing, ["head.Kernel", "head.Bias"]);
    let report = session(NAMES, x).load_with(&sources("names.pt").partial(true)).unwrap();
    assert_eq!(report, Default::default());
}

/// A trainer begins with the weights, whether it has compiled the model or not, and saves them by
/// their paths.
#[test]
fn a_trainer_takes_a_state_dict() {
    let train =
        "train Network { loss = mse; optimizer = SGD(0.0); batch_size = 2; shuffle = false; }";
    for name in ["encoder", "recurrent"] {
        let program = if name == "encoder" { ENCODER } else { RECURRENT };
        let arrays = tensors(&format!("{name}.npz"));
        let model = Model::compile(&format!("{program}\n{train}")).unwrap();
        let data = Arrays::new(arrays["x"].clone(), arrays["y"].clone()).unwrap();
        let saved =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("torch_{name}.safetensors"));
        for is_compiled in [false, true] {
            let mut trainer = model.trainer(&Device::cpu()).build().unwrap();
            if is_compiled {
                trainer.fit(&data, Fit::epochs(1)).unwrap();
            }
            trainer.load(file(&format!("{name}.pt"))).unwrap();
            let loss = trainer.evaluate(&data, 2).unwrap();
            assert!(loss[0].1.number().unwrap() < 1e-10, "{name}: {loss:?}");
            trainer.save(&saved).unwrap();
            check(name, program, &LoadOptions::file(&saved));
        }
    }
}
