//! Conversion between tensors and `ndarray`'s arrays, and arrays as inputs and outputs of sessions.

use ndarray::{
    ArrayBase, ArrayD, ArrayView, ArrayViewD, ArrayViewMut, Axis, Data, DataMut, Dimension, IxDyn,
};
use tile_compiler::dtype::DType;
use tile_compiler::tensor::Tensor;

use crate::cpu::copy;
pub use crate::value::Element;
use crate::value::{self, Destination, Value, View};

/// An array that can be copied to a tensor.
pub trait ToTensor {
    /// Copies the array to a tensor of its type and shape. `None` if there is no memory for it.
    fn to_tensor(&self) -> Option<Tensor>;
}

impl<T: Element, S: Data<Elem = T>, D: Dimension> ToTensor for ArrayBase<S, D>
where
    Self: Sync,
{
    fn to_tensor(&self) -> Option<Tensor> {
        value::to_tensor(self)
    }
}

impl<T: Element, S: Data<Elem = T>, D: Dimension> Value for ArrayBase<S, D>
where
    Self: Sync,
{
    fn dtype(&self) -> DType {
        T::DTYPE
    }

    fn shape(&self) -> &[usize] {
        ArrayBase::shape(self)
    }

    fn dense(&self) -> Option<&[u8]> {
        self.as_slice().map(T::bytes)
    }

    fn copy_to(&self, bytes: &mut [u8]) {
        let from = self.view().into_dyn();
        // Threads copy parts along the first axis that has several.
        let Some(axis) = from.shape().iter().position(|&size| size > 1).map(Axis) else {
            return copy_elements(from, bytes);
        };
        let size = from.len_of(axis);
        let each = bytes.len() / size;
        if each == 0 {
            return;
        }
        // Rows of a transposed array share cache lines, so that a part has at least some.
        let rows = (PART / each).clamp(1, size).next_multiple_of(16);
        copy::in_parts(bytes, each * rows, |at, part| {
            let rows = at / each..(at + part.len()) / each;
            copy_elements(from.slice_axis(axis, rows.into()), part);
        });
    }
}

/// The bytes of the parts that threads copy.
const PART: usize = 1 << 18;

/// Copies elements in row-major order to the bytes of as many.
fn copy_elements<T: Element>(from: ArrayViewD<T>, bytes: &mut [u8]) {
    if let Some(elements) = from.as_slice() {
        return bytes.copy_from_slice(T::bytes(elements));
    }
    match T::slice_mut(bytes).map(|to| ArrayViewMut::from_shape(from.raw_dim(), to)) {
        // This goes along the axis whose elements are next to each other.
        Some(Ok(mut to)) => to.assign(&from),
        _ => {
            for (element, bytes) in from.iter().zip(bytes.chunks_exact_mut(size_of::<T>())) {
                bytes.copy_from_slice(T::bytes(std::slice::from_ref(element)));
            }
        }
    }
}

impl<T: Element, S: DataMut<Elem = T>, D: Dimension> Destination for ArrayBase<S, D> {
    fn dtype(&self) -> DType {
        T::DTYPE
    }

    fn shape(&self) -> Option<&[usize]> {
        Some(ArrayBase::shape(self))
    }

    fn elements(&self) -> usize {
        self.len()
    }

    fn dense(&mut self) -> Option<&mut [u8]> {
        self.as_slice_mut().and_then(T::bytes_mut)
    }

    fn copy_from(&mut self, bytes: &[u8]) {
        match T::slice(bytes).map(|from| ArrayView::from_shape(self.raw_dim(), from)) {
            Some(Ok(from)) => self.assign(&from),
            _ => {
                for (element, bytes) in self.iter_mut().zip(bytes.chunks_exact(size_of::<T>())) {
                    *element = T::read(bytes);
                }
            }
        }
    }
}

