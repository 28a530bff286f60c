//! Weights in files: safetensors, and NumPy's .npz. An entry's name is the path of the weight.
//!
//! A file is read whole and checked before a session is touched, so that a file that does not fit leaves it as it was.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use tile_compiler::dtype::DType;
use tile_compiler::tensor::{Tensor, TensorType};
use tile_lang::did_you_mean;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::data::npy;
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
}

fn format(path: &Path) -> Result<Format, WeightsError> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("safetensors") => Ok(Format::SafeTensors),
        Some("npz") => Ok(Format::Npz),
        _ => Err(error(path, "the name of a file of weights ends in .safetensors or .npz")),
    }
}

fn error(path: &Path, what: impl fmt::Display) -> WeightsError {
    WeightsError { path: path.display().to_string(), what: what.to_string() }
}

/// The tensors of a .safetensors or .npz file by name, in the file's order.
pub fn read(path: &Path) -> Result<Vec<(String, Tensor)>, WeightsError> {
    match format(path)? {
        Format::SafeTensors => {
            let mut bytes = Vec::new();
            File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(|e| error(path, e))?;
            let file = SafeTensors::deserialize(&bytes)
                .map_err(|e| error(path, format!("this is not a valid safetensors file: {e}")))?;
            file.iter().map(|(name, view)| Ok((name.to_owned(), tensor(path, name, &view)?))).collect()
        }
        Format::Npz => {
            let file = File::open(path).map_err(|e| error(path, e))?;
            let invalid = |e| error(path, format!("this is not a valid .npz file: {e}"));
            let mut archive = ZipArchive::new(BufReader::new(file)).map_err(invalid)?;
            let mut tensors = Vec::with_capacity(archive.len());
            for number in 0..archive.len() {
                let entry = archive.by_index(number).map_err(invalid)?;
                let name = entry.name().strip_suffix(".npy").unwrap_or(entry.name()).to_owned();
                let tensor = npy::read(entry).map_err(|e| error(path, format!("`{name}`: {e}")))?;
                tensors.push((name, tensor));
            }
            Ok(tensors)
        }
    }
}

fn tensor(path: &Path, name: &str, view: &TensorView<'_>) -> Result<Tensor, WeightsError> {
    let dtype = DTYPES.iter().find(|(_, theirs)| *theirs == view.dtype()).map(|(ours, _)| *ours);
    let dtype =
        dtype.ok_or_else(|| error(path, format!("`{name}` has the type {:?}, which Tile has not", view.dtype())))?;
    let ty = TensorType::new(dtype, view.shape());
    let tensor = Tensor::from_bytes(ty, view.data().to_vec());
    tensor.ok_or_else(|| error(path, format!("`{name}` has not as many bytes as its shape says")))
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
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".part");
    let unfinished = Path::new(&unfinished);
    let written = match format {
        Format::SafeTensors => write_safetensors(unfinished, tensors),
        Format::Npz => write_npz(unfinished, tensors),
    };
    let written = written.and_then(|()| std::fs::rename(unfinished, path).map_err(|e| e.to_string()));
    written.map_err(|what| {
        let _ = std::fs::remove_file(unfinished);
        error(path, what)
    })
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

/// What is wrong with the weights of a file, or nothing: which are missing, which the program does not have, and which have
/// another shape or type.
pub fn mismatch(expected: &[(String, TensorType)], found: &[(String, Tensor)]) -> Option<String> {
    let mut lines = Vec::new();
    for (path, ty) in expected {
        match found.iter().find(|(name, _)| name == path) {
            None => lines.push(format!("`{path}`, {ty}, is missing")),
            Some((_, tensor)) if !fits(ty, tensor.ty()) => {
                lines.push(format!("`{path}` must be {ty}, and is {}", tensor.ty()));
            }
            Some(_) => {}
        }
    }
    for (name, tensor) in found {
        if expected.iter().all(|(path, _)| path != name) {
            let guess = did_you_mean(name, expected.iter().map(|(path, _)| path.as_str()));
            let guess = guess.map_or(String::new(), |guess| format!("; {guess}"));
            lines.push(format!("`{name}`, {}, is no weight of the program{guess}", tensor.ty()));
        }
    }
    const SHOWN: usize = 12;
    let more = lines.len().saturating_sub(SHOWN);
    lines.truncate(SHOWN);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    (!lines.is_empty()).then(|| lines.join("\n  "))
}

/// Floats of one type stand for those of another.
fn fits(expected: &TensorType, found: &TensorType) -> bool {
    expected.shape == found.shape
        && (expected.dtype == found.dtype || (expected.dtype.is_float() && found.dtype.is_float()))
}

fn converted(tensor: Tensor, dtype: DType) -> Option<Tensor> {
    if tensor.dtype() == dtype {
        return Some(tensor);
    }
    Tensor::from_scalars(TensorType::new(dtype, tensor.shape()), tensor.scalars())
}

#[cfg(not(target_arch = "wasm32"))]
impl Session {
    /// Gives all weights the values that a .safetensors or .npz file has under their paths; floats are converted to the
    /// weight's type.
    ///
    /// # Errors
    /// [`Error::Weights`] with every entry that is missing, that the program does not have, or whose shape is another;
    /// then no weight has changed.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        let tensors = read(path.as_ref()).map_err(Error::Weights)?;
        let expected: Vec<(String, TensorType)> =
            self.weights().map(|(path, ty)| (path.to_owned(), ty.clone())).collect();
        if let Some(what) = mismatch(&expected, &tensors) {
            let what = format!("it does not have the program's weights:\n  {what}");
            return Err(Error::Weights(error(path.as_ref(), what)));
        }
        for (name, tensor) in tensors {
            let ty = expected.iter().find(|(path, _)| *path == name).map_or(tensor.dtype(), |(_, ty)| ty.dtype);
            if let Some(tensor) = converted(tensor, ty) {
                self.set(&name, &tensor)?;
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
