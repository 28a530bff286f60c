//! The calls of a model's program, with the attributes that they share with the library's layers.

use super::recorder::Recorded;
use crate::graph::NodeId;
use crate::lower::Passed;

/// A call in a model's program.
pub(super) struct Call<'a> {
    pub function: &'a str,
    pub parameters: &'a [(String, Passed)],
    pub inputs: &'a [Passed],
    pub outputs: &'a [Passed],
}

impl<'a> Call<'a> {
    pub fn of(step: &'a Recorded) -> Option<Call<'a>> {
        match step {
            Recorded::Call { function, parameters, inputs, outputs, .. } => {
                Some(Call { function, parameters, inputs, outputs })
            }
            _ => None,
        }
    }

    pub fn parameter(&self, name: &str) -> Option<&'a Passed> {
        self.parameters.iter().find(|(given, _)| given == name).map(|(_, value)| value)
    }

    pub fn int(&self, name: &str, default: i64) -> Option<i64> {
        match self.parameter(name) {
            None => Some(default),
            Some(Passed::Int(value)) => Some(*value),
            Some(_) => None,
        }
    }

    /// Returns the padding mode of a convolution or pooling.
    pub fn auto_pad(&self) -> &'a str {
        match self.parameter("auto_pad") {
            None => "NOTSET",
            Some(Passed::Text(text)) => text,
            Some(_) => "",
        }
    }

    /// Returns the geometry of windows with these sizes on the inner axes, if the library supports
    /// the padding mode.
    pub fn axes(&self, window: &[usize]) -> Option<Vec<Axis>> {
        let is_upper = match self.auto_pad() {
            "NOTSET" | "VALID" => false,
            "SAME_UPPER" => true,
            _ => return None,
        };
        let inner = window.len();
        let (strides, dilations) =
            (self.sizes("strides", inner, 1)?, self.sizes("dilations", inner, 1)?);
        let pads = self.sizes("pads", 2 * inner, 0)?;
        let is_positive = strides.iter().chain(&dilations).chain(window).all(|&size| size > 0);
        let axis = |axis: usize| {
            let (reach, stride) = (dilations[axis] * (window[axis] - 1) + 1, strides[axis]);
            let of_same = [(reach - 1) / 2, reach / 2];
            let pads = if is_upper { of_same } else { [pads[axis], pads[inner + axis]] };
            Axis { reach, stride, pads, is_same: is_upper || (stride == 1 && pads == of_same) }
        };
        is_positive.then(|| (0..inner).map(axis).collect())
    }

    /// Returns a float attribute.
    pub fn float(&self, name: &str, default: f64) -> Option<f64> {
        match self.parameter(name) {
            None => Some(default),
            Some(Passed::Float(value)) => Some(*value),
            Some(_) => None,
        }
    }

    /// Returns `count` non-negative numbers, or `default` for each if the attribute is missing.
    pub fn sizes(&self, name: &str, count: usize, default: usize) -> Option<Vec<usize>> {
        let Some(value) = self.parameter(name) else { return Some(vec![default; count]) };
        let Passed::List(items) = value else { return None };
        let size = |item: &Passed| match item {
            Passed::Int(size) => usize::try_from(*size).ok(),
            _ => None,
        };
        items.iter().map(size).collect::<Option<Vec<usize>>>().filter(|sizes| sizes.len() == count)
    }

    pub fn tensor(&self, number: usize) -> Option<NodeId> {
        self.inputs.get(number).and_then(node)
    }

    /// Returns whether there is no such input.
    pub fn lacks(&self, number: usize) -> bool {
        matches!(self.inputs.get(number), None | Some(Passed::Nothing))
    }
}

pub(super) fn node(value: &Passed) -> Option<NodeId> {
    match value {
        Passed::Tensor(node) => Some(*node),
        _ => None,
    }
}

/// The geometry of the windows of a convolution or pooling along an axis.
pub(super) struct Axis {
    /// The extent of a window, including dilation.
    pub reach: usize,
    pub stride: usize,
    /// The elements added before and after. For `SAME_UPPER`, which depends on the size of the
    /// axis, those for stride 1.
    pub pads: [usize; 2],
    /// Whether `padding = same` of the library adds the same elements for any size of the axis.
    pub is_same: bool,
}
