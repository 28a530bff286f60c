//! PlaidML's random generator; see [`Op::PrngValue`](crate::graph::Op::PrngValue).

use crate::dtype::Scalar;
use crate::graph::PRNG_SHAPE;
use crate::tensor::{Tensor, TensorType};

use super::{Error, blank, copy};

const LANES: usize = PRNG_SHAPE[1];

/// Returns the three words of one lane after a step.
pub fn prng_step([a, b, c]: [u32; 3]) -> [u32; 3] {
    [
        ((a & !1) << 12) ^ (((a << 13) ^ a) >> 19),
        ((b & !7) << 4) ^ (((b << 2) ^ b) >> 25),
        ((c & !15) << 17) ^ (((c << 3) ^ c) >> 11),
    ]
}

fn lane(state: &Tensor, lane: usize) -> [u32; 3] {
    [0, 1, 2].map(|word| state.get(word * LANES + lane).bits() as u32)
}

/// Returns the elements that the generator produces from `state`.
pub(super) fn values(state: &Tensor, ty: &TensorType) -> Result<Tensor, Error> {
    let mut result = blank(ty)?;
    for first in 0..LANES.min(ty.elements()) {
        let mut words = lane(state, first);
        for position in (first..ty.elements()).step_by(LANES) {
            words = prng_step(words);
            let bits = words[0] ^ words[1] ^ words[2];
            result.set(position, Scalar::f32(bits as f32 * 2f32.powi(-32)));
        }
    }
    Ok(result)
}

/// Returns `state` after the generator produced `elements` elements.
pub(super) fn state(state: &Tensor, elements: usize) -> Result<Tensor, Error> {
    let mut result = copy(state, state.ty())?;
    for first in 0..LANES.min(elements) {
        let words =
            (first..elements).step_by(LANES).fold(lane(state, first), |words, _| prng_step(words));
        for (word, bits) in words.into_iter().enumerate() {
            result.set(word * LANES + first, Scalar::from_bits(state.dtype(), bits.into()));
        }
    }
    Ok(result)
}
