//! The types of a model's inputs, derived from the file, given arrays, and given sizes.

use std::collections::{BTreeMap, HashMap, HashSet};

use tile_lang::Limits;

use super::import::{Importer, sentence};
use super::model::OnnxError;
use super::{proto, tensor};
use crate::dtype::Scalar;
use crate::lower::Passed;
use crate::tensor::{Tensor, TensorType};

/// The types, sizes and values given for a model's inputs.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Types by input. An input without one has the type in the model, whose sizes must be known
    /// then.
    pub types: BTreeMap<String, TensorType>,
    /// Sizes by their names in the model.
    pub sizes: BTreeMap<String, usize>,
    /// Numbers by input, for inputs of one element, which become constants of the network.
    pub numbers: BTreeMap<String, Scalar>,
    /// Values by input, for inputs on which shapes depend. The network is valid only for these
    /// values.
    pub values: BTreeMap<String, Tensor>,
    /// The limits of compilation, from the import to the plan.
    pub limits: Limits,
}

/// The sizes by name. The same name does not guarantee equal sizes: converters call all sizes that
/// they do not know `?` or `-1`.
pub struct Sizes<'a> {
    given: &'a BTreeMap<String, usize>,
    /// Sizes of given inputs. `None` if two inputs with one name differ.
    bound: BTreeMap<String, Option<usize>>,
}

