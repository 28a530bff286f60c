//! The samples of `tilec predict`: pictures, and rows of arrays and tables.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use tile_lang::listed;
use tile_runtime::data::folder::{self, Wanted};
use tile_runtime::data::picture::{self, Pixels, is_picture};
use tile_runtime::data::{npy, table};
use tile_runtime::train::{Arrays, ColumnRole, Dataset};
use tile_runtime::{Declared, Error, Tensor, TensorType};

use super::Predict;
use crate::arguments::Sizes;
use crate::source::Source;
use crate::terminal::{Failure, Terminal};

/// The inputs that a sample has a tensor for, and the names of the outputs.
pub struct Signature {
    /// The inputs without a default, in order, and their types as far as they are declared.
    pub inputs: Vec<(String, Option<Declared>)>,
    outputs: Vec<String>,
    /// The numbers of samples for which a pack has plans, in ascending order.
    batches: Vec<usize>,
}

impl Signature {
    /// Returns the signature of the entry.
    pub fn of(sizes: &Sizes, source: &Source) -> Result<Signature, Failure> {
        let (bindings, entry) = (sizes.bindings(), sizes.entry.as_deref());
        let mut outputs = Vec::new();
        let names: Vec<String> = match source.model.pack() {
            Some(pack) => {
                outputs = pack.outputs().map(str::to_owned).collect();
                pack.inputs().map(str::to_owned).collect()
            }
            None if source.model.is_onnx() => {
                source.model.onnx_inputs().into_iter().map(str::to_owned).collect()
            }
            None => {
                let function =
                    source.model.program().entry(entry).map_err(|e| source.rejected(&[e]))?;
                outputs = function.outputs.iter().map(|output| output.name.clone()).collect();
                function.required_inputs().map(|input| input.name.name.clone()).collect()
            }
        };
        if names.is_empty() {
            return Err(Failure::input("the model has no input to predict from: use `run`"));
        }
        let declared = |name: String| {
            let declared = source.model.declared(entry, &name, &bindings);
            (name, declared)
        };
        let inputs: Vec<_> = names.into_iter().map(declared).collect();
        for (name, declared) in &inputs {
            let is_open = declared.is_none() && inputs.len() > 1;
            if !is_open && declared.as_ref().is_none_or(|declared| declared.sizes.is_empty()) {
                let what = format!("`{name}` has no axis of samples");
                let help = format!(
                    "declare it in the header, as in `{name}[N, 28, 28]`, or with `--shape {name}=1x28x28`"
                );
                return Err(source.wrong_input(entry, name, "E0301", &what, &help));
            }
        }
        let batches =
            source.model.pack().map(|pack| pack.samples(&bindings.sizes)).unwrap_or_default();
        Ok(Signature { inputs, outputs, batches })
    }

    /// Returns the number of samples that run together: the model's, else `wanted`. Pictures of any
    /// size run one by one.
    pub fn batch_size(&self, wanted: usize) -> usize {
        let large = self.batches.iter().find(|size| **size >= wanted);
        if let Some(size) = large.or(self.batches.last()) {
            return (*size).max(1);
        }
        let declared = || self.inputs.iter().filter_map(|(_, declared)| declared.as_ref());
        let size = match declared().find_map(|declared| declared.sizes[0]) {
            Some(size) => size,
            None if declared().any(|declared| declared.sizes[1..].contains(&None)) => 1,
            None => wanted,
        };
        size.max(1)
    }

    /// Returns the declared type of the only input. `None` if there are several.
    fn only(&self) -> Option<&Declared> {
        match &self.inputs[..] {
            [(_, declared)] => declared.as_ref(),
            _ => None,
        }
    }
}

/// One sample, with its name in the results.
pub struct Sample {
    pub name: String,
    content: Content,
}

enum Content {
    Picture(PathBuf, Pixels),
    Row(Rc<Rows>, usize),
}

/// Samples in arrays, and the column of each input.
struct Rows {
    data: Box<dyn Dataset>,
    columns: Vec<usize>,
}

impl Sample {
    fn picture(path: &Path, pixels: Pixels) -> Sample {
        let content = Content::Picture(path.to_owned(), pixels);
        Sample { name: path.display().to_string(), content }
    }

