//! Operands of f16 and bf16, as elements of f32.

use super::kernel::Layout;
use super::pack::{Gather, Pack, Panel, Places};
use crate::cpu::memory::scratch;
use crate::cpu::vector;
use bytemuck::Pod;
use half::{bf16, f16};
use std::ops::Range;
use tile_compiler::dtype::DType;

/// An operand of f16 or bf16 that lies in an array. Its elements are widened while they are packed.
pub struct Halves<'a> {
    bits: Gather<'a, u16>,
    dtype: DType,
}

impl<'a> Halves<'a> {
    /// Creates an operand of this type, as [`Gather::new`] does.
    pub fn new(
        dtype: DType,
        data: &'a [u16],
        first: usize,
        places: &'a Places,
        steps: &[usize],
    ) -> Self {
        Self { bits: Gather::new(data, first, places, steps), dtype }
    }

    /// Widens as many elements as `to` has.
    fn widen(&self, bits: &[u16], to: &mut [f32]) {
        match self.dtype {
            DType::BF16 => vector::to_f32(bytemuck::cast_slice::<u16, bf16>(bits), to),
            _ => vector::to_f32(bytemuck::cast_slice::<u16, f16>(bits), to),
        }
    }
}

impl<T: Pod> Pack<T> for Halves<'_> {
    fn layout(&self) -> Layout {
        self.bits.layout()
    }

    fn pack(&self, batch: usize, outer: Range<usize>, ks: Range<usize>, panel: Panel<T>) {
        assert_eq!(size_of::<T>(), size_of::<f32>(), "halves become elements of f32");
        let to: &mut [f32] = bytemuck::cast_slice_mut(panel.data);
        // The copy's lines go in the direction that is contiguous in the array, if one is.
        let along_k = self.bits.layout() == Layout::KContiguous;
        let (lines, length) =
            if along_k { (outer.len(), ks.len()) } else { (ks.len(), outer.len()) };
        let [line_stride, stride] = match along_k {
            true => [panel.outer_stride, panel.k_stride],
            false => [panel.k_stride, panel.outer_stride],
        };
        if lines * length == 0 {
            return;
        }
        scratch::with(lines * length, |bits: &mut [u16]| {
            let (outer_stride, k_stride) = if along_k { (length, 1) } else { (1, length) };
            self.bits.pack(batch, outer, ks, Panel { data: &mut *bits, outer_stride, k_stride });
            if stride == 1 {
                for (bits, to) in bits.chunks(length).zip(to.chunks_mut(line_stride.max(length))) {
                    self.widen(bits, &mut to[..length]);
                }
                return;
            }
            scratch::with(lines * length, |wide: &mut [f32]| {
                self.widen(bits, wide);
                if stride == lines {
                    // As words, the type that `exchange` is compiled for in any case.
                    let to = bytemuck::cast_slice_mut(&mut to[..lines * length]);
                    let wide: &[i32] = bytemuck::cast_slice(wide);
                    return vector::exchange::<i32>(wide, 0, length, lines, to);
                }
                for (line, wide) in wide.chunks(length).enumerate() {
                    let to = to[line * line_stride..].iter_mut().step_by(stride);
                    to.zip(wide).for_each(|(to, x)| *to = *x);
                }
            });
        });
    }
}
