//! Contractions in a nest's programs: bodies at given indices, and inlined views at any place.

use crate::affine::Affine;
use crate::dtype::{DType, Scalar};
use crate::graph::{Aggregation, Contraction, ContractionLeaf, NodeId};
use crate::scalar::{BinaryOp, Inst, Program, Value};

use super::builder::Builder;
use super::gather::gather_node;
use super::{Leaf, Load, NestError};

impl<'a> Builder<'a> {
    /// Returns the value, at any index, of a contraction with at most one point a place. Its guards
    /// become conditions on its loads.
    pub fn view(
        &mut self,
        program: &mut Program<Leaf>,
        id: NodeId,
        op: &'a Contraction,
        index: &[Affine],
        when: &[Affine],
    ) -> Result<Value, NestError> {
        let form = gather_node(self.graph, id, op).ok_or_else(|| self.overflow())?;
        if form.empty {
            return self.unwritten(program, id, index, when);
        }
        if form.reduction.iter().any(|axis| axis.extent != 1) {
            return Err(NestError::Internal("a contraction with a reduction is inlined"));
        }
        // `index` gives its places, its reduction axes have the single value 0, and its derived
        // variables become variables of the nest.
        let mut values: Vec<Affine> = index.to_vec();
        values.resize(index.len() + form.reduction.len(), Affine::constant(0));
        for derived in &form.derived {
            let numerator =
                derived.numerator.substitute_all(&values).ok_or_else(|| self.overflow())?;
            values.push(self.derive(numerator, derived.denominator));
        }
        let here = |a: &Affine| a.substitute_all(&values);
        let indices: Option<Vec<Affine>> = form.indices.iter().map(here).collect();
        let guards: Option<Vec<Affine>> = form.guards.iter().map(here).collect();
        let (indices, guards) = indices.zip(guards).ok_or_else(|| self.overflow())?;
        let mut inner = when.to_vec();
        inner.extend(guards.iter().filter(|g| !when.contains(g)).cloned());
        let (value, _) = self.body(program, id, op, &indices, &inner)?;
        let zero_outside =
            !op.default && matches!(program.insts[value].0, Inst::Leaf(Leaf::Load(_)));
        let value = without_nan(program, op.aggregation, value);
        if guards.is_empty() || zero_outside {
            return Ok(value);
        }
        let mut inside: Option<Value> = None;
        for guard in guards {
            let position = program.push(Inst::Leaf(Leaf::Index(guard)), DType::I32);
            let zero = program.constant(Scalar::i32(0));
            let holds = program.binary(BinaryOp::Ge, position, zero);
            inside = Some(match inside {
                Some(others) => program.binary(BinaryOp::BitAnd, others, holds),
                None => holds,
            });
        }
        let otherwise = self.unwritten(program, id, index, when)?;
        match inside {
            Some(inside) => Ok(program.select(inside, value, otherwise)),
            None => Ok(value),
        }
    }

