//! Folders of images: one for each class, or one for each input and output of a model, or images
//! that are all inputs. Images are read on demand.
//!
//! - Classes are numbered in the order of their names, or as in the training samples.
//! - An input is f32 in the model's declared shape, to which images are resized. Without declared
//!   sizes all images have one size, and the shape is `[height, width, channels]`.
//! - A target is i32[height, width], the stored numbers, if the first image is grey or has a
//!   palette, such as a mask of class numbers; otherwise f32[height, width, 3]. It is resized with
//!   the input if it has the input's size: class numbers to those of the nearest pixels.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType, with_room};
use tile_lang::listed;

use super::folder::Wanted;
use super::mask::Mask;
use super::picture::{self, Pixels, decode, height_and_width, is_picture, own_channels, reader};
use crate::error::Error;
use crate::model::Declared;
use crate::train::{Column, ColumnRole, Dataset};

/// Samples that are images.
pub struct Images {
    columns: Vec<Pictures>,
    /// The class of each sample, if folders are classes.
    labels: Option<Vec<i32>>,
    /// The names of the classes, by number.
    pub classes: Vec<String>,
    /// Notes about files and folders that were skipped.
    pub notes: Vec<String>,
}

impl Images {
    /// Opens a folder. Its folders are the inputs and outputs of the model if one has the name of
    /// an input, and classes otherwise. Images in the folder itself are inputs without targets.
    ///
    /// # Errors
    /// Returns [`Error::Data`] if a folder or the start of an image file cannot be read, images
    /// that are not resized differ in size, there are images of another class, or a sample lacks
    /// an image.
    pub fn open(folder: &Path, wanted: &Wanted) -> Result<Images, Error> {
        if let Some(named) = Images::named(folder, wanted)? {
            return Ok(named);
        }
        let inputs = pictures_in(folder)?;
        let mut notes: Vec<String> = unread_pictures(&entries(folder)?).into_iter().collect();
        let Some(first) = inputs.first() else { return Images::by_class(folder, wanted) };
        let folders = picture_folders(folder);
        if !folders.is_empty() {
            let name = |path: &Path| path.file_name().unwrap_or_default().display().to_string();
            let folders: Vec<String> = folders.iter().map(|folder| name(folder)).collect();
            notes.push(format!(
                "not used: the pictures in {}, because there are pictures beside, such as `{}`",
                listed(&folders),
                name(first)
            ));
        }
        let declared = wanted.inputs.first().and_then(|(_, declared)| declared.as_ref());
        let columns = vec![Pictures::input(None, inputs, declared, wanted.pixels)?];
        Ok(Images { columns, labels: None, classes: Vec::new(), notes })
    }

    /// Opens a folder with a folder for each class. If no classes are wanted, every folder with
    /// images is one.
    fn by_class(folder: &Path, wanted: &Wanted) -> Result<Images, Error> {
        let (mut found, mut notes) = (Vec::new(), Vec::new());
        for path in entries(folder)?.into_iter().filter(|path| path.is_dir()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let pictures = pictures_in(&path)?;
            notes.extend(unread_pictures(&entries(&path)?));
            if pictures.is_empty() {
                notes.push(format!("`{name}` has no picture, and is no class"));
            } else {
                found.push((name, pictures));
            }
        }
        check_names(folder, found.iter().map(|(name, _)| name.as_str()), wanted)?;
        let classes = match &wanted.classes[..] {
            [] => found.iter().map(|(name, _)| name.clone()).collect(),
            classes => classes.to_vec(),
        };
        let (mut files, mut labels) = (Vec::new(), Vec::new());
        for (name, pictures) in found {
            let Some(class) = classes.iter().position(|class| *class == name) else {
                let what = format!(
                    "there is no class `{name}` to train on: the classes are {}",
                    listed(&classes)
                );
                return Err(Error::data(format!("{}: {what}", folder.display())));
            };
            labels.extend(pictures.iter().map(|_| class as i32));
            files.extend(pictures);
        }
        if files.is_empty() {
            return Err(Error::data(format!(
                "{}: there is no picture in its folders",
                folder.display()
            )));
        }
        let declared = wanted.inputs.first().and_then(|(_, declared)| declared.as_ref());
        let columns = vec![Pictures::input(None, files, declared, wanted.pixels)?];
        Ok(Images { columns, labels: Some(labels), classes, notes })
    }

