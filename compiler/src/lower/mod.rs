//! Program and concrete inputs to the tensor graph.
//!
//! Lowering runs the entry's statements in order, at compile time, on values that are not yet known: every tensor is a
//! node of the graph, with its shape and type; sizes and other constants are computed here and now; named functions
//! are written out where they are called. What remains of an index is integral and bounded: fractional indices have
//! become lattices, and every index variable has its exact range.
//!
//! - `mod`: the entry and its inputs;
//! - `statement`: statements, and the loops and conditions among them; `call`: calls and their arguments; `scope`: names
//!   and sizes; `value`: what they stand for; `list`: functions on what is known at compile time;
//! - `frame`: where in the tree of layers evaluation is; `weights`: the tensors that layers keep;
//! - `scan`: loops at run time;
//! - `train`: a step of training; `guard`: what keeps a step that fails from changing weights;
//! - `expression`: operators and elementwise functions, the same for whole tensors and inside contractions;
//! - `constant`: arithmetic at compile time;
//! - `tensors`: elementwise operations on whole tensors, and broadcasting;
//! - `builtin`: the functions on whole tensors, and `einsum`;
//! - `contraction`: contraction statements; `body`: what they aggregate, and the indices in it; `indices`: the values
//!   that their index variables take.
//!
//! Types. Two types meet in the float before the integer, then the wider, then the left; a bool is the narrowest
//! integer, so that `+` of two bools is "or" and `*` is "and". A function of integers gives integers, truncated. A
//! whole constant is i32 (i64 where it does not fit), any other f32; it is rounded once, to the type in which it meets
//! a tensor.

mod body;
mod builtin;
mod call;
mod calls;
mod constant;
mod contraction;
mod einsum;
mod expression;
mod frame;
mod guard;
mod indices;
mod list;
mod network;
mod scan;
mod scope;
mod statement;
mod tensors;
#[cfg(test)]
mod tests;
mod train;
mod value;
mod weights;

pub use calls::{Calls, Passed};
pub use expression::Lowered;
pub use network::{Layer, Network, Role, Weight, WeightKind};
pub use train::{Settings, Targets, settings, train};

use std::collections::{BTreeMap, HashMap};

use tile_lang::Program;
use tile_lang::ast::{DimKind, Function, Input};
use tile_lang::diagnostic::Diagnostic;

use crate::dtype::DType;
use crate::graph::{NodeId, Op};
use crate::tensor::TensorType;
use constant::Constant;
use expression::{Evaluator, Target};
use scope::{Scope, Size};
use tensors::Tensors;
use value::Value;

/// What an input of the entry is bound to.
#[derive(Clone, Debug, PartialEq)]
pub enum Binding {
    /// A tensor of this type, given at each run.
    Tensor(TensorType),
    /// A constant; an i32 (an i64 where it does not fit) where it meets tensors.
    Int(i64),
    /// A constant; an f32 where it meets tensors.
    Float(f64),
}

/// What is known of the entry's inputs, by their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bindings {
    pub inputs: BTreeMap<String, Binding>,
    /// Sizes by name. An input without a binding whose sizes are all known is f32.
    pub sizes: BTreeMap<String, usize>,
    /// Values of the entry's hyper-parameters.
    pub parameters: BTreeMap<String, Setting>,
    /// What `training` is in the program, and whether `update`s happen.
    pub training: bool,
}

/// What a hyper-parameter of the entry is set to.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    Bool(bool),
    Int(i64),
    Float(f64),
    /// A name that stands for itself, or for a function.
    Name(String),
}

/// The network that is the function, layer or model named `entry` (else the last model, else the last function), or
/// what is wrong with the program or the bindings.
pub fn lower(program: &Program, entry: Option<&str>, bindings: &Bindings) -> Result<Network, Vec<Diagnostic>> {
    let program = &*program.with(&named(bindings));
    let (function, types) = entry_types(program, entry, bindings)?;
    let name = function.name.as_ref().map_or("main", |name| name.name.as_str());
    let mut evaluator = Evaluator::new(program, Tensors::new(name), bindings.training);
    let outputs = run_entry(&mut evaluator, function, bindings, types).map_err(|error| vec![error])?;
    Ok(evaluator.target.into_network(outputs))
}

