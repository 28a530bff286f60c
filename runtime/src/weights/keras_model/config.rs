//! Reads the configuration of a Keras model, `config.json` in its archive: a tree of models and
//! layers, and the calls that connect them.
//!
//! Invariants of a [`Network`]: each call comes after those whose results it takes, and all indices
//! are in range.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::super::keras::label;
use super::kinds::Kind;

/// A Functional or Sequential model, or one inside another.
pub struct Network {
    pub name: String,
    pub inputs: Vec<Port>,
    pub layers: Vec<Layer>,
    pub calls: Vec<Call>,
    pub outputs: Vec<Source>,
}

/// An input of a model.
pub struct Port {
    pub name: String,
    /// The sizes. `None` stands for any size.
    pub shape: Vec<Option<u64>>,
    pub kind: Kind,
}

/// A layer of a model.
pub struct Layer {
    pub class: String,
    pub name: String,
    /// The module of the class, such as `keras.layers`.
    pub module: String,
    pub config: Value,
    /// The shapes for which it was built.
    pub built: Value,
    /// The model, if the layer is one.
    pub network: Option<Network>,
    /// The group of the layer in the model's file of weights, such as `layers/dense_1`.
    pub group: String,
}

/// A tensor of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The input with this index.
    Input(usize),
    /// A result of the call with this index.
    Result { call: usize, part: usize },
}

/// An argument of a call.
pub enum Argument {
    Tensor(Source),
    List(Vec<Argument>),
    /// A value that is no tensor, such as a number.
    Value(Value),
}

/// One application of a layer.
pub struct Call {
    pub layer: usize,
    pub arguments: Vec<Argument>,
    pub named: Vec<(String, Argument)>,
}

impl Layer {
    /// Returns whether the layer, or one in it, makes a mask.
    pub fn makes_mask(&self) -> bool {
        let inner = self.network.as_ref().is_some_and(|inner| inner.mask_maker().is_some());
        self.class == "Masking" || self.config["mask_zero"] == true || inner
    }
}

/// Layers of Functional models in which Keras loses masks, or takes them without saying so in the
/// file.
const ATTENTION: [&str; 2] = ["MultiHeadAttention", "GroupQueryAttention"];

impl Network {
    /// Returns a layer that makes a mask, which passes from layer to layer.
    pub fn mask_maker(&self) -> Option<&Layer> {
        self.layers.iter().find(|layer| layer.makes_mask())
    }

    /// Checks that masks pass here as they do in Keras.
    fn check_masks(&self) -> Result<(), String> {
        let differs =
            |layer: &&Layer| layer.network.is_some() || ATTENTION.contains(&layer.class.as_str());
        match (self.mask_maker(), self.layers.iter().find(differs)) {
            (Some(makes), Some(takes)) => Err(format!(
                "the layer `{}` makes a mask, and the file does not say whether `{}` takes it; help: write the program by hand, and give it the file with `--weights`",
                makes.name, takes.name
            )),
            _ => Ok(()),
        }
    }
}

impl Argument {
    /// Returns the tensors of the argument.
    pub fn sources(&self) -> Vec<Source> {
        match self {
            Argument::Tensor(source) => vec![*source],
            Argument::List(items) => items.iter().flat_map(Argument::sources).collect(),
            Argument::Value(_) => Vec::new(),
        }
    }

    /// Returns the argument if it is no tensor.
    pub fn value(&self) -> Option<&Value> {
        match self {
            Argument::Value(value) => Some(value),
            Argument::Tensor(_) | Argument::List(_) => None,
        }
    }

    /// Returns whether the argument has a value that is neither a tensor nor a number, such as an
    /// array.
    pub fn has_constant(&self) -> bool {
        match self {
            Argument::Tensor(_) => false,
            Argument::List(items) => items.iter().any(Argument::has_constant),
            Argument::Value(value) => {
                let is_other = value.is_object() || value.is_array() || value.is_string();
                is_other && !is_empty(value)
            }
        }
    }
}

