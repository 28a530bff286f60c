//! The element types of safetensors files.

use safetensors::tensor::Dtype;
use tile_compiler::dtype::DType;

const TYPES: [(DType, Dtype); 13] = [
    (DType::Bool, Dtype::BOOL),
    (DType::I8, Dtype::I8),
    (DType::I16, Dtype::I16),
    (DType::I32, Dtype::I32),
    (DType::I64, Dtype::I64),
    (DType::U8, Dtype::U8),
    (DType::U16, Dtype::U16),
    (DType::U32, Dtype::U32),
    (DType::U64, Dtype::U64),
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
];

/// Returns the type of a file's elements, or `None` if Tile has none.
pub fn dtype(stored: Dtype) -> Option<DType> {
    TYPES.iter().find(|(_, known)| *known == stored).map(|(dtype, _)| *dtype)
}

/// Returns the type by which a file stores elements.
pub fn stored(dtype: DType) -> Dtype {
    TYPES.iter().find(|(known, _)| *known == dtype).map_or(Dtype::U8, |(_, stored)| *stored)
}
