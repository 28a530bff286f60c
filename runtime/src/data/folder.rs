//! Finds the samples in a folder or a file.
//!
//! - `…images-idx3-ubyte` and `…labels-idx1-ubyte`, plain or `.gz`. Names with `t10k` or `test` are
//!   for tests, all others for training.
//! - `x.npy` and `y.npy`, optionally with `sample_weight.npy`.
//! - An `.npz` file with `x_train`, `y_train` and optionally `sample_weight_train`, and optionally
//!   the same with `_test`. The names may also be `x`, `y` and `sample_weight`.
//! - A `.csv` file.
//! - A folder of png or jpeg images for each class, or folders `train` and `test` with such
//!   folders.
//!
//! Rules:
//! - A folder has samples of one form. An ambiguous folder is an error, and so is an incomplete
//!   pair.
//! - Files whose names begin with a dot are ignored.
//! - Values are finite.
//! - Integer targets, except u64, are converted to i32 if they fit.

use std::borrow::Cow;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType};
use zip::ZipArchive;
use zip::result::ZipError;

pub use super::images::entries;
use super::images::{Images, has_pictures};
use super::{idx, table};
use crate::error::{Error, Source};
use crate::files::{Allowance, npy, open_file};
use crate::train::{Arrays, ColumnRole, Dataset};

/// Samples for training and, if they are separate, for tests.
pub struct Samples {
    pub train: Box<dyn Dataset>,
    pub test: Option<Box<dyn Dataset>>,
    /// The class names by number, if folders are the classes. Otherwise empty.
    pub classes: Vec<String>,
}

/// Opens a folder or file.
///
/// # Errors
/// Returns [`Error::Data`] if it has no samples, is ambiguous or is damaged. The error names the
/// file.
pub fn open(path: &Path) -> Result<Samples, Error> {
    open_with_classes(path, &[])
}

/// Does the same as [`open`], but numbers the classes of images as in `classes`, the classes of the
/// training samples. If `classes` is empty, they are numbered in the order of their names.
///
/// # Errors
/// Also fails if there are images of another class.
pub fn open_with_classes(path: &Path, classes: &[String]) -> Result<Samples, Error> {
    let failed = |what: String| Error::data(format!("{}: {what}", path.display()));
    if !path.exists() {
        return Err(failed("there is no such folder or file".to_owned()));
    }
    let files = if path.is_dir() { entries(path)? } else { vec![path.to_owned()] };
    let all = |wanted: &dyn Fn(&str) -> bool| -> Vec<&PathBuf> {
        files.iter().filter(|file| file.is_file() && wanted(&name(file))).collect()
    };
    let find = |wanted: &str| files.iter().find(|file| name(file) == wanted);
    let idx = all(&|name| name.contains("-idx3-ubyte") || name.contains("-idx1-ubyte"));
    let (x, y) = (find("x.npy"), find("y.npy"));
    let (archives, tables) = (all(&|name| name.ends_with(".npz")), all(&|name| name.ends_with(".csv")));
    let (train, test) = (path.join("train"), path.join("test"));
    let parted = has_pictures(&train);
    let kinds = [
        (!idx.is_empty(), "idx files"),
        (x.is_some() || y.is_some(), ".npy files"),
        (!archives.is_empty(), "an .npz file"),
        (!tables.is_empty(), "a .csv file"),
        (parted || has_pictures(path), "folders of pictures"),
    ];
    let found: Vec<&str> = kinds.into_iter().filter_map(|(is_there, kind)| is_there.then_some(kind)).collect();
    if found.len() > 1 {
        return Err(failed(format!(
            "it has {}: say which by naming a file, or a folder with that alone",
            found.join(" and ")
        )));
    }
    let arrays = |train, test| Samples { train, test, classes: Vec::new() };
    if !idx.is_empty() {
        let is_test = |file: &PathBuf| ["t10k", "test"].iter().any(|word| name(file).contains(word));
        let (test, train): (Vec<&PathBuf>, Vec<&PathBuf>) = idx.into_iter().partition(|file| is_test(file));
        return match (idx_pair(path, &train)?, idx_pair(path, &test)?) {
            (Some(train), test) => Ok(arrays(train, test)),
            (None, Some(test)) => Ok(arrays(test, None)),
            (None, None) => Err(failed("it has no samples".to_owned())),
        };
    }
    if x.is_some() || y.is_some() {
        let read = |file: &PathBuf| -> Result<Array, Error> {
            let (tensor, allowance) = read_npy(file)?;
            Ok(Array { tensor, name: file.display().to_string(), allowance })
        };
        let (Some(x), Some(y)) = (x, y) else {
            let missing = if x.is_none() { "x.npy" } else { "y.npy" };
            return Err(failed(format!("{missing} is missing")));
        };
        let weights = find("sample_weight.npy").map(read).transpose()?;
        return Ok(arrays(samples(read(x)?, read(y)?, weights)?, None));
    }
    if let Some(file) = only(path, &archives)? {
        return npz(file);
    }
    if let Some(file) = only(path, &tables)? {
        return Ok(arrays(Box::new(table::read(file)?), None));
    }
    if parted || has_pictures(path) {
        let train = Images::open(if parted { &train } else { path }, classes)?;
        let classes = train.classes.clone();
        let is_there = parted && has_pictures(&test);
        let test = if is_there { Some(Images::open(&test, &classes)?) } else { None };
        return Ok(Samples { train: Box::new(train), test: test.map(|test| Box::new(test) as _), classes });
    }
    let kinds = "idx files, x.npy and y.npy, an .npz, a .csv, nor a folder of pictures for each class";
    Err(failed(format!("there are no samples in it: neither {kinds}")))
}

