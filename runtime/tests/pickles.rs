//! Tests of files of PyTorch whose pickles are damaged, or small and claim to be large. Each is an
//! error, in bounded time and memory, or gives tensors.
#![cfg(feature = "weights")]

use std::fs;
use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tile_runtime::weights::{LoadOptions, NameMap, WeightsFile, WeightsSource};
use tile_runtime::{DType, Device, Model, Session, Tensor, TensorType};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// The time limit, in a test build on a busy machine.
const LONGEST: Duration = Duration::from_secs(20);

/// The storage of the tensors: 16 floats.
const DATA: [u8; 64] = [1; 64];

/// Writes an archive with this pickle.
fn archive(name: &str, pickle: &[u8]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("tilec-test-{}-pickles", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.pt"));
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default();
    archive
        .start_file("x/data.pkl", options.compression_method(CompressionMethod::Deflated))
        .unwrap();
    archive.write_all(pickle).unwrap();
    archive.start_file("x/data/0", options.compression_method(CompressionMethod::Stored)).unwrap();
    archive.write_all(&DATA).unwrap();
    fs::write(&path, archive.finish().unwrap().into_inner()).unwrap();
    path
}

/// Reads all tensors of a file, or returns its error.
fn read(path: &Path) -> Result<usize, String> {
    let began = Instant::now();
    let result = WeightsFile::open(path).map_err(|error| error.what).and_then(|mut file| {
        let count = file.tensors().len();
        (0..count)
            .try_for_each(|number| file.read(number).map(|_| ()).map_err(|error| error.what))?;
        Ok(count)
    });
    assert!(began.elapsed() < LONGEST, "{}: {:?}", path.display(), began.elapsed());
    result
}

fn refused(name: &str, pickle: &[u8], what: &str) {
    let path = archive(name, pickle);
    let error = read(&path).unwrap_err();
    fs::remove_file(&path).unwrap();
    assert!(error.contains(what), "{name}: {error}");
}

/// Returns the pickle of a text.
fn text(text: &str) -> Vec<u8> {
    [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

/// Returns the pickle of an integer.
fn integer(number: i64) -> Vec<u8> {
    [&b"\x8a\x08"[..], &number.to_le_bytes()].concat()
}

/// Returns the pickle of a view of the storage, without the end.
fn view(offset: i64, sizes: &[i64], strides: &[i64]) -> Vec<u8> {
    let tuple = |numbers: &[i64]| {
        let numbers: Vec<u8> = numbers.iter().flat_map(|number| integer(*number)).collect();
        [b"(", &numbers[..], b"t"].concat()
    };
    let storage = [
        b"(",
        &text("storage")[..],
        b"ctorch\nFloatStorage\n",
        &text("0"),
        &text("cpu"),
        &integer(16),
        b"tQ",
    ];
    let tensor = [&integer(offset)[..], &tuple(sizes), &tuple(strides), b"\x89N"].concat();
    [&b"ctorch._utils\n_rebuild_tensor_v2\n("[..], &storage.concat(), &tensor, b"tR"].concat()
}

/// Returns the pickle of a dict with one tensor.
fn dict(tensor: &[u8]) -> Vec<u8> {
    [b"\x80\x02}", &text("a")[..], tensor, b"s."].concat()
}

/// A view that is refused: its name, offset, sizes and strides, and a part of the error.
type Case<'a> = (&'a str, i64, &'a [i64], &'a [i64], &'a str);

#[test]
fn views() {
    let path = archive("fine", &dict(&view(1, &[2, 3], &[1, 4])));
    assert_eq!(read(&path), Ok(1));
    // Axes of size 1 have any stride, and an empty tensor needs no element.
    assert_eq!(
        read(&archive("fine", &dict(&view(0, &[1, 4, 1], &[i64::MAX, 1, i64::MAX])))),
        Ok(1)
    );
    assert_eq!(
        read(&archive("fine", &dict(&view(90, &[0, 1 << 40], &[i64::MAX, i64::MAX])))),
        Ok(1)
    );
    fs::remove_file(&path).unwrap();
    let cases: [Case; 9] = [
        ("large", 0, &[17], &[1], "its storage has 64 bytes"),
        ("far", 16, &[], &[], "its storage has 64 bytes"),
        ("farther", i64::MAX, &[1], &[1], "its storage has 64 bytes"),
        ("strides", 0, &[2, 2], &[i64::MAX, i64::MAX], "its storage has 64 bytes"),
        ("expanded", 0, &[1 << 40], &[0], "bytes of memory"),
        ("overflow", 0, &[i64::MAX, i64::MAX, 16], &[0, 0, 0], "bytes of memory"),
        ("negative", 0, &[4], &[-1], "negative"),
        ("before", -1, &[4], &[1], "negative"),
        ("axes", 0, &[1; 65], &[1; 65], "65 axes"),
    ];
    for (name, offset, sizes, strides, what) in cases {
        refused(name, &dict(&view(offset, sizes, strides)), what);
    }
}

/// Each tensor is small enough, but there are many.
#[test]
fn tensors_by_the_thousand() {
    let mut pickle = b"\x80\x02}".to_vec();
    for number in 0..1000 {
        pickle.extend(text(&number.to_string()));
        pickle.extend(view(0, &[1 << 20], &[0]));
        pickle.push(b's');
    }
    refused("thousand", &[&pickle[..], b"."].concat(), "bytes of memory");
}

#[test]
fn values_without_end() {
    let tensor = view(0, &[1], &[1]);
    // Lists that contain themselves, or each other a million deep.
    refused("itself", b"\x80\x02]q\x00h\x00a.", "nested more than 64 deep");
    let deep =
        [&b"\x80\x02"[..], &vec![b']'; 1_000_000], &tensor, &vec![b'a'; 1_000_000], b"."].concat();
    refused("deep", &deep, "nested more than 64 deep");
    refused(
        "marks",
        &[&b"\x80\x02"[..], &vec![b'('; 20_000_000], b"."].concat(),
        "nested more than 1000 deep",
    );
    refused(
        "tuples",
        &[&b"\x80\x02N"[..], &vec![0x85; 20_000_000], b"."].concat(),
        "bytes of memory",
    );
    refused(
        "memo",
        &[&b"\x80\x02N"[..], &vec![0x94; 30_000_000], b"."].concat(),
        "bytes of memory",
    );
    refused(
        "long",
        &[&b"\x80\x02N"[..], &vec![b'N'; 40_000_000], b"."].concat(),
        "at most 33554432 are read",
    );
    // Each list contains the one before ten times: 10^20 tensors.
    let mut laughs = [&b"\x80\x02"[..], &tensor, b"q\x00"].concat();
    for level in 0..20u8 {
        laughs.extend(b"](");
        laughs.extend([b'h', level].repeat(10));
        laughs.extend([b'e', b'q', level + 1]);
    }
    refused("laughs", &[&laughs[..], b"."].concat(), "bytes of memory");
    // The same with dicts, whose keys are long.
    let key = [&text(&"k".repeat(1 << 20))[..], b"q\xff0"].concat();
    let mut laughs = [&b"\x80\x02"[..], &key, &tensor, b"q\x00"].concat();
    for level in 0..20u8 {
        laughs.extend(b"}(");
        laughs.extend([b'h', 255, b'h', level].repeat(10));
        laughs.extend([b'u', b'q', level + 1]);
    }
    refused("keys", &[&laughs[..], b"."].concat(), "bytes of memory");
}

#[test]
fn code_and_nonsense() {
    let system = [&b"\x80\x02cos\nsystem\n"[..], &text("true"), b"\x85R."].concat();
    refused("system", &system, "it needs `os.system`, and no code of a file is run");
    let evaluated = [&b"\x80\x04"[..], &text("builtins"), &text("eval"), b"\x93."].concat();
    refused("eval", &evaluated, "it needs `builtins.eval`");
    refused("instance", b"\x80\x02(ios\nsystem\n.", "the operation 0x69");
    refused("extension", b"\x80\x02\x82\x01.", "the operation 0x82");
    refused("empty", b"", "it ends too early");
    refused("pop", b"\x80\x02.", "an empty stack");
    refused("mark", b"\x80\x02Nt.", "an empty stack");
    refused("below", b"\x80\x02N(0.", "an empty stack");
    refused("length", b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffx.", "it ends too early");
    refused("call", b"\x80\x02N)R.", "a call");
    let nested = b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\nq\x00(h\x00N(h\x00NNNtNtR.";
    refused("subclass", nested, "a call");
    refused("bare", b"\x80\x02}X\x01\x00\x00\x00aK\x01s.", "it has no tensors");
}

/// Returns a network with layers of many kinds.
fn session() -> Session {
    let source = "model Network(X[N, 3, 2]) -> (Y) {
        A = X |> Conv1D(4, 1) |> BatchNormalization() |> Bidirectional(GRU(3, return_sequences = true));
        A = A + MultiHeadAttention(2, 3)(A, A) |> LSTM(2);
        Y = A |> Dense(2, name = model) |> Dense(2);
    }";
    let model = Model::compile(source).unwrap_or_else(|error| panic!("{error}"));
    model.on(&Device::cpu()).input("X", [1, 3, 2]).build().unwrap_or_else(|error| panic!("{error}"))
}

/// Names that are deep, many or strange are matched in bounded time.
#[test]
fn names_without_end() {
    let mut session = session();
    let deep = |number: usize| format!("{}weight", "a.".repeat(number));
    let cases: [Vec<String>; 5] = [
        [100, 30_000, 500_000].map(deep).to_vec(),
        (0..50_000).map(|number| format!("m{number}.n{number}.weight")).collect(),
        (0..50_000)
            .map(|number| format!("m.weight_ih_l{}_reverse", number * 7919))
            .chain([deep(1)])
            .collect(),
        (0..50_000)
            .map(|number| format!("parameter{number}"))
            .chain(["weight".to_owned()])
            .collect(),
        [
            "",
            ".",
            "..",
            "a..weight",
            ".weight",
            "weight",
            "weight_ih_l99999999999999999999",
            "é.out_proj.in_proj_weight",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    let zero = || Tensor::zeros(TensorType::new(DType::F32, [6, 2])).unwrap();
    let path = archive("names", b"").with_extension("safetensors");
    for names in cases {
        let tensors: Vec<(String, Tensor)> = names.into_iter().map(|name| (name, zero())).collect();
        tile_runtime::weights::write(&path, &tensors).unwrap();
        for part in [None, Some("a"), Some("m")] {
            let began = Instant::now();
            let source = part.into_iter().fold(WeightsSource::new(&path), WeightsSource::part);
            let _ = session.load_with(&LoadOptions::new([source.clone()]));
            let map = NameMap::parse("names.txt", "*.weight = *.Kernel\na.* = gru.*\nm* = model*")
                .unwrap();
            let _ = session.load_with(&LoadOptions::new([source]).partial(true).names(map));
            assert!(
                began.elapsed() < LONGEST,
                "{part:?} of {}: {:?}",
                tensors[0].0.len(),
                began.elapsed()
            );
        }
    }
    fs::remove_file(&path).unwrap();
}

/// Damages the pickle of a file in one to three bytes.
#[test]
fn damaged_pickles() {
    let golden =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/torch_weights/values.pt");
    let mut whole = ZipArchive::new(fs::File::open(golden).unwrap()).unwrap();
    let mut pickle = Vec::new();
    whole.by_name("values/data.pkl").unwrap().read_to_end(&mut pickle).unwrap();
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = move |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit as u64) as usize
    };
    let path = archive("damaged", &pickle);
    let mut session = session();
    for _ in 0..3000 {
        let mut bytes = pickle.clone();
        for _ in 0..=next(3) {
            let at = next(bytes.len());
            match next(3) {
                0 => bytes[at] = next(256) as u8,
                1 => bytes.truncate(at.max(1)),
                _ => _ = bytes.drain(at..bytes.len().min(at + 1 + next(16))),
            }
            bytes.push(b'.');
        }
        let _ = read(&archive("damaged", &bytes));
        let _ = session.load_with(&LoadOptions::file(&path).partial(true).allow_extra(true));
    }
    fs::remove_file(&path).unwrap();
}
