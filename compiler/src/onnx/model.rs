//! [`Model`]: a file that was read, and the resolution of its operators.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

use prost::Message;
use prost::bytes::Bytes;
use tile_lang::{Budget, Limits, library_names};

use super::control::Control;
use super::order::{tidied, tidy};
use super::sparse::Densifier;
use super::{proto, tensor, weight};
use crate::dtype::DType;

/// Errors in a file or in the values given to it, one sentence each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct OnnxError(pub Vec<String>);

impl OnnxError {
    pub(super) fn new(message: impl Into<String>) -> OnnxError {
        OnnxError(vec![message.into()])
    }
}

/// A model with supported operators only.
#[derive(Clone, Debug)]
pub struct Model {
    pub(super) graph: proto::Graph,
    pub(super) opsets: Opsets,
    pub(super) functions: HashMap<FunctionKey, proto::Function>,
}

/// The version of the operators, by domain. ONNX's own domain is the empty string.
pub(super) type Opsets = BTreeMap<String, i64>;

/// Domain, name, and overload.
type FunctionKey = (String, String, String);

/// The definition of an operator.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operator<'m> {
    /// A function of the library, by its name.
    Library(&'static str),
    /// A function defined in the file.
    Local(&'m proto::Function),
    Control(Control),
}

impl Model {
    /// Reads a file.
    ///
    /// # Errors
    /// If the file is not an ONNX model, or its outputs need unsupported operators, which are all
    /// named.
    pub fn read(bytes: impl Into<Bytes>) -> Result<Model, OnnxError> {
        let invalid = |what: &str| OnnxError::new(format!("this is not a valid ONNX file: {what}"));
        let bytes: Bytes = bytes.into();
        let budget = Budget::new(Limits::default());
        weight::count(&bytes, weight::Kind::Model, 0, &budget)
            .map_err(|exceeded| OnnxError::new(exceeded.to_string()))?;
        let file = proto::Model::decode(bytes).map_err(|error| invalid(&error.to_string()))?;
        let mut graph = file.graph.ok_or_else(|| invalid("it has no graph"))?;
        tidy(&mut graph);
        let mut densifier = Densifier::new();
        densifier.graph(&mut graph).map_err(OnnxError::new)?;
        let mut opsets = versions(&file.opsets);
        if file.ir_version < 3 {
            // Old files have no version.
            opsets.entry(String::new()).or_insert(1);
        }
        let mut functions = HashMap::new();
        for mut function in file.functions {
            function.nodes = tidied(std::mem::take(&mut function.nodes), &function.outputs);
            densifier.nodes(&mut function.nodes).map_err(OnnxError::new)?;
            let key = (
                plain(&function.domain).to_owned(),
                function.name.clone(),
                function.overload.clone(),
            );
            functions.insert(key, function);
        }
        let model = Model { graph, opsets, functions };
        model.check()?;
        Ok(model)
    }

    /// Returns the name of the graph.
    pub fn name(&self) -> &str {
        &self.graph.name
    }

    /// Returns the names of the inputs without an initializer.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        let given: HashSet<&str> =
            self.graph.initializers.iter().map(|tensor| tensor.name.as_str()).collect();
        self.graph
            .inputs
            .iter()
            .map(|input| input.name.as_str())
            .filter(move |name| !given.contains(name))
    }

    /// Returns the type of an input, and its sizes if the file or `sizes`, by their names, give
    /// them. `None` if there is no such input, or it is not a tensor of a known rank and a type
    /// that Tile has.
    pub fn input(
        &self,
        name: &str,
        sizes: &BTreeMap<String, usize>,
    ) -> Option<(DType, Vec<Option<usize>>)> {
        let input = self.graph.inputs.iter().find(|input| input.name == name)?;
        let ty = input.ty.as_ref()?.tensor()?;
        let size = |dim: &proto::Dim| match dim.size {
            Some(size) if size > 0 || (size == 0 && dim.name.is_empty()) => {
                usize::try_from(size).ok()
            }
            _ => sizes.get(&dim.name).copied(),
        };
        Some((tensor::dtype(ty.dtype).ok()?, ty.shape.as_ref()?.dims.iter().map(size).collect()))
    }

    /// Returns the names of input sizes that the inputs `given` do not determine.
    pub fn unknown_sizes(&self, given: &[&str]) -> Vec<&str> {
        let names = |is_given: bool| {
            let inputs = self
                .graph
                .inputs
                .iter()
                .filter(move |input| given.contains(&input.name.as_str()) == is_given);
            let shapes = inputs.filter_map(|input| input.ty.as_ref()?.tensor()?.shape.as_ref());
            let dims = shapes.flat_map(|shape| shape.dims.iter().filter(|dim| dim.size.is_none()));
            dims.map(|dim| dim.name.as_str()).filter(|name| !name.is_empty())
        };
        let known: HashSet<&str> = names(true).collect();
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
        control.or_else(|| {
            library(domain, &node.op, opsets.get(domain).copied()).map(Operator::Library)
        })
    }

    /// Returns an error that names every node with an unsupported operator.
    fn check(&self) -> Result<(), OnnxError> {
        let mut unknown = Vec::new();
        self.unsupported(&self.graph.nodes, &self.opsets, &mut HashSet::new(), &mut unknown);
        if unknown.is_empty() {
            return Ok(());
        }
        unknown.sort_unstable();
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
        Err(OnnxError::new(text))
    }

    /// Adds operator and name of unsupported nodes, including those of inner graphs and of called
    /// functions.
    fn unsupported<'m>(
        &'m self,
        nodes: &'m [proto::Node],
        opsets: &Opsets,
        called: &mut HashSet<(&'m str, &'m str, &'m str)>,
        found: &mut Vec<(String, String)>,
    ) {
        for node in nodes {
            match self.operator(node, opsets) {
                None => {
                    let domain = plain(&node.domain);
                    let op = if domain.is_empty() {
                        node.op.clone()
                    } else {
                        format!("{domain}.{}", node.op)
                    };
                    found.push((op, format!("`{}`", title(node))));
                }
                Some(Operator::Local(function))
                    if called.insert((&node.domain, &node.op, &node.overload)) =>
                {
                    self.unsupported(&function.nodes, &versions(&function.opsets), called, found);
                }
                Some(_) => {}
            }
            for graph in node.attributes.iter().filter_map(|attribute| attribute.graph.as_ref()) {
                self.unsupported(&graph.nodes, opsets, called, found);
            }
        }
    }
}

