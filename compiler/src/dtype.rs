//! Element types and typed scalars.
//!
//! A scalar is stored as the bit pattern of its own type. Equality and hashing are thus exact:
//! `-0.0` and `0.0` differ, and a NaN equals itself. No value is silently widened.

use std::fmt;

use half::{bf16, f16};

/// The type of a tensor's elements.
///
/// ```
/// use tile_compiler::dtype::DType;
///
/// assert_eq!(DType::parse("bf16"), Some(DType::BF16));
/// assert_eq!((DType::BF16.size(), DType::BF16.is_float()), (2, true));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub enum DType {
    /// A truth value, stored in one byte as 0 or 1.
    Bool,
    /// A signed integer of 8 bits.
    I8,
    /// A signed integer of 16 bits.
    I16,
    /// A signed integer of 32 bits.
    I32,
    /// A signed integer of 64 bits.
    I64,
    /// An unsigned integer of 8 bits.
    U8,
    /// An unsigned integer of 16 bits.
    U16,
    /// An unsigned integer of 32 bits.
    U32,
    /// An unsigned integer of 64 bits.
    U64,
    /// An IEEE 754 float of 16 bits.
    F16,
    /// A bfloat16: the upper half of an f32.
    BF16,
    /// An IEEE 754 float of 32 bits.
    F32,
    /// An IEEE 754 float of 64 bits.
    F64,
}

impl DType {
    /// Every type, for tables and tests.
    pub const ALL: [DType; 13] = [
        DType::Bool,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ];

