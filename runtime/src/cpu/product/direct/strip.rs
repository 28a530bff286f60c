//! Strips: places along one direction × some vectors of columns, one tile after the other.

use super::kernel::{Addresses, Kernels, Tap};
use crate::cpu::loops::fused::Finish;
use tile_compiler::native::Form;

/// The taps of a partial sum.
const BLOCK: usize = 256;

/// The most rows, and the most vectors, of a kernel.
pub const MOST_ROWS: usize = 8;
const MOST_VECTORS: usize = 4;

/// Returns how many rows to take at once if `left` of `all` are left. They may be more than are
/// left.
fn rows_at_once(left: usize, all: usize) -> usize {
    let more = left.next_power_of_two();
    let rows = if more <= all { more } else { more / 2 };
    rows.min(MOST_ROWS)
}

/// Returns the most vectors whose sums fit into the registers beside others, if strips have so many
/// rows.
pub fn most_vectors(kernels: &Kernels, rows: usize) -> usize {
    (kernels.most_sums / rows_at_once(rows, rows)).min(MOST_VECTORS)
}

/// Returns how many vectors to take at once if so many columns are left, which may be fewer than a
/// vector has.
pub fn vectors_at_once(kernels: &Kernels, columns: usize, most: usize) -> usize {
    (1 << (columns / kernels.lanes).max(1).ilog2()).min(most)
}

/// The parameters that the tiles of a strip share.
pub struct Strip<'a> {
    pub kernels: &'a Kernels,
    pub form: Form,
    /// The kernels take every second element.
    pub apart: bool,
    pub vectors: usize,
    pub taps: &'a [Tap],
    pub finish: Option<&'a Finish>,
}

impl Strip<'_> {
    /// Computes a strip of so many rows, of which the first is at `place`.
    ///
    /// # Safety
    /// The contract of [`super::kernel::Kernel`] for these rows and vectors, all of whose places
    /// may be computed twice.
    pub unsafe fn run(&self, place: Addresses, rows: usize) {
        // Without taps, one call stores the aggregate of none.
        let last = self.taps.len().div_ceil(BLOCK).max(1) - 1;
        let most = self.kernels.most_sums / self.vectors;
        let mut row = 0;
        while row < rows {
            let height = rows_at_once(rows - row, rows).min(most);
            // The last rows may overlap those before.
            row = row.min(rows - height);
            let kernel = self.kernels.get(self.form, self.apart, height, self.vectors);
            let place = Addresses {
                x: place.x.wrapping_offset(row as isize * place.x_step),
                out: place.out.wrapping_add(row * place.out_step),
                after: place.after + row * place.out_step,
                ..place
            };
            for number in 0..=last {
                let end = self.taps.len().min((number + 1) * BLOCK);
                let taps = &self.taps[number * BLOCK..end];
                let finish = self.finish.filter(|_| number == last);
                // SAFETY: the contract is the same for some of the rows and taps.
                unsafe { kernel(taps, place, number == 0, finish) };
            }
            row += height;
        }
    }
}
