//! Operators that are not functions of tensors: constants, branches, loops, sequences and optional
//! values, and the operators of `host.rs`, whose results have value-dependent shapes.
//!
//! Loops are unrolled, so the loop condition must be known before each iteration. A branch with an
//! unknown condition is imported both ways. Its results are selected elementwise, which requires
//! equal types.

use super::ensemble::Ensemble;
use super::host;
use super::import::{Attributes, Importer, literal, sentence};
use super::model::{OnnxError, Opsets, title};
use super::proto::{self, Attribute};
use crate::dtype::{DType, Scalar};
use crate::lower::Passed;
use crate::tensor::{Tensor, TensorType};

/// Units of work for each part of a split tensor.
const PART_UNITS: usize = 10;

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
        Control::ALL.iter().find(|(known, name, _)| (*known, *name) == (domain, op)).map(|(.., control)| *control)
    }
}

/// A node with its attributes and context.
pub(super) struct Site<'a, 'p> {
    pub node: &'p proto::Node,
    pub attributes: Vec<(String, &'a Attribute)>,
    /// The attributes of the enclosing function.
    outer: &'a Attributes,
    opsets: &'a Opsets,
}

impl<'a, 'p> Site<'a, 'p> {
    pub fn fails(&self, what: impl AsRef<str>) -> OnnxError {
        OnnxError::new(format!("node `{}` ({}): {}", title(self.node), self.node.op, what.as_ref()))
    }

    pub fn attribute(&self, name: &str) -> Option<&'a Attribute> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, attribute)| *attribute)
    }

    fn int(&self, name: &str, default: i64) -> i64 {
        self.attribute(name).map_or(default, |attribute| attribute.int)
    }

