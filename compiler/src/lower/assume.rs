//! Checks definitions as nobody has called them yet: models and layers are lowered with assumed
//! sizes.
//!
//! Nothing valid may be refused, so an error is reported only if it does not depend on what was
//! assumed. A definition is tried with several sizes, ranks and types. If one of them succeeds, the
//! definition is taken to be valid. Otherwise the first error is reported that is certain:
//!
//! - a name that no definition has, an unknown or missing argument, and the like, whatever was
//!   assumed;
//! - the number of axes, if the header states the axes of all inputs;
//! - any other error of a model whose header leaves only the number of samples open, if the error
//!   is the same for each number.

use tile_lang::ast::{Dim, DimKind, Function, FunctionKind, Input};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::{Budget, Limits, Program};

use super::expression::Evaluator;
use super::tensors::Tensors;
use super::train::{Targets, settings, train};
use super::value::Value;
use super::{Binding, Bindings, Setting, lower, run_entry};
use crate::dtype::DType;
use crate::graph::{Graph, Op};
use crate::tensor::TensorType;

/// The size of every named dimension, by trial. The first ones have many divisors, so that most
/// models fit them.
const SIZES: [usize; 6] = [64, 256, 1, 2, 61, 67];
/// Further numbers of samples, by trial, for a header that leaves nothing else open.
const SAMPLES: [usize; 7] = [48, 100, 128, 512, 1000, 1024, 4096];
/// The rank of an input without dimensions, and the number of leading axes of `...`, by trial.
const RANKS: [usize; 5] = [4, 2, 3, 5, 1];
/// The value of a hyper-parameter without a default.
const PARAMETER: i64 = 4;

/// Errors that do not depend on sizes and ranks.
const OF_NAMES: [&str; 6] = ["E0102", "E0221", "E0222", "E0224", "E0240", "E0241"];
/// Errors that do not depend on sizes, but on ranks or on values.
const OF_RANKS: [&str; 6] = ["E0206", "E0207", "E0208", "E0212", "E0225", "E0226"];
/// Errors about limits of this compiler, and assertions about sizes, which other sizes may meet.
const UNCERTAIN: [&str; 6] = ["E0007", "E0205", "E0210", "E0211", "E0214", "E0219"];

/// Lowers the models and layers of the main file with assumed sizes, and the `train` blocks of the
/// models. Returns the errors that are certain.
pub fn check_assuming(program: &Program) -> Vec<Diagnostic> {
    let is_checked =
        |function: &&Function| matches!(function.kind, FunctionKind::Model | FunctionKind::Layer);
    program
        .functions()
        .iter()
        .filter(is_checked)
        .filter_map(|function| check(program, function).err())
        .collect()
}

/// One combination of assumptions.
#[derive(Clone, Copy)]
struct Trial {
    size: usize,
    rank: usize,
    dtype: DType,
}

fn check(program: &Program, function: &Function) -> Result<(), Diagnostic> {
    if let Some(name) = &function.name
        && function.kind == FunctionKind::Model
    {
        settings(program, Some(&name.name)).map_err(first)?;
    }
    let mut failed = Vec::new();
    for trial in trials(function) {
        match attempt(program, function, trial) {
            Ok(()) => return check_training(program, function, trial),
            Err(error) => failed.push((trial, error)),
        }
    }
    certain(function, failed).map_or(Ok(()), |error| Err(error.user_first()))
}

/// Says in an error which size was assumed, if its message shows it.
fn with_assumed(function: &Function, trial: Trial, error: Diagnostic) -> Diagnostic {
    let shown = error
        .message
        .split(|c: char| !c.is_ascii_digit())
        .any(|number| number == trial.size.to_string());
    let named = |dim: &Dim| match &dim.kind {
        DimKind::Name(name) => Some((name.clone(), dim.span)),
        DimKind::Size(_) | DimKind::Ellipsis => None,
    };
    let first =
        function.inputs.iter().flat_map(|input| input.dims.iter().flatten()).find_map(named);
    match first.filter(|_| shown) {
        Some((name, span)) => {
            error.also(span, format!("`{name}` is taken to be {} for this check", trial.size))
        }
        None => error,
    }
}