impl<'a> Sizes<'a> {
    pub fn new(given: &'a BTreeMap<String, usize>) -> Sizes<'a> {
        Sizes { given, bound: BTreeMap::new() }
    }

    /// Returns the type of an input. A given type binds the names of its sizes.
    pub fn input_type(
        &mut self,
        input: &proto::Value,
        given: Option<&TensorType>,
    ) -> Result<TensorType, String> {
        let tensor = input.ty.as_ref().and_then(proto::Type::tensor).ok_or("it is no tensor")?;
        let declared = tensor.shape.as_ref().map(|shape| shape.dims.as_slice());
        if let Some(given) = given {
            let dtype = tensor::dtype(tensor.dtype)?;
            if given.dtype != dtype {
                return Err(format!("it must be {dtype}, and {given} is given"));
            }
            let Some(dims) = declared else { return Ok(given.clone()) };
            if dims.len() != given.rank()
                || !dims.iter().zip(&given.shape).all(|(dim, &size)| self.binds(dim, size))
            {
                return Err(format!("it must be {}, and {given} is given", sizes_text(dims)));
            }
            return Ok(given.clone());
        }
        let dims = declared.ok_or("its shape is not known: give it an array, or a shape")?;
        let shape = dims.iter().enumerate().map(|(axis, dim)| self.size(axis, dim));
        let shape: Vec<usize> = shape.collect::<Result<_, String>>()?;
        Ok(TensorType::new(tensor::dtype(tensor.dtype)?, shape))
    }

    /// Binds a size, and returns whether the model permits it.
    fn binds(&mut self, dim: &proto::Dim, size: usize) -> bool {
        match dim.size {
            Some(wanted) if wanted > 0 => return usize::try_from(wanted) == Ok(size),
            _ if dim.name.is_empty() => return true,
            _ => {}
        }
        let bound = self.bound.entry(dim.name.clone()).or_insert(Some(size));
        if *bound != Some(size) {
            *bound = None;
        }
        self.given.get(&dim.name).is_none_or(|given| *given == size)
    }

    /// Returns a size of an input without a given type.
    fn size(&self, axis: usize, dim: &proto::Dim) -> Result<usize, String> {
        let name = &dim.name;
        let of_name =
            self.given.get(name).copied().map(Some).or_else(|| self.bound.get(name).copied());
        match (dim.size, of_name) {
            (Some(size), _) if size > 0 || (size == 0 && name.is_empty()) => usize::try_from(size)
                .map_err(|_| {
                    format!("its size {size} along axis {axis} is larger than any memory")
                }),
            (_, Some(Some(size))) => Ok(size),
            (_, Some(None)) => Err(format!(
                "its size `{name}` is not the same in all inputs that are given: give it an array, or a shape"
            )),
            _ if name.is_empty() => Err(format!(
                "its size along axis {axis} is not known: give it an array, or a shape"
            )),
            _ => Err(format!(
                "its size `{name}` is not known: give it an array, or say `--dim {name}=…`"
            )),
        }
    }
}

/// Returns the value of a one-element input that is given as a number.
pub fn number(input: &proto::Value, value: Scalar) -> Result<Tensor, String> {
    let ty = input.ty.as_ref().and_then(proto::Type::tensor).ok_or("it is no tensor")?;
    let dtype = tensor::dtype(ty.dtype)?;
    let dims = ty.shape.as_ref().map_or(&[][..], |shape| &shape.dims);
    if dims.iter().any(|dim| dim.size.is_some_and(|size| size > 1)) {
        return Err(format!("it must be {}, and a number is given", sizes_text(dims)));
    }
    let own = value.cast(dtype);
    if !dtype.is_float() && own.cast(value.dtype) != value {
        return Err(format!("it must be {dtype}, and {value} is given"));
    }
    Tensor::from_scalars(TensorType::new(dtype, vec![1; dims.len()]), [own])
        .ok_or_else(|| "there is no memory".into())
}

/// Formats `[N, 3, 224]`.
fn sizes_text(dims: &[proto::Dim]) -> String {
    let dims = dims.iter().map(|dim| match dim.size {
        Some(size) => size.to_string(),
        None if dim.name.is_empty() => "?".into(),
        None => dim.name.clone(),
    });
    format!("[{}]", dims.collect::<Vec<_>>().join(", "))
}

impl Importer<'_> {
    /// Defines the model's inputs.
    pub fn inputs(&mut self) -> Result<(), OnnxError> {
        let given = self.given;
        let graph = &self.model.graph;
        let initialized: HashSet<&str> =
            graph.initializers.iter().map(|tensor| tensor.name.as_str()).collect();
        let is_initialized = |name: &str| initialized.contains(name);
        let mut problems = Vec::new();
        let names: Vec<&str> = graph.inputs.iter().map(|input| input.name.as_str()).collect();
        let sizes: Vec<&str> = self.model.unknown_sizes(&[]);
        let unknown = |what: &str, name: &str, known: &[&str]| match known {
            [] => format!("there is no {what} `{name}`; the model has none"),
            known => format!("there is no {what} `{name}`; the model has {}", known.join(", ")),
        };
        let of_inputs = given.types.keys().chain(given.numbers.keys());
        problems.extend(
            of_inputs.filter(|n| !names.contains(&n.as_str())).map(|n| unknown("input", n, &names)),
        );
        problems.extend(
            given
                .sizes
                .keys()
                .filter(|n| !sizes.contains(&n.as_str()))
                .map(|n| unknown("size", n, &sizes)),
        );
        let mut sizes = Sizes::new(&given.sizes);
        let is_given =
            |name: &String| given.types.contains_key(name) || given.numbers.contains_key(name);
        let inputs = graph
            .inputs
            .iter()
            .filter(|input| is_given(&input.name) || !is_initialized(&input.name));
        let (numbers, inputs): (Vec<&proto::Value>, Vec<_>) =
            inputs.partition(|input| given.numbers.contains_key(&input.name));
        // Given types come first, because they bind the names of sizes.
        let (first, then): (Vec<_>, Vec<_>) =
            inputs.iter().partition(|input| given.types.contains_key(&input.name));
        let mut types: HashMap<&str, TensorType> = HashMap::new();
        for input in first.into_iter().chain(then) {
            match sizes.input_type(input, given.types.get(&input.name)) {
                Ok(ty) => {
                    types.insert(&input.name, ty);
                }
                Err(problem) => problems.push(format!("input `{}`: {problem}", input.name)),
            }
        }
        for input in numbers {
            match number(input, given.numbers[&input.name])
                .and_then(|value| self.number_input(&input.name, &value))
            {
                Ok(()) => {}
                Err(problem) => problems.push(format!("input `{}`: {problem}", input.name)),
            }
        }
        if !problems.is_empty() {
            return Err(OnnxError(problems));
        }
        for input in inputs {
            self.calls.begin(&input.name, "", "");
            let node = self.calls.input(&input.name, types[input.name.as_str()].clone(), None);
            let node = node.map_err(|error| {
                OnnxError::new(format!("input `{}`: {}", input.name, sentence(&error)))
            })?;
            let tensor = input.ty.as_ref().and_then(proto::Type::tensor);
            self.note_small(node, tensor.map_or(0, |tensor| tensor.dtype.into()));
            self.define(&input.name, Passed::Tensor(node)).map_err(OnnxError::new)?;
        }
        Ok(())
    }

    /// Defines an input as a constant.
    fn number_input(&mut self, name: &str, value: &Tensor) -> Result<(), String> {
        self.calls.begin(name, "", "");
        let node = self.calls.constant(value).map_err(|error| sentence(&error))?;
        self.define(name, Passed::Tensor(node))
    }
}
