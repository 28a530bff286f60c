//! Writes a model as Keras' configuration, `config.json`: the opposite of `config`.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::config::{Argument, Call, Network, Port, Source, returns_list};
use super::objects;

/// The layers and calls that the outputs depend on, as Keras orders them. It numbers the layers of
/// a class in this order in a file of weights.
pub struct Order {
    /// The layers, those with the most layers after them first.
    pub layers: Vec<usize>,
    calls: HashSet<usize>,
}

impl Order {
    /// Orders the layers as Keras does: by depth, the longest way to an output, and layers of one
    /// depth as a depth-first search from the outputs meets them.
    pub fn new(network: &Network) -> Order {
        let (mut met, mut is_met) = (Vec::new(), HashSet::new());
        let mut calls = HashSet::new();
        // The calls in progress, each with its sources that are left.
        let mut stack: Vec<(usize, Vec<Source>)> = Vec::new();
        let mut finished = Vec::new();
        for output in &network.outputs {
            let mut next = Some(*output);
            loop {
                match next {
                    Some(Source::Result { call, .. }) if calls.insert(call) => {
                        let layer = network.calls[call].layer;
                        if is_met.insert(layer) {
                            met.push(layer);
                        }
                        let mut sources: Vec<Source> = network.calls[call].sources().collect();
                        sources.reverse();
                        stack.push((call, sources));
                    }
                    _ => {}
                }
                let Some((call, sources)) = stack.last_mut() else { break };
                next = sources.pop();
                if next.is_none() {
                    finished.push(*call);
                    stack.pop();
                }
            }
        }
        let mut depths: BTreeMap<usize, usize> = BTreeMap::new();
        let mut of_layers = vec![0; network.layers.len()];
        for call in finished.into_iter().rev() {
            let Call { layer, .. } = network.calls[call];
            let depth = depths.get(&call).copied().unwrap_or(0).max(of_layers[layer]);
            of_layers[layer] = depth;
            for source in network.calls[call].sources() {
                if let Source::Result { call, .. } = source {
                    let known = depths.entry(call).or_default();
                    *known = (*known).max(depth + 1);
                }
            }
        }
        let mut layers = met;
        layers.sort_by_key(|&layer| std::cmp::Reverse(of_layers[layer]));
        Order { layers, calls }
    }
}

/// Returns the configuration of a model. `names` has the names of the inputs and of the layers.
pub fn config(network: &Network, order: &Order, names: (&[String], &[String])) -> Value {
    match chain(network, order) {
        Some(layers) => sequential(network, &layers, names),
        None => functional(network, order, names),
    }
}

/// Returns the layers of a chain: each layer takes the result of the one before alone.
fn chain(network: &Network, order: &Order) -> Option<Vec<usize>> {
    let ([_], [output]) = (&network.inputs[..], &network.outputs[..]) else { return None };
    let (mut layers, mut is_met) = (Vec::new(), HashSet::new());
    let mut source = *output;
    while let Source::Result { call, part: 0 } = source {
        let Call { layer, arguments, named } = &network.calls[call];
        let ([Argument::Tensor(before)], []) = (&arguments[..], &named[..]) else { return None };
        if !is_met.insert(*layer) || returns_list(&network.layers[*layer], &network.calls[call]) {
            return None;
        }
        layers.push(*layer);
        source = *before;
    }
    layers.reverse();
    (source == Source::Input(0) && layers.len() == order.calls.len()).then_some(layers)
}

/// Returns the configurations of the inputs. Those that embeddings alone take are tokens.
fn inputs(network: &Network, names: &[String]) -> Vec<Value> {
    let mut dtypes = vec![None; names.len()];
    for call in &network.calls {
        let is_embedding = network.layers[call.layer].class == "Embedding";
        for source in call.sources() {
            if let Source::Input(at) = source {
                let is_first = dtypes[at].is_none();
                let is_tokens = is_embedding && (is_first || dtypes[at] == Some("int32"));
                dtypes[at] = Some(if is_tokens { "int32" } else { "float32" });
            }
        }
    }
    let input = |((port, name), dtype): ((&Port, &String), Option<&str>)| {
        json!({
            "module": objects::LAYERS,
            "class_name": "InputLayer",
            "config": {
                "batch_shape": shape(port),
                "dtype": dtype.unwrap_or("float32"),
                "name": name,
            },
            "registered_name": null,
        })
    };
    network.inputs.iter().zip(names).zip(dtypes).map(input).collect()
}

