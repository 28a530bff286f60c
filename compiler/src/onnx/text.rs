//! A model as a Tile program: the calls that made its graph, one a line, as layers of the library where they match.
//!
//! Names are those of the file, as far as they are names in Tile; the comment above an input, output or weight has the others. What
//! is a number, a list or a small tensor in the file is one in the program.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use tile_lang::ast::Function;
use tile_lang::lexer::KEYWORDS;
use tile_lang::{CONSTANTS, library_names};

use super::import::literal;
use super::imported::Imported;
use super::layers::{Layer, Line, WORDS, with_layers};
use super::tensor::number;
use crate::dtype::DType;
use crate::graph::{Graph, NodeId};
use crate::lower::{Calls, Lowered, Passed};
use crate::tensor::{Tensor, TensorType};

/// What was done to make a graph.
pub(super) enum Step {
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

impl Step {
    pub fn call(function: &Function, parameters: Vec<(String, Passed)>, inputs: Vec<Passed>, result: &Passed) -> Step {
        let outputs = match result {
            Passed::List(items) => items.clone(),
            output => vec![output.clone()],
        };
        let name = function.name.as_ref().map_or("", |name| &name.name).to_owned();
        Step::Call { function: name, has_parameters: function.parameters.is_some(), parameters, inputs, outputs }
    }
}

/// Operators that the language writes between their operands.
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

/// Operators that the library has by other names, with the same meaning and hyper-parameters.
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

/// Where the value of a weight of the program is.
#[derive(Clone, Debug)]
pub enum Stored {
    /// In the file, under this path.
    Path(String),
    Tensor(Tensor),
    /// The elements of another one with its axes in this order, and then with these sizes.
    Arranged {
        of: Box<Stored>,
        order: Vec<usize>,
        shape: Vec<usize>,
    },
}

/// The program of a model, and its weights by their names there.
pub(super) fn program(imported: &Imported) -> (String, Vec<(String, Stored)>) {
    let Imported { network, name, steps, values, outputs, .. } = imported;
    let taken = CONSTANTS.into_iter().chain(KEYWORDS).chain(WORDS).chain(library_names()).map(str::to_owned).collect();
    let stored = steps.iter().filter_map(stored).collect();
    let mut writer = Writer { values, names: HashMap::new(), stored, taken, body: String::new() };
    let mut inputs = Vec::new();
    let mut weights = Vec::new();
    for line in with_layers(&needed(steps, outputs), &network.graph, outputs) {
        match line {
            Line::Step(step) => writer.step(step, &mut inputs, &mut weights),
            Line::Layer(layer) => writer.layer(&layer, &mut weights),
        }
    }
    let results: Vec<String> = outputs
        .iter()
        .map(|(output, node)| {
            let own = writer.name(*node);
            let is_named_so = own == identifier(output) || values.get(node) == Some(output);
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
        let renamed = if original == input { String::new() } else { format!(", {original:?} in the file") };
        let _ = writeln!(text, "// {input}: {ty}{renamed}");
    }
    for ((original, _), output) in outputs.iter().zip(&results).filter(|((original, _), output)| original != *output) {
        let _ = writeln!(text, "// {output}: {original:?} in the file");
    }
    let header: Vec<String> = header.collect();
    let _ = writeln!(text, "model {}({}) -> ({}) {{", identifier(name), header.join(", "), results.join(", "));
    text += &writer.body;
    text += "}\n";
    (tile_lang::format(&text).unwrap_or(text), weights)
}

/// [`Calls`] that keeps what was done.
pub(super) struct Recorder<'p> {
    pub calls: Calls<'p>,
    pub steps: Vec<Step>,
    /// What the file calls values.
    pub values: HashMap<NodeId, String>,
}

impl<'p> Recorder<'p> {
    pub fn new(calls: Calls<'p>) -> Recorder<'p> {
        Recorder { calls, steps: Vec::new(), values: HashMap::new() }
    }

    pub fn graph(&self) -> &Graph {
        self.calls.graph()
    }

    pub fn input(&mut self, name: &str, ty: TensorType, known: Option<Tensor>) -> Lowered<NodeId> {
        let node = self.calls.input(name, ty.clone(), known)?;
        self.steps.push(Step::Input { name: name.to_owned(), ty, node });
        Ok(node)
    }

    pub fn weight(&mut self, path: &str, ty: TensorType, known: Option<Tensor>) -> Lowered<NodeId> {
        let node = self.calls.weight(path, ty.clone(), known)?;
        self.steps.push(Step::Weight { path: path.to_owned(), ty, node });
        Ok(node)
    }

    pub fn constant(&mut self, tensor: &Tensor) -> Lowered<NodeId> {
        let node = self.calls.constant(tensor)?;
        self.steps.push(Step::Constant { tensor: tensor.clone(), node });
        Ok(node)
    }

    pub fn tensor(&mut self, value: &Passed) -> Lowered<NodeId> {
        let node = self.calls.tensor(value)?;
        if !matches!(value, Passed::Tensor(_))
            && let Some(tensor) = self.calls.known(node, usize::MAX)
        {
            self.steps.push(Step::Constant { tensor, node });
        }
        Ok(node)
    }

    pub fn known(&mut self, node: NodeId, most: usize) -> Option<Tensor> {
        self.calls.known(node, most)
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
        self.steps.push(Step::call(function, parameters, inputs, &result));
        Ok(result)
    }
}

/// The steps without those that the outputs do not need, such as the arithmetic on shapes, whose results are numbers by now.
fn needed<'a>(steps: &'a [Step], outputs: &[(String, NodeId)]) -> Vec<&'a Step> {
    fn add(value: &Passed, wanted: &mut HashSet<NodeId>) {
        match value {
            Passed::Tensor(node) => {
                wanted.insert(*node);
            }
            Passed::List(items) => items.iter().for_each(|item| add(item, wanted)),
            _ => {}
        }
    }
    let mut wanted: HashSet<NodeId> = outputs.iter().map(|(_, node)| *node).collect();
    let mut kept: Vec<&Step> = Vec::new();
    for step in steps.iter().rev() {
        let is_needed = match step {
            Step::Input { .. } => true,
            Step::Weight { node, .. } | Step::Constant { node, .. } => wanted.contains(node),
            Step::Call { inputs, outputs, .. } => {
                // What gives back its input is not.
                let is_wanted = |output: &Passed| {
                    matches!(output, Passed::Tensor(node) if wanted.contains(node)) && !inputs.contains(output)
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

/// A tensor of the file.
fn stored(step: &Step) -> Option<(NodeId, Stored)> {
    match step {
        Step::Weight { path, node, .. } => Some((*node, Stored::Path(path.clone()))),
        Step::Constant { tensor, node } => Some((*node, Stored::Tensor(tensor.clone()))),
        _ => None,
    }
}

struct Writer<'a> {
    /// What the file calls values.
    values: &'a HashMap<NodeId, String>,
    /// The tensors of the file.
    stored: HashMap<NodeId, Stored>,
    names: HashMap<NodeId, String>,
    /// Names that are given, those of the language and its library among them.
    taken: HashSet<String>,
    body: String,
}

impl Writer<'_> {
    /// What the file calls a value, if it does, without what PyTorch says of it twice: `/layer1/layer1.0/Conv_output_0` is
    /// `layer1.0/Conv`.
    fn wanted(&self, node: NodeId) -> String {
        let name = self.values.get(&node).map_or("Value", String::as_str);
        let parts: Vec<&str> = name.strip_suffix("_output_0").unwrap_or(name).split('/').collect();
        let is_repeated = |part: &str, next: &str| next.strip_prefix(part).is_some_and(|rest| rest.starts_with('.'));
        let next = parts[1..].iter().map(Some).chain([None]);
        let told = parts.iter().zip(next).filter(|(part, next)| !next.is_some_and(|next| is_repeated(part, next)));
        told.map(|(part, _)| *part).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
    }

    fn step(
        &mut self,
        step: &Step,
        inputs: &mut Vec<(String, String, TensorType)>,
        weights: &mut Vec<(String, Stored)>,
    ) {
        match step {
            Step::Input { name, ty, node } => {
                let own = self.fresh(name);
                self.names.insert(*node, own.clone());
                inputs.push((name.clone(), own, ty.clone()));
            }
            Step::Weight { ty, node, .. } => {
                let own = self.weight(&self.wanted(*node), ty, *node);
                weights.push((own, self.stored[node].clone()));
            }
            Step::Constant { tensor, node } if !has_literal(tensor) => {
                let own = self.weight(&self.wanted(*node), tensor.ty(), *node);
                weights.push((own, self.stored[node].clone()));
            }
            Step::Constant { tensor, node } => {
                let own = self.name(*node);
                let (dtype, value) = (number(tensor.dtype()), text(&literal(tensor), self));
                let _ = match tensor.dtype() {
                    DType::F32 if tensor.shape().is_empty() => writeln!(self.body, "    {own} = {value};"),
                    _ => writeln!(self.body, "    {own} = OnnxConstant(value = {value}, value_dtype = {dtype})();"),
                };
            }
            Step::Call { function, has_parameters, parameters, inputs, outputs } => {
                let operands: Vec<String> = inputs.iter().map(|input| text(input, self)).collect();
                let has_tensor = inputs.iter().any(has_tensor);
                let infix = INFIX.iter().find(|(known, _)| known == function).filter(|_| operands.len() == 2);
                let named = NAMED.iter().find(|(known, _)| known == function);
                let given: Vec<String> =
                    parameters.iter().map(|(name, value)| format!("{name} = {}", text(value, self))).collect();
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

    /// A layer: where it has weights, a line that makes it, and one that calls it.
    fn layer(&mut self, layer: &Layer, weights: &mut Vec<(String, Stored)>) {
        // A layer takes hyper-parameters, a function may take none.
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
                    let of = Box::new(self.stored[&weight.node].clone());
                    let stored = Stored::Arranged { of, order: weight.order.clone(), shape: weight.shape.clone() };
                    weights.push((format!("{own}.{}", weight.name), stored));
                }
                own
            }
        };
        let output = self.name(layer.output);
        let _ = writeln!(self.body, "    {output} = {called}({input});");
    }

    /// A name for a layer: that of its first weight, else that of its output, each without its last part.
    fn instance(&mut self, weight: NodeId, output: NodeId) -> String {
        let (weight, output) = (self.wanted(weight), self.wanted(output));
        let of_weight = ["weight", "kernel", "gamma"].iter().find_map(|ending| weight.strip_suffix(ending));
        let of_output = output.rsplit_once('/').map_or(output.as_str(), |(layer, _)| layer);
        let wanted = identifier(of_weight.filter(|name| !name.is_empty()).unwrap_or(of_output));
        let first = wanted.chars().next().map(|first| first.to_ascii_lowercase());
        let wanted: String = first.into_iter().chain(wanted.chars().skip(1)).collect();
        self.free(&wanted)
    }

    /// Declares a weight; gives its name.
    fn weight(&mut self, wanted: &str, ty: &TensorType, node: NodeId) -> String {
        let own = self.fresh(wanted);
        let sizes: Vec<String> = ty.shape.iter().map(usize::to_string).collect();
        // The language makes no bf16 itself: such a weight is read as f32.
        let first = match ty.dtype {
            DType::F32 | DType::BF16 => "zeros()".to_owned(),
            dtype => format!("onnx_zeros({})", number(dtype)),
        };
        let keyword = if ty.dtype.is_float() { "param" } else { "state" };
        let _ = writeln!(self.body, "    {keyword} {own}[{}] = {first};", sizes.join(", "));
        self.names.insert(node, own.clone());
        own
    }

    /// The name of a value.
    fn name(&mut self, node: NodeId) -> String {
        if let Some(name) = self.names.get(&node) {
            return name.clone();
        }
        let name = self.fresh(&self.wanted(node));
        self.names.insert(node, name.clone());
        name
    }

    /// A name that nothing has yet.
    fn fresh(&mut self, wanted: &str) -> String {
        self.free(&identifier(wanted))
    }

    fn free(&mut self, wanted: &str) -> String {
        let mut candidates = (1..).map(|n| if n == 1 { wanted.to_owned() } else { format!("{wanted}_{n}") });
        let free = candidates.find(|name| !self.taken.contains(name)).unwrap_or_default();
        self.taken.insert(free.clone());
        free
    }
}

/// Whether the text of a constant is all of it: numbers are i64 or f32 there, and a list without items has no shape within.
fn has_literal(tensor: &Tensor) -> bool {
    let is_exact = match tensor.dtype() {
        DType::F64 | DType::U64 | DType::BF16 => false,
        DType::I64 => tensor.scalars().all(|scalar| scalar.to_i64() != i64::MIN),
        _ => true,
    };
    is_exact && (tensor.ty().elements() > 0 || tensor.shape().len() == 1)
}

/// A name of the file as a tensor's name in Tile: letters, digits and `_`, from a capital on.
fn identifier(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.trim_matches(|c: char| !c.is_ascii_alphanumeric()).chars().map(safe).collect();
    match name.chars().next() {
        // Those are the library's.
        Some(_) if name.starts_with("Onnx") => format!("Of_{name}"),
        Some(first) if first.is_ascii_alphabetic() => format!("{}{}", first.to_ascii_uppercase(), &name[1..]),
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
        // The least number has no literal, and stands for an end beyond all others.
        Passed::Int(value) => (*value).max(-i64::MAX).to_string(),
        Passed::Float(value) if value.is_nan() => "(0.0 / 0.0)".into(),
        Passed::Float(value) if value.is_infinite() => format!("({}1.0 / 0.0)", if *value < 0.0 { "-" } else { "" }),
        Passed::Float(value) => format!("{value:?}"),
        Passed::Text(text) => format!("\"{}\"", text.replace(['"', '\n', '\r'], "_")),
        Passed::List(items) => {
            let items: Vec<String> = items.iter().map(|item| text(item, names)).collect();
            format!("[{}]", items.join(", "))
        }
    }
}
