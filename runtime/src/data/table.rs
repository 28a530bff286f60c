//! Samples in a .csv file: a header, then a sample a line. The column `label` or `target`, else `y` (beside which `x` is no
//! column), else the last one, is the target; `sample_weight`, if there is one, what the sample counts; the others are the
//! numbers of the input, in order.

use std::path::Path;

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType};

use crate::error::Error;
use crate::train::{Arrays, ColumnRole};

/// Reads a file: an input f32 of the columns' number, and a target i32 where all are whole numbers, else f32.
///
/// # Errors
/// [`Error::Data`], which names the file, the line and the column; also where a number is NaN.
pub fn read(path: &Path) -> Result<Arrays, Error> {
    let failed = |what: String| Error::data(format!("{}: {what}", path.display()));
    let mut reader =
        csv::ReaderBuilder::new().trim(csv::Trim::All).from_path(path).map_err(|e| failed(e.to_string()))?;
    let header = reader.headers().map_err(|e| failed(e.to_string()))?.clone();
    let column = |name: &str| header.iter().position(|column| column.eq_ignore_ascii_case(name));
    // Points have an x and a y.
    let y = || if column("x").is_none() { column("y") } else { None };
    let weight = column("sample_weight");
    let last = || (0..header.len()).rev().find(|number| Some(*number) != weight);
    let target = column("label").or_else(|| column("target")).or_else(y).or_else(last);
    let inputs = header.len().saturating_sub(1 + usize::from(weight.is_some()));
    let Some(target) = target.filter(|_| inputs > 0) else {
        if let Some(separator) = header.get(0).and_then(|line| line.chars().find(|c| ";\t|".contains(*c))) {
            return Err(failed(format!("the separator of columns is a comma, and the first line has {separator:?}")));
        }
        return Err(failed("a table of samples has at least two columns, the last of which is the target".into()));
    };
    if header.iter().all(|name| name.parse::<f64>().is_ok()) {
        return Err(failed("the first line has numbers, and should have the columns' names".into()));
    }
    let (mut x, mut y, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    for record in reader.records() {
        let record = record.map_err(|e| failed(e.to_string()))?;
        let line = record.position().map_or(0, csv::Position::line);
        for (number, (field, name)) in record.iter().zip(&header).enumerate() {
            let value: f64 =
                field.parse().map_err(|_| failed(format!("line {line}, `{name}`: `{field}` is no number")))?;
            if !(value as f32).is_finite() {
                return Err(failed(format!("line {line}, `{name}`: it is {}", value as f32)));
            }
            match number {
                number if number == target => y.push(value),
                number if Some(number) == weight => weights.push(value as f32),
                _ => x.push(value as f32),
            }
        }
    }
    if y.is_empty() {
        return Err(failed("it has a header, and no samples".into()));
    }
    let whole = y.iter().all(|value| value.fract() == 0.0 && value.abs() < 2f64.powi(31));
    let target = TensorType::new(if whole { DType::I32 } else { DType::F32 }, [y.len()]);
    let y = Tensor::from_scalars(target, y.iter().map(|value| Scalar::from_f64(DType::F64, *value)));
    let x = Tensor::from_f32([x.len() / inputs, inputs], &x);
    let (Some(x), Some(y), Some(weights)) = (x, y, Tensor::from_f32([weights.len()], &weights)) else {
        return Err(failed("the table is too large".into()));
    };
    let samples = Arrays::new(x, y)?;
    match weight {
        Some(_) => samples.with(ColumnRole::Weight, Some("sample_weight"), weights),
        None => Ok(samples),
    }
}