    pub fn ints(&self, name: &str) -> &'a [i64] {
        self.attribute(name).map_or(&[], |attribute| &attribute.ints)
    }

    /// Checks that an item is not a sequence. Nested sequences could grow without limit.
    fn is_item(&self, value: &Passed) -> Result<(), OnnxError> {
        match value {
            Passed::List(_) => Err(self.fails("a sequence cannot be in a sequence")),
            _ => Ok(()),
        }
    }

    /// Returns an inner graph, which is never an attribute of the enclosing function.
    fn graph(&self, name: &str) -> Result<&'p proto::Graph, OnnxError> {
        let found = self.node.attributes.iter().find(|attribute| attribute.name == name);
        found.and_then(|attribute| attribute.graph.as_ref()).ok_or_else(|| self.fails(format!("it has no `{name}`")))
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
        let input = |number: usize| {
            let missing = || site.fails(format!("it has no input number {number}"));
            inputs.get(number).cloned().ok_or_else(missing)
        };
        let sequence = |number: usize| match input(number)? {
            Passed::List(items) => Ok(items),
            _ => Err(site.fails("its input is no sequence")),
        };
        Ok(match control {
            Control::Constant => vec![self.constant(&site).map_err(|what| site.fails(what))?],
            Control::If => self.branch(&site, input(0)?)?,
            Control::Loop => self.turns(&site, &inputs)?,
            Control::Scan => self.scan(&site, inputs)?,
            Control::SequenceConstruct => {
                inputs.iter().try_for_each(|item| site.is_item(item))?;
                vec![Passed::List(inputs)]
            }
            Control::SequenceEmpty => vec![Passed::List(Vec::new())],
            Control::SequenceAt => {
                let items = sequence(0)?;
                let place = self.place(&site, input(1)?, items.len())?;
                vec![items.get(place).cloned().ok_or_else(|| site.fails("there is nothing at this place"))?]
            }
            Control::SequenceInsert => {
                let mut items = sequence(0)?;
                let place = if inputs.len() > 2 { self.place(&site, input(2)?, items.len())? } else { items.len() };
                let item = input(1)?;
                site.is_item(&item)?;
                items.insert(place, item);
                vec![Passed::List(items)]
            }
            Control::SequenceErase => {
                let mut items = sequence(0)?;
                let last = items.len().saturating_sub(1);
                let place = if inputs.len() > 1 { self.place(&site, input(1)?, items.len())? } else { last };
                if place >= items.len() {
                    return Err(site.fails("there is nothing at this place"));
                }
                items.remove(place);
                vec![Passed::List(items)]
            }
            Control::SequenceLength => vec![Passed::Int(sequence(0)?.len() as i64)],
            Control::SequenceMap => self.map(&site, inputs)?,
            Control::SplitToSequence => self.split(&site, input(0)?, inputs.get(1))?,
            Control::ConcatFromSequence => {
                let mut items = sequence(0)?;
                let axis = site.int("axis", 0);
                if site.int("new_axis", 0) != 0 {
                    items =
                        items.into_iter().map(|item| self.unsqueezed(&site, item, axis)).collect::<Result<_, _>>()?;
                }
                vec![self.joined(&site, items, axis)?]
            }
            Control::Optional => vec![inputs.first().cloned().unwrap_or(Passed::Nothing)],
            Control::OptionalHasElement => {
                let has = inputs.first().is_some_and(|value| *value != Passed::Nothing);
                vec![Passed::Bool(has)]
            }
            Control::OptionalGetElement => vec![input(0)?],
            Control::Trees(kind) => self.ensemble(&site, kind, input(0)?)?,
            Control::Gradient => self.gradient(&site)?,
            Control::NonZero => {
                let [tensor] = self.host_inputs(&site, [0], &inputs)?;
                self.host_results(&site, host::non_zero(&tensor))?
            }
            Control::NonMaxSuppression => {
                let [boxes, scores] = self.host_inputs(&site, [0, 1], &inputs)?;
                let mut limits = [None, None, None];
                for (limit, value) in limits.iter_mut().zip(inputs.iter().skip(2)) {
                    if *value != Passed::Nothing {
                        let tensor = self.value(value).map_err(|what| site.fails(format!("its input, {what}")))?;
                        *limit = tensor.scalars().next();
                    }
                }
                let results = host::non_max_suppression(&boxes, &scores, limits, site.int("center_point_box", 0) != 0);
                self.host_results(&site, results)?
            }
            Control::Unique => {
                let [tensor] = self.host_inputs(&site, [0], &inputs)?;
                let axis = site.attribute("axis").map(|attribute| attribute.int);
                self.host_results(&site, host::unique(&tensor, axis, site.int("sorted", 1) != 0))?
            }
            Control::Compress => {
                let [condition] = self.host_inputs(&site, [1], &inputs)?;
                let axis = site.attribute("axis").map(|attribute| attribute.int);
                let size = match axis {
                    Some(axis) => self.along(&site, &input(0)?, axis)?,
                    None => usize::MAX,
                };
                let places = self.host_results(&site, host::taken(&condition, size))?;
                let axis = axis.map(|axis| ("axis".to_owned(), Passed::Int(axis))).into_iter().collect();
                vec![self.library(&site, "OnnxCompress", axis, [vec![input(0)?], places].concat())?]
            }
        })
    }

    fn constant(&mut self, site: &Site<'_, 'p>) -> Result<Passed, String> {
        let Some((name, attribute)) = site.attributes.first().map(|(name, attribute)| (name.as_str(), *attribute))
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

    /// Imports one branch, or both if the condition is unknown.
    fn branch(&mut self, site: &Site<'_, 'p>, condition: Passed) -> Result<Vec<Passed>, OnnxError> {
        let node = self.calls.tensor(&condition).map_err(|error| site.fails(sentence(&error)))?;
        if self.known(node).is_none() {
            // If that fails and the condition can be evaluated, a single branch may succeed.
            match self.both_branches(site, &condition) {
                Err(error) if self.value(&condition).is_err() => return Err(error),
                Err(_) => {}
                chosen => return chosen,
            }
        }
        let taken = self.number(site, &condition, "its condition")? != 0;
        let graph = site.graph(if taken { "then_branch" } else { "else_branch" })?;
        self.within(site, graph, Vec::new())
    }

    fn both_branches(&mut self, site: &Site<'_, 'p>, condition: &Passed) -> Result<Vec<Passed>, OnnxError> {
        let then = self.within(site, site.graph("then_branch")?, Vec::new())?;
        let otherwise = self.within(site, site.graph("else_branch")?, Vec::new())?;
        let mut chosen = Vec::new();
        for (then, otherwise) in then.into_iter().zip(otherwise) {
            let types = [&then, &otherwise].map(|value| match value {
                Passed::Tensor(node) => Some(self.calls.graph().node(*node).ty.clone()),
                _ => None,
            });
            if types[0] != types[1] || types[0].is_none() {
                let what =
                    "its condition is not known when the model is compiled, and its branches give different types";
                return Err(site.fails(what));
            }
            chosen.push(self.library(site, "OnnxWhere", vec![], vec![condition.clone(), then, otherwise])?);
        }
        Ok(chosen)
    }

    /// Imports an inner graph of the node, once.
    fn within(
        &mut self,
        site: &Site<'_, 'p>,
        graph: &'p proto::Graph,
        inputs: Vec<Passed>,
    ) -> Result<Vec<Passed>, OnnxError> {
        self.count(site.node).map_err(|what| site.fails(what))?;
        self.body(graph, inputs, site.opsets, &format!("{}.", title(site.node)), site.outer)
    }

    fn turns(&mut self, site: &Site<'_, 'p>, inputs: &[Passed]) -> Result<Vec<Passed>, OnnxError> {
        let body = site.graph("body")?;
        let most = match inputs.first() {
            None | Some(Passed::Nothing) => i64::MAX,
            Some(value) => self.number(site, value, "how often it turns")?,
        };
        let mut goes_on = match inputs.get(1) {
            None | Some(Passed::Nothing) => Passed::Bool(true),
            Some(value) => value.clone(),
        };
        let mut carried: Vec<Passed> = inputs.iter().skip(2).cloned().collect();
        let mut stacked: Vec<Vec<Passed>> = vec![Vec::new(); body.outputs.len().saturating_sub(1 + carried.len())];
        for turn in 0.. {
            if turn >= most || self.number(site, &goes_on, "whether it goes on")? == 0 {
                break;
            }
            let mut given = vec![Passed::Int(turn), goes_on.clone()];
            given.extend(carried.iter().cloned());
            let mut outputs = self.within(site, body, given)?.into_iter();
            // A body that passes on its condition input keeps the condition known.
            goes_on = outputs.next().unwrap_or(Passed::Bool(false));
            carried.iter_mut().zip(&mut outputs).for_each(|(value, next)| *value = next);
            for (all, part) in stacked.iter_mut().zip(outputs) {
                all.push(self.unsqueezed(site, part, 0)?);
            }
        }
        for all in stacked {
            carried.push(self.stacked(site, all, 0)?);
        }
        Ok(carried)
    }

    fn scan(&mut self, site: &Site<'_, 'p>, mut inputs: Vec<Passed>) -> Result<Vec<Passed>, OnnxError> {
        let body = site.graph("body")?;
        if site.opsets.get("").is_some_and(|&version| version < 9) {
            return Err(site.fails("Scan is supported from version 9 on"));
        }
        let sequences = site.int("num_scan_inputs", 0);
        let carries = usize::try_from(sequences).ok().and_then(|count| inputs.len().checked_sub(count));
        let carries = carries.ok_or_else(|| site.fails(format!("it has {} inputs", inputs.len())))?;
        let sequences = inputs.split_off(carries);
        let at = |list: &[i64], number: usize| list.get(number).copied().unwrap_or(0);
        let mut length = None;
        for (number, sequence) in sequences.iter().enumerate() {
            let size = self.along(site, sequence, at(site.ints("scan_input_axes"), number))?;
            if length.replace(size).is_some_and(|length| length != size) {
                return Err(site.fails("its sequences are not of one length"));
            }
        }
        let length = length.ok_or_else(|| site.fails("it has no sequence"))? as i64;
        let mut carried = inputs;
        let mut stacked: Vec<Vec<Passed>> = vec![Vec::new(); body.outputs.len().saturating_sub(carried.len())];
        for turn in 0..length {
            let mut given = carried.clone();
            for (number, sequence) in sequences.iter().enumerate() {
                let place = if at(site.ints("scan_input_directions"), number) == 0 { turn } else { length - 1 - turn };
                let axis = vec![("axis".to_owned(), Passed::Int(at(site.ints("scan_input_axes"), number)))];
                given.push(self.library(site, "OnnxGather", axis, vec![sequence.clone(), Passed::Int(place)])?);
            }
            let mut outputs = self.within(site, body, given)?.into_iter();
            carried.iter_mut().zip(&mut outputs).for_each(|(value, next)| *value = next);
            for (number, (all, part)) in stacked.iter_mut().zip(outputs).enumerate() {
                all.push(self.unsqueezed(site, part, at(site.ints("scan_output_axes"), number))?);
            }
        }
        for (number, mut all) in stacked.into_iter().enumerate() {
            if at(site.ints("scan_output_directions"), number) != 0 {
                all.reverse();
            }
            carried.push(self.stacked(site, all, at(site.ints("scan_output_axes"), number))?);
        }
        Ok(carried)
    }

    /// Imports the body for each item of the first input, a sequence. Other inputs that are
    /// sequences also give one item each.
    fn map(&mut self, site: &Site<'_, 'p>, inputs: Vec<Passed>) -> Result<Vec<Passed>, OnnxError> {
        let body = site.graph("body")?;
        let Some(Passed::List(first)) = inputs.first() else { return Err(site.fails("its input is no sequence")) };
        let mut outputs: Vec<Vec<Passed>> = vec![Vec::new(); body.outputs.len()];
        for number in 0..first.len() {
            let of = |input: &Passed| match input {
                Passed::List(items) => items.get(number).cloned(),
                value => Some(value.clone()),
            };
            let given: Option<Vec<Passed>> = inputs.iter().map(of).collect();
            let given = given.ok_or_else(|| site.fails("its sequences are not of one length"))?;
            let results = self.within(site, body, given)?;
            outputs.iter_mut().zip(results).for_each(|(all, result)| all.push(result));
        }
        Ok(outputs.into_iter().map(Passed::List).collect())
    }

    fn split(&mut self, site: &Site<'_, 'p>, input: Passed, sizes: Option<&Passed>) -> Result<Vec<Passed>, OnnxError> {
        let axis = site.int("axis", 0);
        let length = self.along(site, &input, axis)? as i64;
        let (sizes, keeps) = match sizes {
            None | Some(Passed::Nothing) => {
                self.spend(usize::try_from(length).unwrap_or(usize::MAX).saturating_mul(PART_UNITS))
                    .map_err(|what| site.fails(what))?;
                (vec![1; length as usize], site.int("keepdims", 1) != 0)
            }
            Some(sizes) => match literal(&self.value(sizes).map_err(|what| site.fails(what))?) {
                Passed::Int(size) if size > 0 => {
                    let count = length.div_euclid(size) + i64::from(length % size != 0);
                    self.spend(usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(PART_UNITS))
                        .map_err(|what| site.fails(what))?;
                    ((0..count).map(|n| size.min(length - n * size)).collect(), true)
                }
                Passed::List(items) => {
                    (items.iter().map(|item| if let Passed::Int(size) = item { *size } else { 0 }).collect(), true)
                }
                _ => return Err(site.fails("the sizes of its parts are not above 0")),
            },
        };
        let list = Passed::List(sizes.iter().map(|&size| Passed::Int(size)).collect());
        let axis_of = |axis: i64| ("axis".to_owned(), Passed::Int(axis));
        let parts = self.library(site, "OnnxSplit_18", vec![axis_of(axis)], vec![input, list])?;
        let mut parts = match parts {
            Passed::List(parts) => parts,
            part => vec![part],
        };
        if !keeps {
            let axes = || Passed::List(vec![Passed::Int(axis)]);
            let squeezed =
                parts.into_iter().map(|part| self.library(site, "OnnxSqueeze_13", vec![], vec![part, axes()]));
            parts = squeezed.collect::<Result<_, _>>()?;
        }
        Ok(vec![Passed::List(parts)])
    }

    /// Imports the gradient of the value named by one attribute, with respect to the values named
    /// by another.
    fn gradient(&mut self, site: &Site) -> Result<Vec<Passed>, OnnxError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let of = site.attribute("y").map(|attribute| text(&attribute.text));
        let with = site.attribute("xs").map_or(&[][..], |attribute| &attribute.texts);
        let names = of.into_iter().chain(with.iter().map(|bytes| text(bytes)));
        let values =
            names.map(|name| self.lookup(&name).ok_or_else(|| site.fails(format!("nothing before it gives `{name}`"))));
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
            let input = input.ok_or_else(|| site.fails(format!("it has no input number {number}")))?;
            tensors.push(self.value(input).map_err(|what| site.fails(format!("its input, {what}")))?);
        }
        tensors.try_into().map_err(|_| site.fails("it has too few inputs"))
    }

    fn host_results(&mut self, site: &Site, results: Result<Vec<Tensor>, String>) -> Result<Vec<Passed>, OnnxError> {
        let results = results.map_err(|what| site.fails(what))?;
        results.into_iter().map(|tensor| self.result(tensor).map_err(|what| site.fails(what))).collect()
    }

    /// Returns a number that is known during the import.
    fn number(&mut self, site: &Site, value: &Passed, what: &str) -> Result<i64, OnnxError> {
        let tensor = self.value(value).map_err(|why| site.fails(format!("{what}, {why}")))?;
        Ok(tensor.scalars().next().map_or(0, Scalar::to_i64))
    }

    /// Returns a position in a sequence. A negative one counts from the end.
    fn place(&mut self, site: &Site, value: Passed, length: usize) -> Result<usize, OnnxError> {
        let place = self.number(site, &value, "the place in the sequence")?;
        let from_start = if place < 0 { place + length as i64 } else { place };
        let place = usize::try_from(from_start).ok().filter(|place| *place <= length);
        place.ok_or_else(|| site.fails(format!("a sequence of {length} has no place {from_start}")))
    }

    fn unsqueezed(&mut self, site: &Site, value: Passed, axis: i64) -> Result<Passed, OnnxError> {
        self.library(site, "OnnxUnsqueeze_13", vec![], vec![value, Passed::List(vec![Passed::Int(axis)])])
    }

    /// Returns the size of a tensor along an axis. A negative axis counts from the end.
    fn along(&mut self, site: &Site, value: &Passed, axis: i64) -> Result<usize, OnnxError> {
        let node = self.calls.tensor(value).map_err(|error| site.fails(sentence(&error)))?;
        let shape = self.calls.graph().shape(node);
        let place = if axis < 0 { axis + shape.len() as i64 } else { axis };
        let size = usize::try_from(place).ok().and_then(|place| shape.get(place)).copied();
        size.ok_or_else(|| site.fails(format!("its input of rank {} has no axis {axis}", shape.len())))
    }

    /// Concatenates the results of a loop's iterations along their new axis.
    fn stacked(&mut self, site: &Site, turns: Vec<Passed>, axis: i64) -> Result<Passed, OnnxError> {
        if turns.is_empty() {
            return Err(site.fails("it never turns, so that the shape of what it stacks is not known"));
        }
        self.joined(site, turns, axis)
    }

    fn joined(&mut self, site: &Site, parts: Vec<Passed>, axis: i64) -> Result<Passed, OnnxError> {
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
