//! Reads samples from a .csv file, which has a header and one sample per line. The target is the
//! column `label` or `target`, else `y` unless there is a column `x`, else the last column. A
//! column `sample_weight` has the samples' weights. All other columns are the inputs, in order.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType};
use tile_lang::{did_you_mean, listed};

use crate::error::Error;
use crate::files::{Allowance, Counted};
use crate::train::{Arrays, Column, ColumnRole, Dataset, TableColumns};

/// A header and rows of numbers. All numbers are finite as f32.
struct Table {
    header: csv::StringRecord,
    rows: Vec<Vec<f64>>,
    /// The positions of the rows in the file, for [`line_of`].
    starts: Vec<u64>,
}

/// The names that columns of targets usually have.
const USUAL_TARGETS: [&str; 3] = ["label", "target", "y"];

/// The samples of a file. A sample is named by its line.
#[derive(Debug)]
pub struct TableSamples {
    arrays: Arrays,
    path: PathBuf,
    starts: Vec<u64>,
    columns: TableColumns,
    /// True if the target is the last column because none has a usual name.
    has_last_target: bool,
}

impl TableSamples {
    /// Returns the columns by their names.
    pub fn table_columns(&self) -> TableColumns {
        self.columns.clone()
    }
}

impl Dataset for TableSamples {
    fn len(&self) -> usize {
        self.arrays.len()
    }

    fn columns(&self) -> Vec<Column> {
        self.arrays.columns()
    }

    fn batch(&self, samples: &[usize]) -> Result<Vec<Tensor>, Error> {
        self.arrays.batch(samples)
    }

    fn whole_column(&self, column: usize) -> Option<Cow<'_, Tensor>> {
        self.arrays.whole_column(column)
    }

    fn origin_of_targets(&self) -> Option<String> {
        let target = self.columns.target.as_ref().filter(|_| self.has_last_target)?;
        Some(format!(
            "the targets are the last column, `{target}`, because no column is called `label`"
        ))
    }

    fn place(&self, sample: usize) -> String {
        match self.starts.get(sample) {
            Some(start) => {
                format!("line {} of {}", line_of(&self.path, *start), self.path.display())
            }
            None => format!("row {sample}"),
        }
    }
}

/// The indices of the columns by their purposes.
struct Roles {
    inputs: Vec<usize>,
    target: Option<usize>,
    weight: Option<usize>,
}

impl Table {
    fn read(path: &Path) -> Result<Table, Error> {
        let failed = |what: String| Error::data(format!("{}: {what}", path.display()));
        let file = File::open(path).map_err(|error| Error::read(path, error))?;
        let mut allowance = Allowance::of(&file, None).map_err(|error| Error::read(path, error))?;
        let counted = Counted::new(file, allowance.clone());
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(counted);
        let header = reader.headers().map_err(|error| Error::read(path, error))?.clone();
        // The memory of a row with its numbers, and of the values that they are converted to.
        let numbers = 2 * size_of::<f64>() as u64 * header.len() as u64;
        let row = (size_of::<Vec<f64>>() + size_of::<u64>()) as u64 + numbers;
        if let (1, Some(line)) = (header.len(), header.get(0))
            && let Some(separator) = line.chars().find(|c| ";\t|".contains(*c))
        {
            return Err(failed(format!(
                "the separator of columns is a comma, and the first line has {separator:?}"
            )));
        }
        if header.is_empty() {
            return Err(failed("it is empty".into()));
        }
        if header.iter().all(|name| name.parse::<f64>().is_ok()) {
            return Err(failed(
                "the first line has numbers, and should have the columns' names".into(),
            ));
        }
        let (mut rows, mut starts) = (Vec::new(), Vec::new());
        for record in reader.records() {
            let record = record.map_err(|error| match (error.kind(), error.position()) {
                (csv::ErrorKind::UnequalLengths { expected_len, len, .. }, Some(start)) => {
                    let line = line_of(path, start.byte());
                    failed(format!("line {line}: expected {expected_len} columns, found {len}"))
                }
                _ => Error::read(path, error),
            })?;
            allowance.take(row).map_err(|error| Error::read(path, error))?;
            let line = || record.position().map_or(0, |start| line_of(path, start.byte()));
            let number = |(field, name): (&str, &str)| {
                let value: f64 = field.parse().map_err(|_| {
                    let what = if field.is_empty() {
                        "it is empty".to_owned()
                    } else {
                        format!("`{field}` is no number")
                    };
                    failed(format!("line {}, `{name}`: {what}", line()))
                })?;
                match (value as f32).is_finite() {
                    true => Ok(value),
                    false => {
                        Err(failed(format!("line {}, `{name}`: it is {}", line(), value as f32)))
                    }
                }
            };
            starts.push(record.position().map_or(0, csv::Position::byte));
            rows.push(record.iter().zip(&header).map(number).collect::<Result<_, Error>>()?);
        }
        match rows.is_empty() {
            true => Err(failed("it has a header, and no samples".into())),
            false => Ok(Table { header, rows, starts }),
        }
    }

