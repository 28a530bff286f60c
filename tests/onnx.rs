//! ONNX files: their results, the Tile programs made from them, and refused files.
//! `golden/onnx_models.py` made them.

mod common;

use std::fs;
use std::path::PathBuf;

use common::golden::path;
use proptest::prelude::*;
use tile_compiler::onnx;
use tile_runtime::weights::WeightsFile;
use tile_runtime::{DType, Device, Model, Scalar, Session, Tensor, TensorType};

/// Models whose shapes depend on values that they compute from `X`.
const BY_VALUES: [&str; 3] = ["values/control_by_values", "values/detections", "values/lengths"];

/// Others, for which more inputs must be given.
const MORE_BY_VALUES: [&str; 3] =
    ["values/branches_with_weights", "values/given_sizes", "values/small_first"];

/// Returns the names of the golden models.
fn names() -> Vec<String> {
    let files = fs::read_dir(path("onnx")).unwrap().map(|entry| entry.unwrap().path());
    let models = files.filter(|file| file.extension().is_some_and(|extension| extension == "npz"));
    let mut names: Vec<String> =
        models.map(|file| file.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Returns a model's inputs or outputs from its file.
fn arrays(name: &str, kind: &str) -> Vec<(String, Tensor)> {
    let mut file = WeightsFile::open(path(&format!("onnx/{name}.npz"))).unwrap();
    let entries: Vec<String> = file.tensors().iter().map(|(entry, _)| entry.clone()).collect();
    let of_kind = entries.iter().enumerate().filter_map(|(number, entry)| {
        Some((number, entry.strip_prefix(kind)?.trim_start().to_owned()))
    });
    of_kind.map(|(number, name)| (name, file.read(number).unwrap())).collect()
}

fn model(file: &str) -> Model {
    Model::open_onnx(path(&format!("onnx/{file}.onnx")))
        .unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn session(name: &str, model: &Model, device: &Device) -> Session {
    let mut builder = model.on(device);
    for (input, tensor) in arrays(name, "input") {
        builder = builder.input(&input, tensor.ty().clone()).value(input, tensor);
    }
    builder.build().unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the tolerance, of integers as a number of steps. Some models compute in f16, which has
/// 11 significant bits, or quantize with 8 bits; the others sum in f32 in another order.
fn tolerance(name: &str) -> f64 {
    match name {
        "halves" => 2e-3,
        // bf16 has 8 significant bits, and two roundings may differ.
        "bfloats" => 8e-3,
        "quantized_lstm" => 1e-2,
        // ONNX Runtime rounds biases and scales of convolutions once more.
        "dequantized" => 1.0,
        _ => 2e-5,
    }
}

fn assert_same(name: &str, output: &str, found: &Tensor, expected: &Tensor) {
    assert_eq!(found.ty(), expected.ty(), "{name}: {output}");
    if name == "dequantized" {
        let (found, expected) = (found.to_f64s(), expected.to_f64s());
        let most = found.iter().zip(&expected).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
        assert!(most <= tolerance(name), "{name}: {output}: {most} steps");
        return;
    }
    for (found, expected) in found.to_f64s().into_iter().zip(expected.to_f64s()) {
        let allowed = if expected.fract() == 0.0 && found.fract() == 0.0 && expected.abs() > 1.5 {
            0.0
        } else {
            tolerance(name)
        };
        assert!(
            (found - expected).abs() <= allowed * expected.abs().max(1.0),
            "{name}: {output}: {found}, not {expected}"
        );
    }
}

#[test]
fn models_give_what_the_reference_gives() {
    assert!(names().len() >= 15);
    let devices = [Device::cpu(), Device::reference()];
    for name in names() {
        let model = model(&name);
        for device in &devices {
            let outputs = session(&name, &model, device).run(arrays(&name, "input")).unwrap();
            for (output, expected) in arrays(&name, "output") {
                assert_same(&name, &output, outputs.get(&output).unwrap(), &expected);
            }
        }
    }
}

/// Shapes that depend on values follow from each run's values, whichever values the session was
/// built with.
#[test]
fn shapes_depend_on_values() {
    let devices = [Device::cpu(), Device::reference()];
    for name in BY_VALUES.into_iter().chain(MORE_BY_VALUES) {
        let model = model(name);
        for device in devices.iter().chain(&*common::ADAPTERS) {
            let mut session = session(name, &model, device);
            for set in [name.to_owned(), format!("{name}_2"), name.to_owned()] {
                let outputs = session.run(arrays(&set, "input")).unwrap();
                for (output, expected) in arrays(&set, "output") {
                    assert_same(&set, &output, outputs.get(&output).unwrap(), &expected);
                }
            }
        }
    }
    // Without values the shapes are unknown.
    for name in BY_VALUES {
        let error = model(name).on(&devices[0]).build().map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("is computed from `X`, whose values are not known"), "{error}");
    }
}

/// The parts of a model are the same each time, and each convolution is in one of them.
#[test]
fn what_precedes_values_is_imported_once() {
    let bytes = fs::read(path("onnx/values/detections.onnx")).unwrap();
    let model = onnx::Model::read(bytes).unwrap();
    let values = arrays("values/detections", "input").into_iter().collect();
    let given = onnx::Given { values, ..onnx::Given::default() };
    let loader = |_: &onnx::External| Err("there is none".to_owned());
    let mut parts = Vec::new();
    let mut run = |imported: &onnx::Imported| {
        let graph = &imported.network.graph;
        parts.push(graph.to_string());
        let mut session = Session::of_graph(graph.clone(), &Device::reference()).unwrap();
        let paths: Vec<String> = session.weights().map(|(path, _)| path.to_owned()).collect();
        for path in paths {
            session.set(&path, &imported.weight(&path, &loader).unwrap()).unwrap();
        }
        let values = given.values.iter().chain(&imported.computed);
        let read = values.filter(|(name, _)| graph.to_string().contains(&format!("input {name} ")));
        let outputs = session.run(read).unwrap();
        Ok(outputs.into_iter().map(|(_, tensor)| tensor).collect())
    };
    let mut repeated = onnx::Repeated::default();
    let mut runs = Vec::new();
    for _ in 0..3 {
        let last = repeated.import(&model, &given, &loader, Some(&mut run)).unwrap();
        runs.push(last.network.graph.to_string());
    }
    assert!(runs.iter().all(|last| *last == runs[0]) && !runs[0].contains("weight K"));
    let (first, others) = parts.split_at(parts.len() / 3);
    assert!(others.chunks(first.len()).all(|again| again == first));
    assert_eq!(first.iter().filter(|part| part.contains("weight K")).count(), 1);
}

/// The same for values known without a run.
#[test]
fn another_value_gives_another_shape() {
    let model = model("shape_input");
    let mut session = session("shape_input", &model, &Device::cpu());
    let x = Tensor::from_f32([3, 1], &[1.0, 2.0, 3.0]).unwrap();
    for sizes in [[2, 1, 6], [1, 3, 2]] {
        let scalars = sizes.map(|size| Scalar::from_i64(DType::I64, size));
        let shape = Tensor::from_scalars(TensorType::new(DType::I64, [3]), scalars).unwrap();
        let outputs = session.run([("X", x.clone()), ("shape", shape)]).unwrap();
        assert_eq!(outputs.get("Y").unwrap().shape(), [sizes[0] as usize, 3, sizes[2] as usize]);
    }
}

/// The text of an imported model is a program that takes its weights.
#[test]
fn models_are_programs() {
    let device = Device::cpu();
    let folder = std::env::temp_dir().join(format!("tilec-onnx-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for name in names() {
        let onnx = model(&name);
        let mut builder = onnx.on(&device);
        for (input, tensor) in arrays(&name, "input") {
            builder = builder.input(&input, tensor.ty().clone()).value(input, tensor);
        }
        let imported = builder.import().unwrap();
        let program = Model::compile(imported.text())
            .unwrap_or_else(|error| panic!("{name}: {error}\n{}", imported.text()));
        let function = program.program().entry(None).unwrap();
        let inputs: Vec<String> =
            function.inputs.iter().map(|input| input.name.name.clone()).collect();
        let outputs: Vec<String> =
            function.outputs.iter().map(|output| output.name.clone()).collect();
        let given: Vec<(String, Tensor)> = inputs
            .into_iter()
            .zip(arrays(&name, "input"))
            .map(|(input, (_, tensor))| (input, tensor))
            .collect();
        let mut builder = program.on(&device);
        for (input, tensor) in &given {
            builder = builder.input(input, tensor.ty().clone());
        }
        let mut session =
            builder.build().unwrap_or_else(|error| panic!("{name}: {error}\n{}", imported.text()));
        if imported.has_weights() {
            let weights = folder.join(format!("{name}.safetensors"));
            imported.save_weights(&weights).unwrap();
            session.load(&weights).unwrap();
        }
        let results = session.run(given).unwrap();
        for (output, (original, expected)) in outputs.iter().zip(arrays(&name, "output")) {
            assert_same(&name, &original, results.get(output).unwrap(), &expected);
        }
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_program_is_readable() {
    let onnx = model("shape_arithmetic");
    let device = Device::cpu();
    let imported = onnx.on(&device).input("X", [3, 4, 6]).import().unwrap();
    insta::assert_snapshot!(imported.text(), @"
    // X: f32[3, 4, 6]
    model Golden(X[3, 4, 6]) -> (Y) {
        R = reshape(X, [3, 2, 12]);
        Y = transpose(R, [0, 2, 1]);
    }
    ");
}

/// Returns the program of an imported model.
fn imported(name: &str) -> String {
    model(name).on(&Device::cpu()).import().unwrap().text().to_owned()
}

/// A library layer with an operator's meaning stands for it, with weights in the layer's layout.
#[test]
fn layers_stand_for_operators_on_images() {
    insta::assert_snapshot!(imported("layers_of_images"), @"
    // X: f32[2, 3, 8, 9]
    model Golden(X[2, 3, 8, 9]) -> (Y, Z) {
        param Odd_weight[5, 2, 3, 3] = zeros();
        param Odd_bias[2] = zeros();
        param Twice_weight[2, 2, 1, 1] = zeros();
        param Twice_bias[2] = zeros();
        stem = Conv2D(4, 3, padding = same, data_format = channels_first);
        A = stem(X);
        norm = BatchNormalization(axis = 1, momentum = 0.8, epsilon = 1e-5);
        B = norm(A);
        down = Conv2D(6, 3, strides = 2, data_format = channels_first, use_bias = false);
        C = down(ZeroPadding2D([[1, 2], [0, 1]], data_format = channels_first)(B));
        depth = DepthwiseConv2D(
            3,
            depth_multiplier = 2,
            dilation_rate = 2,
            padding = same,
            data_format = channels_first
        );
        D = depth(C);
        groups = Conv2D(4, [1, 3], groups = 2, padding = same, data_format = channels_first);
        E = groups(D);
        up = Conv2DTranspose(3, 2, strides = 2, data_format = channels_first);
        F = up(E);
        same_2 = Conv2DTranspose(
            5,
            4,
            strides = 2,
            padding = same,
            data_format = channels_first,
            use_bias = false
        );
        G = same_2(F);
        H = OnnxConvTranspose(output_padding = [1, 0], pads = [1, 0, 1, 0], strides = [2, 3])(
            G,
            Odd_weight,
            Odd_bias
        );
        M = MaxPooling2D([3, 2], strides = 2, data_format = channels_first)(H);
        N = MaxPooling2D(3, strides = 1, padding = same, data_format = channels_first)(M);
        O, Value = OnnxMaxPool(kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2])(N);
        P = AveragePooling2D(3, strides = 1, padding = same, data_format = channels_first)(O);
        half = Conv2D(2, 3, strides = 2, data_format = channels_first, use_bias = false);
        Ps = half(ZeroPadding2D(1, data_format = channels_first)(P));
        quarter = Conv2D(2, 3, strides = 2, padding = same, data_format = channels_first);
        Pss = quarter(Ps);
        Q = OnnxAveragePool(ceil_mode = 1, kernel_shape = [2, 2], strides = [2, 2])(Pss);
        R = OnnxConv(Q, Twice_weight, Twice_bias);
        S = OnnxConv(R, Twice_weight, Twice_bias);
        U = GlobalAveragePooling2D(data_format = channels_first)(S);
        head = Dense(5);
        Y = head(U);
        Z = GlobalMaxPooling2D(data_format = channels_first, keepdims = true)(S);
    }
    ");
}

#[test]
fn layers_stand_for_operators_on_sequences() {
    insta::assert_snapshot!(imported("layers_of_sequences"), @"
    // X: f32[2, 5, 6]
    model Golden(X[2, 5, 6]) -> (Y, Z) {
        param Half_weight[3, 2] = zeros();
        param Half_bias[2] = zeros();
        query = Dense(8);
        B = query(X);
        C = gelu(B);
        norm = LayerNormalization(epsilon = 0.001);
        D = norm(C);
        both = LayerNormalization(axis = [1, 2], epsilon = 1e-5, center = false);
        E = both(D);
        out = Dense(4, use_bias = false);
        F = out(E);
        G = F + F;
        H = transpose(G, [0, 2, 1]);
        conv = Conv1D(3, 3, padding = same, data_format = channels_first);
        I = conv(H);
        pad = Conv1D(2, 3, strides = 2, data_format = channels_first, use_bias = false);
        J = pad(ZeroPadding1D([2, 0], data_format = channels_first)(I));
        K = reshape(J, [2, 2, 1, 1, 3]);
        deep = Conv3D(2, [1, 1, 2], data_format = channels_first);
        L = deep(K);
        M = reshape(L, [2, 4]);
        first = Dense(3);
        N = first(M);
        Y = OnnxGemm_7(alpha = 0.5)(N, Half_weight, Half_bias);
        Z = Half_bias * Half_bias;
    }
    ");
}

#[test]
fn what_is_refused() {
    let mut files: Vec<PathBuf> =
        fs::read_dir(path("onnx/refused")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let device = Device::cpu();
    let messages = files.iter().map(|file| {
        let built = Model::open_onnx(file).and_then(|model| model.on(&device).build().map(|_| ()));
        let message = built.map_or_else(|error| error.to_string(), |()| "fine".into());
        format!("{}: {message}", file.file_stem().unwrap().to_string_lossy())
    });
    insta::assert_snapshot!(messages.collect::<Vec<_>>().join("\n"), @"
    absolute: the initializer `W`: it is in the file `/etc/passwd`, which is not in the model's folder
    attribute: node `Relu_Y` (Relu): there is no attribute `slope`
    boxes: node `NonMaxSuppression_Y` (NonMaxSuppression): expected boxes [n, b, 4] and scores [n, c, b], found f32[2, 3] and f32[2, 3]
    byte: the initializer `W`: its element 300 is no u8
    cycle: node `Add_Y` (Add): nothing before it gives its input `B`
    depth: node `OneHot_Y` (OneHot): this number does not fit a 32-bit integer
    endless: node `Identity_on` (Identity): compiling this takes more work than the limit of 2 seconds allows
    flatten: node `Flatten_Y` (Flatten): there is no axis 4294967297 in a tensor with 1 axes
    given_twice: node `Neg_Y` (Neg): `Y` is given twice
    grouped: node `MatMulNBits_Y` (MatMulNBits): expected `MatMulNBits` of 2, 4 or 8 bits, without `g_idx` and not prepacked
    half: the initializer `W`: its element 65536 has more than the 16 bits of f16
    huge: node `Tile_Y` (Tile): the index `r` runs from 0 to 4611686018427387903, over more values than any tensor has
    huge_split: node `SplitToSequence_S` (SplitToSequence): compiling this takes more work than the limit of 2 seconds allows
    idle: node `Loop_Y` (Loop): compiling this takes more work than the limit of 2 seconds allows
    leaves_the_folder: the initializer `W`: it is in the file `../../../../etc/passwd`, which is not in the model's folder
    negative: the initializer `W`: it has the shape [-2]
    no_output: nothing gives the output `Y`
    not_there: the initializer `W`: cannot read its file `nothing.data`: there is no such file
    nothing: this is not a valid ONNX file: it has no graph
    overflow: the initializer `W`: a tensor f32[2147483648, 2147483648, 2147483648] is larger than any memory
    packed: the initializer `W`: it is i8[5], which takes 3 bytes, and has 2
    range: node `Range_Y` (Range): an axis of 1152921504606846976 has more places than an i32 can number
    scale: node `Resize_Y` (Resize): this number does not fit a 32-bit integer
    sequences_within: node `SequenceConstruct_s1` (SequenceConstruct): a sequence cannot be in a sequence
    shapes: node `Add_Y` (Add): the shapes [2] and [3] do not broadcast (aligned at the last axis, sizes must be equal, or one of them 1)
    sparse_huge: the sparse initializer `W`: its 4398046511104 bytes as a dense tensor are more than the 2147483648 that are left of 2147483648
    sparse_negative: the sparse initializer `W`: its index -1 is not within an axis of size 2
    sparse_outside: the sparse initializer `W`: its index 4 is not within an axis of size 4
    sparse_short: the sparse initializer `W`: it has 2 values, and 1 indices
    sparse_twice: the sparse initializer `W`: its indices name the place 2 twice
    text: this is not a valid ONNX file: failed to decode Protobuf message: unexpected end group tag
    texts: node `LabelEncoder_Y` (LabelEncoder): its keys or its values are texts, which Tile has not
    too_few_inputs: node `Add_Y` (Add): `B` of `Add` is not given
    tree_cycle: node `TreeEnsembleRegressor_Y` (TreeEnsembleRegressor): a node of its trees leads back to itself
    tree_feature: node `TreeEnsembleRegressor_Y` (TreeEnsembleRegressor): its trees look at the feature 7, and its input is f32[2]
    tree_length: node `TreeEnsembleRegressor_Y` (TreeEnsembleRegressor): expected 3 items of `nodes_values`, found 1
    tree_mode: node `TreeEnsembleRegressor_Y` (TreeEnsembleRegressor): there is no mode `BRANCH_NEAR`
    tree_node: node `TreeEnsembleRegressor_Y` (TreeEnsembleRegressor): tree 0 has no node 5
    tree_target: node `TreeEnsembleRegressor_Y` (TreeEnsembleRegressor): expected numbers below 1 in `target_ids`, found 3
    truncated: this is not a valid ONNX file: failed to decode Protobuf message: Model.graph: buffer underflow
    two_gigabytes: the initializer `W`: it is f32[2, 268435456], and has 8 bytes
    unsupported: 2 of its operators are not supported:
      Det2: `Det2_B`, `Det2_Y`
      Frobnicate: `Frobnicate_A`
    ");
}

#[test]
fn what_does_not_go_together() {
    let device = Device::cpu();
    let onnx = model("convolutions");
    let fails = |builder: tile_runtime::SessionBuilder| {
        builder.build().map(|_| ()).unwrap_err().to_string()
    };
    let messages = [
        fails(onnx.on(&device)),
        fails(onnx.on(&device).dim("batch", 2).dim("time", 3)),
        fails(onnx.on(&device).input("X", [2, 3, 9])),
        fails(onnx.on(&device).input("X", [2, 4, 9, 11])),
        fails(
            onnx.on(&device).input("X", tile_runtime::TensorType::new(DType::F64, [2, 3, 9, 11])),
        ),
        fails(onnx.on(&device).dim("batch", 2).input("Z", [1])),
        fails(onnx.on(&device).dim("batch", 2).entry("main")),
        fails(model("shape_input").on(&device)),
        fails(model("names_of_sizes").on(&device).dim("?", 2).input("B", [1, 4])),
        fails(model("sample_rate").on(&device).dim("time", 9).constant("rate", Scalar::f32(0.5))),
        fails(model("sample_rate").on(&device).dim("time", 9).constant("sizes", Scalar::i32(3))),
    ];
    insta::assert_snapshot!(messages.join("\n"), @"
    input `X`: its size `batch` is not known: give it an array, or say `--dim batch=…`
    there is no size `time`; the model has batch
    input `X`: it must be [batch, 3, 9, 11], and f32[2, 3, 9] is given
    input `X`: it must be [batch, 3, 9, 11], and f32[2, 4, 9, 11] is given
    input `X`: it must be f32, and f64[2, 3, 9, 11] is given
    there is no input `Z`; the model has X
    an ONNX file has one graph, and no `main`
    node `Expand_Y` (Expand): its input `shape`, on which shapes depend, is computed from `shape`, whose values are not known when the model is compiled
    input `C`: its size `n` is not the same in all inputs that are given: give it an array, or a shape
    input `rate`: it must be i64, and 0.5 is given
    input `sizes`: it must be [3], and a number is given
    ");
}

/// A named size is bound when a session is built, so one file serves any batch.
#[test]
fn a_named_size_is_bound() {
    let device = Device::cpu();
    let onnx = model("convolutions");
    for batch in [1, 5] {
        let session = onnx.on(&device).dim("batch", batch).build().unwrap();
        assert_eq!(session.outputs().next().unwrap().1.shape, [batch, 5]);
    }
}

/// An input of one element that is given as a number becomes a constant.
#[test]
fn a_number_is_a_constant() {
    let device = Device::cpu();
    let onnx = model("sample_rate");
    let [x, _, sizes] = <[_; 3]>::try_from(arrays("sample_rate", "input")).unwrap();
    let builder = onnx
        .on(&device)
        .dim("time", 9)
        .input("sizes", sizes.1.ty().clone())
        .value("sizes", sizes.1.clone());
    let mut session = builder.constant("rate", Scalar::i32(16000)).build().unwrap();
    assert_eq!(session.inputs().map(|(name, _)| name).collect::<Vec<_>>(), ["X", "sizes"]);
    let found = session.run([x, sizes]).unwrap().remove("Y").unwrap();
    assert_same("sample_rate", "Y", &found, &arrays("sample_rate", "output")[0].1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any bytes give a network or an error.
    #[test]
    fn no_file_makes_it_panic(
        number in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let names = names();
        let file = path(&format!("onnx/{}.onnx", names[number.index(names.len())]));
        let mut bytes = fs::read(file).unwrap();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Some(end) = end {
            bytes.truncate(end.index(bytes.len()));
        }
        if let Ok(model) = onnx::Model::read(bytes) {
            let given = onnx::Given::default();
            let _ = onnx::import(&model, &given, &|_| Err("there is none".into()), None);
        }
    }
}
