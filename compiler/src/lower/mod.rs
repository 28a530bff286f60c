//! Lowering of a program with concrete inputs to the tensor graph.
//!
//! Lowering runs the entry's statements in order, at compile time. Every tensor is a node of the
//! graph with a known shape and type but an unknown value. Sizes and other constants are computed
//! at once, and calls of named functions are inlined. The indices that remain are integral and
//! bounded: fractional indices have become lattices, and every index variable has its exact range.
//!
//! - `mod`: the entry and its inputs;
//! - `statement`: statements, with compile-time loops and conditions; `call`: calls and their
//!   arguments; `scope`: names and sizes; `value`: compile-time values; `list`: functions on values
//!   known at compile time;
//! - `frame`: the position in the tree of layers; `weights`: the tensors that layers keep;
//! - `scan`: run-time loops;
//! - `train`: training steps; `augment`, `loss`, `metrics`, `optimizer`: the settings of a `train`
//!   block; `descent`: what an optimizer knows; `guard`: protection of the weights from a failed
//!   step; `turns`: models trained in turn;
//! - `expression`: operators and elementwise functions, the same for whole tensors and inside
//!   contractions;
//! - `constant`: compile-time arithmetic;
//! - `tensors`: elementwise operations on whole tensors, and broadcasting;
//! - `builtin`, `einsum`: the functions on whole tensors;
//! - `contraction`: contraction statements; `body`: their bodies and indices; `indices`: the ranges
//!   of their index variables;
//! - `assume`: checks of definitions that nobody has called yet;
//! - `calls`: graphs from calls of library functions, without a program's text;
//! - `network`: the result of lowering.
//!
//! # Types
//!
//! - The common type of two operands is the float if only one is, then the wider one, then the left
//!   one. A bool is the narrowest integer, so `+` of two bools is "or" and `*` is "and".
//! - A function of tensors of integers gives integers, truncated. Of integer constants, functions
//!   such as `sqrt` and `exp` give floats.
//! - An integer constant is an i32 (an i64 if it does not fit), any other number an f32. It is
//!   rounded once, to the type in which it meets a tensor.

mod assume;
mod augment;
mod body;
mod builtin;
mod call;
mod calls;
mod constant;
mod contraction;
mod descent;
mod einsum;
mod expression;
mod form;
mod frame;
mod guard;
mod indices;
mod list;
mod loss;
mod masks;
mod metrics;
mod network;
mod operators;
mod optimizer;
mod range;
mod scan;
mod scope;
mod statement;
mod target;
mod tensors;
#[cfg(test)]
mod tests;
mod train;
mod turns;
mod value;
mod weights;

pub use crate::bindings::{Binding, Bindings, Setting};
pub use assume::check_assuming;
pub use calls::{Calls, CallsAside, Passed};
pub use expression::is_part_of;
pub use network::{Expected, InputRange, Layer, Network, Role, Weight, WeightKind};
pub use target::Lowered;
pub use train::{Settings, Targets, place_of as place_of_setting, settings, train};
pub use turns::{check_shared, settings_in_turn};

use std::collections::HashMap;

use tile_lang::ast::{DimKind, ExprKind, Function, Input};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::{Budget, Program, did_you_mean, listed};

use crate::dtype::DType;
use crate::graph::{NodeId, Op};
use crate::tensor::TensorType;
use constant::Constant;
use expression::{Evaluator, Target};
use scope::{Scope, Size};
use tensors::Tensors;
use value::Value;

