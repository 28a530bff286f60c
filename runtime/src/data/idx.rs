//! The idx format of the MNIST files, plain or gzipped: <https://web.archive.org/web/2022/http://yann.lecun.com/exdb/mnist/>.
//!
//! Two zero bytes, a byte for the type, a byte for the number of axes, each size as a big-endian u32, then the elements,
//! big-endian, the last axis fastest.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use flate2::read::GzDecoder;
use tile_compiler::dtype::DType;
use tile_compiler::tensor::{Tensor, TensorType};

use crate::error::Error;

/// Reads a file, as gzip where its name ends in `.gz`.
///
/// # Errors
/// [`Error::Data`], which names the file.
pub fn read(path: &Path) -> Result<Tensor, Error> {
    let failed = |what: String| Error::data(format!("{}: {what}", path.display()));
    let file = BufReader::new(File::open(path).map_err(|error| failed(error.to_string()))?);
    let mut bytes = Vec::new();
    let is_gzip = path.extension().is_some_and(|extension| extension == "gz");
    let read = if is_gzip { GzDecoder::new(file).read_to_end(&mut bytes) } else { { file }.read_to_end(&mut bytes) };
    read.map_err(|error| failed(error.to_string()))?;
    parse(&bytes).map_err(failed)
}

fn parse(bytes: &[u8]) -> Result<Tensor, String> {
    let Some((&[0, 0, code, rank], rest)) = bytes.split_first_chunk::<4>() else {
        return Err("not an idx file: it does not begin with two zeros".into());
    };
    let dtype = match code {
        0x08 => DType::U8,
        0x09 => DType::I8,
        0x0B => DType::I16,
        0x0C => DType::I32,
        0x0D => DType::F32,
        0x0E => DType::F64,
        _ => return Err(format!("not an idx file: there is no type {code:#04x}")),
    };
    let (sizes, elements) = rest.split_at_checked(4 * usize::from(rank)).ok_or("the file ends within its header")?;
    let sizes = sizes.as_chunks::<4>().0.iter().map(|size| u32::from_be_bytes(*size) as usize);
    let ty = TensorType::new(dtype, sizes.collect::<Vec<_>>());
    let length = ty.checked_elements().and_then(|count| count.checked_mul(dtype.size()));
    if length != Some(elements.len()) {
        return Err(format!("its header says {ty}, and {} bytes follow", elements.len()));
    }
    let mut elements = elements.to_vec();
    elements.chunks_exact_mut(dtype.size()).for_each(<[u8]>::reverse);
    Tensor::from_bytes(ty, elements).ok_or_else(|| "the file is too large".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_and_errors() {
        let header = [0, 0, 0x0B, 2, 0, 0, 0, 1, 0, 0, 0, 2];
        let tensor = parse(&[&header[..], &[0, 3, 0xFF, 0xFE]].concat()).unwrap();
        assert_eq!((tensor.shape(), tensor.to_f64s()), (&[1, 2][..], vec![3.0, -2.0]));
        let error = |bytes: &[u8]| parse(bytes).unwrap_err();
        assert_eq!(error(b"GIF8"), "not an idx file: it does not begin with two zeros");
        assert_eq!(error(&[0, 0, 7, 1, 0, 0, 0, 0]), "not an idx file: there is no type 0x07");
        assert_eq!(error(&[0, 0, 8, 9, 0]), "the file ends within its header");
        assert_eq!(error(&header), "its header says i16[1, 2], and 0 bytes follow");
        let huge = [0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255];
        assert!(error(&huge).ends_with("and 0 bytes follow"));
    }
}
