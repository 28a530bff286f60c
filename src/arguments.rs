//! Parsers of option values, such as `X=1x224x224x3`, `N=8` and `X=x.npy`. clap reports an error in
//! a single value, and [`once`] one between several values.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::num::{IntErrorKind, ParseIntError};
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgMatches, Args, Command};
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::lower::{Binding, Bindings, Setting};
use tile_compiler::tensor::TensorType;
use tile_lang::ast::{DimKind, Function};
use tile_runtime::SessionBuilder;
use tile_runtime::data::picture::{Pixels, is_picture};
use tile_runtime::train::TrainerBuilder;

use crate::terminal::Failure;

/// The options of every command that compiles a program.
#[derive(Args, Clone)]
pub struct Sizes {
    /// The shape of an input, and its type if not f32: X=1x224x224x3, X=f16:8x3, X=i32: (rank 0)
    #[arg(long, value_name = "X=SHAPE", value_parser = shape)]
    pub shape: Vec<(String, TensorType)>,
    /// The size of a named dimension of the inputs: N=8; for `bench` and `build`
    /// also several, N=8,1e3,10_000
    #[arg(long, value_name = "N=SIZE", value_parser = dim)]
    pub dim: Vec<(String, Vec<usize>)>,
    /// The model or function to compile [default: the last model of the file, else the last
    /// function]
    #[arg(long, value_name = "NAME")]
    pub entry: Option<String>,
    /// A hyper-parameter of the entry: units=10, rate=0.5, use_bias=false, activation=relu
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub set: Vec<(String, Setting)>,
}

impl Sizes {
    /// Returns the sizes of named dimensions.
    pub fn dims(&self) -> impl DoubleEndedIterator<Item = (&String, usize)> {
        self.dim.iter().map(|(name, sizes)| (name, sizes[0]))
    }

    /// Returns the options for each point of a sweep: as many as `--dim` has sizes. Dimensions with
    /// several sizes take them together, in order.
    pub fn sweep(&self) -> Result<Vec<Sizes>, Failure> {
        let lists = || self.dim.iter().filter(|(_, sizes)| sizes.len() > 1);
        let count = lists().next().map_or(1, |(_, sizes)| sizes.len());
        if let Some((name, sizes)) = lists().find(|(_, sizes)| sizes.len() != count) {
            let what =
                format!("`{name}` has {} sizes, and the dimension before it {count}", sizes.len());
            return Err(Failure::usage(what));
        }
        let point = |number: usize| {
            let one = |(name, sizes): &(String, Vec<usize>)| {
                (name.clone(), vec![sizes[number.min(sizes.len() - 1)]])
            };
            Sizes { dim: self.dim.iter().map(one).collect(), ..self.clone() }
        };
        Ok((0..count).map(point).collect())
    }

    /// Returns the first dimension with several sizes.
    pub fn swept(&self) -> Option<&str> {
        self.dim.iter().find(|(_, sizes)| sizes.len() > 1).map(|(name, _)| name.as_str())
    }

    /// Returns the bindings of the entry's inputs that the options give.
    pub fn bindings(&self) -> Bindings {
        Bindings {
            inputs: self
                .shape
                .iter()
                .map(|(name, ty)| (name.clone(), Binding::Tensor(ty.clone())))
                .collect(),
            sizes: self.dims().map(|(name, size)| (name.clone(), size)).collect(),
            parameters: self.set.iter().cloned().collect(),
            ..Bindings::default()
        }
    }

    /// Applies the options to a session.
    pub fn apply<'a>(&self, mut builder: SessionBuilder<'a>) -> SessionBuilder<'a> {
        if let Some(entry) = &self.entry {
            builder = builder.entry(entry);
        }
        for (name, ty) in &self.shape {
            builder = builder.input(name, ty.clone());
        }
        for (name, size) in self.dims() {
            builder = builder.dim(name, size);
        }
        for (name, value) in &self.set {
            builder = builder.set(name, value.clone());
        }
        builder
    }

    /// Rejects `--shape` for a command that takes the shapes from the data.
    pub fn refuse_shapes(&self, command: &str) -> Result<(), Failure> {
        match self.shape.is_empty() {
            true => Ok(()),
            false => Err(Failure::usage(format!(
                "`--shape` is not for `{command}`: the data say the shapes"
            ))),
        }
    }

    /// Applies the options to a trainer, all but `--shape`: shapes come from the data.
    pub fn apply_to_trainer(&self, mut builder: TrainerBuilder) -> TrainerBuilder {
        if let Some(entry) = &self.entry {
            builder = builder.entry(entry);
        }
        for (name, size) in self.dims() {
            builder = builder.dim(name, size);
        }
        for (name, value) in &self.set {
            builder = builder.set(name, value.clone());
        }
        builder
    }
}

