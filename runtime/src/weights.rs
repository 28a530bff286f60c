//! Weights in files: safetensors, several of them with an index, and NumPy's .npz. An entry's name is the path of the weight. What Keras writes, .h5, has names
//! of its own, which `keras` turns into paths.
//!
//! What a file has is checked before a session is touched, so that a file that does not fit leaves it as it was. Its tensors are read one
//! by one, so that there is never a second copy of them all.

#[cfg(not(target_arch = "wasm32"))]
mod hdf5;
#[cfg(not(target_arch = "wasm32"))]
mod keras;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, Metadata, TensorInfo, TensorView};
use tile_compiler::dtype::DType;
use tile_compiler::tensor::{Tensor, TensorType};
use tile_lang::did_you_mean;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::data::{npy, write_whole};
use crate::error::Error;
use crate::session::Session;

/// Why a file of weights could not be read or written.
#[derive(Debug)]
pub struct WeightsError {
    /// The file.
    pub path: String,
    pub what: String,
}

impl fmt::Display for WeightsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)
    }
}

impl std::error::Error for WeightsError {}

/// What a file's extension says that it is.
enum Format {
    SafeTensors,
    Npz,
    /// The list of which tensor is in which of several safetensors files beside it.
    Index,
    #[cfg(not(target_arch = "wasm32"))]
    Keras,
}

fn format(path: &Path) -> Result<Format, WeightsError> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("safetensors") => Ok(Format::SafeTensors),
        Some("npz") => Ok(Format::Npz),
        Some("json") => Ok(Format::Index),
        #[cfg(not(target_arch = "wasm32"))]
        Some("h5") => Ok(Format::Keras),
        _ => Err(error(
            path,
            "the name of a file of weights ends in .safetensors, .safetensors.index.json, .npz or .weights.h5",
        )),
    }
}

pub(crate) fn error(path: &Path, what: impl fmt::Display) -> WeightsError {
    WeightsError { path: path.display().to_string(), what: what.to_string() }
}

/// A .safetensors, .npz or .h5 file, or the index of several, open: what it has is known, and each tensor is read when it is wanted.
pub struct WeightsFile {
    path: PathBuf,
    tensors: Vec<(String, TensorType)>,
    content: Content,
}

enum Content {
    SafeTensors {
        file: File,
        /// Where each tensor's bytes begin.
        starts: Vec<u64>,
    },
    /// An entry a tensor.
    Npz(ZipArchive<BufReader<File>>),
    /// Files, and for each tensor the number of its file and its own there.
    Shards(Vec<WeightsFile>, Vec<(usize, usize)>),
    /// A dataset a tensor, and what Keras calls its layers.
    #[cfg(not(target_arch = "wasm32"))]
    Keras(Vec<hdf5_reader::Dataset>, Titles),
}

/// What Keras calls layers, by their places in its file.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) type Titles = BTreeMap<String, String>;

impl WeightsFile {
    /// # Errors
    /// Where the file cannot be read, is not in its format, is shorter or longer than it says, or has a tensor of a type that Tile has not.
    pub fn open(path: impl Into<PathBuf>) -> Result<WeightsFile, WeightsError> {
        let path = path.into();
        let format = format(&path)?;
        let file = File::open(&path).map_err(|e| error(&path, e))?;
        let (tensors, content) = match format {
            Format::SafeTensors => open_safetensors(&path, file)?,
            Format::Npz => open_npz(&path, file)?,
            Format::Index => open_index(&path, file)?,
            #[cfg(not(target_arch = "wasm32"))]
            Format::Keras => {
                let hdf5::Contents { tensors, datasets, titles } = hdf5::open(&path, file)?;
                (tensors, Content::Keras(datasets, titles))
            }
        };
        Ok(WeightsFile { path, tensors, content })
    }

    /// Names and types, in the file's order.
    pub fn tensors(&self) -> &[(String, TensorType)] {
        &self.tensors
    }

