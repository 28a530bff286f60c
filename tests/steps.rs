//! A training step with each layer, loss, metric, optimizer and schedule of the library, and each
//! of their options, matches Keras: golden/steps/steps.py describes the cases and the files, and
//! coverage.rs checks that the table is complete.
//!
//! `CASE=lstm cargo test --test steps` runs the cases with `lstm` in their names.

mod common;

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use common::ADAPTERS;
use common::golden::{Case, difference_above, path, refused, tensor_type};
use tile_compiler::tensor::Tensor;
use tile_runtime::train::{Arrays, ColumnRole, Fit};
use tile_runtime::weights::{WeightsFile, write};
use tile_runtime::{DType, Device, Error, Model, Scalar};

/// The relative error allowed for rounding. Weights, losses and metrics may also differ by this
/// fraction of the tensor's largest element, as gradients may be differences of larger terms. For
/// optimizer states, which may be small throughout, only the relative error counts.
const TOLERANCE: f64 = 1e-6;

/// A case, and the arrays of its lines.
struct Step {
    case: Case,
    tensors: Vec<Tensor>,
}

impl Step {
    /// Reads the cases of golden/steps/FAMILY.txt.
    fn family(family: &str) -> Vec<Step> {
        let mut file = WeightsFile::open(path(&format!("steps/{family}.npz"))).unwrap();
        let mut values = file.read(0).unwrap().to_f64s().into_iter();
        let mut tensor = |ty: &str| {
            let ty = tensor_type(ty);
            let elements: Vec<Scalar> = values
                .by_ref()
                .take(ty.elements())
                .map(|value| Scalar::from_f64(DType::F64, value))
                .collect();
            Tensor::from_scalars(ty, elements).unwrap()
        };
        let with_tensors = |case: Case| {
            let typed = case.lines.iter().filter(|(kind, ..)| kind != "set");
            let tensors = typed.map(|(_, _, ty)| tensor(ty)).collect();
            Step { case, tensors }
        };
        Case::all(&format!("steps/{family}.txt")).into_iter().map(with_tensors).collect()
    }

    /// Returns the names or paths, and the tensors, of a kind's lines.
    fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (&'a str, &'a Tensor)> {
        let typed = self.case.lines.iter().filter(|(kind, ..)| kind != "set").zip(&self.tensors);
        typed
            .filter(move |(line, _)| line.0 == kind)
            .map(|(line, tensor)| (line.1.as_str(), tensor))
    }

    fn source(&self) -> String {
        let names = |kind| self.of(kind).map(|(name, _)| name).collect::<Vec<_>>().join(", ");
        let settings: String =
            self.case.of("set").map(|(name, value)| format!("    {name} = {value};\n")).collect();
        let (inputs, outputs) = (names("input"), names("target"));
        let body = &self.case.body;
        format!(
            "model Case({inputs}) -> ({outputs}) {{\n{body}}}\n\ntrain Case {{\n{settings}    shuffle = false;\n}}\n"
        )
    }

    fn data(&self) -> Result<Arrays, Error> {
        let roles = [
            ("input", ColumnRole::Input),
            ("target", ColumnRole::Target),
            ("sample_weight", ColumnRole::Weight),
        ];
        let mut data = Arrays::default();
        for (kind, role) in roles {
            for (_, tensor) in self.of(kind) {
                data = data.with(role, None, tensor.clone())?;
            }
        }
        Ok(data)
    }

    /// Trains, and returns the results of an epoch, all weights, and the optimizer's states after
    /// it.
    fn train(&self, device: &Device, folder: &Path) -> Result<HashMap<String, Tensor>, Error> {
        let mut trainer = Model::compile(&self.source())?.trainer(device).build()?;
        let file = folder.join("weights.safetensors");
        let first: Vec<(String, Tensor)> =
            self.of("weight").map(|(path, tensor)| (path.into(), tensor.clone())).collect();
        write(&file, &first)?;
        trainer.load(&file)?;
        let history = trainer.fit(&self.data()?, Fit::epochs(1))?;
        trainer.save(&file)?;
        let mut file = WeightsFile::open(&file).map_err(Error::Weights)?;
        let mut found = HashMap::new();
        for number in 0..file.tensors().len() {
            let tensor = file.read(number).map_err(Error::Weights)?;
            found.insert(file.tensors()[number].0.clone(), tensor);
        }
        for (name, reading) in history[0].results() {
            let values: Vec<f32> = reading.values().iter().map(|value| *value as f32).collect();
            let shape = if values.len() == 1 { vec![] } else { vec![values.len()] };
            found.insert(format!("result {name}"), Tensor::from_f32(shape, &values).unwrap());
        }
        Ok(found)
    }

    /// Returns what is wrong with a step on a device.
    fn faults(&self, device: &Device, folder: &Path) -> String {
        let found = match self.train(device, folder) {
            Ok(found) => found,
            Err(error) if refused(&error) => return String::new(),
            Err(error) => return format!("\n{}", error.render("case.tile", false)),
        };
        let after: HashMap<&str, &Tensor> = self.of("weight").chain(self.of("after")).collect();
        let weights = after.into_iter().map(|(path, tensor)| (path.to_owned(), tensor, TOLERANCE));
        let results =
            self.of("result").map(|(name, tensor)| (format!("result {name}"), tensor, TOLERANCE));
        let slots =
            self.of("slot").map(|(path, tensor)| (format!("train.optimizer.{path}"), tensor, 0.0));
        let mut faults = String::new();
        for (name, expected, absolute) in weights.chain(results).chain(slots) {
            let fault = match found.get(&name) {
                Some(found) => difference_above(TOLERANCE, absolute, found, expected),
                None => Some(format!("is not there, but {:?}", found.keys())),
            };
            if let Some(fault) = fault {
                let _ = write!(faults, "\n    {name} {fault}");
            }
        }
        faults
    }
}

/// Panics with what is wrong with every `nth` case on a device.
fn check_all(device: &Device, nth: usize) {
    let only = std::env::var("CASE").unwrap_or_default();
    let folder = std::env::temp_dir().join(format!(
        "tilec-steps-{}-{}",
        std::process::id(),
        device.name().replace(':', "-")
    ));
    fs::create_dir_all(&folder).unwrap();
    let (mut run, mut wrong, mut report) = (0, 0, String::new());
    for family in families() {
        let steps = Step::family(&family).into_iter().filter(|step| step.case.name.contains(&only));
        for step in steps.step_by(nth) {
            run += 1;
            let faults = step.faults(device, &folder);
            if !faults.is_empty() {
                wrong += 1;
                let _ = writeln!(report, "{family}: {}{faults}", step.case.name);
            }
        }
    }
    fs::remove_dir_all(&folder).unwrap();
    println!("{run} cases on {}", device.name());
    assert!(wrong == 0, "{wrong} of {run} cases on {}:\n{report}", device.name());
}

/// Returns the names of the case files.
fn families() -> Vec<String> {
    let names = fs::read_dir(path("steps"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut families: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".npz")?.to_owned())).collect();
    families.sort();
    families
}

#[test]
fn cpu() {
    check_all(&Device::cpu(), 1);
}

#[test]
fn reference() {
    check_all(&Device::reference(), 7);
}

#[test]
fn wgpu() {
    for device in &*ADAPTERS {
        check_all(device, 19);
    }
}