    /// Opens a folder with folders that have the names of inputs and outputs. Returns `None` if
    /// none has the name of an input. The images of a sample have the same name in each.
    fn named(folder: &Path, wanted: &Wanted) -> Result<Option<Images>, Error> {
        let pictures = |name: &str| -> Result<Vec<PathBuf>, Error> {
            let path = folder.join(name);
            if path.is_dir() { pictures_in(&path) } else { Ok(Vec::new()) }
        };
        let mut columns: Vec<Pictures> = Vec::new();
        for (name, declared) in &wanted.inputs {
            let files = pictures(name)?;
            if !files.is_empty() {
                columns.push(Pictures::input(Some(name), files, declared.as_ref(), wanted.pixels)?);
            }
        }
        if columns.is_empty() {
            return Ok(None);
        }
        for name in &wanted.outputs {
            let files = pictures(name)?;
            if !files.is_empty() {
                columns.push(Pictures::target(name, files, &columns[0])?);
            }
        }
        if let Some((first, others)) = columns.split_first() {
            others.iter().try_for_each(|other| same_names(folder, first, other))?;
        }
        let mut notes = Vec::new();
        for path in entries(folder)?.into_iter().filter(|path| path.is_dir()) {
            notes.extend(unread_pictures(&entries(&path)?));
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_used =
                columns.iter().any(|column| column.column.name.as_deref() == Some(&*name));
            if !is_used && has_pictures(&path) {
                let near = wanted.outputs.iter().find(|output| is_near(&name, output));
                let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                notes.push(format!(
                    "not used: `{name}`, of which no input or output has the name{near}"
                ));
            }
        }
        Ok(Some(Images { columns, labels: None, classes: Vec::new(), notes }))
    }
}

/// The images of an input or output, one for each sample.
struct Pictures {
    column: Column,
    files: Vec<PathBuf>,
    form: Form,
    /// The sides of every image, if images are not resized.
    sides: Option<(u32, u32)>,
}

/// The way in which an image becomes a tensor.
enum Form {
    /// Values of pixels, in a type whose sizes are all known.
    Values(Declared, Pixels),
    /// Class numbers.
    Mask,
}

impl Pictures {
    /// Returns the images of an input.
    fn input(
        name: Option<&str>,
        files: Vec<PathBuf>,
        declared: Option<&Declared>,
        pixels: Pixels,
    ) -> Result<Pictures, Error> {
        // An input of rank 2 takes no image: it is read as it is, and the program refuses its
        // shape.
        let declared = declared.filter(|declared| declared.sizes.len() > 2);
        let sizes = declared.map_or(vec![None; 4], |declared| declared.sizes.clone());
        let channels_last = declared.is_none_or(|declared| declared.channels_last);
        let sizes: Vec<_> = [Some(1)].into_iter().chain(sizes.into_iter().skip(1)).collect();
        let is_resized = sizes.iter().all(Option::is_some);
        let declared = Declared { dtype: DType::F32, sizes, channels_last };
        let shape = picture::read(&files[0], &declared, pixels)?.shape().to_vec();
        let column = column(ColumnRole::Input, name, TensorType::new(DType::F32, &shape[1..]));
        let form = Form::Values(
            Declared { sizes: shape.into_iter().map(Some).collect(), ..declared },
            pixels,
        );
        Pictures::new(column, files, form, is_resized)
    }

    /// Returns the images of a target of the samples of `input`.
    fn target(name: &str, files: Vec<PathBuf>, input: &Pictures) -> Result<Pictures, Error> {
        let is_resized =
            input.sides.is_none() && dimensions(&files[0])? == dimensions(&input.files[0])?;
        let resized = match &input.form {
            Form::Values(declared, _) if is_resized => height_and_width(declared),
            _ => None,
        };
        let sides = |own: [usize; 2]| resized.unwrap_or(own);
        let (ty, form) = match Mask::read(&files[0])? {
            Some(mask) => (TensorType::new(DType::I32, sides(mask.sides())), Form::Mask),
            None => {
                let (picture, _) = decode(&files[0])?;
                let [height, width] = sides([picture.height() as usize, picture.width() as usize]);
                let ty = TensorType::new(DType::F32, [height, width, own_channels(&picture)]);
                let sizes = ty.shape.iter().copied().map(Some).collect();
                (
                    ty,
                    Form::Values(
                        Declared { dtype: DType::F32, sizes, channels_last: true },
                        Pixels::Raw,
                    ),
                )
            }
        };
        Pictures::new(column(ColumnRole::Target, Some(name), ty), files, form, is_resized)
    }