    /// Finds the columns of targets and weights.
    fn roles(&self) -> Roles {
        let column =
            |name: &str| self.header.iter().position(|column| column.eq_ignore_ascii_case(name));
        // In a table of points, `x` and `y` are both inputs.
        let y = || if column("x").is_none() { column("y") } else { None };
        let weight = column("sample_weight");
        let last = || (0..self.header.len()).rev().find(|number| Some(*number) != weight);
        let [label, target, _] = USUAL_TARGETS;
        let target = column(label).or_else(|| column(target)).or_else(y).or_else(last);
        let is_input = |number: &usize| Some(*number) != target && Some(*number) != weight;
        Roles { inputs: (0..self.header.len()).filter(is_input).collect(), target, weight }
    }

    /// Finds the columns with these names.
    fn columns(&self, path: &Path, names: &[String]) -> Result<Vec<usize>, Error> {
        self.check_distinct(path, names.iter().map(String::as_str))?;
        let column = |name: &String| {
            self.header.iter().position(|column| column == name).ok_or_else(|| {
                let found: Vec<&str> = self.header.iter().collect();
                let near = did_you_mean(name, found.iter().copied());
                let near = near.map_or(String::new(), |near| format!("; {near}"));
                Error::data(format!(
                    "{}: there is no column `{name}`, which the model was trained on: there are {}{near}",
                    path.display(),
                    listed(&found)
                ))
            })
        };
        names.iter().map(column).collect()
    }

    /// Checks that no two columns have one of these names. Any number may have none.
    fn check_distinct<'a>(
        &'a self,
        path: &Path,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<(), Error> {
        let mut named: Vec<&str> = self.header.iter().filter(|name| !name.is_empty()).collect();
        named.sort_unstable();
        let twice: BTreeSet<&str> =
            named.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        match names.into_iter().find(|name| twice.contains(name)) {
            Some(name) => {
                Err(Error::data(format!("{}: two columns are named `{name}`", path.display())))
            }
            None => Ok(()),
        }
    }

    fn names(&self, columns: &[usize]) -> Vec<String> {
        columns.iter().filter_map(|column| self.header.get(*column).map(str::to_owned)).collect()
    }

    fn column(&self, number: usize) -> impl Iterator<Item = f64> {
        self.rows.iter().map(move |row| row[number])
    }

    /// Returns columns as f32[rows, columns].
    fn inputs(&self, columns: &[usize]) -> Option<Tensor> {
        let values: Vec<f32> = self
            .rows
            .iter()
            .flat_map(|row| columns.iter().map(|column| row[*column] as f32))
            .collect();
        Tensor::from_f32([self.rows.len(), columns.len()], &values)
    }
}

