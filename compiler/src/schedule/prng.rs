//! PlaidML's random number generator: 2048 independent lanes, each a combined Tausworthe generator
//! with three 32-bit words.
//!
//! Source of the recurrences: P. L'Ecuyer, "Maximally equidistributed combined Tausworthe
//! generators" (1996), `taus88`.

use crate::dtype::{DType, Scalar};
use crate::kernel::{Builder, Expr, Kernel, Type};
use crate::scalar::BinaryOp;

use super::ScheduleError;

/// Lanes of the generator. Lane `i % LANES` computes element `i`.
pub const LANES: usize = 2048;

const WORKGROUP: u32 = 64;

/// Writes the kernel that computes `elements` numbers in `[0, 1]` from a state u32[3, 2048].
pub fn prng_value(name: &str, elements: usize) -> Result<Kernel, ScheduleError> {
    generator(name, elements, true)
}

/// Writes the kernel that computes the state after `elements` numbers.
pub fn prng_state(name: &str, elements: usize) -> Result<Kernel, ScheduleError> {
    generator(name, elements, false)
}

fn word(value: u32) -> Expr {
    Scalar::from_bits(DType::U32, value as u64).into()
}

fn generator(name: &str, elements: usize, values: bool) -> Result<Kernel, ScheduleError> {
    let mut builder = Builder::new(name, [WORKGROUP, 1, 1], [LANES as u32 / WORKGROUP, 1, 1]);
    let b = &mut builder;
    let state = b.read("state", Type::scalar(DType::U32), 3 * LANES);
    let out = match values {
        true => b.write("values", Type::scalar(DType::F32), elements),
        false => b.write("next", Type::scalar(DType::U32), 3 * LANES),
    };
    let lane = b.let_("lane", Expr::workgroup(0) * WORKGROUP as i32 + Expr::local(0));
    let words: Vec<Expr> = (0..3)
        .map(|w| b.var(&format!("s{w}"), Expr::load(state, lane.clone() + w * LANES as i32)))
        .collect();
    b.for_("element", &lane, elements as i32, LANES as u32, |b, element| {
        for (s, (mask, left, first, second)) in words.iter().zip(STEPS) {
            let high = s.clone().and(word(mask)).binary(BinaryOp::ShiftLeft, word(left));
            let low =
                s.clone().binary(BinaryOp::ShiftLeft, word(first)).binary(BinaryOp::BitXor, s);
            b.assign(
                s,
                high.binary(BinaryOp::BitXor, low.binary(BinaryOp::ShiftRight, word(second))),
            );
        }
        if values {
            let bits = words[0]
                .clone()
                .binary(BinaryOp::BitXor, &words[1])
                .binary(BinaryOp::BitXor, &words[2]);
            b.store(out, element, bits.cast(DType::F32) * Expr::from(2f32.powi(-32)));
        }
    });
    if !values {
        for (w, s) in words.iter().enumerate() {
            b.store(out, lane.clone() + (w * LANES) as i32, s);
        }
    }
    Ok(builder.finish()?)
}

/// The constants of the recurrence of each word: the mask of the kept bits, their shift, and the
/// two shifts of the feedback.
pub const STEPS: [(u32, u32, u32, u32); 3] =
    [(4294967294, 12, 13, 19), (4294967288, 4, 2, 25), (4294967280, 17, 3, 11)];