    /// What Keras calls its layers, in a file of Keras.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn titles(&self) -> Option<&Titles> {
        match &self.content {
            Content::Keras(_, titles) => Some(titles),
            _ => None,
        }
    }

    /// Reads the tensor of this number in [`WeightsFile::tensors`].
    pub fn read(&mut self, number: usize) -> Result<Tensor, WeightsError> {
        let WeightsFile { path, tensors, content } = self;
        let Some((name, ty)) = tensors.get(number) else {
            return Err(error(path, format!("there is no tensor {number}")));
        };
        let failed = |what: &dyn fmt::Display| error(path, format!("`{name}`: {what}"));
        match content {
            Content::SafeTensors { file, starts } => {
                let mut bytes = vec![0; ty.elements() * ty.dtype.size()];
                let read = file.seek(SeekFrom::Start(starts[number])).and_then(|_| file.read_exact(&mut bytes));
                read.map_err(|e| failed(&e))?;
                Tensor::from_bytes(ty.clone(), bytes)
                    .ok_or_else(|| failed(&"it has not as many bytes as its shape says"))
            }
            #[cfg(not(target_arch = "wasm32"))]
            Content::Keras(datasets, _) => {
                let bytes = hdf5::read(&datasets[number], ty.dtype.size()).map_err(|e| failed(&e))?;
                Tensor::from_bytes(ty.clone(), bytes)
                    .ok_or_else(|| failed(&"it has not as many bytes as its shape says"))
            }
            Content::Shards(files, places) => {
                let (file, number) = places[number];
                files[file].read(number)
            }
            Content::Npz(archive) => {
                let entry = archive.by_index(number).map_err(|e| failed(&e))?;
                npy::read(entry).map_err(|e| failed(&e))
            }
        }
    }
}

type Opened = (Vec<(String, TensorType)>, Content);

/// The format: the length of the header in 8 bytes, the header, then the tensors' bytes without a gap.
/// <https://github.com/huggingface/safetensors#format>
fn open_safetensors(path: &Path, mut file: File) -> Result<Opened, WeightsError> {
    let io = |e| error(path, e);
    let invalid = |what: &dyn fmt::Display| error(path, format!("this is not a valid safetensors file: {what}"));
    let length = file.metadata().map_err(io)?.len();
    let mut header_length = [0; 8];
    file.read_exact(&mut header_length).map_err(|_| invalid(&"it has no header"))?;
    let header_length = u64::from_le_bytes(header_length);
    let begin = header_length.checked_add(8).filter(|begin| *begin <= length);
    let begin = begin.ok_or_else(|| invalid(&"its header is longer than the file"))?;
    let mut header = vec![0; header_length as usize];
    file.read_exact(&mut header).map_err(io)?;
    let header: Metadata = serde_json::from_slice(&header).map_err(|e| invalid(&e))?;
    if begin.checked_add(header.data_len() as u64) != Some(length) {
        return Err(invalid(&"it is not as long as its header says"));
    }
    let (mut tensors, mut starts) = (Vec::new(), Vec::new());
    for name in header.offset_keys() {
        let Some(TensorInfo { dtype, shape, data_offsets }) = header.info(&name) else { continue };
        let known = DTYPES.iter().find(|(_, theirs)| theirs == dtype);
        let (dtype, _) =
            known.ok_or_else(|| error(path, format!("`{name}` has the type {dtype:?}, which Tile has not")))?;
        starts.push(begin + data_offsets.0 as u64);
        tensors.push((name, TensorType::new(*dtype, shape.as_slice())));
    }
    Ok((tensors, Content::SafeTensors { file, starts }))
}

/// The format: an object whose `weight_map` has the file of each tensor by its name.
/// <https://huggingface.co/docs/safetensors/index>
fn open_index(path: &Path, file: File) -> Result<Opened, WeightsError> {
    let invalid =
        |what: &dyn fmt::Display| error(path, format!("this is not a valid index of safetensors files: {what}"));
    let mut index: serde_json::Value = serde_json::from_reader(BufReader::new(file)).map_err(|e| invalid(&e))?;
    let weight_map: BTreeMap<String, String> =
        serde_json::from_value(index["weight_map"].take()).map_err(|e| invalid(&e))?;
    let (mut names, mut files): (Vec<&str>, Vec<WeightsFile>) = (Vec::new(), Vec::new());
    let (mut tensors, mut places) = (Vec::new(), Vec::new());
    for (tensor, shard) in &weight_map {
        let number = match names.iter().position(|name| name == shard) {
            Some(number) => number,
            None => {
                if !shard.ends_with(".safetensors") || shard.contains(['/', '\\']) {
                    return Err(invalid(&format!("`{shard}` is no safetensors file beside it")));
                }
                files.push(WeightsFile::open(path.with_file_name(shard))?);
                names.push(shard);
                names.len() - 1
            }
        };
        let found = files[number].tensors.iter().position(|(name, _)| name == tensor);
        let found = found.ok_or_else(|| error(path, format!("`{shard}` has no tensor `{tensor}`")))?;
        tensors.push(files[number].tensors[found].clone());
        places.push((number, found));
    }
    Ok((tensors, Content::Shards(files, places)))
}

