//! Checks that positions along axes fit i32, in which operations compute them.

use super::{Aggregation, Contraction, ContractionLeaf, Op};
use crate::affine::Affine;
use crate::tensor::TensorType;

/// Maximum extent of an axis with run-time indices. Nests clamp such indices in i32 and add offsets
/// to them.
const LONGEST: usize = 1 << 30;

impl Op {
    /// Checks that i32 can represent every position that the operation computes. `ty` is the type
    /// of the result. Errors are one sentence.
    pub fn verify_positions(
        &self,
        ty: &TensorType,
        operands: &[&TensorType],
    ) -> Result<(), String> {
        match self {
            Op::Index { axis } => match ty.shape.get(*axis) {
                Some(&size) if i32::try_from(size).is_err() => {
                    Err(format!("an axis of {size} has more places than an i32 can number"))
                }
                _ => Ok(()),
            },
            Op::Contraction(contraction) => contraction.verify_positions(operands),
            _ => Ok(()),
        }
    }
}

impl Contraction {
    fn verify_positions(&self, operands: &[&TensorType]) -> Result<(), String> {
        let arg = matches!(self.aggregation, Aggregation::ArgMax | Aggregation::ArgMin);
        if arg && self.searched() > i128::from(i32::MAX) {
            return Err("this searches more places than an i32 can number".into());
        }
        if !self.body.leaves().all(|leaf| match leaf {
            ContractionLeaf::Index(affine) => self.fits(affine),
            ContractionLeaf::Access(_) => true,
        }) {
            return Err("this computes with indices that an i32 cannot hold".into());
        }
        for access in &self.accesses {
            let Some(operand) = operands.get(access.operand) else { continue };
            for (index, &size) in access.index.iter().zip(&operand.shape) {
                if index.access.is_some() && (size > LONGEST || !self.fits(&index.affine)) {
                    return Err(format!(
                        "an index known at run time reaches {LONGEST} places, and this axis has {size}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns whether i32 can represent every value of an expression of the variables.
    fn fits(&self, affine: &Affine) -> bool {
        let ranges: Vec<(i64, i64)> =
            self.indices.iter().map(|i| (i.low, i.high.max(i.low + 1) - 1)).collect();
        affine
            .bounds(&ranges)
            .is_some_and(|(low, high)| i32::try_from(low).is_ok() && i32::try_from(high).is_ok())
    }

    /// Returns the position of a point among those of its place: row-major in the ranges of the
    /// variables that `output` does not mention. `indices` has each variable in other ones. `None`
    /// if it overflows.
    pub fn position(&self, indices: &[Affine]) -> Option<Affine> {
        let mut position = Affine::constant(0);
        for (variable, range) in self.indices.iter().enumerate() {
            if self.output.iter().all(|place| place.coefficient(variable) == 0) {
                let digit = indices[variable].sub(&Affine::constant(range.low))?;
                position = position.scale(range.high - range.low)?.add(&digit)?;
            }
        }
        Some(position)
    }

    /// Returns the number of positions of the variables that `output` does not mention.
    pub fn searched(&self) -> i128 {
        let searched = |v: &usize| self.output.iter().all(|affine| affine.coefficient(*v) == 0);
        let extents = (0..self.indices.len())
            .filter(searched)
            .map(|v| self.indices[v].high - self.indices[v].low);
        extents.fold(1, |product: i128, extent| product.saturating_mul(extent.into()))
    }
}