/// Reads samples. The inputs and the target are the columns with the names of `known`. Without a
/// name the target is found by its usual names, or else last, and the inputs are all others. The
/// input is f32 with one element per input column. The target is i32 if all its values are
/// integers, else f32.
///
/// # Errors
/// Returns [`Error::Data`] with the file, the line and the column. NaN is an error, too.
pub fn read(path: &Path, known: &TableColumns) -> Result<TableSamples, Error> {
    let failed = |what: &str| Error::data(format!("{}: {what}", path.display()));
    let table = Table::read(path)?;
    let mut roles = table.roles();
    if !known.inputs.is_empty() {
        roles.inputs = table.columns(path, &known.inputs)?;
        let is_other = |number: &usize| !roles.inputs.contains(number);
        // The last column is the target if it is no input, else the last that is none.
        let last =
            || (0..table.header.len()).rev().find(|n| is_other(n) && Some(*n) != roles.weight);
        roles.target = match &known.target {
            Some(name) => table.columns(path, std::slice::from_ref(name))?.pop(),
            None => roles.target.filter(is_other).or_else(last),
        };
    }
    let used = roles.inputs.iter().chain(&roles.target).chain(&roles.weight);
    table.check_distinct(path, used.filter_map(|&column| table.header.get(column)))?;
    let Some(target) = roles.target.filter(|_| !roles.inputs.is_empty()) else {
        return Err(failed(
            "a table of samples has at least two columns, the last of which is the target",
        ));
    };
    let too_large = || failed("the table is too large");
    let whole =
        table.column(target).all(|value| value.fract() == 0.0 && value.abs() < 2f64.powi(31));
    let ty = TensorType::new(if whole { DType::I32 } else { DType::F32 }, [table.rows.len()]);
    let targets = table.column(target).map(|value| Scalar::from_f64(DType::F64, value));
    let y = Tensor::from_scalars(ty, targets).ok_or_else(too_large)?;
    let samples = Arrays::new(table.inputs(&roles.inputs).ok_or_else(too_large)?, y)?;
    let arrays = match roles.weight {
        Some(weight) => {
            let weights: Vec<f32> = table.column(weight).map(|value| value as f32).collect();
            let weights = Tensor::from_f32([weights.len()], &weights).ok_or_else(too_large)?;
            samples.with(ColumnRole::Weight, Some("sample_weight"), weights)?
        }
        None => samples,
    };
    let columns = TableColumns {
        inputs: table.names(&roles.inputs),
        target: table.header.get(target).map(str::to_owned),
    };
    let has_last_target = known.target.is_none()
        && columns.target.as_ref().is_some_and(|name| {
            USUAL_TARGETS.iter().all(|usual| !name.eq_ignore_ascii_case(usual))
        });
    let (path, starts) = (path.to_owned(), table.starts);
    Ok(TableSamples { arrays, path, starts, columns, has_last_target })
}

/// Reads inputs for prediction as f32[rows, columns]: the columns called `columns`. If there are no
/// names, and the table has more columns than `width`, the columns of targets and weights are left
/// out. Returns the names of those, too.
///
/// # Errors
/// Fails like [`read`].
pub fn read_inputs(
    path: &Path,
    width: Option<usize>,
    columns: &[String],
) -> Result<(Tensor, Vec<String>), Error> {
    let table = Table::read(path)?;
    let all = 0..table.header.len();
    let mut left_out = Vec::new();
    let inputs = match width {
        _ if !columns.is_empty() => table.columns(path, columns)?,
        Some(width) if all.len() > width => {
            let inputs = table.roles().inputs;
            let others: Vec<usize> = all.filter(|column| !inputs.contains(column)).collect();
            left_out = table.names(&others);
            inputs
        }
        _ => all.collect(),
    };
    let too_large = || Error::data(format!("{}: the table is too large", path.display()));
    Ok((table.inputs(&inputs).ok_or_else(too_large)?, left_out))
}

/// Returns the line of a record. `byte` is its position as given by the reader: its first byte, or
/// the end of a preceding line if lines end in CR LF or are empty.
fn line_of(path: &Path, byte: u64) -> usize {
    let Ok(file) = File::open(path) else { return 1 };
    let mut file = BufReader::new(file);
    let mut lines = 1;
    let mut before = file.by_ref().take(byte);
    while let Ok(piece @ [_, ..]) = before.fill_buf() {
        lines += piece.iter().filter(|&&byte| byte == b'\n').count();
        let length = piece.len();
        before.consume(length);
    }
    let ends = file.bytes().map_while(Result::ok).take_while(|byte| matches!(byte, b'\r' | b'\n'));
    lines + ends.filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spreadsheets on Windows write a byte order mark and CR LF.
    #[test]
    fn texts_from_windows() {
        let folder = std::env::temp_dir().join(format!("tilec-test-{}-table", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("points.csv");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(&path, &TableColumns::default())
                .map(|samples| (format!("{:?}", samples.arrays), samples.place(1)))
                .map_err(|error| error.to_string().replace(&path.display().to_string(), "FILE"))
        };
        // The first column is the target, so its name directly follows the mark.
        let text = "label,width,height\n1,0.5,2\n0,0.25,4\n";
        let expected = read(text).unwrap();
        assert_eq!(expected.1, format!("line 3 of {}", path.display()));
        let marked = format!("{}{text}", '\u{feff}');
        for text in [marked.clone(), text.replace('\n', "\r\n"), marked.replace('\n', "\r\n")] {
            assert_eq!(read(&text).unwrap(), expected, "{text:?}");
        }
        let wrong = marked.replace("0.25", "x").replace('\n', "\r\n");
        assert_eq!(read(&wrong).map(|_| ()), Err("FILE: line 3, `width`: `x` is no number".into()));
        let longer = format!("{text}\n1,2,3,4\n").replace('\n', "\r\n");
        assert_eq!(
            read(&longer).map(|_| ()),
            Err("FILE: line 5: expected 3 columns, found 4".into())
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
