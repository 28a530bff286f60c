//! ONNX files on disk: the model file, and the files beside it with its large tensors.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tile_compiler::onnx::{Evaluator, External, Given, Imported, Model, Stored, import};
use tile_compiler::tensor::Tensor;

use crate::allowance::{Allowance, open_file, read_file};
use crate::error::Error;
use crate::session::Session;
use crate::weights;

/// An ONNX model and the folder of its file.
#[derive(Clone, Debug)]
pub struct OnnxFile {
    pub model: Model,
    folder: PathBuf,
}

impl OnnxFile {
    /// Reads a model file. The files beside it are read when their tensors are needed.
    pub fn open(path: &Path) -> Result<OnnxFile, Error> {
        let read = open_file(path).and_then(|file| read_file(file, None));
        let (bytes, _) = read.map_err(|error| Error::read(path, error))?;
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        Ok(OnnxFile { model: Model::read(bytes)?, folder })
    }

    pub fn import(&self, given: &Given, evaluator: Option<Evaluator>) -> Result<Imported, Error> {
        Ok(import(&self.model, given, &|part| self.read(part), evaluator)?)
    }

    /// Sets the session's weights to their values in the file, one after the other.
    pub fn load(&self, imported: &Imported, session: &mut Session) -> Result<(), Error> {
        let paths: Vec<String> = session.weights().map(|(path, _)| path.to_owned()).collect();
        for path in paths {
            let tensor: Tensor = imported.weight(&path, &|part| self.read(part))?;
            session.set(&path, &tensor)?;
        }
        Ok(())
    }

    /// Reads a part of a file in the folder. Rejects paths and links that lead out of the folder.
    fn read(&self, part: &External) -> Result<Vec<u8>, String> {
        let External { path, offset, length } = part;
        let io = |error: std::io::Error| format!("cannot read its file `{path}`: {error}");
        let folder = if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder };
        let folder = folder.canonicalize().map_err(io)?;
        let full = folder.join(path).canonicalize().map_err(io)?;
        if !full.starts_with(&folder) {
            return Err(format!("it is in the file `{path}`, which is not in the model's folder"));
        }
        let mut file = open_file(&full).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        if offset.checked_add(*length).is_none_or(|end| end > size) {
            return Err(format!("the file `{path}` has {size} bytes, and {length} from {offset} on are wanted"));
        }
        let mut allowance = Allowance::of(&file, None).map_err(io)?;
        let length = usize::try_from(*length).map_err(|_| format!("{length} bytes are too many"))?;
        let mut bytes = allowance.zeroed(length).map_err(|error| io(error.into()))?;
        file.seek(SeekFrom::Start(*offset)).and_then(|_| file.read_exact(&mut bytes)).map_err(io)?;
        Ok(bytes)
    }
}

/// An ONNX file converted to a Tile program, with its weights.
pub struct TileProgram {
    file: Arc<OnnxFile>,
    imported: Imported,
    text: String,
    /// The weights, by their names in the program.
    weights: Vec<(String, Stored)>,
}

impl TileProgram {
    pub(crate) fn new(file: Arc<OnnxFile>, imported: Imported) -> TileProgram {
        let (text, weights) = imported.program();
        TileProgram { file, imported, text, weights }
    }

    /// Returns the text of the program, which is one model.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the program has weights.
    pub fn has_weights(&self) -> bool {
        !self.weights.is_empty()
    }

    /// Writes the weights by their names in the program to a .safetensors or .npz file.
    ///
    /// # Errors
    /// Fails if a weight cannot be read or the file cannot be written.
    pub fn save_weights(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let read = |(name, stored): &(String, Stored)| {
            let tensor = self.imported.stored(stored, &|part| self.file.read(part))?;
            Ok((name.clone(), tensor))
        };
        let tensors = self.weights.iter().map(read).collect::<Result<Vec<(String, Tensor)>, Error>>()?;
        weights::write(path.as_ref(), &tensors)
    }
}
