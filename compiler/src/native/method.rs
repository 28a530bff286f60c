//! [`Method`]: the implementation of a native program in a few words.

use std::fmt;
use std::str::{FromStr, SplitWhitespace};

use super::direct::Form;
use super::program::{Implementation, NativeProgram};

/// The implementation of a native program, with its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Nothing is aggregated. At most `chunk` points are evaluated at a time.
    Pointwise {
        /// The most points of a chunk.
        chunk: usize,
    },
    /// Nothing is aggregated. The places are divided into this many pieces.
    Pieces {
        /// The number of pieces.
        count: usize,
    },
    /// Rows of `row` places, of which some are written over an operand.
    Update {
        /// The places of a row.
        row: usize,
    },
    /// A convolution in tiles of `tile` × `tile` results, for windows of side `window`.
    Winograd {
        /// The side of the window.
        window: usize,
        /// The side of a tile of results.
        tile: usize,
    },
    /// A packed matrix product. For each batch, `rows` × `columns` sums of `terms` terms.
    Product {
        /// The rows of each batch.
        rows: usize,
        /// The columns of each batch.
        columns: usize,
        /// The terms of each sum.
        terms: usize,
    },
    /// Tiles of vector registers over contiguous elements, with this form of operands.
    Direct {
        /// The form of the operands.
        form: Form,
    },
    /// Lists of points for each of `rows` rows.
    Scatter {
        /// The number of rows.
        rows: usize,
    },
    /// A running aggregate along an axis of `length` places.
    Running {
        /// The number of places along the axis.
        length: usize,
    },
    /// Sums of a chunk of places, point by point, if `across`; else of chunks of points, place by
    /// place.
    Reduction {
        /// Whether places are adjacent, not points.
        across: bool,
    },
    /// Attention in blocks of `rows` rows.
    Attention {
        /// The rows of a block.
        rows: usize,
    },
}

impl NativeProgram {
    /// Returns the implementation in a few words.
    pub fn method(&self) -> Method {
        match &self.implementation {
            Implementation::Pointwise => {
                Method::Pointwise { chunk: self.epilogue.longest.min(self.places()) }
            }
            Implementation::Update(update) => Method::Update { row: update.row },
            Implementation::Pieces(pieces) => Method::Pieces { count: pieces.len() },
            Implementation::Winograd(winograd) => {
                Method::Winograd { window: winograd.taps, tile: winograd.tile }
            }
            Implementation::Product(product) => Method::Product {
                rows: self.points(&product.rows),
                columns: self.points(&product.columns),
                terms: self.points(&product.terms),
            },
            Implementation::Direct(direct) => Method::Direct { form: direct.form },
            Implementation::Scatter(scatter) => Method::Scatter { rows: scatter.rows },
            Implementation::Running(running) => {
                Method::Running { length: self.extents[running.axis] }
            }
            Implementation::Reduction(reduction) => Method::Reduction { across: reduction.across },
            Implementation::Attention(attention) => {
                Method::Attention { rows: attention.blocks.first().map_or(0, |block| block.rows) }
            }
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::Pointwise { chunk } => write!(f, "pointwise chunk {chunk}"),
            Method::Update { row } => write!(f, "update row {row}"),
            Method::Pieces { count } => write!(f, "pieces {count}"),
            Method::Winograd { window, tile } => write!(f, "winograd window {window} tile {tile}"),
            Method::Product { rows, columns, terms } => {
                write!(f, "product {rows} by {columns} of {terms}")
            }
            Method::Direct { form } => write!(f, "direct {}", form.name()),
            Method::Scatter { rows } => write!(f, "scatter rows {rows}"),
            Method::Running { length } => write!(f, "running length {length}"),
            Method::Reduction { across } => {
                write!(f, "reduction {}", if *across { "across" } else { "along" })
            }
            Method::Attention { rows } => write!(f, "attention rows {rows}"),
        }
    }
}

impl Method {
    /// Reads the displayed form, up to its end.
    pub fn read(words: &mut SplitWhitespace) -> Option<Method> {
        let method = match words.next()? {
            "pointwise" => Method::Pointwise { chunk: after(words, "chunk")? },
            "update" => Method::Update { row: after(words, "row")? },
            "pieces" => Method::Pieces { count: words.next()?.parse().ok()? },
            "winograd" => {
                Method::Winograd { window: after(words, "window")?, tile: after(words, "tile")? }
            }
            "product" => {
                let rows = words.next()?.parse().ok()?;
                Method::Product { rows, columns: after(words, "by")?, terms: after(words, "of")? }
            }
            "direct" => {
                let name = words.next()?;
                Method::Direct { form: Form::ALL.into_iter().find(|form| form.name() == name)? }
            }
            "scatter" => Method::Scatter { rows: after(words, "rows")? },
            "running" => Method::Running { length: after(words, "length")? },
            "reduction" => match words.next()? {
                "across" => Method::Reduction { across: true },
                "along" => Method::Reduction { across: false },
                _ => return None,
            },
            "attention" => Method::Attention { rows: after(words, "rows")? },
            _ => return None,
        };
        Some(method)
    }
}

/// Returns the number after `word`, which must be next.
fn after<T: FromStr>(words: &mut SplitWhitespace, word: &str) -> Option<T> {
    (words.next()? == word).then(|| words.next()?.parse().ok())?
}
