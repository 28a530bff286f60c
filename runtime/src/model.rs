//! [`Model`]: a checked program, an ONNX file or a pack, from which a [`Session`] is built.

use std::any::Any;
use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tile_compiler::bindings::{Binding, Bindings};
use tile_compiler::dtype::DType;
#[cfg(feature = "compile")]
use tile_compiler::lower::Network;
use tile_lang::Limits;

use crate::builder::{Request, SessionBuilder};
use crate::error::Error;
#[cfg(feature = "compile")]
use crate::files::{Imports, read_program};
#[cfg(feature = "compile")]
use crate::program::CheckedProgram;
use crate::session::Session;

/// A checked program, an ONNX file or a pack, not yet bound to shapes or a device.
///
/// ```
/// use tile_runtime::{Device, Error, Model};
///
/// let model = Model::compile("function double(X[N]) -> (Y) { Y = 2 * X; }")?;
/// let session = model.on(&Device::cpu()).dim("N", 3).build()?;
/// let (name, ty) = session.inputs().next().unwrap();
/// assert_eq!((name, ty.to_string()), ("X", "f32[3]".to_owned()));
///
/// let error = Model::compile("function f(X[N]) -> (Y) { Y = Z; }").unwrap_err();
/// assert!(matches!(error, Error::Program { .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Model {
    /// The program. It is empty for a foreign model.
    #[cfg(feature = "compile")]
    pub(crate) checked: CheckedProgram,
    /// The limits of its sessions, unless a session sets its own.
    pub(crate) limits: Limits,
    /// The model, if it is not a program.
    pub(crate) foreign: Option<Arc<dyn Foreign>>,
}

impl Model {
    /// Reads a model from a file: a pack (`.tilepack`), an ONNX file (`.onnx`) or else a Tile file,
    /// with its imports from below its folder. Builds without `compile` read packs only.
    ///
    /// # Errors
    /// Returns [`Error::Read`] if the file cannot be read, [`Error::Pack`] or [`Error::Onnx`] if it
    /// is not valid, or [`Error::Program`] with all errors of the program.
    pub fn load(path: impl AsRef<Path>) -> Result<Model, Error> {
        let path = path.as_ref();
        match path.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase).as_deref() {
            #[cfg(feature = "pack")]
            Some("tilepack") => Model::open_pack(path),
            #[cfg(feature = "onnx")]
            Some("onnx") => Model::open_onnx(path),
            _ => Model::load_program(path),
        }
    }

    #[cfg(feature = "compile")]
    fn load_program(path: &Path) -> Result<Model, Error> {
        let text = read_program(path).map_err(|error| Error::read(path, error))?;
        let imports = Imports::of(path);
        Model::compile_file(&path.to_string_lossy(), &text, &|path| imports.load(path))
    }

    #[cfg(not(feature = "compile"))]
    fn load_program(path: &Path) -> Result<Model, Error> {
        let what = "this build is without the compiler, and runs packs only";
        Err(Error::Data { what: format!("{}: {what}", path.display()) })
    }

    /// Returns a model that is not a program.
    pub(crate) fn of_foreign(foreign: impl Foreign) -> Model {
        Model {
            #[cfg(feature = "compile")]
            checked: CheckedProgram::default(),
            limits: Limits::default(),
            foreign: Some(Arc::new(foreign)),
        }
    }

    /// Returns whether the model is a Tile program: neither an ONNX file nor a pack.
    pub fn is_program(&self) -> bool {
        self.foreign.is_none()
    }

    /// Returns the foreign model if it is of this type.
    pub(crate) fn foreign<T: Foreign>(&self) -> Option<&T> {
        let foreign: &dyn Any = self.foreign.as_deref()?;
        foreign.downcast_ref()
    }

    /// Returns the declared type of an input, as far as it is known. The sources are the header of
    /// the entry, and the sizes and other inputs in `bindings`. Returns `None` if the entry has no
    /// such input or its rank is unknown.
    pub fn declared(
        &self,
        entry: Option<&str>,
        input: &str,
        bindings: &Bindings,
    ) -> Option<Declared> {
        if let Some(Binding::Tensor(ty)) = bindings.inputs.get(input) {
            let sizes = ty.shape.iter().copied().map(Some).collect();
            let channels_last = match &self.foreign {
                Some(foreign) => foreign.is_channels_last(),
                None => true,
            };
            return Some(Declared { dtype: ty.dtype, sizes, channels_last });
        }
        match &self.foreign {
            Some(foreign) => foreign.declared(input, bindings),
            #[cfg(feature = "compile")]
            None => self.declared_by_header(entry, input, bindings),
            #[cfg(not(feature = "compile"))]
            None => {
                let _ = entry;
                None
            }
        }
    }
}

/// A model in another form than Tile's text.
pub(crate) trait Foreign: fmt::Debug + Any + Send + Sync {
    /// Returns the declared type of an input: see [`Model::declared`].
    fn declared(&self, input: &str, bindings: &Bindings) -> Option<Declared>;

    /// Returns whether the channels of images are on the last axis.
    fn is_channels_last(&self) -> bool;

    /// Returns the network for a session's inputs.
    #[cfg(feature = "compile")]
    fn network(&self, request: &Request) -> Result<Network, Error>;

    /// Returns the network, like [`Foreign::network`], if it holds for all values of the inputs.
    #[cfg(feature = "build")]
    fn network_of_shapes(&self, request: &Request) -> Result<Network, Error> {
        self.network(request)
    }

    /// Builds a session with the weights of the file.
    fn build(self: Arc<Self>, builder: &SessionBuilder) -> Result<Session, Error>;
}

/// The type of an input, as far as it is known before the input is given.
///
/// ```
/// use tile_compiler::bindings::Bindings;
/// use tile_runtime::Model;
///
/// let model = Model::compile("function f(X[N, 3]) -> (Y) { Y = 2 * X; }")?;
/// let declared = model.declared(None, "X", &Bindings::default()).unwrap();
/// assert_eq!(declared.shape(), "[?, 3]");
/// assert!(declared.fits_sample(&[3]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// The type of the elements.
    pub dtype: DType,
    /// The sizes. `None` stands for any size.
    pub sizes: Vec<Option<usize>>,
    /// True if the channels of an image are on the last axis, unless the sizes imply another order.
    pub channels_last: bool,
}

impl Declared {
    /// Returns whether a sample, without the axis of samples, has these sizes.
    pub fn fits_sample(&self, sample: &[usize]) -> bool {
        let wanted = self.sizes.get(1..).unwrap_or_default();
        let fits = |(wanted, size): (&Option<usize>, &usize)| wanted.is_none_or(|w| w == *size);
        wanted.len() == sample.len() && wanted.iter().zip(sample).all(fits)
    }

    /// Formats the sizes of a sample as `any, 3`.
    pub fn sample_sizes(&self) -> String {
        let size = |size: &Option<usize>| size.map_or("any".to_owned(), |size| size.to_string());
        let sizes = self.sizes.get(1..).unwrap_or_default().iter().map(size);
        sizes.collect::<Vec<_>>().join(", ")
    }

    /// Formats the sizes as `[1, ?, ?, 3]`.
    pub fn shape(&self) -> String {
        let sizes =
            self.sizes.iter().map(|size| size.map_or("?".to_owned(), |size| size.to_string()));
        format!("[{}]", sizes.collect::<Vec<_>>().join(", "))
    }
}
