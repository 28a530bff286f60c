//! Conversion between a tensor in host memory and a device's storage, which may be wider: see
//! [`tile_compiler::profile::Profile::storage`]. Both are dense, row-major and little-endian.

use std::borrow::Cow;

use half::{bf16, f16};
use tile_compiler::dtype::DType;
use tile_compiler::tensor::{Tensor, TensorType};

use crate::cpu::copy::{self, converted, copied};
use crate::value::{Value, to_tensor, type_of};

/// Returns the elements as the device stores them. `None` if there is no such conversion, or no
/// memory for it.
pub fn to_storage(value: &dyn Value, storage: DType) -> Option<Cow<'_, [u8]>> {
    let bytes = match value.dense() {
        Some(bytes) => Cow::Borrowed(bytes),
        None => Cow::Owned(to_tensor(value)?.into_bytes()),
    };
    if value.dtype() == storage {
        return Some(bytes);
    }
    let is_wider = storage.size() > value.dtype().size();
    is_wider.then(|| convert(&bytes, value.dtype(), storage)).flatten().map(Cow::Owned)
}

/// Returns the elements, of type f32, in a 16-bit float type; or in their own type. One beyond the
/// range of that becomes the greatest that it has. `None` as for [`to_storage`].
pub fn rounded(value: &dyn Value, dtype: DType) -> Option<Cow<'_, [u8]>> {
    let bytes = to_storage(value, value.dtype())?;
    if value.dtype() == dtype {
        return Some(bytes);
    }
    // Clamping keeps NaNs.
    let within = |b: [u8; 4], most: f32| f32::from_le_bytes(b).clamp(-most, most);
    let (f16_most, bf16_most) = (f16::MAX.to_f32(), bf16::MAX.to_f32());
    match (value.dtype(), dtype) {
        (DType::F32, DType::F16) => {
            converted(&bytes, |b| f16::from_f32(within(b, f16_most)).to_le_bytes())
        }
        (DType::F32, DType::BF16) => {
            converted(&bytes, |b| bf16::from_f32(within(b, bf16_most)).to_le_bytes())
        }
        _ => None,
    }
    .map(Cow::Owned)
}

/// Writes the elements to the start of `to` as the device stores them. `None` as for
/// [`to_storage`].
pub fn store(value: &dyn Value, storage: DType, to: &mut [u8]) -> Option<()> {
    if value.dtype() == storage {
        let bytes = type_of(value).checked_bytes()?;
        value.copy_to(to.get_mut(..bytes)?);
    } else {
        let bytes = to_storage(value, storage)?;
        copy::copy(&bytes, to.get_mut(..bytes.len())?);
    }
    Some(())
}

/// Converts elements to a wider type of their kind, or to a narrower one.
fn convert(bytes: &[u8], from: DType, to: DType) -> Option<Vec<u8>> {
    match (from, to) {
        (DType::Bool, DType::U32) => converted(bytes, |[b]| u32::from(b != 0).to_le_bytes()),
        (DType::U8, DType::U32) => {
            converted(bytes, |b| u32::from(u8::from_le_bytes(b)).to_le_bytes())
        }
        (DType::U16, DType::U32) => {
            converted(bytes, |b| u32::from(u16::from_le_bytes(b)).to_le_bytes())
        }
        (DType::I8, DType::I32) => {
            converted(bytes, |b| i32::from(i8::from_le_bytes(b)).to_le_bytes())
        }
        (DType::I16, DType::I32) => {
            converted(bytes, |b| i32::from(i16::from_le_bytes(b)).to_le_bytes())
        }
        (DType::F16, DType::F32) => {
            converted(bytes, |b| f16::from_le_bytes(b).to_f32().to_le_bytes())
        }
        (DType::BF16, DType::F32) => {
            converted(bytes, |b| bf16::from_le_bytes(b).to_f32().to_le_bytes())
        }
        (DType::U32, DType::Bool) => converted(bytes, |b| [u8::from(u32::from_le_bytes(b) != 0)]),
        (DType::U32, DType::U8) => {
            converted(bytes, |b| (u32::from_le_bytes(b) as u8).to_le_bytes())
        }
        (DType::U32, DType::U16) => {
            converted(bytes, |b| (u32::from_le_bytes(b) as u16).to_le_bytes())
        }
        (DType::I32, DType::I8) => {
            converted(bytes, |b| (i32::from_le_bytes(b) as i8).to_le_bytes())
        }
        (DType::I32, DType::I16) => {
            converted(bytes, |b| (i32::from_le_bytes(b) as i16).to_le_bytes())
        }
        (DType::F32, DType::F16) => {
            converted(bytes, |b| f16::from_f32(f32::from_le_bytes(b)).to_le_bytes())
        }
        (DType::F32, DType::BF16) => {
            converted(bytes, |b| bf16::from_f32(f32::from_le_bytes(b)).to_le_bytes())
        }
        _ => None,
    }
}

/// Returns the tensor of type `ty` whose elements are at the start of `bytes`, stored as `storage`.
/// `None` if there is no such conversion, too few bytes, or no memory. Every stored value must be
/// representable in the narrower type.
pub fn from_storage(bytes: &[u8], storage: DType, ty: &TensorType) -> Option<Tensor> {
    let bytes = bytes.get(..ty.checked_elements()?.checked_mul(storage.size())?)?;
    let narrow = match ty.dtype == storage {
        true => copied(bytes),
        false => convert(bytes, storage, ty.dtype),
    };
    Tensor::from_bytes(ty.clone(), narrow?)
}

/// Writes the elements at the start of `bytes`, stored as `storage`, to `to`, which has exactly
/// their bytes as `dtype`. `None` as for [`from_storage`].
pub fn unstore(bytes: &[u8], storage: DType, dtype: DType, to: &mut [u8]) -> Option<()> {
    let bytes = bytes.get(..(to.len() / dtype.size()).checked_mul(storage.size())?)?;
    match dtype == storage {
        true => copy::copy(bytes, to),
        false => to.copy_from_slice(&convert(bytes, storage, dtype)?),
    }
    Some(())
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
                let (mut there, mut back) = (vec![7; stored.len() + 1], vec![7; tensor.bytes().len()]);
                store(&tensor, storage, &mut there).unwrap();
                unstore(&there, storage, dtype, &mut back).unwrap();
                prop_assert!(there[..stored.len()] == stored && back == narrow.bytes());
                for i in 0..bits.len() {
                    let (value, stored, back) = (tensor.get(i), wide.get(i), narrow.get(i));
                    prop_assert!(value.to_f64() == stored.to_f64() || value.to_f64().is_nan() && stored.to_f64().is_nan());
                    prop_assert!(value == back || value.to_f64().is_nan() && back.to_f64().is_nan());
                }
            }
        }
    }
}
