//! Conversion of a model to a Tile program: the calls that built its graph, one a line, with layers
//! of the library where they match.
//!
//! Names are those of the file if they are valid in Tile. Otherwise a comment above the model gives
//! the original name of an input or output. Numbers, lists and small tensors of the file become
//! literals in the program.

use std::collections::HashSet;
use std::fmt::Write;

use tile_lang::lexer::KEYWORDS;
use tile_lang::{CONSTANTS, library_names};

use super::attributes::literal;
use super::imported::Imported;
use super::layers::{Layer, ProgramLine, WORDS, with_layers};
use super::recorder::Recorded;
use super::tensor::number;
use crate::dtype::DType;
use crate::graph::{NodeId, NodeMap, NodeSet};
use crate::lower::Passed;
use crate::tensor::{Tensor, TensorType};

/// Operators with infix notation in the language.
const INFIX: [(&str, &str); 9] = [
    ("OnnxAdd_7", "+"),
    ("OnnxSub_7", "-"),
    ("OnnxMul_7", "*"),
    ("OnnxDiv_7", "/"),
    ("OnnxEqual_7", "=="),
    ("OnnxGreater_7", ">"),
    ("OnnxGreaterOrEqual", ">="),
    ("OnnxLess_7", "<"),
    ("OnnxLessOrEqual", "<="),
];

/// Operators with other names in the library, with the same meaning and hyper-parameters.
const NAMED: [(&str, &str); 13] = [
    ("OnnxHardSwish", "hard_silu"),
    ("OnnxMish", "mish"),
    ("OnnxSoftsign", "softsign"),
    ("OnnxSoftmax_13", "softmax"),
    ("OnnxLogSoftmax_13", "log_softmax"),
    ("OnnxRelu", "relu"),
    ("OnnxSigmoid", "sigmoid"),
    ("OnnxTanh", "tanh"),
    ("OnnxErf", "erf"),
    ("OnnxExp", "exp"),
    ("OnnxLog", "log"),
    ("OnnxSqrt", "sqrt"),
    ("OnnxAbs", "abs"),
];

/// The location of the value of a weight of the program.
#[derive(Clone, Debug)]
pub enum Stored {
    /// In the file, under this path.
    Path(String),
    /// A tensor of the file.
    Tensor(Tensor),
    /// The elements of another one, with its axes in this order, reshaped to these sizes.
    Arranged {
        /// The other one.
        of: Box<Stored>,
        /// Its axes, in the order of the result.
        order: Vec<usize>,
        /// The shape of the result.
        shape: Vec<usize>,
    },
}

/// Returns the program of a model, and its weights by name.
pub(super) fn program(imported: &Imported) -> (String, Vec<(String, Stored)>) {
    let Imported { network, name, steps, values, outputs, .. } = imported;
    let taken = CONSTANTS
        .into_iter()
        .chain(KEYWORDS)
        .chain(WORDS)
        .chain(library_names())
        .map(str::to_owned)
        .collect();
    let stored = steps.iter().filter_map(stored).collect();
    let mut writer = Writer { values, names: NodeMap::new(), stored, taken, body: String::new() };
    let mut inputs = Vec::new();
    let mut weights = Vec::new();
    for line in with_layers(&needed(steps, outputs), &network.graph, outputs) {
        match line {
            ProgramLine::Recorded(step) => writer.step(step, &mut inputs, &mut weights),
            ProgramLine::Layer(layer) => writer.layer(&layer, &mut weights),
        }
    }
    let results: Vec<String> = outputs
        .iter()
        .map(|(output, node)| {
            let own = writer.name(*node);
            let is_named_so = own == identifier(output) || values.get(*node) == Some(output);
            if is_named_so && !inputs.iter().any(|(_, input, _)| *input == own) {
                return own;
            }
            let output = writer.fresh(output);
            let _ = writeln!(writer.body, "    {output} = {own};");
            output
        })
        .collect();
    let header = inputs.iter().map(|(_, input, ty)| {
        let sizes: Vec<String> = ty.shape.iter().map(usize::to_string).collect();
        format!("{input}[{}]", sizes.join(", "))
    });
    let mut text = String::new();
    for (original, input, ty) in &inputs {
        let renamed =
            if original == input { String::new() } else { format!(", {original:?} in the file") };
        let _ = writeln!(text, "// {input}: {ty}{renamed}");
    }
    for ((original, _), output) in
        outputs.iter().zip(&results).filter(|((original, _), output)| original != *output)
    {
        let _ = writeln!(text, "// {output}: {original:?} in the file");
    }
    let header: Vec<String> = header.collect();
    let _ = writeln!(
        text,
        "model {}({}) -> ({}) {{",
        identifier(name),
        header.join(", "),
        results.join(", ")
    );
    text += &writer.body;
    text += "}\n";
    (tile_lang::format(&text).unwrap_or(text), weights)
}

