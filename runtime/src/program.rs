//! Models from the text of Tile programs.

use std::collections::BTreeMap;

use tile_compiler::bindings::{Binding, Bindings};
use tile_compiler::dtype::DType;
use tile_compiler::lower::check_assuming;
use tile_compiler::tensor::TensorType;
use tile_lang::ast::{Dim, DimKind, Function, FunctionKind};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;
use tile_lang::{Budget, Checked, Limits, Loader, Program, Sources};

use crate::error::Error;
use crate::model::{Declared, Model};

/// A program without errors.
#[derive(Clone, Debug)]
pub(crate) struct CheckedProgram {
    sources: Sources,
    program: Program,
    warnings: Vec<Diagnostic>,
}

/// Returns the empty program.
impl Default for CheckedProgram {
    fn default() -> CheckedProgram {
        let (sources, program) = (Sources::new("", ""), Program::default());
        CheckedProgram { sources, program, warnings: Vec::new() }
    }
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
    /// compiled within the same limits, unless
    /// [`SessionBuilder::limits`](crate::SessionBuilder::limits) sets others.
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
                checked: CheckedProgram { sources, program, warnings: diagnostics },
                limits: Limits::default(),
                foreign: None,
            }),
            None => Err(Error::Program { sources, diagnostics }),
        }
    }

    /// Returns the type that the header of the entry declares: see [`Model::declared`].
    pub(crate) fn declared_by_header(
        &self,
        entry: Option<&str>,
        input: &str,
        bindings: &Bindings,
    ) -> Option<Declared> {
        let function = self.program().entry(entry).ok()?;
        let types = bindings.inputs.iter().filter_map(|(name, binding)| match binding {
            Binding::Tensor(ty) => Some((name.as_str(), ty)),
            _ => None,
        });
        let known = sizes_by_name(function, bindings, types);
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
        &self.checked.sources
    }

    /// Returns the warnings about the program.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.checked.warnings
    }

    /// Returns the warnings that concern a run of `entry`: not those in other models and in their
    /// `train` blocks.
    pub fn warnings_of(&self, entry: Option<&str>) -> Vec<Diagnostic> {
        let Ok(function) = self.checked.program.entry(entry) else {
            return self.checked.warnings.clone();
        };
        let block = self.checked.program.training(function).map(|block| block.span);
        let is_other = |other: &&Function| {
            let is_model = matches!(other.kind, FunctionKind::Model | FunctionKind::Train);
            is_model && other.span != function.span && Some(other.span) != block
        };
        let others: Vec<Span> = self
            .checked
            .program
            .functions()
            .iter()
            .filter(is_other)
            .map(|other| other.span)
            .collect();
        let place = |warning: &Diagnostic| {
            warning.labels.first().map(|label| label.span).unwrap_or_default()
        };
        let is_inside = |place: Span| {
            others.iter().any(|other| other.start <= place.start && place.end <= other.end)
        };
        self.checked.warnings.iter().filter(|warning| !is_inside(place(warning))).cloned().collect()
    }

    /// Checks the definitions beyond names and ranks: lowers each model and layer of the main file
    /// with assumed sizes. See [`check_assuming`] for the errors that it finds.
    ///
    /// # Errors
    /// Returns [`Error::Program`] with the first error of each definition.
    pub fn check(&self) -> Result<(), Error> {
        let diagnostics = check_assuming(&self.checked.program);
        match diagnostics.is_empty() {
            true => Ok(()),
            false => Err(Error::Program { sources: self.checked.sources.clone(), diagnostics }),
        }
    }

    /// Returns the checked program.
    pub fn program(&self) -> &Program {
        &self.checked.program
    }
}

/// Returns the sizes that the header of a function names: those of `bindings`, and those that the
/// types of inputs give.
pub(crate) fn sizes_by_name<'t>(
    function: &Function,
    bindings: &Bindings,
    types: impl Iterator<Item = (&'t str, &'t TensorType)>,
) -> BTreeMap<String, usize> {
    let mut known = bindings.sizes.clone();
    for (name, ty) in types {
        let input = function.inputs.iter().find(|input| input.name.name == name);
        let dims = input.and_then(|input| input.dims.as_ref()).into_iter().flatten();
        let dims = dims.zip(&ty.shape).take_while(|(dim, _)| dim.kind != DimKind::Ellipsis);
        for (dim, &size) in dims {
            if let DimKind::Name(name) = &dim.kind {
                known.insert(name.clone(), size);
            }
        }
    }
    known
}
