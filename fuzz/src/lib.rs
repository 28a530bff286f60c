//! The bodies of the fuzz targets that are longer than a line. A target finds a fault by a panic, a
//! sanitizer's report, or libFuzzer's limits of time and memory; errors are right answers.

use std::cell::{LazyCell, RefCell};
use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tile_compiler::lower::{Binding, Bindings, lower};
use tile_compiler::onnx::{self, Given};
use tile_compiler::pipeline;
use tile_compiler::profile::Profile;
use tile_lang::Program;
use tile_lang::ast::DimKind;
use tile_runtime::data::{folder, picture};
use tile_runtime::weights::{LoadOptions, WeightsFile};
use tile_runtime::{DType, Declared, Device, Model, Session, Tensor, TensorType, TileProgram};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// The size of every dimension that a program leaves open.
const SIZE: usize = 3;

/// The most operations and bytes of a program that is run.
const MOST_WORK: u64 = 1 << 20;

thread_local! {
    static FOLDER: LazyCell<TempDir> = LazyCell::new(|| TempDir::new().expect("a temporary folder"));
    /// A network with layers of many kinds, to load weights into.
    static SESSION: RefCell<Session> = RefCell::new(network());
}

/// Writes a file into the folder of this process.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = FOLDER.with(|folder| folder.path().join(name));
    fs::create_dir_all(path.parent().expect("a file in a folder")).expect("a folder for the input");
    fs::write(&path, bytes).expect("the input in a file");
    path
}

/// Whether the checker accepts the program.
pub fn is_right(text: &str) -> bool {
    tile_lang::check(text).program.is_some()
}

/// The formatted text, if it parses.
pub fn formatted(text: &str) -> Option<String> {
    tile_lang::format(text).ok()
}

/// Binds the open dimensions of each function of the program.
fn entries(program: &Program) -> impl Iterator<Item = (&str, Bindings)> {
    program.functions().iter().map(|function| {
        let dims = function.inputs.iter().flat_map(|input| input.dims.iter().flatten());
        let names = dims.filter_map(|dim| match &dim.kind {
            DimKind::Name(name) => Some((name.clone(), SIZE)),
            DimKind::Size(_) | DimKind::Ellipsis => None,
        });
        let untyped =
            function.inputs.iter().filter(|input| input.dims.is_none() && input.name.capital);
        let ty = TensorType::new(DType::F32, vec![SIZE, SIZE]);
        let bindings = Bindings {
            sizes: names.collect(),
            inputs: untyped
                .map(|input| (input.name.name.clone(), Binding::Tensor(ty.clone())))
                .collect(),
            ..Bindings::default()
        };
        (function.name.as_ref().map_or("main", |name| &name.name), bindings)
    })
}

/// Plans each function of a program for a shader device and for a cpu.
pub fn plan(text: &str) {
    let Some(program) = tile_lang::check(text).program else { return };
    for (name, bindings) in entries(&program) {
        let Ok(mut network) = lower(&program, Some(name), &bindings) else { continue };
        pipeline::optimise(&mut network.graph);
        for profile in [Profile::generic(), Profile::cpu()] {
            let _ = pipeline::plan(&network.graph, &profile);
        }
    }
}

/// Runs each small function of a program on the cpu device.
pub fn run(text: &str) {
    let Ok(model) = Model::compile(text) else { return };
    let device = Device::cpu();
    for (name, bindings) in entries(model.program()) {
        let mut builder = model.on(&device).entry(name);
        for (dim, size) in bindings.sizes {
            builder = builder.dim(dim, size);
        }
        for input in bindings.inputs.into_keys() {
            builder = builder.input(input, [SIZE, SIZE]);
        }
        let Ok(mut session) = builder.build() else { continue };
        if session.cost().is_none_or(|cost| cost.flops.saturating_add(cost.bytes) > MOST_WORK) {
            continue;
        }
        let _ = session.initialise(1);
        let inputs: Vec<(String, Tensor)> =
            session.inputs().filter_map(|(name, ty)| Some((name.to_owned(), ones(ty)?))).collect();
        let _ = session.run(inputs);
    }
}

