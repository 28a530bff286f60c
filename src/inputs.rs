//! The options that bind a program's inputs: `--input`, `--shape`, `--dim` and the like.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::lower::{Binding, Bindings};
use tile_compiler::tensor::TensorType;
use tile_runtime::data::npy::{self, NpyError};
use tile_runtime::data::picture::{self, Pixels, is_picture};
use tile_runtime::train::as_model_takes;
use tile_runtime::{Declared, Device, Model, SessionBuilder, Tensor, reason_of_reading};

use crate::arguments::{Input, Sizes, input_parser, pixels};
use crate::source::Source;
use crate::terminal::{Failure, Terminal};

/// The values and sizes that a program is compiled for.
#[derive(clap::Args, Clone)]
pub struct Inputs {
    /// An input: an array, which brings its type and shape (X=x.npy), a picture (X=x.png, X=x.jpg),
    /// a constant (S=3, S=2.5, S=true), or some numbers (X=1,2,3; a single one: X=[1])
    #[arg(long, value_name = "X=VALUE", value_parser = input_parser())]
    pub input: Vec<(String, Input)>,
    /// The scale of a picture's pixel values: raw (0 to 255), a mode of Keras' preprocess_input
    /// (keras-tf: -1 to 1), or that of torchvision's classifiers
    #[arg(long, value_name = "VALUES", value_parser = pixels, default_value = "raw")]
    pub pictures: Pixels,
    #[command(flatten)]
    pub sizes: Sizes,
}

impl Inputs {
    /// Returns whether no option is given.
    pub fn is_empty(&self) -> bool {
        let Sizes { shape, dim, entry, set } = &self.sizes;
        let has_sizes = !shape.is_empty() || !dim.is_empty() || !set.is_empty();
        self.input.is_empty() && entry.is_none() && !has_sizes
    }

