//! Pictures as tensors and back: png and jpeg, decoded, stretched to the size that an input has, and their values made those that a
//! network was trained on.
//!
//! Always true: a picture is bytes until its values are scaled, as in Pillow, so that each value is one of 256. It is stretched bilinearly
//! with a filter as wide as what becomes one pixel (a triangle): as by Pillow, and so by `keras.utils.load_img(interpolation="bilinear")` and
//! torchvision's `Resize`, to a step of 255. (`load_img` takes the nearest pixel where it is not told, and `image_dataset_from_directory`
//! does not widen its filter where a picture shrinks.) Grey is Pillow's, too. Transparency is dropped where an input has no place for it.

use std::fs::File;
use std::io::{BufReader, Cursor};
use std::path::Path;

use image::{DynamicImage, ExtendedColorType, GrayImage, ImageError, ImageFormat, ImageReader, imageops::FilterType};
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType};

use crate::error::Error;
use crate::model::Declared;

/// What the values of pixels are in a tensor, and how a picture comes to the size that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pixels {
    /// 0 to 255; stretched.
    Raw,
    /// -1 to 1; stretched. `preprocess_input` of MobileNet and others, mode `tf`.
    KerasTf,
    /// Blue, green, red, without ImageNet's mean; stretched. `preprocess_input` of ResNet50, VGG and others, mode `caffe`.
    KerasCaffe,
    /// In units of ImageNet's deviation from its mean; stretched. `preprocess_input` of DenseNet and others, mode `torch`.
    KerasTorch,
    /// The same values, of the middle of the picture: it is made so large that the shorter side is 256 / 224 of the input's longer one, and what is beyond
    /// the input is cut off. What torchvision's classifiers are evaluated with.
    Torchvision,
}

/// Of red, green and blue on ImageNet, in units of 255.
const MEAN: [f64; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f64; 3] = [0.229, 0.224, 0.225];
/// Of blue, green and red: those of the networks that Caffe trained.
const CAFFE_MEAN: [f64; 3] = [103.939, 116.779, 123.68];

/// Bytes that a picture may have at its new size, as many as the decoder allows.
const LARGEST: u128 = 512 << 20;

