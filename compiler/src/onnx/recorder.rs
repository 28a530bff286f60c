//! The record of the calls that built a graph.

use tile_lang::ast::Function;

use crate::graph::{Graph, NodeId, NodeMap};
use crate::lower::{Calls, Lowered, Passed};
use crate::tensor::{Tensor, TensorType};

/// A step in the construction of a graph.
#[derive(Clone)]
pub(super) enum Recorded {
    Input {
        name: String,
        ty: TensorType,
        node: NodeId,
    },
    Weight {
        path: String,
        ty: TensorType,
        node: NodeId,
    },
    Constant {
        tensor: Tensor,
        node: NodeId,
    },
    Call {
        function: String,
        has_parameters: bool,
        parameters: Vec<(String, Passed)>,
        inputs: Vec<Passed>,
        outputs: Vec<Passed>,
    },
}

impl Recorded {
    pub fn call(
        function: &Function,
        parameters: Vec<(String, Passed)>,
        inputs: Vec<Passed>,
        result: &Passed,
    ) -> Recorded {
        let outputs = match result {
            Passed::List(items) => items.clone(),
            output => vec![output.clone()],
        };
        let name = function.name.as_ref().map_or("", |name| &name.name).to_owned();
        Recorded::Call {
            function: name,
            has_parameters: function.parameters.is_some(),
            parameters,
            inputs,
            outputs,
        }
    }
}

/// [`Calls`] with a record of the steps.
pub(super) struct Recorder<'p> {
    pub calls: Calls<'p>,
    pub steps: Vec<Recorded>,
    /// The names of values in the file.
    pub values: NodeMap<String>,
}

impl<'p> Recorder<'p> {
    pub fn new(calls: Calls<'p>) -> Recorder<'p> {
        Recorder { calls, steps: Vec::new(), values: NodeMap::new() }
    }

    pub fn graph(&self) -> &Graph {
        self.calls.graph()
    }

    pub fn input(&mut self, name: &str, ty: TensorType, known: Option<Tensor>) -> Lowered<NodeId> {
        let node = self.calls.input(name, ty.clone(), known)?;
        self.steps.push(Recorded::Input { name: name.to_owned(), ty, node });
        Ok(node)
    }

    pub fn weight(&mut self, path: &str, ty: TensorType, known: Option<Tensor>) -> Lowered<NodeId> {
        let node = self.calls.weight(path, ty.clone(), known)?;
        self.steps.push(Recorded::Weight { path: path.to_owned(), ty, node });
        Ok(node)
    }

    pub fn constant(&mut self, tensor: &Tensor) -> Lowered<NodeId> {
        let node = self.calls.constant(tensor)?;
        self.steps.push(Recorded::Constant { tensor: tensor.clone(), node });
        Ok(node)
    }

    pub fn tensor(&mut self, value: &Passed) -> Lowered<NodeId> {
        let node = self.calls.tensor(value)?;
        if !matches!(value, Passed::Tensor(_))
            && let Some(tensor) = self.calls.known(node, usize::MAX)
        {
            self.steps.push(Recorded::Constant { tensor, node });
        }
        Ok(node)
    }

    pub fn known(&mut self, node: NodeId, most: usize) -> Option<Tensor> {
        self.calls.known(node, most)
    }

    pub fn reveal(&mut self, values: impl IntoIterator<Item = (NodeId, Tensor)>) {
        self.calls.reveal(values);
    }

    pub fn settle(&mut self, node: NodeId, name: &str) {
        self.calls.settle(node, name);
    }

    pub fn input_name(&self, node: NodeId) -> Option<String> {
        self.calls.input_name(node)
    }

    pub fn begin(&mut self, name: &str, function: &str, path: &str) {
        self.calls.begin(name, function, path);
    }

    pub fn call(
        &mut self,
        function: &'p Function,
        parameters: Vec<(String, Passed)>,
        inputs: Vec<Passed>,
    ) -> Lowered<Passed> {
        let result = self.calls.call(function, parameters.clone(), inputs.clone())?;
        self.steps.push(Recorded::call(function, parameters, inputs, &result));
        Ok(result)
    }
}
