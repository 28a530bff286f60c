//! Reads a Tile model of the library's layers as a Keras model: the opposite of `program`.
//!
//! The body of the model is read as it is written. Its statements name layers, lists and results of
//! layers, and options are constants. All else is refused, at its place.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};
use tile_compiler::lower::{Bindings, Setting};
use tile_lang::ast::{
    self, BinaryOp, Expr, ExprKind, Function, FunctionKind, Ident, Statement, StatementKind,
    UnaryOp,
};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;
use tile_lang::{Callee, Program};

use super::config::{Argument, Call, Layer, Network, Port, Source, returns_list};
use super::items::{Item, computed, item_size, value_size};
use super::objects;
use super::options::definition;

/// The code of what Keras cannot have.
const CODE: &str = "E0304";

/// Reads the model `entry`, whose inputs are `inputs`, with hyper-parameters from `bindings`. Its
/// layers have no names yet.
///
/// # Errors
/// Returns the place of the first part that is not made of the library's layers.
pub fn read(
    program: &Program,
    entry: &Function,
    inputs: Vec<Port>,
    bindings: &Bindings,
) -> Read<Network> {
    let ports = entry.inputs.iter().enumerate();
    let tensor = |(at, input): (usize, &ast::Input)| {
        (input.name.name.clone(), Item::Tensor(Source::Input(at)))
    };
    let scope = ports.map(tensor).collect();
    let mut reader = Reader {
        program,
        entry,
        scope,
        layers: Vec::new(),
        calls: Vec::new(),
        makes_mask: false,
        applied: HashSet::new(),
        contained: HashSet::new(),
        copied: 0,
    };
    for parameter in entry.parameters.iter().flatten() {
        let value = match (bindings.parameters.get(&parameter.name.name), &parameter.default) {
            (Some(given), _) => Item::Value(match given {
                Setting::Bool(value) => Value::from(*value),
                Setting::Int(value) => Value::from(*value),
                Setting::Float(value) => Value::from(*value),
                Setting::Name(name) => Value::from(name.as_str()),
            }),
            (None, Some(default)) => reader.item(default)?,
            (None, None) => {
                return Err(refusal(parameter.span, "a hyper-parameter without a value"));
            }
        };
        reader.bind(&parameter.name, value);
    }
    entry.body.iter().try_for_each(|statement| reader.statement(statement))?;
    let outputs = entry.outputs.iter().map(|output| match reader.scope.get(&output.name) {
        Some(Item::Tensor(source)) => Ok(*source),
        _ => Err(refusal(output.span, "an output that is no tensor of a layer")),
    });
    let outputs = outputs.collect::<Read<Vec<_>>>()?;
    let Reader { layers, calls, .. } = reader;
    let name = entry.name.as_ref().map_or("model", |name| &name.name).to_owned();
    Ok(Network { name, inputs, layers, calls, outputs })
}

/// The number of items that a program may copy. A name in a list copies its items, so that lists of
/// lists grow exponentially.
const MOST_COPIED: usize = 1_000_000;

/// A layer with several uses, one of which is in another layer.
const SHARED: &str =
    "a layer in another one that is used elsewhere, too: make a layer for each use";

type Read<T> = Result<T, Diagnostic>;

fn refusal(span: Span, what: &str) -> Diagnostic {
    let message =
        format!("only layers of the library can be written to a Keras model, and this is {what}");
    Diagnostic::error(CODE, span, message)
        .help("apply layers alone, such as `Rescaling`, `Add` and `Activation`")
}

struct Reader<'p> {
    program: &'p Program,
    entry: &'p Function,
    scope: HashMap<String, Item>,
    layers: Vec<Layer>,
    calls: Vec<Call>,
    /// True if a layer makes a mask.
    makes_mask: bool,
    /// The layers that calls apply, and those that are parts of other layers.
    applied: HashSet<usize>,
    contained: HashSet<usize>,
    /// The number of items of lists, and of options of layers, that were copied.
    copied: usize,
}

impl<'p> Reader<'p> {
    fn statement(&mut self, statement: &Statement) -> Read<()> {
        let StatementKind::Assign { targets, value } = &statement.kind else {
            return Err(refusal(statement.span, "another statement"));
        };
        let item = self.item(value)?;
        if let [target] = &targets[..] {
            self.bind(target, item);
            return Ok(());
        }
        for (at, target) in targets.iter().enumerate() {
            let part = self.part(&item, at, value.span)?;
            self.bind(target, part);
        }
        Ok(())
    }

