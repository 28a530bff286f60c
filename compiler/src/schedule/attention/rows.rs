//! [`Rows`]: the running statistics and sums of an invocation's rows in an attention kernel.

use crate::dtype::Scalar;
use crate::kernel::{Builder, Expr};
use crate::nest::{Attention, Leaf, Nest};
use crate::profile::Profile;
use crate::scalar::{BinaryOp, Inst, UnaryOp, Value};
use crate::schedule::contraction::extents;
use crate::schedule::point::Point;
use crate::schedule::staging::vector_of;
use crate::schedule::values::Values;
use crate::schedule::{Blocking, ScheduleError};

use super::blocks::{Blocks, zeros};

/// The finite minimum of the running maximum: exp(-inf - LOWEST) is 0, whereas exp(-inf - -inf)
/// would be NaN.
const LOWEST: f32 = f32::MIN;

/// The state of an invocation's rows during the iteration over the points.
pub(super) struct Rows<'a> {
    nest: &'a Nest,
    profile: &'a Profile,
    parts: &'a Attention,
    t: &'a Blocking,
    /// The array in workgroup memory with one value for each row and invocation across.
    partial: usize,
    /// The row and the column of the invocation in the workgroup.
    at: [Expr; 2],
    /// The running maxima, by row.
    tops: Vec<Expr>,
    /// The running sums of each sum statistic over the invocation's own points, by row.
    sums: Vec<Vec<Expr>>,
    /// The accumulators of the product.
    pub tile: Vec<Vec<Expr>>,
}

