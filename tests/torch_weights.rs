//! Files of weights that PyTorch wrote: see golden/torch_weights.py.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::golden::{path, render};
use insta::assert_snapshot;
use tile_runtime::weights::{LoadOptions, WeightsFile};
use tile_runtime::{Device, Model, Session, Tensor};

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

const NAMES: &str =
    "model Network(X[N, 4]) -> (Y) { Y = X |> Dense(4, name = first) |> relu |> Dense(4, name = last); }";

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
                let short = ty.replace("bfloat", "bf").replace("float", "f").replace("uint", "u").replace("int", "i");
                assert_eq!(tensor.dtype().to_string(), short, "{name}");
            }
        }
    }
    let order = WeightsFile::open(file("values.pt")).unwrap();
    let model: Vec<&str> = order.tensors().iter().filter_map(|(name, _)| name.strip_prefix("model.")).collect();
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
    let golden = ["before_1_6", "script", "module", "tensor", "no_tensors", "complex", "float8", "sparse", "negated"];
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
    cut.pt: this is not a valid file of PyTorch: invalid Zip archive: Could not find EOCD
    "#);
}
