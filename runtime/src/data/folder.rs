//! Finds the samples in a folder or a file.
//!
//! - `…images-idx3-ubyte` and `…labels-idx1-ubyte`, plain or `.gz`. Names with `t10k` or `test` are
//!   for tests, all others for training.
//! - `.npy` files with the names of the model's inputs and outputs, or `x.npy` and `y.npy`,
//!   optionally with `sample_weight.npy`.
//! - An `.npz` file with arrays of these names. Those of `_train` and `_test` are separate:
//!   `x_train`, `y_train`, `x_test`, `y_test`.
//! - A `.csv` file.
//! - A folder of png or jpeg images for each class, or for each input and output of the model, or
//!   images that are inputs without targets; or folders `train` and `test` with these.
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

use tile_compiler::tensor::Tensor;
use zip::ZipArchive;

use super::images::{Images, has_pictures, picture_folders};
pub use super::images::{entries, unread_pictures};
use super::named::{Array, Column};
use super::picture::Pixels;
use super::{idx, named, table};
use crate::error::{Error, Source};
use crate::files::{Allowance, npy, open_file};
use crate::model::Declared;
use crate::train::{ColumnRole, Dataset, TableColumns};

/// Samples for training and, if they are separate, for tests.
#[non_exhaustive]
pub struct Samples {
    /// The samples to train on.
    pub train: Box<dyn Dataset>,
    /// The samples to test with, if there are any.
    pub test: Option<Box<dyn Dataset>>,
    /// The class names by number, if folders are the classes. Otherwise empty.
    pub classes: Vec<String>,
    /// The names of arrays and folders that belong to no input or output.
    pub unused: Vec<String>,
    /// The columns of a table.
    pub columns: TableColumns,
    /// True if inputs are pictures.
    pub has_pictures: bool,
    /// Notes about files and folders that were skipped.
    pub notes: Vec<String>,
}

impl Samples {
    pub(super) fn new(train: Box<dyn Dataset>, test: Option<Box<dyn Dataset>>) -> Samples {
        Samples {
            train,
            test,
            classes: Vec::new(),
            unused: Vec::new(),
            columns: TableColumns::default(),
            has_pictures: false,
            notes: Vec::new(),
        }
    }

    fn pictures(train: Images, test: Option<Images>) -> Samples {
        let classes = train.classes.clone();
        let mut notes = train.notes.clone();
        notes.extend(test.iter().flat_map(|test| test.notes.clone()));
        let test = test.map(|test| Box::new(test) as Box<dyn Dataset>);
        Samples { classes, has_pictures: true, notes, ..Samples::new(Box::new(train), test) }
    }
}

/// The program that samples are for.
#[derive(Clone, Default)]
pub struct Wanted {
    /// The names of the model's inputs, in order, and their types as far as they are declared.
    /// Without names, arrays are called `x`, `y` and `sample_weight`.
    pub inputs: Vec<(String, Option<Declared>)>,
    /// The names of the model's outputs, in order.
    pub outputs: Vec<String>,
    /// The classes of the training samples, by which those of pictures are numbered. If they are
    /// empty, classes are numbered in the order of their names.
    pub classes: Vec<String>,
    /// The scale of the pixel values of pictures that are inputs.
    pub pixels: Pixels,
    /// The columns of a table, as far as they are known.
    pub columns: TableColumns,
}

/// Opens a folder or file.
///
/// # Errors
/// Returns [`Error::Data`] if it has no samples, is ambiguous or is damaged. The error names the
/// file.
///
/// ```
/// use tile_runtime::data::folder;
/// use tile_runtime::train::Dataset;
///
/// let path = std::env::temp_dir().join(format!("tile-doc-{}.csv", std::process::id()));
/// std::fs::write(&path, "width,height,kind\n1,2,0\n3,4,1\n5,6,1\n")?;
/// let samples = folder::open(&path)?;
/// assert_eq!(Dataset::len(&*samples.train), 3);
/// assert!(samples.test.is_none());
/// std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open(path: &Path) -> Result<Samples, Error> {
    open_for(path, &Wanted::default())
}

