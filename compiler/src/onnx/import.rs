//! The way through a model's nodes: each is a call of the library.

use std::collections::{BTreeMap, HashMap, HashSet};

use tile_lang::Program;
use tile_lang::ast::Function;
use tile_lang::diagnostic::Diagnostic;

use super::control::FUNCTIONS;
use super::imported::Imported;
use super::model::{Model, OnnxError, Operator, Opsets, title, versions};
use super::proto::{self, Attribute};
use super::tensor::{self, Loader};
use super::text::Recorder;
use crate::dtype::{DType, Scalar};
use crate::graph::{NodeId, Op};
use crate::lower::{Calls, Layer, Passed};
use crate::tensor::{Tensor, TensorType};

/// What is known of a model's inputs.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Types by input. One that is not given has the type that the model says, whose sizes must be known then.
    pub types: BTreeMap<String, TensorType>,
    /// Sizes by the names that the model gives them.
    pub sizes: BTreeMap<String, usize>,
    /// Values by input, for those on which shapes depend: the network is right for these alone.
    pub values: BTreeMap<String, Tensor>,
}

/// Elements of a tensor that is written into the graph, and of one whose value may matter for shapes.
const SMALL: usize = 16;
pub(super) const KNOWN: usize = 1 << 16;

/// How deep functions of a file may call each other.
const MAX_DEPTH: usize = 64;

/// The nodes that are gone through, those of loops once for each turn.
pub(super) const MAX_NODES: usize = 200_000;

/// The network that a model is for these inputs.
///
/// # Errors
/// Where a size is not known, or a node does not go together with its inputs.
pub fn import(model: &Model, given: &Given, loader: Loader) -> Result<Imported, OnnxError> {
    let mut names = FUNCTIONS.to_vec();
    functions(model, &model.graph.nodes, &model.opsets, &mut names);
    for function in model.functions.values() {
        functions(model, &function.nodes, &versions(&function.opsets), &mut names);
    }
    let program = tile_lang::check("").program.unwrap_or_else(|| unreachable!("an empty program is in order"));
    let program = program.with(&names);
    let name = if model.name().is_empty() { "model" } else { model.name() };
    let mut importer = Importer {
        model,
        program: &program,
        loader,
        calls: Recorder::new(Calls::new(&program, name)),
        scopes: vec![HashMap::new()],
        weights: HashMap::new(),
        layers: Vec::new(),
        counted: HashSet::new(),
        nodes: 0,
        depth: 0,
    };
    importer.inputs(given)?;
    importer.initializers(&model.graph, "").map_err(OnnxError::new)?;
    importer.run(&model.graph.nodes, &model.opsets, &HashMap::new())?;
    let mut outputs = Vec::new();
    for output in &model.graph.outputs {
        let value = importer
            .lookup(&output.name)
            .ok_or_else(|| OnnxError::new(format!("nothing gives the output `{}`", output.name)))?;
        let node = importer
            .calls
            .tensor(&value)
            .map_err(|error| OnnxError::new(format!("the output `{}`: {}", output.name, sentence(&error))))?;
        outputs.push((output.name.clone(), node));
    }
    let Importer { calls: Recorder { calls, steps, values }, weights, layers, .. } = importer;
    let network = calls.finish(outputs.clone(), layers);
    Ok(Imported { network, name: name.to_owned(), steps, values, outputs, weights })
}

/// Adds the functions of the library that nodes use.
fn functions(model: &Model, nodes: &[proto::Node], opsets: &Opsets, names: &mut Vec<&'static str>) {
    for node in nodes {
        if let Some(Operator::Library(name)) = model.operator(node, opsets)
            && !names.contains(&name)
        {
            names.push(name);
        }
        for graph in node.attributes.iter().filter_map(|attribute| attribute.graph.as_ref()) {
            functions(model, &graph.nodes, opsets, names);
        }
    }
}

/// The attributes of the call of a function of the file, by name.
pub(super) type Attributes = HashMap<String, Attribute>;

pub(super) struct Importer<'p> {
    model: &'p Model,
    program: &'p Program,
    loader: Loader<'p>,
    pub calls: Recorder<'p>,
    /// The values by name, those of the innermost graph last.
    scopes: Vec<HashMap<String, Passed>>,
    weights: HashMap<String, proto::Tensor>,
    layers: Vec<Layer>,
    /// Weights that layers have read.
    counted: HashSet<NodeId>,
    nodes: usize,
    depth: usize,
}