/// Lowers the function, layer or model named `entry`. Without a name, this is the last model, or
/// else the last function. Returns the errors of the program or the bindings, if any.
///
/// ```
/// use tile_compiler::bindings::Bindings;
/// use tile_compiler::lower::lower;
///
/// let checked = tile_lang::check("function f(X[N]) -> (Y) { Y = 2 * X; }");
/// let mut bindings = Bindings::default();
/// bindings.sizes.insert("N".to_owned(), 3);
/// let network = lower(&checked.program.unwrap(), None, &bindings).unwrap();
/// let (name, output) = &network.graph.outputs[0];
/// assert_eq!((name.as_str(), network.graph.shape(*output)), ("Y", &[3][..]));
/// ```
pub fn lower(
    program: &Program,
    entry: Option<&str>,
    bindings: &Bindings,
) -> Result<Network, Vec<Diagnostic>> {
    let program = &*program.with(&named(bindings));
    let (function, types) = entry_types(program, entry, bindings)?;
    let name = function.name.as_ref().map_or("main", |name| name.name.as_str());
    let mut evaluator = Evaluator::new(
        program,
        Tensors::new(name, &Budget::new(bindings.limits)),
        bindings.training,
    );
    evaluator.adapting = bindings.adapting.as_deref();
    let inputs = entry_inputs(&mut evaluator, function, types);
    let outputs = inputs.and_then(|inputs| run_entry(&mut evaluator, function, bindings, inputs));
    let outputs = outputs.map_err(|error| vec![error.user_first()])?;
    let outputs = if bindings.adapting.is_some() { Vec::new() } else { outputs };
    Ok(Network { adapts: evaluator.adapts, ..evaluator.target.into_network(outputs) })
}

/// Returns the names among the hyper-parameters' values, which may refer to library functions.
fn named(bindings: &Bindings) -> Vec<&str> {
    let names = bindings.parameters.values().filter_map(|setting| match setting {
        Setting::Name(name) => Some(name.as_str()),
        Setting::Bool(_) | Setting::Int(_) | Setting::Float(_) => None,
    });
    names.collect()
}

/// Returns the entry and the bindings of its inputs.
fn entry_types<'p>(
    program: &'p Program,
    entry: Option<&str>,
    bindings: &Bindings,
) -> Result<(&'p Function, Vec<Binding>), Vec<Diagnostic>> {
    let function = program.entry(entry).map_err(|error| vec![error])?;
    let errors = unknown_names(function, bindings);
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok((function, input_types(function, bindings)?))
}

/// Adds the entry's inputs and returns their values.
fn entry_inputs<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    function: &Function,
    types: Vec<Binding>,
) -> Lowered<Vec<Option<Value<'p, NodeId>>>> {
    let mut arguments = Vec::with_capacity(types.len());
    for (input, binding) in function.inputs.iter().zip(types) {
        evaluator.target.label.value = Some((input.name.name.clone(), input.span));
        arguments.push(Some(match binding {
            Binding::Tensor(ty) => {
                let op = Op::Input(input.name.name.clone());
                Value::Element(evaluator.target.add(op, ty, &[], input.span)?)
            }
            Binding::Int(value) => Value::Constant(Constant::Int(value)),
            Binding::Float(value) => Value::Constant(Constant::Float(value)),
        }));
    }
    Ok(arguments)
}

/// Runs the entry's statements on its inputs and returns its outputs.
fn run_entry<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    function: &'p Function,
    bindings: &'p Bindings,
    arguments: Vec<Option<Value<'p, NodeId>>>,
) -> Lowered<Vec<(String, NodeId)>> {
    let mut scope = Scope::new(function);
    for (name, &size) in &bindings.sizes {
        scope.sizes.insert(name, Size { size, place: None });
    }
    named_functions(evaluator, function, bindings)?;
    let parameters = function.parameters.iter().flatten().map(|parameter| {
        Some(match bindings.parameters.get(&parameter.name.name)? {
            Setting::Bool(value) => Value::bool(*value),
            Setting::Int(value) => Value::Constant(Constant::Int(*value)),
            Setting::Float(value) => Value::Constant(Constant::Float(*value)),
            Setting::Name(name) => Value::Symbol(name.as_str().into()),
        })
    });
    evaluator.bind_parameters(&mut scope, &parameters.collect::<Vec<_>>())?;
    evaluator.bind(&mut scope, arguments)?;
    evaluator.run(&mut scope, &function.body)?;
    let mut outputs = Vec::with_capacity(function.outputs.len());
    for output in &function.outputs {
        let value = evaluator.output(&scope, output)?;
        evaluator.target.label.value = Some((output.name.clone(), output.span));
        outputs.push((output.name.clone(), evaluator.target.element(value, output.span)?));
    }
    Ok(outputs)
}