/// Returns the steps that the outputs need. This drops, for example, arithmetic on shapes, whose
/// results are literals.
fn needed<'a>(steps: &'a [Recorded], outputs: &[(String, NodeId)]) -> Vec<&'a Recorded> {
    fn add(value: &Passed, wanted: &mut NodeSet) {
        match value {
            Passed::Tensor(node) => {
                wanted.insert(*node);
            }
            Passed::List(items) => items.iter().for_each(|item| add(item, wanted)),
            _ => {}
        }
    }
    let mut wanted: NodeSet = outputs.iter().map(|(_, node)| *node).collect();
    let mut kept: Vec<&Recorded> = Vec::new();
    for step in steps.iter().rev() {
        let is_needed = match step {
            Recorded::Input { .. } => true,
            Recorded::Weight { node, .. } | Recorded::Constant { node, .. } => {
                wanted.contains(*node)
            }
            Recorded::Call { inputs, outputs, .. } => {
                // A call that returns its input is not needed for it.
                let is_wanted = |output: &Passed| {
                    matches!(output, Passed::Tensor(node) if wanted.contains(*node))
                        && !inputs.contains(output)
                };
                let any = outputs.iter().any(is_wanted);
                inputs.iter().filter(|_| any).for_each(|input| add(input, &mut wanted));
                any
            }
        };
        kept.extend(is_needed.then_some(step));
    }
    kept.reverse();
    kept
}

/// Returns the node and location of a tensor of the file.
fn stored(step: &Recorded) -> Option<(NodeId, Stored)> {
    match step {
        Recorded::Weight { path, node, .. } => Some((*node, Stored::Path(path.clone()))),
        Recorded::Constant { tensor, node } => Some((*node, Stored::Tensor(tensor.clone()))),
        _ => None,
    }
}

struct Writer<'a> {
    /// The names of values in the file.
    values: &'a NodeMap<String>,
    /// The tensors of the file.
    stored: NodeMap<Stored>,
    names: NodeMap<String>,
    /// The names in use, including those of the language and its library.
    taken: HashSet<String>,
    body: String,
}