impl<'p> Importer<'p> {
    fn inputs(&mut self, given: &Given) -> Result<(), OnnxError> {
        let graph = &self.model.graph;
        let is_initialized = |name: &str| graph.initializers.iter().any(|tensor| tensor.name == name);
        let mut problems = Vec::new();
        let names: Vec<&str> = graph.inputs.iter().map(|input| input.name.as_str()).collect();
        let sizes: Vec<&str> = self.model.unknown_sizes(&[]);
        let unknown = |what: &str, name: &str, known: &[&str]| match known {
            [] => format!("there is no {what} `{name}`; the model has none"),
            known => format!("there is no {what} `{name}`; the model has {}", known.join(", ")),
        };
        problems
            .extend(given.types.keys().filter(|n| !names.contains(&n.as_str())).map(|n| unknown("input", n, &names)));
        problems
            .extend(given.sizes.keys().filter(|n| !sizes.contains(&n.as_str())).map(|n| unknown("size", n, &sizes)));
        let mut known = given.sizes.clone();
        let inputs =
            graph.inputs.iter().filter(|input| given.types.contains_key(&input.name) || !is_initialized(&input.name));
        let inputs: Vec<&proto::Value> = inputs.collect();
        // What is given first, so that it gives names their sizes.
        let (first, then): (Vec<_>, Vec<_>) = inputs.iter().partition(|input| given.types.contains_key(&input.name));
        let mut types: HashMap<&str, TensorType> = HashMap::new();
        for input in first.into_iter().chain(then) {
            match input_type(input, given.types.get(&input.name), &mut known) {
                Ok(ty) => {
                    types.insert(&input.name, ty);
                }
                Err(problem) => problems.push(format!("input `{}`: {problem}", input.name)),
            }
        }
        if !problems.is_empty() {
            return Err(OnnxError(problems));
        }
        for input in inputs {
            let value = given.values.get(&input.name).filter(|value| value.ty().elements() <= KNOWN).cloned();
            self.calls.begin(&input.name, "", "");
            let node = self.calls.input(&input.name, types[input.name.as_str()].clone(), value);
            let node = node.map_err(|error| OnnxError::new(format!("input `{}`: {}", input.name, sentence(&error))))?;
            self.define(&input.name, Passed::Tensor(node)).map_err(OnnxError::new)?;
        }
        Ok(())
    }

    /// The values that a graph brings along, for names that have none yet. Their paths start with `prefix`.
    pub fn initializers(&mut self, graph: &'p proto::Graph, prefix: &str) -> Result<(), String> {
        for tensor in &graph.initializers {
            let is_given = self.scopes.last().is_some_and(|scope| scope.contains_key(&tensor.name));
            if !is_given {
                let value = self.stored(tensor, &format!("{prefix}{}", tensor.name), true);
                let value = value.map_err(|what| format!("the initializer `{}`: {what}", tensor.name))?;
                self.define(&tensor.name, value)?;
            }
        }
        Ok(())
    }

    /// A tensor of the file: small ones are written into the graph, the others are weights of this path. Of what may have been
    /// trained only numbers are small.
    pub fn stored(&mut self, tensor: &proto::Tensor, path: &str, may_be_trained: bool) -> Result<Passed, String> {
        let ty = tensor::ty(tensor)?;
        let small = if may_be_trained && ty.dtype.is_float() { 1 } else { SMALL };
        let value = match ty.elements() <= KNOWN {
            true => Some(tensor::tensor(tensor, self.loader)?),
            false => {
                tensor::check(tensor, &ty, self.loader)?;
                None
            }
        };
        self.calls.begin(path, "", path);
        let node = match value {
            Some(value) if ty.elements() <= small => self.calls.constant(&value),
            value => {
                let free = (0..).map(|n| if n == 0 { path.to_owned() } else { format!("{path}_{n}") });
                let path = free.into_iter().find(|path| !self.weights.contains_key(path)).unwrap_or_default();
                self.weights.insert(path.clone(), tensor.clone());
                self.calls.weight(&path, ty, value)
            }
        };
        node.map(Passed::Tensor).map_err(|error| sentence(&error))
    }