    /// Checks all images before the first epoch, which is cheap.
    fn new(
        column: Column,
        files: Vec<PathBuf>,
        form: Form,
        is_resized: bool,
    ) -> Result<Pictures, Error> {
        let sides = if is_resized { None } else { Some(dimensions(&files[0])?) };
        let pictures = Pictures { column, files, form, sides };
        pictures.files.iter().try_for_each(|path| pictures.check_sides(path, dimensions(path)?))?;
        Ok(pictures)
    }

    /// Checks that an image has the sides of the first one, unless it is resized.
    fn check_sides(&self, path: &Path, found: (u32, u32)) -> Result<(), Error> {
        let Some(first) = self.sides.filter(|first| *first != found) else { return Ok(()) };
        let help = match self.column.role {
            ColumnRole::Input => {
                ": an input with declared sizes, as in `Image[N, 224, 224, 3]`, resizes them"
            }
            _ => {
                ": a target is resized if its first picture has the size of the input's, which has declared sizes"
            }
        };
        let [found, first] = [found, first].map(|(width, height)| format!("{height} x {width}"));
        let what = format!("is {found} pixels, and the first picture {first}{help}");
        Err(Error::data(format!("{}: {what}", path.display())))
    }

    /// Reads an image.
    fn read(&self, path: &Path) -> Result<Tensor, Error> {
        if self.sides.is_some() {
            self.check_sides(path, dimensions(path)?)?;
        }
        let shape = &self.column.ty.shape;
        match &self.form {
            Form::Values(declared, pixels) => picture::read(path, declared, *pixels),
            Form::Mask => {
                let failed = |what: &str| Error::data(format!("{}: {what}", path.display()));
                let mask = Mask::read(path)?
                    .ok_or_else(|| failed("it has colours, and the first picture class numbers"))?;
                mask.resized(shape[0], shape[1]).ok_or_else(|| failed("it is too large"))
            }
        }
    }

    /// Reads the images of these samples.
    fn batch(&self, samples: &[usize]) -> Result<Tensor, Error> {
        let too_large = || Error::data("a batch is too large".to_owned());
        let TensorType { dtype, shape } = &self.column.ty;
        let shape: Vec<usize> = [samples.len()].into_iter().chain(shape.iter().copied()).collect();
        let ty = TensorType::new(*dtype, shape);
        let bytes = ty.checked_elements().and_then(|elements| elements.checked_mul(dtype.size()));
        let mut values: Vec<u8> = bytes.and_then(with_room).ok_or_else(too_large)?;
        for &sample in samples {
            let Some(path) = self.files.get(sample) else {
                return Err(Error::data(format!(
                    "there is no sample {sample}: there are {}",
                    self.files.len()
                )));
            };
            values.extend_from_slice(self.read(path)?.bytes());
        }
        Tensor::from_bytes(ty, values).ok_or_else(too_large)
    }
}

fn column(role: ColumnRole, name: Option<&str>, ty: TensorType) -> Column {
    Column { role, name: name.map(str::to_owned), ty }
}

/// Returns the width and the height of an image.
fn dimensions(path: &Path) -> Result<(u32, u32), Error> {
    reader(path)?.into_dimensions().map_err(|error| Error::read(path, error))
}

/// Returns the images in a folder, sorted by name without extension.
fn pictures_in(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut pictures = entries(folder)?;
    pictures.retain(|path| is_picture(path));
    pictures.sort_by(|a, b| a.file_stem().cmp(&b.file_stem()));
    Ok(pictures)
}

/// Returns whether two names differ only in case and in an `s` at the end.
fn is_near(one: &str, other: &str) -> bool {
    let short = |name: &str| name.to_lowercase().trim_end_matches('s').to_owned();
    one != other && short(one) == short(other)
}

/// Refuses folders that are meant for inputs and outputs, but have other names than these.
fn check_names<'a>(
    folder: &Path,
    names: impl Iterator<Item = &'a str> + Clone,
    wanted: &Wanted,
) -> Result<(), Error> {
    let inputs = wanted.inputs.iter().map(|(input, _)| input);
    let near = |name: &str| {
        inputs.clone().chain(&wanted.outputs).find(|other| is_near(name, other)).map(String::as_str)
    };
    let is_input = |name: &str| inputs.clone().any(|input| is_near(name, input));
    if !names.clone().all(|name| near(name).is_some()) || !names.clone().any(is_input) {
        return Ok(());
    }
    let renamed: Vec<String> =
        names.filter_map(|name| Some(format!("`{name}` to `{}`", near(name)?))).collect();
    Err(Error::data(format!(
        "{}: folders with pictures for inputs and outputs have their names: rename {}",
        folder.display(),
        listed(&renamed)
    )))
}

