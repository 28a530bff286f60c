//! Addresses in a nest's programs: elements in memory, through windows and reshapes.

use crate::affine::Affine;
use crate::graph::NodeId;
use crate::scalar::{Inst, Program, Value};

use super::builder::Builder;
use super::{Leaf, Load, NestError, Window, derived_number};

impl Builder<'_> {
    /// Returns the node under a chain of reshapes and its window in memory.
    pub fn stored(&self, id: NodeId) -> Result<(NodeId, Window), NestError> {
        let id = self.graph.storage(id);
        if self.is_member(id) {
            return Err(NestError::Away { value: self.graph.value_name(id) });
        }
        (self.memory)(id)
            .map(|window| (id, window))
            .ok_or(NestError::Internal("what must be in memory is not"))
    }

    /// Returns the row-major position of an element in the node's shape.
    pub fn row_major(&self, id: NodeId, index: &[Affine]) -> Result<Affine, NestError> {
        Window::whole(&self.graph.node(id).ty)
            .position(index, self.first_loop)
            .ok_or_else(|| self.overflow())
    }

    /// Returns the position in memory of the window's element at a row-major position.
    pub fn position_of(
        &mut self,
        window: &Window,
        row_major: &Affine,
    ) -> Result<Affine, NestError> {
        let first_loop = self.first_loop;
        let position = window.position_of(row_major, first_loop, &mut |numerator, denominator| {
            self.quotient(numerator, denominator)
        });
        position.ok_or_else(|| self.overflow())
    }

    /// Returns `floor(numerator / denominator)`. The terms that are multiples of the denominator
    /// divide exactly. If the bounds show that the other terms have quotient 0, the result is an
    /// expression of existing variables; otherwise it is a derived variable.
    fn quotient(&mut self, numerator: &Affine, denominator: i64) -> Option<Affine> {
        let (whole, rest): (Vec<_>, Vec<_>) = numerator
            .terms()
            .iter()
            .copied()
            .partition(|(_, coefficient)| coefficient % denominator == 0);
        let offset = numerator.offset().div_euclid(denominator);
        let rest = Affine::new(rest, numerator.offset() - offset * denominator)?;
        let mut bounds: Vec<(i64, i64)> =
            self.axes.iter().map(|a| (0, a.extent as i64 - 1)).collect();
        for derived in &self.derived {
            let (low, high) = derived.numerator.bounds(&bounds)?;
            bounds
                .push((low.div_euclid(derived.denominator), high.div_euclid(derived.denominator)));
        }
        match rest.bounds(&bounds)? {
            (low, high) if low >= 0 && high < denominator => Affine::new(
                whole.into_iter().map(|(v, coefficient)| (v, coefficient / denominator)),
                offset,
            ),
            _ => Some(self.derive(numerator.clone(), denominator)),
        }
    }

    /// Returns the index, in a node's shape, of the element at a row-major position.
    pub fn index_of(&mut self, id: NodeId, row_major: &Affine) -> Result<Vec<Affine>, NestError> {
        let shape = self.graph.shape(id);
        let mut index = vec![Affine::constant(0); shape.len()];
        let mut rest = row_major.clone();
        for axis in (0..shape.len()).rev() {
            let size = i64::try_from(shape[axis]).map_err(|_| self.overflow())?;
            let outer = match (axis, size) {
                (0, _) => Some(Affine::constant(0)),
                (_, 1) => Some(rest.clone()),
                _ => self.quotient(&rest, size),
            };
            let own = outer.and_then(|outer| Some((rest.sub(&outer.scale(size)?)?, outer)));
            (index[axis], rest) = own.ok_or_else(|| self.overflow())?;
        }
        Ok(index)
    }

    pub fn operand_number(&mut self, id: NodeId, window: &Window) -> usize {
        self.operands.iter().position(|(operand, _)| *operand == id).unwrap_or_else(|| {
            self.operands.push((id, window.tensor.clone()));
            self.operands.len() - 1
        })
    }

    pub fn load(
        &mut self,
        program: &mut Program<Leaf>,
        id: NodeId,
        window: &Window,
        offset: Affine,
        when: &[Affine],
    ) -> Value {
        let operand = self.operand_number(id, window);
        let load = Load { operand, offset, dynamic: Vec::new(), when: when.to_vec() };
        program.push(Inst::Leaf(Leaf::Load(load)), self.graph.dtype(id))
    }

    pub fn derive(&mut self, numerator: Affine, denominator: i64) -> Affine {
        Affine::var(self.axes.len() + derived_number(&mut self.derived, numerator, denominator))
    }
}
