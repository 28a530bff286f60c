//! **IR 3**, native programs, for processors. A [`NativeProgram`] is a nest with the decisions
//! made: its implementation, the order of operations, the registers, the operations that are
//! joined, the points that are evaluated at a time. A runtime only executes it, on as many threads
//! as it has.
//!
//! # Implementations
//!
//! The roles and sizes of the nest's axes decide which [`Implementation`] computes the values that
//! the epilogue reads:
//!
//! - [`Product`]: a sum of products of two factors, floats or 8-bit integers, by a packed matrix
//!   product.
//! - [`Winograd`]: convolutions with windows of 3 × 3 and 5 × 5, with fewer multiplications.
//! - [`Direct`]: a short reduction over elements that are contiguous along the last axis, in tiles
//!   of vector registers.
//! - [`Scatter`]: a reduction whose points compute the place that they contribute to, by lists of
//!   points.
//! - [`Running`]: an aggregation over the points up to each place, such as a cumulative sum.
//! - [`Reduction`]: any other reduction, by vector loops.
//! - [`Attention`]: a nest with inner sums, in stages over blocks of rows. Each stage is a program.
//! - Pointwise: nothing is aggregated.
//! - [`Update`]: nothing is aggregated, and only rows for which a condition holds are written over
//!   an operand. Rows are those of the innermost axes.
//! - Pieces: nothing is aggregated, and parts of the places read different operands. Each
//!   [`Piece`] is a program of its own.
//!
//! Every other implementation but attention ends with the epilogue, whose results go to the
//! positions of the [outputs](NativeOutput). Addresses of factors ([`Address`]) are affine
//! expressions over the nest's axes: a runtime makes tables of them, or follows them.
//!
//! # Tapes
//!
//! A [`Tape`] is a scalar program of a nest over one [`Space`] of points: the places of an
//! epilogue, or the places or reduction points of a body. A machine runs it over a chunk of points
//! at a time, one vector operation for each step.
//!
//! ## Values and registers
//!
//! Values have the numbers that they have in the nest's program. The negated terms of a fused
//! epilogue come after these. A *register* is a buffer of bytes that has room for the elements of
//! the longest chunk. The first two are for the caller of the tape: [`ACCUMULATOR`] has the
//! aggregated values of an epilogue's places, and [`WRITTEN`] whether any point counted there.
//!
//! A value has a register in one of four ways:
//! - A *constant* has a register of its own, filled with a scalar.
//! - A *given* value is in one of the first two registers, or in memory that the caller lends.
//! - A *steady* value repeats after a number of points, its *period*, because only the innermost
//!   axes decide it. Its step runs once, over one period, and its own register has room for the
//!   period beside the longest chunk.
//! - Any other value is made by a step for each chunk. Its register is used again after its last
//!   reader.
//!
//! ## Steps
//!
//! - `load` reads an operand at an affine address, plus run-time indices times strides. The value
//!   is 0 where a condition is negative. An i64 may be loaded as an i32 that saturates to
//!   `-LIMIT..=LIMIT`. Contiguous elements are read in place, and the register
//!   stays unused. An operand that an output overwrites is read in place only if its last reader
//!   runs before the output is stored.
//! - `index` computes an affine expression, as i32.
//! - Unary, binary, comparing, selecting and casting steps apply a scalar operation elementwise.
//! - A *statistic* aggregates a value over each row of the chunk.
//! - A [`Chain`] is several of these steps in one pass, on a value `x` in vector registers.
//!
//! A [`Fused`] tape runs as one pass of a fixed form instead of step by step, if the caller lends
//! the accumulated values.
//!
//! ## Addresses
//!
//! Addresses and conditions are [`Lines`]: affine expressions over the nest's variables, with the
//! longest pieces of the space along which each has a constant step.
//!
//! # Always true
//!
//! - A step reads values that an earlier step makes, or that are constant, given or steady.
//! - A step's register is none of those that it reads. No register is used again before the last
//!   reader of its value. A choice counts as a reader of its two values for as long as its own
//!   value is read, because it may be an alias of either.
//! - A chain reads only values that are made before it, and values that it has stored itself.
//! - If the tape has statistics, or elements or run-time indices of whole rows, chunks consist of
//!   whole rows.
//! - Registers have room for the longest chunk, operands have the types that are read, and the
//!   pieces of addresses follow from their expressions.
//! - The spaces of a program have the extents of its axes, and its tapes name its variables. A
//!   result has the type of its output.
//! - The shorter stages of an attention's block compute the first points of its other stages: their
//!   products have the same rows, and the first columns or terms, in the same order.
//! - Outputs may be stored as soon as they are computed (`direct`) only if all loads of the operand
//!   that they overwrite come before.

mod address;
mod analysis;
mod attention;
mod blocks;
mod chain;
mod code;
mod direct;
mod fused;
mod method;
mod parse;
mod pieces;
mod product;
mod program;
mod reduction;
mod running;
mod scaled;
mod scatter;
mod space;
mod step;
mod tape;
#[cfg(test)]
mod tests;
mod text;
mod update;
mod verify;
mod winograd;
mod words;

pub use address::Address;
pub use attention::{Attention, Block, Shorter, Stages};
pub use blocks::{PANEL_ROW_BYTES, ProductBlocks};
pub use chain::{Chain, Move};
pub use code::{Code, Relation, WordOp};
pub use direct::{Direct, Form};
pub use fused::{Fused, Term};
pub use method::Method;
pub use pieces::Piece;
pub use product::{Factor, Product, QUAD};
pub use program::{Implementation, NativeOutput, NativeProgram, Position};
pub use reduction::Reduction;
pub use running::Running;
pub use scaled::{ScaledDots, Zero};
pub use scatter::Scatter;
pub use space::{Lines, Space, Variables};
pub use step::{Action, Reader, TapeStep};
pub use tape::{ACCUMULATOR, CHUNK, Tape, WRITTEN};
pub use update::Update;
pub use winograd::{Side, Winograd};
pub use words::LIMIT;
