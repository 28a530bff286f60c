//! Reads and writes NumPy's `.npy` format: one tensor with its type and shape.
//!
//! Reading supports versions 1 to 3, C and Fortran order, either byte order, bool, signed and
//! unsigned integers of 8 to 64 bits, and floats of 16 to 64 bits. Writing uses version 1, C order
//! and little-endian.
//!
//! NumPy has no bf16. A bf16 tensor is written as `<V2`, two opaque bytes per element. NumPy writes
//! the same for an array of bfloat16 of the `ml_dtypes` package, and
//! `numpy.load(f).view(ml_dtypes.bfloat16)` reads it. `V2` is read as bf16.
//!
//! A malformed file is an error. Memory is bounded by the file's own length, whatever its header
//! claims. See `super::allowance`. Bytes after the elements are ignored, as in NumPy.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use tile_compiler::dtype::DType;
use tile_compiler::tensor::{Tensor, TensorType, with_room};

use super::{Allowance, MOST_AXES};

mod header;

const MAGIC: [u8; 6] = *b"\x93NUMPY";

/// The maximum length of a header in bytes. NumPy's own limit is 10,000.
const MAX_HEADER: usize = 1 << 16;

/// The reason why a file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NpyError {
    /// The file cannot be read at all.
    #[error("cannot read the .npy file: {0}")]
    Io(#[from] io::Error),
    /// The file violates the format. Has the deviation.
    #[error("not a valid .npy file: {0}")]
    Malformed(String),
    /// The file is valid, but has no tensor type. Has the kind of the file.
    #[error("a .npy file of a kind that is not supported: {0}")]
    Unsupported(String),
}

/// The parsed header.
#[derive(Debug, PartialEq)]
struct Header {
    dtype: DType,
    big_endian: bool,
    fortran_order: bool,
    shape: Vec<usize>,
}

/// Reads a file. It may take up to 16 times the file's size on disk, or 512 MiB if that is more.
pub fn open(path: impl AsRef<Path>) -> Result<Tensor, NpyError> {
    let file = File::open(path)?;
    let mut allowance = Allowance::of(&file, None)?;
    read_within(BufReader::new(file), &mut allowance)
}

/// Reads one tensor from a source. Memory is allocated as the data arrive, so the header's claim
/// alone allocates nothing.
pub fn read(source: impl Read) -> Result<Tensor, NpyError> {
    read_within(source, &mut Allowance::of_machine())
}

/// Reads a tensor from an entry of an archive.
pub(crate) fn read_entry(
    mut entry: impl Read,
    allowance: &mut Allowance,
) -> Result<Tensor, NpyError> {
    let tensor = read_within(&mut entry, allowance)?;
    // The checksum of an entry is compared at its end.
    let _ = entry.read(&mut [0])?;
    Ok(tensor)
}

/// Reads one tensor.
pub(crate) fn read_within(
    mut source: impl Read,
    allowance: &mut Allowance,
) -> Result<Tensor, NpyError> {
    let header = header::parse(&read_header(&mut source)?)?;
    let ty = TensorType::new(header.dtype, header.shape);
    let size = ty.dtype.size();
    let Some(length) = ty.checked_bytes() else {
        return Err(NpyError::Malformed(format!(
            "its header claims {ty}, more elements than memory can have"
        )));
    };
    allowance.expect(length as u64).map_err(io::Error::from)?;
    let mut bytes = allowance.read_to_end(source.take(length as u64), length as u64)?;
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
        allowance.take(length as u64).map_err(io::Error::from)?;
        bytes = to_row_major(&bytes, &ty.shape, size).ok_or_else(|| {
            NpyError::Io(io::Error::new(io::ErrorKind::OutOfMemory, format!("no memory for {ty}")))
        })?;
    }
    Tensor::from_bytes(ty, bytes)
        .ok_or_else(|| NpyError::Malformed("its size does not fit its header".into()))
}

/// Reads only the header. Returns the type of the tensor.
pub fn read_type(mut source: impl Read) -> Result<TensorType, NpyError> {
    let header = header::parse(&read_header(&mut source)?)?;
    Ok(TensorType::new(header.dtype, header.shape))
}

/// Reads the text of the header. Leaves the reader at the first element.
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
        version => {
            return Err(NpyError::Unsupported(format!("format version {version}.{}", start[7])));
        }
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

/// Converts elements of `size` bytes from Fortran order (first axis fastest) to row-major order.
/// Returns `None` if there is no memory for them.
fn to_row_major(bytes: &[u8], shape: &[usize], size: usize) -> Option<Vec<u8>> {
    // Axes of size 1 are dropped. The number of axes is then at most the number of bits of the
    // element count.
    let shape: Vec<usize> = shape.iter().copied().filter(|&extent| extent != 1).collect();
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = size;
    for &extent in &shape {
        strides.push(stride);
        stride = stride.saturating_mul(extent);
    }
    let mut result: Vec<u8> = with_room(bytes.len())?;
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
    Some(result)
}

/// Writes a tensor in the format that the module's head describes.
pub fn write(tensor: &Tensor, mut target: impl Write) -> io::Result<()> {
    let shape: String = tensor.shape().iter().map(|size| format!("{size}, ")).collect();
    // The tuple is `()` for rank 0, `(3,)` for rank 1 and `(3, 4)` for rank 2.
    let shape =
        if tensor.shape().len() == 1 { shape.trim_end() } else { shape.trim_end_matches(", ") };
    let descr = header::descr(tensor.dtype());
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    // The elements start at a multiple of 64 bytes. The header ends with a newline.
    let before = MAGIC.len() + 4;
    let total = (before + text.len() + 1).next_multiple_of(64);
    text.push_str(&" ".repeat(total - before - text.len() - 1));
    text.push('\n');
    let length =
        u16::try_from(text.len()).map_err(|_| io::Error::other("too many axes for a .npy file"))?;
    target.write_all(&MAGIC)?;
    target.write_all(&[1, 0])?;
    target.write_all(&length.to_le_bytes())?;
    target.write_all(text.as_bytes())?;
    target.write_all(tensor.bytes())
}

#[cfg(test)]
mod tests;
