//! Writes a Keras model as a Tile program: one definition for each model in it, the entry last.
//!
//! A tensor that one layer alone takes, as its only input, is not named: its layers form a chain.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use tile_compiler::names::snake_case;

use super::config::{Argument, Call, Layer, Network, Source, is_empty, returns_list};
use super::kinds::{self, CallKinds, Kind};
use super::names::{MODELS, Names, given_name, is_numbered};
use super::objects;
use super::operations::{self, is_function};
use super::options::{self, capitalised};

/// A program, and the layers whose weights it has.
pub struct Written {
    pub text: String,
    /// The groups of the layers with their names, in the order of their first application.
    pub layers: Vec<(String, String)>,
}

/// Writes a program.
///
/// # Errors
/// Returns a sentence for each layer and option that the library lacks.
pub fn write(network: &Network) -> Result<Written, Vec<String>> {
    let mut definitions = Definitions::default();
    let (_, layers) = definitions.add(network, "model");
    if definitions.faults.is_empty() {
        Ok(Written { text: definitions.texts.join("\n"), layers })
    } else {
        Err(definitions.faults)
    }
}

/// The definitions written so far.
#[derive(Default)]
struct Definitions {
    texts: Vec<String>,
    names: Names,
    faults: Vec<String>,
}

/// Layers by their groups and names.
type Layers = Vec<(String, String)>;

impl Definitions {
    /// Writes a model. Returns its name and its layers.
    fn add(&mut self, network: &Network, keyword: &str) -> (String, Layers) {
        // Nested models come first, and are written once.
        let mut nested = HashMap::new();
        for (number, layer) in network.layers.iter().enumerate() {
            if let Some(inner) = &layer.network {
                nested.insert(number, self.add(inner, "layer"));
            }
        }
        let automatic = MODELS.iter().find(|base| is_numbered(&network.name, base));
        let name = self.names.free(&capitalised(automatic.unwrap_or(&network.name.as_str())));
        let mut body = Body::new(network, &nested);
        body.names.given.clone_from(&self.names.given);
        let header = body.header();
        (0..network.calls.len()).for_each(|call| body.call(call));
        body.finish();
        let parameters = if keyword == "layer" { "()" } else { "" };
        let outputs = body.outputs.join(", ");
        let statements = body.statements.join("\n");
        self.texts.push(format!(
            "{keyword} {name}{parameters}({header}) -> ({outputs}) {{\n{statements}\n}}\n"
        ));
        self.faults.append(&mut body.faults);
        (name, body.layers)
    }
}

/// The number of parts after which a chain ends: an expression has at most 256 levels.
const LONGEST: usize = 128;

/// A chain of layers: the text of each part, and the layer that it applies.
type Chain = Vec<(String, Option<usize>)>;

/// The body of a definition.
struct Body<'n> {
    network: &'n Network,
    /// The names and layers of the nested models, by the numbers of their layers.
    nested: &'n HashMap<usize, (String, Layers)>,
    names: Names,
    inputs: Vec<String>,
    outputs: Vec<String>,
    /// The first output that each tensor is.
    output_places: HashMap<Source, usize>,
    /// The number of times that each tensor is taken, and the last call that takes it.
    uses: HashMap<Source, (usize, Option<usize>)>,
    /// The number of times that each layer is applied.
    applications: Vec<usize>,
    /// The calls whose result is a list.
    lists: HashSet<usize>,
    /// The layers that are applied several times, and the names of their variables.
    variables: HashMap<usize, String>,
    /// The calls whose chains are not complete.
    open: HashMap<usize, Chain>,
    /// The kinds of the calls' results.
    kinds: Vec<Kind>,
    /// The name of each call's result.
    results: HashMap<usize, String>,
    statements: Vec<String>,
    layers: Layers,
    applied: HashSet<usize>,
    /// True if tensors may have masks.
    has_masks: bool,
    /// The number of tensors that have no name in Keras.
    hidden: usize,
    faults: Vec<String>,
}

impl<'n> Body<'n> {
    fn new(network: &'n Network, nested: &'n HashMap<usize, (String, Layers)>) -> Body<'n> {
        let mut uses: HashMap<Source, (usize, Option<usize>)> = HashMap::new();
        let mut applications = vec![0; network.layers.len()];
        let mut lists = HashSet::new();
        let mut take = |source: Source, call: Option<usize>| {
            let uses = uses.entry(source).or_default();
            *uses = (uses.0 + 1, call);
            if let Source::Result { call, part: 1.. } = source {
                lists.insert(call);
            }
        };
        for (number, call) in network.calls.iter().enumerate() {
            applications[call.layer] += 1;
            call.sources().for_each(|source| take(source, Some(number)));
        }
        let mut output_places = HashMap::new();
        for (at, source) in network.outputs.iter().enumerate() {
            take(*source, None);
            output_places.entry(*source).or_insert(at);
        }
        let has_list = |call: &Call| {
            let layer = &network.layers[call.layer];
            layer.network.as_ref().is_some_and(|inner| inner.outputs.len() > 1)
                || returns_list(layer, call)
        };
        lists.extend((0..network.calls.len()).filter(|&call| has_list(&network.calls[call])));
        Body {
            network,
            nested,
            output_places,
            uses,
            applications,
            lists,
            names: Names::default(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            variables: HashMap::new(),
            open: HashMap::new(),
            kinds: Vec::new(),
            results: HashMap::new(),
            statements: Vec::new(),
            layers: Vec::new(),
            applied: HashSet::new(),
            has_masks: network.mask_maker().is_some(),
            hidden: 0,
            faults: Vec::new(),
        }
    }

