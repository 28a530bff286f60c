//! ONNX files on disk: the model file, and the files beside it with its large tensors.
//! [`Model::open_onnx`] makes a model of one.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::lower::{Binding, Bindings, Network};
use tile_compiler::onnx::{
    self, Evaluator, External, Given, Imported, OnnxError, Repeated, Stored, import,
};
use tile_compiler::tensor::Tensor;

use crate::backend::block_on;
use crate::builder::{Request, SessionBuilder};
use crate::error::Error;
use crate::files::{Allowance, open_file, read_file, reason_of_reading};
use crate::model::{Declared, Foreign, Model};
use crate::session::Session;
use crate::staged::Staged;
use crate::tile_program::TileProgram;

impl From<OnnxError> for Error {
    fn from(OnnxError(what): OnnxError) -> Error {
        Error::Onnx { what }
    }
}

/// An ONNX model and the folder of its file.
#[derive(Clone, Debug)]
pub struct OnnxFile {
    pub model: Arc<onnx::Model>,
    folder: PathBuf,
}

impl OnnxFile {
    /// Reads a model file. The files beside it are read when their tensors are needed.
    pub fn open(path: &Path) -> Result<OnnxFile, Error> {
        let read = open_file(path).and_then(|file| read_file(file, None));
        let (bytes, _) = read.map_err(|error| Error::read(path, error))?;
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        Ok(OnnxFile { model: Arc::new(onnx::Model::read(bytes)?), folder })
    }

    /// Imports the model, whose shapes may not depend on values that it computes.
    pub fn import(&self, given: &Given) -> Result<Imported, Error> {
        Ok(import(&self.model, given, &|part| self.read(part), None)?)
    }

    /// Imports the model as the last time, but for other values. The evaluator runs the parts that
    /// compute values on which shapes depend.
    pub fn import_again(
        &self,
        repeated: &mut Repeated,
        given: &Given,
        evaluator: Evaluator,
    ) -> Result<Imported, Error> {
        Ok(repeated.import(&self.model, given, &|part| self.read(part), Some(evaluator))?)
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
        let io = |error: std::io::Error| {
            let reason = reason_of_reading(&self.folder.join(path), &error);
            format!("cannot read its file `{path}`: {reason}")
        };
        let folder = if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder };
        let folder = folder.canonicalize().map_err(io)?;
        let full = folder.join(path).canonicalize().map_err(io)?;
        if !full.starts_with(&folder) {
            return Err(format!("it is in the file `{path}`, which is not in the model's folder"));
        }
        let mut file = open_file(&full).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        if offset.checked_add(*length).is_none_or(|end| end > size) {
            return Err(format!(
                "the file `{path}` has {size} bytes, and {length} from {offset} on are wanted"
            ));
        }
        let mut allowance = Allowance::of(&file, None).map_err(io)?;
        let length =
            usize::try_from(*length).map_err(|_| format!("{length} bytes are too many"))?;
        let mut bytes = allowance.zeroed(length).map_err(|error| io(error.into()))?;
        file.seek(SeekFrom::Start(*offset))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(io)?;
        Ok(bytes)
    }
}

impl Model {
    /// Reads an ONNX file. Its sessions use the file's names of inputs and outputs, and have the
    /// weights with their values.
    ///
    /// # Errors
    /// Returns [`Error::Onnx`] if the file cannot be read, is not an ONNX file or uses unsupported
    /// operators. The error lists all unsupported operators.
    pub fn open_onnx(path: impl AsRef<Path>) -> Result<Model, Error> {
        Ok(Model::of_foreign(OnnxFile::open(path.as_ref())?))
    }

    /// Returns the names of the required inputs of an ONNX file.
    pub fn onnx_inputs(&self) -> Vec<&str> {
        self.onnx().map_or(Vec::new(), |onnx| onnx.model.inputs().collect())
    }

    /// Returns the names of the input sizes of an ONNX file that the inputs in `given` do not
    /// determine.
    pub fn onnx_sizes(&self, given: &[&str]) -> Vec<&str> {
        self.onnx().map_or(Vec::new(), |onnx| onnx.model.unknown_sizes(given))
    }