/// Binds `size` to every named dimension of the header that has no size, and returns these names.
pub fn assume_sizes(function: &Function, bindings: &mut Bindings, size: usize) -> Vec<String> {
    let is_given = |name: &str| matches!(bindings.inputs.get(name), Some(Binding::Tensor(_)));
    let names = |given: bool| {
        let inputs =
            function.inputs.iter().filter(move |input| is_given(&input.name.name) == given);
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

/// A value of `--input`.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    File(PathBuf),
    Number(Scalar),
    /// The elements of a small array, in row-major order.
    Numbers(Vec<f64>),
}

/// Lets options take negative numbers as values, so that their parsers report them. Otherwise clap
/// takes `-1` for an option.
pub fn with_negative_numbers(command: Command) -> Command {
    let takes = |arg: Arg| match arg.get_action().takes_values() && !arg.is_positional() {
        true => arg.allow_negative_numbers(true),
        false => arg,
    };
    command.mut_args(takes).mut_subcommands(with_negative_numbers)
}

/// Returns the failure for an option whose value had to be a whole number, if this is the error.
pub fn not_a_whole_number(error: &clap::Error) -> Option<Failure> {
    let reason: &ParseIntError = std::error::Error::source(error)?.downcast_ref()?;
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (option, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
    let option = option.split_once(' ').map_or(option, |(option, _)| option);
    let wanted = match reason.kind() {
        IntErrorKind::PosOverflow => "a smaller number",
        IntErrorKind::Zero => "a whole number of at least 1",
        _ => "a whole number of at least 0",
    };
    Some(Failure::usage(format!("`{option}` takes {wanted}, and this is `{value}`")))
}

/// Rejects a name that an option binds twice, and several sizes of a dimension for a command other
/// than `bench` and `build`.
pub fn once(matches: &ArgMatches) -> Result<(), Failure> {
    let (command, matches) = matches.subcommand().unwrap_or(("", matches));
    if !["bench", "build"].contains(&command)
        && let Ok(Some(mut dims)) = matches.try_get_many::<(String, Vec<usize>)>("dim")
        && let Some((name, _)) = dims.find(|(_, sizes)| sizes.len() > 1)
    {
        return Err(Failure::usage(format!(
            "`--dim {name}` takes one size; `tilec bench` sweeps over several"
        )));
    }
    let shape = twice::<TensorType>(matches, "shape").map(|name| format!("the shape of `{name}`"));
    let dim = twice::<Vec<usize>>(matches, "dim").map(|name| format!("the size `{name}`"));
    let set = twice::<Setting>(matches, "set").map(|name| format!("the hyper-parameter `{name}`"));
    let input = twice::<Input>(matches, "input").map(|name| format!("input `{name}`"));
    let output = twice::<PathBuf>(matches, "output").map(|name| format!("output `{name}`"));
    match shape.or(dim).or(set).or(input).or(output) {
        Some(what) => Err(Failure::usage(format!("{what} is given twice"))),
        None => Ok(()),
    }
}

/// Returns a name that an option binds more than once. `None` as well if the command has no such
/// option with values of type `T`.
fn twice<'a, T: Clone + Send + Sync + 'static>(
    matches: &'a ArgMatches,
    option: &str,
) -> Option<&'a str> {
    let values = matches.try_get_many::<(String, T)>(option).ok()??;
    let mut known = HashSet::new();
    values.map(|(name, _)| name.as_str()).find(|name| !known.insert(*name))
}

/// Parses `X=x.npy`, `S=3`. A value that is neither a number nor a boolean is a path, which may be
/// non-Unicode.
pub fn input_parser() -> impl TypedValueParser<Value = (String, Input)> {
    OsStringValueParser::new().try_map(|text| match text.to_str() {
        Some(text) => input(text),
        None => name_and_path(&text).map(|(name, path)| (name, Input::File(path))),
    })
}

/// Parses `Y=y.npy`. The path may be non-Unicode.
pub fn output_parser() -> impl TypedValueParser<Value = (String, PathBuf)> {
    OsStringValueParser::new().try_map(|text| name_and_path(&text).and_then(output))
}

/// Splits `NAME=PATH` into a Unicode name and a path.
fn name_and_path(text: &OsStr) -> Result<(String, PathBuf), String> {
    let unreadable = || "the name before `=` is not Unicode".to_string();
    if let Some(text) = text.to_str() {
        return name_and_value(text).map(|(name, path)| (name, path.into()));
    }
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let bytes = text.as_bytes();
        let end = bytes.iter().position(|byte| *byte == b'=').ok_or("expected NAME=VALUE")?;
        let name = std::str::from_utf8(&bytes[..end]).map_err(|_| unreadable())?;
        Ok((name.to_string(), OsStr::from_bytes(&bytes[end + 1..]).into()))
    }
    #[cfg(not(unix))]
    Err(unreadable())
}