    /// Appends the body of a contraction with the index variables `indices`. Returns the value and,
    /// where it is not always true, the condition that the point counts.
    pub fn body(
        &mut self,
        program: &mut Program<Leaf>,
        id: NodeId,
        op: &'a Contraction,
        indices: &[Affine],
        when: &[Affine],
    ) -> Result<(Value, Option<Value>), NestError> {
        let operands = self.graph.operands(id);
        let mut values: Vec<Value> = Vec::with_capacity(op.accesses.len());
        let mut valid: Option<Value> = None;
        for access in &op.accesses {
            let operand = operands[access.operand];
            let affine: Option<Vec<Affine>> =
                access.index.iter().map(|i| i.affine.substitute_all(indices)).collect();
            let affine = affine.ok_or_else(|| self.overflow())?;
            if access.is_fixed() {
                values.push(self.element(program, operand, &affine, when)?);
                continue;
            }
            let (storage, window) = self.stored(operand)?;
            let window = window.reshaped(self.graph.shape(operand));
            let window =
                window.ok_or(NestError::Internal("a run-time index into a reshaped window"))?;
            let mut fixed = affine.clone();
            let mut dynamic = Vec::new();
            for (axis, index) in access.index.iter().enumerate() {
                let Some(read) = index.access else { continue };
                let size = self.graph.shape(operand)[axis];
                let (clamped, in_range) = clamped_index(program, values[read], &affine[axis], size);
                fixed[axis] = Affine::constant(0);
                dynamic.push((
                    clamped,
                    i64::try_from(window.strides[axis]).map_err(|_| self.overflow())?,
                ));
                valid = Some(match valid {
                    Some(others) => program.binary(BinaryOp::BitAnd, others, in_range),
                    None => in_range,
                });
            }
            let offset = window.position(&fixed, self.first_loop).ok_or_else(|| self.overflow())?;
            let load = Load {
                operand: self.operand_number(storage, &window),
                offset,
                dynamic,
                when: when.to_vec(),
            };
            values.push(program.push(Inst::Leaf(Leaf::Load(load)), self.graph.dtype(operand)));
        }
        let mut overflow = false;
        let results = program.append(&op.body, |program, leaf, dtype| match leaf {
            ContractionLeaf::Access(access) => values[*access],
            ContractionLeaf::Index(affine) => {
                let affine = affine.substitute_all(indices).unwrap_or_else(|| {
                    overflow = true;
                    Affine::constant(0)
                });
                program.push(Inst::Leaf(Leaf::Index(affine)), dtype)
            }
        });
        if overflow {
            return Err(self.overflow());
        }
        let counts = match (valid, results.get(1)) {
            (Some(a), Some(&b)) => Some(program.binary(BinaryOp::BitAnd, a, b)),
            (a, b) => a.or(b.copied()),
        };
        Ok((results[0], counts))
    }
}

/// Returns `value + offset` clamped to `0..size` as i32, and whether it was in range. `size` must
/// be at least 1.
fn clamped_index(
    program: &mut Program<Leaf>,
    mut value: Value,
    offset: &Affine,
    size: usize,
) -> (Value, Value) {
    const LIMIT: i64 = 1 << 30;
    if *offset != Affine::constant(0) {
        // Wider values are clamped to ±2^30 first, so that neither the cast nor the sum wraps into
        // range.
        if program.dtype(value).bits() > 31 {
            value = clamped(program, value, -LIMIT, LIMIT);
        }
        let offset = program.push(Inst::Leaf(Leaf::Index(offset.clone())), DType::I32);
        value = program.cast(value, DType::I32);
        value = program.binary(BinaryOp::Add, value, offset);
    } else if program.dtype(value).bits() < 32 {
        value = program.cast(value, DType::I32);
    }
    let within = clamped(program, value, 0, size.min(LIMIT as usize) as i64 - 1);
    let in_range = program.binary(BinaryOp::Eq, within, value);
    (program.cast(within, DType::I32), in_range)
}

/// Returns an integer clamped to a range within its type. `low` is at most 0, so that it does not
/// matter for unsigned types.
fn clamped(program: &mut Program<Leaf>, mut value: Value, low: i64, high: i64) -> Value {
    let dtype = program.dtype(value);
    if dtype.is_signed_integer() {
        let low = program.constant(Scalar::from_i64(dtype, low));
        value = program.binary(BinaryOp::Max, value, low);
    }
    let high = program.constant(Scalar::from_i64(dtype, high));
    program.binary(BinaryOp::Min, value, high)
}

/// Applies the aggregation's treatment of NaN to a single value: maxima and minima of floats ignore
/// NaN.
fn without_nan(program: &mut Program<Leaf>, aggregation: Aggregation, value: Value) -> Value {
    match aggregation.operation() {
        Some(op @ (BinaryOp::Max | BinaryOp::Min)) if program.dtype(value).is_float() => {
            let identity = program.constant(aggregation.identity(program.dtype(value)));
            program.binary(op, identity, value)
        }
        _ => value,
    }
}