impl Writer<'_> {
    /// Returns the name of a value in the file, if it has one, without PyTorch's repetitions:
    /// `/layer1/layer1.0/Conv_output_0` becomes `layer1.0/Conv`.
    fn wanted(&self, node: NodeId) -> String {
        let name = self.values.get(node).map_or("Value", String::as_str);
        let parts: Vec<&str> = name.strip_suffix("_output_0").unwrap_or(name).split('/').collect();
        let is_repeated = |part: &str, next: &str| {
            next.strip_prefix(part).is_some_and(|rest| rest.starts_with('.'))
        };
        let next = parts[1..].iter().map(Some).chain([None]);
        let told = parts
            .iter()
            .zip(next)
            .filter(|(part, next)| !next.is_some_and(|next| is_repeated(part, next)));
        told.map(|(part, _)| *part).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
    }

    fn step(
        &mut self,
        step: &Recorded,
        inputs: &mut Vec<(String, String, TensorType)>,
        weights: &mut Vec<(String, Stored)>,
    ) {
        match step {
            Recorded::Input { name, ty, node } => {
                let own = self.fresh(name);
                self.names.insert(*node, own.clone());
                inputs.push((name.clone(), own, ty.clone()));
            }
            Recorded::Weight { ty, node, .. } => {
                let own = self.weight(&self.wanted(*node), ty, *node);
                weights.push((own, self.stored[*node].clone()));
            }
            Recorded::Constant { tensor, node } if !has_literal(tensor) => {
                let own = self.weight(&self.wanted(*node), tensor.ty(), *node);
                weights.push((own, self.stored[*node].clone()));
            }
            Recorded::Constant { tensor, node } => {
                let own = self.name(*node);
                let (dtype, value) = (number(tensor.dtype()), text(&literal(tensor), self));
                let _ = match tensor.dtype() {
                    DType::F32 if tensor.shape().is_empty() => {
                        writeln!(self.body, "    {own} = {value};")
                    }
                    _ => writeln!(
                        self.body,
                        "    {own} = OnnxConstant(value = {value}, value_dtype = {dtype})();"
                    ),
                };
            }
            Recorded::Call { function, has_parameters, parameters, inputs, outputs } => {
                let operands: Vec<String> = inputs.iter().map(|input| text(input, self)).collect();
                let has_tensor = inputs.iter().any(has_tensor);
                let infix = INFIX
                    .iter()
                    .find(|(known, _)| known == function)
                    .filter(|_| operands.len() == 2);
                let named = NAMED.iter().find(|(known, _)| known == function);
                let given: Vec<String> = parameters
                    .iter()
                    .map(|(name, value)| format!("{name} = {}", text(value, self)))
                    .collect();
                let value = match infix {
                    Some((_, sign)) => format!("{} {sign} {}", operands[0], operands[1]),
                    None => {
                        let list = match (given.is_empty(), *has_parameters && !has_tensor) {
                            (true, false) => String::new(),
                            _ => format!("({})", given.join(", ")),
                        };
                        let function = named.map_or(function.as_str(), |(_, name)| name);
                        format!("{function}{list}({})", operands.join(", "))
                    }
                };
                let targets: Vec<String> = outputs
                    .iter()
                    .map(|output| match output {
                        Passed::Tensor(node) => self.name(*node),
                        _ => self.fresh("Unused"),
                    })
                    .collect();
                let _ = writeln!(self.body, "    {} = {value};", targets.join(", "));
            }
        }
    }

    /// Writes a line that creates a layer with weights, and a line that calls the layer.
    fn layer(&mut self, layer: &Layer, weights: &mut Vec<(String, Stored)>) {
        // A layer takes hyper-parameters. A function may take none.
        let is_layer = layer.class.starts_with(|first: char| first.is_ascii_uppercase());
        let made = match layer.parameters.as_slice() {
            [] if !is_layer => layer.class.clone(),
            parameters => format!("{}({})", layer.class, parameters.join(", ")),
        };
        let mut input = self.name(layer.input);
        if let Some(before) = &layer.before {
            input = format!("{before}({input})");
        }
        if let Some(argument) = &layer.argument {
            input += &format!(", {argument}");
        }
        let called = match layer.weights.first() {
            None => made,
            Some(first) => {
                let own = self.instance(first.node, layer.output);
                let _ = writeln!(self.body, "    {own} = {made};");
                for weight in &layer.weights {
                    let of = Box::new(self.stored[weight.node].clone());
                    let stored = Stored::Arranged {
                        of,
                        order: weight.order.clone(),
                        shape: weight.shape.clone(),
                    };
                    weights.push((format!("{own}.{}", weight.name), stored));
                }
                own
            }
        };
        let output = self.name(layer.output);
        let _ = writeln!(self.body, "    {output} = {called}({input});");
    }

    /// Returns a name for a layer, from its first weight's name or else its output's, each without
    /// the last part.
    fn instance(&mut self, weight: NodeId, output: NodeId) -> String {
        let (weight, output) = (self.wanted(weight), self.wanted(output));
        let of_weight =
            ["weight", "kernel", "gamma"].iter().find_map(|ending| weight.strip_suffix(ending));
        let of_output = output.rsplit_once('/').map_or(output.as_str(), |(layer, _)| layer);
        let wanted = identifier(of_weight.filter(|name| !name.is_empty()).unwrap_or(of_output));
        let first = wanted.chars().next().map(|first| first.to_ascii_lowercase());
        let wanted: String = first.into_iter().chain(wanted.chars().skip(1)).collect();
        self.free(&wanted)
    }

    /// Declares a weight, and returns its name.
    fn weight(&mut self, wanted: &str, ty: &TensorType, node: NodeId) -> String {
        let own = self.fresh(wanted);
        let sizes: Vec<String> = ty.shape.iter().map(usize::to_string).collect();
        let first = match ty.dtype {
            DType::F32 => "zeros()".to_owned(),
            dtype => format!("onnx_zeros({})", number(dtype)),
        };
        let keyword = if ty.dtype.is_float() { "param" } else { "state" };
        let _ = writeln!(self.body, "    {keyword} {own}[{}] = {first};", sizes.join(", "));
        self.names.insert(node, own.clone());
        own
    }

    /// Returns the name of a value.
    fn name(&mut self, node: NodeId) -> String {
        if let Some(name) = self.names.get(node) {
            return name.clone();
        }
        let name = self.fresh(&self.wanted(node));
        self.names.insert(node, name.clone());
        name
    }

    /// Returns an unused name.
    fn fresh(&mut self, wanted: &str) -> String {
        self.free(&identifier(wanted))
    }

    fn free(&mut self, wanted: &str) -> String {
        let mut candidates =
            (1..).map(|n| if n == 1 { wanted.to_owned() } else { format!("{wanted}_{n}") });
        let free = candidates.find(|name| !self.taken.contains(name)).unwrap_or_default();
        self.taken.insert(free.clone());
        free
    }
}

