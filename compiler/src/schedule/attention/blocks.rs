//! [`Blocks`]: the blocks of an attention kernel in workgroup memory, and the products of them.

use crate::dtype::{DType, Scalar};
use crate::kernel::{Builder, Expr, Type};
use crate::schedule::contraction::{Block, multiply};
use crate::schedule::point::Point;
use crate::schedule::staging::{Side, Slots, Staged};
use crate::schedule::{Blocking, ScheduleError};

/// The blocks in workgroup memory, and what an invocation stages of them.
pub(super) struct Blocks<'a, 'b> {
    t: &'b Blocking,
    point: &'b Point<'a>,
    lane: &'b Expr,
    /// The row and the column of the invocation in the workgroup.
    pub at: [&'b Expr; 2],
    /// The operands of each score, left and right, and their arrays.
    scores: Vec<Side<'a>>,
    arrays: Vec<usize>,
    /// The slots of each left operand: its rows are those of the block.
    of_rows: Vec<Slots<'a>>,
    /// The left operand of the product: its array and lanes, and the elements of a point.
    weights: usize,
    lanes: u32,
    pitch: u32,
    /// The right operand of the product.
    pub value: Side<'a>,
    values: usize,
    of_columns: Slots<'a>,
    /// The array with one value for each row and invocation across.
    pub partial: usize,
}

impl<'a, 'b> Blocks<'a, 'b> {
    pub fn declare(
        b: &mut Builder,
        t: &'b Blocking,
        point: &'b Point<'a>,
        block: &Block<'b>,
        lane: &'b Expr,
        scores: Vec<Side<'a>>,
        value: Side<'a>,
    ) -> Blocks<'a, 'b> {
        let float = |lanes: u32| Type::vector(DType::F32, lanes as u8);
        let threads = t.invocations();
        let [lanes, ..] = block.lanes;
        let arrays = scores.iter().map(|side| side.declare(b, DType::F32, 1)).collect();
        let pitch = t.rows / lanes;
        let weights = b.shared("weights", float(lanes), (pitch * t.points) as usize);
        let values = value.declare(b, DType::F32, 1);
        let partial = b.shared("partial", float(1), (t.rows * t.threads()[1]) as usize);
        let [first_row, first_column] = block.first;
        let of_rows = scores
            .iter()
            .step_by(2)
            .map(|side| side.slots(b, point, lane, threads, first_row))
            .collect();
        let of_columns = value.slots(b, point, lane, threads, first_column);
        let at = block.at;
        Blocks {
            t,
            point,
            lane,
            at,
            scores,
            arrays,
            of_rows,
            weights,
            lanes,
            pitch,
            value,
            values,
            of_columns,
            partial,
        }
    }

    /// Computes a tile of scores in registers: of the invocation's rows, and of its points in the
    /// block that begins with point `first`. Returns the lanes of its vectors, too.
    pub fn scores(
        &self,
        b: &mut Builder,
        number: usize,
        depth: usize,
        first: &Expr,
    ) -> Result<(Vec<Vec<Expr>>, u32), ScheduleError> {
        let (t, [y, x], [down, across]) = (self.t, self.at, self.t.threads());
        let (left, right) = (&self.scores[2 * number], &self.scores[2 * number + 1]);
        let [left_array, right_array] = [self.arrays[2 * number], self.arrays[2 * number + 1]];
        let of_points = right.slots(b, self.point, self.lane, t.invocations(), first);
        let tile = zeros(b, t.thread_rows, t.thread_points / right.lanes, right.lanes);
        b.for_("depth", 0, depth as i32, t.depth, |b, depth| -> Result<(), ScheduleError> {
            left.stage(b, &self.of_rows[number], left_array, &depth)?;
            right.stage(b, &of_points, right_array, &depth)?;
            b.barrier();
            let staged = [
                left.staged(left_array, 0.into(), y, t.thread_rows, down),
                right.staged(right_array, 0.into(), x, t.thread_points, across),
            ];
            multiply(b, &tile, &staged, t.depth);
            b.barrier();
            Ok(())
        })?;
        Ok((tile, right.lanes))
    }

    /// Stores the invocation's weights, point by point, where all invocations read them. Its points
    /// are in vectors of `lanes`.
    pub fn store_weights(&self, b: &mut Builder, weights: &[Vec<Expr>], lanes: u32) {
        let ([y, x], [down, across]) = (self.at, self.t.threads());
        for (point, column) in weights.iter().enumerate() {
            let (c, within) = (point as u32 / lanes, point as u32 % lanes);
            let local = (x.clone() + (c * across) as i32) * lanes as i32 + within as i32;
            for (group, rows) in (0..).zip(column.chunks(self.lanes as usize)) {
                let word = local.clone() * self.pitch as i32 + y + (group * down) as i32;
                b.store_shared(self.weights, word, Expr::vector(rows.to_vec()));
            }
        }
    }

    /// Adds to the tile of sums the products of the block's weights with the right operand, whose
    /// block begins with point `first`.
    pub fn add_products(
        &self,
        b: &mut Builder,
        tile: &[Vec<Expr>],
        first: &Expr,
    ) -> Result<(), ScheduleError> {
        let (t, [y, x], [down, across]) = (self.t, self.at, self.t.threads());
        let columns = tile[0].len() as u32 * self.value.lanes;
        b.for_("slice", 0, t.points as i32, t.slice(), |b, slice| -> Result<(), ScheduleError> {
            let start = b.let_("start", first.clone() + &slice);
            self.value.stage(b, &self.of_columns, self.values, &start)?;
            b.barrier();
            let left = Staged {
                array: self.weights,
                lanes: self.lanes,
                pitch: self.pitch,
                first: slice * self.pitch as i32 + y,
                count: t.thread_rows,
                stride: down,
                deep: None,
            };
            multiply(
                b,
                tile,
                &[left, self.value.staged(self.values, 0.into(), x, columns, across)],
                t.slice(),
            );
            b.barrier();
            Ok(())
        })
    }
}

/// Declares a tile of zeros in registers.
pub(super) fn zeros(b: &mut Builder, rows: u32, vectors: u32, lanes: u32) -> Vec<Vec<Expr>> {
    let zero = Expr::from(Scalar::f32(0.0)).splat(lanes as u8);
    (0..rows)
        .map(|r| (0..vectors).map(|c| b.var(&format!("acc_{r}_{c}"), &zero)).collect())
        .collect()
}