    /// Goes through nodes in order; `attributes` are those of the function that they are the body of.
    pub fn run(&mut self, nodes: &'p [proto::Node], opsets: &Opsets, attributes: &Attributes) -> Result<(), OnnxError> {
        for node in nodes {
            self.count()?;
            let named = |what: String| OnnxError::new(format!("node `{}` ({}): {what}", title(node), node.op));
            let Some(operator) = self.model.operator(node, opsets) else {
                return Err(named("it is not supported".into()));
            };
            let inputs = node.inputs.iter().map(|name| match name.as_str() {
                "" => Ok(Passed::Nothing),
                name => self.lookup(name).ok_or_else(|| format!("nothing before it gives its input `{name}`")),
            });
            let mut inputs: Vec<Passed> = inputs.collect::<Result<_, _>>().map_err(named)?;
            while inputs.last() == Some(&Passed::Nothing) {
                inputs.pop();
            }
            let elements = self.first_read(&inputs);
            let of_node = resolved(node, attributes);
            self.calls.begin(node.outputs.first().map_or("", String::as_str), &node.op, title(node));
            let outputs = match operator {
                Operator::Library(name) => {
                    let call = self.call(name, node, inputs, of_node);
                    call.map_err(|what| named(what.replace(&format!("`{name}`"), &format!("`{}`", node.op))))?
                }
                Operator::Control(control) => self.control(control, node, inputs, of_node, attributes, opsets)?,
                Operator::Local(function) => self.inline(function, inputs, of_node).map_err(|mut error| {
                    error.0.iter_mut().for_each(|what| *what = format!("{what}, in node `{}`", title(node)));
                    error
                })?,
            };
            if outputs.len() < node.outputs.len() {
                return Err(named(format!("it has {} outputs, not {}", outputs.len(), node.outputs.len())));
            }
            self.note_layer(node, elements, &outputs);
            for (name, value) in node.outputs.iter().zip(outputs).filter(|(name, _)| !name.is_empty()) {
                self.define(name, value).map_err(named)?;
            }
        }
        Ok(())
    }

    /// Counts a node, or a turn of a loop.
    pub fn count(&mut self) -> Result<(), OnnxError> {
        self.nodes += 1;
        match self.nodes > MAX_NODES {
            true => Err(OnnxError::new(format!("it has more than {MAX_NODES} nodes when its loops are written out"))),
            false => Ok(()),
        }
    }

    /// The elements of the weights among the inputs of a node of the outermost graph that none before it has read.
    fn first_read(&mut self, inputs: &[Passed]) -> usize {
        let mut elements = 0;
        for input in inputs.iter().filter(|_| self.scopes.len() == 1) {
            if let Passed::Tensor(id) = input
                && matches!(self.calls.graph().node(*id).op, Op::Weight(_))
                && self.counted.insert(*id)
            {
                elements += self.calls.graph().node(*id).ty.elements();
            }
        }
        elements
    }

    /// Keeps a node of the outermost graph for [`Network::layers`].
    fn note_layer(&mut self, node: &proto::Node, elements: usize, outputs: &[Passed]) {
        if self.scopes.len() > 1 || node.op == "Constant" {
            return;
        }
        let ty = |value: &Passed| match value {
            Passed::Tensor(id) => Some(self.calls.graph().node(*id).ty.clone()),
            _ => None,
        };
        let outputs = outputs.iter().zip(&node.outputs).filter_map(|(value, _)| ty(value)).collect();
        self.layers.push(Layer {
            path: title(node).to_owned(),
            class: node.op.clone(),
            outputs,
            elements: Some(elements),
        });
    }