    fn bind(&mut self, name: &Ident, item: Item) {
        self.scope.insert(name.name.clone(), item);
    }

    fn item(&mut self, expr: &Expr) -> Read<Item> {
        let span = expr.span;
        Ok(match &expr.kind {
            ExprKind::Int(value) => Item::Value(Value::from(*value)),
            ExprKind::Float(value) => Item::Value(Value::from(*value)),
            ExprKind::Text(text) => Item::Value(Value::from(text.clone())),
            ExprKind::Name(name) => self.named(name)?,
            ExprKind::List(items) => {
                let items = items.iter().map(|item| self.item(item)).collect::<Read<Vec<_>>>()?;
                if items.iter().all(|item| matches!(item, Item::Value(_))) {
                    let values = items.into_iter().filter_map(|item| match item {
                        Item::Value(value) => Some(value),
                        _ => None,
                    });
                    Item::Value(values.collect())
                } else {
                    Item::List(items)
                }
            }
            ExprKind::Unary { op: UnaryOp::Neg, operand } => {
                let zero = Item::Value(Value::from(0));
                let operand = self.item(operand)?;
                computed(BinaryOp::Sub, &zero, &operand)
                    .ok_or_else(|| refusal(span, "an operator"))?
            }
            ExprKind::Binary { op, left, right } => {
                let (left, right) = (self.item(left)?, self.item(right)?);
                computed(*op, &left, &right).ok_or_else(|| refusal(span, "an operator"))?
            }
            ExprKind::Access { tensor, indices } => {
                let list = self.named(tensor)?;
                match &indices[..] {
                    [Expr { kind: ExprKind::Int(at), .. }] => {
                        self.part(&list, usize::try_from(*at).unwrap_or(usize::MAX), span)?
                    }
                    _ => return Err(refusal(span, "a part of a tensor")),
                }
            }
            ExprKind::Pipe { input, callee } => {
                let given = self.item(input)?;
                let Item::Layer(layer) = self.item(callee)? else {
                    return Err(refusal(callee.span, "no layer"));
                };
                let given = match given {
                    Item::List(items) if !takes_one(&self.layers[layer].class) => items,
                    item => vec![item],
                };
                self.apply(layer, given.into_iter().map(|item| (None, item)).collect(), span)?
            }
            ExprKind::Call { callee, arguments } => self.call(callee, arguments, span)?,
            _ => return Err(refusal(span, "another expression")),
        })
    }

