//! Operators that are not functions of tensors: constants, optional values and gradients, the
//! operators of `host.rs`, whose results have value-dependent shapes, and those of `branches.rs`
//! and `sequences.rs`.

use super::attributes::Attributes;
use super::ensemble::Ensemble;
use super::host;
use super::import::{Importer, sentence};
use super::model::{OnnxError, Opsets, title};
use super::proto::{self, Attribute};
use crate::dtype::{DType, Scalar};
use crate::lower::Passed;
use crate::tensor::{Tensor, TensorType};

/// An operator that is not a function of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    Constant,
    If,
    Loop,
    Scan,
    SequenceConstruct,
    SequenceEmpty,
    SequenceAt,
    SequenceInsert,
    SequenceErase,
    SequenceLength,
    SequenceMap,
    SplitToSequence,
    ConcatFromSequence,
    Optional,
    OptionalHasElement,
    OptionalGetElement,
    Gradient,
    NonZero,
    NonMaxSuppression,
    Unique,
    Compress,
    Trees(Ensemble),
}

/// The library's functions called in this module.
pub(super) const FUNCTIONS: [&str; 12] = [
    "onnx_tree_leaves",
    "onnx_tree_scores",
    "onnx_tree_regression",
    "onnx_tree_classes",
    "OnnxTrainingGradient",
    "OnnxConcat",
    "OnnxCompress",
    "OnnxGather",
    "OnnxSplit_18",
    "OnnxSqueeze_13",
    "OnnxUnsqueeze_13",
    "OnnxWhere",
];

impl Control {
    const ALL: [(&str, &str, Control); 24] = [
        ("", "Constant", Control::Constant),
        ("", "If", Control::If),
        ("", "Loop", Control::Loop),
        ("", "Scan", Control::Scan),
        ("", "SequenceConstruct", Control::SequenceConstruct),
        ("", "SequenceEmpty", Control::SequenceEmpty),
        ("", "SequenceAt", Control::SequenceAt),
        ("", "SequenceInsert", Control::SequenceInsert),
        ("", "SequenceErase", Control::SequenceErase),
        ("", "SequenceLength", Control::SequenceLength),
        ("", "SequenceMap", Control::SequenceMap),
        ("", "SplitToSequence", Control::SplitToSequence),
        ("", "ConcatFromSequence", Control::ConcatFromSequence),
        ("", "Optional", Control::Optional),
        ("", "OptionalHasElement", Control::OptionalHasElement),
        ("", "OptionalGetElement", Control::OptionalGetElement),
        ("", "NonZero", Control::NonZero),
        ("", "NonMaxSuppression", Control::NonMaxSuppression),
        ("", "Unique", Control::Unique),
        ("", "Compress", Control::Compress),
        ("ai.onnx.ml", "TreeEnsemble", Control::Trees(Ensemble::Places)),
        ("ai.onnx.ml", "TreeEnsembleRegressor", Control::Trees(Ensemble::Regressor)),
        ("ai.onnx.ml", "TreeEnsembleClassifier", Control::Trees(Ensemble::Classifier)),
        ("ai.onnx.preview.training", "Gradient", Control::Gradient),
    ];

    pub(super) fn of(domain: &str, op: &str) -> Option<Control> {
        Control::ALL
            .iter()
            .find(|(known, name, _)| (*known, *name) == (domain, op))
            .map(|(.., control)| *control)
    }
}

/// A node with its attributes and context.
pub(super) struct Site<'a, 'p> {
    pub node: &'p proto::Node,
    pub attributes: Vec<(String, &'a Attribute)>,
    /// The attributes of the enclosing function.
    pub outer: &'a Attributes,
    pub opsets: &'a Opsets,
}

impl<'a, 'p> Site<'a, 'p> {
    pub fn fails(&self, what: impl AsRef<str>) -> OnnxError {
        OnnxError::new(format!("node `{}` ({}): {}", title(self.node), self.node.op, what.as_ref()))
    }

    pub fn attribute(&self, name: &str) -> Option<&'a Attribute> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, attribute)| *attribute)
    }

    /// Returns the input with this number.
    pub fn input(&self, inputs: &[Passed], number: usize) -> Result<Passed, OnnxError> {
        inputs
            .get(number)
            .cloned()
            .ok_or_else(|| self.fails(format!("it has no input number {number}")))
    }

    /// Returns the items of the input with this number, a sequence.
    pub fn items(&self, inputs: &[Passed], number: usize) -> Result<Vec<Passed>, OnnxError> {
        match self.input(inputs, number)? {
            Passed::List(items) => Ok(items),
            _ => Err(self.fails("its input is no sequence")),
        }
    }

    pub fn int(&self, name: &str, default: i64) -> i64 {
        self.attribute(name).map_or(default, |attribute| attribute.int)
    }