fn first(errors: Vec<Diagnostic>) -> Diagnostic {
    let unknown = || Diagnostic::error("E0001", Default::default(), "the program is wrong");
    errors.into_iter().next().unwrap_or_else(unknown)
}

/// Returns the assumptions to try. Only those vary that the definition leaves open.
fn trials(function: &Function) -> Vec<Trial> {
    let open_rank = !has_ranks(function);
    let ranks = if open_rank { &RANKS[..] } else { &RANKS[..1] };
    let samples: Vec<usize> =
        if has_sizes(function) { (3..=32).chain(SAMPLES).collect() } else { Vec::new() };
    let mut trials = Vec::new();
    for dtype in [DType::F32, DType::I32] {
        for size in SIZES.into_iter().chain(samples.iter().copied()) {
            trials.extend(ranks.iter().map(|&rank| Trial { size, rank, dtype }));
        }
    }
    trials
}

/// Returns whether the header states the rank of each required input.
fn has_ranks(function: &Function) -> bool {
    let is_stated = |input: &Input| {
        input.dims.as_ref().is_some_and(|dims| dims.iter().all(|dim| dim.kind != DimKind::Ellipsis))
    };
    function.required_inputs().all(is_stated)
}

/// Returns whether the header leaves nothing open but the first size of inputs.
fn has_sizes(function: &Function) -> bool {
    let is_fixed = |input: &Input| {
        input.dims.iter().flatten().skip(1).all(|dim| matches!(dim.kind, DimKind::Size(_)))
    };
    has_ranks(function) && function.required_inputs().all(is_fixed)
}

fn has_defaults(function: &Function) -> bool {
    function.parameters.iter().flatten().all(|parameter| parameter.default.is_some())
}

/// Returns the type that is assumed for an input.
fn assumed(input: &Input, trial: Trial) -> TensorType {
    let Some(dims) = &input.dims else {
        return TensorType::new(trial.dtype, vec![trial.size; trial.rank]);
    };
    let mut shape = Vec::new();
    for dim in dims {
        match dim.kind {
            DimKind::Size(size) => shape.push(usize::try_from(size).unwrap_or(trial.size)),
            DimKind::Name(_) => shape.push(trial.size),
            DimKind::Ellipsis => {
                shape.extend(vec![trial.size; trial.rank.saturating_sub(dims.len() - 1)])
            }
        }
    }
    TensorType::new(trial.dtype, shape)
}

fn bindings(function: &Function) -> Bindings {
    let open = function.parameters.iter().flatten().filter(|parameter| parameter.default.is_none());
    let parameters =
        open.map(|parameter| (parameter.name.name.clone(), Setting::Int(PARAMETER))).collect();
    Bindings { parameters, ..Bindings::default() }
}

/// Lowers a definition. Inputs with a default take it.
fn attempt(program: &Program, function: &Function, trial: Trial) -> Result<(), Diagnostic> {
    let bindings = bindings(function);
    let budget = Budget::new(Limits::default());
    let mut evaluator = Evaluator::new(program, Tensors::new("check", &budget), false);
    let mut arguments = Vec::new();
    for input in &function.inputs {
        arguments.push(match (&input.default, input.name.capital) {
            (Some(_), _) => None,
            (None, false) => Some(Value::int(trial.size)),
            (None, true) => {
                let op = Op::Input(input.name.name.clone());
                Some(Value::Element(evaluator.target.add(
                    op,
                    assumed(input, trial),
                    &[],
                    input.span,
                )?))
            }
        });
    }
    run_entry(&mut evaluator, function, &bindings, arguments).map(drop)
}