    /// Returns the files that `--input` reads.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.input.iter().filter_map(|(_, input)| match input {
            Input::File(path) => Some(path.as_path()),
            Input::Number(_) | Input::Numbers(_) => None,
        })
    }

    /// Returns the bindings of the entry's inputs that the options give, without arrays and
    /// pictures.
    pub fn bindings(&self) -> Bindings {
        let mut bindings = self.sizes.bindings();
        for (name, input) in &self.input {
            if let Input::Number(value) = input {
                bindings.inputs.insert(name.clone(), (*value).into());
            }
        }
        bindings
    }

    /// Returns [`Inputs::bindings`] and the types of the tensors that [`Inputs::read`] returned.
    pub fn bindings_with(&self, given: &BTreeMap<String, Tensor>) -> Bindings {
        let mut bindings = self.bindings();
        bindings.inputs.extend(
            given.iter().map(|(name, tensor)| (name.clone(), Binding::Tensor(tensor.ty().clone()))),
        );
        bindings
    }

    /// Reads the arrays of the command line, then its pictures, whose sizes may depend on the
    /// arrays. Converts them to the types that the model takes.
    pub fn read(&self, source: &Source) -> Result<BTreeMap<String, Tensor>, Failure> {
        let entry = self.sizes.entry.as_deref();
        self.check_constants(source)?;
        let mut given: BTreeMap<String, Tensor> = BTreeMap::new();
        let files = self.input.iter().filter_map(|(name, input)| match input {
            Input::File(path) => Some((name, path)),
            Input::Number(_) | Input::Numbers(_) => None,
        });
        let (pictures, arrays): (Vec<_>, Vec<(&String, &PathBuf)>) =
            files.partition(|(_, path)| is_picture(path));
        for (name, path) in arrays {
            let tensor = npy::open(path).map_err(|error| {
                let (what, help) = not_an_array(path, &error);
                source.wrong_input(entry, name, "E0301", &what, &help)
            })?;
            given.insert(name.clone(), tensor);
        }
        for (name, input) in &self.input {
            if let Input::Numbers(numbers) = input {
                given.insert(name.clone(), self.array(source, name, numbers)?);
            }
        }
        let known = self.bindings_with(&given);
        for (name, path) in pictures {
            let refused =
                |what: &str, help: &str| source.wrong_input(entry, name, "E0301", what, help);
            let declared = source.model.declared(entry, name, &known).ok_or_else(|| {
                let what = format!(
                    "`{name}` is no input whose number of axes is known, and so none for a picture"
                );
                refused(
                    &what,
                    &format!(
                        "the header can say it, `{name}[H, W, 3]`, or `--shape {name}=224x224x3`"
                    ),
                )
            })?;
            let picture = picture::read(path, &declared, self.pictures);
            let tensor = picture.map_err(|error| {
                refused(
                    &error.to_string(),
                    "a picture is a .png or .jpg file, for an input such as `Image[N, H, W, 3]`",
                )
            })?;
            given.insert(name.clone(), tensor);
        }
        as_model_takes(&source.model, entry, &self.bindings(), &mut given)
            .map_err(|error| source.failed(&error))?;
        Ok(given)
    }

    /// Checks that no constant is given for an input with axes. In an ONNX file it may be one.
    fn check_constants(&self, source: &Source) -> Result<(), Failure> {
        let entry = self.sizes.entry.as_deref();
        for (name, input) in self.input.iter().filter(|_| !source.model.is_onnx()) {
            let declared = source.model.declared(entry, name, &self.sizes.bindings());
            let has_axes = declared.is_some_and(|declared| !declared.sizes.is_empty());
            if let (Input::Number(value), true) = (input, has_axes) {
                let what = format!("`{name}` has axes, and `{value}` is a constant");
                let help = format!("`--input {name}=[{value}]` gives a tensor of one number");
                return Err(source.wrong_input(entry, name, "E0212", &what, &help));
            }
        }
        Ok(())
    }

    /// Makes an array of the numbers of `--input`, with the declared type and sizes of the input.
    /// One size that is not declared follows from the number of elements. An input without declared
    /// sizes has one axis.
    fn array(&self, source: &Source, name: &str, numbers: &[f64]) -> Result<Tensor, Failure> {
        let entry = self.sizes.entry.as_deref();
        let declared = source.model.declared(entry, name, &self.sizes.bindings());
        let unknown = || Declared { dtype: DType::F32, sizes: vec![None], channels_last: false };
        let declared = declared.unwrap_or_else(unknown);
        let Declared { dtype, sizes, .. } = &declared;
        let known =
            sizes.iter().flatten().try_fold(1usize, |product, size| product.checked_mul(*size));
        let rest = known.filter(|known| *known > 0 && numbers.len().is_multiple_of(*known));
        let rest = rest.map(|known| numbers.len() / known);
        // All open sizes but the last are 1, such as the number of samples.
        let last = sizes.iter().rposition(Option::is_none);
        let size = |(axis, size): (usize, &Option<usize>)| {
            size.or(if Some(axis) == last { rest } else { Some(1) })
        };
        let shape: Option<Vec<usize>> = sizes.iter().enumerate().map(size).collect();
        let scalars = numbers.iter().map(|number| Scalar::from_f64(*dtype, *number));
        let array =
            shape.and_then(|shape| Tensor::from_scalars(TensorType::new(*dtype, shape), scalars));
        array.ok_or_else(|| {
            let is_open = declared.sizes.iter().any(Option::is_none);
            let what = match known {
                Some(known) if is_open => format!("a multiple of {known} numbers"),
                Some(known) => format!("{known} numbers"),
                None => "more numbers than memory holds".to_owned(),
            };
            let what = format!("`{name}` takes {what}, and {} are given", numbers.len());
            let help = format!("its shape is {}; the last axis varies fastest", declared.shape());
            source.wrong_input(entry, name, "E0301", &what, &help)
        })
    }

    /// Returns a session builder for the options and the tensors `given`.
    pub fn builder<'a>(
        &self,
        source: &'a Source,
        device: &'a Device,
        given: &BTreeMap<String, Tensor>,
    ) -> Result<SessionBuilder<'a>, Failure> {
        self.apply(source.model.on(device), source, given)
    }

    /// Applies the options and the tensors `given` to a builder.
    pub fn apply<'a>(
        &self,
        builder: SessionBuilder<'a>,
        source: &Source,
        given: &BTreeMap<String, Tensor>,
    ) -> Result<SessionBuilder<'a>, Failure> {
        let mut builder = self.sizes.apply(builder);
        for (name, ty) in &self.sizes.shape {
            if let Some(tensor) = given.get(name).filter(|tensor| tensor.ty() != ty) {
                let what =
                    format!("the array for `{name}` is {}, but `--shape` says {ty}", tensor.ty());
                let help = "leave `--shape` out: an array brings its own";
                return Err(source.wrong_input(
                    self.sizes.entry.as_deref(),
                    name,
                    "E0303",
                    &what,
                    help,
                ));
            }
        }
        for (name, tensor) in given {
            builder = builder.input(name, tensor.ty().clone());
            if source.model.is_onnx() {
                builder = builder.value(name, tensor.clone());
            }
        }
        for (name, input) in &self.input {
            if let Input::Number(value) = input {
                builder = builder.constant(name, *value);
            }
        }
        Ok(builder)
    }

    /// Returns the options with size 1 for the sizes of an ONNX file that have none, and prints a
    /// note of it.
    pub fn with_assumed(&self, model: &Model, terminal: &Terminal) -> Inputs {
        let mut assumed = self.clone();
        let shapes = self.sizes.shape.iter().map(|(name, _)| name.as_str());
        let given: Vec<&str> =
            shapes.chain(self.input.iter().map(|(name, _)| name.as_str())).collect();
        let mut names = model.onnx_sizes(&given);
        names.retain(|name| !self.sizes.dim.iter().any(|(known, _)| known == name));
        if let Some(first) = names.first() {
            let all = names.join(" = ");
            terminal.note(&format!("{all} = 1 is assumed; `--dim {first}=…` gives another size"));
        }
        assumed.sizes.dim.extend(names.into_iter().map(|name| (name.to_owned(), vec![1])));
        let bindings = assumed.bindings();
        for input in model.onnx_inputs().into_iter().filter(|input| !given.contains(input)) {
            let Some(declared) =
                model.declared(None, input, &bindings).filter(|d| d.sizes.contains(&None))
            else {
                continue;
            };
            terminal.note(&format!(
                "sizes of `{input}` without a name are assumed to be 1; `--shape {input}=…` gives others"
            ));
            let shape: Vec<usize> =
                declared.sizes.into_iter().map(|size| size.unwrap_or(1)).collect();
            assumed.sizes.shape.push((input.to_owned(), TensorType::new(declared.dtype, shape)));
        }
        assumed
    }
}

/// Returns what is wrong with a file that was given as an array, and what to do.
fn not_an_array(path: &Path, error: &NpyError) -> (String, String) {
    let file = path.display();
    if matches!(error, NpyError::Io(_)) {
        return (format!("{file}: {}", reason_of_reading(path, error)), String::new());
    }
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    match ending.as_deref() {
        Some("csv" | "tsv") => (
            format!("{file} is a table, and `--input` takes an array (.npy), a picture or numbers"),
            format!("`tilec predict MODEL {file} --weights FILE` predicts each row of a table"),
        ),
        Some("npz") => (
            format!("{file} has several arrays, and `--input` takes one (.npy)"),
            "numpy.save writes one; `train` and `evaluate` read .npz files by `--data`".to_owned(),
        ),
        _ => (format!("{file}: {error}"), "numpy.save writes such a file".to_owned()),
    }
}
