//! Tests with small files that claim to be large, or expand to be. Each is an error that states the
//! size, within 2 seconds of processor time and a gigabyte in a release build. Files that are large
//! on disk are read.
#![cfg(all(feature = "data", feature = "keras"))]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use tile_runtime::data::picture::{Pixels, read};
use tile_runtime::data::{folder, npy};
use tile_runtime::weights::WeightsFile;
use tile_runtime::{DType, Declared, Tensor, TensorType};

/// The time limit, in a test build on a busy machine.
const LONGEST: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 2 });

/// The test's own folder, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("tilec-test-{}-bombs-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Writes a file of these bytes, followed by a hole.
    fn sparse(&self, name: &str, bytes: &[u8], length: u64) -> PathBuf {
        let path = self.write(name, bytes);
        File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the error of a file that is too large. The error must name the file.
fn refused<T, E: ToString>(path: &Path, read: impl FnOnce() -> Result<T, E>) -> String {
    let began = Instant::now();
    let error = read().map(|_| ()).map_err(|error| error.to_string()).unwrap_err();
    println!("{}: {:?}: {error}", path.display(), began.elapsed());
    assert!(began.elapsed() < LONGEST, "{}: {:?}", path.display(), began.elapsed());
    error.replace(&path.display().to_string(), "FILE")
}

fn says(error: &str, text: &str) {
    assert!(error.contains(text), "{error}");
}

const TOO_MUCH: &str = "bytes of memory, and a file that occupies";

fn npy_header(order: &str, shape: &str) -> Vec<u8> {
    let mut text = format!("{{'descr': '<f4', 'fortran_order': {order}, 'shape': ({shape}), }}");
    text.push_str(&" ".repeat((128 - (10 + text.len() + 1) % 128) % 128));
    text.push('\n');
    [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat()
}

/// Writes `length` zeros to `encoder`.
fn zeros(mut encoder: impl Write, length: u64) {
    std::io::copy(&mut std::io::repeat(0).take(length), &mut encoder).unwrap();
}

#[test]
fn an_array_with_axes_by_the_thousand() {
    let folder = Folder::new("axes");
    let path =
        folder.write("x.npy", &[npy_header("True", &"1,".repeat(32_000)), vec![0; 4]].concat());
    says(&refused(&path, || npy::open(&path)), "32000 axes, and a tensor may have 64");
}

#[test]
fn holes_in_files() {
    let folder = Folder::new("holes");
    let length = 1u64 << 40;
    let header = npy_header("False", &format!("{},", (length - 128) / 4));
    let path = folder.sparse("x.npy", &header, length);
    says(&refused(&path, || npy::open(&path)), TOO_MUCH);

    let text =
        format!(r#"{{"x":{{"dtype":"U8","shape":[{length}],"data_offsets":[0,{length}]}}}}"#);
    let header = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let path = folder.sparse("x.safetensors", &header, header.len() as u64 + length);
    says(&refused(&path, || WeightsFile::open(&path)), TOO_MUCH);

    let path = folder.sparse("x.csv", b"a,b\n1,2\n", length);
    says(&refused(&path, || folder::open(&path)), TOO_MUCH);
    let path = folder.sparse("x.safetensors.index.json", b"{", length);
    says(&refused(&path, || WeightsFile::open(&path)), TOO_MUCH);
    let path = folder.sparse("x.png", b"\x89PNG\r\n\x1a\n", length);
    says(&refused(&path, || read(&path, &declared(3), Pixels::Raw)), TOO_MUCH);
}

#[test]
fn compressed_numbers() {
    let folder = Folder::new("compressed");
    let length = 3_000_000_000u64;
    let path = folder.0.join("a-images-idx3-ubyte.gz");
    let mut encoder = GzEncoder::new(File::create(&path).unwrap(), Compression::fast());
    encoder.write_all(&[0, 0, 8, 3, 0, 0, 0x0b, 0xb8, 0, 0, 0x03, 0xe8, 0, 0, 0x03, 0xe8]).unwrap();
    zeros(encoder, length);
    folder.write("a-labels-idx1-ubyte", &[0, 0, 8, 1, 0, 0, 0, 0]);
    says(&refused(&path, || folder::open(&folder.0)), TOO_MUCH);
    fs::remove_file(&path).unwrap();
    // The header claims less than the file has.
    let mut encoder = GzEncoder::new(File::create(&path).unwrap(), Compression::fast());
    encoder.write_all(&[0, 0, 8, 1, 0, 0, 0, 2]).unwrap();
    zeros(encoder, length);
    says(&refused(&path, || folder::open(&folder.0)), "bytes of memory, and a file that occupies");

    let path = folder.0.join("x.npz");
    let mut archive = zip::ZipWriter::new(File::create(&path).unwrap());
    for name in ["x.npy", "y.npy"] {
        archive
            .start_file(name, zip::write::SimpleFileOptions::default().large_file(true))
            .unwrap();
        archive.write_all(&npy_header("True", &format!("2,{},", length / 16))).unwrap();
        zeros(&mut archive, length / 2);
    }
    archive.finish().unwrap();
    says(&refused(&path, || folder::open(&path)), TOO_MUCH);
    says(&refused(&path, || WeightsFile::open(&path)), TOO_MUCH);
}

/// Each entry is small enough, but all entries share the same bytes of the file.
#[test]
fn entries_that_overlap() {
    let folder = Folder::new("overlap");
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    archive.start_file("0000.npy", zip::write::SimpleFileOptions::default()).unwrap();
    archive.write_all(&npy_header("False", "25000000,")).unwrap();
    zeros(&mut archive, 100_000_000);
    let whole = archive.finish().unwrap().into_inner();
    let end = whole.windows(4).rposition(|four| four == b"PK\x05\x06").unwrap();
    let start = whole.windows(4).rposition(|four| four == b"PK\x01\x02").unwrap();
    let mut bytes = whole[..start].to_vec();
    for number in 0..1000 {
        let mut entry = whole[start..end].to_vec();
        let name = format!("{number:04}");
        let at = entry.windows(4).position(|four| four == b"0000").unwrap();
        entry[at..at + 4].copy_from_slice(name.as_bytes());
        bytes.extend(entry);
    }
    let size = (bytes.len() - start) as u32;
    let mut last = whole[end..].to_vec();
    last[8..10].copy_from_slice(&1000u16.to_le_bytes());
    last[10..12].copy_from_slice(&1000u16.to_le_bytes());
    last[12..16].copy_from_slice(&size.to_le_bytes());
    bytes.extend(last);
    let path = folder.write("x.npz", &bytes);
    says(&refused(&path, || WeightsFile::open(&path)), TOO_MUCH);
}

#[test]
fn an_index_of_many_files() {
    let folder = Folder::new("index");
    let index = |count: usize| {
        let names: Vec<String> =
            (0..count).map(|n| format!("\"t{n}\":\"f{n}.safetensors\"")).collect();
        format!("{{\"weight_map\":{{{}}}}}", names.join(","))
    };
    let path = folder.write("x.safetensors.index.json", index(100_000).as_bytes());
    says(
        &refused(&path, || WeightsFile::open(&path)),
        "it names 100000 files, and at most 10000 are read",
    );
    // More files than a process may have open.
    let ty = TensorType::new(DType::F32, [1]);
    for number in 0..1500 {
        let tensor =
            Tensor::from_bytes(ty.clone(), (number as f32).to_le_bytes().to_vec()).unwrap();
        let path = folder.0.join(format!("f{number}.safetensors"));
        tile_runtime::weights::write(&path, &[(format!("t{number}"), tensor)]).unwrap();
    }
    let path = folder.write("x.safetensors.index.json", index(1500).as_bytes());
    let mut file = WeightsFile::open(&path).unwrap();
    let last = file.tensors().iter().position(|(name, _)| name == "t1499").unwrap();
    assert_eq!(file.read(last).unwrap().to_f64s(), [1499.0]);
    let not_an_object = folder.write("y.safetensors.index.json", b"[1]");
    says(&refused(&not_an_object, || WeightsFile::open(&not_an_object)), "not a valid index");
}

fn declared(channels: usize) -> Declared {
    Declared {
        dtype: DType::F32,
        sizes: vec![Some(224), Some(224), Some(channels)],
        channels_last: true,
    }
}

/// Returns a grey png image of zeros.
fn png(width: u32, height: u32) -> Vec<u8> {
    let chunk = |kind: &[u8], data: &[u8]| {
        let mut sum = flate2::Crc::new();
        sum.update(kind);
        sum.update(data);
        [&(data.len() as u32).to_be_bytes(), kind, data, &sum.sum().to_be_bytes()].concat()
    };
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 0, 0, 0, 0]].concat();
    let mut data = Vec::new();
    zeros(
        ZlibEncoder::new(&mut data, Compression::fast()),
        (u64::from(width) + 1) * u64::from(height),
    );
    [
        b"\x89PNG\r\n\x1a\n".to_vec(),
        chunk(b"IHDR", &header),
        chunk(b"IDAT", &data),
        chunk(b"IEND", &[]),
    ]
    .concat()
}

#[test]
fn pictures_of_many_pixels() {
    let folder = Folder::new("pictures");
    for (name, width, height) in
        [("wide.png", 400_000_000, 1), ("high.png", 1, 200_000_000), ("large.png", 20_000, 20_000)]
    {
        let path = folder.write(name, &png(width, height));
        for channels in [1, 3] {
            says(
                &refused(&path, || read(&path, &declared(channels), Pixels::Raw)),
                "bytes of memory, and a file",
            );
        }
    }
    let path = folder.write("fine.png", &png(4000, 3000));
    assert_eq!(read(&path, &declared(3), Pixels::Torchvision).unwrap().shape(), [224, 224, 3]);
}

/// A file is read if it has the length that it claims, here 700 MB in Fortran order.
#[test]
#[ignore = "writes 700 MB"]
fn an_honest_file() {
    let folder = Folder::new("honest");
    let path = folder.0.join("x.npy");
    let mut file = File::create(&path).unwrap();
    file.write_all(&npy_header("True", "175,1000000,")).unwrap();
    for _ in 0..700 {
        file.write_all(&[1; 1_000_000]).unwrap();
    }
    drop(file);
    assert_eq!(npy::open(&path).unwrap().shape(), [175, 1_000_000]);
}

/// A device that yields nothing, or never ends, is not a file.
#[cfg(unix)]
#[test]
fn devices_are_no_files() {
    let folder = Folder::new("devices");
    let path = folder.0.join("x.safetensors");
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    says(&refused(&path, || WeightsFile::open(&path)), "FILE: it is no regular file");
}
