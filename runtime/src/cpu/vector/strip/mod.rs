//! Execution of chains. A chunk is processed row by row, and a row in strips of a few registers.
//! Each strip goes through all operations of the chain before the next strip begins.

mod apply;
mod code;
mod row;

pub use apply::prefetch_all;
pub use code::{ChunkPointer, Code, Op};

use super::lanes::MOST_LANES;
use super::level::{self, Level, level};
#[cfg(target_arch = "aarch64")]
use super::register::F32x4;
use super::register::Portable;
#[cfg(target_arch = "x86_64")]
use super::register::{F32x8, F32x16};
#[cfg(target_arch = "x86_64")]
use super::{Avx2, Avx512};
use row::strips;
use tile_compiler::scalar::UnaryOp;

/// The alignment, in bytes, that non-temporal stores need: the size of the widest register.
pub const ALIGNED: usize = MOST_LANES * size_of::<f32>();

/// Runs a chain's operations over `rows` rows of `length` elements, on the values at `from`. The
/// places in `ops` are unspecified afterwards.
///
/// # Safety
/// An *elementwise* place has one number for each of the chunk's `rows * length` elements, a *row*
/// place a register of [`MOST_LANES`] numbers for each row.
/// - Elementwise operand (`from`, `a`, `b`): readable for all elements, of f32, or of bytes for
///   conditions and for operations on bytes.
/// - `from` is [`ChunkPointer::NONE`] if the first operation, other than prefetches, takes a value.
/// - Row operand: readable for a register in each row, and not written by any operation.
/// - `keep`, `b` of a comparison, `a` of [`Code::KeepPast`] and [`Code::KeepBytes`]: elementwise,
///   and writable for all elements.
/// - `a` of an aggregate: a row place, readable and writable for a register in each row.
/// - `b` of an aggregate: writable for one f32 in each row. It may overlap elements of this row and
///   of rows before it, which the chain has finished by then.
/// - `a` and `b` of an aggregate are aligned to 4 bytes.
/// - Aliasing: an element that is written may overlap other elementwise places at the same element
///   only.
/// - [`Code::KeepPast`]: the place is aligned to [`ALIGNED`] bytes, and rows, if there are several,
///   have whole registers. Nobody reads the elements before a [`fence`].
/// - [`Code::Fetch`], [`Code::FetchToWrite`]: any address.
pub unsafe fn run(from: ChunkPointer, ops: &mut [Op], length: usize, rows: usize) {
    #[cfg(test)]
    if let Some(set) = super::emulated::Emulated::current() {
        // SAFETY: the contract is that of `run`.
        return unsafe { tests::emulated(set)((), from, ops, length, rows) };
    }
    // SAFETY: the contract is that of `run`.
    unsafe {
        match level() {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(proof) => avx512(proof, from, ops, length, rows),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(proof) => avx2(proof, from, ops, length, rows),
            #[cfg(target_arch = "aarch64")]
            Level::Neon(proof) => strips::<F32x4>(proof, from, ops, length, rows),
            Level::Baseline => strips::<Portable<f32, 4>>((), from, ops, length, rows),
        }
    }
}

#[cfg(target_arch = "x86_64")]
level::avx512! {
    /// Runs [`strips`] with AVX-512.
    ///
    /// # Safety
    /// The contract of [`run`].
    unsafe fn avx512(proof: Avx512, from: ChunkPointer, ops: &mut [Op], length: usize, rows: usize) {
        // SAFETY: the contract is the same.
        unsafe { strips::<F32x16>(proof, from, ops, length, rows) }
    }
}

#[cfg(target_arch = "x86_64")]
level::avx2! {
    /// Runs [`strips`] with AVX2.
    ///
    /// # Safety
    /// The contract of [`run`].
    unsafe fn avx2(proof: Avx2, from: ChunkPointer, ops: &mut [Op], length: usize, rows: usize) {
        // SAFETY: the contract is the same.
        unsafe { strips::<F32x8>(proof, from, ops, length, rows) }
    }
}

/// Orders this thread's non-temporal stores before all of its later stores.
pub fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it only waits, and every x86-64 processor has it.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Computes `out = op(x)` for functions that are implemented here. Returns false for others and
/// leaves `out` unchanged.
pub fn unary(op: UnaryOp, x: &[f32], out: &mut [f32]) -> bool {
    let code = match op {
        UnaryOp::Exp => Code::Exp,
        UnaryOp::Tanh => Code::Tanh,
        UnaryOp::Erf => Code::Erf,
        UnaryOp::Sigmoid => Code::Sigmoid,
        _ => return false,
    };
    let from = ChunkPointer::elements(x.as_ptr().cast_mut().cast());
    let to = ChunkPointer::elements(out.as_mut_ptr().cast());
    let op = Op { keep: to, ..Op::new(code, ChunkPointer::NONE, ChunkPointer::NONE) };
    // SAFETY: both places are elementwise with this many f32s, `out` is writable, and the two
    // slices do not overlap.
    unsafe { run(from, &mut [op], x.len().min(out.len()), 1) };
    true
}

#[cfg(test)]
mod tests;
