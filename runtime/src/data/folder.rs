//! What a folder or a file has to train with.
//!
//! - `…images-idx3-ubyte` and `…labels-idx1-ubyte`, plain or `.gz`: those with `train` in their names, and those with `t10k` or
//!   `test` for tests;
//! - `x.npy` and `y.npy`, and perhaps `sample_weight.npy`;
//! - an `.npz` file with `x_train`, `y_train`, perhaps `sample_weight_train`, and perhaps the same with `_test` (or `x`, `y`, `sample_weight`);
//! - a `.csv` file;
//! - a folder for each class, with its pictures, png or jpeg; or `train` and `test` folders with such folders.
//!
//! Inputs that are stored as bytes are given as f32 from 0 to 255, and targets that are as i32.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use tile_compiler::dtype::DType;
use tile_compiler::tensor::{Tensor, TensorType};
use zip::ZipArchive;

use super::images::{Images, entries, has_pictures};
use super::{idx, npy, table};
use crate::error::Error;
use crate::train::{Arrays, ColumnRole, Dataset};

/// Samples to train with, and those to test with, where they are apart.
pub struct Samples {
    pub train: Box<dyn Dataset>,
    pub test: Option<Box<dyn Dataset>>,
}

/// Opens a folder or file.
///
/// # Errors
/// [`Error::Data`] where it has no samples, or these are damaged; it names the file.
pub fn open(path: &Path) -> Result<Samples, Error> {
    if !path.exists() {
        return Err(Error::data(format!("{}: there is no such folder or file", path.display())));
    }
    let files = if path.is_dir() { entries(path)? } else { vec![path.to_owned()] };
    let name = |file: &PathBuf| file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let find = |wanted: &dyn Fn(&str) -> bool| files.iter().find(|file| wanted(&name(file)));
    let idx_pair = |wanted: &dyn Fn(&str) -> bool| -> Result<Option<Box<dyn Dataset>>, Error> {
        let images = find(&|name| name.contains("-images-idx3-ubyte") && wanted(name));
        let labels = find(&|name| name.contains("-labels-idx1-ubyte") && wanted(name));
        match (images, labels) {
            (Some(x), Some(y)) => Ok(Some(boxed(arrays(idx::read(x)?, idx::read(y)?)?))),
            _ => Ok(None),
        }
    };
    let is_test = |name: &str| ["t10k", "test"].iter().any(|word| name.contains(word));
    match (idx_pair(&|name| !is_test(name))?, idx_pair(&is_test)?) {
        (Some(train), test) => return Ok(Samples { train, test }),
        (None, Some(train)) => return Ok(Samples { train, test: None }),
        (None, None) => {}
    }
    if let (Some(x), Some(y)) = (find(&|name| name == "x.npy"), find(&|name| name == "y.npy")) {
        let weights = find(&|name| name == "sample_weight.npy").map(|file| read_npy(file)).transpose()?;
        return Ok(Samples { train: boxed(weighted(arrays(read_npy(x)?, read_npy(y)?)?, weights)?), test: None });
    }
    if let Some(file) = find(&|name| name.ends_with(".npz")) {
        return npz(file);
    }
    if let Some(file) = find(&|name| name.ends_with(".csv")) {
        return Ok(Samples { train: boxed(table::read(file)?), test: None });
    }
    let (train, test) = (path.join("train"), path.join("test"));
    if has_pictures(&train) {
        let test = if has_pictures(&test) { Some(boxed(Images::open(&test)?)) } else { None };
        return Ok(Samples { train: boxed(Images::open(&train)?), test });
    }
    if has_pictures(path) {
        return Ok(Samples { train: boxed(Images::open(path)?), test: None });
    }
    let kinds = "idx files, x.npy and y.npy, an .npz, a .csv, nor a folder of pictures for each class";
    Err(Error::data(format!("{}: there are no samples in it: neither {kinds}", path.display())))
}

fn boxed(data: impl Dataset + 'static) -> Box<dyn Dataset> {
    Box::new(data)
}

fn arrays(x: Tensor, y: Tensor) -> Result<Arrays, Error> {
    let y = if y.dtype() == DType::U8 { cast(&y, DType::I32)? } else { y };
    // Numbers of labels are a column in some files.
    let y = match y.shape() {
        &[samples, 1] if !y.dtype().is_float() => {
            let ty = TensorType::new(y.dtype(), [samples]);
            Tensor::from_bytes(ty, y.into_bytes()).ok_or_else(|| Error::data("the labels are too many".to_owned()))?
        }
        _ => y,
    };
    Ok(Arrays::new(x, y)?.bytes_as_floats())
}

/// The samples, with a weight for each if there are weights.
fn weighted(samples: Arrays, weights: Option<Tensor>) -> Result<Arrays, Error> {
    let Some(weights) = weights else { return Ok(samples) };
    let weights = cast(&weights, DType::F32)?;
    let weights = match weights.shape() {
        &[samples, 1] => Tensor::from_bytes(TensorType::new(DType::F32, [samples]), weights.into_bytes()),
        _ => Some(weights),
    };
    let weights = weights.ok_or_else(|| Error::data("the samples' weights are too many".to_owned()))?;
    samples.with(ColumnRole::Weight, Some("sample_weight"), weights)
}

fn cast(tensor: &Tensor, dtype: DType) -> Result<Tensor, Error> {
    let cast = Tensor::from_scalars(TensorType::new(dtype, tensor.shape()), tensor.scalars());
    cast.ok_or_else(|| Error::data("an array is too large".to_owned()))
}

fn read_npy(path: &Path) -> Result<Tensor, Error> {
    let failed = |what: String| Error::data(format!("{}: {what}", path.display()));
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    npy::read(BufReader::new(file)).map_err(|error| failed(error.to_string()))
}

fn npz(path: &Path) -> Result<Samples, Error> {
    let failed = |what: String| Error::data(format!("{}: {what}", path.display()));
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| failed(error.to_string()))?;
    let mut read = |name: &str| -> Result<Option<Tensor>, Error> {
        let Ok(mut entry) = archive.by_name(&format!("{name}.npy")) else { return Ok(None) };
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(|error| failed(format!("{name}: {error}")))?;
        npy::read(bytes.as_slice()).map(Some).map_err(|error| failed(format!("{name}: {error}")))
    };
    let mut set = |part: &str| -> Result<Option<Box<dyn Dataset>>, Error> {
        match (read(&format!("x{part}"))?, read(&format!("y{part}"))?) {
            (Some(x), Some(y)) => {
                let weights = read(&format!("sample_weight{part}"))?;
                Ok(Some(boxed(weighted(arrays(x, y)?, weights)?)))
            }
            _ => Ok(None),
        }
    };
    let train = match set("_train")? {
        Some(train) => Some(train),
        None => set("")?,
    };
    let test = set("_test")?;
    let train = train.ok_or_else(|| failed("it has no arrays `x_train` and `y_train`".to_owned()))?;
    Ok(Samples { train, test })
}
