//! [`Model`]: a checked program or an ONNX file, from which a [`Session`] is built.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use tile_compiler::dtype::DType;
use tile_compiler::lower::{Binding, Bindings, Network, check_assuming};
use tile_lang::ast::{Dim, DimKind, Function, FunctionKind};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;
use tile_lang::{Budget, Checked, Limits, Loader, Program, Sources};

use crate::builder::SessionBuilder;
use crate::error::Error;
use crate::session::Session;

/// A checked program, not yet bound to shapes or a device.
#[derive(Clone, Debug)]
pub struct Model {
    sources: Sources,
    /// The program. It is empty for a foreign model.
    program: Program,
    warnings: Vec<Diagnostic>,
    /// The limits of its sessions, unless a session sets its own.
    pub(crate) limits: Limits,
    /// The model, if it is not a program.
    pub(crate) foreign: Option<Arc<dyn Foreign>>,
}

impl Model {
    /// Reads and checks the text of a Tile program.
    ///
    /// # Errors
    /// Returns [`Error::Program`] with all errors of the program.
    pub fn compile(source: &str) -> Result<Model, Error> {
        Model::of(tile_lang::check(source))
    }

    /// Reads and checks the Tile file `path` with the text `source`, and the files that it imports.
    /// `loader` returns the file at a path. Paths are relative to the same folder as `path`.
    /// [`crate::Imports`] reads files, but only below the program's folder.
    ///
    /// # Errors
    /// Returns [`Error::Program`] with all errors of these files.
    pub fn compile_file(path: &str, source: &str, loader: Loader) -> Result<Model, Error> {
        Model::of(tile_lang::check_file(path, source, loader))
    }

    /// Does the same as [`Model::compile_file`], within `limits`. The sessions of the model are
    /// compiled within the same limits, unless [`SessionBuilder::limits`] sets others.
    ///
    /// # Errors
    /// Returns [`Error::Program`] with all errors of these files. Exceeding a limit is the error
    /// `E0007`.
    pub fn compile_within(
        path: &str,
        source: &str,
        loader: Loader,
        limits: Limits,
    ) -> Result<Model, Error> {
        let checked = tile_lang::check_within(path, source, loader, &Budget::new(limits));
        Ok(Model { limits, ..Model::of(checked)? })
    }

    fn of(checked: Checked) -> Result<Model, Error> {
        let Checked { program, diagnostics, sources } = checked;
        match program {
            Some(program) => Ok(Model {
                sources,
                program,
                warnings: diagnostics,
                limits: Limits::default(),
                foreign: None,
            }),
            None => Err(Error::Program { sources, diagnostics }),
        }
    }

    /// Returns whether the model is an ONNX file. An ONNX file has no program and cannot be
    /// trained.
    pub fn is_onnx(&self) -> bool {
        self.foreign.is_some()
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
            return Some(Declared { dtype: ty.dtype, sizes, channels_last: !self.is_onnx() });
        }
        if let Some(foreign) = &self.foreign {
            return foreign.declared(input, bindings);
        }
        let function = self.program.entry(entry).ok()?;
        let mut known = bindings.sizes.clone();
        for other in &function.inputs {
            if let (Some(Binding::Tensor(ty)), Some(dims)) =
                (bindings.inputs.get(&other.name.name), &other.dims)
            {
                for (dim, &size) in
                    dims.iter().zip(&ty.shape).take_while(|(dim, _)| dim.kind != DimKind::Ellipsis)
                {
                    if let DimKind::Name(name) = &dim.kind {
                        known.insert(name.clone(), size);
                    }
                }
            }
        }
        let dims = function.inputs.iter().find(|other| other.name.name == input)?.dims.as_ref()?;
        let size = |dim: &Dim| match &dim.kind {
            DimKind::Name(name) => Some(known.get(name).copied()),
            DimKind::Size(size) => Some(usize::try_from(*size).ok()),
            DimKind::Ellipsis => None,
        };
        let sizes = dims.iter().map(size).collect::<Option<_>>()?;
        Some(Declared { dtype: DType::F32, sizes, channels_last: true })
    }

    /// Returns the source texts of the program.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Returns the warnings about the program.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Returns the warnings that concern a run of `entry`: not those in other models and in their
    /// `train` blocks.
    pub fn warnings_of(&self, entry: Option<&str>) -> Vec<Diagnostic> {
        let Ok(function) = self.program.entry(entry) else { return self.warnings.clone() };
        let block = self.program.training(function).map(|block| block.span);
        let is_other = |other: &&Function| {
            let is_model = matches!(other.kind, FunctionKind::Model | FunctionKind::Train);
            is_model && other.span != function.span && Some(other.span) != block
        };
        let others: Vec<Span> =
            self.program.functions().iter().filter(is_other).map(|other| other.span).collect();
        let place = |warning: &Diagnostic| {
            warning.labels.first().map(|label| label.span).unwrap_or_default()
        };
        let is_inside = |place: Span| {
            others.iter().any(|other| other.start <= place.start && place.end <= other.end)
        };
        self.warnings.iter().filter(|warning| !is_inside(place(warning))).cloned().collect()
    }

    /// Checks the definitions beyond names and ranks: lowers each model and layer of the main file
    /// with assumed sizes. See [`check_assuming`] for the errors that it finds.
    ///
    /// # Errors
    /// Returns [`Error::Program`] with the first error of each definition.
    pub fn check(&self) -> Result<(), Error> {
        let diagnostics = check_assuming(&self.program);
        match diagnostics.is_empty() {
            true => Ok(()),
            false => Err(Error::Program { sources: self.sources.clone(), diagnostics }),
        }
    }

    /// Returns the checked program.
    pub fn program(&self) -> &Program {
        &self.program
    }
}

/// A model in a file of another format than Tile's.
pub(crate) trait Foreign: fmt::Debug + Any + Send + Sync {
    /// Returns the declared type of an input: see [`Model::declared`].
    fn declared(&self, input: &str, bindings: &Bindings) -> Option<Declared>;

    /// Returns the network for a session's inputs.
    fn network(&self, builder: &SessionBuilder) -> Result<Network, Error>;

    /// Builds a session with the weights of the file.
    fn build(self: Arc<Self>, builder: &SessionBuilder) -> Result<Session, Error>;
}

/// The type of an input, as far as it is known before the input is given.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
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