/// Returns the name of a node, or of its first output if it has none.
pub(super) fn title(node: &proto::Node) -> &str {
    let output = node.outputs.iter().find(|output| !output.is_empty()).map_or("", String::as_str);
    if node.name.is_empty() { output } else { &node.name }
}

pub(super) fn versions(opsets: &[proto::Opset]) -> Opsets {
    opsets.iter().map(|opset| (plain(&opset.domain).to_owned(), opset.version)).collect()
}

/// Normalises the name of a domain: ONNX's own has two names.
fn plain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// The library's functions that are operators. Maps their names without a version to the versions
/// from which they apply, in ascending order, and their full names.
static OPERATORS: LazyLock<HashMap<&'static str, Vec<(i64, &'static str)>>> = LazyLock::new(|| {
    let mut operators: HashMap<&str, Vec<(i64, &str)>> = HashMap::new();
    for name in library_names().filter(|name| name.starts_with("Onnx")) {
        let version =
            name.rsplit_once('_').and_then(|(op, version)| Some((op, version.parse().ok()?)));
        let (op, version) = version.unwrap_or((name, 1));
        operators.entry(op).or_default().push((version, name));
    }
    operators.values_mut().for_each(|versions| versions.sort_unstable());
    operators
});

/// Returns the library's function for an operator.
fn library(domain: &str, op: &str, version: Option<i64>) -> Option<&'static str> {
    let prefix = match domain {
        "" | "ai.onnx.preview.training" => "Onnx",
        "com.microsoft" => "OnnxMicrosoft",
        "ai.onnx.ml" => "OnnxMl",
        _ => return None,
    };
    // Excludes functions of other domains.
    let is_others =
        domain.is_empty() && ["Microsoft", "Ml"].iter().any(|other| op.starts_with(other));
    let versions = OPERATORS.get(format!("{prefix}{op}").as_str()).filter(|_| !is_others)?;
    let fits = |(from, _): &&(i64, &str)| *from <= version.unwrap_or(i64::MAX);
    versions.iter().rfind(fits).map(|(_, name)| *name)
}