/// Returns the first certain error of a definition that failed with all assumptions.
fn certain(function: &Function, failed: Vec<(Trial, Diagnostic)>) -> Option<Diagnostic> {
    let is_of = |codes: &[&str], error: &Diagnostic| codes.contains(&error.code);
    let is_stated = has_ranks(function) && has_defaults(function);
    let is_certain = |(_, error): &&(Trial, Diagnostic)| {
        let is_assumed =
            error.code == "E0221" || error.message.ends_with(&format!("is `{PARAMETER}`"));
        let depends_on_values = is_assumed && !has_defaults(function);
        is_of(&OF_NAMES, error) && !depends_on_values || is_stated && is_of(&OF_RANKS, error)
    };
    if let Some((trial, error)) = failed.iter().find(is_certain) {
        return Some(with_assumed(function, *trial, error.clone()));
    }
    let (first, rest) =
        failed.split_first().filter(|_| has_sizes(function) && has_defaults(function))?;
    let message = independent(&first.1, first.0)?;
    // The program itself reports it, perhaps for this number of samples only.
    let is_own = first.1.code == "E0228"
        && first.1.labels.first().is_some_and(|label| !label.span.in_library());
    let is_same = |(trial, error): &(Trial, Diagnostic)| {
        trial.dtype != first.0.dtype
            || independent(error, *trial).is_some_and(|other| other == message)
    };
    (!is_of(&UNCERTAIN, &first.1) && !is_own && rest.iter().all(is_same))
        .then(|| with_assumed(function, first.0, first.1.clone()))
}

/// Returns the message with the number of samples replaced where it begins a shape. `None` if there
/// are other shapes, with which another number of samples might agree.
fn independent(error: &Diagnostic, trial: Trial) -> Option<String> {
    let text = error
        .message
        .replace(&format!("[{}, ", trial.size), "[N, ")
        .replace(&format!("[{}]", trial.size), "[N]");
    let has_shape =
        text.split('[').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    (!has_shape).then_some(text)
}

/// Lowers a step of training with assumed targets, if the model has a `train` block.
fn check_training(program: &Program, function: &Function, trial: Trial) -> Result<(), Diagnostic> {
    let (Some(name), Some(_)) = (&function.name, program.training(function)) else { return Ok(()) };
    if function.kind != FunctionKind::Model
        || function.required_inputs().count() < function.inputs.len()
    {
        return Ok(());
    }
    let mut bindings = bindings(function);
    let inputs = function
        .inputs
        .iter()
        .map(|input| (input.name.name.clone(), Binding::Tensor(assumed(input, trial))));
    bindings.inputs = inputs.collect();
    let Ok(network) = lower(program, Some(&name.name), &bindings) else { return Ok(()) };
    bindings.training = true;
    // The hyper-parameters of losses and optimizers do not depend on what was assumed, and nor does
    // it whether there is something to train.
    let is_certain = |error: &Diagnostic| {
        OF_NAMES.contains(&error.code) || ["E0206", "E0245"].contains(&error.code)
    };
    let mut certain = None;
    for targets in targets(&network.graph) {
        match train(program, Some(&name.name), &bindings, &targets) {
            Ok(_) => return Ok(()),
            Err(errors) => certain = certain.or_else(|| errors.into_iter().find(is_certain)),
        }
    }
    certain.map_or(Ok(()), Err)
}

/// Returns the targets to try for the outputs of a graph: class numbers, and numbers in the shape
/// of the outputs, without their last axis, or one for each sample.
fn targets(graph: &Graph) -> Vec<Targets> {
    let without_last = |shape: &[usize]| shape[..shape.len().saturating_sub(1)].to_vec();
    let samples = |shape: &[usize]| shape[..shape.len().min(1)].to_vec();
    let all = |dtype: DType, shape: &dyn Fn(&[usize]) -> Vec<usize>| {
        let types = graph
            .outputs
            .iter()
            .map(|(name, id)| (name.clone(), TensorType::new(dtype, shape(graph.shape(*id)))));
        Targets { types: types.collect(), ..Targets::default() }
    };
    vec![
        all(DType::F32, &<[usize]>::to_vec),
        all(DType::I32, &without_last),
        all(DType::F32, &without_last),
        all(DType::I32, &<[usize]>::to_vec),
        all(DType::F32, &samples),
        all(DType::I32, &samples),
    ]
}
