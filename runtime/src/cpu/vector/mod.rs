//! Arithmetic on this processor's vector units, without threads and without nests.
//!
//! [`register`] is one register behind a trait that every instruction set implements, [`quad`] has
//! registers of 8-bit integers, and [`lanes`] adds what f32 needs beyond products. [`elementary`]
//! has exp, tanh and the like, on scalars and on registers. [`number`] and [`narrow`] define the
//! element types and each scalar operation on them. On these stand the loops over chunks of
//! elements: `operation`, `gather` and `aggregate` run one operation at a time, `scaled` sums
//! products with scaled integers, and [`strip`] runs a whole chain of operations in registers.
//! [`level`](level()) says which instructions there are, and gives the proof that registers carry.

mod aggregate;
pub mod elementary;
#[cfg(test)]
pub mod emulated;
mod gather;
#[expect(unsafe_code, reason = "instructions of vector units")]
pub mod lanes;
#[cfg_attr(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    expect(unsafe_code, reason = "features are detected and then relied on")
)]
pub mod level;
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "functions compiled for a vector unit")
)]
mod narrow;
pub mod number;
mod operation;
#[expect(unsafe_code, reason = "instructions of vector units")]
pub mod quad;
#[expect(unsafe_code, reason = "instructions of vector units")]
pub mod register;
mod running;
#[expect(unsafe_code, reason = "instructions of vector units")]
mod scaled;
#[expect(unsafe_code, reason = "chains read and write at addresses")]
pub mod strip;
mod typed;

pub use aggregate::{
    Best, NOWHERE, Segment, accumulate, accumulate_f32, accumulate_segments, best_of, best_of_rows,
    combine, dots, first_within, fold, fold_f32, fold_rows, take_each,
};
pub use gather::{
    add_moves, copy_short, exchange, gather_moved, gather_rows, gather_strided, gather_table,
};
#[cfg(target_arch = "aarch64")]
pub use level::Neon;
#[cfg(target_arch = "x86_64")]
pub use level::{Avx2, Avx512, Avx512Vnni, AvxVnni};
pub use level::{Level, is_fused, level};
pub use operation::{
    binary, binary_f32, binary_scalar, cast, compare, count, from_f32, reciprocal, saturate,
    select, spread, to_f32, unary, unary_f32,
};
pub use running::{Line, run_along, run_along_f32};
pub use scaled::{Row, scaled_dot};
