//! Tensors of ONNX files: their types, and the three storage forms of their elements.

use prost::bytes::Bytes;

use super::proto;
use super::small::{small, unpacked};
use crate::dtype::{DType, Scalar};
use crate::tensor::{Tensor, TensorType};

/// The type numbers in ONNX.
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

/// The names of types that Tile lacks.
const OTHERS: [(i32, &str); 4] =
    [(8, "texts"), (14, "complex64"), (15, "complex128"), (24, "float8e8m0")];

/// Returns the type with this number, or the one that represents it.
pub fn dtype(number: i32) -> Result<DType, String> {
    if let Some((_, dtype)) = small(number) {
        return Ok(dtype);
    }
    let found = TYPES.iter().find(|(known, _)| *known == number);
    found.map(|(_, dtype)| *dtype).ok_or_else(|| {
        match OTHERS.iter().find(|(known, _)| *known == number) {
            Some((_, name)) => format!("its elements are {name}, which Tile has not"),
            None => format!("its elements have the unknown type number {number}"),
        }
    })
}

/// Returns the number of a type in ONNX.
pub fn number(dtype: DType) -> i64 {
    TYPES.iter().find(|(_, known)| *known == dtype).map_or(0, |(number, _)| i64::from(*number))
}

/// A range of another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// The path relative to the model's folder, without `..`.
    pub path: String,
    /// The position of the first byte.
    pub offset: u64,
    /// The length in bytes.
    pub length: u64,
}

/// Reads a range of a file beside the model.
pub type Loader<'a> = &'a dyn Fn(&External) -> Result<Vec<u8>, String>;

/// Returns the type of a tensor, and checks that its bytes fit the address space.
pub fn ty(tensor: &proto::Tensor) -> Result<TensorType, String> {
    let sizes: Option<Vec<usize>> =
        tensor.dims.iter().map(|&size| usize::try_from(size).ok()).collect();
    let shape = sizes.ok_or_else(|| format!("it has the shape {:?}", tensor.dims))?;
    let ty = TensorType::new(dtype(tensor.dtype)?, shape);
    match ty.checked_bytes().is_some_and(|bytes| isize::try_from(bytes).is_ok()) {
        true => Ok(ty),
        false => Err(format!("a tensor {ty} is larger than any memory")),
    }
}

/// Checks that the file, or the one beside it, has as many elements as the type `ty` requires,
/// without reading them.
pub fn check(tensor: &proto::Tensor, ty: &TensorType, loader: Loader) -> Result<(), String> {
    let (elements, bytes) = (ty.elements(), bytes(tensor, ty));
    if tensor.location == 1 {
        let External { path, offset, length } = external(tensor, bytes as u64)?;
        let end = offset.checked_add(length).ok_or("it ends beyond all files")?;
        return loader(&External { path, offset: end, length: 0 }).map(|_| ());
    }
    let typed = [
        tensor.floats.len(),
        tensor.ints32.len(),
        tensor.ints64.len(),
        tensor.doubles.len(),
        tensor.uints64.len(),
    ];
    // Packed elements have one number for each byte.
    let numbers = if small(tensor.dtype).is_some() { bytes } else { elements };
    match tensor.raw.len() == bytes || typed.contains(&numbers) {
        true => Ok(()),
        false => Err(format!("it is {ty}, and has {} bytes", tensor.raw.len())),
    }
}

/// Returns the bytes of a tensor in a file.
fn bytes(tensor: &proto::Tensor, ty: &TensorType) -> usize {
    match small(tensor.dtype) {
        Some((bits, _)) => ty.elements().div_ceil(8 / bits),
        None => ty.elements() * ty.dtype.size(),
    }
}

/// Reads a tensor with a packed type that Tile lacks.
fn packed(tensor: &proto::Tensor, ty: TensorType, loader: Loader) -> Result<Tensor, String> {
    let wanted = bytes(tensor, &ty);
    let given: Vec<u8> = match tensor.location {
        1 => loader(&external(tensor, wanted as u64)?)?,
        _ if tensor.raw.is_empty() => {
            let byte = |&value: &i32| {
                u8::try_from(value).or_else(|_| i8::try_from(value).map(|value| value as u8))
            };
            let misfit = |value: &i32| format!("its number {value} has more than 8 bits");
            let bytes = tensor.ints32.iter().map(|value| byte(value).map_err(|_| misfit(value)));
            bytes.collect::<Result<_, String>>()?
        }
        _ => tensor.raw.to_vec(),
    };
    if given.len() != wanted {
        return Err(format!("it is {ty}, which takes {wanted} bytes, and has {}", given.len()));
    }
    let scalars = unpacked(tensor.dtype, &given, ty.elements());
    Tensor::from_scalars(ty.clone(), scalars).ok_or_else(|| format!("there is no memory for {ty}"))
}

/// Reads a tensor. Allocates no more memory than there are bytes.
pub fn tensor(tensor: &proto::Tensor, loader: Loader) -> Result<Tensor, String> {
    let ty = ty(tensor)?;
    if small(tensor.dtype).is_some() {
        return packed(tensor, ty, loader);
    }
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
        Tensor::from_scalars(ty.clone(), scalars)
            .ok_or_else(|| format!("there is no memory for {ty}"))
    };
    let dtype = ty.dtype;
    let fits = |value: Scalar| match value.cast(dtype) {
        own if own.cast(value.dtype) == value => Ok(own),
        _ => Err(format!("its element {value} is no {dtype}")),
    };
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
            let scalars =
                tensor.uints64.iter().map(|&value| fits(Scalar::from_bits(DType::U64, value)));
            from(&mut scalars.collect::<Result<Vec<_>, _>>()?.into_iter())
        }
        // The numbers are bit patterns, with or without a sign.
        DType::F16 | DType::BF16 => {
            count(tensor.ints32.len())?;
            let bits = |&value: &i32| match u16::try_from(value)
                .or_else(|_| i16::try_from(value).map(|v| v as u16))
            {
                Ok(bits) => Ok(Scalar::from_bits(dtype, bits.into())),
                Err(_) => Err(format!("its element {value} has more than the 16 bits of {dtype}")),
            };
            from(&mut tensor.ints32.iter().map(bits).collect::<Result<Vec<_>, _>>()?.into_iter())
        }
        DType::Bool => {
            count(tensor.ints32.len())?;
            from(&mut tensor.ints32.iter().map(|&value| Scalar::bool(value != 0)))
        }
        _ => {
            count(tensor.ints32.len())?;
            let scalars = tensor.ints32.iter().map(|&value| fits(Scalar::i32(value)));
            from(&mut scalars.collect::<Result<Vec<_>, _>>()?.into_iter())
        }
    }
}

/// Converts a tensor to the form of a file.
pub fn stored(tensor: &Tensor) -> proto::Tensor {
    proto::Tensor {
        dims: tensor.shape().iter().map(|&size| size as i64).collect(),
        dtype: number(tensor.dtype()) as i32,
        raw: tensor.bytes().to_vec().into(),
        ..proto::Tensor::default()
    }
}

/// Makes a tensor from dense little-endian elements.
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

/// Returns the external location of a tensor with this many bytes.
pub fn external(tensor: &proto::Tensor, bytes: u64) -> Result<External, String> {
    let entry = |key: &str| {
        tensor.external.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_str())
    };
    let number = |key: &str| match entry(key) {
        None => Ok(None),
        Some(text) => text
            .trim()
            .parse::<u64>()
            .map(Some)
            .map_err(|_| format!("its {key} in another file is `{text}`")),
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
