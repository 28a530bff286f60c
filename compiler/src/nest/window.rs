//! Windows: where the elements of a tensor lie within one that is in memory.
//!
//! Example: in step `t` of a scan over X: f32[8, 500, 64] along axis 1, its slice is the window of X with the shape
//! [8, 64], the strides [32000, 1], and 64 elements further on with each step: element `b, d` is at `32000*b + d + 64*t`.

use crate::affine::Affine;
use crate::tensor::TensorType;

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// What is in memory.
    pub tensor: TensorType,
    /// The sizes of the window.
    pub shape: Vec<usize>,
    /// Elements of `tensor` between neighbours along each axis of the window.
    pub strides: Vec<usize>,
    /// Elements of `tensor` that the window moves with each step of the loops around it, from the outermost on. It does
    /// not move with those that are left out.
    pub steps: Vec<usize>,
}

impl Window {
    /// All of a tensor.
    pub fn whole(tensor: &TensorType) -> Window {
        Window { strides: tensor.strides(), shape: tensor.shape.clone(), tensor: tensor.clone(), steps: Vec::new() }
    }

    /// What of the window is at the number of the step along `axis`, in the innermost of `depth` loops.
    pub fn at_step(mut self, axis: usize, depth: usize) -> Window {
        self.shape.remove(axis);
        self.steps.resize(depth, 0);
        self.steps[depth - 1] = self.strides.remove(axis);
        self
    }

    /// Whether it is the whole tensor, perhaps of another shape.
    pub fn is_whole(&self) -> bool {
        self.steps.iter().all(|&step| step == 0) && self.is_dense()
    }

    /// Whether its elements follow each other in row-major order.
    fn is_dense(&self) -> bool {
        let dense = TensorType::new(self.tensor.dtype, self.shape.as_slice()).strides();
        self.shape.iter().zip(&self.strides).zip(dense).all(|((&size, &stride), dense)| size == 1 || stride == dense)
    }

    /// The same elements in row-major order under another shape, where they follow each other.
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

    /// The position in the tensor of the element at `index`, where loop number n is at the step that variable
    /// `first_step + n` says. `None`: index arithmetic left the range of 64 bits.
    pub fn position(&self, index: &[Affine], first_step: usize) -> Option<Affine> {
        let mut position = Affine::constant(0);
        let steps = (first_step..).map(Affine::var);
        for (coordinate, &stride) in index.iter().cloned().chain(steps).zip(self.strides.iter().chain(&self.steps)) {
            position = position.add(&coordinate.scale(i64::try_from(stride).ok()?)?)?;
        }
        Some(position)
    }

    /// As [`Window::position`] of the element at a row-major position in the window. `quotient` gives the floor of the
    /// quotient of an expression and a divisor of at least 2.
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
