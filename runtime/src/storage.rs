//! Conversion between a tensor in host memory and a device's storage, which may be wider: see
//! [`tile_compiler::profile::Profile::storage`]. Both are dense, row-major and little-endian.

use std::borrow::Cow;

use half::{bf16, f16};
use tile_compiler::dtype::DType;
use tile_compiler::tensor::{Tensor, TensorType, with_room};

/// Returns the elements as the device stores them. `None` if there is no such conversion, or no
/// memory for it.
pub fn to_storage(tensor: &Tensor, storage: DType) -> Option<Cow<'_, [u8]>> {
    let bytes = tensor.bytes();
    Some(Cow::Owned(match (tensor.dtype(), storage) {
        (from, to) if from == to => return Some(Cow::Borrowed(bytes)),
        (DType::Bool, DType::U32) => convert(bytes, |[b]| u32::from(b != 0).to_le_bytes()),
        (DType::U8, DType::U32) => {
            convert(bytes, |b| u32::from(u8::from_le_bytes(b)).to_le_bytes())
        }
        (DType::U16, DType::U32) => {
            convert(bytes, |b| u32::from(u16::from_le_bytes(b)).to_le_bytes())
        }
        (DType::I8, DType::I32) => {
            convert(bytes, |b| i32::from(i8::from_le_bytes(b)).to_le_bytes())
        }
        (DType::I16, DType::I32) => {
            convert(bytes, |b| i32::from(i16::from_le_bytes(b)).to_le_bytes())
        }
        (DType::F16, DType::F32) => {
            convert(bytes, |b| f16::from_le_bytes(b).to_f32().to_le_bytes())
        }
        (DType::BF16, DType::F32) => {
            convert(bytes, |b| bf16::from_le_bytes(b).to_f32().to_le_bytes())
        }
        _ => None,
    }?))
}

/// Returns the tensor of type `ty` whose elements are at the start of `bytes`, stored as `storage`.
/// `None` if there is no such conversion, too few bytes, or no memory. Every stored value must be
/// representable in the narrower type.
pub fn from_storage(bytes: &[u8], storage: DType, ty: &TensorType) -> Option<Tensor> {
    let bytes = bytes.get(..ty.checked_elements()?.checked_mul(storage.size())?)?;
    let narrow = match (storage, ty.dtype) {
        (from, to) if from == to => {
            let mut copy: Vec<u8> = with_room(bytes.len())?;
            copy.extend_from_slice(bytes);
            Some(copy)
        }
        (DType::U32, DType::Bool) => convert(bytes, |b| [u8::from(u32::from_le_bytes(b) != 0)]),
        (DType::U32, DType::U8) => convert(bytes, |b| (u32::from_le_bytes(b) as u8).to_le_bytes()),
        (DType::U32, DType::U16) => {
            convert(bytes, |b| (u32::from_le_bytes(b) as u16).to_le_bytes())
        }
        (DType::I32, DType::I8) => convert(bytes, |b| (i32::from_le_bytes(b) as i8).to_le_bytes()),
        (DType::I32, DType::I16) => {
            convert(bytes, |b| (i32::from_le_bytes(b) as i16).to_le_bytes())
        }
        (DType::F32, DType::F16) => {
            convert(bytes, |b| f16::from_f32(f32::from_le_bytes(b)).to_le_bytes())
        }
        (DType::F32, DType::BF16) => {
            convert(bytes, |b| bf16::from_f32(f32::from_le_bytes(b)).to_le_bytes())
        }
        _ => None,
    };
    Tensor::from_bytes(ty.clone(), narrow?)
}

/// Converts each element of `A` bytes to one of `B` bytes. `None` if there is no memory for them.
fn convert<const A: usize, const B: usize>(
    bytes: &[u8],
    element: impl Fn([u8; A]) -> [u8; B],
) -> Option<Vec<u8>> {
    let mut result: Vec<u8> = with_room((bytes.len() / A).checked_mul(B)?)?;
    for chunk in bytes.chunks_exact(A) {
        let mut one = [0; A];
        one.copy_from_slice(chunk);
        result.extend_from_slice(&element(one));
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tile_compiler::dtype::Scalar;
    use tile_compiler::profile::Profile;

    use super::*;

    proptest! {
        /// A stored value equals its element, and converts back unchanged.
        #[test]
        fn storage_keeps_values(dtype in prop::sample::select(DType::ALL.to_vec()), bits in prop::collection::vec(any::<u64>(), 0..9)) {
            let ty = TensorType::new(dtype, [bits.len()]);
            let tensor = Tensor::from_scalars(ty.clone(), bits.iter().map(|&b| Scalar::from_bits(dtype, b))).unwrap();
            for profile in [Profile::cpu(), Profile::generic()] {
                let Some(storage) = profile.storage(dtype) else { continue };
                let stored = to_storage(&tensor, storage).unwrap().into_owned();
                let wide = Tensor::from_bytes(TensorType::new(storage, ty.shape.clone()), stored.clone()).unwrap();
                let narrow = from_storage(&stored, storage, &ty).unwrap();
                for i in 0..bits.len() {
                    let (value, stored, back) = (tensor.get(i), wide.get(i), narrow.get(i));
                    prop_assert!(value.to_f64() == stored.to_f64() || value.to_f64().is_nan() && stored.to_f64().is_nan());
                    prop_assert!(value == back || value.to_f64().is_nan() && back.to_f64().is_nan());
                }
            }
        }
    }
}
