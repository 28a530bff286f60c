//! Random values for inputs without any. The same seed, name and type give the same tensor on every
//! machine.

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType};

/// Returns floats uniform in -1..1, integers in 0..10, or bools. `None` if the size exceeds the
/// address space.
pub fn random(ty: TensorType, name: &str, seed: u64) -> Option<Tensor> {
    let dtype = ty.dtype;
    let count = ty.checked_elements()?;
    // Each input has its own sequence, so an additional input does not change the others.
    let mut state = name.bytes().fold(mix(seed), |hash, byte| mix(hash ^ u64::from(byte)));
    let values = (0..count).map(|_| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = mix(state) >> 40;
        match dtype {
            DType::Bool => Scalar::bool(bits & 1 == 1),
            d if d.is_float() => Scalar::from_f64(d, bits as f64 / (1u64 << 23) as f64 - 1.0),
            d => Scalar::from_i64(d, (bits % 10) as i64),
        }
    });
    Tensor::from_scalars(ty, values)
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014). Every bit of the result depends on
/// every bit of `z`.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_and_in_range() {
        let floats = random(TensorType::new(DType::F32, [1000]), "X", 1).unwrap().to_f64s();
        assert!(floats.iter().all(|v| (-1.0..1.0).contains(v)));
        assert!((floats.iter().sum::<f64>() / 1000.0).abs() < 0.05);
        let integers = random(TensorType::new(DType::U8, [6]), "X", 1).unwrap();
        assert_eq!(integers.to_f64s(), [4.0, 4.0, 9.0, 9.0, 6.0, 8.0]);
        assert_ne!(integers, random(TensorType::new(DType::U8, [6]), "Y", 1).unwrap());
        assert_ne!(integers, random(TensorType::new(DType::U8, [6]), "X", 2).unwrap());
    }
}