fn open_npz(path: &Path, file: File) -> Result<Opened, WeightsError> {
    let invalid = |e| error(path, format!("this is not a valid .npz file: {e}"));
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(invalid)?;
    let mut tensors = Vec::with_capacity(archive.len());
    for number in 0..archive.len() {
        let entry = archive.by_index(number).map_err(invalid)?;
        let name = entry.name().strip_suffix(".npy").unwrap_or(entry.name()).to_owned();
        let ty = npy::read_type(entry).map_err(|e| error(path, format!("`{name}`: {e}")))?;
        tensors.push((name, ty));
    }
    Ok((tensors, Content::Npz(archive)))
}

const DTYPES: [(DType, Dtype); 13] = [
    (DType::Bool, Dtype::BOOL),
    (DType::I8, Dtype::I8),
    (DType::I16, Dtype::I16),
    (DType::I32, Dtype::I32),
    (DType::I64, Dtype::I64),
    (DType::U8, Dtype::U8),
    (DType::U16, Dtype::U16),
    (DType::U32, Dtype::U32),
    (DType::U64, Dtype::U64),
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
];

/// Writes tensors by name. The file appears whole or not at all.
pub fn write(path: &Path, tensors: &[(String, Tensor)]) -> Result<(), WeightsError> {
    let format = format(path)?;
    let written = write_whole(path, |path| {
        match format {
            Format::SafeTensors => write_safetensors(path, tensors),
            Format::Npz => write_npz(path, tensors),
            Format::Index => Err("weights are written to one file, .safetensors or .npz".into()),
            #[cfg(not(target_arch = "wasm32"))]
            Format::Keras => Err("weights are written to .safetensors or .npz".into()),
        }
        .map_err(std::io::Error::other)
    });
    written.map_err(|what| error(path, what.to_string()))
}

fn write_safetensors(path: &Path, tensors: &[(String, Tensor)]) -> Result<(), String> {
    let mut views = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let dtype = DTYPES.iter().find(|(ours, _)| *ours == tensor.dtype()).map(|(_, theirs)| *theirs);
        let dtype = dtype.ok_or_else(|| format!("safetensors has no type {}", tensor.dtype()))?;
        let view = TensorView::new(dtype, tensor.shape().to_vec(), tensor.bytes()).map_err(|e| e.to_string())?;
        views.push((name.as_str(), view));
    }
    safetensors::serialize_to_file(views, None, path).map_err(|e| e.to_string())
}

fn write_npz(path: &Path, tensors: &[(String, Tensor)]) -> Result<(), String> {
    let file = File::create(path).map_err(|e| e.to_string())?;
    let mut archive = ZipWriter::new(BufWriter::new(file));
    // As numpy.savez does; a file may be larger than 4 GiB.
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored).large_file(true);
    for (name, tensor) in tensors {
        archive.start_file(format!("{name}.npy"), options).map_err(|e| e.to_string())?;
        npy::write(tensor, &mut archive).map_err(|e| e.to_string())?;
    }
    archive.finish().map_err(|e| e.to_string())?.flush().map_err(|e| e.to_string())
}

/// The program's paths of the tensors that a file has: their names, but in a file of Keras.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn paths(
    file: &Path,
    expected: &[(String, TensorType)],
    found: &[(String, TensorType)],
    titles: Option<&Titles>,
) -> Result<Vec<String>, WeightsError> {
    match titles {
        Some(titles) => keras::paths(expected, found, titles).map_err(|what| error(file, what)),
        None => Ok(found.iter().map(|(name, _)| name.clone()).collect()),
    }
}