    pub fn ints(&self, name: &str) -> &'a [i64] {
        self.attribute(name).map_or(&[], |attribute| &attribute.ints)
    }

    /// Checks that an item is not a sequence. Nested sequences could grow without limit.
    pub(super) fn is_item(&self, value: &Passed) -> Result<(), OnnxError> {
        match value {
            Passed::List(_) => Err(self.fails("a sequence cannot be in a sequence")),
            _ => Ok(()),
        }
    }

    /// Returns an inner graph, which is never an attribute of the enclosing function.
    pub(super) fn graph(&self, name: &str) -> Result<&'p proto::Graph, OnnxError> {
        let found = self.node.attributes.iter().find(|attribute| attribute.name == name);
        found
            .and_then(|attribute| attribute.graph.as_ref())
            .ok_or_else(|| self.fails(format!("it has no `{name}`")))
    }
}

impl<'p> Importer<'p> {
    pub(super) fn control(
        &mut self,
        control: Control,
        node: &'p proto::Node,
        inputs: Vec<Passed>,
        attributes: Vec<(String, &Attribute)>,
        outer: &Attributes,
        opsets: &Opsets,
    ) -> Result<Vec<Passed>, OnnxError> {
        let site = Site { node, attributes, outer, opsets };
        match control {
            Control::Constant => Ok(vec![self.constant(&site).map_err(|what| site.fails(what))?]),
            Control::If => self.branch(&site, site.input(&inputs, 0)?),
            Control::Loop => self.turns(&site, &inputs),
            Control::Scan => self.scan(&site, inputs),
            Control::Optional => Ok(vec![inputs.first().cloned().unwrap_or(Passed::Nothing)]),
            Control::OptionalHasElement => {
                let has = inputs.first().is_some_and(|value| *value != Passed::Nothing);
                Ok(vec![Passed::Bool(has)])
            }
            Control::OptionalGetElement => Ok(vec![site.input(&inputs, 0)?]),
            Control::Trees(kind) => self.ensemble(&site, kind, site.input(&inputs, 0)?),
            Control::Gradient => self.gradient(&site),
            Control::NonZero | Control::NonMaxSuppression | Control::Unique | Control::Compress => {
                self.on_host(control, &site, &inputs)
            }
            _ => self.sequence(control, &site, inputs),
        }
    }

    /// Imports an operator whose results have a value-dependent shape.
    fn on_host(
        &mut self,
        control: Control,
        site: &Site,
        inputs: &[Passed],
    ) -> Result<Vec<Passed>, OnnxError> {
        let axis = site.attribute("axis").map(|attribute| attribute.int);
        match control {
            Control::NonMaxSuppression => {
                let [boxes, scores] = self.host_inputs(site, [0, 1], inputs)?;
                let mut limits = [None, None, None];
                for (limit, value) in limits.iter_mut().zip(inputs.iter().skip(2)) {
                    if *value != Passed::Nothing {
                        let tensor = self
                            .value(value)
                            .map_err(|what| site.fails(format!("its input, {what}")))?;
                        *limit = tensor.scalars().next();
                    }
                }
                let results = host::non_max_suppression(
                    &boxes,
                    &scores,
                    limits,
                    site.int("center_point_box", 0) != 0,
                );
                self.host_results(site, results)
            }
            Control::Unique => {
                let [tensor] = self.host_inputs(site, [0], inputs)?;
                self.host_results(site, host::unique(&tensor, axis, site.int("sorted", 1) != 0))
            }
            Control::Compress => {
                let [condition] = self.host_inputs(site, [1], inputs)?;
                let input = site.input(inputs, 0)?;
                let size = match axis {
                    Some(axis) => self.along(site, &input, axis)?,
                    None => usize::MAX,
                };
                let places = self.host_results(site, host::taken(&condition, size))?;
                let axis =
                    axis.map(|axis| ("axis".to_owned(), Passed::Int(axis))).into_iter().collect();
                Ok(vec![self.library(
                    site,
                    "OnnxCompress",
                    axis,
                    [vec![input], places].concat(),
                )?])
            }
            _ => {
                let [tensor] = self.host_inputs(site, [0], inputs)?;
                self.host_results(site, host::non_zero(&tensor))
            }
        }
    }

    fn constant(&mut self, site: &Site<'_, 'p>) -> Result<Passed, String> {
        let Some((name, attribute)) =
            site.attributes.first().map(|(name, attribute)| (name.as_str(), *attribute))
        else {
            return Err("it has no value".into());
        };
        let floats = |values: &[f32], shape: Vec<usize>| Tensor::from_f32(shape, values);
        let ints = |values: &[i64], shape: Vec<usize>| {
            let scalars = values.iter().map(|&value| Scalar::from_i64(DType::I64, value));
            Tensor::from_scalars(TensorType::new(DType::I64, shape), scalars)
        };
        let tensor = match (name, &attribute.tensor) {
            ("value" | "sparse_value", Some(tensor)) => {
                let path = site.node.outputs.first().map_or("constant", String::as_str);
                let own = site.node.attributes.iter().find(|own| std::ptr::eq(*own, attribute));
                return match own.and_then(|own| own.tensor.as_ref()) {
                    Some(tensor) => self.stored_once(tensor, path, false),
                    None => self.stored(tensor, path, false),
                };
            }
            ("value_float", _) => floats(&[attribute.float], Vec::new()),
            ("value_floats", _) => floats(&attribute.floats, vec![attribute.floats.len()]),
            ("value_int", _) => ints(&[attribute.int], Vec::new()),
            ("value_ints", _) => ints(&attribute.ints, vec![attribute.ints.len()]),
            _ => return Err(format!("its attribute `{name}` is not supported")),
        };
        let tensor = tensor.ok_or("it is larger than any memory")?;
        self.calls.constant(&tensor).map(Passed::Tensor).map_err(|error| sentence(&error))
    }