/// A tensor, or an output of a session, as an array.
pub trait ToArray {
    /// Copies the elements to an array of the same shape. `None` if their type is not `T`, or there
    /// is no memory for them.
    fn to_array<T: Element>(&self) -> Option<ArrayD<T>>;

    /// Returns the elements where they are, as an array. `None` if their type is not `T`.
    fn as_array<T: Element>(&self) -> Option<ArrayViewD<'_, T>>;
}

impl ToArray for Tensor {
    fn to_array<T: Element>(&self) -> Option<ArrayD<T>> {
        View { ty: self.ty(), bytes: self.bytes() }.to_array()
    }

    fn as_array<T: Element>(&self) -> Option<ArrayViewD<'_, T>> {
        let elements = (self.dtype() == T::DTYPE).then(|| T::slice(self.bytes())).flatten()?;
        ArrayViewD::from_shape(IxDyn(self.shape()), elements).ok()
    }
}

impl ToArray for View<'_> {
    fn to_array<T: Element>(&self) -> Option<ArrayD<T>> {
        let elements = (self.ty.dtype == T::DTYPE).then(|| T::copied(self.bytes)).flatten()?;
        ArrayD::from_shape_vec(IxDyn(&self.ty.shape), elements).ok()
    }

    fn as_array<T: Element>(&self) -> Option<ArrayViewD<'_, T>> {
        ArrayViewD::from_shape(IxDyn(&self.ty.shape), self.elements()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array, Array2, array, s};
    use proptest::prelude::*;
    use tile_compiler::tensor::TensorType;

    use super::*;

    #[test]
    fn arrays_and_tensors_hold_the_same() {
        let array = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
        let transposed = array.t().to_tensor().unwrap();
        assert_eq!(transposed, Tensor::from_f32([3, 2], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]).unwrap());
        assert_eq!(transposed.to_array::<f32>().unwrap(), array.t().into_dyn());
        assert_eq!(transposed.as_array::<f32>().unwrap(), array.t().into_dyn());
        assert_eq!(transposed.to_array::<i32>(), None);
        // A view may stretch one element to more than memory has.
        assert_eq!(array.broadcast([1 << 45, 2, 3]).unwrap().to_tensor(), None);
        assert_eq!(array![true, false].to_tensor().unwrap().bytes(), [1, 0]);
        let bools = Tensor::from_bytes(TensorType::new(DType::Bool, [2]), vec![2, 0]).unwrap();
        assert_eq!(bools.to_array::<bool>().unwrap(), array![true, false].into_dyn());
        // No bool has the byte 2.
        assert_eq!(bools.as_array::<bool>(), None);
    }

    proptest! {
        #[test]
        fn strided_arrays_are_copied_in_order(
            rows in 0usize..70, columns in 0usize..70, step in 1isize..4, back: bool, turned: bool,
        ) {
            let large = Array::from_shape_fn((3 * rows.max(1), 2 * columns.max(1)), |(i, j)| (i * 1000 + j) as f32);
            let step = if back { -step } else { step };
            let view = large.slice(s![..rows, ..;step]);
            let view = if turned { view.reversed_axes() } else { view };
            let tensor = view.to_tensor().unwrap();
            prop_assert_eq!(tensor.to_f64s(), view.iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
            let mut target = Array2::<f32>::zeros((2 * view.nrows(), view.ncols()));
            target.slice_mut(s![..;2, ..]).copy_from(tensor.bytes());
            prop_assert_eq!(target.slice(s![..;2, ..]), view);
        }
    }

    #[test]
    fn long_strided_arrays_are_copied_by_all_threads() {
        let array = Array::from_shape_fn((1021, 517), |(i, j)| (i * 517 + j) as i32);
        let turned = array.t().to_tensor().unwrap();
        assert_eq!(turned.as_array::<i32>().unwrap(), array.t().into_dyn());
        assert_eq!(array.to_tensor().unwrap().to_array::<i32>().unwrap(), array.into_dyn());
    }
}
