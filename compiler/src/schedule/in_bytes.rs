//! Reads of operands that are in bytes: 8-bit integers, of which a buffer's word has four.

use super::point::Point;
use super::values::Values;
use crate::dtype::DType;
use crate::kernel::{Builder, Expr};
use crate::nest::Load;
use crate::scalar::BinaryOp;

/// The 8-bit integers in a word.
pub(super) const BYTES: u8 = 4;

impl Point<'_> {
    /// Returns the element or vector of an operand with this number.
    pub fn read(&self, b: &mut Builder, load: &Load, element: Expr) -> Expr {
        if !self.buffers.in_bytes[load.operand] {
            return Expr::load(load.operand, element);
        }
        let lanes = self.buffers.lanes[load.operand];
        let in_word = u32::from(BYTES / lanes);
        let element = b.let_("element", element);
        let word = Expr::load(load.operand, element.clone().quotient(in_word));
        let word = b.let_("word", word).splat(lanes);
        let first = element.remainder(in_word) * 8 * lanes as i32;
        let bits = |distance: &dyn Fn(i32) -> Expr| {
            Expr::vector((0..lanes as i32).map(|lane| distance(8 * lane)).collect())
        };
        let values = Values { b, profile: self.profile, lanes };
        if self.nest.operands[load.operand].dtype == DType::U8 {
            let low = bits(&|at| first.clone() + at).cast(DType::U32);
            return word.binary(BinaryOp::ShiftRight, low).and(values.u32(0xff));
        }
        // The sign comes from the highest bit.
        let above = bits(&|at| Expr::from(24 - at) - first.clone());
        let high = word.bitcast(DType::I32).binary(BinaryOp::ShiftLeft, above);
        high.binary(BinaryOp::ShiftRight, values.i32(24))
    }
}