/// Returns whether the result of a layer is a list.
pub fn returns_list(layer: &Layer, call: &Call) -> bool {
    let config = &layer.config;
    let is_set = |(name, argument): &(String, Argument)| {
        name == "return_attention_scores" && matches!(argument, Argument::Value(Value::Bool(true)))
    };
    config["return_state"] == true
        || config["layer"]["config"]["return_state"] == true
        || (layer.class == "Bidirectional" && config.get("merge_mode") == Some(&Value::Null))
        || call.named.iter().any(is_set)
}

/// Returns whether a list or dictionary has nothing but nulls.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(Value::is_null),
        Value::Object(items) => items.values().all(Value::is_null),
        _ => false,
    }
}

impl Call {
    /// Returns the tensors that the call takes.
    pub fn sources(&self) -> impl Iterator<Item = Source> {
        let named = self.named.iter().map(|(_, argument)| argument);
        self.arguments.iter().chain(named).flat_map(Argument::sources)
    }
}

/// Returns a text of the configuration, or an empty one.
pub fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// Returns whether an object is of a class of Keras, and not of a user's class, which may have the
/// same name.
pub fn is_of_keras(object: &Value) -> bool {
    text(object, "module").split('.').next() == Some("keras")
}

/// Returns a list of the configuration, or an empty one.
fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Reads a model from its serialized form, and takes the options of its layers out of that.
///
/// # Errors
/// Returns a sentence that names the model or the layer.
pub fn network(model: &mut Value) -> Result<Network, String> {
    let is_known = is_of_keras(model);
    let mut config = model.get_mut("config").map(Value::take).unwrap_or_default();
    let network = match text(model, "class_name") {
        "Sequential" if is_known => sequential(&mut config),
        "Functional" | "Model" if is_known && config["layers"].is_array() => {
            functional(&mut config)
        }
        class => Err(format!(
            "expected a Sequential or Functional model, found the class `{class}`, whose layers only its Python code knows; help: write the layers in Tile, and give the file with `--weights`"
        )),
    }?;
    network.check_masks()?;
    Ok(network)
}

/// Returns whether a serialized layer is a model.
fn is_model(layer: &Value) -> bool {
    matches!(text(layer, "class_name"), "Sequential" | "Functional" | "Model")
}

/// Reads the layers of a model, without the inputs, and takes their options.
fn layers(config: &mut Value) -> Result<Vec<Layer>, String> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut layers = Vec::new();
    let serialized = config.get_mut("layers").and_then(Value::as_array_mut);
    for layer in serialized.into_iter().flatten() {
        let class = text(layer, "class_name").to_owned();
        let label = label(&class);
        let count = counts.entry(label.clone()).or_default();
        let group =
            if *count == 0 { format!("layers/{label}") } else { format!("layers/{label}_{count}") };
        *count += 1;
        if class == "InputLayer" {
            continue;
        }
        if !is_of_keras(layer) {
            return Err(format!(
                "the layer `{}` is of the class `{class}`, which is no class of Keras itself; help: write the program by hand, and give it the file with `--weights`",
                text(&layer["config"], "name")
            ));
        }
        let name = text(&layer["config"], "name").to_owned();
        let network = if is_model(layer) { Some(network(layer)?) } else { None };
        layers.push(Layer {
            name,
            module: text(layer, "module").to_owned(),
            config: layer["config"].take(),
            built: layer["build_config"].take(),
            network,
            class,
            group,
        });
    }
    Ok(layers)
}

/// Reads the shape of an input, and the kind of its type.
fn port(name: &str, shape: &Value, dtype: &Value) -> Result<Port, String> {
    let size = |size: &Value| match size {
        Value::Null => Some(None),
        size => size.as_u64().map(Some),
    };
    let shape = shape.as_array().and_then(|sizes| sizes.iter().map(size).collect());
    let shape = shape.ok_or_else(|| {
        format!("the input `{name}` has no shape; help: build the model before it is saved")
    })?;
    let kind = Kind::of_dtype(dtype.as_str().unwrap_or_default());
    Ok(Port { name: name.to_owned(), shape, kind })
}

