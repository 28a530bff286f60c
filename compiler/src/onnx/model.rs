//! [`Model`]: a file that was read, and what its operators are.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::LazyLock;

use prost::Message;
use prost::bytes::Bytes;
use tile_lang::library_names;

use super::control::Control;
use super::order::ordered;
use super::{proto, tensor};
use crate::dtype::DType;

/// What is wrong with a file, or with what is given to it: a sentence each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnnxError(pub Vec<String>);

impl OnnxError {
    pub(super) fn new(message: impl Into<String>) -> OnnxError {
        OnnxError(vec![message.into()])
    }
}

impl fmt::Display for OnnxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for OnnxError {}

/// A model all of whose operators are supported.
#[derive(Clone, Debug)]
pub struct Model {
    pub(super) graph: proto::Graph,
    pub(super) opsets: Opsets,
    pub(super) functions: HashMap<FunctionKey, proto::Function>,
}

/// The version of the operators, by domain; that of ONNX itself is the empty one.
pub(super) type Opsets = BTreeMap<String, i64>;

/// Domain, name, and which of several of one name.
type FunctionKey = (String, String, String);

/// The oldest version of ONNX' own operators that is read.
const OLDEST: i64 = 6;

/// What an operator is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operator<'m> {
    /// A function of the library, by its name.
    Library(&'static str),
    /// One that the file defines.
    Local(&'m proto::Function),
    Control(Control),
}

impl Model {
    /// Reads a file.
    ///
    /// # Errors
    /// Where it is no ONNX model, is older than opset 6, or has operators that are not supported: these are all named.
    pub fn read(bytes: impl Into<Bytes>) -> Result<Model, OnnxError> {
        let invalid = |what: &str| OnnxError::new(format!("this is not a valid ONNX file: {what}"));
        let file = proto::Model::decode(bytes.into()).map_err(|error| invalid(&error.to_string()))?;
        let mut graph = file.graph.ok_or_else(|| invalid("it has no graph"))?;
        graph.nodes = ordered(graph.nodes);
        let opsets = versions(&file.opsets);
        if let Some(&version) = opsets.get("").filter(|version| **version < OLDEST) {
            return Err(OnnxError::new(format!(
                "its operators are of version {version}, and {OLDEST} is the oldest that is read: \
                 `onnx.version_converter.convert_version` makes it newer"
            )));
        }
        let key = |f: &proto::Function| (plain(&f.domain).to_owned(), f.name.clone(), f.overload.clone());
        let sorted = |function: proto::Function| proto::Function { nodes: ordered(function.nodes), ..function };
        let functions = file.functions.into_iter().map(|function| (key(&function), sorted(function))).collect();
        let model = Model { graph, opsets, functions };
        model.check()?;
        Ok(model)
    }

    /// What the graph is called.
    pub fn name(&self) -> &str {
        &self.graph.name
    }

    /// The type of an input, and its sizes as far as the file or `sizes`, by their names, say them. None where there is no such input, or it
    /// is no tensor of a known rank and a type that Tile has.
    pub fn input(&self, name: &str, sizes: &BTreeMap<String, usize>) -> Option<(DType, Vec<Option<usize>>)> {
        let input = self.graph.inputs.iter().find(|input| input.name == name)?;
        let ty = input.ty.as_ref()?.tensor()?;
        let size = |dim: &proto::Dim| match dim.size {
            Some(size) if size > 0 => usize::try_from(size).ok(),
            _ => sizes.get(&dim.name).copied(),
        };
        Some((tensor::dtype(ty.dtype).ok()?, ty.shape.as_ref()?.dims.iter().map(size).collect()))
    }

    /// The names of sizes of its inputs that inputs of these names do not give.
    pub fn unknown_sizes(&self, given: &[&str]) -> Vec<&str> {
        let names = |is_given: bool| {
            let inputs = self.graph.inputs.iter().filter(move |input| given.contains(&input.name.as_str()) == is_given);
            let shapes = inputs.filter_map(|input| input.ty.as_ref()?.tensor()?.shape.as_ref());
            let dims = shapes.flat_map(|shape| shape.dims.iter().filter(|dim| dim.size.is_none()));
            dims.map(|dim| dim.name.as_str()).filter(|name| !name.is_empty())
        };
        let known: Vec<&str> = names(true).collect();
        let mut unknown: Vec<&str> = names(false).filter(|name| !known.contains(name)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown
    }

    pub(super) fn operator(&self, node: &proto::Node, opsets: &Opsets) -> Option<Operator<'_>> {
        let domain = plain(&node.domain);
        let key = (domain.to_owned(), node.op.clone(), node.overload.clone());
        if let Some(function) = self.functions.get(&key) {
            return Some(Operator::Local(function));
        }
        let control = Control::of(domain, &node.op).map(Operator::Control);
        control.or_else(|| library(domain, &node.op, opsets.get(domain).copied()).map(Operator::Library))
    }

    /// An error that names every node whose operator is not supported.
    fn check(&self) -> Result<(), OnnxError> {
        let mut problems = Vec::new();
        if !self.graph.sparse_initializers.is_empty() {
            problems.push("sparse initializers are not supported".to_owned());
        }
        let mut unknown = Vec::new();
        self.unsupported(&self.graph.nodes, &self.opsets, &mut unknown);
        for function in self.functions.values() {
            self.unsupported(&function.nodes, &versions(&function.opsets), &mut unknown);
        }
        unknown.sort_unstable();
        if !unknown.is_empty() {
            let types: HashSet<&str> = unknown.iter().map(|(op, _)| op.as_str()).collect();
            let mut text = format!(
                "{} of its operators {} not supported:",
                types.len(),
                if types.len() == 1 { "is" } else { "are" }
            );
            for group in unknown.chunk_by(|a, b| a.0 == b.0) {
                let names: Vec<&str> = group.iter().map(|(_, name)| name.as_str()).collect();
                text += &format!("\n  {}: {}", group[0].0, names.join(", "));
            }
            problems.push(text);
        }
        if problems.is_empty() { Ok(()) } else { Err(OnnxError(problems)) }
    }

    /// Adds operator and name of the nodes that are not supported, those of graphs within included.
    fn unsupported(&self, nodes: &[proto::Node], opsets: &Opsets, found: &mut Vec<(String, String)>) {
        for node in nodes {
            if self.operator(node, opsets).is_none() {
                let domain = plain(&node.domain);
                let op = if domain.is_empty() { node.op.clone() } else { format!("{domain}.{}", node.op) };
                found.push((op, format!("`{}`", title(node))));
            }
            for graph in node.attributes.iter().filter_map(|attribute| attribute.graph.as_ref()) {
                self.unsupported(&graph.nodes, opsets, found);
            }
        }
    }
}

/// The name of a node, or where it has none, of its first output.
pub(super) fn title(node: &proto::Node) -> &str {
    let output = node.outputs.iter().find(|output| !output.is_empty()).map_or("", String::as_str);
    if node.name.is_empty() { output } else { &node.name }
}

pub(super) fn versions(opsets: &[proto::Opset]) -> Opsets {
    opsets.iter().map(|opset| (plain(&opset.domain).to_owned(), opset.version)).collect()
}

/// ONNX' own domain has two names.
fn plain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// The functions of the library that are operators: by their names without a version, the versions from which on they hold,
/// ascending, and the whole names.
static OPERATORS: LazyLock<HashMap<&'static str, Vec<(i64, &'static str)>>> = LazyLock::new(|| {
    let mut operators: HashMap<&str, Vec<(i64, &str)>> = HashMap::new();
    for name in library_names().filter(|name| name.starts_with("Onnx")) {
        let version = name.rsplit_once('_').and_then(|(op, version)| Some((op, version.parse().ok()?)));
        let (op, version) = version.unwrap_or((name, 1));
        operators.entry(op).or_default().push((version, name));
    }
    operators.values_mut().for_each(|versions| versions.sort_unstable());
    operators
});

/// The function of the library that an operator is.
fn library(domain: &str, op: &str, version: Option<i64>) -> Option<&'static str> {
    let prefix = match domain {
        "" | "ai.onnx.preview.training" => "Onnx",
        "com.microsoft" => "OnnxMicrosoft",
        "ai.onnx.ml" => "OnnxMl",
        _ => return None,
    };
    // The other domains' functions are not those of this one.
    let is_others = domain.is_empty() && ["Microsoft", "Ml"].iter().any(|other| op.starts_with(other));
    let versions = OPERATORS.get(format!("{prefix}{op}").as_str()).filter(|_| !is_others)?;
    let fits = |(from, _): &&(i64, &str)| *from <= version.unwrap_or(i64::MAX);
    versions.iter().rfind(fits).map(|(_, name)| *name)
}
