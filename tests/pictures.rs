//! Pictures become the tensors that Keras and torchvision make of them: see golden/pictures.py.

mod common;

use std::fs::File;
use std::path::Path;

use common::golden::path;
use tile_runtime::data::npy;
use tile_runtime::data::picture::{Pixels, encode, read};
use tile_runtime::{DType, Declared, Tensor};

/// The most by which bytes may differ after resizing. Pillow rounds to bytes after each of two
/// passes, at most 1 together, and this crate once, at most 1/2; whole numbers at most 3/2 apart
/// are at most 1 apart.
const STRETCHED: f64 = 1.0;
/// The most by which bytes of a jpeg may differ. Decoders round each channel's cosine transform, at
/// most 1, and then the conversion of three channels to a color.
const DECODED: f64 = 3.0;

fn open(sizes: &[usize]) -> Vec<Option<usize>> {
    sizes.iter().copied().map(|size| Some(size).filter(|size| *size > 0)).collect()
}

/// Reads the picture as an f32 input of these sizes; 0 is an open size.
fn picture(file: &str, sizes: &[usize], pixels: Pixels) -> Tensor {
    let declared = Declared { dtype: DType::F32, sizes: open(sizes), channels_last: true };
    read(&path(&format!("pictures/{file}")), &declared, pixels).unwrap()
}

fn golden(file: &str) -> Tensor {
    npy::read(File::open(path(&format!("pictures/{file}"))).unwrap()).unwrap()
}

/// Panics if values differ by more than `bytes`, where `unit` is a byte's step in each channel.
fn compare(name: &str, found: &Tensor, bytes: f64, unit: impl Fn(usize) -> f64) {
    let expected = golden(name);
    assert_eq!(found.ty().elements(), expected.ty().elements(), "{name}");
    for (at, (a, b)) in found.to_f64s().iter().zip(expected.to_f64s()).enumerate() {
        // f32 rounds values of at most 256.
        let allowed = bytes * unit(at) + 3e-5;
        assert!((a - b).abs() <= allowed, "{name} at {at}: {a}, not {b}");
    }
}

/// Keras' loading and scaling, for a png, which all decoders read alike, and a jpeg.
#[test]
fn as_keras_loads_and_scales_them() {
    for (kind, decoded) in [("png", 0.0), ("jpg", DECODED)] {
        let file = format!("shapes.{kind}");
        let compare_all = |size: [usize; 2], stretched: f64| {
            let [height, width] = size;
            let name = format!("{kind}-{height}x{width}");
            compare(
                &format!("{name}-raw.npy"),
                &picture(&file, &[1, height, width, 3], Pixels::Raw),
                decoded + stretched,
                |_| 1.0,
            );
            compare(
                &format!("{name}-grey.npy"),
                &picture(&file, &[height, width], Pixels::Raw),
                decoded + stretched,
                |_| 1.0,
            );
        };
        compare_all([37, 53], 0.0);
        compare_all([16, 20], STRETCHED);
        compare_all([60, 44], STRETCHED);
        let deviation = [0.229, 0.224, 0.225];
        let scaled = |pixels| picture(&file, &[16, 20, 3], pixels);
        let bytes = decoded + STRETCHED;
        compare(&format!("{kind}-16x20-tf.npy"), &scaled(Pixels::KerasTf), bytes, |_| 1.0 / 127.5);
        compare(&format!("{kind}-16x20-caffe.npy"), &scaled(Pixels::KerasCaffe), bytes, |_| 1.0);
        compare(&format!("{kind}-16x20-torch.npy"), &scaled(Pixels::KerasTorch), bytes, |at| {
            1.0 / 255.0 / deviation[at % 3]
        });
        for size in [24, 48] {
            let found = picture(&file, &[1, 3, size, size], Pixels::Torchvision);
            let unit = |at: usize| 1.0 / 255.0 / deviation[at / (size * size)];
            compare(&format!("{kind}-{size}x{size}-torchvision.npy"), &found, bytes, unit);
        }
    }
}

/// Open sizes are the picture's own.
#[test]
fn shapes_of_inputs() {
    let shape = |sizes: &[usize]| picture("shapes.png", sizes, Pixels::Raw).shape().to_vec();
    assert_eq!(shape(&[0, 0]), [37, 53]);
    assert_eq!(shape(&[0, 0, 0]), [37, 53, 3]);
    assert_eq!(shape(&[0, 0, 0, 3]), [1, 37, 53, 3]);
    assert_eq!(shape(&[0, 3, 0, 0]), [1, 3, 37, 53]);
    assert_eq!(shape(&[0, 20, 0, 1]), [1, 20, 53, 1]);
    assert_eq!(shape(&[4, 20, 30]), [4, 20, 30]);
    assert_eq!(shape(&[0, 28, 28]), [1, 28, 28]);
    let first = picture("shapes.png", &[3, 8, 9], Pixels::Raw).to_f64s();
    let last = picture("shapes.png", &[8, 9, 3], Pixels::Raw).to_f64s();
    assert!((0..8 * 9).all(|pixel| {
        (0..3).all(|channel| first[channel * 72 + pixel] == last[pixel * 3 + channel])
    }));
}

