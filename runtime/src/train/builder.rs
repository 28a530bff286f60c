//! [`TrainerBuilder`]: the model, device and settings that a [`Trainer`] is made from.

use tile_compiler::dtype::Scalar;
use tile_compiler::lower::{Bindings, Setting, Settings, settings, settings_in_turn};
use tile_lang::Limits;
use tile_lang::ast::{DimKind, Function};

use super::program::Program;
use super::steps::CompiledSteps;
use super::trainer::Trainer;
use crate::device::Device;
use crate::error::Error;
use crate::model::Model;

/// A builder of a [`Trainer`].
///
/// ```
/// use tile_runtime::{Device, Model, Setting};
///
/// let model = Model::compile(
///     "model Line(units = 1)(X[N, 2]) -> (Y) { Y = X |> Dense(units); }
///      train Line { loss = MeanSquaredError(); optimizer = SGD(); batch_size = 16; }",
/// )?;
/// let trainer = model.trainer(&Device::cpu()).set("units", Setting::Int(3)).build()?;
/// assert_eq!(trainer.settings().batch_size, 16);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TrainerBuilder {
    model: Model,
    device: Device,
    entry: Option<String>,
    bindings: Bindings,
    frozen: Vec<String>,
    /// The memory limit of each step in bytes, if there is one.
    bytes: Option<u64>,
}

impl TrainerBuilder {
    pub(super) fn new(
        model: Model,
        device: Device,
        entry: Option<String>,
        bindings: Bindings,
    ) -> TrainerBuilder {
        TrainerBuilder { model, device, entry, bindings, frozen: Vec::new(), bytes: None }
    }

    /// Selects the model to train. By default all models with a `train` block are trained, in turn:
    /// see [`Trainer::fit`].
    pub fn entry(mut self, name: impl Into<String>) -> Self {
        self.entry = Some(name.into());
        self
    }

    /// Sets a hyper-parameter of the model. Of models trained in turn, those take it that have it;
    /// so it is with sizes and inputs.
    pub fn set(mut self, name: impl Into<String>, value: Setting) -> Self {
        self.bindings.parameters.insert(name.into(), value);
        self
    }

    /// Sets a named size of the header.
    pub fn dim(mut self, name: impl Into<String>, size: usize) -> Self {
        self.bindings.sizes.insert(name.into(), size);
        self
    }

    /// Binds an input to a number.
    pub fn constant(mut self, name: impl Into<String>, value: Scalar) -> Self {
        self.bindings.inputs.insert(name.into(), value.into());
        self
    }

    /// Freezes a layer or a weight by its path, besides those that the `train` block freezes.
    pub fn freeze(mut self, path: impl Into<String>) -> Self {
        self.frozen.push(path.into());
        self
    }

    /// Limits the work and memory of compiling each step, instead of the model's limits. A step is
    /// also limited to `limits.bytes` of memory. Without this call, steps may use all available
    /// memory.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.bindings.limits = limits;
        self.bytes = Some(limits.bytes);
        self
    }

    /// # Errors
    /// [`Error::Program`] if there is no such model, or if the settings of its `train` block are
    /// wrong, or differ between models that are trained in turn.
    pub fn build(self) -> Result<Trainer, Error> {
        let TrainerBuilder { model, device, entry, bindings, frozen, bytes } = self;
        let faulty = |diagnostics| Error::Program { sources: model.sources().clone(), diagnostics };
        let checked = model.program();
        let in_turn = checked.trained_in_turn();
        let functions = match (&entry, in_turn.len()) {
            (None, 2..) => in_turn.clone(),
            _ => vec![checked.trained(entry.as_deref()).map_err(|error| faulty(vec![error]))?],
        };
        let settings: Vec<Option<Settings>> = match &functions[..] {
            [function] => {
                let name = entry.as_deref().or_else(|| Some(function.name.as_ref()?.name.as_str()));
                vec![settings(checked, name).map_err(faulty)?]
            }
            models => {
                let all = settings_in_turn(checked, models).map_err(faulty)?;
                all.into_iter().map(Some).collect()
            }
        };
        let mut programs = Vec::with_capacity(functions.len());
        for (function, settings) in functions.iter().zip(&settings) {
            let bindings = of_model(&bindings, function, &functions);
            let mut program = Program::new(&model, &device, function, bindings, frozen.clone());
            if in_turn.len() > 1 && in_turn.contains(function) {
                program.take_turns(&in_turn);
            }
            program.steps = settings.as_ref().map_or(1, |settings| settings.steps);
            programs.push(program);
        }
        let settings = settings.into_iter().next().flatten();
        Ok(Trainer::new(programs, settings, CompiledSteps::within(bytes)))
    }
}

/// Returns the bindings without those that `function` does not have, but another one of `all` has.
fn of_model(bindings: &Bindings, function: &Function, all: &[&Function]) -> Bindings {
    fn parameters(function: &Function) -> impl Iterator<Item = &String> {
        function.parameters.iter().flatten().map(|parameter| &parameter.name.name)
    }
    fn inputs(function: &Function) -> impl Iterator<Item = &String> {
        function.inputs.iter().map(|input| &input.name.name)
    }
    fn sizes(function: &Function) -> impl Iterator<Item = &String> {
        let dims = function.inputs.iter().flat_map(|input| input.dims.iter().flatten());
        dims.filter_map(|dim| if let DimKind::Name(name) = &dim.kind { Some(name) } else { None })
    }
    let mut own = bindings.clone();
    let any = |has: &dyn Fn(&Function) -> bool| has(function) || !all.iter().any(|one| has(one));
    own.parameters.retain(|name, _| any(&|one| parameters(one).any(|known| known == name)));
    own.inputs.retain(|name, _| any(&|one| inputs(one).any(|known| known == name)));
    own.sizes.retain(|name, _| any(&|one| sizes(one).any(|known| known == name)));
    own
}

impl Model {
    /// Returns a builder of a trainer for the program's model on a device.
    pub fn trainer(&self, device: &Device) -> TrainerBuilder {
        let bindings = Bindings { limits: self.limits, ..Bindings::default() };
        TrainerBuilder::new(self.clone(), device.clone(), None, bindings)
    }
}