    /// Names the inputs and outputs. Returns the inputs with their sizes.
    fn header(&mut self) -> String {
        let several = |ports: usize, base: &str, at: usize| match ports {
            1 => base.to_owned(),
            _ => format!("{base}{}", at + 1),
        };
        let ports = &self.network.inputs;
        let mut header = Vec::new();
        self.names.free("N");
        for (at, port) in ports.iter().enumerate() {
            let name = if is_numbered(&port.name, "input_layer") {
                several(ports.len(), "X", at)
            } else {
                capitalised(&port.name)
            };
            let name = self.names.free(&name);
            let axes: &[&str] = match port.shape.len() {
                2 | 3 => &["N", "T", "C"],
                4 => &["N", "H", "W", "C"],
                _ => &["N", "D", "H", "W", "C"],
            };
            let size = |(axis, size): (usize, &Option<u64>)| match size {
                Some(size) => size.to_string(),
                None if axis == 0 => "N".to_owned(),
                None => self.names.free(axes.get(axis).unwrap_or(&"S")),
            };
            let sizes: Vec<String> = port.shape.iter().enumerate().map(size).collect();
            header.push(format!("{name}[{}]", sizes.join(", ")));
            self.inputs.push(name);
        }
        let outputs = &self.network.outputs;
        for (at, source) in outputs.iter().enumerate() {
            let given = self.layer_of(*source).and_then(given_name).map(|name| capitalised(&name));
            let name = given.unwrap_or_else(|| several(outputs.len(), "Y", at));
            let name = self.names.free(&name);
            self.outputs.push(name);
        }
        header.join(", ")
    }

