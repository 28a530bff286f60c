//! Types that Tile lacks, of less than 8 bits and floats of 8 bits: their packing in files, and
//! their values.
//!
//! Their integers become i8 and u8, and their floats f32. The original type is known for inputs,
//! for tensors of the file, and for results of conversions to it.

use crate::dtype::{DType, Scalar};

/// The type numbers in ONNX, the bits of an element, and the Tile types that represent all values.
const TYPES: [(i32, usize, DType); 9] = [
    (17, 8, DType::F32),
    (18, 8, DType::F32),
    (19, 8, DType::F32),
    (20, 8, DType::F32),
    (21, 4, DType::U8),
    (22, 4, DType::I8),
    (23, 4, DType::F32),
    (25, 2, DType::U8),
    (26, 2, DType::I8),
];

/// Returns the bits of an element, and the representing type. `None` for types that Tile has and
/// for unknown ones.
pub fn small(number: i32) -> Option<(usize, DType)> {
    TYPES.iter().find(|(known, ..)| *known == number).map(|&(_, bits, dtype)| (bits, dtype))
}

/// Unpacks elements from bytes, the first from the lowest bits.
pub fn unpacked(number: i32, bytes: &[u8], elements: usize) -> impl Iterator<Item = Scalar> {
    let (bits, dtype) = small(number).unwrap_or((8, DType::U8));
    let (each, mask) = (8 / bits, ((1u32 << bits) - 1) as u8);
    (0..elements).map(move |n| value(number, dtype, bytes[n / each] >> (n % each * bits) & mask))
}

/// Decodes an element.
fn value(number: i32, dtype: DType, code: u8) -> Scalar {
    let float = |exponent_bits, bias| Scalar::from_f64(dtype, float(code, exponent_bits, bias));
    let width = if number == 23 { 4 } else { 8 };
    match number {
        // Formats without negative zero have a single NaN.
        18 | 20 if code == 0x80 => Scalar::from_f64(dtype, f64::NAN),
        17 if code & 0x7f == 0x7f => Scalar::from_f64(dtype, f64::NAN),
        19 if code & 0x7f > 0x7c => Scalar::from_f64(dtype, f64::NAN),
        19 if code & 0x7f == 0x7c => {
            Scalar::from_f64(dtype, if code == 0x7c { f64::INFINITY } else { f64::NEG_INFINITY })
        }
        17 => float((width, 4), 7),
        18 => float((width, 4), 8),
        19 => float((width, 5), 15),
        20 => float((width, 5), 16),
        23 => float((width, 2), 1),
        // The highest bit is the sign.
        22 => Scalar::from_i64(dtype, (i64::from(code) ^ 8) - 8),
        26 => Scalar::from_i64(dtype, (i64::from(code) ^ 2) - 2),
        _ => Scalar::from_i64(dtype, code.into()),
    }
}

/// Decodes a float with a sign, `exponent_bits` and a mantissa.
fn float(code: u8, (width, exponent_bits): (u32, u32), bias: i32) -> f64 {
    let digit_bits = width - 1 - exponent_bits;
    let digits = f64::from(code & ((1 << digit_bits) - 1)) / f64::from(1 << digit_bits);
    let exponent = i32::from(code >> digit_bits & ((1 << exponent_bits) - 1));
    let size = match exponent {
        0 => digits * 2f64.powi(1 - bias),
        _ => (1.0 + digits) * 2f64.powi(exponent - bias),
    };
    if code >> (width - 1) == 1 { -size } else { size }
}
