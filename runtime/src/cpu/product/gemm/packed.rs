//! The right operand, packed in panels.

use super::kernel::{Element, Kernels};
use super::pack::{Pack, Panel, Places};
use super::{Size, pool};
use crate::cpu::memory::Register;
use std::ops::Range;

/// The number of panels of B packed together.
const GROUP: usize = 8;

/// The right operand of a product, packed for any number of runs. Its readers name the type of its
/// elements.
pub struct Packed {
    panels: Register,
    /// The size of the product. A product with fewer columns or terms reads the first ones.
    size: Size,
    /// The elements of one batch.
    stride: usize,
}

/// Panels are the same for any number of rows.
impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        let layout = |packed: &Self| {
            let Size { n, k, blocks, .. } = packed.size;
            (n, k, blocks.terms, packed.stride)
        };
        layout(self) == layout(other) && self.panels == other.panels
    }
}

impl Packed {
    /// Packs `b` for a product of this size, in `room` if it is given: the memory of another one
    /// for the same size.
    pub fn new<T: Element>(size: Size, b: &impl Pack<T>, room: Option<Register>) -> Self {
        let stride = size.n.next_multiple_of(T::kernels().lanes) * size.k;
        let bytes = stride * size.batch * size_of::<T>();
        let mut panels = room.unwrap_or_else(|| Register::zeroed(bytes));
        for batch in 0..size.batch {
            let panels = &mut panels.elements_mut()[batch * stride..(batch + 1) * stride];
            pack(b, batch, 0..size.n, size, panels, T::kernels(), pool::threads());
        }
        Self { panels, size, stride }
    }

    /// Returns the size of the product for which it is packed.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Returns whether all elements, which must be f32, are finite.
    pub fn is_finite(&self) -> bool {
        const INFINITE: u32 = 0x7f80_0000;
        let bits = self.panels.elements::<u32>();
        bits.iter().fold(0, |most, bits| most.max(bits & INFINITE)) < INFINITE
    }

    /// Returns the memory, for [`Packed::new`].
    pub fn into_memory(self) -> Register {
        self.panels
    }

    /// Restores the array that was packed from these places. Each place must be another element of
    /// the array, and together they must be all of it.
    pub fn unpack<T: Element>(&self, size: Size, places: &Places) -> Vec<T> {
        let mut array = vec![T::default(); size.batch * size.n * size.k];
        for batch in 0..size.batch {
            let (packed, index) = (self.batch::<T>(batch), index::<T>(size));
            for k in 0..size.k {
                for n in 0..size.n {
                    array[places.offset(batch, n, k)] = packed[index(k, n)];
                }
            }
        }
        array
    }

    /// Copies the first terms of a column of one batch.
    pub fn column<T: Element>(&self, batch: usize, n: usize, to: &mut [T]) {
        let (packed, index) = (self.batch::<T>(batch), index::<T>(self.size));
        for (k, to) in to.iter_mut().enumerate() {
            *to = packed[index(k, n)];
        }
    }

    /// Returns the panels of one batch, in the layout of `pack`.
    pub fn batch<T: Element>(&self, batch: usize) -> &[T] {
        &self.panels.elements()[batch * self.stride..(batch + 1) * self.stride]
    }
}

/// Returns the function that maps k and n to an element's index among a batch's panels.
fn index<T: Element>(size: Size) -> impl Fn(usize, usize) -> usize {
    let kernels = T::kernels();
    let (width, kc, padded) =
        (kernels.columns(), size.blocks.terms, size.n.next_multiple_of(kernels.lanes));
    move |k, n| {
        let (first, start) = (k / kc * kc, n / width * width);
        let terms = kc.min(size.k - first);
        first * padded + start * terms + (k - first) * width.min(padded - start) + n - start
    }
}

/// Packs `columns` of B: for each block of k, panels as wide as the kernel, each k-major. The last
/// panel is as wide as its columns, rounded up to whole vectors.
pub fn pack<T: Element>(
    b: &impl Pack<T>,
    batch: usize,
    columns: Range<usize>,
    Size { k, blocks, .. }: Size,
    packed: &mut [T],
    kernels: Kernels<T>,
    threads: usize,
) {
    if k == 0 {
        return;
    }
    let kc = blocks.terms;
    let (width, lanes) = (kernels.columns(), kernels.lanes);
    let padded = columns.len().next_multiple_of(lanes);
    // Neighbouring panels are filled together, a few k at a time, so that long pieces of the
    // source's rows are read at once.
    let (group, step) = (GROUP * width, b.k_step().min(kc));
    let groups = packed.chunks_mut(kc * padded).enumerate().flat_map(|(block, packed)| {
        let ks = block * kc..k.min((block + 1) * kc);
        packed
            .chunks_mut(group * ks.len())
            .enumerate()
            .map(move |(i, data)| (ks.clone(), i * group, data))
    });
    let pack = |ks: Range<usize>, start: usize, data: &mut [T]| {
        for k in ks.clone().step_by(step) {
            let some = k..ks.end.min(k + step);
            for (i, data) in data.chunks_mut(width * ks.len()).enumerate() {
                let first = columns.start + start + i * width;
                let outer = first..columns.end.min(first + width);
                let k_stride = outer.len().next_multiple_of(lanes);
                let data = &mut data[(k - ks.start) * k_stride..][..some.len() * k_stride];
                if k_stride != outer.len() {
                    data.fill(T::default());
                }
                b.pack(batch, outer, some.clone(), Panel { data, outer_stride: 1, k_stride });
            }
        }
    };
    if threads == 1 {
        return groups.for_each(|(ks, start, data)| pack(ks, start, data));
    }
    let groups: Vec<_> =
        groups.map(|(ks, start, data)| (ks, start, std::sync::Mutex::new(data))).collect();
    pool::run(groups.len(), |group| {
        let (ks, start, data) = &groups[group];
        if let Ok(mut data) = data.lock() {
            pack(ks.clone(), *start, &mut data);
        }
    });
}