/// A written picture reads back unchanged, in every format.
#[test]
fn there_and_back() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("there_and_back.png");
    for (_, pixels) in Pixels::ALL {
        for sizes in [[1, 37, 53, 3], [1, 3, 37, 53]] {
            // With given sizes torchvision would crop a border.
            let open = sizes.map(|size| if size > 3 { 0 } else { size });
            let tensor = picture("shapes.png", &open, pixels);
            assert_eq!(tensor.shape(), sizes);
            std::fs::write(&file, encode(&file, &tensor, pixels).unwrap()).unwrap();
            let declared = Declared { dtype: DType::U8, sizes: vec![None; 3], channels_last: true };
            let again = read(&file, &declared, Pixels::Raw).unwrap();
            assert_eq!(again.bytes(), golden("png-37x53-raw.npy").bytes(), "{pixels:?}");
        }
    }
    let values = Tensor::from_f32([1, 4], &[-3.0, 254.5, 1e9, f32::NAN]).unwrap();
    std::fs::write(&file, encode(&file, &values, Pixels::Raw).unwrap()).unwrap();
    let declared = Declared { dtype: DType::U8, sizes: vec![None; 2], channels_last: true };
    assert_eq!(read(&file, &declared, Pixels::Raw).unwrap().bytes(), [0, 255, 255, 0]);
}

#[test]
fn what_is_no_picture() {
    let refused = |sizes: &[usize], dtype: DType, pixels| {
        let declared = Declared { dtype, sizes: open(sizes), channels_last: false };
        let error = read(&path("pictures/shapes.png"), &declared, pixels).unwrap_err().to_string();
        error.split_once("shapes.png: ").unwrap().1.to_owned()
    };
    let raw = |sizes: &[usize]| refused(sizes, DType::F32, Pixels::Raw);
    let f32 = |sizes: &[usize], pixels| refused(sizes, DType::F32, pixels);
    let all = [
        raw(&[5]),
        raw(&[0, 0, 0, 0]),
        raw(&[4, 20, 20, 3]),
        raw(&[0, 8, 20, 20]),
        raw(&[1, 2, 3, 4, 3]),
        raw(&[1 << 40, 1 << 40]),
        f32(&[0, 0, 1], Pixels::KerasCaffe),
        refused(&[0, 0, 3], DType::U8, Pixels::KerasTf),
        refused(&[0, 0, 3], DType::I8, Pixels::Raw),
    ];
    let error = raw(&[100_000, 100_000]);
    assert!(error.starts_with("reading it takes 20"), "{error}");
    insta::assert_snapshot!(all.join("\n"), @"
    the input is [5]: it is no picture, which is [H, W], [H, W, C] or [C, H, W], with 1, 3 or 4 channels, or one such in a batch
    the input is [?, ?, ?, ?]: its sizes do not say which axis is that of the channels
    the input is [4, 20, 20, 3]: it is a batch of 4 pictures, and this is one
    the input is [?, 8, 20, 20]: it is no picture, which is [H, W], [H, W, C] or [C, H, W], with 1, 3 or 4 channels, or one such in a batch
    the input is [1, 2, 3, 4, 3]: it is no picture, which is [H, W], [H, W, C] or [C, H, W], with 1, 3 or 4 channels, or one such in a batch
    1099511627776 x 1099511627776 pixels are no size for a picture
    these values of pixels are for 3 channels, and it has 1: `raw` and `keras-tf` suit any number
    the input is of the type u8, which has no place for scaled values of pixels
    the input is of the type i8, which has no place for 0 to 255
    ");
}

/// Truncated files, and files with a byte changed, are a picture or an error. A header that claims
/// a huge picture is refused before memory is allocated for it.
#[test]
fn damaged_files() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let declared = Declared { dtype: DType::F32, sizes: vec![None; 3], channels_last: true };
    for kind in ["png", "jpg"] {
        let (whole, file) = (
            std::fs::read(path(&format!("pictures/shapes.{kind}"))).unwrap(),
            folder.join(format!("damaged.{kind}")),
        );
        let result = |bytes: &[u8]| {
            std::fs::write(&file, bytes).unwrap();
            read(&file, &declared, Pixels::Raw).map_err(|error| error.to_string())
        };
        for length in (0..whole.len()).step_by(61) {
            let _ = result(&whole[..length]);
            let mut damaged = whole.clone();
            damaged[length] ^= 0x55;
            let _ = result(&damaged);
        }
        assert!(result(&whole[..whole.len() / 2]).is_err(), "half a {kind}");
        assert!(result(b"no picture").is_err());
    }
    // A png header for 65,535 x 65,535 pixels, with its checksum, and no pixels.
    let mut bomb =
        b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\xff\xff\0\0\xff\xff\x08\x02\0\0\0".to_vec();
    let checksum = bomb[12..].iter().fold(u32::MAX, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| {
            if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 }
        })
    });
    bomb.extend((!checksum).to_be_bytes());
    bomb.extend(b"\0\0\0\0IDAT\x35\xaf\x06\x1e");
    let file = folder.join("bomb.png");
    std::fs::write(&file, bomb).unwrap();
    let error = read(&file, &declared, Pixels::Raw).unwrap_err().to_string();
    assert!(error.contains("limit") || error.contains("bytes of memory"), "{error}");
}
