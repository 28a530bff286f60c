//! Windows: the layout of a tensor within another tensor that is in memory.
//!
//! Example: step `t` of a scan over X: f32[8, 500, 64] along axis 1 reads a window of X with the
//! shape [8, 64] and the strides [32000, 1], which advances by 64 elements a step. Its element
//! `b, d` is at `32000*b + d + 64*t`.

use crate::affine::Affine;
use crate::tensor::TensorType;

/// The layout of a tensor within another tensor that is in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The tensor in memory.
    pub tensor: TensorType,
    /// Sizes of the window.
    pub shape: Vec<usize>,
    /// Stride along each axis of the window, in elements of `tensor`.
    pub strides: Vec<usize>,
    /// Elements of `tensor` by which the window advances with each step of the loops around it,
    /// outermost first. It does not move with loops that are left out.
    pub steps: Vec<usize>,
}

impl Window {
    /// Returns a window of the whole tensor.
    pub fn whole(tensor: &TensorType) -> Window {
        Window {
            strides: tensor.strides(),
            shape: tensor.shape.clone(),
            tensor: tensor.clone(),
            steps: Vec::new(),
        }
    }

    /// Returns the slice of the window along `axis` that is selected by the step of the innermost
    /// of `depth` loops.
    pub fn at_step(mut self, axis: usize, depth: usize) -> Window {
        self.shape.remove(axis);
        self.steps.resize(depth, 0);
        self.steps[depth - 1] = self.strides.remove(axis);
        self
    }

    /// Returns whether the window is the whole tensor, perhaps in another shape.
    pub fn is_whole(&self) -> bool {
        self.steps.iter().all(|&step| step == 0) && self.is_dense()
    }

    /// Returns whether the elements are contiguous in row-major order.
    fn is_dense(&self) -> bool {
        let dense = TensorType::new(self.tensor.dtype, self.shape.as_slice()).strides();
        self.shape
            .iter()
            .zip(&self.strides)
            .zip(dense)
            .all(|((&size, &stride), dense)| size == 1 || stride == dense)
    }

    /// Returns the window with another shape and the same row-major order, or `None` if it is not
    /// contiguous and the shape differs.
    pub fn reshaped(mut self, shape: &[usize]) -> Option<Window> {
        if self.shape != shape {
            if !self.is_dense() {
                return None;
            }
            self.strides = TensorType::new(self.tensor.dtype, shape).strides();
            self.shape = shape.to_vec();
        }
        Some(self)
    }

    /// Returns the position in the tensor of the element at `index`. Variable `first_step + n` is
    /// the step of loop `n`. Returns `None` if index arithmetic overflows 64 bits.
    pub fn position(&self, index: &[Affine], first_step: usize) -> Option<Affine> {
        let mut position = Affine::constant(0);
        let steps = (first_step..).map(Affine::var);
        for (coordinate, &stride) in
            index.iter().cloned().chain(steps).zip(self.strides.iter().chain(&self.steps))
        {
            position = position.add(&coordinate.scale(i64::try_from(stride).ok()?)?)?;
        }
        Some(position)
    }

    /// Returns the position in the tensor of the element at a row-major position in the window; see
    /// [`Window::position`]. `quotient` returns the floor of the quotient of an expression and a
    /// divisor of at least 2.
    pub fn position_of(
        &self,
        row_major: &Affine,
        first_step: usize,
        quotient: &mut impl FnMut(&Affine, i64) -> Option<Affine>,
    ) -> Option<Affine> {
        if self.is_dense() {
            let steps = (first_step..).map(Affine::var).zip(&self.steps);
            return steps.into_iter().try_fold(row_major.clone(), |sum, (step, &stride)| {
                sum.add(&step.scale(i64::try_from(stride).ok()?)?)
            });
        }
        let mut rest = row_major.clone();
        let mut index = vec![Affine::constant(0); self.shape.len()];
        for (axis, &size) in self.shape.iter().enumerate().rev() {
            if axis == 0 {
                index[axis] = rest;
                break;
            }
            let size = i64::try_from(size).ok()?;
            let outer = if size == 1 { rest.clone() } else { quotient(&rest, size)? };
            index[axis] = rest.sub(&outer.scale(size)?)?;
            rest = outer;
        }
        self.position(&index, first_step)
    }
}