fn name_and_value(text: &str) -> Result<(String, &str), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_string(), value)),
        _ => Err("expected NAME=VALUE".to_string()),
    }
}

/// Parses `X=1x2x3`, `X=f16:1x2x3`, or `X=f16:` for rank 0.
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
        _ => sizes.split('x').map(size).collect::<Result<_, _>>().map_err(|what| {
            if sizes.contains(',') {
                format!("expected sizes with `x` between them, as in {name}=2x3")
            } else {
                what
            }
        })?,
    };
    Ok((name, TensorType::new(dtype, shape)))
}

/// Parses `N=8` and `N=8,16,1e3`.
pub fn dim(text: &str) -> Result<(String, Vec<usize>), String> {
    let (name, value) = name_and_value(text)?;
    Ok((name, value.split(',').map(size).collect::<Result<_, _>>()?))
}

/// Parses `X=x.npy`, `S=3`, `S=2.5`, `X=1,2,3`.
///
/// - A number without a decimal point or exponent is an i32, or an i64 if it does not fit.
/// - Any other number is an f32.
/// - `true` and `false` are bools.
/// - Numbers with commas between them, or in brackets, are an array.
/// - Anything else is a path.
pub fn input(text: &str) -> Result<(String, Input), String> {
    let (name, value) = name_and_value(text)?;
    let input = if let Some(integer) = integer(value)? {
        Input::Number(
            i32::try_from(integer).map_or(Scalar::from_i64(DType::I64, integer), Scalar::i32),
        )
    } else if let Ok(boolean) = value.parse::<bool>() {
        Input::Number(Scalar::bool(boolean))
    } else if value.starts_with(|c: char| c.is_ascii_digit() || "-+.".contains(c))
        && let Ok(float) = value.parse::<f32>()
    {
        if float.is_infinite() && !value.ends_with("inf") {
            return Err(format!("`{value}` does not fit an f32"));
        }
        Input::Number(Scalar::f32(float))
    } else if let Some(numbers) = numbers(value) {
        Input::Numbers(numbers)
    } else {
        Input::File(value.into())
    };
    Ok((name, input))
}

/// Parses `1,2,3`, `[1, 2, 3]` and `[1]`.
fn numbers(text: &str) -> Option<Vec<f64>> {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_list = inner.is_some() || text.contains(',');
    let parts = inner.unwrap_or(text).split(',').map(|part| part.trim().parse());
    parts.collect::<Result<_, _>>().ok().filter(|_| is_list)
}

/// Checks the extension in `Y=y.npy`, `Y=y.png`.
fn output((name, path): (String, PathBuf)) -> Result<(String, PathBuf), String> {
    if is_picture(&path) || path.extension().is_some_and(|extension| extension == "npy") {
        return Ok((name, path));
    }
    Err("it wants a file that ends in .npy, .png, .jpg or .jpeg".to_string())
}

/// Parses the name of a pixel scaling.
pub fn pixels(text: &str) -> Result<Pixels, String> {
    let names = || Pixels::ALL.map(|(name, _)| name).join(", ");
    let found = Pixels::ALL.into_iter().find(|(name, _)| *name == text);
    found.map(|(_, pixels)| pixels).ok_or_else(|| format!("it wants one of {}", names()))
}

/// Parses `units=10`, `rate=0.5`, `use_bias=false`, `activation=relu`.
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
        _ => match (integer(value)?, value.parse::<f64>()) {
            (Some(integer), _) => Setting::Int(integer),
            (_, Ok(float)) if float.is_finite() => Setting::Float(float),
            _ => return Err(format!("`{value}` is no number, `true`, `false` or name")),
        },
    };
    Ok((name, setting))
}

/// Formats a hyper-parameter as the command line takes it.
pub fn setting_text(setting: &Setting) -> String {
    match setting {
        Setting::Bool(value) => value.to_string(),
        Setting::Int(value) => value.to_string(),
        Setting::Float(value) => value.to_string(),
        Setting::Name(value) => value.clone(),
    }
}

/// Parses an integer. `None` if the text is not a decimal integer.
fn integer(text: &str) -> Result<Option<i64>, String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| format!("`{text}` does not fit a 64-bit integer"))
}

