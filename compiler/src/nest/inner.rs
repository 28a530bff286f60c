//! Inner sums and statistics of bodies. They combine a product with the products that one of its
//! factors is computed from, and with statistics of these over the reduction axes, into one nest.
//!
//! Example: `Scores[t, s] = +(Q[t, d] * K[s, d])`, `P = exp(Scores - Top)` with `Top` the maxima
//! over s, and `Y[t, e] = +(P[t, s] * V[s, e])`. The body of Y reads the inner sum Scores at t and
//! s, over an axis d of its own, and the statistic Top at t.

use std::ops::Range;

use crate::affine::Affine;
use crate::graph::{Aggregation, NodeId};
use crate::scalar::{Inst, Program, Value};

use super::builder::Builder;
use super::gather::Gather;
use super::rows::{box_form, row_form};
use super::{Leaf, NestError};

/// An inner sum while its nest is built.
pub(super) struct InnerSum {
    pub form: Gather,
    /// The variables of its axes.
    pub axes: Range<usize>,
    pub body: Program<Leaf>,
    /// The index at which the body reads it, once known.
    index: Option<Vec<Affine>>,
}

impl<'a> Builder<'a> {
    /// Returns the inner sum of a contraction and appends its axes.
    pub fn inner_sum(&mut self, id: NodeId) -> Result<InnerSum, NestError> {
        let op = self.contraction_op(id)?;
        let form = Some(op).filter(|op| op.aggregation == Aggregation::Sum);
        let form = form.and_then(|op| box_form(self.graph, id, op));
        let form = form.ok_or(NestError::Internal("an inner sum of something else"))?;
        let first = self.axes.len();
        self.axes.extend(form.reduction.iter().cloned());
        Ok(InnerSum { axes: first..self.axes.len(), form, body: Program::default(), index: None })
    }

    /// Returns the value of an inner sum in the body, which must read it at one index only.
    pub fn inner_value(
        &mut self,
        program: &mut Program<Leaf>,
        id: NodeId,
        index: &[Affine],
        when: &[Affine],
    ) -> Result<Value, NestError> {
        let away = NestError::Away { value: self.graph.value_name(id) };
        let number = self.inner.iter().position(|&inner| inner == id);
        let number = number.ok_or(NestError::Internal("an inner sum of another nest"))?;
        let is_elsewhere = self.sums[number].index.as_ref().is_some_and(|known| known != index);
        if is_elsewhere || !when.is_empty() || self.of_body.is_some() {
            return Err(away);
        }
        if self.sums[number].index.is_none() {
            let InnerSum { form, axes, .. } = &self.sums[number];
            let (form, axes) = (form.clone(), axes.clone().map(Affine::var));
            let values: Vec<Affine> = index.iter().cloned().chain(axes).collect();
            let outer = std::mem::take(&mut self.memo);
            let mut body = Program::default();
            body.results = vec![self.term(&mut body, id, &form, &values)?];
            self.memo = outer;
            let sum = &mut self.sums[number];
            (sum.body, sum.index) = (body, Some(index.to_vec()));
        }
        let body = &self.sums[number].body;
        let sum = program.push(Inst::Leaf(Leaf::Inner(number)), body.dtype(body.results[0]));
        Ok(program.cast(sum, self.graph.dtype(id)))
    }

    /// Returns a statistic of the body over the reduction axes. In the epilogue the result refers
    /// to the statistic in the body.
    pub fn statistic_of_points(
        &mut self,
        program: &mut Program<Leaf>,
        id: NodeId,
        index: &[Affine],
        when: &[Affine],
    ) -> Result<Value, NestError> {
        let value = if let Some((mut body, memo)) = self.of_body.take() {
            let outer = std::mem::replace(&mut self.memo, memo);
            let value = self.element(&mut body, id, index, when);
            let memo = std::mem::replace(&mut self.memo, outer);
            let value = value?;
            // The epilogue reads the statistic itself, before rounding to the node's type.
            let statistic = if let Inst::Cast(wide) = body.insts[value].0 { wide } else { value };
            let dtype = body.dtype(statistic);
            self.of_body = Some((body, memo));
            program.push(Inst::Leaf(Leaf::OfBody(statistic)), dtype)
        } else {
            self.new_statistic(program, id, index, when)?
        };
        Ok(program.cast(value, self.graph.dtype(id)))
    }

    fn new_statistic(
        &mut self,
        program: &mut Program<Leaf>,
        id: NodeId,
        index: &[Affine],
        when: &[Affine],
    ) -> Result<Value, NestError> {
        let away = || NestError::Away { value: self.graph.value_name(id) };
        let form =
            row_form(self.graph, id).ok_or(NestError::Internal("a statistic of something else"))?;
        let end = self.sums.first().map_or(self.first_loop, |sum| sum.axes.start);
        let mut points = (self.free..end).filter(|&axis| self.axes[axis].extent != 1);
        let is_of_points = index.iter().any(|i| i.variables().any(|v| v >= self.free));
        if is_of_points || !when.is_empty() {
            return Err(away());
        }
        let mut values = index.to_vec();
        for axis in &form.reduction {
            let point = if axis.extent == 1 { None } else { Some(points.next().ok_or_else(away)?) };
            if point.is_some_and(|point| self.axes[point].extent != axis.extent) {
                return Err(away());
            }
            values.push(point.map_or(Affine::constant(0), Affine::var));
        }
        if points.next().is_some() {
            return Err(away());
        }
        self.aggregate(program, id, &form, &values)
    }

    /// Returns the index at which the body reads a statistic that the nest also writes.
    pub fn point_of_statistic(&self, id: NodeId) -> Option<Vec<Affine>> {
        let (_, elements) = self.of_body.as_ref().filter(|_| self.is_of_points(id))?;
        let mut known: Vec<&Vec<Affine>> =
            elements.keys().filter(|(node, ..)| *node == id).map(|(_, index, _)| index).collect();
        known.dedup();
        if let [index] = known[..] { Some(index.clone()) } else { None }
    }
}
