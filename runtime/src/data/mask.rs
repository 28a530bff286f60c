//! Class numbers in pictures, as in the masks of a segmentation.

use std::io::Cursor;
use std::path::Path;

use png::ColorType;
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType, zeroed};

use super::picture::decode;
use crate::error::Error;
use crate::files::{Exceeded, open_file, read_file};

/// The bytes that a row counts for while it is decoded, beside those of its pixels.
const BYTES_PER_ROW: u64 = 64;

/// The stored numbers of a picture's pixels, row by row: grey values of 1 to 16 bits, or indices of
/// a palette.
pub struct Mask {
    height: usize,
    width: usize,
    values: Vec<u16>,
}

impl Mask {
    /// Reads a picture. Returns `None` if it has colours without a palette.
    ///
    /// # Errors
    /// Returns [`Error::Read`] if the file cannot be read, or takes more memory than its size
    /// allows.
    pub fn read(path: &Path) -> Result<Option<Mask>, Error> {
        let (bytes, mut allowance) = open_file(path)
            .and_then(|file| read_file(file, None))
            .map_err(|error| Error::read(path, error))?;
        if !bytes.starts_with(b"\x89PNG") {
            let (picture, _) = decode(path)?;
            let (height, width) = (picture.height() as usize, picture.width() as usize);
            let grey =
                picture.as_luma8().map(|grey| grey.iter().map(|&value| value.into()).collect());
            return Ok(grey.map(|values| Mask { height, width, values }));
        }
        let failed = |error: png::DecodingError| Error::read(path, error);
        let mut reader = png::Decoder::new(Cursor::new(&bytes)).read_info().map_err(failed)?;
        let info = reader.info();
        let (height, width) = (info.height as usize, info.width as usize);
        let (bits, samples) = (info.bit_depth as usize, info.color_type.samples());
        if matches!(info.color_type, ColorType::Rgb | ColorType::Rgba) {
            return Ok(None);
        }
        let too_large = || Error::data(format!("{}: it is too large", path.display()));
        let size = reader.output_buffer_size().ok_or_else(too_large)?;
        let pixels = (height as u64).saturating_mul(width as u64);
        let taken = (size as u64).saturating_add(pixels.saturating_mul(2));
        let rows = (height as u64).saturating_mul(BYTES_PER_ROW);
        allowance
            .take(taken.saturating_add(rows))
            .map_err(|error: Exceeded| Error::read(path, error))?;
        let mut packed: Vec<u8> = zeroed(size).ok_or_else(too_large)?;
        let frame = reader.next_frame(&mut packed).map_err(failed)?;
        let value = |row: &[u8], x: usize| match bits {
            8 => row[x].into(),
            16 => u16::from_be_bytes([row[2 * x], row[2 * x + 1]]),
            _ => u16::from(row[x * bits / 8] >> (8 - bits - x * bits % 8)) & ((1 << bits) - 1),
        };
        // Without the alpha of a pixel, which follows its value.
        let rows = packed.chunks(frame.line_size.max(1)).take(height);
        let values =
            rows.flat_map(|row| (0..width).map(move |x| value(row, x * samples))).collect();
        Ok(Some(Mask { height, width, values }))
    }

    /// Returns the height and the width.
    pub fn sides(&self) -> [usize; 2] {
        [self.height, self.width]
    }

    /// Returns the numbers as i32[height, width], of the nearest pixels.
    pub fn resized(&self, height: usize, width: usize) -> Option<Tensor> {
        // The pixel at the center of the new one.
        let nearest = |at: usize, own: usize, new: usize| (2 * at + 1) * own / (2 * new);
        let places = (0..height).flat_map(|y| {
            let row = nearest(y, self.height, height) * self.width;
            (0..width).map(move |x| row + nearest(x, self.width, width))
        });
        let values = places.map(|place| Scalar::i32(self.values[place].into()));
        Tensor::from_scalars(TensorType::new(DType::I32, [height, width]), values)
    }
}