    /// Returns the tensors of the inputs, each with a first axis of size 1. Checks their sizes.
    pub fn read(&self, signature: &Signature) -> Result<Vec<Tensor>, Failure> {
        let failed = |error: Error| Failure::input(error.to_string());
        let tensors = match &self.content {
            Content::Picture(path, pixels) => {
                let mut declared = signature
                    .only()
                    .cloned()
                    .ok_or_else(|| Failure::input("a picture is one input"))?;
                declared.sizes[0] = Some(1);
                vec![picture::read(path, &declared, *pixels).map_err(failed)?]
            }
            Content::Row(rows, row) => {
                let mut batch: Vec<Option<Tensor>> =
                    rows.data.batch(&[*row]).map_err(failed)?.into_iter().map(Some).collect();
                rows.columns.iter().filter_map(|column| batch.get_mut(*column)?.take()).collect()
            }
        };
        for ((name, declared), tensor) in signature.inputs.iter().zip(&tensors) {
            let is_only = signature.inputs.len() == 1;
            let of_input = if is_only { String::new() } else { format!(" of `{name}`") };
            self.check_sizes(declared.as_ref(), &tensor.shape()[1..], tensor, &of_input)?;
        }
        Ok(tensors)
    }

    /// Checks that a sample has the sizes that the model declares.
    fn check_sizes(
        &self,
        declared: Option<&Declared>,
        shape: &[usize],
        tensor: &Tensor,
        of_input: &str,
    ) -> Result<(), Failure> {
        let Some(declared) = declared else { return Ok(()) };
        if declared.fits_sample(shape) {
            return Ok(());
        }
        let sizes = declared.sample_sizes();
        Err(Failure::input(format!(
            "{} is {}, and a sample{of_input} has the sizes [{sizes}]",
            self.name,
            TensorType::new(tensor.dtype(), shape)
        )))
    }
}

/// Lists the samples of all inputs, in order. Those of a folder are in the order of their names.
/// `columns` names the columns of a table that the model was trained on.
pub fn read(
    arguments: &Predict,
    signature: &Signature,
    pixels: Pixels,
    columns: &[String],
    terminal: &Terminal,
) -> Result<Vec<Sample>, Failure> {
    let failed = |error: Error| Failure::input(error.to_string());
    let mut samples = Vec::new();
    for path in &arguments.inputs {
        path.metadata().map_err(|error| Failure::reading(path, &error))?;
        let extension =
            path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let extension = extension.to_ascii_lowercase();
        if extension == "npz" || (path.is_dir() && is_by_names(path, signature)) {
            add_named(path, pixels, signature, terminal, &mut samples)?;
            continue;
        }
        let Some(declared) = signature.only() else {
            return Err(several_inputs(path, signature));
        };
        match &*extension {
            _ if path.is_dir() => add_folder(path, pixels, terminal, &mut samples)?,
            _ if is_picture(path) => {
                refuse_pictures(path, declared)?;
                samples.push(Sample::picture(path, pixels));
            }
            "npy" => {
                let array = npy::open(path)
                    .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
                add_array(path, array, declared, &mut samples)?;
            }
            "csv" => {
                let width = declared.sizes.get(1).copied().flatten();
                let (rows, left_out) = table::read_inputs(path, width, columns).map_err(failed)?;
                if !left_out.is_empty() {
                    let names = listed(&left_out);
                    terminal.note(&format!("{}: not used as input: {names}", path.display()));
                }
                add_array(path, rows, declared, &mut samples)?;
            }
            _ => {
                let what = "expected a picture (.png, .jpg), a folder of pictures, arrays (.npy, .npz) or a table (.csv)";
                return Err(Failure::input(format!("{}: {what}", path.display())));
            }
        }
    }
    let is_open = signature.only().is_some_and(|declared| declared.sizes[1..].contains(&None));
    if is_open && samples.iter().any(|sample| matches!(sample.content, Content::Picture(..))) {
        terminal.note("pictures keep their own sizes, as the model declares none");
    }
    Ok(samples)
}

/// Refuses a picture for an input whose samples are no pictures.
fn refuse_pictures(path: &Path, declared: &Declared) -> Result<(), Failure> {
    if declared.sizes.len() > 2 {
        return Ok(());
    }
    let shape = declared.shape();
    Err(Failure::input(format!(
        "{}: the model takes {shape}, no pictures: those are [N, H, W] or [N, H, W, 3]",
        path.display()
    )))
}

/// Returns the error for a file that has one input of a model with several.
fn several_inputs(path: &Path, signature: &Signature) -> Failure {
    let names: Vec<String> = signature.inputs.iter().map(|(name, _)| format!("`{name}`")).collect();
    let Some((first, _)) = signature.inputs.first() else {
        return Failure::input("the model has no inputs");
    };
    Failure::input(format!(
        "{}: the model has the inputs {}: give an .npz file with an array for each, or a folder with {first}.npy and so on",
        path.display(),
        listed(&names)
    ))
}

