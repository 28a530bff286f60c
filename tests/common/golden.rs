//! Layer cases, with the arrays that golden/layers/make.py made for them. golden/layers/cases.py
//! describes the files.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use tile_compiler::tensor::{Tensor, TensorType};
use tile_runtime::data::npy;
use tile_runtime::{DType, Error, Model, Scalar};

/// Returns the path of a file in golden/.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

pub fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Reads the arrays of a file, one after another.
pub fn arrays(name: &str) -> impl FnMut() -> Tensor + use<> {
    let mut file =
        BufReader::new(File::open(path(name)).unwrap_or_else(|error| panic!("{name}: {error}")));
    move || npy::read(&mut file).unwrap()
}

/// A model and its results.
#[derive(Default)]
pub struct Case {
    pub name: String,
    /// The statements of the model.
    pub body: String,
    pub training: bool,
    /// The `input`, `weight`, `output` and `update` lines: the kind, the name or path, and the
    /// rest.
    pub lines: Vec<(String, String, String)>,
}

impl Case {
    /// Reads the cases of golden/layers/NAME.txt.
    pub fn read(name: &str) -> Vec<Case> {
        Case::all(&format!("layers/{name}.txt"))
    }

    /// Reads the cases of a file in golden/.
    pub fn all(file: &str) -> Vec<Case> {
        text(file).split("\n\n").map(Case::parse).collect()
    }

    fn parse(block: &str) -> Case {
        let mut case = Case::default();
        for line in block.lines() {
            let mut words = line.splitn(3, ' ').map(String::from);
            if line.starts_with("    ") {
                case.body += line;
                case.body.push('\n');
                continue;
            }
            match (words.next().as_deref(), words.next(), words.next()) {
                (Some("case"), Some(name), None) => case.name = name,
                (Some("training"), None, None) => case.training = true,
                (Some(kind), Some(name), Some(rest)) => case.lines.push((kind.into(), name, rest)),
                _ => panic!("not a line of a case: {line}"),
            }
        }
        case
    }

    /// Returns the names or paths, and the rest, of a kind's lines.
    pub fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.lines
            .iter()
            .filter(move |line| line.0 == kind)
            .map(|(_, name, rest)| (name.as_str(), rest.as_str()))
    }

    /// Compiles the program whose only model is the case.
    pub fn program(&self) -> Result<Model, String> {
        let names = |kind| self.of(kind).map(|(name, _)| name).collect::<Vec<_>>().join(", ");
        let source = format!(
            "model Case({}) -> ({}) {{\n{}}}\n",
            names("input"),
            names("output"),
            self.body
        );
        Model::compile(&source).map_err(|error| render(&error))
    }
}

/// Parses a type such as `f32[2, 3]`.
pub fn tensor_type(text: &str) -> TensorType {
    let (dtype, sizes) = text.split_once('[').unwrap();
    let sizes = sizes.strip_suffix(']').unwrap();
    let sizes: Vec<usize> =
        sizes.split(", ").filter(|s| !s.is_empty()).map(|size| size.parse().unwrap()).collect();
    TensorType::new(DType::parse(dtype).unwrap(), sizes)
}

/// Returns the tensor that a name's hash makes, with elements from `low` to `high`:
/// golden/hashed.py describes it.
pub fn hashed(name: &str, ty: &TensorType, low: f64, high: f64) -> Tensor {
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325, fnv);
    let values = (1..=ty.elements() as u64).map(|number| {
        let z = seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let value = low + (high - low) * (((z ^ (z >> 31)) >> 40) as f64 / f64::from(1 << 24));
        match ty.dtype {
            DType::I32 => Scalar::from_i64(DType::I32, value.floor() as i64),
            _ => Scalar::f32(value as f32),
        }
    });
    Tensor::from_scalars(ty.clone(), values).unwrap()
}

/// Renders an error as users see it.
pub fn render(error: &Error) -> String {
    error.render("case.tile", false)
}

/// Returns whether a device refuses a program only because of a type that it lacks.
pub fn refused(error: &Error) -> bool {
    let Error::Program { diagnostics, .. } = error else { return false };
    diagnostics.iter().all(|diagnostic| matches!(diagnostic.code, "E0290" | "E0291"))
}

/// Returns what is wrong with a result, up to a rounding difference of 1e-5: see
/// [`difference_above`].
pub fn difference(found: &Tensor, expected: &Tensor) -> Option<String> {
    difference_above(1e-5, 0.0, found, expected)
}

/// Returns what is wrong with a result, up to a rounding difference: an absolute one, and a
/// relative one of the value itself, or of the largest value in the tensor, since large terms may
/// have cancelled. The largest value counts as at least 1e-3.
pub fn difference_above(
    relative: f64,
    absolute: f64,
    found: &Tensor,
    expected: &Tensor,
) -> Option<String> {
    if found.ty() != expected.ty() {
        return Some(format!("is {}, not {}", found.ty(), expected.ty()));
    }
    let (found, values) = (found.to_f64s(), expected.to_f64s());
    let scale = values.iter().fold(1e-3, |most: f64, value| most.max(value.abs()));
    let tolerance = if expected.dtype().is_float() { absolute + relative * scale } else { 0.0 };
    let within = |(found, value): (&f64, &f64)| (found - value).abs() <= tolerance;
    let place = found.iter().zip(&values).position(|pair| !within(pair))?;
    let wrong = found.iter().zip(&values).filter(|pair| !within(*pair)).count();
    let (found, value, all) = (found[place], values[place], values.len());
    Some(format!(
        "is {found} at {place}, not {value}; {wrong} of {all} differ, the largest is {scale}"
    ))
}
