//! The types of a model's inputs, derived from the file, given arrays, and given sizes.

use std::collections::BTreeMap;

use super::{proto, tensor};
use crate::dtype::Scalar;
use crate::tensor::{Tensor, TensorType};

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
    pub fn input_type(&mut self, input: &proto::Value, given: Option<&TensorType>) -> Result<TensorType, String> {
        let tensor = input.ty.as_ref().and_then(proto::Type::tensor).ok_or("it is no tensor")?;
        let declared = tensor.shape.as_ref().map(|shape| shape.dims.as_slice());
        if let Some(given) = given {
            let dtype = tensor::dtype(tensor.dtype)?;
            if given.dtype != dtype {
                return Err(format!("it must be {dtype}, and {given} is given"));
            }
            let Some(dims) = declared else { return Ok(given.clone()) };
            if dims.len() != given.rank() || !dims.iter().zip(&given.shape).all(|(dim, &size)| self.binds(dim, size)) {
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
        let of_name = self.given.get(name).copied().map(Some).or_else(|| self.bound.get(name).copied());
        match (dim.size, of_name) {
            (Some(size), _) if size > 0 || (size == 0 && name.is_empty()) => usize::try_from(size)
                .map_err(|_| format!("its size {size} along axis {axis} is larger than any memory")),
            (_, Some(Some(size))) => Ok(size),
            (_, Some(None)) => Err(format!(
                "its size `{name}` is not the same in all inputs that are given: give it an array, or a shape"
            )),
            _ if name.is_empty() => {
                Err(format!("its size along axis {axis} is not known: give it an array, or a shape"))
            }
            _ => Err(format!("its size `{name}` is not known: give it an array, or say `--dim {name}=…`")),
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
    Tensor::from_scalars(TensorType::new(dtype, vec![1; dims.len()]), [own]).ok_or_else(|| "there is no memory".into())
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
