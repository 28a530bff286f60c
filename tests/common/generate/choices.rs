//! [`Choices`]: random draws that shrink.

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType};

/// A source of draws: each is the next number of a list, and 0 after its end.
pub struct Choices {
    numbers: std::vec::IntoIter<u32>,
}

impl Choices {
    pub fn new(numbers: Vec<u32>) -> Choices {
        Choices { numbers: numbers.into_iter() }
    }

    /// Returns a number below `count`; 0 is the simplest.
    pub fn pick(&mut self, count: usize) -> usize {
        self.numbers.next().unwrap_or(0) as usize % count
    }

    /// Returns true about once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.pick(times) == times - 1
    }

    /// Returns one of the items, of which the first is the simplest.
    pub fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.pick(items.len())]
    }

    /// Returns an element type; f32 is the first and most frequent.
    pub fn dtype(&mut self) -> DType {
        match self.pick(3) {
            0 | 1 => {
                self.of(&[DType::F32, DType::F32, DType::F16, DType::BF16, DType::I32, DType::F64])
            }
            _ => self.of(&DType::ALL),
        }
    }

    /// Returns a size: small ones, primes, and others that are not multiples of a tile; rarely 0.
    pub fn size(&mut self, most: usize) -> usize {
        let size =
            self.of(&[2, 3, 4, 1, 5, 7, 8, 9, 13, 16, 17, 31, 32, 33, 64, 67, 100, 128, 131]);
        let size = if self.once_in(60) { 0 } else { size };
        if size > most { 1 + size % most.max(1) } else { size }
    }

    /// Returns a tensor of multiples of `2^-grid` from `low` to `high`, as far as the type holds
    /// them. Each number gives other elements.
    pub fn tensor(
        &mut self,
        number: usize,
        ty: TensorType,
        low: f64,
        high: f64,
        grid: i32,
    ) -> Tensor {
        let mut state = (self.pick(1 << 31) + 7919 * number) as u64 + 1;
        let unit = 2f64.powi(-grid);
        let steps = ((high - low) / unit) as u64 + 1;
        let next = |_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            Scalar::from_f64(ty.dtype, low + ((state >> 33) % steps) as f64 * unit)
        };
        Tensor::from_scalars(ty.clone(), (0..ty.elements()).map(next).collect::<Vec<_>>()).unwrap()
    }
}
