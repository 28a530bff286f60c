//! Tensor types, and tensors in host memory.

use std::fmt;
use std::sync::Arc;

use crate::dtype::{DType, Scalar};

/// Element type and sizes of a tensor. Storage is always dense and row-major.
///
/// ```
/// use tile_compiler::dtype::DType;
/// use tile_compiler::tensor::TensorType;
///
/// let ty = TensorType::new(DType::F16, [2, 3]);
/// assert_eq!(ty.to_string(), "f16[2, 3]");
/// assert_eq!((ty.rank(), ty.elements(), ty.strides()), (2, 6, vec![3, 1]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct TensorType {
    /// The type of the elements.
    pub dtype: DType,
    /// One size an axis, outermost first. It is empty for rank 0, and a size may be 0.
    pub shape: Vec<usize>,
}

impl TensorType {
    /// Creates the type of a tensor with this shape, outermost axis first.
    pub fn new(dtype: DType, shape: impl Into<Vec<usize>>) -> TensorType {
        TensorType { dtype, shape: shape.into() }
    }

    /// Creates the type of a tensor of rank 0.
    pub fn scalar(dtype: DType) -> TensorType {
        TensorType::new(dtype, [])
    }

    /// Returns the number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns the number of elements, or `None` if it does not fit `usize`.
    pub fn checked_elements(&self) -> Option<usize> {
        if self.shape.contains(&0) {
            return Some(0);
        }
        self.shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
    }

    /// Returns the number of bytes, or `None` if it does not fit `usize`.
    pub fn checked_bytes(&self) -> Option<usize> {
        self.checked_elements()?.checked_mul(self.dtype.size())
    }

    /// Returns the number of elements, which fits `usize` for types in a verified graph.
    pub fn elements(&self) -> usize {
        self.checked_elements().unwrap_or(usize::MAX)
    }

    /// Returns the stride of each axis, in elements.
    pub fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1usize; self.rank()];
        for axis in (1..self.rank()).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(self.shape[axis].max(1));
        }
        strides
    }
}

/// Prints as `f32[3, 4]`.
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape)
    }
}

/// Returns the shape to which `shapes` broadcast as in NumPy: aligned at the last axis, with size 1
/// stretched. `None` if they do not broadcast.
pub fn broadcast<'a>(shapes: impl IntoIterator<Item = &'a [usize]>) -> Option<Vec<usize>> {
    let mut result: Vec<usize> = Vec::new();
    for shape in shapes {
        while result.len() < shape.len() {
            result.insert(0, 1);
        }
        let offset = result.len() - shape.len();
        for (have, &want) in result[offset..].iter_mut().zip(shape) {
            match (*have, want) {
                (a, b) if a == b => {}
                (1, b) => *have = b,
                (_, 1) => {}
                _ => return None,
            }
        }
    }
    Some(result)
}

/// Returns `length` zeros, or `None` if the allocator has no memory for them. Every allocation
/// whose size comes from outside is made by this function, [`with_room`] or `try_reserve`.
pub fn zeroed(length: usize) -> Option<Vec<u8>> {
    Vec::<u8>::new().try_reserve_exact(length).ok()?;
    // An allocator that gets zeroed pages from the system does not write them.
    Some(vec![0; length])
}

/// Returns an empty vector with room for `count` items, or `None` if there is no memory for them.
pub fn with_room<T>(count: usize) -> Option<Vec<T>> {
    let mut items = Vec::new();
    items.try_reserve_exact(count).ok()?;
    Some(items)
}

/// A tensor in host memory: dense, row-major, little-endian, `dtype.size()` bytes an element.
/// Clones share their memory until one of them is written.
///
/// ```
/// use tile_compiler::dtype::DType;
/// use tile_compiler::tensor::Tensor;
///
/// let tensor = Tensor::from_f32([2, 2], &[1.0, 2.0, 3.0, 4.0]).unwrap();
/// assert_eq!((tensor.dtype(), tensor.shape()), (DType::F32, &[2, 2][..]));
/// assert_eq!(tensor.transposed(&[1, 0]).unwrap().to_f64s(), [1.0, 3.0, 2.0, 4.0]);
/// assert!(Tensor::from_f32([3], &[1.0]).is_none());
/// ```
#[derive(Clone)]
pub struct Tensor {
    ty: TensorType,
    /// Has the elements, `length` bytes from `start` on.
    memory: Arc<Vec<u8>>,
    start: usize,
    length: usize,
}