/// Does the same as [`open`], for a known program.
///
/// # Errors
/// Also fails if there are images of another class, or if an input is missing.
pub fn open_for(path: &Path, wanted: &Wanted) -> Result<Samples, Error> {
    let failed = |what: String| Error::data(format!("{}: {what}", path.display()));
    if let Err(absent) = path.metadata() {
        return Err(Error::read(path, absent));
    }
    let files = if path.is_dir() { entries(path)? } else { vec![path.to_owned()] };
    let all = |wanted: &dyn Fn(&str) -> bool| -> Vec<&PathBuf> {
        files.iter().filter(|file| file.is_file() && wanted(&name(file))).collect()
    };
    let idx = all(&|name| name.contains("-idx3-ubyte") || name.contains("-idx1-ubyte"));
    let is_array =
        |name: &str| name.strip_suffix(".npy").is_some_and(|name| named::is_wanted(name, wanted));
    let mut arrays = all(&is_array);
    if !arrays.is_empty() {
        arrays = all(&|name| name.ends_with(".npy"));
    }
    let (archives, tables) =
        (all(&|name| name.ends_with(".npz")), all(&|name| name.ends_with(".csv")));
    let parts = Parts::of(path);
    let has_folders = parts.is_some() || !picture_folders(path).is_empty();
    let kinds = [
        (!idx.is_empty(), "idx files"),
        (!arrays.is_empty(), ".npy files"),
        (!archives.is_empty(), "an .npz file"),
        (!tables.is_empty(), "a .csv file"),
        (has_folders, "folders of pictures"),
    ];
    let found: Vec<&str> =
        kinds.into_iter().filter_map(|(is_there, kind)| is_there.then_some(kind)).collect();
    if found.len() > 1 {
        return Err(failed(format!(
            "it has {}: say which by naming a file, or a folder with that alone",
            found.join(" and ")
        )));
    }
    if !idx.is_empty() {
        let is_test =
            |file: &PathBuf| ["t10k", "test"].iter().any(|word| name(file).contains(word));
        let (test, train): (Vec<&PathBuf>, Vec<&PathBuf>) =
            idx.into_iter().partition(|file| is_test(file));
        return match (idx_pair(path, &train)?, idx_pair(path, &test)?) {
            (Some(train), test) => Ok(Samples::new(train, test)),
            (None, Some(test)) => Ok(Samples::new(test, None)),
            (None, None) => Err(failed("it has no samples".to_owned())),
        };
    }
    if !arrays.is_empty() {
        return npy_files(path, &arrays, wanted);
    }
    if let Some(file) = only(path, &archives)? {
        return npz(file, wanted);
    }
    if let Some(file) = only(path, &tables)? {
        let table = table::read(file, &wanted.columns)?;
        let columns = table.table_columns();
        return Ok(Samples { columns, ..Samples::new(Box::new(table), None) });
    }
    if let Some(parts) = parts {
        return parts.open(wanted);
    }
    if has_folders || has_pictures(path) {
        return Ok(Samples::pictures(Images::open(path, wanted)?, None));
    }
    const KINDS: &str = "idx files, arrays called x and y or by the model's inputs and outputs (.npy, .npz), a .csv, or pictures";
    let unread = unread_pictures(&files).or_else(|| {
        let folders = files.iter().filter(|file| file.is_dir());
        folders.filter_map(|folder| unread_pictures(&entries(folder).ok()?)).next()
    });
    let unread = unread.map_or(String::new(), |unread| format!("; {unread}"));
    Err(failed(format!("there are no samples in it: expected {KINDS}{unread}")))
}

/// The folders `train` and `test` of a folder of pictures.
struct Parts {
    train: PathBuf,
    test: Option<PathBuf>,
    /// The names of other folders with pictures.
    others: Vec<String>,
}

impl Parts {
    /// Returns the parts of a folder, or `None` if it has none. A folder `train` of pictures beside
    /// others than `test` is that of a class.
    fn of(path: &Path) -> Option<Parts> {
        let (train, test) = (path.join("train"), path.join("test"));
        let is_part = |folder: &Path| has_pictures(folder) || !picture_folders(folder).is_empty();
        let mut others = entries(path).unwrap_or_default();
        others.retain(|other| *other != train && *other != test && is_part(other));
        let is_whole =
            !picture_folders(&train).is_empty() || (has_pictures(&train) && others.is_empty());
        let others = others.iter().map(|other| name(other).into_owned()).collect();
        is_whole.then(|| Parts { train, test: Some(test).filter(|test| is_part(test)), others })
    }