    /// Returns the name in the language, in text forms and in messages: `f32`.
    pub fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }

    /// Returns the type with this name.
    pub fn parse(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Returns the bytes that an element takes in host memory. A bool takes one.
    pub fn size(self) -> usize {
        match self {
            DType::Bool | DType::I8 | DType::U8 => 1,
            DType::I16 | DType::U16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 | DType::F64 => 8,
        }
    }

    /// Returns the unit roundoff of a float type: the maximum relative change of a value by
    /// rounding.
    pub fn epsilon(self) -> f64 {
        match self {
            DType::BF16 => 2f64.powi(-8),
            DType::F16 => 2f64.powi(-11),
            DType::F32 => 2f64.powi(-24),
            _ => 2f64.powi(-53),
        }
    }

    /// Returns the smallest normal number of a float type. Devices may flush smaller numbers to 0.
    pub fn smallest(self) -> f64 {
        match self {
            DType::F16 => 2f64.powi(-14),
            DType::BF16 | DType::F32 => 2f64.powi(-126),
            _ => f64::MIN_POSITIVE,
        }
    }

    /// Returns the number of value bits. A bool has one, so that every other type is wider.
    pub fn bits(self) -> u32 {
        if self == DType::Bool { 1 } else { 8 * self.size() as u32 }
    }

    /// Returns whether the type is one of floats.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    /// Returns whether the type is one of floats of 16 bits.
    pub fn is_half(self) -> bool {
        matches!(self, DType::F16 | DType::BF16)
    }

    /// Returns whether the type is one of signed integers.
    pub fn is_signed_integer(self) -> bool {
        matches!(self, DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }

    /// Returns whether this is an integer type, which bool is not.
    pub fn is_integer(self) -> bool {
        !self.is_float() && self != DType::Bool
    }

    /// Returns whether this type represents every value of `other` exactly.
    pub fn holds(self, other: DType) -> bool {
        // Digits of the significand, including the leading one.
        let precision = |float: DType| match float {
            DType::BF16 => 8,
            DType::F16 => 11,
            DType::F32 => 24,
            _ => 53,
        };
        match (self.is_float(), other.is_float()) {
            _ if self == other || other == DType::Bool => true,
            (true, true) => self.bits() > other.bits(),
            (true, false) => other.bits() - other.is_signed_integer() as u32 <= precision(self),
            (false, true) => false,
            (false, false) if self.is_signed_integer() => self.bits() > other.bits(),
            (false, false) => self.bits() > other.bits() && !other.is_signed_integer(),
        }
    }

    /// Returns the common type of two operands: the float if only one is, then the wider one, then
    /// the left one.
    pub fn meet(self, right: DType) -> DType {
        if self.is_float() != right.is_float() {
            if self.is_float() { self } else { right }
        } else if right.bits() > self.bits() {
            right
        } else {
            self
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A value and its type. The bit pattern is zero-extended; signed integers are in two's complement
/// of their own width.
///
/// ```
/// use tile_compiler::dtype::{DType, Scalar};
///
/// let half = Scalar::f32(2.75);
/// assert_eq!(half.to_f64(), 2.75);
/// assert_eq!(half.cast(DType::I32), Scalar::i32(2));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "pack", serde(from = "(DType, u64)", into = "(DType, u64)"))]
pub struct Scalar {
    /// The type, which gives the bits their meaning.
    pub dtype: DType,
    bits: u64,
}

#[cfg(feature = "pack")]
impl From<(DType, u64)> for Scalar {
    fn from((dtype, bits): (DType, u64)) -> Scalar {
        Scalar::from_bits(dtype, bits)
    }
}

#[cfg(feature = "pack")]
impl From<Scalar> for (DType, u64) {
    fn from(scalar: Scalar) -> (DType, u64) {
        (scalar.dtype, scalar.bits)
    }
}

impl Scalar {
    /// Returns the scalar whose memory holds `bits`. Bits beyond the type's size are dropped.
    pub fn from_bits(dtype: DType, bits: u64) -> Scalar {
        let bits = match dtype {
            DType::Bool => (bits != 0) as u64,
            _ if dtype.size() == 8 => bits,
            _ => bits & ((1 << dtype.bits()) - 1),
        };
        Scalar { dtype, bits }
    }

    /// Returns the bits, in the low bits of the result.
    pub fn bits(self) -> u64 {
        self.bits
    }

    /// Writes the value, little-endian, to the bytes of an element of its type.
    pub fn write_to(self, element: &mut [u8]) {
        let bytes = self.bits.to_le_bytes();
        element.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    }

    /// Returns 0, or false.
    pub fn zero(dtype: DType) -> Scalar {
        Scalar { dtype, bits: 0 }
    }

    /// Returns 1, or true.
    pub fn one(dtype: DType) -> Scalar {
        Scalar::from_i64(dtype, 1)
    }

    /// Returns a bool.
    pub fn bool(value: bool) -> Scalar {
        Scalar { dtype: DType::Bool, bits: value as u64 }
    }

    /// Returns an i32.
    pub fn i32(value: i32) -> Scalar {
        Scalar::from_i64(DType::I32, value as i64)
    }

    /// Returns an f32.
    pub fn f32(value: f32) -> Scalar {
        Scalar { dtype: DType::F32, bits: value.to_bits() as u64 }
    }

    /// Converts from `f64`: floats round to nearest even, integers truncate and saturate with NaN
    /// as 0, and a bool is `value != 0`.
    pub fn from_f64(dtype: DType, value: f64) -> Scalar {
        let bits = match dtype {
            DType::Bool => (value != 0.0) as u64,
            DType::I8 => value as i8 as u8 as u64,
            DType::I16 => value as i16 as u16 as u64,
            DType::I32 => value as i32 as u32 as u64,
            DType::I64 => value as i64 as u64,
            DType::U8 => value as u8 as u64,
            DType::U16 => value as u16 as u64,
            DType::U32 => value as u32 as u64,
            DType::U64 => value as u64,
            DType::F16 => f16::from_f64(value).to_bits() as u64,
            DType::BF16 => bf16::from_f64(value).to_bits() as u64,
            DType::F32 => (value as f32).to_bits() as u64,
            DType::F64 => value.to_bits(),
        };
        Scalar { dtype, bits }
    }

    /// Converts from `i64`: integers wrap to their width, floats round, and a bool is `value != 0`.
    pub fn from_i64(dtype: DType, value: i64) -> Scalar {
        match dtype {
            DType::F32 => Scalar::f32(value as f32),
            d if d.is_float() => Scalar::from_f64(d, value as f64),
            d => Scalar::from_bits(d, value as u64),
        }
    }

    /// Returns the value as `f64`, which is exact except for 64-bit integers beyond 2^53.
    pub fn to_f64(self) -> f64 {
        match self.dtype {
            DType::F16 => f16::from_bits(self.bits as u16).to_f64(),
            DType::BF16 => bf16::from_bits(self.bits as u16).to_f64(),
            DType::F32 => f32::from_bits(self.bits as u32) as f64,
            DType::F64 => f64::from_bits(self.bits),
            DType::U64 => self.bits as f64,
            _ => self.to_i64() as f64,
        }
    }

    /// Returns the value as `i64`: floats truncate and saturate, and `u64` wraps.
    pub fn to_i64(self) -> i64 {
        match self.dtype {
            DType::I8 => self.bits as i8 as i64,
            DType::I16 => self.bits as i16 as i64,
            DType::I32 => self.bits as i32 as i64,
            d if d.is_float() => self.to_f64() as i64,
            _ => self.bits as i64,
        }
    }

    /// Returns whether the value is not 0.
    pub fn is_true(self) -> bool {
        if self.dtype.is_float() { self.to_f64() != 0.0 } else { self.bits != 0 }
    }

    /// Converts to another type: floats round, integers wrap, floats to integers saturate, and a
    /// bool is `!= 0`.
    pub fn cast(self, dtype: DType) -> Scalar {
        if dtype == self.dtype {
            self
        } else if dtype == DType::Bool {
            Scalar::bool(self.is_true())
        } else if self.dtype == DType::U64 && dtype == DType::F32 {
            Scalar::f32(self.bits as f32) // a conversion through f64 would round twice
        } else if self.dtype.is_float() || self.dtype == DType::U64 && dtype.is_float() {
            Scalar::from_f64(dtype, self.to_f64())
        } else {
            Scalar::from_i64(dtype, self.to_i64())
        }
    }

    /// Returns the least value of the type: negative infinity for floats.
    pub fn lowest(dtype: DType) -> Scalar {
        match dtype {
            d if d.is_float() => Scalar::from_f64(d, f64::NEG_INFINITY),
            d if d.is_signed_integer() => Scalar::from_bits(d, 1 << (d.bits() - 1)),
            d => Scalar::zero(d),
        }
    }

    /// Returns the greatest value of the type: infinity for floats.
    pub fn highest(dtype: DType) -> Scalar {
        match dtype {
            d if d.is_float() => Scalar::from_f64(d, f64::INFINITY),
            d if d.is_signed_integer() => Scalar::from_bits(d, (1 << (d.bits() - 1)) - 1),
            d => Scalar::from_bits(d, u64::MAX),
        }
    }

    /// Parses `text` as [`Display`](fmt::Display) prints it, without the type: `3`, `-1.5`, `inf`,
    /// `NaN`, `true`.
    pub fn parse(dtype: DType, text: &str) -> Option<Scalar> {
        match dtype {
            DType::Bool => text.parse().ok().map(Scalar::bool),
            DType::F32 => text.parse().ok().map(Scalar::f32),
            d if d.is_float() => text.parse().ok().map(|v| Scalar::from_f64(d, v)),
            DType::U64 => text.parse().ok().map(|v| Scalar::from_bits(dtype, v)),
            d => text.parse::<i64>().ok().map(|v| Scalar::from_i64(d, v)),
        }
    }
}

/// Prints the value without its type. Floats parse back to the same bits, except for NaN payloads.
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype {
            DType::Bool => write!(f, "{}", self.bits != 0),
            DType::F32 => write!(f, "{:?}", f32::from_bits(self.bits as u32)),
            d if d.is_float() => write!(f, "{:?}", self.to_f64()),
            DType::U64 => write!(f, "{}", self.bits),
            _ => write!(f, "{}", self.to_i64()),
        }
    }
}

impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}{}", self.dtype)
    }
}
