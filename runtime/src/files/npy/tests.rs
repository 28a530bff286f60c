use proptest::prelude::*;
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType};

use super::{read, write};

/// A file written by NumPy. See `golden/make.py`.
macro_rules! golden {
    ($name:literal) => {
        (&include_bytes!(concat!("golden/", $name, ".npy"))[..])
    };
}

fn error(bytes: &[u8]) -> String {
    match read(bytes) {
        Ok(tensor) => format!("read {tensor:?}"),
        Err(error) => error.to_string(),
    }
}

fn written(tensor: &Tensor) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(tensor, &mut bytes).unwrap();
    bytes
}

#[test]
fn reads_what_numpy_writes() {
    let files = [
        (DType::Bool, golden!("bool")),
        (DType::I8, golden!("int8")),
        (DType::I16, golden!("int16")),
        (DType::I32, golden!("int32")),
        (DType::I64, golden!("int64")),
        (DType::U8, golden!("uint8")),
        (DType::U16, golden!("uint16")),
        (DType::U32, golden!("uint32")),
        (DType::U64, golden!("uint64")),
        (DType::F16, golden!("float16")),
        (DType::BF16, golden!("bfloat16")),
        (DType::F32, golden!("float32")),
        (DType::F64, golden!("float64")),
        (DType::I32, golden!("big_endian")),
        (DType::F32, golden!("fortran")),
        (DType::F32, golden!("version2")),
        (DType::F32, golden!("version3")),
    ];
    for (dtype, bytes) in files {
        let expected =
            Tensor::from_scalars(TensorType::new(dtype, [2, 3]), (0..6).map(Scalar::i32)).unwrap();
        assert_eq!(read(bytes).unwrap(), expected);
    }
    assert_eq!(read(golden!("scalar")).unwrap(), Tensor::from_f32([], &[2.5]).unwrap());
    assert_eq!(read(golden!("empty")).unwrap(), Tensor::from_f32([0, 3], &[]).unwrap());
    assert_eq!(read(golden!("vector")).unwrap().shape(), [3]);
}

#[test]
fn writes_what_numpy_writes() {
    for file in [
        golden!("bool"),
        golden!("int8"),
        golden!("uint64"),
        golden!("float16"),
        golden!("float32"),
    ] {
        assert_eq!(written(&read(file).unwrap()), file);
    }
    for file in [golden!("scalar"), golden!("empty"), golden!("vector")] {
        assert_eq!(written(&read(file).unwrap()), file);
    }
}

#[test]
fn says_what_is_wrong() {
    let good = golden!("float32");
    let header = |text: &str| {
        [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat()
    };
    insta::assert_snapshot!(error(b"PK\x03\x04zipfile"), @"not a valid .npy file: it does not start with \\x93NUMPY");
    insta::assert_snapshot!(error(&good[..5]), @"not a valid .npy file: truncated within its first 8 bytes");
    insta::assert_snapshot!(error(&good[..60]), @"not a valid .npy file: truncated within the header");
    insta::assert_snapshot!(error(&good[..good.len() - 1]), @"not a valid .npy file: truncated: f32[2, 3] takes 24 bytes, but only 23 follow the header");
    insta::assert_snapshot!(error(b"\x93NUMPY\x07\x00"), @"a .npy file of a kind that is not supported: format version 7.0");
    insta::assert_snapshot!(error(b"\x93NUMPY\x02\x00\xff\xff\xff\xff"), @"not a valid .npy file: it claims a header of 4294967295 bytes; at most 65536 are read");
    insta::assert_snapshot!(error(&header("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}")), @"not a valid .npy file: its header claims f32[4294967296, 4294967296], more elements than memory can have");
    insta::assert_snapshot!(error(&header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}")), @"not a valid .npy file: truncated: f32[1000000000000] takes 4000000000000 bytes, but only 0 follow the header");
    insta::assert_snapshot!(error(&header("{'descr': '<f4', 'shape': (3,)}")), @"not a valid .npy file: its header lacks the entry 'fortran_order'");
    insta::assert_snapshot!(error(&header("{'descr': '<f4', 'shape': (-3,)}")), @"not a valid .npy file: byte 27 of its header is not a size");
    insta::assert_snapshot!(error(golden!("object")), @"a .npy file of a kind that is not supported: Python objects (dtype object) are not numbers; save an array of a number type");
    insta::assert_snapshot!(error(golden!("complex")), @"a .npy file of a kind that is not supported: complex numbers (dtype '<c8')");
    insta::assert_snapshot!(error(golden!("structured")), @"a .npy file of a kind that is not supported: a structured array, with several fields an element");
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        dtype in prop::sample::select(DType::ALL.to_vec()),
        shape in prop::collection::vec(0usize..5, 0..6),
        seed in any::<u64>(),
    ) {
        let ty = TensorType::new(dtype, shape);
        let bits = (0..ty.elements() as u64).map(|i| Scalar::from_bits(dtype, seed.wrapping_mul(2 * i + 1)));
        let tensor = Tensor::from_scalars(ty, bits).unwrap();
        let again = read(&written(&tensor)[..]).unwrap();
        prop_assert_eq!(again.ty(), tensor.ty());
        prop_assert_eq!(again.bytes(), tensor.bytes());
    }

    #[test]
    fn a_mutated_file_never_panics(edits in prop::collection::vec((0usize..152, any::<u8>()), 1..8), keep in 0usize..=152) {
        let mut bytes = golden!("fortran").to_vec();
        for (at, byte) in edits {
            bytes[at] = byte;
        }
        // Changing digits in the header changes sizes, which random bytes rarely do.
        let _ = read(&bytes[..keep]);
        bytes[60 + keep % 8] = b'0' + (keep % 10) as u8;
        let _ = read(&bytes[..]);
    }
}
