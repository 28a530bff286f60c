//! A folder with a folder of images for each class. Classes are numbered in the order of their
//! names, or as in the training samples. Images are read on demand.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType, with_room};
use tile_lang::listed;

use super::picture::{decode, is_picture, own_channels, reader, with_channels};
use crate::error::Error;
use crate::train::{Column, ColumnRole, Dataset};

/// Images of equal size. Inputs are f32[height, width, 3] from 0 to 255, with one channel if the
/// first image is grey. Targets are i32.
pub struct Images {
    files: Vec<(PathBuf, i32)>,
    shape: [usize; 3],
    /// The names of the classes, by number.
    pub classes: Vec<String>,
}

impl Images {
    /// Opens a folder with the given classes. If `classes` is empty, every folder with images is a
    /// class.
    ///
    /// # Errors
    /// Returns [`Error::Data`] if a folder or the start of an image file cannot be read, images
    /// differ in size or there are images of another class.
    pub fn open(folder: &Path, classes: &[String]) -> Result<Images, Error> {
        let mut found = Vec::new();
        for path in entries(folder)?.into_iter().filter(|path| path.is_dir()) {
            let mut pictures = entries(&path)?;
            pictures.retain(|path| is_picture(path));
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.extend((!pictures.is_empty()).then_some((name, pictures)));
        }
        let classes = match classes {
            [] => found.iter().map(|(name, _)| name.clone()).collect(),
            classes => classes.to_vec(),
        };
        let mut files = Vec::new();
        for (name, pictures) in found {
            let Some(class) = classes.iter().position(|class| *class == name) else {
                let what = format!("there is no class `{name}` to train on: the classes are {}", listed(&classes));
                return Err(Error::data(format!("{}: {what}", folder.display())));
            };
            files.extend(pictures.into_iter().map(|picture| (picture, class as i32)));
        }
        let Some((first, _)) = files.first() else {
            return Err(Error::data(format!("{}: there is no picture in its folders", folder.display())));
        };
        let (picture, _) = decode(first)?;
        let shape = [picture.height() as usize, picture.width() as usize, own_channels(&picture)];
        // Checks the sizes of all images before the first epoch, which is cheap.
        for (path, _) in &files {
            has_size(path, reader(path)?.into_dimensions().map_err(|error| Error::read(path, error))?, &shape)?;
        }
        Ok(Images { files, shape, classes })
    }
}

/// Returns whether a folder has folders of images.
pub fn has_pictures(folder: &Path) -> bool {
    let has_picture = |path: &PathBuf| entries(path).is_ok_and(|files| files.iter().any(|file| is_picture(file)));
    entries(folder).is_ok_and(|classes| classes.iter().any(has_picture))
}

/// Returns the entries of a folder sorted by name, without those hidden by a dot.
pub fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |error: std::io::Error| Error::read(folder, error);
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>().map_err(failed)?;
    paths.retain(|path| !path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")));
    paths.sort();
    Ok(paths)
}

/// Checks that an image has the common size.
fn has_size(path: &Path, (width, height): (u32, u32), shape: &[usize; 3]) -> Result<(), Error> {
    if [height as usize, width as usize] == shape[..2] {
        return Ok(());
    }
    let message = format!("is {height} x {width} pixels, and the first picture {} x {}", shape[0], shape[1]);
    Err(Error::data(format!("{}: {message}", path.display())))
}

impl Dataset for Images {
    fn len(&self) -> usize {
        self.files.len()
    }

    fn columns(&self) -> Vec<Column> {
        let column = |role, dtype, shape: &[usize]| Column { role, name: None, ty: TensorType::new(dtype, shape) };
        vec![column(ColumnRole::Input, DType::F32, &self.shape), column(ColumnRole::Target, DType::I32, &[])]
    }

    fn batch(&self, samples: &[usize]) -> Result<Vec<Tensor>, Error> {
        let [height, width, channels] = self.shape;
        let too_large = || Error::data("a batch is too large".to_owned());
        let ty = TensorType::new(DType::F32, [samples.len(), height, width, channels]);
        let bytes = ty.checked_elements().and_then(|elements| elements.checked_mul(4));
        let mut x: Vec<u8> = bytes.and_then(with_room).ok_or_else(too_large)?;
        let mut y: Vec<u8> = Vec::new();
        for &sample in samples {
            let Some((path, class)) = self.files.get(sample) else {
                return Err(Error::data(format!("there is no sample {sample}: there are {}", self.files.len())));
            };
            let (picture, mut allowance) = decode(path)?;
            has_size(path, (picture.width(), picture.height()), &self.shape)?;
            let picture = with_channels(picture, channels, &mut allowance).map_err(|error| Error::read(path, error))?;
            let bytes = picture.map(|picture| picture.into_bytes());
            x.extend(bytes.into_iter().flatten().flat_map(|byte| f32::from(byte).to_le_bytes()));
            y.extend(class.to_le_bytes());
        }
        let x = Tensor::from_bytes(ty, x);
        let y = Tensor::from_bytes(TensorType::new(DType::I32, [samples.len()]), y);
        x.zip(y).map(|(x, y)| vec![x, y]).ok_or_else(too_large)
    }

    /// The classes are known; the pictures are read on demand.
    fn whole_column(&self, column: usize) -> Option<Cow<'_, Tensor>> {
        let is_class = self.columns().get(column)?.role == ColumnRole::Target;
        let classes = self.files.iter().map(|(_, class)| Scalar::i32(*class));
        let ty = TensorType::new(DType::I32, [self.files.len()]);
        if is_class { Tensor::from_scalars(ty, classes).map(Cow::Owned) } else { None }
    }
}