/// A tensor of ones.
fn ones(ty: &TensorType) -> Option<Tensor> {
    let one = tile_runtime::Scalar::from_f64(ty.dtype, 1.0);
    Tensor::from_scalars(ty.clone(), std::iter::repeat_n(one, ty.elements()))
}

/// Imports an ONNX file and plans it for a cpu.
pub fn import(bytes: &[u8]) {
    let Ok(model) = onnx::Model::read(bytes.to_vec()) else { return };
    let loader = |_: &onnx::External| Err("there are no other files".to_owned());
    let Ok(mut imported) = onnx::import(&model, &Given::default(), &loader, None) else { return };
    pipeline::optimise(&mut imported.network.graph);
    let _ = pipeline::plan(&imported.network.graph, &Profile::cpu());
}

/// Reads every tensor of a file of weights.
pub fn weights(name: &str, bytes: &[u8]) {
    let Ok(mut weights) = WeightsFile::open(file(name, bytes)) else { return };
    for number in 0..weights.tensors().len() {
        let _ = weights.read(number);
    }
}

/// Reads every tensor of an archive of PyTorch. Bytes that are no archive are its pickle, beside a
/// storage: the checksum of an archive would hide most changes of a pickle.
pub fn torch(bytes: &[u8]) {
    if bytes.starts_with(b"PK") {
        return weights("w.pt", bytes);
    }
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, content) in [("w/data.pkl", bytes), ("w/data/0", &[1; 256])] {
        archive.start_file(name, options).expect("an entry of the archive");
        archive.write_all(content).expect("the content of the entry");
    }
    weights("w.pt", &archive.finish().expect("the archive").into_inner());
    let options = LoadOptions::file(FOLDER.with(|folder| folder.path().join("w.pt")))
        .partial(true)
        .allow_extra(true);
    let _ = SESSION.with_borrow_mut(|session| session.load_with(&options));
}

/// Converts a model of Keras with this configuration. Its archive has no weights.
pub fn keras_model(config: &[u8]) {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    archive.start_file("config.json", options).expect("an entry of the archive");
    archive.write_all(config).expect("the content of the entry");
    let path = file("m.keras", &archive.finish().expect("the archive").into_inner());
    let _ = TileProgram::of_keras(path);
}

fn network() -> Session {
    let source = "model Network(X[N, 3, 2]) -> (Y) {
        A = X |> Conv1D(4, 1) |> BatchNormalization() |> Bidirectional(GRU(3, return_sequences = true));
        A = A + MultiHeadAttention(2, 3)(A, A) |> LSTM(2);
        Y = A |> Dense(2, name = model) |> Dense(2);
    }";
    let model = Model::compile(source).expect("a right program");
    model.on(&Device::cpu()).input("X", [1, 3, 2]).build().expect("a session")
}

/// Reads the first samples of a file.
pub fn samples(name: &str, bytes: &[u8]) {
    first_samples(&file(name, bytes));
}

/// Reads the first samples of a pair of idx files.
pub fn idx(bytes: &[u8]) {
    let (images, labels) = bytes.split_at(bytes.len() / 2);
    let zipped = if images.starts_with(&[0x1f, 0x8b]) { ".gz" } else { "" };
    let path = file(&format!("idx{zipped}/train-images-idx3-ubyte{zipped}"), images);
    file(&format!("idx{zipped}/train-labels-idx1-ubyte"), labels);
    first_samples(path.parent().expect("the folder of the pair"));
}

fn first_samples(path: &Path) {
    let Ok(samples) = folder::open(path) else { return };
    let numbers: Vec<usize> = (0..samples.train.len().min(4)).collect();
    let _ = samples.train.batch(&numbers);
}

/// Reads a picture as an image of any size.
pub fn picture(bytes: &[u8]) {
    let declared =
        Declared { dtype: DType::F32, sizes: vec![None, None, Some(3)], channels_last: true };
    let name = if bytes.starts_with(&[0xff, 0xd8]) { "picture.jpg" } else { "picture.png" };
    let _ = picture::read(&file(name, bytes), &declared, picture::Pixels::Raw);
}
