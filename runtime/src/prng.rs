//! PlaidML's random generator on the cpu device: see [`tile_compiler::graph::Op::PrngValue`].

use tile_compiler::graph::PRNG_SHAPE;
use tile_compiler::interpret::prng_step;

const LANES: usize = PRNG_SHAPE[1];

/// Writes the `elements` f32 values generated from the state in the first operand. `None` if a
/// buffer is missing or too small.
pub fn values(operands: &[&[u8]], outputs: &mut [&mut [u8]], elements: usize) -> Option<()> {
    let state = operands.first()?;
    let values = outputs.first_mut()?.get_mut(..elements.checked_mul(4)?)?;
    for first in 0..LANES.min(elements) {
        let mut words = lane(state, first)?;
        for position in (first..elements).step_by(LANES) {
            words = prng_step(words);
            let value = (words[0] ^ words[1] ^ words[2]) as f32 * 2f32.powi(-32);
            values[4 * position..][..4].copy_from_slice(&value.to_le_bytes());
        }
    }
    Some(())
}

/// Writes the state after generating `elements` values from the state in the first operand. `None`
/// as for [`values`].
pub fn state(operands: &[&[u8]], outputs: &mut [&mut [u8]], elements: usize) -> Option<()> {
    let state = operands.first()?;
    let next = outputs.first_mut()?;
    for first in 0..LANES {
        let words =
            (first..elements).step_by(LANES).fold(lane(state, first)?, |words, _| prng_step(words));
        for (word, bits) in words.into_iter().enumerate() {
            next.get_mut(4 * (word * LANES + first)..)?
                .get_mut(..4)?
                .copy_from_slice(&bits.to_le_bytes());
        }
    }
    Some(())
}

/// Returns the three words of a lane.
fn lane(state: &[u8], lane: usize) -> Option<[u32; 3]> {
    let word = |word: usize| {
        Some(u32::from_le_bytes(*state.get(4 * (word * LANES + lane)..)?.first_chunk()?))
    };
    Some([word(0)?, word(1)?, word(2)?])
}
