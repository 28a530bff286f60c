//! Reads and writes images as tensors. Decodes png and jpeg, resizes to the input's size and scales
//! the values as the network was trained.
//!
//! An image is stored as bytes until its values are scaled, as in Pillow, so each value is one of
//! 256. It is resized bilinearly with a triangle filter, which is widened if the image shrinks. The
//! result equals that of Pillow to within one of 255 steps, and so that of
//! `keras.utils.load_img(interpolation="bilinear")` and of torchvision's `Resize`. `load_img` uses
//! nearest-neighbour interpolation by default, and `image_dataset_from_directory` does not widen
//! its filter. The conversion to grey is Pillow's, too. Transparency is dropped if the input has no
//! channel for it.

use std::fs::File;
use std::io::{BufReader, Cursor};
use std::path::Path;

use image::imageops::FilterType;
use image::{
    DynamicImage, ExtendedColorType, GrayImage, ImageDecoder, ImageError, ImageFormat, ImageReader,
};
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType, zeroed};

use crate::error::{Error, Source};
use crate::files::{Allowance, Exceeded, open_file, read_file};
use crate::model::Declared;

/// The scaling of pixel values and the way of resizing.
///
/// ```
/// use std::path::Path;
/// use tile_runtime::data::picture::{Pixels, encode};
/// use tile_runtime::Tensor;
///
/// let grey = Tensor::from_f32([2, 2, 1], &[0.0, 128.0, 128.0, 255.0]).unwrap();
/// let png = encode(Path::new("grey.png"), &grey, Pixels::Raw)?;
/// assert_eq!(&png[1..4], b"PNG");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pixels {
    /// 0 to 255, resized.
    #[default]
    Raw,
    /// -1 to 1, resized. `preprocess_input` of MobileNet and others, mode `tf`.
    KerasTf,
    /// Blue, green, red, minus ImageNet's mean, resized. `preprocess_input` of ResNet50, VGG and
    /// others, mode `caffe`.
    KerasCaffe,
    /// Minus ImageNet's mean, divided by its deviation, resized. `preprocess_input` of DenseNet and
    /// others, mode `torch`.
    KerasTorch,
    /// The values of [`Pixels::KerasTorch`] for the center of the image. The image is resized so
    /// that its shorter side is 256 / 224 of the input's longer side, and then cropped.
    /// Torchvision's classifiers are evaluated with this.
    Torchvision,
}

/// The statistics of red, green and blue on ImageNet, in units of 255.
const MEAN: [f64; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f64; 3] = [0.229, 0.224, 0.225];
/// The means of blue, green and red of the networks trained with Caffe.
const CAFFE_MEAN: [f64; 3] = [103.939, 116.779, 123.68];

/// The bytes of a pixel between the two passes of resizing: four channels of f32.
const STRETCHED: u64 = 16;

/// The bytes that a row of an image counts for while it is decoded, beside those of its pixels.
const BYTES_PER_ROW: u64 = 64;

