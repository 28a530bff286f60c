//! Calls of library functions for a model's nodes.

use tile_lang::ast::Function;

use super::attributes::literal;
use super::import::{Importer, sentence};
use super::proto::{self, Attribute};
use super::tensor;
use crate::dtype::DType;
use crate::lower::Passed;

impl<'p> Importer<'p> {
    /// Calls a function of the library.
    pub fn call(
        &mut self,
        name: &str,
        node: &proto::Node,
        inputs: Vec<Passed>,
        attributes: Vec<(String, &Attribute)>,
    ) -> Result<Vec<Passed>, String> {
        let function = self.function(name)?;
        let mut parameters = Vec::new();
        let has = |name: &str| {
            function.parameters.iter().flatten().any(|parameter| parameter.name.name == name)
        };
        let mut types = Vec::new();
        for (name, attribute) in attributes {
            if let Some(tensor) = &attribute.tensor {
                types.push((format!("{name}_dtype"), tensor::dtype(tensor.dtype)?));
            }
            let value = self
                .attribute(attribute)
                .map_err(|what| format!("its attribute `{name}`: {what}"))?;
            parameters.push((name, value));
        }
        let is_given = |parameters: &[(String, Passed)], name: &str| {
            parameters.iter().any(|(given, _)| given == name)
        };
        let arguments = self.arguments(function, node, inputs, &mut types)?;
        // Adds parameters that a function cannot derive: types of compile-time values, and the
        // number of outputs.
        for (name, dtype) in types {
            if has(&name) && !is_given(&parameters, &name) {
                parameters.push((name, Passed::Int(tensor::number(dtype))));
            }
        }
        if has("num_outputs") && node.outputs.len() > 1 && !is_given(&parameters, "num_outputs") {
            parameters.push(("num_outputs".into(), Passed::Int(node.outputs.len() as i64)));
        }
        if let (true, Some(Passed::Tensor(last))) = (has("small_type"), arguments.last())
            && let Some(&number) = self.small.get(*last)
        {
            parameters.push(("small_type".into(), Passed::Int(number)));
        }
        let converted = parameters
            .iter()
            .find(|(name, _)| ["to", "small_type", "output_dtype"].contains(&name.as_str()));
        let converted = match converted {
            Some((_, Passed::Int(number))) if node.op != "DequantizeLinear" => *number,
            _ => 0,
        };
        let outputs =
            self.calls.call(function, parameters, arguments).map_err(|error| sentence(&error))?;
        if let Passed::Tensor(node) = outputs {
            self.note_small(node, converted);
        }
        Ok(match outputs {
            Passed::List(items) if node.outputs.len() > 1 || function.outputs.len() > 1 => items,
            output => vec![output],
        })
    }

    /// Returns the arguments of a library function: tensors, and literals of constants for inputs
    /// that it wants at compile time, whose types are added to `types`.
    fn arguments(
        &mut self,
        function: &Function,
        node: &proto::Node,
        inputs: Vec<Passed>,
        types: &mut Vec<(String, DType)>,
    ) -> Result<Vec<Passed>, String> {
        if matches!(function.inputs.as_slice(), [input] if input.name.name == "Inputs") {
            return Ok(vec![self.tensors(&inputs)?]);
        }
        let (wanted, given) = (function.inputs.len(), inputs.len());
        if given > wanted {
            return Err(format!("it takes {wanted} inputs, not {given}"));
        }
        let mut arguments = Vec::new();
        for (number, (input, declared)) in inputs.into_iter().zip(&function.inputs).enumerate() {
            if input == Passed::Nothing || declared.name.capital {
                arguments.push(self.as_tensor(input)?);
                continue;
            }
            let tensor = self.value(&input).map_err(|what| {
                let name = node.inputs.get(number).map_or("", String::as_str);
                format!("its input `{name}`, {what}")
            })?;
            types.push(("input_dtype".to_owned(), tensor.dtype()));
            arguments.push(literal(&tensor));
        }
        Ok(arguments)
    }

    /// Returns a function of the library.
    pub fn function(&self, name: &str) -> Result<&'p Function, String> {
        self.program.library_function(name).ok_or_else(|| format!("the library has no `{name}`"))
    }

    /// Converts values to a list of tensors.
    pub fn tensors(&mut self, values: &[Passed]) -> Result<Passed, String> {
        let tensors = values.iter().map(|value| self.calls.tensor(value).map(Passed::Tensor));
        tensors.collect::<Result<_, _>>().map(Passed::List).map_err(|error| sentence(&error))
    }

    /// Converts a number to a tensor. Other values stay as they are.
    pub fn as_tensor(&mut self, value: Passed) -> Result<Passed, String> {
        match value {
            Passed::Bool(_) | Passed::Int(_) | Passed::Float(_) => {
                self.calls.tensor(&value).map(Passed::Tensor).map_err(|error| sentence(&error))
            }
            value => Ok(value),
        }
    }
}
