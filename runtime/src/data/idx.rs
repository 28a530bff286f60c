//! The idx format of the MNIST files, plain or gzipped.
//!
//! A file has two zero bytes, a byte for the type, a byte for the number of axes, each size as a
//! big-endian u32, and the elements. The elements are big-endian, and the last axis varies fastest.
//!
//! Format: <https://web.archive.org/web/2022/http://yann.lecun.com/exdb/mnist/>.

use std::io::{BufReader, Read};
use std::path::Path;

use flate2::read::GzDecoder;
use tile_compiler::dtype::DType;
use tile_compiler::tensor::{Tensor, TensorType};

use crate::error::{Error, Source};
use crate::files::{Allowance, MOST_AXES, open_file};

/// Reads a file, as gzip if its name ends in `.gz`. Returns the remaining allowance, too.
///
/// # Errors
/// Returns [`Error::Read`], which names the file.
pub fn read(path: &Path) -> Result<(Tensor, Allowance), Error> {
    let read = |path: &Path| -> Result<(Tensor, Allowance), Source> {
        let file = open_file(path)?;
        let mut allowance = Allowance::of(&file, None)?;
        let file = BufReader::new(file);
        let is_gzip = path.extension().is_some_and(|extension| extension == "gz");
        let tensor = if is_gzip {
            parse(GzDecoder::new(file), &mut allowance)
        } else {
            parse(file, &mut allowance)
        }?;
        Ok((tensor, allowance))
    };
    read(path).map_err(|error| Error::read(path, error))
}

fn parse(mut source: impl Read, allowance: &mut Allowance) -> Result<Tensor, Source> {
    let mut start = Vec::new();
    source.by_ref().take(4).read_to_end(&mut start)?;
    let &[0, 0, code, rank] = &start[..] else {
        return Err("not an idx file: it does not begin with two zeros".into());
    };
    let dtype = match code {
        0x08 => DType::U8,
        0x09 => DType::I8,
        0x0B => DType::I16,
        0x0C => DType::I32,
        0x0D => DType::F32,
        0x0E => DType::F64,
        _ => return Err(format!("not an idx file: there is no type {code:#04x}").into()),
    };
    let mut sizes = Vec::new();
    source.by_ref().take(4 * u64::from(rank)).read_to_end(&mut sizes)?;
    if sizes.len() != 4 * usize::from(rank) {
        return Err("the file ends within its header".into());
    }
    if usize::from(rank) > MOST_AXES {
        return Err(format!("it has {rank} axes, and a tensor may have {MOST_AXES}").into());
    }
    let sizes = sizes.as_chunks::<4>().0.iter().map(|size| u32::from_be_bytes(*size) as usize);
    let ty = TensorType::new(dtype, sizes.collect::<Vec<_>>());
    let length = ty.checked_bytes();
    let expected = length.unwrap_or(0) as u64;
    allowance.expect(expected)?;
    let mut elements = allowance.read_to_end(source, expected)?;
    if length != Some(elements.len()) {
        return Err(format!("its header says {ty}, and {} bytes follow", elements.len()).into());
    }
    if dtype.size() > 1 {
        elements.chunks_exact_mut(dtype.size()).for_each(<[u8]>::reverse);
    }
    Tensor::from_bytes(ty, elements).ok_or_else(|| "the file is too large".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tile_lang::Limits;

    #[test]
    fn elements_and_errors() {
        let parse = |bytes: &[u8]| {
            parse(bytes, &mut Allowance::limited(Limits { bytes: 1000, ..Limits::default() }))
        };
        let header = [0, 0, 0x0B, 2, 0, 0, 0, 1, 0, 0, 0, 2];
        let tensor = parse(&[&header[..], &[0, 3, 0xFF, 0xFE]].concat()).unwrap();
        assert_eq!((tensor.shape(), tensor.to_f64s()), (&[1, 2][..], vec![3.0, -2.0]));
        let error = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
        assert_eq!(error(b"GIF8"), "not an idx file: it does not begin with two zeros");
        assert_eq!(error(&[0, 0, 7, 1, 0, 0, 0, 0]), "not an idx file: there is no type 0x07");
        assert_eq!(error(&[0, 0, 8, 9, 0]), "the file ends within its header");
        assert_eq!(error(&header), "its header says i16[1, 2], and 0 bytes follow");
        let huge = [0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255];
        assert!(error(&huge).ends_with("and 0 bytes follow"));
        let large = [0, 0, 8, 1, 255, 255, 255, 255];
        assert!(error(&large).starts_with("reading it takes 4294967295 bytes of memory"));
    }
}
