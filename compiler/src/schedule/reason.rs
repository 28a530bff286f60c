//! Explains in a sentence why a nest has its schedule.

use crate::native::Method;
use crate::nest::Nest;

use super::contraction::extents;
use super::{MatrixTiling, Schedule, Slicing, Tiling};

impl Schedule {
    /// Returns the reason why `nest` has this schedule.
    pub fn reason(&self, nest: &Nest) -> String {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let (places, points) = (nest.places(), nest.reduction_points());
        let sizes =
            format!("{points} point{} for {places} place{}", plural(points), plural(places));
        match self {
            Schedule::Native(method) => native_reason(method, nest, &sizes),
            Schedule::Pointwise { width, .. } => {
                let what = match nest.aggregation {
                    None => "nothing is aggregated".into(),
                    Some(_) => format!("{sizes}: an invocation for each place"),
                };
                match width {
                    1 => what,
                    _ => format!(
                        "{what}; {width} neighbours at a time are neighbours in memory, too"
                    ),
                }
            }
            Schedule::Reduction(Slicing { slices, .. }) => {
                format!("{sizes}: {slices} invocations for each place combine them in a tree")
            }
            Schedule::Rows { lanes, width, .. } => {
                let rows = places / nest.row_length().max(1);
                let [rows, columns] = [(rows, "row"), (nest.row_length(), "column")]
                    .map(|(count, noun)| format!("{count} {noun}{}", plural(count)));
                format!(
                    "statistics of {rows} of {columns}: {lanes} invocations for each row, {width} of its columns at a time"
                )
            }
            Schedule::Transform { .. } => {
                format!("{sizes}, times constants: an invocation for all places that share points")
            }
            Schedule::Contraction(tiling) => tiling.reason(nest),
            Schedule::Matrices(tiling) => tiling.reason(nest),
            Schedule::Attention(blocking) => {
                format!(
                    "{sizes}, which are made of products themselves: {} of these points at a time",
                    blocking.points
                )
            }
        }
    }
}

impl Tiling {
    fn reason(&self, nest: &Nest) -> String {
        let loads = 1.0 / f64::from(self.thread_rows) + 1.0 / f64::from(self.thread_columns);
        let what = tiled(nest, [self.block_rows, self.block_columns]);
        let ends = if nest.aggregates_into_rows() {
            "; a workgroup has whole rows, for their statistics"
        } else {
            ""
        };
        format!("{what}, with {loads:.2} loads from workgroup memory a multiply-add{ends}")
    }
}

impl MatrixTiling {
    fn reason(&self, nest: &Nest) -> String {
        let what = tiled(nest, [self.block_rows, self.block_columns]);
        let size = self.unit.size;
        format!("{what}, by the device's products of {size} x {size} {}", self.unit.factors)
    }
}

/// Describes the tiles, such as `4096 rows times 64 columns, in tiles that are 100% full`.
fn tiled(nest: &Nest, blocks: [u32; 2]) -> String {
    let Some(roles) = nest.roles() else { return "a sum of products".into() };
    let [rows, columns, ..] = extents(nest, &roles);
    let sizes = [rows, columns].into_iter().zip(blocks);
    let padded: usize = sizes.map(|(size, block)| size.next_multiple_of(block as usize)).product();
    let full = 100.0 * (rows * columns) as f64 / padded.max(1) as f64;
    format!("{rows} rows times {columns} columns, in tiles that are {full:.0}% full")
}

/// Returns the reason why a nest of these `sizes` has a native program of this kind.
fn native_reason(method: &Method, nest: &Nest, sizes: &str) -> String {
    match *method {
        Method::Pointwise { .. } if !nest.columns().is_empty() => {
            format!(
                "statistics of rows of {}: a row stays in the cache from one pass to the next",
                nest.row_length()
            )
        }
        Method::Pointwise { .. } => "nothing is aggregated".into(),
        Method::Update { row } => {
            format!(
                "nothing is aggregated: rows of {row} places stay as they are, or are written over"
            )
        }
        Method::Pieces { count } => {
            format!(
                "nothing is aggregated, and {count} parts of the places read different operands"
            )
        }
        Method::Winograd { window, tile } => {
            let [direct, side] =
                [window * tile, window + tile - 1].map(|side| (side * side) as f64);
            format!(
                "{window} x {window} taps at stride 1: {:.2} times fewer multiplications",
                direct / side
            )
        }
        Method::Product { rows, columns, .. } => {
            format!(
                "{rows} rows times {columns} columns: panels of both factors are packed for registers"
            )
        }
        Method::Direct { .. } => {
            format!("{sizes}, contiguous along the last axis: sums stay in registers")
        }
        Method::Scatter { .. } => {
            format!("{sizes}: each point selects its row, so that points are listed by row")
        }
        Method::Running { length } => {
            format!("{sizes}: each of {length} places adds one to those of the place before it")
        }
        Method::Reduction { across: true } => {
            format!("{sizes}: point by point, for a chunk of places at a time")
        }
        Method::Reduction { across: false } => {
            format!("{sizes}: place by place, for a chunk of points at a time")
        }
        Method::Attention { rows } => {
            format!(
                "{sizes}, which are made of products themselves: blocks of {rows} rows stay in the cache"
            )
        }
    }
}