/// Returns whether a literal represents a constant exactly. Numbers in literals are i64 or f32, and
/// an empty list has no inner shape.
fn has_literal(tensor: &Tensor) -> bool {
    let is_exact = match tensor.dtype() {
        DType::F64 | DType::U64 => false,
        DType::I64 => tensor.scalars().all(|scalar| scalar.to_i64() != i64::MIN),
        _ => true,
    };
    is_exact && (tensor.ty().elements() > 0 || tensor.shape().len() == 1)
}

/// Converts a name of the file to a tensor's name in Tile: letters, digits and `_`, starting with a
/// capital.
fn identifier(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String =
        name.trim_matches(|c: char| !c.is_ascii_alphanumeric()).chars().map(safe).collect();
    match name.chars().next() {
        // Names with `Onnx` belong to the library.
        Some(_) if name.starts_with("Onnx") => format!("Of_{name}"),
        Some(first) if first.is_ascii_alphabetic() => {
            format!("{}{}", first.to_ascii_uppercase(), &name[1..])
        }
        _ => format!("V{name}"),
    }
}

fn has_tensor(value: &Passed) -> bool {
    match value {
        Passed::Tensor(_) => true,
        Passed::List(items) => items.iter().any(has_tensor),
        _ => false,
    }
}

fn text(value: &Passed, names: &mut Writer) -> String {
    match value {
        Passed::Nothing => "none".into(),
        Passed::Tensor(node) => names.name(*node),
        Passed::Bool(value) => value.to_string(),
        // The least i64 has no literal. It represents an end beyond all others.
        Passed::Int(value) => (*value).max(-i64::MAX).to_string(),
        Passed::Float(value) if value.is_nan() => "(0.0 / 0.0)".into(),
        Passed::Float(value) if value.is_infinite() => {
            format!("({}1.0 / 0.0)", if *value < 0.0 { "-" } else { "" })
        }
        Passed::Float(value) => format!("{value:?}"),
        Passed::Text(text) => format!("\"{}\"", text.replace(['"', '\n', '\r'], "_")),
        Passed::List(items) => {
            let items: Vec<String> = items.iter().map(|item| text(item, names)).collect();
            format!("[{}]", items.join(", "))
        }
    }
}