/// Returns an f32 tensor without elements.
impl Default for Tensor {
    fn default() -> Tensor {
        Tensor::new(TensorType::new(DType::F32, [0]), Vec::new())
    }
}

impl PartialEq for Tensor {
    fn eq(&self, other: &Tensor) -> bool {
        self.ty == other.ty && self.bytes() == other.bytes()
    }
}

impl Tensor {
    /// Returns a tensor with these bytes, whose number is that of the type.
    fn new(ty: TensorType, bytes: Vec<u8>) -> Tensor {
        let length = bytes.len();
        Tensor { ty, memory: Arc::new(bytes), start: 0, length }
    }

    /// Returns a tensor with these bytes, or `None` if their number is not that of the type.
    pub fn from_bytes(ty: TensorType, bytes: Vec<u8>) -> Option<Tensor> {
        let fits = ty.checked_bytes() == Some(bytes.len());
        fits.then(|| Tensor::new(ty, bytes))
    }

    /// Returns a tensor whose elements are in shared memory from the byte `start` on, or `None` if
    /// that has too few bytes.
    pub fn from_shared(ty: TensorType, memory: Arc<Vec<u8>>, start: usize) -> Option<Tensor> {
        let length = ty.checked_bytes()?;
        let fits = start.checked_add(length)? <= memory.len();
        fits.then_some(Tensor { ty, memory, start, length })
    }

    /// Returns a tensor of zeros (false for bool), or `None` if there is no memory for it.
    pub fn zeros(ty: TensorType) -> Option<Tensor> {
        let length = ty.checked_bytes()?;
        Some(Tensor::new(ty, zeroed(length)?))
    }

    /// Returns a tensor of the given scalars, each cast to `ty.dtype`, or `None` if their number is
    /// not that of the elements, or there is no memory for them. Takes at most one scalar too many.
    pub fn from_scalars(
        ty: TensorType,
        scalars: impl IntoIterator<Item = Scalar>,
    ) -> Option<Tensor> {
        let size = ty.dtype.size();
        let count = ty.checked_elements()?;
        let mut bytes: Vec<u8> = with_room(count.checked_mul(size)?)?;
        let mut scalars = scalars.into_iter();
        for scalar in scalars.by_ref().take(count) {
            bytes.extend_from_slice(&scalar.cast(ty.dtype).bits().to_le_bytes()[..size]);
        }
        if scalars.next().is_some() { None } else { Tensor::from_bytes(ty, bytes) }
    }

    /// Returns an f32 tensor, or `None` if the number of values is not that of the elements, or
    /// there is no memory for them.
    pub fn from_f32(shape: impl Into<Vec<usize>>, values: &[f32]) -> Option<Tensor> {
        let ty = TensorType::new(DType::F32, shape);
        if ty.checked_elements() != Some(values.len()) {
            return None;
        }
        let mut bytes: Vec<u8> = with_room(values.len().checked_mul(size_of::<f32>())?)?;
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        Some(Tensor::new(ty, bytes))
    }

    /// Returns the tensor with its axes permuted: axis i is axis `order[i]` of this one. Returns
    /// `None` if `order` does not contain each axis once, or there is no memory for the result.
    pub fn transposed(&self, order: &[usize]) -> Option<Tensor> {
        let mut is_used = vec![false; self.ty.rank()];
        let is_new = |axis: &usize| {
            is_used.get_mut(*axis).is_some_and(|used| !std::mem::replace(used, true))
        };
        if order.len() != self.ty.rank() || !order.iter().all(is_new) {
            return None;
        }
        let ty = TensorType::new(
            self.ty.dtype,
            order.iter().map(|&axis| self.ty.shape[axis]).collect::<Vec<_>>(),
        );
        let of_axes = self.ty.strides();
        let (size, elements) = (self.ty.dtype.size(), self.ty.elements());
        // Axes of size 1 move nothing.
        let axes = order.iter().filter(|&&axis| self.ty.shape[axis] != 1);
        let (shape, strides): (Vec<usize>, Vec<usize>) =
            axes.map(|&axis| (self.ty.shape[axis], of_axes[axis])).unzip();
        let mut bytes: Vec<u8> = with_room(self.bytes().len())?;
        let from = self.bytes();
        let mut place = vec![0; shape.len()];
        let mut at = 0;
        for _ in 0..elements {
            bytes.extend_from_slice(&from[at * size..][..size]);
            for axis in (0..shape.len()).rev() {
                place[axis] += 1;
                at += strides[axis];
                if place[axis] < shape[axis] {
                    break;
                }
                at -= strides[axis] * shape[axis];
                place[axis] = 0;
            }
        }
        Some(Tensor::new(ty, bytes))
    }

