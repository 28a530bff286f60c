//! Tests with damaged files. Every reader returns a tensor or an error, in bounded memory and time,
//! for any bytes.
#![cfg(all(feature = "data", feature = "keras", feature = "onnx"))]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tile_runtime::data::folder;
use tile_runtime::data::npy;
use tile_runtime::data::picture::{Pixels, read};
use tile_runtime::weights::WeightsFile;
use tile_runtime::{DType, Declared, Model};

/// The number of damaged versions of each file.
const MUTATIONS: u64 = 2000;

/// The time limit for one damaged file, in an unoptimized build on a busy machine.
const LONGEST: Duration = Duration::from_secs(20);

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(name)
}

/// A generator of pseudo-random numbers (xorshift), the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Damages a file in one to four places. Changes single bits and bytes, integers of any width and
/// byte order, and digits. Deletes, doubles or moves pieces.
fn mutate(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    const EXTREMES: [u64; 8] =
        [0, 1, 0x7f, 0xff, 0x7fff_ffff, 0xffff_ffff, i64::MAX as u64, u64::MAX];
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len());
        match numbers.below(8) {
            _ if bytes.is_empty() => bytes.push(numbers.next() as u8),
            0 => bytes[at] ^= 1 << numbers.below(8),
            1 => bytes[at] = numbers.next() as u8,
            2 | 3 => {
                let width = [1, 2, 4, 8][numbers.below(4)].min(bytes.len() - at);
                let number = match numbers.below(2) {
                    0 => EXTREMES[numbers.below(EXTREMES.len())],
                    _ => numbers.next() >> numbers.below(64),
                };
                let (little, big) = (number.to_le_bytes(), number.to_be_bytes());
                let written =
                    if numbers.below(2) == 0 { &little[..width] } else { &big[8 - width..] };
                bytes[at..at + width].copy_from_slice(written);
            }
            4 => bytes.truncate(at),
            5 => {
                let digits: Vec<usize> =
                    (0..bytes.len()).filter(|&at| bytes[at].is_ascii_digit()).collect();
                if let Some(&at) = digits.get(numbers.below(digits.len())) {
                    let more = numbers.below(12);
                    bytes.splice(at..at, std::iter::repeat_n(b'0' + numbers.below(10) as u8, more));
                }
            }
            6 => {
                let piece = bytes[at..bytes.len().min(at + 64)].to_vec();
                let to = numbers.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            _ => _ = bytes.drain(at..bytes.len().min(at + 1 + numbers.below(16))),
        }
    }
}

/// Reads damaged versions of the test file `name`, under the same name.
fn attack(name: &str, read: impl Fn(&Path)) {
    let whole = fs::read(golden(name)).unwrap();
    let folder = std::env::temp_dir().join(format!("tilec-test-{}-mutated", std::process::id()));
    let folder = folder.join(name.replace('/', "-"));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(Path::new(name).file_name().unwrap());
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    for mutation in 0..MUTATIONS {
        let mut bytes = whole.clone();
        mutate(&mut bytes, &mut numbers);
        fs::write(&path, &bytes).unwrap();
        let began = Instant::now();
        read(&path);
        assert!(
            began.elapsed() < LONGEST,
            "{name}: mutation {mutation} took {:?}",
            began.elapsed()
        );
    }
    fs::remove_dir_all(&folder).unwrap();
    // The total memory is an upper bound for each file.
    #[cfg(target_os = "linux")]
    {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().unwrap();
        assert!(kilobytes < 1_000_000, "{name}: {kilobytes} kB");
    }
}

/// Reads a file of samples, and all samples in it.
fn samples(path: &Path) {
    if let Ok(samples) = folder::open(path) {
        let all: Vec<usize> = (0..samples.train.len().min(1000)).collect();
        let _ = samples.train.batch(&all);
    }
}

/// Reads all tensors of a file.
fn weights(path: &Path) {
    if let Ok(mut file) = WeightsFile::open(path) {
        (0..file.tensors().len()).for_each(|number| _ = file.read(number));
    }
}

#[test]
fn arrays() {
    attack("data/npy/x.npy", |path| _ = npy::open(path));
}

#[test]
fn samples_in_archives_and_tables() {
    for name in ["data/split.npz", "data/whole.npz", "data/label.csv", "data/points.csv"] {
        attack(name, samples);
    }
}

/// One of the two files is intact.
#[test]
fn samples_in_idx_files() {
    let files = ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte"];
    for (name, beside) in [(files[0], files[1]), (files[1], files[0])] {
        attack(&format!("data/idx/{name}"), |path| {
            let folder = path.parent().unwrap();
            fs::copy(golden(&format!("data/idx/{beside}")), folder.join(beside)).unwrap();
            samples(folder);
        });
    }
}

#[test]
fn pictures() {
    let declared =
        Declared { dtype: DType::F32, sizes: vec![None, None, Some(3)], channels_last: true };
    let small =
        Declared { dtype: DType::F32, sizes: vec![Some(8), Some(8), Some(3)], channels_last: true };
    for folder in ["data/pictures/a", "data/jpeg/train"] {
        let mut inner = golden(folder);
        while inner.is_dir() {
            inner = fs::read_dir(&inner).unwrap().map(|entry| entry.unwrap().path()).min().unwrap();
        }
        let name = inner.strip_prefix(golden("")).unwrap().to_str().unwrap().to_owned();
        attack(&name, |path| {
            _ = read(path, &declared, Pixels::Raw);
            _ = read(path, &small, Pixels::Torchvision);
        });
    }
}

#[test]
fn weights_of_each_format() {
    for name in ["weights/network.npz", "weights/compressed.npz", "weights/network.safetensors"] {
        attack(name, weights);
    }
}

#[test]
fn an_index_of_several_files() {
    attack("weights/network.safetensors.index.json", |path| {
        for part in ["part-1.safetensors", "part-2.safetensors"] {
            fs::copy(golden(&format!("weights/{part}")), path.with_file_name(part)).unwrap();
        }
        weights(path);
    });
}

#[test]
fn weights_of_keras() {
    for name in ["classes.weights.h5", "float64.weights.h5", "keras2_names.h5", "keras2_whole.h5"] {
        attack(&format!("keras_weights/{name}"), weights);
    }
}

#[test]
fn weights_of_pytorch() {
    attack("torch_weights/values.pt", weights);
}

#[test]
fn models_of_onnx() {
    for name in ["corners.onnx", "sequences.onnx", "opset_6.onnx"] {
        attack(&format!("onnx/{name}"), |path| _ = Model::open_onnx(path));
    }
}
