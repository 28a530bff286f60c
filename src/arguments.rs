//! The values of options: `X=1x224x224x3`, `N=8`, `X=x.npy`, each read here so that clap reports what is wrong with one of them, and [`once`]
//! what is wrong with several.

use std::collections::HashSet;
use std::path::PathBuf;

use clap::{ArgMatches, Args};
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::lower::{Binding, Bindings, Setting};
use tile_compiler::tensor::TensorType;
use tile_lang::ast::{DimKind, Function};
use tile_runtime::data::picture::{Pixels, is_picture};
use tile_runtime::train::TrainerBuilder;
use tile_runtime::{Model, SessionBuilder};

use crate::terminal::{Failure, Terminal};

/// What every command that compiles takes.
#[derive(Args, Clone)]
pub struct Sizes {
    /// The shape of an input, and its type if not f32: X=1x224x224x3, X=f16:8x3, X=i32: (rank 0)
    #[arg(long, value_name = "X=SHAPE", value_parser = shape)]
    pub shape: Vec<(String, TensorType)>,
    /// A size that the inputs name: N=8
    #[arg(long, value_name = "N=SIZE", value_parser = dim)]
    pub dim: Vec<(String, usize)>,
    /// The model or function to compile [default: the last model of the file, else the last function]
    #[arg(long, value_name = "NAME")]
    pub entry: Option<String>,
    /// A hyper-parameter of the entry: units=10, rate=0.5, use_bias=false, activation=relu
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub set: Vec<(String, Setting)>,
}

impl Sizes {
    /// What the options say of the entry's inputs.
    pub fn bindings(&self) -> Bindings {
        Bindings {
            inputs: self.shape.iter().map(|(name, ty)| (name.clone(), Binding::Tensor(ty.clone()))).collect(),
            sizes: self.dim.iter().cloned().collect(),
            parameters: self.set.iter().cloned().collect(),
            training: false,
        }
    }

    /// The same for a session.
    pub fn apply<'a>(&self, mut builder: SessionBuilder<'a>) -> SessionBuilder<'a> {
        if let Some(entry) = &self.entry {
            builder = builder.entry(entry);
        }
        for (name, ty) in &self.shape {
            builder = builder.input(name, ty.clone());
        }
        for (name, size) in &self.dim {
            builder = builder.dim(name, *size);
        }
        for (name, value) in &self.set {
            builder = builder.set(name, value.clone());
        }
        builder
    }
}

impl Sizes {
    /// With 1 for the sizes of an ONNX file that nothing gives, and a note of it.
    pub fn with_assumed(&self, model: &Model, terminal: &Terminal) -> Sizes {
        let given: Vec<&str> = self.shape.iter().map(|(name, _)| name.as_str()).collect();
        let mut names = model.onnx_sizes(&given);
        names.retain(|name| !self.dim.iter().any(|(known, _)| known == name));
        if let Some(first) = names.first() {
            let all = names.join(" = ");
            terminal.note(&format!("{all} = 1 is assumed; `--dim {first}=…` gives another size"));
        }
        let dim = self.dim.iter().cloned().chain(names.into_iter().map(|name| (name.to_owned(), 1))).collect();
        Sizes { dim, ..self.clone() }
    }

    /// The same for a trainer; shapes are the data's.
    pub fn apply_to_trainer(&self, mut builder: TrainerBuilder) -> TrainerBuilder {
        if let Some(entry) = &self.entry {
            builder = builder.entry(entry);
        }
        for (name, size) in &self.dim {
            builder = builder.dim(name, *size);
        }
        for (name, value) in &self.set {
            builder = builder.set(name, value.clone());
        }
        builder
    }
}

