//! [`Value`] and [`Destination`]: memory of an app that a session reads or writes, and [`View`]:
//! memory of a session that an app reads.

use tile_compiler::dtype::DType;
use tile_compiler::tensor::{Tensor, TensorType};

use crate::cpu::copy;
use crate::error::Error;

/// A value for an input or weight, which a session borrows: a [`Tensor`], a [`View`], or an array
/// or view of `ndarray` with any strides.
///
/// The cpu device reads a dense, row-major value of [`crate::Session::run`] where it is, if it is
/// aligned to its elements. Anything else is copied.
///
/// ```
/// use ndarray::array;
/// use tile_runtime::{Device, Model};
///
/// let model = Model::compile("function sums(X[N, K]) -> (Y) { Y[n: N] = +(X[n, k]); }")?;
/// let mut session = model.on(&Device::cpu()).input("X", [2, 3]).build()?;
/// let transposed = array![[1.0f32, 10.0], [2.0, 20.0], [3.0, 30.0]];
/// let sums = session.run([("X", transposed.t())])?.remove("Y")?;
/// assert_eq!(sums.to_f64s(), [6.0, 60.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Value: Sync {
    /// Returns the type of the elements.
    fn dtype(&self) -> DType;

    /// Returns the shape, outermost axis first.
    fn shape(&self) -> &[usize];

    /// Returns the bytes of the elements, if they are dense and row-major.
    fn dense(&self) -> Option<&[u8]>;

    /// Copies the elements to `bytes`, which has their size, in row-major order.
    fn copy_to(&self, bytes: &mut [u8]);
}

impl<T: Value + ?Sized> Value for &T {
    fn dtype(&self) -> DType {
        T::dtype(self)
    }

    fn shape(&self) -> &[usize] {
        T::shape(self)
    }

    fn dense(&self) -> Option<&[u8]> {
        T::dense(self)
    }

    fn copy_to(&self, bytes: &mut [u8]) {
        T::copy_to(self, bytes);
    }
}

impl Value for Tensor {
    fn dtype(&self) -> DType {
        Tensor::dtype(self)
    }

    fn shape(&self) -> &[usize] {
        Tensor::shape(self)
    }

    fn dense(&self) -> Option<&[u8]> {
        Some(self.bytes())
    }

    fn copy_to(&self, bytes: &mut [u8]) {
        copy::copy(self.bytes(), bytes);
    }
}

/// Returns the type of a value.
pub fn type_of(value: &dyn Value) -> TensorType {
    TensorType::new(value.dtype(), value.shape())
}

/// Copies a value to a tensor on a device that keeps tensors.
///
/// # Errors
/// [`Error::OutOfMemory`] if there is no memory for it.
pub fn tensor_on(value: &dyn Value, device: &str) -> Result<Tensor, Error> {
    let what = || format!("a value of type {}", type_of(value));
    to_tensor(value).ok_or_else(|| Error::OutOfMemory { device: device.into(), what: what() })
}

/// Copies a value to a tensor. Returns `None` if there is no memory for it.
pub fn to_tensor(value: &dyn Value) -> Option<Tensor> {
    let ty = type_of(value);
    match value.dense() {
        Some(bytes) => Tensor::from_bytes(ty, copy::copied(bytes)?),
        None => {
            let mut tensor = Tensor::from_bytes(ty.clone(), copy::zeroed(ty.checked_bytes()?)?)?;
            value.copy_to(tensor.bytes_mut());
            Some(tensor)
        }
    }
}

/// Memory for an output, which [`crate::Session::run_into`] writes: a slice of elements, a
/// [`Tensor`], or an array or view of `ndarray` with any strides.
///
/// The cpu device computes an output where it is to go, if that is dense, row-major, and aligned
/// to its elements. Anything else is copied.
///
/// ```
/// use tile_runtime::{Device, Model, Tensor};
///
/// let model = Model::compile("function double(X[N]) -> (Y) { Y = 2 * X; }")?;
/// let mut session = model.on(&Device::cpu()).dim("N", 2).build()?;
/// let mut doubled = [0.0f32; 2];
/// let x = Tensor::from_f32([2], &[1.0, 2.0]).unwrap();
/// session.run_into([("X", &x)], [("Y", &mut doubled[..])])?;
/// assert_eq!(doubled, [2.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Destination {
    /// Returns the type of the elements.
    fn dtype(&self) -> DType;

    /// Returns the shape, or `None` for a slice, which has only a length.
    fn shape(&self) -> Option<&[usize]>;

    /// Returns the number of elements.
    fn elements(&self) -> usize;

    /// Returns the bytes of the elements, if they are dense and row-major, and any bytes are
    /// elements.
    fn dense(&mut self) -> Option<&mut [u8]>;

    /// Copies the elements from `bytes`, which has their size, in row-major order.
    fn copy_from(&mut self, bytes: &[u8]);
}

impl<T: Destination + ?Sized> Destination for &mut T {
    fn dtype(&self) -> DType {
        T::dtype(self)
    }

    fn shape(&self) -> Option<&[usize]> {
        T::shape(self)
    }

    fn elements(&self) -> usize {
        T::elements(self)
    }

    fn dense(&mut self) -> Option<&mut [u8]> {
        T::dense(self)
    }

    fn copy_from(&mut self, bytes: &[u8]) {
        T::copy_from(self, bytes);
    }
}

impl Destination for Tensor {
    fn dtype(&self) -> DType {
        Tensor::dtype(self)
    }

    fn shape(&self) -> Option<&[usize]> {
        Some(Tensor::shape(self))
    }

    fn elements(&self) -> usize {
        self.ty().elements()
    }

