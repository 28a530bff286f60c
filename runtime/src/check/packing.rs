//! The built-in functions that convert between a vector and the bit fields of one u32.

use half::f16;
use naga::MathFunction;

use super::arithmetic::Unary;
use super::value::{Column, Word};

/// Evaluates a function that packs or unpacks. Returns `None` if `fun` does neither.
pub(super) fn packing(
    fun: MathFunction,
    argument: &Column,
    active: &[usize],
    lanes: usize,
) -> Option<Column> {
    if let Some((fields, field)) = packed(fun) {
        let mut result = Column::zero(lanes, 1);
        for index in 0..fields {
            let shift = 32 / fields * index;
            let words = argument.component(index);
            let target = result.component_mut(0);
            for &lane in active {
                target[lane] |= (field(words[lane]) & mask(fields)) << shift;
            }
        }
        Some(result)
    } else if let Some((fields, field)) = unpacked(fun) {
        let mut result = Column::zero(lanes, fields);
        for index in 0..fields {
            let shift = 32 / fields * index;
            let words = argument.component(0);
            let target = result.component_mut(index);
            for &lane in active {
                target[lane] = field((words[lane] >> shift) & mask(fields));
            }
        }
        Some(result)
    } else {
        None
    }
}

/// Computes `Dot4I8Packed` or `Dot4U8Packed`: the sum of the products of the four bytes, modulo
/// 2³².
pub(super) fn dot_bytes(a: u64, b: u64, signed: bool) -> u64 {
    let byte = |word: u64, index: u64| {
        let byte = (word >> (8 * index)) as u8;
        if signed { i32::from(byte as i8) } else { i32::from(byte) }
    };
    (0..4).map(|index| byte(a, index) * byte(b, index)).sum::<i32>().word()
}

fn mask(fields: usize) -> u64 {
    (1 << (32 / fields)) - 1
}

/// Returns the number of fields, and the function from a component to a field (its low bits).
fn packed(fun: MathFunction) -> Option<(usize, Unary)> {
    fn scaled(word: u64, low: f32, scale: f32) -> u64 {
        (((f32::of(word).max(low).min(1.0) * scale) + 0.5).floor() as i32).word()
    }
    Some(match fun {
        MathFunction::Pack4x8snorm => (4, |word| scaled(word, -1.0, 127.0)),
        MathFunction::Pack4x8unorm => (4, |word| scaled(word, 0.0, 255.0)),
        MathFunction::Pack2x16snorm => (2, |word| scaled(word, -1.0, 32767.0)),
        MathFunction::Pack2x16unorm => (2, |word| scaled(word, 0.0, 65535.0)),
        MathFunction::Pack2x16float => (2, |word| f16::from_f32(f32::of(word)).word()),
        MathFunction::Pack4xI8 | MathFunction::Pack4xU8 => (4, |word| word),
        MathFunction::Pack4xI8Clamp => (4, |word| i32::of(word).clamp(-128, 127).word()),
        MathFunction::Pack4xU8Clamp => (4, |word| word.min(255)),
        _ => return None,
    })
}

/// Returns the number of fields, and the function from a field to a component.
fn unpacked(fun: MathFunction) -> Option<(usize, Unary)> {
    Some(match fun {
        MathFunction::Unpack4x8snorm => {
            (4, |field| (f32::from(field as i8) / 127.0).max(-1.0).word())
        }
        MathFunction::Unpack4x8unorm => (4, |field| (f32::from(field as u8) / 255.0).word()),
        MathFunction::Unpack2x16snorm => {
            (2, |field| (f32::from(field as i16) / 32767.0).max(-1.0).word())
        }
        MathFunction::Unpack2x16unorm => (2, |field| (f32::from(field as u16) / 65535.0).word()),
        MathFunction::Unpack2x16float => (2, |field| f16::of(field).to_f32().word()),
        MathFunction::Unpack4xI8 => (4, |field| i32::from(field as i8).word()),
        MathFunction::Unpack4xU8 => (4, |field| field),
        _ => return None,
    })
}