    /// Calls a function of the library.
    fn call(
        &mut self,
        name: &str,
        node: &proto::Node,
        inputs: Vec<Passed>,
        attributes: Vec<(String, &Attribute)>,
    ) -> Result<Vec<Passed>, String> {
        let function = self.function(name)?;
        let mut parameters = Vec::new();
        let has = |name: &str| function.parameters.iter().flatten().any(|parameter| parameter.name.name == name);
        let (mut of_value, mut of_input) = (None, None);
        for (name, attribute) in attributes {
            if let Some(tensor) = &attribute.tensor {
                of_value = Some(tensor::dtype(tensor.dtype)?);
            }
            let value = self.attribute(attribute).map_err(|what| format!("its attribute `{name}`: {what}"))?;
            parameters.push((name, value));
        }
        let is_given = |parameters: &[(String, Passed)], name: &str| parameters.iter().any(|(given, _)| given == name);
        let is_variadic = matches!(function.inputs.as_slice(), [input] if input.name.name == "Inputs");
        let mut arguments = Vec::new();
        if is_variadic {
            arguments.push(self.tensors(&inputs)?);
        } else {
            if inputs.len() > function.inputs.len() {
                return Err(format!("it takes {} inputs, not {}", function.inputs.len(), inputs.len()));
            }
            for (number, (input, declared)) in inputs.into_iter().zip(&function.inputs).enumerate() {
                if input == Passed::Nothing || declared.name.capital {
                    arguments.push(self.as_tensor(input)?);
                    continue;
                }
                let tensor = self.value(&input).map_err(|what| {
                    format!("its input `{}`, {what}", node.inputs.get(number).map_or("", String::as_str))
                })?;
                of_input = of_input.or(Some(tensor.dtype()));
                arguments.push(literal(&tensor));
            }
        }
        // What a function cannot see of values that are known at compile time, and of how many outputs are wanted.
        for (name, dtype) in [("value_dtype", of_value), ("input_dtype", of_input)] {
            if let Some(dtype) = dtype.filter(|_| has(name)) {
                parameters.push((name.into(), Passed::Int(tensor::number(dtype))));
            }
        }
        if has("num_outputs") && !is_given(&parameters, "num_outputs") {
            parameters.push(("num_outputs".into(), Passed::Int(node.outputs.len() as i64)));
        }
        let outputs = self.calls.call(function, parameters, arguments).map_err(|error| sentence(&error))?;
        Ok(match outputs {
            Passed::List(items) if node.outputs.len() > 1 || function.outputs.len() > 1 => items,
            output => vec![output],
        })
    }