    fn open(self, wanted: &Wanted) -> Result<Samples, Error> {
        let train = Images::open(&self.train, wanted)?;
        let wanted = Wanted { classes: train.classes.clone(), ..wanted.clone() };
        let test = self.test.map(|test| Images::open(&test, &wanted)).transpose()?;
        Ok(Samples { unused: self.others, ..Samples::pictures(train, test) })
    }
}

/// Returns the name of a file. Invalid Unicode is replaced, since only the start and the end of the
/// name matter.
fn name(file: &Path) -> Cow<'_, str> {
    file.file_name().unwrap_or_default().to_string_lossy()
}

/// Returns the name of a file without its extension.
fn stem(file: &Path) -> Cow<'_, str> {
    file.file_stem().unwrap_or_default().to_string_lossy()
}

/// Returns the only file of a kind. Fails if there are several.
fn only<'a>(folder: &Path, files: &[&'a PathBuf]) -> Result<Option<&'a PathBuf>, Error> {
    match files {
        [] => Ok(None),
        [file] => Ok(Some(file)),
        _ => {
            let names = files.iter().map(|file| name(file)).collect::<Vec<_>>().join(" and ");
            Err(Error::data(format!(
                "{}: it has {names}: say which, by its path",
                folder.display()
            )))
        }
    }
}

/// Returns the samples of a pair of idx files, or `None` if `files` is empty.
fn idx_pair(folder: &Path, files: &[&PathBuf]) -> Result<Option<Box<dyn Dataset>>, Error> {
    let of = |kind: &str| {
        let mut files: Vec<&PathBuf> =
            files.iter().filter(|file| name(file).contains(kind)).copied().collect();
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
        (Some(x), Some(y)) => {
            let column = |role, array| Column { role, name: None, array };
            let columns =
                vec![column(ColumnRole::Input, array(x)?), column(ColumnRole::Target, array(y)?)];
            named::samples(columns).map(Some)
        }
        (Some(file), None) => {
            Err(Error::data(format!("{}: the labels for it are missing", file.display())))
        }
        (None, Some(file)) => {
            Err(Error::data(format!("{}: the images for it are missing", file.display())))
        }
        (None, None) => Ok(None),
    }
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

/// Reads the samples in .npy files.
fn npy_files(place: &Path, files: &[&PathBuf], wanted: &Wanted) -> Result<Samples, Error> {
    let names: Vec<String> = files.iter().map(|file| stem(file).into_owned()).collect();
    let mut read = |name: &str| -> Result<Array, Error> {
        let file = files
            .iter()
            .find(|file| stem(file) == name)
            .ok_or_else(|| Error::internal("an array is missing"))?;
        let (tensor, allowance) = read_npy(file)?;
        Ok(Array { tensor, name: file.display().to_string(), allowance })
    };
    named::read(&place.display().to_string(), &names, wanted, &mut read)
}

/// Reads the samples in an .npz file.
fn npz(path: &Path, wanted: &Wanted) -> Result<Samples, Error> {
    let failed = |what: String| Error::data(format!("{}: {what}", path.display()));
    let file = open_file(path).map_err(|error| Error::read(path, error))?;
    let mut allowance = Allowance::of(&file, None).map_err(|error| Error::read(path, error))?;
    let mut archive =
        ZipArchive::new(BufReader::new(file)).map_err(|error| Error::read(path, error))?;
    let names = archive
        .file_names()
        .filter_map(|name| name.strip_suffix(".npy").map(str::to_owned))
        .collect::<Vec<_>>();
    let mut read = |name: &str| -> Result<Array, Error> {
        let failed = |error: &dyn std::error::Error| failed(format!("`{name}`: {error}"));
        let mut entry = archive.by_name(&format!("{name}.npy")).map_err(|error| failed(&error))?;
        let tensor = npy::read_entry(&mut entry, &mut allowance).map_err(|error| failed(&error))?;
        let name = format!("{}: `{name}`", path.display());
        Ok(Array { tensor, name, allowance: allowance.clone() })
    };
    named::read(&path.display().to_string(), &names, wanted, &mut read)
}