    /// Returns the type.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        self.ty.dtype
    }

    /// Returns the shape, outermost axis first.
    pub fn shape(&self) -> &[usize] {
        &self.ty.shape
    }

    /// Returns the elements in row-major order, little-endian.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..][..self.length]
    }

    /// Returns the bytes, as [`Tensor::bytes`] does, for writing. If others share the memory, the
    /// tensor gets its own first.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if Arc::get_mut(&mut self.memory).is_none() {
            *self = Tensor::new(self.ty.clone(), self.bytes().to_vec());
        }
        let memory = Arc::get_mut(&mut self.memory).map_or(&mut [][..], |memory| &mut memory[..]);
        &mut memory[self.start..][..self.length]
    }

    /// Returns the bytes of each element, in row-major order, for writing.
    pub fn elements_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let size = self.ty.dtype.size();
        self.bytes_mut().chunks_exact_mut(size)
    }

    /// Returns the bytes, as [`Tensor::bytes`] does: a copy if others share the memory.
    pub fn into_bytes(self) -> Vec<u8> {
        let end = self.start + self.length;
        match Arc::try_unwrap(self.memory) {
            Ok(mut memory) => {
                memory.truncate(end);
                memory.drain(..self.start);
                memory
            }
            Err(shared) => shared[self.start..end].to_vec(),
        }
    }

    /// Returns the element at a row-major position, or zero if the position is not below the number
    /// of elements.
    pub fn get(&self, position: usize) -> Scalar {
        let size = self.ty.dtype.size();
        let mut raw = [0u8; 8];
        if let Some(element) =
            self.bytes().get(position.saturating_mul(size)..).and_then(|rest| rest.get(..size))
        {
            raw[..size].copy_from_slice(element);
        }
        Scalar::from_bits(self.ty.dtype, u64::from_le_bytes(raw))
    }

    /// Sets the element at a row-major position to `value` cast to the type. Does nothing if the
    /// position is not below the number of elements.
    pub fn set(&mut self, position: usize, value: Scalar) {
        let size = self.ty.dtype.size();
        let value = value.cast(self.ty.dtype);
        let rest = self.bytes_mut().get_mut(position.saturating_mul(size)..);
        if let Some(element) = rest.and_then(|rest| rest.get_mut(..size)) {
            value.write_to(element);
        }
    }

    /// Returns all elements in row-major order.
    pub fn scalars(&self) -> impl Iterator<Item = Scalar> + '_ {
        (0..self.ty.elements()).map(|i| self.get(i))
    }

    /// Returns whether no element is NaN or infinite.
    pub fn is_finite(&self) -> bool {
        match self.ty.dtype {
            DType::F32 => self
                .bytes()
                .as_chunks::<4>()
                .0
                .iter()
                .all(|&bytes| f32::from_le_bytes(bytes).is_finite()),
            dtype => !dtype.is_float() || self.scalars().all(|value| value.to_f64().is_finite()),
        }
    }

    /// Returns all elements as `f64`, in row-major order.
    pub fn to_f64s(&self) -> Vec<f64> {
        self.scalars().map(Scalar::to_f64).collect()
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.scalars().take(16).map(|s| s.to_string()).collect::<Vec<_>>().join(", ");
        let more = if self.ty.elements() > 16 { ", …" } else { "" };
        write!(f, "{} [{shown}{more}]", self.ty)
    }
}
