//! Operands of 8-bit integers, as elements of four consecutive terms.

use super::kernel::Layout;
use super::pack::{Gather, Pack, Panel, Places, View};
use crate::cpu::memory::scratch;
use crate::cpu::vector::quad::QUAD;
use bytemuck::Pod;
use std::ops::Range;

/// An operand of 8-bit integers that lies in an array. Terms that its last elements have beyond
/// those of the sum are 0.
pub struct Quads<'a> {
    bytes: Gather<'a, u8>,
    /// The terms of a sum.
    terms: usize,
}

impl<'a> Quads<'a> {
    /// Creates an operand, as [`Gather::new`] does.
    pub fn new(data: &'a [u8], first: usize, places: &'a Places, steps: &[usize]) -> Self {
        Self { bytes: Gather::new(data, first, places, steps), terms: places.k.count() }
    }

    /// Packs a panel of the left operand: the terms of a row are contiguous.
    fn pack_rows<T: Pod>(
        &self,
        batch: usize,
        rows: Range<usize>,
        ks: Range<usize>,
        panel: Panel<T>,
    ) {
        let (terms, stride) = (self.terms_of(&ks), panel.outer_stride * QUAD);
        let data: &mut [u8] = bytemuck::cast_slice_mut(panel.data);
        for row in 0..rows.len() {
            data[row * stride..][terms.len()..ks.len() * QUAD].fill(0);
        }
        self.bytes.pack(batch, rows, terms, Panel { data, outer_stride: stride, k_stride: 1 });
    }

    /// Packs a panel of the right operand: the elements of a term are contiguous. Four rows of
    /// bytes become one of elements.
    fn pack_columns<T: Pod>(
        &self,
        batch: usize,
        columns: Range<usize>,
        ks: Range<usize>,
        panel: Panel<T>,
    ) {
        let (terms, width) = (self.terms_of(&ks), columns.len());
        let packed: &mut [u8] = bytemuck::cast_slice_mut(panel.data);
        scratch::with(ks.len() * QUAD * width, |rows: &mut [u8]| {
            rows[terms.len() * width..].fill(0);
            let lines = Panel { data: &mut *rows, outer_stride: 1, k_stride: width };
            self.bytes.pack(batch, columns, terms, lines);
            let groups = rows.chunks_exact(QUAD * width);
            for (four, to) in groups.zip(packed.chunks_mut(panel.k_stride * QUAD)) {
                let (a, rest) = four.split_at(width);
                let (b, rest) = rest.split_at(width);
                let (c, d) = rest.split_at(width);
                let quads = to.as_chunks_mut::<QUAD>().0.iter_mut();
                for ((((to, a), b), c), d) in quads.zip(a).zip(b).zip(c).zip(d) {
                    *to = [*a, *b, *c, *d];
                }
            }
        });
    }

    /// Returns the terms of some elements.
    fn terms_of(&self, ks: &Range<usize>) -> Range<usize> {
        ks.start * QUAD..self.terms.min(ks.end * QUAD)
    }
}

impl<T: Pod> Pack<T> for Quads<'_> {
    fn layout(&self) -> Layout {
        Layout::KContiguous
    }

    fn pack(&self, batch: usize, outer: Range<usize>, ks: Range<usize>, panel: Panel<T>) {
        if panel.k_stride == 1 {
            self.pack_rows(batch, outer, ks, panel);
        } else {
            self.pack_columns(batch, outer, ks, panel);
        }
    }

    fn view(&self, batch: usize, outer: Range<usize>, ks: Range<usize>) -> Option<View<'_, T>> {
        let terms = self.terms_of(&ks);
        let is_whole = terms.len() == ks.len() * QUAD;
        let one = outer.len() == 1;
        let View { data, outer_stride, k_stride } = self.bytes.view(batch, outer, terms)?;
        let is_even = one || outer_stride.is_multiple_of(QUAD);
        if !is_whole || !is_even || k_stride != 1 {
            return None;
        }
        let data = &data[..data.len() / QUAD * QUAD];
        let data = bytemuck::try_cast_slice(data).ok()?;
        Some(View { data, outer_stride: if one { 1 } else { outer_stride / QUAD }, k_stride })
    }
}
