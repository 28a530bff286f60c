//! The element types of tensors.

#![allow(non_camel_case_types, reason = "the names are those of C")]

use tile_runtime::DType;

use crate::status::Failure;

/// The type of a tensor's elements: one of the constants TILE_BOOL to TILE_F64. Tensors are dense
/// and row-major: the last axis varies fastest. (It is a number and not an enum, since C can pass
/// any number.)
pub type tile_dtype = u32;

/// One byte, 0 or 1.
pub const TILE_BOOL: tile_dtype = 0;
pub const TILE_I8: tile_dtype = 1;
pub const TILE_I16: tile_dtype = 2;
pub const TILE_I32: tile_dtype = 3;
pub const TILE_I64: tile_dtype = 4;
pub const TILE_U8: tile_dtype = 5;
pub const TILE_U16: tile_dtype = 6;
pub const TILE_U32: tile_dtype = 7;
pub const TILE_U64: tile_dtype = 8;
pub const TILE_F16: tile_dtype = 9;
pub const TILE_BF16: tile_dtype = 10;
pub const TILE_F32: tile_dtype = 11;
pub const TILE_F64: tile_dtype = 12;

const TYPES: [(tile_dtype, DType); 13] = [
    (TILE_BOOL, DType::Bool),
    (TILE_I8, DType::I8),
    (TILE_I16, DType::I16),
    (TILE_I32, DType::I32),
    (TILE_I64, DType::I64),
    (TILE_U8, DType::U8),
    (TILE_U16, DType::U16),
    (TILE_U32, DType::U32),
    (TILE_U64, DType::U64),
    (TILE_F16, DType::F16),
    (TILE_BF16, DType::BF16),
    (TILE_F32, DType::F32),
    (TILE_F64, DType::F64),
];

/// Returns the type with this number.
pub fn from_number(number: tile_dtype) -> Result<DType, Failure> {
    let found = TYPES.iter().find(|(known, _)| *known == number);
    found
        .map(|(_, dtype)| *dtype)
        .ok_or_else(|| Failure::Usage(format!("{number} is not a `tile_dtype`")))
}

/// Returns the number of a type.
pub fn to_number(dtype: DType) -> tile_dtype {
    TYPES.iter().find(|(_, known)| *known == dtype).map_or(TILE_F32, |(number, _)| *number)
}
