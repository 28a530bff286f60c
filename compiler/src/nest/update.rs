//! Outputs that overwrite an operand, and change only some of its elements.

use super::{Axis, Leaf, Load, Nest, Output};
use crate::affine::Affine;
use crate::scalar::{Inst, Program, Value};
use crate::tensor::TensorType;

/// A choice between a new element and the old one at the same place. See [`Nest::update`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// The condition, a value of the epilogue.
    pub condition: Value,
    /// Which value of the condition chooses the new element.
    pub when: bool,
}

impl Nest {
    /// Returns the nest that copies a tensor of at least 2 elements.
    pub fn copy(ty: &TensorType) -> Nest {
        let place = Affine::var(0);
        let load =
            Load { operand: 0, offset: place.clone(), dynamic: Vec::new(), when: Vec::new() };
        let mut epilogue = Program::default();
        let element = epilogue.push(Inst::Leaf(Leaf::Load(load)), ty.dtype);
        epilogue.results.push(element);
        Nest {
            name: "copy".into(),
            axes: vec![Axis { name: "i".into(), extent: ty.elements() }],
            free: 1,
            rows: 1,
            loops: 0,
            derived: Vec::new(),
            guards: Vec::new(),
            operands: vec![ty.clone()],
            in_bytes: Vec::new(),
            aggregation: None,
            position: None,
            rank: None,
            body: Program::default(),
            inner: Vec::new(),
            epilogue,
            outputs: vec![Output { ty: ty.clone(), position: place, over: None }],
        }
    }

    /// Returns whether an output may be written over an operand. It may if only the epilogue reads
    /// the operand, and only at the position that it writes. Inside loops, each turn must write the
    /// whole output.
    pub fn may_overwrite(&self, output: usize, operand: usize) -> bool {
        let Output { ty, position, .. } = &self.outputs[output];
        let of_operand = |leaf: &Leaf| matches!(leaf, Leaf::Load(load) if load.operand == operand);
        let is_here = |leaf: &Leaf| match leaf {
            Leaf::Load(load) => {
                load.offset == *position && load.dynamic.is_empty() && load.when.is_empty()
            }
            _ => true,
        };
        (self.loops == 0 || ty.elements() == self.places())
            && !self.is_of_rows(output)
            && self.operands[operand] == *ty
            && self.body_loads().all(|load| load.operand != operand)
            && self.epilogue.leaves().filter(|leaf| of_operand(leaf)).all(is_here)
    }

    /// Returns the condition of an output that is, from place to place, either a new value or the
    /// element that `operand` has there. If the output overwrites the operand, only the new
    /// elements need to be written. There is none if one decision holds for all places, or if not
    /// each place is computed by itself.
    pub fn update(&self, output: usize, operand: usize) -> Option<Update> {
        let is_old = |value: Value| match &self.epilogue.insts[value].0 {
            Inst::Leaf(leaf) => leaf.load().is_some_and(|load| load.operand == operand),
            _ => false,
        };
        let Inst::Select(condition, then, otherwise) =
            self.epilogue.insts[*self.epilogue.results.get(output)?].0
        else {
            return None;
        };
        let when = match (is_old(then), is_old(otherwise)) {
            (false, true) => true,
            (true, false) => false,
            _ => return None,
        };
        let axes = &self.dependencies(&self.epilogue)[condition];
        // In a kernel of rows, invocations beyond the last row read it while another one writes it.
        let is_plain = self.aggregation.is_none() && self.columns().is_empty();
        let is_partial = (0..self.free).any(|axis| axes[axis]);
        (is_plain && is_partial && self.may_overwrite(output, operand))
            .then_some(Update { condition, when })
    }

    /// Returns the condition under which an element is written, if the nest computes nothing but
    /// one output that is an update of the operand that it overwrites.
    pub fn partial(&self) -> Option<Update> {
        let [output] = &self.outputs[..] else { return None };
        self.update(0, output.over?)
    }
}
