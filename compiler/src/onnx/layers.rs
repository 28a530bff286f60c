//! Detection of the library's layers in a model's calls: a convolution with unshared weights
//! becomes a `Conv2D` that owns them.
//!
//! Invariant: a layer computes what the calls computed, and a weight read by two calls stays a
//! parameter of the model.

use std::collections::{HashMap, HashSet};

use super::calls::{Axis, Call, node};
use super::recorder::Recorded;
use crate::dtype::DType;
use crate::graph::{Graph, NodeId, NodeMap, NodeSet};
use crate::lower::Passed;

/// The words among hyper-parameters, reserved from other names.
pub(super) const WORDS: [&str; 2] = ["same", "channels_first"];

/// A line of a model's program.
pub(super) enum ProgramLine<'a> {
    Recorded(&'a Recorded),
    Layer(Layer),
}

/// A layer that replaces one or two calls.
pub(super) struct Layer {
    pub class: String,
    /// The hyper-parameters, as text.
    pub parameters: Vec<String>,
    /// The weights. A layer without any needs no name.
    pub weights: Vec<Own>,
    /// A preceding layer that pads the input with zeros.
    pub before: Option<String>,
    pub input: NodeId,
    /// An additional argument after the input.
    pub argument: Option<String>,
    pub output: NodeId,
}

/// A weight of a layer.
pub(super) struct Own {
    /// The name in the layer.
    pub name: &'static str,
    /// The tensor of the file.
    pub node: NodeId,
    /// The axes of the file's tensor in the layer's order, and the layer's sizes.
    pub order: Vec<usize>,
    pub shape: Vec<usize>,
}

/// Replaces steps by layers where they match. `outputs` are the model's.
pub(super) fn with_layers<'a>(
    steps: &[&'a Recorded],
    graph: &Graph,
    outputs: &[(String, NodeId)],
) -> Vec<ProgramLine<'a>> {
    let mut finder =
        Finder { graph, stored: NodeSet::new(), uses: NodeMap::new(), readers: NodeMap::new() };
    outputs.iter().for_each(|(_, node)| *finder.uses.slot(*node).get_or_insert_default() += 1);
    for (place, step) in steps.iter().enumerate() {
        match step {
            Recorded::Weight { node, ty, .. } if ty.dtype == DType::F32 => {
                finder.stored.insert(*node);
            }
            Recorded::Constant { node, tensor } if tensor.dtype() == DType::F32 => {
                finder.stored.insert(*node);
            }
            Recorded::Call { inputs, .. } => {
                inputs.iter().for_each(|input| finder.read(input, place))
            }
            _ => {}
        }
    }
    // Layers by position. A layer of two calls has the position of the second.
    let mut found: HashMap<usize, Layer> = HashMap::new();
    let mut gone: HashSet<usize> = HashSet::new();
    for (place, step) in steps.iter().enumerate() {
        let Some((mut layer, then)) = Call::of(step).and_then(|call| finder.layer(&call)) else {
            continue;
        };
        let reader = finder.only_reader(layer.output).filter(|_| then != Then::Nothing);
        let next = reader.and_then(|place| Some((place, Call::of(steps[place])?)));
        match next.filter(|(_, call)| finder.joins(&mut layer, then, call)) {
            Some((reader, _)) => {
                gone.insert(place);
                found.insert(reader, layer);
            }
            None => {
                found.entry(place).or_insert(layer);
            }
        }
    }
    let own: NodeSet =
        found.values().flat_map(|layer| &layer.weights).map(|own| own.node).collect();
    let is_own = |step: &Recorded| match step {
        Recorded::Weight { node, .. } | Recorded::Constant { node, .. } => own.contains(*node),
        _ => false,
    };
    let left =
        steps.iter().enumerate().filter(|(place, step)| !gone.contains(place) && !is_own(step));
    left.map(|(place, step)| {
        found.remove(&place).map_or(ProgramLine::Recorded(step), ProgramLine::Layer)
    })
    .collect()
}