impl Pixels {
    /// All variants with their names on the command line.
    pub const ALL: [(&'static str, Pixels); 5] = [
        ("raw", Pixels::Raw),
        ("keras-tf", Pixels::KerasTf),
        ("keras-caffe", Pixels::KerasCaffe),
        ("keras-torch", Pixels::KerasTorch),
        ("torchvision", Pixels::Torchvision),
    ];

    /// Returns for each channel of a tensor the image's channel, the value subtracted from its
    /// bytes, and the divisor.
    fn scales(self, channels: usize) -> Result<Vec<(usize, f64, f64)>, String> {
        let scale = |channel: usize| match self {
            Pixels::Raw => (channel, 0.0, 1.0),
            Pixels::KerasTf => (channel, 127.5, 127.5),
            Pixels::KerasCaffe => (2 - channel, CAFFE_MEAN[channel], 1.0),
            Pixels::KerasTorch | Pixels::Torchvision => {
                (channel, 255.0 * MEAN[channel], 255.0 * DEVIATION[channel])
            }
        };
        match self {
            Pixels::Raw | Pixels::KerasTf => {}
            _ if channels == 3 => {}
            _ => {
                return Err(format!(
                    "these values of pixels are for 3 channels, and it has {channels}: `raw` and `keras-tf` suit any number"
                ));
            }
        }
        Ok((0..channels).map(scale).collect())
    }
}

/// The axes of a tensor that is an image. The axes before them have size 1.
struct Axes {
    height: usize,
    width: usize,
    /// The channel axis. `None` for a grey image without one.
    channels: Option<usize>,
}

impl Axes {
    /// Finds the axes. Channels are last, unless only the first axis has size 1, 3 or 4. If the
    /// sizes of both axes are unknown, they are last if `usual` is true.
    fn of(sizes: &[Option<usize>], usual: bool) -> Result<Axes, String> {
        let no_picture = || {
            "it is no picture, which is [H, W], [H, W, C] or [C, H, W], with 1, 3 or 4 channels, or one such in a batch"
                .to_owned()
        };
        let rank = sizes.len();
        if rank == 2 {
            return Ok(Axes { height: 0, width: 1, channels: None });
        }
        if !(3..=4).contains(&rank) {
            return Err(no_picture());
        }
        let (first, last) = (rank - 3, rank - 1);
        let is_channels = |axis: usize| matches!(sizes[axis], Some(1 | 3 | 4));
        let in_batch = match (sizes[first], sizes[last]) {
            _ if is_channels(last) => false,
            _ if is_channels(first) => true,
            (_, None) if usual => false,
            (_, None) => {
                return Err("its sizes do not say which axis is that of the channels".into());
            }
            // A side of an image is longer than 4. With three axes the first is then a batch of
            // grey images.
            (_, Some(0..=4)) => return Err(no_picture()),
            (None, _) if rank == 3 => {
                return Axes { height: 1, width: 2, channels: None }.alone(sizes);
            }
            (None, _) => true,
            _ => return Err(no_picture()),
        };
        let axes = match in_batch {
            false => Axes { height: first, width: first + 1, channels: Some(last) },
            true => Axes { height: first + 1, width: last, channels: Some(first) },
        };
        axes.alone(sizes)
    }

    /// Checks that the axes describe a single image.
    fn alone(self, sizes: &[Option<usize>]) -> Result<Axes, String> {
        let first = self.channels.map_or(self.height, |channels| self.height.min(channels));
        match sizes[..first].iter().flatten().find(|size| **size != 1) {
            Some(size) => Err(format!("it is a batch of {size} pictures, and this is one")),
            None => Ok(self),
        }
    }