/// Reads an input from the options of its layer.
fn input(name: &str, config: &Value) -> Result<Port, String> {
    port(name, &config["batch_shape"], &config["dtype"])
}

fn sequential(config: &mut Value) -> Result<Network, String> {
    let first =
        list(config, "layers").first().filter(|layer| text(layer, "class_name") == "InputLayer");
    let input = match first {
        Some(layer) => input(text(&layer["config"], "name"), &layer["config"])?,
        None => port("input_layer", &config["build_input_shape"], &Value::Null)?,
    };
    let layers = layers(config)?;
    let source = |layer: usize| match layer.checked_sub(1) {
        Some(call) => Source::Result { call, part: 0 },
        None => Source::Input(0),
    };
    let call = |layer: usize| Call {
        layer,
        arguments: vec![Argument::Tensor(source(layer))],
        named: Vec::new(),
    };
    Ok(Network {
        name: text(config, "name").to_owned(),
        inputs: vec![input],
        calls: (0..layers.len()).map(call).collect(),
        outputs: vec![source(layers.len())],
        layers,
    })
}

/// A tensor by the name of its layer, the number of the layer's call, and the index of the result.
type History = (String, usize, usize);

/// Reads `["dense", 0, 0]`.
fn history(value: &Value) -> Option<History> {
    let [name, call, part] = value.as_array()?.as_slice() else { return None };
    let index = |value: &Value| usize::try_from(value.as_u64()?).ok();
    Some((name.as_str()?.to_owned(), index(call)?, index(part)?))
}

/// Reads all tensors in lists and dictionaries of them.
fn histories(value: &Value) -> Vec<History> {
    match (history(value), value) {
        (Some(found), _) => vec![found],
        (None, Value::Array(items)) => items.iter().flat_map(histories).collect(),
        (None, Value::Object(items)) => items.values().flat_map(histories).collect(),
        _ => Vec::new(),
    }
}

/// Returns the tensors in the serialized arguments of a call.
fn tensors(value: &Value) -> Vec<History> {
    match value {
        Value::Array(items) => items.iter().flat_map(tensors).collect(),
        Value::Object(items) => match history(&value["config"]["keras_history"]) {
            Some(found) => vec![found],
            None => items.values().flat_map(tensors).collect(),
        },
        _ => Vec::new(),
    }
}

/// The sources of tensors: the index of each input by its name, and of each call by the name of its
/// layer and its number.
struct Sources {
    inputs: HashMap<String, usize>,
    calls: HashMap<(String, usize), usize>,
}

impl Sources {
    fn source(&self, (name, number, part): &History) -> Result<Source, String> {
        if let Some(&input) = self.inputs.get(name) {
            return Ok(Source::Input(input));
        }
        let call = self.calls.get(&(name.clone(), *number));
        let call = call.ok_or_else(|| format!("no layer makes the tensor {number} of `{name}`"))?;
        Ok(Source::Result { call: *call, part: *part })
    }

    fn argument(&self, value: &Value) -> Result<Argument, String> {
        if let Some(found) = history(&value["config"]["keras_history"]) {
            return Ok(Argument::Tensor(self.source(&found)?));
        }
        match value {
            Value::Array(items) if !tensors(value).is_empty() => {
                let items = items.iter().map(|item| self.argument(item));
                Ok(Argument::List(items.collect::<Result<_, _>>()?))
            }
            // The inputs of an inner model by name, in the order in which the model has them.
            Value::Object(items) if items.values().any(|item| !tensors(item).is_empty()) => {
                let items = items.values().map(|item| self.argument(item));
                Ok(Argument::List(items.collect::<Result<_, _>>()?))
            }
            _ => Ok(Argument::Value(value.clone())),
        }
    }