    /// Returns the layer that makes a tensor.
    fn layer_of(&self, source: Source) -> Option<&'n Layer> {
        match source {
            Source::Result { call, .. } => {
                Some(&self.network.layers[self.network.calls[call].layer])
            }
            Source::Input(_) => None,
        }
    }

    fn fault(&mut self, layer: usize, what: &str) {
        let Layer { name, class, .. } = &self.network.layers[layer];
        self.faults.push(format!("the layer `{name}` ({class}): {what}"));
    }

    /// Returns the text of a tensor.
    fn tensor(&self, source: Source) -> String {
        match source {
            Source::Input(input) => self.inputs[input].clone(),
            Source::Result { call, part } => {
                let name = self.results.get(&call).cloned().unwrap_or_default();
                if self.lists.contains(&call) { format!("element({name}, {part})") } else { name }
            }
        }
    }

    /// Returns the text of an argument.
    fn argument(&self, argument: &Argument) -> String {
        self.operand(argument, Kind::Bool)
    }

    /// Returns the text of an argument whose tensors are cast to a kind.
    fn operand(&self, argument: &Argument, to: Kind) -> String {
        match argument {
            // Casts are for calls whose operands are written: their kinds are known.
            Argument::Tensor(source) if to > Kind::Bool => {
                self.kinds(argument)[0].cast(self.tensor(*source), to)
            }
            Argument::Tensor(source) => self.tensor(*source),
            Argument::List(items) => {
                let items: Vec<String> = items.iter().map(|item| self.operand(item, to)).collect();
                format!("[{}]", items.join(", "))
            }
            Argument::Value(value) => value.to_string(),
        }
    }

    /// Returns the kinds of the tensors and numbers in an argument.
    fn kinds(&self, argument: &Argument) -> Vec<Kind> {
        match argument {
            Argument::Tensor(Source::Input(input)) => vec![self.network.inputs[*input].kind],
            Argument::Tensor(Source::Result { call, .. }) => vec![self.kinds[*call]],
            Argument::List(items) => items.iter().flat_map(|item| self.kinds(item)).collect(),
            Argument::Value(Value::Number(number)) => {
                vec![if number.is_f64() { Kind::Float } else { Kind::Int }]
            }
            Argument::Value(_) => Vec::new(),
        }
    }

    /// Returns the kinds in a call. The operands of a layer are its first argument alone: masks
    /// may follow.
    fn kinds_of_call(&self, call: &Call) -> Result<CallKinds, String> {
        let layer = &self.network.layers[call.layer];
        let given = if is_function(layer) { call.arguments.len() } else { 1 };
        let operands = call.arguments.iter().take(given).flat_map(|one| self.kinds(one));
        kinds::of_call(layer, &operands.collect::<Vec<_>>())
    }

    /// Writes a call: a part of a chain, or a statement.
    fn call(&mut self, number: usize) {
        let call = &self.network.calls[number];
        let kinds = self.kinds_of_call(call);
        self.kinds.push(kinds.as_ref().map_or(Kind::Float, |kinds| kinds.result));
        let chain = kinds.and_then(|kinds| {
            if is_function(&self.network.layers[call.layer]) {
                Ok(vec![(self.operation(call, kinds.operands)?, None)])
            } else {
                self.application(call, kinds.operands)
            }
        });
        let chain = match chain {
            Ok(chain) => chain,
            Err(what) => return self.fault(call.layer, &what),
        };
        match self.only_taker(number) && chain.len() < LONGEST {
            true => _ = self.open.insert(number, chain),
            false => self.state(number, chain),
        }
    }

    /// Returns the chain that the call of a layer ends.
    fn application(&mut self, call: &Call, to: Kind) -> Result<Chain, String> {
        let named = call.named.iter().map(|(_, argument)| argument);
        if call.arguments.iter().chain(named).any(Argument::has_constant) {
            return Err("one of its arguments is neither a tensor nor a number".into());
        }
        let named = self.named_arguments(call)?;
        let callee = self.callee(call.layer)?;
        Ok(self.chain(call, callee, named, to))
    }

    /// Returns the chain that a call ends, whose first argument is cast to a kind.
    fn chain(&mut self, call: &Call, callee: String, named: Vec<String>, to: Kind) -> Chain {
        let layer = Some(call.layer);
        match &call.arguments[..] {
            [argument @ Argument::Tensor(source)] if named.is_empty() => {
                let before = match source {
                    Source::Result { call, part: 0 } => self.open.remove(call),
                    _ => None,
                };
                let mut chain = before.unwrap_or_else(|| vec![(self.operand(argument, to), None)]);
                chain.push((callee, layer));
                chain
            }
            [list @ Argument::List(_)] if named.is_empty() => {
                vec![(self.operand(list, to), None), (callee, layer)]
            }
            arguments => {
                let is_list = objects::takes_list(&self.network.layers[call.layer].class);
                let inputs = match arguments {
                    [Argument::List(items)] if is_list => items,
                    arguments => arguments,
                };
                let given = inputs.iter().enumerate().map(|(at, argument)| {
                    let to =
                        if at == 0 || inputs.len() > arguments.len() { to } else { Kind::Bool };
                    self.operand(argument, to)
                });
                let given: Vec<String> = given.chain(named).collect();
                vec![(format!("{callee}({})", given.join(", ")), layer)]
            }
        }
    }

    /// Returns whether the result of a call continues as a chain: one call takes it, alone.
    fn only_taker(&self, number: usize) -> bool {
        let source = Source::Result { call: number, part: 0 };
        let Some((1, Some(taker))) = self.uses.get(&source).copied() else { return false };
        let call = &self.network.calls[taker];
        // A boolean result is named, because its taker may cast it.
        !self.lists.contains(&number)
            && self.kinds[number] != Kind::Bool
            && matches!(call.arguments[..], [Argument::Tensor(_)])
            && self.named_arguments(call).is_ok_and(|named| named.is_empty())
            && !is_function(&self.network.layers[call.layer])
    }

    /// Writes the statement that names a chain's result.
    fn state(&mut self, number: usize, chain: Chain) {
        let source = Source::Result { call: number, part: 0 };
        let is_list = self.lists.contains(&number);
        let output = self.output_places.get(&source).copied().filter(|_| !is_list);
        let name = match (output, self.layer_of(source).and_then(given_name)) {
            (Some(output), _) => self.outputs[output].clone(),
            (None, Some(name)) => self.names.free(&capitalised(&name)),
            (None, None) => {
                self.hidden += 1;
                self.names.free(&format!("H{}", self.hidden))
            }
        };
        for layer in chain.iter().filter_map(|(_, layer)| *layer) {
            if self.applied.insert(layer) {
                self.apply(layer);
            }
        }
        let parts: Vec<String> = chain.into_iter().map(|(part, _)| part).collect();
        self.statements.push(format!("{name} = {};", parts.join(" |> ")));
        self.results.insert(number, name);
    }

    /// Adds the layers with weights of a layer that is applied for the first time.
    fn apply(&mut self, number: usize) {
        let layer = &self.network.layers[number];
        match self.nested.get(&number) {
            Some((_, inner)) => {
                let below = |(group, name): &(String, String)| {
                    (format!("{}/{group}", layer.group), format!("{}/{name}", layer.name))
                };
                self.layers.extend(inner.iter().map(below));
            }
            None => self.layers.push((layer.group.clone(), layer.name.clone())),
        }
    }

    /// Names the outputs that no statement has named.
    fn finish(&mut self) {
        for (at, source) in self.network.outputs.iter().enumerate() {
            let (name, text) = (self.outputs[at].clone(), self.tensor(*source));
            if name != text {
                self.statements.push(format!("{name} = {text};"));
            }
        }
    }

    /// Returns the text of the layer in a call. A layer that is applied several times has a
    /// variable.
    fn callee(&mut self, number: usize) -> Result<String, String> {
        if let Some(variable) = self.variables.get(&number) {
            return Ok(variable.clone());
        }
        let layer = &self.network.layers[number];
        let is_shared = self.applications[number] > 1;
        let name = given_name(layer).filter(|_| !is_shared);
        let name = name.map(|name| format!("name = {}", options::name_or_text(&name)));
        let name: Vec<String> = name.into_iter().collect();
        let text = match self.nested.get(&number) {
            Some((class, _)) => format!("{class}({})", name.join(", ")),
            None => options::layer(&layer.class, &layer.config, &layer.built, &name, "")?,
        };
        if !is_shared {
            return Ok(text);
        }
        let base =
            given_name(layer).unwrap_or_else(|| snake_case(&layer.name)).to_ascii_lowercase();
        let base = if options::is_taken(&base) { base + "_layer" } else { base };
        let variable = self.names.free(&base);
        self.statements.push(format!("{variable} = {text};"));
        self.variables.insert(number, variable.clone());
        Ok(variable)
    }

    /// Returns the text of a call of a function of `keras.ops`, such as `A + B`.
    fn operation(&self, call: &Call, to: Kind) -> Result<String, String> {
        let named = call.named.iter().map(|(_, argument)| argument);
        let (mut operands, mut place) = (Vec::new(), None);
        for argument in call.arguments.iter().chain(named) {
            match argument {
                Argument::Value(value) if !operands.is_empty() && !value.is_number() => {
                    place = Some(value);
                }
                Argument::Value(value) if !value.is_number() => {
                    return Err("one of its arguments is neither a tensor nor a number".into());
                }
                _ => operands.push(self.operand(argument, to)),
            }
        }
        let layer = &self.network.layers[call.layer];
        if layer.class == "GetItem" && operands.len() == 2 {
            place = call.arguments.get(1).and_then(Argument::value);
            operands.truncate(1);
        }
        operations::call(layer, &operands, place, self.has_masks)
    }

    /// Returns the arguments of a call that have names.
    fn named_arguments(&self, call: &Call) -> Result<Vec<String>, String> {
        let layer = &self.network.layers[call.layer];
        let inputs = options::definition(&layer.class).map_or(&[][..], |known| &known.inputs);
        let has = |name: &str| inputs.iter().any(|input| input.name.name == name);
        let mut named = Vec::new();
        for (name, argument) in &call.named {
            let tensor = objects::input_of(name);
            match argument {
                // `model.predict` sets it, whatever it is here.
                _ if name == "training" => {}
                Argument::Value(Value::Null | Value::Bool(false)) => {}
                // A list with nothing for each input of an inner model.
                Argument::Value(value) if is_empty(value) => {}
                Argument::Value(value @ (Value::Bool(_) | Value::Number(_))) if has(name) => {
                    named.push(format!("{name} = {value}"));
                }
                Argument::List(masks) if objects::split_masks(&layer.class, name).is_some() => {
                    let inputs = objects::split_masks(&layer.class, name).unwrap_or_default();
                    let given = inputs.into_iter().zip(masks);
                    let given = given.filter(|(_, mask)| !mask.sources().is_empty());
                    named.extend(given.map(|(input, mask)| {
                        format!("{} = {}", objects::input_of(input), self.argument(mask))
                    }));
                }
                Argument::Tensor(_) | Argument::List(_) if has(&tensor) => {
                    named.push(format!("{tensor} = {}", self.argument(argument)));
                }
                _ => return Err(format!("it takes no argument `{name}` here")),
            }
        }
        // Keras passes the mask of the inputs to a recurrent layer only without a first state.
        let has_state = named.iter().any(|argument| argument.starts_with("InitialState"));
        if self.has_masks && has_state && !call.named.iter().any(|(name, _)| name == "mask") {
            named.push("Mask = none".to_owned());
        }
        let is_value = |argument: &Argument| matches!(argument, Argument::Value(_));
        match call.arguments.iter().any(is_value) {
            true => Err("one of its arguments is no tensor".into()),
            false => Ok(named),
        }
    }
}