/// Returns the name of a file. Invalid Unicode is replaced, since only the start and the end of the
/// name matter.
fn name(file: &Path) -> Cow<'_, str> {
    file.file_name().unwrap_or_default().to_string_lossy()
}

/// Returns the only file of a kind. Fails if there are several.
fn only<'a>(folder: &Path, files: &[&'a PathBuf]) -> Result<Option<&'a PathBuf>, Error> {
    match files {
        [] => Ok(None),
        [file] => Ok(Some(file)),
        _ => {
            let names = files.iter().map(|file| name(file)).collect::<Vec<_>>().join(" and ");
            Err(Error::data(format!("{}: it has {names}: say which, by its path", folder.display())))
        }
    }
}

/// Returns the samples of a pair of idx files, or `None` if `files` is empty.
fn idx_pair(folder: &Path, files: &[&PathBuf]) -> Result<Option<Box<dyn Dataset>>, Error> {
    let of = |kind: &str| {
        let mut files: Vec<&PathBuf> = files.iter().filter(|file| name(file).contains(kind)).copied().collect();
        // A .gz file beside its unpacked copy is not counted.
        let is_gzip = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "gz");
        files.dedup_by(|packed, plain| is_gzip(packed) && packed.with_extension("") == **plain);
        only(folder, &files)
    };
    let array = |file: &PathBuf| -> Result<Array, Error> {
        let (tensor, allowance) = idx::read(file)?;
        Ok(Array { tensor, name: file.display().to_string(), allowance })
    };
    match (of("-idx3-ubyte")?, of("-idx1-ubyte")?) {
        (Some(x), Some(y)) => Ok(Some(samples(array(x)?, array(y)?, None)?)),
        (Some(file), None) => Err(Error::data(format!("{}: the labels for it are missing", file.display()))),
        (None, Some(file)) => Err(Error::data(format!("{}: the images for it are missing", file.display()))),
        (None, None) => Ok(None),
    }
}

/// A tensor and its name in messages.
struct Array {
    tensor: Tensor,
    name: String,
    /// The remaining allowance of its file.
    allowance: Allowance,
}

impl Array {
    /// Converts the elements to another type.
    fn cast(mut self, dtype: DType) -> Result<Tensor, Error> {
        let failed = |what: &dyn std::fmt::Display| Error::data(format!("{}: {what}", self.name));
        let ty = TensorType::new(dtype, self.tensor.shape());
        self.allowance.tensor(&ty).map_err(|error| failed(&error))?;
        Tensor::from_scalars(ty, self.tensor.scalars()).ok_or_else(|| failed(&"it is too large"))
    }
}