/// The names that hyper-parameters are set to, which may be functions of the library.
fn named(bindings: &Bindings) -> Vec<&str> {
    let names = bindings.parameters.values().filter_map(|setting| match setting {
        Setting::Name(name) => Some(name.as_str()),
        Setting::Bool(_) | Setting::Int(_) | Setting::Float(_) => None,
    });
    names.collect()
}

/// The entry, and what its inputs are bound to.
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

/// Runs the entry's statements; gives its outputs.
fn run_entry<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    function: &'p Function,
    bindings: &'p Bindings,
    types: Vec<Binding>,
) -> Lowered<Vec<(String, NodeId)>> {
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
    let mut scope = Scope::new(function);
    for (name, &size) in &bindings.sizes {
        scope.sizes.insert(name, Size { size, place: None });
    }
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

/// An error for every name in the bindings that the entry does not have.
fn unknown_names(function: &Function, bindings: &Bindings) -> Vec<Diagnostic> {
    let inputs: Vec<&str> = function.inputs.iter().map(|input| input.name.name.as_str()).collect();
    let dims = function.inputs.iter().flat_map(|input| input.dims.iter().flatten());
    let sizes: Vec<&str> =
        dims.filter_map(|dim| if let DimKind::Name(name) = &dim.kind { Some(name.as_str()) } else { None }).collect();
    let error = |what: &str, name: &str, known: &[&str]| {
        let error = Diagnostic::error("E0201", function.span, format!("there is no {what} `{name}`"));
        if known.is_empty() { error } else { error.help(format!("it has {}", known.join(", "))) }
    };
    let parameters: Vec<&str> = function.parameters.iter().flatten().map(|p| p.name.name.as_str()).collect();
    let unknown_parameters = bindings.parameters.keys().filter(|name| !parameters.contains(&name.as_str()));
    let unknown_inputs = bindings.inputs.keys().filter(|name| !inputs.contains(&name.as_str()));
    let unknown_sizes = bindings.sizes.keys().filter(|name| !sizes.contains(&name.as_str()));
    let errors = unknown_inputs.map(|name| error("input", name, &inputs));
    let errors = errors.chain(unknown_sizes.map(|name| error("size", name, &sizes)));
    errors.chain(unknown_parameters.map(|name| error("hyper-parameter", name, &parameters))).collect()
}

/// What each input of the entry is bound to; those that are not take the sizes that the others give to names.
fn input_types(function: &Function, bindings: &Bindings) -> Result<Vec<Binding>, Vec<Diagnostic>> {
    let mut known: HashMap<&str, usize> = bindings.sizes.iter().map(|(name, size)| (name.as_str(), *size)).collect();
    for input in &function.inputs {
        let (Some(dims), Some(Binding::Tensor(ty))) = (&input.dims, bindings.inputs.get(&input.name.name)) else {
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
        match bindings.inputs.get(&input.name.name).cloned().map_or_else(|| default_type(input, &known), Ok) {
            Ok(binding) => types.push(binding),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(types) } else { Err(errors) }
}

fn default_type(input: &Input, known: &HashMap<&str, usize>) -> Lowered<Binding> {
    let name = &input.name.name;
    let missing = |what: String| {
        Diagnostic::error("E0202", input.span, format!("the shape of input `{name}` is not known")).help(what)
    };
    let give = || format!("give it an array, or a shape with `--shape {name}=…`");
    let mut shape = Vec::new();
    for dim in input.dims.as_ref().ok_or_else(|| missing(give()))? {
        shape.push(match &dim.kind {
            DimKind::Size(size) => usize::try_from(*size).map_err(|_| missing(give()))?,
            DimKind::Name(size) => match known.get(size.as_str()) {
                Some(size) => *size,
                None => return Err(missing(format!("{}, or the size with `--dim {size}=…`", give()))),
            },
            DimKind::Ellipsis => return Err(missing(give())),
        });
    }
    Ok(Binding::Tensor(TensorType::new(DType::F32, shape)))
}
