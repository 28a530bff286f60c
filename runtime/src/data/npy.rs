//! NumPy's `.npy` format, read and written: one tensor with its type and shape.
//!
//! Read: versions 1 to 3; C and Fortran order; either byte order; bool, signed and unsigned integers of 8 to 64 bits,
//! floats of 16 to 64 bits. Written: version 1, C order, little-endian.
//!
//! NumPy has no bf16 of its own. A bf16 tensor is written as `<V2`, two opaque bytes an element, which is what NumPy writes
//! for an array of the `ml_dtypes` package's bfloat16; `numpy.load(f).view(ml_dtypes.bfloat16)` reads it. `V2` is read as bf16.
//!
//! A malformed file is an error, found in memory bounded by the file's own length, whatever its header claims. What
//! follows the elements is left unread, as NumPy does.

use std::error::Error;
use std::fmt;
use std::io::{self, Read, Write};

use tile_compiler::dtype::DType;
use tile_compiler::tensor::{Tensor, TensorType};

mod header;

const MAGIC: [u8; 6] = *b"\x93NUMPY";

/// The longest header that is read. NumPy's own limit is 10,000 bytes.
const MAX_HEADER: usize = 1 << 16;

/// Why a file could not be read.
#[derive(Debug)]
pub enum NpyError {
    /// The file could not be read at all.
    Io(io::Error),
    /// The file is not as the format wants it; says where it deviates.
    Malformed(String),
    /// A valid file of a kind that has no tensor type; says which.
    Unsupported(String),
}

impl fmt::Display for NpyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NpyError::Io(error) => write!(f, "cannot read the .npy file: {error}"),
            NpyError::Malformed(what) => write!(f, "not a valid .npy file: {what}"),
            NpyError::Unsupported(what) => write!(f, "a .npy file of a kind that is not supported: {what}"),
        }
    }
}

impl Error for NpyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            NpyError::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// What the header says.
#[derive(Debug, PartialEq)]
struct Header {
    dtype: DType,
    big_endian: bool,
    fortran_order: bool,
    shape: Vec<usize>,
}

/// Reads one tensor.
pub fn read(mut source: impl Read) -> Result<Tensor, NpyError> {
    let header = header::parse(&read_header(&mut source)?)?;
    let ty = TensorType::new(header.dtype, header.shape);
    let size = ty.dtype.size();
    let Some(length) = ty.checked_elements().and_then(|n| n.checked_mul(size)) else {
        return Err(NpyError::Malformed(format!("its header claims {ty}, more elements than memory can have")));
    };
    let mut bytes = Vec::new();
    source.take(length as u64).read_to_end(&mut bytes).map_err(NpyError::Io)?;
    if bytes.len() != length {
        return Err(NpyError::Malformed(format!(
            "truncated: {ty} takes {length} bytes, but only {} follow the header",
            bytes.len()
        )));
    }
    if header.big_endian {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    if ty.dtype == DType::Bool {
        bytes.iter_mut().for_each(|b| *b = (*b != 0) as u8);
    }
    if header.fortran_order {
        bytes = to_row_major(&bytes, &ty.shape, size);
    }
    Tensor::from_bytes(ty, bytes).ok_or_else(|| NpyError::Malformed("its size does not fit its header".into()))
}

/// The type of the tensor, of which nothing but the header is read.
pub fn read_type(mut source: impl Read) -> Result<TensorType, NpyError> {
    let header = header::parse(&read_header(&mut source)?)?;
    Ok(TensorType::new(header.dtype, header.shape))
}

/// The text of the header, with the reader left at the first element.
fn read_header(source: &mut impl Read) -> Result<Vec<u8>, NpyError> {
    let mut start = [0; 8];
    read_exactly(source, &mut start, "its first 8 bytes")?;
    if start[..6] != MAGIC {
        return Err(NpyError::Malformed("it does not start with \\x93NUMPY".into()));
    }
    let length = match start[6] {
        1 => {
            let mut length = [0; 2];
            read_exactly(source, &mut length, "the header's length")?;
            u16::from_le_bytes(length) as usize
        }
        2 | 3 => {
            let mut length = [0; 4];
            read_exactly(source, &mut length, "the header's length")?;
            u32::from_le_bytes(length) as usize
        }
        version => return Err(NpyError::Unsupported(format!("format version {version}.{}", start[7]))),
    };
    if length > MAX_HEADER {
        return Err(NpyError::Malformed(format!(
            "it claims a header of {length} bytes; at most {MAX_HEADER} are read"
        )));
    }
    let mut text = vec![0; length];
    read_exactly(source, &mut text, "the header")?;
    Ok(text)
}

fn read_exactly(source: &mut impl Read, bytes: &mut [u8], what: &str) -> Result<(), NpyError> {
    source.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => NpyError::Malformed(format!("truncated within {what}")),
        _ => NpyError::Io(error),
    })
}

/// The elements, of `size` bytes each, from Fortran order (first axis fastest) to row-major order.
fn to_row_major(bytes: &[u8], shape: &[usize], size: usize) -> Vec<u8> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = size;
    for &extent in shape {
        strides.push(stride);
        stride = stride.saturating_mul(extent);
    }
    let mut result = Vec::with_capacity(bytes.len());
    let mut index = vec![0; shape.len()];
    let mut position = 0;
    while result.len() < bytes.len() {
        result.extend_from_slice(&bytes[position..position + size]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            position += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            position -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
    result
}

/// Writes `tensor`: see the module's head.
pub fn write(tensor: &Tensor, mut target: impl Write) -> io::Result<()> {
    let shape: String = tensor.shape().iter().map(|size| format!("{size}, ")).collect();
    // A tuple of one is `(3,)`, of more `(3, 4)`, of none `()`.
    let shape = if tensor.shape().len() == 1 { shape.trim_end() } else { shape.trim_end_matches(", ") };
    let descr = header::descr(tensor.dtype());
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    // The elements start at a multiple of 64 bytes; the header ends with a newline.
    let before = MAGIC.len() + 4;
    let total = (before + text.len() + 1).next_multiple_of(64);
    text.push_str(&" ".repeat(total - before - text.len() - 1));
    text.push('\n');
    let length = u16::try_from(text.len()).map_err(|_| io::Error::other("too many axes for a .npy file"))?;
    target.write_all(&MAGIC)?;
    target.write_all(&[1, 0])?;
    target.write_all(&length.to_le_bytes())?;
    target.write_all(text.as_bytes())?;
    target.write_all(tensor.bytes())
}

#[cfg(test)]
mod tests;
