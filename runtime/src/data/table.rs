//! Samples in a .csv file: a header, then a sample a line. The column `label` or `target`, else `y` (beside which `x` is no
//! column), else the last one, is the target; the others are the numbers of the input, in order.

use std::path::Path;

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType};

use crate::error::Error;
use crate::train::Arrays;

/// Reads a file: an input f32 of the columns' number, and a target i32 where all are whole numbers, else f32.
///
/// # Errors
/// [`Error::Data`], which names the file, the line and the column.
pub fn read(path: &Path) -> Result<Arrays, Error> {
    let failed = |what: String| Error::data(format!("{}: {what}", path.display()));
    let mut reader =
        csv::ReaderBuilder::new().trim(csv::Trim::All).from_path(path).map_err(|e| failed(e.to_string()))?;
    let header = reader.headers().map_err(|e| failed(e.to_string()))?.clone();
    let column = |name: &str| header.iter().position(|column| column.eq_ignore_ascii_case(name));
    // Points have an x and a y.
    let y = || if column("x").is_none() { column("y") } else { None };
    let target = column("label").or_else(|| column("target")).or_else(y).or(header.len().checked_sub(1));
    let Some(target) = target.filter(|_| header.len() > 1) else {
        return Err(failed("a table of samples has at least two columns, the last of which is the target".into()));
    };
    if header.iter().all(|name| name.parse::<f64>().is_ok()) {
        return Err(failed("the first line has numbers, and should have the columns' names".into()));
    }
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for record in reader.records() {
        let record = record.map_err(|e| failed(e.to_string()))?;
        let line = record.position().map_or(0, csv::Position::line);
        for (number, (field, name)) in record.iter().zip(&header).enumerate() {
            let value: f64 =
                field.parse().map_err(|_| failed(format!("line {line}, `{name}`: `{field}` is no number")))?;
            if number == target { y.push(value) } else { x.push(value as f32) }
        }
    }
    let whole = y.iter().all(|value| value.fract() == 0.0 && value.abs() < 2f64.powi(31));
    let target = TensorType::new(if whole { DType::I32 } else { DType::F32 }, [y.len()]);
    let y = Tensor::from_scalars(target, y.iter().map(|value| Scalar::from_f64(DType::F64, *value)));
    let x = Tensor::from_f32([x.len() / (header.len() - 1), header.len() - 1], &x);
    match (x, y) {
        (Some(x), Some(y)) => Arrays::new(x, y),
        _ => Err(failed("the table is too large".into())),
    }
}