impl<'a> Rows<'a> {
    /// Declares the running maxima and sums, and the accumulators.
    pub fn declare(
        b: &mut Builder,
        parts: &'a Attention,
        t: &'a Blocking,
        blocks: &Blocks<'a, '_>,
        point: &Point<'a>,
    ) -> Result<Rows<'a>, ScheduleError> {
        let (nest, profile) = (point.nest, point.profile);
        let [_, columns, ..] = extents(nest, &parts.roles);
        let lanes = blocks.value.lanes;
        let mut state = Rows {
            nest,
            profile,
            parts,
            t,
            partial: blocks.partial,
            at: blocks.at.map(Expr::clone),
            tops: Vec::new(),
            sums: Vec::new(),
            tile: zeros(b, t.thread_rows, t.thread_columns(columns) / lanes, lanes),
        };
        if parts.top.is_some() {
            let least = Values { b, profile, lanes: 1 }.constant(Scalar::f32(f32::NEG_INFINITY))?;
            state.tops = (0..t.thread_rows).map(|_| b.var("top", &least)).collect();
        }
        for _ in &parts.sums {
            state.sums.push((0..t.thread_rows).map(|_| b.var("sum", Scalar::f32(0.0))).collect());
        }
        Ok(state)
    }

    /// Computes the left operand at the invocation's rows, for each of its points, from the scores
    /// of the block whose first point is `first`. Updates the running maxima, rescales what has
    /// been summed, and adds to the sum statistics.
    pub fn weights(
        &mut self,
        b: &mut Builder,
        first: &Expr,
        rows: &[Point<'a>],
        tiles: &[(Vec<Vec<Expr>>, u32)],
        point: &Point<'a>,
    ) -> Result<Vec<Vec<Expr>>, ScheduleError> {
        let Attention { roles, top, sums, .. } = self.parts;
        let (nest, body) = (self.nest, &self.nest.body);
        let [_, _, count, _] = extents(nest, roles);
        let [_, across] = self.t.threads();
        let lanes = tiles[0].1;
        let mut points: Vec<Vec<Point>> = Vec::new();
        let mut inside = Vec::new();
        for number in 0..self.t.thread_points {
            let (c, within) = (number / lanes, number % lanes);
            let index = (self.at[1].clone() + (c * across) as i32) * lanes as i32 + within as i32;
            let index = b.let_("point", first + index);
            let is_whole = count.is_multiple_of(self.t.points as usize);
            inside.push(if is_whole {
                true.into()
            } else {
                b.let_("inside", index.clone().lt(count as i32))
            });
            let index =
                if is_whole { index } else { index.binary(BinaryOp::Min, count as i32 - 1) };
            let mut of_point = point.clone();
            of_point.set_position(b, &roles.reduction, &index);
            let mut column = Vec::new();
            for (r, row) in rows.iter().enumerate() {
                let mut at = row.clone();
                at.share(b, &of_point, &roles.reduction);
                for (value, (inst, _)) in body.insts.enumerate() {
                    if let Inst::Leaf(Leaf::Inner(inner)) = inst {
                        let score = &tiles[*inner].0[r][c as usize];
                        at.known[value] = Some(if lanes == 1 {
                            score.clone()
                        } else {
                            score.clone().lane(within as u8)
                        });
                    }
                }
                column.push(at);
            }
            points.push(column);
        }
        if let &Some(top) = top {
            self.raise(b, top, &mut points, &inside)?;
        }
        for (value, sums) in sums.iter().zip(&self.sums) {
            let Inst::Leaf(Leaf::Statistic(_, of)) = body.insts[*value].0 else { continue };
            for (r, sum) in sums.iter().enumerate() {
                let mut all = sum.clone();
                for (column, inside) in points.iter().zip(&inside) {
                    all = all + self.value(b, &column[r], of, inside)?;
                }
                b.assign(sum, all);
            }
        }
        let mut factors = Vec::new();
        for (column, inside) in points.iter().zip(&inside) {
            let column = column.iter().map(|at| self.value(b, at, roles.left, inside));
            factors.push(column.collect::<Result<Vec<Expr>, ScheduleError>>()?);
        }
        Ok(factors)
    }

    /// Updates the running maxima with the block's scores, and rescales the sums and the
    /// accumulators.
    fn raise(
        &mut self,
        b: &mut Builder,
        top: Value,
        points: &mut [Vec<Point>],
        inside: &[Expr],
    ) -> Result<(), ScheduleError> {
        let Inst::Leaf(Leaf::Statistic(_, of)) = self.nest.body.insts[top].0 else {
            return Err(ScheduleError::Internal("a top of nothing"));
        };
        let least = Values { b, profile: self.profile, lanes: 1 }
            .constant(Scalar::f32(f32::NEG_INFINITY))?;
        for r in 0..self.tops.len() {
            let mut most = least.clone();
            for (column, inside) in points.iter_mut().zip(inside) {
                let at = &mut column[r];
                let value = at.values(b, &self.nest.body, &[of], None)?[of].clone();
                at.known[of] = Some(value.clone());
                let value = if inside.as_bool() == Some(true) {
                    value
                } else {
                    inside.clone().select(value, &least)
                };
                most = b.let_("most", most.binary(BinaryOp::Max, value));
            }
            b.store_shared(self.partial, self.place(r as u32, None), most);
        }
        b.barrier();
        let [_, across] = self.t.threads();
        let higher: Vec<Expr> = self.tops.iter().map(|top| b.var("higher", top)).collect();
        b.for_("other", 0, across as i32, 1, |b, other| {
            for (r, higher) in higher.iter().enumerate() {
                let of_other = Expr::load_shared(self.partial, self.place(r as u32, Some(&other)));
                b.assign(higher, higher.clone().binary(BinaryOp::Max, of_other));
            }
        });
        for (r, higher) in higher.into_iter().enumerate() {
            let [old, new] = [&self.tops[r], &higher].map(|top| {
                b.let_("finite", top.clone().binary(BinaryOp::Max, Scalar::f32(LOWEST)))
            });
            let less = b.let_("scale", (old - &new).unary(UnaryOp::Exp));
            b.assign(&self.tops[r], &higher);
            points.iter_mut().for_each(|column| column[r].known[top] = Some(new.clone()));
            self.sums.iter().for_each(|sums| b.assign(&sums[r], sums[r].clone() * &less));
            for sum in &self.tile[r] {
                let lanes = b.ty(sum).map_or(1, |ty| ty.lanes);
                b.assign(sum, sum.clone() * less.clone().splat(lanes));
            }
        }
        Ok(())
    }

    /// Computes a value of the body, or 0 if the point is not `inside`.
    fn value(
        &self,
        b: &mut Builder,
        at: &Point,
        value: Value,
        inside: &Expr,
    ) -> Result<Expr, ScheduleError> {
        let code = at.values(b, &self.nest.body, &[value], None)?[value].clone();
        let is_always = inside.as_bool() == Some(true);
        Ok(if is_always {
            code
        } else {
            b.let_("counted", inside.clone().select(code, Scalar::f32(0.0)))
        })
    }

    /// Combines the statistics of each row, so that every invocation across has them.
    pub fn totals(&self, b: &mut Builder) -> Result<Vec<Vec<(Value, Expr)>>, ScheduleError> {
        let [_, across] = self.t.threads();
        let mut known = vec![Vec::new(); self.t.thread_rows as usize];
        if let Some(top) = self.parts.top {
            self.tops
                .iter()
                .enumerate()
                .for_each(|(r, highest)| known[r].push((top, highest.clone())));
        }
        for (&value, sums) in self.parts.sums.iter().zip(&self.sums) {
            for (r, sum) in sums.iter().enumerate() {
                b.store_shared(self.partial, self.place(r as u32, None), sum);
            }
            b.barrier();
            let totals: Vec<Expr> = sums.iter().map(|_| b.var("total", Scalar::f32(0.0))).collect();
            b.for_("other", 0, across as i32, 1, |b, other| {
                for (r, total) in totals.iter().enumerate() {
                    let of_other =
                        Expr::load_shared(self.partial, self.place(r as u32, Some(&other)));
                    b.assign(total, total.clone() + of_other);
                }
            });
            b.barrier();
            totals.into_iter().enumerate().for_each(|(r, total)| known[r].push((value, total)));
        }
        Ok(known)
    }

    /// Returns the address of the partial value of row `r` of the tile: the invocation's own, or
    /// that of another invocation across.
    fn place(&self, r: u32, other: Option<&Expr>) -> Expr {
        let [down, across] = self.t.threads();
        let lanes = vector_of(self.t.thread_rows);
        let row =
            (self.at[0].clone() + (r / lanes * down) as i32) * lanes as i32 + (r % lanes) as i32;
        row * across as i32 + other.unwrap_or(&self.at[1])
    }
}