    fn dense(&mut self) -> Option<&mut [u8]> {
        Some(self.bytes_mut())
    }

    fn copy_from(&mut self, bytes: &[u8]) {
        copy::copy(bytes, self.bytes_mut());
    }
}

impl<T: Element> Destination for [T] {
    fn dtype(&self) -> DType {
        T::DTYPE
    }

    fn shape(&self) -> Option<&[usize]> {
        None
    }

    fn elements(&self) -> usize {
        self.len()
    }

    fn dense(&mut self) -> Option<&mut [u8]> {
        T::bytes_mut(self)
    }

    fn copy_from(&mut self, bytes: &[u8]) {
        for (element, bytes) in self.iter_mut().zip(bytes.chunks_exact(size_of::<T>())) {
            *element = T::read(bytes);
        }
    }
}

/// An output in memory of its session, until the next call that changes the session.
///
/// ```
/// use tile_runtime::{Device, Model, Tensor};
///
/// let model = Model::compile("function double(X[N]) -> (Y) { Y = 2 * X; }")?;
/// let mut session = model.on(&Device::cpu()).dim("N", 2).build()?;
/// session.set("X", &Tensor::from_f32([2], &[1.0, 2.0]).unwrap())?;
/// session.execute()?;
/// assert_eq!(session.view("Y")?.elements::<f32>(), Some(&[2.0, 4.0][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View<'a> {
    pub(crate) ty: &'a TensorType,
    pub(crate) bytes: &'a [u8],
}

impl<'a> View<'a> {
    /// Returns the type of the tensor.
    pub fn ty(&self) -> &'a TensorType {
        self.ty
    }

    /// Returns the bytes of the elements: dense, row-major and little-endian.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the elements in row-major order. `None` if their type is not `T`.
    pub fn elements<T: Element>(&self) -> Option<&'a [T]> {
        (self.ty.dtype == T::DTYPE).then_some(self.bytes).and_then(T::slice)
    }

    /// Copies the output. Returns `None` if there is no memory for it.
    pub fn to_tensor(&self) -> Option<Tensor> {
        to_tensor(self)
    }
}

impl Value for View<'_> {
    fn dtype(&self) -> DType {
        self.ty.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.ty.shape
    }

    fn dense(&self) -> Option<&[u8]> {
        Some(self.bytes)
    }

    fn copy_to(&self, bytes: &mut [u8]) {
        copy::copy(self.bytes, bytes);
    }
}

/// A Rust type of tensor elements.
///
/// ```
/// use tile_runtime::{DType, Element};
///
/// assert_eq!(<f32 as Element>::DTYPE, DType::F32);
/// ```
pub trait Element: Copy + Send + Sync + sealed::Bytes {
    /// The type of these elements in Tile.
    const DTYPE: DType;
}

pub(crate) mod sealed {
    /// Elements as bytes. Memory is little-endian, as on every processor that Rust's standard
    /// library and wgpu share.
    pub trait Bytes: Sized {
        /// Reads the element at the start of `bytes`, which has at least its size.
        fn read(bytes: &[u8]) -> Self;
        /// Returns the bytes of elements.
        fn bytes(elements: &[Self]) -> &[u8];
        /// Returns the bytes of elements for writing. `None` if some bytes are no element.
        fn bytes_mut(elements: &mut [Self]) -> Option<&mut [u8]>;
        /// Returns bytes as elements. `None` if they are not aligned, or are no elements.
        fn slice(bytes: &[u8]) -> Option<&[Self]>;
        /// Returns bytes as elements for writing. `None` if they are not aligned, or could be no
        /// elements.
        fn slice_mut(bytes: &mut [u8]) -> Option<&mut [Self]>;
        /// Copies the elements of `bytes`. `None` if there is no memory for them.
        fn copied(bytes: &[u8]) -> Option<Vec<Self>>;
    }
}

macro_rules! elements {
    ($($t:ty = $dtype:ident),*) => { $(
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
        }

        impl sealed::Bytes for $t {
            fn read(bytes: &[u8]) -> Self {
                bytemuck::pod_read_unaligned(&bytes[..size_of::<$t>()])
            }

            fn bytes(elements: &[Self]) -> &[u8] {
                bytemuck::cast_slice(elements)
            }

            fn bytes_mut(elements: &mut [Self]) -> Option<&mut [u8]> {
                Some(bytemuck::cast_slice_mut(elements))
            }

            fn slice(bytes: &[u8]) -> Option<&[Self]> {
                match bytes {
                    // It may be aligned to nothing.
                    [] => Some(&[]),
                    _ => bytemuck::try_cast_slice(bytes).ok(),
                }
            }

            fn slice_mut(bytes: &mut [u8]) -> Option<&mut [Self]> {
                bytemuck::try_cast_slice_mut(bytes).ok()
            }

            fn copied(bytes: &[u8]) -> Option<Vec<Self>> {
                copy::copied(bytes)
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
    fn read(bytes: &[u8]) -> bool {
        bytes[0] != 0
    }

    fn bytes(elements: &[bool]) -> &[u8] {
        bytemuck::cast_slice(elements)
    }

    fn bytes_mut(_: &mut [bool]) -> Option<&mut [u8]> {
        None
    }

    fn slice(bytes: &[u8]) -> Option<&[bool]> {
        bytemuck::checked::try_cast_slice(bytes).ok()
    }

    fn slice_mut(_: &mut [u8]) -> Option<&mut [bool]> {
        None
    }

    fn copied(bytes: &[u8]) -> Option<Vec<bool>> {
        let mut elements = tile_compiler::tensor::with_room(bytes.len())?;
        elements.extend(bytes.iter().map(|&byte| byte != 0));
        Some(elements)
    }
}