/// Gives this size to every name in the header that has none, and returns these names.
pub fn assume_sizes(function: &Function, bindings: &mut Bindings, size: usize) -> Vec<String> {
    let is_given = |name: &str| matches!(bindings.inputs.get(name), Some(Binding::Tensor(_)));
    let names = |given: bool| {
        let inputs = function.inputs.iter().filter(move |input| is_given(&input.name.name) == given);
        inputs.flat_map(|input| input.dims.iter().flatten()).filter_map(|dim| match &dim.kind {
            DimKind::Name(name) => Some(name),
            DimKind::Size(_) | DimKind::Ellipsis => None,
        })
    };
    let known: Vec<&String> = names(true).chain(bindings.sizes.keys()).collect();
    let mut assumed: Vec<String> = Vec::new();
    for name in names(false) {
        if !known.contains(&name) && !assumed.contains(name) {
            assumed.push(name.clone());
        }
    }
    bindings.sizes.extend(assumed.iter().map(|name| (name.clone(), size)));
    assumed
}

/// What `--input` binds.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    File(PathBuf),
    Number(Scalar),
}

/// Sees that no option names a thing twice: neither value would be what is meant.
pub fn once(matches: &ArgMatches) -> Result<(), Failure> {
    let matches = matches.subcommand().map_or(matches, |(_, of_command)| of_command);
    let shape = twice::<TensorType>(matches, "shape").map(|name| format!("the shape of `{name}`"));
    let dim = twice::<usize>(matches, "dim").map(|name| format!("the size `{name}`"));
    let set = twice::<Setting>(matches, "set").map(|name| format!("the hyper-parameter `{name}`"));
    let input = twice::<Input>(matches, "input").map(|name| format!("input `{name}`"));
    let output = twice::<PathBuf>(matches, "output").map(|name| format!("output `{name}`"));
    match shape.or(dim).or(set).or(input).or(output) {
        Some(what) => Err(Failure::usage(format!("{what} is given twice"))),
        None => Ok(()),
    }
}

/// A name to which an option, if the command has it with such values, gives a value more than once.
fn twice<'a, T: Clone + Send + Sync + 'static>(matches: &'a ArgMatches, option: &str) -> Option<&'a str> {
    let values = matches.try_get_many::<(String, T)>(option).ok()??;
    let mut known = HashSet::new();
    values.map(|(name, _)| name.as_str()).find(|name| !known.insert(*name))
}

fn name_and_value(text: &str) -> Result<(String, &str), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_string(), value)),
        _ => Err("it wants NAME=VALUE".to_string()),
    }
}

/// `f16` or `bf16`.
pub fn narrow_float(text: &str) -> Result<DType, String> {
    let dtype = DType::parse(text).filter(|dtype| dtype.is_float() && dtype.bits() == 16);
    dtype.ok_or_else(|| "it wants f16 or bf16".to_string())
}

/// `X=1x2x3`, `X=f16:1x2x3`, `X=f16:` for rank 0.
pub fn shape(text: &str) -> Result<(String, TensorType), String> {
    let (name, value) = name_and_value(text)?;
    let (dtype, sizes) = match value.split_once(':') {
        Some((dtype, sizes)) => {
            (DType::parse(dtype).ok_or_else(|| format!("`{dtype}` is not an element type"))?, sizes)
        }
        None => (DType::F32, value),
    };
    let shape: Vec<usize> = match sizes {
        "" => Vec::new(),
        _ => sizes.split('x').map(size).collect::<Result<_, _>>()?,
    };
    Ok((name, TensorType::new(dtype, shape)))
}

/// `N=8`
pub fn dim(text: &str) -> Result<(String, usize), String> {
    let (name, value) = name_and_value(text)?;
    Ok((name, size(value)?))
}

/// `X=x.npy`, `S=3`, `S=2.5`: what reads as a number is one, an i32 without and an f32 with a decimal point.
pub fn input(text: &str) -> Result<(String, Input), String> {
    let (name, value) = name_and_value(text)?;
    let input = if let Ok(integer) = value.parse::<i32>() {
        Input::Number(Scalar::i32(integer))
    } else if value.starts_with(|c: char| c.is_ascii_digit() || "-+.".contains(c))
        && let Ok(float) = value.parse::<f32>()
    {
        Input::Number(Scalar::f32(float))
    } else {
        Input::File(value.into())
    };
    Ok((name, input))
}