    /// A function of the library that the program has.
    pub fn function(&self, name: &str) -> Result<&'p Function, String> {
        self.program.library_function(name).ok_or_else(|| format!("the library has no `{name}`"))
    }

    /// A list of tensors.
    pub fn tensors(&mut self, values: &[Passed]) -> Result<Passed, String> {
        let tensors = values.iter().map(|value| self.calls.tensor(value).map(Passed::Tensor));
        tensors.collect::<Result<_, _>>().map(Passed::List).map_err(|error| sentence(&error))
    }

    /// Numbers as tensors, and sequences as they are.
    pub fn as_tensor(&mut self, value: Passed) -> Result<Passed, String> {
        match value {
            Passed::Bool(_) | Passed::Int(_) | Passed::Float(_) => {
                self.calls.tensor(&value).map(Passed::Tensor).map_err(|error| sentence(&error))
            }
            value => Ok(value),
        }
    }

    /// The value of a tensor that is known by now.
    pub fn value(&mut self, value: &Passed) -> Result<Tensor, String> {
        let node = self.calls.tensor(value).map_err(|error| sentence(&error))?;
        self.calls.known(node, KNOWN).ok_or_else(|| self.unknown(node))
    }

    /// Why the value of a node is not known.
    fn unknown(&self, node: NodeId) -> String {
        let mut inputs = Vec::new();
        let (mut open, mut seen) = (vec![node], HashSet::new());
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                inputs.extend(self.calls.input_name(next));
                open.extend(self.calls.graph().operands(next));
            }
        }
        inputs.sort_unstable();
        match inputs.as_slice() {
            [] => "has a value that is not known when the model is compiled".into(),
            _ => format!(
                "on which shapes depend, is computed from {}, whose values are not known when the model is compiled",
                inputs.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            ),
        }
    }

    /// The body of a function of the file, written out.
    fn inline(
        &mut self,
        function: &'p proto::Function,
        inputs: Vec<Passed>,
        attributes: Vec<(String, &Attribute)>,
    ) -> Result<Vec<Passed>, OnnxError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(OnnxError::new(format!("functions call each other more than {MAX_DEPTH} deep")));
        }
        let mut own: Attributes = function.defaults.iter().map(|a| (a.name.clone(), a.clone())).collect();
        own.extend(attributes.into_iter().map(|(name, attribute)| (name, attribute.clone())));
        let given = inputs.into_iter().chain(std::iter::repeat(Passed::Nothing));
        let scope = function.inputs.iter().cloned().zip(given).collect();
        // It sees nothing of what is around it.
        let outer = std::mem::replace(&mut self.scopes, vec![HashMap::new(), scope]);
        let result = self.run(&function.nodes, &versions(&function.opsets), &own);
        let outputs = function
            .outputs
            .iter()
            .map(|name| self.lookup(name).ok_or_else(|| OnnxError::new(format!("nothing gives the output `{name}`"))));
        let outputs: Result<Vec<Passed>, OnnxError> = result.and_then(|()| outputs.collect());
        self.scopes = outer;
        self.depth -= 1;
        outputs
    }

    /// Runs a graph within a node, with these inputs; gives its outputs. `attributes` are those of the function that it is in.
    pub fn body(
        &mut self,
        graph: &'p proto::Graph,
        inputs: Vec<Passed>,
        opsets: &Opsets,
        prefix: &str,
        attributes: &Attributes,
    ) -> Result<Vec<Passed>, OnnxError> {
        self.scopes.push(graph.inputs.iter().map(|input| input.name.clone()).zip(inputs).collect());
        let result = self.initializers(graph, prefix).map_err(OnnxError::new);
        let result = result.and_then(|()| self.run(&graph.nodes, opsets, attributes));
        let outputs = graph.outputs.iter().map(|output| {
            let missing = || OnnxError::new(format!("nothing gives the output `{}`", output.name));
            self.lookup(&output.name).ok_or_else(missing)
        });
        let outputs = result.and_then(|()| outputs.collect());
        self.scopes.pop();
        outputs
    }

    pub fn lookup(&self, name: &str) -> Option<Passed> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).cloned()
    }

    fn define(&mut self, name: &str, value: Passed) -> Result<(), String> {
        if let Passed::Tensor(node) = &value {
            self.calls.values.entry(*node).or_insert_with(|| name.to_owned());
        }
        let before = self.scopes.last_mut().and_then(|scope| scope.insert(name.to_owned(), value));
        if before.is_some() { Err(format!("`{name}` is given twice")) } else { Ok(()) }
    }

    /// An attribute as a value that is known at compile time.
    fn attribute(&mut self, attribute: &Attribute) -> Result<Passed, String> {
        let text_of = |bytes: &[u8]| Passed::Text(String::from_utf8_lossy(bytes).into_owned());
        Ok(match kind(attribute) {
            1 => Passed::Float(f64_of(attribute.float)),
            2 => Passed::Int(attribute.int),
            3 => text_of(&attribute.text),
            6 => Passed::List(attribute.floats.iter().map(|&value| Passed::Float(f64_of(value))).collect()),
            7 => Passed::List(attribute.ints.iter().map(|&value| Passed::Int(value)).collect()),
            8 => Passed::List(attribute.texts.iter().map(|bytes| text_of(bytes)).collect()),
            4 => match &attribute.tensor {
                Some(tensor) => literal(&tensor::tensor(tensor, self.loader)?),
                None => return Err("it has no value".into()),
            },
            kind => return Err(format!("attributes of the kind {kind} are not supported")),
        })
    }
}

/// The kind of an attribute's value.
fn kind(attribute: &Attribute) -> i32 {
    match attribute {
        Attribute { kind: 0, tensor: Some(_), .. } => 4,
        Attribute { kind: 0, floats, .. } if !floats.is_empty() => 6,
        Attribute { kind: 0, ints, .. } if !ints.is_empty() => 7,
        Attribute { kind: 0, texts, .. } if !texts.is_empty() => 8,
        Attribute { kind: 0, text, .. } if !text.is_empty() => 3,
        Attribute { kind: 0, float, .. } if *float != 0.0 => 1,
        Attribute { kind: 0, .. } => 2,
        Attribute { kind, .. } => *kind,
    }
}