    /// Returns whether the model is an ONNX file.
    pub fn is_onnx(&self) -> bool {
        self.onnx().is_some()
    }

    fn onnx(&self) -> Option<&OnnxFile> {
        self.foreign()
    }
}

impl Foreign for OnnxFile {
    fn declared(&self, input: &str, bindings: &Bindings) -> Option<Declared> {
        let (dtype, sizes) = self.model.input(input, &bindings.sizes)?;
        Some(Declared { dtype, sizes, channels_last: false })
    }

    fn is_channels_last(&self) -> bool {
        false
    }

    fn network(&self, request: &Request) -> Result<Network, Error> {
        Ok(OnnxFile::import(self, &request.given()?)?.network)
    }

    #[cfg(feature = "build")]
    fn network_of_shapes(&self, request: &Request) -> Result<Network, Error> {
        let imported = OnnxFile::import(self, &request.given()?)?;
        if imported.by_values {
            let what = "its shapes depend on values, and a pack is for given shapes";
            return Err(Error::Onnx { what: vec![what.into()] });
        }
        Ok(imported.network)
    }

    fn build(self: Arc<Self>, builder: &SessionBuilder) -> Result<Session, Error> {
        let Request { precision, .. } = builder.request;
        let given = builder.request.given()?;
        let mut staged = Staged::new(self.clone(), builder.on.clone(), precision, given);
        let mut imported = staged.import()?;
        if imported.by_values {
            return Ok(staged.with(imported).session());
        }
        let graph = std::mem::take(&mut imported.network.graph);
        let mut session = block_on(builder.session(graph))?;
        session.seed(0, 0)?;
        self.load(&imported, &mut session)?;
        builder.request.shared.map_or(Ok(()), |other| session.share(other))?;
        Ok(session)
    }
}

impl SessionBuilder<'_> {
    /// Returns the ONNX file as a Tile program for these inputs.
    ///
    /// # Errors
    /// Returns [`Error::Onnx`] for the same reasons as [`SessionBuilder::build`], and for a model
    /// that is not an ONNX file.
    pub fn import(&self) -> Result<TileProgram, Error> {
        let Some(onnx) = self.request.model.onnx() else {
            return Err(Error::Onnx { what: vec!["it is no ONNX file".into()] });
        };
        let (file, imported) = (onnx.clone(), onnx.import(&self.request.given()?)?);
        let (text, weights) = imported.program();
        let (paths, stored): (Vec<String>, Vec<Stored>) = weights.into_iter().unzip();
        let read =
            move |number: usize| Ok(imported.stored(&stored[number], &|part| file.read(part))?);
        Ok(TileProgram { text, paths, read: Box::new(read) })
    }
}

impl Request<'_> {
    /// Returns the known properties of the inputs of an ONNX file.
    fn given(&self) -> Result<Given, Error> {
        let refuse = |what: String| Err(Error::Onnx { what: vec![what] });
        let mut given = Given {
            sizes: self.bindings.sizes.clone(),
            values: self.values.clone(),
            limits: self.bindings.limits,
            ..Given::default()
        };
        for (name, binding) in &self.bindings.inputs {
            match binding {
                Binding::Tensor(ty) => _ = given.types.insert(name.clone(), ty.clone()),
                Binding::Int(value) => {
                    _ = given.numbers.insert(name.clone(), Scalar::from_i64(DType::I64, *value));
                }
                Binding::Float(value) => {
                    _ = given.numbers.insert(name.clone(), Scalar::from_f64(DType::F64, *value));
                }
            };
        }
        if let Some(entry) = &self.entry {
            return refuse(format!("an ONNX file has one graph, and no `{entry}`"));
        }
        if let Some(name) = self.bindings.parameters.keys().next() {
            return refuse(format!("an ONNX file has no hyper-parameters, and `{name}` is given"));
        }
        Ok(given)
    }
}