    /// Returns, for each element of the tensor in row-major order, the offset of its pixel in the
    /// image's bytes, and its channel.
    fn places(
        &self,
        height: usize,
        width: usize,
        channels: usize,
    ) -> impl Iterator<Item = (usize, usize)> {
        let planes = self.channels.is_some_and(|axis| axis < self.height);
        let pixels = height * width;
        (0..pixels * channels).map(move |at| match planes {
            true => (at % pixels * channels, at / pixels),
            false => (at - at % channels, at % channels),
        })
    }
}

/// Returns whether a file's extension is that of an image.
pub fn is_picture(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    ["png", "jpg", "jpeg"].contains(&extension.to_ascii_lowercase().as_str())
}

/// Reads an image for the input that is `declared`. Sizes that the input leaves open are the
/// image's own. An open number of channels is 1 for a grey image and 3 for any other.
///
/// # Errors
/// Returns [`Error::Data`] if the file cannot be read or the input does not take a single image.
pub fn read(path: &Path, declared: &Declared, pixels: Pixels) -> Result<Tensor, Error> {
    let failed = |what: String| Error::data(format!("{}: {what}", path.display()));
    let Declared { dtype, sizes, channels_last } = declared;
    let axes = Axes::of(sizes, *channels_last)
        .map_err(|what| failed(format!("the input is {}: {what}", declared.shape())))?;
    let scaled = pixels != Pixels::Raw;
    if matches!(dtype, DType::Bool | DType::I8) || scaled && !dtype.is_float() {
        let what = if scaled { "scaled values of pixels" } else { "0 to 255" };
        return Err(failed(format!(
            "the input is of the type {dtype}, which has no place for {what}"
        )));
    }
    let (picture, mut allowance) = decode(path)?;
    let channels =
        axes.channels.map_or(Some(1), |axis| sizes[axis]).unwrap_or_else(|| own_channels(&picture));
    let exceeded = |error: Exceeded| Error::read(path, error);
    let picture =
        with_channels(picture, channels, &mut allowance).map_err(exceeded)?.ok_or_else(|| {
            failed(format!("the input has {channels} channels, and a picture 1, 3 or 4"))
        })?;
    let picture = fitted(picture, sizes[axes.height], sizes[axes.width], pixels, &mut allowance)
        .map_err(|error| Error::read(path, error))?;
    let (height, width) = (picture.height() as usize, picture.width() as usize);
    let scales = pixels.scales(channels).map_err(failed)?;
    let mut shape = vec![1; sizes.len()];
    (shape[axes.height], shape[axes.width]) = (height, width);
    if let Some(axis) = axes.channels {
        shape[axis] = channels;
    }
    let ty = TensorType::new(*dtype, shape);
    allowance.tensor(&ty).map_err(exceeded)?;
    let bytes = picture.into_bytes();
    let values = axes.places(height, width, channels).map(|(place, channel)| {
        let (channel, mean, deviation) = scales[channel];
        (f64::from(bytes[place + channel]) - mean) / deviation
    });
    let tensor = match dtype {
        // The usual type, converted directly.
        DType::F32 => {
            Tensor::from_bytes(ty, values.flat_map(|value| (value as f32).to_le_bytes()).collect())
        }
        _ => Tensor::from_scalars(ty, values.map(|value| Scalar::from_f64(*dtype, value))),
    };
    tensor.ok_or_else(|| failed("it is too large".into()))
}

/// Encodes a tensor as the image file `path`, png or jpeg by its extension. [`read`] with the same
/// `pixels` gives these values again. They are rounded and limited to 0 to 255, and NaN becomes 0.
///
/// # Errors
/// Returns [`Error::Data`] if the tensor is not an image or the format cannot store it.
pub fn encode(path: &Path, tensor: &Tensor, pixels: Pixels) -> Result<Vec<u8>, Error> {
    let failed = |what: String| Error::data(format!("{}: {what}", path.display()));
    let sizes: Vec<Option<usize>> = tensor.shape().iter().copied().map(Some).collect();
    let axes = Axes::of(&sizes, true)
        .map_err(|what| failed(format!("the output is {}: {what}", tensor.ty())))?;
    let (height, width) = (tensor.shape()[axes.height], tensor.shape()[axes.width]);
    let channels = axes.channels.map_or(1, |axis| tensor.shape()[axis]);
    let scales = pixels.scales(channels).map_err(failed)?;
    let mut bytes =
        zeroed(tensor.ty().elements()).ok_or_else(|| failed("it is too large".into()))?;
    for ((place, channel), value) in axes.places(height, width, channels).zip(tensor.scalars()) {
        let (channel, mean, deviation) = scales[channel];
        // The cast saturates.
        bytes[place + channel] = (value.to_f64() * deviation + mean).round() as u8;
    }
    let color = match channels {
        1 => ExtendedColorType::L8,
        3 => ExtendedColorType::Rgb8,
        _ => ExtendedColorType::Rgba8,
    };
    let side = |size: usize| {
        u32::try_from(size).map_err(|_| failed(format!("a side of {size} pixels is too long")))
    };
    let format = ImageFormat::from_path(path).map_err(|error| failed(error.to_string()))?;
    let mut file = Cursor::new(Vec::new());
    image::write_buffer_with_format(&mut file, &bytes, side(width)?, side(height)?, color, format)
        .map_err(|error| failed(error.to_string()))?;
    Ok(file.into_inner())
}

pub(super) fn reader(path: &Path) -> Result<ImageReader<BufReader<File>>, Error> {
    let file = open_file(path).map(BufReader::new);
    let reader = file.and_then(|file| ImageReader::new(file).with_guessed_format());
    reader.map_err(|error| Error::read(path, error))
}

/// Decodes an image as stored. Returns the remaining allowance of its file, too.
pub(super) fn decode(path: &Path) -> Result<(DynamicImage, Allowance), Error> {
    let failed = |error: ImageError| Error::read(path, error);
    let read = open_file(path).and_then(|file| read_file(file, None));
    let (bytes, mut allowance) = read.map_err(|error| Error::read(path, error))?;
    let reader = ImageReader::new(Cursor::new(&bytes))
        .with_guessed_format()
        .map_err(|error| failed(error.into()))?;
    // The decoder fills in missing parts of a jpeg, so there must be an end marker after the last
    // scan.
    let last = |marker: u8| bytes.windows(2).rposition(|two| two == [0xff, marker]);
    if reader.format() == Some(ImageFormat::Jpeg) && last(0xd9) < last(0xda) {
        return Err(Error::data(format!("{}: the picture breaks off", path.display())));
    }
    // A progressive jpeg keeps 16-bit coefficients until the last scan.
    let is_progressive = bytes.windows(2).any(|two| two == [0xff, 0xc2]);
    let decoder = reader.into_decoder().map_err(failed)?;
    let size = decoder.total_bytes();
    // A row costs a decoder time, however short it is: as much as copying some bytes.
    let rows = u64::from(decoder.dimensions().1).saturating_mul(BYTES_PER_ROW);
    let while_decoding =
        size.saturating_mul(if is_progressive { 3 } else { 1 }).saturating_add(rows);
    allowance.take(while_decoding).map_err(|error| Error::read(path, error))?;
    let picture = DynamicImage::from_decoder(decoder).map_err(failed)?;
    allowance.give(while_decoding - size);
    Ok((picture, allowance))
}

/// Returns the height and the width of an image of this type, if they are known.
pub(super) fn height_and_width(declared: &Declared) -> Option<[usize; 2]> {
    let axes = Axes::of(&declared.sizes, declared.channels_last).ok()?;
    Some([declared.sizes[axes.height]?, declared.sizes[axes.width]?])
}

/// Returns 1 for a grey image, else 3.
pub(super) fn own_channels(picture: &DynamicImage) -> usize {
    if picture.color().has_color() { 3 } else { 1 }
}

/// Converts an image to 1, 3 or 4 channels of one byte. Returns `None` for another number of
/// channels.
pub(super) fn with_channels(
    picture: DynamicImage,
    channels: usize,
    allowance: &mut Allowance,
) -> Result<Option<DynamicImage>, Exceeded> {
    // Grey is computed from three channels.
    let bytes = u64::from(picture.width()) * u64::from(picture.height());
    allowance.take(bytes.saturating_mul(if channels == 1 { 4 } else { channels as u64 }))?;
    Ok(match channels {
        1 if picture.color().has_color() => Some(grey(picture).into()),
        1 => Some(picture.into_luma8().into()),
        3 => Some(picture.into_rgb8().into()),
        4 => Some(picture.into_rgba8().into()),
        _ => None,
    })
}

/// Converts to grey with the 16-bit weights of ITU-R 601-2, as Pillow does.
fn grey(picture: DynamicImage) -> GrayImage {
    let colors = picture.into_rgb8();
    GrayImage::from_fn(colors.width(), colors.height(), |x, y| {
        let [red, green, blue] = colors.get_pixel(x, y).0.map(u32::from);
        image::Luma([((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16) as u8])
    })
}

/// Resizes an image. An open size is the image's own.
fn fitted(
    picture: DynamicImage,
    height: Option<usize>,
    width: Option<usize>,
    pixels: Pixels,
    allowance: &mut Allowance,
) -> Result<DynamicImage, Source> {
    let own = (picture.width() as usize, picture.height() as usize);
    let cropped = pixels == Pixels::Torchvision && height.is_some() && width.is_some();
    let (width, height) = (width.unwrap_or(own.0), height.unwrap_or(own.1));
    let whole = if cropped {
        let shorter = (width.max(height) as f64 * 256.0 / 224.0).round_ties_even();
        // The longer side is truncated to an integer, as in torchvision.
        let scaled = |side: usize| (shorter * side as f64 / own.0.min(own.1) as f64) as usize;
        (scaled(own.0), scaled(own.1))
    } else {
        (width, height)
    };
    let [width_of_whole, height_of_whole] = [whole.0, whole.1].map(u32::try_from);
    let (Ok(1..), Ok(1..)) = (width_of_whole, height_of_whole) else {
        return Err(format!("{} x {} pixels are no size for a picture", whole.1, whole.0).into());
    };
    // The height is resized first.
    let between = if whole == own { 0 } else { (own.0 as u64).saturating_mul(whole.1 as u64) };
    let after = (whole.0 as u64).saturating_mul(whole.1 as u64);
    allowance.take(between.saturating_mul(STRETCHED))?;
    let copies = if whole == own { 1 } else { 2 };
    allowance.take(after.saturating_mul(copies * u64::from(picture.color().bytes_per_pixel())))?;
    let whole = match whole == own {
        true => picture,
        false => picture.resize_exact(whole.0 as u32, whole.1 as u32, FilterType::Triangle),
    };
    let margin = |side: u32, wanted: usize| {
        ((f64::from(side) - wanted as f64) / 2.0).round_ties_even() as u32
    };
    let (left, top) = (margin(whole.width(), width), margin(whole.height(), height));
    Ok(whole.crop_imm(left, top, width as u32, height as u32))
}