/// The shortest number that is this one in f32, as its text would be.
fn f64_of(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

/// A tensor as a value known at compile time: a number, or lists of lists.
pub(super) fn literal(tensor: &Tensor) -> Passed {
    fn nested(shape: &[usize], scalars: &[Scalar]) -> Passed {
        match shape.split_first() {
            None => scalars.first().map_or(Passed::Nothing, |scalar| match scalar.dtype {
                DType::Bool => Passed::Bool(scalar.is_true()),
                dtype if dtype.is_float() => Passed::Float(match dtype {
                    DType::F32 => f64_of(scalar.to_f64() as f32),
                    _ => scalar.to_f64(),
                }),
                _ => Passed::Int(scalar.to_i64()),
            }),
            Some((&size, rest)) => {
                let part = scalars.len().checked_div(size).unwrap_or(0);
                Passed::List((0..size).map(|n| nested(rest, &scalars[n * part..][..part])).collect())
            }
        }
    }
    nested(tensor.shape(), &tensor.scalars().collect::<Vec<_>>())
}

/// The attributes of a node, those that refer to the function around it replaced by what it was given.
fn resolved<'a>(node: &'a proto::Node, outer: &'a Attributes) -> Vec<(String, &'a Attribute)> {
    let of = |attribute: &'a Attribute| match attribute.reference.as_str() {
        "" => Some((attribute.name.clone(), attribute)),
        name => outer.get(name).map(|given| (attribute.name.clone(), given)),
    };
    node.attributes.iter().filter_map(of).collect()
}

/// The type of an input, and of the sizes that it names their values.
fn input_type(
    input: &proto::Value,
    given: Option<&TensorType>,
    sizes: &mut BTreeMap<String, usize>,
) -> Result<TensorType, String> {
    let tensor = input.ty.as_ref().and_then(proto::Type::tensor).ok_or("it is no tensor")?;
    let declared = tensor.shape.as_ref().map(|shape| shape.dims.as_slice());
    if let Some(given) = given {
        let dtype = tensor::dtype(tensor.dtype)?;
        if given.dtype != dtype {
            return Err(format!("it must be {dtype}, and {given} is given"));
        }
        let Some(dims) = declared else { return Ok(given.clone()) };
        let fits = |(dim, &size): (&proto::Dim, &usize)| match dim.size {
            Some(wanted) if wanted > 0 => usize::try_from(wanted) == Ok(size),
            _ if dim.name.is_empty() => true,
            _ => *sizes.entry(dim.name.clone()).or_insert(size) == size,
        };
        if dims.len() != given.rank() || !dims.iter().zip(&given.shape).all(fits) {
            return Err(format!("it must be {}, and {given} is given", sizes_text(dims)));
        }
        return Ok(given.clone());
    }
    let dims = declared.ok_or("its shape is not known: give it an array, or a shape")?;
    let size = |(axis, dim): (usize, &proto::Dim)| match (dim.size, sizes.get(&dim.name)) {
        (Some(size), _) if size > 0 || (size == 0 && dim.name.is_empty()) => {
            usize::try_from(size).map_err(|_| "".into())
        }
        (_, Some(&size)) => Ok(size),
        (Some(size), _) if size < 0 => Err(format!("its axis {axis} has the size {size}")),
        _ if dim.name.is_empty() => {
            Err(format!("its size along axis {axis} is not known: give it an array, or a shape"))
        }
        _ => Err(format!("its size `{}` is not known: give it an array, or say `--dim {}=…`", dim.name, dim.name)),
    };
    let shape: Vec<usize> = dims.iter().enumerate().map(size).collect::<Result<_, String>>()?;
    Ok(TensorType::new(tensor::dtype(tensor.dtype)?, shape))
}

/// `[N, 3, 224]`
fn sizes_text(dims: &[proto::Dim]) -> String {
    let dims = dims.iter().map(|dim| match dim.size {
        Some(size) => size.to_string(),
        None if dim.name.is_empty() => "?".into(),
        None => dim.name.clone(),
    });
    format!("[{}]", dims.collect::<Vec<_>>().join(", "))
}

/// What a diagnostic says, without its places, which are in the library.
pub(super) fn sentence(error: &Diagnostic) -> String {
    match &error.help {
        Some(help) => format!("{} ({help})", error.message),
        None => error.message.clone(),
    }
}
