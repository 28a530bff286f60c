//! Program and concrete inputs to the tensor graph.
//!
//! Lowering runs the entry's statements in order, at compile time, on values that are not yet known: every tensor is a
//! node of the graph, with its shape and type; sizes and other constants are computed here and now; named functions
//! are written out where they are called. What remains of an index is integral and bounded: fractional indices have
//! become lattices, and every index variable has its exact range.
//!
//! - `mod`: the entry and its inputs;
//! - `function`: statements, calls and their arguments;
//! - `expression`: operators and elementwise functions, the same for whole tensors and inside contractions;
//! - `constant`: arithmetic at compile time;
//! - `tensors`: elementwise operations on whole tensors, and broadcasting;
//! - `builtin`: the functions on whole tensors;
//! - `contraction`: contraction statements; `body`: what they aggregate, and the indices in it; `indices`: the values
//!   that their index variables take.
//!
//! Types. Two types meet in the float before the integer, then the wider, then the left; a bool is the narrowest
//! integer, so that `+` of two bools is "or" and `*` is "and". A function of integers gives integers, truncated. A
//! whole constant is i32 (i64 where it does not fit), any other f32; it is rounded once, to the type in which it meets
//! a tensor.

mod body;
mod builtin;
mod constant;
mod contraction;
mod expression;
mod function;
mod indices;
mod tensors;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use tile_lang::Program;
use tile_lang::ast::{DimKind, Function, Input};
use tile_lang::diagnostic::Diagnostic;

use crate::dtype::DType;
use crate::graph::{Graph, Op};
use crate::tensor::TensorType;
use constant::Constant;
use expression::{Evaluator, Lowered, Target, Value};
use function::{Scope, Size};
use tensors::Tensors;

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
}

/// The graph of the function named `entry` (else of the last one), or what is wrong with the program or the bindings.
pub fn lower(program: &Program, entry: Option<&str>, bindings: &Bindings) -> Result<Graph, Vec<Diagnostic>> {
    let function = program.entry(entry).map_err(|error| vec![error])?;
    let errors = unknown_names(function, bindings);
    if !errors.is_empty() {
        return Err(errors);
    }
    let types = input_types(function, bindings)?;
    lower_entry(program, function, bindings, types).map_err(|error| vec![error])
}

fn lower_entry(program: &Program, function: &Function, bindings: &Bindings, types: Vec<Binding>) -> Lowered<Graph> {
    let name = function.name.as_ref().map_or("main", |name| name.name.as_str());
    let mut evaluator = Evaluator::new(program, Tensors::new(name));
    let mut arguments = Vec::with_capacity(types.len());
    for (input, binding) in function.inputs.iter().zip(types) {
        evaluator.target.label = Some((input.name.name.clone(), input.span));
        arguments.push(match binding {
            Binding::Tensor(ty) => {
                let op = Op::Input(input.name.name.clone());
                Value::Element(evaluator.target.add(op, ty, &[], input.span)?)
            }
            Binding::Int(value) => Value::Constant(Constant::Int(value)),
            Binding::Float(value) => Value::Constant(Constant::Float(value)),
        });
    }
    let mut scope = Scope::new(function);
    for (name, &size) in &bindings.sizes {
        scope.sizes.insert(name, Size { size, place: None });
    }
    evaluator.bind(&mut scope, arguments)?;
    evaluator.run(&mut scope)?;
    let mut outputs = Vec::with_capacity(function.outputs.len());
    for output in &function.outputs {
        let value = evaluator.output(&scope, output)?;
        evaluator.target.label = Some((output.name.clone(), output.span));
        outputs.push((output.name.clone(), evaluator.target.element(value, output.span)?));
    }
    let mut graph = evaluator.target.into_graph();
    graph.outputs = outputs;
    Ok(graph)
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
    let unknown_inputs = bindings.inputs.keys().filter(|name| !inputs.contains(&name.as_str()));
    let unknown_sizes = bindings.sizes.keys().filter(|name| !sizes.contains(&name.as_str()));
    let errors = unknown_inputs.map(|name| error("input", name, &inputs));
    errors.chain(unknown_sizes.map(|name| error("size", name, &sizes))).collect()
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