    /// Imports the gradient of the value named by one attribute, with respect to the values named
    /// by another.
    fn gradient(&mut self, site: &Site) -> Result<Vec<Passed>, OnnxError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let of = site.attribute("y").map(|attribute| text(&attribute.text));
        let with = site.attribute("xs").map_or(&[][..], |attribute| &attribute.texts);
        let names = of.into_iter().chain(with.iter().map(|bytes| text(bytes)));
        let values = names.map(|name| {
            self.lookup(&name)
                .ok_or_else(|| site.fails(format!("nothing before it gives `{name}`")))
        });
        let values: Vec<Passed> = values.collect::<Result<_, _>>()?;
        match self.library(site, "OnnxTrainingGradient", vec![], vec![Passed::List(values)])? {
            Passed::List(gradients) => Ok(gradients),
            gradient => Ok(vec![gradient]),
        }
    }

    /// Returns the values of the inputs with these numbers.
    fn host_inputs<const N: usize>(
        &mut self,
        site: &Site,
        numbers: [usize; N],
        inputs: &[Passed],
    ) -> Result<[Tensor; N], OnnxError> {
        let mut tensors = Vec::new();
        for number in numbers {
            let input = inputs.get(number).filter(|input| **input != Passed::Nothing);
            let input =
                input.ok_or_else(|| site.fails(format!("it has no input number {number}")))?;
            tensors
                .push(self.value(input).map_err(|what| site.fails(format!("its input, {what}")))?);
        }
        tensors.try_into().map_err(|_| site.fails("it has too few inputs"))
    }

    fn host_results(
        &mut self,
        site: &Site,
        results: Result<Vec<Tensor>, String>,
    ) -> Result<Vec<Passed>, OnnxError> {
        let results = results.map_err(|what| site.fails(what))?;
        results
            .into_iter()
            .map(|tensor| self.result(tensor).map_err(|what| site.fails(what)))
            .collect()
    }

    /// Returns a number that is known during the import.
    pub(super) fn number(
        &mut self,
        site: &Site,
        value: &Passed,
        what: &str,
    ) -> Result<i64, OnnxError> {
        let tensor = self.value(value).map_err(|why| site.fails(format!("{what}, {why}")))?;
        Ok(tensor.scalars().next().map_or(0, Scalar::to_i64))
    }

    pub(super) fn unsqueezed(
        &mut self,
        site: &Site,
        value: Passed,
        axis: i64,
    ) -> Result<Passed, OnnxError> {
        self.library(
            site,
            "OnnxUnsqueeze_13",
            vec![],
            vec![value, Passed::List(vec![Passed::Int(axis)])],
        )
    }

    /// Returns the size of a tensor along an axis. A negative axis counts from the end.
    pub(super) fn along(
        &mut self,
        site: &Site,
        value: &Passed,
        axis: i64,
    ) -> Result<usize, OnnxError> {
        let node = self.calls.tensor(value).map_err(|error| site.fails(sentence(&error)))?;
        let shape = self.calls.graph().shape(node);
        let place = if axis < 0 { axis + shape.len() as i64 } else { axis };
        let size = usize::try_from(place).ok().and_then(|place| shape.get(place)).copied();
        size.ok_or_else(|| {
            site.fails(format!("its input of rank {} has no axis {axis}", shape.len()))
        })
    }

    pub(super) fn joined(
        &mut self,
        site: &Site,
        parts: Vec<Passed>,
        axis: i64,
    ) -> Result<Passed, OnnxError> {
        let axis = vec![("axis".to_owned(), Passed::Int(axis))];
        let parts = self.tensors(&parts).map_err(|what| site.fails(what))?;
        self.library(site, "OnnxConcat", axis, vec![parts])
    }

    /// Calls a function of the library. Inputs with capitalized names are passed as tensors.
    pub(super) fn library(
        &mut self,
        site: &Site,
        name: &str,
        parameters: Vec<(String, Passed)>,
        inputs: Vec<Passed>,
    ) -> Result<Passed, OnnxError> {
        let function = self.function(name).map_err(|what| site.fails(what))?;
        let mut given = Vec::new();
        for (input, declared) in inputs.into_iter().zip(&function.inputs) {
            let input = if declared.name.capital { self.as_tensor(input) } else { Ok(input) };
            given.push(input.map_err(|what| site.fails(what))?);
        }
        self.calls.call(function, parameters, given).map_err(|error| site.fails(sentence(&error)))
    }
}
