//! ONNX files on disk: the file itself, and those beside it that have its large tensors.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tile_compiler::onnx::{External, Given, Imported, Model, Stored, import};
use tile_compiler::tensor::Tensor;

use crate::error::Error;
use crate::session::Session;
use crate::weights;

/// A model, and the folder that its file is in.
#[derive(Clone, Debug)]
pub struct OnnxFile {
    pub model: Model,
    folder: PathBuf,
}

impl OnnxFile {
    /// Reads a file; those beside it are read when their tensors are wanted.
    pub fn open(path: &Path) -> Result<OnnxFile, Error> {
        let read =
            |error: std::io::Error| Error::Onnx { what: vec![format!("cannot read {}: {error}", path.display())] };
        let bytes = std::fs::read(path).map_err(read)?;
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        Ok(OnnxFile { model: Model::read(bytes)?, folder })
    }

    pub fn import(&self, given: &Given) -> Result<Imported, Error> {
        Ok(import(&self.model, given, &|part| self.read(part))?)
    }

    /// Gives the session's weights the values that the file has for them, one after the other.
    pub fn load(&self, imported: &Imported, session: &mut Session) -> Result<(), Error> {
        let paths: Vec<String> = session.weights().map(|(path, _)| path.to_owned()).collect();
        for path in paths {
            let tensor: Tensor = imported.weight(&path, &|part| self.read(part))?;
            session.set(&path, &tensor)?;
        }
        Ok(())
    }

    /// A part of a file in the folder. Links that lead out of it are refused as other paths are.
    fn read(&self, part: &External) -> Result<Vec<u8>, String> {
        let External { path, offset, length } = part;
        let io = |error: std::io::Error| format!("cannot read its file `{path}`: {error}");
        let folder = if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder };
        let folder = folder.canonicalize().map_err(io)?;
        let full = folder.join(path).canonicalize().map_err(io)?;
        if !full.starts_with(&folder) {
            return Err(format!("it is in the file `{path}`, which is not in the model's folder"));
        }
        let mut file = File::open(full).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        if offset.checked_add(*length).is_none_or(|end| end > size) {
            return Err(format!("the file `{path}` has {size} bytes, and {length} from {offset} on are wanted"));
        }
        let mut bytes = vec![0; *length as usize];
        file.seek(SeekFrom::Start(*offset)).and_then(|_| file.read_exact(&mut bytes)).map_err(io)?;
        Ok(bytes)
    }
}

/// An ONNX file as a Tile program, and the weights that go with it.
pub struct TileProgram {
    file: Arc<OnnxFile>,
    imported: Imported,
    text: String,
    /// Its weights by their names in the program.
    weights: Vec<(String, Stored)>,
}

impl TileProgram {
    pub(crate) fn new(file: Arc<OnnxFile>, imported: Imported) -> TileProgram {
        let (text, weights) = imported.program();
        TileProgram { file, imported, text, weights }
    }

    /// The program's text: one model.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it has weights.
    pub fn has_weights(&self) -> bool {
        !self.weights.is_empty()
    }

    /// Writes the weights by their names in the program, to a .safetensors or .npz file.
    ///
    /// # Errors
    /// Where one cannot be read, or the file not be written.
    pub fn save_weights(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let read = |(name, stored): &(String, Stored)| {
            let tensor = self.imported.stored(stored, &|part| self.file.read(part))?;
            Ok((name.clone(), tensor))
        };
        let tensors = self.weights.iter().map(read).collect::<Result<Vec<(String, Tensor)>, Error>>()?;
        weights::write(path.as_ref(), &tensors).map_err(Error::Weights)
    }
}