    fn call(&self, layer: usize, node: &Value) -> Result<Call, String> {
        let arguments = list(node, "args").iter().map(|value| self.argument(value));
        let named = node["kwargs"].as_object().into_iter().flatten();
        let named = named.map(|(name, value)| Ok((name.clone(), self.argument(value)?)));
        Ok(Call {
            layer,
            arguments: arguments.collect::<Result<_, String>>()?,
            named: named.collect::<Result<_, String>>()?,
        })
    }
}

fn functional(config: &mut Value) -> Result<Network, String> {
    let places: HashMap<String, usize> = list(config, "layers")
        .iter()
        .enumerate()
        .map(|(place, layer)| (text(&layer["config"], "name").to_owned(), place))
        .collect();
    let layers = layers(config)?;
    let all = list(config, "layers");
    let serialized = |name: &str| places.get(name).map(|&place| &all[place]);
    let mut inputs = Vec::new();
    for (name, ..) in histories(&config["input_layers"]) {
        let config = serialized(&name).map_or(&Value::Null, |layer| &layer["config"]);
        inputs.push(input(&name, config)?);
    }
    let numbered = inputs.iter().enumerate();
    let inputs_by_name = numbered.map(|(number, port)| (port.name.clone(), number)).collect();
    let mut sources = Sources { inputs: inputs_by_name, calls: HashMap::new() };
    let mut nodes: Vec<(usize, &Value)> = Vec::new();
    for (number, layer) in layers.iter().enumerate() {
        let serialized = serialized(&layer.name).unwrap_or(&Value::Null);
        for (node, value) in list(serialized, "inbound_nodes").iter().enumerate() {
            if !value.is_object() {
                return Err("its calls have the form of Keras 2; help: load the model in Keras 3 and save it again".into());
            }
            sources.calls.insert((layer.name.clone(), node), nodes.len());
            nodes.push((number, value));
        }
    }
    let order = order(&nodes, &sources.calls);
    if order.len() < nodes.len() {
        return Err("its layers take each other's results in a circle".into());
    }
    let mut places = vec![0; nodes.len()];
    order.iter().enumerate().for_each(|(place, &node)| places[node] = place);
    sources.calls.values_mut().for_each(|call| *call = places[*call]);
    let calls = order.iter().map(|&node| sources.call(nodes[node].0, nodes[node].1));
    let mut outputs = histories(&config["output_layers"]);
    // Here alone, a Functional model in the model has a call before those of the file.
    let is_functional = |layer: &&Layer| layer.network.is_some() && layer.class != "Sequential";
    let functional: HashSet<&str> =
        layers.iter().filter(is_functional).map(|layer| layer.name.as_str()).collect();
    for (name, number, _) in &mut outputs {
        *number -= usize::from(*number > 0 && functional.contains(name.as_str()));
    }
    Ok(Network {
        name: text(config, "name").to_owned(),
        inputs,
        calls: calls.collect::<Result<_, _>>()?,
        outputs: outputs.iter().map(|output| sources.source(output)).collect::<Result<_, _>>()?,
        layers,
    })
}

/// Orders calls so that each comes after those whose results it takes, and else as they are. Calls
/// in a circle are left out.
fn order(nodes: &[(usize, &Value)], calls: &HashMap<(String, usize), usize>) -> Vec<usize> {
    let mut missing = vec![0; nodes.len()];
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (number, (_, value)) in nodes.iter().enumerate() {
        let taken = tensors(value).into_iter();
        let before: BTreeSet<usize> =
            taken.filter_map(|(name, call, _)| calls.get(&(name, call)).copied()).collect();
        missing[number] = before.len();
        before.into_iter().for_each(|other| after[other].push(number));
    }
    let mut ready: BTreeSet<usize> = (0..nodes.len()).filter(|&node| missing[node] == 0).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(node) = ready.pop_first() {
        order.push(node);
        for &next in &after[node] {
            missing[next] -= 1;
            if missing[next] == 0 {
                ready.insert(next);
            }
        }
    }
    order
}
