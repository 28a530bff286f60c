//! Tensor types, and tensors in host memory.

use std::fmt;

use crate::dtype::{DType, Scalar};

/// Element type and sizes of a tensor. Storage is always dense and row-major.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    pub dtype: DType,
    /// One size an axis, outermost first; empty for rank 0; a size may be 0.
    pub shape: Vec<usize>,
}

impl TensorType {
    pub fn new(dtype: DType, shape: impl Into<Vec<usize>>) -> TensorType {
        TensorType { dtype, shape: shape.into() }
    }

    pub fn scalar(dtype: DType) -> TensorType {
        TensorType::new(dtype, [])
    }

    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements, or `None` when it does not fit `usize`.
    pub fn checked_elements(&self) -> Option<usize> {
        if self.shape.contains(&0) {
            return Some(0);
        }
        self.shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
    }

    /// Number of elements. Types in a verified graph have one that fits.
    pub fn elements(&self) -> usize {
        self.checked_elements().unwrap_or(usize::MAX)
    }

    /// Elements between neighbours along each axis.
    pub fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1usize; self.rank()];
        for axis in (1..self.rank()).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(self.shape[axis].max(1));
        }
        strides
    }
}

/// `f32[3, 4]`
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape)
    }
}

/// The shape to which `shapes` broadcast, NumPy's way: aligned at the last axis, a size 1 stretches.
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

/// A tensor in host memory: dense, row-major, little-endian, `dtype.size()` bytes an element.
#[derive(Clone, PartialEq)]
pub struct Tensor {
    ty: TensorType,
    bytes: Vec<u8>,
}

impl Tensor {
    /// A tensor of the type's elements in `bytes`; `None` unless there are exactly as many bytes as the type takes.
    pub fn from_bytes(ty: TensorType, bytes: Vec<u8>) -> Option<Tensor> {
        let fits = ty.checked_elements().and_then(|n| n.checked_mul(ty.dtype.size())) == Some(bytes.len());
        fits.then_some(Tensor { ty, bytes })
    }

    /// All zeros (false for bool); `None` when the size does not fit memory's address range.
    pub fn zeros(ty: TensorType) -> Option<Tensor> {
        let length = ty.checked_elements()?.checked_mul(ty.dtype.size())?;
        Some(Tensor { ty, bytes: vec![0; length] })
    }

    /// A tensor of the given scalars, each cast to `ty.dtype`; `None` unless there are exactly as many as elements.
    pub fn from_scalars(ty: TensorType, scalars: impl IntoIterator<Item = Scalar>) -> Option<Tensor> {
        let size = ty.dtype.size();
        let mut bytes = Vec::with_capacity(ty.checked_elements()?.checked_mul(size)?);
        for scalar in scalars {
            bytes.extend_from_slice(&scalar.cast(ty.dtype).bits().to_le_bytes()[..size]);
        }
        Tensor::from_bytes(ty, bytes)
    }

    /// An f32 tensor; `None` unless there are exactly as many values as elements.
    pub fn from_f32(shape: impl Into<Vec<usize>>, values: &[f32]) -> Option<Tensor> {
        Tensor::from_bytes(TensorType::new(DType::F32, shape), values.iter().flat_map(|v| v.to_le_bytes()).collect())
    }

    /// The same elements with the axes in another order: axis i is `order[i]` of this tensor. `order` has each axis once.
    pub fn transposed(&self, order: &[usize]) -> Tensor {
        let size = self.ty.dtype.size();
        let (shape, strides): (Vec<usize>, Vec<usize>) =
            order.iter().map(|&axis| (self.ty.shape[axis], self.ty.strides()[axis])).unzip();
        let mut bytes = Vec::with_capacity(self.bytes.len());
        let mut place = vec![0; shape.len()];
        let mut at = 0;
        for _ in 0..self.ty.elements() {
            bytes.extend_from_slice(&self.bytes[at * size..][..size]);
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
        Tensor { ty: TensorType::new(self.ty.dtype, shape), bytes }
    }

    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    pub fn dtype(&self) -> DType {
        self.ty.dtype
    }

    pub fn shape(&self) -> &[usize] {
        &self.ty.shape
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The element at a row-major position, which must be below the number of elements.
    pub fn get(&self, position: usize) -> Scalar {
        let size = self.ty.dtype.size();
        let mut raw = [0u8; 8];
        raw[..size].copy_from_slice(&self.bytes[position * size..][..size]);
        Scalar::from_bits(self.ty.dtype, u64::from_le_bytes(raw))
    }

    /// Sets the element at a row-major position, which must be below the number of elements, to `value` cast to the type.
    pub fn set(&mut self, position: usize, value: Scalar) {
        let size = self.ty.dtype.size();
        let raw = value.cast(self.ty.dtype).bits().to_le_bytes();
        self.bytes[position * size..][..size].copy_from_slice(&raw[..size]);
    }

    /// All elements in row-major order.
    pub fn scalars(&self) -> impl Iterator<Item = Scalar> + '_ {
        (0..self.ty.elements()).map(|i| self.get(i))
    }

    /// Whether no element is NaN or infinite.
    pub fn is_finite(&self) -> bool {
        match self.ty.dtype {
            DType::F32 => self.bytes.as_chunks::<4>().0.iter().all(|&bytes| f32::from_le_bytes(bytes).is_finite()),
            dtype => !dtype.is_float() || self.scalars().all(|value| value.to_f64().is_finite()),
        }
    }

    /// All elements as `f64`, in row-major order.
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