/// The part of the following call that a layer can absorb.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Nothing,
    /// The addition of a bias.
    Bias,
    /// The removal of axes of size 1.
    Flatten,
}

struct Finder<'a> {
    graph: &'a Graph,
    /// The f32 tensors of the file.
    stored: NodeSet,
    /// The number of reads of a value, including outputs of the model.
    uses: NodeMap<usize>,
    /// The position of a value's last reader.
    readers: NodeMap<usize>,
}

impl Finder<'_> {
    fn read(&mut self, value: &Passed, place: usize) {
        match value {
            Passed::Tensor(node) => {
                *self.uses.slot(*node).get_or_insert_default() += 1;
                self.readers.insert(*node, place);
            }
            Passed::List(items) => items.iter().for_each(|item| self.read(item, place)),
            _ => {}
        }
    }

    fn shape(&self, node: NodeId) -> &[usize] {
        &self.graph.node(node).ty.shape
    }

    fn is_used(&self, value: &Passed) -> bool {
        node(value).is_some_and(|node| self.uses.contains(node))
    }

    /// Returns the position of the only call that reads a value.
    fn only_reader(&self, value: NodeId) -> Option<usize> {
        self.readers.get(value).copied().filter(|_| self.uses.get(value) == Some(&1))
    }

    /// Returns a tensor of the file that nothing else reads.
    fn own(&self, call: &Call, number: usize) -> Option<NodeId> {
        call.tensor(number)
            .filter(|node| self.stored.contains(*node) && self.uses.get(*node) == Some(&1))
    }

    /// Returns an unshared tensor of this shape as a weight of the layer.
    fn vector(
        &self,
        name: &'static str,
        call: &Call,
        number: usize,
        shape: &[usize],
    ) -> Option<Own> {
        let node = self.own(call, number).filter(|node| self.shape(*node) == shape)?;
        Some(Own { name, node, order: (0..shape.len()).collect(), shape: shape.to_vec() })
    }

    /// Returns the layer for a call, and the part of the next call that it can absorb.
    fn layer(&self, call: &Call) -> Option<(Layer, Then)> {
        let input = call.tensor(0)?;
        let (output, others) = call.outputs.split_first()?;
        let is_new = |other: &&Passed| !call.inputs.contains(other);
        let output = node(output)
            .filter(|_| !others.iter().filter(is_new).any(|other| self.is_used(other)))?;
        let mut layer = Layer {
            class: String::new(),
            parameters: Vec::new(),
            weights: Vec::new(),
            before: None,
            input,
            argument: None,
            output,
        };
        let mut then = Then::Nothing;
        match call.function {
            "OnnxTranspose" => {
                call.parameter("perm")?;
                layer.class = "transpose".into();
                layer.argument =
                    Some(format!("{:?}", call.sizes("perm", self.shape(output).len(), 0)?));
            }
            "OnnxReshape_1" | "OnnxReshape_5" | "OnnxSqueeze_13" | "OnnxSqueeze_1"
            | "OnnxUnsqueeze_13" | "OnnxUnsqueeze_1" => {
                layer.class = "reshape".into();
                layer.argument = Some(format!("{:?}", self.shape(output)));
            }
            _ if self.graph.dtype(input) != DType::F32 => return None,
            "OnnxGelu" => {
                layer.class = "gelu".into();
                match call.parameter("approximate") {
                    None => {}
                    Some(Passed::Text(text)) if text == "none" => {}
                    Some(_) => layer.parameters = vec!["approximate = true".into()],
                }
            }
            "OnnxConv" => self.convolution(call, &mut layer)?,
            "OnnxConvTranspose" => self.transposed_convolution(call, &mut layer)?,
            "OnnxGemm_7" => self.product(call, &mut layer)?,
            "OnnxMatMul" => {
                self.dense(call, false, &mut layer)?;
                then = Then::Bias;
            }
            "OnnxBatchNormalization_7" | "OnnxBatchNormalization_14" => {
                self.batch_normalization(call, &mut layer)?
            }
            "OnnxLayerNormalization" => self.layer_normalization(call, &mut layer)?,
            "OnnxMaxPool" => self.pooling("Max", call, &mut layer)?,
            "OnnxAveragePool" => self.pooling("Average", call, &mut layer)?,
            "OnnxGlobalMaxPool" | "OnnxGlobalAveragePool" => {
                let inner = self.inner_axes(input)?;
                layer.class =
                    call.function.replace("Onnx", "").replace("Pool", &format!("Pooling{inner}D"));
                layer.parameters =
                    vec!["data_format = channels_first".into(), "keepdims = true".into()];
                then = Then::Flatten;
            }
            "OnnxFlatten" if call.int("axis", 1)? == 1 => layer.class = "Flatten".into(),
            _ => return None,
        }
        Some((layer, then))
    }

    /// Merges the call that reads a layer into the layer, if possible.
    fn joins(&self, layer: &mut Layer, then: Then, call: &Call) -> bool {
        let Some(output) = call.outputs.first().and_then(node) else { return false };
        match (then, call.function) {
            (Then::Bias, "OnnxAdd_7") => {
                let units = self.shape(layer.output).last().copied().unwrap_or_default();
                let Some(number) =
                    call.inputs.iter().position(|input| node(input) != Some(layer.output))
                else {
                    return false;
                };
                let Some(bias) = self.vector("Bias", call, number, &[units]) else { return false };
                layer.parameters.retain(|parameter| parameter != "use_bias = false");
                layer.weights.push(bias);
            }
            (Then::Flatten, "OnnxFlatten") if call.int("axis", 1) == Some(1) => {
                layer.parameters.retain(|parameter| parameter != "keepdims = true");
            }
            _ => return false,
        }
        layer.output = output;
        true
    }

    /// Returns the number of axes after batch and channels, from one to three.
    fn inner_axes(&self, input: NodeId) -> Option<usize> {
        self.shape(input).len().checked_sub(2).filter(|inner| (1..=3).contains(inner))
    }

    /// Returns the geometry of a convolution whose kernel has its window after two other axes.
    fn windows(&self, call: &Call, kernel: NodeId) -> Option<Vec<Axis>> {
        let input = call.tensor(0)?;
        let inner = self.inner_axes(input)?;
        let window = self.shape(kernel).get(2..)?;
        let given = call.sizes("kernel_shape", inner, 0)?;
        let is_said = call.parameter("kernel_shape").is_none() || given == window;
        call.axes(window).filter(|_| is_said && window.len() == inner)
    }

    fn convolution(&self, call: &Call, layer: &mut Layer) -> Option<()> {
        let kernel = self.own(call, 1)?;
        let axes = self.windows(call, kernel)?;
        let (inner, sizes) = (axes.len(), self.shape(kernel));
        let (filters, channels) = (sizes[0], self.shape(layer.input)[1]);
        let groups = usize::try_from(call.int("group", 1)?).ok()?;
        let is_depthwise = groups > 1 && groups == channels && inner < 3;
        let window = text_of(&sizes[2..]);
        let mut order: Vec<usize> = (2..2 + inner).collect();
        let mut shape = sizes[2..].to_vec();
        if is_depthwise {
            layer.class = format!("DepthwiseConv{inner}D");
            layer.parameters = vec![window];
            unless(layer, "depth_multiplier", &[filters / groups], 1);
            order.extend([0, 1]);
            shape.extend([channels, filters / groups]);
        } else {
            layer.class = format!("Conv{inner}D");
            layer.parameters = vec![filters.to_string(), window];
            unless(layer, "groups", &[groups], 1);
            order.extend([1, 0]);
            shape.extend([sizes[1], filters]);
        }
        layer.weights.push(Own { name: "Kernel", node: kernel, order, shape });
        unless(layer, "strides", &axes.iter().map(|axis| axis.stride).collect::<Vec<_>>(), 1);
        unless(layer, "dilation_rate", &call.sizes("dilations", inner, 1)?, 1);
        if axes.iter().all(|axis| axis.is_same) && axes.iter().any(|axis| axis.pads != [0, 0]) {
            layer.parameters.push("padding = same".into());
        } else if axes.iter().any(|axis| axis.pads != [0, 0]) {
            let pads: Vec<[usize; 2]> = axes.iter().map(|axis| axis.pads).collect();
            let pads = match pads.as_slice() {
                all if all.concat().iter().all(|&pad| pad == all[0][0]) => all[0][0].to_string(),
                [both] => format!("{both:?}"),
                all => format!("{all:?}"),
            };
            layer.before =
                Some(format!("ZeroPadding{inner}D({pads}, data_format = channels_first)"));
        }
        self.channels_first_with_bias(call, filters, layer)
    }

    fn transposed_convolution(&self, call: &Call, layer: &mut Layer) -> Option<()> {
        let kernel = self.own(call, 1)?;
        let axes = self.windows(call, kernel)?;
        let (inner, sizes) = (axes.len(), self.shape(kernel));
        let longer = call.sizes("output_padding", inner, 0)?;
        if call.int("group", 1)? != 1
            || call.parameter("output_shape").is_some()
            || call.auto_pad() != "NOTSET"
        {
            return None;
        }
        let is_valid = |(axis, &longer): (&Axis, &usize)| {
            axis.pads == [0, 0] && longer == axis.stride.saturating_sub(axis.reach)
        };
        // `spread` of the library with `same` yields as many elements, starting at the same one.
        let is_same = |(axis, &longer): (&Axis, &usize)| {
            let [start, end] = axis.pads;
            let before = (axis.reach - 1).saturating_sub((axis.stride + axis.reach - 1) / 2);
            axis.reach + longer == axis.stride + start + end && start == before
        };
        let padding = match () {
            () if axes.iter().zip(&longer).all(is_valid) => None,
            () if axes.iter().zip(&longer).all(is_same) => Some("padding = same".to_owned()),
            () => return None,
        };
        let filters = sizes[1];
        let order = (2..2 + inner).chain([1, 0]).collect();
        let shape = [&sizes[2..], &[filters, sizes[0]]].concat();
        layer.class = format!("Conv{inner}DTranspose");
        layer.parameters = vec![filters.to_string(), text_of(&sizes[2..])];
        layer.weights.push(Own { name: "Kernel", node: kernel, order, shape });
        unless(layer, "strides", &axes.iter().map(|axis| axis.stride).collect::<Vec<_>>(), 1);
        unless(layer, "dilation_rate", &call.sizes("dilations", inner, 1)?, 1);
        layer.parameters.extend(padding);
        self.channels_first_with_bias(call, filters, layer)
    }

    fn channels_first_with_bias(
        &self,
        call: &Call,
        filters: usize,
        layer: &mut Layer,
    ) -> Option<()> {
        layer.parameters.push("data_format = channels_first".into());
        self.bias(call, filters, layer)
    }

    /// Adds the third input of a call as the bias of the layer.
    fn bias(&self, call: &Call, units: usize, layer: &mut Layer) -> Option<()> {
        match call.lacks(2) {
            true => layer.parameters.push("use_bias = false".into()),
            false => layer.weights.push(self.vector("Bias", call, 2, &[units])?),
        }
        Some(())
    }

    /// Converts a product with a matrix of the file to a dense layer. The matrix is `[units,
    /// inputs]` if `is_transposed`.
    fn dense(&self, call: &Call, is_transposed: bool, layer: &mut Layer) -> Option<()> {
        let kernel = self.own(call, 1)?;
        let (&[rows, columns], 2..) = (self.shape(kernel), self.shape(layer.input).len()) else {
            return None;
        };
        let (order, shape) = if is_transposed {
            (vec![1, 0], vec![columns, rows])
        } else {
            (vec![0, 1], vec![rows, columns])
        };
        let units = shape[1];
        layer.class = "Dense".into();
        layer.parameters = vec![units.to_string()];
        layer.weights.push(Own { name: "Kernel", node: kernel, order, shape });
        self.bias(call, units, layer)
    }

    fn product(&self, call: &Call, layer: &mut Layer) -> Option<()> {
        let is_plain = call.float("alpha", 1.0)? == 1.0 && call.float("beta", 1.0)? == 1.0;
        if !is_plain || call.int("transA", 0)? != 0 || self.shape(layer.input).len() != 2 {
            return None;
        }
        self.dense(call, call.int("transB", 0)? != 0, layer)
    }

    fn batch_normalization(&self, call: &Call, layer: &mut Layer) -> Option<()> {
        if call.int("training_mode", 0)? != 0
            || call.int("num_outputs", 1)? != 1
            || call.int("spatial", 1)? == 0
        {
            return None;
        }
        let channels = [*self.shape(layer.input).get(1)?];
        for (number, name) in
            ["Gamma", "Beta", "MovingMean", "MovingVariance"].into_iter().enumerate()
        {
            layer.weights.push(self.vector(name, call, 1 + number, &channels)?);
        }
        let (momentum, epsilon) = (call.float("momentum", 0.9)?, call.float("epsilon", 1e-5)?);
        layer.class = "BatchNormalization".into();
        layer.parameters = vec![
            "axis = 1".into(),
            format!("momentum = {momentum:?}"),
            format!("epsilon = {epsilon:?}"),
        ];
        Some(())
    }

    fn layer_normalization(&self, call: &Call, layer: &mut Layer) -> Option<()> {
        let shape = self.shape(layer.input);
        let axis = call.int("axis", -1)?;
        let first =
            usize::try_from(if axis < 0 { axis + shape.len() as i64 } else { axis }).ok()?;
        let sizes = shape.get(first..).filter(|sizes| !sizes.is_empty())?;
        layer.weights.push(self.vector("Gamma", call, 1, sizes)?);
        layer.class = "LayerNormalization".into();
        if sizes.len() > 1 {
            layer.parameters.push(format!("axis = {:?}", (first..shape.len()).collect::<Vec<_>>()));
        }
        layer.parameters.push(format!("epsilon = {:?}", call.float("epsilon", 1e-5)?));
        match call.lacks(2) {
            true => layer.parameters.push("center = false".into()),
            false => layer.weights.push(self.vector("Beta", call, 2, sizes)?),
        }
        Some(())
    }

    fn pooling(&self, way: &str, call: &Call, layer: &mut Layer) -> Option<()> {
        let inner = self.inner_axes(layer.input)?;
        let window = call.sizes("kernel_shape", inner, 0)?;
        let axes = call.axes(&window)?;
        let is_plain = call.int("ceil_mode", 0)? == 0;
        let is_valid = is_plain && axes.iter().all(|axis| axis.pads == [0, 0]);
        let is_same = is_plain
            && axes.iter().all(|axis| axis.is_same)
            && call.int("count_include_pad", 0)? == 0;
        if call.sizes("dilations", inner, 1)?.iter().any(|&dilation| dilation > 1)
            || !(is_valid || is_same)
        {
            return None;
        }
        layer.class = format!("{way}Pooling{inner}D");
        layer.parameters = vec![text_of(&window)];
        let strides: Vec<usize> = axes.iter().map(|axis| axis.stride).collect();
        if strides != window {
            layer.parameters.push(format!("strides = {}", text_of(&strides)));
        }
        if !is_valid {
            layer.parameters.push("padding = same".into());
        }
        layer.parameters.push("data_format = channels_first".into());
        Some(())
    }
}

/// Adds a hyper-parameter unless it is `default` for each axis.
fn unless(layer: &mut Layer, name: &str, values: &[usize], default: usize) {
    if values.iter().any(|&value| value != default) {
        layer.parameters.push(format!("{name} = {}", text_of(values)));
    }
}

/// Formats a single number if all are equal, else all of them.
fn text_of(values: &[usize]) -> String {
    match values.split_first() {
        Some((first, others)) if others.iter().all(|other| other == first) => first.to_string(),
        _ => format!("{values:?}"),
    }
}
