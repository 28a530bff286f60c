//! Conversion between tensors and `ndarray`'s arrays.

use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};
use tile_compiler::dtype::DType;
use tile_compiler::tensor::{Tensor, TensorType, with_room};

/// A Rust type of tensor elements.
pub trait Element: Copy + sealed::Bytes {
    const DTYPE: DType;
}

mod sealed {
    pub trait Bytes: Sized {
        /// Appends the element, little-endian.
        fn write(self, bytes: &mut Vec<u8>);
        /// Reads the element at the start of `bytes`, which has at least its size.
        fn read(bytes: &[u8]) -> Self;
    }
}

macro_rules! elements {
    ($($t:ty = $dtype:ident),*) => { $(
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
        }

        impl sealed::Bytes for $t {
            fn write(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn read(bytes: &[u8]) -> Self {
                let mut raw = [0; size_of::<$t>()];
                raw.copy_from_slice(bytes);
                Self::from_le_bytes(raw)
            }
        }
    )* };
}
elements!(i8 = I8, i16 = I16, i32 = I32, i64 = I64, u8 = U8, u16 = U16, u32 = U32, u64 = U64);
elements!(half::f16 = F16, half::bf16 = BF16, f32 = F32, f64 = F64);

impl Element for bool {
    const DTYPE: DType = DType::Bool;
}

impl sealed::Bytes for bool {
    fn write(self, bytes: &mut Vec<u8>) {
        bytes.push(self as u8);
    }

    fn read(bytes: &[u8]) -> bool {
        bytes[0] != 0
    }
}

/// An array that can be copied to a tensor.
pub trait ToTensor {
    /// Copies the array to a tensor of its type and shape. `None` if there is no memory for it.
    fn to_tensor(&self) -> Option<Tensor>;
}

impl<T: Element, S: Data<Elem = T>, D: Dimension> ToTensor for ArrayBase<S, D> {
    fn to_tensor(&self) -> Option<Tensor> {
        let mut bytes: Vec<u8> = with_room(self.len().checked_mul(T::DTYPE.size())?)?;
        // The iterator follows the logical order, for any memory layout.
        self.iter().for_each(|&element| element.write(&mut bytes));
        Tensor::from_bytes(TensorType::new(T::DTYPE, self.shape()), bytes)
    }
}

/// A tensor that can be copied to an array.
pub trait ToArray {
    /// Copies the tensor to an array of its shape. `None` if its element type is not `T`.
    fn to_array<T: Element>(&self) -> Option<ArrayD<T>>;
}

impl ToArray for Tensor {
    fn to_array<T: Element>(&self) -> Option<ArrayD<T>> {
        if self.dtype() != T::DTYPE {
            return None;
        }
        let elements = self.bytes().chunks_exact(T::DTYPE.size()).map(T::read).collect();
        ArrayD::from_shape_vec(IxDyn(self.shape()), elements).ok()
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn arrays_and_tensors_hold_the_same() {
        let array = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
        let transposed = array.t().to_tensor().unwrap();
        assert_eq!(transposed, Tensor::from_f32([3, 2], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]).unwrap());
        assert_eq!(transposed.to_array::<f32>().unwrap(), array.t().into_dyn());
        assert_eq!(transposed.to_array::<i32>(), None);
        // A view may stretch one element to more than memory has.
        assert_eq!(array.broadcast([1 << 45, 2, 3]).unwrap().to_tensor(), None);
        assert_eq!(array![true, false].to_tensor().unwrap().bytes(), [1, 0]);
    }
}