impl Pixels {
    /// By their names on the command line.
    pub const ALL: [(&'static str, Pixels); 5] = [
        ("raw", Pixels::Raw),
        ("keras-tf", Pixels::KerasTf),
        ("keras-caffe", Pixels::KerasCaffe),
        ("keras-torch", Pixels::KerasTorch),
        ("torchvision", Pixels::Torchvision),
    ];

    /// For each channel of a tensor which one of the picture it is, and what is subtracted from its bytes before they are divided by the last.
    fn scales(self, channels: usize) -> Result<Vec<(usize, f64, f64)>, String> {
        let scale = |channel: usize| match self {
            Pixels::Raw => (channel, 0.0, 1.0),
            Pixels::KerasTf => (channel, 127.5, 127.5),
            Pixels::KerasCaffe => (2 - channel, CAFFE_MEAN[channel], 1.0),
            Pixels::KerasTorch | Pixels::Torchvision => (channel, 255.0 * MEAN[channel], 255.0 * DEVIATION[channel]),
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

/// The axes of a tensor that is a picture; axes before them have the size 1.
struct Axes {
    height: usize,
    width: usize,
    /// None where it is grey without an axis for that.
    channels: Option<usize>,
}

impl Axes {
    /// Channels are last, or first where the size there says it: 1, 3 or 4, and the last is none of them. If both are open they are last if that is `usual`.
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
            (_, None) => return Err("its sizes do not say which axis is that of the channels".into()),
            // A side of a picture is longer than that; of three axes the first is a batch of grey ones then.
            (_, Some(0..=4)) => return Err(no_picture()),
            (None, _) if rank == 3 => return Axes { height: 1, width: 2, channels: None }.alone(sizes),
            (None, _) => true,
            _ => return Err(no_picture()),
        };
        let axes = match in_batch {
            false => Axes { height: first, width: first + 1, channels: Some(last) },
            true => Axes { height: first + 1, width: last, channels: Some(first) },
        };
        axes.alone(sizes)
    }

    /// Where it is one picture, and no more.
    fn alone(self, sizes: &[Option<usize>]) -> Result<Axes, String> {
        let first = self.channels.map_or(self.height, |channels| self.height.min(channels));
        match sizes[..first].iter().flatten().find(|size| **size != 1) {
            Some(size) => Err(format!("it is a batch of {size} pictures, and this is one")),
            None => Ok(self),
        }
    }

    /// The place in a picture's bytes of each element of the tensor, in row-major order, and its channel.
    fn places(&self, height: usize, width: usize, channels: usize) -> impl Iterator<Item = (usize, usize)> {
        let planes = self.channels.is_some_and(|axis| axis < self.height);
        let pixels = height * width;
        (0..pixels * channels).map(move |at| match planes {
            true => (at % pixels * channels, at / pixels),
            false => (at - at % channels, at % channels),
        })
    }
}

/// Whether a file's name says that it is a picture.
pub fn is_picture(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    ["png", "jpg", "jpeg"].contains(&extension.to_ascii_lowercase().as_str())
}

/// Reads a picture as the input that is `declared`: of its size, or of its own where that is open, and with as many channels; grey or of three where that is open.
///
/// # Errors
/// [`Error::Data`] where the file cannot be read, or the input is none for one picture.
pub fn read(path: &Path, declared: &Declared, pixels: Pixels) -> Result<Tensor, Error> {
    let failed = |what: String| Error::data(format!("{}: {what}", path.display()));
    let Declared { dtype, sizes, channels_last } = declared;
    let axes =
        Axes::of(sizes, *channels_last).map_err(|what| failed(format!("the input is {}: {what}", text(sizes))))?;
    let scaled = pixels != Pixels::Raw;
    if matches!(dtype, DType::Bool | DType::I8) || scaled && !dtype.is_float() {
        let what = if scaled { "scaled values of pixels" } else { "0 to 255" };
        return Err(failed(format!("the input is of the type {dtype}, which has no place for {what}")));
    }
    let picture = decode(path)?;
    let channels = axes.channels.map_or(Some(1), |axis| sizes[axis]).unwrap_or_else(|| own_channels(&picture));
    let picture = with_channels(picture, channels)
        .ok_or_else(|| failed(format!("the input has {channels} channels, and a picture 1, 3 or 4")))?;
    let picture = fitted(picture, sizes[axes.height], sizes[axes.width], pixels).map_err(failed)?;
    let (height, width) = (picture.height() as usize, picture.width() as usize);
    let scales = pixels.scales(channels).map_err(failed)?;
    let mut shape = vec![1; sizes.len()];
    (shape[axes.height], shape[axes.width]) = (height, width);
    if let Some(axis) = axes.channels {
        shape[axis] = channels;
    }
    let bytes = picture.into_bytes();
    let values = axes.places(height, width, channels).map(|(place, channel)| {
        let (channel, mean, deviation) = scales[channel];
        let byte = bytes[place + channel];
        match dtype.is_float() {
            true => Scalar::from_f64(*dtype, (f64::from(byte) - mean) / deviation),
            false => Scalar::from_i64(*dtype, byte.into()),
        }
    });
    Tensor::from_scalars(TensorType::new(*dtype, shape), values).ok_or_else(|| failed("it is too large".into()))
}

/// The bytes of the file `path`, a png or jpeg by its name, with the picture of which [`read`] with the same `pixels` makes such values: rounded,
/// what is beyond 0 to 255 cut off, and NaN as 0.
///
/// # Errors
/// [`Error::Data`] where the tensor is no picture, or none that such a file can have.
pub fn encode(path: &Path, tensor: &Tensor, pixels: Pixels) -> Result<Vec<u8>, Error> {
    let failed = |what: String| Error::data(format!("{}: {what}", path.display()));
    let sizes: Vec<Option<usize>> = tensor.shape().iter().copied().map(Some).collect();
    let axes = Axes::of(&sizes, true).map_err(|what| failed(format!("the output is {}: {what}", tensor.ty())))?;
    let (height, width) = (tensor.shape()[axes.height], tensor.shape()[axes.width]);
    let channels = axes.channels.map_or(1, |axis| tensor.shape()[axis]);
    let scales = pixels.scales(channels).map_err(failed)?;
    let mut bytes = vec![0; tensor.ty().elements()];
    for ((place, channel), value) in axes.places(height, width, channels).zip(tensor.scalars()) {
        let (channel, mean, deviation) = scales[channel];
        // A cast cuts off.
        bytes[place + channel] = (value.to_f64() * deviation + mean).round() as u8;
    }
    let color = match channels {
        1 => ExtendedColorType::L8,
        3 => ExtendedColorType::Rgb8,
        _ => ExtendedColorType::Rgba8,
    };
    let side = |size: usize| u32::try_from(size).map_err(|_| failed(format!("a side of {size} pixels is too long")));
    let format = ImageFormat::from_path(path).map_err(|error| failed(error.to_string()))?;
    let mut file = Cursor::new(Vec::new());
    image::write_buffer_with_format(&mut file, &bytes, side(width)?, side(height)?, color, format)
        .map_err(|error| failed(error.to_string()))?;
    Ok(file.into_inner())
}

/// `[1, ?, ?, 3]`
fn text(sizes: &[Option<usize>]) -> String {
    let sizes = sizes.iter().map(|size| size.map_or("?".to_owned(), |size| size.to_string()));
    format!("[{}]", sizes.collect::<Vec<_>>().join(", "))
}

pub(super) fn failed(path: &Path, error: ImageError) -> Error {
    Error::data(format!("{}: {error}", path.display()))
}

pub(super) fn reader(path: &Path) -> Result<ImageReader<BufReader<File>>, Error> {
    let reader = ImageReader::open(path).and_then(ImageReader::with_guessed_format);
    reader.map_err(|error| failed(path, error.into()))
}

/// The picture, as it is stored. More than 512 MiB of it are refused.
pub(super) fn decode(path: &Path) -> Result<DynamicImage, Error> {
    let failed = |error: ImageError| failed(path, error);
    let bytes = std::fs::read(path).map_err(|error| failed(error.into()))?;
    let reader = ImageReader::new(Cursor::new(&bytes)).with_guessed_format().map_err(|error| failed(error.into()))?;
    // The decoder makes up what is missing of a jpeg: after the last scan there must be an end.
    let last = |marker: u8| bytes.windows(2).rposition(|two| two == [0xff, marker]);
    if reader.format() == Some(ImageFormat::Jpeg) && last(0xd9) < last(0xda) {
        return Err(Error::data(format!("{}: the picture breaks off", path.display())));
    }
    reader.decode().map_err(failed)
}

/// 1 where it is grey, else 3.
pub(super) fn own_channels(picture: &DynamicImage) -> usize {
    if picture.color().has_color() { 3 } else { 1 }
}

/// The picture with a byte for each of 1, 3 or 4 channels.
pub(super) fn with_channels(picture: DynamicImage, channels: usize) -> Option<DynamicImage> {
    match channels {
        1 if picture.color().has_color() => Some(grey(picture).into()),
        1 => Some(picture.into_luma8().into()),
        3 => Some(picture.into_rgb8().into()),
        4 => Some(picture.into_rgba8().into()),
        _ => None,
    }
}

/// By the weights of ITU-R 601-2 in 16 bits, as Pillow has them.
fn grey(picture: DynamicImage) -> GrayImage {
    let colors = picture.into_rgb8();
    GrayImage::from_fn(colors.width(), colors.height(), |x, y| {
        let [red, green, blue] = colors.get_pixel(x, y).0.map(u32::from);
        image::Luma([((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16) as u8])
    })
}

/// The picture in a size of which a part may be open: that is its own then.
fn fitted(
    picture: DynamicImage,
    height: Option<usize>,
    width: Option<usize>,
    pixels: Pixels,
) -> Result<DynamicImage, String> {
    let own = (picture.width() as usize, picture.height() as usize);
    let cropped = pixels == Pixels::Torchvision && height.is_some() && width.is_some();
    let (width, height) = (width.unwrap_or(own.0), height.unwrap_or(own.1));
    let whole = if cropped {
        let shorter = (width.max(height) as f64 * 256.0 / 224.0).round_ties_even();
        // The longer side is cut to a whole number, as torchvision does it.
        let scaled = |side: usize| (shorter * side as f64 / own.0.min(own.1) as f64) as usize;
        (scaled(own.0), scaled(own.1))
    } else {
        (width, height)
    };
    let bytes = whole.0 as u128 * whole.1 as u128 * u128::from(picture.color().bytes_per_pixel());
    if bytes == 0 || bytes > LARGEST {
        return Err(format!("{} x {} pixels are no size for a picture", whole.1, whole.0));
    }
    let whole = match whole == own {
        true => picture,
        false => picture.resize_exact(whole.0 as u32, whole.1 as u32, FilterType::Triangle),
    };
    let margin = |side: u32, wanted: usize| ((f64::from(side) - wanted as f64) / 2.0).round_ties_even() as u32;
    let (left, top) = (margin(whole.width(), width), margin(whole.height(), height));
    Ok(whole.crop_imm(left, top, width as u32, height as u32))
}
