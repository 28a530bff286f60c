//! The roles of axes in a sum of products of two factors, which map a contraction onto a matrix
//! product.

use crate::affine::Affine;
use crate::dense::Dense;
use crate::dtype::DType;
use crate::graph::Aggregation;
use crate::scalar::{BinaryOp, Inst, Program, Value};

use super::{Inner, Leaf, Nest, Table, operands};

/// A sum over `reduction` of `left * right`, where `left` depends on no column and `right` on no
/// row.
///
/// A guard that fails replaces its factors by 0. A term that does not count thus becomes 0 times
/// the other factor, which is 0 unless that factor is infinite or NaN. The cpu device computes such
/// sums again, but not in Winograd's algorithm; shaders leave them NaN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Free axes of both factors, or of neither.
    pub batch: Vec<usize>,
    /// Free axes of the left factor alone.
    pub rows: Vec<usize>,
    /// Free axes of the right factor alone.
    pub columns: Vec<usize>,
    /// The reduction axes.
    pub reduction: Vec<usize>,
    /// The left factor, a value of the nest's body.
    pub left: Value,
    /// The right factor, a value of the nest's body.
    pub right: Value,
    /// The guards that depend on no column, and consequences of others that protect the left
    /// factor's addresses. Where they hold, it can be read.
    pub left_guards: Vec<Affine>,
    /// The same for the right factor: the guards depend on no row.
    pub right_guards: Vec<Affine>,
}

impl Roles {
    /// Returns the roles of the product with its factors in the other order.
    pub fn swapped(self) -> Roles {
        Roles {
            rows: self.columns,
            columns: self.rows,
            left: self.right,
            right: self.left,
            left_guards: self.right_guards,
            right_guards: self.left_guards,
            ..self
        }
    }
}

impl Nest {
    /// Returns the roles of the axes if the nest is a sum of products.
    pub fn roles(&self) -> Option<Roles> {
        if self.aggregation != Some(Aggregation::Sum) || self.tracks_written() {
            return None;
        }
        let [result] = self.body.results[..] else { return None };
        let (Inst::Binary(BinaryOp::Mul, left, right), dtype) = self.body.insts[result] else {
            return None;
        };
        // For bools `+` is or and `*` is and, but users of roles multiply and add.
        if dtype == DType::Bool {
            return None;
        }
        let dependencies = self.dependencies(&self.body);
        let (of_left, of_right) = (&dependencies[left], &dependencies[right]);
        let mut roles = Roles {
            batch: Vec::new(),
            rows: Vec::new(),
            columns: Vec::new(),
            reduction: self.reduction().collect(),
            left,
            right,
            left_guards: Vec::new(),
            right_guards: Vec::new(),
        };
        for axis in 0..self.free {
            match (of_left[axis], of_right[axis]) {
                (true, false) => roles.rows.push(axis),
                (false, true) => roles.columns.push(axis),
                _ => roles.batch.push(axis),
            }
        }
        for guard in &self.guards {
            if self.depends_on_any(guard, &roles.rows) && self.depends_on_any(guard, &roles.columns)
            {
                return None;
            }
        }
        roles.left_guards = self.factor_guards(left, &roles.columns)?;
        roles.right_guards = self.factor_guards(right, &roles.rows)?;
        // Row statistics aggregate over the nest's columns, so these must be the columns of the
        // product.
        if self.aggregates_into_rows() && self.columns().eq(roles.rows.iter().copied()) {
            return Some(roles.swapped());
        }
        Some(roles)
    }

    /// Returns, for each value of a program, whether it depends on each axis.
    pub fn dependencies(&self, program: &Program<Leaf>) -> Dense<Value, Vec<bool>> {
        let mut of: Dense<Value, Vec<bool>> = Dense::with_capacity(program.insts.len());
        for (inst, _) in &program.insts {
            let mut axes = vec![false; self.axes.len()];
            match inst {
                Inst::Leaf(Leaf::Index(affine) | Leaf::Table(Table { offset: affine, .. })) => {
                    self.depend(affine, &mut axes);
                }
                Inst::Leaf(Leaf::Load(load)) => {
                    load.when.iter().chain([&load.offset]).for_each(|a| self.depend(a, &mut axes));
                }
                Inst::Leaf(Leaf::Accumulator | Leaf::Written) => axes[..self.free].fill(true),
                Inst::Leaf(Leaf::OfBody(value)) => {
                    axes.clone_from(&self.dependencies(&self.body)[*value])
                }
                Inst::Leaf(Leaf::Inner(number)) => {
                    let Inner { axes: own, body } = &self.inner[*number];
                    axes = body
                        .results
                        .iter()
                        .fold(axes, |axes, &result| either(axes, &self.dependencies(body)[result]));
                    axes[own.clone()].fill(false);
                }
                _ => {}
            }
            for operand in operands(inst) {
                axes = either(axes, &of[operand]);
            }
            if let Inst::Leaf(Leaf::Statistic(..)) = inst {
                axes[self.columns()].fill(false);
                axes[self.reduction()].fill(false);
            }
            of.push(axes);
        }
        of
    }

    /// Marks the axes on which an expression depends, directly or through derived variables.
    pub(super) fn depend(&self, affine: &Affine, axes: &mut [bool]) {
        for variable in affine.variables() {
            match variable.checked_sub(self.axes.len()) {
                None => axes[variable] = true,
                Some(number) => self.depend(&self.derived[number].numerator, axes),
            }
        }
    }
}

fn either(mut a: Vec<bool>, b: &[bool]) -> Vec<bool> {
    a.iter_mut().zip(b).for_each(|(a, &b)| *a |= b);
    a
}