    /// Returns the value of a name.
    fn named(&mut self, name: &Ident) -> Read<Item> {
        if let Some(item) = self.scope.get(&name.name) {
            let item = item.clone();
            self.charge(item_size(&item), name.span)?;
            return Ok(item);
        }
        let value = match name.name.as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "none" => Value::Null,
            text => match self.program.callee(text, self.entry) {
                Some(Callee::Function(function)) if !function.span.in_library() => {
                    return Err(refusal(name.span, "a definition of your own"));
                }
                // A layer with its default options.
                Some(Callee::Function(function)) if function.kind == FunctionKind::Layer => {
                    return self.instance(function, text, &[], name.span);
                }
                _ if name.capital => return Err(refusal(name.span, "a size")),
                _ => Value::from(text),
            },
        };
        Ok(Item::Value(value))
    }

    /// Returns an element of a list.
    fn part(&self, list: &Item, at: usize, span: Span) -> Read<Item> {
        let found = match list {
            Item::Results(call) => Some(Item::Tensor(Source::Result { call: *call, part: at })),
            Item::List(items) => items.get(at).cloned(),
            Item::Value(Value::Array(items)) => items.get(at).cloned().map(Item::Value),
            _ => None,
        };
        found.ok_or_else(|| refusal(span, "no list of results"))
    }

    fn call(&mut self, callee: &Expr, arguments: &[ast::Argument], span: Span) -> Read<Item> {
        let name = match &callee.kind {
            ExprKind::Name(name) if !self.scope.contains_key(&name.name) => name,
            _ => {
                let Item::Layer(layer) = self.item(callee)? else {
                    return Err(refusal(callee.span, "no layer"));
                };
                return self.applied(layer, arguments, span);
            }
        };
        if let ("element", [list, at]) = (name.name.as_str(), arguments) {
            let list = self.item(&list.value)?;
            return match self.item(&at.value)? {
                Item::Value(value) => {
                    let at = value.as_u64().and_then(|at| usize::try_from(at).ok());
                    self.part(&list, at.unwrap_or(usize::MAX), span)
                }
                _ => Err(refusal(at.value.span, "no number")),
            };
        }
        match self.program.callee(&name.name, self.entry) {
            Some(Callee::Function(function)) if !function.span.in_library() => {
                Err(refusal(span, "a definition of your own"))
            }
            Some(Callee::Function(function)) if function.kind == FunctionKind::Layer => {
                self.instance(function, &name.name, arguments, span)
            }
            Some(Callee::Function(function)) => {
                let config = self.options(function, arguments)?;
                Ok(Item::Value(objects::unplaced(&name.name, config)))
            }
            _ => Err(refusal(span, "a function")),
        }
    }

    /// Makes a layer of the library.
    fn instance(
        &mut self,
        function: &Function,
        class: &str,
        arguments: &[ast::Argument],
        span: Span,
    ) -> Read<Item> {
        let class = function.name.as_ref().map_or(class, |name| &name.name);
        let mut config = self.options(function, arguments)?;
        objects::complete(class, &mut config).map_err(|what| refusal(span, &what))?;
        let layer = Layer {
            class: class.to_owned(),
            name: String::new(),
            module: objects::LAYERS.to_owned(),
            config: Value::Object(config),
            built: Value::Null,
            network: None,
            group: String::new(),
        };
        self.makes_mask |= layer.makes_mask();
        self.layers.push(layer);
        Ok(Item::Layer(self.layers.len() - 1))
    }

    /// Returns the options that a call gives to a definition.
    fn options(
        &mut self,
        function: &Function,
        arguments: &[ast::Argument],
    ) -> Read<Map<String, Value>> {
        let parameters = function.parameters.as_deref().unwrap_or_default();
        let mut config = Map::new();
        for (at, argument) in arguments.iter().enumerate() {
            let name = argument.name.as_ref().or(parameters.get(at).map(|one| &one.name));
            let Some(name) = name.map(|name| &name.name) else { continue };
            // The path of the layer has its name.
            if name == "name" {
                continue;
            }
            let item = self.item(&argument.value)?;
            if objects::PARTS.contains(&name.as_str()) {
                self.contain(&item, argument.value.span)?;
            }
            let value = self.value(item, argument.value.span)?;
            let value =
                objects::placed(name, value).map_err(|what| refusal(argument.value.span, &what))?;
            config.insert(name.clone(), value);
        }
        Ok(config)
    }

    /// Notes the layers in an option of another layer. Keras would save the weights of a layer
    /// once, under one of its uses.
    fn contain(&mut self, item: &Item, span: Span) -> Read<()> {
        match item {
            Item::Layer(layer)
                if self.applied.contains(layer) || !self.contained.insert(*layer) =>
            {
                Err(refusal(span, SHARED))
            }
            Item::List(items) => items.iter().try_for_each(|item| self.contain(item, span)),
            _ => Ok(()),
        }
    }

    /// Counts items that are copied.
    fn charge(&mut self, items: usize, span: Span) -> Read<()> {
        self.copied += items;
        if self.copied > MOST_COPIED {
            let what =
                format!("a list or layer that brings the copies of items above {MOST_COPIED}");
            return Err(refusal(span, &what));
        }
        Ok(())
    }

    /// Returns the value of an option.
    fn value(&mut self, item: Item, span: Span) -> Read<Value> {
        match item {
            Item::Value(value) => Ok(value),
            Item::Layer(layer) => {
                self.charge(value_size(&self.layers[layer].config), span)?;
                Ok(objects::layer_object(&self.layers[layer]))
            }
            Item::List(items) => {
                let items = items.into_iter().map(|item| self.value(item, span));
                Ok(Value::Array(items.collect::<Read<_>>()?))
            }
            Item::Tensor(_) | Item::Results(_) => Err(refusal(span, "a function of a tensor")),
        }
    }

    /// Applies a layer to the arguments of a call.
    fn applied(&mut self, layer: usize, arguments: &[ast::Argument], span: Span) -> Read<Item> {
        let mut given = Vec::new();
        for argument in arguments {
            let item = self.item(&argument.value)?;
            given.push((argument.name.as_ref().map(|name| name.name.clone()), item));
        }
        self.apply(layer, given, span)
    }

    /// Applies a layer to inputs, some of them by their names.
    fn apply(
        &mut self,
        layer: usize,
        given: Vec<(Option<String>, Item)>,
        span: Span,
    ) -> Read<Item> {
        self.applied.insert(layer);
        if self.contained.contains(&layer) {
            return Err(refusal(span, SHARED));
        }
        let class = self.layers[layer].class.clone();
        let inputs = definition(&class).map_or(&[][..], |known| &known.inputs);
        let takes_list = objects::takes_list(&class);
        let (mut tensors, mut named, mut is_unmasked) = (Vec::new(), Vec::new(), false);
        for (at, (name, item)) in given.into_iter().enumerate() {
            let is_it = |input: &ast::Input| Some(&input.name.name) == name.as_ref();
            let place = if name.is_some() { inputs.iter().position(is_it) } else { Some(at) };
            let Some((place, input)) = place.and_then(|at| Some((at, inputs.get(at)?))) else {
                return Err(refusal(span, "a call with other inputs"));
            };
            let input = input.name.name.as_str();
            if matches!(item, Item::Value(Value::Null)) {
                is_unmasked |= input.ends_with("Mask");
                continue;
            }
            let argument = self.argument(item, span)?;
            if place == 0 || (takes_list && objects::is_listed(input)) {
                tensors.push((place, argument));
                continue;
            }
            let Some(name) = objects::argument_of(&class, input) else {
                return Err(refusal(span, "an argument that Keras lacks"));
            };
            named.push((name, argument));
        }
        tensors.sort_by_key(|(place, _)| *place);
        let mut tensors: Vec<Argument> = tensors.into_iter().map(|(_, tensor)| tensor).collect();
        self.check_masks(&named, is_unmasked).map_err(|what| refusal(span, what))?;
        if let Some(masks) = objects::split_masks(&class, "mask") {
            join(&mut named, &masks);
        }
        // Keras flattens arguments in the order of their names.
        named.sort_by(|(a, _), (b, _)| a.cmp(b));
        if takes_list && !matches!(tensors[..], [Argument::List(_)]) {
            tensors = vec![Argument::List(tensors)];
        }
        let call = Call { layer, arguments: tensors, named };
        let is_list = returns_list(&self.layers[layer], &call);
        self.calls.push(call);
        let call = self.calls.len() - 1;
        Ok(if is_list {
            Item::Results(call)
        } else {
            Item::Tensor(Source::Result { call, part: 0 })
        })
    }

    /// Checks that Keras passes the masks of its inputs to a layer as here: always, but to a
    /// recurrent layer only without a first state.
    fn check_masks(
        &self,
        named: &[(String, Argument)],
        is_unmasked: bool,
    ) -> Result<(), &'static str> {
        let has = |name: &str| named.iter().any(|(argument, _)| argument == name);
        if !self.makes_mask {
            return Ok(());
        }
        match (has("initial_state"), has("mask"), is_unmasked) {
            (true, false, false) => Err(
                "a layer with a first state that takes the mask of its inputs, which Keras passes only by name: add `Mask = none`",
            ),
            (false, _, true) => Err("a layer without the mask of its inputs, which Keras passes"),
            _ => Ok(()),
        }
    }

    fn argument(&self, item: Item, span: Span) -> Read<Argument> {
        match item {
            Item::Tensor(source) => Ok(Argument::Tensor(source)),
            Item::List(items) => {
                let items = items.into_iter().map(|item| match item {
                    Item::Value(_) => Err(refusal(span, "a list of tensors and other values")),
                    item => self.argument(item, span),
                });
                Ok(Argument::List(items.collect::<Read<_>>()?))
            }
            Item::Value(value @ (Value::Bool(_) | Value::Number(_))) => Ok(Argument::Value(value)),
            Item::Value(_) | Item::Layer(_) => Err(refusal(span, "no tensor of a layer")),
            Item::Results(_) => Err(refusal(span, "a list of results as one argument")),
        }
    }
}

/// Returns whether the one input of a layer is a list.
fn takes_one(class: &str) -> bool {
    let first = definition(class).and_then(|known| known.inputs.first());
    first.is_some_and(|input| input.name.name == "Inputs")
}

/// Replaces the arguments `masks` by their list, in which null stands for one that is not there.
fn join(named: &mut Vec<(String, Argument)>, masks: &[&str]) {
    let mut found = Vec::new();
    for mask in masks {
        let at = named.iter().position(|(name, _)| name == mask);
        found.push(at.map_or(Argument::Value(Value::Null), |at| named.remove(at).1));
    }
    if found.iter().any(|argument| !argument.sources().is_empty()) {
        named.push(("mask".to_owned(), Argument::List(found)));
    }
}
