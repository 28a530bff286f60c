//! The layout of each weight in PyTorch. The name of the weight and the parameters of the module
//! decide it, never the sizes: a square kernel is transposed like any other.

use tile_compiler::names::snake_case;
use tile_compiler::tensor::TensorType;

use super::modules::{Module, Parameter};
use super::recipe::{Join, Recipe, Source};

/// A layer of the program with weights of its own.
pub struct Layer {
    pub path: String,
    pub weights: Vec<Weight>,
}

/// A weight of a layer.
pub struct Weight {
    pub name: String,
    /// The whole path.
    pub path: String,
    pub ty: TensorType,
}

/// The weights that a module gives to a layer.
#[derive(Default)]
pub struct Fit {
    /// The weight's number, and how it is made.
    pub recipes: Vec<(usize, Recipe)>,
    /// The weights for which the module has no parameter.
    pub missing: Vec<usize>,
    /// The reasons why parameters do not fit.
    pub faults: Vec<Fault>,
    /// The numbers of parameters that no weight takes.
    pub extra: Vec<usize>,
}

/// A parameter that does not fit a weight.
pub struct Fault {
    pub weight: usize,
    pub entry: usize,
    /// The shape that the parameter gives, or another reason.
    pub reason: String,
}

impl Fit {
    /// Matches the parameters of a module with the weights of a layer.
    pub fn new(layer: &Layer, module: &Module) -> Fit {
        let mut fit = Fit::default();
        let mut used = Vec::new();
        for (number, weight) in layer.weights.iter().enumerate() {
            match recipe(&weight.name, &weight.ty.shape, module) {
                Ok(recipe) => {
                    used.extend(recipe.sources.iter().map(|source| (source.entry, source.rows)));
                    fit.recipes.push((number, recipe));
                }
                Err(Misfit::Missing) => fit.missing.push(number),
                Err(Misfit::Wrong(entry, reason)) => {
                    fit.faults.push(Fault { weight: number, entry, reason })
                }
            }
        }
        let is_extra = |parameter: &Parameter| {
            let is_faulty = fit.faults.iter().any(|fault| fault.entry == parameter.entry);
            !is_faulty && !used.contains(&(parameter.entry, parameter.rows))
        };
        fit.extra = module
            .parameters
            .iter()
            .enumerate()
            .filter(|(_, found)| is_extra(found))
            .map(|(number, _)| number)
            .collect();
        fit
    }

    /// Returns whether each weight has a parameter, and each parameter a weight.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.faults.is_empty() && self.extra.is_empty()
    }
}

/// The reason why a module does not give a weight.
pub enum Misfit {
    /// It has no parameter of this kind.
    Missing,
    /// It has one, of this entry, that does not fit.
    Wrong(usize, String),
}

/// Returns how a module gives the weight `name` of a layer.
pub fn recipe(name: &str, expected: &[usize], module: &Module) -> Result<Recipe, Misfit> {
    let is_recurrent = module.parameter("weight_ih").is_some();
    let role = match name {
        "Kernel" if is_recurrent => return recurrent_kernel("weight_ih", expected, module),
        "RecurrentKernel" => return recurrent_kernel("weight_hh", expected, module),
        "Bias" if is_recurrent => return recurrent_bias(expected, module),
        "Kernel" | "PointwiseKernel" | "DepthwiseKernel" => {
            return kernel(expected, module.parameter("weight").ok_or(Misfit::Missing)?);
        }
        "Gamma" | "Embeddings" | "Scale" | "Alpha" => "weight",
        "Bias" | "Beta" => "bias",
        "MovingMean" => "running_mean",
        "MovingVariance" => "running_var",
        _ => "",
    };
    let is_own =
        |parameter: &&Parameter| parameter.role == name || parameter.role == snake_case(name);
    let own = || module.parameters.iter().find(is_own);
    same(expected, module.parameter(role).or_else(own).ok_or(Misfit::Missing)?)
}

/// Returns how an entry gives the weight `name`, whatever its own name.
pub fn mapped(name: &str, expected: &[usize], parameter: &Parameter) -> Result<Recipe, Misfit> {
    match name {
        "Kernel" | "PointwiseKernel" | "DepthwiseKernel" => kernel(expected, parameter),
        _ => same(expected, parameter),
    }
}

/// Takes a parameter with its elements in the same order.
fn same(expected: &[usize], parameter: &Parameter) -> Result<Recipe, Misfit> {
    let without_ones =
        |shape: &[usize]| shape.iter().copied().filter(|size| *size != 1).collect::<Vec<_>>();
    // The bias of an attention's heads is a vector in PyTorch.
    let is_same = without_ones(expected) == without_ones(&parameter.shape)
        || (parameter.shape.len() == 1
            && parameter.shape.iter().product::<usize>() == product(expected));
    match is_same {
        true => Ok(one(parameter, None, false, expected)),
        false => Err(Misfit::Wrong(parameter.entry, format!("gives {:?}", parameter.shape))),
    }
}