fn shape(port: &Port) -> Value {
    json!(port.shape)
}

/// Returns a layer with its name.
fn layer(network: &Network, at: usize, name: &str) -> Value {
    let mut object = objects::layer_object(&network.layers[at]);
    object["config"]["name"] = Value::from(name);
    object
}

fn sequential(network: &Network, chain: &[usize], (ports, names): (&[String], &[String])) -> Value {
    let layers = chain.iter().map(|&at| layer(network, at, &names[at]));
    let layers: Vec<Value> = inputs(network, ports).into_iter().chain(layers).collect();
    let shape = shape(&network.inputs[0]);
    json!({
        "module": "keras",
        "class_name": "Sequential",
        "config": { "name": network.name, "layers": layers, "build_input_shape": shape },
        "registered_name": null,
        "build_config": { "input_shape": shape },
    })
}

fn functional(network: &Network, order: &Order, (ports, names): (&[String], &[String])) -> Value {
    // The calls of each layer, in order, and the number of each call among them.
    let mut nodes: Vec<Vec<usize>> = vec![Vec::new(); network.layers.len()];
    let mut numbers = vec![0; network.calls.len()];
    for (at, call) in network.calls.iter().enumerate().filter(|(at, _)| order.calls.contains(at)) {
        numbers[at] = nodes[call.layer].len();
        nodes[call.layer].push(at);
    }
    let history = |source: Source| match source {
        Source::Input(at) => json!([ports[at], 0, 0]),
        Source::Result { call, part } => {
            json!([names[network.calls[call].layer], numbers[call], part])
        }
    };
    let all = |sources: &mut dyn Iterator<Item = Source>| {
        let mut histories: Vec<Value> = sources.map(history).collect();
        if histories.len() == 1 { histories.remove(0) } else { Value::Array(histories) }
    };
    let mut layers = Vec::new();
    for (mut object, name) in inputs(network, ports).into_iter().zip(ports) {
        object["name"] = Value::from(name.as_str());
        object["inbound_nodes"] = json!([]);
        layers.push(object);
    }
    for &at in &order.layers {
        let mut object = layer(network, at, &names[at]);
        object["name"] = Value::from(names[at].as_str());
        let node = |&call: &usize| {
            let Call { arguments, named, .. } = &network.calls[call];
            let arguments: Vec<Value> =
                arguments.iter().map(|argument| written(argument, &history)).collect();
            let named = named.iter().map(|(name, value)| (name.clone(), written(value, &history)));
            json!({ "args": arguments, "kwargs": named.collect::<BTreeMap<_, _>>() })
        };
        object["inbound_nodes"] = nodes[at].iter().map(node).collect();
        layers.push(object);
    }
    json!({
        "module": "keras.src.models.functional",
        "class_name": "Functional",
        "config": {
            "name": network.name,
            "layers": layers,
            "input_layers": all(&mut (0..ports.len()).map(Source::Input)),
            "output_layers": all(&mut network.outputs.iter().copied()),
        },
        "registered_name": null,
    })
}

/// Writes an argument of a call. Keras finds the shapes of tensors itself.
fn written(argument: &Argument, history: &dyn Fn(Source) -> Value) -> Value {
    match argument {
        Argument::Tensor(source) => json!({
            "class_name": "__keras_tensor__",
            "config": { "shape": [], "dtype": "float32", "keras_history": history(*source) },
        }),
        Argument::List(items) => items.iter().map(|item| written(item, history)).collect(),
        Argument::Value(value) => value.clone(),
    }
}