/// Parses `1000`, `10_000`, `1e7` and `2.5e6`.
pub fn size(text: &str) -> Result<usize, String> {
    let refused = || format!("`{text}` is not a size");
    let is_grouped = text.split('_').all(|group| group.starts_with(|c: char| c.is_ascii_digit()));
    let digits = text.replace('_', "");
    if !is_grouped {
        return Err(refused());
    }
    if let Ok(size) = digits.parse() {
        return Ok(size);
    }
    // Floats up to this bound are exact.
    const EXACT: f64 = (1u64 << f64::MANTISSA_DIGITS) as f64;
    let float = digits.parse::<f64>().ok().filter(|float| float.fract() == 0.0 && *float <= EXACT);
    float.filter(|_| digits.contains(['e', 'E'])).map(|float| float as usize).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        assert_eq!(shape("X=2x3"), Ok(("X".into(), TensorType::new(DType::F32, [2, 3]))));
        assert_eq!(shape("X=f16:7"), Ok(("X".into(), TensorType::new(DType::F16, [7]))));
        assert_eq!(shape("X=i32:"), Ok(("X".into(), TensorType::scalar(DType::I32))));
        assert_eq!(shape("X=2,3"), Err("expected sizes with `x` between them, as in X=2x3".into()));
        assert_eq!(shape("X=2xa"), Err("`a` is not a size".into()));
        assert_eq!(shape("X=f17:2"), Err("`f17` is not an element type".into()));
        assert_eq!(shape("2x3"), Err("expected NAME=VALUE".into()));
    }

    #[test]
    fn sizes() {
        let sizes = ["8", "10_000", "1e7", "2.5e3", "1_0e2"].map(size);
        assert_eq!(sizes, [Ok(8), Ok(10_000), Ok(10_000_000), Ok(2500), Ok(1000)]);
        for text in [
            "", "-1", "2.0", "2.5e0", "1e-1", "_1", "1_", "1e400", "1e16", "+e1", "nan", "0x8",
            "1,2",
        ] {
            assert_eq!(size(text), Err(format!("`{text}` is not a size")));
        }
        assert_eq!(dim("N=8,1e3"), Ok(("N".into(), vec![8, 1000])));
        assert_eq!(dim("N=8,"), Err("`` is not a size".into()));
    }

    #[test]
    fn settings() {
        assert_eq!(setting("units=10"), Ok(("units".into(), Setting::Int(10))));
        assert_eq!(setting("rate=-0.5"), Ok(("rate".into(), Setting::Float(-0.5))));
        assert_eq!(setting("bias=false"), Ok(("bias".into(), Setting::Bool(false))));
        assert_eq!(
            setting("activation=relu"),
            Ok(("activation".into(), Setting::Name("relu".into())))
        );
        assert_eq!(setting("units=4294967299"), Ok(("units".into(), Setting::Int(4294967299))));
        let message = "`99999999999999999999` does not fit a 64-bit integer";
        assert_eq!(setting("units=99999999999999999999"), Err(message.into()));
        assert_eq!(setting("a=[1]"), Err("`[1]` is no number, `true`, `false` or name".into()));
    }

    #[test]
    fn inputs() {
        assert_eq!(input("S=3"), Ok(("S".into(), Input::Number(Scalar::i32(3)))));
        assert_eq!(
            input("S=4294967299"),
            Ok(("S".into(), Input::Number(Scalar::from_i64(DType::I64, 4294967299))))
        );
        let message = "`-99999999999999999999` does not fit a 64-bit integer";
        assert_eq!(input("S=-99999999999999999999"), Err(message.into()));
        assert_eq!(input("S=1e60"), Err("`1e60` does not fit an f32".into()));
        assert_eq!(input("S=true"), Ok(("S".into(), Input::Number(Scalar::bool(true)))));
        assert_eq!(input("S=-2.5"), Ok(("S".into(), Input::Number(Scalar::f32(-2.5)))));
        assert_eq!(input("S=1e3"), Ok(("S".into(), Input::Number(Scalar::f32(1000.0)))));
        assert_eq!(input("S=inf"), Ok(("S".into(), Input::File("inf".into()))));
        for text in ["X=1,-2.5, 3e2", "X=[1, -2.5, 3e2]"] {
            assert_eq!(input(text), Ok(("X".into(), Input::Numbers(vec![1.0, -2.5, 300.0]))));
        }
        assert_eq!(input("X=[7]"), Ok(("X".into(), Input::Numbers(vec![7.0]))));
        for path in ["1,2.npy", "[1", "1,,2", "[]"] {
            assert_eq!(input(&format!("X={path}")), Ok(("X".into(), Input::File(path.into()))));
        }
        assert_eq!(input("X=a=b.npy"), Ok(("X".into(), Input::File("a=b.npy".into()))));
    }
}