fn product(shape: &[usize]) -> usize {
    shape.iter().fold(1, |product, size| product.saturating_mul(*size))
}

fn source(parameter: &Parameter) -> Source {
    Source::new(parameter.entry, parameter.rows)
}

fn one(
    parameter: &Parameter,
    layout: Option<(Vec<usize>, Vec<usize>)>,
    exchanges_gates: bool,
    expected: &[usize],
) -> Recipe {
    let source = Source { exchanges_gates, layout, ..source(parameter) };
    Recipe { sources: vec![source], join: Join::One, shape: Some(expected.to_vec()) }
}

/// Permutes the kernel of a linear layer or a convolution: `[out, in]` to `[in, out]`, and
/// `[out, in, window…]` to `[window…, in, out]`. A transposed convolution's `[in, out, window…]`
/// becomes `[window…, out, in]` in the same way.
fn kernel(expected: &[usize], parameter: &Parameter) -> Result<Recipe, Misfit> {
    let shape = &parameter.shape;
    let rank = shape.len();
    if rank < 2 {
        return Err(Misfit::Wrong(parameter.entry, format!("gives {shape:?}")));
    }
    let order: Vec<usize> = (2..rank).chain([1, 0]).collect();
    let permuted: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
    // A kernel of heads has several axes for the inputs or for the outputs.
    let divides =
        |at: usize| product(&expected[..at]) == shape[1] && product(&expected[at..]) == shape[0];
    if expected == permuted || (rank == 2 && (1..expected.len()).any(divides)) {
        return Ok(one(parameter, Some((shape.clone(), order)), false, expected));
    }
    // A depthwise kernel [channels * multiplier, 1, window…] becomes
    // [window…, channels, multiplier].
    if let Some((window, &[channels, multiplier])) = expected.split_last_chunk()
        && shape[1] == 1
        && shape[2..] == *window
        && channels.checked_mul(multiplier) == Some(shape[0])
    {
        let divided = [&[channels, multiplier], window].concat();
        let order = (2..divided.len()).chain([0, 1]).collect();
        return Ok(one(parameter, Some((divided, order)), false, expected));
    }
    Err(Misfit::Wrong(parameter.entry, format!("gives {permuted:?}")))
}

/// Returns the number of gates of a recurrent module: 1, 3 for a GRU, 4 for an LSTM.
fn gates(module: &Module) -> Option<usize> {
    match module.parameter("weight_hh")?.shape[..] {
        [rows, units] if units > 0 && rows % units == 0 => Some(rows / units),
        _ => None,
    }
}

/// Transposes a kernel of gates. Those of a GRU are reset, update and new in PyTorch, and update,
/// reset and new here.
fn recurrent_kernel(role: &str, expected: &[usize], module: &Module) -> Result<Recipe, Misfit> {
    let parameter = module.parameter(role).ok_or(Misfit::Missing)?;
    match (&parameter.shape[..], gates(module)) {
        (&[rows, columns], Some(gates)) if expected == [columns, rows] => {
            Ok(one(parameter, Some((vec![rows, columns], vec![1, 0])), gates == 3, expected))
        }
        (shape, _) => {
            let turned: Vec<usize> = shape.iter().rev().copied().collect();
            Err(Misfit::Wrong(parameter.entry, format!("gives {turned:?}")))
        }
    }
}

/// Adds the two biases of a recurrent module, or stacks those of a GRU.
fn recurrent_bias(expected: &[usize], module: &Module) -> Result<Recipe, Misfit> {
    let (Some(input), Some(state)) = (module.parameter("bias_ih"), module.parameter("bias_hh"))
    else {
        return Err(Misfit::Missing);
    };
    let is_gru = gates(module) == Some(3);
    let reason = match (&input.shape[..], expected) {
        (given, _) if given != state.shape => {
            format!("has another shape than `bias_hh`, {:?}", state.shape)
        }
        (&[size], &[2, expected]) if is_gru && size == expected => String::new(),
        (&[size], &[expected]) if !is_gru && size == expected => String::new(),
        (_, &[_]) if is_gru => "is for a layer with `reset_after = true`".to_owned(),
        (given, _) => format!("gives {given:?}"),
    };
    if !reason.is_empty() {
        return Err(Misfit::Wrong(input.entry, reason));
    }
    let sources =
        [input, state].map(|parameter| Source { exchanges_gates: is_gru, ..source(parameter) });
    let join = if is_gru { Join::Stack } else { Join::Sum };
    Ok(Recipe { sources: sources.to_vec(), join, shape: Some(expected.to_vec()) })
}