/// What is wrong with the weights of a file, or nothing: which are missing, which the program does not have, and which have
/// another shape or type.
pub(crate) fn mismatch(expected: &[(String, TensorType)], found: &[(String, TensorType)]) -> Option<String> {
    let (mut lines, mut unknown) = (Vec::new(), Vec::new());
    for (path, ty) in expected {
        match found.iter().find(|(name, _)| name == path) {
            None => lines.push(format!("`{path}`, {ty}, is missing")),
            Some((_, found)) if !fits(ty, found) => {
                lines.push(format!("`{path}` must be {ty}, and is {found}"));
            }
            Some(_) => {}
        }
    }
    for (name, ty) in found {
        if expected.iter().all(|(path, _)| path != name) {
            let guess = did_you_mean(name, expected.iter().map(|(path, _)| path.as_str()));
            let guess = guess.map_or(String::new(), |guess| format!("; {guess}"));
            unknown.push(format!("`{name}`, {ty}, is no weight of the program{guess}"));
        }
    }
    const SHOWN: usize = 12;
    for lines in [&mut lines, &mut unknown] {
        let more = lines.len().saturating_sub(SHOWN);
        lines.truncate(SHOWN);
        if more > 0 {
            lines.push(format!("and {more} more like these"));
        }
    }
    lines.extend(unknown);
    (!lines.is_empty()).then(|| lines.join("\n  "))
}

/// Floats of one type stand for those of another.
fn fits(expected: &TensorType, found: &TensorType) -> bool {
    expected.shape == found.shape
        && (expected.dtype == found.dtype || (expected.dtype.is_float() && found.dtype.is_float()))
}

/// A tensor of another type; none where it is too large.
pub(crate) fn converted(tensor: Tensor, dtype: DType) -> Option<Tensor> {
    if tensor.dtype() == dtype {
        return Some(tensor);
    }
    Tensor::from_scalars(TensorType::new(dtype, tensor.shape()), tensor.scalars())
}

#[cfg(not(target_arch = "wasm32"))]
impl Session {
    /// Gives all weights the values that a .safetensors or .npz file has under their paths, or a .h5 file of Keras in its layers; floats are
    /// converted to the weight's type.
    ///
    /// # Errors
    /// [`Error::Weights`] with every entry that is missing, that the program does not have, or whose shape is another;
    /// then no weight has changed. Where the file can be read no further, those before have.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        let mut file = WeightsFile::open(path.as_ref()).map_err(Error::Weights)?;
        let expected: Vec<(String, TensorType)> =
            self.weights().map(|(path, ty)| (path.to_owned(), ty.clone())).collect();
        let paths = paths(path.as_ref(), &expected, file.tensors(), file.titles()).map_err(Error::Weights)?;
        // What training keeps beside is no concern of a run.
        let types = file.tensors().iter().map(|(_, ty)| ty.clone());
        let found: Vec<_> = paths.iter().cloned().zip(types).filter(|(name, _)| !name.starts_with("train.")).collect();
        if let Some(what) = mismatch(&expected, &found) {
            let what = format!("it does not have the program's weights:\n  {what}");
            return Err(Error::Weights(error(path.as_ref(), what)));
        }
        for (number, name) in paths.iter().enumerate() {
            let tensor = file.read(number).map_err(Error::Weights)?;
            if name.starts_with("train.") {
                continue;
            }
            let ty = expected.iter().find(|(path, _)| path == name).map_or(tensor.dtype(), |(_, ty)| ty.dtype);
            if let Some(tensor) = converted(tensor, ty) {
                self.set(name, &tensor)?;
            }
        }
        Ok(())
    }

    /// Writes all weights to a .safetensors or .npz file, by path.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let mut tensors = Vec::new();
        for name in self.weights().map(|(path, _)| path.to_owned()).collect::<Vec<_>>() {
            tensors.push((name.clone(), self.get(&name)?));
        }
        write(path.as_ref(), &tensors).map_err(Error::Weights)
    }
}