/// The extensions of pictures that cannot be read.
const UNREAD: [&str; 8] = ["avif", "bmp", "gif", "heic", "jxl", "tif", "tiff", "webp"];

/// Returns a note about the pictures among files that cannot be read, if there are any.
pub fn unread_pictures(files: &[PathBuf]) -> Option<String> {
    let is_unread = |file: &&PathBuf| {
        let extension = file.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|e| UNREAD.iter().any(|unread| e.eq_ignore_ascii_case(unread)))
    };
    let mut unread = files.iter().filter(is_unread);
    let (first, others) = (unread.next()?.display(), unread.count());
    let others = if others == 0 { String::new() } else { format!(" and {others} more") };
    Some(format!("not read: {first}{others}: pictures are .png and .jpg files"))
}

/// Checks that two columns have images of the same names.
fn same_names(folder: &Path, first: &Pictures, other: &Pictures) -> Result<(), Error> {
    let [one, two] = [first, other].map(|column| column.column.name.as_deref().unwrap_or_default());
    let mut pairs = first.files.iter().zip(&other.files);
    let what = match pairs.find(|(a, b)| a.file_stem() != b.file_stem()) {
        Some((a, b)) => {
            let [a, b] =
                [a, b].map(|path| path.file_name().unwrap_or_default().display().to_string());
            format!(
                "the pictures of a sample have the same name, and `{one}` has {a} where `{two}` has {b}"
            )
        }
        None if first.files.len() == other.files.len() => return Ok(()),
        None => format!(
            "`{one}` has {} pictures, and `{two}` has {}",
            first.files.len(),
            other.files.len()
        ),
    };
    Err(Error::data(format!("{}: {what}", folder.display())))
}

/// Returns whether a folder has images.
pub fn has_pictures(folder: &Path) -> bool {
    entries(folder).is_ok_and(|files| files.iter().any(|file| is_picture(file)))
}

/// Returns the folders with images in a folder.
pub fn picture_folders(folder: &Path) -> Vec<PathBuf> {
    let mut folders = entries(folder).unwrap_or_default();
    folders.retain(|path| has_pictures(path));
    folders
}

/// Returns the entries of a folder sorted by name, without those hidden by a dot.
pub fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |error: std::io::Error| Error::read(folder, error);
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>().map_err(failed)?;
    paths.retain(|path| {
        !path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
    });
    paths.sort();
    Ok(paths)
}

impl Dataset for Images {
    fn len(&self) -> usize {
        self.columns.first().map_or(0, |column| column.files.len())
    }

    fn columns(&self) -> Vec<Column> {
        let class =
            Column { role: ColumnRole::Target, name: None, ty: TensorType::new(DType::I32, []) };
        let columns = self.columns.iter().map(|pictures| pictures.column.clone());
        columns.chain(self.labels.as_ref().map(|_| class)).collect()
    }

    fn batch(&self, samples: &[usize]) -> Result<Vec<Tensor>, Error> {
        let mut batch = self
            .columns
            .iter()
            .map(|column| column.batch(samples))
            .collect::<Result<Vec<_>, _>>()?;
        if let Some(labels) = &self.labels {
            let classes = samples.iter().map(|&sample| Scalar::i32(labels[sample]));
            let classes =
                Tensor::from_scalars(TensorType::new(DType::I32, [samples.len()]), classes);
            batch.push(classes.ok_or_else(|| Error::data("a batch is too large".to_owned()))?);
        }
        Ok(batch)
    }

    /// The classes are known; the pictures are read on demand.
    fn whole_column(&self, column: usize) -> Option<Cow<'_, Tensor>> {
        let labels = self.labels.as_ref().filter(|_| column == self.columns.len())?;
        let classes = labels.iter().map(|class| Scalar::i32(*class));
        Tensor::from_scalars(TensorType::new(DType::I32, [labels.len()]), classes).map(Cow::Owned)
    }

    fn place(&self, sample: usize) -> String {
        let file = self.columns.first().and_then(|column| column.files.get(sample));
        file.map_or_else(|| format!("row {sample}"), |file| file.display().to_string())
    }
}