/// Combines inputs, targets and optional sample weights.
fn samples(x: Array, y: Array, weights: Option<Array>) -> Result<Box<dyn Dataset>, Error> {
    for array in [&x, &y].into_iter().chain(&weights) {
        match (array.tensor.shape().first(), x.tensor.shape().first()) {
            (None, _) => return Err(Error::data(format!("{} is one number, and has no axis of samples", array.name))),
            (Some(0), _) => return Err(Error::data(format!("{} has no samples", array.name))),
            (Some(count), Some(others)) if count != others => {
                let message = format!("{} has {count} samples, and {} has {others}", array.name, x.name);
                return Err(Error::data(message));
            }
            _ => {}
        }
        if let Some((sample, value)) = first_infinite(&array.tensor) {
            let message = format!("{}: there is {value} in sample {sample}, counted from 0", array.name);
            return Err(Error::data(message));
        }
    }
    let fits = |value: Scalar| i32::try_from(value.to_i64()).is_ok();
    let y = match y.tensor.dtype() {
        DType::I32 | DType::U64 => y.tensor,
        dtype if dtype.is_float() => y.tensor,
        DType::U32 | DType::I64 if !y.tensor.scalars().all(fits) => y.tensor,
        _ => y.cast(DType::I32)?,
    };
    // Some files have label numbers as a column.
    let y = if y.dtype().is_float() { y } else { flat(y)? };
    let mut samples = Arrays::new(x.tensor, y)?;
    if let Some(weights) = weights {
        let weights = flat(weights.cast(DType::F32)?)?;
        samples = samples.with(ColumnRole::Weight, Some("sample_weight"), weights)?;
    }
    Ok(Box::new(samples))
}

/// Reshapes a column to rank 1. Returns other tensors unchanged.
fn flat(tensor: Tensor) -> Result<Tensor, Error> {
    let &[samples, 1] = tensor.shape() else { return Ok(tensor) };
    let ty = TensorType::new(tensor.dtype(), [samples]);
    Tensor::from_bytes(ty, tensor.into_bytes()).ok_or_else(|| Error::data("an array is too large".to_owned()))
}

/// Returns the first sample with a NaN or infinite value, and that value.
fn first_infinite(tensor: &Tensor) -> Option<(usize, f64)> {
    let at = match tensor.dtype() {
        DType::F32 => {
            tensor.bytes().as_chunks::<4>().0.iter().position(|bytes| !f32::from_le_bytes(*bytes).is_finite())
        }
        dtype if dtype.is_float() => tensor.scalars().position(|value| !value.to_f64().is_finite()),
        _ => None,
    }?;
    Some((at / tensor.shape().iter().skip(1).product::<usize>().max(1), tensor.get(at).to_f64()))
}

/// Reads the array of a file. Returns the remaining allowance, too.
fn read_npy(path: &Path) -> Result<(Tensor, Allowance), Error> {
    let read = |path: &Path| -> Result<(Tensor, Allowance), Source> {
        let file = open_file(path)?;
        let mut allowance = Allowance::of(&file, None)?;
        Ok((npy::read_within(BufReader::new(file), &mut allowance)?, allowance))
    };
    read(path).map_err(|error| Error::read(path, error))
}

fn npz(path: &Path) -> Result<Samples, Error> {
    let failed = |what: String| Error::data(format!("{}: {what}", path.display()));
    let file = open_file(path).map_err(|error| Error::read(path, error))?;
    let mut allowance = Allowance::of(&file, None).map_err(|error| Error::read(path, error))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| Error::read(path, error))?;
    let mut read = |name: &str| -> Result<Option<Array>, Error> {
        let failed = |error: &dyn std::error::Error| failed(format!("`{name}`: {error}"));
        let mut entry = match archive.by_name(&format!("{name}.npy")) {
            Err(ZipError::FileNotFound) => return Ok(None),
            entry => entry.map_err(|error| failed(&error))?,
        };
        let tensor = npy::read_entry(&mut entry, &mut allowance).map_err(|error| failed(&error))?;
        let name = format!("{}: `{name}`", path.display());
        Ok(Some(Array { tensor, name, allowance: allowance.clone() }))
    };
    let mut set = |part: &str| -> Result<Option<Box<dyn Dataset>>, Error> {
        match (read(&format!("x{part}"))?, read(&format!("y{part}"))?) {
            (Some(x), Some(y)) => Ok(Some(samples(x, y, read(&format!("sample_weight{part}"))?)?)),
            (None, None) => Ok(None),
            (Some(_), None) => Err(failed(format!("it has an array `x{part}`, and no `y{part}`"))),
            (None, Some(_)) => Err(failed(format!("it has an array `y{part}`, and no `x{part}`"))),
        }
    };
    let train = match set("_train")? {
        Some(train) => Some(train),
        None => set("")?,
    };
    let test = set("_test")?;
    let train = train.ok_or_else(|| failed("it has no arrays `x_train` and `y_train`".to_owned()))?;
    Ok(Samples { train, test, classes: Vec::new() })
}
