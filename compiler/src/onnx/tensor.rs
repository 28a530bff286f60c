//! Tensors of ONNX files: their types, and the three ways in which a file has their elements.

use prost::bytes::Bytes;

use super::proto;
use crate::dtype::{DType, Scalar};
use crate::tensor::{Tensor, TensorType};

/// The number of each type in ONNX.
const TYPES: [(i32, DType); 13] = [
    (1, DType::F32),
    (2, DType::U8),
    (3, DType::I8),
    (4, DType::U16),
    (5, DType::I16),
    (6, DType::I32),
    (7, DType::I64),
    (9, DType::Bool),
    (10, DType::F16),
    (11, DType::F64),
    (12, DType::U32),
    (13, DType::U64),
    (16, DType::BF16),
];

/// The names of the types that Tile has not.
const OTHERS: [(i32, &str); 12] = [
    (8, "texts"),
    (14, "complex64"),
    (15, "complex128"),
    (17, "float8e4m3fn"),
    (18, "float8e4m3fnuz"),
    (19, "float8e5m2"),
    (20, "float8e5m2fnuz"),
    (21, "uint4"),
    (22, "int4"),
    (23, "float4e2m1"),
    (24, "float8e8m0"),
    (25, "uint2"),
];

/// The type that has this number, or what is wrong with it.
pub fn dtype(number: i32) -> Result<DType, String> {
    let found = TYPES.iter().find(|(known, _)| *known == number);
    found.map(|(_, dtype)| *dtype).ok_or_else(|| match OTHERS.iter().find(|(known, _)| *known == number) {
        Some((_, name)) => format!("its elements are {name}, which Tile has not"),
        None => format!("its elements have the unknown type number {number}"),
    })
}

/// The number that ONNX gives the type.
pub fn number(dtype: DType) -> i64 {
    TYPES.iter().find(|(_, known)| *known == dtype).map_or(0, |(number, _)| i64::from(*number))
}

/// A part of another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// Relative to the folder of the model, within it: no part is `..`.
    pub path: String,
    pub offset: u64,
    /// In bytes.
    pub length: u64,
}

/// Gives the bytes of a part of a file beside the model, or says why not.
pub type Loader<'a> = &'a dyn Fn(&External) -> Result<Vec<u8>, String>;

/// The type of a tensor; its bytes fit in memory.
pub fn ty(tensor: &proto::Tensor) -> Result<TensorType, String> {
    let sizes: Option<Vec<usize>> = tensor.dims.iter().map(|&size| usize::try_from(size).ok()).collect();
    let shape = sizes.ok_or_else(|| format!("it has the shape {:?}", tensor.dims))?;
    let ty = TensorType::new(dtype(tensor.dtype)?, shape);
    let bytes = ty.checked_elements().and_then(|elements| elements.checked_mul(ty.dtype.size()));
    match bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok()) {
        true => Ok(ty),
        false => Err(format!("a tensor {ty} is larger than any memory")),
    }
}

/// Whether the file, or the one beside it, has as many elements as a tensor of the type `ty` takes. Reads none of them.
pub fn check(tensor: &proto::Tensor, ty: &TensorType, loader: Loader) -> Result<(), String> {
    let (elements, bytes) = (ty.elements(), ty.elements() * ty.dtype.size());
    if tensor.location == 1 {
        let External { path, offset, length } = external(tensor, bytes as u64)?;
        let end = offset.checked_add(length).ok_or("it ends beyond all files")?;
        return loader(&External { path, offset: end, length: 0 }).map(|_| ());
    }
    let typed =
        [tensor.floats.len(), tensor.ints32.len(), tensor.ints64.len(), tensor.doubles.len(), tensor.uints64.len()];
    match tensor.raw.len() == bytes || typed.contains(&elements) {
        true => Ok(()),
        false => Err(format!("it is {ty}, and has {} bytes", tensor.raw.len())),
    }
}

/// The tensor. No more memory is asked for than there are bytes.
pub fn tensor(tensor: &proto::Tensor, loader: Loader) -> Result<Tensor, String> {
    let ty = ty(tensor)?;
    let (elements, size) = (ty.elements(), ty.dtype.size());
    if tensor.location == 1 {
        let external = external(tensor, (elements * size) as u64)?;
        return from_raw(ty, loader(&external)?.into());
    }
    if !tensor.raw.is_empty() || elements == 0 {
        return from_raw(ty, tensor.raw.clone());
    }
    let count = |given: usize| match given == elements {
        true => Ok(()),
        false => Err(format!("it is {ty}, and has {given} elements")),
    };
    let from = |scalars: &mut dyn Iterator<Item = Scalar>| {
        Tensor::from_scalars(ty.clone(), scalars).ok_or_else(|| format!("there is no memory for {ty}"))
    };
    let dtype = ty.dtype;
    match dtype {
        DType::F32 => {
            count(tensor.floats.len())?;
            from(&mut tensor.floats.iter().map(|&value| Scalar::f32(value)))
        }
        DType::F64 => {
            count(tensor.doubles.len())?;
            from(&mut tensor.doubles.iter().map(|&value| Scalar::from_f64(dtype, value)))
        }
        DType::I64 => {
            count(tensor.ints64.len())?;
            from(&mut tensor.ints64.iter().map(|&value| Scalar::from_i64(dtype, value)))
        }
        DType::U32 | DType::U64 => {
            count(tensor.uints64.len())?;
            from(&mut tensor.uints64.iter().map(|&value| Scalar::from_bits(DType::U64, value).cast(dtype)))
        }
        // Their bits.
        DType::F16 | DType::BF16 => {
            count(tensor.ints32.len())?;
            from(&mut tensor.ints32.iter().map(|&value| Scalar::from_bits(dtype, u64::from(value as u16))))
        }
        _ => {
            count(tensor.ints32.len())?;
            from(&mut tensor.ints32.iter().map(|&value| Scalar::from_i64(DType::I64, value.into()).cast(dtype)))
        }
    }
}

/// Elements one after the other, in little-endian order.
fn from_raw(ty: TensorType, bytes: Bytes) -> Result<Tensor, String> {
    let (given, wanted) = (bytes.len(), ty.elements() * ty.dtype.size());
    if given != wanted {
        return Err(format!("it is {ty}, which takes {wanted} bytes, and has {given}"));
    }
    let mut bytes = Vec::from(bytes);
    if ty.dtype == DType::Bool {
        bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
    }
    Tensor::from_bytes(ty, bytes).ok_or_else(|| "its bytes are not those of its type".into())
}

/// Where a tensor of so many bytes is.
pub fn external(tensor: &proto::Tensor, bytes: u64) -> Result<External, String> {
    let entry = |key: &str| tensor.external.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_str());
    let number = |key: &str| match entry(key) {
        None => Ok(None),
        Some(text) => {
            text.trim().parse::<u64>().map(Some).map_err(|_| format!("its {key} in another file is `{text}`"))
        }
    };
    let path = entry("location").ok_or("it is in another file, which it does not name")?;
    let is_inside = !path.is_empty()
        && !path.contains(['\0', ':'])
        && !path.starts_with(['/', '\\'])
        && path.split(['/', '\\']).all(|part| part != "..");
    if !is_inside {
        return Err(format!("it is in the file `{path}`, which is not in the model's folder"));
    }
    let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?.unwrap_or(bytes));
    if length != bytes {
        return Err(format!("it takes {bytes} bytes, and the file `{path}` has {length} for it"));
    }
    Ok(External { path: path.to_owned(), offset, length })
}