/// `Y=y.npy`, `Y=y.png`
pub fn output(text: &str) -> Result<(String, PathBuf), String> {
    let (name, value) = name_and_value(text)?;
    let path = PathBuf::from(value);
    if is_picture(&path) || path.extension().is_some_and(|extension| extension == "npy") {
        return Ok((name, path));
    }
    Err("it wants a file that ends in .npy, .png, .jpg or .jpeg".to_string())
}

/// The values of pixels, by their name.
pub fn pixels(text: &str) -> Result<Pixels, String> {
    let names = || Pixels::ALL.map(|(name, _)| name).join(", ");
    let found = Pixels::ALL.into_iter().find(|(name, _)| *name == text);
    found.map(|(_, pixels)| pixels).ok_or_else(|| format!("it wants one of {}", names()))
}

/// `units=10`, `rate=0.5`, `use_bias=false`, `activation=relu`
pub fn setting(text: &str) -> Result<(String, Setting), String> {
    let (name, value) = name_and_value(text)?;
    let is_name = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let setting = match value {
        "true" => Setting::Bool(true),
        "false" => Setting::Bool(false),
        _ if is_name(value) => Setting::Name(value.to_string()),
        _ => match (value.parse::<i64>(), value.parse::<f64>()) {
            (Ok(integer), _) => Setting::Int(integer),
            (_, Ok(float)) if float.is_finite() => Setting::Float(float),
            _ => return Err(format!("`{value}` is no number, `true`, `false` or name")),
        },
    };
    Ok((name, setting))
}

/// A value as the command line gives it.
pub fn setting_text(setting: &Setting) -> String {
    match setting {
        Setting::Bool(value) => value.to_string(),
        Setting::Int(value) => value.to_string(),
        Setting::Float(value) => value.to_string(),
        Setting::Name(value) => value.clone(),
    }
}

fn size(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("`{text}` is not a size"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        assert_eq!(shape("X=2x3"), Ok(("X".into(), TensorType::new(DType::F32, [2, 3]))));
        assert_eq!(shape("X=f16:7"), Ok(("X".into(), TensorType::new(DType::F16, [7]))));
        assert_eq!(shape("X=i32:"), Ok(("X".into(), TensorType::scalar(DType::I32))));
        assert_eq!(shape("X=2,3"), Err("`2,3` is not a size".into()));
        assert_eq!(shape("X=f17:2"), Err("`f17` is not an element type".into()));
        assert_eq!(shape("2x3"), Err("it wants NAME=VALUE".into()));
    }

    #[test]
    fn settings() {
        assert_eq!(setting("units=10"), Ok(("units".into(), Setting::Int(10))));
        assert_eq!(setting("rate=-0.5"), Ok(("rate".into(), Setting::Float(-0.5))));
        assert_eq!(setting("bias=false"), Ok(("bias".into(), Setting::Bool(false))));
        assert_eq!(setting("activation=relu"), Ok(("activation".into(), Setting::Name("relu".into()))));
        assert_eq!(setting("a=[1]"), Err("`[1]` is no number, `true`, `false` or name".into()));
    }

    #[test]
    fn inputs() {
        assert_eq!(input("S=3"), Ok(("S".into(), Input::Number(Scalar::i32(3)))));
        assert_eq!(input("S=-2.5"), Ok(("S".into(), Input::Number(Scalar::f32(-2.5)))));
        assert_eq!(input("S=1e3"), Ok(("S".into(), Input::Number(Scalar::f32(1000.0)))));
        assert_eq!(input("S=inf"), Ok(("S".into(), Input::File("inf".into()))));
        assert_eq!(input("X=a=b.npy"), Ok(("X".into(), Input::File("a=b.npy".into()))));
    }
}
