//! A sequence of numbers without pattern: SplitMix64 (Steele, Lea and Flood, "Fast splittable
//! pseudorandom number generators", 2014).

/// A place in the sequence.
pub struct SplitMix64(u64);

impl SplitMix64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// Starts the sequence of a seed.
    pub fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// Starts the sequence `stream` of a seed. Both are mixed, so that adjacent ones do not give
    /// shifted sequences.
    #[cfg(feature = "train")]
    pub fn stream(seed: u64, stream: u64) -> SplitMix64 {
        let step = SplitMix64::STEP;
        SplitMix64(mix(mix(seed.wrapping_add(step)) ^ stream.wrapping_add(step)))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(SplitMix64::STEP);
        mix(self.0)
    }

    /// Returns a number below `bound`, which is at most 2^64. The high bits of the product are
    /// nearly uniform.
    pub fn below(&mut self, bound: u128) -> u128 {
        (u128::from(self.next()) * bound) >> 64
    }

    /// Returns an index below `count`, or 0 if that is 0.
    pub fn index(&mut self, count: usize) -> usize {
        self.below(count as u128) as usize
    }
}

/// Returns a number of which every bit depends on every bit of `z`.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
