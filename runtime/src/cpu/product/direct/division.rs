//! The division of a block of places into pieces in which the same taps count.

use super::kernel::Tap;
use super::{Direct, PlaneOffset};
use std::ops::Range;

/// The most taps that the pieces of the divisions have together. They take some megabytes.
pub const MOST_LISTED: usize = 1 << 20;

/// Lines × rows × columns of a plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub lines: Range<usize>,
    pub rows: Range<usize>,
    pub columns: Range<usize>,
}

impl Block {
    pub fn places(&self) -> usize {
        self.lines.len() * self.rows.len() * self.columns.len()
    }

    /// Returns the block as part of one that begins at line 0.
    fn of_first_lines(&self) -> Self {
        Self { lines: 0..self.lines.len(), ..self.clone() }
    }
}

/// A part of a block, with the range of its taps among all of the division.
pub struct Piece {
    pub block: Block,
    pub taps: Range<usize>,
}

/// The pieces of a block.
pub struct Division {
    /// The block as part of one that begins at line 0, and the values of the conditions there
    /// without the terms of taps: they decide the pieces.
    block: Block,
    conditions: Vec<i64>,
    /// The pieces, also as parts of a block that begins at line 0.
    pub pieces: Vec<Piece>,
    /// The taps of all pieces.
    pub taps: Vec<Tap>,
}

/// The divisions that a thread has made. Most blocks share a few.
#[derive(Default)]
pub struct Divisions {
    all: Vec<Division>,
    /// The taps of all.
    listed: usize,
}

/// The values of the conditions at the first place of a block, without the terms of taps. A value
/// that is large enough for all places and taps is replaced by the least such value, so that most
/// blocks have the same ones. Returns none if all are.
pub fn conditions_of(direct: &Direct, starts: &[i64], block: &Block) -> Option<Vec<i64>> {
    let least = |range: &Range<usize>, coefficient: i64| {
        coefficient * if coefficient > 0 { range.start as i64 } else { range.end as i64 - 1 }
    };
    let mut all = true;
    let values = starts.iter().zip(&direct.conditions).map(|(start, condition)| {
        let PlaneOffset { line, row, along, .. } = condition.offset;
        let enough = -condition.least
            - least(&(0..block.lines.len()), line)
            - least(&block.rows, row)
            - least(&block.columns, along);
        let value = start + line * block.lines.start as i64;
        all &= value >= enough;
        value.min(enough)
    });
    let values = values.collect();
    (!all).then_some(values)
}

impl Divisions {
    /// Returns the pieces of a block, in which the conditions have these values.
    pub fn divide(&mut self, direct: &Direct, block: &Block, conditions: Vec<i64>) -> &Division {
        let block = block.of_first_lines();
        let found = self
            .all
            .iter()
            .position(|division| division.block == block && division.conditions == conditions);
        let number = found.unwrap_or_else(|| {
            let division = Division::new(direct, block, conditions);
            if self.listed + division.taps.len() > MOST_LISTED {
                *self = Self::default();
            }
            self.listed += division.taps.len();
            self.all.push(division);
            self.all.len() - 1
        });
        &self.all[number]
    }
}

impl Division {
    fn new(direct: &Direct, block: Block, conditions: Vec<i64>) -> Self {
        let mut division = Self { block, conditions, pieces: Vec::new(), taps: Vec::new() };
        let Block { lines, rows, columns } = division.block.clone();
        let all: Vec<usize> = (0..direct.taps.len()).collect();
        for (lines, in_lines) in division.cut(direct, Axis::Lines, [0; 2], &lines, &all) {
            let line = lines.start;
            for (rows, in_rows) in division.cut(direct, Axis::Rows, [line, 0], &rows, &in_lines) {
                let start = [line, rows.start];
                for (columns, taps) in
                    division.cut(direct, Axis::Columns, start, &columns, &in_rows)
                {
                    let first = division.taps.len();
                    division.taps.extend(taps.iter().map(|&tap| direct.taps[tap]));
                    let block = Block { lines: lines.clone(), rows: rows.clone(), columns };
                    division.pieces.push(Piece { block, taps: first..division.taps.len() });
                }
            }
        }
        division
    }

    /// Cuts a range of an axis into pieces in which the same of `taps` count, as far as the
    /// conditions tell that move along this axis or one before, but none after. `start` is the line
    /// and row at which it lies. Pieces of axes that a later axis' conditions depend on have length
    /// 1.
    fn cut(
        &self,
        direct: &Direct,
        axis: Axis,
        [line, row]: [usize; 2],
        range: &Range<usize>,
        taps: &[usize],
    ) -> Vec<(Range<usize>, Vec<usize>)> {
        let is_slanted = direct.conditions.iter().any(|condition| {
            let of_axis = axis.coefficient(&condition.offset) != 0;
            of_axis && Axis::last(&condition.offset) > axis
        });
        let mut pieces = Vec::new();
        let mut position = range.start;
        while position < range.end {
            let (mut counting, mut end) = (taps.to_vec(), range.end);
            for (start, condition) in self.conditions.iter().zip(&direct.conditions) {
                let offset = &condition.offset;
                if Axis::last(offset) != axis {
                    continue;
                }
                let before = match axis {
                    Axis::Lines => 0,
                    Axis::Rows => offset.line * line as i64,
                    Axis::Columns => offset.line * line as i64 + offset.row * row as i64,
                };
                let coefficient = axis.coefficient(offset);
                let here = start + before + coefficient * position as i64;
                counting.retain(|&tap| {
                    let value = here + condition.taps[tap];
                    // The number of positions until the sign changes.
                    let change = match (value >= 0, coefficient) {
                        (false, 1..) => (coefficient - 1 - value) / coefficient,
                        (true, ..0) => value / -coefficient + 1,
                        _ => i64::MAX,
                    };
                    let change = usize::try_from(change).unwrap_or(usize::MAX);
                    end = end.min(position.saturating_add(change));
                    value >= 0
                });
            }
            let end = if is_slanted { position + 1 } else { end };
            pieces.push((position..end, counting));
            position = end;
        }
        pieces
    }
}

/// An axis of a plane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Axis {
    Lines,
    Rows,
    Columns,
}

impl Axis {
    fn coefficient(self, offset: &PlaneOffset) -> i64 {
        match self {
            Axis::Lines => offset.line,
            Axis::Rows => offset.row,
            Axis::Columns => offset.along,
        }
    }

    /// Returns the last axis along which an expression moves, or that of lines.
    fn last(offset: &PlaneOffset) -> Self {
        [Axis::Columns, Axis::Rows]
            .into_iter()
            .find(|axis| axis.coefficient(offset) != 0)
            .unwrap_or(Axis::Lines)
    }
}