/// Returns whether a folder has samples by the names of inputs: arrays, or for a model with several
/// inputs a folder of pictures for each.
fn is_by_names(path: &Path, signature: &Signature) -> bool {
    let has = |name: &str| path.join(format!("{name}.npy")).is_file();
    let is_array = |(name, _): &(String, Option<Declared>)| has(name);
    let is_folder = |(name, _): &(String, Option<Declared>)| path.join(name).is_dir();
    let several = signature.inputs.len() > 1;
    signature.inputs.iter().any(is_array)
        || has("x")
        || several && signature.inputs.iter().any(is_folder)
}

/// Adds the samples of data by the names of inputs, as `train` reads them. If the data have a part
/// for tests, only that part is added.
fn add_named(
    path: &Path,
    pixels: Pixels,
    signature: &Signature,
    terminal: &Terminal,
    samples: &mut Vec<Sample>,
) -> Result<(), Failure> {
    let failed = |error: Error| Failure::input(error.to_string());
    let wanted = Wanted {
        inputs: signature.inputs.clone(),
        outputs: signature.outputs.clone(),
        pixels,
        ..Wanted::default()
    };
    let found = folder::open_for(path, &wanted).map_err(failed)?;
    terminal.note_unused_data(&found);
    let data = found.test.unwrap_or(found.train);
    let all = data.columns();
    let inputs = (0..all.len()).filter(|&number| all[number].role == ColumnRole::Input);
    let inputs: Vec<usize> = inputs.collect();
    let column = |(position, (name, _)): (usize, &(String, Option<Declared>))| {
        let is_named = |&&number: &&usize| all[number].name.as_ref() == Some(name);
        let in_place = inputs.get(position).filter(|&&number| all[number].name.is_none());
        inputs.iter().find(is_named).or(in_place).copied().ok_or_else(|| {
            Failure::input(format!("{}: there is nothing for the input `{name}`", path.display()))
        })
    };
    let columns = signature.inputs.iter().enumerate().map(column).collect::<Result<_, _>>()?;
    add_rows(path, Rows { data, columns }, samples);
    Ok(())
}

fn add_rows(path: &Path, rows: Rows, samples: &mut Vec<Sample>) {
    let (rows, name) = (Rc::new(rows), path.display());
    samples.extend((0..rows.data.len()).map(|row| {
        let content = Content::Row(Rc::clone(&rows), row);
        Sample { name: format!("{name}[{row}]"), content }
    }));
}

/// Adds the pictures of a folder and of the folders in it.
fn add_folder(
    path: &Path,
    pixels: Pixels,
    terminal: &Terminal,
    samples: &mut Vec<Sample>,
) -> Result<(), Failure> {
    let before = samples.len();
    let mut open = vec![path.to_owned()];
    while let Some(folder) = open.pop() {
        let entries =
            folder::entries(&folder).map_err(|error| Failure::input(error.to_string()))?;
        if let Some(unread) = folder::unread_pictures(&entries) {
            terminal.note(&unread);
        }
        samples.extend(
            entries
                .iter()
                .filter(|path| is_picture(path))
                .map(|path| Sample::picture(path, pixels)),
        );
        // Links to folders are not followed, because they may lead around in circles.
        open.extend(entries.into_iter().rev().filter(|path| path.is_dir() && !path.is_symlink()));
    }
    match samples.len() > before {
        true => Ok(()),
        false => Err(Failure::input(format!("{}: there are no pictures in it", path.display()))),
    }
}

/// Adds each sample of an array, or the array itself if it has no axis of samples.
fn add_array(
    path: &Path,
    array: Tensor,
    declared: &Declared,
    samples: &mut Vec<Sample>,
) -> Result<(), Failure> {
    let failed = |error: Error| Failure::input(error.to_string());
    let (rank, name) = (declared.sizes.len(), path.display().to_string());
    let is_one = array.shape().len() + 1 == rank;
    if !is_one && array.shape().len() != rank {
        return Err(Failure::input(format!(
            "{name} is {}, and the model's input has {rank} axes",
            array.ty()
        )));
    }
    let array = if is_one { reshaped(&[&[1], array.shape()].concat(), array)? } else { array };
    let data = Arrays::default().with(ColumnRole::Input, None, array).map_err(failed)?;
    let rows = Rows { data: Box::new(data), columns: vec![0] };
    if is_one {
        samples.push(Sample { name, content: Content::Row(Rc::new(rows), 0) });
    } else {
        add_rows(path, rows, samples);
    }
    Ok(())
}

fn reshaped(shape: &[usize], tensor: Tensor) -> Result<Tensor, Failure> {
    let ty = TensorType::new(tensor.dtype(), shape);
    Tensor::from_bytes(ty, tensor.into_bytes())
        .ok_or_else(|| Failure::input("a sample is too large"))
}