/// Checks that the caller names a function for each hyper-parameter whose default is one.
fn named_functions(
    evaluator: &Evaluator<Tensors>,
    function: &Function,
    bindings: &Bindings,
) -> Lowered<()> {
    let program = evaluator.program;
    for parameter in function.parameters.iter().flatten() {
        let Some(Setting::Name(name)) = bindings.parameters.get(&parameter.name.name) else {
            continue;
        };
        let takes_function = match parameter.default.as_ref().map(|default| &default.kind) {
            Some(ExprKind::Name(default)) => program.callee(&default.name, function).is_some(),
            _ => false,
        };
        if takes_function && name != "none" && program.callee(name, function).is_none() {
            let mut error = evaluator.unknown(name, parameter.span);
            error.message += &format!(" for the hyper-parameter `{}`", parameter.name.name);
            return Err(error);
        }
    }
    Ok(())
}

/// Returns an error for each name in the bindings that the entry does not declare.
fn unknown_names(function: &Function, bindings: &Bindings) -> Vec<Diagnostic> {
    let inputs: Vec<&str> = function.inputs.iter().map(|input| input.name.name.as_str()).collect();
    let dims = function.inputs.iter().flat_map(|input| input.dims.iter().flatten());
    let sizes: Vec<&str> = dims
        .filter_map(
            |dim| if let DimKind::Name(name) = &dim.kind { Some(name.as_str()) } else { None },
        )
        .collect();
    let error = |what: &str, name: &str, known: &[&str]| {
        let error =
            Diagnostic::error("E0201", function.place(), format!("there is no {what} `{name}`"));
        match did_you_mean(name, known.iter().copied()) {
            Some(help) => error.help(help),
            None if known.is_empty() => error.help(format!("it has no {what}s")),
            None => error.help(format!("it has {}", listed(known))),
        }
    };
    let parameters: Vec<&str> =
        function.parameters.iter().flatten().map(|p| p.name.name.as_str()).collect();
    let unknown_parameters =
        bindings.parameters.keys().filter(|name| !parameters.contains(&name.as_str()));
    let unknown_inputs = bindings.inputs.keys().filter(|name| !inputs.contains(&name.as_str()));
    let unknown_sizes = bindings.sizes.keys().filter(|name| !sizes.contains(&name.as_str()));
    let errors = unknown_inputs.map(|name| error("input", name, &inputs));
    let errors = errors.chain(unknown_sizes.map(|name| error("size", name, &sizes)));
    errors
        .chain(unknown_parameters.map(|name| error("hyper-parameter", name, &parameters)))
        .collect()
}

/// Returns the bindings of the entry's inputs. An unbound input takes its size names from the other
/// inputs.
fn input_types(function: &Function, bindings: &Bindings) -> Result<Vec<Binding>, Vec<Diagnostic>> {
    let mut known: HashMap<&str, usize> =
        bindings.sizes.iter().map(|(name, size)| (name.as_str(), *size)).collect();
    for input in &function.inputs {
        let (Some(dims), Some(Binding::Tensor(ty))) =
            (&input.dims, bindings.inputs.get(&input.name.name))
        else {
            continue;
        };
        for (dim, &size) in dims.iter().rev().zip(ty.shape.iter().rev()) {
            if let DimKind::Name(name) = &dim.kind {
                known.entry(name).or_insert(size);
            }
        }
    }
    let mut types = Vec::with_capacity(function.inputs.len());
    let mut errors = Vec::new();
    for input in &function.inputs {
        match bindings
            .inputs
            .get(&input.name.name)
            .cloned()
            .map_or_else(|| default_type(input, &known), Ok)
        {
            Ok(binding) => types.push(binding),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(types) } else { Err(errors) }
}

fn default_type(input: &Input, known: &HashMap<&str, usize>) -> Lowered<Binding> {
    let name = &input.name.name;
    let missing = |what: String| {
        Diagnostic::error("E0202", input.span, format!("the shape of input `{name}` is not known"))
            .help(what)
    };
    let give = || format!("give it an array, or a shape with `--shape {name}=…`");
    let mut shape = Vec::new();
    for dim in input.dims.as_ref().ok_or_else(|| missing(give()))? {
        shape.push(match &dim.kind {
            DimKind::Size(size) => usize::try_from(*size).map_err(|_| missing(give()))?,
            DimKind::Name(size) => match known.get(size.as_str()) {
                Some(size) => *size,
                None => {
                    return Err(missing(format!("{}, or the size with `--dim {size}=…`", give())));
                }
            },
            DimKind::Ellipsis => return Err(missing(give())),
        });
    }
    Ok(Binding::Tensor(TensorType::new(DType::F32, shape)))
}
